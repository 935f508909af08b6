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


def joined(folder):
    """Reads the array of the dataset that `batch` wrote."""
    references = json.loads((folder / "out.json").read_text())
    return clients.open_dataset(references, 2)["v"].values


@pytest.mark.parametrize("is_missing", [True, False])
@pytest.mark.parametrize("is_inlined", [True, False])
def test_batch_reads_files_again_whose_sources_change_or_appear(tmp_path, is_missing, is_inlined):
    """A virtual dataset of which a source is replaced, or missing at first; its blocks are those of the source's chunks, or are inlined."""
    def source(n, offset):
        with h5py.File(tmp_path / f"s{n}.h5", "w") as file:
            file.create_dataset("d", data=np.arange(20.0).reshape(5, 4) + offset, chunks=(2, 4) if is_inlined else (3, 4))
    for n in range(2):
        if n == 0 or not is_missing:
            source(n, 100 * n)
        layout = h5py.VirtualLayout((3, 4), "f8")
        start = 1 if is_inlined else 0
        layout[:] = h5py.VirtualSource(f"s{n}.h5", "d", (5, 4))[start:start + 3]
        with h5py.File(tmp_path / f"a{n}.h5", "w") as file:
            file["t"] = np.arange(3) + 3 * n
            file["t"].make_scale("t")
            file.create_virtual_dataset("v", layout, fillvalue=-1)
            file["v"].dims[0].attach_scale(file["t"])
    command = ["batch", tmp_path / "a0.h5", tmp_path / "a1.h5", "--concat-dim", "t", "-o", tmp_path / "out.json"]
    assert clients.virtualize(*command).status == 0
    assert (joined(tmp_path)[3:] == -1).all() == is_missing
    (tmp_path / "s1.h5").unlink(missing_ok=True)
    source(1, 5000)
    assert clients.virtualize(*command).status == 0
    with h5py.File(tmp_path / "a1.h5") as file:
        np.testing.assert_array_equal(joined(tmp_path)[3:], file["v"][...])
    assert "up to date" in clients.virtualize(*command).stderr


def test_batch_reads_files_again_whose_sidecars_change(tmp_path):
    import tifffile
    for n in range(2):
        tifffile.imwrite(tmp_path / f"a{n}.tif", np.full((4, 4), n, "u1"), metadata=None)
        (tmp_path / f"a{n}.tfw").write_text("10\n0\n0\n-10\n500005\n4999995\n")
    command = ["batch", tmp_path / "a0.tif", tmp_path / "a1.tif", "--stack-dim", "n", "-o", tmp_path / "out.json"]
    assert clients.virtualize(*command).status == 0
    for n in range(2):
        (tmp_path / f"a{n}.tfw").write_text("20\n0\n0\n-20\n500010\n4999990\n")
    assert clients.virtualize(*command).status == 0
    ds = clients.open_dataset(json.loads((tmp_path / "out.json").read_text()), 2)
    assert ds.x.values.tolist() == [500010, 500030, 500050, 500070]
