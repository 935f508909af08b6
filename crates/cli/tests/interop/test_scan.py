"""`virtualize scan`: detects and names each kind of difference between files by netCDF4, h5netcdf and rasterio."""
import json

import netCDF4
import numpy as np
import pytest
from clients import virtualize


def scan(*arguments, status=0):
    run = virtualize("scan", *arguments, "--json")
    assert run.status == status, run.stdout.decode() + run.stderr
    return json.loads(run.stdout)


def reported(report):
    return [[(d["path"], d["what"], d["left"], d["right"]) for d in s["differences"] or []] for s in report["runs"]]


def month(path, day, days, *, lat=(90.0, 0.0, -90.0), dtype="i2", chunks=(1, 3, 4), fill=-32767, scale=0.01, units="K", since="days since 2000-01-01",
          calendar="standard", level=4, shuffle=True, axes=("time", "lat", "lon"), extra=None):
    with netCDF4.Dataset(path, "w") as f:
        f.history = f"made on day {day}"
        for name, size in (("time", None), ("lat", len(lat)), ("lon", 4)):
            f.createDimension(name, size)
        time = f.createVariable("time", "f8", ("time",))
        time.units, time.calendar = since, calendar
        f.createVariable("lat", "f4", ("lat",))[:] = lat
        f.createVariable("lon", "f4", ("lon",))[:] = np.arange(4)
        t = f.createVariable("t2m", dtype, axes, chunksizes=chunks, zlib=True, complevel=level, shuffle=shuffle, fill_value=fill)
        t.set_auto_maskandscale(False)
        t.units = units
        if scale is not None:
            t.scale_factor = scale
            t.add_offset = 273.15
        time[:] = np.arange(day, day + days)
        sizes = {"time": days, "lat": len(lat), "lon": 4}
        t[:] = np.arange(np.prod([sizes[a] for a in axes])).reshape([sizes[a] for a in axes])
        if extra:
            f.createVariable(extra, "f4", ("time",))[:] = np.arange(days)
    return path


@pytest.fixture
def pair(tmp_path):
    """Writes two months, the second one with the given changes."""
    def make(**changed):
        return [month(tmp_path / "a.nc", 0, 31), month(tmp_path / "b.nc", 31, 29, **changed)]
    return make


@pytest.mark.parametrize("changed", [{}, {"level": 9}, {"scale": 0.02}, {"scale": None}, {"calendar": "gregorian"}, {"since": "days since 2000-01-01 00:00:00"}], ids=str)
def test_what_makes_no_difference(pair, changed):
    report = scan(*pair(**changed))
    assert [(e["files"], e["extents"]) for e in report["sets"]] == [(2, {"time": {"least": 29, "most": 31, "all": 60}})]
    assert report["dimensions"] == [{"name": "time", "kind": "concat"}] and report["dimensions_are_guessed"] and report["order"] == "coordinates"
    assert report["runs"][0]["coordinates"] == {"time": {"first": "2000-01-01", "last": "2000-02-29"}}


@pytest.mark.parametrize("changed, expected", [
    ({"units": "degC"}, ("t2m", "attribute units", '"K"', '"degC"')),
    ({"chunks": (29, 3, 4)}, ("t2m", "chunk shape", "(1, 3, 4)", "(29, 3, 4)")),
    ({"dtype": "i4"}, ("t2m", "data type", "int16", "int32")),
    ({"fill": -999}, ("t2m", "attribute _FillValue", "-32767", "-999")),
    ({"fill": -999}, ("t2m", "fill value", "-32767", "-999")),
    ({"shuffle": False}, ("t2m", "codecs", "bytes (little-endian), shuffle (2 bytes), zlib", "bytes (little-endian), zlib")),
    ({"calendar": "noleap"}, ("time", "attribute calendar", '"standard"', '"noleap"')),
    ({"axes": ("time", "lon", "lat"), "chunks": (1, 4, 3)}, ("t2m", "dimensions", "(time, lat 3, lon 4)", "(time, lon 4, lat 3)")),
    ({"lat": (90.0, 30.0, -30.0, -90.0), "chunks": (1, 4, 4)}, ("lat", "sizes", "(lat 3)", "(lat 4)")),
    ({"extra": "snow"}, ("snow", "array", "none", "float32 (time)")),
], ids=str)
def test_what_differs(pair, changed, expected):
    files = pair(**changed)
    # Small arrays whose values may be copied can differ in chunk shape.
    report = scan(*files, "--option", "copy-limit=1")
    first, second = reported(report)
    assert first == [] and expected in second and len(report["sets"]) == 2
    scan(*files, "--option", "copy-limit=1", "--fail-on-mismatch", status=1)


def test_a_flipped_latitude(pair):
    files = pair(lat=(-90.0, 0.0, 90.0))
    (path, what, left, right), = reported(scan(*files))[1]
    assert (path, what) == ("lat", "values") and left != right
    assert len(scan(*files, "--var", "lat=first")["sets"]) == 1


def test_an_optional_variable(pair):
    files = pair(extra="snow")
    assert len(scan(*files)["sets"]) == 2
    report = scan(*files, "--var", "snow=optional")
    assert len(report["sets"]) == 1 and "snow" in report["sets"][0]["arrays"]


def test_segments_that_alternate(tmp_path):
    """The table is ordered by time, whatever the order of the files."""
    files = [month(tmp_path / f"{name}.nc", day, 10, units=units) for name, day, units in [("z", 0, "K"), ("y", 10, "degC"), ("x", 20, "K"), ("w", 30, "K")]]
    report = scan(*reversed(files))
    assert [[f.rpartition("/")[2] for f in s["files"]] for s in report["runs"]] == [["z.nc"], ["y.nc"], ["x.nc", "w.nc"]]
    assert [s["set"] for s in report["runs"]] == [0, 1, 0]
    text = virtualize("scan", *files, "--concat-dim", "time").stdout.decode()
    assert "4 files, 2 sets of compatible files along time\n" in text and '/t2m: attribute units: "degC" → "K"' in text


def test_files_are_named_by_a_pattern_or_folder(pair, tmp_path):
    pair()
    assert scan(tmp_path / "*.nc")["files"] == scan(f"{tmp_path}/")["files"] == 2
    assert "no*" in virtualize("scan", tmp_path / "no*.nc").stderr


def test_a_sample_is_evenly_spread(tmp_path):
    files = [month(tmp_path / f"{n:02}.nc", 10 * n, 10, units="degC" if n == 20 else "K") for n in range(21)]
    report = scan(f"{tmp_path}/*.nc", "--sample", "3")
    assert report["sampled_of"] == 21 and report["files"] == 3
    assert [[f.rpartition("/")[2] for f in s["files"]] for s in report["runs"]] == [["00.nc", "10.nc"], ["20.nc"]]
    assert "3 of 21 files, 2 sets of compatible files" in virtualize("scan", f"{tmp_path}/*.nc", "--sample", "3").stdout.decode()
    assert scan(*files, "--sample", "99")["files"] == 21


def test_arrays_are_omitted(pair, tmp_path):
    files = pair(lat=(-90.0, 0.0, 90.0))
    report = scan(*files, "--var", "lat=drop")
    assert len(report["sets"]) == 1 and "lat" not in report["sets"][0]["arrays"]
    run = virtualize("batch", *files, "--concat-dim", "time", "--var", "/lat=drop", "--format", "kerchunk-json", "-o", tmp_path / "out.json")
    assert run.status == 0, run.stderr
    names = {key.partition("/")[0] for key in json.loads((tmp_path / "out.json").read_text())["refs"]}
    assert {"t2m", "lon", "time"} <= names and "lat" not in names


def test_files_that_fail_are_listed(pair, tmp_path):
    (tmp_path / "c.nc").write_bytes(b"no file of any kind")
    report = scan(*pair(), tmp_path / "c.nc", "-o", tmp_path / "out.json", status=1)
    assert [f["url"].rpartition("/")[2] for f in report["failed"]] == ["c.nc"] and report["files"] == 2
    assert "neither HDF5, NetCDF nor TIFF" in report["failed"][0]["error"]
    assert json.loads((tmp_path / "out.json").read_text()) == report


def test_a_file_that_is_not_there_is_one_that_failed(pair, tmp_path):
    files = pair()
    report = scan(files[0], tmp_path / "gone.nc", files[1], status=1)
    assert report["files"] == 2 and [f["url"].rpartition("/")[2] for f in report["failed"]] == ["gone.nc"]
    assert "gone.nc" in report["failed"][0]["error"]


def test_lists_filters_and_names(pair, tmp_path):
    """The same files as for `batch`."""
    first, second = pair()
    (tmp_path / "list.txt").write_text(f"# two\n{first}\n{second}\n")
    assert scan("--list", tmp_path / "list.txt")["files"] == 2
    assert scan(f"{tmp_path}/", "--include", "b.*")["files"] == 1
    item = {"type": "Feature", "stac_version": "1.0.0", "id": "a", "geometry": None, "properties": {"datetime": "2020-02-29T00:00:00Z"}, "links": [],
            "assets": {"data": {"href": str(first)}, "other": {"href": str(tmp_path / "gone.nc")}}}
    (tmp_path / "item.json").write_text(json.dumps(item))
    assert scan("--stac", tmp_path / "item.json", "--option", "asset=data")["files"] == 1
    (tmp_path / "m_20200301.nc").write_bytes(first.read_bytes())
    report = scan(tmp_path / "m_20200301.nc", "--stack-dim", "run", "--coord", "run=name:m_{run:%Y%m%d}.nc")
    assert report["runs"][0]["coordinates"] == {"run": {"first": "2020-03-01", "last": "2020-03-01"}}


def test_h5netcdf(tmp_path):
    import h5netcdf
    for n, fill in enumerate((np.nan, -1.0)):
        with h5netcdf.File(tmp_path / f"{n}.nc", "w") as f:
            f.dimensions = {"time": 2}
            f.create_variable("time", ("time",), "i8", data=np.arange(2) + 2 * n).attrs["units"] = "hours since 2001-01-01"
            f.create_variable("v", ("time",), "f4", data=np.zeros(2, "f4"), fillvalue=fill)
    found = reported(scan(tmp_path / "0.nc", tmp_path / "1.nc"))[1]
    assert ("v", "fill value", '"NaN"', "-1") in found


def test_images(tmp_path):
    import rasterio

    def image(name, crs="EPSG:32633", west=500000.0, pixel=30.0, tile=16, nodata=0, size=32):
        with rasterio.open(tmp_path / name, "w", driver="GTiff", width=size, height=size, count=1, dtype="uint16", crs=crs, nodata=nodata, tiled=True,
                           blockxsize=tile, blockysize=tile, transform=rasterio.Affine(pixel, 0, west, 0, -pixel, 5200000.0)) as f:
            f.write(np.ones((1, size, size), "u2"))
        return tmp_path / name

    first = image("a.tif")
    what = lambda other, *options: {(p, w) for p, w, *_ in (reported(scan(first, other, *options)) + [[]])[1]}  # noqa: E731
    stack = ("--stack-dim", "time")
    assert what(image("b.tif"), *stack) == set()
    assert {("", "attribute proj:code"), ("spatial_ref", "attribute spatial_ref")} <= what(image("c.tif", crs="EPSG:32634"), *stack)
    assert {("", "attribute spatial:transform"), ("x", "values"), ("y", "values")} <= what(image("d.tif", pixel=60.0), *stack)
    assert ("band_data", "chunk shape") in what(image("e.tif", tile=32), *stack)
    assert ("band_data", "fill value") in what(image("f.tif", nodata=9), *stack)
    assert ("band_data", "sizes") in what(image("g.tif", size=64), *stack)
    # A neighbour in a mosaic only differs in its position.
    beside = image("h.tif", west=500000.0 + 32 * 30)
    assert ("x", "values") in what(beside, *stack)
    assert what(beside, "--concat-dim", "x") == set()
