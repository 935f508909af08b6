"""`virtualize validate`: detects and names every kind of damage, and accepts correct references by other tools."""
import json, os

import clients
import numpy as np
import pytest
from clients import FIXTURES, virtualize
from test_convert import made_by_kerchunk, sample  # noqa: F401

FORMATS = ["kerchunk-json", "zarr3-json", "zarr3"]
# Files whose nodata value is invalid are refused: see test_tiff_nodata.py.
FILES = sorted(p for kind in ("hdf5", "netcdf3", "tiff") for p in (FIXTURES / kind).iterdir()
               if p.suffix in (".h5", ".nc", ".tif") and not p.name.startswith("nodata_invalid_"))


def validate(refs, *arguments, status=0):
    run = virtualize("validate", refs, "--json", *arguments)
    assert run.status == status, run.stdout.decode() + run.stderr
    report = json.loads(run.stdout)
    assert report["valid"] == (status == 0)
    return report


def reported(report):
    return {one["name"]: one["listed"] for kind in ("arrays", "sources") for one in report[kind] if one["listed"]}


def changed(path, edit):
    document = json.loads(path.read_text())
    edit(document["refs"])
    path.write_text(json.dumps(document))


@pytest.fixture
def refs(sample, tmp_path):  # noqa: F811
    assert virtualize(sample, "-o", tmp_path / "refs.json").status == 0
    return tmp_path / "refs.json"


@pytest.mark.parametrize("number", range(len(FILES)), ids=lambda number: FILES[number].name)
def test_references_of_every_fixture_are_valid(number, tmp_path):
    run = virtualize(FILES[number], "-f", ["kerchunk-json", "zarr3"][number % 2], "-o", tmp_path / "refs")
    assert run.status == 0, run.stderr
    validate(tmp_path / "refs", "--full")


def without_masks(references):
    """Removes the fill values that kerchunk writes for arrays without missing values."""
    refs = references["refs"]
    for key in [key for key in refs if key.endswith(".zarray") and key != "sparse/.zarray"]:
        refs[key] = json.dumps({**json.loads(refs[key]), "fill_value": None})
    return references


def test_values_that_only_the_references_mask_are_reported(sample, tmp_path):  # noqa: F811
    """xarray masks the `fill_value` of Zarr v2; kerchunk writes that of HDF5, which is 0 by default."""
    import xarray as xr
    made = made_by_kerchunk(sample)
    (tmp_path / "k.json").write_text(json.dumps(made))
    with xr.open_dataset(clients.open_store(made), engine="zarr", consolidated=False, zarr_format=2, chunks=None, drop_variables=["sparse", "text"]) as ds:
        assert np.isnan(ds.line.values[0])
    problems = reported(validate(tmp_path / "k.json", "--full", status=1))
    assert problems["line"] == ["readers mask the values [0.0], but [] in a direct read of the source"]
    assert problems["g/t"] == ["readers mask the values [-1], but [] in a direct read of the source"] and "sparse" not in problems


@pytest.mark.parametrize("inline", [0, 500])
def test_kerchunks_references_are_valid(sample, tmp_path, inline):  # noqa: F811
    (tmp_path / "k.json").write_text(json.dumps(without_masks(made_by_kerchunk(sample, inline))))
    report = validate(tmp_path / "k.json", "--full")
    assert {a["name"]: a["decoded"] for a in report["arrays"]}["g/t"] == (0 if inline else 4)
    assert any("neither entity tags nor times" in note for note in report["notes"])


def test_a_byte_of_a_chunk_that_changed(sample, refs):  # noqa: F811
    _, offset, length = json.loads(refs.read_text())["refs"]["g/t/0.0"]
    with open(sample, "r+b") as f:
        f.seek(offset + length // 2)
        byte = f.read(1)
        f.seek(offset + length // 2)
        f.write(bytes([byte[0] ^ 0xFF]))
    problems = reported(validate(refs, "--full", status=1))["g/t"]
    assert len(problems) == 1 and problems[0].startswith("chunk 0.0: ")


def test_a_file_that_was_cut(sample, refs):  # noqa: F811
    os.truncate(sample, sample.stat().st_size // 2)
    text = str(reported(validate(refs, status=1)))
    assert "are outside the file" in text


def test_a_file_that_is_gone(sample, refs):  # noqa: F811
    sample.unlink()
    report = validate(refs, status=1)
    assert "not found" in str(report["sources"][0]["listed"]) and report["sources"][0]["chunks"] > 0


def test_a_reference_that_leads_elsewhere(refs):
    changed(refs, lambda r: r.update({"g/t/0.1": [r["g/t/0.1"][0], r["g/t/0.1"][1] + 1, r["g/t/0.1"][2]]}))
    assert any(p.startswith("chunk 0.1: [file://") and "a direct read of the source has" in p for p in reported(validate(refs, status=1))["g/t"])


def test_a_reference_of_the_wrong_length(refs):
    changed(refs, lambda r: r.update({"line/0": [r["line/0"][0], r["line/0"][1], 8]}))
    problems = reported(validate(refs, status=1))["line"]
    assert "direct read" in problems[0] and "expected 56" in problems[1]


def test_a_reference_that_is_missing_and_two_that_changed_places(refs):
    def edit(r):
        r["g/t/0.0"], r["g/t/1.1"] = r["g/t/1.1"], r["g/t/0.0"]
        del r["line/0"]
    changed(refs, edit)
    problems = reported(validate(refs, status=1))
    assert {p.split(":")[0] for p in problems["g/t"]} >= {"chunk 0.0", "chunk 1.1"}
    assert "missing" in problems["line"][0]


@pytest.mark.parametrize("key, member, value, word", [("g/t/.zarray", "dtype", "<i2", "byte order"), ("g/t/.zattrs", "scale_factor", 2, "attribute scale_factor")])
def test_metadata_that_changed(refs, key, member, value, word):
    changed(refs, lambda r: r.update({key: json.dumps({**json.loads(r[key]), member: value})}))
    path = key.rpartition("/")[0]
    assert any(word in p for p in reported(validate(refs, status=1))[path])


def test_a_fill_value_that_changed(sample, tmp_path):  # noqa: F811
    assert virtualize(sample, "-f", "zarr3-json", "-o", tmp_path / "refs.json").status == 0
    changed(tmp_path / "refs.json", lambda r: r.update({"sparse/zarr.json": json.dumps({**json.loads(r["sparse/zarr.json"]), "fill_value": 7.0})}))
    assert reported(validate(tmp_path / "refs.json", status=1))["sparse"] == ['fill value is 7.0, a direct read of the source says "NaN"']


def test_what_was_recorded_is_compared(sample, tmp_path):  # noqa: F811
    run = virtualize(sample, "-f", "icechunk", "-o", tmp_path / "repo")
    assert run.status == 0, run.stderr
    validate(tmp_path / "repo", "--full")
    os.utime(sample, (2e9, 2e9))
    assert "it has changed: modified" in str(validate(tmp_path / "repo", status=1)["sources"])


def test_files_joined_along_a_dimension_are_matched_by_places(tmp_path):
    """References by a combining tool: paths as in the files, other shapes."""
    import h5py
    refs = {}
    for n in range(2):
        with h5py.File(tmp_path / f"{n}.h5", "w") as f:
            f.create_dataset("v", data=np.arange(8.0) + n, chunks=(4,), compression="gzip")
        one = virtualize(tmp_path / f"{n}.h5").references["refs"]
        refs = {**one, **refs, **{f"v/{i + n * 2}": one[f"v/{i}"] for i in range(2)}}
    refs["v/.zarray"] = json.dumps({**json.loads(refs["v/.zarray"]), "shape": [16]})
    (tmp_path / "refs.json").write_text(json.dumps({"version": 1, "refs": refs}))
    report = validate(tmp_path / "refs.json", "--full")
    assert report["arrays"][0]["decoded"] == 4 and [s["chunks"] for s in report["sources"]] == [2, 2]
    assert not any("no reference" in note for note in report["notes"])
    fewer = {key: value for key, value in refs.items() if key != "v/2"}
    (tmp_path / "fewer.json").write_text(json.dumps({"version": 1, "refs": fewer}))
    (note,) = [note for note in validate(tmp_path / "fewer.json")["notes"] if "no reference" in note]
    assert "leads to 1 of the chunks" in note and "1.h5" in note
    changed(tmp_path / "refs.json", lambda r: r.update({"v/3": [r["v/3"][0], r["v/3"][1] + 3, r["v/3"][2]]}))
    assert any("is not a chunk of the source" in p for p in reported(validate(tmp_path / "refs.json", status=1))["v"])


def test_packing_that_differs_between_joined_files(tmp_path):
    import h5py
    refs = {}
    for n in range(2):
        with h5py.File(tmp_path / f"{n}.h5", "w") as f:
            f.create_dataset("v", data=np.arange(8, dtype="i2"), chunks=(8,), compression="gzip").attrs.update(scale_factor=0.5 + n, note=f"{n}")
        one = virtualize(tmp_path / f"{n}.h5").references["refs"]
        refs = {**one, **refs, f"v/{n}": one["v/0"]}
    refs["v/.zarray"] = json.dumps({**json.loads(refs["v/.zarray"]), "shape": [16]})
    (tmp_path / "refs.json").write_text(json.dumps({"version": 1, "refs": refs}))
    assert reported(validate(tmp_path / "refs.json", status=1)) == {"v": ["attribute scale_factor is 0.5, a direct read of the source says 1.5"]}


def test_a_virtual_dataset_of_a_part_of_one_source(tmp_path):
    """It has the path of the source, and another shape."""
    import h5py
    data = np.arange(60, dtype="<i4").reshape(6, 10)
    with h5py.File(tmp_path / "c.h5", "w") as f:
        f.create_dataset("x", data=data, chunks=(2, 5), compression="gzip")
        f["plain"] = data
    with h5py.File(tmp_path / "v.h5", "w") as f:
        for name, part, shape in (("x", np.s_[2:6, 5:], (4, 5)), ("plain", np.s_[2:6], (4, 10))):
            layout = h5py.VirtualLayout(shape, "<i4")
            layout[...] = h5py.VirtualSource("c.h5", name, shape=(6, 10))[part]
            f.create_virtual_dataset(name, layout)
    for fmt in FORMATS[:2]:
        assert virtualize(tmp_path / "v.h5", "-f", fmt, "-o", tmp_path / "refs.json").status == 0
        assert {a["name"]: a["decoded"] for a in validate(tmp_path / "refs.json", "--full")["arrays"]} == {"x": 2, "plain": 2}


def test_the_table(refs):
    run = virtualize("validate", refs, "--sample", "1")
    assert run.status == 0 and [line.split()[-1] for line in run.stdout.decode().splitlines()[1:3]] == ["/g/t", "/line"]


OPTIONS = ["--option", "split-contiguous=64K"], ["--inline", "1K"], ["--inline", "1"], ["--relative"]
OPTIONS_OF_V3 = ["--chunk-grid", "rectilinear"], ["--unpack"]


@pytest.mark.parametrize("fmt,options", [(fmt, o) for fmt in FORMATS[:2] for o in OPTIONS] + [("zarr3-json", o) for o in OPTIONS_OF_V3], ids=str)
def test_references_of_every_option_are_valid(options, fmt, tmp_path):
    import h5py, tifffile
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["big"] = np.arange(40000, dtype=">f8").reshape(400, 100)
        packed = f.create_dataset("packed", (5, 6), ">i2", chunks=(2, 4), compression="gzip", fillvalue=7)
        packed[:3] = np.arange(18).reshape(3, 6)
        packed.attrs.update(scale_factor=0.5, _FillValue=np.int16(7))
    tifffile.imwrite(tmp_path / "b.tif", np.arange(924, dtype="u1").reshape(7, 44, 3), photometric="rgb", rowsperstrip=3, metadata=None)
    for name in ("a.h5", "b.tif"):
        assert virtualize(tmp_path / name, "-f", fmt, *options, "-o", tmp_path / "refs.json", "--overwrite").status == 0
        validate(tmp_path / "refs.json", "--full")


@pytest.mark.parametrize("fmt", ["kerchunk-json", "zarr3-json"])
def test_references_of_several_files_are_valid_and_stay_so(fmt, tmp_path):
    """Combined along an axis, and converted to the other format."""
    import h5py, tifffile
    for n in range(3):
        with h5py.File(tmp_path / f"{n}.nc", "w") as f:
            time = f.create_dataset("time", data=[float(n)], maxshape=(None,))
            time.make_scale("time")
            for name, dtype in (("v", ">f4"), ("s", [("a", ">f8"), ("b", ">i4")])):
                v = f.create_dataset(name, (1, 6), dtype, maxshape=(None, 6), chunks=(1, 4))
                v[0, :3] = np.ones(3, dtype)
                v.dims[0].attach_scale(time)
        tifffile.imwrite(tmp_path / f"{n}.tif", np.arange(924, dtype="u1").reshape(7, 44, 3) + n, photometric="rgb", rowsperstrip=3, metadata=None)
    other = "zarr3-json" if fmt == "kerchunk-json" else "kerchunk-json"
    for suffix, joined in (("nc", ["--concat-dim", "time"]), ("tif", ["--stack-dim", "time"])):
        refs, converted = tmp_path / f"{suffix}.json", tmp_path / f"{suffix}2.json"
        run = virtualize("batch", *(tmp_path / f"{n}.{suffix}" for n in range(3)), *joined, "-f", fmt, "-o", refs)
        assert run.status == 0, run.stderr
        validate(refs, "--full")
        assert virtualize("convert", refs, "-f", other, "-o", converted).status == 0
        validate(converted, "--full")
        run = virtualize("diff", refs, converted)
        assert run.status == 0, run.stdout.decode()


def test_joined_arrays_may_be_inlined(tmp_path):
    """Only coordinates that do not grow refer to a file, which has fewer elements than the inlined arrays."""
    import xarray as xr
    files = []
    for k in range(3):
        files.append(tmp_path / f"f{k}.nc")
        ds = xr.Dataset({"a": (("time", "x"), np.random.default_rng(k).random((3, 3)))}, {"time": np.arange(3) + 3 * k, "x": [1.0, 2, 3]})
        ds.to_netcdf(files[-1], engine="h5netcdf", encoding={"a": {"zlib": True, "chunksizes": (2, 3)}})
    assert virtualize("batch", *files, "--concat-dim", "time", "-o", tmp_path / "all.json").status == 0
    validate(tmp_path / "all.json", "--full")


def test_padding_and_chunks_that_are_full_of_the_fill_value(tmp_path):
    """kerchunk pads the edge chunks that it re-encodes with zeros; zarr-python omits chunks that are full of the fill value."""
    import h5py
    path, refs = tmp_path / "a.h5", tmp_path / "refs.json"
    with h5py.File(path, "w") as file:
        data = np.arange(1, 16, dtype="i2").reshape(3, 5)
        file.create_dataset("v", data=data, chunks=(2, 3), compression="gzip", shuffle=True, fletcher32=True, fillvalue=-9)
        file.create_dataset("time", data=np.arange(3.0), chunks=(1,))
        file.create_dataset("big", data=np.zeros((3, 5000)), chunks=(3, 5000))
    refs.write_text(json.dumps(made_by_kerchunk(path, 0)))

    def check(status=0):
        # Readers mask the fill values that kerchunk writes, which is reported.
        found = reported(validate(refs, "--full", status=1))
        assert [one for listed in found.values() for one in listed if "chunk" in one] == [] if status == 0 else "chunk 1" in str(found["time"])

    check()
    changed(refs, lambda refs: refs.pop("time/0"))
    check()
    changed(refs, lambda refs: refs.pop("time/1"))
    check(status=1)
