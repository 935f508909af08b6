"""Virtual datasets, compared with h5py on the original."""
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
    """Mappings as (key of the destination, file, dataset, shape of the source, key of the source)."""
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
        # Omitted.
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
          "missing_file", "all_missing", "unmapped", "other_fill", "part_fill", "same_fill", "below", "same_file", "here",
          "edges", "shifted", "mixed", "overlapping", "pattern", "no_dataset", "growing", "from_nothing"}
OMITTED = {"outside", "other_type"}


def compare(path, fmt, names):
    import zarr
    run = convert(path, fmt)
    group = zarr.open_group(clients.open_store(run.references), mode="r", zarr_format=FORMATS[fmt])
    with h5py.File(path) as f:
        for name in sorted(names & set(group.array_keys())):
            np.testing.assert_array_equal(group[name][...], f[name][...], err_msg=name, strict=True)
    assert set(group.array_keys()) == names, run.stderr
    return {path[1:] for path, code in run.codes if code == "array-omitted"}, run


@pytest.mark.parametrize("fmt", FORMATS)
def test_values_are_those_of_the_sources(original, fmt):
    omitted, run = compare(original / "v.h5", fmt, MAPPED)
    assert omitted == OMITTED, run.stderr
    assert {path for path, code in run.codes if code == "source-missing"} == {"/missing_file", "/all_missing", "/no_dataset"}


@pytest.mark.parametrize("fmt", FORMATS)
def test_virtual_datasets_of_virtual_datasets(original, fmt):
    assert compare(original / "nested.h5", fmt, {"nested"})[0] == {"loop"}


def select(space, start, stride, count, block):
    space.select_hyperslab(start, count, stride, block)


def virtual(f, name, shape, most, mappings, dtype=h5py.h5t.STD_I32LE, fill=None):
    """Mappings as (destination (start, stride, count, block), file, dataset, shape of the source, the same of the source)."""
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    if fill is not None:
        properties.set_fill_value(np.array(fill))
    space = h5py.h5s.create_simple(shape, most)
    for to, file, dataset, there, key in mappings:
        select(space, *to)
        source = h5py.h5s.create_simple(there, (h5py.h5s.UNLIMITED,) * len(there))
        if key:
            select(source, *key)
        properties.set_virtual(space, file.encode(), dataset.encode(), source)
    h5py.h5d.create(f.id, name.encode(), dtype, h5py.h5s.create_simple(shape, most), properties)


@pytest.fixture(scope="module")
def endless(tmp_path_factory):
    """Unlimited selections, and numbered sources."""
    folder, more = tmp_path_factory.mktemp("endless"), h5py.h5s.UNLIMITED
    for n in (0, 1, 2, 4):
        source(folder / f"s{n}.h5", RNG.integers(1, 100, (5 + 2 * n, 4)).astype("<i4"), maxshape=(None, 4), chunks=(2, 4))
        source(folder / f"s{n}.h5", RNG.integers(1, 100, (4, 3 + n)).astype("<i4"), "wide", maxshape=(None, None), chunks=(2, 2))
        source(folder / f"p%{n}.h5", RNG.integers(1, 100, (3, 4)).astype("<i4"))
        source(folder / "one.h5", RNG.integers(1, 100, (3, 4)).astype("<i4"), f"d{n}")
    with h5py.File(folder / "e.h5", "w") as f:
        everything = ((0, 0), (1, 1), (more, 1), (1, 4))
        interleaved = [(((n, 0), (3, 1), (more, 1), (1, 4)), f"s{n}.h5", "x", (5 + 2 * n, 4), everything) for n in range(3)]
        virtual(f, "interleaved", (0, 4), (more, 4), interleaved, fill=np.int32(-1))
        blocks = ((1, 0), (5, 1), (more, 1), (2, 4))
        virtual(f, "blocks", (0, 4), (more, 4), [(blocks, "s2.h5", "x", (9, 4), everything)], fill=np.int32(-2))
        virtual(f, "blocks_of_blocks", (3, 4), (more, 4), [(blocks, "s4.h5", "x", (13, 4), ((1, 0), (4, 1), (more, 1), (3, 4)))])
        last = ((0, 0), (1, 1), (1, 1), (4, more))
        virtual(f, "last_axis", (4, 1), (4, more), [(last, "s1.h5", "wide", (4, 4), last)])
        virtual(f, "last_axis_by_column", (4, 1), (4, more), [(((0, 0), (1, 1), (1, more), (4, 1)), "s1.h5", "wide", (4, 4), last)])
        limited = (((10, 0), (1, 1), (1, 1), (3, 4)), "p%%0.h5", "x", (3, 4), None)
        virtual(f, "least", (13, 4), (more, 4), [(((0, 0), (1, 1), (more, 1), (1, 4)), "s0.h5", "x", (5, 4), everything), limited])
        virtual(f, "missing", (20, 4), (more, 4), [(((0, 0), (1, 1), (more, 1), (1, 4)), "none.h5", "x", (5, 4), everything), limited])
        virtual(f, "nothing", (7, 4), (more, 4), [(((0, 0), (1, 1), (more, 1), (1, 4)), "none.h5", "x", (5, 4), everything)])
        for name, file, dataset in (("files", "p%%%b.h5", "x"), ("datasets", "one.h5", "d%b"), ("no_files", "q%b.h5", "x")):
            virtual(f, name, (0, 4), (more, 4), [(((1, 0), (5, 1), (more, 1), (3, 4)), file, dataset, (3, 4), None)], fill=np.int32(9))
        virtual(f, "settled", (13, 4), (more, 4), [(((0, 0), (1, 1), (more, 1), (1, 4)), "s4.h5", "x", (13, 4), everything)])
        virtual(f, "too_long", (2, 4), (6, 4), [(((0, 0), (1, 1), (more, 1), (1, 4)), "s4.h5", "x", (13, 4), everything)])
        f["own0"], f["own1"] = np.arange(12, dtype="<i4").reshape(3, 4), np.ones((3, 4), "<i4")
        virtual(f, "own", (0, 4), (more, 4), [(((0, 0), (3, 1), (more, 1), (3, 4)), ".", "own%b", (3, 4), None)])
    with h5py.File(folder / "outer.h5", "w") as f:
        virtual(f, "of_settled", (0, 4), (more, 4), [(everything, "e.h5", "settled", (13, 4), everything)])
        virtual(f, "of_end", (15, 4), (15, 4), [(((2, 0), (1, 1), (1, 1), (13, 4)), "e.h5", "settled", (13, 4), None)])
        # libhdf5 does not notice that these have grown.
        virtual(f, "of_endless", (0, 4), (more, 4), [(everything, "e.h5", "interleaved", (0, 4), everything)])
        virtual(f, "of_a_part", (5, 4), (5, 4), [(((0, 0), (1, 1), (1, 1), (4, 4)), "e.h5", "files", (5, 4), ((0, 0), (1, 1), (1, 1), (4, 4)))])
        virtual(f, "loop", (1, 4), (more, 4), [(everything, "outer.h5", "loop", (1, 4), everything)])
    return folder


@pytest.mark.parametrize("fmt", FORMATS)
def test_the_extent_follows_from_the_sources(endless, fmt):
    with h5py.File(endless / "e.h5") as f:
        names = set(f)
        assert f["files"].shape == (14, 4) and f["least"].shape == (13, 4) and f["interleaved"].shape[0] > 20
    omitted, run = compare(endless / "e.h5", fmt, names - {"too_long"})
    assert omitted == {"too_long"}, run.stderr
    assert compare(endless / "outer.h5", fmt, {"of_settled", "of_end"})[0] == {"of_endless", "of_a_part", "loop"}


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """Sources whose chunks have to be inlined, and non-numeric types."""
    folder = tmp_path_factory.mktemp("odd")
    gaps = np.dtype({"names": ["a", "b"], "formats": ["<i2", "<f8"], "offsets": [0, 8], "itemsize": 16})
    with h5py.File(folder / "s.h5", "w") as f:
        f["text"] = np.array([f"Text {n}" if n % 3 else "" for n in range(12)], object).reshape(3, 4)
        f.create_dataset("chunked_text", data=np.array([f"ü{n}" for n in range(12)], object).reshape(3, 4), dtype=h5py.string_dtype(), chunks=(2, 3), compression="gzip")
        f["fixed"] = np.array([b"ab", b"cde", b"f"])
        f["gaps"] = np.array([(n, n / 2) for n in range(6)], gaps)
        f.create_dataset("arrays", data=np.arange(24, dtype="<f4").reshape(4, 2, 3)[:, 0], dtype=np.dtype(("<f4", (3,))).base)
        f.create_dataset("offset", data=np.arange(60, dtype="<i4").reshape(6, 10), chunks=(4, 5), scaleoffset=0)
        masked = f.create_dataset("masked", data=np.arange(60, dtype="<i4").reshape(6, 10), chunks=(2, 5), compression="gzip")
        masked.id.write_direct_chunk((2, 5), np.full((2, 5), -7, "<i4").tobytes(), filter_mask=1)
        f["ref"] = np.array([f["text"].ref], h5py.ref_dtype)
        f.create_dataset("lzf", data=np.arange(60, dtype="<i4").reshape(6, 10), chunks=(2, 5), compression="lzf")
    with h5py.File(folder / "o.h5", "w") as f:
        all_ = np.s_[...]
        text = h5py.string_dtype()
        build(f, "text", (8, 4), text, [(np.s_[1:4], "s.h5", "text", (3, 4), all_), (np.s_[5:8], "s.h5", "chunked_text", (3, 4), all_)])
        build(f, "text_row", (2, 4), text, [(1, "s.h5", "text", (3, 4), 2)])
        build(f, "fixed", (6,), "S3", [(np.s_[1::2], "s.h5", "fixed", (3,), all_)])
        build(f, "gaps", (9,), gaps, [(np.s_[2:8], "s.h5", "gaps", (6,), all_)])
        build(f, "offset", (7, 10), "<i4", [(np.s_[1:], "s.h5", "offset", (6, 10), all_)])
        build(f, "offset_alike", (6, 10), "<i4", [(all_, "s.h5", "offset", (6, 10), all_)])
        build(f, "masked", (12, 10), "<i4", [(np.s_[:6], "s.h5", "masked", (6, 10), all_), (np.s_[6:], "s.h5", "lzf", (6, 10), all_)], fill=3)
        build(f, "masked_shifted", (7, 10), "<i4", [(np.s_[1:], "s.h5", "masked", (6, 10), all_)], fill=3)
        build(f, "covered", (6, 10), "<i4", [(all_, "s.h5", "lzf", (6, 10), all_), (np.s_[1:3, 3:7], "s.h5", "masked", (6, 10), np.s_[2:4, 4:8]), (5, "s.h5", "offset", (6, 10), 0)])
        build(f, "covered_by_missing", (6, 10), "<i4", [(all_, "s.h5", "lzf", (6, 10), all_), (np.s_[1:3], "none.h5", "x", (2, 10), all_)], fill=-4)
        build(f, "last", (6,), "<i4", [(all_, "s.h5", "lzf", (6, 10), np.s_[:, 3])])
        build(f, "ref", (1,), h5py.ref_dtype, [(all_, "s.h5", "ref", (1,), all_)])
    return folder / "o.h5"


@pytest.mark.parametrize("fmt", FORMATS)
def test_chunks_of_sources_that_are_made(odd, fmt):
    import zarr
    run = convert(odd, fmt)
    group = zarr.open_group(clients.open_store(run.references), mode="r", zarr_format=FORMATS[fmt])
    with h5py.File(odd) as f:
        names = set(f) - {"ref"}
        assert set(group.array_keys()) == names, run.stderr
        for name in sorted(names - {"gaps"}):
            expected = f[name].asstr()[...] if h5py.check_string_dtype(f[name].dtype) and name != "fixed" else f[name][...]
            assert not (why := clients.same_values(expected, group[name][...])), f"{name}: {why}"
        assert group["gaps"][...].tolist() == f["gaps"][...].tolist()


@pytest.mark.parametrize("fmt", FORMATS)
def test_no_more_is_made_than_the_limit_allows(original, fmt):
    run = clients.virtualize(original / "v.h5", "--format", fmt, "--option", "inline-limit=60")
    omitted = {path for path, code in run.codes if code == "array-omitted"}
    assert {path[1:] for path in omitted} >= {"shifted", "mixed", "other_fill"} and "/chunked" not in omitted, run.stderr
