"""Compares ways to read a whole array, or a time series through many files, each in a process of its own, one after the other in each round.

Time is from opening the file to values in memory, without imports. Memory is the peak of the process, minus that after
the imports and minus the result. With a server, the file is read through it, too.

usage: read.py [--server RANGE_SERVER] [--parts small large tiff archive series] [--ways NAME …] [--rounds N] [--scale X] [--latency MS]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from server import Server

WAY = """
import json, resource, sys, time
import xarray, zarr
xarray.backends.list_engines()  # imports the backends
url, refs, repository, endpoint = sys.argv[1:5]
remote = {"endpoint": endpoint, "anonymous": True} if endpoint else {}
#imports
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
#read
took = time.perf_counter() - start
memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 - values.nbytes / 2**20
print(json.dumps([took, memory, float(values.ravel()[:: max(1, values.size // 1000)].astype("f8").sum())]))
"""

FSSPEC = (
    "import fsspec, zarr; from zarr.storage import FsspecStore",
    "options = {'anon': True, 'endpoint_url': endpoint} if endpoint else {}\n"
    "fs = fsspec.filesystem('reference', fo=refs, remote_protocol='s3' if endpoint else 'file', asynchronous=True,"
    " remote_options={'asynchronous': True, **options}, skip_instance_cache=True)\n"
    "values = zarr.open_array(FsspecStore(fs, read_only=True, path=''), path=PATH, mode='r', zarr_format=2)[...]",
)
KERCHUNK = (
    "import xarray, kerchunk.xarray_backend",
    "options = {'remote_protocol': 's3', 'remote_options': {'anon': True, 'endpoint_url': endpoint}} if endpoint else {}\n"
    "values = xarray.open_dataset(refs, engine='kerchunk', storage_options=options, mask_and_scale=False, chunks=None)"
    "[PATH].values",
)
MANIFEST = (
    "import obstore.store, zarr; from obspec_utils.registry import ObjectStoreRegistry\n"
    "from virtualizarr.parsers import HDFParser",
    "store = obstore.store.S3Store('bucket', endpoint=endpoint, skip_signature=True, region='us-east-1',"
    " client_options={'allow_http': True}) if endpoint else obstore.store.LocalStore()\n"
    "prefix = 's3://bucket' if endpoint else 'file://'\n"
    "manifests = HDFParser()(url if endpoint else 'file://' + url, ObjectStoreRegistry({prefix: store}))\n"
    "values = zarr.open_array(manifests, path=PATH, mode='r')[...]",
)
ICECHUNK = (
    "import icechunk, zarr",
    "prefix = 's3://bucket/' if endpoint else 'file://' + url.rpartition('/')[0] + '/'\n"
    "store = icechunk.s3_store(region='us-east-1', endpoint_url=endpoint, anonymous=True, allow_http=True,"
    " force_path_style=True) if endpoint else icechunk.local_filesystem_store('/')\n"
    "config = icechunk.RepositoryConfig.default()\n"
    "config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(prefix, store))\n"
    "keys = icechunk.containers_credentials({prefix: icechunk.s3_anonymous_credentials() if endpoint else None})\n"
    "repository = icechunk.Repository.open(icechunk.local_filesystem_storage(repository), config,"
    " authorize_virtual_chunk_access=keys)\n"
    "values = zarr.open_array(repository.readonly_session('main').store, path=PATH, mode='r')[...]",
)
OURS = {
    "virtualize": (
        "import xarray, virtualize.xarray",
        "values = xarray.open_dataset(url, engine='virtualize', mask_and_scale=False, **remote)[PATH].values",
    ),
    "array": ("import numpy, virtualize, virtualize._array", "values = virtualize.open(url, **remote)[PATH][...]"),
    "zarr": (
        "import virtualize, zarr",
        "values = zarr.open_array(virtualize.open(url, decoded=True, **remote), path=PATH, mode='r')[...]",
    ),
}
HDF5 = {
    **OURS,
    "h5netcdf": (
        "import xarray, h5netcdf, fsspec",
        "options = {'storage_options': {'anon': True, 'endpoint_url': endpoint}} if endpoint else {}\n"
        "values = xarray.open_dataset(url, engine='h5netcdf', mask_and_scale=False, **options)[PATH].values",
    ),
    "fsspec": FSSPEC,
    "kerchunk": KERCHUNK,
    "manifest": MANIFEST,
    "icechunk": ICECHUNK,
}
TIFF = {
    **OURS,
    "rioxarray": (
        "import os, rioxarray\n"
        "if endpoint: os.environ.update(AWS_NO_SIGN_REQUEST='YES', AWS_S3_ENDPOINT=endpoint.split('//')[1],"
        " AWS_HTTPS='NO', AWS_VIRTUAL_HOSTING='FALSE', GDAL_DISABLE_READDIR_ON_OPEN='EMPTY_DIR')",
        "values = rioxarray.open_rasterio(url.replace('s3://', '/vsis3/')).values",
    ),
    "tifffile": ("import tifffile", "assert not endpoint\nvalues = tifffile.imread(url)"),
    "fsspec": FSSPEC,
}
OPENED = (
    "import xarray, virtualize.xarray",
    "values = xarray.open_dataset(LOCATION, engine='virtualize', mask_and_scale=False, **remote)[PATH].values",
)
ARCHIVE = {
    "virtualize": (OPENED[0], OPENED[1].replace("LOCATION", "repository")),
    "references": (OPENED[0], OPENED[1].replace("LOCATION", "refs")),
    "h5py": (
        "import glob, h5py, numpy, os",
        "assert not endpoint\nvalues = numpy.concatenate([h5py.File(file)[PATH][...] for file in sorted(glob.glob(os.path.dirname(url) + '/*.nc'))])",
    ),
    "fsspec": FSSPEC,
    "kerchunk": KERCHUNK,
    "icechunk": ICECHUNK,
}
# The same ways for one element of each time.
SERIES = {
    name: (imports, read.replace("[PATH].values", "[PATH][:, 64, 64].values").replace("[...]", "[:, 64, 64]"))
    for name, (imports, read) in ARCHIVE.items()
}
PARTS = {
    "small": ("v", HDF5),
    "large": ("v", HDF5),
    "tiff": ("band_data", TIFF),
    "archive": ("v", ARCHIVE),
    "series": ("v", SERIES),
}


def write(part: str, path: Path, scale: float) -> None:
    """Write the file of a part: 10,000 chunks of 64 KiB, 40 of 16 MiB, or the tiles of a TIFF file; or 1,000 files of 10 chunks."""
    rng = np.random.default_rng(0)
    if part == "tiff":
        import tifffile

        size = max(512, int(12_000 * scale**0.5) // 512 * 512)
        rows = np.cumsum(rng.integers(-3, 4, (size, size), dtype="i2"), axis=1, dtype="i2")
        tifffile.imwrite(path, rows, tile=(512, 512), compression="deflate", predictor=2)
        return
    import h5netcdf

    if part in ("archive", "series"):
        path.parent.mkdir()
        base = rng.normal(280, 10, (128, 128)).round(1).astype("f4")
        for k in range(max(2, int(1000 * scale))):
            with h5netcdf.File(path.parent / f"{k:04}.nc", "w") as file:
                file.dimensions = {"time": None, "y": 128, "x": 128}
                file.resize_dimension("time", 10)
                file.create_variable("time", ("time",), "i4", data=np.arange(10, dtype="i4") + 10 * k)
                made = file.create_variable("v", ("time", "y", "x"), "f4", chunks=(1, 128, 128), shuffle=True, compression="gzip")
                made[...] = base + np.arange(10, dtype="f4")[:, None, None] + np.float32(k % 7)
        return
    count, rows, columns = (max(1, int(10_000 * scale)), 128, 128) if part == "small" else (max(1, int(40 * scale)), 2048, 2048)
    with h5netcdf.File(path, "w") as file:
        file.dimensions = {"time": count, "y": rows, "x": columns}
        made = file.create_variable(
            "v", ("time", "y", "x"), "f4", chunks=(1, rows, columns), shuffle=True, compression="gzip", compression_opts=4
        )
        base = rng.normal(280, 10, (rows, columns)).round(1).astype("f4")
        for i in range(count):
            made[i] = base + np.float32(i % 100)


def prepare(folder: Path, path: Path, url: str, remote: dict[str, object], part: str) -> list[str]:
    """Write references to a file, and return the arguments of the ways."""
    import virtualize

    refs, repository = folder / f"{part}.json", folder / f"{part}.icechunk"
    if part in ("archive", "series"):
        for out in (refs, repository):
            virtualize.batch(url.rpartition("/")[0] + "/", out, concat_dim="time", **remote)
        return [url, str(refs), str(repository), str(remote.get("endpoint", ""))]
    store = virtualize.open(url, **remote)
    store.to_kerchunk(refs, overwrite=True)
    if part != "tiff":
        store.to_icechunk(repository)
    return [url, str(refs), str(repository), str(remote.get("endpoint", ""))]


def measure(ways: dict[str, tuple[str, str]], path: str, arguments: list[str], rounds: int) -> dict[str, list[list[float]]]:
    """Return time, memory and a sum of values for each way and round."""
    found: dict[str, list[list[float]]] = {name: [] for name in ways}
    # Each way signs no requests, and none may find credentials of the user.
    environment = {**os.environ, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"}
    for _ in range(rounds):
        for name, (imports, read) in ways.items():
            code = WAY.replace("#imports", imports).replace("#read", read).replace("PATH", repr(path))
            done = subprocess.run([sys.executable, "-W", "ignore", "-c", code, *arguments], env=environment, capture_output=True, text=True)
            if done.returncode:
                print(f"  {name}: {done.stderr.strip().splitlines()[-1][:150]}", flush=True)
                continue
            found[name].append(json.loads(done.stdout.splitlines()[-1]))
    return {name: results for name, results in found.items() if results}


def show(title: str, found: dict[str, list[list[float]]]) -> None:
    """Print medians, and their ratio to the first way."""
    print(title)
    times = {name: statistics.median(result[0] for result in results) for name, results in found.items()}
    first = next(iter(times.values()))
    sums = {result[2] for results in found.values() for result in results}
    for name, took in times.items():
        memory = statistics.median(result[1] for result in found[name])
        print(f"  {name:12} {took:8.2f} s  {took / first:6.2f} x  {memory:8.0f} MiB beside the result")
    if len({round(value, 3) for value in sums}) > 1:
        print("  the values differ:", {name: results[0][2] for name, results in found.items()})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--server", type=os.path.abspath)
    parser.add_argument("--ways", nargs="+", help="only these, of " + ", ".join({**HDF5, **TIFF, **ARCHIVE}))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="size of the files, 1 for 655 MB")
    parser.add_argument("--latency", type=float, default=30.0, help="of the server, in milliseconds")
    options = parser.parse_args()
    for part in options.parts:
        name, ways = PARTS[part]
        ways = {way: code for way, code in ways.items() if not options.ways or way in options.ways}
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            path = folder / {"tiff": "file.tif", "archive": "files/0000.nc", "series": "files/0000.nc"}.get(part, "file.nc")
            write(part, path, options.scale)
            arguments = prepare(folder, path, str(path), {}, part)
            show(f"{part}, local", measure(ways, name, arguments, options.rounds))
            if options.server:
                with Server(options.server, folder, options.latency) as server:
                    (folder / "s3").mkdir()
                    remote = {"endpoint": server.endpoint, "anonymous": True}
                    arguments = prepare(folder / "s3", path, f"s3://bucket/{path.relative_to(folder)}", remote, part)
                    show(f"{part}, {options.latency:g} ms latency", measure(ways, name, arguments, options.rounds))


if __name__ == "__main__":
    main()
