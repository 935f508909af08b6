"""Archives that other packages wrote, and damaged ones: the writer's values, or an error that says why not."""

import functools
import json
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import numcodecs
import numpy as np
import pandas as pd
import pytest
import tifffile
import virtualize
import xarray as xr
import zarr
import zarr.codecs


BLOSC = [numcodecs.Blosc(name, 5, shuffle) for name in ("lz4", "blosclz", "zstd", "zlib") for shuffle in (-1, 0, 1, 2)]
COMPRESSORS = [
    None,
    *BLOSC,
    numcodecs.Zstd(3, checksum=True),
    numcodecs.GZip(1),
    numcodecs.Zlib(1),
    numcodecs.BZ2(1),
    numcodecs.LZMA(format=2),
    numcodecs.LZ4(),
    numcodecs.CRC32(),
    numcodecs.CRC32(location="end"),
    numcodecs.Adler32(),
    numcodecs.checksum32.CRC32C(),
    numcodecs.Fletcher32(),
    numcodecs.Shuffle(4),
]
FILTERS = [
    (numcodecs.Delta("<i4"), "<i4"),
    (numcodecs.Delta("|u1"), "|u1"),
    (numcodecs.FixedScaleOffset(10, 0.5, "<f8", "<i2"), "<f8"),
    (numcodecs.FixedScaleOffset(0.1, 7, "<f4", "<f4"), "<f4"),
    (numcodecs.Quantize(3, "<f8"), "<f8"),
    (numcodecs.BitRound(5), "<f4"),
    (numcodecs.PackBits(), "|b1"),
]


def equal(path: Path) -> None:
    """Compare arrays with zarr-python's."""
    for name, array in zarr.open_group(path, mode="r").arrays():
        found, expected = virtualize.open(path)[name][...], np.asarray(array[...])
        np.testing.assert_array_equal(found, expected, name)
        assert found.dtype.newbyteorder("=") == expected.dtype.newbyteorder("="), name


@pytest.mark.parametrize("order", ["C", "F"])
def test_codecs_of_numcodecs_in_zarr_v2(tmp_path: Path, order: str) -> None:
    rng = np.random.default_rng(0)
    root = zarr.create_group(tmp_path, zarr_format=2)
    for number, compressor in enumerate(COMPRESSORS):
        values = rng.integers(0, 99, (7, 9)).astype("<i4")
        root.create_array(f"c{number}", data=values, chunks=(3, 4), compressors=compressor, order=order)
    for number, (codec, dtype) in enumerate(FILTERS):
        values = (rng.random((7, 9)) * 99).astype(dtype)
        for name, compressor in {"zlib": numcodecs.Zlib(1), "plain": None}.items():
            codecs = {"filters": [codec], "compressors": compressor}
            root.create_array(f"f{number}{name}", data=values, chunks=(3, 4), order=order, **codecs)
    equal(tmp_path)


@pytest.mark.filterwarnings("ignore:Numcodecs codecs")
def test_codecs_in_zarr_v3(tmp_path: Path) -> None:
    import zarr.codecs.numcodecs as names

    values = np.random.default_rng(0).integers(0, 99, (7, 9)).astype("<i4")
    root = zarr.create_group(tmp_path, zarr_format=3)
    root.create_array("crc32c", data=values, chunks=(3, 4), compressors=[zarr.codecs.Crc32cCodec()])
    for name in ("LZ4", "Zlib", "BZ2", "LZMA", "GZip", "Zstd", "Blosc", "CRC32", "Adler32", "Fletcher32"):
        # The configuration is empty: these are defaults.
        root.create_array(name, data=values, chunks=(3, 4), compressors=[getattr(names, name)()])
    equal(tmp_path)


def test_a_wrong_checksum_of_a_chunk_is_an_error(tmp_path: Path) -> None:
    root = zarr.create_group(tmp_path, zarr_format=3)
    codecs = {"compressors": [zarr.codecs.Crc32cCodec()]}
    root.create_array("a", data=np.arange(4), chunks=(4,), **codecs)
    chunk = tmp_path / "a/c/0"
    chunk.write_bytes(b"\1" + chunk.read_bytes()[1:])
    with pytest.raises(virtualize.Error, match="crc32c: checksum"):
        virtualize.open(tmp_path)["a"][...]


@pytest.mark.parametrize("latest", [None, 3600])
def test_a_repository_with_the_latest_time_of_modification(tmp_path: Path, latest: int | None) -> None:
    """VirtualiZarr records the current time, by default, as the latest at which files may have been modified."""
    import datetime

    import icechunk

    source = tmp_path / "source.bin"
    source.write_bytes(np.arange(8, dtype="<i4").tobytes())
    config = icechunk.RepositoryConfig.default()
    url = f"file://{tmp_path}/"
    config.set_virtual_chunk_container(
        icechunk.VirtualChunkContainer(url, icechunk.local_filesystem_store(str(tmp_path)))
    )
    storage = icechunk.local_filesystem_storage(str(tmp_path / "repository"))
    repository = icechunk.Repository.create(storage, config)
    session = repository.writable_session("main")
    zarr.create_array(
        session.store, name="a", shape=(8,), chunks=(8,), dtype="<i4", compressors=None, fill_value=0
    )
    time = source.stat().st_mtime + (latest or 0)
    checksum = datetime.datetime.fromtimestamp(time, datetime.UTC)
    checksum = checksum if latest else checksum + datetime.timedelta(seconds=1)
    session.store.set_virtual_ref("a/c/0", f"file://{source}", offset=0, length=32, checksum=checksum)
    session.commit("a")
    np.testing.assert_array_equal(virtualize.open(tmp_path / "repository")["a"][...], np.arange(8))
    os.utime(source, (time + 9, time + 9))
    with pytest.raises(virtualize.Error, match="source.bin.*changed"):
        virtualize.open(tmp_path / "repository")["a"][...]


def parquet(folder: Path, table: pd.DataFrame) -> Path:
    """Write kerchunk's Parquet layout with one array of 4 chunks."""
    array = {"zarr_format": 2, "shape": [16], "chunks": [4], "dtype": "<i4", "compressor": None, "filters": None}
    metadata = {".zgroup": {"zarr_format": 2}, "a/.zarray": {**array, "fill_value": -1, "order": "C"}, "a/.zattrs": {}}
    (folder / "a").mkdir(parents=True)
    (folder / ".zmetadata").write_text(json.dumps({"metadata": metadata, "record_size": 4}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table.to_parquet(folder / "a/refs.0.parq", engine="fastparquet", compression="zstd")
    return folder


@pytest.mark.parametrize(
    ("columns", "rows", "reason"),
    [
        (["offset", "size"], 4, "neither a column path nor raw"),
        (["path", "size", "raw"], 4, "only one of the columns offset and size"),
        (["path", "offset", "raw"], 4, "only one of the columns offset and size"),
        (["path", "offset", "size", "raw"], 2, "2 rows, expected 4"),
        (["path", "offset", "size"], 4, None),
    ],
)
def test_parquet_files_that_are_incomplete(tmp_path: Path, columns: list[str], rows: int, reason: str | None) -> None:
    source = tmp_path / "source.bin"
    source.write_bytes(np.arange(16, dtype="<i4").tobytes())
    raw = np.array([None] * 4, object)
    table = pd.DataFrame({"path": [str(source)] * 4, "offset": [0, 16, 32, 48], "size": [16] * 4, "raw": raw})
    folder = parquet(tmp_path / "refs.parquet", table[columns].iloc[:rows])
    if reason is None:
        np.testing.assert_array_equal(virtualize.open(folder)["a"][...], np.arange(16))
        return
    with pytest.raises(virtualize.Error, match=reason):
        virtualize.open(folder)["a"][...]


def test_damaged_archives_are_named(tmp_path: Path) -> None:
    zarr.create_group(tmp_path / "damaged.zarr")
    (tmp_path / "damaged.zarr/zarr.json").write_text("{oops")
    with pytest.raises(virtualize.Error, match=r"damaged.zarr/zarr.json: key must be a string"):
        virtualize.open(tmp_path / "damaged.zarr")
    refs = {"version": 1, "refs": {".zgroup": '{"zarr_format":2}', "a/0": ["x", -1, 3]}}
    (tmp_path / "refs.json").write_text(json.dumps(refs))
    with pytest.raises(virtualize.Error, match=r"refs.json: not a set of references: a/0: invalid value: integer `-1`, expected u64"):
        virtualize.open(tmp_path / "refs.json")


def test_a_chunk_that_is_rewritten_is_an_error(tmp_path: Path) -> None:
    array = zarr.create_group(tmp_path).create_array("a", shape=(400,), chunks=(400,), dtype="i4")
    opened = virtualize.open(tmp_path, cache=0)["a"]
    assert opened[0] == 0
    array[:] = 5
    assert opened[0] == 5
    array[:] = np.random.default_rng(0).integers(0, 1 << 30, 400)
    with pytest.raises(virtualize.Error, match="a/c/0.*changed"):
        opened[0]


def test_selections_of_missing_chunks_do_not_accumulate(tmp_path: Path) -> None:
    zarr.create_group(tmp_path).create_array("a", shape=(1 << 20,), chunks=(1,), dtype="i4", fill_value=7)
    opened = virtualize.open(tmp_path)["a"]
    start = time.monotonic()
    assert all(opened[k] == 7 for k in range(5000))
    assert time.monotonic() - start < 30


def test_ctrl_c_interrupts_the_search_for_chunks(tmp_path: Path) -> None:
    import http.server

    released = threading.Event()

    class Hanging(http.server.SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            if "/c/" in self.path:
                released.wait(60)
            super().do_GET()

        def translate_path(self, path: str) -> str:
            return str(tmp_path) + path

        def log_message(self, *_: object) -> None:
            pass

    root = zarr.create_group(tmp_path)
    root.create_array("a", data=np.arange(8), chunks=(2,))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zarr.consolidate_metadata(tmp_path)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hanging)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    opened = virtualize.open(f"http://127.0.0.1:{server.server_port}/")["a"]
    threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        opened[...]
    assert time.monotonic() - start < 20
    released.set()
    server.shutdown()
    server.server_close()


@pytest.mark.filterwarnings("ignore::virtualize.VirtualizeWarning", "ignore::xarray.SerializationWarning")
@pytest.mark.parametrize("dtype", ["f4", "i2", "u1"])
@pytest.mark.parametrize("attribute", [None, 0, 7, [7]])
def test_masks_are_those_of_xarray(tmp_path: Path, dtype: str, attribute: object) -> None:
    root = zarr.create_group(tmp_path, zarr_format=2)
    for fill_value in (None, 0, 5):
        for name, packing in {"plain": {}, "packed": {"scale_factor": 0.5}}.items():
            sentinel = {} if attribute is None else {"_FillValue": attribute}
            attributes = {"_ARRAY_DIMENSIONS": ["x"], **sentinel, **packing}
            array = root.create_array(
                f"{name}{fill_value}", shape=(6,), chunks=(2,), dtype=dtype, fill_value=fill_value, attributes=attributes
            )
            array[:4] = np.array([0, 1, 5, 7]).astype(dtype)
    expected = xr.open_dataset(tmp_path, engine="zarr", consolidated=False)
    for name, found in virtualize.open_dataset(tmp_path).variables.items():
        np.testing.assert_array_equal(found, expected[name], str(name))


def test_xarray_reads_what_xarray_wrote(tmp_path: Path) -> None:
    encoding = {"p": {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -9, "chunks": (2, 3)}}
    data = {"p": (("y", "x"), np.array([[1.5, np.nan, 3], [4, 5, 6]])), "n": ("x", np.array(["a", "bb", ""], object))}
    expected = xr.Dataset(data, {"x": [1.0, 2.0, 3.0]}, {"title": "t"})
    for zarr_format in (2, 3):
        path = tmp_path / f"{zarr_format}.zarr"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected.to_zarr(path, zarr_format=zarr_format, encoding=encoding)
            xr.testing.assert_identical(virtualize.open_dataset(path), xr.open_zarr(path).load())


NUMPY_TYPES = ["U1", "U7", "M8[ns]", "M8[10s]", "M8[Y]", "m8[us]", "m8[7D]", [("t", "U2"), ("n", "i2"), ("m", "M8[s]")]]


def of_type(rng: np.random.Generator, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Return random elements, with those that are special: long text, letters of all planes, NaT."""
    if dtype.fields:
        values = np.zeros(shape, dtype)
        for name, (kind, *_) in dtype.fields.items():
            values[name] = of_type(rng, kind, shape)
        return values
    if dtype.kind == "U":
        return rng.choice(["", "a", "é", "日本語", "\U0010ffff", "more than seven"], shape).astype(dtype)
    numbers = rng.integers(-(2**15), 2**15, shape)
    if dtype.kind in "mM":
        numbers = np.where(rng.random(shape) < 0.2, np.iinfo("i8").min, numbers)
    return numbers.astype("i8").astype(dtype)


def fill_of(rng: np.random.Generator, dtype: np.dtype) -> object:
    if dtype.fields:
        return np.void(0, dtype) if rng.random() < 0.5 else of_type(rng, dtype, (1,))[0]
    return rng.choice(["", "zß", "too long for it"]) if dtype.kind == "U" else int(rng.choice([0, 5, np.iinfo("i8").min]))


def selection_of(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[object, ...]:
    def axis(size: int) -> object:
        start, stop = sorted(int(n) for n in rng.integers(0, size + 1, 2))
        return int(rng.integers(size)) if rng.random() < 0.3 else slice(start, stop, int(rng.integers(1, 3)))

    return tuple(axis(size) for size in shape)


@pytest.mark.filterwarnings("ignore::virtualize.VirtualizeWarning", "ignore:The data type")
@pytest.mark.parametrize("seed", range(int(os.environ.get("RANDOM_TYPES", "60"))))
def test_text_and_times_are_those_of_zarr_python(tmp_path: Path, seed: int) -> None:
    """RANDOM_TYPES=1000 tests more arrays. Half of them are at the root of their store."""
    rng = np.random.default_rng(seed)
    zarr_format, order, at_root = int(rng.choice([2, 3])), str(rng.choice(["<", ">"])), bool(rng.random() < 0.5)
    dtype = np.dtype(NUMPY_TYPES[rng.integers(len(NUMPY_TYPES))])
    shape = tuple(int(n) for n in rng.integers(1, 9, rng.integers(0, 4)))
    chunks = tuple(int(rng.integers(1, size + 1)) for size in shape)
    options: dict[str, object] = {}
    if zarr_format == 2:
        options |= {"order": str(rng.choice(["C", "F"])), "chunk_key_encoding": {"name": "v2", "separator": str(rng.choice([".", "/"]))}}
        # Blosc and Zstandard of numcodecs refuse times.
        compressors = [None, numcodecs.Zlib(1), numcodecs.BZ2(1), *(BLOSC if dtype.kind == "U" else [])]
        options["compressors"] = compressors[rng.integers(len(compressors))]
        dtype = dtype.newbyteorder(order)
    else:
        options["serializer"] = zarr.codecs.BytesCodec(endian="little" if order == "<" else "big")
        options["compressors"] = [None, [zarr.codecs.ZstdCodec()], [zarr.codecs.GzipCodec()]][rng.integers(3)]
        if shape and rng.random() < 0.5:
            options["shards"] = tuple(size * int(rng.integers(1, 3)) for size in chunks)
    name = None if at_root else "g/data"
    array = zarr.create_array(
        tmp_path / "store.zarr", name=name, shape=shape, chunks=chunks, dtype=dtype, zarr_format=zarr_format,
        fill_value=fill_of(rng, dtype), **options,
    )
    written = tuple(slice(0, int(rng.integers(0, size + 1))) for size in shape)
    array[written] = of_type(rng, dtype, shape)[written]
    document = tmp_path / "store.zarr" / (name or "") / ".zarray"
    if zarr_format == 2 and not dtype.fields and rng.random() < 0.3:
        document.write_text(json.dumps(json.loads(document.read_text()) | {"fill_value": None}))
        array = zarr.open_array(document.parent)
    native = dtype.newbyteorder("<")
    virtualize.convert(tmp_path / "store.zarr", tmp_path / "refs.json", format="kerchunk-json" if zarr_format == 2 else "zarr3-json")
    for location in (tmp_path / "store.zarr", tmp_path / "refs.json"):
        opened = virtualize.open(location)["data" if at_root else "g/data"]
        assert opened.dtype == native
        for selection in (..., *(selection_of(rng, shape) for _ in range(4))):
            found, expected = (np.asarray(one[selection], native) for one in (opened, array))
            assert found.tobytes() == expected.tobytes(), (location.name, selection, found, expected)


@pytest.mark.filterwarnings("ignore::virtualize.VirtualizeWarning", "ignore:The data type", "ignore:Consolidated metadata")
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("dtype", [">U5", ">M8[ns]", "<m8[10s]"])
def test_text_and_times_in_all_formats(tmp_path: Path, zarr_format: int, dtype: str) -> None:
    """One chunk is missing, which reads as the fill value."""
    root = zarr.create_group(tmp_path / "a.zarr", zarr_format=zarr_format)
    fill_value = "ß" if "U" in dtype else 7
    names = {"attributes": {"_ARRAY_DIMENSIONS": ["x"]}} if zarr_format == 2 else {"dimension_names": ["x"]}
    array = root.create_array("a", shape=(6,), chunks=(2,), dtype=np.dtype(dtype), fill_value=fill_value, **names)
    array[:4] = of_type(np.random.default_rng(1), np.dtype(dtype), (4,))
    expected = array[...].astype(np.dtype(dtype).newbyteorder("<"))
    for name, format in {"a.json": "kerchunk-json", "a.parquet": "kerchunk-parquet", "3.json": "zarr3-json", "ice": "icechunk"}.items():
        virtualize.convert(tmp_path / "a.zarr", tmp_path / name, format=format)
    virtualize.convert(tmp_path / "a.zarr", tmp_path / "folder.zarr", format="zarr3")
    for location in tmp_path.iterdir():
        assert virtualize.validate(location, full=True).valid, location
        assert virtualize.diff(tmp_path / "a.zarr", location) == [], location
        opened = virtualize.open(location)["a"]
        assert opened[...].tobytes() == expected.tobytes(), location
        for decoded in (False, True):
            store = virtualize.open(location, decoded=decoded)
            np.testing.assert_array_equal(zarr.open_group(store, mode="r")["a"][...], array[...])
        dataset = xr.open_dataset(location, engine="virtualize")
        assert dataset["a"].dtype == expected.dtype
        np.testing.assert_array_equal(dataset["a"], expected)
    theirs = xr.open_zarr(tmp_path / "a.zarr", consolidated=False, mask_and_scale=False)
    xr.testing.assert_equal(dataset, theirs)
    mapper = fsspec.filesystem("reference", fo=str(tmp_path / "a.json")).get_mapper()
    np.testing.assert_array_equal(zarr.open_group(mapper, mode="r")["a"][...], array[...])


def test_text_that_is_not_unicode_reads_as_it_is_stored(tmp_path: Path) -> None:
    array = zarr.create_array(tmp_path / "a.zarr", name="a", shape=(3,), chunks=(3,), dtype="<U1", zarr_format=2, compressors=None)
    array[:] = ["a", "b", "c"]
    stored = np.array([0xD800, 0x110000, 0xFFFFFFFF], "<u4").tobytes()
    (tmp_path / "a.zarr/a/0").write_bytes(stored)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert virtualize.open(tmp_path / "a.zarr")["a"][...].tobytes() == stored == array[...].tobytes()


def root_of_tifffile(folder: Path, values: np.ndarray) -> Path:
    tifffile.imwrite(folder / "a.tif", values, tile=(16, 32), compression="zlib", byteorder=">")
    with tifffile.imread(folder / "a.tif", aszarr=True) as store:
        store.write_fsspec(str(folder / "a.json"), f"file://{folder}")
    return folder / "a.json"


def root_of_kerchunk(folder: Path, values: np.ndarray) -> Path:
    import kerchunk.tiff

    # kerchunk 0.2.10 fails on tifffile's own metadata.
    tifffile.imwrite(folder / "a.tif", values, tile=(16, 32), metadata=None)
    (folder / "a.json").write_text(json.dumps(kerchunk.tiff.tiff_to_zarr(f"file://{folder}/a.tif")))
    return folder / "a.json"


def root_of_zarr_v3_references(folder: Path, values: np.ndarray) -> Path:
    zarr.create_array(folder / "a.zarr", data=values, chunks=(16, 32))
    chunks = {str(path.relative_to(folder / "a.zarr")): [str(path)] for path in (folder / "a.zarr/c").rglob("*") if path.is_file()}
    (folder / "a.json").write_text(json.dumps(chunks | {"zarr.json": (folder / "a.zarr/zarr.json").read_text()}))
    return folder / "a.json"


def root_of_parquet(folder: Path, values: np.ndarray) -> Path:
    """As kerchunk would write it if it could: fsspec has no file for the chunks of the root."""
    (folder / "chunks").write_bytes(values.astype("<i4").tobytes())
    array = {"zarr_format": 2, "shape": values.shape, "chunks": [16, 96], "dtype": "<i4", "compressor": None, "filters": None}
    metadata = {".zarray": {**array, "fill_value": -1, "order": "C"}, ".zattrs": {}}
    table = pd.DataFrame({"path": [str(folder / "chunks")] * 4, "offset": [n * 6144 for n in range(4)], "size": [6144] * 4, "raw": np.array([None] * 4, object)})
    (folder / "a.parquet").mkdir()
    (folder / "a.parquet/.zmetadata").write_text(json.dumps({"metadata": metadata, "record_size": 3}))
    for number in range(2):
        rows = table.iloc[3 * number :][:3]
        rows.to_parquet(folder / f"a.parquet/refs.{number}.parq", engine="fastparquet", compression="zstd")
    return folder / "a.parquet"


def root_of_icechunk(folder: Path, values: np.ndarray) -> Path:
    import icechunk

    repository = icechunk.Repository.create(icechunk.local_filesystem_storage(str(folder / "ice")))
    session = repository.writable_session("main")
    zarr.create_array(session.store, data=values, chunks=(16, 32), shards=(32, 64))
    session.commit("values")
    return folder / "ice"


def root_of_zarr(folder: Path, values: np.ndarray, **options: Any) -> Path:
    zarr.create_array(folder / "a.zarr", data=values, chunks=(16, 32), attributes={"units": "K"}, **options)
    return folder / "a.zarr"


@pytest.mark.filterwarnings("ignore::virtualize.VirtualizeWarning", "ignore:The 'fastparquet' engine")
@pytest.mark.parametrize(
    "write",
    [
        root_of_tifffile,
        root_of_kerchunk,
        root_of_zarr_v3_references,
        root_of_parquet,
        root_of_icechunk,
        functools.partial(root_of_zarr, zarr_format=2),
        functools.partial(root_of_zarr, zarr_format=2, chunk_key_encoding={"name": "v2", "separator": "/"}),
        functools.partial(root_of_zarr, zarr_format=3),
        functools.partial(root_of_zarr, zarr_format=3, shards=(32, 64)),
        functools.partial(root_of_zarr, zarr_format=3, chunk_key_encoding={"name": "v2", "separator": "."}),
    ],
)
def test_an_array_at_the_root_is_called_data(tmp_path: Path, write: Callable[[Path, np.ndarray], Path]) -> None:
    values = np.random.default_rng(0).integers(1, 999, (64, 96)).astype("i4")
    location = write(tmp_path, values)
    opened = virtualize.open(location)
    assert list(opened) == ["data"]
    np.testing.assert_array_equal(opened["data"][...], values)
    np.testing.assert_array_equal(opened["data"][3:40:7, 50], values[3:40:7, 50])
    np.testing.assert_array_equal(virtualize.open_dataset(location)["data"], values)
    assert virtualize.validate(location, full=True).valid
    formats = {"o.json": "kerchunk-json", "o.parquet": "kerchunk-parquet", "3.json": "zarr3-json", "repository": "icechunk"}
    for name, format in formats.items():
        virtualize.convert(location, tmp_path / name, format=format)
        np.testing.assert_array_equal(virtualize.open(tmp_path / name)["data"][...], values, name)
        assert virtualize.diff(location, tmp_path / name) == []


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_saved_array_without_axes(tmp_path: Path, zarr_format: int) -> None:
    zarr.save_array(tmp_path / "a.zarr", np.array(5), zarr_format=zarr_format)
    assert virtualize.open(tmp_path / "a.zarr")["data"][()] == 5
