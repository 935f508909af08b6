"""Compares `scale_offset` and `cast_value` with zarr-python's codecs: the same number or the same kind of error, for hundreds of thousands of generated
numbers. Where the two differ, `arithmetic_model` decides which follows the specification, and the kind of difference must be listed in
docs/semantics.md.

The seed is printed; ARITHMETIC_SEED=… repeats a run."""
import collections, functools, itertools, json, math, os, subprocess

import arithmetic_model as model
import clients
import numpy as np
import pytest
import zarr
from arithmetic_model import FLOATS, INTEGERS, TYPES, Refused
from zarr.codecs import CastValue, ScaleOffset
from zarr.core.array_spec import ArrayConfig, ArraySpec
from zarr.core.buffer import default_buffer_prototype
from zarr.core.dtype import get_data_type_from_json

pytestmark = pytest.mark.slow

SEED = int(os.environ.get("ARITHMETIC_SEED", "20261121"))
PROTOTYPE = default_buffer_prototype()
ROUNDINGS = ["nearest-even", "towards-zero", "towards-positive", "towards-negative", "nearest-away"]
KINDS = {"out of range": "!range", "outside the range": "!range", "Cannot cast": "!not-finite", "remainder": "!remainder"}


@functools.cache
def example(crate, name):
    """Builds an example of the workspace, like the tests of a crate."""
    built = subprocess.run(["cargo", "build", "--quiet", "--package", crate, "--example", name,
                            "--message-format", "json"], cwd=clients.ROOT, stdout=subprocess.PIPE, check=True)
    artifacts = map(json.loads, built.stdout.splitlines())
    return next(each["executable"] for each in artifacts if each.get("target", {}).get("name") == name)


def ours(cases):
    """Returns the results of virtualize for each case."""
    lines = "".join(json.dumps({**case, "elements": case["elements"].tobytes().hex()}) + "\n" for case in cases)
    done = subprocess.run([example("virtualize-zarr", "arithmetic")], input=lines.encode(), stdout=subprocess.PIPE, check=True)
    return list(map(json.loads, done.stdout.splitlines()))


def spec(data_type, count=1, fill=0):
    kind = get_data_type_from_json(data_type, zarr_format=3)
    return ArraySpec(shape=(count,), dtype=kind, fill_value=kind.cast_scalar(fill), config=ArrayConfig.from_dict({}), prototype=PROTOTYPE)


def theirs(case):
    """Returns zarr-python's codecs of a case, with the types of their input arrays."""
    data_type, steps = case["data_type"], []
    for metadata in case["codecs"]:
        codec = {"scale_offset": ScaleOffset, "cast_value": CastValue}[metadata["name"]].from_dict(metadata)
        codec.validate(shape=(1,), dtype=get_data_type_from_json(data_type, zarr_format=3), chunk_grid=None)
        steps.append((codec, data_type))
        data_type = metadata.get("configuration", {}).get("data_type", data_type)
    return steps


def run(steps, direction, numbers):
    for codec, data_type in steps if direction == "encode" else steps[::-1]:
        do = codec._encode_sync if direction == "encode" else codec._decode_sync
        numbers = do(PROTOTYPE.nd_buffer.from_numpy_array(numbers), spec(data_type, len(numbers))).as_numpy_array()
    return numbers


def one(steps, direction, number):
    """Returns the bytes or the kind of error of a single number, because zarr-python rejects whole arrays."""
    try:
        return run(steps, direction, number.reshape(1)).tobytes().hex()
    except ValueError as error:
        return next((kind for text, kind in KINDS.items() if text in str(error)), f"!{error}")


def all_of(steps, direction, numbers, expected):
    """Like `one`, for many numbers. Those that virtualize accepts are tried together."""
    found = [None] * len(numbers)
    fine = [at for at, result in enumerate(expected) if not result.startswith("!")]
    try:
        if fine:
            for at, result in zip(fine, run(steps, direction, numbers[fine])):
                found[at] = result.tobytes().hex()
    except ValueError:
        pass
    return [one(steps, direction, number) if result is None else result for number, result in zip(numbers, found)]


def by_specification(case, number):
    try:
        return model.run(number, case["data_type"], case["codecs"], case["direction"]).tobytes().hex()
    except Refused as error:
        return f"!{error}"


def result_type(case):
    stored = [c["configuration"]["data_type"] for c in case["codecs"] if c["name"] == "cast_value"]
    return np.dtype(stored[-1] if stored and case["direction"] == "encode" else case["data_type"])


def same(one, other, kind, case):
    """Compares bits. NaNs that result from arithmetic may have any payload."""
    calculated = any(codec["name"] == "scale_offset" for codec in case["codecs"])
    if one == other or "!" in one + other or kind.kind != "f" or not calculated:
        return one == other
    one, other = (np.frombuffer(bytes.fromhex(text), kind)[0] for text in (one, other))
    return bool(np.isnan(one) and np.isnan(other))


TWICE = "float64 to float16 is rounded twice, by way of float32"
WRAPS = "scale_offset of int64 and uint32 wraps"
PASSES = "scale_offset lets values on the way leave the type"


def difference(case, number, found):
    """Returns the kind of a difference by rule A5 in docs/semantics.md, if virtualize follows the specification."""
    [codec], name = case["codecs"], case["data_type"]
    configuration = codec["configuration"]
    if codec["name"] == "cast_value":
        return TWICE if {name, configuration["data_type"]} == {"float16", "float64"} else None
    if found.startswith("!") or name not in INTEGERS:
        return None
    offset, scale = configuration["offset"], configuration["scale"]
    exact = (int(number) - offset) * scale if case["direction"] == "encode" else int(number) // scale + offset
    if exact == int(np.frombuffer(bytes.fromhex(found), name)[0]):
        return PASSES
    return WRAPS if name in ("int64", "uint32") else None


def compare(cases):
    """Compares both implementations. Returns the number of values and the number of differences by kind."""
    count, differences = 0, collections.Counter()
    for case, answer in zip(cases, ours(cases), strict=True):
        numbers, kind = case["elements"], result_type(case)
        steps = theirs(case)
        with np.errstate(all="ignore"):
            found = all_of(steps, case["direction"], numbers, answer["results"])
        for number, mine, other in zip(numbers, answer["results"], found, strict=True):
            count += 1
            if same(mine, other, kind, case):
                continue
            reported = {key: case[key] for key in ("data_type", "codecs", "direction")}
            reported = f"{json.dumps(reported)}: {number!r} ({number.tobytes().hex()}): {mine} here, {other} in zarr-python"
            right = by_specification(case, number)
            assert same(mine, right, kind, case), f"{reported}, {right} by the specification"
            reason = difference(case, number, other)
            assert reason, f"{reported}: a difference that docs/semantics.md does not list"
            differences[reason] += 1
    print(f"seed {SEED}: {count} numbers compared; differences: {dict(differences)}")
    return count, differences


@functools.cache
def edges(name):
    """Returns critical numbers of a type: limits, powers of two, halves, and midpoints between the numbers of other types."""
    kind = np.dtype(name)
    powers = [sign * 2**k + step for k in range(65) for sign in (1, -1) for step in (-1, 0, 1)]
    if name in INTEGERS:
        info = np.iinfo(kind)
        return np.array(sorted({n for n in powers if info.min <= n <= info.max}), dtype=kind)
    numbers = [float(n) for n in powers] + [n + 0.5 for n in range(-4, 5)] + [0.0, -0.0, 0.49999999999999994, 1e30, -1e300]
    for other in INTEGERS:
        for end in (np.iinfo(other).min, np.iinfo(other).max):
            numbers += [float(end) + step for step in (-1.5, -1, -0.75, -0.5, -0.25, 0.25, 0.5, 0.75, 1, 1.5)]
    for other in FLOATS[:2]:
        info = np.finfo(other)
        least, unit = float(info.smallest_subnormal), float(info.max) - float(np.nextafter(info.max, info.dtype.type(0)))
        near = [float(info.max) + unit * step for step in (-0.5, 0, 0.25, 0.5, 0.75, 1, 2)]
        near += [least * step for step in (0.25, 0.5, 0.75, 1, 1.25, 1.5, 2.5)] + [float(info.smallest_normal) * step for step in (0.5, 1)]
        near += [1 + float(info.eps) * step for step in (0.25, 0.5, 0.75, 1.5, 2.5)]
        near = [*near, *np.nextafter(near, np.inf), *np.nextafter(near, -np.inf)]
        numbers += [sign * n for n in near for sign in (1, -1)]
    bits = np.dtype(f"u{kind.itemsize}")
    infinity, high = int(np.array(np.inf, kind).view(bits)), 1 << (kind.itemsize * 8 - 1)
    special = [0, 1, 2, infinity - 1, infinity, infinity + 1, infinity | infinity >> 1, infinity + (infinity >> 6), high - 1]
    special = np.array([b | sign for b in special for sign in (0, high)], dtype=bits).view(kind)
    with np.errstate(over="ignore"):
        return np.concatenate([np.array(numbers, dtype=np.float64).astype(kind), special])


def numbers(random, name, count):
    """Returns edge cases, numbers with random bits, and numbers of ordinary size."""
    kind = np.dtype(name)
    third = count // 3
    any_bits = random.integers(0, 256, third * kind.itemsize, dtype=np.uint8).view(kind)
    ordinary = random.normal(size=third) * 10.0 ** random.integers(-3, 6, third)
    if name in INTEGERS:
        ordinary = np.clip(ordinary, max(np.iinfo(kind).min, -2.0**53), min(np.iinfo(kind).max, 2.0**53))
    with np.errstate(over="ignore"):
        ordinary = ordinary.astype(kind)
    return np.concatenate([random.choice(edges(name), count - 2 * third), any_bits, ordinary])


def scalar_map(random, array, stored, elements):
    """Returns scalar map entries for some of the elements, without duplicates (zarr-python applies the last one, the specification the first)."""
    result = {}
    for direction, (source, target) in {"encode": (array, stored), "decode": (stored, array)}.items():
        entries = {}
        for old in [*random.choice(elements[direction], 3), *random.choice(edges(source), 3)]:
            entries.setdefault(model.json_of(old), model.json_of(random.choice(edges(target))))
        result[direction] = list(map(list, entries.items()))
    return result


def test_casts_between_all_types():
    random, cases = np.random.default_rng(SEED), []
    for array, stored, rounding in itertools.product(TYPES, TYPES, ROUNDINGS):
        for mode in [None, "clamp", *(["wrap"] if stored in INTEGERS else [])]:
            elements = {"encode": numbers(random, array, 24), "decode": numbers(random, stored, 24)}
            configuration = {"data_type": stored, "rounding": rounding, "out_of_range": mode}
            if random.random() < 0.4:
                configuration["scalar_map"] = scalar_map(random, array, stored, elements)
            configuration = {key: value for key, value in configuration.items() if value is not None and value != "nearest-even"}
            for direction in ("encode", "decode"):
                cases.append({"data_type": array, "codecs": [{"name": "cast_value", "configuration": configuration}],
                              "direction": direction, "elements": elements[direction]})
    count, differences = compare(cases)
    assert count >= 40_000
    assert set(differences) <= {TWICE}


def parameter(random, name):
    """Returns an offset or scale."""
    if name in FLOATS:
        return model.json_of(np.dtype(name).type(random.choice([0.1, 10.0, -3.5, 1 / 3, 273.15, 1e-4, 65504.0])))
    small = np.array([1, 2, 3, 10, 127], dtype=name)
    return int(random.choice(np.concatenate([small, -small]) if name.startswith("int") else small)
               if random.random() < 0.7 else random.choice(edges(name)))


def test_scale_offset_of_all_types():
    random, cases = np.random.default_rng(SEED + 1), []
    for name, _ in itertools.product(TYPES, range(40)):
        configuration = {"offset": parameter(random, name), "scale": parameter(random, name) or 1}
        for direction in ("encode", "decode"):
            elements = numbers(random, name, 60)
            if name in INTEGERS and direction == "decode":
                with np.errstate(all="ignore"):
                    multiples = elements[::2] // np.dtype(name).type(configuration["scale"]) * np.dtype(name).type(configuration["scale"])
                elements = np.concatenate([elements[1::2], multiples])
            cases.append({"data_type": name, "codecs": [{"name": "scale_offset", "configuration": configuration}],
                          "direction": direction, "elements": elements})
    count, differences = compare(cases)
    assert count >= 50_000
    assert set(differences) == {WRAPS, PASSES}


def test_packed_chains():
    """As written by `--unpack`: floats packed into integers, with a sentinel for NaN."""
    random, cases = np.random.default_rng(SEED + 2), []
    for array, stored, _ in itertools.product(["float32", "float64"], INTEGERS, range(10)):
        sentinel = [np.iinfo(stored).min, np.iinfo(stored).max][random.integers(2)]
        configuration = {"data_type": stored, "scalar_map": {"encode": [["NaN", sentinel]], "decode": [[sentinel, "NaN"]]}}
        codecs = [{"name": "scale_offset", "configuration": {"offset": parameter(random, array), "scale": parameter(random, array)}},
                  {"name": "cast_value", "configuration": configuration}]
        for direction, name in (("encode", array), ("decode", stored)):
            cases.append({"data_type": array, "codecs": codecs, "direction": direction, "elements": numbers(random, name, 60)})
    count, differences = compare(cases)
    assert count >= 15_000 and not differences


def test_fill_values():
    """zarr-python encodes the fill value when it opens an array, without checking that it round-trips."""
    random, cases = np.random.default_rng(SEED + 3), []
    for array, stored in itertools.product(TYPES, TYPES):
        cast = {"name": "cast_value", "configuration": {"data_type": stored, "out_of_range": "clamp"}}
        cases.append({"data_type": array, "codecs": [cast], "direction": "fill", "elements": numbers(random, array, 30)})
    lost = 0
    for case, answer in zip(cases, ours(cases), strict=True):
        [(codec, data_type)] = theirs(case)
        stored = case["codecs"][0]["configuration"]["data_type"]
        for number, mine in zip(case["elements"], answer["results"], strict=True):
            try:
                with np.errstate(all="ignore"):
                    found = codec.resolve_metadata(spec(data_type, fill=number)).fill_value
                    found = np.dtype(stored).type(found)
            except ValueError:
                assert mine in ("!not-finite", "!range", "!mantissa"), (case, number, mine)
                continue
            if mine.startswith("!"):
                assert mine in ("!fill-value", "!mantissa"), (case, number, mine, found)
                back = model.run(found, data_type, case["codecs"], "decode") if mine == "!fill-value" else None
                assert back is None or back != number
                lost += 1
            else:
                assert same(mine, found.tobytes().hex(), np.dtype(stored), case), (case, number, mine, found)
    assert lost > 100


def refused_by_zarr(case):
    try:
        theirs(case)
    except (ValueError, TypeError, OverflowError):
        return True
    return False


def configurations():
    for offset, scale in [(0, 1), (0, 0), (-1, 1), (256, 1), (0, 0.5), ("NaN", 1), (0, "NaN"), ("Infinity", 2), (0, -0.0), (128, 1), (5.0, 2), (None, 1)]:
        yield {"name": "scale_offset", "configuration": {"offset": offset, "scale": scale}}
    for target in [*TYPES, "bool", "complex64"]:
        for mode in ({}, {"out_of_range": "clamp"}, {"out_of_range": "wrap"}):
            yield {"name": "cast_value", "configuration": {"data_type": target, **mode}}
        for old, new in [(0, 1), ("NaN", 0), (0, "NaN"), (-1, 0), (0, 256), (0.5, 0), (0, 0.5), (256, 0), ("x", 0), (0, None)]:
            yield {"name": "cast_value", "configuration": {"data_type": target, "scalar_map": {"encode": [[old, new]]}}}


def test_what_is_refused_at_construction():
    cases = [{"data_type": name, "codecs": [codec], "direction": "encode", "elements": np.array([], "u1")}
             for name in [*TYPES, "bool", "complex64"] for codec in configurations()]
    for case, answer in zip(cases, ours(cases), strict=True):
        assert ("error" in answer) == refused_by_zarr(case), (case["data_type"], case["codecs"], answer)
        if "error" not in answer and case["codecs"][0]["name"] == "cast_value":
            assert answer["codecs"] == case["codecs"], "spelled as it was read"


@pytest.mark.parametrize("data_type, scalar", [("int8", "5"), ("uint8", True), ("float32", "inf"), ("float32", 1e39), ("float16", 2**63), ("float32", "0x7fc0"), ("float16", "0x7fc00001")])
def test_scalars_that_zarr_python_takes_and_the_specification_does_not(data_type, scalar):
    codec = {"name": "scale_offset", "configuration": {"offset": scalar}}
    case = {"data_type": data_type, "codecs": [codec], "direction": "encode", "elements": np.array([], "u1")}
    assert "error" in ours([case])[0]
    assert not refused_by_zarr(case)


def test_the_first_of_two_entries_holds_where_zarr_python_takes_the_last():
    cast = {"name": "cast_value", "configuration": {"data_type": "int16", "scalar_map": {"encode": [[1, 7], [1, 8]]}}}
    case = {"data_type": "int8", "codecs": [cast], "direction": "encode", "elements": np.array([1], "i1")}
    assert ours([case])[0]["results"] == ["0700"] == [by_specification(case, case["elements"][0])]
    assert one(theirs(case), "encode", case["elements"]) == "0800"


def test_nans_with_a_payload_map_where_zarr_python_fails():
    cast = {"name": "cast_value", "configuration": {"data_type": "int8", "scalar_map": {"encode": [["0x7fc00001", 1], ["NaN", 2]]}}}
    nans = np.array([0x7FC00001, 0x7FC00002], "u4").view("f4")
    case = {"data_type": "float32", "codecs": [cast], "direction": "encode", "elements": nans}
    assert ours([case])[0]["results"] == ["01", "02"]
    with pytest.raises(ValueError, match="could not convert string to float"):
        run(theirs(case), "encode", nans)


def test_float64_is_rounded_once_to_float16_and_twice_by_zarr_python():
    """A number slightly above the midpoint between 1 and its successor, which rounds to the midpoint as float32."""
    cast = {"name": "cast_value", "configuration": {"data_type": "float16"}}
    case = {"data_type": "float64", "codecs": [cast], "direction": "encode", "elements": np.array([1 + 2.0**-11 + 2.0**-40])}
    assert ours([case])[0]["results"] == ["013c"] == [by_specification(case, case["elements"][0])]
    assert one(theirs(case), "encode", case["elements"]) == "003c"


def packed():
    """The arrays that the example writes, {name: values}. The last chunk consists of the fill value."""
    at = np.arange(20).reshape(4, 5)

    def expected(values, fill):
        values[2:, 3:] = fill
        return values

    numbers = (at * 7 - 50) / 10 + 10
    numbers[at == 3] = np.nan
    steps = at.astype("f4") * np.float32(20.9) - np.float32(30)
    # 1 + k / 4096 in steps of 1 / 1024, with halves rounded up.
    halves = 1 + np.floor(at / 4 + 0.5).astype("f4") / 1024
    return {
        "packed": expected(numbers, np.nan),
        "clamped": expected(np.clip(np.trunc(steps), 0, 255), 7),
        "wrapped": expected(((at * 1000 + 128) % 256 - 128).astype("i8").astype("i4"), 5),
        "exact": expected((1 << 60) + at, 0),
        "half": expected(halves, np.nan),
    }


@pytest.mark.parametrize("name", packed())
def test_chunks_that_were_encoded_here_read_as_what_they_were(name):
    references = json.loads(subprocess.run([example("virtualize-references", "packed")], stdout=subprocess.PIPE, check=True).stdout)
    group = zarr.open_group(clients.open_store(references), mode="r", zarr_format=3)
    found, wanted = group[name][...], packed()[name]
    np.testing.assert_array_equal(found, wanted.astype(found.dtype))
