"""Navigation, links from pages to files outside docs/, and pictures for both themes."""

import os
import re
from pathlib import Path

from mkdocs.exceptions import PluginError

# A picture in two versions, as GitHub shows it.
PICTURE = re.compile(r'<picture>\s*<source[^>]*srcset="(?P<dark>[^"]+)"[^>]*>\s*<img src="(?P<light>[^"]+)"(?P<more>[^>]*)>\s*</picture>')
DOCS = Path(__file__).parents[1]
TOP = DOCS.parent


def on_config(config):
    config.nav = [expanded(item) for item in config.nav]


def expanded(item):
    """Replaces a folder of the navigation by its pages."""
    (title, value), = item.items()
    if isinstance(value, list):
        return {title: [expanded(member) for member in value]}
    if value.endswith("/*"):
        return {title: [page.relative_to(DOCS).as_posix() for page in sorted(DOCS.glob(value + ".md"))]}
    return item


def both_themes(match):
    """Returns the two versions as images that follow the theme of the site, and whose paths are checked."""
    more = dict(re.findall(r'(\w+)="([^"]*)"', match["more"]))
    alt, width = more.get("alt", ""), f'{{ width="{more["width"]}" }}' if "width" in more else ""
    return f"![{alt}]({match['light']}#only-light){width}![{alt}]({match['dark']}#only-dark){width}"


def on_page_markdown(markdown, page, config, files):
    """Points links that leave docs/ to the repository, if the file exists."""

    def linked(match):
        target = (DOCS / page.file.src_uri).parent / match[1]
        path = Path(os.path.normpath(target))
        if path.is_relative_to(DOCS):
            return match[0]
        if not path.exists():
            raise PluginError(f"{page.file.src_uri}: dead link {match[1]}")
        kind = "tree" if path.is_dir() else "blob"
        return f"]({config.repo_url}/{kind}/main/{path.relative_to(TOP).as_posix()})"

    markdown = PICTURE.sub(both_themes, markdown)
    return re.sub(r"\]\((\.\.?/[^)#\s]*)\)", linked, markdown)
