"""An S3-like server on loopback with objects in memory. It can be slow, fail or change objects, and counts requests."""
import collections, email.utils, functools, hashlib, http.server, threading, time
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape


class SlowS3:
    """Objects of one bucket. `latency` is in seconds; `failing` is the number of requests per key that still fail with 503; `private` keys are denied.
    Entity tags of conditions are compared `exactly`, as Riak CS does, or `loosely`, with or without their quotes, as AWS and MinIO do; R2 is `refusing` those
    without quotes. With `requester_pays`, requests need the header for it.
    An `outage` is a status and a code: after `healthy` more requests for objects, the next `lasting` requests fail with it."""

    def __init__(self, objects, latency=0.0, tags="exactly", requester_pays=False):
        self.tags, self.requester_pays = tags, requester_pays
        self.objects, self.latency, self.failing = dict(objects), latency, collections.Counter()
        # Numbers of requests by key: for bytes, and for metadata.
        self.requested, self.looked = collections.Counter(), collections.Counter()
        self.private, self.outage, self.healthy, self.lasting, self.refused = set(), None, 0, 10**9, 0
        self.lock = threading.Lock()
        # Requests that are worked on now, and the most there ever were at once.
        self.current = self.peak = 0
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1

            def log_message(self, *_):
                pass

            def do_GET(self):
                owner.answer(self, with_body=True)

            def do_HEAD(self):
                owner.answer(self, with_body=False)

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

            def handle_error(self, *_):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    @property
    def env(self):
        return {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.server.server_port}", "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1",
                "AWS_SKIP_SIGNATURE": "true"}

    def answer(self, request, with_body):
        parts = urlsplit(request.path)
        key, query = unquote(parts.path).lstrip("/").partition("/")[2], parse_qs(parts.query)
        with self.lock:
            self.current += 1
            self.peak = max(self.peak, self.current)
        time.sleep(self.latency)
        with self.lock:
            self.current -= 1
        if "list-type" in query:
            self.requested["?list"] += 1
            return self.send(request, 200, self.listing(query).encode(), {"Content-Type": "application/xml"}, with_body)
        (self.requested if with_body else self.looked)[key] += 1
        if self.failing[key] > 0:
            self.failing[key] -= 1
            return self.send(request, 503, b"<Error><Code>SlowDown</Code></Error>", {}, with_body)
        if self.is_out():
            status, code = self.outage
            if status is None:
                request.close_connection = True
                return request.connection.close()
            return self.send(request, status, f"<Error><Code>{code}</Code></Error>".encode(), {}, with_body)
        if key in self.private or self.requester_pays and request.headers.get("x-amz-request-payer") != "requester":
            return self.send(request, 403, b"<Error><Code>AccessDenied</Code></Error>", {}, with_body)
        body = self.objects.get(key)
        if body is None:
            return self.send(request, 404, b"<Error><Code>NoSuchKey</Code></Error>", {}, with_body)
        tag = etag(body)
        head = {"ETag": tag, "Accept-Ranges": "bytes", "Last-Modified": "Wed, 01 Jan 2020 00:00:00 GMT"}
        wanted = request.headers.get("If-Match", tag)
        if self.tags == "refusing" and not wanted.startswith(('"', "*")):
            return self.send(request, 400, b"<Error><Code>InvalidArgument</Code></Error>", {}, with_body)
        if (wanted.strip('"') if self.tags == "loosely" else wanted) not in (tag.strip('"') if self.tags == "loosely" else tag, "*"):
            return self.send(request, 412, b"<Error><Code>PreconditionFailed</Code></Error>", {}, with_body)
        since = request.headers.get("If-Unmodified-Since")
        if since and email.utils.parsedate_to_datetime(since) < email.utils.parsedate_to_datetime(head["Last-Modified"]):
            return self.send(request, 412, b"<Error><Code>PreconditionFailed</Code></Error>", {}, with_body)
        wanted = request.headers.get("Range")
        if wanted:
            first, last = wanted.removeprefix("bytes=").split("-")
            start = int(first) if first else max(0, len(body) - int(last))
            end = min(len(body), int(last) + 1) if first and last else len(body)
            head["Content-Range"] = f"bytes {start}-{end - 1}/{len(body)}"
            return self.send(request, 206, body[start:end], head, with_body)
        self.send(request, 200, body, head, with_body)

    def is_out(self):
        with self.lock:
            if self.outage is None or self.lasting <= 0:
                return False
            self.healthy -= 1
            is_out = self.healthy < 0
            self.refused += is_out
            self.lasting -= is_out
            return is_out

    def listing(self, query):
        prefix, delimiter = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
        keys = sorted(k for k in self.objects if k.startswith(prefix))
        after = query.get("continuation-token", query.get("start-after", [""]))[0]
        deeper = {prefix + k[len(prefix):].split(delimiter)[0] + delimiter for k in keys if delimiter and delimiter in k[len(prefix):]}
        page = [k for k in keys if k > after and not (delimiter and delimiter in k[len(prefix):])]
        page, more = page[:1000], len(page) > 1000
        item = "<Contents><Key>{}</Key><LastModified>2020-01-01T00:00:00.000Z</LastModified><ETag>{}</ETag><Size>{}</Size></Contents>"
        items = "".join(item.format(escape(k), escape(etag(self.objects[k])), len(self.objects[k])) for k in page)
        folders = "".join(f"<CommonPrefixes><Prefix>{escape(p)}</Prefix></CommonPrefixes>" for p in sorted(deeper))
        token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
        return (f'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><Name>bucket</Name><Prefix>{escape(prefix)}</Prefix>'
                f"<KeyCount>{len(page)}</KeyCount><IsTruncated>{str(more).lower()}</IsTruncated>{token}{items}{folders}</ListBucketResult>")

    @staticmethod
    def send(request, status, body, headers, with_body):
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        if with_body:
            request.wfile.write(body)


# Digesting a large object again for every request would be all that a benchmark measures.
@functools.lru_cache(maxsize=64)
def etag(body):
    return f'"{hashlib.md5(body).hexdigest()}"'
