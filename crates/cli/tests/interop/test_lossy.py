"""Filters of hdf5plugin that no reader decodes as HDF5 stores them: random arrays, against h5py (RANDOM_LOSSY=100)."""
import multiprocessing

import clients
import numpy as np
import pytest
from clients import FORMATS, convert, seeds

INTEGERS = ["i1", "<u2", ">i2", "<i4", ">u4", "<i8"]
FLOATS = ["<f4", "<f8", ">f4", ">f8"]


def values(random, shape, dtype):
    """Waves with some noise, or a few large values; within the range of integers."""
    grid = np.meshgrid(*[np.arange(size) for size in shape], indexing="ij")
    made = sum(np.sin(axis * random.uniform(0.05, 0.9) + random.uniform(0, 6)) for axis in grid) * random.choice([1, 40])
    made = made + random.normal(size=shape) * random.choice([0, 0.01, 1])
    if random.random() < 0.2:
        made = np.where(random.random(shape) < 0.02, 1e6, made)
    if np.dtype(dtype).kind in "iu":
        made = made.clip(np.iinfo(dtype).min, np.iinfo(dtype).max)
    return made.astype(dtype)


def shapes(random, axes, least, most):
    """The shape of an array and of its chunks, which may be partial at the end."""
    chunk = [int(random.integers(least, most)) for _ in range(axes)]
    return [int(random.integers(size, 2 * size + 3)) for size in chunk], tuple(chunk)


def blosc2(random, plugin):
    # Only frames of one axis lack the layer that readers need; v3 inlines both.
    shape, chunk = shapes(random, int(random.choice([1, 1, 2])), 3, 40)
    cname = str(random.choice(["blosclz", "lz4", "lz4hc", "zlib", "zstd"]))
    return shape, chunk, str(random.choice(INTEGERS + FLOATS)), plugin.Blosc2(cname=cname, filters=int(random.integers(0, 4)))


def sz3(random, plugin):
    axes = int(random.integers(1, 4))  # the plugin hangs on some chunks of four axes
    shape, chunk = shapes(random, axes, 9, {1: 2000, 2: 60, 3: 16}[axes])
    bound = float(random.choice([1e-4, 0.01, 0.5, 2]))
    return shape, chunk, str(random.choice(INTEGERS + FLOATS)), plugin.SZ3(absolute=bound)


def sz(random, plugin):
    axes = int(random.integers(1, 5))
    shape, chunk = shapes(random, axes, 3, {1: 2000, 2: 60, 3: 16, 4: 7}[axes])
    return shape, chunk, str(random.choice(FLOATS)), plugin.SZ(absolute=float(random.choice([1e-4, 0.01, 0.5, 2])))


def sperr(random, plugin):
    axes = int(random.integers(2, 4))
    _, chunk = shapes(random, axes, 9, {2: 70, 3: 24}[axes])
    shape = [size * int(random.integers(1, 3)) for size in chunk]  # H5Z-SPERR refuses partial chunks
    mode = [{"rate": 6.0}, {"peak_signal_to_noise_ratio": 70.0}, {"absolute": 0.01}][random.integers(0, 3)]
    return shape, chunk, str(random.choice(FLOATS[:2])), plugin.Sperr(**mode, swap=bool(random.integers(0, 2)))


def jpegls(random, plugin):
    # Several components, which readers would put last.
    chunk = (int(random.integers(2, 5)), int(random.integers(20, 40)), int(random.integers(20, 50)))
    return list(chunk), chunk, str(random.choice(["u1", "<u2", ">u2", "<i2"])), plugin.FciDecomp()


def write(path, kind, seed):
    """Write arrays in a process of its own: the plugins of FCIDECOMP and SZ3 damage their memory now and then, and fail or hang."""
    import h5py, hdf5plugin
    random = np.random.default_rng(seed)
    with h5py.File(path, "w") as file:
        for number in range(6):
            shape, chunk, dtype, plugin = kind(random, hdf5plugin)
            file.create_dataset(f"a{number}", data=values(random, shape, dtype), chunks=chunk, compression=plugin)


def written(path, kind, seed):
    """Returns whether the plugin wrote the arrays."""
    writer = multiprocessing.get_context("spawn").Process(target=write, args=(path, kind, seed))
    writer.start()
    writer.join(15)
    writer.kill()
    writer.join()
    return writer.exitcode == 0


@pytest.mark.parametrize("seed", seeds("RANDOM_LOSSY", 2, 1))
@pytest.mark.parametrize("kind", [blosc2, sz, pytest.param(sz3, marks=pytest.mark.slow), sperr, jpegls])
def test_values_are_those_of_the_plugin(tmp_path, kind, seed):
    import h5py, hdf5plugin, zarr  # noqa: F401
    path = tmp_path / "lossy.h5"
    assert any(written(path, kind, seed + 1000 * attempt) for attempt in range(5)), "the plugin failed five times"
    with h5py.File(path) as file:
        truth = {name: dataset[...] for name, dataset in file.items()}
    assert len(truth) == 6
    for fmt, version in FORMATS.items():
        references = convert(path, fmt, "--option", "inline-limit=67108864").references
        group = zarr.open_group(clients.open_store(references), mode="r", zarr_format=version)
        for name, expected in truth.items():
            assert group[name][...].tobytes() == expected.astype(group[name].dtype).tobytes(), (fmt, name)


def test_large_arrays_are_omitted_with_the_reason(tmp_path, fmt):
    import h5py, hdf5plugin
    path = tmp_path / "large.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("small", data=np.arange(3))
        file.create_dataset("large", data=np.zeros((40, 100), "f4"), chunks=(40, 100), compression=hdf5plugin.SZ3(absolute=1.0))
    result = convert(path, fmt, "--option", "inline-limit=1024")
    assert "SZ3" in result.stderr and "large" not in str(clients.nodes(result.references, FORMATS[fmt]).keys())
