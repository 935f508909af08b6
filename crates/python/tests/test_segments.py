"""Archives whose files are stored differently are one dataset, with the values that xarray decodes from the originals.

More random archives: RANDOM_SEGMENTS=1000.
"""

import asyncio
import json
import os
import pickle
import random
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import virtualize
import xarray as xr
import zarr
import zarr.storage
from zarr.core.buffer import default_buffer_prototype

pytestmark = pytest.mark.filterwarnings("ignore:variable .* has multiple fill values")

FORMATS = ["all.json", "all.parquet", "all.zarr", "all.icechunk"]
SIZES = {"y": 3, "x": 4}


class Archive:
    """Random files along time, of which each property changes now and then."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.values = np.random.default_rng(seed)
        self.folder = folder
        self.calm = self.rng.choice([0.5, 0.8, 0.95])
        self.state: dict[str, Any] = {}
        # A variable that may be missing has a type in which something can be.
        self.optional = self.rng.random() < 0.5
        self.group = self.rng.choice(["", "", "inner/"])
        # Its units can differ only if it is copied.
        self.has_observed = self.rng.random() < 0.3
        self.fixed_length = self.rng.choice([None, None, 2])

    def now(self, name: str, choices: list[Any]) -> Any:
        """Return the value of a property, which rarely changes."""
        if name not in self.state or self.rng.random() > self.calm:
            self.state[name] = self.rng.choice(choices)
        return self.state[name]

    def write(self) -> list[Path]:
        files = []
        start = 0
        # Few archives are long.
        count = self.rng.randint(2, 8) if self.rng.random() < 0.97 else self.rng.randint(20, 200)
        for k in range(count):
            length = self.fixed_length or self.rng.randint(1, 5)
            files.append(self.folder / f"{k:03}.nc")
            with netCDF4.Dataset(files[-1], "w") as file:
                self.file(file, k, start, length)
            start += length
        return files

    def file(self, file: Any, k: int, start: int, length: int) -> None:
        for name, size in {"time": length, **SIZES}.items():
            file.createDimension(name, size)
        unit, factor = self.now("unit", [("hours", 1), ("minutes", 60), ("seconds", 3600)])
        date, offset = self.now("date", [("2000-01-01", 0), ("1999-12-31", 24)])
        time = file.createVariable("time", self.now("time type", ["i4", "f8", "i8"]), ("time",))
        time.setncatts({"units": f"{unit} since {date}", "calendar": self.now("calendar", ["standard", "gregorian"])})
        time[:] = (np.arange(start, start + length) + offset) * factor
        # The axis along which the files are joined is not the first.
        if self.has_observed:
            observed = file.createVariable("observed", "i8", ("y", "time"))
            observed.setncatts({"units": time.units, "calendar": time.calendar})
            observed[:] = np.asarray(time[:]) + np.arange(3).reshape(3, 1) * factor
        lat = file.createVariable("y", "f8", ("y",))
        lat[:] = np.linspace(10, 30, 3) + self.now("jitter", [0, 0, 1e-12])
        mask = file.createVariable("mask", "i1", ("y", "x"))
        mask[:] = np.arange(12).reshape(3, 4)
        for name, dims in {"a": ("time", "y", "x"), "b": ("y", "time"), "c": ("time",)}.items():
            if name == "b" and self.optional and self.now("has b", [True, True, False]) is False and k:
                continue
            self.variable(file, self.group + name, dims, length)

    def variable(self, file: Any, name: str, dims: tuple[str, ...], length: int) -> None:
        dtype = self.now(f"{name} type", ["i1", "u1", "i2", "u2", "i4", "u4", "f4", "f8"])
        fill = self.now(f"{name} fill", [None, 3, 7])
        order = self.now(f"{name} order", ["<", "<", ">"])
        shape = [length if dim == "time" else SIZES[dim] for dim in dims]
        variable = file.createVariable(
            name,
            order + dtype if dtype[1] != "1" else dtype,
            dims,
            fill_value=fill,
            zlib=self.now(f"{name} zlib", [True, True, False]),
            complevel=self.now(f"{name} level", [1, 6]),
            endian="big" if order == ">" and dtype[1] != "1" else "little",
            shuffle=self.now(f"{name} shuffle", [True, False]),
            fletcher32=self.now(f"{name} checksum", [False, False, True]),
            chunksizes=[min(n, self.now(f"{name} chunk", [1, 2, 3])) for n in shape],
        )
        variable.set_auto_maskandscale(False)
        packing = self.now(f"{name} packing", [{}, {"scale_factor": 0.5}, {"scale_factor": 0.1, "add_offset": 273.15}])
        variable.setncatts({**packing, "units": "K", "history": str(self.rng.random())})
        missing = self.now(f"{name} missing", [None, None, 5])
        if missing is not None:
            variable.missing_value = np.array(missing, dtype)
        numbers = self.values.integers(0, 99, shape).astype(dtype)
        if dtype in ("f4", "f8"):
            numbers = (numbers + self.values.random(shape)).astype(dtype)
            numbers[numbers > 95] = np.nan
        variable[:] = numbers


def decoded(files: list[Path], group: str) -> xr.Dataset:
    """Return what xarray decodes, as float64, of all files together."""
    opened = []
    for path in files:
        root = xr.open_dataset(path, engine="h5netcdf").load()
        inner = xr.open_dataset(path, engine="h5netcdf", group=group or None).load()
        ds = inner.assign_coords(time=root.time) if group else root
        ds = ds.drop_vars(["y", "mask"], errors="ignore")
        numbers = [name for name in ("a", "b", "c") if name in ds]
        opened.append(ds.assign({name: unpacked(path, group, ds, name) for name in numbers}))
    return xr.concat(opened, "time", data_vars="minimal", join="outer")


def unpacked(path: Path, group: str, ds: xr.Dataset, name: str) -> xr.DataArray:
    """Return a variable in float64, as xarray decodes float64 packing: other types would round."""
    with xr.open_dataset(path, engine="h5netcdf", group=group or None, mask_and_scale=False) as raw:
        attributes = raw[name].attrs
        stored = raw[name].values
    missing = np.isin(stored, [attributes[key] for key in ("_FillValue", "missing_value") if key in attributes])
    values = np.where(missing, np.nan, stored.astype("f8"))
    values = values * attributes.get("scale_factor", 1) + attributes.get("add_offset", 0)
    np.testing.assert_allclose(values, ds[name].values, rtol=1e-6)
    return ds[name].copy(data=values).drop_attrs()


def check(folder: Path, seed: int) -> int:
    """Combine a random archive, and compare all of it and some selections. Return the number of segments."""
    folder.mkdir()
    archive = Archive(folder, seed)
    files = archive.write()
    out = folder / archive.rng.choice(FORMATS)
    how: dict[str, Any] = {"copy_limit": 0} if archive.rng.random() < 0.7 and not archive.has_observed else {}
    if archive.rng.random() < 0.4:
        # The other files come later.
        virtualize.batch(files[: archive.rng.randint(1, len(files))], out, concat_dim="time", progress=False, **how)
        how["append"] = True
    try:
        virtualize.batch(files, out, concat_dim="time", progress=False, **how)
    except virtualize.OptionError as refusal:
        # Values of the archive would become packed numbers for readers that do not know its segments.
        assert how.get("append") and "packing of" in str(refusal)
        virtualize.batch(files, out, concat_dim="time", progress=False, overwrite=True, **how)
    expected = decoded(files, archive.group.rstrip("/"))
    found = xr.open_dataset(out, engine="virtualize")
    np.testing.assert_array_equal(found.time.values, expected.time.values)
    np.testing.assert_array_equal(found["mask"].values, np.arange(12).reshape(3, 4))
    if "observed" in expected:
        np.testing.assert_array_equal(found.observed.values, expected.observed.values)
    if archive.group:
        found = xr.open_dataset(out, engine="virtualize", group="inner")
    store = virtualize.open(out, decoded=True)
    by_zarr: Any = zarr.open_group(store, mode="r")
    segments = store.report["segments"] or {"segments": [None]}
    for name in ("a", "b", "c"):
        if name not in expected:
            continue
        want = expected[name]
        have = found[name].transpose(*want.dims)
        np.testing.assert_array_equal(have.values.astype("f8"), want.values, err_msg=f"{seed} {name}")
        for _ in range(3):
            where = selection(archive.rng, dict(want.sizes))
            part = found[name].isel(where).transpose(*want.isel(where).dims)
            np.testing.assert_array_equal(part.values.astype("f8"), want.isel(where).values, err_msg=f"{seed} {name} {where}")
        array: Any = store[archive.group + name]
        np.testing.assert_array_equal(by_zarr[archive.group + name][...], array[...], err_msg=f"{seed} {name}")
    return len(segments["segments"])


def selection(rng: random.Random, sizes: dict[Any, int]) -> dict[Any, Any]:
    def one(size: int) -> Any:
        kind = rng.randrange(4)
        if kind == 0:
            return rng.randrange(size)
        if kind == 1:
            return slice(rng.randrange(size), rng.randint(0, size), rng.randint(1, 3))
        if kind == 2:
            return [rng.randrange(size) for _ in range(rng.randint(1, 5))]
        return slice(None, None, -1)

    if rng.random() < 0.2:
        count = rng.randint(1, 6)
        return {dim: xr.DataArray([rng.randrange(n) for _ in range(count)], dims="point") for dim, n in sizes.items()}
    return {dim: one(n) for dim, n in sizes.items() if rng.random() < 0.8}


def test_random_archives_are_one_dataset(tmp_path: Path) -> None:
    counts = [check(tmp_path / str(seed), seed) for seed in range(int(os.environ.get("RANDOM_SEGMENTS", "12")))]
    assert max(counts) > 1


def test_trees_copies_and_dask_see_the_dataset(tmp_path: Path) -> None:
    files = [tmp_path / f"{k}.nc" for k in range(3)]
    for k, path in enumerate(files):
        data = np.arange(4 * k, 4 * k + 4).astype("i2" if k else "f4")
        xr.Dataset({"a": ("time", data), "name": ("time", [f"n{k}"] * 4)}, {"time": np.arange(4 * k, 4 * k + 4)}).to_netcdf(
            path, engine="h5netcdf", encoding={"a": {"chunksizes": (3,), "zlib": True}}
        )
    out = tmp_path / "all.json"
    virtualize.batch(files, out, concat_dim="time", copy_limit=0, progress=False)
    expected = xr.concat([xr.open_dataset(file, engine="h5netcdf") for file in files], "time")
    found = xr.open_dataset(out, engine="virtualize", chunks={})
    xr.testing.assert_equal(found.compute(), expected)
    xr.testing.assert_equal(pickle.loads(pickle.dumps(found)).compute(), expected)
    tree = xr.open_datatree(out, engine="virtualize")
    assert not tree.children
    xr.testing.assert_equal(tree.to_dataset(), expected)
    store = virtualize.open(out)
    group = store.report["segments"]["segments"][0]["group"]
    xr.testing.assert_equal(xr.open_dataset(out, engine="virtualize", group=group), expected.isel(time=slice(4)))
    # All keys are listed, so that a copy is complete.
    copy = zarr.storage.MemoryStore()
    keys = asyncio.run(copied(store, copy))
    assert "a/c/0" in keys and "name/c/0" in keys
    xr.testing.assert_equal(xr.open_zarr(copy, consolidated=False).load(), expected)
    # A dataset of segments may be anywhere in a repository.
    repository = tmp_path / "all.icechunk"
    for place in ("one", "two/inner"):
        done = virtualize.batch(files, repository, concat_dim="time", copy_limit=0, group=place, restart=True, progress=False)
        assert f"group='{place}'" in (done.python or "").replace('"', "'")
        xr.testing.assert_equal(xr.open_dataset(repository, engine="virtualize", group=place), expected)
    virtualize.convert(out, tmp_path / "all.parquet")
    xr.testing.assert_equal(xr.open_dataset(tmp_path / "all.parquet", engine="virtualize"), expected)


async def copied(store: virtualize.VirtualStore, copy: Any) -> list[str]:
    prototype = default_buffer_prototype()
    keys = [key async for key in store.list()]
    for key in keys:
        value = await store.get(key, prototype)
        assert value is not None, key
        await copy.set(key, value)
    return keys


def test_descriptions_that_do_not_fit_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "0.nc"
    xr.Dataset({"a": ("time", [1, 2])}, {"time": [0, 1]}).to_netcdf(path, engine="h5netcdf")
    out = tmp_path / "all.json"
    virtualize.batch([path], out, concat_dim="time", progress=False)
    refs = json.loads(out.read_text())
    segments = {"version": 1, "dimension": "time", "segments": [{"group": "set_9", "start": 0, "length": 2}]}
    refs["refs"][".zattrs"] = json.dumps({"virtualize:segments": segments})
    out.write_text(json.dumps(refs))
    with pytest.warns(virtualize.VirtualizeWarning, match="segments-ignored"):
        found = xr.open_dataset(out, engine="virtualize")
    assert found.a.values.tolist() == [1, 2]


@pytest.mark.slow
def test_more_random_archives_are_one_dataset(tmp_path: Path) -> None:
    for seed in range(10_000, 10_020):
        check(tmp_path / str(seed), seed)


def test_attributes_and_missing_times(tmp_path: Path) -> None:
    """Units that are spelled differently stay; coordinates of some files are coordinates; times that some files lack are refused."""
    files = []
    for k, dtype in enumerate(("i2", "i4", "f4")):
        files.append(tmp_path / f"{k}.nc")
        with netCDF4.Dataset(files[-1], "w") as file:
            file.createDimension("time", 3)
            file.createDimension("x", 30_000)
            file.createVariable("height", "f8", ())[...] = 2
            time: Any = file.createVariable("time", "i8", ("time",))
            time.units = "hours since 2000-01-01"
            time[:] = np.arange(3) + 3 * k
            seen: Any = file.createVariable("seen", "f8", ("time", "x"), zlib=True, chunksizes=(3, 30_000))
            seen.units = ["hours since 2000-01-01", "hours since 2000-1-1 00:00:00"][k % 2]
            seen[:] = np.arange(3)[:, None]
            data: Any = file.createVariable("a", dtype, ("time", "x"), zlib=True, chunksizes=(3, 30_000))
            data[:] = k
            data.setncatts({"coordinates": "height", "long_name": f"a of {k}"} if k == 0 else {"long_name": f"a of {k}"})
            if k != 1:
                times: Any = file.createVariable("times", "f8", ("time",))
                times.units = f"hours since 2000-01-01 {3 * k:02}:00"
                times[:] = np.arange(3)
    with pytest.raises(virtualize.Error, match="times"):
        virtualize.batch(files, tmp_path / "no.json", concat_dim="time", var="times=optional", progress=False)
    virtualize.batch(files, tmp_path / "all.json", concat_dim="time", var="times=drop", progress=False)
    found = xr.open_dataset(tmp_path / "all.json", engine="virtualize")
    assert found.seen.dtype.kind == "M" and "height" in found.a.coords and "long_name" not in found.a.attrs
