"""What ties the images of a TIFF together: masks, names of bands, stacks and series, beside GDAL and tifffile on files that they wrote."""
import warnings

import clients
import numpy as np
import pytest
from clients import FORMATS, convert, open_dataset, same_values


def random(shape, dtype="uint8"):
    return np.random.default_rng(7).integers(0, 200, shape).astype(dtype)


@pytest.fixture(scope="module")
def masked(tmp_path_factory):
    """Three bands with names, an internal mask, two overviews with masks, as GDAL writes them."""
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
