"""How many people have to agree to a call, and how long it waits for them."""

import pytest

from aggregator.policy.compare.diff import diff
from aggregator.policy.explain import explain

from .build import book, checked, tool


def test_several_people() -> None:
    """B6: the largest number that matches counts, and no host is one of them; every page on a policy says so."""
    body = {"allow": ["t.*"], "confirm": ["t.a"], "confirm_by": "host", "confirm_wait": "2m"}
    one = book({"agents": {"a": body}})
    two = book({"agents": {"a": {**body, "confirm_people": {"t.*": 2, "t.a": 3}}, "b": {"allow": ["t.*"]}}})
    explained = explain(two, "a", tool("t.a"))
    assert (explained.decision.verdict, explained.decision.people) == ("confirm", 3)
    assert explained.decision.reason == 'agent a wants 3 people to confirm "t.a"'
    assert explained.changes == (
        'take "t.a" out of `confirm_people` of agent a (policies/1.yaml:1)',
        'take "t.*" out of `confirm_people` of agent a (policies/1.yaml:1)',
        'take "t.a" out of `confirm` of agent a (policies/1.yaml:1)',
    )
    assert explained.conditions == (
        "3 different people must approve it with `aggregator approvals`; the host is not asked",
        "its call waits for the answer 2m: confirm_wait (policies/1.yaml:1)",
    )
    assert explain(two, "a", tool("t.b")).decision.people == 2
    assert explain(two, "b", tool("t.b")).decision.people == 1
    changes = diff(one, two, [tool("t.a"), tool("t.b")])
    assert changes.lines() == [
        "agent b is new",
        "a lost t.a (once confirmed by 3 people), t.b (once confirmed by 2 people)",
        "b gained t.a, t.b",
    ]
    assert "a lost t.a: confirm -> confirm by 3 people" in map(str, changes.changes())
    assert diff(two, one, [tool("t.a")]).lines()[1:2] == ["a gained t.a (once confirmed)"]
    denied = book({"agents": {"a": {**body, "deny": ["t.a"], "confirm_people": {"t.a": 2}}}})
    assert explain(denied, "a", tool("t.a")).decision.people == 1


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("confirm_people: {t.a: 0}", "Expected a number of people from 1 to 10, got the number 0."),
        ("confirm_people: {t.a: 11}", "Expected a number of people from 1 to 10, got the number 11."),
        ("confirm_people: {t.a: true}", "Expected a number of people from 1 to 10, got true."),
        ("confirm_people: [t.a]", "Expected an object with keys, got a list."),
        ("confirm_wait: 2h", "Expected at most an hour, got '2h'."),
        ("confirm_wait: -1", "Expected a length of time above zero, got the number -1."),
        ("confirm_wait: soon", "Expected a number of seconds"),
    ],
)
def test_what_a_person_cannot_mean(written: str, said: str) -> None:
    found = checked(f"agents:\n  a:\n    allow: [t.*]\n    {written}\n")
    (problem,) = found.problems
    assert said in problem.message
    assert problem.file == "policies/1.yaml:4"


@pytest.mark.parametrize(("written", "seconds"), [("0", 0.0), ("0s", 0.0), ("50s", 50.0), ("1h", 3600.0), ("2.5", 2.5)])
def test_how_long_a_call_waits(written: str, seconds: float) -> None:
    """B6: of two roles that are equally near the shorter time counts."""
    rules = book(
        f"""
        roles: {{x: {{confirm_wait: {written}}}, y: {{confirm_wait: 1h}}}}
        agents: {{a: {{allow: ["*"], roles: [x, y]}}, b: {{allow: ["*"]}}}}
        """
    )
    assert rules.agents["a"].confirm_wait == seconds
    assert rules.agents["b"].confirm_wait is None
