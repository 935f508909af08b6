"""Small files that refer to one structure many times: rejected with one message, in bounded time and memory, or mapped correctly.

The time limit only prevents hangs; memory and message are checked. Larger files: BOUNDS_SCALE=4."""
import os, struct, statistics, subprocess, sys, zlib

import clients
import h5py
import numpy as np
import pytest

SCALE = int(os.environ.get("BOUNDS_SCALE", "1"))
SECONDS = 120
MEGABYTES = 300


# In a separate process, because child processes inherit the memory statistics of this one.
MEASURE = """
import resource, subprocess, sys
status = subprocess.run(sys.argv[2:], timeout=float(sys.argv[1])).returncode
print(f"\\n{status} {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss}", file=sys.stderr)
"""


def measured(*arguments):
    """Status, standard error, the most memory of a run in MB, and its output."""
    done = subprocess.run([sys.executable, "-S", "-c", MEASURE, str(SECONDS), clients.BINARY, *map(str, arguments)],
                          capture_output=True, stdin=subprocess.DEVNULL)
    errors, _, last = done.stderr.decode().rstrip("\n").rpartition("\n")
    status, kilobytes = last.split()
    return int(status), errors, int(kilobytes) / 1024, done.stdout


def attributes(f):
    g = f.create_group("g")
    for n in range(10):
        g.attrs[f"a{n}"] = np.arange(60_000, dtype="u1")
    for n in range(5_000 * SCALE):
        f[f"l{n}"] = g


def linked_to_each_other(f, groups, length):
    all_groups = [f.create_group(f"g{n}") for n in range(groups)]
    for here in all_groups:
        for n, there in enumerate(all_groups):
            here["n" * (length - 3) + f"{n:03}"] = there


def chunks(f):
    d = f.create_dataset("d", (100_000,), "u1", chunks=(1,))
    d[...] = 1
    for n in range(2_000 * SCALE):
        f[f"l{n}"] = d


def twice_the_one_before(f):
    before = f.create_group("g0")
    before["x"] = np.arange(3)
    for n in range(1, 30):
        group = f.create_group(f"g{n}")
        group["a"] = group["b"] = before
        before = group


def text(f):
    d = f.create_dataset("d", data=np.array(["x" * 2000] * 200, object), dtype=h5py.string_dtype())
    for n in range(2_000 * SCALE):
        f[f"l{n}"] = d


def chain(f):
    group = f
    for _ in range(1000):
        group = group.create_group("n" * 1000)
    return group


def references_to_long_paths(f):
    f.create_dataset("refs", data=[chain(f).ref] * 1000, dtype=h5py.ref_dtype)


def references_in_attributes(f):
    group = f
    for _ in range(60):
        group = group.create_group("n" * 4000)
    f.create_group("x").attrs.create("r", [group.ref] * 50_000, dtype=h5py.ref_dtype)


def virtual_strides(f):
    """Each mapping divides an axis into as many spans as it has elements."""
    f.create_dataset("x", (1_000_000,), "u1", chunks=(1_000_000,))[...] = 1
    layout = h5py.VirtualLayout((2_000_000,), "u1")
    for _ in range(200 * SCALE):
        layout[0:2_000_000:2] = h5py.VirtualSource(".", "x", (1_000_000,))
    f.create_virtual_dataset("v", layout)


def virtual_sources(f):
    """Each virtual dataset reads all chunks of one source."""
    f.create_dataset("x", (50_000,), "u1", chunks=(1,))[...] = 1
    for n in range(200 * SCALE):
        layout = h5py.VirtualLayout((50_000,), "u1")
        layout[...] = h5py.VirtualSource(".", "x", (50_000,))
        f.create_virtual_dataset(f"v{n}", layout)


def committed_types(f):
    f["t"] = np.dtype([(f"member number {n}", "f8") for n in range(500)])
    for n in range(300 * SCALE):
        h5py.h5d.create(f.id, b"d%d" % n, f["t"].id, h5py.h5s.create_simple((1,)))


def virtual_chunks(f):
    """A virtual dataset with ten million chunks of one element."""
    f.create_dataset("x", (9_000_000,), "u1", chunks=(1,), maxshape=(None,))[5] = 1
    layout = h5py.VirtualLayout((9_000_000,), "u1")
    layout[:] = h5py.VirtualSource(".", "x", (9_000_000,))
    f.create_virtual_dataset("v", layout)


HOSTILE = {
    "attributes": attributes,
    "12 groups": lambda f: linked_to_each_other(f, 12, 4_000),
    "30 groups": lambda f: linked_to_each_other(f, 30, 1_000),
    "chunks": chunks,
    "a tree of 2^29": twice_the_one_before,
    "text": text,
    "references to long paths": references_to_long_paths,
    "references in attributes": references_in_attributes,
    "strides": virtual_strides,
    "virtual sources": virtual_sources,
    "virtual chunks": virtual_chunks,
    "committed types": committed_types,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_one_structure_many_times(tmp_path, kind):
    path = tmp_path / "hostile.h5"
    with h5py.File(path, "w", libver="latest") as f:
        HOSTILE[kind](f)
    for fmt in clients.FORMATS:
        status, errors, megabytes, output = measured(path, "-f", fmt)
        assert megabytes < MEGABYTES, f"{megabytes:.0f} MB for {path.stat().st_size} bytes"
        assert status in (0, 1), errors
        if status:
            assert output == b"" and "the limit for" in errors and len(errors.splitlines()) <= 2, errors[-500:]


@pytest.mark.parametrize("count", [20_000])
@pytest.mark.parametrize("kind", ["soft links", "links to nothing", "attributes", "dimensions", "lengths", "members", "external links", "one file", "mappings"])
def test_counts_do_not_limit_valid_files(tmp_path, kind, count):
    """As many items of one kind as a group, an object or a type can contain: each is mapped or reported as omitted."""
    import json
    path, count = tmp_path / "many.h5", count // (20 if kind in ("members", "mappings", "dimensions") else 2) * SCALE
    with h5py.File(path, "w", libver="latest") as f:
        f["x"] = np.arange(3)
        match kind:
            case "soft links":
                for n in range(count):
                    f[f"s{n}"] = h5py.SoftLink("/x")
            case "links to nothing":
                for n in range(count):
                    f[f"s{n}"] = h5py.SoftLink(f"/s{n + 1}")
            case "attributes":
                for n in range(count):
                    f.attrs[f"a{n}"] = n
            case "dimensions":
                for n in range(count):
                    f.create_dataset(f"d{n}", (n + 1,), "u1").make_scale()
                    f.create_dataset(f"v{n}", (n + 1,), "u1").dims[0].attach_scale(f[f"d{n}"])
            case "lengths":
                for n in range(count):
                    f.create_dataset(f"v{n}", (n + 2,), "u1", chunks=(n + 1,))
            case "one file":
                with h5py.File(tmp_path / "other.h5", "w", libver="latest") as other:
                    for n in range(count):
                        other[f"v{n}"] = np.arange(3)
                        f[f"e{n}"] = h5py.ExternalLink("other.h5", f"/v{n}")
            case "members":
                f["t"] = np.zeros(2, [(f"m{n}", "u1") for n in range(count)])
            case "external links":
                for n in range(count):
                    f[f"e{n}"] = h5py.ExternalLink(f"none{n}.h5", "/x")
            case "mappings":
                layout = h5py.VirtualLayout((count, 3), "i8")
                for n in range(count):
                    layout[n] = h5py.VirtualSource(".", "x", (3,))
                f.create_virtual_dataset("v", layout)
    status, errors, megabytes, output = measured(path, "-f", "kerchunk-json", *(["--option", "follow-external=true"] if kind in ("external links", "one file") else []))
    assert status == 0 and megabytes < MEGABYTES, errors[-500:]
    keys = json.loads(output)["refs"]
    expected = {"soft links": count, "attributes": 0, "dimensions": 2 * count, "lengths": count, "one file": count, "members": 1, "mappings": 1}.get(kind, 0)
    assert sum(key.endswith(".zarray") for key in keys) == expected + 1
    if kind in ("links to nothing", "external links"):
        assert errors.count("[link-omitted]") == count
    if kind == "attributes":
        assert len(json.loads(keys[".zattrs"])) == count


@pytest.mark.parametrize("kind, fmt", [("padded", "zarr3-json"), ("terminated", "kerchunk-json"), ("blanks", "zarr3-json"), ("opaque", "kerchunk-json"), ("compound", "zarr3-json")])
def test_elements_of_gigabytes(tmp_path, kind, fmt):
    """Metadata contain the fill value, which is as large as an element."""
    from h5py import h5d, h5s, h5t
    size = 2_000_000_000
    if kind == "opaque":
        datatype = h5t.create(h5t.OPAQUE, size)
    elif kind == "compound":
        member = h5t.C_S1.copy()
        member.set_size(size // 2)
        member.set_strpad(h5t.STR_NULLPAD)
        datatype = h5t.create(h5t.COMPOUND, size)
        datatype.insert(b"a", 0, member)
        datatype.insert(b"b", size // 2, member)
    else:
        datatype = h5t.C_S1.copy()
        datatype.set_size(size)
        datatype.set_strpad({"padded": h5t.STR_NULLPAD, "terminated": h5t.STR_NULLTERM, "blanks": h5t.STR_SPACEPAD}[kind])
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        f["x"] = np.arange(3)
        for n in range(50):
            h5d.create(f.id, f"large{n}".encode(), datatype, h5s.create_simple((3,)))
    status, errors, memory, output = measured(path, "-f", fmt)
    assert status == 0 and memory < MEGABYTES, (status, memory, errors[-500:])
    assert len(errors.splitlines()) == 50 and "00000 bytes, more than 1048576" in errors and b'"x/0"' in output.replace(b'"x/c/0"', b'"x/0"')
    assert measured("inspect", path)[2] < MEGABYTES


def chunks_under_a_tree(path, count, **options):
    with h5py.File(path, "w", **options) as f:
        growing = None if options["libver"] == "latest" else count
        d = f.create_dataset("x", (count, 1), "u1", chunks=(1, 1), maxshape=(growing, growing or None))
        for n in range(count):
            d.id.write_direct_chunk((n, 0), b"x")


def tiles(path, count):
    """A BigTIFF file of one row of tiles, which all lie one after the other."""
    tile = zlib.compress(bytes(256))
    lengths, offsets = np.full(count, len(tile), "<u8"), 16 + np.arange(count, dtype="<u8") * len(tile)
    tables = 16 + count * len(tile)
    entries = [(256, 4, 1, count * 16), (257, 4, 1, 16), (258, 3, 1, 8), (259, 3, 1, 8), (262, 3, 1, 1), (277, 3, 1, 1), (322, 3, 1, 16), (323, 3, 1, 16),
               (324, 16, count, tables), (325, 16, count, tables + offsets.nbytes)]
    header = b"II" + struct.pack("<HHHQ", 43, 8, 0, tables + offsets.nbytes + lengths.nbytes)
    directory = struct.pack("<Q", len(entries)) + b"".join(struct.pack("<HHQQ", *entry) for entry in entries) + bytes(8)
    path.write_bytes(header + tile * count + offsets.tobytes() + lengths.tobytes() + directory)


@pytest.mark.slow
@pytest.mark.parametrize("write, most", [
    (lambda path, count: chunks_under_a_tree(path, count, libver="earliest"), 30),
    (lambda path, count: chunks_under_a_tree(path, count, libver="latest"), 30),
    (tiles, 37),
], ids=["version 1 B-tree", "version 2 B-tree", "tiles"])
def test_memory_for_each_chunk(tmp_path, write, most):
    """At most `most` bytes: the columns are not copied, and the tree or the tables are not held whole."""
    peaks, counts = [], (1_000, 801_000 * SCALE)
    for count in counts:
        write(tmp_path / "file", count)
        # Peaks of runs differ by 2 MB, which is 2.5 bytes a chunk; a copied column has 8.
        runs = [measured(tmp_path / "file", "-f", "kerchunk-json", "-o", tmp_path / f"{count}.json") for _ in range(5)]
        assert all(status == 0 for status, *_ in runs), runs
        peaks.append(statistics.median(megabytes for _, _, megabytes, _ in runs))
    each = (peaks[1] - peaks[0]) * 2**20 / (counts[1] - counts[0])
    assert each < most, f"{each:.0f} bytes a chunk"
