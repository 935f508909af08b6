"""NetCDF classic files in xarray: identical to `engine="netcdf4"`, types of attributes included."""

import pathlib

import numpy as np
import pytest
import virtualize
import xarray as xr

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "fixtures/netcdf3"
# netCDF-C does not know streamed records, and names.nc has names that no Zarr node can have.
FILES = sorted(path.name for path in FOLDER.glob("*.nc") if not path.name.startswith(("streaming", "names")))
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("options", [{}, {"decode_cf": False}, {"mask_and_scale": False}], ids=str)
@pytest.mark.parametrize("name", FILES)
def test_datasets_are_those_of_netcdf4(name, options):
    with (
        xr.open_dataset(FOLDER / name, engine="netcdf4", **options) as original,
        xr.open_dataset(FOLDER / name, engine="virtualize", **options) as ours,
    ):
        xr.testing.assert_identical(original, ours)
        assert ours.encoding["unlimited_dims"] == original.encoding["unlimited_dims"]
        for path in original.variables:
            assert ours[path].dtype.newbyteorder("=") == original[path].dtype
            for key, value in original[path].attrs.items():
                found = ours[path].attrs[key]
                assert (type(found), np.asarray(found).dtype) == (type(value), np.asarray(value).dtype), (path, key)


def test_records_are_read_by_selection():
    store = virtualize.open(FOLDER / "types_5.nc")
    assert np.array_equal(store["record_i8"][1:, ::2], [[3, 5], [6, 8]])
    assert store["fixed_u2"].attrs == {}
