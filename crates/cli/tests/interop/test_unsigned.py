"""`_Unsigned` with `_FillValue` and `missing_value` of any type and value, compared with xarray on the original. More files: `RANDOM_SENTINELS=200`."""
import random, warnings

import clients
import h5py
import numpy as np
import pytest
from clients import FORMATS

STORED = ["i1", "u1", "i2", "u2", ">i2", "i4", "u4", "i8", "u8", "f4", "f8"]
ATTRIBUTE = ["i1", "u1", "i2", "u2", ">i2", "i4", "u4", "i8", "u8", "f4", "f8"]


def edges(dtype):
    """Returns numbers that reveal differences in sign and width."""
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return [0.0, -1.0, 255.0, 65535.0, -9999.0, 1.5, float("nan"), 128.0, -128.0, 4294967295.0]
    info = np.iinfo(dtype)
    near = [0, 1, -1, 127, 128, 255, -128, 32767, 32768, 65535, -9999, 2**31, 2**32 - 1, info.min, info.max, -2**63, 2**63, 2**64 - 1]
    return [n for n in near if info.min <= n <= info.max]


def make(path, seed):
    draw = random.Random(seed)
    with h5py.File(path, "w") as file:
        for n in range(16):
            dtype = np.dtype(draw.choice(STORED))
            data = edges(dtype) + [3, 4] if dtype.kind != "f" else [v for v in edges(dtype) if v == v] + [3.0]
            dataset = file.create_dataset(f"v{n}", data=np.array(data, dtype), fillvalue=draw.choice([None, None, data[0]]))
            if (stated := draw.choice(["true", "false", "true", "false", None])) is not None and dtype.kind != "f":
                dataset.attrs["_Unsigned"] = stated
            for name in ("_FillValue", "missing_value"):
                if draw.random() < 0.6:
                    kind = np.dtype(draw.choice(ATTRIBUTE))
                    count = draw.choice([0, 0, 0, 2]) if name == "missing_value" else 0
                    dataset.attrs[name] = np.array(draw.choices(edges(kind), k=count) if count else draw.choice(edges(kind)), kind)[()]
            for name in ("valid_min", "valid_max", "flag_values"):
                if draw.random() < 0.2:
                    kind = np.dtype(draw.choice(ATTRIBUTE))
                    dataset.attrs[name] = np.array(draw.choice(edges(kind)), kind)[()]
    return path


def variables(source, names, **options):
    """Returns each variable as decoded by xarray, except for those that it cannot decode."""
    import xarray as xr
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = xr.open_dataset(source, decode_cf=False, **options)
        for name in names:
            try:
                found[name] = {mask: xr.conventions.decode_cf_variable(name, whole.variables[name], mask_and_scale=mask, decode_times=False).values
                               for mask in (True, False)}
            except Exception:  # noqa: BLE001 - not ours to judge
                continue
    return found


def is_swapped(dtype, attributes, fmt):
    """xarray swaps the bytes of such a `_FillValue` and masks another value; arrays of Zarr v3 are in native byte order."""
    return FORMATS[fmt] == 3 and dtype.byteorder == ">" and attributes.get("_Unsigned") == "true" and "_FillValue" in attributes


@pytest.mark.parametrize("seed", clients.seeds("RANDOM_SENTINELS", 8, 8))
def test_xarray_masks_the_same(tmp_path, seed, fmt):
    import xarray as xr
    path, problems = make(tmp_path / "unsigned.h5", seed), []
    run = clients.virtualize(path, "--format", fmt)
    assert run.status == 0, run.stderr
    store = clients.open_store(run.references)
    engine = {"engine": "zarr", "consolidated": False, "zarr_format": FORMATS[fmt], "chunks": None}
    with h5py.File(path) as original:
        described = {name: (dataset.dtype, dict(dataset.attrs)) for name, dataset in original.items()}
    with warnings.catch_warnings():  # no attribute may make the whole file unreadable
        warnings.simplefilter("ignore")
        assert set(xr.open_dataset(store, decode_times=False, **engine).variables) == set(described)
    truth, got = variables(path, described, engine="h5netcdf"), variables(store, described, **engine)
    assert set(got) == set(described)
    for name, (dtype, attributes) in described.items():
        for mask in (True, False) if name in truth else ():
            if mask and is_swapped(dtype, attributes, fmt):
                continue
            if found := clients.same_values(truth[name][mask], got[name][mask]):
                problems.append(f"{name} {dtype} {attributes} mask={mask}: {found}")
    clients.report(problems)


@pytest.mark.parametrize(("dtype", "attributes", "expected"), [
    ("i2", {"_Unsigned": "true", "missing_value": np.uint16(65535)}, [1, 2, np.nan]),
    ("i4", {"_Unsigned": "true", "missing_value": np.uint32(2**32 - 1)}, [1, 2, np.nan]),
    ("u1", {"_Unsigned": "false", "_FillValue": np.uint8(255)}, [1, 2, np.nan]),
    ("u1", {"_Unsigned": "false", "missing_value": np.float64(-1)}, [1, 2, np.nan]),
    ("i1", {"_Unsigned": "false", "_FillValue": np.uint8(255)}, [1, 2, -1]),
])
def test_signs_that_an_attribute_gives(tmp_path, fmt, dtype, attributes, expected):
    import xarray as xr
    with h5py.File(tmp_path / "a.h5", "w") as file:
        data = np.array([1, 2, -1]).astype(dtype)
        file.create_dataset("v", data=data, fillvalue=data[2]).attrs.update(attributes)
    run = clients.virtualize(tmp_path / "a.h5", "--format", fmt)
    engine = {"engine": "zarr", "consolidated": False, "zarr_format": FORMATS[fmt], "chunks": None}
    for source, options in ((tmp_path / "a.h5", {"engine": "h5netcdf"}), (clients.open_store(run.references), engine)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            np.testing.assert_array_equal(xr.open_dataset(source, **options).v.values, expected)


def test_signs_survive_the_other_format(tmp_path, fmt):
    """`convert` writes a `_FillValue` that xarray opens."""
    import json, xarray as xr
    other = {"kerchunk-json": "zarr3-json", "zarr3-json": "kerchunk-json"}[fmt]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, fill in (("same", 255), ("differs", 7)):
            file.create_dataset(name, data=np.array([1, 2, 255], "u1"), fillvalue=fill).attrs.update({"_Unsigned": "false", "_FillValue": np.uint8(255)})
    assert clients.virtualize(tmp_path / "a.h5", "--format", other, "-o", tmp_path / "a.json").status == 0
    run = clients.virtualize("convert", tmp_path / "a.json", "--format", fmt, "-o", tmp_path / "b.json")
    assert run.status == 0, run.stderr
    ds = xr.open_dataset(clients.open_store(json.loads((tmp_path / "b.json").read_text())), engine="zarr", consolidated=False, zarr_format=FORMATS[fmt], chunks=None)
    for name in ("same", "differs"):
        np.testing.assert_array_equal(ds[name].values, [1, 2, np.nan])
