"""HDF5, NetCDF, TIFF, GeoTIFF and COG files as virtual Zarr datasets: read in place, nothing copied."""

from typing import TYPE_CHECKING, Any

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
from virtualize._open import open, open_async, open_dataset

if TYPE_CHECKING:
    from virtualize import events
    from virtualize._archive import ArchiveWarning, Scan, batch, batch_async, scan, scan_async
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
    from virtualize._plot import plot_chunks
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
    "open_dataset",
    "plot_chunks",
    "scan",
    "scan_async",
    "validate",
    "validate_async",
]

# Modules whose import takes longer than that of this package, for example because the store is a class of zarr.
_LATER = {
    "virtualize._archive": ("ArchiveWarning", "Scan", "batch", "batch_async", "scan", "scan_async"),
    "virtualize._references": (
        "Difference",
        "ValidationReport",
        "convert",
        "convert_async",
        "diff",
        "diff_async",
        "validate",
        "validate_async",
    ),
    "virtualize._plot": ("plot_chunks",),
    "virtualize._store": ("VirtualStore",),
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "events":
        return import_module("virtualize.events")
    for module, names in _LATER.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
