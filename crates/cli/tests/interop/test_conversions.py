"""Files mapped in one format and converted to another: equal to files mapped in the other, valid, and unchanged after converting back. More of them:
CONVERSIONS=400."""
import hashlib, json, os, pathlib, random

import clients
import pytest
from clients import FIXTURES, ROOT, nodes, same_bits, virtualize
from conversion_files import hdf5_file, tiff_file

MORE = int(os.environ.get("CONVERSIONS", "0"))
V2, V3 = ["kerchunk-json", "kerchunk-parquet"], ["zarr3-json", "zarr3", "icechunk"]
FILES = sorted(p for kind in ("hdf5", "tiff") for p in (FIXTURES / kind).iterdir() if p.suffix in (".h5", ".nc", ".tif"))
CORPUS = pathlib.Path(os.environ.get("CORPUS", ROOT / "target/benchmarks/corpus"))
#: Features that the other Zarr format cannot represent. These arrays change in a conversion, and convert reports them.
LOST = ["order in which they are stored", "Zarr v3 has none for bytes", "Blosc 2", "without masking it", "re-encoded"]
#: The corresponding messages of diff.
NAMED = ["order of axes", "re-encoded", "cannot be compared"]


class Conversions:
    def __init__(self, file, folder, seed):
        self.file, self.folder, self.random = file, folder, random.Random(seed)
        self.lost, self.problems, self.number = {}, [], 0

    def run(self, *arguments):
        return virtualize(*arguments)

    def write(self, first, *arguments):
        """Writes references, if they are not rejected."""
        self.number += 1
        out = self.folder / f"{self.number}{'.json' if arguments[1].endswith('json') else ''}"
        run = self.run(*first, *arguments, "-o", out)
        for line in run.stderr.splitlines():
            if "[array-" in line and first[0] == "convert":
                self.lost.setdefault(line.split(": ")[2] if ": /" in line else "", line)
        return out if run.status == 0 else None

    def same(self, one, other, what):
        for line in self.run("diff", one, other).stdout.decode().splitlines():
            named = any(name in line for name in NAMED)
            path = line.split(": ")[0]
            if "re-encoded" in line:
                self.lost[path] = line
            reason = self.lost.get(path, "")
            # Inlined arrays are compressed in references, but not in Icechunk repositories.
            compressed = "icechunk" in what and ('"level":6' in line or "bytes inline" in line)
            if not named and not compressed and not any(lost in reason for lost in LOST):
                self.problems.append(f"{self.file.name}: {what}: {line[:300]}")

    def valid(self, references, what):
        run = self.run("validate", references, "--full", "--json")
        if run.status:
            report = json.loads(run.stdout) if run.stdout else {"arrays": [], "sources": []}
            reported = [(one["name"], one["listed"][:2]) for kind in ("arrays", "sources") for one in report[kind] if one["listed"]]
            self.problems.append(f"{self.file.name}: {what}: {reported} {run.stderr[:200]}")

    def check(self):
        first, second = self.random.choice(V2), self.random.choice(V3)
        if self.random.random() < 0.5:
            first, second = second, first
        direct = {form: self.write([self.file], "-f", form) for form in (first, second)}
        if not direct[first]:
            return self.problems
        self.valid(direct[first], f"{first} is not valid")
        if direct[second]:
            self.same(direct[first], direct[second], f"{first} differs from {second}")
        converted = self.write(["convert", direct[first]], "-f", second)
        if not converted:
            if not any(lost in reason for lost in LOST for reason in self.lost.values()):
                self.problems.append(f"{self.file.name}: {first} to {second} is refused: {self.lost}")
            return self.problems
        unexpected = [line for line in self.lost.values() if not any(lost in line for lost in LOST)]
        self.problems += [f"{self.file.name}: {first} to {second}: {line}" for line in unexpected]
        self.valid(converted, f"{first} to {second} is not valid")
        self.same(direct[first], converted, f"{first} differs from what it is in {second}")
        if direct[second]:
            self.same(converted, direct[second], f"{first} to {second} differs from {second}")
        back = self.write(["convert", converted], "-f", first)
        self.valid(back, f"{first} to {second} and back is not valid")
        self.same(back, direct[first], f"{first} to {second} and back differs")
        return self.problems


def checked(files, folder, seed):
    problems = []
    for number, file in enumerate(files):
        place = folder / str(number)
        place.mkdir()
        problems += Conversions(file, place, f"{seed} {file.name}").check()
    clients.report(problems)


def chosen(files, count, seed=0):
    """A few of the files, or as many as requested."""
    files = sorted(files, key=lambda p: hashlib.md5(f"{seed}{p.name}".encode()).hexdigest())
    return files[:max(count, MORE)]


@pytest.mark.parametrize("part", range(3))
def test_fixtures(part, tmp_path):
    checked(chosen(FILES, 24)[part::3], tmp_path, MORE)


@pytest.mark.skipif(not CORPUS.exists(), reason="`make score` fetches the public files")
def test_corpus(tmp_path):
    suffixes = (".h5", ".hdf5", ".nc", ".nc4", ".he5", ".tif", ".tiff")
    files = [p for p in CORPUS.rglob("*") if p.suffix in suffixes and p.stat().st_size < 1 << 20]
    checked(chosen(files, 12), tmp_path, MORE)


@pytest.mark.parametrize("seed", range(max(4, MORE)))
def test_random_files(seed, tmp_path):
    pick = random.Random(seed)
    hdf5_file(tmp_path / "a.h5", pick), tiff_file(tmp_path / "b.tif", pick)
    for file in (tmp_path / "a.h5", tmp_path / "b.tif"):
        values(file, tmp_path)
    checked([tmp_path / "a.h5", tmp_path / "b.tif"], tmp_path, seed)


def values(file, folder):
    """zarr-python reads converted references like those mapped from the file, with transposed axes matched by name."""
    import numpy as np
    import zarr
    for first, then, version in (("kerchunk-json", "zarr3-json", 3), ("zarr3-json", "kerchunk-json", 2)):
        direct = virtualize(file, "-f", first, "-o", folder / "direct.json")
        if direct.status:
            continue
        run = virtualize("convert", folder / "direct.json", "-f", then)
        assert run.status == 0, run.stderr
        original = json.loads((folder / "direct.json").read_text())
        stores = clients.open_store(original), clients.open_store(run.references)
        for path, kind in nodes(run.references, version).items():
            if kind == "array":
                one, other = (zarr.open_array(store, path=path, mode="r", zarr_format=form) for store, form in zip(stores, (5 - version, version)))
                axes = [axes_of(array) for array in (one, other)]
                there = np.asarray(other[...])
                there = there if axes[0] == axes[1] else there.transpose([axes[1].index(name) for name in axes[0]])
                assert same_bits(np.asarray(one[...]), there) is None, (file.name, first, path)


def axes_of(array):
    return list(array.attrs["_ARRAY_DIMENSIONS"] if array.metadata.zarr_format == 2 else array.metadata.dimension_names)


@pytest.mark.parametrize("dtype", [[("a", ">f8"), ("b", ">i4")], [("a", ">f8"), ("b", "<i4")], [("p", [("x", ">f4"), ("y", "<i2")]), ("s", "S3")]], ids=str)
def test_structures_of_both_byte_orders(dtype, tmp_path):
    import h5py
    import numpy as np
    import zarr
    truth = np.frombuffer(np.random.default_rng(5).bytes(7 * np.dtype(dtype).itemsize), dtype)
    with h5py.File(tmp_path / "s.h5", "w") as f:
        f.create_dataset("s", data=truth, chunks=(3,), compression="gzip")
    for first, then, version in (("kerchunk-json", "zarr3-json", 3), ("zarr3-json", "kerchunk-json", 2)):
        if virtualize(tmp_path / "s.h5", "-f", first, "-o", tmp_path / "a.json").status:
            continue
        assert virtualize("convert", tmp_path / "a.json", "-f", then, "-o", tmp_path / "b.json").status == 0
        for references in ("a.json", "b.json"):
            assert virtualize("validate", tmp_path / references, "--full").status == 0
        store = clients.open_store(json.loads((tmp_path / "b.json").read_text()))
        assert same_bits(truth, zarr.open_array(store, path="s", mode="r", zarr_format=version)[...]) is None


@pytest.mark.parametrize("shape", [(6,), (5,)])
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_missing_chunks_that_read_as_another_value(shape, compression, tmp_path):
    """Zarr v3 has the fill value, Zarr v2 has chunks full of it, also where they exceed the array."""
    import h5py
    with h5py.File(tmp_path / "f.h5", "w") as f:
        v = f.create_dataset("v", shape, "i4", chunks=(2,), fillvalue=7, compression=compression)
        v[:2] = [1, 2]
    v2, v3, to_v3, to_v2 = (tmp_path / name for name in ("2.json", "3.json", "to3.json", "to2.json"))
    assert virtualize(tmp_path / "f.h5", "-f", "kerchunk-json", "-o", v2).status == 0
    assert virtualize(tmp_path / "f.h5", "-f", "zarr3-json", "-o", v3).status == 0
    assert virtualize("convert", v2, "-f", "zarr3-json", "-o", to_v3).status == 0
    assert virtualize("convert", v3, "-f", "kerchunk-json", "-o", to_v2).status == 0
    assert json.loads(to_v2.read_text()) == json.loads(v2.read_text())
    for one in (v2, v3, to_v3, to_v2):
        assert virtualize("validate", one, "--full").status == 0
        for other in (v2, v3):
            run = virtualize("diff", one, other)
            assert run.status == 0, run.stdout.decode()
    document = json.loads(v3.read_text())
    zarr_json = json.loads(document["refs"]["v/zarr.json"])
    document["refs"]["v/zarr.json"] = json.dumps({**zarr_json, "fill_value": 8})
    v3.write_text(json.dumps(document))
    assert virtualize("validate", v3, "--full").status == 1
    for other in (v2, to_v3, to_v2):
        assert virtualize("diff", v3, other).status == 1


@pytest.mark.parametrize("compression", ["jpegxr", "zstd"])
def test_codecs_of_tiff(compression, tmp_path):
    """Codecs that the mapping can write in Zarr v3 are also written by convert."""
    import numpy as np
    import tifffile
    tifffile.imwrite(tmp_path / "x.tif", np.arange(16 * 48, dtype="u1").reshape(16, 16, 3), photometric="rgb", compression=compression, tile=(16, 16), metadata=None)
    values(tmp_path / "x.tif", tmp_path)
    checked([tmp_path / "x.tif"], tmp_path, 0)


@pytest.mark.parametrize("dtype", [">f4", "<f4", ">f8"])
def test_quantized_numbers_of_any_byte_order(dtype, tmp_path):
    import numcodecs
    import numpy as np
    import zarr
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=2)
    array = group.create_array("v", shape=(4,), chunks=(2,), dtype=dtype, filters=[numcodecs.Quantize(2, dtype)], compressors=numcodecs.Zlib(1))
    array[...] = np.array([22.6, 1, 2, 3], dtype)
    assert virtualize("convert", tmp_path / "a.zarr", "-f", "zarr3-json", "-o", tmp_path / "a.json").status == 0
    store = clients.open_store(json.loads((tmp_path / "a.json").read_text()))
    assert zarr.open_array(store, path="v", mode="r", zarr_format=3)[...].tolist() == array[...].tolist()
