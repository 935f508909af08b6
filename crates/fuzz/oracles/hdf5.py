"""Reads HDF5 files with h5py (libhdf5). Groups are entered once on each path."""
import itertools, os

import h5py, hdf5plugin, numpy as np  # noqa: F401 - hdf5plugin registers filters
from h5py import h5d, h5f, h5s, h5t

from oracle import MOST_ARRAYS, MOST_BYTES, array, failed, serve, uncompared

MOST_NODES = 2000
DEPTH = 32
IEEE = [getattr(h5t, f"IEEE_F{bits}{order}") for bits in (16, 32, 64) for order in ("LE", "BE")]


def read(file, paths):
    # Names that are not UTF-8 cannot be asked for.
    paths = [path for path in paths if "\ufffd" not in path]
    found = opened(file, lambda root: listed(root, paths))
    # What libhdf5 has opened before may keep it from reading an array: of two objects with one block, it reads the first.
    again = {array["path"] for array, _ in found if "error" in array}.intersection(paths)
    alone = {path: opened(file, lambda root: at_path(root, path)) for path in again}
    return [alone.get(array["path"], (array, values)) for array, values in found]


def opened(file, use):
    """Returns what `use` finds. Where libhdf5 fails to close a file because its own cache is inconsistent, or has lost the file's
    identifier because of an earlier file, there is no verdict: the child process ends, as after a crash."""
    id = h5f.open_file_image(file)
    try:
        return use(h5py.File(id)["/"])
    except RuntimeError as error:
        end_if_inconsistent(error)
        raise
    finally:
        try:
            for open_id in h5f.get_obj_ids(id, h5f.OBJ_ALL & ~h5f.OBJ_FILE):
                open_id.close() if hasattr(open_id, "close") else None
            id.close()
        except RuntimeError as error:
            end_if_inconsistent(error)
            raise


def end_if_inconsistent(error):
    if "Pinned entry count" in str(error) or "can't locate ID" in str(error):
        os._exit(1)


def listed(root, paths):
    found = []
    walk(root, "", found, set(), [0])
    known = {renamed(array["path"]) for array, _ in found}
    # A group in which the library cannot list all links may have others, which it opens by name.
    return found + [at_path(root, path) for path in paths if path not in known]


def renamed(path):
    """Returns the path that `virtualize` shows; see `hdf5_path` in src/differential.rs."""
    return "/".join(name.removeprefix("_nc4_non_coord_") or name for name in path.split("/"))


def at_path(root, path):
    """Reads the array that `virtualize` shows at a path. Of several errors, the first is that of the path itself."""
    errors = []
    for names in itertools.product(*((name, "_nc4_non_coord_" + name) for name in path.replace("%5C", "\\").split("/"))):
        try:
            node = h5py.h5o.open(root.id, "/".join(names).encode())
            if isinstance(node, h5d.DatasetID):
                return dataset(path, node)
            errors.append(TypeError("not a dataset"))
        except Exception as failure:
            errors.append(failure)
        if len(errors) == MOST_ARRAYS:
            break
    return failed(path, errors[0])


def where(node):
    """Returns the address of a group, or a number of its own if a message of its header is damaged."""
    try:
        info = h5py.h5o.get_info(node.id)
    except Exception:
        return object()
    return info.fileno, info.addr


def walk(group, prefix, found, above, seen):
    """Appends the datasets below a group."""
    above = above | {where(group)}
    if len(above) > DEPTH:
        return
    for name in names_of(group):
        seen[0] += 1
        if len(found) > MOST_ARRAYS or seen[0] > MOST_NODES:
            found.extend([uncompared("", [], "more")] * (MOST_ARRAYS + 1))
            return
        path = prefix + shown(name)
        try:
            link = group.id.links.get_info(name)
            if link.type not in (h5py.h5l.TYPE_HARD, h5py.h5l.TYPE_SOFT):
                continue
            node = h5py.h5o.open(group.id, name)
        except Exception as error:
            found.append(failed(path, error))
            continue
        if isinstance(node, h5py.h5g.GroupID):
            node = h5py.Group(node)
            if where(node) not in above:
                try:
                    walk(node, path + "/", found, above, seen)
                except Exception as error:
                    found.append(failed(path, error))
        elif isinstance(node, h5d.DatasetID):
            found.append(dataset(path, node))


def names_of(group):
    """Returns the names up to the first one that cannot be listed."""
    names = []
    try:
        group.id.links.iterate(names.append)
    except Exception:
        pass
    return names


def shown(name):
    return name.decode("utf8", "replace").replace("\\", "%5C")


def dataset(path, id):
    try:
        return values(path, id)
    except Exception as error:
        return failed(path, error)


def values(path, id):
    stored, shape = id.get_type(), id.shape
    if id.get_space().get_simple_extent_type() == h5s.NULL:
        return uncompared(path, [0], "null")
    if is_dimension(id):
        return uncompared(path, shape, "dimension")
    try:
        dtype = id.dtype
    except (TypeError, ValueError, RuntimeError):  # a number that NumPy has no type for, or a float whose bias of 0 h5py takes for an error
        if stored.get_class() != h5t.FLOAT or stored.get_size() > 8:
            return uncompared(path, shape, "type")
        dtype = np.dtype("<f8")
    kind = stored.get_class()
    full = tuple(shape) + (dtype.subdtype[1] if dtype.subdtype else ())
    if kind in (h5t.TIME, h5t.REFERENCE, h5t.VLEN):
        return uncompared(path, full, "type")
    if holds_references(stored):
        return uncompared(path, full, "type")
    # h5py reads members of more than 8 bytes, for which it takes floats that are not IEEE 754, past the end of its memory.
    if kind == h5t.COMPOUND and any(dtype[i].kind == "f" and dtype[i].itemsize > 8 for i in range(len(dtype))):
        return uncompared(path, full, "type")
    size = int(np.prod(full, dtype=object)) * max(dtype.itemsize, 1)
    if max(full, default=0) > MOST_BYTES or size > MOST_BYTES:  # NumPy has no axes of 2^60 elements, not even in an empty array
        return uncompared(path, full, "size")
    out = np.zeros(shape, dtype)
    # There is no conversion of tagged opaque data.
    memory = stored if kind == h5t.OPAQUE else h5t.py_create(dtype)
    id.read(h5s.ALL, h5s.ALL, out, memory)
    if kind == h5t.OPAQUE and dtype.kind in "mM":
        out = out.view(f"{dtype.str[0]}i8")
    if dtype.names and dtype.hasobject:
        return uncompared(path, full, "type")
    if kind == h5t.FLOAT and dtype.itemsize > 8:
        wide = out.astype(np.float64)
        if not np.array_equal(wide.astype(out.dtype), out, equal_nan=True):
            return uncompared(path, full, "wide")
        out = wide
    described, data = array(path, out)
    return described | {"converted": not all(map(is_ieee, floats(stored)))}, data


def floats(stored):
    """Yields the floats in a type."""
    kind = stored.get_class()
    if kind == h5t.FLOAT:
        yield stored
    elif kind == h5t.COMPOUND:
        for i in range(stored.get_nmembers()):
            yield from floats(stored.get_member_type(i))
    elif kind in (h5t.ARRAY, h5t.COMPLEX):
        yield from floats(stored.get_super())


def is_ieee(stored):
    return any(stored.equal(known) for known in IEEE)


def is_dimension(id):
    """Returns whether netCDF-C stores a dimension without a variable."""
    try:
        if not h5py.h5a.exists(id, b"NAME"):
            return False
        name = h5py.Dataset(id).attrs["NAME"]
    except Exception:  # it may be one
        return True
    return isinstance(name, bytes) and name.startswith(b"This is a netCDF dimension but not a netCDF variable.")


def holds_references(stored):
    kind = stored.get_class()
    if kind == h5t.COMPOUND:
        return any(holds_references(stored.get_member_type(i)) for i in range(stored.get_nmembers()))
    if kind == h5t.ARRAY:
        return holds_references(stored.get_super())
    return kind in (h5t.REFERENCE, h5t.VLEN, h5t.TIME)


if __name__ == "__main__":
    serve(read)
