"""References and repositories open as files do, with the values that xarray reads from the originals."""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import virtualize
import xarray as xr

NAMES = ["all.json", "all.parquet", "all.zarr", "all.icechunk"]


def write(folder: Path, count: int = 3) -> list[Path]:
    """Write files with packed numbers, missing values and text."""
    folder.mkdir()
    files = [folder / f"d{k}.nc" for k in range(count)]
    for k, path in enumerate(files):
        rng = np.random.default_rng(k)
        floats = rng.random((4, 3)).astype("f4")
        floats[0, 0] = np.nan
        data = {
            "packed": (("time", "x"), rng.integers(0, 99, (4, 3)) * 0.5 + 10, {"units": "K"}),
            "floats": (("time", "x"), floats),
            "counts": (("time", "x"), rng.integers(0, 99, (4, 3)).astype("i4")),
            "name": ("time", np.array(["a", "bb", "", "ä"], object)),
        }
        coords = {"time": ("time", np.arange(4) + 4 * k, {"units": "hours since 2000-01-01"}), "x": [1.5, 2.5, 3.5]}
        encoding = {
            "packed": {"dtype": "i2", "scale_factor": 0.5, "add_offset": 10.0, "_FillValue": -9, "zlib": True},
            "floats": {"_FillValue": np.float32(-1), "chunksizes": (2, 3)},
        }
        xr.Dataset(data, coords).to_netcdf(path, engine="h5netcdf", encoding=encoding)
    return files


@pytest.mark.parametrize("name", NAMES)
def test_an_archive_opens_as_a_file_does(tmp_path: Path, name: str) -> None:
    files = write(tmp_path / "files")
    out = tmp_path / name
    virtualize.batch(files, out, concat_dim="time")
    expected = xr.concat([xr.open_dataset(file, engine="h5netcdf") for file in files], "time", data_vars="minimal")
    found = xr.open_dataset(out, engine="virtualize")
    xr.testing.assert_equal(found, expected)
    assert {name: v.dtype for name, v in found.variables.items()} == {n: v.dtype for n, v in expected.variables.items()}
    xr.testing.assert_equal(pickle.loads(pickle.dumps(found)), expected)
    # Selections, and a store for zarr-python.
    xr.testing.assert_equal(found.isel(time=slice(3, 9, 2), x=[2, 0]), expected.isel(time=slice(3, 9, 2), x=[2, 0]))
    store = virtualize.open(out, decoded=True)
    np.testing.assert_array_equal(store["counts"][5:, 1], expected.counts.values[5:, 1])
    xr.testing.assert_equal(xr.open_zarr(store, consolidated=False), expected)


@pytest.mark.parametrize("name", ["all.json", "all.icechunk"])
def test_a_source_that_changed_is_an_error(tmp_path: Path, name: str) -> None:
    files = write(tmp_path / "files")
    out = tmp_path / name
    virtualize.batch(files, out, concat_dim="time")
    found = xr.open_dataset(out, engine="virtualize")
    files[1].unlink()
    found.packed[:4].load()
    with pytest.raises(virtualize.Error, match=files[1].name):
        found.packed.load()


def icechunk_archive(tmp_path: Path) -> tuple[Path, xr.Dataset]:
    files = write(tmp_path / "files")
    out = tmp_path / "all.icechunk"
    virtualize.batch(files[:2], out, concat_dim="time")
    return out, xr.concat([xr.open_dataset(file, engine="h5netcdf") for file in files[:2]], "time", data_vars="minimal")


def test_versions_of_a_repository(tmp_path: Path) -> None:
    import icechunk

    out, expected = icechunk_archive(tmp_path)
    repository = icechunk.Repository.open(icechunk.local_filesystem_storage(str(out)))
    first = repository.lookup_branch("main")
    repository.create_tag("v1", first)
    repository.create_branch("draft", first)
    opened = xr.open_dataset(out, engine="virtualize")
    stored = pickle.dumps(opened)
    virtualize.batch(sorted((tmp_path / "files").iterdir()), out, concat_dim="time", append=True)
    for options in ({"tag": "v1"}, {"branch": "draft"}, {"snapshot": first}):
        xr.testing.assert_equal(xr.open_dataset(out, engine="virtualize", **options), expected)
    # Neither an opened store nor its pickle moves with the branch.
    xr.testing.assert_equal(opened.load(), expected)
    xr.testing.assert_equal(pickle.loads(stored), expected)
    assert virtualize.open_dataset(out).sizes["time"] == 12
    assert virtualize.open(out, branch="main").to_xarray().sizes["time"] == 12
    with pytest.raises(virtualize.Error, match='tag "v2" does not exist.*v1'):
        virtualize.open(out, tag="v2")
    with pytest.raises(virtualize.OptionError, match="only one of branch, tag and snapshot"):
        virtualize.open(out, tag="v1", branch="main")


def test_what_icechunk_itself_wrote(tmp_path: Path) -> None:
    """Native chunks, and virtual ones, of several arrays and groups."""
    import icechunk
    import zarr

    out, expected = icechunk_archive(tmp_path)
    repository = icechunk.Repository.open(icechunk.local_filesystem_storage(str(out)))
    session = repository.writable_session("main")
    own = np.random.default_rng(1).random((40, 7))
    group = zarr.open_group(session.store, path="own", mode="w")
    group.create_array("native", data=own, chunks=(8, 7))
    group.create_array("small", data=np.arange(3), chunks=(3,))
    session.commit("native chunks")
    store = virtualize.open(out)
    np.testing.assert_array_equal(store["own/native"][...], own)
    np.testing.assert_array_equal(store["own/native"][11:30:3, 2], own[11:30:3, 2])
    np.testing.assert_array_equal(store["own/small"][...], np.arange(3))
    xr.testing.assert_equal(virtualize.open_dataset(out), expected)
    # Chunks of the repository are inlined in references that must not depend on it.
    virtualize.convert(out, tmp_path / "out.json", format="kerchunk-json")
    np.testing.assert_array_equal(virtualize.open(tmp_path / "out.json")["own/native"][...], own)


@pytest.mark.parametrize("name", NAMES)
def test_files_that_moved(tmp_path: Path, name: str) -> None:
    files = write(tmp_path / "files")
    out = tmp_path / name
    virtualize.batch(files, out, concat_dim="time")
    expected = virtualize.open_dataset(out).load()
    (tmp_path / "files").rename(tmp_path / "moved")
    moves = {f"{tmp_path}/files": f"{tmp_path}/moved"}
    moved = virtualize.open_dataset(out, rewrite_url=moves)
    xr.testing.assert_equal(moved, expected)
    xr.testing.assert_equal(pickle.loads(pickle.dumps(moved)), expected)
    with pytest.raises(virtualize.Error, match=f"{files[0].name}|{files[1].name}|{files[2].name}"):
        virtualize.open_dataset(out).packed.load()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("fault", ["missing", "changed", "shorter"])
def test_chunks_of_missing_files_are_filled_on_request(tmp_path: Path, name: str, fault: str) -> None:
    files = write(tmp_path / "files")
    out = tmp_path / name
    virtualize.batch(files, out, concat_dim="time")
    expected = virtualize.open_dataset(out).load()
    data = files[1].read_bytes()
    match fault:
        case "missing":
            files[1].unlink()
        case "changed" if name == "all.icechunk":
            # Icechunk records the latest time of modification, in whole seconds.
            os.utime(files[1], (2**31, 2**31))
        case _:
            files[1].write_bytes(data[:100])
    with pytest.raises(virtualize.Error, match=files[1].name):
        virtualize.open_dataset(out).packed.load()
    opened = virtualize.open_dataset(out, on_error="fill", decode_times=False)
    with pytest.warns(virtualize.VirtualizeWarning, match=f"{files[1].name}.*reads as the fill value"):
        found = opened.packed.load()
    assert np.isnan(found[4:8]).all()
    xr.testing.assert_equal(found[:4].variable, expected.packed[:4].variable)
    xr.testing.assert_equal(found[8:].variable, expected.packed[8:].variable)


def test_selections_of_the_same_chunk_read_it_once(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    values = np.random.default_rng(0).random((64, 64))
    encoding = {"a": {"chunksizes": (32, 32), "zlib": True}}
    xr.Dataset({"a": (("y", "x"), values)}).to_netcdf(path, engine="h5netcdf", encoding=encoding)
    array = virtualize.open(path)["a"]
    without = virtualize.open(path, cache=0)["a"]
    rng = np.random.default_rng(3)
    for _ in range(100):
        y, x = rng.integers(0, 64, 2)
        selection = (slice(y, y + 5), [x, (x + 7) % 64])
        np.testing.assert_array_equal(array.oindex[selection], values[selection])
        np.testing.assert_array_equal(without.oindex[selection], values[selection])
    # What is in memory survives damage of the file; its length and time are those that were opened.
    times = path.stat()
    path.write_bytes(b"\0" * times.st_size)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    np.testing.assert_array_equal(array[3, 5], values[3, 5])


def test_what_users_of_other_packages_pass(tmp_path: Path) -> None:
    import fsspec

    (path,) = write(tmp_path / "files", 1)
    expected = xr.open_dataset(path, engine="h5netcdf")
    with open(path, "rb") as file:
        xr.testing.assert_equal(virtualize.open(file, decoded=True).to_xarray(), expected)
    memory = fsspec.filesystem("memory")
    memory.pipe("/data/d0.nc", path.read_bytes())
    for given in (fsspec.open(f"file://{path}"), fsspec.open("memory://data/d0.nc"), memory.open("/data/d0.nc")):
        xr.testing.assert_equal(virtualize.open(given, decoded=True).to_xarray(), expected)
    options = {"key": "a", "secret": "b", "client_kwargs": {"endpoint_url": "http://127.0.0.1:9"}}
    xr.testing.assert_equal(virtualize.open_dataset(path, storage_options=options), expected)
    virtualize.batch([path], tmp_path / "one.json", concat_dim="time", progress=False, storage_options=options)
    xr.testing.assert_equal(virtualize.open_dataset(tmp_path / "one.json", storage_options=options), expected)
    with pytest.raises(virtualize.OptionError, match="storage_options: colour has no counterpart"):
        virtualize.scan([path], storage_options={"colour": 1})
    with pytest.raises(virtualize.OptionError, match="an open local file, not bytes"):
        virtualize.open(b"CDF")


@pytest.mark.filterwarnings("ignore:Consolidated metadata", "ignore:.*_FillValue is dropped")
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("consolidated", [True, False])
def test_a_zarr_store_with_chunks_of_its_own(tmp_path: Path, zarr_format: int, consolidated: bool) -> None:
    import zarr

    path = tmp_path / "native.zarr"
    values = np.random.default_rng(0).random((7, 9))
    root = zarr.create_group(path, zarr_format=zarr_format, attributes={"title": "t"})
    array = root.create_array("deep/er/a", shape=(7, 9), chunks=(3, 4), dtype="f8", fill_value=-1.0)
    array[:6] = values[:6]
    values[6] = -1
    root.create_array("scalar", data=np.float32(3.5))
    root.create_array("text", data=np.array(["a", "bb"], dtype=np.dtypes.StringDType()))
    if consolidated:
        zarr.consolidate_metadata(path)
    store = virtualize.open(path)
    assert store.attributes("")["title"] == "t"
    np.testing.assert_array_equal(store["deep/er/a"][...], values)
    np.testing.assert_array_equal(store["deep/er/a"][2:7:2, [8, 0]], values[2:7:2, [8, 0]])
    assert store["scalar"][...] == np.float32(3.5)
    assert list(store["text"][...]) == ["a", "bb"]
    # Zarr clients see the same store, and references to it can be written.
    np.testing.assert_array_equal(zarr.open_group(store, mode="r")["deep/er/a"][...], values)
    store.to_kerchunk(tmp_path / "refs.json")
    np.testing.assert_array_equal(virtualize.open(tmp_path / "refs.json")["deep/er/a"][...], values)


def test_several_files_open_as_one_dataset(tmp_path: Path) -> None:
    files = write(tmp_path / "files")
    expected = xr.concat([xr.open_dataset(file, engine="h5netcdf") for file in files], "time", data_vars="minimal")
    for given in (files, f"{tmp_path}/files/*.nc"):
        found = virtualize.open_dataset(given, concat_dim="time")
        xr.testing.assert_equal(found, expected)
        xr.testing.assert_equal(pickle.loads(pickle.dumps(found)), expected)
    assert virtualize.open(files[:2], concat_dim="time").to_xarray().sizes["time"] == 8
    xr.testing.assert_equal(virtualize.open_dataset(files), expected)


@pytest.mark.parametrize("name", NAMES)
def test_packing_that_differs_is_unpacked(tmp_path: Path, name: str) -> None:
    files = []
    for k in range(4):
        files.append(tmp_path / f"{k}.nc")
        numbers = np.random.default_rng(k).integers(0, 99, (2, 3)).astype("f8")
        numbers[0, k % 3] = np.nan
        offset = {"add_offset": 0.1 * k} if k % 2 else {}
        data = {"a": (("time", "x"), numbers / 10 + k), "b": (("time", "x"), numbers), "age": ("time", numbers[:, 0])}
        ds = xr.Dataset(data, {"time": ("time", [2 * k, 2 * k + 1], {"units": "days since 2000-01-01"})})
        ds["age"].attrs["units"] = "days"
        encoding = {
            "a": {"dtype": "i2", "scale_factor": 0.01 * (k + 1), "_FillValue": -9, **offset},
            "b": {"dtype": "i4", "scale_factor": 0.5, "_FillValue": -9},
            "age": {"dtype": "u1", "scale_factor": 1.0 + k, "_FillValue": 255},
        }
        ds.to_netcdf(files[-1], engine="h5netcdf", encoding=encoding)
    virtualize.batch(files[:3], tmp_path / name)
    virtualize.batch(files, tmp_path / name, **({} if name == "all.json" else {"overwrite": True}))
    opened = [xr.open_dataset(file, engine="h5netcdf", decode_timedelta=True) for file in files]
    expected = xr.concat(opened, "time", data_vars="minimal").load()
    found = xr.open_dataset(tmp_path / name, engine="virtualize", decode_timedelta=True)
    xr.testing.assert_equal(found, expected)
    assert found["a"].dtype == np.float64 and not any("_variable" in key for key in found["a"].attrs)
    xr.testing.assert_equal(pickle.loads(pickle.dumps(found)), expected)
    points = {"time": xr.DataArray([7, 0, 3], dims="p"), "x": xr.DataArray([2, 0, 1], dims="p")}
    for selection in ({"time": slice(5, 0, -2), "x": 1}, {"time": [6, 1], "x": [2, 0]}, points):
        xr.testing.assert_equal(found.isel(selection), expected.isel(selection))
    xr.testing.assert_equal(found.chunk(time=3).mean("time"), expected.mean("time"))
    # What is written again has lost nothing.
    found.to_netcdf(tmp_path / "again.nc", engine="h5netcdf")
    again = xr.open_dataset(tmp_path / "again.nc", engine="h5netcdf", decode_timedelta=True)
    xr.testing.assert_equal(again, expected)
    raw = xr.open_dataset(tmp_path / name, engine="virtualize", mask_and_scale={"a": False})
    assert raw["a"].dtype == np.int16 and raw["a"].attrs["scale_factor_variable"] == "a_scale_factor"
    np.testing.assert_array_equal(raw["a_scale_factor"], np.repeat([0.01, 0.02, 0.03, 0.04], 2))
    np.testing.assert_array_equal(raw["a_add_offset"], np.repeat([0, 0.1, 0, 0.1 * 3], 2))
    assert "b_scale_factor" not in raw
    tree = xr.open_datatree(tmp_path / name, engine="virtualize")
    xr.testing.assert_equal(tree["a"].drop_vars("time"), expected["a"].drop_vars("time"))
