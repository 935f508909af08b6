"""`convert`, `validate` and `diff` with references and sources on S3 (moto) or behind HTTP, on loopback."""
import json, pathlib, subprocess, sys

import clients
import h5py
import numpy as np
import pytest
import zarr
from clients import FIXTURES, virtualize
from test_stores import CREDENTIALS, REGION, Handler, s3, web  # noqa: F401

SAMPLE = FIXTURES / "hdf5/chunked.h5"
FORMATS = {"kerchunk-json": "refs.json", "zarr3-json": "refs3.json", "zarr3": "refs.zarr", "kerchunk-parquet": "refs.parquet"}
RELATIVE = [("kerchunk-json", []), ("kerchunk-json", ["--relative"]), ("zarr3-json", ["--relative"]), ("zarr3", []), ("kerchunk-parquet", ["--relative"])]


def truth():
    with h5py.File(SAMPLE) as f:
        return {name: f[name][()] for name in ("temperature", "lat", "lon")}


def values(references, **remote):
    version = 3 if "zarr.json" in references["refs"] else 2
    store = clients.open_store(references, **remote)
    return {name: zarr.open_array(store, path=name, mode="r", zarr_format=version)[...] for name in truth()}


def same(one, other):
    assert set(one) == set(other)
    assert all(clients.same_bits(one[name], other[name]) is None for name in one)


def urls(references):
    return {value[0] for value in references["refs"].values() if isinstance(value, list)}


@pytest.fixture
def bucket(s3):  # noqa: F811
    """Yields a client, the environment that reaches it, and fsspec's options."""
    import boto3
    endpoint, gate = s3
    gate.open = True
    client = boto3.client("s3", endpoint_url=endpoint, aws_access_key_id="the-key", aws_secret_access_key="the-secret", region_name=REGION)
    for page in client.list_objects_v2(Bucket="private", Prefix="here/").get("Contents", []):
        client.delete_object(Bucket="private", Key=page["Key"])
    client.upload_file(str(SAMPLE), "private", "here/chunked.h5")
    remote = {"protocol": "s3", "key": "the-key", "secret": "the-secret", "client_kwargs": {"endpoint_url": endpoint, "region_name": REGION}}
    yield client, {**CREDENTIALS, "AWS_ENDPOINT_URL": endpoint}, remote
    gate.open = False


def run(*arguments, env, status=0):
    done = virtualize(*arguments, env=env)
    assert done.status == status, done.stdout.decode() + done.stderr
    return done


@pytest.mark.parametrize("fmt, relative", RELATIVE, ids=str)
def test_references_on_s3_to_files_on_s3(bucket, fmt, relative):
    """Written next to the file with absolute or relative urls, then read, validated, converted to every format, and compared."""
    _, env, remote = bucket
    source, refs = "s3://private/here/chunked.h5", f"s3://private/here/{FORMATS[fmt]}"
    run(source, "-f", fmt, "-o", refs, *relative, env=env)
    report = json.loads(run("validate", refs, "--full", "--json", env=env).stdout)
    assert report["valid"] and [one["name"] for one in report["sources"]] == [source]
    assert {one["name"]: one["decoded"] for one in report["arrays"]}["temperature"] == 3
    for to in ("kerchunk-json", "zarr3-json"):
        converted = run("convert", refs, "-f", to, env=env).references
        assert urls(converted) == {source}
        same(values(converted, **remote), truth())
    run("convert", refs, "-f", "kerchunk-parquet", "-o", "s3://private/here/again.parquet", "--option", "record-size=2", *relative, env=env)
    assert run("diff", refs, "s3://private/here/again.parquet", env=env).stdout == b""
    assert run("diff", source, "s3://private/here/again.parquet", env=env).stdout == b""


def test_parquet_on_s3_is_read_by_fsspec(bucket):
    client, env, remote = bucket
    run("s3://private/here/chunked.h5", "-o", "s3://private/here/refs.json", env=env)
    run("convert", "s3://private/here/refs.json", "-f", "kerchunk-parquet", "-o", "s3://private/here/refs.parquet", env=env)
    keys = {entry["Key"] for entry in client.list_objects_v2(Bucket="private", Prefix="here/refs.parquet/")["Contents"]}
    assert keys == {f"here/refs.parquet/{key}" for key in (".zmetadata", "lat/refs.0.parq", "lon/refs.0.parq", "temperature/refs.0.parq")}
    options = {key: value for key, value in remote.items() if key != "protocol"}
    code = ("import fsspec, sys, json, warnings; warnings.simplefilter('ignore'); o = json.loads(sys.argv[1]);"
            "fs = fsspec.filesystem('reference', fo='s3://private/here/refs.parquet', target_protocol='s3', target_options=o, remote_protocol='s3', remote_options=o);"
            "sys.stdout.buffer.write(fs.cat('temperature/0.0'))")
    done = subprocess.run([sys.executable, "-c", code, json.dumps(options)], capture_output=True)
    _, offset, length = run("convert", "s3://private/here/refs.parquet", env=env).references["refs"]["temperature/0.0"]
    assert done.stdout == SAMPLE.read_bytes()[offset:offset + length], done.stderr.decode()[-500:]


def test_what_changed_on_s3_is_found(bucket):
    client, env, _ = bucket
    source, refs = "s3://private/here/chunked.h5", "s3://private/here/refs.json"
    run(source, "-o", refs, env=env)
    run("convert", refs, "-f", "icechunk", "-o", "s3://private/here/repository", env=env)
    assert json.loads(run("validate", "s3://private/here/repository", "--json", env=env).stdout)["valid"]
    damaged = bytearray(SAMPLE.read_bytes())
    _, offset, length = run("convert", refs, env=env).references["refs"]["temperature/0.0"]
    damaged[offset + length // 2] ^= 0xFF
    client.put_object(Bucket="private", Key="here/chunked.h5", Body=bytes(damaged))
    assert b"chunk 0.0: " in run("validate", refs, "--full", env=env, status=1).stdout
    assert b"entity tag" in run("validate", "s3://private/here/repository", env=env, status=1).stdout
    client.delete_object(Bucket="private", Key="here/chunked.h5")
    assert b"not found" in run("validate", refs, env=env, status=1).stdout


def test_references_here_to_files_on_s3(bucket, tmp_path):
    """Relative urls are resolved against the given base."""
    _, env, remote = bucket
    run("s3://private/here/chunked.h5", "-o", "s3://private/here/refs.json", "--relative", env=env)
    client = bucket[0]
    client.download_file("private", "here/refs.json", str(tmp_path / "refs.json"))
    assert urls(json.loads((tmp_path / "refs.json").read_text())) == {"chunked.h5"}
    assert virtualize("validate", tmp_path / "refs.json", env=env).status == 1
    messages = ["--relative-to", "s3://private/here"]
    assert json.loads(run("validate", tmp_path / "refs.json", "--json", *messages, env=env).stdout)["valid"]
    converted = run("convert", tmp_path / "refs.json", "-f", "zarr3-json", *messages, env=env).references
    same(values(converted, **remote), truth())


# ---- HTTP: the server serves fixtures/; generated files are in a folder of their own below it

@pytest.fixture
def site(web, tmp_path, monkeypatch):  # noqa: F811
    """Yields (url of a served folder, the folder), which contains the sample."""
    (tmp_path / "chunked.h5").write_bytes(SAMPLE.read_bytes())
    monkeypatch.setattr(clients, "FIXTURES", tmp_path)
    Handler.failures.clear()
    yield f"{web[0]}/open", tmp_path


@pytest.mark.parametrize("fmt, relative", RELATIVE, ids=str)
def test_references_behind_http(site, fmt, relative):
    url, folder = site
    # Written to disk, like the folder of a web server, for the url from which they are read.
    run(folder / "chunked.h5", "-f", fmt, "-o", folder / FORMATS[fmt], *(relative or ["--rewrite-url", f"{folder}={url}"]), env={})
    refs = f"{url}/{FORMATS[fmt]}"
    report = json.loads(run("validate", refs, "--full", "--json", env={}).stdout)
    assert report["valid"] and [one["name"] for one in report["sources"]] == [f"{url}/chunked.h5"]
    for to in ("kerchunk-json", "zarr3-json"):
        converted = run("convert", refs, "-f", to, env={}).references
        assert urls(converted) == {f"{url}/chunked.h5"}
        same(values(converted, protocol="http"), truth())
    assert run("diff", refs, f"{url}/chunked.h5", env={}).stdout == b""
    (folder / "chunked.h5").write_bytes(SAMPLE.read_bytes()[:8280])
    assert b"outside the file" in run("validate", refs, env={}, status=1).stdout


def test_references_that_are_not_there(site):
    url, _ = site
    for command in (["convert"], ["validate"], ["diff", f"{url}/chunked.h5"]):
        done = virtualize(*command, f"{url}/nothing.json")
        assert done.status == 1 and "nothing.json" in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
        assert done.stdout == b""
