"""Jobs of `virtualize serve` that commit to Icechunk repositories: icechunk-python reads what xarray reads from the files, also after the process was
killed."""
import json, os, random, time, urllib.error, warnings

import clients
import icechunk
import pytest
from test_serve_jobs import DAYS, FILES, Service, archive, batch, expected  # noqa: F401 (archive is a fixture)

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals")
KILLS = 3


def opened(storage):
    """Returns the log of main, newest first, and its dataset, through icechunk-python."""
    import xarray as xr
    containers = icechunk.Repository.fetch_config(storage).virtual_chunk_containers
    access = icechunk.containers_credentials({prefix: icechunk.Credentials.LocalFileSystemAccess() for prefix in containers})
    repository = icechunk.Repository.open(storage, authorize_virtual_chunk_access=access)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dataset = xr.open_zarr(repository.readonly_session("main").store, consolidated=False, chunks=None).load()
    return list(repository.ancestry(branch="main")), dataset


def fetched(service, job, folder):
    """Fetches the repository that a job created, file by file."""
    for one in json.loads(service.result(job))["files"]:
        place = folder / one["path"]
        place.parent.mkdir(parents=True, exist_ok=True)
        with service.ask(f"/v1/jobs/{job}/result/{one['path']}") as answer:
            place.write_bytes(answer.read())
    return icechunk.local_filesystem_storage(str(folder))


def test_a_repository_is_fetched_file_by_file(tmp_path, archive):
    import xarray as xr
    with Service(tmp_path, archive) as service:
        job = service.submit(**batch(archive, format="icechunk", message="all days", author="me", commit_property={"run": "7"}))
        shown = service.ended(job)
        assert shown["state"] == "done", shown
        log, dataset = opened(fetched(service, job, tmp_path / "fetched"))
        xr.testing.assert_equal(dataset, expected(archive))
        assert [each.message for each in log] == ["all days", "Repository initialized"]
        assert log[0].metadata["author"] == "me" and log[0].metadata["run"] == "7"
        # Icechunk also reads it at its original location.
        log, dataset = opened(icechunk.http_storage(f"{service.url}/v1/jobs/{job}/result"))
        xr.testing.assert_equal(dataset, expected(archive))


def test_jobs_commit_to_a_repository_that_may_be_written(tmp_path, archive):
    import xarray as xr
    whole = expected(archive)
    with Service(tmp_path, archive) as service:
        output = f"file://{tmp_path}/out/days.icechunk"

        def job(files, **more):
            inputs = [f"file://{archive}/a{at:03}.nc" for at in files]
            return service.ended(service.submit(**{**batch(archive, format="icechunk", output=output), "inputs": inputs, **more}))
        assert job(range(20), message="first")["state"] == "done"
        again = job(range(20))
        assert again["state"] == "failed" and again["error"]["code"] == "icechunk" and "append_dim" in again["error"]["hint"], again
        shown = job(range(20, 40), append_dim="time", message="second")
        assert shown["state"] == "done" and shown["result"]["links"] == {"output": output}, shown
        log, dataset = opened(icechunk.local_filesystem_storage(str(tmp_path / "out" / "days.icechunk")))
        assert [each.message for each in log] == ["second", "first", "Repository initialized"]
        xr.testing.assert_equal(dataset, whole.isel(time=slice(0, 40 * DAYS)))
        shown = job(range(20), branch="other")
        assert shown["state"] == "failed" and "main" in shown["error"]["detail"], shown
        assert job(range(40, FILES), replace=True, message="third")["state"] == "done"
        log, dataset = opened(icechunk.local_filesystem_storage(str(tmp_path / "out" / "days.icechunk")))
        assert [each.message for each in log][0] == "third"
        xr.testing.assert_equal(dataset, whole.isel(time=slice(40 * DAYS, None)))
        for wrong in [{"output": f"file://{archive}/x.icechunk"}, {"output": f"file://{tmp_path}/x.icechunk"}, {"each": True, "concat_dim": []},
                      {"replace": True, "append_dim": "time"}, {"format": "zarr3", "message": "x"}]:
            with pytest.raises(urllib.error.HTTPError) as error:
                job(range(2), **wrong)
            assert error.value.code in (400, 403), wrong


@pytest.mark.parametrize("where", ["fetched", "written"])
def test_killed_at_any_moment_one_commit_is_made(tmp_path, archive, where):
    import xarray as xr
    (tmp_path / "whole").mkdir()
    with Service(tmp_path / "whole", archive) as service:
        start = time.monotonic()
        assert service.ended(service.submit(**batch(archive, format="icechunk")))["state"] == "done"
        took = time.monotonic() - start
    choose, kills, turn = random.Random(9), 0, 0
    while kills < KILLS:
        turn += 1
        folder = tmp_path / f"turn{turn}"
        folder.mkdir()
        output = {} if where == "fetched" else {"output": f"file://{folder}/out/all.icechunk"}
        with Service(folder, archive) as service:
            job = service.submit(**batch(archive, format="icechunk", message="once", **output))
            time.sleep(took * choose.uniform(0.2, 1))
            service.process.kill()
            service.process.wait()
        kills += 1
        with Service(folder, archive) as service:
            shown = service.ended(job)
            assert shown["state"] == "done", shown
            storage = fetched(service, job, folder / "fetched") if where == "fetched" else icechunk.local_filesystem_storage(str(folder / "out" / "all.icechunk"))
            log, dataset = opened(storage)
            assert [each.message for each in log] == ["once", "Repository initialized"], turn
            xr.testing.assert_equal(dataset, expected(archive))
