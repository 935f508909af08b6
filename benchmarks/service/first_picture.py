"""Measures how long the page takes from its address to the first picture, in headless Chromium with an empty cache.

usage: first_picture.py BINARY [--times N]

The files are a COG of 10,980 × 10,980 pixels and a NetCDF-4 file of 500 variables, made at run time. Each is opened
directly, and through a proxy that delays every request by 30 ms. Prints the median of N runs, and the requests.
"""
import argparse, asyncio, contextlib, os, pathlib, shutil, socket, statistics, subprocess, tempfile, threading, time, urllib.parse, urllib.request

import h5py
import numpy as np
import rasterio
from playwright.sync_api import sync_playwright

DELAY = 0.03
SIZE = 10_980
# Records when the picture is drawn, in milliseconds since the navigation.
DRAWN = """addEventListener('DOMContentLoaded', () => { const look = () => {
    if (document.querySelector('#look .picture')?.dataset.drawn) window.drawnAt = performance.now(); else requestAnimationFrame(look); }; look(); });"""


def make_cog(path):
    row = (2000 + 1500 * np.sin(np.arange(SIZE) / 900)).astype("u2")
    noise = np.random.default_rng(0).integers(0, 200, (SIZE, SIZE), dtype="u2")
    with rasterio.open(path, "w", driver="COG", width=SIZE, height=SIZE, count=1, dtype="uint16", compress="DEFLATE", blocksize=512, crs="EPSG:32632",
                       transform=rasterio.transform.from_origin(300_000, 5_000_000, 10, 10)) as out:
        out.write(noise + row[None, :] + row[:, None] // 2, 1)


def make_variables(path):
    with h5py.File(path, "w") as file:
        for name, length in (("lat", 180), ("lon", 360)):
            file[name] = np.arange(length, dtype="f8")
            file[name].make_scale(name)
        for number in range(500):
            variable = file.create_dataset(f"variable_{number:03}", data=np.full((180, 360), number, "f4"), chunks=(90, 180), compression="gzip")
            variable.dims[0].attach_scale(file["lat"])
            variable.dims[1].attach_scale(file["lon"])
            variable.attrs.update({"long_name": f"Variable {number}", "units": "1"})


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def delay(port, to):
    """Forwards connections; whatever a client sends arrives later."""
    async def copy(reader, writer, wait):
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                await asyncio.sleep(wait)
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader, writer):
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", to)
        await asyncio.gather(copy(reader, far_writer, DELAY), copy(far_reader, writer, 0))

    async def run():
        server = await asyncio.start_server(serve, "127.0.0.1", port)
        await server.serve_forever()

    threading.Thread(target=lambda: asyncio.run(run()), daemon=True).start()


def measure(browser, address, url):
    """Returns the seconds until the picture is drawn, and the number of requests until then."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.add_init_script(DRAWN)
    page, requested = context.new_page(), []
    page.on("request", lambda request: requested.append(request.url))
    page.goto(f"{address}/?{urllib.parse.urlencode({'url': url})}")
    while not (drawn := page.evaluate("window.drawnAt ?? 0")):
        time.sleep(0.02)
    context.close()
    return drawn / 1000, len(requested)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--times", type=int, default=5)
    given = parser.parse_args()
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as folder:
        files = {"COG, 10,980²": pathlib.Path(folder, "cog.tif"), "500 variables": pathlib.Path(folder, "variables.nc")}
        for make, file in zip((make_cog, make_variables), files.values()):
            make(file)
        port, slow = free_port(), free_port()
        service = subprocess.Popen([given.binary, "serve", "--listen", f"127.0.0.1:{port}", "--allow", pathlib.Path(folder).as_uri() + "/"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for _ in range(600):
                with contextlib.suppress(OSError):
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz").close()
                    break
                time.sleep(0.05)
            delay(slow, port)
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
                print("| file | latency | first picture | requests |\n|---|---|---|---|")
                for name, file in files.items():
                    for latency, through in (("none", port), ("30 ms", slow)):
                        runs = [measure(browser, f"http://127.0.0.1:{through}", file.as_uri()) for _ in range(given.times)]
                        print(f"| {name} | {latency} | {statistics.median(seconds for seconds, _ in runs):.2f} s | {runs[-1][1]} |", flush=True)
        finally:
            service.terminate()


if __name__ == "__main__":
    main()
