"""Arrays and groups of a file."""

import difflib
import html
from collections.abc import Callable, Iterator
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from virtualize import _virtualize
from virtualize._errors import warn_filled
from virtualize._read import Request, read, result_shape
from virtualize._selection import Outer, Shape, Vectorized, as_tuple, basic, outer, vectorized

if TYPE_CHECKING:
    from virtualize._store import VirtualStore


class VirtualArray:
    """An array of a file, which ``store["path"]`` returns. It reads values when it is indexed.

    A selection is read straight into one NumPy array. Ranges of the file are requested concurrently, and chunks are
    decoded on all cores.

    Attributes
    ----------
    store
        The file.
    path
        Path of the array, without a leading slash.
    shape
        Length of each axis.
    dtype
        Data type of the values in memory. Numbers are little-endian, whatever their byte order in the file.

    Examples
    --------
    >>> import virtualize
    >>> array = virtualize.open("fixtures/hdf5/netcdf4.nc")["temperature"]
    >>> array
    <VirtualArray 'temperature' shape=(3, 4, 6) dtype=float32>
    >>> array[0, ::2, -1]
    array([ 5., 17.], dtype=float32)
    """

    __slots__ = ("dtype", "info", "path", "shape", "store")

    def __init__(self, store: "VirtualStore", path: str, info: "_virtualize.ArrayInfo") -> None:
        self.store = store
        self.path = path
        self.shape: Shape = tuple(info["shape"])
        self.dtype: np.dtype[Any] = _dtype(info["dtype"])
        self.info = info

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Number of bytes of the values in memory. For text of variable length, that of the pointers."""
        return self.size * self.dtype.itemsize

    @property
    def dims(self) -> tuple[str | None, ...]:
        """Name of each axis, if it has one."""
        return tuple(self.info["dims"]) or (None,) * self.ndim

    @property
    def chunks(self) -> Shape | tuple[Shape, ...]:
        """Shape of the chunks. If they differ, the length of each chunk along each axis."""
        edges = self.info["edges"]
        return tuple(self.info["chunks"] or ()) if edges is None else tuple(tuple(axis) for axis in edges)

    @property
    def attrs(self) -> dict[str, Any]:
        """Attributes, with the types that they have in the file."""
        return self.store.attributes(self.path)

    @property
    def fill_value(self) -> Any:
        """Value of elements in missing chunks."""
        value = self.info["fill_value"]
        if value is None or isinstance(value, str) or self.dtype == object:
            return value
        return np.frombuffer(value, self.dtype)[0]

    @property
    def oindex(self) -> "Indexer":
        """Outer indexing: ``array.oindex[[0, 2], :, mask]`` selects along each axis independently."""
        return Indexer(self, outer)

    @property
    def vindex(self) -> "Indexer":
        """Vectorized indexing: ``array.vindex[[0, 2], [1, 1]]`` selects single elements."""
        return Indexer(self, vectorized)

    def read(self, selection: Any = ..., out: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
        """Read a selection.

        Parameters
        ----------
        selection
            As in ``array[selection]``, which NumPy defines: integers, slices, masks, arrays of integers, ``...`` and
            ``None``.
        out
            Array to read into, with the selection's shape and the array's data type.

        Returns
        -------
        numpy.ndarray
            ``out``, or a new array.

        Examples
        --------
        >>> import numpy, virtualize
        >>> array = virtualize.open("fixtures/hdf5/netcdf4.nc")["temperature"]
        >>> out = numpy.empty((4, 6), array.dtype)
        >>> array.read(0, out=out) is out
        True
        """
        return self.select(basic(selection, self.shape), out)

    async def read_async(self, selection: Any = ..., out: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
        """Read a selection, as ``read`` does."""
        import asyncio

        return await asyncio.to_thread(self.read, selection, out)

    def __getitem__(self, key: Any) -> Any:
        values = self.select(basic(key, self.shape))
        # As NumPy: an element rather than an array of no axes.
        return values if any(part is Ellipsis for part in as_tuple(key)) else values[()]

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("reading from a file makes a copy")
        values = self.read()
        return values if dtype is None else values.astype(dtype, copy=False)

    def __repr__(self) -> str:
        return f"<VirtualArray {self.path!r} shape={self.shape} dtype={self.dtype}>"

    def _repr_html_(self) -> str:
        rows = {"shape": self.shape, "data type": self.dtype, "dimensions": self.dims, "chunks": self.chunks}
        return _table(self.path, rows | {f"@{name}": value for name, value in self.attrs.items()})

    def __reduce__(self) -> tuple[Any, ...]:
        return VirtualArray, (self.store, self.path, self.info)

    def select(self, selected: Outer | Vectorized, out: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
        """Read a selection that was interpreted."""
        shape = result_shape(selected)
        if out is None:
            return read(selected, self._chunk_lengths(), self._elements, None)
        if out.shape != shape or out.dtype != self.dtype:
            raise ValueError(f"out has shape {out.shape} and type {out.dtype}, expected {shape} and {self.dtype}")
        direct = out if out.flags.c_contiguous and out.flags.writeable else None
        values = read(selected, self._chunk_lengths(), self._elements, direct)
        if direct is None or not np.may_share_memory(values, out):
            out[...] = values
        return out

    def _chunk_lengths(self) -> Shape:
        """Return a chunk length for each axis: the longest one if they differ."""
        edges = self.info["edges"]
        return tuple(self.info["chunks"] or ()) if edges is None else tuple(max(axis, default=1) for axis in edges)

    def _elements(self, request: Request, shape: Shape, out: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
        """Read elements into an array, in the order of the request."""
        if self.dtype == object:
            values = np.empty(prod(shape), object)
            values[:] = file_of(self.store).read_variable(self.path, request)
            warn_filled(file_of(self.store))
            return values.reshape(shape)
        values = np.empty(shape, self.dtype) if out is None else out.reshape(shape)
        if values.nbytes:
            file_of(self.store).read_fixed(self.path, request, values.reshape(-1).view(np.uint8))
            warn_filled(file_of(self.store))
        return values


class Indexer:
    """Indexes an array in one of Zarr's ways. See ``VirtualArray.oindex`` and ``VirtualArray.vindex``."""

    __slots__ = ("_array", "_interpret")

    def __init__(self, array: VirtualArray, interpret: Callable[[Any, Shape], Outer | Vectorized]) -> None:
        self._array = array
        self._interpret = interpret

    def __getitem__(self, key: Any) -> npt.NDArray[Any]:
        return self._array.select(self._interpret(key, self._array.shape))


class VirtualGroup:
    """A group of a file, which ``store["path"]`` returns.

    Attributes
    ----------
    store
        The file.
    path
        Path of the group, without a leading slash. The root has an empty path.

    Examples
    --------
    >>> import virtualize
    >>> group = virtualize.open("fixtures/hdf5/netcdf4.nc")["inner"]
    >>> list(group)
    ['deep', 'wind']
    >>> group["wind"].shape
    (2, 4)
    """

    __slots__ = ("path", "store")

    def __init__(self, store: "VirtualStore", path: str) -> None:
        self.store = store
        self.path = path

    @property
    def attrs(self) -> dict[str, Any]:
        """Attributes, with the types that they have in the file."""
        return self.store.attributes(self.path)

    def keys(self) -> list[str]:
        """Return the names of the arrays and groups in this group."""
        return list(self._children())

    def array_keys(self) -> list[str]:
        """Return the names of the arrays in this group."""
        return [name for name, is_array in self._children().items() if is_array]

    def group_keys(self) -> list[str]:
        """Return the names of the groups in this group."""
        return [name for name, is_array in self._children().items() if not is_array]

    def __iter__(self) -> Iterator[str]:
        return iter(self._children())

    def __len__(self) -> int:
        return len(self._children())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and _find(self.store, _join(self.path, name)) is not None

    def __getitem__(self, name: str) -> "VirtualArray | VirtualGroup":
        return node(self.store, _join(self.path, name))

    def __repr__(self) -> str:
        return f"<VirtualGroup {self.path!r}: {', '.join(self)}>"

    def _repr_html_(self) -> str:
        rows = {"groups": ", ".join(self.group_keys()), "arrays": ", ".join(self.array_keys())}
        return _table(self.path or "/", rows | {f"@{name}": value for name, value in self.attrs.items()})

    def _children(self) -> dict[str, bool]:
        return file_of(self.store).children(self.path) or {}


def node(store: "VirtualStore", path: str) -> VirtualArray | VirtualGroup:
    """Return the array or group at a path.

    Raises
    ------
    KeyError
        There is none.
    """
    path = path.strip("/")
    found = _find(store, path)
    if found is None:
        raise KeyError(_missing(store, path))
    return found


def _find(store: "VirtualStore", path: str) -> VirtualArray | VirtualGroup | None:
    info = file_of(store).array_info(path)
    if info is not None:
        return VirtualArray(store, path, info)
    return None if file_of(store).children(path) is None else VirtualGroup(store, path)


def _missing(store: "VirtualStore", path: str) -> str:
    """Return a message about a path without a node: why it was omitted, or which names are closest."""
    missing = f"{file_of(store).name} has no {path!r}"
    diagnostics = [one for one in store.report["diagnostics"] if one["severity"] == "warning"]
    if reason := next((one["message"] for one in diagnostics if one["path"].strip("/") == path), None):
        return f"{missing}: {reason}"
    group, _, name = path.rpartition("/")
    children = file_of(store).children(group)
    if children is None:
        return _missing(store, group)
    close = difflib.get_close_matches(name, children, n=3, cutoff=0.5) or sorted(children)[:10]
    listed = ", ".join(repr(_join(group, other)) for other in close)
    return f"{missing}; available: {listed}" if listed else missing


def _join(group: str, name: str) -> str:
    return f"{group}/{name}" if group else name


def file_of(store: "VirtualStore") -> _virtualize.File:
    return store._file  # pyright: ignore[reportPrivateUsage]


def _dtype(described: Any) -> np.dtype[Any]:
    """Return a data type of NumPy from text, or from a list of fields: name, type, shape."""
    if isinstance(described, str):
        return np.dtype(described)
    return np.dtype([(name, _dtype(inner), tuple(shape)) for name, inner, shape in described])


def _table(title: str, rows: dict[str, Any]) -> str:
    cells = "".join(f"<tr><th>{html.escape(name)}</th><td>{html.escape(str(value))}</td></tr>" for name, value in rows.items())
    return f"<table><caption>{html.escape(title)}</caption>{cells}</table>"
