"""Times the reading of remote files next to each file's limit, and next to other tools, through a server with the latency and bandwidth of a network.

usage: remote.py BINARY SERVER FOLDER [--shared FOLDER] [--only FILE …] [--network MS,MIB_PER_S …] [--reps N] [--no-peers]

BINARY is the command; SERVER is the example range_server of crates/server; FOLDER holds the files of make_files.py. --shared holds tools.py, which runs
the other tools. Runs take turns; figures are medians. Fails if the references of a remote file differ from those of the local file. Columns:

- s: from start to end of the process, file to kerchunk JSON on disk
- limit: levels × latency + bytes / bandwidth, by limits.py, without any work of the processor
- local: the same command for the file on disk
- / both: s / (limit + local), 1 for a reader that adds nothing to the two
- rounds: requests that waited for another one, one after the other
- other tools: how many times as long they took, at 30 ms and 50 MiB/s only, without the start of Python; async_hdf5 and async_tiff only parse
"""
import argparse, contextlib, hashlib, json, os, pathlib, re, shutil, socket, statistics, subprocess, sys, tempfile, time, urllib.request
import limits

NETWORKS = [(30, 50), *((latency, mibps) for mibps in (20, 200) for latency in (5, 30, 100))]
# The other tools run at this network only.
PEERS_AT = (30, 50)
HDF5_PEERS, TIFF_PEERS = ["async_hdf5", "virtualizarr", "kerchunk"], ["async_tiff", "virtual_tiff"]
PEERS = {name: TIFF_PEERS if name.endswith(".tif") else HDF5_PEERS for name in limits.FILES} | {limits.ARCHIVE: ["kerchunk_4x16", "virtualizarr_threads"]}
COLUMNS = ["file", "ms", "MiB/s", "s", "limit", "/ limit", "local", "/ both", "requests", "rounds", "MiB", "other tools"]
# The server is idle enough if a run asks for less than this part of what it can do.
BUSY = 0.5
HERE = pathlib.Path(__file__).resolve().parent


class Server:
    """The range server, from start to end of a `with` block."""

    def __init__(self, binary, folder, latency=0, mibps=0):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            self.port = listener.getsockname()[1]
        self.command = [binary, folder, str(self.port), str(latency), str(mibps)]
        self.endpoint = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        self.process = subprocess.Popen(self.command)
        for _ in range(100):
            with contextlib.suppress(OSError):
                self.stats()
                return self
            time.sleep(0.05)
        sys.exit(f"no answer: {' '.join(map(str, self.command))}")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def stats(self):
        """Returns what was counted since the previous call."""
        with urllib.request.urlopen(f"{self.endpoint}/__stats?reset=1", timeout=30) as answer:
            return json.load(answer)


def server_rates(options):
    """Measures the requests per second and MiB per second that the server can do at most."""
    if not shutil.which("wrk"):
        sys.exit("remote.py needs wrk, which measures the server itself")
    with Server(options.server, options.folder) as server:
        return wrk(server, 1024, 64)[0], wrk(server, 4 * limits.MIB, 16)[1]


def wrk(server, length, connections):
    name = max((path for path in pathlib.Path(server.command[1]).iterdir() if path.is_file()), key=lambda path: path.stat().st_size).name
    command = ["wrk", "-t1", f"-c{connections}", "-d2", "-H", f"Range: bytes=0-{length - 1}", f"{server.endpoint}/bucket/{name}"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    requests = float(re.search(r"Requests/sec: +([\d.]+)", text)[1])
    return requests, requests * length / limits.MIB


def place_of(options, endpoint):
    return "s3://bucket" if endpoint else f"file://{options.folder}"


def our_command(options, case, endpoint, out):
    """Reads a file or the archive: at the endpoint, or on disk."""
    place = place_of(options, endpoint)
    if case == limits.ARCHIVE:
        command = [options.binary, "batch", f"{place}/{case}/*.nc", "--concat-dim", "time", "--quiet"]
    else:
        command = [options.binary, f"{place}/{case}"]
    environment = dict(os.environ, AWS_ALLOW_HTTP="true", AWS_SKIP_SIGNATURE="true", AWS_REGION="us-east-1")
    return [*command, "--format", "kerchunk-json", "-o", out], environment | ({"AWS_ENDPOINT_URL": endpoint} if endpoint else {})


def peer_command(options, case, tool, server, out):
    if case != limits.ARCHIVE:
        return [sys.executable, options.shared / "tools.py", tool, f"{server.endpoint}/bucket/{case}", out]
    files = str(len(list((options.folder / case).iterdir())))
    if tool.startswith("kerchunk_"):
        processes, threads = tool.removeprefix("kerchunk_").split("x")
        peer = HERE.parent / "crates/archive/examples/kerchunk_peer.py"
        return [sys.executable, peer, files, str(server.port), out, "--processes", processes, "--threads", threads]
    return [sys.executable, options.shared / "archive_peers.py", tool, files, str(server.port)]


def run(command, environment=None, timeout=600):
    """Runs a command; returns its duration and the finished process."""
    start = time.perf_counter()
    process = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, timeout=timeout)
    return time.perf_counter() - start, process


def time_ours(options, case, server):
    """Returns the duration, the hash of the references without the place of the files, and what the server counted."""
    endpoint = server and server.endpoint
    with tempfile.TemporaryDirectory() as folder:
        server and server.stats()
        out = pathlib.Path(folder, "out.json")
        seconds, process = run(*our_command(options, case, endpoint, out))
        if process.returncode != 0:
            sys.exit(f"{case}: {process.stderr[-500:]}")
        references = out.read_bytes().replace(f"{place_of(options, endpoint)}/".encode(), b"")
        return seconds, hashlib.sha256(references).digest(), server and server.stats()


def time_peer(options, case, tool, server):
    """Returns the seconds that a tool spends in itself, without its imports, if it prints them; infinite if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            seconds, process = run(peer_command(options, case, tool, server, f"{folder}/out.json"), timeout=options.peer_timeout)
        except subprocess.TimeoutExpired:
            print(f"{tool}, {case}: no end after {options.peer_timeout:.0f} s", file=sys.stderr)
            return float("inf")
    # Some tools fail when they exit, after their work.
    printed = json.loads(process.stdout.strip().splitlines()[-1]) if process.stdout.strip() else {}
    if "error" in printed or (process.returncode != 0 and not printed):
        print(f"{tool}, {case}: {printed.get('error') or process.stderr[-300:]}", file=sys.stderr)
        return float("inf")
    return printed.get("seconds") or printed.get("total_s") or seconds


def measure(options, case, server, tools):
    """Returns the duration of our median run, what the server counted in it, the local time, and the time of each of the other tools."""
    remote, local, peers = [], [], {tool: [] for tool in tools}
    for _ in range(options.reps):
        remote.append(time_ours(options, case, server))
        local.append(time_ours(options, case, None))
        for tool, found in peers.items():
            if float("inf") not in found:
                found.append(time_peer(options, case, tool, server))
    if len({references for _, references, _ in remote + local}) > 1:
        sys.exit(f"{case}: the references of the remote file are not those of the local file")
    seconds, _, stats = sorted(remote, key=lambda run: run[0])[len(remote) // 2]
    others = {tool: max(found) if float("inf") in found else statistics.median(found) for tool, found in peers.items()}
    return seconds, stats, statistics.median(seconds for seconds, *_ in local), others


def factors(peers, seconds):
    """Lists how many times as long as ours the other tools took, the fastest first."""
    fastest = sorted(peers.items(), key=lambda peer: peer[1])
    return ", ".join(f"{tool} × {found / seconds:.1f}" if found < float("inf") else f"{tool} failed" for tool, found in fastest)


def print_row(case, network, limit, measured):
    seconds, stats, local, peers = measured
    row = [case, network.milliseconds, network.mibps, f"{seconds:.3f}", f"{limit:.3f}", f"{seconds / limit:.1f}", f"{local:.3f}",
           f"{seconds / (limit + local):.1f}", f"{stats['requests']:,}", stats["rounds"], f"{stats['bytes'] / limits.MIB:.2f}", factors(peers, seconds)]
    print(f"| {' | '.join(map(str, row))} |", flush=True)
    return stats["requests"] / seconds, stats["bytes"] / limits.MIB / seconds


def measure_network(options, latency, mibps):
    """Prints a row for each file; yields the requests and MiB per second of each run."""
    network = limits.Network(latency, mibps)
    with_peers = options.peers and (latency, mibps) == PEERS_AT
    with Server(options.server, options.folder, latency, mibps) as server:
        for case in options.only:
            limit = limits.limit(options.folder / case, network)
            yield print_row(case, network, limit, measure(options, case, server, PEERS[case] if with_peers else []))


def report_server(most, used):
    """Says whether the server, not the reader, was measured."""
    for name, most, used in zip(("requests", "MiB"), most, map(max, zip(*used))):
        busy = " (too close: this measures the server)" if used > BUSY * most else ""
        print(f"The server can do {most:,.0f} {name} per second; the busiest run asked for {used:,.0f}{busy}")
    print(f"Load of the machine in the last 15 minutes: {os.getloadavg()[2]:.1f} processes on {os.cpu_count()} cores")


def network(text):
    latency, mibps = text.split(",")
    return int(latency), int(mibps)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=os.path.abspath)
    parser.add_argument("server", type=os.path.abspath)
    parser.add_argument("folder", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--shared", type=pathlib.Path, default=pathlib.Path("../shared/bench"))
    parser.add_argument("--only", nargs="*", default=list(PEERS), choices=PEERS, metavar="FILE")
    parser.add_argument("--network", nargs="*", type=network, default=NETWORKS, metavar="MS,MIB_PER_S")
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--no-peers", dest="peers", action="store_false")
    parser.add_argument("--peer-timeout", type=float, default=180, metavar="SECONDS")
    return parser.parse_args()


def main():
    options = arguments()
    rates = server_rates(options)
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    report_server(rates, [used for latency, mibps in options.network for used in measure_network(options, latency, mibps)])


if __name__ == "__main__":
    main()
