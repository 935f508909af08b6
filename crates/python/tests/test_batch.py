"""`batch` and `scan` do what the command does, share its journals, report events, and stop cleanly."""

import asyncio
import dataclasses
import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import virtualize
from many_files import DAYS, ROOT, bucket, command, content, environment, write_days
from slow_s3 import SlowS3
from virtualize import _archive, events
from virtualize._progress import Listener

TIME = {"concat_dim": "time"}
URLS = [f"s3://bucket/era/d{k:03}.nc" for k in range(DAYS)]


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    return write_days(tmp_path / "files", 5)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowS3]:
    with bucket() as made:
        for name, value in made.env.items():
            monkeypatch.setenv(name, value)
        yield made


# ---- the same as the command

COMBINATIONS: list[tuple[str, list[str], dict[str, Any]]] = [
    ("out.json", ["--concat-dim", "time"], TIME),
    ("out.parquet", ["--concat-dim", "time", "--option", "record-size=2"], {**TIME, "record_size": 2}),
    ("out.zarr", ["--concat-dim", "time", "--inline", "1K"], {**TIME, "inline": "1K"}),
    ("out.icechunk", ["--concat-dim", "time"], TIME),
    (
        "out.json",
        ["--concat-dim", "time", "-f", "zarr3-json", "--unpack", "--chunk-grid", "rectilinear"],
        {**TIME, "format": "zarr3-json", "unpack": True, "chunk_grid": "rectilinear"},
    ),
    (
        "out.json",
        ["--stack-dim", "run", "--coord", "run=name:d{run:d}.nc", "--var", "time=vary", "--option", "copy-limit=1M"],
        {"stack_dim": ["run"], "coord": {"run": "name:d{run:d}.nc"}, "var": {"time": "vary"}, "copy_limit": 1 << 20},
    ),
    (
        "out.json",
        ["--concat-dim", "time", "--readable-by", "zarr-python,gdal", "--var", "x=first", "--var", "a=first"],
        {**TIME, "readable_by": ["zarr-python", "gdal"], "var": {"x": "first", "a": "first"}},
    ),
    ("out", ["--each", "--rewrite-url", "{folder}=s3://b/x"], {"each": True, "rewrite_url": {"{folder}": "s3://b/x"}}),
    (
        "out.json",
        ["--concat-dim", "time", "--rewrite-url", "{folder}/files=s3://b", "--rewrite-url", "{folder}/files/d000.nc=s3://b/first"],
        {**TIME, "rewrite_url": {"{folder}/files/d000.nc": "s3://b/first", "{folder}/files": "s3://b"}},
    ),
]


@pytest.mark.parametrize(("name", "arguments", "options"), COMBINATIONS)
def test_output_and_journal_are_those_of_the_command(
    files: list[Path], tmp_path: Path, name: str, arguments: list[str], options: dict[str, Any]
) -> None:
    """Each resumes the other's run without reading a file again."""
    arguments = [argument.replace("{folder}", str(tmp_path)) for argument in arguments]
    if "rewrite_url" in options:
        rules = {f.replace("{folder}", str(tmp_path)): to for f, to in options["rewrite_url"].items()}
        options = {**options, "rewrite_url": rules}
    ours, theirs = tmp_path / "ours" / name, tmp_path / "theirs" / name
    ours.parent.mkdir()
    theirs.parent.mkdir()
    done = virtualize.batch(files, ours, **options)
    assert (done.files, done.read, done.known, done.failed) == (5, 5, 0, 0)
    command("batch", *files, *arguments, "-o", theirs)
    if not name.endswith(".icechunk"):
        assert content(ours) == content(theirs) != {}
    assert " 0 read" in command("batch", *files, *arguments, "-o", ours)
    done = virtualize.batch(files, theirs, **options)
    assert (done.read, done.known) == (0, 5)
    if name.endswith(".icechunk"):
        assert done.snapshot is not None and virtualize.diff(ours, theirs) == []


# Options on which the journal depends, as the command and as Python write them.
CHOICES: list[tuple[str, dict[str, Any]]] = [
    ("--strict", {"strict": True}),
    ("--option inline-limit=1000000", {"inline_limit": "1000000"}),
    ("--inline 2K", {"inline": 2048}),
    ("--option inline-total=1M", {"inline_total": 1 << 20}),
    ("--option split-contiguous=4K", {"split_contiguous": "4k"}),
    ("--option missing-value-convention=true", {"missing_value_convention": True}),
    ("--option ragged=true", {"ragged": True}),
    ("--option follow-external=true", {"follow_external": True}),
    ("--unpack", {"unpack": True}),
    ("--option stack-pages=true", {"stack_pages": True}),
    ("--option ifd=0 --option ifd=0/1", {"ifd": [0, "0/1"]}),
    ("--readable-by zarrs,zarr-python", {"readable_by": ["zarrs", "zarr-python"]}),
    ("--chunk-grid rectilinear", {"chunk_grid": "rectilinear"}),
    ("--var t=vary --var b=first --var a=first --var q=optional", {"var": {"t": "vary", "a": "first", "b": "first", "q": "optional"}}),
    ("--option copy-limit=1K", {"copy_limit": "1K"}),
    ("--on-duplicate first", {"on_duplicate": "first"}),
    ("--option allow-holes=true", {"allow_holes": True}),
]


@pytest.mark.parametrize("seed", range(int(os.environ.get("RANDOM_OPTIONS", "4"))))
def test_random_options_are_those_of_the_command(files: list[Path], tmp_path: Path, seed: int) -> None:
    """The journal records options, so the command resumes the run of Python only if both mean the same."""
    chosen = random.Random(seed).sample(CHOICES, 6)
    out = tmp_path / "out.json"
    options = {name: value for _, of in chosen for name, value in of.items()}
    done = virtualize.batch(files, out, format="zarr3-json", **TIME, **options)
    assert done.read == 5
    arguments = [part for text, _ in chosen for part in text.split()]
    messages = command("batch", *files, "-f", "zarr3-json", "--concat-dim", "time", *arguments, "-o", out)
    assert " 0 read" in messages and "5 known before" in messages, (seed, messages)


def test_other_options_do_not_resume(files: list[Path], tmp_path: Path) -> None:
    command("batch", *files, "--concat-dim", "time", "-o", tmp_path / "out.json")
    with pytest.raises(virtualize.Error, match="inline-below.*restart=True"):
        virtualize.batch(files, tmp_path / "out.json", **TIME, inline=100)


def test_scan_is_that_of_the_command(files: list[Path], fixtures: Path) -> None:
    inputs = [*files, fixtures / "hdf5/netcdf4.nc"]
    found = virtualize.scan(inputs)
    # The command adds the command that combines the files.
    assert command("scan", "--quiet", *inputs).startswith(repr(found))
    assert found.to_dict() == json.loads(command("scan", "--json", "--quiet", *inputs))
    assert (found.files, len(found.sets), found.failed) == (6, 2, [])
    second = found.runs[1]
    assert second.differences and "".join(f"{' ':14}  {one}\n" for one in second.differences[:3]) in repr(found)
    assert found._repr_html_().startswith("<pre>6 files, 2 sets of compatible files")


def without_times(event: dict[str, Any]) -> dict[str, Any]:
    unsteady = ("time", "seconds", "requests", "bytes", "journal")
    event = {name: value for name, value in event.items() if name not in unsteady}
    if "summary" in event:
        event["summary"] = without_times(event["summary"])
    return event


def test_events_are_those_of_the_log(server: SlowS3, tmp_path: Path) -> None:
    server.objects["era/d003.nc"] = b"\x89HDF\r\n\x1a\n" + bytes(100)
    options: dict[str, Any] = {**TIME, "concurrency": 1, "on_failure": "skip"}
    log, out = tmp_path / "log", tmp_path / "out.json"
    command(
        "batch", *URLS, "--concat-dim", "time", "--option", "concurrency=1", "--on-failure", "skip", "--json-log", log, "-o", out,
        server=server,
    )  # fmt: skip
    logged = [without_times(json.loads(line)) for line in log.read_text().splitlines()]
    out.unlink()
    Path(f"{out}.journal").unlink()
    seen: list[events.Event] = []
    with pytest.warns(virtualize.ArchiveWarning, match="1 file could not be read"):
        virtualize.batch(URLS, out, **options, on_event=seen.append)

    def reported(event: events.Event) -> dict[str, Any]:
        members = {name.rstrip("_"): value for name, value in dataclasses.asdict(event).items()}
        return without_times({"event": type(event).__name__.lower(), **members})

    def in_order(found: list[dict[str, Any]]) -> list[str]:
        # How many files are listed at a time depends on the moment.
        lasting = [one for one in found if one["event"] != "listed" or one["complete"]]
        return sorted(json.dumps(one, sort_keys=True) for one in lasting)

    assert in_order([reported(event) for event in seen]) == in_order(logged)


# ---- events

def test_callbacks_run_in_the_calling_thread(files: list[Path], tmp_path: Path) -> None:
    threads = set()
    virtualize.batch(files, tmp_path / "out.json", **TIME, on_event=lambda _: threads.add(threading.get_ident()))
    assert threads == {threading.get_ident()}

    async def run() -> None:
        threads.clear()
        await virtualize.scan_async(files, on_event=lambda _: threads.add(asyncio.current_task()))
        assert threads == {asyncio.current_task()}

    asyncio.run(run())


@pytest.mark.parametrize("is_async", [False, True])
def test_an_exception_of_the_callback_stops_the_run(server: SlowS3, tmp_path: Path, is_async: bool) -> None:
    out = tmp_path / "out.json"

    def stop(event: events.Event) -> None:
        if isinstance(event, events.Read):
            raise LookupError("enough")

    options: dict[str, Any] = {**TIME, "concurrency": 1}
    with pytest.raises(LookupError, match="enough") as caught:
        if is_async:
            asyncio.run(virtualize.batch_async(URLS, out, **options, on_event=stop))
        else:
            virtualize.batch(URLS, out, **options, on_event=stop)
    assert "stopped; " in caught.value.__notes__[0] and not out.exists()
    done = virtualize.batch(URLS, out, **options)
    assert 0 < done.known < DAYS and done.read == DAYS - done.known


def test_a_callback_may_use_the_package(files: list[Path], tmp_path: Path) -> None:
    def look(event: events.Event) -> None:
        if isinstance(event, events.Read):
            assert virtualize.diff(event.url, event.url) == []

    assert virtualize.scan(files, on_event=look).files == 5


def test_progress(files: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    virtualize.scan(files, progress=True)
    assert "5/5" in capsys.readouterr().err
    virtualize.scan(files)
    assert capsys.readouterr() == ("", "")


def test_no_bar_for_a_run_that_does_not_start(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(virtualize.OptionError):
        virtualize.scan([], progress=True)
    assert capsys.readouterr() == ("", "")


def test_progress_without_tqdm(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ModuleNotFoundError, match="needs tqdm: pip install tqdm"):
        virtualize.scan(files, progress=True)


# ---- failures

def test_failed_files(files: list[Path], tmp_path: Path) -> None:
    files[2].write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    with pytest.raises(virtualize.FileError, match=r"1 file failed.*on_failure=\"retry\".*on_failure=\"skip\""):
        virtualize.batch(files, tmp_path / "out.json", **TIME)
    with pytest.warns(virtualize.ArchiveWarning, match="1 file could not be read.*on_failure=\"retry\"") as caught:
        done = virtualize.batch(files, tmp_path / "out.json", **TIME, on_failure="skip")
    assert (done.failed, len(done.failures)) == (1, 1) and str(files[2]) in done.failures[0]
    assert caught[0].filename == __file__
    with pytest.warns(virtualize.ArchiveWarning):
        done = virtualize.batch(files, tmp_path / "each", each=True)
    assert (done.read, done.failed) == (4, 1) and len(content(tmp_path / "each")) >= 4
    with pytest.warns(virtualize.ArchiveWarning):
        found = virtualize.scan(files)
    assert [one.url for one in found.failed] == [f"file://{files[2]}"]


def test_diagnostics_of_files_are_warnings(tmp_path: Path, fixtures: Path) -> None:
    """One for all files that have it."""
    copies = [tmp_path / "a.h5", tmp_path / "b.h5"]
    for copy in copies:
        shutil.copy(fixtures / "hdf5/types.h5", copy)
    with pytest.warns(virtualize.ArchiveWarning) as caught:
        done = virtualize.batch(copies, tmp_path / "refs", each=True)
    assert done.warnings == 2 * len(caught) > 0
    warning = caught[0].message
    assert isinstance(warning, virtualize.ArchiveWarning) and warning.files == 2
    assert ".h5 and 1 more: /" in str(warning) and caught[0].filename == __file__


def test_errors_are_of_the_package(tmp_path: Path, files: list[Path]) -> None:
    with pytest.raises(virtualize.NotFoundError):
        virtualize.batch(tmp_path / "none/*.nc", tmp_path / "out.json", **TIME)
    with pytest.raises(virtualize.Error, match="tme") as caught:
        virtualize.batch(files, tmp_path / "out.json", concat_dim="tme")
    assert len(caught.traceback) == 3 and not hasattr(caught.value, "__notes__")


# ---- stopping

PROGRAM = """
import asyncio, sys
import virtualize
urls, out, how = sys.argv[3:], sys.argv[1], sys.argv[2]
options = dict(concat_dim="time", concurrency=2)
match how:
    case "plain":
        virtualize.batch(urls, out, **options)
    case "events":
        virtualize.batch(urls, out, **options, on_event=lambda event: print(event, flush=True))
    case "async":
        asyncio.run(virtualize.batch_async(urls, out, **options))
    case "scan":
        virtualize.scan(urls, concurrency=1)
print("not stopped")
"""


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("how", ["plain", "events", "async", "scan"])
def test_interrupted(tmp_path: Path, how: str) -> None:
    with bucket(latency=0.2) as server:
        out = tmp_path / "out.json"
        process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", PROGRAM, out, how, *URLS],
            env=environment(server),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        while len(server.requested) < DAYS // 2:
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        messages, error = process.communicate(timeout=60)
        assert process.returncode == -signal.SIGINT, error
        assert "KeyboardInterrupt" in error and "not stopped" not in messages and not out.exists()
        if how == "scan":
            return
        assert "stopped; " in error and "to continue" in error
        server.latency = 0
        server.requested.clear()
        # The command resumes the run.
        messages = command(
            "batch", *URLS, "--concat-dim", "time", "--option", "concurrency=2", "-o", out, server=server
        )
        assert 0 < len([url for url in URLS if server.requested[url.removeprefix("s3://bucket/")]]) < DAYS
        whole = tmp_path / "whole.json"
        command("batch", *URLS, "--concat-dim", "time", "-o", whole, server=server)
        assert content(out) == content(whole)


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_killed_command_is_resumed(server: SlowS3, tmp_path: Path) -> None:
    server.latency = 0.2
    out = tmp_path / "out.json"
    process = subprocess.Popen(
        [sys.executable, "-m", "virtualize", "batch", *URLS, "--concat-dim", "time", "--option", "concurrency=2", "-o", out],
        env=environment(server),
        stderr=subprocess.DEVNULL,
    )
    while len(server.requested) < DAYS // 2:
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) != 0
    server.latency = 0
    done = virtualize.batch(URLS, out, **TIME)
    assert 0 < done.known < DAYS and done.read == DAYS - done.known and done.output == str(out)


def test_a_cancelled_task_stops_the_run(server: SlowS3, tmp_path: Path) -> None:
    server.latency, out = 0.2, tmp_path / "out.json"

    async def run() -> None:
        work = asyncio.ensure_future(virtualize.batch_async(URLS, out, **TIME, concurrency=2))
        while len(server.requested) < DAYS // 2:
            await asyncio.sleep(0.02)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(virtualize.batch_async(URLS, out, **TIME, concurrency=1), 0.5)

    asyncio.run(run())
    server.latency = 0
    done = virtualize.batch(URLS, out, **TIME)
    assert 0 < done.known < DAYS


def test_a_second_interrupt_aborts() -> None:
    class Run:
        aborted = cancelled = False

        def wait(self, wait: bool) -> None:
            raise KeyboardInterrupt

        def cancel(self) -> None:
            self.cancelled = True

        def abort(self) -> None:
            self.aborted = True

    run = Run()
    with pytest.raises(KeyboardInterrupt):
        _archive._finish(lambda _: run, Listener(None, False))  # type: ignore[arg-type]
    assert run.cancelled and run.aborted


# ---- surroundings

def test_inside_a_running_loop(files: list[Path], tmp_path: Path) -> None:
    async def run() -> tuple[int, ...]:
        blocking = virtualize.batch(files, tmp_path / "a.json", **TIME).read
        others = [virtualize.batch_async(files, tmp_path / f"{k}.json", **TIME) for k in range(3)]
        return (blocking, *(done.read for done in await asyncio.gather(*others)))

    assert asyncio.run(run()) == (5, 5, 5, 5)


def test_from_several_threads(files: list[Path], tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        runs = [pool.submit(virtualize.batch, files, tmp_path / f"{k}.json", **TIME) for k in range(16)]
        assert [run.result().read for run in runs] == [5] * 16
    assert len({(tmp_path / f"{k}.json").read_bytes() for k in range(16)}) == 1


def in_child(files: list[Path], out: Path) -> None:
    assert virtualize.batch(files, out, **TIME).read == 5


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_in_another_process(files: list[Path], tmp_path: Path, method: str) -> None:
    in_child(files, tmp_path / "parent.json")
    child = multiprocessing.get_context(method).Process(target=in_child, args=(files, tmp_path / "child.json"))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert (tmp_path / "child.json").read_bytes() == (tmp_path / "parent.json").read_bytes()


def test_two_runs_of_one_output(server: SlowS3, tmp_path: Path) -> None:
    """The second one is refused while the first one runs."""
    server.latency = 0.1
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(virtualize.batch, URLS, tmp_path / "out.json", **TIME) for _ in range(2)]
        failed = [error for run in runs if (error := run.exception())]
    assert len(failed) == 1 and isinstance(failed[0], virtualize.Error)


def test_examples() -> None:
    """The examples of the modules run as they are."""
    import doctest

    os.chdir(ROOT)
    for module in (_archive, events, virtualize._references):
        assert doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE).failed == 0
