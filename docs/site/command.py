"""Fills cli.md: `<!-- options -->` with the options of every command, from its `--help`, and `<!-- rare options -->` with those for `--option`."""

import html
import json
import os
import re
import subprocess
from pathlib import Path

TOP = Path(__file__).parents[2]
# Notes of clap at the end of a description.
NOTE = re.compile(r"\[(default|env|values): ([^\]]*)\]")
LABELS = {"values": "Values", "default": "Default", "env": "Environment variable"}


def on_page_markdown(markdown, page, config, files):
    if "<!-- options -->" not in markdown:
        return markdown
    markdown = markdown.replace("<!-- rare options -->", "\n".join(rare()))
    return markdown.replace("<!-- options -->", "\n".join(reference(run("--help"), [])))


def rare():
    """Yields the rare options of all commands, each once."""
    commands = json.loads(run("options", "--json"))
    options = {option["name"]: option for command in commands.values() for option in command if option["rare"]}
    for name, option in options.items():
        value = "true" if option["switch"] else option["value"]
        facts = [escaped(option["help"])]
        facts += [f"Values: {noted(', '.join(option['values']))}."] if option["values"] else []
        facts += [f"Default: `{option['default']}`."] if option["default"] else []
        yield f"`{name}={value}` {{ #option-{name} .option }}\n:   " + "\n\n    ".join(facts) + "\n"


def run(*arguments):
    binary = os.environ.get("VIRTUALIZE_BIN", TOP / "target/debug/virtualize")
    environment = {**os.environ, "COLUMNS": "120", "NO_COLOR": "1"}
    return subprocess.run([binary, *arguments], check=True, capture_output=True, text=True, env=environment).stdout


def reference(text, command):
    """Yields the section of a command and those of its subcommands."""
    name = " ".join(["virtualize", *command])
    yield f"## {name}\n"
    sections = re.split(r"^(\S[^\n]*):\n", text, flags=re.M)
    yield from introduction(sections[0])
    subcommands = []
    for title, body in zip(sections[1::2], sections[2::2]):
        if title == "Commands":
            subcommands = [one for one in re.findall(r"^  ([a-z][\w-]*)", body, re.M) if one != "help"]
        else:
            yield from section(title, body, "-".join(command or ["file"]))
    for one in subcommands:
        yield from reference(run(*command, one, "--help"), [*command, one])


def introduction(text):
    about, _, usage = text.partition("Usage: ")
    yield escaped(about.strip()) + "\n"
    usage, _, rest = usage.partition("\n\n")
    yield "```text\n" + "\n".join(line.strip() for line in usage.splitlines()) + "\n```\n"
    if rest.strip():
        yield escaped(rest.strip()) + "\n"


def section(title, body, prefix):
    """Yields a group of options or arguments as a list of definitions; anything else as it is."""
    yield f"**{title}**\n"
    if not re.search(r"^ {2,6}(-|<|\[)", body, re.M):
        block, _, rest = body.strip("\n").partition("\n\n")
        yield "```sh\n" + "\n".join(line.removeprefix("  ") for line in block.splitlines()) + "\n```\n"
        yield escaped(rest) + "\n"
        return
    for names, text in entries(body):
        option = re.search(r"--[a-z][\w-]*", names)
        mark = f' {{ #{prefix}{option[0]} .option }}' if option and title != "Arguments" else ""
        yield f"`{names}`{mark}\n:   {definition(text)}\n"


def entries(body):
    """Yields the names of each option and the lines of its description."""
    names, lines = None, []
    for line in body.splitlines():
        if re.match(r" {2,6}(-\w|--[a-z]|<|\[[A-Z<])", line):
            if names:
                yield names, lines
            names, _, first = line.strip().partition("  ")
            lines = [first.strip()] if first.strip() else []
        else:
            lines.append(line.strip())
    if names:
        yield names, lines


def definition(lines):
    """Joins the lines of a description to paragraphs, its possible values to a list, and its notes to a last line."""
    out, notes = [], {}
    for block in re.split(r"\n\s*\n", "\n".join(lines).strip()):
        if block.startswith("Possible values:"):
            values = re.findall(r"^- ([\w.+-]+):?\s*(.*(?:\n(?!- ).*)*)", block, re.M)
            out.append("\n".join(f"- `{value}`" + (f": {escaped(' '.join(text.split()))}" if text else "") for value, text in values))
        else:
            text = " ".join(block.split())
            notes |= dict(NOTE.findall(text))
            out.append(escaped(NOTE.sub("", text).strip()))
    out.append(" ".join(f"{label}: {noted(notes[name])}." for name, label in LABELS.items() if name in notes))
    return "\n\n    ".join(block.replace("\n", "\n    ") for block in out if block)


def noted(value):
    """Returns a default, a variable or values; a default that is a description stays text."""
    return escaped(value) if " " in value and "," not in value else ", ".join(f"`{one.rstrip('=')}`" for one in value.split(", "))


def escaped(text):
    return re.sub(r"([\\*_<>\[\]`])", lambda match: html.escape(match[1]) if match[1] in "<>" else "\\" + match[1], text)
