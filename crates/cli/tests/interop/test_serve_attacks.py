"""Random attacks on the allowed prefixes of the service. ATTACKS=N sends N of each kind."""
import base64, contextlib, http.server, os, random, re, threading, urllib.error, urllib.parse, urllib.request

import h5py
import numpy as np
import pytest
import service

COUNT = int(os.environ.get("ATTACKS", 400))
STEPS = ["..", ".", "%2e%2e", "%2E.", ".%2e", "..;", "..;a=b", ".;x", "%2e%2e;", "..%3b", "%252e%252e", "%252e%252e%253b", "..%2f", "..%5c", "..%252f", "\\..\\", "..\\", ";", ";..",
         "", "%00", "．．", "%c0%ae%c0%ae", "..%00", ".. ", "...", "data", "data;v=1", "private", "a", "link", "redirect.h5", "open.h5", "secret.h5", "secret.h5;x", "open.h5%23", "#", "?", "?x=1"]
SECRET = "a_name_that_nobody_may_read"


def resolved(path):
    """Returns the path as the most lenient server may understand it."""
    for _ in range(3):
        path = urllib.parse.unquote(path, errors="replace")
    parts = []
    for part in path.replace("\\", "/").split("/"):
        part = part.split(";")[0]
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return parts


@contextlib.contextmanager
def web_server(files):
    """Yields the origin of a server with these files, some of which redirect, and the requested paths."""
    requested = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            requested.append(self.path)
            parts = resolved(self.path)
            if parts[-1:] == ["redirect.h5"]:
                self.send_response(302)
                self.send_header("Location", "/private/secret.h5")
                self.end_headers()
                return
            body = files.get("/".join(parts))
            first, last = 0, len(body or b"") - 1
            if wanted := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
                first, last = int(wanted[1]), min(last, int(wanted[2] or last))
            part = (body or b"")[first:last + 1]
            self.send_response(404 if body is None else 206 if wanted else 200)
            if wanted and body:
                self.send_header("Content-Range", f"bytes {first}-{last}/{len(body)}")
            self.send_header("ETag", '"1"')
            self.send_header("Content-Length", str(len(part)))
            self.end_headers()
            self.wfile.write(part)

        do_HEAD = do_GET

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://localhost:{server.server_address[1]}", requested
        finally:
            server.shutdown()


def ask(address, target):
    """Returns status and body of a request with a target as it is."""
    try:
        with urllib.request.urlopen(address + target, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


@pytest.fixture
def folders(tmp_path):
    """An allowed folder `data` and a folder `private` beside it."""
    for folder, name in [("data", "open"), ("private", "secret")]:
        (tmp_path / folder).mkdir()
        with h5py.File(tmp_path / folder / f"{name}.h5", "w") as file:
            file["temperature" if name == "open" else SECRET] = np.arange(4)
    (tmp_path / "data/link").symlink_to(tmp_path / "private")
    (tmp_path / "data/redirect.h5").symlink_to(tmp_path / "private/secret.h5")
    return tmp_path


def test_no_url_leads_out_of_the_allowed_folder(folders):
    chance = random.Random(COUNT)
    files = {f"{path.parent.name}/{path.name}": path.read_bytes() for path in [folders / "data/open.h5", folders / "private/secret.h5"]}
    with web_server(files) as (origin, requested), service.started(folders / "data", arguments=["--allow", f"{origin}/data/"]) as address:
        prefixes = [f"file://{folders}/data/", f"{origin}/data/"]
        for prefix in prefixes:
            status, body = ask(address, "/v1/references?url=" + urllib.parse.quote(f"{prefix}open.h5"))
            assert status == 200 and b"temperature" in body
        statuses = set()
        for _ in range(COUNT):
            url = chance.choice(prefixes) + "/".join(chance.choice(STEPS) for _ in range(chance.randrange(1, 5)))
            form = chance.choice(["/v1/references?url={0}", "/v1/inspect?url={0}", "/v1/folder?url={0}", "/v1/zarr/{0}", "/v1/zarr/{1}", "/v1/zarr/{1}~00/zarr.json", "/v1/values/{1}~00?array=x"])
            quoted = urllib.parse.quote(url, safe="")
            status, body = ask(address, form.format(quoted, base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")))
            statuses.add(status)
            # 502: the web server redirects.
            assert SECRET.encode() not in body and status in (200, 400, 403, 404, 409, 422, 502), (url, status, body[:300])
    assert {200, 400, 403, 404} <= statuses
    outside = [path for path in requested if resolved(path)[:1] != ["data"]]
    assert not outside, outside[:5]


def test_no_link_in_a_file_leads_out_of_the_allowed_folder(folders):
    chance = random.Random(3)
    with h5py.File(folders / "data/links.h5", "w") as file:
        for number in range(300):
            steps = [chance.choice([*STEPS[:16], "data", "private", "link"]) for _ in range(chance.randrange(4))]
            target = chance.choice(["", f"{folders}/", f"{folders}/data/", "file://"]) + "/".join([*steps, "secret.h5"])
            file[f"link{number}"] = h5py.ExternalLink(target.replace("\0", ""), "/")
        file["beside"] = h5py.ExternalLink("open.h5", "/temperature")
    with service.started(folders / "data") as address:
        status, body = ask(address, f"/v1/inspect?follow-external=true&url=file://{folders}/data/links.h5")
    assert status == 200 and b'"beside"' in body and SECRET.encode() not in body, body[:300]


def test_no_link_that_comes_and_goes_is_followed(folders):
    """While requests are in progress, the file, and the folder that contains it, are replaced by links to others and back."""
    data, done = folders / "data", threading.Event()
    (data / "folder").mkdir()
    for name in ("a.h5", "folder/b.h5"):
        (data / name).write_bytes((data / "open.h5").read_bytes())
    (folders / "private/b.h5").write_bytes((folders / "private/secret.h5").read_bytes())

    def swap():
        while not done.is_set():
            (data / ".aside").symlink_to(folders / "private/secret.h5")
            (data / ".aside").rename(data / "a.h5")
            (data / "folder").rename(data / ".folder")
            (data / "folder").symlink_to(folders / "private")
            os.link(data / "open.h5", data / ".aside")
            (data / ".aside").rename(data / "a.h5")
            (data / "folder").unlink()
            (data / ".folder").rename(data / "folder")

    chance, seen = random.Random(COUNT), set()
    with service.started(data) as address:
        swapper = threading.Thread(target=swap)
        swapper.start()
        try:
            for _ in range(COUNT):
                path = chance.choice(["/v1/inspect?url=file://{0}/a.h5", "/v1/references?url=file://{0}/folder/b.h5", "/v1/folder?url=file://{0}/folder/"]).format(data)
                status, body = ask(address, path)
                seen.add(status)
                assert SECRET.encode() not in body and b"secret.h5" not in body and status < 500, (path, status, body[:300])
        finally:
            done.set()
            swapper.join()
    assert {200, 403} <= seen <= {200, 403, 404, 409}, seen
