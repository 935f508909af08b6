"""Commits to Icechunk repositories, opened with icechunk-python by the printed snippet."""
import http.client, http.server, os, shutil, socket, threading, warnings
from urllib.parse import urlsplit

import clients
import h5py
import numpy as np
import pytest
from clients import nodes, same_bits, virtualize

# A repository stores the metadata of zarr3-json: some of the files that differ in type, codec or fill value are enough.
ALIKE = ("type_", "predictor_", "compression_", "nodata_", "fill_message_")
KEPT = {"type_c8", "predictor_2_be_u2_zlib", "compression_lzw", "nodata_f4", "nodata_invalid_u1", "fill_message_3", "fill_message_old"}
FILES = sorted(p for kind in ("hdf5", "netcdf3", "tiff") for p in (clients.FIXTURES / kind).iterdir()
               if p.suffix in (".h5", ".nc", ".tif") and (not p.name.startswith(ALIKE) or p.stem in KEPT))
REGION = "eu-central-1"


def commit(file, repository, *arguments, status=0, env=None):
    run = virtualize(file, "--format", "icechunk", "-o", repository, *arguments, env=env)
    assert run.status == status, run.stderr
    return run


def lines(run):
    """Returns the variables that the printed snippet defines."""
    scope = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(run.stdout, scope)
    return scope


def opened(run):
    """Opens the session's store without a dataset (not every fixture is one)."""
    scope = {}
    exec(run.stdout.decode().rsplit("\n", 2)[0], scope)
    return scope["session"].store, scope["repository"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Writes three files that are consecutive in time."""
    folder = tmp_path_factory.mktemp("files")

    def write(name, start):
        values = (np.arange(12).reshape(4, 3) + start * 100).astype("i2")
        with h5py.File(folder / name, "w") as f:
            f["time"] = np.arange(start, start + 4, dtype="i4")
            f["time"].attrs["units"] = "days since 2000-01-01"
            f["time"].make_scale("time")
            f["lat"] = np.asarray([10.0, 20.0, 30.0])
            f["lat"].make_scale("lat")
            t = f.create_dataset("t", data=values, chunks=(2, 3), compression="gzip")
            t.attrs["units"], t.attrs["scale_factor"] = "K", 0.1
            for axis, dim in enumerate(("time", "lat")):
                t.dims[axis].attach_scale(f[dim])
            f.create_dataset("static", data=np.arange(3.0), chunks=(3,)).dims[0].attach_scale(f["lat"])
        return folder / name

    return {name: write(f"{name}.nc", 4 * k) for k, name in enumerate("abc")}


@pytest.mark.parametrize("file", FILES, ids=lambda p: p.name)
def test_every_fixture_is_as_through_references(file, tmp_path):
    """Metadata, attributes and values equal those of zarr3-json, which other tests compare with the original."""
    import zarr
    run = virtualize(file, "--format", "zarr3-json")
    if run.status:
        assert virtualize(file, "--format", "icechunk", "-o", tmp_path / "repo").status == run.status
        assert not (tmp_path / "repo").exists()
        return
    store, _ = opened(commit(file, tmp_path / "repo"))
    references = clients.open_store(run.references)
    found = nodes(run.references, 3)
    assert found
    for path, kind in found.items():
        if kind == "group":
            assert dict(zarr.open_group(store, path=path, mode="r").attrs) == dict(zarr.open_group(references, path=path, mode="r").attrs)
            continue
        one, other = (zarr.open_array(s, path=path, mode="r") for s in (store, references))
        assert one.metadata.to_dict() == other.metadata.to_dict()
        try:
            values = other[...]
        except Exception:  # not every codec of every fixture is available; test_hdf5.py and test_tiff.py cover them
            continue
        assert same_bits(values, one[...]) is None, path


def test_the_printed_lines_open_the_dataset(files, tmp_path):
    import xarray as xr
    dataset = lines(commit(files["a"], tmp_path / "repo"))["dataset"]
    with xr.open_dataset(files["a"], engine="h5netcdf") as original:
        xr.testing.assert_identical(dataset.load(), original.load())


def test_a_file_that_changed_is_refused(files, tmp_path):
    import zarr
    file = tmp_path / "data" / "a.nc"
    file.parent.mkdir()
    shutil.copy(files["a"], file)
    os.utime(file, (1e9, 1e9))
    store, _ = opened(commit(file, tmp_path / "repo"))
    array = zarr.open_array(store, path="t", mode="r")
    assert array[0, 1] == 1
    os.utime(file, (1e9 + 5, 1e9 + 5))
    with pytest.raises(Exception, match="changed|checksum|Precondition|precondition"):
        array[...]


def test_nothing_is_overwritten_without_the_option(files, tmp_path):
    import zarr
    commit(files["a"], tmp_path / "repo")
    run = commit(files["b"], tmp_path / "repo", status=1)
    assert "already exists in the repository" in run.stderr and "--replace-group" in run.stderr
    store, repository = opened(commit(files["b"], tmp_path / "repo", "--replace-group", "--message", "newer", "--option", "author=me",
                                      "--option", "commit-property=campaign=7"))
    assert zarr.open_array(store, path="time", mode="r")[0] == 4
    newest, *older = repository.ancestry(branch="main")
    # Newer versions of icechunk add statistics of their own.
    properties = {name: value for name, value in newest.metadata.items() if name != "__icechunk"}
    assert (newest.message, properties) == ("newer", {"author": "me", "campaign": "7"})
    assert [snapshot.message for snapshot in older][0].startswith("virtual references of ")


def test_groups_can_be_siblings(files, tmp_path):
    import xarray as xr
    commit(files["a"], tmp_path / "repo", "--group", "x/y")
    scope = lines(commit(files["b"], tmp_path / "repo", "--group", "x/z"))
    assert scope["dataset"].time.size == 4
    tree = xr.open_datatree(scope["session"].store, engine="zarr", consolidated=False)
    assert set(tree["x"].children) == {"y", "z"}
    assert int(tree["x/z"]["t"].values[0, 1] / 0.1 + 0.5) == 401


def test_a_branch_must_exist_and_others_stay(files, tmp_path):
    _, repository = opened(commit(files["a"], tmp_path / "repo"))
    run = commit(files["b"], tmp_path / "repo", "--branch", "dev", status=1)
    assert 'branch "dev" does not exist; existing branches: main' in run.stderr
    repository.create_branch("dev", repository.lookup_branch("main"))
    main = repository.lookup_branch("main")
    commit(files["b"], tmp_path / "repo", "--branch", "dev", "--replace-group")
    assert repository.lookup_branch("main") == main
    assert repository.lookup_branch("dev") != main


def test_a_folder_that_holds_something_else_is_refused(files, tmp_path):
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "thesis.txt").write_text("mine")
    commit(files["a"], tmp_path / "repo", status=1)
    assert os.listdir(tmp_path / "repo") == ["thesis.txt"]


# ---- S3

@pytest.fixture(scope="module")
def s3(files):
    """Yields (endpoint, environment) of a server on loopback with the files in a bucket."""
    import boto3
    from moto.server import ThreadedMotoServer
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    client = boto3.client("s3", endpoint_url=endpoint, aws_access_key_id="k", aws_secret_access_key="s", region_name=REGION)
    for bucket in ("data", "repos"):
        client.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
    for name in "abc":
        client.upload_file(str(files[name]), "data", f"in/{name}.nc")
    environment = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": REGION, "AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": "true"}
    yield client, environment
    server.stop()


@pytest.fixture
def environment(s3, monkeypatch):
    for key, value in s3[1].items():
        monkeypatch.setenv(key, value)
    return s3[1]


def test_s3_to_s3(files, s3, environment):
    import xarray as xr
    commit("s3://data/in/a.nc", "s3://repos/one", env=environment)
    dataset = lines(commit("s3://data/in/b.nc", "s3://repos/one", "--group", "b", env=environment))["dataset"]
    assert dataset.t.values.shape == (4, 3)
    s3[0].put_object(Bucket="data", Key="in/b.nc", Body=files["c"].read_bytes())
    try:
        store = lines(commit("s3://data/in/c.nc", "s3://repos/one", "--group", "c", env=environment))["session"].store
        with pytest.raises(Exception, match="changed|checksum|Precondition|precondition|modified"):
            xr.open_zarr(store, group="b", consolidated=False).t.values
    finally:
        s3[0].upload_file(str(files["b"]), "data", "in/b.nc")


def test_two_commits_at_once(s3, environment):
    """Commits are atomic: those to different groups all succeed; of those to the same group, exactly one does."""
    commit("s3://data/in/a.nc", "s3://repos/race", "--group", "first", env=environment)

    def race(groups):
        runs = [None] * len(groups)

        def one(n):
            runs[n] = virtualize("s3://data/in/b.nc", "--format", "icechunk", "-o", "s3://repos/race", "--group", groups[n], env=environment)
        threads = [threading.Thread(target=one, args=(n,)) for n in range(len(groups))]
        [t.start() for t in threads]
        [t.join() for t in threads]
        return runs

    runs = race(["g1", "g2", "g3", "g4"])
    assert [run.status for run in runs] == [0] * 4, [run.stderr for run in runs]
    runs = race(["same"] * 4)
    assert sorted(run.status for run in runs) == [0, 1, 1, 1], [run.stderr for run in runs]
    assert all("already" in run.stderr or "has moved" in run.stderr for run in runs if run.status)
    store, _ = opened(next(run for run in runs if run.status == 0))
    import zarr
    root = zarr.open_group(store, mode="r")
    assert {name for name, _ in root.groups()} == {"first", "g1", "g2", "g3", "g4", "same"}
    assert np.array_equal(root["same/time"][...], [4, 5, 6, 7])


class Losing(http.server.ThreadingHTTPServer):
    """A proxy that loses the response to one conditional write, after the store has done it."""
    daemon_threads = True

    def __init__(self, endpoint):
        super().__init__(("127.0.0.1", 0), Forward)
        self.store, self.lost, self.writes = urlsplit(endpoint).netloc, None, 0
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Forward(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
        body = self.rfile.read(int(headers.get("content-length", 0)))
        store = http.client.HTTPConnection(self.server.store)
        store.request(self.command, self.path, body, headers)
        answer = store.getresponse()
        body = answer.read()
        if "if-match" in self.headers or self.headers.get("if-none-match") == "*":
            self.server.writes += 1
            if self.server.writes == self.server.lost:
                self.close_connection = True
                return self.connection.shutdown(socket.SHUT_RDWR)
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                self.send_header(name, value)
        self.send_header("content-length", answer.getheader("content-length") if self.command == "HEAD" else str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_DELETE = do_HEAD = do_POST = do_PUT = do_GET


@pytest.mark.parametrize("how", [[], ["--replace-group"], ["--group", "other"]], ids=lambda how: "".join(how[:1]))
def test_a_lost_response_does_not_commit_twice(s3, environment, how):
    """The write is tried again, and finds that it is done."""
    import icechunk
    proxy = Losing(environment["AWS_ENDPOINT_URL"])
    through = environment | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.server_port}"}
    name = f"lost{''.join(how[:1])}"
    storage = icechunk.s3_storage(bucket="repos", prefix=name, endpoint_url=environment["AWS_ENDPOINT_URL"], allow_http=True, region=REGION,
                                  force_path_style=True, from_env=True)
    messages = ["Repository initialized"]
    if how:
        commit("s3://data/in/a.nc", f"s3://repos/{name}", "--message", "first", env=environment)
        messages.insert(0, "first")
    lost = 0
    while proxy.writes >= lost:
        lost += 1
        proxy.lost, proxy.writes = lost, 0
        tip = icechunk.Repository.open(storage).lookup_branch("main") if how else None
        commit("s3://data/in/b.nc", f"s3://repos/{name}", "--message", "second", *how, env=through)
        assert [one.message for one in icechunk.Repository.open(storage).ancestry(branch="main")] == ["second", *messages], lost
        if how:
            icechunk.Repository.open(storage).reset_branch("main", tip)
        else:
            for one in s3[0].list_objects_v2(Bucket="repos", Prefix=f"{name}/")["Contents"]:
                s3[0].delete_object(Bucket="repos", Key=one["Key"])
    assert lost > 1
    proxy.shutdown()
    proxy.server_close()


def test_a_group_is_replaced_while_others_commit(s3, environment):
    """In the end, the replaced group and the groups of other writers are complete."""
    import zarr
    commit("s3://data/in/a.nc", "s3://repos/busy", "--group", "kept", env=environment)
    wanted = [("b", "kept", "--replace-group"), ("a", "n1"), ("c", "n2"), ("b", "n3/deep")]
    runs = [None] * len(wanted)

    def one(n):
        file, group, *more = wanted[n]
        runs[n] = virtualize(f"s3://data/in/{file}.nc", "--format", "icechunk", "-o", "s3://repos/busy", "--group", group, *more, env=environment)
    threads = [threading.Thread(target=one, args=(n,)) for n in range(len(wanted))]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert [run.status for run in runs] == [0] * 4, [run.stderr for run in runs]
    root = zarr.open_group(opened(runs[0])[0], mode="r")
    first = {"a": 0, "b": 4, "c": 8}
    for file, group, *_ in wanted:
        assert root[f"{group}/time"][0] == first[file], group
