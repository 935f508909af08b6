"""Load on the service, on loopback: `load.py BINARY FOLDER FILE… [--clients N] [--seconds S]`. Clients ask for references,
descriptions and Zarr metadata of the files in turn; every fiftieth sends half a head and waits. Fails on an answer that
is neither good nor 429 nor 503."""
import argparse, asyncio, base64, collections, json, os, re, signal, subprocess, time, urllib.parse

parser = argparse.ArgumentParser()
parser.add_argument("binary")
parser.add_argument("folder")
parser.add_argument("files", nargs="+")
parser.add_argument("--clients", type=int, default=1000)
parser.add_argument("--seconds", type=float, default=60)
options = parser.parse_args()


def targets():
    for name in options.files:
        url = f"file://{os.path.realpath(os.path.join(options.folder, name))}"
        quoted = urllib.parse.quote(url, safe="")
        yield f"/v1/references?url={quoted}"
        yield f"/v1/inspect?url={quoted}"
        yield "/v1/zarr/" + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=") + "/zarr.json"


async def client(at, host, port, paths, end, seen):
    while time.monotonic() < end:
        try:
            reader, writer = await asyncio.open_connection(host, port)
            while time.monotonic() < end:
                path = paths[at % len(paths)]
                at += 1
                start = time.monotonic()
                if at % 50 == 0:
                    writer.write(b"GET / HTTP/1.1\r\nhost:")
                    await asyncio.sleep(1)
                    break
                writer.write(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())
                head = await reader.readuntil(b"\r\n\r\n")
                status = int(head[9:12])
                length = int(re.search(rb"content-length: (\d+)", head)[1])
                await reader.readexactly(length)
                seen[status].append(time.monotonic() - start)
                if status in (429, 503):
                    await asyncio.sleep(1)
            writer.close()
        except (OSError, asyncio.IncompleteReadError) as error:
            seen[type(error).__name__].append(0.0)
            await asyncio.sleep(0.1)


async def main():
    command = [options.binary, "serve", "--listen", "127.0.0.1:0", "--allow", f"file://{os.path.realpath(options.folder)}/", "--log", "json",
               "--rate", "1000000", "--burst", "1000000"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "RUST_LOG": "info,virtualize_server::access=warn"})
    port = int(re.search(r"listening on http://[^:]+:(\d+)", process.stderr.readline())[1])
    seen = collections.defaultdict(list)
    end = time.monotonic() + options.seconds
    paths = list(targets())
    await asyncio.gather(*(client(at, "127.0.0.1", port, paths, end, seen) for at in range(options.clients)))
    status = open(f"/proc/{process.pid}/status").read()
    process.send_signal(signal.SIGTERM)
    process.wait(60)
    good = sorted(seen.get(200, [0.0]))
    at = lambda part: round(1000 * good[min(len(good) - 1, int(part * len(good)))])
    print(json.dumps({"clients": options.clients, "answers": {str(key): len(value) for key, value in seen.items()}, "p50 ms": at(0.5),
                      "p99 ms": at(0.99), "peak MiB": int(re.search(r"VmHWM:\s+(\d+)", status)[1]) // 1024}))
    assert set(seen) <= {200, 429, 503}, set(seen)

asyncio.run(main())
