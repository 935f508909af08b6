"""Writes assets/epsg.txt: the coordinate reference systems that the page's map knows by EPSG code.

Run `npm ci` and `python epsg.py` with pyproj installed. Every system is compared with PROJ at random points of its area
of use (epsg-check.js); those that proj4js computes with an error above TOLERANCE metres are left out."""
import base64, json, math, pathlib, random, subprocess, warnings, zlib

from pyproj import CRS, Transformer
from pyproj.database import query_crs_info
from pyproj.enums import PJType

HERE = pathlib.Path(__file__).parent
POINTS = 60
TOLERANCE = 0.01
DROPPED = ("+towgs84", "+nadgrids", "+no_defs", "+type", "+vunits", "+geoidgrids")
DATUMS = {"+datum=WGS84": "+ellps=WGS84", "+datum=NAD83": "+ellps=GRS80", "+datum=NAD27": "+ellps=clrk66"}
# Ellipsoids whose axes differ in proj4js.
ELLIPSOIDS = {"+ellps=WGS72": "+a=6378135 +rf=298.26", "+ellps=GSK2011": "+a=6378136.5 +rf=298.2564151"}


def definition(crs):
    """Returns the PROJ string without a datum, so that no datum is ever shifted."""
    parts = [part for part in crs.to_proj4().split() if not part.startswith(DROPPED) and part != "+units=m"]
    if "+R_A" in parts:
        parts = [part for part in parts if not part.startswith(("+R_A", "+datum", "+ellps", "+a=", "+b=", "+rf="))]
        parts.append(f"+R={authalic_radius(crs.ellipsoid):.4f}")
    parts = [DATUMS.get(part, part) for part in parts]
    return " ".join(ELLIPSOIDS.get(part, part) for part in parts)


def authalic_radius(ellipsoid):
    a, b = ellipsoid.semi_major_metre, ellipsoid.semi_minor_metre
    e = math.sqrt(1 - (b / a) ** 2)
    return a * math.sqrt((1 + (1 - e * e) / e * math.atanh(e)) / 2)


def in_area(area):
    """Yields random points of an area of use, from its edges as well: longitude, latitude."""
    width = (area.east - area.west) % 360 or 360
    for n in range(POINTS):
        across, up = (random.choice((0.001, 0.999)), random.choice((0.001, 0.999))) if n % 8 == 0 else (random.random(), random.random())
        yield (area.west + across * width + 180) % 360 - 180, area.south + up * (area.north - area.south)


def positions(crs, points):
    """Returns the coordinates of points, given as degrees east of Greenwich and north, in the system as PROJ computes them."""
    base = crs.geodetic_crs
    prime = math.degrees(base.prime_meridian.longitude * base.prime_meridian.unit_conversion_factor)
    unit = math.degrees(base.axis_info[0].unit_conversion_factor)
    own = [(((lon - prime + 180) % 360 - 180) / unit, lat / unit) for lon, lat in points]
    if crs.is_geographic:
        return own
    to = Transformer.from_crs(base, crs, always_xy=True)
    return [to.transform(*point) for point in own]


def candidates():
    kinds = [PJType.PROJECTED_CRS, PJType.GEOGRAPHIC_2D_CRS]
    for info in query_crs_info(auth_name="EPSG", pj_types=kinds, allow_deprecated=True):
        crs = CRS.from_epsg(info.code)
        try:
            text = definition(crs)
        except Exception:  # a method that no PROJ string describes
            continue
        if not text or info.area_of_use is None:
            continue
        points = list(in_area(info.area_of_use))
        metres = 111320 if crs.is_geographic else crs.axis_info[0].unit_conversion_factor
        yield {"code": int(info.code), "name": info.name, "definition": text, "area": list(info.area_of_use.bounds), "points": points, "expected": positions(crs, points), "metres": metres}


def words(system):
    """Returns the columns of a line: name, definition, area of use in whole degrees, each as a list."""
    west, south, east, north = system["area"]
    area = [math.floor(west), math.floor(south), math.ceil(east), math.ceil(north)]
    return [system["name"].split(" "), system["definition"].replace("+", "").split(" "), [str(edge) for edge in area]]


def table(systems):
    """Writes a line per system: the step of the code, and the columns; a word that equals the one above is empty."""
    lines, code, above = [], 0, [[], [], []]
    for system in sorted(systems, key=lambda each: each["code"]):
        columns = words(system)
        cells = [" ".join("" if up[n : n + 1] == [word] else word for n, word in enumerate(column)) for column, up in zip(columns, above)]
        lines.append("\t".join([str(system["code"] - code), *cells]))
        code, above = system["code"], columns
    return "\n".join(lines)


def main():
    warnings.simplefilter("ignore")
    random.seed(18)
    systems = list(candidates())
    checked = subprocess.run(["node", HERE / "epsg-check.js"], input=json.dumps(systems), capture_output=True, text=True, check=True)
    errors = {int(code): error for code, error in json.loads(checked.stdout).items()}
    good = [system for system in systems if errors[system["code"]] <= TOLERANCE]
    print(f"{len(good)} of {len(systems)} systems; the largest error is {max(errors[system['code']] for system in good):.4f} m")
    print("left out:", *sorted(system["code"] for system in systems if errors[system["code"]] > TOLERANCE))
    packed = zlib.compress(table(good).encode(), 9, wbits=-15)
    (HERE.parent / "assets/epsg.txt").write_bytes(base64.b64encode(packed))


if __name__ == "__main__":
    main()
