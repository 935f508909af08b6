"""The files of the run: each has several known versions, with the references that the command writes and the values that NumPy wrote."""
import hashlib, io, json, os, subprocess, time, urllib.request, zlib

import h5py
import numpy as np
import scipy.io
import tifffile

VERSIONS = 6
SHAPE, CHUNK = (32, 24), (8, 24)
FORMATS = ("kerchunk-json", "zarr3-json")


def digest(data):
    return hashlib.blake2b(data, digest_size=12).digest()


def hdf5(values, version, compressed):
    """Returns an HDF5 file of an array in chunks. The padding before it moves the chunks of each version."""
    out = io.BytesIO()
    with h5py.File(out, "w") as file:
        file.create_dataset("padding", data=np.arange(1 + version * 7, dtype="i2"))
        made = file.create_dataset("data", data=values, chunks=CHUNK, compression="gzip" if compressed else None)
        made.attrs["version"] = version
    return out.getvalue()


def tiff(values, version, compressed):
    out = io.BytesIO()
    tifffile.imwrite(out, values, rowsperstrip=CHUNK[0], compression="zlib" if compressed else None, software=f"version {version:0{version + 3}}", metadata=None)
    return out.getvalue()


def netcdf3(values, version, _):
    """Returns a NetCDF classic file of `version` + 1 records of a record variable."""
    out = io.BytesIO()
    with scipy.io.netcdf_file(out, "w") as file:
        file.createDimension("time", None)
        file.createDimension("x", SHAPE[1])
        made = file.createVariable("data", "f4", ("time", "x"))
        made[:] = values[:version + 1]
        file.flush()
        return out.getvalue()


class Source:
    """A file with known versions. `history` has the version of each time: (from, to, number), where no number means that the file is missing."""

    def __init__(self, url, kind, seed, place):
        self.url, self.kind, self.place, self.lock = url, kind, place, False
        random_ = np.random.default_rng(seed)
        make, compressed = {"h5": hdf5, "tif": tiff, "nc3": netcdf3}[kind], seed % 2 == 1
        # A NetCDF classic file grows in place, so that its versions have the same values.
        values = random_.random((VERSIONS, *SHAPE), dtype="f4") if kind != "nc3" else np.repeat(random_.random((1, *SHAPE), dtype="f4"), VERSIONS, 0)
        self.contents = [make(values[version], version, compressed) for version in range(VERSIONS)]
        self.values = [values[version][:version + 1] if kind == "nc3" else values[version] for version in range(VERSIONS)]
        self.array = "band_data" if kind == "tif" else "data"
        # The version of each digest: of references as text and as JSON, and of descriptions.
        self.references, self.parsed, self.described, self.history = {}, {}, {}, []
        if kind == "nc3":
            assert all(after.startswith(before[:4] + after[4:8] + before[8:]) for before, after in zip(self.contents, self.contents[1:]))

    @property
    def is_remote(self):
        return not self.url.startswith("file:")

    def put(self, version):
        """Replaces the content atomically, or removes the file (None)."""
        self.place(None if version is None else self.contents[version])

    def change(self, version):
        """Changes the file, and remembers when."""
        before, start = self.history[-1], time.monotonic()
        # Meanwhile it has either version.
        self.history.append([start, float("inf"), version])
        if self.kind == "nc3" and not self.is_remote and before[2] is not None and version == before[2] + 1:
            self.grow(version)
        else:
            self.put(version)
        before[1] = end = time.monotonic()
        # A response may take a minute.
        while len(self.history) > 2 and self.history[0][1] < end - 300:
            self.history.pop(0)

    def grow(self, version):
        """Appends a record as a model does: first its values, then the number of records."""
        size = len(self.contents[version - 1])
        file = os.open(self.url.removeprefix("file://"), os.O_WRONLY)
        try:
            os.pwrite(file, self.contents[version][size:], size)
            os.pwrite(file, self.contents[version][4:8], 4)
        finally:
            os.close(file)

    def during(self, start, end):
        """Returns the versions that the file had in a time."""
        return {version for _, _, version in self.overlapping(start, end)}

    def overlapping(self, start, end):
        return [one for one in self.history if one[0] <= end and one[1] >= start]

    def story(self, start, end):
        """Returns the latest versions, with times in seconds from the start of a request."""
        return [f"{version} from {since - start:.3f} to {until - start:.3f}" for since, until, version in self.history[-4:]], f"request of {end - start:.3f}"

    def learn(self, binary, environment):
        """Records the references of each version, which are compared with the values that were written, then starts with the first version."""
        for version in range(VERSIONS):
            self.put(version)
            for name in FORMATS:
                made = subprocess.run([binary, self.url, "--format", name], capture_output=True, env=environment)
                assert made.returncode == 0, made.stderr.decode()
                # A response ends without the newline of the command.
                self.references[name, digest(made.stdout.removesuffix(b"\n"))] = version
                self.parsed[digest(json.dumps(json.loads(made.stdout), sort_keys=True).encode())] = version
                self.check(json.loads(made.stdout), version)
            described = subprocess.run([binary, "inspect", "--json", self.url], check=True, capture_output=True, env=environment).stdout
            self.described[outline(json.loads(described))] = version
        assert len(self.references) == len(FORMATS) * VERSIONS and len(self.described) == VERSIONS, self.url
        self.put(0)
        self.history = [[0.0, float("inf"), 0]]

    def check(self, document, version):
        """Reads the chunks of references from the content by Python alone, and compares them with the values."""
        found = [value for key, value in sorted(document["refs"].items(), key=lambda item: [int(word) if word.isdigit() else 0 for word in item[0].replace("/", ".").split(".")])
                 if isinstance(value, list) and key.startswith(self.array)]
        pieces = [self.contents[version][offset:offset + length] for url, offset, length in found]
        assert found and all(url == self.url for url, _, _ in found)
        assert b"".join(map(decoded, pieces)) == self.stored(version), (self.url, version)

    def stored(self, version, row=None):
        """Returns the elements of a chunk as they are stored, without compression. The records of a NetCDF file are one chunk, and have the other byte order."""
        values = self.values[version]
        if self.kind == "nc3":
            return values.astype(">f4").tobytes()
        return values.tobytes() if row is None else values[row * CHUNK[0]:(row + 1) * CHUNK[0]].tobytes()

    def key(self, row):
        return f"{self.array}/c/0/{row}/0" if self.kind == "tif" else f"{self.array}/c/{row}/0"


def decoded(piece):
    try:
        return zlib.decompress(piece)
    except zlib.error:
        return piece


def outline(document):
    """Returns what of a description depends on the content of the file alone."""
    document = {name: value for name, value in document.items() if name not in ("zarr", "stats")}
    document["file"] = {name: value for name, value in document["file"].items() if name not in ("modified", "etag", "size")}
    return digest(json.dumps(document, sort_keys=True).encode())


def local(folder, name, kind, seed):
    path = folder / name

    def place(content):
        if content is None:
            return path.unlink()
        aside = folder.parent / f"{name}.aside"
        aside.write_bytes(content)
        aside.rename(path)

    return Source(path.as_uri(), kind, seed, place)


def remote(store, prefix, name, kind, seed):
    def place(content):
        request = urllib.request.Request(f"{store}/control/{name}", content, method="DELETE" if content is None else "PUT")
        urllib.request.urlopen(request, timeout=60).close()

    return Source(f"{prefix}/{name}", kind, seed, place)
