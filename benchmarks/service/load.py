"""Load on the service, on loopback: `load.py BINARY FOLDER FILE… [--clients N] [--seconds S] [--wrk | --nginx] [SETTING…]`.
Clients ask for references, descriptions and Zarr metadata of the files in turn; every fiftieth sends half a head and waits.
With `--wrk` the client is wrk, which takes less of the machine and sends whole heads alone. Fails on an answer that is
neither good nor 503; with `--strict` also if a connection breaks, a request takes more than five seconds (99 %), or
the service takes more than `--memory` and 100 MiB. With `--nginx`, wrk reads chunks of 12 KB from the service and, as files,
from nginx, in turn. Settings, such as `--memory=256M`, are those of the service."""
import argparse, asyncio, collections, contextlib, json, os, re, signal, socket, statistics, struct, subprocess, tempfile, threading, time, urllib.parse, urllib.request

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
  local report = {}
  for status, count in pairs(all) do table.insert(report, string.format('"%%d": %%d', status, count)) end
  local broken = summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout
  io.write(string.format('{"answers": {%%s}, "broken": %%d, "seconds": %%.1f, "p50 ms": %%.1f, "p99 ms": %%.1f, "max ms": %%.0f}\\n', table.concat(report, ", "),
    broken, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, latency.max / 1e3))
end
"""

parser = argparse.ArgumentParser()
parser.add_argument("binary")
parser.add_argument("folder")
parser.add_argument("files", nargs="*")
parser.add_argument("--clients", type=int, default=1000)
parser.add_argument("--seconds", type=float, default=60)
parser.add_argument("--wrk", action="store_true")
parser.add_argument("--strict", action="store_true")
parser.add_argument("--nginx", action="store_true")
parser.add_argument("--rounds", type=int, default=3)
options, settings = parser.parse_known_args()


def targets():
    for name in options.files:
        url = f"file://{os.path.realpath(os.path.join(options.folder, name))}"
        quoted = urllib.parse.quote(url, safe="")
        yield f"/v1/references?url={quoted}"
        yield f"/v1/inspect?url={quoted}"
        yield f"/v1/zarr/{quoted}"


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
                if status == 503:
                    await asyncio.sleep(1)
            writer.close()
        except (OSError, asyncio.IncompleteReadError) as error:
            seen[type(error).__name__].append(0.0)
            await asyncio.sleep(0.1)


@contextlib.contextmanager
def service(folder):
    """Yields the port of a service with access to a folder, and its process."""
    command = [options.binary, "serve", "--listen", "127.0.0.1:0", "--allow", f"file://{os.path.realpath(folder)}/", "--log", "json", *settings]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "RUST_LOG": "info,virtualize_server::access=warn"})
    port = int(re.search(r"listening on http://[^:]+:(\d+)", process.stderr.readline())[1])
    threading.Thread(target=process.stderr.read, daemon=True).start()
    try:
        yield port, process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def main():
    with service(options.folder) as (port, process):
        paths = list(targets())
        if options.wrk:
            report = wrk(port, paths)
            answers = {int(status): count for status, count in report["answers"].items()}
        else:
            report, answers = asyncio.run(python(port, paths, time.monotonic() + options.seconds))
        status = open(f"/proc/{process.pid}/status").read()
    peak = int(re.search(r"VmHWM:\s+(\d+)", status)[1]) // 1024
    print(json.dumps({"clients": options.clients, **report, "peak MiB": peak}))
    assert set(answers) <= {200, 307, 503}, answers
    if options.strict:
        memory = next((int(setting.split("=")[1].removesuffix("M")) for setting in settings if setting.startswith("--memory=")), 1024)
        assert set(answers) == {200, 307} and report.get("broken", 0) == 0 and report["p99 ms"] < 5000 and peak <= memory + 100, report


SIDE, TILE = 64, 112


def tiff():
    """An image of 64 × 64 tiles of 112 × 112 bytes (TIFF 6.0, section 15), which are its chunks of 12,544 bytes."""
    tiles, size = SIDE * SIDE, TILE * TILE
    first = 8 + 2 + 10 * 12 + 4 + 8 * tiles
    offsets = 8 + 2 + 10 * 12 + 4
    entries = [(256, 1, SIDE * TILE), (257, 1, SIDE * TILE), (258, 1, 8), (259, 1, 1), (262, 1, 1), (277, 1, 1), (322, 1, TILE), (323, 1, TILE),
               (324, tiles, offsets), (325, tiles, offsets + 4 * tiles)]
    head = struct.pack("<2sHI", b"II", 42, 8) + struct.pack("<H", len(entries)) + b"".join(struct.pack("<HHII", tag, 4, count, value) for tag, count, value in entries)
    places = struct.pack(f"<{tiles}I", *(first + size * tile for tile in range(tiles))) + struct.pack(f"<{tiles}I", *[size] * tiles)
    return head + bytes(4) + places + os.urandom(size * tiles)


def chunks(store):
    """The path of each chunk of the image."""
    return [f"{store}/band_data/c/0/{row}/{column}" for row in range(SIDE) for column in range(SIDE)]


@contextlib.contextmanager
def nginx(folder):
    """Yields the port of nginx that serves a folder: no log, and otherwise its usual settings."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = os.path.join(folder, "nginx.conf")
    with open(config, "w") as file:
        file.write(f"""worker_processes 2; pid {folder}/nginx.pid; error_log {folder}/error.log; daemon off;
events {{ worker_connections 4096; }}
http {{ access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000000; client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2;
  fastcgi_temp_path {folder}/t3; uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5; server {{ listen 127.0.0.1:{port}; root {folder}; }} }}""")
    process = subprocess.Popen(["nginx", "-c", config, "-p", folder], stderr=subprocess.DEVNULL)
    try:
        while process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
        yield port
    finally:
        process.terminate()
        process.wait(60)


def against_nginx():
    """Requests per second of both, in turn, and the median of their ratios."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        image = os.path.join(folder, "image.tif")
        with open(image, "wb") as file:
            file.write(tiff())
        source = urllib.parse.quote(f"file://{os.path.realpath(image)}", safe="")
        with service(folder) as (port, _), nginx(folder) as other:
            paths = chunks(urllib.parse.urlparse(urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/zarr/{source}").url).path)
            for path in paths:
                place = folder + path
                os.makedirs(os.path.dirname(place), exist_ok=True)
                with open(place, "wb") as file:
                    file.write(urllib.request.urlopen(f"http://127.0.0.1:{port}{path}").read())
            rounds = []
            for _ in range(options.rounds):
                rounds.append((wrk(port, paths), wrk(other, paths)))
    pace = lambda report: round(sum(report["answers"].values()) / report["seconds"])
    late = lambda report: report["p99 ms"]
    assert all(set(report["answers"]) == {"200"} and not report["broken"] for both in rounds for report in both), rounds
    print(json.dumps({"clients": options.clients, **{f"{name}{whose}": [of(both[number]) for both in rounds] for name, of in (("requests per second", pace), ("p99 ms", late))
                                                     for number, whose in enumerate(("", " of nginx"))},
                      "ratio": round(statistics.median(pace(own) / pace(theirs) for own, theirs in rounds), 3),
                      "ratio of p99": round(statistics.median(late(own) / max(late(theirs), 0.1) for own, theirs in rounds), 2)}))


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

against_nginx() if options.nginx else main()
