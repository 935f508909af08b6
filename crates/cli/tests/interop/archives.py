"""Random archives, and small ones that are written quickly."""
import warnings

import numpy as np


def netcdf(path, k, choose):
    """Writes the hours of one day, with packed values, and text or a group in some archives."""
    import h5netcdf
    rng = np.random.default_rng(k)
    with warnings.catch_warnings(), h5netcdf.File(path, "w") as f:
        warnings.simplefilter("ignore")
        f.dimensions = {"time": choose["hours"], "x": 5}
        time_ = f.create_variable("time", ("time",), "f8", data=24.0 * k + np.arange(choose["hours"]))
        time_.attrs["units"] = "hours since 2020-01-01"
        f.create_variable("x", ("x",), "f4", data=np.arange(5, dtype="f4"))
        for name in choose["variables"]:
            v = f.create_variable(name, ("time", "x"), "i2", chunks=(choose["chunk"], 5), compression=choose["compression"],
                                  data=rng.integers(-99, 99, (choose["hours"], 5)).astype("i2"))
            v.attrs["scale_factor"] = 0.5
        f.attrs["history"] = f"written as number {k}"


def geotiff(path, k, choose):
    """Writes an image of one day."""
    import rasterio
    values = np.random.default_rng(k).integers(0, 99, (choose["hours"], 32, 48)).astype("u2")
    with warnings.catch_warnings(), rasterio.open(
        path, "w", driver="GTiff", width=48, height=32, count=choose["hours"], dtype="uint16", crs="EPSG:32633", nodata=7, tiled=True, blockxsize=16,
        blockysize=16, compress=choose["compression"] and "deflate", transform=rasterio.transform.from_origin(500_000, 5_000_000, 10, 10),
    ) as f:
        f.write(values)


def archive(folder, choose, files=None):
    """Writes a random archive. Returns its pattern and the options that combine it."""
    folder.mkdir(parents=True)
    hours = choose.choice([1, 2, 4])
    how = {"hours": hours, "chunk": choose.choice([c for c in (1, 2, 4) if c <= hours]), "variables": choose.sample("abcde", choose.randint(1, 3)),
           "compression": choose.choice([None, "gzip"])}
    write, name, options = choose.choice([
        (netcdf, "d{:02}.nc", ["--concat-dim", "time"]),
        (geotiff, "s_202001{:02}.tif", ["--stack-dim", "time", "--coord", "time=name:s_{time:%Y%m%d}.tif"]),
    ])
    for k in range(1, 1 + (files or choose.choice([1, 2, 5, 12]))):
        write(folder / name.format(k), k, how)
    return f"{folder}/*", options


def days(folder, count=6):
    """Writes an archive of files with one hour each, which take the least time to write."""
    folder.mkdir(parents=True, exist_ok=True)
    for k in range(count):
        netcdf(folder / f"d{k:02}.nc", k, {"hours": 1, "chunk": 1, "variables": "a", "compression": None})
    return [f"{folder}/*.nc", "--concat-dim", "time"]
