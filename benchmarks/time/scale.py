#!/usr/bin/env python
"""The same references written by us, kerchunk, VirtualiZarr and icechunk-python, in one run: seconds, most memory, size.

python benchmarks/time/scale.py [--references 10000000] [--only TEXT] [--shapes 1 1000] [--out FOLDER]

Ours are written by `crates/virtualize/examples/scale.rs` (built by `cargo build --profile dist -p virtualize --example scale`). Each row runs in a separate process.
The clock runs while references that are in memory already are written: a hierarchy of ours, a dict for kerchunk, ManifestArrays for VirtualiZarr, NumPy arrays for icechunk-python.
Most memory is that of the whole process, with the references that it was given. VirtualiZarr gets a fifth of the references, since it would take many minutes and 10 GB:
its seconds and sizes are multiplied, its memory is not.
"""
import argparse, json, pathlib, re, resource, shutil, subprocess, sys, tempfile, time, warnings

URL = "s3://bucket/a/prefix/of/usual/length/file.nc"
SCALE = pathlib.Path(__file__).resolve().parents[2] / "target/dist/examples/scale"
# Arrays, over which the references are divided.
SHAPES = (1, 1000)
OURS = ("kerchunk-json", "kerchunk-parquet", "zarr3-json", "icechunk")


def columns(chunks):
    """Offsets and lengths as examples/scale.rs has them."""
    import numpy as np
    at = np.arange(chunks, dtype="u8")
    return 4096 + at * np.uint64(71_331), 50_000 + at * np.uint64(7919) % np.uint64(20_000)


def name(n):
    return f"variable_{n:05}"


def kerchunk_references(arrays, chunks):
    """A reference set in memory, as kerchunk's readers make it."""
    zarray = {"chunks": [1, 100, 100], "compressor": {"id": "zlib", "level": 4}, "dtype": "<f4", "fill_value": 0.0, "filters": None, "order": "C",
              "shape": [chunks, 100, 100], "zarr_format": 2, "dimension_separator": "."}
    refs = {".zgroup": '{"zarr_format":2}'}
    offsets, lengths = (column.tolist() for column in columns(chunks))
    for n in range(arrays):
        refs[f"{name(n)}/.zarray"] = json.dumps(zarray)
        refs[f"{name(n)}/.zattrs"] = '{"_ARRAY_DIMENSIONS":["time","y","x"]}'
        refs.update((f"{name(n)}/{at}.0.0", [URL, offset, length]) for at, (offset, length) in enumerate(zip(offsets, lengths)))
    return {"version": 1, "refs": refs}


def kerchunk_json(arrays, chunks, out):
    import ujson
    refs = kerchunk_references(arrays, chunks)
    yield
    with open(out, "w") as file:
        ujson.dump(refs, file)


def kerchunk_parquet(arrays, chunks, out):
    import kerchunk.df
    refs = kerchunk_references(arrays, chunks)
    pathlib.Path(out).mkdir()
    yield
    kerchunk.df.refs_to_dataframe(refs, out)


def virtual_dataset(arrays, chunks):
    import numpy as np, xarray as xr
    from virtualizarr.manifests import ChunkManifest, ManifestArray
    from virtualizarr.manifests.utils import create_v3_array_metadata
    metadata = create_v3_array_metadata(shape=(chunks, 100, 100), chunk_shape=(1, 100, 100), data_type=np.dtype("f4"), fill_value=0.0,
                                        codecs=[{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "numcodecs.zlib", "configuration": {"level": 4}}],
                                        dimension_names=("time", "y", "x"))
    offsets, lengths = (column.reshape(-1, 1, 1) for column in columns(chunks))
    def variable():
        paths = np.full((chunks, 1, 1), URL, dtype=np.dtypes.StringDType())
        manifest = ChunkManifest.from_arrays(paths=paths, offsets=offsets, lengths=lengths)
        return xr.Variable(("time", "y", "x"), ManifestArray(metadata=metadata, chunkmanifest=manifest))
    return xr.Dataset({name(n): variable() for n in range(arrays)})


def virtualizarr_json(arrays, chunks, out):
    ds = virtual_dataset(arrays, chunks)
    yield
    ds.vz.to_kerchunk(out, format="json")


def virtualizarr_parquet(arrays, chunks, out):
    ds = virtual_dataset(arrays, chunks)
    yield
    ds.vz.to_kerchunk(out, format="parquet", record_size=100_000)


def repository(out):
    import icechunk
    config = icechunk.RepositoryConfig.default()
    config.set_virtual_chunk_container(icechunk.VirtualChunkContainer("s3://bucket/", icechunk.s3_store(region="us-east-1")))
    return icechunk.Repository.create(icechunk.local_filesystem_storage(out), config)


def virtualizarr_icechunk(arrays, chunks, out):
    ds = virtual_dataset(arrays, chunks)
    yield
    session = repository(out).writable_session("main")
    ds.vz.to_icechunk(session.store)
    session.commit("references")


def icechunk_python(arrays, chunks, out):
    import zarr
    offsets, lengths = columns(chunks)
    yield
    session = repository(out).writable_session("main")
    group = zarr.group(session.store)
    for n in range(arrays):
        group.create_array(name(n), shape=(chunks, 100, 100), chunks=(1, 100, 100), dtype="f4", dimension_names=("time", "y", "x"))
        session.store.set_virtual_refs_arr(f"/{name(n)}", chunk_grid_shape=(chunks, 1, 1), locations=[URL] * chunks, offsets=offsets, lengths=lengths,
                                           checksum='"0123456789abcdef"')
    session.commit("references")


# The writer, its output that of which format of ours, and of how many references it gets one.
PEERS = {
    "kerchunk, ujson": (kerchunk_json, "kerchunk-json", 1),
    "VirtualiZarr, JSON": (virtualizarr_json, "kerchunk-json", 5),
    "kerchunk, Parquet": (kerchunk_parquet, "kerchunk-parquet", 1),
    "VirtualiZarr, Parquet": (virtualizarr_parquet, "kerchunk-parquet", 5),
    "icechunk-python": (icechunk_python, "icechunk", 1),
    "VirtualiZarr, Icechunk": (virtualizarr_icechunk, "icechunk", 5),
}


def size(path):
    return sum(found.stat().st_size for found in path.rglob("*") if found.is_file()) if path.is_dir() else path.stat().st_size


def one(peer, arrays, chunks, out):
    """In a process of its own: seconds and most memory in MiB."""
    warnings.simplefilter("ignore")
    steps = PEERS[peer][0](arrays, chunks, out)
    next(steps)
    start = time.perf_counter()
    next(steps, None)
    print(json.dumps([time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))


def ours(format, arrays, chunks, out):
    done = subprocess.run([SCALE, format, str(arrays), str(chunks), out], capture_output=True, text=True, check=True).stdout
    seconds, peak = re.search(r": ([\d.]+) s,.*peak (\d+) MiB", done).groups()
    return float(seconds), float(peak)


def theirs(peer, arrays, chunks, out):
    done = subprocess.run([sys.executable, __file__, "--one", peer, str(arrays), str(chunks), out], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1])
    return json.loads(done.stdout.splitlines()[-1])


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--references", type=int, default=10_000_000)
    arguments.add_argument("--only", default="", help="rows whose name has this")
    arguments.add_argument("--shapes", type=int, nargs="*", default=SHAPES, help="numbers of arrays")
    arguments.add_argument("--out", help="where to write; a temporary folder unless given")
    arguments = arguments.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(dir=arguments.out))
    print("| references | arrays | writer | seconds | times ours | most memory, MiB | size, MB | times ours |\n|---|---|---|---|---|---|---|---|", flush=True)
    for arrays in arguments.shapes:
        mine = {}
        rows = [(format, format, ours, 1) for format in OURS] + [(peer, format, theirs, part) for peer, (_, format, part) in PEERS.items()]
        for writer, format, run, part in rows:
            if arguments.only not in writer:
                continue
            count = arguments.references // part
            out = folder / "out"
            try:
                seconds, peak = run(writer, arrays, count // arrays, str(out))
                seconds, megabytes = seconds * part, size(out) / 1e6 * part
                mine.setdefault(format, (seconds, megabytes))
                ratios = seconds / mine[format][0], megabytes / mine[format][1]
                marked = f"{count} × {part}" if part > 1 else str(count)
                print(f"| {marked} | {arrays} | {writer} | {seconds:.2f} | {ratios[0]:.1f} | {peak:.0f} | {megabytes:.1f} | {ratios[1]:.2f} |", flush=True)
            except Exception as error:
                print(f"| {count} | {arrays} | {writer} | failed: {error} | | | | |", flush=True)
            shutil.rmtree(out, ignore_errors=True)
            out.unlink(missing_ok=True)
    shutil.rmtree(folder)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
    else:
        main()
