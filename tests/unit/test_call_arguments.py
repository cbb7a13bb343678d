"""`aggregator call`: what is typed becomes what the tool's schema asks for."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.catalog.validate import validate_tools
from aggregator.cli.call import _parse_json, _parse_pairs
from aggregator.domain.errors import OperatorError
from aggregator.domain.records import ToolRecord
from aggregator.domain.text.invisible import may_hide
from aggregator.wire.codec import encode

from .strategies import json_values, server, tool


def _tools(properties: Any) -> Sequence[ToolRecord]:
    """Return the tool with these arguments; nothing if the catalog leaves it out."""
    definition = tool("t", inputSchema={"type": "object", "properties": properties})
    return validate_tools(server(), [definition], ambiguous=False, name_limit=47)[0]


def _tool(properties: Any) -> ToolRecord:
    (record,) = _tools(properties)
    return record


STRING = {"type": "string"}
CASES: list[tuple[Any, str, Any]] = [
    (STRING, "x", "x"),
    (STRING, "12345", "12345"),
    (STRING, "true", "true"),
    (STRING, "", ""),
    (STRING, "a=b=c", "a=b=c"),
    ({"type": "integer"}, "42", 42),
    ({"type": "integer"}, "100000000000000000000000", 10**23),
    ({"type": "number"}, "1.5", 1.5),
    ({"type": "boolean"}, "true", True),
    ({"type": "array"}, '["a", 1]', ["a", 1]),
    ({"type": "object"}, '{"a": 1}', {"a": 1}),
    ({"type": "integer"}, "many", "many"),
    ({"type": "integer"}, "9" * 5_000, "9" * 5_000),
    ({"type": "number"}, "1e999", "1e999"),
    ({}, "NaN", "NaN"),
    ({}, "42", 42),
    ({}, "plain text", "plain text"),
    ({}, "null", None),
    # What may be text and may not be a number stays text, however it looks: how pydantic writes `str | None`.
    ({"type": ["string", "null"]}, "12345", "12345"),
    ({"anyOf": [STRING, {"type": "null"}]}, "12345", "12345"),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "12345", 12345),
    ({"enum": ["1", "2"]}, "1", "1"),
]


@pytest.mark.parametrize(("schema", "text", "expected"), CASES)
def test_a_value_is_read_as_the_schema_says(schema: dict[str, Any], text: str, expected: Any) -> None:
    assert _parse_pairs([f"key={text}"], _tool({"key": schema})) == {"key": expected}


def test_keys_the_schema_does_not_name_are_read_as_json_where_they_are() -> None:
    assert _parse_pairs(["a=1", "b=x", "c=[1]"], _tool({})) == {"a": 1, "b": "x", "c": [1]}
    assert _parse_pairs([], _tool({})) == {}


@pytest.mark.parametrize("pair", ["", "x", "=x", "="])
def test_what_is_no_pair_says_so(pair: str) -> None:
    with pytest.raises(OperatorError, match="is not key=value"):
        _parse_pairs([pair], _tool({}))


@pytest.mark.parametrize("properties", [[], None, {"key": True}, {"key": {"type": []}}])
def test_a_schema_nobody_can_read_is_no_obstacle(properties: Any) -> None:
    assert _parse_pairs(["key=1"], _tool(properties)) == {"key": 1}


# Where names have characters that nobody sees, a tool is left out.
@given(json_values().filter(lambda value: not may_hide(encode(value))), st.text(max_size=20))
def test_any_schema_and_any_text(properties: Any, text: str) -> None:
    for record in _tools(properties):
        assert set(_parse_pairs([f"key={text}"], record)) == {"key"}


def test_json_arguments() -> None:
    assert _parse_json('{"city": "北京", "n": [1]}') == {"city": "北京", "n": [1]}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[1]", "must be an object"),
        ("null", "must be an object"),
        ('{"n": 1e999}', "not JSON: 1e999 is no number"),
        ('{"n": NaN}', "not JSON: NaN is no number"),
        ('{"n": ' + "[" * 100_000 + "]" * 100_000 + "}", "not JSON: nested too deeply"),
    ],
)
def test_json_arguments_that_are_none(text: str, says: str) -> None:
    with pytest.raises(OperatorError, match=says):
        _parse_json(text)
