"""Zarr v3 as a folder: plain readers either read an array correctly or fail; references.json serves all arrays."""
import json, warnings

import clients
import numpy as np
import pytest
import xarray as xr
import zarr
from clients import FIXTURES, virtualize

FILES = ["hdf5/chunked.h5", "hdf5/netcdf4.nc", "hdf5/types.h5", "hdf5/layouts.h5", "tiff/cog.tif"]


@pytest.fixture(scope="module", params=FILES)
def pair(request, tmp_path_factory):
    """Returns (the folder, the references of zarr3-json)."""
    out = tmp_path_factory.mktemp("folder") / "store.zarr"
    run = virtualize(FIXTURES / request.param, "--format", "zarr3", "-o", f"{out}/")
    assert run.status == 0 and run.stdout == b"", run.stderr
    return out, clients.convert(FIXTURES / request.param, "zarr3-json").stdout


def split(document):
    """Returns the paths of arrays that are completely inline, and of the others."""
    kinds = clients.nodes(document, 3)
    away = {key.split("/c/")[0].removesuffix("/c") for key, value in document["refs"].items() if isinstance(value, list)}
    arrays = {path for path, kind in kinds.items() if kind == "array"}
    return arrays - away, away


def test_the_references_inside_are_those_of_zarr3_json(pair):
    out, references = pair
    assert (out / "references.json").read_bytes().strip() == references.strip()
    assert sorted(path.name for path in out.parent.iterdir()) == ["store.zarr"]


def test_plain_readers_read_what_is_whole_and_refuse_the_rest(pair):
    out, references = pair
    whole, away = split(json.loads(references))
    store = clients.open_store(str(out / "references.json"))
    clients.register_codecs()
    group = zarr.open_group(str(out), mode="r")
    assert dict(group.attrs) == dict(zarr.open_group(store, mode="r", zarr_format=3).attrs)
    for path in whole:
        through = zarr.open_array(store, path=path, mode="r", zarr_format=3)
        for plain in (group[path], zarr.open_array(str(out / path), mode="r")):
            assert clients.same_bits(through[...], plain[...]) is None, path
    for path in away:
        assert path not in group
        with pytest.raises(Exception, match="virtual_references"):
            zarr.open_array(str(out / path), mode="r")
    assert whole | away


def test_xarray_opens_both(tmp_path):
    file, out = FIXTURES / "hdf5/netcdf4.nc", tmp_path / "store.zarr"
    assert virtualize(file, "--format", "zarr3", "-o", out, "--inline", "1").status == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain = xr.open_zarr(str(out), decode_cf=False, chunks=None)
    through = clients.open_dataset(str(out / "references.json"), 3)
    assert set(plain.variables) < set(through.variables) and plain.attrs == through.attrs
    for name in plain.variables:
        np.testing.assert_array_equal(plain[name], through[name])
    assert set(plain.variables) >= {name for name in through.dims if name in through.variables}


def test_gdal_does_not_show_fill_values(tmp_path):
    import h5py, rasterio
    file, out = tmp_path / "a.h5", tmp_path / "store.zarr"
    with h5py.File(file, "w") as f:
        f.create_dataset("v", data=np.ones((8, 8), "i4"), chunks=(4, 4))
    assert virtualize(file, "--format", "zarr3", "-o", out).status == 0
    with pytest.raises(rasterio.errors.RasterioIOError, match="storage_transformers"):
        rasterio.open(f'ZARR:"{out}":/v').read()
    assert virtualize(file, "--format", "zarr3", "-o", out, "--overwrite", "--inline", "1K").status == 0
    assert (rasterio.open(f'ZARR:"{out}":/v').read() == 1).all()


def test_a_file_in_the_folder_is_not_replaced(tmp_path):
    out = tmp_path / "store.zarr"
    out.mkdir()
    file = out / "a.h5"
    file.write_bytes((FIXTURES / "hdf5/chunked.h5").read_bytes())
    run = virtualize(file, "--format", "zarr3", "-o", out, "--overwrite")
    assert run.status == 2 and "replace" in run.stderr and file.exists(), run.stderr


@pytest.mark.parametrize("output", [[], ["-o", "-"]])
def test_several_files_need_a_place(output):
    run = virtualize(FIXTURES / "hdf5/chunked.h5", "--format", "zarr3", *output)
    assert run.status == 2 and "--output" in run.stderr, run.stderr


def test_the_extension_of_the_output_selects_the_format(tmp_path):
    source = clients.FIXTURES / "hdf5/chunked.h5"
    for name, file in {"a.parquet": ".zmetadata", "a.zarr": "zarr.json", "a.icechunk": "snapshots"}.items():
        run = clients.virtualize(source, "-o", tmp_path / name)
        assert run.status == 0, run.stderr
        assert (tmp_path / name / file).exists(), name
    for name, arguments in {"a.json": (), "a.refs": (), "b.parquet": ("--format", "kerchunk-json")}.items():
        assert clients.virtualize(source, *arguments, "-o", tmp_path / name).status == 0
        assert json.loads((tmp_path / name).read_text())["version"] == 1
    run = clients.virtualize("convert", tmp_path / "a.json", "-o", tmp_path / "c.zarr")
    assert run.status == 0 and (tmp_path / "c.zarr/zarr.json").exists(), run.stderr
