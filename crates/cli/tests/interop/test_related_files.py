"""Files that a remote file refers to are opened concurrently, and once each."""

import json
import pathlib

import clients
import h5py
import numpy as np
import pytest
from slow_s3 import SlowS3

# More than are kept open with their cached bytes.
COUNT = 80


def source(folder, n, length=100):
    with h5py.File(folder / f"s{n}.h5", "w") as file:
        file.create_dataset("x", data=np.arange(length, dtype="f4") + n, chunks=(length // 2,))


def virtual(folder, length=100):
    with h5py.File(folder / "all.h5", "w") as file:
        layout = h5py.VirtualLayout((COUNT, length), "f4")
        for n in range(COUNT):
            layout[n] = h5py.VirtualSource(f"s{n}.h5", "x", (length,))
        file.create_virtual_dataset("x", layout)


def numbered(folder, length=100):
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    space = h5py.h5s.create_simple((length,), (h5py.h5s.UNLIMITED,))
    space.select_hyperslab((0,), (h5py.h5s.UNLIMITED,), stride=(length,), block=(length,))
    plist.set_virtual(space, b"s%b.h5", b"x", h5py.h5s.create_simple((length,)))
    with h5py.File(folder / "all.h5", "w", libver="latest") as file:
        h5py.h5d.create(file.id, b"x", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((length,), (h5py.h5s.UNLIMITED,)), plist)


def references(location, *arguments, env=None):
    return json.loads(clients.virtualize(location, *arguments, env=env).stdout)["refs"]


@pytest.fixture(params=[virtual, numbered])
def files(request, tmp_path):
    for n in range(COUNT):
        source(tmp_path, n)
    request.param(tmp_path)
    return tmp_path


def contents(folder):
    return {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}


@pytest.mark.parametrize("inline", [[], ["--inline", "10000"]])
def test_each_source_is_opened_once(files, inline):
    local = references(files / "all.h5", *inline)
    with SlowS3(contents(files), latency=0.2) as store:
        remote = references("s3://bucket/all.h5", *inline, env=store.env)
    assert remote == json.loads(json.dumps(local).replace(f"file://{files}", "s3://bucket"))
    # Bytes that are no longer cached take a request, but the file is not opened again.
    assert max(store.requested[f"s{n}.h5"] for n in range(COUNT)) <= 1 + bool(inline)
    assert store.peak > 16


def test_a_series_ends_at_the_first_missing_file(tmp_path):
    for n in [0, 1, 2, 3, 4, 6, 7]:
        source(tmp_path, n)
    numbered(tmp_path)
    with h5py.File(tmp_path / "all.h5") as file:
        expected = file["x"][:]
    assert expected.shape == (500,)
    with SlowS3(contents(tmp_path)) as store:
        found = references("s3://bucket/all.h5", env=store.env)
    assert json.loads(found["x/.zarray"])["shape"] == [500]
    assert [key for key in found if key.startswith("x/") and key[2].isdigit()] == [f"x/{n}" for n in range(10)]
