"""Selections of NumPy and Zarr as indices along each axis."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

type Indices = npt.NDArray[np.intp]
type Shape = tuple[int, ...]
type Entry = range | Indices | int | None
"""Indices along an axis, one index, or a new axis."""


@dataclass(frozen=True, slots=True)
class Outer:
    """All combinations of indices along each axis. The result is reshaped, which drops and adds axes of length 1."""

    axes: Sequence[range | Indices]
    shape: Shape


@dataclass(frozen=True, slots=True)
class Vectorized:
    """One array of indices for each axis, broadcast against each other. ``count`` leading axes of the result move to ``first``."""

    axes: Sequence[Indices]
    count: int = 0
    first: int = 0


def basic(key: Any, shape: Shape) -> Outer | Vectorized:
    """Interpret a key as NumPy does in ``array[key]``."""
    entries = _expanded(key, shape)
    if any(isinstance(entry, np.ndarray) for entry in entries):
        return _advanced(entries)
    return _outer(entries)


def outer(key: Any, shape: Shape) -> Outer:
    """Interpret a key as Zarr does in ``array.oindex[key]``: each axis by itself."""
    entries = _expanded(key, shape)
    if any(isinstance(entry, np.ndarray) and entry.ndim > 1 for entry in entries):
        raise IndexError("oindex takes arrays of one axis")
    return _outer(entries)


def vectorized(key: Any, shape: Shape) -> Vectorized:
    """Interpret a key as Zarr does in ``array.vindex[key]``: arrays of indices for all axes, or a mask."""
    entries = _expanded(key, shape)
    if any(entry is None or isinstance(entry, range) for entry in entries):
        raise IndexError("vindex takes indices for each axis, or a mask of the array's shape")
    arrays = [np.asarray(entry, np.intp) for entry in entries]
    _broadcast(arrays)
    return Vectorized(arrays)


def as_tuple(key: Any) -> tuple[Any, ...]:
    """Return the entries of a key."""
    if not isinstance(key, tuple):
        return (key,)
    entries: tuple[Any, ...] = key  # pyright: ignore[reportUnknownVariableType]
    return entries


def _expanded(key: Any, shape: Shape) -> list[Entry]:
    """Return one entry for each axis, and ``None`` for each new axis. Indices in them count from the start."""
    entries = [part for entry in as_tuple(key) for part in _parts(entry)]
    if sum(entry is Ellipsis for entry in entries) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    used = sum(entry is not None and entry is not Ellipsis for entry in entries)
    if used > len(shape):
        raise IndexError(f"too many indices: the array has {len(shape)} axes, but {used} were indexed")
    at = next((i for i, entry in enumerate(entries) if entry is Ellipsis), len(entries))
    entries[at : at + 1] = [slice(None)] * (len(shape) - used)
    axis, found = 0, list[Entry]()
    for entry in entries:
        found.append(None if entry is None else _from_start(entry, axis, shape[axis]))
        axis += entry is not None
    return found


@dataclass(frozen=True, slots=True)
class _Mask:
    """Where a mask is true, along one axis."""

    indices: Indices
    length: int


def _parts(entry: Any) -> list[Any]:
    """Return the entries that an entry of a key stands for: a mask is one for each of its axes."""
    is_list = isinstance(entry, list)
    if not (is_list or isinstance(entry, bool | np.bool)):
        if isinstance(entry, np.generic) or not hasattr(entry, "__array__"):
            return [entry]
    array: npt.NDArray[Any] = np.asarray(entry)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if array.size == 0 and is_list:
        array = array.astype(np.intp)
    if array.dtype == bool and array.ndim:
        return [_Mask(indices, length) for indices, length in zip(array.nonzero(), array.shape, strict=True)]
    if array.dtype.kind not in "iu":
        raise IndexError(f"arrays of indices must be of integers, or masks of at least one axis, not {array.dtype}")
    return [array]


def _from_start(entry: Any, axis: int, size: int) -> range | Indices | int:
    """Return the indices of an entry of a key, counted from the start."""
    if isinstance(entry, slice):
        part: slice[Any, Any, Any] = entry  # pyright: ignore[reportUnknownVariableType]
        return range(*part.indices(size))
    if isinstance(entry, _Mask):
        if entry.length != size:
            raise IndexError(f"a mask of length {entry.length} along axis {axis} with size {size}")
        return entry.indices
    is_array = isinstance(entry, np.ndarray)
    if not is_array:
        try:
            entry = operator.index(entry)
        except TypeError:
            raise IndexError(
                "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays "
                f"are valid indices, not {entry!r}"
            ) from None
    array: npt.NDArray[Any] = np.asarray(entry)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if array.size and not (-size <= array.min() and array.max() < size):
        wrong = array[(array < -size) | (array >= size)].flat[0]
        raise IndexError(f"index {wrong} is out of bounds for axis {axis} with size {size}")
    indices = array.astype(np.intp, copy=False)
    if array.size and indices.min() < 0:
        indices = np.where(indices < 0, indices + size, indices)
    return indices if is_array else int(indices)


def _outer(entries: Sequence[Entry]) -> Outer:
    axes: list[range | Indices] = []
    result: list[int] = []
    for entry in entries:
        if isinstance(entry, int):
            axes.append(range(entry, entry + 1))
        elif entry is None:
            result.append(1)
        elif isinstance(entry, np.ndarray) and not entry.ndim:
            axes.append(entry.reshape(1))
        else:
            axes.append(entry)
            result.append(len(axes[-1]))
    return Outer(axes, tuple(result))


def _advanced(entries: Sequence[Entry]) -> Vectorized:
    """Interpret a key with arrays of indices: integers are arrays too, and slices become further axes of the result."""
    is_array = [isinstance(entry, int | np.ndarray) for entry in entries]
    arrays = [np.asarray(entry) for entry, yes in zip(entries, is_array, strict=True) if yes]
    count, others = len(_broadcast(arrays)), is_array.count(False)
    axes: list[Indices] = []
    other = 0
    for entry, yes in zip(entries, is_array, strict=True):
        if yes:
            array = np.asarray(entry, np.intp)
            axes.append(array.reshape((1,) * (count - array.ndim) + array.shape + (1,) * others))
            continue
        if entry is not None:
            along = np.asarray(entry, np.intp)
            axes.append(along.reshape((1,) * (count + other) + (-1,) + (1,) * (others - other - 1)))
        other += 1
    where = np.flatnonzero(is_array)
    is_contiguous = int(where[-1] - where[0]) + 1 == len(where)
    return Vectorized(axes, count, int(where[0]) if is_contiguous else 0)


def _broadcast(arrays: Sequence[npt.NDArray[Any]]) -> Shape:
    try:
        return np.broadcast_shapes(*(array.shape for array in arrays))
    except ValueError:
        shapes = " ".join(str(array.shape) for array in arrays)
        message = f"shape mismatch: indexing arrays could not be broadcast together with shapes {shapes}"
        raise IndexError(message) from None
