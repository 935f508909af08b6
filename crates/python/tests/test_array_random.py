"""Random selections of random HDF5 files, compared with NumPy on what h5py reads."""

import os
import random

import h5py
import hdf5plugin
import numpy as np
import pytest
import virtualize

ROUNDS = int(os.environ.get("RANDOM_ARRAYS", "12"))
TYPES = ["?", "i1", "u1", "<i2", ">i2", "<u4", ">i4", "<i8", ">u8", "<f2", ">f2", "<f4", ">f4", "<f8", ">f8", "<c8", ">c16", "S1", "S5", "V3"]
STRUCTURE = np.dtype([("a", "<i2"), ("b", "<f8"), ("c", "S3"), ("d", [("x", "u1"), ("y", "<i4")])])


def random_values(rng, dtype, shape):
    raw = np.frombuffer(rng.randbytes(dtype.itemsize * int(np.prod(shape))), np.uint8)
    if dtype == bool:
        return (raw & 1).astype(bool).reshape(shape)
    values = raw.view(dtype).reshape(shape).copy() if raw.size else np.empty(shape, dtype)
    if dtype.kind == "S":
        # A NUL within text does not survive h5py.
        values = np.char.replace(values, b"\0", b"z").astype(dtype)
    return values


def filters(rng, dtype):
    found = {}
    if rng.random() < 0.5:
        found["shuffle"] = True
    if rng.random() < 0.3:
        found["fletcher32"] = True
    choice = rng.choice([None, "gzip", "lzf", "lz4", "bitshuffle", "zstd", "blosc"])
    if choice == "gzip":
        found |= {"compression": "gzip", "compression_opts": rng.randint(0, 9)}
    elif choice == "lzf":
        found["compression"] = "lzf"
    elif choice is not None and dtype.names is None:
        plugin = {"lz4": hdf5plugin.LZ4(), "bitshuffle": hdf5plugin.Bitshuffle(), "zstd": hdf5plugin.Zstd(), "blosc": hdf5plugin.Blosc()}
        found |= dict(plugin[choice])
    return found


def create(rng, file, name):
    """Writes a random dataset: some chunks are missing, the last ones reach over the edge."""
    dtype = STRUCTURE if rng.random() < 0.1 else np.dtype(rng.choice(TYPES))
    shape = tuple(rng.randint(1, 12) for _ in range(rng.randint(0, 4)))
    options = {}
    if shape and rng.random() < 0.85:
        options = {"chunks": tuple(rng.randint(1, n) for n in shape), **filters(rng, dtype)}
    if dtype.kind in "iuf" and rng.random() < 0.6:
        options["fillvalue"] = random_values(rng, dtype, (1,))[0]
    dataset = file.create_dataset(name, shape, dtype, **options)
    if not shape:
        dataset[()] = random_values(rng, dtype, ())
        return
    for _ in range(rng.randint(0, 3)):
        part = tuple(slice(*sorted((rng.randint(0, n), rng.randint(0, n)))) for n in shape)
        size = tuple(s.stop - s.start for s in part)
        if np.prod(size):
            dataset[part] = random_values(rng, dtype, size)


def random_key(rng, shape):
    if rng.random() < 0.1:
        return ...
    key = []
    for size in shape[: rng.randint(0, len(shape))]:
        kind = rng.randrange(6)
        if kind == 0:
            key.append(rng.randrange(-size, size))
        elif kind == 1:
            key.append(np.array([rng.randrange(-size, size) for _ in range(rng.randint(0, 5))], int))
        elif kind == 2:
            key.append(np.array([rng.random() < 0.5 for _ in range(size)]))
        else:
            bound = lambda: rng.choice([None, rng.randint(-size - 2, size + 2)])  # noqa: E731
            key.append(slice(bound(), bound(), rng.choice([None, 1, 2, 3, -1, -2, -5])))
    if rng.random() < 0.2:
        key.insert(rng.randint(0, len(key)), None)
    return tuple(key)


def equal(truth, got):
    truth, got = np.asarray(truth), np.asarray(got)
    native = truth.astype(got.dtype, copy=True)
    return truth.shape == got.shape and native.tobytes() == np.ascontiguousarray(got).tobytes()


@pytest.mark.parametrize("decoded", [True, False], ids=["decoded", "stored"])
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_random_selections_of_random_files(tmp_path, seed, decoded):
    rng, path = random.Random(seed), tmp_path / "random.h5"
    with h5py.File(path, "w", libver=rng.choice(["earliest", "latest"])) as file:
        for i in range(6):
            create(rng, file, f"d{i}")
    # Without `decoded`, what released clients cannot decode is inlined, within this limit, or omitted.
    store = virtualize.open(path, decoded=decoded)
    with h5py.File(path) as file:
        for name, dataset in file.items():
            if name not in store and not decoded:
                continue
            truth, array = packed(dataset[()]), store[name]
            assert array.dtype == truth.dtype.newbyteorder("<") and array.shape == truth.shape
            assert equal(truth, array[...]), (name, dataset.dtype, dataset.shape, dataset.chunks, dict(dataset._filters))
            for _ in range(15):
                key = random_key(rng, truth.shape)
                try:
                    expected = truth[key]
                except IndexError:
                    with pytest.raises(IndexError):
                        array[key]
                    continue
                assert equal(expected, array[key]), (name, dataset.dtype, dataset.shape, dataset.chunks, key)


def packed(values):
    values = np.asarray(values)
    return values.astype(STRUCTURE) if values.dtype.names else values
