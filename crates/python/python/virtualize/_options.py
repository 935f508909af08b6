"""Options with the names of the command's options."""

import json
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Any, Literal, SupportsIndex, TypedDict

from virtualize._errors import OptionError

type Size = int | str
"""A number of bytes: ``65536``, ``"64K"``."""

type Location = str | PathLike[str]
"""A path or url."""

type Several = str | Sequence[str]
"""A text, or several."""

type Format = Literal["kerchunk-json", "zarr3-json", "kerchunk-parquet", "zarr3", "icechunk"]
"""An output format."""


class ConnectionOptions(TypedDict, total=False):
    """How files are reached. What is not given comes from the environment (``AWS_*``, ``GOOGLE_*``, ``AZURE_*``)."""

    store_option: Mapping[str, str]
    anonymous: bool
    endpoint: str
    bearer_token: str
    concurrency: int
    minimize: Literal["time", "requests", "bytes"]
    retries: int
    retry_timeout: int


class MappingOptions(TypedDict, total=False):
    """How files are mapped to Zarr."""

    strict: bool
    ifd: Sequence[int | str] | int | str
    complex_integers: Literal["complex", "structure"]
    stack: bool
    chunk_grid: Literal["regular", "rectilinear"]
    inline_limit: Size
    inline_below: Size
    inline_coordinates: bool
    inline_total: Size
    split_contiguous: Size
    unpack: bool
    missing_value_convention: bool
    ragged: bool
    follow_external: bool
    dmrpp: bool
    sidecars: bool
    readable_by: Sequence[str] | str


class OpenOptions(ConnectionOptions, MappingOptions, total=False):
    """Options of ``virtualize.open``."""


class WriteOptions(TypedDict, total=False):
    """How references are written."""

    record_size: int
    rewrite_url: Mapping[str, str]
    relative: bool


class IcechunkOptions(TypedDict, total=False):
    """What is committed to an Icechunk repository, and where."""

    branch: str
    message: str
    author: str
    commit_property: Mapping[str, str]
    group: str
    replace: bool


class FileSelection(TypedDict, total=False):
    """Which files are read, besides those that the first argument names."""

    list: Location | Sequence[Location]
    stac: Location | Sequence[Location]
    asset: Several
    asset_role: Several
    asset_alternate: str
    include: str


class LayoutOptions(TypedDict, total=False):
    """Along which dimensions files are combined.

    A source of coordinates is ``attribute:NAME``, ``property:NAME`` or ``name:PATTERN``. Arrays are given by name, by path,
    or as ``*`` for all.
    """

    concat_dim: Several
    stack_dim: Several
    coord: Mapping[str, str]
    var: Mapping[str, Literal["vary", "first", "optional", "drop"]]
    copy_limit: Size


class CombineOptions(LayoutOptions, total=False):
    """How files become one dataset."""

    on_mismatch: Literal["stop", "split", "skip"]
    on_duplicate: Literal["error", "first", "last"]
    allow_holes: bool
    fill_without_sentinel: bool


class RunOptions(TypedDict, total=False):
    """How a run proceeds."""

    journal: Location
    shard: str
    merge: Location | Sequence[Location]
    restart: bool
    append: bool
    on_change: Literal["stop", "update", "drop"]
    on_failure: Literal["stop", "skip", "retry"]
    max_failures: int
    attempts: int


class BatchOptions(
    FileSelection,
    CombineOptions,
    RunOptions,
    WriteOptions,
    IcechunkOptions,
    ConnectionOptions,
    MappingOptions,
    total=False,
):
    """Options of ``virtualize.batch``."""

    format: Format
    each: bool
    overwrite: bool


class ScanOptions(FileSelection, LayoutOptions, ConnectionOptions, MappingOptions, total=False):
    """Options of ``virtualize.scan``."""

    sample: int
    attempts: int


class ReadOptions(ConnectionOptions, total=False):
    """How references are read."""

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
    overwrite: bool


def to_json(options: Mapping[str, Any], kind: type[Any], **arguments: Sequence[str]) -> str:
    """Return options of a kind, and arguments, as the JSON text that the compiled module parses.

    ``None`` stands for the default.

    Raises
    ------
    OptionError
        A name is not one of the kind's, or a value has a type that no option has.
    """
    names: frozenset[str] = kind.__optional_keys__
    for name in options:
        if name not in names:
            raise OptionError(f"{name} is not an option{_suggestion(name, names)}")
    members = {**options, **arguments}.items()
    texts = (f"{json.dumps(name)}: {_dumps(name, value)}" for name, value in members if value is not None)
    return f"{{{', '.join(texts)}}}"


def _suggestion(name: str, names: frozenset[str]) -> str:
    # The import takes longer than it takes to parse options.
    from difflib import get_close_matches

    nearest = get_close_matches(name.replace("-", "_").lower(), sorted(names), n=1)
    return f" (did you mean {nearest[0]}?)" if nearest else ""


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
