"""Writes DMR++ sidecars as Hyrax (build_dmrpp 3.21 and its HDF5 handler, default option) does: from the file through libhdf5."""
import base64
from xml.sax.saxutils import escape, quoteattr

import h5py
import numpy as np

NAMESPACES = 'xmlns="http://xml.opendap.org/ns/DAP/4.0#" xmlns:dmrpp="http://xml.opendap.org/dap/dmrpp/1.0.0#"'
FILTERS = {h5py.h5z.FILTER_DEFLATE: "deflate", h5py.h5z.FILTER_SHUFFLE: "shuffle", h5py.h5z.FILTER_FLETCHER32: "fletcher32"}
PADS = {h5py.h5t.STR_NULLTERM: "null_term", h5py.h5t.STR_NULLPAD: "null_pad", h5py.h5t.STR_SPACEPAD: "space_pad"}
HIDDEN = {"CLASS", "NAME", "_Netcdf4Dimid", "_nc3_strict", "_NCProperties", "_Netcdf4Coordinates"}
NOT_A_VARIABLE = b"This is a netCDF dimension but not a netCDF variable"


class Unsupported(Exception):
    """build_dmrpp refuses the file."""


def number(kind):
    """The DAP4 name of an integer or float type."""
    if kind.kind in "iu":
        return "Byte" if kind.str[1:] == "u1" else f"{'U' if kind.kind == 'u' else ''}Int{8 * kind.itemsize}"
    if kind.kind == "f" and kind.itemsize in (4, 8):
        return f"Float{8 * kind.itemsize}"
    raise Unsupported(kind)


def printed(value, digits):
    """A float as the handler prints it in attributes."""
    if np.isnan(value):
        return "NaN"
    text = f"{float(value):.{digits}g}"
    return text if not np.isfinite(value) or any(c in text for c in ".e") else text + "."


def octal(text):
    """Control characters, which XML lacks, as octal escapes."""
    return "".join(c if c in "\n\r\t" or ord(c) >= 32 else f"\\{ord(c):03o}" for c in text)


class Sidecar:
    """A sidecar in work. `change` may alter the attributes of an element: change(element, attributes)."""

    def __init__(self, file, name, version="3.21.0-46", change=lambda element, attributes: None, namespaces=NAMESPACES, unlimited=False):
        self.file, self.change, self.lines, self.unlimited = file, change, [], unlimited
        self.scales = {}
        file.visititems(self.note_scale)
        root = {"dapVersion": "4.0", "dmrVersion": "1.0", "name": name, "dmrpp:href": "OPeNDAP_DMRpp_DATA_ACCESS_URL"}
        self.open("Dataset", {**root, **({"dmrpp:version": version} if version else {})}, more=namespaces)
        self.group(file)
        self.close("Dataset")

    def text(self):
        return '<?xml version="1.0" encoding="ISO-8859-1"?>\n' + "".join(self.lines)

    def open(self, element, attributes, more="", end=""):
        attributes = dict(attributes)
        self.change(element, attributes)
        listed = "".join(f" {key}={quoteattr(str(value))}" for key, value in attributes.items() if value is not None)
        self.lines.append(f"<{element}{' ' * bool(more)}{more}{listed}{end}>\n")

    def empty(self, element, attributes):
        self.open(element, attributes, end="/")

    def close(self, element):
        self.lines.append(f"</{element}>\n")

    def note_scale(self, name, item):
        if isinstance(item, h5py.Dataset) and item.attrs.get("CLASS") == b"DIMENSION_SCALE":
            self.scales[item.id.__hash__()] = "/" + name

    def is_pure(self, dataset):
        return NOT_A_VARIABLE in bytes(dataset.attrs.get("NAME", b"")) and dataset.attrs.get("CLASS") == b"DIMENSION_SCALE"

    def dimensions(self, dataset):
        """The names of the dimensions of a dataset, or None."""
        is_scale = dataset.attrs.get("CLASS") == b"DIMENSION_SCALE" and "NAME" in dataset.attrs
        if is_scale and dataset.ndim == 1 and ("REFERENCE_LIST" in dataset.attrs or self.is_named(dataset)):
            return [dataset.name]
        if "DIMENSION_LIST" in dataset.attrs:
            lists = dataset.attrs["DIMENSION_LIST"]
            if any(len(scales) == 0 for scales in lists):
                raise Unsupported("an axis without a scale")
            return [self.file[scales[0]].name for scales in lists]
        return [None] * dataset.ndim

    def is_named(self, dataset):
        return bytes(dataset.attrs["NAME"]) == dataset.name.rsplit("/", 1)[-1].encode()

    def items(self, group):
        """The members in the order in which Hyrax lists them: by name, in the library's native order."""
        names = []
        group.id.links.iterate(names.append, order=h5py.h5.ITER_NATIVE)
        return [(name.decode(), group[name]) for name in names]

    def group(self, group):
        datasets = [item for name, item in self.items(group) if isinstance(item, h5py.Dataset)]
        datasets = [item for item in datasets if item.shape is not None]
        declared = {}
        for dataset in datasets:
            if self.is_pure(dataset):
                declared[dataset.name] = len(dataset)
            else:
                for path, size in zip(self.dimensions(dataset), dataset.shape):
                    if path and path.rsplit("/", 1)[0] == group.name.rstrip("/"):
                        declared.setdefault(path, size)
        for path, size in declared.items():
            self.empty("Dimension", {"name": path.rsplit("/", 1)[-1], "size": size})
        for dataset in datasets:
            if not self.is_pure(dataset):
                self.variable(dataset)
        self.attributes(group)
        unlimited = [item for item in datasets if item.name in declared and item.maxshape == (None,)] if self.unlimited else []
        if unlimited:
            self.open("Attribute", {"name": "DODS_EXTRA", "type": "Container"})
            self.open("Attribute", {"name": "Unlimited_Dimension", "type": "String"})
            self.lines += [f"<Value>{item.name.rsplit('/', 1)[-1]}</Value>\n" for item in unlimited]
            self.close("Attribute")
            self.close("Attribute")
        if group.name == "/":
            self.metadata()
        for name, item in self.items(group):
            if isinstance(item, h5py.Group):
                self.open("Group", {"name": name})
                self.group(item)
                self.close("Group")

    def metadata(self):
        self.open("Attribute", {"name": "build_dmrpp_metadata", "type": "Container"})
        self.open("Attribute", {"name": "configuration", "type": "String"})
        self.lines.append("<Value>\n# TheBESKeys::get_as_config()\nH5.EnableCF=false\n</Value>\n")
        self.close("Attribute")
        self.close("Attribute")

    def attributes(self, item):
        for name in item.attrs:
            kind = item.attrs.get_id(name).get_type()
            if name in HIDDEN or kind.get_class() not in (h5py.h5t.INTEGER, h5py.h5t.FLOAT, h5py.h5t.STRING):
                continue
            value = item.attrs[name]
            if isinstance(value, h5py.Empty):
                raise Unsupported("null dataspace")
            if kind.get_class() == h5py.h5t.STRING:
                raw = np.atleast_1d(value).ravel()
                texts = [v.decode("utf-8", "surrogateescape") if isinstance(v, bytes) else str(v) for v in raw]
                texts = [octal(text.split("\0")[0]) for text in texts]
                dap = "String"
            else:
                dap = number(np.asarray(value).dtype)
                digits = {"Float32": 10, "Float64": 17}.get(dap)
                texts = [printed(v, digits) if digits else str(v) for v in np.atleast_1d(value).ravel()]
            self.open("Attribute", {"name": name, "type": dap})
            for text in texts:
                text = escape(text).replace("\r", "&#13;")
                text = "".join(c if ord(c) < 256 else f"&#{ord(c)};" for c in text)
                self.lines.append(f"<Value>{text}</Value>\n")
            self.close("Attribute")

    def variable(self, dataset):
        kind, name = dataset.id.get_type(), dataset.name.rsplit("/", 1)[-1].removeprefix("_nc4_non_coord_")
        is_text = kind.get_class() == h5py.h5t.STRING
        if kind.get_class() not in (h5py.h5t.INTEGER, h5py.h5t.FLOAT, h5py.h5t.STRING):
            raise Unsupported(kind)
        element = "String" if is_text else number(dataset.dtype)
        self.open(element, {"name": name})
        for path, size in zip(self.dimensions(dataset), dataset.shape):
            self.empty("Dim", {"name": path} if path else {"size": size})
        self.attributes(dataset)
        if is_text and kind.is_variable_str():
            self.open("dmrpp:vlsa" if dataset.ndim else "dmrpp:compact", {})
            self.close("dmrpp:vlsa" if dataset.ndim else "dmrpp:compact")
        elif dataset.id.get_create_plist().get_layout() == h5py.h5d.COMPACT:
            data = base64.b64encode(np.asarray(dataset[()]).tobytes()).decode()
            self.lines.append(f"<dmrpp:compact>{data}</dmrpp:compact>\n")
        else:
            self.chunks(dataset, is_text)
        if is_text and dataset.ndim and not kind.is_variable_str():
            self.empty("dmrpp:FixedLengthStringArray", {"string_length": kind.get_size(), "pad": PADS[kind.get_strpad()]})
        self.close(element)

    def fill(self, dataset, is_text):
        plist = dataset.id.get_create_plist()
        if plist.fill_value_defined() == h5py.h5d.FILL_VALUE_UNDEFINED:
            return None
        value = np.zeros((), dataset.dtype)
        plist.get_fill_value(value)
        if is_text:
            return bytes(value[()]).split(b"\0")[0].decode("latin-1")
        return f"{float(value):.6g}" if value.dtype.kind == "f" else str(value)

    def chunks(self, dataset, is_text):
        plist, order = dataset.id.get_create_plist(), dataset.id.get_type()
        attributes = {}
        filters = [plist.get_filter(n) for n in range(plist.get_nfilters())]
        if any(code not in FILTERS for code, *_ in filters):
            raise Unsupported("filter")
        if filters:
            attributes["compressionType"] = " ".join(FILTERS[code] for code, *_ in filters)
        levels = [str(values[0]) for code, _, values, _ in filters if code == h5py.h5z.FILTER_DEFLATE]
        if levels:
            attributes["deflateLevel"] = " ".join(levels)
        attributes["fillValue"] = self.fill(dataset, is_text)
        if plist.get_layout() == h5py.h5d.CONTIGUOUS:
            offset, size = dataset.id.get_offset(), dataset.id.get_storage_size()
            listed = [({"offset": offset, "nBytes": size}, 0)] if size else []
        elif plist.get_layout() == h5py.h5d.CHUNKED:
            infos = [dataset.id.get_chunk_info(n) for n in range(dataset.id.get_num_chunks())]
            place = lambda info: "[" + ",".join(map(str, info.chunk_offset)) + "]"
            listed = [({"offset": i.byte_offset, "nBytes": i.size, "chunkPositionInArray": place(i)}, i.filter_mask) for i in infos]
        else:
            raise Unsupported("layout")
        if listed and not is_text:
            attributes["byteOrder"] = {h5py.h5t.ORDER_LE: "LE", h5py.h5t.ORDER_BE: "BE"}[order.get_order()]
        self.open("dmrpp:chunks", attributes)
        if plist.get_layout() == h5py.h5d.CHUNKED:
            self.lines.append(f"<dmrpp:chunkDimensionSizes>{' '.join(map(str, dataset.chunks))}</dmrpp:chunkDimensionSizes>\n")
        for chunk, mask in listed:
            self.empty("dmrpp:chunk", {**chunk, **({"fm": mask} if mask else {})})
        self.close("dmrpp:chunks")


def write(path, **options):
    """Writes the sidecar of a file beside it, and returns its path."""
    with h5py.File(path) as file:
        text = Sidecar(file, path.name, **options).text()
    sidecar = path.with_name(path.name + ".dmrpp")
    sidecar.write_bytes(text.encode("latin-1"))
    return sidecar
