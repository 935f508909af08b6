"""`virtualize serve` on loopback: real clients read HDF5 and TIFF through it as Zarr stores, with the values of h5py and tifffile."""
import contextlib, json, os, pathlib, re, resource, select, signal, socket, subprocess, threading, time, urllib.error, urllib.parse, urllib.request

import clients
import service
import numpy as np
import pytest
from clients import FIXTURES
from service import free_port

NAMES = ["hdf5/chunked.h5", "hdf5/netcdf4.nc", "hdf5/filters.h5", "hdf5/layouts.h5", "tiff/cog.tif", "tiff/chunky.tif", "tiff/geo_utm.tif"]
ENV = clients.ROOT / ".env"


@pytest.fixture(scope="module")
def server():
    """Yields the url of a service with access to the fixtures."""
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "AZURE_", "GOOGLE_", "RUST_LOG", "VIRTUALIZE_"))}
    process = subprocess.Popen([clients.BINARY, "serve", "--listen", "127.0.0.1:0", "--allow", f"file://{FIXTURES}/", "--log", "json",
                                "--cors", "https://viewer.example"], stderr=subprocess.PIPE, text=True, env=keep)
    first = json.loads(process.stderr.readline())
    url = re.search(r"http://\S+", first["message"])[0]
    lines = []
    reader = threading.Thread(target=lambda: lines.extend(process.stderr), daemon=True)
    reader.start()
    yield url
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    reader.join(10)
    messages = [json.loads(line) for line in lines]
    assert messages[-1]["message"] == "stopped"
    assert all(line["status"] < 500 for line in messages if line["message"] == "request")


def get(server, path, **parameters):
    query = "?" + urllib.parse.urlencode(parameters) if parameters else ""
    with urllib.request.urlopen(server + path + query) as answer:
        return answer.read()


def source(name):
    return f"file://{FIXTURES / name}"


def store(server, name):
    """Returns the URL of the store of a file in its current version, which a redirect names."""
    with urllib.request.urlopen(f"{server}/v1/zarr/{urllib.parse.quote(source(name), safe='')}") as root:
        assert json.load(root)["node_type"] == "group"
        return root.url


def arrays(server, name):
    """Yields path and references of all arrays, as returned by the service."""
    refs = json.loads(get(server, "/v1/references", url=source(name), format="zarr3-json"))["refs"]
    nodes = {key.removesuffix("zarr.json").rstrip("/"): json.loads(value) for key, value in refs.items() if key.endswith("zarr.json")}
    return [path for path, node in nodes.items() if node["node_type"] == "array"], refs


@pytest.mark.parametrize("name", NAMES)
def test_references_are_those_of_the_command(server, name, fmt):
    run = clients.virtualize(FIXTURES / name, "--format", fmt)
    assert json.loads(get(server, "/v1/references", url=source(name), format=fmt)) == run.references
    assert json.loads(get(server, "/v1/references", url=source(name), format=fmt)) == run.references


@pytest.mark.parametrize("name", NAMES)
def test_zarr_python_reads_the_same_as_through_references(server, name):
    import zarr
    clients.register_codecs()
    paths, refs = arrays(server, name)
    assert paths
    group = zarr.open_group(store(server, name), mode="r", zarr_format=3)
    local = zarr.open_group(clients.open_store({"version": 1, "refs": refs}), mode="r", zarr_format=3)
    for path in paths:
        ours, theirs = group[path], local[path]
        assert (ours.shape, ours.dtype, dict(ours.attrs)) == (theirs.shape, theirs.dtype, dict(theirs.attrs))
        try:
            expected = theirs[...]
        except Exception as error:
            with pytest.raises(type(error)):
                ours[...]
            continue
        np.testing.assert_array_equal(ours[...], expected, err_msg=path)


def test_values_are_those_of_h5py(server):
    import h5py, zarr
    group = zarr.open_group(store(server, "hdf5/chunked.h5"), mode="r")
    with h5py.File(FIXTURES / "hdf5/chunked.h5") as file:
        for name in ["lat", "lon", "temperature"]:
            np.testing.assert_array_equal(group[name][...], file[name][()])


def test_values_are_those_of_tifffile(server):
    import tifffile, zarr
    clients.register_codecs()
    group = zarr.open_group(store(server, "tiff/cog.tif"), mode="r")
    np.testing.assert_array_equal(np.squeeze(group["band_data"][...]), tifffile.imread(FIXTURES / "tiff/cog.tif", key=0))


def test_xarray_shows_the_same_as_the_file(server):
    import xarray as xr
    name = "hdf5/chunked.h5"
    with xr.open_dataset(FIXTURES / name, engine="h5netcdf") as truth, xr.open_dataset(store(server, name), engine="zarr", chunks=None) as ours:
        xr.testing.assert_equal(ours.load(), truth.load())


def test_gdal_reads_it(server):
    import h5py, rasterio
    path = store(server, "hdf5/chunked.h5")
    with h5py.File(FIXTURES / "hdf5/chunked.h5") as file:
        expected = file["temperature"][()]
    with rasterio.open(f'ZARR:"/vsicurl/{path.replace("/v1/zarr/", "/v1/plain/")}":/temperature') as opened:
        np.testing.assert_array_equal(opened.read(1), expected)


@pytest.mark.parametrize("kind", ["GeoTIFF", "EPSG:3035", "EPSG:4326"])
def test_gdal_reads_the_reference_system(tmp_path, kind):
    """Of arrays whose codecs GDAL has from either store, and of others from the decoded one."""
    import pyproj, rasterio, xarray as xr
    values = np.random.default_rng(1).random((48, 64), "f4")
    names = ("lat", "lon") if kind == "EPSG:4326" else ("y", "x")
    for compressed in (False, True):
        if kind == "GeoTIFF":
            file, name, code = tmp_path / f"{compressed}.tif", "band_data", 32632
            with rasterio.open(file, "w", driver="GTiff", width=64, height=48, count=1, dtype="float32", crs=f"EPSG:{code}", transform=rasterio.transform.from_origin(5e5, 5e6, 10, 10),
                               compress="lzw" if compressed else None) as image:
                image.write(values, 1)
        else:
            file, name, code = tmp_path / f"{compressed}.nc", "t", int(kind[5:])
            axes = [np.linspace(50, 45, 48), np.linspace(5, 10, 64)] if code == 4326 else [3e6 - np.arange(48) * 1e3, 4e6 + np.arange(64) * 1e3]
            about = [("latitude", "degrees_north"), ("longitude", "degrees_east")] if code == 4326 else [("projection_y_coordinate", "m"), ("projection_x_coordinate", "m")]
            coordinates = {dimension: (dimension, axis, {"standard_name": standard, "units": units}) for dimension, axis, (standard, units) in zip(names, axes, about)}
            made = xr.Dataset({"t": (names, values, {"grid_mapping": "crs"}), "crs": ((), 0, pyproj.CRS.from_epsg(code).to_cf())}, coordinates)
            made.to_netcdf(file, engine="h5netcdf", encoding={"t": {"zlib": compressed}})
        with service.started(tmp_path) as address, urllib.request.urlopen(f"{address}/v1/zarr/{urllib.parse.quote(service.url(file), safe='')}") as root:
            for store in [root.url] * (not compressed) + [root.url.replace("/v1/zarr/", "/v1/plain/")]:
                with rasterio.open(f'ZARR:"/vsicurl/{store}":/{name}') as opened:
                    assert opened.crs.to_epsg() == code and not opened.transform.is_identity, (store, opened.crs)
                    np.testing.assert_array_equal(opened.read(1), values)


def test_paths_without_a_version_are_refused(server):
    """Each client opens the same path for metadata and chunks, without the redirect of the root: none may read fill values, or chunks of another version."""
    import rasterio, xarray as xr, zarr
    path = store(server, "hdf5/chunked.h5").split("~")[0]
    with pytest.raises(Exception, match="400"):
        zarr.open_group(path, mode="r", zarr_format=3)
    with pytest.raises(Exception):
        xr.open_dataset(path, engine="zarr", chunks=None)
    with pytest.raises(rasterio.errors.RasterioIOError):
        rasterio.open(f'ZARR:"/vsicurl/{path.replace("/v1/zarr/", "/v1/plain/")}":/temperature').read()
    done = zarrita(path)
    assert done.returncode != 0 and "400" in done.stderr, done.stderr


def zarrita(url):
    """Reads `temperature` with zarrita.js."""
    script = """
      import * as zarr from "zarrita";
      const root = zarr.root(new zarr.FetchStore(process.argv[2]));
      const array = await zarr.open(root.resolve("temperature"), { kind: "array" });
      const { data, shape } = await zarr.get(array);
      console.log(JSON.stringify({ data: Array.from(data), shape }));
    """
    return subprocess.run([clients.NODE, "--input-type=module", "-", url], cwd=ENV / "zarrita", input=script, capture_output=True, text=True, timeout=120)


def test_zarrita_reads_it(server):
    import h5py
    done = zarrita(store(server, "hdf5/chunked.h5"))
    assert done.returncode == 0, done.stderr
    read = json.loads(done.stdout)
    with h5py.File(FIXTURES / "hdf5/chunked.h5") as file:
        np.testing.assert_array_equal(np.array(read["data"], "f4").reshape(read["shape"]), file["temperature"][()])


def test_inspection_is_that_of_the_command(server):
    run = clients.virtualize("inspect", FIXTURES / "hdf5/filters.h5", "--json")
    ours = json.loads(get(server, "/v1/inspect", url=source("hdf5/filters.h5")))
    assert {key: ours[key] for key in json.loads(run.stdout)} == json.loads(run.stdout)


def test_the_description_is_openapi(server):
    document = json.loads(get(server, "/v1/openapi.json"))
    assert document["openapi"] == "3.1.0"
    for path, operations in document["paths"].items():
        for operation in operations.values():
            assert operation["responses"] and operation["summary"], path


def test_metrics_can_be_parsed(server):
    get(server, "/v1/references", url=source("hdf5/chunked.h5"))
    text = get(server, "/metrics").decode()
    line = re.compile(r"^(#.*|[a-z_]+(\{.*\})? [0-9.e+-]+)$")
    assert all(line.match(each) for each in text.splitlines())
    assert 'virtualize_requests_total{route="/v1/references",status="200"}' in text


@pytest.mark.parametrize("arguments, words", [
    ([], "--allow"),
    (["--allow", "s3://bucket/", "--listen", "0.0.0.0:0"], "--public"),
    (["--allow", "/data"], "--allow"),
    (["--allow", "s3://b/", "--config", "no/such.toml"], "no/such.toml"),
])
def test_it_does_not_start_unsafe(arguments, words):
    run = clients.virtualize("serve", *arguments, timeout=20)
    assert run.status == 2 and words in run.stderr, run.stderr


def test_a_source_that_another_names_must_be_allowed(tmp_path):
    """An external link and a virtual dataset refer to a file in the same folder, of which only the first is allowed."""
    import h5py
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["x"] = np.arange(4)
    with h5py.File(tmp_path / "open.h5", "w") as file:
        file["own"] = np.arange(3)
        file["link"] = h5py.ExternalLink("secret.h5", "x")
        layout = h5py.VirtualLayout((4,), "i8")
        layout[:] = h5py.VirtualSource("secret.h5", "x", (4,))
        file.create_virtual_dataset("virtual", layout)
    url = f"file://{tmp_path}/open.h5"

    def shown(allow):
        process = subprocess.Popen([clients.BINARY, "serve", "--listen", "127.0.0.1:0", "--allow", allow], stderr=subprocess.PIPE, text=True)
        try:
            server = re.search(r"http://\S+", process.stderr.readline())[0]
            return json.loads(get(server, "/v1/inspect", url=url, **{"follow-external": "true"}))
        finally:
            process.terminate()
            process.wait(30)
    assert set(shown(f"file://{tmp_path}/")["root"]["children"]) == {"own", "link", "virtual"}
    only = shown(url)
    assert "secret" not in json.dumps(only["root"]) and set(only["root"]["children"]) == {"own"}


@contextlib.contextmanager
def small(folder):
    """Yields the url of a service with little memory, and a function that returns its peak memory in MB."""
    process = subprocess.Popen([clients.BINARY, "serve", "--listen", "127.0.0.1:0", "--allow", f"file://{folder}/", "--memory", "64M"], stderr=subprocess.PIPE, text=True)
    try:
        server = re.search(r"http://\S+", process.stderr.readline())[0]
        threading.Thread(target=process.stderr.read, daemon=True).start()
        status = pathlib.Path(f"/proc/{process.pid}/status")
        yield server, lambda: int(re.search(r"VmHWM:\s+(\d+)", status.read_text())[1]) / 1024
    finally:
        process.terminate()
        process.wait(30)


needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="memory is read from /proc")


@needs_proc
@pytest.mark.parametrize("kind", ["attributes", "12 groups", "30 groups", "chunks", "a tree of 2^29", "references to long paths"])
def test_files_that_need_too_much_are_refused_for_good(tmp_path, kind):
    """A small file that refers to one structure many times: retrying does not help, so the status is not 503."""
    import h5py, test_bounds
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as file:
        test_bounds.HOSTILE[kind](file)
    with small(tmp_path) as (server, most):
        before = most()
        for path in ("/v1/references", "/v1/inspect"):
            with pytest.raises(urllib.error.HTTPError) as error:
                get(server, path, url=f"file://{tmp_path}/a.h5")
            assert error.value.code == 422 and error.value.headers["retry-after"] is None
        assert most() < before + 64 + 100


@needs_proc
@pytest.mark.parametrize("kind", ["numbers", "text", "names"])
def test_what_is_kept_of_many_files_is_within_the_memory(tmp_path, kind):
    """These files consist mostly of attributes and names. Each is answered, and cached ones count towards the memory."""
    import h5py
    with small(tmp_path) as (server, most):
        before = most()
        for number in range(20):
            with h5py.File(tmp_path / f"{number}.h5", "w", libver="latest") as file:
                for n in range({"numbers": 2, "text": 60, "names": 200}[kind]):
                    if kind == "names":
                        file.create_group("n" * 4_000 + str(n))
                    else:
                        file.attrs[f"a{n}"] = np.full(60_000, 200, "u1") if kind == "numbers" else "x" * 60_000
            url = f"file://{tmp_path}/{number}.h5"
            assert json.loads(get(server, "/v1/inspect", url=url)) and json.loads(get(server, "/v1/references", url=url))
        held = float(re.search(r"(?m)^virtualize_memory_held_bytes (\S+)", get(server, "/metrics").decode())[1])
        assert 1 << 20 < held <= 64 << 20
        assert most() < before + 64 + 100


@contextlib.contextmanager
def limited(folder, descriptors, *more, stderr=subprocess.DEVNULL):
    """Yields the address of a service that may open few files, or whose log cannot be written."""
    address = f"127.0.0.1:{free_port()}"
    limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
    process = subprocess.Popen([clients.BINARY, "serve", "--listen", address, "--allow", f"file://{folder}/", *more], stderr=stderr, preexec_fn=limit)
    try:
        for _ in range(1200):
            with contextlib.suppress(OSError):
                socket.create_connection(tuple(address.split(":"))).close()
                break
            time.sleep(0.05)
        yield address
    finally:
        process.terminate()
        assert process.wait(60) == 0


def status(address, path):
    """Returns the status of a request and the code of its problem."""
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=60) as answer:
            return answer.status, None
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)["code"]


def test_it_starts_with_1024_descriptors():
    with limited(FIXTURES, 1024) as address:
        assert status(address, f"/v1/references?url={urllib.parse.quote(source('hdf5/chunked.h5'))}") == (200, None)


@pytest.mark.parametrize("secured", [False, True])
def test_paths_with_a_version_are_cached_for_good(tmp_path, secured):
    (tmp_path / "tokens").write_text("a-token-for-the-cache read\n")
    headers = {"Authorization": "Bearer a-token-for-the-cache"} if secured else {}
    with service.started(FIXTURES, arguments=["--token-file", tmp_path / "tokens"] * secured) as address:
        ask = lambda path, **more: urllib.request.urlopen(urllib.request.Request(address + path, headers=headers | more))
        about = f"url={urllib.parse.quote(source('hdf5/chunked.h5'))}"
        with ask(f"/v1/inspect?{about}") as answer:
            store = json.load(answer)["zarr"]["store"]
            assert answer.headers["cache-control"] == "no-cache"
        for path in ["", "/zarr.json", "/temperature/zarr.json", "/temperature/c/0/0"]:
            for kind in ["zarr"] + ["plain"] * bool(path):
                with ask(store.replace("zarr", kind, 1) + path) as answer:
                    assert answer.headers["cache-control"] == f"{'private' if secured else 'public'}, max-age=31536000, immutable", (kind, path)
                    assert ("authorization" in ", ".join(answer.headers.get_all("vary") or []).lower()) == secured, (kind, path)
                    tag = answer.headers["etag"]
                with pytest.raises(urllib.error.HTTPError) as unchanged:
                    ask(store.replace("zarr", kind, 1) + path, **{"If-None-Match": tag})
                assert (unchanged.value.code, unchanged.value.headers["etag"]) == (304, tag)
        with ask(store.replace("zarr", "values", 1) + "?array=temperature") as answer:
            assert "immutable" in answer.headers["cache-control"]
        with pytest.raises(urllib.error.HTTPError) as missing:
            ask(store + "/none")
        assert missing.value.headers["cache-control"] == "no-store"


def test_a_replaced_file_has_another_path(tmp_path):
    """A new client gets the new version at once. One that has an old path gets 409 for it, or the old bytes while the service still has that file open."""
    import h5py
    file = tmp_path / "data.h5"
    with service.started(tmp_path) as address:
        root = lambda: urllib.request.urlopen(f"{address}/v1/zarr/{urllib.parse.quote(service.url(file), safe='')}").url
        before = None
        for version in range(5):
            with h5py.File(tmp_path / "next.h5", "w") as made:
                made.create_dataset("x", data=np.full(64, version), chunks=(8,))
            (tmp_path / "next.h5").rename(file)
            store = root()
            with urllib.request.urlopen(f"{store}/x/c/0") as chunk:
                assert np.frombuffer(chunk.read(), "<i8").tolist() == [version] * 8
            assert store != before
            if before:
                with contextlib.suppress(urllib.error.HTTPError), urllib.request.urlopen(f"{before}/x/c/1") as chunk:
                    assert np.frombuffer(chunk.read(), "<i8").tolist() == [version - 1] * 8
            old, before = before, store
    with service.started(tmp_path) as address:
        for path in ("zarr.json", "x/c/1"):
            assert status(address.removeprefix("http://"), urllib.parse.urlsplit(f"{old}/{path}").path) == (409, "source-changed")


NAMES_OF_FILES = ["a#b.h5", "a?b.h5", "a%20b.h5", "100%.h5", "a%2Fb.h5", "a;b.h5", "a b+c&d=e.h5", "ä'\"€.h5"] + ["a\\b.h5"] * (os.name == "posix")


def test_names_of_any_characters_are_listed_and_open(tmp_path):
    import h5py, zarr
    (tmp_path / "folder #1?").mkdir()
    for number, name in enumerate(NAMES_OF_FILES):
        for folder in (tmp_path, tmp_path / "folder #1?"):
            with h5py.File(folder / name, "w") as file:
                file["x"] = np.full(4, number)
    with service.started(tmp_path) as address:
        listed = json.loads(get(address, "/v1/folder", url=f"file://{tmp_path}/"))
        assert listed["folders"] == [f"file://{tmp_path}/folder #1?/"]
        below = json.loads(get(address, "/v1/folder", url=listed["folders"][0]))
        assert {file["url"].rpartition("/")[2] for file in listed["files"]} == {file["url"].rpartition("/")[2] for file in below["files"]} == set(NAMES_OF_FILES)
        for file in listed["files"] + below["files"]:
            store = json.loads(get(address, "/v1/inspect", url=file["url"]))["zarr"]["store"]
            assert zarr.open_group(address + store, mode="r")["x"][...].tolist() == [NAMES_OF_FILES.index(file["url"].rpartition("/")[2])] * 4
            assert json.loads(get(address, "/v1/references", url=file["url"]))["refs"]["x/0"][0] == file["url"]
        # A name is not cut at a character that ends the path of other URLs.
        (tmp_path / "a").write_bytes((tmp_path / "a#b.h5").read_bytes())
        for name in ("a#none", "a?none", "a%23b.h5%23"):
            with pytest.raises(urllib.error.HTTPError) as missing:
                get(address, "/v1/references", url=f"file://{tmp_path}/{name}")
            assert missing.value.code == 404, name


def test_names_that_readers_do_not_encode_are_refused_or_read(tmp_path):
    """zarr-python through fsspec requests the names of arrays as they are: never the chunks of another array, or missing ones."""
    import h5py, zarr
    names = ["a b", "a?b", "a#b", "50%", "a%20b", "b%5Cc", "b\\c", "#x", "g/a#b", "g/a?b", "g/a%20b"]
    with h5py.File(tmp_path / "names.h5", "w") as file:
        for number, name in enumerate(names):
            file.create_dataset(name, data=np.arange(6) + 10 * number + 1, chunks=(3,))
    read, url = set(), service.url(tmp_path / "names.h5")
    with service.started(tmp_path) as address:
        for kind in ("zarr", "plain"):
            store = json.loads(get(address, "/v1/inspect", url=url))["zarr"]["store"]
            group = zarr.open_group(address + store.replace("/zarr/", f"/{kind}/"), mode="r")
            for name in names:
                with h5py.File(tmp_path / "names.h5") as file, contextlib.suppress(Exception):
                    found = group[name.replace("\\", "%5C")][...].tolist()
                    read.add(name)
                    assert found == file[name][...].tolist() or name == "b%5Cc", name
    assert read >= {"50%", "b\\c", "g/a%20b"}


def test_missing_files_are_not_missing_chunks(tmp_path):
    import h5py, zarr
    for number in range(2):
        with h5py.File(tmp_path / f"{number}.nc", "w") as file:
            file.create_dataset("time", data=[float(number)], chunks=(1,))
            file["time"].make_scale("time")
            file.create_dataset("v", data=np.full((1, 20_000), number + 1.0), chunks=(1, 20_000))
            file["v"].dims[0].attach_scale(file["time"])
    for out in ("all.json", "all.icechunk"):
        assert clients.virtualize("batch", tmp_path / "0.nc", tmp_path / "1.nc", "--concat-dim", "time", "-o", tmp_path / out).status == 0
    (tmp_path / "1.nc").unlink()
    with service.started(tmp_path) as address:
        for out in ("all.json", "all.icechunk"):
            store = urllib.request.urlopen(f"{address}/v1/zarr/{urllib.parse.quote(service.url(tmp_path / out), safe='')}").url
            for kind in ("zarr", "plain"):
                array = zarr.open_group(store.replace("/zarr/", f"/{kind}/"), mode="r")["v"]
                assert array[0, 0] == 1
                with pytest.raises(Exception, match="409"):
                    array[1, 0]


def test_chunks_of_files_without_a_version_are_sent_again(tmp_path):
    """kerchunk JSON records no version of its files, so an entity tag cannot tell whether they have changed."""
    import h5py
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("v", data=np.arange(8), chunks=(8,))
    assert clients.virtualize(tmp_path / "a.h5", "-o", tmp_path / "a.json").status == 0
    with service.started(tmp_path) as address:
        store = urllib.request.urlopen(f"{address}/v1/zarr/{urllib.parse.quote(service.url(tmp_path / 'a.json'), safe='')}").url
        for kind in ("zarr", "plain"):
            path = store.replace("/zarr/", f"/{kind}/") + "/v/c/0"
            with urllib.request.urlopen(path) as first:
                tag = first.headers["etag"]
            for more in ({"If-None-Match": tag}, {"If-Range": tag, "Range": "bytes=0-7"}):
                with urllib.request.urlopen(urllib.request.Request(path, headers=more)) as second:
                    assert second.status == 200 and second.read() == np.arange(8).tobytes()


def test_large_references_are_compressed(tmp_path):
    import gzip, h5py
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("v", data=np.zeros(20_000), chunks=(2,))
    with service.started(tmp_path) as address:
        path = f"{address}/v1/references?url={urllib.parse.quote(service.url(tmp_path / 'a.h5'))}"
        with urllib.request.urlopen(urllib.request.Request(path, headers={"Accept-Encoding": "gzip"})) as packed, urllib.request.urlopen(path) as plain:
            assert packed.headers["content-encoding"] == "gzip"
            text = plain.read()
            assert len(text) > 1 << 18 and gzip.decompress(packed.read()) == text


@pytest.mark.slow
def test_a_service_without_descriptors_refuses_and_recovers():
    """Requests to a web server that never responds use up the descriptors of the process."""
    with socket.create_server(("127.0.0.1", 0), backlog=200) as silent:
        web = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        path = f"/v1/references?url={urllib.parse.quote(source('hdf5/chunked.h5'))}"
        with limited(FIXTURES, 80, "--allow", web) as address:
            assert status(address, path) == (200, None)
            host, port = address.split(":")
            held = [socket.create_connection((host, int(port))) for _ in range(38)]
            for number, connection in enumerate(held):
                connection.sendall(f"GET /v1/references?url={web}{number}.nc HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
            refused = select.select(held, [], [], 60)[0]
            assert refused
            for connection in refused:
                text = connection.recv(1 << 16).decode()
                assert text.startswith("HTTP/1.1 503") and '"busy"' in text, text
            assert status(address, path) in [(200, None), (503, "busy")]
            for connection in held:
                connection.close()
            deadline = time.monotonic() + 60
            while status(address, path) != (200, None):
                assert time.monotonic() < deadline
                time.sleep(0.1)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux")
def test_a_log_on_a_full_disk_stops_nothing():
    with open("/dev/full", "w") as full, limited(FIXTURES, 1024, stderr=full) as address:
        for _ in range(3):
            assert status(address, f"/v1/references?url={urllib.parse.quote(source('hdf5/chunked.h5'))}") == (200, None)
