"""kerchunk's Parquet layout, compared with kerchunk's JSON through fsspec, zarr-python and kerchunk's xarray engine."""
import json, os, subprocess, sys, warnings

import clients
import h5py
import numpy as np
import pytest
import xarray as xr
import zarr
from clients import FIXTURES, virtualize

# The names in names.nc cannot be written as Parquet.
FILES = sorted(str(path.relative_to(FIXTURES)) for kind in ("hdf5", "netcdf3", "tiff") for path in (FIXTURES / kind).iterdir()
               if path.suffix != ".json" and path.name != "names.nc")
warnings.filterwarnings("ignore", message=".*fastparquet.*deprecated")


def parquet(path, out, *arguments):
    """Returns the folder that was written for a file, or None if JSON is rejected as well."""
    run = virtualize(path, "--format", "kerchunk-parquet", "-o", out, *arguments)
    beside = virtualize(path, "--format", "kerchunk-json", *(a for a in arguments if a != "--option" and not str(a).startswith("record-size")))
    assert (run.status, run.codes) == (beside.status, beside.codes), run.stderr
    return beside.references if run.status == 0 else None


def filesystem(out, **options):
    import fsspec
    return fsspec.filesystem("reference", fo=str(out), skip_instance_cache=True, **options)


def entry(value):
    """Returns a reference of JSON as bytes or [url, offset, length]."""
    if isinstance(value, list):
        return value
    import base64
    return base64.b64decode(value[7:]) if value.startswith("base64:") else value.encode()


def keys(references):
    return {key for key in references["refs"] if key.rpartition("/")[2] not in (".zarray", ".zgroup", ".zattrs", ".zmetadata")}


def grid(metadata):
    """Returns all possible chunk keys."""
    for key, array in metadata.items():
        if key.endswith("/.zarray"):
            counts = [-(-size // chunk) for size, chunk in zip(array["shape"], array["chunks"])]
            for index in np.ndindex(*counts):
                yield f"{key[:-8]}/" + (".".join(map(str, index)) or "0")


# All references of each fixture fit in the first file of 100,000 rows.
@pytest.mark.parametrize("path, size", [(path, 3) for path in FILES] + [("hdf5/chunked.h5", 100_000), ("tiff/cog.tif", 100_000)])
def test_all_references_are_those_of_json(path, size, tmp_path):
    references = parquet(FIXTURES / path, tmp_path / "refs.parquet", "--option", f"record-size={size}")
    if references is None:
        assert "nodata_invalid_" in path
        return
    lazy = filesystem(tmp_path / "refs.parquet", remote_protocol="file").references
    for key, value in lazy.zmetadata.items():
        assert value == json.loads(references["refs"][key]), key
    assert set(lazy.zmetadata) == set(references["refs"]) - keys(references) - {".zmetadata"}
    seen = set()
    for key in grid(lazy.zmetadata):
        if key in references["refs"]:
            seen.add(key)
            found, expected = lazy[key], entry(references["refs"][key])
            assert isinstance(found, bytes) or all(isinstance(number, np.integer) for number in found[1:]), key
            assert (list(found) if isinstance(expected, list) else found) == expected, key
        else:
            with pytest.raises(KeyError):
                lazy[key]
    assert seen == keys(references)


# Text, missing and inlined chunks, scalars, filters, groups, several images: all other references are compared above.
@pytest.mark.parametrize("path", ["hdf5/filters.h5", "hdf5/fill_message_3.h5", "hdf5/netcdf4.nc", "hdf5/types.h5", "tiff/cog.tif", "tiff/sparse_tiles_nodata_9999.tif"])
def test_arrays_are_those_of_json(path, tmp_path):
    out = tmp_path / "refs.parquet"
    references = parquet(FIXTURES / path, out, "--option", "record-size=7", "--inline", "100")
    one, two = clients.open_store(references), clients.open_store(str(out))
    problems = []
    for name, kind in clients.nodes(references, 2).items():
        a, b = (zarr.open(store, path=name, mode="r", zarr_format=2) for store in (one, two))
        if dict(a.attrs) != dict(b.attrs):
            problems.append(f"{name}: attributes")
        if kind == "array" and (problem := same(a, b)):
            problems.append(f"{name}: {problem}")
    clients.report(problems)


def same(a, b):
    try:
        expected = a[...]
    except Exception as error:
        with pytest.raises(type(error)):
            b[...]
        return None
    return clients.same_bits(expected, b[...])


@pytest.mark.parametrize("path", ["hdf5/chunked.h5", "hdf5/netcdf4.nc", "tiff/cog.tif"])
def test_kerchunks_engine_and_zarr_engine_open_it(path, tmp_path):
    out = tmp_path / "refs.parquet"
    references = parquet(FIXTURES / path, out)
    expected = clients.open_dataset(references, 2)
    options = {"remote_protocol": "file", "remote_options": {}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ways = [xr.open_dataset(str(out), engine="kerchunk", storage_options=dict(options), open_dataset_options={"decode_cf": False, "chunks": None}),
                xr.open_dataset(f"reference::{out}", engine="zarr", decode_cf=False, chunks=None, consolidated=False, zarr_format=2, storage_options=dict(options)),
                xr.open_dataset(f"reference::{out}", engine="zarr", decode_cf=False, chunks=None, consolidated=True, zarr_format=2, storage_options=dict(options))]
    for ds in ways:
        assert set(ds.variables) == set(expected.variables) and ds.attrs == expected.attrs
        for name in expected.variables:
            assert clients.same_bits(expected[name].values, ds[name].values) is None, name


@pytest.fixture
def sparse(tmp_path):
    """Writes an HDF5 file with chunks that are allocated, missing, large and of many sizes, and arrays without any."""
    file = tmp_path / "sparse.h5"
    rng = np.random.default_rng(3)
    with h5py.File(file, "w") as f:
        f.create_dataset("none", (1000,), "i4", chunks=(10,))
        f.create_dataset("scalar", (), "i4")
        for name, place in (("late", slice(955, 985)), ("early", slice(0, 5))):
            f.create_dataset(name, (1000,), "i4", chunks=(10,))[place] = 1
        some = f.create_dataset("some", (100, 100), "f8", chunks=(10, 10), compression="gzip", fillvalue=np.nan)
        for _ in range(30):
            y, x = rng.integers(0, 10, 2) * 10
            some[y:y + 10, x:x + 10] = rng.normal(size=(10, 10)).round(rng.integers(1, 9))
    return file


@pytest.mark.parametrize("arguments", [[], ["--option", "record-size=1"], ["--option", "record-size=10"], ["--option", "record-size=10", "--inline=300"]])
def test_missing_chunks_are_missing_and_files_of_none_are_omitted(sparse, arguments, tmp_path):
    out = tmp_path / "refs.parquet"
    parquet(sparse, out, *arguments)
    # In an array with a hundred files without any url, the last ones are omitted: then the protocol must be given.
    for options in ([] if "record-size=1" in arguments else [{}]) + [{"remote_protocol": "file"}]:
        fs = filesystem(out, asynchronous=True, **options)
        group = zarr.open_group(zarr.storage.FsspecStore(fs, read_only=True, path=""), mode="r", zarr_format=2)
        with h5py.File(sparse) as f:
            for name, array in f.items():
                assert clients.same_bits(array[()], group[name][...]) is None, name
    if arguments == ["--option", "record-size=10"]:
        # Files before the first url exist, for readers that look for it; later ones exist only if they have chunks.
        assert len(list((out / "late").iterdir())) == 10 and len(list((out / "none").iterdir())) == 10
        assert len(list((out / "early").iterdir())) == 1


def test_it_opens_without_a_protocol_whatever_order_sets_have(sparse, tmp_path):
    out = tmp_path / "refs.parquet"
    parquet(sparse, out, "--option", "record-size=10")
    code = f"import fsspec, warnings; warnings.simplefilter('ignore'); fs = fsspec.filesystem('reference', fo={str(out)!r}); print(len(fs.cat('late/95')))"
    for seed in range(3):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONHASHSEED": str(seed)})
        assert done.stdout == "40\n", done.stderr


def test_text_that_looks_like_base64_stays(tmp_path):
    file, out = tmp_path / "a.h5", tmp_path / "refs.parquet"
    with h5py.File(file, "w") as f:
        f.create_dataset("v", data=np.frombuffer(b"base64:AAAAbase64:BBBB", "u1"), chunks=(11,))
    parquet(file, out, "--inline", "1K")
    assert bytes(zarr.open_array(clients.open_store(str(out)), path="v", zarr_format=2)[...]) == b"base64:AAAAbase64:BBBB"


@pytest.mark.parametrize("count", [50, 4000])
def test_large_inline_chunks_and_long_columns(count, tmp_path):
    """Offsets over 32 bits and columns with many rows survive fastparquet and pyarrow."""
    file, out = tmp_path / "a.h5", tmp_path / "refs.parquet"
    rng = np.random.default_rng(5)
    with h5py.File(file, "w") as f:
        v = f.create_dataset("v", (count, 64), "u1", chunks=(1, 64), compression="gzip")
        for at in range(count):
            v[at] = rng.integers(0, 1 + at % 250, 64)
    references = parquet(file, out, "--inline", "40")
    import pandas as pd
    expected = [entry(references["refs"][f"v/{at}.0"]) for at in range(count)]
    for engine in ("fastparquet", "pyarrow"):
        df = pd.read_parquet(out / "v/refs.0.parq", engine=engine)
        assert list(df.columns) == ["path", "offset", "size", "raw"] and len(df) == count
        found = [raw if raw is not None else [path, offset, size] for path, offset, size, raw in df.itertuples(index=False)]
        assert found == expected, engine


def test_the_same_bytes_every_time(sparse, tmp_path):
    for name in ("one", "two"):
        parquet(sparse, tmp_path / name / "refs.parquet" if (tmp_path / name).mkdir() else tmp_path / name / "refs.parquet")
    one, two = ({p.relative_to(tmp_path / n): p.read_bytes() for p in (tmp_path / n).rglob("*") if p.is_file()} for n in ("one", "two"))
    assert one == two and len(one) > 3


def test_other_urls(tmp_path):
    file, out = tmp_path / "a.h5", tmp_path / "refs.parquet"
    file.write_bytes((FIXTURES / "hdf5/chunked.h5").read_bytes())
    for arguments, url in ((["--relative"], "a.h5"), (["--rewrite-url", f"{tmp_path}=s3://bucket/data"], "s3://bucket/data/a.h5")):
        run = virtualize(file, "--format", "kerchunk-parquet", "-o", out, "--overwrite", *arguments)
        assert run.status == 0, run.stderr
        assert filesystem(out, remote_protocol="file").references["temperature/0.0"][0] == url


@pytest.mark.parametrize("name", ["a#b", "a?b", "a%20b", ".zoo"])
def test_names_that_readers_would_miss_are_refused(name, tmp_path):
    file = tmp_path / "a.h5"
    with h5py.File(file, "w") as f:
        f.create_dataset(name, data=np.ones(4))
    run = virtualize(file, "--format", "kerchunk-parquet", "-o", tmp_path / "refs.parquet")
    assert run.status == 1 and name in run.stderr and not (tmp_path / "refs.parquet").exists(), run.stderr


@pytest.mark.parametrize("size", ["0", "-1", "1000001", "x"])
def test_record_sizes_are_bounded(size, tmp_path):
    run = virtualize(FIXTURES / "hdf5/chunked.h5", "--format", "kerchunk-parquet", "--option", f"record-size={size}", "-o", tmp_path / "refs.parquet")
    assert run.status == 2 and "1 to 1000000" in run.stderr, run.stderr


def offsets_of(sizes):
    return 4096 + np.cumsum(sizes) - sizes


def columns(kind, count):
    """Returns urls, offsets and sizes of chunks as in real files."""
    rng = np.random.default_rng(7)
    compressed, plain = rng.normal(50_000, 5_000, count).astype(int), np.full(count, 40_000)
    one = ["s3://bucket/a/prefix/of/usual/length/file.nc"] * count
    each = [f"s3://bucket/a/prefix/of/usual/length/{at:06}.nc" for at in range(count)]
    match kind:
        case "steps":
            return one, 4096 + np.arange(count) * 71_331, 50_000 + np.arange(count) * 7919 % 20_000
        case "compressed":
            return one, offsets_of(compressed), compressed
        case "not compressed":
            return one, offsets_of(plain), plain
        case "small":
            small = rng.integers(100, 1000, count)
            return one, offsets_of(small), small
        case "in no order":
            order = rng.permutation(count)
            return one, offsets_of(compressed)[order], compressed[order]
        case "a file each":
            return each, np.full(count, 8192), compressed
        case "a file for ten":
            return [each[at // 10] for at in range(count)], offsets_of(compressed).reshape(-1, 10)[0].repeat(count // 10)[:count], compressed
        case "files in turn":
            return [each[at % 50] for at in range(count)], offsets_of(compressed), compressed


KINDS = ["steps", "compressed", "not compressed", "small", "in no order", "a file each", "a file for ten", "files in turn"]


def test_sparse_arrays_are_not_larger_than_kerchunks_own(sparse, tmp_path):
    import kerchunk.df
    out, theirs = tmp_path / "refs.parquet", tmp_path / "kerchunk.parquet"
    kerchunk.df.refs_to_dataframe(parquet(sparse, out), str(theirs))
    ours, kerchunks = (sum(p.stat().st_size for p in folder.rglob("*.parq")) for folder in (out, theirs))
    assert ours <= kerchunks, (ours, kerchunks)


@pytest.mark.parametrize("kind, count", [*((kind, 20_000) for kind in KINDS), ("compressed", 100), ("a file each", 250_000)])
def test_it_is_not_larger_than_kerchunks_own(kind, count, tmp_path):
    """The same references by both writers, read back by fsspec."""
    import kerchunk.df
    zarray = {"chunks": [1], "compressor": None, "dtype": "<i4", "fill_value": 0, "filters": None, "order": "C", "shape": [count], "zarr_format": 2}
    chunks = {f"v/{at}": [url, int(offset), int(size)] for at, (url, offset, size) in enumerate(zip(*columns(kind, count)))}
    references = {".zgroup": '{"zarr_format":2}', "v/.zarray": json.dumps(zarray), "v/.zattrs": '{"_ARRAY_DIMENSIONS":["x"]}', **chunks}
    (tmp_path / "refs.json").write_text(json.dumps({"version": 1, "refs": references}))
    out, theirs = tmp_path / "refs.parquet", tmp_path / "kerchunk.parquet"
    theirs.mkdir()
    kerchunk.df.refs_to_dataframe(references, str(theirs))
    run = virtualize("convert", tmp_path / "refs.json", "--format", "kerchunk-parquet", "-o", out)
    assert run.status == 0, run.stderr
    ours, kerchunks = (sum(p.stat().st_size for p in folder.rglob("*.parq")) for folder in (out, theirs))
    assert ours <= kerchunks, (ours / kerchunks, ours, kerchunks)
    lazy = filesystem(out, remote_protocol="s3").references
    for at in range(0, count, max(1, count // 997)):
        assert list(lazy[f"v/{at}"]) == chunks[f"v/{at}"]
