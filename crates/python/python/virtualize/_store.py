"""A file as a read-only Zarr store."""

import warnings
from typing import Any, Unpack

from virtualize import _virtualize
from virtualize._awaitable import as_awaitable
from virtualize._errors import VirtualizeWarning
from virtualize._options import IcechunkOptions, OpenOptions, WriteOptions, to_json


class VirtualStore:
    """A file as a read-only Zarr v3 store. :func:`virtualize.open` returns it."""

    def __init__(self, file: _virtualize.File) -> None:
        self._file = file

    @property
    def report(self) -> dict[str, Any]:
        """Decisions and diagnostics, as ``virtualize inspect --json`` prints them."""
        return self._file.inspect()

    def to_kerchunk(
        self, target: str, *, format: str = "kerchunk-json", overwrite: bool = False, **options: Unpack[WriteOptions]
    ) -> None:
        """Write kerchunk references.

        Parameters
        ----------
        target
            Path or url of the output.
        format
            ``"kerchunk-json"`` or ``"kerchunk-parquet"``.
        overwrite
            Whether to replace a folder that is not empty.
        **options
            ``record_size``, ``rewrite_url``, ``relative``.
        """
        self._file.write(format, str(target), overwrite, to_json(options), True)

    def to_icechunk(self, target: str, **options: Unpack[IcechunkOptions]) -> str:
        """Commit to an Icechunk repository, and return the id of the snapshot."""
        snapshot = self._file.write("icechunk", str(target), False, to_json(options), True)
        assert snapshot is not None
        return snapshot


def open(url: str, **options: Unpack[OpenOptions]) -> VirtualStore:
    """Open a file as a Zarr store."""
    return _opened(_virtualize.open(str(url), to_json(options), True))


async def open_async(url: str, **options: Unpack[OpenOptions]) -> VirtualStore:
    """Open a file as a Zarr store."""
    return _opened(await as_awaitable(_virtualize.open(str(url), to_json(options), False)))


def _opened(file: _virtualize.File) -> VirtualStore:
    for diagnostic in file.diagnostics:
        if diagnostic.severity == "warning":
            warnings.warn(VirtualizeWarning(file.name, diagnostic), stacklevel=3)
    return VirtualStore(file)
