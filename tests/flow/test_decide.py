"""What a flow rule makes of a decision, and which labels a tool has: each case by itself, over plain values."""

from typing import Final

import pytest

from aggregator.domain.decision import Decision, Verdict
from aggregator.flow.decide.decide_flow import FlowState, LabelSource, decide_flow
from aggregator.policy.annotations import ToolAnnotations
from tests.policy.build import book, target

# The stricter rule stands last: the strictest one that holds counts, wherever it stands.
FLOW: Final = [
    {"after": ["private"], "calls": "outward", "then": "confirm"},
    {"after": ["private", "untrusted"], "calls": "outward", "then": "deny"},
]
LABELS: Final = {"private": ["crm.*"], "untrusted": ["web.*"], "outward": ["mail.send"]}
BOOK: Final = book({"agents": {"a": {"allow": ["*"]}}, "labels": LABELS, "flow": FLOW})
BASES: Final[dict[str, Decision]] = {
    "allow": Decision("allow", "allow: *", "it may", "policies/1.yaml:1"),
    "confirm": Decision("confirm", "confirm: mail.*", "mail is asked about", "policies/1.yaml:2", people=2),
    "deny": Decision("deny", "deny: mail.*", "no mail", "policies/1.yaml:3"),
}


def read(*labels: str) -> FlowState:
    return {label: LabelSource(f"{label}.get", 90.0) for label in labels}


@pytest.mark.parametrize(
    ("base", "labels", "verdict"),
    [
        *((base, labels, base) for base in BASES for labels in ((), ("untrusted",), ("other",))),
        ("allow", ("private",), "confirm"),
        ("confirm", ("private",), "confirm"),
        ("deny", ("private",), "deny"),
        ("allow", ("private", "untrusted"), "deny"),
        ("confirm", ("private", "untrusted"), "deny"),
        ("deny", ("private", "untrusted"), "deny"),
    ],
)
def test_a_rule_makes_a_decision_stricter_and_leaves_out_nothing(
    base: str, labels: tuple[str, ...], verdict: Verdict
) -> None:
    """B6: of two that ask, the call needs as many people as the one that needs more, and both are told."""
    before = BASES[base]
    found = decide_flow(before, BOOK.flow.flow_of(target("mail.send")), read(*labels), 100.0)
    assert found.verdict == verdict
    if base == "deny" or "private" not in labels:
        assert found is before
        return
    assert found.rule.endswith(("after private, calls outward", "after private and untrusted, calls outward"))
    assert "private.get" in found.reason
    assert found.source is not None
    both = base == verdict == "confirm"
    assert (found.people, before.rule in found.rule, before.reason in found.reason) == (2 if both else 1, both, both)


@pytest.mark.parametrize(
    ("name", "claims", "labels"),
    [
        ("crm.get", None, {"private"}),
        ("notes.get", None, set()),
        ("notes.get", ToolAnnotations(), set()),
        ("notes.get", ToolAnnotations(says_open_world=True, read_only=True), {"untrusted"}),
        ("notes.get", ToolAnnotations(says_open_world=True), {"untrusted", "outward"}),
        ("crm.get", ToolAnnotations(says_open_world=True), {"private"}),
    ],
)
def test_the_labels_of_a_tool(name: str, claims: ToolAnnotations | None, labels: set[str]) -> None:
    """B6: a server's own words count for tools of which the operator says nothing."""
    assert BOOK.flow.labels_of(target(name), claims) == labels
    assert {rule.then for rule in BOOK.flow.flow_of(target(name), claims).rules} == (
        {"confirm", "deny"} if "outward" in labels else set()
    )
