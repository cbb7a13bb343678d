"""The beginning of a long text, cut in the middle of a secret."""

from hypothesis import given
from hypothesis import strategies as st

from aggregator.domain.text.cut import cut_between_words
from aggregator.redaction.beginning import beginning
from aggregator.redaction.redactor import Redactor

SECRET = "c4nary-in-the-mine-88"
REDACT = Redactor([SECRET])


@given(st.lists(st.sampled_from([SECRET, "x", "words of some length ", "y" * 40]), max_size=40), st.integers(30, 200))
def test_no_half_of_a_secret_is_shown(parts: list[str], most: int) -> None:
    """Also where redaction made the text so short that what stands before the cut would fit."""
    shown = beginning("".join(parts), REDACT, most)
    assert len(shown) <= most
    assert SECRET[:4] not in shown


def test_a_short_text_is_shown_whole() -> None:
    assert beginning(f"a {SECRET} b", REDACT, 30) == "a [redacted] b"
    assert beginning("x" * 60, REDACT, 30) == "x" * 30


@given(st.lists(st.sampled_from([SECRET, "x ", "some words, ", "y" * 40 + "/"]), max_size=40), st.integers(30, 200))
def test_texts_cut_between_words_hold_no_half_of_a_secret(parts: list[str], most: int) -> None:
    """A redactor that comes later finds those that are left, since they are whole."""
    text = " ".join(parts)
    shown = cut_between_words(text, most)
    assert len(shown) <= most
    assert SECRET[:4] not in REDACT(shown)
    assert shown == text if len(text) <= most else shown.endswith("…")
