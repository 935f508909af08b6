"""A file as a read-only Zarr store."""

import os
import pickle
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast

from virtualize import _virtualize
from virtualize._awaitable import as_awaitable
from virtualize._errors import warn_filled
from virtualize._inspection import Inspection
from virtualize._open import Opening, restore
from virtualize._options import IcechunkOptions, WriteOptions, to_json

if TYPE_CHECKING:
    import asyncio

    from virtualize._manifest import Manifest

    from xarray import Dataset
    from zarr.abc.store import ByteRequest, Store
    from zarr.core.buffer import Buffer, BufferPrototype
    from zarr.core.buffer.core import ArrayLike

    from virtualize._array import VirtualArray, VirtualGroup

    type Value = _virtualize.Chunk | None
else:
    try:
        from zarr.abc.store import Store
    except ModuleNotFoundError:
        # Without zarr, a store still gives metadata and arrays.
        Store = object

type Part = tuple[int, int] | int | None
"""Part of a value: from one byte to another, or from a byte on, which counts from the end if it is negative."""

type KerchunkFormat = Literal["kerchunk-json", "kerchunk-parquet"]

_PAGE = 10_000
"""Number of keys that are listed at once."""


class VirtualStore(Store):
    """A file as a read-only Zarr v3 store, which ``virtualize.open`` returns.

    It holds no data: a chunk is read from the file on request. If the file has changed since, that fails.

    A store can be pickled. In another process it opens the file again, and fails if the file has changed.

    Examples
    --------
    >>> import virtualize, zarr
    >>> store = virtualize.open("fixtures/hdf5/chunked.h5")
    >>> zarr.open_array(store, path="temperature", mode="r")
    <Array <VirtualStore .../fixtures/hdf5/chunked.h5 (HDF5)>/temperature shape=(4, 6) dtype=float32>
    """

    def __init__(self, file: _virtualize.File, opening: Opening) -> None:
        if TYPE_CHECKING or Store is not object:
            super().__init__(read_only=True)
        self._is_open = True
        self._opened = file
        self._opening = opening.pinned(file)
        self._version = file.version
        self._process = os.getpid()
        self._batches = threading.local()

    @property
    def _file(self) -> _virtualize.File:
        # Connections do not survive a fork.
        if self._process != os.getpid():
            self._opened, self._process = self._opening.reopen(self._version), os.getpid()
        return self._opened

    def __repr__(self) -> str:
        return f"<VirtualStore {self._opened.name} ({self._opened.source_format})>"

    __str__ = __repr__

    def __eq__(self, value: object) -> bool:
        return (
            isinstance(value, VirtualStore)
            and self._opening == value._opening
            and self._version == value._version
        )

    def __hash__(self) -> int:
        return hash((self._opening.url, self._opening.options, self._opening.decoded, self._version))

    def __reduce__(self) -> tuple[Any, ...]:
        return restore, (pickle.dumps(self._opening), self._version)

    # ---- what the file contains

    def __getitem__(self, path: str) -> "VirtualArray | VirtualGroup":
        """Return the array or group at a path."""
        from virtualize._array import node

        return node(self, path)

    def attributes(self, path: str) -> dict[str, Any]:
        """Return the attributes of an array or a group."""
        return self._file.attributes(path)

    def __contains__(self, path: object) -> bool:
        return path in self._root()

    def __iter__(self) -> Iterator[str]:
        return iter(self._root())

    def _root(self) -> "VirtualGroup":
        from virtualize._array import VirtualGroup

        return VirtualGroup(self, "")

    @property
    def report(self) -> dict[str, Any]:
        """Mapping of each array with its reasons, and all diagnostics, as ``virtualize inspect --json`` prints them."""
        return self._file.inspect()

    def inspect(self, *arrays: str, full: bool = False) -> Inspection:
        """Return the description that ``virtualize inspect`` prints.

        Notebooks also show each array, which unfolds to all that is known about it.

        Parameters
        ----------
        *arrays
            Paths of arrays to describe in detail, instead of the whole file.
        full
            Whether to list all groups, arrays and notes, however many they are.

        Raises
        ------
        KeyError
            The file has no array at one of the paths.
        """
        if arrays:
            return Inspection(self._file.describe_arrays(arrays))
        return Inspection(self._file.describe(full), self._file)

    def to_xarray(self, group: str | None = None, **options: Any) -> "Dataset":
        """Return a group as a dataset: ``xarray.open_dataset(store, engine="virtualize", …)``.

        Parameters
        ----------
        group
            Path of the group, by default the root.
        **options
            Parameters of ``xarray.open_dataset``, such as ``chunks``.
        """
        from virtualize._open import open_dataset

        return open_dataset(self, group=group, **options)

    def manifest(self, path: str) -> "Manifest":
        """Return the locations of the chunks of an array."""
        from virtualize._manifest import manifest_of

        return manifest_of(self._file, path)

    # ---- references

    def to_kerchunk(
        self,
        target: str | os.PathLike[str],
        *,
        format: KerchunkFormat | None = None,
        **options: Unpack[WriteOptions],
    ) -> None:
        """Write kerchunk references.

        Parameters
        ----------
        target
            Path or url of the output.
        format
            ``"kerchunk-json"`` or ``"kerchunk-parquet"``. By default, the latter for a target that ends in
            ``.parquet`` or ``.parq``.
        **options
            ``overwrite``, which replaces an output that is a folder, ``record_size``, ``rewrite_url``, ``relative``.
        """
        target, format = _kerchunk(target, format)
        self._file.write(format, target, to_json(options), True)

    async def to_kerchunk_async(
        self,
        target: str | os.PathLike[str],
        *,
        format: KerchunkFormat | None = None,
        **options: Unpack[WriteOptions],
    ) -> None:
        """Write kerchunk references as ``to_kerchunk`` does, without blocking the event loop."""
        target, format = _kerchunk(target, format)
        await as_awaitable(self._file.write(format, target, to_json(options), False))

    def to_zarr3(self, target: str | os.PathLike[str], **options: Unpack[WriteOptions]) -> None:
        """Write Zarr v3 references in the layout of kerchunk JSON.

        Parameters
        ----------
        target
            Path or url of the output.
        **options
            ``rewrite_url``, ``relative``.
        """
        self._file.write("zarr3-json", target, to_json(options), True)

    async def to_zarr3_async(self, target: str | os.PathLike[str], **options: Unpack[WriteOptions]) -> None:
        """Write Zarr v3 references as ``to_zarr3`` does, without blocking the event loop."""
        written = self._file.write("zarr3-json", target, to_json(options), False)
        await as_awaitable(written)

    def to_icechunk(self, repository: str | os.PathLike[str], **options: Unpack[IcechunkOptions]) -> str:
        """Commit to an Icechunk repository, which is created if it does not exist.

        Parameters
        ----------
        repository
            Path or url.
        **options
            ``branch``, ``message``, ``author``, ``commit_property``, ``group``, ``replace``.

        Returns
        -------
        str
            Id of the snapshot.
        """
        return self._file.write("icechunk", repository, to_json(options), True) or ""

    async def to_icechunk_async(
        self, repository: str | os.PathLike[str], **options: Unpack[IcechunkOptions]
    ) -> str:
        """Commit to an Icechunk repository as ``to_icechunk`` does, without blocking the event loop."""
        snapshot = self._file.write("icechunk", repository, to_json(options), False)
        return await as_awaitable(snapshot) or ""

    # ---- reading, for zarr

    @cached_property
    def _documents(self) -> dict[str, bytes]:
        return {key: text.encode() for key, text in self._file.documents().items()}

    async def get(
        self,
        key: str,
        prototype: "BufferPrototype | None" = None,
        byte_range: "ByteRequest | None" = None,
    ) -> "Buffer | None":
        """Return the value of a key. Requests that an event loop makes at once are read together."""
        part = _part(byte_range)
        document = self._documents.get(key)
        value = _within(document, part) if document is not None else await self._chunk(key, part)
        return _buffer(value, prototype)

    async def get_partial_values(
        self, prototype: "BufferPrototype", key_ranges: "Iterable[tuple[str, ByteRequest | None]]"
    ) -> "list[Buffer | None]":
        """Return the values of keys, or parts of them, in the order of the keys."""
        import asyncio

        return list(await asyncio.gather(*(self.get(key, prototype, part) for key, part in key_ranges)))

    def get_sync(
        self,
        key: str,
        *,
        prototype: "BufferPrototype | None" = None,
        byte_range: "ByteRequest | None" = None,
    ) -> "Buffer | None":
        """Return the value of a key, read on the calling thread."""
        part = _part(byte_range)
        document = self._documents.get(key)
        if document is not None:
            return _buffer(_within(document, part), prototype)
        value = self._file.chunks([(key, part)], True)[0]
        warn_filled(self._file)
        return _buffer(value, prototype)

    def _chunk(self, key: str, part: Part) -> "asyncio.Future[Value]":
        """Return the value of a chunk, which is read with all others that this turn of the event loop asks for."""
        import asyncio

        loop = asyncio.get_running_loop()
        # Every thread has its own loop.
        batch: list[tuple[str, Part, asyncio.Future[Value]]] | None = getattr(self._batches, "current", None)
        if batch is None:
            batch = self._batches.current = []
            loop.call_soon(self._read, batch)
        future = loop.create_future()
        batch.append((key, part, future))
        return future

    def _read(self, batch: "list[tuple[str, Part, asyncio.Future[Value]]]") -> None:
        """Read the chunks of a batch, and settle their futures."""
        import asyncio

        self._batches.current = None
        loop = asyncio.get_running_loop()

        def settle(values: "asyncio.Future[list[Value | Exception]]") -> None:
            error = asyncio.CancelledError() if values.cancelled() else values.exception()
            results = values.result() if error is None else [error] * len(batch)
            warn_filled(self._file)
            for (_, _, future), value in zip(batch, results, strict=True):
                if future.done():
                    continue
                if isinstance(value, BaseException):
                    future.set_exception(value)
                else:
                    future.set_result(value)

        read = self._file.chunks([(key, part) for key, part, _ in batch], False)
        asyncio.wrap_future(read, loop=loop).add_done_callback(settle)

    async def exists(self, key: str) -> bool:
        """Return whether the store has a key."""
        return key in self._documents or self._file.has_chunk(key)

    async def getsize(self, key: str) -> int:
        """Return the length of the value of a key in bytes."""
        document = self._documents.get(key)
        if document is not None:
            return len(document)
        if not self._file.has_chunk(key):
            raise FileNotFoundError(key)
        size = self._file.chunk_size(key)
        if size is None:
            # The length of texts is known only when they are decoded.
            size = len(await self.get(key) or b"")
        return size

    # ---- listing, for zarr

    def list(self) -> AsyncIterator[str]:
        """List all keys."""
        return self.list_prefix("")

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """List the keys that start with a prefix."""
        for key in _pages(lambda after: self._file.list_keys(prefix, after, _PAGE)):
            yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """List the names of the keys and folders in a folder."""
        for name in _pages(lambda after: self._file.list_folder(prefix, after, _PAGE)):
            yield name

    # ---- writing, which is refused

    @property
    def supports_writes(self) -> bool:
        """``False``."""
        return False

    @property
    def supports_deletes(self) -> bool:
        """``False``."""
        return False

    @property
    def supports_listing(self) -> bool:
        """``True``."""
        return True

    def with_read_only(self, read_only: bool = False) -> "VirtualStore":
        """Return the store, which can only be read."""
        if not read_only:
            raise ValueError(f"{self!r} is read-only (write references with to_kerchunk, to_zarr3 or to_icechunk)")
        return VirtualStore(self._file, self._opening)

    async def set(self, key: str, value: "Buffer") -> None:
        """Raise ``ValueError``: the store is read-only."""
        self._check_writable()

    async def delete(self, key: str) -> None:
        """Raise ``ValueError``: the store is read-only."""
        self._check_writable()

    async def delete_dir(self, prefix: str) -> None:
        """Raise ``ValueError``: the store is read-only."""
        self._check_writable()

    async def clear(self) -> None:
        """Raise ``ValueError``: the store is read-only."""
        self._check_writable()

    def set_sync(self, key: str, value: "Buffer") -> None:
        """Raise ``ValueError``: the store is read-only."""
        self._check_writable()

    def delete_sync(self, key: str) -> None:
        """Raise ``ValueError``: the store is read-only."""
        self._check_writable()


def _kerchunk(target: str | os.PathLike[str], format: KerchunkFormat | None) -> tuple[str, KerchunkFormat]:
    target = os.fspath(target)
    if format is None:
        is_parquet = target.rstrip("/").endswith((".parquet", ".parq"))
        format = "kerchunk-parquet" if is_parquet else "kerchunk-json"
    return target, format


def _part(request: "ByteRequest | None") -> Part:
    """Return the part of a value that zarr asks for."""
    from zarr.abc.store import OffsetByteRequest, SuffixByteRequest

    if request is None:
        return None
    if isinstance(request, OffsetByteRequest):
        return request.offset
    if isinstance(request, SuffixByteRequest):
        # A suffix of 0 bytes is empty.
        return -request.suffix or (0, 0)
    return request.start, request.end


def _within(value: bytes, part: Part) -> bytes:
    match part:
        case None:
            return value
        case int(start):
            return value[start:]
        case start, end:
            return value[start:end]


def _buffer(value: "Value | bytes | Exception", prototype: "BufferPrototype | None") -> "Buffer | None":
    if value is None:
        return None
    if isinstance(value, Exception):
        raise value
    from zarr.core.buffer import default_buffer_prototype

    make = (prototype or default_buffer_prototype()).buffer
    if isinstance(value, bytes):
        return make.from_bytes(value)
    return make.from_array_like(cast("ArrayLike", value))


def _pages(page: Callable[["str | None"], "list[str]"]) -> Iterable[str]:
    after: str | None = None
    while names := page(after):
        yield from names
        after = names[-1]
