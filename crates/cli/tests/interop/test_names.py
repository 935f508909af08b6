"""Names with characters that Zarr clients misinterpret."""
import os, pathlib, subprocess

import clients
import numpy as np
from clients import FORMATS, convert


def test_a_backslash_is_escaped_and_reported(tmp_path, fmt):
    import h5py, zarr
    path = tmp_path / "names.h5"
    with h5py.File(path, "w") as f:
        f["a\\b 5%"] = np.arange(3)
        f["g\\h/100%"] = np.arange(4)
        f["soft"] = h5py.SoftLink("/a\\b 5%")
    run = convert(path, fmt)
    assert sorted(code for _, code in run.codes) == ["name-changed", "name-changed"]
    assert '"a\\\\b 5%" is renamed to "a%5Cb 5%25"' in run.stderr
    group = zarr.open_group(clients.open_store(run.references), mode="r", zarr_format=FORMATS[fmt])
    assert group["a%5Cb 5%25"][...].tolist() == [0, 1, 2] == group["soft"][...].tolist()
    assert group["g%5Ch/100%"][...].tolist() == [0, 1, 2, 3]
    assert clients.open_dataset(run.references, FORMATS[fmt])["a%5Cb 5%25"].values.tolist() == [0, 1, 2]


def test_chunks_of_a_hidden_dataset_are_not_made(tmp_path, fmt):
    """h5netcdf strips `_nc4_non_coord_`, and of two datasets the last takes the name. The text of the first would be inlined."""
    import h5py
    path = tmp_path / "names.h5"
    with h5py.File(path, "w") as f:
        f.create_dataset("y", shape=(3,), chunks=(3,), dtype="i4", fillvalue=5)
        f.create_dataset("_nc4_non_coord_y", data=["a", "bc", "d"], dtype=h5py.string_dtype())
    run = convert(path, fmt)
    assert [code for _, code in run.codes] == ["name-collision"]
    assert clients.open_dataset(run.references, FORMATS[fmt])["y"].values.tolist() == [5, 5, 5]


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


def test_names_in_files_that_are_not_utf8(tmp_path, fmt):
    import h5py
    path = tmp_path / "latin.h5"
    with h5py.File(path, "w") as f:
        f[b"caf\xe9"] = np.arange(3)
        f.create_group(b"gr\xfc\xdfe")["x"] = np.arange(2)
    run = convert(path, fmt)
    assert [code for _, code in run.codes] == ["name-changed", "name-changed"]
    assert clients.nodes(run.references, FORMATS[fmt]).keys() == {"", "caf\ufffd", "gr\ufffd\ufffde", "gr\ufffd\ufffde/x"}


def latin(folder):
    """A file whose name is in ISO 8859-1, one in such a folder, and one with a good name."""
    import h5py
    with h5py.File(folder / "good.nc", "w") as f:
        f["x"] = np.arange(3)
    bad, below = os.fsencode(folder) + b"/caf\xe9.nc", os.fsencode(folder) + b"/d\xe9"
    os.mkdir(below)
    for copy in (bad, below + b"/a.nc"):
        pathlib.Path(os.fsdecode(copy)).write_bytes((folder / "good.nc").read_bytes())
    return bad, below


def test_paths_that_are_not_utf8_are_refused(tmp_path):
    """Their URLs would be other ones; fsspec opens them by surrogates, which only JSON with escapes can contain."""
    bad, below = latin(tmp_path)

    def refused(argument, folder):
        run = subprocess.run([os.fsencode(clients.BINARY), argument], cwd=folder, capture_output=True)
        assert run.stdout == b"" and b"make a symbolic link" in run.stderr, run.stderr
        return run.returncode, run.stderr.decode()

    status, error = refused(bad, tmp_path)
    assert status == 2 and "caf\\xe9.nc: the argument is not UTF-8" in error
    status, error = refused(b"a.nc", below)
    assert status == 1 and "/d\\xe9/a.nc: its path is not UTF-8" in error
    status, error = refused(b"file://" + os.fsencode(tmp_path) + b"/caf%E9.nc", tmp_path)
    assert status == 1 and "/caf\\xe9.nc: its path is not UTF-8" in error
    os.symlink(bad, tmp_path / "link.nc")
    assert convert(tmp_path / "link.nc", "kerchunk-json").references["refs"]["x/0"][0] == f"file://{tmp_path}/link.nc"


def test_listed_paths_that_are_not_utf8_fail(tmp_path):
    bad, below = latin(tmp_path)
    run = clients.virtualize("scan", f"{tmp_path}/*.nc")
    assert "caf\\xe9.nc: its path is not UTF-8" in run.stderr and b"1 file," in run.stdout
    run = clients.virtualize("scan", f"{tmp_path}/**/*.nc")
    assert run.status == 1 and "/d\\xe9/: its path is not UTF-8" in run.stderr


def nested(path, depth, last=lambda group: group.create_dataset("x", data=np.arange(3))):
    import h5py
    with h5py.File(path, "w") as f:
        group = f
        for _ in range(depth):
            group = group.create_group("g")
        last(group)


def test_deep_groups(tmp_path, fmt):
    nested(tmp_path / "256.h5", 256)
    run = convert(tmp_path / "256.h5", fmt)
    assert run.codes == []
    found = clients.open_dataset(run.references, FORMATS[fmt], group="/".join("g" * 256))
    assert found["x"].values.tolist() == [0, 1, 2]
    nested(tmp_path / "2000.h5", 2000)
    run = convert(tmp_path / "2000.h5", fmt)
    assert [code for _, code in run.codes] == ["node-omitted"] and "groups are nested deeper than 256" in run.stderr
    assert len(clients.nodes(run.references, FORMATS[fmt])) == 257


def test_deep_groups_behind_links(tmp_path):
    import h5py
    nested(tmp_path / "b.h5", 200)
    for depth, codes in ((56, []), (57, ["link-omitted"])):
        nested(tmp_path / f"{depth}.h5", depth - 1, lambda group: group.__setitem__("g", h5py.ExternalLink("b.h5", "/")))
        assert [code for _, code in convert(tmp_path / f"{depth}.h5", "zarr3-json", "--option", "follow-external=true").codes] == codes
