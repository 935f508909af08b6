"""Contiguous data split into chunks, compared with h5py on the original."""
import clients
import h5py
import numpy as np
import pytest
from clients import FORMATS, convert


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    path = tmp_path_factory.mktemp("split") / "contiguous.h5"
    with h5py.File(path, "w") as f:
        f["even"] = np.arange(12 * 5, dtype="<i4").reshape(12, 5)
        f["prime"] = np.arange(7 * 5, dtype=">f8").reshape(7, 5)
        f["leading_one"] = np.arange(11 * 3, dtype="<u2").reshape(1, 11, 3)
        f["scalar"] = np.float32(4.5)
        f["none"] = np.zeros((0, 3), "i2")
    return path


@pytest.mark.parametrize("limit", ["16777216", "0"])
@pytest.mark.parametrize("size", ["1", "60", "100", "1K"])
@pytest.mark.parametrize("fmt", FORMATS)
def test_values_stay_the_same(original, fmt, size, limit):
    import zarr
    run = convert(original, fmt, "--option", f"split-contiguous={size}", "--option", f"inline-limit={limit}")
    group = zarr.open_group(clients.open_store(run.references), mode="r", zarr_format=FORMATS[fmt])
    with h5py.File(original) as f:
        for name, dataset in f.items():
            seen = group[name]
            assert seen.dtype.newbyteorder("=") == dataset.dtype.newbyteorder("=") and seen.shape == dataset.shape, name
            np.testing.assert_array_equal(seen[...], dataset[...], err_msg=name)
            slices = [n for n in dataset.shape if n > 1][1:]
            one_slice = int(np.prod(slices)) * dataset.dtype.itemsize
            if dataset.size:
                assert int(np.prod(seen.chunks)) * dataset.dtype.itemsize <= max(int(size.replace("1K", "1024")), one_slice), name
