"""The digest of arguments: one for one meaning, another for another."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.storage.digest import argument_digest, canonical_json

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values: st.SearchStrategy[Any] = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=12
)
objects = st.dictionaries(st.text(), values, max_size=5)
without_fractions: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


def _shuffled(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _shuffled(value[name]) for name in reversed(value)}
    return [_shuffled(item) for item in value] if isinstance(value, list) else value


def _marked(value: Any) -> Any:
    """Python says True == 1; JSON does not."""
    if isinstance(value, dict):
        return {name: _marked(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_marked(item) for item in value]
    return ("bool", value) if isinstance(value, bool) else value


@settings(deadline=None)
@given(st.dictionaries(st.text(), without_fractions, max_size=5))
def test_plain_arguments_are_written_as_all_others(arguments: dict[str, Any]) -> None:
    beside = canonical_json({"arguments": arguments, "fraction": 0.5})
    assert beside == b'{"arguments":' + canonical_json(arguments) + b',"fraction":0.5}'


@settings(deadline=None)
@given(objects)
def test_order_and_spelling_do_not_count(arguments: dict[str, Any]) -> None:
    digest = argument_digest(arguments)
    assert argument_digest(_shuffled(arguments)) == digest
    assert argument_digest(json.loads(json.dumps(arguments, indent=3))) == digest
    assert argument_digest(json.loads(json.dumps(arguments, ensure_ascii=False))) == digest


@settings(deadline=None)
@given(objects, objects)
def test_what_differs_has_another_digest(one: dict[str, Any], other: dict[str, Any]) -> None:
    if _marked(one) != _marked(other):
        assert argument_digest(one) != argument_digest(other)


@settings(deadline=None)
@given(values)
def test_the_canonical_text_means_the_same(value: Any) -> None:
    assert _marked(json.loads(canonical_json(value))) == _marked(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        # RFC 8785, section 3.2.3: sorted by UTF-16 units, so that the surrogates of U+1F600 come before U+FB33.
        (
            {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\u0080": 6, "\u00f6": 7},
            '{"\\r":2,"1":4,"\u0080":6,"\u00f6":7,"\u20ac":1,"\U0001f600":5,"\ufb33":3}',
        ),
        ([1.0, -0.0, 0.5, 1e3, True, None, "\u20ac\n"], '[1,0,0.5,1000,true,null,"\u20ac\\n"]'),
        (9007199254740993, "9007199254740993"),
        ((), "[]"),
    ],
)
def test_the_rfc(value: Any, text: str) -> None:
    assert canonical_json(value) == text.encode()


def test_numbers_that_a_double_cannot_tell_apart() -> None:
    assert argument_digest({"id": 2**53}) != argument_digest({"id": 2**53 + 1})


def test_none_is_an_empty_object() -> None:
    assert argument_digest(None) == argument_digest({})


def test_a_lone_surrogate_counts_as_what_it_is() -> None:
    assert len({argument_digest({"a": text}) for text in ("\ud800", "\ud801", "?", "\ufffd")}) == 4


def _deep(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1: 2}, {"a": {1}}, b"x", _deep(100_000)])
def test_what_is_not_json(value: Any) -> None:
    with pytest.raises(ValueError, match=r"JSON|nested"):
        canonical_json({"value": value} if not isinstance(value, dict) else value)
