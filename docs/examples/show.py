"""Print the first values of arrays as xarray opens them: from the original file, and through references.

usage: show.py FILE REFERENCES NAME…
"""
import json, sys, warnings

import fsspec, xarray as xr
from zarr.storage import FsspecStore

warnings.simplefilter("ignore")


def open_original(path, group):
    if path.endswith(".tif"):
        return xr.open_dataset(f"GTIFF_DIR:{int(group or 0) + 1}:{path}", engine="rasterio")
    return xr.open_dataset(path, engine="h5netcdf", group=group or None, phony_dims="access")


def open_references(references, group):
    with open(references) as file:
        fs = fsspec.filesystem("reference", fo=json.load(file), remote_protocol="file", asynchronous=True, remote_options={"asynchronous": True})
    return xr.open_dataset(FsspecStore(fs, read_only=True, path=""), engine="zarr", group=group, consolidated=False, chunks=None)


path, references, *names = sys.argv[1:]
for name in names:
    group, _, leaf = name.rpartition("/")
    for source, dataset in {"original": open_original(path, group), "references": open_references(references, group)}.items():
        with dataset:
            values = " ".join(f"{value:g}" for value in dataset[leaf].values.ravel()[:8])
            print(f"{name} {source}: {dataset[leaf].dtype} {values}")
