"""Fills `<!-- endpoints -->` in http.md from the service's OpenAPI document."""

import json
import os
import re
import subprocess
import urllib.request
from pathlib import Path

TOP = Path(__file__).parents[2]
GROUPS = ("One file", "Folders", "Service")


def document():
    """Returns the document of a service, which is started for this."""
    command = [os.environ.get("VIRTUALIZE_BIN", TOP / "target/debug/virtualize"), "serve", "--listen", "127.0.0.1:0", "--allow", "https://example.org/"]
    service = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        address = re.search(r"http://\S+", service.stderr.readline())[0]
        with urllib.request.urlopen(f"{address}/v1/openapi.json") as response:
            return json.load(response)
    finally:
        service.terminate()
        service.communicate()


def on_page_markdown(markdown, page, config, files):
    if "<!-- endpoints -->" not in markdown:
        return markdown
    return markdown.replace("<!-- endpoints -->", "\n".join(reference(document())))


def reference(document):
    for title in GROUPS:
        yield f"## {title}\n"
        for path, item in document["paths"].items():
            for method, one in item.items():
                if title in one["tags"]:
                    yield from operation(document, method.upper(), path, one)
    yield "## Problem\n"
    yield from properties(document, document["components"]["schemas"]["Problem"])


def resolved(document, node):
    while "$ref" in node:
        target = document
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        node = target
    return node


def operation(document, method, path, one):
    yield f"### {method} {path}\n"
    yield sentence(one["summary"]) + "\n"
    if description := one.get("description"):
        yield description + "\n"
    if parameters := one.get("parameters"):
        yield "| parameter | in | value | meaning |\n|---|---|---|---|"
        for parameter in parameters:
            name = f"`{parameter['name']}`" + (" (required)" if parameter.get("required") else "")
            yield f"| {name} | {parameter['in']} | {value(document, parameter['schema'])} | {cell(parameter.get('description', ''))} |"
        yield ""
    yield from responses(document, one["responses"])


def responses(document, table):
    yield "| status | response | content |\n|---|---|---|"
    problems = []
    for status, response in sorted(table.items()):
        full = resolved(document, response)
        if "application/problem+json" in full.get("content", {}):
            problems.append(status)
            continue
        yield f"| {status} | {cell(full['description'])} | {', '.join(f'`{kind}`' for kind in full.get('content', {}))} |"
    if problems:
        yield f"| others | [Problem](#problem) | `application/problem+json` |"
    yield ""


def properties(document, schema):
    """Yields the members of an object as a table."""
    required = schema.get("required", [])
    yield "| member | value | meaning |\n|---|---|---|"
    for name, member in schema.get("properties", {}).items():
        member = resolved(document, member)
        label = f"`{name}`" + (" (required)" if name in required else "")
        yield f"| {label} | {value(document, member)} | {cell(member.get('description', ''))} |"
    yield ""


def value(document, schema):
    """Returns the type of a value, its choices, limits and default."""
    schema = without_null(resolved(document, schema))
    if "enum" in schema:
        text = ", ".join(f"`{choice}`" for choice in schema["enum"])
    elif "const" in schema:
        text = f"`{schema['const']}`"
    elif choices := schema.get("oneOf") or schema.get("anyOf"):
        text = " or ".join(value(document, choice) for choice in choices)
    elif schema.get("type") == "array":
        text = f"list of {value(document, schema.get('items', {}))}"
    else:
        kind = schema.get("type", "any")
        text = " or ".join(kind) if isinstance(kind, list) else schema.get("format", kind)
    if {"minimum", "maximum"} & schema.keys():
        text += f", {schema.get('minimum', '')} to {schema.get('maximum', '')}".replace(" to ", " or more", 1) \
            if "maximum" not in schema else f", {schema.get('minimum', '')} to {schema['maximum']}"
    if schema.get("default") not in (None, []):
        text += f"; default `{json.dumps(schema['default']).strip(chr(34))}`"
    return text


def without_null(schema):
    """Returns the schema of an optional member that is not null."""
    if None in schema.get("enum", []):
        schema = {**schema, "enum": [choice for choice in schema["enum"] if choice is not None]}
    kinds = schema.get("type")
    if isinstance(kinds, list) and len(kinds) == 2 and "null" in kinds:
        schema = {**schema, "type": next(kind for kind in kinds if kind != "null")}
    return schema


def sentence(text):
    return text.rstrip(".") + "."


def cell(text):
    return text.replace("|", "\\|").replace("\n", " ")
