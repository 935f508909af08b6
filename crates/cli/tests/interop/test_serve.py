"""`virtualize serve` on loopback: real clients read HDF5 and TIFF through it as Zarr stores, with the values of h5py and tifffile."""
import contextlib, json, os, pathlib, re, resource, select, signal, socket, subprocess, threading, time, urllib.error, urllib.parse, urllib.request

import clients
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
    said = [json.loads(line) for line in lines]
    assert said[-1]["message"] == "stopped"
    assert all(line["status"] < 500 for line in said if line["message"] == "request")


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
