"""One combined dataset out of N daily NetCDF files on an S3-like server with latency, by us and by others, in one run.

usage: archive_peers.py SHARED_BENCH FILES [--n 1000] [--latency MS] [--only NAME,NAME] [--format kerchunk-json] [--check]

SHARED_BENCH holds range_server.py and archive_peers.py, which runs VirtualiZarr; kerchunk is run by kerchunk_peer.py beside this file, in set-ups such as `kerchunk_1x16` (processes, threads of each). --check opens the result of kerchunk beside
ours in xarray and compares every value (kerchunk-json). FILES is the folder that make_files.py filled (with archive/day_0000.nc and so on). VIRTUALIZE_BIN names our binary. Prints a table: seconds for all of it, files a
second, requests, most memory of the process, and how many times our seconds.
"""

import argparse
import json
import os
import pathlib
import resource
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def stats(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/__stats?reset=1", timeout=30) as answer:
        return json.load(answer)


def ours(port, count, form):
    environment = dict(
        os.environ, AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}", AWS_ALLOW_HTTP="true", AWS_SKIP_SIGNATURE="true", AWS_REGION="us-east-1"
    )
    folder = tempfile.mkdtemp()
    names = pathlib.Path(folder, "files.txt")
    names.write_text("".join(f"s3://bucket/archive/day_{k:04d}.nc\n" for k in range(count)))
    files = ["s3://bucket/archive/*.nc"] if count == 1000 else ["--list", str(names)]
    command = [os.environ["VIRTUALIZE_BIN"], "batch", *files, "--concat-dim", "time", "--format", form, "-o", f"{folder}/out", "--quiet"]
    return command, environment


def kerchunk(name, port, count):
    """The command for a name such as kerchunk_4x8: four processes with eight threads each; and where it writes."""
    processes, threads = name.removeprefix("kerchunk_").split("x")
    out = f"{tempfile.mkdtemp()}/kerchunk.json"
    peer = pathlib.Path(__file__).with_name("kerchunk_peer.py")
    return [sys.executable, str(peer), str(count), str(port), out, "--processes", processes, "--threads", threads], out


def check(ours, theirs, port, count):
    """Says whether xarray shows the same through both."""
    import xarray

    options = {"remote_protocol": "s3", "remote_options": {"anon": True, "endpoint_url": f"http://127.0.0.1:{port}", "asynchronous": True}, "asynchronous": True}
    one, two = (xarray.open_dataset(f"reference::{path}", engine="zarr", consolidated=False, storage_options=dict(options), chunks=None).load() for path in (ours, theirs))
    assert one.sizes["time"] == count, one.sizes
    xarray.testing.assert_equal(one, two)
    print(f"{'':24}equal by value: {', '.join(map(str, one.variables))}")


def run(command, environment):
    """Seconds and peak memory in MiB of a process; nothing where it fails, with its last line printed."""
    before = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, err = process.stdout.read(), process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        print((err or out).strip().rpartition("\n")[2][:300], file=sys.stderr)
        return None
    return time.perf_counter() - before, usage.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("shared")
    parser.add_argument("files")
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--latency", type=float, default=30)
    parser.add_argument("--only", default="virtualize,virtualizarr_threads,kerchunk_4x16")
    parser.add_argument("--format", default="kerchunk-json")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    port = free_port()
    server = subprocess.Popen([sys.executable, f"{given.shared}/range_server.py", given.files, str(port), str(given.latency), "50"])
    try:
        for _ in range(100):
            try:
                stats(port)
                break
            except OSError:
                time.sleep(0.1)
        first, written = None, None
        print(f"{'':24}{'seconds':>9}{'files/s':>9}{'requests':>10}{'MiB':>7}{'times':>7}")
        for name in given.only.split(","):
            theirs = None
            if name == "virtualize":
                command, environment = ours(port, given.n, given.format)
                written = command[command.index("-o") + 1]
            elif name.startswith("kerchunk_"):
                (command, theirs), environment = kerchunk(name, port, given.n), dict(os.environ)
            else:
                command, environment = [sys.executable, f"{given.shared}/archive_peers.py", name, str(given.n), str(port)], dict(os.environ)
            stats(port)
            measured = run(command, environment)
            if not measured:
                print(f"{name:24}   failed", flush=True)
                continue
            seconds, memory = measured
            first = first or seconds
            print(f"{name:24}{seconds:9.2f}{given.n / seconds:9.0f}{stats(port)['requests']:10}{memory:7.0f}{seconds / first:7.1f}", flush=True)
            if given.check and theirs and written:
                check(written, theirs, port, given.n)
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    main()
