"""GeoKeys of all kinds as coordinate reference systems: equal to rasterio's, or a diagnostic; never another system."""
import random

import clients
import numpy as np
import pytest
from clients import FORMATS

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
    "own projection": {**MERCATOR, 2048: 4326},
    "own projection on a named datum": {**MERCATOR, 2048: 4258},
    "own projection, other ellipsoid": {**MERCATOR, 2048: 4258, 2057: 6370000.0, 2059: 290.0},
    "own projection, rounded ellipsoid": {**MERCATOR, 2048: 4326, 2057: 6378140.0, 2059: 298.257},
    "WGS 84 with itself as ellipsoid": {**GEOGRAPHIC, 2056: 4326},
    "own projection on a datum by its code": {**MERCATOR, 2048: 32767, 2050: 6269, 2057: 6378137.0, 2059: 298.257222101},
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
# Systems without an EPSG code.
LEFT_OUT = {
    "geographic system of another code": {**PROJECTED, 2048: 4269},
    "geographic system of its own": {**PROJECTED, 2048: 32767},
    "datum of another code": {**PROJECTED, 2050: 6269},
    "ellipsoid of another code": {**PROJECTED, 2056: 7001},
    "projection of its own": {**PROJECTED, 3075: 7, 3092: 0.5},
    "flattening": {**LAMBERT, 2048: 4313, 2057: 6378388.0, 2059: 290.0},
    "axis": {**BELGIUM, 2057: 6378137.0},
    "semi-minor axis": {**BELGIUM, 2058: 6356000.0},
    "ellipsoid of a geographic system": {**BELGIUM, 2056: 7030},
    "meridian": {**BELGIUM, 2051: 8903},
    "angles": {**BELGIUM, 2054: 9105},
    "angles of a projected system": {1024: 1, 3072: 27572, 2048: 4807, 2054: 9102},
    "lengths": {**PROJECTED, 3076: 9002},
    "size of the unit": {**PROJECTED, 3076: 32767, 3077: 0.3048},
    "geographic code without a model": {2048: 4326},
    "geographic code of a projected model": {1024: 1, 2048: 4326},
    "geocentric": {1024: 3, 2048: 4978},
    "geocentric with a projected code": {1024: 3, 3072: 32631},
    "code of nothing": {1024: 1, 3072: 9999},
    "own system with the ellipsoid of another": {1024: 2, 2050: 6313, 2056: 7019},
    "geographic model with a projected code": {1024: 2, 2050: 6313, 3072: 3857},
    "model without more": {1024: 2},
    "own projection, other axis only": {**MERCATOR, 2048: 4258, 2057: 6370000.0},
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
            case float():
                shorts += [key, 34736, 1, len(doubles)]
                doubles.append(value)
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
    """Returns (our system, rasterio's, codes of our diagnostics). Coordinates and shapes must be equal."""
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
    return shown.rio.crs, system, {code for _, code in run.codes if "crs" in code}


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


@pytest.mark.parametrize("name", LEFT_OUT)
def test_contradictions_are_left_out_with_a_reason(tmp_path, fmt, name):
    ours, _, codes = compare(write(tmp_path / "keys.tif", LEFT_OUT[name]), fmt)
    assert ours is None and codes == {"tiff-crs"}


def test_heights_beside_an_own_system_are_left_out_with_a_reason(tmp_path, fmt):
    keys = {**MERCATOR, 2048: 4326, 4096: 5773}
    ours, theirs, codes = compare(write(tmp_path / "keys.tif", keys, 1), fmt)
    assert ours is not None and ours != theirs and codes == {"tiff-vertical-crs"}


@pytest.mark.parametrize("name", FLAT)
def test_heights_that_no_code_says_are_left_out_with_a_reason(tmp_path, fmt, name):
    ours, theirs, codes = compare(write(tmp_path / "keys.tif", FLAT[name], 1), fmt)
    horizontal = FLAT[name].get(3072) or FLAT[name][2048]
    assert ours.to_epsg() == horizontal and ours != theirs and codes == {"tiff-vertical-crs"}


POOL = {
    2048: [4326, 4269, 4313, 32767], 2050: [6326, 6269, 6313, 32767], 2051: [8901, 8903], 2054: [9102, 9104, 9105],
    2056: [7030, 7022, 7019], 2057: [6378137.0, 6378388.0, 6370000.0], 2058: [6356000.0, 6378137.0],
    2059: [298.257223563, 297.0, 298.257222101], 2061: [0.0, 2.5], 3074: [16031, 16032, 32767], 3075: [1, 7, 8],
    3076: [9001, 9002, 9003, 32767], 3077: [1.0, 0.3048], 3080: [3.0], 3092: [0.9996], 3082: [500000.0], 4096: [5773, 4979, 32767],
    4098: [5171], 4099: [9001, 9002], 5120: [2010.5],
}


def test_any_keys_are_never_silently_another_system(tmp_path):
    """Random keys: rasterio's system, or none, or a diagnostic. Ellipsoids that differ only by rounding are excluded."""
    rng, wrong = random.Random(1), []
    for _ in range(150):
        keys = {key: rng.choice(POOL[key]) for key in rng.sample(sorted(POOL), rng.randint(0, 4))}
        keys |= rng.choice([{1024: 1}, {1024: 2}, {1024: 1}, {1024: 2}, {}, {1024: 3}, {1024: 32767}])
        if rng.random() < 0.7:
            keys[3072] = rng.choice([32631, 31370, 32767, 3857, 2154])
        if rng.random() < 0.5:
            keys[2048] = rng.choice([4326, 4313])
        minor = rng.choice([0, 1])
        ours, theirs, codes = compare(write(tmp_path / "keys.tif", keys, minor), rng.choice(sorted(FORMATS)))
        if ours is not None and ours != theirs and not codes:
            wrong.append((keys, minor, str(ours), str(theirs)))
    assert not wrong, wrong
