"""Runs over many files: ``batch`` and ``scan``."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from os import PathLike, fspath
from queue import SimpleQueue
from typing import Any, Literal, Unpack

from virtualize import _virtualize
from virtualize._awaitable import Arrivals, as_awaitable
from virtualize._errors import Error, OptionError, warn
from virtualize._options import BatchOptions, Location, ScanOptions, to_json
from virtualize._progress import Listener, OnEvent, events_of, summary_of
from virtualize._references import Difference
from virtualize._shards import Distribution, Done, SupportsSubmit
from virtualize.events import Summary

type Inputs = Location | Iterable[Location]
"""Files, folders, prefixes that end in ``/``, or patterns such as ``"s3://bucket/era5/**/*.nc"``."""


class ArchiveWarning(UserWarning):
    """A warning about files of a run over many files.

    Attributes
    ----------
    files
        Number of these files.
    """

    def __init__(self, text: str, files: int) -> None:
        super().__init__(text)
        self.files = files


@dataclass(frozen=True, slots=True)
class Dimension:
    """A dimension along which files are combined."""

    name: str
    kind: Literal["concat", "stack"]


@dataclass(frozen=True, slots=True)
class FileSet:
    """Files that agree in everything that must be equal.

    Parameters
    ----------
    set
        Number of the set, counted from 0 in order of its first file.
    digest
        Digest of what must be equal.
    files, bytes, chunks
        Number of files, and their sizes and chunks together.
    extents
        By dimension: the ``least`` and the ``most`` elements of a file, and those of ``all`` files.
    arrays
        By path: what must be equal of each array.
    groups
        By path: attributes of groups that must be equal.
    """

    set: int
    digest: str
    files: int
    bytes: int
    chunks: int
    extents: dict[str, dict[str, int]]
    arrays: dict[str, dict[str, Any]]
    groups: dict[str, dict[str, Any]] | None


@dataclass(frozen=True, slots=True)
class FileRun:
    """Consecutive files of one set.

    Parameters
    ----------
    set
        Number of the set.
    files
        Urls.
    coordinates
        By dimension: the ``first`` and ``last`` coordinate, if known.
    differences
        Differences from the run before; ``None`` for the first one, or if they were not kept.
    """

    set: int
    files: list[str]
    coordinates: dict[str, dict[str, str]]
    differences: list[Difference] | None


@dataclass(frozen=True, slots=True)
class FailedFile:
    """A file that could not be read."""

    url: str
    error: str


@dataclass(frozen=True, slots=True, repr=False)
class Scan:
    """What a set of files contains, which ``scan`` returns. Its text is the command's table.

    Parameters
    ----------
    dimensions
        Dimensions along which the files would be combined.
    dimensions_are_guessed
        Whether they were found in the first file.
    order
        Whether files are ordered by their coordinates, or as they were listed.
    files
        Number of files that were read.
    sets
        Groups of compatible files. All files can be combined if there is one.
    runs
        Runs of consecutive files of one set, with the differences between them.
    failed
        Files that could not be read.
    """

    dimensions: list[Dimension]
    dimensions_are_guessed: bool
    order: Literal["coordinates", "listing"]
    files: int
    sets: list[FileSet]
    runs: list[FileRun]
    failed: list[FailedFile]
    _json: dict[str, Any] = field(compare=False)
    _table: str = field(compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Return what ``virtualize scan --json`` prints."""
        return self._json

    def __repr__(self) -> str:
        return self._table

    def _repr_html_(self) -> str:
        # Few programs show it.
        from html import escape

        return f"<pre>{escape(self._table)}</pre>"


def batch(
    inputs: Inputs | None,
    output: Location,
    *,
    executor: SupportsSubmit | None = None,
    shard_size: int | None = None,
    shard_folder: Location | None = None,
    keep_shards: bool = False,
    on_event: OnEvent | None = None,
    progress: bool = False,
    **options: Unpack[BatchOptions],
) -> Summary:
    """Write references for many files, as one dataset or one output per file.

    A run that was stopped, or that failed, continues when the same call is made again: it reads only the files that are
    not in the journal. The command shares the journal.

    Parameters
    ----------
    inputs
        Files, folders, prefixes that end in ``/``, or patterns such as ``"s3://bucket/era5/**/*.nc"``. ``None`` if
        ``list`` or ``stac`` name the files.
    output
        Path or url to write to. Its extension selects the format: ``.json``, ``.parquet``, ``.parq``, ``.zarr``,
        ``.icechunk``.
    executor
        Reads the files elsewhere: in threads or processes of `concurrent.futures`, or on the workers of Dask
        (``client.get_executor()``) and others. The output is the same. Each task reads a shard of the files into a
        journal in ``shard_folder``.
    shard_size
        Number of files of a shard. By default 1,000 to 10,000, and fewer if there are less than 16,000 files.
    shard_folder
        Folder or prefix of the list of files and the journals of the shards, which all workers and this process must
        share. ``OUTPUT.shards/`` by default.
    keep_shards
        Whether to keep these after success.
    on_event
        Is called with each event (``virtualize.events``), in this thread. If it raises, the run is stopped.
    progress
        Whether to show a progress bar, which needs tqdm.
    **options
        The options of ``virtualize batch``, such as ``concat_dim``, ``each``, ``append``, ``on_mismatch``.

    Returns
    -------
    Summary
        Numbers of files, notes, and the first failures. Files that could not be read are also reported by one
        `ArchiveWarning`.

    Raises
    ------
    Error
        Nothing was written, except outputs of single files. More files failed than ``max_failures`` permits, for
        example.
    KeyboardInterrupt
        At Ctrl-C, once the run has stopped. A second Ctrl-C does not wait for that.

    Examples
    --------
    >>> import tempfile, virtualize
    >>> folder = tempfile.mkdtemp()
    >>> done = virtualize.batch(["fixtures/hdf5/netcdf4.nc"], f"{folder}/one.json", concat_dim="time")
    >>> done.files, done.failed
    (1, 0)
    """
    with Listener(on_event, progress) as listener:
        if executor is None:
            return _summary(_finish(_batch(inputs, output, options), listener))
        run = Distribution(_locations(inputs), output, options, shard_size, shard_folder, keep_shards)
        done: SimpleQueue[Done] = SimpleQueue()
        with run.shards(executor, _finish(run.list_files(), listener), done.put) as shards:
            while shards.is_running:
                listener(shards.take(*done.get()))
        return _summary(_finish(run.join(shards), listener))


async def batch_async(
    inputs: Inputs | None,
    output: Location,
    *,
    executor: SupportsSubmit | None = None,
    shard_size: int | None = None,
    shard_folder: Location | None = None,
    keep_shards: bool = False,
    on_event: OnEvent | None = None,
    progress: bool = False,
    **options: Unpack[BatchOptions],
) -> Summary:
    """Write references for many files, as ``batch`` does.

    ``on_event`` is called in the thread of the event loop. Cancelling the task stops the run; the task ends when the
    run has stopped.
    """
    with Listener(on_event, progress) as listener:
        if executor is None:
            return _summary(await _finish_async(_batch(inputs, output, options), listener))
        run = Distribution(_locations(inputs), output, options, shard_size, shard_folder, keep_shards)
        done: Arrivals[Done] = Arrivals()
        with run.shards(executor, await _finish_async(run.list_files(), listener), done.put) as shards:
            while shards.is_running:
                listener(shards.take(*await done.get()))
        return _summary(await _finish_async(run.join(shards), listener))


def scan(
    inputs: Inputs | None,
    *,
    on_event: OnEvent | None = None,
    progress: bool = False,
    **options: Unpack[ScanOptions],
) -> Scan:
    """Report what a set of files contains and which of them are compatible, without writing anything.

    Parameters
    ----------
    inputs, on_event, progress
        As for ``batch``.
    **options
        The options of ``virtualize scan``, such as ``concat_dim``.

    Returns
    -------
    Scan
        Printed as a table. Files that could not be read are in ``failed``, and are reported by an `ArchiveWarning`.

    Examples
    --------
    >>> import virtualize
    >>> found = virtualize.scan(["fixtures/hdf5/netcdf4.nc"])
    >>> found.files, len(found.sets)
    (1, 1)
    """
    with Listener(on_event, progress) as listener:
        return _scan_of(_finish(_scan(inputs, options), listener))


async def scan_async(
    inputs: Inputs | None,
    *,
    on_event: OnEvent | None = None,
    progress: bool = False,
    **options: Unpack[ScanOptions],
) -> Scan:
    """Report what a set of files contains, as ``scan`` does."""
    with Listener(on_event, progress) as listener:
        return _scan_of(await _finish_async(_scan(inputs, options), listener))


type _Result = dict[str, Any]

type _Start = partial[_virtualize.Run]
"""Starts a run, given whether events are wanted."""


def _batch(inputs: Inputs | None, output: Location, options: BatchOptions) -> _Start:
    text = to_json(options, inputs=_locations(inputs))
    return partial(_virtualize.batch, output, text, "{}")


def _scan(inputs: Inputs | None, options: ScanOptions) -> _Start:
    text = to_json(options, inputs=_locations(inputs))
    return partial(_virtualize.scan, text)


def _locations(inputs: Inputs | None) -> list[str]:
    try:
        match inputs:
            case None:
                return []
            case str() | PathLike():
                return [fspath(inputs)]
            case _:
                return [fspath(one) for one in inputs]
    except TypeError as error:
        raise OptionError(f"inputs: expected paths or urls: {error}") from None


def _finish(start: _Start, listener: Listener) -> _Result:
    """Start a run and wait for its end. Whatever interrupts that stops the run."""
    run = start(listener.listens)
    try:
        while listener.listens and (found := events_of(run.events(True))):
            for event in found:
                listener(event)
        run.wait(True)
    except BaseException as problem:
        run.cancel()
        try:
            run.wait(True)
        except BaseException:
            run.abort()
            raise
        _explain(problem, run)
        raise
    return _loads(run.result())


async def _finish_async(start: _Start, listener: Listener) -> _Result:
    """Start a run and wait for its end. Whatever interrupts that stops the run."""
    run = start(listener.listens)
    try:
        while listener.listens and (found := events_of(await as_awaitable(run.events(False)))):
            for event in found:
                listener(event)
        await as_awaitable(run.wait(False))
    except BaseException as problem:
        run.cancel()
        try:
            await as_awaitable(run.wait(False))
        except BaseException:
            run.abort()
            raise
        _explain(problem, run)
        raise
    return _loads(run.result())


def _loads(text: str) -> _Result:
    found: _Result = json.loads(text)
    return found


def _explain(problem: BaseException, run: _virtualize.Run) -> None:
    """Add how a run ended to what interrupted it."""
    try:
        run.result()
    except Error as outcome:
        problem.add_note(str(outcome))


def _summary(found: _Result) -> Summary:
    summary = summary_of(found["summary"])
    _warn(found["warnings"])
    _warn_of_failures(summary.failed, summary.failures, "; give on_failure=\"retry\" to try them again")
    return summary


def _scan_of(found: _Result) -> Scan:
    report = found["scan"]
    scan = Scan(
        dimensions=[Dimension(**one) for one in report["dimensions"]],
        dimensions_are_guessed=report["dimensions_are_guessed"],
        order=report["order"],
        files=report["files"],
        sets=[FileSet(**one) for one in report["sets"]],
        runs=[_run(one) for one in report["runs"]],
        failed=[FailedFile(**one) for one in report["failed"]],
        _json=report,
        _table=found["table"],
    )
    _warn(found["warnings"])
    _warn_of_failures(len(scan.failed), [one.error for one in scan.failed], "")
    return scan


def _run(run: dict[str, Any]) -> FileRun:
    found = run["differences"]
    differences = None if found is None else [_difference(**one) for one in found]
    return FileRun(run["set"], run["files"], run["coordinates"], differences)


def _difference(path: str, what: str, left: str, right: str) -> Difference:
    return Difference(f"/{path}", what, left, right, f"/{path}: {what}: {left} → {right}")


def _warn(found: list[dict[str, Any]]) -> None:
    for one in found:
        more = f" and {one['files'] - 1} more" if one["files"] > 1 else ""
        warn(ArchiveWarning(f"{one['url']}{more}: {one['text']}", one["files"]))


def _warn_of_failures(count: int, first: list[str], remedy: str) -> None:
    if count:
        files = "1 file" if count == 1 else f"{count} files"
        text = f"{files} could not be read: {'; '.join(first[:3])}{'; …' if count > 3 else ''}{remedy}"
        warn(ArchiveWarning(text, count))
