"""The package and its users pass mypy and pyright in strict mode."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import virtualize

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
PACKAGE = Path(virtualize.__file__).parent

USER = '''
from concurrent.futures import ProcessPoolExecutor
from typing import assert_type

import virtualize

store = virtualize.open("a.nc", anonymous=True, chunk_grid="rectilinear", readable_by=["virtualize"], storage_options={"anon": True})
assert_type(store, virtualize.VirtualStore)
store.to_kerchunk("a.json", format="kerchunk-json")
assert_type(store.to_icechunk("repository", branch="main"), str)
done = virtualize.batch(["a.nc"], "b.json", concat_dim="time", on_mismatch="stop", on_event=print)
assert_type(done, virtualize.events.Summary)
with ProcessPoolExecutor() as pool:
    virtualize.batch("a/*.nc", "b.json", concat_dim="time", executor=pool, shard_size=1000, shard_folder="c/")
assert_type([one.what for one in virtualize.diff("a.json", "b.json")], list[str])


async def run() -> None:
    assert_type(await virtualize.open_async("a.nc"), virtualize.VirtualStore)


try:
    virtualize.open("a.nc")
except virtualize.RefusedError as error:
    print([diagnostic.code for diagnostic in error.diagnostics])
'''

WRONG = '''
import virtualize

virtualize.open("a.nc", chunk_grid="hexagonal")
virtualize.open("a.nc", bands=3)
virtualize.batch("a.nc", "b.json", on_mismatch="stpo")
'''


def mypy(*paths):
    options = ["--config-file", PROJECT, "--no-incremental", "--cache-dir", "/dev/null"]
    command = [sys.executable, "-m", "mypy", *options, *paths]
    return subprocess.run(command, capture_output=True, text=True)


def pyright(*paths):
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, *paths]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(paths[0]).parent)
    found = json.loads(done.stdout)["generalDiagnostics"]
    return [f"{each['file']}:{each['range']['start']['line'] + 1} {each['message']}" for each in found if each["severity"] == "error"]


def strict(folder):
    (folder / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    return folder


def test_the_package(tmp_path):
    done = mypy("-p", "virtualize")
    assert done.returncode == 0, done.stdout
    # pyright checks only files below its configuration.
    copy = strict(tmp_path) / "virtualize"
    subprocess.run(["cp", "-r", PACKAGE, copy], check=True)
    assert pyright(copy) == []


def test_code_that_uses_it(tmp_path):
    user, wrong = strict(tmp_path) / "user.py", tmp_path / "wrong.py"
    user.write_text(USER)
    wrong.write_text(WRONG)
    done = mypy(user)
    assert done.returncode == 0, done.stdout
    assert pyright(user) == []
    assert mypy(wrong).stdout.count("error:") == 3
    assert len(pyright(wrong)) == 3
