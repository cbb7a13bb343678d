"""Which characters are taken out of texts: those that nobody sees, and none that a script needs."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.domain.text.invisible import (
    EXACT,
    SENT,
    changed_texts,
    cleaned,
    escaped,
    folded_name,
    hidden_in_names,
    may_hide,
    unseen,
)
from aggregator.wire.codec import encode
from tests.unit.strategies import ANY_TEXT, json_values

STAYS = [
    "line\n\ttab",
    "می\u200cخواهم",  # Persian
    "क्\u200dष क्\u200cष",  # Devanagari
    "ශ්\u200dරී",  # Sinhala
    "👨\u200d👩\u200d👧 ❤\ufe0f\u200d🔥 👩🏽\u200d🚀 🏳\ufe0f\u200d🌈",
    "1\ufe0f\u20e3 ⚠\ufe0f ™\ufe0f ©\ufe0f ‼\ufe0f",
    "葛\U000e0100飾区 ﷽ ק\u200e א",
    "naïve Ω ж é e\u0301 \u00a0",
]
GOES = [
    "\x00", "\x07", "\x1b", "\r", "\x7f", "\x85", "\u2028", "\u2029", "\u202a", "\u202e", "\u2066", "\u2069",
    "\u200b", "\u2060", "\u2063", "\ufeff", "\u180e", "\u206a", "\ufff9", "\U000e0001", "\U000e0041", "\U000e007f",
    "\u200d", "\u200c", "\ufe0f", "\U000e0101",
]  # fmt: skip


@pytest.mark.parametrize("text", STAYS)
def test_what_scripts_need_stays(text: str) -> None:
    assert cleaned(text) == text
    assert unseen(text) is None


@pytest.mark.parametrize("char", GOES, ids=ascii)
def test_what_nobody_sees_goes(char: str) -> None:
    """In every place of a text in Latin letters, alone and in a row."""
    for text in (f"pay{char}pal", f"{char}paypal", f"paypal{char}", f"p{char * 3}aypal", char.join("paypal")):
        assert cleaned(text) == "paypal"
        assert unseen(text) == f"U+{ord(char):04X}"
        assert folded_name(text) == "paypal"


@given(ANY_TEXT)
def test_once_is_enough(text: str) -> None:
    assert cleaned(cleaned(text)) == cleaned(text)
    assert cleaned(text).isprintable() or not escaped(cleaned(text)).isascii() or escaped(text).isprintable()
    assert escaped(text).isprintable()


@given(json_values())
def test_nothing_to_hide_is_found_at_once(value: Any) -> None:
    """Whatever changes is suspected before."""
    changed = changed_texts(value, cleaned, frozenset())
    if not may_hide(encode(value)):
        assert changed is value
        assert hidden_in_names(value, SENT) is None


@given(st.text("ab\u200b\u202e\u200dم\U000e0101葛", max_size=12))
def test_a_name_is_what_is_seen_of_it(text: str) -> None:
    assert folded_name(text) == folded_name(cleaned(text))
    assert not set(folded_name(text)) & set("\u200b\u202e\u200d\U000e0101")


def test_what_is_compared_is_never_changed() -> None:
    """Names, and values that somebody sends, stay; a field that only has such a name is none of them."""
    schema: Any = {
        "properties": {"enum": {"enum": ["a\r\n", "x\u200b"], "description": "d\u200b", "default": "\r\n"}},
        "required": ["k\u200b"],
        "default": {"name": "n\u200b"},
        "examples": [{"name": "n\u200b"}],
        "type": "string\u200b",
    }
    changed = changed_texts(schema, cleaned, SENT)
    assert changed == {**schema, "properties": {"enum": {**schema["properties"]["enum"], "description": "d"}}} | {
        "default": {"name": "n"}
    }
    assert changed_texts(schema, cleaned, EXACT)["examples"] == [{"name": "n"}]
    assert hidden_in_names(schema, SENT) == "U+200B"
    assert hidden_in_names({"properties": {"a": {"enum": ["\r\n", "\x1b"], "description": "\u200b"}}}, SENT) is None
    for hidden in ({"a\u200b": 1}, {"x": {"\u202e": 1}}, {"const": {"a": ["\U000e0041"]}}, {"name": "\u2066"}):
        assert hidden_in_names(hidden, SENT) is not None


def test_depth_is_bounded() -> None:
    deep: Any = "x\u200b"
    for _ in range(3_000):
        deep = [deep]
    assert changed_texts(deep, cleaned, SENT) is not deep
    assert hidden_in_names(deep, SENT) is None
