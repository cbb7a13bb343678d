"""Previews: they show what changes, and never a secret."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.cli.hosts.install.preview import hidden_values, preview

CANARY = "k4n4ry0123456789xyz"
OURS = {"command": "/opt/aggregator", "args": ["stdio"]}
HARMLESS = st.text("abcdefg", min_size=1, max_size=8)

# Entries with a canary, in every place where hosts keep secrets.
ENTRIES = [
    {"command": "x", "env": {"GITHUB_TOKEN": CANARY}},
    {"command": "x", "env": {"ANYTHING": CANARY}},
    {"command": "x", "env": {"ANYTHING": "a plain sentence of words"}},
    {"command": "x", "env": {"PIN": "9137"}},
    {"cmd": "x", "envs": {"ANYTHING": "wordsonly"}},
    {"url": f"https://ada:{CANARY}@example.com/mcp"},
    {"url": f"https://example.com/mcp?api_key={CANARY}"},
    {"url": f"https://example.com/{CANARY}0001/mcp"},
    {"url": "https://example.com", "headers": {"X-Other": "wordsonly"}},
    {"url": "https://example.com", "http_headers": {"Authorization": "Bearer wordsonly"}},
    {"url": "https://example.com", "requestOptions": {"headers": {"A": "wordsonly"}}},
    {"command": "x", "args": ["--api-key", "wordsonly"]},
    {"command": "x", "args": ["--api-key=wordsonly"]},
    {"command": "x", "args": ["--pat", "wordsonly"]},
    {"command": "x", "args": ["serve", CANARY]},
    {"command": f"x --token {CANARY} serve"},
    {"command": "x", "args": ["-e", f"API_KEY={CANARY}"]},
    {"bearer_token": "wordsonly", "url": "https://example.com"},
]
SECRETS = (CANARY, "wordsonly", "a plain sentence of words", "9137")


def file_of(entry: dict[str, object], indent: int | None = 2, **more: object) -> str:
    return json.dumps({"mcpServers": {"other": entry, **more}}, indent=indent)


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: next(iter(entry)))
def test_no_secret_of_another_entry(entry: dict[str, object], indent: int | None) -> None:
    """D1: Neither in a line beside the change nor in a line that goes away, pretty or on one line."""
    before, after = file_of(entry, indent), file_of(entry, indent, aggregator=OURS)
    hidden = hidden_values(json.loads(before))
    shown = preview(Path("/h.json"), before, after, hidden)
    assert "/opt/aggregator" in shown.diff
    removed = preview(Path("/h.json"), before, json.dumps({"mcpServers": {"aggregator": OURS}}, indent=2), hidden)
    for text in (shown.diff, removed.diff):
        assert not [secret for secret in SECRETS if secret in text]
    assert removed.hidden


@given(st.dictionaries(HARMLESS, st.text(min_size=1, max_size=40), max_size=4), st.sampled_from([None, 2]))
def test_no_value_of_a_variable(env: dict[str, str], indent: int | None) -> None:
    """D1: Any text that is long enough to be one is hidden, however JSON writes it."""
    env = {name: f"s3{value}0zq" for name, value in env.items()}
    before = file_of({"command": "x", "env": env}, indent)
    hidden = hidden_values(json.loads(before))
    afters = ['{"mcpServers": {}}\n', file_of({"command": "x", "env": env}, indent, aggregator=OURS)]
    shown = "".join(preview(Path("/h.json"), before, after, hidden).diff for after in afters)
    for value in env.values():
        if len(value.strip()) >= 6:
            assert value not in shown
            assert json.dumps(value)[1:-1] not in shown


def test_values_that_a_file_writes_in_other_characters() -> None:
    """D1: JSON may write any letter as a number."""
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in "wordsonly")
    before = f'{{"mcpServers": {{"o": {{"env": {{"A": "{escaped}"}}}}}}}}'
    assert json.loads(before)["mcpServers"]["o"]["env"]["A"] == "wordsonly"
    shown = preview(Path("/h.json"), before, "{}", hidden_values(json.loads(before))).diff
    assert escaped not in shown
    assert "[redacted]" in shown


def test_values_on_several_lines() -> None:
    """D1: YAML folds lines into one value, TOML keeps them."""
    folded = "envs:\n  TOKEN: >-\n    wordsonly of\n    some sentence\n  B: |\n    wordsonly too\n"
    value = {"envs": {"TOKEN": "wordsonly of some sentence", "B": "wordsonly too\n"}}
    shown = preview(Path("/h.yaml"), folded, "", hidden_values(value)).diff
    assert "wordsonly" not in shown
    assert "sentence" not in shown
    assert "-  TOKEN: >-" in shown


def test_a_new_file_and_a_removed_one() -> None:
    added = preview(Path("/h.json"), None, '{\n  "a": 1\n}\n', hidden_values())
    assert added.diff == '--- /dev/null\n+++ /h.json\n@@ -0,0 +1,3 @@\n+{\n+  "a": 1\n+}\n'
    assert not added.hidden
    assert preview(Path("/h.json"), '{"a": 1}', None, hidden_values()).diff.endswith('-{"a": 1}\n')


def test_the_key_of_our_own_entry() -> None:
    text = f'{{"headers": {{"Authorization": "Bearer {CANARY}"}}}}'
    assert CANARY not in preview(Path("/h.json"), "{}", text, hidden_values(own=[CANARY])).diff


@given(st.lists(st.integers(1, 6000), min_size=1, max_size=8), st.sampled_from(['"', "\\", "x", " "]))
def test_a_file_on_one_line(lengths: list[int], sign: str) -> None:
    """D1: A line that is cut is cut where no secret is."""
    env = {f"V{at}": f"s3cret{sign}" * (length // 7 + 1) for at, length in enumerate(lengths)}
    before = file_of({"command": "x", "env": env}, None)
    after = file_of({"command": "x", "env": env}, None, aggregator=OURS)
    shown = preview(Path("/h.json"), before, after, hidden_values(json.loads(before))).diff
    assert "s3cret" not in shown
    assert "/opt/aggregator" in shown


def test_where_lines_differ() -> None:
    """The numbers are those of the whole file, though what is equal is not compared."""
    lines = [f"line {number}" for number in range(1, 1001)]
    changed = [*lines[:499], "changed", *lines[500:900], "added", *lines[900:]]
    shown = preview(Path("/h.json"), "\n".join(lines), "\n".join(changed), hidden_values()).diff.splitlines()
    assert [line for line in shown if line.startswith("@@")] == ["@@ -498,5 +498,5 @@", "@@ -899,4 +899,5 @@"]
    assert [line for line in shown[2:] if line[0] in "-+"] == ["-line 500", "+changed", "+added"]


def test_lines_that_a_terminal_would_obey_and_long_ones() -> None:
    before = '{"a": "\x1b[2J"}'
    shown = preview(Path("/h.json"), before, '{"a": "' + "b c " * 1000 + '"}', hidden_values()).diff
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) < 400
