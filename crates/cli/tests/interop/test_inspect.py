"""What `inspect` prints fits its lines, by another measure of width; and the hint about packages cures what readers without
them meet.

A reader without packages is Python that sees the packages of .env/ except those that decode more than zarr-python does.
"""

import json
import os
import subprocess
import sys
import unicodedata
from pathlib import Path

import clients
import numpy as np
import pytest
import test_terminal

FIXTURES = Path(__file__).resolve().parents[4] / "fixtures"
EXTRA = ("imagecodecs", "cast_value", "virtualize", "__editable__")

READ = """
import hashlib, json, sys, warnings
warnings.simplefilter("ignore")
sys.path[:] = [p for p in sys.path if not p.endswith("site-packages")] + [sys.argv[1]]
exec(sys.argv[3])
import xarray as xr
ds = xr.open_dataset("reference://", engine="zarr", backend_kwargs={"storage_options": {"fo": sys.argv[2]}, "consolidated": False},
                     chunks=None)
print(json.dumps({str(name): hashlib.sha256(ds[name].values.tobytes()).hexdigest() for name in ds.variables}))
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """A function that returns a folder of packages: those of this Python without EXTRA, and the given ones."""
    installed = next(Path(path) for path in sys.path if path.endswith("site-packages"))

    def folder(*added):
        made = tmp_path_factory.mktemp("packages")
        for entry in installed.iterdir():
            # imagecodecs without imagecodecs-numcodecs, which would register the codecs of Zarr v2.
            own = any(entry.name == name or entry.name.startswith(f"{name}-") for name in added)
            if own or (not entry.name.startswith(EXTRA) and entry.suffix != ".pth"):
                (made / entry.name).symlink_to(entry)
        return made

    return folder


def read(folder, references, python=""):
    run = [sys.executable, "-S", "-c", READ, str(folder), str(references), python]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(run, capture_output=True, text=True, env=environment)


# Each run starts Python twice with other packages.
@pytest.mark.parametrize("name, fmt", [
    ("hdf5/chunked.h5", "zarr3-json"), ("tiff/compression_lzw.tif", "kerchunk-json"), ("tiff/cog.tif", "zarr3-json"),
    *(pytest.param(name, fmt, marks=pytest.mark.slow) for name in ("hdf5/filters.h5", "tiff/compression_jpeg.tif") for fmt in ("kerchunk-json", "zarr3-json")),
])
def test_the_hint_cures_what_readers_meet(name, fmt, packages, tmp_path):
    target = tmp_path / "refs.json"
    clients.virtualize(FIXTURES / name, "--format", fmt, "-o", target)
    setup = json.loads(clients.virtualize("inspect", FIXTURES / name, "--format", fmt, "--json").stdout)["setup"]
    without = read(packages(), target)
    if not setup["packages"]:
        assert without.returncode == 0, without.stderr
        return
    install, python = " ".join(setup["packages"]), setup["python"]
    assert without.returncode and "UnknownCodecError" in without.stderr
    cured = read(packages(*install.split()), target, python)
    assert cured.returncode == 0, cured.stderr
    assert json.loads(cured.stdout)
    hint = f"hint: to read this with xarray or zarr-python: pip install {install}; in Python, before opening: {python}"
    shown = test_terminal.on_terminal(FIXTURES / name, "--format", fmt, "-o", target, columns=500)
    assert shown.splitlines()[-1] == hint
    assert not test_terminal.on_terminal(FIXTURES / name, "--format", fmt, "-o", target, "--quiet")
    assert not clients.virtualize(FIXTURES / name, "--format", fmt, "-o", target).stderr


@pytest.mark.slow
def test_unpacked_values_need_a_package(packages, tmp_path):
    target = tmp_path / "refs.json"
    shown = test_terminal.on_terminal(FIXTURES / "hdf5/netcdf4.nc", "--format", "zarr3-json", "--unpack", "-o", target)
    assert shown.splitlines()[-1].endswith("pip install cast-value-rs")
    without = read(packages(), target)
    assert without.returncode and "cast-value-rs" in without.stderr
    cured = read(packages("cast_value", "cast_value_rs"), target)
    assert cured.returncode == 0, cured.stderr


def columns(line):
    """Return the columns of a line: two for wide characters, none for marks."""
    marks = ("Mn", "Me", "Cf")
    return sum(
        0 if unicodedata.category(c) in marks else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line
    )


@pytest.mark.parametrize("width", [60, 80, 100])
def test_lines_fit(width, tmp_path):
    import h5py

    path = tmp_path / "names.h5"
    names = ["気温", "x" * 120, "\u202egnp.exe", "a\tb\nc", "e\u0301tat", "ﬀ", "🌡"]
    with h5py.File(path, "w") as file:
        for depth, name in enumerate(names):
            group = file.require_group("/".join(["deep"] * depth) or "/")
            group.create_dataset(name, data=np.arange(12).reshape(3, 4), chunks=(2, 2))
    environment = {**os.environ, "COLUMNS": str(width)}
    binary = os.environ.get("VIRTUALIZE_BIN", "virtualize")
    run = subprocess.run([binary, "inspect", path], capture_output=True, env=environment, check=True)
    text = run.stdout.decode()
    assert max(map(columns, text.splitlines())) <= width, text
    assert "\u202e" not in text and "\t" not in text
    for name in ("気温", "e\u0301tat", "🌡", "a�b�c"):
        assert name in text
