"""Labels and flow rules in explanations, cases, warnings and comparisons."""

import pytest

from aggregator.domain.errors import OperatorError
from aggregator.policy.compare import diff as compare
from aggregator.policy.compare.diff import diff
from aggregator.policy.explain import agents_allowed, earlier_reads, explain, tools_allowed
from aggregator.policy.files.cases import PolicyCase, run_case
from aggregator.policy.files.known_names import KnownNames
from aggregator.policy.files.lint import lint
from aggregator.policy.patterns import Target

from .build import book, tool

AGENTS = 'agents:\n  shop: {allow: ["*", "resource:*"], confirm_by: queue}\n'
FLOW = """\
labels:
  untrusted: [web.*, "resource:legal.*"]
  outward: [mail.*]
flow:
  - {after: untrusted, calls: outward, then: confirm}
  - {after: [untrusted, private], calls: outward, then: deny}
"""
WEB, MAIL, CRM = tool("web.fetch"), tool("mail.send"), tool("crm.find", {"openWorldHint": True})
TOOLS = (WEB, MAIL, CRM)
TRUSTED = {"crm": True}

ASKED = (
    "web.fetch was read a moment ago, and after that mail.send is asked about "
    "(flow rule policies/1.yaml:7: after untrusted, calls outward)"
)
EXPLAINED = f"""\
shop, mail.send: confirm
  after web.fetch (untrusted), time.now (no label)
  because {ASKED}
what was found, in the order it counts:
  allow   agent shop allows "*"  policies/1.yaml:2
  confirm {ASKED}  policies/1.yaml:7  <- decides
to change it:
  take the flow rule out (policies/1.yaml:7), or take "mail.*" out of label outward (policies/1.yaml:5)
when it is called:
  an approver must agree (`aggregator approvals`): confirm_by is queue (policies/1.yaml:2)
  it has the label outward: "mail.*" (policies/1.yaml:5)
  after private and untrusted: it is refused (policies/1.yaml:8)
  after untrusted: a person is asked (policies/1.yaml:7)"""


def test_a_call_after_a_read_is_explained() -> None:
    made = book(AGENTS + FLOW)
    earlier = earlier_reads(["web.fetch", "time.now"], made, {}, TOOLS, TRUSTED)
    found = explain(made, "shop", MAIL, earlier=earlier)
    assert str(found) == EXPLAINED
    assert found.data()["after"] == [
        {"name": "web.fetch", "labels": ["untrusted"]},
        {"name": "time.now", "labels": []},
    ]


def test_without_reads_the_conditions_say_what_comes_after_which_label() -> None:
    found = explain(book(AGENTS + FLOW), "shop", MAIL)
    assert found.decision.verdict == "allow"
    assert found.conditions == (
        'it has the label outward: "mail.*" (policies/1.yaml:5)',
        "after private and untrusted: it is refused (policies/1.yaml:8)",
        "after untrusted: a person is asked (policies/1.yaml:7)",
    )


def test_resources_and_labels_can_have_been_read_and_a_denial_comes_first() -> None:
    made = book(AGENTS + FLOW)
    earlier = earlier_reads(["resource:legal.statute://a", "private"], made, {"legal": "legal"})
    assert [str(one) for one in earlier] == ["resource:legal.statute://a (untrusted)", "something private"]
    found = explain(made, "shop", MAIL, earlier=earlier)
    assert [(one.effect, one is found.decisive) for one in found.findings] == [
        ("deny", True),
        ("confirm", False),
        ("allow", False),
    ]
    assert found.changes == (
        'take the flow rule out (policies/1.yaml:8), or take "mail.*" out of label outward (policies/1.yaml:5)',
    )
    read = explain(made, "shop", Target("resource", "legal", "legal", "statute://a"), earlier=earlier)
    assert read.conditions == ('it has the label untrusted: "resource:legal.*" (policies/1.yaml:4)',)


def test_labels_of_annotations_are_explained() -> None:
    made = book(AGENTS + FLOW)
    earlier = earlier_reads(["crm.find"], made, {}, TOOLS, TRUSTED)
    assert earlier[0].labels == {"untrusted", "outward"}
    assert not earlier_reads(["crm.find"], made, {}, TOOLS)[0].labels
    found = explain(made, "shop", CRM, trusted=True, earlier=earlier)
    assert "give it a label of your own: then the annotations of its server do not make it outward" in found.changes[0]
    assert "it has the label outward: by the annotations of its trusted server" in found.conditions


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("untrustd", "'untrustd' is neither a label nor a full name such as server.tool. Did you mean `untrusted`?"),
        ("wholly", "The labels are untrusted, private, outward."),
        (".x", "'.x' is no full name."),
    ],
)
def test_what_cannot_have_been_read_is_said(text: str, said: str) -> None:
    with pytest.raises(OperatorError) as raised:
        earlier_reads([text], book(AGENTS + FLOW), {})
    assert said in str(raised.value)


def test_lists_of_what_is_allowed_heed_what_was_read() -> None:
    made = book(AGENTS + FLOW)
    earlier = earlier_reads(["untrusted", "private"], made, {})
    assert [record.name for record, _ in tools_allowed(made, "shop", TOOLS, earlier=earlier)] == [
        "web.fetch",
        "crm.find",
    ]
    assert agents_allowed(made, MAIL, earlier=earlier) == []
    ((_, decision),) = agents_allowed(made, MAIL, earlier=earlier[:1])
    assert decision.verdict == "confirm"


@pytest.mark.parametrize(
    ("case", "passed", "said"),
    [
        ({"after": ["web.fetch"], "expect": "confirm", "confirm_by": "queue"}, True, "after web.fetch: confirm"),
        ({"after": ["web.fetch", "private"], "expect": "deny"}, True, "after web.fetch, private: deny"),
        ({"after": ["time.now"], "expect": "confirm"}, False, "expected confirm, got allow"),
        ({"after": None, "expect": "allow"}, True, "mail.send: allow"),
        ({"after": ["nonsense"], "expect": "deny"}, False, "'nonsense' is neither a label nor a full name"),
    ],
)
def test_cases_say_what_was_read_before(case: dict[str, object], passed: bool, said: str) -> None:
    made = PolicyCase.model_validate({"agent": "shop", "tool": "mail.send", **case})
    outcome = run_case(made, "c.yaml:1", book(AGENTS + FLOW), {}, TOOLS)
    assert outcome.passed is passed
    assert said in str(outcome)


KNOWN = KnownNames({"web": "web", "mail": "mail", "crm": "crm", "legal": "legal"}, TOOLS, TRUSTED)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("", "", []),
        ("web.*", "webb.*", ['policies/1.yaml:4: labels.untrusted: No tool matches "webb.*". Did you mean "web.*"?']),
        ("[mail.*]", "[mail.sand]", ['labels.outward: No tool matches "mail.sand". Did you mean "mail.send"?']),
        ("  outward: [mail.*]\n", "  outward: []\n", []),  # by annotations of crm
        ("outward", "sending", []),
        (
            "  outward: [mail.*]\n",
            "  outwart: [mail.*]\n",
            ["policies/1.yaml:5: labels.outwart: No flow rule names it. Did you mean `outward`?"],
        ),
        ("[untrusted, private]", "[untrusted, mine]", ["flow.after: It can never count: nothing has the label mine."]),
        ("[untrusted, private]", "private", []),
        ("then: confirm", "then: deny", ["policies/1.yaml:9: flow: It can never count: flow rule policies/1.yaml:8"]),
        ("calls: outward, then: deny", "calls: outward, then: confirm", ["asks about every call that it speaks of."]),
        ("calls: outward, then: deny", "calls: [mine, outward], then: deny", []),
        ("calls: outward, then: deny", "calls: mine, then: deny", ["flow.calls: It can never count: nothing has the"]),
    ],
)
def test_what_is_surely_not_meant_is_told(old: str, new: str, said: list[str]) -> None:
    made = book(AGENTS + FLOW.replace("flow:", "  mine: []\nflow:").replace(old, new) if old else AGENTS + FLOW)
    found = [str(problem) for problem in lint(made, KNOWN) if "confirm_by" not in problem.where]
    assert len(found) == len(said), found
    assert all(wanted in line for line, wanted in zip(found, said, strict=True)), found


def test_a_flow_rule_that_asks_makes_calls_wait_for_a_person() -> None:
    """So `confirm_by` has an effect."""
    assert "confirm_by" in AGENTS
    assert not lint(book(AGENTS + FLOW), KNOWN)
    (problem, *_) = lint(book(AGENTS + FLOW.replace("then: confirm", "then: deny")), KNOWN)
    assert "nothing makes a call wait for a person" in str(problem)


def test_labels_and_decay_without_flow_rules_are_told() -> None:
    made = book(AGENTS + FLOW.split("flow:")[0] + "decay: 5m\nconversation: key\n")
    assert [str(problem) for problem in lint(made, KNOWN) if "confirm_by" not in problem.where] == [
        "warning: policies/1.yaml:4: labels: Labels have no effect: there is no flow rule. "
        "Add `flow:`, or take it out.",
        "warning: policies/1.yaml:6: decay: It has no effect: there is no flow rule. Add `flow:`, or take it out.",
        "warning: policies/1.yaml:7: conversation: It has no effect: there is no flow rule. "
        "Add `flow:`, or take it out.",
    ]


def test_without_a_list_of_tools_only_what_is_certain_is_told() -> None:
    made = book(AGENTS + FLOW.replace("flow:", "  mine: []\nflow:\n  - {after: mine, calls: outward, then: deny}"))
    (problem,) = lint(made, KnownNames())
    assert "flow.after: It can never count: nothing has the label mine." in str(problem)


@pytest.mark.parametrize("label", ["untrusted", "outward"])
def test_a_built_in_label_may_be_had_without_patterns(label: str) -> None:
    """Of tools that are not known a server's own word may give it; of a label of one's own nothing does."""
    rules = "flow:\n  - {after: untrusted, calls: NAME, then: confirm}\n"
    assert not lint(book(AGENTS + rules.replace("NAME", label)), KnownNames())
    (problem,) = lint(book(AGENTS + "labels: {mine: []}\n" + rules.replace("NAME", "mine")), KnownNames())
    assert "flow.calls: It can never count: nothing has the label mine." in str(problem)


@pytest.mark.parametrize("pattern", ["server:mail", "mail.*"])
def test_a_server_that_is_down_may_have_the_label(pattern: str) -> None:
    made = book(AGENTS + FLOW.replace("outward", "mine").replace("mail.*", pattern))
    assert not lint(made, KnownNames({**KNOWN.servers, "mail": "mail"}, (WEB, CRM), TRUSTED))
    assert lint(made, KnownNames({"web": "web", "crm": "crm", "legal": "legal"}, (WEB, CRM), TRUSTED))


def test_a_rule_about_other_calls_is_no_shadow() -> None:
    other = FLOW.replace("flow:", "  mine: [web.*]\nflow:").replace("private], calls: outward", "private], calls: mine")
    assert not lint(book(AGENTS + other.replace("then: deny", "then: confirm")), KNOWN)


def test_a_pattern_that_matches_nothing_gives_no_label() -> None:
    made = book(AGENTS + FLOW.replace("outward", "mine").replace("mail.*", "mail.sand"))
    assert [problem.where for problem in lint(made, KNOWN)] == ["labels.mine", "flow.calls", "flow.calls"]


def test_a_pattern_that_gives_no_tool_a_label_is_told_as_a_change() -> None:
    made = diff(book(AGENTS + FLOW), book(AGENTS + FLOW.replace("mail.*", 'mail.*, "prompt:mail.*"')), TOOLS, TRUSTED)
    assert made.flow == ('label outward: "prompt:mail.*" added (policies/1.yaml:5); no tool gets or loses it',)


def test_changes_of_labels_and_flow_rules_are_told_with_their_lines_and_tools() -> None:
    assert diff(book(AGENTS), book(AGENTS + FLOW), TOOLS, TRUSTED).lines() == [
        "flow rule after untrusted, calls outward: confirm, is new (policies/1.yaml:7)",
        "flow rule after private and untrusted, calls outward: deny, is new (policies/1.yaml:8)",
        'label outward: "mail.*" added (policies/1.yaml:5); 2 tools get it (crm.find, mail.send)',
        'label untrusted: "resource:legal.*" added (policies/1.yaml:4), "web.*" added (policies/1.yaml:4); '
        "2 tools get it (crm.find, web.fetch)",
    ]
    many = [*TOOLS, *(tool(f"web.page{number}") for number in range(6))]
    assert (
        diff(book(AGENTS), book(AGENTS + FLOW), many, TRUSTED)
        .lines()[3]
        .endswith("8 tools get it (crm.find, web.fetch, web.page0, web.page1, web.page2 and 3 more)")
    )
    other = FLOW.replace("web.*", "crm.*").replace("then: confirm", "then: deny") + "decay: 5m\nconversation: key\n"
    assert diff(book(AGENTS + FLOW), book(AGENTS + other), TOOLS, TRUSTED).lines() == [
        "flow rule after untrusted, calls outward: deny, is new (policies/1.yaml:7)",
        "flow rule after untrusted, calls outward: confirm, is gone (policies/1.yaml:7)",
        "decay: 30m -> 5m",
        "conversation: session -> key",
        "label outward: other patterns changed; 1 tool loses it (crm.find)",
        'label untrusted: "crm.*" added (policies/1.yaml:4), "web.*" removed (policies/1.yaml:4); '
        "1 tool loses it (web.fetch)",
    ]
    gone = diff(book(AGENTS + FLOW), book(AGENTS + FLOW.split("flow:")[0]), TOOLS, TRUSTED).lines()
    assert gone[2:] == [
        "label outward: there is no flow rule any more; 2 tools lose it (crm.find, mail.send)",
        "label untrusted: there is no flow rule any more; 2 tools lose it (crm.find, web.fetch)",
    ]
    assert not diff(book(AGENTS + FLOW), book(AGENTS + FLOW), TOOLS, TRUSTED).lines()
    moved = diff(book(AGENTS + FLOW), book(FLOW + AGENTS), TOOLS, TRUSTED).lines()
    assert not moved


def test_comparing_labels_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "MOST_TRIED", 0)
    found = diff(book(AGENTS), book(AGENTS + FLOW.replace("mail.*", '"*.send"')), TOOLS, TRUSTED)
    assert any(line.endswith("; its tools were not compared") for line in found.flow)
