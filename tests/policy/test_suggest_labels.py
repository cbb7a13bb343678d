"""Labels that are proposed for tools, from what their servers say of them."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.cli.policy.suggested import suggest, suggestion_lines
from aggregator.domain.errors import OperatorError
from aggregator.flow.decide.label_words import words
from aggregator.flow.decide.suggest_labels import suggest_labels
from aggregator.policy.files.yamltree import parse
from aggregator.policy.rulebook import target_of

from .build import book, errors, tool


def proposed(name: str, server: str = "s", **definition: Any) -> str:
    """The labels as their first letters."""
    return "".join(one.label[0] for one in suggest_labels(server, name, {"name": name, **definition}))


def with_parameters(*names: str) -> dict[str, Any]:
    return {"inputSchema": {"type": "object", "properties": {name: {"type": "string"} for name in names}}}


@pytest.mark.parametrize(
    ("name", "labels", "definition"),
    [
        # It reads what strangers write, it reads what is private, it sends.
        ("get_issue_comments", "up", {}),
        ("listPullRequests", "up", {}),
        ("read_file", "p", {}),
        ("run_query", "p", {}),
        ("send_email", "o", {}),
        ("create_merge_request_note", "o", {}),
        ("post_message", "o", {}),
        ("web_search", "u", {}),
        ("image_search", "u", {"annotations": {"openWorldHint": True}}),
        # An address that the caller chooses goes out with the request, and what comes back is anybody's.
        ("fetch", "uo", with_parameters("url")),
        ("create_reminder", "o", with_parameters("to")),
        ("create_reminder", "o", {"description": "Sends a message later."}),
        ("exec_in_pod", "po", {}),
        ("browser_click", "uo", {}),
        ("browser_snapshot", "u", {}),
        # Annotations that say the contrary of the name are not believed where it sends.
        ("communication_email_send", "o", {"annotations": {"readOnlyHint": True}}),
        ("research", "u", {"description": "Searches the web for a topic."}),
        ("search", "up", {"server": "jira"}),
        # None of these.
        ("delete_issue", "", {}),
        ("approve_merge_request", "", {}),
        ("convert_time", "", {}),
        ("create_card", "", {}),
        ("send_it", "o", {"server": "send"}),
        ("click", "uo", {"server": "selenium"}),
        ("get_weather", "", with_parameters("city")),
        ("get_weather", "uo", with_parameters("city", "url")),
        ("get_issue_types", "", {}),
        ("validate_document", "", {}),
        ("add_heading", "", {}),
        ("", "", {}),
    ],
)
def test_labels_are_proposed_by_words(name: str, labels: str, definition: dict[str, Any]) -> None:
    assert proposed(name, **definition) == labels


def test_names_are_taken_apart() -> None:
    assert words("listIssueComments") == ("list", "issue", "comment")
    assert words("get-pull_request.diffs2") == ("get", "pr", "diff")
    assert words("HTTPStatuses") == ("http", "status")
    assert words("查询") == ("查询",)


def test_a_reason_is_given_for_each_label() -> None:
    (found,) = suggest_labels("s", "get_file", {})
    assert found.why == "it reads what others may not know: `file` in its name"
    _, outward = suggest_labels("s", "open", with_parameters("url"))
    assert outward.why == "who has the address in `url` sees what is in it"


HOSTILE = st.text(max_size=60) | st.sampled_from(
    [
        "a: b",
        "x # y",
        "- z",
        "get_issue\n  outward: [server:*]",
        "*",
        "[x",
        "\u202eliam",
        "'",
        '"',
        "null",
        "1.5",
        "\x00",
    ]
)
VALUES = st.none() | st.booleans() | st.integers() | HOSTILE
JSON_VALUES = st.recursive(
    VALUES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(HOSTILE, inner, max_size=3)
)


@given(HOSTILE, st.fixed_dictionaries({}, optional=dict.fromkeys(("description", "annotations"), JSON_VALUES)),
       st.dictionaries(HOSTILE, JSON_VALUES, max_size=4) | JSON_VALUES)  # fmt: skip
def test_no_text_of_a_server_breaks_the_yaml_or_gets_into_it(name: str, said: Any, parameters: Any) -> None:
    hostile = tool(f"s.{name}get_issue")
    hostile.definition.update({**said, "inputSchema": {"properties": parameters}})  # type: ignore[attr-defined]
    text = "\n".join(suggestion_lines([hostile, tool("s.send_mail")], None))
    assert text.isprintable() or all(char.isprintable() or char == "\n" for char in text)
    labels = parse(text).value["labels"]
    assert set(labels) == {"untrusted", "private", "outward"}
    assert {pattern for patterns in labels.values() for pattern in patterns} <= {
        "s.send_mail",
        *(pattern for pattern in labels["untrusted"] + labels["private"] + labels["outward"] if "get_issue" in pattern),
    }
    if hostile.own_name.isprintable() and len(hostile.name) < 500:
        made = book(text + "\nflow: [{after: untrusted, calls: outward, then: deny}]\n")
        for label in ("untrusted", "private", "outward"):
            wanted = label in {one.label for one in suggest_labels("s", hostile.own_name, hostile.definition)}
            assert wanted is (label in made.flow.labels_of(target_of(hostile)))


def test_tools_that_have_a_label_are_left_out() -> None:
    made = book("labels: {mine: [s.get_file]}")
    text = "\n".join(suggestion_lines([tool("s.get_file"), tool("s.send_mail")], made))
    assert "# Left out: 1 tool that your files give a label." in text
    assert parse(text).value == {"labels": {"untrusted": [], "private": [], "outward": ["s.send_mail"]}}


@pytest.mark.slow
def test_the_command_prints_and_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    legal = {"command": sys.executable, "args": ["-m", "examples.legal"]}
    config = tmp_path / "gateway.json"
    config.write_text(json.dumps({"mcpServers": {"legal": legal}}), encoding="utf-8")
    before = sorted(path.name for path in tmp_path.rglob("*"))
    with pytest.raises(OperatorError, match="With --connect the servers are asked"):
        suggest(config)
    assert suggest(config, connect=True) == 0
    said = capsys.readouterr().out
    assert said.startswith("# Labels proposed by the names, descriptions, parameters and annotations of ")
    assert not errors_in(said)
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def errors_in(text: str) -> list[str]:
    """Return what is wrong with a text as a policy file."""
    try:
        return errors(text)
    except AssertionError:
        return []
