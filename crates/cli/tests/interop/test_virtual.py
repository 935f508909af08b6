"""Virtual datasets, beside h5py on the original."""
import clients
import h5py
import numpy as np
import pytest
from clients import FORMATS, convert

RNG = np.random.default_rng(7)


def source(path, data, name="x", **options):
    with h5py.File(path, "a") as f:
        f.create_dataset(name, data=data, **options)


def build(f, name, shape, dtype, mappings, fill=None):
    """Each mapping: destination key, file, dataset, shape of the source, key of the source."""
    layout = h5py.VirtualLayout(shape=shape, dtype=dtype)
    for to, file, dataset, source_shape, key in mappings:
        layout[to] = h5py.VirtualSource(file, dataset, shape=source_shape)[key]
    f.create_virtual_dataset(name, layout, fillvalue=fill)


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("virtual") / "in"
    (folder / "below").mkdir(parents=True)
    all_ = np.s_[...]
    for n in range(4):
        data = RNG.integers(1, 100, (6, 10)).astype("<i4")
        source(folder / f"c{n}.h5", data, chunks=(2, 5), compression="gzip", shuffle=True)
        source(folder / f"c{n}.h5", data[:, ::-1], "plain")
        source(folder / f"c{n}.h5", data[0] + 7, "row")
        source(folder / f"c{n}.h5", RNG.random((5 - n, 10)), "uneven")
        source(folder / f"c{n}.h5", data[:5], "five", chunks=(2, 5))
    source(folder / "below" / "b.h5", RNG.integers(1, 100, (6, 10)).astype("<i4"), chunks=(2, 5), compression="gzip", shuffle=True)
    source(folder.parent / "outside.h5", np.ones((6, 10), "<i4"), chunks=(2, 5))
    source(folder / "big.h5", np.ones((6, 10), ">i4"), chunks=(2, 5))
    with h5py.File(folder / "empty.h5", "w") as f:
        f.create_dataset("x", (6, 10), "<i4", chunks=(2, 5), compression="gzip", shuffle=True, fillvalue=-9)
        f.create_dataset("same", (6, 10), "<i4", chunks=(2, 5), fillvalue=5)
        part = f.create_dataset("part", (6, 10), "<i4", chunks=(2, 5), fillvalue=-9)
        part[:2, 5:] = 3
    with h5py.File(folder / "v.h5", "w") as f:
        def four(name, dataset, n=6, **options):
            build(f, name, (4 * n, 10), "<i4", [(np.s_[n * i:n * i + n], f"c{i}.h5", dataset, (n, 10), all_) for i in range(4)], **options)

        four("chunked", "x")
        four("contiguous", "plain")
        four("edges", "five", 5)
        build(f, "stacked", (4, 6, 10), "<i4", [(i, f"c{i}.h5", "x", (6, 10), all_) for i in range(4)])
        build(f, "rows", (4, 10), "<i4", [(i, f"c{i}.h5", "row", (10,), all_) for i in range(4)])
        build(f, "last_short", (5, 10), "<i4", [(np.s_[:], "c0.h5", "five", (5, 10), all_)])
        starts = np.cumsum([0, 5, 4, 3, 2])
        build(f, "uneven", (14, 10), "<f8", [(np.s_[starts[i]:starts[i + 1]], f"c{i}.h5", "uneven", (5 - i, 10), all_) for i in range(4)])
        build(f, "interleaved", (12, 10), "<i4", [(np.s_[i::2], f"c{i}.h5", "plain", (6, 10), all_) for i in range(2)])
        build(f, "part_of_source", (4, 5), "<i4", [(all_, "c1.h5", "x", (6, 10), np.s_[2:6, 5:])])
        build(f, "missing_file", (12, 10), "<i4", [(np.s_[:6], "c0.h5", "x", (6, 10), all_), (np.s_[6:], "none.h5", "x", (6, 10), all_)], fill=-1)
        build(f, "all_missing", (12, 10), "<i4", [(np.s_[:6], "none1.h5", "x", (6, 10), all_), (np.s_[6:], "none.h5", "x", (6, 10), all_)], fill=-1)
        build(f, "unmapped", (12, 10), "<i4", [(np.s_[4:10], "c0.h5", "x", (6, 10), all_)], fill=-5)
        build(f, "other_fill", (12, 10), "<i4", [(np.s_[:6], "c0.h5", "x", (6, 10), all_), (np.s_[6:], "empty.h5", "x", (6, 10), all_)], fill=4)
        build(f, "part_fill", (12, 10), "<i4", [(np.s_[6:], "empty.h5", "part", (6, 10), all_)], fill=4)
        build(f, "same_fill", (6, 10), "<i4", [(all_, "empty.h5", "same", (6, 10), all_)], fill=5)
        build(f, "below", (6, 10), "<i4", [(all_, "below/b.h5", "x", (6, 10), all_)])
        f["here"] = np.arange(20, dtype="<i4").reshape(4, 5)
        build(f, "same_file", (2, 4, 5), "<i4", [(1, ".", "here", (4, 5), all_)], fill=8)
        # left out
        build(f, "shifted", (7, 10), "<i4", [(np.s_[1:], "c0.h5", "x", (6, 10), all_)])
        build(f, "mixed", (12, 10), "<i4", [(np.s_[:6], "c0.h5", "x", (6, 10), all_), (np.s_[6:], "c0.h5", "plain", (6, 10), all_)])
        build(f, "overlapping", (8, 10), "<i4", [(np.s_[:6], "c0.h5", "x", (6, 10), all_), (np.s_[2:], "c1.h5", "x", (6, 10), all_)])
        build(f, "outside", (6, 10), "<i4", [(all_, "../outside.h5", "x", (6, 10), all_)])
        build(f, "other_type", (6, 10), "<i4", [(all_, "big.h5", "x", (6, 10), all_)])
        space = h5py.h5s.create_simple((6, 10), (h5py.h5s.UNLIMITED, 10))
        space.select_hyperslab((0, 0), (h5py.h5s.UNLIMITED, 1), (6, 1), (6, 10))
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_virtual(space, b"c%b.h5", b"x", h5py.h5s.create_simple((6, 10)))
        h5py.h5d.create(f.id, b"pattern", h5py.h5t.STD_I32LE, space, properties)
        space = h5py.h5s.create_simple((0, 10), (h5py.h5s.UNLIMITED, 10))
        space.select_hyperslab((0, 0), (h5py.h5s.UNLIMITED, 1), (6, 1), (6, 10))
        h5py.h5d.create(f.id, b"from_nothing", h5py.h5t.STD_I32LE, space, properties)
        build(f, "no_dataset", (6, 10), "<i4", [(all_, "c0.h5", "nowhere", (6, 10), all_)])
        growing = h5py.VirtualLayout(shape=(6, 10), dtype="<i4", maxshape=(None, 10))
        growing[:h5py.h5s.UNLIMITED] = h5py.VirtualSource("c0.h5", "x", shape=(6, 10), maxshape=(None, 10))[:h5py.h5s.UNLIMITED]
        f.create_virtual_dataset("growing", growing)
    with h5py.File(folder / "nested.h5", "w") as f:
        build(f, "nested", (24, 10), "<i4", [(all_, "v.h5", "chunked", (24, 10), all_)])
        build(f, "loop", (6, 10), "<i4", [(all_, "nested.h5", "loop", (6, 10), all_)])
    return folder


MAPPED = {"chunked", "contiguous", "stacked", "rows", "last_short", "uneven", "interleaved", "part_of_source",
          "missing_file", "all_missing", "unmapped", "other_fill", "part_fill", "same_fill", "below", "same_file", "here"}
LEFT_OUT = {"edges", "shifted", "mixed", "overlapping", "outside", "other_type", "pattern", "no_dataset", "growing", "from_nothing"}


def compare(path, fmt, names):
    import zarr
    run = convert(path, fmt)
    group = zarr.open_group(clients.open_store(run.references), mode="r", zarr_format=FORMATS[fmt])
    with h5py.File(path) as f:
        for name in names & set(group.array_keys()):
            np.testing.assert_array_equal(group[name][...], f[name][...], err_msg=name)
    assert set(group.array_keys()) == names, run.stderr
    return {path[1:] for path, code in run.codes if code == "array-left-out"}, run


@pytest.mark.parametrize("fmt", FORMATS)
def test_values_are_those_of_the_sources(original, fmt):
    left_out, run = compare(original / "v.h5", fmt, MAPPED)
    assert left_out == LEFT_OUT, run.stderr
    assert {path for path, code in run.codes if code == "source-missing"} == {"/missing_file", "/all_missing"}


@pytest.mark.parametrize("fmt", FORMATS)
def test_virtual_datasets_of_virtual_datasets(original, fmt):
    assert compare(original / "nested.h5", fmt, {"nested"})[0] == {"loop"}
