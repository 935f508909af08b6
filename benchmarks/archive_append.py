"""Measures how long it takes to append one file to archives of 1,000, 100,000 and 1,000,000 files. The files are generated parts, and the listing names
the new file only.

usage: archive_append.py BINARY GENERATOR [--folder FOLDER] [--only NAME …]

BINARY is the command; GENERATOR is the example generate_parts of crates/archive. Prints the table of docs/archive.md.
"""
import argparse, os, pathlib, statistics, subprocess, sys, tempfile, time

sys.path.append(str(pathlib.Path(__file__).resolve().parent))
from archive_files import generate, template

FORMATS = {"Icechunk": (".icechunk", "v3"), "Parquet": (".parquet", "v2"), "Zarr v3": (".zarr", "v3")}
SIZES = [1_000, 100_000, 1_000_000]
# Files that are appended, one after the other.
TIMES = 3
# The largest archive may take this many times as long as the smallest.
FACTOR = 2


def run(command):
    """Runs a command; returns its duration and its peak of memory in MB."""
    start = time.perf_counter()
    process = subprocess.Popen([*command, "--quiet"], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"failed: {' '.join(command)}")
    return time.perf_counter() - start, usage.ru_maxrss / 1024


def appended(options, name, files):
    """Returns the durations of appending a file to an archive, the peak of memory, and the duration of writing the archive."""
    extension, zarr = FORMATS[name]
    file = template(options.folder, 1)
    with tempfile.TemporaryDirectory(dir=options.folder) as out:
        output = f"{out}/all{extension}"

        def batch(parts, *more):
            return run([options.binary, "batch", "--list", str(parts / "files.jsonl"), "--concat-dim", "time", "-o", output, "--plan",
                        str(parts / "plan"), "--parts", f"{parts}/parts/", *more])

        first, _ = batch(generate(options.generator, options.folder, file, files, 1, zarr))
        new = [generate(options.generator, options.folder, file, 1, 1, zarr, files + n) for n in range(TIMES)]
        found = [batch(parts, "--append") for parts in new]
    return [seconds for seconds, _ in found], max(memory for _, memory in found), first


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("generator")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(".eval/archive"))
    parser.add_argument("--only", nargs="*", default=list(FORMATS), choices=FORMATS)
    parser.add_argument("--most", type=int, default=max(SIZES), help="number of files of the largest archive")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    print("| output | files | seconds to write them | seconds to append one | memory |\n|---|---|---|---|---|", flush=True)
    missed = False
    for name in options.only:
        all_seconds = []
        for files in (size for size in SIZES if size <= options.most):
            seconds, memory, first = appended(options, name, files)
            all_seconds.append(statistics.median(seconds))
            print(f"| {name} | {files:,} | {first:.1f} | {all_seconds[-1]:.2f} | {memory:.0f} MB |", flush=True)
        if max(all_seconds) > FACTOR * min(all_seconds):
            print(f"| {name} | missed: one takes {max(all_seconds) / min(all_seconds):.1f} times as long as another | | | |", flush=True)
            missed = True
    sys.exit(missed)


if __name__ == "__main__":
    main()
