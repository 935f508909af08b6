"""Names with characters that Zarr clients misinterpret."""
import clients
import numpy as np
from clients import FORMATS, convert


def test_a_backslash_is_escaped_and_said(tmp_path, fmt):
    import h5py, zarr
    path = tmp_path / "names.h5"
    with h5py.File(path, "w") as f:
        f["a\\b 5%"] = np.arange(3)
        f["g\\h/100%"] = np.arange(4)
        f["soft"] = h5py.SoftLink("/a\\b 5%")
    run = convert(path, fmt)
    assert sorted(code for _, code in run.codes) == ["name-changed", "name-changed"]
    assert '"a\\\\b 5%" is shown as "a%5Cb 5%25"' in run.stderr
    group = zarr.open_group(clients.open_store(run.references), mode="r", zarr_format=FORMATS[fmt])
    assert group["a%5Cb 5%25"][...].tolist() == [0, 1, 2] == group["soft"][...].tolist()
    assert group["g%5Ch/100%"][...].tolist() == [0, 1, 2, 3]
    assert clients.open_dataset(run.references, FORMATS[fmt])["a%5Cb 5%25"].values.tolist() == [0, 1, 2]


def test_references_lead_to_escaped_names(tmp_path, fmt):
    import h5py, zarr
    path = tmp_path / "references.h5"
    with h5py.File(path, "w") as f:
        f["g\\h 5%/x\\y"] = np.arange(3)
        f["to"] = np.array([f["g\\h 5%"].ref, f["g\\h 5%/x\\y"].ref], h5py.ref_dtype)
        f.attrs["to"] = f["g\\h 5%/x\\y"].ref
    run = convert(path, fmt)
    group = zarr.open_group(clients.open_store(run.references), mode="r", zarr_format=FORMATS[fmt])
    assert group["to"][...].tolist() == ["/g%5Ch 5%25", "/g%5Ch 5%25/x%5Cy"]
    assert group[group.attrs["to"]][...].tolist() == [0, 1, 2]
