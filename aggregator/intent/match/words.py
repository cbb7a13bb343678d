"""The vocabulary of calls, refusals and questions: sections of `data/intent.txt`, as sets and as parts of patterns."""

import re
from functools import cache
from importlib import resources
from typing import Final

_COMMENT: Final = "#"


@cache
def word_set(section: str) -> frozenset[str]:
    """Return the words of a section."""
    return frozenset(_sections()[section])


def any_of(*sections: str) -> str:
    """Return a pattern for any phrase of these sections, longest first; Latin words match whole words only."""
    phrases = {phrase for section in sections for phrase in _sections()[section]}
    ordered = sorted(phrases, key=lambda one: (-len(one), one))
    latin = "|".join(re.escape(one).replace("'", "['’]?") for one in ordered if one[0].isascii())
    signs = "|".join(re.escape(one) for one in ordered if not one[0].isascii())
    bounded = f"(?<![a-z0-9_])(?:{latin})(?![a-z0-9_])" if latin else ""
    return f"(?:{bounded}{'|' if latin and signs else ''}{signs})"


@cache
def _sections() -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    words: list[str] = []
    text = (resources.files("aggregator.intent.match") / "intent.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("["):
            words = found.setdefault(line.strip("[]"), [])
        elif not line.startswith(_COMMENT):
            words += (word.replace("_", " ") for word in line.split())
    return {section: tuple(words) for section, words in found.items()}
