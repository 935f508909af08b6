"""Attributes of every kind and of all fixtures, compared with h5netcdf."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5netcdf
import h5py
import numpy as np
import pytest
import virtualize
import zarr

# What cannot be mapped is announced by warnings, and zarr-python announces types without a specification.
pytestmark = pytest.mark.filterwarnings("ignore")


def is_same(got: Any, want: Any) -> bool:
    """Whether two values have the same Python type, data type, shape and bits."""
    if type(got) is not type(want):
        return False
    if isinstance(want, list):
        return len(got) == len(want) and all(map(is_same, got, want))
    if isinstance(want, np.ndarray) and want.dtype == object:
        return got.dtype == object and got.shape == want.shape and all(map(is_same, got.flat, want.flat))
    if isinstance(want, np.ndarray | np.generic):
        if want.dtype.names:  # the bytes between fields are undefined
            return got.dtype == want.dtype and repr(got) == repr(want)
        return got.dtype == want.dtype and got.shape == want.shape and got.tobytes() == want.tobytes()
    return bool(got == want)


def nodes(group: Any) -> Iterator[Any]:
    """The group, its variables, and those of all groups below."""
    yield group
    yield from group.variables.values()
    for child in group.groups.values():
        yield from nodes(child)


def differences(path: Path) -> list[str]:
    """Attributes that differ from those that h5netcdf returns, except those at which it fails."""
    store = virtualize.open(str(path))
    found: list[str] = []
    with h5netcdf.File(path, "r", phony_dims="access") as original:
        for node in nodes(original):
            at = node._h5path.strip("/").replace("_nc4_non_coord_", "")
            got = store.attributes(at)
            for name in node.attrs:
                try:
                    want = node.attrs[name]
                except TypeError:
                    continue  # h5netcdf asks for the length of a single reference
                if name not in got or not is_same(got[name], want):
                    found.append(f"{at}: {name}: {got.get(name)!r}, expected {want!r}")
            found += [f"{at}: {name} is unknown to h5netcdf" for name in set(got) - set(node.attrs)]
    return found


def fixed(holder: Any, name: str, text: bytes, charset: int) -> None:
    kind = h5py.h5t.C_S1.copy()
    kind.set_size(len(text))
    kind.set_cset(charset)
    attribute = h5py.h5a.create(holder.id, name.encode(), kind, h5py.h5s.create(h5py.h5s.SCALAR))
    attribute.write(np.array(text, f"S{len(text)}"), mtype=kind)


COMPOUND = np.dtype({
    "names": ["id", "name", "position", "inner"],
    "formats": ["<i4", "S4", ("<f8", (2,)), [("a", "u1"), ("b", ">i2")]],
    "offsets": [0, 8, 16, 40],
    "itemsize": 48,
})


def write_kinds(path: Path) -> None:
    text, enum = h5py.string_dtype(), h5py.enum_dtype({"red": 1, "blue": 5}, basetype="i2")
    sequences = np.empty(2, object)
    sequences[:] = [np.array([1], "i4"), np.array([1, 2], "i4")]
    compounds = np.zeros(2, COMPOUND)
    compounds[0] = (7, b"ab", (1.5, np.nan), (255, -2))
    with h5py.File(path, "w") as f:
        f["data"] = np.arange(3)
        attributes = f["data"].attrs
        for kind in ["i1", "u1", "<i2", ">u2", "<i4", ">i8", "<u8", "<f2", "<f4", ">f4", "<f8", "<c8", ">c16", "?"]:
            for shape in [(), (0,), (1,), (3,), (1, 2), (2, 1, 2)]:
                attributes[f"{kind} {shape}".replace(">", "big ").replace("<", "")] = np.ones(shape, kind)
        for kind in ["S1", "S3"]:
            for shape in [(), (0,), (1,), (3,), (1, 2), (2, 2)]:
                attributes[f"{kind} {shape}"] = np.full(shape, b"a", kind)
        for shape in [(1,), (3,), (1, 2), (2, 2)]:
            attributes.create(f"text {shape}", np.full(shape, "grün", object), dtype=text)
        attributes["text"] = "grün ☃"
        attributes["no text"] = np.bytes_(b"")
        for charset, name in [(h5py.h5t.CSET_ASCII, "ascii"), (h5py.h5t.CSET_UTF8, "utf-8")]:
            fixed(f["data"], name, "°C".encode(), charset)
            fixed(f["data"], f"{name}, latin-1", b"\xb0C", charset)
        for kind in ["f4", "S1", "S4", text]:
            attributes[f"null {kind}"] = h5py.Empty(kind)
        attributes.create("enum", np.int16(5), dtype=enum)
        attributes.create("enums", np.array([1, 5]), dtype=enum)
        attributes.create("sequences", sequences, dtype=h5py.vlen_dtype(np.int32))
        attributes.create("sequences (1,)", sequences[1:], dtype=h5py.vlen_dtype(np.int32))
        attributes["compounds"] = compounds
        attributes["compound"] = compounds[0]
        attributes["opaque"] = np.void(b"\x00\xff\x01")
        attributes["time"] = np.array("2000-01-01", "M8[s]").astype(h5py.opaque_dtype("M8[s]"))
        attributes["not a number"] = np.float32("nan")
        item = h5py.h5t.array_create(h5py.h5t.STD_I16LE, (2, 3))
        space = h5py.h5s.create_simple((2,))
        h5py.h5a.create(f["data"].id, b"array type", item, space).write(np.ones((2, 2, 3), "i2"), mtype=item)
        bits = h5py.h5a.create(f["data"].id, b"bits", h5py.h5t.STD_B16LE, space)
        bits.write(np.array([1, 0xFFFE], "u2"), mtype=h5py.h5t.NATIVE_B16)


def test_each_kind_is_that_of_h5netcdf(tmp_path: Path) -> None:
    path = tmp_path / "kinds.h5"
    write_kinds(path)
    assert differences(path) == []


def test_references_are_paths(tmp_path: Path) -> None:
    path = tmp_path / "references.h5"
    with h5py.File(path, "w") as f:
        f["data"] = np.arange(3)
        f["data"].attrs["one"] = f["data"].ref
        f["data"].attrs.create("two", [f["data"].ref] * 2, dtype=h5py.ref_dtype)
    store = virtualize.open(str(path))
    assert store.attributes("data") == {"one": "/data", "two": ["/data", "/data"]}


def names() -> list[str]:
    folder = Path(__file__).resolve().parents[3] / "fixtures/hdf5"
    # h5netcdf does not open them: a dangling link, a dataset with scales on some axes only, a committed datatype.
    refused = {"links_odd.h5", "scales_half.h5", "types.h5"}
    names = [path.name for path in folder.iterdir() if path.suffix in (".h5", ".nc", ".he5")]
    return sorted(set(names) - refused)


@pytest.mark.parametrize("name", names())
def test_fixtures_have_the_attributes_of_h5netcdf(fixtures: Path, name: str) -> None:
    assert differences(fixtures / "hdf5" / name) == []


def test_attributes_of_tiff_are_those_of_the_metadata(fixtures: Path) -> None:
    store = virtualize.open(str(fixtures / "tiff/cog.tif"), decoded=True)
    for path, node in [("", zarr.open_group(store, mode="r")), *zarr.open_group(store, mode="r").members(None)]:
        attributes, metadata = store.attributes(path), dict(node.attrs)
        attributes.pop("_FillValue", None)
        metadata.pop("_FillValue", None)
        assert attributes == metadata
    with pytest.raises(KeyError):
        store.attributes("nowhere")


def test_numbers_of_tiff_have_the_types_of_rioxarray(fixtures: Path, tmp_path: Path) -> None:
    import rasterio
    for kind in ["uint8", "int16", "uint16", "int32", "float32", "float64"]:
        path = tmp_path / f"{kind}.tif"
        transform = rasterio.transform.from_origin(0, 3, 1, 1)
        profile = {"driver": "GTiff", "width": 4, "height": 3, "count": 1, "dtype": kind, "nodata": 7}
        with rasterio.open(path, "w", transform=transform, **profile) as raster:
            raster.write(np.arange(12, dtype=kind).reshape(1, 3, 4))
            raster.scales, raster.offsets = (0.1,), (2.5,)
        attributes = virtualize.open(str(path)).attributes("band_data")
        # rioxarray unpacks to the type to which xarray promotes the packed numbers.
        expected = np.float64 if kind in ("int32", "float64") else np.float32
        assert attributes["_FillValue"] == 7 and attributes["_FillValue"].dtype == kind
        assert {np.dtype(type(attributes[name])) for name in ("scale_factor", "add_offset")} == {np.dtype(expected)}
