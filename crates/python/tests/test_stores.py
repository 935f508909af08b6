"""Files are read through stores of obstore and obspec, and a file that changes is refused."""

import asyncio
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import h5py
import numpy as np
import obspec_utils.wrappers as wrappers
import pytest
import zarr
from obspec_utils.registry import ObjectStoreRegistry
from obstore.store import HTTPStore, LocalStore, MemoryStore, S3Store

import virtualize

sys.path.insert(0, str(Path(__file__).parents[2] / "cli/tests/interop"))
from slow_s3 import SlowS3  # noqa: E402


def make(path, seed=1, size=600, **kwargs):
    """Write a file with more metadata and data than the first request of a store returns."""
    values = np.random.default_rng(seed).random((size, 500)).astype("f4")
    kwargs = {"chunks": (10, 50), "compression": "gzip", "shuffle": True} | kwargs
    with h5py.File(path, "w") as f:
        f.create_dataset("temperature", data=values, **kwargs)
    return path.read_bytes(), values


class Plain:
    """The least that a store must have."""

    def __init__(self, **objects):
        self.objects = {name.replace("__", "."): (data, 0) for name, data in objects.items()}
        self.calls = []

    def put(self, path, data):
        self.objects[path] = data, self.objects[path][1] + 1

    def head(self, path):
        if path not in self.objects:
            raise FileNotFoundError(path)
        data, version = self.objects[path]
        time = datetime.fromtimestamp(1_700_000_000 + version, UTC)
        return {"path": path, "size": len(data), "e_tag": self.tag(version), "last_modified": time, "version": None}

    def tag(self, version):
        return f'"{version}"'

    def get_range(self, path, *, start, end=None, length=None):
        self.calls.append((path, start, end))
        return memoryview(self.objects[path][0])[start:end]


class WithoutTag(Plain):
    def tag(self, version):
        return None


class PresentTime(Plain):
    """Reports the present time as the modification time, as obspec_utils' AiohttpStore does where it knows none."""

    def head(self, path):
        return super().head(path) | {"last_modified": datetime.now(UTC)}


class OnlyAsync:
    def __init__(self, inner):
        self.inner = inner

    async def head_async(self, path):
        await asyncio.sleep(0.001)
        return self.inner.head(path)

    async def get_range_async(self, path, *, start, end=None, length=None):
        await asyncio.sleep(0.001)
        return self.inner.get_range(path, start=start, end=end)


def memory(data):
    store = MemoryStore()
    store.put("a.h5", data)
    return store


STORES = {
    "memory": memory,
    "plain": lambda data: Plain(a__h5=data),
    "without_tag": lambda data: WithoutTag(a__h5=data),
    "present_time": lambda data: PresentTime(a__h5=data),
    "only_async": lambda data: OnlyAsync(Plain(a__h5=data)),
    "tracing": lambda data: wrappers.TracingReadableStore(memory(data), wrappers.RequestTrace()),
    "caching": lambda data: wrappers.CachingReadableStore(memory(data)),
    "splitting": lambda data: wrappers.SplittingReadableStore(memory(data), request_size=100_000),
    "registry": lambda data: ObjectStoreRegistry({"any://x": memory(data)}),
}


@pytest.mark.parametrize("kind", STORES)
def test_values_are_those_of_h5py(kind, tmp_path):
    data, values = make(tmp_path / "a.h5")
    store = virtualize.open("any://x/a.h5", store=STORES[kind](data))
    assert np.array_equal(zarr.open_array(store, path="temperature", mode="r")[:], values)
    assert store.manifest("temperature").urls == ["any://x/a.h5"]


def test_local_store(tmp_path):
    _, values = make(tmp_path / "a b%20#.h5")
    for store, url in [
        (LocalStore(tmp_path), "a b%20#.h5"),
        (LocalStore(tmp_path), f"file://{tmp_path}/a b%20#.h5"),
        (LocalStore(), f"file://{tmp_path}/a b%20#.h5"),
        (LocalStore(tmp_path.parent), f"{tmp_path.name}/a b%20#.h5"),
    ]:
        opened = virtualize.open(url, store=store)
        assert opened.manifest("temperature").urls == [f"file://{tmp_path}/a b%20#.h5"]
        assert np.array_equal(zarr.open_array(opened, path="temperature", mode="r")[:], values)
        opened.to_kerchunk(tmp_path / "out.json")


def test_icechunk_reads_what_was_opened_through_a_local_store(tmp_path):
    import icechunk

    _, values = make(tmp_path / "a.h5")
    virtualize.open("a.h5", store=LocalStore(tmp_path)).to_icechunk(tmp_path / "repository")
    storage = icechunk.local_filesystem_storage(str(tmp_path / "repository"))
    containers = icechunk.Repository.open(storage).config.virtual_chunk_containers or {}
    access = {prefix: icechunk.credentials.LocalFileSystemAccess for prefix in containers}
    session = icechunk.Repository.open(storage, authorize_virtual_chunk_access=access).readonly_session("main")
    assert np.array_equal(zarr.open_array(session.store, path="temperature", mode="r")[:], values)


def test_a_local_file_that_changes_is_refused(tmp_path):
    make(tmp_path / "a.h5", size=3000)
    opened = virtualize.open("a.h5", store=LocalStore(tmp_path))
    data = (tmp_path / "a.h5").read_bytes()
    (tmp_path / "a.h5").write_bytes(data[::-1])
    with pytest.raises(virtualize.ChangedError):
        zarr.open_array(opened, path="temperature", mode="r")[-1]


@pytest.mark.parametrize("kind", ["s3", "prefix", "http"])
def test_servers(kind, tmp_path):
    data, values = make(tmp_path / "a.h5")
    with SlowS3({"folder/a.h5": data}, latency=0.005) as server:
        endpoint = server.env["AWS_ENDPOINT_URL"]
        s3 = {"endpoint": endpoint, "skip_signature": True, "region": "us-east-1", "client_options": {"allow_http": True}}
        store, path, url = {
            "s3": (S3Store("bucket", **s3), "folder/a.h5", "s3://bucket/folder/a.h5"),
            "prefix": (S3Store("bucket", prefix="folder", **s3), "a.h5", "s3://bucket/folder/a.h5"),
            "http": (
                HTTPStore(f"{endpoint}/bucket/folder", client_options={"allow_http": True}),
                "a.h5",
                f"{endpoint}/bucket/folder/a.h5",
            ),
        }[kind]
        for location in (path, url):
            server.requested.clear()
            opened = virtualize.open(location, store=store)
            assert opened.manifest("temperature").urls == [url]
            assert server.requested["folder/a.h5"] <= 4, "neighbouring ranges are merged"
            again = pickle.loads(pickle.dumps(opened))
            assert np.array_equal(zarr.open_array(again, path="temperature", mode="r")[:], values)
        with pytest.raises(virtualize.NotFoundError, match="b.h5"):
            virtualize.open("b.h5", store=store)
        server.private.add("folder/a.h5")
        with pytest.raises(virtualize.AccessDeniedError):
            virtualize.open(path, store=store)


@pytest.mark.parametrize("kind", ["memory", "plain", "without_tag", "present_time", "only_async"])
def test_a_changed_file_is_refused(kind, tmp_path):
    (data, _), (other, _) = make(tmp_path / "a.h5", 1, 3000), make(tmp_path / "b.h5", 2, 3000)
    # A file of the same length, so that only tag or time can tell.
    length = max(len(data), len(other)) + 10
    data, other = data.ljust(length, b"\0"), other.ljust(length, b"\0")
    store = STORES[kind](data)
    opened = virtualize.open("any://x/a.h5", store=store)
    getattr(store, "inner", store).put("a.h5", other)
    with pytest.raises(virtualize.ChangedError, match="any://x/a.h5"):
        zarr.open_array(opened, path="temperature", mode="r")[-1]


def test_a_file_that_changes_while_it_is_opened_is_refused(tmp_path):
    data, _ = make(tmp_path / "a.h5")

    class Replaced(Plain):
        def get_range(self, path, **kwargs):
            found = super().get_range(path, **kwargs)
            if len(self.calls) == 1:
                self.put(path, data[::-1])
            return found

    with pytest.raises(virtualize.ChangedError):
        virtualize.open("any://x/a.h5", store=Replaced(a__h5=data))


def test_short_and_long_answers_are_refused(tmp_path):
    data, _ = make(tmp_path / "a.h5")
    for cut in (-1, +1):

        class Wrong(Plain):
            def get_range(self, path, *, start, end, length=None):
                return bytes(self.objects[path][0][start : end + cut])

        with pytest.raises(virtualize.UnavailableError, match="expected"):
            virtualize.open("any://x/a.h5", store=Wrong(a__h5=data))


def test_errors_of_a_store_have_their_class(tmp_path):
    class PermissionDeniedError(Exception):
        pass

    class Refusing(Plain):
        def head(self, path):
            raise raised

    for raised, expected in [
        (PermissionDeniedError("no"), virtualize.AccessDeniedError),
        (PermissionError("no"), virtualize.AccessDeniedError),
        (FileNotFoundError("no"), virtualize.NotFoundError),
        (RuntimeError("broken\nDebug"), virtualize.UnavailableError),
        (KeyboardInterrupt(), virtualize.UnavailableError),
    ]:
        with pytest.raises(expected) as caught:
            virtualize.open("any://x/a.h5", store=Refusing(a__h5=b""))
        assert "any://x/a.h5" in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(virtualize.FileError, match="(?i)empty|0 bytes|neither|format"):
        virtualize.open("any://x/a.h5", store=Plain(a__h5=b""))
    with pytest.raises(virtualize.FileError):
        virtualize.open("any://x/a.h5", store=memory(b""))


def test_urls_outside_the_store_are_refused():
    s3 = S3Store("bucket", prefix="folder", region="us-east-1", skip_signature=True)
    for url in ["s3://other/folder/a.h5", "s3://bucket/a.h5", "s3://bucket/folder2/a.h5", "https://x/a.h5"]:
        with pytest.raises(virtualize.OptionError, match="s3://bucket/folder/"):
            virtualize.open(url, store=s3)
    with pytest.raises(virtualize.OptionError, match="full url"):
        virtualize.open("a.h5", store=memory(b""))
    with pytest.raises(virtualize.OptionError, match="int"):
        virtualize.open("any://x/a.h5", store=3)
    with pytest.raises(virtualize.Error, match="its end"):
        virtualize.open("any://x/a.h5?b", store=ObjectStoreRegistry({"any://x": memory(b"")}))
    with pytest.raises(virtualize.Error, match="any://y"):
        virtualize.open("any://y/a.h5", store=ObjectStoreRegistry({"any://x": memory(b"")}))


def test_other_files_are_read_through_the_same_store(tmp_path):
    data, values = make(tmp_path / "target.h5")
    with h5py.File(tmp_path / "main.h5", "w") as f:
        layout = h5py.VirtualLayout(values.shape, "f4")
        layout[:] = h5py.VirtualSource("target.h5", "temperature", values.shape)
        f.create_virtual_dataset("virtual", layout)
    store = memory(data)
    store.put("main.h5", (tmp_path / "main.h5").read_bytes())
    store.put("target.h5", data)
    opened = virtualize.open("memory://x/main.h5", store=store)
    assert np.array_equal(zarr.open_array(opened, path="virtual", mode="r")[:], values)
    assert "memory://x/target.h5" in opened.manifest("virtual").urls


def test_threads_and_a_running_loop(tmp_path):
    data, values = make(tmp_path / "a.h5")
    store = virtualize.open("any://x/a.h5", store=Plain(a__h5=data))

    def read(n):
        rows = slice(n % 50 * 10, n % 50 * 10 + 10)
        return np.array_equal(zarr.open_array(store, path="temperature", mode="r")[rows], values[rows])

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(read, range(100)))

    async def main():
        opened = await asyncio.gather(*(virtualize.open_async("any://x/a.h5", store=OnlyAsync(Plain(a__h5=data))) for _ in range(8)))
        return [zarr.open_array(store, path="temperature", mode="r")[0] for store in opened]

    assert all(np.array_equal(row, values[0]) for row in asyncio.run(main()))


def test_a_store_may_use_this_package_itself(tmp_path):
    data, values = make(tmp_path / "a.h5")

    class Nested(Plain):
        def get_range(self, path, **kwargs):
            inner = virtualize.open("any://x/a.h5", store=Plain(a__h5=data))
            assert inner.manifest("temperature").length.size == 600
            return super().get_range(path, **kwargs)

    store = virtualize.open("any://x/a.h5", store=Nested(a__h5=data))
    assert np.array_equal(zarr.open_array(store, path="temperature", mode="r")[:10], values[:10])


def test_each_prefix_has_settings_of_its_own(tmp_path: Path) -> None:
    files = [make(tmp_path / f"{seed}.h5", seed, size=20) for seed in (1, 2)]
    with SlowS3({"a.h5": files[0][0]}) as one, SlowS3({"a.h5": files[1][0]}) as other:
        stores = {
            f"s3://{name}/": {
                "anonymous": True,
                "endpoint": server.env["AWS_ENDPOINT_URL"],
                "store_option": {"aws_region": "us-east-1"},
            }
            for name, server in {"one": one, "other": other}.items()
        }
        for name, (_, values) in zip(stores, files, strict=True):
            array = zarr.open_array(virtualize.open(f"{name}a.h5", stores=stores), path="temperature", mode="r")
            np.testing.assert_array_equal(array[...], values)
        out = tmp_path / "both.json"
        virtualize.batch(["s3://one/a.h5", "s3://other/a.h5"], out, stack_dim="file", stores=stores)
        array = zarr.open_array(virtualize.open(out, stores=stores), path="temperature", mode="r")
        np.testing.assert_array_equal(array[...], np.stack([values for _, values in files]))
    with pytest.raises(virtualize.OptionError, match="did you mean"):
        virtualize.open("s3://one/a.h5", stores={"s3://one/": {"anonymus": True}})  # type: ignore[typeddict-unknown-key]
