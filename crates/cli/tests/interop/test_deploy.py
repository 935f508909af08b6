"""Deployment files of the service (crates/server/deploy): a start of the binary with each of them."""
import contextlib, json, os, pathlib, re, shlex, shutil, socket, ssl, subprocess, sys, time, tomllib, urllib.error, urllib.parse, urllib.request

import clients, pytest, yaml
from service import free_port

ROOT = pathlib.Path(__file__).resolve().parents[4]
DEPLOY = ROOT / "crates/server/deploy"
HELP = subprocess.run([clients.BINARY, "serve", "--help"], capture_output=True, text=True, check=True).stdout
VARIABLES = set(re.findall(r"\[env:\s+(\w+)=", HELP))
SETTINGS = set(re.findall(r"^ +(?:-\w, )?--([a-z-]+)", HELP, re.MULTILINE))
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
CONTAINERFILE = (DEPLOY / "Containerfile").read_text().replace("\\\n", "")
WITHOUT_SETTINGS = {key: value for key, value in os.environ.items() if not key.startswith(("VIRTUALIZE_", "AWS_"))}


def instruction(name):
    return re.findall(rf"^{name} (.*)$", CONTAINERFILE, re.MULTILINE)


@contextlib.contextmanager
def healthy(arguments=(), environment=None):
    """Starts the service, and yields once its health check passes. A stopped service fails the check."""
    environment = {**WITHOUT_SETTINGS, **(environment or {})}
    command = [clients.BINARY, "serve", *arguments]
    check = lambda: subprocess.run([*command, "--check-health"], env=environment, capture_output=True, text=True)
    before = check()
    assert before.returncode == 1 and before.stderr.startswith("error: 127.0.0.1:"), before
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        while (last := check()).returncode != 0:
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline, last
            time.sleep(0.1)
        assert last.stdout == last.stderr == ""
        yield
    finally:
        process.terminate()
        process.stderr.read()
        assert process.wait(60) == 0
    assert check().returncode == 1


def test_the_settings_file_of_the_unit_starts_the_service(tmp_path):
    text = (DEPLOY / "virtualize.toml").read_text()
    every = re.sub(r"^# ([a-z-]+ = )", r"\1", text, flags=re.MULTILINE)
    assert set(tomllib.loads(every)) <= SETTINGS
    assert "token-file" in tomllib.loads(every)
    file = tmp_path / "virtualize.toml"
    file.write_text(text.replace(":8080", f":{free_port()}"))
    with healthy(["--config", str(file)]):
        pass


def test_the_compose_file_starts_a_service_that_reads_the_bucket():
    from moto.server import ThreadedMotoServer
    service, s3 = COMPOSE["services"]["virtualize"], COMPOSE["services"]["s3"]
    environment = {key: re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value) for key, value in service["environment"].items()}
    assert {key for key in environment if key.startswith("VIRTUALIZE_")} <= VARIABLES
    # Both services get the same credentials and port.
    assert service["environment"]["AWS_ACCESS_KEY_ID"] == s3["environment"]["ROOT_ACCESS_KEY_ID"]
    assert service["environment"]["AWS_SECRET_ACCESS_KEY"] == s3["environment"]["ROOT_SECRET_ACCESS_KEY"]
    assert environment["VIRTUALIZE_ENDPOINT"] == "http://s3" + s3["environment"]["VGW_PORT"]
    port = free_port()
    moto = ThreadedMotoServer(port=0, verbose=False)
    moto.start()
    try:
        import boto3
        endpoint = "http://{}:{}".format(*moto.get_host_and_port()).replace("0.0.0.0", "127.0.0.1")
        client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="k", aws_secret_access_key="s")
        client.create_bucket(Bucket="archive")
        client.upload_file(str(ROOT / "fixtures/hdf5/chunked.h5"), "archive", "chunked.h5")
        image = {"VIRTUALIZE_LISTEN": f"0.0.0.0:{port}"}
        with healthy(environment={**environment, **image, "VIRTUALIZE_ENDPOINT": endpoint}):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/references?url=s3://archive/chunked.h5") as response:
                assert json.load(response)["refs"]["temperature/0.0"] == ["s3://archive/chunked.h5", 8272, 23]
            with pytest.raises(urllib.error.HTTPError, match="403"):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/references?url=s3://other/chunked.h5")
    finally:
        moto.stop()


def test_the_image_has_the_settings_and_the_health_check_of_the_compose_file():
    variables = dict(word.split("=", 1) for word in shlex.split(" ".join(instruction("ENV"))))
    assert {key for key in variables if key.startswith("VIRTUALIZE_")} <= VARIABLES
    assert variables["VIRTUALIZE_LISTEN"].endswith(":" + instruction("EXPOSE")[0])
    assert COMPOSE["services"]["virtualize"]["ports"] == ["127.0.0.1:8080:" + instruction("EXPOSE")[0]]
    options, command = re.fullmatch(r"(.*) CMD (\[.*\])", instruction("HEALTHCHECK")[0]).groups()
    check = COMPOSE["services"]["virtualize"]["healthcheck"]
    assert check.pop("test") == ["CMD", *json.loads(command)]
    assert {f"--{key.replace('_', '-')}={value}" for key, value in check.items()} == set(options.split())
    assert instruction("USER") == ["65532:65532"]


def test_the_proxy_serves_clients(tmp_path):
    """The configuration of nginx with ports and a certificate of this test: stores are read through it, and slow clients hold up nobody."""
    import xarray as xr
    if not (nginx := shutil.which("nginx") or shutil.which("/usr/sbin/nginx")):
        pytest.skip("nginx is not installed")
    certificate, key, behind, port = tmp_path / "cert.pem", tmp_path / "key.pem", free_port(), free_port()
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
                    "-out", certificate, "-keyout", key], check=True, capture_output=True)
    text = (DEPLOY / "nginx.conf").read_text()
    for old, new in {"127.0.0.1:8080": f"127.0.0.1:{behind}", "listen 443": f"listen 127.0.0.1:{port}", "data.example.org;": "localhost;",
                     "/etc/ssl/data.example.org.pem": certificate, "/etc/ssl/private/data.example.org.key": key}.items():
        assert old in text
        text = text.replace(old, str(new))
    temporary = "".join(f"{name}_temp_path {tmp_path}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    user = "user root;" if os.getuid() == 0 else ""
    (tmp_path / "nginx.conf").write_text(f"daemon off; {user} pid {tmp_path}/nginx.pid; events {{ worker_connections 256; }}\n"
                                         f"http {{ access_log off; {temporary}\n{text} }}\n")
    source = (ROOT / "fixtures/hdf5/chunked.h5").as_uri()
    with healthy(["--listen", f"127.0.0.1:{behind}", "--allow", (ROOT / "fixtures").as_uri() + "/", "--public"]):
        proxy = subprocess.Popen([nginx, "-e", tmp_path / "error.log", "-c", tmp_path / "nginx.conf"])
        try:
            secure = ssl.create_default_context(cafile=certificate)
            ask = lambda path: urllib.request.urlopen(f"https://localhost:{port}{path}", context=secure, timeout=60)
            for _ in range(600):
                with contextlib.suppress(OSError):
                    ask("/healthz").close()
                    break
                time.sleep(0.05)
            with ask(f"/v1/zarr/{urllib.parse.quote(source, safe='')}") as root:
                store = root.url
            assert store.startswith("https://localhost")
            slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(90)]
            with xr.open_dataset(store, engine="zarr", chunks=None, storage_options={"ssl": secure}) as opened:
                assert opened.temperature.load().shape == (4, 6)
            for connection in slow:
                connection.close()
        finally:
            proxy.terminate()
            proxy.wait(60)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="systemd exists on Linux only")
def test_the_unit_is_valid_and_hardened(tmp_path):
    unit = tmp_path / "virtualize.service"
    unit.write_text((DEPLOY / "virtualize.service").read_text().replace("/usr/bin/virtualize", str(pathlib.Path(clients.BINARY).resolve())))
    found = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True)
    about = [line for line in found.stderr.splitlines() if "virtualize" in line]
    assert (found.returncode, about) == (0, []), found.stderr
    # Tenths of systemd's exposure level, from 0 (safe) to 100.
    security = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--threshold=15", str(unit)], capture_output=True, text=True)
    assert security.returncode == 0, security.stdout
