"""Descriptions of files."""

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from virtualize._virtualize import File

_UNFOLDED = 1000
"""Greatest number of arrays that notebooks can unfold."""


class Inspection(str):
    """The description of a file: its arrays, how they are stored, and why they look as they do in Zarr.

    It is the text that ``virtualize inspect`` prints. Notebooks also show each array, which unfolds to its details.
    """

    _file: "File | None"

    def __new__(cls, text: str, file: "File | None" = None) -> "Inspection":
        self = super().__new__(cls, text)
        self._file = file
        return self

    def __repr__(self) -> str:
        return str(self)

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        # Details need the file, which stays where it is.
        return Inspection, (str(self),)

    def _repr_html_(self) -> str:
        paths = self._file.array_paths()[:_UNFOLDED] if self._file else []
        arrays = "".join(map(self._details, paths))
        return f"<div><pre>{escape(self)}</pre>{arrays}</div>"

    def _details(self, path: str) -> str:
        text = self._file.describe_arrays([path]) if self._file else ""
        return f"<details><summary><code>/{escape(path)}</code></summary><pre>{escape(text)}</pre></details>"
