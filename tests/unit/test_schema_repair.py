"""Schemas that no model API takes: mended where it is clear what they mean, else named; sound ones stay as they are."""

from copy import deepcopy
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.catalog.schema_repair import UnusableDefinition, dialect_of, repaired

Schema = dict[str, Any]

DRAFT_04 = dialect_of("http://json-schema.org/draft-04/schema#")


def holding(schema: Any) -> Schema:
    """A schema of an object with one property."""
    return {"type": "object", "properties": {"x": schema}}


# What stands at `properties.x`, and what it is afterwards.
MENDED: list[tuple[Any, Any]] = [
    ({"type": "int"}, {"type": "integer"}),
    ({"type": " String"}, {"type": "string"}),
    ({"type": ["string", "int"]}, {"type": ["string", "integer"]}),
    ({"type": ["int", "integer"]}, {"type": "integer"}),
    ({"type": "any"}, {}),
    ({"type": []}, {}),
    ({"type": None}, {}),
    ("string", {"type": "string"}),
    ("any", {}),
    (None, {}),
    ({"pattern": "("}, {}),
    ({"pattern": "*a"}, {}),
    ({"pattern": "[b-a]"}, {}),
    ({"pattern": 7}, {}),
    ({"minimum": 0, "exclusiveMinimum": True}, {"minimum": 0, "exclusiveMinimum": 0}),
    ({"exclusiveMinimum": False}, {}),
    ({"exclusiveMaximum": True}, {}),
    ({"minLength": "5"}, {"minLength": 5}),
    ({"minLength": -1}, {}),
    ({"maxItems": 1.5}, {}),
    ({"multipleOf": 0}, {}),
    ({"minimum": "0.5"}, {"minimum": 0.5}),
    ({"minimum": float("inf")}, {}),
    ({"minimum": True}, {}),
    ({"enum": []}, {}),
    ({"enum": "a"}, {}),
    ({"anyOf": []}, {}),
    ({"allOf": None}, {}),
    ({"oneOf": ["int", {"type": "string"}]}, {"oneOf": [{"type": "integer"}, {"type": "string"}]}),
    ({"items": "string"}, {"items": {"type": "string"}}),
    ({"items": None}, {}),
    ({"items": []}, {}),
    ({"items": ["int"]}, {"prefixItems": [{"type": "integer"}]}),
    ({"items": [True], "prefixItems": [{}]}, {"prefixItems": [{}]}),
    ({"items": {"type": "int"}}, {"items": {"type": "integer"}}),
    ({"additionalProperties": "int"}, {"additionalProperties": {"type": "integer"}}),
    ({"not": {"type": "int"}}, {"not": {"type": "integer"}}),
    ({"patternProperties": {"(": {}, "a": {}}}, {"patternProperties": {"a": {}}}),
    ({"properties": []}, {}),
    ({"properties": None}, {}),
    ({"$defs": {"a": {"type": "int"}}}, {"$defs": {"a": {"type": "integer"}}}),
    ({"required": "a"}, {"required": ["a"]}),
    ({"required": ["a", "a", 7]}, {"required": ["a"]}),
    ({"required": {}}, {}),
    ({"required": None}, {}),
    ({"properties": {"a": {"required": True}}}, {"properties": {"a": {}}, "required": ["a"]}),
    ({"properties": {"a": {"required": False}}}, {"properties": {"a": {}}}),
    ({"properties": {"a": {"required": True}}, "required": ["b"]}, {"properties": {"a": {}}, "required": ["b", "a"]}),
    ({"title": 7, "description": ["a"], "format": None}, {}),
    ({"uniqueItems": "true"}, {}),
    ({"$id": [1]}, {}),
]
UNUSABLE: list[tuple[Any, str]] = [
    ({"type": "file"}, "none of JSON Schema"),
    ({"type": {"a": 1}}, "none of JSON Schema"),
    ({"type": ["string", 7]}, "none of JSON Schema"),
    ("no type", "no schema stands at /properties/x"),
    (7, "no schema stands at /properties/x"),
    ([], "no schema stands at /properties/x"),
    ({"properties": [1]}, "no schemas by name"),
    ({"properties": "a"}, "no schemas by name"),
    ({"anyOf": {"type": "string"}}, "no list of schemas"),
    ({"items": 7}, "no schema stands at /properties/x/items"),
    ({"$ref": [1]}, "is no text"),
    ({"$ref": "#/$defs/gone"}, "leads to no schema"),
    ({"$ref": "#gone"}, "leads to no schema"),
    ({"$ref": "#/type"}, "leads to no schema"),
    ({"anyOf": [{"$ref": "#/properties/y"}]}, "leads to no schema"),
]
SOUND: list[Any] = [
    True,
    {},
    {"type": ["string", "null"], "minLength": 1.0, "pattern": r"^(?<year>\d{4})-[\w-.]+\p{L}[[a]"},
    {"enum": [{"type": "int"}], "const": {"type": "int"}, "default": {"required": True}, "examples": "x"},
    {"properties": {"type": {"type": "string"}, "required": {"type": "boolean"}, "$ref": {}, "properties": {}}},
    {"$ref": "#"},
    {"$ref": "#/properties/x"},
    {"$defs": {"a b/c": {}}, "$ref": "#/properties/x/$defs/a%20b~1c"},
    {"$anchor": "here", "anyOf": [{"$ref": "#here"}]},
    {"$id": "https://example.com/x", "$defs": {"a": {}}, "$ref": "#/$defs/a"},
    {"x-own": {"type": "int"}, "nullable": True},
]


@pytest.mark.parametrize(("given", "meant"), MENDED, ids=str)
def test_what_is_clear_is_mended(given: Any, meant: Any) -> None:
    """C5, C6: with a note, and without a change to what the server sent."""
    schema = holding(given)
    before = deepcopy(schema)
    found, notes = repaired(schema)
    assert found["properties"]["x"] == meant
    assert notes
    assert all("/properties/x" in note for note in notes)
    assert repr(schema) == repr(before)
    assert repaired(found) == (found, [])
    assert jsonschema_rs.meta.is_valid(found)


@pytest.mark.parametrize(("given", "why"), UNUSABLE, ids=str)
def test_what_is_not_clear_is_named(given: Any, why: str) -> None:
    """C5"""
    with pytest.raises(UnusableDefinition, match=why):
        repaired(holding(given))


@pytest.mark.parametrize("given", SOUND, ids=str)
def test_a_sound_schema_is_the_same_object(given: Any) -> None:
    """C6: values that look like schemas are values."""
    schema = holding(given)
    assert repaired(schema) == (schema, [])
    assert repaired(schema)[0] is schema


def test_flags_are_bounds_of_draft_04() -> None:
    schema = holding({"minimum": 0, "exclusiveMinimum": True})
    assert repaired(schema, DRAFT_04)[0] is schema
    mended = repaired(holding({"exclusiveMinimum": True, "type": "int"}), DRAFT_04)[0]
    assert mended["properties"]["x"] == {"exclusiveMinimum": True, "type": "integer"}


def test_items_are_a_list_before_2020_12() -> None:
    schema = holding({"items": [{"type": "string"}, True], "additionalItems": False})
    for old in ("http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2019-09/schema"):
        assert repaired(schema, dialect_of(old))[0] is schema
    latest: list[Any] = [None, 7, "https://json-schema.org/draft/2020-12/schema"]
    for uri in latest:
        mended = repaired(schema, dialect_of(uri))[0]["properties"]["x"]
        assert (mended["prefixItems"], mended["items"]) == ([{"type": "string"}, True], False)


NAMES = st.sampled_from(
    ["type", "properties", "items", "anyOf", "required", "enum", "pattern", "minLength", "$ref", "not"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["int", "string", "x", "#", "(", "#/x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(NAMES, VALUES, max_size=4))
def test_any_schema_is_sound_afterwards_or_named(schema: Schema) -> None:
    """C5, E9: what comes out is a schema by the metaschema, and needs no more repair."""
    try:
        found, notes = repaired(schema)
    except UnusableDefinition:
        return
    assert (found is schema) is (not notes)
    assert repaired(found)[0] is found
    assert jsonschema_rs.meta.is_valid(found)
