"""Whether texts say all that a structured result says: only then is it left out beside them."""

import json
from typing import Any

import pytest

from aggregator.results.read.repeated import path_said, repeats

ROWS = [{"id": 1, "name": "Ann"}, {"id": 2, "name": "Bob"}]
EACH = [json.dumps(row) for row in ROWS]
PRETTY = json.dumps({"rows": ROWS, "é": "x/y"}, indent=2, ensure_ascii=True)


@pytest.mark.parametrize(
    ("texts", "structured", "path"),
    [
        ([json.dumps(ROWS)], ROWS, ""),
        (["Rows:", f"\ufeff{PRETTY}"], {"é": "x/y", "rows": ROWS}, ""),
        (["Ann"], "Ann", ""),
        ([json.dumps(ROWS)], {"result": ROWS}, "result"),
        (["Ann"], {"result": "Ann"}, "result"),
        (EACH, {"result": ROWS}, "result[#]"),
        (EACH[:1], {"result": ROWS}, None),
        ([*EACH, "more"], {"result": ROWS}, None),
        (EACH[::-1], {"result": ROWS}, None),
        ([], {"result": []}, None),
        ([json.dumps(ROWS)], {"result": ROWS, "total": 2}, None),
        ([json.dumps(ROWS)], {"rows": ROWS}, None),
        ([json.dumps(ROWS[:1])], ROWS, None),
        (["no JSON"], ROWS, None),
    ],
)
def test_where_texts_say_all_of_it(texts: list[str], structured: Any, path: str | None) -> None:
    """C9: as JSON in any form, whole, wrapped in `result`, or item by item; never a part of it."""
    assert path_said(texts, structured) == path


@pytest.mark.parametrize(
    ("texts", "structured", "said"),
    [
        (["Ann (1), Bob (2)"], {"rows": [["Ann", 1], ["Bob", 2]]}, True),
        (["Bob (2), Ann (1)"], {"rows": [["Ann", 1], ["Bob", 2]]}, True),
        (["Ann", "Bob"], {"a": " Ann ", "b": "Bob", "none": None, "is": True, "empty": " "}, True),
        (["Ann, Bob"], {"rows": [["Ann", 1], ["Bob", 2]]}, False),
        (["Ann costs 1.5"], {"name": "Ann", "cost": 1.5}, True),
        (["Ann costs 1"], {"name": "Ann", "cost": 1.5}, False),
        *((["10 of 21: 5.1, 1.5"], {"n": number}, False) for number in (1, 0, 2, 5, 51, "1", "2.1")),
        *((["10 of 21: 5.1, 1.5."], {"n": number}, True) for number in (10, 21, 5.1, 1.5, "of 21")),
        (["10 in 2010, 1."], {"n": 10, "m": 1, "of": "in 2010"}, True),
        (["Ann"], {"name": "Ann", "more": "Bob"}, False),
        (["Ann"], {"deep": [{"name": "Ann"}, {"name": {"first": "Bob"}}]}, False),
    ],
)
def test_words_that_have_each_text_and_number_of_it(texts: list[str], structured: Any, said: bool) -> None:
    """C9: in any order; flags and nothing are not told in words."""
    assert repeats(texts, structured) is said


@pytest.mark.parametrize(("most", "said"), [(3, True), (2, False)])
def test_of_more_values_than_are_compared_nothing_is_known(
    monkeypatch: pytest.MonkeyPatch, most: int, said: bool
) -> None:
    monkeypatch.setattr("aggregator.results.read.repeated._MOST_VALUES", most)
    assert repeats(["one two three"], {"words": ["one", "two", "three"]}) is said
    assert repeats(["one two"], {"words": ["one", "two", "three"]}) is False


@pytest.mark.parametrize(("whole", "changed"), [(10_000, None), (100, ""), (100, None)])
def test_very_long_json_is_compared_by_its_beginning(
    monkeypatch: pytest.MonkeyPatch, whole: int, changed: str | None
) -> None:
    """D7: as a value it would take much memory; what differs at once is told apart in any case."""
    monkeypatch.setattr("aggregator.results.read.repeated.COMPARED_WHOLE", whole)
    rows = [{"id": number, "name": "Ann Ö/Ä"} for number in range(40)]
    other = rows if changed == "" else [{"id": -1}, *rows]
    assert path_said([json.dumps(other, indent=1)], rows) == changed
