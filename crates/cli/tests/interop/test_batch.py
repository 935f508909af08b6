"""`batch`: outputs per file, combined datasets compared with `xr.open_mfdataset` on the originals, and the journal: killed runs, changed files, failed
files."""
import json, os, pathlib, random, signal, sqlite3, subprocess, time, warnings

import clients
import numpy as np
import pytest
from clients import virtualize
from slow_s3 import SlowS3

DAYS = 12


def day(path, k, *, unit="K", units="hours since 2020-01-01", start=None):
    """Writes a day of packed numbers, as in archives."""
    import netCDF4
    with netCDF4.Dataset(path, "w") as d:
        for name, size in (("time", None), ("lat", 4), ("lon", 6)):
            d.createDimension(name, size)
        t = d.createVariable("time", "f8", ("time",), chunksizes=(8,))
        t.units, t.calendar = units, "proleptic_gregorian"
        t[:] = np.arange(8.0) * 3 + (24 * k if start is None else start)
        for name, size in (("lat", 4), ("lon", 6)):
            d.createVariable(name, "f4", (name,))[:] = np.linspace(0, 10, size)
        v = d.createVariable("t2m", "i2", ("time", "lat", "lon"), zlib=True, shuffle=True, chunksizes=(4, 4, 6), fill_value=-32768)
        v.set_auto_maskandscale(False)
        v.scale_factor, v.add_offset, v.units = 0.01, 273.15, unit
        v[:] = np.random.default_rng(k).integers(-3000, 3000, (8, 4, 6))
        d.title = "days"
    return path


@pytest.fixture(scope="module")
def days(tmp_path_factory, request):
    """As many files as the constant `DAYS` of the using module."""
    folder = tmp_path_factory.mktemp("days")
    return [day(folder / f"day_{k:02}.nc", k) for k in range(request.module.DAYS)]


@pytest.fixture
def bucket(days, request):
    """A server with the files, with the `LATENCY` of the using module."""
    with SlowS3({f"era/{path.name}": path.read_bytes() for path in days}, latency=getattr(request.module, "LATENCY", 0)) as server:
        yield server


def urls(server):
    return [f"s3://bucket/{key}" for key in sorted(server.objects)]


def batch(*arguments, status=0, env=None):
    run = virtualize("batch", *arguments, env=env)
    assert run.status == status, run.stderr
    return run


def together(paths):
    import xarray as xr
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return xr.open_mfdataset(paths, combine="by_coords", engine="netcdf4").load()


def printed(run, cwd):
    """Opens the dataset with the printed snippet."""
    scope, before = {}, os.getcwd()
    os.chdir(cwd)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(run.stdout, scope)
            return (scope.get("ds") if "ds" in scope else scope["dataset"]).load()
    finally:
        os.chdir(before)


def content(output):
    """Returns all bytes of an output."""
    output = pathlib.Path(output)
    if output.is_file():
        return {"": output.read_bytes()}
    return {str(p.relative_to(output)): p.read_bytes() for p in sorted(output.rglob("*")) if p.is_file()}


# ---- one output per file

def test_each_file_has_an_output_of_its_own(days, tmp_path):
    out = tmp_path / "refs"
    broken = tmp_path / "broken.nc"
    broken.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    run = batch(*days, broken, "--each", "-o", out, status=1)
    assert "--on-failure retry" in run.stderr and "broken.nc" in run.stderr
    found = {p.name for p in out.rglob("*") if p.is_file()}
    assert found == {f"{p.name}.json" for p in days}
    for path in days:
        got = json.loads(next(out.rglob(f"{path.name}.json")).read_bytes())
        assert got == json.loads(clients.convert(path, "kerchunk-json").stdout)
    assert not list(out.rglob(".virtualize-*"))
    # Missing outputs are written again, existing ones stay.
    gone, kept = next(out.rglob(f"{days[0].name}.json")), next(out.rglob(f"{days[1].name}.json"))
    gone.unlink()
    before = kept.stat().st_mtime_ns
    batch(*days, broken, "--each", "-o", out, status=1)
    assert gone.is_file() and kept.stat().st_mtime_ns == before


# ---- one dataset from all files

@pytest.mark.parametrize("name", ["out.json", "out.parquet", "out.zarr", "out.icechunk", "v3.json"])
def test_combined_files_read_as_open_mfdataset_reads_them(days, tmp_path, name):
    import xarray as xr
    arguments = ["--format", "zarr3-json"] if name == "v3.json" else []
    run = batch(*reversed(days), "--concat-dim", "time", "-o", tmp_path / name, *arguments)
    got = printed(run, tmp_path)
    expected = together(days)
    xr.testing.assert_equal(got, expected)
    assert got["t2m"].shape == (8 * DAYS, 4, 6)


def test_names_give_coordinates_along_a_new_dimension(tmp_path):
    import xarray as xr
    paths = [day(tmp_path / f"run_{member}_20200101.nc", member, start=0) for member in (3, 1, 10)]
    run = batch(tmp_path / "run_*.nc", "--stack-dim", "member", "--coord", "member=name:run_{member:d}_{}.nc", "-o", tmp_path / "out.zarr")
    got = printed(run, tmp_path)
    assert got["member"].values.tolist() == [1, 3, 10]
    for member, path in zip((3, 1, 10), paths):
        xr.testing.assert_equal(got["t2m"].sel(member=member, drop=True), together([path])["t2m"])


def test_files_that_disagree_are_not_merged(days, tmp_path):
    other = day(tmp_path / "other.nc", 30, unit="degC")
    out = tmp_path / "out.json"
    run = batch(*days, other, "--concat-dim", "time", "-o", out, status=1)
    assert "units" in run.stderr and "--on-mismatch" in run.stderr and not out.exists()
    import xarray as xr
    # Files in the journal are not read again to combine them differently.
    run = batch(*days, other, "--concat-dim", "time", "-o", out, "--on-mismatch", "skip")
    assert f" 0 read" in run.stderr and "other.nc" in run.stderr
    xr.testing.assert_equal(printed(run, tmp_path), together(days))
    run = batch(*days, other, "--concat-dim", "time", "-o", out, "--on-mismatch", "split")
    for group, paths in (("set_0", days), ("set_1", [other])):
        got = xr.open_dataset(str(out), engine="kerchunk", group=group).load()
        xr.testing.assert_equal(got, together(paths))


def test_another_command_does_not_go_on_with_a_journal(days, tmp_path):
    out = tmp_path / "out.json"
    batch(*days, "--concat-dim", "time", "-o", out)
    for arguments, named in ((["--concat-dim", "lat"], "dimensions"), (["--concat-dim", "time", "--option", "split-contiguous=1M"], "split-contiguous"),
                             (["--concat-dim", "time", "--format", "zarr3-json"], "zarr-format")):
        run = batch(*days, "-o", out, *arguments, status=1)
        assert named in run.stderr and "--restart" in run.stderr
    batch(*days, "-o", out, "--concat-dim", "time", "--option", "concurrency=3")
    batch(*days, "-o", out, "--concat-dim", "time", "--format", "zarr3-json", "--restart")


def test_two_processes_do_not_work_on_one_journal(days, tmp_path):
    out = tmp_path / "out.json"
    with sqlite3.connect(f"{out}.journal") as other:
        other.execute("PRAGMA locking_mode=EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        run = batch(*days, "--concat-dim", "time", "-o", out, status=1)
        assert "another process" in run.stderr
        other.rollback()
    other.close()


# ---- the journal

def states(journal):
    """Returns the state of each file, from a copy: the journal of a killed run must not be modified."""
    copy = journal.with_name("copy")
    for end in ("", "-wal"):
        source = pathlib.Path(f"{journal}{end}")
        if source.exists():
            pathlib.Path(f"{copy}{end}").write_bytes(source.read_bytes())
    with sqlite3.connect(copy) as db:
        found = dict(db.execute("SELECT url, state FROM files")) if db.execute("SELECT 1 FROM sqlite_schema WHERE name='files'").fetchone() else {}
    db.close()
    for path in journal.parent.glob("copy*"):
        path.unlink()
    return found


def command(server, output, *arguments):
    keep = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
    return dict(args=[clients.BINARY, "batch", *urls(server), "-o", str(output), "--option", "concurrency=2", "-q", *map(str, arguments)], env={**keep, **server.env},
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


@pytest.mark.parametrize("name, arguments", [("out.json", ("--concat-dim", "time")), pytest.param("out.parquet", ("--concat-dim", "time"), marks=pytest.mark.slow),
                                             pytest.param("refs", ("--each",), marks=pytest.mark.slow)])
def test_killed_at_any_moment_the_same_command_ends_with_the_same_bytes(bucket, tmp_path, name, arguments):
    choose = random.Random(name)
    whole = tmp_path / "whole" / name
    whole.parent.mkdir()
    bucket.latency = 0.02
    start = time.monotonic()
    assert subprocess.run(**command(bucket, whole, *arguments)).returncode == 0
    took, expected = time.monotonic() - start, content(whole)
    assert expected
    kills = turn = read_twice = 0
    while kills < 17:
        turn += 1
        output = tmp_path / f"turn{turn}" / name
        output.parent.mkdir()
        journal = output.with_name(f"{name}.journal")
        while True:
            done = {url for url, state in states(journal).items() if state == 1} if journal.exists() else set()
            bucket.requested.clear()
            process = subprocess.Popen(**command(bucket, output, *arguments))
            try:
                process.wait(choose.uniform(0, took * (0.3 if choose.random() < 0.5 else 1.0)) if kills < 17 else None)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                kills += 1
            status, messages = process.wait(), process.stderr.read()
            process.stderr.close()
            read_twice += sum(1 for url in done if bucket.requested[url.removeprefix("s3://bucket/")])
            if status == 0:
                break
            assert status == -signal.SIGKILL, messages
            # An existing output is complete.
            if output.is_file():
                assert content(output) == expected
            elif output.is_dir():
                assert all(expected[key] == text for key, text in content(output).items() if ".virtualize-" not in key)
        found = {key: text for key, text in content(output).items() if ".virtualize-" not in key}
        assert found == expected, f"turn {turn}"
    assert read_twice == 0


def test_what_is_done_is_not_read_again(bucket, tmp_path):
    out = tmp_path / "out.json"
    run = batch(*urls(bucket), "--concat-dim", "time", "-o", out, env=bucket.env)
    assert f"{DAYS} read" in run.stderr
    before = content(out)
    bucket.requested.clear()
    run = batch(*urls(bucket), "--concat-dim", "time", "-o", out, env=bucket.env)
    assert not +bucket.requested and "up to date" in run.stderr
    assert content(out) == before


def test_failed_files_are_kept_apart_and_tried_again(bucket, tmp_path):
    out, key = tmp_path / "out.json", "era/day_03.nc"
    good = bucket.objects[key]
    bucket.objects[key] = good[:1000]
    arguments = (*urls(bucket), "--concat-dim", "time", "-o", out)
    run = batch(*arguments, status=1, env=bucket.env)
    assert "day_03.nc" in run.stderr and "--on-failure retry" in run.stderr and not out.exists()
    run = batch(*arguments, "--on-failure", "skip", env=bucket.env)
    assert printed_size(out, bucket) == 8 * (DAYS - 1)
    bucket.objects[key] = good
    bucket.requested.clear()
    batch(*arguments, "--on-failure", "retry", env=bucket.env)
    assert set(+bucket.requested) - {"?list"} == {key}
    assert printed_size(out, bucket) == 8 * DAYS


def printed_size(out, _):
    refs = json.loads(out.read_bytes())["refs"]
    return json.loads(refs["time/.zarray"])["shape"][0]


def test_faults_of_the_store_are_tried_again(bucket, tmp_path):
    bucket.failing.update({f"era/day_{k:02}.nc": 2 for k in range(0, DAYS, 3)})
    out = tmp_path / "out.json"
    batch(*urls(bucket), "--concat-dim", "time", "-o", out, env=bucket.env)
    whole = tmp_path / "whole.json"
    batch(*urls(bucket), "--concat-dim", "time", "-o", whole, env=bucket.env)
    assert content(out) == content(whole)


def test_events_are_lines_of_json(days, tmp_path):
    run = batch(*days, "--concat-dim", "time", "-o", tmp_path / "out.json", "--json-log", "-", "--quiet")
    events = [json.loads(line) for line in run.stdout.splitlines()]
    assert [e["event"] for e in events if e["event"] not in ("started", "read", "listed", "note")] == ["sets", "combining", "writing", "done"]
    assert sum(e["event"] == "read" for e in events) == DAYS and all(e["time"] > 0 for e in events)
    assert events[-1]["summary"]["files"] == DAYS and not run.stderr


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_stopped_run_says_how_it_goes_on(bucket, tmp_path):
    bucket.latency = 0.2
    out = tmp_path / "out.json"
    process = subprocess.Popen(**command(bucket, out, "--concat-dim", "time"))
    journal = out.with_name("out.json.journal")
    while len(bucket.requested) < DAYS // 2:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.wait(90) == 1
    messages = process.stderr.read().decode()
    process.stderr.close()
    assert "stopped" in messages and "run the same command again" in messages and not out.exists()
    assert 0 < sum(state == 1 for state in states(journal).values()) < DAYS
    bucket.latency = 0
    assert subprocess.run(**command(bucket, out, "--concat-dim", "time")).returncode == 0 and out.exists()


# ---- new, changed and deleted files

@pytest.mark.parametrize("name", ["out.json", "out.icechunk"])
def test_new_files_are_appended_and_only_they_are_read(days, bucket, tmp_path, name):
    out, first = tmp_path / name, urls(bucket)[:5]
    batch(*first, "--concat-dim", "time", "-o", out, env=bucket.env)
    for arguments, read in ((urls(bucket)[:8], 3), (urls(bucket)[8:], DAYS - 8)):
        bucket.requested.clear()
        run = batch(*arguments, "--concat-dim", "time", "-o", out, "--append", env=bucket.env)
        assert f" {read} read" in run.stderr
    assert len(+bucket.requested) - ("?list" in bucket.requested) <= DAYS
    check_values(run, out, bucket, days)
    if name.endswith(".icechunk"):
        import icechunk
        repository = icechunk.Repository.open(icechunk.local_filesystem_storage(str(out)))
        # The initial snapshot of the repository, and one per run.
        log = [snapshot.id for snapshot in repository.ancestry(branch="main")]
        assert len(log) == 4
        changes = repository.diff(from_snapshot_id=log[1], to_snapshot_id=log[0])
        assert {path: min(chunk[0] for chunk in chunks) for path, chunks in changes.updated_chunks.items()} == {"/time": 0, "/t2m": 16}
    run = batch(*urls(bucket)[8:], "--concat-dim", "time", "-o", out, "--append", env=bucket.env)
    assert "up to date" in run.stderr


def check_values(run, out, bucket, days):
    """Reads values through the references, with bytes from the server's memory."""
    import xarray as xr
    expected = together(days)
    if out.suffix == ".json":
        text = out.read_bytes()
        for path in days:
            text = text.replace(f"s3://bucket/era/{path.name}".encode(), f"file://{path}".encode())
        local = out.with_name("local.json")
        local.write_bytes(text)
        xr.testing.assert_equal(xr.open_dataset(str(local), engine="kerchunk").load(), expected)
        return
    local = out.with_name("local.json")
    run = virtualize("convert", out, "--format", "zarr3-json", "--rewrite-url", f"s3://bucket/era/=file://{days[0].parent}", "-o", local, env=bucket.env)
    assert run.status == 0, run.stderr
    got = xr.open_dataset(clients.open_store(str(local)), engine="zarr", consolidated=False)
    xr.testing.assert_equal(got.load(), expected)


def test_files_with_other_units_are_appended_all_the_same(days, tmp_path):
    """The new part cannot be appended as it is: everything is written again, with correct times."""
    import xarray as xr
    out = tmp_path / "out.icechunk"
    batch(*days[:4], "--concat-dim", "time", "-o", out)
    more = [day(tmp_path / f"more_{k}.nc", k, units=f"hours since 2020-01-{k + 1:02}", start=0) for k in (4, 5)]
    run = batch(*days[:4], *more, "--concat-dim", "time", "-o", out, "--append")
    xr.testing.assert_equal(printed(run, tmp_path), together([*days[:4], *more]))


def test_changed_files_are_read_again_and_vanished_ones_are_an_error(bucket, tmp_path):
    out, key = tmp_path / "out.json", "era/day_05.nc"
    listed = write_list(bucket, tmp_path)
    batch("--list", listed, "--concat-dim", "time", "-o", out, env=bucket.env)
    other = day(tmp_path / "other.nc", 105, start=24 * 5)
    bucket.objects[key] = other.read_bytes()
    bucket.requested.clear()
    write_list(bucket, tmp_path)
    batch("--list", listed, "--concat-dim", "time", "-o", out, env=bucket.env)
    assert set(+bucket.requested) == {key}
    whole = tmp_path / "whole.json"
    batch("--list", listed, "--concat-dim", "time", "-o", whole, env=bucket.env)
    assert content(out) == content(whole)
    del bucket.objects["era/day_11.nc"]
    write_list(bucket, tmp_path)
    run = batch("--list", listed, "--concat-dim", "time", "-o", out, status=1, env=bucket.env)
    assert "day_11.nc" in run.stderr and "--on-change drop" in run.stderr and content(out) == content(whole)
    batch("--list", listed, "--concat-dim", "time", "-o", out, "--on-change", "drop", env=bucket.env)
    assert printed_size(out, bucket) == 8 * (DAYS - 1)


def write_list(bucket, folder):
    from slow_s3 import etag
    path = folder / "files.txt"
    lines = [json.dumps({"url": f"s3://bucket/{key}", "size": len(body), "etag": etag(body)}) for key, body in sorted(bucket.objects.items())]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_file_that_is_replaced_after_the_listing_is_read_as_it_is_now(bucket, tmp_path):
    out, key = tmp_path / "out.json", "era/day_02.nc"
    listed = write_list(bucket, tmp_path)
    bucket.objects[key] = day(tmp_path / "other.nc", 102, start=24 * 2).read_bytes()
    run = batch("--list", listed, "--concat-dim", "time", "-o", out, env=bucket.env)
    assert "again in" in run.stderr
    whole = tmp_path / "whole.json"
    batch("--list", write_list(bucket, tmp_path), "--concat-dim", "time", "-o", whole, env=bucket.env)
    assert content(out) == content(whole)


def test_a_dry_run_says_where_late_and_replaced_files_belong(tmp_path):
    """It changes neither the output nor the journal. The run itself puts the files there, in one commit of a repository."""
    for k in (0, 2, 3):
        day(tmp_path / f"d{k}.nc", k)
    out, arguments = tmp_path / "all.icechunk", (f"{tmp_path}/*.nc", "--concat-dim", "time", "-o", tmp_path / "all.icechunk", "--append", "--on-change", "update")
    batch(*arguments)
    before = content(out), (tmp_path / "all.icechunk.journal").read_bytes()
    day(tmp_path / "d1.nc", 1)
    day(tmp_path / "d3.nc", 3, start=80)
    os.utime(tmp_path / "d3.nc", ns=(10**18, 10**18))
    messages = batch(*arguments, "--dry-run").stderr
    assert "d1.nc: elements time 8 to 15 of 32" in messages and "d3.nc: elements time 24 to 31 of 32" in messages and "dry run: nothing was written" in messages
    assert before == (content(out), (tmp_path / "all.icechunk.journal").read_bytes())
    batch(*arguments)
    import icechunk
    repository = icechunk.Repository.open(icechunk.local_filesystem_storage(str(out)))
    # The first two are of the repository itself and of the first run.
    assert len(list(repository.ancestry(branch="main"))) == 3
