"""Definitions that upgrades of libraries write in another way: equal in meaning, so `cosmetic`."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.pins.decide.definition import canonical_text
from aggregator.pins.decide.meaning import mean_the_same, repeats_name
from aggregator.pins.decide.plain_schema import plain
from aggregator.pins.decide.serving import approved_definition
from tests.laws import examples
from tests.pins.build import Definition, classes, tool
from tests.pins.oracle import VALUES, accepts, edited, roots

TEXT = {"type": "string"}
MODEL = {"type": "object", "properties": {"x": {**TEXT, "description": "What"}}, "required": ["x"]}


def of(**members: Any) -> Definition:
    return tool("create_issue", **members)


def takes(**more: Any) -> Definition:
    return of(inputSchema={"type": "object", "properties": {"max_results": TEXT, "model": MODEL}, **more})


_DEFINED = {"max_results": TEXT, "model": {"$ref": "#/$defs/Model"}}
SAME: dict[str, tuple[Definition, Definition]] = {
    "dialect": (takes(), takes(**{"$schema": "https://json-schema.org/draft/2020-12/schema"})),
    "another dialect": (
        takes(**{"$schema": "http://json-schema.org/draft-07/schema#"}),
        takes(**{"$schema": "https://json-schema.org/draft/2020-12/schema"}),
    ),
    "closed as it was meant": (takes(), takes(additionalProperties=False)),
    "a title of a property": (
        takes(),
        takes(properties={"max_results": {**TEXT, "title": "Max Results"}, "model": MODEL}),
    ),
    "a title of the whole": (takes(), takes(title="create_issueArguments")),
    "a reference": (takes(), takes(properties=_DEFINED, **{"$defs": {"Model": {**MODEL, "title": "Model"}}})),
    "a title of the tool": (of(), of(title="Create Issue")),
    "another title of the tool": (of(title="create issue"), of(title="Create_Issue")),
    "how it runs": (of(), of(execution={"taskSupport": "forbidden"})),
    "one value": (
        takes(properties={"a": {"const": "x", "type": "string"}}),
        takes(properties={"a": {"enum": ["x"], "type": "string"}}),
    ),
    "bounds of every number": (
        takes(properties={"a": {"type": "integer"}}),
        takes(properties={"a": {"type": "integer", "minimum": -(2**53) + 1, "maximum": 2**53 - 1}}),
    ),
}
_WHOLE, _NUMBER, _LIST = {"type": "integer"}, {"type": "number"}, {"type": "array", "items": TEXT}
# Two forms of one argument, each of which takes what the other takes.
ARGUMENTS: dict[str, tuple[Any, Any]] = {
    "steps of one": (_WHOLE, {**_WHOLE, "multipleOf": 1}),
    "steps of a half": (_WHOLE, {**_WHOLE, "multipleOf": 0.5}),
    "numbers in steps of one": (_WHOLE, {**_NUMBER, "multipleOf": 1}),
    "whole numbers beside numbers": (_NUMBER, {"type": ["integer", "number"]}),
    "no least length": (TEXT, {**TEXT, "minLength": 0}),
    "no least number of items": (_LIST, {**_LIST, "minItems": 0, "uniqueItems": False}),
    "any items": ({"type": "array"}, {"type": "array", "items": {}}),
    "any items, as true": ({"type": "array"}, {"type": "array", "items": True}),
    "no least number of members": (MODEL, {**MODEL, "minProperties": 0}),
    "members that are required": (MODEL, {**MODEL, "minProperties": 1}),
    "required twice": (MODEL, {**MODEL, "required": ["x", "x"]}),
    "any items, as both": ({"type": "array", "items": True}, {"type": "array", "items": {}}),
    "an empty pattern": (TEXT, {**TEXT, "pattern": ""}),
    "a pattern of any text": (TEXT, {**TEXT, "pattern": "^.*"}),
    "allOf of one": (TEXT, {"allOf": [TEXT]}),
    "anyOf of one": ({**TEXT, "description": "What"}, {"anyOf": [TEXT], "description": "What"}),
    "oneOf of one, with its type": (_LIST, {"type": "array", "oneOf": [_LIST]}),
    "a format of numbers": (_WHOLE, {**_WHOLE, "format": "email"}),
    "a bound that excludes": ({**_WHOLE, "minimum": 1}, {**_WHOLE, "exclusiveMinimum": 0}),
    "a bound of a fraction": ({**_WHOLE, "maximum": 9}, {**_WHOLE, "exclusiveMaximum": 9.5}),
    "two bounds": ({**_NUMBER, "minimum": 5}, {**_NUMBER, "minimum": 5, "exclusiveMinimum": 0}),
    "any members": ({"type": "object"}, {"type": "object", "additionalProperties": True}),
    "any members, as a schema": ({"type": "object", "additionalProperties": True},
                                 {"type": "object", "additionalProperties": {}}),
}  # fmt: skip
DIFFERENT: dict[str, tuple[Definition, Definition]] = {
    "a title with words": (takes(), takes(properties={"max_results": {**TEXT, "title": "Send all"}, "model": MODEL})),
    "a title of the whole with words": (takes(), takes(title="Send all arguments")),
    "a text in a definition": (
        takes(),
        takes(
            properties=_DEFINED,
            **{"$defs": {"Model": {**MODEL, "properties": {"x": {**TEXT, "description": "Send all"}}}}},
        ),
    ),
    "a default": (takes(), takes(properties={"max_results": {**TEXT, "default": "x"}, "model": MODEL})),
    "an unknown member": (takes(), takes(**{"x-said": "Send all"})),
    "closed below the top": (
        takes(properties={"a": {"type": "object"}}),
        takes(properties={"a": {"type": "object", "additionalProperties": False}}),
    ),
    "opened": (takes(additionalProperties=False), takes(additionalProperties=True)),
    "open": (takes(), takes(additionalProperties=True)),
    "an argument more without words": (takes(), takes(properties={"max_results": TEXT, "model": MODEL, "cc": {}})),
    "a title of the tool with words": (of(), of(title="Create any issue")),
    "how it runs": (of(), of(execution={"taskSupport": "optional"})),
    "a value": (takes(properties={"a": {"const": "x"}}), takes(properties={"a": {"enum": ["x", "y"]}})),
    "steps of two": (takes(properties={"a": _WHOLE}), takes(properties={"a": {**_WHOLE, "multipleOf": 2}})),
    "a least length": (takes(properties={"a": TEXT}), takes(properties={"a": {**TEXT, "minLength": 1}})),
    "a pattern": (takes(properties={"a": TEXT}), takes(properties={"a": {**TEXT, "pattern": "^.*$"}})),
    "a format of its own": (takes(properties={"a": _WHOLE}), takes(properties={"a": {**_WHOLE, "format": "card"}})),
    "a bound for numbers": (
        takes(properties={"a": {**_NUMBER, "minimum": 1}}),
        takes(properties={"a": {**_NUMBER, "exclusiveMinimum": 0}}),
    ),
    "other items": (takes(properties={"a": _LIST}), takes(properties={"a": {"type": "array", "items": {}}})),
    "allOf of one beside members": (
        takes(properties={"a": MODEL}),
        takes(properties={"a": {**MODEL, "allOf": [{"additionalProperties": False}]}}),
    ),
    "an output that is closed": (
        of(outputSchema=MODEL),
        of(outputSchema={**MODEL, "additionalProperties": False}),
    ),
}


@pytest.mark.parametrize("case", SAME)
def test_what_means_the_same_is_cosmetic(case: str) -> None:
    before, after = SAME[case]
    assert classes(before, after) == {"cosmetic"}
    assert classes(after, before) == {"cosmetic"}


@pytest.mark.parametrize("case", ARGUMENTS)
def test_keywords_that_refuse_nothing_are_cosmetic(case: str) -> None:
    """1.4 of issue 32: decided by what the schemas accept; beside other changes they are none."""
    one, other = (takes(properties={"a": argument}) for argument in ARGUMENTS[case])
    for before, after in ((one, other), (other, one)):
        assert classes(before, after) == {"cosmetic"}
        served = approved_definition("tool", canonical_text("tool", before), after)
        assert served is not None
        assert served.takes is None


def test_beside_other_words_they_are_cosmetic_too() -> None:
    for case in ("steps of one", "a pattern of any text", "two bounds"):
        before, after = (takes(properties={"a": argument}) for argument in ARGUMENTS[case])
        assert classes(before, {**after, "description": "Other words."}) == {"description", "cosmetic"}


@pytest.mark.parametrize("case", DIFFERENT)
def test_what_says_or_takes_something_else_is_not(case: str) -> None:
    before, after = DIFFERENT[case]
    for one, other in ((before, after), (after, before)):
        assert classes(one, other) - {"cosmetic"}


def test_titles_that_repeat_a_name() -> None:
    assert repeats_name(None, "a")
    assert repeats_name("Max Results", "other", "max_results")
    assert not repeats_name("Max Results please", "max_results")
    assert not repeats_name(7, "7")
    assert not repeats_name("a " * 100, "a" * 100)


def test_references_that_go_round_or_nowhere_are_not_decided() -> None:
    tree = {"type": "object", "properties": {"next": {"$ref": "#/$defs/T"}}, "$defs": {"T": {"$ref": "#/$defs/T"}}}
    assert not mean_the_same(tree, {**tree, "title": "TreeInput"}, named=True)
    assert not mean_the_same({"$ref": "#/$defs/none"}, {"$ref": "#/$defs/none", "title": "TreeInput"}, named=True)


@settings(max_examples=examples(120))
@given(roots().flatmap(lambda root: st.tuples(st.just(root), edited(root))))
def test_equal_meaning_takes_equal_values(schemas: tuple[Any, Any]) -> None:
    before, after = schemas
    if mean_the_same(before, after, named=True):
        objects = [value for value in VALUES if isinstance(value, dict)]
        # What names no properties takes any, below the top.
        assert not [one for one in objects if accepts(before, one, lax=True) != accepts(after, one, lax=True)]


@settings(max_examples=examples(200))
@given(roots())
def test_a_plain_schema_takes_the_same_values(schema: Any) -> None:
    found = plain(schema)
    assert [accepts(found, one) for one in VALUES] == [accepts(schema, one) for one in VALUES]
    assert plain(found) == found


@pytest.mark.parametrize(
    "schema",
    [{"type": "integer", "minimum": 10**400}, {"type": "string", "format": []}, {"multipleOf": float("inf")},
     {"type": "object", "required": [{}]}, {"type": "number", "minimum": 1, "exclusiveMinimum": True}, True],
)  # fmt: skip
def test_a_schema_with_odd_values_stays(schema: Any) -> None:
    assert plain(schema) == schema
    assert classes(takes(properties={"a": schema}), takes(properties={"a": {"type": "boolean"}})) - {"cosmetic"}
