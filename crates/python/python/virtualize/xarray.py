"""The xarray backend: ``xarray.open_dataset(url, engine="virtualize")``."""

import warnings
from collections.abc import Iterable, Iterator
from typing import Any, Unpack, override

import numpy as np
from xarray import Dataset, DataTree, Variable
from xarray.backends import AbstractDataStore, BackendArray, BackendEntrypoint
from xarray.backends.store import StoreBackendEntrypoint
from xarray.coding.strings import create_vlen_dtype  # pyright: ignore[reportUnknownVariableType]
from xarray.coding.variables import CFMaskCoder
from xarray.core import indexing

from virtualize._array import VirtualArray, VirtualGroup, file_of
from virtualize._errors import OptionError, VirtualizeWarning
from virtualize._open import opening_of
from virtualize._options import OpenOptions
from virtualize._store import VirtualStore

_TEXT: np.dtype[Any] = create_vlen_dtype(str)  # type: ignore[no-untyped-call]
# h5py's type of text that is declared as ASCII, although h5netcdf returns `str`.
_ASCII: np.dtype[Any] = create_vlen_dtype(bytes)  # type: ignore[no-untyped-call]
_DECODERS = (
    "mask_and_scale",
    "decode_times",
    "concat_characters",
    "decode_coords",
    "drop_variables",
    "use_cftime",
    "decode_timedelta",
)
# xarray does what these do, and would do it twice.
_FOR_ZARR = {"unpack", "missing_value_convention", "spatial_conventions"}
# xarray gets the attributes of the file, not those of the references.
_ATTRIBUTES_OF_REFERENCES = {"fill-value-dropped", "missing-value-dropped", "missing-value-as-fill-value"}

# These are incompletely typed.
_ADAPTER: Any = indexing.NumpyIndexingAdapter
_INDEXED: Any = indexing.apply_indexer  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
_ENTRYPOINT: Any = StoreBackendEntrypoint()
_TREE: Any = DataTree

type Source = Any
"""A path, a url, a file of fsspec, or a store."""


class VirtualizeBackend(BackendEntrypoint):
    """Backend of xarray for HDF5, NetCDF, TIFF, GeoTIFF and COG files, and for archives of references to them.

    It shows an HDF5 or NetCDF-4 file as ``engine="h5netcdf"`` does, and a TIFF file with the values, coordinates and
    CRS of rioxarray. The parameters are those of ``virtualize.open``, with ``decoded=True`` by default, and

    group
        Path of the group to open.
    overview_level
        Overview of a TIFF file to open, from 0, as in rioxarray: its group, with the dimensions ``y`` and ``x``.
    band_as_variable
        Whether each band becomes a variable ``band_1``, ``band_2``, …, as in rioxarray.

    Examples
    --------
    >>> import xarray
    >>> ds = xarray.open_dataset("fixtures/hdf5/netcdf4.nc", engine="virtualize")
    >>> dict(ds["temperature"].sizes)
    {'time': 3, 'lat': 4, 'lon': 6}
    """

    description = "Open HDF5, NetCDF, TIFF, GeoTIFF and COG files, and archives of them, in place"
    supports_groups = True
    # xarray would reject `**options` if it looked at the signature.
    open_dataset_parameters = (
        "filename_or_obj",
        *_DECODERS,
        "group",
        "overview_level",
        "band_as_variable",
        "store",
        "decoded",
        *(OpenOptions.__annotations__.keys() - _FOR_ZARR),
    )

    @override
    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Return ``False``: xarray uses this backend for ``engine="virtualize"`` only."""
        return False

    @override
    def open_dataset(
        self,
        filename_or_obj: Source,
        *,
        mask_and_scale: Any = True,
        decode_times: Any = True,
        concat_characters: Any = True,
        decode_coords: Any = True,
        drop_variables: str | Iterable[str] | None = None,
        use_cftime: Any = None,
        decode_timedelta: Any = None,
        group: str | None = None,
        overview_level: int | None = None,
        band_as_variable: bool = False,
        store: Any = None,
        decoded: bool = True,
        **options: Unpack[OpenOptions],
    ) -> Dataset:
        """Open a group of a file, by default the root."""
        opened = _group(_opened(filename_or_obj, store, decoded, options), group)
        if overview_level is not None:
            opened = _overview(opened, overview_level)
        ds: Dataset = _ENTRYPOINT.open_dataset(
            _DataStore(opened, mask_and_scale, band_as_variable),
            mask_and_scale=mask_and_scale,
            decode_times=decode_times,
            concat_characters=concat_characters,
            decode_coords=decode_coords,
            drop_variables=drop_variables,
            use_cftime=use_cftime,
            decode_timedelta=decode_timedelta,
        )
        if overview_level is not None:
            of_level = {str(name): str(name)[0] for name in ds.dims if str(name).startswith(("y_", "x_"))}
            ds = ds.rename(of_level)
            for attributes in (ds.attrs, *(variable.attrs for variable in ds.variables.values())):
                if "spatial:dimensions" in attributes:
                    attributes["spatial:dimensions"] = [of_level.get(name, name) for name in attributes["spatial:dimensions"]]
        return ds

    @override
    def open_groups_as_dict(
        self,
        filename_or_obj: Source,
        *,
        group: str | None = None,
        store: Any = None,
        decoded: bool = True,
        **options: Any,
    ) -> dict[str, Dataset]:
        """Open a group and all groups below it, by path."""
        decoders = {name: options.pop(name) for name in _DECODERS if name in options}
        opened = _opened(filename_or_obj, store, decoded, options)
        return {
            path: _ENTRYPOINT.open_dataset(_DataStore(found, decoders.get("mask_and_scale", True)), **decoders)
            for path, found in _walk(_group(opened, group), "/" if group is None else ".")
        }

    @override
    def open_datatree(self, filename_or_obj: Source, **options: Any) -> DataTree:
        """Open a group and all groups below it as a tree."""
        tree: DataTree = _TREE.from_dict(self.open_groups_as_dict(filename_or_obj, **options))
        return tree


def _opened(source: Source, store: Any, decoded: bool, options: Any) -> VirtualStore:
    if isinstance(source, VirtualStore):
        return source
    for name in _FOR_ZARR & options.keys():
        raise TypeError(f"{name} is not an option of engine='virtualize': xarray decodes the values")
    opening = opening_of(source, store, decoded, options)
    file = opening.open()
    for diagnostic in file.diagnostics:
        if diagnostic.severity == "warning" and diagnostic.code not in _ATTRIBUTES_OF_REFERENCES:
            warnings.warn(VirtualizeWarning(file.name, diagnostic), stacklevel=5)
    return VirtualStore(file, opening)


def _overview(group: VirtualGroup, level: int) -> VirtualGroup:
    """Return the group of an overview, which the multiscales convention lists from the largest to the smallest."""
    levels: Any = group.attrs.get("multiscales", {}).get("layout", [])
    groups = [level["asset"].rpartition("/")[0] for level in levels[1:]]
    if not 0 <= level < len(groups):
        raise OptionError(f"overview_level={level}: {file_of(group.store).name} has {len(groups)} overviews")
    found = group[groups[level]]
    assert isinstance(found, VirtualGroup)
    return found


def _by_band(variables: dict[str, Variable]) -> dict[str, Variable]:
    """Return a variable for each band of an image, with its name, units and packing, and those without bands."""
    found = {name: variable for name, variable in variables.items() if "band" not in variable.dims}
    for image in variables.values():
        if "band" not in image.dims or image.ndim < 2:
            continue
        count = image.sizes["band"]
        for n in range(count):
            # Still lazy.
            band = image.isel(band=n)
            for name, of_one in {"long_name": "long_name", "units": "units", "scales": "scale_factor", "offsets": "add_offset"}.items():
                value: Any = band.attrs.get(name)
                if np.ndim(value) == 1 and len(value) == count:
                    band.attrs.pop(name)
                    band.attrs[of_one] = value[n]
            for name in ("chunksizes", "original_shape"):
                band.encoding.pop(name, None)
            found[f"band_{n + 1}"] = band
    return found


def _group(store: VirtualStore, path: str | None) -> VirtualGroup:
    found = store[path or ""]
    if isinstance(found, VirtualArray):
        raise KeyError(f"{path!r} is an array; group= must name a group")
    return found


def _walk(group: VirtualGroup, path: str) -> Iterator[tuple[str, VirtualGroup]]:
    yield path, group
    # A dataset of segments is opened as a whole.
    segments = file_of(group.store).segment_groups()
    for name in group.group_keys():
        child = group[name]
        if child.path in segments:
            continue
        assert isinstance(child, VirtualGroup)
        yield from _walk(child, name if path == "." else f"{path.rstrip('/')}/{name}")


class _DataStore(AbstractDataStore):
    """A group, with variables and attributes as they are in the file."""

    def __init__(self, group: VirtualGroup, mask_and_scale: Any, by_band: bool = False) -> None:
        self._group = group
        self._mask_and_scale = mask_and_scale
        self._by_band = by_band

    def get_encoding(self) -> dict[str, Any]:
        """Return the names of unlimited dimensions, with which xarray writes them again."""
        return {"unlimited_dims": set(file_of(self._group.store).unlimited_dimensions(self._group.path))}

    @override
    def get_attrs(self) -> dict[str, Any]:
        return _decoded(self._group.attrs)

    def get_variables(self) -> dict[str, Variable]:
        arrays = {name: self._group[name] for name in self._group.array_keys()}
        variables = {name: _variable(array) for name, array in arrays.items() if isinstance(array, VirtualArray)}
        if self._by_band:
            variables = _by_band(variables)
        packing = {
            name: _packing(variable, variables) for name, variable in variables.items() if self._decodes(name)
        }
        unpacked = {name: _unpacked(name, variables[name], found) for name, found in packing.items() if found}
        used = {variables[name].attrs[kind] for name in unpacked for kind in packing[name]}
        return {name: variable for name, variable in (variables | unpacked).items() if name not in used}

    def _decodes(self, name: str) -> bool:
        # A mapping has a value for some of the variables.
        of_name: Any = getattr(self._mask_and_scale, "get", None)
        decodes = of_name(name, True) if of_name else self._mask_and_scale
        return decodes is None or bool(decodes)


def _variable(array: VirtualArray) -> Variable:
    # Unnamed axes are named after the array, as in the metadata, so that no two arrays share them.
    own = array.path.rpartition("/")[2]
    dims = [name or f"{own}_dim_{axis}" for axis, name in enumerate(array.dims)]
    data = indexing.LazilyIndexedArray(_LazyArray(array))
    return Variable(dims, data, _decoded(array.attrs), _encoding(array, dims))


_PACKING = {"scale_factor_variable": np.multiply, "add_offset_variable": np.add}


def _packing(variable: Variable, variables: dict[str, Variable]) -> dict[str, Variable]:
    """Return the variables that hold the packing of joined files, if it differs between them, by attribute."""
    names = {kind: variable.attrs[kind] for kind in _PACKING if kind in variable.attrs}
    return {kind: variables[name] for kind, name in names.items()} if all(name in variables for name in names.values()) else {}


def _unpacked(name: str, packed: Variable, factors: dict[str, Variable]) -> Variable:
    """Return a variable of unpacked numbers, with NaN for missing values, which xarray leaves as it is."""
    masked: Any = CFMaskCoder().decode(packed, name)
    data = indexing.LazilyIndexedArray(_UnpackedArray(masked, factors))
    attributes = {key: value for key, value in masked.attrs.items() if key not in _PACKING}
    of_integers = ("dtype", "_FillValue", "missing_value", "_Unsigned")
    encoding = {key: value for key, value in masked.encoding.items() if key not in of_integers}
    return Variable(packed.dims, data, attributes, encoding)


def _decoded(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return attributes with text instead of byte strings, as h5netcdf's backend does."""
    return {
        name: value.decode(errors="surrogateescape")
        if isinstance(value, bytes) and name not in ("_FillValue", "missing_value")
        else value
        for name, value in attributes.items()
    }


def _encoding(array: VirtualArray, dims: list[str]) -> dict[str, Any]:
    """Return the encoding, in the notation of h5netcdf's backend."""
    info = array.info
    encoding: dict[str, Any] = {
        "dtype": str if info["is_text"] and not info["is_ascii"] else array.dtype,
        "contiguous": info["is_contiguous"],
        "chunksizes": None if info["is_contiguous"] or info["edges"] else array.chunks,
        "source": file_of(array.store).name,
        "original_shape": array.shape,
        **info["filters"],
    }
    if not info["is_contiguous"] or (array.size and array.chunks != array.shape):
        encoding["preferred_chunks"] = dict(zip(dims, array.chunks, strict=True))
    return encoding


class _Readable(BackendArray):
    """An array that is read in a thread where xarray awaits it."""

    __slots__ = ("dtype", "shape")

    @override
    async def async_getitem(self, key: indexing.ExplicitIndexer) -> Any:
        import asyncio

        readable: Any = self
        return await asyncio.to_thread(readable.__getitem__, key)


class _LazyArray(_Readable):
    """An array that xarray has not read yet."""

    __slots__ = ("_array",)

    def __init__(self, array: VirtualArray) -> None:
        self._array = array
        self.shape = array.shape
        # So that xarray knows texts from other objects.
        text = _ASCII if array.info["is_ascii"] else _TEXT
        self.dtype: np.dtype[Any] = text if array.info["is_text"] else array.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        # Every kind of index is read as it is: xarray's adapter would only take negative steps apart.
        if isinstance(key, indexing.VectorizedIndexer):
            return self._array.vindex[key.tuple]
        if isinstance(key, indexing.OuterIndexer):
            return self._array.oindex[key.tuple]
        return self._array.read(key.tuple)


class _UnpackedArray(_Readable):
    """An array of stored numbers whose packing is in other variables."""

    __slots__ = ("_factors", "_packed")

    def __init__(self, packed: Any, factors: dict[str, Variable]) -> None:
        self._packed = packed
        self._factors = factors
        self.shape = packed.shape
        self.dtype: np.dtype[Any] = np.dtype(np.float64)

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        values = np.array(_INDEXED(self._packed._data, key), dtype=np.float64)
        for kind, operation in _PACKING.items():
            if kind in self._factors:
                # Read once, and repeated along the other dimensions without being copied.
                factor: Any = self._factors[kind]
                factors = factor.load().set_dims(dict(self._packed.sizes)).values
                operation(values, _INDEXED(_ADAPTER(factors), key), out=values)
        return values
