"""Reader compatibility: `inspect --json` states for every array of fixtures/ which released readers decode it. Here these readers read the references:
supported arrays must have the values that zarr-python with all codecs reads; unsupported ones must fail or have wrong values. docs/readers.md
contains the table of codecs that this test computes."""
import base64, collections, json, pathlib, re, subprocess, sys

import numpy as np, pytest

import clients
from clients import FIXTURES, FORMATS, ROOT

pytestmark = pytest.mark.slow

PEERS = pathlib.Path(__file__).parent / "peers"
ENV = pathlib.Path(sys.prefix)
READERS = ["zarr-python", "zarrs", "zarrita", "gdal"]
# References next to those of each fixture, in both formats.
EXTRA = [
    ("tiff/short_last_strip.tif", "zarr3-json", "--chunk-grid", "rectilinear"),
    ("tiff/gdal_metadata.tif", "zarr3-json", "--unpack"),
    ("hdf5/netcdf4.nc", "zarr3-json", "--unpack"),
    ("hdf5/chunked.h5", "zarr3-json", "--unpack"),
]


class Array:
    """An array of a reference file, with the statement about it."""

    def __init__(self, file, path, fmt, described):
        self.file, self.path, self.fmt, self.described = str(file), path, fmt, described
        self.readers, self.shape = described["readers"], described["shape"]

    key = property(lambda self: (self.file, self.path))

    @property
    def codecs(self):
        names = [codec.get("id") or codec["name"] for codec in self.described["codecs"]]
        return [name for name in names if name != "bytes"]

    @property
    def kind(self):
        """Properties on which the statement can depend: a slow reader need not read all arrays with the same ones."""
        d = self.described
        some = d["chunks"]["stored"] < d["chunks"]["count"]
        return json.dumps([self.fmt, d["data_type"], d["codecs"], d["fill_value"], some, len(d["shape"]), 0 in d["shape"], self.readers])


def arrays_of(node, path=""):
    for name, child in node["children"].items():
        at = f"{path}/{name}".lstrip("/")
        yield from [(at, child)] if child["node"] == "array" else arrays_of(child, at)


@pytest.fixture(scope="module")
def arrays(tmp_path_factory):
    """Maps all arrays of all fixtures to both formats."""
    return mapped(tmp_path_factory.mktemp("references"), EXTRA)


@pytest.fixture(scope="module")
def readable(tmp_path_factory):
    """The same with `--readable-by` for all readers."""
    return mapped(tmp_path_factory.mktemp("readable"), [], "--readable-by", ",".join(READERS))


def mapped(folder, extra, *wanted):
    files = [path for kind in ("hdf5", "tiff") for path in sorted((FIXTURES / kind).iterdir()) if path.suffix not in (".json", ".py", ".md")]
    runs = [(path, fmt) for fmt in FORMATS for path in files] + [(FIXTURES / name, *rest) for name, *rest in extra]
    found = []
    for path, fmt, *options in runs:
        options += wanted
        out = folder / f"{path.name}.{fmt}{'.'.join(o.strip('-') for o in options if not wanted)}.json"
        if clients.virtualize(path, "--format", fmt, *options, "-o", out).status:
            continue
        described = clients.virtualize("inspect", path, "--json", "--format", fmt, *options)
        found += [Array(out, at, fmt, array) for at, array in arrays_of(json.loads(described.stdout)["root"])]
    return found


def lines(command, **options):
    done = subprocess.run([*map(str, command)], capture_output=True, **options)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return {(line["references"], line["array"]): line for line in map(json.loads, done.stdout.splitlines())}


def values(line):
    return None if "error" in line else (line.get("values"), line.get("texts"))


@pytest.fixture(scope="module")
def files(arrays):
    return list(dict.fromkeys(array.file for array in arrays))


@pytest.fixture(scope="module")
def truth(files):
    """Reads values with zarr-python and all codecs; other tests compare them with the original files."""
    return lines([sys.executable, PEERS / "zarr_python.py", "--imagecodecs", *files])


def compare(arrays, truth, read, reader, reads):
    """Returns whether this reader is stated to read the array."""
    problems = []
    for array in arrays:
        if array.key not in read:
            continue
        expected, got = values(truth[array.key]), values(read[array.key])
        claim, equal = array.readers[reader], got is not None and got == expected
        if equal != reads(claim):
            what = "equal" if equal else read[array.key].get("error", "other values")[:150]
            problems.append(f"{pathlib.Path(array.file).name}: {array.path}: claimed {json.dumps(claim)}, found {what}")
    assert read
    clients.report(problems)
    return {array.key: values(read[array.key]) == values(truth[array.key]) for array in arrays if array.key in read}


def says_yes(claim):
    return claim["reads"] == "yes"


def zarrs_peer():
    """Builds the reader that uses zarrs."""
    target = ROOT / "target" / "peers"
    subprocess.run(["cargo", "build", "--quiet", "--locked", "--manifest-path", PEERS / "zarrs" / "Cargo.toml", "--target-dir", target], check=True)
    return target / "debug" / "peer-zarrs"


def zarrita(*arguments):
    # From standard input, so that packages are resolved in the working folder.
    return lines([clients.NODE, "--input-type=module", "-", *arguments], cwd=ENV / "zarrita", stdin=(PEERS / "zarrita" / "read.mjs").open())


def test_zarr_python_with_all_codecs_opens_what_is_declared(arrays, truth):
    compare(arrays, truth, truth, "zarr-python", says_yes)


def test_zarr_python_without_imagecodecs(arrays, truth, files):
    read = lines([sys.executable, PEERS / "zarr_python.py", *files])
    compare(arrays, truth, read, "zarr-python", lambda claim: says_yes(claim) and "imagecodecs" not in claim.get("needs", []))


def test_zarr_python_names_of_numcodecs(arrays):
    """zarr-python depends on numcodecs, so the names of codecs show which arrays need it."""
    for array in arrays:
        named = array.fmt == "zarr3-json" and any(name.startswith("numcodecs.") for name in array.codecs)
        assert named == ("numcodecs" in array.readers["zarr-python"].get("needs", [])), array.key


def test_zarrs(arrays, truth, files):
    compare(arrays, truth, lines([zarrs_peer(), *files]), "zarrs", says_yes)


def test_zarrita(arrays, truth, files):
    read = zarrita(*files)
    float16 = subprocess.run([clients.NODE, "-p", "typeof Float16Array"], capture_output=True, text=True).stdout.strip() == "function"
    # Byte strings are returned as text, which is not equal.
    bytes_as_text = [key for key, line in read.items() if "texts" in line and "values" in truth[key]]
    read = {key: line for key, line in read.items() if key not in bytes_as_text}
    compare(arrays, truth, read, "zarrita", lambda claim: says_yes(claim) and (float16 or "Float16Array" not in claim.get("needs", [])))


def gdal(arrays):
    """GDAL opens the references again for every array, so one of each kind is enough."""
    some = list({array.kind: array for array in arrays}.values())
    requested = "".join(json.dumps({"references": a.file, "array": a.path, "shape": a.shape}) + "\n" for a in some)
    return lines([sys.executable, PEERS / "gdal.py"], input=requested.encode())


def test_gdal(arrays, truth):
    compare(arrays, truth, gdal(arrays), "gdal", says_yes)


def in_order(array, line, dimensions):
    """Transposes elements to this order of axes."""
    if "values" not in line or array.described["dimensions"] == dimensions:
        return values(line)
    stored = base64.b64decode(line["values"])
    elements = np.frombuffer(stored, "u1").reshape(*array.shape, -1)
    order = [array.described["dimensions"].index(name) for name in dimensions]
    return base64.b64encode(elements.transpose(*order, len(order)).tobytes()).decode(), None


def test_readable_by_all(arrays, truth, readable):
    """The remaining arrays are read by all readers, with the values of references made for zarr-python."""
    files = list(dict.fromkeys(array.file for array in readable))
    peers = {"zarr-python": lines([sys.executable, PEERS / "zarr_python.py", *files]), "zarrs": lines([zarrs_peer(), *files]),
             "zarrita": zarrita(*files), "gdal": gdal(readable)}
    usual = {(pathlib.Path(array.file).name, array.path): array for array in arrays}
    problems = []
    for array in readable:
        name = pathlib.Path(array.file).name, array.path
        expected = in_order(usual[name], truth[usual[name].key], array.described["dimensions"])
        for reader, read in peers.items():
            if (line := read.get(array.key)) and values(line) != expected and not (reader == "gdal" and not array.shape):
                problems.append(f"{name}: {reader}: {line.get('error', 'other values')[:150]}")
    clients.report(problems)
    adapted = {array.key[1] for array in readable if array.described["codecs"] != usual[pathlib.Path(array.file).name, array.path].described["codecs"]}
    assert adapted and len(readable) > len(arrays) / 2


def cell(claims):
    """Returns the entry of the table for a codec and a reader: whether any array with the codec is read, and with which package."""
    needs = [frozenset(claim.get("needs", [])) for claim in claims if says_yes(claim)]
    if not needs:
        return "no"
    return " ".join(["yes", *(f"+ {need}" for need in sorted(frozenset.intersection(*needs)))])


def test_the_table_of_codecs(arrays):
    """docs/readers.md states for each codec what the statements imply, which the tests above verify."""
    claims = collections.defaultdict(lambda: collections.defaultdict(list))
    for array in arrays:
        for name in array.codecs:
            name = "imagecodecs_…" if name.startswith("imagecodecs_") else name
            for reader, claim in array.readers.items():
                claims[f"v{FORMATS[array.fmt]}", name][reader].append(claim)
    expected = {f"| {fmt} | `{name}` | {' | '.join(cell(of[reader]) for reader in READERS)} |" for (fmt, name), of in claims.items()}
    rows = set(re.findall(r"^\| v[23] \|.*$", (ROOT / "docs" / "readers.md").read_text(), re.MULTILINE))
    clients.report([f"missing: {row}" for row in sorted(expected - rows)] + [f"not so: {row}" for row in sorted(rows - expected)])
