"""References of random files are the same from a store as from disk."""

import json
import os
import random

import clients
import h5py
import numpy as np
import pytest
import tifffile
from slow_s3 import SlowS3

SEEDS = [int(seed) for seed in os.environ.get("REMOTE_SEEDS", "1 2 3 4").split()]
# Larger than the files that are fetched whole.
SIZE = 5 << 20


def hdf5(path, rng):
    """Groups and datasets with attributes, between blocks of data that keep their structures apart."""
    paged = {"fs_strategy": "page", "fs_page_size": rng.choice([4096, 1 << 16, 1 << 20])} if rng.random() < 0.3 else {}
    with h5py.File(path, "w", libver=rng.choice(["earliest", "latest"]), **paged) as file:
        groups, n = [file], 0
        while file.id.get_filesize() < SIZE:
            n += 1
            group = rng.choice(groups)
            if rng.random() < 0.2:
                group = group.create_group(f"g{n}")
                groups.append(group)
            data = np.frombuffer(rng.randbytes(2 * rng.choice([10, 1000, 100_000])), "i2")
            chunks = rng.choice([None, (max(1, len(data) // rng.choice([3, 200])),)])
            limit = (None,) if chunks and rng.random() < 0.5 else None
            dataset = group.create_dataset(f"d{n}", data=data, chunks=chunks, maxshape=limit)
            for k in range(rng.choice([0, 2, 12])):
                dataset.attrs[f"a{k}"] = rng.choice([f"text {k}" * rng.randrange(1, 50), k, np.arange(k + 1)])


def tiff(path, rng):
    """Directories between their pixels."""
    with tifffile.TiffWriter(path, bigtiff=rng.random() < 0.5) as file:
        for _ in range(rng.randrange(3, 9)):
            pixels = np.frombuffer(rng.randbytes(1 << 20), "u1").reshape(1024, 1024)
            file.write(pixels, tile=rng.choice([(16, 16), (256, 256)]), metadata=None, contiguous=False)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("make", [hdf5, tiff])
def test_a_store_gives_what_the_disk_gives(make, seed, tmp_path):
    path = tmp_path / "file"
    make(path, random.Random(seed))
    expected = json.loads(clients.virtualize(str(path)).stdout.replace(f"file://{path}".encode(), b"s3://bucket/file"))
    assert len(expected["refs"]) > 10
    with SlowS3({"file": path.read_bytes()}) as store:
        found = clients.virtualize("s3://bucket/file", env=store.env)
        assert found.status == 0, found.stderr
        assert json.loads(found.stdout) == expected
