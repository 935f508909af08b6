"""HDF5, NetCDF-4, TIFF, GeoTIFF and COG files as virtual Zarr datasets: read in place, nothing copied."""

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
from virtualize._open import open, open_async

if TYPE_CHECKING:
    from virtualize._store import VirtualStore

__all__ = [
    "AccessDeniedError",
    "ChangedError",
    "Diagnostic",
    "Error",
    "FileError",
    "NotFoundError",
    "OptionError",
    "RefusedError",
    "UnavailableError",
    "VirtualStore",
    "VirtualizeWarning",
    "open",
    "open_async",
]


def __getattr__(name: str) -> Any:
    # The store is a class of zarr, whose import takes longer than that of this package.
    if name == "VirtualStore":
        from virtualize._store import VirtualStore

        return VirtualStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
