"""The bytes of a fixture and the chunks that they are, as `virtualize` refers to them."""
import json, subprocess

from svg import Picture
from virtualize_command import COMMAND, ROOT

NAME = "fixtures/hdf5/chunked.h5"
COLOURS = {"lat": "orange", "lon": "blue", "temperature": "green"}
LEFT, RIGHT = 24, 736


def draw():
    done = subprocess.run([COMMAND, NAME], cwd=ROOT, check=True, capture_output=True)
    refs = json.loads(done.stdout)["refs"]
    chunks = sorted((value[1], value[2], key) for key, value in refs.items() if isinstance(value, list))
    picture = Picture(
        "chunkmap",
        352,
        "The chunks of an HDF5 file",
        f"The file {NAME} has metadata in its first 8,192 bytes, then the chunks of lat, lon and temperature. "
        "Three of the four chunks of temperature are stored; the fourth reads as the fill value.",
    )
    size = (ROOT / NAME).stat().st_size
    picture.text(LEFT, 42, "chunked.h5", 19, bold=True)
    picture.text(RIGHT, 42, f"{size:,} bytes", 16, "quiet", "end")
    strip(picture, chunks, size)
    array(picture, refs)
    picture.write()


def strip(picture, chunks, size):
    """Draws the file. Its metadata are cut short; the chunks are to scale."""
    first = chunks[0][0]
    scale = (RIGHT - LEFT - 150) / (size - first)
    picture.box(LEFT, 60, 140, 64, "purple-fill", "purple", 4)
    picture.text(LEFT + 70, 88, "metadata", 16, "purple", "middle")
    picture.text(LEFT + 70, 110, f"{first:,} bytes", 14, "purple", "middle")
    for offset, length, key in chunks:
        array_name, index = key.rsplit("/", 1)
        colour = COLOURS[array_name]
        x = LEFT + 150 + (offset - first) * scale
        width = length * scale - 4
        picture.box(round(x, 1), 60, round(width, 1), 64, f"{colour}-fill", colour, 4)
        middle = round(x + width / 2, 1)
        picture.text(middle, 88, index if array_name == "temperature" else array_name, 16, colour, "middle", bold=True)
        picture.text(middle, 110, f"{length} B", 14, colour, "middle")


def array(picture, refs):
    """Draws the grid of temperature."""
    meta = json.loads(refs["temperature/.zarray"])
    (rows, columns), (height, width) = meta["shape"], meta["chunks"]
    cells = {(row, column): f"temperature/{row}.{column}" for row in range(-(-rows // height)) for column in range(-(-columns // width))}
    for (row, column), key in cells.items():
        x, y = 330 + column * 204, 156 + row * 92
        stored = key in refs
        picture.box(x, y, 196, 84, "green-fill" if stored else "page", "green" if stored else "line", 6)
        picture.text(x + 98, y + 38, f"chunk {row}.{column}", 16, "green" if stored else "quiet", "middle", bold=True)
        span = f"rows {row * height}–{row * height + height - 1}"
        picture.text(x + 98, y + 62, span if stored else f"reads as {meta['fill_value']}", 15, "quiet", "middle")
    texts = [f"temperature, {meta['dtype']}", f"shape ({rows}, {columns})", f"chunks ({height}, {width})", "shuffle, zlib"]
    picture.text(LEFT, 182, "The Zarr array", 17, bold=True)
    picture.lines(LEFT, 210, texts, 24, size=15, mono=True)
    picture.text(LEFT, 326, "Chunk 1.1 is not in the file.", 15, "quiet")
