"""Writes small TIFF files of every compression and layout, as seeds of the differential target: tiff.py FOLDER."""
import itertools, pathlib, random, sys, warnings
import numpy as np, rasterio, tifffile
warnings.simplefilter("ignore")
out = pathlib.Path(sys.argv[1]); out.mkdir(exist_ok=True)
rng = np.random.default_rng(1); pick = random.Random(1)

def data(dtype, shape):
    d = np.dtype(dtype)
    if d.kind in "ui":
        x = rng.integers(0, 40, shape).astype(d)
        x[..., :4, :] = 7
        return x
    if d.kind == "c":
        return (rng.integers(-9, 9, shape) + 1j * rng.integers(-9, 9, shape)).astype(d)
    return np.round(rng.normal(size=shape) * 4, 1).astype(d)

def gdal(name, dtype, shape=(1, 20, 18), nodata=None, scale=False, over=False, mask=False, **options):
    path = out / f"gdal_{name}.tif"
    path.unlink(missing_ok=True)
    try:
        with rasterio.open(path, "w", driver="GTiff", count=shape[0], height=shape[1], width=shape[2], dtype=dtype, nodata=nodata, **options) as f:
            f.write(data("complex64" if dtype == "complex_int16" else dtype, shape))
            if scale: f.scales = [.5] * shape[0]; f.offsets = [1.] * shape[0]; f.update_tags(A="b"); f.descriptions = ["x"] * shape[0]
            if mask: f.write_mask(rng.random(shape[1:]) < .5)
        if over:
            with rasterio.open(path, "r+") as f: f.build_overviews([2], rasterio.enums.Resampling.nearest)
    except Exception as e:
        print(name, e); path.unlink(missing_ok=True)

tile = dict(tiled=True, blockxsize=16, blockysize=16)
for c in ["none", "lzw", "deflate", "zstd", "lzma", "packbits", "lerc", "lerc_deflate", "lerc_zstd", "jpeg", "webp", "ccittfax4", "ccittfax3", "ccittrle", "jxl"]:
    for i, (layout, end, inter) in enumerate(itertools.product([tile, dict(blockysize=7)], ["little", "big"], ["pixel", "band"])):
        dtype, shape = "uint16", (2, 20, 18)
        o = dict(compress=c, endianness=end, interleave=inter, bigtiff="YES" if i % 3 == 0 else "NO", **layout)
        if c in ("jpeg", "webp"): dtype, shape = "uint8", (3, 20, 18); o |= dict(interleave="pixel", webp_lossless=True)
        if c.startswith("ccitt"): dtype, shape = "uint8", (1, 20, 18); o |= dict(nbits=1)
        if c == "jpeg": o |= dict(photometric=["ycbcr", "rgb"][i % 2], blockysize=16 if "tiled" in layout else 8)
        if c.startswith("lerc"): dtype = ["float32", "uint8", "int16", "float64"][i % 4]
        gdal(f"{c}_{i}", dtype, shape, **o)
for c, p, d in itertools.product(["lzw", "deflate", "zstd"], [2, 3], ["uint8", "int16", "uint32", "uint64", "float32", "float64"]):
    if p == 3 and not d.startswith("f"): continue
    gdal(f"pred{p}_{c}_{d}", d, (pick.choice([1, 3]), 9, 11), compress=c, predictor=p, endianness=pick.choice(["little", "big"]), interleave=pick.choice(["pixel", "band"]), **pick.choice([tile, dict(blockysize=4)]))
for d in ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "complex_int16", "complex64", "complex128"]:
    for end in ["little", "big"]:
        gdal(f"type_{d}_{end}", d, (2, 5, 7), endianness=end, interleave="pixel")
for b in [1, 2, 3, 4, 5, 6, 7, 9, 10, 12, 13, 15, 17, 20, 23, 24, 25, 31]:
    gdal(f"bits_{b}", "uint8" if b < 9 else "uint16" if b < 17 else "uint32", (pick.choice([1, 2]), 9, 11), nbits=b, compress=pick.choice(["none", "deflate", "packbits", "lzw"]), endianness=pick.choice(["little", "big"]), interleave=pick.choice(["pixel", "band"]), **pick.choice([tile, dict(blockysize=4)]))
for b in [16, 24]:
    gdal(f"floatbits_{b}", "float32", (1, 9, 11), nbits=b, compress="deflate")
gdal("nodata", "int16", nodata=-5, scale=True); gdal("nodata_f", "float32", nodata=float("nan"), compress="deflate")
gdal("over", "uint8", over=True, **tile); gdal("mask", "uint8", mask=True, over=True)
gdal("sparse", "uint8", sparse_ok=True, nodata=3, **tile)
gdal("alpha", "uint8", (4, 9, 9), photometric="RGB", alpha="YES"); gdal("alpha_lerc", "uint8", (2, 9, 9), alpha="YES", compress="lerc")
gdal("cog_geo", "uint8", crs="EPSG:32633", transform=rasterio.transform.from_origin(500000, 4e6, 10, 10), **tile)
for name, kw in {
    "jpeg2k": dict(compression="jpeg2000"), "jxr": dict(compression="jpegxr"), "png": dict(compression="png"), "packints": dict(compression="zlib"),
    "sub": dict(subifds=2), "planar_tile": dict(planarconfig="separate", tile=(16, 16)), "vol": dict(volumetric=True, tile=(1, 16, 16)),
    "fill2": dict(extratags=[(266, 3, 1, 2, True)]),
}.items():
    path = out / f"tf_{name}.tif"
    try:
        with tifffile.TiffWriter(path, byteorder=pick.choice("<>"), bigtiff=pick.random() < .3) as t:
            shape = (2, 18, 17) if name in ("vol", "planar_tile") else (18, 17)
            t.write(data("uint8", shape), metadata=None, **kw)
            for _ in range(kw.get("subifds", 0)): t.write(data("uint8", (9, 8)), subfiletype=1, metadata=None)
            if name == "fill2": t.write(data("uint8", (9, 8)), metadata=None)
    except Exception as e: print(name, e); path.unlink(missing_ok=True)
tifffile.imwrite(out / "ome.ome.tif", data("uint8", (2, 3, 9, 8)), photometric="minisblack", metadata={"axes": "TCYX"})
tifffile.imwrite(out / "pages.tif", data("uint16", (3, 9, 8)), photometric="minisblack", metadata=None, compression="zlib", rowsperstrip=4)
