"""Nodata texts of all kinds on all data types: what `--invalid-nodata gdal` shows, masked and unmasked, against rioxarray. More of them: RANDOM_TIFFS=400."""
import os, random, warnings

import clients
import numpy as np
import pytest
from clients import FORMATS

TYPES = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64", "complex64", "complex128"]
TEXTS = ["nan", "inf", "-inf", "-1", "256", "-9999", "-32768", "65535", "65520", "65510", "-1.79e308", "1e40", "-1e40", "1e400", "0.5", "-0.5", "3.9", "255.5", "-32768.5",
         "9223372036854775808", "18446744073709551616", "-9223372036854775809", "1e20", "-3.402823466e+38", "3.40282357e+38",
         "none", "abc", "12abc", "0x10", "1,5", "5 6", "-9999, -9999", "1e", "2e+", "3.", ".5", ".", "-", "+7", "--1", "n/a", "NODATA", "5nan", " 6 ", "1.5.2", "7e0"]


def texts(seed):
    """Returns the fixed texts, and random ones of their characters."""
    pick, found = random.Random(seed), list(TEXTS)
    for _ in range(20 * (seed + 1)):
        found.append("".join(pick.choice("0123456789+-.,eE x") for _ in range(pick.randint(1, 6))))
        found.append(str(pick.choice([-1, 1]) * pick.choice([2 ** 7, 2 ** 8, 2 ** 15, 2 ** 16, 2 ** 31, 2 ** 32, 2 ** 63, 2 ** 64]) + pick.randint(-1, 1)) + pick.choice(["", "", ".0"]))
    return [text for text in dict.fromkeys(found) if text.strip()]


def write(path, dtype, seed):
    """Writes a page for each text, which hold small numbers and the ends of the type."""
    import tifffile
    data = np.arange(8).astype(dtype)
    if np.issubdtype(dtype, np.integer):
        data[6:] = np.iinfo(dtype).min, np.iinfo(dtype).max
    elif np.issubdtype(dtype, np.floating):
        data[4:] = np.inf, -np.inf, np.nan, np.finfo(dtype).min / (1e9 if dtype == "float64" else 1)  # GDAL masks half of the least one for -1.79e308, too
    made = texts(seed)
    with tifffile.TiffWriter(path) as tif:
        for text in made:
            tif.write(data.reshape(1, 8), photometric="minisblack", contiguous=False, metadata=None, extratags=[(42113, 2, 0, text, True)])
    return made


def rasters(path, index):
    """Returns the nodata value and the masked values of rioxarray. 64-bit integers: the mask of GDAL, as rasterio's nodata value is a float."""
    import rasterio, rioxarray
    name = f"GTIFF_DIR:{index + 1}:{path}"
    with rasterio.open(name) as file:
        data, valid = file.read(1), file.read_masks(1)
    if data.dtype.kind in "iu" and data.dtype.itemsize == 8:
        return "unknown", np.where(valid == 0, np.nan, data.astype("f8"))
    with rioxarray.open_rasterio(name, masked=True) as masked, rioxarray.open_rasterio(name) as plain:
        return plain.attrs.get("_FillValue"), masked.values[0]


def masked(array):
    """Returns the sentinel of an array, and its values as xarray masks them."""
    has_sentinel = array.fill_value is not None if array.metadata.zarr_format == 2 else "_FillValue" in array.attrs
    sentinel, data = array.fill_value if has_sentinel else None, array[0]
    wide = data.astype("f8") if data.dtype.kind in "iu" else data
    return sentinel, np.where(data == sentinel, np.nan, wide) if has_sentinel and data.dtype.kind != "c" else wide


def is_whole(text):
    try:
        return float(text).is_integer()
    except ValueError:
        return False


@pytest.mark.parametrize("dtype", TYPES)
def test_texts_mean_what_they_mean_to_gdal(tmp_path, fmt, dtype):
    import zarr
    path = tmp_path / "nodata.tif"
    made = write(path, dtype, int(os.environ.get("RANDOM_TIFFS", 4)) // 4 - 1)
    run = clients.virtualize(path, "--format", fmt, "--invalid-nodata", "gdal")
    assert run.status == 0, run.stderr
    problems, store = [], clients.open_store(run.references)
    for index, text in enumerate(made):
        if dtype in ("uint64", "int64") and is_whole(text) and not text.strip().lstrip("+-").isdigit():
            continue  # 4e4 is 40000 here, and 4 in GDAL
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            nodata, expected = rasters(path, index)
            sentinel, got = masked(zarr.open_array(store, path=f"{index}/band_data" if index else "band_data", mode="r", zarr_format=FORMATS[fmt]))
        problem = clients.same_values(expected.astype(got.dtype), got) if got.dtype.kind != "c" else None
        if isinstance(nodata, str) or nodata is None and sentinel is None:
            pass
        elif nodata is None or sentinel is None or clients.same_values(np.array(nodata), np.array(sentinel)):
            problem = problem or f"sentinel {sentinel!r}, expected {nodata!r}"
        problems += [f"{text!r}: {problem}"] if problem else []
    clients.report(problems)
