"""Cubes and mosaics of scenes, compared with rasterio's values of the original files and its merge of them."""
import json

import numpy as np
import pytest
import rasterio
import rasterio.merge
import rasterio.shutil
import rioxarray  # noqa: F401
import xarray as xr
from clients import FORMATS, either_format, open_dataset, unpacked, virtualize  # noqa: F401
from rasterio.transform import from_origin


def write(path, values, x=300_000, y=5_000_000, res=10, crs="EPSG:32633", **options):
    """Writes a GeoTIFF whose upper left corner is at x, y."""
    values = values if values.ndim == 3 else values[None]
    count, height, width = values.shape
    with rasterio.open(path, "w", driver="GTiff", width=width, height=height, count=count, dtype=values.dtype.name, crs=crs,
                       transform=from_origin(x, y, res, res), **options) as out:
        out.write(values)
    return path


def pixels(shape, seed, dtype="uint16"):
    return np.random.default_rng(seed).integers(1, 9999, shape).astype(dtype)


def batch(tmp_path, *arguments, fmt="kerchunk-json", status=0, output="cube.json"):
    """Combines files, and returns the run and the references; with a status, the run fails with it."""
    out = tmp_path / output
    run = virtualize("batch", *arguments, "-f", fmt, "-o", out, "--restart", "--overwrite")
    assert (run.status == 0) == (status == 0), run.stderr
    return run, json.loads(out.read_bytes()) if status == 0 else None


def cube(tmp_path, *arguments, fmt="kerchunk-json", group=""):
    return xr.decode_cf(open_dataset(batch(tmp_path, *arguments, fmt=fmt)[1], FORMATS[fmt], group)).load()


def item(name, href, asset, key="B04", **properties):
    """Returns a STAC item of one asset."""
    return {"type": "Feature", "stac_version": "1.1.0", "id": name, "geometry": None, "properties": properties, "links": [],
            "assets": {key: {"href": str(href), "type": "image/tiff", **asset}}}


def catalogue(tmp_path, items):
    path = tmp_path / "items.json"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": items}))
    return ["--stac", path, "--stack-dim", "time", "--coord", "time=property:datetime"]


# What STAC 1.0 and 1.1 call nodata, scale and offset.
DECLARED = {
    "1.0": lambda offset: {"raster:bands": [{"nodata": 0, "scale": 0.0001, "offset": offset}]},
    "1.1 by band": lambda offset: {"bands": [{"name": "red", "nodata": 0, "raster:scale": 0.0001, "raster:offset": offset}]},
    "1.1 by asset": lambda offset: {"nodata": 0, "raster:scale": 0.0001, "raster:offset": offset, "bands": [{"name": "red"}]},
}


def scenes(tmp_path, declared, offsets, **options):
    """Writes a scene for each offset, and a catalogue that declares how they are packed."""
    items = []
    for k, offset in enumerate(offsets):
        values = pixels((32, 48), k)
        values[0] = 0
        path = write(tmp_path / f"{k}.tif", values, **options)
        items.append(item(str(k), path, declared(offset), datetime=f"202{k}-06-01T10:00:00Z"))
    return catalogue(tmp_path, items)


@pytest.mark.parametrize("declared", DECLARED)
def test_packing_of_the_catalogue_is_applied(tmp_path, declared, fmt):
    """Sentinel-2: the items declare nodata, scale and offset, and the files nothing."""
    ds = cube(tmp_path, *scenes(tmp_path, DECLARED[declared], [-0.1, -0.1]), fmt=fmt)
    for k in range(2):
        raw = rasterio.open(tmp_path / f"{k}.tif").read()
        expected = np.where(raw == 0, np.nan, raw * 0.0001 - 0.1)
        np.testing.assert_allclose(ds.band_data.values[k], expected, rtol=1e-6)


def test_scenes_that_the_catalogue_packs_differently(tmp_path, fmt):
    """Sentinel-2 before and after baseline 04.00."""
    ds = unpacked(cube(tmp_path, *scenes(tmp_path, DECLARED["1.0"], [0, -0.1]), fmt=fmt))
    for k, offset in enumerate([0, -0.1]):
        raw = rasterio.open(tmp_path / f"{k}.tif").read()
        np.testing.assert_array_equal(ds.band_data.values[k], np.where(raw == 0, np.nan, raw * 0.0001 + offset))


@pytest.mark.parametrize("options, declared, problem", [
    ({"nodata": 9}, {"nodata": 0}, "nodata is 9 in the file, but 0 in the catalogue"),
    ({}, {"raster:bands": [{"nodata": 0}, {"nodata": 1}]}, "describes 2 bands, but the file has 1"),
    ({}, {"raster:bands": [{"scale": "x"}]}, 'scale is "x", expected a number'),
])
def test_contradictions_of_file_and_catalogue_are_refused(tmp_path, options, declared, problem):
    run, _ = batch(tmp_path, *scenes(tmp_path, lambda offset: declared, [0], **options), status=1)
    assert problem in run.stderr, run.stderr


def test_packing_of_file_and_catalogue_must_agree(tmp_path):
    path = write(tmp_path / "a.tif", pixels((16, 16), 0), nodata=0)
    with rasterio.open(path, "r+") as out:
        out.scales, out.offsets = [0.5], [1.0]
    for scale, status in ((0.5, 0), (0.25, 1)):
        declared = {"raster:bands": [{"nodata": 0, "scale": scale, "offset": 1}]}
        run, _ = batch(tmp_path, *catalogue(tmp_path, [item("a", path, declared, datetime="2020-01-01T00:00:00Z")]), status=status)
        assert status == 0 or "scale is 0.5 in the file, but 0.25 in the catalogue" in run.stderr


def test_shards_apply_the_packing_of_the_catalogue(tmp_path):
    arguments = scenes(tmp_path, DECLARED["1.0"], [-0.1, -0.1])
    _, expected = batch(tmp_path, *arguments)
    journals = [tmp_path / f"{k}.journal" for k in (1, 2)]
    for k, journal in enumerate(journals, 1):
        assert virtualize("batch", *arguments, "-o", tmp_path / "s.json", "--shard", f"{k}/2", "--journal", journal).status == 0
    merges = [it for journal in journals for it in ("--merge", journal)]
    assert virtualize("batch", *arguments, "-o", tmp_path / "s.json", *merges).status == 0
    assert json.loads((tmp_path / "s.json").read_bytes()) == expected


@pytest.mark.parametrize("times", [
    ["2021-06-01T10:10:31.024000Z", "2021-06-06T10:10:29.024000Z"],
    ["2021-06-01T10:10:31.024000Z", "2021-06-06T10:10:29.000000Z"],
    ["2021-06-01T10:10:31.0247610Z", "2021-06-06T10:10:29Z"],
    ["2021-06-01T12:10:31.000000001+02:00", "2021-06-06"],
    ["2021-06-01", "2021-06-06"],
])
def test_times_of_catalogues(tmp_path, times, fmt):
    """Sentinel-2 has milli- and Landsat microseconds."""
    import pandas as pd
    paths = [write(tmp_path / f"{k}.tif", pixels((16, 16), k)) for k in range(2)]
    ds = cube(tmp_path, *catalogue(tmp_path, [item(str(k), paths[k], {}, datetime=time) for k, time in enumerate(times)]), fmt=fmt)
    expected = [pd.Timestamp(time).tz_localize("UTC") if pd.Timestamp(time).tz is None else pd.Timestamp(time) for time in times]
    assert list(ds.time.values.astype("datetime64[ns]")) == [time.tz_convert(None).to_datetime64() for time in expected]


@pytest.mark.parametrize("name", ["TIFFTAG_DATETIME", "ACQUIRED", "band_data/ACQUIRED", "IMAGERY/ACQUISITIONDATETIME"])
def test_times_in_tags_and_metadata_of_images(tmp_path, name, fmt):
    for k in (1, 2):
        path = write(tmp_path / f"s{3 - k}.tif", pixels((16, 16), k))
        with rasterio.open(path, "r+") as out:
            out.update_tags(TIFFTAG_DATETIME=f"2020:0{k}:15 10:20:30", ACQUIRED=f"2020-0{k}-15T10:20:30")
            out.update_tags(ns="IMAGERY", ACQUISITIONDATETIME=f"2020-0{k}-15T10:20:30Z")
    ds = cube(tmp_path, tmp_path / "s*.tif", "--stack-dim", "time", "--coord", f"time=attribute:{name}", fmt=fmt)
    assert [str(time)[:19] for time in ds.time.values] == ["2020-01-15T10:20:30", "2020-02-15T10:20:30"]
    np.testing.assert_array_equal(ds.band_data.values[0], rasterio.open(tmp_path / "s2.tif").read())


def test_attributes_with_several_values_are_refused(tmp_path):
    path = write(tmp_path / "a.tif", pixels((2, 16, 16), 0))
    with rasterio.open(path, "r+") as out:
        out.update_tags(ns="ONE", START="2020-01-15")
        out.update_tags(ns="TWO", START="2020-01-16")
    run, _ = batch(tmp_path, path, "--stack-dim", "time", "--coord", "time=attribute:START", status=1)
    assert "band_data/ONE/START, band_data/TWO/START" in run.stderr, run.stderr


def tiles(tmp_path, rows, columns, size=64, **options):
    """Writes adjacent tiles."""
    paths = []
    for i in range(rows):
        for j in range(columns):
            values = pixels((size, size), 10 * i + j, "int16")
            paths.append(write(tmp_path / f"t{i}{j}.tif", values, x=3e5 + 10 * size * j, y=5e6 - 10 * size * i, **options))
    return paths


def check_mosaic(ds, paths, **options):
    merged, transform = rasterio.merge.merge(paths, **options)
    np.testing.assert_array_equal(ds.band_data.values, merged)
    np.testing.assert_allclose(ds.x, [(transform * (j + 0.5, 0))[0] for j in range(merged.shape[2])], rtol=1e-12)
    np.testing.assert_allclose(ds.y, [(transform * (0, i + 0.5))[1] for i in range(merged.shape[1])], rtol=1e-12)


def test_attributes_of_a_mosaic_describe_the_whole(tmp_path, fmt):
    """Each tile has a shape, a bounding box and statistics."""
    paths = tiles(tmp_path, 2, 2, tiled=True, blockxsize=16, blockysize=16)
    for k, path in enumerate(paths):
        with rasterio.open(path, "r+") as out:
            out.update_tags(1, STATISTICS_MEAN=str(k), STATISTICS_STDDEV="7")
    ds = cube(tmp_path, *paths, "--concat-dim", "y", "--concat-dim", "x", fmt=fmt)
    check_mosaic(ds, paths)
    transform = rasterio.merge.merge(paths)[1]
    left = [name for name in ds.band_data.attrs if "STATISTICS" in name]
    assert left == [] and [it["name"] for it in ds.attrs["zarr_conventions"]] == ["proj", "spatial"]
    assert ds.attrs["spatial:transform"] == list(transform)[:6] and ds.attrs["spatial:shape"] == list(ds.band_data.shape[1:])
    # A single tile keeps them.
    single = cube(tmp_path, paths[0], "--concat-dim", "x", fmt=fmt)
    assert single.attrs["spatial:shape"] == [64, 64]
    # So do scenes of one grid, whose statistics differ.
    stack = cube(tmp_path, paths[0], write(tmp_path / "later.tif", pixels((64, 64), 99, "int16"), tiled=True, blockxsize=16, blockysize=16),
                 "--stack-dim", "time", fmt=fmt)
    assert stack.attrs["spatial:shape"] == [64, 64] and "STATISTICS_STDDEV" not in stack.band_data.attrs


def test_the_duration_of_one_file_is_not_that_of_all(tmp_path):
    for k in range(3):
        days = xr.Dataset({"a": ("time", [1.0 * k])}, {"time": ("time", [k], {"units": "days since 2020-01-01"})},
                          {"time_coverage_start": f"2020-01-0{k + 1}", "time_coverage_duration": "P1D", "geospatial_lat_min": -3.0})
        days.to_netcdf(tmp_path / f"d{k}.nc", engine="h5netcdf")
    ds = cube(tmp_path, tmp_path / "d*.nc", "--concat-dim", "time")
    assert ds.attrs.get("geospatial_lat_min") == -3.0
    assert not [name for name in ds.attrs if name.startswith("time_coverage")]


def cogs(tmp_path, size, counts):
    """Writes adjacent COGs with this number of overviews each."""
    paths = []
    for j, count in enumerate(counts):
        overviews = {"overview_count": count} if count else {"overviews": "NONE"}
        plain = write(tmp_path / "plain.tif", pixels((size, size), j, "int16"), x=3e5 + 10 * size * j, tiled=True, blockxsize=256, blockysize=256)
        paths.append(tmp_path / f"m{j}.tif")
        rasterio.shutil.copy(plain, paths[-1], driver="COG", blocksize=256, compress="deflate", **overviews)
    return paths


def layout(ds):
    return [level["asset"] for level in ds.attrs.get("multiscales", {"layout": []})["layout"]]


def test_overviews_are_joined_level_by_level(tmp_path, fmt):
    paths = cogs(tmp_path, 1024, [2, 2])
    _, references = batch(tmp_path, *paths, "--concat-dim", "x", fmt=fmt)
    ds = open_dataset(references, FORMATS[fmt])
    check_mosaic(ds, paths)
    assert layout(ds) == ["band_data", "1/band_data", "2/band_data"]
    for level in (1, 2):
        overviews = [rasterio.open(path, overview_level=level - 1) for path in paths]
        got = open_dataset(references, FORMATS[fmt], str(level))
        np.testing.assert_array_equal(got.band_data.values, np.concatenate([it.read() for it in overviews], axis=2))
        step = 10 * 2**level
        np.testing.assert_allclose(got[f"x_{level}"], 3e5 + step * (np.arange(got.sizes[f"x_{level}"]) + 0.5))
        assert ds.attrs["multiscales"]["layout"][level]["transform"]["scale"] == [2**level] * 2


@pytest.mark.parametrize("size, counts, kept", [
    (512, [1, 1], ["band_data", "1/band_data"]),
    (768, [2, 2], []),  # overviews of 384 pixels are not whole tiles
    (1024, [2, 1], ["band_data", "1/band_data"]),
    (1024, [0, 1], []),
])
def test_overviews_that_do_not_fit_are_omitted(tmp_path, size, counts, kept, fmt):
    paths = cogs(tmp_path, size, counts)
    run, references = batch(tmp_path, *paths, "--concat-dim", "x", fmt=fmt)
    ds = open_dataset(references, FORMATS[fmt])
    check_mosaic(ds, paths)
    assert layout(ds) == kept
    assert ("overview omitted" in run.stderr) == (len(kept) < max(counts) + 1), run.stderr
    names = [it["name"] for it in ds.attrs["zarr_conventions"]]
    assert ("multiscales" in names) == bool(kept)


def test_scenes_with_different_overviews_are_stacked(tmp_path, fmt):
    """The main images of a season, of which some have fewer overviews."""
    for k, count in enumerate([2, 1, 2]):
        plain = write(tmp_path / "plain.tif", pixels((512, 512), k, "int16"), tiled=True, blockxsize=128, blockysize=128)
        rasterio.shutil.copy(plain, tmp_path / f"s{k}.tif", driver="COG", blocksize=128, overview_count=count)
    arguments = [tmp_path / "s*.tif", "--stack-dim", "time", "--coord", "time=name:s{time:d}.tif"]
    _, references = batch(tmp_path, *arguments, fmt=fmt)
    ds = open_dataset(references, FORMATS[fmt])
    assert layout(ds) == ["band_data", "1/band_data"]
    for k in range(3):
        np.testing.assert_array_equal(ds.band_data.values[k], rasterio.open(tmp_path / f"s{k}.tif").read())
        level = open_dataset(references, FORMATS[fmt], "1")
        np.testing.assert_array_equal(level.band_data.values[k], rasterio.open(tmp_path / f"s{k}.tif", overview_level=0).read())


@pytest.mark.parametrize("method", ["first", "last"])
@pytest.mark.parametrize("size, options", [(33, []), (301, ["--option", "copy-limit=1M"])])
def test_tiles_that_share_edges_along_both_axes(tmp_path, size, options, method, fmt):
    """SRTM: the last row and column of a tile are the first ones of its neighbours. Here their values differ."""
    paths = []
    for i in range(2):
        for j in range(3):
            values = pixels((size, size), 10 * i + j, "int16")
            paths.append(write(tmp_path / f"t{i}{j}.tif", values, x=100 * (size - 1) * j, y=1e6 - 100 * (size - 1) * i, res=100))
    arguments = [*paths, "--concat-dim", "y", "--concat-dim", "x", *options]
    ds = cube(tmp_path, *arguments, "--on-duplicate", method, fmt=fmt)
    check_mosaic(ds, paths, method=method)
    assert "overlaps" in batch(tmp_path, *arguments, fmt=fmt, status=1)[0].stderr


def test_shared_edges_are_not_lost_beside_a_missing_tile(tmp_path):
    """The pixels that the last tile shares with the missing one exist only there."""
    paths = []
    for i, j in ((0, 0), (0, 1), (1, 1)):
        paths.append(write(tmp_path / f"t{i}{j}.tif", pixels((33, 33), 10 * i + j, "int16"), x=320 * j, y=1e6 - 320 * i, nodata=0))
    run, _ = batch(tmp_path, *paths, "--concat-dim", "y", "--concat-dim", "x", "--on-duplicate", "first", "--option", "allow-holes=true", status=1)
    assert "which would be lost" in run.stderr, run.stderr


RESOLUTIONS = (0.05, 0.05000000074505806, 0.05)


@pytest.mark.parametrize("size", [50, 1800])
def test_grids_that_differ_by_rounding_are_one(tmp_path, size, fmt):
    """CHIRPS: the pixel size of some files was stored as float32."""
    for k, res in enumerate(RESOLUTIONS):
        write(tmp_path / f"p_200{k}.tif", pixels((20, size), k), x=-20, y=40, res=res, crs="EPSG:4326")
    arguments = [tmp_path / "p_*.tif", "--stack-dim", "time", "--coord", "time=name:p_{time:%Y}.tif"]
    run, references = batch(tmp_path, *arguments, fmt=fmt)
    assert "coordinates differ by rounding" in run.stderr, run.stderr
    ds = open_dataset(references, FORMATS[fmt])
    with rasterio.open(tmp_path / "p_2000.tif") as first:
        np.testing.assert_array_equal(ds.x, xr.open_dataset(first.name, engine="rasterio").x)
        assert ds.spatial_ref.attrs["GeoTransform"].split() == [repr(it) for it in first.transform.to_gdal()]
        assert ds.attrs["spatial:transform"] == list(first.transform)[:6]
    for k in range(3):
        np.testing.assert_array_equal(ds.band_data.values[k], rasterio.open(tmp_path / f"p_200{k}.tif").read())


@pytest.mark.parametrize("changed", [{"x": -20.001}, {"res": 0.0501}, {"y": 40.00001}])
def test_other_grids_are_not_one(tmp_path, changed):
    for k, how in enumerate([{}, changed]):
        write(tmp_path / f"p_200{k}.tif", pixels((20, 50), k), **{"x": -20, "y": 40, "res": 0.05, "crs": "EPSG:4326", **how})
    batch(tmp_path, tmp_path / "p_*.tif", "--stack-dim", "time", "--coord", "time=name:p_{time:%Y}.tif", status=1)


def test_grids_of_netcdf_that_differ_by_rounding_are_one(tmp_path):
    for k in range(3):
        lat = np.arange(40) * 0.25 + k * 1e-12
        ds = xr.Dataset({"a": (("time", "lat"), np.full((1, 40), k))}, {"time": ("time", [k], {"units": "days since 2020-01-01"}), "lat": lat})
        ds.to_netcdf(tmp_path / f"d{k}.nc", engine="h5netcdf")
    ds = cube(tmp_path, tmp_path / "d*.nc", "--concat-dim", "time")
    np.testing.assert_array_equal(ds.lat, np.arange(40) * 0.25)
    np.testing.assert_array_equal(ds.a, np.arange(3)[:, None] * np.ones((1, 40)))


def mosaics_of_days(tmp_path, days, rows, columns, missing=(), nodata=0):
    for day in range(days):
        for i in range(rows):
            for j in range(columns):
                if (day, i, j) not in missing:
                    write(tmp_path / f"d{day + 1}_{i}{j}.tif", pixels((32, 32), 100 * day + 10 * i + j), x=3e5 + 320 * j, y=5e6 - 320 * i,
                          nodata=nodata, tiled=True, blockxsize=16, blockysize=16, compress="deflate")
    return [tmp_path / "d*.tif", "--stack-dim", "time", "--concat-dim", "y", "--concat-dim", "x", "--coord", r"time=name:/d(?<time>\d+)_"]


def test_tiles_of_several_days(tmp_path, fmt):
    ds = cube(tmp_path, *mosaics_of_days(tmp_path, 3, 2, 3), fmt=fmt)
    assert list(ds.time.values) == [1, 2, 3]
    for day in range(3):
        merged, _ = rasterio.merge.merge(sorted(tmp_path.glob(f"d{day + 1}_*.tif")))
        np.testing.assert_array_equal(np.nan_to_num(ds.band_data.values[day]), merged)


def test_what_no_scene_covers_is_missing_and_not_stored(tmp_path, fmt):
    arguments = mosaics_of_days(tmp_path, 2, 2, 2, missing={(0, 0, 1), (1, 1, 0)})
    batch(tmp_path, *arguments, fmt=fmt, status=1)
    _, references = batch(tmp_path, *arguments, "--option", "allow-holes=true", fmt=fmt)
    ds = open_dataset(references, FORMATS[fmt])
    for day in range(2):
        merged, _ = rasterio.merge.merge(sorted(tmp_path.glob(f"d{day + 1}_*.tif")), nodata=0)
        np.testing.assert_array_equal(ds.band_data.values[day], merged)
    refs = references.get("refs", references)
    chunks = [name for name in refs if name.startswith("band_data/") and not name.endswith((".zarray", ".zattrs", "zarr.json"))]
    assert len(chunks) == 6 * 4


def test_positions_without_a_scene_need_a_value_that_means_missing(tmp_path, fmt):
    arguments = mosaics_of_days(tmp_path, 2, 2, 2, missing={(0, 0, 1)}, nodata=None)
    run, _ = batch(tmp_path, *arguments, "--option", "allow-holes=true", fmt=fmt, status=1)
    assert "gaps cannot be distinguished from values" in run.stderr, run.stderr


def test_days_as_bands_over_leap_years(tmp_path, fmt):
    """Files of 365 and 366 bands, of which GDAL declares all but the first as extra samples."""
    years = {2019: 365, 2020: 366, 2021: 365}
    for year, days in years.items():
        write(tmp_path / f"y{year}.tif", pixels((days, 4, 6), year), interleave="band", nodata=0)
    ds = cube(tmp_path, tmp_path / "y*.tif", "--concat-dim", "band", "--coord", "band=name:y{band:d}.tif", fmt=fmt)
    expected = np.concatenate([rasterio.open(tmp_path / f"y{year}.tif").read() for year in years])
    np.testing.assert_array_equal(ds.band_data.values, expected)


def test_attributes_by_band_are_those_of_the_whole(tmp_path, fmt):
    """Names and scales of bands that are joined along them."""
    for k in range(2):
        path = write(tmp_path / f"b{k}.tif", pixels((2, 8, 8), k), interleave="band")
        with rasterio.open(path, "r+") as out:
            out.scales, out.descriptions, out.units = [1.0, 0.5], ["red", "nir"], ["m", "m"]
            out.update_tags(1, STATISTICS_MAXIMUM="3")
    ds = open_dataset(batch(tmp_path, tmp_path / "b*.tif", "--concat-dim", "band", "--coord", "band=name:b{band:d}.tif", fmt=fmt)[1], FORMATS[fmt])
    attributes = ds.band_data.attrs
    assert attributes["scales"] == [1.0, 0.5] * 2 and attributes["offsets"] == [0.0, 0.0] * 2
    assert attributes["units"] == "m" and attributes.get("long_name", ["red", "nir"] * 2) == ["red", "nir"] * 2
    assert "STATISTICS_MAXIMUM" not in attributes and "extra_samples" not in attributes


def test_scenes_of_one_day_follow_the_rule(tmp_path, fmt):
    """Two scenes of a tile on one day, as where orbits overlap."""
    times = ["2021-06-01T10:10:31.024Z", "2021-06-01T10:10:45.5Z", "2021-06-02T10:00:00Z"]
    paths = [write(tmp_path / f"{k}.tif", pixels((16, 16), k)) for k in range(3)]
    stac = catalogue(tmp_path, [item(str(k), path, {}, datetime=time) for k, (path, time) in enumerate(zip(paths, times))])
    assert cube(tmp_path, *stac, fmt=fmt).sizes["time"] == 3
    days = [*stac[:-1], "time=property:datetime@day"]
    assert "duplicate coordinates" in batch(tmp_path, *days, fmt=fmt, status=1)[0].stderr
    for rule, kept in (("first", [0, 2]), ("last", [1, 2])):
        ds = cube(tmp_path, *days, "--on-duplicate", rule, fmt=fmt)
        assert [str(time)[:10] for time in ds.time.values] == ["2021-06-01", "2021-06-02"]
        for n, k in enumerate(kept):
            np.testing.assert_array_equal(ds.band_data.values[n], rasterio.open(paths[k]).read())


def test_assets_are_bands_by_name(tmp_path, fmt):
    """Two assets of each item become a dimension, of which xarray makes variables."""
    items = []
    for k in range(2):
        paths = {key: write(tmp_path / f"{k}_{key}.tif", pixels((16, 16), 10 * k + n)) for n, key in enumerate(("B04", "B08"))}
        one = item(str(k), "", {}, datetime=f"2021-06-0{k + 1}T10:10:31.5Z")
        one["assets"] = {key: {"href": str(path), "type": "image/tiff"} for key, path in paths.items()}
        items.append(one)
    ds = cube(tmp_path, *catalogue(tmp_path, items), "--stack-dim", "name", "--coord", "name=property:asset", "--option", "asset=B04",
              "--option", "asset=B08", fmt=fmt)
    named = ds.band_data.squeeze("band").to_dataset("name")
    for k in range(2):
        for key in ("B04", "B08"):
            np.testing.assert_array_equal(named[key].values[k], rasterio.open(tmp_path / f"{k}_{key}.tif").read(1))


def test_each_utm_zone_is_a_group(tmp_path, fmt):
    for k, zone in enumerate((32, 33, 32, 33)):
        write(tmp_path / f"s{k}.tif", pixels((16, 16), k), crs=f"EPSG:326{zone}")
    _, references = batch(tmp_path, tmp_path / "s*.tif", "--stack-dim", "time", "--coord", "time=name:s{time:d}.tif", "--on-mismatch", "split", fmt=fmt)
    for group, (zone, scenes) in enumerate([(32, (0, 2)), (33, (1, 3))]):
        ds = open_dataset(references, FORMATS[fmt], f"set_{group}")
        assert xr.decode_cf(ds, decode_coords="all").band_data.rio.crs.to_epsg() == 32600 + zone and list(ds.time.values) == list(scenes)
        for n, k in enumerate(scenes):
            np.testing.assert_array_equal(ds.band_data.values[n], rasterio.open(tmp_path / f"s{k}.tif").read())


@pytest.mark.parametrize("shared", [0, 1])
def test_tiles_whose_positions_differ_by_rounding(tmp_path, shared, fmt):
    """The same columns and edges, computed in different ways."""
    paths = []
    for i in range(2):
        for j in range(2):
            x, y = 10 + (32 - shared) * 0.1 * j + 1e-9 * i * j, 50 - (32 - shared) * 0.1 * i - 1e-9 * j
            paths.append(write(tmp_path / f"t{i}{j}.tif", pixels((32, 32), 10 * i + j), x=x, y=y, res=0.1, crs="EPSG:4326"))
    arguments = [*paths, "--concat-dim", "y", "--concat-dim", "x", *(["--on-duplicate", "first"] if shared else [])]
    ds = cube(tmp_path, *arguments, fmt=fmt)
    expected = np.zeros((64 - shared, 64 - shared), "u2")
    for k, path in reversed(list(enumerate(paths))):
        i, j = (k // 2) * (32 - shared), (k % 2) * (32 - shared)
        expected[i:i + 32, j:j + 32] = rasterio.open(path).read(1)
    np.testing.assert_array_equal(ds.band_data.values[0], expected)
    np.testing.assert_allclose(ds.x, 10.05 + 0.1 * np.arange(64 - shared), atol=1e-7)


@pytest.mark.parametrize("options", [["--stack-dim", "time", "--coord", "time=name:m{time:d}.tif"], ["--concat-dim", "x"]])
def test_appended_scenes_with_overviews(tmp_path, options):
    """Scenes that are appended one by one, the last without the coarsest level, give the dataset of one run."""
    paths = cogs(tmp_path, 512, [2, 2, 1])
    if options[0] == "--stack-dim":
        for k, path in enumerate(paths):
            plain = write(tmp_path / "plain.tif", pixels((512, 512), k, "int16"), tiled=True, blockxsize=256, blockysize=256)
            rasterio.shutil.copy(plain, path, driver="COG", blocksize=256, overview_count=2 - k // 2, compress="deflate")
    for k, path in enumerate(paths):
        append = ["--append"] if k else []
        run = virtualize("batch", path, *options, "-o", tmp_path / "appended.icechunk", *append)
        assert run.status == 0, run.stderr
        run = virtualize("batch", *paths[:k + 1], *options, "-o", tmp_path / f"{k}.icechunk")
        assert run.status == 0, run.stderr
        run = virtualize("diff", tmp_path / "appended.icechunk", tmp_path / f"{k}.icechunk")
        assert run.status == 0, run.stdout.decode()
