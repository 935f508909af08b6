"""Opening files."""

import os
import warnings
from functools import lru_cache
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from virtualize import _virtualize
from virtualize._awaitable import as_awaitable
from virtualize._errors import ChangedError, VirtualizeWarning
from virtualize._options import OpenOptions, to_json

if TYPE_CHECKING:
    from virtualize._foreign import ForeignFiles
    from virtualize._store import VirtualStore

_PACKAGE = os.path.dirname(__file__)

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


def open(
    url: str | PathLike[str], *, store: Any = None, decoded: bool = False, **options: Unpack[OpenOptions]
) -> "VirtualStore":
    """Open an HDF5, NetCDF or TIFF file as a read-only Zarr store.

    Only metadata is read. Chunks are read from the file when the store is asked for them.

    Parameters
    ----------
    url
        Path or url: ``s3://``, ``gs://``, ``az://``, ``https://``, ``file://``. Credentials come from the environment.
    store
        Store to read the file from: one of obstore, an object with the methods ``get_range`` and ``head`` of obspec,
        or a registry of such stores. ``url`` is then a full url, or the path in a store of obstore.
    decoded
        Whether chunks are decoded by this package, so that readers need no codecs.
    **options
        Options of the command ``virtualize``, such as ``anonymous=True`` or ``chunk_grid="rectilinear"``.

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
    opening = Opening(fspath(url), to_json(options), decoded, store)
    return _made(opening.open(), opening)


async def open_async(
    url: str | PathLike[str], *, store: Any = None, decoded: bool = False, **options: Unpack[OpenOptions]
) -> "VirtualStore":
    """Open a file as ``open`` does, without blocking the event loop."""
    opening = Opening(fspath(url), to_json(options), decoded, store)
    return _made(await opening.open_async(), opening)


def _made(file: _virtualize.File, opening: Opening) -> "VirtualStore":
    """Return the store of a file, after its warnings."""
    # zarr is imported only now.
    from virtualize._store import VirtualStore

    for diagnostic in file.diagnostics:
        if diagnostic.severity == "warning":
            warnings.warn(VirtualizeWarning(file.name, diagnostic), skip_file_prefixes=(_PACKAGE,))
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
