"""Reads NetCDF classic files with netCDF4 (netCDF-C), from a file in memory: netCDF-C reads files on disk differently than buffers."""
import os, tempfile

import netCDF4, numpy as np

from oracle import MOST_BYTES, array, failed, serve, uncompared

FOLDER = "/dev/shm" if os.path.isdir("/dev/shm") else None
PATH = tempfile.NamedTemporaryFile(prefix="virtualize-oracle", suffix=".nc", dir=FOLDER)


def read(file, _paths):
    PATH.seek(0)
    PATH.truncate()
    PATH.write(file)
    PATH.flush()
    with netCDF4.Dataset(PATH.name) as dataset:
        dataset.set_auto_maskandscale(False)
        dataset.set_auto_chartostring(False)
        return [variable(name, dataset.variables[name]) for name in dataset.variables]


def variable(name, variable):
    path = name.split("\0")[0].replace("\\", "%5C")
    try:
        size = int(np.prod(variable.shape, dtype=object)) * variable.dtype.itemsize
        if size > MOST_BYTES:
            return uncompared(path, variable.shape, "size")
        return array(path, np.asarray(variable[...]).reshape(variable.shape))
    except Exception as error:
        return failed(path, error)


if __name__ == "__main__":
    serve(read)
