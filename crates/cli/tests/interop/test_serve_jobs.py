"""Jobs of `virtualize serve`: results equal those of xarray for the same files, also after the process was killed."""
import json, os, re, signal, subprocess, threading, time, urllib.error, urllib.request

import clients
import numpy as np
import pytest

FILES, DAYS = 60, 3


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """Writes files that are consecutive in time."""
    import xarray as xr
    folder = tmp_path_factory.mktemp("archive").resolve()
    random = np.random.default_rng(8)
    for at in range(FILES):
        time_ = np.arange(at * DAYS, (at + 1) * DAYS, dtype="float64")
        values = random.normal(size=(DAYS, 4, 5)).astype("float32")
        data = xr.Dataset({"t": (("time", "lat", "lon"), values)},
                          {"time": ("time", time_, {"units": "days since 2000-01-01"}), "lat": np.arange(4.0), "lon": np.arange(5.0)})
        data.to_netcdf(folder / f"a{at:03}.nc", engine="h5netcdf", encoding={"t": {"zlib": True, "chunksizes": (1, 4, 5)}})
    return folder


class Service:
    def __init__(self, folder, archive, *more, environment={}):
        self.folder = folder
        keep = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "AZURE_", "GOOGLE_", "RUST_LOG", "VIRTUALIZE_"))}
        (folder / "out").mkdir(exist_ok=True)
        command = [clients.BINARY, "serve", "--listen", "127.0.0.1:0", "--allow", f"file://{archive}/", "--jobs", folder / "jobs",
                   "--allow-write", f"file://{folder}/out/", "--log", "json", *more]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**keep, **environment})
        self.url = None
        for line in self.process.stderr:
            found = re.search(r"listening on (http://[^\s\"]+)", line)
            if found:
                self.url = found[1]
                break
        assert self.url
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            assert self.process.wait(60) == 0

    def ask(self, path, body=None, method=None, headers={}):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"content-type": "application/json", **headers}, method=method)
        return urllib.request.urlopen(request, timeout=60)

    def submit(self, **body):
        with self.ask("/v1/jobs", body) as answer:
            assert answer.status == 202
            return json.load(answer)["id"]

    def events(self, job, last=None):
        with self.ask(f"/v1/jobs/{job}/events", headers={"last-event-id": str(last)} if last else {}) as answer:
            event = {}
            for line in answer:
                name, _, value = line.decode().rstrip("\n").partition(":")
                if name:
                    event[name] = value.strip()
                elif "data" in event:
                    yield event["event"], int(event["id"]), json.loads(event["data"])
                    event = {}

    def ended(self, job):
        """Follows the events to the end."""
        for _ in range(50):
            for event, _, shown in self.events(job):
                if event == "done":
                    return shown
        raise AssertionError("it does not end")

    def result(self, job):
        with self.ask(f"/v1/jobs/{job}/result") as answer:
            return answer.read()


def expected(archive):
    import xarray as xr
    return xr.open_mfdataset(sorted(archive.glob("*.nc")), combine="nested", concat_dim="time", data_vars="minimal", coords="minimal",
                             compat="override", engine="h5netcdf").load()


def batch(archive, **more):
    return {"kind": "batch", "inputs": [f"file://{archive}/*.nc"], "concat_dim": ["time"], **more}


@pytest.mark.parametrize("format", ["kerchunk-json", "zarr3-json"])
def test_batch_is_what_xarray_opens(tmp_path, archive, format):
    import xarray as xr
    with Service(tmp_path, archive) as service:
        job = service.submit(**batch(archive, format=format))
        shown = service.ended(job)
        assert shown["state"] == "done", shown
        assert shown["progress"] == {"listed": FILES, "read": FILES, "failed": 0, "total": FILES}
        references = json.loads(service.result(job))
    with xr.open_dataset(clients.open_store(references), engine="zarr", consolidated=False, chunks=None) as ours:
        xr.testing.assert_equal(ours.load(), expected(archive))


def test_parquet_is_read_over_http(tmp_path, archive):
    import fsspec, xarray as xr
    with Service(tmp_path, archive) as service:
        job = service.submit(**batch(archive, format="kerchunk-parquet"))
        assert service.ended(job)["state"] == "done"
        names = [one["path"] for one in json.loads(service.result(job))["files"]]
        folder = tmp_path / "fetched.parq"
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            with service.ask(f"/v1/jobs/{job}/result/{name}") as answer:
                (folder / name).write_bytes(answer.read())
        fs = fsspec.filesystem("reference", fo=str(folder), remote_protocol="file", lazy=True)
        with xr.open_dataset(fs.get_mapper(""), engine="zarr", consolidated=False, chunks=None) as ours:
            xr.testing.assert_equal(ours.load(), expected(archive))


def test_scan_is_that_of_the_command(tmp_path, archive):
    with Service(tmp_path, archive) as service:
        job = service.submit(kind="scan", inputs=[f"file://{archive}/"], concat_dim=["time"])
        assert service.ended(job)["state"] == "done"
        ours = json.loads(service.result(job))
    run = subprocess.run([clients.BINARY, "scan", archive, "--concat-dim", "time", "--json"], capture_output=True, text=True, check=True)
    assert ours == json.loads(run.stdout)
    assert ours["files"] == FILES


def test_events_go_on(tmp_path, archive):
    with Service(tmp_path, archive, "--jobs-openings", "1") as service:
        job = service.submit(**batch(archive))
        told = list(service.events(job))
        assert [name for name, *_ in told[:-1]] == ["progress"] * (len(told) - 1) and told[-1][0] == "done"
        ids = [version for _, version, _ in told]
        assert ids == sorted(set(ids))
        read = [shown["progress"]["read"] for *_, shown in told]
        assert read == sorted(read) and read[-1] == FILES
        again = list(service.events(job, last=ids[0]))
        assert all(version >= ids[0] for _, version, _ in again)


def test_killed_in_the_middle_it_goes_on(tmp_path, archive):
    with Service(tmp_path, archive) as service:
        job = service.submit(**batch(archive))
        assert service.ended(job)["state"] == "done"
        undisturbed = service.result(job)
    # A job that completes before it is killed proves nothing.
    for _ in range(20):
        with Service(tmp_path, archive, "--jobs-openings", "1") as service:
            job = service.submit(**batch(archive))
            for _, _, shown in service.events(job):
                if shown["state"] == "running":
                    break
            service.process.kill()
            service.process.wait()
        kept = json.loads((tmp_path / "jobs" / job / "job.json").read_text())
        if kept["state"] != "done":
            break
    # The state can be reported slightly before it is written.
    assert kept["state"] in ("running", "queued")
    # Stopped gracefully this time.
    with Service(tmp_path, archive, "--jobs-openings", "1") as service:
        time.sleep(0.05)
    kept = json.loads((tmp_path / "jobs" / job / "job.json").read_text())
    assert kept["state"] in ("parked", "queued", "done")
    with Service(tmp_path, archive) as service:
        shown = service.ended(job)
        assert shown["state"] == "done", shown
        assert service.result(job) == undisturbed
        with service.ask(f"/v1/jobs/{job}", method="DELETE") as answer:
            assert answer.status == 204
        assert not (tmp_path / "jobs" / job).exists()


def test_cancelled(tmp_path, archive):
    with Service(tmp_path, archive, "--jobs-openings", "1", "--jobs-running", "1") as service:
        jobs = [service.submit(**batch(archive)) for _ in range(3)]
        with service.ask(f"/v1/jobs/{jobs[-1]}", method="DELETE") as answer:
            assert answer.status == 202
        assert service.ended(jobs[-1])["state"] == "cancelled"
        with pytest.raises(urllib.error.HTTPError) as error:
            service.result(jobs[-1])
        assert error.value.code == 409
        assert service.ended(jobs[0])["state"] == "done"


def test_written_only_where_it_may_be(tmp_path, archive):
    import xarray as xr
    with Service(tmp_path, archive) as service:
        for output in [f"file://{tmp_path}/x.json", f"file://{archive}/x.json", f"file://{tmp_path}/outer/x.json", "s3://bucket/x.json"]:
            with pytest.raises(urllib.error.HTTPError) as error:
                service.submit(**batch(archive, output=output))
            assert error.value.code == 403 and json.load(error.value)["code"] == "not-allowed"
        job = service.submit(**batch(archive, output=f"file://{tmp_path}/out/all.json"))
        shown = service.ended(job)
        assert shown["result"]["links"] == {"output": f"file://{tmp_path}/out/all.json"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["jobs", "out"]
    references = json.loads((tmp_path / "out" / "all.json").read_text())
    with xr.open_dataset(clients.open_store(references), engine="zarr", consolidated=False, chunks=None) as ours:
        xr.testing.assert_equal(ours.load(), expected(archive))
