"""Computes how fast the metadata of a remote file can be read, from the file's structure.

usage: limits.py FOLDER [FILE …] [--latency MS] [--mibps MIB_PER_S] [--connections N] [--check]

    limit = levels × latency + bytes / (bandwidth × connections)

A structure can be requested when the one that holds its address has arrived, so it is one level below it: superblock, header of the root group, its
B-tree, … (levels_hdf5.py); header, IFD, tile offsets (levels_tiff.py). The structures within the first 64 KiB of the file are level 1, since the first
request can ask for them together. `bytes` is the length of all structures: space between them and unused parts of B-tree nodes are not counted.

    limit of an archive = pages × (latency + page / bandwidth) + ceil(files / connections) × (latency + file / bandwidth)

Files are listed in pages of 1,000 keys, each naming the next one. Then each connection fetches whole small files, one after the other.

The limit contains no work of the processor. A reader can be faster if it guesses addresses, or fetches the whole of a small file: the time of one request
for everything is beside the limit. Prints the levels of each file, with the structures of each.
"""
import argparse, collections, functools, io, math, pathlib, sys
import levels_hdf5, levels_tiff

HEAD = 64 << 10
MIB = 1 << 20
KEYS_PER_PAGE = 1000
# Bytes of a key in a listing.
LISTED = 200
FILES = ["many_vars.nc", "granule_like.h5", "chunks_btree1.h5", "chunks_btree2.h5", "chunks_ext_array.h5", "chunks_fixed_array.h5", "tiles_million.tif",
         "scene_cog.tif", "archive/day_0000.nc"]
ARCHIVE = "archive"


class Network:
    def __init__(self, latency, mibps, connections=128):
        """Latency in milliseconds, bandwidth of a connection in MiB per second."""
        self.milliseconds, self.mibps, self.connections = latency, mibps, connections
        self.latency, self.bandwidth = latency / 1e3, mibps * MIB

    def one_request(self, length):
        return self.latency + length / self.bandwidth


@functools.cache
def parsed(path):
    """Returns kind, length and level of each structure of a file, by address."""
    parser = levels_tiff if path.suffix == ".tif" else levels_hdf5
    return parser.File(path.read_bytes(), HEAD).structures


def file_limit(path, network):
    found = parsed(path).values()
    levels, length = max(level for _, _, level in found), sum(length for _, length, _ in found)
    return levels * network.latency + length / (network.bandwidth * network.connections)


def archive_limit(folder, network):
    sizes = [path.stat().st_size for path in folder.iterdir()]
    pages, each = math.ceil(len(sizes) / KEYS_PER_PAGE), sum(sizes) / len(sizes)
    listing = pages * network.latency + len(sizes) * LISTED / network.bandwidth
    return listing + math.ceil(len(sizes) / network.connections) * network.one_request(each)


def limit(path, network):
    return archive_limit(path, network) if path.is_dir() else file_limit(path, network)


def levels(path):
    """Yields a line of text for each level."""
    by_level = collections.defaultdict(lambda: collections.defaultdict(list))
    for kind, length, level in parsed(path).values():
        by_level[level][kind].append(length)
    for level, kinds in sorted(by_level.items()):
        text = ", ".join(f"{len(lengths):,} {kind}" for kind, lengths in sorted(kinds.items(), key=lambda item: -sum(item[1])))
        yield f"    {level}  {sum(map(sum, kinds.values())) / MIB:8.3f} MiB  {text}"


class Logged(io.FileIO):
    """A file that remembers the bytes that were read."""

    def __init__(self, path):
        super().__init__(path)
        self.ranges = []

    def readinto(self, buffer):
        start, count = self.tell(), super().readinto(buffer)
        self.ranges.append((start, start + count))
        return count


def check(path):
    """Fails unless the HDF5 library reads each structure to find attributes and chunks."""
    import h5py
    read = bytearray(path.stat().st_size)
    with Logged(path) as log, h5py.File(log) as file:
        def visit(_, node):
            dict(node.attrs)
            if isinstance(node, h5py.Dataset) and node.chunks:
                node.id.chunk_iter(lambda chunk: None)
        visit("", file)
        file.visititems(visit)
        for start, end in log.ranges:
            read[start:end] = b"\1" * (end - start)
    missing = [(kind, hex(at)) for at, (kind, _, _) in parsed(path).items() if not read[at]]
    if missing:
        sys.exit(f"{path}: the HDF5 library does not read {missing}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("files", nargs="*", default=FILES)
    parser.add_argument("--latency", type=float, default=30)
    parser.add_argument("--mibps", type=float, default=50)
    parser.add_argument("--connections", type=int, default=128)
    parser.add_argument("--check", action="store_true", help="fail if the HDF5 library (h5py) does not read each of the structures")
    options = parser.parse_args()
    network = Network(options.latency, options.mibps, options.connections)
    for path in (options.folder / name for name in options.files):
        if options.check and path.suffix != ".tif":
            check(path)
        whole = network.one_request(path.stat().st_size)
        print(f"{path.relative_to(options.folder)}: limit {file_limit(path, network):.3f} s, one request {whole:.3f} s", *levels(path), sep="\n", flush=True)
    if (options.folder / ARCHIVE).is_dir():
        print(f"{ARCHIVE}: limit {archive_limit(options.folder / ARCHIVE, network):.3f} s")


if __name__ == "__main__":
    main()
