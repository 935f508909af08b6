"""Google Cloud Storage and Azure Blob Storage: our emulator of Google's API (gcs_server.py), and Azurite. gcsfs and adlfs read the output. Also keys of
all kinds on S3."""
import contextlib, gc, io, json, os, re, sqlite3, time, warnings

# Otherwise gcsfs requests the type of each bucket by gRPC from Google.
os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"

import azure_server, clients, gcs_server
import numpy as np
import pytest
from clients import FORMATS, either_format, virtualize  # noqa: F401
from test_batch_s3 import day, values
from test_stores import CREDENTIALS, FILES, REGION, s3, truth  # noqa: F401

DAYS = 10


@pytest.fixture(autouse=True, scope="module")
def finalizers_of_adlfs():
    """Runs the finalizers of adlfs after the tests. They keep the file system alive until exit, and fail then if zarr-python's loop is to run them."""
    import types

    import adlfs.spec
    from zarr.core.sync import sync as sync_zarr
    finalizers = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adlfs.spec, "weakref", types.SimpleNamespace(finalize=lambda _, *arguments: finalizers.append(arguments)))
        yield
    for sync, loop, close, file_system in finalizers:
        sync(loop, close, file_system) if loop else sync_zarr(close(file_system))


class Google:
    scheme, secret = "gs", gcs_server.TOKEN

    def __init__(self, url, store):
        self.url, self.store = url, store
        self.anonymous = {"STORAGE_EMULATOR_HOST": url}
        self.signed = {"GOOGLE_BASE_URL": url, "GOOGLE_ALLOW_HTTP": "true", "GOOGLE_BEARER_TOKEN": gcs_server.TOKEN}
        self.wrong = {**self.signed, "GOOGLE_BEARER_TOKEN": "another-secret"}

    def put(self, bucket, key, data):
        self.store.put(bucket, key, data)

    def get(self, bucket, key):
        return self.store.buckets[bucket][key][0]

    def keys(self, bucket, prefix):
        return sorted(key for key in self.store.buckets[bucket] if key.startswith(prefix))

    def remote(self, bucket):
        from google.oauth2.credentials import Credentials
        return {"protocol": "gs", "endpoint_url": self.url, "token": Credentials(gcs_server.TOKEN) if bucket == "private" else "anon"}


class Azure:
    scheme, secret = "az", azure_server.KEY

    def __init__(self, url):
        from azure.storage.blob import BlobServiceClient
        self.url = url
        self.connection = f"AccountName={azure_server.ACCOUNT};AccountKey={azure_server.KEY};BlobEndpoint={url};"
        account = {"AZURE_STORAGE_ACCOUNT_NAME": azure_server.ACCOUNT, "AZURE_STORAGE_ENDPOINT": url, "AZURE_ALLOW_HTTP": "true"}
        self.anonymous = {**account, "AZURE_SKIP_SIGNATURE": "true"}
        self.signed = {**account, "AZURE_STORAGE_ACCOUNT_KEY": azure_server.KEY}
        self.wrong = {**account, "AZURE_STORAGE_ACCOUNT_KEY": "YW5vdGhlci1zZWNyZXQ="}
        self.client = BlobServiceClient.from_connection_string(self.connection)
        self.client.create_container("private")
        self.client.create_container("public", public_access="container")

    def put(self, bucket, key, data):
        self.client.get_blob_client(bucket, key).upload_blob(data, overwrite=True)

    def get(self, bucket, key):
        return self.client.get_blob_client(bucket, key).download_blob().readall()

    def keys(self, bucket, prefix):
        return sorted(self.client.get_container_client(bucket).list_blob_names(name_starts_with=prefix))

    def remote(self, bucket):
        return {"protocol": "az", "connection_string": self.connection}


@pytest.fixture(scope="module")
def google():
    import gcsfs
    with gcs_server.started() as (url, store):
        yield filled(Google(url, store))
        # Its connections cannot be closed at the exit of Python.
        gcsfs.GCSFileSystem.clear_instance_cache()
        gc.collect()


@pytest.fixture(scope="module")
def azure():
    with azure_server.started() as url:
        yield filled(Azure(url))


def filled(cloud):
    for bucket in ("private", "public"):
        for name, (path, _) in FILES.items():
            cloud.put(bucket, f"a folder/{name}", (clients.FIXTURES / path).read_bytes())
        for k in range(DAYS):
            cloud.put(bucket, f"days/d{k:04}.nc", day(k))
    return cloud


@pytest.fixture(params=["google", "azure"])
def cloud(request):
    return request.getfixturevalue(request.param)


def check(references, fmt, name, url, remote):
    import zarr
    named = {v[0] for v in references["refs"].values() if isinstance(v, list)}
    assert named == {url}
    array = zarr.open_array(clients.open_store(references, **remote), path=FILES[name][1], mode="r", zarr_format=FORMATS[fmt])
    assert np.array_equal(np.squeeze(array[...]), truth(name))


@pytest.mark.parametrize("bucket", ["private", "public"])
@pytest.mark.parametrize("name", FILES)
def test_one_file(cloud, name, fmt, bucket):
    url = f"{cloud.scheme}://{bucket}/a folder/{name}"
    run = virtualize(url, "--format", fmt, env=cloud.signed if bucket == "private" else cloud.anonymous)
    assert run.status == 0, run.stderr
    check(run.references, fmt, name, url, cloud.remote(bucket))


def test_settings_of_other_tools(google, azure):
    public, private = "gs://public/a folder/cog.tif", "az://private/a folder/cog.tif"
    host = google.url.removeprefix("http://")
    server = azure.url.removesuffix(f"/{azure_server.ACCOUNT}")
    for url, arguments, env in [
        (public, [], {"STORAGE_EMULATOR_HOST": host}),
        (public, ["--anonymous", "--endpoint", google.url], {}),
        ("gs://private/a folder/cog.tif", ["--endpoint", google.url, "--store-option", f"google_bearer_token={gcs_server.TOKEN}"], {}),
        (private, [], {"AZURE_STORAGE_USE_EMULATOR": "true", "AZURITE_BLOB_STORAGE_URL": server}),
        (private, ["--endpoint", azure.url], {key: azure.signed[key] for key in ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_KEY")}),
        ("abfs://private/a folder/cog.tif", [], azure.signed),
        (f"abfss://private@{azure_server.ACCOUNT}.dfs.core.windows.net/a folder/cog.tif", ["--endpoint", azure.url], azure.signed),
    ]:
        run = virtualize(url, *arguments, env=env)
        assert run.status == 0, (url, arguments, run.stderr)
        assert {v[0] for v in run.references["refs"].values() if isinstance(v, list)} == {url}


def test_refusals_are_one_line_and_no_output(cloud, tmp_path):
    start, out = f"{cloud.scheme}://", tmp_path / "out.json"
    cases = [("private/a folder/cog.tif", cloud.wrong, "denied"), ("private/a folder/cog.tif", cloud.anonymous, ""),
             ("private/a folder/none.tif", cloud.signed, "not found"), ("public/none.tif", cloud.anonymous, "not found"),
             ("nowhere/none.tif", cloud.signed, "not found")]
    for key, env, expected in cases:
        for command in ([start + key, "-o", out], ["scan", start + key], ["scan", f"{start}{key.split('/')[0]}/days/*.nc"]):
            if str(command[-1]).endswith("*.nc") and "none.tif" in key and "nowhere" not in key:
                continue
            run = virtualize(*command, "--option", "retries=0", env=env)
            assert run.status == 1 and expected in run.stderr, (command, run)
            errors = [line for line in run.stderr.splitlines() if line.startswith("error: ")]
            assert len(errors) <= 1 and start in run.stdout.decode() + run.stderr, run
            assert "secret" not in run.stderr and cloud.secret not in run.stderr
    assert list(tmp_path.iterdir()) == []


# ---- many files

OUTPUTS = {"out.json": [], "v3.json": ["--format", "zarr3-json"], "out.zarr": [], "out.parquet": []}


def batch(inputs, output, *more, env, status=0):
    run = virtualize("batch", inputs, "--concat-dim", "time", "-o", output, *more, env=env)
    assert run.status == status, run.stderr
    return run


def opened(references, remote):
    import xarray as xr
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return xr.open_dataset(clients.open_store(references, **remote), engine="zarr", consolidated=False, decode_times=False, chunks=None).load()


def fetched(cloud, prefix, folder):
    keys = cloud.keys("private", prefix)
    for key in keys:
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(cloud.get("private", key))
    whole = [key for key in keys if key in (prefix, f"{prefix}/references.json")]
    return json.loads((folder / whole[0]).read_text()) if whole else str(folder / prefix)


@pytest.mark.parametrize("name, pattern", [("out.json", "da*/d000?.nc"), ("v3.json", "days/*.nc"), ("out.zarr", "days/"), ("out.parquet", "**/d000*.nc")])
def test_from_a_bucket_to_a_bucket(cloud, tmp_path, name, pattern):
    output = f"refs/{len(pattern)}/{name}"
    urls = [f"{cloud.scheme}://private/{key}" for key in (pattern, output)]
    journal = ["--journal", tmp_path / "journal"]
    batch(*urls, *journal, *OUTPUTS[name], env=cloud.signed)
    dataset = opened(fetched(cloud, output, tmp_path), cloud.remote("private"))
    assert dataset["time"].values.tolist() == list(range(DAYS)) and np.array_equal(dataset["t"].values, values(*range(DAYS)))
    # The journal keeps the listing of each file, and the same command reports that it is up to date.
    with contextlib.closing(sqlite3.connect(tmp_path / "journal")) as database:
        rows = database.execute("select url, size, etag from files order by url").fetchall()
    assert [(url, size) for url, size, _ in rows] == [(f"{cloud.scheme}://private/days/d{k:04}.nc", len(day(k))) for k in range(DAYS)]
    assert all(etag for *_, etag in rows)
    assert "up to date" in batch(*urls, *journal, *OUTPUTS[name], env=cloud.signed).stderr


def test_pages_of_a_listing(google):
    google.store.log.clear()
    report = json.loads(virtualize("scan", "gs://private/days/", "--json", env=google.signed).stdout)
    listings = [path for _, path, _ in google.store.log if path.startswith("/private?")]
    assert report["files"] == DAYS and len(listings) == -(-DAYS // gcs_server.PAGE)


def test_each_file_has_references(cloud, tmp_path):
    start = f"{cloud.scheme}://private"
    run = virtualize("batch", f"{start}/days/", "--each", "-o", f"{start}/each/", "--journal", tmp_path / "journal", env=cloud.signed)
    assert run.status == 0, run.stderr
    assert cloud.keys("private", "each/") == [f"each/d{k:04}.nc.json" for k in range(DAYS)]
    assert json.loads(cloud.get("private", "each/d0003.nc.json")) == virtualize(f"{start}/days/d0003.nc", env=cloud.signed).references


def test_references_in_a_bucket_are_read_validated_and_compared(cloud, tmp_path):
    start = f"{cloud.scheme}://private"
    source, one, other = f"{start}/a folder/chunked.h5", f"{start}/sets/one.json", f"{start}/sets/other.json"
    for command in ([source, "-o", one], ["validate", one, "--full"], ["convert", one, "-f", "zarr3-json", "-o", other], ["diff", one, other],
                    ["convert", one, "-f", "kerchunk-parquet", "-o", f"{start}/sets/one.parquet"], ["diff", one, f"{start}/sets/one.parquet"]):
        run = virtualize(*command, env=cloud.signed)
        assert run.status == 0, (command, run)
    assert virtualize("diff", one, f"{start}/days/d0000.nc", env=cloud.signed).status == 1


def test_a_file_that_was_replaced(cloud, tmp_path):
    """Icechunk records the entity tag of each chunk, or its time in seconds; `batch` detects the change in the listing."""
    start = f"{cloud.scheme}://private/changing"
    for k in range(3):
        cloud.put("private", f"changing/d{k:04}.nc", day(k))
    url, repository, output = f"{start}/d0000.nc", tmp_path / "one.icechunk", tmp_path / "all.json"
    assert virtualize(url, "-f", "icechunk", "-o", repository, env=cloud.signed).status == 0
    assert virtualize("validate", repository, "--full", env=cloud.signed).status == 0
    batch(f"{start}/*.nc", output, env=cloud.signed)
    time.sleep(1.1)
    cloud.put("private", "changing/d0000.nc", day(7))
    run = virtualize("validate", repository, env=cloud.signed)
    assert run.status == 1 and re.search("entity tag|time|changed|modified", run.stdout.decode() + run.stderr), run
    assert "1 to be read" in batch(f"{start}/*.nc", output, env=cloud.signed).stderr
    assert opened(json.loads(output.read_text()), cloud.remote("private"))["time"].values.tolist() == [1, 2, 7]


def test_a_file_that_is_replaced_while_it_is_read(google, tmp_path):
    import h5py

    def content(seed):
        with io.BytesIO() as made:
            with h5py.File(made, "w") as f:
                f.create_dataset("t", data=np.random.default_rng(seed).random((4, 100_000)), chunks=(1, 100_000))
            return made.getvalue()
    google.put("private", "large.h5", content(0))
    seen = []

    def replace(handler):
        if handler.path.startswith("/private/large"):
            seen.append(handler.headers.get("If-Match"))
            if len(seen) == 2:
                google.put("private", "large.h5", content(1))
    google.store.before = replace
    try:
        run = virtualize("gs://private/large.h5", "--inline", "1G", "--option", "inline-total=1G", "-o", tmp_path / "out.json", env=google.signed)
    finally:
        google.store.before = None
    assert len(seen) > 1 and seen[1], run
    assert run.status == 1 and "changed while it was read" in run.stderr and not (tmp_path / "out.json").exists()


# ---- Icechunk

@pytest.mark.parametrize("repository", ["local", "bucket"])
def test_icechunk(cloud, tmp_path, monkeypatch, repository):
    """Sources in a bucket, the repository on disk or in the bucket; the printed snippet opens it."""
    import zarr
    for name, value in cloud.signed.items():
        monkeypatch.setenv(name, value)
    url = f"{cloud.scheme}://private/a folder/chunked.h5"
    target = tmp_path / "a.icechunk" if repository == "local" else f"{cloud.scheme}://private/a.icechunk"
    run = virtualize(url, "-f", "icechunk", "-o", target, env=cloud.signed)
    assert run.status == 0, run.stderr
    assert cloud.secret not in run.stdout.decode() + run.stderr
    scope = {}
    exec(run.stdout, scope)
    array = zarr.open_array(scope["session"].store, path="temperature", mode="r")
    assert np.array_equal(array[...], truth("chunked.h5"))
    if repository == "bucket":
        assert cloud.keys("private", "a.icechunk/")
    assert virtualize("validate", target, "--full", env=cloud.signed).status == 0


# ---- keys

GOOD = ["a b.nc", "a+b.nc", "a#b.nc", "a?b.nc", "a%2Fb.nc", "%41.nc", "é/日本.nc", "a&b<c>'d.nc", "~x[1]{y}.nc", "deep/er/x.nc"]
BAD = ["deep//x.nc", "/lead.nc", "deep/../up.nc", "full/"]
MARKERS = ["folder/", "deep/"]


def putter(request, kind):
    """Yields (scheme, bucket, environment, function to upload)."""
    if kind != "s3":
        cloud = request.getfixturevalue({"gs": "google", "az": "azure"}[kind])
        return cloud.scheme, cloud.signed, lambda key, data: cloud.put("private", key, data)
    endpoint, gate = request.getfixturevalue("s3")
    from moto.core import DEFAULT_ACCOUNT_ID
    from moto.s3.models import s3_backends
    memory = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
    return "s3", {**CREDENTIALS, "AWS_ENDPOINT_URL": endpoint}, lambda key, data: memory.put_object("private", key, data)


@pytest.mark.parametrize("kind", ["s3", "gs", "az"])
def test_keys_of_all_kinds(request, tmp_path, kind):
    scheme, env, put = putter(request, kind)
    root = "odd"
    # Clients of Azure, and Azurite, normalize dot segments in urls.
    bad = [key for key in BAD if kind != "az" or ".." not in key]
    for k, key in enumerate(GOOD):
        put(f"{root}/{key}", day(k))
    for key in MARKERS:
        put(f"{root}/{key}", b"")
    start = f"{scheme}://private/{root}/"
    report = json.loads(virtualize("scan", start, "--concat-dim", "time", "--json", env=env).stdout)
    assert report["files"] == len(GOOD) and report["failed"] == []
    # They are read by their own keys.
    batch(start, tmp_path / "all.json", env=env)
    references = json.loads((tmp_path / "all.json").read_text())["refs"]
    named = [references[f"t/{k}.0"][0] for k in range(len(GOOD))]
    assert named == [start + key for key in GOOD]
    for k, key in enumerate(GOOD):
        single = virtualize(start + key, env=env)
        assert single.status == 0, single.stderr
        chunk = [value for name, value in single.references["refs"].items() if name == "t/0.0"]
        assert chunk == [references[f"t/{k}.0"]]
    # Patterns find them as well, level by level.
    for pattern, count in [("*.nc", len([key for key in GOOD if "/" not in key])), ("deep/*.nc", 0), ("deep/er/*.nc", 1), ("é/*.nc", 1), ("a[?]b.nc", 1)]:
        run = virtualize("scan", f"{start}{pattern}", "--json", env=env)
        assert (json.loads(run.stdout)["files"] if run.stdout else 0) == count, (pattern, run)
    # A key that cannot be requested is refused by name.
    for k, key in enumerate(bad):
        put(f"bad{k}/{key}", day(99))
        run = virtualize("scan", f"{scheme}://private/bad{k}/", "--json", env=env)
        assert run.status == 1 and key.rstrip("/") in run.stderr, (key, run)


@pytest.mark.parametrize("arguments", [("az://c/x.tif",), (clients.FIXTURES / "hdf5/chunked.h5", "-f", "icechunk", "-o", "az://c/p")])
def test_a_missing_storage_account_is_named(arguments):
    run = virtualize(*arguments)
    assert run.status == 1 and run.stdout == b""
    assert "az://c: the URL does not name the storage account: set the store option azure_storage_account_name" in run.stderr
