"""LERC chunks of floating-point numbers by GDAL, which stores NaN as a mask that Zarr readers ignore."""
import itertools

import clients
import numpy as np
import pytest
from clients import FORMATS

SIZE = 53, 71
KINDS = ["plain", "nan", "band by band", "all", "whole tiles", "constant", "steps"]
CASES = list(itertools.product(["float32", "float64"], [1, 3], KINDS, ["pixel", "band"], [0, 0.01]))


def image(kind, bands, dtype):
    """Returns bands with NaN in the pattern that the kind names."""
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
    """Every kind of mask, one sample and several, lossy and lossless: equal to GDAL."""
    problems = []
    for case in CASES:
        dtype, bands, kind, interleave, error = case
        if compress != "LERC" and (interleave, error) != ("pixel", 0):
            continue
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
    """Integers have no NaN; nothing is inlined."""
    data = (image("plain", 3, "float64") + 100).clip(0, 255).astype(dtype)
    for interleave in ("pixel", "band"):
        truth = write(tmp_path / "lerc.tif", data, interleave=interleave)
        run = clients.virtualize(tmp_path / "lerc.tif", "--format", fmt)
        assert run.status == 0 and not run.stderr
        assert clients.same_values(truth, show(run, fmt, 3)) is None


def test_only_masked_chunks_are_inlined(tmp_path, fmt):
    """Chunks that GDAL pads with NaN beyond the edge of the image are not inlined."""
    data = image("plain", 1, "float32")
    data[0, 40, 40] = np.nan
    write(tmp_path / "lerc.tif", data)
    run = clients.virtualize(tmp_path / "lerc.tif", "--format", fmt)
    chunks = {k: v for k, v in run.references["refs"].items() if k.startswith("band_data/") and "zarr" not in k and "/.z" not in k}
    assert len(chunks) == 6 and sum(isinstance(v, str) for v in chunks.values()) == 1


def test_masks_beyond_the_inline_limit_are_refused(tmp_path, fmt):
    write(tmp_path / "lerc.tif", image("nan", 1, "float32"))
    run = clients.virtualize(tmp_path / "lerc.tif", "--format", fmt, "--option", "inline-limit=3000")
    assert run.status == 1 and run.stdout == b"" and ("/band_data", "inline-limit") in run.codes


def test_a_damaged_blob_is_refused(tmp_path, fmt):
    """Its checksum is verified; nothing is read in part."""
    write(tmp_path / "lerc.tif", image("nan", 1, "float32"))
    bytes_ = bytearray((tmp_path / "lerc.tif").read_bytes())
    first = bytes_.index(b"Lerc2 ")
    bytes_[first + 120] ^= 0x10
    (tmp_path / "lerc.tif").write_bytes(bytes_)
    run = clients.virtualize(tmp_path / "lerc.tif", "--format", fmt)
    assert run.status == 1 and run.stdout == b""


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
@pytest.mark.parametrize("alpha", ["opaque", "binary", "any", "mixed"])
def test_alpha_is_that_of_gdal(tmp_path, fmt, dtype, alpha):
    """libtiff stores an alpha band of 8 bits as the mask if it is 0 or 255 throughout a tile or strip; also in overviews."""
    import rasterio
    rng, problems = np.random.default_rng(3), []
    for bands, interleave, cut in itertools.product([2, 4], ["pixel", "band"], [{"blockysize": 7}, {"tiled": True, "blockxsize": 16, "blockysize": 16}]):
        data = rng.integers(0, 200, (bands, 40, 33)).astype(dtype)
        data[-1] = {"opaque": 255, "binary": rng.integers(0, 2, (40, 33)) * 255, "any": data[-1], "mixed": 255}[alpha]
        if alpha == "mixed":
            data[-1, :16, :16] = 7
        kind = "RGB" if bands == 4 else "MINISBLACK"
        with rasterio.open(tmp_path / "a.tif", "w", driver="GTiff", width=33, height=40, count=bands, dtype=dtype, compress="LERC", interleave=interleave, alpha="YES", photometric=kind, **cut) as file:
            file.write(data)
            file.build_overviews([2], rasterio.enums.Resampling.nearest)
        run = clients.virtualize(tmp_path / "a.tif", "--format", fmt)
        if run.status or run.stderr:
            problems.append(f"{bands} {interleave} {cut}: {run.stderr}")
            continue
        import zarr
        for path, directory in (("band_data", 1), ("1/band_data", 2)):
            with rasterio.open(f"GTIFF_DIR:{directory}:{tmp_path / 'a.tif'}") as file:
                truth = file.read()
            got = zarr.open_array(clients.open_store(run.references), path=path, mode="r", zarr_format=FORMATS[fmt])[...]
            got = got if got.shape == truth.shape else np.moveaxis(got, -1, 0)
            if problem := clients.same_values(truth, got):
                problems.append(f"{bands} {interleave} {cut} {path}: {problem}")
    clients.report(problems)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "float32", "float64"])
def test_big_endian_files(tmp_path, fmt, dtype):
    """libtiff swaps the bytes of numbers before it encodes them; they survive a conversion to the other Zarr format."""
    data = image("plain", 3, "float64").astype(dtype)
    for interleave, cut in itertools.product(("pixel", "band"), ({}, {"tiled": False, "blockxsize": None, "blockysize": 8})):
        options = {name: value for name, value in {"tiled": True, "blockxsize": 32, "blockysize": 32, **cut}.items() if value}
        truth = write_as(tmp_path / "lerc.tif", data, endianness="BIG", interleave=interleave, **options)
        run = clients.virtualize(tmp_path / "lerc.tif", "--format", fmt)
        assert run.status == 0 and not run.stderr
        assert clients.same_values(truth, show(run, fmt, 3)) is None
        if fmt == "kerchunk-json" and interleave == "band":
            (tmp_path / "v2.json").write_bytes(run.stdout)
            other = clients.virtualize("convert", tmp_path / "v2.json", "--format", "zarr3-json")
            assert other.status == 0, other.stderr
            assert clients.same_values(truth, show(other, "zarr3-json", 3)) is None


def write_as(path, data, **options):
    import rasterio
    count, height, width = data.shape
    with rasterio.open(path, "w", driver="GTiff", width=width, height=height, count=count, dtype=data.dtype, compress="LERC", **options) as file:
        file.write(data)
    with rasterio.open(path) as file:
        return file.read()


def test_integers_are_unpacked(tmp_path):
    """Masks are ignored for integers, whatever they are unpacked to."""
    import rasterio, zarr
    data = np.arange(1200, dtype="int16").reshape(1, 30, 40)
    with rasterio.open(tmp_path / "p.tif", "w", driver="GTiff", width=40, height=30, count=1, dtype="int16", compress="LERC", blockysize=8, nodata=7) as file:
        file.write(data)
        file.scales, file.offsets = [.5], [3]
    run = clients.virtualize(tmp_path / "p.tif", "--format", "zarr3-json", "--unpack")
    assert run.status == 0 and not run.stderr, run.stderr
    got = zarr.open_array(clients.open_store(run.references), path="band_data", mode="r", zarr_format=3)[...]
    truth = np.where(data == 7, np.nan, data * .5 + 3)
    assert clients.same_values(truth, got) is None


def test_planes_of_other_files_have_masks_of_their_own(tmp_path, fmt):
    """A plane of a multi-file OME-TIFF whose blob has a mask, next to one of the same size without a mask."""
    import tifffile, zarr
    planes = np.random.default_rng(4).normal(size=(2, 32, 32)).astype("float32")
    planes[1, 4:9] = np.nan
    names = ["one.ome.tif", "two.ome.tif"]
    data = "".join(f'<TiffData FirstC="{c}" IFD="0" PlaneCount="1"><UUID FileName="{n}">urn:uuid:{n}</UUID></TiffData>' for c, n in enumerate(names))
    pixels = '<Pixels ID="Pixels:0" DimensionOrder="XYCZT" Type="float" SizeX="32" SizeY="32" SizeC="2" SizeZ="1" SizeT="1">'
    for name, plane in zip(names, planes):
        ome = f'<?xml version="1.0" encoding="UTF-8"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" UUID="urn:uuid:{name}"><Image ID="Image:0">{pixels}{data}</Pixels></Image></OME>'
        write_as(tmp_path / name, plane[None], tiled=True, blockxsize=32, blockysize=32)
        raw = (tmp_path / name).read_bytes()
        with tifffile.TiffFile(tmp_path / name) as tif:
            page = tif.pages[0]
            start, count = page.dataoffsets[0], page.databytecounts[0]
        tifffile.imwrite(tmp_path / name, iter([raw[start:start + count]]), shape=(32, 32), dtype="float32", compression="lerc", tile=(32, 32), description=ome, metadata=None)
    run = clients.virtualize(tmp_path / names[0], "--format", fmt)
    assert run.status == 0, run.stderr
    got = zarr.open_array(clients.open_store(run.references), path="band_data", mode="r", zarr_format=FORMATS[fmt])[...]
    assert clients.same_values(planes, got.reshape(planes.shape)) is None


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_entropy_coded_floats(tmp_path, fmt, dtype):
    """Blobs of version 6, which libtiff reads and does not write; the second tile has a mask."""
    import imagecodecs, rasterio, tifffile, zarr
    path, random = tmp_path / "version6.tif", np.random.default_rng(6)
    data = (np.add.outer(np.sin(np.arange(64) / 9) * 40, np.arange(128) / 7) + random.normal(size=(64, 128))).astype(dtype)
    valid = random.random((64, 64)) < 0.8
    tiles = [np.ascontiguousarray(data[:, :64]), np.ascontiguousarray(data[:, 64:])]
    blobs = [imagecodecs.lerc_encode(tile, level=0, version=6, masks=masks) for tile, masks in zip(tiles, [None, valid])]
    assert all(blob[6] == 6 and len(blob) < tile.nbytes for blob, tile in zip(blobs, tiles))
    tifffile.imwrite(path, iter(blobs), shape=data.shape, dtype=dtype, tile=(64, 64), compression="lerc", photometric="minisblack")
    with rasterio.open(path) as image:
        truth = image.read(1)
    group = zarr.open_group(clients.open_store(clients.convert(path, fmt).references), mode="r", zarr_format=FORMATS[fmt])
    found = next(array for _, array in sorted(group.arrays()) if array.ndim > 1)[...].squeeze()
    assert np.array_equal(found, truth, equal_nan=True) and np.isnan(truth).sum() == (~valid).sum()
