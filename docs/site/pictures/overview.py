"""The picture of the README: files, references, readers."""
from svg import Picture


def draw():
    picture = Picture(
        "overview",
        372,
        "How virtualize works",
        "virtualize reads the metadata of HDF5, NetCDF and TIFF files on disk, S3, GCS, Azure or HTTP, and writes references as kerchunk, "
        "Zarr v3 or Icechunk. xarray, zarr-python and GDAL open the references and read the original bytes from the files.",
    )
    files(picture)
    references(picture)
    readers(picture)
    picture.path("M236 100H336", "purple", 2.5)
    picture.text(284, 84, "virtualize", 17, "purple", "middle", bold=True)
    picture.lines(284, 126, ["reads only", "metadata"], 21, size=15, colour="quiet", anchor="middle")
    picture.path("M562 134H598", "blue", 2.5)
    picture.path("M138 254V300Q138 316 154 316H654Q670 316 670 300V254", "green", 4)
    picture.text(404, 302, "original bytes, read in parallel", 17, "green", "middle", bold=True)
    picture.text(404, 345, "no copy, no conversion", 15, "quiet", "middle")
    picture.write()


def files(picture):
    picture.box(24, 24, 212, 228)
    picture.text(40, 56, "Your files", 19, bold=True)
    picture.lines(40, 86, ["HDF5, NetCDF-4", "TIFF, GeoTIFF, COG"], size=16)
    picture.lines(40, 142, ["on disk, S3, GCS,", "Azure or HTTP"], size=16, colour="quiet")
    picture.box(40, 190, 44, 44, "purple-fill", "purple", 4)
    for at in range(4):
        picture.box(90 + at * 33, 190, 30, 44, "green-fill", "green", 4)
    picture.text(62, 217, "meta", 14, "purple", "middle")
    for at in range(4):
        picture.text(105 + at * 33, 217, str(at), 14, "green", "middle")


def references(picture):
    picture.box(338, 24, 222, 228)
    picture.text(354, 56, "References", 19, bold=True)
    picture.lines(354, 86, ["kerchunk JSON, Parquet", "Zarr v3", "Icechunk"], size=16)
    picture.box(354, 156, 190, 80, "green-fill", "green", 4)
    picture.lines(364, 180, ["chunk 0:", "  url", "  offset, length"], 22, size=15, colour="green", mono=True)


def readers(picture):
    picture.box(600, 24, 136, 228)
    picture.text(616, 56, "Readers", 19, bold=True)
    picture.lines(616, 86, ["xarray", "zarr-python", "Dask", "GDAL", "zarrita.js"], 26, size=16)
