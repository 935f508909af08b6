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

# Keys of fsspec's storage_options, and the option that each is here.
_STORE_OPTIONS = {
    "key": "aws_access_key_id",
    "secret": "aws_secret_access_key",
    "token": "aws_session_token",
    "region": "aws_region",
    "region_name": "aws_region",
    "account_name": "azure_storage_account_name",
    "account_key": "azure_storage_account_key",
    "sas_token": "azure_storage_sas_token",
    "connection_string": "azure_storage_connection_string",
    "requester_pays": "aws_request_payer",
}

type Format = Literal["kerchunk-json", "zarr3-json", "kerchunk-parquet", "zarr3", "icechunk"]
"""An output format."""


class ConnectionOptions(AccessOptions, RequestOptions, total=False):
    """How files are reached."""

    storage_options: Mapping[str, Any] | None
    # Access options with the keys of fsspec, such as {"anon": True}


class OpenOptions(ConnectionOptions, MappingOptions, ArchiveOptions, LayoutOptions, PlanOptions, total=False):
    """Options of ``virtualize.open``."""

    config: Location
    cache: Size
    # Memory for decoded chunks of which only a part was read [default: 256M]
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
    members = {**_translated(options), **arguments}.items()
    texts = (f"{json.dumps(name)}: {_dumps(name, value)}" for name, value in members if value is not None)
    return f"{{{', '.join(texts)}}}"


def _translated(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return options with those of fsspec's ``storage_options`` as options of this package."""
    if "storage_options" not in options:
        return options
    found = {name: value for name, value in options.items() if name != "storage_options"}
    given = dict(options["storage_options"] or {})
    given |= given.pop("client_kwargs", None) or {}
    stored = dict(found.get("store_option") or {})
    for name, value in given.items():
        if name in ("anon", "anonymous"):
            found.setdefault("anonymous", bool(value))
        elif name in ("endpoint_url", "endpoint"):
            found.setdefault("endpoint", value)
        elif name in _STORE_OPTIONS:
            stored.setdefault(_STORE_OPTIONS[name], str(value).lower() if isinstance(value, bool) else value)
        else:
            known = ", ".join(["anon", "endpoint_url", *_STORE_OPTIONS])
            raise OptionError(f"storage_options: {name} has no counterpart here (known: {known}; see store_option)")
    if stored:
        found["store_option"] = stored
    return found


def _dumps(name: str, value: object) -> str:
    try:
        text = json.dumps(value, default=_plain, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise OptionError(f"{name}: {error}") from None
    try:
        text.encode()
    except UnicodeEncodeError:
        shown = text.encode("utf-8", "backslashreplace").decode()
        raise OptionError(
            f"{name}: {shown} is not UTF-8, but urls in references are: rename the file, or make a symbolic link to it"
        ) from None
    return text


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
