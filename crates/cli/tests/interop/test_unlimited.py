"""Variables that are shorter than their unlimited dimensions, compared with netCDF4 and xarray on the original. More files: `RANDOM_UNLIMITED=200`."""
import random, warnings

import clients
import h5py
import netCDF4
import numpy as np
import pytest
from clients import FORMATS

TYPES = ["f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "S1"]
FILLS = {"f": -9999.0, "i": -9, "u": 200}


def variable(draw, group, name, dimensions):
    """Writes a variable in part."""
    kind = draw.choice(TYPES)
    options = {}
    if kind != "S1":
        options["fill_value"] = draw.choice([None, None, False, FILLS[np.dtype(kind).kind]])
        options["zlib"] = draw.random() < 0.4
        options["shuffle"] = options["zlib"] and draw.random() < 0.5
        options["fletcher32"] = draw.random() < 0.2
    if dimensions and draw.random() < 0.8:
        options["chunksizes"] = [draw.randint(1, 3 if group_dimension(group, d).isunlimited() else len(group_dimension(group, d))) for d in dimensions]
    v = group.createVariable(name, kind, dimensions, **options)
    v.set_auto_maskandscale(False)
    shape = tuple(draw.randint(0, 5) if group_dimension(group, d).isunlimited() else len(group_dimension(group, d)) for d in dimensions)
    if draw.random() < 0.85 and all(shape):
        count = int(np.prod(shape))
        data = [chr(97 + draw.randrange(26)) for _ in range(count)] if kind == "S1" else [draw.randint(0, 100) for _ in range(count)]
        data = np.array(data, kind).reshape(shape)
        v[tuple(slice(0, n) for n in shape)] = data


def group_dimension(group, name):
    while name not in group.dimensions:
        group = group.parent
    return group.dimensions[name]


def make(path, seed):
    draw = random.Random(seed)
    with netCDF4.Dataset(path, "w") as file:
        for name, length in (("x", draw.randint(1, 3)), ("time", None), ("step", None)):
            file.createDimension(name, length)
        inner = file.createGroup("inner")
        inner.createDimension("level", None)
        if draw.random() < 0.3:
            inner.createDimension("time_1", 7)  # a name that another variable could get
            inner.createVariable("time_1", "i4", ("time_1",))[:] = range(7)
        names = ["a", "time", "v", "w", "step", "z"]
        draw.shuffle(names)
        for name in names:
            dimensions = (name,) if name in ("time", "step") else tuple(draw.sample(["time", "step", "x"], draw.randint(1, 3)))
            variable(draw, file, name, dimensions)
        for name in ("b", "level", "c"):
            variable(draw, inner, name, (name,) if name == "level" else tuple(draw.sample(["level", "time", "x"], draw.randint(1, 3))))
    return path


def expected(path):
    """Returns (dimensions, values, _FillValue) of each variable: lengths and fill values from netCDF4, values from h5py. Along several unlimited
    dimensions, netCDF4 (netCDF-C 4.10) misplaces values and returns uninitialized memory, so it is only used along one."""
    found = {}
    with netCDF4.Dataset(path) as file, h5py.File(path) as raw:
        for group in (file, file["inner"]):
            for name, v in group.variables.items():
                v.set_auto_maskandscale(False)
                v.set_auto_chartostring(False)
                own = raw[f"{group.path}/{name}"][()]
                sentinel = getattr(v, "_FillValue", None)
                fill = netCDF4.default_fillvals[v.dtype.str[1:]] if sentinel is None else sentinel
                missing = [(0, n - m) for n, m in zip(v.shape, own.shape)]
                values = np.pad(own, missing, constant_values=np.array(b"" if v.dtype.kind == "S" else fill, v.dtype))
                if set(v.dimensions[1:]) <= {"x"}:
                    assert np.asarray(v[...]).tobytes() == values.tobytes(), name
                found[f"{group.path}/{name}".replace("//", "/")] = v.dimensions, values, sentinel, own.shape
    return found


@pytest.mark.parametrize("seed", clients.seeds("RANDOM_UNLIMITED", 8, 8))
def test_variables_are_padded(tmp_path, seed, fmt):
    import xarray as xr
    path, problems = make(tmp_path / "unlimited.nc", seed), []
    run = clients.virtualize(path, "--format", fmt)
    assert run.status == 0, run.stderr
    store = clients.open_store(run.references)
    apart = {at for at, code in run.codes if code == "dimension-renamed"}
    for mask in (True, False):
        for group in ("", "inner"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                got = xr.open_dataset(store, engine="zarr", group=group, consolidated=False, zarr_format=FORMATS[fmt], chunks=None,
                                      mask_and_scale=mask, decode_times=False).load()
            for at, (dimensions, values, sentinel, own) in expected(path).items():
                if at.rpartition("/")[0].strip("/") != group:
                    continue
                array = got[at.rpartition("/")[2]]
                if at in apart:  # with a warning: existing values are correct
                    values = values[tuple(slice(0, n) for n in own)]
                elif array.dims != dimensions:
                    problems.append(f"{at}: dimensions {array.dims}, expected {dimensions}")
                if mask and sentinel is not None and values.dtype.kind != "S":
                    values = np.where(values == sentinel, np.nan, values)
                if difference := clients.same_values(values, array.values):
                    problems.append(f"{at} mask={mask}: {difference}")
    clients.report(problems)


def resizable(file, name, data, length, maximum=(None,)):
    dataset = file.create_dataset(name, data=data, maxshape=maximum, chunks=(4,))
    dataset.resize((length,))
    return dataset


def test_the_order_of_variables_does_not_matter(tmp_path, fmt):
    """A variable without data precedes the dimension that it uses."""
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("time", None)
        file.createVariable("a", "f4", ("time",))
        file.createVariable("time", "i4", ("time",))[:] = [1, 2, 3]
        file.createVariable("v", "i4", ("time",))[:] = [4, 5, 6]
    run = clients.virtualize(tmp_path / "a.nc", "--format", fmt, "--strict")
    assert run.status == 0, run.stderr
    ds = clients.open_dataset(run.references, FORMATS[fmt])
    assert dict(ds.sizes) == {"time": 3}
    assert ds.v.values.tolist() == [4, 5, 6] and ds.a.values.tolist() == [float(netCDF4.default_fillvals["f4"])] * 3


def test_text_is_padded_with_empty_text(tmp_path, fmt):
    """Equal to netCDF-C, which cannot be used for every shape because it may crash."""
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("time", None)
        file.createVariable("time", "i4", ("time",))[:] = [1, 2, 3]
        file.createVariable("text", str, ("time",), chunksizes=(2,))[0] = "ä"
    run = clients.virtualize(tmp_path / "a.nc", "--format", fmt, "--strict")
    assert run.status == 0, run.stderr
    assert clients.texts(clients.open_dataset(run.references, FORMATS[fmt]).text.values) == ["ä", "", ""]


def test_bytes_behind_the_end_are_not_returned(tmp_path, fmt):
    """A chunk may contain arbitrary bytes beyond the end of its dataset."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        resizable(file, "time", np.arange(6), 6).make_scale("time")
        kept = {name: (file.create_dataset(name, data=np.arange(1, 9, dtype="i4"), maxshape=(None,), chunks=(4,), fillvalue=-1)) for name in ("v",)}
        kept["v"].dims[0].attach_scale(file["time"])
        address = kept["v"].id.get_chunk_info(0).byte_offset
        kept["v"].resize((2,))
    with open(tmp_path / "a.h5", "r+b") as raw:
        raw.seek(address)
        raw.write(np.arange(1, 5, dtype="i4").tobytes())
    ds = clients.open_dataset(clients.convert(tmp_path / "a.h5", fmt).references, FORMATS[fmt])
    assert ds.v.dims == ("time",) and ds.v.values.tolist() == [1, 2, -1, -1, -1, -1]


def test_what_cannot_be_padded_gets_a_name_that_nothing_has(tmp_path, fmt):
    """The chunk in which it ends is compressed with a filter that virtualize cannot encode."""
    import hdf5plugin
    with h5py.File(tmp_path / "a.h5", "w") as file:
        resizable(file, "time", np.arange(3), 3).make_scale("time")
        file.create_dataset("time_1", data=np.arange(5)).make_scale("time_1")
        file.create_dataset("t_1", data=np.arange(5)).dims[0].attach_scale(file["time_1"])
        for name in ("a", "b"):
            short = file.create_dataset(name, data=np.arange(1, dtype="f4"), maxshape=(None,), chunks=(4,), **hdf5plugin.Zfp())
            short.dims[0].attach_scale(file["time"])
    run = clients.convert(tmp_path / "a.h5", fmt)
    ds = clients.open_dataset(run.references, FORMATS[fmt])
    assert ds.time.dims == ("time",) and ds.t_1.dims == ("time_1",) and ds.time_1.values.tolist() == [0, 1, 2, 3, 4]
    left = [name for name in ("a", "b") if name in ds.variables]
    assert all(ds[name].dims == ("time_1_",) for name in left)
    assert {at for at, code in run.codes if code in ("dimension-renamed", "array-omitted")} == {"/a", "/b"}
