"""The clients of the run. Each response is compared with what its file contained while the request was in progress."""
import asyncio, base64, collections, json, random, re, time, urllib.parse

from sources import CHUNK, FORMATS, SHAPE, VERSIONS, decoded, digest, outline

# Refusals that a client may meet at any time.
BUSY = {503, 504}


class Record:
    """What the clients saw: responses by kind, latencies of this minute, and whatever is wrong."""

    def __init__(self, document):
        self.answers, self.latencies, self.wrong, self.checked, self.kinds = collections.Counter(), [], [], collections.Counter(), collections.Counter()
        self.documented = {(path, method): set(operation["responses"]) for path, item in document["paths"].items() for method, operation in item.items()}

    def fail(self, *what):
        self.wrong.append((time.strftime("%H:%M:%S"), *map(str, what)))
        self.kinds[" ".join(word for word in map(str, what) if len(word) < 30)] += 1
        if len(self.wrong) <= 50:
            print("WRONG", *self.wrong[-1], flush=True)

    def took(self, route, method, status, headers, body, seconds):
        """Counts a response. Its status and code must be documented."""
        code = ""
        if status >= 400 and headers.get("content-type", "").startswith("application/problem+json"):
            code = json.loads(body)["code"]
        if (status < 400 and str(status) not in self.documented[route, method]) or (status >= 400) != bool(code):
            self.fail("undocumented", route, status, code, body[:200])
        self.answers[f"{status} {code}".strip()] += 1
        self.latencies.append(seconds)
        return code


class Client:
    def __init__(self, port, token, sources, record, end, think):
        self.port, self.token, self.sources, self.record, self.end, self.think = port, token, sources, record, end, think
        self.reader = self.writer = None
        self.tags = {}

    async def run(self):
        actions = {self.one: 45, self.described: 10, self.versioned: 15, self.redirected: 12, self.simple: 5, self.refused: 5, self.rude: 3}
        await asyncio.sleep(random.random() * self.think * 2)
        while time.monotonic() < self.end:
            try:
                await random.choices(list(actions), list(actions.values()))[0]()
            except (OSError, asyncio.IncompleteReadError) as error:
                self.close()
                if time.monotonic() < self.end:
                    self.record.fail("broken connection", repr(error))
            await self.pause()
        self.close()

    async def pause(self):
        await asyncio.sleep(random.expovariate(1 / self.think))

    def close(self):
        if self.writer:
            self.writer.close()
        self.reader = self.writer = None

    async def connect(self):
        if not self.writer:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)

    async def ask(self, route, target, headers={}):
        """Sends a request. Returns when it was sent and received, the status, headers and body."""
        await self.connect()
        start = time.monotonic()
        more = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.writer.write(f"GET {target} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {self.token}\r\n{more}\r\n".encode())
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status, found = int(head[9:12]), {name.lower(): value for name, value in re.findall(r"\r\n([^:\r\n]+): *([^\r\n]*)", head)}
        content = await self.body(status, found)
        end = time.monotonic()
        self.record.took(route, "get", status, found, content, end - start)
        if found.get("connection") == "close":
            self.close()
        if status == 503:
            await asyncio.sleep(min(5, float(found.get("retry-after", 1))))
        return start, end, status, found, content

    async def body(self, status, headers):
        if status == 304:
            return b""
        if "content-length" in headers:
            return await self.reader.readexactly(int(headers["content-length"]))
        pieces = []
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            pieces.append(await self.reader.readexactly(size))
            await self.reader.readexactly(2)
        await self.reader.readexactly(2)
        return b"".join(pieces)

    def refusal(self, source, start, end, status, what):
        """Checks that a file was refused for a reason that it had in this time."""
        during = source.during(start, end)
        allowed = BUSY | ({502} if source.is_remote else set()) | ({404} if None in during else set()) | ({409} if len(source.overlapping(start, end)) > 1 else set())
        if status not in allowed:
            self.record.fail(what, source.url, status, "but the file", source.story(start, end))

    async def one(self):
        """References of a file, whose last entity tag may be sent along."""
        source, name = random.choice(self.sources), random.choice(FORMATS)
        last = self.tags.get((source.url, name)) if random.random() < 0.4 else None
        query = urllib.parse.urlencode({"url": source.url, "format": name})
        start, end, status, headers, body = await self.ask("/v1/references", f"/v1/references?{query}", {"if-none-match": last[0]} if last else {})
        if status not in (200, 304):
            return self.refusal(source, start, end, status, "references")
        version = source.references.get((name, digest(body))) if status == 200 else last[1]
        self.same(source, start, end, version, "references")
        self.tags[source.url, name] = (headers["etag"], version)

    def same(self, source, start, end, version, what):
        self.record.checked[what] += 1
        if version is None or version not in source.during(start, end):
            self.record.fail(what, source.url, "of version", version, "but the file", source.story(start, end))

    async def described(self):
        """A description. Returns the file, when it was sent, its version and the path of its store."""
        source = random.choice(self.sources)
        start, end, status, _, body = await self.ask("/v1/inspect", "/v1/inspect?" + urllib.parse.urlencode({"url": source.url}))
        if status != 200:
            self.refusal(source, start, end, status, "inspect")
            return None
        document = json.loads(body)
        version = source.described.get(outline(document))
        self.same(source, start, end, version, "inspect")
        return source, start, version, document["zarr"]["store"]

    async def versioned(self):
        """A description, then elements of exactly that version."""
        if found := await self.described():
            source, start, version, path = found
            for _ in range(random.randrange(2, 6)):
                await self.pause()
                _, end, status, right = await self.elements(source, path, version)
                if status == 200 and not right:
                    self.record.fail("elements of another version", source.url, path, version)
                if status != 200:
                    self.refusal(source, start, end, status, "elements")

    async def redirected(self):
        """The root of a store, which redirects to the current version, then metadata and elements of it."""
        source = random.choice(self.sources)
        root = "/v1/zarr/" + base64.urlsafe_b64encode(source.url.encode()).decode().rstrip("=")
        start, end, status, headers, _ = await self.ask("/v1/zarr/{source}", root)
        if status != 307:
            return self.refusal(source, start, end, status, "root")
        path, possible = headers["location"], set(source.during(start, end)) - {None}
        _, end, status, _, body = await self.ask("/v1/zarr/{source}/{key}", f"{path}/zarr.json")
        for _ in range(random.randrange(2, 5)):
            if status != 200:
                return self.refusal(source, start, end, status, "store")
            possible &= named(source, json.loads(body)) if body else right
            self.record.checked["metadata"] += bool(body)
            if not possible:
                return self.record.fail("versions are mixed", source.url, path, source.story(start, end))
            await asyncio.sleep(random.random())
            body = None
            _, end, status, right = await self.elements(source, path, possible)

    async def elements(self, source, path, expected):
        """Reads a chunk, plain or stored, or a selection. Returns when, the status, and which of the versions it is of."""
        versions = expected if isinstance(expected, set) else {expected}
        at = min(versions)
        row, kind = 0 if source.kind == "nc3" else random.randrange(SHAPE[0] // CHUNK[0]), random.choice(["plain", "zarr", "values"])
        target, route = f"{path}/{source.key(row)}", "/v1/%s/{source}/{key}" % kind
        if kind == "values":
            low, left = random.randrange(len(source.values[at])), random.randrange(SHAPE[1])
            select = f"{low}:,{left}:{left + 9}:2"
            target, route = f"{path}?array={source.array}&select={'0,' * (source.kind == 'tif')}{select}", "/v1/values/{source}"
        start, end, status, _, body = await self.ask(route, target.replace("/v1/zarr/", f"/v1/{kind}/"))
        if status != 200:
            return start, end, status, set()
        if kind == "zarr":
            body = decoded(body)
        values = lambda version: source.values[version][low:, left:left + 9:2].tobytes()
        right = {version for version in versions if body == (values(version) if kind == "values" else source.stored(version, row))}
        self.record.checked["elements"], self.last = self.record.checked["elements"] + 1, (target, versions, len(body))
        return start, end, status, right

    async def simple(self):
        path = random.choice(["/healthz", "/readyz", "/v1/about", "/v1/openapi.json"])
        _, _, status, _, body = await self.ask(path, path)
        if status not in BUSY | {200}:
            self.record.fail(path, status, body[:200])

    async def refused(self):
        """Requests that must be refused, each with one status."""
        url = random.choice(self.sources).url
        parameters, expected = random.choice([({"url": url + ".missing"}, 404), ({"url": "file:///etc/passwd"}, 403), ({"url": url, "format": "x"}, 400), ({"url": url, "typo": 1}, 400)])
        _, _, status, _, body = await self.ask("/v1/references", "/v1/references?" + urllib.parse.urlencode(parameters))
        if status not in BUSY | {expected} | ({502} if expected == 404 and not url.startswith("file:") else set()):
            self.record.fail("refused", parameters, status, body[:200])

    async def rude(self):
        """Half a head, or no interest in the response."""
        await self.connect()
        query = urllib.parse.urlencode({"url": random.choice(self.sources).url})
        self.writer.write(random.choice([b"GET / HTTP/1.1\r\nhost:", f"GET /v1/references?{query} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {self.token}\r\n\r\n".encode()]))
        await self.writer.drain()
        await asyncio.sleep(random.random() * 0.2)
        self.record.answers["left by the client"] += 1
        self.writer.transport.abort()
        self.reader = self.writer = None


def named(source, document):
    """Returns the versions that consolidated metadata may be of."""
    array = document["consolidated_metadata"]["metadata"][source.array]
    if source.kind == "h5":
        return {array["attributes"]["version"]}
    return {array["shape"][0] - 1} if source.kind == "nc3" else set(range(VERSIONS))


async def change(sources, end, every):
    """Replaces, extends and removes files until the end."""
    while time.monotonic() < end:
        await asyncio.sleep(random.expovariate(1 / every))
        source = random.choice(sources)
        if not source.lock:
            asyncio.get_running_loop().create_task(changed(source))


async def changed(source):
    source.lock = True
    now = source.history[-1][2]
    if source.kind == "nc3" and random.random() < 0.8:
        await asyncio.to_thread(source.change, now + 1 if now + 1 < VERSIONS else 0)
    else:
        if random.random() < 0.3:
            await asyncio.to_thread(source.change, None)
            await asyncio.sleep(random.random() * 2)
        await asyncio.to_thread(source.change, random.choice([other for other in range(VERSIONS) if other != now]) if source.kind != "nc3" else 0)
    source.lock = False
