"""Compares `virtualize.batch` with the command: 1,000 files in an S3-like server with latency, one run after the other.

Whole processes are measured, so that the start of the interpreter and the import count; "call" is the call alone.

usage: archive.py [--files N] [--latency MS] [--rounds N] [--command PATH]
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

# The server has a process of its own, so that it does not share the interpreter with what is measured.
SERVER = """
import sys
sys.path.append(sys.argv[1])
from many_files import day
from slow_s3 import SlowS3
objects = {f"era/d{k:05}.nc": day(k) for k in range(int(sys.argv[2]))}
with SlowS3(objects, float(sys.argv[3]) / 1000) as server:
    print(server.env["AWS_ENDPOINT_URL"], flush=True)
    sys.stdin.read()
"""

RUN = """
import sys, time
import virtualize
start = time.perf_counter()
done = virtualize.batch("s3://bucket/era/*.nc", sys.argv[1], concat_dim="time", on_event=EVENTS)
print(time.perf_counter() - start)
assert done.failed == 0 and done.files == int(sys.argv[2]), done
"""


def seconds(arguments: list[str], environment: dict[str, str]) -> dict[str, float]:
    """Return the duration of a process, its CPU time, and the duration of the call that it measured."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(arguments, env=environment, check=True, capture_output=True, text=True)
    whole, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    call = float(done.stdout) if arguments[1] == "-c" else whole
    return {"process": whole, "call": call, "CPU": cpu}


def measure(options: argparse.Namespace, environment: dict[str, str]) -> dict[str, list[dict[str, float]]]:
    """Return the durations of each way to run the same batch, measured in turn."""
    ways = {
        "command": lambda out: [options.command, "batch", "s3://bucket/era/*.nc", "--concat-dim", "time", "-o", out],
        "Python": lambda out: [sys.executable, "-c", RUN.replace("EVENTS", "None"), out, str(options.files)],
        "Python, on_event": lambda out: [
            sys.executable, "-c", RUN.replace("EVENTS", "lambda event: None"), out, str(options.files)
        ],
    }  # fmt: skip
    found: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
    for round_ in range(options.rounds + 1):
        for name, way in ways.items():
            with tempfile.TemporaryDirectory() as folder:
                took = seconds(way(f"{folder}/out.json"), environment)
            # The first round fills caches of the operating system.
            if round_:
                found[name].append(took)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--latency", type=float, default=30)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--command", default=str(Path(sys.executable).parent / "virtualize"))
    options = parser.parse_args()
    arguments = [sys.executable, "-c", SERVER, sys.path[-1], str(options.files), str(options.latency)]
    server = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    endpoint = {"AWS_ENDPOINT_URL": server.stdout.readline().strip(), "AWS_ALLOW_HTTP": "true"}
    credentials = {"AWS_REGION": "us-east-1", "AWS_SKIP_SIGNATURE": "true"}
    found = measure(options, {**os.environ, **endpoint, **credentials})
    server.communicate()
    for what in ("process", "call", "CPU"):
        base = [took[what] for took in found["command"]]
        for name, rounds in found.items():
            times = [took[what] for took in rounds]
            ratios = " ".join(f"{took / of:.2f}" for took, of in zip(times, base, strict=True))
            median = statistics.median(times)
            print(f"{what:8} {name:17} {median:6.2f} s, {median / statistics.median(base):5.2f}; each round {ratios}")


if __name__ == "__main__":
    main()
