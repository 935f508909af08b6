"""Makes the references of a file, or of the archive, with another tool: tools.py TOOL SOURCE OUT

SOURCE is a path, or an URL of range_server, such as http://127.0.0.1:8000/bucket/KEY. Prints JSON: the seconds in the tool itself, without
the start of Python and the imports, and the number of references. Rules that keep the comparison fair:

- Each tool writes kerchunk JSON where it can. h5py lists the chunks and attributes, async_hdf5 and async_tiff only parse: they are limits, not equals.
- kerchunk inlines nothing, as its time depends on what it inlines.
- For the archive, each tool has its best set-up here: `kerchunk_4x16` are four processes of 16 threads, and VirtualiZarr reads with threads.
"""
import asyncio, json, os, sys, time, urllib.parse, warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

warnings.filterwarnings("ignore")


class Source:
    """A local file, or an object of the server, as each tool wants it."""

    def __init__(self, text):
        parts = urllib.parse.urlsplit(text)
        self.is_remote = parts.scheme == "http"
        self.endpoint = f"http://{parts.netloc}" if self.is_remote else None
        self.key = parts.path.removeprefix("/bucket/") if self.is_remote else os.path.abspath(text)
        self.url = f"s3://bucket/{self.key}" if self.is_remote else f"file://{self.key}"

    def s3(self, module):
        """A store of obstore, or of a package that contains it."""
        return module.S3Store("bucket", endpoint=self.endpoint, skip_signature=True, region="us-east-1", client_options={"allow_http": True}, virtual_hosted_style_request=False)

    def registry(self):
        from obspec_utils.registry import ObjectStoreRegistry
        from obstore import store
        return ObjectStoreRegistry({"s3://bucket": self.s3(store)} if self.is_remote else {"file://": store.LocalStore()})

    def fsspec(self, **options):
        import fsspec
        return fsspec.filesystem("s3", anon=True, endpoint_url=self.endpoint, **options)

    def rust_store(self, module):
        """Returns a store of async-hdf5 or async-tiff, and the key in it."""
        return (self.s3(module), self.key) if self.is_remote else (module.LocalStore("/"), self.key.lstrip("/"))


# Each tool imports, yields once, works, and yields the number of references.


def kerchunk(source, out):
    import ujson
    from kerchunk.hdf import SingleHdf5ToZarr
    yield
    if source.is_remote:
        with source.fsspec().open(f"bucket/{source.key}") as file:
            references = SingleHdf5ToZarr(file, source.url, inline_threshold=0).translate()
    else:
        references = SingleHdf5ToZarr(source.key, inline_threshold=0).translate()
    with open(out, "w") as file:
        ujson.dump(references, file)
    yield sum(isinstance(value, list) for value in references["refs"].values())


def kerchunk_netcdf3(source, out):
    import kerchunk.netCDF3, ujson
    yield
    options = {"endpoint_url": source.endpoint, "anon": True} if source.is_remote else {}
    references = kerchunk.netCDF3.NetCDF3ToZarr(source.url if source.is_remote else source.key, inline_threshold=0, storage_options=options).translate()
    with open(out, "w") as file:
        ujson.dump(references, file)
    yield len(references["refs"])


def parsed_by_virtualizarr(parser, source, out):
    registry = source.registry()
    yield
    store = parser()(source.url, registry)
    try:
        store.to_virtual_dataset(loadable_variables=[]).vz.to_kerchunk(out, format="json")
    except Exception as error:
        print(f"to_kerchunk: {error}"[:200], file=sys.stderr)
    yield chunk_count(store._group)


def virtualizarr(source, out):
    from virtualizarr.parsers import HDFParser
    return parsed_by_virtualizarr(HDFParser, source, out)


def virtualizarr_netcdf3(source, out):
    from virtualizarr.parsers import NetCDF3Parser
    return parsed_by_virtualizarr(NetCDF3Parser, source, out)


def virtual_tiff(source, out):
    from virtual_tiff import VirtualTIFF
    registry = source.registry()
    yield
    yield chunk_count(VirtualTIFF()(source.url, registry)._group)


def chunk_count(group):
    from math import prod
    return sum(prod(array.manifest.shape_chunk_grid) for array in group.arrays.values()) + sum(map(chunk_count, group.groups.values()))


def async_hdf5(source, out):
    from async_hdf5 import HDF5File, store

    async def count(group):
        found = 0
        for name in await group.dataset_names():
            dataset = await group.dataset(name)
            await dataset.attributes()
            found += len(await dataset.chunk_index())
        for name in await group.group_names():
            found += await count(await group.group(name))
        return found

    async def run():
        opened, key = source.rust_store(store)
        return await count(await (await HDF5File.open(key, store=opened)).root_group())

    yield
    yield asyncio.run(run())


def async_tiff(source, out):
    from async_tiff import TIFF, store

    async def run():
        opened, key = source.rust_store(store)
        return sum(len(ifd.tile_offsets or ifd.strip_offsets) for ifd in (await TIFF.open(key, store=opened)).ifds)

    yield
    yield asyncio.run(run())


def h5py(source, out):
    import h5py
    chunks = []

    def visit(_, node):
        if isinstance(node, h5py.Dataset):
            dict(node.attrs), node.fillvalue
            if node.chunks:
                node.id.chunk_iter(lambda chunk: chunks.append((chunk.chunk_offset, chunk.byte_offset, chunk.size)))
            else:
                chunks.append(node.id.get_offset())

    yield
    with h5py.File(source.key) as file:
        file.visititems(visit)
    yield len(chunks)


def tifffile(source, out):
    import tifffile
    yield
    count = 0
    with tifffile.TiffFile(source.key) as file:
        for index, page in enumerate(file.pages):
            with page.aszarr() as store:
                store.write_fsspec(f"{out}.{index}", "file:///", version=1)
            count += len(page.dataoffsets)
    yield count


def archive_keys(source):
    return [f"{source.key}/day_{day:04}.nc" for day in range(1000)]


def virtualizarr_threads(source, out):
    from virtualizarr import open_virtual_mfdataset
    from virtualizarr.parsers import HDFParser
    registry, urls = source.registry(), [f"s3://bucket/{key}" for key in archive_keys(source)]
    yield
    combine = dict(combine="nested", concat_dim="time", coords="minimal", compat="override", data_vars="minimal")
    dataset = open_virtual_mfdataset(urls, registry=registry, parser=HDFParser(), loadable_variables=["time", "lat", "lon"], parallel=ThreadPoolExecutor, **combine)
    dataset.vz.to_kerchunk(out, format="json")
    yield len(urls)


def combined_by_kerchunk(source, references):
    from kerchunk.combine import MultiZarrToZarr
    options = {"anon": True, "endpoint_url": source.endpoint}
    return MultiZarrToZarr(references, concat_dims=["time"], identical_dims=["lat", "lon"], remote_protocol="s3", remote_options=options, inline_threshold=0).translate()


def part_by_kerchunk(source, keys, threads):
    """Reads and combines a part of the archive."""
    from kerchunk.hdf import SingleHdf5ToZarr
    files = source.fsspec(max_concurrency=threads, config_kwargs={"max_pool_connections": threads})

    def read(key):
        # kerchunk 0.2.10 cannot fetch while it combines (it mixes event loops), so the times, 4096 bytes of each file, are inlined.
        with files.open(f"bucket/{key}") as file:
            return SingleHdf5ToZarr(file, f"s3://bucket/{key}", inline_threshold=5000).translate()

    with ThreadPoolExecutor(threads) as pool:
        return combined_by_kerchunk(source, list(pool.map(read, keys)))


def kerchunk_4x16(source, out):
    import ujson
    keys = archive_keys(source)
    yield
    with ProcessPoolExecutor(4, mp_context=get_context("spawn")) as pool:
        parts = list(pool.map(part_by_kerchunk, [source] * 4, [keys[start:start + 250] for start in range(0, 1000, 250)], [16] * 4))
    with open(out, "w") as file:
        ujson.dump(combined_by_kerchunk(source, parts), file)
    yield len(keys)


TOOLS = [kerchunk, kerchunk_netcdf3, virtualizarr, virtualizarr_netcdf3, virtual_tiff, async_hdf5, async_tiff, h5py, tifffile, virtualizarr_threads, kerchunk_4x16]


def main():
    tool, source, out = sys.argv[1:]
    steps = next(known for known in TOOLS if known.__name__ == tool)(Source(source), out)
    next(steps)
    start = time.perf_counter()
    references = next(steps)
    print(json.dumps({"seconds": time.perf_counter() - start, "references": references}))


if __name__ == "__main__":
    main()
