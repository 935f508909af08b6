"""Fixtures and helpers of the tests of the page, `test_page*.py`: the page in headless Chromium.

A test module imports what it needs. Its tests fail if Chromium is not found (CHROMIUM=… names its executable)."""
import json, math, os, shutil, time, urllib.parse, urllib.request

import clients
import h5py
import numpy as np
import pytest
import service

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

NETCDF = clients.FIXTURES / "hdf5/netcdf4.nc"
CHUNKED = clients.FIXTURES / "hdf5/chunked.h5"
ASSETS = clients.FIXTURES.parent / "crates/server/assets"
COG = clients.FIXTURES / "tiff/cog.tif"


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Yields the address of the service, which may read the fixtures and `made`."""
    with service.started(clients.FIXTURES, tmp_path_factory.getbasetemp()) as address:
        yield address


@pytest.fixture(scope="module")
def chromium():
    from playwright.sync_api import sync_playwright
    assert CHROMIUM, "Chromium not found: install chromium, or set CHROMIUM"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(chromium, base):
    """A page that must not report any error or violate its content security policy."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, base_url=base)
    context.add_init_script("window.violations = []; addEventListener('securitypolicyviolation', (e) => violations.push(`${e.violatedDirective} ${e.blockedURI}`));")
    if os.environ.get("PAGE_FROM_DISK"):
        context.route(lambda url: url.startswith(base) and not url.startswith(f"{base}/v1/"), from_disk)
    page = context.new_page()
    page.errors, page.expected = [], []
    page.set_default_timeout(int(os.environ.get("PAGE_TIMEOUT", "90")) * 1000)
    page.on("console", lambda message: page.errors.append(f"{message.text} {message.location.get('url')}") if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.on("request", lambda request: page.errors.append(f"requested {request.url}") if not request.url.startswith((base, "blob:", "data:")) else None)
    yield page
    assert page.evaluate("violations") == []
    unexpected = [error for error in page.errors if not any(part in error for part in page.expected)]
    assert unexpected == [], unexpected
    context.close()


def from_disk(route):
    """Answers with a file of crates/server/assets instead of the one in the binary: PAGE_FROM_DISK=1, to work on the page."""
    name = urllib.parse.urlparse(route.request.url).path.rpartition("/")[2] or "index.html"
    file = ASSETS / name
    kind = {".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".txt": "text/plain"}
    if not file.exists():
        return route.continue_()
    policy = route.fetch(url=urllib.parse.urljoin(route.request.url, "/")).headers["content-security-policy"]
    return route.fulfill(path=file, headers={"content-type": kind[file.suffix], "content-security-policy": policy})


def until(page, expression, seconds=90):
    """Waits for a condition. Playwright's own wait evaluates text in the page, which its policy forbids."""
    end = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"never held: {expression}\n{getattr(page, 'errors', '')}\n{page.locator('main').inner_text()}"
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


def same_pixels(page, values):
    """Colours are those of the color map at the value's position in the range; no data is transparent."""
    pixels = page.evaluate("""() => { const c = document.querySelector('#look .picture');
        return [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data]; }""")
    table = np.array(page.evaluate("import('./assets/colour.js').then((m) => [...new Uint8Array(m.table('viridis').buffer)])")).reshape(256, 4)[:, :3]
    drawn = np.array(pixels).reshape(*values.shape, 4)
    if page.locator("#look [name=flip]").is_checked():
        drawn = drawn[::-1]
    known = ~np.isnan(values)
    low, high = np.nanmin(values), np.nanmax(values)
    part = (values[known] - low) / (high - low) if high > low else np.full(known.sum(), 0.5)
    place = np.floor(255 * part + 0.5).astype(int)
    assert (drawn[..., 3] == np.where(known, 255, 0)).all()
    assert (drawn[known][:, :3] == table[place]).all()


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
