"""kerchunk's reading and combining of N daily NetCDF files on the range server, to the end: one reference set in JSON.

usage: kerchunk_peer.py N PORT OUT [--processes P] [--threads T]

kerchunk 0.2.10 cannot combine what it would have to fetch: MultiZarrToZarr makes a reference filesystem that belongs to fsspec's event loop and hands it to zarr-python, which awaits it on its own
(`ReferenceNotReachable`, caused by "attached to a different loop"). So the coordinate to combine by, one chunk of 4096 bytes a file, is inlined when the file is read, and nothing is fetched while combining.
With processes each reads and combines a part of the files, as kerchunk's own `auto_dask` does, and the parts are combined at the end.
"""

import argparse
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

warnings.filterwarnings("ignore")


def combined(references, endpoint):
    from kerchunk.combine import MultiZarrToZarr

    options = {"anon": True, "endpoint_url": endpoint}
    return MultiZarrToZarr(
        references, concat_dims=["time"], identical_dims=["lat", "lon"], remote_protocol="s3", remote_options=options, inline_threshold=0
    ).translate()


def read(keys, endpoint, threads):
    import fsspec
    from kerchunk.hdf import SingleHdf5ToZarr

    files = fsspec.filesystem("s3", anon=True, endpoint_url=endpoint, max_concurrency=threads, config_kwargs={"max_pool_connections": threads})

    def one(key):
        with files.open(f"bucket/{key}", "rb") as file:
            return SingleHdf5ToZarr(file, f"s3://bucket/{key}", inline_threshold=5000).translate()

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(one, keys))


def part(keys, endpoint, threads):
    return combined(read(keys, endpoint, threads), endpoint)


def main():
    import ujson

    parser = argparse.ArgumentParser()
    parser.add_argument("count", type=int)
    parser.add_argument("port")
    parser.add_argument("out")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--threads", type=int, default=16)
    given = parser.parse_args()
    endpoint = f"http://127.0.0.1:{given.port}"
    keys = [f"archive/day_{k:04d}.nc" for k in range(given.count)]
    if given.processes == 1:
        out = part(keys, endpoint, given.threads)
    else:
        size = -(-len(keys) // given.processes)
        parts = [keys[k : k + size] for k in range(0, len(keys), size)]
        with ProcessPoolExecutor(given.processes, mp_context=get_context("spawn")) as pool:
            done = list(pool.map(part, parts, [endpoint] * len(parts), [given.threads] * len(parts)))
        out = combined(done, endpoint)
    with open(given.out, "w") as file:
        ujson.dump(out, file)


if __name__ == "__main__":
    main()
