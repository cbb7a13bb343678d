"""What must be true of every policy and every catalog."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aggregator.domain.principal import Principal
from aggregator.domain.text.invisible import folded_name
from aggregator.policy.explain import agents_allowed, explain, tools_allowed
from aggregator.policy.files.checking import check
from aggregator.policy.files.folder import PolicySource
from aggregator.policy.patterns import Pattern, Target, parse
from aggregator.policy.rulebook import Rulebook
from tests.laws import examples

from .build import book, tool

SERVERS = ("a", "b", "a_b", "A")
OWN = ("get", "delete_x", "x.y", "Get", "get ", "x__y", "查", "")
AGENTS = ("one", "two", "three")
ROLES = ("r0", "r1", "r2")
TENANTS = ("north", "south")
RANK = {"deny": 0, "confirm": 1, "allow": 2}

patterns = st.sampled_from(
    ("*", "a.*", "b.get", "*.get", "*.delete_*", "a.?et", "[ab].*", "server:a", "server:a*", "a_b.x*", "a.x.y", "A.*",
     "*.[!g]*", "resource:*", "prompt:a.*")
)  # fmt: skip
some = st.lists(patterns, max_size=3)
tool_patterns = st.lists(patterns.filter(lambda text: text[0] not in "rp"), max_size=2)
traits = st.sampled_from(["allow", "deny", "confirm"])


def bodies(roles: tuple[str, ...]) -> st.SearchStrategy[dict[str, Any]]:
    optional: dict[str, Any] = {
        "allow": some,
        "deny": some,
        "confirm": some,
        "read_only": tool_patterns,
        "idempotent": tool_patterns,
        "annotations": st.fixed_dictionaries({}, optional={"destructive": traits, "open_world": traits}),
        "denials": st.sampled_from(["explicit", "hidden"]),
        "roles": st.lists(st.sampled_from(roles), max_size=2) if roles else st.just([]),
    }
    return st.fixed_dictionaries({}, optional=optional)


# A role inherits only from roles named before it, so that there is no ring.
documents = st.fixed_dictionaries(
    {
        "roles": st.fixed_dictionaries({role: bodies(ROLES[:at]) for at, role in enumerate(ROLES)}),
        "agents": st.fixed_dictionaries({agent: bodies(ROLES) for agent in AGENTS}),
        "tenants": st.dictionaries(
            st.sampled_from(SERVERS), st.sampled_from(TENANTS), max_size=3
        ).map(lambda claims: {t: {"servers": [s for s, of in claims.items() if of == t]} for t in TENANTS}),
        "defaults": bodies(()).map(lambda body: {k: v for k, v in body.items() if k != "roles"}),
    }
)  # fmt: skip
belonging = st.dictionaries(st.sampled_from(AGENTS), st.sampled_from(TENANTS))
hints = st.sampled_from([None, {"readOnlyHint": True}, {"destructiveHint": False, "openWorldHint": False}, {}])
tools = st.builds(
    lambda server, own, claims: tool(f"{server}.{own}", claims), st.sampled_from(SERVERS), st.sampled_from(OWN), hints
)
catalogs = st.lists(tools, min_size=1, max_size=8)


def with_tenants(content: Mapping[str, Any], belong: Mapping[str, str]) -> dict[str, Any]:
    agents = {
        name: {**body, **({"tenant": belong[name]} if name in belong else {})}
        for name, body in content["agents"].items()
    }
    return {**content, "agents": agents}


def verdicts(made: Rulebook, catalog: list[Any], trusted: bool) -> list[str]:
    return [r.decide(t, trusted=trusted).verdict for r in made.agents.values() for t in catalog]


slow = settings(max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@slow
@given(documents, belonging, catalogs, st.booleans(), patterns, st.data())
def test_a_deny_more_never_grants(
    content: Any, belong: Any, catalog: Any, trusted: bool, pattern: str, data: Any
) -> None:
    content = with_tenants(content, belong)
    before = verdicts(book(content), catalog, trusted)
    group, name = data.draw(st.sampled_from([("agents", "one"), ("roles", "r0"), ("roles", "r2"), ("defaults", None)]))
    tighter = json.loads(json.dumps(content))
    body = tighter[group][name] if name else tighter[group]
    body["deny"] = [*body.get("deny", []), pattern]
    after = verdicts(book(tighter), catalog, trusted)
    assert all(RANK[new] <= RANK[old] for old, new in zip(before, after, strict=True))


@pytest.mark.slow
@slow
@given(documents, belonging, catalogs, st.booleans(), st.randoms(use_true_random=False))
def test_the_order_of_files_rules_and_roles_changes_nothing(
    content: Any, belong: Any, catalog: Any, trusted: bool, random: Any
) -> None:
    content = with_tenants(content, belong)
    whole = book(content)
    pieces: list[dict[str, Any]] = []
    for group in ("roles", "agents", "tenants"):
        for name, body in content[group].items():
            for key, value in body.items():
                items = [[item] for item in value] if isinstance(value, list) else [value]
                pieces += [{group: {name: {key: item}}} for item in items]
            pieces.append({group: {name: None}})
    pieces += [{"defaults": {key: value}} for key, value in content["defaults"].items()]
    random.shuffle(pieces)
    sources = [PolicySource(f"policies/{at}.yaml", json.dumps(piece)) for at, piece in enumerate(pieces)]
    random.shuffle(sources)
    made = check(sources)
    assert made.documents is not None, made.problems
    split = Rulebook(made.documents)
    random.shuffle(sources)
    again = check(sources)
    assert again == made
    for name, rules in whole.agents.items():
        for one in catalog:
            old, new = rules.decide(one, trusted=trusted), split.agents[name].decide(one, trusted=trusted)
            assert (old.verdict, old.rule, old.reason, old.hidden) == (new.verdict, new.rule, new.reason, new.hidden)


@slow
@given(documents, belonging, catalogs, st.booleans())
def test_what_is_listed_is_what_may_be_called_and_explained(
    content: Any, belong: Any, catalog: Any, trusted: bool
) -> None:
    made = book(with_tenants(content, belong))
    for name, rules in made.agents.items():
        listed = [one for one, _ in tools_allowed(made, name, catalog, lambda server: trusted)]
        assert listed == [one for one in catalog if rules.decide(one, trusted=trusted).visible]
        for one in catalog:
            decided = made.decide(Principal(name), one, trusted=trusted)
            assert explain(made, name, one, trusted=trusted).decision == decided
            assert (name in dict(agents_allowed(made, one, trusted=trusted))) is decided.visible
            assert decided.source is not None
            assert (decided.verdict == "deny") or not decided.hidden


@slow
@given(documents, belonging, catalogs, st.booleans())
def test_tenants_are_disjoint_and_nothing_is_allowed_that_no_rule_allows(
    content: Any, belong: Any, catalog: Any, trusted: bool
) -> None:
    made = book(with_tenants(content, belong))
    claims = {server: name for name, servers in made.documents.tenants.items() for server in servers}
    for name, rules in made.agents.items():
        allows = [rule for step in rules.steps for rule in step.body.rules if rule.field == "allow"]
        for one in catalog:
            decided = rules.decide(one, trusted=trusted)
            target = Target("tool", one.server, one.prefix, one.own_name)
            if decided.visible:
                assert claims.get(one.server) in (None, belong.get(name))
                assert any(rule.pattern.matches(target) for rule in allows)


@given(st.text(max_size=12), st.sampled_from(["stranger", "ONE", "one ", "", "öne", "one\0", "оne"]))
def test_an_unknown_agent_sees_nothing(own: str, agent: str) -> None:
    made = book({"agents": {"one": {"allow": ["*"]}}, "defaults": {"allow": ["*"]}})
    assert not made.decide(Principal(agent), tool(f"a.{own}"), trusted=True).visible
    assert tools_allowed(made, agent, [tool(f"a.{own}")]) == []


LOOK_ALIKES = (
    "github.Delete", "Github.delete", "GITHUB.DELETE", "github..delete", "github__delete", "github/delete",
    "github:delete", "github.delete.", "github.delete ", " github.delete", "github.delete\0", "github\0.delete",
    "github.delete\n", "github.\u200bdelete", "gi\u0442hub.delete", "\u0261ithub.delete", "github.de\u217cete",
    "github\uff0edelete", "github.delet\u0435", "github.dele\u0301te", "github.%64elete", "github.delete*",
    "github.delete_", "githu.bdelete", "github.", ".delete", "github.x.delete",
)  # fmt: skip


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_look_alikes_are_other_names(name: str) -> None:
    exact = book({"agents": {"a": {"allow": ["github.delete"]}, "b": {"allow": ["github.delete?", "github.?elete"]}}})
    decided = exact.agents["a"].decide(tool(name), trusted=False)
    assert decided.verdict == "deny"
    # What differs by characters that nobody sees is denied with the name that it looks like.
    prefix = "" if folded_name(name) == "github.delete" else name.partition(".")[0]
    denied = book({"agents": {"a": {"allow": ["github.*"], "deny": ["github.delete"]}}}).agents["a"]
    assert denied.decide(tool(name), trusted=False).visible is (prefix == "github" and "." in name)


# A prefix has letters, digits, _ and - (the configuration sees to it), so the first dot ends it.
@given(st.text(min_size=1, max_size=20), st.text("aT0_-", min_size=1, max_size=20))
def test_a_full_name_matches_itself_only(own: str, other: str) -> None:
    made = parse("t.plain")
    target = Target("tool", "t", "t", own)
    assert made.matches(target) is (own == "plain")
    assert parse("t.*").matches(target)
    assert not parse("t.*").matches(Target("tool", "t", f"t{other}", own))
    assert not parse("t.*").matches(Target("resource", "t", "t", own))


def test_deciding_does_not_grow_with_agents_or_with_rules_of_other_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    fits = Pattern.fits

    def counted(self: Pattern, text: str) -> bool:
        tried.append(self.text)
        return fits(self, text)

    def cost(agents: int, servers: int) -> int:
        rules = [f"s{n}.get_*" for n in range(servers)] + [f"s{n}.put" for n in range(servers)] + ["*.delete_*"]
        made = book({"roles": {"r": {"allow": rules}}, "agents": {f"a{n}": {"roles": ["r"]} for n in range(agents)}})
        tried.clear()
        assert made.agents["a0"].decide(tool("s0.get_it"), trusted=False).verdict == "allow"
        return len(tried)

    monkeypatch.setattr(Pattern, "fits", counted)
    assert cost(1, 1) == cost(300, 1) == cost(1, 300) == 2
    assert sorted(tried) == ["*.delete_*", "s0.get_*"]


def test_asking_again_tries_no_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = book({"agents": {"a": {"allow": ["t.*"]}}}).agents["a"]
    first = rules.rule(tool("t.x"), trusted=False)
    monkeypatch.setattr(Pattern, "fits", None)
    assert rules.rule(tool("t.x"), trusted=False) is first
    assert (rules.limits(tool("t.x")), rules.tightening(tool("t.x"))) == (first.limits, first.tightening)
