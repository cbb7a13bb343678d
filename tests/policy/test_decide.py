"""What the rules mean: one line of a table per sentence of the guide."""

from itertools import pairwise
from typing import Any

import pytest

from aggregator.domain.principal import Principal
from aggregator.policy.inherit import SMALLEST, STRICTNESS
from aggregator.policy.limits import COUNTED
from aggregator.policy.patterns import Target
from aggregator.policy.rulebook import AgentRules, Rulebook

from .build import READ_ONLY, book, errors, item, tool, verdict

IDEMPOTENT = {"idempotentHint": True}


def one(**body: Any) -> Rulebook:
    return book({"agents": {"a": body}})


def rules_of(made: Rulebook, agent: str = "a") -> AgentRules:
    rules = made.for_agent(agent)
    assert rules is not None
    return rules


@pytest.mark.parametrize(
    ("body", "name", "expected"),
    [
        ({}, "t.x", "deny"),
        ({"allow": ["t.x"]}, "t.x", "allow"),
        ({"allow": ["t.x"]}, "t.xy", "deny"),
        ({"allow": ["t.x"]}, "t.X", "deny"),
        ({"allow": ["T.x"]}, "t.x", "deny"),
        ({"allow": ["t.*"]}, "t.x", "allow"),
        ({"allow": ["t.*"]}, "t2.x", "deny"),
        ({"allow": ["t.*"]}, "tt.x", "deny"),
        ({"allow": ["t*"]}, "tt.x", "allow"),
        ({"allow": ["*"]}, "t.x", "allow"),
        ({"allow": ["t.?"]}, "t.x", "allow"),
        ({"allow": ["t.?"]}, "t.xy", "deny"),
        ({"allow": ["t.[xy]"]}, "t.y", "allow"),
        ({"allow": ["t.[!xy]"]}, "t.y", "deny"),
        ({"allow": ["t.[a-c]_*"]}, "t.b_1", "allow"),
        ({"allow": ["t.[[]x"]}, "t.[x", "allow"),
        ({"allow": ["*.delete_*"]}, "t.delete_it", "allow"),
        ({"allow": ["*.delete_*"]}, "t.undelete", "deny"),
        ({"allow": ["t.查询"]}, "t.查询", "allow"),
        ({"allow": ["server:t"]}, "t.x", "allow"),
        ({"allow": ["server:t"]}, "tt.x", "deny"),
        ({"allow": ["server:t*"]}, "tt.x", "allow"),
        ({"allow": ["resource:t.*", "prompt:t.*"]}, "t.x", "deny"),
        ({"allow": ["t.*"], "deny": ["t.x"]}, "t.x", "deny"),
        ({"allow": ["t.x"], "deny": ["*"]}, "t.x", "deny"),
        ({"allow": ["t.x"], "deny": ["server:t"]}, "t.x", "deny"),
        ({"allow": ["t.x"], "deny": ["resource:*"]}, "t.x", "allow"),
        ({"confirm": ["t.x"]}, "t.x", "deny"),
        ({"allow": ["t.*"], "confirm": ["t.x"]}, "t.x", "confirm"),
        ({"allow": ["t.*"], "confirm": ["t.x"]}, "t.y", "allow"),
        ({"allow": ["t.*"], "confirm": ["t.x"], "deny": ["t.x"]}, "t.x", "deny"),
    ],
)
def test_patterns(body: dict[str, Any], name: str, expected: str) -> None:
    assert verdict(one(**body), "a", name) == expected


@pytest.mark.parametrize(
    ("annotations", "hints", "trusted", "expected"),
    [
        ({"destructive": "deny"}, None, False, "deny"),
        ({"destructive": "deny"}, READ_ONLY, False, "deny"),
        ({"destructive": "deny"}, READ_ONLY, True, "allow"),
        ({"destructive": "deny"}, {"readOnlyHint": "true"}, True, "deny"),
        ({"destructive": "deny"}, {"destructiveHint": False}, True, "allow"),
        ({"destructive": "deny"}, {"destructiveHint": 0}, True, "deny"),
        ({"destructive": "deny"}, None, True, "deny"),
        ({"destructive": "confirm"}, {}, True, "confirm"),
        ({"destructive": "allow"}, {}, True, "allow"),
        ({"open_world": "deny"}, {"openWorldHint": False}, False, "deny"),
        ({"open_world": "deny"}, {"openWorldHint": False}, True, "allow"),
        ({"open_world": "deny"}, {"openWorldHint": 0}, True, "deny"),
        ({"open_world": "deny"}, {"openWorldHint": None}, True, "deny"),
        ({"read_only": "deny"}, {"readOnlyHint": 1}, True, "allow"),
        ({"idempotent": "deny"}, {"idempotentHint": 1}, True, "allow"),
        ({"read_only": "confirm"}, READ_ONLY, True, "confirm"),
        ({"read_only": "confirm"}, READ_ONLY, False, "allow"),
        ({"idempotent": "confirm"}, {"idempotentHint": True}, True, "confirm"),
        ({"idempotent": "confirm"}, READ_ONLY, True, "confirm"),
        ({"destructive": "confirm", "open_world": "deny"}, None, False, "deny"),
        ({"destructive": "allow", "open_world": "deny"}, None, False, "deny"),
        ({"destructive": "allow", "open_world": "confirm", "idempotent": "deny"}, IDEMPOTENT, True, "deny"),
        ({"destructive": "deny", "idempotent": "confirm"}, {"destructiveHint": False}, True, "allow"),
        ({"read_only": "confirm"}, {"readOnlyHint": True, "destructiveHint": True}, True, "confirm"),
    ],
)
def test_annotations(annotations: dict[str, str], hints: Any, trusted: bool, expected: str) -> None:
    made = one(allow=["t.*"], annotations=annotations)
    assert verdict(made, "a", "t.x", annotations=hints, trusted=trusted) == expected


def test_annotations_grant_nothing() -> None:
    made = one(annotations={"read_only": "allow", "destructive": "allow"})
    assert verdict(made, "a", "t.x", annotations=READ_ONLY, trusted=True) == "deny"


def test_what_the_admin_declares_counts_always() -> None:
    made = one(allow=["t.*"], annotations={"destructive": "deny"}, read_only=["t.get_*"])
    assert verdict(made, "a", "t.get_it") == "allow"
    assert verdict(made, "a", "t.get_it", annotations={"destructiveHint": True}, trusted=True) == "allow"
    assert verdict(made, "a", "t.put_it") == "deny"
    made = one(allow=["t.*"], annotations={"idempotent": "confirm"}, read_only=["t.get_*"], idempotent=["t.set_*"])
    assert [verdict(made, "a", f"t.{name}_it") for name in ("get", "set", "put")] == ["confirm", "confirm", "allow"]


def test_roles_add_up_and_deny_wins_from_anywhere() -> None:
    made = book(
        {
            "roles": {
                "low": {"allow": ["l.*"], "deny": ["*.rm"]},
                "mid": {"roles": ["low"], "allow": ["m.*"]},
                "other": {"allow": ["o.*"]},
            },
            "agents": {"a": {"roles": ["mid"], "allow": ["a.*"]}, "b": {"roles": ["other"]}},
            "defaults": {"allow": ["d.x"], "deny": ["*.drop"]},
        }
    )
    expected = {
        "a": {"l.x": "allow", "m.x": "allow", "a.x": "allow", "o.x": "deny", "d.x": "allow", "a.rm": "deny"},
        "b": {"l.x": "deny", "o.x": "allow", "o.rm": "allow", "d.x": "allow", "o.drop": "deny"},
    }
    for agent, table in expected.items():
        assert {name: verdict(made, agent, name) for name in table} == table
    assert rules_of(made).roles == ("mid", "low")
    denied = rules_of(made).decide(tool("a.rm"), trusted=False)
    assert denied.rule == 'deny "*.rm"'
    assert denied.reason == 'role low denies "*.rm" (agent a > role mid > role low)'
    assert denied.source == "policies/1.yaml:1"


@pytest.mark.parametrize(
    ("own", "one_role", "other_role", "below", "defaults", "expected"),
    [
        ("explicit", "hidden", "hidden", "hidden", "hidden", "explicit"),
        (None, "explicit", "hidden", None, None, "hidden"),
        (None, "explicit", None, "hidden", "hidden", "explicit"),
        (None, None, None, "hidden", "explicit", "hidden"),
        (None, None, None, None, "hidden", "hidden"),
        (None, None, None, None, None, "explicit"),
    ],
)
def test_the_nearest_value_counts_and_of_equals_the_stricter(
    own: str, one_role: str, other_role: str, below: str, defaults: str, expected: str
) -> None:
    def said(value: str | None, **more: Any) -> dict[str, Any]:
        return more | ({"denials": value} if value else {})

    made = book(
        {
            "roles": {"r1": said(one_role, roles=["r0"]), "r2": said(other_role), "r0": said(below)},
            "agents": {"a": said(own, roles=["r1", "r2"])},
            "defaults": said(defaults),
        }
    )
    assert rules_of(made).denials == expected
    assert rules_of(made).decide(tool("t.x"), trusted=False).hidden is (expected == "hidden")


def test_tenants() -> None:
    made = book(
        {
            "tenants": {"north": {"servers": ["n"]}, "south": {"servers": ["s"]}},
            "defaults": {"allow": ["*", "resource:*", "prompt:*"]},
            "agents": {"an": {"tenant": "north"}, "as": {"tenant": "south"}, "free": {}},
        }
    )
    seen = {a: [n for n in ("n.x", "s.x", "open.x") if verdict(made, a, n) == "allow"] for a in made.agents}
    assert seen == {"an": ["n.x", "open.x"], "as": ["s.x", "open.x"], "free": ["open.x"]}
    refused = rules_of(made, "an").decide(tool("s.x"), trusted=False)
    assert refused.hidden
    assert refused.reason == "server s belongs to tenant south, agent an to tenant north"
    assert rules_of(made, "an").decide_target(item("resource", "s", "file:///x")).hidden
    assert rules_of(made, "an").decide_target(item("prompt", "n", "hello")).verdict == "allow"
    # The server's id counts, whatever prefix it has.
    assert verdict(made, "an", "n.x", server="s") == "deny"


def test_bindings() -> None:
    made = book(
        {
            "agents": {
                "a": {"allow": ["mall_a.*", "mall_b.*", "mall4j.*"], "bindings": {"mall4j.product.search": "mall_a"}},
                "b": {"allow": ["*", "mall_b.mall4j.product.search"], "bindings": {"mall4j.product.search": "mall_a"}},
                "c": {"bindings": {"mall4j.product.search": "mall_a"}},
                "d": {"allow": ["*"]},
                "e": {"allow": ["server:mall_a", "server:mall_b"], "bindings": {"mall4j.product.search": "mall_a"}},
            }
        }
    )
    names = ("mall_a.mall4j.product.search", "mall_b.mall4j.product.search", "mall_b.other", "mall4j.product.search")
    seen = {a: [verdict(made, a, name) for name in names] for a in made.agents}
    assert seen == {
        "a": ["allow", "deny", "allow", "deny"],  # the last would answer to the plain name
        "b": ["allow", "allow", "allow", "deny"],  # allowed by its full name
        "c": ["deny", "deny", "deny", "deny"],  # a binding grants nothing
        "d": ["allow", "allow", "allow", "allow"],
        "e": ["allow", "deny", "allow", "deny"],  # allowed with its server alone
    }
    assert rules_of(made).binding("mall4j.product.search") == "mall_a"
    assert rules_of(made).binding("mall_a.mall4j.product.search") is None
    assert rules_of(made, "d").binding("mall4j.product.search") is None
    assert "binds mall4j.product.search to server mall_a" in rules_of(made).decide(tool(names[1]), trusted=False).reason


def test_a_binding_of_a_full_name_goes_before_an_allow_of_it() -> None:
    """Proves: C12. Only a plain name, which several servers may have, gives way to a tool allowed by its own."""
    name = "crm.get"
    made = book(
        {
            "agents": {
                "full": {"allow": [name, "spare.get"], "bindings": {name: "spare"}},
                "plain": {"allow": [name, "spare.get"], "bindings": {"get": "spare"}},
            }
        }
    )
    assert [verdict(made, agent, name) for agent in ("full", "plain")] == ["deny", "allow"]
    assert "binds crm.get to server spare" in rules_of(made, "full").decide(tool(name), trusted=False).reason


def test_a_nearer_binding_counts() -> None:
    made = book(
        {
            "roles": {"r": {"allow": ["*"], "bindings": {"s": "x", "u": "x"}}},
            "agents": {"a": {"roles": ["r"], "bindings": {"s": "y"}}},
        }
    )
    assert [rules_of(made).binding(name) for name in ("s", "u", "v")] == ["y", "x", None]
    roles = {"r": {"roles": ["low"]}, "low": {"bindings": {"low": "x"}}, "other": {"bindings": {"other": "x"}}}
    made = book({"roles": roles, "defaults": {"bindings": {"all": "x"}}, "agents": {"a": {"roles": ["r"]}}})
    assert [rules_of(made).binding(name) for name in ("low", "all", "other")] == ["x", "x", None]


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize(
    ("said", "other"),
    [
        ({"names": "canonical"}, {"names": "compatible"}),
        ({"expose": "all"}, {"expose": "search"}),
        ({"bindings": {"s": "x"}}, {"bindings": {"s": "y"}}),
    ],
)
def test_of_several_roles_none_may_contradict(said: Any, other: Any, place: int) -> None:
    """Unless a nearer value decides."""
    roles = {f"r{number}": other if number == place else said for number in range(3)}
    agent: Any = {"roles": [*roles]}
    (problem,) = errors({"roles": roles, "agents": {"a": agent}})
    assert f"r{place}" in problem
    assert rules_of(book({"roles": roles, "agents": {"a": {**agent, **said}}})).agent_id == "a"
    assert rules_of(book({"roles": {**roles, f"r{place}": said}, "agents": {"a": agent}})).agent_id == "a"


def test_resources_and_prompts_are_decided_in_the_same_way() -> None:
    made = one(
        allow=["resource:t.file:///public/*", "prompt:t.greet", "server:s", "t.*"],
        deny=["resource:*secret*"],
        confirm=["prompt:s.pay"],
        annotations={"destructive": "deny"},
        denials="hidden",
    )
    rules = rules_of(made)
    assert rules.decide_target(item("resource", "t", "file:///public/a")).verdict == "allow"
    assert rules.decide_target(item("resource", "t", "file:///private/a")).hidden
    assert rules.decide_target(item("resource", "t", "file:///public/secret")).verdict == "deny"
    assert rules.decide_target(item("resource", "s", "x://y")).verdict == "allow"
    assert rules.decide_target(item("resource", "id", "x://y", prefix="s")).verdict == "deny"
    assert rules.decide_target(item("resource", "s", "x://y", prefix="other")).verdict == "allow"
    assert rules.decide_target(item("prompt", "t", "greet")).verdict == "allow"
    assert rules.decide_target(item("prompt", "t", "greets")).verdict == "deny"
    assert rules.decide_target(item("prompt", "s", "pay")).verdict == "confirm"


def test_arguments_and_limits_add_up() -> None:
    schema, other = {"required": ["a"]}, {"properties": {"a": {"maximum": 3}}}
    made = book(
        {
            "defaults": {"limits": {"*": {"per_minute": 60, "result_bytes": "1MiB"}}},
            "roles": {"r": {"allow": ["t.*"], "arguments": {"t.*": schema}, "limits": {"t.*": {"concurrent": 2}}}},
            "agents": {
                "a": {
                    "roles": ["r"],
                    "arguments": {"t.x": other},
                    "limits": {"t.x": {"per_minute": 5, "per_conversation": 3, "result_bytes": 1000}},
                }
            },
        }
    )
    rules = rules_of(made)
    tightened = rules.tightening(tool("t.x"))
    assert [(t.schema, t.rule) for t in tightened] == [
        (other, 'arguments "t.x" of agent a'),
        (schema, 'arguments "t.*" of role r'),
    ]
    assert rules.tightening(tool("u.x")) == ()
    limits = rules.limits(tool("t.x"))
    assert [(limit.kind, limit.most, limit.counter) for limit in limits.counted] == [
        ("per_minute", 5, ("a", "per_minute", "agent a", "t.x")),
        ("per_conversation", 3, ("a", "per_conversation", "agent a", "t.x")),
        ("concurrent", 2, ("a", "concurrent", "role r", "t.*")),
        ("per_minute", 60, ("a", "per_minute", "defaults", "*")),
    ]
    least = limits.least("per_minute")
    assert least is not None
    assert least.most == 5
    assert limits.result is not None
    assert limits.result.most == 1000
    other_limits = rules.limits(tool("u.x"))
    assert other_limits.least("concurrent") is None
    assert other_limits.result is not None
    assert other_limits.result.most == 2**20


@pytest.mark.parametrize(
    ("body", "hints", "trusted", "may"),
    [
        ({}, None, False, False),
        ({}, {"idempotentHint": True}, False, False),
        ({}, {"idempotentHint": True}, True, True),
        ({}, READ_ONLY, True, True),
        ({"retry": ["t.*"]}, None, False, True),
        ({"idempotent": ["t.x"]}, None, False, True),
        ({"read_only": ["t.x"]}, None, False, True),
        ({"retry": ["t.y"]}, None, False, False),
    ],
)
def test_repeating_needs_somebodys_word(body: dict[str, Any], hints: Any, trusted: bool, may: bool) -> None:
    rules = rules_of(one(**body))
    assert (rules.retry(tool("t.x", hints), trusted=trusted) is not None) is may


def test_an_unknown_agent_may_do_nothing() -> None:
    made = book({"defaults": {"allow": ["*"]}, "agents": {"a": {}}})
    for name in ("b", "A", "a ", "", "аdmin", "a\0", "x" * 500):
        assert made.for_agent(name) is None
        refused = made.decide(Principal(name), tool("t.x"), trusted=True)
        assert (refused.verdict, refused.rule, refused.hidden) == ("deny", "unknown agent", True)
        assert refused.reason.isascii()
        assert len(refused.reason) < 200
    assert made.decide(Principal("a"), tool("t.x"), trusted=False).verdict == "allow"


def test_other_settings() -> None:
    made = one(confirm_fallback="queue", names="compatible", keys=["k1:b2-aa-bb", "k0:h:h"], tenant=None)
    rules = rules_of(made)
    assert (rules.confirm_fallback, rules.names, rules.tenant) == ("queue", "compatible", None)
    assert rules.confirm_by == "host"
    assert [(k.agent_id, k.key.key_id, k.key.line) for k in made.keys] == [
        ("a", "k0", "k0:h:h"),
        ("a", "k1", "k1:b2-aa-bb"),
    ]
    assert "bb" not in repr(made.keys)
    assert "b2-aa-bb" not in f"{made.keys} {rules} {made} {made.documents}"
    plain = rules_of(book({"agents": {"a": None}}))
    assert (plain.confirm_fallback, plain.denials, plain.names) == ("deny", "explicit", None)


def test_what_a_server_calls_its_tools_cannot_draw_on_a_screen() -> None:
    refused = one().agents["a"].decide(tool("t.x\n\x1b[31m*"), trusted=False)
    assert refused.reason == r"nothing allows t.x\n\x1b[31m* to agent a"
    assert Target("tool", "t", "t", "a*[b").pattern == "t.a[*][[]b"
    assert verdict(one(allow=["t.a[*][[]b"]), "a", "t.a*[b") == "allow"


@pytest.mark.parametrize(("wide", "narrow"), [(500, 200), (200, 500)])
def test_the_strictest_of_several_limits_counts(wide: int, narrow: int) -> None:
    """On results, wherever it stands; calls are counted for each rule by itself."""
    names = ("result_bytes", "result_tokens", "per_minute", "concurrent")
    limits = {pattern: dict.fromkeys(names, most) for pattern, most in (("t.*", wide), ("t.x", narrow))}
    found = rules_of(one(allow=["t.*"], limits=limits)).limits(tool("t.x"))
    assert found.result is not None
    assert found.tokens is not None
    assert (found.result.most, found.tokens.most) == (200, 200)
    assert len({limit.counter for limit in found.counted}) == 4
    assert [least.most for kind in COUNTED if (least := found.least(kind))] == [200, 200]
    alone = rules_of(one(allow=["t.*"], limits=limits)).limits(tool("t.y"))
    assert [limit.most for limit in alone.counted] == [wide, wide]


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("name", [*STRICTNESS, *SMALLEST])
def test_of_two_roles_the_stricter_counts(name: str, swapped: bool) -> None:
    """Whichever is named, or sorted, first; that of the agent itself before both."""
    values: list[Any] = [*STRICTNESS.get(name, (60.0, 300.0))]
    for strict, lenient in pairwise(values):
        trait = name.partition(".")[2]
        said = [{"annotations": {trait: one}} if trait else {name: one} for one in (strict, lenient)]
        first, second = reversed(said) if swapped else said
        agents = {"a": {"roles": ["a", "b"]}, "b": {"roles": ["b", "a"]}, "own": {"roles": ["a", "b"], **said[1]}}
        made = book({"roles": {"a": first, "b": second}, "agents": agents})
        for agent, expected in (("a", strict), ("b", strict), ("own", lenient)):
            assert rules_of(made, agent).settings[name].value == expected


@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ("file:///%61bc", "file:///abc"),
        ("file:///abc", "file:///%61bc"),
        ("file:///a%20b", "file:///a b"),
        ("file:///a b", "file:///a%20b"),
        ("file:///a/../b", "file:///b"),
        ("file:///b", "file:///a/../b"),
        ("file:///x/%2e%2e/b", "file:///b"),
        ("FILE:///b", "file:///b"),
        ("file:///%61*", "file:///abc"),
    ],
)
def test_a_uri_is_denied_in_any_spelling_of_the_rule(written: str, asked: str) -> None:
    """Proves: D5. Also for a rule that names one URI, which is found without a walk over all rules."""
    body = {"allow": ["resource:s.*"], "deny": [f"resource:s.{written}", "resource:s.other:///*"]}
    assert rules_of(one(**body)).decide_target(item("resource", "s", asked)).verdict == "deny"
    assert rules_of(one(**body)).decide_target(item("resource", "s", "file:///elsewhere")).verdict == "allow"


@pytest.mark.parametrize(
    ("body", "also", "expected"),
    [
        ({"allow": ["resource:s.*"]}, ("file:///odd",), "allow"),
        ({"allow": ["resource:s.*"], "deny": ["resource:s.file:///odd"]}, ("file:///odd",), "deny"),
        ({"allow": ["resource:s.*"], "deny": ["resource:s.file:///odd"]}, ("file:///x", "file:///odd"), "deny"),
        ({"allow": ["resource:s.*"], "deny": ["resource:s.file:///odd"]}, (), "allow"),
        ({"allow": ["resource:s.file:///odd"]}, ("file:///odd",), "deny"),
        ({"allow": ["resource:s.file:///a"]}, ("file:///odd",), "allow"),
        ({"allow": ["resource:s.*"], "confirm": ["resource:*odd"]}, ("file:///odd",), "confirm"),
        ({"allow": ["resource:s.*"], "deny": ["skill:s.pay"]}, ("skill://pay/x",), "deny"),
        ({"allow": ["resource:s.*"], "deny": ["skill:s.pay"]}, ("skill://other/x",), "allow"),
        ({"allow": ["skill:s.pay"]}, ("skill://pay/x",), "deny"),
    ],
)
def test_another_spelling_in_the_list_denies_and_does_not_allow(
    body: dict[str, Any], also: tuple[str, ...], expected: str
) -> None:
    """Proves: D5. The server may take the URI for the one that it lists."""
    rules = rules_of(one(**body))
    for _ in range(2):
        assert rules.decide_target(Target("resource", "s", "s", "file:///a", also=also)).verdict == expected


@pytest.mark.parametrize(
    ("body", "uri", "expected"),
    [
        ({"allow": ["resource:s.file:///a/b"]}, "file:///a/b", "allow"),
        ({"allow": ["resource:s.file:///a/b"]}, "file:///a%2Fb", "deny"),
        ({"allow": ["resource:s.file:///a/*"]}, "file:///a/b", "allow"),
        ({"allow": ["resource:s.file:///a/*"]}, "file:///a%2Fb", "deny"),
        ({"allow": ["resource:*:///a/b"]}, "file:///a/b", "allow"),
        ({"allow": ["resource:*:///a/b"]}, "file:///a%2Fb", "deny"),
        ({"allow": ["resource:s.*"], "deny": ["resource:*:///a/b"]}, "file:///a%2Fb", "deny"),
        ({"allow": ["resource:s.*"], "deny": ["resource:s.file:///a/b"]}, "file:///a%2Fb", "deny"),
        ({"allow": ["skill:s.*"]}, "skill://pdf/x.txt", "allow"),
        ({"allow": ["skill:s.*"]}, "file:///skills/pdf/x.txt", "deny"),
        ({"allow": ["resource:s.*"], "deny": ["skill:s.*pdf*"]}, "file:///skills/pdf/x.txt", "deny"),
        ({"allow": ["resource:s.*"], "deny": ["skill:s.*pdf*"]}, "skill://other/x.txt", "allow"),
    ],
)
def test_a_reading_that_may_be_meant_denies_and_does_not_allow(body: dict[str, Any], uri: str, expected: str) -> None:
    """Proves: D5. A URI that a server may read otherwise, or a file that only may be a skill's."""
    assert rules_of(one(**body)).decide_target(item("resource", "s", uri)).verdict == expected


def test_names_begin_with_the_prefix_of_their_server() -> None:
    for pattern, expected in (("p.*", "allow"), ("p.x", "allow"), ("s.*", "deny"), ("server:s", "allow")):
        assert verdict(one(allow=[pattern]), "a", "p.x", server="s") == expected
