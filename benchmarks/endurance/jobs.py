"""Jobs of the run: batches in all formats and scans, over files of the folder and of the failing store. Each result is compared with that of the command, and the
values of Icechunk repositories with those that NumPy wrote."""
import collections, json, os, pathlib, random, shutil, subprocess, tempfile, time, urllib.error, urllib.request, warnings

import numpy as np

FILES, DAYS = 40, 2
# Codes with which a job over the failing store may end.
OUTAGES = {"source-unavailable", "failures", "listing", "no-ranges"}
SPLITS = {"kerchunk-json": ".json", "zarr3-json": ".json", "kerchunk-parquet": ".parquet", "zarr3": ".zarr"}


def archive(folder):
    """Writes files that are consecutive in time. Returns their values."""
    import h5py
    values = np.random.default_rng(3).random((FILES * DAYS, 16, 20), dtype="f4")
    for at in range(FILES):
        with h5py.File(folder / f"a{at:03}.nc", "w") as file:
            days = slice(at * DAYS, (at + 1) * DAYS)
            time_ = file.create_dataset("time", data=np.arange(days.start, days.stop, dtype="f8"))
            time_.attrs["units"] = "days since 2000-01-01"
            time_.make_scale("time")
            made = file.create_dataset("t", data=values[days], chunks=(1, 16, 20), compression="gzip")
            made.dims[0].attach_scale(time_)
    return values


class Jobs:
    def __init__(self, address, token, folder, binary, inputs, environment, values, end):
        self.address, self.token, self.folder, self.binary, self.inputs, self.environment = address, token, folder, binary, inputs, environment
        self.values, self.end, self.ended, self.wrong = values, end, collections.Counter(), []

    def ask(self, path, body=None, method=None, headers={}):
        request = urllib.request.Request(self.address + path, json.dumps(body).encode() if body else None,
                                         {"content-type": "application/json", "authorization": f"Bearer {self.token}", **headers}, method=method)
        for _ in range(60):
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    return answer.read()
            except urllib.error.HTTPError as error:
                if error.code not in (429, 503):
                    raise
                time.sleep(1)
        raise TimeoutError(path)

    def learn(self):
        """Records what the command writes for each format and input, while the store is healthy."""
        self.expected = {}
        for name, pattern in self.inputs.items():
            for form, suffix in SPLITS.items():
                output = self.folder / f"expected-{name}-{form}{suffix}"
                subprocess.run([self.binary, "batch", pattern, "--concat-dim", "time", "--format", form, "-o", output, "--quiet"], check=True, env=self.environment,
                               capture_output=True)
                self.expected[name, form] = contents(output)

    def run(self):
        while time.monotonic() < self.end:
            try:
                self.one()
            except (OSError, ValueError, KeyError) as error:
                self.fail("job", repr(error), getattr(error, "read", bytes)()[:300])
            time.sleep(random.random() * 2)

    def fail(self, *what):
        self.wrong.append([time.strftime("%H:%M:%S"), *map(str, what)])
        print("WRONG", *self.wrong[-1], flush=True)

    def one(self):
        name, form = random.choice(list(self.inputs)), random.choice([*SPLITS, "icechunk", "icechunk", "scan"])
        request = {"inputs": [self.inputs[name]], "labels": {"run": "endurance"}}
        request |= {"kind": "scan"} if form == "scan" else {"kind": "batch", "format": form, "concat_dim": ["time"]}
        job = json.loads(self.ask("/v1/jobs", request, headers={"idempotency-key": os.urandom(8).hex()}))["id"]
        if random.random() < 0.1:
            time.sleep(random.random())
            self.ask(f"/v1/jobs/{job}", method="DELETE")
        shown = self.followed(job)
        state = shown["state"] if shown else "removed"
        code = shown.get("error", {}).get("code", "") if shown else ""
        self.ended[f"{form} {state} {code}".strip()] += 1
        if state == "failed" and not (name == "store" and code in OUTAGES):
            self.fail("job failed", form, name, shown.get("error"))
        if state == "done":
            self.check(job, name, form)
        if shown:
            self.ask(f"/v1/jobs/{job}", method="DELETE")

    def followed(self, job):
        """Polls a job until it ends. Returns nothing if it was removed."""
        until = time.monotonic() + 300
        while time.monotonic() < until:
            try:
                shown = json.loads(self.ask(f"/v1/jobs/{job}"))
            except urllib.error.HTTPError as error:
                if error.code == 404:
                    return None
                raise
            if shown["state"] in ("done", "failed", "cancelled"):
                return shown
            time.sleep(0.3)
        raise TimeoutError(f"{job} has not ended")

    def check(self, job, name, form):
        if form == "scan":
            report = json.loads(self.ask(f"/v1/jobs/{job}/result"))
            return report["files"] == FILES or self.fail("scan", str(report)[:300])
        if form == "icechunk":
            return self.check_repository(job, name)
        if SPLITS[form] == ".json":
            found = {"": self.ask(f"/v1/jobs/{job}/result")}
        else:
            files = [one["path"] for one in json.loads(self.ask(f"/v1/jobs/{job}/result"))["files"]]
            found = {path: self.ask(f"/v1/jobs/{job}/result/{path}") for path in files}
        if found != self.expected[name, form]:
            self.fail("references of a job", job, name, form, {path for path in found.keys() | self.expected[name, form].keys() if found.get(path) != self.expected[name, form].get(path)})

    def check_repository(self, job, name):
        """Reads a repository through icechunk-python: all values of files in a folder, and the locations of those in the store, which may fail."""
        os.environ["ICECHUNK_LOG"] = "error"  # no warning for each repository in a folder
        import icechunk, zarr
        with tempfile.TemporaryDirectory(dir=self.folder) as place:
            for one in json.loads(self.ask(f"/v1/jobs/{job}/result"))["files"]:
                path = pathlib.Path(place) / one["path"]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(self.ask(f"/v1/jobs/{job}/result/{one['path']}"))
            storage = icechunk.local_filesystem_storage(place)
            containers = icechunk.Repository.fetch_config(storage).virtual_chunk_containers
            access = icechunk.containers_credentials({prefix: icechunk.Credentials.LocalFileSystemAccess() for prefix in containers} if name == "folder" else {})
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                session = icechunk.Repository.open(storage, authorize_virtual_chunk_access=access).readonly_session("main")
                array = zarr.open_group(session.store, mode="r")["t"]
            if name == "folder":
                return np.array_equal(array[:], self.values) or self.fail("values of a repository", job)
            places = session.all_virtual_chunk_locations()
            if array.shape != self.values.shape or len(set(places)) != FILES:
                self.fail("repository", job, array.shape, len(places))


def contents(output):
    """Returns the files of an output by path."""
    if output.is_file():
        return {"": output.read_bytes()}
    return {str(path.relative_to(output)): path.read_bytes() for path in output.rglob("*") if path.is_file()}


def work(results, *arguments):
    """Runs jobs in a process of their own."""
    jobs = Jobs(*arguments)
    jobs.learn()
    results.put("ready")
    jobs.end += time.monotonic()
    jobs.run()
    results.put((dict(jobs.ended), jobs.wrong))
