"""Whether an array that a Zarr reader returns equals the one that the oracle read.

Data types and byte orders may differ, since Zarr has fewer of them; shapes and values may not. NaN equals NaN.
"""
import urllib.parse

import numpy as np

NUMERIC = "biufc"


def equal_numbers(truth, got, tolerance=0):
    """Compares numeric arrays of one shape; a tolerance is for lossy compressions, whose decoders round differently."""
    if truth.shape != got.shape or truth.dtype.kind not in NUMERIC or got.dtype.kind not in NUMERIC:
        return False
    # The stored byte of a boolean counts, not its truth.
    truth, got = (array.view("u1") if array.dtype == bool else array for array in (truth, got))
    same = (truth == got) | ((truth != truth) & (got != got))
    if tolerance:
        wide = "c16" if "c" in truth.dtype.kind + got.dtype.kind else "f8"
        with np.errstate(invalid="ignore"):
            same |= np.abs(truth.astype(wide) - got.astype(wide)) <= tolerance
    return bool(same.all())


def equal_fill(truth, got):
    return np.size(truth) == np.size(got) and equal_numbers(np.ravel(truth), np.ravel(got))


def equal_image(truth, got, tolerance=0):
    """Compares images, whose axis of bands may be the first or the last one; axes of length 1 do not count."""
    orders = [got] if got.ndim < 3 else [got, np.moveaxis(got, 0, -1), np.moveaxis(got, -1, 0)]
    return any(equal_numbers(np.squeeze(truth), np.squeeze(order), tolerance) for order in orders)


def equal_text(truth, got, ignore_spaces):
    """Compares two texts: padding by NUL does not count, and bytes that are not UTF-8 have several fair decodings."""
    def readings(text):
        raw = b"" if text is None else text.encode("utf8", "surrogateescape") if isinstance(text, str) else bytes(text)
        found = {raw.rstrip(b"\0"), raw.partition(b"\0")[0]}
        return {reading.rstrip(b" ") for reading in found} if ignore_spaces else found

    candidates = [truth]
    if isinstance(truth, bytes) and isinstance(got, str):
        candidates += [truth.decode("utf8", "replace"), truth.decode("utf8", "ignore"), truth.decode("latin-1")]
    if any(readings(candidate) & readings(got) for candidate in candidates):
        return True
    # The path of an object that is shown under an escaped name.
    return isinstance(truth, str) and truth.startswith("/") and isinstance(got, str) and urllib.parse.unquote(got) == truth


def equal_element(truth, got, ignore_spaces):
    """Compares elements that are texts, raw bytes, structures, sequences or numbers."""
    if isinstance(truth, (str, bytes)):
        return (got is None or isinstance(got, (str, bytes))) and equal_text(truth, got, ignore_spaces)
    if isinstance(truth, np.void) and truth.dtype.names is None:
        return isinstance(got, (bytes, np.void)) and bytes(truth) == bytes(got)
    if isinstance(truth, (tuple, list, np.void)) or np.ndim(truth):
        if not isinstance(got, (tuple, list, np.void, np.ndarray)):
            return False
        if isinstance(truth, np.ndarray) and truth.dtype.kind in NUMERIC:
            return truth.size == np.size(got) == 0 or equal_numbers(truth, np.asarray(got))
        return len(truth) == len(got) and all(equal_element(*pair, ignore_spaces) for pair in zip(truth, got))
    return equal_numbers(np.asarray(truth), np.asarray(got))


def equal_arrays(truth, got, ignore_spaces=False):
    """Compares arrays of any type, structures field by field."""
    if truth.shape != got.shape:
        return False
    truth, got = (array.view("i8") if array.dtype.kind in "mM" else array for array in (truth, got))
    if truth.dtype.kind in NUMERIC:
        return equal_numbers(truth, got)
    if truth.dtype.names and got.dtype.names:
        return truth.dtype.names == got.dtype.names and all(equal_arrays(truth[name], got[name], ignore_spaces) for name in truth.dtype.names)
    if truth.dtype.kind == "V" and not truth.dtype.names:
        return truth.tobytes() == got.tobytes()
    if truth.dtype.kind in "SU" and got.dtype.kind in NUMERIC:
        return False
    # Elements of object arrays keep their types.
    elements = (list(array.flat) if array.dtype.kind == "O" else array.ravel().tolist() for array in (truth, got))
    return all(equal_element(*pair, ignore_spaces) for pair in zip(*elements))
