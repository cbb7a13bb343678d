"""Schemas that no model API takes: mended where it is clear what they mean, else named; sound ones stay as they are."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.catalog.schema_keywords import DialectRules, UnusableDefinition, dialect_of
from aggregator.catalog.schema_repair import repaired
from aggregator.schemas.check import compile_check
from aggregator.schemas.fault import UnusableSchema

Schema = dict[str, Any]


def known_dialect(uri: str | None) -> DialectRules:
    """A dialect that is known."""
    dialect = dialect_of(uri)
    assert dialect is not None
    return dialect


DRAFT_04 = known_dialect("http://json-schema.org/draft-04/schema#")


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
    ({"$id": "a#b"}, {}),
    ({"$id": "My Schema"}, {}),
    ({"$id": "#here"}, {"$anchor": "here"}),
    ({"$anchor": "no name"}, {}),
    ({"$recursiveAnchor": True, "$recursiveRef": 3, "$vocabulary": []}, {}),
    ({"$schema": "http://json-schema.org/draft-07/schema#"}, {}),
    ({"examples": "x"}, {"examples": ["x"]}),
    ({"examples": {"a": {"value": 1}}}, {}),
    ({"dependentRequired": {"a": "b", "c": ["d"], "e": [1]}}, {"dependentRequired": {"a": ["b"], "c": ["d"]}}),
    ({"dependentRequired": ["a"]}, {}),
    ({"dependencies": {"a": [1, "b"], "c": {"type": "int"}}}, {"dependencies": {"a": ["b"], "c": {"type": "integer"}}}),
    ({"dependencies": []}, {}),
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
    ({"$dynamicRef": "#gone"}, "leads to no schema"),
    ({"dependencies": {"a": "b"}}, "no schema stands at /properties/x/dependencies/a"),
    ({"$ref": "#/properties/x"}, "back to itself"),
    ({"allOf": [{"not": {"$ref": "#/properties/x"}}]}, "back to itself"),
    ({"x-own": {"type": "file"}, "$ref": "#/properties/x/x-own"}, "no sound schema"),
    ({"x-own": {"$ref": "#/gone"}, "$ref": "#/properties/x/x-own"}, "leads to no schema"),
]
SOUND: list[Any] = [
    True,
    {},
    {"type": ["string", "null"], "minLength": 1.0, "pattern": r"^(?<year>\d{4})-[\w-.]+\p{L}[[a]"},
    {"enum": [{"type": "int"}], "const": {"type": "int"}, "default": {"required": True}, "examples": [{"type": 3}]},
    {"properties": {"type": {"type": "string"}, "required": {"type": "boolean"}, "$ref": {}, "properties": {}}},
    {"$ref": "#"},
    {"items": {"$ref": "#/properties/x"}},
    {"x-own": {"items": {"$ref": "#/properties/x"}}, "$ref": "#/properties/x/x-own"},
    {"$dynamicAnchor": "node", "items": {"$dynamicRef": "#node"}, "dependencies": {"a": ["b"], "c": {}}},
    {"$defs": {"a b/c": {}}, "$ref": "#/properties/x/$defs/a%20b~1c"},
    {"$anchor": "here", "items": {"$ref": "#here"}},
    {"$id": "https://example.com:80/x:y#"},
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
    mended = repaired(holding({"exclusiveMinimum": True, "type": "int", "minimum": 0}), DRAFT_04)[0]
    assert mended["properties"]["x"] == {"exclusiveMinimum": True, "type": "integer", "minimum": 0}
    odd = holding({"exclusiveMinimum": True, "maximum": 1, "exclusiveMaximum": 5, "required": [], "items": True})
    mended = repaired(odd, DRAFT_04)[0]
    assert mended["properties"]["x"] == {"maximum": 1, "items": {}}


def test_a_dialect_is_known_in_either_scheme() -> None:
    """C5: `https` where the URI of the dialect has `http` is common; the schema has the URI itself then."""
    schema = {"$schema": "https://json-schema.org/draft-07/schema#", "items": [{}]}
    dialect = known_dialect("https://json-schema.org/draft-07/schema#")
    assert repaired(schema, dialect)[0] == {**schema, "$schema": "http://json-schema.org/draft-07/schema"}
    assert [dialect_of(odd) for odd in (7, "", "http://example.com/schema")] == [None, None, None]


def test_items_are_a_list_before_2020_12() -> None:
    schema = holding({"items": [{"type": "string"}, True], "additionalItems": False})
    for old in ("http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2019-09/schema"):
        assert repaired(schema, known_dialect(old))[0] is schema
    for uri in (None, "https://json-schema.org/draft/2020-12/schema"):
        mended = repaired(schema, known_dialect(uri))[0]["properties"]["x"]
        assert (mended["prefixItems"], mended["items"]) == ([{"type": "string"}, True], False)


DIALECTS = (
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    None,
)
# Every keyword of a metaschema.
KEYWORDS = (
    *("type", "enum", "const", "required", "dependentRequired", "dependencies", "dependentSchemas"),
    *("pattern", "format", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "minContains"),
    *("maxContains", "minProperties", "maxProperties", "minimum", "maximum", "multipleOf"),
    *("exclusiveMinimum", "exclusiveMaximum", "title", "description", "default", "examples", "deprecated"),
    *("readOnly", "writeOnly", "$comment", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"),
    *("$vocabulary", "$schema", "$ref", "$dynamicRef", "$recursiveRef", "contentEncoding", "contentMediaType"),
    *("contentSchema", "properties", "patternProperties", "additionalProperties", "propertyNames", "items"),
    *("additionalItems", "prefixItems", "contains", "unevaluatedItems", "unevaluatedProperties", "allOf", "anyOf"),
    *("oneOf", "not", "if", "then", "else", "$defs", "definitions"),
)
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 3, 1.5, 10**30, "", "x", "#", "#here", "#/x", "#/properties/x", "int", "(", "a b"),
    *(
        "https://x.example/r",
        "https://x.example/a",
        "a",
        "a#here",
        "https://x.example/r#/$defs/b",
        "http://[",
        "#/$defs/b",
    ),
    *("5", "true", [], ["a"], ["a", "a"], [3], [None], [True], [[]], [{}], [{"type": "int"}], {}, {"a": 3}),
    *({"a": "x"}, {"a": ["b"]}, {"a": []}, {"a": {"type": "int"}}, {"a": None}, {"a": True}, {"(": {}}),
    *({"type": "file"}, {"$ref": "#/x"}, {"$ref": "#/properties/x"}),
)
PLACES: tuple[Callable[[Any], Schema], ...] = (
    lambda odd: {"type": "object", **odd},
    holding,
    lambda odd: holding({"anyOf": [{"type": "array", "items": odd}]}),
    lambda odd: {**holding({"$ref": "#/definitions/a"}), "definitions": {"a": odd}},
    lambda odd: {**holding({"$ref": "#/components/a"}), "components": {"a": odd}},
    lambda odd: {**holding({"$id": "https://x.example/a", "items": odd}), "$defs": {"b": {"type": "integer"}}},
    lambda odd: {**holding({"$ref": "a"}), "$id": "https://x.example/r", "$defs": {"a": {"$id": "a"}, "b": odd}},
    lambda odd: {**holding({"$ref": "a"}), "$id": "https://x.example/r", "definitions": {"a": {"$id": "a"}, "b": odd}},
    lambda odd: {**holding({"$ref": "a"}), "$id": "https://x.example/r", "definitions": {"a": {"id": "a", **odd}}},
    lambda odd: {**holding({"$ref": "#/x-own"}), "x-own": {"$id": "https://x.example/a", "items": odd}},
)


@pytest.mark.parametrize("dialect", DIALECTS, ids=str)
@pytest.mark.parametrize("keyword", KEYWORDS)
def test_a_tool_that_is_listed_can_be_called(keyword: str, dialect: str | None) -> None:
    """C5, E9: no value of any keyword, at any place, leaves a schema that arguments cannot be checked against."""
    named = {} if dialect is None else {"$schema": dialect}
    compiled: list[Schema] = []
    for odd in ODD:
        for place in PLACES:
            schema = {**place({keyword: odd}), **named}
            try:
                found, _ = repaired(schema, known_dialect(dialect))
            except UnusableDefinition:
                continue
            if found not in compiled:
                compile_check(found)
                compiled.append(found)


WITHIN: Schema = {"$id": "https://x.example/a", "$defs": {"b": {"$anchor": "here", "type": "integer"}}}
AROUND: Schema = {"type": "object", "$defs": {"b": {"type": "string"}}}


@pytest.mark.parametrize(
    ("inner", "root", "usable"),
    [
        ({"items": {"$ref": "#/$defs/b"}}, {}, True),
        ({"items": {"$ref": "#here"}}, {}, True),
        ({"items": {"$ref": "a#here"}}, {}, True),
        ({"items": {"$ref": "#/$defs/gone"}}, {}, False),
        ({"items": {"$ref": "#/properties/x"}}, {}, False),
        ({}, {"$ref": "https://x.example/a#here"}, True),
        ({}, {"$ref": "#/properties/x/$defs/b"}, True),
        ({}, {"$ref": "#here"}, False),
        ({}, {"$ref": "a"}, False),
        ({}, {"$id": "https://x.example/r", "$ref": "a#/$defs/b"}, True),
        ({}, {"$id": "https://x.example/r", "$ref": "/a"}, True),
        ({"$ref": "#"}, {}, False),
        ({"items": {"$ref": "#"}}, {}, True),
        ({}, {"allOf": [{"$ref": "https://x.example/b"}]}, False),
    ],
)
def test_an_id_inside_names_a_resource(inner: Schema, root: Schema, usable: bool) -> None:
    """C5, E9: `#` means the schema with the nearest id; a tool is listed if, and only if, it can be called."""
    schema = {**AROUND, "properties": {"x": {**WITHIN, **inner}}, **root}
    if usable:
        assert repaired(schema) == (schema, [])
        compile_check(schema)
    else:
        with pytest.raises(UnusableDefinition):
            repaired(schema)
        with pytest.raises(UnusableSchema):
            compile_check(schema)


@pytest.mark.parametrize(
    ("named", "reference", "dialect"),
    [
        (
            {"$dynamicAnchor": "n"},
            {"$dynamicRef": "https://x.example/a#n"},
            "https://json-schema.org/draft/2020-12/schema",
        ),
        ({"$recursiveAnchor": True}, {"$recursiveRef": "#"}, "https://json-schema.org/draft/2019-09/schema"),
    ],
)
def test_a_round_that_dynamic_references_alone_close(named: Schema, reference: Schema, dialect: str) -> None:
    """C5: one of the schemas that such a reference may lead to leads back."""
    one = {"$id": "https://x.example/a", **named}
    other = {"$id": "https://x.example/b", **named, "allOf": [reference]}
    schema = {"$schema": dialect, "type": "object", "properties": {"a": one, "b": other}}
    with pytest.raises(UnusableDefinition, match="without end"):
        repaired(schema, known_dialect(dialect))
    with pytest.raises(UnusableSchema, match="without end"):
        compile_check(schema)


def test_ids_of_draft_04() -> None:
    """C5: `id`, and one that begins with `#` is an anchor."""
    schema = {"id": "http://x.example/r", "definitions": {"a": {"id": "a.json"}, "b": {"id": "#b"}}}
    for reference in ("a.json", "http://x.example/a.json", "#b", "r#b"):
        repaired({**schema, "properties": {"x": {"$ref": reference}}}, DRAFT_04)
    with pytest.raises(UnusableDefinition, match="outside itself"):
        repaired({**schema, "properties": {"x": {"$ref": "b.json"}}}, DRAFT_04)


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
