"""Fixed-length strings of every padding, alone and in compounds and arrays, compared with h5py. More files: `RANDOM_STRINGS=200`."""
import random

import clients
import h5py
import numpy as np
import pytest
from clients import FORMATS

PADDINGS = {"null-terminated": h5py.h5t.STR_NULLTERM, "null-padded": h5py.h5t.STR_NULLPAD, "space-padded": h5py.h5t.STR_SPACEPAD}
SIZES = [1, 1, 2, 3, 6, 9]
NUMBERS = [h5py.h5t.STD_I8LE, h5py.h5t.STD_I32LE, h5py.h5t.STD_I16BE, h5py.h5t.IEEE_F64BE, h5py.h5t.IEEE_F32LE, h5py.h5t.STD_U64LE]


def string(draw, size=None, padding=None):
    kind = h5py.h5t.C_S1.copy()
    kind.set_size(size or draw.choice(SIZES))
    kind.set_strpad(PADDINGS[padding or draw.choice(list(PADDINGS))])
    kind.set_cset(draw.choice([h5py.h5t.CSET_ASCII, h5py.h5t.CSET_UTF8]))
    return kind


def structure(draw, depth=0):
    """Returns a compound of strings and numbers in both byte orders, with gaps and members in any order."""
    members, offset = [], draw.choice([0, 0, 3])
    for n in range(draw.randint(1, 4)):
        pick = draw.random()
        kind = structure(draw, depth + 1) if pick < 0.2 and depth < 2 else string(draw) if pick < 0.7 else draw.choice(NUMBERS)
        members.append((f"m{n}", offset, kind))
        offset += kind.get_size() + draw.choice([0, 0, 0, 1, 4])
    draw.shuffle(members)
    compound = h5py.h5t.create(h5py.h5t.COMPOUND, offset + draw.choice([0, 0, 2]))
    for name, at, kind in members:
        compound.insert(name.encode(), at, kind)
    return compound


def text(draw, size):
    """Returns bytes with NULs and spaces anywhere."""
    return bytes(draw.choice(b"ab  \0\0\xc3\xff") for _ in range(size))


def stored(draw, kind):
    """Returns a stored element: arbitrary bytes, as writers leave them, except for numbers, whose NaN payloads could change."""
    if isinstance(kind, h5py.h5t.TypeStringID):
        return text(draw, kind.get_size())
    if isinstance(kind, h5py.h5t.TypeArrayID):
        count = int(np.prod(kind.get_array_dims()))
        return b"".join(stored(draw, kind.get_super()) for _ in range(count))
    if isinstance(kind, h5py.h5t.TypeCompoundID):
        element = bytearray(text(draw, kind.get_size()))
        for n in range(kind.get_nmembers()):
            at, member = kind.get_member_offset(n), kind.get_member_type(n)
            element[at:at + member.get_size()] = stored(draw, member)
        return bytes(element)
    dtype = kind.dtype
    return np.array(draw.randint(0, 100), dtype).tobytes()


def write(draw, file, name, kind):
    """Writes a dataset with a random layout and raw elements."""
    shape = tuple(draw.randint(1, 5) for _ in range(draw.randint(0, 2)))
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    layout = draw.choice(["compact", "contiguous", "chunked", "chunked"]) if shape else "contiguous"
    properties.set_layout(getattr(h5py.h5d, layout.upper()))
    if layout == "chunked":
        properties.set_chunk(tuple(draw.randint(1, n) for n in shape))
        draw.choice([lambda: None, lambda: properties.set_deflate(3), lambda: properties.set_shuffle()])()
    if draw.random() < 0.4 and not isinstance(kind, h5py.h5t.TypeArrayID):
        fill = np.frombuffer(stored(draw, kind), np.dtype((np.void, kind.get_size())))
        set_fill(properties, kind, fill)
    space = h5py.h5s.create_simple(shape) if shape else h5py.h5s.create(h5py.h5s.SCALAR)
    dataset = h5py.h5d.create(file.id, name.encode(), kind, space, properties)
    if draw.random() < 0.85:
        data = b"".join(stored(draw, kind) for _ in range(int(np.prod(shape))))
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.frombuffer(data, "u1").copy(), mtype=kind)
    return name


def set_fill(properties, kind, fill):
    """h5py converts from the type of the array. Only types that it returns unchanged are used."""
    try:
        properties.set_fill_value(np.frombuffer(fill.tobytes(), kind.dtype))
    except TypeError:
        pass


def make(path, seed):
    draw = random.Random(seed)
    with h5py.File(path, "w") as file:
        for n in range(12):
            kind = structure(draw) if n % 3 == 2 else string(draw)
            if n % 6 == 1:
                kind = h5py.h5t.array_create(kind, (draw.randint(1, 3),))
            write(draw, file, f"d{n}", kind)
    return path


def difference(truth, got):
    truth, got = np.asarray(truth), np.asarray(got)
    if truth.dtype.names:
        return next((f"{n}: {d}" for n in truth.dtype.names if (d := difference(truth[n], got[n]))), None)
    native = lambda a: np.ascontiguousarray(a.astype(a.dtype.newbyteorder("=")))
    return None if native(truth).tobytes() == native(got).tobytes() else f"{got.ravel()[:4]}, h5py reads {truth.ravel()[:4]}"


@pytest.mark.parametrize("seed", clients.seeds("RANDOM_STRINGS", 6, 6))
def test_strings_are_those_of_h5py(tmp_path, seed, fmt):
    import zarr
    path, problems = make(tmp_path / "strings.h5", seed), []
    run = clients.virtualize(path, "--format", fmt)
    assert run.status == 0, run.stderr
    store, kinds = clients.open_store(run.references), clients.nodes(run.references, FORMATS[fmt])
    with h5py.File(path) as original:
        for name, dataset in original.items():
            if kinds.get(name) != "array":
                # zarr-python cannot open these arrays; a diagnostic reports them.
                assert ("/" + name, "array-omitted") in run.codes, (name, run.stderr)
                assert "differs within the array type" in run.stderr or "null dataspace" in run.stderr, run.stderr
                continue
            got = zarr.open_array(store, path=name, mode="r", zarr_format=FORMATS[fmt])[...]
            if found := difference(dataset[()], got):
                problems.append(f"{name} {dataset.dtype}: {found}")
    clients.report(problems)


@pytest.fixture
def large(tmp_path):
    """Writes 300 kB of C strings in chunks of 100 kB."""
    with h5py.File(tmp_path / "large.h5", "w") as file:
        for padding in PADDINGS:
            properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            properties.set_chunk((10000,))
            kind = string(random.Random(0), 10, padding)
            dataset = h5py.h5d.create(file.id, padding.encode(), kind, h5py.h5s.create_simple((30000,)), properties)
            dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.frombuffer(b"ab\0cdefgh " * 30000, "u1").copy(), mtype=kind)
    return tmp_path / "large.h5"


def test_what_is_too_much_to_inline_is_omitted(large, fmt):
    run = clients.virtualize(large, "--format", fmt, "--option", "inline-limit=200000")
    assert run.codes == [("/null-terminated", "array-omitted"), ("/space-padded", "array-omitted")]
    assert "--option inline-limit=" in run.stderr
    assert clients.nodes(run.references, FORMATS[fmt]).get("null-padded") == "array"


def test_text_of_one_byte_is_referenced(tmp_path, fmt):
    """NetCDF characters are null-terminated strings of one byte."""
    import netCDF4
    with netCDF4.Dataset(tmp_path / "characters.nc", "w") as file:
        file.createDimension("n", 100_000)
        file.createVariable("c", "S1", ("n",))[:] = np.frombuffer(b"ab \0c" * 20_000, "S1")
    run = clients.virtualize(tmp_path / "characters.nc", "--format", fmt, "--option", "inline-limit=1000", "--strict")
    assert run.status == 0, run.stderr
    import zarr
    array = zarr.open_array(clients.open_store(run.references), path="c", mode="r", zarr_format=FORMATS[fmt])
    assert array[...].tobytes() == b"ab \0c" * 20_000
