"""Random results, and texts that hypothesis makes of the characters that matter, held to every law."""

from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aggregator.domain.text.tokens import estimate, estimate_long, reach
from aggregator.results.read.document import ResultDocument
from aggregator.results.read.forms import Form, Quotes, TextSpan
from aggregator.results.read.page_end import before, joined
from tests.laws import examples
from tests.results.laws import check_all, check_end, pages
from tests.results.shapes import any_result

_CHARACTERS = st.sampled_from([*'[]{},:"\\ \n\r\tau019.#|`-中é', "\u0301", "\u200d", "👩", "🇩", "\ud800", "\ufeff"])
_TEXTS = st.lists(_CHARACTERS | st.text(max_size=3) | st.just("word " * 9), max_size=150).map("".join)


@given(st.integers(0, 2**32))
@settings(max_examples=examples(150))
def test_any_result(seed: int) -> None:
    random = Random(seed)  # noqa: S311
    check_all(any_result(random), random)


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("ab\n\nc", [1, 2, 3, 4]),
        ("a\r\nb\r", [1, 3, 4]),
        ("🇩🇪🇫🇷🇮🇹", [2, 4]),
        ("a🇩🇪b🇫🇷🇮", [1, 3, 4, 6]),
        ("👩\u200d👩a\u200d", [3]),
        ("👍🏽👍", [2]),
        ("🏴\U000e0067\U000e007fa", [3]),
        ("e\u0301e\u200ce", [2, 4]),
        ("\n\u0301\r\u200d", [1, 2, 3]),
        ("\ud83d\ude00\ud83d", [2]),
        ("\u1112\u1161\u11ab\u1112\uac00\u11a8a", [3, 6]),
        ("\u1161\u1112\uac00\uac00", [1, 3]),
    ],
)
def test_where_no_character_is_cut_in_two(text: str, places: list[int]) -> None:
    """The laws of pages and ends rely on it."""
    assert [at for at in range(1, len(text)) if not joined(text, at)] == places
    assert [before(text, at, 0) for at in places] == places


@given(st.lists(_TEXTS, min_size=1, max_size=3), st.integers(100, 300), st.integers(0, 9))
@example(['{"a": "\\ud83d\\ude00' + "\\ud83d\\ude00" * 200 + '"}'], 100, 0)
@example(["\r\n" * 900], 100, 1)
@example(["[" * 5_000], 100, 0)
@example(["\\" * 5_000], 100, 0)
@example(['"' * 5_000], 100, 0)
def test_pages_are_the_text(texts: list[str], limit: int, start: int) -> None:
    document = ResultDocument.of({"content": [{"type": "text", "text": text} for text in texts]})
    start = min(start, len(document.text))
    read = list(pages(document, start, limit))
    assert "".join(page.body for page in read) == document.text[start:]
    for page in read[:-1]:
        assert page.next is not None
        check_end(document.text, page.next)


@given(_TEXTS, st.integers(0, 50), st.integers(1, 60))
def test_reach_keeps_to_the_tokens(text: str, start: int, most: int) -> None:
    end = reach(text, start, most)
    assert start <= end or start > len(text)
    assert estimate(text[start:end]) <= most


def test_a_long_text_is_estimated_by_samples() -> None:
    text = "".join(f"Row {number}: the login fails in getUserByID, {number * 7}\n" for number in range(8_000))
    assert abs(estimate_long(text) / estimate(text) - 1) < 0.02


@given(_TEXTS, st.lists(st.integers(0, 300), min_size=1, max_size=8), st.sampled_from([Form.JSON, Form.CSV]))
def test_quotes_are_counted_alike_in_any_order(text: str, offsets: list[int], form: Form) -> None:
    long = text + '"\\' * 9_000 + text
    quotes, span = Quotes(long), TextSpan(0, len(long), form)
    for offset in (*offsets, 9_001, 17_000, *offsets):
        assert quotes.around(span, offset) == _is_quoted(long[:offset], escapes=form is Form.JSON)


def _is_quoted(text: str, *, escapes: bool) -> bool:
    """Tell by one character after the other whether a quote is open at the end."""
    quoted = escaped = False
    for character in text:
        if escapes and character == "\\":
            escaped = not escaped
            continue
        if character == '"' and not escaped:
            quoted = not quoted
        escaped = False
    return quoted


@given(st.recursive(st.none() | st.integers() | st.text(max_size=40), lambda inner: st.lists(inner, max_size=6)))
def test_structured_results_come_back(value: Any) -> None:
    result = {"content": [], "structuredContent": {"value": value}}
    document = ResultDocument.of(result)
    again = ResultDocument.from_bytes(document.to_bytes())
    assert (again.result, again.text) == (result, document.text)


def test_the_quotes_of_a_long_line_of_json_end_with_it() -> None:
    """Offsets that are remembered within a text say nothing of the lines behind it."""
    line = '{"k": "' + "x" * 9_000 + '", "n": 1}\n'
    text = line * 3
    quotes, span = Quotes(text), TextSpan(0, len(text), Form.JSON_LINES)
    places = [(number * len(line) + at, at < 9_000) for number in range(3) for at in (8_500, 9_010)]
    assert [quotes.around(span, at) for at, _ in places] == [inside for _, inside in places]
