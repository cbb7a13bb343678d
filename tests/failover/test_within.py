"""Whether one schema takes all that another does: a table of what tools look like, and jsonschema as the judge."""

from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from aggregator.schemas.within import misfit
from tests.unit.strategies import json_values

Json = dict[str, Any]

TEXT: Json = {"type": "string"}
WHOLE: Json = {"type": "integer", "minimum": 1, "maximum": 10}


def takes(required: tuple[str, ...] = (), rest: Any = None, **properties: Any) -> Json:
    schema: Json = {"type": "object", "properties": properties, "required": list(required)}
    return schema if rest is None else {**schema, "additionalProperties": rest}


SEARCH = takes(("q",), q=TEXT, n=WHOLE)
FITS: dict[str, tuple[Any, Any]] = {
    "the same": (SEARCH, SEARCH),
    "other words": (SEARCH, {**SEARCH, "title": "x", "description": "y"}),
    "less required": (SEARCH, takes((), q=TEXT, n=WHOLE)),
    "one more that may be left out": (SEARCH, takes(("q",), q=TEXT, n=WHOLE, more=TEXT)),
    "closed, with all of them": (SEARCH, takes(("q",), False, q=TEXT, n=WHOLE)),
    "wider bounds": (SEARCH, takes(("q",), q=TEXT, n={"type": "integer", "minimum": 0})),
    "any number": (SEARCH, takes(("q",), q=TEXT, n={"type": "number"})),
    "or null, in a list of types": (SEARCH, takes(("q",), q={"type": ["string", "null"]}, n=True)),
    "or null, as alternatives": (SEARCH, takes(("q",), q={"anyOf": [TEXT, {"type": "null"}]}, n=WHOLE)),
    "or null on both sides": (
        takes(q={"anyOf": [TEXT, {"type": "null"}], "default": None}),
        takes(q={"anyOf": [{"type": "null"}, TEXT]}),
    ),
    "anything by its own word": (SEARCH, takes(rest=True)),
    "more values": (takes(q={"enum": ["a"]}), takes(q={"type": "string", "enum": ["b", "a"]})),
    "one value": (takes(q={"const": 1.0}), takes(q={"enum": [1, 2]})),
    "by reference": (SEARCH, {**takes(("q",), q={"$ref": "#/$defs/s"}, n=WHOLE), "$defs": {"s": TEXT}}),
    "by reference here": ({**takes(q={"$ref": "#/$defs/s"}), "$defs": {"s": TEXT}}, takes(q=TEXT)),
    "a list": (takes(q={"type": "array", "items": WHOLE}), takes(q={"type": "array", "items": {"type": "integer"}})),
    "one or the other": (takes(q={"oneOf": [TEXT, WHOLE]}), takes(q={"type": ["string", "integer"]})),
    "a map": (
        takes(q={"type": "object", "additionalProperties": TEXT}),
        takes(q={"type": "object", "additionalProperties": {"type": ["string", "null"]}}),
    ),
    "no least": (takes(q=TEXT), takes(q={"type": "string", "minLength": 0})),
}
MISFITS: dict[str, tuple[Any, Any, str]] = {
    "more required": (SEARCH, takes(("q", "n"), q=TEXT, n=WHOLE), "`n` is required there"),
    "not known": (SEARCH, takes(("q",), q=TEXT), "`n` is not known there"),
    "closed": (SEARCH, takes(("q",), False, q=TEXT), "`n` is not known there"),
    "another type": (SEARCH, takes(q={"type": "integer"}, n=WHOLE), "`q` may be string, which is not taken there"),
    "narrower": (SEARCH, takes(q=TEXT, n={**WHOLE, "maximum": 9}), "`n` is bound by another `maximum` there"),
    "whole": (takes(q={"type": "number"}), takes(q={"type": "integer"}), "`q` has to be a whole number there"),
    "fewer values": (takes(q={"enum": ["a", "b"]}), takes(q={"enum": ["a"]}), "`q` has other values there"),
    "true is not 1": (takes(q={"enum": [True]}), takes(q={"enum": [1]}), "may be boolean"),
    "a pattern": (SEARCH, takes(q={**TEXT, "pattern": "^a"}, n=WHOLE), "`q` is bound by another `pattern` there"),
    "a condition": (SEARCH, {**SEARCH, "not": {"required": ["n"]}}, "it is bound by another `not` there"),
    "inside": (
        takes(q=takes(a=TEXT)),
        takes(q=takes(a={"type": "integer"})),
        "`q`.a may be string, which is not taken there",
    ),
    "in a list": (
        takes(q={"type": "array", "items": TEXT}),
        takes(q={"type": "array", "items": WHOLE}),
        "`q`[] may be string, which is not taken there",
    ),
    "beside a reference": (
        SEARCH,
        {**takes(q={"$ref": "#/$defs/s", "maxLength": 3}, n=WHOLE), "$defs": {"s": TEXT}},
        "`q` is bound by another `maxLength` there",
    ),
    "a reference to elsewhere": (SEARCH, takes(q={"$ref": "https://a/b"}, n=WHOLE), "is not followed here"),
    "alternatives that may exclude each other": (
        SEARCH,
        takes(q={"oneOf": [TEXT, {"type": "string", "maxLength": 3}]}, n=WHOLE),
        "may exclude each other",
    ),
}


@pytest.mark.parametrize("case", FITS)
def test_it_fits(case: str) -> None:
    """Proves: C18"""
    assert misfit(*FITS[case]) is None


@pytest.mark.parametrize("case", MISFITS)
def test_it_does_not_and_why(case: str) -> None:
    """Proves: C18"""
    inner, outer, why = MISFITS[case]
    found = misfit(inner, outer)
    assert found is not None
    assert why in found


def test_a_result_may_have_more_than_was_promised() -> None:
    promised, kept = takes(("a",), a=TEXT), takes(("a", "b"), a=TEXT, b=WHOLE)
    assert misfit(kept, promised, named=False) is None
    assert misfit(kept, {**promised, "additionalProperties": False}, named=False) == "`b` is not known there"


def test_schemas_that_hold_themselves_and_huge_ones_come_to_an_end() -> None:
    tree = {**takes(q={"$ref": "#"}, n=WHOLE), "required": ["n"]}
    assert misfit(tree, dict(tree)) is None
    deep: Any = TEXT
    for _ in range(300):
        deep = {"type": "array", "items": deep}
    assert "too large" in str(misfit(takes(q=deep), takes(q=deep | {"title": "x"})))
    many = {"anyOf": [{"anyOf": [takes(a=TEXT, b=TEXT)] * 20} for _ in range(20)]}
    assert misfit(many, {"anyOf": [{**takes(a=TEXT), "required": [str(n)]} for n in range(30)]}) is not None


NAMES = st.sampled_from(["a", "b", "c"])
SCALARS = st.one_of(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["string", "integer", "number", "boolean", "null", ["string", "null"]])},
        optional={
            "minimum": st.integers(-2, 2),
            "maximum": st.integers(-2, 2),
            "exclusiveMinimum": st.integers(-2, 2),
            "minLength": st.integers(0, 2),
            "maxLength": st.integers(0, 2),
            "multipleOf": st.sampled_from([1, 2]),
            "pattern": st.sampled_from(["^a", "b$"]),
        },
    ),
    st.fixed_dictionaries({"enum": st.lists(st.sampled_from([1, 1.0, True, "a", None, 2.5]), min_size=1, max_size=3)}),
    st.fixed_dictionaries({"const": st.sampled_from([1, True, "a", None])}),
    st.just({"$ref": "#/$defs/d"}),
    st.booleans(),
    st.just({}),
)


def _grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    held = st.dictionaries(NAMES, inner, max_size=3)
    return st.one_of(
        st.fixed_dictionaries(
            {"type": st.just("object"), "properties": held},
            optional={
                "required": st.lists(NAMES, max_size=2, unique=True),
                "additionalProperties": inner,
                "minProperties": st.integers(0, 2),
                "maxProperties": st.integers(0, 2),
            },
        ),
        st.fixed_dictionaries(
            {"type": st.just("array")},
            optional={
                "items": inner,
                "prefixItems": st.lists(inner, min_size=1, max_size=2),
                "minItems": st.integers(0, 2),
                "uniqueItems": st.booleans(),
            },
        ),
        st.builds(
            lambda word, parts, beside: {word: parts, **(beside if isinstance(beside, dict) else {})},
            st.sampled_from(["anyOf", "oneOf", "allOf"]),
            st.lists(inner, min_size=1, max_size=3),
            inner,
        ),
    )


SCHEMAS = st.recursive(SCALARS, _grown, max_leaves=6)
VALUES = json_values(st.sampled_from(["a", "b", "c", "ab"]), leaves=5) | st.sampled_from([0, 1, 2, 1.0, 2.5, "", "a"])


def _only_named(schema: Any) -> Any:
    """What the law is about: no property that the schema does not name."""
    if isinstance(schema, list):
        return [_only_named(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _only_named(part) if key not in ("enum", "const") else part for key, part in schema.items()}
    if "properties" in made and isinstance(made.get("properties"), dict) and made.get("type") == "object":
        made.setdefault("additionalProperties", False)
    return made


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(SCHEMAS, SCHEMAS, SCALARS, st.lists(VALUES, min_size=8, max_size=8), st.booleans())
def test_what_is_said_to_fit_does(inner: Any, outer: Any, shared: Any, values: list[Any], same: bool) -> None:
    """Proves: C18. Whenever it says yes, jsonschema takes under the second what it takes under the first."""
    defs = {"$defs": {"d": shared if shared != {"$ref": "#/$defs/d"} else TEXT}}
    outer = inner if same else outer
    assume(isinstance(inner, dict) and isinstance(outer, dict))
    inner, outer = {**inner, **defs}, {**outer, **defs}
    if misfit(inner, outer) is not None:
        return
    first = jsonschema.Draft202012Validator(_only_named(inner))
    second = jsonschema.Draft202012Validator(outer)
    for value in values:
        if first.is_valid(value):
            assert second.is_valid(value), (inner, outer, value)
