"""Rules of each field about a tool with two names: what a rule gives needs both names, what it takes one of them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from aggregator.domain.records import ToolRecord
from aggregator.policy.rulebook import GIVING, Ruling
from aggregator.policy.rules import RULE_FIELDS
from tests.policy.build import book, tool

# The value of a rule of each field for a pattern, None if the field is a list of patterns, and whether it counts.
FIELDS: Final[dict[str, tuple[Any, Callable[[Ruling], bool]]]] = {
    "allow": (None, lambda ruling: ruling.decision.visible),
    "deny": (None, lambda ruling: ruling.decision.verdict == "deny"),
    "confirm": (None, lambda ruling: ruling.decision.verdict == "confirm"),
    "confirm_people": (2, lambda ruling: ruling.decision.people == 2),
    "arguments": ({"maxProperties": 1}, lambda ruling: bool(ruling.tightening)),
    "limits": ({"per_minute": 1}, lambda ruling: bool(ruling.limits.counted)),
    "read_only": (None, lambda ruling: ruling.read_only),
    "idempotent": (None, lambda ruling: ruling.retry is not None),
    "retry": (None, lambda ruling: ruling.retry is not None),
    "pinned": (None, lambda ruling: ruling.pinned),
    "scopes": (["x"], lambda ruling: bool(ruling.scopes)),
}
RESPELLED: Final = replace(tool("shop.get-order"), sent_as="get_order")
INVISIBLE: Final = tool("shop.get\u200border")
NAMES: Final[dict[str, tuple[ToolRecord, tuple[str, str], str]]] = {
    "its server calls it otherwise now": (RESPELLED, ("shop.get-order", "shop.get_order"), "shop.get?order"),
    "it has invisible characters": (INVISIBLE, ("shop.getorder", "shop.get?order"), "shop.get*order"),
}


def counts(field: str, pattern: str, one: ToolRecord) -> bool:
    value, holds = FIELDS[field]
    rules: dict[str, Any] = {} if field == "allow" else {"allow": ["shop.*"]}
    rules[field] = [pattern] if value is None else {pattern: value}
    found = book({"agents": {"a": rules}}).for_agent("a")
    assert found is not None
    return holds(found.rule(one, trusted=False))


@pytest.mark.parametrize("case", NAMES)
@pytest.mark.parametrize("field", RULE_FIELDS)
def test_what_a_rule_gives_needs_both_names(field: str, case: str) -> None:
    one, single, both = NAMES[case]
    assert counts(field, both, one)
    assert not counts(field, "shop.other", one)
    assert [counts(field, pattern, one) for pattern in single] == [field not in GIVING] * 2


def test_rules_that_take_never_need_both() -> None:
    """The fields that give are all that can only widen what an agent may do."""
    assert set(RULE_FIELDS) - GIVING == {"deny", "confirm", "confirm_people", "arguments", "limits", "scopes"}
