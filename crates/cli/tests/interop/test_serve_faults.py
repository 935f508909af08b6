"""The service, with jobs, webhooks and a cache, while calls to the file system fail, and after losses of power (faults/faults.c):

- the service keeps running, and answers with a problem document where it cannot do better
- each job that was accepted ends, also if the service was killed
- a job that is done has the result of an undisturbed run, and still has it after a loss of power
- jobs that failed finish when they are submitted again after the fault
- the end of each job is delivered, and not again and again

FAULTS=100 tries 100 calls in each way; by default it is one, at random."""
import errno, http.client, json, os, random, re, subprocess, sys, time, urllib.error, urllib.parse

import clients
import pytest
from test_batch import day
from test_faults import contents, faults, lose_power, repository  # noqa: F401 (a fixture)
from test_serve_jobs import Service
from test_serve_webhooks import Receiver, new_secret

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="seccomp")
SAMPLE, SEED = int(os.environ.get("FAULTS", 1)), int(os.environ.get("FAULT_SEED", 1))
ENDED = {"done", "failed", "cancelled"}
GONE = (OSError, http.client.HTTPException, json.JSONDecodeError)


class Disturbed(Service):
    """A service that runs through another program, with its log in a file."""

    def __init__(self, folder, archive, hooks, through=()):
        self.folder, self.log = folder, folder.with_name("log.service")
        (folder / "out").mkdir(exist_ok=True)
        keep = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "AZURE_", "GOOGLE_", "RUST_LOG", "VIRTUALIZE_"))}
        command = [*map(str, through), clients.BINARY, "serve", "--listen", "127.0.0.1:0", "--allow", f"file://{archive}/", "--jobs", folder / "jobs",
                   "--allow-write", f"file://{folder}/out/", "--cache", folder / "cache", *hooks]
        self.process = subprocess.Popen(command, stderr=self.log.open("w"), env=keep)
        end = time.monotonic() + 60
        while not (found := re.search(r"listening on (http://[^\s\"]+)", self.said())) and self.process.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
        self.url = found and found[1]

    def said(self):
        return self.log.read_text()

    def answer(self, path, body=None, headers={}):
        """Returns status and body; (0, b"") if there is no answer. A failure is a problem document."""
        try:
            with self.ask(path, body, headers=headers) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                text = error.read()
            assert error.headers["content-type"] == "application/problem+json" and json.loads(text)["code"], text
            return error.code, text
        except GONE:
            return 0, b""


class Work:
    """What clients ask of the service in a folder."""

    def __init__(self, folder, archive, receiver):
        self.folder, self.archive, self.receiver = folder, archive, receiver
        inputs = {"inputs": [f"file://{archive}/*.nc"], "concat_dim": ["time"], "webhook": {"url": receiver.url}}
        out = f"file://{folder}/out"
        self.bodies = {
            "batch": {"kind": "batch", **inputs},
            "parquet": {"kind": "batch", "format": "kerchunk-parquet", "output": f"{out}/o.parquet", "overwrite": True, **inputs},
            "icechunk": {"kind": "batch", "format": "icechunk", "output": f"{out}/o.icechunk", "replace": True, "message": "all", **inputs},
            "scan": {"kind": "scan", **inputs},
        }
        # By name: the ids of accepted jobs, and the jobs whose end was seen.
        self.accepted, self.ended, self.key = {}, {}, 0

    def submit(self, service, names=None):
        for name in names or self.bodies:
            self.key += 1
            status, text = service.answer("/v1/jobs", self.bodies[name], {"idempotency-key": f"key {self.key}"})
            assert status in (0, 202, 500, 503), (name, status, text)
            if status == 202:
                self.accepted[name] = json.loads(text)["id"]

    def watch(self, service, seconds):
        """Asks for jobs until all have ended, or until some time has passed."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and service.process.poll() is None:
            for name, job in self.accepted.items():
                status, text = service.answer(f"/v1/jobs/{job}")
                assert status in (0, 200, 500, 503), (name, status, text)
                if status == 200 and (shown := json.loads(text))["state"] in ENDED:
                    before = self.ended.setdefault(name, shown)
                    assert before["state"] == shown["state"] and before.get("result") == shown.get("result"), (before, shown)
                else:
                    assert status != 200 or name not in self.ended, (self.ended.get(name), text)
            if len(self.ended) == len(self.accepted):
                return True
            time.sleep(0.05)
        return len(self.ended) == len(self.accepted)

    def references(self, service):
        """Asks for the references of a file, which the cache keeps."""
        target = urllib.parse.quote(f"file://{self.archive}/d0.nc", safe="")
        status, text = service.answer(f"/v1/references?url={target}")
        assert status in (0, 200, 500, 503), (status, text)
        return text if status == 200 else None

    def result(self, service, name):
        """Returns the result of a job that is done."""
        if name == "icechunk":
            return {key: value for key, value in repository(self.folder / "out/o.icechunk").items() if key}
        if name == "parquet":
            path = self.folder / "out/o.parquet"
            return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}
        return service.answer(f"/v1/jobs/{self.accepted[name]}/result")

    def forget(self, names):
        for name in names:
            self.accepted.pop(name, None), self.ended.pop(name, None)


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    folder = tmp_path_factory.mktemp("days").resolve()
    for k in range(4):
        day(folder / f"d{k}.nc", k)
    return folder


@pytest.fixture
def hooks(tmp_path):
    receiver, secret = Receiver(), tmp_path / "secret"
    secret.write_text(new_secret())
    yield receiver, ["--allow-webhook", receiver.url, "--webhook-secret-file", secret]
    receiver.shutdown()
    receiver.server_close()


@pytest.fixture(scope="module")
def undisturbed(faults, archive, tmp_path_factory):  # noqa: F811
    """Returns the results of all jobs, the references, and the number of calls."""
    folder = tmp_path_factory.mktemp("undisturbed").resolve() / "state"
    folder.mkdir()
    log, receiver = folder.with_name("log"), Receiver()
    (secret := folder.with_name("secret")).write_text(new_secret())
    with Disturbed(folder, archive, ["--allow-webhook", receiver.url, "--webhook-secret-file", secret], (faults, folder, log, "count", 0, 0, "--")) as service:
        work = Work(folder, archive, receiver)
        work.submit(service)
        references = work.references(service)
        assert work.watch(service, 60) and {shown["state"] for shown in work.ended.values()} == {"done"}
        receiver.wait(4)
        results = {name: work.result(service, name) for name in work.bodies}
        return results, references, len(log.read_text().splitlines())


@pytest.mark.parametrize("action", ["ENOSPC", "EIO", "EACCES", "full", "short", "kill", "power"])
def test_any_call_of_the_service_may_fail(faults, archive, undisturbed, hooks, tmp_path, action):  # noqa: F811
    chance, (receiver, arguments), (*_, calls) = random.Random(f"{SEED} {action}"), hooks, undisturbed
    how = {"full": "full", "short": "short", "kill": "kill", "power": "kill"}.get(action, "fail")
    for attempt in range(SAMPLE):
        nth, log, folder = chance.randint(1, calls), tmp_path / f"{attempt}/log", tmp_path / f"{attempt}/state"
        folder.mkdir(parents=True)
        receiver.received.clear()
        through = faults, folder, log, how, nth, getattr(errno, action, errno.ENOSPC), "--"
        work, service = Work(folder, archive, receiver), Disturbed(folder, archive, arguments, through)
        try:
            disturb(work, service, log, action, undisturbed, chance, arguments)
        except AssertionError as error:
            lines = log.read_text().splitlines()
            raise AssertionError(f"{action} at call {nth}: {lines[nth - 1] if nth <= len(lines) else None}\n{service.said()}") from error
        finally:
            service.process.kill()
            service.process.wait()


def disturb(work, service, log, action, undisturbed, chance, arguments):
    started = service.url is not None
    if started:
        work.submit(service)
        found = work.references(service)
        assert found in (None, undisturbed[1])
        work.watch(service, 3 if action == "full" else 20)
    log.with_name("log.over").touch()
    if action in ("kill", "power"):
        if service.process.poll() is None:
            service.process.kill()
        service.process.wait()
        if action == "power":
            lose_power(work.folder, log, {}, chance)
    elif started:
        assert service.process.poll() is None, "the service has ended"
        finish(work, service, undisturbed)
        service.process.terminate()
        assert service.process.wait(60) == 0
    else:
        assert service.process.wait(60) in (1, 2) and "error: " in service.said()
    assert "panicked" not in service.said()
    # The next instance completes what this one has not.
    with Disturbed(work.folder, work.archive, arguments) as service:
        assert service.url, service.said()
        finish(work, service, undisturbed)
        settle(work, service)
        told = [json.loads(body)["id"] for *_, body in work.receiver.received]
        # Once more after a crash between the delivery and the record of it.
        assert all(told.count(job) <= 2 for job in told), told


def finish(work, service, undisturbed):
    """Every job ends; those that failed or were not accepted are submitted once more."""
    assert work.watch(service, 60), (work.accepted, work.ended)
    check(work, service, undisturbed)
    failed = [name for name in work.bodies if work.ended.get(name, {}).get("state") != "done"]
    for name in failed:
        assert name not in work.ended or work.ended[name]["error"]["code"] not in (None, "crashed"), work.ended[name]
    work.forget(failed)
    if failed:
        work.submit(service, failed)
        assert work.watch(service, 60)
    assert {shown["state"] for shown in work.ended.values()} == {"done"} and len(work.ended) == 4, work.ended
    check(work, service, undisturbed)
    assert work.references(service) == undisturbed[1]


def check(work, service, undisturbed):
    for name, shown in work.ended.items():
        if shown["state"] == "done":
            assert work.result(service, name) == undisturbed[0][name], f"another result of {name}"


def settle(work, service):
    """Waits until the webhooks of all jobs were delivered."""
    end = time.monotonic() + 60
    pending = set(work.accepted.values())
    while pending and time.monotonic() < end:
        for job in [*pending]:
            status, text = service.answer(f"/v1/jobs/{job}")
            if status == 200 and json.loads(text)["webhook"]["state"] == "delivered":
                pending.remove(job)
        time.sleep(0.05)
    assert not pending, [service.answer(f"/v1/jobs/{job}") for job in pending]
