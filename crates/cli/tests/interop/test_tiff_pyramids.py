"""Levels of pyramids, compared with GDAL's overviews and tifffile's levels on random files."""
import random, warnings

import numpy as np
import pytest
import tifffile
from clients import FORMATS, convert, open_dataset, seeds


def levels_of(path, fmt="zarr3-json"):
    """Returns the paths of the levels, or none."""
    attributes = open_dataset(convert(path, fmt).references, FORMATS[fmt]).attrs
    layout = attributes.get("multiscales", {"layout": []})["layout"]
    assert not layout or layout[0]["asset"] == "band_data"
    return [level["asset"].removesuffix("/band_data") for level in layout[1:]]


def levels_of_tifffile(path):
    with tifffile.TiffFile(path) as tif:
        index = lambda page: "/".join(map(str, [page.index] if isinstance(page.index, int) else page.index))
        return [index(level.keyframe) for level in tif.series[0].levels[1:]]


def content(shape):
    return np.zeros(shape, "u1")


@pytest.mark.parametrize("seed", seeds("RANDOM_PYRAMIDS", 25, 12))
def test_overviews_are_those_of_gdal(tmp_path, seed):
    """Overviews of any factor, in any order."""
    import rasterio
    rng = random.Random(seed)
    path = tmp_path / "a.tif"
    tiles = rng.choice(({}, {"tiled": True, "blockxsize": 16, "blockysize": 16}))
    factors = rng.sample((2, 3, 4, 5, 7, 8, 16), rng.randint(0, 4))
    sizes = dict(width=rng.randint(17, 200), height=rng.randint(17, 200), count=rng.choice((1, 3)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with rasterio.open(path, "w", driver="GTiff", dtype="uint8", **sizes, **tiles) as out:
            out.write_band(1, np.ones((sizes["height"], sizes["width"]), "u1"))
        for factor in factors:
            with rasterio.open(path, "r+") as out:
                out.build_overviews([factor])
        with rasterio.open(path) as src:
            count = len(src.overviews(1))
        expected = []
        for level in range(count):
            with rasterio.open(path, overview_level=level) as src:
                expected.append(src.shape)
    with tifffile.TiffFile(path) as tif:
        shapes = [(page.imagelength, page.imagewidth) for page in tif.pages]
    levels = levels_of(path)
    assert [shapes[int(level)] for level in levels] == sorted(expected, reverse=True), levels


def write(out, shape, tiled, **options):
    tile = {"tile": (16, 16)} if tiled else {}
    photometric = "rgb" if shape[-1] == 3 else "minisblack"
    out.write(content(shape), metadata=None, photometric=photometric, **tile, **options)


@pytest.mark.parametrize("seed", seeds("RANDOM_PYRAMIDS", 40, 12))
def test_levels_of_slides_are_those_of_tifffile(tmp_path, seed):
    """Aperio SVS and formats like it: levels are ordinary images, label and macro are marked as reduced, the thumbnail as neither."""
    rng = random.Random(seed)
    path = tmp_path / "a.svs"
    height, width = rng.randint(400, 900), rng.randint(400, 900)
    name = rng.choice(("Aperio Image Library v11.2.1", "Aperio Leica Biosystems GT450", "Mikroscan Image Structure 1", "Motic 1"))
    with tifffile.TiffWriter(path) as out:
        write(out, (height, width, 3), True, description=f"{name}\r\n{width}x{height} [0,0 {width}x{height}] (16x16)")
        if rng.random() < 0.9:
            small = rng.choice((8, 9.5))
            write(out, (int(height / small), int(width / small), 3), False, description=name)
            for level in range(rng.randint(0, 3)):
                factor = rng.choice((4,)) ** (level + 1)
                write(out, (height // factor, width // factor, 3), True, description=name)
            if rng.random() < 0.8:
                label = rng.choice(((70, 70, 3), (height // 8, width // 8, 3)))
                write(out, label, False, subfiletype=1, description=name + "\r\nlabel")
            if rng.random() < 0.8:
                write(out, (rng.randint(40, 80), 120, 3), False, subfiletype=9, description=name + "\r\nmacro")
    assert levels_of(path) == levels_of_tifffile(path)


@pytest.mark.parametrize("seed", seeds("RANDOM_PYRAMIDS", 60, 24))
def test_levels_of_other_files_are_those_of_gdal_or_tifffile(tmp_path, seed):
    """Images of random sizes, samples and marks, after the main one."""
    import rasterio
    rng = random.Random(seed)
    path = tmp_path / "a.tif"
    height, width = rng.choice(((200, 160), (161, 97), (64, 64)))
    factor, sizes = rng.choice((2, 2, 3, 4, 5)), []
    with tifffile.TiffWriter(path) as out:
        write(out, (height, width), tiled := rng.random() < 0.5)
        marked = rng.random() < 0.5
        for level in range(1, rng.randint(2, 5)):
            shape = height // factor ** level, width // factor ** level
            kind = rng.random()
            if kind < 0.15:
                shape = shape[0], shape[0] * 2 + 5
            elif kind < 0.25:
                shape = (*shape, 3)
            if min(shape) < 1:
                continue
            write(out, shape, tiled if rng.random() < 0.9 else not tiled, subfiletype=int(marked if rng.random() < 0.9 else not marked))
            sizes.append(shape)
    found = levels_of(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with rasterio.open(path) as src:
            overviews = [(-(-height // factor), -(-width // factor)) for factor in src.overviews(1)]
            count = len(overviews)
        shapes = []
        for level in range(count):
            with rasterio.open(path, overview_level=level) as src:
                shapes.append(src.shape)
    theirs = levels_of_tifffile(path)
    for level in found:
        assert level in theirs or sizes[int(level) - 1][:2] in shapes, (found, theirs, shapes, sizes)
    with tifffile.TiffFile(path) as tif:
        alike = len({page.is_tiled for page in tif.pages}) == 1
    if alike and not marked and not shapes:
        assert found == theirs
