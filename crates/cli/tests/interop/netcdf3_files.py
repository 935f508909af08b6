"""Random NetCDF classic files: those that netCDF4-python writes, and those that no library writes any more."""
import struct

import numpy as np

TYPES = {"i1": 1, "S1": 2, "i2": 3, "i4": 4, "f4": 5, "f8": 6, "u1": 7, "u2": 8, "u4": 9, "i8": 10, "u8": 11}
FORMATS = {1: "NETCDF3_CLASSIC", 2: "NETCDF3_64BIT_OFFSET", 5: "NETCDF3_64BIT_DATA"}
STREAMING = {1: 2**32 - 1, 2: 2**32 - 1, 5: 2**64 - 1}


def codes(version):
    return list(TYPES) if version == 5 else list(TYPES)[:6]


class Writer:
    """Writes a file byte by byte. Whatever a caller sets replaces what the specification asks for."""

    def __init__(self, version=1, numrecs=None, padding=b"\0"):
        self.version, self.numrecs, self.padding = version, numrecs, padding
        self.dims, self.attrs, self.vars = [], [], []

    def dim(self, name, length):
        self.dims.append((name, length))
        return len(self.dims) - 1

    def attr(self, name, value, code=None):
        """Returns an attribute: (name, type, bytes, count)."""
        if isinstance(value, (str, bytes)):
            raw = value if isinstance(value, bytes) else value.encode()
            return name, code or 2, raw, len(raw)
        value = np.atleast_1d(value)
        return name, code or TYPES[value.dtype.str[1:]], value.astype(value.dtype.newbyteorder(">")).tobytes(), value.size

    def var(self, name, code, dims, data, attrs=(), vsize=None, begin=None, type_code=None):
        self.vars.append({"name": name, "code": code, "dims": dims, "data": np.asarray(data), "attrs": list(attrs), "vsize": vsize,
                          "begin": begin, "type": type_code or TYPES[code]})

    def bytes(self, gap=0):
        """Returns the file, with `gap` bytes between header and data."""
        for var in self.vars:
            lengths = [self.dims[d][1] for d in var["dims"]]
            var["record"] = lengths[:1] == [0]
            var["size"] = int(np.prod(lengths[var["record"]:], dtype=object)) * int(var["code"][1:])
            var["padded"] = var["size"] + -var["size"] % 4
        records = [var for var in self.vars if var["record"]]
        stride = records[0]["size"] if len(records) == 1 else sum(var["padded"] for var in records)
        count = max((len(var["data"]) for var in records), default=0)
        at = len(self.header([0] * len(self.vars), 0)) + gap
        for var in [*(var for var in self.vars if not var["record"]), *records]:
            var["at"], at = at, at + (var["padded"] if len(records) > 1 or not var["record"] else 0)
        begins = [var["at"] if var["begin"] is None else var["begin"] for var in self.vars]
        first = records[0]["at"] if records else at
        out = bytearray(self.header(begins, count))
        out += b"\xaa" * (first + stride * count - len(out))
        for var in self.vars:
            big = var["data"].astype(np.dtype(var["code"]).newbyteorder(">"))
            parts = [(var["at"] + n * stride, row) for n, row in enumerate(big)] if var["record"] else [(var["at"], big)]
            for start, part in parts:
                raw = np.asarray(part).tobytes()
                out[start:start + len(raw)] = raw
        return bytes(out)

    def header(self, begins, count):
        out = b"CDF" + bytes([self.version]) + self.number(count if self.numrecs is None else self.numrecs)
        out += self.items(10, [self.name(name) + self.number(length) for name, length in self.dims])
        out += self.attributes(self.attrs)
        return out + self.items(11, [self.variable(var, begin) for var, begin in zip(self.vars, begins)])

    def variable(self, var, begin):
        out = self.name(var["name"]) + self.number(len(var["dims"])) + b"".join(map(self.number, var["dims"]))
        vsize = var["vsize"] if var["vsize"] is not None else min(var["padded"], 2**32 - 1)
        out += self.attributes(var["attrs"]) + struct.pack(">I", var["type"]) + self.number(vsize)
        return out + struct.pack(">I" if self.version == 1 else ">Q", begin)

    def attributes(self, attrs):
        return self.items(12, [self.name(name) + struct.pack(">I", code) + self.number(count) + self.padded(raw)
                               for name, code, raw, count in attrs])

    def items(self, tag, items):
        return struct.pack(">I", tag if items else 0) + self.number(len(items)) + b"".join(items)

    def name(self, text):
        raw = text if isinstance(text, bytes) else text.encode()
        return self.number(len(raw)) + self.padded(raw)

    def number(self, n):
        return struct.pack(">Q" if self.version == 5 else ">I", n)

    def padded(self, raw):
        return raw + (self.padding * 4)[:-len(raw) % 4]


# ---- random content

def values(rng, code, shape):
    """Returns values of a type, some of them special."""
    n = int(np.prod(shape, dtype=int))
    if code == "S1":
        return rng.choice(np.frombuffer(b"abc \0\xc3\xa9z", "S1"), n).reshape(shape)
    dtype = np.dtype(code)
    if dtype.kind == "f":
        special = [0, -0.0, 1, -9999, 1e20, np.nan, np.inf, -np.inf, 9.969209968386869e36]
    else:
        info = np.iinfo(dtype)
        special = [x for x in (0, 1, -1, 99, -127, 255, info.min, info.max, info.max - 1) if info.min <= x <= info.max]
    picked = [special[i] for i in rng.integers(len(special), size=n)]
    return np.array(picked, dtype).reshape(shape)


def attributes(rng, code, version):
    """Returns random attributes of a variable: name, and text or values."""
    found, other = {}, codes(version)
    if rng.random() < 0.4:
        same = rng.random() < 0.7
        found["missing_value"] = values(rng, code if same else rng.choice(other), (int(rng.integers(1, 4)),))
    if rng.random() < 0.3 and code != "S1":
        for name in ("scale_factor", "add_offset"):
            if rng.random() < 0.7:
                found[name] = np.array([rng.choice([0.5, 0.01, 2, 273.15])], rng.choice(["f4", "f8", "i2"]))
        found = {k: v for k, v in found.items() if k != "scale_factor" or v[0] != 0}
    if rng.random() < 0.2 and code in ("i1", "i2", "i4"):
        found["_Unsigned"] = str(rng.choice(["true", "false"]))
    if rng.random() < 0.3:
        found["units"] = str(rng.choice(["m", "days", "days since 2000-01-01", ""]))
    for kind in rng.choice(other, int(rng.integers(0, 3))):
        found[f"a_{kind}"] = values(rng, kind, (int(rng.integers(0, 4)),))
    if rng.random() < 0.3:
        found["text"] = str(rng.choice(["hello", "", "grün ☃", "a b\n", '"q\\']))
    return {k: (v.tobytes() if isinstance(v, np.ndarray) and v.dtype.kind == "S" else v) for k, v in found.items()}


def fill_value(rng, code):
    """Returns a random `_FillValue` of the type of a variable, or None."""
    return values(rng, code, (1,))[0] if rng.random() < 0.5 else None


def by_library(rng, path, version):
    """Writes a random file with netCDF4-python."""
    import netCDF4
    with netCDF4.Dataset(path, "w", format=FORMATS[version]) as ds:
        if rng.random() < 0.3:
            ds.set_fill_off()
        if has_records := rng.random() < 0.7:
            ds.createDimension("t", None)
        fixed = {f"d{i}": int(rng.integers(1, 6)) for i in range(int(rng.integers(1, 4)))}
        for name, length in fixed.items():
            ds.createDimension(name, length)
        ds.setncatts(attributes(rng, "i4", version))
        records = int(rng.integers(0, 5))
        for n in range(int(rng.integers(1, 7))):
            code = str(rng.choice(codes(version)))
            dims = [str(d) for d in rng.choice(list(fixed), int(rng.integers(0, 3)))]
            dims = ["t", *dims] if has_records and rng.random() < 0.6 else dims
            name = dims[-1] if len(dims) == 1 and rng.random() < 0.3 and dims[-1] not in ds.variables else f"v{n}"
            fill = fill_value(rng, code)
            var = ds.createVariable(name, code, dims, fill_value=False if fill is None and rng.random() < 0.3 else fill)
            var.set_auto_maskandscale(False)
            var.set_auto_chartostring(False)
            var.setncatts(attributes(rng, code, version))
            shape = [records if d == "t" else fixed[d] for d in dims]
            if rng.random() < 0.8 and 0 not in shape:
                data = values(rng, code, shape)
                if "t" in dims and rng.random() < 0.4:  # later records keep the fill value
                    data = data[: int(rng.integers(1, len(data) + 1))]
                var[...] = data if not dims or dims[0] != "t" else var[...]
                if dims and dims[0] == "t":
                    var[: len(data)] = data


def by_hand(rng, version):
    """Returns the bytes of a random file that netCDF4-python reads but does not write: wrong sizes and odd padding."""
    w = Writer(version, padding=bytes(rng.choice([0, 0x20, 0xEE], 1).astype("u1")))
    order = rng.permutation(3)
    for i in order:
        w.dim(["t", "x", "y"][i], [0, int(rng.integers(1, 5)), int(rng.integers(1, 5))][i])
    ids = {name: i for i, (name, _) in enumerate(w.dims)}
    lengths = dict(w.dims)
    records = int(rng.integers(0, 5))
    put = lambda found: [w.attr(k, v) for k, v in found.items()]
    w.attrs = put(attributes(rng, "i4", version))
    for n in range(int(rng.integers(1, 6))):
        code = str(rng.choice(codes(version)))
        dims = [str(d) for d in rng.choice(["x", "y"], int(rng.integers(0, 3)))]
        dims = ["t", *dims] if rng.random() < 0.5 else dims
        shape = [records if d == "t" else lengths[d] for d in dims]
        attrs = attributes(rng, code, version)
        if rng.random() < 0.5:
            kind = code if rng.random() < 0.7 else str(rng.choice(codes(version)))
            fill = values(rng, kind, (1 if rng.random() < 0.8 else 2,))
            attrs["_FillValue"] = fill.tobytes() if kind == "S1" else fill
        wrong = int(rng.choice([0, 7, 2**31, 2**32 - 1])) if rng.random() < 0.5 else None
        w.var(f"v{n}", code, [ids[d] for d in dims], values(rng, code, shape), put(attrs), vsize=wrong)
    return w.bytes(gap=int(rng.choice([0, 4, 12, 512])))
