"""Files that only differ in storage, or in the types of times: combined if their parts are compatible, else separate sets."""
import json, random

import numpy as np
import pytest
import xarray as xr
from clients import FORMATS, either_format, seeds, virtualize  # noqa: F401
from test_combine import MINIMAL, combined, originals, rows, write

CONCAT = ("--concat-dim", "time")
NEVER = ("--option", "copy-limit=0")


def sets(files, *arguments):
    run = virtualize("scan", *files, *CONCAT, "--json", *arguments)
    assert run.status == 0, run.stderr
    return [one["files"] for one in json.loads(run.stdout)["sets"]]


def part(path, first, n, chunk, width=100, **encoding):
    ds = xr.Dataset({"v": (("time", "x"), np.random.default_rng(first).random((n, width)))}, coords={"time": np.arange(n) + first})
    return write(path, ds, encoding={"v": {"chunksizes": (chunk, width), "zlib": True, **encoding}})


def test_both_sides_of_the_limit(tmp_path, fmt):
    """Files of 51 KB, which are read, next to files of 102 KB, which are not: their chunks are compatible."""
    files = [part(tmp_path / "a.nc", 0, 64, 32), part(tmp_path / "b.nc", 64, 128, 32), part(tmp_path / "c.nc", 192, 64, 32)]
    got, _ = combined(tmp_path, fmt, files, *CONCAT)
    xr.testing.assert_identical(got, originals(files))
    assert sets(files) == [3]
    ragged = [*files, part(tmp_path / "d.nc", 256, 40, 32)]
    got, _ = combined(tmp_path, fmt, ragged, *CONCAT)
    xr.testing.assert_identical(got, originals(ragged))


@pytest.mark.parametrize("fmt", FORMATS)
def test_chunks_that_do_not_fit_stay_sets(tmp_path, fmt):
    files = [part(tmp_path / "a.nc", 0, 64, 32), part(tmp_path / "b.nc", 64, 128, 64), part(tmp_path / "c.nc", 192, 64, 32)]
    messages = combined(tmp_path, fmt, files, *CONCAT, status=1, text="cannot be joined with")
    assert "chunk shape" in messages and sets(files) == [2, 1]
    got, _ = combined(tmp_path, fmt, files, *CONCAT, "--on-mismatch", "split", group="set_1")
    xr.testing.assert_identical(got, originals(files[1:2]))
    if fmt != "kerchunk-json":
        got, _ = combined(tmp_path, fmt, files, *CONCAT, "--chunk-grid", "rectilinear")
        xr.testing.assert_identical(got, originals(files))
        assert sets(files, "--chunk-grid", "rectilinear") == [3]


@pytest.mark.parametrize("fmt, order", [("kerchunk-json", "middle"), ("zarr3-json", "first"), ("zarr3-json", "last")])
def test_single_steps_among_others(tmp_path, fmt, order):
    """A file with a single step, whose chunk is that step."""
    at = {"first": 0, "middle": 4, "last": 8}[order]
    firsts = {"first": (1, 5), "middle": (0, 5), "last": (0, 4)}[order]
    starts = sorted([at, *firsts])
    files = [part(tmp_path / f"{first}.nc", first, 1 if first == at else 4, 1 if first == at else 4, 600) for first in starts]
    for limit in ((), NEVER):
        run = virtualize("batch", *files, *CONCAT, *limit, "--on-mismatch", "stop", "--format", fmt, "-o", tmp_path / "all.json", "--restart")
        if run.status == 0:
            got, _ = combined(tmp_path, fmt, files, *CONCAT, *limit)
            xr.testing.assert_identical(got, originals(files))
        else:
            assert "chunk shape" in run.stderr, run.stderr
    many = [part(tmp_path / f"many{first}.nc", first, 1 if first == at else 4, 1, 600) for first in starts]
    got, _ = combined(tmp_path, fmt, many, *CONCAT)
    xr.testing.assert_identical(got, originals(many))
    if fmt != "kerchunk-json":
        got, _ = combined(tmp_path, fmt, files, *CONCAT, *NEVER, "--chunk-grid", "rectilinear")
        xr.testing.assert_identical(got, originals(files))


def test_small_arrays_stored_in_any_way(tmp_path, fmt):
    files = [part(tmp_path / "a.nc", 0, 8, 8), part(tmp_path / "b.nc", 8, 8, 4, zlib=False), part(tmp_path / "c.nc", 16, 8, 2, shuffle=True, complevel=1)]
    got, _ = combined(tmp_path, fmt, files, *CONCAT)
    xr.testing.assert_identical(got, originals(files))
    assert sets(files) == [3]
    combined(tmp_path, fmt, files, *CONCAT, *NEVER, status=1, text="--option copy-limit=7K to join all 3 files")


def timed(path, values, dtype, units="hours since 2000-01-01", fill=None, bounds=False, calendar="standard"):
    values = np.asarray(values).astype(dtype)
    ds = xr.Dataset({"v": ("time", np.arange(len(values)) + float(values[0]))}, coords={"time": ("time", values, {"units": units, "calendar": calendar})})
    if bounds:
        ds["time_bnds"] = (("time", "nv"), np.stack([values, values + 1], 1).astype(dtype))
        ds.time.attrs["bounds"] = "time_bnds"
    return write(path, ds, encoding={"time": {"_FillValue": fill}})


@pytest.mark.parametrize("bounds", [False, True])
@pytest.mark.parametrize("types", [("i8", "f8"), ("f4", "f8"), ("i4", "i8"), ("i4", "f4", "f8", "i8"), ("i2", "i4"), ("u4", "i4"), (">f4", "<i8"), (">i2", ">f8")], ids=str)
def test_types_of_times(tmp_path, fmt, types, bounds):
    for fill in (None, np.nan):
        files = [timed(tmp_path / f"{k}.nc", np.arange(4) + 4 * k, dtype, fill=fill if dtype[-2] == "f" else None, bounds=bounds) for k, dtype in enumerate(types)]
        for order in (files, files[::-1]):
            got, _ = combined(tmp_path, fmt, order, *CONCAT)
            xr.testing.assert_equal(got, originals(files))
            assert got.time.dtype == originals(files).time.dtype
        assert sets(files) == [len(files)]


def test_fractions_and_large_numbers(tmp_path, fmt):
    files = [timed(tmp_path / "a.nc", [0, 1], "i8"), timed(tmp_path / "b.nc", [1.5, 2.25], "f8"), timed(tmp_path / "c.nc", [2.5], "f4")]
    got, messages = combined(tmp_path, fmt, files, *CONCAT)
    assert (got.time.values == originals(files).time.values).all() and "converted to float64" in messages
    large = 2**53 + 1
    files = [timed(tmp_path / "a.nc", [large], "i8", "nanoseconds since 2000-01-01"), timed(tmp_path / "b.nc", [2.0**54], "f8", "nanoseconds since 2000-01-01")]
    got, messages = combined(tmp_path, fmt, files, *CONCAT, decode_times=False)
    assert got.time.values.tolist() == [large, 2**54] and got.time.dtype == np.int64
    files[1] = timed(tmp_path / "b.nc", [2.5], "f8", "nanoseconds since 2000-01-01")
    combined(tmp_path, fmt, files, *CONCAT, status=1, text="cannot be joined with")
    assert sets(files) == [1, 1]


def test_types_and_units(tmp_path, fmt):
    files = [timed(tmp_path / "a.nc", [0, 6], "f4"), timed(tmp_path / "b.nc", [1, 2], "i4", "days since 2000-01-01"), timed(tmp_path / "c.nc", [4320], "i8", "minutes since 2000-01-01")]
    got, messages = combined(tmp_path, fmt, files, *CONCAT)
    assert (got.time.values == originals(files).time.values).all() and "converted to" in messages


@pytest.mark.parametrize("fills", [(-1, None), (-1, -2), (None, -1.0)])
def test_sentinels_that_do_not_occur(tmp_path, fmt, fills):
    dtype = "i4" if fills[0] == -1 else "f8"
    files = [timed(tmp_path / f"{k}.nc", np.arange(4) + 4 * k, dtype, fill=fill) for k, fill in enumerate(fills)]
    got, _ = combined(tmp_path, fmt, files, *CONCAT)
    assert (got.time.values == originals(files).time.values).all()
    files[1] = timed(tmp_path / "1.nc", [4, 5, 6, 7], dtype, fill=5)
    combined(tmp_path, fmt, files, *CONCAT, status=1, text="cannot be joined with")


@pytest.mark.parametrize("types", [("i4", "i8"), ("i8", "f8"), ("f4", "f8"), ("i4", "f4"), ("i2", "i4"), ("i2", "f4"), ("u2", "i4")], ids=str)
def test_types_of_other_coordinates(tmp_path, fmt, types):
    """Numbers without units: values equal those of xarray; types as well if NumPy's are 64 bits wide or of one kind."""
    files = [write(tmp_path / f"{k}.nc", xr.Dataset({"v": ("level", np.arange(3.0))}, coords={"level": ("level", (np.arange(3) + 3 * k).astype(dtype))}),
                   encoding={"level": {"_FillValue": None}}) for k, dtype in enumerate(types)]
    got, _ = combined(tmp_path, fmt, files, "--concat-dim", "level")
    want = originals(files, **{**MINIMAL, "concat_dim": "level"})
    assert got.level.values.tolist() == want.level.values.tolist() and got.v.values.tolist() == want.v.values.tolist()
    if types not in (("i2", "f4"), ("u2", "i4")):
        assert got.level.dtype == want.level.dtype


def test_data_of_other_types_stay_sets(tmp_path, fmt):
    files = [rows(tmp_path / "a.nc", 0, 4), rows(tmp_path / "b.nc", 4, 4, dtype="f4")]
    combined(tmp_path, fmt, files, *CONCAT, status=1, text="data type")
    assert sets(files) == [1, 1]


@pytest.mark.parametrize("seed", seeds("RANDOM_ARCHIVES", 12))
def test_random_kinds(tmp_path, fmt, seed):
    """Random lengths, chunks, codecs, limits and types of times: equal to xarray, or sets with a reason."""
    rng = random.Random(seed)
    files, at = [], 0
    unit = rng.choice([1, 2, 4])
    for k in range(rng.randint(2, 6)):
        n = rng.choice([1, unit, 2 * unit, 4 * unit, 3])
        ds = xr.Dataset({"v": (("time", "x"), np.random.default_rng(k).random((n, 9))), "w": (("x", "time"), np.random.default_rng(k).integers(0, 99, (9, n)).astype("i2"))},
                        coords={"time": ("time", (np.arange(n) + at).astype(rng.choice(["i8", "i8", "f8", "f4"])), {"units": "hours since 2000-01-01"})})
        chunk = rng.choice([n, min(unit, n), 1])
        zlib = rng.random() < 0.7
        encoding = {"v": {"chunksizes": (chunk, 9), "zlib": zlib}, "w": {"chunksizes": (9, chunk), "zlib": zlib}}
        files.append(write(tmp_path / f"{k}.nc", ds, encoding=encoding))
        at += n
    rng.shuffle(files)
    limit = rng.choice([(), NEVER, ("--option", "copy-limit=150")])
    more = ("--chunk-grid", "rectilinear") if fmt != "kerchunk-json" and rng.random() < 0.4 else ()
    ordered = sorted(files, key=lambda path: xr.open_dataset(path).time.values[0])
    words = (*CONCAT, *limit, *more)
    run = virtualize("batch", *files, *words, "--on-mismatch", "stop", "--format", fmt, "-o", tmp_path / "all.json", "--restart")
    found = sets(files, *limit, *(more and ("--format", "zarr3-json") and more))
    if run.status:
        assert any(text in run.stderr for text in ("chunk shape", "codecs", "multiple of the chunk length", "chunks of", "chunks cannot stand", "data type")), run.stderr
        return
    assert found == [len(files)]
    got, _ = combined(tmp_path, fmt, files, *words)
    want = originals(ordered)
    xr.testing.assert_equal(got, want)
    for name in want.variables:
        assert got[name].dtype == want[name].dtype, name


def test_counts_of_ragged_arrays_are_not_joined_without_their_items(tmp_path):
    import h5py
    for k in range(2):
        with h5py.File(tmp_path / f"{k}.h5", "w") as file:
            file["time"] = np.arange(3) + 3 * k
            file["time"].make_scale("time")
            data = file.create_dataset("v", (3,), h5py.vlen_dtype("i4"))
            data[:] = [[1], [2, 3], []]
            data.dims[0].attach_scale(file["time"])
    run = virtualize("batch", tmp_path / "0.h5", tmp_path / "1.h5", *CONCAT, "--option", "ragged=true", "-o", tmp_path / "out.json")
    assert run.status == 1 and "counts items along" in run.stderr and not (tmp_path / "out.json").exists()
