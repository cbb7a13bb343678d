"""What is put right, and what is left alone."""

from typing import Any

import pytest

from aggregator.schemas.coerce import coerce

NUMBERS = {"type": "array", "items": {"type": "integer"}}
NOTE = {"type": "object", "properties": {"n": {"type": "integer"}}}
NULLABLE = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
REFERRED = {"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}

PUT_RIGHT: list[tuple[dict[str, Any], Any, Any, list[str]]] = [
    ({"type": "integer"}, "5", 5, [""]),
    ({"type": "integer"}, " -5 ", -5, [""]),
    ({"type": "number"}, "1.5e3", 1500.0, [""]),
    ({"type": "boolean"}, "true", True, [""]),
    ({"type": "boolean"}, "False", False, [""]),
    ({"enum": [1, 2]}, "2", 2, [""]),
    (NULLABLE, "3", 3, [""]),
    (REFERRED, "3", 3, [""]),
    (NOTE, '{"n": "5"}', {"n": 5}, ["", "/n"]),
    (NUMBERS, "[1, 2]", [1, 2], [""]),
    (NUMBERS, 7, [7], [""]),
    (NUMBERS, "7", [7], ["", "/0"]),
    (NUMBERS, ["1", 2], [1, 2], ["/0"]),
    ({"type": "array", "items": {"type": "string"}}, "a", ["a"], [""]),
    ({"properties": {"a": {"type": "string"}}}, {"a": None}, {}, ["/a"]),
    (
        {"properties": {"a/b": {"type": "null"}, "c": NUMBERS}},
        {"c": "7", "a/b": None},
        {"c": [7], "a/b": None},
        ["/c", "/c/0"],
    ),
    ({"allOf": [NOTE]}, {"n": "1"}, {"n": 1}, ["/n"]),
    ({"oneOf": [NOTE, {"type": "string"}]}, {"n": "1"}, {"n": 1}, ["/n"]),
]

LEFT_ALONE: list[tuple[dict[str, Any], Any]] = [
    ({"type": "string"}, "5"),
    ({"type": ["string", "integer"]}, "5"),
    ({}, "5"),
    ({"enum": ["5", 5]}, "5"),
    ({"type": "integer"}, "5.5"),
    ({"type": "integer"}, "five"),
    ({"type": "integer"}, "007"),
    ({"type": "integer"}, "9" * 50),
    ({"type": "boolean"}, 1),
    ({"type": "boolean"}, "yes"),
    ({"type": "string"}, 5),
    ({"type": "object"}, "{broken}"),
    ({"type": "object"}, "[1]"),
    ({"type": "array"}, "a"),
    (NUMBERS, "a"),
    (NUMBERS, None),
    ({"properties": {"a": {"type": "string"}}, "required": ["a"]}, {"a": None}),
    ({"properties": {"a": {}}}, {"a": None}),
    ({"properties": {"a": {"type": ["string", "null"]}}}, {"a": None}),
    ({"anyOf": [NOTE, {"type": "object"}]}, {"n": "1"}),
    ({"properties": {"x": {"$id": "other", "$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}}, {"x": "1"}),
    ({"$schema": "https://example.com/own", "type": "integer"}, "5"),
    ({"$schema": "http://json-schema.org/draft-07/schema#", **REFERRED, "$ref": "#/nowhere", "type": "integer"}, "5"),
]


@pytest.mark.parametrize(("schema", "value", "meant", "changed"), PUT_RIGHT)
def test_put_right(schema: dict[str, Any], value: Any, meant: Any, changed: list[str]) -> None:
    before = repr(value)
    assert coerce(schema, value) == (meant, changed)
    assert repr(value) == before, "the value itself stays as it came"


@pytest.mark.parametrize(("schema", "value"), LEFT_ALONE)
def test_left_alone(schema: dict[str, Any], value: Any) -> None:
    found, changed = coerce(schema, value)
    assert found is value
    assert changed == []


def test_a_very_large_value_is_left_alone() -> None:
    value = ["1"] * 100_000
    assert coerce(NUMBERS, value) == (value, [])
