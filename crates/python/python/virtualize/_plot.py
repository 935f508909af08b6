"""A picture of where chunks are in a file."""

# Keyword arguments of matplotlib have no types.
# pyright: reportUnknownMemberType=false

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from virtualize._errors import OptionError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from virtualize._manifest import Manifest
    from virtualize._store import VirtualStore

_CHUNK, _OTHER, _REST = "#0b6e99", "#c4c4c4", "#ededed"
_FIRST_PLOTTED_AS_CELLS = 2_000
"""Number of chunks from which they are counted in cells instead of drawn one by one."""
_COLUMNS, _ROWS = 600, 400
"""Cells along the file, and along the order of the chunks."""

type _Numbers = NDArray[np.float64]


class _Places(NamedTuple):
    """Chunks of an array in one file."""

    position: _Numbers
    offset: _Numbers
    length: _Numbers


def plot_chunks(store: "VirtualStore", path: str, ax: "Axes | None" = None) -> "Axes":
    """Draw where the chunks of an array are in the file.

    The horizontal axis is the place in the file, the vertical axis the order of the chunks in the array, with the first
    chunk at the top. A diagonal line means that a file is read front to back; chunks scattered over the width need
    many separate requests. The background is grey where the file contains other arrays, and light grey where it contains
    metadata or nothing. Chunks that are missing or inline are counted in the title.

    Parameters
    ----------
    store
        A store of ``virtualize.open``.
    path
        Path of the array.
    ax
        Axes of matplotlib to draw into; new ones by default.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Examples
    --------
    >>> import virtualize
    >>> store = virtualize.open("fixtures/hdf5/chunked.h5")
    >>> virtualize.plot_chunks(store, "temperature").get_xlabel()
    'Offset in the file (KiB)'
    """
    manifest = store.manifest(path)
    ax = _new_axes() if ax is None else ax
    # matplotlib takes long to import, and may be missing.
    from matplotlib.ticker import MaxNLocator

    found = manifest.source[manifest.source >= 0]
    source = int(np.bincount(found).argmax()) if found.size else 0
    url = manifest.urls[source] if manifest.urls else ""
    size = max([1.0, *(float(size) for other, _, size, _ in _files(store) if other == url)])
    chunks, count = _places(manifest, url), max(1, manifest.source.size)
    scale, unit = _unit(size)
    _draw_background(ax, chunks, _other_arrays(store, path, url), size, count, scale)
    draw = _draw_bars if len(chunks.position) < _FIRST_PLOTTED_AS_CELLS else _draw_cells
    draw(ax, chunks, size, count, scale)
    ax.set_xlim(0, size / scale)
    ax.set_ylim(count, 0)
    ax.set_xlabel(f"Offset in the file ({unit})")
    ax.set_ylabel("Chunk")
    ax.set_title(_title(path, url, manifest, chunks), loc="left", fontsize="medium")
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    ax.yaxis.set_major_formatter("{x:,.0f}")
    _draw_legend(ax)
    return ax


def _new_axes() -> "Axes":
    try:
        import matplotlib.pyplot as plt
    except ModuleNotFoundError as error:
        raise OptionError("plot_chunks needs matplotlib (pip install virtualize[plot])") from error
    return plt.subplots(figsize=(9, 5), layout="constrained")[1]


def _files(store: "VirtualStore") -> tuple[tuple[str, str | None, int, int | None], ...]:
    return store._file.version  # pyright: ignore[reportPrivateUsage]


def _places(manifest: "Manifest", url: str) -> _Places:
    """Return the chunks that are in one file."""
    source = manifest.urls.index(url) if url in manifest.urls else -2
    position = np.flatnonzero(manifest.source.ravel() == source)
    offset, length = manifest.offset.ravel()[position], manifest.length.ravel()[position]
    return _Places(position.astype("f8"), offset.astype("f8"), length.astype("f8"))


def _unit(size: float) -> tuple[float, str]:
    """Return the bytes and the name of a unit in which a size has up to four digits."""
    units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"]
    power = next((power for power in range(5) if size < 4096 * 1024**power), 5)
    return 1024.0**power, units[power]


def _covered(places: list[_Places], edges: _Numbers) -> _Numbers:
    """Return which part of each interval of a file is within chunks; overlapping chunks count once."""
    start = np.concatenate([np.zeros(0), *(part.offset for part in places)])
    end = start + np.concatenate([np.zeros(0), *(part.length for part in places)])
    if not start.size:
        return np.zeros(len(edges) - 1)
    at = np.concatenate([start, end])
    order = np.argsort(at, kind="stable")
    at = at[order]
    depth = np.cumsum(np.repeat([1, -1], start.size)[order])
    bytes_before = np.concatenate([[0.0], np.cumsum(np.diff(at) * (depth[:-1] > 0))])
    covered: _Numbers = np.diff(np.interp(edges, at, bytes_before)) / np.diff(edges)
    return covered


def _other_arrays(store: "VirtualStore", path: str, url: str) -> list[_Places]:
    """Return the chunks of other arrays in a file."""
    documents = store._file.documents()  # pyright: ignore[reportPrivateUsage]
    arrays = {key.removesuffix("zarr.json").strip("/") for key, text in documents.items() if _is_array(text)}
    return [_places(store.manifest(other), url) for other in arrays - {path.strip("/")}]


def _draw_background(
    ax: "Axes", chunks: _Places, others: list[_Places], size: float, count: int, scale: float
) -> None:
    """Shade the parts of the file that contain other arrays, or no array."""
    from matplotlib.colors import to_rgb

    edges = np.linspace(0, size, _COLUMNS + 1)
    part_own = _covered([chunks], edges)[:, None]
    part_other = np.minimum(_covered(others, edges)[:, None], 1 - part_own)
    rest = 1 - part_own - part_other
    colors = part_own + part_other * np.array(to_rgb(_OTHER)) + rest * np.array(to_rgb(_REST))
    extent = (0, size / scale, count, 0)
    ax.imshow(np.clip(colors[None], 0, 1), extent=extent, aspect="auto", interpolation="nearest")


def _is_array(document: str) -> bool:
    return bool(json.loads(document)["node_type"] == "array")


def _draw_bars(ax: "Axes", chunks: _Places, size: float, count: int, scale: float) -> None:
    """Draw a bar for each chunk, wide and high enough to be seen."""
    width = np.maximum(chunks.length, size / _COLUMNS) / scale
    height = max(1.0, count / _ROWS)
    ax.barh(chunks.position + 0.5, width, left=chunks.offset / scale, height=height, color=_CHUNK, linewidth=0)


def _draw_cells(ax: "Axes", chunks: _Places, size: float, count: int, scale: float) -> None:
    """Draw cells, darker where there are more chunks."""
    from matplotlib.colors import to_rgb

    middle = chunks.offset + chunks.length / 2
    cells, _, _ = np.histogram2d(
        chunks.position, middle, bins=(min(_ROWS, count), _COLUMNS), range=((0, count), (0, size))
    )
    image = np.empty((*cells.shape, 4))
    image[..., :3] = to_rgb(_CHUNK)
    # A cell with a single chunk can still be seen.
    image[..., 3] = np.where(cells > 0, 0.45 + 0.55 * cells / max(cells.max(), 1), 0)
    ax.imshow(image, extent=(0, size / scale, count, 0), aspect="auto", interpolation="nearest")


def _title(path: str, url: str, manifest: "Manifest", chunks: _Places) -> str:
    """Return the title, which also counts the chunks that are not drawn."""
    drawn, inline = len(chunks.position), len(manifest.inline)
    missing = int((manifest.length == 0).sum())
    elsewhere = manifest.source.size - drawn - inline - missing
    scale, unit = _unit(float(chunks.length.sum()))
    stored = f"{chunks.length.sum() / scale:,.4g} {unit}"
    counts = [(missing, "missing"), (inline, "inline"), (elsewhere, "in other files")]
    parts = [f"{drawn:,} chunk{'s' * (drawn != 1)}, {stored}"]
    parts += [f"{number:,} {what}" for number, what in counts if number]
    return f"{path.strip('/')} in {url.rpartition('/')[2] or 'no file'}\n{', '.join(parts)}"


def _draw_legend(ax: "Axes") -> None:
    from matplotlib.patches import Patch

    colors = {"chunks": _CHUNK, "other arrays": _OTHER, "metadata or unused": _REST}
    handles: list[Any] = [Patch(color=color, label=label) for label, color in colors.items()]
    ax.legend(handles=handles, loc="upper right", bbox_to_anchor=(1.0, -0.08), ncols=3, frameon=False, fontsize="small")
