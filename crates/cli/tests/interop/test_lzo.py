"""LZO (filter 305) as written by PyTables: bare LZO1X streams, encoded here by hand."""
import clients
import numpy as np
import pytest
from clients import FORMATS, convert


def stream(raw):
    """Encodes an LZO1X stream of literals only (4 to 238 of them)."""
    assert 3 < len(raw) <= 238
    return bytes([17 + len(raw)]) + raw + b"\x11\0\0"


@pytest.mark.parametrize("shuffle", [False, True])
def test_lzo_chunks_decode(tmp_path, fmt, shuffle):
    import h5py, imagecodecs, zarr
    path, data = tmp_path / "lzo.h5", np.zeros(40, [("a", "<i4"), ("b", "<f8")])
    data["a"], data["b"] = np.arange(40) - 7, np.linspace(-1, 1, 40)
    with h5py.File(path, "w") as f:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((16,))
        if shuffle:
            plist.set_shuffle()
        # The filter is optional, so a library without it creates the dataset. Chunks are written directly.
        plist.set_filter(305, h5py.h5z.FLAG_OPTIONAL, (1, 23, 0))
        dataset = h5py.h5d.create(f.id, b"table", h5py.h5t.py_create(data.dtype), h5py.h5s.create_simple((40,)), plist)
        for start in range(0, 40, 16):
            chunk = np.zeros(16, data.dtype)
            chunk[: len(data[start:start + 16])] = data[start:start + 16]
            raw = chunk.tobytes()
            if shuffle:
                raw = np.frombuffer(raw, "u1").reshape(16, 12).T.tobytes()
            assert imagecodecs.lzo_decode(stream(raw), out=len(raw)) == raw
            dataset.write_direct_chunk((start,), stream(raw))
    group = zarr.open_group(clients.open_store(convert(path, fmt).references), mode="r", zarr_format=FORMATS[fmt])
    assert group["table"][...].tobytes() == data.tobytes()
