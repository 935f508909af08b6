"""Reads TIFF files with GDAL, through its C functions: rasterio takes 50 times as long to open a small file.

The image of each directory is `band_data` in the group that docs/semantics-tiff.md names (I1), as `band, y, x`."""
import ctypes, glob, struct
from ctypes import POINTER, c_char_p, c_int, c_uint, c_uint64, c_void_p

import numpy as np
import rasterio

from oracle import MOST_ARRAYS, MOST_BYTES, array, failed, serve, uncompared

PATH = b"/vsimem/fuzz.tif"
# Types of GDAL: as they are read, and as they are shown. Complex integers become complex numbers (docs/semantics-tiff.md, C1).
TYPES = {
    1: ("u1",), 2: ("u2",), 3: ("i2",), 4: ("u4",), 5: ("i4",), 6: ("f4",), 7: ("f8",), 8: ("(2,)i2", "c8"), 9: ("(2,)i4", "c16"),
    10: ("c8",), 11: ("c16",), 12: ("u8",), 13: ("i8",), 14: ("i1",), 15: ("f2",),
}


def functions():
    """Returns the functions of the GDAL that rasterio contains."""
    library = ctypes.CDLL(glob.glob(f"{rasterio.__path__[0]}.libs/libgdal*")[0])
    library.GDALAllRegister()
    library.CPLPushErrorHandler(library.CPLQuietErrorHandler)
    names = {
        "VSIFileFromMemBuffer": (c_void_p, c_char_p, c_char_p, c_uint64, c_int), "VSIFCloseL": (c_int, c_void_p), "VSIUnlink": (c_int, c_char_p),
        "GDALOpenEx": (c_void_p, c_char_p, c_uint, POINTER(c_char_p), c_void_p, c_void_p), "GDALClose": (c_int, c_void_p),
        "GDALGetRasterXSize": (c_int, c_void_p), "GDALGetRasterYSize": (c_int, c_void_p), "GDALGetRasterCount": (c_int, c_void_p),
        "GDALGetRasterBand": (c_void_p, c_void_p, c_int), "GDALGetRasterDataType": (c_int, c_void_p),
        "GDALRasterIO": (c_int, c_void_p, c_int, c_int, c_int, c_int, c_int, c_void_p, c_int, c_int, c_int, c_int, c_int),
        "CPLErrorReset": (None,), "CPLGetLastErrorMsg": (c_char_p,), "CPLGetLastErrorType": (c_int,),
    }
    for name, (result, *arguments) in names.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


GDAL = functions()
DRIVERS = (c_char_p * 2)(b"GTiff", None)


def read(file, _paths=()):
    found = directories(file)
    GDAL.VSIFCloseL(GDAL.VSIFileFromMemBuffer(PATH, file, len(file), 0))
    try:
        return [image(path, offset) for path, offset in found]
    finally:
        GDAL.VSIUnlink(PATH)


def image(path, offset):
    group = "" if path == (0,) else "/".join(map(str, path)) + "/"
    name = PATH if path == (0,) else b"GTIFF_DIR:off:%d:%s" % (offset, PATH)
    GDAL.CPLErrorReset()
    dataset = GDAL.GDALOpenEx(name, 2, DRIVERS, None, None)
    try:
        if not dataset:
            raise OSError("not opened: " + message())
        return values(group + "band_data", dataset)
    except Exception as error:  # noqa: BLE001
        return failed(group + "band_data", error)
    finally:
        if dataset:
            GDAL.GDALClose(dataset)


def values(path, dataset):
    width, height, count = GDAL.GDALGetRasterXSize(dataset), GDAL.GDALGetRasterYSize(dataset), GDAL.GDALGetRasterCount(dataset)
    code = GDAL.GDALGetRasterDataType(GDAL.GDALGetRasterBand(dataset, 1))
    stored, *shown = TYPES[code]
    stored = np.dtype(stored)
    if width * height * count * stored.itemsize > MOST_BYTES:
        return uncompared(path, (count, height, width), "size")
    data = np.empty((count, height, width), stored)
    for band in range(count):
        handle = GDAL.GDALGetRasterBand(dataset, band + 1)
        if GDAL.GDALRasterIO(handle, 0, 0, 0, width, height, data[band].ctypes.data, width, height, code, 0, 0):
            raise OSError(message())
    if shown:
        data = (data[..., 0] + 1j * data[..., 1]).astype(shown[0])
    return array(path, data)


def message():
    return GDAL.CPLGetLastErrorMsg().decode("utf8", "replace")


def directories(file):
    """Returns path and offset of each directory: those of the main chain, and their SubIFDs level by level."""
    order = {b"II": "<", b"MM": ">"}[file[:2]]
    is_big = struct.unpack_from(order + "H", file, 2)[0] == 43
    (offset,) = struct.unpack_from(order + ("Q" if is_big else "I"), file, 8 if is_big else 4)
    level, seen = [], set()
    while offset and offset not in seen and len(level) <= MOST_ARRAYS:
        seen.add(offset)
        below, following = directory(file, order, is_big, offset)
        level.append(((len(level),), offset, below))
        offset = following
    found = []
    while level and len(found) <= MOST_ARRAYS:
        found += [(path, offset) for path, offset, _ in level]
        links = [((*path, index), offset) for path, _, below in level for index, offset in enumerate(below) if offset]
        links = [(path, offset) for path, offset in links if not (offset in seen or seen.add(offset))]
        level = [(path, offset, directory(file, order, is_big, offset)[0]) for path, offset in links]
    return found


def directory(file, order, is_big, offset):
    """Returns the offsets of the SubIFDs, and of the next directory."""
    head, entry, number = ("Q", "HHQ8s", "Q") if is_big else ("H", "HHI4s", "I")
    below = None
    try:
        (count,) = struct.unpack_from(order + head, file, offset)
        size = struct.calcsize("<" + entry)
        start = offset + struct.calcsize("<" + head)
        for i in range(min(count, len(file) // size)):
            tag, kind, length, inline = struct.unpack_from(order + entry, file, start + i * size)
            if tag == 330 and below is None:  # of two tags, libtiff reads the first
                is_offsets = kind in (4, 13, 16, 18)
                below = numbers(file, order, "I" if kind in (4, 13) else "Q", length, inline, number) if is_offsets else ()
        return below or (), struct.unpack_from(order + number, file, start + count * size)[0]
    except (struct.error, OverflowError):
        return below or (), 0


def numbers(file, order, kind, length, inline, number):
    form = f"{order}{min(length, MOST_ARRAYS)}{kind}"
    if struct.calcsize(form) <= len(inline):
        return struct.unpack_from(form, inline)
    try:
        return struct.unpack_from(form, file, *struct.unpack(order + number, inline))
    except (struct.error, OverflowError):  # beyond the end of the file
        return ()


if __name__ == "__main__":
    serve(read)
