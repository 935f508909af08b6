"""Random cubes of scenes: tiles of several days in one or two UTM zones, with what real scenes have. The truth is rasterio's merge of the originals
of each day. More: RANDOM_CUBES=200. One seed is new in each run, and printed."""
import json, random, time

import numpy as np
import pytest
import rasterio
import rasterio.merge
import rioxarray  # noqa: F401
import xarray as xr
from clients import FORMATS, open_dataset, seeds, virtualize
from test_cubes import DECLARED, item

CUBES_PER_SEED = 8
BLOCK = 16


def describe(rng):
    """Returns what a cube is made of."""
    named = rng.random() < 0.5
    tiles = (rng.randint(1, 3), rng.randint(1, 3))
    shared = tiles != (1, 1) and rng.random() < 0.25
    is_sparse = rng.random() < 0.3
    return {
        "tiles": tiles,
        # Overviews need whole blocks; shared edges are an SRTM-like grid.
        "size": tuple(rng.choice([32, 64]) + shared for _ in range(2)),
        "shared": int(shared),
        "days": rng.randint(1, 3),
        "zones": rng.choice([[32633], [32633], [32632, 32733]]),
        "bands": rng.choice([1, 1, 2, 3]),
        "dtype": rng.choice(["uint8", "uint16", "int16", "float32"]),
        "interleave": rng.choice(["band", "pixel"]),
        "compress": rng.choice([None, "deflate", "lzw", "zstd"]),
        "predictor": rng.choice([1, 2]),
        "strips": rng.random() < 0.2,
        "overviews": [] if shared or rng.random() < 0.5 else rng.choice([[2], [2, 4]]),
        "uneven": rng.random() < 0.3,
        "sparse": is_sparse,
        # In pixels. Products round the positions of their tiles.
        "jitter": rng.choice([0, 0, 1e-7]),
        # What a catalogue declares; tiles are found by their names otherwise.
        "declared": None if named else rng.choice([None, *DECLARED]),
        "stac": not named,
        "nodata": is_sparse or rng.random() < 0.5,
        "rule": rng.choice(["first", "last"]),
    }


def write(path, what, zone, i, j, rng):
    height, width = what["size"]
    values = np.random.default_rng(rng.getrandbits(32)).integers(1, 255, (what["bands"], height, width)).astype(what["dtype"])
    # A merge takes pixels without data from another scene, which a chunk cannot.
    if what["nodata"] and not what["shared"]:
        values[:, 0, :] = 0
    x = 300_000 + 10 * (width - what["shared"]) * j + 10 * what["jitter"] * rng.choice([-1, 0, 1])
    y = 5_000_000 - 10 * (height - what["shared"]) * i + 10 * what["jitter"] * rng.choice([-1, 0, 1])
    # The nodata value of a catalogue is not in the file.
    options = {"nodata": 0} if what["nodata"] and not what["declared"] else {}
    if what["compress"]:
        options |= {"compress": what["compress"], "predictor": what["predictor"]}
    if not what["strips"]:
        options |= {"tiled": True, "blockxsize": BLOCK, "blockysize": BLOCK}
    with rasterio.open(path, "w", driver="GTiff", width=width, height=height, count=what["bands"], dtype=what["dtype"], crs=f"EPSG:{zone}",
                       interleave=what["interleave"], transform=rasterio.transform.from_origin(x, y, 10, 10), **options) as out:
        out.write(values)
    levels = what["overviews"][:rng.choice([1, 2])] if what["uneven"] else what["overviews"]
    if levels:
        with rasterio.Env(GDAL_TIFF_OVR_BLOCKSIZE=BLOCK), rasterio.open(path, "r+") as out:
            out.build_overviews(levels)
    return path


def make(folder, what, rng):
    """Writes the scenes. Returns their paths by zone and day, in the order of rows and columns, and the arguments that join them."""
    folder.mkdir()
    scenes, items = {}, []
    for zone in what["zones"]:
        for day in range(what["days"]):
            for i in range(what["tiles"][0]):
                for j in range(what["tiles"][1]):
                    # The corners stay, so that the cube has its whole extent.
                    is_corner = (day, i, j) in ((0, 0, 0), (what["days"] - 1, what["tiles"][0] - 1, what["tiles"][1] - 1))
                    if what["sparse"] and not what["shared"] and not is_corner and rng.random() < 0.3:
                        continue
                    path = write(folder / f"z{zone}_2021060{day + 1}_{i}{j}.tif", what, zone, i, j, rng)
                    scenes.setdefault((zone, day), []).append(path)
                    declared = DECLARED[what["declared"]](-0.1) if what["declared"] else {}
                    if "raster:bands" in declared:
                        declared["raster:bands"] *= what["bands"]
                    if "bands" in declared:
                        declared["bands"] = [{**declared["bands"][0], "name": f"b{n}"} for n in range(what["bands"])]
                    items.append(item(path.stem, path, declared, datetime=f"2021-06-0{day + 1}T10:00:{10 * i + j:02}.024Z"))
    # Which scene is the first or the last is a matter of the listing.
    if not what["shared"]:
        rng.shuffle(items)
    if what["stac"]:
        (folder / "items.json").write_text(json.dumps({"type": "FeatureCollection", "features": items}))
        arguments = ["--stac", folder / "items.json", "--coord", "time=property:datetime@day"]
    else:
        arguments = [folder / "*.tif", "--coord", r"time=name:_(?<time>\d+)_"]
    arguments += ["--stack-dim", "time", "--concat-dim", "y", "--concat-dim", "x"]
    if what["shared"]:
        arguments += ["--on-duplicate", what["rule"], "--option", "copy-limit=4M"]
    if what["sparse"]:
        arguments += ["--option", "allow-holes=true"]
    if len(what["zones"]) > 1:
        arguments += ["--on-mismatch", "split"]
    return scenes, arguments


def pixels(array):
    """Returns the values of an image, bands first, at each time."""
    return array.transpose("time", "band", ...).values


def truth(paths, what, bounds, level=None):
    """Returns rasterio's merge of scenes within bounds. Pixels that no scene covers are 0."""
    sources = [rasterio.open(path, **({} if level is None else {"overview_level": level})) for path in paths]
    merged, _ = rasterio.merge.merge(sources, method=what["rule"], bounds=bounds, nodata=0, res=sources[0].transform.a)
    return merged


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("seed", [*seeds("RANDOM_CUBES", 2), "new"])
def test_cubes_are_the_merge_of_their_scenes(tmp_path, fmt, seed):
    seed = time.time_ns() if seed == "new" else seed
    checked = 0
    for case in range(CUBES_PER_SEED):
        rng = random.Random(f"{seed} {case}")
        what = describe(rng)
        scenes, arguments = make(tmp_path / str(case), what, rng)
        output = tmp_path / f"{case}.json"
        run = virtualize("batch", *arguments, "-f", fmt, "-o", output)
        label = f"seed {seed}, case {case}: {what}"
        assert run.status == 0, f"{label}\n{run.stderr}"
        references = json.loads(output.read_bytes())
        (rows, columns), (height, width) = what["tiles"], what["size"]
        shape = tuple(count * (size - what["shared"]) + what["shared"] for count, size in ((rows, height), (columns, width)))
        bounds = (300_000, 5_000_000 - 10 * shape[0], 300_000 + 10 * shape[1], 5_000_000)
        found = set()
        for group in [f"set_{n}" for n in range(len(what["zones"]))] if len(what["zones"]) > 1 else [""]:
            raw = open_dataset(references, FORMATS[fmt], group)
            ds = xr.decode_cf(raw, decode_coords="all")
            zone = ds.rio.crs.to_epsg()
            found.add(zone)
            days = [day for of_zone, day in scenes if of_zone == zone]
            dates = [f"2021-06-0{day + 1}" for day in days]
            times = [str(one)[:10] for one in ds.time.values] if what["stac"] else [f"{str(one)[:4]}-{str(one)[4:6]}-{str(one)[6:]}" for one in ds.time.values]
            assert times == dates, label
            # Rows and columns of tiles without any scene are not in the cube.
            tiles = {tuple(map(int, path.stem[-2:])) for (of_zone, _), paths in scenes.items() if of_zone == zone for path in paths}
            y, x = ([n for n in range(size) if what["shared"] or n // of_tile in {tile[axis] for tile in tiles}]
                    for axis, (size, of_tile) in enumerate(zip(shape, what["size"])))
            np.testing.assert_allclose(ds.x, 300_005 + 10 * np.array(x), atol=1e-4, rtol=0)
            np.testing.assert_allclose(ds.y, 4_999_995 - 10 * np.array(y), atol=1e-4, rtol=0)
            for n, day in enumerate(days):
                expected = truth(scenes[zone, day], what, bounds)[:, y][:, :, x]
                # Positions without a scene have the fill value, which is the nodata value.
                np.testing.assert_array_equal(np.nan_to_num(pixels(raw.band_data)[n]), expected, err_msg=label)
                shown = np.where(expected == 0, np.nan, expected * 0.0001 - 0.1) if what["declared"] else expected
                if what["declared"]:
                    np.testing.assert_allclose(pixels(ds.band_data)[n], shown, rtol=1e-5, atol=1e-7, err_msg=label)
            levels = [it["asset"] for it in raw.attrs.get("multiscales", {"layout": []})["layout"]][1:]
            for level, asset in enumerate(levels):
                coarse = pixels(open_dataset(references, FORMATS[fmt], f"{group}/{asset.split('/')[0]}".strip("/")).band_data)
                for n, day in enumerate(days):
                    step = 2 << level
                    expected = truth(scenes[zone, day], what, bounds, level)[:, [n // step for n in y[::step]]][:, :, [n // step for n in x[::step]]]
                    np.testing.assert_array_equal(np.nan_to_num(coarse[n]), expected, err_msg=f"level {level} of {label}")
            if what["overviews"] and not what["uneven"] and not what["strips"]:
                assert len(levels) == len(what["overviews"]), f"{label}\n{run.stderr}"
            checked += len(days)
        assert found == set(what["zones"]), label
    print(f"seed {seed}: {CUBES_PER_SEED} cubes, {checked} days")
