"""Times the command beside other tools, on disk, or through a server with the latency and bandwidth of a network.

usage: run.py BINARY FOLDER [--server SERVER --network MS,MIB_PER_S …] [--only FILE …] [--reps 3] [--no-peers] [--peer-timeout 300]

FOLDER holds the files of files.py; SERVER is the example range_server of crates/server. The tools take turns, and figures are medians. Columns:

- s: from start to end of our process, file to kerchunk JSON on disk
- other tools: how many times as long they took, without the start of Python and their imports. h5py, async_hdf5 and async_tiff write nothing (tools.py)

and for a network, where the references must be those of the file on disk:

- limit: levels × latency + bytes / bandwidth, by limits.py, without any work of the processor
- local: the same command for the file on disk
- / both: s / (limit + local), 1 for a reader that adds nothing to the two
- rounds: requests that waited for another one, one after the other
"""
import argparse, hashlib, json, math, os, pathlib, re, shutil, statistics, subprocess, sys, tempfile, time

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1])]
import limits
from server import Server

HDF5, CLASSIC, TIFF = ["async_hdf5", "virtualizarr", "kerchunk"], ["virtualizarr_netcdf3", "kerchunk_netcdf3"], ["async_tiff", "virtual_tiff"]
# The other tools for each file; those that read local files only are in LOCAL.
PEERS = {name: TIFF if name.endswith(".tif") else HDF5 for name in limits.FILES} | {"classic_variables.nc": CLASSIC, "classic_records.nc": CLASSIC, limits.ARCHIVE: ["kerchunk_4x16", "virtualizarr_threads"]}
LOCAL = {".h5": ["h5py"], ".nc": [], ".tif": ["tifffile"]}
# Of which files the limit is known.
LIMITED = {*limits.FILES, limits.ARCHIVE}
# The server is idle enough if a run asks for less than this part of what it can do.
BUSY = 0.5


def run(command, environment=None, timeout=600):
    """Runs a command; returns its duration and the finished process."""
    start = time.perf_counter()
    process = subprocess.run(list(map(str, command)), env={**os.environ, **(environment or {})}, capture_output=True, text=True, timeout=timeout)
    return time.perf_counter() - start, process


def time_ours(options, case, server):
    """Returns the duration, the hash of the references without the location of the files, and what the server counted."""
    location = "s3://bucket" if server else f"file://{options.folder}"
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, "out.json")
        command = [options.binary, "batch", f"{location}/{case}/*.nc", "--concat-dim", "time", "--quiet"] if case == limits.ARCHIVE else [options.binary, f"{location}/{case}"]
        if server:
            server.stats()
        seconds, process = run([*command, "--format", "kerchunk-json", "-o", out], server and server.settings())
        if process.returncode:
            sys.exit(f"{case}: {process.stderr[-500:]}")
        references = out.read_bytes().replace(f"{location}/".encode(), b"")
    return seconds, hashlib.sha256(references).digest(), server and server.stats()


def time_peer(options, case, tool, server):
    """Returns the seconds that a tool spends in itself; infinite if it fails or takes too long."""
    source = f"{server.endpoint}/bucket/{case}" if server else options.folder / case
    with tempfile.TemporaryDirectory() as folder:
        try:
            _, process = run([sys.executable, pathlib.Path(__file__).with_name("tools.py"), tool, source, f"{folder}/out.json"], timeout=options.peer_timeout)
        except subprocess.TimeoutExpired:
            print(f"{tool}, {case}: no end after {options.peer_timeout:.0f} s", file=sys.stderr)
            return math.inf
    # Some tools fail when they exit, after their work.
    printed = process.stdout.strip().splitlines()[-1:]
    if not printed or not printed[0].startswith("{"):
        print(f"{tool}, {case}: {process.stderr.strip()[-300:]}", file=sys.stderr)
        return math.inf
    return json.loads(printed[0])["seconds"]


def measure(options, case, server):
    """Returns our median run, the median time on disk, and the factor of each of the other tools, as text."""
    tools = (PEERS[case] + ([] if server else LOCAL[pathlib.Path(case).suffix])) if options.peers else []
    ours, local, peers = [], [], {tool: [] for tool in tools}
    for _ in range(options.reps):
        ours.append(time_ours(options, case, server))
        if server:
            local.append(time_ours(options, case, None))
        for tool, found in peers.items():
            if math.inf not in found:
                found.append(time_peer(options, case, tool, server))
    if len({references for _, references, _ in ours + local}) > 1:
        sys.exit(f"{case}: the references differ from run to run, or from those of the local file")
    seconds, _, stats = sorted(ours, key=lambda found: found[0])[len(ours) // 2]
    medians = sorted((max(found) if math.inf in found else statistics.median(found), tool) for tool, found in peers.items())
    factors = ", ".join(f"{tool} failed" if found == math.inf else f"{tool} × {found / seconds:.1f}" for found, tool in medians)
    return seconds, stats, local and statistics.median(seconds for seconds, *_ in local), factors


def measure_disk(options):
    print("| file | s | other tools |\n|---|---|---|", flush=True)
    for case in options.only:
        if case != limits.ARCHIVE:
            seconds, _, _, factors = measure(options, case, None)
            print(f"| {case} | {seconds:.3f} | {factors} |", flush=True)


def measure_network(options, latency, mibps):
    """Prints a row for each file; yields the requests and MiB per second of each run."""
    network = limits.Network(latency, mibps)
    with Server(options.server, options.folder, latency, mibps) as server:
        for case in options.only:
            seconds, stats, local, factors = measure(options, case, server)
            mebibytes = stats["bytes"] / limits.MIB
            limit = limits.limit(options.folder / case, network) if case in LIMITED else None
            against = [f"{limit:.3f}", f"{local:.3f}", f"{seconds / (limit + local):.1f}"] if limit else ["–", f"{local:.3f}", "–"]
            print(f"| {' | '.join([case, str(latency), str(mibps), f'{seconds:.3f}', *against, str(stats['requests']), str(stats['rounds']), f'{mebibytes:.2f}', factors])} |", flush=True)
            yield stats["requests"] / seconds, mebibytes / seconds


def report_server(options, used):
    """Says whether the server, not the reader, was measured."""
    if not shutil.which("wrk"):
        print("Install wrk to learn whether the server was fast enough")
        return
    with Server(options.server, options.folder) as server:
        name = max((path for path in options.folder.iterdir() if path.is_file()), key=lambda path: path.stat().st_size).name
        for column, (what, length, connections) in enumerate((("requests", 1024, 64), ("MiB", 4 * limits.MIB, 16))):
            command = ["wrk", "-t1", f"-c{connections}", "-d2", "-H", f"Range: bytes=0-{length - 1}", f"{server.endpoint}/bucket/{name}"]
            most = float(re.search(r"Requests/sec: +([\d.]+)", subprocess.run(command, capture_output=True, text=True, check=True).stdout)[1])
            most, busiest = most * (length / limits.MIB if what == "MiB" else 1), max(row[column] for row in used)
            print(f"The server handles at most {most:,.0f} {what} per second; the busiest run requested {busiest:,.0f}", "(too close: this measures the server)" if busiest > BUSY * most else "")


def network(text):
    latency, mibps = map(int, text.split(","))
    return latency, mibps


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=os.path.abspath)
    parser.add_argument("folder", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--server", type=os.path.abspath)
    parser.add_argument("--network", nargs="*", type=network, default=[], metavar="MS,MIB_PER_S")
    parser.add_argument("--only", nargs="*", default=list(PEERS), choices=PEERS, metavar="FILE")
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--no-peers", dest="peers", action="store_false")
    parser.add_argument("--peer-timeout", type=float, default=300, metavar="SECONDS")
    options = parser.parse_args()
    if not options.network:
        measure_disk(options)
    elif not options.server:
        parser.error("--network needs --server")
    else:
        print("| file | ms | MiB/s | s | limit | local | / both | requests | rounds | MiB | other tools |\n|---|---|---|---|---|---|---|---|---|---|---|", flush=True)
        report_server(options, [used for latency, mibps in options.network for used in measure_network(options, latency, mibps)])
    print(f"Load of the machine in the last 15 minutes: {os.getloadavg()[2]:.1f} processes on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
