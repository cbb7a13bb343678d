"""Which misfits of two schemas are found ahead of any call: a table of what tools look like."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.schemas.compatible import misfit
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
    "whole": (takes(q={"type": "number"}), takes(q={"type": "integer"}), "`q` has to be a whole number there"),
    "others only by its own word": (SEARCH, takes(("q",), {"type": "string"}, n=TEXT), "`n` may be integer"),
}
ELSEWHERE: Json = {
    "$ref": "#/$defs/search",
    "$dynamicRef": "#search",
    "allOf": [SEARCH],
    "anyOf": [SEARCH],
    "oneOf": [SEARCH],
    "if": SEARCH,
    "patternProperties": {"^[qn]$": {}},
}
# Decided by each call: its arguments are checked against the schema of the fallback.
LEFT_TO_THE_CALL: dict[str, tuple[Any, Any]] = {
    # Each of these may name and require `q` and `n`, or leave them out.
    **{f"names by `{keyword}`": (SEARCH, {**takes((), False), keyword: value}) for keyword, value in ELSEWHERE.items()},
    **{
        f"required by `{keyword}`": ({"type": "object", keyword: value}, takes(("q",), q=TEXT))
        for keyword, value in ELSEWHERE.items()
    },
    "narrower": (SEARCH, takes(q=TEXT, n={**WHOLE, "maximum": 9})),
    "fewer values": (takes(q={"enum": ["a", "b"]}), takes(q={"enum": ["a"]})),
    "a pattern": (SEARCH, takes(q={**TEXT, "pattern": "^a"}, n=WHOLE)),
    "a condition": (SEARCH, {**SEARCH, "not": {"required": ["n"]}}),
    "inside": (takes(q=takes(a=TEXT)), takes(q=takes(a={"type": "integer"}))),
    "in a list": (takes(q={"type": "array", "items": TEXT}), takes(q={"type": "array", "items": WHOLE})),
    "a reference to elsewhere": (SEARCH, takes(q={"$ref": "https://a/b"}, n=WHOLE)),
    "named by a part": (SEARCH, {"type": "object", "allOf": [{"properties": {"q": TEXT, "n": WHOLE}}]}),
    "required by a part": ({"type": "object", "allOf": [{"required": ["q"]}]}, takes(("q",), q=TEXT)),
}


@pytest.mark.parametrize("case", FITS)
def test_it_fits(case: str) -> None:
    """Proves: C18"""
    assert misfit(*FITS[case]) is None


@pytest.mark.parametrize("case", LEFT_TO_THE_CALL)
def test_it_may_fit_and_each_call_decides(case: str) -> None:
    """Proves: C18"""
    assert misfit(*LEFT_TO_THE_CALL[case]) is None


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


SCHEMAS = json_values(
    st.sampled_from(["type", "properties", "required", "additionalProperties", "allOf", "string", "integer", "a"]),
    leaves=12,
)


@given(SCHEMAS, SCHEMAS)
def test_any_schema_is_compared_and_goes_together_with_itself(inner: Any, outer: Any) -> None:
    """Proves: C18"""
    assert misfit(inner, inner) is None
    assert misfit(inner, outer) is None or isinstance(misfit(inner, outer), str)
