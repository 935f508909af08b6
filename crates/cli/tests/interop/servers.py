"""Real web servers on loopback, and a scripted one for what real ones do rarely."""
import contextlib, http.server, os, pathlib, re, shutil, subprocess, sys, threading, time, urllib.error, urllib.request

import pytest
from service import free_port


def wait_for(url):
    for _ in range(400):
        try:
            urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url).close()
        except urllib.error.HTTPError:
            pass
        except OSError:
            time.sleep(0.05)
            continue
        return
    raise AssertionError(f"{url} does not answer")


@contextlib.contextmanager
def process(command, url, **options):
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    try:
        wait_for(url)
        yield
    finally:
        server.terminate()
        server.wait(timeout=30)


@contextlib.contextmanager
def nginx(folder, servers):
    """Runs nginx with one server for each text of directives; yields their urls. `{0}`, `{1}` … are the ports."""
    if not (command := shutil.which("nginx") or shutil.which("/usr/sbin/nginx")):
        pytest.skip("nginx is not installed")
    ports = [free_port() for _ in servers]
    blocks = "".join(f"server {{ listen 127.0.0.1:{port}; {text} }}\n" for port, text in zip(ports, servers))
    for n, port in enumerate(ports):
        blocks = blocks.replace(f"{{{n}}}", str(port))
    temporary = "".join(f"{name}_temp_path {folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    user = "user root;" if os.getuid() == 0 else ""
    (folder / "nginx.conf").write_text(f"daemon off; {user} pid {folder}/nginx.pid; error_log {folder}/error.log; worker_processes 1;\n"
                                       f"events {{ worker_connections 256; }}\nhttp {{ access_log off; {temporary}\n{blocks}}}\n")
    with process([command, "-e", f"{folder}/error.log", "-c", f"{folder}/nginx.conf"], f"http://127.0.0.1:{ports[-1]}/"):
        yield [f"http://127.0.0.1:{port}" for port in ports]


@contextlib.contextmanager
def python_server(folder):
    """Runs `python -m http.server`, which ignores ranges."""
    port = free_port()
    with process([sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(port)], f"http://127.0.0.1:{port}/", cwd=folder):
        yield f"http://127.0.0.1:{port}"


def ranged(request, data, headers=()):
    """Answers as RFC 9110 says: strong entity tags are compared with their quotes."""
    headers = dict(headers)
    if request.headers.get("If-Match", "*") not in ("*", headers.get("ETag")):
        return 412, b"", {}
    found = re.fullmatch(r"bytes=(\d*)-(\d*)", request.headers.get("Range") or "")
    if not found:
        return 200, data, headers
    first = int(found[1]) if found[1] else max(0, len(data) - int(found[2]))
    last = min(int(found[2] or len(data)), len(data) - 1) if found[1] else len(data) - 1
    if first >= len(data):
        return 416, b"", {"Content-Range": f"bytes */{len(data)}"}
    return 206, data[first:last + 1], headers | {"Content-Range": f"bytes {first}-{last}/{len(data)}"}


@contextlib.contextmanager
def scripted(answer):
    """Yields the url of a server whose responses are `answer(request)`: status, body and headers. A body is chunked if they have no length."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_GET(self):
            status, body, headers = answer(self)
            headers = {"Content-Length": str(len(body))} | dict(headers)
            is_chunked = headers["Content-Length"] is None
            if is_chunked:
                headers = {name: value for name, value in headers.items() if value is not None} | {"Transfer-Encoding": "chunked"}
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if is_chunked and body else b"0\r\n\r\n" if is_chunked else body)

        do_HEAD = do_GET

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def path_of(request):
    return pathlib.PurePosixPath(request.path.split("?")[0])
