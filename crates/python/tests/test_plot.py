"""The picture of where chunks are."""

import subprocess
import sys
import time

import h5py
import matplotlib
import numpy as np
import pytest

import virtualize

matplotlib.use("agg")
BLUE = (11 / 255, 110 / 255, 153 / 255)


@pytest.fixture(autouse=True)
def closed_figures():
    import matplotlib.pyplot as plt

    yield
    plt.close("all")


def drawn(ax):
    """Return the pixels of the axes: a row for each line of pixels."""
    ax.set_axis_off()
    ax.set_title("")
    ax.get_legend().remove()
    ax.set_position((0, 0, 1, 1))
    ax.figure.set_layout_engine("none")
    ax.figure.canvas.draw()
    return np.asarray(ax.figure.canvas.buffer_rgba())[..., :3] / 255


@pytest.mark.parametrize("side", [4, pytest.param(100, marks=pytest.mark.slow)])
def test_chunks_are_drawn_where_h5py_finds_them(side, tmp_path):
    """Few chunks are drawn one by one, many in cells. Written backwards, they go from the right to the left."""
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as f:
        d = f.create_dataset("x", (side * 8, side * 8), "f4", chunks=(8, 8))
        for n in reversed(range(side * side)):
            d.id.write_direct_chunk((n // side * 8, n % side * 8), bytes(256))
        chunks = [d.id.get_chunk_info(n) for n in range(side * side)]
        expected = {c.chunk_offset[0] // 8 * side + c.chunk_offset[1] // 8: c.byte_offset + 128 for c in chunks}
    size = (tmp_path / "a.h5").stat().st_size
    pixels = drawn(virtualize.plot_chunks(virtualize.open(tmp_path / "a.h5"), "x"))
    height, width = pixels.shape[:2]
    for position, middle in list(expected.items())[:: max(1, side * side // 50)]:
        row, column = int((position + 0.5) / side**2 * height), int(middle / size * width)
        near = pixels[max(row - 2, 0) : row + 3, max(column - 2, 0) : column + 3].reshape(-1, 3)
        assert np.abs(near - BLUE).sum(axis=1).min() < 0.9, position
        other = pixels[row, (column + width // 2) % width]
        assert np.ptp(other) < 0.02, "elsewhere it is grey"


def test_the_title_counts_what_is_not_drawn(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.create_dataset("x", (40,), "f4", chunks=(10,))[:15] = 1
        f.create_dataset("text", data=["a", "b"], dtype=h5py.string_dtype())
        f.create_dataset("never", (10,), "i2", chunks=(5,))
    store = virtualize.open(tmp_path / "a.h5")
    title = virtualize.plot_chunks(store, "/x").get_title("left")
    assert title == "x in a.h5\n2 chunks, 80 bytes, 2 missing"
    assert "1 inline" in virtualize.plot_chunks(store, "text").get_title("left")
    assert "2 missing" in virtualize.plot_chunks(store, "never").get_title("left")
    with pytest.raises(virtualize.NotFoundError):
        virtualize.plot_chunks(store, "y")


@pytest.mark.parametrize("name", ["hdf5/layouts.h5", "hdf5/netcdf4.nc", "tiff/cog.tif", "tiff/sparse_tiles.tif", "hdf5/dimensions.nc"])
def test_every_array_can_be_drawn(name, fixtures):
    import json

    import matplotlib.pyplot as plt

    store = virtualize.open(fixtures / name)
    ax = plt.subplots()[1]
    for key, text in store._file.documents().items():
        if json.loads(text)["node_type"] == "array":
            assert virtualize.plot_chunks(store, key.removesuffix("/zarr.json"), ax) is ax
            ax.figure.canvas.draw()
            ax.clear()


def test_a_million_chunks_take_less_than_two_seconds(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as f:
        f.create_dataset("x", (1_000_000,), "u1", chunks=(1,), dcpl=early())
    store = virtualize.open(tmp_path / "a.h5")
    assert store.manifest("x").length.sum() == 1_000_000
    start = time.process_time()
    virtualize.plot_chunks(store, "x")
    assert time.process_time() - start < 2


def early():
    """Return the properties of a dataset whose chunks are allocated when it is created."""
    dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    dcpl.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    dcpl.set_chunk((1,))
    return dcpl


def test_without_matplotlib_the_error_says_what_to_install(fixtures):
    code = f"""
import sys
sys.modules["matplotlib"] = sys.modules["matplotlib.pyplot"] = None
import virtualize
try:
    virtualize.plot_chunks(virtualize.open({str(fixtures / "hdf5/chunked.h5")!r}), "temperature")
except virtualize.OptionError as error:
    assert "pip install virtualize[plot]" in str(error), error
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", code], check=True)
