"""Records made from definitions, as `validate_tools` makes them; and definitions as unkind servers write them."""

from typing import Any

from hypothesis import strategies as st

from aggregator.catalog.validate import validate_tools
from aggregator.config.server_config import ServerConfig
from aggregator.domain.records import ToolRecord
from tests.unit.strategies import ANY_TEXT, TOOL_NAMES, json_values

SCRAPS = st.sampled_from(
    [
        *(
            "# Heading\n",
            "## Overview\n",
            "**Bold**\n",
            "- item one\n",
            "1. first\n",
            "```\ncode\n```\n",
            "```json\n{",
            "\n\n",
        ),
        *(
            "<usecase>when asked</usecase>",
            "<br/>",
            "<b>",
            "</i>",
            "<owner>/<repo>",
            "<!-- x",
            "| a | b |\n",
            "---\n",
            "> q\n",
        ),
        *(
            "This tool is used to ",
            "Use this tool to ",
            "Note: ",
            "e.g. this one. ",
            "Gets the list. ",
            "Args:\n  x: y\n",
        ),
        *(
            "查询天气。",
            "该工具用于",
            "，",
            "（备注）",
            "[text](http://x.y/z)",
            "![alt](u)",
            "`code`",
            "*it*",
            "__init__",
            "(",
            "&lt;b&gt;",
        ),
        *(
            "\u202eevil\u202c",
            "\u200b",
            "\ufeff",
            "\x00",
            "\x1b[31m",
            "\r",
            "\u2028",
            "\ud800",
            "🚨",
            "a\u0301\u0302",
            "ﷺ",
            "\U000e0041",
        ),
        *("word " * 30, "x" * 200, "长" * 80, "one, two; three - four: five "),
    ]
)
DESCRIPTIONS = st.lists(SCRAPS | ANY_TEXT, max_size=8).map("".join)


def record(name: str = "get", server: str = "srv", **more: Any) -> ToolRecord:
    """One tool that passed."""
    found = records([{"name": name, "inputSchema": {"type": "object"}, **more}], server)
    assert found, more
    return found[0]


def records(definitions: list[Any], server: str = "srv") -> tuple[ToolRecord, ...]:
    """Return records of the definitions that pass validation."""
    config = ServerConfig(id=server, key=server, prefix=server, type="stdio", command="none")
    return validate_tools(config, definitions, ambiguous=False, name_limit=64)[0]


def schema_of(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    """An input schema."""
    return {"type": "object", "properties": properties, "required": list(required)}


PROPERTY_NAMES = st.sampled_from(["city", "title", "$ref", "days", "城市", "properties"]) | ANY_TEXT
_LOOSE = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["string", "integer", "array", "object", ["string", "null"]]) | json_values(),
        "description": DESCRIPTIONS | json_values(),
        "title": st.sampled_from(["City", "Days", "title"]) | json_values(),
        "enum": st.lists(json_values(leaves=3), max_size=9) | json_values(),
        "const": json_values(),
        "default": json_values(),
        "examples": st.lists(json_values(leaves=3), max_size=3) | json_values(),
        "format": json_values(leaves=2),
        "minimum": json_values(leaves=2),
        "anyOf": st.lists(json_values(leaves=3), max_size=3) | json_values(),
        "items": json_values(),
        "$ref": st.sampled_from(["#", "#/properties/city", "#/$defs/a", "#/properties/days/items", "#/~1"]),
        "additionalProperties": st.booleans() | json_values(),
    },
)
_SCHEMAS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.just("object"),
        "properties": st.dictionaries(PROPERTY_NAMES, _LOOSE | json_values(), max_size=6) | json_values(),
        "required": st.lists(PROPERTY_NAMES, max_size=4) | json_values(),
        "$defs": st.dictionaries(st.sampled_from(["a", "b"]), _LOOSE, max_size=2) | json_values(),
        "examples": json_values(),
        "title": st.sampled_from(["getArguments", "Get"]) | json_values(),
        "anyOf": json_values(),
        "$schema": st.sampled_from(["http://json-schema.org/draft-07/schema#"]),
    },
)
DEFINITIONS = st.fixed_dictionaries(
    {"name": TOOL_NAMES | ANY_TEXT},
    optional={
        "description": DESCRIPTIONS | json_values(),
        "title": DESCRIPTIONS | json_values(),
        "inputSchema": _SCHEMAS | json_values(),
        "outputSchema": _SCHEMAS | json_values(),
        "annotations": st.fixed_dictionaries({}, optional={"title": ANY_TEXT}) | json_values(),
    },
)
