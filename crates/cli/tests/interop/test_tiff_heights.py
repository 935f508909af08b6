"""Vertical coordinate reference systems: unit, scale and offset of the band equal those of GDAL."""
import itertools
import random

import clients
import numpy as np
import pytest
from clients import FORMATS, either_format  # noqa: F401

HORIZONTAL = {
    "projected": [(1024, 1), (3072, 32633)], "geographic": [(1024, 2), (2048, 4326)], "with heights": [(1024, 2), (2048, 4979)],
    "none": [], "model alone": [(1024, 1)], "local": [(1024, 32767)], "feet": [(1024, 1), (3072, 2263)], "geocentric": [(1024, 3), (2048, 4978)],
    "Amersfoort": [(1024, 1), (3072, 28992)], "NAD83": [(1024, 2), (2048, 4269)],
}
VERTICAL = {
    "EGM96": [(4096, 5773)], "NAVD88 in US feet": [(4096, 6360)], "NAVD88 in feet": [(4096, 8228)], "ellipsoid": [(4096, 5030)], "4979": [(4096, 4979)],
    "own": [(4096, 32767), (4098, 5171), (4099, 9001)], "own in feet": [(4096, 32767), (4099, 9003)], "datum": [(4098, 5171)], "unit": [(4099, 9002)],
    "unit of another": [(4096, 5773), (4099, 9002)], "reserved": [(4096, 1)], "user-defined": [(4096, 32767)], "unknown": [(4096, 2000)],
    "own in kilometres": [(4096, 32767), (4099, 9036)], "own in millimetres": [(4096, 32767), (4099, 1025)], "own in yards": [(4096, 32767), (4099, 9096)],
    "own in an unknown unit": [(4096, 32767), (4099, 2000)], "own in unit 0": [(4096, 32767), (4099, 0)], "GRS 1980 ellipsoid": [(4096, 5019)], "zero": [(4096, 0)],
}
SCALES = [(30, 30, .1), (30, 30, 0), (30, 30)]
POINTS = [(0, 0, 2, 5e5, 5e6, 7), (0, 0, 0, 5e5, 5e6, 0)]


def write(path, horizontal, vertical, minor, scale, point, bands, units={}):
    import tifffile
    keys = sorted([(1025, 1), *HORIZONTAL[horizontal], *VERTICAL[vertical]])
    directory = [1, 1, minor, len(keys), *(n for key, value in keys for n in (key, 0, 1, value))]
    tags = [(34735, 3, len(directory), directory, True), (33550, 12, len(scale), scale, True), (33922, 12, 6, point, True)]
    items = "".join(f'<Item name="UNITTYPE" sample="{band}" role="unittype">{unit}</Item>' for band, unit in units.items())
    tags += [(42112, 2, len(items) + 30, f"<GDALMetadata>{items}</GDALMetadata>", True)] if units else []
    data = np.arange(16 * bands, dtype="u1").reshape((4, 4, bands) if bands > 1 else (4, 4))
    tifffile.imwrite(path, data, extratags=tags, metadata=None, photometric="minisblack", planarconfig="contig" if bands > 1 else None)


def problem(path, fmt, *case):
    """Compares scale, offset and units of all bands with GDAL's."""
    import rasterio
    write(path, *case)
    with rasterio.open(path) as file:
        wanted = file.scales[0], file.offsets[0], [unit or "" for unit in file.units]
    attrs = clients.open_dataset(clients.virtualize(path, "--format", fmt).references, FORMATS[fmt])["band_data"].attrs
    units = attrs.get("units", [""] * len(wanted[2]))
    got = attrs.get("scale_factor", 1), attrs.get("add_offset", 0), [units] if isinstance(units, str) else units
    return [] if got == wanted else [f"{case}: {got}, expected {wanted}"]


@pytest.mark.parametrize("horizontal", HORIZONTAL)
def test_heights_are_those_of_gdal(tmp_path, fmt, horizontal):
    cases = list(itertools.product(VERTICAL, [0, 1], SCALES[:1], POINTS[:1], [1]))
    if horizontal in ("projected", "geographic"):
        cases += itertools.product(["EGM96"], [0, 1], SCALES, POINTS, [1, 2])
    clients.report([line for case in cases for line in problem(tmp_path / "heights.tif", fmt, horizontal, *case)])


def test_units_of_bands_take_precedence(tmp_path):
    """Random bands with and without a unit of their own, in files with heights."""
    rng, problems = random.Random(1), []
    for _ in range(60):
        bands = rng.randint(1, 4)
        units = {band: rng.choice(["K", "m", ""]) for band in rng.sample(range(bands), rng.randint(0, bands))}
        case = rng.choice(list(HORIZONTAL)), rng.choice(list(VERTICAL)), rng.choice([0, 1]), rng.choice(SCALES), rng.choice(POINTS), bands, units
        problems += problem(tmp_path / "heights.tif", rng.choice(sorted(FORMATS)), *case)
    clients.report(problems)
