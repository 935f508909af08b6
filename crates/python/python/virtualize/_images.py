"""Chunks of image codecs, decoded by imagecodecs."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def decode(stored: bytes, codecs: str, shape: tuple[int, ...], dtype: str) -> bytes:
    """Decode a chunk.

    Parameters
    ----------
    stored
        The bytes in the file.
    codecs
        JSON of the codecs in the order of encoding, in the notation of Zarr v2 if they have one.
    shape
        Shape of the chunk.
    dtype
        JSON of the data type.

    Returns
    -------
    bytes
        Elements in row-major order and little-endian byte order.

    Raises
    ------
    ValueError
        The chunk cannot be decoded.
    """
    chain: list[Mapping[str, Any]] = [codec for codec in json.loads(codecs) if _name(codec) != "bytes"]
    image = next((i for i, codec in enumerate(chain) if _name(codec).startswith("imagecodecs_")), None)
    if image is None:
        raise ValueError(f"no decoder for {' and '.join(map(_name, chain))}")
    made = _codecs(chain[image:])
    values: Any = stored
    for codec in reversed(made):
        values = codec.decode(values)
    return _ordered(np.asarray(values), chain[:image], shape, np.dtype(json.loads(dtype)))


def _name(codec: Mapping[str, Any]) -> str:
    return str(codec.get("id") or codec["name"])


def _codecs(chain: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return an image codec, and those of bytes that follow it."""
    try:
        import imagecodecs.numcodecs as images
        import numcodecs  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        name = _name(chain[0])
        raise ValueError(f"{name} needs two packages (pip install imagecodecs numcodecs)") from None
    # Other packages register the same names in numcodecs.
    classes = {getattr(value, "codec_id", None): value for value in vars(images).values()}
    found = classes.get(_name(chain[0]))
    if found is None:
        raise ValueError(f"imagecodecs has no {_name(chain[0])} (update it)")
    registry: Any = numcodecs
    first = {name: value for name, value in chain[0].items() if name != "id"}
    return [found.from_config(first), *map(registry.get_codec, map(dict, chain[1:]))]


def _ordered(values: np.ndarray, before: Sequence[Mapping[str, Any]], shape: tuple[int, ...], dtype: np.dtype) -> bytes:
    """Undo the transpositions that came before an image codec."""
    order = np.arange(len(shape))
    for codec in before:
        if _name(codec) != "transpose":
            raise ValueError(f"no decoder for {_name(codec)} before an image codec")
        order = order[codec["configuration"]["order"]]
    encoded = [shape[axis] for axis in order]
    if values.dtype.newbyteorder("<") != dtype or _without_ones(values.shape) != _without_ones(encoded):
        raise ValueError(f"an image of {values.shape} {values.dtype}, expected {encoded} {dtype}")
    values = values.reshape(encoded).transpose(np.argsort(order))
    return values.astype(dtype, copy=False).tobytes()


def _without_ones(shape: Sequence[int]) -> list[int]:
    return [length for length in shape if length != 1]
