"""Archives with a pitfall: the result is that of xarray on the originals, or the files are rejected with a reason and a remedy."""
import warnings

import numpy as np
import pytest
import xarray as xr
from clients import either_format, virtualize  # noqa: F401
from test_combine import MINIMAL, combined, originals, write

CONCAT = ("--concat-dim", "time")


def day(path, first, n=4, *, packed=True, scale=0.5, fill=-9, units="hours since 2000-01-01", chunk=None, dtype="i2", time_dtype="f8", lat=None, zlib=True,
        fill_t=None, **more):
    """Writes packed data with a missing value, and time."""
    data = np.random.default_rng(first).integers(0, 99, (n, 3, 2)).astype("f8") * scale + 5
    data[0, 0, 0] = np.nan
    lat = np.array([1.0, 0.0, -1.0]) if lat is None else lat
    ds = xr.Dataset({"t": (("time", "lat", "x"), data)}, coords={"time": ("time", (np.arange(n) + first).astype(time_dtype), {"units": units}), "lat": lat})
    ds = ds.assign(**more)
    encoding = {"dtype": dtype, "scale_factor": scale, "add_offset": 5.0, "_FillValue": fill} if packed else {"_FillValue": fill_t}
    return write(path, ds, encoding={"t": {**encoding, "chunksizes": (chunk or n, 3, 2), "zlib": zlib}}, unlimited_dims=["time"])


def same(got, files, **how):
    xr.testing.assert_identical(got, want := originals(files, **how))
    for name in want.variables:
        assert got[name].dtype == want[name].dtype, name


@pytest.mark.parametrize("limit", [(), ("--option", "copy-limit=0")])
@pytest.mark.parametrize("changed, text", [
    (dict(fill=-8), "_FillValue"), (dict(dtype="i4"), "data type"), (dict(lat=np.array([-1.0, 0, 1])), "values"),
    (dict(units="hours since 2000-01-01", calendar="noleap"), "calendar"), (dict(packed=False), "data type")], ids=str)
def test_what_must_agree_stops(tmp_path, fmt, changed, text, limit):
    files = [day(tmp_path / "a.nc", 0), day(tmp_path / "b.nc", 4, **{k: v for k, v in changed.items() if k != "calendar"})]
    if calendar := changed.get("calendar"):
        with xr.open_dataset(files[1], decode_cf=False) as f:
            f = f.load()
        f.time.attrs["calendar"] = calendar
        f.to_netcdf(files[1], engine="h5netcdf", encoding={"t": {"chunksizes": (4, 3, 2), "zlib": True}})
    messages = combined(tmp_path, fmt, files, *CONCAT, *limit, status=1, text="cannot be joined with")
    assert text in messages.replace("fill value", "_FillValue"), messages
    got, _ = combined(tmp_path, fmt, files, *CONCAT, *limit, "--on-mismatch", "split", group="set_1")
    same(got, files[1:])


def test_packed_data(tmp_path, fmt):
    for limit in ((), ("--option", "copy-limit=0")):
        files = [day(tmp_path / f"{k}.nc", 4 * k) for k in range(3)]
        got, _ = combined(tmp_path, fmt, files, *CONCAT, *limit)
        same(got, files)


@pytest.mark.parametrize("changed", [dict(fill=-8), dict(dtype="i4"), dict(chunk=2), dict(zlib=False), dict(packed=False)], ids=str)
@pytest.mark.parametrize("limit", [(), ("--option", "copy-limit=0")])
def test_optional_arrays_that_disagree(tmp_path, fmt, changed, limit):
    """They are not part of a set's signature, but compared when they are joined."""
    files = [day(tmp_path / "a.nc", 0), day(tmp_path / "b.nc", 4, **changed)]
    run = virtualize("batch", *files, *CONCAT, *limit, "--var", "t=optional", "--format", fmt, "-o", tmp_path / "all.json", "--restart")
    if run.status == 0:
        got, _ = combined(tmp_path, fmt, files, *CONCAT, *limit, "--var", "t=optional")
        same(got, files)
        assert set(changed) <= {"chunk", "zlib"}
    else:
        assert "t of " in run.stderr and "b.nc" in run.stderr, run.stderr


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4"])
def test_time_units_changed(tmp_path, fmt, dtype):
    files = [day(tmp_path / "a.nc", 0, time_dtype=dtype), day(tmp_path / "b.nc", 1, units="days since 2000-01-01", time_dtype=dtype),
             day(tmp_path / "c.nc", 2, units="minutes since 2001-06-01", time_dtype=dtype)]
    got, messages = combined(tmp_path, fmt, files, *CONCAT)
    want = originals(files)
    assert (got.time.values == want.time.values).all() and "converted" in messages
    xr.testing.assert_equal(got.t.drop_vars("time"), want.t.drop_vars("time"))


@pytest.mark.parametrize("since, fine", [("2000-01-01 -06:00", True), ("2000-01-01 12:00 +0530", True), ("2000-01-01T00:00:00Z", True), ("2000-01-01 -6:00", False),
                                         ("2000-01-01 12", False), ("2000-01-01  12:00", False)])
def test_reference_times_in_zones(tmp_path, fmt, since, fine):
    """Reference times that xarray and cftime interpret differently are not converted."""
    files = [day(tmp_path / "a.nc", 0, units="hours since 2000-03-01"), day(tmp_path / "b.nc", 24 * 365, units=f"hours since {since}")]
    for use_cftime in (False, True):
        how = dict(decode_times=xr.coders.CFDatetimeCoder(use_cftime=use_cftime))
        for order in (files, files[::-1]):
            if not fine:
                combined(tmp_path, fmt, order, *CONCAT, status=1, text="units")
                continue
            got, _ = combined(tmp_path, fmt, order, *CONCAT, **how)
            assert (got.time.values == originals(files, **MINIMAL, **how).time.values).all()


def test_times_that_are_not_exact_in_one_unit(tmp_path, fmt):
    files = []
    for name, first, units in (("a", 0, "days since 2000-01-01"), ("b", 0.1, "days since 2010-01-01")):
        ds = xr.Dataset({"t": ("time", [1.0])}, coords={"time": ("time", [first * 1.0], {"units": units})})
        files.append(write(tmp_path / f"{name}.nc", ds))
    messages = combined(tmp_path, fmt, files, *CONCAT, status=1, text="exact")
    assert "unit" in messages


def test_packed_times_in_other_units(tmp_path, fmt):
    files = []
    for k, units in enumerate(("hours since 2000-01-01", "hours since 2001-01-01")):
        ds = xr.Dataset({"t": ("time", [1.0, 2.0])}, coords={"time": ("time", np.array([0, 2], "i2"), {"units": units, "scale_factor": 0.5})})
        files.append(write(tmp_path / f"{k}.nc", ds))
    combined(tmp_path, fmt, files, *CONCAT, status=1, text="scale_factor")


def test_float32_time_stays(tmp_path, fmt):
    files = [day(tmp_path / f"{k}.nc", 4 * k, time_dtype="f4") for k in range(2)]
    got, _ = combined(tmp_path, fmt, files, *CONCAT, decode_times=False)
    assert got.time.dtype == np.float32
    same(got, files, **MINIMAL, decode_times=False)


def test_decreasing_in_one_file(tmp_path, fmt):
    files = [day(tmp_path / f"{k}.nc", 4 * k) for k in range(2)]
    with xr.open_dataset(files[1], decode_cf=False) as f:
        flipped = f.isel(time=slice(None, None, -1)).load()
    write(files[1], flipped)
    combined(tmp_path, fmt, files, *CONCAT, status=1, text="decreases in the other")


def test_coordinates_that_go_up_and_down(tmp_path, fmt):
    files = [day(tmp_path / f"{k}.nc", 4 * k) for k in range(2)]
    with xr.open_dataset(files[1], decode_cf=False) as f:
        mixed = f.isel(time=[0, 2, 1, 3]).load()
    write(files[1], mixed)
    messages = combined(tmp_path, fmt, files, *CONCAT, status=1, text="neither increases nor decreases")
    assert "1.nc" in messages


def test_a_missing_file_leaves_a_gap(tmp_path, fmt):
    files = [day(tmp_path / f"{k}.nc", 4 * k) for k in (0, 1, 3, 4)]
    got, messages = combined(tmp_path, fmt, files, *CONCAT)
    same(got, files)
    assert "5 times the usual step" in messages
    run = virtualize("batch", *files, tmp_path / "gone.nc", *CONCAT, "--format", fmt, "-o", tmp_path / "x.json")
    assert run.status != 0 and "gone.nc" in run.stderr


def test_scalar_coordinates(tmp_path, fmt):
    """A scalar next to the data must be equal in all files, or is reported."""
    files = [day(tmp_path / f"{k}.nc", 4 * k, height=((), 2.0), run=((), 7)) for k in range(3)]
    got, _ = combined(tmp_path, fmt, files, *CONCAT)
    same(got, files)
    other = day(tmp_path / "3.nc", 12, height=((), 10.0), run=((), 7))
    messages = combined(tmp_path, fmt, [*files, other], *CONCAT, status=1, text="height")
    assert "--var" in messages or "values" in messages


@pytest.mark.parametrize("n", [1, 24, 512])
@pytest.mark.parametrize("limit", [(), ("--option", "copy-limit=0")])
def test_default_chunks_of_unlimited_dimensions(tmp_path, fmt, n, limit):
    """netCDF4 chooses chunks of 512 or 1024 for a coordinate along an unlimited dimension, and chunks of one step for data."""
    import netCDF4
    files = []
    for k in range(3):
        files.append(tmp_path / f"{k}.nc")
        with netCDF4.Dataset(files[-1], "w") as f:
            f.createDimension("time", None)
            f.createDimension("x", 5)
            t = f.createVariable("time", "f8", ("time",))
            t.units = "hours since 2000-01-01"
            for name, zlib in (("a", False), ("z", True)):
                f.createVariable(name, "f4", ("time", "x"), zlib=zlib)[:] = np.random.default_rng(k).random((n - (k == 2 and n > 1), 5))
                f.createVariable(name + "1", "i2", ("time",), zlib=zlib)[:] = np.arange(n - (k == 2 and n > 1)) + k
            t[:] = np.arange(n - (k == 2 and n > 1)) + n * k
    run = virtualize("batch", *files, *CONCAT, *limit, "--on-mismatch", "stop", "--format", fmt, "-o", tmp_path / "all.json", "--restart")
    if run.status == 0:
        got, _ = combined(tmp_path, fmt, files, *CONCAT, *limit)
        same(got, files)
    else:
        assert limit and ("not a multiple of the chunk length" in run.stderr and "copy-limit" in run.stderr or "z1 has chunk shape" in run.stderr and "copy-limit" in run.stderr), run.stderr


@pytest.mark.parametrize("lengths", [(8, 8, 5), (8, 5, 8), (1, 4, 4), (4, 1, 4), (4, 4, 1), (1, 1, 3)])
@pytest.mark.parametrize("chunk", ["file", 1, 4])
@pytest.mark.parametrize("limit", [(), ("--option", "copy-limit=0")])
def test_lengths_and_chunks(tmp_path, fmt, lengths, chunk, limit):
    """Compressed chunks are copied, or referenced if only the last file ends within a chunk, or rejected; never shifted."""
    files, at = [], 0
    for n in lengths:
        files.append(day(tmp_path / f"{at}.nc", at, n, chunk=n if chunk == "file" else chunk))
        at += n
    run = virtualize("batch", *files, *CONCAT, *limit, "--on-mismatch", "stop", "--format", fmt, "-o", tmp_path / "all.json", "--restart")
    if run.status:
        assert limit and ("multiple of the chunk length" in run.stderr or "chunk shape" in run.stderr), run.stderr
        assert chunk != 1 and (chunk == "file" or any(n % 4 for n in lengths[:-1]))
        return
    got, _ = combined(tmp_path, fmt, files, *CONCAT, *limit)
    same(got, files)


def test_texts_along_time(tmp_path, fmt):
    files = []
    for k in range(3):
        ds = xr.Dataset({"label": ("time", np.array([f"first {k}", "é" * k], object)), "code": ("time", np.array([b"ab", b"c%d" % k]))},
                        coords={"time": [2 * k, 2 * k + 1]})
        files.append(write(tmp_path / f"{k}.nc", ds))
    got, _ = combined(tmp_path, fmt, files, *CONCAT)
    want = originals(files)
    assert got.label.values.tolist() == want.label.values.tolist() and got.code.values.tolist() == want.code.values.tolist()


def test_text_coordinates(tmp_path, fmt):
    """Stations by name: sorted by name, or in the order of the file names."""
    files = [write(tmp_path / f"{k}.nc", xr.Dataset({"t": ("station", [1.0 * k])}, coords={"station": np.array([name], object)}))
             for k, name in enumerate(("oslo", "bern"))]
    got, _ = combined(tmp_path, fmt, files, "--concat-dim", "station")
    assert got.station.values.tolist() == ["bern", "oslo"] and got.t.values.tolist() == [1, 0]
    got, messages = combined(tmp_path, fmt, files[::-1], "--concat-dim", "station", "--coord", "station=name:{station:d}.nc")
    assert got.station.values.tolist() == ["oslo", "bern"] and got.t.values.tolist() == [0, 1] and "the files' order" in messages


def test_ensemble_and_time(tmp_path, fmt):
    files = [day(tmp_path / f"r{member}_{k}.nc", 4 * k) for member in (1, 2, 10) for k in range(2)]
    got, _ = combined(tmp_path, fmt, files[::-1], "--stack-dim", "member", *CONCAT, "--coord", "member=name:r{member:d}_*.nc")
    rows = [originals(files[2 * k:2 * k + 2]) for k in range(3)]
    want = xr.concat(rows, "member", data_vars=["t"], coords="minimal", compat="override").assign_coords(member=[1, 2, 10])
    xr.testing.assert_equal(got, want)
    missing = [f for f in files if f.name != "r2_1.nc"]
    combined(tmp_path, fmt, missing, "--stack-dim", "member", *CONCAT, "--coord", "member=name:r{member:d}_*.nc", status=1, text="member 2")


def image(path, *, west=0.0, north=8.0, count=1, nodata=0, dtype="uint16", seed=0, size=32, compress="deflate", driver="GTiff", tiled=True, **how):
    import rasterio
    data = np.random.default_rng(seed).integers(0, 200, (count, size, size)).astype(dtype)
    options = dict(tiled=tiled, blockxsize=16, blockysize=16) if driver == "GTiff" and tiled else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with rasterio.open(path, "w", driver=driver, width=size, height=size, count=count, dtype=dtype, crs="EPSG:32633", nodata=nodata, compress=compress,
                           transform=rasterio.Affine(10, 0, 500000 + west, 0, -10, 5200000 + north), **options, **how) as f:
            f.write(data)
    return path


def rio(path, masked=False):
    import rioxarray
    with rioxarray.open_rasterio(path, masked=masked) as f:
        return f.load()


@pytest.mark.parametrize("kind", [dict(), dict(nodata=None), dict(dtype="float32", nodata=-1.0), dict(count=3, dtype="uint8", nodata=None, photometric="RGB"),
                                  dict(count=3, interleave="pixel"), dict(driver="COG"), dict(tiled=False), dict(tiled=False, compress=None, size=30)], ids=str)
def test_images_of_several_days(tmp_path, fmt, kind):
    days = ["20200228", "20200229", "20200301"]
    files = [image(tmp_path / f"S2_{d}.tif", seed=k, **kind) for k, d in enumerate(days)]
    got, _ = combined(tmp_path, fmt, files[::-1], "--stack-dim", "time", "--coord", "time=name:S2_{time:%Y%m%d}.tif", mask_and_scale=False)
    want = np.stack([rio(f).values for f in files])
    name = [n for n in got.data_vars if got[n].ndim >= 3]
    assert len(name) == 1, got
    order = [d for d in ("time", "band", "y", "x") if d in got[name[0]].dims]
    array = got[name[0]].transpose(*order)
    assert array.dtype == want.dtype and (array.values.reshape(want.shape) == want).all(), (array.shape, want.shape)
    assert got.time.values.astype("M8[D]").astype(str).tolist() == ["2020-02-28", "2020-02-29", "2020-03-01"]
    first = rio(files[0])
    assert (got.x.values == first.x.values).all() and (got.y.values == first.y.values).all()
    if kind.get("nodata", 0) is not None:
        masked, _ = combined(tmp_path, fmt, files, "--stack-dim", "time", "--coord", "time=name:S2_{time:%Y%m%d}.tif")
        expected = np.stack([rio(f, masked=True).values for f in files])
        assert np.array_equal(masked[name[0]].transpose(*order).values.reshape(want.shape), expected, equal_nan=True)


@pytest.mark.parametrize("changed, text", [(dict(nodata=5), "fill value"), (dict(west=10.0), "values"), (dict(size=48), "sizes"), (dict(dtype="int16"), "data type")], ids=str)
def test_images_that_disagree(tmp_path, fmt, changed, text):
    files = [image(tmp_path / "S2_20200228.tif"), image(tmp_path / "S2_20200229.tif", **changed)]
    messages = combined(tmp_path, fmt, files, "--stack-dim", "time", "--coord", "time=name:S2_{time:%Y%m%d}.tif", status=1, text="cannot be joined with")
    assert text in messages, messages


def test_images_side_by_side(tmp_path, fmt):
    """Tiles of a mosaic along x and y; y is descending."""
    files = {(i, j): image(tmp_path / f"t{j}{i}.tif", west=320.0 * j, north=-320.0 * i, seed=3 * i + j) for i in range(2) for j in range(3)}
    got, _ = combined(tmp_path, fmt, list(files.values())[::-1], "--concat-dim", "y", "--concat-dim", "x", mask_and_scale=False)
    rows = [np.concatenate([rio(files[i, j]).values for j in range(3)], axis=2) for i in range(2)]
    want = np.concatenate(rows, axis=1)
    array = next(got[n] for n in got.data_vars if got[n].ndim >= 2)
    assert (array.values.reshape(want.shape) == want).all()
    assert (got.x.values == np.concatenate([rio(files[0, j]).x.values for j in range(3)])).all()
    assert (got.y.values == np.concatenate([rio(files[i, 0]).y.values for i in range(2)])).all()
    messages = combined(tmp_path, fmt, list(files.values())[:-1], "--concat-dim", "y", "--concat-dim", "x", status=1, text="no file")
    assert "allow-holes" in messages


def test_a_group_with_other_times(tmp_path, fmt):
    """Groups with dimensions of the same name and different lengths."""
    files = []
    for k in range(3):
        path = day(tmp_path / f"{k}.nc", 4 * k)
        fine = xr.Dataset({"v": (("time", "z"), np.arange(14.0).reshape(7, 2) + k)}, coords={"time": ("time", np.arange(7) + 7 * k, {"units": "hours since 1999-01-01"})})
        write(path, fine, group="fine", mode="a")
        files.append(path)
    got, _ = combined(tmp_path, fmt, files[::-1], *CONCAT, group="fine")
    parts = []
    for f in files:
        with xr.open_dataset(f, group="fine", engine="h5netcdf") as part:
            parts.append(part.load())
    xr.testing.assert_identical(got, xr.concat(parts, "time"))


def test_times_other_than_the_coordinate(tmp_path, fmt):
    """Small arrays of times with different reference times are converted; large ones must be equal."""
    for width, status in ((50, 0), (5000, 1)):
        files = []
        for k in range(2):
            seen = (("time", "x"), np.arange(4.0 * width).reshape(4, width), {"units": f"seconds since 2000-01-0{k + 1}"})
            files.append(write(tmp_path / f"{width}_{k}.nc", xr.Dataset({"seen": seen}, coords={"time": np.arange(4) + 4 * k})))
        found = combined(tmp_path, fmt, files, *CONCAT, status=status, text=None if status == 0 else "seen has units")
        if status == 0:
            xr.testing.assert_equal(found[0], originals(files))


def test_bounds_larger_than_what_is_copied(tmp_path, fmt):
    files = []
    for k in range(2):
        t = np.arange(5000.0)
        ds = xr.Dataset({"v": ("time", t), "time_bnds": (("time", "nv"), np.stack([t, t + 1], 1))},
                        coords={"time": ("time", t, {"units": f"minutes since 200{k}-01-01", "bounds": "time_bnds"})})
        files.append(write(tmp_path / f"{k}.nc", ds))
    got, _ = combined(tmp_path, fmt, files, *CONCAT)
    xr.testing.assert_equal(got, originals(files))


def test_files_on_both_sides_of_the_limit(tmp_path, fmt):
    """Some files are small enough to be copied, others are not."""
    files, at = [], 0
    for n in (75, 85, 70):
        ds = xr.Dataset({"v": (("time", "x"), np.random.default_rng(n).random((n, 100)))}, coords={"time": np.arange(n) + at})
        files.append(write(tmp_path / f"{n}.nc", ds, encoding={"v": {"chunksizes": (32, 100), "zlib": True}}))
        at += n
    combined(tmp_path, fmt, files, *CONCAT, status=1, text="chunk")
    got, _ = combined(tmp_path, fmt, files, *CONCAT, "--option", "copy-limit=100K")
    same(got, files)


@pytest.mark.parametrize("limit", [(), ("--option", "copy-limit=0")])
def test_an_array_that_a_file_in_the_middle_lacks(tmp_path, fmt, limit):
    files = [day(tmp_path / f"{k}.nc", 4 * k) for k in range(3)]
    with xr.open_dataset(files[1], decode_cf=False) as f:
        without = f.load().drop_vars("t")
    write(files[1], without)
    got, _ = combined(tmp_path, fmt, files, *CONCAT, *limit, "--var", "t=optional")
    assert np.isnan(got.t.values[4:8]).all()
    for k in (0, 2):
        with xr.open_dataset(files[k]) as f:
            assert np.array_equal(got.t.values[4 * k:4 * k + 4], f.t.values, equal_nan=True)


def test_a_hole_in_copied_data(tmp_path, fmt):
    files = [day(tmp_path / f"r{m}_{k}.nc", 4 * k) for m in (1, 2) for k in range(2)]
    got, _ = combined(tmp_path, fmt, files[:-1], "--stack-dim", "member", *CONCAT, "--coord", "member=name:r{member:d}_*.nc", "--option", "allow-holes=true")
    assert np.isnan(got.t.values[1, 4:]).all() and np.array_equal(got.t.values[0], originals(files[:2]).t.values, equal_nan=True)
