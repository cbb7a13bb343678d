"""Texts of others that are cut where no redactor is at hand.

Rule: who redacts such a text later recognises whole secrets only, so a cut leaves no half of one.
"""

import re
from typing import Any, Final

# What may be the first part of a secret.
_PART: Final = re.compile(r"[\w.~+/=%-]+\Z")


def cut_between_words(text: str, most: int) -> str:
    """Return at most `most` characters from the beginning of a text, and a mark if it goes on: the word at the cut is
    dropped.
    """
    return text if len(text) <= most else f"{_PART.sub('', text[: most - 1])}…"


def quoted(value: Any, most: int = 200) -> str:
    """Return the `repr` of a value in at most `most` characters, cut between words."""
    return cut_between_words(repr(value), most)
