"""The service with S3 (moto behind a proxy that checks credentials): files as Zarr stores, references, and jobs from S3 to S3."""
import base64, json, urllib.error

import clients
import numpy as np
import pytest
from slow_s3 import SlowS3
from test_batch_s3 import DAYS, check, fetched, filled, opened, remote, signed, values  # noqa: F401
from test_serve_jobs import Service
from test_stores import s3  # noqa: F401


def service(folder, environment, *more):
    return Service(folder, folder, "--allow", "s3://private/days/", "--allow-write", "s3://private/refs/", *more, environment=environment)


def refused(ask):
    with pytest.raises(urllib.error.HTTPError) as caught:
        ask()
    return caught.value.code, json.load(caught.value)["code"]


def test_a_file_of_a_bucket_is_a_zarr_store(tmp_path, signed):  # noqa: F811
    import xarray as xr
    with service(tmp_path, signed) as running:
        source = base64.urlsafe_b64encode(b"s3://private/days/d0003.nc").decode().rstrip("=")
        with xr.open_dataset(f"{running.url}/v1/zarr/{source}", engine="zarr", chunks=None) as found:
            np.testing.assert_array_equal(found.t.values, values(3))
        for url in ["s3://public/days/d0000.nc", "s3://private/many/d0000.nc", "s3://private/days/../many/d0000.nc"]:
            status, code = refused(lambda: running.ask(f"/v1/references?url={url}"))
            assert (status, code) in [(403, "not-allowed"), (400, "url")], url


def test_a_job_reads_and_writes_buckets(tmp_path, signed, filled):  # noqa: F811
    job = {"kind": "batch", "inputs": ["s3://private/days/*.nc"], "concat_dim": ["time"]}
    with service(tmp_path, signed) as running:
        shown = running.ended(running.submit(**job, output="s3://private/refs/all.json"))
        assert shown["state"] == "done", shown
        assert shown["progress"]["read"] == DAYS
        for output in ["s3://private/other/all.json", "s3://private/refs/../days/d0000.nc", "s3://public/refs/all.json"]:
            assert refused(lambda: running.submit(**job, output=output))[0] in (400, 403), output
        for inputs in ["s3://public/days/*.nc", "s3://private/*/d0000.nc"]:
            assert refused(lambda: running.submit(**{**job, "inputs": [inputs]}))[0] in (400, 403), inputs
    endpoint, _, client = filled
    references = fetched(client, "refs/all.json", tmp_path)
    check(opened(references, **remote(endpoint, key="the-key", secret="the-secret")), range(DAYS))


def test_without_the_right_key_the_store_refuses_and_nothing_is_told(tmp_path, signed):  # noqa: F811
    with service(tmp_path, {**signed, "AWS_ACCESS_KEY_ID": "wrong"}) as running:
        assert refused(lambda: running.ask("/v1/references?url=s3://private/days/d0000.nc")) == (403, "source-denied")


def test_an_anonymous_service_reads_what_is_public(tmp_path, filled):  # noqa: F811
    environment = {"AWS_ENDPOINT_URL": filled[0], "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"}
    with service(tmp_path, environment, "--allow", "s3://public/", "--anonymous") as running:
        with running.ask("/v1/references?url=s3://public/days/d0001.nc") as answer:
            assert any(key.startswith("t/") for key in json.load(answer)["refs"])
        assert refused(lambda: running.ask("/v1/references?url=s3://private/days/d0001.nc"))[0] == 403


def test_a_path_with_a_version_works_as_soon_as_it_is_described(tmp_path):
    """Also if the service has an older version of the file in memory."""
    first, second = ((clients.FIXTURES / name).read_bytes() for name in ["hdf5/chunked.h5", "hdf5/netcdf4.nc"])
    with SlowS3({"a.nc": first}) as store, service(tmp_path, store.env, "--allow", "s3://bucket/", "--anonymous") as running:
        described = lambda: json.load(running.ask("/v1/inspect?url=s3://bucket/a.nc"))["zarr"]
        old = described()["versioned"]
        assert "cloud" not in json.load(running.ask(f"{old}zarr.json"))["consolidated_metadata"]["metadata"]
        store.objects["a.nc"] = second
        new = described()["versioned"]
        assert "cloud" in json.load(running.ask(f"{new}zarr.json"))["consolidated_metadata"]["metadata"]
        assert refused(lambda: running.ask(f"{old}zarr.json")) == (409, "source-changed")
        assert refused(lambda: running.ask(f"{old}temperature/c/0/0")) == (409, "source-changed")
        assert running.ask(f"{new}zarr.json").status == 200
