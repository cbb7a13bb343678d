"""Lock files: read as they were written, sorted, and refused with the place and the fix where anything is wrong."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.domain.errors import OperatorError
from aggregator.pins.decide.definition import pinned_item
from aggregator.pins.decide.lock_file import LockFileError, read_lock, write_lock
from aggregator.pins.decide.values import PinKind, PinnedItem
from tests.pins.build import tool
from tests.pins.test_digest import VALUES

KINDS: tuple[PinKind, ...] = ("tool", "prompt", "template", "skill")
NAMES = st.text(min_size=1) | st.just("a\u202eb") | st.just("\ud800")


def items(server: str = "a") -> list[PinnedItem]:
    return [
        pinned_item("tool", "create_issue", tool()),
        pinned_item("prompt", "review", {"name": "review", "arguments": [{"name": "a"}]}),
        pinned_item("template", "file:///{path}", {"uriTemplate": "file:///{path}"}),
        pinned_item("instructions", "", f"Be kind to {server}."),
    ]


@st.composite
def locked(draw: st.DrawFn) -> dict[str, list[PinnedItem]]:
    keys = st.tuples(st.sampled_from(KINDS), NAMES)
    servers = draw(st.dictionaries(NAMES, st.dictionaries(keys, VALUES, max_size=3), max_size=3))
    return {
        server: [pinned_item(kind, name, value) for (kind, name), value in found.items()]
        for server, found in servers.items()
    }


@given(locked())
def test_a_lock_file_is_read_as_it_was_written(servers: dict[str, list[PinnedItem]]) -> None:
    text = write_lock(servers)
    found = read_lock(text)
    assert {name: set(pins.values()) for name, pins in found.items()} == {k: set(pins) for k, pins in servers.items()}
    assert write_lock({name: list(pins.values())[::-1] for name, pins in reversed(found.items())}) == text
    assert text.endswith(b"}\n")
    assert all(line.isprintable() for line in text.decode().split("\n"))


def test_versions_are_left_out() -> None:
    """A reviewer of the file could not tell that one belongs to another definition."""
    text = write_lock({"a": [pinned_item("tool", "t", tool(), "feedfacedeadbeef")]})
    assert b"feedface" not in text
    assert read_lock(text)["a"]["tool", "t"].version == ""


def test_a_review_shows_the_words() -> None:
    text = write_lock({"a": items()}).decode()
    assert '"description": "Create an issue in a repository, with a title and a priority.",' in text
    assert '"definition": "Be kind to a."' in text
    hidden = write_lock({"a": [pinned_item("instructions", "", "Be\u200b kind\u202e.")]}).decode()
    assert "Be\\u200b kind\\u202e." in hidden


def edited(edit: Callable[[Any], object]) -> bytes:
    value = json.loads(write_lock({"a": items()}))
    edit(value)
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (b"", "line 1, column 1"),
        (b"{\n<<<<<<< ours\n}", "line 2, column 1: a merge conflict was left in it"),
        (b"\xff", "byte 0"),
        (b"[" * 100_000, "the whole"),
        (b"[]", "the beginning"),
        (b'{"version": 1, "servers": {}, "more": 1}', "the beginning"),
        (b'{"version": 2, "servers": {}}', "version: it is 2, and this program reads 1"),
        (b'{"version": true, "servers": {}}', "version"),
        (b'{"version": 1, "servers": []}', "servers: it is no object"),
        (b'{"version": 1, "version": 1, "servers": {}}', "the whole: one object has `version` twice"),
        (b'{"version": 1, "servers": NaN}', "the whole: NaN"),
        (edited(lambda one: one["servers"].update(a=[])), r"servers\.a: it is no object"),
        (edited(lambda one: one["servers"]["a"].update(more={})), r"servers\.a\.more: only instructions, tools,"),
        (edited(lambda one: one["servers"]["a"].update(tools=[])), r"servers\.a\.tools: it is no object"),
        (
            edited(lambda one: one["servers"]["a"]["tools"]["create_issue"].pop("digest")),
            r"servers\.a\.tools\.create_issue: an item has `digest` and `definition`",
        ),
        (
            edited(lambda one: one["servers"]["a"]["tools"]["create_issue"]["definition"].update(title="Other")),
            r"servers\.a\.tools\.create_issue: its digest does not fit its definition",
        ),
        (
            edited(lambda one: one["servers"]["a"]["instructions"].update(definition="Be bad.")),
            r"servers\.a\.instructions: its digest does not fit its definition",
        ),
    ],
)
def test_a_bad_lock_file_is_refused_with_the_place_and_the_fix(text: bytes, place: str) -> None:
    with pytest.raises(LockFileError, match=rf"^pins/lock: {place}.*`aggregator pins check --write`\.$") as refused:
        read_lock(text, "pins/lock")
    assert isinstance(refused.value, OperatorError)


@given(st.binary() | VALUES.map(lambda value: json.dumps(value).encode()))
def test_no_text_raises_anything_else(text: bytes) -> None:
    with suppress(LockFileError):
        read_lock(text)
