"""Complex integers of 2 × 16 and 2 × 32 bits, as complex numbers and as structures, compared with GDAL. More of them: RANDOM_TIFFS=400."""
import random, re, warnings

import clients
import numpy as np
import pytest
from clients import FORMATS

SEEDS = clients.seeds("RANDOM_TIFFS", 4, 4)
EACH = 8


def values(rng, bits, shape):
    """Returns pairs of integers, with the ends of the type."""
    top = 2 ** (bits // 2 - 1)
    data = rng.integers(-top, top, (*shape, 2))
    data.reshape(-1)[:4] = [-top, top - 1, 0, -1]
    return data.astype("i2" if bits == 32 else "i4")


def write(path, seed):
    """Writes integers as unsigned ones, and changes SampleFormat; libtiff has no other way for 2 × 32 bits. Predictor 2 and tiles by GDAL itself."""
    import rasterio
    pick, rng = random.Random(seed), np.random.default_rng(seed)
    bits, order = pick.choice([32, 32, 64]), pick.choice("<>")
    compress, count = pick.choice([None, "LZW", "DEFLATE", "ZSTD", "LZMA", "PACKBITS"]), pick.choice([1, 1, 2, 3])
    made = {"count": count, "width": pick.randint(1, 60), "height": pick.randint(1, 60), "interleave": pick.choice(["pixel", "band"]), "endianness": "LITTLE" if order == "<" else "BIG"}
    if compress:
        made["compress"] = compress
    if compress in ("LZW", "DEFLATE", "ZSTD") and order == "<" and pick.random() < .4:
        made["predictor"] = 2
    if pick.random() < .5:
        made |= {"tiled": True, "blockxsize": 16, "blockysize": pick.choice([16, 32])}
    else:
        made["blockysize"] = pick.choice([1, 5, 16, 64])
    if pick.random() < .3:
        made |= {"sparse_ok": True, "nodata": pick.choice([0, 7])}
    pairs = values(rng, bits, (count, made["height"], made["width"]))
    if made.get("sparse_ok"):
        pairs[:, : made["height"] // 2] = made["nodata"], 0
    with rasterio.open(path, "w", driver="GTiff", dtype="uint32" if bits == 32 else "uint64", **{"bigtiff": "NO", **made}) as file:
        # GDAL exchanges the bytes of whole numbers, so that the first part comes first in the file.
        number = pairs.astype(order + pairs.dtype.str[1:]).view(f"{order}u{bits // 8}")[..., 0]
        file.write(number.astype(f"=u{bits // 8}"))
    with __import__("tifffile").TiffFile(path, mode="r+") as tif:
        tif.pages[0].tags["SampleFormat"].overwrite([5] * count)
    return {"bits": bits, **made}, pairs[..., 0] + 1j * pairs[..., 1].astype("c16")


def truth(path):
    import rasterio
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with rasterio.open(path) as file:
            return file.read()


def read(path, fmt, *options):
    import zarr
    run = clients.virtualize(path, "--format", fmt, *options)
    if run.status:
        return run.stderr
    array = zarr.open_array(clients.open_store(run.references), path="band_data", mode="r", zarr_format=FORMATS[fmt])
    data = array[...]
    if data.dtype.names:
        assert data.dtype.names == ("r", "i") and data.dtype["r"].kind == "i"
        data = data["r"] + 1j * data["i"].astype("c16")
    return np.moveaxis(data, -1, 0) if FORMATS[fmt] == 2 and data.shape[-1] > 1 and array.attrs["_ARRAY_DIMENSIONS"][-1] == "band" else data


NOT_IN_V2 = re.compile(r"missing tiles that GDAL reads as another value than nodata")


@pytest.mark.parametrize("option", ["complex", "structure"])
@pytest.mark.parametrize("seed", SEEDS)
def test_complex_integers_are_those_of_gdal(tmp_path, fmt, seed, option):
    problems, path = [], tmp_path / "c.tif"
    for number in range(EACH):
        path.unlink(missing_ok=True)
        made, expected = write(path, seed * EACH + number)
        assert clients.same_values(expected.astype("c8"), truth(path)) is None, "GDAL reads as complex64"
        got = read(path, fmt, "--option", f"complex-integers={option}")
        if isinstance(got, str):
            problems += [] if NOT_IN_V2.search(got) and made.get("nodata") else [f"{made}: {got}"]
        elif clients.same_values(expected, got.astype("c16")):
            problems.append(f"{made}: {got.ravel()[:4]}, expected {expected.ravel()[:4]}")
    clients.report(problems)


def large(path):
    """Writes 20 MB by GDAL, more than is inlined."""
    import rasterio
    data = (np.arange(2200 * 2300, dtype="f4").reshape(1, 2200, 2300) % 3000 - 1j * 7).astype("c8")
    with rasterio.open(path, "w", driver="GTiff", width=2300, height=2200, count=1, dtype="complex_int16", blockysize=100) as file:
        file.write(data)
    return data


def test_large_scenes_are_references(tmp_path, fmt):
    """Structures in both formats, complex numbers in v2; xarray computes the complex numbers of structures."""
    import xarray as xr
    data = large(tmp_path / "slc.tif")
    run = clients.virtualize(tmp_path / "slc.tif", "--format", fmt)
    if FORMATS[fmt] == 2:
        assert len(run.stdout) < 20_000
        assert (clients.open_dataset(run.references, 2)["band_data"].values == data).all()
    else:
        assert run.status == 1 and "--option complex-integers=structure" in run.stderr
    run = clients.virtualize(tmp_path / "slc.tif", "--format", fmt, "--option", "complex-integers=structure")
    assert len(run.stdout) < 20_000
    array = clients.open_dataset(run.references, FORMATS[fmt])["band_data"]
    assert (xr.apply_ufunc(lambda pair: pair["r"] + 1j * pair["i"], array).values == data).all()
