"""`--unpack`: xarray reads our references without any mask and scale options as it reads the original with them."""
import json, random, re, warnings

import clients
import numpy as np
import pytest
from clients import FORMATS

FORMAT = "zarr3-json"
CASES = {
    # name: (stored numbers, attributes)
    "f4_both": ("i2", {"scale_factor": np.float32(0.01), "add_offset": np.float32(273.15), "_FillValue": np.int16(-999)}),
    "f4_scale": ("u2", {"scale_factor": np.float32(0.1)}),
    "f4_offset_only_f4": ("u1", {"add_offset": np.float32(0.1)}),
    "f8_both": ("i2", {"scale_factor": 0.01, "add_offset": 273.15, "_FillValue": np.int16(-999)}),
    "f8_scale": ("i1", {"scale_factor": 0.5, "missing_value": np.int8(-9)}),
    "mixed": ("i2", {"scale_factor": np.float32(0.01), "add_offset": 0.5}),
    "i4_f4_both": ("i4", {"scale_factor": np.float32(0.01), "add_offset": np.float32(1)}),
    "big": (">i2", {"scale_factor": np.float32(0.02), "_FillValue": np.int16(-999)}),
    "big_i4": (">i4", {"scale_factor": 0.02, "_FillValue": np.int32(-999)}),
    "unsigned": ("i1", {"_Unsigned": "true", "scale_factor": np.float32(0.1), "_FillValue": np.int8(-1)}),
    "unsigned_only": ("i2", {"_Unsigned": "true"}),
    "unsigned_false": ("u1", {"_Unsigned": "false", "_FillValue": np.uint8(255)}),
    "masked_i1": ("i1", {"_FillValue": np.int8(-9)}),
    "masked_u2": ("u2", {"missing_value": np.uint16(9)}),
    "masked_i4": ("i4", {"_FillValue": np.int32(-999)}),
    "masked_u4": ("u4", {"_FillValue": np.uint32(4294967295)}),
    "masked_twice": ("i2", {"_FillValue": np.int16(-999), "missing_value": np.int16(-999)}),
    "masked_f4": ("f4", {"_FillValue": np.float32(9.96921e36)}),
    "masked_f8": (">f8", {"missing_value": -9999.0}),
    "masked_inf": ("f4", {"missing_value": np.float32(np.inf)}),
    "masked_f2": ("f2", {"_FillValue": np.float16(-9)}),
    "scaled_f4": ("f4", {"scale_factor": np.float32(0.1), "add_offset": np.float32(3), "_FillValue": np.float32(1e20)}),
    "scaled_f4_f8": ("f4", {"scale_factor": 0.1}),
    "scaled_f2": ("f2", {"scale_factor": np.float32(0.3)}),
    "nan_only": ("f4", {"_FillValue": np.float32(np.nan)}),
    "one": ("i2", {"scale_factor": 1.0, "add_offset": 0.0}),
    "negative": ("u1", {"scale_factor": -0.25, "add_offset": 64.0, "_FillValue": np.uint8(255)}),
    "integer_offset": ("i2", {"scale_factor": 0.5, "add_offset": np.int32(7)}),
    "time_packed": ("i4", {"units": "days since 2000-01-01", "scale_factor": 0.5, "add_offset": 7.0}),
    "time_f8": ("f8", {"units": "days since 2000-01-01", "_FillValue": -9999.0}),
    "plain": ("i2", {"units": "K"}),
}
KEPT = {
    # Values that no codec can represent: numbers and all attributes stay.
    "two_sentinels": ("i2", {"_FillValue": np.int16(-999), "missing_value": np.int16(9)}),
    "sentinel_list": ("f4", {"missing_value": np.array([-9999, 1e20], "f4"), "scale_factor": np.float32(0.1)}),
    "integer_result": ("i2", {"scale_factor": np.int16(2)}),
    "i4_f4": ("i4", {"scale_factor": np.float32(0.1)}),
    "f8_f4": ("f8", {"scale_factor": np.float32(0.1)}),
    "i8": ("i8", {"_FillValue": np.int64(-999)}),
    "time": ("i4", {"units": "days since 2000-01-01", "_FillValue": np.int32(-999)}),
    "time_rounded": ("i4", {"units": "hours since 2000-01-01", "scale_factor": 0.1}),
    "duration": ("i2", {"units": "days", "_FillValue": np.int16(-999)}),
    "zero": ("i2", {"scale_factor": 0.0}),
}


def numbers(dtype):
    dtype = np.dtype(dtype)
    edges = [np.iinfo(dtype).min, np.iinfo(dtype).max] if dtype.kind in "iu" else [np.nan, 1e20 if dtype.itemsize > 2 else 6e4]
    return np.array([0, 1, 7, 9, 3, 5, 11, 100, *edges] + ([-999, -9, -1] if dtype.kind != "u" else [255, 254, 200]) + [0] * 3).astype(dtype)


def write(path, cases):
    import h5py
    with h5py.File(path, "w", libver="latest") as file:
        for name, (dtype, attributes) in cases.items():
            data = numbers(dtype) if dtype != "i1" else np.arange(-8, 8, dtype="i1")
            if "time" in name or name == "duration":
                data = np.array([0, 1, 2, 3, 500, 6000, -9999 if dtype == "f8" else -999, 8, 9, 10, 11, 12, 13, 14, 15, 16], dtype)
            shuffled = {"compression": "gzip", "shuffle": True} if len(name) % 2 else {}
            dataset = file.create_dataset(name, data=data, chunks=(8,), **shuffled)
            dataset.attrs["long_name"] = "kept"
            for key, value in attributes.items():
                dataset.attrs[key] = value
    return path


def open_original(path, **options):
    import xarray as xr
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return xr.open_dataset(path, engine="h5netcdf", phony_dims="access", **options).load()


def open_ours(references, **options):
    import xarray as xr
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return xr.open_dataset(clients.open_store(references), engine="zarr", consolidated=False, zarr_format=3, chunks=None, **options).load()


def ulps(truth, got, variable=None):
    """Returns the largest difference in units in the last place of the largest term: result, offset or product."""
    largest = np.abs(truth)
    if variable is not None and "add_offset" in variable.encoding:
        offset = np.abs(np.asarray(variable.encoding["add_offset"], truth.dtype))
        largest = np.maximum(largest, np.maximum(offset, np.abs(truth - variable.encoding["add_offset"])))
    unit = np.spacing(largest.astype(truth.dtype)).astype("f8")
    distance = np.abs(truth.astype(np.longdouble) - got.astype(np.longdouble))
    apart = ~((truth == got) | (np.isnan(truth) & np.isnan(got)))
    return float((distance[apart] / unit[apart]).max()) if apart.any() else 0.0


def compare(truth, got, name):
    a, b = truth[name], got[name]
    if a.dtype != b.dtype:
        return f"{name}: type {b.dtype}, expected {a.dtype}"
    if a.dtype.kind != "f":
        return None if a.equals(b) else f"{name}: {b.values}, expected {a.values}"
    if (np.isnan(a.values) != np.isnan(b.values)).any():
        return f"{name}: NaN differs: {b.values}, expected {a.values}"
    most = 2 if a.dtype == "f8" else 0
    apart = ulps(a.values, b.values, a)
    return None if apart <= most else f"{name}: {apart} ulps apart: {b.values}, expected {a.values}"


def metadata(references, name):
    value = references["refs"][f"{name}/zarr.json"]
    return json.loads(value) if isinstance(value, str) else value


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    return write(tmp_path_factory.mktemp("unpack") / "packed.h5", CASES)


def test_unpacked_numbers_are_those_that_xarray_unpacks(packed):
    run = clients.virtualize(packed, "--format", FORMAT, "--unpack", "--strict")
    assert run.status == 0 and run.stderr == "", run.stderr
    truth = open_original(packed)
    problems = []
    for options in ({}, {"mask_and_scale": False}):
        ours = open_ours(run.references, **options)
        assert set(ours.variables) == set(truth.variables)
        for name in truth.data_vars:
            if problem := compare(truth, ours, name):
                problems.append(f"{problem} {options}")
            if dict(truth[name].attrs) != {k: v for k, v in ours[name].attrs.items() if k != "_FillValue" or name != "nan_only"}:
                problems.append(f"{name}: attributes {ours[name].attrs}, expected {truth[name].attrs}")
    clients.report(problems)


def test_stored_bytes_are_the_same(packed):
    chunks = [{key: value for key, value in clients.virtualize(packed, "--format", FORMAT, *arguments).references["refs"].items() if "/c/" in key}
              for arguments in ((), ("--unpack",))]
    assert chunks[0] == chunks[1]


def test_what_codecs_cannot_say_stays_as_attributes(tmp_path):
    path = write(tmp_path / "kept.h5", KEPT)
    run = clients.virtualize(path, "--format", FORMAT, "--unpack")
    reported = {path for path, code in run.codes if code == "not-unpacked"}
    silent = {"time", "duration", "time_rounded"}  # dates and durations are read the same either way
    assert reported == {f"/{name}" for name in KEPT} - {f"/{name}" for name in silent}
    plain = clients.virtualize(path, "--format", FORMAT).references
    assert all(run.references["refs"][f"{name}/zarr.json"] == plain["refs"][f"{name}/zarr.json"] for name in KEPT)
    inspected = json.loads(clients.virtualize("inspect", path, "--json", "--format", FORMAT, "--unpack").stdout)
    assert {d["path"] for d in inspected["diagnostics"] if d["code"] == "not-unpacked"} == {f"/{name}" for name in KEPT}
    truth, ours = open_original(path), open_ours(run.references)
    assert all(truth[name].equals(ours[name]) for name in ("time", "time_rounded", "duration", "two_sentinels", "i8"))
    assert truth.time.dtype.kind == ours.time.dtype.kind == "M"


FILLS = {
    # name: (type, fill value of the header, attributes)
    "sentinel": ("i2", -999, {"_FillValue": np.int16(-999), "scale_factor": np.float32(0.1)}),
    "other": ("i2", 7, {"_FillValue": np.int16(-999), "scale_factor": 0.1, "add_offset": 273.15}),
    "none": ("u1", None, {"scale_factor": np.float32(0.02), "add_offset": np.float32(-3)}),
    "masked_zero": ("i4", None, {"_FillValue": np.int32(0)}),
    "float": ("f4", 1e20, {"_FillValue": np.float32(1e20)}),
    "float_nan": ("f4", np.nan, {"missing_value": np.float32(-9)}),
    "unsigned": ("i1", -1, {"_Unsigned": "true", "scale_factor": np.float32(0.5), "_FillValue": np.int8(-1)}),
    "never_filled": ("i2", 7, {"scale_factor": 0.5, "add_offset": 1.0}),
}


def write_fills(path):
    import h5py
    with h5py.File(path, "w", libver="latest") as file:
        for name, (dtype, fill, attributes) in FILLS.items():
            more = {"fill_time": "never"} if name == "never_filled" else {}
            dataset = file.create_dataset(name, (10, 10), dtype, chunks=(4, 4), fillvalue=fill, compression="gzip", **more)
            dataset[:4, 4:8] = np.arange(16).reshape(4, 4)
            dataset.attrs.update(attributes)
        packing = {"scale_factor": np.float32(0.1), "_FillValue": np.int16(3)}
        contiguous = file.create_dataset("contiguous", data=np.arange(700, dtype=">i2").reshape(7, 100))
        contiguous.attrs.update(packing)
        create = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        create.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((6,))
        compact = h5py.Dataset(h5py.h5d.create(file.id, b"compact", h5py.h5t.STD_I16LE, space, create))
        compact[:] = np.arange(6)
        compact.attrs.update(packing)
        layout = h5py.VirtualLayout((10, 10), "i2")
        layout[:] = h5py.VirtualSource(path, "sentinel", (10, 10))
        virtual = file.create_virtual_dataset("virtual", layout, fillvalue=-999)
        virtual.attrs.update({"scale_factor": 0.25, "_FillValue": np.int16(-999)})
        file.create_dataset("scalar", data=np.int16(5)).attrs.update(packing)
        file.create_dataset("empty", (0, 4), "i2", maxshape=(None, 4)).attrs.update(packing)
    return path


@pytest.mark.parametrize("arguments", [(), ("--option", "split-contiguous=600")], ids=" ".join)
def test_missing_and_inlined_chunks(tmp_path, arguments):
    path = write_fills(tmp_path / "fills.h5")
    run = clients.virtualize(path, "--format", FORMAT, "--unpack", *arguments)
    assert run.status == 0 and "not-unpacked" not in run.stderr, run.stderr
    truth = open_original(path)
    problems = []
    for options in ({}, {"mask_and_scale": False}):
        ours = open_ours(run.references, **options)
        assert set(ours.data_vars) == set(truth.data_vars)
        problems += [problem for name in truth.data_vars if (problem := compare(truth, ours, name))]
    clients.report(problems)
    assert metadata(run.references, "sentinel")["fill_value"] == "NaN"
    assert metadata(run.references, "other")["fill_value"] == 7 / 10 + 273.15


def test_a_netcdf_file_with_times_and_bounds(tmp_path):
    import netCDF4
    path = tmp_path / "times.nc"
    with netCDF4.Dataset(path, "w") as file:
        for name, size in (("time", 5), ("nv", 2), ("x", 3)):
            file.createDimension(name, size)
        time = file.createVariable("time", "i4", ("time",), fill_value=-1)
        time.setncatts({"units": "seconds since 1981-01-01", "bounds": "time_bounds"})
        time[:] = 1_200_000_000 + 86400 * np.arange(5)
        bounds = file.createVariable("time_bounds", "i4", ("time", "nv"), fill_value=-1)
        bounds[:] = 1_200_000_000 + 43200 * np.arange(10).reshape(5, 2)
        half = file.createVariable("half", "f4", ("time",), fill_value=-1)
        half.setncatts({"units": "hours since 2001-01-01"})
        half[:] = [0, 0.5, 1.5, -1, 9]
        for name, kind in (("t2m", "i2"), ("precipitation", "u1")):
            variable = file.createVariable(name, kind, ("time", "x"), fill_value=99, zlib=True)
            variable.set_auto_maskandscale(False)
            variable.setncatts({"scale_factor": np.float32(0.01), "add_offset": np.float32(0.0 if kind == "u1" else 273.15),
                                "units": "K", "coordinates": "half"})
            variable[:] = np.arange(85, 100).reshape(5, 3)
    run = clients.virtualize(path, "--format", FORMAT, "--unpack", "--strict")
    assert run.status == 0, run.stderr
    truth, ours = open_original(path), open_ours(run.references)
    assert truth.equals(ours) and set(truth.coords) == set(ours.coords)
    assert truth.time.dtype.kind == "M" and truth.time_bounds.dtype == ours.time_bounds.dtype
    assert ours.t2m.dtype == np.float32 and "scale_factor" not in metadata(run.references, "t2m")["attributes"]


FACTORS = [None, "f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u4", "u8", "g"]


@pytest.mark.parametrize("seed", clients.seeds("RANDOM_FACTORS", 6, 6))
def test_a_type_that_attributes_lose_is_named(tmp_path, fmt, seed):
    """Random types of numbers, scale and offset: xarray decodes references as the original, or a warning names the array."""
    draw, problems, named, equal = random.Random(seed), [], 0, 0
    for n in range(8):
        path, scale, offset = tmp_path / f"{n}.h5", draw.choice(FACTORS), draw.choice(FACTORS)
        attributes = {}
        if scale:
            attributes["scale_factor"] = np.dtype(scale).type(draw.choice([2, 3]) if scale[0] in "iu" else draw.choice([0.01, 0.5, 0.1]))
        if offset:
            attributes["add_offset"] = np.dtype(offset).type(draw.choice([1, 7]) if offset[0] in "iu" else draw.choice([27.3, 0.1]))
        stored = draw.sample(["i1", "u1", "i2", "<u2", ">i2", "i4", "u4", "i8", "u8", "f4", "f8"], 5)
        write(path, {kind.strip("<>"): (kind, attributes | ({"_FillValue": np.dtype(kind).type(9)} if draw.random() < 0.5 else {})) for kind in stored})
        run, truth = clients.virtualize(path, "--format", fmt), {}
        assert run.status == 0, run.stderr
        warned = [line for line in run.stderr.splitlines() if line.endswith("[packing-widened]")]
        assert len(warned) <= 1 or len({line.split("JSON")[0] for line in warned}) == len(warned), run.stderr
        ours, original = clients.open_dataset(run.references, FORMATS[fmt]), open_original(path, decode_cf=False)
        for name in original.variables:
            try:
                truth = clients.decoded(original, name, True)
            except Exception:  # noqa: BLE001 - NaN in integers
                continue
            got = clients.decoded(ours, name, True)
            is_same, is_named = truth.dtype == got.dtype and not clients.same_values(truth, got), any(f"/{name}" in line for line in warned)
            named, equal = named + is_named, equal + is_same
            if is_same == is_named:
                problems.append(f"{n} {name} scale {scale} offset {offset}: {truth.dtype} as {got.dtype}, named: {is_named}")
    clients.report(problems)
    assert equal + named > 20


def test_single_precision_is_lost_by_attributes_and_kept_by_codecs(tmp_path):
    path = write(tmp_path / "single.h5", {name: CASES[name] for name in ("f4_both", "f4_scale")})
    truth = open_original(path).f4_both
    run = clients.virtualize(path, "--format", FORMAT)
    assert run.stderr.count("packing-widened") == 1 and "(2 arrays: /f4_both, /f4_scale)" in run.stderr
    assert "--unpack" in run.stderr and 'engine="virtualize"' in run.stderr
    wide = open_ours(run.references).f4_both
    assert (truth.dtype, wide.dtype) == (np.float32, np.float64)
    assert "packing-widened" in clients.virtualize("inspect", path, "--format", FORMAT).stdout.decode()
    unpacked = clients.virtualize(path, "--format", FORMAT, "--unpack")
    assert open_ours(unpacked.references).f4_both.dtype == np.float32
    assert "packing-widened" not in clients.virtualize("inspect", path, "--format", FORMAT, "--unpack").stdout.decode()


# Scales and offsets of real archives (satellite products, reanalyses, elevations) and synthetic ones.
REAL = [(0.01, 0), (0.01, 273.15), (0.02, 0), (0.1, 0), (0.001, 0), (0.0001, 0), (2e-5, 0), (0.0001, -0.1), (0.005, 0), (0.01, 300), (0.05, 0), (0.2, 0),
        (0.5, -64), (0.25, 0), (0.00390625, 0), (0.04, -5), (0.0015, -10), (1.0, -273.15), (0.1, -1000), (0.0098, 12.3), (0.00341802, 149), (0.75, 0),
        (1e-6, 0), (3.9e-7, 0), (0.0012068, 278.6), (1.0 / 3, 7), (100.0, 0), (0.1, 101325), (-0.01, 90), (0.00025, 1)]


def packings():
    random = np.random.default_rng(5)
    made = [((high - low) / 65534, (high + low) / 2) for low, high in np.sort(random.normal(0, 10.0 ** random.integers(-4, 6, (30, 1)), (30, 2)))]
    return REAL + made


@pytest.mark.parametrize("width", ["f4", "f8"])
def test_how_far_from_the_product_of_cf(tmp_path, width):
    """All 8-bit and 16-bit integers with many scales and offsets. The figures are those of rule U4 in docs/semantics.md."""
    import h5py
    path, kind = tmp_path / "all.h5", np.dtype(width).type
    with h5py.File(path, "w") as file:
        for at, (scale, offset) in enumerate(packings()):
            for dtype in ("i1", "u1", "i2", "u2"):
                info = np.iinfo(dtype)
                dataset = file.create_dataset(f"{dtype}_{at}", data=np.arange(info.min, info.max + 1).astype(dtype))
                dataset.attrs.update({"scale_factor": kind(scale), "add_offset": kind(offset)})
    run = clients.virtualize(path, "--format", FORMAT, "--unpack", "--strict")
    assert run.status == 0, run.stderr
    truth, ours = open_original(path), open_ours(run.references, mask_and_scale=False)
    worst, apart, count = 0.0, 0, 0
    for name in truth.data_vars:
        a, b = truth[name].values, ours[name].values
        assert a.dtype == b.dtype == width
        worst = max(worst, ulps(a, b, truth[name]))
        apart, count = apart + int((a != b).sum()), count + a.size
    print(f"{width}: {count} numbers, {apart} differ ({apart / count:.5%}), by at most {worst} units in the last place")
    assert worst <= (1 if width == "f4" else 2) and apart / count < (1e-5 if width == "f4" else 0.2)


def test_zarr_v2_has_no_such_codecs(packed):
    for arguments in ((packed,), (packed, "--format", "kerchunk-json"), ("inspect", packed)):
        run = clients.virtualize(*arguments, "--unpack")
        assert run.status == 2 and run.stdout == b"" and "Zarr v3" in run.stderr


# ---- TIFF

IMAGES = {
    # name: (type, nodata, scales, offsets)
    "packed_i2": ("int16", -9, [0.01], [273.15]),
    "packed_u1": ("uint8", None, [0.5], [0.0]),
    "packed_u4": ("uint32", 3, [0.1], [1.0]),
    "packed_f4": ("float32", -9, [0.1], [3.0]),
    "packed_f8": ("float64", -9, [0.1], [3.0]),
    "masked_u1": ("uint8", 255, None, None),
    "masked_i2": ("int16", -9, None, None),
    "masked_i4": ("int32", -9, None, None),
    "masked_f4": ("float32", -9, None, None),
    "nan": ("float32", float("nan"), None, None),
    "bands": ("int16", -9, [0.1, 0.1, 0.1], [5.0, 5.0, 5.0]),
}


def write_image(path, dtype, nodata, scales, offsets, **profile):
    import rasterio
    count = len(scales or [1])
    height, width = 40, 50
    numbers = np.arange(height * width).reshape(height, width)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with rasterio.open(path, "w", driver="GTiff", width=width, height=height, count=count, dtype=dtype, nodata=nodata, **profile) as image:
            for band in range(1, count + 1):
                data = (numbers + band).astype(dtype)
                data[0, :4] = np.array(nodata if nodata is not None else 0).astype(dtype)
                image.write(data, band)
            if scales:
                image.scales, image.offsets = scales, offsets
    return path


def open_image(path):
    import xarray as xr
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return xr.open_dataset(path, engine="rasterio").load()


PROFILES = {"plain": {}, "tiled": {"tiled": True, "blockxsize": 16, "blockysize": 16, "compress": "deflate", "predictor": 2},
            "big_endian": {"ENDIANNESS": "BIG"}, "pixels": {"interleave": "pixel", "compress": "lzw"}, "sparse": {"SPARSE_OK": True, "tiled": True, "blockxsize": 16, "blockysize": 16}}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", IMAGES)
def test_unpacked_images_are_those_of_rioxarray(tmp_path, name, profile):
    options = dict(PROFILES[profile])
    if options.get("predictor") and IMAGES[name][0].startswith("float"):
        options["predictor"] = 3
    path = write_image(tmp_path / "image.tif", *IMAGES[name], **options)
    run = clients.virtualize(path, "--format", FORMAT, "--unpack", "--strict")
    assert run.status == 0, run.stderr
    truth, ours = open_image(path).band_data, open_ours(run.references, mask_and_scale=False).band_data
    assert ours.dtype == truth.dtype
    assert (np.isnan(truth.values) == np.isnan(ours.values)).all()
    truth.encoding["add_offset"] = (IMAGES[name][3] or [0])[0]
    assert ulps(truth.values, ours.values, truth) <= (2 if truth.dtype == "f8" else 0)
    left = set(metadata(run.references, "band_data")["attributes"]) & {"scale_factor", "add_offset", "_FillValue", "missing_value"}
    assert left == ({"_FillValue"} if name == "nan" else set())


@pytest.mark.parametrize("scales, offsets", [([0.1, 0.2], [0.0, 0.0]), ([0.1, 0.1], [0.0, 5.0])])
def test_bands_with_scales_of_their_own_stay_packed(tmp_path, scales, offsets):
    path = write_image(tmp_path / "bands.tif", "int16", -9, scales, offsets)
    run = clients.virtualize(path, "--format", FORMAT, "--unpack")
    assert run.codes == [("/band_data", "not-unpacked")]
    attributes = metadata(run.references, "band_data")["attributes"]
    assert attributes["scales"] == scales and attributes["offsets"] == offsets and attributes["_FillValue"] == -9
