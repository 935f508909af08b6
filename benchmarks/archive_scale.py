"""Measures how a run over many files scales: import of parts, plan, join and output, with generated parts, so that no files are needed.

usage: archive_scale.py BINARY GENERATOR [--folder FOLDER] [--only NAME …] [--large]

BINARY is the command; GENERATOR is the example generate_parts of crates/archive. `--large` (or VIRTUALIZE_BENCH_LARGE=1) adds 10,000,000 files, which
take about 20 GB of disk and an hour. Prints the table of docs/archive.md.
"""
import argparse, json, os, pathlib, shutil, subprocess, sys, tempfile, time

sys.path.append(str(pathlib.Path(__file__).resolve().parent))
from archive_files import generate, template

MANY = 24 * 5 * 2
# Name, files, chunks of a file, extension of the output, limits of seconds and of MB (None: no target).
RUNS = [
    ("one chunk, Parquet", 10_000, 1, ".parquet", None, None),
    ("one chunk, Parquet", 100_000, 1, ".parquet", None, None),
    ("one chunk, Parquet", 1_000_000, 1, ".parquet", 60, 1000),
    ("one chunk, JSON", 1_000_000, 1, ".json", 60, 1000),
    ("240 chunks, Parquet", 10_000, MANY, ".parquet", None, None),
    ("240 chunks, Parquet", 100_000, MANY, ".parquet", None, 1000),
    ("240 chunks, Icechunk", 100_000, MANY, ".icechunk", None, 2000),
]
LARGE = [("one chunk, Parquet", 10_000_000, 1, ".parquet", None, 4000)]


def measure(command, log):
    """Runs a command. Returns its duration, its peak of memory in MB, and the seconds of its phases."""
    start = time.time()
    process = subprocess.Popen([*command, "--json-log", log, "--quiet"], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.time() - start
    if status != 0:
        sys.exit(f"failed: {' '.join(command)}")
    return seconds, usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime, phases(log, start, start + seconds)


def phases(log, start, end):
    """Returns the seconds until the listing was complete, the parts were imported, and the output was begun; and those until the end."""
    last = {}
    with open(log) as lines:
        for event in map(json.loads, lines):
            name = event["event"]
            if name == "listed" and not event["complete"]:
                continue
            last[name] = event["time"]
    times = [start, *(last[name] for name in ("listed", "imported", "eras", "writing") if name in last), end]
    names = [name for name in ("listing", "import", "plan", "join") if {"listing": "listed", "import": "imported", "plan": "eras", "join": "writing"}[name] in last]
    return {name: after - before for name, before, after in zip([*names, "output"], times, times[1:])}


def size(path):
    """Returns the size of a file or folder in bytes."""
    return sum(f.stat().st_size for f in path.rglob("*") if f.is_file()) if path.is_dir() else path.stat().st_size


def row(binary, generator, folder, run):
    name, files, chunks, extension, most_seconds, most_memory = run
    zarr = "v3" if extension in (".icechunk", ".zarr") else "v2"
    parts = generate(generator, folder, template(folder, chunks), files, chunks, zarr)
    with tempfile.TemporaryDirectory(dir=folder) as out:
        output = pathlib.Path(out) / f"all{extension}"
        command = [binary, "batch", "--list", str(parts / "files.jsonl"), "--concat-dim", "time", "-o", str(output), "--plan", str(parts / "plan"),
                   "--parts", f"{parts}/parts/"]
        seconds, memory, cpu, by_phase = measure(command, f"{out}/log")
        journal, written = size(pathlib.Path(f"{output}.journal")), size(output)
    missed = [what for what, found, most in (("seconds", seconds, most_seconds), ("memory", memory, most_memory)) if most and found > most]
    by_phase = ", ".join(f"{phase} {took:.1f}" for phase, took in by_phase.items())
    print(f"| {name} | {files:,} | {seconds:.1f} ({by_phase}) | {cpu:.1f} | {memory:.0f} MB | {journal / files:.0f} B | {written / files:.0f} B |"
          f"{' missed: ' + ', '.join(missed) if missed else ''}", flush=True)
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("generator")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(".eval/archive"))
    parser.add_argument("--only", nargs="*", default=[], help="runs whose name or number of files contains one of these")
    parser.add_argument("--large", action="store_true", default=bool(os.environ.get("VIRTUALIZE_BENCH_LARGE")))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    runs = RUNS + (LARGE if options.large else [])
    runs = [run for run in runs if not options.only or any(word in f"{run[0]} {run[1]} {run[3]}" for word in options.only)]
    print("| files | number | seconds | CPU | memory | journal, a file | output, a file |\n|---|---|---|---|---|---|---|", flush=True)
    missed = [found for run in runs for found in row(options.binary, options.generator, options.folder, run)]
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
