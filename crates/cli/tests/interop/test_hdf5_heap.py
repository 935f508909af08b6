"""Structures with text of variable length, sequences, wide floats and times of PyTables, in single cases. Random ones: test_hdf5_random.py."""
import ctypes, os, warnings

import clients
import h5py
import netCDF4
import numpy as np
import pytest
import zarr
from clients import FORMATS

TABLE = np.dtype([("n", "<i4"), ("text", h5py.string_dtype())])


def group(run):
    return zarr.open_group(clients.open_store(run.references), mode="r")


@pytest.mark.parametrize("fmt", FORMATS)
def test_text_keeps_its_bytes(tmp_path, fmt):
    """Text that is not UTF-8."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["latin"] = np.array([(1, b"gr\xfc\xdfe"), (2, b"")], TABLE)
    run = clients.convert(path, fmt)
    assert group(run)["latin"][...].tolist() == [(1, b"gr\xfc\xdfe"), (2, b"")]


@pytest.mark.parametrize("fmt", FORMATS)
def test_text_beyond_the_inline_limit_is_omitted(tmp_path, fmt):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.array([(1, "a" * 1000)] + [(2, "b")] * 99, TABLE)
        file["y"] = np.arange(3)
    run = clients.convert(path, fmt, "--option", "inline-limit=101403")
    assert run.codes == [("/x", "array-omitted")] and "--option inline-limit=" in run.stderr, run.stderr
    assert clients.convert(path, fmt, "--option", "inline-limit=101404").codes == []


@pytest.mark.parametrize("fmt", FORMATS)
def test_references_to_parts_are_omitted(tmp_path, fmt):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        data = file.create_dataset("data", data=np.arange(9))
        file["x"] = np.array([(1, data.regionref[2:5])], [("n", "i4"), ("r", h5py.regionref_dtype)])
        file["y"] = np.array([(1, data.ref)], [("n", "i4"), ("r", h5py.ref_dtype)])
    run = clients.convert(path, fmt)
    assert ("/x", "array-omitted") in run.codes
    assert group(run)["y"][...].tolist() == [(1, b"/data")]


@pytest.mark.parametrize("fmt", FORMATS)
def test_ragged_arrays_open_in_xarray(tmp_path, fmt):
    """Names that are taken, a dimension scale, and a variable shorter than its unlimited dimension."""
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("t", None)
        file.createDimension("x", 3)
        file.createDimension("v_sample", 2)
        kind = file.createVLType("f4", "kind")
        v, w = file.createVariable("v", kind, ("x",)), file.createVariable("w", kind, ("t", "x"))
        v.units = "K"
        file.createVariable("v_row_size", "i2", ("x",))[:] = 1
        file.createVariable("t", "f8", ("t",))[:] = range(4)
        file.createVariable("x", "f8", ("x",))[:] = range(3)
        v[0], v[2], w[1, 2] = np.array([1, 2], "f4"), np.array([3], "f4"), np.array([4, 5], "f4")
    run = clients.convert(path, fmt, "--option", "ragged=true")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ds = clients.open_dataset(run.references, FORMATS[fmt]).load()
    assert (ds.v.dims, ds.v.values.tolist(), ds.v.attrs["units"]) == (("v_sample_",), [1, 2, 3], "K")
    assert (ds.v_row_size_.dims, ds.v_row_size_.values.tolist()) == (("x",), [2, 0, 1])
    assert ds.v_row_size_.attrs["sample_dimension"] == "v_sample_" and ds.v_row_size.values.tolist() == [1, 1, 1]
    assert ds.w.values.tolist() == [4, 5] and ds.w_row_size.dims == ("t", "x")
    assert ds.w_row_size.values.tolist() == [[0, 0, 0], [0, 0, 2], [0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("fmt", FORMATS)
def test_links_to_sequences(tmp_path, fmt):
    """A link to the group brings both arrays. One to the dataset would bring the items without their number."""
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file.create_dataset("g/s", (2,), h5py.vlen_dtype("i4"))[1] = [1, 2]
        file["g/table"] = np.array([(1, "text")], TABLE)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["group"], file["alone"] = h5py.ExternalLink("other.h5", "/g"), h5py.ExternalLink("other.h5", "/g/s")
        file["table"] = h5py.ExternalLink("other.h5", "/g/table")
    run = clients.convert(tmp_path / "a.h5", fmt, "--option", "ragged=true", "--option", "follow-external=true")
    found = group(run)
    assert [path for path, code in run.codes if code == "link-omitted"] == ["/alone"], run.stderr
    assert found["group/s"][...].tolist() == [1, 2] and found["group/s_row_size"][...].tolist() == [0, 2]
    assert found["table"][...].tolist() == [(1, b"text")]


@pytest.mark.parametrize("fmt", FORMATS)
def test_nested_sequences_and_virtual_ones_are_omitted(tmp_path, fmt):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("nested", (2,), h5py.vlen_dtype(h5py.vlen_dtype("i4")))
        file.create_dataset("of_text", (2,), h5py.vlen_dtype(TABLE))
        file["table"] = np.array([(1, "a"), (2, "b")], TABLE)
        layout = h5py.VirtualLayout((2,), TABLE)
        layout[:] = h5py.VirtualSource(".", "table", (2,))
        file.create_virtual_dataset("virtual", layout)
    run = clients.convert(path, fmt, "--option", "ragged=true")
    omitted = {path for path, code in run.codes if code == "array-omitted"}
    assert omitted == {"/nested", "/of_text", "/virtual"}, run.stderr
    assert "ragged=true" not in run.stderr, "the option is set already"


@pytest.mark.parametrize("fmt", FORMATS)
def test_shuffled_text(tmp_path, fmt):
    """libhdf5 skips the filter, because it sets no element size for text of variable length."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=["a", "", "größer"], dtype=h5py.string_dtype(), chunks=(2,), shuffle=True, compression="gzip")
    assert group(clients.convert(path, fmt))["x"][...].tolist() == ["a", "", "größer"]


def binary128(order):
    made = (h5py.h5t.IEEE_F64LE if order == "<" else h5py.h5t.IEEE_F64BE).copy()
    made.set_size(16)
    made.set_precision(128)
    made.set_fields(127, 112, 15, 0, 112)
    made.set_ebias(16383)
    return made


@pytest.mark.parametrize("fmt", FORMATS)
def test_wide_floats(tmp_path, fmt):
    path = tmp_path / "a.h5"
    exact = np.array([1, -2.5, -0.0, np.inf, np.nan, 2.0**-1074, 1.7976931348623157e308, 1e-310])
    with h5py.File(path, "w") as file:
        file["x87"] = exact.astype(np.longdouble)
        file["third"] = np.array([1, np.longdouble(1) / 3])
        file.create_dataset("filled", (4,), np.longdouble, chunks=(2,), fillvalue=1.5)[:2] = 3
        file.create_dataset("inexact", (4,), np.longdouble, chunks=(2,), fillvalue=np.longdouble(1) / 3)[:2] = 3
        file["x87"].attrs["a"] = np.longdouble(2.5)
        for name, order in (("little", "<"), ("big", ">")):
            space = h5py.h5s.create_simple(exact.shape)
            h5py.h5d.create(file.id, name.encode(), binary128(order), space).write(h5py.h5s.ALL, h5py.h5s.ALL, exact)
    run = clients.convert(path, fmt)
    found = group(run)
    for name in ("x87", "little", "big"):
        assert clients.same_bits(exact, found[name][...]) is None, name
    assert found["filled"][...].tolist() == [3, 3, 1.5, 1.5] and found["x87"].attrs["a"] == 2.5
    assert run.codes == [("/inexact", "array-omitted"), ("/third", "inline-failed")]


def times(path, mark):
    """Writes 64-bit times as PyTables 3.11 stores [1178896298.025, -1.001, 3.0], and 32-bit ones."""
    with h5py.File(path, "w") as file:
        if mark:
            file.attrs["PYTABLES_FORMAT_VERSION"] = np.bytes_("2.1")
        stored = np.array([1178896298 << 32 | 25000, (-1 << 32) | (2**32 - 1000), 3 << 32])
        space = h5py.h5s.create_simple((3,))
        for name, kind, values in (("le", h5py.h5t.UNIX_D64LE, stored.astype("<i8")), ("be", h5py.h5t.UNIX_D64BE, stored.astype(">i8")),
                                   ("i4", h5py.h5t.UNIX_D32BE, np.array([1, -2, 3], ">i4"))):
            data = h5py.h5d.create(file.id, name.encode(), kind, space)
            data.write(h5py.h5s.ALL, h5py.h5s.ALL, values, mtype=kind)


@pytest.mark.parametrize("fmt", FORMATS)
def test_times_of_pytables(tmp_path, fmt):
    times(tmp_path / "a.h5", mark=True)
    found = group(clients.convert(tmp_path / "a.h5", fmt))
    assert found["le"][...].tolist() == found["be"][...].tolist() == [1178896298.025, -1.001, 3.0]
    assert found["i4"][...].tolist() == [1, -2, 3]


def test_times_of_others_have_no_meaning(tmp_path):
    times(tmp_path / "a.h5", mark=False)
    run = clients.virtualize(tmp_path / "a.h5", "--format", "zarr3-json")
    assert run.status == 1 and {code for _, code in run.codes} == {"array-omitted"}, run.stderr


class CacheImage(ctypes.Structure):
    """`H5AC_cache_image_config_t`."""
    _fields_ = [("version", ctypes.c_int), ("generate", ctypes.c_bool), ("resize", ctypes.c_bool), ("ageout", ctypes.c_int)]


def with_cache_image(path, mode):
    """Opens a file whose metadata is written to a metadata cache image when it is closed."""
    library = clients.libhdf5()
    library.H5Pset_mdc_image_config.argtypes = [ctypes.c_int64, ctypes.c_void_p]
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_libver_bounds(h5py.h5f.LIBVER_LATEST, h5py.h5f.LIBVER_LATEST)
    assert library.H5Pset_mdc_image_config(access.id, ctypes.byref(CacheImage(1, True, False, -1))) == 0
    name = os.fsencode(path)
    return h5py.File(h5py.h5f.create(name, fapl=access) if mode == "w" else h5py.h5f.open(name, fapl=access))


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("change", [False, True])
def test_text_in_a_metadata_cache_image(tmp_path, fmt, change):
    """The global heap may be in the image: nowhere else, or as another version than in its place."""
    path = tmp_path / "a.h5"
    texts = np.array(["one", "two", "three"], object)
    with h5py.File(path, "w", libver="latest") if change else with_cache_image(path, "w") as file:
        file.create_dataset("x", data=texts, dtype=h5py.string_dtype(), chunks=(2,))
    if change:
        texts[[0, 2]] = "ONE", "THREE"
        with with_cache_image(path, "a") as file:
            file["x"][[0, 2]] = texts[[0, 2]]
    assert b"MDCI" in path.read_bytes()
    run = clients.convert(path, fmt)
    assert run.codes == []
    with h5py.File(path) as file:
        assert file["x"].asstr()[...].tolist() == texts.tolist()
    assert group(run)["x"][...].tolist() == texts.tolist()


@pytest.mark.parametrize("fmt", FORMATS)
def test_text_past_the_declared_end_of_the_file(tmp_path, fmt):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver="earliest") as file:
        file["n"] = 1
        file["x"] = np.array(["a", "b"], object)
    data = bytearray(path.read_bytes())
    end = data.index(b"GCOL") + 4095
    assert end < len(data)
    data[40:48] = end.to_bytes(8, "little")
    path.write_bytes(data)
    with h5py.File(path) as file, pytest.raises(OSError, match="exceeds EOA"):
        file["x"][...]
    run = clients.convert(path, fmt)
    assert ("/x", "inline-failed") in run.codes
