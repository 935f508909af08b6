"""Writes the files beside this script with h5py 3.16 (HDF5 2.0). The expectations in tests/it/files.rs repeat what is written here."""

import h5py
import numpy as np


def common(f):
    d = f.create_dataset("g/chunked", data=np.arange(100.0).reshape(10, 10), chunks=(5, 4), compression="gzip",
                         shuffle=True, maxshape=(None, 10), fillvalue=-1.5)
    d.attrs["text"] = "variable"
    d.attrs["texts"] = ["a", "", "ccc"]
    d.attrs["fixed"] = np.bytes_("ab")
    d.attrs["self"] = d.ref
    f.create_dataset("g/contiguous", data=np.arange(6, dtype=">i2").reshape(2, 3))
    f.create_dataset("g/empty", shape=(4,), dtype="u1")
    f.create_dataset("scalar", data=np.int64(-7))
    sequence = np.empty(2, object)
    sequence[0], sequence[1] = np.arange(3, dtype="i4"), np.arange(1, dtype="i4")
    f.attrs.create("sequences", sequence, dtype=h5py.vlen_dtype("i4"))
    pair = np.dtype([("x", "f4"), ("n", [("s", "S3"), ("k", "i1", (2,))])])
    f.attrs["pairs"] = np.array([(0.5, (b"abc", [1, -2]))], pair)
    f.attrs.create("flag", np.array([True, False]))
    f["soft"] = h5py.SoftLink("/g/chunked")
    f["external"] = h5py.ExternalLink("other.h5", "/a")
    f["again"] = f["g/contiguous"]


with h5py.File("old.h5", "w", libver="earliest", userblock_size=512) as f:
    common(f)

with h5py.File("latest.h5", "w", libver="latest", track_order=True) as f:
    common(f)
    f["type"] = np.dtype("<f8")
    f.create_dataset("typed", shape=(2,), dtype=f["type"])
    many = f.create_group("many")
    for i in range(12):
        many[f"link{i:02}"] = h5py.SoftLink(f"/{i}")
        many.attrs[f"attribute{i:02}"] = i * 1.5
    for name, state in [("undefined", h5py.h5d.FILL_TIME_NEVER), ("fixed", None), ("rows", None)]:
        shape = {"undefined": (4,), "fixed": (30,), "rows": (6, 2)}[name]
        limit = {"undefined": (4,), "fixed": (30,), "rows": (None, None)}[name]
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk(tuple(min(n, 2) for n in shape))
        if state is not None:
            plist.set_fill_time(state)
        space = h5py.h5s.create_simple(shape, tuple(h5py.h5s.UNLIMITED if n is None else n for n in limit))
        data = h5py.h5d.create(f.id, name.encode(), h5py.h5t.STD_I32LE, space, plist)
        data.write(h5py.h5s.ALL, h5py.h5s.ALL, np.arange(np.prod(shape), dtype="i4").reshape(shape))

# Metadata in pages, with groups and dense attributes.
with h5py.File("paged.h5", "w", libver="latest", fs_strategy="page", fs_page_size=1 << 15) as f:
    for g in range(4):
        group = f.create_group(f"a{g}/b/c")
        for k in range(6):
            d = group.create_dataset(f"v{k}", data=np.arange(12, dtype="i2"), chunks=(5,), maxshape=(None,))
            for j in range(10):
                d.attrs[f"attribute{j}"] = f"value {j} of {k}"
