"""References by other tools and by virtualize, converted to other formats: each opens equal to the original."""
import json, os, shutil

import clients
import fsspec
import h5py
import numpy as np
import pytest
from clients import FIXTURES, nodes, same_bits, virtualize

JSON = ["kerchunk-json", "zarr3-json"]
FILES = [FIXTURES / "hdf5" / name for name in ("chunked.h5",)] + sorted((FIXTURES / "tiff").glob("tiles*.tif"))[:2]


def made_by_kerchunk(path, inline=0):
    from kerchunk.hdf import SingleHdf5ToZarr
    return SingleHdf5ToZarr(str(path), inline_threshold=inline, error="raise").translate()


def arrays(references):
    """Returns all arrays of a reference set as read by zarr-python."""
    import zarr
    version = 3 if "zarr.json" in references.get("refs", references) else 2
    store = clients.open_store(references)
    return {path: zarr.open_array(store, path=path, mode="r", zarr_format=version)
            for path, kind in nodes(references, version).items() if kind == "array"}


def same(one, other):
    assert set(one) == set(other)
    for path in one:
        assert same_bits(one[path][...], other[path][...]) is None, path


@pytest.fixture
def sample(tmp_path):
    """Writes a file with chunks, contiguous data, a fill value, a group and a scalar."""
    import h5py
    path = tmp_path / "sample.h5"
    with h5py.File(path, "w") as f:
        t = f.create_dataset("g/t", data=np.arange(60, dtype=">i2").reshape(6, 10), chunks=(4, 5), compression="gzip", shuffle=True,
                             fillvalue=-1)
        t.attrs.update(scale_factor=0.5, units="K")
        f["line"] = np.arange(7.0)
        f["one"] = np.float32(3)
        f.create_dataset("sparse", (8, 8), "f4", chunks=(4, 4), fillvalue=np.nan)[5, 5] = 2
        f["text"] = np.array([b"ab", b"cde"])
        f.attrs["title"] = "sample"
    return path


@pytest.mark.parametrize("to", JSON)
@pytest.mark.parametrize("inline", [0, 500])
def test_kerchunks_references(sample, tmp_path, to, inline):
    original = made_by_kerchunk(sample, inline)
    (tmp_path / "k.json").write_text(json.dumps(original))
    run = virtualize("convert", tmp_path / "k.json", "-f", to)
    assert run.status == 0, run.stderr
    same(arrays(original), arrays(run.references))
    # It also reads all references.
    import h5py
    with h5py.File(sample) as f:
        for path, array in arrays(run.references).items():
            assert same_bits(f[path][...], array[...]) is None, path


@pytest.mark.parametrize("to", JSON)
@pytest.mark.parametrize("version", [0, 1])
def test_kerchunks_versions(sample, tmp_path, to, version):
    original = made_by_kerchunk(sample)
    document = original["refs"] if version == 0 else {
        "version": 1, "templates": {"u": str(sample), "f": "{{c}}"}, "gen": [],
        "refs": {k: [v[0].replace(str(sample), "{{u}}" if i % 2 else "{{f(c='" + str(sample) + "')}}"), *v[1:]] if isinstance(v, list) else v
                 for i, (k, v) in enumerate(original["refs"].items())}}
    (tmp_path / "k.json").write_text(json.dumps(document))
    run = virtualize("convert", tmp_path / "k.json", "-f", to)
    assert run.status == 0, run.stderr
    same(arrays(original), arrays(run.references))


def test_text_of_variable_length_by_kerchunk_is_omitted(tmp_path):
    """kerchunk stores it as Python objects, which its readers decode from JSON. No codec of Zarr v3 can represent that."""
    import h5py
    with h5py.File(tmp_path / "v.h5", "w") as f:
        f["v"] = np.array(["a", "bc"], dtype=object)
        f["n"] = np.arange(3)
    original = made_by_kerchunk(tmp_path / "v.h5")
    original["refs"]["j/.zarray"] = json.dumps({"zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "|O", "fill_value": None,
                                                "order": "C", "filters": [{"id": "json2"}], "compressor": None})
    original["refs"]["j/0"] = '["a", "|O", [1]]'
    (tmp_path / "k.json").write_text(json.dumps(original))
    run = virtualize("convert", tmp_path / "k.json", "-f", "zarr3-json")
    assert run.status == 0 and ("/j", "array-omitted") in run.codes, run.stderr
    assert "n" in arrays(run.references)
    assert virtualize("convert", tmp_path / "k.json", "-f", "zarr3-json", "--strict").status == 1


def virtualizarrs(sample, out):
    """Writes VirtualiZarr's references of a file, and returns them."""
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore
    from virtualizarr import open_virtual_dataset
    from virtualizarr.parsers import HDFParser
    registry = ObjectStoreRegistry({"file://": LocalStore()})
    with open_virtual_dataset(f"file://{sample}", parser=HDFParser(), registry=registry, decode_times=False) as ds:
        ds.vz.to_kerchunk(str(out), format="json")
    return json.loads(out.read_text())


@pytest.mark.parametrize("to", JSON)
def test_virtualizarrs_references(tmp_path, to):
    original = virtualizarrs(FIXTURES / "hdf5" / "chunked.h5", tmp_path / "v.json")
    run = virtualize("convert", tmp_path / "v.json", "-f", to)
    assert run.status == 0, run.stderr
    same(arrays(original), arrays(run.references))


def test_virtualizarrs_scalars(tmp_path):
    """VirtualiZarr writes the key of a scalar's chunk as `NAME/`."""
    with h5py.File(tmp_path / "s.h5", "w") as file:
        file["n"] = np.int32(7)
    original = virtualizarrs(tmp_path / "s.h5", tmp_path / "v.json")["refs"]
    run = virtualize("convert", tmp_path / "v.json")
    assert run.status == 0 and not run.codes, run.stderr
    url, offset, length = run.references["refs"]["n/0"]
    assert [offset, length] == original["n/"][1:]
    assert (tmp_path / "s.h5").read_bytes()[offset:offset + length] == np.int32(7).tobytes()


@pytest.mark.parametrize("file", FILES, ids=lambda p: p.name)
@pytest.mark.parametrize("first", [*JSON, "zarr3"])
@pytest.mark.parametrize("then", JSON)
def test_ours(file, tmp_path, first, then):
    """References mapped in one format and converted equal those mapped in the other."""
    out = tmp_path / ("refs.zarr" if first == "zarr3" else "refs.json")
    assert virtualize(file, "-f", first, "-o", out).status == 0
    run = virtualize("convert", out, "-f", then)
    assert run.status == 0, run.stderr
    direct = virtualize(file, "-f", then).references
    same(arrays(direct), arrays(run.references))
    (tmp_path / "direct.json").write_text(json.dumps(direct)), (tmp_path / "converted.json").write_bytes(run.stdout)
    compared = virtualize("diff", tmp_path / "direct.json", tmp_path / "converted.json")
    assert compared.status == 0, compared.stdout.decode()


@pytest.mark.parametrize("to", JSON)
def test_whole_files_get_their_length(tmp_path, to):
    (tmp_path / "data").mkdir()
    for i in range(2):
        (tmp_path / "data" / f"{i}.bin").write_bytes(np.arange(i * 4, i * 4 + 4, dtype="<i4").tobytes())
    zarray = {"zarr_format": 2, "shape": [8], "chunks": [4], "dtype": "<i4", "fill_value": None, "order": "C", "filters": None, "compressor": None}
    refs = {".zgroup": '{"zarr_format":2}', "a/.zarray": json.dumps(zarray), "a/0": [f"file://{tmp_path}/data/0.bin"], "a/1": ["data/1.bin"]}
    (tmp_path / "refs.json").write_text(json.dumps(refs))
    run = virtualize("convert", tmp_path / "refs.json", "-f", to)
    assert run.status == 0, run.stderr
    np.testing.assert_array_equal(arrays(run.references)["a"][...], np.arange(8))
    assert [f"file://{tmp_path}/data/1.bin", 0, 16] in list(run.references["refs"].values())
    (tmp_path / "data" / "1.bin").unlink()
    run = virtualize("convert", tmp_path / "refs.json", "-f", to)
    assert run.status == 1 and "1.bin: not found" in run.stderr


def test_codecs_that_nobody_knows_stay_within_their_format(tmp_path):
    zarray = {"zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "<i4", "fill_value": 0, "order": "C", "filters": None,
              "compressor": {"id": "of_my_own", "strength": 9}}
    refs = {".zgroup": '{"zarr_format":2}', "a/.zarray": json.dumps(zarray), "a/0": ["s3://b/k", 10, 20], "b/.zarray": json.dumps({**zarray, "compressor": None})}
    (tmp_path / "refs.json").write_text(json.dumps(refs))
    same_format = virtualize("convert", tmp_path / "refs.json").references["refs"]
    assert json.loads(same_format["a/.zarray"])["compressor"] == zarray["compressor"] and same_format["a/0"] == ["s3://b/k", 10, 20]
    run = virtualize("convert", tmp_path / "refs.json", "-f", "zarr3-json")
    assert run.status == 0 and run.codes == [("/a", "array-omitted")], run.stderr
    assert virtualize("convert", tmp_path / "refs.json", "-f", "zarr3-json", "--strict").status == 1


def test_icechunk_and_back(sample, tmp_path):
    import icechunk
    import zarr
    for number, first in enumerate(JSON):
        assert virtualize(sample, "-f", first, "-o", tmp_path / f"{first}.json").status == 0
        run = virtualize("convert", tmp_path / f"{first}.json", "-f", "icechunk", "-o", tmp_path / first)
        assert run.status == 0, run.stderr
        scope = {}
        exec(run.stdout.decode().rsplit("\n", 2)[0], scope)
        original = arrays(json.loads((tmp_path / f"{first}.json").read_text()))
        same(original, {path: zarr.open_array(scope["session"].store, path=path, mode="r") for path in original})
        for then in JSON:
            back = virtualize("convert", tmp_path / first, "-f", then)
            assert back.status == 0, back.stderr
            same(original, arrays(back.references))
        compared = virtualize("diff", tmp_path / first, tmp_path / f"{first}.json")
        assert compared.status == 0, compared.stdout.decode()
        # The repository records how readers detect that the file has changed.
        os.utime(sample, (2e9 + number * 5, 2e9 + number * 5))
        with pytest.raises(Exception, match="changed|checksum|recondition"):
            zarr.open_array(scope["session"].store, path="g/t", mode="r")[...]


def test_repositories_of_icechunk_python(tmp_path):
    """A commit by VirtualiZarr with native chunks next to virtual ones."""
    sample = shutil.copy(FIXTURES / "hdf5" / "chunked.h5", tmp_path / "sample.h5")
    import icechunk
    import zarr
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore
    from virtualizarr import open_virtual_dataset
    from virtualizarr.parsers import HDFParser
    config = icechunk.RepositoryConfig.default()
    config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(f"file://{tmp_path}/", icechunk.local_filesystem_store(str(tmp_path))))
    repository = icechunk.Repository.create(icechunk.local_filesystem_storage(str(tmp_path / "repo")), config,
                                            authorize_virtual_chunk_access={f"file://{tmp_path}/": None})
    session = repository.writable_session("main")
    with open_virtual_dataset(f"file://{sample}", parser=HDFParser(), registry=ObjectStoreRegistry({"file://": LocalStore()}),
                              decode_times=False) as ds:
        ds.vz.to_icechunk(session.store)
    own = zarr.create_array(session.store, name="own", shape=(4000,), chunks=(1000,), dtype="f8", fill_value=0)
    own[...] = np.random.default_rng(1).random(4000)
    session.commit("all")
    run = virtualize("convert", tmp_path / "repo", "-f", "zarr3-json")
    assert run.status == 0, run.stderr
    store = repository.readonly_session("main").store
    found = arrays(run.references)
    assert "own" in found and "temperature" in found
    same({path: zarr.open_array(store, path=path, mode="r") for path in found}, found)


def test_differences_are_reported(sample, tmp_path):
    assert virtualize(sample, "-o", tmp_path / "a.json").status == 0
    document = json.loads((tmp_path / "a.json").read_text())
    refs = document["refs"]
    attributes = json.loads(refs["g/t/.zattrs"])
    refs["g/t/.zattrs"] = json.dumps({**attributes, "units": "degC"})
    zarray = json.loads(refs["line/.zarray"])
    refs["line/.zarray"] = json.dumps({**zarray, "fill_value": 3})
    refs["g/t/0.1"] = [refs["g/t/0.1"][0], refs["g/t/0.1"][1] + 1, refs["g/t/0.1"][2]]
    del refs["g/t/1.0"]
    for key in [k for k in refs if k.startswith("one/")]:
        del refs[key]
    refs.pop(".zmetadata", None)
    (tmp_path / "b.json").write_text(json.dumps(document))
    run = virtualize("diff", tmp_path / "a.json", tmp_path / "b.json")
    out = run.stdout.decode().splitlines()
    assert run.status == 1 and len(out) == 4, out
    assert out[0] == '/g/t: attribute units: "K" | "degC"'
    assert out[1].startswith("/g/t: 2 chunks; 0.1: [file://") and "1.0: " in out[1] and out[1].endswith("| missing")
    assert out[2].startswith("/line: fill_value: ") and out[3] == "/one: only in the first"
    assert virtualize("diff", tmp_path / "a.json", tmp_path / "a.json").status == 0
    assert virtualize("diff", tmp_path / "a.json", sample).status == 0
    assert virtualize("diff", sample, tmp_path / "b.json").status == 1
    copy = tmp_path / "copy.h5"
    shutil.copy(sample, copy)
    assert virtualize("diff", sample, copy).status == 0
    assert virtualize("convert", tmp_path / "a.json", "--rewrite-url", f"{tmp_path}=s3://b", "-o", tmp_path / "moved.json").status == 0
    assert virtualize("diff", tmp_path / "a.json", tmp_path / "moved.json").status == 1
    assert virtualize("diff", tmp_path / "a.json", tmp_path / "moved.json", "--ignore-urls").status == 0


@pytest.mark.parametrize("text, reason", [("{", "not a set of references"), ("{}", "neither .zgroup"), ("\x89HDF", "not a set of references")])
def test_files_other_than_references_are_refused(tmp_path, text, reason):
    (tmp_path / "x.json").write_text(text)
    run = virtualize("convert", tmp_path / "x.json")
    assert run.status == 1 and reason in run.stderr and len(run.stderr.splitlines()) == 1, run.stderr


def test_parquet_is_read_back(tmp_path):
    """To Parquet and back to JSON: the same references. (crates/references/tests reads Parquet by other writers.)"""
    file, parquet, back = clients.FIXTURES / "hdf5/chunked.h5", tmp_path / "refs.parquet", tmp_path / "back.json"
    assert clients.virtualize(file, "-f", "kerchunk-parquet", "--option", "record-size=2", "-o", parquet).status == 0
    assert clients.virtualize("convert", parquet, "-o", back).status == 0
    assert json.loads(back.read_text())["refs"] == clients.convert(file, "kerchunk-json").references["refs"]


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_names_that_begin_with_a_dot(tmp_path, zarr_format):
    """A Zarr store without consolidated metadata, whose nodes are listed."""
    import zarr
    group = zarr.open_group(tmp_path / "s.zarr", mode="w", zarr_format=zarr_format)
    for name in ("a", ".b", ".g/.c"):
        group.create_array(name, data=np.arange(3))
    run = virtualize("convert", tmp_path / "s.zarr", "-f", JSON[zarr_format - 2])
    assert run.status == 0, run.stderr
    assert {path: array[...].tolist() for path, array in arrays(run.references).items()} == dict.fromkeys(("a", ".b", ".g/.c"), [0, 1, 2])


@pytest.mark.parametrize("sentinel, dtype", [(0.1, "<f4"), (1e20, ">f4"), (1e40, "<f4"), (-9999.9, "<f2"), (-9999.0, "<f4")])
def test_sentinels_that_the_type_cannot_represent_mask_nothing(tmp_path, sentinel, dtype):
    import base64
    import xarray as xr
    with np.errstate(over="ignore"):
        values = np.array([sentinel, 1, np.inf], dtype)
    inline = "base64:" + base64.b64encode(values.tobytes()).decode()
    array = {"zarr_format": 2, "shape": [3], "chunks": [3], "dtype": dtype, "compressor": None, "filters": None, "order": "C", "fill_value": None}
    attributes = {"_ARRAY_DIMENSIONS": ["x"], "_FillValue": sentinel}
    refs = {".zgroup": '{"zarr_format":2}', "a/.zarray": json.dumps(array), "a/.zattrs": json.dumps(attributes), "a/0": inline}
    (tmp_path / "v2.json").write_text(json.dumps({"version": 1, "refs": refs}))

    def masked(path, consolidated):
        with xr.open_zarr(clients.open_store(json.loads(path.read_text())), consolidated=consolidated) as ds:
            return np.isnan(ds.a.values).tolist()
    expected = masked(tmp_path / "v2.json", False)
    run = virtualize("convert", tmp_path / "v2.json", "-f", "zarr3-json", "-o", tmp_path / "v3.json")
    assert run.status == 0, run.stderr
    assert masked(tmp_path / "v3.json", True) == expected
    assert ("cannot represent it" in run.stderr) == (sentinel != -9999), run.stderr
    # The attribute as it is in Zarr v3.
    v3 = json.loads((tmp_path / "v3.json").read_text())
    for key in ("zarr.json", "a/zarr.json"):
        document = json.loads(v3["refs"][key])
        for node in (document["consolidated_metadata"]["metadata"]["a"] if key == "zarr.json" else document,):
            node["attributes"]["_FillValue"] = base64.b64encode(np.float64(sentinel).tobytes()).decode()
        v3["refs"][key] = json.dumps(document)
    (tmp_path / "v3.json").write_text(json.dumps(v3))
    assert masked(tmp_path / "v3.json", True) == expected
    run = virtualize("convert", tmp_path / "v3.json", "-f", "kerchunk-json", "-o", tmp_path / "back.json")
    assert run.status == 0 and ("cannot represent it" in run.stderr) == (sentinel != -9999), run.stderr
    assert masked(tmp_path / "back.json", True) == expected


def test_integers_of_more_than_64_bits(tmp_path):
    """Python keeps them; they would be rounded to floats here."""
    refs = {".zgroup": '{"zarr_format":2}', ".zattrs": '{"id": 123456789012345678901234567890}'}
    (tmp_path / "x.json").write_text(json.dumps(refs))
    run = virtualize("convert", tmp_path / "x.json")
    assert run.status == 1 and "integer 123456789012345678901234567890 has more than 64 bits" in run.stderr, run.stderr
