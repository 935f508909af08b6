"""The viewer of the service's page, compared with h5py, xarray and rasterio."""
import base64, csv, json, math, pathlib, random, shutil, subprocess, urllib.parse

import clients
import h5py
import numpy as np
import pytest
import service
import xarray as xr
import zarr

from page import base, chromium, page, settled, show, until  # noqa: F401

pytestmark = pytest.mark.slow

SERVER = pathlib.Path(clients.__file__).parents[3] / "server"
BUNDLES = "vendor.js", "vendor-map.js", "vendor-licenses.txt"


def test_the_bundles_are_built_from_the_lock_file(tmp_path):
    """The committed bundles of third-party packages are what `npm ci && npm run build` writes."""
    shutil.copytree(SERVER / "page", tmp_path / "page", ignore=shutil.ignore_patterns("node_modules"))
    (tmp_path / "assets").mkdir()
    subprocess.run([clients.NPM, "ci"], cwd=tmp_path / "page", check=True)
    subprocess.run([clients.NPM, "run", "build"], cwd=tmp_path / "page", check=True)
    for name in BUNDLES:
        assert (tmp_path / "assets" / name).read_bytes() == (SERVER / "assets" / name).read_bytes(), name


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of the service in which tests write files."""
    return tmp_path_factory.mktemp("viewer")


@pytest.fixture(scope="module")
def climate(made):
    """A NetCDF-4 file with times, coordinates, packed and missing values, and categories."""
    days, lat, lon = np.arange(24) * 30.0 + 15, np.linspace(-87.5, 87.5, 36), np.linspace(0, 355, 72)
    values = 10 * np.cos(np.deg2rad(lat))[None, :, None] + np.arange(24)[:, None, None] / 10 + np.sin(np.deg2rad(lon))[None, None, :]
    values[:, 3:5, 7:9] = np.nan
    dataset = xr.Dataset(
        {"tas": (("time", "lat", "lon"), values, {"long_name": "Air temperature", "units": "degC"}),
         "kind": (("lat", "lon"), (np.add.outer(np.arange(36), np.arange(72)) % 3).astype("i1"), {"flag_values": np.array([0, 1, 2], "i1"), "flag_meanings": "sea land dry_lake"})},
        coords={"time": ("time", days, {"units": "days since 2001-01-01", "calendar": "360_day"}),
                "lat": ("lat", lat, {"units": "degrees_north"}), "lon": ("lon", lon, {"units": "degrees_east"})})
    packing = {"dtype": "i2", "scale_factor": 0.01, "add_offset": 5.0, "_FillValue": -32768, "zlib": True, "chunksizes": (1, 36, 72)}
    dataset.to_netcdf(made / "climate.nc", encoding={"tas": packing})
    return made / "climate.nc"


def size(page):
    """Returns height and width of the picture in elements."""
    return tuple(page.locator("#look .picture").first.evaluate("canvas => [canvas.height, canvas.width]"))


def drawn(page):
    """Returns the pixels of the picture, its first row at the top."""
    text = page.locator("#look .picture").first.evaluate("""canvas => {
        const bytes = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
        let text = '';
        for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
        return btoa(text); }""")
    return np.frombuffer(base64.b64decode(text), "u1").reshape(*size(page), 4)


def shown_at(page, keys):
    """Presses keys on the picture, and returns index and value of the readout after each."""
    picture, readout = page.locator("#look .picture").first, page.locator("#look .readout").first
    picture.focus()
    for key in keys:
        picture.press(key)
        until(page, "!!document.querySelector('#look .readout').dataset.value")
        yield tuple(json.loads(readout.get_attribute("data-index"))), float(readout.get_attribute("data-value"))


def opened(page, file, path="/", **state):
    page.goto("/?" + urllib.parse.urlencode({"url": service.url(file), **({"path": path} if path != "/" else {}), **state}))
    page.locator("#source").wait_for()
    until(page, "!!document.querySelector('#look [data-drawn]') && !document.querySelector('#look[aria-busy]')")


def test_a_pyramid_is_shown_at_the_size_of_the_screen(page, made):
    """Opening a COG shows the overview that fits, in few requests; the readout has the values of the image itself."""
    import rasterio
    edge = 3000
    values = np.add.outer(np.arange(edge), np.arange(edge) * 3).astype("u2")
    with rasterio.open(made / "pyramid.tif", "w", driver="COG", width=edge, height=edge, count=1, dtype="uint16", compress="DEFLATE", blocksize=256) as out:
        out.write(values, 1)
    requested = []
    page.on("request", lambda request: requested.append(request.url))
    opened(page, made / "pyramid.tif")
    with rasterio.open(made / "pyramid.tif", overview_level=1) as overview:
        expected = overview.read(1)
    assert size(page) == expected.shape == (750, 750)
    assert len([url for url in requested if "/v1/" in url and "/v1/about" not in url and "/v1/chunks" not in url]) <= 8
    assert (drawn(page)[..., :3] == coloured(page, expected)).all()
    for index, value in shown_at(page, ["End", "PageDown", "Shift+ArrowLeft", "ArrowDown"]):
        assert value == values[index[1:]], index
    for x, y in np.random.default_rng(5).random((12, 2)):
        index, value = pointed_at(page, x, y)
        assert index[1:] == (int(y * edge), int(x * edge)) and value == values[index[1:]]


def coloured(page, values):
    """Returns the colours of values in the range of the page."""
    low, high = (float(page.locator(f"#look [name={name}]").input_value()) for name in ("low", "high"))
    table = np.array(page.evaluate("import('./assets/colour.js').then((m) => [...new Uint8Array(m.table('viridis').buffer)])")).reshape(256, 4)
    return table[np.floor(255 * np.clip((values - low) / (high - low), 0, 1) + 0.5).astype(int)][..., :3]


def pointed_at(page, x, y):
    """Moves the pointer to a place of the picture, from 0 to 1 from the upper left corner, and returns index and value of the readout."""
    page.evaluate("document.querySelector('#look .readout').dataset.value = ''")
    box = page.locator("#look .plate").bounding_box()
    page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
    until(page, "document.querySelector('#look .readout').dataset.value !== ''")
    readout = page.locator("#look .readout").first
    return tuple(json.loads(readout.get_attribute("data-index"))), float(readout.get_attribute("data-value"))


def test_small_chunks_are_one_request(page, made):
    """An array of 10,000 chunks is drawn with one request for its values."""
    values = np.arange(400 * 400, dtype="i4").reshape(400, 400)
    with h5py.File(made / "tiny.h5", "w") as file:
        file.create_dataset("tiny", data=values, chunks=(4, 4), compression="gzip")
    requested = []
    page.on("request", lambda request: requested.append(request.url))
    opened(page, made / "tiny.h5", "/tiny")
    assert size(page) == values.shape
    assert len([url for url in requested if "/v1/values/" in url]) == 1 and not [url for url in requested if "/v1/plain/" in url]
    for index, value in shown_at(page, ["End", "PageDown", "PageDown", "Home", "ArrowUp"]):
        assert value == values[index]


def test_a_slice_above_the_limit_is_thinned_or_cut(page, made):
    """What does not fit the limit is said; values are those of the index that is shown."""
    values = np.add.outer(np.arange(4000.0), np.arange(4000.0) / 8192)
    with h5py.File(made / "large.h5", "w") as file:
        file.create_dataset("cut", data=values, chunks=(1000, 800), compression="gzip", compression_opts=1)
        file.create_dataset("thinned", shape=(200_000, 200_000), dtype="u1", chunks=(64, 64), compression="gzip")
        file.create_dataset("whole", data=values)
    opened(page, made / "large.h5", "/cut")
    assert "takes more than 64.0 MiB" in page.locator("#look .status").inner_text()
    for index, value in shown_at(page, ["End", "PageDown", "ArrowDown", "Home"]):
        assert value == values[index]
    page.locator("#look [name=budget]").select_option("256")
    until(page, "!document.querySelector('#look .status').textContent.includes('more than') && !document.querySelector('#look[aria-busy]')")
    assert size(page) == (1000, 1000)
    opened(page, made / "large.h5", "/thinned")
    assert "one in" in page.locator("#look .status").inner_text()
    opened(page, made / "large.h5", "/whole")
    assert size(page) == (1000, 1000) and "more than" not in page.locator("#look .status").inner_text()


@pytest.mark.parametrize("seed", range(6))
def test_random_arrays(page, made, seed):
    """Pixels are the colours of the physical values within the range; the readout shows them."""
    chance = np.random.default_rng(seed)
    shape = tuple(chance.integers(2, 40, size=2))
    kind = ["i1", ">u2", "<i4", "<f4", ">f8", "f2"][seed]
    stored = chance.integers(-100 if kind != ">u2" else 0, 100, shape).astype(kind)
    attributes = [{}, {"scale_factor": 0.5}, {"add_offset": -3.0}][seed % 3]
    with h5py.File(made / f"random{seed}.h5", "w") as file:
        dataset = file.create_dataset("values", data=stored, chunks=tuple(chance.integers(1, size + 1) for size in shape))
        dataset.attrs.update({"_FillValue": stored.flat[0], **attributes})
    opened(page, made / f"random{seed}.h5", "/values", colours="magma", range="all")
    values = np.where(stored == stored.flat[0], np.nan, stored.astype(float) * attributes.get("scale_factor", 1) + attributes.get("add_offset", 0))
    low, high = (float(page.locator(f"#look [name={name}]").input_value()) for name in ("low", "high"))
    assert (low, high) == (np.nanmin(values), np.nanmax(values))
    table = np.array(page.evaluate("import('./assets/colour.js').then((m) => [...new Uint8Array(m.table('magma').buffer)])")).reshape(256, 4)
    expected = np.zeros((*shape, 4), int)
    known = ~np.isnan(values)
    expected[known] = table[np.floor(255 * (values[known] - low) / (high - low) + 0.5).astype(int)]
    assert (drawn(page) == expected).all()
    for index, value in shown_at(page, ["ArrowRight", "PageDown", "End", "Home", "ArrowUp"]):
        assert value == values[index] or (math.isnan(value) and math.isnan(values[index]))


def calendars():
    return ["standard", "proleptic_gregorian", "julian", "noleap", "all_leap", "360_day"]


@pytest.mark.parametrize("calendar", calendars())
def test_times_are_those_of_cftime(page, climate, calendar):
    """Times of every calendar are shown as cftime decodes them."""
    import cftime
    chance = random.Random(calendar)
    opened(page, climate)
    for unit, most in (("days", 400_000), ("hours", 5_000_000), ("seconds", 10**9), ("minutes", 10**7)):
        units = f"{unit} since {chance.choice(['1-1-1', '1582-10-04 12:30', '1900-01-01T06:00:00', '2000-2-28'])}"
        values = [chance.randrange(-most // 500, most) for _ in range(60)]
        expected = [when.strftime("%Y-%m-%d %H:%M:%S") for when in cftime.num2date(values, units, calendar)]
        found = page.evaluate("""([values, units, calendar]) => import('./assets/axes.js').then((m) => {
            const time = m.timeAxis({ units, calendar });
            return values.map((value) => m.formatTime(time, value)); })""", [values, units, calendar])
        whole = [f"{text} 00:00:00"[:19] if len(text) == 10 else f"{text}:00"[:19] for text in found]
        assert [text.lstrip("0") for text in whole] == [text.strip().lstrip("0") for text in expected], units


def test_ticks_are_coordinates(page, climate):
    """Ticks of the time axis are first days of months at their places, those of latitudes are degrees."""
    opened(page, climate, "/tas")
    found = page.evaluate("""() => Promise.all([import('./assets/axes.js'), import('./assets/axes.js')]).then(([t, a]) => {
        const time = t.timeAxis({ units: 'days since 2001-01-01', calendar: '360_day' });
        const axis = new a.Axis({ name: 'lat', span: { start: 0, step: 1, count: 36 }, values: Float64Array.from({ length: 36 }, (_, n) => -87.5 + 5 * n), attributes: { units: 'degrees_north' } });
        return [t.timeTicks(time, 15, 705, 6), axis.ticks(6)]; })""")
    times, degrees = found
    assert [(tick["value"], tick["label"]) for tick in times] == [(180, "2001-07"), (360, "2002"), (540, "2002-07")]
    assert [(tick["place"], tick["label"]) for tick in degrees] == [(5.5, "60°S"), (11.5, "30°S"), (17.5, "0°"), (23.5, "30°N"), (29.5, "60°N")]


def profile(page):
    """Opens the profile of the chosen element, and returns its plot, which has the focus, and its readout."""
    page.locator("#look .picture").first.press("Enter")
    until(page, "document.querySelector('#look .profile .readout')?.dataset.value !== undefined")
    plot = page.locator("#look .profile .picture")
    plot.focus()
    return plot, page.locator("#look .profile .readout")


def test_readout_and_profile(page, climate):
    """The readout shows coordinates as xarray decodes them; the profile has the values of the chosen point."""
    with xr.open_dataset(climate, decode_times=xr.coders.CFDatetimeCoder(use_cftime=True)) as data:
        tas = data.tas.load()
    opened(page, climate, "/tas")
    assert page.locator("#look [name=flip]").is_checked()
    assert page.locator("#look .index .at").inner_text() == str(tas.time.values[0])[:10]
    (index, value), = list(shown_at(page, ["PageUp"]))
    assert value == pytest.approx(float(tas.values[index]), abs=1e-9)
    assert f"lat {index[1]} ({abs(tas.lat.values[index[1]]):g}°{'N' if tas.lat.values[index[1]] > 0 else 'S'})" in page.locator("#look .readout").first.inner_text()
    plot, readout = profile(page)
    for month in range(1, 6):
        plot.press("ArrowRight")
        assert float(readout.get_attribute("data-value")) == pytest.approx(float(tas.values[month, index[1], index[2]]), abs=1e-9)
        assert str(tas.time.values[month])[:10] in readout.inner_text()


def test_table_and_csv(page, climate, tmp_path):
    """The table and the CSV file have the values and coordinates of xarray."""
    with xr.open_dataset(climate) as data:
        tas = data.tas.load()
    opened(page, climate, "/tas", view="table", slice="5,:,:")
    cells = page.locator("#look .grid tbody tr").nth(2).locator("td").all_inner_texts()
    assert [float(cell) for cell in cells] == pytest.approx(tas.values[5, 2, :20], abs=1e-9)
    page.locator("#look .grid").press("Shift+PageDown")
    until(page, "document.querySelector('#look .grid th:nth-child(2)').textContent === '100'")
    assert page.locator("#look .grid tbody tr").nth(3).locator("td").first.inner_text() == f"{tas.values[5, 3, 20]:.15g}"
    with page.expect_download() as download:
        page.locator("#look [name=csv]").click()
    download.value.save_as(tmp_path / "tas.csv")
    rows = list(csv.DictReader((tmp_path / "tas.csv").open()))
    assert len(rows) == 36 * 72 and list(rows[0]) == ["lat", "lon", "tas"]
    for row in random.Random(0).sample(rows, 200):
        expected = float(tas.sel(lat=float(row["lat"]), lon=float(row["lon"])).values[5])
        assert (row["tas"] == "" and math.isnan(expected)) or float(row["tas"]) == pytest.approx(expected, abs=1e-9)


def test_text_structures_and_large_integers(page, made):
    """The table shows elements of every type exactly."""
    with h5py.File(made / "kinds.h5", "w") as file:
        file["text"] = ["", "zwölf", "a,b"]
        file["record"] = np.array([(1, 2.5, b"ab"), (-2, 0.1, b"c")], dtype=[("number", "<i4"), ("part", "<f8"), ("code", "S4")])
        file["integer"] = np.array([2**63 - 1, -(2**63), 2**53 + 1])
        file["complex"] = np.array([1 + 2j, -0.5 - 3j])
        file["flag"] = np.array([True, False])
    for path, expected in {
        "/text": ["", "zwölf", "a,b"], "/record": ["1", "2.5", "ab", "-2", "0.1", "c"],
        "/integer": ["9223372036854775807", "-9223372036854775808", "9007199254740993"], "/complex": ["1 + 2i", "-0.5 − 3i"], "/flag": ["true", "false"],
    }.items():
        opened(page, made / "kinds.h5", path, view="table")
        assert page.locator("#look .grid td").all_inner_texts() == expected


def test_categories_and_palettes(page, climate):
    """Categories have a legend; a palette's colours are those of rasterio."""
    opened(page, climate, "/kind")
    assert [text.split() for text in page.locator("#look .categories li").all_inner_texts()] == [["sea", "0"], ["land", "1"], ["dry", "lake", "2"]]
    assert len(np.unique(drawn(page).reshape(-1, 4), axis=0)) == 3
    (_, value), = shown_at(page, ["ArrowRight"])
    assert f"({['sea', 'land', 'dry lake'][int(value)]})" in page.locator("#look .readout").first.inner_text()
    import rasterio
    image = clients.FIXTURES / "tiff/palette.tif"
    with rasterio.open(image) as file:
        expected = np.array([file.colormap(1)[value] for value in file.read(1).ravel()]).reshape(*file.shape, 4)
    opened(page, image)
    assert (drawn(page) == expected).all()


def test_composites(page, made):
    """Bands of an RGB image are drawn as they are; its alpha band is the opacity; other bands can be chosen."""
    import rasterio
    bands = np.random.default_rng(0).integers(0, 256, (4, 20, 30)).astype("u1")
    bands[3] = np.where(bands[3] > 128, 255, 0)
    for name, interleave in (("pixel", "pixel"), ("band", "band")):
        with rasterio.open(made / f"{name}.tif", "w", driver="GTiff", width=30, height=20, count=4, dtype="uint8", photometric="RGB", alpha="YES", interleave=interleave) as out:
            out.write(bands)
        opened(page, made / f"{name}.tif")
        pixels, opaque = drawn(page), bands[3] == 255
        assert (pixels[..., 3] == bands[3]).all()
        assert (pixels[opaque][:, :3] == np.moveaxis(bands[:3], 0, -1)[opaque]).all()
    page.locator("#look [name=band-0]").select_option(index=2)
    until(page, "!document.querySelector('#look[aria-busy]')")
    assert (drawn(page)[opaque][:, 0] == bands[2][opaque]).all()
    assert page.locator("#look .readout").count() == 1


def test_range_and_scale(page, climate):
    """Handles of the histogram move with the keyboard; the range can be typed; a logarithmic scale has no place for 0."""
    opened(page, climate, "/tas")
    upper = page.locator("#look .handle").nth(1)
    before = float(upper.get_attribute("aria-valuenow"))
    upper.press("PageDown")
    assert float(upper.get_attribute("aria-valuenow")) < before
    page.locator("#look [name=low]").fill("-20")
    page.locator("#look [name=low]").press("Enter")
    assert page.locator("#look .handle").first.get_attribute("aria-valuenow") == "-20"
    page.locator("#look [name=range-all]").click()
    with xr.open_dataset(climate) as data:
        assert float(page.locator("#look [name=low]").input_value()) == pytest.approx(float(data.tas[0].min()), rel=1e-6)
    page.locator("#look [name=scale]").select_option("log")
    assert (drawn(page)[..., 3] == 255).sum() > 0
    page.locator("#look [name=low]").fill("0")
    page.locator("#look [name=low]").press("Enter")
    assert page.locator("#look [name=low]").get_attribute("aria-invalid") == "true"


def test_the_address_restores_the_view(page, climate):
    """A link shows the same slice, colours, range and zoom."""
    opened(page, climate, "/tas")
    page.locator("#look [name=at-0]").fill("7")
    page.locator("#look [name=at-0]").press("Enter")
    page.locator("#look [name=map]").select_option("cividis")
    page.locator("#look [name=low]").fill("3")
    page.locator("#look [name=low]").press("Enter")
    page.locator("#look [name=zoom-in]").click()
    until(page, "document.querySelector('#look .picture').width === 37 && location.search.includes('window=')")
    pixels, link = drawn(page), page.url
    page.goto("about:blank")
    page.goto(link)
    until(page, "!!document.querySelector('#look [data-drawn]') && !document.querySelector('#look[aria-busy]')")
    assert page.locator("#look [name=at-0]").input_value() == "7" and page.locator("#look [name=low]").input_value() == "3"
    assert (drawn(page) == pixels).all()


@pytest.mark.parametrize("hostile", ["slice=9,9,9,9", "slice=-1,:,:", "range=a,b", "level=99", "profile=7", "window=0:2:3", "bands=1,2,99", "view=none", "colours=__proto__", "slice=:,:,:&turned=1"])
def test_a_damaged_link_shows_the_array(page, climate, hostile):
    page.goto("/?" + urllib.parse.urlencode({"url": service.url(climate), "path": "/tas"}) + "&" + hostile)
    until(page, "!!document.querySelector('#look [data-drawn]') && !document.querySelector('#look[aria-busy]')")
    assert size(page) == (36, 72)


def test_figures_are_saved(page, climate, tmp_path):
    opened(page, climate, "/tas")
    with page.expect_download() as download:
        page.locator("#look [name=png]").click()
    download.value.save_as(tmp_path / "tas.png")
    content = (tmp_path / "tas.png").read_bytes()
    assert content.startswith(b"\x89PNG") and download.value.suggested_filename == "tas.png"
    assert int.from_bytes(content[16:20], "big") > 1000


def test_text_and_times_of_zarr_stores(page, made):
    both = np.array([("é", 5), ("", -1)], [("t", "U2"), ("m", "m8[D]")])
    root = zarr.create_group(made / "times.zarr", zarr_format=3)
    for name, values in {"text": np.array(["a", "é日", ""]), "times": both["m"].astype("M8[10s]"), "both": both}.items():
        root.create_array(name, data=values)
    for path, expected in {"/text": ["a", "é日", ""], "/times": ["5", "-1"], "/both": ["é", "5", "", "-1"]}.items():
        opened(page, made / "times.zarr", path, view="table")
        assert page.locator("#look .grid td").all_inner_texts() == expected


def test_wheel_drag_and_double_click(page, made):
    """The wheel zooms at the pointer, dragging moves what is below it along, a double click shows everything."""
    values = np.add.outer(np.arange(400.0) * 1000, np.arange(600.0))
    with h5py.File(made / "zoom.h5", "w") as file:
        file["values"] = values
    opened(page, made / "zoom.h5", "/values")
    before, _ = pointed_at(page, 0.3, 0.6)
    for _ in range(6):
        page.mouse.wheel(0, -250)
        page.wait_for_timeout(30)
    until(page, "location.search.includes('window=') && !document.querySelector('#look[aria-busy]')")
    after, value = pointed_at(page, 0.301, 0.601)
    assert max(abs(a - b) for a, b in zip(before, after)) <= 1 and value == values[after] and size(page)[1] < 120
    box = page.locator("#look .plate").bounding_box()
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 0.4 * box["height"], steps=8)
    page.mouse.up()
    page.wait_for_timeout(300)
    until(page, "!document.querySelector('#look[aria-busy]')")
    moved, value = pointed_at(page, 0.6, 0.401)
    assert max(abs(a - b) for a, b in zip(after, moved)) <= 2 and value == values[moved]
    page.mouse.dblclick(box["x"] + 50, box["y"] + 50)
    until(page, "document.querySelector('#look .picture').width === 600 && !location.search.includes('window=')")


def test_keys_move_the_visible_part(page, made):
    """Zoomed in, arrow keys take the visible part along, and 0 shows everything."""
    with h5py.File(made / "keys.h5", "w") as file:
        file["values"] = np.arange(200.0 * 300).reshape(200, 300)
    opened(page, made / "keys.h5", "/values")
    picture = page.locator("#look .picture")
    picture.focus()
    for key in ("+", "+", "+"):
        picture.press(key)
    until(page, "document.querySelector('#look .picture').width < 60")
    assert [(index, value) for index, value in shown_at(page, ["Shift+ArrowRight"] * 8)][-1] == ((0, 80), 80)
    picture.press("0")
    until(page, "document.querySelector('#look .picture').width === 300")


def test_touch(chromium, base, made):
    """Two fingers zoom, and one finger moves a zoomed picture; a whole one is scrolled with the page."""
    with h5py.File(made / "touch.h5", "w") as file:
        file["values"] = np.arange(400.0 * 400).reshape(400, 400)
    context = chromium.new_context(viewport={"width": 390, "height": 844}, base_url=base, has_touch=True, is_mobile=True)
    page = context.new_page()
    opened(page, made / "touch.h5", "/values")
    plate = page.locator("#look .plate")
    assert plate.evaluate("e => e.style.touchAction") == "pan-x pan-y"
    box = plate.bounding_box()
    session = context.new_cdp_session(page)
    touch = lambda kind, *points: session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": box["x"] + x, "y": box["y"] + y, "id": n} for n, (x, y) in enumerate(points)]})
    touch("touchStart", (100, 100), (140, 140))
    for n in range(1, 9):
        touch("touchMove", (100 - 8 * n, 100 - 8 * n), (140 + 8 * n, 140 + 8 * n))
    touch("touchEnd")
    until(page, "document.querySelector('#look .picture').width < 200")
    assert plate.evaluate("e => e.style.touchAction") == "none"
    context.close()


def test_spikes_of_long_series(page, made):
    """Two spikes in 3,000,000 values are drawn, read out exactly, and found by zooming in."""
    values = np.sin(np.arange(3_000_000) / 90_000).astype("f4")
    values[[1_234_567, 2_345_678]] = 50, -60
    with h5py.File(made / "long.h5", "w") as file:
        file.create_dataset("series", data=values, chunks=(100_000,), compression="gzip", compression_opts=1)
    opened(page, made / "long.h5", "/series")
    summary = page.locator("#summary").inner_text()
    assert "minimum -60" in summary and "maximum 50" in summary and "smallest and the largest of each 23" in page.locator("#look .status").first.inner_text()
    inked = page.evaluate("""() => { const c = document.querySelector('#look .picture'); const { width, height } = c;
        const bytes = c.getContext('2d').getImageData(0, 0, width, height).data; const found = [];
        for (let y = 30; y < height - 60; y += 1) { let n = 0; for (let x = 80; x < width; x += 1) if (bytes[4 * (y * width + x) + 2] > bytes[4 * (y * width + x)] + 60) n += 1; found.push(n); }
        return found; }""")
    assert sum(n > 0 for n in inked) > 0.85 * len(inked), "the spikes reach from the upper to the lower end"
    box = page.locator("#look .picture").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.44, box["y"] + 100)
    for _ in range(24):
        page.mouse.wheel(0, -300)
        page.wait_for_timeout(20)
    until(page, "location.search.includes('window=') && !document.querySelector('#look[aria-busy]')")
    for index, value in shown_at(page, ["ArrowRight", "Shift+ArrowRight", "ArrowLeft"]):
        assert value == values[index]


def test_masks_are_transparent(page, made):
    """What the internal mask of a TIFF hides is transparent, in the picture and in its overview, and has no value."""
    import rasterio
    values = np.random.default_rng(8).integers(1, 60000, (4, 2400, 2400)).astype("u2")
    hidden = np.add.outer(np.arange(2400), np.arange(2400)) % 3000 < 900
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), rasterio.open(made / "masked.tif", "w", driver="GTiff", width=2400, height=2400, count=4, dtype="uint16", tiled=True, blockxsize=256, blockysize=256, compress="deflate", crs="EPSG:32633", transform=rasterio.Affine(10, 0, 500000, 0, -10, 5300000)) as out:
        out.write(values)
        out.write_mask(np.where(hidden, 0, 255).astype("u1"))
        for n, name in enumerate(("B02", "B03", "B04", "B08"), 1):
            out.set_band_description(n, name)
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), rasterio.open(made / "masked.tif", "r+") as out:
        out.build_overviews([2, 4], rasterio.enums.Resampling.nearest)
    opened(page, made / "masked.tif")
    assert [page.locator(f"#look [name=band-{n}] option:checked").inner_text() for n in range(3)] == ["B04", "B03", "B02"]
    with rasterio.open(made / "masked.tif", overview_level=1) as overview:
        expected = overview.read_masks(1)
    assert size(page) == expected.shape and ((drawn(page)[..., 3] == 255) == (expected > 0)).all()
    for x, y in np.random.default_rng(9).random((10, 2)):
        index, value = pointed_at(page, x, y)
        assert math.isnan(value) if hidden[index[1:]] else value == values[(2, *index[1:])]
        assert ("masked" in page.locator("#look .readout").first.inner_text()) == hidden[index[1:]]
    opened(page, made / "masked.tif", view="table", bands="one", slice="1,:,:")
    cells = [page.locator("#look .grid tbody tr").nth(row).locator("td").all_inner_texts() for row in (0, 49)]
    assert cells == [["no data" if hidden[row, column] else str(values[1, row, column]) for column in range(20)] for row in (0, 49)]
    opened(page, made / "masked.tif", bands="one", slice="1,:,:", window="1:0.4:0.41,2:0.4:0.41")
    with page.expect_download() as download:
        page.locator("#look [name=csv]").click()
    download.value.save_as(made / "masked.csv")
    cells = [row[-1] for row in csv.reader((made / "masked.csv").open())][1:]
    assert cells == ["" if hidden[row, column] else str(values[1, row, column]) for row in range(960, 984) for column in range(960, 984)] and len(set(cells)) > 50


def test_images_of_hdf5(page, made):
    """Rows × columns × 3 bytes, and images by the HDF5 image specification, are drawn in red, green and blue."""
    photo = np.random.default_rng(4).integers(0, 256, (40, 60, 3)).astype("u1")
    with h5py.File(made / "photo.h5", "w") as file:
        file["pixel"] = photo
        file["plane"] = np.moveaxis(photo, 2, 0)
        file["plane"].attrs["INTERLACE_MODE"] = np.bytes_("INTERLACE_PLANE")
        file["plane"].attrs["IMAGE_SUBCLASS"] = np.bytes_("IMAGE_TRUECOLOR")
    for path in ("/pixel", "/plane"):
        opened(page, made / "photo.h5", path)
        assert (drawn(page)[..., :3] == photo).all()


def test_rows_of_curvilinear_grids_go_north(page, made):
    """A grid whose first row is the southernmost one is drawn from the bottom, also without coordinates of its dimensions."""
    j, i = np.mgrid[0:30, 0:20]
    for name, latitude in (("north", 10 + 0.5 * j + 0.1 * i), ("south", 40 - 0.5 * j)):
        data = {"salt": (("eta", "xi"), (j * 100.0 + i), {"coordinates": "lon lat"})}
        xr.Dataset(data, {"lat": (("eta", "xi"), latitude, {"units": "degrees_north"}), "lon": (("eta", "xi"), 5.0 + i, {"units": "degrees_east"})}).to_netcdf(made / f"roms-{name}.nc")
        opened(page, made / f"roms-{name}.nc", "/salt")
        assert page.locator("#look [name=flip]").is_checked() == (name == "north")


def test_csv_and_table_read_back(page, made, tmp_path):
    """float32 has the shortest digits that read back; cells that are no numbers cannot be formulas."""
    single = np.random.default_rng(2).normal(size=500).astype("f4") * np.float32(10) ** np.random.default_rng(3).integers(-20, 20, 500).astype("f4")
    formulas = ["=1+1", "+A0", "-2+3+cmd|' /C calc'!A0", "@SUM(A1)", "-12.5", "+3e4", "plain"]
    with h5py.File(made / "digits.h5", "w") as file:
        file["single"] = single
        file["formulas"] = formulas
        file["rows"] = np.array([(np.float32(0.1), b"=x")], [("part", "f4"), ("text", "S4")])
    opened(page, made / "digits.h5", "/single", view="table")
    digits = lambda text: text.split("e")[0].replace(".", "").strip("-0")
    cells = page.locator("#look .grid td").all_inner_texts()
    assert np.array_equal(np.array(cells, "f4"), single[:50]) and all(len(digits(cell)) <= len(digits(str(value))) or value % 1 == 0 for cell, value in zip(cells, single))
    for path, expected in {"/single": None, "/formulas": [["'" + text if text in formulas[:4] else text] for text in formulas], "/rows": [["0.1", "'=x"]]}.items():
        opened(page, made / "digits.h5", path, view="table")
        with page.expect_download() as download:
            page.locator("#look [name=csv]").click()
        download.value.save_as(tmp_path / "cells.csv")
        header, *rows = csv.reader((tmp_path / "cells.csv").open(newline=""))
        if expected:
            assert [row[1:] for row in rows] == expected and header[1:] == (["part", "text"] if path == "/rows" else ["formulas"])
        else:
            assert np.array_equal(np.array([row[1] for row in rows], "f4"), single)


def test_numbers_as_people_write_them(page, climate):
    """Large numbers have separators, degrees their letter."""
    opened(page, climate)
    found = page.evaluate("""() => import('./assets/values.js').then(({ written, measured, spell }) => [
        written(5.295e6), written(1234), written(-12345.5), written(1e30), measured(20, { units: 'degrees_north' }), measured(-5.5, { units: 'degrees_north' }),
        measured(190, { units: 'degree_east' }), measured(3, { units: 'm' }), spell(Math.fround(0.1), 'float32'), spell(0.1 + 0.2, 'float64'), written(2n ** 60n)])""")
    assert found == ["5,295,000", "1234", "-12,345.5", "1e30", "20°N", "5.5°S", "170°W", "3 m", "0.1", "0.30000000000000004", "1,152,921,504,606,846,976"]


def test_summary(page, made, climate):
    """Above the picture: system, bounds, size of pixels, missing data, compression, and the range of the values."""
    opened(page, climate, "/tas")
    with xr.open_dataset(climate) as data:
        first = data.tas[0].load()
    text = page.locator("#summary").inner_text()
    for part in ("2001-01-16 to", "°S to", "Deflate", f"minimum {float(first.min()):.7g}"):
        assert part in text, text
    import rasterio
    with rasterio.open(made / "summary.tif", "w", driver="GTiff", width=300, height=200, count=1, dtype="int16", compress="deflate", nodata=-7, crs="EPSG:32633", transform=rasterio.Affine(10, 0, 500000, 0, -10, 5300000)) as out:
        out.write(np.arange(60000).reshape(1, 200, 300).astype("i2"))
    opened(page, made / "summary.tif")
    text = page.locator("#summary").inner_text()
    for part in ("EPSG:32633", "x 500,000 to 503,000, y 5,298,000 to 5,300,000", "10 × 10 m", "-7", "Deflate", "maximum 32,767"):
        assert part in text, text


def test_digits_of_computed_coordinates(page, made):
    """The readout shows as many digits of the coordinates of a GeoTransform as tell pixels apart, not 12.300000000000001."""
    import rasterio
    with rasterio.open(made / "digits.tif", "w", driver="GTiff", width=60, height=40, count=1, dtype="uint8", crs="EPSG:4326", transform=rasterio.Affine(0.1, 0, 10.07, 0, -0.1, 50)) as out:
        out.write(np.ones((1, 40, 60), "u1"))
    opened(page, made / "digits.tif")
    for index, _ in shown_at(page, ["ArrowRight", "ArrowDown"] * 20):
        text = page.locator("#look .readout").first.inner_text()
        assert f"({50 - 0.1 * (index[1] + 0.5):.4g}°N)" in text and f"({10.07 + 0.1 * (index[2] + 0.5):.4g}°E)" in text, text


def test_packing_that_varies(page, made):
    """An archive whose files are packed with different factors shows the values that xarray makes of the files, in picture, profile, table and CSV."""
    (made / "packings").mkdir()
    files = [made / f"packings/d{n}.nc" for n in range(3)]
    for n, file in enumerate(files):
        values = 280 + 20 * np.random.default_rng(n).random((4, 6, 8))
        data = xr.Dataset({"t": (("time", "y", "x"), values, {"units": "K"})}, {"time": ("time", np.arange(4) + 4 * n, {"units": "days since 2001-01-01"})})
        data.to_netcdf(file, encoding={"t": {"dtype": "i2", "scale_factor": 0.01 * (n + 1), "add_offset": 280.0 + n, "_FillValue": -9999}})
    run = clients.virtualize("batch", *files, "--concat-dim", "time", "-o", made / "packings.json", "-q")
    assert run.status == 0, run.stderr
    expected = np.concatenate([xr.open_dataset(file, decode_times=False)["t"].values for file in files])
    opened(page, made / "packings.json", "/t", slice="6,:,:")
    for index, value in shown_at(page, ["ArrowRight", "PageDown", "End", "Home"]):
        assert value == pytest.approx(expected[index], abs=1e-6)
    plot, readout = profile(page)
    for time in range(7, 12):
        plot.press("ArrowRight")
        assert float(readout.get_attribute("data-value")) == pytest.approx(expected[time, index[1], index[2]], abs=1e-6)
    opened(page, made / "packings.json", "/t", view="table", slice="9,:,:")
    cells = [float(cell) for cell in page.locator("#look .grid td").all_inner_texts()]
    assert cells == pytest.approx(expected[9].ravel(), abs=1e-6)


def test_a_slider_reads_ahead(page, climate):
    """A step shows the values of its index without a request, because the slices after it were read; coordinates are read once."""
    with xr.open_dataset(climate) as data:
        tas = data.tas.load()
    asked = []
    page.on("request", lambda request: asked.append(urllib.parse.parse_qs(urllib.parse.urlparse(request.url).query)) if "/v1/values/" in request.url else None)
    opened(page, climate, "/tas", range="-6,12")
    indices = lambda: [int(each["select"][0].split(",")[0]) for each in asked if each["array"] == ["/tas"]]
    step = lambda key: page.locator("#look .index input[type=range]").press(key)
    expected = []
    for key, index, read in [("ArrowRight", 1, [1, 2, 3]), ("ArrowRight", 2, [4]), ("ArrowRight", 3, [5]), ("ArrowLeft", 2, []), ("ArrowLeft", 1, [])]:
        before = page.locator("#look .picture").get_attribute("data-drawn")
        step(key)
        until(page, f"document.querySelector('#look .picture').dataset.drawn > {before} && document.querySelector('#look [name=at-0]').value === '{index}'")
        expected += read
        for _ in range(100):
            if indices()[1:] == expected:
                break
            page.wait_for_timeout(50)
        page.wait_for_timeout(50)
        assert indices()[1:] == expected, (key, index)
        known = ~np.isnan(tas.values[index])
        assert (drawn(page)[::-1][known][:, :3] == coloured(page, tas.values[index][known])).all()
    assert sorted(each["array"][0] for each in asked if each["array"] != ["/tas"]) == ["/lat", "/lon", "/time"]


def test_a_file_that_is_replaced(page, made):
    """The page says that the file has changed, and shows the new version on request, at the same place."""
    page.expected.append("409 (Conflict)")
    def write(first):
        with h5py.File(made / "new.h5", "w") as file:
            file.create_dataset("values", data=np.arange(first, first + 6 * 20 * 30.0).reshape(6, 20, 30), chunks=(1, 20, 30))
        (made / "new.h5").replace(made / "replaced.h5")
    write(0)
    opened(page, made / "replaced.h5", "/values")
    write(50_000)
    page.locator("#look .index input[type=range]").press("ArrowRight")
    page.locator("#problem:not([hidden])").wait_for()
    assert "The file has changed since it was opened." in page.locator("#problem").inner_text()
    until(page, "location.search.includes('slice=1')")
    page.evaluate("document.querySelector('#look .picture').dataset.old = 1")
    page.locator("#problem button").click()
    page.locator("#problem").wait_for(state="hidden")
    until(page, "!!document.querySelector('#look [data-drawn]:not([data-old])') && !document.querySelector('#look[aria-busy]')")
    assert page.locator("#look [name=at-0]").input_value() == "1"
    for index, value in shown_at(page, ["ArrowRight", "PageDown"]):
        assert value == 50_000 + np.ravel_multi_index(index, (6, 20, 30))
