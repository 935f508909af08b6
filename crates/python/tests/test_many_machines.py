"""The Python recipes of docs/many-machines.md run as they are written, in processes of their own."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import virtualize
from many_files import ROOT, bucket, content, environment
from slow_s3 import SlowS3

BLOCKS = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/many-machines.md").read_text(), re.M | re.S)
EXECUTORS = "ProcessPoolExecutor", "LocalCluster", "RayExecutor", "lithops"


@pytest.fixture(scope="module")
def server() -> Iterator[SlowS3]:
    with bucket(count=12) as made:
        made.objects = {key.replace("era/", "era5/"): body for key, body in made.objects.items()}
        yield made


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="processes of other packages")
@pytest.mark.parametrize("block", BLOCKS, ids=[next(name for name in EXECUTORS if name in block) for block in BLOCKS])
def test_recipe(block: str, server: SlowS3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "recipe.py"
    # Several shards, from few files.
    assert "concat_dim=" in block
    script.write_text(block.replace("concat_dim=", "shard_size=4, concat_dim="))
    # None of these may reach for the network.
    more = {"RAY_USAGE_STATS_ENABLED": "0", "LITHOPS_TELEMETRY": "false", "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path,
        env={**environment(server), **more},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for name, value in server.env.items():
        monkeypatch.setenv(name, value)
    virtualize.batch("s3://bucket/era5/*.nc", tmp_path / "whole.parquet", concat_dim="time")
    assert content(tmp_path / "era5.parquet") == content(tmp_path / "whole.parquet") != {}
    assert not (tmp_path / "era5.parquet.shards").exists()


def test_recipes_are_found() -> None:
    assert len(BLOCKS) >= 3
