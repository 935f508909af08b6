"""Attributes of every kind, on a group and on an array, compared with h5py. Those that JSON cannot represent cause a diagnostic."""
import json

import clients
import numpy as np
import pytest
from clients import FORMATS, convert

COMPOUND = np.dtype([("id", "<i4"), ("name", "S4"), ("position", "<f8", (2,)), ("inner", [("a", "u1"), ("b", ">i2")])])


def enum(values):
    import h5py
    return h5py.enum_dtype(values, basetype="i2")


def kinds():
    """name → (value for h5py, its type if it differs from the value's, expected JSON; None if there is none)"""
    import h5py
    text, objects = h5py.string_dtype(), np.empty(2, object)
    objects[:] = [np.array([1, 2, 3], "i4"), np.array([], "i4")]
    compound = np.array([(7, b"ab", (1.5, np.nan), (255, -2)), (-8, b"abcd", (np.inf, 0), (0, 3))], COMPOUND)
    structures = [{"id": 7, "name": "ab", "position": [1.5, "NaN"], "inner": {"a": 255, "b": -2}},
            {"id": -8, "name": "abcd", "position": ["Infinity", 0.0], "inner": {"a": 0, "b": 3}}]
    return {
        "int8": (np.int8(-128), None, -128), "uint8": (np.uint8(255), None, 255), "big_int16": (np.array(-2, ">i2"), None, -2),
        "int64_lowest": (np.int64(-2**63), None, -2**63), "int64_highest": (np.int64(2**63 - 1), None, 2**63 - 1),
        "uint64_highest": (np.uint64(2**64 - 1), None, 2**64 - 1), "uint64s": (np.array([0, 2**64 - 1, 2**53 + 1], "u8"), None, [0, 2**64 - 1, 2**53 + 1]),
        "float32": (np.float32(0.1), None, float(np.float32(0.1))), "float64": (np.float64(0.1), None, 0.1), "float16": (np.float16(0.1), None, float(np.float16(0.1))),
        "big_float64": (np.array([1e300, 5e-324], ">f8"), None, [1e300, 5e-324]), "negative_zero": (np.float64(-0.0), None, -0.0),
        "nan": (np.float64("nan"), None, "NaN"), "infinities": (np.array([np.inf, -np.inf, 1]), None, ["Infinity", "-Infinity", 1.0]),
        "complex64": (np.complex64(1 + 2j), None, {"r": 1.0, "i": 2.0}), "complex128s": (np.array([1j, complex(np.nan, -1)]), None, [{"r": 0.0, "i": 1.0}, {"r": "NaN", "i": -1.0}]),
        "bool": (np.bool_(True), None, True), "bools": (np.array([True, False]), None, [True, False]),
        "enum": (np.int16(5), enum({"red": 1, "blue": 5}), 5), "enums": (np.array([1, 5]), enum({"red": 1, "blue": 5}), [1, 5]),
        "fixed": (np.bytes_(b"ascii"), None, "ascii"), "fixed_utf8": (np.array("aé".encode(), h5py.string_dtype("utf-8", 4)), None, "aé"),
        "variable": ("grün ☃", text, "grün ☃"), "variables": (np.array(["a", "", "ß"], object), text, ["a", "", "ß"]), "empty_text": ("", text, ""),
        "two_axes": (np.arange(6, dtype="i4").reshape(2, 3), None, [[0, 1, 2], [3, 4, 5]]),
        "three_axes": (np.arange(8, dtype="f4").reshape(2, 2, 2), None, np.arange(8.0).reshape(2, 2, 2).tolist()),
        "array_type": (np.ones((2, 2, 3), "i2"), None, [[[1, 1, 1], [1, 1, 1]], [[1, 1, 1], [1, 1, 1]]]),
        "no_elements": (np.zeros(0, "i4"), None, []), "one_element": (np.array([9]), None, 9),
        "null": (h5py.Empty("f4"), None, []), "null_text": (h5py.Empty("S1"), None, ""),
        "sequences": (objects, h5py.vlen_dtype(np.int32), [[1, 2, 3], []]),
        "compounds": (compound, None, structures), "compound": (compound[0], None, structures[0]),
        "opaque": (np.void(b"\x00\xff\x01"), None, None), "no_text": (np.bytes_(b"\xff\xfe"), None, None),
    }


def write(path):
    import h5py
    with h5py.File(path, "w") as f:
        f["data"] = np.arange(3)
        f.create_group("group")
        for holder in (f["group"], f["data"]):
            for name, (value, dtype, _) in kinds().items():
                if name == "array_type":
                    space = h5py.h5s.create_simple((2,))
                    item = h5py.h5t.array_create(h5py.h5t.STD_I16LE, (2, 3))
                    h5py.h5a.create(holder.id, name.encode(), item, space).write(value, mtype=item)
                else:
                    holder.attrs.create(name, value, dtype=dtype)
            holder.attrs["object"] = f["data"].ref
            holder.attrs.create("objects", np.array([f["data"].ref, h5py.Reference()], object), dtype=h5py.ref_dtype)
            bits = h5py.h5a.create(holder.id, b"bits", h5py.h5t.STD_B16LE, h5py.h5s.create_simple((2,)))
            bits.write(np.array([1, 0xFFFE], "u2"), mtype=h5py.h5t.NATIVE_B16)
        f["committed"] = np.dtype("i4")
        f["committed"].attrs["lost"] = 1


@pytest.mark.parametrize("holder", ["group", "data"])
def test_each_kind_of_attribute(tmp_path, fmt, holder):
    import zarr
    path = tmp_path / "kinds.h5"
    write(path)
    run, expected = convert(path, fmt), {k: v[2] for k, v in kinds().items() if v[2] is not None}
    expected |= {"object": "/data", "objects": ["/data", None], "bits": [1, 0xFFFE]}
    group = zarr.open_group(clients.open_store(run.references), mode="r", zarr_format=FORMATS[fmt])
    got = dict(group[holder].attrs)
    clients.report([f"{k}: {got.get(k, 'omitted')!r}, expected {v!r}" for k, v in expected.items()
                    if k not in got or json.dumps(got[k], sort_keys=True) != json.dumps(v, sort_keys=True)])
    cannot = {k for k, v in kinds().items() if v[2] is None}
    assert not cannot & set(got)
    lines = [line for line in run.stderr.splitlines() if line.endswith("[attribute-omitted]") and f"/{holder}:" in line]
    assert len(lines) == len(cannot) and all(any(f'"{k}"' in line for line in lines) for k in cannot), run.stderr


def test_what_h5py_reads_is_what_was_meant(tmp_path):
    """Checks the list above itself: h5py must read back the same numbers and text."""
    import h5py
    path = tmp_path / "kinds.h5"
    write(path)
    with h5py.File(path) as f:
        for name, (_, _, expected) in kinds().items():
            value = f["data"].attrs[name]
            if expected is None or isinstance(value, h5py.Empty) or name in ("sequences", "compounds", "compound"):
                continue
            assert clients.plain(value) == clients.plain(expected if np.ndim(value) == 0 or isinstance(expected, list) else [expected]), name


def test_hidden_attributes_are_those_of_h5netcdf(tmp_path, fmt):
    """On groups and arrays. h5netcdf shows what only looks like bookkeeping, such as the labels of axes."""
    import h5netcdf.attrs, h5py, zarr
    hidden = h5netcdf.attrs._HIDDEN_ATTRS
    others = {change(name) for name in hidden for change in (str.lower, str.title, lambda name: name + "S", lambda name: name[1:])} - hidden
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for holder in (file.create_group("group"), file.create_dataset("data", data=np.zeros((2, 3)))):
            for name in sorted((hidden | others) - {"DIMENSION_LIST", "REFERENCE_LIST"}):
                holder.attrs[name] = np.bytes_(b"text")
        for axis, label in zip(file["data"].dims, "yx"):
            axis.label = label
    run = convert(tmp_path / "a.h5", fmt)
    ours = zarr.open_group(clients.open_store(run.references), mode="r", zarr_format=FORMATS[fmt])
    with h5netcdf.File(tmp_path / "a.h5", phony_dims="sort") as file:
        for name in ("group", "data"):
            assert set(ours[name].attrs) - {"_ARRAY_DIMENSIONS"} == set(file[name].attrs), name
    assert "DIMENSION_LABELS" in ours["data"].attrs
    notes = json.loads(clients.virtualize("inspect", tmp_path / "a.h5", "--json").stdout)["diagnostics"]
    (note,) = [note["message"] for note in notes if note["code"] == "attribute-omitted"]
    assert "2 objects" in note and "CLASS" in note


def test_committed_datatypes_are_not_dropped_silently(tmp_path):
    path = tmp_path / "kinds.h5"
    write(path)
    shown = json.loads(clients.virtualize("inspect", path, "--json").stdout)
    assert [d["path"] for d in shown["diagnostics"] if d["code"] == "datatype-omitted"] == ["/committed"]


@pytest.mark.parametrize("count", [1, 30])
@pytest.mark.parametrize("fmt", FORMATS)
def test_large_attributes(tmp_path, fmt, count):
    """Beyond 64 KiB, attributes are huge objects of a fractal heap, outside of its blocks."""
    import h5py, zarr
    values = {f"a{n}": np.arange(n, n + 16_000 + n * 200, dtype="i4") for n in range(count)} | {"text": "é" * 70_000}
    with h5py.File(tmp_path / "large.h5", "w", libver="latest") as f:
        f["x"] = np.arange(3)
        for name, value in values.items():
            f["x"].attrs[name] = value
    store = clients.open_store(convert(tmp_path / "large.h5", fmt).references)
    attributes = zarr.open_group(store, mode="r", zarr_format=FORMATS[fmt])["x"].attrs
    assert {name: np.asarray(attributes[name]).tolist() for name in values} == {name: np.asarray(value).tolist() for name, value in values.items()}
