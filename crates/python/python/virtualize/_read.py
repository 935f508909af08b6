"""Reads what a selection means."""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from virtualize._selection import Indices, Outer, Shape, Vectorized

type Array = npt.NDArray[Any]
type Request = Sequence[tuple[int, int, int] | npt.NDArray[np.uint64]] | Mapping[str, Sequence[npt.NDArray[np.uint64]]]
"""What the compiled module reads: start, step and number, or indices, along each axis; or the coordinates of points."""
type Elements = Callable[[Request, Shape, Array | None], Array]
"""Reads elements into the array that it is given, or into a new one of the shape."""

_BLOCK = 1 << 20
"""Number of points whose coordinates are listed at once, unless those of one row of chunks are more."""


def result_shape(selected: Outer | Vectorized) -> Shape:
    """Return the shape of a selection."""
    if isinstance(selected, Outer):
        return selected.shape
    shape = np.broadcast_shapes(*(axis.shape for axis in selected.axes))
    points, others = shape[: selected.count], shape[selected.count :]
    return (*others[: selected.first], *points, *others[selected.first :])


def read(selected: Outer | Vectorized, chunks: Shape, elements: Elements, out: Array | None) -> Array:
    """Read a selection. The result need not be ``out``, which is only used if the elements have its order."""
    if isinstance(selected, Outer):
        return _outer(selected.axes, elements, out).reshape(selected.shape)
    values = _vectorized(selected.axes, chunks, elements)
    moved = range(selected.first, selected.first + selected.count)
    return np.moveaxis(values, range(selected.count), moved)


def _outer(axes: Sequence[range | Indices], elements: Elements, out: Array | None = None) -> Array:
    parts = [_ascending(axis) for axis in axes]
    request, shape = [part for part, _ in parts], tuple(map(len, axes))
    if not any(descends for _, descends in parts):
        return elements(request, shape, out)
    return elements(request, shape, None)[tuple(slice(None, None, -1 if descends else 1) for _, descends in parts)]


def _ascending(axis: range | Indices) -> tuple[tuple[int, int, int] | npt.NDArray[np.uint64], bool]:
    """Return indices for a request, and whether they are in reverse order."""
    if isinstance(axis, np.ndarray):
        step = int(axis[1] - axis[0]) if len(axis) > 1 else 1
        if not step or np.any(np.diff(axis) != step):
            return axis.astype(np.uint64), False
        axis = range(int(axis[0]), int(axis[-1]) + step, step) if len(axis) else range(0)
    if not axis:
        return (0, 1, 0), False
    return (min(axis[0], axis[-1]), abs(axis.step), len(axis)), axis.step < 0


def _vectorized(axes: Sequence[Indices], chunks: Shape, elements: Elements) -> Array:
    """Read elements by arrays of indices. Axes whose indices vary along a dimension of their own are read as a whole."""
    shape = np.broadcast_shapes(*(axis.shape for axis in axes))
    padded = [axis.reshape((1,) * (len(shape) - axis.ndim) + axis.shape) for axis in axes]
    varies = [[dim for dim, length in enumerate(axis.shape) if length != 1] for axis in padded]
    shared = [dim for dims in varies for dim in dims]
    is_own = [len(dims) == 1 and shared.count(dims[0]) == 1 for dims in varies]
    is_tied = [bool(dims) and not own for dims, own in zip(varies, is_own, strict=True)]
    if not any(is_tied):
        values = _outer([axis.ravel() for axis in padded], elements)
        order = [dims[0] for dims in varies if dims]
        return values.reshape([shape[dim] for dim in order]).transpose(np.argsort(order)).reshape(shape)
    tied_dims = sorted({dim for dims, tied in zip(varies, is_tied, strict=True) if tied for dim in dims})
    tied_shape = [shape[dim] for dim in tied_dims]
    points: dict[int, Indices] = {}
    others: dict[int, Indices] = {}
    for i, axis in enumerate(padded):
        if is_own[i]:
            others[i] = axis.ravel()
        else:
            squeezed = axis.reshape([axis.shape[dim] for dim in tied_dims])
            points[i] = np.broadcast_to(squeezed, tied_shape).ravel()
    values = _points(points, others, chunks, elements)
    order = tied_dims + [varies[i][0] for i in others]
    return values.reshape([shape[dim] for dim in order]).transpose(np.argsort(order)).reshape(shape)


def _points(points: dict[int, Indices], others: dict[int, Indices], chunks: Shape, elements: Elements) -> Array:
    """Read points along some axes, each with all combinations of indices along the others."""
    count = len(next(iter(points.values())))
    if not others:
        return elements({"points": [points[i].astype(np.uint64) for i in sorted(points)]}, (count,), None)
    shape = (count, *(len(indices) for indices in others.values()))
    axis, first = next(iter(others.items()))
    rows = max(1, _BLOCK // max(1, prod(shape) // max(1, len(first))))
    blocks: list[Array] = []
    for start, stop in _blocks(first, chunks[axis], rows):
        block = {**others, axis: first[start:stop]}
        grid = np.meshgrid(np.arange(count), *block.values(), indexing="ij", sparse=True)
        all_axes = {i: indices[grid[0]] for i, indices in points.items()} | dict(zip(block, grid[1:], strict=True))
        flat = [part.ravel() for part in np.broadcast_arrays(*(all_axes[i] for i in sorted(all_axes)))]
        request = {"points": [part.astype(np.uint64) for part in flat]}
        blocks.append(elements(request, (count, stop - start, *shape[2:]), None))
    return np.concatenate(blocks, axis=1) if len(blocks) != 1 else blocks[0]


def _blocks(indices: Indices, chunk: int, rows: int) -> list[tuple[int, int]]:
    """Divide indices into runs of at least so many that do not end within a chunk."""
    ends = np.flatnonzero(np.diff(indices // max(1, chunk))) + 1
    found, start = list[tuple[int, int]](), 0
    for end in [*ends.tolist(), len(indices)]:
        if end - start >= rows or end == len(indices):
            found.append((start, end))
            start = end
    return found
