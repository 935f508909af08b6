"""Photographs of the service's page, which needs Chromium (CHROMIUM=… names its executable)."""
import contextlib, os, shutil, socket, subprocess, time, urllib.error, urllib.request
from pathlib import Path

import numpy as np
import xarray as xr
from svg import IMAGES
from virtualize_command import COMMAND

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def write(file):
    """Writes monthly temperatures and winds on a global grid."""
    lat, lon, month = np.linspace(-88, 88, 89), np.arange(-180, 180, 2.0), np.arange(12)
    season = np.cos(2 * np.pi * (month - 6) / 12)[:, None, None] * np.sin(np.deg2rad(lat))[None, :, None]
    waves = np.sin(np.deg2rad(3 * lon))[None, None, :] * np.cos(np.deg2rad(2 * lat))[None, :, None]
    t2m = 302 - 48 * np.abs(np.sin(np.deg2rad(lat)))[None, :, None] ** 1.7 + 14 * season + 4 * waves
    dims = ("time", "lat", "lon")
    winds = {name: (dims, (6 * np.roll(waves, shift, 2) + season).astype("f4"), {"units": "m s-1", "long_name": f"10 metre {name[0].upper()} wind"}) for name, shift in (("u10", 0), ("v10", 15))}
    xr.Dataset(
        {"t2m": (dims, t2m.astype("f4"), {"units": "K", "long_name": "2 metre temperature", "standard_name": "air_temperature"}), **winds},
        {"time": ("time", np.arange("2026-01", "2027-01", dtype="datetime64[M]").astype("datetime64[ns]")),
         "lat": ("lat", lat, {"units": "degrees_north", "standard_name": "latitude"}), "lon": ("lon", lon, {"units": "degrees_east", "standard_name": "longitude"})},
        {"title": "Monthly means"},
    ).to_netcdf(file, engine="h5netcdf", encoding={"t2m": {"chunksizes": (1, 89, 180), "zlib": True}})


@contextlib.contextmanager
def service():
    """Yields the address of a service with access to the fixtures."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = "127.0.0.1:%s" % probe.getsockname()[1]
    # The page shows the path, which should be short.
    folder = Path("/tmp/data")
    folder.mkdir(exist_ok=True)
    write(folder / "t2m.nc")
    folder = folder.as_uri() + "/"
    process = subprocess.Popen([COMMAND, "serve", "--listen", address, "--allow", folder], stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            with contextlib.suppress(urllib.error.URLError):
                urllib.request.urlopen(f"http://{address}/healthz").close()
                break
            time.sleep(0.1)
        yield f"http://{address}/?url={folder}t2m.nc"
    finally:
        process.terminate()
        process.wait(timeout=30)


def draw():
    from playwright.sync_api import sync_playwright
    with service() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for theme in ("light", "dark"):
            page = browser.new_page(viewport={"width": 1280, "height": 1000}, color_scheme=theme)
            page.goto(url)
            page.locator("#look canvas").first.wait_for()
            page.wait_for_timeout(3000)
            page.screenshot(path=IMAGES / f"page-{theme}.png")
        browser.close()
