"""A random model: archives of any format, with their files on disk or behind a web server, and any selection of them.

Each of ARCHIVES seeds (30, or that environment variable) makes one archive. Its truth is what xarray makes of the originals.
"""

import http.server
import os
import pickle
import random
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import virtualize
import xarray as xr

ARCHIVES = int(os.environ.get("ARCHIVES", "30"))
FORMATS = ["json", "v3.json", "parquet", "zarr", "icechunk"]


class Ranges(http.server.SimpleHTTPRequestHandler):
    """Serves files with ranges and entity tags."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            self.send_error(404)
            return
        data = path.read_bytes()
        tag = f'"{path.stat().st_mtime_ns:x}-{len(data):x}"'
        wanted = self.headers.get("Range")
        self.send_response(206 if wanted else 200)
        if wanted:
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            start = int(first) if first else len(data) - int(last)
            end = min(int(last), len(data) - 1) if first and last else len(data) - 1
            self.send_header("Content-Range", f"bytes {start}-{end}/{len(data)}")
            data = data[start : end + 1]
        self.send_header("ETag", tag)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """Yield a folder and the url at which it is served."""
    folder = tmp_path_factory.mktemp("served")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Ranges, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def write(folder: Path, chance: random.Random) -> list[Path]:
    """Write files that can be joined along time, each with arrays of random type, packing, chunks and compression."""
    rng = np.random.default_rng(chance.randrange(1 << 30))
    steps, sizes = chance.randrange(1, 6), (chance.randrange(1, 8), chance.randrange(1, 8))
    chunks = (chance.randrange(1, steps + 1), chance.randrange(1, sizes[0] + 1), chance.randrange(1, sizes[1] + 1))
    while steps % chunks[0]:
        chunks = (chunks[0] - 1, *chunks[1:])
    storage = chance.choice([{}, {"zlib": True}, {"zlib": True, "shuffle": True}, {"zlib": True, "fletcher32": True}])
    layout = {"chunksizes": chunks, **storage}
    encoding = {
        "f": {"dtype": chance.choice(["f4", "f8", ">f4"]), **layout},
        "i": {"dtype": chance.choice(["i1", "i2", ">i4", "u2"]), **layout},
        "p": {"dtype": "i2", "scale_factor": 0.25, "add_offset": 3.0, "_FillValue": -7, **layout},
    }
    files = []
    for k in range(chance.randrange(1, 7)):
        shape = (steps, *sizes)
        packed = np.where(rng.random(shape) < 0.2, np.nan, rng.integers(0, 99, shape) * 0.25 + 3)
        data = {
            "f": (("time", "y", "x"), rng.random(shape)),
            "i": (("time", "y", "x"), rng.integers(0, 99, shape)),
            "p": (("time", "y", "x"), packed),
            "fixed": (("y", "x"), np.arange(sizes[0] * sizes[1]).reshape(sizes)),
        }
        time = ("time", np.arange(steps) + steps * k, {"units": "hours since 2000-01-01"})
        path = folder / f"{k:02}.nc"
        xr.Dataset(data, {"time": time}).to_netcdf(path, engine="h5netcdf", encoding=encoding)
        files.append(path)
    return files


def selection(chance: random.Random, dataset: xr.Dataset) -> dict[str, object]:
    """Return indices along some dimensions."""
    found: dict[str, object] = {}
    for name, length in dataset.sizes.items():
        match chance.randrange(5):
            case 0:
                found[name] = chance.randrange(-length, length)
            case 1:
                start, stop, step = chance.randrange(length), chance.randrange(length + 1), chance.randrange(1, 4)
                found[name] = slice(start, stop, step)
            case 2:
                found[name] = slice(None, None, -chance.randrange(1, 3))
            case 3:
                found[name] = [chance.randrange(length) for _ in range(chance.randrange(1, 5))]
    return found


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[pytest.mark.slow] if seed > 9 else []) for seed in range(ARCHIVES)])
def test_random_archives(tmp_path: Path, served: tuple[Path, str], seed: int) -> None:
    chance = random.Random(seed)
    folder = served[0] / str(seed)
    folder.mkdir()
    files = write(folder, chance)
    expected = xr.concat([xr.open_dataset(file, engine="h5netcdf") for file in files], "time", data_vars="minimal")
    is_remote = chance.random() < 0.5
    options = {"rewrite_url": {str(served[0]): served[1]}} if is_remote else {}
    for kind in FORMATS:
        out = tmp_path / f"all.{kind}"
        output = {"format": "zarr3-json"} if kind == "v3.json" else {}
        # Parquet has few references a file, and Icechunk few a manifest, so that tables have parts.
        record = {"record_size": chance.randrange(1, 20)} if kind == "parquet" else {}
        virtualize.batch(files, out, concat_dim="time", **output, **record)
        found = virtualize.open_dataset(out, cache=chance.choice([0, 1000, "1M"]), **options)
        for _ in range(4):
            chosen = selection(chance, expected)
            xr.testing.assert_equal(found.isel(chosen).load(), expected.isel(chosen).load())
        if chance.random() < 0.3:
            xr.testing.assert_equal(pickle.loads(pickle.dumps(found)).load(), expected)
        # For readers without the codecs.
        if chance.random() < 0.3:
            plain = virtualize.open(out, decoded=True, **options)
            xr.testing.assert_equal(xr.open_zarr(plain, consolidated=False).load(), expected)
