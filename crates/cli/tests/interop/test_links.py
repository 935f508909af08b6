"""Following external links, compared with h5py on the original."""
import clients
import h5py
import numpy as np
import pytest
from clients import FORMATS, convert


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("links") / "in"
    (folder / "below").mkdir(parents=True)
    with h5py.File(folder.parent / "outside.h5", "w") as f:
        f["x"] = np.arange(4)
    with h5py.File(folder / "below" / "b.h5", "w") as f:
        f["deep/x"] = np.arange(12.0).reshape(3, 4)
        f["deep/text"] = ["made", "anew"]
        f["deep/next"] = h5py.ExternalLink("c.h5", "/y")
        f["deep/back"] = h5py.ExternalLink("../master.h5", "/own")
        f.create_dataset("deep/empty", (6, 5), "i4", chunks=(3, 5), fillvalue=7)
        f["deep"].attrs["title"] = "linked"
    with h5py.File(folder / "below" / "c.h5", "w") as f:
        f.create_dataset("y", data=np.arange(30).reshape(6, 5), chunks=(4, 5), compression="gzip")
        f["loop"] = h5py.ExternalLink("c.h5", "/y")
    with h5py.File(folder / "master.h5", "w") as f:
        f["own"] = np.arange(5)
        f["group"] = h5py.ExternalLink("below/b.h5", "/deep")
        f["array"] = h5py.ExternalLink("below/b.h5", "deep/x")
        f["inner/whole"] = h5py.ExternalLink("below/c.h5", "/")
        f["gone"] = h5py.ExternalLink("none.h5", "/x")
        f["nothing"] = h5py.ExternalLink("below/c.h5", "/nothing")
        f["outside"] = h5py.ExternalLink("../outside.h5", "/x")
        f["virtual"] = np.arange(3)
    return folder / "master.h5"


@pytest.mark.parametrize("fmt", FORMATS)
def test_links_are_followed(original, fmt):
    import zarr
    run = convert(original, fmt, "--option", "follow-external=true")
    group = zarr.open_group(clients.open_store(run.references), mode="r", zarr_format=FORMATS[fmt])
    with h5py.File(original) as f:
        for name in ("own", "array", "group/x", "group/next", "group/empty", "inner/whole/y"):
            np.testing.assert_array_equal(group[name][...], f[name][...], err_msg=name)
    assert group["group"].attrs["title"] == "linked"
    assert set(group) == {"own", "virtual", "array", "group", "inner"}
    assert set(group["group"]) == {"x", "next", "empty", "text"}
    assert group["group/text"][...].tolist() == ["made", "anew"]
    omitted = {path for path, code in run.codes if code == "link-omitted"}
    assert omitted == {"/gone", "/nothing", "/outside", "/group/back", "/inner/whole/loop"}, run.stderr
    assert "array-omitted" not in {code for _, code in run.codes}, run.stderr


def test_links_are_not_followed_unless_wanted(original):
    run = convert(original, "zarr3-json")
    assert len([path for path, code in run.codes if code == "link-omitted"]) == 6
    assert "--option follow-external=true" in run.stderr
    assert b"below" not in run.stdout
