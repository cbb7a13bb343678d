"""Every definition that passed validation has three levels, within their budgets."""

import json
import unicodedata
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from aggregator.catalog.describe.first_sentence import first_sentence
from aggregator.catalog.describe.levels import level1, level2, level3, shown_name
from aggregator.catalog.describe.markdown import columns, visible
from aggregator.catalog.describe.truncate import truncate
from aggregator.domain.text.tokens import estimate, fit
from tests.laws import examples
from tests.levels.records import DEFINITIONS, DESCRIPTIONS, records

# Names, JSON's own marks and escapes are not words.
_SYNTAX = 700

_slowly = settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@_slowly
@given(DEFINITIONS, st.integers(10, 120))
def test_any_tool_has_three_levels(definition: dict[str, Any], length: int) -> None:
    """B2: never an error, one line only, budgets hold, the same again."""
    for tool in records([definition]):
        line = level1(tool, length)
        assert line.startswith(shown_name(tool))
        assert len(line.splitlines()) == 1
        assert line.isprintable()
        assert columns(first_sentence(tool.definition, length)) <= length
        brief, whole = level2(tool, length), level3(tool, length)
        shown = json.loads(brief)
        assert columns(shown["description"]) <= length
        words = sum(columns(key) + columns(value) for key, value in shown["parameters"].items())
        assert words <= 2 * length
        assert len(brief) <= 3 * length + _SYNTAX
        assert json.loads(whole)["name"] == shown["name"] == shown_name(tool)
        assert (line, brief, whole) == (level1(tool, length), level2(tool, length), level3(tool, length))


@_slowly
@given(DESCRIPTIONS, st.integers(1, 80))
@example("（备注）# Heading\n", 2)
@example("<b>该工具用于# Heading\n", 2)
@example("<b>该工具用于\x1b[31m# Heading\n", 14)
def test_any_description_gives_one_clean_line(description: str, room: int) -> None:
    line = first_sentence({"name": "get", "description": description}, room)
    assert columns(line) <= room
    assert line == visible(line)
    assert not any(unicodedata.category(character)[0] == "C" for character in line)
    assert not any(mark in line for mark in ("`", "**", "](", "\n"))
    assert not line.startswith(("#", "- ", "> ", "|"))


@given(st.text("ab ,;.(长城的，。", max_size=60), st.integers(1, 40))
def test_a_cut_never_ends_inside_a_word(text: str, room: int) -> None:
    text = visible(text)
    short = truncate(text, room)
    assert columns(short) <= room
    if short.endswith("…") and not text.endswith("…"):
        words = set("".join(c if c in "ab" else " " for c in text).split())
        kept = "".join(c if c in "ab" else " " for c in short).split()
        # A word that alone is too long for the room has to be cut.
        assert not kept or kept[-1] in words or len(kept) == 1


@given(st.text(), st.text())
def test_an_estimate_is_never_nothing_for_something(one: str, other: str) -> None:
    assert (estimate(one) == 0) is (one == "")
    assert estimate(one + other) <= estimate(one) + estimate(other) + 2 * max(1, len(one + other))


@given(st.lists(st.text(max_size=30), max_size=12), st.integers(0, 60), st.integers(0, 3))
def test_as_many_whole_items_as_fit(items: list[str], most: int, least: int) -> None:
    """The budget holds, nothing is cut, and what was left out is counted."""
    fitted = fit(items, most, least)
    taken = len(fitted.items)
    assert list(fitted.items) == items[:taken]
    assert fitted.left_out == len(items) - taken
    assert fitted.tokens <= most or taken <= least
    if fitted.left_out and taken >= least:
        assert fitted.tokens + estimate(items[taken]) + (1 if taken else 0) > most
