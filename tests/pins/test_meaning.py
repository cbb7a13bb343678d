"""Definitions that upgrades of libraries write in another way: equal in meaning, so `cosmetic`."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.pins.decide.meaning import mean_the_same, repeats_name
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
        assert not [one for one in objects if accepts(before, one) != accepts(after, one)]
