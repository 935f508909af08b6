"""Options with the names of the command's options."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

type Size = int | str
"""A number of bytes: ``65536``, ``"64K"``."""


class ConnectionOptions(TypedDict, total=False):
    """How files are reached. What is not given comes from the environment (``AWS_*``, ``GOOGLE_*``, ``AZURE_*``)."""

    store_option: Mapping[str, str]
    anonymous: bool
    endpoint: str
    bearer_token: str
    concurrency: int
    retries: int
    retry_timeout: int


class MappingOptions(TypedDict, total=False):
    """How files are mapped to Zarr."""

    strict: bool
    invalid_nodata: Literal["error", "attribute", "drop"]
    ifd: Sequence[int | str] | int | str
    stack: bool
    chunk_grid: Literal["regular", "rectilinear"]
    inline_limit: int
    inline_below: Size
    inline_coordinates: bool
    inline_total: Size
    split_contiguous: Size
    unpack: bool
    missing_value_convention: bool
    follow_external: bool
    readable_by: Sequence[str] | str


class OpenOptions(ConnectionOptions, MappingOptions, total=False):
    """Options of :func:`virtualize.open`."""


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
    append_dim: str


def to_json(options: Mapping[str, Any]) -> str:
    """Return options as the JSON text that the compiled module parses. ``None`` stands for the default."""
    return json.dumps({name: value for name, value in options.items() if value is not None})
