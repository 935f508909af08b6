"""Checks what `make dist` wrote to target/dist: checksums, archives, binaries in an empty root, wheels, SBOM and image."""
import contextlib, http.server, io, json, os, pathlib, re, shutil, ssl, subprocess, sys, tarfile, threading, time, tomllib

import dist, image, pytest, trustme
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from elftools.elf.elffile import ELFFile

VERSION = tomllib.loads((dist.ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
FIXTURE = dist.ROOT / "fixtures/hdf5/chunked.h5"
ARCHIVES = sorted(dist.DIST.glob("virtualize-*.tar.gz"))
WHEELS = sorted(dist.DIST.glob("*.whl"))
NATIVE = dist.DIST / f"virtualize-{VERSION}-{dist.host()}.tar.gz"
# Where h5py finds the first chunk of the file.
CHUNK = [8272, 23]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root for chroot")
each_archive = pytest.mark.parametrize("archive", ARCHIVES, ids=lambda file: file.name)


def unpacked(archive, folder):
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


@pytest.fixture
def release(tmp_path):
    return unpacked(NATIVE, tmp_path)


@pytest.fixture
def root(tmp_path, release):
    """A root folder with the binary, a file, and the hosts file that container runtimes provide."""
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "etc/hosts").write_text("127.0.0.1 source.example\n")
    shutil.copy(release / "virtualize", root)
    shutil.copy(FIXTURE, root)
    return root


def inside(root, *words, **variables):
    return subprocess.run([shutil.which("chroot"), str(root), *words], env=variables, capture_output=True, text=True)


def test_checksums():
    listed = [line.split("  ")[1] for line in (dist.DIST / "SHA256SUMS").read_text().splitlines()]
    assert listed == sorted(file.name for file in dist.DIST.glob(dist.FILES))
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=dist.DIST, check=True)


@each_archive
def test_an_archive_is_complete_and_reproducible(archive, tmp_path):
    folder = unpacked(archive, tmp_path)
    names = {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}
    assert names >= {"virtualize", "LICENSE", "THIRD-PARTY-LICENSES", "README.md", "man/virtualize.1",
                     *(f"completions/{name}" for name in dist.SHELLS.values())}
    with tarfile.open(archive) as file:
        epoch, = {member.mtime for member in file}
    dist.archive(folder, epoch)
    assert pathlib.Path(f"{folder}.tar.gz").read_bytes() == archive.read_bytes()


@each_archive
def test_a_linux_binary_is_static_and_names_no_path_of_the_build(archive, tmp_path):
    binary = unpacked(archive, tmp_path) / "virtualize"
    if "-linux-musl" in archive.name:
        with open(binary, "rb") as file:
            assert not [segment for segment in ELFFile(file).iter_segments() if segment["p_type"] == "PT_INTERP"]
    content = binary.read_bytes()
    for path in [dist.ROOT, pathlib.Path.home(), os.environ.get("CARGO_HOME", "/.cargo/")]:
        assert str(path).encode() not in content, path


@needs_root
def test_the_binary_runs_in_an_empty_root(root):
    found = inside(root, "/virtualize", "/chunked.h5")
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["refs"]["temperature/0.0"] == ["file:///chunked.h5", *CHUNK]


class Ranges(http.server.BaseHTTPRequestHandler):
    """Serves the file, with byte ranges."""

    def do_GET(self):
        content = FIXTURE.read_bytes()
        first, last = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", f"bytes=0-{len(content) - 1}")).groups()
        part = content[int(first):int(last) + 1]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{int(first) + len(part) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(part)))
        self.send_header("ETag", '"1"')
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(part)

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def web_server(authority):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Ranges)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("source.example").configure_cert(context)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"https://source.example:{server.server_port}/chunked.h5"
    server.shutdown()


@needs_root
def test_the_binary_checks_certificates_in_an_empty_root(root):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(root / "ca.pem"))
    trustme.CA().cert_pem.write_to_path(str(root / "other.pem"))
    with web_server(authority) as url:
        found = inside(root, "/virtualize", url, SSL_CERT_FILE="/ca.pem")
        assert found.returncode == 0, found.stderr
        assert json.loads(found.stdout)["refs"]["temperature/0.0"] == [url, *CHUNK]
        for variables in [{"SSL_CERT_FILE": "/other.pem"}, {}]:
            refused = inside(root, "/virtualize", url, **variables)
            assert refused.returncode == 1 and refused.stderr.startswith("error: "), refused
            assert len(refused.stderr.splitlines()) == 1, refused


@pytest.mark.parametrize("shell, check", [("bash", ["bash", "-n"]), ("zsh", ["zsh", "-n"]), ("fish", ["fish", "--no-execute"])])
def test_completions_parse(release, shell, check):
    file = release / "completions" / dist.SHELLS[shell]
    assert "inspect" in file.read_text() and "concat-dim" in file.read_text()
    if not shutil.which(shell):
        pytest.skip(f"needs {shell}")
    subprocess.run([*check, str(file)], check=True)


def test_man_pages_render(release):
    pages = sorted((release / "man").iterdir())
    assert {"virtualize.1", "virtualize-batch.1", "virtualize-serve.1"} <= {page.name for page in pages}
    if not shutil.which("groff"):
        pytest.skip("needs groff")
    for page in pages:
        found = subprocess.run(["groff", "-Kutf8", "-man", "-Tutf8", "-ww", str(page)], capture_output=True, text=True)
        # Bold letters are printed twice.
        text = re.sub(".\b", "", found.stdout)
        assert found.returncode == 0 and not found.stderr and "SYNOPSIS" in text, (page.name, found.stderr)


def test_the_sbom_is_valid_and_its_packages_have_licenses(release):
    text = (dist.DIST / f"virtualize-{VERSION}.cdx.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    bom = json.loads(text)
    assert (bom["metadata"]["component"]["name"], bom["metadata"]["component"]["version"]) == ("virtualize-cli", VERSION)
    packages = [f"{part['name']} {part['version']}, " for part in bom["components"] if "hashes" in part]
    assert len(packages) > 200
    licenses = (release / "THIRD-PARTY-LICENSES").read_text()
    assert [package for package in packages if f"\n{package}" not in licenses] == []


@pytest.mark.parametrize("wheel", WHEELS, ids=lambda file: file.name)
def test_a_wheel_fits_manylinux(wheel):
    found = subprocess.run([sys.executable, "-m", "auditwheel", "show", str(wheel)], capture_output=True, text=True, check=True)
    assert re.search(r'consistent with\s+the following platform tag:\s+"manylinux_2_17_', found.stdout), found.stdout


def test_the_example_of_the_readme_runs_with_the_wheel(tmp_path):
    machine = os.uname().machine
    wheel, = [wheel for wheel in WHEELS if machine in wheel.name]
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "env")], check=True)
    python = str(tmp_path / "env/bin/python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", f"{wheel}[xarray,plot]"], check=True)
    example = re.search(r"```python\n(.*?)```", (dist.ROOT / "README.md").read_text(), re.DOTALL)[1]
    shown = '\nprint(float(ds["temperature"].sum()))'
    found = subprocess.run([python, "-c", example + shown], cwd=dist.ROOT, env={**os.environ, "MPLBACKEND": "agg"},
                           capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    # xarray masks the sentinel.
    reference = "import h5py; t = h5py.File('fixtures/hdf5/chunked.h5')['temperature'][:]; print(t[t != -9999].sum())"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "h5py"], check=True)
    expected = subprocess.run([python, "-c", reference], cwd=dist.ROOT, capture_output=True, text=True, check=True)
    assert float(found.stdout) == float(expected.stdout)


# ---- the image


def blob(layout, descriptor):
    return layout.extractfile("blobs/sha256/" + descriptor["digest"].removeprefix("sha256:")).read()


@pytest.fixture
def container(tmp_path):
    """The configuration of the image for this machine, and its root folder."""
    architecture = image.ARCHITECTURES[dist.host()]
    with tarfile.open(dist.DIST / f"virtualize-{VERSION}-oci.tar") as layout:
        index, = json.load(layout.extractfile("index.json"))["manifests"]
        platforms = {entry["platform"]["architecture"]: entry for entry in json.loads(blob(layout, index))["manifests"]}
        manifest = json.loads(blob(layout, platforms[architecture]))
        for layer in manifest["layers"]:
            with tarfile.open(fileobj=io.BytesIO(blob(layout, layer))) as files:
                files.extractall(tmp_path / "container", numeric_owner=True, filter="fully_trusted")
        return json.loads(blob(layout, manifest["config"])), tmp_path / "container"


def test_the_image_has_no_root_and_a_health_check(container):
    config, _ = container
    assert config["config"]["User"] == "65532:65532"
    assert config["config"]["Healthcheck"] == image.HEALTH_CHECK
    assert config["config"]["Labels"]["org.opencontainers.image.version"] == VERSION


@needs_root
def test_the_image_serves_on_a_read_only_root_and_stops_on_sigterm(container):
    config, root = container
    variables = dict(entry.split("=", 1) for entry in config["config"]["Env"])
    # For unshare, mount and chroot.
    variables["PATH"] = os.environ["PATH"]
    variables |= {"VIRTUALIZE_LISTEN": "0.0.0.0:18080", "VIRTUALIZE_ALLOW": "https://source.example/", "VIRTUALIZE_PUBLIC": "true"}
    prepare = f"mount --bind {root} {root} && mount -o remount,bind,ro {root}"
    enter = f"{prepare} && exec chroot --userspec={config['config']['User']} {root} "
    command = [shutil.which("unshare"), "--mount", "sh", "-c", enter + '"$@"', "sh"]
    service = subprocess.Popen([*command, *config["config"]["Entrypoint"], *config["config"]["Cmd"]], env=variables, stderr=subprocess.PIPE)
    try:
        check = [*command, *config["config"]["Healthcheck"]["Test"][1:]]
        deadline = time.monotonic() + 60
        while subprocess.run(check, env=variables, capture_output=True).returncode != 0:
            assert service.poll() is None and time.monotonic() < deadline, service.stderr.read()
            time.sleep(0.1)
        assert pathlib.Path(f"/proc/{service.pid}/status").read_text().count("\t65532") == 8
    finally:
        service.terminate()
    assert service.wait(30) == 0
