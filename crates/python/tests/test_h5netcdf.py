"""Every group of the HDF5 fixtures through ``engine="virtualize"`` and through ``engine="h5netcdf"``."""

from collections.abc import Iterator
from pathlib import Path

import h5py
import hdf5plugin  # noqa: F401  registers filters
import numpy as np
import pytest
import xarray as xr

FOLDER = Path(__file__).resolve().parents[3] / "fixtures/hdf5"
# h5netcdf does not open them: a reference in an attribute, a dangling link, a dataset with scales on some axes only, a
# committed datatype.
REFUSED = {"attributes_odd.h5", "links_odd.h5", "scales_half.h5", "types.h5"}
# A null dataspace, which h5netcdf shows as an object of h5py.
NOT_COMPARED = {("layouts.h5", "empty"), ("layouts_latest.h5", "empty")}
# Entries of the encoding with which xarray decodes values and encodes them again.
DECODED = ("_FillValue", "missing_value", "scale_factor", "add_offset", "_Unsigned", "units", "calendar", "dtype")


def groups(path: Path) -> Iterator[str]:
    yield "/"
    with h5py.File(path) as f:
        found: list[str] = []
        f.visititems(lambda name, node: found.append(name) if isinstance(node, h5py.Group) else None)
    yield from found


def is_same(got: np.ndarray, want: np.ndarray) -> bool:
    """Whether two arrays have the same data type and the same bits."""
    if want.dtype.kind == "O" or want.dtype.names:
        return repr(got.tolist()) == repr(want.tolist())
    return got.dtype == want.dtype and got.shape == want.shape and got.tobytes() == want.tobytes()


def is_readable(variable: xr.Variable) -> bool:
    """Whether h5netcdf reads the values. It fails if nothing is stored and the fill value is undefined."""
    try:
        return variable.values is not None
    except OSError as error:
        assert "dataset doesn't exist" in str(error), error
        return False


def differences(got: xr.Variable, want: xr.Variable) -> Iterator[str]:
    if (got.dims, got.shape) != (want.dims, want.shape):
        yield f"{got.dims} {got.shape}, expected {want.dims} {want.shape}"
    elif not is_same(got.values, want.values):
        yield f"values {got.values!r}, expected {want.values!r}"
    elif not got.dtype.names and not got.identical(want):
        yield f"attributes {got.attrs}, expected {want.attrs}"
    for name in DECODED:
        ours, theirs = got.encoding.get(name), want.encoding.get(name)
        if name == "dtype" and theirs is not str:  # ours is native
            ours, theirs = np.dtype(ours), np.dtype(theirs).newbyteorder("=")
        if repr(ours) != repr(theirs) and ours != theirs:
            yield f"encoding {name}: {ours!r}, expected {theirs!r}"


@pytest.mark.parametrize("decode", [True, False])
@pytest.mark.parametrize(
    "name", sorted(path.name for path in FOLDER.iterdir() if path.suffix in (".h5", ".nc") and path.name not in REFUSED)
)
@pytest.mark.filterwarnings("ignore")
def test_fixtures_are_the_same(name: str, decode: bool) -> None:
    path, found = FOLDER / name, []
    for group in groups(path):
        how = {"group": group, "decode_cf": decode}
        with (
            xr.open_dataset(path, engine="h5netcdf", phony_dims="access", **how) as want,
            xr.open_dataset(path, engine="virtualize", **how) as got,
        ):
            assert set(got.variables) == set(want.variables), group
            assert set(got.coords) == set(want.coords), group
            assert got.encoding["unlimited_dims"] == want.encoding["unlimited_dims"], group
            assert xr.Dataset(attrs=got.attrs).identical(xr.Dataset(attrs=want.attrs)), group
            for variable in want.variables:
                both = got.variables[variable], want.variables[variable]
                if (name, variable) not in NOT_COMPARED and is_readable(both[1]):
                    found += [f"{group} {variable}: {messages}" for messages in differences(*both)]
    assert found == []


def test_packing_keeps_its_precision(tmp_path: Path) -> None:
    """xarray unpacks to float32 if `scale_factor` is a float32, which JSON does not tell."""
    path = tmp_path / "packed.nc"
    packed = {
        name: ("x", np.arange(5, dtype="i2"), {"scale_factor": scale, "_FillValue": np.int16(3)})
        for name, scale in {"single": np.float32(0.1), "double": np.float64(0.1)}.items()
    }
    xr.Dataset(packed).to_netcdf(path, engine="h5netcdf")
    with xr.open_dataset(path, engine="virtualize") as got, xr.open_dataset(path, engine="h5netcdf") as want:
        assert got.identical(want)
        assert (got.single.dtype, got.double.dtype) == ("float32", "float64")


@pytest.mark.parametrize("charset", ["ascii", "utf-8"])
def test_text_has_the_type_of_h5netcdf(tmp_path: Path, charset: str) -> None:
    path = tmp_path / "text.h5"
    with h5py.File(path, "w") as f:
        f.create_dataset("text", data=["ab", "", "cde"], dtype=h5py.string_dtype(charset))
    with (
        xr.open_dataset(path, engine="virtualize") as got,
        xr.open_dataset(path, engine="h5netcdf", phony_dims="access") as want,
    ):
        assert (got["text"].dtype, got["text"].values.dtype) == (want["text"].dtype, want["text"].values.dtype)
        assert got.identical(want)
        assert got["text"].encoding["dtype"] == want["text"].encoding["dtype"]


@pytest.mark.parametrize("unit", ["s", "ns"])
def test_numpy_times_are_times(tmp_path: Path, unit: str) -> None:
    path = tmp_path / "times.h5"
    times = np.array(["2000-01-01", "2020-02-03T04:05:06"], f"M8[{unit}]")
    with h5py.File(path, "w") as f:
        f["time"] = times.astype(h5py.opaque_dtype(times.dtype))
    with xr.open_dataset(path, engine="virtualize") as got:
        assert (got["time"].values == times).all()
