"""Services that share a cache in a bucket, and listings of buckets (moto behind a proxy that checks credentials)."""
import base64, json, re, shutil, urllib.parse

import clients
from service import url
from test_batch_s3 import DAYS, filled, signed  # noqa: F401
from test_serve_monitoring import eventually, service
from test_stores import s3  # noqa: F401

HIT = 'virtualize_cache_lookups_total{cache="references",outcome="hit"}'
FILES = [clients.FIXTURES / "hdf5" / name for name in ("chunked.h5", "contiguous.h5")]


def metric(running, name):
    found = re.search(rf"^{re.escape(name)} (\S+)$", running.ask("/metrics")[1].decode(), re.MULTILINE)
    return float(found[1]) if found else 0


def test_services_share_a_cache_in_a_bucket(tmp_path, filled, signed):  # noqa: F811
    client = filled[2]
    keys = lambda: [found["Key"] for found in client.list_objects_v2(Bucket="private", Prefix="cache/").get("Contents", [])]
    file = tmp_path / "a.h5"
    shutil.copy(FILES[0], file)
    arguments = ["--allow", url(tmp_path) + "/", "--cache", "s3://private/cache/"]
    with service(*arguments, environment=signed) as one, service(*arguments, environment=signed) as other:
        target = f"/v1/references?url={urllib.parse.quote(url(file))}"
        status, made = one.ask(target)
        assert status == 200
        [entry] = eventually(keys)
        assert other.ask(target) == (200, made) and metric(other, HIT) == 1
        content = client.get_object(Bucket="private", Key=entry)["Body"].read()
        assert content[:-32] == made
        client.put_object(Bucket="private", Key=entry, Body=content[:-33] + b"x" + content[-32:])
        with service(*arguments, environment=signed) as third:
            assert third.ask(target) == (200, made) and metric(third, HIT) == 0

        # One version is held for both.
        store = "/v1/zarr/" + base64.urlsafe_b64encode(url(file).encode()).decode().rstrip("=")
        assert one.ask(f"{store}/zarr.json")[0] == 200
        assert any("/shown/" in key for key in keys())
        aside = tmp_path / "b.h5"
        shutil.copy(FILES[0], aside)
        aside.rename(file)
        assert other.ask(f"{store}/zarr.json")[0] == 409 and one.ask(f"{store}/temperature/c/0/0")[0] == 409


def test_pages_of_a_bucket_together_are_its_keys(tmp_path, filled, signed):  # noqa: F811
    client = filled[2]
    for key in ["list/b.nc", "list/a/x.nc", "list/a.nc", "list/.hidden", "list/.virtualize-b.nc.lock", "list/c/d/y.nc", "lists/z.nc"]:
        client.put_object(Bucket="private", Key=key, Body=b"123")
    with service("--allow", "s3://private/list/", environment=signed) as running:
        ask = lambda target, more="": running.ask(f"/v1/folder?url={urllib.parse.quote(target)}{more}")
        whole = json.loads(ask("s3://private/list/")[1])
        assert whole["folders"] == ["s3://private/list/a/", "s3://private/list/c/"] and whole["next"] is None
        assert [(file["url"], file["size"]) for file in whole["files"]] == [("s3://private/list/a.nc", 3), ("s3://private/list/b.nc", 3)]
        assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", file["modified"]) for file in whole["files"])
        found, after = [], ""
        for _ in range(20):
            page = json.loads(ask("s3://private/list", f"&limit=1&after={urllib.parse.quote(after)}")[1])
            found += page["folders"] + [file["url"] for file in page["files"]]
            if not page["next"]:
                break
            after = page["next"]
        assert sorted(found) == sorted(whole["folders"] + [file["url"] for file in whole["files"]])
        for outside in ["s3://private/", "s3://private/lists/", "s3://private/list/../days/", "s3://private/lis"]:
            assert ask(outside)[0] in (400, 403), outside
        assert json.loads(ask("s3://private/list/none/")[1])["files"] == []
    assert DAYS
