"""A plugin for VirtualiZarr's own tests, which need no network then. If REPLACE_PARSER is set, its HDFParser is replaced by
the parser of this package."""

import os
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import virtualizarr.parsers
import xarray as xr

import virtualize
from virtualize.virtualizarr import Parser

if "REPLACE_PARSER" in os.environ:
    virtualizarr.parsers.HDFParser = Parser

# Some of their tests count warnings.
warnings.simplefilter("ignore", virtualize.VirtualizeWarning)


def tutorial_dataset(name, **kwargs):
    """Return a dataset like the one that xarray downloads: its structure, with other values."""
    if name != "air_temperature":
        raise OSError(f"{name} is not available offline")
    path = Path(tempfile.gettempdir()) / f"virtualize-{name}.nc"
    if not path.exists():
        air = np.random.default_rng(0).normal(280, 10, (2920, 25, 53)).round(2)
        coords = {
            "lat": ("lat", np.linspace(75, 15, 25, dtype="f4"), {"standard_name": "latitude", "long_name": "Latitude", "units": "degrees_north", "axis": "Y"}),
            "lon": ("lon", np.linspace(200, 330, 53, dtype="f4"), {"standard_name": "longitude", "long_name": "Longitude", "units": "degrees_east", "axis": "X"}),
            "time": ("time", pd.date_range("2013-01-01", periods=2920, freq="6h"), {"standard_name": "time"}),
        }
        attrs = {"long_name": "4xDaily Air temperature at sigma level 995", "units": "degK"}
        dataset = xr.Dataset({"air": (("time", "lat", "lon"), air, attrs)}, coords, {"title": "4x daily NMC reanalysis (1948)"})
        encoding = {
            "air": {"dtype": "i2", "scale_factor": 0.01, "_FillValue": None},
            "time": {"dtype": "f4", "units": "hours since 1800-01-01", "calendar": "standard", "_FillValue": None},
            "lat": {"_FillValue": None},
            "lon": {"_FillValue": None},
        }
        part = path.with_suffix(".part")
        dataset.to_netcdf(part, engine="netcdf4", format="NETCDF3_CLASSIC", encoding=encoding)
        part.rename(path)
    return xr.open_dataset(path, **kwargs)


xr.tutorial.open_dataset = tutorial_dataset
