"""References to data whose filters only this package decodes: random HDF5 files, read by zarr-python, against h5py."""

import contextlib
import json
import pickle
import random
import subprocess
import sys
import threading
import warnings
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import fsspec
import h5py
import hdf5plugin
import icechunk
import numcodecs
import numpy as np
import pytest
import rasterio
import rasterio.errors
import zarr
import zarr.storage

import virtualize
from virtualize import _virtualize, codecs

READERS = ["virtualize"]
ROUNDS = 40
DTYPES = ["u1", "i1", "<u2", ">u2", "<i2", ">i4", "<i4", "<i8", ">u8", "<f4", ">f4", "<f8", ">f8"]
FILTERS = [
    "bitshuffle-none", "bitshuffle-lz4", "bitshuffle-zstd", "szip-nn", "szip-ec", "lzf", "shuffle-lzf", "lzf-fletcher32",
    "nbit", "scaleoffset", "lz4", "blosc2", "zfp", "gzip", "shuffle-gzip-fletcher32", "edges",
]


def values(choice: random.Random, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return smooth, noisy or constant numbers, or a mixture, so that some chunks are compressed and others are not."""
    noise = np.random.default_rng(choice.randrange(1 << 32))
    count = int(np.prod(shape))
    smooth = (np.arange(count) // 3 % 100).astype(dtype)
    if dtype.kind == "f":
        rough = noise.normal(size=count).astype(dtype)
    else:
        rough = noise.integers(0, 256, count * dtype.itemsize, dtype="u1").view(dtype)
    kind = choice.choice(["smooth", "rough", "constant", "mixed"])
    if kind == "mixed":
        return np.where(np.arange(count) < count // 2, smooth, rough).astype(dtype).reshape(shape)
    return {"smooth": smooth, "rough": rough, "constant": np.full(count, 7, dtype)}[kind].reshape(shape)


def filtered(choice: random.Random, name: str, dtype: np.dtype[Any]) -> tuple[np.dtype[Any], dict[str, Any]]:
    """Return a data type that a filter supports, and the arguments of `create_dataset`."""
    kind, _, rest = name.partition("-")
    plugin: Any = None
    arguments: dict[str, Any] = {}
    match kind:
        case "bitshuffle":
            plugin = hdf5plugin.Bitshuffle(nelems=choice.choice([0, 8, 64]), cname=rest)  # type: ignore[arg-type]
        case "szip":
            arguments = {"compression": "szip", "compression_opts": (rest, choice.choice([8, 16, 32]))}
        case "lz4":
            plugin = hdf5plugin.LZ4(nbytes=choice.choice([0, 512]))
        case "blosc2":
            cname = choice.choice(["blosclz", "lz4", "lz4hc", "zlib", "zstd"])
            plugin = hdf5plugin.Blosc2(cname=cname, clevel=choice.randint(0, 9), filters=choice.randint(0, 4))  # type: ignore[arg-type]
        case "zfp":
            dtype = np.dtype(choice.choice(["<f4", "<f8", "<i4", "<i8", "<u4", "<u8"]))
            modes: list[dict[str, Any]] = [{"reversible": True}, {"rate": 10}, {"precision": 12}]
            plugin = hdf5plugin.Zfp(**choice.choice(modes))
        case "scaleoffset":
            arguments = {"scaleoffset": choice.choice([0, 12]) if dtype.kind in "iu" else choice.choice([0, 3])}
        case _:
            words = name.split("-")
            for compression in {"lzf", "gzip"} & set(words):
                arguments["compression"] = compression
            arguments |= {word: True for word in ("shuffle", "fletcher32") if word in words}
    if plugin is not None:
        arguments["compression"] = plugin
    return dtype, arguments


def write(path: Path, seed: int) -> dict[str, str]:
    """Write a dataset for each filter, and return their filters."""
    choice = random.Random(seed)
    names: dict[str, str] = {}
    with h5py.File(path, "w") as file:
        for name in FILTERS:
            rank = choice.randint(1, 4)
            shape = tuple(choice.randint(1, [400, 60, 14, 8][rank - 1]) for _ in range(rank))
            chunks = tuple(choice.randint(1, size) for size in shape)
            dtype, arguments = filtered(choice, name, np.dtype(choice.choice(DTYPES)))
            if name.startswith("szip"):
                chunks = (*chunks[:-1], shape[-1])
            if name == "zfp":
                chunks = tuple(min(size, 20) for size in shape)
            key = f"{name}-{choice.randrange(1000)}"
            data = values(choice, dtype, shape)
            try:
                if name == "nbit":
                    narrow(file, key, choice, dtype, shape, chunks)
                elif name == "edges":
                    raw_edges(file, key, dtype, shape, chunks)
                else:
                    file.create_dataset(key, shape, dtype, chunks=chunks, **arguments)
                file[key][...] = data
            except (OSError, ValueError, RuntimeError):
                # The filter refuses these parameters: szip blocks larger than a scanline, ZFP of one element.
                if key in file:
                    del file[key]
                continue
            names[key] = name
    return names


def narrow(
    file: h5py.File, key: str, choice: random.Random, dtype: np.dtype[Any], shape: tuple[int, ...], chunks: tuple[int, ...]
) -> None:
    """Create a dataset with HDF5's N-bit filter."""
    kind = h5py.h5t.py_create(dtype).copy()
    if dtype.kind in "iu":
        precision = choice.randint(1, dtype.itemsize * 8)
        kind.set_precision(precision)
        kind.set_offset(choice.randint(0, dtype.itemsize * 8 - precision))
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_chunk(chunks)
    properties.set_nbit() if hasattr(properties, "set_nbit") else properties.set_filter(5, 0, ())
    h5py.h5d.create(file.id, key.encode(), kind, h5py.h5s.create_simple(shape), properties)


def raw_edges(file: h5py.File, key: str, dtype: np.dtype[Any], shape: tuple[int, ...], chunks: tuple[int, ...]) -> None:
    """Create a dataset whose partial chunks skip all filters."""
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_chunk(chunks)
    properties.set_shuffle()
    properties.set_deflate(4)
    if hasattr(properties, "set_chunk_opts"):
        properties.set_chunk_opts(h5py.h5d.CHUNK_DONT_FILTER_PARTIAL_CHUNKS)
    h5py.h5d.create(file.id, key.encode(), h5py.h5t.py_create(dtype), h5py.h5s.create_simple(shape), properties)


def written(path: Path, format: str, folder: Path) -> tuple[zarr.Group, list[str]]:
    """Write references for this package, and return them as a group with the keys of chunks that they inline."""
    store = virtualize.open(path, readable_by=READERS)
    if format == "icechunk":
        target = folder / "repository"
        store.to_icechunk(target)
        local = f"file://{path.parent}/"
        config = icechunk.RepositoryConfig.default()
        config.set_virtual_chunk_container(
            icechunk.VirtualChunkContainer(local, icechunk.local_filesystem_store(str(path.parent)))
        )
        access = {local: icechunk.credentials.LocalFileSystemAccess}
        storage = icechunk.local_filesystem_storage(str(target))
        repository = icechunk.Repository.open(storage, config=config, authorize_virtual_chunk_access=access)
        return zarr.open_group(repository.readonly_session("main").store, mode="r"), []
    target = folder / f"{format}.json"
    store.to_kerchunk(target) if format == "kerchunk-json" else store.to_zarr3(target)
    found: dict[str, Any] = json.loads(target.read_text())["refs"]
    inlined = [key for key, value in found.items() if isinstance(value, str) and not key.split("/")[-1].startswith((".z", "zarr."))]
    filesystem = fsspec.filesystem("reference", fo=str(target), asynchronous=True, remote_options={"asynchronous": True})
    mapped = zarr.storage.FsspecStore(filesystem, read_only=True)
    return zarr.open_group(mapped, mode="r", zarr_format=2 if format == "kerchunk-json" else 3), inlined


def ambiguous(dataset: h5py.Dataset) -> int:
    """Return how many filtered chunks are as long as those that skipped the filter, if there are such."""
    raw = int(np.prod(dataset.chunks)) * dataset.dtype.itemsize
    chunks = [dataset.id.get_chunk_info(n) for n in range(dataset.id.get_num_chunks())]
    if not any(chunk.filter_mask for chunk in chunks):
        return 0
    return sum(chunk.filter_mask == 0 and chunk.size == raw for chunk in chunks)


def same(found: Any, expected: np.ndarray[Any, Any]) -> bool:
    # Zarr v3 shows big-endian numbers in the byte order of the machine.
    if found.dtype.newbyteorder("=") != expected.dtype.newbyteorder("="):
        return False
    return found.shape == expected.shape and found.astype(expected.dtype).tobytes() == expected.tobytes()


@pytest.mark.parametrize("seed", range(ROUNDS))
@pytest.mark.parametrize("format", ["kerchunk-json", "zarr3-json"])
def test_every_filter_is_decoded_as_h5py_does(tmp_path: Path, seed: int, format: str) -> None:
    path = tmp_path / "file.h5"
    names = write(path, seed)
    group, inlined = written(path, format, tmp_path)
    with h5py.File(path) as file:
        # Only chunks of szip may be as long as they would be without it, though they are not.
        assert len(inlined) == sum(ambiguous(file[key]) for key, name in names.items() if name.startswith("szip"))
        for key, name in names.items():
            found, expected = group[key][...], file[key][...]
            if name == "nbit":
                # Zarr has the smallest type that holds the significant bits.
                found = found.astype(expected.dtype)
            assert same(found, expected), (name, group[key].metadata.to_dict())


@pytest.mark.parametrize("seed", range(4))
def test_icechunk_refers_to_every_filter(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "file.h5"
    names = write(path, 100 + seed)
    group, _ = written(path, "icechunk", tmp_path)
    with h5py.File(path) as file:
        for key, name in names.items():
            assert name == "nbit" or same(group[key][...], file[key][...]), name


def test_most_filters_are_written(tmp_path: Path) -> None:
    written_filters = [name for seed in range(ROUNDS) for name in write(tmp_path / f"{seed}.h5", seed).values()]
    assert all(written_filters.count(name) > ROUNDS // 4 for name in FILTERS), written_filters


@pytest.mark.filterwarnings("ignore::virtualize.VirtualizeWarning")
def test_nothing_changes_without_the_option(tmp_path: Path) -> None:
    path = tmp_path / "file.h5"
    write(path, 3)
    virtualize.open(path).to_zarr3(tmp_path / "plain.json")
    assert "virtualize." not in (tmp_path / "plain.json").read_text()
    virtualize.open(path, readable_by=["virtualize", "zarr-python+imagecodecs"]).to_zarr3(tmp_path / "both.json")
    assert "virtualize." not in (tmp_path / "both.json").read_text()


def test_large_data_become_virtual(tmp_path: Path) -> None:
    path = tmp_path / "detector.h5"
    with h5py.File(path, "w") as file:
        shape = (600, 1024, 512)
        images = file.create_dataset("images", shape, "u4", chunks=(1, 1024, 512), compression=hdf5plugin.Bitshuffle(cname="lz4"))
        for image in range(600):
            images[image] = image
    group, inlined = written(path, "zarr3-json", tmp_path)
    assert inlined == []
    assert (group["images"][599, ::100, 7] == 599).all()


def test_synchronous_pipeline(tmp_path: Path) -> None:
    path = tmp_path / "file.h5"
    data = np.arange(4000, dtype="u2").reshape(40, 100)
    with h5py.File(path, "w") as file:
        file.create_dataset("a", data=data, chunks=(7, 30), compression=hdf5plugin.Bitshuffle())
    with zarr.config.set({"codec_pipeline.path": "zarr.core.codec_pipeline.FusedCodecPipeline"}):
        store = virtualize.open(path, readable_by=READERS)
        array = zarr.open_array(store, path="a", mode="r")
        assert (array[...] == data).all()


def test_entry_points_and_names_agree() -> None:
    names = _virtualize.codec_names()
    assert len(names) == len(set(names)) > 15
    for group in ("zarr.codecs", "numcodecs.codecs"):
        found = {point.name: point for point in entry_points(group=group) if point.name.startswith("virtualize.")}
        assert sorted(found) == sorted(names)
        for name, point in found.items():
            cls = point.load()
            assert name == (cls.codec_name if group == "zarr.codecs" else cls.codec_id)


def test_codecs_encode_or_say_that_they_do_not() -> None:
    data = np.arange(3000, dtype="u2").tobytes()
    for config in [{"id": "virtualize.lzf"}, {"id": "virtualize.lz4"}, {"id": "virtualize.packbits"}, {"id": "virtualize.lzw"}]:
        codec = numcodecs.get_codec(config)
        assert codec.decode(codec.encode(data)).tobytes() == data
        assert codec.get_config() == config
        assert pickle.loads(pickle.dumps(codec)).get_config() == config
        out = np.empty(3000, "u2")
        assert codec.decode(codec.encode(data), out).tobytes() == out.tobytes() == data
    with pytest.raises(virtualize.FileError, match="Blosc 2 cannot be encoded here"):
        numcodecs.get_codec({"id": "virtualize.blosc2"}).encode(data)
    with pytest.raises(virtualize.FileError):
        numcodecs.get_codec({"id": "virtualize.blosc2"}).decode(b"no frame")
    with pytest.raises(virtualize.OptionError, match="is not a codec of this package"):
        numcodecs.get_codec({"id": "virtualize.szip", "bits": 3})


def test_arrays_can_be_written(tmp_path: Path) -> None:
    data = np.arange(4000, dtype="f4").reshape(40, 100)
    codec = {"name": "virtualize.optional", "configuration": {"size": 40000 // 25, "codecs": [{"name": "virtualize.lzf"}]}}
    array = zarr.create_array(tmp_path, shape=data.shape, chunks=(4, 100), dtype="f4", compressors=[codec])
    array[...] = data
    assert (zarr.open_array(tmp_path)[...] == data).all()
    assert pickle.loads(pickle.dumps(array)).metadata == array.metadata
    assert hash(array.metadata.codecs[-1]) == hash(codecs.Optional(**codec["configuration"]))


def test_threads_share_a_codec() -> None:
    codec = numcodecs.get_codec({"id": "virtualize.lzf"})
    data = np.arange(100_000, dtype="u4").tobytes()
    stored = codec.encode(data)
    failed: list[int] = []

    def decode() -> None:
        failed.extend(1 for _ in range(5) if codec.decode(stored).tobytes() != data)

    threads = [threading.Thread(target=decode) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


TIFFS = sorted((Path(__file__).resolve().parents[3] / "fixtures" / "tiff").glob("*.tif"))


@pytest.mark.filterwarnings("ignore::virtualize.VirtualizeWarning")
@pytest.mark.parametrize("path", TIFFS, ids=lambda path: path.stem)
@pytest.mark.parametrize("format", ["kerchunk-json", "zarr3-json"])
def test_tiff_is_decoded_as_gdal_does(tmp_path: Path, path: Path, format: str) -> None:
    try:
        group, _ = written(path, format, tmp_path)
    except virtualize.RefusedError as error:
        assert any("imagecodecs" in str(one) or one.code != "reader-lacks" for one in error.diagnostics)
        return
    if "band_data" not in group:
        return
    array = group["band_data"]
    assert "imagecodecs" not in json.dumps(array.metadata.to_dict(), default=str)
    with warnings.catch_warnings(), contextlib.suppress(rasterio.errors.RasterioIOError):
        warnings.simplefilter("ignore")
        with rasterio.open(path) as image:
            expected = image.read()
        if expected.dtype.newbyteorder("=") == array.dtype.newbyteorder("=") and expected.shape == array.shape:
            np.testing.assert_array_equal(array[...], expected)


@pytest.mark.parametrize("compression", ["LZW", "PACKBITS", "DEFLATE", "ZSTD", "LZMA"])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int32", "float32", "float64"])
def test_tiff_schemes_become_references(tmp_path: Path, compression: str, dtype: str) -> None:
    choice = random.Random(f"{compression}{dtype}")
    floats = dtype.startswith("float")
    predictor = 1 if compression == "PACKBITS" else choice.choice([1, 3 if floats else 2])
    image = np.random.default_rng(5).integers(0, 200, (3, 64, 80)).cumsum(axis=-1).astype(dtype)
    path = tmp_path / "image.tif"
    profile = {
        "driver": "GTiff", "count": 3, "height": 64, "width": 80, "dtype": dtype, "compress": compression, "tiled": True,
        "blockxsize": 32, "blockysize": 16, "interleave": choice.choice(["pixel", "band"]), "predictor": predictor,
        "ENDIANNESS": choice.choice(["LITTLE", "BIG"]),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with rasterio.open(path, "w", **profile) as out:
            out.write(image)
    for format in ["kerchunk-json", "zarr3-json"]:
        group, inlined = written(path, format, tmp_path)
        assert not [key for key in inlined if key.startswith("band_data")]
        # Zarr v2 has the axes in stored order.
        expected = image if group["band_data"].shape == image.shape else np.moveaxis(image, 0, -1)
        np.testing.assert_array_equal(group["band_data"][...], expected)


CLASHES = """
import sys, types, warnings
import zarr, numcodecs
from virtualize import VirtualizeWarning, codecs

class Floatpred(zarr.abc.codec.BytesBytesCodec):
    pass

class Lzw(numcodecs.abc.Codec):
    codec_id = "imagecodecs_lzw"

assert codecs.clashes() == []
zarr.registry.register_codec("imagecodecs_floatpred", Floatpred)
numcodecs.register_codec(Lzw)
assert [(clash.name, clash.zarr_format, clash.taken) for clash in codecs.clashes()] == [
    ("imagecodecs_floatpred", 3, "__main__.Floatpred"), ("imagecodecs_lzw", 2, "__main__.Lzw")]
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    assert len(codecs.pin()) == 2
assert [warning.message.code for warning in caught if warning.category is VirtualizeWarning] == ["codec-name-clash"]
assert codecs.clashes() == [] and codecs.pin() == []
with warnings.catch_warnings():
    warnings.simplefilter("error")
    assert zarr.registry.get_codec_class("imagecodecs_floatpred").__module__ == "imagecodecs.zarr"
assert type(numcodecs.get_codec({"id": "imagecodecs_lzw"})).__module__ == "imagecodecs.numcodecs"
"""


def test_clashes_are_found_and_settled() -> None:
    done = subprocess.run([sys.executable, "-c", CLASHES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_zarr_and_numcodecs_are_not_imported_with_the_package() -> None:
    script = "import sys, virtualize; print([name for name in ('zarr', 'numcodecs') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(("dtype", "tiled"), [("uint8", True), ("int16", False), ("uint32", True), ("float32", True), ("float32", False), ("float64", False)])
@pytest.mark.parametrize("compress", ["LERC", "LERC_DEFLATE", "LERC_ZSTD"])
def test_lerc_with_masks_becomes_references(tmp_path: Path, dtype: str, tiled: bool, compress: str) -> None:
    choice = np.random.default_rng(8)
    image = choice.integers(0, 200, (2, 70, 50)).astype(dtype)
    if dtype.startswith("float"):
        image[:, ::7, 5:9] = np.nan
    path = tmp_path / "image.tif"
    profile: dict[str, Any] = {
        "driver": "GTiff", "count": 2, "height": 70, "width": 50, "dtype": dtype, "compress": compress,
        "interleave": "band", "tiled": tiled, "blockxsize": 32 if tiled else 50, "blockysize": 16, "MAX_Z_ERROR": 0,
        "ENDIANNESS": "BIG" if dtype == "uint32" else "LITTLE",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with rasterio.open(path, "w", **profile) as out:
            out.write(image)
        with rasterio.open(path) as stored:
            expected = stored.read()
    for format in ["kerchunk-json", "zarr3-json"]:
        group, inlined = written(path, format, tmp_path)
        assert not [key for key in inlined if key.startswith("band_data")]
        np.testing.assert_array_equal(group["band_data"][...], expected)
