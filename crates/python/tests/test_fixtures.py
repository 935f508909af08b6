"""All fixtures through the xarray backend, the arrays of a store, and zarr over a store: equal to the original readers."""

import functools
import json
import pathlib
import warnings

import h5py
import hdf5plugin  # noqa: F401
import numpy as np
import pytest
import virtualize
import xarray as xr
import zarr

ROOT = pathlib.Path(__file__).resolve().parents[3]
HDF5 = sorted(path for path in (ROOT / "fixtures/hdf5").iterdir() if path.suffix in (".h5", ".nc"))
TIFF = sorted((ROOT / "fixtures/tiff").glob("*.tif"))
# h5netcdf raises when it opens these.
NOT_FOR_H5NETCDF = {"links_odd.h5", "attributes_odd.h5", "types.h5", "scales_half.h5"}
# What the decoded arrays may lack: dangling links, types without a meaning in Zarr, a netCDF dimension without values.
MAY_LACK = {
    "types.h5": ("/sequences", "/compound_array"),
    "links_odd.h5": ("/external", "/dangling", "/loop"),
    "netcdf4.nc": ("/nothing",),
}
NO_VARIABLE = "This is a netCDF dimension but not a netCDF variable"
LOSSY = {"compression_jpeg.tif", "compression_webp.tif", "compression_jpegxl.tif"}
pytestmark = pytest.mark.filterwarnings("ignore")


def name_of(path):
    return path.name


@functools.cache
def content(path):
    """Returns what independent readers say about a fixture."""
    return json.loads(pathlib.Path(f"{path}.json").read_text())


def report(problems):
    if problems:
        pytest.fail(f"{len(problems)} differences\n" + "\n".join(problems[:40]), pytrace=False)


def difference(truth, got):
    """Compares values bit for bit, except for byte order and for NaN."""
    truth, got = np.asarray(truth), np.asarray(got)
    if truth.shape != got.shape:
        return f"shape {got.shape}, expected {truth.shape}"
    if truth.dtype.newbyteorder("<") != got.dtype.newbyteorder("<"):
        return f"type {got.dtype}, expected {truth.dtype}"
    if truth.dtype == object:
        return None if list(map(repr, truth.flat)) == list(map(repr, got.flat)) else f"{got.flat[:5]!r}, expected {truth.flat[:5]!r}"
    same = truth.astype(got.dtype).tobytes() == got.tobytes() or _equal_with_nan(truth, got)
    return None if same else f"{got.ravel()[:6]!r}, expected {truth.ravel()[:6]!r}"


def _equal_with_nan(truth, got):
    try:
        return bool(np.all((truth == got) | ((truth != truth) & (got != got))))
    except (TypeError, np.exceptions.DTypePromotionError):
        return False


# ---- HDF5: arrays

def expected_by_h5py(dataset):
    """Returns the values of a dataset as arrays of Zarr have them."""
    values, dtype = dataset[()], dataset.dtype
    if h5py.check_ref_dtype(dtype) is h5py.Reference:
        names = [dataset.file[one].name if one else "" for one in np.ravel(values)]
        return np.array(names, object).reshape(dataset.shape)
    if h5py.check_string_dtype(dtype) is not None and dtype == object:
        return dataset.asstr()[()] if dataset.shape else np.array(dataset.asstr()[()], object)
    if dtype.names:
        return _packed(np.asarray(values))
    return np.asarray(values)


def _packed(values):
    """Returns structures without padding."""
    packed = np.empty(values.shape, _packed_type(values.dtype))
    for name in values.dtype.names:
        packed[name] = values[name]
    return packed


def _packed_type(dtype):
    if dtype.subdtype:
        return np.dtype((_packed_type(dtype.subdtype[0]), dtype.subdtype[1]))
    return np.dtype([(n, _packed_type(dtype[n])) for n in dtype.names]) if dtype.names else np.dtype(dtype.str)


def datasets(path):
    """Yields each dataset that has values, with its path in the store."""
    with h5py.File(path) as file:
        for name, node in content(path)["nodes"].items():
            if node["kind"] != "dataset" or node.get("unreadable") or "_never_sparse" in name or "_never_none" in name:
                continue
            dataset = file[name]
            title = dataset.attrs.get("NAME", b"")
            if path.suffix == ".nc" and (title.decode() if isinstance(title, bytes) else str(title)).startswith(NO_VARIABLE):
                continue
            yield name.replace("/_nc4_non_coord_", "/") if path.suffix == ".nc" else name, dataset


def fitted(dataset, got):
    """Cuts off the padding along unlimited dimensions, which netCDF shows and h5py does not."""
    if not dataset.shape:
        return got
    return got[tuple(slice(n if most is None else None) for n, most in zip(dataset.shape, dataset.maxshape, strict=True))]


@pytest.mark.parametrize("decoded", [True, False], ids=["decoded", "stored"])
@pytest.mark.parametrize("path", HDF5, ids=name_of)
def test_arrays_are_those_of_h5py(path, decoded):
    store, problems = virtualize.open(path, decoded=decoded), []
    for name, dataset in datasets(path):
        if name not in store:
            # Without `decoded`, arrays that released clients cannot decode are omitted with a diagnostic.
            lacking = {d.path for d in store._file.diagnostics} if not decoded else set()
            if not name.startswith(MAY_LACK.get(path.name, ())) and name not in lacking:
                problems.append(f"{name}: not offered")
            continue
        array = store[name]
        try:
            if dataset.shape is None:
                assert array.size == 0
                continue
            truth = expected_by_h5py(dataset)
            if problem := difference(truth, fitted(dataset, array[...])):
                problems.append(f"{name}: {problem}")
            if truth.ndim and truth.shape == array.shape:
                key = tuple(slice(None, None, -2) for _ in truth.shape)
                if problem := difference(truth[key], array[key]):
                    problems.append(f"{name}, every second element: {problem}")
        except Exception as error:  # noqa: BLE001 - all are reported together
            problems.append(f"{name}: {type(error).__name__}: {error}")
    report(problems)


@pytest.mark.parametrize("path", HDF5, ids=name_of)
def test_zarr_reads_decoded_chunks_as_the_arrays_have_them(path):
    store, problems = virtualize.open(path, decoded=True), []
    for name, dataset in datasets(path):
        if name not in store or dataset.shape is None:
            continue
        try:
            truth = expected_by_h5py(dataset)
            got = zarr.open_array(store, path=name.strip("/"), mode="r")[...]
            if truth.dtype == object:
                got = np.asarray(got).astype(object)
            if problem := difference(truth, fitted(dataset, np.asarray(got))):
                problems.append(f"{name}: {problem}")
        except Exception as error:  # noqa: BLE001
            problems.append(f"{name}: {type(error).__name__}: {error}")
    report(problems)


# ---- HDF5: datasets of xarray

def groups(path):
    return ["/"] + [name for name, node in content(path)["nodes"].items() if node["kind"] == "group"]


def original(path, **options):
    return xr.open_dataset(path, engine="h5netcdf", phony_dims="access", **options)


@pytest.mark.parametrize("path", [path for path in HDF5 if path.name not in NOT_FOR_H5NETCDF], ids=name_of)
def test_stored_chunks_are_those_of_h5netcdf(path):
    """Decoded chunks, which are the default: test_h5netcdf.py."""
    problems = []
    for group in groups(path):
        truth = original(path, group=group)
        got = xr.open_dataset(path, engine="virtualize", group=group, decoded=False)
        if set(truth.coords) != set(got.coords):
            problems.append(f"{group}: coordinates {set(got.coords)}, expected {set(truth.coords)}")
        problems += [f"{group}: {p}" for p in attribute_differences(truth.attrs, got.attrs)]
        if set(got.variables) - set(truth.variables):
            problems.append(f"{group}: variables {set(got.variables) - set(truth.variables)} are not in the file")
        for name in set(truth.variables) & set(got.variables):
            problems += [f"{group}/{name}: {p}" for p in variable_differences(truth.variables[name], got.variables[name])]
    report(problems)


def variable_differences(truth, got):
    try:
        expected = truth.values
    except Exception:  # noqa: BLE001 - h5netcdf cannot read it
        return []
    try:
        values = got.values
    except Exception as error:  # noqa: BLE001
        return [f"{type(error).__name__}: {error}"]
    found = [difference(expected, values)]
    if truth.dims != got.dims:
        found.append(f"dimensions {got.dims}, expected {truth.dims}")
    found += attribute_differences(truth.attrs, got.attrs)
    for key in ("_FillValue", "missing_value", "scale_factor", "add_offset", "units", "calendar", "contiguous", "chunksizes", "preferred_chunks"):
        a, b = truth.encoding.get(key), got.encoding.get(key)
        if not same_attribute(a, b):
            found.append(f"encoding {key} {b!r}, expected {a!r}")
    return [problem for problem in found if problem]


def attribute_differences(truth, got):
    keys = sorted(truth.keys() | got.keys())
    return [
        f"attribute {key}: {got.get(key)!r}, expected {truth.get(key)!r}"
        for key in keys
        if not same_attribute(truth.get(key), got.get(key))
    ]


def same_attribute(a, b):
    """Compares attributes: types, except for byte order, and values."""
    if isinstance(a, np.ndarray | np.generic) or isinstance(b, np.ndarray | np.generic):
        return type(a) is type(b) and difference(a, b) is None
    return type(a) is type(b) and repr(a) == repr(b)


@pytest.mark.parametrize("name", ["netcdf4.nc", "dimensions.nc", "links_old.h5"])
def test_groups_are_those_of_h5netcdf(name):
    path = ROOT / "fixtures/hdf5" / name
    truth = xr.open_groups(path, engine="h5netcdf", phony_dims="access", decode_cf=False)
    got = xr.open_groups(path, engine="virtualize", decode_cf=False)
    assert {k: set(v.variables) for k, v in truth.items()} == {k: set(v.variables) for k, v in got.items()}


# ---- TIFF

def images(path):
    for index, image in content(path)["images"].items():
        yield index, ("" if index == "0" else f"{index}/"), image


@pytest.mark.parametrize("decoded", [True, False], ids=["decoded", "stored"])
@pytest.mark.parametrize("path", TIFF, ids=name_of)
def test_arrays_are_those_of_tifffile(path, decoded):
    import tifffile

    store, problems = virtualize.open(path, decoded=decoded), []
    with tifffile.TiffFile(path) as tif:
        for index, group, _ in images(path):
            first, *rest = map(int, index.split("/"))
            page = tif.pages[first]
            for i in rest:
                page = page.pages[i]
            data, axes = page.asarray(), page.axes
            truth = data.astype("u1") if data.dtype == bool else data
            try:
                got = store[f"{group}band_data"][...]
            except Exception as error:  # noqa: BLE001
                problems.append(f"image {index}: {type(error).__name__}: {error}")
                continue
            if path.name in LOSSY:
                continue
            if "S" in axes:
                candidates = [np.moveaxis(truth, axes.index("S"), at) for at in (0, -1)]
            else:
                candidates = [truth[None], truth[..., None]]
            found = [difference(candidate, got) for candidate in candidates]
            if all(found):
                problems.append(f"image {index}: {found[0]}")
    report(problems)


def raster(path, masked):
    import rioxarray

    return rioxarray.open_rasterio(path, masked=masked, mask_and_scale=False).load()


# The GDAL of rasterio's wheel has no JPEG XL. It masks by the alpha band, which Zarr readers show as a band, and does not
# unpack here.
NOT_MASKED_ALIKE = {"alpha.tif", "gdal_metadata.tif"}
RASTERS = [path for path in TIFF if not path.name.startswith("nodata_") and path.name != "compression_jpegxl.tif"]


@pytest.mark.parametrize("path", RASTERS, ids=name_of)
def test_datasets_are_those_of_rioxarray(path):
    for masked in [False] if path.name in NOT_MASKED_ALIKE else [True, False]:
        check_raster(path, masked)


def check_raster(path, masked):
    import rasterio

    truth = raster(f"GTIFF_DIR:1:{path}", masked)
    ds = xr.open_dataset(path, engine="virtualize", mask_and_scale=masked)
    got = ds["band_data"].transpose("band", "y", "x")
    if masked and "_FillValue" not in got.encoding:
        got = got.astype(truth.dtype)  # rioxarray makes floats even where nothing can be masked
    if path.name not in LOSSY:
        assert difference(truth.values, got.values) is None
    with rasterio.open(path) as source:
        if source.crs and "user_defined" not in path.name and "rotated" not in path.name:
            assert ds.rio.crs == source.crs and got.rio.crs == source.crs
            np.testing.assert_allclose(ds.rio.transform(), source.transform, rtol=0, atol=1e-9)
            for axis in ("x", "y"):
                np.testing.assert_allclose(ds[axis].values, truth[axis].values, rtol=0, atol=1e-9)
            assert "spatial_ref" in ds.coords
        nodata = got.rio.encoded_nodata if masked else got.rio.nodata
        assert nodata == source.nodata or (nodata != nodata and source.nodata != source.nodata)
    if "band" in truth.coords:
        np.testing.assert_array_equal(ds["band"].values, truth["band"].values)
