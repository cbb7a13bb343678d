"""The difference of two definitions: exact where it can be, bounded always."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.catalog.definition_diff import LARGEST, compared, definition_diff

words = st.lists(st.sampled_from("abc"), max_size=14)


def _longest_common(before: Sequence[str], after: Sequence[str]) -> int:
    row = [0] * (len(after) + 1)
    for one in before:
        above = row
        row = [0]
        for number, other in enumerate(after):
            row.append(above[number] + 1 if one == other else max(row[number], above[number + 1]))
    return row[-1]


@given(words, words)
def test_the_parts_make_up_both_and_say_no_more_than_has_to_be_said(before: list[str], after: list[str]) -> None:
    parts = compared(before, after)
    assert [text for kind, texts in parts if kind != "added" for text in texts] == before
    assert [text for kind, texts in parts if kind != "removed" for text in texts] == after
    changed = sum(len(texts) for kind, texts in parts if kind != "same")
    assert changed == len(before) + len(after) - 2 * _longest_common(before, after)


def test_a_long_definition_gives_a_short_difference() -> None:
    before = {"description": "word " * 20_000, "inputSchema": {"enum": [f"a{n}" for n in range(20_000)]}}
    after = {"description": "other " * 20_000, "inputSchema": {"enum": [f"b{n}" for n in range(20_000)]}}
    found = definition_diff(json.dumps(before), json.dumps(after))
    shown = [text for part in (*found.description, *found.lines) for text in part.texts]
    assert len(shown) <= 4_100
    left_out = sum(part.count for part in found.lines if part.kind == "left out")
    assert left_out >= 38_000


def test_a_long_line_is_cut_and_its_change_still_seen() -> None:
    before, after = ({"default": "x" * 100_000 + end} for end in "ab")
    found = definition_diff(json.dumps(before), json.dumps(after))
    assert {part.kind for part in found.lines} == {"same", "removed", "added"}
    assert all(len(text) < 1_000 for part in found.lines for text in part.texts)


@pytest.mark.parametrize("text", ["[]", "{", '"x"', "[" * 100_000, json.dumps({"a": "x" * LARGEST})])
def test_what_is_no_definition_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        definition_diff(text, "{}")


def test_the_order_of_names_is_no_difference() -> None:
    found = definition_diff('{"a": 1, "b": {"c": 2, "d": 3}}', '{"b": {"d": 3, "c": 2}, "a": 1}')
    assert not found.description
    assert not found.lines
