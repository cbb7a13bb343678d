"""Which schemas can be checked with, what is said of the others, and what tightening does."""

from typing import Any

import pytest

from aggregator.schemas.check import compile_check
from aggregator.schemas.fault import UnusableSchema
from aggregator.schemas.structure.cost import Cost
from aggregator.schemas.structure.index import read
from aggregator.schemas.structure.measure import ValueTooLarge, measure

DRAFT_07 = "http://json-schema.org/draft-07/schema#"

UNUSABLE: list[tuple[dict[str, Any], str]] = [
    ({"$schema": "https://example.com/own"}, "its $schema, 'https://example.com/own', is not a dialect we know"),
    ({"$schema": 5}, "its $schema, 5, is not a dialect we know"),
    ({"$ref": "https://example.com/a.json"}, "the reference at /$ref leads out of it, to 'https://example.com/a.json'"),
    ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "the reference at /properties/a/$ref leads out of it"),
    ({"items": {"$ref": "#/$defs/a"}}, "the reference at /items/$ref leads nowhere: '#/$defs/a'"),
    ({"$ref": "#name"}, "the reference at /$ref leads nowhere"),
    ({"$ref": "#/required", "required": ["a"]}, "the reference at /$ref leads nowhere"),
    ({"$ref": "http://[::1#a"}, "'http://[::1#a' is no reference"),
    ({"$defs": {"a": {"$id": "a", "$schema": DRAFT_07}}}, "the part at /$defs/a names another $schema"),
    ({"properties": {"n": {"type": "int"}}}, "it is not a JSON Schema: .*at /properties/n/type"),
    ({"properties": {"n": {"required": True}}}, "it is not a JSON Schema: .*at /properties/n/required"),
    ({"patternProperties": {"(?=a)": {}}}, "linear time"),
]


@pytest.mark.parametrize(("schema", "why"), UNUSABLE)
def test_unusable(schema: dict[str, Any], why: str) -> None:
    with pytest.raises(UnusableSchema) as caught:
        compile_check(schema)
    assert why in str(caught.value) or all(part in str(caught.value) for part in why.split(".*"))


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "null"}}},
        {"$ref": "#/$defs/a%25b", "$defs": {"a%b": {"type": "null"}}},
        {"$ref": "#a", "$defs": {"x": {"$anchor": "a", "type": "null"}}},
        {"$id": "https://example.com/s", "$ref": "other", "$defs": {"x": {"$id": "other", "type": "null"}}},
        {"$id": "urn:x:y", "$ref": "#/$defs/x", "$defs": {"x": {"type": "null"}}},
        {"$schema": DRAFT_07, "$ref": "#a", "definitions": {"x": {"$id": "#a", "type": "null"}}},
        {"$schema": DRAFT_07.rstrip("#"), "type": "null"},
    ],
)
def test_what_lies_inside_is_found(schema: dict[str, Any]) -> None:
    check = compile_check(schema)
    assert check.faults(None) == ()
    assert [fault.expected for fault in check.faults(1)] == ["null"]


def test_a_tool_s_pattern_beyond_linear_time_is_left_out_with_a_warning() -> None:
    schema: dict[str, Any] = {"properties": {"a": {"pattern": "^(?!x)", "maxLength": 3}, "b": {"pattern": "^y"}}}
    check = compile_check(schema)
    assert check.warnings == (
        "the pattern at /properties/a/pattern is not checked: "
        "it is no regular expression that can be matched in linear time",
    )
    assert check.faults({"a": "x"}) == ()
    assert [fault.pointer for fault in check.faults({"a": "xxxx", "b": "x"})] == ["/a", "/b"]
    assert schema["properties"]["a"]["pattern"] == "^(?!x)", "the schema itself stays as it came"


def test_a_policy_s_pattern_beyond_linear_time_is_an_error() -> None:
    with pytest.raises(UnusableSchema, match="the pattern at /properties/a/pattern cannot be used"):
        compile_check({}, {"properties": {"a": {"pattern": "^(?!x)"}}})


def test_what_tightens_must_hold_too_each_in_its_own_dialect() -> None:
    old = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "properties": {"n": {"maximum": 5, "exclusiveMaximum": True}},
    }
    check = compile_check({"properties": {"n": {"type": "integer"}}}, {"properties": {"n": {"minimum": 1}}}, old)
    assert check.faults({"n": 4}) == ()
    assert [fault.keyword for fault in check.faults({"n": 5})] == ["exclusiveMaximum"]
    assert [fault.keyword for fault in check.faults({"n": 0})] == ["minimum"]
    assert [fault.keyword for fault in check.faults({"n": "x"})] == ["type"]


def test_the_same_fault_twice_is_said_once() -> None:
    assert len(compile_check({"required": ["a"]}, {"required": ["a"]}).faults({})) == 1


def test_a_schema_shared_inside_counts_as_often_as_it_is_read() -> None:
    schema: dict[str, Any] = {}
    for _ in range(40):
        schema = {"anyOf": [schema, schema]}
    with pytest.raises(UnusableSchema, match="holds more than"):
        compile_check(schema)


@pytest.mark.parametrize(
    ("schema", "recursive"),
    [
        ({"properties": {"a": {"$ref": "#/$defs/x"}, "b": {"$ref": "#/$defs/x"}}}, False),
        ({"allOf": [{"$ref": "#/$defs/x"}, {"$ref": "#/$defs/x"}], "items": {"$ref": "#/$defs/x"}}, False),
        ({"properties": {"a": {"$ref": "#"}}}, True),
        ({"items": {"$ref": "#"}}, True),
        ({"additionalProperties": {"anyOf": [{"type": "string"}, {"$ref": "#"}]}}, True),
    ],
)
def test_a_part_that_is_used_twice_is_not_recursive(schema: dict[str, Any], recursive: bool) -> None:
    """The time of a check has another bound if a schema applies to the inside of itself."""
    assert Cost(read({**schema, "$defs": {"x": {"type": "string"}}}), {}).recursive == recursive


def test_reading_tells_patterns_with_their_place() -> None:
    index = read({"properties": {"a/b": {"pattern": "x"}}, "patternProperties": {"^y": {}}})
    assert sorted(index.patterns) == [("/patternProperties", "^y"), ("/properties/a~1b/pattern", "x")]


def test_the_size_of_a_value_by_level() -> None:
    assert measure({"ab": ["xyz", 1], "c": {}}, characters=True) == ([1, 2, 2], [3, 0, 3])
    assert measure(5, characters=False) == ([1], [])


def test_a_number_without_end_is_not_let_past_a_limit() -> None:
    check = compile_check({"properties": {"n": {"maximum": 10, "minimum": -10}}})
    for number in (10**301, -(10**301), float("inf"), float("nan"), 10**5_000):
        assert check.faults({"n": number})
        with pytest.raises(ValueTooLarge):
            measure([number], characters=False)
