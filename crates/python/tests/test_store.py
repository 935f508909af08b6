"""The store's side of zarr-python's interface: keys, values, byte ranges, batches, errors."""

import asyncio
import concurrent.futures
import multiprocessing
import os
import pickle
import random
import shutil
import subprocess
import sys
import threading
import xml.etree.ElementTree
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest
import virtualize
import zarr
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest, SupportsSyncStore
from zarr.core.buffer import default_buffer_prototype

PROTOTYPE = default_buffer_prototype()
KINDS = pytest.mark.parametrize("decoded", [False, True])


def collect(keys):
    async def run():
        return [key async for key in keys]

    return asyncio.run(run())


def value(store, key, request=None):
    found = asyncio.run(store.get(key, PROTOTYPE, request))
    return None if found is None else found.to_bytes()


@pytest.fixture
def file(tmp_path):
    """A file with groups, missing chunks, a scalar, strings and an empty array."""
    path = tmp_path / "file.h5"
    numbers = np.random.default_rng(1).integers(0, 1000, (40, 30), dtype="i4")
    with h5py.File(path, "w") as f:
        f.create_dataset("a", data=numbers, chunks=(16, 8), compression="gzip", shuffle=True)
        f.create_dataset("group/sparse", shape=(100, 100), chunks=(10, 10), dtype="f8", fillvalue=-1.0)
        f["group/sparse"][25:35, 5] = 7
        f["group/scalar"] = 3.5
        f.create_dataset("big_endian", data=numbers.astype(">i2"), chunks=(20, 30), fletcher32=True)
        f.create_dataset("empty", shape=(0, 4), chunks=(1, 4), maxshape=(None, 4), dtype="u1")
        f["text"] = ["one", "zwölf", ""]
    return path


@KINDS
def test_keys_and_values_agree(file, decoded):
    store = virtualize.open(file, decoded=decoded)
    keys = collect(store.list())
    assert len(keys) == len(set(keys))
    assert {"zarr.json", "a/zarr.json", "a/c/2/3", "group/scalar/c", "group/sparse/c/2/0"} <= set(keys)
    assert "group/sparse/c/0/0" not in keys
    for key in keys:
        whole = value(store, key)
        assert whole is not None
        assert asyncio.run(store.exists(key))
        assert asyncio.run(store.getsize(key)) == len(whole)
        assert store.get_sync(key, prototype=PROTOTYPE).to_bytes() == whole
    for key in ["a", "a/c", "a/c/9/9", "a/c/0", "a/c/0/0/0", "a/c/00/0", "nothing", "", "group/sparse/c/0/0", "/a/zarr.json"]:
        assert value(store, key) is None
        assert store.get_sync(key) is None
        assert not asyncio.run(store.exists(key))
        with pytest.raises(FileNotFoundError):
            asyncio.run(store.getsize(key))


@KINDS
def test_parts_of_values(file, decoded):
    store = virtualize.open(file, decoded=decoded)
    dice = random.Random(2)
    for key in ["zarr.json", "a/zarr.json", "a/c/0/0", "group/scalar/c", "big_endian/c/1/0"]:
        whole = value(store, key)
        for _ in range(20):
            start, length = dice.randrange(len(whole) + 1), dice.randrange(len(whole) + 5)
            cases = {
                RangeByteRequest(start, start + length): whole[start : start + length],
                OffsetByteRequest(start): whole[start:],
                SuffixByteRequest(length): whole[-length:] if length else b"",
            }
            for request, expected in cases.items():
                assert value(store, key, request) == expected, (key, request)
                assert store.get_sync(key, byte_range=request).to_bytes() == expected


@KINDS
def test_folders_and_prefixes(file, decoded):
    store = virtualize.open(file, decoded=decoded)
    keys = collect(store.list())
    for prefix in ["", "a/", "a/c/1", "group", "group/sparse/c/2/", "x"]:
        assert sorted(collect(store.list_prefix(prefix))) == sorted(k for k in keys if k.startswith(prefix))
    for folder in ["", "a", "a/", "a/c", "a/c/1", "group", "group/sparse/c", "x"]:
        inside = f"{folder.rstrip('/')}/" if folder else ""
        names = {key[len(inside) :].partition("/")[0] for key in keys if key.startswith(inside)}
        assert sorted(collect(store.list_dir(folder))) == sorted(names)


@KINDS
@pytest.mark.parametrize("pipeline", ["BatchedCodecPipeline", "FusedCodecPipeline"])
def test_arrays_equal_h5py(file, decoded, pipeline):
    store = virtualize.open(file, decoded=decoded)
    with zarr.config.set({"codec_pipeline.path": f"zarr.core.codec_pipeline.{pipeline}"}), h5py.File(file) as f:
        group = zarr.open_group(store, mode="r")
        for path in ["a", "group/sparse", "group/scalar", "big_endian", "empty"]:
            array = group[path]
            np.testing.assert_array_equal(array[...], f[path][()], strict=False)
            if decoded:
                assert [type(codec).__name__ for codec in array.metadata.codecs] == ["BytesCodec"]
        assert group["text"][...].tolist() == ["one", "zwölf", ""]


def test_requests_of_one_turn_are_read_together(file):
    store = virtualize.open(file)
    calls = []

    class Counting:
        def __init__(self, file):
            self.file = file

        def __getattr__(self, name):
            return getattr(self.file, name)

        def chunks(self, requests, wait):
            calls.append(len(requests))
            return self.file.chunks(requests, wait)

    store._opened = Counting(store._opened)

    async def read():
        keys = [f"a/c/{i}/{j}" for i in range(3) for j in range(4)] + ["a/zarr.json", "a/c/7/7"]
        return await asyncio.gather(*(store.get(key, PROTOTYPE) for key in keys))

    values = asyncio.run(read())
    assert calls == [13]
    assert [each is None for each in values] == [False] * 13 + [True]


def test_zarr_reads_and_refuses_to_write(file):
    store = virtualize.open(file)
    assert isinstance(store, SupportsSyncStore)
    assert store.read_only and not store.supports_writes and store.supports_listing
    for write in [
        lambda: asyncio.run(store.set("a/c/0/0", PROTOTYPE.buffer.from_bytes(b"x"))),
        lambda: asyncio.run(store.delete("a/c/0/0")),
        lambda: asyncio.run(store.clear()),
        lambda: store.set_sync("a/c/0/0", PROTOTYPE.buffer.from_bytes(b"x")),
        lambda: store.delete_sync("a/c/0/0"),
        lambda: store.with_read_only(False),
        lambda: zarr.open_group(store, mode="w"),
    ]:
        with pytest.raises(ValueError, match="read-only|read only"):
            write()
    assert store.with_read_only(True) == store


@KINDS
def test_a_changed_file_is_refused(file, decoded, tmp_path):
    store = virtualize.open(file, decoded=decoded)
    pickled = pickle.dumps(store)
    assert pickle.loads(pickled) == store
    with h5py.File(file, "r+") as f:
        f["a"][0, 0] += 1
    os.utime(file, ns=(1, 1))
    for read in [lambda: value(store, "a/c/0/0"), lambda: store.get_sync("a/c/0/0")]:
        with pytest.raises(virtualize.ChangedError, match="file.h5.*changed"):
            read()
    run = f"import pickle; pickle.loads({pickled!r})"
    done = subprocess.run([sys.executable, "-c", run], capture_output=True, text=True)
    assert "ChangedError" in done.stderr.splitlines()[-1]


def test_a_wrong_checksum_is_an_error(tmp_path):
    path, values = tmp_path / "wrong.h5", np.arange(1000, dtype="i4")
    stream = zlib.compress(values.tobytes())
    streams = [stream, stream[:-1] + bytes([stream[-1] ^ 1]), stream[:-4]]
    with h5py.File(path, "w") as f:
        array = f.create_dataset("a", (3000,), "i4", chunks=(1000,), compression="gzip")
        for at, each in enumerate(streams):
            array.id.write_direct_chunk((1000 * at,), each)
    array = virtualize.open(path, decoded=True)["a"]
    np.testing.assert_array_equal(array[:1000], values)
    with h5py.File(path) as f:
        for at in [1000, 2000]:
            with pytest.raises(OSError):
                f["a"][at : at + 1000]
            with pytest.raises(virtualize.FileError, match="/a: chunk .: zlib"):
                array[at : at + 1000]


def test_a_removed_file_is_reported(file):
    store = virtualize.open(file)
    pickled = pickle.dumps(store)
    file.unlink()
    run = f"import pickle; pickle.loads({pickled!r})"
    done = subprocess.run([sys.executable, "-c", run], capture_output=True, text=True)
    assert "NotFoundError" in done.stderr.splitlines()[-1]


def total(store):
    return int(zarr.open_array(store, path="a", mode="r")[...].sum())


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_processes(file, method):
    store = virtualize.open(file)
    expected = total(store)
    with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context(method)) as pool:
        assert list(pool.map(total, [store] * 4)) == [expected] * 4


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_uses_the_parents_store(file):
    store = virtualize.open(file, decoded=True)
    before = store.get_sync("a/c/0/0").to_bytes()
    child = os.fork()
    if child == 0:
        ok = store.get_sync("a/c/0/0").to_bytes() == before and value(store, "a/c/0/0") == before
        os._exit(0 if ok else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@KINDS
def test_many_threads(file, decoded):
    store = virtualize.open(file, decoded=decoded)
    keys = [key for key in collect(store.list()) if "/c" in key]
    expected = {key: value(store, key) for key in keys}
    wrong = []

    def work(seed):
        dice = random.Random(seed)
        for _ in range(50):
            key = dice.choice(keys)
            if dice.random() < 0.5:
                found = store.get_sync(key).to_bytes()
            else:
                found = value(store, key)
            if found != expected[key]:
                wrong.append(key)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(64)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not wrong


def test_inside_a_running_loop(file, tmp_path):
    async def run():
        store = await virtualize.open_async(file)
        await store.to_kerchunk_async(tmp_path / "a.json")
        # Blocking functions work inside a running loop too, as in a notebook.
        again = virtualize.open(file)
        again.to_kerchunk(tmp_path / "b.json")
        assert again == store
        snapshot = await store.to_icechunk_async(tmp_path / "repository")
        assert len(snapshot) == 20
        return total(again)

    assert asyncio.run(run()) == total(virtualize.open(file))
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_references_are_those_of_the_command(file, tmp_path):
    command = Path(sys.executable).with_name("virtualize")
    for decoded in [False, True]:
        store = virtualize.open(file, decoded=decoded)
        for name, write, format in [
            ("k.json", store.to_kerchunk, "kerchunk-json"),
            ("z.json", store.to_zarr3, "zarr3-json"),
            ("k.parquet", store.to_kerchunk, "kerchunk-parquet"),
        ]:
            ours, theirs = tmp_path / f"{decoded}-{name}", tmp_path / f"command-{decoded}-{name}"
            write(ours)
            subprocess.run([command, file, "--format", format, "-o", theirs], check=True, capture_output=True)
            pairs = [(ours, theirs)] if ours.is_file() else [(p, theirs / p.relative_to(ours)) for p in ours.rglob("*") if p.is_file()]
            assert pairs
            for one, other in pairs:
                assert one.read_bytes() == other.read_bytes(), one


def test_errors_and_warnings(file, tmp_path):
    with pytest.raises(virtualize.NotFoundError, match="missing.h5: not found") as error:
        virtualize.open(tmp_path / "missing.h5")
    assert isinstance(error.value, FileNotFoundError)
    text = tmp_path / "text.h5"
    text.write_text("no numbers here")
    with pytest.raises(virtualize.FileError, match="text.h5: neither HDF5, NetCDF nor TIFF"):
        virtualize.open(text)
    cut = tmp_path / "cut.h5"
    shutil.copy(file, cut)
    os.truncate(cut, 700)
    with pytest.raises(virtualize.FileError, match="cut.h5: "):
        virtualize.open(cut)
    with pytest.raises(virtualize.OptionError, match="bands"):
        virtualize.open(file, bands=3)
    with h5py.File(tmp_path / "dropped.h5", "w") as f:
        f["a"] = np.arange(3, dtype="i2")
        f["a"].attrs["_FillValue"] = np.float64(1e30)
    with pytest.warns(virtualize.VirtualizeWarning, match="dropped.h5: /a: ") as warned:
        virtualize.open(tmp_path / "dropped.h5")
    assert warned[0].message.code == warned[0].message.diagnostic.code == "fill-value-dropped"
    assert warned[0].filename == __file__
    with pytest.raises(virtualize.RefusedError) as error:
        virtualize.open(tmp_path / "dropped.h5", strict=True)
    assert [each.code for each in error.value.diagnostics] == ["fill-value-dropped"]


def test_importing_is_quick_and_alone():
    run = """
import sys, time
import virtualize
heavy = {"zarr", "xarray", "numcodecs", "matplotlib", "tqdm", "asyncio", "pandas", "dask"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-W", "error", "-c", run], check=True)


def test_the_command_is_in_the_package(file):
    command = Path(sys.executable).with_name("virtualize")
    done = subprocess.run([command, "inspect", file], capture_output=True, text=True, check=True)
    assert "sparse" in done.stdout
    done = subprocess.run([sys.executable, "-m", "virtualize", "nothing.h5"], capture_output=True, text=True)
    assert done.returncode == 1 and "nothing.h5: not found" in done.stderr


@pytest.mark.filterwarnings("ignore::virtualize.VirtualizeWarning")
def test_inspect_describes_every_fixture(fixtures):
    command = Path(sys.executable).with_name("virtualize")
    for path in [*sorted(fixtures.glob("hdf5/*.h5"))[:20], *sorted(fixtures.glob("tiff/*.tif"))[:20]]:
        try:
            inspection = virtualize.open(path).inspect()
        except virtualize.RefusedError:
            continue
        environment = {**os.environ, "COLUMNS": "100"}
        done = subprocess.run([command, "inspect", path, "--format", "zarr3-json"], capture_output=True, text=True, env=environment)
        # Remedies name options in the notation of Python.
        assert repr(inspection).partition("\nNotes\n")[0] == done.stdout.partition("\nNotes\n")[0]
        assert pickle.loads(pickle.dumps(inspection)) == inspection
        html = xml.etree.ElementTree.fromstring(inspection._repr_html_())
        paths = [each.text.strip("/") for each in html.findall(".//code")]
        assert sorted(paths) == sorted(virtualize.open(path)._file.array_paths())


def test_inspect_describes_one_array(file):
    store = virtualize.open(file)
    command = Path(sys.executable).with_name("virtualize")
    arguments = [command, "inspect", file, "--array", "group/sparse", "--format", "zarr3-json"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "100"})
    assert store.inspect("group/sparse") == done.stdout and done.stdout.startswith("/group/sparse\n")
    with pytest.raises(KeyError, match="did you mean .*group/sparse"):
        store.inspect("sparce")


def test_relative_paths_and_members_of_archives(tmp_path, monkeypatch):
    """A path names the same file after a change of the working directory; a member of a ZIP file is not the local file of its name."""
    import zipfile

    for name, value in (("one", 1), ("two", 2)):
        (tmp_path / name).mkdir()
        with h5py.File(tmp_path / name / "a.h5", "w") as made:
            made.create_dataset("v", data=np.full(4, value), chunks=(2,))
    monkeypatch.chdir(tmp_path / "one")
    store = virtualize.open("a.h5")
    pickled = pickle.dumps(store)
    monkeypatch.chdir(tmp_path / "two")
    assert pickle.loads(pickled)["v"][...].tolist() == [1] * 4
    store.to_kerchunk(tmp_path / "a.json")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(tmp_path / "one/a.h5", "a.h5")
    with pytest.raises(virtualize.OptionError), zipfile.ZipFile(tmp_path / "a.zip").open("a.h5") as member:
        virtualize.open(member)
    with open("a.h5", "rb") as local:
        assert virtualize.open(local)["v"][...].tolist() == [2] * 4


def test_changes_in_file_systems_without_entity_tags_are_noticed(tmp_path):
    import fsspec

    memory = fsspec.filesystem("memory")
    for value in (1, 2):
        with h5py.File(tmp_path / "a.h5", "w") as made:
            made.create_dataset("v", data=np.full(400_000, value), chunks=(50_000,))
        memory.pipe("/changes/a.h5", (tmp_path / "a.h5").read_bytes())
        if value == 1:
            store = virtualize.open(memory.open("/changes/a.h5"))
            assert store["v"][0] == 1
    with pytest.raises(virtualize.ChangedError):
        store["v"][399_999]
