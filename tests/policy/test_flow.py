"""Labels and flow rules: from files to the decision about one call."""

import math

import pytest

from aggregator.domain.decision import Decision
from aggregator.flow.decide.decide_flow import NO_FLOW, FlowState, LabelSource, decide_flow, how_long_ago
from aggregator.policy.patterns import Target
from aggregator.policy.rulebook import AgentRules

from .build import book, errors, tool

NOW = 1_800_000_000.0
FLOW = """
labels:
  untrusted: [web.*, "resource:legal.*", "prompt:legal.*"]
  private: ["server:files"]
  outward: [mail.send*, web.post]
flow:
  - {after: untrusted, calls: outward, then: confirm}
  - {after: [untrusted, private], calls: outward, then: deny}
agents:
  shop: {allow: ["*", "resource:*", "prompt:*"], deny: [mail.send_all], confirm_people: {mail.send_money: 2}}
"""
WEB = LabelSource("web.fetch", NOW - 130)
FILES = LabelSource("files.read", NOW - 5)


def shop(content: str = FLOW) -> AgentRules:
    return book(content).agents["shop"]


def decided(name: str, state: FlowState, rules: AgentRules | None = None) -> Decision:
    """Decide about a call of a tool as the gateway does."""
    ruling = (rules or shop()).rule(tool(name), trusted=False)
    return decide_flow(ruling.decision, ruling.flow, state, NOW) if ruling.flow.rules else ruling.decision


def test_a_call_outward_is_asked_about_once_something_untrusted_was_read() -> None:
    assert decided("mail.send", {}).verdict == "allow"
    asked = decided("mail.send", {"untrusted": WEB})
    assert (asked.verdict, asked.source, asked.people) == ("confirm", "policies/1.yaml:7", 1)
    assert asked.reason == (
        "web.fetch was read 2 minutes ago, and after that mail.send is asked about "
        "(flow rule policies/1.yaml:7: after untrusted, calls outward)"
    )


def test_all_labels_of_a_rule_are_needed_and_a_denial_counts_before_a_question() -> None:
    assert decided("mail.send", {"private": FILES}).verdict == "allow"
    refused = decided("mail.send", {"private": FILES, "untrusted": WEB})
    assert (refused.verdict, refused.hidden) == ("deny", False)
    assert refused.reason == (
        "web.fetch (untrusted) was read 2 minutes ago and files.read (private) was read a moment ago, and after that "
        "mail.send is not allowed (flow rule policies/1.yaml:8: after private and untrusted, calls outward)"
    )
    one = LabelSource("crm.search", NOW - 3_700)
    assert decided("mail.send", {"private": one, "untrusted": one}).reason.startswith(
        "crm.search was read an hour ago, and after that mail.send"
    )


def test_tools_without_labels_have_no_flow() -> None:
    rules = shop()
    assert rules.rule(tool("time.now"), trusted=False).flow is NO_FLOW
    read = rules.rule(tool("web.fetch"), trusted=False).flow
    assert read.labels == {"untrusted"}
    assert read.rules == ()
    both = rules.rule(tool("web.post"), trusted=False).flow
    assert both.labels == {"untrusted", "outward"}
    assert len(both.rules) == 2


def test_the_rules_of_the_agent_stay() -> None:
    refused = decided("mail.send_all", {"untrusted": WEB})
    assert (refused.verdict, refused.rule) == ("deny", 'deny "mail.send_all"')
    asked = decided("mail.send_money", {"untrusted": WEB})
    assert (asked.verdict, asked.people) == ("confirm", 2)
    assert asked.reason.endswith('; besides, agent shop wants 2 people to confirm "mail.send_money"')
    assert decided("mail.send_money", {"untrusted": WEB, "private": FILES}).verdict == "deny"


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("mail.send", {"outward"}),
        ("mail.s\u200bend", {"outward"}),
        ("mail.Send", set()),
        ("web.post", {"untrusted", "outward"}),
        ("files.any.name", {"private"}),
    ],
)
def test_a_name_with_characters_that_cannot_be_seen_has_the_labels_of_how_it_reads(name: str, labels: set[str]) -> None:
    assert shop().rule(tool(name), trusted=False).flow.labels == labels


@pytest.mark.parametrize(
    "uri", ["secret://a/b", "secret://a/%62", "secret://a/x/../b", "secret://a/b?x=1", "secret://a/b#part"]
)
def test_any_spelling_of_a_uri_has_the_label(uri: str) -> None:
    rules = shop(FLOW.replace("resource:legal.*", "resource:legal.secret://a/b*"))
    assert rules.flow_of(Target("resource", "legal", "legal", uri)).labels == {"untrusted"}


def test_resources_and_prompts_have_labels_and_rules() -> None:
    rules = shop(FLOW.replace("mail.send*,", 'mail.send*, "prompt:legal.send",'))
    assert rules.flow_of(Target("prompt", "legal", "legal", "ask")).labels == {"untrusted"}
    assert rules.flow_of(Target("resource", "time", "time", "now://")) is NO_FLOW
    flow = rules.flow_of(Target("prompt", "legal", "legal", "send"))
    asked = decide_flow(Decision("allow", "", ""), flow, {"untrusted": WEB}, NOW)
    assert (asked.verdict, flow.name) == ("confirm", "prompt:legal.send")


@pytest.mark.parametrize(
    ("annotations", "trusted", "labels"),
    [
        ({"openWorldHint": True}, True, {"untrusted", "outward"}),
        ({"openWorldHint": True, "readOnlyHint": True}, True, {"untrusted"}),
        ({"openWorldHint": True}, False, set()),
        ({"openWorldHint": False}, True, set()),
        ({"openWorldHint": "yes"}, True, set()),
        ({}, True, set()),
        (None, True, set()),
    ],
)
def test_annotations_of_trusted_servers_give_labels(annotations: object, trusted: bool, labels: set[str]) -> None:
    found = shop().rule(tool("crm.find", annotations), trusted=trusted).flow  # type: ignore[arg-type]
    assert found.labels == labels


def test_annotations_add_nothing_where_a_pattern_of_the_operator_matches() -> None:
    said = {"openWorldHint": True}
    assert shop().rule(tool("files.read", said), trusted=True).flow.labels == {"private"}


def test_without_flow_rules_nothing_has_a_flow() -> None:
    made = book("labels: {untrusted: [web.*]}\nagents: {shop: {allow: ['*']}}")
    assert (made.has_flow, made.decay) == (False, 1800.0)
    assert made.agents["shop"].rule(tool("web.fetch"), trusted=False).flow is NO_FLOW


def test_a_name_from_a_server_is_escaped_and_cut() -> None:
    reason = decided("mail.send", {"untrusted": LabelSource("web.a\nb\x1b[31m" + "x" * 500, NOW)}).reason
    assert reason.startswith(r"web.a\nb\u001b[31mxxx")
    assert "…" in reason
    assert len(reason) < 300


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5.0, "a moment ago"),
        (math.nan, "a moment ago"),
        (9.9, "a moment ago"),
        (10.0, "10 seconds ago"),
        (59.9, "59 seconds ago"),
        (60.0, "a minute ago"),
        (121.0, "2 minutes ago"),
        (3_600.0, "an hour ago"),
        (7_300.0, "2 hours ago"),
        (90_000.0, "a day ago"),
        (200_000.0, "2 days ago"),
        (math.inf, "long ago"),
    ],
)
def test_a_time_is_told_in_words(seconds: float, words: str) -> None:
    assert how_long_ago(seconds) == words


def test_files_add_up() -> None:
    made = book(
        "labels: {untrusted: [web.*]}\nflow: [{after: untrusted, calls: [outward], then: confirm}]\ndecay: 10m",
        "labels: {untrusted: [mail.read, web.*], risky: []}\ndecay: 600",
        "flow: [{after: [untrusted], calls: outward, then: confirm}, {after: risky, calls: outward, then: deny}]",
    )
    assert made.decay == 600
    assert not made.one_conversation
    assert book("conversation: key", "conversation: key").one_conversation
    labels = made.documents.labels
    assert {name: [rule.pattern.text for rule in label.rules] for name, label in labels.items()} == {
        "untrusted": ["mail.read", "web.*"],
        "risky": [],
    }
    assert [str(rule.place) for rule in made.documents.flow] == ["policies/1.yaml:2", "policies/3.yaml:1"]


def test_labels_and_flow_rules_are_bounded() -> None:
    many: object = {"labels": {f"l{at}": [] for at in range(101)}}
    assert "labels: There are 101 of them in all files, and 100 are taken at most." in errors(many)[0]
    names = [f"l{at}" for at in range(25)]
    rules = [{"after": one, "calls": other, "then": "deny"} for one in names for other in names]
    one, other = {"labels": dict.fromkeys(names), "flow": rules[:400]}, {"flow": rules[400:]}
    (problem,) = errors(one, other)
    assert "policies/2.yaml:1: flow: There are 625 of them in all files, and 500 are taken at most." in problem
    assert len(book(one).flow.rules) == 400


@pytest.mark.parametrize(
    ("contents", "said"),
    [
        (
            ["flow: [{after: untrustd, calls: outward, then: deny}]"],
            "policies/1.yaml:1: flow.after: There is no label untrustd. Did you mean `untrusted`?",
        ),
        (
            ["flow:\n  - {after: untrusted, calls: mine, then: deny}"],
            "policies/1.yaml:2: flow.calls: There is no label mine. Define it under `labels:`, in",
        ),
        (["decay: 5m", "decay: 6m"], "policies/2.yaml:1: decay: This differs from what policies/1.yaml:1 says."),
        (
            ["flow: [{after: [a, b, c, d, e, f, g, h, i], calls: x, then: deny}]"],
            "flow[0].after: Expected a shorter list, got a list. Take some out, or put them into another rule.",
        ),
        (
            ["conversation: key", "conversation: session"],
            "policies/2.yaml:1: conversation: This differs from what policies/1.yaml:1 says.",
        ),
        (["conversation: trace"], "conversation: Expected session or key, got 'trace'."),
        (["decay: 31d"], "decay: Expected at most 30 days, got '31d'."),
        (["flow: [{after: [], calls: x, then: deny}]"], "flow[0].after: Expected at least one, got an empty list."),
        (["flow: [{after: x, calls: x, then: ask}]"], "flow[0].then: Expected confirm or deny, got 'ask'."),
        (["flow: [{after: 3, calls: x, then: deny}]"], "flow[0].after: Expected a list, got the number 3."),
        (["labels: {Big: ['*']}"], "labels.Big: This is not the name of a label. Use a-z"),
        (["labels: {big: [web]}"], "labels.big[0]: This can match nothing: a full name is server.tool."),
        (["flow: [{after: x, calls: y, then: deny, than: 1}]"], "Did you mean `then`?"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(contents: list[str], said: str) -> None:
    assert any(said in problem for problem in errors(*contents)), errors(*contents)
