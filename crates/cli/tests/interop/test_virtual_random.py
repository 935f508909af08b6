"""Random virtual datasets of blocks at arbitrary positions in their sources, compared with h5py on the original."""
import clients
import h5py
import numpy as np
import pytest
from clients import FORMATS, convert

pytestmark = pytest.mark.slow


def source(f, rng, name, dtype, fill):
    """Writes a source with a random layout. Returns its shape."""
    shape = tuple(int(n) for n in rng.integers(3, 13, rng.integers(1, 4)))
    data = rng.integers(1, 100, shape).astype(dtype)
    kind = rng.integers(6)
    options = dict(fillvalue=fill)
    if kind >= 2:
        options["chunks"] = tuple(int(rng.integers(1, n + 1)) for n in shape)
        options |= [{}, dict(compression="gzip"), dict(compression="gzip", shuffle=True), dict(scaleoffset=0) if dtype != "<f8" else {}][kind - 2]
    if kind == 1:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_layout(h5py.h5d.COMPACT)
        h5py.h5d.create(f.id, name.encode(), h5py.h5t.py_create(np.dtype(dtype)), h5py.h5s.create_simple(shape), properties)
        f[name][...] = data
        return shape
    d = f.create_dataset(name, shape, dtype, **options)
    if kind >= 2 and rng.integers(2):
        half = tuple(slice(0, int(rng.integers(1, n + 1))) for n in shape)
        d[half] = data[half]
    elif rng.integers(8):
        d[...] = data
    return shape


def pick(rng, size, count=None):
    """Returns a slice of an axis, of the given number of elements or of any."""
    count = int(rng.integers(1, size + 1)) if count is None else count
    step = int(rng.integers(1, max(1, (size - 1) // max(1, count - 1)) + 1)) if count > 1 else 1
    start = int(rng.integers(0, size - (count - 1) * step))
    return slice(start, start + (count - 1) * step + 1, step)


def mapping(rng, shape, there):
    """Returns keys of the virtual dataset and of a source with equal lengths along each axis longer than one."""
    to = [pick(rng, n, 1) for n in shape]
    by_rank = min(len(shape), len(there))
    axes = sorted(rng.choice(len(shape), by_rank, replace=False)), sorted(rng.choice(len(there), by_rank, replace=False))
    key = [pick(rng, n, 1) for n in there]
    for a, b in zip(*axes):
        count = int(rng.integers(1, min(shape[a], there[b]) + 1))
        to[a], key[b] = pick(rng, shape[a], count), pick(rng, there[b], count)
    return tuple(to), tuple(key)


def build(folder, seed, datasets=25):
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    known = []
    for dtype in ("<i4", ">i2", "<f8"):
        for n in range(6):
            with h5py.File(folder / f"s{n}.h5", "a") as f:
                name = dtype.strip("<>")
                known.append((dtype, f"s{n}.h5", name, source(f, rng, name, dtype, int(rng.integers(-3, 4)) if rng.integers(2) else None)))
    with h5py.File(folder / "v.h5", "w") as f:
        for n in range(datasets):
            dtype = ("<i4", ">i2", "<f8")[int(rng.integers(3))]
            shape = tuple(int(n) for n in rng.integers(2, 15, rng.integers(1, 4)))
            layout = h5py.VirtualLayout(shape=shape, dtype=dtype)
            sources = [known[int(i)] for i in rng.permutation(len(known)) if known[int(i)][0] == dtype][: int(rng.integers(1, 5))]
            free = np.ones(shape, bool)
            for _, file, name, there in sources:
                to, key = mapping(rng, shape, there)
                if not free[to].all() and len(known) > 1:
                    continue  # another test covers overlaps
                free[to] = False
                layout[to] = h5py.VirtualSource(file, name, shape=there)[key]
            if free.all():
                continue
            f.create_virtual_dataset(f"v{n}", layout, fillvalue=int(rng.integers(-3, 4)) if rng.integers(2) else None)
        f.flush()
        # Virtual datasets of virtual datasets.
        below = [(name, d.shape, d.dtype) for name, d in f.items() if d.is_virtual]
    with h5py.File(folder / "n.h5", "w") as f:
        for name, there, dtype in below:
            shape = tuple(int(n) for n in rng.integers(2, 15, rng.integers(1, 4)))
            layout = h5py.VirtualLayout(shape=shape, dtype=dtype)
            to, key = mapping(rng, shape, there)
            layout[to] = h5py.VirtualSource("v.h5", name, shape=there)[key]
            f.create_virtual_dataset(f"of_{name}", layout, fillvalue=7)


def compare(path, fmt):
    import zarr
    run = convert(path, fmt)
    group = zarr.open_group(clients.open_store(run.references), mode="r", zarr_format=FORMATS[fmt])
    problems = []
    with h5py.File(path) as f:
        for name in f:
            if name not in group:
                problems.append(f"{name} is not there")
            elif why := clients.same_bits(f[name][...], group[name][...]):
                problems.append(f"{name}: {why}; {f[name].virtual_sources()}")
    assert not problems, "\n".join(problems) + run.stderr


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("seed", range(3))
def test_blocks_anywhere(tmp_path, seed, fmt):
    build(tmp_path, seed)
    compare(tmp_path / "v.h5", fmt)
    compare(tmp_path / "n.h5", fmt)
