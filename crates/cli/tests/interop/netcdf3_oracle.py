"""Compares references of a NetCDF classic file with netCDF4-python, and with xarray's engines netcdf4 and scipy, on the original."""
import warnings

import clients
import numpy as np
from clients import FORMATS, plain, same_bits, same_values

FILL = {"_FillValue", "missing_value"}
# What a warning says is missing or different.
EXCUSES = {"fill-value-dropped", "missing-value-dropped", "array-omitted", "name-collision", "node-omitted"}


def differences(path, fmt, *arguments):
    """Returns all differences, one per line, and the run."""
    run = clients.virtualize(path, "--format", fmt, *arguments)
    if run.status:
        return [f"status {run.status}: {run.stderr}"], run
    excused = {p.lstrip("/"): code for p, code in run.codes if code in EXCUSES}
    return [*stored(path, run.references, fmt, excused), *shown(path, run.references, fmt, excused)], run


def stored(path, references, fmt, excused):
    """Compares the values without masks and scales, in zarr-python."""
    import netCDF4, zarr
    store = clients.open_store(references)
    with netCDF4.Dataset(path) as ds:
        ds.set_auto_maskandscale(False)
        ds.set_auto_chartostring(False)
        for name, var in ds.variables.items():
            if excused.get(name) in ("array-omitted", "node-omitted"):
                continue
            array = zarr.open_array(store, path=name, mode="r", zarr_format=FORMATS[fmt])
            if difference := same_bits(var[...], array[...]):
                yield f"{name}: {difference}"


def shown(path, references, fmt, excused):
    """Compares dimensions, attributes and values, masked and not, in xarray."""
    import xarray as xr
    ours = clients.open_dataset(references, FORMATS[fmt])
    for engine in ("netcdf4", "scipy"):
        try:
            original = xr.open_dataset(path, engine=engine, decode_cf=False)
        except Exception:  # noqa: BLE001 - scipy does not read all files, see the semantics
            if engine == "netcdf4":
                raise
            continue
        with original:
            if engine == "netcdf4" and "" not in excused and texts(original.attrs) != texts(ours.attrs):
                yield f"global attributes {texts(ours.attrs)}, expected {texts(original.attrs)}"
            for name in original.variables:
                if excused.get(name) not in ("array-omitted", "node-omitted"):
                    yield from (f"{engine}: {name}: {line}" for line in variable(original, ours, name, engine, excused))


def variable(original, ours, name, engine, excused):
    for mask in (False, True):
        truth = decode(original, name, mask)
        if truth is None or (mask and name in excused):
            continue
        got = decode(ours, name, mask)
        if got is None:
            yield f"mask={mask}: xarray decodes the original, but not the references"
            continue
        if truth[0] != got[0]:
            yield f"dimensions {got[0]}, expected {truth[0]}"
        if mask and (difference := same_numbers(original, name, truth[1], got[1])):
            yield f"masked: {difference}, attributes {original[name].attrs}"
        if not mask and (difference := same_values(truth[1], got[1])):
            yield difference
    if engine == "netcdf4" and texts(original[name].attrs) != texts(ours[name].attrs):
        yield f"attributes {texts(ours[name].attrs)}, expected {texts(original[name].attrs)}"


def decode(ds, name, mask):
    """Decodes a variable; None if xarray cannot."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return clients.decode(ds, name, mask)
        except Exception:  # noqa: BLE001 - compared between original and references
            return None


def same_numbers(original, name, truth, got):
    """Compares decoded numbers. Those that 32-bit or integer factors unpack may differ as rules P1 and P2 of the semantics say."""
    factors = [np.asarray(original[name].attrs[key]) for key in ("scale_factor", "add_offset") if key in original[name].attrs]
    difference = same_values(truth, got)
    if not difference or all(factor.dtype == np.float64 for factor in factors):
        return difference
    if original[name].dtype.kind == "f" and truth.dtype.kind == got.dtype.kind == "i":
        return None  # xarray cannot show fractions and NaN of the original either, see P2
    stored = original[name].values.astype(unsigned(original[name])).astype("f8")
    exact = stored * float(original[name].attrs.get("scale_factor", 1)) + float(original[name].attrs.get("add_offset", 0))
    # The original compares 32-bit integers with the sentinel as 32-bit floats, so that it may mask more, or not the sentinel.
    masked = np.isnan(got.astype("f8")) & ~np.isnan(stored)
    sentinels = [np.ravel(original[name].attrs[key]).astype("f8") for key in FILL if key in original[name].attrs]
    right = np.isnan(truth.astype("f8")) | np.isin(stored, np.concatenate([*sentinels, []]))
    close = np.isclose(exact, got.astype("f8"), rtol=1e-9, equal_nan=True)
    good = np.where(masked, right, close)
    return None if np.all(good) else f"values {got.ravel()[:6]}, expected {exact.ravel()[:6]}"


def unsigned(var):
    sign = {"true": "u", "false": "i"}.get(var.attrs.get("_Unsigned"))
    return np.dtype(f"{sign}{var.dtype.itemsize}") if sign and var.dtype.kind in "iu" else var.dtype


def texts(attrs):
    return {name: plain(value) for name, value in attrs.items() if name not in FILL}
