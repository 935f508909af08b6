"""A shorter last strip with image codecs, which readers expect at full height: completed, or rejected with advice that works."""
import itertools, random

import clients
import numpy as np
import pytest
from clients import FORMATS

CODECS = {"png": {}, "jpeg2000": {}, "jpeg2000 lossy": {"level": 40}, "webp": {}, "webp lossy": {"lossless": False, "level": 50}, "lerc": {}}


def write(path, codec, dtype, bands, rows, byteorder="<", arguments=None):
    import tifffile
    rng = np.random.default_rng(rows)
    data = rng.integers(0, 256, (37, 45, bands)).astype(dtype)
    data[9:] = 40
    more = {"photometric": "rgb" if bands > 2 else "minisblack", **({"extrasamples": [2]} if bands == 4 else {})}
    tifffile.imwrite(path, data[..., 0] if bands == 1 else data, compression=codec, compressionargs=arguments, rowsperstrip=rows, byteorder=byteorder, **more)
    return tifffile.imread(path).reshape(data.shape)


def show(run, fmt, bands):
    import zarr
    data = zarr.open_array(clients.open_store(run.references), path="band_data", mode="r", zarr_format=FORMATS[fmt])[...]
    return data if fmt == "kerchunk-json" and bands > 1 else np.moveaxis(data, 0, -1)


@pytest.mark.parametrize("codec", CODECS)
def test_a_short_strip_is_completed(tmp_path, fmt, codec):
    problems = []
    for dtype, bands, rows in itertools.product(["uint8", "uint16"], [1, 3, 4], [16, 5, 36]):
        if codec.startswith("webp") and (dtype != "uint8" or bands == 1):
            continue
        truth = write(tmp_path / "strips.tif", codec.split()[0], dtype, bands, rows, arguments=CODECS[codec])
        run = clients.virtualize(tmp_path / "strips.tif", "--format", fmt)
        problem = run.stderr or clients.same_values(truth, show(run, fmt, bands))
        problems += [f"{dtype} {bands} {rows}: {problem}"] if problem else []
    clients.report(problems)


@pytest.mark.parametrize("codec", ["jpegxl", "jpegxr", "lerc", "webp", "png", "jpeg2000"])
def test_a_rectilinear_grid_refers_to_it_as_it_is(tmp_path, codec):
    """As the remedy for JPEG XL and JPEG XR recommends."""
    import zarr
    truth = write(tmp_path / "strips.tif", codec, "uint8", 3, 16)
    if codec.startswith("jpegx"):
        refused = clients.virtualize(tmp_path / "strips.tif", "--format", "zarr3-json")
        assert refused.status == 1 and "5 of 16 rows" in refused.stderr and "--chunk-grid rectilinear" in refused.stderr
    run = clients.virtualize(tmp_path / "strips.tif", "--format", "zarr3-json", "--chunk-grid", "rectilinear")
    assert run.status == 0, run.stderr
    with zarr.config.set({"array.rectilinear_chunks": True}):
        assert clients.same_values(truth, show(run, "zarr3-json", 3)) is None


def test_float_lerc_with_a_rectilinear_grid(tmp_path):
    """Strips with NaN are encoded again at their own heights."""
    import rasterio, zarr
    data = np.random.default_rng(2).normal(size=(2, 37, 45)).astype("float32")
    data[:, 3, 4] = data[0, 35, 7] = np.nan
    for interleave in ("pixel", "band"):
        with rasterio.open(tmp_path / "l.tif", "w", driver="GTiff", width=45, height=37, count=2, dtype="float32", compress="LERC", blockysize=16, interleave=interleave) as file:
            file.write(data)
        run = clients.virtualize(tmp_path / "l.tif", "--format", "zarr3-json", "--chunk-grid", "rectilinear")
        assert run.status == 0 and not run.stderr, run.stderr
        with zarr.config.set({"array.rectilinear_chunks": True}):
            assert clients.same_values(np.moveaxis(data, 0, -1), show(run, "zarr3-json", 2)) is None


@pytest.mark.parametrize("kind", ["minisblack", "rgb"])
def test_jpeg_of_other_colours_than_ycbcr_is_exact_or_refused(tmp_path, fmt, kind):
    """libtiff rejects such files if chroma is subsampled; tifffile converts their colours."""
    import rasterio, tifffile
    data = np.random.default_rng(0).integers(0, 255, (32, 32, 3)).astype("u1")
    if kind == "minisblack":
        tifffile.imwrite(tmp_path / "j.tif", data, photometric="minisblack", planarconfig="contig", compression="jpeg")
        run = clients.virtualize(tmp_path / "j.tif", "--format", fmt)
        assert run.status == 1 and run.stdout == b"" and ("/band_data", "tiff-jpeg") in run.codes
        return
    with rasterio.open(tmp_path / "j.tif", "w", driver="GTiff", width=32, height=32, count=3, dtype="uint8", compress="JPEG", photometric="RGB", interleave="pixel", blockysize=16) as file:
        file.write(np.moveaxis(data, -1, 0))
    with rasterio.open(tmp_path / "j.tif") as file:
        truth = np.moveaxis(file.read(), 0, -1)
    run = clients.virtualize(tmp_path / "j.tif", "--format", fmt)
    assert run.status == 0 and not run.stderr
    assert clients.same_values(truth, show(run, fmt, 3)) is None


@pytest.mark.parametrize("seed", clients.seeds("RANDOM_TIFFS", 4, 4))
def test_jpeg_whose_last_row_depends_on_further_chroma(tmp_path, fmt, seed):
    """GDAL's YCbCr has half as many rows of chroma. If the last strip has an even number of rows, all strips are decoded here."""
    import rasterio
    pick, rng, problems, path = random.Random(seed), np.random.default_rng(seed), [], tmp_path / "j.tif"
    for _ in range(6):
        width, height, quality = pick.choice([1, 2, 3, 4, 5, 17, 40]), pick.randint(17, 60), pick.choice([5, 75, 100])
        data = np.clip(np.cumsum(rng.normal(0, 9, (3, height, width)), axis=pick.choice([1, 2])) + 128, 0, 255).astype("u1")
        path.unlink(missing_ok=True)
        with rasterio.open(path, "w", driver="GTiff", width=width, height=height, count=3, dtype="uint8", compress="JPEG", photometric="YCBCR", interleave="pixel", blockysize=16, jpeg_quality=quality) as file:
            file.write(data)
        with rasterio.open(path) as file:
            truth = np.moveaxis(file.read(), 0, -1)
        run = clients.virtualize(path, "--format", fmt)
        problem = run.stderr if run.status else clients.same_values(truth, show(run, fmt, 3))
        problems += [f"{height} x {width}, quality {quality}: {problem}"] if problem else []
    clients.report(problems)
