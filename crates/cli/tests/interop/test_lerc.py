"""LERC chunks of floating-point numbers that GDAL writes: NaN is a mask there, which Zarr readers do not see."""
import itertools

import clients
import numpy as np
import pytest
from clients import FORMATS

SIZE = 53, 71
KINDS = ["plain", "nan", "band by band", "all", "whole tiles", "constant", "steps"]
CASES = list(itertools.product(["float32", "float64"], [1, 3], KINDS, ["pixel", "band"], [0, 0.01]))


def image(kind, bands, dtype):
    """Bands with NaN in the places that the kind names."""
    rng, (y, x) = np.random.default_rng(1), np.mgrid[: SIZE[0], : SIZE[1]]
    smooth = np.sin(x / 9) * 40 + np.cos(y / 7) * 30
    data = np.stack([smooth + band + rng.normal(size=SIZE) / 2 for band in range(bands)]).astype(dtype)
    match kind:
        case "steps":
            data = np.round(data / 20) * 20
            data[:, 10:30, 20:50] = np.nan
        case "nan":
            data[:, 10:30, 20:50] = np.nan
            data[:, rng.random(SIZE) < 0.02] = np.nan
        case "band by band":
            for band in range(bands):
                data[band, 5 * band: 5 * band + 12, 8:30] = np.nan
        case "all":
            data[:] = np.nan
        case "whole tiles":
            data[:, :32, :32] = np.nan
        case "constant":
            data[:] = 3.5
            data[:, 3:9] = np.nan
    return data


def write(path, data, **options):
    import rasterio
    count, height, width = data.shape
    options = {"compress": "LERC", **options}
    with rasterio.open(path, "w", driver="GTiff", width=width, height=height, count=count, dtype=data.dtype, tiled=True,
                       blockxsize=32, blockysize=32, **options) as file:
        file.write(data)
    with rasterio.open(path) as file:
        return file.read()


def show(run, fmt, bands):
    import zarr
    array = zarr.open_array(clients.open_store(run.references), path="band_data", mode="r", zarr_format=FORMATS[fmt])
    data = array[...]
    return data if data.shape == (bands, *SIZE) else np.moveaxis(data, -1, 0)


@pytest.mark.parametrize("compress", ["LERC", "LERC_DEFLATE", "LERC_ZSTD"])
def test_masked_pixels_are_nan(tmp_path, fmt, compress):
    """Every kind of mask, one sample and several, with errors and without: what GDAL reads."""
    problems = []
    for case in CASES:
        dtype, bands, kind, interleave, error = case
        path = tmp_path / "lerc.tif"
        truth = write(path, image(kind, bands, dtype), compress=compress, interleave=interleave, max_z_error=error)
        run = clients.virtualize(path, "--format", fmt)
        if run.status or run.stderr:
            problems.append(f"{case}: {run.stderr}")
        elif problem := clients.same_values(truth, show(run, fmt, bands)):
            problems.append(f"{case}: {problem}")
    clients.report(problems)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint16", "int32"])
def test_integers_are_referenced(tmp_path, fmt, dtype):
    """They have no NaN; nothing is inlined."""
    data = (image("plain", 3, "float64") + 100).clip(0, 255).astype(dtype)
    for interleave in ("pixel", "band"):
        truth = write(tmp_path / "lerc.tif", data, interleave=interleave)
        run = clients.virtualize(tmp_path / "lerc.tif", "--format", fmt)
        assert run.status == 0 and not run.stderr
        assert clients.same_values(truth, show(run, fmt, 3)) is None


def test_only_masked_chunks_are_inlined(tmp_path, fmt):
    """Not those that GDAL fills with NaN beyond the image's edge."""
    data = image("plain", 1, "float32")
    data[0, 40, 40] = np.nan
    write(tmp_path / "lerc.tif", data)
    run = clients.virtualize(tmp_path / "lerc.tif", "--format", fmt)
    chunks = {k: v for k, v in run.references["refs"].items() if k.startswith("band_data/") and "zarr" not in k and "/.z" not in k}
    assert len(chunks) == 6 and sum(isinstance(v, str) for v in chunks.values()) == 1


def test_masks_beyond_the_inline_limit_are_refused(tmp_path, fmt):
    write(tmp_path / "lerc.tif", image("nan", 1, "float32"))
    run = clients.virtualize(tmp_path / "lerc.tif", "--format", fmt, "--inline-limit", "3000")
    assert run.status == 1 and run.stdout == b"" and ("/band_data", "inline-limit") in run.codes


def test_a_damaged_blob_is_refused(tmp_path, fmt):
    """Its checksum tells; nothing is shown in part."""
    write(tmp_path / "lerc.tif", image("nan", 1, "float32"))
    bytes_ = bytearray((tmp_path / "lerc.tif").read_bytes())
    first = bytes_.index(b"Lerc2 ")
    bytes_[first + 120] ^= 0x10
    (tmp_path / "lerc.tif").write_bytes(bytes_)
    run = clients.virtualize(tmp_path / "lerc.tif", "--format", fmt)
    assert run.status == 1 and run.stdout == b""
