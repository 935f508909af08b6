"""A batch on many machines: workers of an executor read shards of the files into journals, which are merged."""

import json
import os.path
import time
from collections.abc import Callable
from functools import partial
from os import fspath
from typing import Any, Protocol, Self

from virtualize import _errors, _virtualize
from virtualize._errors import Error, OptionError, UnavailableError
from virtualize._options import BatchOptions, FileSelection, Location, to_json
from virtualize.events import ShardLost, ShardRead

_ATTEMPTS = 3
"""Default of the option ``attempts``."""

_NAMED = 3
"""Number of lost shards that an error names."""


class SupportsDone(Protocol):
    """A future, such as those of `concurrent.futures`."""

    def result(self) -> Any: ...
    def cancel(self) -> object: ...
    def add_done_callback(self, fn: Callable[[Any], object], /) -> object: ...


class SupportsSubmit(Protocol):
    """An executor, such as those of `concurrent.futures`."""

    def submit(self, fn: Callable[..., str], /, *args: Any) -> SupportsDone: ...


type Done = tuple[int, SupportsDone]
"""The number of a shard, and its task, which is done."""


def read_shard(output: str, options: str) -> str:
    """Read a shard into its journal, in a worker. Return the summary, or an error, as JSON."""
    try:
        run = _virtualize.batch(output, options, "{}", False)
        try:
            run.wait(True)
        except BaseException:
            run.abort()
            raise
        return json.dumps(json.loads(run.result())["summary"])
    except Error as error:
        # Executors wrap exceptions in different ways.
        return json.dumps({"error": type(error).__name__, "message": str(error)})


class Distribution:
    """A batch that is read by the workers of an executor.

    Parameters
    ----------
    inputs, output, options
        As for ``virtualize.batch``.
    size
        Number of files of a shard, if the caller chose it.
    folder
        Folder or prefix of the list and the journals of the shards, if the caller chose it.
    keep
        Whether to keep these after success.
    """

    def __init__(
        self,
        inputs: list[str],
        output: Location,
        options: BatchOptions,
        size: int | None,
        folder: Location | None,
        keep: bool,
    ) -> None:
        if size is not None and size < 1:
            raise OptionError(f"shard_size: expected a positive number of files, not {size}")
        for name in ("shard", "merge"):
            if options.get(name) is not None:
                raise OptionError(f"{name} cannot be combined with executor")
        self.output = fspath(output)
        self._inputs, self._options, self._size, self._keep = inputs, options, size, keep
        self.folder = _absolute(self.output.rstrip("/") + ".shards" if folder is None else folder).rstrip("/") + "/"
        self._list = f"{self.folder}files.jsonl"
        self.attempts = options.get("attempts") or _ATTEMPTS
        self.files = self.count = 0
        self._start = time.monotonic()
        # The list names the files.
        others = {name: value for name, value in options.items() if name not in FileSelection.__optional_keys__}
        self._others: dict[str, Any] = {**others, "list": self._list}

    def journal(self, number: int) -> str:
        """Return the location of the journal of a shard."""
        return f"{self.folder}shard-{number:05}-of-{self.count:05}.journal"

    def list_files(self) -> "partial[_virtualize.Run]":
        """Return what starts the listing, which writes the list."""
        text = to_json(self._options, BatchOptions, inputs=self._inputs)
        return partial(_virtualize.write_list, self.output, text, self._list, self._size)

    def shards(
        self, executor: "SupportsSubmit", planned: dict[str, Any], done: Callable[[Done], object]
    ) -> "Shards":
        """Return the shards to read, given the result of the listing."""
        self.files, self.count = planned["files"], planned["count"]
        return Shards(self, executor, planned["shards"], done)

    def worker_options(self, number: int) -> str:
        """Return the options of a worker that reads a shard."""
        chosen = {**self._others, "shard": f"{number}/{self.count}", "journal": self.journal(number)}
        return to_json(chosen, BatchOptions, inputs=[])

    def join(self, shards: "Shards") -> "partial[_virtualize.Run]":
        """Return what starts the run that merges the journals and writes the output."""
        text = to_json({**self._others, "merge": shards.journals}, BatchOptions, inputs=[])
        workers = {
            "read": sum(one.read for one in shards.read),
            "requests": sum(one.requests for one in shards.read),
            "bytes": sum(one.bytes for one in shards.read),
            "seconds": time.monotonic() - self._start,
            "used": [] if self._keep else [self._list, *map(self.journal, range(1, self.count + 1))],
        }
        return partial(_virtualize.batch, self.output, text, json.dumps(workers))


def _absolute(location: Location) -> str:
    """Return a location for workers, which may have another working directory."""
    location = fspath(location)
    return location if "://" in location else os.path.abspath(location)


class Shards:
    """The shards of a run: submits them, submits lost ones again, and takes their summaries.

    As a context, submits the shards at its start, and cancels what runs if it is left early.

    Parameters
    ----------
    run
        The run.
    executor
        Executes the tasks.
    numbers
        The shards to read.
    done
        Receives each task that is done, in any thread.
    """

    def __init__(
        self,
        run: Distribution,
        executor: SupportsSubmit,
        numbers: list[int],
        done: Callable[[Done], object],
    ) -> None:
        self._run, self._executor, self._done = run, executor, done
        self._attempts = dict.fromkeys(numbers, 0)
        self._running: dict[int, SupportsDone] = {}
        self._lost: dict[int, Exception] = {}
        self.read: list[ShardRead] = []

    def __enter__(self) -> Self:
        for number in self._attempts:
            self._submit(number)
        return self

    def __exit__(self, _: object, problem: BaseException | None, __: object) -> None:
        if problem is None:
            return self._check()
        for future in [*self._running.values()]:
            future.cancel()
        if not isinstance(problem, Error):
            problem.add_note(
                f"stopped; {len(self.read)} of {len(self._attempts)} shards are read; make the same call again to continue"
            )

    @property
    def is_running(self) -> bool:
        """Whether there are tasks that are not done."""
        return bool(self._running)

    @property
    def journals(self) -> list[str]:
        """Locations of all journals."""
        return [self._run.journal(number) for number in self._attempts]

    def _submit(self, number: int) -> None:
        run = self._run
        self._attempts[number] += 1
        try:
            future = self._executor.submit(read_shard, run.output, run.worker_options(number))
        except Exception as error:
            # The executor was shut down, or all its workers are lost.
            self._lost[number] = error
            return
        if not hasattr(future, "add_done_callback"):
            raise OptionError(f"executor: its futures ({type(future).__name__}) have no add_done_callback")
        self._running[number] = future
        future.add_done_callback(lambda future: self._done((number, future)))

    def take(self, number: int, future: SupportsDone) -> ShardRead | ShardLost:
        """Take the result of a task that is done. Return what happened.

        Raises
        ------
        Error
            No worker can read the shard.
        """
        del self._running[number]
        try:
            summary = json.loads(future.result())
        except ImportError as error:
            raise Error(f"{self._name(number)}: {error} (install virtualize where the workers run)") from error
        except Exception as error:
            return self._again(number, error)
        if "error" in summary:
            failure: Error = getattr(_errors, summary["error"])(self._explained(summary["message"]))
            if isinstance(failure, UnavailableError):
                return self._again(number, failure)
            raise type(failure)(f"{self._name(number)}: {failure}")
        names = ("journal", "files", "read", "failed", "failures", "requests", "bytes", "seconds")
        known = {name: summary[name] for name in names}
        event = ShardRead(time=time.time(), shard=number, shards=self._run.count, **known)
        self.read.append(event)
        return event

    def _again(self, number: int, error: Exception) -> ShardLost:
        """Submit a lost shard again, if it has attempts left."""
        attempt = self._attempts[number]
        if attempt < self._run.attempts:
            self._submit(number)
        else:
            self._lost[number] = error
        text = f"{type(error).__name__}: {error}"
        return ShardLost(time=time.time(), shard=number, shards=self._run.count, attempt=attempt, error=text)

    def _explained(self, message: str) -> str:
        """Return the message of a worker and, if it cannot reach the journals, what to do."""
        hint = ' (give shard_folder="…", a folder or prefix that all workers can read and write)'
        return message + hint if self._run.folder in message else message

    def _name(self, number: int) -> str:
        of, files = self._run.count, self._run.files
        first, last = (n * files // of for n in (number - 1, number))
        return f"shard {number} of {of} (files {first + 1} to {last})"

    def _check(self) -> None:
        """Raise an error if shards were lost, or if their journals are not here."""
        folder = self._run.folder
        if self._lost:
            named = [f"{self._name(n)}: {type(e).__name__}: {e}" for n, e in sorted(self._lost.items())]
            more = f"; and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
            count = "1 shard was" if len(named) == 1 else f"{len(named)} shards were"
            raise UnavailableError(
                f"{count} not read: {'; '.join(named[:_NAMED])}{more} (make the same call again, with an executor whose "
                f"workers run, to read what is missing; {folder} has the journals of the other shards)"
            ) from next(iter(self._lost.values()))
        absent = (name for name in self.journals if "://" not in name and not os.path.exists(name))
        if journal := next(absent, None):
            raise UnavailableError(
                f'{journal}: a worker wrote this journal, but it is not here (give shard_folder="…", a folder or prefix that '
                "all workers and this process share)"
            )
