"""What must be true of all labels, flow rules and states, against a reference that tries everything."""

from fnmatch import fnmatchcase
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aggregator.domain.decision import Decision
from aggregator.domain.text.invisible import folded_name
from aggregator.flow.decide.decide_flow import EarlierRead, LabelSource, decide_flow
from aggregator.policy.compare.diff import diff
from aggregator.policy.explain import explain
from aggregator.policy.rulebook import Rulebook
from tests.laws import examples

from .build import book, tool

RANK = {"allow": 0, "confirm": 1, "deny": 2}
NAMES = ("untrusted", "private", "outward", "mine", "x-1")
SERVERS = ("a", "b", "a_b", "A")
OWN = ("get", "send_x", "x.y", "ge\u200bt", "查")
PATTERNS = ("*", "a.*", "b.get", "*.get", "*.send_*", "a.?et", "[ab].*", "server:a", "server:a*", "a.x.y", "A.*",
            "*.[!g]*", "resource:*", "prompt:a.*")  # fmt: skip

labels = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True)
flow = st.lists(
    st.fixed_dictionaries({"after": labels, "calls": labels, "then": st.sampled_from(["confirm", "deny"])}), max_size=5
)
documents = st.fixed_dictionaries(
    {
        "labels": st.fixed_dictionaries(
            dict.fromkeys(NAMES, st.lists(st.sampled_from(PATTERNS), max_size=2)),
        ),
        "flow": flow,
        "agents": st.just({"one": {"allow": ["*"], "confirm": ["*.get"], "deny": ["b.send_*"]}}),
    }
)
hints = st.sampled_from(
    [None, {}, {"openWorldHint": True}, {"openWorldHint": True, "readOnlyHint": True}, {"openWorldHint": False}]
)
tools = st.builds(
    lambda server, own, claims: tool(f"{server}.{own}", claims), st.sampled_from(SERVERS), st.sampled_from(OWN), hints
)
sources = st.builds(
    LabelSource, st.sampled_from(["web.fetch", "crm.get", "x\n"]), st.floats(-1e6, 1e6), st.none() | st.just("t")
)
states = st.dictionaries(st.sampled_from(NAMES), sources, max_size=4)
many = settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def reference_labels(content: Any, record: Any, trusted: bool) -> set[str]:
    """Labels by trying every pattern with every name."""
    names = {record.name, f"{record.prefix}.{folded_name(record.own_name)}"}
    found = set()
    for name, patterns in content["labels"].items():
        for pattern in patterns:
            if pattern.startswith("server:"):
                hit = fnmatchcase(record.server, pattern.removeprefix("server:"))
            else:
                hit = ":" not in pattern and any(fnmatchcase(one, pattern) for one in names)
            if hit:
                found.add(name)
    said = record.definition.get("annotations") or {}
    if not found and trusted and said.get("openWorldHint") is True:
        found = {"untrusted"} if said.get("readOnlyHint") is True else {"untrusted", "outward"}
    return found


def reference(content: Any, record: Any, trusted: bool, state: Any, base: str) -> str:
    had = reference_labels(content, record, trusted)
    verdict = base
    for rule in content["flow"]:
        if set(rule["after"]) <= set(state) and set(rule["calls"]) & had:
            verdict = max(verdict, rule["then"], key=RANK.__getitem__)
    return verdict


def decided(made: Rulebook, record: Any, trusted: bool, state: Any) -> Decision:
    ruling = made.agents["one"].rule(record, trusted=trusted)
    return decide_flow(ruling.decision, ruling.flow, state, 0.0) if ruling.flow.rules else ruling.decision


@many
@given(documents, tools, st.booleans(), states)
def test_decisions_are_those_of_the_reference(content: Any, record: Any, trusted: bool, state: Any) -> None:
    made = book(content)
    ruling = made.agents["one"].rule(record, trusted=trusted)
    if content["flow"]:
        assert ruling.flow.labels == reference_labels(content, record, trusted)
    else:
        assert not ruling.flow.labels
    after = decided(made, record, trusted, state)
    assert after.verdict == reference(content, record, trusted, state, ruling.decision.verdict)
    if after is not ruling.decision:
        assert after.source is not None
        assert after.source in after.reason
        assert after.reason.isprintable()
        assert not after.hidden
    if ruling.decision.verdict == "deny":
        assert after is ruling.decision


@many
@given(documents, tools, st.booleans(), states, states, st.sampled_from(PATTERNS), st.sampled_from(NAMES), flow)
def test_more_labels_or_rules_never_give_a_laxer_decision(
    content: Any, record: Any, trusted: bool, state: Any, more: Any, pattern: str, name: str, rules: Any
) -> None:
    before = RANK[decided(book(content), record, trusted, state).verdict]
    assert RANK[decided(book(content), record, trusted, {**state, **more}).verdict] >= before
    stricter = {**content, "flow": [*content["flow"], *rules]}
    assert RANK[decided(book(stricter), record, trusted, state).verdict] >= before
    given = {**content["labels"], name: [*content["labels"][name], pattern]}
    if reference_labels(content, record, trusted) <= reference_labels({**content, "labels": given}, record, trusted):
        # Otherwise the operator has said of a tool what it is, in place of its annotations.
        assert RANK[decided(book({**content, "labels": given}), record, trusted, state).verdict] >= before


@many
@given(documents, tools, st.booleans(), states)
def test_an_explanation_is_the_decision(content: Any, record: Any, trusted: bool, state: Any) -> None:
    made = book(content)
    earlier = tuple(EarlierRead(f"something {name}", frozenset({name}), name) for name in state)
    found = explain(made, "one", record, trusted=trusted, earlier=earlier)
    assert found.decision.verdict == decided(made, record, trusted, state).verdict
    assert found.decisive in found.findings
    assert found.decisive is not None
    assert found.decisive.effect == found.decision.verdict
    if found.decision.verdict != "allow":
        assert found.changes


@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(documents, documents, st.lists(tools, min_size=1, max_size=6, unique_by=lambda one: one.name), st.booleans())
def test_a_comparison_counts_the_tools_that_get_and_lose_labels(
    one: Any, other: Any, catalog: Any, trusted: bool
) -> None:
    known = dict.fromkeys(SERVERS, trusted)
    lines = [line for line in diff(book(one), book(other), catalog, known).flow if line.startswith("label ")]
    for name in NAMES:
        had, has = (
            {t.name for t in catalog if content["flow"] and name in reference_labels(content, t, trusted)}
            for content in (one, other)
        )
        told = next((line for line in lines if line.startswith(f"label {name}: ")), "")
        for does, names in (("get", has - had), ("lose", had - has)):
            count = f"{len(names)} tool{'' if len(names) == 1 else 's'} {does}{'s' if len(names) == 1 else ''} it"
            assert (count in told) is bool(names), (told, names)
