"""Three instances of the service on one jobs folder, killed and stopped in turn under load: every job ends exactly once, with the result of an undisturbed run."""
import contextlib, functools, http.client, itertools, json, os, random, threading, time, urllib.error

import clients
import icechunk
import pytest

from test_serve_icechunk import opened
from test_serve_jobs import DAYS, FILES, Service, archive, batch, expected  # noqa: F401

ROUNDS = int(os.environ.get("INSTANCE_ROUNDS", 2))
SECONDS = float(os.environ.get("INSTANCE_SECONDS", 8))
SEED = int(os.environ.get("INSTANCE_SEED", 1))
LIMITS = ["--jobs-openings", "1", "--jobs-running", "2", "--client-jobs", "100", "--rate", "100000", "--burst", "100000"]
GONE = (OSError, http.client.HTTPException, json.JSONDecodeError)


class Instances:
    """Instances behind a client that asks the next one each time, and another one if that fails."""

    def __init__(self, folder, archive, count=3):  # noqa: F811
        self.start = lambda: Service(folder, archive, *LIMITS)
        self.services = [self.start() for _ in range(count)]
        self.turn = itertools.count()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for service in self.services:
            service.process.terminate()
        for service in self.services:
            assert service.process.wait(60) in (0, -9)

    def ask(self, path, body=None, method=None, headers={}, accept=()):
        """Returns status and body of the first complete answer."""
        end = time.monotonic() + 120
        while time.monotonic() < end:
            service = self.services[next(self.turn) % len(self.services)]
            try:
                with service.ask(path, body, method, headers) as answer:
                    return answer.status, answer.read()
            except urllib.error.HTTPError as error:
                with error:
                    text = error.read()
                if error.code in accept:
                    return error.code, text
                assert error.code in (429, 503), (error.code, text)
            except GONE:
                pass
            time.sleep(0.02)
        raise AssertionError(f"no instance answers {path}")

    def json(self, path, **more):
        return json.loads(self.ask(path, **more)[1])

    def follow(self, job):
        """Follows the events across instances, and returns the final job. Versions never go back."""
        last, end = 0, time.monotonic() + 180
        while time.monotonic() < end:
            service = self.services[next(self.turn) % len(self.services)]
            with contextlib.suppress(urllib.error.HTTPError, *GONE):
                for event, version, shown in service.events(job, last or None):
                    assert version > last or event == "done" and version == last, (version, last, shown)
                    last = version
                    if event == "done":
                        return shown
            time.sleep(0.02)
        raise AssertionError(f"{job} does not end")

    def disturb(self, clients, choose):
        """Runs the clients, functions of a function that tells whether time is over, while instances are killed and stopped at random, and returns how often."""
        over, wrong = threading.Event(), []

        def run(client):
            try:
                client(over.is_set)
            except Exception as error:  # noqa: BLE001
                wrong.append(error)

        threads = [threading.Thread(target=run, args=(client,)) for client in clients]
        for thread in threads:
            thread.start()
        end, killed = time.monotonic() + SECONDS, 0
        while time.monotonic() < end and not wrong:
            time.sleep(choose.uniform(0.1, 1))
            kill = choose.random() < 0.5
            killed += kill
            self.replace(choose.randrange(len(self.services)), kill)
        over.set()
        for thread in threads:
            thread.join()
        if wrong:
            raise wrong[0]
        return killed

    def replace(self, at, kill):
        """Kills or stops an instance, and starts another one in its place."""
        old = self.services[at].process
        old.kill() if kill else old.terminate()
        assert old.wait(60) in (0, -9)
        self.services[at] = self.start()


def repository(path):
    repo = icechunk.Repository.open(icechunk.local_filesystem_storage(str(path)))
    return [one.message for one in repo.ancestry(branch="main")]


def make_repository(path):
    icechunk.Repository.create(icechunk.local_filesystem_storage(str(path)))


@pytest.mark.parametrize("seed", range(SEED, SEED + ROUNDS))
def test_jobs_end_once_while_instances_die(tmp_path, archive, seed):  # noqa: F811
    choose = random.Random(seed)
    (tmp_path / "out").mkdir()
    make_repository(tmp_path / "out" / "repo")
    commits, ended, turn = [], {}, itertools.count()
    with Instances(tmp_path, archive) as instances:
        undisturbed = {}
        for format in ("kerchunk-json", "zarr3-json"):
            job = json.loads(instances.ask("/v1/jobs", batch(archive, format=format))[1])["id"]
            assert instances.follow(job)["state"] == "done"
            undisturbed[format] = instances.ask(f"/v1/jobs/{job}/result")[1]

        def client(number, is_over):
            choose = random.Random(seed * 31 + number)
            while not is_over():
                format = choose.choice(["kerchunk-json", "zarr3-json", "icechunk"])
                body = batch(archive, format=format)
                if format == "icechunk":
                    message = f"commit {number} {next(turn)}"
                    commits.append(message)
                    body |= {"output": f"file://{tmp_path}/out/repo", "message": message, "replace": True}
                key = f"{number}-{choose.random()}"
                job = json.loads(instances.ask("/v1/jobs", body, headers={"idempotency-key": key})[1])["id"]
                shown = instances.follow(job)
                ended[job] = (format, shown["state"], body.get("message"))
                again = instances.json(f"/v1/jobs/{job}")
                assert again["state"] == shown["state"] and again["ended"] == shown["ended"]
                if shown["state"] == "done" and format != "icechunk":
                    assert instances.ask(f"/v1/jobs/{job}/result")[1] == undisturbed[format], "another result"

        killed = instances.disturb([functools.partial(client, number) for number in range(4)], choose)
        listed = {job["id"]: job for job in instances.json("/v1/jobs?limit=1000")}
        # Nothing is lost, and nothing ran that no client knows.
        assert len(listed) == len(ended) + 2 and set(ended) <= set(listed)
        for job, (format, state, message) in ended.items():
            assert listed[job]["state"] == state
            assert state == "done" or listed[job]["error"]["code"] == "crashed", listed[job]
    print(f"seed {seed}: {len(ended)} jobs, {killed} kills")
    made = repository(tmp_path / "out" / "repo")
    assert len(made) == len(set(made)), f"two commits of one job: {sorted(made)}"
    done = {message for format, state, message in ended.values() if format == "icechunk" and state == "done"}
    assert done <= set(made) <= {*commits, "Repository initialized"}
    for job, (format, state, _) in ended.items():
        left = {path.name for path in (tmp_path / "jobs" / job).iterdir()}
        assert left <= {"job.json", "lock", "result.json", ".job.json.new", ".progress.json.new"}, left


@pytest.mark.parametrize("seed", range(SEED, SEED + ROUNDS))
def test_appends_are_made_once_while_instances_die(tmp_path, archive, seed):  # noqa: F811
    """Clients append two files after the other, each to a repository of its own."""
    import xarray as xr
    choose, done = random.Random(seed), {}
    (tmp_path / "out").mkdir()
    with Instances(tmp_path, archive) as instances:
        def client(number, is_over):
            for at in range(0, FILES, 2):
                more = {"append_dim": "time"} if at else {}
                body = batch(archive, format="icechunk", output=f"file://{tmp_path}/out/repo{number}", message=f"{at}", **more)
                body["inputs"] = [f"file://{archive}/a{file:03}.nc" for file in (at, at + 1)]
                headers = {"idempotency-key": f"{number}-{at}"}
                shown = instances.follow(json.loads(instances.ask("/v1/jobs", body, headers=headers)[1])["id"])
                if is_over() or shown["state"] == "failed" and shown["error"]["code"] == "crashed":
                    break
                assert shown["state"] == "done", shown
                done[number] = at

        killed = instances.disturb([functools.partial(client, number) for number in range(4)], choose)
    print(f"seed {seed}: {[at // 2 + 1 for at in done.values()]} appends, {killed} kills")
    for number, last in done.items():
        log, dataset = opened(icechunk.local_filesystem_storage(str(tmp_path / "out" / f"repo{number}")))
        log = [commit.message for commit in reversed(log)][1:]
        # The job after the last one may have committed as well.
        assert log in ([str(at) for at in range(0, more, 2)] for more in (last + 2, last + 4)), log
        xr.testing.assert_equal(dataset, expected(archive).isel(time=slice(0, 2 * DAYS * len(log))))


def test_a_job_moves_on_when_its_instance_stops(tmp_path, archive):  # noqa: F811
    with Instances(tmp_path, archive, 2) as instances:
        job = json.loads(instances.services[0].ask("/v1/jobs", batch(archive)).read())["id"]
        instances.services[0].process.terminate()
        instances.services[0].process.wait()
        shown = instances.services[1].ended(job)
        assert shown["state"] == "done"
        assert json.loads((tmp_path / "jobs" / job / "job.json").read_text())["crashes"] == 0


def test_a_job_that_kills_two_instances_is_not_started_again(tmp_path, archive):  # noqa: F811
    """Whichever instance runs the job is killed, as if the job had exhausted its memory: the third instance survives."""
    def runner(instances, job):
        """Finds the instance that holds the lock of the job."""
        place = tmp_path / "jobs" / job / "lock"
        for at, service in enumerate(instances.services):
            for link in (f"/proc/{service.process.pid}/fd/{name}" for name in os.listdir(f"/proc/{service.process.pid}/fd")):
                with contextlib.suppress(OSError):
                    if os.readlink(link) == str(place):
                        return at
        return None

    def states(job):
        return json.loads((tmp_path / "jobs" / job / "job.json").read_text())

    for _ in range(20):
        with Instances(tmp_path, archive) as instances:
            job = instances.services[0].submit(**batch(archive))
            crashes, end = 0, time.monotonic() + 60
            while crashes < 2 and time.monotonic() < end and states(job)["state"] != "done":
                record = states(job)
                if record["state"] == "running" and record["crashes"] == crashes and (at := runner(instances, job)) is not None:
                    instances.services[at].process.kill()
                    instances.services[at].process.wait()
                    del instances.services[at]
                    crashes += 1
            if crashes < 2 or states(job)["state"] == "done":
                continue
            shown = instances.follow(job)
            assert shown["state"] == "failed" and shown["error"]["code"] == "crashed", shown
            # The third instance is not affected.
            assert instances.follow(instances.services[0].submit(**batch(archive)))["state"] == "done"
            return
    raise AssertionError("the job always ended before it was killed twice")
