"""Random sequences of `batch` commands with changing files and outputs, some of them killed, checked against a model of the output. A killed run can
have reached several states, so the model is a set of possible worlds. Observations eliminate worlds, and one must remain. More sequences:
RANDOM_BATCHES=100."""
import dataclasses, hashlib, itertools, os, random, shutil, signal, subprocess, warnings

import clients
import h5py
import numpy as np
import pytest

SEEDS, STEPS = int(os.environ.get("RANDOM_BATCHES", 3)), 14
NAMES = "abcdef"
pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name != "posix", reason="signals")]


@dataclasses.dataclass(frozen=True)
class File:
    """Knowledge about a file: whether and in which version it was read, and the version in the output."""
    state: str = "pending"
    version: object = None
    written: object = None

    def again(self):
        return dataclasses.replace(self, state="pending")

    def is_written(self):
        return self.state == "done" and self.version == self.written


@dataclasses.dataclass(frozen=True)
class World:
    """A possible content of the journal: files by name, and digests of what it considers its own output."""
    files: tuple = ()
    outputs: frozenset = frozenset()

    def with_files(self, files, **more):
        return dataclasses.replace(self, files=tuple(sorted(files.items())), **more)


def write(path, name, version):
    """Writes a file with one time, which is copied to the output, and values, which are not. Versions differ in both; some are unreadable."""
    path.unlink(missing_ok=True)
    if not good(version):
        path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(50 + version))
    else:
        with h5py.File(path, "w", libver="latest") as f:
            k = NAMES.index(name)
            f["time"] = np.array([1000 * k + version], "i4")
            f["time"].attrs["units"] = "days since 2000-01-01"
            f["time"].make_scale("time")
            f.create_dataset("t", data=np.array([[version, 0.5, k]], "f8"), chunks=(1, 3)).dims[0].attach_scale(f["time"])
    # Different times for different versions, however fast the test runs.
    os.utime(path, ns=(10**18 + version * 10**10,) * 2)


def good(version):
    return version is not None and version % 7 != 6


def digest(path):
    parts = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    return hashlib.sha256(b"".join(str(p).encode() + p.read_bytes() for p in parts)).hexdigest() if parts else None


def held(path):
    """Returns {name: version} of the output as read by xarray. All values of a file must be of one version."""
    import xarray as xr
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with xr.open_dataset(clients.open_store(str(path)), engine="zarr", consolidated=False, decode_times=False, chunks=None) as ds:
            times, values = ds["time"].values, ds["t"].values
    assert (times % 1000 == values[:, 0]).all() and (times // 1000 == values[:, 2]).all(), (times, values)
    return {NAMES[time // 1000]: int(time % 1000) for time in times}


def accepted(world, names, flags, disk, there, is_folder):
    """Returns the files of the journal after the listing; None if the command fails."""
    files, append = dict(world.files), "--append" in flags
    if any(disk.get(name) is None for name in names):
        return None
    if there not in {None, *world.outputs} and "--overwrite" not in flags and (world.outputs or append or is_folder):
        return None
    others = {name: file for name, file in files.items() if name not in names}
    if append:
        done = {name: file for name, file in others.items() if file.state == "done"}
        dropped = {name for name in done if disk.get(name) is None}
        changed = {name for name, file in done.items() if disk.get(name) not in (None, file.version)}
        if (dropped and "--on-change drop" not in flags) or (changed and not {"--on-change update", "--on-change drop"} & {*flags}):
            return None
        if "--on-change drop" in flags:
            dropped |= {name for name, file in others.items() if not file.is_written()}
        files.update({name: files[name].again() for name in changed})
    else:
        dropped = set(others)
        if any(file.written is not None for file in others.values()) and "--on-change drop" not in flags:
            return None
    for name in names:
        known = files.setdefault(name, File())
        if known.version != disk[name]:
            files[name] = known.again()
    if "--on-failure retry" in flags:
        files = {name: file.again() if file.state == "failed" else file for name, file in files.items()}
    return {name: file for name, file in files.items() if name not in dropped}


def read(file, version):
    """Returns a file after it was read in its current version, if it needs reading."""
    return dataclasses.replace(file, state="done" if good(version) else "failed", version=version) if file.state == "pending" else file


def finished(world, files, flags, disk, after):
    """Returns (content of the output, or None if the run fails; the world) after an undisturbed run."""
    files = {name: read(file, disk.get(name)) for name, file in files.items()}
    holds = {name: file.version for name, file in files.items() if file.state == "done"}
    if not holds or (len(holds) < len(files) and "--on-failure skip" not in flags):
        return None, world.with_files(files)
    files = {name: dataclasses.replace(file, written=holds.get(name)) for name, file in files.items()}
    return holds, world.with_files(files, outputs=frozenset({after}))


def partly(world, files, disk):
    """Yields the worlds in which some of the files were read."""
    pending = [name for name, file in files.items() if file.state == "pending"]
    some = itertools.chain.from_iterable(itertools.combinations(pending, count) for count in range(len(pending) + 1))
    return {world.with_files({**files, **{name: read(files[name], disk.get(name)) for name in done}}) for done in some}


@pytest.mark.parametrize("name", ["out.json", "out.parquet"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_any_sequence_of_runs(tmp_path, seed, name):
    choose = random.Random(f"{seed} {name}")
    folder, output = tmp_path / "files", tmp_path / name
    folder.mkdir()
    versions, disk, saved = itertools.count(1), {}, None
    for file in NAMES[:4]:
        disk[file] = next(versions)
        write(folder / file, file, disk[file])
    worlds = {World()}
    for step in range(STEPS):
        what = choose.choices(["run", "kill", "replace", "remove", "damage", "forget", "save", "restore"], [10, 5, 3, 2, 2, 1, 1, 1])[0]
        reported = f"seed {seed}, step {step}: {what}"
        if what == "replace":
            file = choose.choice(NAMES)
            disk[file] = next(versions)
            write(folder / file, file, disk[file])
        elif what == "remove":
            file = choose.choice(NAMES)
            disk.pop(file, None)
            (folder / file).unlink(missing_ok=True)
        elif what == "damage":
            damage(output, choose)
        elif what == "forget":
            for path in tmp_path.glob(f"{name}.journal*"):
                path.unlink()
            worlds = {World()}
        elif what == "save":
            saved = worlds, {path.name: path.read_bytes() for path in tmp_path.glob(f"{name}.journal*")}
        elif what == "restore" and saved:
            for path in tmp_path.glob(f"{name}.journal*"):
                path.unlink()
            for path, text in saved[1].items():
                (tmp_path / path).write_bytes(text)
            worlds = saved[0]
        elif what in ("run", "kill"):
            flags = [flag for flag, often in {"--append": 0.6, "--overwrite": 0.3}.items() if choose.random() < often]
            flags += [f"--{name} {value}" for name, values in {"on-change": ("update", "drop", None), "on-failure": ("retry", "skip", None)}.items()
                      if (value := choose.choice(values))]
            names = choose.sample(sorted(disk), choose.randint(1, min(3, len(disk)))) if disk and choose.random() < 0.95 else [choose.choice(NAMES)]
            moment = choose.choice([choose.uniform(0, 0.05), choose.uniform(0, 0.4)]) if what == "kill" else None
            worlds = run(worlds, names, flags, disk, folder, output, moment, f"{reported} {names} {flags}")
    # The next run removes what killed runs left.
    run(worlds, NAMES[:1], ["--overwrite"], disk, folder, output, None, "the last run")
    assert not [path for path in tmp_path.glob(".virtualize-*") if not (path / "whole").exists()]


def damage(output, choose):
    """Removes the output or replaces it with another one."""
    parts = [output] if output.is_file() else sorted(p for p in output.rglob("*") if p.is_file()) if output.is_dir() else []
    if not parts:
        return
    part, how = choose.choice(parts), choose.choice(["gone", "short", "other"])
    if how == "gone" and choose.random() < 0.5 and output.is_dir():
        shutil.rmtree(output)
    elif how == "gone":
        part.unlink()
        for above in itertools.takewhile(lambda above: above != output.parent, part.parents):
            if not any(above.iterdir()):
                above.rmdir()
    else:
        part.write_bytes(part.read_bytes()[:20] if how == "short" else b"x" * part.stat().st_size)


def run(worlds, names, flags, disk, folder, output, moment, reported):
    """Returns the worlds that remain after a command."""
    there = digest(output)
    arguments = [clients.BINARY, "batch", *(str(folder / name) for name in names), "--concat-dim", "time", "-o", str(output), "--option", "attempts=2", *" ".join(flags).split()]
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        process.wait(moment)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
    messages, status, after = process.communicate()[1], process.returncode, digest(output)
    is_killed, is_folder = status == -signal.SIGKILL, output.suffix == ".parquet"
    has = held(output) if status == 0 or (after is not None and after != there) else None
    left, expected = set(), []
    for world in worlds:
        files = accepted(world, names, flags, disk, there, is_folder)
        holds, final = (None, world) if files is None else finished(world, files, flags, disk, after)
        expected.append(holds)
        if has is not None and has == holds:
            left.add(final)
        elif has is None and not is_killed and holds is None and after == there:
            left.add(final)
        # A folder is replaced in two steps, between which it may be missing.
        elif is_killed and (after == there or (is_folder and after is None)):
            left |= {world} | (set() if files is None else partly(world, files, disk))
            if holds is not None and there in world.outputs and after == there:
                left.add(final)
    assert left, f"{reported}: status {status}, {messages}\nthe output has {has}, expected {expected}\nworlds: {worlds}"
    return left
