"""The page of the service around the picture, compared with the service and the file.

The picture and the map have their own modules, `test_page_*.py`."""
import json, math, re, shlex, shutil, subprocess, sys, time, urllib.error, urllib.parse, urllib.request, zipfile

import clients
import h5py
import numpy as np
import pytest
import service
from page import CHUNKED, COG, NETCDF, base, chromium, contrast, inspected, original, page, read_all, same_pixels, settled, show, until, walk

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("file", [NETCDF, CHUNKED, COG, clients.FIXTURES / "hdf5/types.h5"], ids=lambda file: file.name)
def test_tree_and_details(page, base, file):
    page.expected.append("404 (Not Found)")  # missing chunks
    inspection = inspected(base, file)
    show(page, file)
    nodes = dict(walk(inspection["root"]))
    page.locator('[data-path="/"]').press("*")
    while page.locator('[aria-expanded="false"]').count():
        page.locator('[aria-expanded="false"] > .row').first.click()
    shown = page.locator("[role=treeitem][data-path]").evaluate_all("items => items.map((item) => item.dataset.path)")
    assert sorted(shown) == sorted(["/", *nodes, *inspection["omitted"]])
    page.evaluate("document.querySelector('#storage').open = true")
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
    page.locator("#layout p").wait_for()
    readers = {row.split("\t")[0]: row.split("\t")[1] for row in page.locator("#readers tbody tr").all_inner_texts()}
    assert readers == {name: verdict["reads"] for name, verdict in node["readers"].items()}
    assert page.locator("#attributes tbody th").all_inner_texts() == sorted(node["attributes"])


@pytest.mark.parametrize("file, path", [(CHUNKED, "temperature"), (NETCDF, "packed"), (NETCDF, "lat2d")])
def test_quick_look_values(page, file, path):
    page.expected.append("404 (Not Found)")
    show(page, file, f"/{path}")
    settled(page)
    _, values = original(file, path)
    np.testing.assert_array_equal(read_all(page, *values.shape), values)
    same_pixels(page, values)


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
                assert readout.inner_text().endswith(f": {value:,}"), name
            picture.press("ArrowRight")


def test_keyboard_alone(page):
    page.goto("/")
    page.locator("#start").wait_for()
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
    assert focused() == "/temperature"
    page.keyboard.press("Home")
    assert focused() == "/"
    page.keyboard.press("ArrowLeft")
    assert page.locator('[data-path="/"]').get_attribute("aria-expanded") == "false"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert focused() == "/byte"
    page.keyboard.type("inn")
    assert focused() == "/inner"
    for key, path in [("ArrowRight", "/inner/wind"), ("ArrowDown", "/inner/deep"), ("ArrowRight", "/inner/deep/pressure"), ("ArrowLeft", "/inner/deep"), ("Home", "/"), ("End", None), ("ArrowRight", None), ("End", "/time"), ("Home", "/"), ("t", "/temperature")]:
        page.wait_for_timeout(700 if key == "t" else 0)  # typed letters are forgotten
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


def open_storage(page):
    page.locator("#storage > summary").click()
    until(page, "/chunk|inlined/.test(document.querySelector('#layout').textContent) && !document.querySelector('#layout').textContent.includes('Reading')")


def chunk_rows(page):
    """Returns index, offset and length of each chunk that is listed."""
    return [(tuple(json.loads(f"[{index.strip('()')}]")), *(int(number.replace(",", "")) for number in numbers)) for index, *numbers in
            (row.split("\t")[:3] for row in page.locator("#layout tbody tr").all_inner_texts())]


def test_chunks_are_what_h5py_says(page):
    page.expected.append("404 (Not Found)")
    show(page, CHUNKED, "/temperature")
    with h5py.File(CHUNKED) as opened:
        dataset = opened["temperature"]
        infos = [dataset.id.get_chunk_info(n) for n in range(dataset.id.get_num_chunks())]
        chunks = sorted(((tuple(at // edge for at, edge in zip(info.chunk_offset, dataset.chunks)), info.byte_offset, info.size) for info in infos), key=lambda chunk: chunk[1])
    assert page.locator("#layout tbody").count() == 0, "the chunk table is read when it is looked at"
    open_storage(page)
    assert chunk_rows(page) == chunks


def test_hundred_thousand_chunks(page, tmp_path_factory):
    file = tmp_path_factory.getbasetemp() / "many.h5"
    with h5py.File(file, "w", libver="latest") as opened:
        opened.create_dataset("many", data=np.arange(200_000, dtype="<u2").reshape(400, 500) % 997, chunks=(1, 2))
        chunks = []
        opened["many"].id.chunk_iter(lambda chunk: chunks.append((chunk.byte_offset, chunk.size, (chunk.chunk_offset[0], chunk.chunk_offset[1] // 2))))
    show(page, file, "/many")
    open_storage(page)
    assert "100,000 chunks in 1 file" in page.locator("#layout").inner_text()
    assert chunk_rows(page) == [(index, offset, length) for offset, length, index in sorted(chunks)[:200]]


def test_the_tree_folds_what_supports_the_data(page, tmp_path_factory):
    """Data come first; coordinates, overviews and masks are in folds, which open with a click, a key or a link."""
    show(page, COG, "/band_data")
    rows = lambda: page.locator("[role=treeitem] > .row .name").all_inner_texts()
    assert rows() == ["cog.tif", "band_data", "Overviews", "Coordinates"]
    page.locator(".row.fold", has_text="Coordinates").click()
    assert {"x", "y", "spatial_ref"} <= set(rows()) and page.locator("#node-title").inner_text() == "/band_data"
    page.locator('[role=treeitem]:has(> .row.fold)').first.press("ArrowRight")
    assert len(rows()) > 8
    show(page, NETCDF, "/time")
    assert page.locator('[data-path="/time"]').get_attribute("aria-selected") == "true"


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
        problem = json.load(answer)
    assert page.locator("#problem strong").inner_text() == problem["detail"]
    if problem.get("hint"):
        assert problem["hint"] in page.locator("#problem").inner_text()
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


def test_valid_numbers_are_not_rejected(page, tmp_path_factory):
    """JSON cannot represent a `_FillValue` of NaN."""
    page.expected.append("404 (Not Found)")
    file = tmp_path_factory.getbasetemp() / "nan.h5"
    with h5py.File(file, "w") as opened:
        for name in ("f2", "f4", "f8", ">f4"):
            values = opened.create_dataset(name, data=np.array([1, math.nan, 3], name), fillvalue=np.array(math.nan, name)[()])
            values.attrs["_FillValue"] = np.array([math.nan], name)
    show(page, file)
    page.evaluate("document.querySelector('#storage').open = true")
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
    unseen = UNSEEN
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
        page.locator("#side").evaluate("side => { side.open = true; }")
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
    assert "temperature 3 × 4 × 6 array, float32".split() in read
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
    assert "secret" not in page.evaluate("JSON.stringify(localStorage)")
    assert "secret" not in page.url and "secret" not in page.content()


#: What runs after a snippet: prints the values of an array as JSON.
PRINT = {
    "open_dataset": "print(json.dumps(np.asarray(ds[NAME]).tolist()))", "open_datatree": "print(json.dumps(np.asarray(tree[INSIDE]).tolist()))",
    "open_groups": "print(json.dumps(np.asarray(groups[GROUP][NAME]).tolist()))",
}


def run_snippet(id, text, path, folder):
    """Runs a snippet as it is shown, and returns the values of the array at a path that it opened."""
    if id == "gdal":
        words = shlex.split(text)
        assert words[0] == "gdalinfo"
        if shutil.which("gdalinfo"):
            assert subprocess.run(words, capture_output=True, timeout=120).returncode == 0
        options = {words[2]: words[3]} if words[1] == "--config" else {}
        import rasterio
        with rasterio.Env(**options), rasterio.open(words[-1]) as raster:
            return raster.read(1).tolist()
    how = next(name for name in PRINT if name in text)
    group, _, name = path.rpartition("/")
    opened = re.search(r'group="([^"]*)"', text)
    names = f"import json, numpy as np\nINSIDE, GROUP, NAME = {path.removeprefix('/' + opened[1]) if opened else path!r}, {group or '/'!r}, {name!r}\n"
    (folder / id).mkdir()
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", f"{text}\n{names}{PRINT[how]}"], cwd=folder / id, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{text}\n{done.stderr}"
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("file, path", [(CHUNKED, "/temperature"), (NETCDF, "/inner/wind"), (NETCDF, "/inner/deep/pressure"), (COG, "/band_data")],
                         ids=lambda value: getattr(value, "name", value))
def test_snippets_work_as_shown(page, file, path, tmp_path):
    page.expected.append("404 (Not Found)")
    show(page, file, path)
    texts = page.locator("[data-lines]").evaluate_all("all => all.map((each) => [each.dataset.lines, each.textContent])")
    assert [id for id, _ in texts] == ["xarray", "gdal", "kerchunk", "address"]
    stored = stored_values(file, path)
    for id, text in texts[:-1]:
        values = run_snippet(id, text, path, tmp_path)
        if values is not None:
            values = np.array(values, float).reshape(np.shape(values))
            expected = stored if id == "gdal" else original(file, path)[1] if h5py.is_hdf5(file) else stored
            expected = expected[0] if values.ndim < expected.ndim else expected
            np.testing.assert_allclose(values, np.asarray(expected, float), err_msg=id)


def stored_values(file, path):
    if h5py.is_hdf5(file):
        return original(file, path)[0]
    import rasterio
    with rasterio.open(file) as raster:
        return raster.read()


@pytest.mark.parametrize("file, path, call", [(NETCDF, "/", "open_datatree"), (NETCDF, "/inner", "open_datatree"), (NETCDF, "/inner/deep", "open_dataset"), (CHUNKED, "/", "open_dataset")])
def test_snippets_open_groups(page, file, path, call, tmp_path):
    show(page, file, path)
    text = page.locator("[data-lines=xarray]").text_content()
    assert f"xr.{call}(" in text and (path == "/" or f'group="{path[1:]}"' in text)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", text], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "xarray" in done.stdout, f"{text}\n{done.stderr}"


def test_snippets_with_a_token(chromium, tmp_path):
    """The token itself is never part of a snippet."""
    secret = "s3cret-token-of-the-test"
    (tmp_path / "tokens").write_text(f"{secret} read\n")
    with service.started(clients.FIXTURES, arguments=("--token-file", str(tmp_path / "tokens"))) as address:
        page = chromium.new_page(base_url=address)
        page.goto("/?" + urllib.parse.urlencode({"url": service.url(CHUNKED), "path": "/temperature"}))
        page.locator("#sign-in-token").wait_for()
        assert page.locator("#sign-in-why").inner_text() == "Sign in to see chunked.h5." and page.locator("#problem").is_hidden()
        page.locator("#sign-in-token").fill(secret)
        page.locator("#sign-in-token").press("Enter")
        page.locator("#source").wait_for()
        texts = page.locator("pre[data-lines]").evaluate_all("all => all.map((each) => [each.dataset.lines, each.textContent])")
        page.close()
        assert len(texts) == 3
        for id, text in texts:
            assert secret not in text and "Bearer TOKEN" in text
            assert run_snippet(id, text.replace("TOKEN", secret), "/temperature", tmp_path)


UNSEEN = "\x1b\x7f\x85\u00a0\u00ad\u061c\u180e\u2003\u200b\u200d\u200e\u200f\u2028\u202a\u202e\u2060\u2066\u2069\u3000\ufe0f\ufeff\U000e0041\U000e0101"
#: Texts that hostile names are made of.
PIECES = [*UNSEEN, "a", "temperature", "\n", "\t", "'", '"', "`", "\\", "<b>", "&lt;", "${x}", "%2e", "#", "?", "e\u0301", "\u0310" * 40, "אבג", "دجلة", "気温", "😀", " "]


def hostile(random):
    return "".join(random.choices(PIECES, k=random.randint(1, 8))).replace("/", "") + str(random.randint(0, 10**6))


def texts(page):
    """Returns everything that a person can read on the page, or that software reads out."""
    return page.evaluate("""() => [document.title, document.body.innerText, document.querySelector('#url').value,
        ...[...document.querySelectorAll('pre, code, summary, td, th')].map((each) => each.textContent),
        ...[...document.querySelectorAll('[title], [aria-label], [aria-valuetext], [download]')].flatMap((each) => [each.title, each.ariaLabel, each.ariaValueText, each.download])].join('\\n')""")


@pytest.mark.parametrize("seed", clients.seeds("HOSTILE_NAMES", 3, 3))
def test_hostile_names(page, tmp_path_factory, seed):
    """Random names of files, groups, arrays, attributes, dimensions and units are shown without a character that is not seen."""
    page.expected += ["400 (Bad Request)", "404 (Not Found)", "422"]  # names with control characters cannot be read
    random = __import__("random").Random(seed)
    # The service refuses URLs with control characters and backslashes.
    file = tmp_path_factory.getbasetemp() / (re.sub(r"[\x00-\x1f\x7f-\x9f\\]", "", hostile(random))[:60] + ".h5")
    with h5py.File(file, "w", libver="latest") as opened:
        for _ in range(3):
            group = opened.create_group(hostile(random))
            data = group.create_dataset(hostile(random), data=np.arange(12.0).reshape(3, 4))
            data.dims[0].label = hostile(random)
            data.attrs["units"] = hostile(random)
            data.attrs["long_name"] = hostile(random)
            group.attrs[hostile(random)] = hostile(random)
    page.goto("/?" + urllib.parse.urlencode({"url": service.url(file)}))
    page.locator("#source").wait_for()
    for index in range(page.locator("[role=treeitem]").count()):
        page.locator("[role=treeitem] > .row").nth(index).click(position={"x": 60, "y": 5})
        page.locator("#look:not([aria-busy])").wait_for(state="attached")
        assert not set(texts(page)) & set(UNSEEN)
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280
        assert len(set(page.evaluate("[...document.querySelectorAll('.row')].map((row) => row.getBoundingClientRect().height)"))) == 1
    page.goto("/")
    page.locator("#recent a").wait_for()
    assert not set(texts(page)) & set(UNSEEN)


@pytest.mark.parametrize("width", [360, 1280])
def test_large_metadata(page, tmp_path_factory, width):
    """As many groups inside each other as the service maps, 10,000 attributes, and an attribute of one MiB."""
    file = tmp_path_factory.getbasetemp() / f"metadata{width}.h5"
    path = "".join(f"/level{n}" for n in range(62))
    with h5py.File(file, "w", libver="latest") as opened:
        opened.create_dataset(f"{path}/deep", data=np.arange(12.0).reshape(3, 4))
        many = opened.create_dataset("many", data=np.arange(3))
        for n in range(10_000):
            many.attrs[f"attribute{n:05}"] = n
        many.attrs["zz"] = "<script>0</script>" * (1 << 16)
    page.set_viewport_size({"width": width, "height": 800})
    show(page, file, f"{path}/deep")
    settled(page)
    page.locator("#side").evaluate("side => { side.open = true; }")
    row = page.locator(f'[data-path="{path}/deep"] .name')
    assert row.bounding_box()["width"] > 20 and page.evaluate("document.documentElement.scrollWidth") <= width
    show(page, file, "/many")
    rows = page.locator("#attributes tbody tr")
    assert rows.count() == 200
    more = page.locator("#attributes button", has_text="more")
    while more.is_visible():
        more.click()
    assert rows.count() == 10_001
    rows.last.locator("summary").click()
    until(page, "[...document.querySelectorAll('#attributes tbody tr')].at(-1).textContent.includes('1,179,650 characters')")
    assert page.locator("#source script").count() == 0 and page.evaluate("document.documentElement.scrollWidth") <= width


def test_search_in_the_tree(page, tmp_path_factory):
    """Names, descriptions and units are searched; ancestors stay; the number of matches is announced."""
    file = tmp_path_factory.getbasetemp() / "wide.h5"
    with h5py.File(file, "w", libver="latest") as opened:
        for n in range(3000):
            data = opened.create_dataset(f"group{n % 3}/variable{n:04}", data=np.float32(n))
            data.attrs["units"] = "mol m-2" if n % 7 == 0 else "K"
            data.attrs["long_name"] = f"Quantity {n:04} of the air"
    show(page, file)
    count = lambda: page.locator("#found").inner_text()
    paths = lambda: page.locator("[role=treeitem]").evaluate_all("items => items.map((item) => item.dataset.path)")
    page.locator("#find").fill("MOL")
    assert count() == f"{len(range(0, 3000, 7))} of 3,004 nodes match."
    page.locator("#find").fill("air 0042")
    assert paths() == ["/", "/group0", "/group0/variable0042"] and count().startswith("1 of")
    page.locator("#find").press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.path") == "/group0/variable0042"
    page.keyboard.press("Enter")
    assert page.locator("#node-title").inner_text() == "/group0/variable0042"
    page.locator("#find").fill("nothing of that name")
    assert paths() == [] and count().startswith("0 of")
    page.locator("#find").press("Escape")
    assert count() == "" and page.locator("#find").input_value() == ""
    # Only the rows near the visible part exist, and each of them can be reached.
    page.locator('[data-path="/"]').press("*")
    page.locator('[role=treeitem][tabindex="0"]').press("End")
    assert page.evaluate("document.activeElement.dataset.path") == "/group2" or len(paths()) < 1000
    page.locator("#find").fill("variable")
    page.locator("#find").press("ArrowDown")
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.dataset.path") == "/group2/variable2999"
    assert page.locator('[data-path="/group2/variable2999"]').get_attribute("aria-setsize") == "1000"
    assert len(paths()) < 1000


def test_the_first_array_is_shown(page):
    """The picture of the largest array with two axes, which is visible at once on a telephone."""
    page.expected.append("404 (Not Found)")
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/?" + urllib.parse.urlencode({"url": service.url(NETCDF)}))
    settled(page)
    assert page.locator("#node-title").inner_text() == "/temperature" and "path=%2Ftemperature" in page.url
    assert page.locator("#look .picture").bounding_box()["y"] < 600
    page.locator("#side summary").click()
    page.locator('[data-path="/packed"] > .row').click()
    assert not page.locator("#tree").is_visible() and page.evaluate("document.activeElement.id") == "node-title"


def test_share_link(page, base):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=base)
    show(page, NETCDF, "/temperature")
    settled(page)
    page.locator("#look [name=at-0]").fill("2")
    page.locator("#look [name=at-0]").press("Enter")
    until(page, "[...new URL(location.href).searchParams.keys()].length > 2")
    page.locator("#copy-link").click()
    link = page.evaluate("navigator.clipboard.readText()")
    assert link == page.url
    page.goto("about:blank")
    page.goto(link)
    settled(page)
    assert page.locator("#node-title").inner_text() == "/temperature" and page.locator("#look [name=at-0]").input_value() == "2"


def test_history_of_arrays(page):
    show(page, NETCDF, "/temperature")
    for path in ("/packed", "/inner/wind"):
        page.locator(f'[data-path="{path}"] > .row').click()
    for move, path in [(page.go_back, "/packed"), (page.go_back, "/temperature"), (page.go_forward, "/packed"), (page.go_forward, "/inner/wind")]:
        move()
        until(page, f"document.querySelector('#node-title').textContent === {json.dumps(path)}")
        assert page.locator(f'[data-path="{path}"]').get_attribute("aria-selected") == "true"


def test_a_link_to_a_missing_array(page):
    show(page, NETCDF, "/")
    page.goto("/?" + urllib.parse.urlencode({"url": service.url(NETCDF), "path": "/inner/none"}))
    page.locator("#problem").wait_for()
    assert "no group or array /inner/none" in page.locator("#problem").inner_text()
    assert page.locator("#node-title").inner_text() == "/inner"


def test_start_page(chromium, tmp_path):
    """Folders are browsed page by page; examples and recent files open with a click."""
    data = tmp_path / "data"
    (data / "sub").mkdir(parents=True)
    for n in range(1250):
        (data / f"file{n:04}.txt").write_text("text" * (n % 7))
    shutil.copy(CHUNKED, data / "sub" / "a b\u202e.h5")
    with service.started(data, clients.FIXTURES, arguments=("--example", service.url(COG))) as address:
        page = chromium.new_page(base_url=address)
        page.goto("/")
        assert page.locator("#examples a").all_inner_texts() == ["cog.tif"] and page.locator("#recent-box").is_hidden()
        page.locator("#folder a", has_text="data").click()
        more = page.locator("#folder > button")
        more.wait_for()
        more.click()
        until(page, "document.querySelectorAll('#folder tbody tr').length === 1251")
        assert "1 folder, 1,250 files." in page.locator("#folder").inner_text() and more.is_hidden()
        page.locator("#folder [name=filter]").fill("FILE00")
        assert "0 folders, 100 files of 1,251 match." in page.locator("#folder").inner_text()
        page.locator("#folder th button", has_text="Size").click()
        assert page.locator("#folder tbody td:nth-child(2)").first.inner_text() == "24 bytes"
        page.locator("#folder th button", has_text="Size").click()
        assert page.locator("#folder tbody td:nth-child(2)").first.inner_text() == "0 bytes" and page.locator("#folder th[aria-sort=ascending]").inner_text().startswith("Size")
        page.locator("#folder [name=filter]").fill("")
        page.locator("#folder a", has_text="sub/").click()
        page.locator("#folder a", has_text="a b\\u202e.h5").click()
        page.locator("#source").wait_for()
        assert page.locator("#node-title").inner_text() == "/temperature" and "\u202e" not in page.title()
        page.go_back()
        assert page.locator("#folder [aria-current]").inner_text() == "sub"
        page.locator("#folder a", has_text="Parent folder").click()
        until(page, "document.querySelector('#folder [aria-current]')?.textContent.endsWith('data/')")
        page.locator("#folder .crumbs a", has_text="All folders").click()
        assert page.locator("#recent a").all_inner_texts() == ["a b\\u202e.h5"]
        page.locator("#recent-clear").click()
        page.reload()
        page.locator("#examples a").wait_for()
        assert page.locator("#recent-box").is_hidden() and page.evaluate("localStorage.length") == 0
        page.close()


AXE = clients.ROOT / "target/axe/node_modules/axe-core/axe.min.js"
VIEWS = {"start": {}, "array": {"url": service.url(NETCDF), "path": "/temperature"}, "group": {"url": service.url(NETCDF), "path": "/"}, "image": {"url": service.url(COG)}, "error": {"url": "file:///nowhere"}, "folder": {"folder": service.url(clients.FIXTURES / "hdf5") + "/"}, "map": {"url": service.url(COG), "view": "map", "profile": "0"}}


@pytest.fixture(scope="module")
def axe():
    """The text of axe-core, from npm."""
    if not AXE.exists():
        subprocess.run([clients.NPM, "install", "--silent", "--no-audit", "--no-fund", "--prefix", AXE.parents[2], "axe-core@4.14.1"], timeout=300, check=True)
    return AXE.read_text()


def violations(page, axe):
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'], rules: { 'label-content-name-mismatch': { enabled: true } } })")["violations"]
    return [(each["id"], [(node["target"], node["failureSummary"]) for node in each["nodes"]]) for each in found]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("view", VIEWS)
def test_axe(page, axe, view, width, scheme):
    page.expected += ["404 (Not Found)", "403 (Forbidden)", "Failed to load resource"]
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    page.set_viewport_size({"width": width, "height": 844})
    page.goto("/?" + urllib.parse.urlencode(VIEWS[view]))
    if view == "map":
        until(page, "document.querySelector('.map-data')?.dataset.drawn > 0")
    elif view in ("array", "image"):
        settled(page)
    else:
        page.locator({"start": "#folder a", "group": "#children table", "error": "#problem", "folder": "#folder tbody a"}[view]).first.wait_for()
    page.locator("details:not([name]):not(.pop)").evaluate_all("all => all.forEach((each) => { each.open = true; })")
    assert violations(page, axe) == []
    assert contrast(page) == []
