"""Datasets in external raw data files, compared with h5py on the original (which h5py opens from its own folder)."""
import clients
import h5py
import numpy as np
import pytest
from clients import FORMATS, convert


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("external")
    (folder / "below").mkdir()
    (folder.parent / "outside.raw").write_bytes(bytes(32))
    np.arange(8, dtype="<i4").tofile(folder / "whole.raw")
    np.arange(8, dtype="<i4").tofile(folder / "below" / "whole.raw")
    np.arange(3, dtype="<i4").tofile(folder / "short.raw")
    with h5py.File(folder / "external.h5", "w") as f:
        def dataset(name, *segments):
            properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            for segment in segments:
                properties.set_external(*segment)
            h5py.h5d.create(f.id, name, h5py.h5t.NATIVE_INT32, h5py.h5s.create_simple((8,)), properties)

        dataset(b"whole", (b"whole.raw", 0, 32))
        dataset(b"below", (b"below/whole.raw", 0, 32))
        dataset(b"two", (b"whole.raw", 16, 16), (b"below/whole.raw", 0, 16))
        dataset(b"unequal", (b"whole.raw", 0, 12), (b"below/whole.raw", 4, 8), (b"whole.raw", 20, 12))
        dataset(b"multiples", (b"whole.raw", 0, 16), (b"below/whole.raw", 8, 8), (b"whole.raw", 4, 8))
        dataset(b"torn", (b"whole.raw", 0, 6), (b"below/whole.raw", 0, 26))
        dataset(b"short", (b"short.raw", 0, 32))
        dataset(b"missing", (b"nowhere.raw", 0, 32))
        dataset(b"outside", (b"../outside.raw", 0, 32))
        dataset(b"absolute", (str(folder.parent / "outside.raw").encode(), 0, 32))
    return folder / "external.h5"


@pytest.mark.parametrize("fmt", FORMATS)
def test_files_in_the_folder_are_read_and_others_omitted(original, fmt, monkeypatch):
    import zarr
    run = convert(original, fmt)
    group = zarr.open_group(clients.open_store(run.references), mode="r", zarr_format=FORMATS[fmt])
    monkeypatch.chdir(original.parent)
    with h5py.File(original) as f:
        for name in ("whole", "below", "two", "unequal", "multiples"):
            np.testing.assert_array_equal(group[name][...], f[name][...], err_msg=name)
    assert group["unequal"].chunks == (1,) and group["multiples"].chunks == (2,) and group["two"].chunks == (4,)
    omitted = {path for path, code in run.codes if code == "array-omitted"}
    assert omitted == {"/torn", "/short", "/missing", "/outside", "/absolute"}, run.stderr
    assert set(group.array_keys()) == {"whole", "below", "two", "unequal", "multiples"}
