"""Random archives with pitfalls: the result is that of xarray on the originals, value by value, or the files are rejected with a reason."""
import random

import numpy as np
import pytest
import xarray as xr
from clients import either_format, seeds, unpacked, virtualize  # noqa: F401
from test_combine import MINIMAL, combined, originals, write

CONCAT = ("--concat-dim", "time")
REASONS = ("cannot be joined", "overlaps", "neither increases", "increases in one", "no array has a dimension", "missing from", "values", "multiple of the chunk length", "chunk", "units",
           "duplicate coordinates", "elements along axis", "different lengths", "data type", "dimensions", "no exact", "missing", "of different kinds", "variable length",
           "no file has data", "has no coordinate", "cannot be converted", "fill value")


def base(rng, k, at, n):
    """A file of an archive, and how it is written."""
    data = np.random.default_rng(k)
    time = (np.arange(n) + at).astype("f8")
    packed = data.integers(-99, 99, (n, 3, 4)) * 0.5 + 10
    ds = xr.Dataset(
        {"p": (("time", "lat", "lon"), packed, {"units": "K"}), "q": (("lat", "time"), data.random((3, n)).astype("f4")), "orog": (("lat", "lon"), np.arange(12.0).reshape(3, 4)),
         "time_bnds": (("time", "nv"), np.stack([time, time + 1], 1)), "scalar": ((), 7), "count": ("time", data.integers(0, 9, n).astype("i4")),
         "label": ("time", np.array(rng.choices(["", "a", "snow", "ä€"], k=n), object))},
        coords={"time": ("time", time, {"units": "hours since 2001-01-01", "calendar": "standard", "bounds": "time_bnds"}), "lat": [10.0, 0.0, -10.0], "lon": np.arange(4.0), "height": ((), 2.0),
                "name": ("lat", np.array(["a", "bb", "c"], object))},
        attrs={"title": "T", "history": f"made {k}"})
    encoding = {"label": {}, "p": {"dtype": "i2", "scale_factor": 0.5, "add_offset": 10.0, "_FillValue": -999, "chunksizes": (rng.choice([n, 1]), 3, 4), "zlib": True},
                "q": {"chunksizes": (3, n), "zlib": rng.random() < 0.5}, "time": {"_FillValue": None}, "time_bnds": {"_FillValue": None}}
    return ds, encoding


def attribute(name, key, value):
    def change(ds, encoding):
        ds[name].attrs[key] = value
        return ds, encoding
    return change


def encoded(name, **how):
    def change(ds, encoding):
        encoding.setdefault(name, {}).update(how)
        return ds, encoding
    return change


def changed(function):
    return lambda ds, encoding: (function(ds), encoding)


def static(ds, encoding):
    encoding.pop("q")
    return ds.assign(q=ds.q.isel(time=0, drop=True)), encoding


def turned(ds, encoding):
    n = ds.sizes["time"]
    encoding["q"]["chunksizes"] = (n, 3)
    return ds.assign(q=ds.q.transpose("time", "lat")), encoding


def retyped(name, dtype):
    def change(ds, encoding):
        encoding.setdefault(name, {})["dtype"] = dtype
        return ds, encoding
    return change


def retimed(units, shift=0.0, calendar="standard", factor=1.0):
    def change(ds, encoding):
        ds.time.attrs.update(units=units, calendar=calendar)
        ds = ds.assign_coords(time=("time", ds.time.values * factor + shift, ds.time.attrs))
        return ds.assign(time_bnds=(("time", "nv"), ds.time_bnds.values * factor + shift)), encoding
    return change


TRAPS = {
    "nothing": changed(lambda ds: ds),
    "scale": encoded("p", scale_factor=0.25),
    "offset": encoded("p", add_offset=11.0),
    "packed in another type": encoded("p", dtype="i4"),
    "not packed": lambda ds, encoding: (ds, {**encoding, "p": {"_FillValue": np.nan}}),
    "fill value": encoded("p", _FillValue=-998),
    "no fill value": lambda ds, encoding: (ds, {**encoding, "p": {**encoding["p"], "_FillValue": None}}),
    "some missing": changed(lambda ds: ds.assign(p=ds.p.where(ds.p != ds.p.max()))),
    "fill value of floats": encoded("q", _FillValue=np.float32(-1)),
    "missing_value": attribute("count", "missing_value", np.int32(3)),
    "units of data": attribute("p", "units", "degC"),
    "valid_range": attribute("count", "valid_range", np.array([0, 5], "i4")),
    "_Unsigned": attribute("count", "_Unsigned", "true"),
    "flags": attribute("count", "flag_meanings", "a b"),
    "masks": attribute("count", "flag_masks", np.array([1, 2], "i4")),
    "differences": attribute("p", "units_metadata", "temperature: difference"),
    "packing of another convention": attribute("count", "ScaleFactor", 0.5),
    "packing of a group": changed(lambda ds: ds.assign_attrs(gain=0.5)),
    "quantity": attribute("p", "standard_name", "air_temperature"),
    "text in large chunks": lambda ds, encoding: (ds.assign_attrs(unlimited="time"), {**encoding, "label": {"chunksizes": (512,)}}),
    "text as characters": encoded("label", dtype="S1"),
    "long text": changed(lambda ds: ds.assign(label=("time", np.array(["x" * 40_000] * ds.sizes["time"], object)))),
    "long name": attribute("p", "long_name", "temperature"),
    "lat reversed": changed(lambda ds: ds.isel(lat=slice(None, None, -1))),
    "lat shifted": changed(lambda ds: ds.assign_coords(lat=ds.lat + 1e-4)),
    "lon longer": changed(lambda ds: ds.pad(lon=(0, 1), mode="edge").assign_coords(lon=np.arange(5.0))),
    "names of places": changed(lambda ds: ds.assign_coords(name=("lat", np.array(["a", "bb", "d"], object)))),
    "orography": changed(lambda ds: ds.assign(orog=ds.orog + 1)),
    "scalar": changed(lambda ds: ds.assign(scalar=((), 8))),
    "scalar of another type": retyped("scalar", "f8"),
    "height": changed(lambda ds: ds.assign_coords(height=((), 10.0))),
    "one variable less": changed(lambda ds: ds.drop_vars("count")),
    "one variable more": changed(lambda ds: ds.assign(more=ds["count"] * 2)),
    "one static variable more": changed(lambda ds: ds.assign(more=((), 1))),
    "q without time": static,
    "other order of axes": turned,
    "big-endian": encoded("q", dtype=">f4"),
    "doubles": encoded("q", dtype="f8"),
    "counts in 64 bits": encoded("count", dtype="i8"),
    "time as integers": retyped("time", "i4"),
    "time as float32": retyped("time", "f4"),
    "time as big-endian int64": retyped("time", ">i8"),
    "time and bounds as int64": lambda ds, encoding: retyped("time_bnds", "i8")(*retyped("time", "i8")(ds, encoding)),
    "bounds as integers": retyped("time_bnds", "i4"),
    "fill value of time": encoded("time", _FillValue=np.nan),
    "fill value of integer time": lambda ds, encoding: (ds, {**encoding, "time": {"dtype": "i4", "_FillValue": -1}}),
    "fill value of bounds": encoded("time_bnds", _FillValue=-9.0),
    "no bounds": changed(lambda ds: ds.drop_vars("time_bnds").assign_coords(time=ds.time.drop_attrs().assign_attrs(units=ds.time.attrs["units"], calendar="standard"))),
    "days": retimed("days since 2001-01-01", factor=1 / 24),
    "minutes": retimed("minutes since 2001-01-01", factor=60),
    "another year": retimed("hours since 2000-01-01", shift=24 * 366),
    "a zone": retimed("hours since 2001-01-01 02:00+02:00"),
    "an odd zone": retimed("hours since 2001-01-01 02:00 +2:00"),
    "no leap years": retimed("hours since 2001-01-01", calendar="noleap"),
    "proleptic": retimed("hours since 2001-01-01", calendar="proleptic_gregorian"),
    "months": retimed("months since 2001-01-01"),
    "time without units": changed(lambda ds: ds.assign_coords(time=ds.time.drop_attrs().assign_attrs(bounds="time_bnds"))),
    "time reversed": changed(lambda ds: ds.isel(time=slice(None, None, -1))),
    "no times": lambda ds, encoding: (ds.isel(time=slice(0, 0)), {**encoding, "p": {k: v for k, v in encoding["p"].items() if k != "chunksizes"}, "q": {}}),
    "time missing": changed(lambda ds: ds.assign_coords(time=("time", np.where(np.arange(ds.sizes["time"]) == 0, np.nan, ds.time.values), ds.time.attrs))),
    "no time": lambda ds, encoding: (ds.isel(time=0, drop=True).drop_vars("time_bnds"), {}),
    "no coordinate of time": lambda ds, encoding: (ds.drop_vars("time"), {k: v for k, v in encoding.items() if k != "time"}),
    "title": changed(lambda ds: ds.assign_attrs(title="other")),
    "unlimited": changed(lambda ds: ds.assign_attrs(unlimited="time")),
    "contiguous": lambda ds, encoding: (ds, {**encoding, "p": {k: v for k, v in encoding["p"].items() if k not in ("chunksizes", "zlib")}, "q": {}}),
    "shuffled": encoded("p", shuffle=True, complevel=9),
    "renamed axis": changed(lambda ds: ds.rename({"lon": "x"})),
    "a twin": None,
}


def archive(folder, seed, names):
    """Writes files in the order of time, with pitfalls in the middle one or the last one."""
    rng = random.Random(seed)
    files, at = [], 0
    count = rng.randint(2, 4)
    odd = rng.randrange(count)
    for k in range(count):
        n = rng.choice([1, 2, 4, 4])
        ds, encoding = base(rng, k, at, n)
        if k == odd:
            for name in filter(TRAPS.get, names):
                try:
                    ds, encoding = TRAPS[name](ds, encoding)
                except (AttributeError, IndexError, KeyError, ValueError):
                    assert name != names[0]  # An earlier trap removed what this one changes.
        encoding = {name: how for name, how in encoding.items() if name in ds.variables}
        files.append(write(folder / f"{k}.nc", ds, encoding=encoding, unlimited_dims=["time"] if "unlimited" in ds.attrs and "time" in ds.sizes else []))
        if k == odd and "a twin" in names:
            files.append(folder / "twin.nc")
            files[-1].write_bytes(files[-2].read_bytes())
        at += n
    return files, rng


def check(tmp_path, fmt, files, rng):
    words = [*CONCAT, *rng.choice([(), (), ("--option", "copy-limit=0"), ("--on-duplicate", "first")])]
    if fmt != "kerchunk-json" and rng.random() < 0.3:
        words += ["--chunk-grid", "rectilinear"]
    given = rng.sample(files, len(files))
    run = virtualize("batch", *given, *words, "--on-mismatch", "stop", "--format", fmt, "-o", tmp_path / "all.json", "--restart")
    if run.status:
        assert any(reason in run.stderr for reason in REASONS) and "panicked" not in run.stderr, run.stderr
        return False
    full = [path for path in files if path.name != "twin.nc" or "--on-duplicate" not in words]
    with_time, lacks_times = [], False
    for path in full:
        with xr.open_dataset(path, decode_times=False) as one:
            lacks_times |= bool(one["time"].isnull().any())
            if one.sizes.get("time", 0):
                with_time.append(path)
    how = dict(decode_times=xr.coders.CFDatetimeCoder(use_cftime=True))
    got, messages = combined(tmp_path, fmt, given, *words, **how)
    got = unpacked(got)
    want = originals(with_time, **MINIMAL, **how)
    if not (want.indexes["time"].is_monotonic_increasing or lacks_times):
        # Files with a single time each are ascending and descending. cftime decodes a missing time as the reference time.
        want = want.sortby("time", ascending=not got.indexes["time"].is_monotonic_decreasing)
    assert set(got.variables) == set(want.variables), (set(got.variables), set(want.variables))
    for name in want.variables:
        one, other = got[name], want[name]
        assert one.dims == other.dims, (name, one.dims, other.dims)
        if name in ("time", "time_bnds", "name", "label"):
            assert (one.values == other.values).all(), (name, one.values, other.values)
        else:
            # JSON does not distinguish widths of floats, so packed data is unpacked to doubles.
            same = one.values == other.values if name != "p" else np.isclose(one.values, other.values, rtol=0, atol=5e-5)
            assert (same | ((one.values != one.values) & (other.values != other.values))).all(), (name, one.values, other.values)
            assert one.dtype == other.dtype or name in ("p", "time_bnds", "name", "label"), (name, one.dtype, other.dtype)
    for name in want.attrs:
        assert got.attrs.get(name) == want.attrs[name] or f"attribute {name}" in messages, name
    for name in want.variables:
        for key in want[name].attrs:
            ours, theirs = got[name].attrs.get(key), want[name].attrs[key]
            assert np.array_equal(ours, theirs) or (ours is None and f"attribute {key}" in messages), (name, key, ours, theirs)
    for path in with_time[1:]:
        with xr.open_dataset(path) as one, xr.open_dataset(with_time[0]) as first:
            if one.attrs.get("title") != first.attrs.get("title"):
                assert "attribute title" in messages
    return True


@pytest.mark.parametrize("name", TRAPS)
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_one_trap(tmp_path, fmt, name, seed):
    files, rng = archive(tmp_path, seed, [name])
    check(tmp_path, fmt, files, rng)


@pytest.mark.parametrize("seed", seeds("RANDOM_ARCHIVES", 16))
def test_several_traps(tmp_path, fmt, seed):
    rng = random.Random(seed)
    names = rng.sample(sorted(TRAPS), rng.choice([2, 3]))
    files, rng = archive(tmp_path, seed, names)
    check(tmp_path, fmt, files, rng)


def test_most_harmless_traps_are_not_refused(tmp_path, fmt):
    """Differences in storage, remarks or the encoding of times do not prevent combining."""
    for name in ("nothing", "time as integers", "time as float32", "time as big-endian int64", "time and bounds as int64", "bounds as integers", "fill value of time",
                 "fill value of integer time", "fill value of bounds", "minutes", "another year", "a zone", "proleptic", "no times", "title", "unlimited", "contiguous", "shuffled",
                 "big-endian", "quantity", "text in large chunks"):
        folder = tmp_path / name.replace(" ", "_")
        folder.mkdir()
        files, _ = archive(folder, 3, [name])
        run = virtualize("batch", *files, *CONCAT, "--format", fmt, "-o", folder / "all.json")
        assert run.status == (1 if name == "proleptic" else 0), (name, run.stderr)
