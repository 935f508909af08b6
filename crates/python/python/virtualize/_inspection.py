"""Descriptions of files."""

from collections.abc import Iterator, Sequence
from html import escape


class Inspection(str):
    """The description of a file: its arrays, how they are stored, and why they look as they do in Zarr.

    It is the text that ``virtualize inspect`` prints. Notebooks show it as a tree that unfolds.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<div style='font-family:monospace;white-space:pre-wrap'>{''.join(_tree(self.splitlines()))}</div>"


_INDENT = 2
"""Spaces by which a node is indented in its group."""


def _tree(lines: Sequence[str], depth: int = 0) -> Iterator[str]:
    """Yield lines as HTML. The line of a node unfolds to what is indented below it."""
    at = 0
    while at < len(lines):
        line, start = lines[at], at + 1
        at = start
        while at < len(lines) and lines[at].startswith(" " * (depth + _INDENT)):
            at += 1
        inside = lines[start:at]
        # Reasons are indented further than nodes, and always shown.
        if not inside or inside[0].startswith(" " * (depth + _INDENT + 1)):
            yield from (f"<div>{escape(each[depth:]) or '&#160;'}</div>" for each in (line, *inside))
            continue
        is_open = " open" if line.endswith(("/", "Diagnostics")) else ""
        yield f"<details{is_open}><summary>{escape(line[depth:])}</summary><div style='margin-left:1em'>"
        yield from _tree(inside, depth + _INDENT)
        yield "</div></details>"
