"""Files with one time each, on disk and in an S3-like server, for tests of runs over many files."""

import io
import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np

ROOT = Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "crates/cli/tests/interop"))

from slow_s3 import SlowS3  # noqa: E402

DAYS = 12


def day(k: int) -> bytes:
    """Return a file with one time and three values."""
    with io.BytesIO() as made:
        with h5py.File(made, "w", libver="latest") as f:
            f["time"] = np.array([k], "i4")
            f["time"].attrs["units"] = "days since 2000-01-01"
            f["time"].make_scale("time")
            t = f.create_dataset("t", data=np.array([[k, 2.5 * k, -k]], "f8"), chunks=(1, 3))
            t.dims[0].attach_scale(f["time"])
        return made.getvalue()


def write_days(folder: Path, count: int = DAYS) -> list[Path]:
    """Write files to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"d{k:03}.nc" for k in range(count)]
    for k, file in enumerate(files):
        file.write_bytes(day(k))
    return files


def bucket(latency: float = 0.0, count: int = DAYS) -> SlowS3:
    """Return a server with files."""
    return SlowS3({f"era/d{k:03}.nc": day(k) for k in range(count)}, latency)


def environment(server: SlowS3 | None = None) -> dict[str, str]:
    """Return an environment without settings of stores, but those of the server."""
    stores = ("AWS_", "AZURE_", "GOOGLE_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(stores)}
    return {**kept, **(server.env if server else {})}


def command(*arguments: object, status: int = 0, server: SlowS3 | None = None) -> str:
    """Run the command of the package, and return what it prints."""
    run = subprocess.run(
        [sys.executable, "-m", "virtualize", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment(server),
        timeout=120,
        check=False,
    )
    assert run.returncode == status, run.stderr
    return run.stdout + run.stderr


def content(output: Path) -> dict[str, bytes]:
    """Return the files of an output."""
    if output.is_file():
        return {"": output.read_bytes()}
    return {str(f.relative_to(output)): f.read_bytes() for f in output.rglob("*") if f.is_file()}
