"""Opening files and archives."""

import json
import os
from collections.abc import Mapping
from functools import lru_cache
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack, cast

from virtualize import _virtualize
from virtualize._awaitable import as_awaitable
from virtualize._errors import ChangedError, OptionError, warn_of
from virtualize._fsspec import FsspecStore
from virtualize._options import ConnectionOptions, LayoutOptions, OpenOptions, PlanOptions, to_json

if TYPE_CHECKING:
    from virtualize._foreign import ForeignFiles
    from virtualize._store import VirtualStore
    from xarray import Dataset

type Version = tuple[tuple[str, str | None, int, int | None], ...]
"""Url, entity tag, size in bytes and modification time in milliseconds of each source file."""


class Opening(NamedTuple):
    """The arguments with which a file is opened, in this process or another one."""

    url: str
    options: str
    decoded: bool
    store: Any

    def open(self) -> _virtualize.File:
        """Open the file."""
        url, files = self._located()
        return _virtualize.open(url, self.options, self.decoded, files, True)

    async def open_async(self) -> _virtualize.File:
        """Open the file."""
        url, files = self._located()
        return await as_awaitable(_virtualize.open(url, self.options, self.decoded, files, False))

    def _located(self) -> "tuple[str, ForeignFiles | None]":
        if self.store is None:
            return self.url, None
        from virtualize._foreign import files_of

        return files_of(self.url, self.store)

    def pinned(self, file: _virtualize.File) -> "Opening":
        """Return the arguments for opening this snapshot of an Icechunk repository again, whatever is committed later."""
        if file.snapshot is None:
            return self
        options = json.loads(self.options)
        kept = {name: value for name, value in options.items() if name not in ("branch", "tag", "snapshot")}
        return self._replace(options=json.dumps({**kept, "snapshot": file.snapshot}))

    def reopen(self, version: Version) -> _virtualize.File:
        """Open the file again, and refuse another version of it.

        Raises
        ------
        ChangedError
            The file has changed.
        """
        file = self.open()
        found = file.version
        # A store that reports no entity tag, or no time, in one of the two cases says nothing about a change.
        if len(found) != len(version) or not all(map(_is_same, found, version)):
            raise ChangedError(f"{file.name}: the file has changed since it was opened (open it again)")
        return file


def _is_same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return all(a == b or a is None or b is None for a, b in zip(one, other, strict=True))


def opening_of(url: Any, store: Any, decoded: bool, options: Mapping[str, Any]) -> Opening:
    """Return the arguments for opening what a user names: a path, a url, or an object of fsspec or universal_pathlib.

    Several files, or a pattern with the name of a dimension, are combined first.
    """
    if _COMBINING & options.keys() or isinstance(url, list | tuple):
        return _combined(url, store, decoded, options)
    if isinstance(url, str):
        return Opening(url if store is not None else _absolute(url), to_json(options), decoded, store)
    # A file or open file of fsspec, and a path of universal_pathlib, with its credentials.
    files = getattr(url, "fs", None)
    if files is not None and store is None and hasattr(files, "unstrip_protocol"):
        protocols = (files.protocol,) if isinstance(files.protocol, str) else files.protocol
        if "file" in protocols:
            return Opening(_absolute(url.path), to_json(options), decoded, None)
        return Opening(files.unstrip_protocol(url.path), to_json(options), decoded, FsspecStore(files))
    path = os.fspath(cast("PathLike[str]", url)) if isinstance(url, PathLike) else _path_of(url)
    return Opening(path if store is not None else _absolute(path), to_json(options), decoded, store)


def _absolute(path: str) -> str:
    """Return a local path that names the same file after a change of the working directory, and a url unchanged."""
    path = os.path.expanduser(path)
    return os.path.join(os.getcwd(), path) if path and "://" not in path else path


def _path_of(file: Any) -> str:
    """Return the path of an open file of the local disk.

    Members of zip and tar files have names too, but these are not paths.
    """
    name = getattr(file, "name", None)
    try:
        if isinstance(name, str) and os.path.samestat(os.fstat(file.fileno()), os.stat(name)):
            return name
    except (AttributeError, OSError, ValueError):
        pass
    raise OptionError(
        f"expected a path, a url, a file of fsspec, or an open local file, not {type(file).__name__} "
        "(write the bytes to a file, or pass the path)"
    )


_COMBINING = LayoutOptions.__annotations__.keys() | PlanOptions.__annotations__.keys()


def _combined(files: Any, store: Any, decoded: bool, options: Mapping[str, Any]) -> Opening:
    """Combine files, and return the arguments for opening the references to them, which exist until this process ends."""
    import atexit
    import shutil
    import tempfile

    from virtualize._archive import batch

    if store is not None:
        raise OptionError("store is not an option for several files (give their urls, and options such as endpoint)")
    folder = tempfile.mkdtemp(prefix="virtualize-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    references = os.path.join(folder, "references.json")
    reading = _READING & options.keys()
    batch(
        files,
        references,
        format="zarr3-json",
        progress=False,
        **{name: value for name, value in options.items() if name not in reading},
    )
    kept = reading | ((ConnectionOptions.__required_keys__ | ConnectionOptions.__optional_keys__) & options.keys())
    return Opening(references, to_json({name: options[name] for name in kept}), decoded, None)


_READING = {"cache", "on_error"}


def open(
    url: str | PathLike[str], *, store: Any = None, decoded: bool = False, **options: Unpack[OpenOptions]
) -> "VirtualStore":
    """Open an HDF5, NetCDF or TIFF file, or an archive of references, as a read-only Zarr store.

    Only metadata is read. Chunks are read from the files when they are requested.

    Parameters
    ----------
    url
        Path or url: ``s3://``, ``gs://``, ``az://``, ``https://``, ``file://``. Credentials come from the environment.
        Of a file, of kerchunk references (JSON or Parquet), of Zarr v3 references, or of an Icechunk repository. A file
        of fsspec and a path of universal_pathlib are read through their file system.
    store
        Store to read the file from: one of obstore, an object with the methods ``get_range`` and ``head`` of obspec,
        or a registry of such stores. ``url`` is then a full url, or the path in a store of obstore.
    decoded
        Whether chunks are decoded by this package, so that readers need no codecs.
    **options
        Options of the command ``virtualize``, such as ``anonymous=True`` or ``chunk_grid="rectilinear"``. Of an archive:
        ``branch``, ``tag`` or ``snapshot``; ``rewrite_url={"s3://old/": "s3://new/"}`` where its files have moved;
        ``on_error="fill"`` where some are missing. ``cache`` is the memory for decoded chunks between reads,
        and for what is read ahead.

    Returns
    -------
    VirtualStore
        A store of Zarr v3.

    Raises
    ------
    NotFoundError
        The file does not exist.
    RefusedError
        The file cannot be mapped without loss.
    OptionError
        An option is unknown or invalid.

    Warns
    -----
    VirtualizeWarning
        Part of the file is missing from the store.

    Examples
    --------
    >>> import virtualize
    >>> virtualize.open("fixtures/tiff/cog.tif")
    <VirtualStore .../fixtures/tiff/cog.tif (TIFF)>
    """
    opening = opening_of(url, store, decoded, options)
    return _made(opening.open(), opening)


async def open_async(
    url: str | PathLike[str], *, store: Any = None, decoded: bool = False, **options: Unpack[OpenOptions]
) -> "VirtualStore":
    """Open a file as ``open`` does, without blocking the event loop."""
    opening = opening_of(url, store, decoded, options)
    return _made(await opening.open_async(), opening)


def _made(file: _virtualize.File, opening: Opening) -> "VirtualStore":
    """Return the store of a file, after its warnings."""
    # zarr is imported only now.
    from virtualize._store import VirtualStore

    warn_of(file)
    return VirtualStore(file, opening)


def restore(opening: bytes, version: Version) -> "VirtualStore":
    """Return a store that was pickled. Files are opened once in each process."""
    from virtualize._store import VirtualStore

    file, arguments = _restored(opening, version, os.getpid())
    return VirtualStore(file, arguments)


@lru_cache(maxsize=64)
def _restored(opening: bytes, version: Version, process: int) -> tuple[_virtualize.File, Opening]:
    # Connections do not survive a fork, so each process has files of its own.
    import pickle

    arguments: Opening = pickle.loads(opening)
    return arguments.reopen(version), arguments


def open_dataset(url: Any, **options: Any) -> "Dataset":
    """Open a file or an archive as a dataset: ``xarray.open_dataset(url, engine="virtualize", …)``."""
    import xarray as xr

    # Incompletely typed.
    opened: Any = xr.open_dataset  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    dataset: Dataset = opened(url, engine="virtualize", **options)
    return dataset
