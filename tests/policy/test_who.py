"""Whom an access token stands for: the rules `who`, and the scopes that rules want."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.domain.principal import Principal, TokenFacts
from aggregator.policy.compare.diff import diff
from aggregator.policy.files.cases import CaseOutcome, PolicyCase, run_case
from aggregator.policy.files.known_names import KnownNames
from aggregator.policy.files.lint import lint
from aggregator.policy.rulebook import Rulebook
from aggregator.policy.who import lacking, together
from tests.end_to_end.programs import run

from .build import book, checked, errors, tool

ISSUER = "https://login.example.com"
RULES = """
agents:
  shop: { allow: ["shop.*"] }
  dev-root: { allow: ["*"] }
roles:
  reader: { allow: ["wiki.*"], scopes: { "wiki.*": ["read|all"], "wiki.edit*": [write] } }
tenants:
  acme: { servers: [wiki] }
who:
  - { issuer: "https://login.example.com", groups: [staff], agent: shop }
  - { subject: "*@example.com", client: "claude*", agent: "dev-{subject}", roles: [reader], tenant: acme }
  - { scopes: [mcp], agent: "app-{client}", roles: [reader] }
  - { groups: ["guests-*"], agent: guest }
"""


def token(subject: str = "ann", **claims: object) -> TokenFacts:
    return TokenFacts(**{"issuer": ISSUER, "subject": subject, **claims})  # type: ignore[arg-type]


def test_the_first_rule_that_fits_counts() -> None:
    made = book(RULES)
    by_group = made.who(token(groups=("a", "staff")))
    assert (by_group.agent_id, by_group.made) == ("shop", False)
    by_subject = made.who(token("ann@example.com", client="claude-code"))
    assert (by_subject.agent_id, by_subject.tenant, by_subject.roles) == (by_subject.agent_id, "acme", ("reader",))
    assert by_subject.agent_id is not None
    assert by_subject.agent_id.startswith("dev-")
    assert by_subject.source is not None
    assert by_subject.source.endswith(":11")
    assert made.who(token(scopes=frozenset({"mcp"}), client="cli")).agent_id == "app-cli"
    assert made.who(token(groups=("guests-1",))).agent_id == "guest"
    none = made.who(token())
    assert none.agent_id is None
    assert len(none.passed) == 4


@pytest.mark.parametrize(
    "claims",
    [
        {"groups": ("Staff",)},
        {"groups": ("staff",), "issuer": f"{ISSUER}/"},
        {"subject": "ann@example.com", "client": "Claude"},
        {"subject": "ann@example.com.evil", "client": "claude"},
        {"subject": "ann@example.com"},
        {"scopes": frozenset({"mcp"})},
        {"scopes": frozenset({"MCP"}), "client": "cli"},
    ],
)
def test_what_only_looks_alike_does_not_fit(claims: dict[str, object]) -> None:
    assert book(RULES).who(token(**claims)).agent_id is None  # type: ignore[arg-type]


def test_wildcards_are_no_other_patterns() -> None:
    made = book('who: [{ subject: "a[b]?*", agent: guest }]')
    assert made.who(token("a[b]?c")).agent_id == "guest"
    assert [made.who(token(one)).agent_id for one in ("abxc", "a[b]xc", "a[b]", "ba[b]?c")] == [None] * 4


@pytest.mark.parametrize(
    ("scopes", "groups", "fits"),
    [
        ({"read", "mcp"}, ("staff",), True),
        ({"read", "mcp", "more"}, ("guests", "admins"), True),
        ({"read"}, ("staff",), False),
        ({"mcp"}, ("staff",), False),
        ({"read", "mcp"}, ("guests",), False),
        ({"read", "mcp"}, (), False),
    ],
)
def test_a_rule_wants_all_of_its_scopes_and_one_of_its_groups(
    scopes: set[str], groups: tuple[str, ...], fits: bool
) -> None:
    made = book("who: [{ scopes: [read, mcp], groups: [staff, admins], agent: guest }]")
    found = made.who(token(scopes=frozenset(scopes), groups=groups)).agent_id
    assert found == ("guest" if fits else None)


@given(st.text(min_size=1, max_size=80), st.text(min_size=1, max_size=80))
def test_an_agent_that_is_made_is_no_one_elses(one: str, other: str) -> None:
    """D2: No claim gives the rights of an agent of the files, and two people are never one agent."""
    made = book('agents: { dev-root: { allow: ["*"] } }\nwho: [{ agent: "dev-{subject}" }]')
    found = [made.who(token(subject)) for subject in (one, other)]
    for decision in found:
        assert decision.agent_id != "dev-root"
        rules = made.for_token(decision)
        assert rules is None or not rules.decide(tool("shop.buy"), trusted=False).visible
    if one != other and None not in (names := [decision.agent_id for decision in found]):
        assert names[0] != names[1]


def test_a_claim_cannot_take_the_digest_of_another() -> None:
    made = book('who: [{ agent: "dev-{subject}" }]')
    digest = made.who(token("Ann Example")).agent_id
    assert digest is not None
    assert made.who(token(digest.removeprefix("dev-"))).agent_id != digest
    assert made.who(token("Ann Example", issuer="https://other.example.com")).agent_id != digest


@pytest.mark.parametrize("subject", ["root", "Root", "ROOT"])
def test_a_named_agent_is_refused_to_a_made_one(subject: str) -> None:
    """In any case: users would take one for the other. So with the agent that all have without policies."""
    found = book(RULES.replace("*@example.com", subject)).who(token(subject, client="claude"))
    assert found.agent_id is None
    assert f"dev-{subject}" in found.reason
    for one in ("cal", "Cal"):
        assert book('who: [{ subject: "*", agent: "lo{subject}" }]').who(token(one)).agent_id is None


def test_rules_of_a_made_agent_are_those_of_its_rule() -> None:
    made = book(RULES)
    ann = token("ann@example.com", client="claude")
    agent = made.who(ann).agent_id
    assert agent is not None
    principal = Principal(agent, "acme", ("reader",), token=ann)
    assert made.decide(principal, tool("wiki.page"), trusted=False).visible
    assert not made.decide(principal, tool("shop.buy"), trusted=False).visible
    assert not made.decide(Principal(agent), tool("wiki.page"), trusted=False).visible
    assert made.for_principal(Principal("shop", token=ann)) is None


def test_rules_of_one_name_do_not_mix() -> None:
    made = book(
        'roles: { a: { allow: ["x.*"] }, b: { allow: ["y.*"] } }\n'
        "who: [{ groups: [a], agent: both, roles: [a] }, { agent: both, roles: [b] }]"
    )
    one, other = token(groups=("a",)), token()
    for _ in range(2):
        assert made.decide(Principal("both", token=one), tool("x.t"), trusted=False).visible
        assert not made.decide(Principal("both", token=other), tool("x.t"), trusted=False).visible


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (["who: [{ agent: a }]", "who: [{ agent: b }]"], "Another file has rules `who` already"),
        (["who: [{ agent: a, roles: [nope] }]"], "There is no role nope."),
        (["who: [{ agent: a, tenant: nope }]"], "There is no tenant nope."),
        (["roles: { r: {} }\nagents: { a: {} }\nwho: [{ agent: a, roles: [r] }]"], "has roles and a tenant of its own"),
        (["who: [{ agent: local }]"], "is the agent of this machine"),
        (['who: [{ agent: "{subject}" }]'], "who"),
        (['who: [{ agent: "a-{subject}-b" }]'], "who"),
        (["who: [{ agent: a, rolls: [x] }]"], "rolls"),
    ],
)
def test_what_is_wrong_with_rules_is_told(files: list[str], said: str) -> None:
    found = errors(*files)
    assert found
    assert said in " ".join(found)


@pytest.mark.parametrize("files", [("who: [{ agent: a }]", ""), ("", "who: [{ agent: a }]")])
def test_one_file_of_several_has_the_rules(files: tuple[str, str]) -> None:
    made = checked(*(f"roles: {{ r{number}: {{}} }}\n{text}" for number, text in enumerate(files)))
    assert made.documents is not None, made.problems
    assert len(made.documents.who) == 1


def test_scopes_are_those_of_every_line_that_matches() -> None:
    made = book(RULES)
    rules = made.for_token(made.who(token(scopes=frozenset({"mcp"}), client="cli")))
    assert rules is not None
    assert rules.rule(tool("wiki.edit_page"), trusted=False).scopes == ("read|all", "write")
    assert lacking(("read|all", "write"), frozenset({"all"})) == ("write",)
    assert lacking(("read|all",), frozenset()) == ("read",)
    assert together({"b"}, ("a",)) == ("a", "b")


async def test_explain_says_which_rule_a_token_falls_under(tmp_path: Path) -> None:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "p.yaml").write_text(RULES)
    config = tmp_path / "aggregator.json"
    issuers = [{"issuer": ISSUER, "audience": ["us"]}]
    config.write_text(json.dumps({"mcpServers": {"wiki": {"command": "x"}}, "auth": {"issuers": issuers}}))
    claims = tmp_path / "claims.json"
    ann = {"iss": ISSUER, "sub": "ann@example.com", "azp": "claude", "aud": "us", "exp": 9e9}
    claims.write_text(json.dumps(ann))
    options = ("--config", str(config), "--token-claims", str(claims))
    told = await run("policy", "explain", *options, "wiki.page")
    assert "rule 2 of who fits (policies/p.yaml:11)" in told.out
    assert "rule 1 of who (policies/p.yaml:10): none of the groups" in told.out
    assert "refused with 403 until a token has the scope read" in told.out
    assert told.code == 1
    claims.write_text(json.dumps({"iss": ISSUER, "sub": "bob", "aud": "them"}))
    told = await run("policy", "explain", *options)
    assert "it would be refused" in told.out
    assert "stands for no agent" in told.out
    claims.write_text("no token")
    told = await run("policy", "explain", *options)
    assert "holds neither" in told.err
    assert told.code == 2


def test_each_issuer_has_its_own_people() -> None:
    """A rule without an issuer is for one issuer: a second that is accepted one day gives its `admins` nothing."""
    made = book('roles: { r: {} }\nwho: [{ groups: [admins], agent: "adm-{subject}" }]')
    boss = token(groups=("admins",))
    assert made.who(boss).agent_id == "adm-ann"
    found = made.who(boss, one_issuer=False)
    assert found.agent_id is None
    assert "names no `issuer`" in found.passed[0]
    other = "https://b.example"
    both = book({"who": [{"issuer": ISSUER, "agent": "a-{subject}"}, {"issuer": other, "agent": "b-{subject}"}]})
    assert both.who(token(), one_issuer=False).agent_id == "a-ann"
    assert both.who(token(issuer=other), one_issuer=False).agent_id == "b-ann"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            {"issuer": "https://a.example", "agent": "x-{subject}"},
            {"issuer": "https://b.example", "agent": "x-{subject}"},
        ),
        ({"groups": ["a"], "agent": "x-{subject}"}, {"agent": "x-{client}"}),
        ({"groups": ["a"], "agent": "x-{subject}"}, {"agent": "x-y-{subject}"}),
        ({"groups": ["a"], "agent": "x-y-{subject}"}, {"agent": "X-{subject}"}),
    ],
)
def test_rules_that_could_make_one_agent_of_two_people_are_wrong(one: object, other: object) -> None:
    for rules in ([one, other], [other, one]):
        found = errors({"who": rules})
        assert "could have one name" in " ".join(found)


def test_a_person_may_have_more_with_another_group() -> None:
    assert book({"who": [{"groups": ["a"], "agent": "x-{subject}"}, {"agent": "x-{subject}"}]}).who(token()).agent_id


@pytest.mark.parametrize(
    "subject", ["r\u043eot", "root\u200b", " root", "root ", "root\n", "../root", "{subject}", "*", "%2e", "\uff21"]
)
def test_what_no_name_may_hold_becomes_a_digest(subject: str) -> None:
    """Look-alike letters, blanks, paths and wildcards: no name, no page and no pattern is made of them."""
    made = book({"agents": {"dev-root": {"allow": ["*"]}}, "who": [{"agent": "dev-{subject}"}]})
    agent = made.who(token(subject)).agent_id
    assert agent is not None
    assert len(agent) == len("dev-") + 20
    assert agent.isascii()


NAMES = st.sampled_from(["a", "b", "A", "a-b", "admin", "guest", "local", "x" * 60, "ä", "a b"])
CLAIMS = st.builds(
    TokenFacts,
    issuer=st.sampled_from(["https://a.example", "https://a.example/", "https://b.example"]),
    subject=NAMES,
    client=st.none() | NAMES,
    groups=st.lists(NAMES, max_size=3).map(tuple),
    scopes=st.frozensets(NAMES, max_size=3),
)
RULE = st.fixed_dictionaries(
    {"agent": st.sampled_from(["admin", "guest", "p-{subject}", "q-{client}", "a{subject}"])},
    optional={
        "issuer": st.sampled_from(["https://a.example", "https://b.example"]),
        "subject": st.sampled_from(["a*", "b", "*"]),
        "client": st.sampled_from(["a", "*"]),
        "groups": st.lists(st.sampled_from(["a", "b", "ad*"]), min_size=1, max_size=2),
        "scopes": st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=2),
    },
)


@given(st.lists(RULE, min_size=1, max_size=4), st.lists(CLAIMS, min_size=2, max_size=4), st.booleans())
def test_decisions_hold_their_laws(rules: list[dict[str, object]], tokens: list[TokenFacts], one_issuer: bool) -> None:
    """No claim makes an agent of the files, the first fitting rule decides, and an agent from a claim is one caller."""
    made = checked({"agents": {"admin": {"allow": ["*"]}}, "who": rules})
    if made.documents is None:
        assert "could have one name" in " ".join(map(str, made.problems))
        return
    rulebook = Rulebook(made.documents)
    owners: dict[str, tuple[str, str | None]] = {}
    for facts in tokens:
        found = rulebook.who(facts, one_issuer=one_issuer)
        if found.agent_id is None:
            continue
        rule = rulebook.documents.who[len(found.passed)]
        assert found.rule == str(rule)
        assert one_issuer or rule.issuer == facts.issuer
        assert not rule.scopes or set(rule.scopes) <= facts.scopes
        if found.agent_id == "admin":
            assert rule.agent == "admin"
            assert not found.made
        if "{" in rule.agent:
            owner = facts.issuer if not one_issuer else "", facts.subject if "subject" in rule.agent else facts.client
            assert owners.setdefault(found.agent_id, owner) == owner
        rules_of = rulebook.for_token(found)
        assert rules_of is not None
        assert rules_of.decide(tool("shop.buy"), trusted=False).visible is (found.agent_id == "admin")


def test_lint_knows_rules_who() -> None:
    made = book(
        """
        roles: { used: { allow: ["a.*"] }, empty: {} }
        who:
          - { groups: [staff], agent: "s-{subject}", roles: [used] }
          - { groups: [staff], client: cli, agent: "s-{subject}", roles: [used] }
          - { agent: idle, roles: [empty] }
        """
    )
    said = [str(one) for one in lint(made, KnownNames())]
    assert len(said) == 2
    assert "It can never count: rule 1 of who" in said[0]
    assert "Nothing is allowed to the agents it makes (idle)" in said[1]


def test_comparing_knows_agents_that_rules_make() -> None:
    """A role that a rule gives to people counts in what an edit changes, and so does a rule that is gone."""
    text = 'roles: { r: { allow: ["a.*"%s] } }\nwho: [{ agent: "s-{subject}", roles: [r] }]'
    found = diff(book(text % ""), book(text % ', "b.*"'), [tool("a.x"), tool("b.x")])
    assert [str(one) for one in found.changes()] == ["s-{subject} (rule 1 of who) gained b.x: deny -> allow"]
    gone = diff(book(text % ""), book("roles: { r: {} }"), [tool("a.x")])
    assert [one.after for one in gone.changes()] == ["deny"]


def test_cases_may_come_with_a_token() -> None:
    made = book(RULES)

    def run_one(agent: str, name: str, expect: str, **claims: object) -> CaseOutcome:
        case = PolicyCase.model_validate({"agent": agent, "tool": name, "expect": expect, "token": claims})
        return run_case(case, "c.yaml:1", made, {"wiki": "wiki", "shop": "shop"}, [tool("wiki.page")], issuers=[ISSUER])

    assert run_one("shop", "shop.buy", "allow", subject="ann", groups=["staff"]).passed
    assert not run_one("guest", "shop.buy", "deny", subject="ann", groups=["staff"]).passed
    assert run_one("shop", "shop.buy", "deny", subject="ann").passed
    dev: dict[str, object] = {"subject": "ann@example.com", "client": "claude"}
    name = made.who(token("ann@example.com", client="claude")).agent_id or ""
    assert run_one(name, "wiki.page", "allow", **dev, scopes=["read"]).passed
    lacks = run_one(name, "wiki.page", "deny", **dev)
    assert lacks.passed
    assert lacks.reason == "the token lacks the scope read"


def test_comparing_tells_what_changes_for_tokens() -> None:
    """No decision on a tool changes, and yet other people come in, or need other scopes."""
    who = "- { groups: [%s], agent: shop }\n- { agent: guest }"
    text = 'agents: { shop: { allow: ["*"], scopes: { "a.*": [%s] } } }\nwho:\n' + who
    before = book(text % ("read", "staff"))
    told = diff(before, book(text % ("write", '"*"')), [tool("a.x")]).lines()
    assert told == [
        "rule 1 of who is new (policies/1.yaml:3): a token of groups * stands for shop",
        "rule 1 of who is gone: a token of groups staff stands for shop",
        'scopes "a.*" of agent shop: read -> write',
    ]
    turned = book({"agents": {}, "who": [{"agent": "b"}, {"agent": "a"}]})
    assert diff(turned, book({"agents": {}, "who": [{"agent": "a"}, {"agent": "b"}]}), []).tokens == (
        "the rules who stand in another order",
    )


def test_lint_knows_the_issuers() -> None:
    made = book(
        {"roles": {"r": {"allow": ["*"]}}, "who": [{"issuer": f"{ISSUER}/", "agent": "a-{subject}", "roles": ["r"]}]}
    )
    (said,) = lint(made, KnownNames(issuers=(ISSUER,)))
    assert f"no issuer {ISSUER}/" in said.message
    assert said.fix == f"Did you mean `{ISSUER}`?"
    made = book({"roles": {"r": {"allow": ["*"]}}, "who": [{"agent": "a-{subject}", "roles": ["r"]}]})
    assert lint(made, KnownNames(issuers=(ISSUER,))) == []
    (said,) = lint(made, KnownNames(issuers=(ISSUER, "https://b.example")))
    assert "names none" in said.message


@pytest.mark.parametrize(
    ("wide", "narrow", "covered"),
    [
        ({}, {}, True),
        ({}, {"subject": "ann", "client": "cli", "groups": ["a"], "scopes": ["mcp"], "issuer": ISSUER}, True),
        ({"issuer": ISSUER}, {"issuer": ISSUER}, True),
        ({"issuer": ISSUER}, {}, False),
        ({"subject": "a*"}, {"subject": "ann"}, True),
        ({"subject": "a*"}, {"subject": "*"}, False),
        ({"subject": "a*"}, {}, False),
        ({"client": "c*"}, {"client": "cli"}, True),
        ({"client": "c*"}, {"client": "web"}, False),
        ({"client": "*"}, {}, False),
        ({"groups": ["a*", "b"]}, {"groups": ["ab", "b"]}, True),
        ({"groups": ["a*"]}, {"groups": ["ab", "c"]}, False),
        ({"groups": ["a*"]}, {"groups": ["c", "ab"]}, False),
        ({"groups": ["*"]}, {}, False),
        ({"scopes": ["mcp"]}, {"scopes": ["mcp", "read"]}, True),
        ({"scopes": ["mcp", "read"]}, {"scopes": ["mcp"]}, False),
    ],
)
def test_a_rule_that_another_covers_can_never_count(
    wide: dict[str, object], narrow: dict[str, object], covered: bool
) -> None:
    """The lint says so, if every token of the one is surely one of the other."""
    made = book({"roles": {"r": {"allow": ["*"]}}, "who": [
        {**wide, "agent": "a-{subject}", "roles": ["r"]}, {**narrow, "agent": "b-{subject}", "roles": ["r"]},
    ]})  # fmt: skip
    said = [one.where for one in lint(made, KnownNames())]
    assert ("who.1" in said) is covered, said


@pytest.mark.parametrize(
    ("rule", "fits", "others"),
    [
        ({"issuer": ISSUER}, {}, {"issuer": "https://other.example.com"}),
        ({"subject": "ann"}, {}, {"subject": "bob"}),
        ({"client": "cli"}, {"client": "cli"}, {"client": None}),
        ({"groups": ["staff"]}, {"groups": ("staff",)}, {"groups": ("guests",)}),
        ({"scopes": ["mcp"]}, {"scopes": frozenset({"mcp"})}, {"scopes": frozenset()}),
    ],
)
def test_an_answer_about_a_token_is_that_of_no_other(
    rule: dict[str, Any], fits: dict[str, Any], others: dict[str, Any]
) -> None:
    """Tokens that differ in one fact alone, asked about in turn; the rules of the first are not those of the second."""
    made = book({"agents": {"a": {"allow": ["t.*"]}}, "who": [{**rule, "agent": "a"}]})
    yes, no = token(**fits), token(**{**fits, **others})
    for _ in range(2):
        assert (made.who(yes).agent_id, made.who(no).agent_id) == ("a", None)
        ruled = [made.decide(Principal("a", token=one), tool("t.x"), trusted=False).visible for one in (yes, no)]
        assert ruled == [True, False]
        several = made.who(yes, one_issuer=False).agent_id
        assert several == ("a" if "issuer" in rule else None), "each issuer has a name and a group of its own"
