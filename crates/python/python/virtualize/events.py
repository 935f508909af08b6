"""Events of a run over many files, for ``on_event=`` of ``virtualize.batch`` and ``virtualize.scan``.

Examples
--------
>>> import virtualize
>>> from virtualize import events
>>> def show(event: events.Event) -> None:
...     match event:
...         case events.Failed(url=url, error=error):
...             print("failed:", url, error)
...         case events.Sets(files=files):
...             print("files of each set:", files)
...         case _:
...             pass
>>> found = virtualize.scan("fixtures/hdf5/netcdf4.nc", on_event=show)
files of each set: [1]
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """Requests that were sent again because a store failed, by reason."""

    throttled: int
    """After the statuses 429 and 503, by which stores ask for fewer requests."""
    server: int
    """After other statuses of the server from 500 on."""
    connection: int
    """After connections that failed or broke."""
    timeout: int
    """After requests that took too long."""
    seconds: float
    """Seconds spent waiting before retries; concurrent waits add up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The outcome of a run, which ``virtualize.batch`` returns."""

    files: int
    """Number of listed files."""
    read: int
    """Number of files that this run read; with ``executor=``, also those that its workers read."""
    imported: int
    """Number of files that this run imported from the journals of shards."""
    known: int
    """Number of files that the journal already had."""
    failed: int
    """Number of files that could not be read."""
    failures: list[str]
    """The first failures with their reasons, one line each."""
    skipped: int
    """Number of files that were read but are not part of the output."""
    warnings: int
    """Number of warnings of this run."""
    requests: int
    """Number of requests of this run."""
    retries: Retries
    """Requests of this run that were sent again after failures of the store."""
    bytes: int
    """Bytes received in this run."""
    seconds: float
    """Duration of the run."""
    output: str | None
    """The output; ``None`` if nothing was written."""
    snapshot: str | None
    """Id of the snapshot of an Icechunk repository that contains the files."""
    journal: str
    """Path of the journal."""
    notes: list[str]
    """Notes on the run or the combined dataset, one line each."""
    sets: list[str]
    """Paths of the groups of the sets that were written; a single empty path if all files agree."""
    python: str | None
    """Python code that opens the output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """The listing found more files."""

    time: float
    """Seconds since 1970-01-01T00:00:00Z, as for all events."""
    files: int
    """Number of files found so far."""
    pending: int
    """Number of those that are still to be read."""
    complete: bool
    """Whether the listing is complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A file is being read."""

    time: float
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A file was read."""

    time: float
    url: str
    seconds: float
    """Duration of all attempts."""
    requests: int
    retries: int
    """Number of requests that were sent again after failures of the store."""
    bytes: int
    warnings: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retried:
    """A file could not be read, and will be tried again."""

    time: float
    url: str
    attempt: int
    """The attempt that failed, counted from 1."""
    error: str
    wait: float
    """Seconds until the next attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A file could not be read, and is not tried again in this run."""

    time: float
    url: str
    attempts: int
    class_: str
    """Class of the error, such as ``unavailable``."""
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardRead:
    """A worker of ``executor=`` read a shard: some of the files. It stands for the events of these files."""

    time: float
    shard: int
    """Number of the shard, counted from 1."""
    shards: int
    """Number of all shards."""
    journal: str
    """The journal of the shard."""
    files: int
    """Number of files of the shard."""
    read: int
    """Number of those that were read now. The others were in the journal already."""
    failed: int
    """Number of those that could not be read."""
    failures: list[str]
    """The first failures with their reasons, one line each."""
    requests: int
    bytes: int
    seconds: float
    """Duration of reading the files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """The files of a shard were imported from its journal."""

    time: float
    journal: str
    """The journal of the shard."""
    shard: str
    """The shard, such as ``3/10``."""
    files: int
    """Number of its files."""
    imported: int
    """Number of those that the journal did not have yet."""
    failed: int
    """Number of its files that could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardLost:
    """A worker of ``executor=`` was lost with the shard that it read, or could not read it."""

    time: float
    shard: int
    """Number of the shard, counted from 1."""
    shards: int
    """Number of all shards."""
    attempt: int
    """The attempt that failed, counted from 1."""
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A file is omitted from the output."""

    time: float
    url: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sets:
    """The files that were read are grouped into sets of compatible files."""

    time: float
    files: list[int]
    """Number of files of each set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A note on the run or the combined dataset."""

    time: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Combining:
    """Files are being joined."""

    time: float
    done: int
    files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """The output is being written."""

    time: float
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The run is over."""

    time: float
    summary: Summary


type Event = (
    Listed
    | Started
    | Read
    | Retried
    | Failed
    | ShardRead
    | ShardLost
    | Imported
    | Skipped
    | Sets
    | Note
    | Combining
    | Writing
    | Done
)
"""Any event."""
