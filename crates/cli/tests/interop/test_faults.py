"""Calls to the file system that fail, one after the other, and losses of power (faults/faults.c). Afterwards an output is the old one or the new one, whole,
the error is one line, and the same command finishes with the result of an undisturbed run.

FAULTS=500 tries up to 500 calls of each command; by default it is a random sample."""
import errno, os, pathlib, random, shutil, subprocess, sys, warnings

import clients
import pytest
from test_batch import day

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="seccomp")
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
    found = {
        "json": Scenario("o.json", (file, "-o", "o.json"), [(old, "-o", "o.json")]),
        "zarr3": Scenario("o.zarr", (file, "-o", "o.zarr", "--overwrite"), [(old, "-o", "o.zarr")]),
        "parquet": Scenario("o.parquet", (file, "-o", "o.parquet", "--overwrite"), [(old, "-o", "o.parquet")]),
        "icechunk": Scenario("o.icechunk", (file, "-o", "o.icechunk", "--replace"), [(old, "-o", "o.icechunk")]),
        "new icechunk": Scenario("o.icechunk", (file, "-o", "o.icechunk")),
        "convert": Scenario("o.parquet", ("convert", "o.json", "-o", "o.parquet"), [(file, "-o", "o.json")]),
        "each": Scenario("refs", ("batch", *days, "--each", "-o", "refs", "--quiet")),
        "scan": Scenario("s.json", ("scan", *days, "--quiet", "-o", "s.json")),
        "plan": Scenario("plan.parquet", batch("o.json", days, "--plan", "plan.parquet")),
        "shard": Scenario("1.parquet", batch("o.json", days, "--plan", "plan.parquet", "--shard", "1/2", "--part", "1.parquet"), [batch("o.json", days, "--plan", "plan.parquet")]),
    }
    for name in ("o.json", "o.zarr", "o.parquet", "o.icechunk"):
        found[f"batch {name}"] = Scenario(name, batch(name, days))
        found[f"append {name}"] = Scenario(name, batch(name, days, "--append"), [batch(name, days[:2])])
    return found


NAMES = [*scenarios([])]


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
    if path.name == "1.parquet":  # the part of a shard contains times
        return {"": path.read_bytes()[-4:]} if path.exists() else None
    if path.is_file():
        return {"": path.read_bytes()}
    found = {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file() and not p.name.startswith(BESIDE)}
    return found or None


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


def lose_power(folder, log):
    """Drops what was written to files after they were last synced. Names survive in the order in which they were changed."""
    unsynced = {}
    for line in log.read_text().splitlines():
        _, _, effect, inode, _ = line.split("\t")
        unsynced[int(inode)] = effect == "writes" if effect in ("writes", "syncs") else unsynced.get(int(inode), False)
    for path in folder.rglob("*"):
        inode = path.lstat().st_ino
        if path.is_file() and unsynced.get(inode):
            kept = log.with_name(f"{log.name}.{inode}")
            path.write_bytes(kept.read_bytes() if kept.exists() else b"")


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
        done = run(folder, scenario.command, faults, folder, log, how, nth, number, "--")
        if action == "power":
            lose_power(folder, log)
        check(folder, scenario, done, old, new, f"{name}, {action} at call {nth}: {called(log, nth)}", partial=name == "each")


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
        assert "--overwrite" in again.stderr or "--replace" in again.stderr, (what, again.stderr)
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
