"""Draws SVG pictures in a light and a dark version.

A picture is 760 units wide, so that text of 14 units is 13 pixels high at a width of 700 pixels. It has its own background, because a page
may be light while the browser prefers dark. Text uses fonts of the system."""
from html import escape
from pathlib import Path

IMAGES = Path(__file__).parents[2] / "images"
WIDTH = 760
SANS = "-apple-system,'Segoe UI','Noto Sans','DejaVu Sans',Helvetica,Arial,sans-serif"
MONO = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"

# Text has a contrast of at least 4.5 : 1 to the background, and to the fill of the same name.
THEMES = {
    "light": {
        "page": "#ffffff", "text": "#1f2328", "quiet": "#59636e", "line": "#818b98",
        "plain": "#f6f8fa", "blue": "#0550ae", "blue-fill": "#ddf4ff", "green": "#116329", "green-fill": "#dafbe1",
        "orange": "#953800", "orange-fill": "#fff1e5", "purple": "#6639ba", "purple-fill": "#fbefff",
    },
    "dark": {
        "page": "#0d1117", "text": "#f0f6fc", "quiet": "#9198a1", "line": "#656c76",
        "plain": "#151b23", "blue": "#79c0ff", "blue-fill": "#10243e", "green": "#7ee787", "green-fill": "#12261e",
        "orange": "#ffa657", "orange-fill": "#2e1f12", "purple": "#d2a8ff", "purple-fill": "#241b38",
    },
}


class Picture:
    """A picture under construction. Colours are names of a theme's entries."""

    def __init__(self, name, height, title, description):
        self.name, self.height, self.title, self.description = name, height, title, description
        self.parts = []

    def box(self, x, y, width, height, fill="plain", line="line", radius=8, weight=1.5):
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="{radius}" fill="{{{fill}}}" stroke="{{{line}}}" stroke-width="{weight}"/>'
        )

    def text(self, x, y, words, size=16, colour="text", anchor="start", bold=False, mono=False):
        weight = ' font-weight="600"' if bold else ""
        family = f' font-family="{MONO}" xml:space="preserve"' if mono else ""
        place = "" if anchor == "start" else f' text-anchor="{anchor}"'
        words = escape(words, quote=False).replace("{", "{{").replace("}", "}}")
        self.parts.append(f'<text x="{x}" y="{y}" font-size="{size}" fill="{{{colour}}}"{place}{weight}{family}>{words}</text>')

    def lines(self, x, y, texts, step=24, **style):
        for at, words in enumerate(texts):
            self.text(x, y + at * step, words, **style)

    def path(self, data, colour="line", weight=2, dashed=False, arrow=True):
        dash = ' stroke-dasharray="6 5"' if dashed else ""
        end = f' marker-end="url(#{colour})"' if arrow else ""
        self.parts.append(f'<path d="{data}" fill="none" stroke="{{{colour}}}" stroke-width="{weight}"{dash}{end}/>')

    def render(self, theme):
        colours = [name for name in theme if f"url(#{name})" in "".join(self.parts)]
        markers = "".join(
            f'<marker id="{name}" viewBox="0 0 10 10" refX="9" refY="5" markerUnits="userSpaceOnUse" markerWidth="14" markerHeight="14" orient="auto">'
            f'<path d="M0 0 10 5 0 10z" fill="{theme[name]}"/></marker>'
            for name in colours
        )
        body = "\n".join(part.format(**theme) for part in self.parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" width="{WIDTH}" height="{self.height}" '
            f'role="img" aria-labelledby="title description" font-family="{SANS}">\n'
            f'<title id="title">{escape(self.title)}</title>\n<desc id="description">{escape(self.description)}</desc>\n'
            f"<defs>{markers}</defs>\n"
            f'<rect width="{WIDTH}" height="{self.height}" rx="12" fill="{theme["page"]}"/>\n{body}\n</svg>\n'
        )

    def write(self):
        IMAGES.mkdir(exist_ok=True)
        for theme, colours in THEMES.items():
            (IMAGES / f"{self.name}-{theme}.svg").write_text(self.render(colours))
