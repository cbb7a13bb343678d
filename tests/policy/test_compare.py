"""What differs between two rulebooks: held against `decide`, put down to the line that makes it, and bounded."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aggregator.domain.bounds.slices import at_once
from aggregator.domain.decision import Verdict
from aggregator.domain.principal import Principal
from aggregator.domain.records import ToolRecord
from aggregator.policy.compare import diff as compare
from aggregator.policy.compare.diff import PolicyDiff, diff, diff_steps
from aggregator.policy.compare.tool_sets import KeptToolSets, ToolSets
from aggregator.policy.patterns import Pattern
from aggregator.policy.rulebook import Rulebook, target_of
from tests.laws import examples

from .build import READ_ONLY, book, tool

SERVERS = ("a", "b", "a_b", "A")
# With a name that only looks like `get`, and one that is also the full name of another tool.
OWN = ("get", "delete_x", "x.y", "ge\u200bt", "a.get", "查")
AGENTS = ("one", "two", "three")
ROLES = ("r0", "r1", "r2")
TENANTS = ("north", "south")

patterns = st.sampled_from(
    ("*", "a.*", "b.get", "*.get", "*.delete_*", "a.?et", "[ab].*", "server:a", "server:a*", "a_b.x*", "a.x.y", "A.*",
     "*.[!g]*", "a.get", "resource:*", "prompt:a.*")
)  # fmt: skip
some = st.lists(patterns, max_size=3)
people = st.dictionaries(patterns, st.integers(1, 3), max_size=2)
of_tools = st.lists(patterns.filter(lambda text: text[0] not in "rp"), max_size=2)
traits = st.sampled_from(["allow", "deny", "confirm"])
# Roles that bind one name otherwise would be a conflict, so only agents bind.
bindings = st.dictionaries(st.sampled_from(("get", "x.y", "a.get")), st.sampled_from(SERVERS), max_size=2)
annotations = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("destructive", "open_world", "read_only", "idempotent"), traits)
)


def bodies(roles: tuple[str, ...], agents: bool = False) -> st.SearchStrategy[dict[str, Any]]:
    optional: dict[str, Any] = {
        "allow": some, "deny": some, "confirm": some, "confirm_people": people, "read_only": of_tools,
        "idempotent": of_tools, "annotations": annotations, "roles": st.lists(st.sampled_from(roles), max_size=2),
    }  # fmt: skip
    if agents:
        optional |= {"bindings": bindings, "tenant": st.sampled_from(TENANTS)}
    if not roles:
        del optional["roles"]
    return st.fixed_dictionaries({}, optional=optional)


documents = st.fixed_dictionaries(
    {
        "roles": st.fixed_dictionaries({role: bodies(ROLES[:at]) for at, role in enumerate(ROLES)}),
        "agents": st.dictionaries(st.sampled_from(AGENTS), bodies(ROLES, agents=True), min_size=1),
        "tenants": st.dictionaries(st.sampled_from(SERVERS), st.sampled_from(TENANTS), max_size=3).map(
            lambda claims: {t: {"servers": [s for s, of in claims.items() if of == t]} for t in TENANTS}
        ),
        "defaults": bodies(()),
    }
)
hints = st.sampled_from([None, READ_ONLY, {"destructiveHint": False, "openWorldHint": False}, {"idempotentHint": True}])
tools = st.builds(
    lambda server, own, claims: tool(f"{server}.{own}", claims), st.sampled_from(SERVERS), st.sampled_from(OWN), hints
)
catalogs = st.lists(tools, min_size=1, max_size=10, unique_by=lambda record: record.name)


@st.composite
def edits(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two policies: the second another one, or the first with one body replaced, as an edit does."""
    old = draw(documents)
    if draw(st.booleans()):
        return old, draw(documents)
    new = json.loads(json.dumps(old))
    group = draw(st.sampled_from(("roles", "agents", "defaults", "tenants")))
    if group == "agents":
        new[group][draw(st.sampled_from(AGENTS))] = draw(bodies(ROLES, agents=True))
    elif group == "roles":
        new[group]["r2"] = draw(bodies(ROLES[:2]))
    else:
        new[group] = draw(documents)[group]
    return old, new


def expected(
    old: Rulebook, new: Rulebook, catalog: list[ToolRecord], trusted: Mapping[str, bool]
) -> dict[tuple[str, str], tuple[tuple[Verdict, int], tuple[Verdict, int]]]:
    found: dict[tuple[str, str], tuple[tuple[Verdict, int], tuple[Verdict, int]]] = {}
    for name in AGENTS:
        for record in catalog:
            known = trusted[record.server]
            was, now = (made.decide(Principal(name), record, trusted=known) for made in (old, new))
            if (was.verdict, was.people) != (now.verdict, now.people):
                found[name, str(target_of(record))] = (was.verdict, was.people), (now.verdict, now.people)
    return found


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(edits(), catalogs, st.fixed_dictionaries({server: st.booleans() for server in SERVERS}))
def test_the_difference_is_that_of_the_decisions(edit: Any, catalog: Any, trusted: dict[str, bool]) -> None:
    old, new = map(book, edit)
    found = diff(old, new, catalog, trusted)
    changes = [((c.agent, c.tool), ((c.before, c.people[0]), (c.after, c.people[1]))) for c in found.changes()]
    assert dict(changes) == expected(old, new, catalog, trusted)
    assert len(changes) == len(dict(changes)) == sum(group.size for group in found.groups)
    assert {agent for group in found.groups for agent in group.agents} <= set(found.affected)
    # Every change is put down to a line, and the line is right.
    assert "several rules" not in {group.cause.text for group in found.groups}
    assert all(group.cause.place is not None for group in found.groups)
    assert not diff(old, old, catalog, trusted).groups


POLICY = """\
tenants:
  acme: {servers: [crm]}
roles:
  clerk:
    allow: ["crm.*", "time.*"]
  auditor:
    deny: ["*.create_*"]
agents:
  anna:
    tenant: acme
    roles: [clerk]
  bert:
    tenant: acme
    roles: [clerk]
defaults:
  annotations: {destructive: confirm}
"""
CATALOG = (tool("crm.create_it"), tool("crm.get_it", READ_ONLY), tool("time.now", READ_ONLY))


def groups(old: str, new: str) -> list[str]:
    """The groups of an edit, each on a line: the cause, the verdicts, the agents and the tools."""
    found = diff(book(old), book(new), CATALOG, {"crm": True, "time": True})
    return [
        f"{group.cause}: {group.before} -> {group.after}: {','.join(group.agents)}: {','.join(names)}"
        for group in found.groups
        for names in (found.names(group.tools),)
    ]


@pytest.mark.parametrize(
    ("line", "instead", "said"),
    [
        (
            '  clerk:\n',
            '  clerk:\n    deny: ["*.create_*"]\n',
            'deny "*.create_*" of role clerk, added (policies/1.yaml:5): confirm -> deny: anna,bert: crm.create_it',
        ),
        (
            '["crm.*", "time.*"]',
            '["crm.*"]',
            'allow "time.*" of role clerk, removed (policies/1.yaml:5): allow -> deny: anna,bert: time.now',
        ),
        (
            "    tenant: acme\n    roles: [clerk]\n  bert",
            "    tenant: acme\n    roles: [clerk, auditor]\n  bert",
            "roles: auditor of agents, added (policies/1.yaml:11): confirm -> deny: anna: crm.create_it",
        ),
        (
            "  bert:\n    tenant: acme\n",
            "  bert:\n",
            "tenant: acme of agents, removed (policies/1.yaml:13): confirm -> deny: bert: crm.create_it\n"
            "tenant: acme of agents, removed (policies/1.yaml:13): allow -> deny: bert: crm.get_it",
        ),
        (
            "  acme: {servers: [crm]}\n",
            "  acme: {servers: [crm]}\n  other: {servers: [time]}\n",
            "tenant other has server time, added (policies/1.yaml:3): allow -> deny: anna,bert: time.now",
        ),
        (
            "{destructive: confirm}",
            "{read_only: confirm}",
            "annotations.destructive: confirm of defaults, removed (policies/1.yaml:16): confirm -> allow: anna,bert: "
            "crm.create_it\n"
            "annotations.read_only: confirm of defaults, added (policies/1.yaml:16): allow -> confirm: anna,bert: "
            "crm.get_it,time.now",
        ),
        (
            "defaults:\n",
            "defaults:\n  read_only: [crm.create_it]\n",
            'read_only "crm.create_it" of defaults, added (policies/1.yaml:16): confirm -> allow: anna,bert: '
            "crm.create_it",
        ),
        (
            "  bert:\n    tenant: acme\n    roles: [clerk]\n",
            "",
            "agents that are gone, removed (policies/1.yaml:12): allow -> deny: bert: crm.get_it,time.now\n"
            "agents that are gone, removed (policies/1.yaml:12): confirm -> deny: bert: crm.create_it",
        ),
        # Only the places differ.
        ("tenants:\n", "# A comment.\n\ntenants:\n", ""),
    ],
)  # fmt: skip
def test_a_change_is_put_down_to_its_line(line: str, instead: str, said: str) -> None:
    assert line in POLICY
    assert sorted(groups(POLICY, POLICY.replace(line, instead))) == sorted(said.split("\n") if said else [])


def test_a_rule_more_is_matched_with_all_tools_and_no_other_is_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sets stay while the catalog does; with another catalog, or other trust, they are made anew."""
    kept = KeptToolSets()
    catalog = tuple(tool(f"t.{n}", READ_ONLY) for n in range(500))
    agents = {f"a{n}": {"allow": ["*"], "deny": [f"t.*{n}"]} for n in range(200)}
    old, new = book({"agents": agents}), book({"agents": agents, "defaults": {"deny": ["*.1*"]}})
    sets = kept.of(catalog, None)
    first = at_once(diff_steps(None, old, sets))
    assert (first.uncounted, len(first.appeared)) == (0, 200)
    tried: list[str] = []
    fits = Pattern.fits

    def counted(self: Pattern, text: str) -> bool:
        tried.append(self.text)
        return fits(self, text)

    monkeypatch.setattr(Pattern, "fits", counted)
    assert kept.of(tuple(map(replace, catalog)), None) is sets
    found = at_once(diff_steps(old, new, sets))
    assert set(tried) == {"*.1*"}
    assert len(tried) == sum(record.own_name.startswith("1") for record in catalog)
    assert [len(group.agents) for group in found.groups] == [200]
    assert kept.of(catalog, {"t": True}) is not sets
    assert kept.of(catalog[1:], None).names == tuple(sorted(record.name for record in catalog[1:]))


def test_comparing_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """No agent is left out for their number; with more new patterns than can be tried, those left are counted."""
    catalog = [tool(f"t.{n}") for n in range(300)]
    many = book({"agents": {f"a{n}": {"allow": ["*"], "deny": [f"t.{n}"]} for n in range(300)}})
    found = diff(None, many, catalog)
    assert found.uncounted == 0
    assert sum(group.size for group in found.groups) == 300 * 299
    assert len(found.lines()) == 20
    assert found.lines()[-1] == "and 581 more lines"
    monkeypatch.setattr(compare, "MOST_TRIED", 1_000)
    costly = book({"agents": {f"a{n}": {"allow": [f"*.{n}*", f"*{n}"]} for n in range(100)}})
    left_out = diff(None, costly, catalog)
    assert 50 < left_out.uncounted < 100
    assert left_out.lines(most=500)[-1] == f"{left_out.uncounted} more agents with changed rules were not compared"
    assert len(left_out.affected) == 100


def test_without_rulebooks_there_is_no_difference() -> None:
    assert diff(None, None, CATALOG) == PolicyDiff(sets=ANY_SETS)
    assert PolicyDiff().lines() == []
    assert ToolSets(CATALOG).everything.bit_count() == 3


class _AnySets(ToolSets):
    def __eq__(self, other: object) -> bool:
        return isinstance(other, ToolSets)

    __hash__ = ToolSets.__hash__


ANY_SETS = _AnySets(())
