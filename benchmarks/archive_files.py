"""Files that the benchmarks of archives generate parts from."""
import pathlib, shutil, subprocess

# Files of a shard.
SHARD = 10_000


def template(folder, chunks):
    """Writes a file of one time step, or of one day in chunks of a part of the globe. Returns its path."""
    import numpy as np
    import xarray as xr
    path = folder / f"template{chunks}.nc"
    if path.exists():
        return path
    steps, lat, lon, sizes = (1, 181, 360, (1, 181, 360)) if chunks == 1 else (24, 100, 200, (1, 50, 40))
    assert -(-steps // sizes[0]) * -(-lat // sizes[1]) * -(-lon // sizes[2]) == chunks
    t2m = {"units": "K", "long_name": "2 metre temperature", "standard_name": "air_temperature", "scale_factor": 0.01, "add_offset": 273.15,
           "grid_mapping": "crs", "cell_methods": "time: mean"}
    time = {"units": "hours since 1950-01-01", "calendar": "standard", "standard_name": "time", "axis": "T"}
    # The generator replaces the zeros by the number of the file.
    attributes = {"Conventions": "CF-1.8", "title": "Reanalysis, hourly", "institution": "Centre", "source": "model 41r2",
                  "history": "2024-01-01T00:00:00Z created by job 0000000000", "references": "https://doi.org/10.0/0", "license": "CC-BY-4.0"}
    dataset = xr.Dataset(
        {"t2m": (("time", "lat", "lon"), np.random.default_rng(0).integers(0, 3, (steps, lat, lon)).astype("i2"), t2m),
         "crs": ((), np.int32(0), {"grid_mapping_name": "latitude_longitude"})},
        {"time": ("time", np.arange(steps, dtype="i8"), time),
         "lat": ("lat", np.linspace(90, -90, lat), {"units": "degrees_north", "standard_name": "latitude", "axis": "Y"}),
         "lon": ("lon", np.linspace(0, 359, lon), {"units": "degrees_east", "standard_name": "longitude", "axis": "X"})}, attributes)
    dataset.to_netcdf(path, engine="h5netcdf", encoding={"t2m": {"chunksizes": sizes, "zlib": True, "dtype": "i2", "_FillValue": np.int16(-32767)},
                                                         "time": {"dtype": "i8"}})
    return path


def generate(generator, folder, file, files, chunks, zarr, first=0):
    """Writes the list, the plan and the parts of files, once. Returns their folder."""
    to = folder / f"{files}x{chunks}-{zarr}" if first == 0 else folder / f"{files}x{chunks}-{zarr}-from{first}"
    if not (to / "complete").exists():
        shutil.rmtree(to, ignore_errors=True)
        subprocess.run([generator, file, to, str(files), str(-(-files // SHARD)), zarr, str(first)], check=True)
        (to / "complete").touch()
    return to
