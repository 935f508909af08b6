"""Options with the names of the command's options."""

import json
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Any, Literal, SupportsIndex

from virtualize._errors import OptionError
from virtualize._option_types import (
    AccessOptions as AccessOptions,
    ArchiveOptions as ArchiveOptions,
    PlanOptions as PlanOptions,
    FileOptions as FileOptions,
    IcechunkOptions as IcechunkOptions,
    LayoutOptions as LayoutOptions,
    Location as Location,
    MappingOptions as MappingOptions,
    RequestOptions as RequestOptions,
    RunOptions as RunOptions,
    Size as Size,
    WriteOptions as WriteOptions,
)

type Format = Literal["kerchunk-json", "zarr3-json", "kerchunk-parquet", "zarr3", "icechunk"]
"""An output format."""


class ConnectionOptions(AccessOptions, RequestOptions, total=False):
    """How files are reached."""


class OpenOptions(ConnectionOptions, MappingOptions, ArchiveOptions, LayoutOptions, PlanOptions, total=False):
    """Options of ``virtualize.open``."""

    config: Location
    cache: Size
    # Memory for decoded chunks of which only a part was read [default: 256M]
    storage_options: Mapping[str, Any] | None
    # Access options with the keys of fsspec, such as {"anon": True}
    on_error: Literal["raise", "fill"]
    # "fill": chunks whose file is missing or has changed read as the fill value, with a warning [default: raise]


class BatchOptions(
    FileOptions,
    LayoutOptions,
    PlanOptions,
    RunOptions,
    WriteOptions,
    IcechunkOptions,
    ConnectionOptions,
    MappingOptions,
    total=False,
):
    """Options of ``virtualize.batch``."""

    config: Location
    format: Format
    each: bool


class ScanOptions(FileOptions, LayoutOptions, ConnectionOptions, MappingOptions, total=False):
    """Options of ``virtualize.scan``."""

    config: Location
    sample: int
    attempts: int


class ReadOptions(ConnectionOptions, total=False):
    """How references are read."""

    config: Location
    relative_to: Location
    version_of: str


class ValidateOptions(ReadOptions, total=False):
    """Options of ``virtualize.validate``."""

    sample: int
    full: bool


class DiffOptions(ReadOptions, total=False):
    """Options of ``virtualize.diff``."""

    ignore_urls: bool


class ConvertOptions(ReadOptions, WriteOptions, IcechunkOptions, total=False):
    """Options of ``virtualize.convert``."""

    format: Format
    strict: bool


def to_json(options: Mapping[str, Any], **arguments: Sequence[str]) -> str:
    """Return options and arguments as the JSON text that the compiled module parses and checks.

    ``None`` stands for the default.

    Raises
    ------
    OptionError
        A value has a type that no option has.
    """
    members = {**options, **arguments}.items()
    texts = (f"{json.dumps(name)}: {_dumps(name, value)}" for name, value in members if value is not None)
    return f"{{{', '.join(texts)}}}"


def _dumps(name: str, value: object) -> str:
    try:
        return json.dumps(value, default=_plain, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise OptionError(f"{name}: {error}") from None


def _plain(value: object) -> object:
    """Return a value as one that JSON has."""
    match value:
        case PathLike():
            return fspath(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        case Mapping():
            return dict(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        case Sequence() if not isinstance(value, bytes | bytearray | memoryview):
            return [*value]  # pyright: ignore[reportUnknownVariableType]
        case SupportsIndex():
            return value.__index__()
        case _:
            raise TypeError(f"unexpected value of type {type(value).__name__}")
