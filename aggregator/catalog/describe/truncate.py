"""Truncate text to a number of columns: at a clause if that leaves most of it, else between two words."""

import re
from typing import Final

from aggregator.catalog.describe.markdown import columns, is_cjk, width

MARK: Final = "…"

_CLAUSE: Final = re.compile(r"[,;:](?=\s)|\s[-–—](?=\s)|—|[，；：。！？]|[.!?](?=\s)|\s(?=[(（])|(?=（)")
_ASIDE: Final = re.compile(r"\s*(?:\([^()]{0,400}\)|（[^（）]{0,400}）)")
# Signs left at the start when a leading aside is removed; they would read as Markdown there.
_LEADING: Final = re.compile(r"[\s#>|*-]+")
_DANGLING: Final = re.compile(
    r"(?:\s(?:an?|the|and|or|of|in|on|at|to|for|from|with|by|as|is|are|be|that|which|who|if|when|while|where|using|via"
    r"|into|its?|your|their|this|these|any|all|one|more|such|like|including|based|e\.g\.?|i\.e\.?|not|but|can|will"
    r"|about|associated|over|before|after|between|within|through|per|than|then|so|also|other|each|given|specific|specified)|[\s,;:–—/&(\[{\"'“‘-])+$",
    re.IGNORECASE,
)
# Chinese is cut before one of these signs rather than between any two.
_JOINTS: Final = frozenset("的和与或及并等在对从到以将把被为是、")
_JOINT_REACH: Final = 6
# A clause that fills less than this share of the space says too little.
_CLAUSE_SHARE: Final = 0.35
_COMMA_SHARE: Final = 0.55

# Filler words and their shorter forms; replaced before any text is dropped.
_FILLERS: Final = (
    (
        re.compile(r"\b(?:detailed|comprehensive|complete|full) (?:information|details)(?= (?:about|on|for|of)\b)"),
        "details",
    ),
    (re.compile(r"\ban? (?:specific|specified|given|particular|single|existing) (?=[aeiou])", re.IGNORECASE), "an "),
    (re.compile(r"\b(an?|the) (?:specific|specified|given|particular|single|existing) ", re.IGNORECASE), r"\1 "),
    (re.compile(r"\b(?:in order to|with the ability to) ", re.IGNORECASE), "to "),
)


def without_asides(text: str) -> str:
    """Return the text without its parentheses, or the text itself if there is nothing else."""
    short = _ASIDE.sub("", text).strip()
    if short and not text.startswith(short[0]):
        short = _LEADING.sub("", short, 1) if _LEADING.match(short) else short
    return short or text


def truncate(text: str, limit: int) -> str:
    """Return at most `limit` columns of `text`: all of it, or a clause of it, or words and `…`."""
    if columns(text) <= limit:
        return text
    short = without_asides(text)
    for filler, instead in _FILLERS:
        short = filler.sub(instead, short)
    if columns(short) <= limit:
        return short
    end = _characters_within(short, limit)
    stop = None
    for found in _CLAUSE.finditer(short, 0, min(end + 2, len(short))):
        used = columns(short[: found.start()])
        # A list that is cut must not look complete: it takes a mark.
        at_comma = found[0] in ",，"
        if limit * (_COMMA_SHARE if at_comma else _CLAUSE_SHARE) <= used <= limit - at_comma:
            stop = found
    if stop is not None:
        clause = _without_open_parenthesis(short[: stop.start()].rstrip())
        return f"{clause}{MARK}" if stop[0] in ",，" else clause
    end = _characters_within(short, limit - 1)
    words = short[: _boundary(short, end)].rstrip()
    words = _without_open_parenthesis(_DANGLING.sub("", words) or words)
    return f"{words or short[:end]}{MARK}" if limit > 0 else ""


def _characters_within(text: str, limit: int) -> int:
    """Return how many characters fit `limit` columns."""
    if text.isascii():
        return min(max(limit, 0), len(text))
    used = 0
    for at, character in enumerate(text):
        used += width(character)
        if used > limit:
            return at
    return len(text)


def _boundary(text: str, end: int) -> int:
    """Return the last place at or before `end` that lies between two words; `end` if a single word fills all of it."""
    at = end
    while at > 0 and not _between(text, at):
        at -= 1
    while at > 0 and text[at - 1].isspace():
        at -= 1
    if at == 0:
        return end
    if at < len(text) and is_cjk(text[at - 1]):
        nearer = (back for back in range(at, max(at - _JOINT_REACH, at // 2), -1) if text[back] in _JOINTS)
        return next(nearer, at)
    return at


def _between(text: str, at: int) -> bool:
    if at >= len(text):
        return True
    before, after = text[at - 1], text[at]
    return (
        before.isspace() or after.isspace() or ((is_cjk(before) or is_cjk(after)) and after not in "，。、；：）！？")
    )


def _without_open_parenthesis(text: str) -> str:
    """Drop a parenthesis that is opened in the text and not closed."""
    for left, right in ("()", "（）", "[]", "{}"):
        opened = text.rfind(left)
        if opened > 0 and right not in text[opened:]:
            text = text[:opened].rstrip()
    return text
