"""What the oracles share: the loop of requests and answers that src/oracle.rs describes, and the form of values."""
import json, os, re, resource, signal, struct, sys, tempfile

import numpy as np

MOST_BYTES = 1 << 22  # of one array; larger ones are not compared
MOST_ARRAYS = 200
SECONDS = 1  # of the processor, for one file


def serve(read):
    """Answers each file with read(bytes, paths), a list of arrays from `array`, `failed` and `uncompared`: all arrays of
    the file, and those at paths, which virtualize shows.

    A child process does so. When the library crashes or takes too long, the parent answers, and starts another child."""
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.chdir(tempfile.mkdtemp(prefix="virtualize-oracle"))
    stdout = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    send(stdout, {}, [])
    while True:
        child = os.fork()
        if child == 0:
            answer_all(read, stdout)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status == 0:
            return
        send(stdout, {"died": True}, [])


def answer_all(read, stdout):
    while head := sys.stdin.buffer.read(4):
        file = sys.stdin.buffer.read(struct.unpack("<I", head)[0])
        length = struct.unpack("<I", sys.stdin.buffer.read(4))[0]
        paths = json.loads(sys.stdin.buffer.read(length))
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            arrays = read(file, paths)
            answer = {"arrays": [a for a, _ in arrays[:MOST_ARRAYS]], "has_more": len(arrays) > MOST_ARRAYS}
        except Exception as error:
            arrays, answer = [], {"error": describe(error)}
        signal.setitimer(signal.ITIMER_PROF, 0)
        send(stdout, answer, [values for _, values in arrays[:MOST_ARRAYS]])


def send(stdout, answer, values):
    text = json.dumps(answer).encode()
    stdout.write(b"".join([struct.pack("<I", len(text)), text, *values]))
    stdout.flush()


def describe(error):
    return f"{type(error).__name__}: {error}"[:300]


def array(path, values, kind=None):
    """Returns an array with its values. Elements of an array of objects are text: bytes or str."""
    shape = list(values.shape)
    if values.dtype.hasobject:
        texts = [v if isinstance(v, bytes) else str(v).encode("utf8", "surrogateescape") for v in values.ravel()]
        data, kind = b"".join(struct.pack("<I", len(text)) + text for text in texts), kind or "string"
    else:
        data, kind = little(values).tobytes(), kind or type_name(values.dtype)
    return {"path": path, "type": kind, "shape": shape, "bytes": len(data)}, data


def uncompared(path, shape, why, kind=""):
    """Returns an array that the library reads, but whose values are not compared. No type: it is not compared either."""
    return {"path": path, "type": kind, "shape": list(shape), "uncompared": why}, b""


def failed(path, error):
    return {"path": path, "error": describe(error)}, b""


def little(values):
    """Returns the values as little-endian numbers, structures without gaps."""
    dtype = packed(values.dtype)
    if dtype == values.dtype:
        return np.ascontiguousarray(values)
    out = np.empty(values.shape, dtype)
    assign(out, values)
    return out


def assign(out, values):
    if values.dtype.names:
        for name in values.dtype.names:
            assign(out[name], values[name])
    else:
        out[...] = values


def packed(dtype):
    if dtype.subdtype:
        return np.dtype((packed(dtype.subdtype[0]), dtype.subdtype[1]))
    if dtype.names:
        return np.dtype([(name, packed(dtype[name])) for name in dtype.names])
    return dtype.newbyteorder("<")


def type_name(dtype):
    """Returns the name that `virtualize::digest` has for a type."""
    if dtype.names:
        fields = (f"{quoted(n)}: {type_name(dtype[n].base)} {list(dtype[n].shape)}" for n in dtype.names)
        return "struct {" + ", ".join(fields) + "}"
    if dtype.kind == "S":
        return f"bytes of length {dtype.itemsize}"
    if dtype.kind == "V":
        return f"r{dtype.itemsize * 8}"
    return dtype.name


def quoted(name):
    """Returns the name as Rust quotes ASCII text."""
    escapes = {"\t": r"\t", "\n": r"\n", "\r": r"\r", '"': r"\"", "\\": r"\\"}
    return '"' + re.sub(r'[\x01-\x1f\x7f"\\]', lambda found: escapes.get(found[0]) or rf"\u{{{ord(found[0]):x}}}", name) + '"'
