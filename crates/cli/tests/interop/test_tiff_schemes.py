"""TIFF compressions and layouts that no client decodes: decoded by virtualize, compared with GDAL (tifffile reads none of them)."""
import struct

import clients
import imagecodecs
import numpy as np
import pytest
import rasterio
from clients import FORMATS

WIDTH, HEIGHT = 37, 29
ENCODE = {1: bytes, 5: imagecodecs.lzw_encode, 8: imagecodecs.zlib_encode, 32773: imagecodecs.packbits_encode}


def write(path, pieces, order, **tags):
    """Builds a classic TIFF with one image. Pieces are strips, or tiles if `t322` is given. `t258=(3, [8, 8, 8])` is a tag."""
    places, data = [], b""
    for piece in pieces:
        places.append(8 + len(data))
        data += piece + b"\0" * (len(piece) % 2)
    tiled = "t322" in tags
    tags[f"t{324 if tiled else 273}"] = (4, places)
    tags[f"t{325 if tiled else 279}"] = (4, [len(piece) for piece in pieces])
    entries, values = b"", b""
    after = 8 + len(data) + 2 + 12 * len(tags) + 4
    for name, (kind, numbers) in sorted(tags.items(), key=lambda item: int(item[0][1:])):
        letter = {3: "H", 4: "I", 5: "I"}[kind]
        value = struct.pack(f"{order}{len(numbers)}{letter}", *numbers)
        count = len(numbers) // (2 if kind == 5 else 1)
        entries += struct.pack(order + "HHI", int(name[1:]), kind, count)
        if len(value) <= 4:
            entries += value.ljust(4, b"\0")
        else:
            entries += struct.pack(order + "I", after + len(values))
            values += value + b"\0" * (len(value) % 2)
    head = (b"II" if order == "<" else b"MM") + struct.pack(order + "HI", 42, 8 + len(data))
    path.write_bytes(head + data + struct.pack(order + "H", len(tags)) + entries + b"\0" * 4 + values)
    with rasterio.open(path) as file:
        return file.read()


def shorts(*numbers):
    return 3, list(numbers)


def check(path, fmt, truth):
    """Returns the difference, or None."""
    import zarr
    run = clients.virtualize(path, "--format", fmt)
    if run.status or run.stderr:
        return run.stderr
    array = zarr.open_array(clients.open_store(run.references), path="band_data", mode="r", zarr_format=FORMATS[fmt])
    got = array[...]
    got = got if got.shape == truth.shape else np.moveaxis(got, -1, 0)
    return clients.same_values(truth, got)


def common(bits, photometric, compression, rows):
    return dict(t256=shorts(WIDTH), t257=shorts(HEIGHT), t258=bits, t259=shorts(compression), t262=shorts(photometric),
                t277=shorts(len(bits[1])), t278=shorts(rows), t284=shorts(1))


@pytest.mark.parametrize("compression", ENCODE)
def test_subsampled_ycbcr(tmp_path, fmt, compression):
    """Every subsampling, strips and tiles, with other colours and random numbers: equal to GDAL's RGB to the last bit. Rejected: tiles that GDAL cannot
    read (uncompressed) or reads with misplaced pixels (4 x 4)."""
    rng, problems, path = np.random.default_rng(compression), [], tmp_path / "ycbcr.tif"
    colors = {
        "defaults": {},
        "coefficients": {"t529": (5, [2125, 10000, 7154, 10000, 721, 10000])},
        "video": {"t532": (5, [16, 1, 235, 1, 128, 1, 240, 1, 128, 1, 240, 1])},
        "odd": {"t529": (5, [1, 3, 1, 3, 1, 3]), "t532": (5, [5, 2, 200, 1, 100, 1, 255, 1, 1301, 10, 2555, 10])},
    }
    for across, down in [(1, 2), (2, 1), (2, 2), (4, 1), (4, 2), (4, 4)]:
        block = across * down + 2
        for name, more in colors.items():
            for rows in (4, 8, 32) if name == "odd" else (8,):
                strips = [min(rows, HEIGHT - top) for top in range(0, HEIGHT, rows)]
                pieces = [rng.integers(0, 256, -(-WIDTH // across) * -(-n // down) * block, "u1").tobytes() for n in strips]
                pieces = [ENCODE[compression](piece) for piece in pieces]
                tags = common(shorts(8, 8, 8), 6, compression, rows)
                truth = write(path, pieces, "<", **tags, t530=shorts(across, down), **more)
                assert truth.shape == (3, HEIGHT, WIDTH)
                if problem := check(path, fmt, truth):
                    problems.append(f"{across} x {down}, {name}, strips of {rows}: {problem}")
        tags = common(shorts(8, 8, 8), 6, compression, 1)
        del tags["t278"]
        pieces = [rng.integers(0, 256, 16 // across * (16 // down) * block, "u1").tobytes() for _ in range(6)]
        try:
            truth = write(path, [ENCODE[compression](piece) for piece in pieces], "<", **tags, t530=shorts(across, down),
                          t322=shorts(16), t323=shorts(16))
        except rasterio.errors.RasterioError:
            truth = None
        if truth is None or (across, down) == (4, 4):
            assert "in these tiles" in clients.virtualize(path, "--format", fmt).stderr
        elif problem := check(path, fmt, truth):
            problems.append(f"{across} x {down}, tiles: {problem}")
    clients.report(problems)


def next_row(rng, kind):
    size = -(-WIDTH // 4)
    if kind == 0:
        return b"\0" + rng.bytes(size)
    if kind == 1:
        start = int(rng.integers(0, size))
        length = int(rng.integers(0, size - start + 1))
        return b"\x40" + struct.pack(">HH", start, length) + rng.bytes(length)
    row, left = b"", WIDTH
    while left > 0:
        run = int(rng.integers(1, 9))
        row, left = row + bytes([int(rng.integers(0, 4)) << 6 | run]), left - run
    # A first byte with another value has another meaning.
    return b"\x85" + row if row[0] == 0x40 else row


@pytest.mark.parametrize("order", ["<", ">"])
def test_next(tmp_path, fmt, order):
    rng, problems, path = np.random.default_rng(7), [], tmp_path / "next.tif"
    for rows in (1, 5, 29):
        strips = [min(rows, HEIGHT - top) for top in range(0, HEIGHT, rows)]
        pieces = [b"".join(next_row(rng, rng.integers(0, 4)) for _ in range(n)) for n in strips]
        truth = write(path, pieces, order, **common(shorts(2), 1, 32766, rows))
        if problem := check(path, fmt, truth):
            problems.append(f"strips of {rows}: {problem}")
    clients.report(problems)


def log_row(rng):
    row = b""
    for _ in range(2):
        left = WIDTH
        while left > 0:
            n = min(left, int(rng.integers(1, 20)))
            if rng.integers(0, 2) and n > 1:
                row += bytes([128 + n - 2, int(rng.integers(0, 256))])
            else:
                row += bytes([n]) + rng.bytes(n)
            left -= n
    return row


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("sample_format", [1, 2])
def test_sgi_log_of_16_bits(tmp_path, fmt, order, sample_format):
    rng, problems, path = np.random.default_rng(7), [], tmp_path / "log.tif"
    for rows in (1, 5, 29):
        strips = [min(rows, HEIGHT - top) for top in range(0, HEIGHT, rows)]
        pieces = [b"".join(log_row(rng) for _ in range(n)) for n in strips]
        truth = write(path, pieces, order, **common(shorts(16), 32844, 34676, rows), t339=shorts(sample_format))
        if problem := check(path, fmt, truth):
            problems.append(f"strips of {rows}: {problem}")
    clients.report(problems)


def test_damaged_and_other_data_are_refused(tmp_path, fmt):
    path = tmp_path / "odd.tif"
    for tags, piece in [
        (common(shorts(2), 1, 32766, HEIGHT), b"\0\1\2"),
        (common(shorts(16), 32844, 34676, HEIGHT), b"\x90\1"),
        (common(shorts(8, 8, 8), 6, 8, HEIGHT) | {"t530": shorts(2, 2)}, imagecodecs.zlib_encode(b"\1" * 100)),
        (common(shorts(8, 8, 8), 6, 8, HEIGHT) | {"t530": shorts(2, 2), "t317": shorts(2)}, imagecodecs.zlib_encode(b"\1" * 9000)),
    ]:
        try:
            write(path, [piece], "<", **tags)
        except rasterio.errors.RasterioError:
            pass
        run = clients.virtualize(path, "--format", fmt)
        assert run.status == 1 and run.stdout == b"", run.stderr


def test_lossless_ycbcr_is_refused(tmp_path, fmt):
    """libjpeg-turbo converts no colors of lossless streams (SOF3)."""
    import tifffile
    data = np.random.default_rng(0).integers(0, 256, (64, 48, 3), "u1")
    tifffile.imwrite(tmp_path / "a.tif", data, photometric="ycbcr", planarconfig="contig", compression="jpeg", subsampling=(1, 1),
                     compressionargs={"level": 90, "lossless": True}, metadata=None, tile=(64, 48))
    run = clients.virtualize(tmp_path / "a.tif", "-f", fmt)
    assert run.status == 1 and "lossless" in run.stderr
