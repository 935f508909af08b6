"""`batch` to an Icechunk repository, killed at any moment: after a rerun there is one commit, with the dataset of an undisturbed run."""
import os, random, shutil, signal, subprocess, time, warnings

import clients
import icechunk
import pytest
from test_batch import bucket, command, day, days, together, urls, write_list  # noqa: F401

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals")
DAYS = 8
LATENCY = 0.01
KILLS = 17


def opened(output):
    """Returns the log of main, newest first, and its dataset, through icechunk-python."""
    import xarray as xr
    storage = icechunk.local_filesystem_storage(str(output))
    containers = icechunk.Repository.fetch_config(storage).virtual_chunk_containers
    access = icechunk.containers_credentials({prefix: icechunk.s3_anonymous_credentials() for prefix in containers})
    repository = icechunk.Repository.open(storage, authorize_virtual_chunk_access=access)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dataset = xr.open_zarr(repository.readonly_session("main").store, consolidated=False).load()
    return [snapshot.message for snapshot in repository.ancestry(branch="main")], dataset


def run(arguments, seconds=None):
    """Returns whether the run completed before it was killed."""
    with subprocess.Popen(**arguments) as process:
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        assert process.wait() in (0, -signal.SIGKILL), process.stderr.read().decode()
        return process.returncode == 0


def timed(arguments):
    start = time.monotonic()
    assert run(arguments)
    return time.monotonic() - start


def moments(seed, took):
    """Returns moments to kill the run: mostly near its end, during the commit."""
    choose = random.Random(seed)
    while True:
        yield took * choose.choice([choose.uniform(0, 1), choose.uniform(0.6, 1), choose.uniform(0.6, 1)])


@pytest.mark.slow
def test_killed_at_any_moment_one_commit_is_made(bucket, days, tmp_path):
    import xarray as xr
    whole = tmp_path / "whole.icechunk"
    took = timed(command(bucket, whole, "--concat-dim", "time"))
    log, undisturbed = opened(whole)
    xr.testing.assert_equal(undisturbed, together(days))
    assert len(log) == 2
    kills, turn, moment = 0, 0, moments(7, took)
    while kills < KILLS:
        turn += 1
        output = tmp_path / f"turn{turn}" / "out.icechunk"
        output.parent.mkdir()
        while not run(command(bucket, output, "--concat-dim", "time"), next(moment) if kills < KILLS else None):
            kills += 1
        assert opened(output)[0] == log, turn
        xr.testing.assert_identical(opened(output)[1], undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("change", ["new files", "a changed file", "a replacement"])
def test_killed_while_a_repository_is_brought_up_to_date(bucket, days, tmp_path, change):
    """The update is neither made twice nor skipped because the repository already knows all urls."""
    import xarray as xr
    key = "era/day_05.nc"
    changed = day(tmp_path / "changed.nc", 105, start=24 * 5)
    before = tmp_path / "before"
    before.mkdir()
    listing = write_list(bucket, before)
    first = ["--list", listing] if change == "a changed file" else urls(bucket)[:5]
    base = dict(command(bucket, before / "out.icechunk"), cwd=before)

    def arguments(folder, inputs, *more):
        args = [clients.BINARY, "batch", *map(str, inputs), "-o", "out.icechunk", "--concat-dim", "time", "-q", *more]
        return {**base, "args": args, "cwd": folder}

    assert run(arguments(before, first))
    if change == "a changed file":
        bucket.objects[key] = changed.read_bytes()
        write_list(bucket, before)
        second, expected = ["--list", listing, "--overwrite"], together([*days[:5], changed, *days[6:]])
    else:
        more = {"new files": ["--append"], "a replacement": ["--replace-group", "--journal", "other"]}[change]
        second, expected = [*urls(bucket)[5:], *more], together(days[5:] if change == "a replacement" else days)
    trial = shutil.copytree(before, tmp_path / "trial")
    took = timed(arguments(trial, second))
    log, _ = opened(trial / "out.icechunk")
    kills, turn, moment = 0, 0, moments(change, took)
    while kills < KILLS // 2:
        turn += 1
        folder = shutil.copytree(before, tmp_path / f"turn{turn}")
        while not run(arguments(folder, second), next(moment) if kills < KILLS // 2 else None):
            kills += 1
        found = opened(folder / "out.icechunk")
        assert found[0] == log and len(log) == 3, turn
        assert run(arguments(folder, second)) and opened(folder / "out.icechunk")[0] == log, "made again"
        xr.testing.assert_equal(found[1], expected)


def test_a_repository_whose_creation_was_killed_is_made(days, bucket, tmp_path):
    """An interrupted creation leaves Icechunk's initial snapshot and transaction log. A folder with any other file is rejected."""
    import xarray as xr
    output = tmp_path / "out.icechunk"
    icechunk.Repository.create(icechunk.local_filesystem_storage(str(output)))
    (output / "repo").unlink()
    assert sorted(path.parent.name for path in output.rglob("*") if path.is_file()) == ["snapshots", "transactions"]
    foreign = shutil.copytree(output, tmp_path / "foreign.icechunk")
    (foreign / "notes.txt").write_text("mine")
    done = subprocess.run(**command(bucket, foreign, "--concat-dim", "time"))
    assert done.returncode == 1 and b"clean" in done.stderr
    assert run(command(bucket, output, "--concat-dim", "time"))
    log, dataset = opened(output)
    assert len(log) == 2
    xr.testing.assert_equal(dataset, together(days))
