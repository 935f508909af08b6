"""Random reference sets, converted through all formats and back: clients must find the original content in each."""
import base64, itertools, json, os, random

import clients
import fsspec
import numpy as np
import pytest
import zarr
from clients import virtualize

pytestmark = pytest.mark.slow

FORMATS = ["kerchunk-json", "kerchunk-parquet", "zarr3-json", "zarr3", "icechunk"]
NAMES = ["a", "b c", "ü", "日本", "a.b", "..x", "quote\"s", "it's", "semi;colon", "a+b", "A", "x" * 60, "c", "0", "refs.0.parq", "zarr.json2", "{{u}}"]
#: Names that kerchunk's Parquet layout cannot represent.
HARD = ["a%20b", "50%", "a#b", "a?b", ".zoo"]
DTYPES = ["|u1", "<i2", ">i4", "<i8", "<f4", ">f8", "<f2", "|b1", "<c8", "|S3", "<u8", "<M8[s]", ">m8[10us]"]


class Made:
    """Returns a reference set and the content of each chunk: bytes, or [url, offset, length]."""

    def __init__(self, seed, folder, hard=False, far=False):
        self.random, self.folder, self.far = random.Random(seed), folder, far
        self.names = NAMES + HARD * hard
        self.refs, self.chunks, self.arrays = {".zgroup": '{"zarr_format":2}', ".zattrs": json.dumps({"title": "ü \"q\" \\ \n", "n": [1, 2.5, None, True]})}, {}, {}
        self.files = self.make_files()
        for path in self.make_groups():
            for name in self.random.sample(self.names, self.random.randint(0 if path else 1, 3)):
                if not any(known == path + name or known.startswith(f"{path}{name}/") for known in [*self.arrays, *self.groups]):
                    self.make_array(path + name)

    def make_files(self):
        names = ["plain.bin", "with space.bin", "p%20q.bin", "ü€.bin", "a+b&c=d.bin", "#hash?.bin", *(f"part-{n:03}.bin" for n in range(self.random.choice([0, 3, 40])))]
        files = []
        for name in names:
            data = self.random.randbytes(4096)
            (self.folder / name).write_bytes(data)
            files.append((f"file://{self.folder}/{name}", data))
        return files

    def make_groups(self):
        self.groups = {""}
        for _ in range(self.random.randint(0, 3)):
            parent = self.random.choice(sorted(self.groups))
            self.groups.add(f"{parent}{self.random.choice(self.names)}/")
        for group in self.groups - {""}:
            self.refs[f"{group}.zgroup"] = '{"zarr_format":2}'
            if self.random.random() < 0.5:
                self.refs[f"{group}.zattrs"] = json.dumps({"of": group})
        return sorted(self.groups)

    def make_array(self, path):
        pick, dtype = self.random, np.dtype(self.random.choice(DTYPES))
        rank = pick.choice([0, 1, 1, 2, 2, 3])
        shape = [pick.choice([0, 1, 3, 7, 10]) for _ in range(rank)]
        chunks = [pick.choice([1, 2, max(1, n)]) for n in shape]
        fill = pick.choice([None, 0, 1] + ["NaN", "Infinity", -1.5] * (dtype.kind == "f"))
        fill = {"b": fill if fill is None else bool(fill), "c": None, "S": None}.get(dtype.kind, fill)
        self.refs[f"{path}/.zarray"] = json.dumps({"zarr_format": 2, "shape": shape, "chunks": chunks, "dtype": dtype.str, "fill_value": fill, "order": "C", "filters": None, "compressor": None})
        dimensions = [f"{path}_{n}" for n in range(rank)]
        self.refs[f"{path}/.zattrs"] = json.dumps({"_ARRAY_DIMENSIONS": dimensions, "units": pick.choice(["K", "°C", ""]), "x\"y": [1.5, -0.0]})
        size = int(np.prod(chunks, dtype=int)) * dtype.itemsize
        style = pick.choice(["virtual", "inline", "mixed", "mixed", "none"])
        here = self.arrays[path] = {}
        for index in itertools.product(*(range(-(-n // c)) for n, c in zip(shape, chunks))):
            kind = style if style != "mixed" else pick.choice(["virtual", "inline", "none", "virtual"])
            if kind != "none":
                key = ".".join(map(str, index)) or "0"
                here[index] = self.make_chunk(kind, size)
                self.refs[f"{path}/{key}"] = spelled(here[index], pick)

    def make_chunk(self, kind, size):
        pick = self.random
        if kind == "inline":
            return pick.choice([pick.randbytes(size), b"a" * size, b"base64:"[:size].ljust(size, b"A")])
        url, data = pick.choice(self.files)
        if self.far and pick.random() < 0.5:
            return [pick.choice([url, "s3://bucket/a b/%20/ü.nc", "https://host/a%20b.nc"]), pick.choice([2**32, 2**32 + 1, 2**53 + 1, 2**62, 1]), pick.choice([size, 0, 2**32 - 1])]
        return [url, pick.randint(0 if size else 1, len(data) - size), size]

    def write(self, path, version=1):
        path.write_text(json.dumps({"version": 1, "refs": self.refs} if version else self.refs))
        return path

    def stored(self, entry):
        """Returns the bytes of a reference."""
        if isinstance(entry, bytes):
            return entry
        url, offset, length = entry
        return dict(self.files)[url][offset:offset + length]


def spelled(entry, pick):
    if isinstance(entry, list):
        return entry
    try:
        text = entry.decode("ascii")
        if not text.startswith("base64:") and text.isprintable() and pick.random() < 0.7:
            return text
    except UnicodeDecodeError:
        pass
    return "base64:" + base64.b64encode(entry).decode()


def entry_of(value):
    return value if isinstance(value, list) else base64.b64decode(value[7:]) if value.startswith("base64:") else value.encode()


def found_in(out, form, made):
    """Returns what clients find: {array: {index: entry}}."""
    if form == "icechunk":
        return found_in_icechunk(out, made)
    if form == "kerchunk-parquet":
        lazy = fsspec.filesystem("reference", fo=str(out), remote_protocol="file", skip_instance_cache=True).references
        def get(key):
            value = lazy[key]
            # As ReferenceFileSystem interprets the entries of this mapper.
            return entry_of(value.decode("latin-1")) if bytes == type(value) and value.startswith(b"base64:") else value if isinstance(value, bytes) else [str(value[0]), *map(int, value[1:])]
    else:
        # As fsspec interprets the document.
        path = out / "references.json" if form == "zarr3" else out
        refs = json.loads(path.read_text())["refs"]
        get = lambda key: entry_of(refs[key])
    found = {}
    for path in made.arrays:
        zarray = json.loads(made.refs[f"{path}/.zarray"])
        found[path] = {}
        for index in itertools.product(*(range(-(-n // c)) for n, c in zip(zarray["shape"], zarray["chunks"]))):
            text = [*map(str, index)]
            key = f"{path}/{'/'.join(['c', *text])}" if "zarr3" in form else f"{path}/{'.'.join(text) or '0'}"
            try:
                found[path][index] = get(key)
            except KeyError:
                pass
    return found


def session_of(out):
    import icechunk
    storage = icechunk.local_filesystem_storage(str(out))
    config = icechunk.Repository.fetch_config(storage)
    containers = {prefix: icechunk.Credentials.LocalFileSystemAccess() for prefix in (config and config.virtual_chunk_containers) or {}}
    return icechunk.Repository.open(storage, authorize_virtual_chunk_access=containers).readonly_session("main")


def found_in_icechunk(out, made):
    import asyncio
    session = session_of(out)
    async def chunks(path):
        found = {}
        async for index in session.chunk_coordinates(f"/{path}"):
            index = tuple(index)
            key = "/".join([path, "c", *map(str, index)])
            found[index] = (await session.store.get(key, prototype=zarr.core.buffer.default_buffer_prototype())).to_bytes()
        return found
    return {path: asyncio.run(chunks(path)) for path in made.arrays}


def converted(source, form, out):
    run = virtualize("convert", source, "-f", form, "-o", out)
    return out, run


@pytest.mark.parametrize("seed", clients.seeds("ROUND_TRIPS", 12, 12))
def test_every_way_and_back(seed, tmp_path):
    made = Made(seed, tmp_path)
    source = made.write(tmp_path / "made.json", seed % 2)
    first, outs = {}, random.Random(seed)
    for form in FORMATS:
        out, run = converted(source, form, tmp_path / f"1-{form}")
        assert run.status == 0, (form, run.stderr)
        expected = made.arrays if form != "icechunk" else {path: {index: made.stored(entry) for index, entry in chunks.items()} for path, chunks in made.arrays.items()}
        found = found_in(out, form, made)
        assert found == expected, form
        first[form] = out
        back, run = converted(out, "kerchunk-json", tmp_path / f"2-{form}")
        assert run.status == 0, (form, run.stderr)
        compared = virtualize("diff", source, back)
        assert compared.status == 0, (form, compared.stdout.decode(), compared.stderr)
    one, two = outs.sample(FORMATS, 2)
    out, run = converted(first[one], two, tmp_path / "last")
    assert run.status == 0, (one, two, run.stderr)
    compared = virtualize("diff", out, source)
    assert compared.status == 0, (one, two, compared.stdout.decode())
    values(made, first)


def values(made, outs):
    """zarr-python reads the same values, attributes and fill values from each."""
    def arrays(form):
        if form == "icechunk":
            return session_of(outs[form]).store, 3
        path = outs[form] / "references.json" if form == "zarr3" else outs[form]
        return clients.open_store(str(path) if form == "kerchunk-parquet" else json.loads(path.read_text())), 2 if form.startswith("kerchunk") else 3
    stores = {form: arrays(form) for form in outs}
    for path in made.arrays:
        one = None
        for form, (store, version) in stores.items():
            array = zarr.open_array(store, path=path, mode="r", zarr_format=version)
            got = array[...]
            one = got if one is None else one
            assert clients.same_bits(one, got) is None, (path, form)
            names = array.attrs.get("_ARRAY_DIMENSIONS", []) if version == 2 else list(array.metadata.dimension_names or [])
            assert names == [f"{path}_{n}" for n in range(array.ndim)] and array.attrs["units"] == json.loads(made.refs[f"{path}/.zattrs"])["units"], (path, form)


@pytest.mark.parametrize("seed", range(100, 100 + int(os.environ.get("ROUND_TRIPS", "12"))))
def test_far_places_and_hard_names(seed, tmp_path):
    """Offsets over 2³² and 2⁵³, lengths of 0, names with `%`: preserved, or rejected with a reason."""
    made = Made(seed, tmp_path, hard=seed % 2, far=True)
    source = made.write(tmp_path / "made.json")
    for form in FORMATS[:4]:
        out, run = converted(source, form, tmp_path / f"1-{form}")
        if form == "kerchunk-parquet" and run.status:
            hard = any(any(part in HARD for part in path.split("/")) for path in [*made.arrays, *made.groups])
            empty = any(entry[1:] == [0, 0] for chunks in made.arrays.values() for entry in chunks.values() if isinstance(entry, list))
            assert (hard or empty) and run.status == 1 and run.stderr.count("\n") == 1, run.stderr
            continue
        assert run.status == 0, (form, run.stderr)
        assert found_in(out, form, made) == made.arrays, form
        back, run = converted(out, "kerchunk-json", tmp_path / f"2-{form}")
        assert run.status == 0, (form, run.stderr)
        compared = virtualize("diff", source, back)
        assert compared.status == 0, (form, compared.stdout.decode())
