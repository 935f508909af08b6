"""Random NetCDF classic files through references, compared with netCDF4-python and xarray on the original, and damaged headers.

RANDOM_NETCDF3=2000 tests more of them.
"""
import json, subprocess, sys

import clients
import netcdf3_files
import netcdf3_oracle
import numpy as np
import pytest
from clients import virtualize

pytestmark = pytest.mark.slow

SEEDS = clients.seeds("RANDOM_NETCDF3", 24, 24)
FORMATS = list(clients.FORMATS)
# Prints what netCDF4-python reads of a file, in a process of its own: damaged files can crash it.
READ = """
import json, sys, netCDF4
with netCDF4.Dataset(sys.argv[1]) as ds:
    ds.set_auto_maskandscale(False), ds.set_auto_chartostring(False)
    found = {}
    for name, var in ds.variables.items():
        if var.size > 100_000:
            found[name] = [var.dtype.str, list(var.shape), None]
        else:
            found[name] = [var.dtype.str, list(var.shape), var[...].tobytes().hex()]
    print(json.dumps(found))
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_random_files(seed, tmp_path):
    rng, version, path = np.random.default_rng(seed), [1, 2, 5][seed % 3], tmp_path / "random.nc"
    if seed % 2:
        netcdf3_files.by_library(rng, path, version)
    else:
        path.write_bytes(netcdf3_files.by_hand(rng, version))
    for fmt in FORMATS:
        clients.report([f"{fmt}: {line}" for line in netcdf3_oracle.differences(path, fmt)[0]])


@pytest.mark.parametrize("seed", SEEDS[:len(SEEDS) // 3])
def test_many_small_records(seed, tmp_path):
    """Small records are inlined together, next to others that stay references; the last may lack its padding."""
    import netCDF4
    rng, path = np.random.default_rng(seed), tmp_path / "records.nc"
    version = list(netcdf3_files.FORMATS.values())[seed % 3]
    count, types = int(rng.choice([999, 1000, 1001, 4_000])), ["i1", "i2", "i4", "f4", "f8"]
    with netCDF4.Dataset(path, "w", format=version) as ds:
        ds.createDimension("record", None)
        for number in range(rng.integers(2, 6)):
            length = int(rng.choice([1, 1, 2, 3, 7, 100]))
            ds.createDimension(f"x{number}", length)
            dimensions = ("record", f"x{number}") if length > 1 else ("record",)
            var = ds.createVariable(f"v{number}", rng.choice(types), dimensions)
            var[:] = rng.integers(0, 100, (count, length)).squeeze()
    # The standard lets a writer omit the padding behind the last value.
    if rng.integers(2):
        path.write_bytes(path.read_bytes().removesuffix(b"\0"))
    for fmt in FORMATS:
        clients.report([f"{fmt}: {line}" for line in netcdf3_oracle.differences(path, fmt)[0]])
    run = virtualize(path)
    assert len(json.dumps(run.references)) < 3 * path.stat().st_size or count < 1000


def damage(rng, whole, end):
    """Returns a file with a few changed bytes in its header, which ends at `end`, or a shorter file."""
    damaged = bytearray(whole)
    for _ in range(int(rng.integers(1, 3))):
        at, kind = int(rng.integers(4, end)), int(rng.integers(5))
        if kind == 0:
            damaged[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            damaged[at] = int(rng.integers(256))
        elif kind == 2:
            damaged[at & ~3:(at & ~3) + 4] = int(rng.integers(6)).to_bytes(4, "big")
        elif kind == 3:
            damaged[at] = (damaged[at] + 1) % 256
        else:
            damaged = damaged[:int(rng.integers(end, len(damaged) + 1))]
    return bytes(damaged)


@pytest.mark.parametrize("seed", SEEDS)
def test_damaged_headers_read_the_same_or_are_refused(seed, tmp_path):
    import zarr
    rng, version, path = np.random.default_rng(seed), [1, 2, 5][seed % 3], tmp_path / "damaged.nc"
    whole = netcdf3_files.by_hand(rng, version)
    damaged = damage(rng, whole, header_end(whole))
    while damaged[4:12 if version == 5 else 8].count(0xFF) >= 4:  # netCDF-C does not know streamed records.
        damaged = damage(rng, whole, header_end(whole))
    path.write_bytes(damaged)
    run = virtualize(path, "--format", FORMATS[seed // 3 % 2])
    if run.status:
        assert run.status == 1 and "panicked" not in run.stderr
        return
    read = subprocess.run([sys.executable, "-c", READ, path], capture_output=True, text=True, timeout=60)
    if read.returncode:
        return  # it refuses, or crashes
    store, codes = clients.open_store(run.references), dict(run.codes)
    for name, (dtype, shape, content) in json.loads(read.stdout).items():
        if codes.get(f"/{name}") in ("array-omitted", "node-omitted", "name-changed"):
            continue
        array = zarr.open_array(store, path=name, mode="r", zarr_format=clients.FORMATS[FORMATS[seed // 3 % 2]])
        assert [array.dtype.newbyteorder("<").str, list(array.shape)] == [dtype, shape]
        if content is not None:
            assert array[...].astype(dtype).tobytes().hex() == content


def header_end(whole):
    """Returns the offset of the first data, which is that of the end of the header or a little more."""
    start = whole.find(b"\xaa" * 4)
    return start if start > 0 else len(whole)
