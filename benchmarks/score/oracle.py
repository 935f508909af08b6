"""What the arrays of a file contain, read without Zarr: HDF5 with h5py, TIFF with tifffile and GDAL.

Arrays of more than 64 MiB are not judged, and of a file with more than 300 arrays every second, third, … is.
"""
import collections, dataclasses, math, warnings

import numpy as np

MAX_ARRAYS = 300
MAX_BYTES = 64 << 20
# TIFF compressions whose decoders round differently.
LOSSY = {6, 7, 33007, 34892, 33003, 33004, 33005, 34712, 34887, 34927, 50001, 50002, 52546}


@dataclasses.dataclass
class Truth:
    """An array of a file. The paths of TIFF images are the indexes of their IFDs, such as `1` and `0.2` for a SubIFD."""
    path: str
    category: str
    # Any of these is right: decoders of TIFF may differ. None is an HDF5 dataset without elements (null dataspace).
    values: list
    aliases: list = dataclasses.field(default_factory=list)
    fill: object = None
    # h5py removes the padding of space-padded text, which a Zarr reader sees.
    ignore_spaces: bool = False
    tolerance: int = 0


def read(file, kind):
    """Returns the arrays of a file that the oracle can read. Raises if it cannot open the file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list((hdf5 if kind == "hdf5" else tiff)(file))


def hdf5(file):
    import h5py
    import hdf5plugin  # noqa: F401
    with h5py.File(file) as opened:
        datasets = find_datasets(opened)
        for path, *aliases in datasets[:: max(1, math.ceil(len(datasets) / MAX_ARRAYS))]:
            try:
                truth = read_dataset(opened[path], path, aliases)
            except Exception:
                continue
            if truth:
                yield truth


def find_datasets(file):
    """Returns the paths of each dataset, that of the first hard link first. External and user-defined links are not followed."""
    import h5py

    def identity(node):
        info = h5py.h5o.get_info(node.id)
        return info.fileno, info.addr

    datasets, seen, soft = collections.defaultdict(list), {identity(file)}, []

    def visit(group, prefix):
        groups = []
        try:
            names = sorted(group)
        except Exception:
            return
        for name in names:
            path = f"{prefix}/{name}"
            try:
                link = group.get(name, getlink=True)
                if isinstance(link, h5py.SoftLink):
                    soft.append(path)
                if not isinstance(link, h5py.HardLink):
                    continue
                node = group[name]
                if isinstance(node, h5py.Dataset):
                    datasets[identity(node)].append(path)
                elif isinstance(node, h5py.Group) and identity(node) not in seen:
                    seen.add(identity(node))
                    groups.append((node, path))
            except Exception:
                continue
        for node, path in groups:
            visit(node, path)

    visit(file, "")
    for path in soft:
        try:
            node = file[path]
            if isinstance(node, h5py.Dataset) and identity(node) in datasets:
                datasets[identity(node)].append(path)
        except Exception:
            continue
    return list(datasets.values())


def types_within(datatype):
    """Yields a datatype and those of its members, elements and base."""
    from h5py import h5t
    yield datatype
    if datatype.get_class() == h5t.COMPOUND:
        for index in range(datatype.get_nmembers()):
            yield from types_within(datatype.get_member_type(index))
    elif datatype.get_class() in (h5t.ARRAY, h5t.VLEN):
        yield from types_within(datatype.get_super())


def is_space_padded(datatype):
    from h5py import h5t
    return datatype.get_class() == h5t.STRING and not datatype.is_variable_str() and datatype.get_strpad() == h5t.STR_SPACEPAD


def is_dimension(dataset):
    """Whether a dataset stands for a dimension of netCDF alone. Its values mean nothing, and a variable may have its name."""
    name = dataset.attrs["NAME"] if "NAME" in dataset.attrs else b""
    return isinstance(name, bytes) and name.startswith(b"This is a netCDF dimension but not a netCDF variable")


def category(dataset):
    from h5py import h5t
    if dataset.shape is None or dataset.size == 0:
        return "empty"
    of_class = dataset.id.get_type().get_class()
    if of_class in (h5t.INTEGER, h5t.FLOAT, h5t.ENUM) or dataset.dtype.kind == "c":
        return "numeric"
    return {h5t.STRING: "string", h5t.COMPOUND: "compound"}.get(of_class, "exotic")


def read_dataset(dataset, path, aliases):
    import h5py
    of_type = dataset.id.get_type()
    truth = Truth(path, category(dataset), [None], aliases, ignore_spaces=any(map(is_space_padded, types_within(of_type))))
    if dataset.dtype.kind in "biufc":
        try:
            truth.fill = np.asarray(dataset.fillvalue)
        except Exception:
            pass
    if dataset.shape is None:
        return truth
    if dataset.size and is_dimension(dataset):
        return None
    if math.prod(dataset.shape) * max(dataset.dtype.itemsize, 1) > MAX_BYTES:
        return None
    try:
        values = dataset[()]
    except OSError as error:
        # Types such as opaque ones, for which HDF5 has no conversion: the stored bytes.
        if "conversion path" not in str(error) or dataset.dtype.hasobject or of_type.get_size() != dataset.dtype.itemsize:
            raise
        values = np.empty(dataset.shape, dataset.dtype)
        dataset.id.read(h5py.h5s.ALL, h5py.h5s.ALL, values, mtype=of_type)
    truth.values = [plain(values, dataset)]
    return truth


def plain(values, dataset):
    """Replaces the references in values by the paths of their targets, at any depth."""
    import h5py

    def element(value):
        if isinstance(value, (h5py.Reference, h5py.RegionReference)):
            try:
                return (h5py.h5r.get_name(value, dataset.file.id) or b"").decode("utf8", "replace") if value else ""
            except Exception:
                return "?"
        if isinstance(value, np.ndarray) and value.dtype.hasobject:
            return plain(value, dataset)
        if isinstance(value, np.void) and value.dtype.hasobject:
            return tuple(map(element, value))
        return value

    if isinstance(values, (bytes, str, h5py.Reference, h5py.RegionReference)):
        scalar = np.empty((), object)
        scalar[()] = element(values)
        return scalar
    values = np.asarray(values)
    if not values.dtype.hasobject:
        return values
    if not values.dtype.names:
        return objects([element(value) for value in values.flat], values.shape)
    fields = {}
    for name in values.dtype.names:
        of_field = values.dtype[name]
        if of_field.hasobject and of_field.subdtype:
            fields[name] = objects([plain(value, dataset) for value in values[name].reshape(values.size, -1)] if values.size else [], values.shape)
        else:
            fields[name] = plain(values[name], dataset) if of_field.hasobject else values[name]
    out = np.empty(values.shape, [(name, object if values.dtype[name].hasobject else values.dtype[name]) for name in fields])
    for name, field in fields.items():
        out[name] = field
    return out


def objects(values, shape):
    """Returns an array of objects, which may be sequences."""
    out = np.empty(len(values), object)
    for index, value in enumerate(values):
        out[index] = value
    return out.reshape(shape)


def tiff(file):
    import tifffile
    try:
        opened = tifffile.TiffFile(file)
        # Frames would share the tags of the first page.
        opened.pages.useframes = False
        opened.pages.first
    except Exception:
        images = list(gdal_images(file))
        if not images:
            raise
        yield from images
        return
    with opened:
        for index, page in enumerate(pages(opened)):
            try:
                subs = list(page.pages or ())
            except Exception:
                subs = []
            for path, image in [(str(index), page), *((f"{index}.{number}", sub) for number, sub in enumerate(subs))]:
                try:
                    truth = read_image(file, image, path)
                except Exception:
                    continue
                if truth:
                    yield truth


def pages(opened):
    """Yields the pages of a file, up to one that is damaged or was yielded before."""
    seen = set()
    for index in range(MAX_ARRAYS):
        try:
            page = opened.pages.get(index) if index else opened.pages.first
        except Exception:
            return
        if page.offset in seen:
            return
        seen.add(page.offset)
        yield page


def read_image(file, page, path):
    """Reads an image with tifffile, and with GDAL unless it is in a SubIFD. Both are right where they differ."""
    import tifffile
    if page.dtype is not None and page.nbytes > MAX_BYTES:
        return None
    number, values = int(page.compression), []
    category = tifffile.COMPRESSION(number).name.lower() if number in list(tifffile.COMPRESSION) else f"compression {number}"
    if page.dtype is not None and page.dataoffsets:
        try:
            values.append(np.asarray(page.asarray(maxworkers=1)))
        except Exception:
            pass
    if "." not in path:
        try:
            values.append(read_gdal(file, int(path)))
        except Exception:
            pass
    return Truth(path, category, values, tolerance=2 if number in LOSSY else 0) if values else None


def gdal_images(file):
    """Yields the images of a file that tifffile cannot open."""
    for index in range(8):
        try:
            yield Truth(str(index), "unknown", [read_gdal(file, index)])
        except Exception:
            return


def read_gdal(file, index):
    import rasterio
    with rasterio.Env(GDAL_DISABLE_READDIR_ON_OPEN="EMPTY_DIR", GDAL_PAM_ENABLED="NO"), rasterio.open(f"GTIFF_DIR:{index + 1}:{file}") as image:
        if image.count * image.height * image.width > MAX_BYTES:
            raise ValueError("too large")
        return image.read()
