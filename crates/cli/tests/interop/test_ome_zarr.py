"""TIFF files as OME-Zarr: read by ome-zarr-py, valid for ome-zarr-models, and equal to tifffile level by level."""
import random
import urllib.parse
import urllib.request

import clients
import numpy as np
import pytest
import service
import zarr
from clients import convert, seeds, virtualize

OPTION = ("--option", "ome-zarr=true")
UNITS = {"µm": "micrometer", "nm": "nanometer", "mm": "millimeter", "Å": "angstrom", "in": "inch", "pixel": None}


def open_group(path):
    run = convert(path, "zarr3-json", *OPTION)
    assert not run.stderr, run.stderr
    return zarr.open_group(clients.open_store(run.references), mode="r")


def expected(level):
    """Returns the values of a level in tifffile along t, c, z, y, x, where samples are channels. Axes of one plane have no length."""
    data, axes = level.asarray(), level.axes.replace("I", "C").replace("Q", "C")
    order = [axes.index(axis) for axis in "TCSZYX" if axis in axes]
    data, names = data.transpose(order), [axes[at] for at in order]
    if "C" in names and "S" in names:
        at = names.index("C")
        data = data.reshape(*data.shape[:at], -1, *data.shape[at + 2:])
        names.remove("S")
    return data, [{"S": "c"}.get(name, name.lower()) for name in names]


def check_images(path, root):
    """Compares all images with tifffile, and validates the metadata. Returns the `ome` attribute of each image."""
    import tifffile
    from ome_zarr_models.v05 import BioFormats2Raw, Image
    with tifffile.TiffFile(path) as tif:
        many = len(tif.series) > 1
        if many:
            BioFormats2Raw.from_zarr(root)
            assert root["OME"].attrs["ome"]["series"] == [str(number) for number in range(len(tif.series))]
        groups = [root[str(number)] if many else root for number in range(len(tif.series))]
        for group, series in zip(groups, tif.series, strict=True):
            Image.from_zarr(group)
            multiscale, = group.attrs["ome"]["multiscales"]
            assert [dataset["path"] for dataset in multiscale["datasets"]] == sorted(group.array_keys()), "each array is a level"
            for dataset, level in zip(multiscale["datasets"], series.levels, strict=True):
                array, (values, names) = group[dataset["path"]], expected(level)
                assert list(array.metadata.dimension_names) == names == [axis["name"] for axis in multiscale["axes"]]
                problem = clients.same_bits(values, array[...])
                assert not problem, problem
    return [group.attrs["ome"] for group in groups]


def random_file(path, rng):
    import tifffile
    data = np.random.default_rng(rng.random().__hash__() & 0xFFFF)
    unit = {axis: rng.choice(list(UNITS)) for axis in "XYZ"}
    size = {axis: rng.choice([0.5, 2.0, 0.1]) for axis in "XYZ"}
    images = []
    with tifffile.TiffWriter(path, ome=True, byteorder=rng.choice("<>"), bigtiff=rng.random() < 0.3) as out:
        for number in range(rng.choice([1, 1, 1, 2, 3])):
            planes = rng.sample("TCZ", rng.randint(0, 3))
            samples = rng.choice([1, 1, 3])
            planar = samples > 1 and rng.random() < 0.4
            shape = [rng.randint(2, 3) for _ in planes]
            axes = "".join(planes) + ("SYX" if planar else "YXS" if samples > 1 else "YX")
            rows, columns = 16 * rng.randint(1, 4), 16 * rng.randint(2, 5)
            dtype = rng.choice(["u1"] if samples > 1 else ["u1", "u2", "i2", "f4"])
            levels = rng.choice([0, 0, 1, 2])
            options = {"compression": rng.choice([None, "zlib", "lzw"])} | ({"tile": (16, 16)} if levels or rng.random() < 0.5 else {"rowsperstrip": rng.choice([rows, 5, 8])})
            options |= {"photometric": "rgb", "planarconfig": "separate" if planar else "contig"} if samples > 1 else {"photometric": "minisblack"}
            metadata = {"axes": axes, "Name": f"image {number}"}
            for axis in "XYZ":
                metadata |= {f"PhysicalSize{axis}": size[axis], f"PhysicalSize{axis}Unit": unit[axis]}
            if "C" in planes and samples == 1:
                metadata["Channel"] = {"Name": [f"c{at}" for at in range(shape[planes.index("C")])]}
            for level in range(levels + 1):
                plane = (rows >> level, columns >> level)
                full = (*shape, *((samples, *plane) if planar else (*plane, samples) if samples > 1 else plane))
                values = (data.random(full) * 250).astype(dtype)
                out.write(values, **options, **({"subifds": levels, "metadata": metadata} if level == 0 else {"subfiletype": 1, "metadata": None}))
            images.append((metadata, levels))
    return images, size, unit


@pytest.mark.parametrize("seed", seeds("RANDOM_OME_ZARR", 60, fast=12))
def test_random_images_are_those_of_tifffile(tmp_path, seed):
    path = tmp_path / "random.ome.tif"
    images, size, unit = random_file(path, random.Random(seed))
    found = check_images(path, open_group(path))
    for (metadata, levels), ome in zip(images, found, strict=True):
        multiscale, = ome["multiscales"]
        assert multiscale["name"] == metadata["Name"] and len(multiscale["datasets"]) == levels + 1
        spatial = [axis for axis in multiscale["axes"] if axis["type"] == "space"]
        assert [axis.get("unit") for axis in spatial] == [UNITS[unit[axis["name"].upper()]] for axis in spatial]
        for level, dataset in enumerate(multiscale["datasets"]):
            transform, = dataset["coordinateTransformations"]
            of_axis = dict(zip([axis["name"] for axis in multiscale["axes"]], transform["scale"], strict=True))
            for name in of_axis.keys() & set("zyx"):
                assert of_axis[name] == size[name.upper()] * (1 if name == "z" else 2**level)
        names = metadata.get("Channel", {}).get("Name")
        assert [channel["label"] for channel in ome.get("omero", {"channels": []})["channels"]] == (names or [])


def test_stacks_and_pyramids_without_ome_xml_are_images(tmp_path):
    import tifffile
    data = np.random.default_rng(1)
    stack = tmp_path / "stack.tif"
    tifffile.imwrite(stack, data.integers(0, 9, (2, 3, 4, 16, 20)).astype("u2"), truncate=True, metadata={"axes": "TZCYX"})
    pyramid = tmp_path / "pyramid.tif"
    with tifffile.TiffWriter(pyramid) as out:
        for level in range(3):
            out.write(data.integers(0, 9, (64 >> level, 96 >> level, 3)).astype("u1"), tile=(16, 16), photometric="rgb", subfiletype=int(level > 0), metadata=None)
    assert len(check_images(stack, open_group(stack))) == 1
    ome, = check_images(pyramid, open_group(pyramid))
    assert [dataset["coordinateTransformations"][0]["scale"] for dataset in ome["multiscales"][0]["datasets"]] == [[1, 1, 1], [1, 2, 2], [1, 4, 4]]


def test_inlined_planes_move_with_their_axes(tmp_path):
    """Short last strips are padded and inlined; the order of the axes changes, and with it the positions of chunks."""
    import tifffile
    path = tmp_path / "short.ome.tif"
    tifffile.imwrite(path, np.random.default_rng(2).integers(0, 999, (3, 2, 4, 30, 48)).astype("u2"), ome=True, rowsperstrip=8, compression="zlib", metadata={"axes": "ZCTYX"})
    check_images(path, open_group(path))


def test_ome_zarr_py_reads_images_from_the_service(tmp_path):
    import tifffile
    from ome_zarr.io import parse_url
    from ome_zarr.reader import Reader
    path = tmp_path / "cells.ome.tif"
    with tifffile.TiffWriter(path, ome=True) as out:
        data = np.random.default_rng(3).integers(0, 999, (2, 3, 64, 64)).astype("u2")
        options = {"tile": (32, 32)}
        out.write(data, subifds=1, metadata={"axes": "ZCYX", "Channel": {"Name": ["DAPI", "GFP", "RFP"]}, "SignificantBits": 12}, **options)
        out.write(data[..., ::2, ::2], subfiletype=1, **options)
    references = tmp_path / "cells.json"
    assert virtualize(path, "--format", "zarr3-json", *OPTION, "-o", references).status == 0
    with service.started(tmp_path) as address:
        store = urllib.request.urlopen(f"{address}/v1/zarr/{urllib.parse.quote(service.url(references), safe='')}").url
        location = parse_url(store)
        assert location.fmt.version == "0.5"
        node, = Reader(location)()
        assert [level.shape for level in node.data] == [(3, 2, 64, 64), (3, 2, 32, 32)]
        assert [axis["name"] for axis in node.metadata["axes"]] == ["c", "z", "y", "x"]
        assert node.metadata["channel_names"] == ["DAPI", "GFP", "RFP"]
        assert (node.data[0].compute() == data.swapaxes(0, 1)).all()


def test_images_are_not_joined(tmp_path):
    file = clients.FIXTURES / "tiff" / "chunky.tif"
    run = virtualize("batch", file, file, "--stack-dim", "time", "--format", "zarr3-json", *OPTION, "-o", tmp_path / "out.json")
    assert run.status != 0 and "images of OME-Zarr cannot be joined" in run.stderr and not list(tmp_path.iterdir()), run.stderr


@pytest.mark.parametrize(("name", "fmt", "reason"), [
    ("tiff/geo_utm.tif", "zarr3-json", "has no coordinate reference systems"),
    ("hdf5/chunked.h5", "zarr3-json", "has no image of a TIFF"),
    ("tiff/chunky.tif", "kerchunk-json", "needs a Zarr v3 format"),
])
def test_files_that_it_cannot_express_are_refused(name, fmt, reason):
    run = virtualize(clients.FIXTURES / name, "--format", fmt, *OPTION)
    assert (run.status, run.stdout) == (1, b"")
    assert reason in run.stderr and "[ome-zarr]" in run.stderr, run.stderr
