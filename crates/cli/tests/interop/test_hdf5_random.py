"""Random HDF5 structures and sequences, through references, compared with h5py on the original. More of them: RANDOM_HDF5=100."""
import random

import clients
import h5py
import numpy as np
import pytest
import zarr
from clients import FORMATS

pytestmark = pytest.mark.slow

SEEDS = clients.seeds("RANDOM_HDF5", 3, 3)
EACH = 12
NUMBERS = ["i1", "u1", "<i2", ">i2", "<u4", ">i4", "<i8", ">u8", "<f2", "<f4", ">f4", "<f8", ">f8", "<c8", ">c16"]
TYPES = {}  # of datasets whose types h5py cannot name
TEXT = ["", "a", "grüße", "text with blanks  ", "日本語", "x" * 40, "tab\t", "é" * 7]


def member(pick, depth):
    """Returns a random type of a member."""
    kind = pick.random()
    if kind < .2:
        return h5py.string_dtype()
    if kind < .27:
        return h5py.ref_dtype
    if kind < .34:
        return np.dtype(f"S{pick.randint(1, 9)}")
    if kind < .4:
        return h5py.enum_dtype({"A": 0, "B": 1, "C": 5}, pick.choice(["u1", "<i2", ">i4"]))
    if kind < .45:
        return np.dtype("?")
    if kind < .5:
        return np.dtype(f"V{pick.randint(1, 6)}")
    if kind < .62 and depth:
        return structure(pick, depth - 1)
    return np.dtype(pick.choice(NUMBERS))


def structure(pick, depth=2):
    """Returns a random structure, with gaps in some."""
    names = pick.sample(["a", "b", "name", "β", "x y", "time", "id", "0"], pick.randint(1, 5))
    members = [member(pick, depth) for _ in names]
    if pick.random() < .5:
        return np.dtype(list(zip(names, members)))
    offsets, at = [], 0
    for kind in members:
        at += pick.choice([0, 0, 1, 4])
        offsets.append(at)
        at += kind.itemsize
    return np.dtype({"names": names, "formats": members, "offsets": offsets, "itemsize": at + pick.choice([0, 3])})


def stored(pick, kind):
    """Returns a type of the file for values of a NumPy type: unused bits, other paddings and float formats."""
    if kind.names:
        made, at = h5py.h5t.create(h5py.h5t.COMPOUND, 1), 0
        for name in kind.names:
            part = stored(pick, kind[name])
            at += pick.choice([0, 0, 3])
            made.set_size(at + part.get_size())
            made.insert(name.encode(), at, part)
            at += part.get_size()
        return made
    made = h5py.h5t.py_create(kind, logical=True)
    if kind.kind == "O" or h5py.check_enum_dtype(kind) or pick.random() < .4:
        return made
    if kind.kind in "iu" and kind.itemsize > 1:
        bits = pick.randint(kind.itemsize * 4 + 1, kind.itemsize * 8)
        made.set_precision(bits)
        made.set_offset(pick.randint(0, kind.itemsize * 8 - bits))
        # The byte order stays: libhdf5's conversion to another one ignores unused bits (H5T__conv_order).
    elif kind.kind == "f":
        made = pick.choice([bfloat, h5py.h5t.NATIVE_LDOUBLE.copy, h5py.h5t.IEEE_F64BE.copy])()
    elif kind.kind == "S":
        made.set_strpad(pick.choice([h5py.h5t.STR_NULLTERM, h5py.h5t.STR_SPACEPAD]))
    return made


def bfloat():
    """The upper half of a 32-bit float."""
    made = h5py.h5t.IEEE_F32LE.copy()
    made.set_fields(15, 7, 8, 0, 7)
    made.set_precision(16)
    made.set_size(2)
    return made


def value(pick, kind, file):
    """Returns a random value as h5py writes it."""
    if kind.names:
        return tuple(value(pick, kind[name], file) for name in kind.names)
    if h5py.check_string_dtype(kind) and kind.kind == "O":
        return pick.choice(TEXT)
    if h5py.check_ref_dtype(kind):
        return pick.choice([file.ref, file["group"].ref, h5py.Reference()])
    if kind.kind == "S":
        return pick.choice(TEXT).encode()[:kind.itemsize].rstrip(b"\0")
    if kind.kind == "V":
        return np.void(pick.randbytes(kind.itemsize))
    if kind.kind == "b":
        return pick.random() < .5
    if h5py.check_enum_dtype(kind):
        return pick.choice([0, 1, 5])
    if kind.kind in "iu":
        return pick.randint(np.iinfo(kind).min, np.iinfo(kind).max)
    number = pick.choice([0., -0., 1.5, -2.25, float("inf"), float("nan"), pick.gauss(0, 100)])
    return complex(number, 1) if kind.kind == "c" else number


def storage(pick, shape, checked=True):
    """Returns options of `create_dataset`."""
    if not shape or 0 in shape or pick.random() < .3:
        return {}
    made = {"chunks": tuple(pick.randint(1, size) for size in shape)}
    if pick.random() < .5:
        made["compression"] = pick.choice(["gzip", "lzf"])
    return made | {"shuffle": pick.random() < .3, "fletcher32": checked and pick.random() < .3}


def elements(pick, shape):
    """Returns the indices of elements to write; others stay missing, with their chunks."""
    return [index for index in np.ndindex(shape) if pick.random() < .6]


def shape_of(pick):
    return tuple(pick.choice([0, 1, 2, 3, 5, 7] if axis else [1, 2, 4, 9]) for axis in range(pick.choice([0, 1, 1, 2, 3])))


def write_structures(path, pick):
    with h5py.File(path, "w", libver=pick.choice(["earliest", "latest"])) as file:
        file.create_group("group")
        for at in range(EACH):
            kind, shape = structure(pick), shape_of(pick)
            data = file.create_dataset(f"d{at}", shape, kind, **storage(pick, shape))
            for index in elements(pick, shape):
                data[index] = np.array(value(pick, kind, file), kind)


def write_converted(path, pick):
    """Structures and arrays whose types Zarr lacks, written through libhdf5's conversion."""
    with h5py.File(path, "w") as file:
        file.create_group("group")
        for at in range(EACH):
            kind = structure(pick) if pick.random() < .7 else np.dtype(pick.choice(NUMBERS[:-2]))
            kind, shape = packed(kind), shape_of(pick)
            plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            if chunks := storage(pick, shape).get("chunks"):
                plist.set_chunk(chunks)
            space = h5py.h5s.create_simple(shape) if shape else h5py.h5s.create(h5py.h5s.SCALAR)
            data = h5py.h5d.create(file.id, f"d{at}".encode(), stored(pick, kind), space, plist)
            one = h5py.h5s.create(h5py.h5s.SCALAR)
            for index in elements(pick, shape):
                if shape:
                    space.select_hyperslab(index, (1,) * len(shape))
                data.write(one, space, np.array(value(pick, kind, file), kind), h5py.h5t.py_create(kind))
            TYPES[f"/d{at}", path] = kind


def read(data, path):
    """Returns the values of a dataset, of the type that was written."""
    if not (kind := TYPES.get((data.name, path))):
        return np.asarray(data[...])
    values = np.zeros(data.shape, kind)
    data.id.read(h5py.h5s.ALL, h5py.h5s.ALL, values, h5py.h5t.py_create(kind))
    return values


def packed(kind):
    return np.dtype([(name, packed(kind[name])) for name in kind.names]) if kind.names else kind


def same(file, ours, theirs):
    """Whether an array that zarr-python reads has the values and names that h5py reads."""
    if theirs.dtype.names:
        return ours.dtype.names == theirs.dtype.names and all(same(file, ours[name], theirs[name]) for name in theirs.dtype.names)
    if h5py.check_ref_dtype(theirs.dtype):
        paths = [file[reference].name.encode() if reference else b"" for reference in theirs.flat]
        return ours.ravel().tolist() == paths
    if theirs.dtype.kind == "O":
        return ours.ravel().tolist() == [text or b"" for text in theirs.flat]
    if theirs.dtype.kind in "SV":
        return ours.dtype.itemsize == theirs.dtype.itemsize and ours.tobytes() == theirs.tobytes()
    return np.array_equal(ours, theirs, equal_nan=theirs.dtype.kind in "fc") and np.array_equal(np.signbit(ours.real), np.signbit(theirs.real))


@pytest.mark.parametrize("write", [write_structures, write_converted])
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("fmt", FORMATS)
def test_structures(tmp_path, fmt, seed, write):
    path = tmp_path / "structures.h5"
    write(path, random.Random(seed))
    run = clients.convert(path, fmt)
    assert not [code for code in run.codes if code[1] not in ("chunks-inlined",)], run.stderr
    group = zarr.open_group(clients.open_store(run.references), mode="r")
    with h5py.File(path) as file:
        for name, data in file.items():
            if isinstance(data, h5py.Dataset):
                ours, theirs = np.asarray(group[name][...]), read(data, path)
                assert ours.shape == theirs.shape and same(file, ours, theirs), (name, ours, theirs)


def item(pick):
    """Returns a random type of items. h5py swaps the bytes of big-endian ones."""
    kind = pick.random()
    if kind < .15:
        return h5py.string_dtype()
    if kind < .25:
        return np.dtype(f"S{pick.randint(1, 5)}")
    if kind < .35:
        return h5py.enum_dtype({"A": 0, "B": 1, "C": 5}, "u1")
    if kind < .5:
        return np.dtype([("a", "<i4"), ("b", "<f8"), ("s", "S3")])
    return np.dtype(pick.choice([number for number in NUMBERS if ">" not in number]))


def write_sequences(path, pick):
    with h5py.File(path, "w", libver=pick.choice(["earliest", "latest"])) as file:
        for at in range(EACH):
            kind, shape = item(pick), shape_of(pick)
            data = file.create_dataset(f"d{at}", shape, h5py.vlen_dtype(kind), **storage(pick, shape, checked=False))
            for index in elements(pick, shape):
                row = [value(pick, kind, file) for _ in range(pick.choice([0, 1, 2, 5]))]
                data[index] = np.array(row, object if kind.kind == "O" else kind)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("fmt", FORMATS)
def test_sequences(tmp_path, fmt, seed):
    path = tmp_path / "sequences.h5"
    write_sequences(path, random.Random(seed))
    run = clients.convert(path, fmt, "--option", "ragged=true")
    assert {code[1] for code in run.codes} <= {"ragged-array", "chunks-inlined"}, run.stderr
    group = zarr.open_group(clients.open_store(run.references), mode="r")
    with h5py.File(path) as file:
        for name, data in file.items():
            values, sizes = np.asarray(group[name][...]), np.asarray(group[f"{name}_row_size"][...])
            rows = np.split(values, np.cumsum(sizes)[:-1]) if sizes.size else []
            whole = data[()] if data.shape else [data[()]]
            theirs = list(np.asarray(whole).flat) if data.shape else whole
            assert sizes.shape == data.shape and len(values) == sizes.sum()
            for ours, row in zip(rows, theirs, strict=True):
                row = np.asarray(row)
                if values.dtype.kind in "OT":
                    assert ours.tolist() == [text.decode() for text in row], (name, ours, row)
                else:
                    assert len(ours) == len(row) and (not len(row) or same(file, ours, row.astype(ours.dtype) if row.dtype.kind == "O" else row)), (name, ours, row)
