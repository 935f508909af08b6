"""Old-style JPEG: files made of the parts of JPEG streams, with tables by tags and with whole streams, compared with GDAL. More of them: RANDOM_TIFFS=400."""
import random, struct, warnings

import clients
import numpy as np
import pytest
from clients import FORMATS

SEEDS = clients.seeds("RANDOM_TIFFS", 4, 4)
EACH = 8


def segments(stream):
    """Returns the segments of a JPEG stream before its data, by marker, and the data without the end of the image."""
    at, found = 2, {}
    while True:
        marker, length = stream[at + 1], struct.unpack(">H", stream[at + 2:at + 4])[0]
        found.setdefault(marker, []).append(stream[at + 4:at + 2 + length])
        at += 2 + length
        if marker == 0xDA:
            assert stream[-2:] == b"\xff\xd9"
            return found, stream[at:-2], at


def encode(image, subsampling, level, restart=0):
    """Returns a stream, with a restart marker after each `restart` units."""
    import io
    from PIL import Image
    out, more = io.BytesIO(), {"restart_marker_blocks": restart} if restart else {}
    Image.fromarray(image).save(out, "JPEG", quality=level, subsampling=["444", "422", "420"].index(subsampling), **more)
    return out.getvalue()


def tables(found):
    """Returns quantization, DC and AC tables of each component, as TIFF has them."""
    def split(bodies, length):
        tables = {}
        for body in bodies:
            while body:
                size = length(body)
                tables[body[0]], body = body[1:1 + size], body[1 + size:]
        return tables
    steps, codes = split(found[0xDB], lambda body: 64), split(found[0xC4], lambda body: 16 + sum(body[1:17]))
    frame, scan = found[0xC0][0][6:], found[0xDA][0][1:]
    pick = [(steps[frame[3 * i + 2]], codes[scan[2 * i + 1] >> 4], codes[0x10 | scan[2 * i + 1] & 15]) for i in range(3)]
    return [list(column) for column in zip(*pick)]


def tiff(order, entries, blobs):
    """Writes a TIFF whose entries may refer to blobs by name: ("offsets", names)."""
    out, places = bytearray(struct.pack(order + "2sHI", b"II" if order == "<" else b"MM", 42, 0)), {}
    for name, blob in blobs:
        places[name] = len(out)
        out += blob
    extra = []
    for tag, (kind, values) in sorted(entries.items()):
        values = [places[value] if isinstance(value, str) else value for value in values]
        raw = b"".join(struct.pack(order + ("H" if kind == 3 else "I"), value) for value in values)
        if kind == 5:
            raw = b"".join(struct.pack(order + "II", value, 1) for value in values)
        if len(raw) > 4:
            out += b"\0" * (len(out) % 2)
            extra.append((tag, kind, len(values), struct.pack(order + "I", len(out))))
            out += raw
        else:
            extra.append((tag, kind, len(values), raw.ljust(4, b"\0")))
    out += b"\0" * (len(out) % 2)
    struct.pack_into(order + "I", out, 4, len(out))
    out += struct.pack(order + "H", len(extra)) + b"".join(struct.pack(order + "HHI", tag, kind, count) + value for tag, kind, count, value in extra) + b"\0" * 4
    return bytes(out)


LAYOUTS = ["strip", "tile", "stream", "strip is stream", "headers"]


def make(path, seed, layouts=LAYOUTS):
    pick, rng = random.Random(seed), np.random.default_rng(seed)
    subsampling, layout = pick.choice(["444", "422", "420", "420"]), pick.choice(layouts)
    (across, down), (height, width) = {"444": (1, 1), "422": (2, 1), "420": (2, 2)}[subsampling], (pick.randint(1, 70), pick.randint(1, 70))
    image = np.clip(np.cumsum(rng.normal(0, 6, (height, width, 3)), axis=1) + rng.normal(128, pick.choice([1, 40]), (height, width, 3)), 0, 255).astype("u1")
    level, restart = pick.choice([20, 75, 95, 100]), pick.choice([0, 0, 1, 3])
    entries = {256: (4, [width]), 257: (4, [height]), 258: (3, [8] * 3), 259: (3, [6]), 262: (3, [6]), 277: (3, [3]), 284: (3, [1]), 530: (3, [across, down])}
    if pick.random() < .3:
        entries[532] = pick.choice([4, 5]), [16, 235, 128, 240, 128, 240]
    rows = height
    if layout == "tile":
        rows, columns = 16 * -(-height // 16), 16 * -(-width // 16)
        image = np.pad(image, [(0, rows - height), (0, columns - width), (0, 0)], mode="edge")
        entries |= {322: (4, [columns]), 323: (4, [rows])}
    if layout == "strips":
        rows = 16
    streams = [encode(image[start:start + rows], subsampling, level, restart) for start in range(0, len(image), rows)]
    found, data, at = segments(streams[0])
    if layout in ("strip", "strips", "tile"):
        parts = [segments(stream)[1] for stream in streams]
        blobs = [(f"part {number}", part) for number, part in enumerate(parts)]
        offsets, lengths = [name for name, _ in blobs], [len(part) for part in parts]
        entries |= {512: (3, [1]), 515: (3, [restart])}
        for tag, kind, column in zip((519, 520, 521), "qda", tables(found)):
            entries[tag] = 4, [f"{kind}{i}" for i in range(3)]
            blobs += [(f"{kind}{i}", table) for i, table in enumerate(column)]
    elif layout == "headers":
        blobs, offsets, lengths = [("headers", streams[0][:at]), ("gap", bytes(8)), ("strip", data)], ["strip"], [len(data)]
        entries |= {513: (4, ["headers"]), 514: (4, [at])}
    else:
        blobs, offsets, lengths = [("stream", streams[0])], ["stream"], [len(streams[0])]
        entries |= {513: (4, ["stream"])} | ({514: (4, lengths)} if layout == "stream" else {})
    entries |= {324: (4, offsets), 325: (4, lengths)} if layout == "tile" else {273: (4, offsets), 278: (4, [rows]), 279: (4, lengths)}
    if pick.random() < .5:
        blobs.reverse()
    path.write_bytes(tiff(pick.choice("<>"), entries, blobs))
    return {"seed": seed, "subsampling": subsampling, "size": (height, width), "layout": layout, "level": level, "restart": restart, "reference": 532 in entries}


def truth(path):
    import rasterio
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with rasterio.open(path) as file:
            return file.read()


@pytest.mark.parametrize("seed", SEEDS)
def test_old_jpeg_is_that_of_gdal(tmp_path, fmt, seed):
    import zarr
    problems, path = [], tmp_path / "old.tif"
    for number in range(EACH):
        made, expected = make(path, seed * EACH + number), truth(path)
        run = clients.virtualize(path, "--format", fmt)
        if run.status:
            problems.append(f"{made}: {run.stderr}")
            continue
        got = zarr.open_array(clients.open_store(run.references), path="band_data", mode="r", zarr_format=FORMATS[fmt])[...]
        got = np.moveaxis(got, -1, 0) if FORMATS[fmt] == 2 else got
        if clients.same_values(expected, got):
            problems.append(f"{made}: {got.ravel()[:6]}, expected {expected.ravel()[:6]}, {(got != expected).mean():.3f} differ")
    clients.report(problems)


def test_several_strips_are_refused(tmp_path, fmt):
    """GDAL shows other rows of the second strip after reading the first one than alone."""
    make(tmp_path / "old.tif", 7, ["strips"])
    run = clients.virtualize(tmp_path / "old.tif", "--format", fmt)
    assert run.status == 1 and "several strips" in run.stderr


@pytest.mark.parametrize("seed", SEEDS)
def test_damaged_streams_are_refused_or_equal(tmp_path, fmt, seed):
    """Bytes of the file are changed. What is not refused equals what GDAL shows."""
    import rasterio, zarr
    problems, path, pick = [], tmp_path / "old.tif", random.Random(seed)
    for number in range(EACH):
        made = make(path, seed * EACH + number)
        raw = bytearray(path.read_bytes())
        for _ in range(pick.choice([1, 1, 5])):
            raw[pick.randrange(8, len(raw))] = pick.randrange(256)
        path.write_bytes(raw)
        run = clients.virtualize(path, "--format", fmt)
        if run.status:
            continue
        try:
            expected = truth(path)
        except rasterio.errors.RasterioError:
            continue  # It fails now and then on one that it reads at other times.
        got = zarr.open_array(clients.open_store(run.references), path="band_data", mode="r", zarr_format=FORMATS[fmt])[...]
        got = np.moveaxis(got, -1, 0) if FORMATS[fmt] == 2 else got
        if got.shape != expected.shape or clients.same_values(expected, got):
            problems.append(f"{made}: {got.shape}, {(got != expected).mean() if got.shape == expected.shape else expected.shape} differ")
    clients.report(problems)
