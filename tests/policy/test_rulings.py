"""What a ruling has besides its decision, and for whom it is remembered."""

from dataclasses import replace
from typing import Any

import pytest

from aggregator.domain.principal import Principal, TokenFacts
from aggregator.gateway.views.views import View
from aggregator.policy.patterns import Target

from .build import READ_ONLY, book, tool
from .test_decide import IDEMPOTENT, one, rules_of


def test_a_ruling_is_remembered_for_all_that_it_depends_on() -> None:
    """One rulebook lives longer than the prefix of a server, its name for a tool, its trust and its annotations."""
    rules = rules_of(one(allow=["p.*", "t.*"], deny=["*.now"], annotations={"destructive": "deny"}))
    plain = tool("p.x", READ_ONLY, server="s")
    others = [
        (plain, True, "allow"),
        (plain, False, "deny"),
        (tool("p.x", server="s"), True, "deny"),
        (tool("q.x", READ_ONLY, server="s"), True, "deny"),
        (tool("t.x", READ_ONLY, server="s"), True, "allow"),
        (tool("p.now", READ_ONLY, server="s"), True, "deny"),
        (replace(plain, sent_as="now"), True, "deny"),
    ]
    for one_tool, trusted, expected in (*others, *reversed(others)):
        assert rules.decide(one_tool, trusted=trusted).verdict == expected


def test_agents_of_one_name_that_two_rules_make_have_their_own_rules() -> None:
    """Proves: D5. Both have the claim of the token for a name, and the roles of their own rule."""
    made = book(
        {
            "roles": {"reader": {"allow": ["t.get"]}, "writer": {"allow": ["t.put"]}},
            "who": [
                {"agent": "w-{subject}", "groups": ["writers"], "roles": ["writer"]},
                {"agent": "w-{subject}", "groups": ["readers"], "roles": ["reader"], "tenant": "north"},
            ],
            "tenants": {"north": {"servers": ["n"]}},
            "agents": {},
        }
    )
    tools = {name: tool(f"t.{name}") for name in ("get", "put")}
    for _ in range(2):
        for group, allowed in (("writers", "put"), ("readers", "get")):
            principal = Principal("w-ann", token=TokenFacts("i", "ann", groups=(group,)))
            seen = {n for n, one_tool in tools.items() if made.decide(principal, one_tool, trusted=False).visible}
            assert seen == {allowed}
            view = View(principal, made, {})
            assert {n for n, one_tool in tools.items() if view.is_visible(one_tool)} == {allowed}
    other = Principal("w-bob", token=TokenFacts("i", "ann", groups=("writers",)))
    assert made.for_principal(other) is None, "its token stands for another agent"


def test_scopes_of_every_rule_are_wanted() -> None:
    made = book(
        {
            "defaults": {"scopes": {"*": ["base"], "resource:*": ["base"]}},
            "roles": {"r": {"allow": ["t.*"], "scopes": {"t.*": ["r", "base"], "resource:t.*": ["files"]}}},
            "agents": {"a": {"roles": ["r"], "scopes": {"t.x": ["x"], "u.x": ["u"]}}},
        }
    )
    rules = rules_of(made)
    assert rules.rule(tool("t.x"), trusted=False).scopes == ("x", "r", "base")
    assert rules.scopes_of(Target("resource", "t", "t", "file:///a")) == ("files", "base")


@pytest.mark.parametrize("limit", ["result_bytes", "result_tokens", "per_minute"])
@pytest.mark.parametrize("at", ["agents", "roles", "below", "defaults", "other"])
def test_an_agent_knows_if_a_rule_of_it_limits_results(limit: str, at: str) -> None:
    """Wherever the rule stands on its line: then there is something to read on."""
    limits = {"limits": {"t.*": {limit: 500}}}
    said = {name: limits if name == at else {} for name in ("agents", "roles", "below", "defaults", "other")}
    roles = {"r": {**said["roles"], "roles": ["s"]}, "s": said["below"], "o": said["other"]}
    made = book({"agents": {"a": {"roles": ["r"], **said["agents"]}}, "roles": roles, "defaults": said["defaults"]})
    limits_results = limit != "per_minute" and at != "other"
    assert rules_of(made).limits_results is limits_results
    assert rules_of(made).limits(tool("t.x")).bounds_results is limits_results


@pytest.mark.parametrize(
    ("read_only", "hints", "trusted", "expected"),
    [
        ([], READ_ONLY, True, True),
        ([], READ_ONLY, False, False),
        ([], {"readOnlyHint": 1}, True, False),
        ([], IDEMPOTENT, True, False),
        (["t.x"], None, False, True),
        (["t.y"], READ_ONLY, False, False),
    ],
)
def test_a_tool_only_reads_by_the_word_of_who_is_trusted(
    read_only: list[str], hints: Any, trusted: bool, expected: bool
) -> None:
    found = rules_of(one(read_only=read_only)).rule(tool("t.x", hints), trusted=trusted)
    assert found.read_only is expected


@pytest.mark.parametrize(("said", "one_conversation"), [("key", True), ("session", False), (None, False)])
def test_what_is_one_conversation(said: str | None, one_conversation: bool) -> None:
    made = book({"agents": {"a": {}}, **({"conversation": said} if said else {})})
    assert made.one_conversation is one_conversation
