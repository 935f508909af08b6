"""Locations of the chunks of an array."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from virtualize import _virtualize


@dataclass(frozen=True, slots=True, eq=False)
class Manifest:
    """Locations of the chunks of an array.

    The columns have the shape of the chunk grid: one element for each chunk, also for missing ones.

    Attributes
    ----------
    urls
        Urls of the files that contain chunks.
    source
        Index into ``urls``; -1 for a chunk that is missing or inline.
    offset
        Offset of the first byte in the file.
    length
        Length in bytes; 0 for a missing chunk, which reads as the fill value.
    inline
        Encoded chunks that are part of the references, by their index in the grid.

    Examples
    --------
    >>> import virtualize
    >>> manifest = virtualize.open("scene.tif").manifest("0")  # doctest: +SKIP
    >>> int(manifest.length.sum())  # doctest: +SKIP
    48213
    """

    urls: list[str]
    source: NDArray[np.int32]
    offset: NDArray[np.uint64]
    length: NDArray[np.uint64]
    inline: dict[tuple[int, ...], bytes]

    def __repr__(self) -> str:
        return (
            f"Manifest<{self.source.shape} chunks, {int((self.source >= 0).sum())} in {len(self.urls)} files, "
            f"{len(self.inline)} inline>"
        )


def manifest_of(file: _virtualize.File, path: str) -> Manifest:
    """Return the locations of the chunks of an array."""
    counts, urls, source, offset, length, inline = file.manifest(path)
    shape = tuple(counts)
    return Manifest(
        urls,
        _column(source, shape, np.int32),
        _column(offset, shape, np.uint64),
        _column(length, shape, np.uint64),
        {tuple(int(at) for at in np.unravel_index(position, shape)): data for position, data in inline},
    )


def _column(values: NDArray[Any] | int, shape: tuple[int, ...], dtype: type[np.generic]) -> NDArray[Any]:
    """Return a read-only column in the shape of the grid; one value takes no memory per chunk."""
    if isinstance(values, int):
        return np.broadcast_to(np.asarray(values, dtype), shape)
    column = values.reshape(shape)
    column.flags.writeable = False
    return column
