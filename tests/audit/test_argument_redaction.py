"""What a server says of a call, without what was given to it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.redaction.arguments import without_arguments

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("given_to_it", "said", "told"),
    [
        ({"city": "Graz"}, "no city Graz; Graz?", "no city [argument]; [argument]?"),
        ({"a": [{"b": "one two"}], "c": 12345, "d": 1.25}, "one two 12345 1.25", "[argument] [argument] [argument]"),
        ({"short": "of", "number": 123, "yes": True, "no": None}, "of 123 True None", "of 123 True None"),
        ({"long": "one", "longer": "none of one"}, "none of one", "[argument]"),
        (["Graz", "Graz, the Old Town"], "none in Graz, the Old Town", "none in [argument]"),
        (["Graz, the Old Town", "Graz"], "none in Graz, the Old Town", "none in [argument]"),
        ({"name": "x"}, "name", "name"),
        ("text", "a text", "a [argument]"),
        (None, "said", "said"),
        ({"huge": 10**5000}, "said", "said"),
    ],
)
def test_values_are_taken_out_and_names_stay(given_to_it: Any, said: str, told: str) -> None:
    """Proves: D9. Those that are long enough not to be in every sentence."""
    assert without_arguments(said, given_to_it) == told


@given(VALUES, st.text(max_size=40))
def test_no_text_that_was_given_is_left(given_to_it: Any, around: str) -> None:
    """D9: Whatever else is said round it."""
    texts = [text for text in _texts(given_to_it) if len(text) >= 4 and text not in "[argument]"]
    for text in texts:
        assert text not in without_arguments(f"{around} {text}", text)
    assert without_arguments(around, []) == around


def test_what_is_very_long_is_looked_at_in_part() -> None:
    """D9: No error, however long, holds up the calls of others; more of it is not kept anyway."""
    told = without_arguments("Graz " * 1_000_000, {"many": [str(number) for number in range(100_000)], "city": "Graz"})
    assert len(told) < 100_000


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in inner for text in _texts(item)]
