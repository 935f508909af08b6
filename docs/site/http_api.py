"""Fills `<!-- endpoints -->` in http.md from the service's OpenAPI document."""

import json
from pathlib import Path

DOCUMENT = Path(__file__).parents[2] / "crates/server/src/openapi.json"
GROUPS = {
    "One file": ("/v1/references", "/v1/inspect", "/v1/zarr", "/v1/plain", "/v1/chunks"),
    "Folders": ("/v1/folder",),
    "Service": ("/",),
}


def on_page_markdown(markdown, page, config, files):
    if "<!-- endpoints -->" not in markdown:
        return markdown
    return markdown.replace("<!-- endpoints -->", "\n".join(reference(json.loads(DOCUMENT.read_text()))))


def reference(document):
    left = dict(document["paths"])
    for title, prefixes in GROUPS.items():
        yield f"## {title}\n"
        for path in [path for path in left if path.startswith(prefixes)]:
            item = left.pop(path)
            for method in [method for method in item if method != "parameters"]:
                yield from operation(document, method.upper(), path, item[method], item.get("parameters", []))
    yield "## Problem\n"
    yield from properties(document, document["components"]["schemas"]["Problem"])


def resolved(document, node):
    while "$ref" in node:
        target = document
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        node = target
    return node


def operation(document, method, path, one, shared):
    yield f"### {method} {path}\n"
    yield sentence(one["summary"]) + "\n"
    parameters = [resolved(document, parameter) for parameter in [*shared, *one.get("parameters", [])]]
    if parameters:
        yield "| parameter | in | value | meaning |\n|---|---|---|---|"
        for parameter in parameters:
            name = f"`{parameter['name']}`" + (" (required)" if parameter.get("required") else "")
            yield f"| {name} | {parameter['in']} | {value(document, parameter['schema'])} | {cell(parameter.get('description', ''))} |"
        yield ""
    if body := one.get("requestBody"):
        for kind, content in body["content"].items():
            yield f"Body (`{kind}`):\n"
            yield from properties(document, resolved(document, content["schema"]))
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
        yield f"| {', '.join(problems)} | [Problem](#problem) | `application/problem+json` |"
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
