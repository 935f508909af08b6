"""A file and a command for each code: what makes `virtualize` print it. Each function writes into `folder` and returns the arguments."""
import http.server, json, shutil, subprocess, threading

import clients
import h5py
import netCDF4
import numpy as np
import tifffile

HDF5, TIFF = clients.FIXTURES / "hdf5", clients.FIXTURES / "tiff"


def fixture(path, *options, command=("inspect",)):
    """Returns a trigger that runs the command on a copy of a fixture."""

    def write(folder):
        shutil.copy(path, folder)
        return [*command, path.name, *options]

    return write


def run(folder, *arguments):
    """Runs the command, which must succeed."""
    subprocess.run([clients.BINARY, *arguments], cwd=folder, check=True, capture_output=True)


def hdf5(write, *options, command=("inspect",), name="granule.nc"):
    """Returns a trigger whose file `write` fills."""

    def make(folder):
        with h5py.File(folder / name, "w") as file:
            write(file)
        return [*command, name, *options]

    return make


def short_variable(*options):
    """A variable that is shorter than its unlimited dimension."""

    def make(folder):
        with netCDF4.Dataset(folder / "granule.nc", "w") as file:
            file.createDimension("time", None)
            file.createVariable("time", "f8", ("time",), chunksizes=[4])[:] = range(6)
            file.createVariable("wind", "f4", ("time",), chunksizes=[4], zlib=True)[:] = range(3)
        return ["inspect", "granule.nc", *options]

    return make


def masked_by_sidecar(folder):
    """A TIFF with a mask in a file beside it."""
    tifffile.imwrite(folder / "scene.tif", np.zeros((4, 4), "u1"))
    tifffile.imwrite(folder / "scene.tif.msk", np.zeros((4, 4), "u1"))
    return ["inspect", "scene.tif"]


def geotiff(keys, *options):
    """A GeoTIFF with GeoKeys."""

    def make(folder):
        directory = [1, 1, 1, len(keys)] + [n for key, value in keys.items() for n in (key, 0, 1, value)]
        tags = [(34735, "H", len(directory), directory, True)]
        tifffile.imwrite(folder / "scene.tif", np.zeros((4, 4), "u1"), extratags=tags, metadata=None)
        return ["inspect", "scene.tif", *options]

    return make


def patched(path, replacements, *options, size=None, name=None):
    """A copy of a fixture with other bytes at the given offsets, cut to a size."""

    def make(folder):
        data = bytearray(path.read_bytes())
        for offset, new in replacements.items():
            data[offset : offset + len(new)] = new
        (folder / (name or path.name)).write_bytes(data[:size])
        return ["inspect", name or path.name, *options]

    return make


def reference_set(refs, *arguments, files=(), where="refs.json"):
    """A set of kerchunk references."""

    def make(folder):
        (folder / where).parent.mkdir(exist_ok=True)
        for name in files:
            (folder / name).write_bytes(bytes(64))
        (folder / where).write_text(json.dumps({"version": 1, "refs": refs}))
        return [*arguments]

    return make


def unreadable_tag(path, number):
    """A copy of a fixture in which the type of a tag does not exist."""
    with tifffile.TiffFile(path) as file:
        return patched(path, {file.pages[0].tags[number].offset + 2: b"\x63"})


GROUP = {".zgroup": '{"zarr_format":2}'}
ARRAY = {"a/.zarray": json.dumps({"zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "<i2", "compressor": None, "filters": None, "fill_value": 0, "order": "C"})}


def odd_attribute(file):
    file["x"] = np.arange(3)
    h5py.h5a.create(file["x"].id, b"made", h5py.h5t.UNIX_D32LE, h5py.h5s.create(h5py.h5s.SCALAR))


def missing_value_infinite(file):
    data = file.create_dataset("flux", data=np.arange(4, dtype="f4"))
    data.attrs["missing_value"] = np.float32("inf")


def backslash(file):
    file["a\\b"] = np.arange(3)


def collision(file):
    file["a\\b"] = np.arange(3)
    file["a%5Cb"] = np.arange(3)


def dot(file):
    file["zarr.json"] = np.arange(3)


def region(file):
    data = file.create_dataset("values", data=np.arange(9))
    file["part"] = np.array([data.regionref[2:5]], h5py.regionref_dtype)


def sequences(file):
    data = file.create_dataset("profile", (2,), h5py.vlen_dtype("f4"))
    data[0] = [1, 2, 3]


def virtual(file):
    layout = h5py.VirtualLayout((4,), "i4")
    layout[:] = h5py.VirtualSource("absent.nc", "x", (4,))
    file.create_virtual_dataset("x", layout, fillvalue=-1)


def masked(file):
    data = file.create_dataset("x", (8,), "i2", chunks=(4,), fillvalue=-1)
    data[:4] = 1
    data.attrs["_FillValue"] = np.int16(7)


def sequences(file):
    file.create_dataset("profile", (2,), h5py.vlen_dtype("f4"))
    file["x"] = np.arange(3)


def narrow_packing(file):
    data = file.create_dataset("t2m", data=np.arange(4, dtype="i2"))
    data.attrs["scale_factor"] = np.float32(0.01)


def flip(path, offset):
    data = bytearray(path.read_bytes())
    data[offset] ^= 0xFF
    path.write_bytes(data)


def damaged_chunk(folder):
    """The last chunk of a short variable has to be made anew, and cannot be decoded."""
    arguments = short_variable()(folder)
    with h5py.File(folder / "granule.nc") as file:
        offset = file["wind"].id.get_chunk_info(0).byte_offset
    flip(folder / "granule.nc", offset + 2)
    return arguments


def damaged_attribute(folder):
    """The version of an attribute message is not one that exists."""
    with h5py.File(folder / "granule.nc", "w", libver="earliest") as file:
        file["x"] = np.arange(3)
        file["x"].attrs["units"] = np.int32(77)
    at = (folder / "granule.nc").read_bytes().index(b"units\0") - 8
    flip(folder / "granule.nc", at)
    return ["inspect", "granule.nc"]


def other_axes(folder):
    """Zarr v2 has no codec that moves axes."""
    run(folder, TIFF / "chunky.tif", "-f", "zarr3-json", "-o", "scene.json")
    return ["convert", "scene.json", "-o", "scene-v2.json"]


def lerc_jpeg(folder):
    """JPEG of three samples with subsampled colours that is not declared as YCbCr."""
    rgb = np.random.default_rng(1).integers(0, 255, (32, 32, 3), "u1")
    tifffile.imwrite(folder / "scene.tif", rgb, photometric="rgb", compression="jpeg", compressionargs={"subsampling": "420"}, metadata=None, rowsperstrip=32)
    flipped = (folder / "scene.tif").read_bytes().replace(bytes([6, 1, 3, 0, 1, 0, 0, 0, 6, 0]), bytes([6, 1, 3, 0, 1, 0, 0, 0, 2, 0]))
    (folder / "scene.tif").write_bytes(flipped)
    return ["inspect", "scene.tif"]


def eos_grid(file):
    """An HDF-EOS5 grid in a projection that is not supported."""
    file["HDFEOS/GRIDS/G/Data Fields/v"] = np.zeros((2, 3))
    keys = 'GROUP=GridStructure\nGridName="G"\nXDim=3\nYDim=2\nUpperLeftPointMtrs=(0,2)\nLowerRightMtrs=(3,0)\nProjection=HE5_GCTP_CEA\n'
    file["HDFEOS INFORMATION/StructMetadata.0"] = np.bytes_(f'{keys}OBJECT=DataField_1\nDataFieldName="v"\nDimList=("YDim","XDim")\nEND')


DIAGNOSTICS = {
    "array-member-as-fields": fixture(HDF5 / "types.h5", "--option", "ragged=true"),
    "array-omitted": hdf5(sequences),
    "array-not-padded": short_variable("--option", "inline-limit=0"),
    "array-padded": short_variable(),
    "array-changed": other_axes,
    "attribute-unreadable": damaged_attribute,
    "attribute-omitted": hdf5(odd_attribute),
    "chunk-grid": fixture(TIFF / "tiles.tif", "--chunk-grid", "rectilinear"),
    "chunks-inlined": fixture(HDF5 / "fill_message_3_types.h5"),
    "datatype-omitted": fixture(HDF5 / "types.h5"),
    "dimension-renamed": short_variable("--option", "inline-limit=0"),
    "fill-value-dropped": fixture(HDF5 / "fill_message_3.h5"),
    "fill-value-masked": hdf5(masked, "--option", "inline-limit=0"),
    "hdf-eos-grid": hdf5(eos_grid),
    "inline-failed": damaged_chunk,
    "inline-limit": fixture(TIFF / "short_last_strip_deflate.tif", "--option", "inline-limit=0"),
    "inline-total": hdf5(backslash, "--inline", "1M", "--option", "inline-total=1"),
    "key-ignored": reference_set({**GROUP, **ARRAY, "a/0": ["x.bin", 0, 8], "b/c/0.0": ["x.bin", 0, 8]}, "convert", "refs.json", "-o", "out.json", files=["x.bin"]),
    "link-cycle": hdf5(lambda file: file.__setitem__("up", file["/"])),
    "link-omitted": hdf5(lambda file: file.__setitem__("x", h5py.ExternalLink("other.nc", "/x"))),
    "missing-value-as-fill-value": hdf5(missing_value_infinite),
    "missing-value-convention": fixture(HDF5 / "fill_message_3.h5", "--option", "missing-value-convention=true", "-f", "zarr3-json"),
    "missing-value-dropped": fixture(HDF5 / "fill_message_3.h5"),
    "name-changed": hdf5(backslash),
    "name-collision": hdf5(collision),
    "nodata-disagrees": fixture(TIFF / "nodata_i2.tif"),
    "nodata-adjusted": fixture(TIFF / "nodata_invalid_u1.tif"),
    "nodata-dropped": fixture(TIFF / "nodata_invalid_u1.tif"),
    "node-omitted": hdf5(dot),
    "not-unpacked": fixture(TIFF / "gdal_metadata_differs.tif", "--unpack", "-f", "zarr3-json"),
    "packing-widened": hdf5(narrow_packing),
    "ragged-array": hdf5(sequences, "--option", "ragged=true"),
    "reader-adapted": fixture(TIFF / "compression_lzw.tif", "--readable-by", "zarrs,gdal"),
    "reader-lacks": fixture(TIFF / "compression_webp.tif", "--readable-by", "zarrs,gdal"),
    "reference-as-path": hdf5(region),
    "reference-part": hdf5(region),
    "relative-url": reference_set({**GROUP, **ARRAY, "a/0": ["x.bin", 0, 8]}, "convert", "refs/refs.json", "-o", "out.json", files=["x.bin"], where="refs/refs.json"),
    "sidecar-not-used": fixture(HDF5 / "chunked.h5", "--option", "dmrpp=true"),
    "source-missing": hdf5(virtual),
    "tiff-no-such-ifd": fixture(TIFF / "pages.tif", "--option", "ifd=9"),
    "tiff-jpeg": lerc_jpeg,
    "tiff-sidecar": masked_by_sidecar,
    "tiff-stack": fixture(TIFF / "pages.tif", "--option", "stack-pages=true"),
    "tiff-chain": patched(TIFF / "pages.tif", {154: b"\xf0\xff\xff\x7f"}),
    "tiff-image": patched(TIFF / "classic_strips.tif", {}, size=500),
    "tiff-malformed": unreadable_tag(TIFF / "predictor_2_u2_zlib.tif", 317),
    "tiff-tag": patched(TIFF / "classic_strips.tif", {126: b"\xf0\xff\xff\x7f"}),
    "tiff-unsupported": patched(TIFF / "classic_strips.tif", {54: b"\x60\xea"}),
    "tiff-crs": geotiff({1024: 1, 3072: 32631, 2048: 4269}),
    "tiff-vertical-crs": geotiff({1024: 1, 3072: 32631, 4096: 4979}),
}


def step(folder, name, time, **attributes):
    """A file with one step of time."""
    with netCDF4.Dataset(folder / name, "w") as file:
        file.createDimension("time", None)
        file.createDimension("x", 4)
        clock = file.createVariable("time", "f8", ("time",))
        clock.units = "days since 2000-01-01"
        clock[:] = [time]
        wind = file.createVariable("wind", attributes.pop("type", "f4"), ("time", "x"), chunksizes=[1, 4])
        wind[:] = 1
        wind.setncatts(attributes)


BATCH = ["batch", "*.nc", "--concat-dim", "time", "-o", "year.json"]


def two_units(folder):
    step(folder, "a.nc", 0, units="m/s")
    step(folder, "b.nc", 1, units="knot")
    return BATCH


def unlike(folder):
    step(folder, "a.nc", 0)
    step(folder, "b.nc", 1, type="f8")
    return BATCH


def same_time(folder):
    """Two files of the same time."""
    step(folder, "a.nc", 0)
    step(folder, "b.nc", 0)
    return BATCH


def one_damaged(folder):
    step(folder, "a.nc", 0)
    (folder / "b.nc").write_bytes(b"no data")
    return BATCH


def finished(folder):
    step(folder, "a.nc", 0)
    step(folder, "b.nc", 1)
    run(folder, *BATCH)


def replaced(folder):
    finished(folder)
    step(folder, "b.nc", 2, long_name="replaced")
    step(folder, "c.nc", 3)
    return ["batch", "c.nc", *BATCH[2:], "--append"]


def vanished(folder):
    finished(folder)
    (folder / "b.nc").unlink()
    return BATCH


def foreign_output(folder):
    finished(folder)
    (folder / "year.json").write_text("{}")
    step(folder, "c.nc", 3)
    return [*BATCH, "--append"]


def serve(handler):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return [f"http://127.0.0.1:{server.server_port}/granule.nc"]


def served(status, headers=(), body=b""):
    """A server on loopback that gives every request the same answer."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, *arguments):
            pass

    def make(folder):
        return serve(Handler)

    return make


def text_file(folder):
    (folder / "README.nc").write_text("This is no HDF5 file.\n")
    return ["README.nc"]


def a_folder(folder):
    (folder / "data").mkdir()
    return ["data"]


def occupied(folder):
    (folder / "refs.parquet").mkdir()
    (folder / "refs.parquet" / "notes.txt").write_text("mine")
    return fixture(HDF5 / "chunked.h5", "-f", "kerchunk-parquet", "-o", "refs.parquet", command=())(folder)


def no_references(folder):
    (folder / "refs.json").write_text('{"version": 1, "refs": {"a/.zarray": "{"}}')
    return ["convert", "refs.json", "-o", "out.json"]


def not_a_journal(folder):
    (folder / "year.journal").write_text("no journal")
    return ["journal", "year.journal"]


def two_steps(folder):
    step(folder, "a.nc", 0)
    step(folder, "b.nc", 1)
    return BATCH


def missing_shard(folder):
    steps = two_steps(folder)
    run(folder, "batch", *steps[1:], "--shard", "1/2", "--journal", "1.journal")
    return [*steps, "--merge", "1.journal"]


def committed_twice(folder):
    shutil.copy(HDF5 / "chunked.h5", folder)
    arguments = ["chunked.h5", "-f", "icechunk", "-o", "year.icechunk"]
    run(folder, *arguments)
    return arguments


def damaged_time(folder):
    """A chunk of a coordinate, which is not examined before, cannot be decoded."""
    length = 160
    for name, first in (("a.nc", 0), ("b.nc", length)):
        with netCDF4.Dataset(folder / name, "w") as file:
            file.createDimension("time", None)
            file.createVariable("time", "f8", ("time",), zlib=True, chunksizes=[4])[:] = range(first, first + length)
    with h5py.File(folder / "b.nc") as file:
        offset = file["time"].id.get_chunk_info(1).byte_offset
    flip(folder / "b.nc", offset + 2)
    return BATCH


def changing(folder):
    """A server whose file is replaced after the first request."""
    with h5py.File(folder / "granule.nc", "w") as file:
        file["wind"] = np.zeros(2_000_000)
        file["time"] = np.zeros(4)
    data, seen = (folder / "granule.nc").read_bytes(), []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            seen.append(self.path)
            first, last = (self.headers.get("range") or "bytes=0-").removeprefix("bytes=").split("-")
            part = data[int(first) : int(last) + 1 if last else None]
            self.send_response(206 if len(seen) < 2 else 412)
            self.send_header("etag", f'"{len(seen)}"')
            self.send_header("content-range", f"bytes {first}-{int(first) + len(part) - 1}/{len(data)}")
            self.send_header("content-length", str(len(part)))
            self.end_headers()
            self.wfile.write(part)

        def log_message(self, *arguments):
            pass

    return [*serve(Handler), "--inline", "1000"]


ERRORS = {
    "combine": same_time,
    "failures": one_damaged,
    "file-malformed": patched(HDF5 / "superblock_2.h5", {44: bytes(4)}),
    "file-truncated": patched(HDF5 / "superblock_2.h5", {}, size=40),
    "file-unsupported": patched(HDF5 / "superblock_2.h5", {8: b"\x09"}),
    "files-replaced": replaced,
    "files-vanished": vanished,
    "format": text_file,
    "icechunk": committed_twice,
    "journal": not_a_journal,
    "listing": lambda folder: ["scan", "absent/*.nc"],
    "mismatch": two_units,
    "no-ranges": served(200, [("content-length", "99999999999")]),
    "not-a-file": a_folder,
    "output-exists": occupied,
    "output-not-in-journal": foreign_output,
    "references-invalid": no_references,
    "shards": missing_shard,
    "source-changed": changing,
    "source-denied": served(403),
    "source-not-found": lambda folder: ["absent.nc"],
    "source-unavailable": served(500),
    "strict": hdf5(backslash, "--strict", command=()),
    "url": lambda folder: ["ftp://host/granule.nc"],
    "usage": fixture(HDF5 / "chunked.h5", "-f", "kerchunk-parquet", command=()),
    "values-unreadable": damaged_time,
}
