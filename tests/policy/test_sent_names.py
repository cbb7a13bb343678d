"""Rules about a tool that its server spells otherwise now: both names count, and the stricter rules hold."""

from dataclasses import replace
from typing import Any

import pytest

from aggregator.domain.records import ToolRecord
from aggregator.policy.rulebook import Ruling, target_of
from tests.policy.build import book, tool


def respelled() -> ToolRecord:
    return replace(tool("shop.get-order"), sent_as="get_order")


def ruled(rules: Any, one: ToolRecord, *, trusted: bool = False, **more: Any) -> Ruling:
    found = book({"agents": {"a": rules}, **more}).for_agent("a")
    assert found is not None
    return found.rule(one, trusted=trusted)


def test_a_record_is_sent_by_its_own_name_unless_it_has_another() -> None:
    assert tool("shop.get-order").sent_as == "get-order"
    assert target_of(tool("shop.get-order")).as_sent is None
    sent = target_of(respelled()).as_sent
    assert sent is not None
    assert (sent.full, sent.as_sent) == ("shop.get_order", None)


@pytest.mark.parametrize(
    ("rules", "verdict"),
    [
        ({"allow": ["shop.*"]}, "allow"),
        ({"allow": ["shop.get?order"]}, "allow"),
        ({"allow": ["shop.get-order", "*.get_order"]}, "allow"),
        ({"allow": ["shop.get-order"]}, "deny"),
        ({"allow": ["shop.get_order"]}, "deny"),
        ({"allow": ["shop.*"], "deny": ["shop.get_order"]}, "deny"),
        ({"allow": ["shop.*"], "deny": ["shop.get-order"]}, "deny"),
        ({"allow": ["shop.*"], "confirm": ["shop.get_order"]}, "confirm"),
        ({"allow": ["shop.*"], "confirm": ["shop.get-order"]}, "confirm"),
        ({"allow": ["*.get-order", "*.get_order"], "bindings": {"get_order": "other"}}, "deny"),
    ],
)
def test_the_decision_is_by_both_names(rules: Any, verdict: str) -> None:
    assert ruled(rules, respelled()).decision.verdict == verdict


def test_a_refusal_names_both() -> None:
    found = ruled({"allow": ["shop.get-order"]}, respelled()).decision
    assert found.reason == "nothing allows shop.get-order, which its server calls get_order now, to agent a"


def test_conditions_of_both_names_hold() -> None:
    schema = {"type": "object", "maxProperties": 1}
    rules = {
        "allow": ["shop.*"],
        "limits": {"shop.get_order": {"per_minute": 3}},
        "arguments": {"shop.get-order": schema, "*_order": {**schema, "maxProperties": 2}},
        "scopes": {"shop.get_order": ["orders"]},
        "read_only": ["shop.get-order"],
        "retry": ["shop.get?order"],
        "pinned": ["shop.get_order"],
    }
    ruling = ruled(rules, respelled())
    assert ruling.limits.counted
    assert len(ruling.tightening) == 2
    assert ruling.scopes == ("orders",)
    assert (ruling.read_only, ruling.pinned) == (False, False)
    assert ruling.retry is not None
    # The same tool under its own name, in the memory of the same rulebook.
    rulebook = book({"agents": {"a": rules}}).for_agent("a")
    assert rulebook is not None
    assert rulebook.rule(respelled(), trusted=False).scopes == ("orders",)
    assert rulebook.rule(tool("shop.get-order"), trusted=False).scopes == ()


def test_labels_of_both_names_count() -> None:
    flow: dict[str, Any] = {
        "labels": {"secret": ["shop.get-order"], "public": ["shop.get_order"]},
        "flow": [{"after": ["secret"], "calls": ["public"], "then": "deny"}],
    }
    assert ruled({"allow": ["shop.*"]}, respelled(), **flow).flow.labels == {"secret", "public"}
    assert ruled({"allow": ["shop.*"]}, tool("shop.get_order"), **flow).flow.labels == {"public"}
    # A label of one name does not take the claim of its server from the other.
    claimed = replace(respelled(), definition={**respelled().definition, "annotations": {"openWorldHint": True}})
    only = {**flow, "labels": {"public": ["shop.get_order"], "secret": ["shop.other"]}}
    assert ruled({"allow": ["shop.*"]}, claimed, trusted=True, **only).flow.labels > {"public"}
