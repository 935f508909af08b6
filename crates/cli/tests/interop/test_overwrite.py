"""`--overwrite` replaces outputs, and nothing else: on disk and in a bucket, also if the process is killed at any time."""
import json, os, random, subprocess, threading, time, urllib.request

import clients
import h5py
import numpy as np
import pytest
import zarr
from clients import virtualize
from test_stores import CREDENTIALS, REGION

FORMATS = ["zarr3", "kerchunk-parquet"]
KEYS = dict(aws_access_key_id="the-key", aws_secret_access_key="the-secret", region_name=REGION)


def write(path, n, seed):
    """Writes n steps; two files with the same seed have the same first steps."""
    values = np.random.default_rng(seed).normal(size=(64, 50))[:n]
    with h5py.File(path, "w") as f:
        for name in ["a", "b", "g/c"]:
            f.create_dataset(name, data=values + ord(name[-1]), chunks=(1, 50))
        f.create_dataset("time", data=np.arange(n, dtype="f8") + seed * 100, chunks=(1,))
        f["time"].make_scale("time")
        f["a"].dims[0].attach_scale(f["time"])
        f.create_dataset(f"only{seed}", data=values, chunks=(8 if n > 8 else n, 50))
    return path


def contents(path):
    names = []
    with h5py.File(path) as f:
        f.visititems(lambda name, node: names.append(name) if isinstance(node, h5py.Dataset) else None)
        return {name: f[name][()] for name in names}


def read(references, fmt):
    """Reads all arrays of an output on disk."""
    store = clients.open_store(str(references / "references.json") if fmt == "zarr3" else str(references))
    version = 3 if fmt == "zarr3" else 2
    if fmt == "zarr3":
        keys = json.loads((references / "references.json").read_text())["refs"]
        names = [key[:-10] for key in keys if key.endswith("/zarr.json") and json.loads(keys[key])["node_type"] == "array"]
    else:
        keys = json.loads((references / ".zmetadata").read_text())["metadata"]
        names = [key[:-8] for key in keys if key.endswith("/.zarray")]
    return {name: zarr.open_array(store, path=name, mode="r", zarr_format=version)[...] for name in names}


def same(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def tree(folder):
    """Returns the content of every file below a folder, links as their targets."""
    found = {}
    for path in sorted(folder.rglob("*")):
        found[str(path.relative_to(folder))] = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
    return found


def output(file, target, fmt, *more):
    run = virtualize(file, "-f", fmt, "-o", target, *more)
    assert run.status == 0, run.stderr
    return target


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return write(tmp_path_factory.mktemp("overwrite") / "source.h5", 12, 1)


def thesis(file, out):
    (out / "docs").mkdir(parents=True)
    (out / "docs/thesis.txt").write_text("ten years")
    return "docs"


def native(version):
    def make(file, out):
        group = zarr.open_group(str(out), mode="w", zarr_format=version)
        group.create_array("a", data=np.arange(12.0), chunks=(3,))
        zarr.consolidate_metadata(str(out), zarr_format=version)
        return ""
    return make


def icechunk(file, out):
    output(file, out, "icechunk")
    return "an Icechunk repository"


def beside(key, fmt, content=b"mine"):
    def make(file, out):
        output(file, out, fmt)
        (out / key).parent.mkdir(exist_ok=True, parents=True)
        (out / key).write_bytes(content)
        return key
    return make


def added_array(file, out):
    output(file, out, "zarr3", "--inline", "1M")
    zarr.open_group(str(out), mode="a").create_array("derived", data=np.arange(12.0), chunks=(3,))
    return "derived/"


def link(fmt):
    def make(file, out):
        output(file, out, fmt)
        (out / "a/data").symlink_to(file)
        return "a/data"
    return make


def empty_folder(file, out):
    output(file, out, "zarr3")
    (out / "project").mkdir()
    return "project/"


def table(file, out):
    import pandas as pd
    out.mkdir()
    pd.DataFrame({"x": [1]}).to_parquet(out / "refs.0.parq", engine="fastparquet")
    return "refs.0.parq"


FOREIGN = {
    "thesis": thesis, "zarr2": native(2), "zarr3": native(3), "icechunk": icechunk, "array": added_array, "link": link("zarr3"),
    "link in tables": link("kerchunk-parquet"), "empty": empty_folder, "table": table,
    "note": beside("a/notes.txt", "zarr3"), "hidden": beside(".DS_Store", "zarr3"), "note in tables": beside("notes.txt", "kerchunk-parquet"),
    "other table": beside("other/refs.0.parq", "kerchunk-parquet"), "source": beside("a/c/0.nc", "zarr3"),
}


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("kind", FOREIGN)
def test_other_folders_are_not_replaced(file, tmp_path, kind, fmt):
    out = tmp_path / "out"
    named = FOREIGN[kind](file, out)
    before = tree(out)
    for flags in [("--overwrite",), ()]:
        run = virtualize(file, "-f", fmt, "-o", out, *flags)
        assert run.status == 1 and len(run.stderr.splitlines()) == 1, run.stderr
        assert f"contains {named}" in run.stderr and "--overwrite" not in run.stderr, run.stderr
        assert tree(out) == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("old", [*FORMATS, "inline", "kerchunk", "link"])
def test_outputs_are_replaced(file, tmp_path, old, fmt):
    other, out = write(tmp_path / "other.h5", 5, 2), tmp_path / "out"
    if old == "kerchunk":
        from kerchunk.df import refs_to_dataframe
        refs_to_dataframe(clients.convert(other, "kerchunk-json").references, str(out))
    elif old == "inline":
        output(other, out, "zarr3", "--inline", "1M")
    elif old == "link":
        out.symlink_to(output(other, tmp_path / "real", "zarr3"))
    else:
        output(other, out, old)
    assert "--overwrite" in virtualize(file, "-f", fmt, "-o", out).stderr
    output(file, out, fmt, "--overwrite")
    assert same(read(out, fmt), contents(file)) and out.is_symlink() == (old == "link")


def killed(arguments, env, wait):
    """Starts the binary and kills it once `wait(process)` returns."""
    process = subprocess.Popen([clients.BINARY, *map(str, arguments)], env={**os.environ, **env}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait(process)
    process.kill()
    return process.wait()


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in [*range(1, 6), None])])
def test_kill_while_a_folder_is_replaced(tmp_path, seed):
    seed = random.randrange(2**32) if seed is None else seed
    print("seed", seed)
    rng = random.Random(seed)
    fmt = rng.choice(FORMATS)
    files = [write(tmp_path / f"{k}.h5", rng.randint(3, 40), k) for k in range(2)]
    expected, out = [contents(path) for path in files], tmp_path / "out"
    mine = tmp_path / "thesis.txt"
    mine.write_text("ten years")
    start = time.monotonic()
    output(files[0], out, fmt)
    usual = time.monotonic() - start
    for _ in range(4):
        killed([files[1], "-f", fmt, "-o", out, "--overwrite"], {}, lambda _: time.sleep(usual * rng.uniform(0.3, 1.1)))
        found = read(out, fmt)
        assert any(same(found, each) for each in expected)
        assert mine.read_text() == "ten years"
    assert same(read(output(files[1], out, fmt, "--overwrite"), fmt), expected[1])


# ---- buckets

class Cut:
    """A proxy in front of moto that kills a process at its n-th write to the output, before or after the write is done."""

    def __init__(self, app):
        self.app, self.lock, self.process = app, threading.Lock(), None
        self.writes, self.last, self.is_done = 0, None, False

    def __call__(self, environ, start_response):
        is_write = environ["REQUEST_METHOD"] != "GET" and "HEAD" != environ["REQUEST_METHOD"] and "boto3" not in environ.get("HTTP_USER_AGENT", "").lower()
        with self.lock:
            is_write = is_write and ".lock" not in environ["PATH_INFO"]
            self.writes += is_write
            ends = is_write and self.last is not None and self.writes >= self.last
            if ends and not self.is_done:
                self.process.kill()
                self.process.wait()
        if ends and not self.is_done:
            start_response("503 Service Unavailable", [])
            return [b""]
        answer = self.app(environ, start_response)
        if ends:
            with self.lock:
                self.process.kill()
        return answer


@pytest.fixture(scope="module")
def bucket():
    """Yields (proxy, client, environment) of a server."""
    import boto3
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server
    cut = Cut(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, cut, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/moto-api/reset", method="POST")).close()
    client = boto3.client("s3", endpoint_url=endpoint, **KEYS)
    client.create_bucket(Bucket="outputs", CreateBucketConfiguration={"LocationConstraint": REGION})
    yield cut, client, {**CREDENTIALS, "AWS_ENDPOINT_URL": endpoint}
    server.shutdown()


def objects(client, prefix=""):
    found = client.list_objects_v2(Bucket="outputs", Prefix=prefix).get("Contents", [])
    return {entry["Key"]: client.get_object(Bucket="outputs", Key=entry["Key"])["Body"].read() for entry in found}


def download(client, folder):
    for key, body in objects(client, "out/").items():
        path = folder / key.removeprefix("out/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    return folder


def clear(client):
    for key in objects(client):
        client.delete_object(Bucket="outputs", Key=key)


@pytest.mark.parametrize("fmt", FORMATS)
def test_other_objects_are_not_deleted(bucket, file, fmt):
    _, client, env = bucket
    arguments = [file, "-f", fmt, "-o", "s3://outputs/out", "--overwrite"]
    for foreign in ["docs/thesis.txt", "a/notes.txt", "a/c/0.nc", "zarr.json"]:
        for is_output in [False, True]:
            clear(client)
            if is_output and foreign != "zarr.json":
                assert virtualize(*arguments, env=env).status == 0
            client.put_object(Bucket="outputs", Key=f"out/{foreign}", Body=b"mine")
            client.put_object(Bucket="outputs", Key="out2/a", Body=b"mine")
            before = objects(client)
            run = virtualize(*arguments, env=env)
            assert run.status == 1 and f"contains {foreign}" in run.stderr, run.stderr
            assert objects(client) == before


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in [*range(1, 5), None])])
@pytest.mark.parametrize("kind", ["zarr3", "inline", "kerchunk-parquet"])
def test_kill_while_a_prefix_is_replaced(bucket, tmp_path, kind, seed):
    """References as one document are those of the old or of the new output; so are tables, if the output has grown."""
    cut, client, env = bucket
    seed = random.randrange(2**32) if seed is None else seed
    print("seed", seed)
    rng = random.Random(seed)
    clear(client)
    cut.last = None
    fmt, more = ("zarr3", ["--inline", "1M"]) if kind == "inline" else (kind, [])
    grows = kind == "kerchunk-parquet"
    files = [write(tmp_path / "0.h5", rng.randint(3, 6), 0), write(tmp_path / "1.h5", rng.randint(8, 12), 0 if grows else 1)]
    if grows:
        # Chunks of a common array with other positions would mix.
        for path in files:
            with h5py.File(path, "a") as f:
                del f["only0"]
    expected = [contents(path) for path in files]
    client.put_object(Bucket="outputs", Key="outside", Body=b"mine")
    arguments = [files[1], "-f", fmt, "-o", "s3://outputs/out", "--overwrite", *more]
    for attempt in range(4):
        cut.last = None
        client.delete_object(Bucket="outputs", Key=".virtualize-out.lock")
        if attempt == 0:
            run = virtualize(files[0], *arguments[1:], env=env)
            assert run.status == 0, run.stderr
        cut.writes, cut.is_done = 0, rng.random() < 0.5
        process = subprocess.Popen([clients.BINARY, *map(str, arguments)], env={**os.environ, **env}, stderr=subprocess.DEVNULL)
        cut.process, cut.last = process, rng.randint(1, 16)
        process.wait()
        found = read(download(client, tmp_path / f"{attempt}"), fmt)
        assert any(same(found, each) for each in expected), (attempt, cut.last, {k: v.shape for k, v in found.items()})
        assert client.get_object(Bucket="outputs", Key="outside")["Body"].read() == b"mine"
    cut.last = None
    client.delete_object(Bucket="outputs", Key=".virtualize-out.lock")
    run = virtualize(*arguments, env=env)
    assert run.status == 0, run.stderr
    assert same(read(download(client, tmp_path / "last"), fmt), expected[1])
    fresh = tree(output(files[1], tmp_path / "fresh", fmt, *more))
    assert set(objects(client)) == {"outside"} | {f"out/{key}" for key, content in fresh.items() if content is not None}


def test_other_files_are_never_replaced(tmp_path):
    """Logs, reports and references replace JSON only: a typing error must not cost a source file."""
    files = [write(tmp_path / f"f{k}.h5", 4, k) for k in range(2)]
    before = [file.read_bytes() for file in files]
    pattern, out = tmp_path / "f*.h5", tmp_path / "o.json"
    (tmp_path / "list.txt").write_text("\n".join(map(str, files)))
    for arguments in [("batch", pattern, "--each", "-o", tmp_path / "each", "--json-log", files[1]), ("scan", pattern, "-o", files[1]),
                      (files[0], "-o", files[1]), ("batch", "--list", tmp_path / "list.txt", "--each", "-o", tmp_path / "each", "--json-log", tmp_path / "list.txt")]:
        run = virtualize(*arguments)
        assert run.status == 1 and "something other than JSON" in run.stderr, run.stderr
    assert [file.read_bytes() for file in files] == before
    for option in ("--journal", "--json-log"):
        run = virtualize("batch", files[0], "--concat-dim", "time", "-o", out, option, out)
        assert run.status == 2 and "cannot be the output" in run.stderr, run.stderr
    assert not out.exists()


def test_a_folder_that_contains_its_output(tmp_path):
    """The journal, the lock and the output are not inputs of the next run."""
    for arguments in [("--concat-dim", "time", "-o", "o.json"), ("--each", "-o", "each/")]:
        folder = tmp_path / arguments[-1][0]
        folder.mkdir()
        write(folder / "f0.h5", 4, 0)
        for k in range(2):
            run = virtualize("batch", folder, *arguments[:-1], f"{folder}/{arguments[-1]}")
            assert run.status == 0 and "1 files" in run.stderr, run.stderr
