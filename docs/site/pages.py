"""Links from pages to files outside docs/, and pictures for both themes."""

import os
import re
from pathlib import Path

from mkdocs.exceptions import PluginError

# A picture in two versions, as GitHub shows it.
PICTURE = re.compile(r'<picture>\s*<source[^>]*srcset="(?P<dark>[^"]+)"[^>]*>\s*<img src="(?P<light>[^"]+)"(?P<more>[^>]*)>\s*</picture>')
DOCS = Path(__file__).parents[1]
TOP = DOCS.parent


def both_themes(match):
    """Returns the two versions as images that follow the theme of the site, and whose paths are checked."""
    more = dict(re.findall(r'(\w+)="([^"]*)"', match["more"]))
    alt, width = more.get("alt", ""), f'{{ width="{more["width"]}" }}' if "width" in more else ""
    return f"![{alt}]({match['light']}#only-light){width}![{alt}]({match['dark']}#only-dark){width}"


def on_page_markdown(markdown, page, config, files):
    """Replaces links that leave docs/ by the path in the repository, if the file exists."""

    def named(match):
        path = Path(os.path.normpath((DOCS / page.file.src_uri).parent / match[2]))
        if path.is_relative_to(DOCS):
            return match[0]
        if not path.exists():
            raise PluginError(f"{page.file.src_uri}: dead link {match[2]}")
        name = path.relative_to(TOP).as_posix()
        return match[1] if name in match[1] else f"{match[1]} (`{name}`)"

    markdown = PICTURE.sub(both_themes, markdown)
    return re.sub(r"\[([^\]]*)\]\((\.\.?/[^)#\s]*)\)", named, markdown)
