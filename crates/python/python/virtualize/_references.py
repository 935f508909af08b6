"""Existing references: ``validate``, ``diff`` and ``convert``."""

import json
from dataclasses import dataclass, field
from typing import Any, Unpack

from virtualize import _virtualize
from virtualize._awaitable import as_awaitable
from virtualize._errors import Diagnostic, VirtualizeWarning, warn
from virtualize._options import ConvertOptions, DiffOptions, Location, ValidateOptions, to_json


@dataclass(frozen=True, slots=True)
class Checked:
    """A source or an array that was validated.

    Parameters
    ----------
    name
        Url of the source, or path of the array.
    chunks
        Number of chunks, inline ones included.
    decoded
        Number of chunks that were decoded.
    problems
        Number of problems.
    listed
        The first problems, described.
    """

    name: str
    chunks: int
    decoded: int
    problems: int
    listed: list[str]


@dataclass(frozen=True, slots=True, repr=False)
class ValidationReport:
    """Result of ``validate``. Its text is the command's table.

    Parameters
    ----------
    valid
        Whether there are no problems.
    arrays, sources
        What was validated.
    notes
        What could not be validated, and why.
    """

    valid: bool
    arrays: list[Checked]
    sources: list[Checked]
    notes: list[str]
    _table: str = field(compare=False)

    def __repr__(self) -> str:
        return self._table

    def _repr_html_(self) -> str:
        # Few programs show it.
        from html import escape

        return f"<pre>{escape(self._table)}</pre>"


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between two files, or two reference sets. As text it is the command's line.

    Parameters
    ----------
    path
        Absolute path of the array or group.
    what
        What differs: ``"shape"``, ``"attribute units"``, ``"chunks"``, ``"kind"`` (a group in one, an array in the
        other), ``"existence"`` (the node exists in one only), ``"unread"`` (the array cannot be compared).
    first, second
        Both sides. For ``"existence"``, whether the node exists there; for ``"unread"``, the reason on the side where
        the array cannot be read; for ``"chunks"``, the places of the first few chunks that differ.
    text
        All in one line.
    count
        Number of chunks that differ, for ``"chunks"``.
    """

    path: str
    what: str
    first: Any
    second: Any
    text: str = field(repr=False)
    count: int | None = None

    def __str__(self) -> str:
        return self.text


def validate(references: Location, **options: Unpack[ValidateOptions]) -> ValidationReport:
    """Check references against their source files.

    Parameters
    ----------
    references
        JSON, a kerchunk-parquet or zarr3 folder or prefix, or an Icechunk repository.
    **options
        ``sample``, the number of chunks to decode per array and source (4), or ``full=True`` for all; ``relative_to``,
        ``version_of``, and how files are reached.

    Returns
    -------
    ValidationReport
        Problems are part of the report: see its ``valid``.

    Examples
    --------
    >>> import tempfile, virtualize
    >>> target = tempfile.mkdtemp() + "/refs.json"
    >>> virtualize.open("fixtures/hdf5/chunked.h5").to_kerchunk(target)
    >>> virtualize.validate(target, full=True).valid
    True
    """
    return _report(_virtualize.validate(references, to_json(options), True))


async def validate_async(references: Location, **options: Unpack[ValidateOptions]) -> ValidationReport:
    """Check references against their source files, as ``validate`` does."""
    return _report(await as_awaitable(_virtualize.validate(references, to_json(options), False)))


def diff(first: Location, second: Location, **options: Unpack[DiffOptions]) -> list[Difference]:
    """Compare two reference sets or files.

    Parameters
    ----------
    first, second
        References, or HDF5, NetCDF or TIFF files.
    **options
        ``ignore_urls`` to treat chunks at equal offsets as equal, whichever file they are in; ``relative_to``,
        ``version_of``, and how files are reached.

    Returns
    -------
    list of Difference
        Empty if they are equal.

    Examples
    --------
    >>> import virtualize
    >>> virtualize.diff("fixtures/hdf5/chunked.h5", "fixtures/hdf5/chunked.h5")
    []
    """
    return _differences(_virtualize.diff(first, second, to_json(options), True))


async def diff_async(first: Location, second: Location, **options: Unpack[DiffOptions]) -> list[Difference]:
    """Compare two reference sets or files, as ``diff`` does."""
    found = _virtualize.diff(first, second, to_json(options), False)
    return _differences(await as_awaitable(found))


def convert(references: Location, output: Location, **options: Unpack[ConvertOptions]) -> str | None:
    """Rewrite existing references in another format.

    Parameters
    ----------
    references
        JSON, a kerchunk-parquet or zarr3 folder or prefix, or an Icechunk repository.
    output
        Path or url to write to.
    **options
        ``format`` of the output (by default that of its extension, or ``"kerchunk-json"``), ``strict`` to fail if
        anything is lost, and all options of writing, of Icechunk, and of reading references.

    Returns
    -------
    str or None
        Id of the snapshot of a commit.

    Warns
    -----
    VirtualizeWarning
        For each array that is omitted or changed.

    Examples
    --------
    >>> import tempfile, virtualize
    >>> folder = tempfile.mkdtemp()
    >>> virtualize.open("fixtures/hdf5/chunked.h5").to_kerchunk(f"{folder}/refs.json")
    >>> virtualize.convert(f"{folder}/refs.json", f"{folder}/refs.parquet")
    """
    return _converted(_virtualize.convert(references, output, to_json(options), True))


async def convert_async(references: Location, output: Location, **options: Unpack[ConvertOptions]) -> str | None:
    """Rewrite existing references in another format, as ``convert`` does."""
    found = _virtualize.convert(references, output, to_json(options), False)
    return _converted(await as_awaitable(found))


def _report(text: str) -> ValidationReport:
    found = json.loads(text)
    report = found["report"]
    arrays = [_checked(one, "/") for one in report["arrays"]]
    sources = [_checked(one, "") for one in report["sources"]]
    _warn(found["warnings"])
    return ValidationReport(report["valid"], arrays, sources, report["notes"], found["table"])


def _checked(one: dict[str, Any], root: str) -> Checked:
    return Checked(root + one["name"], one["chunks"], one["decoded"], one["problems"], one["listed"])


def _differences(text: str) -> list[Difference]:
    return [Difference(**one) for one in json.loads(text)]


def _converted(text: str) -> str | None:
    found = json.loads(text)
    _warn(found["warnings"])
    snapshot: str | None = found["snapshot"]
    return snapshot


def _warn(found: list[dict[str, Any]]) -> None:
    for one in found:
        diagnostic = Diagnostic(one["code"], "warning", one["path"], one["message"], one["remedy"])
        warn(VirtualizeWarning(one["name"], diagnostic))
