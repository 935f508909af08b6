"""A batch of many files that is killed again and again.

usage: batch.py BINARY [--files 1000000] [--seconds 60] [--folder FOLDER]

The files are hard links to a few NetCDF classic files, and their names are their coordinates. The command is killed (SIGKILL) at random moments, every `--seconds`
on average, and started again until it ends. Its output must equal that of a run that was not interrupted, byte by byte, and refer to each file once, at the bytes
of its array. Prints the number of kills, the size of the journal and the most memory of a run.
"""
import argparse, io, json, os, pathlib, random, re, shutil, signal, subprocess, sys, tempfile, time

import numpy as np
import scipy.io

# File systems limit the links to a file (ext4: 65,000), and folders are listed faster if they are small.
LINKS, FOLDER = 50_000, 10_000
VALUES = 12


def content(seed):
    """Returns a small NetCDF classic file, and the offset of its values."""
    values = np.random.default_rng(seed).random((3, VALUES // 3), dtype="f4").astype(">f4")
    out = io.BytesIO()
    with scipy.io.netcdf_file(out, "w") as file:
        file.createDimension("y", 3)
        file.createDimension("x", VALUES // 3)
        file.createVariable("t", "f4", ("y", "x"))[:] = values
        file.flush()
        found = out.getvalue()
    return found, found.index(values.tobytes())


def generate(folder, files):
    """Writes the files. Returns the offset of the values in each."""
    offset = set()
    for number in range(files):
        if number % FOLDER == 0:
            (folder / f"{number // FOLDER:05}").mkdir(parents=True)
        if number % LINKS == 0:
            original = folder.parent / f"original{number}"
            data, at = content(number)
            original.write_bytes(data)
            offset.add(at)
        os.link(original, folder / f"{number // FOLDER:05}" / f"f{number:08}.nc")
    assert len(offset) == 1
    return offset.pop()


def command(binary, folder, output):
    return [binary, "batch", f"{folder}/*/*.nc", "--stack-dim", "time", "--coord", "time=name:f{time:d}.nc", "--format", "kerchunk-json", "-o", output, "--quiet"]


def run(words, log, until=float("inf")):
    """Runs a command, and kills it after some seconds. Returns its status, its seconds, and its most memory in MiB."""
    start, memory = time.monotonic(), 0
    process = subprocess.Popen(list(map(str, words)), stdout=log, stderr=log)
    while process.poll() is None:
        if time.monotonic() - start > until:
            process.send_signal(signal.SIGKILL)
            process.wait()
            break
        memory = max(memory, peak(process.pid))
        time.sleep(0.05)
    return process.returncode, time.monotonic() - start, memory


def peak(pid):
    """Returns the most memory of a process so far in MiB. (That of `wait4` has the memory of this program, from which the process is forked.)"""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)|$", status)[1] or 0) / 1024


def size(path):
    """Returns the bytes of a file or folder."""
    return sum(one.stat().st_size for one in path.rglob("*") if one.is_file()) if path.is_dir() else path.stat().st_size if path.exists() else 0


def killed(words, journal, seconds, log):
    """Starts a command until it ends. Returns the number of kills, the largest journal, the most memory and the seconds in total."""
    kills, largest, most, total = 0, 0, 0, 0
    while True:
        status, took, memory = run(words, log, random.uniform(0.2, 1.8) * seconds)
        largest, most, total = max(largest, size(journal)), max(most, memory), total + took
        print(f"run {kills + 1}: status {status} after {took:.0f} s, journal {size(journal) / 2**20:.0f} MiB, memory {memory:.0f} MiB", flush=True)
        if status != -signal.SIGKILL:
            assert status == 0, f"exit status {status}"
            return kills, largest, most, total
        kills += 1


def check(output, folder, files, offset):
    """Compares references with the names of the files and the place of their values."""
    references = json.loads(output.read_bytes())["refs"]
    for number in range(files):
        path = folder / f"{number // FOLDER:05}" / f"f{number:08}.nc"
        assert references[f"t/{number}.0.0"] == [path.as_uri(), offset, 4 * VALUES], references.get(f"t/{number}.0.0")
    assert json.loads(references["t/.zarray"])["shape"] == [files, 3, VALUES // 3]
    assert sum(key.startswith("t/") for key in references) == files + 2


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--folder", type=pathlib.Path, help="where to write the files (default: the folder for temporary files)")
    chosen = parser.parse_args()
    top = pathlib.Path(tempfile.mkdtemp(prefix="endurance-batch-", dir=chosen.folder)).resolve()
    folder, log = top / "files", open(top / "log", "wb")
    offset = generate(folder, chosen.files)
    print(f"{chosen.files:,} files in {top}", flush=True)
    interrupted, whole = top / "interrupted.json", top / "whole.json"
    kills, journal, memory, seconds = killed(command(chosen.binary.resolve(), folder, interrupted), top / "interrupted.json.journal", chosen.seconds, log)
    status, undisturbed, memory_of_whole = run(command(chosen.binary.resolve(), folder, whole), log)
    assert status == 0, f"exit status {status}"
    assert interrupted.read_bytes() == whole.read_bytes(), "the outputs differ"
    check(whole, folder, chosen.files, offset)
    print(json.dumps({"files": chosen.files, "kills": kills, "seconds with kills": round(seconds), "seconds without": round(undisturbed), "journal MiB": round(journal / 2**20, 1),
                      "memory MiB with kills": round(memory), "memory MiB without": round(memory_of_whole), "output MiB": round(size(whole) / 2**20, 1)}))
    shutil.rmtree(top)


if __name__ == "__main__":
    sys.exit(main())
