"""Remote arrays that are read step by step along an axis, so that the next steps are read ahead."""

import io
import os
import random
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import virtualize
import zarr
from many_files import SlowS3, bucket
from test_archives_random import served

__all__ = ["served"]

WALKS = int(os.environ.get("WALKS", "8"))
STEPS = 100
KEY = "folder/a.h5"


class Server(SlowS3):
    """A server with one file, which records the ranges that are requested of it."""

    def __init__(self, data: bytes, latency: float = 0.0) -> None:
        super().__init__({KEY: data}, latency)
        self.ranges: list[tuple[int, int]] = []

    @property
    def url(self) -> str:
        return f"{self.env['AWS_ENDPOINT_URL']}/bucket/{KEY}"

    def answer(self, request: Any, with_body: bool) -> None:
        first, _, last = request.headers.get("Range", "bytes=0-0").removeprefix("bytes=").partition("-")
        if first and with_body:
            self.ranges.append((int(first), int(last) + 1))
        super().answer(request, with_body)


def file(seed: int) -> tuple[bytes, dict[str, Any]]:
    """Return a file and the values of its arrays, of which "steps" has one chunk of 128 KiB for each step."""
    rng = np.random.default_rng(seed)
    layouts: dict[str, tuple[Any, ...]] = {
        "steps": ((STEPS, 128, 128), "f8", {"chunks": (1, 128, 128), "compression": "gzip", "shuffle": True}),
        "blocks": ((95, 20, 30), ">i2", {"chunks": (10, 7, 30), "compression": "gzip"}),
        "across": ((40, 60, 9), "f4", {"chunks": (40, 1, 4), "fletcher32": True}),
        "stored": ((60, 30, 40), ">f4", {"chunks": (7, 30, 40)}),
        "contiguous": ((50, 60, 80), "i2", {}),
    }
    # Compressed chunks are as large as others, so that the first requests do not fetch all of the file.
    values = {name: (rng.random(shape) * 60_000 - 30_000).astype(dtype) for name, (shape, dtype, _) in layouts.items()}
    with io.BytesIO() as written:
        with h5py.File(written, "w", libver="latest") as f:
            for name, (shape, dtype, storage) in layouts.items():
                f.create_dataset(name, shape, dtype, **storage)[0, 0, 0] = 0
            for name, array in values.items():
                f[name][...] = array
            # Only every other chunk exists.
            sparse = f.create_dataset("sparse", (40, 8), "i4", chunks=(2, 8), compression="gzip", fillvalue=-7)
            values["sparse"] = np.full((40, 8), -7, "i4")
            for at in range(0, 40, 4):
                sparse[at : at + 2] = values["sparse"][at : at + 2] = at
        return written.getvalue(), values


DATA, VALUES = file(1)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(DATA) as server:
        yield server


def selections(chance: random.Random) -> Iterator[tuple[str, Any]]:
    """Yield an array and a selection of it, each of which is a step of a walk, a repetition or somewhere else."""
    name = chance.choice(list(VALUES))
    shape = VALUES[name].shape
    axis = chance.choice([0, 0, 0, *range(len(shape))])
    rest: list[Any] = [slice(None)] * len(shape)
    if chance.random() < 0.3:
        other = chance.randrange(len(shape))
        rest[other] = chance.choice([slice(1, 5), 3, slice(None, None, -2), [1, 2, 5], [4, 1, 4]])
    width = chance.choice([0, 0, 1, 2, 5, 11])
    step = chance.choice([1, 1, 2])
    distance = chance.choice([1, 1, 1, width or 2, -1, -(width or 1), 3, -5])
    at = chance.randrange(shape[axis] // 2) if distance > 0 else chance.randrange(shape[axis] // 2, shape[axis])
    for _ in range(chance.randrange(1, 60)):
        if chance.random() < 0.04:
            at = chance.randrange(shape[axis])
        if not 0 <= at < shape[axis]:
            return
        rest[axis] = slice(at, at + width, step) if width else at
        yield name, tuple(rest)
        if chance.random() > 0.05:
            at += distance


def walk(store: virtualize.VirtualStore, seed: int) -> None:
    """Read walks, of which some are interleaved, and compare all selections with the values."""
    chance = random.Random(seed)
    walks = [selections(chance) for _ in range(chance.randrange(1, 4))]
    for _ in range(80):
        at = chance.randrange(len(walks))
        found = next(walks[at], None)
        if found is None:
            walks[at] = selections(chance)
            continue
        name, selection = found
        got = store[name].oindex[selection]
        np.testing.assert_array_equal(got, outer(VALUES[name], selection), f"{seed}: {name}{selection}")


def outer(values: Any, selection: tuple[Any, ...]) -> Any:
    for axis in reversed(range(len(selection))):
        values = values[(slice(None),) * axis + (selection[axis],)]
    return values


@pytest.mark.parametrize("seed", range(WALKS))
def test_random_walks(server: Server, seed: int) -> None:
    cache = random.Random(seed).choice(["256M", "256M", "2M", "300K", 0])
    store = virtualize.open(server.url, cache=cache)
    failed: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            walk(store, seed)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(1000 * seed + n,)) for n in range(1 + seed % 3)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    if failed:
        raise failed[0]


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("name", ["steps", "blocks", "stored", "contiguous"])
def test_each_byte_is_requested_once(server: Server, name: str, order: int) -> None:
    array, values = virtualize.open(server.url)[name], VALUES[name]
    server.ranges.clear()
    for t in range(len(values))[::order]:
        np.testing.assert_array_equal(array[t], values[t])
    ranges = sorted(server.ranges)
    assert all(end <= start for (_, end), (start, _) in zip(ranges, ranges[1:], strict=False)), ranges
    # One request for each of the first steps, and then fewer and fewer.
    assert len(ranges) < 25


@pytest.mark.parametrize("cache", [0, "256M"])
def test_few_steps_wait_for_the_server(server: Server, cache: Any) -> None:
    server.latency = 0.03
    steps, waited = virtualize.open(server.url, cache=cache)["steps"], 0
    for t in range(STEPS):
        start = time.monotonic()
        steps[t]
        waited += time.monotonic() - start > server.latency
        time.sleep(0.005)
    assert (waited < STEPS // 2) == (cache != 0), waited


@pytest.mark.parametrize("name", ["steps", "stored"])
def test_several_threads(server: Server, name: str) -> None:
    server.latency = 0.01
    array, values = virtualize.open(server.url)[name], VALUES[name]
    server.ranges.clear()
    with ThreadPoolExecutor(4) as pool:
        for t, found in enumerate(pool.map(array.__getitem__, range(len(values)))):
            np.testing.assert_array_equal(found, values[t])
    # Hardly anything is read ahead: other threads would already be reading it.
    ranges = sorted(server.ranges)
    assert sum(end > start for (_, end), (start, _) in zip(ranges, ranges[1:], strict=False)) < 10


def test_wide_steps_and_several_arrays(server: Server) -> None:
    server.latency = 0.01
    store = virtualize.open(server.url)
    server.ranges.clear()
    for t in range(0, 90, 5):
        for name in ("steps", "blocks"):
            np.testing.assert_array_equal(store[name][t : t + 5, 3:], VALUES[name][t : t + 5, 3:])
    assert len(server.ranges) < 25


@pytest.mark.parametrize("cache", [0, "300K"])
def test_without_memory_nothing_is_read_ahead(server: Server, cache: Any) -> None:
    steps = virtualize.open(server.url, cache=cache)["steps"]
    server.ranges.clear()
    for t in range(20):
        np.testing.assert_array_equal(steps[t], VALUES["steps"][t])
    time.sleep(0.1)
    assert len(server.ranges) == 20


def test_single_reads_are_not_followed_by_others(server: Server) -> None:
    steps = virtualize.open(server.url)["steps"]
    server.ranges.clear()
    for t in (5, 6, 8, 7, 50, 51, 53, 53):
        np.testing.assert_array_equal(steps[t], VALUES["steps"][t])
    time.sleep(0.1)
    assert len(server.ranges) == 8


@pytest.mark.parametrize("fault", ["changed", "removed"])
@pytest.mark.parametrize("latency", [0.0, 0.1])
def test_a_file_that_changes_is_refused(server: Server, fault: str, latency: float) -> None:
    steps = virtualize.open(server.url)["steps"]
    for t in range(3):
        np.testing.assert_array_equal(steps[t], VALUES["steps"][t])
    server.latency = latency
    np.testing.assert_array_equal(steps[3], VALUES["steps"][3])
    if fault == "changed":
        server.objects[KEY] = file(2)[0]
    else:
        del server.objects[KEY]
    error = virtualize.ChangedError if fault == "changed" else virtualize.NotFoundError
    read = 4
    with pytest.raises(error):
        for t in range(4, STEPS):
            np.testing.assert_array_equal(steps[t], VALUES["steps"][t])
            read += 1
    # At most what had been read ahead by then.
    assert read < 16
    with pytest.raises(error):
        steps[read]


def test_values_that_cannot_be_read_are_filled(server: Server) -> None:
    steps = virtualize.open(server.url, on_error="fill")["steps"]
    for t in range(4):
        np.testing.assert_array_equal(steps[t], VALUES["steps"][t])
    del server.objects[KEY]
    with pytest.warns(virtualize.VirtualizeWarning):
        found = [steps[t] for t in range(4, STEPS)]
    assert all(np.all(values == 0) or np.array_equal(values, VALUES["steps"][t]) for t, values in enumerate(found, 4))
    assert not np.any(found[-1])


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_fork_while_reading_ahead(server: Server) -> None:
    steps = virtualize.open(server.url)["steps"]
    for t in range(12):
        steps[t]
        server.latency = 0.05
        if t < 3:
            continue
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            is_equal = all(np.array_equal(steps[n], VALUES["steps"][n]) for n in range(t, t + 6))
            os._exit(0 if is_equal else 1)
        np.testing.assert_array_equal(steps[t + 1], VALUES["steps"][t + 1])
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_closing_while_reading_ahead(server: Server) -> None:
    server.latency = 0.3
    steps: Any = virtualize.open(server.url)["steps"]
    for t in range(3):
        steps[t]
    server.latency = 30
    start = time.monotonic()
    del steps
    assert time.monotonic() - start < 5
    server.latency = 0.3
    run = f"import virtualize\nsteps = virtualize.open({server.url!r})['steps']\n[steps[t] for t in range(3)]"
    subprocess.run([sys.executable, "-c", run], timeout=60, check=True)


def test_ctrl_c_interrupts_the_wait_for_what_is_read_ahead(server: Server) -> None:
    steps = virtualize.open(server.url)["steps"]
    for t in range(2):
        steps[t]
    server.latency = 0.5
    steps[2]
    server.latency = 60
    threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        for t in range(3, STEPS):
            steps[t]
    assert time.monotonic() - start < 20


@pytest.mark.parametrize("output", ["a.json", "a.parquet", "a.icechunk"])
def test_an_archive_of_files(output: str, tmp_path: Path) -> None:
    with bucket(0.01, count=30) as server:
        endpoint = f"{server.env['AWS_ENDPOINT_URL']}/bucket"
        virtualize.batch([f"{endpoint}/era/d{k:03}.nc" for k in range(30)], tmp_path / output, concat_dim="time")
        dataset = virtualize.open_dataset(tmp_path / output)
        server.requested.clear()
        for k in range(30):
            step = dataset.isel(time=k).load()
            np.testing.assert_array_equal(step["t"], [k, 2.5 * k, -k])
        assert max(server.requested.values()) == 1


def test_chunks_of_a_zarr_store_that_are_written_meanwhile(served: tuple[Path, str]) -> None:
    folder, url = served
    written = zarr.create_group(folder).create_array("a", shape=(30, 5), chunks=(1, 5), dtype="i4", fill_value=-1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zarr.consolidate_metadata(folder)
    written[:5] = 0
    opened = virtualize.open(url)["a"]
    for t in range(30):
        if t >= 5:
            np.testing.assert_array_equal(opened[t - 1], written[t - 1])
            written[t] = t
        np.testing.assert_array_equal(opened[t], written[t])
        time.sleep(0.01)
