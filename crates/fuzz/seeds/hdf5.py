"""Writes small HDF5 files, each with one feature, as seeds of the differential target: hdf5.py FOLDER."""
import os, sys

import h5py, numpy as np

FOLDER = sys.argv[1]


def file(name, libver="latest", **options):
    return h5py.File(os.path.join(FOLDER, name + ".h5"), "w", libver=libver, **options)


def chunk_indexes():
    """All chunk indexes, with and without a filter."""
    data = np.arange(24, dtype="<i2").reshape(4, 6)
    for libver in ("earliest", "v110", "latest"):
        for filters in ({}, {"compression": "gzip", "shuffle": True}, {"fletcher32": True}):
            kind = "_".join([libver, *map(str, filters)])
            for name, options in {
                "single": {"chunks": (4, 6)}, "fixed": {"chunks": (2, 2)}, "growing": {"chunks": (2, 4), "maxshape": (None, 6)},
                "both": {"chunks": (2, 4), "maxshape": (None, None)},
            }.items():
                with file(f"chunk_{name}_{kind}", libver) as f:
                    f.create_dataset("d", data=data, fillvalue=7, **options, **filters)
    for libver in ("earliest", "latest"):
        with file(f"chunk_sparse_{libver}", libver) as f:
            d = f.create_dataset("d", (9, 5), "<f4", chunks=(2, 2), maxshape=(None, 8), fillvalue=-1.5)
            d[2:4, 1:3] = 5
    with file("chunk_implicit") as f:
        create = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        create.set_chunk((2, 3))
        create.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        space = h5py.h5s.create_simple((4, 5))
        h5py.Dataset(h5py.h5d.create(f.id, b"d", h5py.h5t.STD_U16BE, space, create))[...] = 300
    for libver in ("earliest", "latest"):
        with file(f"chunk_many_{libver}", libver) as f:
            f.create_dataset("d", data=np.arange(90, dtype="u1"), chunks=(1,), maxshape=(None,))


def layouts():
    for libver in ("earliest", "latest"):
        with file(f"layouts_{libver}", libver) as f:
            f.create_dataset("contiguous", data=np.arange(5, dtype=">i4"))
            f.create_dataset("scalar", data=np.float64(2.5))
            f.create_dataset("unallocated", (3,), "<u2", fillvalue=9)
            create = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            create.set_layout(h5py.h5d.COMPACT)
            space = h5py.h5s.create_simple((3,))
            h5py.Dataset(h5py.h5d.create(f.id, b"compact", h5py.h5t.STD_I16LE, space, create))[...] = [1, 2, 3]
            f.create_dataset("empty", data=h5py.Empty("f4"))
            f.create_dataset("zero", (0, 3), "i1")
    with file("virtual") as f:
        f.create_dataset("source", data=np.arange(6, dtype="<i4"))
        layout = h5py.VirtualLayout((2, 6), "<i4")
        layout[1] = h5py.VirtualSource(".", "source", (6,))
        f.create_virtual_dataset("v", layout, fillvalue=-3)


def filters():
    data = (np.arange(30) % 7).astype("<i4").reshape(5, 6)
    for libver in ("earliest", "latest"):
        for name, options in {"szip": {"compression": "szip"}, "lzf": {"compression": "lzf"}, "scaleoffset": {"scaleoffset": 4},
                              "all": {"compression": 4, "shuffle": True, "fletcher32": True}}.items():
            with file(f"filter_{name}_{libver}", libver) as f:
                f.create_dataset("d", data=data, chunks=(4, 4), **options)
    with file("filter_nbit", "earliest") as f:
        kind = h5py.h5t.STD_I16LE.copy()
        kind.set_precision(11)
        kind.set_offset(3)
        create = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        create.set_chunk((3,))
        create.set_filter(h5py.h5z.FILTER_NBIT, h5py.h5z.FLAG_OPTIONAL)
        h5py.Dataset(h5py.h5d.create(f.id, b"d", kind, h5py.h5s.create_simple((5,)), create))[...] = [1, -2, 3, -4, 5]
    with file("filter_mask", "earliest") as f:
        d = f.create_dataset("d", (4,), "<u2", chunks=(2,), compression="gzip", shuffle=True)
        d.id.write_direct_chunk((0,), np.array([5, 6], "<u2").tobytes(), filter_mask=3)
        d[2:] = [7, 8]


def types():
    values = {
        "i1": np.array([-1, 2], "i1"), "u8": np.array([1, 2**63], "<u8"), "f2": np.array([1.5, -2], "<f2"), "f8": np.array([1, np.nan], ">f8"),
        "c8": np.array([1 + 2j, 3j], "<c8"), "text": np.array([b"ab", b"c"], "S4"), "bool": np.array([True, False]), "void": np.void(b"\1\2\3"),
    }
    for name, value in values.items():
        with file(f"type_{name}", "earliest") as f:
            f["d"] = value
    with file("type_vlen", "earliest") as f:
        f["d"] = ["a", "größer", ""]
        f.create_dataset("ascii", data=[b"x", b"yz"], dtype=h5py.string_dtype("ascii"))
    for name, pad in {"space": h5py.h5t.STR_SPACEPAD, "null": h5py.h5t.STR_NULLPAD, "term": h5py.h5t.STR_NULLTERM}.items():
        with file(f"type_string_{name}", "earliest") as f:
            kind = h5py.h5t.C_S1.copy()
            kind.set_size(4)
            kind.set_strpad(pad)
            id = h5py.h5d.create(f.id, b"d", kind, h5py.h5s.create_simple((2,)))
            id.write(h5py.h5s.ALL, h5py.h5s.ALL, np.frombuffer(b"a b c  \0", "S4"), kind)
    with file("type_compound", "earliest") as f:
        f["packed"] = np.array([(1, 2.5), (3, 4)], [("a", "<i2"), ("b", "<f4")])
        f["gaps"] = np.array([(1, b"x"), (3, b"y")], np.dtype({"names": ["a", "s"], "formats": [">i2", "S3"], "offsets": [0, 4], "itemsize": 9}))
    with file("type_compound_latest") as f:
        f["d"] = np.array([(1, (2, 3)), (3, (4, 5))], [("a", "<i2"), ("n", [("x", "<u1"), ("y", "<u1")])])
    with file("type_enum", "earliest") as f:
        f.create_dataset("d", data=[0, 5, 5], dtype=h5py.enum_dtype({"RED": 0, "GREEN": 5}, "<i2"))
    with file("type_array", "earliest") as f:
        f.create_dataset("d", (2,), np.dtype("(2,3)<i2"))[...] = np.arange(12).reshape(2, 2, 3)
    with file("type_reference", "earliest") as f:
        f["d"] = [1, 2]
        f.create_dataset("r", data=[f["d"].ref, f.ref], dtype=h5py.ref_dtype)
    with file("type_committed", "earliest") as f:
        f["t"] = np.dtype("<i4")
        f.create_dataset("d", data=[1, 2], dtype=f["t"])
    for name, kind in {"bfloat": (16, 7, 8, 0, 7, 15), "short_int": None}.items():
        with file(f"type_{name}", "earliest") as f:
            if kind:
                stored = h5py.h5t.IEEE_F32LE.copy()
                stored.set_fields(15, 7, 8, 0, 7)
                stored.set_precision(16)
                stored.set_size(2)
                stored.set_ebias(127)
            else:
                stored = h5py.h5t.STD_I32BE.copy()
                stored.set_precision(20)
                stored.set_offset(5)
            id = h5py.h5d.create(f.id, b"d", stored, h5py.h5s.create_simple((3,)))
            h5py.Dataset(id)[...] = [1, -2, 3]


def fills():
    for libver in ("earliest", "latest"):
        for time in (h5py.h5d.FILL_TIME_IFSET, h5py.h5d.FILL_TIME_NEVER, h5py.h5d.FILL_TIME_ALLOC):
            with file(f"fill_{libver}_{time}", libver) as f:
                create = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
                create.set_chunk((2,))
                create.set_fill_time(time)
                create.set_fill_value(np.array(-7, "<i4"))
                d = h5py.Dataset(h5py.h5d.create(f.id, b"d", h5py.h5t.STD_I32LE, h5py.h5s.create_simple((6,)), create))
                d[2:3] = 5


def links():
    for libver in ("earliest", "latest"):
        with file(f"links_{libver}", libver) as f:
            f["a/b/d"] = np.arange(3, dtype="<i2")
            f["hard"] = f["a/b/d"]
            f["soft"] = h5py.SoftLink("/a/b/d")
            f["a/cycle"] = f["/"]
            f["external"] = h5py.ExternalLink("missing.h5", "/d")
    for name, count in {"earliest": 12, "latest": 12}.items():
        with file(f"links_many_{name}", name) as f:
            for i in range(count):
                f[f"dataset_{i}"] = np.int16(i)
    with file("links_ordered", track_order=True) as f:
        for i in range(10):
            f[f"d{9 - i}"] = np.int8(i)


def attributes():
    for libver in ("earliest", "latest"):
        with file(f"attributes_{libver}", libver) as f:
            d = f.create_dataset("d", data=np.arange(4, dtype="<f4"), fillvalue=-9)
            d.attrs["_FillValue"] = np.float32(-9)
            d.attrs["units"] = "m"
            d.attrs["scale_factor"] = 0.5
            d.attrs["names"] = ["a", "b"]
            d.attrs["odd"] = np.array([(1, b"x")], [("a", "<i2"), ("s", "S1")])
    with file("attributes_dense") as f:
        d = f.create_dataset("d", data=[1, 2])
        for i in range(10):
            d.attrs[f"attribute_{i}"] = i
    with file("scales", "earliest") as f:
        f["x"] = np.arange(3, dtype="<f8")
        f["x"].make_scale("x")
        f.create_dataset("d", data=np.arange(6, dtype="<i2").reshape(2, 3))
        f["d"].dims[1].attach_scale(f["x"])


def user_block():
    with file("user_block", "earliest", userblock_size=512) as f:
        f["d"] = [1, 2, 3]


for write in (chunk_indexes, layouts, filters, types, fills, links, attributes, user_block):
    write()
