"""The parser for VirtualiZarr: its datasets, and what is written from them, read as the original files do."""

import pickle
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import fsspec
import h5py
import icechunk
import imagecodecs.zarr
import numpy as np
import pytest
import rioxarray
import virtualizarr
import xarray as xr
import zarr
from obspec_utils.registry import ObjectStoreRegistry
from obstore.store import LocalStore, MemoryStore
from virtualizarr.parsers import HDFParser

import virtualize
from virtualize.virtualizarr import Parser

ROOT = Path(__file__).resolve().parents[3]
imagecodecs.zarr.register_codecs()

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*virtualizarr-kerchunk"),
    *(
        pytest.mark.filterwarnings(f"ignore::{name}")
        for name in (
            "DeprecationWarning",
            "PendingDeprecationWarning",
            "rasterio.errors.NotGeoreferencedWarning",
            "zarr.errors.UnstableSpecificationWarning",
        )
    ),
]


def registry():
    return ObjectStoreRegistry({"file://": LocalStore()})


def open_virtual(path, **kwargs):
    return virtualizarr.open_virtual_dataset(f"file://{path}", registry(), Parser(**kwargs), loadable_variables=[])


def from_kerchunk(vds, path, **kwargs):
    vds.vz.to_kerchunk(str(path / "refs.json"), format="json", zarr_format=3)
    fs = fsspec.filesystem(
        "reference", fo=str(path / "refs.json"), remote_protocol="file", asynchronous=True, skip_instance_cache=True,
        remote_options={"asynchronous": True},
    )  # fmt: skip
    store = zarr.storage.FsspecStore(fs, read_only=True, path="")
    return xr.open_zarr(store, consolidated=False, zarr_format=3, chunks=None, **kwargs)


def from_icechunk(vds, path, **kwargs):
    path = path / "icechunk"
    storage = icechunk.local_filesystem_storage(str(path / "repository"))
    config = icechunk.RepositoryConfig.default()
    prefixes = [f"file://{folder}/" for folder in (ROOT, path.parent)]
    for prefix in prefixes:
        place = icechunk.local_filesystem_store(prefix.removeprefix("file://"))
        config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(prefix, place))
    access = icechunk.credentials.LocalFileSystemAccess
    repository = icechunk.Repository.create(storage, config, authorize_virtual_chunk_access=dict.fromkeys(prefixes, access))
    session = repository.writable_session("main")
    vds.vz.to_icechunk(session.store)
    session.commit("all")
    return xr.open_zarr(repository.readonly_session("main").store, consolidated=False, zarr_format=3, chunks=None, **kwargs)


@pytest.mark.parametrize("write", [from_kerchunk, from_icechunk])
@pytest.mark.parametrize("name", ["netcdf4.nc", "dimensions.nc"])
def test_netcdf_equals_h5netcdf(name, write, fixtures, tmp_path):
    path = fixtures / "hdf5" / name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        vds = open_virtual(path)
        found = write(vds, tmp_path, decode_cf=False)
        with xr.open_dataset(path, engine="h5netcdf", decode_cf=False) as expected:
            assert set(found.variables) == set(expected.variables)
            for name in found.variables:
                xr.testing.assert_equal(found[name].variable, expected[name].variable)


@pytest.mark.parametrize("write", [from_kerchunk, from_icechunk])
@pytest.mark.parametrize("name", ["cog.tif", "tiles.tif", "geo_utm.tif", "sparse_tiles_nodata_0.tif", "type_be_u2.tif"])
def test_tiff_equals_rioxarray(name, write, fixtures, tmp_path):
    path = fixtures / "tiff" / name
    vds = open_virtual(path)
    main = next(name for name in vds.variables if vds[name].ndim >= 2)
    found = write(vds[[main]], tmp_path)
    with rioxarray.open_rasterio(path, mask_and_scale=True) as expected:
        np.testing.assert_array_equal(found[main].values.squeeze(), expected.values.squeeze())


def all_fixtures():
    """Those of fill values repeat a few layouts many times."""
    return sorted(str(path.relative_to(ROOT)) for folder in ("hdf5", "tiff") for path in (ROOT / "fixtures" / folder).iterdir()
                  if path.suffix in {".h5", ".nc", ".tif"} and not path.name.startswith("nodata_i")
                  and path.name not in ("fill_message_1.h5", "fill_message_2.h5", "fill_message_3_types.h5"))


@pytest.mark.parametrize("name", all_fixtures())
def test_values_and_references_are_those_of_the_store(name, fixtures):
    """A ManifestStore has the same arrays, values and references as our own store, or warns about each that it lacks."""
    path = fixtures.parent / name
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            store = virtualize.open(path)
        except virtualize.RefusedError:
            with pytest.raises(virtualize.RefusedError):
                Parser()(f"file://{path}", registry())
            return
        found = zarr.open_group(Parser()(f"file://{path}", registry()), mode="r")
        ours = zarr.open_group(virtualize.open(path), mode="r")
    lacking = {w.message.diagnostic.path for w in caught if getattr(w.message, "code", "") == "virtualizarr-unsupported"}
    expected = {path for path, member in ours.members(max_depth=None)}
    members = dict(found.members(max_depth=None))
    assert set(members) | {path.strip("/") for path in lacking} == expected
    for path, member in members.items():
        assert dict(member.attrs) == dict(ours[path].attrs)
        if isinstance(member, zarr.Array) and member.size < 1_000_000:
            a, b = member[...], ours[path][...]
            assert np.asarray(a).dtype.kind == np.asarray(b).dtype.kind
            np.testing.assert_array_equal(a, b)


def sparse(path):
    """Write chunks that are missing, and some that VirtualiZarr and we must agree on."""
    with h5py.File(path, "w") as f:
        d = f.create_dataset("sparse", (40, 40), "f8", chunks=(10, 10), fillvalue=-1)
        d[5:20, 5:20] = np.random.default_rng(1).random((15, 15))
        f.create_dataset("whole", data=np.arange(400.0).reshape(20, 20), chunks=(10, 7), compression="gzip")
        f.create_dataset("scalar", data=5)
        f.create_dataset("empty", (0, 3), "i4", chunks=(1, 3), maxshape=(None, 3))
        f.create_dataset("never", (10,), "i2", chunks=(5,))
        f.create_dataset("contiguous", data=np.arange(10))
        f.create_dataset("compact", data=np.arange(10), dcpl=compact())
        f.create_dataset("strings", data=["a", "bc", ""], dtype=h5py.string_dtype())


def compact():
    dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    dcpl.set_layout(h5py.h5d.COMPACT)
    return dcpl


def test_references_are_those_of_h5py(tmp_path):
    sparse(path := tmp_path / "a.h5")
    group = Parser()(f"file://{path}", registry())._group
    with h5py.File(path) as f:
        for name in ("sparse", "whole", "never"):
            d, found = f[name], {}
            for n in range(d.id.get_num_chunks()):
                chunk = d.id.get_chunk_info(n)
                key = ".".join(str(o // c) for o, c in zip(chunk.chunk_offset, d.chunks))
                found[key] = {"path": f"file://{path}", "offset": chunk.byte_offset, "length": chunk.size}
            assert group.arrays[name].manifest.dict() == found
        assert group.arrays["contiguous"].manifest.dict()["0"]["offset"] == f["contiguous"].id.get_offset()
    assert group.arrays["scalar"].manifest.shape_chunk_grid == ()
    assert group.arrays["empty"].manifest.dict() == {}
    values = zarr.open_group(Parser()(f"file://{path}", registry()), mode="r")
    with h5py.File(path) as f:
        assert list(values["strings"][:]) == ["a", "bc", ""]
        for name in set(f) - {"strings"}:
            np.testing.assert_array_equal(values[name][...], f[name][...])


def test_manifest_columns(tmp_path):
    sparse(path := tmp_path / "a.h5")
    store = virtualize.open(path)
    manifest = store.manifest("/sparse")
    assert manifest.source.shape == manifest.offset.shape == manifest.length.shape == (4, 4)
    assert (manifest.offset.dtype, manifest.length.dtype) == (np.uint64, np.uint64)
    with h5py.File(path) as f:
        for n in range(f["sparse"].id.get_num_chunks()):
            chunk = f["sparse"].id.get_chunk_info(n)
            at = tuple(o // 10 for o in chunk.chunk_offset)
            assert (manifest.offset[at], manifest.length[at], manifest.source[at]) == (chunk.byte_offset, chunk.size, 0)
    assert (manifest.source < 0).sum() == 12 and (manifest.length == 0).sum() == 12
    assert store.manifest("scalar").offset.shape == ()
    inline = store.manifest("strings")
    assert list(inline.inline) == [(0,)] and inline.length[0] == len(inline.inline[0,]) and inline.source[0] == -1
    with pytest.raises(virtualize.NotFoundError, match="nowhere"):
        store.manifest("nowhere")
    with pytest.raises(ValueError, match="read-only"):
        manifest.offset[0, 0] = 1


def test_huge_grids_are_refused(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.create_dataset("huge", (1 << 40,), "u1", chunks=(16,))[0] = 1
    with pytest.raises(virtualize.FileError, match="positions"):
        virtualize.open(tmp_path / "a.h5").manifest("huge")


def test_groups_and_dropped_variables(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["one/two/x"] = np.arange(3)
        f["one/y"] = np.arange(4)
    url = f"file://{tmp_path}/a.h5"
    for group in ("one", "/one", "one/"):
        found = Parser(group=group)(url, registry())._group
        assert set(found.arrays) == {"y"} and set(found.groups) == {"two"}
    assert set(Parser(group="one", drop_variables=["y", "two"])(url, registry())._group) == set()
    for group in ("two", "one/y"):
        with pytest.raises(virtualize.OptionError, match="group"):
            Parser(group=group)(url, registry())
    with pytest.raises(virtualize.OptionError, match="regular"):
        Parser(chunk_grid="rectilinear")
    with pytest.raises(virtualize.OptionError, match="no_option"):
        Parser(no_option=1)(url, registry())


def test_an_array_with_an_unknown_codec_is_omitted_with_a_warning(tmp_path, monkeypatch):
    sparse(path := tmp_path / "a.h5")
    import zarr.registry

    get = zarr.registry.get_codec_class
    monkeypatch.setattr("zarr.core.metadata.v3.parse_codecs", lambda data: (_ for _ in ()).throw(KeyError("unknown codec")))
    with pytest.warns(virtualize.VirtualizeWarning, match="unknown codec") as caught:
        group = Parser()(f"file://{path}", registry())._group
    assert not group.arrays and len(caught) == 8
    with pytest.raises(virtualize.RefusedError, match="unknown codec"):
        Parser(strict=True)(f"file://{path}", registry())
    assert get


def test_codecs_that_virtualizarr_mistranslates_are_announced(fixtures):
    """A predictor becomes a filter of Zarr format 2 without its data type and shape, and would give wrong values."""
    with pytest.warns(virtualize.VirtualizeWarning, match="imagecodecs_delta.*virtualizarr-kerchunk"):
        open_virtual(fixtures / "tiff/predictor_2_u2_zlib.tif")
    open_virtual(fixtures / "tiff/compression_lzw.tif")


def series(folder, count=4):
    for n in range(count):
        xr.Dataset(
            {"t": (("time", "x"), np.random.default_rng(n).random((2, 30)).astype("f4"))},
            {"time": [n * 2, n * 2 + 1], "x": np.arange(30)},
        ).to_netcdf(folder / f"{n}.nc", engine="h5netcdf", encoding={"t": {"zlib": True, "chunksizes": (1, 10)}})
    return [f"file://{folder}/{n}.nc" for n in range(count)]


@pytest.mark.parametrize("parallel", [False, "threads", pytest.param("processes", marks=pytest.mark.slow), pytest.param("dask", marks=pytest.mark.slow)])
def test_many_files_are_concatenated(parallel, tmp_path):
    urls = series(tmp_path)
    executor = {
        "threads": lambda: ThreadPoolExecutor(2),
        "processes": lambda: ProcessPoolExecutor(2, get_context("spawn")),
    }.get(parallel, lambda: parallel)()
    vds = virtualizarr.open_virtual_mfdataset(
        urls, registry(), pickle.loads(pickle.dumps(Parser())), concat_dim="time", combine="nested",
        coords="minimal", compat="override", data_vars="minimal", loadable_variables=["time", "x"], parallel=executor,
    )
    expected = xr.open_mfdataset([url.removeprefix("file://") for url in urls], engine="h5netcdf")
    for write in (from_kerchunk, from_icechunk):
        found = write(vds, tmp_path)
        xr.testing.assert_equal(found.load(), expected.load())


def test_files_in_memory(tmp_path):
    sparse(path := tmp_path / "a.h5")
    store = MemoryStore()
    store.put("a.h5", path.read_bytes())
    found = zarr.open_group(Parser()("memory://b/a.h5", ObjectStoreRegistry({"memory://b": store})), mode="r")
    with h5py.File(path) as f:
        np.testing.assert_array_equal(found["whole"][:], f["whole"][:])


def test_chunks_longer_than_the_array_are_concatenated(tmp_path):
    """netCDF-4 allocates 512 elements for an unlimited dimension. Unfiltered chunks end with the array in a manifest."""
    for n in range(2):
        with h5py.File(tmp_path / f"{n}.h5", "w") as f:
            f.create_dataset("t", data=np.arange(5 * n, 5 * n + 5), chunks=(512,), maxshape=(None,))
            f.create_dataset("big", data=np.full((5, 6), n, ">i4"), chunks=(8, 3), maxshape=(None, 6))
            f.create_dataset("filtered", data=np.arange(5), chunks=(512,), maxshape=(None,), compression="gzip")
            f["t"].make_scale("t")
            f["big"].dims[0].attach_scale(f["t"])
    parser = Parser(drop_variables=["filtered"])
    vds = [virtualizarr.open_virtual_dataset(f"file://{tmp_path}/{n}.h5", registry(), parser, loadable_variables=[]) for n in range(2)]
    both = xr.concat([v.drop_indexes(v.xindexes) for v in vds], "t", coords="minimal", compat="override")
    found = from_icechunk(both, tmp_path)
    np.testing.assert_array_equal(found["t"], np.arange(10))
    np.testing.assert_array_equal(found["big"], np.repeat([0, 1], 5)[:, None].repeat(6, 1))
    group = Parser()(f"file://{tmp_path}/0.h5", registry())._group
    assert group.arrays["filtered"].metadata.chunks == (512,)
    assert group.arrays["t"].manifest.dict()["0"]["length"] == 40


def test_manifests_equal_those_of_hdfparser(tmp_path):
    urls = series(tmp_path, 1)
    ours, theirs = (parser(urls[0], registry())._group for parser in (Parser(), HDFParser()))
    assert set(ours.arrays) == set(theirs.arrays)
    for name, array in theirs.arrays.items():
        assert ours.arrays[name].manifest.dict() == array.manifest.dict()
        assert ours.arrays[name].metadata.dimension_names == array.metadata.dimension_names
