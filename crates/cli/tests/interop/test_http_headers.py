"""The table of response headers in docs/how-to/credentials-and-stores.md: headers that it calls ignored change nothing."""
import http.server, re, threading

import clients

DATA = (clients.FIXTURES / "tiff/classic_strips.tif").read_bytes()
VALUES = {"Accept-Ranges": "none", "Content-Type": "text/html", "Content-Disposition": 'attachment; filename="b.nc"', "Content-Location": "/other.tif", "Age": "99999",
          "Cache-Control": "no-store", "Vary": "*", "Expires": "0", "Link": "</other.tif>; rel=canonical", "Digest": "sha-256=x"}


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves ranges of a file with one more header."""

    protocol_version = "HTTP/1.1"
    more = {}

    def log_message(self, *_):
        pass

    def do_GET(self):
        first, last = re.match(r"bytes=(\d+)-(\d+)", self.headers["Range"]).groups()
        part = DATA[int(first):int(last) + 1]
        self.send_response(206)
        base = {"Content-Length": len(part), "Content-Range": f"bytes {first}-{int(first) + len(part) - 1}/{len(DATA)}", "ETag": '"a"', "Accept-Ranges": "bytes"}
        for name, value in {**base, **self.more}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(part)


def test_ignored_headers_change_nothing():
    text = (clients.ROOT / "docs/how-to/credentials-and-stores.md").read_text()
    ignored = [name for row in re.findall(r"^\| (`.*`) \| ignored, because", text, re.M) for name in re.findall("`(.*?)`", row)]
    assert len(ignored) > 10
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    found = {}
    for name in ["X-Other", *ignored]:
        Handler.more = {name: VALUES.get(name, "x")}
        run = clients.virtualize(f"http://127.0.0.1:{server.server_port}/a.tif")
        found[name] = run.status, run.stdout, run.stderr
    server.shutdown()
    assert found["X-Other"][0] == 0
    clients.report([f"{name}: {result}" for name, result in found.items() if result != found["X-Other"]])
