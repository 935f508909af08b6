"""Repositories by other writers: both versions of the format, branches and tags; killed commits; groups replaced during other commits."""
import os, signal, subprocess, time

import clients
import icechunk
import numpy as np
import pytest
import xarray as xr
import zarr
from clients import virtualize


@pytest.fixture
def days(tmp_path):
    files = []
    for day in range(4):
        path = tmp_path / f"{day}.nc"
        xr.Dataset({"t": (("time", "x"), np.arange(6.0).reshape(2, 3) + 10 * day), "lat": ("x", [1.0, 2.0, 3.0])},
                   {"time": ("time", [2 * day, 2 * day + 1], {"units": "days since 2000-01-01"})}).to_netcdf(
            path, engine="h5netcdf", encoding={"t": {"chunksizes": (1, 3)}, "time": {"chunksizes": (2,)}})
        files.append(path)
    return files


def opened(folder, **where):
    storage = icechunk.local_filesystem_storage(str(folder))
    config = icechunk.Repository.fetch_config(storage)
    containers = {prefix: icechunk.Credentials.LocalFileSystemAccess() for prefix in (config and config.virtual_chunk_containers) or {}}
    repository = icechunk.Repository.open(storage, authorize_virtual_chunk_access=containers)
    return repository, repository.readonly_session(**(where or {"branch": "main"})).store


def commit(file, folder, *arguments, status=0):
    run = virtualize(file, "--format", "icechunk", "-o", folder, *arguments)
    assert run.status == status, run.stderr
    return run


@pytest.fixture(params=[1, 2])
def theirs(request, tmp_path):
    """Creates a repository with icechunk-python, with data, a branch and a tag."""
    folder = tmp_path / "repo"
    repository = icechunk.Repository.create(icechunk.local_filesystem_storage(str(folder)), spec_version=request.param)
    session = repository.writable_session("main")
    root = zarr.group(session.store)
    root.create_array("own", shape=(4,), chunks=(2,), dtype="i4")[:] = [1, 2, 3, 4]
    repository.create_tag("v1", session.commit("theirs"))
    repository.create_branch("dev", repository.lookup_branch("main"))
    assert repository.spec_version == request.param
    return request.param, folder


def test_both_versions_of_the_format_and_what_is_there(theirs, days):
    version, folder = theirs
    for day, more in ((days[0], []), (days[1], ["--append"])):
        run = virtualize("batch", day, "--concat-dim", "time", "-f", "icechunk", "-o", folder, "--group", "ours", "--branch", "dev", *more)
        assert run.status == 0, run.stderr
    repository, store = opened(folder, branch="dev")
    assert repository.spec_version == version
    assert (zarr.open_array(store, path="own", mode="r")[...] == [1, 2, 3, 4]).all()
    ours = xr.open_zarr(store, group="ours", consolidated=False, decode_times=False).load()
    expected = xr.open_mfdataset(days[:2], engine="h5netcdf", decode_times=False, data_vars="minimal", combine="nested", concat_dim="time").load()
    xr.testing.assert_equal(ours, expected)
    assert [s.message for s in repository.ancestry(branch="main")][0] == "theirs" == [s.message for s in repository.ancestry(tag="v1")][0]
    # Read back by virtualize: a branch, a tag, and a snapshot in both notations.
    for version, holds in (("dev", True), ("v1", False), ("main", False), (repository.lookup_branch("dev"), True)):
        run = virtualize("convert", folder, "-f", "zarr3-json", "--version-of", version)
        assert run.status == 0 and ("ours/t/zarr.json" in run.references["refs"]) == holds, (version, run.stderr)
    assert virtualize("convert", folder, "-f", "zarr3-json", "--version-of", "nowhere").status == 1


def test_theirs_is_not_overwritten(theirs, days, tmp_path):
    _, folder = theirs
    repository, _ = opened(folder)
    before = repository.lookup_branch("main")
    import h5py
    with h5py.File(tmp_path / "own.h5", "w") as f:
        f["own"] = np.arange(3)
    assert "/own already exists in the repository" in commit(tmp_path / "own.h5", folder, status=1).stderr
    assert opened(folder)[0].lookup_branch("main") == before
    commit(tmp_path / "own.h5", folder, "--group", "own", status=1)
    assert (zarr.open_array(opened(folder)[1], path="own", mode="r")[...] == [1, 2, 3, 4]).all()


def big(path, chunks):
    """References with many chunks, so that the commit has parts."""
    import json
    (path.parent / "f.bin").write_bytes(bytes(64))
    zarray = {"zarr_format": 2, "shape": [chunks], "chunks": [1], "dtype": "<i4", "fill_value": 0, "order": "C", "filters": None, "compressor": None}
    place = f"file://{path.parent}/f.bin"
    path.write_text(json.dumps({".zgroup": '{"zarr_format":2}', "v/.zarray": json.dumps(zarray), "v/.zattrs": '{"_ARRAY_DIMENSIONS":["x"]}', **{f"v/{n}": [place, n % 16 * 4, 4] for n in range(chunks)}}))
    return path


def test_killed_at_any_moment_the_branch_is_as_it_was_or_done(days, tmp_path):
    """SIGKILL while parts are written: the previous data opens, and the same command can be run again."""
    refs, folder = big(tmp_path / "refs.json", 260_000), tmp_path / "repo"
    commit(days[0], folder)
    command = [clients.BINARY, "convert", str(refs), "-f", "icechunk", "-o", str(folder), "--group", "big"]
    before = opened(folder)[0].lookup_branch("main")
    for wait_for in ("manifests", "transactions"):
        known = len(os.listdir(folder / wait_for))
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and len(os.listdir(folder / wait_for)) == known:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
        repository, store = opened(folder)
        if repository.lookup_branch("main") != before:
            break
        assert (zarr.open_array(store, path="t", mode="r")[...] == np.arange(6.0).reshape(2, 3)).all()
        assert "big" not in zarr.open_group(store, mode="r")
    subprocess.run([*command, "--replace-group"], check=True, capture_output=True)
    repository, store = opened(folder)
    array = zarr.open_array(store, path="big/v", mode="r")
    assert array.shape == (260_000,) and (array[259_990:] == 0).all()
    assert (zarr.open_array(store, path="t", mode="r")[...] == np.arange(6.0).reshape(2, 3)).all()


def test_large_arrays_have_several_manifests(tmp_path):
    folder = tmp_path / "repo"
    run = virtualize("convert", big(tmp_path / "refs.json", 120_000), "-f", "icechunk", "-o", folder)
    assert run.status == 0, run.stderr
    repository, store = opened(folder)
    files = repository.list_manifest_files(repository.lookup_branch("main"))
    assert sorted(file.num_chunk_refs for file in files) == [10_000] * 12
    back = virtualize("convert", folder, "-f", "kerchunk-json", "-o", tmp_path / "back.json")
    assert back.status == 0 and virtualize("diff", tmp_path / "refs.json", tmp_path / "back.json").status == 0
