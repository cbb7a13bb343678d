"""What a fault says, keyword by keyword."""

from typing import Any

import pytest

from aggregator.schemas.check import compile_check
from aggregator.schemas.fault import Fault

DRAFT_04 = "http://json-schema.org/draft-04/schema#"
SAY = {"type": "object", "properties": {"kind": {"const": "say"}, "text": {"type": "string"}}, "required": ["text"]}
MOVE = {"type": "object", "properties": {"kind": {"const": "move"}, "to": {"type": "integer"}}, "required": ["to"]}

CASES: list[tuple[dict[str, Any], Any, tuple[str, str, str, str]]] = [
    ({"type": "string"}, 5, ("", "a string", "a number (5)", "type")),
    ({"type": ["string", "null"]}, [1], ("", "a string or null", "an array of 1", "type")),
    ({"type": "boolean"}, "x" * 300, ("", "true or false", "a string of 300 characters", "type")),
    ({"type": "integer"}, 1.5, ("", "an integer", "a number (1.5)", "type")),
    ({"type": "object"}, 10**40, ("", "an object", "a number of more than 30 digits", "type")),
    ({"required": ["a/b"]}, {}, ("/a~1b", "required", "nothing", "required")),
    ({"enum": ["a", "b"]}, "c", ("", "one of 'a', 'b'", "a string ('c')", "enum")),
    (
        {"enum": [f"v{n}" for n in range(99)]},
        "v7x",
        ("", "one of 'v7', 'v97', 'v87' (99 in all)", "a string ('v7x')", "enum"),
    ),
    ({"const": None}, False, ("", "null", "false", "const")),
    ({"minimum": 1}, 0, ("", "at least 1", "a number (0)", "minimum")),
    ({"maximum": 1.5}, 2, ("", "at most 1.5", "a number (2)", "maximum")),
    ({"exclusiveMinimum": 1}, 1, ("", "more than 1", "a number (1)", "exclusiveMinimum")),
    ({"exclusiveMaximum": 1}, 1, ("", "less than 1", "a number (1)", "exclusiveMaximum")),
    (
        {"$schema": DRAFT_04, "minimum": 1, "exclusiveMinimum": True},
        1,
        ("", "more than 1", "a number (1)", "exclusiveMinimum"),
    ),
    ({"multipleOf": 0.1}, 0.25, ("", "a multiple of 0.1", "a number (0.25)", "multipleOf")),
    ({"minLength": 2}, "a", ("", "at least 2 characters", "a string of 1 characters", "minLength")),
    ({"maxItems": 1}, [1, 2], ("", "at most 1 items", "an array of 2", "maxItems")),
    ({"minProperties": 1}, {}, ("", "at least 1 properties", "an empty object", "minProperties")),
    ({"pattern": "^a"}, "b", ("", "a text that matches ^a", "a string ('b')", "pattern")),
    ({"uniqueItems": True}, [1, 2, 1.0], ("/2", "an item unlike the others", "a number (1.0)", "uniqueItems")),
    ({"items": {"type": "null"}}, [None, 1], ("/1", "null", "a number (1)", "type")),
    ({"contains": {"type": "null"}}, [1], ("", "at least 1 items that are null", "0", "contains")),
    (
        {"properties": {"city": {}}, "additionalProperties": False},
        {"cty": 1},
        ("/cty", "no property of this name; did you mean 'city'?", "a number (1)", "additionalProperties"),
    ),
    (
        {"unevaluatedProperties": False},
        {"x": 1},
        ("/x", "no property of this name", "a number (1)", "unevaluatedProperties"),
    ),
    (
        {"propertyNames": {"maxLength": 1}},
        {"xy": 1},
        ("/xy", "a name that is at most 1 characters", "the name 'xy'", "propertyNames"),
    ),
    (
        {"dependentRequired": {"a": ["b"]}},
        {"a": 1},
        ("/b", "required where 'a' is given", "nothing", "dependentRequired"),
    ),
    ({"not": {"type": "string"}}, "x", ("", "anything but string", "a string ('x')", "not")),
    ({"properties": {"x": False}}, {"x": 1}, ("/x", "no such property", "a number (1)", "false")),
    ({"if": {}, "then": {"type": "null"}}, 1, ("", "null", "a number (1)", "type")),
    ({"allOf": [{"type": "null"}]}, 1, ("", "null", "a number (1)", "type")),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 1, ("", "a string or null", "a number (1)", "type")),
    (
        {"anyOf": [{"type": "string", "minLength": 3}, {"type": "null"}]},
        "x",
        ("", "at least 3 characters", "a string of 1 characters", "minLength"),
    ),
    ({"oneOf": [SAY, MOVE]}, {"kind": "move"}, ("/to", "required", "nothing", "required")),
    ({"oneOf": [SAY, MOVE]}, {"kind": "fly"}, ("/kind", "one of 'say', 'move'", "a string ('fly')", "enum")),
    (
        {"oneOf": [{"type": "string"}, {"minLength": 1}]},
        "x",
        ("", "what fits exactly one of the alternatives", "a string ('x'), which fits 2", "oneOf"),
    ),
    (
        {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {},
        ("", "one of these: {a: any}; {b: any}", "an empty object", "anyOf"),
    ),
]


@pytest.mark.parametrize(("schema", "value", "said"), CASES, ids=[str(number) for number in range(len(CASES))])
def test_a_fault_says(schema: dict[str, Any], value: Any, said: tuple[str, str, str, str]) -> None:
    assert compile_check(schema).faults(value) == (Fault(*said),)


def test_several_at_once_in_the_order_of_the_schema() -> None:
    schema = {"properties": {"a": {"type": "string"}, "b": {"items": {"minimum": 1}}}, "required": ["c", "d"]}
    found = compile_check(schema).faults({"a": 1, "b": [0, 1, -1]})
    assert [fault.pointer for fault in found] == ["/c", "/d", "/a", "/b/0", "/b/2"]


def test_format_is_only_said_not_checked() -> None:
    assert compile_check({"format": "email"}).faults("no address") == ()


def test_a_fault_as_an_object() -> None:
    assert Fault("/a", "b", "c", "d").to_object() == {"pointer": "/a", "expected": "b", "got": "c", "keyword": "d"}


def test_what_is_no_json_is_a_fault_and_never_raises() -> None:
    check = compile_check({"type": "object", "additionalProperties": {"type": "string", "maxLength": 1}})
    for value in ("\ud800", {"\ud800": "\ud800"}, {1: 2}, {"x": object()}, float("nan"), 10**5000, (1,)):
        assert check.faults(value)
