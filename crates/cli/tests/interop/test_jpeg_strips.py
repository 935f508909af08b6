"""JPEG images with a shorter last strip: it is extended to the height of the others, and its own rows equal those of libtiff."""
import clients
import numpy as np
import pytest
import rasterio
import tifffile
from clients import FORMATS

WIDTH = 53


def write(path, height, rows, photometric, **options):
    rng = np.random.default_rng(height)
    data = np.cumsum(rng.integers(-9, 10, (3, height, WIDTH)), axis=1).clip(-100, 100) + 120
    bands = 1 if photometric == "MINISBLACK" else 3
    with rasterio.open(path, "w", driver="GTiff", width=WIDTH, height=height, count=bands, dtype="uint8", compress="JPEG",
                       photometric=photometric, blockysize=rows, **options) as file:
        file.write(data[:bands].astype("u1"))
    with rasterio.open(path) as file:
        return file.read()


def show(run, fmt, shape):
    import zarr
    array = zarr.open_array(clients.open_store(run.references), path="band_data", mode="r", zarr_format=FORMATS[fmt])
    data = array[...]
    return data if data.shape == shape else np.moveaxis(data, -1, 0)


@pytest.mark.parametrize("photometric", ["RGB", "MINISBLACK", "YCBCR"])
@pytest.mark.parametrize("rows", [16, 48])
def test_each_height(tmp_path, fmt, photometric, rows):
    """Equal to GDAL and tifffile to the last bit. If chroma is subsampled after an even number of rows, all strips are decoded and inlined, within limits."""
    clients.register_codecs()
    problems, path = [], tmp_path / "strips.tif"
    for rest in range(1, rows, 1 if rows == 16 else 5):
        truth = write(path, rows + rest, rows, photometric)
        run = clients.virtualize(path, "--format", fmt)
        if photometric == "YCBCR" and rest % 2 == 0:
            refused = clients.virtualize(path, "--format", fmt, "--option", "inline-limit=2000")
            if refused.status != 1 or "[inline-limit]" not in refused.stderr:
                problems.append(f"{rest}: {refused.stderr}")
        if run.status or run.stderr:
            problems.append(f"{rest}: {run.stderr}")
            continue
        got = show(run, fmt, truth.shape)
        page = np.moveaxis(np.atleast_3d(tifffile.imread(path)), -1, 0)
        if not (np.array_equal(got, truth) and np.array_equal(got, page)):
            problems.append(f"{rest}: {(got != truth).sum()} samples differ")
    clients.report(problems)


def test_planes(tmp_path, fmt):
    clients.register_codecs()
    truth = write(tmp_path / "planes.tif", 40, 16, "RGB", interleave="band")
    run = clients.virtualize(tmp_path / "planes.tif", "--format", fmt)
    assert np.array_equal(show(run, fmt, truth.shape), truth)
