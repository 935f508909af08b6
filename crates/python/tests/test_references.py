"""`validate`, `diff` and `convert` do what the command does."""

import asyncio
import json
import shutil
import warnings
from pathlib import Path

import pytest
import virtualize
from many_files import command, content


@pytest.fixture
def references(fixtures: Path, tmp_path: Path) -> Path:
    source = tmp_path / "chunked.h5"
    shutil.copy(fixtures / "hdf5/chunked.h5", source)
    command(source, "-o", tmp_path / "refs.json")
    return tmp_path / "refs.json"


def test_validate(references: Path) -> None:
    report = virtualize.validate(references, full=True)
    assert report.valid and repr(report) == command("validate", references, "--full")
    reported = json.loads(command("validate", references, "--full", "--json"))
    found = [(one.name, one.chunks, one.decoded, one.problems, one.listed) for one in report.arrays]
    assert found == [(f"/{one['name']}", *list(one.values())[1:]) for one in map(ordered, reported["arrays"])]
    assert report.notes == reported["notes"]
    assert "<pre>" in report._repr_html_()
    assert asyncio.run(virtualize.validate_async(references, sample=1)).valid


def ordered(one: dict[str, object]) -> dict[str, object]:
    return {name: one[name] for name in ("name", "chunks", "decoded", "problems", "listed")}


def test_validate_finds_problems(references: Path) -> None:
    source = references.with_name("chunked.h5")
    source.write_bytes(source.read_bytes()[:4000])
    report = virtualize.validate(references)
    assert not report.valid and sum(one.problems for one in report.arrays) > 0
    assert repr(report) == command("validate", references, status=1)


def test_diff(references: Path, fixtures: Path) -> None:
    assert virtualize.diff(references, references) == []
    other = fixtures / "hdf5/netcdf4.nc"
    found = virtualize.diff(references, other)
    assert "".join(f"{one}\n" for one in found) == command("diff", references, other, status=1)
    assert {one.what for one in found} >= {"existence"}
    copy = references.with_name("copy.json")
    copy.write_text(references.read_text().replace("chunked.h5", "other.h5"))
    shutil.copy(references.with_name("chunked.h5"), references.with_name("other.h5"))
    chunks = [one for one in virtualize.diff(references, copy) if one.what == "chunks"]
    assert chunks and all(one.count and "other.h5" in one.second[0]["place"] for one in chunks)
    assert virtualize.diff(references, copy, ignore_urls=True) == []
    assert asyncio.run(virtualize.diff_async(references, references)) == []


@pytest.mark.parametrize("format", ["kerchunk-json", "zarr3-json", "kerchunk-parquet", "zarr3"])
def test_convert(references: Path, tmp_path: Path, format: virtualize._options.Format) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    assert virtualize.convert(references, ours, format=format, strict=True) is None
    command("convert", references, "--format", format, "-o", theirs)
    assert content(ours) == content(theirs)
    asyncio.run(virtualize.convert_async(references, ours, format=format, overwrite=True))
    assert content(ours) == content(theirs)
    if format in ("kerchunk-parquet", "zarr3"):
        with pytest.raises(virtualize.OptionError, match="overwrite=True"):
            virtualize.convert(references, ours, format=format)


def test_convert_to_icechunk(references: Path, tmp_path: Path) -> None:
    import icechunk
    snapshot = virtualize.convert(references, tmp_path / "repo", format="icechunk", message="ours")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        repository = icechunk.Repository.open(icechunk.local_filesystem_storage(str(tmp_path / "repo")))
        first = next(iter(repository.ancestry(branch="main")))
    assert (first.id, first.message) == (snapshot, "ours")
    assert virtualize.diff(references, tmp_path / "repo") == []
    with pytest.raises(virtualize.OptionError, match="relative cannot be combined with format"):
        virtualize.convert(references, tmp_path / "repo", format="icechunk", relative=True)


def test_losses_are_warnings(references: Path, tmp_path: Path) -> None:
    document = json.loads(references.read_text())
    refs = document["refs"]
    name = next(key for key in refs if key.endswith("/.zarray"))
    array = json.loads(refs[name])
    array["compressor"] = {"id": "made-up"}
    refs[name] = json.dumps(array)
    references.write_text(json.dumps(document))
    with pytest.warns(virtualize.VirtualizeWarning) as caught:
        virtualize.convert(references, tmp_path / "out.json", format="zarr3-json")
    warning = caught[0].message
    assert isinstance(warning, virtualize.VirtualizeWarning)
    assert warning.code.startswith("array-") and caught[0].filename == __file__
    with pytest.raises(virtualize.RefusedError):
        virtualize.convert(references, tmp_path / "strict.json", format="zarr3-json", strict=True)


def test_missing_references(tmp_path: Path) -> None:
    for function in (virtualize.validate, lambda path: virtualize.convert(path, tmp_path / "out.json")):
        with pytest.raises(virtualize.NotFoundError):
            function(tmp_path / "no.json")
