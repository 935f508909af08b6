"""Events of runs: from JSON, to callbacks, and as a progress bar."""

import json
from collections.abc import Callable
from importlib import import_module
from typing import Any

from virtualize import events
from virtualize.events import Event

type OnEvent = Callable[[Event], object]
"""A function that is called with each event of a run."""


def events_of(text: str) -> list[Event]:
    """Return events of the log as objects."""
    return [_event_of(members) for members in json.loads(text)]


def _event_of(members: dict[str, Any]) -> Event:
    name = members.pop("event")
    if name == "done":
        members["summary"] = summary_of(members["summary"])
    if name == "failed":
        members["class_"] = members.pop("class")
    event: Event = getattr(events, name.capitalize())(**members)
    return event


def summary_of(members: dict[str, Any]) -> events.Summary:
    """Return a summary from its JSON."""
    members["retries"] = events.Retries(**members["retries"])
    return events.Summary(**members)


class Listener:
    """Receives the events of a run: shows a progress bar if it is wanted, and calls the caller's function."""

    def __init__(self, on_event: OnEvent | None, progress: bool) -> None:
        self._on_event = on_event
        self._new_bar = _tqdm() if progress else None
        self._bar: Any = None
        self.listens = on_event is not None or progress

    def __enter__(self) -> "Listener":
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def __call__(self, event: Event) -> None:
        """Handle an event."""
        if self._new_bar is not None:
            if self._bar is None:
                self._bar = self._new_bar(unit=" files", desc="reading")
            _show(self._bar, event)
        if self._on_event is not None:
            self._on_event(event)


def _tqdm() -> Any:
    # tqdm has no type annotations.
    try:
        return import_module("tqdm.auto").tqdm
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("progress=True needs tqdm: pip install tqdm", name=error.name) from None


def _show(bar: Any, event: Event) -> None:
    match event:
        case events.Listed(pending=pending, complete=True):
            bar.total = pending
            bar.refresh()
        case events.Read():
            bar.update()
        case events.Failed():
            # Those of a shard were counted when it was read.
            bar.update(bar.n < (bar.total or 0))
            bar.colour = "red"
        case events.ShardRead(files=files, failed=failed):
            bar.update(files)
            if failed:
                bar.colour = "red"
        case events.Combining(done=done, files=files):
            bar.set_postfix_str(f"combining {done} of {files}")
        case events.Writing(target=target):
            bar.set_postfix_str(f"writing {target}")
        case _:
            pass
