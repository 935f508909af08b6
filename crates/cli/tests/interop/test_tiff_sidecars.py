"""GeoTIFFs with sidecars that GDAL reads, against GDAL: values, masks, packing, names, position, CRS are equal, or a warning names the sidecar. More of them:
RANDOM_SIDECARS=1000."""
import html, pathlib, random, warnings

import clients
import numpy as np
import pytest
from clients import FORMATS
from slow_s3 import SlowS3

SEEDS = clients.seeds("RANDOM_SIDECARS", 60, 20)
WORLD = "0.2\n0\n0\n-0.2\n250000.1\n5886999.9\n"
PAM = '<PAMDataset><PAMRasterBand band="1"><NoDataValue>7</NoDataValue><Scale>0.5</Scale><Offset>10</Offset></PAMRasterBand></PAMDataset>'


def write(path, pick):
    """Writes a GeoTIFF of small numbers, with some of the metadata that a sidecar can replace."""
    import rasterio
    from rasterio.control import GroundControlPoint
    from rasterio.transform import from_origin
    count = pick.choice([1, 1, 1, 2, 3])
    made = {"count": count, "dtype": pick.choice(["uint8", "int16", "uint16", "float32", "float64"])}
    if pick.random() < .4:
        made["nodata"] = pick.choice([0, 3, 7])
    if pick.random() < .4:
        made["crs"] = pick.choice(["EPSG:32633", "EPSG:4326"])
    if pick.random() < .3:
        made["transform"] = from_origin(3e5, 5e6, 10, 10)
    elif pick.random() < .15:
        made |= {"gcps": [GroundControlPoint(0, 0, 10, 20), GroundControlPoint(0, 4, 11, 20), GroundControlPoint(3, 4, 11, 21)], "crs": "EPSG:4326"}
    with rasterio.open(path, "w", driver="GTiff", width=4, height=3, **made) as file:
        file.write((np.arange(12 * count) % 10).astype(made["dtype"]).reshape(count, 3, 4))
        if pick.random() < .3:
            file.scales, file.offsets = [2] * count, [1] * count
        if pick.random() < .3:
            file.units, file.descriptions = ["m"] * count, [f"band {n}" for n in range(count)]
        if pick.random() < .3:
            file.update_tags(A="1", AREA_OR_POINT=pick.choice(["Area", "Point"]))
    pathlib.Path(f"{path}.aux.xml").unlink(missing_ok=True)
    return count


def systems():
    """CRS in the notations that GDAL reads."""
    from rasterio.crs import CRS
    for code in (32633, 4326, 3035, 31467, 27700, 2056):
        crs = CRS.from_epsg(code)
        yield from (crs.to_wkt(), crs.to_wkt(version="WKT2_2019"), crs.to_wkt(version="WKT1_ESRI"), f"EPSG:{code}", f"epsg:{code}")
    yield from ("EPSG:7415", "EPSG:4326+5773", "ESRI:54009", "OGC:CRS84", "+proj=utm +zone=33 +datum=WGS84", "nonsense", "urn:ogc:def:crs:EPSG::4326",
                'LOCAL_CS["x",UNIT["metre",1]]', "PROJCS[broken")


def pam(pick, count):
    """Returns an `.aux.xml` with random content, some of it invalid."""
    def chance(share, text):
        return text() if pick.random() < share else ""

    def number():
        return pick.choice(["7", "3", "0.5", "2", " 4 ", "1e1", "-1", "5.0", "7,5", "6 m", "x", ""])

    def band(index, value):
        return f'<PAMRasterBand band="{index}">' + chance(.6, lambda: f"<NoDataValue>{value or number()}</NoDataValue>") + chance(.3, lambda: f"<Scale>{number()}</Scale>") + chance(
            .3, lambda: f"<Offset>{number()}</Offset>") + chance(.3, lambda: f"<UnitType>{pick.choice(['K', '', 'm s-1'])}</UnitType>") + chance(
            .3, lambda: "<Description>named</Description>") + chance(.3, lambda: '<Metadata><MDI key="STATISTICS_MAXIMUM">9</MDI></Metadata>') + chance(
            .1, lambda: "<Histograms><HistItem><HistMin>0</HistMin></HistItem></Histograms>") + chance(.05, lambda: "<ColorInterp>Alpha</ColorInterp>") + "</PAMRasterBand>"

    value = pick.choice([None, "7", "3", "nan"])
    bands = [band(n + 1, value) for n in range(count + pick.choice([0, 0, 1])) if pick.random() < .8]
    points = '<GCPList Projection="EPSG:4326"><GCP Id="1" Pixel="0.5" Line="0.5" X="10" Y="20" Z="0"/><GCP Id="2" Pixel="3" Line="0.5" X="11" Y="20"/></GCPList>'
    text = "".join(bands) + chance(.35, lambda: f"<SRS>{html.escape(pick.choice(list(systems())))}</SRS>") + chance(
        .35, lambda: pick.choice(["<GeoTransform>400000,10,0,6000000,0,-10</GeoTransform>", "<GeoTransform> 4.5e+05, 3, 1,  6.0e+06, 1, -3</GeoTransform>",
                                  "<GeoTransform>1 2 3 4 5 6</GeoTransform>"])) + chance(.15, lambda: points) + chance(
        .4, lambda: '<Metadata><MDI key="A">2</MDI><MDI key="B">x &amp; y</MDI></Metadata>')
    declaration = pick.choice(["", "", '<?xml version="1.0"?>\n', "<!-- c -->"])
    return declaration + pick.choice(["<PAMDataset>{}</PAMDataset>", "<PAMDataset>\n {}\n</PAMDataset>", "<pamdataset>{}</pamdataset>"] + ["<PAMDataset>{}"] * (pick.random() < .1)).format(text)


def world(pick):
    return pick.choice([WORLD, WORLD.replace("\n", "\r\n"), "1\n0.5\n0.5\n-1\n100\n200", "10,5\n0\n0\n-10,5\n1000,25\n2000\n", "1 m\n\n0\n0\n-1\n100\n200\n9", "1\n0\n0\n0\n100\n200", "junk", "1 0 0 -1 100 200"])


def arcgis(pick):
    code = pick.choice(['code="32634" Sync="TRUE"', 'code="4326"', 'code="0"', ""])
    return f'<?xml version="1.0"?>\n<{(root := pick.choice(["metadata", "metadata", "other"]))}><refSysInfo><RefSystem><refSysID><identCode {code}/></refSysID></RefSystem></refSysInfo></{root}>'


def sidecars(pick, count):
    """Returns names and contents."""
    found = {}
    for share, names, content in (
            (.75, ["a.tif.aux.xml"] * 4 + ["A.TIF.aux.xml"], lambda: pam(pick, count)), (.3, ["a.tfw", "a.TFW", "A.tfw", "a.tifw"], lambda: world(pick)),
            (.1, ["a.wld"], lambda: world(pick)), (.2, ["a.xml", "a.XML"], lambda: arcgis(pick)), (.05, ["a.tfwx", "b.tfw", "a.tif.tfw", "a.aux.xml"], lambda: world(pick))):
        if pick.random() < share:
            found[pick.choice(names)] = content()
    return found


def shown(path):
    """What GDAL shows."""
    import rasterio
    with warnings.catch_warnings(), rasterio.open(path) as file:
        warnings.simplefilter("ignore")
        data = file.read().astype("f8") * np.reshape(file.scales, (-1, 1, 1)) + np.reshape(file.offsets, (-1, 1, 1))
        points = [] if not file.gcps[0] else [(p.col, p.row, p.x, p.y, p.z) for p in file.gcps[0]]
        transform = file.transform.to_gdal()
        return {"values": np.where(np.stack([file.read_masks(n + 1) for n in range(file.count)]) == 0, np.nan, data), "units": [unit or "" for unit in file.units],
                "names": [name or "" for name in file.descriptions], "transform": None if transform == (0, 1, 0, 0, 0, 1) else transform, "points": points,
                "crs": file.gcps[1] if points else file.crs if file.crs and "unnamed" not in file.crs.to_wkt() else None, "tags": {key: value for key, value in file.tags().items() if key in "AB"}}


def system(text):
    import rasterio.crs
    return rasterio.crs.CRS.from_user_input(text)


def read(references, fmt):
    """What xarray shows of the references."""
    import json
    ds = clients.open_dataset(references, FORMATS[fmt])
    found = clients.decoded(ds, "band_data", True)
    raw = ds["band_data"].attrs
    data = found.transpose("band", "y", "x").values.astype("f8")
    if "scales" in raw:
        data = data * np.reshape(raw["scales"], (-1, 1, 1)) + np.reshape(raw["offsets"], (-1, 1, 1))
    def by_band(name):
        value = raw.get(name, [])
        return [value] if isinstance(value, str) else value or [""] * data.shape[0]
    grid = ds["spatial_ref"].attrs if "spatial_ref" in ds.variables else {}
    text = grid.get("crs_wkt") or grid.get("spatial_ref")
    points = [(f["properties"]["col"], f["properties"]["row"], *f["geometry"]["coordinates"]) for f in json.loads(grid.get("gcps", '{"features": []}'))["features"]]
    transform = tuple(map(float, grid["GeoTransform"].split())) if "GeoTransform" in grid else None
    if transform and "x" in ds.variables:
        assert float(ds["x"][0]) == pytest.approx(transform[0] + transform[1] / 2) and float(ds["y"][0]) == pytest.approx(transform[3] + transform[5] / 2)
    return {"values": data, "units": by_band("units"), "names": by_band("long_name"), "transform": transform, "points": points,
            "crs": system(text) if text else None, "tags": {key: value for key, value in raw.items() if key in "AB"}}


def same(expected, found):
    if isinstance(expected, np.ndarray):
        return clients.same_values(expected.astype("f4"), found.astype("f4")) is None
    if expected is None or found is None or not hasattr(expected, "to_wkt"):
        return expected == found
    # GDAL writes the names of Esri's WKT in its own way.
    return expected == found or system(expected.to_wkt()) == system(found.to_wkt()) or expected.to_epsg(60) == found.to_epsg(60) != None  # noqa: E711


def check(path, fmt, names):
    """Compares the references with GDAL. Returns the differences that no warning explains, and whether there is a warning."""
    run = clients.virtualize(path, "--format", fmt)
    if run.status:
        return [f"{run.stderr}"], True
    warned = [line for line in run.stderr.splitlines() if line.startswith("warning")]
    named = [line for line in warned if any(f" {name} " in line for name in names) or "[tiff-crs]" in line or "[nodata-" in line]
    strict = clients.virtualize(path, "--format", fmt, "--strict")
    assert (strict.status != 0) == bool(warned), strict.stderr
    expected, found = shown(path), read(run.references, fmt)
    wrong = [f"{key}: {found[key]!r}, expected {expected[key]!r}" for key in expected if not same(expected[key], found[key])]
    return ([] if named else wrong), bool(named)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_sidecars(tmp_path, seed):
    pick, path = random.Random(seed), tmp_path / "a.tif"
    made = sidecars(pick, write(path, pick))
    for name, content in made.items():
        (tmp_path / name).write_text(content, newline="")
    problems, _ = check(path, "kerchunk-json" if seed % 2 else "zarr3-json", made)
    clients.report([f"{problem}\n{made}" for problem in problems])


def test_warnings_are_exceptions(tmp_path):
    """Most of the random sidecars are read: the comparison above is not empty."""
    warned = 0
    for seed in range(20):
        pick, path = random.Random(seed), tmp_path / str(seed) / "a.tif"
        path.parent.mkdir()
        made = sidecars(pick, write(path, pick))
        for name, content in made.items():
            (path.parent / name).write_text(content, newline="")
        warned += check(path, "kerchunk-json", made)[1]
    assert warned < 15


@pytest.mark.parametrize("name", ["a.tif.msk", "a.tif.MSK", "a.tif.ovr", "a.tab", "a_RPC.TXT", "a_rpc.txt", "a.RPB", "a.rpc"])
def test_sidecars_that_are_not_read_are_named(tmp_path, name):
    write(tmp_path / "a.tif", random.Random(0))
    (tmp_path / name).write_bytes(b"II*\0")
    run = clients.virtualize(tmp_path / "a.tif")
    assert run.status == 0 and f"{name} " in run.stderr and run.codes == [("/", "tiff-sidecar")], run.stderr
    assert clients.virtualize(tmp_path / "a.tif", "--strict").status == 1


def test_large_folders(tmp_path):
    """GDAL looks for sidecars by name in folders of more than 1,000 files."""
    for n in range(1001):
        (tmp_path / f"{n}.txt").touch()
    import rasterio
    for name in ("a.tfw", "a.TFW", "a.tif.aux.xml"):
        with rasterio.open(tmp_path / "a.tif", "w", driver="GTiff", width=4, height=3, count=1, dtype="uint8") as file:
            file.write(np.arange(12, dtype="u1").reshape(1, 3, 4))
        (tmp_path / name).write_text(PAM if name.endswith("xml") else WORLD)
        assert check(tmp_path / "a.tif", "kerchunk-json", [name]) == ([], False)
        assert shown(tmp_path / "a.tif")["transform"] or name.endswith("xml")
        (tmp_path / name).unlink()


def test_pages_and_overviews(tmp_path):
    """World files position all pages, `.aux.xml` describes the first; overviews have the position of their image."""
    import rasterio, tifffile
    path = tmp_path / "a.tif"
    with tifffile.TiffWriter(path) as tif:
        for page in range(2):
            tif.write(np.full((3, 4), 7, "u1"), photometric="minisblack", metadata=None, contiguous=False)
        tif.write(np.full((2, 2), 7, "u1"), photometric="minisblack", metadata=None, subfiletype=1)
    (tmp_path / "a.tfw").write_text(WORLD)
    (tmp_path / "a.tif.aux.xml").write_text(PAM)
    references = clients.convert(path, "kerchunk-json").references
    masked = []
    for group, page in (("", 1), ("1", 2)):
        ds = clients.open_dataset(references, 2, group)
        with rasterio.open(f"GTIFF_DIR:{page}:{path}") as file:
            assert tuple(map(float, ds["spatial_ref"].attrs["GeoTransform"].split())) == file.transform.to_gdal()
        masked.append(bool(np.isnan(clients.decoded(ds, "band_data", True).values).all()))
    assert masked == [True, False]
    overview = clients.open_dataset(references, 2, "2")["spatial_ref"].attrs["GeoTransform"].split()
    assert [float(overview[n]) for n in (1, 5)] == pytest.approx([0.4, -0.3])


def test_remote_files(tmp_path):
    """Sidecars of remote files are requested with --option sidecars=true only."""
    write(tmp_path / "a.tif", random.Random(16))  # without metadata
    content = {"a.tif": (tmp_path / "a.tif").read_bytes(), "a.tif.aux.xml": PAM.encode(), "a.TFW": WORLD.encode()}
    with SlowS3(content) as store:
        plain = clients.virtualize("s3://bucket/a.tif", env=store.env)
        assert plain.status == 0 and not store.requested["a.tif.aux.xml"], plain.stderr
        with_sidecars = clients.virtualize("s3://bucket/a.tif", "--option", "sidecars=true", env=store.env)
        assert with_sidecars.status == 0, with_sidecars.stderr
    for name in ("a.tif.aux.xml", "a.TFW"):
        (tmp_path / name).write_bytes(content[name])
    local = clients.convert(tmp_path / "a.tif", "kerchunk-json").references["refs"]
    for key in ("band_data/.zarray", "band_data/.zattrs", "spatial_ref/.zattrs"):
        assert with_sidecars.references["refs"][key] == local[key] != plain.references["refs"].get(key)


def test_sidecars_of_erdas_are_reported(tmp_path, fmt):
    """GDAL reads nodata, position and more from them, unless there is an .aux.xml."""
    import tifffile
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((4, 4), "u1"), metadata=None)
    (tmp_path / "a.aux").write_bytes(b"EHFA_HEADER_TAG")
    assert ("/", "tiff-sidecar") in clients.virtualize(tmp_path / "a.tif", "-f", fmt).codes
    (tmp_path / "a.tif.aux.xml").write_text("<PAMDataset/>")
    assert clients.virtualize(tmp_path / "a.tif", "-f", fmt).codes == []
