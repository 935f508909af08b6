"""Writes the files on which run.py measures: files.py FOLDER [NAME …]. All of them take about two minutes and 600 MB; existing ones stay."""
import pathlib, sys, time

import numpy as np


def chunks(path, libver, maxshape):
    """1,000,000 chunks of 8 bytes; version and limits of the shape decide which kind of index holds them."""
    import h5py
    with h5py.File(path, "w", libver=libver) as file:
        dataset = file.create_dataset("x", (1000, 1000, 4), "<i2", chunks=(1, 1, 4), maxshape=maxshape, fillvalue=-9999)
        dataset.attrs["_FillValue"] = np.int16(-9999)
        chunk = np.arange(4, dtype="<i2").tobytes()
        for row, column in np.ndindex(1000, 1000):
            dataset.id.write_direct_chunk((row, column, 0), chunk)


def variables(path):
    """500 compressed variables of 144 chunks, each with 14 attributes."""
    import netCDF4
    values = np.random.default_rng(0).integers(0, 100, (24, 90, 180), dtype="i2")
    with netCDF4.Dataset(path, "w") as file:
        for name, length, unlimited in (("time", 24, True), ("lat", 90, False), ("lon", 180, False)):
            file.createDimension(name, None if unlimited else length)
            file.createVariable(name, "f8", (name,))[:] = np.arange(length)
        for number in range(500):
            variable = file.createVariable(f"var{number:03}", "i2", ("time", "lat", "lon"), compression="zlib", complevel=1, chunksizes=(1, 30, 90), fill_value=-32768)
            variable.set_auto_maskandscale(False)
            variable.setncatts({"scale_factor": 0.01, "add_offset": 5.0, "missing_value": np.int16(-32768)} | {f"attribute{k}": f"value {k} of variable {number}" for k in range(10)})
            variable[:] = values


def granule(path):
    """960 datasets in 54 groups, as in an altimetry granule."""
    import h5py
    fill = np.float32(3.4028235e38)
    with h5py.File(path, "w") as file:
        for beam in ("gt1l", "gt1r", "gt2l", "gt2r", "gt3l", "gt3r"):
            for group in ("segments", "segments/bias", "segments/dem", "segments/fit", "segments/geo", "residual", "quality", "histogram"):
                for number in range(20):
                    dataset = file.create_dataset(f"{beam}/{group}/v{number:02}", data=np.full(50_000, number, "f4"), chunks=(10_000,), compression="gzip", shuffle=True, fillvalue=fill)
                    dataset.attrs.update({"_FillValue": fill} | {f"attribute{k}": f"description {k} of {beam}/{group}/{number}" for k in range(8)})


def tiles(path):
    """A TIFF file of 1,000,000 tiles."""
    import tifffile
    tile = np.zeros((16, 16), "u1")
    tifffile.imwrite(path, (tile for _ in range(1_000_000)), shape=(16_000, 16_000), dtype="u1", tile=(16, 16), bigtiff=True, compression="zlib", metadata=None,
                     extratags=[(42113, "s", 0, "255", True)])


def cog(path):
    """A COG of four bands, as of a satellite scene."""
    import rasterio
    size, rng = 10_980, np.random.default_rng(1)
    with rasterio.open(path, "w", driver="COG", width=size, height=size, count=4, dtype="uint16", crs="EPSG:32633", nodata=0, compress="DEFLATE", predictor=2, blocksize=512,
                       transform=rasterio.transform.from_origin(300_000, 5_000_040, 10, 10)) as file:
        for band in range(1, 5):
            file.write(np.broadcast_to(rng.integers(0, 4000, size, dtype="u2"), (size, size)), band)


def archive(path):
    """1,000 NetCDF-4 files of one day each."""
    import netCDF4
    path.mkdir()
    values = np.random.default_rng(2).random((1, 45, 90), dtype="f4") * 300
    for day in range(1000):
        with netCDF4.Dataset(path / f"day_{day:04}.nc", "w") as file:
            for name, length in (("time", None), ("lat", 45), ("lon", 90)):
                file.createDimension(name, length)
            time = file.createVariable("time", "f8", ("time",))
            time.setncatts({"units": "days since 2000-01-01", "calendar": "standard"})
            time[:] = [day]
            file.createVariable("lat", "f4", ("lat",))[:] = np.linspace(-88, 88, 45)
            file.createVariable("lon", "f4", ("lon",))[:] = np.linspace(0, 356, 90)
            for name in ("t2m", "u10", "v10", "msl", "tp"):
                variable = file.createVariable(name, "f4", ("time", "lat", "lon"), compression="zlib", complevel=1, fill_value=np.float32(-9999))
                variable.setncatts({"units": "K", "long_name": name})
                variable[:] = values + day


def classic_variables(path):
    """A NetCDF classic file of 1,000 variables."""
    import netCDF4
    with netCDF4.Dataset(path, "w", format="NETCDF3_64BIT_OFFSET") as file:
        file.createDimension("x", 1000)
        for number in range(1000):
            file.createVariable(f"variable_{number}", "f4", ("x",), fill_value=-1).setncatts({"units": "m", "long_name": "one of many variables", "scale_factor": 0.5})


def classic_records(path):
    """A NetCDF classic file of 100,000 records."""
    import netCDF4
    with netCDF4.Dataset(path, "w", format="NETCDF3_64BIT_OFFSET") as file:
        file.createDimension("time", None)
        file.createDimension("x", 4)
        for name, dimensions, shape in (("time", ("time",), (100_000,)), ("a", ("time", "x"), (100_000, 4)), ("b", ("time", "x"), (100_000, 4))):
            file.createVariable(name, "f8", dimensions)[:] = np.zeros(shape)


FILES = {
    "chunks_btree1.h5": lambda path: chunks(path, "earliest", (1000, 1000, 4)),
    "chunks_btree2.h5": lambda path: chunks(path, "latest", (None, None, 4)),
    "chunks_ext_array.h5": lambda path: chunks(path, "latest", (None, 1000, 4)),
    "chunks_fixed_array.h5": lambda path: chunks(path, "latest", (1000, 1000, 4)),
    "many_vars.nc": variables, "granule_like.h5": granule, "tiles_million.tif": tiles, "scene_cog.tif": cog, "archive": archive,
    "classic_variables.nc": classic_variables, "classic_records.nc": classic_records,
}


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or FILES:
        path, start = folder / name, time.monotonic()
        if not path.exists():
            # A file that is cut off by an interrupt must not be taken for the whole.
            unfinished = path.with_name(f"unfinished_{name}")
            FILES[name](unfinished)
            unfinished.rename(path)
            print(f"{name}: {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
