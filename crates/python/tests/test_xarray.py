"""The xarray backend: options, groups, Dask, processes, threads, event loops, and selections of xarray."""

import asyncio
import concurrent.futures
import multiprocessing
import os
import pathlib
import pickle
import random
import shutil

import dask
import h5netcdf
import numpy as np
import pytest
import virtualize
import xarray as xr

ROOT = pathlib.Path(__file__).resolve().parents[3]
NETCDF = ROOT / "fixtures/hdf5/netcdf4.nc"
COG = ROOT / "fixtures/tiff/cog_rgb.tif"
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def cube(tmp_path_factory):
    """A file with an array of many chunks, and its values."""
    path = tmp_path_factory.mktemp("cube") / "cube.nc"
    values = np.random.default_rng(2).normal(size=(20, 30, 40)).astype("f4")
    with h5netcdf.File(path, "w") as f:
        f.dimensions = {"time": 20, "y": 30, "x": 40}
        f.create_variable("v", ("time", "y", "x"), "f4", chunks=(3, 7, 11), compression="gzip", shuffle=True, data=values)
        f.create_variable("time", ("time",), "f8", data=np.arange(20.0))
        f["time"].attrs["units"] = "hours since 2001-02-03"
    return path, values


def opened(path, **options):
    return xr.open_dataset(path, engine="virtualize", **options)


def original(path, **options):
    return xr.open_dataset(path, engine="h5netcdf", **options)


def test_a_dataset_is_identical_to_that_of_h5netcdf(cube):
    for path in (cube[0], NETCDF):
        for options in ({}, {"decode_cf": False}, {"mask_and_scale": False}, {"decode_times": False}, {"decode_coords": "all"}):
            xr.testing.assert_identical(opened(path, **options), original(path, **options))
    xr.testing.assert_identical(opened(NETCDF, group="inner/deep"), original(NETCDF, group="inner/deep"))
    assert "label" not in opened(NETCDF, drop_variables="label")


def test_trees_are_identical_to_those_of_h5netcdf():
    xr.testing.assert_identical(xr.open_datatree(NETCDF, engine="virtualize"), xr.open_datatree(NETCDF, engine="h5netcdf"))
    ours, truth = (xr.open_groups(NETCDF, engine=engine, group="inner") for engine in ("virtualize", "h5netcdf"))
    assert ours.keys() == truth.keys()
    for name in truth:
        xr.testing.assert_identical(ours[name], truth[name])
    assert xr.open_datatree(COG, engine="virtualize")["1"]["band_data"].shape == (3, 40, 48)


def test_backend_does_not_claim_files():
    assert not xr.backends.list_engines()["virtualize"].guess_can_open(str(NETCDF))
    assert xr.backends.plugins.guess_engine(str(NETCDF)) != "virtualize"


def test_options_are_those_of_open():
    assert opened(str(COG), chunk_grid="rectilinear")["band_data"].shape == (3, 80, 96)
    with pytest.raises(TypeError, match="unpack"):
        opened(NETCDF, unpack=True)
    with pytest.raises(virtualize.OptionError, match="nonsense"):
        opened(NETCDF, nonsense=1)
    with pytest.raises(virtualize.NotFoundError):
        opened(ROOT / "fixtures/none.nc")
    with pytest.raises(KeyError, match="'inner'"):
        opened(NETCDF, group="iner")
    with pytest.raises(KeyError, match="must name a group"):
        opened(NETCDF, group="time")
    store = virtualize.open(NETCDF)
    xr.testing.assert_identical(opened(store), original(NETCDF))


def random_indexer(rng, size):
    kind = rng.randrange(5)
    if kind == 0:
        return rng.randrange(-size, size)
    if kind == 1:
        return [rng.randrange(-size, size) for _ in range(rng.randint(0, 6))]
    return slice(*(rng.choice([None, rng.randint(-size, size)]) for _ in range(2)), rng.choice([None, 1, 2, 5, -1, -3]))


@pytest.mark.parametrize("seed", range(6))
def test_random_selections(cube, seed):
    rng = random.Random(seed)
    ours, truth = opened(cube[0], cache=False)["v"], original(cube[0])["v"].load()
    for _ in range(30):
        steps = []
        for _ in range(rng.choice([1, 1, 2])):
            dims = rng.sample(["time", "y", "x"], rng.randint(1, 3))
            if rng.random() < 0.4 and len(dims) > 1:
                points = rng.randint(1, 9)
                steps.append({d: ("points", [rng.randrange(5) for _ in range(points)]) for d in dims[:2]})
                break
            steps.append({d: random_indexer(rng, 5) for d in dims})
        a, b = ours, truth
        try:
            for step in steps:
                b = b.isel(step)
        except (IndexError, ValueError):
            continue
        for step in steps:
            a = a.isel(step)
        xr.testing.assert_identical(a.load(), b)


@pytest.mark.parametrize("scheduler", ["threads", pytest.param("processes", marks=pytest.mark.slow)])
def test_dask(cube, scheduler):
    ds = opened(cube[0], chunks={})
    assert ds["v"].chunks[1] == (7, 7, 7, 7, 2)
    with dask.config.set(scheduler=scheduler):
        np.testing.assert_array_equal(ds["v"].max("time").compute(), original(cube[0])["v"].max("time"))
        np.testing.assert_array_equal(ds["v"].isel(x=slice(None, None, -3))[::2].values, cube[1][::2, :, ::-3])
    again = opened(cube[0], chunks={})
    assert ds["v"].data.name == again["v"].data.name


def total(ds):
    return float(ds["v"].isel(time=slice(3)).sum())


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes(cube, method):
    ds = opened(cube[0])
    expected = total(ds)
    assert total(pickle.loads(pickle.dumps(opened(cube[0])))) == expected
    with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context(method)) as pool:
        assert list(pool.map(total, [opened(cube[0])] * 4)) == [expected] * 4


def test_a_changed_file_is_refused(cube, tmp_path):
    path = tmp_path / "changing.nc"
    shutil.copy(cube[0], path)
    pickled = pickle.dumps(opened(path))
    array = opened(path)["v"]
    with h5netcdf.File(path, "a") as f:
        f["v"][...] = 0
    os.utime(path, (1, 1))
    with pytest.raises(virtualize.ChangedError):
        pickle.loads(pickled)["v"].load()
    with pytest.raises(virtualize.ChangedError):
        array.load()


def test_threads(cube):
    ds = opened(cube[0], cache=False)
    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        for i, values in enumerate(pool.map(lambda i: ds["v"][i % 20].values, range(128))):
            np.testing.assert_array_equal(values, cube[1][i % 20])


def test_a_running_event_loop(cube):
    async def run():
        ds = opened(cube[0], cache=False)
        np.testing.assert_array_equal(ds["v"][3].values, cube[1][3])
        loaded = await opened(cube[0]).load_async()
        np.testing.assert_array_equal(loaded["v"].values, cube[1])

    asyncio.run(run())


def test_what_was_read_is_written_as_it_was(cube, tmp_path):
    opened(cube[0]).to_netcdf(tmp_path / "again.nc", engine="h5netcdf")
    with h5netcdf.File(tmp_path / "again.nc") as f:
        assert f["v"].chunks == (3, 7, 11) and f["v"].shuffle and f["v"].compression == "gzip"
    xr.testing.assert_identical(original(tmp_path / "again.nc"), original(cube[0]))


@pytest.mark.parametrize("name", ["cog", "cog_rgb", "five_bands"])
def test_bands_and_overviews_are_named_as_in_rioxarray(name, fixtures):
    import rioxarray

    path = fixtures / f"tiff/{name}.tif"
    found = xr.open_dataset(path, engine="virtualize", band_as_variable=True, mask_and_scale=False)
    expected = rioxarray.open_rasterio(path, band_as_variable=True)
    assert list(found) == list(expected)
    for band in expected:
        np.testing.assert_array_equal(found[band], expected[band])
    if name == "five_bands":
        return
    found = xr.open_dataset(path, engine="virtualize", overview_level=1, mask_and_scale=False)
    expected = rioxarray.open_rasterio(path, overview_level=1)
    assert found.band_data.dims == ("band", "y", "x")
    np.testing.assert_array_equal(found.band_data, expected)
    np.testing.assert_allclose(found.x, expected.x)
    assert found.attrs["spatial:dimensions"] == ["y", "x"]
    assert found.rio.crs == expected.rio.crs


def test_overviews_of_masked_images_and_packing_of_each_band(tmp_path):
    """Masks are groups too, so the first overview is not the group 1; bands with packing of their own are unpacked one by one."""
    import rasterio
    import rioxarray

    data = np.random.default_rng(1).integers(0, 200, (1, 64, 64)).astype("u1")
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True):
        with rasterio.open(tmp_path / "a.tif", "w", driver="GTiff", width=64, height=64, count=1, dtype="uint8") as file:
            file.write(data)
            file.write_mask(data[0] > 50)
        with rasterio.open(tmp_path / "a.tif", "r+") as file:
            file.build_overviews([2, 4])
    for level in (0, 1):
        found = opened(tmp_path / "a.tif", overview_level=level, mask_and_scale=False)
        np.testing.assert_array_equal(found.band_data, rioxarray.open_rasterio(tmp_path / "a.tif", overview_level=level))
    with pytest.raises(virtualize.OptionError, match="has 2 overviews"):
        opened(tmp_path / "a.tif", overview_level=2)
    with rasterio.open(tmp_path / "b.tif", "w", driver="GTiff", width=4, height=3, count=2, dtype="int16", nodata=0) as file:
        file.write(np.arange(24).reshape(2, 3, 4).astype("i2"))
        file.scales, file.offsets, file.units = [0.5, 0.1], [0, 5], ["K", "m"]
    found = opened(tmp_path / "b.tif", band_as_variable=True)
    expected = rioxarray.open_rasterio(tmp_path / "b.tif", band_as_variable=True, mask_and_scale=True)
    for band in ("band_1", "band_2"):
        np.testing.assert_allclose(found[band], expected[band])
        assert found[band].attrs["units"] == expected[band].attrs["units"]


def test_rioxarray_reads_georeferencing():
    import rasterio
    import rioxarray  # noqa: F401

    ds = opened(COG)
    with rasterio.open(COG) as source:
        assert ds.rio.crs == source.crs and ds.rio.transform() == source.transform
        assert ds["band_data"].rio.bounds() == tuple(source.bounds)
        np.testing.assert_array_equal(opened(COG, mask_and_scale=False)["band_data"], source.read())
    assert set(ds.coords) == {"band", "x", "y", "spatial_ref"}


def test_values_that_were_unpacked_are_not_unpacked_again():
    store = virtualize.open(NETCDF, unpack=True)
    got = opened(store)["packed"]
    np.testing.assert_allclose(got, original(NETCDF)["packed"], rtol=1e-6)
