"""Codecs for chunks that neither zarr-python nor numcodecs decodes.

References that were written with ``readable_by=["virtualize"]`` name them. Zarr v3 and numcodecs find them through entry
points, so that installing this package is all it takes. All of them turn bytes into bytes, and docs/readers.md describes
their configurations.

``pin`` settles which package decodes ``imagecodecs_*``, whose names several packages register.
"""

import asyncio
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray
from zarr.abc.codec import BytesBytesCodec
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import Buffer

from virtualize import _virtualize
from virtualize._errors import Diagnostic, VirtualizeWarning

# numcodecs has no types.
if TYPE_CHECKING:

    class NumcodecsCodec: ...
else:
    from numcodecs.abc import Codec as NumcodecsCodec

_compat: Any = import_module("numcodecs.compat")
_zarr: Any = import_module("zarr")
_zarr_registry: Any = import_module("zarr.registry")
_numcodecs_registry: Any = import_module("numcodecs.registry")

_MOST = 1 << 32
"""Greatest number of decoded bytes where the size of a chunk is not known, the limit of HDF5."""

_SLACK = 1 << 16
"""Bytes by which other codecs may lengthen even a small chunk."""


@dataclass(frozen=True)
class PackageCodec(BytesBytesCodec):
    """A codec of Zarr v3. Its subclasses differ in name only; keyword arguments are its configuration."""

    is_fixed_size = False
    codec_name: ClassVar[str]

    configuration: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __init_subclass__(cls, *, codec_name: str) -> None:
        super().__init_subclass__()
        cls.codec_name = codec_name

    def __init__(self, **configuration: Any) -> None:
        object.__setattr__(self, "configuration", configuration)
        _ = self._codec

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        return cls(**data.get("configuration", {}))

    def to_dict(self) -> dict[str, Any]:
        if not self.configuration:
            return {"name": self.codec_name}
        return {"name": self.codec_name, "configuration": dict(self.configuration)}

    def __hash__(self) -> int:
        return hash(json.dumps(self.to_dict(), sort_keys=True))

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), dict(self.configuration))

    @cached_property
    def _codec(self) -> _virtualize.Codec:
        return _virtualize.Codec(json.dumps(self.to_dict()), 3)

    def _decode_sync(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> Buffer:
        decoded = self._codec.decode(_bytes_of(chunk_bytes.as_numpy_array()), _most_bytes(chunk_spec))
        return chunk_spec.prototype.buffer.from_array_like(cast(Any, decoded))

    async def _decode_single(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer:
        return await asyncio.to_thread(self._decode_sync, chunk_data, chunk_spec)

    def _encode_sync(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> Buffer:
        encoded = self._codec.encode(_bytes_of(chunk_bytes.as_numpy_array()))
        return chunk_spec.prototype.buffer.from_array_like(cast(Any, encoded))

    async def _encode_single(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer:
        return await asyncio.to_thread(self._encode_sync, chunk_data, chunk_spec)

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:
        raise NotImplementedError


class PackageFilter(NumcodecsCodec):
    """A codec of Zarr v2. Its subclasses differ in name only; keyword arguments are its configuration."""

    codec_id: ClassVar[str]

    def __init_subclass__(cls, *, codec_name: str) -> None:
        super().__init_subclass__()
        cls.codec_id = codec_name

    def __init__(self, **configuration: Any) -> None:
        self.configuration = configuration
        self._codec = _virtualize.Codec(json.dumps(self.get_config()), 2)

    def get_config(self) -> dict[str, Any]:
        return {"id": self.codec_id, **self.configuration}

    def decode(self, buf: Any, out: Any = None) -> Any:
        most = _MOST if out is None else _compat.ensure_contiguous_ndarray(out).nbytes
        return _compat.ndarray_copy(self._codec.decode(_bytes_of(buf), most), out)

    def encode(self, buf: Any) -> Any:
        return self._codec.encode(_bytes_of(buf))

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.configuration)

    def __repr__(self) -> str:
        members = ", ".join(f"{name}={value!r}" for name, value in self.configuration.items())
        return f"{type(self).__name__}({members})"


def _restore[T](cls: type[T], configuration: dict[str, Any]) -> T:
    return cls(**configuration)


def _bytes_of(buffer: Any) -> NDArray[np.uint8]:
    return cast(NDArray[np.uint8], _compat.ensure_contiguous_ndarray(buffer).reshape(-1).view(np.uint8))


def _most_bytes(chunk_spec: ArraySpec) -> int:
    """Return how many bytes a codec may decode, at any place of the chain of a chunk."""
    item_size = getattr(chunk_spec.dtype, "item_size", None)
    if item_size is None:
        return _MOST
    return 2 * int(np.prod(chunk_spec.shape, dtype=object)) * int(item_size) + _SLACK


_CODECS = {
    "Bitshuffle": "HDF5 filter 32008: bits in planes, without compression or with LZ4 or Zstandard.",
    "Szip": "HDF5 filter 4: extended Rice codes of CCSDS 121.0-B.",
    "Lzf": "HDF5 filter 32000: LZF without a header.",
    "Nbit": "HDF5 filter 5: the significant bits of each number.",
    "ScaleOffset": "HDF5 filter 6: differences to the minimum of a chunk.",
    "Lz4": "HDF5 filter 32004: blocks of LZ4.",
    "Blosc2": "HDF5 filter 32026: frames of Blosc 2, with and without the n-dimensional layer.",
    "JpegLs": "HDF5 filter 32018: JPEG-LS, as FCIDECOMP writes it.",
    "Sz": "HDF5 filter 32017: SZ of version 2.1.",
    "Sz3": "HDF5 filter 32024: SZ3 of version 3.1.",
    "Sperr": "HDF5 filter 32028: SPERR.",
    "Zfp": "HDF5 filter 32013: ZFP streams without their header.",
    "Lzo": "HDF5 filter 305: LZO1X streams, as PyTables writes them.",
    "Shuffle": "HDF5 filter 2 on chunks that are not a whole number of elements.",
    "Optional": "HDF5 filters that chunks of a certain length skipped.",
    "Integers": "Integers with unused bits, as HDF5's datatypes and filter 5 have them.",
    "Lerc": "TIFF compression 34887: LERC with masks.",
    "Lzw": "TIFF compression 5.",
    "PackBits": "TIFF compression 32773.",
    "Delta": "TIFF predictor 2: differences to the previous sample.",
    "FloatPred": "TIFF predictor 3: bytes of floats in planes.",
    "PackInts": "TIFF samples of 1 to 31 bits.",
    "ComplexInts": "TIFF complex integers, which become complex numbers.",
    "BitOrder": "TIFF FillOrder 2: reversed bits of each byte.",
    "Tiff": "TIFF compressions 32766 and 34676, and subsampled YCbCr.",
}
"""Classes of Zarr v3, whose twins of Zarr v2 end in ``Filter``, and what they decode. The names of the codecs are theirs in lower case."""

for _name, _text in _CODECS.items():
    for _base, _suffix in ((PackageCodec, ""), (PackageFilter, "Filter")):
        _members = {"__doc__": _text, "__module__": __name__}
        _new: Any = type(_base)
        globals()[_name + _suffix] = _new(_name + _suffix, (_base,), _members, codec_name=f"virtualize.{_name.lower()}")

if TYPE_CHECKING:

    def __getattr__(name: str) -> type[Any]: ...


class Clash(NamedTuple):
    """A name of imagecodecs that another package decodes.

    Parameters
    ----------
    name
        Name of the codec, such as ``imagecodecs_floatpred``.
    zarr_format
        2 or 3.
    taken
        The class that zarr-python would use, such as ``virtual_tiff.codecs.FloatPredCodec``.
    """

    name: str
    zarr_format: int
    taken: str

    def __str__(self) -> str:
        return f"{self.name} (Zarr v{self.zarr_format}): {self.taken}"


def clashes() -> list[Clash]:
    """Return the codecs of imagecodecs for which zarr-python would use a class of another package.

    Several packages register names that start with ``imagecodecs_``, with other parameters and other results. zarr-python
    uses the last one it finds, numcodecs too.

    Examples
    --------
    >>> from virtualize import codecs
    >>> codecs.clashes()
    []
    """
    found: list[Clash] = []
    for name in _imagecodecs("zarr"):
        taken = _registered(name)
        if taken is not None and not taken.startswith("imagecodecs."):
            found.append(Clash(name, 3, taken))
    for name in _imagecodecs("numcodecs"):
        registered = _numcodecs_registry.codec_registry.get(name)
        entry = _numcodecs_registry.entries.get(name)
        taken = _qualified(registered) if registered else entry.value.replace(":", ".") if entry else None
        if taken is not None and not taken.startswith("imagecodecs."):
            found.append(Clash(name, 2, taken))
    return found


def pin() -> list[Clash]:
    """Register the codecs of imagecodecs, and configure zarr-python to use them for its names.

    Emits a ``virtualize.VirtualizeWarning`` with the code ``codec-name-clash`` if another package would have been
    used, and returns what ``clashes`` returned before.

    Raises
    ------
    ModuleNotFoundError
        imagecodecs is not installed, or too old for Zarr v3.

    Examples
    --------
    >>> from virtualize import codecs
    >>> codecs.pin()
    []
    """
    found = clashes()
    v3 = _imagecodecs("zarr")
    if not v3:
        raise ModuleNotFoundError("imagecodecs with codecs for Zarr v3 is not installed (pip install 'imagecodecs>=2026.1')")
    for name, cls in v3.items():
        _zarr_registry.register_codec(name, cls)
    _zarr.config.set({f"codecs.{name}": _qualified(cls) for name, cls in v3.items()})
    for name, cls in _imagecodecs("numcodecs").items():
        _numcodecs_registry.register_codec(cls, codec_id=name)
    if found:
        diagnostic = Diagnostic(
            "codec-name-clash",
            "warning",
            "/",
            f"other packages register codecs of imagecodecs: {', '.join(map(str, found))}",
            "imagecodecs decodes them now",
        )
        warnings.warn(VirtualizeWarning("zarr", diagnostic), stacklevel=2)
    return found


def _imagecodecs(module: str) -> dict[str, type[Any]]:
    """Return the classes of ``imagecodecs.zarr`` or ``imagecodecs.numcodecs`` by their registered names."""
    try:
        found = vars(import_module(f"imagecodecs.{module}"))
    except ImportError:
        return {}
    from zarr.abc.codec import BaseCodec

    bases: tuple[type[Any], ...] = (BaseCodec, NumcodecsCodec)
    return {
        f"imagecodecs_{name.lower()}": cls
        for name, cls in found.items()
        if isinstance(cls, type) and issubclass(cls, bases) and cls.__module__ == f"imagecodecs.{module}"
    }


def _registered(name: str) -> str | None:
    """Return the class that zarr-python would use for a name of Zarr v3."""
    from zarr.errors import UnknownCodecError

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _qualified(_zarr_registry.get_codec_class(name))
        except (UnknownCodecError, KeyError):
            return None


def _qualified(cls: type[Any]) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
