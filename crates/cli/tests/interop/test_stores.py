"""S3 and HTTP with real servers on loopback that check credentials. fsspec reads the references through the same servers."""
import http.server, pathlib, threading, urllib.request

import clients
import numpy as np
import pytest
from clients import FORMATS, either_format  # noqa: F401

FILES = {"chunked.h5": ("hdf5/chunked.h5", "temperature"), "cog.tif": ("tiff/cog.tif", "band_data")}
TOKEN = "a-secret-token"
REGION = "eu-central-1"


def truth(name):
    path = clients.FIXTURES / FILES[name][0]
    if path.suffix == ".h5":
        import h5py
        with h5py.File(path) as f:
            return f[FILES[name][1]][()]
    import tifffile
    return tifffile.imread(path, key=0)


def check(references, fmt, name, url, **remote):
    """Checks that the references contain the url, and that zarr-python reads the file's values through them."""
    import zarr
    named = {v[0] for v in references["refs"].values() if isinstance(v, list)}
    assert named == {url}
    store = clients.open_store(references, **remote)
    array = zarr.open_array(store, path=FILES[name][1], mode="r", zarr_format=FORMATS[fmt])
    assert np.array_equal(np.squeeze(array[...]), truth(name))


# ---- S3: moto; signatures are checked for the private bucket

class Gate:
    """A proxy in front of moto: counts requests, rejects unsigned ones to the private bucket and signed ones to the public one."""

    def __init__(self, app):
        self.app, self.log, self.open = app, [], True

    def __call__(self, environ, start_response):
        key = environ.get("HTTP_AUTHORIZATION", "")
        self.log.append((environ["REQUEST_METHOD"], environ["PATH_INFO"], bool(key)))
        private = environ["PATH_INFO"].startswith("/private")
        if not self.open and (private and not self.signed(key) or not private and key):
            start_response("403 Forbidden", [("Content-Type", "application/xml")])
            return [b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"]
        return self.app(environ, start_response)

    @staticmethod
    def signed(authorization):
        return authorization.startswith("AWS4-HMAC-SHA256 Credential=the-key/") and f"/{REGION}/s3/aws4_request" in authorization


@pytest.fixture(scope="module")
def s3():
    """Yields (endpoint, proxy) of a server that is stopped at the end."""
    import boto3
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server
    gate = Gate(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, gate, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    # All servers of a process share their buckets.
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/moto-api/reset", method="POST")).close()
    client = boto3.client("s3", endpoint_url=endpoint, aws_access_key_id="the-key", aws_secret_access_key="the-secret", region_name=REGION)
    for bucket in ("private", "public"):
        client.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
        for name, (path, _) in FILES.items():
            client.upload_file(str(clients.FIXTURES / path), bucket, f"a folder/{name}" if bucket == "private" else name,
                               ExtraArgs={"ACL": "public-read" if bucket == "public" else "private"})
    gate.open = False
    yield endpoint, gate
    server.shutdown()
    thread.join(10)


CREDENTIALS = {"AWS_ACCESS_KEY_ID": "the-key", "AWS_SECRET_ACCESS_KEY": "the-secret", "AWS_REGION": REGION, "AWS_ALLOW_HTTP": "true"}


@pytest.mark.parametrize("name", FILES)
def test_s3_with_credentials(s3, name, fmt):
    endpoint, gate = s3
    url = f"s3://private/a folder/{name}"
    run = clients.virtualize(url, "--format", fmt, env={**CREDENTIALS, "AWS_ENDPOINT_URL": endpoint})
    assert run.status == 0, run.stderr
    check(run.references, fmt, name, url, protocol="s3", key="the-key", secret="the-secret",
          client_kwargs={"endpoint_url": endpoint, "region_name": REGION})


@pytest.mark.parametrize("name", FILES)
def test_s3_anonymous(s3, name, fmt):
    endpoint, gate = s3
    url = f"s3://public/{name}"
    run = clients.virtualize(url, "--format", fmt, "--anonymous", "--endpoint", endpoint, "--store-option", f"aws_region={REGION}",
                             "--store-option", "aws_allow_http=true")
    assert run.status == 0, run.stderr
    check(run.references, fmt, name, url, protocol="s3", anon=True, client_kwargs={"endpoint_url": endpoint, "region_name": REGION})


def test_s3_refusals_are_one_line_and_no_output(s3, tmp_path):
    endpoint, _ = s3
    out = tmp_path / "out.json"
    wrong = {**CREDENTIALS, "AWS_ACCESS_KEY_ID": "another-key", "AWS_ENDPOINT_URL": endpoint}
    for url, env in [("s3://private/a folder/cog.tif", wrong), ("s3://public/nothing.tif", {**wrong, "AWS_SKIP_SIGNATURE": "true"}),
                     ("s3://nowhere/nothing.tif", {**wrong, "AWS_SKIP_SIGNATURE": "true"})]:
        run = clients.virtualize(url, "-o", out, "--option", "retries=0", env=env)
        assert run.status == 1, (url, run)
        assert len(run.stderr.splitlines()) == 1 and run.stderr.startswith("error: ") and url in run.stderr, run.stderr
        assert "secret" not in run.stderr
        assert list(tmp_path.iterdir()) == []


def test_a_small_file_takes_few_requests(s3):
    endpoint, gate = s3
    before = len(gate.log)
    run = clients.virtualize("s3://public/cog.tif", "--anonymous", "--endpoint", endpoint, "--stats", "--store-option", f"aws_region={REGION}",
                             "--store-option", "aws_allow_http=true")
    assert run.status == 0 and "requests" in run.stderr, run.stderr
    assert len(gate.log) - before <= 3, gate.log[before:]


# ---- HTTP: ranges, bearer tokens, transient errors

class Handler(http.server.BaseHTTPRequestHandler):
    """GET and HEAD of fixtures with byte ranges; /private requires the token, /whole ignores ranges, /flaky fails at first."""

    protocol_version = "HTTP/1.1"
    failures = {}

    def log_message(self, *args):
        pass

    def do_HEAD(self):
        self.answer(body=False)

    def do_GET(self):
        self.answer(body=True)

    def answer(self, body):
        self.server.log.append((self.command, self.path, self.headers.get("Range"), self.headers.get("Authorization")))
        area, _, name = self.path.lstrip("/").partition("/")
        path = clients.FIXTURES / name.split("?")[0]
        if area == "private" and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self.reply(401, b"", body)
        if area == "flaky" and self.failures.setdefault(self.path, 0) < 2:
            self.failures[self.path] += 1
            return self.reply(503, b"", body)
        if not path.is_file():
            return self.reply(404, b"", body)
        data = path.read_bytes()
        if self.headers.get("If-Match", "*") not in ("*", '"1"'):
            return self.reply(412, b"", body)
        span = self.headers.get("Range")
        if span and area != "whole":
            first, _, last = span.removeprefix("bytes=").partition("-")
            start = int(first) if first else max(0, len(data) - int(last))
            end = min(len(data), int(last) + 1) if first and last else len(data)
            if start >= len(data):
                return self.reply(416, b"", body, {"Content-Range": f"bytes */{len(data)}"})
            return self.reply(206, data[start:end], body, {"Content-Range": f"bytes {start}-{end - 1}/{len(data)}", "Accept-Ranges": "bytes"})
        return self.reply(200, data, body, {} if area == "whole" else {"Accept-Ranges": "bytes"})

    def reply(self, status, data, body, headers=()):
        self.send_response(status)
        for key, value in {**dict(headers), "Content-Length": str(len(data)), "ETag": '"1"'}.items():
            self.send_header(key, value)
        self.end_headers()
        if body:
            self.wfile.write(data)


@pytest.fixture(scope="module")
def web():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads, server.log = True, []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", server
    server.shutdown()
    thread.join(10)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("area", ["open", "flaky"])
def test_http(web, name, fmt, area):
    url = f"{web[0]}/{area}/{FILES[name][0]}"
    Handler.failures.clear()
    run = clients.virtualize(url, "--format", fmt)
    assert run.status == 0, run.stderr
    Handler.failures.update({f"/{area}/{FILES[name][0]}": 9})
    check(run.references, fmt, name, url, protocol="http")


@pytest.mark.parametrize("name", FILES)
def test_http_with_a_bearer_token(web, name, fmt):
    url = f"{web[0]}/private/{FILES[name][0]}"
    refused = clients.virtualize(url, "--format", fmt)
    assert refused.status == 1 and refused.stdout == b"" and len(refused.stderr.splitlines()) == 1
    run = clients.virtualize(url, "--format", fmt, "--store-option", "allow_http=true", env={"VIRTUALIZE_BEARER_TOKEN": TOKEN})
    assert run.status == 0, run.stderr
    assert TOKEN.encode() not in run.stdout and TOKEN not in run.stderr
    check(run.references, fmt, name, url, protocol="http", headers={"Authorization": f"Bearer {TOKEN}"})


def test_http_server_without_ranges(web, fmt):
    url = f"{web[0]}/whole/{FILES['cog.tif'][0]}"
    run = clients.virtualize(url, "--format", fmt)
    assert run.status in (0, 1)
    if run.status == 1:
        assert len(run.stderr.splitlines()) == 1, run.stderr


def test_http_not_found(web, tmp_path):
    run = clients.virtualize(f"{web[0]}/open/nothing.h5", "-o", tmp_path / "out.json")
    assert run.status == 1 and len(run.stderr.splitlines()) == 1 and "nothing.h5" in run.stderr
    assert list(tmp_path.iterdir()) == []


# ---- local files and output files

def test_output_is_the_same_each_time_and_written_whole(tmp_path, fmt):
    path = clients.FIXTURES / "tiff/cog.tif"
    outs = [tmp_path / "1.json", tmp_path / "2.json"]
    for out in outs:
        run = clients.virtualize(path, "--format", fmt, "-o", out)
        assert run.status == 0 and run.stdout == b"", run.stderr
    assert outs[0].read_bytes() == outs[1].read_bytes()
    assert sorted(tmp_path.iterdir()) == outs


def test_a_file_url_names_the_same_file(fmt):
    path = clients.FIXTURES / "tiff/tiles.tif"
    a, b = (clients.virtualize(p, "--format", fmt) for p in (path, path.as_uri()))
    assert a.status == b.status == 0 and a.stdout == b.stdout


@pytest.mark.parametrize("content", [b"", b"hello", b"\x89HDF\r\n\x1a\n", b"II*\0", b"II*\0\x08\0\0\0", b"\x89HDF\r\n\x1a\n" + bytes(200)])
def test_what_is_neither_is_refused_in_one_line(tmp_path, content):
    path = tmp_path / "file.bin"
    path.write_bytes(content)
    out = tmp_path / "out" / "x.json"
    out.parent.mkdir()
    run = clients.virtualize(path, "-o", out)
    assert run.status == 1 and len(run.stderr.splitlines()) == 1 and str(path) in run.stderr, run.stderr
    assert list(out.parent.iterdir()) == []


@pytest.mark.parametrize("source", ["hdf5/layouts.h5", "hdf5/netcdf4.nc", "tiff/cog.tif"])
def test_a_truncated_file_is_refused_or_read_whole(tmp_path, source, fmt):
    """A file truncated anywhere causes an error and no output, or warnings; never a panic (exit status 101) or a hang."""
    data = (clients.FIXTURES / source).read_bytes()
    for share in (0.05, 0.3, 0.5, 0.8, 0.95):
        path = tmp_path / f"cut_{share}{pathlib.Path(source).suffix}"
        path.write_bytes(data[: int(len(data) * share)])
        run = clients.virtualize(path, "--format", fmt, timeout=30)
        assert run.status in (0, 1), run.stderr
        assert run.status == 0 or run.stdout == b""


def test_usage_errors_are_status_2():
    assert clients.virtualize("--no-such-option").status == 2
    assert clients.virtualize(clients.FIXTURES / "tiff/cog.tif", "--format", "nonsense").status == 2
    assert clients.virtualize("gopher://host/file.h5").status in (1, 2)
