"""Agreement with `jsonschema`, an implementation that shares nothing with ours, and what holds for any JSON."""

from importlib import import_module
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.schemas.check import SchemaCheck, compile_check
from aggregator.schemas.coerce import coerce
from aggregator.schemas.declared_names import DeclaredNames
from aggregator.schemas.fault import Fault
from tests.laws import examples
from tests.schemas.samples import sample
from tests.schemas.shapes import SHAPES

# By name: it has no type stubs.
jsonschema: Any = import_module("jsonschema")

CHECKS: dict[str, SchemaCheck] = {name: compile_check(schema) for name, schema in SHAPES.items()}
ORACLES: dict[str, Any] = {
    name: jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)(schema)
    for name, schema in SHAPES.items()
}
shapes = st.sampled_from(sorted(SHAPES))
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**40), 10**40) | st.floats(-1e299, 1e299) | st.text(),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(), inside, max_size=4),
    max_leaves=20,
)


def assert_readable(faults: tuple[Fault, ...]) -> None:
    for fault in faults:
        assert fault.pointer == "" or fault.pointer.startswith("/")
        assert fault.expected
        assert fault.got
        assert fault.keyword
        assert len(fault.expected) + len(fault.got) < 1_000


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_like_the_oracle_on_near_misses(name: str) -> None:
    rng = Random(name)  # noqa: S311 - the same arguments on every run
    verdicts = set()
    for _ in range(150):
        value = sample(SHAPES[name], rng)
        found = CHECKS[name].faults(value)
        assert (not found) == ORACLES[name].is_valid(value), (value, found)
        assert_readable(found)
        assert "schema" not in {fault.keyword for fault in found}, "an explanation could not be found"
        verdicts.add(not found)
    assert verdicts == {True, False}


@given(shapes, anything)
@settings(max_examples=examples(200), deadline=None)
def test_like_the_oracle_on_any_json(name: str, value: Any) -> None:
    found = CHECKS[name].faults(value)
    assert (not found) == ORACLES[name].is_valid(value)
    assert_readable(found)


@given(shapes, st.integers(0, 10**9), st.integers(1, 4))
@settings(max_examples=examples(150), deadline=None)
def test_no_more_faults_than_asked_for_and_always_the_same(name: str, seed: int, limit: int) -> None:
    value = sample(SHAPES[name], Random(seed), slips=0.4)  # noqa: S311
    found = CHECKS[name].faults(value, limit)
    assert len(found) <= limit
    assert found == CHECKS[name].faults(value, limit)
    assert found == CHECKS[name].faults(value, 100)[:limit]


@given(shapes, st.integers(0, 10**9) | anything)
@settings(max_examples=examples(300), deadline=None)
def test_coercion_is_done_once_and_never_breaks_what_fits(name: str, given: Any) -> None:
    value = sample(SHAPES[name], Random(given), slips=0.2) if isinstance(given, int) else given  # noqa: S311
    names = DeclaredNames(SHAPES[name])
    once, changed = coerce(SHAPES[name], value, names)
    again, more = coerce(SHAPES[name], once, names)
    assert (again, more) == (once, [])
    spelt = isinstance(value, dict | list) and names.has_other_spelling(value)
    if ORACLES[name].is_valid(value) and not spelt:
        assert changed == []
    if not changed:
        assert once is value
