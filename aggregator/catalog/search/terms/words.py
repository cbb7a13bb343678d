"""Split text and identifiers into terms: stems of Latin words, pairs and single signs of Chinese.

Law: a text yields the same terms for every agent and in every index.
"""

import re
import unicodedata
from functools import lru_cache
from itertools import chain
from typing import Final

from aggregator.catalog.search.terms.stem import stem

# Scripts written without spaces: kana, Han (with the extensions), Hangul. They are read in overlapping pairs.
_UNSPACED: Final = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\U00020000-\U0003134f"
_CHUNK: Final = re.compile(rf"[{_UNSPACED}]+|(?:(?![{_UNSPACED}_])\w)+")
_IS_UNSPACED: Final = re.compile(rf"[{_UNSPACED}]")
_ASCII_CHUNK: Final = re.compile(r"[A-Za-z0-9]+")
_PARTS: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[^A-Za-z0-9]+")
_ACRONYMS: Final = re.compile(r"([A-Z]{2,})s")
_ACCENTED: Final = re.compile(r"[\u00c0-\u024f]")
_POSSESSIVE: Final = re.compile(r"(?<=\w)['’]s\b")
_CONTRACTION: Final = re.compile(r"(?<=\w)['’](?=\w)")


def terms(text: str) -> list[str]:
    """Return all terms of `text` in its order; an identifier gives its parts and the whole."""
    found = chunks(text)
    if text.isascii():
        return list(chain.from_iterable(map(_latin, found)))
    return [term for chunk in found for term in (signs(chunk) if unspaced(chunk) else _latin(chunk))]


def chunks(text: str) -> list[str]:
    """Return runs of one script, in compatibility form and without accents.

    Case is kept, since it splits identifiers.
    """
    if not text.isascii():
        text = _plain_letters(unicodedata.normalize("NFKC", text))
    if "'" in text or "’" in text:
        text = _CONTRACTION.sub("", _POSSESSIVE.sub("", text))
    return (_ASCII_CHUNK if text.isascii() else _CHUNK).findall(text)


def split(identifier: str) -> list[str]:
    """Return the words of an identifier in lower case: getUserByID, get-user-by-id -> get, user, by, id."""
    return [part.lower() for chunk in chunks(identifier) for part in _PARTS.findall(_singular(chunk))]


def folded(name: str) -> str:
    """Return the letters, digits and signs of a name in lower case: equal for all its spellings."""
    return "".join(chunks(name)).lower()


def unspaced(chunk: str) -> bool:
    """Tell whether a chunk is of a script without spaces."""
    return _IS_UNSPACED.match(chunk) is not None


def signs(run: str) -> list[str]:
    """Return a run of Chinese as overlapping pairs, and every single character."""
    return [run[at : at + 2] for at in range(len(run) - 1)] + list(run)


@lru_cache(maxsize=65536)
def _latin(chunk: str) -> tuple[str, ...]:
    if chunk.islower() and chunk.isascii() and chunk.isalpha():
        return (stem(chunk),)
    chunk = _singular(chunk)
    parts = [part.lower() for part in _PARTS.findall(chunk)]
    if len(parts) == 1:
        return (stem(parts[0]),)
    # A letter alone says nothing beside the whole: o, auth of OAuth.
    return (*(stem(part) for part in parts if len(part) > 1), stem(chunk.lower()))


def _singular(chunk: str) -> str:
    """Strip the s of plural acronyms: IDs, PRs."""
    match = _ACRONYMS.fullmatch(chunk)
    return match[1] if match else chunk


def _plain_letters(text: str) -> str:
    """Return the text without the accents of Latin letters; the marks of other scripts belong to them."""
    return _ACCENTED.sub(lambda match: unicodedata.normalize("NFD", match[0])[0], text)
