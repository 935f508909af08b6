"""Options have the names of the command's, are complete, and are refused with one line that names them."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import virtualize
from many_files import write_days
from virtualize import _options, _virtualize

KINDS: list[tuple[str, type]] = [
    ("batch", _options.BatchOptions),
    ("scan", _options.ScanOptions),
    ("validate", _options.ValidateOptions),
    ("diff", _options.DiffOptions),
    ("convert", _options.ConvertOptions),
]


def names(kind: type) -> frozenset[str]:
    # Python itself translates storage_options.
    return kind.__optional_keys__ - {"storage_options"}  # type: ignore[attr-defined]


def call(name: str, options: Mapping[str, object]) -> None:
    """Parse options as a function does, without what Python itself checks."""
    text = json.dumps(options)
    match name:
        case "batch":
            _virtualize.batch("out.json", text, "{}", False)
        case "scan":
            _virtualize.scan(text, False)
        case "validate":
            _virtualize.validate("no/refs.json", text, True)
        case "diff":
            _virtualize.diff("no/a.json", "no/b.json", text, True)
        case _:
            _virtualize.convert("no/refs.json", "no/out.json", text, True)


def test_types_are_generated_from_the_options_of_the_command(fixtures: Path) -> None:
    done = subprocess.run(
        [sys.executable, fixtures.parent / "crates/python/option_types.py", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_every_option_is_known_and_checks_its_value(name: str, kind: type) -> None:
    for option in names(kind):
        with pytest.raises(virtualize.OptionError) as caught:
            call(name, {option: {"": [1]}})
        text = str(caught.value)
        assert text.startswith(f"{option}: expected "), text
        assert "\n" not in text and "line 1" not in text and "column" not in text
    with pytest.raises(virtualize.OptionError, match=r"^bands: unknown option; "):
        call(name, {"bands": 1})


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"concat_dmi": "time"}, 'concat_dmi: unknown option; did you mean "concat_dim"?'),
        ({"Concat-Dim": "time"}, 'Concat-Dim: unknown option; did you mean "concat_dim"?'),
        ({"zzz": 1}, "zzz: unknown option; existing options: "),
        ({"concat_dim": 3}, "concat_dim: expected a text or a list of texts, not 3"),
        ({"concat_dim": [3]}, "concat_dim: expected a text or a list of texts"),
        ({"concat_dim": {"time"}}, "concat_dim: unexpected value of type set"),
        ({"on_mismatch": "stpo"}, 'on_mismatch: expected one of "combine", "stop", "split", "skip", not "stpo"'),
        ({"each": "yes"}, 'each: expected True or False, not "yes"'),
        ({"restart": 1}, "restart: expected True or False, not 1"),
        ({"inline": 1.5}, "inline: expected a number of bytes"),
        ({"inline": float("nan")}, "inline: "),
        ({"copy_limit": "1.5M"}, "copy_limit: expected a number of bytes"),
        ({"copy_limit": -1}, "copy_limit: expected a number of bytes"),
        ({"max_failures": True}, "max_failures: expected a whole number, not True"),
        ({"concurrency": 0}, "concurrency: expected a number from 1 on, not 0"),
        ({"attempts": 0}, "attempts: expected a number from 1 on, not 0"),
        ({"coord": {"time": "start"}}, "coord: expected DIM=attribute:NAME"),
        ({"var": {"x": "varies"}}, "var: expected one of vary, first, optional, optional:VALUE, drop"),
        ({"store_option": {"aws_secret_access_key": 5}}, "store_option: expected a mapping of text to text"),
        ({"bearer_token": 12345}, "bearer_token: expected text"),
        ({"ifd": "1.5"}, "ifd: expected a number such as 2"),
        ({"readable_by": ["panoply"]}, "readable_by: expected virtualize, zarr-python"),
        ({"record_size": 0}, "record_size: expected a number from 1 to"),
        ({"rewrite_url": {"/data": "elsewhere"}}, "rewrite_url: "),
        ({"rewrite_url": {"/a": "s3://b/a"}, "relative": True}, "relative cannot be combined with rewrite_url"),
        ({"unpack": True}, "unpack needs a Zarr v3 output"),
        ({"asset": "data"}, "asset needs stac"),
        ({"each": True}, "cannot be combined with"),
    ],
)
def test_errors_name_the_option(tmp_path: Path, options: dict[str, object], text: str) -> None:
    with pytest.raises(virtualize.OptionError) as caught:
        virtualize.batch("a.nc", tmp_path / "out.json", **{"concat_dim": "time", **options})  # type: ignore[arg-type]
    assert text in str(caught.value) and "\n" not in str(caught.value)
    assert "12345" not in str(caught.value)


def test_errors_of_the_arguments(tmp_path: Path) -> None:
    with pytest.raises(virtualize.OptionError, match="expected paths or urls"):
        virtualize.batch([1], tmp_path / "out.json")  # type: ignore[list-item]
    with pytest.raises(virtualize.OptionError, match="no inputs"):
        virtualize.batch([], tmp_path / "out.json", concat_dim="time")
    with pytest.raises(virtualize.OptionError, match=r"extension selects no format .* give format"):
        virtualize.batch("a.nc", tmp_path / "out", concat_dim="time")
    with pytest.raises(virtualize.OptionError, match="concat_dim=… to join"):
        virtualize.batch("fixtures/hdf5/chunked.h5", tmp_path / "out.json")


def test_values_have_several_forms(tmp_path: Path) -> None:
    """Each form selects the same files, or writes the same output."""
    files = write_days(tmp_path / "files", 3)
    (tmp_path / "list.txt").write_text("\n".join(map(str, files)))

    def scanned(**options: object) -> int:
        try:
            return virtualize.scan(str(tmp_path / "files/*.nc"), **options).files  # type: ignore[arg-type]
        except virtualize.NotFoundError:
            return 0

    assert scanned(copy_limit=9) == scanned(copy_limit=np.int64(9)) == scanned(copy_limit="9") == 3
    assert scanned(include="*000.nc") == 1
    assert virtualize.scan(None, list=tmp_path / "list.txt").files == 3
    assert virtualize.scan(None, list=[tmp_path / "list.txt"]).files == 3
    assert virtualize.scan(iter(files), concat_dim=["time"]).files == 3
    assert virtualize.scan(files[0], concat_dim=("time",), include=None).files == 1


def test_lists_and_comma_separated_text(fixtures: Path) -> None:
    tif = fixtures / "tiff/multi_page.tif"
    if not tif.exists():
        tif = next(path for path in sorted((fixtures / "tiff").glob("*.tif")))
    one = virtualize.open(tif, ifd=0, readable_by="zarr-python,gdal").inspect()
    for ifd in ("0", [0], ["0"], (0,)):
        assert virtualize.open(tif, ifd=ifd, readable_by=["zarr-python", "gdal"]).inspect() == one


def test_errors_have_codes(tmp_path: Path) -> None:
    """The message ends with the code, once."""
    with pytest.raises(virtualize.NotFoundError) as caught:
        virtualize.open(str(tmp_path / "absent.nc"))
    assert caught.value.code == "source-not-found"
    assert str(caught.value).endswith(" [source-not-found]") and str(caught.value).count("[") == 1


def test_a_configuration_file_has_options(fixtures: Path, tmp_path: Path) -> None:
    file, config = fixtures / "hdf5/chunked.h5", tmp_path / "virtualize.toml"
    config.write_text('inline = "1M"\nretries = 2\n')
    virtualize.open(file, config=config).to_kerchunk(tmp_path / "a.json")
    virtualize.open(file, inline="1M").to_kerchunk(tmp_path / "b.json")
    virtualize.open(file).to_kerchunk(tmp_path / "c.json")
    assert (tmp_path / "a.json").read_text() == (tmp_path / "b.json").read_text() != (tmp_path / "c.json").read_text()
    config.write_text("inlne = 5\n")
    with pytest.raises(virtualize.OptionError, match='virtualize.toml: inlne: unknown option; did you mean "inline"'):
        virtualize.open(file, config=config)


def test_paths_that_are_not_utf8_are_refused(tmp_path: Path) -> None:
    name = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.h5")
    shutil.copy("fixtures/hdf5/chunked.h5", name)
    plain = str(tmp_path / "chunked.h5")
    shutil.copy("fixtures/hdf5/chunked.h5", plain)
    store = virtualize.open(plain)
    calls = [
        lambda: virtualize.open(name),
        lambda: virtualize.open(Path(name)),
        lambda: virtualize.open(plain, relative_to=name),
        lambda: virtualize.open_dataset(name),
        lambda: virtualize.batch([name], tmp_path / "out.json", concat_dim="time"),
        lambda: virtualize.batch([plain], name, concat_dim="time"),
        lambda: virtualize.scan(name),
        lambda: virtualize.validate(name),
        lambda: virtualize.diff(plain, Path(name)),
        lambda: virtualize.convert(plain, name),
        lambda: store.to_kerchunk(name),
        lambda: store.to_icechunk(Path(name)),
    ]
    for call in calls:
        with pytest.raises(virtualize.OptionError, match=r"caf\\+udce9.*UTF-8.*symbolic link"):
            call()
