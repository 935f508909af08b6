"""Times NetCDF classic files next to kerchunk's NetCDF3ToZarr and VirtualiZarr's NetCDF3Parser, on disk and over HTTP.

usage: netcdf3.py BINARY RANGE_SERVER.PY [--reps N] [--latency MS] [--records N] [--variables N]

BINARY is the command; RANGE_SERVER.PY the server of ../shared/bench. Runs take turns; figures are medians. Columns:

- s: from start to end of the process, file to kerchunk JSON on disk
- other tools: how many times as long they took to make the same references in memory, without the start of Python and its imports
- requests, KiB: what was fetched from the server; for the other tools in the same order
"""
import argparse, contextlib, json, pathlib, socket, statistics, subprocess, sys, tempfile, time, urllib.request

import numpy as np

KERCHUNK = """
import kerchunk.netCDF3, sys, time
start = time.perf_counter()
options = {"endpoint_url": sys.argv[2], "anon": True} if sys.argv[2] else {}
refs = kerchunk.netCDF3.NetCDF3ToZarr(sys.argv[1], inline_threshold=0, storage_options=options).translate()
print(time.perf_counter() - start, len(refs["refs"]))
"""
VIRTUALIZARR = """
import sys, time
from obspec_utils.registry import ObjectStoreRegistry
from obstore.store import LocalStore, S3Store
from virtualizarr.parsers import NetCDF3Parser
endpoint = sys.argv[2]
remote = lambda: S3Store("bucket", endpoint=endpoint, skip_signature=True, region="us-east-1", virtual_hosted_style_request=False, client_options={"allow_http": True})
registry = ObjectStoreRegistry({"s3://bucket": remote()} if endpoint else {"file://": LocalStore()})
start = time.perf_counter()
store = NetCDF3Parser()(sys.argv[1], registry)
refs = store.to_virtual_dataset(loadable_variables=[]).vz.to_kerchunk(format="dict")
print(time.perf_counter() - start, len(refs["refs"]))
"""
# Longest time of another tool, in seconds; a tool that takes longer counts as this long.
PATIENCE = 300
PEERS = {"kerchunk": KERCHUNK, "virtualizarr": VIRTUALIZARR}


def make(folder, records, variables):
    """Writes a file of many fixed variables, one of many records, and one of a few large variables."""
    import netCDF4
    with netCDF4.Dataset(folder / "variables.nc", "w", format="NETCDF3_64BIT_OFFSET") as ds:
        ds.createDimension("x", 1000)
        made = [ds.createVariable(f"variable_{n}", "f4", ("x",), fill_value=-1) for n in range(variables)]
        for var in made:
            var.setncatts({"units": "m", "long_name": "one of many variables", "scale_factor": 0.5})
    with netCDF4.Dataset(folder / "records.nc", "w", format="NETCDF3_64BIT_OFFSET") as ds:
        ds.createDimension("time", None), ds.createDimension("x", 4)
        made = [ds.createVariable(name, "f8", dims) for name, dims in (("time", ("time",)), ("a", ("time", "x")), ("b", ("time", "x")))]
        for var in made:
            var[:] = np.zeros((records, *var.shape[1:]))
    with netCDF4.Dataset(folder / "model.nc", "w", format="NETCDF3_64BIT_OFFSET") as ds:
        for name, length in (("time", None), ("lat", 180), ("lon", 360)):
            ds.createDimension(name, length)
        made = [ds.createVariable(name, "f4", ("time", "lat", "lon")) for name in ("t", "u", "v")]
        for var in made:
            var[:] = np.zeros((31, 180, 360), "f4")


@contextlib.contextmanager
def server(script, folder, latency):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    process = subprocess.Popen([sys.executable, script, folder, str(port), str(latency)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with contextlib.suppress(OSError):
                stats(f"http://127.0.0.1:{port}")
                break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def stats(endpoint):
    with urllib.request.urlopen(f"{endpoint}/__stats?reset=1", timeout=30) as answer:
        return json.load(answer)


def ours(binary, place, endpoint, out):
    options = ["--endpoint", endpoint, "--anonymous"] if endpoint else []
    start = time.perf_counter()
    subprocess.run([binary, place, "-o", out, "--overwrite", *options], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    return time.perf_counter() - start


def peer(script, place, endpoint):
    try:
        run = subprocess.run([sys.executable, "-W", "ignore", "-c", script, place, endpoint], capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return PATIENCE, None
    if run.returncode:
        return None, run.stderr.strip().splitlines()[-1][:90]
    return float(run.stdout.split()[0]), None


def row(options, name, folder, endpoint):
    place = f"s3://bucket/{name}" if endpoint else f"file://{folder / name}"
    local = place if endpoint else str(folder / name)
    times, fetched, failed = {"ours": [], **{peer_name: [] for peer_name in PEERS}}, {}, {}
    for _ in range(options.reps):
        for tool in times:
            if tool == "ours":
                seconds, why = ours(options.binary, local, endpoint, folder / "out.json"), None
            else:
                seconds, why = peer(PEERS[tool], place if tool == "virtualizarr" or endpoint else local, endpoint)
            if endpoint:
                counted = stats(endpoint)
                fetched[tool] = f"{counted['requests']} {counted['bytes'] >> 10}"
            if why:
                failed[tool] = why
            else:
                times[tool].append(seconds)
    own = statistics.median(times["ours"])
    others = [failed.get(tool) or f"{statistics.median(times[tool]) / own:.1f}" for tool in PEERS]
    return [name, "remote" if endpoint else "disk", f"{own:.3f}", *others, " / ".join(fetched.values())]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary"), parser.add_argument("server")
    for name, default in (("reps", 3), ("latency", 30), ("records", 100_000), ("variables", 1000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make(folder, options.records, options.variables)
        print("\t".join(["file", "place", "s", *PEERS, "requests KiB"]))
        with server(options.server, folder, options.latency) as endpoint:
            for file in ("variables.nc", "records.nc", "model.nc"):
                for place in ("", endpoint):
                    print("\t".join(row(options, file, folder, place)), flush=True)


if __name__ == "__main__":
    main()
