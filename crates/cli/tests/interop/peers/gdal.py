"""Reads arrays of reference files with GDAL's Zarr driver as rasters: `python gdal.py` takes lines of JSON {references, array, shape} and prints them
with the elements in C order as base64 of little-endian bytes, or the reason why it cannot."""
import base64, json, logging, sys, warnings

import numpy as np, rasterio


def read(references, array, shape):
    url = f'ZARR:"{references}":/{array}'
    with rasterio.open(url) as dataset:
        if not dataset.subdatasets:
            bands = dataset.read()
            # Where axes are named y and x, others become bands.
            last = np.moveaxis(bands, 0, -1)
            return last if bands.shape != tuple(shape) == last.shape else bands.reshape(shape)
        names = dataset.subdatasets
    planes = []
    for name in names:
        with rasterio.open(name) as dataset:
            planes.append(dataset.read(1))
    return np.stack(planes).reshape(shape)


def main():
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    for line in map(json.loads, sys.stdin):
        try:
            values = read(**line)
            found = {"values": base64.b64encode(values.astype(values.dtype.newbyteorder("<")).tobytes()).decode()}
        except Exception as error:
            found = {"error": str(error)}
        print(json.dumps({"references": line["references"], "array": line["array"], **found}))


if __name__ == "__main__":
    main()
