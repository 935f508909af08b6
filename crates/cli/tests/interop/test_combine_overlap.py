"""Files that partly overlap, with `--on-duplicate`: equal to `drop_duplicates` of `xr.open_mfdataset` on the originals, or rejected with a reason."""
import random

import numpy as np
import pytest
import xarray as xr
from test_combine import combined, originals, write
from clients import either_format, seeds, virtualize  # noqa: F401

CONCAT = ("--concat-dim", "time")
NEVER = ("--option", "copy-limit=0")


def run_of(path, first, n, *, chunk=None, zlib=True, units="hours since 2000-01-01", dtype="f8", down=False, seed=None, step=1, shape=(3,)):
    """Writes a forecast run, whose values for the same hours differ from those of the previous run."""
    rng = np.random.default_rng(first + 1000 * n if seed is None else seed)
    time = (np.arange(n) * step + first)[::-1 if down else 1].astype(dtype)
    ds = xr.Dataset({"t": (("time", "x"), rng.random((n, *shape))), "i": (("x", "time"), rng.integers(0, 99, (*shape, n)).astype("i2")), "z": ("x", np.arange(shape[0]))},
                    coords={"time": ("time", time, {"units": units}), "step": ("time", np.arange(n))})
    encoding = {"t": {"chunksizes": (chunk or n, *shape), "zlib": zlib}, "i": {"chunksizes": (*shape, chunk or n), "zlib": zlib}}
    return write(path, ds, encoding=encoding if chunk or zlib else {})


def wanted(files, keep, down=False, **how):
    whole = originals(files, combine="nested", concat_dim="time", data_vars="minimal", coords="minimal", compat="override", combine_attrs="drop_conflicts", **how)
    return whole.drop_duplicates("time", keep=keep).sortby("time", ascending=not down)


@pytest.mark.parametrize("keep", ["first", "last"])
@pytest.mark.parametrize("limit", [(), NEVER])
@pytest.mark.parametrize("zlib", [False, True])
@pytest.mark.parametrize("down", [False, True])
def test_days_with_hours_of_the_next(tmp_path, fmt, keep, limit, zlib, down):
    files = [run_of(tmp_path / f"{k}.nc", 24 * k, 36, chunk=12, zlib=zlib, down=down) for k in range(4)]
    for order in (files, files[::-1], [files[2], files[0], files[3], files[1]]):
        got, messages = combined(tmp_path, fmt, order, *CONCAT, *limit, "--on-duplicate", keep)
        xr.testing.assert_identical(got, wanted(order, keep, down))
    assert "are used; other files have the others" in messages


@pytest.mark.parametrize("keep", ["first", "last"])
def test_a_cut_within_a_chunk(tmp_path, fmt, keep):
    """Copied if small, split if uncompressed, else rejected."""
    packed = [run_of(tmp_path / f"{k}.nc", 24 * k, 30, chunk=12) for k in range(3)]
    got, _ = combined(tmp_path, fmt, packed, *CONCAT, "--on-duplicate", keep)
    xr.testing.assert_identical(got, wanted(packed, keep))
    if keep == "first":
        combined(tmp_path, fmt, packed, *CONCAT, *NEVER, "--on-duplicate", keep, status=1, text="no chunk of 12 elements begins there")
    else:
        # Each file's own days are whole numbers of chunks.
        got, _ = combined(tmp_path, fmt, packed, *CONCAT, *NEVER, "--on-duplicate", keep)
        xr.testing.assert_identical(got, wanted(packed, keep))
    plain = []
    for k in range(3):
        ds = xr.Dataset({"t": (("time", "x"), np.random.default_rng(k).random((30, 5)))}, coords={"time": np.arange(30) + 24 * k})
        plain.append(write(tmp_path / f"p{k}.nc", ds))
    got, _ = combined(tmp_path, fmt, plain, *CONCAT, *NEVER, "--on-duplicate", keep)
    xr.testing.assert_identical(got, wanted(plain, keep))


def test_refused_without_a_choice(tmp_path, fmt):
    files = [run_of(tmp_path / f"{k}.nc", 24 * k, 36, chunk=12) for k in range(2)]
    messages = combined(tmp_path, fmt, files, *CONCAT, status=1, text="overlaps")
    assert "--on-duplicate" in messages


@pytest.mark.parametrize("keep", ["first", "last"])
def test_coordinates_between_each_other(tmp_path, fmt, keep):
    files = [run_of(tmp_path / "a.nc", 0, 10, step=2), run_of(tmp_path / "b.nc", 5, 10, step=2)]
    combined(tmp_path, fmt, files, *CONCAT, "--on-duplicate", keep, status=1, text="between")
    files = [run_of(tmp_path / "a.nc", 0, 20), run_of(tmp_path / "b.nc", 5, 10)]
    got = virtualize("batch", *files, *CONCAT, "--on-duplicate", keep, "--format", fmt, "-o", tmp_path / "all.json", "--restart")
    if keep == "last":
        assert got.status and "between" in got.stderr
    else:
        got, messages = combined(tmp_path, fmt, files, *CONCAT, "--on-duplicate", keep)
        xr.testing.assert_identical(got, wanted(files, keep))
        assert "b.nc" in messages and "other files have all of its coordinates" in messages


@pytest.mark.parametrize("keep", ["first", "last"])
def test_other_units_and_types(tmp_path, fmt, keep):
    files = [run_of(tmp_path / "a.nc", 0, 36, chunk=12), run_of(tmp_path / "b.nc", 0, 36, chunk=12, units="hours since 2000-01-02", dtype="i4")]
    got, _ = combined(tmp_path, fmt, files, *CONCAT, "--on-duplicate", keep)
    xr.testing.assert_equal(got, wanted(files, keep))


@pytest.mark.parametrize("keep", ["first", "last"])
def test_the_same_ends_in_other_units(tmp_path, fmt, keep):
    """Equal times are duplicates, whatever their units; with other times between their ends, none may be lost."""
    def file(name, hours, units):
        ds = xr.Dataset({"v": ("time", np.random.default_rng(len(name)).random(3))}, coords={"time": ("time", np.array(hours), {"units": units})})
        return write(tmp_path / name, ds)

    one = file("a.nc", [0, 60, 180], "minutes since 2000-01-01")
    same, other = file("same.nc", [24, 25, 27], "hours since 1999-12-31"), file("other.nc", [24, 26, 27], "hours since 1999-12-31")
    got, messages = combined(tmp_path, fmt, [one, same], *CONCAT, "--on-duplicate", keep)
    xr.testing.assert_equal(got, wanted([one, same], keep))
    assert "it has the same coordinates as" in messages
    combined(tmp_path, fmt, [one, other], *CONCAT, "--on-duplicate", keep, status=1, text="covers the same range")


def test_groups_are_not_guessed_at(tmp_path, fmt):
    files = [run_of(tmp_path / f"{k}.nc", 24 * k, 36, chunk=12) for k in range(2)]
    for k, path in enumerate(files):
        write(path, xr.Dataset({"v": ("time", np.arange(36.0))}, coords={"time": np.arange(36) + 36 * k}), group="other", mode="a")
    combined(tmp_path, fmt, files, *CONCAT, "--on-duplicate", "first", status=1, text="its own coordinates")


@pytest.mark.parametrize("keep", ["first", "last"])
@pytest.mark.parametrize("order", ["00 01 10 11", "11 10 01 00", "00 10 01 11", "11 00 01 10"])
def test_tiles_that_share_pixels_are_those_of_rasterio_or_refused(tmp_path, keep, order):
    """A row of tiles takes pixels from the row beside it as a whole, so all its files must be listed in the order of the rows."""
    import json

    import clients
    import rasterio.merge
    from rasterio.transform import from_origin
    files = []
    for name in order.split():
        i, j = map(int, name)
        files.append(tmp_path / f"{name}.tif")
        with rasterio.open(files[-1], "w", driver="GTiff", width=4, height=4, count=1, dtype="uint8", crs="EPSG:32633", transform=from_origin(30 * j, -30 * i, 10, 10)) as tile:
            tile.write(np.full((1, 4, 4), 10 * i + j + 1, "u1"))
    (tmp_path / "list").write_text("".join(f"{path}\n" for path in files))
    run = virtualize("batch", "--list", tmp_path / "list", "--concat-dim", "y", "--concat-dim", "x", "--on-duplicate", keep, "-o", tmp_path / "all.json")
    if order.startswith("11 00"):
        assert run.status == 1 and "listed in another order" in run.stderr
        return
    assert run.status == 0, run.stderr
    got = clients.open_dataset(json.loads((tmp_path / "all.json").read_text()), 2).band_data.values.squeeze()
    want, _ = rasterio.merge.merge([rasterio.open(path) for path in files], method=keep)
    np.testing.assert_array_equal(got, want[0])


@pytest.mark.parametrize("seed", seeds("RANDOM_ARCHIVES", 12))
def test_random_runs(tmp_path, fmt, seed):
    """Random overlaps: equal to xarray, or rejected with a reason."""
    rng = random.Random(seed)
    files, at = [], 0
    unit = rng.choice([1, 4, 6])
    for k in range(rng.randint(2, 6)):
        n = unit * rng.randint(1, 6)
        files.append(run_of(tmp_path / f"{k}.nc", at, n, chunk=rng.choice([unit, min(n, 2 * unit), n]), zlib=rng.random() < 0.6, dtype=rng.choice(["f8", "i8", "i4", "f4"])))
        at += rng.choice([unit, n, max(unit, n - unit), 1 if rng.random() < 0.2 else n])
    rng.shuffle(files)
    keep = rng.choice(["first", "last"])
    limit = rng.choice([(), NEVER])
    more = ("--chunk-grid", "rectilinear") if fmt != "kerchunk-json" and rng.random() < 0.4 else ()
    words = (*CONCAT, *limit, *more, "--on-duplicate", keep)
    run = virtualize("batch", *files, *words, "--on-mismatch", "stop", "--format", fmt, "-o", tmp_path / "all.json", "--restart")
    if run.status:
        assert any(text in run.stderr for text in ("between", "interleave", "multiple of the chunk length", "chunk", "codecs", "data type", "covers the same range")), run.stderr
        return
    got, _ = combined(tmp_path, fmt, files, *words)
    want = wanted(files, keep)
    xr.testing.assert_equal(got, want)
    for name in ("t", "i"):
        assert got[name].dtype == want[name].dtype


@pytest.mark.parametrize("how", [(), ("--on-duplicate", "first"), ("--on-duplicate", "last")])
def test_uneven_coordinates_that_are_close(tmp_path, fmt, how):
    """Only ends of evenly spaced files, as those of tiles, may differ by rounding."""
    levels = [[0., 10., 20., 5e8], [5e8 + 100, 1e9]]
    files = [write(tmp_path / f"{k}.nc", xr.Dataset({"v": ("level", np.arange(len(at)) + 10 * k)}, coords={"level": at})) for k, at in enumerate(levels)]
    got, _ = combined(tmp_path, fmt, files, "--concat-dim", "level", *how)
    xr.testing.assert_identical(got, originals(files, combine="nested", concat_dim="level"))
