"""Logs and metrics of the service: what they contain, and that they never contain a secret."""
import base64, contextlib, json, os, re, secrets, shutil, subprocess, tempfile, time, urllib.error, urllib.parse, urllib.request

import clients
from service import free_port, until_ready, url

DASHBOARD = clients.ROOT / "crates/server/deploy/grafana.json"
FILE = clients.FIXTURES / "hdf5/chunked.h5"


class Running:
    def __init__(self, process, address, log):
        self.process, self.address, self.log = process, address, log

    def ask(self, path, headers=None):
        """Returns status and body of a response."""
        request = urllib.request.Request(self.address + path, headers=headers or {})
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=90)
        self.log.seek(0)
        return self.log.read()


@contextlib.contextmanager
def service(*arguments, environment=None):
    address = f"127.0.0.1:{free_port()}"
    log = tempfile.TemporaryFile("w+", errors="replace")
    environment = {**{key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "AWS_", "RUST_LOG"))}, **(environment or {})}
    process = subprocess.Popen([clients.BINARY, "serve", "--listen", address, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
    running = Running(process, f"http://{address}", log)
    try:
        until_ready(address, process, log)
        yield running
    finally:
        process.kill()
        process.wait()


def test_the_dashboard_queries_metrics_that_exist():
    with service("--allow", url(clients.FIXTURES) + "/") as running:
        quoted = urllib.parse.quote(url(FILE))
        assert running.ask(f"/v1/references?url={quoted}")[0] == 200
        assert running.ask(f"/v1/references?url={quoted}x")[0] == 404
        text = running.ask("/metrics")[1].decode()
    exported = set(re.findall(r"^(\w+)(?:\{| )", text, re.MULTILINE))
    labels = {name: set(re.findall(r"(\w+)=\"", found)) for name, found in re.findall(r"^(\w+)\{(.*)\} ", text, re.MULTILINE)}
    dashboard = json.loads(DASHBOARD.read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    queried = {name for expression in expressions for name in re.findall(r"\b((?:virtualize|process)_\w+)", expression)}
    assert len(expressions) > 15 and queried <= exported, queried - exported
    for expression in expressions:
        [name] = set(re.findall(r"\b((?:virtualize|process)_\w+)", expression))
        used = {label for group in re.findall(r"by \(([^)]*)\)", expression) for label in group.split(", ")} - {"le", "instance"}
        used |= set(re.findall(r"\{\{(\w+)\}\}", expression))
        assert used <= labels.get(name, set()), expression
    for name in exported:
        kind = re.search(rf"^# TYPE {re.sub('_(bucket|sum|count)$', '', name)} (\w+)$", text, re.MULTILINE)
        assert kind or re.search(rf"^# TYPE {name} ", text, re.MULTILINE), name
        assert not (kind and kind[1] == "counter") or name.endswith("_total"), name
    assert 'source="' + url(clients.FIXTURES) + '"' in text and str(FILE) not in text


def test_the_log_names_the_file_of_a_request():
    with service("--allow", url(clients.FIXTURES) + "/", "--log", "json") as running:
        quoted = urllib.parse.quote(url(FILE))
        store = json.loads(running.ask(f"/v1/inspect?url={quoted}")[1])["zarr"]["store"]
        for path in [f"/v1/references?url={quoted}", f"{store}/temperature/c/0/0", store.replace("zarr", "values", 1) + "?array=temperature",
                     f"/v1/folder?url={urllib.parse.quote(url(FILE.parent))}/", "/v1/references?url=file:///etc/passwd%3Fsecret"]:
            running.ask(path)
        lines = [json.loads(line) for line in running.stop().splitlines()]
    lines = [line for line in lines if line.get("message") == "request" and line["route"].startswith("/v1")]
    assert [line.get("code") for line in lines] == [None] * 5 + ["not-allowed"] and all(line["span"]["request_id"] for line in lines)
    logged = [(line["status"], line.get("file")) for line in lines]
    assert logged == [(200, url(FILE))] * 4 + [(200, url(FILE.parent)), (403, "file:///etc/passwd")]


def test_no_secret_is_in_logs_metrics_or_answers(tmp_path):
    """Puts a secret into every place that can hold one, logs everything, and searches everything."""
    secret = {name: f"zz{name}{secrets.token_hex(8)}" for name in
              "bearer wrong jwt query user password option key session google azure presigned fragment".split()}
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{secret["bearer"]} read,metrics\n")
    data = tmp_path / "data"
    data.mkdir()
    shutil.copy(FILE, data)
    jwt = ".".join(base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in ['{"alg":"RS256"}', json.dumps({"sub": "x", "nonce": secret["jwt"]}), secret["jwt"]])
    environment = {"RUST_LOG": "trace", "AWS_ACCESS_KEY_ID": "an-id", "AWS_SECRET_ACCESS_KEY": secret["key"], "AWS_SESSION_TOKEN": secret["session"], "AWS_REGION": "us-east-1",
                   "AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ALLOW_HTTP": "true", "GOOGLE_BEARER_TOKEN": secret["google"], "AZURE_STORAGE_ACCOUNT_KEY": base64.b64encode(secret["azure"].encode()).decode(),
                   "AZURE_STORAGE_ACCOUNT_NAME": "account"}
    arguments = ["--allow", url(data) + "/", "--allow", "s3://bucket/", "--allow", "https://localhost:9/", "--token-file", str(tokens),
                 "--store-option", f"aws_session_token={secret['option']}", "--log", "json"]
    answers = []
    with service(*arguments, environment=environment) as running:
        right = {"authorization": f"Bearer {secret['bearer']}"}
        ask = lambda path, headers=right: answers.append(running.ask(path, headers))
        quoted = lambda text: urllib.parse.quote(text, safe="")
        for headers in [{"authorization": f"Bearer {secret['wrong']}"}, {"authorization": f"Bearer {jwt}"}, {"authorization": f"Basic {secret['wrong']}"}]:
            ask("/v1/about", headers)
        hostile = [f"https://{secret['user']}:{secret['password']}@localhost:9/a.nc", f"https://localhost:9/a.nc?X-Amz-Signature={secret['query']}",
                   f"https://localhost:9/a.nc#{secret['fragment']}", f"s3://{secret['user']}:{secret['password']}@bucket/a.nc"]
        for target in [*hostile, "s3://bucket/a.nc", url(data / FILE.name)]:
            ask(f"/v1/references?url={quoted(target)}")
            ask(f"/v1/inspect?url={quoted(target)}")
            ask(f"/v1/folder?url={quoted(target)}")
            ask(f"/v1/zarr/{base64.urlsafe_b64encode(target.encode()).decode().rstrip('=')}/zarr.json")
        ask(f"/v1/references?url={quoted(url(data / FILE.name))}&sig={secret['presigned']}")
        ask("/v1/about")
        ask("/metrics")
        log = running.stop()
    assert "DEBUG" in log and any(status == 200 for status, _ in answers)
    found = {"log": log.encode(), "answers": b"\n".join(body for _, body in answers)}
    for place, text in found.items():
        for name, value in secret.items():
            for form in [value, base64.b64encode(value.encode()).decode().rstrip("=")[:-2]]:
                at = text.find(form.encode())
                assert at < 0, f"{name} in {place}: {text[max(0, at - 300):at + 100]!r}"
