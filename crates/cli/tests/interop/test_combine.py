"""Files combined along dimensions, compared value by value with `xr.open_mfdataset` on the originals or with the dataset that was split into them."""
import json, random, warnings

import h5py
import netCDF4
import numpy as np
import pytest
import tifffile
import xarray as xr
import zarr
from clients import either_format, open_store, virtualize  # noqa: F401

MINIMAL = dict(combine="nested", concat_dim="time", data_vars="minimal", coords="minimal", compat="override", combine_attrs="drop_conflicts")


def combined(tmp_path, fmt, files, *arguments, status=0, text=None, **decode):
    """Returns what clients read from the combined files and the messages, or the error. Files become one array, not segments."""
    whole = () if "--on-mismatch" in arguments else ("--on-mismatch", "stop")
    run = virtualize("batch", *files, *arguments, *whole, "--format", fmt, "-o", tmp_path / "all.json", "--overwrite", "--restart")
    assert run.status == status, run.stderr
    if text:
        assert text in run.stderr, run.stderr
    if status:
        return run.stderr
    references = json.loads((tmp_path / "all.json").read_text())
    with warnings.catch_warnings(), zarr.config.set({"array.rectilinear_chunks": True}):
        warnings.simplefilter("ignore")
        opened = xr.open_dataset(open_store(references), engine="zarr", consolidated=False, zarr_format=2 if fmt == "kerchunk-json" else 3,
                                 group=decode.pop("group", ""), **decode)
        return opened.load(), run.stderr


def originals(files, **how):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return xr.open_mfdataset(list(map(str, files)), engine="h5netcdf", **(how or MINIMAL)).load()


def write(path, dataset, **how):
    dataset.to_netcdf(path, engine="h5netcdf", **how)
    return path


def days(path, first, n, units="hours since 2000-01-01", chunk=None, offset=0, down=False, dtype="i8", calendar="standard"):
    """Writes packed and plain data, time on the first and the second axis, bounds, a coordinate along time, and one without it."""
    rng = np.random.default_rng(first)
    t = (np.arange(n) + first - offset)[::-1 if down else 1].astype(dtype)
    ds = xr.Dataset(
        {"t2m": (("time", "y", "x"), rng.integers(0, 3000, (n, 4, 3)).astype("i2"), {"units": "K", "scale_factor": 0.5, "add_offset": 270.0}),
         "middle": (("y", "time", "x"), rng.random((4, n, 3)).astype("f4"), {"note": str(first)}),
         "orography": (("y", "x"), np.ones((4, 3))),
         "time_bnds": (("time", "nv"), np.stack([t, t + 1], 1).astype(dtype))},
        coords={"time": ("time", t, {"units": units, "calendar": calendar, "bounds": "time_bnds"}), "lat": ("y", np.arange(4.0)),
                "step": ("time", np.arange(n) * 10 + first)}, attrs={"history": str(first), "title": "T"})
    return write(path, ds, unlimited_dims=["time"],
                 encoding={"t2m": {"chunksizes": (chunk or n, 4, 3), "zlib": True}, "middle": {"chunksizes": (2, chunk or n, 3), "zlib": True}})


def test_existing_dimension(tmp_path, fmt):
    """In the order of time, whatever the order of the files; the last file may end within a chunk."""
    files = [days(tmp_path / f"{name}.nc", 4 * k, n, chunk=4) for k, (name, n) in enumerate(zip("dbca", (4, 4, 4, 3)))]
    got, messages = combined(tmp_path, fmt, [files[2], files[0], files[3], files[1]], "--concat-dim", "time")
    want = originals(files)
    xr.testing.assert_equal(got, want)
    xr.testing.assert_identical(got, want)
    assert "attribute history has 4 different values" in messages and "attribute note" in messages


def test_gaps_are_reported(tmp_path, fmt):
    files = [days(tmp_path / f"{k}.nc", first, 4) for k, first in enumerate((0, 4, 12))]
    got, messages = combined(tmp_path, fmt, files, "--concat-dim", "time")
    xr.testing.assert_identical(got, originals(files))
    assert "5 times the usual step between 2000-01-01T04:00 to 2000-01-01T07:00" in messages


def test_same_coordinates(tmp_path, fmt):
    files = [days(tmp_path / f"{k}.nc", first, 4) for k, first in enumerate((0, 4, 4))]
    combined(tmp_path, fmt, files, "--concat-dim", "time", status=1, text="duplicate coordinates")
    got, _ = combined(tmp_path, fmt, files, "--concat-dim", "time", "--on-duplicate", "first")
    xr.testing.assert_identical(got, originals(files[:2]))


@pytest.mark.parametrize("second, text", [(dict(first=2, n=4), "overlaps"), (dict(first=4, n=4, down=True), "decreases in the other")])
def test_files_that_cannot_follow(tmp_path, second, text):
    files = [days(tmp_path / "a.nc", 0, 4), days(tmp_path / "b.nc", **second)]
    messages = combined(tmp_path, "zarr3-json", files, "--concat-dim", "time", status=1, text=text)
    assert "a.nc" in messages and "b.nc" in messages


def test_decreasing(tmp_path, fmt):
    files = [days(tmp_path / f"{first}.nc", first, 4, down=True) for first in (4, 0)]
    got, _ = combined(tmp_path, fmt, files[::-1], "--concat-dim", "time")
    xr.testing.assert_identical(got, originals(files))


@pytest.mark.parametrize("calendar", ["standard", "proleptic_gregorian", "julian", "noleap", "all_leap", "360_day"])
@pytest.mark.parametrize("second", [
    dict(first=24 * 400, n=4, units="hours since 1999-01-01"), dict(first=60, n=4, units="minutes since 2001-03-01 00:00:00", dtype="f8"),
    dict(first=7, n=4, units="days since 2004-02-28 12:00", dtype="f4"), dict(first=11, n=3, units="seconds since 2002-1-1T01:30:00+01:00")])
def test_other_reference_times(tmp_path, fmt, calendar, second):
    """Times are compared by date; bounds are converted as well."""
    files = [days(tmp_path / "a.nc", 0, 4, calendar=calendar, dtype=second.get("dtype", "i8")), days(tmp_path / "b.nc", calendar=calendar, **second)]
    how = dict(decode_times=xr.coders.CFDatetimeCoder(use_cftime=True))
    got, messages = combined(tmp_path, fmt, files, "--concat-dim", "time", **how)
    want = originals(files, **MINIMAL, **how)
    assert (got.time.values == want.time.values).all() and (got.time_bnds.values == want.time_bnds.values).all()
    assert "converted to" in messages


def test_units_that_cannot_be_converted(tmp_path, fmt):
    files = [days(tmp_path / "a.nc", 0, 2, units="months since 2000-01-01"), days(tmp_path / "b.nc", 0, 2, units="months since 2001-01-01")]
    combined(tmp_path, fmt, files, "--concat-dim", "time", status=1, text="units")
    files[1] = days(tmp_path / "b.nc", 2, 2, units="months since 2000-01-01")
    got, _ = combined(tmp_path, fmt, files, "--concat-dim", "time", decode_times=False)
    assert got.time.values.tolist() == [0, 1, 2, 3]


def rows(path, first, n, chunk=None, zlib=False, dtype="f8"):
    ds = xr.Dataset({"t": (("time", "y"), np.random.default_rng(first).random((n, 7)).astype(dtype))}, coords={"time": np.arange(n) + first})
    encoding = {"t": {"chunksizes": (chunk, 7), "zlib": zlib}} if chunk else {}
    return write(path, ds, encoding=encoding, unlimited_dims=["time"] if chunk else [])


NEVER = ("--option", "copy-limit=0")
# Zarr v2 has one chunk size.
GRIDS = pytest.mark.parametrize("fmt,grid", [("kerchunk-json", ()), ("zarr3-json", ()), ("zarr3-json", ("--chunk-grid", "rectilinear"))])


@GRIDS
@pytest.mark.parametrize("parts", [(12, 16, 20), (31, 28, 31), (5, 1, 2)])
def test_contiguous_data_of_other_lengths(tmp_path, fmt, parts, grid):
    """Uncompressed data is divided into slices that fit all files."""
    files = [rows(tmp_path / f"{k}.nc", sum(parts[:k]), n) for k, n in enumerate(parts)]
    got, _ = combined(tmp_path, fmt, files, "--concat-dim", "time", *NEVER, *grid)
    xr.testing.assert_identical(got, originals(files))


@GRIDS
def test_chunks_larger_than_the_file(tmp_path, fmt, grid):
    """Chunks of 512 along a dimension of 24: split if uncompressed, copied if small, else rejected."""
    plain = [rows(tmp_path / f"p{k}.nc", 24 * k, 24, 512) for k in range(3)]
    got, _ = combined(tmp_path, fmt, plain, "--concat-dim", "time", *NEVER, *grid)
    xr.testing.assert_identical(got, originals(plain))
    packed = [rows(tmp_path / f"z{k}.nc", 24 * k, 24, 512, zlib=True) for k in range(3)]
    combined(tmp_path, fmt, packed, "--concat-dim", "time", *NEVER, *grid, status=1, text="not a multiple of the chunk length 512")
    got, _ = combined(tmp_path, fmt, packed, "--concat-dim", "time", *grid)
    xr.testing.assert_identical(got, originals(packed))


def test_compressed_chunks_of_other_sizes(tmp_path):
    files = [rows(tmp_path / f"{k}.nc", first, n, n, zlib=True) for k, (first, n) in enumerate(((0, 24), (24, 30), (54, 24)))]
    got, _ = combined(tmp_path, "zarr3-json", files, "--concat-dim", "time", *NEVER, "--chunk-grid", "rectilinear")
    xr.testing.assert_identical(got, originals(files))
    combined(tmp_path, "zarr3-json", files, "--concat-dim", "time", *NEVER, status=1, text="chunk shape")
    got, _ = combined(tmp_path, "zarr3-json", files, "--concat-dim", "time")
    xr.testing.assert_identical(got, originals(files))


def test_what_does_not_vary_must_be_equal(tmp_path, fmt):
    files = [write(tmp_path / f"{k}.nc", xr.Dataset({"t": ("time", [k]), "level": ((), 10.0 * k)}, coords={"time": [k]})) for k in range(3)]
    combined(tmp_path, fmt, files, "--concat-dim", "time", status=1, text="level")
    got, _ = combined(tmp_path, fmt, files, "--concat-dim", "time", "--var", "level=first")
    assert got.level.values == 0 and got.t.values.tolist() == [0, 1, 2]
    got, _ = combined(tmp_path, fmt, files, "--concat-dim", "time", "--var", "level=vary")
    assert got.level.dims == ("time",) and got.level.values.tolist() == [0, 10, 20]


@pytest.mark.parametrize("zlib", [False, True])
def test_new_dimension(tmp_path, fmt, zlib):
    """Data variables get it, coordinates and grid mappings do not; file names provide its coordinate."""
    files = []
    for k in range(3):
        ds = xr.Dataset({"t": (("y", "x"), np.random.default_rng(k).random((4, 5)), {"grid_mapping": "crs"}), "crs": ((), 0)},
                        coords={"y": np.arange(4.0), "x": np.arange(5.0)})
        files.append(write(tmp_path / f"m{9 + k}_2020022{8 + k}.nc" if k < 2 else tmp_path / "m11_20200301.nc", ds,
                           encoding={"t": {"chunksizes": (2, 5), "zlib": zlib, "shuffle": zlib}} if zlib else {}))
    want = originals(files, combine="nested", concat_dim="m", data_vars=["t"], coords="minimal", compat="override")
    got, _ = combined(tmp_path, fmt, files[::-1], "--stack-dim", "m")
    xr.testing.assert_identical(got, want)
    got, _ = combined(tmp_path, fmt, files[::-1], "--stack-dim", "m", "--coord", "m=name:m{m:d}_*.nc")
    xr.testing.assert_identical(got.drop_attrs(), want.assign_coords(m=[9, 10, 11]).drop_attrs())
    got, _ = combined(tmp_path, fmt, files[::-1], "--stack-dim", "time", "--coord", "time=name:m*_{time:%Y%m%d}.nc")
    assert got.time.values.astype("M8[D]").astype(str).tolist() == ["2020-02-28", "2020-02-29", "2020-03-01"]
    combined(tmp_path, fmt, files, "--stack-dim", "m", "--coord", "m=name:n{m:d}.nc", status=1, text="does not match n{m:d}.nc")


def test_single_coordinate_becomes_the_dimension(tmp_path, fmt):
    """A scalar `time` in each file, as in satellite products, also with different units."""
    files = []
    for k, (time, units) in enumerate([(5, "hours since 2000-01-01"), (240, "minutes since 2000-01-01"), (3, "hours since 2000-01-01")]):
        ds = xr.Dataset({"t": (("y", "x"), np.random.default_rng(k).random((4, 5)), {"coordinates": "time"})},
                        coords={"time": ((), time, {"units": units}), "y": np.arange(4.0), "x": np.arange(5.0)})
        files.append(write(tmp_path / f"{k}.nc", ds))
    got, _ = combined(tmp_path, fmt, files, "--stack-dim", "time")
    want = originals(files[::-1], combine="nested", concat_dim="time")
    assert (got.time.values == want.time.values).all()
    xr.testing.assert_equal(got.t, want.t)


def whole():
    rng = np.random.default_rng(0)
    return xr.Dataset({"t": (("time", "y", "x"), rng.random((8, 3, 12))), "n": (("x",), rng.integers(0, 9, 12)), "z": (("y",), rng.random(3))},
                      coords={"time": np.arange(8) * 6, "x": np.arange(12.0) * 2, "y": np.arange(3.0)[::-1]})


def tiles(tmp_path):
    files = []
    for i in range(2):
        for j in range(3):
            tile = whole().isel(time=slice(4 * i, 4 * i + 4), x=slice(4 * j, 4 * j + 4))
            files.append(write(tmp_path / f"tile{i}{j}.nc", tile, encoding={"t": {"chunksizes": (2, 3, 2), "zlib": True}}))
    return files


def test_tiles(tmp_path, fmt):
    files = tiles(tmp_path)
    random.Random(0).shuffle(files)
    got, _ = combined(tmp_path, fmt, files, "--concat-dim", "time", "--concat-dim", "x")
    xr.testing.assert_identical(got, whole())


def test_holes(tmp_path, fmt):
    files = tiles(tmp_path)[1:]
    combined(tmp_path, fmt, files, "--concat-dim", "time", "--concat-dim", "x", status=1, text="time 0, x 0")
    got, messages = combined(tmp_path, fmt, files, "--concat-dim", "time", "--concat-dim", "x", "--option", "allow-holes=true")
    want = whole()
    want.t[:4, :, :4] = np.nan
    xr.testing.assert_equal(got, want)
    assert "time 0, x 0" in messages


def test_ensemble_of_times(tmp_path, fmt):
    full = whole()
    members = xr.concat([full[["t"]] + k for k in range(2)], "member").assign_coords(member=[3, 4]).transpose("member", "time", "y", "x")
    files = [write(tmp_path / f"r{r}_{i}.nc", members.sel(member=r, drop=True).isel(time=slice(4 * i, 4 * i + 4)))
             for r in (3, 4) for i in range(2)]
    got, _ = combined(tmp_path, fmt, files[::-1], "--stack-dim", "member", "--concat-dim", "time", "--coord", "member=name:r{member:d}_*.nc")
    xr.testing.assert_equal(got, members)


def test_arrays_of_some_files(tmp_path, fmt):
    files = [rows(tmp_path / f"{k}.nc", 2 * k, 2, 2) for k in range(3)]
    with xr.open_dataset(files[0], engine="h5netcdf") as first:
        more = first.assign(u=first.t * 2, k=first.t.astype("i4")).load()
    write(files[0], more, encoding={"u": {"chunksizes": (2, 7), "zlib": True}})
    combined(tmp_path, fmt, files, "--concat-dim", "time", status=1)
    got, messages = combined(tmp_path, fmt, files, "--concat-dim", "time", "--var", "u=optional", "--var", "k=optional:-1")
    assert np.isnan(got.u.values[2:]).all() and (got.u.values[:2] == more.u.values).all()
    assert np.isnan(got.k.values[2:]).all() and (got.k.values[:2] == more.k.values).all()
    assert "u: 2 files do not have it" in messages.replace("/u", "u")
    combined(tmp_path, fmt, files, "--concat-dim", "time", "--var", "u=optional", "--var", "k=optional", status=1, text="--var k=optional:-2147483647")


def times(path, k, **arrays):
    """Writes four hours from 4 k on, and arrays along them."""
    with h5py.File(path, "w") as file:
        time = file.create_dataset("time", data=np.arange(4) + 4 * k)
        time.make_scale("time")
        time.attrs["units"] = "hours since 2000-01-01"
        for name, data in {"a": np.arange(4.0) + k, **arrays}.items():
            if isinstance(data, h5py.VirtualLayout):
                array = file.create_virtual_dataset(name, data, fillvalue=-1)
            else:
                array = file.create_dataset(name, data=data, compression="gzip" if np.ndim(data) == 2 else None)
            array.dims[0].attach_scale(time)
    return path


@pytest.mark.parametrize("kind", ["damaged", "linked", "of another type"])
def test_an_array_that_one_file_cannot_offer_is_not_missing(tmp_path, fmt, kind):
    numbers = np.random.default_rng(1).random((4, 3000))
    files = [times(tmp_path / f"{k}.nc", k, b=numbers) for k in range(3)]
    if kind == "damaged":
        content = files[1].read_bytes()
        files[1].write_bytes(content.replace(b"TREE\1", b"XREE\1"))
    else:
        with h5py.File(files[1], "a") as file:
            del file["b"]
            if kind == "linked":
                file["b"] = h5py.ExternalLink("2.nc", "b")
            else:
                file.create_dataset("b", shape=4, dtype=h5py.vlen_dtype("i4")).dims[0].attach_scale(file["time"])
    for more in ((), ("--on-mismatch", "split"), ("--var", "b=optional"), ("--var", "a=optional")):
        run = virtualize("batch", *files, "--concat-dim", "time", "--format", fmt, "-o", tmp_path / "all.json", "--overwrite", "--restart", *more)
        if "split" in more:
            assert run.status == 0 and "set_1" in (tmp_path / "all.json").read_text(), run.stderr
        else:
            assert run.status == 1 and "b cannot be referenced" in run.stderr and "b=drop" in run.stderr and "b=optional" not in run.stderr, run.stderr
    got, _ = combined(tmp_path, fmt, files, "--concat-dim", "time", "--var", "b=drop")
    assert got.a.values.tolist() == [0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5] and "b" not in got
    found = virtualize("scan", *files, "--json")
    assert "b=optional" not in found.stdout.decode(), found.stdout
    if kind == "linked":
        # In all files alike, it is omitted, with a warning.
        same = [files[1], times(tmp_path / "3.nc", 3)]
        with h5py.File(same[1], "a") as file:
            file["b"] = h5py.ExternalLink("2.nc", "b")
        got, messages = combined(tmp_path, fmt, same, "--concat-dim", "time")
        assert "b" not in got and "link-omitted" in messages


@pytest.mark.parametrize("subfile", [0, 1], ids=["page", "overview"])
def test_an_image_that_one_file_cannot_offer(tmp_path, fmt, subfile):
    """Pages are data, overviews are not."""
    files = [tmp_path / f"2020010{k}.tif" for k in (1, 2, 3)]
    for k, path in enumerate(files):
        with tifffile.TiffWriter(path) as file:
            file.write(np.full((64, 64), k, "u1"), tile=(32, 32), compression="zlib", metadata=None)
            file.write(np.full((32, 32) if subfile else (64, 64), k, "u1"), tile=(32, 32), compression="zlib", subfiletype=subfile, metadata=None)
    with tifffile.TiffFile(files[1]) as file:
        at = file.pages[1].tags["Compression"].valueoffset
    content = bytearray(files[1].read_bytes())
    content[at : at + 2] = (60000).to_bytes(2, "little")
    files[1].write_bytes(content)
    how = (tmp_path, fmt, files, "--stack-dim", "time", "--coord", "time=name:{time:%Y%m%d}.tif")
    if subfile:
        got, _ = combined(*how)
        assert got.band_data.values[:, 0, 0, 0].tolist() == [0, 1, 2]
    else:
        error = combined(*how, status=1, text="1/band_data cannot be referenced")
        assert "optional" not in error, error


@pytest.mark.parametrize("data", [np.array([True, False, True, True]), np.array([(1, 2.0)] * 4, "i4,f8"), np.array([b"ab"] * 4, "V2")], ids=["bool", "struct", "opaque"])
def test_types_without_a_missing_value_are_in_all_files_or_in_none(tmp_path, fmt, data):
    files = [times(tmp_path / f"{k}.nc", k, **({} if k == 1 else {"v": data})) for k in range(3)]
    run = virtualize("batch", *files, "--concat-dim", "time", "--format", fmt, "-o", tmp_path / "all.json")
    assert run.status == 1 and "v is missing" in run.stderr and "v=optional" not in run.stderr, run.stderr
    got, _ = combined(tmp_path, fmt, files, "--concat-dim", "time", "--var", "v=drop")
    assert got.sizes["time"] == 12


def test_a_file_whose_source_has_changed_is_read_again(tmp_path, fmt):
    def source(k, first, padding):
        with h5py.File(tmp_path / f"source{k}.h5", "w") as file:
            file["padding"] = np.full(padding, 9.0)
            file["x"] = np.arange(4.0) + first
    files = []
    for k in range(2):
        source(k, 10 * k, 1)
        layout = h5py.VirtualLayout((4,), "f8")
        layout[:] = h5py.VirtualSource(f"source{k}.h5", "x", (4,))
        files.append(times(tmp_path / f"{k}.nc", k, v=layout))
    how = ("batch", *files, "--concat-dim", "time", "--format", fmt, "-o", tmp_path / "all.json", "--option", "copy-limit=0")
    assert "2 to be read" in virtualize(*how).stderr
    assert "up to date" in virtualize(*how).stderr
    source(1, 500, 100)
    run = virtualize(*how)
    assert "1 to be read" in run.stderr, run.stderr
    references = json.loads((tmp_path / "all.json").read_text())
    got = xr.open_dataset(open_store(references), engine="zarr", consolidated=False, zarr_format=2 if fmt == "kerchunk-json" else 3)
    assert got.v.values.tolist() == [0, 1, 2, 3, 500, 501, 502, 503]


def test_groups(tmp_path, fmt):
    """A dimension of the same name grows separately in each group."""
    files = []
    for k in range(2):
        path = rows(tmp_path / f"{k}.nc", 3 * k, 3)
        write(path, xr.Dataset({"v": ("time", np.arange(6) + 6 * k)}, coords={"time": np.arange(6) + 6 * k}), group="fine/er", mode="a")
        files.append(path)
    got, _ = combined(tmp_path, fmt, files, "--concat-dim", "time")
    xr.testing.assert_identical(got, originals(files))
    got, _ = combined(tmp_path, fmt, files, "--concat-dim", "time", group="fine/er")
    assert got.v.values.tolist() == got.time.values.tolist() == list(range(12))


def test_sets(tmp_path, fmt):
    files = [rows(tmp_path / f"{k}.nc", 4 * k, 4, dtype="f8" if k < 2 else "f4") for k in range(4)]
    combined(tmp_path, fmt, files, "--concat-dim", "time", status=1, text="data type")
    got, _ = combined(tmp_path, fmt, files, "--concat-dim", "time", "--on-mismatch", "split", group="set_1")
    xr.testing.assert_equal(got, originals(files[2:]))
    got, _ = combined(tmp_path, fmt, files[:3], "--concat-dim", "time", "--on-mismatch", "skip")
    xr.testing.assert_equal(got, originals(files[:2]))


def test_empty_files_and_files_without_coordinates(tmp_path, fmt):
    for k in range(11):
        write(tmp_path / f"part{k}.nc", xr.Dataset({"t": (("time", "x"), np.full((2, 3), k))}))
    files = [tmp_path / f"part{k}.nc" for k in range(11)]
    got, _ = combined(tmp_path, fmt, sorted(files), "--concat-dim", "time")
    assert got.t.values[:, 0].tolist() == [k for k in range(11) for _ in range(2)]
    empty = write(tmp_path / "a.nc", xr.Dataset({"t": (("time", "x"), np.zeros((0, 3)))}, coords={"time": np.zeros(0)}), unlimited_dims=["time"])
    other = [write(tmp_path / f"b{k}.nc", xr.Dataset({"t": (("time", "x"), np.full((1, 3), k))}, coords={"time": [1.0 * k]})) for k in range(2)]
    got, messages = combined(tmp_path, fmt, [empty, *other], "--concat-dim", "time")
    assert got.time.values.tolist() == [0, 1] and "length 0" in messages


def test_texts(tmp_path, fmt):
    """Variable-length and fixed-length strings."""
    files = []
    for k in range(3):
        ds = xr.Dataset({"name": ("time", np.array([f"n{k}", "long name" * k], object)), "code": ("time", np.array([b"ab", b"%d" % k]))},
                        coords={"time": [2 * k, 2 * k + 1]})
        files.append(write(tmp_path / f"{k}.nc", ds))
    got, _ = combined(tmp_path, fmt, files, "--concat-dim", "time")
    assert got.name.values.tolist() == ["n0", "", "n1", "long name", "n2", "long namelong name"]
    assert [bytes(code) for code in got.code.values] == [b"ab", b"0", b"ab", b"1", b"ab", b"2"]


@pytest.mark.parametrize("seed", range(6))
def test_random_cuts_make_the_whole(tmp_path, fmt, seed):
    """A dataset split at multiples of its chunks, along one or two dimensions in any axis order, is restored. Last parts may be shorter than a chunk."""
    rng = random.Random(seed)
    sizes = {"a": rng.randint(3, 9), "b": rng.randint(3, 9), "c": rng.randint(1, 4)}
    chunk = {"a": rng.randint(1, 3), "b": rng.randint(1, 3), "c": rng.randint(1, sizes["c"])}
    along = rng.sample("abc", 2)[:rng.randint(1, 2)]
    down = rng.random() < 0.3
    data = {}
    for k in range(4):
        dims = rng.sample("abc", rng.randint(1, 3))
        shape = [sizes[d] for d in dims]
        data[f"v{k}"] = (dims, np.random.default_rng(seed * 9 + k).integers(-99, 99, shape).astype(rng.choice(["i2", ">i4", "f4", "f8"])))
    coords = {d: np.arange(sizes[d])[::-1 if down else 1] * 1.5 for d in "abc"}
    full = xr.Dataset(data, coords=coords)
    cuts = {d: sorted({0, sizes[d], *(chunk[d] * rng.randint(1, 3) for _ in range(2))}  & {*range(sizes[d] + 1)}) for d in along}
    parts = [full]
    for d in along:
        parts = [p.isel({d: slice(lo, hi)}) for p in parts for lo, hi in zip(cuts[d], cuts[d][1:])]
    files = []
    for k, part in enumerate(parts):
        encoding = {n: {"chunksizes": tuple(chunk[d] for d in v.dims), "zlib": bool(seed % 2)} for n, v in part.data_vars.items()}
        for n, v in part.data_vars.items():
            if any(chunk[d] > part.sizes[d] for d in v.dims):
                encoding[n]["chunksizes"] = tuple(min(chunk[d], part.sizes[d]) for d in v.dims)
        files.append(write(tmp_path / f"{k}.nc", part, encoding=encoding))
    rng.shuffle(files)
    got, _ = combined(tmp_path, fmt, files, *(word for d in along for word in ("--concat-dim", d)))
    xr.testing.assert_identical(got, full)
    words = [*(word for d in along for word in ("--concat-dim", d)), *NEVER]
    run = virtualize("batch", *files, *words, "--format", fmt, "-o", tmp_path / "all.json", "--restart")
    if run.status:
        assert any(text in run.stderr for text in ("chunk shape", "not a multiple of the chunk length", "beside each other", "chunks of")), run.stderr
    else:
        got, _ = combined(tmp_path, fmt, files, *words)
        xr.testing.assert_identical(got, full)


def test_bounds_of_the_coordinate_along_a_new_dimension(tmp_path, fmt):
    """As in files of GOES: a single time with bounds, which get the dimension as the time does. Units may differ from file to file."""
    files = []
    for k in range(3):
        ds = xr.Dataset({"rad": ("x", np.arange(4, dtype="i2") + k), "t_bounds": ("nv", np.array([600.0 * k - 150, 600.0 * k + 150]) - 60 * k)},
                        coords={"t": ((), 540.0 * k, {"units": f"seconds since 2000-01-01 00:0{k}:00", "bounds": "t_bounds"})})
        files.append(write(tmp_path / f"g{k}.nc", ds, encoding={"t": {"_FillValue": None}, "t_bounds": {"_FillValue": None}}))
    got, _ = combined(tmp_path, fmt, files, "--stack-dim", "t")
    start = np.datetime64("2000-01-01T00:00:00", "ns")
    assert got.t_bounds.dims == ("t", "nv") and (got.t.values == start + 600 * np.arange(3) * np.timedelta64(1, "s")).all()
    assert (got.t_bounds.values == got.t.values[:, None] + np.array([-150, 150]) * np.timedelta64(1, "s")).all()


def test_inferred_dimension(tmp_path):
    """Without a dimension, files are combined along the only one whose coordinate differs, as if it had been given."""
    def tile(path, **starts):
        axes = {name: starts.get(name, 0) + np.arange(3.0) / 8 for name in ("time", "level", "lat")}
        data = np.random.default_rng(len(path.name)).random((3, 3, 3))
        ds = xr.Dataset({"t": (tuple(axes), data)}, coords=axes)
        ds.time.attrs["units"] = "days since 2000-01-01"
        return write(path, ds)

    for name in ("time", "level", "lat"):
        # Rounding of the other coordinates is not a difference.
        other = {"lat": 1e-9} if name != "lat" else {}
        files = [tile(tmp_path / f"{name}{n}.nc", **{name: n}, **(other if n else {})) for n in range(3)]
        got, messages = combined(tmp_path, "kerchunk-json", files, text=f"the files are combined along {name}, the only coordinate that differs")
        want, _ = combined(tmp_path, "kerchunk-json", files, "--concat-dim", name)
        xr.testing.assert_identical(got, want)
    xr.testing.assert_equal(got, originals(files, combine="nested", concat_dim="lat", data_vars="minimal", coords="minimal", compat="override"))
    # The next run takes the dimension from the journal.
    output = tmp_path / "lat.json"
    for inputs in (files[:2], files):
        assert virtualize("batch", *inputs, "-o", output).status == 0
    assert json.loads(output.read_text()) == json.loads((tmp_path / "all.json").read_text())
    both = [files[0], tile(tmp_path / "corner.nc", time=1, lat=1)]
    combined(tmp_path, "kerchunk-json", both, status=2, text="along: lat, time differ (use --concat-dim lat --concat-dim time to combine them")


def test_regions_of_single_files_are_omitted(tmp_path):
    """They count from the start of their own file."""
    for k in range(2):
        with h5py.File(tmp_path / f"{k}.h5", "w") as file:
            data = file.create_dataset("data", data=np.arange(4) + 4 * k)
            file["x"] = np.arange(4, dtype="f8") + 4 * k
            file["x"].make_scale("x")
            data.dims[0].attach_scale(file["x"])
            file.create_dataset("refs", (1,), h5py.regionref_dtype)[0] = data.regionref[1:3]
            data.attrs["part"] = data.regionref[0:2]
    run = virtualize("batch", tmp_path / "*.h5", "--concat-dim", "x", "-o", tmp_path / "all.json")
    assert run.status == 0, run.stderr
    references = json.loads((tmp_path / "all.json").read_text())["refs"]
    assert "refs/.zarray" in references and not any(key.startswith("refs_part") for key in references)
    assert "part" not in json.loads(references["data/.zattrs"])
    assert "/refs_part: omitted: it selects regions by the coordinates of its own file" in run.stderr, run.stderr
    assert "/data: attribute part omitted: it selects regions" in run.stderr


def test_segments_have_equal_attributes(tmp_path):
    """Attributes that differ between groups are omitted from both when they are written, as those that differ between files are."""
    for k in range(4):
        ds = xr.Dataset({"a": ("time", np.arange(2.0), {"note": f"of {k}", "title": "T"})}, {"time": [2 * k, 2 * k + 1]}, {"orbit": k // 2, "title": "T"})
        ds.to_netcdf(tmp_path / f"{k}.nc", engine="h5netcdf", encoding={"a": {"zlib": k < 2, "chunksizes": (2,), "dtype": "f8" if k < 2 else "f4"}})
    run = virtualize("batch", tmp_path / "*.nc", "--concat-dim", "time", "-o", tmp_path / "all.json")
    assert run.status == 0, run.stderr
    references = json.loads((tmp_path / "all.json").read_text())["refs"]
    assert "virtualize:segments" in json.loads(references[".zattrs"])
    for node, ours in (("", {"title": "T"}), ("/a", {"title": "T"})):
        both = [json.loads(references[f"{group}{node}/.zattrs"]) for group in ("set_0", "set_1")]
        kept = [{name: value for name, value in one.items() if name[0] != "_"} for one in both]
        assert kept == [ours, ours], both
    assert "/: attribute orbit has 2 different values: dropped" in run.stderr, run.stderr


def test_each_names_the_options_that_it_excludes(tmp_path):
    file = days(tmp_path / "a.nc", 0, 2)
    run = virtualize("batch", file, "--each", "--var", "t2m=drop", "--on-duplicate", "first", "-o", tmp_path / "out")
    assert run.status == 2 and "--each cannot be combined with --var, --on-duplicate" in run.stderr, run.stderr


@pytest.mark.parametrize("policy", ["first", "last"])
def test_duplicates_in_one_group_do_not_drop_the_elements_of_another(tmp_path, policy):
    def write(path, groups):
        with netCDF4.Dataset(path, "w") as file:
            for name, times in groups.items():
                group = file.createGroup(name)
                group.createDimension("time", len(times))
                group.createVariable("time", "i4", ("time",))[:] = times
                group.createVariable("v", "f4", ("time",))[:] = np.array(times) + 0.5

    out = tmp_path / "out.json"
    arguments = ["batch", tmp_path / "a.nc", tmp_path / "b.nc", "--concat-dim", "time", "-o", out]
    write(tmp_path / "a.nc", {"p": [0, 1, 2], "q": [0, 1, 2]})
    # The times of one group are equal, and those of the other follow.
    write(tmp_path / "b.nc", {"p": [0, 1, 2], "q": [3, 4, 5]})
    for more in ([], ["--on-duplicate", policy]):
        done = virtualize(*arguments, *more)
        assert done.status == 1 and not out.exists() and "different values" in done.stderr, done.stderr


@pytest.mark.parametrize("units", [("hours since 2000-01-01", "us since 2000-01-01"), ("S SINCE 2000-01-01", "hours since 2000-01-01")])
def test_converted_times_have_units_that_xarray_decodes(tmp_path, fmt, units):
    """cftime knows more spellings of units than xarray."""
    import netCDF4
    files = []
    for k, text in enumerate(units):
        files.append(tmp_path / f"{k}.nc")
        with netCDF4.Dataset(files[-1], "w") as file:
            file.createDimension("time", 2)
            time = file.createVariable("time", "i8", ("time",))
            time[:], time.units = [3600 * (2 * k + 1), 3600 * (2 * k + 2)], text
            file.createVariable("v", "f4", ("time",))[:] = [k, k]
    got, _ = combined(tmp_path, fmt, files, "--concat-dim", "time")
    nanoseconds = {"hours": 3_600_000_000_000, "us": 1_000, "S": 1_000_000_000}
    expected = [np.datetime64("2000-01-01", "ns") + np.timedelta64(3600 * n * nanoseconds[text.split()[0]], "ns") for text, at in zip(units, ([1, 2], [3, 4])) for n in at]
    assert sorted(got.time.values.astype("M8[ns]").tolist()) == sorted(np.array(expected).tolist())


def test_the_first_file_alone_is_not_taken_along_the_dimension(tmp_path, fmt):
    files = [write(tmp_path / f"{k}.nc", xr.Dataset({"v": ("time", np.arange(2) + k), "z": ("x", np.arange(3))}, coords={"time": [2 * k, 2 * k + 1]})) for k in range(2)]
    got, messages = combined(tmp_path, fmt, files, "--concat-dim", "time", "--var", "v=first", "--var", "z=first")
    assert got.v.values.tolist() == [0, 1, 1, 2]
    assert "v: files are joined along its dimension time: the rule first has no effect" in messages and "z: files" not in messages
