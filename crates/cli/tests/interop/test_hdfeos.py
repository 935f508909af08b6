"""HDF-EOS5 grids and swaths: names, axes and georeferencing from StructMetadata, compared with GDAL, and archives of them."""
import json, random

import h5py
import numpy as np
import pytest
import rasterio
import rioxarray  # noqa: F401
import xarray as xr
from clients import FORMATS, either_format, open_dataset, seeds, virtualize  # noqa: F401
from test_crs import metres_apart

FIELDS = "HDFEOS/GRIDS/G/Data Fields"


def structure(kind, name, keys, dimensions, fields):
    """Returns the text of StructMetadata, as the HDF-EOS5 library writes it."""
    def objects(what, names, lines):
        out = [f"\t\tGROUP={what}"]
        for n, one in enumerate(names, 1):
            out += [f"\t\t\tOBJECT={what}_{n}", *[f"\t\t\t\t{line}" for line in lines(one)], f"\t\t\tEND_OBJECT={what}_{n}"]
        return [*out, f"\t\tEND_GROUP={what}"]
    lists = {what: [it for it in fields if it[0] == what] for what in ("GeoField", "DataField")}
    lines = []
    for other in ("Swath", "Grid", "Point", "Za"):
        lines.append(f"GROUP={other}Structure")
        if other == kind:
            lines += [f"\tGROUP={kind.upper()}_1", f'\t\t{kind}Name="{name}"', *[f"\t\t{line}" for line in keys]]
            lines += objects("Dimension", dimensions.items(), lambda it: [f'DimensionName="{it[0]}"', f"Size={it[1]}"])
            for what, found in lists.items():
                names = lambda it: ",".join(f'"{one}"' for one in it[2])
                lines += objects(what, found, lambda it: [f'{what}Name="{it[1]}"', "DataType=H5T_NATIVE_FLOAT", f"DimList=({names(it)})",
                                                          f"MaxdimList=({names(it)})"])
            lines.append(f"\tEND_GROUP={kind.upper()}_1")
        lines.append(f"END_GROUP={other}Structure")
    return "\n".join([*lines, "END", ""])


def finish(file, text, **texts):
    file.require_group("HDFEOS/ADDITIONAL/FILE_ATTRIBUTES")
    information = file.create_group("HDFEOS INFORMATION")
    information.attrs["HDFEOSVersion"] = np.bytes_("HDFEOS_5.1.15")
    for name, content in {"StructMetadata": text, **texts}.items():
        information.create_dataset(f"{name}.0", data=np.bytes_(content), dtype="S32000")


def grid(path, keys, seed=0, shape=(5, 6), upper=(440720.0, 3751320.0), lower=(441920.0, 3750120.0), declared=True, **texts):
    """Writes a grid of this many rows and columns, with two fields."""
    keys = [f"XDim={shape[1]}", f"YDim={shape[0]}", "UpperLeftPointMtrs=({:f},{:f})".format(*upper), "LowerRightMtrs=({:f},{:f})".format(*lower), *keys]
    # Products such as AU_SI12 list no dimensions.
    dimensions = {"YDim": shape[0], "XDim": shape[1]} if declared else {}
    fields = [("DataField", "v", ["YDim", "XDim"])] + ([("DataField", "cube", ["Band", "YDim", "XDim"])] if declared else [])
    with h5py.File(path, "w") as file:
        values = np.random.default_rng(seed).integers(0, 99, (2, *shape)).astype("i2")
        file.create_dataset(f"{FIELDS}/v", data=values[0], chunks=(5, 3), compression="gzip", fillvalue=-1)
        if declared:
            file.create_dataset(f"{FIELDS}/cube", data=values, chunks=(1, 5, 3), compression="gzip")
        finish(file, structure("Grid", "G", keys, {**dimensions, "Band": 2} if declared else {}, fields), **texts)
    return path


def parameters(**numbers):
    """Returns the 13 parameters of a projection, of which some are given by position."""
    return "ProjParams=({})".format(",".join(str(numbers.get(f"p{k}", 0)) for k in range(13)))


GEO = {"upper": (-117038028.21, 33054002.17), "lower": (-117037041.20, 33053023.45)}
GRIDS = {
    "UTM (Tanager)": (["Projection=HE5_GCTP_UTM", "ZoneCode=11", "SphereCode=12", "PixelRegistration=HE5_HDFE_CORNER"], {}),
    "UTM, southern": (["Projection=HE5_GCTP_UTM", "ZoneCode=-33", "SphereCode=12"], {}),
    "UTM on Clarke 1866": (["Projection=HE5_GCTP_UTM", "ZoneCode=11", "SphereCode=0"], {}),
    "sinusoidal (VIIRS)": (["Projection=HE5_GCTP_SNSOID", parameters(p0=6371007.181), "SphereCode=-1"], {}),
    "sinusoidal, shifted": (["Projection=HE5_GCTP_SNSOID", parameters(p0=6371007.181, p4=-100030000, p6=10, p7=20), "SphereCode=-1"], {}),
    "azimuthal (EASE)": (["Projection=HE5_GCTP_LAMAZ", parameters(p0=6371228, p5=90000000), "SphereCode=-1"], {}),
    "azimuthal, normal sphere": (["Projection=HE5_GCTP_LAMAZ", parameters(p5=-90000000), "SphereCode=-1"], {}),
    "polar stereographic": (["Projection=HE5_GCTP_PS", parameters(p0=6378273, p1=6356889.449, p4=-45000000, p5=70000000), "SphereCode=-1"], {}),
    "polar stereographic, eccentricity": (["Projection=HE5_GCTP_PS", parameters(p0=6378273, p1=0.006694, p5=-70000000), "SphereCode=-1"], {}),
    "Lambert": (["Projection=HE5_GCTP_LAMCC", parameters(p2=33000000, p3=45000000, p4=-95000000, p5=23000000), "SphereCode=8"], {}),
    "Albers": (["Projection=HE5_GCTP_ALBERS", parameters(p2=29030000, p3=45030000, p4=-96000000, p5=23000000, p6=5, p7=6), "SphereCode=12"], {}),
    "transverse Mercator": (["Projection=HE5_GCTP_TM", parameters(p2=0.9996, p4=9000000, p6=500000), "SphereCode=12"], {}),
    "Mercator": (["Projection=HE5_GCTP_MERCAT", parameters(p4=9000000, p5=20000000), "SphereCode=5"], {}),
    "stereographic": (["Projection=HE5_GCTP_STEREO", parameters(p0=6371007, p4=9000000, p5=20000000), "SphereCode=-1"], {}),
    "polyconic": (["Projection=HE5_GCTP_POLYC", parameters(p4=9000000, p5=20000000), "SphereCode=12"], {}),
    "equidistant": (["Projection=HE5_GCTP_AZMEQD", parameters(p0=6371007, p4=9000000, p5=20000000), "SphereCode=-1"], {}),
    "gnomonic": (["Projection=HE5_GCTP_GNOMON", parameters(p0=6371007, p4=9000000, p5=20000000), "SphereCode=-1"], {}),
    "orthographic": (["Projection=HE5_GCTP_ORTHO", parameters(p0=6371007, p4=9000000, p5=20000000), "SphereCode=-1"], {}),
    "Robinson": (["Projection=HE5_GCTP_ROBIN", parameters(p0=6371007, p4=9000000), "SphereCode=-1"], {}),
    "latitudes": (["Projection=HE5_GCTP_GEO", "SphereCode=12"], GEO),
    "latitudes on a sphere": (["Projection=HE5_GCTP_GEO", "SphereCode=19"], GEO),
    "latitudes upwards (OMI)": (["Projection=HE5_GCTP_GEO", "SphereCode=12", "PixelRegistration=HE5_HDFE_CENTER"],
                                {"upper": (-180e6, -90e6), "lower": (180e6, 90e6)}),
}


def mapped(path, fmt):
    run = virtualize(path, "--format", fmt)
    assert run.status == 0, run.stderr
    return xr.decode_cf(open_dataset(run.references, FORMATS[fmt], FIELDS), decode_coords="all").load()


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("name", GRIDS)
def test_grids_are_placed_as_by_gdal(tmp_path, fmt, name, declared):
    keys, corners = GRIDS[name]
    origin = [] if "OMI" in name else ["GridOrigin=HE5_HDFE_GD_UL"]
    path = grid(tmp_path / "a.he5", [*keys, *origin], declared=declared, **corners)
    ds = mapped(path, fmt)
    with rasterio.open(f'HDF5:"{path}"://HDFEOS/GRIDS/G/Data_Fields/v') as truth:
        np.testing.assert_array_equal(ds.v, truth.read(1))
        np.testing.assert_allclose(tuple(ds.v.rio.transform()), tuple(truth.transform), rtol=1e-14, atol=1e-13)
        columns = [(truth.transform * (j + 0.5, 0))[0] for j in range(6)]
        rows = [(truth.transform * (0, i + 0.5))[1] for i in range(5)]
        np.testing.assert_allclose(ds.XDim, columns, rtol=1e-14, atol=1e-13)
        np.testing.assert_allclose(ds.YDim, rows, rtol=1e-14, atol=1e-13)
        assert metres_apart(ds.v.rio.crs, truth.crs) < 1e-3 and ds.v.rio.crs.is_projected == truth.crs.is_projected
    assert ds.v.dims == ("YDim", "XDim") and (not declared or ds.cube.dims == ("Band", "YDim", "XDim"))
    assert ds.v.rio.x_dim == "XDim" and ds.v.rio.y_dim == "YDim"


@pytest.mark.parametrize("pole", [1, -1])
def test_a_negative_parameter_is_the_eccentricity(tmp_path, fmt, pole):
    """AU_SI12 has the ellipsoid of Hughes. GDAL takes it for a sphere."""
    longitude = -45000000 if pole > 0 else 0
    keys = ["Projection=HE5_GCTP_PS", parameters(p0=6378273, p1=-0.006694, p4=longitude, p5=pole * 70000000), "SphereCode=-1"]
    ds = mapped(grid(tmp_path / "a.he5", keys, declared=False), fmt)
    assert metres_apart(ds.v.rio.crs, rasterio.CRS.from_epsg(3411 if pole > 0 else 3412)) < 2


def test_a_geographic_grid_without_a_spheroid_has_no_system(tmp_path, fmt):
    """VNP46: GDAL reports a sphere, which the file does not declare."""
    ds = mapped(grid(tmp_path / "a.he5", ["Projection=HE5_GCTP_GEO", "GridOrigin=HE5_HDFE_GD_UL"], **GEO), fmt)
    assert ds.v.rio.crs is None and ds.XDim.attrs["units"] == "degrees_east" and ds.YDim.attrs["standard_name"] == "latitude"


@pytest.mark.parametrize("keys, corners, problem", [
    (["Projection=HE5_GCTP_CEA", "SphereCode=12"], {}, "Projection is HE5_GCTP_CEA"),
    (["Projection=HE5_GCTP_ISINUS", parameters(p0=6371007.181)], {}, "Projection is HE5_GCTP_ISINUS"),
    (["Projection=HE5_GCTP_UTM", "ZoneCode=11", "GridOrigin=HE5_HDFE_GD_LL"], {}, "GridOrigin is HE5_HDFE_GD_LL, not HE5_HDFE_GD_UL"),
    (["Projection=HE5_GCTP_UTM", "ZoneCode=61", "SphereCode=12"], {}, "ZoneCode is 61, not a UTM zone"),
    (["Projection=HE5_GCTP_UTM", "ZoneCode=11", "SphereCode=3"], {}, "SphereCode is 3"),
    (["Projection=HE5_GCTP_UTM", "ZoneCode=x", "SphereCode=12"], {}, "ZoneCode is x"),
    (["Projection=HE5_GCTP_GEO"], {"upper": (-117500000, 33e6), "lower": (-117e6, 32e6)}, "not packed degrees, minutes and seconds"),
    (["Projection=HE5_GCTP_GEO"], {"upper": (-117e6, 33e6), "lower": (-117e6, 32e6)}, "span no grid"),
    (["Projection=HE5_GCTP_GEO"], {"upper": (-117e6, 91e6), "lower": (-116e6, 32e6)}, "latitudes 91 and 32 are out of range"),
    (["Projection=HE5_GCTP_LAMAZ", parameters(p0=6371228, p5=95000000), "SphereCode=-1"], {}, "out of range"),
])
def test_grids_that_cannot_be_placed_keep_their_fields(tmp_path, fmt, keys, corners, problem):
    path = grid(tmp_path / "a.he5", keys, **corners)
    ds = mapped(path, fmt)
    assert sorted(ds.variables) == ["cube", "v"] and ds.v.dims == ("YDim", "XDim") and not ds.v.attrs.get("grid_mapping")
    with h5py.File(path) as file:
        np.testing.assert_array_equal(ds.v, file[f"{FIELDS}/v"])
    report = json.loads(virtualize("inspect", path, "--json").stdout)
    (found,) = [it for it in report["diagnostics"] if it["code"] == "hdf-eos-grid"]
    assert problem in found["message"] and found["path"] == f"/{FIELDS}"


def test_axes_of_the_file_take_precedence(tmp_path, fmt):
    """VNP09GA: XDim and YDim are dimension scales of the grid."""
    path = grid(tmp_path / "a.he5", GRIDS["sinusoidal (VIIRS)"][0])
    with h5py.File(path, "r+") as file:
        for axis, (name, size) in enumerate((("YDim", 5), ("XDim", 6))):
            scale = file.create_dataset(f"HDFEOS/GRIDS/G/{name}", data=np.arange(size) * 7.0)
            scale.make_scale(name)
            file[f"{FIELDS}/v"].dims[axis].attach_scale(scale)
            file[f"{FIELDS}/cube"].dims[axis + 1].attach_scale(scale)
    ds = mapped(path, fmt)
    assert "XDim" not in ds.coords and ds.v.dims == ("YDim", "XDim")
    assert "sinu" in ds.v.rio.crs.to_proj4()
    outer = open_dataset(virtualize(path, "--format", fmt).references, FORMATS[fmt], "HDFEOS/GRIDS/G")
    np.testing.assert_array_equal(outer.XDim, np.arange(6) * 7.0)


def days(tmp_path, count, change=lambda k: {}):
    for k in range(count):
        keys = [*GRIDS["polar stereographic"][0], *(["CompressionType=HE5_HDFE_COMP_DEFLATE"] if k else [])]
        path = grid(tmp_path / f"d_2020010{k + 1}.he5", keys, seed=k, CoreMetadata=f"GRANULEID = {k}", **change(k))
        with h5py.File(path, "r+") as file:
            file["HDFEOS/ADDITIONAL/FILE_ATTRIBUTES"].attrs["GranuleDay"] = k + 1


def test_granules_of_a_grid_join(tmp_path, fmt):
    """Their StructMetadata and CoreMetadata differ."""
    days(tmp_path, 3)
    run = virtualize("batch", tmp_path / "d_*.he5", "--stack-dim", "time", "--coord", "time=name:d_{time:%Y%m%d}.he5", "-f", fmt, "-o", tmp_path / "o.json")
    assert run.status == 0 and "HDFEOS INFORMATION: the texts that describe a single file are dropped" in run.stderr, run.stderr
    ds = xr.decode_cf(open_dataset(json.loads((tmp_path / "o.json").read_text()), FORMATS[fmt], FIELDS), decode_coords="all").load()
    assert ds.v.dims == ("time", "YDim", "XDim") and ds.v.rio.crs is not None
    for k in range(3):
        with h5py.File(tmp_path / f"d_2020010{k + 1}.he5") as file:
            np.testing.assert_array_equal(ds.v[k], file[f"{FIELDS}/v"])
            np.testing.assert_array_equal(ds.cube[k], file[f"{FIELDS}/cube"])


def test_granules_of_other_grids_do_not_join(tmp_path):
    days(tmp_path, 2, lambda k: {"upper": (440720.0 + k, 3751320.0)})
    run = virtualize("batch", tmp_path / "d_*.he5", "--stack-dim", "time", "--coord", "time=name:d_{time:%Y%m%d}.he5", "-o", tmp_path / "o.json")
    assert run.status != 0 and "XDim" in run.stderr, run.stderr


def test_tiles_of_a_grid_join(tmp_path, fmt):
    """The grid mapping of the whole does not have the position of a tile."""
    paths = []
    for j in range(2):
        corners = {"upper": (1000.0 + 600 * j, 5000.0), "lower": (1600.0 + 600 * j, 4500.0)}
        paths.append(grid(tmp_path / f"h{j}.he5", [*GRIDS["sinusoidal (VIIRS)"][0]], seed=j, **corners))
    run = virtualize("batch", *paths, "--concat-dim", "XDim", "-f", fmt, "-o", tmp_path / "o.json")
    assert run.status == 0, run.stderr
    ds = xr.decode_cf(open_dataset(json.loads((tmp_path / "o.json").read_text()), FORMATS[fmt], FIELDS), decode_coords="all").load()
    expected = [h5py.File(path)[f"{FIELDS}/v"][()] for path in paths]
    np.testing.assert_array_equal(ds.v, np.concatenate(expected, axis=1))
    np.testing.assert_allclose(ds.XDim, 1050 + 100 * np.arange(12))
    assert tuple(ds.v.rio.transform())[:6] == (100, 0, 1000, 0, -100, 5000)


def swath(path, seed, times):
    """Writes a swath with this many times, as MLS, OMI and TES have them."""
    rng = np.random.default_rng(seed)
    fields = [("GeoField", "Latitude", ["nTimes"]), ("GeoField", "Time", ["nTimes"]), ("GeoField", "Pressure", ["nLevels"]),
              ("DataField", "L2gpValue", ["nTimes", "nLevels"]), ("DataField", "Status", ["nTimes"])]
    sizes = {"nTimes": times, "nLevels": 5}
    with h5py.File(path, "w") as file:
        for kind, name, names in fields:
            group = "Geolocation Fields" if kind == "GeoField" else "Data Fields"
            shape = tuple(sizes[one] for one in names)
            values = np.arange(5.0) if name == "Pressure" else seed * 1e6 + np.arange(times) if name == "Time" else rng.random(shape)
            file.create_dataset(f"HDFEOS/SWATHS/O3/{group}/{name}", data=values, chunks=tuple(min(4, n) for n in shape), maxshape=(None,) * len(shape))
        finish(file, structure("Swath", "O3", [], sizes, fields), coremetadata=f"granule {seed}")
    return path


def test_granules_of_a_swath_join(tmp_path, fmt):
    """Granules of different lengths have the dimensions of their lists, and no others."""
    paths = [swath(tmp_path / f"s{k}.he5", k, 7 + 2 * k) for k in range(3)]
    run = virtualize("batch", *paths, "--concat-dim", "nTimes", "-f", fmt, "-o", tmp_path / "o.json")
    assert run.status == 0, run.stderr
    references = json.loads((tmp_path / "o.json").read_text())
    for group, names in (("Geolocation Fields", ["Latitude", "Time", "Pressure"]), ("Data Fields", ["L2gpValue", "Status"])):
        ds = open_dataset(references, FORMATS[fmt], f"HDFEOS/SWATHS/O3/{group}")
        for name in names:
            truth = [h5py.File(path)[f"HDFEOS/SWATHS/O3/{group}/{name}"][()] for path in paths]
            np.testing.assert_array_equal(ds[name], truth[0] if name == "Pressure" else np.concatenate(truth))


@pytest.mark.parametrize("seed", seeds("RANDOM_GRIDS", 1))
def test_random_grids(tmp_path, seed):
    """Projections with random parameters and corners. More: RANDOM_GRIDS=50."""
    rng = random.Random(seed)
    for case in range(40):
        projection = rng.choice(["PS", "LAMAZ", "SNSOID", "TM", "ALBERS", "LAMCC", "MERCAT", "STEREO"])
        packed = lambda low, high: (rng.randrange(low, high) * 1_000_000 + rng.choice([0, 30_000, 15_030.5])) * rng.choice([-1, 1])
        numbers = {"p4": packed(0, 179), "p5": packed(20, 80), "p6": rng.choice([0, 500000]), "p7": rng.choice([0, 1e6])}
        numbers |= {"p0": rng.choice([0, 6371228, 6378137])}
        numbers |= {"p1": rng.choice([0, 6356752.3, 0.00669])} if numbers["p0"] == 6378137 else {}
        if projection in ("ALBERS", "LAMCC"):
            numbers |= {"p2": abs(packed(10, 30)), "p3": abs(packed(40, 60))}
        elif projection == "TM":
            numbers |= {"p2": rng.choice([1, 0.9996])}
        x, y = rng.uniform(-1e6, 1e6), rng.uniform(-1e6, 1e6)
        corners = {"upper": (x, y), "lower": (x + rng.uniform(1, 9e5), y - rng.uniform(1, 9e5))}
        keys = [f"Projection=HE5_GCTP_{projection}", parameters(**numbers), f"SphereCode={rng.choice([-1, -1, 0, 5, 8, 12, 19])}"]
        path = grid(tmp_path / f"{case}.he5", keys, shape=(rng.randint(5, 9), rng.randint(3, 9)), **corners)
        ds = mapped(path, "zarr3-json")
        with rasterio.open(f'HDF5:"{path}"://HDFEOS/GRIDS/G/Data_Fields/v') as truth:
            np.testing.assert_allclose(tuple(ds.v.rio.transform()), tuple(truth.transform), rtol=1e-12, err_msg=str(keys))
            apart = metres_apart(ds.v.rio.crs, truth.crs)
            assert apart is None or apart < 1e-3, (keys, apart)
