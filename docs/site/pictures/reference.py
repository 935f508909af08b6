"""The parts of a reference."""
from html import escape

from svg import MONO, Picture

SIZE, ADVANCE, LEFT, BASE = 21, 12.64, 28, 108
# Words, their colour, their label, and whether it is above.
PARTS = [
    ('"temperature', "green", "array", True),
    ('/0.1"', "orange", "place in the grid", False),
    (": [", None, None, None),
    ('"s3://bucket/chunked.h5"', "blue", "original file", True),
    (", ", None, None, None),
    ("8295", "purple", "offset of the chunk", False),
    (", ", None, None, None),
    ("23", "purple", "length", True),
    ("]", None, None, None),
]


def draw():
    picture = Picture(
        "reference",
        218,
        "The parts of a reference",
        "The key temperature/0.1 names the array and the position of the chunk in its grid. The value is the URL of the file, the offset of the "
        "chunk in it, and its length in bytes.",
    )
    picture.box(12, BASE - 38, 736, 64)
    x = LEFT
    for words, colour, label, is_above in PARTS:
        width = len(words) * ADVANCE
        picture.parts.append(part(words, x, width, colour or "text"))
        if label:
            middle = round(x + width / 2)
            picture.path(f"M{middle} 46V{BASE - 22}" if is_above else f"M{middle} 174V{BASE + 12}", colour, 2)
            picture.text(middle, 36 if is_above else 196, label, 20, colour, "middle")
        x += width
    picture.write()


def part(words, x, width, colour):
    """Text of a fixed width, whatever the font."""
    weight = ' font-weight="600"' if colour != "text" else ""
    return (
        f'<text x="{x:.1f}" y="{BASE}" font-size="{SIZE}" font-family="{MONO}" xml:space="preserve" textLength="{width:.1f}" '
        f'lengthAdjust="spacingAndGlyphs" fill="{{{colour}}}"{weight}>{escape(words, quote=False)}</text>'
    )
