"""Text along the growing dimension, variable-length (h5py, netCDF4, xarray) and fixed-length, combined as by `xr.open_mfdataset`."""
import random

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr
from clients import either_format, seeds  # noqa: F401
from test_combine import combined, originals

WORDS = ["", "a", "bb", "snow", "ä€𝄞", "x" * 300, "two words"]
CONCAT = ("--concat-dim", "time")


def labels(path, first, texts, chunk=512, dtype=None):
    """Writes labels along an unlimited dimension with h5py."""
    with h5py.File(path, "w") as f:
        time = f.create_dataset("time", data=np.arange(first, first + len(texts)), maxshape=(None,), chunks=(512,))
        time.make_scale("time")
        kind = dtype or h5py.string_dtype()
        label = f.create_dataset("label", data=np.array(texts, kind if dtype else object), dtype=kind, maxshape=(None,), chunks=(chunk,))
        label.dims[0].attach_scale(time)
        v = f.create_dataset("v", data=np.arange(len(texts), dtype="f4"), maxshape=(None,), chunks=(512,))
        v.dims[0].attach_scale(time)
    return path


def same(got, want):
    for name in want.variables:
        one, other = got[name].values, want[name].values
        if other.dtype.kind in "OST":
            text = lambda value: value.decode() if isinstance(value, bytes) else value
            one, other = [text(value) for value in one.ravel()], [text(value) for value in other.ravel()]
            assert one == other, (name, one, other)
        else:
            assert (one == other).all(), name
        assert got[name].dims == want[name].dims


@pytest.mark.parametrize("counts", [(1, 1, 1), (1, 5, 2), (7, 600, 3)])
def test_files_of_few_labels(tmp_path, fmt, counts):
    rng, files, at = random.Random(sum(counts)), [], 0
    for k, count in enumerate(counts):
        files.append(labels(tmp_path / f"{k}.nc", at, rng.choices(WORDS, k=count)))
        at += count
    got, _ = combined(tmp_path, fmt, files[::-1], *CONCAT)
    same(got, originals(files))


def test_what_is_larger_than_the_limit_is_refused_and_the_advice_is_true(tmp_path, fmt):
    files = [labels(tmp_path / f"{k}.nc", k * 3, ["long " * 300] * 3) for k in range(2)]
    messages = combined(tmp_path, fmt, files, *CONCAT, "--option", "copy-limit=3000", status=1, text="label")
    assert "copy-limit" in messages
    got, _ = combined(tmp_path, fmt, files, *CONCAT, "--option", "copy-limit=1M")
    same(got, originals(files))


def test_fixed_length(tmp_path, fmt):
    files = [labels(tmp_path / f"{k}.nc", k, [b"ab%d" % k], dtype="S8") for k in range(3)]
    got, _ = combined(tmp_path, fmt, files, *CONCAT)
    same(got, originals(files))


def test_characters_of_netcdf(tmp_path, fmt):
    files = []
    for k in range(3):
        files.append(tmp_path / f"{k}.nc")
        with netCDF4.Dataset(files[-1], "w") as d:
            d.createDimension("time", None)
            d.createDimension("length", 6)
            d.createVariable("time", "f8", ("time",), chunksizes=(512,))[:] = [k]
            name = d.createVariable("name", "S1", ("time", "length"), chunksizes=(512, 6))
            name[:] = netCDF4.stringtochar(np.array([b"st%d" % k], "S6"))
            text = d.createVariable("text", str, ("time",), chunksizes=(512,))
            text[0] = WORDS[k + 2]
    got, _ = combined(tmp_path, fmt, files, *CONCAT)
    same(got, originals(files))


def test_coordinates_of_text(tmp_path, fmt):
    """Sorted by text."""
    files = []
    for k, names in enumerate((["a", "b"], ["c"], ["d", "e", "f"])):
        files.append(tmp_path / f"{2 - k}.nc")
        xr.Dataset({"v": ("station", np.arange(len(names)) + 10 * k)}, {"station": np.array(names, object)}).to_netcdf(
            files[-1], engine="h5netcdf", unlimited_dims=["station"])
    got, _ = combined(tmp_path, fmt, files[::-1], "--concat-dim", "station")
    same(got, originals(files, combine="nested", concat_dim="station"))


def test_names_of_members(tmp_path, fmt):
    """A scalar in each file becomes the coordinate of a new dimension."""
    files = []
    for k, name in enumerate(("alpha", "beta", "gamma")):
        files.append(tmp_path / f"{k}.nc")
        xr.Dataset({"v": ("x", np.arange(3.0) + k)}, {"member": ((), name)}).to_netcdf(files[-1], engine="h5netcdf")
    got, _ = combined(tmp_path, fmt, files, "--stack-dim", "member")
    assert list(got.member.values) == ["alpha", "beta", "gamma"] and (got.v.values == [[0, 1, 2], [1, 2, 3], [2, 3, 4]]).all()


@pytest.mark.parametrize("keep", ["first", "last"])
def test_cut_where_files_overlap(tmp_path, fmt, keep):
    files = [labels(tmp_path / "a.nc", 0, ["a", "b", "c"]), labels(tmp_path / "b.nc", 2, ["C", "D"])]
    got, _ = combined(tmp_path, fmt, files, *CONCAT, "--on-duplicate", keep)
    assert list(got.label.values) == (["a", "b", "c", "D"] if keep == "first" else ["a", "b", "C", "D"])


@pytest.mark.parametrize("seed", seeds("RANDOM_ARCHIVES", 8))
def test_text_of_any_shape(tmp_path, fmt, seed):
    """Text with an axis before and after the growing one, with chunks of any size, next to numbers."""
    rng = random.Random(seed)
    x, y = rng.randint(1, 3), rng.randint(1, 3)
    chunk = (rng.randint(1, x), rng.choice([1, 2, 512]), rng.randint(1, y))
    files, at = [], 0
    for k in range(rng.randint(2, 4)):
        n = rng.randint(1, 5)
        files.append(tmp_path / f"{k}.nc")
        with h5py.File(files[-1], "w") as f:
            time = f.create_dataset("time", data=np.arange(at, at + n) * 1.5)
            time.make_scale("time")
            texts = np.array(rng.choices(WORDS, k=x * n * y), object).reshape(x, n, y)
            t = f.create_dataset("t", (x, n, y), h5py.string_dtype(), data=texts, maxshape=(x, None, y), chunks=chunk)
            for axis, (name, size) in enumerate((("x", x), ("time", n), ("y", y))):
                if name != "time":
                    f.create_dataset(name, data=np.arange(size)).make_scale(name)
                t.dims[axis].attach_scale(f[name])
        at += n
    got, _ = combined(tmp_path, fmt, rng.sample(files, len(files)), *CONCAT)
    same(got[["time", "t"]], originals(files)[["time", "t"]])
