"""Attributes that determine values: files in which one of them differs are never combined, neither by `batch` nor by appending to a repository."""
import numpy as np
import pytest
import rasterio
import xarray as xr
from clients import virtualize
from rasterio.transform import from_origin

# Attribute, and two values. From CF conventions 1.12, the NetCDF Users Guide, xarray, HDF-EOS5, ODIM_H5.
PAIRS = {
    "_FillValue": (np.int32(-1), np.int32(-2)), "missing_value": (np.int32(3), np.int32(4)),
    "valid_min": (np.int32(0), np.int32(1)), "valid_max": (np.int32(8), np.int32(9)), "valid_range": (np.array([0, 5], "i4"), np.array([0, 6], "i4")),
    "_Unsigned": ("true", "false"), "_Encoding": ("utf-8", "latin-1"), "dtype": ("bool", "int64"), "units": ("K", "degC"),
    "units_metadata": ("temperature: on_scale", "temperature: difference"), "flag_values": (np.array([0, 1], "i4"), np.array([1, 2], "i4")),
    "flag_masks": (np.array([1, 2], "i4"), np.array([1, 4], "i4")), "flag_meanings": ("land sea", "sea land"), "positive": ("up", "down"), "grid_mapping": ("crs", "other"),
    "formula_terms": ("a: a p0: p0", "a: a p0: p1"), "compress": ("y x", "x y"), "sample_dimension": ("obs", "other"), "instance_dimension": ("station", "other"),
    "MissingValue": (np.float32(-1), np.float32(-2)), "ScaleFactor": (1.0, 0.1), "Offset": (0.0, 1.0), "gain": (1.0, 0.5), "offset": (0.0, 1.0), "nodata": (255.0, 0.0),
    "undetect": (0.0, 1.0),
}


def netcdf(path, k, name, value):
    attributes = {} if value is None else {name: value}
    xr.Dataset({"v": (("time", "x"), np.arange(4, dtype="i4").reshape(2, 2) + k, attributes)}, {"time": ("time", [2 * k, 2 * k + 1], {"units": "days since 2000-01-01"})}).to_netcdf(
        path, engine="h5netcdf", encoding={"v": {"chunksizes": (1, 2)}, "time": {"chunksizes": (2,)}})
    return path


def refused(tmp_path, files, dimension, *names):
    """They are not combined, and the difference is named."""
    how = "--concat-dim" if dimension != "moment" else "--stack-dim"
    run = virtualize("batch", *files, how, dimension, "--on-mismatch", "stop", "-o", tmp_path / "all.json")
    assert run.status == 1 and any(one in run.stderr for one in names), run.stderr


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("absent", [False, True])
def test_attributes_of_arrays(tmp_path, name, absent):
    one, other = PAIRS[name]
    files = [netcdf(tmp_path / "a.nc", 0, name, one), netcdf(tmp_path / "b.nc", 1, name, None if absent else other)]
    refused(tmp_path, files, "time", *([name, "fill value"] if name == "_FillValue" else [name]))


@pytest.mark.parametrize("name, one, other", [("crs_wkt", "A", "B"), ("semi_major_axis", 6378137.0, 6371000.0), ("straight_vertical_longitude_from_pole", 0.0, -45.0)])
def test_grid_mappings(tmp_path, name, one, other):
    """All attributes of a grid mapping count, except for remarks."""
    files = []
    for k, value in enumerate((one, other, one)):
        path = netcdf(tmp_path / f"{k}.nc", min(k, 1), "grid_mapping", "crs")
        with xr.open_dataset(path, decode_cf=False) as ds:
            ds = ds.load()
        ds["crs"] = ((), np.int32(0), {"grid_mapping_name": "polar_stereographic", name: value, "comment": str(k)})
        ds.to_netcdf(path, engine="h5netcdf", encoding={"v": {"chunksizes": (1, 2)}, "time": {"chunksizes": (2,)}})
        files.append(path)
    refused(tmp_path, files[:2], "time", name)
    batch = virtualize("batch", files[0], files[2], "--concat-dim", "time", "-o", tmp_path / "same.json", "--restart")
    assert batch.status == 0, batch.stderr


def tif(path, k, *, scales=None, offsets=None, units=None, crs="EPSG:32633", size=10.0, colors=None, names=None, nodata=None, count=2, **how):
    profile = dict(driver="GTiff", width=8, height=8, count=count, dtype="uint8", crs=crs, transform=from_origin(5e5, 5e6 - k * 8 * size, size, size), nodata=nodata, **how)
    with rasterio.open(path, "w", **profile) as f:
        f.write(np.arange(64 * count, dtype="u1").reshape(count, 8, 8) + k)
        if scales:
            f.scales = scales
        if offsets:
            f.offsets = offsets
        if units:
            f.units = units
        if names:
            f.descriptions = names
        if colors:
            f.write_colormap(1, colors)
    return path


IMAGES = {
    "scales": dict(one=dict(scales=(0.1, 0.2)), other=dict(scales=(0.5, 0.9)), says="scales"),
    "offsets": dict(one=dict(offsets=(1, 2)), other=dict(offsets=(3, 4)), says="offsets"),
    "units": dict(one=dict(units=("m", "K")), other=dict(units=("K", "m")), says="units"),
    "nodata": dict(one=dict(nodata=1), other=dict(nodata=2), says="fill value or _FillValue"),
    "palette": dict(one=dict(count=1, colors={0: (1, 2, 3)}), other=dict(count=1, colors={0: (3, 2, 1)}), says="color_map"),
    "photometric": dict(one=dict(count=1, photometric="MINISBLACK"), other=dict(count=1, photometric="MINISWHITE"), says="photometric_interpretation"),
    "alpha": dict(one=dict(count=4, photometric="RGB", ALPHA="PREMULTIPLIED"), other=dict(count=4, photometric="RGB", ALPHA="NON-PREMULTIPLIED"), says="extra_samples"),
    "bands": dict(one=dict(names=("red", "nir")), other=dict(names=("nir", "red")), says="band_name"),
    "zone": dict(one=dict(), other=dict(crs="EPSG:32634"), says="EPSG"),
    "no zone": dict(one=dict(), other=dict(crs=None), says="proj:code"),
}


@pytest.mark.parametrize("what", IMAGES)
@pytest.mark.parametrize("dimension", ["y", "moment"])
def test_images(tmp_path, what, dimension):
    """Side by side, and stacked."""
    case = IMAGES[what]
    at = int(dimension == "y")
    files = [tif(tmp_path / "a.tif", 0, **case["one"]), tif(tmp_path / "b.tif", at, **case["other"])]
    refused(tmp_path, files, dimension, *case["says"].split(" or "))


def test_images_that_mean_the_same_are_combined(tmp_path):
    how = dict(scales=(0.1, 0.2), units=("m", "K"), nodata=7)
    files = [tif(tmp_path / "a.tif", 0, **how), tif(tmp_path / "b.tif", 1, **how)]
    run = virtualize("batch", *files, "--concat-dim", "y", "-o", tmp_path / "all.json")
    assert run.status == 0, run.stderr
