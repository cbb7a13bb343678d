"""Validation of a tool list: what is wrong with one tool costs at most that tool, and the rest stays as it came."""

import copy
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aggregator.catalog.catalog import Catalog
from aggregator.catalog.validate import validate_tools
from aggregator.config.server_config import ServerType
from aggregator.config.server_parts import ToolsConfig
from aggregator.domain.names import DEFAULT_NAME_LIMIT
from aggregator.domain.records import ToolRecord
from aggregator.wire.codec import decode
from aggregator.wire.headers import ParamHeader

from .strategies import ANY_TEXT, json_values, server, tool

GOOD = [tool("first", title="First", vendor={"kept": [1, None]}), tool("last")]


def _validate(
    definitions: list[Any], kind: ServerType = "stdio", **more: Any
) -> tuple[tuple[ToolRecord, ...], list[str]]:
    return validate_tools(server(kind=kind, **more), definitions, ambiguous=False, name_limit=DEFAULT_NAME_LIMIT)


def _nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"properties": {"p": schema}}
    return {"type": "object", **schema}


def _schema(**more: Any) -> dict[str, Any]:
    return {"type": "object", **more}


LEFT_OUT: dict[str, Any] = {
    "not an object": "tool",
    "null": None,
    "no name": {"inputSchema": _schema()},
    "name is a number": tool("x") | {"name": 7},
    "empty name": tool(""),
    "schema is a list": tool("x", inputSchema=[]),
    "schema is true": tool("x", inputSchema=True),
    "type is not object": tool("x", inputSchema={"type": "string"}),
    "type is a list": tool("x", inputSchema={"type": ["object", "null"]}),
    "unknown dialect": tool("x", inputSchema=_schema(**{"$schema": "https://example.com/mine"})),
    "dialect is no text": tool("x", inputSchema=_schema(**{"$schema": 7})),
    "refers outside": tool("x", inputSchema=_schema(properties={"p": {"$ref": "https://example.com/s.json"}})),
    "refers to a file": tool("x", inputSchema=_schema(properties={"p": {"$ref": "file:///etc/passwd"}})),
    "dynamic reference outside": tool("x", inputSchema=_schema(**{"$dynamicRef": "other.json#/x"})),
    "too deep": tool("x", inputSchema=_nested(120)),
    "too many values": tool("x", inputSchema=_schema(properties={"p": {"enum": list(range(100_001))}})),
    "too many subschemas": tool("x", inputSchema=_schema(properties={str(n): {} for n in range(5_001)})),
    "the same name again": tool("first"),
    "unhashable $id": tool("x", inputSchema=_schema(**{"$id": ["a"]})),
    "unhashable $id inside": tool("x", inputSchema=_schema(properties={"p": {"$id": {}}})),
    "a property that is called $id": tool("x", inputSchema=_schema(properties={"$id": {"type": "string"}})),
}
# These can be shown all the same.
SHOWN_NEVERTHELESS = frozenset({"unhashable $id", "unhashable $id inside", "a property that is called $id"})


@pytest.mark.parametrize("case", LEFT_OUT)
def test_a_defect_costs_that_tool_only(case: str) -> None:
    """Proves: E9, C17"""
    records, warnings = _validate([GOOD[0], LEFT_OUT[case], GOOD[1]])
    names = [record.own_name for record in records]
    assert [name for name in names if name != "x"] == ["first", "last"]
    if case not in SHOWN_NEVERTHELESS:
        assert "x" not in names
        assert len(warnings) == 1
        assert warnings[0].startswith("srv: ")
        assert "left out" in warnings[0]


MENDED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "no inputSchema": ({"name": "x"}, {"name": "x", "inputSchema": _schema()}),
    "inputSchema is null": ({"name": "x", "inputSchema": None}, {"name": "x", "inputSchema": _schema()}),
    "no type": (tool("x", inputSchema={"properties": {}}), tool("x", inputSchema=_schema(properties={}))),
    "outputSchema is text": (tool("x", outputSchema="any"), tool("x")),
    "outputSchema of too many values": (tool("x", outputSchema=_schema(enum=list(range(100_001)))), tool("x")),
    "outputSchema of too many subschemas": (
        tool("x", outputSchema=_schema(anyOf=[{"title": str(n)} for n in range(5_001)])),
        tool("x"),
    ),
    "outputSchema refers outside": (tool("x", outputSchema={"$ref": "http://example.com"}), tool("x")),
    "outputSchema of an unknown dialect": (tool("x", outputSchema={"$schema": "mine"}), tool("x")),
    "a header on an object": (
        tool("x", inputSchema=_schema(properties={"p": {"type": "object", "x-mcp-header": "P"}})),
        tool("x", inputSchema=_schema(properties={"p": {"type": "object"}})),
    ),
}


@pytest.mark.parametrize("case", MENDED)
def test_what_can_be_mended_is_and_nothing_else_changes(case: str) -> None:
    """Proves: C6"""
    definition, expected = MENDED[case]
    before = copy.deepcopy(definition)
    records, warnings = _validate([definition])
    assert [record.definition for record in records] == [expected]
    assert len(warnings) == 1
    assert "mended" in warnings[0]
    assert definition == before, "the upstream's own object was changed"


UNTOUCHED = [
    *GOOD,
    tool("dialects", inputSchema=_schema(**{"$schema": "http://json-schema.org/draft-07/schema#"})),
    tool(
        "own", inputSchema=_schema(**{"$id": "https://e.com/s", "$ref": "https://e.com/s#/$defs/a", "$defs": {"a": {}}})
    ),
    tool(
        "loop",
        inputSchema=_schema(**{"$defs": {"n": {"items": {"$ref": "#/$defs/n"}}}, "properties": {"n": {"$ref": "#"}}}),
    ),
    tool("data", inputSchema=_schema(properties={"p": {"const": {"$ref": "http://e.com"}, "default": {"$ref": "x"}}})),
    tool("out", outputSchema={"type": "array", "items": {"type": "number"}}),
    tool("named like a keyword", inputSchema=_schema(properties={"$ref": {"type": "string"}, "$schema": {}})),
    tool("many values", inputSchema=_schema(properties={"p": {"enum": list(range(20_000))}})),
    tool("number", inputSchema=_schema(properties={"n": {"type": "integer", "maximum": 10**29}})),
]


@pytest.mark.parametrize("definition", UNTOUCHED, ids=lambda definition: definition["name"])
@pytest.mark.parametrize("kind", ["stdio", "http", "sse"])
def test_a_sound_definition_is_passed_on_as_it_came(definition: dict[str, Any], kind: ServerType) -> None:
    """Proves: C6, C5"""
    records, warnings = _validate([definition], kind)
    assert [record.definition for record in records] == [definition]
    assert not warnings


def test_a_wrong_header_annotation_over_http_costs_the_tool() -> None:
    wrong = tool("x", inputSchema=_schema(properties={"p": {"type": "number", "x-mcp-header": "P"}}))
    records, warnings = _validate([wrong, *GOOD], "http")
    assert [record.own_name for record in records] == ["first", "last"]
    assert "left out" in warnings[0]


def test_a_right_header_annotation_is_remembered() -> None:
    right = tool("x", inputSchema=_schema(properties={"p": {"type": "string", "x-mcp-header": "Region"}}))
    (record,), warnings = _validate([right], "http")
    assert record.param_headers == {("p",): ParamHeader("mcp-param-region", whole=False)}
    assert record.definition == right
    assert not warnings


def test_taking_an_annotation_out_leaves_data_and_properties_of_that_name_alone() -> None:
    properties = {
        "bad": {"type": "number", "x-mcp-header": "P"},
        "x-mcp-header": {"type": "string", "default": "kept"},
        "data": {"const": {"x-mcp-header": "kept"}},
    }
    (record,), _ = _validate([tool("x", inputSchema=_schema(properties=properties))])
    assert record.definition["inputSchema"]["properties"] == {**properties, "bad": {"type": "number"}}


def test_taking_an_annotation_out_survives_deep_data() -> None:
    deep: Any = decode(b"[" * 600 + b"]" * 600)
    properties = {"bad": {"type": "number", "x-mcp-header": "P"}, "data": {"default": deep}}
    records, _ = _validate([tool("x", inputSchema=_schema(properties=properties)), *GOOD])
    assert [record.own_name for record in records][-2:] == ["first", "last"]


FILTERS: list[tuple[ToolsConfig, list[str]]] = [
    (ToolsConfig(), ["read_a", "read_b", "write_a", "Read_a"]),
    (ToolsConfig(include=("read_*",)), ["read_a", "read_b"]),
    (ToolsConfig(exclude=("*_a",)), ["read_b"]),
    (ToolsConfig(include=("read_*", "write_a"), exclude=("read_b",)), ["read_a", "write_a"]),
    (ToolsConfig(include=("read_[!a]",)), ["read_b"]),
    (ToolsConfig(include=("nothing",)), []),
]


@pytest.mark.parametrize(("tools", "expected"), FILTERS)
def test_include_and_exclude(tools: ToolsConfig, expected: list[str]) -> None:
    definitions = [tool(name) for name in ("read_a", "read_b", "write_a", "Read_a")]
    records, warnings = _validate(definitions, tools=tools)
    assert [record.own_name for record in records] == expected
    assert not warnings


def test_a_defect_in_a_tool_nobody_wants_is_not_worth_a_warning() -> None:
    records, warnings = _validate([*GOOD, tool("x", inputSchema=7)], tools=ToolsConfig(exclude=("x",)))
    assert len(records) == 2
    assert not warnings


@pytest.mark.parametrize(
    ("name", "expected"), [("slow_one", 300.0), ("slow_all", 60.0), ("other", 20.0), ("huge", 500.0)]
)
def test_the_first_matching_timeout_counts_up_to_the_maximum(name: str, expected: float) -> None:
    """Proves: A8, B4"""
    tools = ToolsConfig(timeout={"slow_one": 300.0, "slow_*": 60.0, "huge": 9_000.0})
    (record,), _ = _validate([tool(name)], tools=tools, timeout=20.0, limits={"max_timeout": 500.0})
    assert record.timeout == expected


def test_the_default_timeout_is_thirty_seconds() -> None:
    """Proves: B4"""
    assert [record.timeout for record in _validate([tool("x")])[0]] == [30.0]


DEFINITIONS = json_values() | st.fixed_dictionaries(
    {"name": ANY_TEXT},
    optional={
        "inputSchema": json_values()
        | st.dictionaries(
            st.sampled_from(["type", "$id", "$ref", "$schema", "properties", "x-mcp-header", "allOf", "const"]),
            json_values() | st.sampled_from(["object", "#", "http://e.com/a"]),
        )
        | st.fixed_dictionaries({"type": st.just("object"), "properties": json_values(leaves=4)}),
        "outputSchema": json_values(),
        "_meta": json_values(leaves=4),
    },
)


@given(st.lists(DEFINITIONS, max_size=4), st.sampled_from(["stdio", "http"]))
@example([tool("x", inputSchema=_schema(**{"$id": {}}))], "stdio")
def test_any_json_at_all_as_a_list_of_tools(definitions: list[Any], kind: ServerType) -> None:
    """Proves: E9"""
    records, warnings = _validate([*definitions, tool("the good one")], kind)
    assert all(isinstance(warning, str) for warning in warnings)
    assert records[-1].own_name == "the good one" or "the good one" in [r.own_name for r in records]
    for record in records:
        assert record.own_name
        assert record.definition["inputSchema"]["type"] == "object"
    page, following = Catalog(records).page("compatible", None)
    assert len(decode(bytes(page))) == len(records)
    assert following is None


def test_a_tool_too_deep_to_be_written_costs_only_itself() -> None:
    deep: Any = []
    for _ in range(5_000):
        deep = [deep]
    records, _ = _validate([tool("x", _meta={"deep": deep}), *GOOD])
    page, _ = Catalog(records).page("compatible", None)
    assert [definition["name"] for definition in decode(bytes(page))][-2:] == ["srv__first", "srv__last"]
