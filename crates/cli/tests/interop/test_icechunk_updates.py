"""What commits change in a repository and what they leave alone, compared with icechunk-python, which writes to the same repository, and with a model of
the content."""
import os, random, shutil, subprocess, threading, time, warnings

import clients
import h5py
import icechunk
import numpy as np
import pytest
import xarray as xr
import zarr
from clients import seeds, virtualize



def write(path, times, *, first=0, units="days since 2000-01-01", chunk=None, zlib=True, lat=(10.0, 20.0, 30.0), scale=None):
    """Writes a file with some times, which determine its values."""
    times = np.asarray(times)
    values = (times[:, None] * 10.0 + first + np.arange(3)).astype("f4")
    data = xr.Dataset({"t": (("time", "lat"), values, {"units": "K"} | ({"note": scale} if scale else {}))},
                      {"time": ("time", times.astype("i4"), {"units": units}), "lat": ("lat", np.asarray(lat))})
    encoding = {"t": {"zlib": zlib, "chunksizes": (chunk, 3)} if chunk else {}, "time": {"dtype": "i4"}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for variable in data.variables.values():
            variable.encoding = {}
        data.to_netcdf(path, engine="h5netcdf", encoding=encoding)
    return path


def repository_of(folder):
    storage = icechunk.local_filesystem_storage(str(folder))
    config = icechunk.Repository.fetch_config(storage)
    containers = {prefix: icechunk.Credentials.LocalFileSystemAccess() for prefix in (config and config.virtual_chunk_containers) or {}}
    return icechunk.Repository.open(storage, authorize_virtual_chunk_access=containers)


def dataset_of(folder, branch="main", group=None):
    session = repository_of(folder).readonly_session(branch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return xr.open_zarr(session.store, group=group, consolidated=False, decode_times=False).load()


def foreign(folder, change, message="theirs", branch="main"):
    """Commits with icechunk-python."""
    session = repository_of(folder).writable_session(branch)
    change(session.store)
    return session.commit(message)


def tip(folder, branch="main"):
    return repository_of(folder).lookup_branch(branch)


def batch(*arguments, status=0, cwd=None):
    run = virtualize("batch", *arguments, "--concat-dim", "time", "--quiet")
    assert run.status == status, (status, run.stderr)
    return run


def commit(file, folder, *arguments, status=0):
    run = virtualize(file, "--format", "icechunk", "-o", folder, *arguments)
    assert run.status == status, run.stderr
    return run


def check(folder, times, group=None):
    dataset = dataset_of(folder, group=group)
    assert dataset.time.values.tolist() == list(times)
    assert (dataset.t.values == (np.asarray(times)[:, None] * 10.0 + np.arange(3)).astype("f4")).all()


# ---- appending to archives

@pytest.mark.parametrize("chunk, zlib", [(1, True), (None, False)])
def test_an_append_writes_only_what_is_new(tmp_path, chunk, zlib):
    first = write(tmp_path / "a.nc", range(40), chunk=chunk, zlib=zlib)
    out = tmp_path / "out.icechunk"
    batch(first, "-o", out)
    before = tip(out)
    batch(write(tmp_path / "b.nc", range(40, 64), chunk=1, zlib=zlib) if chunk else write(tmp_path / "b.nc", range(40, 80)), "-o", out, "--append")
    check(out, range(64 if chunk else 80))
    difference = repository_of(out).diff(from_snapshot_id=before, to_snapshot_id=tip(out))
    chunks = {path: sorted(tuple(c) for c in coords) for path, coords in difference.updated_chunks.items()}
    new = [(n, 0) for n in range(40, 64)] if chunk else [(1, 0)]
    assert chunks == {"/t": new, "/time": [(0,)]}
    assert set(difference.updated_arrays) == {"/t", "/time"}
    assert not (difference.new_arrays or difference.deleted_arrays or difference.new_groups or difference.deleted_groups or difference.updated_groups)


def test_arrays_groups_and_attributes_of_others_stay(tmp_path):
    out = tmp_path / "out.icechunk"
    batch(write(tmp_path / "05.nc", [5], chunk=1), write(tmp_path / "06.nc", [6], chunk=1), "-o", out)

    def theirs(store):
        root = zarr.open_group(store, mode="r+")
        root.create_array("mask", shape=(2, 3), chunks=(1, 3), dtype="u1")[:] = [[1, 2, 3], [4, 5, 6]]
        root.create_group("others").create_array("x", shape=(2,), dtype="i4")[:] = [7, 8]
        root.attrs["who"] = "them"
        root["t"].attrs["quality"] = "good"

    foreign(out, theirs)
    for n, day in enumerate((8, 11, 12)):
        batch(write(tmp_path / f"{day:02}.nc", [day], chunk=1), "-o", out, "--append")
        root = zarr.open_group(repository_of(out).readonly_session("main").store, mode="r")
        assert root["mask"][...].tolist() == [[1, 2, 3], [4, 5, 6]] and root["others/x"][...].tolist() == [7, 8]
        assert root.attrs["who"] == "them" and root["t"].attrs["quality"] == "good"
        assert root["time"][...].tolist() == [5, 6, 8, 11, 12][:3 + n] and root["t"][-1, 0] == 10 * day
    # An inserted file moves chunks. Nodes of other writers stay even then.
    batch(write(tmp_path / "07.nc", [7], chunk=1), "-o", out, "--append")
    root = zarr.open_group(repository_of(out).readonly_session("main").store, mode="r")
    assert root["time"][...].tolist() == [5, 6, 7, 8, 11, 12] and root["t"][:, 0].tolist() == [50, 60, 70, 80, 110, 120]
    assert root["mask"][...].tolist() == [[1, 2, 3], [4, 5, 6]] and root.attrs["who"] == "them" and root["t"].attrs["quality"] == "good"


def test_chunks_that_others_wrote_are_not_overwritten(tmp_path):
    out = tmp_path / "out.icechunk"
    files = [write(tmp_path / f"{k}.nc", [k], chunk=1) for k in range(4)]
    batch(*files[:3], "-o", out)
    foreign(out, lambda store: zarr.open_array(store, path="t", mode="r+").__setitem__((1, slice(None)), [-1, -2, -3]))
    before = tip(out)
    for arguments in ((files[3], "--append"), files[:3]):
        assert "/t differs from the last commit of this dataset: other writers changed its chunks" in batch(*arguments, "-o", out, status=1).stderr
        assert tip(out) == before
    batch(*files, "-o", out, "--overwrite")
    check(out, range(4))


@pytest.mark.parametrize("change, reason", [
    ("an array resized", "/t differs from"), ("an array removed", "/t differs from"), ("units", "attribute units"),
    ("the branch reset", "does not contain snapshot"), ("a backup restored", "does not contain snapshot"), ("a coordinate changed", "changed its chunks"),
])
def test_what_others_changed_is_noticed(tmp_path, change, reason):
    out, backup = tmp_path / "out.icechunk", tmp_path / "backup"
    batch(write(tmp_path / "0.nc", [0], chunk=1), "-o", out)
    shutil.copytree(out, backup)
    before = tip(out)
    batch(write(tmp_path / "1.nc", [1], chunk=1), "-o", out, "--append")
    if change == "an array resized":
        foreign(out, lambda store: zarr.open_array(store, path="t", mode="r+").resize((1, 3)))
    elif change == "an array removed":
        foreign(out, lambda store: zarr.open_group(store, mode="r+").__delitem__("t"))
    elif change == "units":
        foreign(out, lambda store: zarr.open_array(store, path="t", mode="r+").attrs.update({"units": "degC"}))
    elif change == "a coordinate changed":
        foreign(out, lambda store: zarr.open_array(store, path="time", mode="r+").__setitem__(0, -7))
    elif change == "the branch reset":
        repository_of(out).reset_branch("main", before)
    else:
        shutil.rmtree(out)
        shutil.copytree(backup, out)
    files = [tmp_path / f"{k}.nc" for k in (0, 1)]
    again = batch(*files, "-o", out, status=1)
    assert reason in again.stderr and "--overwrite" in again.stderr and again.stderr.count("\n") == 1
    now = tip(out)
    run = batch(write(tmp_path / "2.nc", [2], chunk=1), "-o", out, "--append", status=1)
    assert reason in run.stderr and "--overwrite" in run.stderr and run.stderr.count("\n") == 1, run.stderr
    assert tip(out) == now
    batch(*files, tmp_path / "2.nc", "-o", out, "--overwrite")
    check(out, range(3))
    assert "up to date" in virtualize("batch", *files, tmp_path / "2.nc", "-o", out, "--concat-dim", "time").stderr


def test_a_repository_that_is_gone_is_written_again(tmp_path):
    out = tmp_path / "out.icechunk"
    files = [write(tmp_path / f"{k}.nc", [k], chunk=1) for k in range(3)]
    batch(*files[:2], "-o", out)
    shutil.rmtree(out)
    batch(*files[:2], "-o", out)
    check(out, range(2))
    first = list(repository_of(out).ancestry(branch="main"))[-1].id
    repository_of(out).reset_branch("main", first)
    batch(files[2], "-o", out, "--append")
    check(out, range(3))


def test_a_copied_journal_does_not_append_twice(tmp_path):
    out, journal, copy = tmp_path / "out.icechunk", tmp_path / "one.journal", tmp_path / "two.journal"
    files = [write(tmp_path / f"{k}.nc", [k], chunk=1) for k in range(4)]
    batch(*files[:2], "-o", out, "--journal", journal)
    before = shutil.copy(journal, tmp_path / "before.journal")
    batch(files[2], "-o", out, "--append", "--journal", journal)
    for arguments in ((files[3], "--append"), (files[2], "--append"), files[:2]):
        shutil.copy(before, copy)
        assert "differs from the last commit" in batch(*arguments, "-o", out, "--journal", copy, status=1).stderr
    batch(files[3], "-o", out, "--append", "--journal", journal)
    check(out, range(4))


def test_an_array_of_others_along_the_dimension_is_not_left_shorter(tmp_path):
    out = tmp_path / "out.icechunk"
    batch(write(tmp_path / "0.nc", [0], chunk=1), "-o", out)

    def theirs(store):
        zarr.open_group(store, mode="r+").create_array("flag", shape=(1,), dtype="u1", dimension_names=["time"])[:] = [9]

    foreign(out, theirs)
    before = tip(out)
    assert "/flag" in batch(write(tmp_path / "1.nc", [1], chunk=1), "-o", out, "--append", status=1).stderr and tip(out) == before
    foreign(out, lambda store: zarr.open_array(store, path="flag", mode="r+").resize((2,)))
    batch(tmp_path / "1.nc", "-o", out, "--append")
    check(out, range(2))
    assert dataset_of(out).flag.values[0] == 9


class Model:
    """A repository, the files in its journal, and the expected content of each snapshot."""

    def __init__(self, folder, seed):
        self.choose, self.folder = random.Random(seed), folder
        self.out, self.journal = folder / "out.icechunk", folder / "out.icechunk.journal"
        self.files, self.next, self.states, self.theirs, self.count = [], 0, {}, {}, 0
        self.saved = None

    def new_file(self):
        start = self.next + self.choose.choice([0, 0, 0, 2])
        n = self.choose.randint(1, 4)
        self.next, self.count = start + n, self.count + 1
        self.files.append((write(self.folder / f"{self.count:03}.nc", range(start, start + n), chunk=1), list(range(start, start + n))))

    def run(self, *more, seconds=None):
        files = [path for path, _ in self.files]
        arguments = files if "--overwrite" in more else files[-1:]
        command = [clients.BINARY, "batch", *map(str, arguments), "-o", str(self.out), "--concat-dim", "time", "--quiet", *more]
        if not self.journal.exists():
            command.remove("--append")
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                process.kill()
            return process.wait(), process.stderr.read().decode()

    def holds(self):
        """Checks that the content equals that of the model."""
        times = [t for _, part in self.files for t in part]
        check(self.out, times)
        self.see()

    def see(self):
        root = zarr.open_group(repository_of(self.out).readonly_session("main").store, mode="r")
        for name, values in self.theirs.items():
            assert root[name][...].tolist() == values, name
        self.states[tip(self.out)] = dict(self.theirs)

    def append(self):
        self.new_file()
        status, messages = self.run("--append")
        assert status == 0, messages

    def killed(self):
        self.new_file()
        while self.run("--append", seconds=self.choose.uniform(0.05, 0.6))[0] == -9:
            pass
        status, messages = self.run("--append")
        assert status == 0, messages

    def add(self):
        name = f"{self.choose.choice(['mask', 'g/h/mask'])}{len(self.theirs)}"
        values = [self.choose.randrange(256) for _ in range(5)]
        self.theirs[name] = values
        foreign(self.out, lambda store: zarr.open_group(store, mode="a").create_array(
            name, shape=(5,), chunks=(2,), dtype="u1", dimension_names=["m"]).__setitem__(slice(None), values))

    def refused(self):
        before = tip(self.out)
        self.new_file()
        status, messages = self.run("--append")
        assert status == 1 and tip(self.out) == before and messages.count("\n") == 1, messages
        status, messages = self.run("--overwrite")
        assert status == 0, messages

    def reset(self):
        """Resets the branch to an older snapshot than our last one."""
        log = [s.id for s in repository_of(self.out).ancestry(branch="main")]
        ours = [s for s in log if s in self.states and self.states[s] is not None]
        if len(ours) < 3:
            return self.append()
        repository_of(self.out).reset_branch("main", ours[2])
        self.theirs = dict(self.states[ours[2]])
        marks = {s.id: "virtualize-batch" in s.metadata for s in repository_of(self.out).ancestry(snapshot_id=log[0])}
        lost = log[:log.index(ours[2])]
        (self.refused if any(marks[s] for s in lost) else self.append)()

    def restore(self):
        backup = self.folder / "backup"
        if not backup.exists():
            shutil.copytree(self.out, backup)
            self.saved = dict(self.theirs)
            return self.append()
        shutil.rmtree(self.out)
        shutil.move(backup, self.out)
        self.theirs = self.saved
        self.refused()

    def remove(self):
        foreign(self.out, lambda store: zarr.open_group(store, mode="r+").__delitem__("t"))
        self.refused()

    def copied_journal(self):
        other = self.folder / "other.journal"
        shutil.copy(self.journal, other)
        self.append()
        extra = write(self.folder / "extra.nc", [self.next + 100], chunk=1)
        before = tip(self.out)
        run = virtualize("batch", extra, "-o", self.out, "--concat-dim", "time", "--append", "--journal", other)
        assert run.status == 1 and tip(self.out) == before, run.stderr
        os.remove(other)

    def lose(self):
        shutil.rmtree(self.out)
        self.theirs, self.states = {}, {}
        shutil.rmtree(self.folder / "backup", ignore_errors=True)
        self.append()


@pytest.mark.parametrize("seed", seeds("RANDOM_REPOSITORIES", 3, 1))
def test_at_random(tmp_path, seed):
    model = Model(tmp_path, seed)
    model.append()
    model.holds()
    steps = ["append", "append", "killed", "add", "add", "reset", "restore", "remove", "copied_journal", "lose"]
    for _ in range(10):
        step = model.choose.choice(steps)
        getattr(model, step)()
        model.holds()


# ---- modification times, branches, concurrent commits

@pytest.mark.parametrize("ns", [0, 1, 400_000, 999_999, 1_000_000, 1_000_001, 999_999_999])
def test_files_open_whatever_fraction_of_a_second_they_are_of(tmp_path, ns):
    file = write(tmp_path / "a.nc", [0, 1], chunk=1)
    os.utime(file, ns=(0, 1_704_067_200_000_000_000 + ns))
    commit(file, tmp_path / "repo")
    check(tmp_path / "repo", [0, 1])
    batch(file, "-o", tmp_path / "out.icechunk")
    check(tmp_path / "out.icechunk", [0, 1])
    os.utime(file, ns=(0, 1_704_067_202_000_000_000))
    with pytest.raises(Exception, match="changed|checksum|Precondition|precondition|modified"):
        check(tmp_path / "repo", [0, 1])


def test_a_branch_is_made_with_a_new_repository(tmp_path):
    out = tmp_path / "repo"
    commit(write(tmp_path / "a.nc", [0], chunk=1), out, "--branch", "dev")
    assert repository_of(out).list_branches() == {"main", "dev"}
    assert dataset_of(out, branch="dev").time.size == 1
    assert "does not exist" in commit(tmp_path / "a.nc", out, "--branch", "prod", status=1).stderr
    commit(tmp_path / "a.nc", out)
    check(out, [0])
    batch(tmp_path / "a.nc", "-o", tmp_path / "b.icechunk", "--branch", "dev")
    batch(write(tmp_path / "b.nc", [1], chunk=1), "-o", tmp_path / "b.icechunk", "--branch", "dev", "--append")
    assert dataset_of(tmp_path / "b.icechunk", branch="dev").time.size == 2


def at_once(commands):
    runs = [None] * len(commands)

    def one(n):
        runs[n] = virtualize(*commands[n])

    threads = [threading.Thread(target=one, args=(n,)) for n in range(len(commands))]
    [t.start() for t in threads]
    [t.join() for t in threads]
    return runs


def test_groups_are_committed_to_a_new_repository_at_once(tmp_path):
    out, file = tmp_path / "repo", write(tmp_path / "a.nc", [0, 1], chunk=1)
    runs = at_once([(file, "--format", "icechunk", "-o", out, "--group", f"g{n}") for n in range(5)])
    assert [run.status for run in runs] == [0] * 5, [run.stderr for run in runs]
    for n in range(5):
        check(out, [0, 1], group=f"g{n}")
