"""A reference model of `scale_offset` and `cast_value`: literal, in exact fractions, number by number. It decides where zarr-python and virtualize
disagree. Slow, and shares no code with either."""
import math
from fractions import Fraction

import numpy as np

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]
TYPES = INTEGERS + FLOATS


class Refused(Exception):
    """`kind` is one of `range`, `not-finite`, `remainder`."""


def is_integer(name):
    return name in INTEGERS


def json_of(scalar):
    """Returns a NumPy scalar as a Zarr v3 fill value; NaNs lose their payload."""
    if isinstance(scalar, np.integer):
        return int(scalar)
    number = float(scalar)
    return "NaN" if math.isnan(number) else ("Infinity" if number > 0 else "-Infinity") if math.isinf(number) else number


def scalar_of(json, name):
    """Reverses `fill_value_of`."""
    return np.dtype(name).type(int(json) if is_integer(name) else float(json))


def nearest_integer(number, rounding):
    """Rounds a fraction to an integer, in one of the five modes of `cast_value`."""
    below = number.numerator // number.denominator
    rest = number - below
    if rest == 0:
        return below
    up = {
        "nearest-even": rest > Fraction(1, 2) or rest == Fraction(1, 2) and below % 2 == 1,
        "nearest-away": rest > Fraction(1, 2) or rest == Fraction(1, 2) and number > 0,
        "towards-zero": number < 0,
        "towards-positive": True,
        "towards-negative": False,
    }[rounding]
    return below + up


def nearest_float(number, name, rounding):
    """Rounds a nonzero fraction to a floating-point number. The range applies to the rounded number."""
    info = np.finfo(name)
    exponent = number.numerator.bit_length() - number.denominator.bit_length()
    while Fraction(2) ** exponent > abs(number):
        exponent -= 1
    while Fraction(2) ** (exponent + 1) <= abs(number):
        exponent += 1
    unit = Fraction(2) ** max(exponent - info.nmant, int(info.minexp) - info.nmant)
    rounded = nearest_integer(number / unit, rounding) * unit
    if abs(rounded) > Fraction(float(info.max)):
        raise Refused("range")
    return np.dtype(name).type(math.copysign(float(rounded), number))


def cast(scalar, target, rounding, out_of_range, entries):
    """Converts a NumPy scalar to another type."""
    source = scalar.dtype.name
    for old, new in entries:
        old = scalar_of(old, source)
        if scalar == old or scalar != scalar and old != old:
            return scalar_of(new, target)
    if source == target:
        return scalar
    if not is_integer(source) and not np.isfinite(scalar):
        if is_integer(target):
            raise Refused("not-finite")
        return np.dtype(target).type(scalar)
    number = Fraction(int(scalar)) if is_integer(source) else Fraction(float(scalar))
    if is_integer(target):
        whole, info = nearest_integer(number, rounding), np.iinfo(target)
        low, high = int(info.min), int(info.max)
        if not low <= whole <= high:
            if out_of_range is None:
                raise Refused("range")
            whole = min(max(whole, low), high) if out_of_range == "clamp" else (whole - low) % 2**info.bits + low
        return np.dtype(target).type(whole)
    if number == 0:
        return np.dtype(target).type(0 if is_integer(source) else math.copysign(0, scalar))
    try:
        return nearest_float(number, target, rounding)
    except Refused:
        if out_of_range == "clamp":
            return np.dtype(target).type(math.copysign(math.inf, number))
        raise


def scale_offset(scalar, offset, scale, direction):
    """Implements "Arithmetic semantics of the input array's data type": no intermediate value may exceed the type."""
    kind = scalar.dtype
    offset, scale = scalar_of(offset, kind.name), scalar_of(scale, kind.name)
    if not is_integer(kind.name):
        with np.errstate(all="ignore"):
            return (scalar - offset) * scale if direction == "encode" else scalar / scale + offset
    info = np.iinfo(kind)

    def within(value):
        if not int(info.min) <= value <= int(info.max):
            raise Refused("range")
        return value

    value, offset, scale = int(scalar), int(offset), int(scale)
    if direction == "encode":
        return kind.type(within(within(value - offset) * scale))
    if value % scale:
        raise Refused("remainder")
    return kind.type(within(within(value // scale) + offset))


def run(scalar, data_type, codecs, direction):
    """Applies a chain of both codecs, as in `zarr.json`, to a scalar."""
    types = [data_type]
    for codec in codecs:
        types.append(codec.get("configuration", {}).get("data_type", types[-1]))
    steps = list(zip(codecs, types, types[1:]))
    for codec, array, stored in steps if direction == "encode" else steps[::-1]:
        parameters = codec.get("configuration", {})
        if codec["name"] == "scale_offset":
            scalar = scale_offset(scalar, parameters.get("offset", 0), parameters.get("scale", 1), direction)
        else:
            target = stored if direction == "encode" else array
            entries = parameters.get("scalar_map", {}).get(direction, [])
            rounding = parameters.get("rounding", "nearest-even")
            scalar = cast(scalar, target, rounding, parameters.get("out_of_range"), entries)
    return scalar
