"""An entry as it is shown: the command as it will be started, and no secret."""

import json
import shlex
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from aggregator.cli.servers.adding.report import PrintableEntry

SECRETS = st.from_regex(r"[A-Za-z0-9+/_-]{8,40}", fullmatch=True)
_PRINTABLE = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z"), include_characters=" '\"\\$`;&|\n\t"))


@given(st.lists(_PRINTABLE, max_size=5))
def test_the_command_is_the_one_that_is_started(args: list[str]) -> None:
    assume(not any("${" in arg for arg in args))
    shown = PrintableEntry({"command": "npx", "args": args}, {})
    assume(not shown.secrets)
    assume(shown.data()["args"] == args and all(arg.isprintable() for arg in args))
    assert shlex.split(shown.action().removeprefix("starts: ")) == ["npx", *args]


@pytest.mark.parametrize(
    ("arg", "shown"),
    [("\x1b[2Jclear", r"'\x1b[2Jclear'"), ("a\u202eb", r"a\u202eb"), ("a\nb", r"a\nb"), ("${$}{X}", "${X}")],
)
def test_characters_that_would_deceive(arg: str, shown: str) -> None:
    said = PrintableEntry({"command": "x", "args": [arg]}, {}).action()
    assert said.isprintable()
    assert said.removeprefix("starts: x ").strip("'") == shown.strip("'")


@given(SECRETS, st.integers(0, 8))
def test_no_secret_is_shown(secret: str, place: int) -> None:
    assume(not set(secret.lower()) <= set("redacted"))
    entries: list[dict[str, Any]] = [
        {"command": "x", "env": {"API_TOKEN": secret}},
        {"command": "x", "args": ["--password", f"{secret}1"]},
        {"command": "x", "args": [f"--api-key={secret}"]},
        {"url": "https://a.example.com/mcp", "headers": {"Authorization": f"Bearer {secret}"}},
        {"url": "https://a.example.com/mcp", "headers": {"X-Anything": secret}},
        {"url": f"https://me:{secret.replace('/', '_')}@a.example.com/mcp"},
        {"url": f"https://a.example.com/mcp?token={secret.replace('+', '_')}"},
        {"url": "http://127.0.0.1:1/", "launch": {"command": "x", "env": {"DB_PASSWORD": secret}}},
        {"command": "x", "env": {"NAME": secret}},
    ]
    declared = {"NAME": secret} if place == 8 else {}
    shown = PrintableEntry(entries[place], declared)
    for said in (shown.text(), shown.action(), json.dumps(shown.data()), repr(shown)):
        assert secret not in said


def test_references_are_shown_and_no_secret_is_suspected() -> None:
    entry = {
        "url": "https://${TENANT}.example.com/mcp",
        "headers": {"Authorization": "Bearer ${TOKEN}", "X-Key": "${keyring:key}"},
    }
    shown = PrintableEntry(entry, {})
    assert shown.data() == entry
    assert not shown.clear
