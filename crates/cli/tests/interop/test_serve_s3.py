"""The service with S3 (moto behind a proxy that checks credentials): files as Zarr stores and references."""
import contextlib, json, re, urllib.error, urllib.parse, urllib.request

import clients
import numpy as np
import pytest
from service import started
from slow_s3 import SlowS3
from test_batch_s3 import filled, signed, values  # noqa: F401
from test_stores import s3  # noqa: F401


class Service:
    def __init__(self, url):
        self.url = url

    def ask(self, path):
        return urllib.request.urlopen(self.url + path, timeout=60)


@contextlib.contextmanager
def service(folder, environment, *more):
    with started(folder, arguments=["--allow", "s3://private/days/", *more], environment=environment) as url:
        yield Service(url)


def refused(ask):
    with pytest.raises(urllib.error.HTTPError) as caught:
        ask()
    return caught.value.code, json.load(caught.value)["code"]


def test_a_file_of_a_bucket_is_a_zarr_store(tmp_path, signed):  # noqa: F811
    import xarray as xr
    with service(tmp_path, signed) as running:
        with running.ask(f"/v1/zarr/{urllib.parse.quote('s3://private/days/d0003.nc', safe='')}") as root:
            store = root.url
        with xr.open_dataset(store, engine="zarr", chunks=None) as found:
            np.testing.assert_array_equal(found.t.values, values(3))
        for url in ["s3://public/days/d0000.nc", "s3://private/many/d0000.nc", "s3://private/days/../many/d0000.nc"]:
            status, code = refused(lambda: running.ask(f"/v1/references?url={url}"))
            assert (status, code) in [(403, "not-allowed"), (400, "url")], url


def test_without_the_right_key_the_store_refuses_and_nothing_is_revealed(tmp_path, signed):  # noqa: F811
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
        old = described()["store"]
        assert "cloud" not in json.load(running.ask(f"{old}/zarr.json"))["consolidated_metadata"]["metadata"]
        store.objects["a.nc"] = second
        new = described()["store"]
        assert "cloud" in json.load(running.ask(f"{new}/zarr.json"))["consolidated_metadata"]["metadata"]
        # The old version may still be in memory.
        with contextlib.suppress(urllib.error.HTTPError):
            assert "cloud" not in json.load(running.ask(f"{old}/zarr.json"))["consolidated_metadata"]["metadata"]
        assert running.ask(f"{new}/zarr.json").status == 200


def test_pages_of_a_bucket_together_are_its_keys(tmp_path, filled, signed):  # noqa: F811
    client = filled[2]
    for key in ["list/b.nc", "list/a/x.nc", "list/a.nc", "list/.hidden", "list/.virtualize-b.nc.lock", "list/c/d/y.nc", "lists/z.nc"]:
        client.put_object(Bucket="private", Key=key, Body=b"123")
    with service(tmp_path, signed, "--allow", "s3://private/list/") as running:
        ask = lambda target, more="": running.ask(f"/v1/folder?url={urllib.parse.quote(target)}{more}")
        whole = json.load(ask("s3://private/list/"))
        assert whole["folders"] == ["s3://private/list/a/", "s3://private/list/c/"] and whole["next"] is None
        assert [(file["url"], file["size"]) for file in whole["files"]] == [("s3://private/list/a.nc", 3), ("s3://private/list/b.nc", 3)]
        assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", file["modified"]) for file in whole["files"])
        found, after = [], ""
        for _ in range(20):
            page = json.load(ask("s3://private/list", f"&limit=1&after={urllib.parse.quote(after)}"))
            found += page["folders"] + [file["url"] for file in page["files"]]
            if not page["next"]:
                break
            after = page["next"]
        assert sorted(found) == sorted(whole["folders"] + [file["url"] for file in whole["files"]])
        for outside in ["s3://private/", "s3://private/lists/", "s3://private/list/../days/", "s3://private/lis"]:
            assert refused(lambda: ask(outside))[0] in (400, 403), outside
        assert json.load(ask("s3://private/list/none/"))["files"] == []
