"""Selections of arrays over HTTP (`/v1/values`), compared with h5py and rasterio."""
import json, random, struct, urllib.error, urllib.parse, urllib.request

import clients
import h5py
import numpy as np
import pytest
import service


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    with service.started(clients.FIXTURES, tmp_path_factory.getbasetemp()) as address:
        yield address


def fetch(base, file, array, select=None):
    """Returns the bytes of a selection."""
    inspected = f"{base}/v1/inspect?" + urllib.parse.urlencode({"url": service.url(file)})
    with urllib.request.urlopen(inspected) as answer:
        store = json.load(answer)["zarr"]["store"].replace("/v1/zarr/", "/v1/values/")
    query = {"array": array} if select is None else {"array": array, "select": select}
    with urllib.request.urlopen(f"{base}{store}?{urllib.parse.urlencode(query)}") as answer:
        return answer.read()


def problem(base, file, array, select):
    with pytest.raises(urllib.error.HTTPError) as caught:
        fetch(base, file, array, select)
    return caught.value.code, json.load(caught.value)["code"]


def random_axis(chance, length):
    """Returns the selection of an axis as text and as NumPy takes it."""
    if chance.random() < 0.25:
        index = chance.randrange(length)
        return str(index), slice(index, index + 1)
    start, stop, step = chance.randrange(length + 1), chance.randrange(2 * length), chance.randrange(1, 6)
    words = [chance.choice([str(number), ""]) for number in (start, stop, step)]
    return ":".join(words), slice(*(int(word) if word else None for word in words))


@pytest.mark.parametrize("seed", range(20))
def test_random_selections(base, tmp_path, seed):
    """Random selections of random arrays of any layout are what h5py reads."""
    chance = random.Random(seed)
    shape = [chance.randrange(1, 14) for _ in range(chance.randrange(1, 5))]
    kind = chance.choice(["i1", ">u2", "<i4", ">i8", "f2", "<f4", ">f8", "c16", "?"])
    values = np.random.default_rng(seed).integers(0, 100, shape).astype(kind)
    layout = {} if chance.random() < 0.3 else {"chunks": tuple(chance.randrange(1, length + 1) for length in shape), "compression": chance.choice([None, "gzip"])}
    with h5py.File(tmp_path / "made.h5", "w") as file:
        file.create_dataset("values", data=values, **layout)
    for _ in range(6):
        words, slices = zip(*(random_axis(chance, length) for length in shape))
        found = fetch(base, tmp_path / "made.h5", "values", ",".join(words))
        expected = values[slices]
        assert found == expected.astype(expected.dtype.newbyteorder("<")).tobytes(), (seed, words)
    assert len(fetch(base, tmp_path / "made.h5", "values")) == values.nbytes


def test_bands_of_an_image(base):
    import rasterio
    image = clients.FIXTURES / "tiff/cog_rgb.tif"
    with rasterio.open(image) as opened:
        expected = opened.read()[:, 5:70:3, ::7]
    assert fetch(base, image, "band_data", ":,5:70:3,::7") == expected.tobytes()


COLORS = np.add.outer(np.arange(100), np.arange(90))[:, :, None] % 200 + np.random.default_rng(7).integers(0, 50, (100, 90, 3))
IMAGES = {
    "JPEG of YCbCr": (COLORS, "u1", dict(compression="jpeg", photometric="ycbcr", subsampling=(2, 2))),
    "JPEG of YCbCr, chroma as fine": (COLORS, "u1", dict(compression="jpeg", photometric="ycbcr", subsampling=(1, 1))),
    "JPEG, gray": (COLORS[:, :, 0], "u1", dict(compression="jpeg")),
    "JPEG, planes": (COLORS.transpose(2, 0, 1), "u1", dict(compression="jpeg", planarconfig="separate", photometric="rgb")),
    "JPEG of four samples": (np.concatenate([COLORS, COLORS[:, :, :1]], -1), "u1", dict(compression="jpeg", photometric="separated")),
    "WebP, lossy": (COLORS, "u1", dict(compression="webp", photometric="rgb", compressionargs={"level": 80, "lossless": False})),
    "WebP with opaque alpha": (np.concatenate([COLORS, 0 * COLORS[:, :, :1] + 255], -1), "u1", dict(compression="webp", photometric="rgb", extrasamples=["unassalpha"])),
    "LERC of float32": (COLORS[:, :, 0] / 7, "f4", dict(compression="lerc")),
    "LERC with errors, in Zstandard": (COLORS[:, :, 1] / 3, "f8", dict(compression="lerc", compressionargs={"level": 0.5, "compression": "zstd"})),
    "LERC of integers, in Deflate": (COLORS, "u2", dict(compression="lerc", photometric="rgb", compressionargs={"compression": "deflate"})),
}


@pytest.mark.parametrize("layout", ["tiles", "strips"])
@pytest.mark.parametrize("kind", IMAGES)
def test_compressed_images(base, tmp_path, kind, layout):
    """Image formats are decoded to the values of imagecodecs, to the last bit."""
    import tifffile
    values, dtype, options = IMAGES[kind]
    options = {**options, **({"tile": (32, 48)} if layout == "tiles" else {"rowsperstrip": 16})}
    image = tmp_path / "image.tif"
    tifffile.imwrite(image, values.astype(dtype), metadata=None, **options)
    expected = tifffile.imread(image)
    if options.get("planarconfig") != "separate" and expected.ndim == 3:
        expected = expected.transpose(2, 0, 1)
    found = np.frombuffer(fetch(base, image, "band_data"), expected.dtype.newbyteorder("<"))
    np.testing.assert_array_equal(found, expected.ravel())
    some = np.frombuffer(fetch(base, image, "band_data", ":,3:99:4,1::5"), expected.dtype.newbyteorder("<"))
    np.testing.assert_array_equal(some, expected[..., 3:99:4, 1::5].ravel())


def test_text(base, tmp_path):
    """Each text is preceded by its length in bytes."""
    texts = ["", "one", "zwölf", "ж" * 50]
    with h5py.File(tmp_path / "text.h5", "w") as file:
        file.create_dataset("names", data=texts, dtype=h5py.string_dtype())
    found, at, read = fetch(base, tmp_path / "text.h5", "names", "1:4"), 0, []
    while at < len(found):
        (length,) = struct.unpack_from("<I", found, at)
        read.append(found[at + 4:at + 4 + length].decode())
        at += 4 + length
    assert read == texts[1:4]


def test_limits(base, tmp_path):
    """Selections that need too much are refused before anything is read."""
    with h5py.File(tmp_path / "large.h5", "w") as file:
        file.create_dataset("wide", shape=(1 << 20, 1 << 10), dtype="f8", chunks=(1 << 10, 1 << 10), compression="gzip")
        file.create_dataset("tiny", shape=(1 << 10, 1 << 10), dtype="u1", chunks=(1, 1))
        file.create_dataset("chunk", shape=(1 << 14, 1 << 14), dtype="u1", chunks=(1 << 14, 1 << 14), compression="gzip")
    large = tmp_path / "large.h5"
    assert problem(base, large, "wide", "0:100000,:") == (422, "chunk-size")
    assert problem(base, large, "wide", "::512,::512") == (422, "chunk-size")
    assert problem(base, large, "tiny", ":,:") == (422, "chunk-size")
    assert problem(base, large, "chunk", "0,0") == (422, "chunk-size")
    assert problem(base, large, "wide", None) == (422, "chunk-size")
    assert fetch(base, large, "wide", "1048575,::512") == bytes(16)
    assert fetch(base, large, "tiny", "::64,::64") == bytes(256)
