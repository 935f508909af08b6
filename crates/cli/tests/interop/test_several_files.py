"""Data in several files whose chunks have to be inlined: links and external raw data, compared with h5py and xarray on the originals."""
import clients
import h5py
import numpy as np
import pytest
import xarray as xr
from clients import FORMATS, convert

RNG = np.random.default_rng(11)
MASKED = {"skipped", "int20", "text", "text_chunks", "text_compact", "gaps", "array_text"}


def scale(f, name, data):
    f[name] = data
    f[name].make_scale(name)
    return f[name]


@pytest.fixture(scope="module")
def linked(tmp_path_factory):
    """Writes `master.h5`, which links to `below/b.h5`, most chunks of which cannot be referenced."""
    folder = tmp_path_factory.mktemp("several")
    (folder / "below").mkdir()
    with h5py.File(folder / "below" / "b.h5", "w") as f:
        g = f.create_group("deep")
        data = RNG.integers(0, 99, (6, 10)).astype("<i4")
        d = g.create_dataset("skipped", data=data, chunks=(2, 5), compression="gzip", shuffle=True)
        d.id.write_direct_chunk((2, 5), data[2:4, 5:].tobytes(), filter_mask=3)
        int20 = h5py.h5t.STD_I32LE.copy()
        int20.set_precision(20)
        h5py.h5d.create(g.id, b"int20", int20, h5py.h5s.create_simple((5,)))
        g["int20"][...] = np.arange(-2, 3)
        g["text"] = ["made", "anew", "", "Grüße", "x", "y"]
        g.create_dataset("text_chunks", (6, 3), h5py.string_dtype(), chunks=(2, 2))
        g["text_chunks"][1:4] = np.array([f"t{n}" for n in range(9)], object).reshape(3, 3)
        compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        compact.set_layout(h5py.h5d.COMPACT)
        h5py.h5d.create(g.id, b"text_compact", h5py.h5t.py_create(h5py.string_dtype(), logical=True), h5py.h5s.create_simple((2,)), compact)
        g["text_compact"][...] = ["here", "too"]
        gaps = np.dtype({"names": ["a", "b"], "formats": ["<i2", "<f8"], "offsets": [0, 8], "itemsize": 16})
        g["gaps"] = np.array([(1, 2.5), (3, 4.5)], gaps)
        g.create_dataset("array_text", (2,), np.dtype((h5py.string_dtype(), (2,))))
        g["array_text"][...] = np.array([["a", "b"], ["c", "d"]], object)
        g["to"] = np.array([g["text"].ref, g.ref], h5py.ref_dtype)
        g["int20"].attrs["see"], g["int20"].attrs["nothing"] = g["text"].ref, h5py.Reference()
        g["next"] = h5py.ExternalLink("c.h5", "/text")
    with h5py.File(folder / "below" / "c.h5", "w") as f:
        f["text"] = [f"of c {n}" for n in range(4)]
    with h5py.File(folder / "below" / "grid.nc", "w") as f:
        time, x = scale(f, "time", np.arange(6.0)), scale(f, "x", np.arange(10, dtype="f4"))
        d = f.create_dataset("v", data=RNG.random((6, 10)).astype("f4"), chunks=(4, 10), compression="gzip", fletcher32=True)
        d.dims[0].attach_scale(time), d.dims[1].attach_scale(x)
        d.attrs["_FillValue"] = np.float32(-1)
        names = f.create_dataset("name", data=[f"n{n}" for n in range(10)], dtype=h5py.string_dtype())
        names.dims[0].attach_scale(x)
        packed = f.create_dataset("packed", data=np.arange(60, dtype="<i2").reshape(6, 10), chunks=(6, 5), scaleoffset=0)
        packed.dims[0].attach_scale(time), packed.dims[1].attach_scale(x)
    with h5py.File(folder / "master.h5", "w") as f:
        f["text"] = ["own", "words"]
        f["group"] = h5py.ExternalLink("below/b.h5", "/deep")
        f["array"] = h5py.ExternalLink("below/b.h5", "deep/text")
        f["grid"] = h5py.ExternalLink("below/grid.nc", "/")
    return folder / "master.h5"


def same(got, original, name):
    expected = original.asstr()[...] if h5py.check_string_dtype(original.dtype) else original[...]
    assert not (why := clients.same_values(expected, got[...])), f"{name}: {why}"


@pytest.mark.parametrize("fmt", FORMATS)
def test_chunks_of_linked_files_are_made(linked, fmt):
    import zarr
    run = convert(linked, fmt, "--option", "follow-external=true")
    group = zarr.open_group(clients.open_store(run.references), mode="r", zarr_format=FORMATS[fmt])
    with h5py.File(linked) as f:
        for name in sorted(MASKED) + ["next"]:
            if name == "gaps":
                assert group["group/gaps"][...].tolist() == f["group/gaps"][...].tolist()
            elif name == "array_text":
                assert group["group/array_text"][...].tolist() == [["a", "b"], ["c", "d"]]
            else:
                same(group["group"][name], f["group"][name], name)
        same(group["array"], f["array"], "array")
        same(group["text"], f["text"], "text")
    assert set(group["group"]) == MASKED | {"next"}, run.stderr
    assert [path for path, code in run.codes if code == "array-omitted"] == ["/group/to"], run.stderr
    assert [path for path, code in run.codes if code == "attribute-omitted"] == ["/group/int20"], run.stderr
    assert set(group["group/int20"].attrs) - {"_ARRAY_DIMENSIONS"} == {"nothing"}


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("mask", [True, False])
def test_xarray_shows_linked_groups_alike(linked, fmt, mask):
    run = convert(linked, fmt, "--option", "follow-external=true")
    original = xr.open_dataset(linked.parent / "below" / "grid.nc", engine="h5netcdf", mask_and_scale=mask)
    got = xr.open_dataset(clients.open_store(run.references), engine="zarr", group="grid", consolidated=False,
                          zarr_format=FORMATS[fmt], chunks=None, mask_and_scale=mask)
    xr.testing.assert_equal(got, original)
    assert set(got.coords) == set(original.coords) == {"time", "x"}


def test_a_linked_file_whose_heap_is_damaged_costs_its_arrays_only(linked):
    import shutil
    folder = linked.parent / "damaged"
    shutil.copytree(linked.parent / "below", folder / "below", dirs_exist_ok=True)
    shutil.copy(linked, folder / "master.h5")
    whole = (folder / "below" / "c.h5").read_bytes()
    (folder / "below" / "c.h5").write_bytes(whole.replace(b"GCOL", b"LOCG"))
    run = convert(folder / "master.h5", "zarr3-json", "--option", "follow-external=true")
    assert ("/group/next", "inline-failed") in run.codes, run.stderr
    assert "group/text" in clients.nodes(run.references, 3)
