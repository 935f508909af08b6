"""HDF5, NetCDF-4, TIFF, GeoTIFF and COG files as virtual Zarr datasets: read in place, nothing copied."""

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
from virtualize._store import VirtualStore, open, open_async

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
