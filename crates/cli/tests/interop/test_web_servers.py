"""References to files on real servers, through the clients that read them: nginx, `python -m http.server`, S3 services that compare entity tags exactly,
and what servers do rarely. Values come from h5py."""
import itertools, json, os

import clients
import h5py
import numpy as np
import pytest
import zarr
from clients import FIXTURES, virtualize
from servers import nginx, path_of, python_server, ranged, scripted
from slow_s3 import SlowS3
from test_icechunk import opened

SAMPLE = FIXTURES / "hdf5/chunked.h5"
NAMES = ("temperature", "lat", "lon")
REFERENCES = {"kerchunk-json": "refs.json", "zarr3-json": "refs3.json", "zarr3": "refs.zarr", "kerchunk-parquet": "refs.parquet", "icechunk": "refs.icechunk"}
# 128 KiB are read when a file is opened: larger files take several requests.
LARGE = 400_000


def truth():
    with h5py.File(SAMPLE) as file:
        return {name: file[name][()] for name in NAMES}


def same(got):
    assert all(clients.same_bits(value, got(name)) is None for name, value in truth().items())


def through_fsspec(run, protocol="http", **remote):
    store = clients.open_store(run.references, protocol=protocol, **remote)
    same(lambda name: zarr.open_array(store, path=name, mode="r", zarr_format=2)[...])


def through_icechunk(run):
    store, _ = opened(run)
    same(lambda name: zarr.open_array(store, path=name, mode="r")[...])


def done(*arguments, status=0, **options):
    run = virtualize(*arguments, **options)
    assert run.status == status, run.stdout.decode("utf-8", "replace") + run.stderr
    return run


def large(path):
    """Writes a file whose metadata is spread over it."""
    rng = np.random.default_rng(1)
    with h5py.File(path, "w") as file:
        for n in range(8):
            group = file.create_group(f"g{n}")
            group.create_dataset("v", data=rng.integers(0, 1 << 30, LARGE // 8, dtype="i4"), chunks=(10_000,))
    return path


@pytest.fixture
def folder(tmp_path):
    files = tmp_path / "files"
    files.mkdir()
    (files / "a.h5").write_bytes(SAMPLE.read_bytes())
    return files


# ---- conditions of Icechunk's readers

def test_icechunk_through_nginx(folder, tmp_path):
    """nginx compares entity tags with their quotes, and Icechunk sends them without: the time is recorded."""
    with nginx(tmp_path, [f"root {folder};"]) as (url,):
        repository = tmp_path / "r.icechunk"
        run = done(f"{url}/a.h5", "-f", "icechunk", "-o", repository)
        assert "note" not in run.stderr
        through_icechunk(run)
        assert json.loads(done("validate", repository, "--full", "--json").stdout)["valid"]
        changed = bytearray(SAMPLE.read_bytes())
        changed[-1] ^= 1
        (folder / "a.h5").write_bytes(changed)
        os.utime(folder / "a.h5", (2_000_000_000, 2_000_000_000))
        assert b"it has changed" in done("validate", repository, status=1).stdout
        with pytest.raises(Exception, match="modified|checksum|changed"):
            through_icechunk(run)


@pytest.mark.parametrize("compare", ["exactly", "refusing"])
def test_icechunk_through_s3_services_that_want_quotes(compare, tmp_path, monkeypatch):
    with SlowS3({"a.h5": SAMPLE.read_bytes()}, tags=compare) as store:
        for name, value in store.env.items():
            monkeypatch.setenv(name, value)
        run = done("s3://bucket/a.h5", "-f", "icechunk", "-o", tmp_path / "r.icechunk", env=store.env)
        through_icechunk(run)
        assert json.loads(done("validate", tmp_path / "r.icechunk", "--full", "--json", env=store.env).stdout)["valid"]


def test_icechunk_records_the_entity_tag_where_readers_can_compare_it(tmp_path, monkeypatch):
    with SlowS3({"a.h5": SAMPLE.read_bytes()}, tags="loosely") as store:
        for name, value in store.env.items():
            monkeypatch.setenv(name, value)
        run = done("s3://bucket/a.h5", "-f", "icechunk", "-o", tmp_path / "r.icechunk", env=store.env)
        through_icechunk(run)
        # The time of the store's objects never changes, so only the tag shows this.
        store.objects["a.h5"] = SAMPLE.read_bytes()[:-1] + b"!"
        assert b"entity tag" in done("validate", tmp_path / "r.icechunk", env=store.env, status=1).stdout
        with pytest.raises(Exception):
            through_icechunk(run)


def test_icechunk_without_a_condition_that_readers_can_send(tmp_path):
    data = SAMPLE.read_bytes()
    with scripted(lambda request: ranged(request, data, {"ETag": '"strong"'})) as url:
        run = done(f"{url}/a.h5", "-f", "icechunk", "-o", tmp_path / "r.icechunk")
        assert "will not notice if it changes" in run.stderr
        through_icechunk(run)


def test_a_relocated_source_has_no_version(folder, tmp_path):
    """The time of a local file says nothing about its copy on a server."""
    os.utime(folder / "a.h5", (1_000_000_000, 1_000_000_000))
    run = None
    with nginx(tmp_path, [f"root {folder};"]) as (url,):
        run = done(folder / "a.h5", "-f", "icechunk", "-o", tmp_path / "r.icechunk", "--rewrite-url", f"{folder}={url}")
        os.utime(folder / "a.h5")
        through_icechunk(run)


# ---- servers that ignore ranges

@pytest.fixture(params=["python", "nginx"])
def whole(request, folder, tmp_path):
    """Yields the url of a server that sends files only as a whole."""
    if request.param == "python":
        with python_server(folder) as url:
            yield url
    else:
        with nginx(tmp_path, [f"root {folder}; max_ranges 0;"]) as (url,):
            yield url


@pytest.mark.parametrize("fmt", REFERENCES)
def test_no_references_to_a_server_without_ranges(whole, folder, tmp_path, fmt):
    url, out = f"{whole}/a.h5", tmp_path / REFERENCES[fmt]
    for command in ([url], ["batch", url, "--stack-dim", "n"]):
        run = done(*command, "-f", fmt, "-o", out, status=1)
        assert "[no-ranges]" in run.stderr and "--inline" in run.stderr and not out.exists(), run.stderr
    relocated = done(url, "-f", fmt, "-o", out, "--rewrite-url", f"{whole}={folder.as_uri()}")
    if fmt == "icechunk":
        through_icechunk(relocated)
    else:
        assert json.loads(done("validate", out, "--full", "--json").stdout)["valid"]


def test_a_file_on_a_server_without_ranges_is_inlined(whole):
    run = done(f"{whole}/a.h5", "--inline", "256M")
    assert not any(isinstance(value, list) for value in run.references["refs"].values())
    through_fsspec(run)
    assert b"temperature" in done("inspect", f"{whole}/a.h5").stdout


def test_validate_requests_a_range(whole, folder, tmp_path):
    out = tmp_path / "refs.json"
    done(folder / "a.h5", "-o", out, "--rewrite-url", f"{folder}={whole}")
    assert b"ignores range requests" in done("validate", out, "--full", status=1).stdout


# ---- ranges without Content-Length, or without the size of the file

@pytest.mark.parametrize("size, length", [(False, True), (True, False), (False, False)])
def test_incomplete_headers(size, length, tmp_path):
    """GDAL and fsspec read such files; the reader of Icechunk does not."""
    data = large(tmp_path / "a.h5").read_bytes()

    def answer(request):
        status, body, headers = ranged(request, data)
        if status == 206 and not size:
            headers["Content-Range"] = headers["Content-Range"].split("/")[0] + "/*"
        return status, body, headers if length or request.command == "HEAD" else headers | {"Content-Length": None}

    with scripted(answer) as url:
        run = done(f"{url}/a.h5")
        store = clients.open_store(run.references, protocol="http")
        with h5py.File(tmp_path / "a.h5") as file:
            assert np.array_equal(zarr.open_array(store, path="g7/v", mode="r", zarr_format=2)[...], file["g7/v"][()])
        (tmp_path / "refs.json").write_bytes(run.stdout)
        assert json.loads(done("validate", tmp_path / "refs.json", "--full", "--json").stdout)["valid"]
        refused = done(f"{url}/a.h5", "-f", "icechunk", "-o", tmp_path / "r.icechunk", status=1)
        assert "Icechunk needs" in refused.stderr, refused.stderr


# ---- mirrors

def test_mirrors_with_tags_of_their_own(tmp_path):
    roots = [tmp_path / "one", tmp_path / "two"]
    for n, root in enumerate(roots):
        root.mkdir()
        large(root / "a.h5")
        os.utime(root / "a.h5", (1_700_000_000 + n * 100,) * 2)
    assert roots[0].joinpath("a.h5").read_bytes() == roots[1].joinpath("a.h5").read_bytes()
    # The front takes the mirrors in turn.
    front = "location / { proxy_pass http://mirrors; } } upstream mirrors { server 127.0.0.1:{0}; server 127.0.0.1:{1};"
    with nginx(tmp_path, [*(f"root {root};" for root in roots), front]) as urls:
        run = done(f"{urls[2]}/a.h5")
        store = clients.open_store(run.references, protocol="http")
        with h5py.File(roots[0] / "a.h5") as file:
            for n in range(8):
                assert np.array_equal(zarr.open_array(store, path=f"g{n}/v", mode="r", zarr_format=2)[...], file[f"g{n}/v"][()])


@pytest.mark.parametrize("tags", [["a", "b"], ["a", "b", "c"], None])
def test_proxies_with_alternating_tags(tags, tmp_path):
    """With `None`, each response has another tag."""
    data = large(tmp_path / "a.h5").read_bytes()
    names = itertools.cycle(tags) if tags else map(str, itertools.count())
    modified = {"Last-Modified": "Wed, 01 Jan 2020 00:00:00 GMT"}
    with scripted(lambda request: ranged(request, data, {"ETag": f'"{next(names)}"'} | modified)) as url:
        run = done(f"{url}/a.h5")
        assert run.references["refs"].keys() == done(tmp_path / "a.h5").references["refs"].keys()


def test_a_file_that_changes_is_named_once(tmp_path):
    data = large(tmp_path / "a.h5").read_bytes()
    names = itertools.chain(["first"], itertools.repeat("second"))
    with scripted(lambda request: ranged(request, data, {"ETag": f'"{next(names)}"'})) as url:
        run = done(f"{url}/a.h5", status=1)
        assert "[source-changed]" in run.stderr and run.stderr.count(url) == 1, run.stderr
        assert "mirrors" in run.stderr


# ---- urls, pages, requester pays

def test_urls_that_end_in_a_slash(folder, tmp_path):
    """DANDI names files so, and redirects to a bucket."""
    (folder / "b.h5").write_bytes(SAMPLE.read_bytes())
    redirect = r"location ~ ^/assets/(.)/download/$ { return 302 /$1.h5; }"
    with nginx(tmp_path, [f"root {folder}; {redirect}"]) as (url,):
        urls = [f"{url}/assets/{name}/download/" for name in "ab"]
        (tmp_path / "list.txt").write_text("\n".join(urls))
        through_fsspec(done(urls[0]))
        for n, inputs in enumerate([urls, ["--list", tmp_path / "list.txt"]]):
            done("batch", *inputs, "--stack-dim", "file", "-o", tmp_path / f"{n}.json", "-q")
            assert json.loads(done("validate", tmp_path / f"{n}.json", "--full", "--json").stdout)["valid"]
        done("scan", *urls)
        done("batch", *urls, "--each", "-o", tmp_path / "each", "-q")
        assert sorted(str(path.relative_to(tmp_path / "each")) for path in (tmp_path / "each").rglob("*.json")) == ["a/download.json", "b/download.json"]
        folder_url = done("batch", f"{url}/", "--stack-dim", "file", "-o", tmp_path / "none.json", status=1)
        assert not (tmp_path / "none.json").exists(), folder_url.stderr


def test_a_page_is_not_a_failed_file(folder, tmp_path):
    """A login page with status 200 leaves files to a later run: `--on-failure skip` does not write without them."""
    for name in ("b.h5", "c.h5"):
        (folder / name).write_bytes(SAMPLE.read_bytes())
    # The session ends after the first file.
    session = {"files": {"a.h5"}, "ended": False}

    def answer(request):
        name = path_of(request).name
        session["ended"] |= name not in session["files"]
        if session["ended"]:
            return 200, b"<!doctype html><title>Sign in</title>", {"Content-Type": "text/html"}
        return ranged(request, (folder / name).read_bytes())

    with scripted(answer) as url:
        batch = ["batch", *(f"{url}/{name}.h5" for name in "abc"), "--stack-dim", "file", "-o", tmp_path / "out.json",
                 "--option", "attempts=1", "--option", "concurrency=1", "--on-failure"]
        run = virtualize(*batch, "skip")
        assert run.status != 0 and not (tmp_path / "out.json").exists(), run.stderr
        alone = done(f"{url}/b.h5", status=1)
        assert "HTML page" in alone.stderr and "[source-unavailable]" in alone.stderr
        session.update(files={"a.h5", "b.h5", "c.h5"}, ended=False)
        done(*batch, "retry")
        assert json.loads((tmp_path / "out.json").read_text())["refs"]["temperature/2.0.0"]


def test_requester_pays(tmp_path):
    with SlowS3({"a.h5": SAMPLE.read_bytes()}, requester_pays=True) as store:
        env = {**store.env, "AWS_SKIP_SIGNATURE": "false", "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
        refused = done("s3://bucket/a.h5", env=env, status=1)
        assert "--store-option aws_request_payer=true" in refused.stderr, refused.stderr
        run = done("s3://bucket/a.h5", "--store-option", "aws_request_payer=true", env=env)
        through_fsspec(run, protocol="s3", requester_pays=True, key="key", secret="secret",
                       client_kwargs={"endpoint_url": store.env["AWS_ENDPOINT_URL"], "region_name": "us-east-1"})
        committed = done("s3://bucket/a.h5", "-f", "icechunk", "-o", tmp_path / "r.icechunk", "--store-option", "aws_request_payer=true", env=env,
                         status=1)
        assert "requester-pays" in committed.stderr
        # The same with the setting for the bucket alone.
        (tmp_path / "options.toml").write_text('[store."s3://bucket/"]\nstore-option = { aws_request_payer = "true" }\n')
        assert done("s3://bucket/a.h5", "--config", tmp_path / "options.toml", env=env).stdout == run.stdout
        committed = done("s3://bucket/a.h5", "-f", "icechunk", "-o", tmp_path / "r.icechunk", "--config", tmp_path / "options.toml", env=env, status=1)
        assert "requester-pays" in committed.stderr
