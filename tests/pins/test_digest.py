"""Digests: what counts, what does not, and that no definition raises an error."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.pins.definition import pin_digest, pinned_item, text_digest
from tests.pins.build import tool

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("\ud800")
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3), max_leaves=12
)


def test_the_digest_of_a_definition_stays() -> None:
    """Lock files live in version control: a digest is never another one with the next release."""
    assert pin_digest("tool", tool()) == "sha256:5dcf2e68e0c1bb98b71138beac8f795274bc243fcc9932eb7daa7b537c10679b"
    assert pin_digest("instructions", "Be kind.") == text_digest('"Be kind."')


def test_orders_that_mean_nothing_do_not_count() -> None:
    schema = {"type": ["string", "null"], "required": ["a", "b"], "dependentRequired": {"a": ["b", "c"]}}
    other = {"dependentRequired": {"a": ["c", "b"]}, "required": ["b", "a"], "type": ["null", "string"]}
    for where in (lambda one: one, lambda one: {"anyOf": [one]}, lambda one: {"properties": {"x": {"items": one}}}):
        one, another = tool(inputSchema=where(schema)), tool(inputSchema=where(other))
        assert pin_digest("tool", one) == pin_digest("tool", dict(reversed(another.items())))


def test_orders_of_data_count() -> None:
    """A list called `required` is data where no schema stands."""
    for member in ("x-more", "inputSchema"):
        one, other = ({"default": {"required": listed}} for listed in (["a", "b"], ["b", "a"]))
        assert pin_digest("tool", {**tool(), member: one}) != pin_digest("tool", {**tool(), member: other})


@pytest.mark.parametrize("values", [(1, 1.0), (1, True), (0, False), (1.0, True), ("1", 1), (None, ""), ([], {})])
def test_values_of_other_types_are_other_values(values: tuple[Any, Any]) -> None:
    one, other = (tool(inputSchema={"default": value}) for value in values)
    assert pin_digest("tool", one) != pin_digest("tool", other)


def test_of_meta_the_app_counts_alone() -> None:
    assert pin_digest("tool", tool(_meta={"when": 1})) == pin_digest("tool", tool())
    for name in ("ui", "ui/resourceUri"):
        app = tool(_meta={name: "ui://a", "when": 1})
        assert pin_digest("tool", app) == pin_digest("tool", tool(_meta={name: "ui://a", "when": 2}))
        assert pin_digest("tool", app) != pin_digest("tool", tool(_meta={name: "ui://b", "when": 1}))
        assert pin_digest("tool", app) != pin_digest("tool", tool())


@given(VALUES, st.sampled_from(("tool", "prompt", "template", "skill", "instructions")))
def test_a_text_is_the_canonical_text_of_itself(value: Any, kind: Any) -> None:
    item = pinned_item(kind, "x", value)
    assert pinned_item(kind, "x", json.loads(item.definition)) == item
    assert item.digest == text_digest(item.definition)


def nested(levels: int, end: Any) -> Any:
    value = end
    for number in range(levels):
        value = [value] if number % 2 else {"items": value}
    return value


@pytest.mark.parametrize("levels", [198, 199, 200, 201, 202, 5_000, 100_000])
def test_differences_below_any_depth_count(levels: int) -> None:
    for where in ("inputSchema", "x-more"):
        one, other, again = (pinned_item("tool", "t", {where: nested(levels, end)}) for end in (1, 2, 1))
        assert one.digest != other.digest
        assert one == again
        assert pinned_item("tool", "t", json.loads(one.definition)).digest == one.digest


@pytest.mark.parametrize(
    "definition",
    [
        *(None, 1, "text", [], float("nan"), {1: 2}, {"a": object()}, {"n": 10**6000}, {"_meta": 1}),
        {"inputSchema": 3},
        *({"inputSchema": {"$ref": "#"}}, {"inputSchema": {"properties": []}}, {"name": "\ud800"}, {"a": (1, {2})}),
    ],
)
def test_no_definition_raises_an_error(definition: Any) -> None:
    assert pinned_item("tool", "t", definition).digest.startswith("sha256:")


def test_numbers_that_json_has_not_are_null_as_hosts_get_them() -> None:
    assert pin_digest("tool", {"a": float("nan")}) == pin_digest("tool", {"a": None})
