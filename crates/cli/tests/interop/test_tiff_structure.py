"""Relations between the images of a TIFF: masks, names of bands, stacks and series, compared with GDAL and tifffile on files that they wrote."""
import warnings

import clients
import conversion_files
import numpy as np
import pytest
import tifffile
from clients import FORMATS, convert, open_dataset, same_values


def random(shape, dtype="uint8"):
    return np.random.default_rng(7).integers(0, 200, shape).astype(dtype)


@pytest.fixture(scope="module")
def masked(tmp_path_factory):
    """Writes three named bands, an internal mask, and two overviews with masks, by GDAL."""
    import rasterio
    from rasterio.transform import from_origin
    path = tmp_path_factory.mktemp("masks") / "masked.tif"
    profile = dict(driver="GTiff", width=64, height=48, count=3, dtype="uint8", crs="EPSG:32633", transform=from_origin(5e5, 5e6, 10, 10),
                   tiled=True, blockxsize=16, blockysize=16, compress="deflate")
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True):
        with rasterio.open(path, "w", **profile) as out:
            data = random((3, 48, 64))
            out.write(data)
            out.write_mask(data[0] > 100)
            out.descriptions = ("red", "grün", "")
        with rasterio.open(path, "r+") as out:
            out.build_overviews([2, 4])
    return path


def array_at(references, fmt, path):
    group, _, name = path.rpartition("/")
    return open_dataset(references, FORMATS[fmt], group)[name]


def test_masks_are_those_of_gdal(masked, fmt):
    import rasterio
    references = convert(masked, fmt).references
    main = array_at(references, fmt, "band_data")
    levels = [asset["asset"] for asset in open_dataset(references, FORMATS[fmt]).attrs["multiscales"]["layout"]]
    assert len(levels) == 3
    for number, level in enumerate(levels):
        image = array_at(references, fmt, level)
        mask = array_at(references, fmt, image.attrs["mask"])
        assert mask.attrs["mask_of"] == level and mask.attrs["flag_meanings"] == "masked valid"
        with rasterio.open(masked, **({"overview_level": number - 1} if number else {})) as src:
            problem = same_values(src.dataset_mask(), mask.values[0] * 255)
        assert not problem, problem
    assert "mask_of" not in main.attrs


def test_groups_with_masks_open_as_a_tree(masked, fmt):
    import xarray as xr
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = xr.open_datatree(clients.open_store(convert(masked, fmt).references), engine="zarr", consolidated=False,
                                zarr_format=FORMATS[fmt], chunks=None)
    assert len(tree.children) == 5


def test_bands_have_numbers_and_names(masked, fmt):
    import rioxarray, xarray as xr
    ds = xr.decode_cf(open_dataset(convert(masked, fmt).references, FORMATS[fmt]))
    truth = rioxarray.open_rasterio(masked)
    assert ds["band_data"].coords["band_name"].dims == ("band",)
    assert ds["band_data"].coords["band_name"].values.tolist() == [name or "" for name in truth.attrs["long_name"]] == ["red", "grün", ""]
    assert ds.indexes["band"].tolist() == truth.indexes["band"].tolist() == [1, 2, 3]
    assert (ds["band_data"].swap_dims(band="band_name").sel(band_name="grün").values == truth.values[1]).all()


def test_images_without_names_have_none(fmt):
    ds = open_dataset(convert(clients.FIXTURES / "tiff" / "cog_rgb.tif", fmt).references, FORMATS[fmt])
    assert "band_name" not in ds.variables


# ---- OME-TIFF

def single(path, data, **options):
    import tifffile
    tifffile.imwrite(path, data, ome=True, **options)


def ome_cases(folder):
    """Yields (name, path, expected series of tifffile), written by tifffile."""
    import tifffile
    deflate = dict(compression="zlib")
    single(folder / "tcyx.ome.tif", random((3, 2, 32, 48), "uint16"), metadata={"axes": "TCYX", "Channel": {"Name": ["DAPI", "GFP"]}}, **deflate)
    single(folder / "zcyx_short.ome.tif", random((4, 2, 30, 48), "uint16"), metadata={"axes": "ZCYX"}, rowsperstrip=8, predictor=2, **deflate)
    single(folder / "float_tiles.ome.tif", random((2, 3, 40, 48), "float32"), metadata={"axes": "TZYX"}, tile=(16, 16), predictor=3, **deflate)
    single(folder / "tzcyx.ome.tif", random((2, 3, 2, 16, 20)), metadata={"axes": "TZCYX"})
    single(folder / "rgb.ome.tif", random((4, 16, 20, 3)), photometric="rgb", metadata={"axes": "ZYXS"}, **deflate)
    single(folder / "planar_rgb.ome.tif", random((4, 3, 16, 20)), photometric="rgb", planarconfig="separate", metadata={"axes": "ZSYX"}, **deflate)
    single(folder / "one.ome.tif", random((16, 20)), metadata={"axes": "YX"})
    with tifffile.TiffWriter(folder / "series.ome.tif", ome=True) as out:
        out.write(random((3, 32, 48)), metadata={"axes": "ZYX", "Name": "first & best"})
        out.write(random((5, 2, 16, 20), "uint16"), metadata={"axes": "TCYX", "Name": "second"}, **deflate)
        out.write(random((8, 9), "float32"), metadata={"axes": "YX", "Name": "third"})
    with tifffile.TiffWriter(folder / "pyramid.ome.tif", ome=True) as out:
        data = random((3, 2, 64, 64), "uint16")
        options = dict(tile=(16, 16), **deflate)
        out.write(data, subifds=2, metadata={"axes": "ZCYX", "Name": "levels"}, **options)
        out.write(data[..., ::2, ::2], subfiletype=1, **options)
        out.write(data[..., ::4, ::4], subfiletype=1, **options)
    return sorted(folder.glob("*.ome.tif"))


@pytest.fixture(scope="module")
def ome_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ome")
    assert len(ome_cases(folder)) == 9
    return folder


def shown(references, fmt, path):
    """Returns tifffile's data and axes in our form: samples as bands, no axes of length 1."""
    array = array_at(references, fmt, path)
    names = ["S" if d.startswith("band") else d.split("_")[0].upper() for d in array.dims]
    keep = [i for i, size in enumerate(array.shape) if size > 1]
    return array.values.squeeze(), "".join(names[i] for i in keep)


def same_series(levels_or_series, references, fmt, path):
    data, axes = levels_or_series.asarray(), levels_or_series.axes
    got, got_axes = shown(references, fmt, path)
    assert sorted(got_axes) == sorted(axes)
    got = np.transpose(got, [got_axes.index(axis) for axis in axes])
    problem = clients.same_bits(data, got)
    assert not problem, problem


@pytest.mark.parametrize("name", ["tcyx", "zcyx_short", "float_tiles", "tzcyx", "rgb", "planar_rgb", "one", "series", "pyramid"])
def test_ome_series_are_those_of_tifffile(ome_folder, fmt, name):
    import tifffile
    path = ome_folder / f"{name}.ome.tif"
    run = convert(path, fmt)
    assert not run.stderr, run.stderr
    catalogue = open_dataset(run.references, FORMATS[fmt]).attrs["ome_series"]
    with tifffile.TiffFile(path) as tif:
        assert [entry["name"] for entry in catalogue] == [series.name for series in tif.series]
        for series, entry in zip(tif.series, catalogue, strict=True):
            same_series(series, run.references, fmt, entry["asset"])
            group = entry["asset"].removesuffix("band_data")
            for number, level in enumerate(series.levels[1:]):
                same_series(level, run.references, fmt, f"{group or '0/'}{number}/band_data")
    arrays = [p for p, kind in clients.nodes(run.references, FORMATS[fmt]).items() if kind == "array" and p.endswith("band_data")]
    assert len(arrays) == sum(len(series.levels) for series in tif.series)


def test_ome_series_open_as_a_tree(ome_folder, fmt):
    import xarray as xr
    for name in ("series", "pyramid"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            store = clients.open_store(convert(ome_folder / f"{name}.ome.tif", fmt).references)
            tree = xr.open_datatree(store, engine="zarr", consolidated=False, zarr_format=FORMATS[fmt], chunks=None)
        assert len(tree.leaves) == 2, tree


def test_channels_have_names(ome_folder, fmt):
    import xarray as xr
    ds = xr.decode_cf(open_dataset(convert(ome_folder / "tcyx.ome.tif", fmt).references, FORMATS[fmt]))
    assert ds["band_data"].coords["channel_name"].values.tolist() == ["DAPI", "GFP"]
    assert ds["band_data"].coords["channel_name"].dims == ("c",)


def ome_xml(uuid, files, pages=1):
    """Returns a document of one image with 2 channels and one time per (file name, uuid), each with both channels."""
    data = "".join(f'<TiffData FirstT="{t}" FirstC="{c}" IFD="{c}" PlaneCount="1"><UUID FileName="{name}">urn:uuid:{file}</UUID></TiffData>'
                   for t, (name, file) in enumerate(files) for c in range(2))
    return (f'<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" UUID="urn:uuid:{uuid}"><Image ID="Image:0" Name="times">'
            f'<Pixels ID="Pixels:0" DimensionOrder="XYCZT" Type="uint16" SizeX="20" SizeY="16" SizeC="2" SizeZ="1" SizeT="{len(files)}">'
            f'<Channel ID="Channel:0:0" SamplesPerPixel="1"/><Channel ID="Channel:0:1" SamplesPerPixel="1"/>{data}</Pixels></Image></OME>')


def write_times(folder, files, sizes=None):
    import tifffile
    for t, (name, uuid) in enumerate(files):
        shape = (sizes or {}).get(name, (2, 16, 20))
        data = random(shape, "uint16") + t
        tifffile.imwrite(folder / name, data, description=ome_xml(uuid, files), metadata=None, compression="zlib", photometric="minisblack")


def test_ome_planes_may_be_in_other_files(tmp_path, fmt):
    import tifffile
    files = [(f"t{t}.ome.tif", f"0000000{t}") for t in range(3)]
    write_times(tmp_path, files)
    run = convert(tmp_path / "t1.ome.tif", fmt)
    assert not run.stderr, run.stderr
    with tifffile.TiffFile(tmp_path / "t1.ome.tif") as tif:
        assert tif.series[0].shape == (3, 2, 16, 20)
        same_series(tif.series[0], run.references, fmt, "band_data")


@pytest.mark.parametrize("second", ["../t1.ome.tif", "/etc/t1.ome.tif", "missing.ome.tif", "unlike.ome.tif"])
def test_ome_planes_elsewhere_are_reported(tmp_path, fmt, second):
    """A file outside of the folder, missing, or different from the others: the pages are separate arrays, with a reason."""
    files = [("t0.ome.tif", "00000000"), (second, "00000001")]
    folder = tmp_path / "in"
    folder.mkdir()
    write_times(folder, files[:1] + [f for f in files[1:] if f[0].startswith("unlike")], {"unlike.ome.tif": (2, 16, 24)})
    import tifffile
    tifffile.imwrite(folder / "t0.ome.tif", random((2, 16, 20), "uint16"), description=ome_xml("00000000", files), metadata=None)
    write_times(tmp_path, [("t1.ome.tif", "00000001")])
    run = convert(folder / "t0.ome.tif", fmt)
    assert [code for _, code in run.codes] == ["ome-series"]
    array = array_at(run.references, fmt, "1/band_data")
    assert (array.values[0] == random((2, 16, 20), "uint16")[1]).all()


def test_stubs_of_ome_documents_are_reported(tmp_path, fmt):
    import tifffile
    stub = '<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" UUID="urn:uuid:1"><BinaryOnly MetadataFile="a.companion.ome" UUID="urn:uuid:2"/></OME>'
    tifffile.imwrite(tmp_path / "a.ome.tif", random((2, 16, 20)), description=stub, metadata=None)
    run = convert(tmp_path / "a.ome.tif", fmt)
    assert "a.companion.ome" in run.stderr and [code for _, code in run.codes] == ["ome-series"]


def test_planes_without_a_page_read_as_zero(tmp_path, fmt):
    import tifffile
    text = ome_xml("1", [("a.ome.tif", "1")]).replace('SizeT="1"', 'SizeT="2"')
    tifffile.imwrite(tmp_path / "a.ome.tif", random((2, 16, 20), "uint16"), description=text, metadata=None)
    run = convert(tmp_path / "a.ome.tif", fmt)
    assert "2 planes are missing" in run.stderr
    with tifffile.TiffFile(tmp_path / "a.ome.tif") as tif:
        same_series(tif.series[0], run.references, fmt, "band_data")


def test_a_page_that_is_two_planes_is_reported(tmp_path, fmt):
    import tifffile
    text = ome_xml("1", [("a.ome.tif", "1")]).replace('IFD="1"', 'IFD="0"')
    tifffile.imwrite(tmp_path / "a.ome.tif", random((2, 16, 20), "uint16"), description=text, metadata=None)
    run = convert(tmp_path / "a.ome.tif", fmt)
    assert "page 0 is a plane more than once" in run.stderr


# ---- pages

@pytest.mark.parametrize("dtype,predictor", [("uint8", 1), ("uint16", 2), ("float32", 3), ("float64", 3), (">u2", 2)])
@pytest.mark.parametrize("samples", [1, 3])
def test_stacked_pages_are_those_of_tifffile(tmp_path, fmt, dtype, predictor, samples):
    """Strips of 5 rows, the last one of 2; pages of one or more interleaved samples."""
    import tifffile
    shape = (3, 17, 20) if samples == 1 else (3, 17, 20, samples)
    order = ">" if dtype.startswith(">") else "<"
    data = (random(shape, "uint16") * 1.5).astype(dtype)
    with tifffile.TiffWriter(tmp_path / "a.tif", byteorder=order) as out:
        for page in data:
            out.write(page, rowsperstrip=5, compression="zlib", predictor=predictor if predictor > 1 else None, metadata=None,
                      photometric="minisblack", planarconfig="contig" if samples > 1 else None)
    array = array_at(convert(tmp_path / "a.tif", fmt, "--option", "stack-pages=true").references, fmt, "band_data")
    got = array.transpose("page", "y", "x", "band").values
    problem = clients.same_bits(data.reshape(3, 17, 20, samples), got)
    assert not problem, problem


def test_bits_of_lerc_are_in_the_declared_order(tmp_path, fmt):
    """libtiff and tifffile undo FillOrder 2 before LERC; libtiff writes such files."""
    import rasterio, tifffile
    data = np.arange(64 * 64, dtype="u1").reshape(64, 64) % 251
    tifffile.imwrite(tmp_path / "a.tif", data, compression="lerc", tile=(32, 32), metadata=None, extratags=[(265, 3, 1, 2, True)])
    conversion_files.reverse_bits(tmp_path / "a.tif", [True])
    with rasterio.open(tmp_path / "a.tif") as file:
        assert (file.read(1) == data).all() and (tifffile.imread(tmp_path / "a.tif") == data).all()
    if FORMATS[fmt] == 3:
        run = clients.virtualize(tmp_path / "a.tif", "-f", fmt)
        assert run.status == 1 and "FillOrder 2" in run.stderr
        return
    assert (array_at(convert(tmp_path / "a.tif", fmt).references, fmt, "band_data").values.squeeze() == data).all()


@pytest.mark.parametrize("order", "<>")
def test_complex_integers_are_those_of_gdal(tmp_path, fmt, order):
    """Two signed integers per sample, written by tifffile with another sample format."""
    import rasterio, tifffile
    path, data = tmp_path / "c.tif", random((10, 9, 2), "int16") * -157
    profile = dict(driver="GTiff", width=9, height=10, count=1, dtype="complex_int16", compress="deflate", blockysize=4, tiled=False)
    with rasterio.open(path, "w", ENDIANNESS="BIG" if order == ">" else "LITTLE", **profile) as out:
        out.write((data[..., 0] + 1j * data[..., 1]).astype("complex64")[None])
    assert tifffile.TiffFile(path).pages[0].sampleformat == 5
    got = array_at(convert(path, fmt).references, fmt, "band_data")
    with rasterio.open(path) as src:
        problem = same_values(src.read(), got.values)
    assert not problem and got.dtype == "complex64", problem


def geotiff(left):
    """Tags of pixels of 10 m from `left` on, in UTM."""
    keys = (1, 1, 0, 3, 1024, 0, 1, 1, 1025, 0, 1, 1, 3072, 0, 1, 32633)
    return [(33550, "d", 3, (10.0, 10.0, 0.0), True), (33922, "d", 6, (0, 0, 0, left, 5e6, 0), True), (34735, "H", 16, keys, True)]


def test_overviews_and_masks_of_a_later_page_are_those_of_the_page(tmp_path, fmt):
    path, numbers = tmp_path / "a.tif", (np.arange(64 * 64) % 11).astype("u1").reshape(64, 64)
    nodata = [(42113, "s", 0, "5", True)]
    with tifffile.TiffWriter(path) as file:
        for left, more in ((5e5, nodata), (7e5, [])):
            file.write(numbers, tile=(32, 32), metadata=None, subifds=1, photometric="minisblack", extratags=geotiff(left) + more)
            file.write(numbers[::2, ::2].copy(), tile=(32, 32), metadata=None, subfiletype=1, photometric="minisblack")
            file.write(numbers > 5, tile=(32, 32), metadata=None, subfiletype=4, photometric=4)
    references = convert(path, fmt).references
    for group, left, step, fill in (("", 5e5, 10, 5), ("0/0", 5e5, 20, 5), ("1", 5e5, 10, None), ("2", 7e5, 10, None), ("2/0", 7e5, 20, None), ("3", 7e5, 10, None)):
        image = open_dataset(references, FORMATS[fmt], group)
        x = next(name for name in image.variables if name.startswith("x"))
        assert image[x].values[0] == left + step / 2, group
        is_masked = np.isnan(clients.decoded(image, "band_data", True).values.astype("f8")).any()
        assert is_masked == (fill is not None), group


def test_coordinates_beyond_the_limit_are_named(tmp_path, fmt):
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((8, 8), "u1"), extratags=geotiff(0), metadata=None, photometric="minisblack")
    run = clients.virtualize(tmp_path / "a.tif", "--format", fmt, "--option", "inline-limit=100")
    assert run.status == 0 and "x and y are omitted: inlining 8 + 8 coordinates" in run.stderr, run.stderr


@pytest.mark.parametrize(("dtype", "predictor"), [("u2", 2), ("f4", 3)])
def test_lerc_with_a_predictor_is_refused(tmp_path, dtype, predictor):
    """tifffile undoes the predictor, libtiff does not."""
    tifffile.imwrite(tmp_path / "a.tif", np.arange(256, dtype=dtype).reshape(16, 16), compression="lerc", predictor=predictor)
    run = clients.virtualize(tmp_path / "a.tif")
    assert run.status == 1 and f"predictor {predictor} with LERC (34887): readers differ" in run.stderr, run.stderr


def test_items_of_one_name_are_all_kept(tmp_path, fmt):
    """The dataset and its only band, and an item and a domain."""
    xml = """<GDALMetadata><Item name="A">of all</Item><Item name="A" sample="0">of the band</Item><Item name="B" sample="0">band</Item>
        <Item name="IMD">item</Item><Item name="k" domain="IMD">v</Item><Item name="k" domain="D">w</Item></GDALMetadata>"""
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((8, 8), "u1"), extratags=[(42112, "s", 0, xml, True)], metadata=None, photometric="minisblack")
    attributes = array_at(convert(tmp_path / "a.tif", fmt).references, fmt, "band_data").attrs
    assert {name: attributes.get(name) for name in ("A", "A_by_band", "B", "IMD", "gdal_IMD", "D")} == {
        "A": "of all", "A_by_band": {"1": "of the band"}, "B": "band", "IMD": "item", "gdal_IMD": {"k": "v"}, "D": {"k": "w"}}
