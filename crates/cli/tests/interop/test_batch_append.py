"""Random sequences of `batch --append` commands: after each, the output equals that of one run over all files. More sequences:
RANDOM_APPENDS=100."""
import asyncio, json, os, random, shutil, signal, subprocess

import clients
import h5py
import numpy as np
import pytest

STEPS = 8
OUTPUTS = ["out.json", "out.parquet", "out.zarr", "out.icechunk"]
pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals")


class Archive:
    """Files of consecutive times, whose arrays, attributes and chunks are chosen at random, alike for all files."""

    def __init__(self, folder, choose):
        self.folder, self.choose, self.versions = folder, choose, {}
        self.length = choose.choice([1, 1, 2, 3])
        # Chunks that do not divide the length have their values copied.
        self.chunk = choose.choice([1, self.length, self.length, 2])
        self.data_type = choose.choice(["f4", "i2"])
        self.compression = choose.choice(["gzip", None])
        self.time_type = choose.choice(["f8", "i4", "i8"])
        self.scale = choose.choice([1, 1, 0.5]) if self.time_type == "f8" else 1
        self.attributes = choose.choice([[], ["history"], ["history", "month"]])
        self.has_bounds, self.has_group, self.has_text = (choose.random() < p for p in (0.4, 0.4, 0.2))
        self.is_late_chunked = choose.random() < 0.15
        folder.mkdir()

    def path(self, number):
        return self.folder / f"f{number:03}.nc"

    def write(self, number, version=0, start=None, length=None, units="days since 2000-01-01"):
        length = self.length if length is None else length
        start = number * self.length if start is None else start
        path = self.path(number)
        path.unlink(missing_ok=True)
        with h5py.File(path, "w", libver="latest") as f:
            f.attrs["title"] = "all"
            if "history" in self.attributes:
                f.attrs["history"] = f"written as {number}.{version}"
            if "month" in self.attributes:
                f.attrs["month"] = number // 5
            time = f.create_dataset("time", data=np.arange(start, start + length).astype(self.time_type) * self.scale)
            time.attrs["units"] = units
            time.make_scale("time")
            f["x"] = np.arange(3, dtype="f4")
            f["x"].make_scale("x")
            values = (np.arange(length * 3).reshape(length, 3) + 100 * number + version).astype(self.data_type)
            shape = (3, length) if self.is_late_chunked else (length, 3)
            chunks = (3, min(self.chunk, length)) if self.is_late_chunked else (min(self.chunk, length), 3)
            t = f.create_dataset("t", data=values.reshape(shape), chunks=chunks, compression=self.compression)
            for axis, name in enumerate(("x", "time") if self.is_late_chunked else ("time", "x")):
                t.dims[axis].attach_scale(f[name])
            t.attrs["units"] = "K"
            if "history" in self.attributes:
                t.attrs["comment"] = f"{number}.{version}"
            if self.has_bounds:
                time.attrs["bounds"] = "time_bnds"
                bounds = np.stack([time[:], time[:] + 1], axis=1).astype(self.time_type)
                f.create_dataset("time_bnds", data=bounds).dims[0].attach_scale(time)
            if self.has_text:
                text = f.create_dataset("label", data=[f"{number}-{n}" * (number % 3 + 1) for n in range(length)], dtype=h5py.string_dtype())
                text.dims[0].attach_scale(time)
            if self.has_group:
                f["g/area"] = np.arange(4.0)
        self.versions[number] = self.versions.get(number, 0) + 1
        os.utime(path, ns=(10**18 + self.versions[number] * 10**10 + number,) * 2)


def batch(output, files, *more, moment=None):
    """Runs a batch; returns its status, and what it said."""
    arguments = [clients.BINARY, "batch", *map(str, files), "-o", str(output), "--concat-dim", "time", *more]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, messages = process.communicate(timeout=moment)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        out, messages = process.communicate()
    return process.returncode, out + messages


def contents(output):
    """Returns what an output holds: bytes by name, or for a repository documents and locations of chunks."""
    if output.suffix == ".icechunk":
        return repository(output)
    if output.is_file():
        return {"": output.read_bytes()}
    return {str(path.relative_to(output)): path.read_bytes() for path in sorted(output.rglob("*")) if path.is_file()}


def repository(output):
    import icechunk
    storage = icechunk.local_filesystem_storage(str(output))
    containers = icechunk.Repository.fetch_config(storage).virtual_chunk_containers
    repository = icechunk.Repository.open(storage, authorize_virtual_chunk_access=icechunk.containers_credentials({key: None for key in containers}))
    session = repository.readonly_session("main")

    async def read():
        from zarr.core.buffer import default_buffer_prototype
        found = {}
        async for key in session.store.list():
            value = (await session.store.get(key, default_buffer_prototype())).to_bytes()
            found[key] = json.loads(value) if key.endswith("zarr.json") else value
        return found

    return asyncio.run(read()), sorted(session.all_virtual_chunk_locations())


@pytest.mark.parametrize("name", OUTPUTS)
@pytest.mark.parametrize("seed", clients.seeds("RANDOM_APPENDS", 4))
def test_appended_equals_written_at_once(tmp_path, seed, name):
    choose = random.Random(f"{seed} {name}")
    archive = Archive(tmp_path / "files", choose)
    options = choose.choice([(), (), ("--on-duplicate", "last"), ("--on-duplicate", "first")])
    output, last, listed = tmp_path / name, 0, []

    def new(count, gap=0):
        nonlocal last
        numbers = list(range(last + 1 + gap, last + 1 + gap + count))
        last = numbers[-1]
        for number in numbers:
            archive.write(number)
        return numbers

    listed = new(choose.randint(1, 5), gap=choose.choice([0, 3]))
    status, messages = batch(output, map(archive.path, listed), *options)
    assert status == 0, messages
    for step in range(STEPS):
        what = choose.choices(["next", "several", "late", "replaced", "dropped", "overlapping", "other units", "ragged", "nothing"],
                              [8, 3, 2, 1, 1, 1, 1, 1, 1])[0]
        named, more = [], []
        if what in ("next", "several"):
            named = new(1 if what == "next" else choose.randint(2, 4), gap=choose.choice([0, 0, 0, 2]))
            choose.shuffle(named)
        elif what == "late":
            free = sorted(set(range(last)) - set(listed))
            named = [choose.choice(free)] if free else new(1, gap=1)
            archive.write(named[0])
        elif what == "replaced":
            number = choose.choice(listed)
            archive.write(number, version=step + 1)
            named, more = new(1), ["--on-change", "update"]
        elif what == "dropped" and len(listed) > 1:
            number = choose.choice(listed)
            archive.path(number).unlink()
            listed.remove(number)
            named, more = new(1), ["--on-change", "drop"]
        elif what == "overlapping" and options and archive.chunk == 1:
            named = [last + 1]
            archive.write(last + 1, start=last * archive.length, length=archive.length + 1)
            last += 2
        elif what == "other units":
            named = [last + 1]
            archive.write(last + 1, start=24 * (last + 1) * archive.length, units="hours since 2000-01-01")
            last += 24 + last
        elif what == "ragged":
            named = [last + 1]
            archive.write(last + 1, length=max(1, archive.length - 1))
            last += 1
        elif what == "nothing":
            named = listed[-1:]
        else:
            continue
        listed += [number for number in named if number not in listed]
        reported = f"seed {seed}, step {step}: {what} {named} {more}"
        status, messages = None, ""
        if choose.random() < 0.3:
            while status in (None, -signal.SIGKILL) and choose.random() < 0.8:
                status, messages = batch(output, map(archive.path, named), "--append", *options, *more, moment=choose.uniform(0, 0.3))
        if status in (None, -signal.SIGKILL):
            status, messages = batch(output, map(archive.path, named), "--append", *options, *more)
        fresh = tmp_path / f"fresh{step}" / name
        fresh.parent.mkdir()
        fresh_status, fresh_messages = batch(fresh, map(archive.path, listed), *options)
        assert (status == 0) == (fresh_status == 0), f"{reported}\n{messages}\n{fresh_messages}"
        if status != 0:
            return
        assert contents(output) == contents(fresh), f"{reported}\n{messages}"
        shutil.rmtree(fresh.parent)


def test_restart_does_not_drop_files(tmp_path):
    """A restarted run forgets the files of the output that it would append to."""
    import xarray as xr
    files = []
    for k in range(3):
        files.append(tmp_path / f"{k}.nc")
        xr.Dataset({"a": (("time", "x"), np.full((2, 3), k, "f4"))}, {"time": np.arange(2) + 2 * k}).to_netcdf(files[-1], engine="h5netcdf")
    command = ["batch", "--concat-dim", "time", "-o", tmp_path / "out.json"]
    assert clients.virtualize(*command, *files[:2]).status == 0
    before = (tmp_path / "out.json").read_bytes()
    run = clients.virtualize(*command, files[2], "--append", "--restart")
    assert run.status == 1 and "--restart forgets its files" in run.stderr and (tmp_path / "out.json").read_bytes() == before


@pytest.mark.parametrize("options", [["--group", "g"], ["--branch", "b"], ["--message", "m"], ["--each", "--var", "a=drop"], ["--each", "--on-mismatch", "split"]])
def test_options_without_effect_are_refused(tmp_path, options):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a"] = np.arange(3)
    joined = [] if "--each" in options else ["--stack-dim", "n"]
    run = clients.virtualize("batch", tmp_path / "a.h5", *joined, *options, "-f", "kerchunk-json", "-o", tmp_path / "out")
    assert run.status in (1, 2) and not (tmp_path / "out").exists(), run.stderr
