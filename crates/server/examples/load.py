"""Load on the service, on loopback: `load.py BINARY FOLDER FILE… [--clients N] [--seconds S] [--wrk] [SETTING…]`. Clients
ask for references, descriptions and Zarr metadata of the files in turn; every fiftieth sends half a head and waits. With
`--wrk` the client is wrk, which takes less of the machine and sends whole heads alone. Fails on an answer that is neither
good nor 429 nor 503. Settings, such as `--memory=256M`, are those of the service."""
import argparse, asyncio, base64, collections, json, os, re, signal, subprocess, tempfile, threading, time, urllib.parse

# Counts answers by status, each thread its own.
WRK = """
local paths, at, threads = {%s}, 0, {}
function setup(thread) table.insert(threads, thread); thread:set("first", #threads * 7) end
function init() at, counts = first, {} end
function request() at = at + 1; return wrk.format("GET", paths[at %% #paths + 1]) end
function response(status) counts[status] = (counts[status] or 0) + 1 end
function done(summary, latency, requests)
  local all = {}
  for _, thread in ipairs(threads) do
    for status, count in pairs(thread:get("counts")) do all[status] = (all[status] or 0) + count end
  end
  local said = {}
  for status, count in pairs(all) do table.insert(said, string.format('"%%d": %%d', status, count)) end
  local broken = summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout
  io.write(string.format('{"answers": {%%s}, "broken": %%d, "seconds": %%.1f, "p50 ms": %%.0f, "p99 ms": %%.0f, "max ms": %%.0f}\\n', table.concat(said, ", "),
    broken, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, latency.max / 1e3))
end
"""

parser = argparse.ArgumentParser()
parser.add_argument("binary")
parser.add_argument("folder")
parser.add_argument("files", nargs="+")
parser.add_argument("--clients", type=int, default=1000)
parser.add_argument("--seconds", type=float, default=60)
parser.add_argument("--wrk", action="store_true")
options, settings = parser.parse_known_args()


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
               "--rate", "1000000", "--burst", "1000000", "--client-requests", "1000000", "--client-connections", "1000000", *settings]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "RUST_LOG": "info,virtualize_server::access=warn"})
    port = int(re.search(r"listening on http://[^:]+:(\d+)", process.stderr.readline())[1])
    threading.Thread(target=process.stderr.read, daemon=True).start()
    end = time.monotonic() + options.seconds
    paths = list(targets())
    if options.wrk:
        said = wrk(port, paths)
        answers = {int(status): count for status, count in said["answers"].items()}
    else:
        said, answers = await python(port, paths, end)
    status = open(f"/proc/{process.pid}/status").read()
    process.send_signal(signal.SIGTERM)
    process.wait(60)
    print(json.dumps({"clients": options.clients, **said, "peak MiB": int(re.search(r"VmHWM:\s+(\d+)", status)[1]) // 1024}))
    assert set(answers) <= {200, 429, 503}, answers


def wrk(port, paths):
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(WRK % ", ".join(json.dumps(path) for path in paths))
        script.flush()
        run = subprocess.run(["wrk", "-t2", f"-c{options.clients}", f"-d{options.seconds:.0f}s", "--timeout", "60s", "-s", script.name,
                              f"http://127.0.0.1:{port}"], capture_output=True, text=True, check=True)
    return json.loads(run.stdout.splitlines()[-1])


async def python(port, paths, end):
    seen = collections.defaultdict(list)
    await asyncio.gather(*(client(at, "127.0.0.1", port, paths, end, seen) for at in range(options.clients)))
    good = sorted(seen.get(200, [0.0]))
    at = lambda part: round(1000 * good[min(len(good) - 1, int(part * len(good)))])
    answers = {str(key): len(value) for key, value in seen.items()}
    return {"answers": answers, "p50 ms": at(0.5), "p99 ms": at(0.99)}, seen

asyncio.run(main())
