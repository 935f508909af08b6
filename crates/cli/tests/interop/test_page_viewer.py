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
        yield tuple(json.loads(readout.get_attribute("data-index"))), float(readout.get_attribute("data-value"))


def opened(page, file, path="/", **state):
    page.goto("/?" + urllib.parse.urlencode({"url": service.url(file), **({"path": path} if path != "/" else {}), **state}))
    page.locator("#source").wait_for()
    until(page, "!!document.querySelector('#look [data-drawn]') && !document.querySelector('#look[aria-busy]')")


def test_a_pyramid_is_shown_at_the_size_of_the_screen(page, made):
    """Opening a COG shows the overview that fits, in few requests; its values are those of rasterio's overview."""
    import rasterio
    edge = 3000
    values = np.add.outer(np.arange(edge), np.arange(edge) * 3).astype("u2")
    with rasterio.open(made / "pyramid.tif", "w", driver="COG", width=edge, height=edge, count=1, dtype="uint16", compress="DEFLATE", blocksize=256) as out:
        out.write(values, 1)
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    opened(page, made / "pyramid.tif")
    with rasterio.open(made / "pyramid.tif", overview_level=1) as overview:
        expected = overview.read(1)
    assert size(page) == expected.shape == (750, 750)
    for index, value in shown_at(page, ["End", "PageDown", "Shift+ArrowLeft", "ArrowDown"]):
        assert value == expected[index[1:]], index
    assert len([url for url in asked if "/v1/" in url and "/v1/about" not in url and "/v1/chunks" not in url]) <= 8
    page.locator("#look [name=level]").select_option("0")
    until(page, "document.querySelector('#look .picture').width === 1000 && !document.querySelector('#look[aria-busy]')")
    for index, value in shown_at(page, ["Home", "PageDown", "ArrowRight"]):
        assert value == values[index[1:]], index


def test_small_chunks_are_one_request(page, made):
    """An array of 10,000 chunks is drawn with one request for its values."""
    values = np.arange(400 * 400, dtype="i4").reshape(400, 400)
    with h5py.File(made / "tiny.h5", "w") as file:
        file.create_dataset("tiny", data=values, chunks=(4, 4), compression="gzip")
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    opened(page, made / "tiny.h5", "/tiny")
    assert size(page) == values.shape
    assert len([url for url in asked if "/v1/values/" in url]) == 1 and not [url for url in asked if "/v1/plain/" in url]
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
        found = page.evaluate("""([values, units, calendar]) => import('./assets/time.js').then((m) => {
            const time = m.timeAxis({ units, calendar });
            return values.map((value) => m.formatTime(time, value)); })""", [values, units, calendar])
        whole = [f"{text} 00:00:00"[:19] if len(text) == 10 else f"{text}:00"[:19] for text in found]
        assert [text.lstrip("0") for text in whole] == [text.strip().lstrip("0") for text in expected], units


def test_ticks_are_coordinates(page, climate):
    """Ticks of the time axis are first days of months at their places, those of latitudes are degrees."""
    opened(page, climate, "/tas")
    found = page.evaluate("""() => Promise.all([import('./assets/time.js'), import('./assets/axes.js')]).then(([t, a]) => {
        const time = t.timeAxis({ units: 'days since 2001-01-01', calendar: '360_day' });
        const axis = new a.Axis({ name: 'lat', span: { start: 0, step: 1, count: 36 }, values: Float64Array.from({ length: 36 }, (_, n) => -87.5 + 5 * n), attributes: { units: 'degrees_north' } });
        return [t.timeTicks(time, 15, 705, 6), axis.ticks(6)]; })""")
    times, degrees = found
    assert [(tick["value"], tick["label"]) for tick in times] == [(180, "2001-07"), (360, "2002"), (540, "2002-07")]
    assert [(tick["place"], tick["label"]) for tick in degrees] == [(5.5, "60°S"), (11.5, "30°S"), (17.5, "0°"), (23.5, "30°N"), (29.5, "60°N")]


def test_readout_and_profile(page, climate):
    """The readout shows coordinates as xarray decodes them; the profile has the values of the chosen point."""
    with xr.open_dataset(climate, decode_times=xr.coders.CFDatetimeCoder(use_cftime=True)) as data:
        tas = data.tas.load()
    opened(page, climate, "/tas")
    assert page.locator("#look [name=flip]").is_checked()
    assert page.locator("#look .index .at").inner_text() == str(tas.time.values[0])[:10]
    (index, value), = list(shown_at(page, ["PageUp"]))
    assert value == pytest.approx(float(tas.values[index]), abs=1e-9)
    assert f"lat {index[1]} ({tas.lat.values[index[1]]:g} degrees_north)" in page.locator("#look .readout").first.inner_text()
    page.locator("#look .picture").first.press("Enter")
    until(page, "document.querySelectorAll('#look .readout')[1]?.dataset.value !== undefined")
    plot = page.locator("#look .profile .picture")
    plot.focus()
    for month in range(1, 6):
        plot.press("ArrowRight")
        readout = page.locator("#look .profile .readout")
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
        "/text": ["", "zwölf", "a,b"], "/record": ["number: 1, part: 2.5, code: ab", "number: -2, part: 0.1, code: c"],
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
    until(page, "document.querySelector('#look .picture').width === 36 && location.search.includes('window=')")
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
    for path, expected in {"/text": ["a", "é日", ""], "/times": ["5", "-1"], "/both": ["t: é, m: 5", "t: , m: -1"]}.items():
        opened(page, made / "times.zarr", path, view="table")
        assert page.locator("#look .grid td").all_inner_texts() == expected
