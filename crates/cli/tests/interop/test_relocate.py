"""Rewritten urls in references: fsspec and GDAL read the content of the original through them."""
import shutil

import clients
import fsspec
import numpy as np
import pytest
import zarr
from clients import FIXTURES, FORMATS, either_format, virtualize  # noqa: F401
from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper
from fsspec.implementations.dirfs import DirFileSystem
from test_stores import CREDENTIALS, REGION, s3, truth  # noqa: F401 (a fixture)

FILE = FIXTURES / "hdf5/chunked.h5"


def urls(references):
    return {value[0] for value in references["refs"].values() if isinstance(value, list)}


def read(fs, fmt):
    store = zarr.storage.FsspecStore(fs, read_only=True, path="")
    return zarr.open_array(store, path="temperature", mode="r", zarr_format=FORMATS[fmt])[...]


def local_folder(path):
    return DirFileSystem(str(path), fs=AsyncFileSystemWrapper(fsspec.filesystem("file"), asynchronous=True), asynchronous=True)


@pytest.fixture
def moved(tmp_path):
    """Writes a file to a folder, and a copy to another one."""
    for name in ("made", "published"):
        (tmp_path / name / "sub").mkdir(parents=True)
        shutil.copy(FILE, tmp_path / name / "sub" / "a b.h5")
    return tmp_path


def test_rewritten_urls_are_read_from_the_other_place(moved, fmt):
    made, published = moved / "made", moved / "published"
    run = virtualize(made / "sub/a b.h5", "--format", fmt, "--rewrite-url", f"{made}={published}")
    assert run.status == 0 and urls(run.references) == {f"file://{published}/sub/a b.h5"}, run.stderr
    shutil.rmtree(made)
    np.testing.assert_array_equal(read(clients.open_store(run.references).fs, fmt), truth("chunked.h5"))


def test_a_rewritten_url_of_http_is_escaped(moved):
    run = virtualize(moved / "made/sub/a b.h5", "--rewrite-url", f"{moved}=https://host/d/")
    assert urls(run.references) == {"https://host/d/made/sub/a%20b.h5"}


@pytest.mark.parametrize("arguments", [["--rewrite-url", "/nowhere=s3://b"], ["--rewrite-url", "x"], ["--relative"],
                                       ["--relative", "-o", "-"], ["--relative", "-o", "OUT", "--rewrite-url", "/=s3://b"]])
def test_what_cannot_be_meant_is_wrong_usage(tmp_path, arguments):
    run = virtualize(FILE, *[tmp_path / "out.json" if a == "OUT" else a for a in arguments])
    assert run.status == 2 and run.stdout == b"" and list(tmp_path.iterdir()) == [], run


def test_relative_urls_need_the_folder_of_the_output(tmp_path):
    run = virtualize(FILE, "--relative", "-o", tmp_path / "out.json")
    assert run.status == 2 and str(tmp_path) in run.stderr and not (tmp_path / "out.json").exists(), run.stderr


def test_relative_urls_are_read_by_fsspec_wherever_the_folder_is(moved, fmt):
    made, then = moved / "made", moved / "then"
    assert virtualize(made / "sub/a b.h5", "--format", fmt, "--relative", "-o", made / "refs.json").status == 0
    made.rename(then)
    fs = fsspec.filesystem("reference", fo=str(then / "refs.json"), fs=local_folder(then), asynchronous=True)
    assert urls(clients.json.loads((then / "refs.json").read_bytes())) == {"sub/a b.h5"}
    np.testing.assert_array_equal(read(fs, fmt), truth("chunked.h5"))


def test_relative_urls_without_a_folder_are_an_error_and_no_fill_values(moved, fmt):
    assert virtualize(moved / "made/sub/a b.h5", "--format", fmt, "--relative", "-o", moved / "made/refs.json").status == 0
    with pytest.raises(Exception, match="a b.h5"):
        read(clients.open_store(str(moved / "made/refs.json")).fs, fmt)


def test_relative_urls_of_a_folder_of_references(moved):
    assert virtualize(moved / "made/sub/a b.h5", "--format", "zarr3", "--relative", "-o", moved / "made/store.zarr").status == 0
    fo = str(moved / "made/store.zarr/references.json")
    fs = fsspec.filesystem("reference", fo=fo, fs=local_folder(moved / "made"), asynchronous=True)
    np.testing.assert_array_equal(read(fs, "zarr3-json"), truth("chunked.h5"))


def test_relative_urls_are_read_by_gdal_from_the_place_of_the_references(tmp_path):
    import h5py, rasterio
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.create_dataset("v", data=np.arange(64, dtype="i4").reshape(8, 8), chunks=(4, 4))
    assert virtualize(tmp_path / "a.h5", "--relative", "-o", tmp_path / "refs.json").status == 0
    seen = rasterio.open(f'ZARR:"/vsikerchunk_json_ref/{{{tmp_path}/refs.json}}":/v').read()
    np.testing.assert_array_equal(seen[0], np.arange(64).reshape(8, 8))


def test_relative_urls_in_a_bucket(s3, fmt):  # noqa: F811
    endpoint, _ = s3
    env = {**CREDENTIALS, "AWS_ENDPOINT_URL": endpoint}
    run = virtualize("s3://private/a folder/chunked.h5", "--format", fmt, "--relative", "-o", f"s3://private/{fmt}.json", env=env)
    assert run.status == 0, run.stderr
    options = {"key": "the-key", "secret": "the-secret", "client_kwargs": {"endpoint_url": endpoint, "region_name": REGION}}
    folder = DirFileSystem("private", fs=fsspec.filesystem("s3", asynchronous=True, **options), asynchronous=True)
    fs = fsspec.filesystem("reference", fo=f"s3://private/{fmt}.json", target_protocol="s3", target_options=options, fs=folder,
                           asynchronous=True, skip_instance_cache=True)
    np.testing.assert_array_equal(read(fs, fmt), truth("chunked.h5"))


def test_a_folder_of_references_in_a_bucket(s3):  # noqa: F811
    endpoint, _ = s3
    env = {**CREDENTIALS, "AWS_ENDPOINT_URL": endpoint}
    write = lambda *more: virtualize("s3://private/a folder/chunked.h5", "--format", "zarr3", "-o", "s3://private/store.zarr", *more, env=env)
    assert write("--inline", "1G").status == 0
    again = write()
    assert again.status == 1 and "--overwrite" in again.stderr, again.stderr
    options = {"key": "the-key", "secret": "the-secret", "client_kwargs": {"endpoint_url": endpoint, "region_name": REGION}}
    plain = zarr.open_array("s3://private/store.zarr", path="temperature", mode="r", storage_options=options)
    np.testing.assert_array_equal(plain[...], truth("chunked.h5"))
    assert write("--overwrite").status == 0
    with pytest.raises(Exception, match="virtual_references"):
        zarr.open_array("s3://private/store.zarr", path="temperature", mode="r", storage_options=options)
    fs = fsspec.filesystem("reference", fo="s3://private/store.zarr/references.json", target_protocol="s3", target_options=options,
                           remote_protocol="s3", remote_options={"asynchronous": True, **options}, asynchronous=True, skip_instance_cache=True)
    np.testing.assert_array_equal(read(fs, "zarr3-json"), truth("chunked.h5"))
