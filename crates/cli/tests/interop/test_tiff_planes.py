"""Planes without directories of their own, and offsets beyond 4 GiB in dialects of classic TIFF, compared with tifffile."""
import os, random, struct

import numpy as np
import pytest
import tifffile
from clients import FORMATS, convert, nodes, open_dataset, same_bits, seeds, virtualize

GIB4 = 1 << 32


def arrays(path, fmt, *arguments):
    """Returns all arrays with the bands before the rows, {group: (dimensions, values)}, and the run."""
    run = convert(path, fmt, *arguments)
    found = {}
    for name, kind in nodes(run.references, FORMATS[fmt]).items():
        group, _, array = name.rpartition("/")
        if kind == "array" and array == "band_data":
            variable = open_dataset(run.references, FORMATS[fmt], group)[array]
            found[group] = variable.dims, variable.values
    return found, run


def axes_of(dims, group):
    """Returns the axes in tifffile's letters; the samples are S."""
    names = [name.removesuffix(f"_{group}") if group else name for name in dims]
    return "".join("S" if name == "band" else name.rstrip("23456789").upper() for name in names)


def compare(series, group, dims, values):
    """Compares a series with an array; axes of length 1 do not count."""
    expected, axes = series.asarray().reshape(series.shape), series.axes
    letters = axes_of(dims, group)
    keep = lambda names, sizes: "".join(name for name, size in zip(names, sizes) if size > 1)
    stored, shown = keep(axes, expected.shape), keep(letters, values.shape)
    planes, planes_shown = stored.replace("Y", "").replace("X", "").replace("S", ""), shown.replace("Y", "").replace("X", "").replace("S", "")
    assert planes == planes_shown, (axes, dims)
    got = np.squeeze(values)
    if "S" in shown and shown.index("S") != stored.index("S"):
        got = np.moveaxis(got, shown.index("S"), stored.index("S"))
    problem = same_bits(np.squeeze(expected), got)
    assert not problem, problem


def stack(rng, kind):
    """Returns random arguments of tifffile's writer."""
    imagej = kind == "imagej"
    letters = [letter for letter in ("TZC" if imagej else "TZCQ") if rng.random() < 0.5] or ["T"]
    if not imagej:
        rng.shuffle(letters)
    sizes = [rng.choice((1, 2, 3)) for _ in letters]
    page, axes, options = [rng.choice((5, 16, 33)), rng.choice((7, 16, 40))], "YX", {"photometric": "minisblack"}
    if rng.random() < 0.3:
        page, axes, options = [*page, 3], "YXS", {"photometric": "rgb"}
        if not imagej and rng.random() < 0.5:
            page, axes, options = [3, *page[:2]], "SYX", {"photometric": "rgb", "planarconfig": "separate"}
    types = ("u1", "u2", "f4") if imagej else ("u1", "i1", "u2", "i2", "u4", "f4", "f8", "c8")
    dtype = "u1" if imagej and axes == "YXS" else rng.choice(types)
    shape = (*sizes, *page)
    data = np.random.default_rng(rng.getrandbits(32)).integers(0, 256, (int(np.prod(shape)) * np.dtype(dtype).itemsize,), "u1")
    data = data.view(dtype).reshape(shape)
    metadata = {"axes": "".join(letters) + axes}
    options |= {"byteorder": rng.choice("<>"), "metadata": metadata}
    if rng.random() < 0.3 and axes != "SYX":
        options["rowsperstrip"] = rng.choice((1, 2, 8))
    if not imagej and rng.random() < 0.2:
        options["description"] = "another description"
    if kind == "shaped" and rng.random() < 0.3:
        del metadata["axes"]
    return np.nan_to_num(data) if data.dtype.kind in "fc" else data, options


@pytest.mark.parametrize("seed", seeds("RANDOM_PLANES", 60, 20))
def test_random_stacks_are_those_of_tifffile(tmp_path, seed):
    rng = random.Random(seed)
    fmt = rng.choice(list(FORMATS))
    kind = rng.choice(("imagej", "shaped", "shaped", "plain"))
    truncate = kind != "plain" and rng.random() < 0.8
    path = tmp_path / "stack.tif"
    series = 1 if kind == "imagej" else rng.choice((1, 1, 2, 3))
    written = []
    with tifffile.TiffWriter(path, imagej=kind == "imagej", byteorder=(order := rng.choice("<>")), bigtiff=kind == "shaped" and rng.random() < 0.2) as out:
        for _ in range(series):
            data, options = stack(rng, kind)
            options.pop("byteorder")
            written.append(data)
            if kind == "plain":
                options["metadata"] = None
            out.write(data.astype(data.dtype.newbyteorder(order)), truncate=truncate, **options)
    with tifffile.TiffFile(path) as tif:
        every = tif.series(squeeze=False)
        if kind != "plain" and any(one.kind != kind for one in every):
            pytest.skip("tifffile does not read its own file as it was written")
        shown, _ = arrays(path, fmt, "--strict")
        for one in every if truncate else []:
            compare(one, str(one.keyframe.index or ""), *shown.pop(str(one.keyframe.index or "")))
        for index in [] if truncate else range(len(tif.pages)):
            dims, values = shown.pop(str(index or ""))
            expected = tif.pages[index].asarray()
            page = tif.pages[index].keyframe
            if page.samplesperpixel > 1 and page.planarconfig == 1 and not dims[-1].startswith("band"):
                expected = np.moveaxis(expected, -1, 0)
            problem = same_bits(np.squeeze(expected), np.squeeze(values))
            assert not problem, problem
    # tifffile ignores series behind a truncated one that has more planes than directories follow.
    assert all(truncate and values.size == written[int(group)].size for group, (_, values) in shown.items())


def test_other_programs_and_orders(tmp_path):
    """ImageJ writes the axes in six orders; Bio-Formats declares samples as channels; STK has distances or times."""
    planes = np.arange(6 * 20 * 30, dtype="<u2").reshape(6, 20, 30)
    cases = {order: f"ImageJ=1.5\nimages=6\nchannels=2\nslices=3\norder={order}\n" for order in ("czt", "ctz", "zct", "ztc", "tcz", "tzc")}
    cases |= {"frames": "ImageJ=1.5\nimages=6\nframes=6\n", "scifio": "SCIFIO=0.4\nimages=6\nslices=6\n", "old": "shape=(6, 20, 30)",
              "cut": '{"shape": [2, 60, 30]}'}
    for name, description in cases.items():
        write_first(tmp_path / f"{name}.tif", planes, description)
    for axis, (over, times) in {"z": (1, [0] * 6), "t": (0, range(6)), "i": (0, [0] * 6)}.items():
        write_stk(tmp_path / f"{axis}.stk", planes, over, times)
    for path in sorted(tmp_path.iterdir()):
        shown, _ = arrays(path, "kerchunk-json", "--strict")
        with tifffile.TiffFile(path) as tif:
            compare(tif.series(squeeze=False)[0], "", *shown[""])


def write_first(path, planes, description, behind=b""):
    """Writes contiguous planes, and a directory that describes the first one."""
    count, height, width = planes.shape
    data, text = planes.tobytes(), description.encode() + b"\0"
    tags = [(256, 3, 1, width), (257, 3, 1, height), (258, 3, 1, 8 * planes.itemsize), (259, 3, 1, 1), (262, 3, 1, 1), (270, 2, len(text), 8 + len(data)),
            (273, 4, 1, 8), (277, 3, 1, 1), (278, 3, 1, height), (279, 4, 1, len(data) // count)]
    text += bytes(len(text) % 2)
    path.write_bytes(struct.pack("<2sHI", b"II", 42, 8 + len(data) + len(text)) + data + text + directory(tags) + behind)


def directory(tags):
    return struct.pack("<H", len(tags)) + b"".join(struct.pack("<HHII", *tag) for tag in sorted(tags)) + bytes(4)


def write_stk(path, planes, over, times):
    count, height, width = planes.shape
    uic2 = b"".join(struct.pack("<6I", over, 1, 2450000, time, 0, 0) for time in times)
    at = 8 + planes.nbytes
    tags = [(256, 3, 1, width), (257, 3, 1, height), (258, 3, 1, 16), (259, 3, 1, 1), (262, 3, 1, 1), (273, 4, 1, 8), (277, 3, 1, 1), (278, 3, 1, height),
            (279, 4, 1, planes.nbytes // count), (33628, 4, 2, at), (33629, 5, count, at), (33630, 5, count, at), (33631, 4, count, at)]
    path.write_bytes(struct.pack("<2sHI", b"II", 42, at + len(uic2)) + planes.tobytes() + uic2 + directory(tags))


def test_planes_that_cannot_be_mapped_are_reported(tmp_path):
    planes = np.arange(6 * 20 * 30, dtype="<u2").reshape(6, 20, 30)
    path = tmp_path / "a.tif"
    count = 'ImageJ=1.5\nimages={0}\nslices={0}\n'
    write_first(path, planes[:4], count.format(6))
    runs = {"the file ends before them": virtualize(path, "--strict")}
    tifffile.imwrite(path, planes[0], description=count.format(6), metadata=None, compression="zlib")
    runs["not stored as one contiguous block"] = virtualize(path, "--strict")
    with tifffile.TiffWriter(path) as out:
        out.write(planes[0], description=count.format(3), metadata=None)
        out.write(planes, photometric="minisblack", metadata=None, subfiletype=1)
    runs["a directory follows the image"] = virtualize(path, "--strict")
    write_first(path, planes, "ImageJ=1.5\nimages=6\nslices=2\n")
    runs["6 images, but 1 channels, 2 slices and 1 frames"] = virtualize(path, "--strict")
    for message, run in runs.items():
        assert run.status == 1 and message in run.stderr, (message, run.stderr)


def sparse(path, size, parts):
    """Writes a sparse file: bytes at offsets."""
    with open(path, "wb") as out:
        out.truncate(size)
        for offset, content in parts:
            out.seek(offset)
            out.write(content)


def test_imagej_stacks_above_4_gib(tmp_path, fmt):
    """Three planes of 2 GiB and more: the last ones begin and end above 4 GiB."""
    height, width = 1 << 15, 1 << 16
    path = tmp_path / "a.tif"
    text = b"ImageJ=1.5\nimages=3\nframes=3\n\0"
    tags = [(256, 4, 1, width), (257, 4, 1, height), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1), (270, 2, len(text), 400), (273, 4, 1, 1024), (277, 3, 1, 1),
            (278, 4, 1, height), (279, 4, 1, height * width)]
    size = 1024 + 3 * height * width
    marks = [(8, directory(tags)), (400, text), *((1024 + plane * height * width + 5 * width + 7, bytes([plane + 1])) for plane in range(3))]
    sparse(path, size, [(0, struct.pack("<2sHI", b"II", 42, 8)), *marks])
    run = convert(path, fmt, "--strict")
    band_data = open_dataset(run.references, FORMATS[fmt])["band_data"]
    memmap = tifffile.memmap(path, mode="r")
    assert memmap.shape == band_data.shape[:1] + band_data.shape[2:]
    assert not (problem := same_bits(memmap[:, 0:64, 0:64], band_data[:, 0, 0:64, 0:64].values)), problem


def ndpi(path, levels, size):
    """Writes images of one strip at offsets, with directories behind them, as Hamamatsu NDPI."""
    parts, link = [(0, struct.pack("<2sHQ", b"II", 42, 0))], 4
    for place, image in levels:
        height, width = image.shape
        at = place + image.nbytes
        tags = [(254, 4, 1, 0), (256, 4, 1, width), (257, 4, 1, height), (258, 3, 1, 8), (259, 4, 1, 1), (262, 3, 1, 1), (271, 2, 10, at), (273, 4, 1, place), (277, 3, 1, 1),
                (278, 4, 1, height), (279, 4, 1, height * width), (305, 2, 4, at + 16), (65420, 4, 1, 1)]
        parts += [(at, b"Hamamatsu\0"), (at + 16, b"abc\0"), (link, struct.pack("<Q", at + 64))]
        body = struct.pack("<H", len(tags)) + b"".join(struct.pack("<HHII", tag, kind, count, value % GIB4) for tag, kind, count, value in tags)
        link = at + 64 + len(body)
        parts.append((at + 64, body + bytes(8) + b"".join(struct.pack("<I", value >> 32) for *_, value in tags)))
    sparse(path, size, sorted(parts, key=lambda part: part[0] in (link,)))


@pytest.mark.parametrize("seed", seeds("RANDOM_PLANES", 6, 3))
def test_ndpi_above_4_gib(tmp_path, fmt, seed):
    rng = random.Random(seed)
    path = tmp_path / "a.ndpi"
    places = [rng.choice((4096, GIB4 - 4096, GIB4 + 77, 3 * GIB4)) + 8192 * number for number in range(3)]
    levels = [(place, np.random.default_rng(place).integers(0, 255, (rng.randint(1, 40), rng.randint(1, 40)), "u1")) for place in places]
    ndpi(path, levels, 4 * GIB4)
    shown, _ = arrays(path, fmt, "--strict")
    with tifffile.TiffFile(path) as tif:
        assert len(tif.pages) == len(shown) == 3
        for page in tif.pages:
            expected = page.asarray().reshape(page.imagelength, page.imagewidth)
            assert not (problem := same_bits(expected, shown[str(page.index or "")][1][0])), problem


def lsm(path, dims, thumbnail_first, order, step):
    """Writes pairs of images and thumbnails with offsets modulo 2**32, as Zeiss LSM; `order` is that of acquisition."""
    times, positions, tiles = dims
    info = bytearray(512)
    for at, value in ((0, 0x0400494C), (4, 512), (8, 6), (12, 5), (16, len(order) // (times * positions * tiles)), (20, 1), (24, times), (264, positions), (268, tiles)):
        struct.pack_into("<I", info, at, value)
    parts, offsets, at = [(8192 * 8 - 1024, bytes(info))], {}, 1 << 17
    for pair in order:
        for kind in ((1, 0) if thumbnail_first else (0, 1)):
            content = np.full((5, 6) if kind == 0 else (2, 3), 2 * pair + kind, "u1").tobytes()
            offsets[2 * pair + kind] = at
            parts.append((at, content))
            at += len(content)
        at += step
    size, link, place = at, 4, 256
    for number, offset in sorted(offsets.items()):
        height, width = ((5, 6), (2, 3))[number % 2]
        tags = [(254, 4, 1, number % 2), (256, 4, 1, width), (257, 4, 1, height), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1), (273, 4, 1, offset % GIB4), (277, 3, 1, 1),
                (278, 4, 1, height), (279, 4, 1, height * width)] + [(34412, 1, 512, parts[0][0])] * (number == 0)
        body = directory(tags)
        parts += [(link, struct.pack("<I", place)), (place, body[:-4])]
        link, place = place + len(body) - 4, place + len(body) + 4
    sparse(path, size, [(0, b"II*\0"), *parts])


@pytest.mark.parametrize("seed", seeds("RANDOM_PLANES", 8, 3))
def test_lsm_above_4_gib(tmp_path, fmt, seed):
    rng = random.Random(seed)
    dims = rng.choice(((4, 1, 1), (2, 2, 1), (1, 3, 2), (2, 1, 3), (1, 1, 1)))
    times, positions, tiles = dims
    inner = rng.choice((1, 2)) if max(dims) > 1 else 5
    pairs = np.arange(times * positions * tiles * inner).reshape(tiles, positions, times, inner)
    order = pairs.transpose(2, 1, 0, 3).ravel() if sum(count > 1 for count in dims) > 1 else pairs.ravel()
    path = tmp_path / "a.lsm"
    lsm(path, dims, rng.random() < 0.5, [int(pair) for pair in order], rng.choice((GIB4 - 4096, GIB4 // 2 + 99)))
    assert os.path.getsize(path) > GIB4
    shown, _ = arrays(path, fmt, "--strict")
    with tifffile.TiffFile(path) as tif:
        assert len(tif.pages) == len(shown)
        for page in tif.pages:
            index = page.index if isinstance(page.index, int) else page.index[0]
            assert page.asarray().flat[0] == index, "the file is not as tifffile expects"
            assert not (problem := same_bits(page.asarray(), shown[str(index or "")][1][0])), problem


def test_images_beyond_4_gib_of_an_unknown_dialect_are_reported(tmp_path):
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, np.zeros((5, 6), "u1"))
    os.truncate(path, GIB4 + 1)
    run = virtualize(path, "--strict")
    assert run.status == 1 and "offsets of classic TIFF end at 4 GiB" in run.stderr and ("/", "tiff-chain") in run.codes


def test_compressed_lsm_is_that_of_tifffile(tmp_path, fmt):
    """Byte counts of compressed strips are those before compression, which may be smaller or beyond the end of the file."""
    import imagecodecs
    noise = np.random.default_rng(1).integers(0, 256, (3, 24, 20), "u1")
    images = [noise[0], np.zeros((24, 20), "u1"), noise[1], np.zeros((24, 20), "u1")]
    parts, at, tags = [(4096, bytes(512))], 8192, []
    for number, image in enumerate(images):
        stored = imagecodecs.lzw_encode(image.tobytes()) if number % 2 == 0 else image[:2, :3].tobytes()
        height, width = image.shape if number % 2 == 0 else (2, 3)
        tags.append([(254, 4, 1, number % 2), (256, 4, 1, width), (257, 4, 1, height), (258, 3, 1, 8), (259, 3, 1, 1 if number % 2 else 5), (262, 3, 1, 1), (273, 4, 1, at),
                     (277, 3, 1, 1), (278, 4, 1, height), (279, 4, 1, height * width)])
        parts.append((at, stored))
        at += len(stored)
    tags[0].append((34412, 1, 512, 4096))
    link, place = 4, 256
    for one in tags:
        body = directory(one)
        parts += [(link, struct.pack("<I", place)), (place, body[:-4])]
        link, place = place + len(body) - 4, place + len(body) + 4
    path = tmp_path / "a.lsm"
    sparse(path, at, [(0, b"II*\0"), *parts])
    shown, _ = arrays(path, fmt)
    with tifffile.TiffFile(path) as tif:
        for page, expected in zip(tif.pages, images):
            if page.index % 2 == 0:
                assert np.array_equal(page.asarray(), expected)
                assert not (problem := same_bits(expected, shown[str(page.index or "")][1][0])), problem
