"""Selections of arrays, compared with NumPy and zarr-python on what h5py reads."""

import asyncio
import copy
import itertools
import pickle
import random
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import h5py
import numpy as np
import pytest
import virtualize
import zarr

SHAPE = (7, 6, 5)


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    path = tmp_path_factory.mktemp("array") / "array.h5"
    data = np.random.default_rng(1).integers(-1000, 1000, SHAPE, dtype="<i2")
    with h5py.File(path, "w") as f:
        f.create_dataset("a", data=data, chunks=(3, 4, 2), compression="gzip", shuffle=True)
        f.create_dataset("line", data=np.arange(10.0))
        f.create_dataset("scalar", data=np.float32(4.5))
        f.create_dataset("text", data=np.array(["a", "", "grün ☃"], object), dtype=h5py.string_dtype())
        f.create_dataset("empty", shape=(0, 3), dtype="f4", chunks=(2, 2), maxshape=(None, 3))
        f.create_dataset("group/inner", data=[1, 2])
    return virtualize.open(str(path)), data


def entry(rng, size):
    """Returns a random entry of a key for an axis, good or bad."""
    def index():
        return rng.randint(-size, size - 1) if rng.random() < 0.98 else rng.choice([size, -size - 1])
    kind = rng.randrange(7)
    if kind == 0:
        return index()
    if kind == 1:
        return np.int64(index())
    if kind in (2, 3):
        step = rng.choice([None, 1, 2, 3, -1, -2, -3, 100])
        return slice(rng.choice([None, rng.randint(-9, 9)]), rng.choice([None, rng.randint(-9, 9)]), step)
    if kind == 4:
        return [index() for _ in range(rng.choice([0, 1, 2, 4]))]
    if kind == 5:
        return np.array([rng.random() < 0.5 for _ in range(size)])
    return np.array([[index() for _ in range(rng.choice([1, 3]))] for _ in range(1)]) if rng.random() < 0.5 else np.array([index() for _ in range(3)])


def key_of(rng, shape):
    entries = [entry(rng, size) for size in shape[: rng.randint(0, len(shape))]]
    for _ in range(rng.choice([0, 0, 0, 1, 2])):
        entries.insert(rng.randint(0, len(entries)), None)
    if rng.random() < 0.4:
        skipped = rng.randint(0, len([e for e in entries if e is not None]))
        entries = [e for e in entries[: len(entries) - skipped]]
        entries.insert(rng.randint(0, len(entries)), ...)
    if rng.random() < 0.05:
        entries = [np.random.default_rng(rng.randrange(99)).random(shape[:2]) < 0.3]
    return entries[0] if len(entries) == 1 and rng.random() < 0.7 else tuple(entries)


def outcome(index):
    try:
        return index()
    except (IndexError, ValueError) as error:
        return error


def compare(key, truth, got):
    if isinstance(truth, Exception) or isinstance(got, Exception):
        assert isinstance(truth, IndexError) and isinstance(got, IndexError), (key, truth, got)
        return
    assert type(truth) is type(got), (key, type(truth), type(got))
    assert truth.dtype == got.dtype and truth.shape == got.shape, (key, truth.shape, got.shape)
    np.testing.assert_array_equal(truth, got, str(key))


@pytest.mark.parametrize("seed", range(8))
def test_random_selections_are_those_of_numpy(opened, seed):
    store, data = opened
    array, rng = store["a"], random.Random(seed)
    for _ in range(150):
        key = key_of(rng, SHAPE)
        compare(key, outcome(lambda: data[key]), outcome(lambda: array[key]))


@pytest.mark.parametrize("seed", range(4))
def test_random_outer_and_vectorized_selections_are_those_of_zarr(opened, seed):
    store, data = opened
    rng, array, other = random.Random(seed), store["a"], zarr.array(data, chunks=(2, 3, 4))
    for _ in range(40):
        axes = [entry(rng, size) for size in SHAPE]
        # zarr 3.4 refuses or misreads these.
        if any(e == [] if isinstance(e, list) else isinstance(e, slice) and (e.step or 1) < 1 or np.ndim(e) > 1 for e in axes):
            continue
        key = tuple(axes)
        truth, got = outcome(lambda: other.oindex[key]), outcome(lambda: array.oindex[key])
        if isinstance(truth, Exception) or isinstance(got, Exception):
            assert isinstance(truth, Exception) and isinstance(got, IndexError), (key, truth, got)
        else:
            np.testing.assert_array_equal(truth, got, str(key))
        shape = rng.choice([(1,), (4,), (2, 3)])
        points = tuple(np.array([rng.randrange(-n, n) for _ in range(int(np.prod(shape)))]).reshape(shape) for n in SHAPE)
        np.testing.assert_array_equal(other.vindex[points], array.vindex[points], str(points))
    mask = data > 0
    np.testing.assert_array_equal(other.vindex[mask], array.vindex[mask])
    np.testing.assert_array_equal(data[mask], array[mask])


def test_arrays_that_vary_along_axes_of_their_own_are_broadcast(opened):
    store, data = opened
    array = store["a"]
    sizes = (1, 3)
    for ndim in (1, 2, 3):
        shapes = [shape for shape in itertools.product(sizes, repeat=ndim)]
        for chosen in itertools.product(shapes, repeat=3):
            rng = np.random.default_rng(hash(chosen) % 1000)
            key = tuple(rng.integers(0, n, shape) for n, shape in zip(SHAPE, chosen, strict=True))
            np.testing.assert_array_equal(data[key], array[key], str(chosen))


def test_points_along_some_axes_are_read_in_blocks(opened, monkeypatch):
    import virtualize._read
    monkeypatch.setattr(virtualize._read, "_BLOCK", 4)
    store, data = opened
    for key in [([0, 3], [1, 1]), (slice(None), [0, 3], [1, 1]), ([2, 5], slice(None, None, -2), [4, 0])]:
        np.testing.assert_array_equal(data[key], store["a"][key])


def test_a_selection_is_read_into_an_array_that_is_there(opened):
    store, data = opened
    array = store["a"]
    for key in [..., 0, (slice(None), 1), slice(None, None, -1), [3, 0], (0, [1, 2], slice(None), None), ([0, 1], [2, 3])]:
        expected = data[key]
        for out in (np.zeros(expected.shape, "<i2"), np.zeros(expected.shape[::-1], "<i2").T):
            assert array.read(key, out=out) is out
            np.testing.assert_array_equal(expected, out)
    for wrong in (np.empty((1, 2), "<i2"), np.empty(SHAPE, ">i2"), np.empty(SHAPE, "f4")):
        with pytest.raises(ValueError, match="out has shape"):
            array.read(out=wrong)


def test_metadata(opened):
    store, data = opened
    array = store["/a"]
    assert (array.shape, array.ndim, array.size, array.nbytes, array.dtype) == (SHAPE, 3, 210, 420, np.dtype("<i2"))
    assert array.chunks == (3, 4, 2) and array.fill_value == 0 and len(array) == 7
    assert "a" in repr(array) and "<table>" in array._repr_html_() and len(list(store["line"])) == 10
    np.testing.assert_array_equal(np.asarray(array), data)
    np.testing.assert_array_equal(np.asarray(array, "f8"), data.astype("f8"))
    with pytest.raises(ValueError):
        np.array(array, copy=False)
    with pytest.raises(TypeError):
        len(store["scalar"])


def test_kinds_of_arrays(opened):
    store, _ = opened
    assert store["scalar"][()] == np.float32(4.5) and type(store["scalar"][()]) is np.float32
    assert store["scalar"][...].shape == ()
    assert store["text"][:].tolist() == ["a", "", "grün ☃"] and store["text"][1:][::-1].tolist() == ["grün ☃", ""]
    assert store["text"][2] == "grün ☃"
    assert store["empty"][:].shape == (0, 3) and store["empty"][:].dtype == "f4"


def test_groups_and_names(opened):
    store, _ = opened
    assert sorted(store) == ["a", "empty", "group", "line", "scalar", "text"]
    assert "group/inner" in store and "group/outer" not in store and 3 not in store
    assert list(store["group"]) == ["inner"] and store["group"]["inner"][:].tolist() == [1, 2]
    assert store[""].group_keys() == ["group"] and "inner" in store["group"]
    for wrong, close in [("texd", "'text'"), ("group/iner", "'group/inner'"), ("gruop/inner", "'group'"), ("a/b", "'a'")]:
        with pytest.raises(KeyError, match=close):
            store[wrong]


def test_omitted_arrays_are_explained(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a"] = [1]
        file.create_dataset("ragged", (1,), h5py.vlen_dtype("i4"))
    with pytest.warns(virtualize.VirtualizeWarning, match="ragged"):
        store = virtualize.open(tmp_path / "a.h5")
    with pytest.raises(KeyError, match="has no 'ragged'.*variable-length"):
        store["ragged"]


def test_pickle_and_copies(opened):
    store, data = opened
    for made in (pickle.loads(pickle.dumps(store["a"])), copy.deepcopy(store["a"])):
        np.testing.assert_array_equal(made[1:3], data[1:3])
    assert list(pickle.loads(pickle.dumps(store["group"]))) == ["inner"]


def test_64_threads_on_one_store(opened):
    store, data = opened
    start = threading.Barrier(64)

    def work(seed):
        start.wait()
        rng = random.Random(seed)
        for _ in range(5):
            i = rng.randrange(7)
            np.testing.assert_array_equal(store["a"][i:], data[i:])

    with ThreadPoolExecutor(64) as pool:
        list(pool.map(work, range(64)))


def test_a_running_event_loop(opened):
    store, data = opened

    async def work():
        # Blocking reads must work here too: Jupyter always runs a loop.
        np.testing.assert_array_equal(store["a"][2], data[2])
        many = await asyncio.gather(*(store["a"].read_async(i) for i in range(7)))
        np.testing.assert_array_equal(np.stack(many), data)

    asyncio.run(work())


JPEG = Path(__file__).resolve().parents[3] / "fixtures/tiff/compression_jpeg.tif"


def test_images_are_decoded_by_imagecodecs():
    import tifffile

    truth = np.moveaxis(tifffile.imread(JPEG), -1, 0)
    array = virtualize.open(JPEG, decoded=True)["band_data"]
    np.testing.assert_array_equal(array[...], truth)
    np.testing.assert_array_equal(array[1, ::-3, 5], truth[1, ::-3, 5])
    got = zarr.open_array(virtualize.open(JPEG, decoded=True), path="band_data", mode="r")
    np.testing.assert_array_equal(got[...], truth)


def test_an_error_names_the_packages_that_images_need(monkeypatch):
    truth = virtualize.open(JPEG, decoded=True)["band_data"][...]
    for name in ("imagecodecs", "imagecodecs.numcodecs"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(virtualize.FileError, match="imagecodecs_jpegxl needs two packages .pip install imagecodecs numcodecs."):
        virtualize.open(JPEG.with_name("compression_jpegxl.tif"), decoded=True)["band_data"][...]
    np.testing.assert_array_equal(virtualize.open(JPEG, decoded=True)["band_data"][...], truth)
