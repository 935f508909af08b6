"""Cases in which `_FillValue` and `missing_value` are not copied verbatim, each with its diagnostic."""
import collections

import clients
import pytest
from test_hdf5 import expected, source

MATRIX = ["fill_message_1.h5", "fill_message_2.h5", "fill_message_3.h5", "fill_message_3_types.h5", "fill_message_old.h5"]


def must_warn(path, kind):
    """Returns whether a dataset's `_FillValue` or `missing_value` is out of the range of its type."""
    case = path.rsplit("_", 1)[1]
    if path.endswith("missing_range"):
        return True
    if case in ("range", "two"):
        return not path.endswith("missing_two")
    return case in ("fraction", "nan") and kind in "iu"


@pytest.mark.parametrize("name", MATRIX)
def test_what_the_type_cannot_hold_is_dropped_with_a_warning(name, fmt):
    run = clients.convert(source(name), fmt)
    reported = collections.defaultdict(set)
    for path, code in run.codes:
        reported[path].add(code)
    problems = []
    for path, node in expected(name).items():
        if node["kind"] == "dataset" and must_warn(path, node["dtype"].lstrip("<>|")[0]) and not reported.get(path):
            problems.append(f"{path}: no diagnostic")
    clients.report(problems)


@pytest.mark.parametrize("name", ["fill_message_3_types.h5"])
def test_strict_turns_a_dropped_value_into_a_failure(name, fmt):
    run = clients.virtualize(source(name), "--format", fmt, "--strict")
    assert run.status == 1
    assert run.stdout == b""


def test_an_unremarkable_file_gives_no_warning(fmt):
    run = clients.virtualize(source("chunked.h5"), "--format", fmt, "--strict")
    assert run.status == 0 and run.stderr == ""
