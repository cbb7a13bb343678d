"""The texts that the models read; one was trained on Latin letters alone."""

import hashlib
import re
from typing import Final

from aggregator.catalog.search.terms.words import split
from aggregator.domain.records import ToolRecord

# Characters of a description that are read: further on descriptions resemble each other.
_READ: Final = 200
# Characters read to detect the language of a text.
_TOLD_BY: Final = 1000
_LATIN: Final = re.compile(r"[A-Za-z\u00c0-\u024f]+")


def is_latin(text: str) -> bool:
    """Return whether a text has more words in Latin letters than letters of other scripts, such as Chinese."""
    start = text[:_TOLD_BY]
    words = len(_LATIN.findall(start))
    return words > sum(character.isalpha() for character in start if character > "\u024f")


def text_of(tool: ToolRecord, *, latin: bool) -> str:
    """Return the text of a tool for a model: its server, its name in words, the beginning of its description.

    With `latin`, the description is left out if it is in other letters.
    """
    said = tool.definition.get("description")
    text = said[:_READ] if isinstance(said, str) and (not latin or is_latin(said[:_READ])) else ""
    return f"{tool.prefix} {' '.join(split(tool.own_name))}. {text}"


def digest_of(text: str) -> str:
    """Return the digest that the vector of a text is kept by."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
