"""References to objects, dataset regions and attributes, as dataset elements and as attributes, compared with libhdf5."""
import ctypes, json

import clients
import numpy as np
import pytest
from clients import FORMATS, convert

SPACE_ALL = 0


def library():
    lib = clients.libhdf5()
    for name in ("H5Dcreate2", "H5Screate", "H5Screate_simple", "H5Dget_space", "H5Dopen2"):
        getattr(lib, name).restype = ctypes.c_int64
    return lib


def content(f):
    f["data"] = np.arange(120).reshape(10, 12)
    f["data"].attrs["unit of it"] = "m"
    f.create_group("group/inner")
    f["line"] = np.arange(20)


def selections(f):
    """Regions of /data and /line with the selection that each denotes: as requested from libhdf5, independent of our output."""
    import h5py
    data, line = f["data"], f["line"]
    points = np.zeros((10, 12), bool)
    points[6, 9] = points[2, 3] = True
    sid = h5py.h5s.create_simple((20,))
    sid.select_hyperslab((1,), (4,), (3,), (2,))
    irregular = h5py.h5s.create_simple((10, 12))
    irregular.select_hyperslab((0, 0), (1, 1), block=(2, 2))
    irregular.select_hyperslab((5, 5), (1, 1), block=(1, 3), op=h5py.h5s.SELECT_OR)
    single = h5py.h5s.create_simple((10, 12))
    single.select_elements([(6, 9), (2, 3)])
    region = lambda name, space: h5py.h5r.create(f.id, name, h5py.h5r.DATASET_REGION, space)  # noqa: E731
    return [(region(b"data", irregular), "/data", {"selection": "blocks", "blocks": [[[0, 0], [1, 1]], [[5, 5], [5, 7]]]}),
            (region(b"data", single), "/data", {"selection": "points", "points": [[6, 9], [2, 3]]}),
            (line.regionref[:], "/line", None),
            (data.regionref[2:4, 5:6], "/data", None),
            (region(b"line", sid), "/line", None)]


def covered(part, shape):
    """Returns the elements of a selection."""
    mask = np.zeros(shape, bool)
    if part["selection"] == "all":
        mask[...] = True
    for first, last in part.get("blocks", []):
        mask[tuple(slice(a, b + 1) for a, b in zip(first, last))] = True
    for point in part.get("points", []):
        mask[tuple(point)] = True
    if part["selection"] == "hyperslab":
        axes = []
        for start, stride, count, block in zip(part["start"], part["stride"], part["count"], part["block"]):
            axes.append([start + stride * i + j for i in range(count) for j in range(block)])
        mask[np.ix_(*axes)] = True
    return mask


def oracle(f, reference):
    """Returns the elements that libhdf5 selects."""
    import h5py
    space = h5py.h5r.get_region(reference, f.id)
    shape, mask = space.shape, np.zeros(space.shape, bool)
    if space.get_select_type() == h5py.h5s.SEL_ALL:
        mask[...] = True
    elif space.get_select_type() == h5py.h5s.SEL_POINTS:
        for point in space.get_select_elem_pointlist():
            mask[tuple(point)] = True
    else:
        for first, last in space.get_select_hyper_blocklist():
            mask[tuple(slice(a, b + 1) for a, b in zip(first, last))] = True
    return shape, mask


def read(path, fmt):
    import zarr
    return zarr.open_group(clients.open_store(convert(path, fmt).references), mode="r", zarr_format=FORMATS[fmt])


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("layout", ["contiguous", "chunked"])
def test_regions_are_paths_and_parts(tmp_path, fmt, libver, layout):
    import h5py
    path = tmp_path / "regions.h5"
    with h5py.File(path, "w", libver=libver) as f:
        content(f)
        wanted = selections(f)
        # The last one is not written: a null reference.
        dataset = f.create_dataset("regions", (len(wanted) + 1,), h5py.regionref_dtype, chunks=(2,) if layout == "chunked" else None)
        for i, (reference, _, _) in enumerate(wanted):
            dataset[i] = reference
        f["data"].attrs.create("one", wanted[1][0], dtype=h5py.regionref_dtype)
    group = read(path, fmt)
    paths, parts = group["regions"][...].tolist(), group["regions_part"][...].tolist()
    assert paths == [p for _, p, _ in wanted] + [""]
    assert parts[-1] == ""
    with h5py.File(path) as f:
        for text, reference, (_, _, exact) in zip(parts, f["regions"][...], wanted):
            part = json.loads(text)
            shape, mask = oracle(f, reference)
            assert np.array_equal(covered(part, shape), mask), text
            assert exact is None or part == exact
    assert group["data"].attrs["one"] == {"path": "/data", "selection": "points", "points": [[6, 9], [2, 3]]}
    shown = json.loads(clients.virtualize("inspect", path, "--json").stdout)
    assert {"reference-part", "reference-as-path"} <= {d["code"] for d in shown["diagnostics"] if d["path"] == "/regions"}


def test_references_of_1_12(tmp_path, fmt):
    """All three kinds as dataset elements and as an attribute, written by H5Rcreate_*."""
    import h5py
    lib, path = library(), tmp_path / "standard.h5"
    i64 = ctypes.c_int64
    standard = i64.in_dll(lib, "H5T_STD_REF_g")
    with h5py.File(path, "w", libver="latest") as f:
        content(f)
        space = h5py.h5s.create_simple((10, 12))
        space.select_hyperslab((1, 2), (3, 5), (3, 2), (2, 1))
        references = (ctypes.c_ubyte * (64 * 5))()
        at = lambda n: ctypes.byref(references, 64 * n)  # noqa: E731
        file = i64(f.id.id)
        assert lib.H5Rcreate_object(file, b"/group/inner", i64(0), at(0)) >= 0
        assert lib.H5Rcreate_region(file, b"/data", i64(space.id), i64(0), at(1)) >= 0
        assert lib.H5Rcreate_attr(file, b"/data", b"unit of it", i64(0), at(2)) >= 0
        assert lib.H5Rcreate_object(file, b"/", i64(0), at(3)) >= 0
        extent = h5py.h5s.create_simple((5,))
        dataset = lib.H5Dcreate2(file, b"references", standard, i64(extent.id), i64(0), i64(0), i64(0))
        assert lib.H5Dwrite(i64(dataset), standard, i64(SPACE_ALL), i64(SPACE_ALL), i64(0), references) >= 0
        lib.H5Acreate2.restype = i64
        attribute = lib.H5Acreate2(file, b"references", standard, i64(extent.id), i64(0), i64(0))
        assert attribute > 0 and lib.H5Awrite(i64(attribute), standard, references) >= 0
        lib.H5Aclose(i64(attribute)), lib.H5Dclose(i64(dataset))
    group = read(path, fmt)
    paths, parts = group["references"][...].tolist(), group["references_part"][...].tolist()
    assert paths == ["/group/inner", "/data", "/data", "/", ""]
    assert [parts[0], parts[3], parts[4]] == ["", "", ""]
    assert json.loads(parts[2]) == {"attribute": "unit of it"}
    mask = np.zeros((10, 12), bool)
    for i in (1, 4, 7):
        mask[i:i + 2, 2:12:2] = True
    assert np.array_equal(covered(json.loads(parts[1]), (10, 12)), mask)
    messages = group.attrs["references"]
    assert [messages[0], messages[3], messages[4]] == ["/group/inner", "/", None]
    assert messages[2] == {"path": "/data", "attribute": "unit of it"}
    assert messages[1].pop("path") == "/data" and np.array_equal(covered(messages[1], (10, 12)), mask)


def test_the_name_of_the_parts_is_free(tmp_path, fmt):
    import h5py
    path = tmp_path / "taken.h5"
    with h5py.File(path, "w") as f:
        content(f)
        f.create_dataset("regions", data=np.array([f["line"].regionref[3:4]], dtype=h5py.regionref_dtype))
        f["regions_part"] = np.arange(3)
    group = read(path, fmt)
    assert group["regions_part"][...].tolist() == [0, 1, 2]
    assert json.loads(group["regions_part_"][...].tolist()[0])["selection"] in ("hyperslab", "blocks")
