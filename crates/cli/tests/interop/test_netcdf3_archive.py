"""Series of NetCDF-3 files, alone and with NetCDF-4 files, compared with xarray's open_mfdataset on the originals."""
import json

import clients
import numpy as np
import pytest
from clients import FORMATS, either_format, virtualize  # noqa: F401


def write(path, first, count, model="NETCDF3_64BIT_OFFSET", *, rows=100, alone=False, **options):
    """Writes days from `first` on; `alone` without further variables along time."""
    import netCDF4
    with netCDF4.Dataset(path, "w", format=model) as ds:
        ds.createDimension("time", None), ds.createDimension("y", rows), ds.createDimension("x", 300)
        ds.createVariable("x", "f4", ("x",))[:] = np.arange(300)
        if not alone:
            ds.createVariable("time", "f8", ("time",))[:] = np.arange(first, first + count)
            ds["time"].units = "days since 2000-01-01"
        if model == "NETCDF4":
            options.setdefault("chunksizes", (1, rows, 300))
        var = ds.createVariable("v", options.pop("type", "f4"), ("time", "y", "x"), fill_value=-99, **options)
        numbers = np.random.default_rng(first).integers(0, 100, (count, rows, 300))
        numbers[:, 0] = -99
        var.set_auto_maskandscale(False)
        var[:] = numbers


def joined(tmp_path, fmt, *arguments):
    out = tmp_path / "out.json"
    run = virtualize("batch", f"{tmp_path}/*.nc", "--concat-dim", "time", "--format", fmt, "-o", out, *arguments)
    return run, json.loads(out.read_text()) if run.status == 0 else None


def same(tmp_path, references, fmt, **how):
    import xarray as xr
    ours = clients.open_dataset(references, FORMATS[fmt])
    with xr.open_mfdataset(sorted(tmp_path.glob("*.nc")), engine="netcdf4", decode_times=False, **how) as original:
        assert dict(ours.sizes) == dict(original.sizes)
        for name in original.variables:
            assert clients.same_values(original[name].values, clients.decode(ours, name, True)[1]) is None, name


def test_records_of_any_number_are_joined(tmp_path, fmt):
    for first, count in ((0, 3), (3, 1), (4, 5)):
        write(tmp_path / f"{first}.nc", first, count)
    run, references = joined(tmp_path, fmt)
    assert run.status == 0, run.stderr
    same(tmp_path, references, fmt)


def test_many_small_records_are_joined_with_few(tmp_path, fmt):
    import netCDF4
    for first, count in ((0, 1200), (1200, 30), (1230, 2500)):
        with netCDF4.Dataset(tmp_path / f"{first:05}.nc", "w", format="NETCDF3_CLASSIC") as ds:
            ds.createDimension("time", None)
            ds.createVariable("time", "f8", ("time",))[:] = np.arange(first, first + count)
            ds.createVariable("v", "i2", ("time",))[:] = np.arange(count)
    run, references = joined(tmp_path, fmt)
    assert run.status == 0, run.stderr
    same(tmp_path, references, fmt)


def test_contiguous_records_are_divided_to_fit(tmp_path, fmt):
    for first, count in ((0, 6), (6, 2), (8, 4)):
        write(tmp_path / f"{first}.nc", first, count, alone=True, rows=50, type="i1")
    run, references = joined(tmp_path, fmt)
    assert run.status == 0, run.stderr
    same(tmp_path, references, fmt, combine="nested", concat_dim="time", data_vars="minimal")


def test_netcdf_4_of_the_same_byte_order_is_joined(tmp_path, fmt):
    write(tmp_path / "0.nc", 0, 3)
    write(tmp_path / "3.nc", 3, 2, "NETCDF4", type=">f4", endian="big")
    write(tmp_path / "5.nc", 5, 2, "NETCDF3_64BIT_DATA")
    run, references = joined(tmp_path, fmt)
    assert run.status == 0, run.stderr
    same(tmp_path, references, fmt)


def test_bytes_have_no_order(tmp_path, fmt):
    write(tmp_path / "0.nc", 0, 3, type="i1")
    write(tmp_path / "3.nc", 3, 2, "NETCDF4", type="i1")
    run, references = joined(tmp_path, fmt)
    assert run.status == 0, run.stderr
    same(tmp_path, references, fmt)


def test_small_arrays_are_copied_whatever_their_byte_order(tmp_path, fmt):
    write(tmp_path / "0.nc", 0, 3, rows=1, type="i2")
    write(tmp_path / "3.nc", 3, 2, "NETCDF4", rows=1, type="i2")
    run, references = joined(tmp_path, fmt)
    assert run.status == 0, run.stderr
    same(tmp_path, references, fmt)


@pytest.mark.parametrize("options,reason", [
    ({}, "v has byte order little-endian instead of big-endian"),
    ({"zlib": True, "shuffle": False}, "v has codecs bytes (little-endian), zlib instead of bytes (big-endian)"),
    ({"chunksizes": (1, 50, 300), "endian": "big", "type": ">f4"}, "v has chunk shape (any, 50, 300) instead of (any, 100, 300)"),
])
def test_what_keeps_netcdf_4_apart_is_named(tmp_path, options, reason):
    write(tmp_path / "0.nc", 0, 3)
    write(tmp_path / "3.nc", 3, 2, "NETCDF4", **options)
    run, _ = joined(tmp_path, "zarr3-json", "--on-mismatch", "stop")
    assert run.status == 1 and reason in run.stderr, run.stderr


def test_new_files_are_appended(tmp_path, fmt):
    write(tmp_path / "0.nc", 0, 3)
    write(tmp_path / "3.nc", 3, 2)
    assert joined(tmp_path, fmt)[0].status == 0
    write(tmp_path / "5.nc", 5, 4)
    run, references = joined(tmp_path, fmt, "--append")
    assert run.status == 0, run.stderr
    same(tmp_path, references, fmt)
