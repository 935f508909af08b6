"""Strips and tiles that do not hold exactly one chunk: bytes after the end, too few bytes, images of another shape, CCITT with ends. References show what
tifffile or GDAL shows, or the file is refused, or `validate` fails. More of them: RANDOM_TIFFS=400."""
import json, random, struct, zlib

import clients
import h5py
import numpy as np
import pytest
from clients import FORMATS

SEEDS = clients.seeds("RANDOM_TIFFS", 4)
EACH = 12


def tiff(path, shape, segments, compression, bits=8, photometric=1, samples=1, rows=None, tile=None, more=()):
    """Writes a little-endian TIFF of one image."""
    height, width = shape
    out, offsets = bytearray(b"II*\0\0\0\0\0"), []
    for segment in segments:
        offsets.append(len(out))
        out += segment + b"\0" * (len(segment) % 2)
    cut = [(322, 3, [tile[1]]), (323, 3, [tile[0]])] if tile else [(278, 3, [rows])]
    places = (324, 325) if tile else (273, 279)
    entries = [(256, 3, [width]), (257, 3, [height]), (258, 3, [bits] * samples), (259, 3, [compression]), (262, 3, [photometric]), (277, 3, [samples]),
               (places[0], 4, offsets), (places[1], 4, [len(s) for s in segments]), *cut, *more]
    directory = b""
    for tag, kind, values in sorted(entries):
        raw = b"".join(struct.pack("<H" if kind == 3 else "<I", value) for value in values)
        if len(raw) > 4:
            place = len(out)
            out += raw + b"\0" * (len(raw) % 2)
            raw = struct.pack("<I", place)
        directory += struct.pack("<HHI", tag, kind, len(values)) + raw.ljust(4, b"\0")
    out[4:8] = struct.pack("<I", len(out))
    path.write_bytes(bytes(out) + struct.pack("<H", len(entries)) + directory + b"\0" * 4)


def encode(compression, raw):
    import imagecodecs, lzma
    made = {1: bytes, 5: imagecodecs.lzw_encode, 8: zlib.compress, 32773: imagecodecs.packbits_encode, 50000: imagecodecs.zstd_encode, 34925: lzma.compress}
    return bytes(made[compression](raw))


def spoil(pick, compression, raw, row):
    """Encodes a strip or tile, with bytes more or less before or after encoding."""
    kind = pick.choice(["longer", "longer", "longer", "much longer", "shorter", "garbage", "no end"])
    if kind == "longer":
        return encode(compression, raw + bytes(pick.randrange(256) for _ in range(pick.choice([1, 1, 2, 7]))))
    if kind == "much longer":
        return encode(compression, raw + b"\7" * pick.randint(row, 3 * row))
    if kind == "shorter":
        return encode(compression, raw[:-pick.choice([1, row, 2 * row])])
    stored = encode(compression, raw)
    return stored + bytes(pick.randrange(256) for _ in range(pick.randint(1, 9))) if kind == "garbage" else stored[:-pick.choice([1, 2, 4])]


def cut(data, segment, tiled):
    """Returns the strips, the last of which may be shorter, or the tiles of an image."""
    height, width = segment
    found = []
    for y in range(0, data.shape[0], height):
        for x in range(0, data.shape[1], width):
            part = data[y:y + height, x:x + width]
            found.append(np.pad(part, [(0, height - part.shape[0]), (0, width - part.shape[1])], "edge") if tiled else part)
    return found


def truths(path):
    """Returns what tifffile and GDAL show, without those that fail."""
    import rasterio, tifffile, warnings
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for read in (tifffile.imread, lambda path: rasterio.open(path).read(1)):
            try:
                found.append(np.squeeze(read(path)))
            except Exception:
                pass
    return found


def outcome(path, fmt, tmp_path, shown):
    """Returns "equal", "refused", "fails, and validate says so", or a problem."""
    import zarr
    run = clients.virtualize(path, "-f", fmt, "-o", tmp_path / "o.json")
    if run.status:
        return "refused" if run.status == 1 and "[" in run.stderr else f"status {run.status}: {run.stderr}"
    try:
        data = np.squeeze(zarr.open_array(clients.open_store(json.loads((tmp_path / "o.json").read_text())), path="band_data", mode="r", zarr_format=FORMATS[fmt])[...])
    except Exception as error:
        check = clients.virtualize("validate", tmp_path / "o.json", "--full")
        return "validated" if check.status == 1 else f"offered, but {type(error).__name__}: {error}"
    if not any(truth.shape == data.shape and np.array_equal(truth, data) for truth in shown):
        return f"wrong values, {len(shown)} programs read it"
    check = clients.virtualize("validate", tmp_path / "o.json", "--full")
    return "equal" if check.status == 0 else f"validate: {check.stdout.decode()}"


@pytest.mark.parametrize("seed", SEEDS)
def test_spoilt_segments_are_equal_or_refused(seed, tmp_path):
    problems, counts = [], {}
    for n in range(EACH):
        pick, rng = random.Random(1000 * seed + n), np.random.default_rng(1000 * seed + n)
        compression, fmt = pick.choice([5, 5, 8, 32773, 50000, 34925]), pick.choice(["kerchunk-json", "zarr3-json"])
        dtype, tiled = pick.choice(["u1", "u1", "<u2"]), pick.random() < .4
        predictor = pick.choice([1, 1, 2]) if compression in (5, 8, 50000) else 1
        data = (rng.integers(0, 9, (pick.choice([16, 33, 48]), pick.choice([32, 40]))) * 7).astype(dtype)
        segment = (16, 32) if tiled else (pick.choice([5, 16, data.shape[0]]), data.shape[1])
        parts = cut(data, segment, tiled)
        if predictor == 2:
            parts = [np.diff(part, axis=1, prepend=part.dtype.type(0)) for part in parts]
        raw = [part.tobytes() for part in parts]
        spoilt = set(pick.sample(range(len(raw)), pick.choice([1, 1, len(raw)])))
        stored = [spoil(pick, compression, one, data.dtype.itemsize * segment[1]) if i in spoilt else encode(compression, one) for i, one in enumerate(raw)]
        tiff(tmp_path / "s.tif", data.shape, stored, compression, data.dtype.itemsize * 8, rows=segment[0], tile=segment if tiled else None, more=[(317, 3, [predictor])])
        found = outcome(tmp_path / "s.tif", fmt, tmp_path, [*truths(tmp_path / "s.tif"), data])
        counts[found] = counts.get(found, 0) + 1
        if found not in ("equal", "refused", "validated"):
            problems.append(f"{seed}.{n} {compression} {fmt} {dtype} tiled={tiled} predictor={predictor} spoilt={sorted(spoilt)} of {len(raw)}: {found}")
    print(counts)
    clients.report(problems)


@pytest.mark.parametrize("compression", [5, 8, 32773, 50000])
def test_trailing_bytes_are_ignored(tmp_path, fmt, compression):
    """As Photoshop 7 and GraphicConverter write LZW. libtiff stops at the last pixel."""
    data = (np.arange(48 * 40) % 251).astype("u1").reshape(48, 40)
    for tail, spoilt in ((b"\7", range(3)), (b"\7" * 90, [0]), (b"\7", [2])):
        strips = [encode(compression, part.tobytes() + (tail if i in spoilt else b"")) for i, part in enumerate(cut(data, (16, 40), False))]
        tiff(tmp_path / "t.tif", data.shape, strips, compression, rows=16)
        assert outcome(tmp_path / "t.tif", fmt, tmp_path, [data]) == "equal"


@pytest.mark.parametrize("samples, components, rows", [(1, 2, 1), (1, 1, 1), (1, 4, 1), (1, 1, 2), (3, 3, 1)])
def test_lossless_jpeg_of_another_shape(tmp_path, fmt, samples, components, rows):
    """DNG stores raw pixels as streams of half the width and two components, among others."""
    import imagecodecs, tifffile
    data = np.random.default_rng(0).integers(0, 4096, (48, 64, samples)).astype("u2")
    tiles = [part.reshape(16 // rows, -1, components) for part in (data[y:y + 16, x:x + 32] for y in (0, 16, 32) for x in (0, 32))]
    colors = {"colorspace": 2, "outcolorspace": 2} if components == 3 else {"colorspace": 0, "outcolorspace": 0} if components > 1 else {}
    streams = [bytes(imagecodecs.jpeg8_encode(np.ascontiguousarray(tile.squeeze()), lossless=True, bitspersample=14, **colors)) for tile in tiles]
    tiff(tmp_path / "d.tif", (48, 64), streams, 7, 16, 34892 if samples == 3 else 32803, samples, tile=(16, 32))
    truth = tifffile.imread(tmp_path / "d.tif")
    assert np.array_equal(np.squeeze(truth), np.squeeze(data))
    expected = np.squeeze(data) if samples == 1 or fmt == "kerchunk-json" else np.moveaxis(data, -1, 0)
    assert outcome(tmp_path / "d.tif", fmt, tmp_path, [expected]) == "equal"


CODECS = ["jpeg", "jpeg 12", "jpeg2k", "jpegxl", "webp", "png", "lerc"]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("change, fmt", [("", "kerchunk-json"), ("", "zarr3-json"), *((change, "kerchunk-json") for change in ("rows", "columns", "samples", "type"))])
def test_images_that_the_tags_do_not_describe_are_refused(tmp_path, fmt, codec, change):
    import imagecodecs
    samples = 4 if change == "samples" else 3
    dtype = "u2" if (change == "type") != (codec == "jpeg 12") else "u1"
    if codec in ("webp", "jpeg 12") and change == "type" or codec == "webp" and change == "samples":
        pytest.skip("the format has no such images")
    shape = (24 if change == "rows" else 16, 24 if change == "columns" else 32, samples)
    tile = np.random.default_rng(0).integers(0, 255, shape).astype(dtype)
    arguments = {"jpeg": {"bitspersample": 12 if dtype == "u2" else 8}, "jpeg 12": {"bitspersample": 12}, "webp": {"lossless": True}, "jpegxl": {"lossless": True}}.get(codec, {})
    if codec.startswith("jpeg") and codec[4:] in ("", " 12") and samples == 3:
        arguments |= {"colorspace": 2, "outcolorspace": 2}
    elif codec.startswith("jpeg") and codec[4:] in ("", " 12"):
        arguments |= {"colorspace": 4, "outcolorspace": 4}
    made = bytes(getattr(imagecodecs, {"jpeg": "jpeg8", "jpeg 12": "jpeg8"}.get(codec, codec) + "_encode")(tile, **arguments))
    number = {"jpeg": 7, "jpeg 12": 7, "jpeg2k": 34712, "jpegxl": 50002, "webp": 50001, "png": 34933, "lerc": 34887}[codec]
    tiff(tmp_path / "i.tif", (32, 32), [made, made], number, 12 if codec == "jpeg 12" else 8, 2, 3, tile=(16, 32))
    found = outcome(tmp_path / "i.tif", fmt, tmp_path, truths(tmp_path / "i.tif"))
    if not change:
        truth = np.concatenate([tile, tile])
        decoded = getattr(imagecodecs, {"jpeg": "jpeg8", "jpeg 12": "jpeg8"}.get(codec, codec) + "_decode")(made, **({"colorspace": 2, "outcolorspace": 2} if codec.startswith("jpeg") and codec[4:] in ("", " 12") else {}))
        truth = np.concatenate([decoded, decoded])
        truth = truth if fmt == "kerchunk-json" else np.moveaxis(truth, -1, 0)
        assert outcome(tmp_path / "i.tif", fmt, tmp_path, [truth]) == "equal"
    elif (codec, change) != ("jpegxl", "samples"):
        assert found == "refused"
    else:
        assert found.startswith("offered, but"), "the header is not read so far"


def bits(data):
    return "".join(f"{byte:08b}" for byte in data)


def packed(text):
    text += "0" * (-len(text) % 8)
    return bytes(int(text[i:i + 8], 2) for i in range(0, len(text), 8))


@pytest.mark.parametrize("compression, options", [(2, 0), (3, 0), (3, 1), (3, 4), (3, 5), (4, 0)])
@pytest.mark.parametrize("order", [1, 2])
def test_ccitt_of_a_short_strip(tmp_path, fmt, compression, options, order):
    """The last strip ends in a return to control, an end of block, or fill bits."""
    import tifffile
    from PIL import Image
    line = "0" * 11 + "1"
    ends = ["", line * 6, (line + "1") * 6, (line + "0") * 6, line * 2, line, line + "1", "0" * 40]
    for seed, height in enumerate((8, 13)):
        rng = np.random.default_rng(seed)
        data = np.repeat(rng.random((height, 20)) < .4, 4, axis=1)
        data[::5] = data[:1]
        more = {"compression": {2: "tiff_ccitt", 3: "group3", 4: "group4"}[compression]}
        for end in ends:
            strips = []
            for part in (data[:8], data[8:]):
                if part.size:
                    Image.fromarray(part).save(tmp_path / "p.tif", tiffinfo={278: 8, **({292: options} if compression == 3 else {})}, **more)
                    with tifffile.TiffFile(tmp_path / "p.tif") as file:
                        page = file.pages[0]
                        strips.append((tmp_path / "p.tif").read_bytes()[page.dataoffsets[0]:][:page.databytecounts[0]])
            strips[-1] = packed(bits(strips[-1]) + end)
            if order == 2:
                strips = [bytes(int(f"{byte:08b}"[::-1], 2) for byte in strip) for strip in strips]
            extra = [(266, 3, [order])] + ([(292, 4, [options])] if compression == 3 else [])
            tiff(tmp_path / "f.tif", data.shape, strips, compression, 1, 0, rows=8, more=extra)
            shown = truths(tmp_path / "f.tif")
            assert any(np.array_equal(truth.astype(bool), data) for truth in shown)
            found = outcome(tmp_path / "f.tif", fmt, tmp_path, [data, data.astype("u1")])
            is_refused = found == "refused" and (fmt, order, options & 1) == ("zarr3-json", 2, 1)
            assert found == "equal" or is_refused, (seed, end, found)


@pytest.mark.parametrize("filters", [0, 1])
@pytest.mark.parametrize("how", ["short", "longer", "whole"])
def test_edge_chunks_of_hdf5(tmp_path, fmt, filters, how):
    """libhdf5 reads chunks that end with the last element of the dataset, and ignores bytes after a chunk."""
    import zarr
    problems = []
    for shape, chunks in (((10,), (4,)), ((10, 6), (4, 6)), ((10, 10), (4, 4)), ((8, 10), (4, 4))):
        for dtype in ("<i4", ">f8", [("a", "<i2"), ("b", "<f4")]):
            path = tmp_path / "e.h5"
            numbers = np.arange(np.prod(shape)).reshape(shape)
            data = np.zeros(shape, dtype)
            for name in np.dtype(dtype).names or [...]:
                data[name] = numbers
            with h5py.File(path, "w") as file:
                more = [{}, {"shuffle": True}][filters]
                made = file.create_dataset("d", shape, dtype, chunks=chunks, compression="gzip", **more)
                for place in np.ndindex(*[-(-n // c) for n, c in zip(shape, chunks)]):
                    part = data[tuple(slice(i * c, (i + 1) * c) for i, c in zip(place, chunks))]
                    full = np.pad(part, [(0, c - n) for c, n in zip(chunks, part.shape)])
                    raw = full.tobytes()
                    if how == "short" and part.shape != chunks:
                        last = np.ravel_multi_index([n - 1 for n in part.shape], chunks)
                        raw = raw[:(last + 1) * data.dtype.itemsize]
                    elif how == "longer":
                        raw += b"\7" * data.dtype.itemsize
                    if more.get("shuffle"):
                        raw = np.frombuffer(raw, "u1").reshape(-1, data.dtype.itemsize).T.tobytes()
                    made.id.write_direct_chunk(tuple(i * c for i, c in zip(place, chunks)), zlib.compress(raw))
            try:
                with h5py.File(path) as file:
                    readable = np.array_equal(file["d"][...], data)
            except OSError:
                readable = False
            run = clients.virtualize(path, "-f", fmt, "-o", tmp_path / "o.json")
            # The shuffle filter mixes bytes after the end with the others.
            if run.status and (not readable or filters and how == "longer"):
                continue
            try:
                got = zarr.open_array(clients.open_store(json.loads((tmp_path / "o.json").read_text())), path="d", mode="r", zarr_format=FORMATS[fmt])[...]
                if not np.array_equal(got, data):
                    problems.append(f"{shape} {dtype}: wrong values")
            except Exception as error:
                problems.append(f"{shape} {dtype} {run.stderr}: {type(error).__name__}: {error}")
    clients.report(problems)


@pytest.mark.parametrize("kind", ["gray", "white", "rgb", "missing"])
def test_old_jpeg_of_other_colors(tmp_path, kind):
    """GDAL takes RGB for YCbCr; it does not read gray, which tifffile reads."""
    import imagecodecs
    y, x = np.mgrid[:48, :64]
    gray = kind in ("gray", "white")
    image = (x * 4).astype("u1") if gray else np.stack([x * 4, y * 5, x + y], -1).astype("u1")
    stream = bytes(imagecodecs.jpeg8_encode(image, level=90, **({} if gray else {"subsampling": "420"})))
    more = [(512, 3, [1]), (513, 4, [8]), (514, 4, [len(stream)])]
    tiff(tmp_path / "o.tif", (48, 64), [stream], 6, 8, {"gray": 1, "white": 0, "rgb": 2, "missing": 6}[kind], 1 if gray else 3, rows=48, more=more)
    shown = truths(tmp_path / "o.tif")[:1] if gray else None
    import rasterio
    truth = shown if gray else [np.moveaxis(rasterio.open(tmp_path / "o.tif").read(), 0, -1)]
    assert outcome(tmp_path / "o.tif", "kerchunk-json", tmp_path, truth) == "equal"


def test_inlined_arrays_are_compressed(tmp_path, fmt):
    import zarr
    with h5py.File(tmp_path / "c.h5", "w") as file:
        file["strings"] = np.array([b"blank   ", b"padded  "] * 4000, "S8")
        kind = h5py.h5t.TypeID.copy(h5py.h5t.C_S1)
        kind.set_size(8)
        kind.set_strpad(h5py.h5t.STR_SPACEPAD)
        space = h5py.h5s.create_simple((8000,))
        h5py.h5d.create(file.id, b"padded", kind, space).write(space, space, file["strings"][...], kind)
        expected = file["padded"][...]
    run = clients.virtualize(tmp_path / "c.h5", "-f", fmt, "-o", tmp_path / "o.json")
    assert run.status == 0, run.stderr
    assert (tmp_path / "o.json").stat().st_size < 8000
    got = zarr.open_array(clients.open_store(json.loads((tmp_path / "o.json").read_text())), path="padded", mode="r", zarr_format=FORMATS[fmt])[...]
    assert np.array_equal(got.astype("S8"), np.char.rstrip(expected))
    assert clients.virtualize("validate", tmp_path / "o.json", "--full").status == 0
