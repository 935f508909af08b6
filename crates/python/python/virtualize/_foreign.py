"""Stores of other packages: obstore's, and any object with the methods of obspec's protocols."""

import os
import threading
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from virtualize._errors import ChangedError, OptionError


class Registry(Protocol):
    """Maps urls to stores, as ``obspec_utils.registry.ObjectStoreRegistry`` does."""

    def resolve(self, url: str, /) -> tuple[Any, str]: ...


type Version = tuple[int, str | None, int | None]
"""Size in bytes, entity tag, and modification time in microseconds since 1970."""


class ForeignFiles:
    """Files of a registry of stores, for the compiled module."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._without_time: set[str] = set()

    def __repr__(self) -> str:
        return f"ForeignFiles({self._registry!r})"

    def read(self, url: str, start: int, end: int, if_match: str | None) -> tuple[bytes, Version]:
        """Return bytes of a file and the version that contains them.

        ``if_match`` is the entity tag of the opened file; ``None`` at opening, and for a file without a tag.
        """
        store, path = self._resolve(url)
        if _is_obstore(store):
            return _read_conditionally(store, path, start, end, if_match)
        return self._read_and_look(url, store, path, start, end, if_match)

    def _resolve(self, url: str) -> tuple[Any, str]:
        try:
            store, path = self._registry.resolve(url)
        except ValueError as error:
            raise OptionError(f"no store for this url: {error}") from None
        # A registry takes "?" and "#" for the end of the path, and would find another file.
        if not url.endswith(path) or not path:
            raise OptionError(f"the registry resolves this url to {path!r}, which is not its end")
        return store, path

    def _read_and_look(
        self, url: str, store: Any, path: str, start: int, end: int, if_match: str | None
    ) -> tuple[bytes, Version]:
        """Read a range, and look up the version afterwards, since the answer has none."""
        before = self._version(url, store, path) if if_match is None else None
        if before is not None:
            end = min(end, before[0])
        data = _as_bytes(_call(store, "get_range", path, start=start, end=end)) if end > start else b""
        after = self._version(url, store, path)
        if before is not None and before != after:
            if before[:2] != after[:2] or after[1] is None:
                raise ChangedError("size, entity tag or modification time differ between two requests")
            # The store reports the present time where it knows none.
            self._without_time.add(url)
            after = (*after[:2], None)
        return data, after

    def _version(self, url: str, store: Any, path: str) -> Version:
        size, etag, modified = _version(_call(store, "head", path))
        return size, etag, None if url in self._without_time else modified


class OneStore:
    """A registry of one store."""

    def __init__(self, store: Any, root: str) -> None:
        self._store = store
        self._root = root

    def __repr__(self) -> str:
        return f"OneStore({self._store!r}, {self._root!r})"

    def resolve(self, url: str, /) -> tuple[Any, str]:
        if not url.startswith(self._root):
            raise ValueError(f"it is outside {self._root}")
        return self._store, url.removeprefix(self._root)


def files_of(url: str, store: Any) -> tuple[str, ForeignFiles]:
    """Return the full url of a file, and the files of its store or registry.

    ``url`` is a full url, or a path within a store whose own url is known.
    """
    if hasattr(store, "resolve"):
        return url, ForeignFiles(store)
    if not any(hasattr(store, name) for name in ("get", "get_range", "get_range_async")):
        raise OptionError(
            f"store is {type(store).__name__}, expected a store of obstore, "
            "an object with the methods get_range and head of obspec, or a registry of such stores"
        )
    root = _root(store)
    if "://" not in url:
        if root is None:
            raise OptionError(f"{url}: pass a full url, such as memory://name/{url}: the url of the store is not known")
        return root + url.removeprefix("/"), ForeignFiles(OneStore(store, root))
    if root is None:
        path = url.split("://", 1)[1].partition("/")[2]
        root = url.removesuffix(path)
    elif not url.startswith(root):
        raise OptionError(f"{url}: the store contains only files at {root}")
    return url, ForeignFiles(OneStore(store, root))


def _root(store: Any) -> str | None:
    """Return the url of a store of obstore, with a slash at its end; ``None`` if the store has none."""
    if not _is_obstore(store):
        return None
    names = _names(store)
    if "HTTPStore" in names:
        return str(store.url).removesuffix("/") + "/"
    prefix = str(getattr(store, "prefix", None) or "").strip("/")
    prefix = f"{prefix}/" if prefix else ""
    if "LocalStore" in names:
        return f"file:///{prefix}"
    for name, scheme, key in (
        ("S3Store", "s3", "bucket"),
        ("GCSStore", "gs", "bucket"),
        ("AzureStore", "az", "container_name"),
    ):
        if name in names and key in store.config:
            return f"{scheme}://{store.config[key]}/{prefix}"
    return None


def _names(store: Any) -> set[str]:
    return {base.__name__ for base in type(store).__mro__}


def _is_obstore(store: Any) -> bool:
    """Whether a store reports the version with the bytes, and supports conditional requests."""
    return any(base.__module__.split(".")[0] == "obstore" for base in type(store).__mro__)


def _read_conditionally(
    store: Any, path: str, start: int, end: int, if_match: str | None
) -> tuple[bytes, Version]:
    options: dict[str, Any] = {"range": (start, end)}
    if if_match is not None:
        options["if_match"] = if_match
    try:
        result = store.get(path, options=options)
    except Exception as error:
        # A range of an empty file is an error.
        if start == 0 and if_match is None and not isinstance(error, FileNotFoundError):
            version = _version(store.head(path))
            if version[0] == 0:
                return b"", version
        raise
    version = _version(result.meta)
    if "LocalStore" in _names(store):
        # No other client computes this tag, so references that contain it could not be read.
        version = (version[0], None, version[2])
    data = _as_bytes(result.buffer())
    expected = (start, min(end, version[0]))
    if tuple(result.range) != expected or len(data) != expected[1] - expected[0]:
        raise OSError(f"the store returned bytes {result.range}, expected {expected}")
    return data, version


def _version(meta: Any) -> Version:
    """Return the version in an ``ObjectMeta`` of obspec."""
    modified: datetime | None = meta.get("last_modified")
    if modified is None:
        return int(meta["size"]), meta.get("e_tag"), None
    if modified.tzinfo is None:
        modified = modified.replace(tzinfo=UTC)
    return int(meta["size"]), meta.get("e_tag"), (modified - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1)


def _as_bytes(data: Any) -> bytes:
    return data if type(data) is bytes else bytes(memoryview(data))


def _call(store: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    """Call a method of a store, or its asynchronous twin if it has only that."""
    if method := getattr(store, name, None):
        return method(*args, **kwargs)
    if method := getattr(store, f"{name}_async", None):
        return _wait(method(*args, **kwargs))
    raise OptionError(f"the store {type(store).__name__} has no method {name}")


_loops: dict[int, Any] = {}
_lock = threading.Lock()


def _wait(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine on an event loop of this package, in a thread of its own."""
    import asyncio

    with _lock:
        # A thread does not survive a fork.
        loop = _loops.get(os.getpid())
        if loop is None:
            loop = _loops[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="virtualize stores", daemon=True).start()
    return asyncio.run_coroutine_threadsafe(coroutine, loop).result()
