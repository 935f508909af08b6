"""Scores a tool on public test files: reads what it offers through zarr-python, and compares each array with h5py, or tifffile and GDAL.

usage: score.py CORPUS [--tool virtualize] [--kind hdf5|tiff] [--sample 0.15] [--only TEXT] [--jobs 2] [--seconds 60] [--reasons N] [--out FILE.jsonl]

CORPUS is the folder of fetch_corpus.py. VIRTUALIZE_BIN names the command, and VIRTUALIZE_FORMAT its format: kerchunk-json or zarr3-json.
Verdict of each array that the oracle reads:

- ok: equal values
- wrong: read without complaint, but other values
- missing: refused, or not offered
- read_error: offered, but zarr-python cannot open or read it

A file ends well, or by error (refused), crash or timeout. Prints the verdicts by kind of data, apart for files that are damaged on purpose.
--out writes a line of JSON for each array and file.
"""
import argparse, collections, contextlib, json, multiprocessing, os, pathlib, random, re, resource, shutil, sys, tempfile, threading, time
from concurrent.futures import ThreadPoolExecutor

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1])]
import numpy as np

import compare, fetch_corpus, oracle, tools

VERDICTS = ("ok", "wrong", "missing", "read_error")
SECONDS_PER_ARRAY = 5
# Address space of a worker: some tools allocate what a damaged file asks for.
MEMORY = 10 << 30
# What a worker keeps of earlier files must not be blamed on a later one: a file whose worker dies is tried once more with a fresh worker.
FILES_PER_WORKER = 250


def explain(error):
    return " ".join(f"{type(error).__name__}: {error}".split())[:250]


def is_panic(error):
    return type(error).__name__ in ("PanicException", "RustPanic")


def read(array):
    """Reads an array. One that hangs costs an array, not the file."""
    if isinstance(array, Exception):
        raise array
    if array.size * max(array.dtype.itemsize, 1) > 8 * oracle.MAX_BYTES:
        raise ValueError(f"{array.shape} is too large")
    result = []

    def run():
        try:
            result.append(np.asarray(array[...]))
        except BaseException as error:
            result.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(SECONDS_PER_ARRAY)
    if not result:
        raise TimeoutError(f"no end after {SECONDS_PER_ARRAY} s")
    if isinstance(result[0], BaseException):
        raise result[0]
    return result[0]


def judge(truth, array, kind):
    """Returns the verdict of an array, its reason, and how the fill value is."""
    fill = None
    if truth.fill is not None and truth.category == "numeric" and not isinstance(array, Exception):
        try:
            fill = "null" if array.fill_value is None else "ok" if compare.equal_fill(truth.fill, array.fill_value) else "wrong"
        except Exception:
            fill = "wrong"
    # An array without elements may be shown as an empty or single one, or refused.
    if truth.values[0] is None:
        return "ok" if isinstance(array, Exception) or array.size <= 1 else "wrong", "null dataspace", fill
    try:
        got = read(array)
    except BaseException as error:
        return "read_error", explain(error), fill
    try:
        if kind == "hdf5":
            equal = compare.equal_arrays(truth.values[0], got, truth.ignore_spaces)
        else:
            equal = any(compare.equal_image(values, got, truth.tolerance) for values in truth.values)
    except Exception as error:
        return "wrong", f"not comparable: {explain(error)}", fill
    expected = truth.values[0]
    return "ok" if equal else "wrong", "" if equal else f"{expected.dtype} {expected.shape} read as {got.dtype} {got.shape}", fill


def image_path(name):
    """The IFD that a name of an array means, such as `band_data`, `2/band_data` and `0/1/band_data`."""
    if name.strip("/") == "band_data":
        return "0"
    match = re.fullmatch(r"/?(?:ifd|page|image)?[-_/]?(\d+)(?:[./](?:sub)?(\d+))?(?:/\w+)?", name, re.IGNORECASE)
    return match and ".".join(filter(None, match.groups()))


def has_shape(values, array):
    """Whether an array may be an image, by the lengths of its axes in any order."""
    lengths = [sorted(length for length in shape if length != 1) for shape in (values.shape, array.shape)]
    return lengths[0] == lengths[1]


def score_file(file, kind, tool, report):
    """Scores a file, and reports each step as a tuple, so that a process that dies leaves what it found."""
    try:
        truths = {truth.path: truth for truth in oracle.read(file, kind)}
    except Exception:
        truths = None
    report("truths", None if truths is None else [(truth.path, truth.category) for truth in truths.values()])
    pending, others = dict(truths or {}), []
    aliases = {alias: truth.path for truth in pending.values() for alias in truth.aliases}
    why = "not offered"
    try:
        for name, array in tools.TOOLS[tool][0](file, None if truths is None else list(truths)):
            path = next((path for path in (name, aliases.get(name), image_path(name) if kind == "tiff" else None) if path in pending), None)
            is_refused = isinstance(array, Exception) and not isinstance(array, tools.Unopenable)
            if path is None:
                others += [] if is_refused else [(name, array)]
            elif is_refused:
                report("verdict", pending.pop(path).path, "missing", explain(array), None)
            else:
                report("begin", path)
                report("verdict", path, *judge(pending.pop(path), array, kind))
    except BaseException as error:
        why = explain(error)
        report("crash" if isinstance(error, tools.Crash) or is_panic(error) else "error", why)
    for path, truth in pending.items():
        # Images under names of the tool's own: one that is not taken and equal, else one of that shape.
        candidates = [other for other in others if kind == "tiff" and not isinstance(other[1], Exception) and has_shape(truth.values[0], other[1])]
        verdicts = []
        for candidate in candidates:
            verdicts.append(judge(truth, candidate[1], kind))
            if verdicts[-1][0] == "ok":
                others.remove(candidate)
                break
        report("verdict", path, *(verdicts[-1] if verdicts and verdicts[-1][0] == "ok" else verdicts[0] if verdicts else ("missing", why, None)))
    if truths is None:
        # Reading what is offered of a file that the oracle cannot open must at least end well.
        for _, array in others[:50]:
            try:
                read(array)
            except BaseException as error:
                if is_panic(error):
                    report("crash", explain(error))


def work(connection, tool, folder):
    """Scores the files that arrive over a connection."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(1, 2)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    tools.register_codecs(tool)
    connection.send(("ready",))
    while message := connection.recv():
        source, kind = message
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            # A plain name, alone in its folder, so that no tool trips over the name or its neighbours.
            file = f"{temporary}/file.{'h5' if kind == 'hdf5' else 'tif'}"
            shutil.copyfile(source, file)
            score_file(file, kind, tool, lambda *step: connection.send(step))
        connection.send(("end",))


class Worker:
    """A process that scores files, until it dies or hangs."""

    def __init__(self, tool, folder):
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs, tool, folder), daemon=True)
        self.process.start()
        theirs.close()
        self.connection.recv()
        self.files = 0

    def score(self, source, kind, seconds):
        """Returns the steps of a file, the last of which is `end`, `died` or `timeout`."""
        self.files += 1
        steps, deadline = [], time.monotonic() + seconds
        with contextlib.suppress(EOFError, OSError):
            self.connection.send((source, kind))
            while not steps or steps[-1][0] != "end":
                if not self.connection.poll(max(0, deadline - time.monotonic())):
                    return [*steps, ("timeout",)]
                steps.append(self.connection.recv())
            return steps
        return [*steps, ("died",)]

    def stop(self):
        self.process.kill()
        self.process.join()


def score_all(entries, options):
    """Yields each entry with its steps, as workers finish them."""
    idle = []

    def score(entry):
        source = str(fetch_corpus.location(options.corpus, entry))
        while True:
            worker = idle.pop() if idle else Worker(options.tool, folder)
            steps, is_fresh = worker.score(source, entry["kind"], options.seconds), worker.files == 1
            if steps[-1][0] != "end" or worker.files >= FILES_PER_WORKER:
                worker.stop()
            else:
                idle.append(worker)
            if steps[-1][0] == "end" or is_fresh:
                return entry, steps

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        yield from pool.map(score, entries)
        for worker in idle:
            worker.stop()


def rows_of(entry, steps):
    """Returns the result rows of a file and of each of its arrays."""
    base = {name: entry[name] for name in ("kind", "repository", "path")} | {"damaged": bool(entry["damaged"])}
    last = steps[-1][0]
    of_kind = lambda kind: [step[1:] for step in steps if step[0] == kind]
    truths, crashes, errors = of_kind("truths"), of_kind("crash"), of_kind("error")
    verdicts = {path: found for path, *found in of_kind("verdict")}
    begun = of_kind("begin")[-1:]
    rows = []
    for path, category in (truths and truths[0][0]) or []:
        verdict, reason, fill = verdicts.get(path) or ("read_error" if (path,) in begun else "missing", last, None)
        rows.append({**base, "array": path, "category": category, "verdict": verdict, "reason": reason, "fill": fill})
    is_timeout = last == "timeout" or any("timeout:" in why for why, in crashes)
    outcome = "timeout" if is_timeout else "crash" if last == "died" or crashes else "error" if errors else "done"
    return [*rows, {**base, "outcome": outcome, "oracle": bool(truths and truths[0][0] is not None), "reason": next(iter(crashes + errors), ("",))[0]}]


def print_table(rows, title):
    arrays = [row for row in rows if "verdict" in row]
    if not arrays:
        return
    by_category = collections.defaultdict(collections.Counter)
    for row in arrays:
        for category in (row["category"], "all"):
            by_category[category][row["verdict"]] += 1
    print(f"\n| {title} | arrays | {' | '.join(VERDICTS)} |\n|---{'|---' * 5}|")
    for category, found in sorted(by_category.items(), key=lambda item: (item[0] == "all", -item[1].total())):
        cells = [f"{found[verdict]} ({found[verdict] / found.total():.1%})" for verdict in VERDICTS]
        print(f"| {category} | {found.total()} | {' | '.join(cells)} |")
    fills = collections.Counter(row["fill"] for row in arrays if row["fill"])
    if fills:
        print("\nfill values:", ", ".join(f"{count} {name}" for name, count in fills.most_common()))


def print_summary(rows, reasons):
    for kind in ("hdf5", "tiff"):
        mine = [row for row in rows if row["kind"] == kind]
        for damaged in (False, True):
            print_table([row for row in mine if row["damaged"] == damaged], f"{kind}{', files damaged on purpose' if damaged else ''}")
        for is_read in (True, False):
            outcomes = collections.Counter(row["outcome"] for row in mine if row.get("oracle") == is_read)
            if outcomes:
                print(f"\n{kind}, {outcomes.total()} files that the oracle {'opens' if is_read else 'cannot open'}:", ", ".join(f"{count} {name}" for name, count in outcomes.most_common()))
    for verdict in VERDICTS[1:]:
        found = [row for row in rows if row.get("verdict") == verdict and not row["damaged"]]
        counted = collections.Counter(re.sub(r"'?file://\S+|0x[0-9a-f]+|\d+(\.\d+)?", "#", row["reason"])[:150] for row in found)
        for reason, count in counted.most_common(reasons):
            print(f"{verdict}: {count} × {reason}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=pathlib.Path)
    parser.add_argument("--tool", choices=tools.TOOLS, default="virtualize")
    parser.add_argument("--kind", choices=["hdf5", "tiff"])
    parser.add_argument("--sample", type=float, metavar="PART", help="a random part of the files, the same in each run")
    parser.add_argument("--only", metavar="TEXT", help="files whose path contains the text")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60, help="time limit of a file (60); more on a busy machine")
    parser.add_argument("--reasons", type=int, default=0, metavar="N", help="print the N most frequent reasons of each verdict")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    kinds = [options.kind] if options.kind else tools.TOOLS[options.tool][1]
    listed = [entry for entry in fetch_corpus.entries() if entry["kind"] in kinds and (options.only or "") in entry["path"]]
    entries = [entry for entry in listed if fetch_corpus.location(options.corpus, entry).is_file()]
    if options.sample:
        entries = random.Random(0).sample(entries, round(len(entries) * options.sample))
    start = time.monotonic()
    rows = [row for entry, steps in score_all(entries, options) for row in rows_of(entry, steps)]
    if options.out:
        options.out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    print(f"{options.tool}: {len(entries)} of {len(listed)} files in {time.monotonic() - start:.0f} s")
    print_summary(rows, options.reasons)


if __name__ == "__main__":
    main()
