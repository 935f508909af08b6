"""Takes screenshots of the page with many kinds of files, and puts them on contact sheets: `python page_sheet.py [NAME …]`;
`--docs` makes the images of docs/page.md instead.

The files and the sheets are in `target/page`, those of the documentation in `/tmp/data`. VIRTUALIZE_BIN names the binary. With PAGE_FROM_DISK=1 the page is that in
`crates/server/assets`."""
import contextlib, math, os, pathlib, sys, urllib.parse

import clients
import h5py
import numpy as np
import rasterio
import service
import xarray as xr
from PIL import Image, ImageDraw
from rasterio.transform import Affine

import page as helpers

OUT = clients.FIXTURES.parent / "target/page"
FILES = pathlib.Path("/tmp/data") if "--docs" in sys.argv else OUT / "files"
SIZES = {"desktop": (1400, 900), "phone": (390, 844)}
CHANCE = np.random.default_rng(7)


def hills(height, width, rough=3):
    y, x = np.mgrid[0:height, 0:width] / max(height, width)
    waves = sum(np.sin(2 ** n * (3 * x + n) + 2 * np.cos(2 ** n * 2 * y + n)) / 2 ** n for n in range(rough))
    return (waves - waves.min()) / np.ptp(waves)


def degrees(values, north):
    return (("lat" if north else "lon"), values, {"units": "degrees_north" if north else "degrees_east", "standard_name": "latitude" if north else "longitude", "axis": "Y" if north else "X"})


def tiff(name, values, transform=None, crs=None, overviews=(), names=(), mask=None, tags=None, colormap=None, **profile):
    bands, height, width = values.shape
    options = dict(driver="GTiff", height=height, width=width, count=bands, dtype=values.dtype, tiled=True, blockxsize=256, blockysize=256, crs=crs, **profile)
    if transform:
        options["transform"] = transform
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), rasterio.open(FILES / name, "w", **options) as made:
        made.write(values)
        for n, each in enumerate(names, 1):
            made.set_band_description(n, each)
        if colormap:
            made.write_colormap(1, colormap)
        if mask is not None:
            made.write_mask(mask)
        if tags:
            made.update_tags(1, **tags)
        if overviews:
            made.build_overviews(overviews, rasterio.enums.Resampling.nearest)


def days(name, first, count, packing=None, model=False):
    """Writes a file of a global archive."""
    lat, lon = np.linspace(90, -90, 91), np.arange(0, 360, 2.0)
    kelvin = 290 - 42 * np.sin(np.radians(lat))[None, :, None] ** 2 + CHANCE.normal(size=(count, 1, 1)) + 30 * (hills(91, 180, 5)[None] - 0.5)
    main = "tas" if model else "t2m"
    data = xr.Dataset(
        {main: (("time", "lat", "lon"), kelvin, {"long_name": "Near-Surface Air Temperature" if model else "2 metre temperature", "standard_name": "air_temperature", "units": "K"})},
        {"time": ("time", first + np.arange(count) + (0.5 if model else 0), {"units": "days since 1850-01-01", "calendar": "noleap"} if model else {"units": "hours since 1900-01-01", "long_name": "time"}), "lat": degrees(lat, True), "lon": degrees(lon, False)},
        {"title": "CMIP-like historical run" if model else "ERA5-like reanalysis", "Conventions": "CF-1.8"})
    if model:
        data["time_bnds"] = (("time", "bnds"), np.stack([data.time - 0.5, data.time + 0.5], 1))
        data["lat_bnds"] = (("lat", "bnds"), np.stack([lat + 1, lat - 1], 1))
        data.time.attrs["bounds"], data.lat.attrs["bounds"] = "time_bnds", "lat_bnds"
    data.to_netcdf(FILES / name, engine="netcdf4", encoding={main: {"zlib": True, "chunksizes": (1, 91, 180), **(packing or {"dtype": "f4"})}})


def make():
    """Writes the files."""
    (FILES / "era5").mkdir(parents=True)
    (FILES / "cmip").mkdir()
    (FILES / "mixed").mkdir()
    packed = {"dtype": "i2", "scale_factor": 0.002, "add_offset": 280.0, "_FillValue": -32768}
    for n in range(6):
        days(f"era5/day{n}.nc", 1_060_000 + 24 * n, 24, packed)
        days(f"mixed/day{n}.nc", 1_060_000 + 24 * n, 24, packed if n < 3 else {"dtype": "i4", "scale_factor": 0.0005, "add_offset": 270.0, "_FillValue": -1})
        days(f"cmip/tas_{1850 + n}.nc", 365 * n, 12, model=True)
    for name in ("era5", "mixed", "cmip"):
        run = clients.virtualize("batch", *sorted((FILES / name).glob("*.nc")), "--concat-dim", "time", "-o", FILES / f"{name}.json", "-q")
        assert run.status == 0, run.stderr
    series = 281 + 7 * np.sin(np.arange(3650) / 58) + CHANCE.normal(size=3650)
    xr.Dataset({"sst": ("time", np.where(np.arange(3650) % 400 < 12, np.nan, series), {"long_name": "Sea surface temperature", "units": "K"})}, {"time": ("time", np.arange(3650), {"units": "days since 2010-01-01"})}).to_netcdf(
        FILES / "packed-series.nc", encoding={"sst": {"dtype": "i2", "scale_factor": 0.01, "add_offset": 280.0, "_FillValue": -32768}})
    utm = Affine(10, 0, 499980, 0, -10, 5300040)
    scene = np.stack([(3000 * hills(1500, 1500, 3 + n) ** (1 + n / 3) + 200 * n).astype("u2") for n in range(4)])
    y, x = np.mgrid[0:1500, 0:1500]
    mask = np.where(x + 0.3 * y > 400, 255, 0).astype("u1")
    tiff("sentinel2.tif", scene, utm, "EPSG:32633", (2, 4), ("B02", "B03", "B04", "B08"), mask, compress="deflate")
    photo = np.stack([(255 * hills(900, 1200, 2 + n)).astype("u1") for n in range(3)])
    tiff("photo-jpeg.tif", photo, Affine(0.5, 0, 2600000, 0, -0.5, 1200000), "EPSG:2056", (2,), compress="jpeg", photometric="ycbcr")
    heights = (2800 * hills(1800, 3600, 6) - 300).astype("f4")
    heights[:200, :300] = -9999
    tiff("dem.tif", heights[None], Affine(1 / 1200, 0, 7, 0, -1 / 1200, 47), "EPSG:4326", (2, 4, 8), nodata=-9999, compress="deflate", predictor=3)
    classes = (hills(600, 800, 4) * 5.99).astype("u1")
    tiff("landcover.tif", classes[None], Affine(100, 0, 4_200_000, 0, -100, 3_000_000), "EPSG:3035", colormap={0: (0, 0, 120, 255), 1: (40, 120, 40, 255), 2: (220, 210, 90, 255), 3: (170, 110, 60, 255), 4: (200, 30, 30, 255), 5: (240, 240, 240, 255)})
    rotated = {"grid_mapping_name": "rotated_latitude_longitude", "grid_north_pole_latitude": 39.25, "grid_north_pole_longitude": -162.0, "earth_radius": 6371229.0}
    polar = {"grid_mapping_name": "polar_stereographic", "latitude_of_projection_origin": 90.0, "straight_vertical_longitude_from_pole": -45.0, "standard_parallel": 70.0, "semi_major_axis": 6378273.0, "inverse_flattening": 298.279411123064, "false_easting": 0.0, "false_northing": 0.0}
    for name, mapping, x, y, units, kind in (("rotated", rotated, np.arange(-28.375, 18.16, 0.44), np.arange(-23.375, 21.84, 0.44), "degrees", "grid_{}"), ("polar", polar, np.arange(-3837.5, 3750, 25.0), np.arange(5837.5, -5350, -25.0), "km", "projection_{}_coordinate")):
        standard = [kind.format(each) for each in (("longitude", "latitude") if name == "rotated" else "xy")]
        ice = 100 * hills(len(y), len(x), 4)
        xr.Dataset({"ice": (("y", "x"), np.where(ice < 20, np.nan, ice), {"grid_mapping": "crs", "units": "%", "long_name": "Sea ice concentration"}), "crs": ((), 0, mapping)},
                   {"x": ("x", x, {"units": units, "standard_name": standard[0]}), "y": ("y", y, {"units": units, "standard_name": standard[1]})}).to_netcdf(FILES / f"{name}.nc")
    eta, xi = np.mgrid[0:220, 0:160]
    lon, lat = -75 + 0.04 * xi + 0.02 * eta, 34 + 0.035 * eta - 0.012 * xi
    salt = np.where(hills(220, 160) < 0.15, np.nan, 30 + 6 * hills(220, 160, 4))
    xr.Dataset({"salt": (("ocean_time", "eta_rho", "xi_rho"), np.stack([salt, salt + 0.2]), {"long_name": "salinity", "coordinates": "lon_rho lat_rho ocean_time", "time": "ocean_time"}), "h": (("eta_rho", "xi_rho"), 5.295e6 * hills(220, 160), {"long_name": "bathymetry at RHO-points", "units": "meter"})},
               {"lon_rho": (("eta_rho", "xi_rho"), lon, {"units": "degree_east", "standard_name": "longitude"}), "lat_rho": (("eta_rho", "xi_rho"), lat, {"units": "degree_north", "standard_name": "latitude"}), "ocean_time": ("ocean_time", [0.0, 3600.0], {"units": "seconds since 2020-01-01 00:00:00"})}).to_netcdf(FILES / "roms.nc")
    with h5py.File(FILES / "image.h5", "w") as made:
        made["photo"] = np.moveaxis(photo, 0, 2)
        made["photo"].attrs.update(CLASS=np.bytes_("IMAGE"), IMAGE_SUBCLASS=np.bytes_("IMAGE_TRUECOLOR"), INTERLACE_MODE=np.bytes_("INTERLACE_PIXEL"))
    with h5py.File(FILES / "table.h5", "w") as made:
        rows = np.zeros(500, [("station", "S8"), ("lat", "f4"), ("lon", "f4"), ("height", "i4"), ("ok", "?")])
        for n, row in enumerate(rows):
            row["station"], row["lat"], row["lon"], row["height"], row["ok"] = f"ST{n:04}".encode(), 40 + n / 100, 8.3 - n / 77, 12 * n, n % 3 > 0
        made["stations"] = rows
        made.create_dataset("names", data=[f"Station {n} at the river Elbe" for n in range(40)])
        made["fixed"] = np.array([[f"r{n}c{m}" for m in range(4)] for n in range(30)], "S8")
        made["empty"] = np.zeros((0, 4))
    spikes = np.sin(np.arange(1_000_000) / 40_000) * 3 + 100_000
    spikes[[333_331, 700_007]] = 100_020, 99_970
    xr.Dataset({"p": ("time", spikes, {"long_name": "Pressure", "units": "Pa"})}, {"time": ("time", np.arange(1_000_000), {"units": "seconds since 2024-03-01"})}).to_netcdf(FILES / "spikes.nc", encoding={"p": {"zlib": True, "chunksizes": (50_000,)}})
    h5py.File(FILES / "empty.h5", "w").close()
    (FILES / "damaged.nc").write_bytes((FILES / "rotated.nc").read_bytes()[:3000])
    (FILES / "replaced.nc").write_bytes((FILES / "polar.nc").read_bytes())


# Name, file, parameters of the address, and what to do before the screenshot.
SHOTS = [
    ("start", None, {}, None), ("folder", None, {"folder": FILES.as_uri() + "/"}, None), ("series", "packed-series.nc", {}, None),
    ("era5", "era5.json", {}, None), ("era5-map", "era5.json", {"view": "map"}, "click"), ("mixed", "mixed.json", {}, None), ("cmip", "cmip.json", {}, "click"),
    ("sentinel2", "sentinel2.tif", {}, None), ("sentinel2-map", "sentinel2.tif", {"view": "map"}, None), ("jpeg", "photo-jpeg.tif", {}, None), ("dem", "dem.tif", {}, "click"),
    ("dem-map", "dem.tif", {"view": "map"}, "click"), ("landcover", "landcover.tif", {}, None), ("rotated", "rotated.nc", {"view": "map"}, None), ("polar", "polar.nc", {"view": "map"}, None),
    ("roms", "roms.nc", {"path": "/salt"}, None), ("roms-map", "roms.nc", {"path": "/salt", "view": "map"}, "click"), ("roms-h", "roms.nc", {"path": "/h"}, None), ("image", "image.h5", {}, None),
    ("table", "table.h5", {"path": "/stations"}, None), ("text", "table.h5", {"path": "/names"}, None), ("fixed", "table.h5", {"path": "/fixed"}, None), ("no-elements", "table.h5", {"path": "/empty"}, None),
    ("spikes", "spikes.nc", {}, None), ("spikes-zoom", "spikes.nc", {}, "wheel"), ("empty", "empty.h5", {}, None), ("damaged", "damaged.nc", {}, None), ("replaced", "replaced.nc", {}, "replace"),
]


def act(page, what):
    box = page.locator("#look canvas.picture, #look canvas.map-data").first.bounding_box()
    centre = box["x"] + box["width"] * 0.4, box["y"] + box["height"] * 0.45
    if what == "click":
        page.mouse.click(*centre)
    elif what == "wheel":
        page.mouse.move(*centre)
        for _ in range(8):
            page.mouse.wheel(0, -240)
            page.wait_for_timeout(60)
    elif what == "replace":
        (FILES / "replaced.nc").write_bytes((FILES / "rotated.nc").read_bytes())
        page.reload()
    quiet(page)


def quiet(page):
    page.wait_for_timeout(300)
    helpers.until(page, "!document.querySelector('#main[aria-busy]') && !document.querySelector('#look [aria-busy], #look[aria-busy]')", 30)
    # A map is complete with its tiles and its coast; a system without positions has no coast.
    helpers.until(page, """(() => { const map = document.querySelector('#look .map-data');
        return !map || map.dataset.pending === '0' && map.nextElementSibling.dataset.coast !== ''; })()""", 30)
    page.wait_for_timeout(250)


def sheet(shots, name, columns):
    images = [(title, Image.open(file)) for title, file in shots]
    width, height = 560 if columns < 6 else 300, max(image.height * (560 if columns < 6 else 300) // image.width for _, image in images) + 22
    whole = Image.new("RGB", (columns * (width + 8), math.ceil(len(images) / columns) * (height + 8)), "white")
    for n, (title, image) in enumerate(images):
        left, top = n % columns * (width + 8), n // columns * (height + 8)
        whole.paste(image.resize((width, image.height * width // image.width)), (left, top + 20))
        ImageDraw.Draw(whole).text((left + 4, top + 4), title, "black")
    whole.save(OUT / name)
    print(OUT / name)


def main(names, kinds):
    from playwright.sync_api import sync_playwright
    OUT.mkdir(parents=True, exist_ok=True)
    if not FILES.exists():
        make()
    (FILES / "replaced.nc").write_bytes((FILES / "polar.nc").read_bytes())
    with service.started(FILES) as base, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=helpers.CHROMIUM, args=["--no-sandbox"])
        for size, theme in kinds:
            width, height = SIZES[size]
            context = browser.new_context(viewport={"width": width, "height": height}, base_url=base, color_scheme=theme, has_touch=size == "phone", is_mobile=size == "phone")
            if os.environ.get("PAGE_FROM_DISK"):
                context.route(lambda url: url.startswith(base) and not url.startswith(f"{base}/v1/"), helpers.from_disk)
            page, shots = context.new_page(), []
            page.on("console", lambda message: print(size, theme, message.text) if message.type == "error" else None)
            page.on("pageerror", lambda error: print(size, theme, error))
            for name, file, parameters, what in SHOTS:
                if names and name not in names:
                    continue
                page.goto("/?" + urllib.parse.urlencode({**({"url": service.url(FILES / file)} if file else {}), **parameters}))
                with contextlib.suppress(AssertionError):
                    quiet(page)
                try:
                    if what:
                        act(page, what)
                except Exception as error:
                    print(name, str(error)[:300])
                shots.append((f"{name} {size} {theme}", OUT / f"{name}-{size}-{theme}.png"))
                page.screenshot(path=shots[-1][1], full_page=size == "desktop" and bool(os.environ.get("FULL")))
            sheet(shots, f"sheet-{size}-{theme}.png", 4 if size == "desktop" else 8)
            context.close()
        browser.close()


def documentation():
    """Takes the images of docs/page.md."""
    from playwright.sync_api import sync_playwright
    FILES.mkdir(exist_ok=True)
    days("t2m.nc", 1_060_000, 24, {"dtype": "i2", "scale_factor": 0.002, "add_offset": 280.0, "_FillValue": -32768})
    with service.started(FILES) as base, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=helpers.CHROMIUM, args=["--no-sandbox"])
        for theme in ("light", "dark"):
            page = browser.new_page(viewport={"width": 1280, "height": 1000}, base_url=base, color_scheme=theme)
            page.goto("/?" + urllib.parse.urlencode({"url": service.url(FILES / "t2m.nc")}))
            quiet(page)
            act(page, "click")
            page.evaluate("scrollTo(0, 0)")
            page.screenshot(path=clients.FIXTURES.parent / f"docs/images/page-{theme}.png")
        browser.close()


if __name__ == "__main__":
    if "--docs" in sys.argv:
        sys.exit(documentation())
    kinds = [tuple(each.split("/")) for each in os.environ.get("KINDS", "desktop/light desktop/dark phone/light phone/dark").split()]
    main(sys.argv[1:], kinds)
