"""Calls to the file system that fail, one after the other, and losses of power (faults/faults.c), for each command and option that writes. Afterwards:

- an output is the old one or the new one, whole
- the error is one line
- the same command finishes with the result of an undisturbed run
- an output of a command that succeeded survives a loss of power

FAULTS=500 tries up to 500 calls of each command; by default it is a random sample."""
import contextlib, errno, os, pathlib, random, re, shutil, sqlite3, subprocess, sys, warnings

import clients
import pytest
from test_batch import day

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not sys.platform.startswith("linux"), reason="seccomp")]
SAMPLE = int(os.environ.get("FAULTS", 3))
SOURCE = pathlib.Path(__file__).parent / "faults" / "faults.c"
TIME = "--concat-dim", "time", "--quiet"
# What a run may leave behind: locks, temporary files, and the journal.
BESIDE = ".virtualize-", ".virtualize.", ".journal"


@pytest.fixture(scope="session")
def faults(tmp_path_factory):
    """The program that makes calls fail."""
    made = tmp_path_factory.mktemp("faults") / "faults"
    subprocess.run(["cc", "-O1", "-Wall", "-Wextra", "-Werror", "-o", made, SOURCE], check=True)
    tried = subprocess.run([made, "/", made.with_name("log"), "count", "0", "0", "--", "true"], capture_output=True, text=True)
    if tried.returncode == 125:
        pytest.skip(f"containers may forbid notifications of system calls: {tried.stderr}")
    return made


@pytest.fixture(scope="module")
def days(tmp_path_factory):
    folder = tmp_path_factory.mktemp("days")
    return [day(folder / f"d{k}.nc", k) for k in range(4)]


class Scenario:
    """A command that runs in a folder, after others."""

    def __init__(self, output, command, before=()):
        self.output, self.command, self.before = output, command, before


def scenarios(days):
    file = clients.FIXTURES / "hdf5/netcdf4.nc"
    old = clients.FIXTURES / "hdf5/chunked.h5"
    batch = lambda name, files, *more: ("batch", *files, *TIME, "-o", name, *more)
    shards = [batch("o.json", days, "--shard", f"{k}/2", "--journal", f"shards/{k}.journal") for k in (1, 2)]
    found = {
        "json": Scenario("o.json", (file, "-o", "o.json"), [(old, "-o", "o.json")]),
        "zarr3": Scenario("o.zarr", (file, "-o", "o.zarr", "--overwrite"), [(old, "-o", "o.zarr")]),
        "parquet": Scenario("o.parquet", (file, "-o", "o.parquet", "--overwrite"), [(old, "-o", "o.parquet")]),
        "icechunk": Scenario("o.icechunk", (file, "-o", "o.icechunk", "--replace-group"), [(old, "-o", "o.icechunk")]),
        "new icechunk": Scenario("o.icechunk", (file, "-o", "o.icechunk")),
        "convert": Scenario("o.parquet", ("convert", "o.json", "-o", "o.parquet"), [(file, "-o", "o.json")]),
        "each": Scenario("refs", ("batch", *days, "--each", "-o", "refs", "--quiet")),
        "scan": Scenario("s.json", ("scan", *days, "--quiet", "-o", "s.json")),
        "shard": Scenario("shards/1.journal", shards[0]),
        "merge": Scenario("o.json", batch("o.json", days, "--merge", "shards/"), shards),
        "each zarr3": Scenario("refs", ("batch", *days, "--each", "-f", "zarr3", "-o", "refs", "--quiet")),
        "convert zarr3": Scenario("o.zarr", ("convert", "o.json", "-o", "o.zarr"), [(file, "-o", "o.json")]),
        "convert icechunk": Scenario("o.icechunk", ("convert", "o.json", "-o", "o.icechunk"), [(file, "-o", "o.json")]),
        "journal elsewhere": Scenario("o.json", batch("o.json", days, "--journal", "elsewhere")),
    }
    for name in ("o.json", "o.zarr", "o.parquet", "o.icechunk"):
        found[f"batch {name}"] = Scenario(name, batch(name, days))
        found[f"append {name}"] = Scenario(name, batch(name, days, "--append"), [batch(name, days[:2])])
    return found


NAMES = [*scenarios([])]
# Options that write, with the scenarios of each. Standard output is no file.
WRITES = {
    (None, "output"): "json", ("convert", "output"): "convert", ("scan", "output"): "scan", ("batch", "output"): "batch o.json",
    ("batch", "journal"): "journal elsewhere",
}
# Logs, which may lack their end.
OTHER_WRITES = {("batch", "json-log"), ("scan", "json-log")}
READS = {"list", "relative-to", "merge", "config", "token-file", "jwks", "allow", "array", "group"}
# Names of values: those of files and folders, and all others.
PLACES = {"OUT", "FILE", "FILE|URL", "URL|FILE", "JOURNAL", "PATH", "DIR", "FOLDER", "PLACE", "PREFIX"}
OTHERS = set("""ACTION ADDRESS ARRAY AUDIENCE BYTES CLAIM COST DIM=SOURCE DIM FORMAT FROM=TO ID ISSUER K/N KEY=VALUE KEY KIND LOCATION N NAME
    NAME=vary|first|optional|drop ORIGIN PATTERN READER READERS ROLE SECONDS SIZE TEXT TIME TOKEN TYPE URL COORD POLICY LEVEL""".split())


def options():
    """Returns command, name and value of each option that the help lists."""
    help_of = lambda *words: subprocess.run([clients.BINARY, *words, "--help"], capture_output=True, text=True, check=True).stdout
    commands = re.findall(r"^  ([a-z]+) {2,}", help_of().split("Commands:")[1].split("Arguments:")[0], re.M)
    for command in (None, *commands):
        if command != "help":
            yield from ((command, *found) for found in re.findall(r"--([a-z0-9-]+) <([^>]+)>", help_of(*filter(None, [command]))))


def test_every_option_that_writes_is_tried():
    """A new option that names a file or a folder is listed here: with a scenario if it writes."""
    found = set(options())
    assert len(found) > 100 and {value for *_, value in found} <= PLACES | OTHERS
    named = {(command, option) for command, option, value in found if value in PLACES and option not in READS}
    assert named == set(WRITES) | OTHER_WRITES
    assert set(WRITES.values()) <= set(NAMES)


def run(folder, command, *through):
    """Runs a command in a folder, through another program."""
    words = [*map(str, through), clients.BINARY, *map(str, command)]
    done = subprocess.run(words, cwd=folder, capture_output=True, stdin=subprocess.DEVNULL, timeout=120)
    return clients.Run(done.returncode, done.stdout, done.stderr.decode("utf-8", "replace"))


def succeed(folder, command):
    done = run(folder, command)
    assert done.status == 0, done.stderr


def content(folder, output):
    """Returns what readers see of an output: its bytes, or the commits and arrays of a repository. `None` if there is nothing."""
    path = folder / output
    if path.suffix == ".icechunk":
        return repository(path)
    if path.name == "1.journal":
        return shard(path)
    if path.is_file():
        return {"": path.read_bytes()}
    found = {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*"))
             if p.is_file() and not any(part.startswith(BESIDE) for part in p.relative_to(path).parts)}
    return found or None


def shard(path):
    """Returns the chunks of the files of a shard, if it is complete."""
    if not path.exists() or any(path.with_name(f"{path.name}-{end}").exists() for end in ("wal", "journal")):
        return None
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as journal:
        try:
            seal = journal.execute("SELECT value FROM facts WHERE name = 'seal'").fetchall()
            return {"": journal.execute("SELECT url, chunks FROM files JOIN chunks ON file = files.id ORDER BY 1, node").fetchall()} if seal else None
        except sqlite3.DatabaseError:
            return None


def repository(path):
    import icechunk
    import numpy as np
    import zarr
    storage = icechunk.local_filesystem_storage(str(path))
    if not path.exists() or not icechunk.Repository.exists(storage):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        containers = icechunk.Repository.fetch_config(storage)
        containers = containers.virtual_chunk_containers if containers else {}
        repo = icechunk.Repository.open(storage, authorize_virtual_chunk_access=icechunk.containers_credentials({key: None for key in containers}))
        commits = len(list(repo.ancestry(branch="main")))
        if commits == 1:
            return None
        root = zarr.open_group(repo.readonly_session("main").store, mode="r")
        arrays = {name: np.asarray(array[...]).tobytes() for name, array in root.members(max_depth=None) if isinstance(array, zarr.Array)}
    return {"": commits, **arrays}


def copied(template, folder):
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(template, folder)
    return folder


def calls_of(log):
    """Returns the calls that the program logged: name, effect, inode, path, and what they write: offset and bytes, if it is known."""
    written, at, calls = log.with_name(f"{log.name}.data"), 0, []
    data = written.read_bytes() if written.exists() else b""
    for line in log.read_text().splitlines():
        _, name, effect, inode, path, offset, length = line.split("\t")
        offset, length = int(offset), int(length)
        calls.append((name, effect, int(inode), path, (offset, data[at:at + length]) if length >= 0 and offset >= 0 else None))
        at += max(length, 0)
    return calls


def contents(folder):
    return {path.lstat().st_ino: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def lose_power(folder, log, before, chance):
    """Drops writes to files after they were last synced: all of them, or all after a random one, which may be cut short. Names survive in the order in
    which they were changed. `before` has the contents before the command."""
    unsynced, before = {}, {**before}
    for _, effect, inode, _, written in calls_of(log):
        if effect == "names" and inode:  # removed: a new file may get the same inode
            unsynced.pop(inode, None), before.pop(inode, None)
        elif effect == "syncs":
            unsynced.pop(inode, None)
        elif effect == "writes":
            unsynced.setdefault(inode, []).append(written)
    for path in folder.rglob("*"):
        inode = path.lstat().st_ino
        if path.is_file() and unsynced.get(inode):
            path.write_bytes(survived(log, inode, before, unsynced[inode], chance))


def survived(log, inode, before, writes, chance):
    """Returns what is left of a file: its synced content, and the first of the later writes."""
    kept = log.with_name(f"{log.name}.{inode}")
    content = bytearray(kept.read_bytes() if kept.exists() else before.get(inode, b""))
    for offset, piece in [] if None in writes else writes[:chance.choice([0, 0, chance.randint(0, len(writes))])]:
        piece = piece[:chance.choice([len(piece)] * 3 + [chance.randint(0, len(piece))])]
        content.extend(bytes(max(offset + len(piece) - len(content), 0)))
        content[offset:offset + len(piece)] = piece
    return bytes(content)


def moments(calls, chance):
    """A sample of the calls, with the last ones, which publish the output."""
    numbers = range(1, calls + 1)
    return numbers if calls <= SAMPLE else sorted(chance.sample(numbers, SAMPLE - 1) + [chance.choice(numbers[-12:])])


@pytest.mark.parametrize("action", ["ENOSPC", "EIO", "EACCES", "full", "short", "kill", "power"])
@pytest.mark.parametrize("name", NAMES)
def test_any_call_may_fail(faults, days, tmp_path, name, action):
    scenario = scenarios(days)[name]
    template, folder, log = tmp_path / "template", tmp_path / "folder", tmp_path / "log"
    folder.mkdir()
    for command in scenario.before:
        succeed(folder, command)
    old = content(folder, scenario.output)
    # Journals name the path of their output: the command runs in the same folder each time.
    copied(folder, template)
    done = run(folder, scenario.command, faults, folder, log, "count", 0, 0, "--")
    assert done.status == 0, done.stderr
    new, calls = content(folder, scenario.output), len(log.read_text().splitlines())
    assert new not in (None, old) and calls
    chance = random.Random(f"{name} {action}")
    for nth in moments(calls, chance):
        copied(template, folder)
        how = {"full": "full", "short": "short", "kill": "kill", "power": "kill"}.get(action, "fail")
        number = getattr(errno, action, errno.ENOSPC)
        before = contents(folder)
        for stale in log.parent.glob(f"{log.name}.*"):  # of a file with the same inode
            stale.unlink()
        done = run(folder, scenario.command, faults, folder, log, how, nth, number, "--")
        if action == "power":
            lose_power(folder, log, before, chance)
        check(folder, scenario, done, old, new, f"{name}, {action} at call {nth}: {called(log, nth)}", partial=name.startswith("each"))


@pytest.mark.parametrize("name", NAMES)
def test_a_success_survives_a_loss_of_power(faults, days, tmp_path, name):
    """At the end, each file is synced, and so is its name: the folder was synced after the name was last changed."""
    scenario, folder, log = scenarios(days)[name], tmp_path / "folder", tmp_path / "log"
    folder.mkdir()
    for command in scenario.before:
        succeed(folder, command)
    before = {path for path in folder.rglob("*")}
    done = run(folder, scenario.command, faults, folder, log, "kill", 0, 0, "--")
    assert done.status == 0, done.stderr
    calls = [(call, effect, inode, pathlib.Path(os.path.normpath(path))) for call, effect, inode, path, _ in calls_of(log)]
    last_sync, last_write, last_name = {}, {}, {}
    for at, (call, effect, inode, path) in enumerate(calls):
        if effect == "syncs":
            last_sync[inode] = last_sync[path] = at
        elif effect == "writes":
            last_write[inode] = at
        elif effect == "names" and (path not in before or not call.startswith(("open", "mkdir"))):
            last_name[path] = at
    assert last_sync and last_name
    for path in (path for path in folder.rglob("*") if not journal_index(path)):
        assert last_write.get(inode := path.lstat().st_ino, -1) <= last_sync.get(inode, -1), f"{path} is not synced"
        assert last_name.get(path, -1) <= last_sync.get(path.parent, -1), f"the name of {path} is not synced"


def journal_index(path):
    """Files of SQLite that it makes anew, and locks."""
    return path.name.endswith(("-shm", "-wal", ".lock")) or path.name.startswith(BESIDE)


def called(log, nth):
    lines = log.read_text().splitlines()
    return lines[nth - 1] if nth <= len(lines) else "none"


def check(folder, scenario, done, old, new, what, partial):
    assert "panicked" not in done.stderr, (what, done.stderr)
    found = content(folder, scenario.output)
    if partial:
        assert (found or {}).items() <= new.items(), what
    else:
        assert found in (old, new), what
    if done.status == 0:
        assert found == new, (what, done.stderr)
    elif done.status != 137:
        errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        assert done.status == 1 and (errors if partial else len(errors) == 1), (what, done.status, done.stderr)
    again = run(folder, scenario.command)
    if found == new and again.status == 1:
        # The output was complete: a folder is not overwritten unasked.
        assert "--overwrite" in again.stderr or "--replace-group" in again.stderr, (what, again.stderr)
    else:
        assert again.status == 0, (what, done.stderr, again.stderr)
    assert content(folder, scenario.output) == new or repeated(folder, scenario, new), (what, again.stderr)
    left = [str(path) for path in folder.rglob(".virtualize-*") if path.name.endswith(".part")]
    # Only what could not be removed.
    assert not left or done.status == 137 or ".part" in what, (what, left)


def repeated(folder, scenario, new):
    """Whether a commit was made once more by the second run: the first run had made it before it was interrupted."""
    found = content(folder, scenario.output)
    return scenario.output.endswith(".icechunk") and {**found, "": None} == {**new, "": None} and found[""] - new[""] in (0, 1)
