"""Numbers and metadata that TIFF files store as text, against GDAL and rioxarray: nodata of all kinds on all data types, masked and unmasked; scales; and
items of GDAL_METADATA with names that CF, xarray or rioxarray interpret. More of them: RANDOM_TIFFS=400."""
import os, random, warnings

import clients
import numpy as np
import pytest
from clients import FORMATS

ROUNDS = int(os.environ.get("RANDOM_TIFFS", 4)) // 4
TYPES = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64", "complex64", "complex128"]
TEXTS = ["nan", "inf", "-inf", "-1", "256", "-9999", "-32768", "65535", "65520", "65510", "-1.79e308", "1e40", "-1e40", "1e400", "0.5", "-0.5", "3.9", "255.5", "-32768.5",
         "-128.5", "-500", "-10000", "9223372036854775808", "18446744073709551616", "-9223372036854775809", "1e20", "-3.402823466e+38", "3.40282357e+38",
         "none", "abc", "12abc", "0x10", "1,5", "5 6", "-9999, -9999", "1e", "2e+", "3.", ".5", ".", "-", "+7", "--1", "n/a", "NODATA", "5nan", " 6 ", "1.5.2", "7e0", " "]


def texts(seed):
    """Returns the fixed texts, and random ones of their characters."""
    pick, found = random.Random(seed), list(TEXTS)
    for _ in range(20 * (seed + 1)):
        found.append("".join(pick.choice("0123456789+-.,eE x") for _ in range(pick.randint(1, 6))))
        found.append(str(pick.choice([-1, 1]) * pick.choice([2 ** 7, 2 ** 8, 2 ** 15, 2 ** 16, 2 ** 31, 2 ** 32, 2 ** 63, 2 ** 64]) + pick.randint(-1, 1)) + pick.choice(["", "", ".0"]))
    return [text for text in dict.fromkeys(found) if text]


def ascii_tag(code, text):
    return (code, 2, 0, text, True)


def write(path, pages):
    """Writes (array of one row, tags) as pages."""
    import tifffile
    with tifffile.TiffWriter(path) as tif:
        for data, tags in pages:
            tif.write(data.reshape(1, -1), photometric="minisblack", contiguous=False, metadata=None, extratags=tags)


def pixels_of(dtype):
    """Returns small numbers and the ends of a type."""
    data = np.arange(8).astype(dtype)
    if np.issubdtype(dtype, np.integer):
        data[6:] = np.iinfo(dtype).min, np.iinfo(dtype).max
    elif np.issubdtype(dtype, np.floating):
        data[4:] = np.inf, -np.inf, np.nan, np.finfo(dtype).min / (1e9 if dtype == "float64" else 1)  # GDAL masks half of the least one for -1.79e308, too
    return data


def page(path, index):
    return f"GTIFF_DIR:{index + 1}:{path}"


def group(index):
    return f"{index}/band_data" if index else "band_data"


def gdal_mask(path, index):
    import rasterio
    with rasterio.open(page(path, index)) as file:
        return file.read(1), file.read_masks(1) == 0


def opened(store, fmt, index):
    """Returns the stored numbers of an array, and whether xarray masks each."""
    import zarr
    array = zarr.open_array(store, path=group(index), mode="r", zarr_format=FORMATS[fmt])
    has_sentinel = array.fill_value is not None if FORMATS[fmt] == 2 else "_FillValue" in array.attrs
    data, sentinel = array[0], array.fill_value
    if FORMATS[fmt] == 3 and has_sentinel:
        from xarray.backends.zarr import FillValueCoder
        sentinel = FillValueCoder.decode(array.attrs["_FillValue"], data.dtype)
    masked = (data == sentinel) | (np.isnan(data) & np.isnan(sentinel)) if has_sentinel else np.zeros(data.shape, bool)
    return data, masked


@pytest.mark.parametrize("dtype", TYPES)
def test_texts_mean_what_they_mean_to_gdal(tmp_path, fmt, dtype):
    """Pixels that GDAL masks are masked, and no others, or a warning tells that GDAL reads another number."""
    path, made = tmp_path / "nodata.tif", texts(ROUNDS - 1)
    write(path, [(pixels_of(dtype), [ascii_tag(42113, text)]) for text in made])
    run = clients.virtualize(path, "--format", fmt)
    assert run.status == 0, run.stderr
    misread = {line.split(": ")[2] for line in run.stderr.splitlines() if "but GDAL" in line}
    problems, store = [], clients.open_store(run.references)
    for index, text in enumerate(made):
        if dtype.startswith("complex"):
            continue
        data, masked = opened(store, fmt, index)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected, mask = gdal_mask(path, index)
        problem = clients.same_values(expected, data)
        if problem or not np.array_equal(mask, masked) and f"/{group(index)}" not in misread:
            problems.append(f"{text!r}: {problem or masked}, expected {mask}")
    clients.report(problems)


def written_as(pixel, digits):
    return f"{pixel:.{digits}g}"


def near(dtype, pick):
    """Returns a nodata text that somebody may have written of a pixel, and pixels near it."""
    single = np.float32(pick.choice([-9999, -9999.9, 0.1, 1 / 3, 1e20, -1e34, 9.969209968386869e36, -3.4028234663852886e38, 3.4e38, 1.70141e38, 1e-5, -32768, pick.uniform(-1e4, 1e4), pick.gauss(0, 1) * 10.0 ** pick.randint(-30, 37)]))
    value = pick.choice([float(single), float(single), pick.uniform(-1e4, 1e4), -1.7976931348623157e308 if dtype == "float64" else 7.0])
    text = pick.choice([written_as(value, pick.randint(1, 18)), repr(value), str(single), f"{value:.{pick.randint(0, 8)}f}" if abs(value) < 1e15 else "0", f"{value:.{pick.randint(2, 20)}e}"])
    with np.errstate(over="ignore"):
        as_type, as_single = np.dtype(dtype).type, np.dtype("f4").type
        number = as_type(float(text))
        candidates = [as_type(value), number, as_type(as_single(value)), as_type(as_single(float(text))), as_type(0), as_type(1)]
        candidates += [np.nextafter(c, as_type(side)) for c in candidates[:2] for side in (np.inf, -np.inf)]
        candidates += [as_type(float(written_as(value, digits))) for digits in (6, 7, 8, 9, 15)]
        candidates += [as_type(sign * np.finfo("f4").max) for sign in (1, -1)] if dtype != "float16" else []
    return text, np.array(candidates, dtype)


def is_plausible(text, pixel, dtype):
    """Whether the text may be the pixel, written with fewer digits. A text of up to 6 digits, or that is exactly a float32, is the number itself."""
    number, digits = float(text), len("".join(c for c in text.split("e")[0] if c.isdigit()).strip("0"))
    if np.dtype(dtype).type(number) == pixel:
        return True
    with np.errstate(over="ignore"):
        return digits > 6 and np.float32(number) != number and any(float(written_as(float(pixel), n)) == float(text) for n in range(7, 18))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_pixels_near_nodata(tmp_path, fmt, dtype):
    """GDAL masks what differs in late digits. Where the text may be a rounded pixel, masks are equal, or a warning tells of it."""
    pick, path, problems, masked_by_gdal = random.Random(dtype), tmp_path / "near.tif", [], 0
    made = [near(dtype, pick) for _ in range(150 * max(ROUNDS, 1))]
    write(path, [(data, [ascii_tag(42113, text)]) for text, data in made])
    run = clients.virtualize(path, "--format", fmt)
    assert run.status == 0, run.stderr
    reported, store = {path for path, _ in run.codes}, clients.open_store(run.references)
    for index, (text, pixels) in enumerate(made):
        data, masked = opened(store, fmt, index)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected, mask = gdal_mask(path, index)
        assert clients.same_values(expected, data) is None
        masked_by_gdal += mask.sum()
        wrong = [pixel for pixel, ours, theirs in zip(pixels, masked.ravel(), mask.ravel()) if ours != theirs and (ours or is_plausible(text, pixel, dtype))]
        if wrong and f"/{group(index)}" not in reported:
            problems.append(f"{text!r} of {dtype}: {wrong} are masked differently, sentinel {data[masked][:1]}")
    assert masked_by_gdal > len(made) / 3
    assert len(reported) < len(made) * 0.8, "hardly any text is free of a warning"
    clients.report(problems)


@pytest.mark.parametrize("dtype, text, fill", [("uint8", "300", 255), ("uint8", "-1", 0), ("uint8", "3.9", 4), ("int16", "-2.5", -3), ("float16", "-32767", -32768), ("int64", "1e2", 1), ("float32", "-nan", 0)])
def test_missing_tiles_are_those_of_gdal(tmp_path, fmt, dtype, text, fill):
    """Tiles that the file does not have; Zarr v2 refuses what it cannot express."""
    import rasterio, tifffile
    path = tmp_path / "sparse.tif"
    data = np.ones((32, 16), dtype)
    tifffile.imwrite(path, data, tile=(16, 16), photometric="minisblack", metadata=None, extratags=[ascii_tag(42113, text)])
    raw = bytearray(path.read_bytes())
    with tifffile.TiffFile(path) as tif:
        for name in ("TileOffsets", "TileByteCounts"):
            tag = tif.pages[0].tags[name]
            size = tag.valuebytecount // 2
            raw[tag.valueoffset + size:tag.valueoffset + 2 * size] = bytes(size)
    path.write_bytes(raw)
    with rasterio.open(path) as file:
        expected, mask = file.read(1), file.read_masks(1) == 0
    assert expected[-1, 0] == fill
    run = clients.virtualize(path, "--format", fmt)
    if run.status:
        assert fmt == "kerchunk-json" and "missing tiles" in run.stderr, run.stderr
        return
    store = clients.open_store(run.references)
    data, masked = opened(store, fmt, 0)
    assert clients.same_values(expected, data) is None
    assert np.array_equal(mask, masked) or "but GDAL" in run.stderr


def metadata(*items):
    body = "".join(f'<Item name="{name}"{more}>{value}</Item>' for name, more, value in items)
    return f"<GDALMetadata>{body}</GDALMetadata>"


def test_scales_are_those_of_gdal(tmp_path, fmt):
    import rasterio
    path, pick = tmp_path / "scales.tif", random.Random(5)
    made = [(text, pick.choice(["", "0,5", "2 m"])) for text in ["0,01", "0.01 m", "1/3", *texts(ROUNDS)]]
    roles = [[item for item in [("SCALE", ' sample="0" role="scale"', scale), ("OFFSET", ' sample="0" role="offset"', offset)] if item[2].strip()] for scale, offset in made]
    write(path, [(np.arange(4, dtype="u1"), [ascii_tag(42112, metadata(*items))]) for items in roles])
    run = clients.virtualize(path, "--format", fmt)
    assert run.status == 0, run.stderr
    reported, problems = {path for path, _ in run.codes}, []
    for index, texts_of in enumerate(made):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with rasterio.open(page(path, index)) as file:
                expected = file.scales[0], file.offsets[0]
        attrs = clients.open_dataset(run.references, FORMATS[fmt], str(index) if index else "")["band_data"].attrs
        got = attrs.get("scale_factor", 1.0), attrs.get("add_offset", 0.0)
        if not np.isfinite(expected).all():
            problems += [] if f"/{group(index)}" in reported else [f"{texts_of}: no warning of {expected}"]
        elif got != expected:
            problems.append(f"{texts_of}: {got}, expected {expected}")
    clients.report(problems)


NAMES = ["units", "scale_factor", "add_offset", "_FillValue", "missing_value", "fill_value", "nodata", "valid_min", "valid_max", "valid_range", "actual_range", "flag_values", "flag_meanings",
         "flag_masks", "calendar", "coordinates", "bounds", "grid_mapping", "ancillary_variables", "cell_measures", "formula_terms", "_Unsigned", "dtype", "_Encoding", "_ARRAY_DIMENSIONS",
         "_NCZARR_ARRAY", "zarr_conventions", "spatial:transform", "proj:code", "crs", "transform", "scales", "offsets", "standard_name", "axis", "positive", "compress", "units_metadata", "long_name"]
VALUES = ["days", "seconds", "days since 2000-01-01", "hours since 1970-01-01 00:00", "5", "0", "3", "-1", "0.5", "true", "false", "bool", "timedelta64[ns]", "x", "band", "x y", "spatial_ref", "area: x",
          "1, 2", "{1,2}", "[]", "utf-8", "noleap", "none", "EPSG:4326", "x: y", "time", "m", "{&quot;a&quot;: 1}"]


@pytest.mark.parametrize("bands", [1, 2])
def test_metadata_does_not_change_pixels(tmp_path, fmt, bands):
    """Random items, units and nodata: pixels are those of rioxarray, or a warning names the item."""
    import pyproj, rasterio, rioxarray, tifffile, xarray as xr
    pick, path, problems, compared = random.Random(7 + bands), tmp_path / "items.tif", [], 0
    pages = 40 * max(ROUNDS, 1)
    made = []
    with tifffile.TiffWriter(path) as tif:
        for _ in range(pages):
            dtype = pick.choice(["u1", "i2", "i4", "f4", "f2", "f8", "i1"])
            items = [(pick.choice(NAMES), pick.choice(["", ' sample="0"', ' sample="1"', ' domain="units"']), pick.choice(VALUES)) for _ in range(pick.randint(0, 4))]
            items += [("UNITTYPE", f' sample="{band}" role="unittype"', pick.choice(VALUES)) for band in range(bands) if pick.random() < .6]
            items += [("SCALE", f' sample="{band}" role="scale"', "0.25") for band in range(bands) if pick.random() < .9] if pick.random() < .3 else []
            tags = [ascii_tag(42112, metadata(*items))] + ([ascii_tag(42113, pick.choice(["5", "0", "7"]))] if pick.random() < .6 else [])
            data = np.arange(8 * bands).reshape(bands, 2, 4).astype(dtype)
            tif.write(data, photometric="minisblack", planarconfig="separate" if bands > 1 else None, contiguous=False, metadata=None, extratags=tags)
            made.append((dtype, items, tags[1:]))
    run = clients.virtualize(path, "--format", fmt)
    assert run.status == 0, run.stderr
    reported = {line.split(": ")[2] for line in run.stderr.splitlines() if line.startswith("warning")}
    store = clients.open_store(run.references)
    for index, what in enumerate(made):
        if f"/{group(index)}" in reported:
            continue
        compared += 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                truth = rioxarray.open_rasterio(page(path, index), mask_and_scale=True)
            except pyproj.exceptions.CRSError:
                continue  # rioxarray takes the item crs for a CRS
            try:
                ds = xr.open_dataset(store, engine="zarr", group=str(index) if index else None, consolidated=False, zarr_format=FORMATS[fmt], chunks=None,
                                     decode_coords=pick.choice([True, "all"]), decode_timedelta=pick.choice([None, True]))
                got = ds.data_vars["band_data"].transpose("band", ...).values
            except Exception as error:  # noqa: BLE001
                problems.append(f"{what}: {type(error).__name__}: {error}")
                continue
            with rasterio.open(page(path, index)) as file:
                scales = file.scales
        expected = truth.values
        if len(set(scales)) > 1:
            expected = rioxarray.open_rasterio(page(path, index), masked=True).values  # scales that differ are not applied: rule B5
        if got.dtype.kind not in "uif" or not np.array_equal(expected.astype("f8"), got.astype("f8"), equal_nan=True):
            problems.append(f"{what}: {got.dtype} {got.ravel()[:8]}, expected {expected.ravel()[:8]}")
    assert compared > pages / 3
    clients.report(problems)


def test_half_precision_is_scaled_in_single_precision(tmp_path):
    """float16 with a scale: attributes and codecs calculate with at least 32 bits, and -32767 masks nothing."""
    import tifffile, xarray as xr
    path, data = tmp_path / "half.tif", np.array([[-32768, 0.1, 1000, 2047]], "f2")
    tags = [ascii_tag(42112, metadata(("SCALE", ' sample="0" role="scale"', "0.01"), ("OFFSET", ' sample="0" role="offset"', "273.15"))), ascii_tag(42113, "-32767")]
    tifffile.imwrite(path, data, photometric="minisblack", metadata=None, extratags=tags)
    expected = data.astype("f8") * 0.01 + 273.15
    for options in (["kerchunk-json"], ["zarr3-json"], ["zarr3-json", "--unpack"]):
        run = clients.virtualize(path, "--format", *options)
        assert run.status == 0 and [code for _, code in run.codes] == ["nodata-dropped"], run.stderr
        ds = xr.open_dataset(clients.open_store(run.references), engine="zarr", consolidated=False, zarr_format=FORMATS[options[0]], chunks=None)
        got = ds["band_data"].values.reshape(expected.shape)
        assert got.dtype in ("f4", "f8") and np.allclose(got, expected, rtol=1e-6, atol=0), (options, got)


def test_overviews_are_unpacked_like_the_image(tmp_path):
    """A COG by GDAL declares scale, offset and unit in its first directory only."""
    import rasterio, xarray as xr
    from rasterio.shutil import copy
    plain, path = tmp_path / "plain.tif", tmp_path / "cog.tif"
    data = (np.arange(512 * 512) % 1000).astype("uint16").reshape(512, 512)
    with rasterio.open(plain, "w", driver="GTiff", width=512, height=512, count=1, dtype="uint16", nodata=7) as file:
        file.write(data, 1)
        file.scales, file.offsets, file.units = (0.01,), (5,), ("m",)
    copy(plain, path, driver="COG", blocksize=128, overview_resampling="nearest")
    with rasterio.open(path, overview_level=0) as file:
        stored = file.read(1)
    expected = np.where(stored == 7, np.nan, stored * 0.01 + 5)
    for options in (["kerchunk-json"], ["zarr3-json"], ["zarr3-json", "--unpack"]):
        run = clients.virtualize(path, "--format", *options)
        ds = xr.open_dataset(clients.open_store(run.references), engine="zarr", group="1", consolidated=False, zarr_format=FORMATS[options[0]], chunks=None)
        assert np.allclose(ds["band_data"].values.squeeze(), expected, rtol=1e-6, atol=0, equal_nan=True), options
        assert ds["band_data"].attrs["units"] == "m"


def test_nodata_values_of_all_bands_are_reported(tmp_path, fmt):
    """GDAL masks pixels in which each band has its value; an array has no such mask."""
    import rasterio
    path = tmp_path / "a.tif"
    with rasterio.open(path, "w", driver="GTiff", width=5, height=4, count=3, dtype="uint8", photometric="RGB") as file:
        file.write(np.arange(60, dtype="u1").reshape(3, 4, 5) % 7)
        file.update_tags(NODATA_VALUES="0 1 2")
    run = clients.convert(path, fmt)
    assert ("/band_data", "attribute-omitted") in run.codes and "NODATA_VALUES" in run.stderr


def test_scales_of_complex_numbers_are_not_those_of_xarray(tmp_path, fmt):
    """xarray drops imaginary parts when it applies scale_factor."""
    import rasterio
    path = tmp_path / "a.tif"
    data = (np.arange(12) + 1j * np.arange(12)).reshape(1, 3, 4).astype("c8")
    with rasterio.open(path, "w", driver="GTiff", width=4, height=3, count=1, dtype="complex64") as file:
        file.write(data)
        file.scales = [0.5]
    ds = clients.open_dataset(clients.convert(path, fmt).references, FORMATS[fmt])
    got = clients.decoded(ds, "band_data", True)
    assert got.attrs["scales"] == 0.5
    np.testing.assert_array_equal(got.values.squeeze(), data[0])
