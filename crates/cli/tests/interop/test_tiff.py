"""TIFF fixtures through references, compared with tifffile, rasterio and rioxarray on the original."""
import functools, json, re, warnings

import clients
import numpy as np
import pytest
from clients import FORMATS, convert, decoded, nodes, open_dataset, report, same_bits, same_values

FOLDER = clients.FIXTURES / "tiff"
FILES = sorted(p.name for p in FOLDER.iterdir() if p.suffix == ".tif")
NODATA = [n for n in FILES if n.startswith("nodata_") and "invalid" not in n]
INVALID = [n for n in FILES if n.startswith("nodata_invalid_")]
# GDAL masks by the alpha band; Zarr readers show it as a band.
MASKED_BY_GDAL = {"alpha.tif"}
LOSSY = {"compression_jpeg.tif", "compression_webp.tif", "compression_jpegxl.tif"}
# Compressions that are not supported: these files may be rejected with a reason.
MAY_BE_REFUSED = {"compression_jpeg.tif", "compression_webp.tif", "compression_jpegxl.tif", "compression_lerc.tif", "compression_lzma.tif"}
GEOREFERENCED = [n for n in FILES if n.startswith(("geo_", "cog", "gdal_metadata.")) and "rotated" not in n]


@functools.cache
def expected(name):
    with open(FOLDER / f"{name}.json") as f:
        return json.load(f)["images"]


def node_of(index):
    """Returns the group of a directory: images are groups named by their index, the first one is the root."""
    return "band_data" if index == "0" else f"{index}/band_data"


def truth_of(name, index):
    import tifffile
    with tifffile.TiffFile(FOLDER / name) as tif:
        first, *rest = index.split("/")
        page = tif.pages[int(first)]
        for i in rest:
            page = page.pages[int(i)]
        data = page.asarray()
        return data.astype("u1") if data.dtype == bool else data, page.axes  # one-bit samples are numbers in Zarr


def oriented(data, axes, bands):
    """Moves the sample axis of tifffile's array to the position of ours: "first", "last", or None without one."""
    if "S" not in axes:
        return data[None] if bands == "first" else data[..., None] if bands == "last" else data
    return np.moveaxis(data, axes.index("S"), {"first": 0, "last": -1}[bands])


@pytest.mark.parametrize("name", [n for n in FILES if n not in INVALID])
def test_values_are_those_of_tifffile(name, fmt):
    """Every image is mapped, or rejected with a diagnostic; type, shape and values equal those of tifffile."""
    import zarr
    run = clients.virtualize(FOLDER / name, "--format", fmt)
    assert run.status == 0, run.stderr
    references = run.references
    store, kinds, problems = clients.open_store(references), nodes(references, FORMATS[fmt]), []
    reported = {path for path, _ in run.codes}
    for index, image in expected(name).items():
        path = node_of(index)
        if kinds.get(path) != "array":
            if name not in MAY_BE_REFUSED or "/" + path not in reported:
                problems.append(f"image {index}: not mapped; diagnostics of {sorted(reported)[:4]}")
            continue
        data, axes = truth_of(name, index)
        try:
            got = zarr.open_array(store, path=path, mode="r", zarr_format=FORMATS[fmt])[...]
        except Exception as error:  # noqa: BLE001
            problems.append(f"image {index}: {type(error).__name__}: {error}")
            continue
        if name in LOSSY:
            continue
        same = [same_bits(oriented(data, axes, where), got) for where in ("first", "last")]
        if all(same):
            problems.append(f"image {index}: {same[0]}")
    report(problems)


def original(name, index="0", masked=False):
    """Opens an image of the original in rioxarray."""
    import rioxarray
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return rioxarray.open_rasterio(f"GTIFF_DIR:{int(index) + 1}:{FOLDER / name}", masked=masked, mask_and_scale=False).load()


PLAIN = [n for n in FILES if n not in LOSSY | MAY_BE_REFUSED and n not in NODATA + INVALID]


@pytest.mark.parametrize("name", PLAIN)
def test_xarray_shows_what_rioxarray_shows(name, fmt):
    """The main image: dimensions, values, and masked values."""
    ours = open_dataset(convert(FOLDER / name, fmt).references, FORMATS[fmt])
    ours["band_data"].attrs = {k: v for k, v in ours["band_data"].attrs.items() if k not in ("scale_factor", "add_offset")}
    for masked in [False] if name in MASKED_BY_GDAL else [False, True]:
        truth, got = original(name, masked=masked), decoded(ours, "band_data", masked)
        assert set(got.dims) == {"band", "y", "x"}
        got = got.transpose("band", "y", "x")
        problem = same_values(truth.values, got.values)
        assert not problem, (masked, problem)
        assert masked or got.dtype.newbyteorder("<") == truth.dtype.newbyteorder("<")


@pytest.mark.parametrize("name", GEOREFERENCED)
def test_georeferencing_is_that_of_rasterio(name, fmt):
    import rasterio, rioxarray  # noqa: F401
    references = convert(FOLDER / name, fmt).references
    import xarray as xr
    ds = xr.decode_cf(open_dataset(references, FORMATS[fmt]), decode_coords="all", mask_and_scale=False)
    with rasterio.open(FOLDER / name) as src:
        if ds.rio.crs is None and "user_defined" in name:
            assert convert(FOLDER / name, fmt).codes, "an omitted CRS is reported"
            return
        assert ds.rio.crs is not None, "no CRS"
        assert ds.rio.crs == src.crs
        assert np.allclose(ds.rio.transform(), src.transform, rtol=0, atol=1e-9)
        nodata = ds["band_data"].rio.nodata
        assert same_scalar(nodata, src.nodata), f"nodata {nodata}, expected {src.nodata}"
    truth = original(name)
    for axis in ("x", "y"):
        assert np.allclose(ds[axis].values, truth[axis].values, rtol=0, atol=1e-9), axis


def same_scalar(a, b):
    return (a is None and b is None) or (a is not None and b is not None and (a == b or (a != a and b != b)))


# ---- nodata

@pytest.mark.parametrize("name", NODATA)
def test_nodata_policy(name, fmt):
    """Each case of the matrix: fill value, sentinel and warning by rules N1 to N6 in docs/semantics.md."""
    import zarr
    run = convert(FOLDER / name, fmt)
    references = run.references
    store, kinds = clients.open_store(references), nodes(references, FORMATS[fmt])
    reported = {path for path, _ in run.codes}
    problems = []
    for index, image in expected(name).items():
        case, path = image["policy"], node_of(index)
        say = f"{case['case']} ({case['gdal_nodata']!r} {case['xml']})"
        warned = "/" + path in reported
        offered = kinds.get(path) == "array"
        if not offered:
            problems.append(f"{say}: not offered")
            continue
        if case.get("disagree", False) and not warned:
            problems.append(f"{say}: no warning of sources that disagree")
        array = zarr.open_array(store, path=path, mode="r", zarr_format=FORMATS[fmt])
        problems += [f"{say}: {p}" for p in fill_problems(case, array, FORMATS[fmt])]
        ours = open_dataset(references, FORMATS[fmt], "" if index == "0" else index)
        problems += [f"{say}: {p}" for p in sentinel_problems(case, ours)]
    report(problems)


def number(value):
    return float(value) if isinstance(value, str) else value


def fill_problems(case, array, zarr_format):
    if "value" not in case:
        fine = array.fill_value is None if zarr_format == 2 else array.fill_value == 0
        return [] if fine else [f"fill value {array.fill_value!r} without a source"]
    wanted, got = np.asarray(number(case["value"])).astype(array.dtype), np.asarray(array.fill_value)
    return [p for p in [same_values(wanted, got)] if p]


def sentinel_problems(case, ds):
    attrs = ds["band_data"].attrs
    if "value" not in case:
        return ["_FillValue without a source"] if "_FillValue" in attrs else []
    if "_FillValue" not in attrs:
        return ["no _FillValue"]
    dtype = ds["band_data"].dtype
    problem = same_values(np.asarray(number(case["value"])).astype(dtype), np.asarray(attrs["_FillValue"]).astype(dtype))
    out = [f"_FillValue {problem}"] if problem else []
    if re.search(r"^(.*)#(_FillValue|missing_value)$", "\n".join(attrs), re.M) and case["case"] == "duplicates":
        kept = sorted(k for k in attrs if "#" in k)
        if kept != ["other#_FillValue"]:
            out.append(f"per-variable duplicates left: {kept}")
    return out


@pytest.mark.parametrize("name", INVALID)
def test_nodata_that_the_type_cannot_hold_is_that_of_gdal(name, fmt):
    """Each image has a warning, unless GDAL reads an infinity; `--strict` refuses the file."""
    run = convert(FOLDER / name, fmt)
    kinds, reported = nodes(run.references, FORMATS[fmt]), dict(run.codes)
    for index, image in expected(name).items():
        case, path = image["policy"], node_of(index)
        assert kinds.get(path) == "array", case
        is_infinite = case["case"] in ("too_high", "too_low") and name.endswith(("_f4.tif", "_f8.tif"))
        assert reported.get("/" + path) in ({None} if is_infinite else {"nodata-dropped", "nodata-adjusted"}), case
        ds = open_dataset(run.references, FORMATS[fmt], "" if index == "0" else index)
        assert ("_FillValue" in ds["band_data"].attrs) == (is_infinite or reported["/" + path] == "nodata-adjusted"), case
    strict = clients.virtualize(FOLDER / name, "--format", fmt, "--strict")
    assert strict.status == 1 and strict.stdout == b""


@pytest.mark.parametrize("name", ["cog.tif", "cog_rgb.tif"])
def test_overviews_are_groups_that_multiscales_names(name, fmt):
    references = convert(FOLDER / name, fmt).references
    attrs = open_dataset(references, FORMATS[fmt]).attrs
    assert "multiscales" in attrs, sorted(attrs)
    kinds = nodes(references, FORMATS[fmt])
    for index in expected(name):
        assert kinds.get(node_of(index)) == "array"
