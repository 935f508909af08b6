"""Descriptions of files."""

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, NamedTuple


class Inspection(NamedTuple):
    """The description of a file: its arrays, how they are stored, and why they look as they do in Zarr."""

    text: str
    """What ``virtualize inspect`` prints."""
    report: dict[str, Any]
    """What ``virtualize inspect --json`` prints."""

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        html = "".join(_page(self.report))
        # A name or attribute may contain control characters, which HTML does not.
        return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in html)


def _page(report: Mapping[str, Any]) -> Iterator[str]:
    file = report["file"]
    yield "<div style='font-family:monospace;line-height:1.5'>"
    yield f"<b>{escape(str(file['url']))}</b><br>{file['format']}, {file['size']:,} bytes"
    yield from _group(report["root"])
    for path, reason in report["left_out"].items():
        yield f"<div>left out: <b>{escape(path)}</b> {escape(_text(reason))}</div>"
    for each in report["diagnostics"]:
        text = f"{each['severity']}: {each['path']}: {each['message']} [{each['code']}]"
        yield f"<div>{escape(text)}</div>"
    yield "</div>"


def _group(group: Mapping[str, Any]) -> Iterator[str]:
    yield "<div style='margin-left:1.5em'>"
    yield from _attributes(group["attributes"])
    for name, node in group["children"].items():
        if node["node"] == "group":
            yield f"<details open><summary><b>{escape(name)}/</b></summary>"
            yield from _group(node)
            yield "</details>"
        else:
            yield from _array(name, node)
    yield "</div>"


def _array(name: str, array: Mapping[str, Any]) -> Iterator[str]:
    names = array["dimensions"] or [None] * len(array["shape"])
    axes = [f"{axis or ''} {size}".strip() for axis, size in zip(names, array["shape"], strict=True)]
    yield f"<details><summary><b>{escape(name)}</b> {escape(str(array['data_type']))} ({escape(', '.join(axes))})</summary>"
    yield "<table style='margin-left:1.5em;text-align:left'>"
    for key, value in array.items():
        if key not in {"node", "shape", "dimensions", "data_type", "attributes"} and value not in (None, [], {}):
            yield f"<tr><th>{escape(key.replace('_', ' '))}</th><td>{escape(_text(value))}</td></tr>"
    yield "</table><div style='margin-left:1.5em'>"
    yield from _attributes(array["attributes"])
    yield "</div></details>"


def _attributes(attributes: Mapping[str, Any]) -> Iterator[str]:
    for name, value in attributes.items():
        yield f"<div>@{escape(name)} = {escape(_text(value))}</div>"


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_text(each)}" for name, each in value.items() if each is not None)
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return str(value)
