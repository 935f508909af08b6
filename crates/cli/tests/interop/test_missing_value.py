"""`--option missing-value-convention=true`: the sentinel in the encoding of the Zarr fill value, as read by zarr-python; and the schema of `_FillValue`."""
import json, warnings

import clients
import numpy as np
import pytest
from test_unpack import metadata, open_original, write_image

URLS = {"schema_url": "https://raw.githubusercontent.com/zarr-conventions/missing_value/refs/heads/main/schema.json",
        "spec_url": "https://github.com/zarr-conventions/missing_value/blob/main/README.md"}
CASES = {
    # name: (type, attributes). The sentinel is the first value of the data.
    "i1": ("i1", {"_FillValue": np.int8(-9)}),
    "u8": ("u8", {"_FillValue": np.uint64(2**64 - 1)}),
    "i8": ("i8", {"_FillValue": np.int64(-2**63)}),
    "f4": ("f4", {"_FillValue": np.float32(9.96921e36)}),
    "f8": (">f8", {"_FillValue": -9999.5}),
    "f2": ("f2", {"_FillValue": np.float16(-9)}),
    "nan": ("f4", {"_FillValue": np.float32(np.nan)}),
    "infinite": ("f8", {"_FillValue": -np.inf}),
    "both": ("i2", {"_FillValue": np.int16(-9), "missing_value": np.int16(-9)}),
    "both_f4": ("f4", {"_FillValue": np.float32(1e20), "missing_value": np.float32(1e20)}),
    "packed": ("i2", {"_FillValue": np.int16(-9), "scale_factor": 0.5}),
    "time": ("i4", {"_FillValue": np.int32(-9), "units": "days since 2000-01-01"}),
    # CF attributes with another meaning stay.
    "differs": ("i2", {"_FillValue": np.int16(-9), "missing_value": np.int16(5)}),
    "list": ("f4", {"_FillValue": np.float32(-9), "missing_value": np.array([-9, 5], "f4")}),
    # No sentinel.
    "none": ("i2", {}),
    "text": ("S3", {"_FillValue": np.bytes_(b"-")}),
}
WITHOUT = {"differs", "list", "none", "text"}


def write(path):
    import h5py
    with h5py.File(path, "w") as file:
        for name, (dtype, attributes) in CASES.items():
            sentinel = attributes.get("_FillValue", 0)
            data = np.array([sentinel] + ([b"a", b"b"] if dtype == "S3" else [5, 100])).astype(dtype) if dtype not in ("u8", "i8") else np.array([int(sentinel), 5, 100], dtype)
            file.create_dataset(name, data=data).attrs.update(attributes)
    return path


def attributes_of(references, name, fmt):
    key = f"{name}/.zattrs" if clients.FORMATS[fmt] == 2 else f"{name}/zarr.json"
    value = references["refs"][key]
    value = json.loads(value) if isinstance(value, str) else value
    return value if clients.FORMATS[fmt] == 2 else value["attributes"]


def open_ours(references, fmt, **options):
    import xarray as xr
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return xr.open_dataset(clients.open_store(references), engine="zarr", consolidated=False, zarr_format=clients.FORMATS[fmt], chunks=None, **options).load()


def scalar(value, dtype, zarr_format):
    """Decodes a value in the encoding of a fill value with zarr-python."""
    from zarr.core.dtype import parse_dtype
    return parse_dtype(np.dtype(dtype), zarr_format=zarr_format).from_json_scalar(value, zarr_format=zarr_format)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write(tmp_path_factory.mktemp("missing") / "missing.h5")


def test_the_sentinel_is_declared_as_a_fill_value(path, fmt):
    run = clients.virtualize(path, "--format", fmt, "--option", "missing-value-convention=true")
    assert run.status == 0, run.stderr
    assert {path for path, code in run.codes if code == "missing-value-convention"} == {"/differs", "/list"}
    for name, (dtype, given) in CASES.items():
        attributes = attributes_of(run.references, name, fmt)
        if name in WITHOUT:
            assert "zarr_conventions" not in attributes
            continue
        [entry] = attributes["zarr_conventions"]
        assert {key: entry[key] for key in URLS} == URLS and entry["name"] == "missing_value"
        assert set(entry) <= {"uuid", "schema_url", "spec_url", "name", "description"}  # all that the specification of conventions allows
        read = scalar(attributes["missing_value"], np.dtype(dtype).newbyteorder("="), clients.FORMATS[fmt])
        assert read == given["_FillValue"] or np.isnan(read) and np.isnan(given["_FillValue"]), name


def test_xarray_shows_the_same_with_and_without(path, fmt):
    plain = open_ours(clients.virtualize(path, "--format", fmt).references, fmt)
    declared = open_ours(clients.virtualize(path, "--format", fmt, "--option", "missing-value-convention=true").references, fmt)
    truth = open_original(path)
    for name in CASES:
        assert plain[name].dtype == declared[name].dtype and plain[name].equals(declared[name]), name
        assert name == "text" or truth[name].equals(declared[name]), name


def test_cf_keeps_what_it_says(path, fmt):
    references = clients.virtualize(path, "--format", fmt, "--option", "missing-value-convention=true").references
    assert attributes_of(references, "differs", fmt)["missing_value"] == 5
    assert attributes_of(references, "list", fmt)["missing_value"] == [-9.0, 5.0]


def test_unpacked_arrays_miss_nan(path):
    references = clients.virtualize(path, "--format", "zarr3-json", "--option", "missing-value-convention=true", "--unpack").references
    for name in ("packed", "f4", "both"):
        document = metadata(references, name)
        assert document["attributes"]["missing_value"] == "NaN"
        assert document["data_type"].startswith("float")
    truth, ours = open_original(path), open_ours(references, "zarr3-json", mask_and_scale=False, decode_times=False)
    assert truth.packed.equals(ours.packed) and truth.both.equals(ours.both) and truth.f4.equals(ours.f4)


def test_an_image_declares_its_nodata_with_its_other_conventions(tmp_path, fmt):
    image = write_image(tmp_path / "image.tif", "int16", -9, None, None, crs="EPSG:4326", transform=[0.5, 0, 10, 0, -0.5, 50])
    references = clients.virtualize(image, "--format", fmt, "--option", "missing-value-convention=true", "--strict").references
    attributes = attributes_of(references, "band_data", fmt)
    assert attributes["missing_value"] == -9
    assert [entry["name"] for entry in attributes["zarr_conventions"]] == ["proj", "spatial", "missing_value"]


def test_fill_value_attributes_are_valid():
    """All those of the fixtures conform to the published schema (fixtures/schemas)."""
    import jsonschema
    schema = json.loads((clients.FIXTURES / "schemas" / "_FillValue.json").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    kinds = set()
    files = [*sorted((clients.FIXTURES / "hdf5").glob("fill_*.h5")), *sorted((clients.FIXTURES / "tiff").glob("nodata_*.tif"))]
    for file in files:
        run = clients.virtualize(file, "--format", "zarr3-json")
        for key, value in run.references["refs"].items():
            if not key.endswith("zarr.json"):
                continue
            document = json.loads(value) if isinstance(value, str) else value
            attributes = document.get("attributes", {})
            if "_FillValue" in attributes and not document["data_type"].startswith("complex"):  # not covered by the schema
                validator.validate(attributes)
                kinds.add(type(attributes["_FillValue"]))
    assert kinds == {bool, int, str}
