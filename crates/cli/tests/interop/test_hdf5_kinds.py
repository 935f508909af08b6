"""Types of elements and attributes that libraries convert between file and memory, compared with h5py and xarray on the original. More files:
`RANDOM_KINDS=200`."""
import json, random, warnings

import clients
import h5py
import numpy as np
import pytest
from clients import FORMATS


def open_with_xarray(source, **options):
    import xarray as xr
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return xr.open_dataset(source, **options).load()


def both(path, fmt, *arguments, **options):
    """Opens the original and our references in xarray."""
    run = clients.virtualize(path, "--format", fmt, *arguments)
    assert run.status == 0, run.stderr
    ours = open_with_xarray(clients.open_store(run.references), engine="zarr", consolidated=False, zarr_format=FORMATS[fmt], chunks=None, **options)
    return open_with_xarray(path, engine="h5netcdf", **options), ours


@pytest.mark.parametrize("kind", ["m8[s]", "m8[ms]", "m8[ns]", ">m8[us]", "M8[s]", "M8[ns]", ">M8[ms]"])
def test_opaque_times(tmp_path, fmt, kind):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        data = np.array([0, 1, 86_400_000, "NaT"], kind)
        file.create_dataset("t", data=data.astype(h5py.opaque_dtype(data.dtype)))
    truth, ours = both(tmp_path / "a.h5", fmt)
    assert truth.t.dtype.kind == ours.t.dtype.kind
    np.testing.assert_array_equal(truth.t.values, ours.t.values)


def test_numpy_times_without_a_unit_are_reported(tmp_path, fmt):
    times = {unit: np.array([3, 4], "i8").view(unit) for unit in ["M8[Y]", "M8[W]", "M8[25s]", "m8[M]", "M8[s]"]}
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for unit, data in times.items():
            file.create_dataset(unit, data=data.astype(h5py.opaque_dtype(data.dtype)))
        record = np.zeros(2, [("n", "i4"), ("t", h5py.opaque_dtype("M8[s]"))])
        record["t"] = times["M8[s]"]
        file.create_dataset("record", data=record)
    run = clients.virtualize(tmp_path / "a.h5", "--format", fmt)
    assert sorted(run.codes) == [(f"/{name}", "attribute-omitted") for name in sorted([*list(times)[:-1], "record"])]


@pytest.mark.parametrize("width", ["f4", "f8"])
def test_packed_floats_whose_sentinels_are_nan_keep_their_type(tmp_path, fmt, width):
    nan, factor = np.float32("nan"), np.dtype(width).type(2)
    kinds = {"fill": {"_FillValue": nan}, "missing": {"missing_value": nan}, "both": {"_FillValue": nan, "missing_value": nan},
             "offset": {"missing_value": nan, "add_offset": factor}, "several": {"missing_value": np.array([nan, 3], "f4"), "add_offset": factor}}
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, attributes in kinds.items():
            file.create_dataset(name, data=np.array([1, nan, 3], "f4")).attrs.update(attributes | {"scale_factor": factor})
    truth, ours = both(tmp_path / "a.h5", fmt)
    for name in set(kinds) - ({"several"} if width == "f4" else set()):
        assert clients.same_bits(truth[name].values, ours[name].values) is None, name


def test_sentinels_of_one_byte(tmp_path, fmt):
    """h5netcdf reads text attributes of one byte as bytes. They mask elements of fixed length, but not those of variable length."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name in ("_FillValue", "missing_value"):
            file.create_dataset(f"fixed{name}", data=np.array([b"x", b"y"], "S1")).attrs[name] = np.bytes_(b"x")
        file.create_dataset("variable", data=np.array(["x", "y"], object)).attrs["_FillValue"] = np.bytes_(b"x")
    truth, ours = both(tmp_path / "a.h5", fmt)
    run = clients.virtualize(tmp_path / "a.h5", "--format", fmt)
    for name in truth:
        if (f"/{name}", "fill-value-dropped" if name.endswith("_FillValue") else "missing-value-dropped") not in run.codes:
            assert ours[name].astype(object).values.tolist() == truth[name].values.tolist(), name
    assert ("/fixedmissing_value", "missing-value-dropped") in run.codes and ("/variable", "fill-value-dropped") in run.codes


@pytest.mark.parametrize("base", ["i1", "u1", "i2", ">i2", "u4", ">i8"])
@pytest.mark.parametrize("names", [("FALSE", "TRUE"), ("NO", "YES")])
def test_booleans_of_any_size(tmp_path, fmt, base, names):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        kind = h5py.enum_dtype({names[0]: 0, names[1]: 1}, base)
        file.create_dataset("b", data=np.array([0, 1, 1, 0], base), dtype=kind, chunks=(3,), fillvalue=1)
        file.create_dataset("none", (4,), dtype=kind)
    import zarr
    store = clients.open_store(clients.convert(tmp_path / "a.h5", fmt).references)
    with h5py.File(tmp_path / "a.h5") as file:
        for name in file:
            got = zarr.open_array(store, path=name, mode="r", zarr_format=FORMATS[fmt])[...]
            assert clients.same_bits(file[name][()], got) is None, (name, file[name].dtype, got.dtype)


def test_packing_with_integers_and_floats_of_32_bits(tmp_path, fmt):
    """Rules P1 and P2 in docs/semantics.md. xarray multiplies in the type of the attribute, which JSON does not preserve."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("whole", data=np.array([10], "i2")).attrs["scale_factor"] = np.int16(30000)
        file.create_dataset("small", data=np.array([16777217], "i4")).attrs["scale_factor"] = np.float32(0.1)
    truth, ours = both(tmp_path / "a.h5", fmt)
    assert (truth.whole.item(), ours.whole.item()) == (-27680, 300000)
    assert truth.small.dtype == np.float32 and ours.small.dtype == np.float64
    assert ours.small.item() == 16777217 * float(np.float32(0.1))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, np.longdouble(1) / 3, np.longdouble("1e4000"), 2j], ids=repr)
@pytest.mark.parametrize("name", ["scale_factor", "add_offset"])
def test_an_array_whose_factors_json_cannot_represent_is_omitted(tmp_path, fmt, name, value):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("v", data=np.arange(3, dtype="i2")).attrs[name] = value
        file.create_dataset("w", data=np.arange(3, dtype="i2"))
    run = clients.virtualize(tmp_path / "a.h5", "--format", fmt)
    assert run.codes == [("/v", "array-omitted")] and name in run.stderr
    assert clients.nodes(run.references, FORMATS[fmt]) == {"": "group", "w": "array"}


def test_an_empty_fill_value_is_named(tmp_path, fmt):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("v", data=np.arange(3, dtype="i2")).attrs["_FillValue"] = h5py.Empty("i2")
    run = clients.virtualize(tmp_path / "a.h5", "--format", fmt)
    assert "_FillValue is dropped: an empty attribute is not a value of type" in run.stderr


def integer(draw):
    """An integer type with unused bits."""
    kind = h5py.h5t.py_create(np.dtype(draw.choice(["<", ">"]) + draw.choice("iu") + draw.choice("248"))).copy()
    bits = kind.get_size() * 8
    kind.set_precision(draw.randint(1, bits))
    kind.set_offset(draw.randint(0, bits - kind.get_precision()))
    return kind


def enumeration(draw):
    base = np.dtype(draw.choice(["i1", "<i2", ">i4", "u1", ">u2"]))
    return h5py.h5t.py_create(h5py.enum_dtype({f"n{n}": n for n in range(draw.randint(1, 4))}, base), logical=True)


def floating(draw):
    """A floating-point type with unused bits."""
    kind = draw.choice([h5py.h5t.IEEE_F32LE, h5py.h5t.IEEE_F32BE, h5py.h5t.IEEE_F64LE]).copy()
    size = kind.get_size() * 8
    exponent = draw.randint(4, 8)
    mantissa = draw.randint(3, 23)
    kind.set_fields(exponent + mantissa, mantissa, exponent, 0, mantissa)
    kind.set_ebias(2 ** (exponent - 1) - 1)
    kind.set_precision(size)
    return kind


@pytest.mark.parametrize("seed", clients.seeds("RANDOM_KINDS", 6, 6))
def test_elements_are_those_of_h5py(tmp_path, seed, fmt):
    import zarr
    draw, problems = random.Random(seed), []
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for n in range(12):
            kind = draw.choice([integer, enumeration, floating])(draw)
            shape = (draw.randint(1, 6),)
            count = shape[0]
            try:
                dataset = h5py.h5d.create(file.id, f"d{n}".encode(), kind, h5py.h5s.create_simple(shape))
            except ValueError:  # libhdf5 writes no numbers that would fit in half their bytes
                continue
            if isinstance(kind, h5py.h5t.TypeEnumID):
                size = kind.get_size()
                order = "big" if kind.get_super().get_order() == h5py.h5t.ORDER_BE else "little"
                raw = b"".join(draw.randrange(kind.get_nmembers()).to_bytes(size, order) for _ in range(count))
            elif isinstance(kind, h5py.h5t.TypeFloatID):
                dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.array([draw.choice([0, 1, -1.5, 2, 0.25, -3]) for _ in range(count)]), mtype=h5py.h5t.NATIVE_DOUBLE)
                continue
            else:
                raw = draw.randbytes(count * kind.get_size())
            dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.frombuffer(raw, "u1").copy(), mtype=kind)
    run = clients.virtualize(tmp_path / "a.h5", "--format", fmt)
    assert run.status == 0, run.stderr
    store, kinds = clients.open_store(run.references), clients.nodes(run.references, FORMATS[fmt])
    with h5py.File(tmp_path / "a.h5") as file:
        for name, dataset in file.items():
            try:
                truth = dataset[()]
            except (TypeError, ValueError, OSError):  # h5py has no type for it
                continue
            if kinds.get(name) != "array":
                problems.append(f"{name}: omitted: {run.stderr}")
                continue
            got = zarr.open_array(store, path=name, mode="r", zarr_format=FORMATS[fmt])[...]
            if found := clients.same_values(truth, got):
                problems.append(f"{name} {dataset.dtype}: {found}")
    clients.report(problems)


def compound(draw, depth=0):
    """A NumPy structure with array members, also of structures, with gaps, and numbers in both byte orders."""
    fields = []
    for n in range(draw.randint(1, 3)):
        inner = compound(draw, depth + 1) if depth < 2 and draw.random() < 0.25 else np.dtype(draw.choice(["i1", "<i2", ">i4", "<u8", "<f4", ">f8", "S3", "?", "<c8"]))
        fields.append((f"m{n}", inner, draw.choice([(), (3,), (2, 3), (1,), (2, 1, 2)])))
    return np.dtype(fields, align=draw.random() < 0.3)


def fill(array, draw):
    for name in array.dtype.names or ():
        fill(array[name], draw)
    if not array.dtype.names:
        array[...] = np.array([draw.randrange(100) for _ in range(array.size)]).reshape(array.shape).astype(array.dtype)


@pytest.mark.parametrize("seed", clients.seeds("RANDOM_KINDS", 6, 6))
def test_array_members_are_those_of_h5py(tmp_path, seed, fmt):
    import zarr
    draw, path, problems = random.Random(seed), tmp_path / "a.h5", []
    with h5py.File(path, "w") as file:
        for n in range(12):
            data = np.zeros(draw.choice([(), (4,), (2, 3)]), compound(draw))
            fill(data, draw)
            options = {"compression": "gzip", "shuffle": True, "chunks": tuple(2 for _ in data.shape)} if data.ndim and draw.random() < 0.5 else {}
            file.create_dataset(f"d{n}", data=data, **options)
            if data.ndim and draw.random() < 0.3:
                file.create_dataset(f"missing{n}", data.shape, data.dtype, chunks=tuple(1 for _ in data.shape), fillvalue=data.ravel()[-1])
    assert "array-omitted" in dict(clients.virtualize(path, "--format", fmt).codes).values()
    run = clients.virtualize(path, "--format", fmt, "--option", "ragged=true")
    assert run.status == 0, run.stderr
    store = clients.open_store(run.references)
    with h5py.File(path) as file:
        for name, dataset in file.items():
            got = zarr.open_array(store, path=name, mode="r", zarr_format=FORMATS[fmt])[...]
            if found := clients.same_bits(dataset[()], got):
                problems.append(f"{name} {dataset.dtype}: {found}")
    clients.report(problems)


def test_array_members_of_text(tmp_path, fmt):
    import zarr
    path = tmp_path / "a.h5"
    data = np.zeros(2, [("n", "<i4"), ("text", h5py.string_dtype(), (2,))])
    data["n"], data["text"] = [1, 2], [["a", "bcd"], ["", "é"]]
    with h5py.File(path, "w") as file:
        file["x"] = data
    got = zarr.open_array(clients.open_store(clients.convert(path, fmt, "--option", "ragged=true").references), path="x", mode="r", zarr_format=FORMATS[fmt])[...]
    assert got["n"].tolist() == [1, 2] and [list(text) for text in got["text"].tolist()] == [[b"a", b"bcd"], [b"", "é".encode()]]


def test_large_array_members_are_named(tmp_path, fmt):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.zeros(2, [("n", "<i4"), ("b", "u1", (2001,))])
        file["y"] = np.zeros(2, [("n", "<i4"), ("b", "u1", (2000,))])
    run = clients.convert(tmp_path / "a.h5", fmt, "--option", "ragged=true")
    assert run.codes == [("/x", "array-omitted")] and "2000" in run.stderr
    notes = json.loads(clients.virtualize("inspect", tmp_path / "a.h5", "--json", "--option", "ragged=true").stdout)["diagnostics"]
    assert [note["path"] for note in notes if note["code"] == "array-member-as-fields"] == ["/y"]


def test_space_padded_text_ends_before_nuls(tmp_path, fmt):
    """As Fortran writes text that ends with c_null_char."""
    from h5py import h5a, h5s, h5t
    def fortran(node, name, value):
        kind = h5t.C_S1.copy()
        kind.set_size(len(value))
        kind.set_strpad(h5t.STR_SPACEPAD)
        h5a.create(node.id, name, kind, h5s.create(h5s.SCALAR)).write(np.frombuffer(value, "u1").copy(), mtype=kind)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["time"] = np.arange(3.0)
        file["time"].make_scale("time")
        file["v"] = np.arange(3.0)
        file["v"].dims[0].attach_scale(file["time"])
        fortran(file["time"], b"units", b"days since 2000-01-01\0")
        fortran(file["v"], b"units", b"K\0\0  ")
    truth, ours = both(tmp_path / "a.h5", fmt)
    assert ours.v.attrs["units"] == truth.v.attrs["units"] == "K"
    np.testing.assert_array_equal(truth.time.values, ours.time.values)


def test_names_of_enumerations_are_flag_meanings(tmp_path, fmt):
    """Blanks become underscores, arrays have the flags of their items, and flags of the file's own are left alone."""
    members = {"clear sky": 0, "cloud": 1}
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("v", data=np.array([0, 1], "i1"), dtype=h5py.enum_dtype(members, "i1"))
        file.create_dataset("own", data=np.array([0, 1], "i1"), dtype=h5py.enum_dtype(members, "i1"))
        file["own"].attrs["flag_meanings"] = "cloud clear_sky"
        file.create_dataset("list", (2,), np.dtype((h5py.enum_dtype(members, "i1"), (2,))))
    nodes = {name: clients.open_dataset(clients.convert(tmp_path / "a.h5", fmt).references, FORMATS[fmt])[name].attrs for name in ("v", "own", "list")}
    flags = {"flag_values": [0, 1], "flag_meanings": "clear_sky cloud"}
    assert flags.items() <= nodes["v"].items() and flags.items() <= nodes["list"].items()
    assert nodes["own"]["flag_meanings"] == "cloud clear_sky" and "flag_values" not in nodes["own"]


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_checksums_of_old_libraries_are_written_again(tmp_path, fmt, compression):
    """HDF5 before 1.6.3 swapped the bytes of each half of a checksum (H5Zfletcher32.c), which readers of Zarr refuse."""
    import zarr, zlib
    from numcodecs import Fletcher32
    with h5py.File(tmp_path / "a.h5", "w") as file:
        data = file.create_dataset("v", (20,), "<i4", chunks=(4,), fletcher32=True, compression=compression)
        for start in range(0, 20, 4):
            raw = np.arange(start, start + 4, dtype="<i4").tobytes()
            raw = bytes(Fletcher32().encode(np.frombuffer(zlib.compress(raw) if compression else raw, "u1")))
            data.id.write_direct_chunk((start,), raw[:-4] + bytes(raw[at] for at in (-3, -4, -1, -2)))
        assert data[...].tolist() == list(range(20))
    array = zarr.open_array(clients.open_store(clients.convert(tmp_path / "a.h5", fmt).references), path="v", mode="r", zarr_format=FORMATS[fmt])
    assert array[...].tolist() == list(range(20))
