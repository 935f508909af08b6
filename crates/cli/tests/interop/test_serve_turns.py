"""Jobs that crash the service, that are stopped, and that write to the same output: the service is really killed, and xarray reads the results."""
import json, os, random, threading, time, urllib.error

import pytest

from test_serve_jobs import Service, archive, batch, expected  # noqa: F401

ROUNDS = int(os.environ.get("JOB_ROUNDS", 2))


def kept(folder, job):
    return json.loads((folder / "jobs" / job / "job.json").read_text())


def killed_while_it_runs(folder, archive, job=None):  # noqa: F811
    """Starts the service and kills it as soon as a job's record says that it is running."""
    with Service(folder, archive, "--jobs-openings", "1") as service:
        job = job or service.submit(**batch(archive))
        end = time.monotonic() + 60
        while kept(folder, job)["state"] in ("queued", "parked") and time.monotonic() < end:
            time.sleep(0.001)
        service.process.kill()
        service.process.wait()
    return job, kept(folder, job)


def test_a_job_that_kills_the_service_twice_is_not_started_again(tmp_path, archive):  # noqa: F811
    for _ in range(20):
        job, record = killed_while_it_runs(tmp_path, archive)
        if record["state"] == "running":
            job, record = killed_while_it_runs(tmp_path, archive, job)
            if record["state"] == "running":
                break
    assert record["state"] == "running" and record["crashes"] == 1
    with Service(tmp_path, archive) as service:
        shown = service.ended(job)
        assert shown["state"] == "failed" and shown["error"]["code"] == "crashed" and shown["progress"]["read"] == 0
        assert not list((tmp_path / "jobs" / job).glob("journal*"))
        # Other jobs are not affected.
        assert service.ended(service.submit(**batch(archive)))["state"] == "done"
    with Service(tmp_path, archive) as service:
        assert service.ended(job)["state"] == "failed"


def test_a_service_that_is_stopped_has_not_crashed(tmp_path, archive):  # noqa: F811
    job = None
    for _ in range(4):
        with Service(tmp_path, archive, "--jobs-openings", "1") as service:
            job = job or service.submit(**batch(archive))
            time.sleep(0.1)
    assert kept(tmp_path, job)["crashes"] == 0
    with Service(tmp_path, archive) as service:
        assert service.ended(job)["state"] == "done"


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_jobs_to_one_output_are_whole(tmp_path, archive, seed):  # noqa: F811
    """Many jobs to few outputs, some of them stopped at random: each output is that of a completed job."""
    import xarray as xr
    choose = random.Random(seed)
    outputs = [f"file://{tmp_path}/out/{name}" for name in ("a.json", "b.parquet", "c.zarr")]
    formats = ["kerchunk-json", "kerchunk-parquet", "zarr3"]
    with Service(tmp_path, archive, "--jobs-running", "4", "--client-jobs", "100") as service:
        jobs = []
        for _ in range(10):
            which = choose.randrange(3)
            jobs.append((which, service.submit(**batch(archive, output=outputs[which], format=formats[which], overwrite=True))))
            if choose.random() < 0.4:
                time.sleep(choose.uniform(0, 0.5))
                _, stopped = choose.choice(jobs)
                service.ask(f"/v1/jobs/{stopped}", method="DELETE").close()
        states = {}
        for which, job in jobs:
            try:
                states.setdefault(which, []).append(service.ended(job)["state"])
            except urllib.error.HTTPError as error:
                assert error.code == 404  # it was completed and removed
    for which, ended in states.items():
        assert set(ended) <= {"done", "cancelled"}, ended
        path = tmp_path / "out" / outputs[which].rsplit("/", 1)[1]
        assert path.exists() or "done" not in ended
    path = tmp_path / "out" / "a.json"
    if path.exists():
        dataset = xr.open_dataset(f"reference::{path}", engine="zarr", consolidated=False)
        xr.testing.assert_equal(dataset.load(), expected(archive))
    assert not list((tmp_path / "out").glob(".virtualize-*.part"))


def test_a_cancelled_job_writes_nothing_afterwards(tmp_path, archive):  # noqa: F811
    with Service(tmp_path, archive, "--jobs-running", "2") as service:
        for at in range(6):
            output = tmp_path / "out" / f"{at}.json"
            job = service.submit(**batch(archive, output=f"file://{output}"))
            time.sleep(at * 0.15)
            service.ask(f"/v1/jobs/{job}", method="DELETE").close()
            try:
                state = service.ended(job)["state"]
            except urllib.error.HTTPError:
                continue  # it was completed and removed
            is_there = output.exists()
            assert is_there == (state == "done")
            time.sleep(1)
            assert output.exists() == is_there, "written after its end"


def test_links_that_come_while_a_job_runs_lead_nowhere(tmp_path, archive):  # noqa: F811
    """The folder of an output is repeatedly replaced by a link to one outside."""
    outside, inside, aside = tmp_path / "outside", tmp_path / "out" / "f", tmp_path / "out" / "aside"
    outside.mkdir()
    ends = threading.Event()

    def swap():
        while not ends.is_set():
            for make in (lambda: os.symlink(outside, inside), lambda: inside.mkdir()):
                try:
                    if inside.is_symlink():
                        inside.unlink()
                    elif inside.exists():
                        inside.rename(aside)
                        for left in aside.iterdir():
                            left.unlink() if left.is_file() else None
                        aside.rmdir()
                    make()
                except OSError:
                    pass
                time.sleep(0.002)
    with Service(tmp_path, archive) as service:
        inside.mkdir()
        swapping = threading.Thread(target=swap)
        swapping.start()
        try:
            for at in range(12):
                body = batch(archive, output=f"file://{inside}/x{at}.json")
                try:
                    service.ended(service.submit(**body))
                except urllib.error.HTTPError as error:
                    assert error.code in (403, 404)
        finally:
            ends.set()
            swapping.join()
    assert not [path for path in outside.iterdir() if not path.name.endswith(".lock")]


def test_outputs_of_each_stay_below_their_folder(tmp_path, archive):  # noqa: F811
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "sub").mkdir()
    for name in ("sub/a000.nc", "a001.nc"):
        (tmp_path / "data" / name).write_bytes((archive / name.rsplit("/", 1)[-1]).read_bytes())
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "all").mkdir()
    os.symlink(outside, tmp_path / "out" / "all" / "sub")
    with Service(tmp_path, tmp_path / "data") as service:
        job = service.submit(kind="batch", inputs=[f"file://{tmp_path}/data/**/*.nc"], each=True, output=f"file://{tmp_path}/out/all")
        assert service.ended(job)["state"] in ("done", "failed")
    assert not list(outside.rglob("*.json")) and (tmp_path / "out/all/a001.nc.json").exists()
