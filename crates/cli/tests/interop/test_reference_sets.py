"""Reference sets in every notation, compared with fsspec; differences between sets; invalid sets."""
import base64, json

import clients
import fsspec
import h5py
import numpy as np
import pytest
import zarr
from clients import FIXTURES, virtualize
from test_validate import reported, validate

ZARRAY = {"zarr_format": 2, "shape": [4], "chunks": [2], "dtype": "<f4", "fill_value": 0, "order": "C", "filters": None, "compressor": None}


def document(places=None, attributes=None, spell=json.dumps, **members):
    """Returns a set with one array `a` of two chunks."""
    return {".zgroup": '{"zarr_format":2}', "a/.zarray": spell({**ZARRAY, **members}), "a/.zattrs": spell({"_ARRAY_DIMENSIONS": ["x"], **(attributes or {})}),
            **(places if places is not None else {"a/0": ["file:///d/f.bin", 0, 8]})}


def written(path, refs):
    path.write_text(refs if isinstance(refs, str) else json.dumps(refs))
    return path


def by_fsspec(document, simple=False):
    """Returns the chunks according to fsspec: {key: bytes or [url, offset, length]}."""
    fs = fsspec.filesystem("reference", fo=document, simple_templates=simple, remote_protocol="file", skip_instance_cache=True)
    found = {}
    for key, value in fs.references.items():
        if not key.rpartition("/")[2].startswith(".z"):
            value = value.encode() if isinstance(value, str) else value
            found[key] = base64.b64decode(value[7:]) if isinstance(value, bytes) and value.startswith(b"base64:") else value
    return found


def by_us(path):
    run = virtualize("convert", path, "-f", "kerchunk-json")
    assert run.status == 0, run.stderr
    return by_fsspec(run.references)


GENERATORS = {
    "two dimensions": [{"key": "a/{{i}}.{{j}}", "url": "file:///d/{{i}}/{{j}}.bin", "offset": "{{(i + 1) * 1000 + j}}", "length": "{{1000 - j}}", "dimensions": {"i": {"stop": 3}, "j": [0, 1, 2, 3]}}],
    "steps": [{"key": "a/{{i // 2}}.{{j}}", "url": "{{u}}_{{i}}", "offset": "{{i * 2 ** 33 + j}}", "length": "{{8 if j else 16}}", "dimensions": {"i": {"start": 0, "stop": 6, "step": 2}, "j": {"stop": 4}}}],
    "functions": [{"key": "a/{{i}}.{{j}}", "url": "{{f(c='part', n=i)}}", "offset": "{{i + j}}", "length": "{{(i + 1) * 2}}", "dimensions": {"i": {"stop": 3}, "j": {"stop": 4}}}],
    "formats": [{"key": "a/{{i}}.0", "url": "file:///d/{{ '%03d'|format(i) }}.bin", "offset": "{{i % 2 * 100}}", "length": "{{ [8, 16, 24][i] }}", "dimensions": {"i": {"stop": 3}}}],
    "two generators": [{"key": "a/0.{{j}}", "url": "file:///x", "offset": "{{j}}", "length": "1", "dimensions": {"j": [3, 1]}},
                       {"key": "a/{{i}}.{{j}}", "url": "file:///y", "offset": "{{ (i|int) * 10 }}", "length": "{{ j + 1 }}", "dimensions": {"i": [1, 2], "j": [0]}}],
}


@pytest.mark.parametrize("name", GENERATORS)
@pytest.mark.parametrize("where", ["with refs", "metadata alone"])
def test_generators_are_those_of_fsspec(name, where, tmp_path):
    refs = document({"a/2.3": ["{{f(c='one', n=2)}}", 7, 9]} if where == "with refs" and name != "steps" else {}, shape=[6, 8], chunks=[2, 2])
    templates = {"u": "file:///e/base", "f": "file:///g/{{c}}-{{n * 2}}.bin"}
    made = {"version": 1, "templates": templates, "gen": GENERATORS[name], "refs": refs}
    expected = by_fsspec(made)
    # Of two references with the same key, fsspec takes the last; virtualize rejects them.
    if name in ("two dimensions", "functions") and where == "with refs":
        run = virtualize("convert", written(tmp_path / "g.json", made), "-f", "kerchunk-json")
        assert run.status == 1 and "there twice" in run.stderr
        return
    assert by_us(written(tmp_path / "g.json", made)) == expected and len(expected) > 2


@pytest.mark.parametrize("made", [
    {"key": "a/{{i}}", "url": "file:///x", "offset": "{{i / 3}}", "length": "1", "dimensions": {"i": [1]}},
    {"key": "a/{{i}}", "url": "file:///x", "offset": "{{i}}", "dimensions": {"i": [1]}},
    {"key": "a/{{i}}", "url": "file:///x", "offset": "-1", "length": "1", "dimensions": {"i": [1]}},
    {"key": "a/{{i}}", "url": "file:///x", "offset": "{{ [1] * 10 ** 9 }}", "length": "1", "dimensions": {"i": [1]}},
    {"key": "a/{{i}}", "url": "{% for k in range(1000000000) %}{% endfor %}", "offset": "1", "length": "1", "dimensions": {"i": [1]}},
    {"key": "a/{{i}}", "url": "file:///x", "offset": "1", "length": "1", "dimensions": {"i": {"stop": 10 ** 12}}},
    {"key": "a/{{i}}", "url": "file:///x", "offset": "1", "length": "1", "dimensions": {"i": {"stop": 9, "step": 0}}},
    {"key": "a/{{i", "url": "file:///x", "offset": "1", "length": "1", "dimensions": {"i": [0]}},
    {"key": "a/{{i}}", "url": "{{ '{:03}'.format(i) }}", "offset": "1", "length": "1", "dimensions": {"i": [0]}},
    {"url": "file:///x", "offset": "1", "length": "1", "dimensions": {"i": [0]}},
    {"key": "a/0", "url": "file:///x", "offset": "1", "length": "1"},
])
def test_generators_that_make_no_sense_are_one_line(made, tmp_path):
    run = virtualize("convert", written(tmp_path / "g.json", {"version": 1, "gen": [made], "refs": document({})}), "-f", "kerchunk-json")
    assert run.status == 1 and run.stderr.startswith("error: ") and run.stderr.count("\n") == 1, run.stderr


SPELLINGS = {
    "version 0": document(),
    "version 1": {"version": 1, "refs": document()},
    "objects": {"version": 1, "refs": document(spell=lambda value: value)},
    "NaN in text": document(fill_value=float("nan")),
    "NaN in objects": {"version": 1, "refs": document(spell=lambda value: value, fill_value=float("nan"), attributes={"v": [1.5, float("-inf")], "text": "NaN \" Infinity"})},
    "templates": {"version": 1, "templates": {"u": "file:///d", "v w": "x"}, "refs": document({"a/0": ["{{u}}/f.bin", 0, 8], "a/1": "{{u}}: as it stands"[:8]})},
    "plain inline": document({"a/0": "\x00\x01aé\x7f", "a/1": "12345678"}),
    "base64": document({"a/0": "base64:AAECAwQFBgc=", "a/1": "base64:"}),
    "templates without use": {"version": 1, "templates": {}, "gen": [], "refs": document()},
    "refs first": '{"refs": ' + json.dumps(document({"a/0": ["{{u}}", 1, 8]})) + ', "templates": {"u": "file:///later"}, "version": 1}',
    "unknown members": {"version": 1, "refs": document(), "made by": {"refs": {"b/0": [1]}}},
    "escapes": json.dumps(document({"a/0": ["file:///d/ü \"q\".bin", 0, 8]})).replace("ü", "\\u00fc"),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_spellings_are_read_as_fsspec_reads_them(name, tmp_path):
    made = SPELLINGS[name]
    path = written(tmp_path / "refs.json", made)
    parsed = json.loads(path.read_text())
    assert by_us(path) == by_fsspec(parsed, simple=True)
    ours, theirs = (zarr.open_array(clients.open_store(refs), path="a", mode="r", zarr_format=2) for refs in (virtualize("convert", path, "-f", "kerchunk-json").references, parsed))
    assert ours.dtype == theirs.dtype and clients.same_bits(np.asarray(theirs.fill_value), np.asarray(ours.fill_value)) is None
    assert {k: clients.plain(v) for k, v in dict(ours.attrs).items()} == {k: clients.plain(v) for k, v in dict(theirs.attrs).items()}


@pytest.mark.parametrize("key", ["00", "+0", " 0", "0x0", "٠", "0.", "-0", "2", "0.0"])
def test_keys_that_no_reader_requests_are_not_chunks(key, tmp_path):
    """zarr-python requests `a/0`, finds nothing and uses the fill value."""
    (tmp_path / "f.bin").write_bytes(np.ones(2, "<f4").tobytes())
    made = document({f"a/{key}": [f"file://{tmp_path}/f.bin", 0, 8]}, fill_value=7)
    assert (zarr.open_array(clients.open_store(made), path="a", mode="r", zarr_format=2)[...] == 7).all()
    run = virtualize("convert", written(tmp_path / "refs.json", made), "-f", "kerchunk-json")
    assert run.status == 0 and ("/", "key-ignored") in run.codes, run.stderr
    assert (zarr.open_array(clients.open_store(run.references), path="a", mode="r", zarr_format=2)[...] == 7).all()


@pytest.mark.parametrize("record_size", [1, 7, 100])
@pytest.mark.parametrize("by", ["refs_to_dataframe", "create"])
def test_parquet_made_by_kerchunk_and_fsspec(by, record_size, tmp_path):
    """Read like fsspec where that is possible: it reads missing chunks as NaN."""
    import kerchunk.df
    from fsspec.implementations.reference import LazyReferenceMapper
    rng = np.random.default_rng(record_size)
    chunks = {f"a/{n}": [f"s3://b/{rng.integers(0, 5)}.nc", int(rng.integers(0, 2 ** 40)), int(rng.integers(1, 2 ** 31))] for n in range(50)}
    chunks.update({f"a/{n}": bytes(rng.integers(0, 256, 8, "u1")) if n % 2 else b"abcdefgh" for n in (3, 4, 20, 49)})
    spelled = {key: value if isinstance(value, list) else "base64:" + base64.b64encode(value).decode() for key, value in chunks.items()}
    refs = document(spelled, shape=[100])
    out = tmp_path / "refs.parquet"
    if by == "refs_to_dataframe":
        out.mkdir()
        kerchunk.df.refs_to_dataframe({"version": 1, "refs": refs}, str(out), record_size=record_size)
    else:
        mapper = LazyReferenceMapper.create(str(out), fs=fsspec.filesystem("file"), record_size=record_size)
        for key, value in refs.items():
            mapper[key] = base64.b64decode(value[7:]) if isinstance(value, str) and value.startswith("base64:") else value
        mapper.flush()
    assert by_us(out) == chunks


D = {"_ARRAY_DIMENSIONS": ["x"]}
#: Two sets, and whether readers see a difference between them.
PAIRS = {
    "order of attributes": (document(attributes={"b": {"p": 1, "q": 2}, "a": 1}), document(attributes={"a": 1, "b": {"q": 2, "p": 1}}), False),
    "NaN, spelled twice": (document(fill_value="NaN"), document(fill_value=float("nan")), False),
    "NaN or nothing": (document(fill_value="NaN"), document(fill_value=None), True),
    "zeros of both signs": (document(fill_value=0.0), document(fill_value=-0.0), True),
    "zeros of both signs in attributes": (document(attributes={"v": [[0.0]]}), document(attributes={"v": [[-0.0]]}), True),
    "whole and fraction, the same type": (document(fill_value=1), document(fill_value=1.0), False),
    "the same float32": (document(fill_value=0.1), document(fill_value=0.10000000149011612), False),
    "next float": (document(attributes={"v": 0.1}), document(attributes={"v": 0.10000000000000002}), True),
    "one float, spelled twice": (json.dumps(document(attributes={"v": 0.1})), json.dumps(document(attributes={"v": 0.1})).replace("0.1", "1e-1"), False),
    "bytes have no order": (document(dtype="|u1"), document(dtype="<u1"), False),
    "byte order": (document(), document(dtype=">f4"), True),
    "large integers": (document(attributes={"v": 2 ** 60}), document(attributes={"v": 2 ** 60 + 1}), True),
    "moved by one": (document(), document({"a/0": ["file:///d/f.bin", 1, 8]}), True),
    "a path and its url": (document(), document({"a/0": ["/d/f.bin", 0, 8]}), False),
    "axes without names": ({k: v for k, v in document().items() if k != "a/.zattrs"}, document(attributes={"_ARRAY_DIMENSIONS": ["a_dim_0"]}), False),
    "no filters": (document(), document(filters=[]), False),
}


@pytest.mark.parametrize("name", PAIRS)
def test_what_is_a_difference(name, tmp_path):
    one, two, differs = PAIRS[name]
    run = virtualize("diff", written(tmp_path / "one.json", one), written(tmp_path / "two.json", two))
    assert (run.status, bool(run.stdout)) == (int(differs), differs), run.stdout.decode() + run.stderr


def test_arrays_that_cannot_be_read_are_not_equal(tmp_path):
    one, two = (written(tmp_path / f"{n}.json", document({"a/0": ["file:///d/f.bin", n, 8]}, dtype="|O", filters=[{"id": "json2"}])) for n in (0, 1))
    run = virtualize("diff", one, two)
    assert run.status == 1 and b"/a: cannot be compared" in run.stdout, run.stdout.decode()


# ---- validate

def test_parquet_has_no_empty_chunk_at_the_start(tmp_path):
    """fsspec interprets offset 0 and size 0 as the whole file."""
    (tmp_path / "f.bin").write_bytes(b"x" * 8)
    refs = written(tmp_path / "refs.json", document({"a/0": [f"file://{tmp_path}/f.bin", 0, 0]}))
    run = virtualize("convert", refs, "-f", "kerchunk-parquet", "-o", tmp_path / "out")
    assert run.status == 1 and "chunk 0 is 0 bytes at offset 0" in run.stderr and not (tmp_path / "out").exists()


@pytest.mark.parametrize("file", ["hdf5/netcdf4.nc", "tiff/gdal_metadata.tif"])
def test_what_was_unpacked_is_valid(file, tmp_path):
    assert virtualize(FIXTURES / file, "-f", "zarr3-json", "--unpack", "-o", tmp_path / "refs.json").status == 0
    validate(tmp_path / "refs.json", "--full")


@pytest.fixture
def days(tmp_path):
    """Writes files that are joined along the first axis, and the references of all."""
    for day in range(3):
        with h5py.File(tmp_path / f"{day}.h5", "w") as f:
            f.create_dataset("t", data=np.arange(12, dtype="<i2").reshape(1, 3, 4) + day * 12, chunks=(1, 3, 4), compression="gzip", shuffle=True)
    run = [virtualize(tmp_path / f"{day}.h5").references["refs"] for day in range(3)]
    zarray = {**json.loads(run[0]["t/.zarray"]), "shape": [3, 3, 4]}
    refs = {".zgroup": '{"zarr_format":2}', "t/.zarray": json.dumps(zarray), "t/.zattrs": '{"_ARRAY_DIMENSIONS":["t","y","x"]}', **{f"t/{day}.0.0": run[day]["t/0.0.0"] for day in range(3)}}
    return written(tmp_path / "all.json", refs)


@pytest.mark.parametrize("change, word", [
    ({}, ""),
    ({"dtype": "<u2"}, "data type is uint16, a direct read of the source says int16"),
    ({"dtype": ">i2"}, "byte order is Big"),
    ({"filters": None}, "its values differ from those of a direct read"),
    ({"order": "F"}, "its values differ from those of a direct read"),
])
def test_metadata_of_joined_files_is_compared(days, change, word):
    refs = json.loads(days.read_text())
    zarray = {**json.loads(refs["t/.zarray"]), **change}
    written(days, {**refs, "t/.zarray": json.dumps(zarray)})
    store = zarr.open_array(clients.open_store(json.loads(days.read_text())), path="t", mode="r", zarr_format=2)
    is_right = np.array_equal(store[...], np.arange(36).reshape(3, 3, 4)) and store.dtype == np.dtype("<i2")
    assert is_right == (not change)
    report = validate(days, "--full", status=int(bool(change)))
    assert word in str(reported(report)), reported(report)


def test_an_order_that_is_wrong_is_found(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.create_dataset("v", data=np.arange(24).reshape(4, 6), chunks=(2, 3), compression="gzip")
    refs = virtualize(tmp_path / "a.h5").references["refs"]
    refs["v/.zarray"] = json.dumps({**json.loads(refs["v/.zarray"]), "order": "F"})
    assert "its values differ" in str(reported(validate(written(tmp_path / "refs.json", refs), status=1)))


def test_chunks_of_another_size_are_matched_by_places(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.create_dataset("v", data=np.arange(24, dtype="<i4"), chunks=(6,))
    refs = virtualize(tmp_path / "a.h5").references["refs"]
    places = [refs.pop(f"v/{n}") for n in range(4)]
    zarray = {**json.loads(refs["v/.zarray"]), "chunks": [3]}
    halves = {f"v/{n}": [places[n // 2][0], places[n // 2][1] + n % 2 * 12, 12] for n in range(8)}
    validate(written(tmp_path / "refs.json", {**refs, "v/.zarray": json.dumps(zarray), **halves}), "--full")
    # One that extends into the next chunk, or beyond the end of the file.
    wrong = {**halves, "v/7": [places[3][0], places[3][1] + 20, 12]}
    assert "is not a chunk of the source" in str(reported(validate(written(tmp_path / "refs.json", {**refs, "v/.zarray": json.dumps(zarray), **wrong}), status=1)))


def test_text_is_compared_decoded(tmp_path):
    """Text with another compression is equal; other text is not."""
    import numcodecs
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["v"] = np.array(["ä", "", "long text " * 20], dtype=object)
    refs = virtualize(tmp_path / "a.h5").references["refs"]
    zarray = {**json.loads(refs["v/.zarray"]), "compressor": {"id": "zlib", "level": 9}}
    def stored(*texts):
        chunk = numcodecs.Zlib(9).encode(numcodecs.VLenUTF8().encode(np.array(texts, dtype=object)))
        return {**refs, "v/.zarray": json.dumps(zarray), "v/0": "base64:" + base64.b64encode(chunk).decode()}
    with h5py.File(tmp_path / "a.h5", "a") as f:
        f["n"] = np.arange(3)  # a reference, so that there is a source
    more = {key: value for key, value in virtualize(tmp_path / "a.h5").references["refs"].items() if key.startswith("n/")}
    validate(written(tmp_path / "refs.json", {**stored("ä", "", "long text " * 20), **more}), "--full")
    found = reported(validate(written(tmp_path / "refs.json", {**stored("ä", "", "long text " * 19 + "lung text "), **more}), "--full", status=1))
    assert "its values differ" in str(found["v"])


def test_samples_are_the_same_every_time(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.create_dataset("v", data=np.arange(1000), chunks=(10,), compression="gzip")
    assert virtualize(tmp_path / "a.h5", "-o", tmp_path / "refs.json").status == 0
    one, two = (validate(tmp_path / "refs.json", "--sample", "7") for _ in range(2))
    assert one == two and 5 <= one["arrays"][0]["decoded"] <= 7
    assert validate(tmp_path / "refs.json", "--sample", "0")["arrays"][0]["decoded"] == 0
    assert validate(tmp_path / "refs.json", "--sample", "1000000")["arrays"][0]["decoded"] == 100


# ---- shards, and chunks of several sizes

def test_the_chunks_of_shards_go_through_every_format(tmp_path):
    z = zarr.create_array(tmp_path / "z/a", shape=(8, 8), shards=(4, 4), chunks=(2, 2), dtype="i4")
    z[...] = np.arange(64).reshape(8, 8)
    refs = {"zarr.json": '{"zarr_format":3,"node_type":"group","attributes":{}}', "a/zarr.json": (tmp_path / "z/a/zarr.json").read_text()}
    for chunk in (path for path in (tmp_path / "z/a/c").rglob("*") if path.is_file()):
        refs[f"a/{chunk.relative_to(tmp_path / 'z/a')}"] = [f"file://{chunk}", 0, chunk.stat().st_size]
    source = written(tmp_path / "refs.json", refs)
    for form in ("zarr3-json", "zarr3", "icechunk", "kerchunk-json"):
        out = tmp_path / form
        assert virtualize("convert", source, "-f", form, "-o", out).status == 0
        back = virtualize("convert", out, "-f", "zarr3-json")
        assert (zarr.open_array(clients.open_store(back.references), path="a", mode="r")[...] == z[...]).all(), form
        compared = virtualize("diff", source, out)
        assert compared.status == 0, (form, compared.stdout.decode())


def test_chunks_of_several_sizes_go_through_every_format_that_has_them(tmp_path):
    source = tmp_path / "refs.json"
    assert virtualize(FIXTURES / "tiff/short_last_strip.tif", "-f", "zarr3-json", "--chunk-grid", "rectilinear", "-o", source).status == 0
    for form in ("zarr3-json", "zarr3", "icechunk"):
        assert virtualize("convert", source, "-f", form, "-o", tmp_path / form).status == 0
        compared = virtualize("diff", tmp_path / form, source)
        assert compared.status == 0, (form, compared.stdout.decode())
    run = virtualize("convert", source, "-f", "kerchunk-json")
    assert ("/band_data", "array-omitted") in run.codes
