"""A store on loopback that fails: `store.py`. It serves objects below /bucket/ as S3 and a web server do, prints its port, and takes them at /control/.
A request may be delayed, reset, answered with 500 or 503, or cut off; an outage of some seconds fails all of them. `PUT /fail` with 1 or 0 starts and stops this."""
import asyncio, collections, hashlib, json, random, re, time, urllib.parse
from xml.sax.saxutils import escape

# Parts of the requests that fail in each way.
FAULTS = {"delay": 0.05, "reset": 0.02, "500": 0.02, "503": 0.03, "cut": 0.02}
# An outage of 8 seconds begins every 3 minutes.
OUTAGE, EVERY = 8, 180

objects, counts, failing = {}, collections.Counter(), [0.0]


def put(key, body):
    objects[key] = (body, f'"{hashlib.md5(body + str(time.time_ns()).encode()).hexdigest()}"', time.gmtime())


async def serve(reader, writer):
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            method, target, _ = head.split("\r\n", 1)[0].split(" ")
            headers = {name.lower(): value for name, value in re.findall(r"([^:\r\n]+): *([^\r\n]*)\r\n", head.split("\r\n", 1)[1])}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            if not await answer(writer, method, target, headers, body):
                return writer.transport.abort()
    except (OSError, asyncio.IncompleteReadError):
        writer.close()


async def answer(writer, method, target, headers, body):
    parts = urllib.parse.urlsplit(target)
    path = urllib.parse.unquote(parts.path)
    if path.startswith("/control/"):
        put(path[9:], body) if method == "PUT" else objects.pop(path[9:], None)
        return await send(writer, method, 200, b"")
    if path == "/fail":
        failing[0] = time.monotonic() if body == b"1" else 0.0
        return await send(writer, method, 200, json.dumps(counts).encode())
    fault = chosen()
    counts[fault or "none"] += 1
    if fault == "delay":
        await asyncio.sleep(random.expovariate(2))
    if fault in ("500", "503"):
        return await send(writer, method, int(fault), b"<Error><Code>SlowDown</Code></Error>")
    if fault == "reset":
        return False
    query = urllib.parse.parse_qs(parts.query)
    if "list-type" in query:
        return await send(writer, method, 200, listing(query.get("prefix", [""])[0]), {"Content-Type": "application/xml"})
    return await send_object(writer, method, path.split("/", 2)[2], headers, fault == "cut")


def chosen():
    if not failing[0]:
        return None
    since = time.monotonic() - failing[0]
    if since > EVERY and since % EVERY < OUTAGE:
        return random.choice(["reset", "503", "500"])
    return next((name for name, part in FAULTS.items() if random.random() < part), None)


async def send_object(writer, method, key, headers, cut):
    if key not in objects:
        return await send(writer, method, 404, b"<Error><Code>NoSuchKey</Code></Error>")
    content, tag, modified = objects[key]
    if headers.get("if-match", tag).strip('"') != tag.strip('"'):
        return await send(writer, method, 412, b"")
    more = {"ETag": tag, "Last-Modified": time.strftime("%a, %d %b %Y %H:%M:%S GMT", modified), "Accept-Ranges": "bytes"}
    if wanted := re.fullmatch(r"bytes=(\d*)-(\d*)", headers.get("range", "")):
        first, last = wanted.groups()
        start = int(first) if first else max(0, len(content) - int(last))
        end = min(len(content), int(last) + 1) if first and last else len(content)
        if start >= len(content):
            return await send(writer, method, 416, b"", {"Content-Range": f"bytes */{len(content)}"})
        more["Content-Range"] = f"bytes {start}-{end - 1}/{len(content)}"
        return await send(writer, method, 206, content[start:end], more, cut)
    return await send(writer, method, 200, content, more, cut)


async def send(writer, method, status, body, headers={}, cut=False):
    """Sends a response. One that is cut off promises more than it has."""
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(f"HTTP/1.1 {status} X\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode())
    if method != "HEAD":
        writer.write(body[:len(body) // 2] if cut else body)
    await writer.drain()
    return not cut


def listing(prefix):
    item = "<Contents><Key>{}</Key><LastModified>{}</LastModified><ETag>{}</ETag><Size>{}</Size></Contents>"
    found = [(key, *value) for key, value in sorted(objects.items()) if key.startswith(prefix)]
    items = "".join(item.format(escape(key), time.strftime("%Y-%m-%dT%H:%M:%S.000Z", modified), escape(tag), len(body)) for key, body, tag, modified in found)
    return (f'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><Name>bucket</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(found)}</KeyCount>'
            f"<IsTruncated>false</IsTruncated>{items}</ListBucketResult>").encode()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

if __name__ == "__main__":
    asyncio.run(main())
