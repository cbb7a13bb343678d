"""Explanations, warnings and cases, word for word."""

from pathlib import Path
from typing import Any

import pytest

from aggregator.policy.compare.diff import diff
from aggregator.policy.explain import explain
from aggregator.policy.files.cases import PolicyCase, read_cases, run_case
from aggregator.policy.files.known_names import KnownNames
from aggregator.policy.files.lint import lint
from aggregator.policy.full_names import parse_full_name
from aggregator.policy.patterns import Target

from .build import READ_ONLY, book, tool

POLICY = """\
roles:
  reader:
    allow: ["shop.*"]
    deny: ["*.delete_*"]
    annotations: {destructive: confirm}
agents:
  clerk:
    roles: [reader]
    read_only: [shop.get_*]
    arguments: {shop.get_*: {required: [id]}}
    limits: {shop.*: {per_minute: 9, result_bytes: 10}}
"""


ALLOWED = """\
clerk, shop.get_it: allow
  because role reader allows "shop.*" (agent clerk > role reader) (policies/1.yaml:3)
what was found, in the order it counts:
  allow   role reader allows "shop.*" (agent clerk > role reader)  policies/1.yaml:3  <- decides
to change it:
  add "shop.get_it" to `deny` of agent clerk, which counts more than any `allow`
when it is called:
  its arguments must also fit a schema: arguments "shop.get_*" of agent clerk (policies/1.yaml:10)
  per_minute: 9 (limits "shop.*" of agent clerk) (policies/1.yaml:11)
  result_bytes: 10 (limits "shop.*" of agent clerk) (policies/1.yaml:11)
  it may be repeated after a failure: read_only "shop.get_*" of agent clerk (policies/1.yaml:9)"""

ASSUMED = "role reader has `destructive: confirm`, and as far as is known this tool may destroy something"
CONFIRMED = f"""\
clerk, shop.pay: confirm
  because {ASSUMED} (policies/1.yaml:5)
what was found, in the order it counts:
  allow   role reader allows "shop.*" (agent clerk > role reader)  policies/1.yaml:3
  confirm {ASSUMED}  policies/1.yaml:5  <- decides
to change it:
  change `annotations.destructive` of role reader (policies/1.yaml:5), or add "shop.pay" to `read_only` if it only reads
when it is called:
  the host asks, and its answer counts: confirm_by is host
  where nobody can be asked: confirm_fallback is deny
  per_minute: 9 (limits "shop.*" of agent clerk) (policies/1.yaml:11)
  result_bytes: 10 (limits "shop.*" of agent clerk) (policies/1.yaml:11)"""

DENIED = f"""\
clerk, mail.delete_all: deny
  because role reader denies "*.delete_*" (agent clerk > role reader) (policies/1.yaml:4)
what was found, in the order it counts:
  deny    role reader denies "*.delete_*" (agent clerk > role reader)  policies/1.yaml:4  <- decides
  deny    nothing allows mail.delete_all to agent clerk  policies/1.yaml:7
  confirm {ASSUMED}  policies/1.yaml:5
to change it, all of:
  take "*.delete_*" out of `deny` of role reader (policies/1.yaml:4)
  add "mail.delete_all" to `allow` of agent clerk or of one of its roles (policies/1.yaml:7)"""

UNKNOWN = """\
clark, shop.get_it: deny (hidden)
  because no policy file knows the agent 'clark'
to change it:
  Did you mean `clerk`?"""


@pytest.mark.parametrize(
    ("agent", "name", "text"),
    [
        ("clerk", "shop.get_it", ALLOWED),
        ("clerk", "shop.pay", CONFIRMED),
        ("clerk", "mail.delete_all", DENIED),
        ("clark", "shop.get_it", UNKNOWN),
    ],
)
def test_explanations(agent: str, name: str, text: str) -> None:
    assert str(explain(book(POLICY), agent, tool(name))) == text


def test_a_resource_is_explained_too() -> None:
    explanation = explain(book(POLICY), "clerk", Target("resource", "shop", "shop", "x://y"))
    assert explanation.decision.verdict == "deny"
    assert explanation.changes == (
        'add "resource:shop.x://y" to `allow` of agent clerk or of one of its roles (policies/1.yaml:7)',
    )


def test_making_the_changes_changes_it() -> None:
    body: dict[str, Any] = {"allow": [], "deny": ["*.rm"], "tenant": "m"}
    policy = {"tenants": {"n": {"servers": ["t"]}, "m": {}}, "agents": {"a": body}}
    changes = explain(book(policy), "a", tool("t.rm")).changes
    assert [change.split()[0] for change in changes] == ["take", "take", "add"]
    policy |= {"tenants": {"n": {}, "m": {}}, "agents": {"a": {"allow": ["t.rm"]}}}
    assert explain(book(policy), "a", tool("t.rm")).decision.verdict == "allow"


def test_a_log_line_per_agent() -> None:
    made = book({"agents": {"a": {"allow": ["t.*"], "confirm": ["t.0"]}, "b": {}}})
    tools = [tool(f"t.{n}") for n in range(8)]
    lines = diff(None, made, tools).lines()
    assert lines == [
        "agent a is new",
        "agent b is new",
        "a gained t.0 (once confirmed), t.1, t.2, t.3, t.4 and 3 more",
    ]
    assert diff(made, book({"agents": {"b": {}}}), tools).lines()[0] == "agent a is gone"
    assert len(diff(None, made, tools).lines(most=2)) == 2


def test_who_must_say_yes_is_explained_and_compared() -> None:
    """B6: with the place that says so; a change of it stands in the log of a reload."""
    body = {"allow": ["t.*"], "confirm": ["t.pay"]}
    host, queue = (book({"agents": {"a": {**body, "confirm_by": by}, "b": body}}) for by in ("host", "queue"))
    said = "an approver must agree (`aggregator approvals`): confirm_by is queue (policies/1.yaml:1)"
    assert explain(queue, "a", tool("t.pay")).conditions == (said,)
    assert "confirm_by is host (policies/1.yaml:1)" in explain(host, "a", tool("t.pay")).conditions[0]
    assert diff(host, queue, []).lines() == ["a has its calls confirmed by queue, not by host (confirm_by)"]
    assert diff(queue, host, []).lines() == ["a has its calls confirmed by host, not by queue (confirm_by)"]
    assert not diff(queue, queue, []).lines()


CATALOG = (tool("github.list_issues"), tool("github.delete_repo"), tool("time.convert_time", READ_ONLY))
SERVERS = {"github": "github", "time": "time", "down": "down"}


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        ({"allow": ["github.*"]}, []),
        ({"allow": ["down.*", "server:down", "*.x"]}, ['.allow: No tool matches "*.x". Correct it, or take it out.']),
        ({"allow": ["githb.*"]}, ['.allow: No tool matches "githb.*". Did you mean "github.*"?']),
        ({"allow": ["github.list_isues"]}, ['.allow: No tool matches "github.list_isues". Did you mean '
                                            '"github.list_issues"?']),
        ({"allow": ["time.convert", "time.converttime"]},
         [f'.allow: No tool matches "{pattern}". Did you mean "time.convert_time"?'
          for pattern in ("time.convert", "time.converttime")]),
        ({"allow": ["*"], "deny": ["server:githb"]}, ['.deny: No server matches "server:githb". Did you mean '
                                                      '"server:github"?']),
        ({"allow": ["resource:tme.*"]}, ['.allow: No resource matches "resource:tme.*". Did you mean '
                                         '"resource:time.*"?']),
        ({}, [": Nothing is allowed to this agent, so it may do nothing. Add `allow:`, or a role that has one."]),
        (
            {"allow": ["github.*"], "deny": ["git*.*"]},
            ['.allow: It can never count: deny "git*.*" denies all that "github.*" matches (policies/1.yaml:1). '
             "Take one of the two out."],
        ),
        (
            {"allow": ["*"], "deny": ["github.delete_*"], "confirm": ["github.*_repo"]},
            ['.confirm: It can never count: every tool that "github.*_repo" matches is denied, such as '
             'github.delete_repo: agent a denies "github.delete_*" (policies/1.yaml:1). Take one of the two out.'],
        ),
        ({"allow": ["*"], "bindings": {"x": "githb"}}, [".bindings: There is no server githb. Did you mean `github`?"]),
        (
            {"allow": ["*"], "bindings": {"list_issue": "github"}},
            [".bindings: Server github has no tool list_issue. Did you mean `list_issues`?"],
        ),
        (
            {"allow": ["time.*"], "bindings": {"list_issues": "github"}},
            ['.bindings: github.list_issues is bound and not allowed to agent a. Add "github.list_issues" to `allow`: '
             "a binding grants nothing."],
        ),
        (
            {"allow": ["*"], "confirm": ["github.*"], "confirm_by": "queue", "confirm_fallback": "deny"},
            [".confirm_fallback: It has no effect: where `confirm_by` is `queue` no host is asked. Take it out."],
        ),
        (
            {"allow": ["*"], "confirm_by": "queue"},
            [".confirm_by: It has no effect: nothing makes a call wait for a person. Add `confirm:`, or `annotations` "
             "with `confirm`."],
        ),
        ({"allow": ["*"], "annotations": {"destructive": "confirm"}, "confirm_by": "queue"}, []),
        (
            {"allow": ["*"], "confirm_wait": "2m"},
            [".confirm_wait: It has no effect: nothing makes a call wait for a person. Add `confirm:`, or "
             "`annotations` with `confirm`."],
        ),
        (
            {"allow": ["*"], "confirm": ["github.*"], "confirm_wait": "2m"},
            [".confirm_wait: It has no effect: no call of these agents gets into the queue. Add `confirm_by: queue`, "
             "or `confirm_fallback: queue`."],
        ),
        ({"allow": ["*"], "confirm_people": {"github.*": 2}, "confirm_wait": "2m"}, []),
        (
            {"allow": ["*"], "confirm_people": {"githbu.*": 2}},
            ['.confirm_people: No tool matches "githbu.*". Did you mean "github.*"?'],
        ),
    ],
)  # fmt: skip
def test_warnings(agent: dict[str, Any], expected: list[str]) -> None:
    said = [str(problem) for problem in lint(book({"agents": {"a": agent}}), KnownNames(SERVERS, CATALOG))]
    assert said == [f"warning: policies/1.yaml:1: agents.a{line}" for line in expected]


def test_who_only_reads_the_metrics_is_not_idle() -> None:
    """The agent that docs/observability.md makes for Prometheus."""
    made = book("roles:\n  metrics: {}\nagents:\n  prometheus:\n    roles: [metrics]\n")
    assert lint(made, KnownNames(SERVERS, CATALOG)) == []


def test_warnings_about_roles_and_tenants() -> None:
    made = book("roles:\n  idle: {allow: [t.x]}\ntenants:\n  n: {servers: [tme]}\nagents:\n  a: {allow: [time.x]}\n")
    assert [str(problem) for problem in lint(made, KnownNames(SERVERS))] == [
        "warning: policies/1.yaml:2: roles.idle: No agent has this role. Name it under `roles:` of an agent.",
        'warning: policies/1.yaml:2: roles.idle.allow: No tool matches "t.x". Correct it, or take it out.',
        "warning: policies/1.yaml:4: tenants.n.servers: There is no server tme. Did you mean `time`?",
    ]


def short(schemas: Any, arguments: Any) -> str | None:
    missing = [name for schema in schemas for name in schema.get("required", []) if name not in arguments]
    return f"{missing[0]} is missing" if missing else None


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ({"tool": "shop.get_it", "expect": "allow"}, "ok: c.yaml:1: clerk, shop.get_it: allow"),
        ({"tool": "shop.get_it", "arguments": {"id": 1}, "expect": "allow"}, "ok: c.yaml:1: clerk, shop.get_it: allow"),
        ({"tool": "shop.get_it", "expect": "invalid"}, "ok: c.yaml:1: clerk, shop.get_it: invalid"),
        ({"tool": "shop.pay", "expect": "confirm"}, "ok: c.yaml:1: clerk, shop.pay: confirm"),
        (
            {"tool": "shop.pay", "expect": "confirm", "confirm_by": "host"},
            "ok: c.yaml:1: clerk, shop.pay: confirm",
        ),
        (
            {"tool": "shop.pay", "expect": "confirm", "people": 2},
            "FAILED: c.yaml:1: clerk, shop.pay: expected confirm of 2, got confirm of 1: role reader has "
            "`destructive: confirm`, and as far as is known this tool may destroy something (policies/1.yaml:5)",
        ),
        (
            {"tool": "shop.pay", "expect": "confirm", "confirm_by": "queue"},
            "FAILED: c.yaml:1: clerk, shop.pay: expected confirm by queue, got confirm by host: role reader has "
            "`destructive: confirm`, and as far as is known this tool may destroy something (policies/1.yaml:5)",
        ),
        (
            {"tool": "shop.get_it", "arguments": {}, "expect": "allow"},
            "FAILED: c.yaml:1: clerk, shop.get_it: expected allow, got invalid: id is missing "
            '(arguments "shop.get_*" of agent clerk, policies/1.yaml:10)',
        ),
        (
            {"tool": "shop.delete_it", "expect": "allow", "why": "she tidies up"},
            "FAILED: c.yaml:1: clerk, shop.delete_it: expected allow (she tidies up), got deny: role reader denies "
            '"*.delete_*" (agent clerk > role reader) (policies/1.yaml:4)',
        ),
        (
            {"tool": "delete_it", "expect": "deny"},
            "FAILED: c.yaml:1: clerk, delete_it: expected deny, got invalid: 'delete_it' is no full name. Write "
            "server.tool, resource:server.uri, prompt:server.prompt or skill:server.skill.",
        ),
    ],
)
def test_cases(case: dict[str, Any], expected: str) -> None:
    made = PolicyCase.model_validate({"agent": "clerk", **case})
    assert str(run_case(made, "c.yaml:1", book(POLICY), {}, check_arguments=short)) == expected


def test_files_of_cases(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("cases:\n  - {agent: a, tool: t.x, expect: allow}\n", encoding="utf-8")
    (tmp_path / "b.yaml").write_text("cases:\n  - {agent: a, tol: t.x, expect: alow}\n", encoding="utf-8")
    found, problems = read_cases(tmp_path)
    assert [place for _, place in found] == [f"{tmp_path}/a.yaml:2"]
    assert [str(problem).split(f"{tmp_path}/")[1] for problem in problems] == [
        "b.yaml:2: cases[0].tool: A value is missing here. Add it.",
        "b.yaml:2: cases[0].expect: Expected allow or deny or confirm or invalid, got 'alow'. Did you mean `allow`?",
        "b.yaml:2: cases[0].tol: There is no key `tol` here. Did you mean `tool`?",
    ]


@pytest.mark.parametrize("kind", ["tool", "resource", "prompt", "skill"])
@pytest.mark.parametrize(("prefix", "server"), [("shop", "crm-1"), ("crm-1", "crm-1"), ("new", "new")])
def test_a_full_name_begins_with_the_prefix_of_its_server(kind: str, prefix: str, server: str) -> None:
    """Tenants and `server:` patterns go by the id; a prefix that is not known stands for itself."""
    name = {"resource": "x://a.b"}.get(kind, "get.it")
    found = parse_full_name(f"{'' if kind == 'tool' else f'{kind}:'}{prefix}.{name}", {"shop": "crm-1"})
    assert (found.kind, found.server, found.prefix, found.name) == (kind, server, prefix, name)
