"""Inlining on request: the same values, kerchunk's choice of chunks, limits that are enforced."""
import base64

import clients
import h5py
import numpy as np
import pytest
import zarr
from clients import FIXTURES, FORMATS, virtualize

FILES = ["hdf5/chunked.h5", "hdf5/netcdf4.nc", "hdf5/types.h5", "hdf5/filters.h5", "hdf5/layouts.h5", "hdf5/filter_masks.h5", "tiff/cog.tif", "tiff/tiles.tif"]


def chunk_keys(refs):
    return {key: value for key, value in refs.items() if not key.rpartition("/")[2].startswith((".z", "zarr.json"))}


@pytest.mark.parametrize("below", [100, 1000, 1 << 30])
@pytest.mark.parametrize("file", FILES)
def test_chunks_below_are_inline_and_hold_the_bytes_of_the_file(file, fmt, below):
    plain = chunk_keys(clients.convert(FIXTURES / file, fmt).references["refs"])
    run = virtualize(FIXTURES / file, "--format", fmt, "--inline", below)
    assert run.status == 0, run.stderr
    inline = chunk_keys(run.references["refs"])
    assert list(inline) == list(plain)
    for key, value in plain.items():
        is_coordinate = key.partition("/")[0] in ("time", "level", "lat", "lon")
        if isinstance(value, str) or value[2] >= below and not is_coordinate:
            assert inline[key] == value, key
            continue
        url, offset, length = value
        with open(url.removeprefix("file://"), "rb") as f:
            f.seek(offset)
            stored = f.read(length)
        text = inline[key]
        assert (base64.b64decode(text[7:]) if text.startswith("base64:") else text.encode()) == stored, key


@pytest.mark.parametrize("file", FILES)
def test_values_stay_the_same(file, fmt):
    before = clients.open_store(clients.convert(FIXTURES / file, fmt).references)
    run = virtualize(FIXTURES / file, "--format", fmt, "--inline", 1 << 30)
    after = clients.open_store(run.references, protocol="memory")
    for path, kind in clients.nodes(run.references, FORMATS[fmt]).items():
        if kind == "array":
            one, other = (zarr.open_array(store, path=path, mode="r", zarr_format=FORMATS[fmt]) for store in (before, after))
            assert clients.same_bits(one[...], other[...]) is None, path


@pytest.fixture(scope="module")
def coordinates(tmp_path_factory):
    path = tmp_path_factory.mktemp("coordinates") / "c.nc"
    with h5py.File(path, "w") as f:
        for at in (f, f.create_group("g")):
            for name, size in (("x", 5), ("y", 3)):
                at[name] = np.arange(size, dtype="f8") + 0.5
                at[name].make_scale(name)
            at["v"] = np.arange(15, dtype="i2").reshape(3, 5)
            at["v"].dims[0].attach_scale(at["y"])
            at["v"].dims[1].attach_scale(at["x"])
        f["lat"], f["lon"], f["other"] = (np.full((3, 5), n, "f4") for n in (1, 2, 3))
        f["g/height"] = np.full((3, 5), 4, "f4")
        f["v"].attrs["coordinates"] = "lat missing\tlon"
        f["g/v"].attrs["coordinates"] = "height lat /lon"
    return path


def inlined(refs):
    found = {}
    for key, value in chunk_keys(refs).items():
        found.setdefault(key.split("/c/")[0] if "/c/" in key else key.rpartition("/")[0], set()).add(isinstance(value, str))
    return {path for path, kinds in found.items() if kinds == {True}}


def test_coordinates_are_inline_whatever_their_size(coordinates, fmt):
    run = virtualize(coordinates, "--format", fmt, "--inline", "1")
    assert inlined(run.references["refs"]) == {"x", "y", "lat", "lon", "g/x", "g/y", "g/height"}, run.stderr
    store = clients.open_store(run.references, protocol="memory")
    with h5py.File(coordinates) as f:
        for path in ("x", "lat", "g/height"):
            seen = zarr.open_array(store, path=path, mode="r", zarr_format=FORMATS[fmt])[...]
            np.testing.assert_array_equal(seen, f[path][...])


def test_the_total_holds(coordinates, fmt):
    """x takes 40 + 128 bytes, y takes 24 + 128 bytes: an array that exceeds the limit stays referenced, the next one may be inlined."""
    run = virtualize(coordinates, "--format", fmt, "--inline", "1", "--option", "inline-total=160")
    assert len(inlined(run.references["refs"])) == 1 and ("/x", "inline-total") in run.codes
    assert virtualize(coordinates, "--inline", "1", "--option", "inline-total=160", "--strict").status == 1


def test_chunks_of_other_files_too(tmp_path, fmt):
    with h5py.File(tmp_path / "v.h5", "w") as f:
        f.create_dataset("v", (4,), "<i4", external=[("raw.bin", 0, 16)])
    (tmp_path / "raw.bin").write_bytes(np.arange(4, dtype="<i4").tobytes())
    run = virtualize(tmp_path / "v.h5", "--format", fmt, "--inline", "17")
    assert inlined(run.references["refs"]) == {"v"}, run.stderr
    store = clients.open_store(run.references, protocol="memory")
    np.testing.assert_array_equal(zarr.open_array(store, path="v", mode="r", zarr_format=FORMATS[fmt])[...], np.arange(4))


def test_a_chunk_past_the_end_stays_a_reference(tmp_path):
    """The last chunk is truncated. It is not padded."""
    whole = (FIXTURES / "tiff/tiles.tif").read_bytes()
    refs = chunk_keys(clients.convert(FIXTURES / "tiff/tiles.tif", "kerchunk-json").references["refs"])
    last = max((value for value in refs.values() if isinstance(value, list)), key=lambda value: value[1])
    assert last[1] + last[2] == len(whole)
    (tmp_path / "a.tif").write_bytes(whole[:-1])
    run = virtualize(tmp_path / "a.tif", "--inline", "1G")
    assert run.status == 1 or any(isinstance(value, list) for value in chunk_keys(run.references["refs"]).values())
