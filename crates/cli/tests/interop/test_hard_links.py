"""Groups and datasets under several names, linked at random, compared with h5py. More files: HARD_LINKS=100."""

import clients
import h5py
import numpy as np
import pytest
from clients import FORMATS, convert

SEEDS = clients.seeds("HARD_LINKS", 12, 12)
MOST = 3_000


def graph(f, rng):
    """Writes some groups and datasets with many links among them, some of them soft, some cyclic."""
    groups = [f, *(f.create_group(f"g{n}", track_order=bool(rng.integers(2))) for n in range(rng.integers(1, 6)))]
    datasets = []
    for n in range(rng.integers(1, 4)):
        data = rng.integers(0, 100, rng.integers(1, 30)).astype(str(rng.choice(["i4", ">f8", "u1"])))
        options = dict(chunks=(min(7, len(data)),), compression="gzip") if rng.integers(2) else {}
        datasets.append(groups[rng.integers(len(groups))].create_dataset(f"d{n}", data=data, **options))
    for n, thing in enumerate([*groups, *datasets]):
        thing.attrs["who"] = n
    for n in range(rng.integers(1, 12)):
        group, name = groups[rng.integers(len(groups))], f"l{n}" * int(rng.integers(1, 40))
        things = [*groups, *datasets]
        thing = things[rng.integers(len(things))]
        if rng.integers(4):
            group[name] = thing
        else:
            group[name] = h5py.SoftLink(thing.name if rng.integers(3) else "nowhere")


def address(thing):
    return h5py.h5o.get_info(thing.id).addr


def paths(group, above, path=""):
    """Returns all paths on which no group occurs twice, as (path, object)."""
    for name in group:
        try:
            thing = group[name]
        except KeyError:
            continue
        child = f"{path}/{name}" if path else name
        if isinstance(thing, h5py.Dataset):
            yield child, thing
        elif address(thing) not in above:
            yield child, thing
            yield from paths(thing, above | {address(thing)}, child)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("fmt", FORMATS)
def test_every_path_shows_its_object(tmp_path, fmt, seed):
    import itertools, zarr
    path = tmp_path / "links.h5"
    rng, truth = np.random.default_rng(seed), range(MOST + 1)
    while len(truth) > MOST:
        with h5py.File(path, "w", libver=("earliest", "latest")[seed % 2]) as f:
            graph(f, rng)
            truth = set(name for name, _ in itertools.islice(paths(f, {address(f)}), MOST + 1))
    with h5py.File(path) as f:
        truth = dict(paths(f, {address(f)}))
        run = convert(path, fmt)
        root = zarr.open_group(clients.open_store(run.references), mode="r", zarr_format=FORMATS[fmt])
        found = clients.nodes(run.references, FORMATS[fmt])
        assert set(found) - {""} == set(truth)
        for name, thing in itertools.islice(truth.items(), 200):
            assert root[name].attrs["who"] == thing.attrs["who"], name
            if isinstance(thing, h5py.Dataset):
                assert clients.same_bits(thing[...], root[name][...]) is None, name
