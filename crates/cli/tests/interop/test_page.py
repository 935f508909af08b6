"""The page of the service in headless Chromium, compared with the service and the file.

Skipped with a message if Chromium is not found (CHROMIUM=… names its executable)."""
import json, math, os, re, shutil, subprocess, sys, time, urllib.error, urllib.parse, urllib.request

import clients
import h5py
import numpy as np
import pytest
import service

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: the page is not tested (install chromium, or set CHROMIUM)")

NETCDF = clients.FIXTURES / "hdf5/netcdf4.nc"
CHUNKED = clients.FIXTURES / "hdf5/chunked.h5"
COG = clients.FIXTURES / "tiff/cog.tif"


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Yields the address of the service, which may read the fixtures and `made`."""
    # All tests together are one client, which is faster than people are.
    with service.started(clients.FIXTURES, tmp_path_factory.getbasetemp(), arguments=("--rate", "100000", "--burst", "100000")) as address:
        yield address


@pytest.fixture(scope="module")
def chromium():
    from playwright.sync_api import sync_playwright
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(chromium, base):
    """A page that must not report any error or violate its content security policy."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, base_url=base)
    context.add_init_script("window.violations = []; addEventListener('securitypolicyviolation', (e) => violations.push(`${e.violatedDirective} ${e.blockedURI}`));")
    page = context.new_page()
    page.set_default_timeout(15000)
    page.errors, page.expected = [], []
    page.set_default_timeout(90_000)
    page.on("console", lambda message: page.errors.append(f"{message.text} {message.location.get('url')}") if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.on("request", lambda request: page.errors.append(f"asked {request.url}") if not request.url.startswith((base, "blob:", "data:")) else None)
    yield page
    assert page.evaluate("violations") == []
    unexpected = [error for error in page.errors if not any(part in error for part in page.expected)]
    assert unexpected == []
    context.close()


def until(page, expression, seconds=90):
    """Waits for a condition. Playwright's own wait evaluates text in the page, which its policy forbids."""
    end = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"never held: {expression}\n{page.errors}\n{page.locator('main').inner_text()}"
        page.wait_for_timeout(25)


def show(page, file, path="/"):
    page.goto("/?" + urllib.parse.urlencode({"url": service.url(file), "path": path}))
    page.locator("#source").wait_for()
    if path != "/":
        until(page, f"document.querySelector('#node-title').textContent === {json.dumps(path)}")


def settled(page):
    """Waits until the quick look is drawn."""
    until(page, "document.querySelector('#look .picture')?.dataset.drawn > 0 && !document.querySelector('#look[aria-busy]')")


def inspected(base, file):
    query = urllib.parse.urlencode({"url": service.url(file), "format": "zarr3-json"})
    with urllib.request.urlopen(f"{base}/v1/inspect?{query}") as answer:
        return json.load(answer)


def walk(node, path=""):
    for name, child in node.get("children", {}).items():
        yield f"{path}/{name}", child
        yield from walk(child, f"{path}/{name}")


@pytest.mark.parametrize("file", [NETCDF, CHUNKED, COG, clients.FIXTURES / "hdf5/types.h5"], ids=lambda file: file.name)
def test_tree_and_details(page, base, file):
    page.expected.append("404 (Not Found)")  # missing chunks
    said = inspected(base, file)
    show(page, file)
    nodes = dict(walk(said["root"]))
    shown = page.locator("[role=treeitem]").evaluate_all("items => items.map((item) => item.dataset.path)")
    assert sorted(shown) == sorted(["/", *nodes, *said["left_out"]])
    for path, node in nodes.items():
        if node["node"] == "array":
            page.locator(f'[role=treeitem][data-path={json.dumps(path)}] > .row').click()
            same_details(page, node)


def same_details(page, node):
    text = lambda field: page.locator(f"#facts [data-field={field}]").inner_text()
    assert text("data-type") == node["data_type"]
    assert text("shape") == f"({', '.join(map(str, node['shape']))})"
    assert json.loads(text("chunk-shape")) == node["chunks"]["shape"]
    dimensions = [f"{name} {length:,}" if name else f"{length:,}" for name, length in zip(node["dimensions"] or node["shape"], node["shape"])]
    assert text("dimensions") == (" × ".join(dimensions) or "none: a scalar")
    assert f"{node['chunks']['stored']} stored" in text("chunks")
    assert json.loads(text("fill-value")) == node["fill_value"]
    names = [codec.split("(")[0] for codec in text("codecs").splitlines()]
    assert names == [codec if isinstance(codec, str) else codec["name"] for codec in node["codecs"]]
    rows = page.locator("#fill tbody tr").all_inner_texts()
    sources = (node["fill_decision"] or {"sources": []})["sources"]
    assert [row.split("\t")[:2] for row in rows] == [[source["origin"], source["text"]] for source in sources]
    assert all(source["outcome"] in row and (source["reason"] or "") in row for row, source in zip(rows, sources))
    readers = {row.split("\t")[0]: row.split("\t")[1] for row in page.locator("#readers tbody tr").all_inner_texts()}
    assert readers == {name: verdict["reads"] for name, verdict in node["readers"].items()}
    assert page.locator("#attributes tbody th").all_inner_texts() == sorted(node["attributes"])


def original(file, path):
    """Returns the stored values and their meaning: NaN for no data."""
    with h5py.File(file) as opened:
        dataset = opened[path]
        stored, attributes = dataset[()], dict(dataset.attrs)
    values = stored.astype(float)
    for name in ("_FillValue", "missing_value"):
        for sentinel in np.atleast_1d(attributes.get(name, [])):
            values[stored == sentinel] = math.nan
    scale, offset = (float(np.atleast_1d(attributes.get(name, default))[0]) for name, default in (("scale_factor", 1), ("add_offset", 0)))
    return stored, values * scale + offset if (scale, offset) != (1, 0) else values


def read_all(page, height, width):
    """Returns every value of the picture, read with the keyboard; rows in array order."""
    picture = page.locator("#look .picture")
    picture.focus()
    upward = page.locator("#look [name=flip]").is_checked()
    seen = {}
    for _ in range(2 * height):  # to row 0
        picture.press("ArrowDown" if upward else "ArrowUp")
    for row in range(height):
        picture.press("Home")
        for _ in range(width):
            readout = page.locator("#look .readout")
            seen[tuple(json.loads(readout.get_attribute("data-index"))[-2:])] = float(readout.get_attribute("data-value"))
            picture.press("ArrowRight")
        picture.press("ArrowUp" if upward else "ArrowDown")
    return np.array([[seen[y, x] for x in range(width)] for y in range(height)])


@pytest.mark.parametrize("file, path", [(CHUNKED, "temperature"), (NETCDF, "packed"), (NETCDF, "lat2d")])
def test_quick_look_values(page, file, path):
    page.expected.append("404 (Not Found)")
    show(page, file, f"/{path}")
    settled(page)
    _, values = original(file, path)
    np.testing.assert_array_equal(read_all(page, *values.shape), values)
    same_pixels(page, values)


def same_pixels(page, values):
    """Colours are those of the color map at the value's position in the range; no data is transparent."""
    pixels = page.evaluate("""() => { const c = document.querySelector('#look .picture');
        return [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data]; }""")
    table = np.array(page.evaluate("import('./assets/colour.js').then((m) => [...m.table('Lagoon')])")).reshape(256, 3)
    drawn = np.array(pixels).reshape(*values.shape, 4)
    if page.locator("#look [name=flip]").is_checked():
        drawn = drawn[::-1]
    known = ~np.isnan(values)
    low, high = np.nanmin(values), np.nanmax(values)
    part = (values[known] - low) / (high - low) if high > low else np.full(known.sum(), 0.5)
    place = np.floor(255 * part + 0.5).astype(int)
    assert (drawn[..., 3] == np.where(known, 255, 0)).all()
    assert (drawn[known][:, :3] == table[place]).all()


def test_other_axes_and_slices(page):
    show(page, NETCDF, "/temperature")
    settled(page)
    stored, values = original(NETCDF, "temperature")
    page.locator("#look [name=at-0]").fill("2")
    page.locator("#look [name=at-0]").press("Enter")
    until(page, "document.querySelector('#look .picture').dataset.drawn > 1 && !document.querySelector('#look[aria-busy]')")
    np.testing.assert_array_equal(read_all(page, 4, 6), values[2])
    page.locator("#look [name=rows]").select_option("0")
    settled(page)
    assert page.locator("#look .picture").evaluate("c => [c.width, c.height]") == [6, 3]


def test_types_are_drawn(page, tmp_path_factory):
    """Every numeric type in both byte orders, with its minimum and maximum."""
    file = tmp_path_factory.getbasetemp() / "numbers.h5"
    written = {}
    with h5py.File(file, "w") as opened:
        for name in ("b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"):
            for order in "<>":
                numbers = np.dtype(order + name) if name != "b1" else np.dtype(bool)
                about = np.finfo(numbers) if numbers.kind == "f" else np.iinfo(numbers) if numbers.kind in "iu" else None
                values = [about.min, 0, 1, about.max] if about else [False, True, True, False]
                written[f"{name}{'be' if order == '>' else 'le'}"] = opened.create_dataset(f"{name}{'be' if order == '>' else 'le'}", data=np.array(values, numbers))[()]
    show(page, file)
    for name, values in written.items():
        page.locator(f'[role=treeitem][data-path="/{name}"] > .row').click()
        settled(page)
        picture, readout = page.locator("#look .picture"), page.locator("#look .readout")
        picture.focus()
        picture.press("Home")
        for value in values:
            assert float(readout.get_attribute("data-value")) == float(value), name
            if values.dtype.kind in "iu":
                assert readout.inner_text().endswith(f": {value}"), name
            picture.press("ArrowRight")


def test_keyboard_alone(page):
    page.goto("/")
    page.locator("#allowed").wait_for()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    for _ in range(12):
        if page.evaluate("document.activeElement.id") == "url":
            break
        page.keyboard.press("Tab")
    page.keyboard.type(service.url(NETCDF))
    page.keyboard.press("Enter")
    page.locator("#source").wait_for()
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.getAttribute('role')") == "treeitem":
            break
    focused = lambda: page.evaluate("document.activeElement.dataset.path")
    assert focused() == "/"
    page.keyboard.press("ArrowLeft")
    assert page.locator('[data-path="/"]').get_attribute("aria-expanded") == "false"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert focused() == "/byte"
    page.keyboard.type("inn")
    assert focused() == "/inner"
    for key, path in [("ArrowRight", "/inner/deep"), ("ArrowRight", "/inner/deep/pressure"), ("ArrowLeft", "/inner/deep"), ("Home", "/"), ("End", "/time"), ("ArrowUp", "/temperature")]:
        page.keyboard.press(key)
        assert focused() == path
    assert page.evaluate("getComputedStyle(document.activeElement.querySelector('.row')).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    assert page.locator("#node-title").inner_text() == "/temperature"
    assert "path=%2Ftemperature" in page.url
    assert page.locator("[role=tree] [tabindex='0']").count() == 1
    settled(page)
    roles = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        roles.add(page.evaluate("document.activeElement.getAttribute('role') ?? document.activeElement.tagName"))
        ring = page.evaluate("(() => { const at = document.activeElement; const s = getComputedStyle(at.querySelector('.row') ?? at); return s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) > 0; })()")
        assert ring or page.evaluate("document.activeElement === document.body"), page.evaluate("document.activeElement.outerHTML.slice(0, 200)")
    assert {"slider", "application", "BUTTON", "SELECT"} <= roles


def test_back_and_forward(page):
    show(page, CHUNKED)
    page.locator("#url").fill(service.url(COG))
    page.locator("#url").press("Enter")
    until(page, "document.querySelector('#file-name').textContent.endsWith('cog.tif')")
    page.go_back()
    until(page, "document.querySelector('#file-name').textContent.endsWith('chunked.h5')")
    assert page.locator("#url").input_value() == service.url(CHUNKED)


def test_layout_is_what_h5py_says(page):
    page.expected.append("404 (Not Found)")
    show(page, CHUNKED, "/temperature")
    with h5py.File(CHUNKED) as opened:
        dataset = opened["temperature"]
        infos = [dataset.id.get_chunk_info(n) for n in range(dataset.id.get_num_chunks())]
        chunks = sorted((info.byte_offset, info.size, tuple(at // edge for at, edge in zip(info.chunk_offset, dataset.chunks))) for info in infos)
    slider = page.locator("#layout [role=slider]")
    slider.focus()
    slider.press("Home")
    for offset, length, index in chunks:
        assert slider.get_attribute("aria-valuetext").startswith(f"chunk ({', '.join(map(str, index))}) · offset {offset:,} · {length} bytes")
        slider.press("ArrowRight")
    assert slider.get_attribute("aria-valuemax") == str(len(chunks))


def test_hundred_thousand_chunks(page, tmp_path_factory):
    file = tmp_path_factory.getbasetemp() / "many.h5"
    with h5py.File(file, "w", libver="latest") as opened:
        opened.create_dataset("many", data=np.arange(200_000, dtype="<u2").reshape(400, 500) % 997, chunks=(1, 2))
        last, middle = (opened["many"].id.get_chunk_info(n) for n in (99_999, 50_000))
    show(page, file, "/many")
    slider = page.locator("#layout [role=slider]")
    slider.wait_for()
    assert slider.get_attribute("aria-valuemax") == "100000"
    slider.focus()
    slider.press("End")
    assert f"offset {last.byte_offset:,} · {last.size} bytes" in slider.get_attribute("aria-valuetext")
    strip = page.locator("#layout canvas.strip").first
    box = strip.bounding_box()
    page.mouse.move(box["x"] + box["width"] * middle.byte_offset / file.stat().st_size, box["y"] + 5)
    offset = int(re.search(r"offset ([\d,]+)", slider.get_attribute("aria-valuetext"))[1].replace(",", ""))
    assert abs(offset - middle.byte_offset) < 2 * file.stat().st_size / box["width"]
    colours = strip.evaluate("c => new Set([...new Uint32Array(c.getContext('2d').getImageData(0, 9, c.width, 1).data.buffer)]).size")
    assert colours > 50


def test_limit_of_bytes(page, tmp_path_factory):
    """Parts beyond the limit are hatched and reported."""
    file = tmp_path_factory.getbasetemp() / "large.h5"
    with h5py.File(file, "w") as opened:
        data = np.add.outer(np.arange(3000.0), np.arange(2400.0))
        opened.create_dataset("large", data=data, chunks=(500, 400), compression="gzip", compression_opts=1)
    show(page, file, "/large")
    settled(page)
    page.locator("#look [name=budget]").select_option("16")
    until(page, "document.querySelector('#look .status').textContent.includes('not read')")
    told = page.locator("#look .status").inner_text()
    assert "9 chunks read" in told and "one in 3 along" in told and "36 chunks" in told
    picture = page.locator("#look .picture")
    picture.focus()
    picture.press("Shift+ArrowRight")
    index = json.loads(page.locator("#look .readout").get_attribute("data-index"))
    assert float(page.locator("#look .readout").get_attribute("data-value")) == data[tuple(index)]


def test_large_chunks_are_read_in_parts(page, tmp_path_factory):
    """Contiguous data is one chunk, of which only the required part is requested."""
    file = tmp_path_factory.getbasetemp() / "contiguous.h5"
    data = np.add.outer(np.arange(5, dtype="i4") * 10**8, np.add.outer(np.arange(2000) * 10**4, np.arange(1500))).astype("<i4")
    with h5py.File(file, "w") as opened:
        opened["a"] = data
    asked = []
    page.on("request", lambda request: asked.append(request.headers.get("range")) if "/a/c/" in request.url else None)
    show(page, file, "/a")
    settled(page)
    assert asked and all(asked)
    sizes = [int(last) + 1 - int(first) for first, last in (text.removeprefix("bytes=").split("-") for text in asked)]
    assert sum(sizes) < data[0].nbytes * 1.01 and max(sizes) <= 4 << 20
    page.locator("#look [name=at-0]").fill("3")
    page.locator("#look [name=at-0]").press("Enter")
    until(page, "document.querySelector('#look .picture').dataset.drawn > 1 && !document.querySelector('#look[aria-busy]')")
    picture = page.locator("#look .picture")
    picture.focus()
    for key in ("Home", "Shift+ArrowRight", "PageDown", "ArrowDown", "End"):
        picture.press(key)
        index = tuple(json.loads(page.locator("#look .readout").get_attribute("data-index")))
        assert index[0] == 3 and float(page.locator("#look .readout").get_attribute("data-value")) == data[index]


def contrast(page):
    """Returns text whose contrast with its background is below 4.5 (WCAG AA)."""
    return page.evaluate("""() => {
        const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
        const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
            .reduce((sum, v, n) => sum + v * [0.2126, 0.7152, 0.0722][n], 0);
        const ground = (element) => {
            for (let at = element; at; at = at.parentElement) {
                const colour = numbers(getComputedStyle(at).backgroundColor);
                if (colour.length < 4 || colour[3] === 1) return colour;
            }
            return [255, 255, 255];
        };
        const poor = [];
        for (const element of document.querySelectorAll('body *')) {
            const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
            if (!own || !element.checkVisibility()) continue;
            const [a, b] = [light(numbers(getComputedStyle(element).color)), light(ground(element))].sort((x, y) => y - x);
            const ratio = (a + 0.05) / (b + 0.05);
            if (ratio < 4.5) poor.push(`${element.tagName}.${element.className} ${element.textContent.slice(0, 30)}: ${ratio.toFixed(2)}`);
        }
        return poor;
    }""")


@pytest.mark.parametrize("system, chosen, dark", [("light", "system", False), ("dark", "system", True), ("light", "dark", True), ("dark", "light", False)])
def test_themes(page, system, chosen, dark):
    page.emulate_media(color_scheme=system)
    show(page, NETCDF, "/packed")
    settled(page)
    page.locator("#theme").select_option(chosen)
    ground = page.evaluate("getComputedStyle(document.documentElement).backgroundColor.match(/\\d+/g).map(Number)")
    assert (sum(ground) < 384) == dark
    assert contrast(page) == []
    page.reload()
    page.locator("#source").wait_for()
    assert page.locator("#theme").input_value() == chosen


@pytest.mark.parametrize("width", [360, 768, 1920])
def test_no_sideways_scrolling(page, width):
    page.set_viewport_size({"width": width, "height": 800})
    show(page, COG, "/band_data")
    settled(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_errors_are_shown_as_they_are(page, base):
    page.expected.append("Failed to load resource")
    page.goto("/")
    wanted = "file:///etc/passwd"
    page.locator("#url").fill(wanted)
    page.locator("#url").press("Enter")
    page.locator("#problem").wait_for()
    try:
        urllib.request.urlopen(f"{base}/v1/inspect?url={urllib.parse.quote(wanted, safe='')}")
        raise AssertionError("it was read")
    except urllib.error.HTTPError as answer:
        said = json.load(answer)
    assert page.locator("#problem strong").inner_text() == said["detail"]
    if said.get("hint"):
        assert said["hint"] in page.locator("#problem").inner_text()
    assert page.evaluate("document.activeElement.id") == "url"
    assert page.locator("#url").get_attribute("aria-invalid") == "true"
    page.locator("#url").fill(service.url(CHUNKED))
    assert page.locator("#problem").is_hidden()


def test_nothing_of_a_file_is_taken_for_markup(page, tmp_path_factory):
    file = tmp_path_factory.getbasetemp() / "markup.h5"
    with h5py.File(file, "w") as opened:
        nasty = "<img src=x onerror=violations.push('ran')>"
        opened.create_group(nasty)
        opened.create_dataset("a", data=[1.0]).attrs["note"] = nasty
    show(page, file, "/a")
    assert nasty in page.locator("#tree").inner_text()
    assert nasty in page.locator("#attributes").inner_text()
    assert page.locator("#source img").count() == 0


def test_no_number_is_said_to_be_none(page, tmp_path_factory):
    """JSON cannot represent a `_FillValue` of NaN."""
    page.expected.append("404 (Not Found)")
    file = tmp_path_factory.getbasetemp() / "nan.h5"
    with h5py.File(file, "w") as opened:
        for name in ("f2", "f4", "f8", ">f4"):
            values = opened.create_dataset(name, data=np.array([1, math.nan, 3], name), fillvalue=np.array(math.nan, name)[()])
            values.attrs["_FillValue"] = np.array([math.nan], name)
    show(page, file)
    for name in ("f2", "f4", "f8", ">f4"):
        page.locator(f'[role=treeitem][data-path="/{name}"] > .row').click()
        settled(page)
        assert page.locator("#facts [data-field=fill-value]").inner_text() == '"NaN"'
        assert page.locator("#attributes tbody tr", has_text="_FillValue").inner_text().endswith("NaN")
        assert "NaN" in page.locator("#fill dd").nth(1).inner_text()
        page.locator("#look .picture").focus()
        shown = []
        for key in ("Home", "ArrowRight", "ArrowRight"):
            page.locator("#look .picture").press(key)
            shown.append(page.locator("#look .readout").get_attribute("data-value"))
        assert shown == ["1", "NaN", "3"]


def test_what_is_not_seen_is_spelled(page, tmp_path_factory):
    """Control characters, bidirectional controls and zero-width characters, in names and in names and values of attributes."""
    page.expected.append("400 (Bad Request)")  # the service reads no array whose name has a control character
    file = tmp_path_factory.getbasetemp() / "unseen.h5"
    unseen = "\x1b\x7f\x85\u00ad\u061c\u200b\u200d\u200e\u200f\u2028\u202a\u202e\u2060\u2066\u2069\ufeff\U000e0041"
    spelled = {letter: f"a\\u{ord(letter):04x}b" if ord(letter) < 0x10000 else f"a\\U{ord(letter):08x}b" for letter in unseen}
    with h5py.File(file, "w") as opened:
        for letter in unseen:
            opened[f"a{letter}b"] = np.arange(3)
        opened["plain"] = np.arange(3)
        for n, letter in enumerate(unseen):
            opened["plain"].attrs[f"a{letter}b"] = f"c{n} a{letter}b"
    show(page, file, "/plain")
    tree, attributes = page.locator("#tree").inner_text(), page.locator("#attributes").inner_text()
    for letter, text in spelled.items():
        assert text in tree and attributes.count(text) == 2, text
        page.locator("[role=treeitem] > .row", has_text=text).click()
        assert page.locator("#node-title").inner_text() == f"/{text}"
        whole = page.evaluate("document.body.innerText + [...document.querySelectorAll('[title],[aria-label]')].map((e) => e.title + e.ariaLabel).join()")
        assert not set(whole) & set(unseen)


@pytest.mark.parametrize("width", [360, 1280])
def test_names_of_any_length(page, tmp_path_factory, width):
    file = tmp_path_factory.getbasetemp() / f"long{width}.h5"
    group, array = "g" * 3000, "a" * 3000
    with h5py.File(file, "w") as opened:
        data = opened.create_dataset(f"{group}/{array}", data=np.arange(12.0).reshape(3, 4))
        data.attrs["n" * 3000] = "v" * 3000
        data.dims[0].label = "d" * 3000
        opened[group].attrs["words"] = "w" * 3000
    page.set_viewport_size({"width": width, "height": 800})
    for path in ("/", f"/{group}", f"/{group}/{array}"):
        show(page, file)
        page.locator(f'[role=treeitem][data-path="{path}"] > .row').click(position={"x": 60, "y": 5})
        until(page, f"document.querySelector('#node-title').textContent === {json.dumps(path)}")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        heights = page.evaluate("[...document.querySelectorAll('.row, h2')].map((each) => each.getBoundingClientRect().height)")
        assert max(heights) < 250


def test_nodes_are_read_as_they_are_shown(page):
    """The accessible name of a node contains everything that is shown, in the same order, and nothing of its children."""
    show(page, NETCDF)
    session = page.context.new_cdp_session(page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    read = sorted(node["name"]["value"].split() for node in nodes if node.get("role", {}).get("value") == "treeitem")
    rows = page.locator("[role=treeitem] > .row")
    assert read == sorted(row.split() for row in rows.all_inner_texts()) and len(read) > 5
    assert "temperature array, float32, 3 × 4 × 6".split() in read
    shown = rows.evaluate_all("rows => rows.map((row) => [...row.querySelectorAll(':scope > :not(.away)')].map((part) => part.innerText).filter(Boolean))")
    assert all(any(set(" ".join(parts).split()) <= set(name) for name in read) for parts in shown)
    assert page.locator("[role=treeitem][aria-label]").count() == 0


def test_token_is_kept_for_the_tab(page, base):
    sent = []
    page.on("request", lambda request: sent.append((request.url, request.headers.get("authorization"))))
    show(page, CHUNKED)
    assert {authorization for _, authorization in sent} == {None}
    sent.clear()
    page.locator("#token-box summary").click()
    page.locator("#token").fill("secret")
    page.locator("#token").press("Enter")
    until(page, "document.querySelector('#token-state').textContent === 'set'")
    page.locator("#source").wait_for()
    assert all(authorization == "Bearer secret" for url, authorization in sent if "/v1/" in url) and sent
    assert page.evaluate("[...Object.keys(localStorage)].length") == 0
    assert "secret" not in page.url and "secret" not in page.content()


def test_lines_open_what_they_say(page, base, tmp_path):
    page.expected.append("404 (Not Found)")
    show(page, CHUNKED, "/temperature")
    with page.expect_download() as download:
        page.locator("[data-format=zarr3-json]").click()
    download.value.save_as(tmp_path / download.value.suggested_filename)
    stored, values = original(CHUNKED, "temperature")
    for label in ("Open the references (Python)", "Open it (Python)"):
        lines = page.locator(f'[data-lines="{label}"]').inner_text()
        script = f"{lines}\nprint(ds.temperature.values.tolist())"
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{lines}\n{done.stderr}"
        np.testing.assert_array_equal(np.array(eval(done.stdout, {"nan": math.nan})), values)


def test_lines_open_groups(page):
    show(page, NETCDF, "/inner/wind")
    lines = page.locator('[data-lines="Open it (Python)"]').inner_text()
    assert 'group="inner"' in lines
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", f"{lines}\nprint(ds.wind.values.tolist())"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{lines}\n{done.stderr}"
    np.testing.assert_array_equal(np.array(eval(done.stdout, {"nan": math.nan})), original(NETCDF, "inner/wind")[1])


def test_jobs_are_hidden_where_there_are_none(page):
    page.goto("/")
    page.locator("#allowed").wait_for()
    assert page.locator("#nav-jobs").is_hidden() and page.request.get("/v1/jobs").status == 404


def test_a_job_of_the_service(chromium, tmp_path):
    """Started and followed on the page, executed by the service."""
    with service.started(clients.FIXTURES, arguments=("--jobs", str(tmp_path / "jobs"))) as address:
        page = chromium.new_page()
        page.goto(address)
        page.locator("#nav-jobs").click()
        form = page.locator("#job-form")
        form.locator("[name=kind]").select_option("scan")
        form.locator("[name=inputs]").fill(service.url(CHUNKED))
        form.locator("button").click()
        until_done = time.monotonic() + 90
        while "done" not in (shown := page.locator("#job-list").inner_text()):
            assert time.monotonic() < until_done, shown
            page.wait_for_timeout(100)
        with urllib.request.urlopen(urllib.parse.urljoin(address, page.locator("#job-list a").get_attribute("href"))) as answer:
            assert json.load(answer)
        page.close()


def test_jobs(page):
    """Against the contract of `/v1/jobs`: started, followed, cancelled."""
    job = {"id": "7", "kind": "scan", "state": "running", "created": "2026-11-21T10:00:00Z", "progress": {"listed": 4, "read": 1, "failed": 0, "total": 4}}
    asked = []

    def answer(route):
        request = route.request
        asked.append((request.method, urllib.parse.urlparse(request.url).path, request.post_data))
        path = asked[-1][1]
        if path.endswith("/about"):
            return route.fulfill(json={"version": "1", "allow": ["file:///data"], "jobs": True})
        if path.endswith("/events"):
            done = {**job, "state": "done", "progress": {"listed": 4, "read": 4, "failed": 0, "total": 4}, "result": {"links": {"references": "/v1/jobs/7/result"}}}
            job.update(done)
            return route.fulfill(content_type="text/event-stream", body=f": hello\n\nevent: progress\ndata: {json.dumps({'progress': {**job['progress'], 'read': 2}})}\n\ndata: {json.dumps(done)}\n\n")
        if request.method == "POST":
            return route.fulfill(status=202, json={"id": "7"})
        if request.method == "DELETE":
            job["state"] = "cancelled"
            return route.fulfill(status=204)
        return route.fulfill(json=[job] if path.endswith("/jobs") else job)

    page.route("**/v1/jobs**", answer)
    page.route("**/v1/about", answer)
    page.goto("/")
    page.locator("#nav-jobs").click()
    form = page.locator("#job-form")
    form.locator("button").click()
    assert page.evaluate("document.activeElement.name") == "inputs"
    form.locator("[name=inputs]").fill("s3://bucket/*.nc\nfile:///data/")
    form.locator("[name=concat_dim]").fill("time")
    form.locator("button").click()
    page.locator("#job-list .state-done").wait_for()
    posted = next(json.loads(body) for method, _, body in asked if method == "POST")
    assert posted == {"kind": "scan", "inputs": ["s3://bucket/*.nc", "file:///data/"], "concat_dim": ["time"], "stack_dim": [], "format": "kerchunk-json"}
    assert "4 of 4" in page.locator("#job-list").inner_text()
    assert page.locator("#job-list a").get_attribute("href").endswith("/v1/jobs/7/result")
    job.update(state="queued")
    page.unroute("**/v1/jobs**")
    page.route("**/v1/jobs**", lambda route: route.fulfill(status=404) if route.request.url.endswith("/events") else answer(route))
    page.expected.append("404 (Not Found)")
    page.locator("#jobs-refresh").click()
    page.locator("#job-list button").click()
    page.locator("#job-list .state-cancelled").wait_for()
    assert ("DELETE", "/v1/jobs/7", None) in asked
