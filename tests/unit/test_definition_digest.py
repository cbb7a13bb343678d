"""The schema version of a tool, and what became of a list of them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.catalog.difference import difference
from aggregator.catalog.validate import definition_digest, validate_tools
from aggregator.wire.codec import decode
from tests.unit.strategies import json_values, server, tool

DIGESTS = st.dictionaries(st.text("abcd", min_size=1, max_size=2), st.sampled_from("123"))


def _turned(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _turned(value[name]) for name in reversed(value)}
    return [_turned(item) for item in value] if isinstance(value, list) else value


def _marked(value: Any) -> Any:
    """Python says True == 1 == 1.0 and 0.0 == -0.0; these are written differently."""
    if isinstance(value, dict):
        return {name: _marked(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_marked(item) for item in value]
    return value if value is None or isinstance(value, str) else (type(value).__name__, repr(value))


@given(json_values())
def test_the_order_of_names_does_not_count(definition: Any) -> None:
    """Proves: D2"""
    assert definition_digest(_turned(definition)) == definition_digest(definition)


@given(json_values(), json_values())
def test_what_differs_has_another_digest(one: Any, other: Any) -> None:
    """Proves: D2"""
    assert (definition_digest(one) == definition_digest(other)) == (_marked(one) == _marked(other))


@pytest.mark.parametrize(
    "odd",
    [float("nan"), float("inf"), 10**4000, "\ud800", {"\udfff": "\0"}, None, [], decode(b"[" * 900 + b"]" * 900)],
    ids=lambda value: f"{value!r:.12}",
)
def test_anything_that_can_be_heard_has_one(odd: Any) -> None:
    """Proves: D2"""
    deep: Any = odd
    for _ in range(100_000):
        deep = [deep]
    for value in (odd, deep, {"name": "t", "default": odd}):
        assert len(definition_digest(value)) == 32
        assert set(definition_digest(value)) <= set("0123456789abcdef")


def test_a_tool_carries_that_of_what_its_server_gave() -> None:
    """Proves: D2. Not of what it was mended to."""
    given_ = {"name": "t", "extra": [1]}
    ((record,), _) = validate_tools(server(), [given_], ambiguous=False, name_limit=47)
    assert record.definition != given_
    assert record.version == definition_digest(given_)
    ((other,), _) = validate_tools(server(), [tool("t", extra=[1.0])], ambiguous=False, name_limit=47)
    assert other.version != record.version


@given(DIGESTS, DIGESTS)
def test_what_became_of_a_list(before: dict[str, str], after: dict[str, str]) -> None:
    """Proves: D2. Each tool is in one place, and what is told makes the one list from the other."""
    told = difference(before, after)
    assert bool(told) == (before != after)
    assert not told.added.keys() & (told.removed.keys() | told.changed.keys())
    rest = {name: digest for name, digest in before.items() if name not in told.removed}
    changed = {name: new for name, (_, new) in told.changed.items()}
    assert {**rest, **changed, **told.added} == after
    assert all(before[name] == old != new for name, (old, new) in told.changed.items())
    assert all(before[name] == digest for name, digest in told.removed.items())


def test_it_is_told_in_one_line() -> None:
    told = difference({"gone": "1", "other": "1"}, {"other": "2", **{f"new{n:02}": "1" for n in range(12)}})
    ten = ", ".join(f"new{n:02}" for n in range(10))
    assert str(told) == f"added {ten} and 2 more; removed gone; changed other"
