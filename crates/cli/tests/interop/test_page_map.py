"""The map of the page in headless Chromium, compared with rasterio, xarray and PROJ.

The map is opened by script, without the rest of the page, so that views and colours are known."""
import base64, json, math, random, warnings, zlib

import numpy as np
import pyproj
import pytest
import rasterio
import service
import xarray as xr
from affine import Affine
from page import ASSETS, base, chromium, page, show, until
from pyproj import CRS, Transformer
from rasterio.enums import Resampling

pytestmark = pytest.mark.slow

OPEN = """async ([url, path, options]) => {
  const [{ MapView }, { nodes }] = await Promise.all([import("/assets/map.js"), import("/assets/tree.js")]);
  const response = await fetch("/v1/inspect?" + new URLSearchParams({ url, format: "zarr3-json" }));
  const description = await response.json();
  const source = description.zarr.store.split("/").at(-1);
  const host = document.createElement("section");
  document.querySelector("main").replaceChildren(host);
  window.states = [];
  window.map = new MapView(host, { source, node: nodes(description).byPath.get(path), onstate: (state) => window.states.push(state), ...options });
  await window.map.ready;
}"""
SETTLED = "map.tiles?.pending === 0 && !map.drawing && map.data.dataset.drawn > 0 && map.data.dataset.pending === '0'"


def open_map(page, file, path, **options):
    page.expected.append("willReadFrequently")  # the test reads the canvas
    if page.url == "about:blank":
        page.goto("/")
    page.evaluate(OPEN, [service.url(file), path, {"colours": {"low": 0, "high": 255, "map": "grey"}, **options}])
    if page.evaluate("Boolean(map.gestures)"):
        settle(page)


def settle(page):
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    until(page, SETTLED)


def look_at(page, x, y, per):
    page.evaluate("(state) => map.restore(state)", {"centre": f"{x!r},{y!r}", "zoom": repr(per)})
    settle(page)


def drawn(page):
    """Returns the pixels of the canvas, its view in the file's coordinates, and the level that it shows."""
    text = page.evaluate("""() => {
      const { width, height } = map.data;
      const bytes = map.data.getContext("2d").getImageData(0, 0, width, height).data;
      let text = "";
      for (let at = 0; at < bytes.length; at += 32768) text += String.fromCharCode(...bytes.subarray(at, at + 32768));
      return btoa(text);
    }""")
    view = json.loads(page.evaluate("map.data.dataset.view"))
    pixels = np.frombuffer(base64.b64decode(text), np.uint8).reshape(view["height"], view["width"], 4)
    return pixels, view, int(page.evaluate("map.data.dataset.level"))


def centres(view):
    """Returns x and y of the centres of the canvas's pixels."""
    x = view["left"] + (np.arange(view["width"]) + 0.5) * view["per"]
    y = view["top"] - (np.arange(view["height"]) + 0.5) * view["per"]
    return x, y


def grey(page, values, low, high):
    """Returns the colours of values: those of the map "grey", transparent for NaN."""
    table = np.array(page.evaluate("import('/assets/colour.js').then(({ table }) => Array.from(table('grey')))"), np.uint32).view(np.uint8).reshape(256, 4)
    place = np.clip((values - low) / (high - low), 0, 1)
    colours = table[np.floor(np.nan_to_num(place) * 255 + 0.5).astype(int)]
    colours[np.isnan(values)] = 0
    return colours


def make_tiff(file, crs, transform, values, tile=None, overviews=(), nodata=None, **options):
    count, height, width = values.shape
    tiled = {"tiled": True, "blockxsize": tile, "blockysize": tile} if tile else {}
    with rasterio.open(file, "w", driver="GTiff", height=height, width=width, count=count, dtype=values.dtype, crs=crs, transform=transform, nodata=nodata, compress="deflate", **tiled, **options) as made:
        made.write(values)
    if overviews:
        with rasterio.open(file, "r+") as made:
            made.build_overviews(overviews, Resampling.nearest)
    return file


def read_level(file, level):
    """Returns pixels and transform of an overview; level 0 is the image."""
    with rasterio.open(file, **({"overview_level": level - 1} if level else {})) as opened:
        return opened.read().astype(float), opened.transform, opened.nodata


SCENES = [
    ("EPSG:32633", Affine(10, 0, 300000, 0, -10, 5300000), 700, 900, 128, (2, 4), "uint8"),
    ("EPSG:3413", Affine(5000, 0, -3850000, 0, -5000, 5850000), 600, 500, None, (2,), "int16"),
    ("EPSG:3031", Affine(12500, 0, -3950000, 0, -12500, 3950000), 316, 316, 64, (), "float32"),
    ("EPSG:4326", Affine(0.1, 0, 170, 0, -0.05, -10), 300, 260, 128, (2,), "uint16"),
    ("EPSG:2193", Affine(1000, 0, 1000000, 0, -700, 6200000), 800, 500, 256, (2, 4, 8), "int32"),
    ("EPSG:3857", Affine.translation(1e6, 6e6) * Affine.rotation(25) * Affine.scale(30, -45), 400, 300, 128, (2,), "uint8"),
    ("EPSG:2056", Affine(2, 0, 2600000, 0, -2, 1200000), 1500, 1400, 512, (), "uint8"),
]


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene[0])
def test_pixels_of_images(page, tmp_path_factory, scene):
    """Each canvas pixel has the colour of the pixel of the image, or of the overview, below its centre."""
    crs, transform, height, width, tile, overviews, dtype = scene
    chance = np.random.default_rng(height)
    values = chance.integers(1, 250, (1, height, width)).astype(dtype)
    values[0, height // 3: height // 2, width // 4: width // 3] = 7
    file = make_tiff(tmp_path_factory.getbasetemp() / f"{crs[5:]}.tif", crs, transform, values, tile, overviews, nodata=7)
    open_map(page, file, "/band_data", colours={"low": 0, "high": 255, "map": "grey"})
    scale = max(abs(transform.a), abs(transform.e))
    # Off the edges of pixels, where rounding decides.
    centre = transform * (width / 2 + 0.317, height / 2 + 0.283)
    levels = set()
    for step, across, down in ((1.9, 0, 0), (1, 0, 0), (0.13, 0.1, -0.2), (1.37, -0.3, 0.25), (3.9, 0, 0.1)):
        look_at(page, centre[0] + across * width * scale / 2, centre[1] + down * height * scale / 2, step * scale)
        pixels, view, level = drawn(page)
        levels.add(level)
        np.testing.assert_array_equal(pixels, expected_image(page, file, view, level, len(overviews)))
    assert len(levels) > 1 or max(height, width) < 640


def expected_image(page, file, view, level, overviews):
    values, transform, nodata = read_level(file, min(level, overviews))
    # Beyond the overviews, the map shows every n-th pixel: the one in the middle.
    step = 2 ** max(0, level - overviews)
    x, y = np.meshgrid(*centres(view))
    column, row = ~transform * (x, y)
    column, row = np.floor(column).astype(int) // step * step + step // 2, np.floor(row).astype(int) // step * step + step // 2
    height, width = values.shape[1:]
    inside = (column >= 0) & (row >= 0) & (column < width) & (row < height)
    found = np.full(x.shape, math.nan)
    found[inside] = values[0][row[inside], column[inside]]
    found[found == nodata] = math.nan
    return grey(page, found, 0, 255)


@pytest.mark.parametrize("interleave", ["pixel", "band"])
def test_composites(page, tmp_path_factory, interleave):
    """Three bands are red, green and blue, in any order, and a fourth one is opacity."""
    values = np.random.default_rng(1).integers(0, 256, (4, 300, 260)).astype("uint8")
    transform = Affine(20, 0, 500000, 0, -20, 4000000)
    file = make_tiff(tmp_path_factory.getbasetemp() / f"rgba-{interleave}.tif", "EPSG:32612", transform, values, 64, (2,), interleave=interleave, photometric="RGB")
    ranged = lambda index: {"index": index, "low": 0, "high": 255}
    for order, alpha in (((0, 1, 2), None), ((2, 0, 1), 3)):
        open_map(page, file, "/band_data", colours={"axis": 0, "bands": [ranged(band) for band in order], "alpha": ranged(alpha) if alpha else None})
        look_at(page, 502600, 3997000, 10)
        pixels, view, level = drawn(page)
        assert level == 0
        x, y = np.meshgrid(*centres(view))
        column, row = (np.floor(each).astype(int) for each in ~transform * (x, y))
        inside = (column >= 0) & (row >= 0) & (column < 260) & (row < 300)
        expected = np.zeros((*x.shape, 4), np.uint8)
        for channel, band in enumerate(order):
            expected[inside, channel] = values[band][row[inside], column[inside]]
        expected[inside, 3] = values[alpha][row[inside], column[inside]] if alpha else 255
        # A canvas keeps colours of transparent pixels at reduced precision.
        opaque = expected[..., 3] == 255
        np.testing.assert_array_equal(pixels[opaque], expected[opaque])
        np.testing.assert_array_equal(pixels[..., 3], expected[..., 3])


def degrees(values, north):
    return {"units": "degrees_north" if north else "degrees_east", "standard_name": "latitude" if north else "longitude"}


GRIDS = {
    "descending": (np.linspace(90, -90, 91), np.arange(0, 360, 2.0), ("time", "lat", "lon")),
    "ascending": (np.linspace(-59.5, 59.5, 120), np.arange(-179.5, 180, 1.0), ("time", "lat", "lon")),
    "transposed": (np.linspace(30, 60, 61), np.linspace(-10, 40, 101), ("lon", "lat", "time")),
    "gaussian": (np.degrees(np.arcsin(np.polynomial.legendre.leggauss(64)[0])), np.arange(128) * 2.8125, ("time", "lat", "lon")),
    "date-line": (np.linspace(-30, 0, 61), (np.arange(165, 195, 0.5) + 180) % 360 - 180, ("lat", "time", "lon")),
}


@pytest.mark.parametrize("name", GRIDS)
def test_pixels_of_grids(page, tmp_path_factory, name):
    """Cells extend to the middle between coordinates; longitudes repeat after 360 degrees."""
    lat, lon, dimensions = GRIDS[name]
    stored = np.random.default_rng(2).integers(-1000, 1000, (2, len(lat), len(lon))).astype("int16")
    stored[:, 5, 7] = -9999
    sizes = {"time": 2, "lat": len(lat), "lon": len(lon)}
    variable = xr.Variable(("time", "lat", "lon"), stored, {"units": "K", "scale_factor": 0.5, "add_offset": 300.0, "_FillValue": np.int16(-9999)}).transpose(*dimensions)
    dataset = xr.Dataset({"t": variable}, {"lat": ("lat", lat, degrees(lat, True)), "lon": ("lon", lon, degrees(lon, False))})
    file = tmp_path_factory.getbasetemp() / f"grid-{name}.nc"
    dataset.to_netcdf(file, encoding={"t": {"chunksizes": [max(1, sizes[each] // 2) for each in dimensions], "zlib": True}})
    open_map(page, file, "/t", at=[1 if each == "time" else 0 for each in dimensions], colours={"low": -200, "high": 800, "map": "grey"})
    values = np.where(stored[1] == -9999, math.nan, stored[1] * 0.5 + 300)
    turned = np.unwrap(lon, period=360)
    span = abs(lat[-1] - lat[0])
    for y, x, per in ((lat.mean(), turned.mean(), span / 300), (lat[len(lat) // 3], turned[-1] + 1, span / 700), (lat.mean(), turned[0] - 2, span / 1500)):
        look_at(page, float(x), float(y), float(per))
        pixels, view, level = drawn(page)
        assert level == 0
        column = nearest(turned, centres(view)[0], is_longitude=True)
        row = nearest(lat, centres(view)[1])
        found = np.full((view["height"], view["width"]), math.nan)
        inside = (row >= 0)[:, None] & (column >= 0)[None, :]
        found[inside] = values[row[:, None].clip(0), column[None, :].clip(0)][inside]
        same = (pixels == grey(page, found, -200, 800)).all(axis=-1)
        # A point on the very edge of two cells may belong to either.
        assert same.mean() > 0.997, name


def nearest(coordinates, points, is_longitude=False):
    """Returns the index of the cell around each point; -1 outside of all."""
    edges = np.concatenate([[1.5 * coordinates[0] - 0.5 * coordinates[1]], (coordinates[1:] + coordinates[:-1]) / 2, [1.5 * coordinates[-1] - 0.5 * coordinates[-2]]])
    if is_longitude:
        points = edges.min() + (points - edges.min()) % 360
    sign = 1 if edges[-1] > edges[0] else -1
    index = np.searchsorted(sign * edges, sign * points, side="right") - 1
    return np.where((index >= 0) & (index < len(coordinates)), index, -1)


def cf_files(folder):
    """Yields CF grids: name, file, system as PROJ reads it, x and y of the pixels, and units of x in units of the system."""
    chance = np.random.default_rng(4)
    grids = {
        "polar": ({"grid_mapping_name": "polar_stereographic", "latitude_of_projection_origin": -90.0, "straight_vertical_longitude_from_pole": 0.0, "standard_parallel": -70.0, "semi_major_axis": 6378273.0, "inverse_flattening": 298.279411123064, "false_easting": 0.0, "false_northing": 0.0}, np.arange(-3950, 3950, 100.0), np.arange(-3950, 4350, 100.0), "km", 1000),
        "lambert": ({"grid_mapping_name": "lambert_conformal_conic", "standard_parallel": [25.0, 60.0], "latitude_of_projection_origin": 42.5, "longitude_of_central_meridian": -100.0, "earth_radius": 6371229.0, "false_easting": 0.0, "false_northing": 0.0}, np.arange(-2.7e6, 2.7e6, 5e4), np.arange(1.5e6, -1.6e6, -5e4), "m", 1),
        "satellite": ({"grid_mapping_name": "geostationary", "perspective_point_height": 35786023.0, "semi_major_axis": 6378137.0, "semi_minor_axis": 6356752.31414, "longitude_of_projection_origin": -75.0, "latitude_of_projection_origin": 0.0, "sweep_angle_axis": "x"}, np.linspace(-0.1, 0.1, 90), np.linspace(0.1, -0.1, 80), "rad", 35786023.0),
        "rotated": ({"grid_mapping_name": "rotated_latitude_longitude", "grid_north_pole_latitude": 39.25, "grid_north_pole_longitude": -162.0, "earth_radius": 6371229.0}, np.arange(-28.375, 18.16, 0.88), np.arange(-23.375, 21.84, 0.88), "degrees", 1),
    }
    for name, (mapping, x, y, units, factor) in grids.items():
        kind = "grid_" if name == "rotated" else "projection_"
        names = ("grid_longitude", "grid_latitude") if kind == "grid_" else ("projection_x_coordinate", "projection_y_coordinate")
        dataset = xr.Dataset(
            {"v": (("y", "x"), chance.integers(0, 255, (len(y), len(x))).astype("uint8"), {"grid_mapping": "crs"}), "crs": ((), 0, mapping)},
            {"x": ("x", x, {"units": units, "standard_name": names[0]}), "y": ("y", y, {"units": units, "standard_name": names[1]})})
        file = folder / f"cf-{name}.nc"
        dataset.to_netcdf(file)
        yield name, file, mapping, x, y, factor


def inverse_of(mapping, factor):
    """Returns PROJ's function from coordinates in a file to longitude and latitude."""
    if mapping["grid_mapping_name"] == "rotated_latitude_longitude":
        project = pyproj.Proj(f"+proj=ob_tran +o_proj=longlat +o_lat_p={mapping['grid_north_pole_latitude']} +o_lon_p=0 +lon_0={180 + mapping['grid_north_pole_longitude']} +R={mapping['earth_radius']}")
        return lambda x, y: project(math.radians(x), math.radians(y), inverse=True)
    crs = CRS.from_cf(mapping)
    to = Transformer.from_crs(crs, crs.geodetic_crs, always_xy=True)
    return lambda x, y: to.transform(x * factor, y * factor)


def read_at(page, x, y):
    """Moves the pointer to a point of the page, and returns what the map shows there."""
    page.mouse.move(x, y)
    settle(page)
    readout = page.evaluate("({ ...map.readout.element.dataset })")
    return {name: json.loads(text) if name in ("index", "value") and text else text for name, text in readout.items()} | {"text": page.evaluate("map.readout.element.textContent")}


def test_projected_date_line(page, tmp_path_factory):
    """Past its edge, a cylindrical projection continues: coastlines are repeated, and longitudes continue in the west."""
    transform = Affine(2000, 0, 19_000_000, 0, -2000, -1_500_000)
    file = make_tiff(tmp_path_factory.getbasetemp() / "pacific.tif", "EPSG:3857", transform, np.full((1, 700, 1000), 9, "uint8"), 256)
    open_map(page, file, "/band_data")
    assert page.evaluate("map.repeat") == pytest.approx(2 * math.pi * 6378137)
    readout = page.evaluate("(x) => { map.readout.say({ x, y: -2000000 }); return { ...map.readout.element.dataset }; }", 19_500_000)
    back = Transformer.from_crs(3857, 4326, always_xy=True)
    assert float(readout["longitude"]) == pytest.approx(back.transform(19_500_000, -2_000_000)[0])
    readout = page.evaluate("(x) => { map.readout.say({ x, y: -2000000 }); return { ...map.readout.element.dataset }; }", 20_900_000)
    assert float(readout["longitude"]) == pytest.approx(math.degrees(20_900_000 / 6378137) - 360)
    until(page, "Boolean(map.overlay.dataset.coast)")
    settle(page)
    # Samoa, Tonga and Fiji are on both sides of the edge.
    inked = page.evaluate("""() => {
      const { width, height } = map.overlay;
      const bytes = map.overlay.getContext("2d").getImageData(width / 2, 0, width / 2, height).data;
      let white = 0;
      for (let at = 0; at < bytes.length; at += 4) white += bytes[at] > 200 && bytes[at + 3] > 200;
      return white;
    }""")
    assert inked > 50


def points_on(page, number):
    """Yields random points of the map on the page."""
    box = page.locator(".map-data").bounding_box()
    for _ in range(number):
        yield box["x"] + random.uniform(0.1, 0.9) * box["width"], box["y"] + random.uniform(0.1, 0.9) * box["height"]


def test_readout_of_grids(page, tmp_path_factory):
    random.seed(5)
    for name, file, mapping, x, y, factor in cf_files(tmp_path_factory.getbasetemp()):
        open_map(page, file, "/v")
        assert "Natural Earth" in page.evaluate("map.system.textContent"), name
        values = xr.open_dataset(file, mask_and_scale=False)["v"].values
        back = inverse_of(mapping, factor)
        known = 0
        for point in points_on(page, 12):
            readout = read_at(page, *point)
            at = float(readout["x"]), float(readout["y"])
            row, column = nearest(y, np.array([at[1]]))[0], nearest(x, np.array([at[0]]))[0]
            if row < 0 or column < 0:
                assert readout["index"] == "" and "outside" in readout["text"]
                continue
            assert readout["index"] == [row, column] and readout["value"] == values[row, column], (name, readout)
            longitude, latitude = back(*at)
            if not math.isfinite(longitude):
                assert readout["longitude"] == "NaN"
                continue
            known += 1
            assert abs((float(readout["longitude"]) - longitude + 180) % 360 - 180) < 1e-7 and abs(float(readout["latitude"]) - latitude) < 1e-7, (name, readout, longitude, latitude)
        assert known > 2, name


def test_readout_of_images(page, tmp_path_factory):
    random.seed(6)
    for code, transform in ((32633, Affine(30, 0, 300000, 0, -30, 5300000)), (2154, Affine(100, 0, 600000, 0, -100, 6800000)), (2263, Affine(50, 0, 950000, 0, -50, 250000)), (3413, Affine.translation(-1e6, 1e5) * Affine.rotation(40) * Affine.scale(500, -900))):
        values = np.random.default_rng(code).integers(0, 60000, (1, 600, 700)).astype("uint16")
        file = make_tiff(tmp_path_factory.getbasetemp() / f"readout-{code}.tif", f"EPSG:{code}", transform, values, 256)
        open_map(page, file, "/band_data")
        crs = CRS.from_epsg(code)
        back = Transformer.from_crs(crs, crs.geodetic_crs, always_xy=True)
        centre = transform * (350, 300)
        look_at(page, *centre, abs(transform.a))
        with rasterio.open(file) as opened:
            for point in points_on(page, 8):
                readout = read_at(page, *point)
                at = float(readout["x"]), float(readout["y"])
                row, column = opened.index(*at)
                if not (0 <= row < 600 and 0 <= column < 700):
                    assert readout["index"] == ""
                    continue
                assert readout["index"] == [row, column] and readout["value"] == values[0, row, column]
                longitude, latitude = back.transform(*at)
                assert abs(float(readout["longitude"]) - longitude) < 1e-7 and abs(float(readout["latitude"]) - latitude) < 1e-7


def test_keyboard(page, tmp_path_factory):
    """The map can be moved, zoomed and read with the keyboard; the position is announced."""
    values = np.arange(400 * 400, dtype="int32").reshape(1, 400, 400)
    transform = Affine(100, 0, 300000, 0, -100, 5300000)
    open_map(page, make_tiff(tmp_path_factory.getbasetemp() / "keys.tif", "EPSG:32633", transform, values, 128), "/band_data")
    data = page.locator(".map-data")
    assert data.get_attribute("role") == "application" and "/band_data" in data.get_attribute("aria-label")
    described = page.locator(f"#{data.get_attribute('aria-describedby')}")
    assert "plus and minus" in described.inner_text()
    assert page.locator(".map .readout").get_attribute("aria-live") == "polite"
    look_at(page, 320050, 5280050, 25)
    data.focus()
    index = lambda: json.loads(page.evaluate("map.readout.element.dataset.index"))
    press = lambda key: (page.keyboard.press(key), settle(page))
    press("Shift+ArrowRight")
    assert index() == [199, 201] and page.evaluate("map.readout.element.dataset.value") == str(199 * 400 + 201)
    press("Shift+ArrowDown")
    assert index() == [200, 201]
    press("ArrowLeft")
    assert index() == [200, 201 - 80 * 25 // 100]
    before = page.evaluate("map.gestures.per")
    press("+")
    assert page.evaluate("map.gestures.per") == pytest.approx(before / 2)
    press("0")
    assert page.evaluate("map.gestures.per") == pytest.approx(page.evaluate("map.gestures.fitting().per"))
    for _ in range(30):
        page.keyboard.press("ArrowUp")
    settle(page)
    assert page.evaluate("map.gestures.y") == pytest.approx(5300000), "the centre stays over the data"


def test_state(page, tmp_path_factory):
    """A state restores the view; malformed ones are ignored."""
    file = make_tiff(tmp_path_factory.getbasetemp() / "state.tif", "EPSG:32633", Affine(100, 0, 300000, 0, -100, 5300000), np.ones((1, 400, 500), "uint8"), 128)
    open_map(page, file, "/band_data")
    page.mouse.move(*next(points_on(page, 1)))
    page.mouse.wheel(0, -300)
    settle(page)
    state = page.evaluate("map.state()")
    assert page.evaluate("window.states.at(-1)") == state and all(isinstance(text, str) and len(text) < 40 for text in state.values())
    view = drawn(page)[1]
    open_map(page, file, "/band_data")
    page.evaluate("(state) => map.restore(state)", state)
    settle(page)
    restored = drawn(page)[1]
    assert restored["per"] == pytest.approx(view["per"]) and restored["left"] == pytest.approx(view["left"])
    for wrong in ({}, {"centre": "a,b", "zoom": "1"}, {"centre": "1,2"}, {"centre": "1,2", "zoom": "-1"}, {"centre": "", "zoom": ""}, {"centre": "1e999,0", "zoom": "1"}):
        page.evaluate("(state) => map.restore(state)", wrong)
    settle(page)
    assert drawn(page)[1] == restored


def test_requests(page, tmp_path_factory):
    """A large image: few requests for each view, none for what is not shown, and none to other hosts."""
    values = np.random.default_rng(3).integers(0, 255, (1, 10980, 10980), dtype=np.uint8)
    file = make_tiff(tmp_path_factory.getbasetemp() / "large.tif", "EPSG:32633", Affine(10, 0, 300000, 0, -10, 5300000), values, 512, (2, 4, 8, 16, 32))
    requested = []
    page.on("request", lambda request: requested.append(request.url) if "/v1/values/" in request.url else None)
    open_map(page, file, "/band_data")
    assert 0 < len(requested) <= 24
    before = len(requested)
    look_at(page, 354900, 5245100, 10)
    assert 0 < len(requested) - before <= 40
    again = len(requested)
    look_at(page, 354900, 5245100, 10)
    assert len(requested) == again, "tiles are kept"
    bare = make_tiff(tmp_path_factory.getbasetemp() / "bare.tif", "EPSG:32633", Affine(10, 0, 300000, 0, -10, 5300000), values[:, :5000, :5000], 512)
    requested.clear()
    open_map(page, bare, "/band_data")
    assert 0 < len(requested) <= 64, "without overviews, every n-th pixel is read"


def test_aborted_requests(page, tmp_path_factory):
    """Requests for a view that is left are aborted."""
    file = make_tiff(tmp_path_factory.getbasetemp() / "aborted.tif", "EPSG:32633", Affine(10, 0, 300000, 0, -10, 5300000), np.ones((1, 4000, 4000), "uint8"), 256)
    open_map(page, file, "/band_data")
    held = []
    page.route("**/v1/values/**", lambda route: held.append(route))
    page.evaluate("map.restore({ centre: '310000,5290000', zoom: '10' })")
    until(page, "map.tiles.running.size > 0")
    page.evaluate("map.restore({ centre: '335000,5265000', zoom: '5' })")
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    until(page, "map.tiles.running.size > 0")
    wanted = page.evaluate("[...map.tiles.running.keys()]")
    page.unroute("**/v1/values/**")
    for route in held:
        try:
            route.continue_()
        except Exception:  # aborted
            pass
    settle(page)
    kept = page.evaluate("[...map.tiles.kept.keys()]")
    assert set(wanted) <= set(kept)


def test_without_a_system(page, tmp_path_factory):
    """Without a system that can be computed, the image is shown in its own coordinates, and the map says why."""
    values = np.full((1, 50, 60), 9, "uint8")
    transform = Affine(10, 0, 0, 0, -10, 0)
    folder = tmp_path_factory.getbasetemp()
    for name, crs, why in (("none", None, "does not declare"), ("refused", "EPSG:4087", "EPSG:4087")):
        open_map(page, make_tiff(folder / f"{name}.tif", crs, transform, values), "/band_data")
        notice = page.evaluate("map.system.textContent")
        assert "Without coastlines" in notice and why in notice
        assert drawn(page)[0][..., 3].max() == 255
        assert page.evaluate("map.overlay.dataset.coast") is None
    with rasterio.open(folder / "plain.tif", "w", driver="GTiff", height=5, width=5, count=1, dtype="uint8") as made:
        made.write(np.ones((1, 5, 5), "uint8"))
    open_map(page, folder / "plain.tif", "/band_data")
    assert "does not say where" in page.evaluate("map.status.textContent")


def systems():
    """Returns the table of systems by EPSG code: name, definition, area of use."""
    found, code, above = {}, 0, [[], [], []]
    for line in zlib.decompress(base64.b64decode((ASSETS / "epsg.txt").read_text()), wbits=-15).decode().split("\n"):
        step, *cells = line.split("\t")
        code += int(step)
        above = [[word or up[n] for n, word in enumerate(cell.split(" "))] for cell, up in zip(cells, above)]
        found[code] = [" ".join(words) for words in above]
    return found


POSITIONS = """async (asked) => {
  const { loadCrs } = await import("/assets/crs.js");
  const found = [];
  for (const { spec, points, expected } of asked) {
    try {
      const crs = await loadCrs(spec);
      found.push({ forward: points.map((point) => crs.forward(point).map(String)), inverse: expected.map((point) => crs.inverse(point).map(String)) });
    } catch (error) {
      found.push({ problem: error.message });
    }
  }
  return found;
}"""


def case(crs, spec, number=12):
    """Returns random points of a system's area of use, with their coordinates by PROJ."""
    area, geodetic = crs.area_of_use, crs.geodetic_crs
    prime = math.degrees(geodetic.prime_meridian.longitude * geodetic.prime_meridian.unit_conversion_factor)
    unit = math.degrees(geodetic.axis_info[0].unit_conversion_factor)
    width = (area.east - area.west) % 360 or 360
    points = [((area.west + random.random() * width + 180) % 360 - 180, random.uniform(area.south, area.north)) for _ in range(number)]
    own = [(((lon - prime + 180) % 360 - 180) / unit, lat / unit) for lon, lat in points]
    to = None if crs.is_geographic else Transformer.from_crs(geodetic, crs, always_xy=True)
    metres = 111320 if crs.is_geographic else crs.axis_info[0].unit_conversion_factor
    return {"spec": spec, "points": points, "expected": [to.transform(*point) if to else point for point in own], "metres": metres}


def error_of(case, found):
    """Returns the largest distance from PROJ, in metres, in both directions."""
    most = 0
    for (longitude, latitude), (x, y), forward, inverse in zip(case["points"], case["expected"], found["forward"], found["inverse"]):
        there = math.dist((x, y), [float(each) for each in forward]) * case["metres"]
        turn = abs((float(inverse[0]) - longitude + 180) % 360 - 180) * math.cos(math.radians(latitude))
        back = math.hypot(turn, float(inverse[1]) - latitude) * 111320
        most = max([most, *(each if each == each else math.inf for each in (there, back))])
    return most


def test_systems_by_code(page):
    """Positions in random systems of EPSG are those of PROJ to 2 cm; systems that the table lacks are refused by name."""
    warnings.simplefilter("ignore")
    random.seed(7)
    known = systems()
    assert len(known) > 6000
    cases = [case(CRS.from_epsg(code), {"code": f"EPSG:{code}"}) for code in random.sample(sorted(known), 300)]
    page.goto("/")
    for each, found in zip(cases, page.evaluate(POSITIONS, cases)):
        assert "problem" not in found, (each["spec"], found)
        assert error_of(each, found) < 0.02, each["spec"]
    refused = page.evaluate(POSITIONS, [{"spec": {"code": code}, "points": [], "expected": []} for code in ("EPSG:4087", "EPSG:4807", "EPSG:1", "ESRI:54009")])
    assert all(code in found["problem"] for code, found in zip(("EPSG:4087", "EPSG:4807", "EPSG:1", "ESRI:54009"), refused))


def test_systems_in_wkt(page):
    """A system in WKT is computed as PROJ does, or refused by name; most are computed."""
    warnings.simplefilter("ignore")
    random.seed(8)
    cases = []
    for code in random.sample(sorted(systems()), 250):
        for version in ("WKT1_GDAL", "WKT2_2019"):
            try:
                text = CRS.from_epsg(code).to_wkt(version)
            except pyproj.exceptions.CRSError:
                continue
            # Without its code, the text alone counts. It may mean another system than the code, so PROJ reads it as well.
            text = text[: text.rindex(',ID["EPSG"') if version == "WKT2_2019" else text.rindex(',AUTHORITY["EPSG"')] + "]"
            crs = CRS.from_wkt(text)
            area = CRS.from_epsg(code)
            made = case(area, {"mapping": {"crs_wkt": text}})
            if not crs.is_geographic:
                to = Transformer.from_crs(crs.geodetic_crs, crs, always_xy=True)
                prime = math.degrees(crs.geodetic_crs.prime_meridian.longitude * crs.geodetic_crs.prime_meridian.unit_conversion_factor)
                unit = math.degrees(crs.geodetic_crs.axis_info[0].unit_conversion_factor)
                made["expected"] = [to.transform((lon - prime) / unit, lat / unit) for lon, lat in made["points"]]
            cases.append(made)
    page.goto("/")
    found = page.evaluate(POSITIONS, cases)
    for each, one in zip(cases, found):
        assert "problem" in one or error_of(each, one) < 0.1, (each["spec"], error_of(each, one))
        assert "problem" not in one or "cannot be computed" in one["problem"], one
    assert sum("problem" not in one for one in found) > 0.9 * len(found)


COAST = """async ([spec, scale]) => {
  const { loadCrs } = await import("/assets/crs.js");
  const { Coast } = await import("/assets/map-lines.js");
  const crs = await loadCrs(spec);
  const near = crs.isLocal && crs.area ? [crs.area[0] - 15, crs.area[1] - 15, crs.area[2] + 15, crs.area[3] + 15] : null;
  const coast = new Coast({ ...crs, near });
  return new Promise((done) => { coast.lines(scale, () => done(coast.lines(scale).map(({ line }) => Array.from(line)))); });
}"""


@pytest.mark.parametrize("code", [3857, 32633, 32701, 3413, 3031, 2193, 3035, 6933, 5514, 2056, 3832, 54030, 5041, 27700])
def test_coastlines(page, code):
    """No stray lines: by PROJ, the ends of each segment are near each other on Earth, and on a coast of Natural Earth."""
    if code == 54030:
        spec = {"mapping": {"crs_wkt": CRS.from_authority("ESRI", 54009).to_wkt("WKT1_GDAL")}}
        crs = CRS.from_authority("ESRI", 54009)
    else:
        spec, crs = {"code": f"EPSG:{code}"}, CRS.from_epsg(code)
    page.goto("/")
    lines = page.evaluate(COAST, [spec, "110m"])
    assert sum(len(line) for line in lines) > 100
    back = Transformer.from_crs(crs, crs.geodetic_crs, always_xy=True)
    geod = crs.get_geod()
    unknown = 0
    for line in lines:
        x, y = np.array(line).reshape(-1, 2).T
        longitude, latitude = back.transform(x, y)
        # PROJ does not accept the very edge of some projections.
        known = np.isfinite(longitude)
        unknown += len(known) - known.sum()
        longitude, latitude = longitude[known], latitude[known]
        if len(longitude) < 2:
            continue
        _, _, distance = geod.inv(longitude[:-1], latitude[:-1], longitude[1:], latitude[1:])
        assert distance.max() < 60_000
    assert unknown < 0.01 * sum(len(line) for line in lines)
    known = coast_points("110m")
    longitude, latitude = back.transform(*np.concatenate([np.array(line).reshape(-1, 2) for line in lines]).T)
    for lon, lat in random.Random(9).sample([point for point in zip(longitude, latitude) if math.isfinite(point[0])], 100):
        near = np.hypot((known[:, 0] - lon + 180) % 360 - 180, known[:, 1] - lat).min()
        assert near < 8, "within a segment of a point of the data set"


def coast_points(scale):
    """Decodes the points of a data file."""
    data = iter(zlib.decompress(base64.b64decode((ASSETS / f"coast-{scale}.txt").read_text()), wbits=-15))

    def unsigned():
        value = shift = 0
        for byte in data:
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
        raise StopIteration

    points = []
    while True:
        try:
            length = unsigned()
        except StopIteration:
            return np.array(points) / 100
        at = [0, 0]
        for _ in range(length):
            for axis in (0, 1):
                step = unsigned()
                at[axis] += -(step + 1) // 2 if step & 1 else step // 2
            points.append(tuple(at))


def test_cells(page, tmp_path_factory):
    """Grids with two-dimensional longitudes and latitudes: each cell is around its centre, also across the date line; cells without coordinates are not drawn."""
    rows, columns = np.mgrid[0:80, 0:120]
    latitude = (-20 + 0.5 * rows + 3 * np.sin(columns / 30)).astype("float32")
    longitude = ((160 + 0.4 * columns + 2 * np.sin(rows / 20) + 180) % 360 - 180).astype("float32")
    latitude[:, :5] = longitude[:, :5] = -999
    values = np.random.default_rng(11).integers(0, 1000, latitude.shape).astype("int32")
    fill = np.float32(-999)
    dataset = xr.Dataset({"v": (("j", "i"), values)}, {
        "lat": (("j", "i"), latitude, {"units": "degrees_north", "_FillValue": fill}), "lon": (("j", "i"), longitude, {"units": "degrees_east", "_FillValue": fill})})
    file = tmp_path_factory.getbasetemp() / "cells.nc"
    dataset.to_netcdf(file)
    open_map(page, file, "/v", colours={"low": 0, "high": 1000, "map": "grey"})
    look_at(page, 184.0, 0.0, 0.09)
    for row, column in np.random.default_rng(12).integers((10, 20), (70, 100), (100, 2)).tolist():
        found = page.evaluate("([x, y]) => { map.readout.say({ x, y }); return { ...map.readout.element.dataset }; }", [float(longitude[row, column] % 360), float(latitude[row, column])])
        assert json.loads(found["index"]) == [row, column] and found["value"] == str(values[row, column])
    look_at(page, 184.0, 0.0, 0.12)
    pixels, view, _ = drawn(page)
    x, y = centres(view)
    drawn_at = lambda lon, lat: pixels[np.abs(y - lat).argmin(), np.abs(x - lon).argmin(), 3] > 0
    assert drawn_at(184, 0) and not drawn_at(159, 0) and not drawn_at(240, 0)
    with_data = np.isfinite(latitude) & (latitude > -900)
    assert abs((pixels[..., 3] > 0).mean() * view["width"] * view["height"] * 0.12**2 / (with_data.sum() * 0.4 * 0.5) - 1) < 0.1, "the cells cover their area"


def test_mode_of_the_viewer(page, tmp_path_factory):
    """The viewer offers the map for georeferenced arrays only; a link restores it with its view; both share the colours."""
    page.expected.append("willReadFrequently")
    values = np.random.default_rng(13).integers(0, 255, (1, 700, 900), dtype=np.uint8)
    file = make_tiff(tmp_path_factory.getbasetemp() / "mode.tif", "EPSG:32633", Affine(100, 0, 300000, 0, -100, 5300000), values, 256, (2,))
    drawn_map = "Number(document.querySelector('.map-data')?.dataset.drawn) > 0 && document.querySelector('.map-data').dataset.pending === '0'"
    pixel = "Array.from(document.querySelector('.map-data').getContext('2d').getImageData(200, 200, 1, 1).data)"
    show(page, file, "/x")
    page.locator("[name=view-table]").wait_for()
    assert page.locator("[name=view-map]").count() == 0
    show(page, file, "/band_data")
    page.locator("[name=view-map]").click()
    until(page, drawn_map)
    assert "EPSG:32633" in page.locator(".map-system").inner_text()
    page.locator(".map-data").focus()
    for key in ("+", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    until(page, "new URLSearchParams(location.search).has('centre')")
    page.wait_for_timeout(600)
    until(page, drawn_map)
    view, before = page.evaluate("document.querySelector('.map-data').dataset.view"), page.evaluate(pixel)
    page.reload()
    until(page, drawn_map)
    close = [pytest.approx(each, rel=1e-6) for each in json.loads(view).values()]
    assert list(json.loads(page.evaluate("document.querySelector('.map-data').dataset.view")).values()) == close
    page.locator("select[name=map]").select_option("magma")
    until(page, f"String({pixel}) !== '{','.join(map(str, before))}'")
    page.locator("[name=view-picture]").click()
    page.locator("#look .picture").wait_for()
    assert page.locator(".map-data").count() == 0
    until(page, "!location.search.includes('centre')")


def test_values_are_those_of_the_file(page, tmp_path_factory):
    """Zoomed out, the map draws an overview, and reads out the pixel of the file; a mask has no value, and is transparent."""
    values = np.random.default_rng(21).integers(1, 60000, (2, 3000, 3200)).astype("uint16")
    hidden = np.add.outer(np.arange(3000), np.arange(3200)) % 2500 < 700
    file = tmp_path_factory.getbasetemp() / "zoomed-out.tif"
    transform = Affine(10, 0, 400000, 0, -10, 5300000)
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True):
        with rasterio.open(file, "w", driver="GTiff", height=3000, width=3200, count=2, dtype="uint16", crs="EPSG:32633", transform=transform, tiled=True, blockxsize=256, blockysize=256, compress="deflate") as made:
            made.write(values)
            made.write_mask(np.where(hidden, 0, 255).astype("u1"))
        with rasterio.open(file, "r+") as made:
            made.build_overviews((2, 4), Resampling.nearest)
    open_map(page, file, "/band_data", at=[1, 0, 0], colours={"low": 0, "high": 60000, "map": "grey"})
    pixels, view, level = drawn(page)
    assert level > 0
    random.seed(3)
    for x, y in points_on(page, 14):
        page.mouse.move(x, y)
        until(page, "map.readout.element.dataset.value !== '' || map.readout.element.dataset.index === ''")
        found = page.evaluate("({ ...map.readout.element.dataset })")
        if found["index"] == "":
            continue
        row, column = json.loads(found["index"])
        assert (column, row) == tuple(int(each) for each in ~transform * (float(found["x"]), float(found["y"])))
        assert found["value"] == ("NaN" if hidden[row, column] else str(values[1, row, column]))
    x, y = centres(view)
    column, row = (np.floor(each).astype(int) for each in ~transform * np.meshgrid(x, y))
    inside = (column >= 0) & (row >= 0) & (column < 3200) & (row < 3000)
    with rasterio.open(file, overview_level=min(level, 2) - 1) as overview:
        step = 3000 // overview.height
        mask = overview.read_masks(1)
    if level <= 2:
        np.testing.assert_array_equal(pixels[inside][:, 3] > 0, mask[row[inside] // step, column[inside] // step] > 0)


def test_positions_are_rounded(page, tmp_path_factory):
    """The readout rounds x and y as numbers, and does not carry the digit into nothing."""
    file = make_tiff(tmp_path_factory.getbasetemp() / "half-metres.tif", "EPSG:32633", Affine(0.5, 0, 600000, 0, -0.5, 5300000), np.ones((1, 30, 40), "uint8"))
    open_map(page, file, "/band_data")
    for x, y, expected in ((600000.999, 5299999.25, "x 600,001.00, y 5,299,999.25 m"), (600003.5, 5299990.996, "x 600,003.50, y 5,299,991.00 m")):
        page.evaluate("(point) => map.readout.say(point)", {"x": x, "y": y})
        assert expected in page.evaluate("map.readout.element.textContent")


def test_click_wheel_and_double_click(page, tmp_path_factory):
    """A click reports the pixel, the wheel keeps the point below the pointer, a double click shows everything."""
    file = make_tiff(tmp_path_factory.getbasetemp() / "clicks.tif", "EPSG:32633", Affine(100, 0, 300000, 0, -100, 5300000), np.arange(500 * 600, dtype="int32").reshape(1, 500, 600), 256)
    open_map(page, file, "/band_data")
    page.evaluate("() => { window.picks = []; map.onpick = (row, column) => { picks.push([row, column]); }; }")
    box = page.locator(".map-data").bounding_box()
    point = box["x"] + 0.4 * box["width"], box["y"] + 0.6 * box["height"]
    before = read_at(page, *point)
    page.mouse.wheel(0, -400)
    settle(page)
    after = read_at(page, *point)
    assert after["index"] == before["index"] and float(after["x"]) == pytest.approx(float(before["x"]), abs=60)
    page.mouse.click(*point)
    assert page.evaluate("picks") == [after["index"]]
    page.mouse.down()
    page.mouse.move(point[0] + 60, point[1] - 30, steps=6)
    page.mouse.up()
    settle(page)
    assert page.evaluate("picks.length") == 1 and np.abs(np.subtract(read_at(page, point[0] + 60, point[1] - 30)["index"], after["index"])).max() <= 6
    page.mouse.dblclick(*point)
    assert page.evaluate("map.gestures.per") == pytest.approx(page.evaluate("map.gestures.fitting().per"))


def test_a_click_shows_the_time_series(page, tmp_path_factory, tmp_path):
    """Of a grid with times, a click on the map shows the series there, titled by position; the map is saved as PNG."""
    lat, lon = np.linspace(60, -60, 61), np.arange(0, 360, 3.0)
    values = np.random.default_rng(5).normal(size=(9, 61, 120)).astype("f4")
    file = tmp_path_factory.getbasetemp() / "series.nc"
    xr.Dataset({"t": (("time", "lat", "lon"), values)}, {"time": ("time", np.arange(9), {"units": "days since 2020-01-01"}), "lat": ("lat", lat, degrees(lat, True)), "lon": ("lon", lon, degrees(lon, False))}).to_netcdf(file)
    page.goto("/?" + "&".join(f"{name}={value}" for name, value in {"url": service.url(file), "view": "map"}.items()))
    until(page, "Number(document.querySelector('.map-data')?.dataset.drawn) > 0")
    box = page.locator(".map-data").bounding_box()
    page.mouse.click(box["x"] + 0.3 * box["width"], box["y"] + 0.4 * box["height"])
    until(page, "document.querySelector('.profile .readout')?.dataset.value !== undefined")
    row, column = json.loads(page.locator(".map .readout").get_attribute("data-index"))
    plot = page.locator(".profile .picture")
    plot.focus()
    for day in range(1, 9):
        plot.press("ArrowRight")
        assert float(page.locator(".profile .readout").get_attribute("data-value")) == values[day, row, column]
    title = page.locator(".profile").get_attribute("data-place")
    assert title == f"{abs(lat[row]):g}°{'N' if lat[row] > 0 else 'S'}, {lon[column] if lon[column] <= 180 else 360 - lon[column]:g}°{'E' if lon[column] < 180 else 'W'}"
    with page.expect_download() as download:
        page.locator("#look [name=png]").click()
    download.value.save_as(tmp_path / "map.png")
    from PIL import Image
    image = Image.open(tmp_path / "map.png")
    assert image.width > 1000 and len(set(image.convert("RGB").resize((60, 60)).getdata())) > 200
