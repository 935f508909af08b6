"""The Zarr conventions `proj`, `spatial` and `multiscales`: valid by zarr-cm, and read by the programs that know them, with the position and the
coordinate reference system of the original. TIFF files have them always, HDF5 and NetCDF files on request."""
import json
import math
import random
import warnings

import numpy as np
import odc.geo.xr  # noqa: F401
import pyproj
import pytest
import rasterio
import rioxarray  # noqa: F401
import test_hdfeos
import xarray as xr
import zarr
import zarr_cm
from affine import Affine
from clients import FIXTURES, convert, open_store, register_codecs, seeds, virtualize
from rasterio.crs import CRS
from rasterio.enums import Resampling
from rasterio.transform import array_bounds, from_origin
from rio_tiler.experimental.zarr import ArrayReader

V3 = "zarr3-json"
ASKED = ("--option", "spatial-conventions=true")
NAMES = ["proj", "spatial", "multiscales"]
TIFFS = sorted(path for path in (FIXTURES / "tiff").glob("*.tif"))


def documents(references):
    """Returns the metadata of all groups and arrays by path."""
    texts = {key: value for key, value in references["refs"].items() if key.endswith("zarr.json")}
    return {key.removesuffix("zarr.json").rstrip("/"): json.loads(value) if isinstance(value, str) else value for key, value in texts.items()}


def check_valid(references):
    """Checks that everything declared is valid, and everything of a convention declared. Returns the metadata."""
    found = documents(references)
    for path, document in found.items():
        attributes = document.get("attributes", {})
        declared = {entry["name"]: entry for entry in attributes.get("zarr_conventions", [])}
        for name in NAMES:
            used = any(key == name if name == "multiscales" else key.startswith(f"{name}:") for key in attributes)
            assert used == (name in declared), (path, name)
            if used:
                module = getattr(zarr_cm, name)
                getattr(module, "validate_node_metadata", None) or pytest.fail("zarr-cm changed")
                module.validate_node_metadata(document)
                assert declared[name] == dict(module.CMO), path
        if names := attributes.get("spatial:dimensions"):
            if document["node_type"] == "array":
                sizes = dict(zip(document["dimension_names"], document["shape"]))
                assert [sizes[name] for name in names] == attributes["spatial:shape"], path
            height, width = attributes["spatial:shape"]
            corners = [Affine(*attributes["spatial:transform"]) * (x, y) for x in (0, width) for y in (0, height)]
            box = [min(x for x, _ in corners), min(y for _, y in corners), max(x for x, _ in corners), max(y for _, y in corners)]
            np.testing.assert_allclose(attributes["spatial:bbox"], box, rtol=1e-12, atol=1e-9)
    for level in found[""]["attributes"].get("multiscales", {}).get("layout", []):
        attributes = found[level["asset"]]["attributes"]
        for name in ("spatial:shape", "spatial:transform"):
            assert level.get(name) == attributes.get(name), level
    return found


def same_place(one, other, points):
    """Whether two systems have the same positions, within a millimetre. Systems without a known datum are compared by their own ellipsoid."""
    one, other = pyproj.CRS.from_user_input(one), pyproj.CRS.from_user_input(other)
    figures = [(crs.ellipsoid.semi_major_metre, crs.ellipsoid.inverse_flattening) for crs in (one, other)]
    np.testing.assert_allclose(*figures, rtol=1e-9)
    geographic = [pyproj.Transformer.from_crs(crs, crs.geodetic_crs or crs, always_xy=True) for crs in (one, other)]
    x, y = np.transpose(points)
    (a, b), (c, d) = (transformer.transform(x, y) for transformer in geographic)
    assert np.isfinite(a).any()
    np.testing.assert_allclose(np.c_[a, b], np.c_[c, d], atol=1e-8)


def gdal(tmp_path, references, array):
    """Returns what GDAL's Zarr driver says of an array."""
    path = tmp_path / "gdal.json"
    path.write_text(json.dumps(references))
    with warnings.catch_warnings(), rasterio.open(f'ZARR:"{path}":/{array}') as dataset:
        warnings.simplefilter("ignore")
        if names := dataset.subdatasets:
            with rasterio.open(names[0]) as first:
                return first.crs, first.transform
        return dataset.crs, dataset.transform


def check_readers(tmp_path, references, array, crs, transform, shape):
    """Compares position and system with what each program reads. `crs` is text, or None."""
    height, width = shape
    points = [transform * (x, y) for x in (0.5, width / 3, width - 0.5) for y in (0.5, height / 3, height - 0.5)]
    register_codecs()
    group, _, name = array.rpartition("/")
    store = open_store(references)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ds = xr.open_dataset(store, engine="zarr", group=group, consolidated=False, chunks=None, decode_coords="all", zarr_format=3)
        stored = zarr.open_array(store, path=array, mode="r", zarr_format=3)
    attributes = documents(references)[array]["attributes"]
    y_name, x_name = attributes["spatial:dimensions"]
    image = ds[name].rename({y_name: "y", x_name: "x"})
    np.testing.assert_allclose(attributes["spatial:transform"], list(transform)[:6], rtol=1e-6, atol=1e-9)
    # rioxarray: names of drafts are what its convention reader looks for, but it reads CF.
    np.testing.assert_allclose(list(image.rio.transform(recalc=True)), list(transform), rtol=1e-6, atol=abs(transform.a) / 1e4)
    if crs is None:
        assert image.rio.crs is None and not [key for key in attributes if key.startswith("proj:")]
    else:
        same_place(image.rio.crs.to_wkt(), crs, points)
        found, placed = gdal(tmp_path, references, array)
        same_place(found.to_wkt(), crs, points)
        np.testing.assert_allclose(list(placed), list(transform), rtol=1e-6, atol=abs(transform.a) / 1e4)
        box = image.odc.geobox
        # odc-geo does not know the parameters of CF.
        if {"spatial_ref", "crs_wkt"} & image[image.rio.grid_mapping].attrs.keys():
            same_place(box.crs.to_wkt(), crs, points)
        np.testing.assert_allclose(list(box.transform), list(transform), rtol=1e-6, atol=abs(transform.a) / 1e4)
    if stored.ndim > 3 or tuple(stored.shape[-2:]) != (height, width):
        return
    with ArrayReader(stored, **({} if crs else {"crs": CRS.from_epsg(4326)})) as reader:
        np.testing.assert_allclose(list(reader.transform), list(transform), rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(reader.bounds, array_bounds(height, width, transform), rtol=1e-6, atol=1e-6)
        if crs:
            same_place(reader.crs.to_wkt(), crs, points)


@pytest.mark.parametrize("path", TIFFS, ids=lambda path: path.stem)
def test_fixtures_are_valid(path):
    run = virtualize(path, "--format", V3)
    if run.status == 0:
        check_valid(run.references)


CODES = [32633, 32719, 4326, 3035, 2180, 3413, 27700, 2263, 31370, 4258, 3857]


@pytest.mark.parametrize("seed", seeds("RANDOM_CONVENTIONS", 20, 4))
def test_images_are_where_they_were(tmp_path, seed):
    rng = random.Random(seed)
    code = rng.choice(CODES)
    area = pyproj.CRS.from_epsg(code).area_of_use
    transformer = pyproj.Transformer.from_crs(4326, code, always_xy=True)
    x, y = transformer.transform(rng.uniform(area.west, area.east) / 2 + area.west / 2, (area.south + area.north) / 2)
    size = rng.choice([0.0001, 1 / 3600]) if pyproj.CRS.from_epsg(code).is_geographic else rng.choice([10.0, 0.3, 30.0])
    transform = from_origin(x, y, size, size * rng.choice([1, 2]))
    path, shape, levels = tmp_path / "image.tif", (rng.randint(40, 90), rng.randint(40, 90)), rng.choice([[], [2], [2, 4]])
    with rasterio.open(path, "w", driver="GTiff", height=shape[0], width=shape[1], count=rng.randint(1, 3), dtype="uint8", crs=f"EPSG:{code}",
                       transform=transform, tiled=True, blockxsize=32, blockysize=32, interleave="band") as out:
        out.write(np.ones((out.count, *shape), "u1"))
        if levels:
            out.build_overviews(levels, Resampling.nearest)
    references = convert(path, V3).references
    found = check_valid(references)
    assert found[""]["attributes"]["proj:code"] == f"EPSG:{code}"
    check_readers(tmp_path, references, "band_data", f"EPSG:{code}", transform, shape)
    for number in range(len(levels)):
        with rasterio.open(path, overview_level=number) as level:
            check_readers(tmp_path, references, f"{number + 1}/band_data", f"EPSG:{code}", level.transform, level.shape)


def test_an_image_with_a_system_of_its_own_has_wkt_2(tmp_path):
    path, shape, transform = tmp_path / "image.tif", (40, 50), from_origin(-1000, 2000, 10, 10)
    crs = CRS.from_string("+proj=laea +lat_0=12 +lon_0=34 +a=6371007 +b=6371007 +units=m")
    with rasterio.open(path, "w", driver="GTiff", height=40, width=50, count=1, dtype="uint8", crs=crs, transform=transform) as out:
        out.write(np.ones((1, *shape), "u1"))
    references = convert(path, V3).references
    assert "proj:wkt2" in check_valid(references)[""]["attributes"]
    check_readers(tmp_path, references, "band_data", crs.to_wkt(), transform, shape)


ELLIPSOIDS = [{"semi_major_axis": 6378137.0, "inverse_flattening": 298.257223563}, {"semi_major_axis": 6378273.0, "semi_minor_axis": 6356889.449},
              {"earth_radius": 6371229.0}]


def mappings(rng):
    """Returns a random grid mapping of CF, without the figure of the earth, that the geographic centre of the grid suits."""
    lon, lat = rng.uniform(-170, 170), rng.uniform(15, 60) * rng.choice([-1, 1])
    pole = math.copysign(90.0, lat)
    origin = {"longitude_of_projection_origin": lon, "latitude_of_projection_origin": lat}
    central = {"longitude_of_central_meridian": lon, "latitude_of_projection_origin": lat}
    name, parameters = rng.choice([
        ("albers_conical_equal_area", {**central, "standard_parallel": [lat - 5, lat + 8]}),
        ("azimuthal_equidistant", origin),
        ("lambert_azimuthal_equal_area", origin),
        ("lambert_conformal_conic", {**central, "standard_parallel": [lat - 5, lat + 8]}),
        ("lambert_conformal_conic", {**central, "standard_parallel": lat}),
        ("lambert_cylindrical_equal_area", {"longitude_of_central_meridian": lon, "standard_parallel": lat}),
        ("mercator", {"longitude_of_projection_origin": lon, "standard_parallel": lat}),
        ("mercator", {"longitude_of_projection_origin": lon, "scale_factor_at_projection_origin": 0.99}),
        ("polar_stereographic", {"straight_vertical_longitude_from_pole": lon, "latitude_of_projection_origin": pole, "standard_parallel": lat}),
        ("polar_stereographic", {"straight_vertical_longitude_from_pole": lon, "latitude_of_projection_origin": pole,
                                 "scale_factor_at_projection_origin": 0.994}),
        ("transverse_mercator", {**central, "scale_factor_at_central_meridian": 0.9996}),
        ("latitude_longitude", {}),
    ])
    shift = {} if name == "latitude_longitude" else {"false_easting": rng.choice([0.0, 5e5]), "false_northing": rng.choice([0.0, -1e6])}
    return {"grid_mapping_name": name, **parameters, **shift}


def axis(rng, count, start, step, is_up):
    """Returns the centres of cells in some precision, the outer edge of the first, and the size of a cell."""
    step = step if is_up else -step
    values = start + step * (np.arange(count) + 0.5)
    dtype = rng.choice(["f8", "f8", "f4"] + (["i4"] if (values == np.round(values)).all() else []))
    return values.astype(dtype), start, step


@pytest.mark.parametrize("seed", seeds("RANDOM_CONVENTIONS", 30, 6))
def test_grids_are_where_they_were(tmp_path, seed):
    rng = random.Random(seed)
    mapping = mappings(rng) | rng.choice(ELLIPSOIDS)
    crs, form = pyproj.CRS.from_cf(mapping), rng.choice(["parameters", "wkt", "code", "none"])
    is_geographic = mapping["grid_mapping_name"] == "latitude_longitude"
    if form == "wkt":
        mapping = {"crs_wkt": crs.to_wkt("WKT2_2019")}
    elif form == "code" or (form == "none" and not is_geographic):
        code = 4258 if is_geographic else 32633
        crs, mapping = pyproj.CRS.from_epsg(code), pyproj.CRS.from_epsg(code).to_cf()
    size, starts = (rng.choice([0.25, 0.05, 1 / 3]), (rng.uniform(-20, 0), rng.uniform(-10, 10))) if is_geographic else (rng.choice([1000.0, 25000.0]), (0.0, 500.0))
    x, left, width = axis(rng, rng.randint(2, 40), starts[0], size, True)
    y, top, height = axis(rng, rng.randint(2, 40), starts[1], size, rng.random() < 0.5)
    names = rng.choice([("y", "x"), ("lat", "lon"), ("XDim2", "q")])
    attrs = ([{"standard_name": "latitude", "units": "degrees_north"}, {"units": "degrees_east"}] if is_geographic else
             [{"standard_name": f"projection_{axis}_coordinate", "units": rng.choice(["m", "metre"])} for axis in "yx"])
    if form == "none" and is_geographic:
        mapping = None
    extended = rng.random() < 0.3
    refers = {} if mapping is None else {"grid_mapping": f"crs: {names[1]} {names[0]}" if extended else "crs"}
    ds = xr.Dataset({"v": (("time", *names), np.ones((2, len(y), len(x)), "f4"), refers), "w": (names, np.ones((len(y), len(x)), "i2"), refers),
                     "line": ("time", [1.0, 2.0])} | ({} if mapping is None else {"crs": ((), 0, mapping)}),
                    {names[0]: (names[0], y, attrs[0]), names[1]: (names[1], x, attrs[1])})
    path = tmp_path / "grid.nc"
    ds.to_netcdf(path, engine=rng.choice(["netcdf4", "h5netcdf", "scipy"]))
    references = convert(path, V3, *ASKED).references
    found = check_valid(references)
    transform = Affine(width, 0, left, 0, height, top)
    assert "spatial:transform" in found["v"]["attributes"], (mapping, form)
    assert found[""]["attributes"]["spatial:transform"] == found["v"]["attributes"]["spatial:transform"] == found["w"]["attributes"]["spatial:transform"]
    assert not [name for name in found["line"]["attributes"] if name.startswith("spatial:")]
    if extended:
        # rioxarray and GDAL do not know this form.
        if mapping:
            same_place(next(found["v"]["attributes"][key] for key in ("proj:code", "proj:wkt2") if key in found["v"]["attributes"]), crs.to_wkt(),
                       [transform * (1, 1)])
        return
    check_readers(tmp_path, references, "v", mapping and crs.to_wkt(), transform, (len(y), len(x)))
    # Without the option, nothing is added.
    assert not [name for document in check_valid(convert(path, V3).references).values() for name in document.get("attributes", {}) if ":" in name]


@pytest.mark.parametrize("seed", seeds("RANDOM_AXES", 60, 15))
def test_only_axes_of_equal_steps_have_a_position(tmp_path, seed):
    """One value of an axis is moved by more than rounding explains, or by less."""
    rng = random.Random(seed)
    dtype = np.dtype(rng.choice(["f4", "f8"]))
    count, start, step = rng.randint(3, 60), rng.uniform(-180, 150), rng.choice([0.25, 0.1, 1 / 3, 1.0])
    values = (start + step * np.arange(count)).astype(dtype)
    ulp = np.spacing(np.abs(values).max().astype(dtype))
    factor, kind = rng.choice([(0, True), (1, True), (40, False), (1000, False), (float("nan"), False)])
    at = rng.randrange(count)
    values[at] += dtype.type(factor) * ulp
    if dtype == "f8" and not kind and rng.random() < 0.5:
        # Values that float32 represents may be as far off as float32.
        values = values.astype("f4").astype("f8")
        values[at] += 40 * float(np.spacing(np.float32(np.abs(values).max())))
    if not kind and at in (0, count - 1) and count == 3:
        return
    ds = xr.Dataset({"v": (("lat", "lon"), np.ones((4, count), "f4"))},
                    {"lat": ("lat", [3.0, 2.0, 1.0, 0.0], {"units": "degrees_north"}), "lon": ("lon", values, {"units": "degrees_east"})})
    ds.to_netcdf(tmp_path / "axis.nc", engine="h5netcdf", encoding={"lon": {"_FillValue": None}, "lat": {"_FillValue": None}})
    found = check_valid(convert(tmp_path / "axis.nc", V3, *ASKED).references)
    assert ("spatial:transform" in found["v"]["attributes"]) == kind, (dtype, factor, at, count)


def grid(path, lat, lon, mapping=True, time=0, attributes=None, lon_attrs=None):
    refers = {"grid_mapping": "crs"} if mapping else {}
    ds = xr.Dataset({"v": (("time", "lat", "lon"), np.full((1, len(lat), len(lon)), time, "f4"), refers)} |
                    ({"crs": ((), 0, attributes or pyproj.CRS.from_epsg(4258).to_cf())} if mapping else {}),
                    {"time": ("time", [time], {"units": "days since 2000-01-01"}), "lat": ("lat", lat, {"units": "degrees_north", "standard_name": "latitude"}),
                     "lon": ("lon", lon, lon_attrs or {"units": "degrees_east", "standard_name": "longitude"})})
    ds.to_netcdf(path, engine="h5netcdf", unlimited_dims=[])
    return path


LAT, LON = np.arange(10.0, 0.0, -0.5), np.arange(0.0, 30.0, 0.5)


@pytest.mark.parametrize("why, options", {
    "packed": {"lon": (LON * 10).astype("i2"), "lon_attrs": {"units": "degrees_east", "scale_factor": 0.1}},
    "radians": {"lon_attrs": {"units": "radian", "standard_name": "longitude"}},
    "rotated": {"attributes": {"grid_mapping_name": "rotated_latitude_longitude", "grid_north_pole_latitude": 40.0, "grid_north_pole_longitude": -170.0}},
    "unknown mapping": {"attributes": {"grid_mapping_name": "spilhaus"}},
    "an unnamed figure": {"attributes": {"grid_mapping_name": "latitude_longitude", "horizontal_datum_name": "NAD27"}},
    "projected system with degrees": {"attributes": {"crs_wkt": pyproj.CRS.from_epsg(32633).to_wkt()}},
    "one value": {"lon": LON[:1]},
    "other coordinates": {"lon_attrs": {"units": "degrees_east", "standard_name": "grid_longitude"}},
}.items(), ids=lambda it: it if isinstance(it, str) else "")
def test_no_position_without_certainty(tmp_path, why, options):
    path = grid(tmp_path / "grid.nc", LAT, options.pop("lon", LON) if "lon" in options else LON, **options)
    found = check_valid(convert(path, V3, *ASKED).references)
    assert not [name for document in found.values() for name in document.get("attributes", {}) if name.startswith(("spatial:", "proj:", "_CRS"))], why


def joined(tmp_path, *arguments, options=ASKED):
    out = tmp_path / "joined.json"
    run = virtualize("batch", *arguments, "-f", V3, "-o", out, "--restart", "--overwrite", *options)
    assert run.status == 0, run.stderr
    return json.loads(out.read_bytes())


def test_joined_grids(tmp_path):
    """Files joined along time keep their position; files joined along latitude get that of the whole, unless there is a gap."""
    north, south = grid(tmp_path / "a.nc", LAT.astype("f4"), LON), grid(tmp_path / "b.nc", (LAT - 10).astype("f4"), LON)
    later = grid(tmp_path / "c.nc", LAT.astype("f4"), LON, time=1)
    gap = grid(tmp_path / "d.nc", (LAT - 11).astype("f4"), LON)
    for paths, dimension, rows in ([north, later], "time", 20), ([north, south], "lat", 40):
        references = joined(tmp_path, *paths, "--concat-dim", dimension)
        found = check_valid(references)
        assert found[""]["attributes"]["spatial:shape"] == [rows, 60]
        check_readers(tmp_path, references, "v", "EPSG:4258", Affine(0.5, 0, -0.25, 0, -0.5, 10.25), (rows, 60))
    found = check_valid(joined(tmp_path, north, gap, "--concat-dim", "lat"))
    assert not [name for name in found["v"]["attributes"] | found[""]["attributes"] if name.startswith("spatial:")]
    found = check_valid(joined(tmp_path, north, later, "--concat-dim", "time", options=()))
    assert "zarr_conventions" not in found[""]["attributes"]


def test_joined_images(tmp_path):
    """Mosaics have the position of the whole, also in their levels; with a gap, none."""
    paths = []
    for k in range(3):
        paths.append(tmp_path / f"{k}.tif")
        with rasterio.open(paths[-1], "w", driver="GTiff", height=64, width=64, count=1, dtype="uint8", crs="EPSG:32633", tiled=True, blockxsize=32,
                           blockysize=32, transform=from_origin(5e5 + 640 * k, 4e6, 10, 10)) as out:
            out.write(np.full((1, 64, 64), k, "u1"))
            out.build_overviews([2], Resampling.nearest)
    references = joined(tmp_path, *paths, "--concat-dim", "x", options=())
    found = check_valid(references)
    assert found[""]["attributes"]["spatial:shape"] == [64, 192]
    for array, size in ("band_data", 1), ("1/band_data", 2):
        check_readers(tmp_path, references, array, "EPSG:32633", from_origin(5e5, 4e6, 10 * size, 10 * size), (64 // size, 192 // size))
    found = check_valid(joined(tmp_path, paths[0], paths[2], "--concat-dim", "x", options=()))
    assert not [name for name in found["band_data"]["attributes"] | found[""]["attributes"] if name.startswith("spatial:")]
    assert found["band_data"]["attributes"].keys() >= {"grid_mapping"} and found[""]["attributes"]["proj:code"] == "EPSG:32633"


@pytest.mark.parametrize("name", test_hdfeos.GRIDS)
def test_grids_of_hdf_eos(tmp_path, name):
    """The position that StructMetadata defines is declared on the fields."""
    keys, corners = test_hdfeos.GRIDS[name]
    path = test_hdfeos.grid(tmp_path / "grid.he5", keys, **corners)
    found = check_valid(convert(path, V3, *ASKED).references)
    attributes, mapping = found[f"{test_hdfeos.FIELDS}/v"]["attributes"], found[f"{test_hdfeos.FIELDS}/spatial_ref"]["attributes"]
    expected = Affine.from_gdal(*map(float, mapping["GeoTransform"].split()))
    np.testing.assert_allclose(attributes["spatial:transform"], list(expected)[:6], rtol=1e-9, atol=1e-6)
    system = mapping.get("crs_wkt") or mapping.get("spatial_ref")
    assert (attributes.get("proj:wkt2") or attributes.get("proj:code")) == system


def test_appended_images(tmp_path):
    """A repository that grows has the position of the whole."""
    import icechunk
    paths, repository = [], tmp_path / "mosaic.icechunk"
    for k in range(3):
        paths.append(tmp_path / f"{k}.tif")
        with rasterio.open(paths[-1], "w", driver="GTiff", height=64, width=64, count=1, dtype="uint8", crs="EPSG:32633", tiled=True, blockxsize=32,
                           blockysize=32, transform=from_origin(5e5 + 640 * k, 4e6, 10, 10)) as out:
            out.write(np.full((1, 64, 64), k, "u1"))
    for count, more in ((2, []), (3, ["--append"])):
        run = virtualize("batch", *paths[:count], "--concat-dim", "x", "-f", "icechunk", "-o", repository, *more)
        assert run.status == 0, run.stderr
        session = icechunk.Repository.open(icechunk.local_filesystem_storage(str(repository))).readonly_session("main")
        group = zarr.open_group(session.store, mode="r")
        for attributes in (group.attrs, group["band_data"].attrs):
            assert attributes["spatial:shape"] == [64, 64 * count] and attributes["spatial:transform"] == [10.0, 0.0, 5e5, 0.0, -10.0, 4e6]
