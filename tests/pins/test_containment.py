"""Containment of schemas: the proof that one takes what the other takes, held against the validator of calls."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.pins.decide.containment import takes_all
from aggregator.schemas.check import compile_check
from aggregator.schemas.fault import UnusableSchema
from tests.laws import examples
from tests.pins.oracle import VALUES, accepts, edited, roots

OBJECTS = [value for value in VALUES if isinstance(value, dict)]


def object_of(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def validator(schema: Any) -> Callable[[Any], bool] | None:
    """Return the check of calls against a schema; None if it cannot be compiled, as that of a tool that is left out."""
    try:
        check = compile_check(schema)
    except UnusableSchema:
        return None
    return lambda value: check.at_once(value) == ()


def check_law(before: Any, after: Any) -> None:
    """Check that a proof holds for every value: of models, which send what is named, and of JSON Schema."""
    old, new = validator(before), validator(after)
    if old is None or new is None:
        return
    if takes_all({**before, "type": "object"}, after, named=True):
        wrong = [value for value in OBJECTS if accepts(before, value) and old(value) and not new(value)]
        assert not wrong
    if takes_all(before, after, named=False):
        assert not [value for value in VALUES if old(value) and not new(value)]


@settings(max_examples=examples(240))
@given(roots().flatmap(lambda root: st.tuples(st.just(root), edited(root))))
def test_what_is_proven_of_an_edit_is_true(schemas: tuple[Any, Any]) -> None:
    check_law(*schemas)
    check_law(*reversed(schemas))


@settings(max_examples=examples(120))
@given(roots(), roots())
def test_what_is_proven_of_unlike_schemas_is_true(before: Any, after: Any) -> None:
    check_law(before, after)


TEXT, NUMBER, WHOLE, NULL = {"type": "string"}, {"type": "number"}, {"type": "integer"}, {"type": "null"}
TREE = {**object_of(value=TEXT, next={"$ref": "#"})}
# What an upgrade does, and approved calls go on.
GOES_ON: list[tuple[Any, Any]] = [
    (object_of(a={**NUMBER, "multipleOf": 4}), object_of(a={**NUMBER, "multipleOf": 2})),
    (object_of(a={"allOf": [{"multipleOf": 3}, {"multipleOf": 4}]}), object_of(a={"multipleOf": 2})),
    (object_of(a=WHOLE), object_of(a={**WHOLE, "multipleOf": 1})),
    (object_of(a={"enum": [2, 4, "x"]}), object_of(a={"multipleOf": 2})),
    (object_of(a=TEXT), object_of(a={**TEXT, "multipleOf": 2})),
    (object_of(a=TEXT), object_of(a={**TEXT, "description": "Other", "title": "A", "default": "x"})),
    (object_of(a=TEXT), object_of(a=TEXT, b=WHOLE)),
    (object_of("a", a=TEXT), object_of(a=TEXT)),
    (object_of(), object_of(a=TEXT)),
    ({"type": "object"}, object_of(a=TEXT)),
    ({"type": "object"}, {**object_of(), "additionalProperties": False}),
    (object_of(a=TEXT), {**object_of(a=TEXT), "additionalProperties": False}),
    ({**object_of(a=TEXT), "additionalProperties": False}, object_of(a=TEXT)),
    (object_of(a=TEXT, b=TEXT), object_of(a=TEXT)),
    (object_of(a=WHOLE), object_of(a=NUMBER)),
    (object_of(a=TEXT), object_of(a={"type": ["string", "null"]})),
    (object_of(a=TEXT), object_of(a={"anyOf": [TEXT, NULL], "default": None})),
    (object_of(a={"type": ["string", "null"]}), object_of(a={"anyOf": [NULL, TEXT]})),
    (object_of(a={"anyOf": [TEXT, NULL]}), object_of(a={"type": ["string", "null"]})),
    (object_of(a={"enum": ["x", "y"]}), object_of(a={"enum": ["y", "z", "x"]})),
    (object_of(a={"enum": ["x", "y"], "type": "string"}), object_of(a=TEXT)),
    (object_of(a={"const": "x"}), object_of(a={"enum": ["x"]})),
    (object_of(a={"anyOf": [{"const": "x"}, {"const": "y"}]}), object_of(a={"enum": ["x", "y"]})),
    (object_of(a={"enum": ["x", "y"]}), object_of(a={"anyOf": [{"const": "x"}, {"const": "y"}]})),
    (object_of(a={"type": "boolean"}), object_of(a={"enum": [True, False]})),
    (object_of(a={**TEXT, "pattern": "^x"}), object_of(a=TEXT)),
    (object_of(a={**TEXT, "format": "uri"}), object_of(a={**TEXT, "format": "uri", "description": "An address"})),
    (object_of(a={**WHOLE, "minimum": 1}), object_of(a={**WHOLE, "minimum": 0})),
    (object_of(a={**WHOLE, "exclusiveMinimum": 0}), object_of(a={**WHOLE, "minimum": 0})),
    (object_of(a={**WHOLE, "exclusiveMinimum": 0}), object_of(a={**WHOLE, "minimum": 1})),
    (object_of(a={**WHOLE, "minimum": 1}), object_of(a={**WHOLE, "exclusiveMinimum": 0})),
    (object_of(a={**WHOLE, "exclusiveMaximum": 9.5}), object_of(a={**WHOLE, "maximum": 9})),
    (object_of(a={**WHOLE, "maximum": 9}), object_of(a={**WHOLE, "exclusiveMaximum": 10})),
    (object_of(a=WHOLE), object_of(a={**WHOLE, "minimum": -(2**53) + 1, "maximum": 2**53 - 1})),
    (object_of(a={**TEXT, "maxLength": 5}), object_of(a={**TEXT, "maxLength": 9})),
    (object_of(a={"type": "array", "items": WHOLE}), object_of(a={"type": "array", "items": NUMBER})),
    (
        object_of(a={"type": "object", "additionalProperties": {}}),
        object_of(a={"type": "object", "propertyNames": TEXT, "additionalProperties": {}}),
    ),
    (
        {**object_of(a={"$ref": "#/$defs/I"}), "$defs": {"I": object_of("x", x=TEXT)}},
        object_of(a=object_of("x", x=TEXT, y=TEXT)),
    ),
    (
        object_of(a=object_of(x=TEXT)),
        {**object_of(a={"$ref": "#/definitions/I"}), "definitions": {"I": object_of(x=TEXT)}},
    ),
    (
        {**object_of(a={"anyOf": [{"$ref": "#/$defs/I"}, NULL]}), "$defs": {"I": object_of(x=TEXT)}},
        {**object_of(a={"anyOf": [{"$ref": "#/$defs/I"}, NULL]}), "$defs": {"I": object_of(x=TEXT, y=TEXT)}},
    ),
    (
        TREE,
        {
            **object_of(value={}, next={"$ref": "#/$defs/T"}),
            "$defs": {"T": object_of(value=TEXT, next={"$ref": "#/$defs/T"})},
        },
    ),
    (
        object_of(a={"oneOf": [object_of("k", k={"const": "x"}, v=TEXT), object_of("k", k={"const": "y"})]}),
        object_of(
            a={
                "oneOf": [
                    object_of("k", k={"const": "x"}, v=TEXT, w=TEXT),
                    object_of("k", k={"const": "y"}),
                    object_of("k", k={"const": "z"}),
                ]
            }
        ),
    ),
    (
        {**object_of(a=TEXT, b=TEXT), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        object_of(a=TEXT, b=TEXT, c=TEXT),
    ),
    (object_of(a={"not": {"const": 1}}), object_of(a={"not": {"const": 1, "title": "One"}})),
]
# What breaks calls as they were approved, or cannot be decided.
BREAKS: list[tuple[Any, Any]] = [
    (object_of(a={**NUMBER, "multipleOf": 2}), object_of(a={**NUMBER, "multipleOf": 4})),
    (object_of(a={**NUMBER, "multipleOf": 3}), object_of(a={**NUMBER, "multipleOf": 2})),
    (object_of(a={**NUMBER, "multipleOf": True}), object_of(a={**NUMBER, "multipleOf": 1})),
    (object_of(a=NUMBER), object_of(a={**NUMBER, "multipleOf": 1})),
    (object_of(a=WHOLE), object_of(a={**WHOLE, "multipleOf": 2})),
    (object_of(a={"enum": [2, 3]}), object_of(a={"multipleOf": 2})),
    (object_of(a=TEXT), object_of("a", a=TEXT)),
    (object_of(a=TEXT), object_of("b", a=TEXT, b=TEXT)),
    (object_of(a=NUMBER), object_of(a=WHOLE)),
    (object_of(a={"type": ["string", "null"]}), object_of(a=TEXT)),
    (object_of(a={}), object_of(a=TEXT)),
    (object_of(a=TEXT, b=TEXT), {**object_of(a=TEXT), "additionalProperties": False}),
    ({**object_of(a=TEXT), "additionalProperties": True}, object_of(a=TEXT, b=WHOLE)),
    (object_of(a={"type": "object"}), object_of(a=object_of(x=TEXT))),
    (object_of(a={"type": "object"}), object_of(a={"type": "object", "additionalProperties": False})),
    (object_of(a={"enum": ["x", "y"]}), object_of(a={"enum": ["x"]})),
    (object_of(a={"enum": [1]}), object_of(a={"enum": [True]})),
    (object_of(a=TEXT), object_of(a={**TEXT, "enum": ["x"]})),
    (object_of(a=TEXT), object_of(a={"const": "x"})),
    (object_of(a=TEXT), object_of(a={**TEXT, "pattern": "^x"})),
    (object_of(a={**TEXT, "pattern": "x"}), object_of(a={**TEXT, "pattern": "y"})),
    (object_of(a=TEXT), object_of(a={**TEXT, "format": "uri"})),
    (object_of(a=WHOLE), object_of(a={**WHOLE, "maximum": 9})),
    (object_of(a={**WHOLE, "maximum": 9}), object_of(a={**WHOLE, "exclusiveMaximum": 9})),
    (object_of(a={**WHOLE, "exclusiveMinimum": 0}), object_of(a={**WHOLE, "minimum": 2})),
    (object_of(a={**WHOLE, "minimum": 1}), object_of(a={**WHOLE, "exclusiveMinimum": 1})),
    (object_of(a={**WHOLE, "exclusiveMaximum": 9.5}), object_of(a={**WHOLE, "exclusiveMaximum": 9})),
    (object_of(a={**NUMBER, "exclusiveMinimum": 0}), object_of(a={**NUMBER, "minimum": 1})),
    (object_of(a={**WHOLE, "minimum": 0}), object_of(a={**WHOLE, "minimum": float("inf")})),
    (object_of(a=NUMBER), object_of(a={**NUMBER, "maximum": 2**53 - 1})),
    (object_of(a=TEXT), object_of(a={**TEXT, "minLength": 1})),
    (object_of(a={"type": "array"}), object_of(a={"type": "array", "items": TEXT})),
    (object_of(a={"type": "array"}), object_of(a={"type": "array", "uniqueItems": True})),
    (object_of(a=object_of(x=TEXT)), object_of(a=object_of("x", x=TEXT))),
    (
        {**object_of(a={"$ref": "#/$defs/I"}), "$defs": {"I": TEXT}},
        {**object_of(a={"$ref": "#/$defs/I"}), "$defs": {"I": WHOLE}},
    ),
    (
        {**object_of(a={"not": {"$ref": "#/$defs/I"}}), "$defs": {"I": TEXT}},
        {**object_of(a={"not": {"$ref": "#/$defs/I"}}), "$defs": {"I": {}}},
    ),
    (object_of(a=TEXT), object_of(a={"oneOf": [TEXT, {"minLength": 2}]})),
    (object_of(a=TEXT), object_of(a={**TEXT, "x-mcp-header": "A"})),
    (object_of(a=TEXT), {**object_of(a=TEXT), "dependentRequired": {"a": ["b"]}}),
    (object_of(a=TEXT), object_of(a={"$ref": "https://other.example/schema"})),
    (object_of(a=TEXT), object_of(a={"$ref": "#/$defs/none"})),
    (object_of(a=TEXT), {**object_of(a={"$ref": "#/$defs/a"}), "$defs": {"a": {"$ref": "#/$defs/a"}}}),
    (
        {"$schema": "http://json-schema.org/draft-07/schema#", **object_of(a={"not": {"dependencies": {"x": ["y"]}}})},
        object_of(a={"not": {"dependencies": {"x": ["y"]}}}),
    ),
    (
        {"$schema": "http://json-schema.org/draft-07/schema#", **object_of(a={"$ref": "#/definitions/d", "const": 1})}
        | {"definitions": {"d": {}}},
        {**object_of(a={"$ref": "#/$defs/d"}), "$defs": {"d": {"const": 1}}},
    ),
    ({"$schema": "http://json-schema.org/draft-04/schema#", **object_of(a={"const": 1})}, object_of(a={"const": 1})),
    (object_of(a=TEXT), "no schema"),
    (object_of(a=TEXT), {"required": 7}),
    (object_of(a=TEXT), {"properties": {"a": {"type": [[]]}}}),
]


@pytest.mark.parametrize(("before", "after"), GOES_ON)
def test_an_upgrade_that_takes_what_was_approved_is_proven_to(before: Any, after: Any) -> None:
    assert takes_all(before, after, named=True)


BREAKS.append((object_of(a={"enum": ["x"], "type": "integer"}), object_of(a={"enum": ["x"], "type": 1.5})))


@pytest.mark.parametrize(("before", "after"), BREAKS)
def test_what_may_break_an_approved_call_is_not_proven(before: Any, after: Any) -> None:
    assert not takes_all(before, after, named=True)


def test_an_object_without_names_may_have_any_property_of_json_schema() -> None:
    before, after = object_of(a=TEXT), object_of(a=TEXT, b=WHOLE)
    assert takes_all(before, after, named=True)
    assert not takes_all(before, after, named=False)
    assert takes_all({**before, "additionalProperties": False}, after, named=False)


def test_a_schema_of_unbounded_cost_is_not_decided() -> None:
    """Cases of cases: each level of one has twice as many as the one above."""
    many: Any = TEXT
    for at in range(9):
        many = {"anyOf": [{"allOf": [many, {"maxLength": at}]}, {"allOf": [many, {"minLength": at}]}]}
    assert not takes_all(
        object_of(a=many), object_of(a={"anyOf": [{**TEXT, "maxLength": 1}, {**TEXT, "pattern": "x"}]}), named=True
    )
    listed = [{"const": at} for at in range(5_000)]
    assert not takes_all(object_of(a={"anyOf": listed}), object_of(a={"anyOf": listed[1:]}), named=True)


@pytest.mark.parametrize("branch", [True, {}, {"type": "object"}])
def test_equal_branches_of_one_of_take_nothing(branch: Any) -> None:
    assert not takes_all({"type": "object"}, {"oneOf": [branch, branch]}, named=False)
    assert takes_all({"type": "object"}, {"oneOf": [branch]}, named=False)
