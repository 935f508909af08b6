"""Stores that fail for file after file: the run stops, leaves the remaining files, and resumes when rerun. Files that fail by themselves are not an
outage."""
import json

import h5py
import numpy as np
import pytest
from clients import virtualize
from slow_s3 import SlowS3
from test_batch import content

FILES = 80
# Status and code; without a status, connections are closed without a response.
OUTAGES = {"throttled": (503, "SlowDown"), "broken": (500, "InternalError"), "expired": (400, "ExpiredToken"), "denied": (403, "AccessDenied"), "unreachable": (None, "")}
QUICK = ("--format", "kerchunk-json", "--option", "retries=1", "--option", "concurrency=8")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Writes files that take two requests or more each."""
    folder, found = tmp_path_factory.mktemp("files"), {}
    for k in range(FILES):
        with h5py.File(folder / f"{k:03}.nc", "w") as f:
            time = f.create_dataset("time", data=np.array([k], "i4"))
            time.attrs["units"] = "days since 2000-01-01"
            time.make_scale("time")
            v = f.create_dataset("v", data=np.full((1, 4), k, "f4"), chunks=(1, 4))
            v.dims[0].attach_scale(time)
        found[f"{folder.name}/{k:03}.nc"] = (folder / f"{k:03}.nc").read_bytes()
    return found


@pytest.fixture
def bucket(files):
    with SlowS3(files) as server:
        yield server


def urls(server):
    return [f"s3://bucket/{key}" for key in sorted(server.objects)]


def batch(server, output, *more, status=0, inputs=None, attempts=2):
    run = virtualize("batch", *(inputs or urls(server)), *QUICK, "--option", f"attempts={attempts}", "-o", output, *more, env=server.env)
    assert run.status == status and "panicked" not in run.stderr, run.stderr
    return run


@pytest.fixture(params=["--concat-dim", "--each"])
def how(request):
    return ("--concat-dim", "time") if request.param == "--concat-dim" else ("--each",)


@pytest.mark.parametrize("outage, how, healthy", [*((outage, "--concat-dim", 0) for outage in OUTAGES), ("throttled", "--concat-dim", 0.5), ("expired", "--concat-dim", 0.5),
                                                  ("unreachable", "--each", 0.5)], indirect=["how"])
def test_an_outage_costs_few_requests_and_no_file(bucket, tmp_path, how, outage, healthy):
    batch(bucket, tmp_path / "undisturbed", *how)
    bucket.outage, bucket.healthy = OUTAGES[outage], int(healthy * bucket.requested.total())
    run = batch(bucket, tmp_path / "out", *how, status=1)
    assert "s3://bucket is unavailable" in run.stderr and "run the same command again when the store answers" in run.stderr, run.stderr
    assert "panicked" not in run.stderr and (how == ("--each",) or not (tmp_path / "out").exists())
    # If access is denied from the start, a folder may be private: 64 files are tried.
    most = 75 if (outage, healthy) == ("denied", 0) else 8 * 2 * 2 + 8
    assert bucket.refused <= most, bucket.refused
    bucket.outage = None
    batch(bucket, tmp_path / "out", *how)
    same = content(tmp_path / "out"), content(tmp_path / "undisturbed")
    assert same[0] == same[1] if how != ("--each",) else set(same[0]) == set(same[1])


def test_a_short_outage_is_waited_for(bucket, tmp_path):
    bucket.outage, bucket.healthy, bucket.lasting = (503, "SlowDown"), 20, 18
    batch(bucket, tmp_path / "out.json", "--concat-dim", "time", attempts=4)


@pytest.mark.parametrize("private", [range(0, 60), range(10, 40), range(0, FILES, 7), [FILES - 1]])
def test_private_files_among_others_are_not_an_outage(bucket, tmp_path, private):
    keys = sorted(bucket.objects)
    bucket.private = {keys[k] for k in private}
    run = batch(bucket, tmp_path / "refs", "--each", status=1)
    assert f"{len(private)} failed" in run.stderr or f"{len(private)} file" in run.stderr, run.stderr
    assert "is unavailable" not in run.stderr
    assert len(list((tmp_path / "refs").rglob("*.json"))) == FILES - len(private)
    run = batch(bucket, tmp_path / "out.json", "--concat-dim", "time", "--on-failure", "skip")
    assert "is unavailable" not in run.stderr


def test_other_stores_are_read_to_the_end(bucket, files, tmp_path):
    with SlowS3(files) as other:
        bucket.outage = (503, "SlowDown")
        where = other.env["AWS_ENDPOINT_URL"]
        inputs = [*urls(bucket), *(f"{where}/bucket/{key}" for key in sorted(files))]
        run = batch(bucket, tmp_path / "out.json", "--concat-dim", "time", status=1, inputs=inputs)
        assert f"{FILES} of {2 * FILES} files were not read" in run.stderr, run.stderr
        assert all(other.requested[key] for key in files)


def test_few_files_that_a_store_failed_are_tried_by_the_same_command(bucket, tmp_path):
    keys = sorted(bucket.objects)
    bucket.failing[keys[3]] = 4
    batch(bucket, tmp_path / "out.json", "--concat-dim", "time", status=1)
    run = batch(bucket, tmp_path / "out.json", "--concat-dim", "time")
    assert "1 to be read" in run.stderr, run.stderr


@pytest.mark.parametrize("outage", ["throttled", "expired"])
def test_scans(bucket, tmp_path, outage):
    bucket.outage, bucket.healthy = OUTAGES[outage], 30
    run = virtualize("scan", *urls(bucket), *QUICK[2:], "--attempts", "2", "--json", env=bucket.env)
    assert run.status == 1 and "s3://bucket is unavailable" in run.stderr, run.stderr
    found = json.loads(run.stdout)
    assert found["files"] + len(found["failed"]) == FILES and found["files"] > 5 and bucket.refused <= 40
