"""Random GeoTIFFs by GDAL and tifffile, through references, compared with GDAL and tifffile on the original: values of all images, nodata, scales,
offsets, units, descriptions. More of them: RANDOM_TIFFS=400."""
import json, os, random, warnings

import clients
import numpy as np
import pytest
from clients import FORMATS, nodes

pytestmark = pytest.mark.slow

SEEDS = clients.seeds("RANDOM_TIFFS", 4, 4)
EACH = 10
LOSSLESS = [None, None, "LZW", "DEFLATE", "ZSTD", "LZMA", "PACKBITS", "LERC", "LERC", "LERC_DEFLATE", "LERC_ZSTD"]
TYPES = ["uint8", "uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "float32", "float64", "float16", "uint64", "int64",
         "complex_int16", "complex64", "complex128"]


def values(rng, dtype, shape, bits):
    """Returns small and large numbers, runs, and NaN."""
    kind = "complex64" if dtype == "complex_int16" else dtype
    whole = np.issubdtype(np.dtype(kind), np.integer)
    if whole:
        top = min(2 ** bits - 1, np.iinfo(kind).max)
        data = rng.integers(0 if rng.random() < .7 else np.iinfo(kind).min if bits >= np.dtype(kind).itemsize * 8 else 0, top, shape, dtype=kind, endpoint=True)
    else:
        data = (np.round(rng.normal(size=shape) * 50) if dtype == "complex_int16" else rng.normal(size=shape) * 100).astype(kind)
    if rng.random() < .5:
        data[..., : shape[-2] // 2, :] = data.flat[0]
    if np.issubdtype(data.dtype, np.floating) and rng.random() < .4:
        data[rng.random(shape) < .05] = np.nan
        if rng.random() < .5:
            data[:, :3] = np.nan
    return data


def options(pick, dtype):
    """Returns creation options that GDAL accepts for the type."""
    compress, count = pick.choice(LOSSLESS), pick.choice([1, 1, 2, 3, 4])
    if "LERC" in (compress or "") and dtype not in ("uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "float64"):
        compress = "DEFLATE"
    if pick.random() < .06 and dtype == "uint8":
        compress, count = "WEBP", pick.choice([3, 4])
    made = {"count": count, "interleave": pick.choice(["pixel", "band"]) if compress != "WEBP" else "pixel", "endianness": pick.choice(["LITTLE", "BIG"])}
    if compress:
        made["compress"] = compress
    if compress == "WEBP":
        made["webp_lossless"] = "YES"
    if pick.random() < .5:
        made |= {"tiled": True, "blockxsize": pick.choice([16, 32, 48]), "blockysize": pick.choice([16, 32])}
    elif pick.random() < .7:
        made["blockysize"] = pick.choice([1, 5, 8, 16, 33])
    if pick.random() < .3:
        made["bigtiff"] = "YES"
    if pick.random() < .3:
        made["sparse_ok"] = True
    bits = np.dtype("complex64" if dtype == "complex_int16" else dtype).itemsize * 8
    if dtype in ("uint8", "uint16", "uint32") and compress in (None, "LZW", "DEFLATE", "ZSTD", "LZMA") and pick.random() < .35:
        low = {"uint8": 1, "uint16": 9, "uint32": 17}[dtype]
        made["nbits"] = bits = pick.randint(low, low + (6 if dtype == "uint8" else 6 if dtype == "uint16" else 14))
    elif dtype == "float32" and compress in (None, "LZW", "DEFLATE", "ZSTD") and pick.random() < .25:
        made["nbits"] = pick.choice([16, 24])
    elif compress in ("LZW", "DEFLATE", "ZSTD") and pick.random() < .5 and not dtype.startswith("complex"):
        made["predictor"] = pick.choice([2, 3] if dtype in ("float32", "float64") else [2] if dtype != "float16" else [1])
    if count in (2, 4) and pick.random() < .6:
        made |= {"alpha": pick.choice(["YES", "PREMULTIPLIED"]), "photometric": "RGB" if count == 4 else "MINISBLACK"}
    return made, bits


def write(path, seed):
    """Writes a file. Returns None if GDAL cannot write it."""
    import rasterio
    pick, rng = random.Random(seed), np.random.default_rng(seed)
    dtype = pick.choice(TYPES)
    made, bits = options(pick, dtype)
    shape = (made["count"], pick.choice([1, 15, 33, 40]), pick.choice([1, 17, 32, 50]))
    data = values(rng, dtype, shape, bits)
    if made.get("alpha"):
        top = 255 if dtype == "uint8" else 1
        data[-1] = pick.choice([top, data[-1], np.where(rng.random(shape[1:]) < .5, top, 0)])
    with rasterio.open(path, "w", driver="GTiff", width=shape[2], height=shape[1], dtype=dtype, **made) as file:
        file.write(data)
        describe(file, pick, dtype)
        if pick.random() < .2:
            file.write_mask(rng.random(shape[1:]) < .5)
    if pick.random() < .4 and min(shape[1:]) > 1 and not dtype.startswith("complex"):
        with rasterio.open(path, "r+") as file:
            file.build_overviews([2], rasterio.enums.Resampling.nearest)
    return {"seed": seed, "dtype": dtype, "shape": shape, **made}


def describe(file, pick, dtype):
    """Sets nodata, scales and offsets, units, descriptions, and metadata items of the dataset and of bands."""
    if pick.random() < .4 and not dtype.startswith("complex"):
        file.nodata = pick.choice([0, 1, 7] + ([float("nan"), -1024] if "float" in dtype else []))
    if pick.random() < .3:
        file.scales = pick.choice([[.5] * file.count, [.5 + i for i in range(file.count)], [1] * file.count])
        file.offsets = [pick.choice([0, 3.25])] * file.count
    if pick.random() < .3:
        file.units = ["m"] * file.count
    if pick.random() < .3:
        file.descriptions = tuple(f"band {i}" for i in range(file.count))
    if pick.random() < .4:
        file.update_tags(A="of all", B="b")
        file.update_tags(pick.randint(1, file.count), A="of one band", C="c")


def images(path):
    """Reads each image with GDAL, as {group: content}: those of the main chain in order."""
    import rasterio, tifffile
    with tifffile.TiffFile(path) as tif:
        count = len(tif.pages)
    found = {}
    for i in range(count):
        name = f"GTIFF_DIR:{i + 1}:{path}" if count > 1 else path
        with rasterio.open(name) as file:
            found["" if i == 0 else str(i)] = file.read()
    return found


def same(truth, got):
    """Compares values except for the position of bands and the byte order. A mask of one bit is 0 and 1 here, 0 and 255 in GDAL."""
    for data in (got, np.moveaxis(got, -1, 0)):
        if data.shape == truth.shape and data.dtype.newbyteorder("=") == truth.dtype:
            problem = clients.same_values(truth, data)
            if not problem or not clients.same_values(truth, data * np.uint8(255) if data.dtype == np.uint8 else data):
                return None
    return f"{got.dtype} {got.shape} {got.ravel()[:6]}, expected {truth.dtype} {truth.shape} {truth.ravel()[:6]}"


@pytest.mark.parametrize("seed", SEEDS)
def test_what_gdal_writes_reads_as_gdal_reads_it(tmp_path, fmt, seed):
    problems = []
    for number in range(EACH):
        path = tmp_path / "random.tif"
        path.unlink(missing_ok=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = write(path, seed * EACH + number)
            truth = images(path)
            problems += [f"{made}: {problem}" for problem in [*compare(path, fmt, truth), *compare_attributes(path, fmt, made)]]
    clients.report(problems)


def compare(path, fmt, truth):
    import zarr
    run = clients.virtualize(path, "--format", fmt)
    if run.status:
        return [] if "nodata" in run.stderr or EXPECTED.search(run.stderr) else [run.stderr]
    store, kinds, reported = clients.open_store(run.references), nodes(run.references, FORMATS[fmt]), dict(run.codes)
    problems = []
    for group, data in truth.items():
        name = f"{group}/band_data" if group else "band_data"
        if kinds.get(name) != "array":
            problems += [] if "/" + name in reported else [f"{name} is missing without a diagnostic"]
            continue
        try:
            got = zarr.open_array(store, path=name, mode="r", zarr_format=FORMATS[fmt])[...]
        except Exception as error:  # noqa: BLE001
            problems.append(f"{name}: {type(error).__name__}: {error}")
            continue
        problems += [f"{name}: {problem}" for problem in [same(data, got)] if problem]
    return problems


EXPECTED = __import__("re").compile(r"readers differ in how they undo it")


def compare_attributes(path, fmt, made):
    """Returns scales, offsets, units, descriptions, nodata and metadata items according to rioxarray."""
    import rasterio
    run = clients.virtualize(path, "--format", fmt)
    if run.status:
        return []
    ds = clients.open_dataset(run.references, FORMATS[fmt])
    attrs, problems = ds["band_data"].attrs, []
    with rasterio.open(path) as file:
        scales, offsets, count = list(file.scales), list(file.offsets), file.count
        uniform = len(set(scales)) == 1 and len(set(offsets)) == 1
        wanted = {
            "scale_factor": scales[0] if uniform and (scales[0], offsets[0]) != (1, 0) else None,
            "add_offset": offsets[0] if uniform and (scales[0], offsets[0]) != (1, 0) else None,
            "scales": None if uniform else scales,
            "offsets": None if uniform else offsets,
            "units": [u or "" for u in file.units] if any(file.units) else None,
            "long_name": [d or "" for d in file.descriptions] if any(file.descriptions) else None,
            "_FillValue": file.nodata,
        }
        for name in ("units", "long_name"):
            if wanted[name] and count == 1:
                wanted[name] = wanted[name][0]
        tags, by_band = file.tags(), {str(band): file.tags(band) for band in file.indexes}
    for name, value in wanted.items():
        if name == "_FillValue" and isinstance(attrs.get(name), str) or made["dtype"].startswith("complex"):
            continue
        got = attrs.get(name)
        if json.dumps(clients.plain(got)) != json.dumps(clients.plain(value)) and not (np.size(got) == 1 and got is not None and value is not None and float(got) == float(value)):
            problems.append(f"{name} is {got!r}, expected {value!r}")
    items = {name: value for name, value in tags.items() if name in "AB"}
    for band, tags in by_band.items():
        for name in {"A", "C"} & tags.keys():
            if name in items or count > 1:
                items.setdefault(f"{name}_by_band" if name in items else name, {})[band] = tags[name]
            else:
                items[name] = tags[name]
    for name, value in items.items():
        if attrs.get(name) != value:
            problems.append(f"item {name} is {attrs.get(name)!r}, expected {value!r}")
    return problems


@pytest.mark.parametrize("endianness", ["LITTLE", "BIG"])
def test_integers_of_every_width(tmp_path, fmt, endianness):
    """1 to 32 bits, uncompressed and compressed, in strips with a short last one, and in tiles."""
    import rasterio
    problems, path = [], tmp_path / "bits.tif"
    for bits in range(1, 33) if "RANDOM_TIFFS" in os.environ else (1, 4, 7, 12, 16, 17, 23, 24, 25, 32):
        dtype = "uint8" if bits <= 8 else "uint16" if bits <= 16 else "uint32"
        data = np.random.default_rng(bits).integers(0, 2 ** bits - 1, (2, 37, 21), dtype="uint64", endpoint=True).astype(dtype)
        for more in ({"blockysize": 16}, {"compress": "DEFLATE", "tiled": True, "blockxsize": 16, "blockysize": 16, "interleave": "pixel"}):
            with rasterio.open(path, "w", driver="GTiff", width=21, height=37, count=2, dtype=dtype, nbits=bits, endianness=endianness, **more) as file:
                file.write(data)
            problems += [f"{bits} bits {more}: {problem}" for problem in compare(path, fmt, {"": data})]
    clients.report(problems)


@pytest.mark.parametrize("tag, value", [("ExtraSamples", 3), ("Predictor", 0), ("BitsPerSample", None)])
def test_damaged_tags_that_libtiff_refuses_are_refused(tmp_path, fmt, tag, value):
    import struct, tifffile, rasterio
    path, data = tmp_path / "damaged.tif", np.arange(16 * 16 * 4, dtype="u1").reshape(16, 16, 4)
    tifffile.imwrite(path, data, photometric="rgb", extrasamples=[2], compression="zlib", predictor=True, metadata=None)
    raw = bytearray(path.read_bytes())
    with tifffile.TiffFile(path) as tif:
        at = tif.pages[0].tags[tag].offset
    if value is None:
        raw[at + 4:at + 12] = struct.pack("<IHH", 2, 8, 8)
    else:
        raw[at + 8:at + 10] = struct.pack("<H", value)
    path.write_bytes(raw)
    with pytest.raises(rasterio.errors.RasterioError), rasterio.open(path) as file:
        file.read()
    run = clients.virtualize(path, "--format", fmt)
    assert run.status == 1 and run.stdout == b"" and tag.lower() in run.stderr.lower(), run.stderr


@pytest.mark.parametrize("dtype, text", [("float32", "-1.79e308"), ("float32", "1e40"), ("float64", "1e400"), ("float64", "-1e400")])
def test_nodata_beyond_the_largest_float_is_infinity(tmp_path, fmt, dtype, text):
    import rasterio, tifffile
    data = np.array([[1, np.inf], [-np.inf, 2]], dtype)
    tifffile.imwrite(tmp_path / "n.tif", data, extratags=[(42113, 2, 0, text, True)], metadata=None)
    with rasterio.open(tmp_path / "n.tif") as file:
        expected = file.nodata
    assert np.isinf(expected)
    run = clients.virtualize(tmp_path / "n.tif", "--format", fmt)
    ds = clients.open_dataset(run.references, FORMATS[fmt])
    got = clients.decoded(ds, "band_data", True).values.squeeze()
    assert clients.same_values(np.where(data == expected, np.nan, data), got) is None
