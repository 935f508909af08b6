"""Random HDF5 and TIFF files with everything that the two Zarr formats encode differently."""
import numpy as np

NUMBERS = ["u1", "i1", "<i2", ">i2", "<u4", ">u4", "<i8", ">i8", "<f2", ">f2", "<f4", ">f4", "<f8", ">f8", "<c8", ">c8", ">c16", "?"]
STRUCTURES = [
    [("a", ">f8"), ("b", ">i4")], [("a", "<f4"), ("b", "<u2")], [("a", ">f8"), ("b", "<i4")], [("s", "S3"), ("n", ">i2"), ("x", "i1")],
    [("p", [("x", ">f4"), ("y", ">f4")]), ("flag", "u1")], [("z", ">c8"), ("u", ">u8")], [("v", ">f4", (2,)), ("n", "<i4")], [("only", "S4"), ("b", "u1")],
]


def hdf5_file(path, pick):
    """Writes arrays of all types, byte orders, filters, fill values and sentinels, with missing chunks."""
    import h5py
    with h5py.File(path, "w") as f:
        f.attrs["title"] = "random"
        for n in range(pick.randint(3, 7)):
            group = f.require_group(pick.choice(["g", "g/h"])) if pick.random() < 0.5 else f
            pick.choice([numbers, numbers, numbers, structure, text])(group, f"v{n}", pick)


def numbers(group, name, pick):
    dtype = np.dtype(pick.choice(NUMBERS))
    shape = tuple(pick.choice([1, 4, 5, 9]) for _ in range(pick.choice([0, 1, 2, 2, 3])))
    chunks = tuple(pick.randint(1, n) for n in shape) or None
    fill = value_of(dtype, pick) if pick.random() < 0.6 else None
    if pick.random() < 0.2 or not shape:
        dataset = group.create_dataset(name, data=values(shape, dtype, pick))
    else:
        dataset = chunked(group, name, shape, dtype, chunks, fill, filters(dtype, pick))
        write_some(dataset, pick)
    sentinel(dataset, dtype, fill, pick)
    if pick.random() < 0.2 and dtype.kind in "iu":
        dataset.attrs.update(scale_factor=0.5, add_offset=2.0)
    dataset.attrs["units"] = "K"


def chunked(group, name, shape, dtype, chunks, fill, compression):
    try:
        return group.create_dataset(name, shape, dtype, chunks=chunks, fillvalue=fill, **compression)
    except ValueError:
        # Some plugins fail in a process with two HDF5 libraries (those of h5py and netCDF4).
        return group.create_dataset(name, shape, dtype, chunks=chunks, fillvalue=fill)


def sentinel(dataset, dtype, fill, pick):
    style = pick.choice(["none", "none", "same", "other", "odd", "missing_value"])
    other = value_of(dtype, pick)
    if style == "same" and fill is not None:
        dataset.attrs["_FillValue"] = np.asarray(fill, dtype)
    elif style == "other":
        dataset.attrs["_FillValue"] = np.asarray(other, dtype)
    elif style == "odd" and dtype.kind == "f":
        dataset.attrs["_FillValue"] = np.asarray(pick.choice([np.nan, np.inf, -np.inf, -0.0]), dtype)
    elif style == "missing_value" and dtype.kind in "iuf":
        dataset.attrs["missing_value"] = np.asarray(other, dtype)


def structure(group, name, pick):
    dtype = np.dtype(pick.choice(STRUCTURES))
    shape, chunks = pick.choice([((), None), ((5,), None), ((7,), (3,)), ((4, 5), (2, 3))])
    data = np.frombuffer(pick.randbytes(int(np.prod(shape, dtype=int)) * dtype.itemsize), dtype).reshape(shape)
    if chunks and pick.random() < 0.5:
        fill = np.zeros((), dtype) if pick.random() < 0.5 else np.ones((), dtype)
        dataset = chunked(group, name, shape, dtype, chunks, fill[()], filters(dtype, pick, False))
        dataset[:2] = data[:2]
    else:
        group.create_dataset(name, data=data, chunks=chunks)


def text(group, name, pick):
    import h5py
    if pick.random() < 0.5:
        group.create_dataset(name, data=np.array([pick.choice([b"ab", b"", b"xyz"]) for _ in range(5)], "S3"), chunks=pick.choice([None, (2,)]))
    else:
        dataset = group.create_dataset(name, (6,), h5py.string_dtype(), chunks=(4,))
        dataset[:3] = [pick.choice(["ä", "", "text"]) for _ in range(3)]


def filters(dtype, pick, plugins=True):
    import hdf5plugin
    more = {"shuffle": pick.random() < 0.3, "fletcher32": pick.random() < 0.2}
    kinds = [{}, {}, {"compression": "gzip", **more}, {"compression": "lzf", **more}]
    if plugins and dtype.kind != "b":
        kinds += [dict(hdf5plugin.Zstd()), dict(hdf5plugin.Blosc()), dict(hdf5plugin.LZ4()), dict(hdf5plugin.BZip2()), dict(hdf5plugin.Bitshuffle())]
    if plugins and dtype.kind == "f" and dtype.itemsize >= 4:
        kinds.append(dict(hdf5plugin.Zfp(reversible=True)))
    return pick.choice(kinds)


def write_some(dataset, pick):
    for _ in range(pick.choice([0, 1, 2, 9])):
        at = tuple(slice(start, start + pick.randint(1, n)) for n in dataset.shape for start in [pick.randrange(n)])
        dataset[at] = values(dataset[at].shape, dataset.dtype, pick)


def values(shape, dtype, pick):
    count = int(np.prod(shape, dtype=int))
    return np.array([value_of(dtype, pick) for _ in range(count)], dtype).reshape(shape)


def value_of(dtype, pick):
    kind = dtype.kind
    if kind == "b":
        return pick.random() < 0.5
    if kind in "iu":
        limits = np.iinfo(dtype)
        return pick.choice([0, 1, 7, limits.min, limits.max, pick.randint(limits.min, limits.max)])
    number = lambda: pick.choice([0.0, -0.0, 1.5, -9999.0, float("nan"), float("inf"), pick.uniform(-100, 100)])
    return complex(number(), number()) if kind == "c" else number()




def tiff_file(path, pick):
    """Writes images of one and of several bands, chunky and planar, in strips and tiles, in both byte orders and bit orders."""
    import tifffile
    with tifffile.TiffWriter(path, byteorder=pick.choice("<>"), bigtiff=pick.random() < 0.2) as out:
        reversed_ones = [write_image(out, pick) for _ in range(pick.choice([1, 1, 2]))]
    reverse_bits(path, reversed_ones)


def write_image(out, pick):
    bands = pick.choice([1, 1, 2, 3, 4])
    planar = bands > 1 and pick.random() < 0.4
    height, width = pick.choice([(20, 24), (33, 40), (32, 32)])
    is_reversed = pick.random() < 0.2
    dtype = np.dtype(pick.choice(["u1", "u2", "i2", "u4", "i4", "f4", "f8"]))
    compression = pick.choice([None, "zlib", "lzw", "zstd", "packbits", "lzma"])
    if not is_reversed and dtype == "u1" and bands in (1, 3) and pick.random() < 0.4:
        compression, planar = pick.choice(["jpegxl", "png", "jpeg2000", "jpegxr"]), False
    predictor = None
    if compression in ("zlib", "lzw", "zstd", "lzma") and pick.random() < 0.5:
        predictor = 3 if dtype.kind == "f" else 2
    noise = np.random.default_rng(pick.randrange(1 << 30)).integers(0, 100, (bands, height, width)).astype(dtype)
    data = noise if planar or bands == 1 else np.moveaxis(noise, 0, -1)
    data = data[0] if bands == 1 else data
    cut = {"tile": (16, 16)} if pick.random() < 0.5 or compression in ("jpegxl", "png", "jpeg2000", "jpegxr") else {"rowsperstrip": pick.choice([5, 8, height])}
    tags = [(265, "H", 1, 2, True)] * is_reversed
    if pick.random() < 0.4:
        tags.append((42113, "s", 0, str(pick.choice([0, 7, 50])), True))
    photometric = "rgb" if bands in (3, 4) and dtype.kind == "u" and dtype.itemsize < 4 else "minisblack"
    extra = {"planarconfig": "separate" if planar else "contig"} if bands > 1 else {}
    if bands > 1 and photometric == "minisblack":
        extra["extrasamples"] = ["unspecified"] * (bands - 1)
    if bands == 4 and photometric == "rgb":
        extra["extrasamples"] = ["unassalpha"]
    out.write(data, photometric=photometric, compression=compression, predictor=predictor, metadata=None, extratags=tags, **cut, **extra)
    return is_reversed


def reverse_bits(path, kinds):
    """Sets FillOrder (266) to 2, which tifffile cannot write, in place of another tag, and reverses the bits of the data."""
    import struct
    import tifffile
    table = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
    with tifffile.TiffFile(path) as tif:
        order = tif.byteorder
        pages = [page for page, is_reversed in zip(tif.pages, kinds) if is_reversed]
        places = [place for page in pages for place in zip(page.dataoffsets, page.databytecounts)]
        tags = [page.tags[265].offset for page in pages]
    with open(path, "r+b") as file:
        for at in tags:
            file.seek(at)
            file.write(struct.pack(f"{order}H", 266))
        for at, size in places:
            file.seek(at)
            turned = file.read(size).translate(table)
            file.seek(at)
            file.write(turned)
