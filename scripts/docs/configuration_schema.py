"""The JSON Schema that editors check `aggregator.json` with, from the models of the configuration."""

import json
from pathlib import Path
from typing import Any

from aggregator.config import model
from aggregator.config.model import Config
from aggregator.config.servers.foreign import (
    COMMENT_PREFIXES,
    CURSOR_CLIENT,
    ENV_FILE,
    HTTP_SPELLINGS,
    IGNORED,
    IGNORED_ROOT,
    RENAMED,
    SWITCHES,
    TOOL_LISTS,
    WORKED_OUT,
)

SCHEMA_FILE = Path(model.__file__).with_name("aggregator.schema.json")
_REFERENCE = {"type": "string", "pattern": r"\$\{"}
_COMMENTS: dict[str, Any] = {f"^({'|'.join(COMMENT_PREFIXES)})": {}}


def build() -> dict[str, Any]:
    """Return the schema of the file as people may write it, with the keys of other hosts."""
    made = Config.model_json_schema()
    definitions: dict[str, Any] = made["$defs"]
    for definition in definitions.values():
        definition["patternProperties"] = _COMMENTS
        definition["properties"] = {name: _loose(field) for name, field in definition["properties"].items()}
    _open_server(definitions["ServerConfig"])
    properties = {name: _loose(field) for name, field in made["properties"].items() if name != "servers"}
    servers = {"type": "object", "additionalProperties": {"$ref": "#/$defs/ServerConfig"}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "aggregator.json",
        "description": "The configuration of aggregator.",
        "type": "object",
        "properties": {
            "$schema": {"type": "string", "description": "The address of this schema, for editors."},
            "mcpServers": {**servers, "description": made["properties"]["servers"]["description"]},
            "servers": {**servers, "description": "The same as `mcpServers`, as VS Code calls it."},
            **properties,
            **{name: {"description": f"Ignored ({host})."} for name, host in IGNORED_ROOT.items()},
        },
        "patternProperties": _COMMENTS,
        "additionalProperties": False,
        "$defs": definitions,
    }


def files() -> dict[Path, str]:
    """Return the text of the file that the package has for editors."""
    return {SCHEMA_FILE: json.dumps(build(), indent=2, ensure_ascii=False) + "\n"}


def _loose(field: dict[str, Any]) -> dict[str, Any]:
    """Return a field that may also be a text with a reference, which is resolved before the field is checked."""
    if not ({"enum", "anyOf"} & field.keys() or field.get("type") in ("integer", "boolean")):
        return field
    outside = {"title", "description", "default", "examples"}
    inside = {key: value for key, value in field.items() if key not in outside}
    options = inside.get("anyOf", [inside])
    return {key: field[key] for key in field if key in outside} | {"anyOf": [*options, _REFERENCE]}


def _open_server(definition: dict[str, Any]) -> None:
    """Remove the derived fields from the properties of an entry, and add the keys of other hosts."""
    definition.pop("required")
    properties: dict[str, Any] = definition["properties"]
    for name in WORKED_OUT:
        properties.pop(name, None)
    properties["type"]["anyOf"][0]["enum"] += HTTP_SPELLINGS
    del properties["command"]["anyOf"][0]["minLength"]  # Cherry Studio writes an empty one beside an address
    tools = {key: value for key, value in properties["tools"].items() if key != "$ref"}
    whole = {"$ref": properties["tools"]["$ref"]}
    properties["auth"]["anyOf"].append({"type": "object", "required": [CURSOR_CLIENT]})
    properties["trust"]["anyOf"].append({"type": "boolean", "description": "Ignored (Gemini CLI)."})
    names = {"type": "array", "items": {"type": "string"}}
    properties["tools"] = tools | {"anyOf": [whole, names]}
    for name, (field, _) in RENAMED.items():
        properties[name] = {"type": "string", "description": f"The same as `{field}`."}
    for name, means_enabled in SWITCHES.items():
        means = "the same as" if means_enabled else "the opposite of"
        properties[name] = {"type": "boolean", "description": f"What other hosts write: {means} `enabled`."}
    for name, part in TOOL_LISTS.items():
        properties[name] = {**names, "description": f"The same as `tools.{part}`."}
    properties[ENV_FILE] = {"type": "string", "description": "A file of NAME=value lines that `env` is added to."}
    for name, host in IGNORED.items():
        properties.setdefault(name, {"description": f"Ignored ({host})."})
