"""NetCDF classic fixtures through references, compared with netCDF4-python's results, and with xarray on the original."""
import json

import clients
import netcdf3_oracle
import numpy as np
import pytest
from clients import FORMATS, convert, report, virtualize

FOLDER = clients.FIXTURES / "netcdf3"
FILES = sorted(p.name for p in FOLDER.iterdir() if p.suffix == ".nc")
# netCDF4-python reads all records of such files, of which there are 2^32 - 1, or crashes.
STREAMED = [name for name in FILES if name.startswith("streaming")]
# Zarr has no nodes of these names.
UNNAMABLE = {"names.nc": {"a/b", ".", "zarr.json"}}
CHANGED = {"back\\slash": "back%5Cslash"}


def expected(name):
    return json.loads((FOLDER / f"{name}.json").read_text())


def plain_values(array):
    return [v if isinstance(v, dict) else v for v in map(one, np.ravel(array))]


def one(value):
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    return clients.plain(value)[0]


@pytest.mark.parametrize("name", FILES)
def test_values_are_those_of_netcdf4_python(name, fmt):
    import zarr
    references = convert(FOLDER / name, fmt).references
    store, problems = clients.open_store(references), []
    arrays = {path for path, kind in clients.nodes(references, FORMATS[fmt]).items() if kind == "array"}
    wanted = expected(name)["variables"]
    assert arrays == {CHANGED.get(n, n) for n in wanted if n not in UNNAMABLE.get(name, ())}
    for path, want in wanted.items():
        if path in UNNAMABLE.get(name, ()):
            continue
        array = zarr.open_array(store, path=CHANGED.get(path, path), mode="r", zarr_format=FORMATS[fmt])
        found = [array.dtype.newbyteorder("<").str, list(array.shape), plain_values(array[...])]
        if found != [want["dtype"], want["shape"], want["values"]]:
            problems.append(f"{path}: {found}, expected {want}")
    report(problems)


# The names in names.nc differ between xarray and Zarr; its values are compared above.
@pytest.mark.parametrize("name", sorted(set(FILES) - {*STREAMED, *UNNAMABLE}))
def test_xarray_shows_what_it_shows_on_the_original(name, fmt):
    report(netcdf3_oracle.differences(FOLDER / name, fmt)[0])


def test_attributes_are_those_of_netcdf4_python():
    for name in FILES:
        ds = clients.open_dataset(convert(FOLDER / name, "zarr3-json").references, 3)
        want = expected(name)
        assert {k: clients.plain(v) for k, v in ds.attrs.items()} == {k: clients.plain(v) for k, v in want["attributes"].items()}
        assert {k: v for k, v in want["dimensions"].items() if k in ds.sizes} == dict(ds.sizes)


@pytest.mark.parametrize("name,codes", [
    ("truncated.nc", {("/a", "file-truncated"), ("/b", "file-truncated")}),
    ("more_records.nc", {("/a", "file-truncated"), ("/b", "file-truncated")}),
    ("without_last_padding.nc", set()),
    ("wrong_sizes.nc", set()),
    ("names.nc", {("/.", "node-omitted"), ("/a/b", "node-omitted"), ("/zarr.json", "node-omitted"), ("/back%5Cslash", "name-changed"),
                  ("/twice", "name-collision"), ("/", "name-collision")}),
])
def test_what_a_user_has_to_know_is_reported(name, codes, fmt):
    run = virtualize(FOLDER / name, "--format", fmt)
    assert set(run.codes) == codes, run.stderr
    assert virtualize(FOLDER / name, "--format", fmt, "--strict").status == (1 if codes else 0)


def test_a_streamed_file_that_ends_within_a_record_is_reported(tmp_path, fmt):
    whole = (FOLDER / "streaming_1.nc").read_bytes()
    for cut, records, codes in ((1, 4, []), (2, 3, [("/", "file-truncated")]), (12, 3, [])):
        (tmp_path / "cut.nc").write_bytes(whole[:-cut])
        run = virtualize(tmp_path / "cut.nc", "--format", fmt)
        ds = clients.open_dataset(run.references, FORMATS[fmt])
        assert (ds.sizes["t"], run.codes) == (records, codes)


def test_damaged_headers_are_refused(tmp_path):
    whole = (FOLDER / "types_1.nc").read_bytes()
    for content, message in (
        (whole[:50], "beyond the end of the file"),
        (whole.replace(b"\0\0\0\x0b", b"\0\0\0\x0c", 1), "tag 12"),
        (b"CDF\x03" + whole[4:], "neither HDF5, NetCDF nor TIFF"),
    ):
        (tmp_path / "damaged.nc").write_bytes(content)
        run = virtualize(tmp_path / "damaged.nc")
        assert run.status == 1 and message in run.stderr, run.stderr


def test_inspect_shows_fill_values_and_layout():
    run = virtualize("inspect", FOLDER / "fill.nc", "-f", "zarr3-json", "--array", "declared_i2")
    text = run.stdout.decode()
    assert "netcdf-fill" in text and "attribute _FillValue: -99, kept" in text and "records, alternating" in text, text
    text = virtualize("inspect", FOLDER / "fill.nc", "-f", "zarr3-json", "--array", "default_i2").stdout.decode()
    assert "default fill value, NC_FILL_SHORT: -32767, used" in text, text


def test_large_variables_are_split(tmp_path, fmt):
    import netCDF4
    path = tmp_path / "large.nc"
    with netCDF4.Dataset(path, "w", format="NETCDF3_64BIT_OFFSET") as ds:
        ds.createDimension("t", None), ds.createDimension("y", 100), ds.createDimension("x", 70)
        ds.createVariable("fixed", "f4", ("y", "x"))[:] = np.arange(7000).reshape(100, 70)
        ds.createVariable("record", "i2", ("t", "x"))[:] = np.arange(490).reshape(7, 70)
    for argument, chunks in (("1000K", {"fixed": (100, 70), "record": (7, 70)}), ("2800", {"fixed": (10, 70), "record": (7, 70)}),
                             ("1", {"fixed": (1, 70), "record": (1, 70)})):
        problems, run = netcdf3_oracle.differences(path, fmt, "--option", f"split-contiguous={argument}")
        report(problems)
        import zarr
        group = zarr.open_group(clients.open_store(run.references), mode="r", zarr_format=FORMATS[fmt])
        assert {name: array.chunks for name, array in group.arrays()} == chunks


def test_validate_and_diff_accept_the_output(tmp_path, fmt):
    out = tmp_path / "out.json"
    assert virtualize(FOLDER / "types_2.nc", "--format", fmt, "-o", out).status == 0
    assert virtualize("validate", out).status == 0
    assert virtualize("diff", out, FOLDER / "types_2.nc").status == 0


def test_packed_numbers_are_unpacked():
    import xarray as xr
    run = virtualize(FOLDER / "fill.nc", "--format", "zarr3-json", "--unpack", "--option", "missing-value-convention=true")
    assert run.status == 0 and ("/packed", "not-unpacked") in run.codes, "two values mean no data"
    ours = clients.open_dataset(run.references, 3)
    with xr.open_dataset(FOLDER / "fill.nc", engine="netcdf4") as original:
        assert clients.same_values(original["unsigned"].values, clients.decode(ours, "unsigned", True)[1]) is None
        assert ours["unsigned"].dtype.kind == "f"


GIB = 2**30


def write_sparse(path, version, dims, variables, count):
    """Writes a file of more bytes than the disk has to store: (name, type, dimensions, content of the last bytes of the last record)."""
    from netcdf3_files import Writer
    w = Writer(version, numrecs=count)
    for name, length in dims:
        w.dim(name, length)
    for name, code, ids, _ in variables:
        w.var(name, code, ids, np.zeros(0, code))
    for var in w.vars:
        lengths = [dims[d][1] for d in var["dims"]]
        var["record"] = lengths[:1] == [0]
        var["size"] = int(np.prod(lengths[var["record"]:], dtype=object)) * int(var["code"][1:])
        var["padded"] = var["size"] + -var["size"] % 4
    begins, at = [], len(w.header([0] * len(w.vars), count))
    for var in w.vars:
        begins.append(at)
        at += var["padded"]
    stride = sum(var["padded"] for var in w.vars if var["record"])
    with open(path, "wb") as f:
        f.write(w.header(begins, count))
        f.truncate(at + stride * (count - 1 if stride else 0))
        for begin, var, (_, _, _, content) in zip(begins, w.vars, variables):
            f.seek(begin + (stride * (count - 1) if var["record"] else 0) + var["size"] - len(content))
            f.write(content)


@pytest.mark.parametrize("version,dims,variables,count", [
    (5, [("x", 5 * GIB), ("y", 4)], [("large", "i1", [0], b"end"), ("small", "i1", [1], b"abcd")], 0),
    (2, [("x", 5), ("y", GIB), ("z", 4)], [("small", "i1", [2], b"abcd"), ("large", "i1", [0, 1], b"end")], 0),
    (5, [("t", 0), ("x", 5 * GIB), ("y", 3)], [("large", "i1", [0, 1], b"end"), ("small", "i2", [0, 2], b"\0\1\0\2")], 3),
    (2, [("t", 0), ("y", 3), ("x", 3 * GIB)], [("small", "i2", [0, 1], b"\0\1\0\2"), ("large", "i1", [0, 2], b"end")], 3),
])
def test_offsets_past_4_gib(tmp_path, fmt, version, dims, variables, count):
    """The size in the header cannot be right there. Of large variables, the place of the last chunk is compared."""
    import netCDF4, zarr
    path = tmp_path / "sparse.nc"
    write_sparse(path, version, dims, variables, count)
    run = virtualize(path, "--format", fmt, "--option", "split-contiguous=64M")
    assert (run.status, run.codes) == (0, []), run.stderr
    small = zarr.open_array(clients.open_store(run.references), path="small", mode="r", zarr_format=FORMATS[fmt])
    with netCDF4.Dataset(path) as ds:
        ds.set_auto_maskandscale(False)
        assert clients.same_bits(ds["small"][...], small[...]) is None
        assert ds["large"][..., -3:].ravel()[-3:].tobytes() == b"end"
    places = [value for key, value in run.references.get("refs", run.references).items() if key.startswith("large/") and isinstance(value, list)]
    _, offset, length = max(places, key=lambda place: place[1])
    with open(path, "rb") as f:
        f.seek(offset + length - 3)
        assert f.read(3) == b"end"


@pytest.mark.parametrize("version,most", [(1, (1 << 31) - 4), (2, (1 << 32) - 4)])
@pytest.mark.parametrize("size", [0, 1])
@pytest.mark.parametrize("record,last", [(False, False), (False, True), (True, False), (True, True)])
def test_only_the_last_variable_may_be_large(tmp_path, fmt, version, most, size, record, last):
    import netCDF4
    path = tmp_path / "sparse.nc"
    dims = [("t", 0), ("x", most + size), ("y", 4)]
    variables = [("large", "i1", [0, 1] if record else [1], b"end"), ("small", "i1", [0, 2] if record else [2], b"abcd")]
    write_sparse(path, version, dims, variables[::-1] if last else variables, 1)
    try:
        netCDF4.Dataset(path).close()
        expected = 0
    except OSError as error:
        # Positions past 2 GiB are negative in CDF-1.
        assert "format constraints" in str(error) or version == 1 and not last
        expected = 1
    run = virtualize(path, "--format", fmt, "--option", "split-contiguous=64M")
    assert run.status == expected, run.stderr
    assert expected == (0 if last or version == 2 and size == 0 else 1)


def test_gaps_between_small_records(tmp_path, fmt):
    """netCDF-C reads record variables that begin further apart than a record is long."""
    import netCDF4
    from netcdf3_files import Writer
    count, gap = 1000, 100
    writer = Writer(1)
    writer.dim("t", 0)
    writer.dim("x", 1)
    for name in "ab":
        writer.var(name, "i4", [0], np.arange(count, dtype="i4"))
    header = len(writer.bytes()) - count * 8
    for variable in writer.vars:
        variable.update(record=True, size=4, padded=4)
    begins = [header, header + 4 + gap]
    path = tmp_path / "gap.nc"
    path.write_bytes(writer.header(begins, count) + np.random.default_rng(0).integers(0, 256, count * 8 + gap + 64, "u1").tobytes())
    ds = clients.open_dataset(convert(path, fmt).references, FORMATS[fmt])
    with netCDF4.Dataset(path) as file:
        file.set_auto_maskandscale(False)
        for name in "ab":
            np.testing.assert_array_equal(ds[name].values, file[name][:])
