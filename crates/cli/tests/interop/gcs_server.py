"""A Google Cloud Storage emulator on loopback: the parts of its XML API (https://cloud.google.com/storage/docs/xml-api/overview) and of its JSON API
(https://cloud.google.com/storage/docs/json_api) that the binary and gcsfs use. Published emulators lack pagination, conditions and uploads of the XML
API, and do not check credentials.

Bucket `private` requires the bearer token, bucket `public` rejects any. Listings have PAGE keys per page."""
import base64, contextlib, email.utils, hashlib, http.server, json, re, threading, time, urllib.parse
from xml.sax.saxutils import escape

TOKEN = "a-token-of-google"
PAGE = 4


class Store:
    """Objects of all buckets in memory: {bucket: {key: (bytes, generation, seconds)}}."""

    def __init__(self):
        self.buckets, self.uploads, self.log, self.generation = {"private": {}, "public": {}}, {}, [], 1_700_000_000_000_000
        self.before = None

    def put(self, bucket, key, data):
        self.generation += 1
        self.buckets[bucket][key] = (bytes(data), self.generation, time.time())

    def page(self, bucket, prefix, delimiter, after):
        """Returns a page of keys with a prefix: (keys, common prefixes, start of the next page)."""
        keys, prefixes = [], []
        for key in sorted(self.buckets[bucket], key=lambda key: key.encode()):
            if not key.startswith(prefix):
                continue
            head, slash, _ = key[len(prefix):].partition(delimiter) if delimiter else ("", "", "")
            entry = prefix + head + slash if slash else key
            if after is not None and entry.encode() <= after.encode() or entry in prefixes:
                continue
            if len(keys) + len(prefixes) == PAGE:
                return keys, prefixes, max(keys + prefixes, key=str.encode)
            (prefixes if slash else keys).append(entry)
        return keys, prefixes, None


def etag(data):
    return hashlib.md5(data).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    @property
    def store(self):
        return self.server.store

    def handle_any(self):
        path, _, query = self.path.partition("?")
        self.query = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        length = int(self.headers.get("Content-Length") or 0)
        self.body = self.rfile.read(length)
        self.store.log.append((self.command, self.path, self.headers.get("Authorization")))
        json_api = re.fullmatch(r"/(?:download/)?storage/v1/b/([^/]+)(?:/o(?:/(.+))?)?", path)
        bucket, _, key = path[1:].partition("/") if not json_api else (json_api[1], "", json_api[2] or "")
        bucket, key = urllib.parse.unquote(bucket), urllib.parse.unquote(key)
        if refusal := self.refusal(bucket):
            return self.send(refusal[0], f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{refusal[1]}</Code><Message>{refusal[2]}</Message></Error>")
        if json_api:
            return self.json(bucket, key)
        if not key and self.command == "GET":
            return self.xml_listing(bucket)
        if self.store.before:
            self.store.before(self)
        return {"GET": self.read, "HEAD": self.read, "PUT": self.write, "POST": self.multipart, "DELETE": self.remove}[self.command](bucket, key)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any

    def refusal(self, bucket):
        given = self.headers.get("Authorization")
        if bucket not in self.store.buckets:
            return 404, "NoSuchBucket", "The specified bucket does not exist."
        if given is not None and given != f"Bearer {TOKEN}":
            return 401, "AuthenticationRequired", "Authentication required."
        if bucket == "private" and given is None:
            return 403, "AccessDenied", "Access denied."
        if bucket == "public" and given is not None:
            return 403, "AccessDenied", "This test wants no credentials here."

    def send(self, status, body=b"", headers=()):
        body = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        headers = {"Content-Length": str(len(body)), "Content-Type": "application/xml; charset=UTF-8", **dict(headers)}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def xml_listing(self, bucket):
        keys, prefixes, after = self.store.page(bucket, self.query.get("prefix", ""), self.query.get("delimiter"), self.query.get("continuation-token"))
        contents = "".join(f"<Contents><Key>{escape(key)}</Key><Generation>{generation}</Generation><LastModified>{rfc3339(seconds)}</LastModified>"
                           f"<ETag>\"{etag(data)}\"</ETag><Size>{len(data)}</Size></Contents>"
                           for key in keys for data, generation, seconds in [self.store.buckets[bucket][key]])
        common = "".join(f"<CommonPrefixes><Prefix>{escape(prefix)}</Prefix></CommonPrefixes>" for prefix in prefixes)
        more = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{escape(after)}</NextContinuationToken>" if after is not None else ""
        self.send(200, f"<?xml version='1.0' encoding='UTF-8'?><ListBucketResult xmlns='http://doc.s3.amazonaws.com/2006-03-01'>"
                       f"<Name>{bucket}</Name>{contents}{common}{more}</ListBucketResult>")

    def read(self, bucket, key):
        found = self.store.buckets[bucket].get(key)
        if found is None:
            return self.send(404, "<?xml version='1.0' encoding='UTF-8'?><Error><Code>NoSuchKey</Code><Message>The specified key does not exist.</Message></Error>")
        data, generation, seconds = found
        wanted = self.headers.get("If-Match")
        # Google's documentation does not say whether a tag without its quotation marks, as Icechunk sends it, is accepted.
        since = self.headers.get("If-Unmodified-Since")
        if since and email.utils.parsedate_to_datetime(since).timestamp() < int(seconds):
            wanted = "too old"
        if wanted and wanted not in ("*", f'"{etag(data)}"') or self.query.get("generation", str(generation)) != str(generation):
            return self.send(412, "<?xml version='1.0' encoding='UTF-8'?><Error><Code>PreconditionFailed</Code><Message>x</Message></Error>")
        headers = {"ETag": f'"{etag(data)}"', "x-goog-generation": str(generation), "Last-Modified": email.utils.formatdate(int(seconds), usegmt=True),
                   "Content-Type": "application/octet-stream", "Accept-Ranges": "bytes"}
        span = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not span:
            return self.send(200, data, headers)
        start, end = int(span[1]), min(int(span[2] or len(data)) + 1, len(data))
        if start >= len(data):
            return self.send(416, b"", {"Content-Range": f"bytes */{len(data)}"})
        self.send(206, data[start:end], {**headers, "Content-Range": f"bytes {start}-{end - 1}/{len(data)}"})

    def write(self, bucket, key):
        if "uploadId" in self.query:
            self.store.uploads[self.query["uploadId"]][int(self.query["partNumber"])] = self.body
            return self.send(200, b"", {"ETag": f'"{etag(self.body)}"'})
        if self.headers.get("x-goog-if-generation-match") == "0" and key in self.store.buckets[bucket]:
            return self.send(412)
        self.store.put(bucket, key, self.body)
        self.send(200, b"", {"ETag": f'"{etag(self.body)}"', "x-goog-generation": str(self.store.generation)})

    def multipart(self, bucket, key):
        if "uploads" in self.query:
            self.store.uploads[name := f"u{len(self.store.uploads)}"] = {}
            return self.send(200, f"<InitiateMultipartUploadResult><Bucket>{bucket}</Bucket><Key>{escape(key)}</Key><UploadId>{name}</UploadId></InitiateMultipartUploadResult>")
        parts = self.store.uploads.pop(self.query["uploadId"])
        self.store.put(bucket, key, b"".join(parts[number] for number in sorted(parts)))
        data, generation, _ = self.store.buckets[bucket][key]
        self.send(200, f"<CompleteMultipartUploadResult><ETag>\"{etag(data)}\"</ETag></CompleteMultipartUploadResult>", {"x-goog-generation": str(generation)})

    def remove(self, bucket, key):
        self.send(204 if self.store.buckets[bucket].pop(key, None) else 404)

    def json(self, bucket, key):
        def resource(key):
            data, generation, seconds = self.store.buckets[bucket][key]
            return {"kind": "storage#object", "name": key, "bucket": bucket, "size": str(len(data)), "generation": str(generation), "updated": rfc3339(seconds),
                    "timeCreated": rfc3339(seconds), "etag": etag(data), "md5Hash": base64.b64encode(hashlib.md5(data).digest()).decode()}
        kind = {"Content-Type": "application/json; charset=UTF-8"}
        if not key:
            keys, prefixes, after = self.store.page(bucket, self.query.get("prefix", ""), self.query.get("delimiter"), self.query.get("pageToken"))
            more = {"nextPageToken": after} if after is not None else {}
            return self.send(200, json.dumps({"kind": "storage#objects", "items": [resource(key) for key in keys], "prefixes": prefixes, **more}), kind)
        if key not in self.store.buckets[bucket]:
            return self.send(404, json.dumps({"error": {"code": 404, "message": "Not Found"}}), kind)
        if self.query.get("alt") == "media":
            return self.read(bucket, key)
        self.send(200, json.dumps(resource(key)), kind)


def rfc3339(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds * 1000) % 1000:03}Z"


@contextlib.contextmanager
def started():
    """Yields (url, store) of a server that is stopped at the end."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads, server.store = True, Store()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", server.store
    finally:
        server.shutdown()
        thread.join(10)
