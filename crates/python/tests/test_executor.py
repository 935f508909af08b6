"""`batch(executor=…)` gives the bytes of a run without one: on threads, processes, Dask and Ray, whichever workers and coordinators are killed."""

import asyncio
import gc
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
import virtualize
from many_files import bucket, content, day, environment, write_days
from archives import archive  # isort: skip
from slow_s3 import SlowS3  # isort: skip
from virtualize import events

TIME = {"concat_dim": "time"}
FILES = 40
URLS = [f"s3://bucket/era/d{k:03}.nc" for k in range(FILES)]
BROKEN = b"\x89HDF\r\n\x1a\n" + bytes(100)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="signals"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]


# ---- executors

@contextmanager
def threads() -> Iterator[Executor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


@contextmanager
def forked() -> Iterator[Executor]:
    with ProcessPoolExecutor(2, get_context("fork")) as pool:
        yield pool


@contextmanager
def spawned() -> Iterator[Executor]:
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        yield pool


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A cluster of Dask with three worker processes."""
    import distributed
    with distributed.LocalCluster(
        n_workers=3, threads_per_worker=1, processes=True, dashboard_address=":0", host="127.0.0.1", silence_logs=50
    ) as made:
        yield made


@pytest.fixture(scope="module")
def dask(cluster: Any) -> Iterator[Executor]:
    with cluster.get_client() as client:
        yield client.get_executor()


@pytest.fixture(scope="module")
def on_ray() -> Iterator[Executor]:
    import ray
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR", _node_ip_address="127.0.0.1")

    class RayExecutor(Executor):
        """The adapter of docs/many-machines.md."""

        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            found: Future[Any] = ray.remote(fn).options(max_retries=0).remote(*args, **kwargs).future()
            return found

    yield RayExecutor()
    ray.shutdown()


@pytest.fixture(params=["threads", "forked", "spawned", "dask", "ray"])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    match request.param:
        case "dask":
            yield request.getfixturevalue("dask")
        case "ray":
            yield request.getfixturevalue("on_ray")
        case name:
            with globals()[name]() as made:
                yield made


def same(ours: Path, theirs: Path) -> None:
    if ours.suffix == ".icechunk":
        assert virtualize.diff(ours, theirs) == []
    else:
        assert content(ours) == content(theirs) != {}


def slow(latency: float = 0.02) -> SlowS3:
    """Return a server from which a shard takes long enough to be killed."""
    return bucket(latency, FILES)


def through(server: SlowS3) -> dict[str, Any]:
    """Return options with which workers reach the server, as they would a private bucket."""
    return {
        **TIME,
        "anonymous": True,
        "endpoint": server.env["AWS_ENDPOINT_URL"],
        "store_option": {"aws_allow_http": "true", "aws_region": "us-east-1"},
        "concurrency": 1,
    }


# ---- the same bytes

@pytest.mark.parametrize("name", ["out.json", "out.parquet", "out.zarr", "out.icechunk"])
def test_random_archives(executor: Executor, tmp_path: Path, name: str, request: pytest.FixtureRequest) -> None:
    choose = random.Random(request.node.name)
    pattern, arguments = archive(tmp_path / "files", choose)
    options: dict[str, Any] = {
        flag.removeprefix("--").replace("-", "_"): value for flag, value in zip(arguments[::2], arguments[1::2])
    }
    out, whole = tmp_path / name, tmp_path / "whole" / name
    whole.parent.mkdir()
    alone = virtualize.batch(pattern, whole, **options)
    done = virtualize.batch(pattern, out, **options, executor=executor, shard_size=choose.randint(1, 6))
    same(out, whole)
    assert (done.files, done.read, done.imported, done.failed) == (alone.files, alone.read, 0, 0)
    # The id of a snapshot is random.
    ours, theirs = ([re.sub("snapshot .*", "", note) for note in one.notes] for one in (done, alone))
    assert ours == theirs
    assert not Path(f"{out}.shards").exists()
    again = virtualize.batch(pattern, out, **options)
    assert (again.read, again.known) == (0, alone.files)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_lithops(tmp_path: Path) -> None:
    from lithops.concurrent import futures
    files = write_days(tmp_path / "files", 5)
    here = {"lithops": {"backend": "localhost", "storage": "localhost"}, "localhost": {"runtime": sys.executable}}
    with futures.ProcessPoolExecutor(config=here) as pool:
        done = virtualize.batch(files, tmp_path / "out.json", **TIME, executor=pool, shard_size=3)
    # It leaves files open.
    gc.collect()
    assert done.read == 5
    virtualize.batch(files, tmp_path / "whole.json", **TIME)
    same(tmp_path / "out.json", tmp_path / "whole.json")


def test_relative_paths(dask: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers have another working directory."""
    write_days(tmp_path / "files", 4)
    monkeypatch.chdir(tmp_path)
    virtualize.batch("files/*", "whole.json", **TIME)
    virtualize.batch("files/*", "out.json", **TIME, executor=dask, shard_size=2)
    same(Path("out.json"), Path("whole.json"))
    virtualize.batch("files/*", "other.json", **TIME, executor=dask, shard_size=2, shard_folder="apart", keep_shards=True)
    assert sorted(path.name for path in Path("apart").iterdir()) == [
        "files.jsonl",
        "shard-00001-of-00002.journal",
        "shard-00002-of-00002.journal",
    ]
    same(Path("other.json"), Path("whole.json"))


def test_async(dask: Executor, tmp_path: Path) -> None:
    files = write_days(tmp_path / "files", 5)
    seen: list[events.Event] = []

    async def run() -> events.Summary:
        return await virtualize.batch_async(
            files, tmp_path / "out.json", **TIME, executor=dask, shard_size=2, on_event=seen.append
        )

    assert asyncio.run(run()).read == 5
    assert sum(isinstance(event, events.ShardRead) for event in seen) == 3
    virtualize.batch(files, tmp_path / "whole.json", **TIME)
    same(tmp_path / "out.json", tmp_path / "whole.json")


def test_files_of_the_journal_are_not_read_again(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    with slow(0) as server, threads() as pool:
        options = {**through(server), "executor": pool, "shard_size": 4}
        assert virtualize.batch(URLS[:8], out, **options).read == 8
        server.requested.clear()
        done = virtualize.batch(URLS[:8], out, **options)
        assert (done.read, done.known, server.requested.total()) == (0, 8, 0)
        # Only the shard that has new files is read.
        done = virtualize.batch(URLS[:12], out, **options)
        assert (done.read, done.known, len(server.requested)) == (4, 8, 4)
        server.requested.clear()
        done = virtualize.batch(URLS[12:14], out, **options, append=True)
        assert (done.read, done.known, len(server.requested)) == (2, 12, 2)
        virtualize.batch(URLS[:14], tmp_path / "whole.json", **through(server))
    same(out, tmp_path / "whole.json")


def test_other_options_are_refused_before_anything_is_read(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    with slow(0) as server, threads() as pool:
        options = {**through(server), "executor": pool}
        virtualize.batch(URLS[:2], out, **options)
        server.requested.clear()
        with pytest.raises(virtualize.Error, match="inline-below.*restart=True"):
            virtualize.batch(URLS[:2], out, **options, inline=100)
        assert server.requested.total() == 0
        assert virtualize.batch(URLS[:2], out, **options, inline=100, restart=True).read == 2


# ---- lost workers

class Unreliable(ThreadPoolExecutor):
    """Loses the first tasks of each shard, in ways of real executors."""

    def __init__(self, losses: int) -> None:
        super().__init__(2)
        self.losses, self.seen = losses, dict[int, int]()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        number = int(json.loads(args[1])["shard"].partition("/")[0])
        self.seen[number] = self.seen.get(number, 0) + 1
        if self.seen[number] > self.losses:
            return super().submit(fn, *args, **kwargs)
        lost: Future[Any] = Future()
        match number % 3:
            case 0:
                lost.set_exception(BrokenExecutor("the worker ended"))
            case 1:
                lost.set_exception(ConnectionResetError("the worker does not answer"))
            case _:
                lost.cancel()
                lost.set_running_or_notify_cancel()
        return lost


def test_a_lost_worker_costs_only_its_shards(tmp_path: Path) -> None:
    files, out = write_days(tmp_path / "files", 6), tmp_path / "out.json"
    seen: list[events.Event] = []
    with Unreliable(2) as pool:
        virtualize.batch(files, out, **TIME, executor=pool, shard_size=2, on_event=seen.append)
    lost = [event for event in seen if isinstance(event, events.ShardLost)]
    assert sorted((event.shard, event.attempt) for event in lost) == [(k, n) for k in (1, 2, 3) for n in (1, 2)]
    assert {event.error.partition(":")[0] for event in lost} == {"BrokenExecutor", "ConnectionResetError", "CancelledError"}
    virtualize.batch(files, tmp_path / "whole.json", **TIME)
    same(out, tmp_path / "whole.json")


def test_attempts_end(tmp_path: Path) -> None:
    files, out = write_days(tmp_path / "files", 6), tmp_path / "out.json"
    with Unreliable(3) as pool, pytest.raises(virtualize.UnavailableError) as caught:
        virtualize.batch(files, out, **TIME, executor=pool, shard_size=2, attempts=2)
    text = str(caught.value)
    assert "3 shards were not read: shard 1 of 3 (files 1 to 2): ConnectionResetError: the worker does not answer" in text
    assert "make the same call again" in text and not out.exists()
    assert set(pool.seen.values()) == {2}


def test_an_executor_that_ended(tmp_path: Path) -> None:
    files = write_days(tmp_path / "files", 2)
    with ThreadPoolExecutor(1) as pool:
        pass
    with pytest.raises(virtualize.UnavailableError, match="1 shard was not read.*after shutdown"):
        virtualize.batch(files, tmp_path / "out.json", **TIME, executor=pool)


def kill_some(pids: Callable[[], list[int]], choose: random.Random, times: int, until: threading.Event) -> threading.Thread:
    """Kill processes at random moments."""

    def kill() -> None:
        for _ in range(times):
            if until.wait(choose.uniform(0.05, 0.4)):
                return
            if found := pids():
                try:
                    os.kill(choose.choice(found), signal.SIGKILL)
                except ProcessLookupError:
                    pass

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


def run_while_killing(
    server: SlowS3, out: Path, executor: Executor, pids: Callable[[], list[int]], seed: int
) -> list[events.Event]:
    seen: list[events.Event] = []
    ended = threading.Event()
    thread = kill_some(pids, random.Random(seed), 4, ended)
    try:
        options = {**through(server), "attempts": 8}
        virtualize.batch(URLS, out, **options, executor=executor, shard_size=4, on_event=seen.append)
    finally:
        ended.set()
        thread.join()
    return seen


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of a run without an executor."""
    out = tmp_path_factory.mktemp("whole") / "out.json"
    with slow(0) as server:
        virtualize.batch(URLS, out, **{**through(server), "concurrency": 64})
    return out


def test_killed_workers_of_dask(cluster: Any, dask: Executor, tmp_path: Path, whole: Path) -> None:
    def pids() -> list[int]:
        return [nanny.process.pid for nanny in cluster.workers.values() if nanny.process and nanny.process.pid]

    before = set(pids())
    with slow() as server:
        run_while_killing(server, tmp_path / "out.json", dask, pids, 1)
    assert set(pids()) != before
    same(tmp_path / "out.json", whole)


def test_killed_workers_of_ray(on_ray: Executor, tmp_path: Path, whole: Path) -> None:
    import psutil

    def pids() -> list[int]:
        found = psutil.Process().children(recursive=True)
        return [one.pid for one in found if one.is_running() and one.name().startswith("ray::read_shard")]

    with slow() as server:
        seen = run_while_killing(server, tmp_path / "out.json", on_ray, pids, 2)
    assert [event for event in seen if isinstance(event, events.ShardLost)]
    same(tmp_path / "out.json", whole)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_killed_workers_of_a_pool(tmp_path: Path, whole: Path, method: str) -> None:
    """A pool with a dead worker is broken. The same call with another pool reads only what is missing."""
    out = tmp_path / "out.json"
    with slow() as server:
        options = {**through(server), "shard_size": 4}
        seen: list[events.Event] = []
        pool = ProcessPoolExecutor(2, get_context(method))

        def kill(event: events.Event) -> None:
            seen.append(event)
            if sum(isinstance(one, events.ShardRead) for one in seen) == 3:
                for process in pool._processes.values():
                    process.kill()

        with pool, pytest.raises(virtualize.UnavailableError, match="BrokenProcessPool.*make the same call again"):
            virtualize.batch(URLS, out, **options, executor=pool, on_event=kill)
        check_resumed(server, out, options, whole)


def check_resumed(server: SlowS3, out: Path, options: dict[str, Any], whole: Path) -> None:
    """The same call reads only files that are in no journal."""
    assert not out.exists()
    server.requested.clear()
    with threads() as pool:
        done = virtualize.batch(URLS, out, **options, executor=pool)
    assert done.read + done.imported == FILES and done.imported >= 12 and done.read > 0
    same(out, whole)


# ---- stopping

PROGRAM = """
import json, sys
from concurrent.futures import ThreadPoolExecutor
import virtualize
out, options, *urls = sys.argv[1:]
with ThreadPoolExecutor(2) as pool:
    virtualize.batch(urls, out, **json.loads(options), executor=pool, on_event=lambda event: print(event, flush=True))
print("not stopped")
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_coordinator_that_ended_is_resumed(tmp_path: Path, whole: Path, how: signal.Signals) -> None:
    out = tmp_path / "out.json"
    with slow() as server:
        options = {**through(server), "shard_size": 4}
        process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", PROGRAM, out, json.dumps(options), *URLS],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None and process.stderr is not None
        read = 0
        while read < 3:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            read += line.startswith("ShardRead(")
        process.send_signal(how)
        messages, error = process.communicate(timeout=60)
        assert process.returncode == -how and "not stopped" not in messages
        if how == signal.SIGINT:
            assert "KeyboardInterrupt" in error and "shards are read; make the same call again to continue" in error
        check_resumed(server, out, options, whole)


def test_an_exception_of_the_callback_cancels_the_shards(tmp_path: Path) -> None:
    out = tmp_path / "out.json"

    def stop(event: events.Event) -> None:
        if isinstance(event, events.ShardRead):
            raise LookupError("enough")

    with slow(0.01) as server:
        with ThreadPoolExecutor(1) as pool, pytest.raises(LookupError) as caught:
            virtualize.batch(URLS, out, **through(server), executor=pool, shard_size=4, on_event=stop)
        assert "stopped; 1 of 10 shards" in caught.value.__notes__[0]
        # The running shard ends, the others do not start.
        assert len(server.requested) <= 3 * 4 + 1


def test_a_cancelled_task(tmp_path: Path) -> None:
    async def run(server: SlowS3, pool: Executor) -> None:
        work = virtualize.batch_async(URLS, tmp_path / "out.json", **through(server), executor=pool, shard_size=4)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(work, 0.4)

    with slow(0.02) as server:
        with ThreadPoolExecutor(1) as pool:
            asyncio.run(run(server, pool))
        assert len(server.requested) < FILES


# ---- files that fail

@pytest.fixture
def damaged(tmp_path: Path) -> list[Path]:
    files = write_days(tmp_path / "files", 8)
    for k in (2, 5):
        files[k].write_bytes(BROKEN)
    return files


def test_failed_files_are_those_of_one_run(damaged: list[Path], tmp_path: Path) -> None:
    out, alone = tmp_path / "out.json", tmp_path / "alone.json"
    with threads() as pool:
        options: dict[str, Any] = {**TIME, "executor": pool, "shard_size": 3}
        with pytest.raises(virtualize.FileError) as caught:
            virtualize.batch(damaged, out, **options, max_failures=1)
        with pytest.raises(virtualize.FileError) as expected:
            virtualize.batch(damaged, alone, **TIME, max_failures=1)
        assert str(caught.value) == str(expected.value) and not out.exists()
        for more in ({"max_failures": 2}, {"on_failure": "skip"}):
            with pytest.warns(virtualize.ArchiveWarning, match="2 files could not be read.*on_failure=\"retry\""):
                done = virtualize.batch(damaged, out, **options, **more)
            assert (done.failed, len(done.failures)) == (2, 2)
        with pytest.warns(virtualize.ArchiveWarning):
            virtualize.batch(damaged, alone, **TIME, on_failure="skip")
        same(out, alone)
        # Mended, they are read again on request.
        for k in (2, 5):
            damaged[k].write_bytes(day(k))
        done = virtualize.batch(damaged, out, **options, on_failure="retry")
        assert (done.failed, done.files) == (0, 8)


def test_events_of_shards(damaged: list[Path], tmp_path: Path) -> None:
    seen: list[events.Event] = []
    with threads() as pool, pytest.warns(virtualize.ArchiveWarning):
        virtualize.batch(
            damaged, tmp_path / "out.json", **TIME, on_failure="skip", executor=pool, shard_size=3, on_event=seen.append
        )
    shards = sorted((event for event in seen if isinstance(event, events.ShardRead)), key=lambda event: event.shard)
    assert [(event.shard, event.shards, event.failed) for event in shards] == [(1, 3, 0), (2, 3, 1), (3, 3, 1)] or [
        event.failed for event in shards
    ] == [0, 1, 1]
    assert sum(event.files for event in shards) == 8
    assert all(event.requests > 0 and event.bytes > 0 and event.seconds >= 0 for event in shards)
    assert "d002.nc" in [failure for event in shards for failure in event.failures][0]
    assert isinstance(seen[-1], events.Done) and sum(isinstance(event, events.Done) for event in seen) == 1


def test_progress(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = write_days(tmp_path / "files", 8)
    with threads() as pool:
        virtualize.batch(files, tmp_path / "out.json", **TIME, executor=pool, shard_size=3, progress=True)
    assert "8/8" in capsys.readouterr().err


# ---- workers that cannot do it

def test_journals_that_cannot_be_written(tmp_path: Path, executor: Executor) -> None:
    files, folder = write_days(tmp_path / "files", 2), tmp_path / "shards"
    (folder / "shard-00001-of-00001.journal").mkdir(parents=True)
    match = r'shard 1 of 1 \(files 1 to 2\).*shard_folder="…", a folder or prefix that all workers'
    with pytest.raises(virtualize.Error, match=match):
        virtualize.batch(files, tmp_path / "out.json", **TIME, executor=executor, shard_folder=folder)


def test_a_journal_that_is_elsewhere(tmp_path: Path) -> None:
    files = write_days(tmp_path / "files", 2)

    class Elsewhere(ThreadPoolExecutor):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            done = super().submit(fn, *args, **kwargs)
            done.result()
            Path(json.loads(args[1])["journal"]).unlink()
            return done

    with Elsewhere(1) as pool, pytest.raises(virtualize.UnavailableError, match="a worker wrote this journal, but it is not here"):
        virtualize.batch(files, tmp_path / "out.json", **TIME, executor=pool)


def test_workers_without_the_package(tmp_path: Path) -> None:
    files = write_days(tmp_path / "files", 2)

    class Bare(ThreadPoolExecutor):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            lost: Future[Any] = Future()
            lost.set_exception(ModuleNotFoundError("No module named 'virtualize'"))
            return lost

    with Bare(1) as pool, pytest.raises(virtualize.Error, match="install virtualize where the workers run"):
        virtualize.batch(files, tmp_path / "out.json", **TIME, executor=pool)


def test_invalid_options(tmp_path: Path) -> None:
    class Strange:
        def submit(self, fn: object, /, *args: object) -> object:
            return object()

    files = write_days(tmp_path / "files", 1)
    with pytest.raises(virtualize.OptionError, match="executor: its futures .object. have no add_done_callback"):
        virtualize.batch(files, tmp_path / "out.json", **TIME, executor=Strange())  # type: ignore[arg-type]
    with threads() as pool:
        for options, match in [({"shard_size": 0}, "shard_size: "), ({"merge": ["a", "b"]}, "merge cannot"), ({"shardz": "a"}, "shard")]:
            with pytest.raises(virtualize.OptionError, match=match):
                virtualize.batch(files, tmp_path / "out.json", **TIME, executor=pool, **options)


def test_journals_contain_no_credentials(tmp_path: Path) -> None:
    with slow(0) as server, threads() as pool:
        options = {**through(server), "bearer_token": "a-secret-token", "shard_folder": tmp_path / "shards", "keep_shards": True}
        virtualize.batch(URLS[:8], tmp_path / "out.json", **options, executor=pool, shard_size=4)
    kept = [*(tmp_path / "shards").iterdir()]
    assert len(kept) == 3
    for path in kept:
        assert b"a-secret-token" not in path.read_bytes() and b"aws_allow_http" not in path.read_bytes()
