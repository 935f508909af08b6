"""Writes python/virtualize/_option_types.py, the types of keyword arguments, from `virtualize options --json`.

VIRTUALIZE_BIN names the command; `--check` only compares."""

import json
import os
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).parents[2]
TARGET = Path(__file__).parent / "python/virtualize/_option_types.py"
# Structures of options in Rust, in the order of their classes.
GROUPS = {
    "AccessOptions": "As whom files are accessed, and through which service. What is not given comes from the environment (``AWS_*``, ``GOOGLE_*``, ``AZURE_*``, ``EARTHDATA_*``).",
    "RequestOptions": "Access by prefix of URLs, and how requests are sent.",
    "MappingOptions": "How files are mapped to Zarr.",
    "ArchiveOptions": "Which version of an archive is opened, and where its files are.",
    "WriteOptions": "How references are written.",
    "IcechunkOptions": "What is committed to an Icechunk repository, and where.",
    "FileOptions": "Which files are read, besides those that the first argument names.",
    "LayoutOptions": "Along which dimensions files are combined. Arrays are given by name, by path, or as ``*`` for all.",
    "PlanOptions": "How files become one dataset.",
    "RunOptions": "How a run proceeds.",
}
HEAD = '''"""Types of keyword arguments. Generated from the options of the command by option_types.py."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from datetime import date, datetime

type Size = int | str
"""A number of bytes: ``65536``, ``"64K"``."""

type Location = str | PathLike[str]
"""A path or url."""

type Several = str | Sequence[str]
"""A text, or several."""

type Time = datetime | date | str
"""A time with its zone, a date (midnight UTC), or either as text: ``"2024-02-29"``, ``"2024-02-29T12:00:00Z"``."""
'''


# In Python, `store` is a parameter of functions.
NAMES = {"store": "stores"}


def annotation(option):
    value = option["value"] or ""
    if value == "TABLE":
        return "Mapping[str, AccessOptions]"
    if option["switch"]:
        return "bool"
    if option["values"]:
        return f"Literal[{', '.join(json.dumps(one) for one in option['values'])}]"
    if "=" in value:
        return "Mapping[str, str]"
    if value in ("N", "SECONDS"):
        return "Sequence[int | str] | int | str" if option["list"] else "int"
    if value in ("FILE", "PATH", "FOLDER", "LOCATION"):
        return "Location | Sequence[Location]" if option["list"] else "Location"
    return {"SIZE": "Size", "TIME": "Time"}.get(value, "Several" if option["list"] else "str")


def generated(commands):
    options = {(option["group"], option["name"]): option for command in commands.values() for option in command}
    text = HEAD
    for group, purpose in GROUPS.items():
        text += f'\n\nclass {group}(TypedDict, total=False):\n    """{purpose}"""\n'
        for (of, name), option in options.items():
            if of == group:
                text += f"\n    {NAMES.get(name, name).replace('-', '_')}: {annotation(option)}\n    # {option['help']}\n"
    return text


binary = os.environ.get("VIRTUALIZE_BIN", TOP / "target/debug/virtualize")
found = generated(json.loads(subprocess.run([binary, "options", "--json"], check=True, capture_output=True).stdout))
if "--check" not in sys.argv:
    TARGET.write_text(found)
elif TARGET.read_text() != found:
    sys.exit(f"{TARGET}: run {Path(__file__).name}")
