"""Files whose packing differs: stored numbers form one array, and `scale_factor` and `add_offset` variables along the joined dimension. Each value
equals what xarray decodes from its file. More archives: RANDOM_PACKING=100."""
import random

import icechunk
import netCDF4
import numpy as np
import pytest
import xarray as xr
import zarr
from clients import either_format, seeds, unpacked, virtualize  # noqa: F401
from test_combine import combined


def packing(rng):
    """Returns attributes. xarray cannot decode a scale_factor that is an integer."""
    kind = rng.choice(["none", "scale", "offset", "both", "both", "both"])
    attributes = {}
    if kind in ("scale", "both"):
        attributes["scale_factor"] = rng.choice([0.1, 0.01, 0.5, 1.0, 1 / 3, 2.0])
    if kind in ("offset", "both"):
        attributes["add_offset"] = rng.choice([0.0, 273.15, -1e-3, np.int16(7)])
    return attributes


def archive(folder, rng):
    """Writes files with two variables. Returns them, and the options that join them."""
    count, stacked, dtype, fill = rng.randint(2, 5), rng.random() < 0.4, rng.choice(["i1", "u1", "i2", "u2", "i4", "f4"]), rng.choice([None, 3])
    few = [packing(rng) for _ in range(rng.randint(1, 3))]
    start, size, files, lacks = 0, rng.randint(1, 3), [], rng.random() < 0.3
    for k in range(count):
        n = size if stacked else rng.randint(1, 3)
        files.append(folder / f"{k}.nc")
        with netCDF4.Dataset(files[-1], "w") as file:
            for name, length in (("time", n), ("x", 3)):
                file.createDimension(name, length)
            time = file.createVariable("time", "f8", ("time",))
            time.units, time[:] = "days since 2000-01-01", np.arange(n) + (0 if stacked else start)
            for name, dims, chunks in (("a", ("time", "x"), (1, 3)), ("b", ("x", "time"), (3, 1))):
                if name == "b" and lacks and k == count - 1 and fill is not None:
                    continue
                v = file.createVariable(name, dtype, dims, chunksizes=chunks, zlib=True, fill_value=fill)
                v.set_auto_maskandscale(False)
                v.setncatts(rng.choice(few))
                v[:] = np.random.default_rng(rng.randrange(1 << 30)).integers(0, 99, [{"time": n, "x": 3}[dim] for dim in dims])
        start += n
    how = ["--stack-dim", "member", "--coord", "member=name:{member:d}.nc"] if stacked else ["--concat-dim", "time"]
    return files, [*how, *rng.choice([(), ("--option", "copy-limit=0")]), "--var", "b=optional"]


def originals(files, dimension):
    opened = []
    for k, path in enumerate(files):
        with xr.open_dataset(path, engine="h5netcdf") as ds:
            ds = ds.load()
        for name in ("a", "b"):
            if name in ds:
                values = ds[name].astype("f8")
                ds[name] = values.expand_dims(member=[k]) if dimension == "member" else values
        opened.append(ds.assign_coords(member=[k]) if dimension == "member" else ds)
    return xr.concat(opened, dimension, data_vars="minimal", coords="minimal", compat="override", join="outer")


@pytest.mark.parametrize("seed", seeds("RANDOM_PACKING", 12))
def test_packing_that_differs(tmp_path, fmt, seed):
    rng = random.Random(seed)
    files, how = archive(tmp_path, rng)
    got, messages = combined(tmp_path, fmt, files, *how)
    differs = any("_variable" in name for variable in got.variables.values() for name in variable.attrs)
    assert differs == ("packing differs between files" in messages)
    got, want = unpacked(got), originals(files, "member" if "member" in got.dims else "time")
    assert set(got.variables) == set(want.variables)
    for name in ("a", "b"):
        np.testing.assert_array_equal(got[name].values.astype("f8"), want[name].transpose(*got[name].dims).values, err_msg=name)


@pytest.mark.parametrize("differs", [True, False])
def test_printed_code_unpacks(tmp_path, differs):
    """If the packing differs, code that opens the output names the reader that applies it, also when a later run appends files."""
    for k in range(3):
        ds = xr.Dataset({"v": (("time", "x"), np.full((2, 2), k + 1.0))}, {"time": [2 * k, 2 * k + 1]})
        ds.to_netcdf(tmp_path / f"{k}.nc", engine="h5netcdf", encoding={"v": {"dtype": "i2", "scale_factor": 0.5 / (1 + differs * (k % 2)), "chunksizes": (2, 2)}})
    for name, options, group in (("a.json", [], ""), ("a.icechunk", [], ""), ("b.icechunk", ["--group", "g"], ', group="g"')):
        for files in (["0.nc", "1.nc"], ["2.nc"]):
            run = virtualize("batch", *(tmp_path / file for file in files), "--concat-dim", "time", "--append", "-o", tmp_path / name, *options)
            assert run.status == 0, run.stderr
            code = f'ds = xr.open_dataset("{tmp_path / name}", engine="virtualize"{group})'
            assert (code in run.stdout.decode()) == differs, run.stdout


@pytest.mark.parametrize("name", ["a.json", "a.parquet", "a.icechunk"])
def test_an_append_does_not_pack_what_others_read(tmp_path, name):
    """Files whose packing differs would replace the values that all readers of the archive get by packed numbers."""
    def write(k, scale):
        ds = xr.Dataset({"v": (("time", "x"), np.full((2, 2), k + 1.0))}, {"time": [2 * k, 2 * k + 1]})
        ds.to_netcdf(tmp_path / f"{k}.nc", engine="h5netcdf", encoding={"v": {"dtype": "i2", "scale_factor": scale, "chunksizes": (2, 2)}})
        return tmp_path / f"{k}.nc"

    def append(*words, status=0):
        run = virtualize("batch", *words, "--concat-dim", "time", "--append", "-o", output)
        assert run.status == status, run.stderr
        if name == "a.icechunk":
            repository = icechunk.Repository.open(icechunk.local_filesystem_storage(output))
            return run.stderr, zarr.open_group(repository.readonly_session("main").store, mode="r")["v"].shape[0]
        return run.stderr, unpacked(xr.open_dataset(output, engine="kerchunk").load())["v"].values[:, 0].tolist()

    def expected(count):
        return 2 * count if name == "a.icechunk" else [k // 2 + 1 for k in range(2 * count)]

    output = str(tmp_path / name)
    assert append(write(0, 0.5), write(1, 0.5))[1] == expected(2)
    message, values = append(write(2, 0.25), status=1)
    assert "packing of v differs" in message and "--overwrite" in message and values == expected(2)
    assert append(write(3, 0.5), status=1)[1] == expected(2)  # The third file still belongs to the archive.
    assert append("--overwrite", tmp_path / "3.nc")[1] == expected(4)
    assert append(write(4, 0.125))[1] == expected(5)


def test_packing_along_two_dimensions(tmp_path, fmt):
    """Packing that depends on one of them is a variable along it; packing that depends on both is refused."""
    files = []
    for k in range(4):
        files.append(tmp_path / f"{k}.nc")
        ds = xr.Dataset({"v": (("y", "x"), np.full((2, 2), k + 1.0), {})}, {"y": [k // 2 * 2, k // 2 * 2 + 1], "x": [k % 2 * 2, k % 2 * 2 + 1]})
        ds.to_netcdf(files[-1], engine="h5netcdf", encoding={"v": {"dtype": "i2", "scale_factor": 0.5 / (1 + k % 2), "chunksizes": (2, 2)}})
    both = ["--concat-dim", "y", "--concat-dim", "x"]
    got, messages = combined(tmp_path, fmt, files, *both, text="v_scale_factor along x")
    np.testing.assert_array_equal(unpacked(got).v, np.kron([[1.0, 2], [3, 4]], np.ones((2, 2))))
    xr.load_dataset(files[0]).to_netcdf(files[0], engine="h5netcdf", encoding={"v": {"dtype": "i2", "scale_factor": 0.125, "chunksizes": (2, 2)}})
    combined(tmp_path, fmt, files, *both, status=1, text="scale_factor and add_offset depend on several dimensions")


def test_a_name_that_is_taken(tmp_path):
    files = []
    for k in range(2):
        files.append(tmp_path / f"{k}.nc")
        ds = xr.Dataset({"v": ("time", [k, 1.0]), "v_scale_factor": ("time", [0.0, 1.0])}, {"time": [2 * k, 2 * k + 1]})
        ds.to_netcdf(files[-1], engine="h5netcdf", encoding={"v": {"dtype": "i2", "scale_factor": 0.5 + k}})
    combined(tmp_path, "kerchunk-json", files, "--concat-dim", "time", status=1, text="the files have an array of the name that its packing needs")
