"""Texts of others that are cut where no redactor is at hand.

Rule: who redacts such a text later recognises whole secrets only, so a cut leaves no half of one.
"""

import re
from typing import Any, Final

# Characters that a secret may have, matched from the end of a text backwards: a search for the end is quadratic.
_PART: Final = re.compile(r"[\w.~+/=%-]*")


def cut_between_words(text: str, most: int) -> str:
    """Return at most `most` characters from the beginning of a text, and a mark if it goes on: the word at the cut is
    dropped.
    """
    if len(text) <= most:
        return text
    backwards = text[: most - 1][::-1]
    part = _PART.match(backwards)
    return f"{backwards[part.end() if part else 0 :][::-1]}…"


def quoted(value: Any, most: int = 200) -> str:
    """Return the `repr` of a value in at most `most` characters, cut between words."""
    return cut_between_words(repr(value), most)
