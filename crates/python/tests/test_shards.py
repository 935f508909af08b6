"""Arrays in shards, written by zarr-python to local stores and Icechunk repositories. RANDOM_SHARDED=100 tests more of them."""

import os
import random
from pathlib import Path

import numpy as np
import pytest
import virtualize
import zarr
from zarr.codecs import BytesCodec, GzipCodec, ShardingCodec, ZstdCodec

SEEDS = range(int(os.environ.get("RANDOM_SHARDED", "8")))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["folder", "icechunk"])
def test_selections_equal_those_of_zarr_python(tmp_path: Path, seed: int, kind: str) -> None:
    chance, rng = random.Random(seed), np.random.default_rng(seed)
    location = tmp_path / f"store.{kind}"
    if kind == "folder":
        root = zarr.create_group(location, zarr_format=3)
    else:
        icechunk = pytest.importorskip("icechunk")
        repository = icechunk.Repository.create(icechunk.local_filesystem_storage(str(location)))
        session = repository.writable_session("main")
        root = zarr.create_group(session.store, zarr_format=3)
    chunks = [chance.randint(1, 3) for _ in range(chance.randint(1, 3))]
    shards = [size * chance.randint(1, 3) for size in chunks]
    shape = [chance.randint(1, 3 * size) for size in shards]
    dtype = chance.choice(["i2", "f8", "u1"])
    codecs = [BytesCodec(endian=chance.choice(["little", "big"])), *chance.choice([[], [ZstdCodec()], [GzipCodec()]])]
    inner = ShardingCodec(chunk_shape=chunks, codecs=codecs, index_location=chance.choice(["start", "end"]))
    nests = seed % 4 == 3
    serializer = ShardingCodec(chunk_shape=shards, codecs=[inner]) if nests else inner
    outer = [2 * size for size in shards] if nests else shards
    array = root.create_array(
        "g/a", shape=shape, chunks=outer, dtype=dtype, serializer=serializer, compressors=None, fill_value=3
    )
    # The first half stays empty, so that chunks and whole shards are missing.
    start = shape[0] // 2
    array[start:] = rng.integers(0, 99, (shape[0] - start, *shape[1:])).astype(dtype)
    if kind == "icechunk":
        session.commit("values")
    expected = array[...]
    references = tmp_path / "refs.json"
    virtualize.open(location).to_kerchunk(references)
    for opened in (virtualize.open(location), virtualize.open(references)):
        np.testing.assert_array_equal(opened["g/a"][...], expected)
        for _ in range(8):
            ends = [sorted((chance.randint(0, size), chance.randint(0, size))) for size in shape]
            selection = tuple(slice(a, b, chance.choice([None, 2])) for a, b in ends)
            np.testing.assert_array_equal(opened["g/a"][selection], expected[selection], err_msg=f"{selection}")


@pytest.mark.filterwarnings("ignore:Combining a `sharding_indexed`")
def test_shards_with_a_codec_of_their_own_are_omitted(tmp_path: Path) -> None:
    root = zarr.create_group(tmp_path / "native.zarr", zarr_format=3)
    root.create_array("plain", data=np.arange(4))
    swapped = [zarr.codecs.TransposeCodec(order=(1, 0))]
    serializer = ShardingCodec(chunk_shape=(2, 2))
    root.create_array("a", shape=(2, 4), chunks=(2, 4), dtype="i4", serializer=serializer, filters=swapped, compressors=None)
    with pytest.warns(virtualize.VirtualizeWarning, match="/a: codecs: expected sharding_indexed as the only codec"):
        store = virtualize.open(tmp_path / "native.zarr")
    assert "a" not in store
    np.testing.assert_array_equal(store["plain"][...], np.arange(4))


def test_the_index_of_a_damaged_shard_is_an_error(tmp_path: Path) -> None:
    root = zarr.create_group(tmp_path / "native.zarr", zarr_format=3)
    root.create_array("a", data=np.arange(8), chunks=(2,), shards=(4,))
    shard = tmp_path / "native.zarr/a/c/1"
    whole = shard.read_bytes()
    for damaged in (whole[:20], whole[:-1] + bytes([whole[-1] ^ 1]), whole[:-30] + b"\xff" + whole[-29:]):
        shard.write_bytes(damaged)
        store = virtualize.open(tmp_path / "native.zarr")
        np.testing.assert_array_equal(store["a"][:4], np.arange(4))
        with pytest.raises(virtualize.Error, match="/a: shard 1 has no valid index"):
            store["a"][4:]
