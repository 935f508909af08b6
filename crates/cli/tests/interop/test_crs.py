"""GeoKeys of all kinds as coordinate reference systems: positions are those of rasterio's system, or a diagnostic names a key."""
import json
import math
import random

import clients
import numpy as np
import pytest
from clients import FORMATS, either_format  # noqa: F401

PROJECTED, GEOGRAPHIC = {1024: 1, 3072: 32631}, {1024: 2, 2048: 4326}
BELGIUM, LAMBERT = {1024: 2, 2048: 4313}, {1024: 1, 3072: 31370}
MERCATOR = {1024: 1, 3072: 32767, 3075: 7, 3076: 9001, 3080: 2.0, 3081: 0.0, 3092: 1.0, 3082: 0.0, 3083: 0.0}

# Systems that rasterio reads, mapped as they are.
SAME = {
    "code": PROJECTED,
    "code without a model": {3072: 32631},
    "code with a model of its own": {**PROJECTED, 1024: 32767},
    "code and its geographic system": {**PROJECTED, 2048: 4326},
    "geographic": GEOGRAPHIC,
    "geographic beside projected": {**GEOGRAPHIC, 3072: 32631},
    "every part as in the dataset": {**PROJECTED, 2048: 4326, 2050: 6326, 2056: 7030, 2057: 6378137.0, 2059: 298.257223563},
    "ellipsoid as in the dataset": {**LAMBERT, 2048: 4313, 2057: 6378388.0, 2059: 297.0},
    "datum as in the dataset": {**BELGIUM, 2050: 6313, 2056: 7022},
    "rounded flattening": {1024: 2, 2048: 4267, 2057: 6378206.4, 2059: 294.978698},
    "WGS 84 with the ellipsoid of GRS 1980": {**GEOGRAPHIC, 2057: 6378137.0, 2059: 298.257222101},
    "Web Mercator with a sphere": {1024: 1, 3072: 3857, 2050: 1, 2056: 1, 2057: 6378137.0, 2058: 6378137.0},
    "grads from Paris": {1024: 1, 3072: 27572, 2048: 4807, 2054: 9105, 2051: 8903},
    "geographic in grads": {1024: 2, 2048: 4807, 2054: 9105},
    "three dimensions": {1024: 2, 2048: 4979},
    "WGS 84 with itself as ellipsoid": {**GEOGRAPHIC, 2056: 4326},
    "WGS 84 with the ellipsoid of another": {**GEOGRAPHIC, 2057: 6370000.0, 2059: 290.0},
    "geographic model with the code of a projected system": {1024: 2, 2050: 6313, 3072: 3857},
    "angles without effect": {1024: 1, 3072: 31370, 2048: 4313, 2054: 9102},
    "a method of the file's own, undefined": {**PROJECTED, 3075: 32767},
}
# Systems that the file defines itself.
OWN = {
    "named system": {**MERCATOR, 2048: 4326},
    "system without a known name": {**MERCATOR, 2048: 4211},
    "other ellipsoid": {**MERCATOR, 2048: 4258, 2057: 6370000.0, 2059: 290.0},
    "rounded ellipsoid": {**MERCATOR, 2048: 4326, 2057: 6378140.0, 2059: 298.257},
    "datum by its code": {**MERCATOR, 2048: 32767, 2050: 6269, 2057: 6378137.0, 2059: 298.257222101},
    "ellipsoid by its code": {1024: 2, 2056: 7001},
    "sphere by semi-axes": {1024: 1, 3072: 32767, 3075: 24, 3088: 0.0, 2057: 6371007.181, 2058: 6371007.181},
    "three parameters to WGS 84": {**MERCATOR, 2057: 6378137.0, 2059: 298.257222101, 2062: [-191.9, -39.3, -111.4]},
    "seven parameters to WGS 84": {**MERCATOR, 2057: 6378388.0, 2059: 297.0, 2062: [1.0, 2.0, 3.0, 0.4, 0.5, 0.6, 7.0]},
    "shift on the ellipsoid of WGS 84": {**MERCATOR, 2056: 7030, 2062: [100.0, 20.0, -30.0]},
    "shift of a geographic system": {1024: 2, 2057: 6378388.0, 2059: 297.0, 2062: [100.0, 20.0, -30.0]},
    "shift that GDAL ignores": {**MERCATOR, 2048: 4313, 2062: [100.0, 20.0, -30.0]},
    "Mercator as Esri writes it": {**MERCATOR, 2048: 4326, 3081: -33.014167},
    "meridian of Paris": {1024: 2, 2050: 6275, 2051: 8903},
    "grads": {**MERCATOR, 2048: 4326, 2054: 9105, 3075: 1, 3081: 20.0},
    "datum by its Esri name": {**MERCATOR, 2048: 32767, 2049: "GCS Name = x|Datum = D_European_1950|Ellipsoid = y|Primem = Greenwich|", 2057: 6378388.0, 2059: 297.0},
    "text of Esri in a projected file": {**MERCATOR, 2048: 4326, 1026: 'ESRI PE String = PROJCS["x"]'},
    "text of Esri": {1024: 32767, 3073: """ESRI PE String = PROJCS["x",GEOGCS["GCS_WGS_1984",DATUM["D_WGS_1984",SPHEROID["WGS_1984",6378137,298.257223563]],PRIMEM["Greenwich",0],UNIT["Degree",0.0174532925199433]],PROJECTION["Mollweide"],PARAMETER["False_Easting",5],PARAMETER["False_Northing",0],PARAMETER["Central_Meridian",10],UNIT["Meter",1]]"""},
    "unit by its size": {**MERCATOR, 2048: 4326, 3076: 32767, 3077: 0.3},
    "code with a complete projection": {**PROJECTED, 3075: 1, 3080: 4.0, 3092: 0.9996, 3082: 500000.0},
}
# The same with minor revision 1 (GeoTIFF 1.1).
HEIGHTS = {
    "projected and heights": {**PROJECTED, 4096: 5773},
    "heights with datum and unit": {**PROJECTED, 4096: 5773, 4098: 5171, 4099: 9001},
    "heights in feet": {**PROJECTED, 4096: 6360, 4099: 9003},
    "geographic and heights": {**GEOGRAPHIC, 4096: 5773},
    "NAD83 and NAVD88": {1024: 2, 2048: 4269, 4096: 5703},
    "ellipsoidal heights": {**GEOGRAPHIC, 4096: 4979},
    "ellipsoidal heights by the old code": {**GEOGRAPHIC, 4096: 5030},
    "ellipsoidal heights elsewhere": {1024: 2, 2048: 8255, 4096: 8254},
    "heights of which nobody knows": {**PROJECTED, 4096: 9999},
    "citation only": {**PROJECTED, 4097: "heights"},
}
# Systems that GDAL cannot tell or that have no exact equivalent, and the key to name.
REFUSED = {
    "geographic system of another code": ({**PROJECTED, 2048: 4269}, "GeodeticCRSGeoKey"),
    "geographic system of its own": ({**PROJECTED, 2048: 32767}, "EllipsoidSemiMajorAxisGeoKey"),
    "datum of another code": ({**PROJECTED, 2050: 6269}, "GeodeticDatumGeoKey"),
    "ellipsoid of another code": ({**PROJECTED, 2056: 7001}, "EllipsoidGeoKey"),
    "flattening": ({**LAMBERT, 2048: 4313, 2057: 6378388.0, 2059: 290.0}, "EllipsoidInvFlatteningGeoKey"),
    "axis": ({**BELGIUM, 2057: 6378137.0}, "EllipsoidSemiMajorAxisGeoKey"),
    "semi-minor axis": ({**BELGIUM, 2058: 6356000.0}, "EllipsoidSemiMinorAxisGeoKey"),
    "ellipsoid of a geographic system": ({**BELGIUM, 2056: 7030}, "EllipsoidGeoKey"),
    "meridian": ({**BELGIUM, 2051: 8903}, "PrimeMeridianGeoKey"),
    "angles": ({**BELGIUM, 2054: 9105}, "GeogAngularUnitsGeoKey"),
    "lengths": ({**PROJECTED, 3076: 9002}, "ProjLinearUnitsGeoKey"),
    "size of the unit": ({**PROJECTED, 3076: 32767, 3077: 0.3048}, "ProjLinearUnitsGeoKey"),
    "unit of a citation": ({**PROJECTED, 1026: "IMAGINE GeoTIFF Support\nx $\nUnits = feet"}, "GTCitationGeoKey"),
    "projection beside a code": ({**PROJECTED, 3075: 7, 3092: 0.5}, "ProjMethodGeoKey"),
    "geographic code without a model": ({2048: 4326}, "GTModelTypeGeoKey"),
    "geographic code of a projected model": ({1024: 1, 2048: 4326}, "ProjMethodGeoKey"),
    "unknown projection": ({**MERCATOR, 2048: 4326, 3075: 2}, "ProjMethodGeoKey"),
    "projection by a code": ({1024: 1, 2048: 4267, 3072: 32767, 3074: 10406}, "ProjectionGeoKey"),
    "zone by its name": ({**MERCATOR, 2048: 4326, 3073: "State Plane Zone 3301 NAD27"}, "ProjectedCitationGeoKey"),
    "one standard parallel of two": ({**MERCATOR, 2048: 4326, 3075: 8, 3078: 30.0}, "ProjStdParallel2GeoKey"),
    "geocentric": ({1024: 3, 2048: 4978}, "GTModelTypeGeoKey"),
    "geocentric with a projected code": ({1024: 3, 3072: 32631}, "GTModelTypeGeoKey"),
    "code of nothing": ({1024: 1, 3072: 9999}, "ProjectedCRSGeoKey"),
    "model without more": ({1024: 2}, "EllipsoidSemiMajorAxisGeoKey"),
    "shift of a datum that PROJ knows by its name": (
        {**MERCATOR, 2049: "GCS Name = x|Datum = Vietnam_2000|", 2057: 6378137.0, 2059: 298.257223563, 2062: [1.0, 2.0, 3.0]},
        "GeogTOWGS84GeoKey"),
    "shift of a known datum with heights": ({**MERCATOR, 2048: 4267, 2062: [1.0, 2.0, 3.0], 4096: 5773}, "GeogTOWGS84GeoKey"),
    "Web Mercator by its name at Esri": ({**MERCATOR, 2048: 4326, 1026: "PCS Name = WGS_1984_Web_Mercator_Auxiliary_Sphere|"}, "GTCitationGeoKey"),
    "angles by their name": ({1024: 2, 2048: 32767, 2057: 6378249.2, 2059: 293.4660213, 2049: "GCS Name = GCS_NTF|AUnits = Grad|"}, "GeodeticCitationGeoKey"),
    "name of a system in feet": ({**MERCATOR, 2048: 4269, 3076: 9003, 3073: "PCS Name = x|"}, "ProjectedCitationGeoKey"),
}
# Systems whose heights cannot be represented; the horizontal part can.
FLAT = {
    "projected with ellipsoidal heights": {**PROJECTED, 4096: 4979},
    "heights of the file's own": {**PROJECTED, 4096: 32767, 4099: 9001},
    "heights of the file's own without more": {**PROJECTED, 4096: 32767},
    "unit of heights only": {**GEOGRAPHIC, 4099: 9001},
    "old code of other ellipsoidal heights": {**GEOGRAPHIC, 4096: 5019},
}


def write(path, keys, minor=0):
    import tifffile
    shorts, doubles, text = [], [], ""
    for key, value in sorted(keys.items()):
        match value:
            case int():
                shorts += [key, 0, 1, value]
            case float() | list():
                values = value if isinstance(value, list) else [value]
                shorts += [key, 34736, len(values), len(doubles)]
                doubles += values
            case str():
                shorts += [key, 34737, len(value) + 1, len(text)]
                text += value + "|"
    directory = [1, 1, minor, len(keys), *shorts]
    tags = [(33550, 12, 3, (10.0, 10.0, 0.0), True), (33922, 12, 6, (0.0, 0.0, 0.0, 1000.0, 2000.0, 0.0), True),
            (34735, 3, len(directory), tuple(directory), True)]
    tags += [(34736, 12, len(doubles), tuple(doubles), True)] if doubles else []
    tags += [(34737, 2, len(text) + 1, text, True)] if text else []
    tifffile.imwrite(path, np.arange(12, dtype="u1").reshape(3, 4), photometric="minisblack", extratags=tags, metadata=None)
    return path


def compare(path, fmt):
    """Returns (our system, rasterio's, our diagnostics by code). Coordinates and shapes must be equal."""
    import rasterio, rioxarray
    run = clients.virtualize(path, "--format", fmt)
    assert run.status == 0, run.stderr
    shown = clients.open_dataset(run.references, FORMATS[fmt])
    import xarray
    shown = xarray.decode_cf(shown, decode_coords="all", mask_and_scale=False)
    with rasterio.open(path) as original:
        assert shown.rio.transform() == original.transform
        system = original.crs
    with rioxarray.open_rasterio(path) as truth:
        assert (shown.x.values == truth.x.values).all() and (shown.y.values == truth.y.values).all()
        assert shown.band_data.rio.nodata == truth.rio.nodata
    return shown.rio.crs, system, {code: run.stderr for _, code in run.codes if "crs" in code}


def coordinates(system):
    """Coordinates near the origin of a system."""
    import pyproj
    while system.is_bound or system.is_compound:
        system = system.source_crs if system.is_bound else system.sub_crs_list[0]
    if system.is_geographic:
        unit = math.degrees(system.axis_info[0].unit_conversion_factor)
        return [(x / unit, y / unit) for x, y in [(3.0, 50.0), (-100.0, 20.0), (151.0, -33.0)]]
    east = next((p.value * math.degrees(p.unit_conversion_factor) for p in system.coordinate_operation.params if "ongitude" in p.name), 0)
    unit = math.degrees(system.geodetic_crs.axis_info[0].unit_conversion_factor)
    project = pyproj.Transformer.from_crs(system.geodetic_crs, system, always_xy=True)
    near = [project.transform((east + x) / unit, y / unit) for x, y in [(1, 50), (-2, 10), (2, -30), (1.5, 84), (0.5, -84)]]
    return [(x, y) for x, y in near if math.isfinite(x) and math.isfinite(y)]


def metres_apart(ours, theirs):
    """Distance of the positions of two systems, in metres; `None` if PROJ cannot place coordinates of theirs."""
    import pyproj
    try:
        theirs = pyproj.CRS.from_wkt(theirs.to_wkt())
        points = coordinates(theirs)
        truth = [pyproj.Transformer.from_crs(theirs, 4326, always_xy=True).transform(*point) for point in points]
    except (pyproj.exceptions.CRSError, pyproj.exceptions.ProjError, AttributeError, TypeError):
        return None
    if not truth:
        return None
    found = pyproj.Transformer.from_crs(pyproj.CRS.from_wkt(ours.to_wkt()), 4326, always_xy=True)
    pairs = [(a, found.transform(*point)) for a, point in zip(truth, points) if all(map(math.isfinite, a))]
    return max((pyproj.Geod(ellps="WGS84").inv(*a, *b)[2] for a, b in pairs), default=None)


@pytest.mark.parametrize("name", SAME)
def test_systems_are_those_of_rasterio(tmp_path, fmt, name):
    for minor in (0, 1):
        ours, theirs, codes = compare(write(tmp_path / "keys.tif", SAME[name], minor), fmt)
        assert ours == theirs and not codes, (ours, theirs, codes)


@pytest.mark.parametrize("name", HEIGHTS)
def test_heights_are_those_of_rasterio(tmp_path, fmt, name):
    for minor in (0, 1):
        ours, theirs, codes = compare(write(tmp_path / "keys.tif", HEIGHTS[name], minor), fmt)
        assert ours == theirs and not codes, (minor, ours, theirs, codes)


@pytest.mark.parametrize("name", OWN)
def test_own_systems_place_coordinates_as_rasterio(tmp_path, fmt, name):
    ours, theirs, codes = compare(write(tmp_path / "keys.tif", OWN[name]), fmt)
    assert metres_apart(ours, theirs) < 1e-3 and not codes, (ours, theirs, codes)


@pytest.mark.parametrize("name", REFUSED)
def test_refused_systems_name_their_key(tmp_path, fmt, name):
    keys, key = REFUSED[name]
    ours, _, codes = compare(write(tmp_path / "keys.tif", keys), fmt)
    assert ours is None and f" {key} is " in codes["tiff-crs"]


def test_heights_with_an_own_system_are_omitted_with_a_reason(tmp_path, fmt):
    keys = {**MERCATOR, 2048: 4326, 4096: 5773}
    ours, theirs, codes = compare(write(tmp_path / "keys.tif", keys, 1), fmt)
    assert ours is not None and ours != theirs and set(codes) == {"tiff-vertical-crs"}


@pytest.mark.parametrize("name", FLAT)
def test_heights_that_no_code_says_are_omitted_with_a_reason(tmp_path, fmt, name):
    ours, theirs, codes = compare(write(tmp_path / "keys.tif", FLAT[name], 1), fmt)
    horizontal = FLAT[name].get(3072) or FLAT[name][2048]
    assert ours.to_epsg() == horizontal and ours != theirs and set(codes) == {"tiff-vertical-crs"}


BASES = [
    *({2048: code} for code in (4326, 4267, 4258, 4313, 4807, 4211, 4937, 9999)), *({2048: 32767, 2050: code} for code in (6326, 6267, 6313, 32767)),
    {2057: 6378388.0, 2059: 297.0}, {2057: 6378137.0, 2058: 6356752.314}, {2057: 6371007.181, 2058: 6371007.181}, {2056: 7019}, {},
    {2048: 4326, 2057: 6370000.0, 2059: 290.0}, {2048: 4326, 2050: 6326, 2056: 7030, 2057: 6378137.0, 2059: 298.257223563}, {2057: 6370000.0},
    {2048: 32767, 2049: "GCS Name = x|Datum = European_Datum_1950|Ellipsoid = y|Primem = z|", 2057: 6378388.0, 2059: 297.0, 2061: 3.5},
]
MORE = {
    1026: ["a name", "LUnits = feet", "PCS Name = x"], 2050: [6326, 6313, 1], 2051: [8901, 8903, 32767], 2052: [9001, 9002], 2054: [9102, 9101, 9104, 9105, 9110, 32767],
    2055: [0.0157], 2056: [7030, 7022], 2057: [6378137.0, 6370000.0], 2058: [6356752.3142, 6371007.181], 2059: [298.257223563, 297.0, 0.0],
    2061: [0.0, 2.5], 2062: [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 0.1, 0.2, 0.3, 4.0], [0.0] * 7], 3072: [32631, 31370, 3857, 27572], 3073: ["a name", "LUnits = metre"],
    3074: [16031, 16132, 10406], 4096: [5773, 4979, 5030, 32767], 4098: [5171], 4099: [9001, 9002], 5120: [2010.5],
}
METHODS = [*range(1, 29), 9815, 32767]
ORIGINS, OFFSETS = [(3080, 3081), (3084, 3085), (3088, 3089), (3095, 3081)], [(3082, 3083), (3086, 3087), (3090, 3091)]
UNITS = [{3076: 9001}, {3076: 9001}, {}, {3076: 9002}, {3076: 9003}, {3076: 9036}, {3076: 32767, 3077: 0.3048}, {3077: 0.3048}, {3076: 9040}]


def random_keys(rng):
    """Keys of a geographic system, of a code, or mostly of a projection with any of the aliases of its parameters."""
    keys = dict(rng.choice(BASES))
    match rng.random():
        case kind if kind < 0.15:
            keys[1024] = 2
        case kind if kind < 0.3:
            keys = {1024: 1, 3072: rng.choice([32631, 31370, 2263, 27572, 3857, 32767]), **(keys if rng.random() < 0.5 else {}), **rng.choice(UNITS)}
        case _:
            method = rng.choice(METHODS)
            longitude, latitude = rng.choice(ORIGINS)
            keys |= {1024: 1, 3072: 32767, 3075: method, longitude: rng.choice([0.0, 9.0, -96.0, 151.0]), **rng.choice(UNITS)}
            keys[latitude] = rng.choice([0.0, 90.0, -71.0] if method == 15 else [0.0, 23.0, -33.0, 52.0])
            keys |= dict(zip(rng.choice(OFFSETS), [rng.choice([0.0, 500000.0]), 1000.0]))
            second = {rng.choice([key for pair in ORIGINS + OFFSETS for key in pair]): 5.0} if rng.random() < 0.2 else {}
            keys |= second | ({rng.choice([3092, 3093]): rng.choice([1.0, 0.9996])} if rng.random() < 0.5 else {})
            keys |= {3078: 29.5, 3079: 45.5} if method in (8, 11, 13) else {3078: 30.0} if rng.random() < 0.3 else {}
            keys |= {3094: 30.0, 3096: rng.choice([90.0, 30.0])} if method in (3, 4, 9815) else {}
    if rng.random() < 0.4:
        keys |= {key: rng.choice(MORE[key]) for key in rng.sample(sorted(MORE), rng.randint(1, 2))}
    if rng.random() < 0.05:
        keys[1024] = rng.choice([0, 3, 32767])
    return keys


@pytest.mark.parametrize("seed", clients.seeds("RANDOM_KEYS", 3, 1))
def test_any_keys_place_coordinates_as_rasterio(tmp_path, seed):
    """Random keys: positions of rasterio's system within 1 mm, or a diagnostic."""
    rng, wrong, equal = random.Random(seed), [], 0
    for _ in range(50):
        keys, minor = random_keys(rng), rng.choice([0, 1])
        ours, theirs, codes = compare(write(tmp_path / "keys.tif", keys, minor), rng.choice(sorted(FORMATS)))
        apart = metres_apart(ours, theirs) if ours else None
        equal += apart is not None and apart < 1e-3
        if apart is not None and apart >= 1e-3 or ours is None and not codes and theirs and metres_apart(theirs, theirs) is not None:
            wrong.append((keys, minor, str(ours), str(theirs), codes))
    assert not wrong, wrong
    assert equal > 15


def epsg_codes(kind):
    """Returns the codes of PROJ's database that fit into a GeoKey."""
    import pyproj
    found = pyproj.database.query_crs_info("EPSG", kind, allow_deprecated=True)
    return sorted(int(info.code) for info in found if 1024 <= int(info.code) < 32767)


def pages(tmp_path, all_keys):
    """Writes an image for each set of keys. Returns the attributes of its grid mapping and of its x, and those of its group."""
    import tifffile
    path = tmp_path / "pages.tif"
    with tifffile.TiffWriter(path) as out:
        for keys in all_keys:
            directory = [1, 1, 0, len(keys), *(item for key, value in sorted(keys.items()) for item in (key, 0, 1, value))]
            tags = [(33550, 12, 3, (1.0, 1.0, 0.0), True), (33922, 12, 6, (0.0,) * 6, True), (34735, 3, len(directory), tuple(directory), True)]
            out.write(np.zeros((1, 1), "u1"), photometric="minisblack", extratags=tags, metadata=None, contiguous=False)
    references = clients.convert(path, "kerchunk-json").references["refs"]
    attributes = lambda key: json.loads(references.get(key, "{}"))  # noqa: E731
    for n in range(len(all_keys)):
        group = f"{n}/" if n else ""
        yield attributes(f"{group}spatial_ref/.zattrs"), attributes(f"{group}x{f'_{n}' if n else ''}/.zattrs"), attributes(f"{group}.zattrs")


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["PROJECTED_CRS", "GEOGRAPHIC_2D_CRS"])
def test_every_code_of_proj(tmp_path, kind, step):
    """Each code is that of PROJ's database, and its unit is that of its axes."""
    import pyproj
    codes, is_projected = epsg_codes(pyproj.enums.PJType[kind])[::step], kind == "PROJECTED_CRS"
    keys = [{1024: 1, 3072: code} if is_projected else {1024: 2, 2048: code} for code in codes]
    written = 0
    for code, (mapping, x, group) in zip(codes, pages(tmp_path, keys), strict=True):
        if "spatial_ref" not in mapping:
            continue
        written += 1
        crs = pyproj.CRS.from_epsg(code)
        assert mapping["spatial_ref"] == group["proj:code"] == f"EPSG:{code}"
        unit = crs.axis_info[0].unit_name
        # Degrees have several names, after how they are displayed.
        expected = "degrees_east" if unit.startswith("degree") else "metre" if unit == "metre" else None
        assert x.get("units") == expected, (code, unit, x)
    assert written >= 0.995 * len(codes), (written, len(codes))


def test_every_geographic_system_as_the_base_of_a_projection(tmp_path):
    """WKT that is composed from the tables has the datum, the ellipsoid, the prime meridian and the unit of PROJ's database."""
    import pyproj
    codes = epsg_codes(pyproj.enums.PJType.GEOGRAPHIC_2D_CRS)
    keys = [{1024: 1, 2048: code, 3072: 32767, 3074: 32767, 3075: 24, 3076: 9001} for code in codes]
    written = 0
    for code, (mapping, _, group) in zip(codes, pages(tmp_path, keys), strict=True):
        if "crs_wkt" not in mapping:
            continue
        written += 1
        assert mapping["crs_wkt"] == group["proj:wkt2"]
        found, truth = pyproj.CRS.from_wkt(mapping["crs_wkt"]).geodetic_crs, pyproj.CRS.from_epsg(code)
        assert math.isclose(found.ellipsoid.semi_major_metre, truth.ellipsoid.semi_major_metre, rel_tol=1e-12), code
        assert math.isclose(found.ellipsoid.semi_minor_metre, truth.ellipsoid.semi_minor_metre, rel_tol=1e-10), code
        meridians = [crs.prime_meridian.longitude * crs.prime_meridian.unit_conversion_factor for crs in (found, truth)]
        assert math.isclose(*meridians, abs_tol=1e-11), (code, meridians)
        named = found.datum.to_json_dict().get("id") or found.to_json_dict().get("id")
        assert named is None or named in (truth.datum.to_json_dict().get("id"), truth.to_json_dict().get("id")), (code, named)
    assert written >= 0.95 * len(codes), (written, len(codes))
