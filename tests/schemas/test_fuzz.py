"""Whatever is called a schema: it is refused, or it checks anything without raising."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.domain.subschemas import (
    CHILD_LIST,
    CHILD_MAP,
    CHILD_ONE,
    IN_PLACE_LIST,
    IN_PLACE_MAP,
    IN_PLACE_ONE,
)
from aggregator.schemas.check import compile_check
from aggregator.schemas.coerce import coerce
from aggregator.schemas.declared_names import DeclaredNames
from aggregator.schemas.fault import UnusableSchema
from aggregator.schemas.signature import signature
from tests.laws import examples

DIALECTS = [
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-04/schema#",
]
names = st.sampled_from(["a", "b", "$ref", "properties"])
scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.sampled_from(["a", "5", "#", "object"])
values = st.recursive(
    scalars, lambda inside: st.lists(inside, max_size=3) | st.dictionaries(names, inside, max_size=3), max_leaves=8
)
references = st.sampled_from(
    ["#", "#/$defs/a", "#/properties/a", "#a", "#/items", "#/x", "http://example.com/", "", "a"]
)
LEAVES: dict[str, st.SearchStrategy[Any]] = {
    "type": st.sampled_from(["string", "number", "integer", "object", "array", ["null", "array"], ["boolean"]]),
    "enum": st.lists(values, min_size=1, max_size=3, unique_by=repr),
    "const": values,
    "required": st.lists(names, min_size=1, max_size=2, unique=True),
    "minimum": st.integers(-2, 2),
    "multipleOf": st.sampled_from([1, 0.5, 2]),
    "minLength": st.integers(0, 2),
    "maxItems": st.integers(0, 2),
    "minProperties": st.integers(0, 2),
    "uniqueItems": st.booleans(),
    "pattern": st.sampled_from(["^a", "(?=a)", "[", "a{2}"]),
    "$ref": references,
    "$dynamicRef": references,
    "$recursiveRef": st.just("#"),
    "$anchor": st.just("a"),
    "$dynamicAnchor": st.just("a"),
    "$id": st.sampled_from(["a", "#a", "http://example.com/"]),
}


def grown(inside: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A schema out of smaller ones."""
    parts = {
        **{keyword: inside for keyword in (*IN_PLACE_ONE, *CHILD_ONE)},
        **{keyword: st.lists(inside, min_size=1, max_size=2) for keyword in (*IN_PLACE_LIST, *CHILD_LIST)},
        **{
            keyword: st.dictionaries(names, inside, max_size=2) for keyword in (*IN_PLACE_MAP, *CHILD_MAP, "$defs", "x")
        },
    }
    return st.fixed_dictionaries({}, optional=LEAVES) | st.fixed_dictionaries({}, optional=parts) | inside


sound = st.recursive(st.booleans() | st.fixed_dictionaries({}, optional=LEAVES), grown, max_leaves=6)
KEYWORDS = sorted(
    {*LEAVES, *IN_PLACE_ONE, *IN_PLACE_LIST, *IN_PLACE_MAP, *CHILD_ONE, *CHILD_LIST, *CHILD_MAP, "$defs", "x"}
)
junk = st.recursive(
    values,
    lambda inside: st.lists(inside, max_size=2) | st.dictionaries(st.sampled_from(KEYWORDS), inside, max_size=3),
    max_leaves=10,
)


def survives(schema: dict[str, Any], value: Any) -> None:
    coerce(schema, value, DeclaredNames(schema))
    signature(schema)
    try:
        check = compile_check(schema)
    except UnusableSchema:
        return
    found = check.faults(value)
    assert len(found) <= 10
    assert found == check.faults(value)


@given(sound, st.sampled_from(DIALECTS), values)
@settings(max_examples=examples(200), deadline=None)
def test_a_schema_that_may_be_sound(schema: Any, dialect: str, value: Any) -> None:
    survives({"$schema": dialect, **schema} if isinstance(schema, dict) else {"not": schema}, value)


@given(st.dictionaries(st.sampled_from(KEYWORDS), junk, max_size=4), st.sampled_from(DIALECTS), values)
@settings(max_examples=examples(200), deadline=None)
def test_a_schema_of_junk(schema: dict[str, Any], dialect: str, value: Any) -> None:
    survives({"$schema": dialect, **schema}, value)


@given(junk, values)
@settings(max_examples=examples(200), deadline=None)
def test_a_reference_into_what_is_no_schema(schema: Any, value: Any) -> None:
    survives({"$ref": "#/unknown", "unknown": schema}, value)
