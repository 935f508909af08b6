"""References and repositories open as files do, with the values that xarray reads from the originals."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import virtualize
import xarray as xr

NAMES = ["all.json", "all.parquet", "all.zarr", "all.icechunk"]


def write(folder: Path, count: int = 3) -> list[Path]:
    """Write files with packed numbers, missing values and text."""
    folder.mkdir()
    files = [folder / f"d{k}.nc" for k in range(count)]
    for k, path in enumerate(files):
        rng = np.random.default_rng(k)
        floats = rng.random((4, 3)).astype("f4")
        floats[0, 0] = np.nan
        data = {
            "packed": (("time", "x"), rng.integers(0, 99, (4, 3)) * 0.5 + 10, {"units": "K"}),
            "floats": (("time", "x"), floats),
            "counts": (("time", "x"), rng.integers(0, 99, (4, 3)).astype("i4")),
            "name": ("time", np.array(["a", "bb", "", "ä"], object)),
        }
        coords = {"time": ("time", np.arange(4) + 4 * k, {"units": "hours since 2000-01-01"}), "x": [1.5, 2.5, 3.5]}
        encoding = {
            "packed": {"dtype": "i2", "scale_factor": 0.5, "add_offset": 10.0, "_FillValue": -9, "zlib": True},
            "floats": {"_FillValue": np.float32(-1), "chunksizes": (2, 3)},
        }
        xr.Dataset(data, coords).to_netcdf(path, engine="h5netcdf", encoding=encoding)
    return files


@pytest.mark.parametrize("name", NAMES)
def test_an_archive_opens_as_a_file_does(tmp_path: Path, name: str) -> None:
    files = write(tmp_path / "files")
    out = tmp_path / name
    virtualize.batch(files, out, concat_dim="time")
    expected = xr.concat([xr.open_dataset(file, engine="h5netcdf") for file in files], "time", data_vars="minimal")
    found = xr.open_dataset(out, engine="virtualize")
    xr.testing.assert_equal(found, expected)
    assert {name: v.dtype for name, v in found.variables.items()} == {n: v.dtype for n, v in expected.variables.items()}
    xr.testing.assert_equal(pickle.loads(pickle.dumps(found)), expected)
    # Selections, and a store for zarr-python.
    xr.testing.assert_equal(found.isel(time=slice(3, 9, 2), x=[2, 0]), expected.isel(time=slice(3, 9, 2), x=[2, 0]))
    store = virtualize.open(out, decoded=True)
    np.testing.assert_array_equal(store["counts"][5:, 1], expected.counts.values[5:, 1])
    xr.testing.assert_equal(xr.open_zarr(store, consolidated=False), expected)


@pytest.mark.parametrize("name", ["all.json", "all.icechunk"])
def test_a_source_that_changed_is_an_error(tmp_path: Path, name: str) -> None:
    files = write(tmp_path / "files")
    out = tmp_path / name
    virtualize.batch(files, out, concat_dim="time")
    found = xr.open_dataset(out, engine="virtualize")
    files[1].unlink()
    found.packed[:4].load()
    with pytest.raises(virtualize.Error, match=files[1].name):
        found.packed.load()
