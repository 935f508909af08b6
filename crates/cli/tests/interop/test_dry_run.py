"""What `--dry-run` reports, compared with what the run then does."""
import hashlib, json, os

import h5py
import numpy as np
import pytest
from clients import virtualize
from slow_s3 import SlowS3

FILES = 120


def write(path, k, chunk=1, dtype="f4", scale=None, length=1):
    """Writes a file of one time step, with enough attributes that it takes several requests."""
    with h5py.File(path, "w") as f:
        time = f.create_dataset("time", data=np.arange(k, k + length, dtype="i4"))
        time.attrs["units"] = "days since 2000-01-01"
        time.make_scale("time")
        v = f.create_dataset("v", data=np.full((length, 40), k, dtype), chunks=(chunk, 40), maxshape=(None, 40), compression="gzip")
        v.dims[0].attach_scale(time)
        if scale:
            v.attrs["scale_factor"] = np.float32(scale)
        f.attrs["history"] = "x" * 2000


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder, found = tmp_path_factory.mktemp("files"), {}
    for k in range(FILES):
        write(folder / "one.nc", k)
        found[f"a/{k:03}.nc"] = (folder / "one.nc").read_bytes()
    return found


@pytest.fixture
def bucket(files):
    with SlowS3(files, latency=0.02) as server:
        yield server


def batch(server, output, *more, status=0, how=("--concat-dim", "time")):
    run = virtualize("batch", "s3://bucket/a/", *how, "-o", output, *more, env=server.env)
    assert run.status == status, run.stderr
    return run


def dry(server, output, *more, status=0, how=("--concat-dim", "time")):
    return json.loads(batch(server, output, "--dry-run", "--json", *more, status=status, how=how).stdout)


def everything(folder):
    return {str(path): (hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None) for path in folder.rglob("*")}


@pytest.mark.parametrize("how", [("--concat-dim", "time"), ("--each", "-f", "kerchunk-json")])
def test_the_estimate_is_close_to_the_run(bucket, tmp_path, how):
    found = dry(bucket, tmp_path / "out.json", how=how)
    assert not list(tmp_path.iterdir()), "nothing is written"
    size = sum(map(len, bucket.objects.values()))
    assert (found["files"], found["new"], found["to_read"], found["bytes"], found["bytes_to_read"]) == (FILES, FILES, FILES, size, size)
    assert (found["sample"], found["failed"], found["refused"]) == (20, [], [])
    assert bucket.asked.total() - bucket.asked["?list"] == found["sample_stats"]["requests"]
    bucket.asked.clear(), bucket.looked.clear()
    batch(bucket, tmp_path / "out.json", "--json-log", tmp_path / "log", how=how)
    estimate, lists = found["estimate"], bucket.asked["?list"]
    read = [event for event in map(json.loads, (tmp_path / "log").read_text().splitlines()) if event["event"] == "read"]
    assert estimate["requests"] == sum(event["requests"] for event in read) and estimate["listings"] == lists
    assert estimate["bytes"] == pytest.approx(sum(event["bytes"] for event in read), rel=0.05)
    took = max(e["time"] for e in read) - min(e["time"] - e["seconds"] for e in read)
    # The server, and other processes, decide how long it really takes.
    assert 0 < estimate["seconds"] < took * 10
    journal = os.path.getsize(tmp_path / "out.json.journal")
    assert journal / 4 < estimate["journal"] < journal * 2, (journal, estimate)
    assert estimate["cost"] == pytest.approx((estimate["requests"] * 0.0004 + lists * 0.005) / 1000)
    assert [group["files"] for group in found["groups"]] == ([20] if "--each" not in how else [])


def test_the_journal_is_compared_and_stays_as_it_is(bucket, files, tmp_path):
    batch(bucket, tmp_path / "out.json")
    before = everything(tmp_path)
    found = dry(bucket, tmp_path / "out.json")
    assert [found[name] for name in ("files", "new", "changed", "to_read", "vanished", "sample")] == [FILES, 0, 0, 0, 0, 0]
    assert found["estimate"] is None and "nothing is to be read" in batch(bucket, tmp_path / "out.json", "--dry-run").stdout.decode()
    del bucket.objects["a/003.nc"], bucket.objects["a/005.nc"]
    bucket.objects["a/007.nc"] = files["a/003.nc"]
    for k in range(7):
        bucket.objects[f"a/new{k}.nc"] = files["a/005.nc"]
    found = dry(bucket, tmp_path / "out.json", "--sample", "3", status=1)
    assert [found[name] for name in ("files", "new", "changed", "to_read", "vanished", "sample")] == [FILES + 5, 7, 1, 8, 2, 3]
    assert len(found["refused"]) == 2 and "003.nc" in found["refused"][0] and "--drop-vanished" in found["refused"][0], found["refused"]
    found = dry(bucket, tmp_path / "out.json", "--drop-vanished", "--on-duplicate", "first", status=0)
    assert found["refused"] == [] and found["to_read"] == 8
    other = dry(bucket, tmp_path / "out.json", "--concat-var", "w", "--on-duplicate", "first", status=1)
    assert "other options" in other["refused"][0] and other["new"] == FILES + 5, other
    assert everything(tmp_path) == before, "the journal and the output stay as they are"
    run = virtualize("batch", "s3://bucket/a/new0.nc", "--append", "--reread-changed", "--drop-vanished", "--concat-dim", "time", "-o", tmp_path / "out.json",
                     "--dry-run", "--json", env=bucket.env)
    appended = json.loads(run.stdout)
    assert (appended["files"], appended["new"], appended["vanished"]) == (1, 1, 2) and everything(tmp_path) == before


def refusals(tmp_path, *more, status=1):
    run = virtualize("batch", tmp_path / "files", "-o", tmp_path / "out.json", "--dry-run", "--json", *more)
    assert run.status == status, run.stderr
    assert not list(tmp_path.glob("out*"))
    found = json.loads(run.stdout)
    return found["refused"], [failed["error"] for failed in found["failed"]], found["groups"]


def test_what_would_be_refused(tmp_path):
    (tmp_path / "files").mkdir()
    for k in range(0, 50, 5):
        write(tmp_path / f"files/{k:02}.nc", k, length=5, chunk=2)
    refused, failed, groups = refusals(tmp_path, "--concat-dim", "time", "--copy-limit", "0")
    assert len(refused) == 1 and refused[0].startswith("v of ") and "chunk" in refused[0] and not failed and len(groups) == 1, refused
    run = virtualize("batch", tmp_path / "files", "-o", tmp_path / "real.json", "--concat-dim", "time", "--copy-limit", "0")
    assert run.status == 1 and refused[0] in run.stderr, (refused, run.stderr)
    assert refusals(tmp_path, "--concat-dim", "time", status=0)[0] == [], "small arrays are copied"
    _, failed, _ = refusals(tmp_path, "--concat-dim", "level")
    assert len(failed) == 10 and "no array has a dimension level" in failed[0], failed
    run = virtualize("batch", tmp_path / "files", "-o", tmp_path / "out.json", "--dry-run")
    assert run.status == 2 and "no dimension is given" in run.stderr
    write(tmp_path / "files/07.nc", 50, scale=0.5)
    (tmp_path / "files/33.nc").write_bytes(b"no file")
    refused, failed, groups = refusals(tmp_path, "--concat-dim", "time")
    assert "2 groups" in refused[-1] and len(failed) == 1 and "33.nc" in failed[0]
    assert [group["files"] for group in groups] == [10, 1] and "scale_factor" in " ".join(groups[1]["differences"])
    text = virtualize("batch", tmp_path / "files", "-o", tmp_path / "out.json", "--dry-run", "--concat-dim", "time", "--on-mismatch", "skip").stdout.decode()
    assert "group: 10 files of the sample" in text and "group: 1 file of the sample" in text and "estimate for 12 files, from 11 files" in text, text
    # An output that the run would not replace.
    (tmp_path / "files/07.nc").unlink(), (tmp_path / "files/33.nc").unlink(), (tmp_path / "there.parquet").mkdir()
    (tmp_path / "there.parquet/x").write_text("x")
    run = virtualize("batch", tmp_path / "files", "-o", tmp_path / "there.parquet", "--concat-dim", "time", "--dry-run")
    assert run.status == 1 and b"--overwrite" in run.stdout, run.stdout
