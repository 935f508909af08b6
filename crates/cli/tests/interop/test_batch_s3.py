"""`scan` and `batch` from S3 to S3 (moto, which implements the protocol, behind a proxy that checks credentials): signed, denied and anonymous access,
and listings of several pages."""
import io, json, warnings

import clients
import h5py
import numpy as np
import pytest
from clients import virtualize
from test_credentials import aws
from test_stores import CREDENTIALS, REGION, s3  # noqa: F401

DAYS, MANY = 6, 1_050
OUTPUTS = {"out.json": [], "v3.json": ["--format", "zarr3-json"], "out.zarr": [], "out.parquet": [], "out.icechunk": []}


def day(k):
    """Builds a file with one time and three values, hundreds per second."""
    with io.BytesIO() as made:
        with h5py.File(made, "w", libver="latest") as f:
            f["time"] = np.array([k], "i4")
            f["time"].attrs["units"] = "days since 2000-01-01"
            f["time"].make_scale("time")
            t = f.create_dataset("t", data=values(k), chunks=(1, 3))
            t.dims[0].attach_scale(f["time"])
        return made.getvalue()


def values(*days):
    return np.stack([[k, 2.5 * k, -k] for k in days]).astype("f8")


@pytest.fixture(scope="module")
def filled(s3):  # noqa: F811
    """Yields (endpoint, proxy, client) of a server with files in both buckets."""
    import boto3
    from moto.core import DEFAULT_ACCOUNT_ID
    from moto.s3.models import s3_backends
    endpoint, gate = s3
    client = boto3.client("s3", endpoint_url=endpoint, aws_access_key_id="the-key", aws_secret_access_key="the-secret", region_name=REGION)
    gate.open = True
    for k in range(DAYS):
        client.put_object(Bucket="private", Key=f"days/d{k:04}.nc", Body=day(k))
        client.put_object(Bucket="public", Key=f"days/d{k:04}.nc", Body=day(k), ACL="public-read")
    # Over HTTP, that many uploads would take half a minute.
    memory = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
    for k in range(MANY):
        memory.put_object("private", f"many/d{k:04}.nc", day(k))
    gate.open = False
    return endpoint, gate, client


@pytest.fixture
def signed(filled, monkeypatch):
    """An environment with the right key, for the binary and for the snippet that it prints."""
    environment = {**CREDENTIALS, "AWS_ENDPOINT_URL": filled[0]}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return environment


def batch(tmp_path, inputs, output, *more, status=0, env=None):
    run = virtualize("batch", inputs, "--concat-dim", "time", "-o", output, "--journal", tmp_path / "journal", *more, env=env)
    assert run.status == status, run.stderr
    return run


def opened(references, **options):
    """Opens the dataset in xarray through fsspec, with the bytes of the files from S3."""
    import xarray as xr
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        store = clients.open_store(references, protocol="s3", **options)
        return xr.open_dataset(store, engine="zarr", consolidated=False, decode_times=False, chunks=None).load()


def fetched(client, prefix, folder):
    """Fetches an output with boto3: the text of the references, or the folder of Parquet files."""
    keys = [entry["Key"] for entry in client.list_objects_v2(Bucket="private", Prefix=prefix)["Contents"]]
    for key in keys:
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        client.download_file("private", key, str(path))
    whole = [key for key in keys if key in (prefix, f"{prefix}/references.json")]
    return json.loads((folder / whole[0]).read_text()) if whole else str(folder / prefix)


def check(dataset, days):
    assert dataset["time"].values.tolist() == list(days)
    assert np.array_equal(dataset["t"].values, values(*days))


def remote(endpoint, **more):
    return {**more, "client_kwargs": {"endpoint_url": endpoint, "region_name": REGION}}


@pytest.mark.parametrize("name", OUTPUTS)
def test_from_s3_to_s3_with_credentials(filled, signed, tmp_path, name):
    endpoint, gate, client = filled
    gate.log.clear()
    run = batch(tmp_path, "s3://private/days/*.nc", f"s3://private/refs/{name}", *OUTPUTS[name], env=signed)
    assert gate.log and all(is_signed for _, _, is_signed in gate.log)
    if name == "out.icechunk":
        scope = {}
        exec(run.stdout, scope)
        assert np.array_equal(scope["dataset"]["t"].values, values(*range(DAYS)))
        return
    references = fetched(client, f"refs/{name}", tmp_path)
    check(opened(references, **remote(endpoint, key="the-key", secret="the-secret")), range(DAYS))
    # The same command reports that it is up to date.
    gate.log.clear()
    run = batch(tmp_path, "s3://private/days/*.nc", f"s3://private/refs/{name}", *OUTPUTS[name], env=signed)
    assert "up to date" in run.stderr
    # Only the lock is written; object_store deletes with POST.
    assert {method for method, path, _ in gate.log if not path.startswith("/private/refs/.virtualize-")} <= {"GET", "HEAD", "POST"}


@pytest.mark.parametrize("expires", [False, True])
def test_repositories_are_written_with_a_profile(filled, signed, tmp_path, expires):
    """Its keys come from the AWS CLI, which is called again before they expire."""
    endpoint, gate, _ = filled
    import datetime
    soon = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=2)).isoformat()
    keys = {"Version": 1, "AccessKeyId": "the-key", "SecretAccessKey": "the-secret"} | ({"Expiration": soon} if expires else {})
    (tmp_path / "keys.json").write_text(json.dumps(keys))
    (tmp_path / "options.toml").write_text(f'[store."s3://private/"]\nprofile = "lab"\nendpoint = "{endpoint}"\n')
    env = {"HOME": str(tmp_path), "AWS_REGION": REGION, "AWS_ALLOW_HTTP": "true", **aws(tmp_path, 'echo "$@" >> "$HOME/calls"; cat "$HOME/keys.json"')}
    gate.log.clear()
    output = f"s3://private/refs/profile{expires:d}.icechunk"
    for days in ("s3://private/days/d000[0-3].nc", "s3://private/days/d000[45].nc"):
        more = [] if "0-3" in days else ["--append"]
        run = batch(tmp_path, days, output, "--config", tmp_path / "options.toml", *more, env=env)
    assert gate.log and all(is_signed for _, _, is_signed in gate.log)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert set(calls) == {"configure export-credentials --format process --profile lab"} and len(calls) >= 2
    assert "the-secret" not in run.stdout.decode() + run.stderr
    # The reader has keys of its own.
    scope = {}
    exec(run.stdout, scope)
    assert np.array_equal(scope["dataset"]["t"].values, values(*range(DAYS)))
    (tmp_path / "bin/aws").write_text("#!/bin/sh\necho 'Error loading SSO Token' >&2; exit 255\n")
    run = batch(tmp_path, days, output, "--config", tmp_path / "options.toml", "--append", status=1, env=env)
    assert "Error loading SSO Token" in run.stderr and "aws sso login --profile lab" in run.stderr, run.stderr


@pytest.mark.parametrize("name", ["out.json", "out.zarr"])
def test_an_output_on_s3_is_compared_before_it_is_called_up_to_date(filled, signed, tmp_path, name):
    _, _, client = filled
    output, arguments = f"s3://private/compared/{name}", ("s3://private/days/*.nc", f"s3://private/compared/{name}")

    def keys():
        return [entry["Key"] for entry in client.list_objects_v2(Bucket="private", Prefix=f"compared/{name}").get("Contents", [])]

    def texts():
        return {key: client.get_object(Bucket="private", Key=key)["Body"].read() for key in keys()}

    batch(tmp_path, *arguments, env=signed)
    whole = texts()
    for key in keys():
        client.delete_object(Bucket="private", Key=key)
    assert "up to date" not in batch(tmp_path, *arguments, env=signed).stderr and texts() == whole
    client.put_object(Bucket="private", Key=keys()[0], Body=b"{}")
    run = batch(tmp_path, *arguments, status=1, env=signed)
    assert "not what this journal wrote" in run.stderr and "--overwrite" in run.stderr and output in run.stderr
    batch(tmp_path, *arguments, "--overwrite", env=signed)
    assert texts() == whole
    assert "up to date" in batch(tmp_path, *arguments, env=signed).stderr
    assert not [key for entry in client.list_objects_v2(Bucket="private").get("Contents", []) if ".virtualize-" in (key := entry["Key"])]


def test_outputs_of_single_files_on_s3_are_compared_too(filled, signed, tmp_path):
    _, _, client = filled
    arguments = ("batch", "s3://private/days/", "--each", "-o", "s3://private/single/", "--journal", tmp_path / "journal")
    assert virtualize(*arguments, env=signed).status == 0
    client.put_object(Bucket="private", Key="single/d0001.nc.json", Body=b"{}")
    client.delete_object(Bucket="private", Key="single/d0002.nc.json")
    run = virtualize(*arguments, env=signed)
    assert run.status == 0 and " 2 read" in run.stderr, run.stderr
    assert json.loads(client.get_object(Bucket="private", Key="single/d0001.nc.json")["Body"].read())["refs"]
    assert " 0 read" in virtualize(*arguments, env=signed).stderr


@pytest.mark.slow
def test_an_output_on_s3_has_one_writer(filled, signed, tmp_path):
    """A lock that is refreshed belongs to a running process; a stale one is taken over."""
    import threading
    _, _, client = filled
    lock = dict(Bucket="private", Key="locked/.virtualize-out.json.lock")
    ended = threading.Event()

    def live():
        beat = 0
        while not ended.wait(0.3):
            client.put_object(**lock, Body=f"{(beat := beat + 1)}".encode())

    client.put_object(**lock, Body=b"another process")
    thread = threading.Thread(target=live)
    thread.start()
    try:
        run = batch(tmp_path, "s3://private/days/*.nc", "s3://private/locked/out.json", status=1, env=signed)
        assert "another process is writing it" in run.stderr
    finally:
        ended.set()
        thread.join()
    client.put_object(**lock, Body=b"a process that was killed")
    batch(tmp_path, "s3://private/days/*.nc", "s3://private/locked/out.json", env=signed)
    assert [entry["Key"] for entry in client.list_objects_v2(Bucket="private", Prefix="locked/")["Contents"]] == ["locked/out.json"]


def test_each_file_has_references_on_s3(filled, signed, tmp_path):
    _, gate, client = filled
    run = virtualize("batch", "s3://private/days/", "--each", "-o", "s3://private/each/", "--journal", tmp_path / "journal", env=signed)
    assert run.status == 0, run.stderr
    gate.open = True
    keys = [entry["Key"] for entry in client.list_objects_v2(Bucket="private", Prefix="each/")["Contents"]]
    text = client.get_object(Bucket="private", Key="each/d0003.nc.json")["Body"].read()
    gate.open = False
    assert keys == [f"each/d{k:04}.nc.json" for k in range(DAYS)]
    assert json.loads(text) == clients.virtualize("s3://private/days/d0003.nc", env=signed).references


def test_more_keys_than_a_page_has(filled, signed, tmp_path):
    endpoint, gate, _ = filled
    gate.log.clear()
    report = json.loads(virtualize("scan", "s3://private/many/d000?.nc", "--json", env=signed).stdout)
    assert report["files"] == 10 and len(report["sets"]) == 1
    gate.log.clear()
    batch(tmp_path, "s3://private/many/", tmp_path / "out.json", env=signed)
    listings = [path for method, path, _ in gate.log if method == "GET" and path.rstrip("/") == "/private"]
    files = [path for method, path, _ in gate.log if path.startswith("/private/many/")]
    assert len(listings) == 2 and len(files) == len(set(files)) == MANY
    references = json.loads((tmp_path / "out.json").read_text())
    named = {value[0] for value in references["refs"].values() if isinstance(value, list)}
    assert named == {f"s3://private/many/d{k:04}.nc" for k in range(MANY)}
    import xarray as xr
    store = clients.open_store(references, protocol="s3", **remote(endpoint, key="the-key", secret="the-secret"))
    with xr.open_dataset(store, engine="zarr", consolidated=False, decode_times=False, chunks=None) as dataset:
        assert np.array_equal(dataset["time"].values, np.arange(MANY))
        assert np.array_equal(dataset["t"][995:1005].values, values(*range(995, 1005)))


def test_a_wrong_key_is_denied_in_one_clear_line(filled, signed, tmp_path):
    wrong = {**signed, "AWS_ACCESS_KEY_ID": "another-key"}
    output = tmp_path / "out.json"
    for command in (["scan"], ["batch", "--concat-dim", "time", "-o", output, "--journal", tmp_path / "journal"]):
        for inputs in ("s3://private/days/*.nc", "s3://private/days/d0000.nc"):
            run = virtualize(*command, inputs, env=wrong)
            assert run.status == 1 and not output.exists(), (command, inputs)
            last = run.stderr.splitlines()[-1]
            assert "s3://private/days/" in last and "access denied: " in last and "AWS_ACCESS_KEY_ID" in last, run.stderr
            assert "the-secret" not in run.stderr
    # With the right key, the same journal continues.
    batch(tmp_path, "s3://private/days/*.nc", output, "--on-failure", "retry", env=signed)
    assert output.exists()


def test_an_output_that_may_not_be_written_says_so(filled, signed, tmp_path):
    """The sources are public, the bucket of the output is not."""
    endpoint, _, _ = filled
    anonymous = ["--anonymous", "--endpoint", endpoint, "--store-option", f"aws_region={REGION}", "--store-option", "aws_allow_http=true"]
    run = batch(tmp_path, "s3://public/days/*.nc", "s3://private/refs/denied.json", *anonymous, status=1)
    assert run.stderr.splitlines()[-1].startswith("error: s3://private/refs/denied.json: access denied: "), run.stderr


def test_anonymous(filled, tmp_path):
    endpoint, gate, _ = filled
    anonymous = ["--anonymous", "--endpoint", endpoint, "--store-option", f"aws_region={REGION}", "--store-option", "aws_allow_http=true"]
    gate.log.clear()
    run = virtualize("scan", "s3://public/days/*.nc", "--json", *anonymous)
    assert run.status == 0, run.stderr
    assert json.loads(run.stdout)["files"] == DAYS
    batch(tmp_path, "s3://public/days/", tmp_path / "out.json", *anonymous)
    assert gate.log and not any(is_signed for _, _, is_signed in gate.log)
    check(opened(json.loads((tmp_path / "out.json").read_text()), **remote(endpoint, anon=True)), range(DAYS))
