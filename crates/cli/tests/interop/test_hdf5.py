"""HDF5 and NetCDF-4 fixtures through references, compared with h5py and with xarray's h5netcdf engine on the original."""
import functools, json, warnings

import clients
import h5netcdf.attrs
import numpy as np
import pytest
from clients import FORMATS, convert, decoded, nodes, open_dataset, plain, report, same_bits, same_values

FILES = sorted(p.name for p in (clients.FIXTURES / "hdf5").iterdir() if p.suffix in (".h5", ".nc"))
# xarray cannot open these originals; they are only compared with h5py.
NOT_FOR_XARRAY = {"links_odd.h5", "attributes_odd.h5", "types.h5", "scales_half.h5"}
BOOKKEEPING = h5netcdf.attrs._HIDDEN_ATTRS | {"_ARRAY_DIMENSIONS"}
FILL = {"_FillValue", "missing_value"}
# Arrays that may be omitted, with the required diagnostic: (file, path prefix, formats, code).
OMITTED = [
    ("types.h5", "/sequences", None), ("types.h5", "/compound_array", None),
    ("filters.h5", "/szip", None), ("filters.h5", "/blosc2", None), ("filters.h5", "/lz4", None),
    ("links_odd.h5", "/external", None), ("links_odd.h5", "/dangling", None), ("links_odd.h5", "/loop", None),
    ("netcdf4.nc", "/nothing", None),
]


def source(name):
    return clients.FIXTURES / "hdf5" / name


@functools.cache
def expected(name):
    with open(f"{source(name)}.json") as f:
        return json.load(f)["nodes"]


DROPPED = {"fill-value-dropped": "_FillValue", "missing-value-dropped": "missing_value"}
NO_VARIABLE = "This is a netCDF dimension but not a netCDF variable"


def reported(name, fmt):
    """Returns the attributes that were dropped with a diagnostic, by path of the array."""
    found = {}
    for path, code in convert(source(name), fmt).codes:
        if code in DROPPED:
            found.setdefault(path, set()).add(DROPPED[code])
    return found


def without(variable, attributes):
    variable = variable.copy(deep=False)
    variable.attrs = {k: v for k, v in variable.attrs.items() if k not in attributes}
    return variable


def undefined(path):
    """Marks values that libhdf5 leaves uninitialized in memory: missing chunks with fill time "never"."""
    return "_never_sparse" in path or "_never_none" in path


def netcdf_name(name, path, node):
    """Returns the path of a dataset with the name that netCDF gives it; None for a dimension without a variable."""
    title = node.get("attributes", {}).get("NAME", {}).get("value", "")
    title = bytes.fromhex(title["hex"]).decode() if isinstance(title, dict) else title
    return None if name.endswith(".nc") and title.startswith(NO_VARIABLE) else path.replace("/_nc4_non_coord_", "/")


def may_be_omitted(name, path):
    return any(name == n and path.startswith(p) for n, p, _ in OMITTED)


@pytest.mark.parametrize("name", FILES)
def test_values_are_those_of_h5py(name, fmt):
    """Every dataset is mapped or on the list above; type, shape and values in zarr-python equal those of h5py."""
    import h5py, hdf5plugin, zarr  # noqa: F401
    references = convert(source(name), fmt).references
    store, kinds, problems = clients.open_store(references), nodes(references, FORMATS[fmt]), []
    with h5py.File(source(name)) as original:
        for path, node in expected(name).items():
            if node["kind"] != "dataset" or node.get("unreadable") or undefined(path):
                continue
            here = netcdf_name(name, path, node)
            if here is None:
                continue
            here = here.strip("/")
            if kinds.get(here) != "array":
                if not may_be_omitted(name, path):
                    problems.append(f"{path}: not offered")
                continue
            try:
                array = zarr.open_array(store, path=here, mode="r", zarr_format=FORMATS[fmt])
                difference = compare(original[path], array)
            except Exception as error:  # noqa: BLE001 - all are reported together
                difference = f"{type(error).__name__}: {error}"
            if difference:
                problems.append(f"{path}: {difference}")
    report(problems)


def compare(original, array):
    import h5py
    if original.shape is None:
        return None if array.size <= 1 else f"null dataspace read as {array.shape}"
    truth, got = original[()], array[...]
    if original.maxshape and got.ndim == truth.ndim:  # padded to its unlimited dimension: test_unlimited.py
        got = got[tuple(slice(n if most is None else None) for n, most in zip(truth.shape, original.maxshape))]
    dtype = original.dtype
    if h5py.check_ref_dtype(dtype) is h5py.Reference:  # mapped to the path of the target
        names = [original.file[reference].name if reference else "" for reference in np.ravel(truth)]
        return None if names == [str(text) for text in np.ravel(got)] else f"{got}, expected {names}"
    if h5py.check_string_dtype(dtype) is not None or dtype.kind in "S":
        return same_values(truth, got)
    if dtype.kind == "V" and not dtype.names:
        return None if np.asarray(truth).tobytes() == np.asarray(got).tobytes() else "opaque bytes differ"
    if dtype.names:  # without padding in Zarr
        truth = np.asarray(truth).astype([(n, dtype[n]) for n in dtype.names])
    return same_bits(truth, got)


@pytest.mark.parametrize("name", FILES)
def test_fill_values_are_those_of_libhdf5(name):
    """In Zarr v3, `fill_value` is the fill value of the header, or zero if that is undefined or default."""
    import zarr
    references = convert(source(name), "zarr3-json").references
    store, kinds, problems = clients.open_store(references), nodes(references, 3), []
    for path, node in expected(name).items():
        here = netcdf_name(name, path, node) if node["kind"] == "dataset" else None
        if here is None or kinds.get(here.strip("/")) != "array" or np.dtype(zarr_type(node)).kind not in "biufcS":
            continue
        fill = zarr.open_array(store, path=here.strip("/"), mode="r", zarr_format=3).fill_value
        t = np.dtype(zarr_type(node))
        wanted = scalar(node["fill"]["value"], t) if "value" in node["fill"] else np.zeros((), t)[()]
        if (difference := same_bits(np.asarray(wanted, t), np.asarray(fill, t))):
            problems.append(f"{path}: fill value {difference}")
    report(problems)


def zarr_type(node):
    return node["dtype"] if isinstance(node["dtype"], str) and " " not in node["dtype"] and node["dtype"] not in ("reference", "vlen") else "V1"


def scalar(value, dtype):
    if isinstance(value, dict):
        return np.bytes_(bytes.fromhex(value["hex"]))
    if dtype.kind == "c":
        return complex(*(float(v) for v in value))
    return float(value) if isinstance(value, str) else value


@functools.cache
def groups(name):
    return ["/"] + [path for path, node in expected(name).items() if node["kind"] == "group"]


def open_original(name, group):
    import hdf5plugin  # noqa: F401
    import xarray as xr
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return xr.open_dataset(source(name), engine="h5netcdf", group=group, phony_dims="access", decode_cf=False)


@functools.lru_cache(8)
def originals(name):
    """Opens each group with variables in xarray, without decoding."""
    opened = {group: open_original(name, group) for group in groups(name)}
    return {group: ds.load() if readable(ds) else ds for group, ds in opened.items() if ds.variables}


def readable(ds):
    try:
        ds.load()
    except Exception:  # noqa: BLE001 - single variables may still be
        return False
    return True


def pairs(name, fmt):
    """Yields (group, original, ours) for each group with variables, without decoding."""
    references = convert(source(name), fmt).references
    for group, original in originals(name).items():
        yield group, original, open_dataset(references, FORMATS[fmt], group.strip("/"))


@pytest.mark.parametrize("name", [n for n in FILES if n not in NOT_FOR_XARRAY])
def test_xarray_shows_the_same(name, fmt):
    """Names, dimensions, types, values and attributes, variable by variable."""
    dropped, problems = reported(name, fmt), []
    renamed = {path for path, code in convert(source(name), fmt).codes if code == "dimension-renamed"}  # netCDF pads it
    for group, original, ours in pairs(name, fmt):
        for variable in original.variables:
            path = f"{group.rstrip('/')}/{variable}"
            if original[variable].dtype.kind == "V" or undefined(path):
                continue
            if variable not in ours.variables:
                if not may_be_omitted(name, path):
                    problems.append(f"{path}: not offered")
                continue
            for mask_and_scale in () if path in renamed else (True, False):
                problems += compared(path, original, ours, variable, mask_and_scale, dropped.get(path))
    report(problems + [problem for group in pairs(name, fmt) for problem in attributes(dropped, *group)])


def compared(path, original, ours, variable, mask_and_scale, dropped):
    try:
        truth = decoded(original, variable, mask_and_scale)
    except Exception:  # noqa: BLE001 - what xarray cannot read in the original it need not read here
        return []
    found = differences(path, widened(truth, original, variable), lambda: decoded(ours, variable, mask_and_scale))
    if found and dropped:  # reported: then dropped values mask nothing
        rest = without(original[variable], dropped).to_dataset(name=variable)
        found = differences(path, decoded(rest, variable, mask_and_scale), lambda: decoded(ours, variable, mask_and_scale))
    return found


def widened(truth, original, variable):
    """JSON does not distinguish widths of floats: packed data with single-precision scale factors is unpacked in double precision."""
    attributes = original[variable].attrs
    factors = [attributes.get("scale_factor"), attributes.get("add_offset")]
    if truth.dtype != np.float32 or not any(isinstance(f, np.float32) for f in factors):
        return truth
    scale, offset = (np.float64(f) if f is not None else d for f, d in zip(factors, (1, 0)))
    return truth.copy(data=np.where(np.isnan(truth.values), np.nan, original[variable].values * scale + offset))


def differences(path, truth, read):
    try:
        got = read()
    except Exception as error:  # noqa: BLE001
        return [f"{path}: {type(error).__name__}: {error}"]
    out = []
    if truth.dims != got.dims:
        out.append(f"{path}: dimensions {got.dims}, expected {truth.dims}")
    if not clients.same_type(truth.dtype, got.dtype):
        out.append(f"{path}: type {got.dtype}, expected {truth.dtype}")
    if difference := same_values(truth.values, got.values):
        out.append(f"{path}: {difference}")
    return out


def attributes(dropped, group, original, ours):
    """Compares all attributes, except for netCDF's internal ones and those about fill values that have a diagnostic."""
    problems = []
    for variable in [None, *original.variables]:
        path = f"{group.rstrip('/')}/{variable or ''}"
        if variable and variable not in ours.variables:
            continue
        truth = dict((original[variable] if variable else original).attrs)
        got = dict((ours[variable] if variable else ours).attrs)
        skip = BOOKKEEPING | (FILL if path in dropped else set()) | {"flag_values", "flag_meanings"}
        for key in sorted((truth.keys() | got.keys()) - skip):
            a, b = (plain(x[key]) if key in x else None for x in (truth, got))
            if a != b and not (key == "_FillValue" and same_fill(a, b)):
                problems.append(f"{path}: attribute {key}: {b!r}, expected {a!r}")
    return problems


def same_fill(a, b):
    """Text and number forms of the same sentinel are equal."""
    return a is not None and b is not None and len(a) == len(b) == 1 and str(a[0]) == str(b[0])


@pytest.mark.parametrize("offsets, lengths", [(4, 8), (8, 4), (2, 8)])
def test_offsets_and_lengths_of_other_sizes(tmp_path, fmt, offsets, lengths):
    import ctypes

    import h5py
    from h5py import h5f, h5p
    create, access = h5p.create(h5p.FILE_CREATE), h5p.create(h5p.FILE_ACCESS)
    library = clients.libhdf5()
    library.H5Pset_sizes.argtypes = [ctypes.c_int64, ctypes.c_size_t, ctypes.c_size_t]
    library.H5Pset_sizes(create.id, offsets, lengths)
    access.set_libver_bounds(h5f.LIBVER_EARLIEST, h5f.LIBVER_LATEST)
    with h5py.File(h5f.create(str(tmp_path / "a.h5").encode(), h5f.ACC_TRUNC, create, access)) as file:
        for number in range(20):
            file[f"g{number % 3}/x{number}"] = np.arange(4.0) + number
    references = convert(tmp_path / "a.h5", fmt).references
    for number in range(20):
        ds = open_dataset(references, FORMATS[fmt], f"g{number % 3}")
        assert ds[f"x{number}"].values.tolist() == [number, number + 1, number + 2, number + 3]
