"""Digests: what counts, what does not, and that no definition raises an error."""

import json
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.domain.bounds.slices import at_once
from aggregator.pins.decide.comparison import Listed, compare
from aggregator.pins.decide.definition import DEEP, is_same_as, pin_digest, pinned_item, text_digest
from aggregator.pins.decide.flags import NO_OTHERS
from aggregator.pins.decide.lock_file import read_lock
from aggregator.pins.decide.values import PinnedItem
from aggregator.wire.codec import encode_sorted
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


@pytest.mark.parametrize("values", [(1, 1.5), (1, True), (0, False), (1.0, True), ("1", 1), (None, ""), ([], {})])
def test_values_of_other_types_are_other_values(values: tuple[Any, Any]) -> None:
    one, other = (tool(inputSchema={"default": value}) for value in values)
    assert pin_digest("tool", one) != pin_digest("tool", other)


def test_of_meta_the_app_counts_alone() -> None:
    assert pin_digest("tool", tool(_meta={"when": 1})) == pin_digest("tool", tool())
    for name in ("ui/x\ny", "openai/outputTemplate", "openai/widgetAccessible", "anthropic/x", "ui", "ui/resourceUri"):
        app = tool(_meta={name: "ui://a", "when": 1})
        assert pin_digest("tool", app) == pin_digest("tool", tool(_meta={name: "ui://a", "when": 2}))
        assert pin_digest("tool", app) != pin_digest("tool", tool(_meta={name: "ui://b", "when": 1}))
        assert pin_digest("tool", app) != pin_digest("tool", tool())
    for name in ("uix", "openai", "x/ui", "x/openai/y", "xui/y"):
        assert pin_digest("tool", tool(_meta={name: 1})) == pin_digest("tool", tool()), name


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"default": 1}, {"default": 1.0}),
        ({"default": -0.0}, {"default": 0}),
        ({"enum": [1, [2]]}, {"enum": [1.0, [2.0]]}),
        ({"maximum": 2**53}, {"maximum": float(2**53)}),
        ({"required": []}, {}),
        ({"properties": {}}, {}),
        ({"patternProperties": {}, "dependentSchemas": {}, "dependentRequired": {}}, {}),
        ({"$defs": {}, "definitions": {}}, {}),
        ({"properties": {"a": {"required": [], "properties": {}}}}, {"properties": {"a": {}}}),
        ({"description": "caf\u00e9"}, {"description": "cafe\u0301"}),
        ({"enum": ["caf\u00e9"]}, {"enum": ["cafe\u0301"]}),
        ({"maximum": 10**20}, {"maximum": 1e20}),
        ({"minimum": -18446744073709552000}, {"minimum": -1.8446744073709552e19}),
        ({"type": ["string"]}, {"type": "string"}),
    ],
)
def test_equal_json_is_equal(one: Any, other: Any) -> None:
    assert pin_digest("tool", tool(inputSchema=one)) == pin_digest("tool", tool(inputSchema=other))


@pytest.mark.parametrize("member", ["title", "annotations", "icons", "outputSchema", "_meta"])
def test_a_member_that_is_null_is_none(member: str) -> None:
    """Servers whose library learns of a member begin to send it as null."""
    null: dict[str, Any] = {member: None}
    assert pin_digest("tool", tool(**null)) == pin_digest("tool", tool())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (tool(annotations={}), tool()),
        (tool(annotations={"readOnlyHint": None}), tool()),
        (tool(icons=[]), tool()),
    ],
)
def test_empty_members_are_none(one: Any, other: Any) -> None:
    assert pin_digest("tool", one) == pin_digest("tool", other)


@pytest.mark.parametrize("arguments", [None, [], [{"name": "a", "required": False, "description": None}]])
def test_of_a_prompt_only_what_says_something_counts(arguments: Any) -> None:
    plain = {"name": "p", "arguments": [{"name": "a"}]} if arguments else {"name": "p"}
    assert pin_digest("prompt", {"name": "p", "arguments": arguments}) == pin_digest("prompt", plain)
    asks = {"name": "p", "arguments": [{"name": "a", "required": True}]}
    assert pin_digest("prompt", asks) != pin_digest("prompt", plain)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"required": ["a"]}, {}),
        ({"properties": {"a": {}}}, {}),
        ({"properties": []}, {}),
        ({"default": {"required": []}}, {"default": {}}),
        ({"default": {"properties": {}}}, {"default": {}}),
        ({"allOf": []}, {}),
        ({"maximum": 2**60 + 1}, {"maximum": float(2**60)}),
        ({"maximum": 2**63 - 1}, {"maximum": 2**63 - 2}),
        ({"type": ["string", "null"]}, {"type": "string"}),
        ({"properties": {"a": False}}, {"properties": {"a": True}}),
        ({"items": False}, {}),
        ({"default": {}}, {"default": True}),
        ({"enum": [[]]}, {"enum": [{}]}),
        # A call is made with the name as it stands.
        ({"properties": {"caf\u00e9": {}}}, {"properties": {"cafe\u0301": {}}}),
        ({"properties": {"caf\u00e9": {}}}, {"properties": {"caf\u00e9": {}, "cafe\u0301": {"const": 1}}}),
    ],
)
def test_what_is_not_equal_is_another(one: Any, other: Any) -> None:
    assert pin_digest("tool", tool(inputSchema=one)) != pin_digest("tool", tool(inputSchema=other))


def test_a_text_of_an_earlier_version_is_compared_by_what_it_says() -> None:
    """Pins and lock files that were made before numbers and empty keywords had one form go on to count."""
    old = json.dumps(tool(inputSchema={"properties": {}, "required": [], "maximum": 1.0}), sort_keys=True)
    item = pinned_item("tool", "t", tool(inputSchema={"maximum": 1}))
    assert is_same_as("tool", old, item)
    assert not is_same_as("tool", old, pinned_item("tool", "t", tool(inputSchema={"maximum": 2})))
    assert not is_same_as("tool", "", item)
    pin = PinnedItem("tool", "t", text_digest(old), "v1", old)
    listed = [("tool", "t", tool(inputSchema={"maximum": 1}), "v2")]
    found = at_once(compare({pin.key: pin}, cast("list[Listed]", listed), NO_OTHERS))
    assert (found.changes, [(one.digest, one.version) for one in found.same]) == ((), [(pin.digest, "v2")])
    text = json.dumps({"version": 1, "servers": {"s": {"tools": {"t": {"digest": "", "definition": json.loads(old)}}}}})
    compact = encode_sorted(json.loads(old)).decode()
    locked = read_lock(text.replace('"digest": ""', f'"digest": "{text_digest(compact)}"').encode())
    assert locked["s"]["tool", "t"].digest == item.digest


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
        assert (DEEP in one.definition) is (levels >= 200)
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
