"""HDF5, NetCDF-4, TIFF, GeoTIFF and COG files as virtual Zarr datasets: read in place, nothing copied."""

from typing import TYPE_CHECKING, Any

from virtualize import events
from virtualize._archive import ArchiveWarning, Scan, batch, batch_async, scan, scan_async
from virtualize._errors import (
    AccessDeniedError,
    ChangedError,
    Diagnostic,
    Error,
    FileError,
    NotFoundError,
    OptionError,
    RefusedError,
    UnavailableError,
    VirtualizeWarning,
)
from virtualize._open import open, open_async
from virtualize._references import (
    Difference,
    ValidationReport,
    convert,
    convert_async,
    diff,
    diff_async,
    validate,
    validate_async,
)

if TYPE_CHECKING:
    from virtualize._store import VirtualStore

__all__ = [
    "AccessDeniedError",
    "ArchiveWarning",
    "ChangedError",
    "Diagnostic",
    "Difference",
    "Error",
    "FileError",
    "NotFoundError",
    "OptionError",
    "RefusedError",
    "Scan",
    "UnavailableError",
    "ValidationReport",
    "VirtualStore",
    "VirtualizeWarning",
    "batch",
    "batch_async",
    "convert",
    "convert_async",
    "diff",
    "diff_async",
    "events",
    "open",
    "open_async",
    "scan",
    "scan_async",
    "validate",
    "validate_async",
]


def __getattr__(name: str) -> Any:
    # The store is a class of zarr, whose import takes longer than that of this package.
    if name == "VirtualStore":
        from virtualize._store import VirtualStore

        return VirtualStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
