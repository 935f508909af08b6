"""JPEG streams whose markers or component names declare another colour space than the TIFF tag: like libtiff, the reader follows the tag."""
import clients
import imagecodecs
import numpy as np
import pytest
import rasterio
import tifffile
from clients import FORMATS, convert

JFIF = b"\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00"


def adobe(transform):
    return b"\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00" + bytes([transform])


def pixels():
    y, x = np.mgrid[0:16, 0:16]
    return np.stack([x * 16, y * 16, 255 - x * 8 - y * 8], axis=-1).astype("u1")


def bare(stream):
    """Returns a stream without application markers."""
    out, at = stream[:2], 2
    while stream[at + 1] != 0xDA:
        end = at + 2 + int.from_bytes(stream[at + 2:at + 4], "big")
        if not 0xE0 <= stream[at + 1] <= 0xEF:
            out += stream[at:end]
        at = end
    return out + stream[at:]


def renamed(stream, names):
    """Returns a stream whose frame and scan name the three components."""
    out = bytearray(stream)
    frame, scan = out.index(b"\xff\xc0"), out.index(b"\xff\xda")
    for n, name in enumerate(names):
        out[frame + 10 + 3 * n] = name
        out[scan + 5 + 2 * n] = name
    return bytes(out)


MARKERS = {
    "none": lambda stream: stream,
    "jfif": lambda stream: stream[:2] + JFIF + stream[2:],
    "adobe_0": lambda stream: stream[:2] + adobe(0) + stream[2:],
    "adobe_1": lambda stream: stream[:2] + adobe(1) + stream[2:],
    "names_rgb": lambda stream: renamed(stream, b"RGB"),
}


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("marker", MARKERS)
@pytest.mark.parametrize("photometric", ["ycbcr", "rgb"])
def test_colours_are_those_of_libtiff(tmp_path, fmt, marker, photometric):
    import zarr
    stored = "ycbcr" if photometric == "ycbcr" else "rgb"
    stream = imagecodecs.jpeg8_encode(pixels(), level=95, colorspace="rgb", outcolorspace=stored, subsampling="444")
    stream = MARKERS[marker](bare(stream))
    path = tmp_path / "image.tif"
    tifffile.imwrite(path, iter([stream]), shape=(16, 16, 3), dtype="u1", compression="jpeg", photometric=photometric,
                     tile=(16, 16), subsampling=(1, 1), metadata=None)
    with rasterio.open(path) as original:
        truth = original.read()
    clients.register_codecs()
    got = zarr.open_array(clients.open_store(convert(path, fmt).references), path="band_data", mode="r",
                          zarr_format=FORMATS[fmt])[...]
    got = np.moveaxis(got, -1, 0) if got.shape[-1] == 3 else got
    assert np.abs(truth.astype(int) - got).max() <= 2
