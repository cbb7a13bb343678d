"""Mixed Chinese and Latin text as search tokens, full-text queries and highlighted snippets.

Law: `fold` keeps the length, so a position in the folded text is a position in the text as written.
"""

import re
import unicodedata
from collections.abc import Iterable
from itertools import pairwise

_HAN = "\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_TOKEN = re.compile(f"[{_HAN}]|[^\\W_{_HAN}]+")
_RUN = re.compile(r"[^\W_]+")


def fold(text: str) -> str:
    """Lower case and half width, one character for one."""
    folded = (unicodedata.normalize("NFKC", char).lower() for char in text)
    return "".join(new if len(new) == 1 else old for new, old in zip(folded, text, strict=True))


def tokens(text: str) -> list[str]:
    """Each Chinese character alone, each Latin word or number whole: a phrase of them is a substring match."""
    return _TOKEN.findall(fold(text))


def runs(query: str) -> list[str]:
    """The unbroken pieces of a query, folded, each once, in order."""
    return list(dict.fromkeys(_RUN.findall(fold(query))))


def pairs(pieces: Iterable[str]) -> list[str]:
    """Every two neighbouring tokens of each piece; a piece of one token stays itself."""
    found: dict[str, None] = {}
    for piece in pieces:
        parts = tokens(piece)
        for first, second in pairwise(parts):
            found[first + second if _is_han(first) and _is_han(second) else f"{first} {second}"] = None
        if len(parts) == 1:
            found[parts[0]] = None
    return list(found)


def phrases(pieces: Iterable[str], joiner: str) -> str:
    """An FTS5 query: each piece a phrase, joined by `AND` or `OR`. Tokens hold no quotes, so nothing can escape."""
    return f" {joiner} ".join(f'"{" ".join(tokens(piece))}"' for piece in pieces)


def snippet(text: str, pieces: list[str], width: int = 60) -> str:
    """Return at most `width` characters of `text` round the densest matches, each match in 【】."""
    flat = text.replace("\n", " ")
    spans = _spans(fold(flat), pieces) or _spans(fold(flat), pairs(pieces))
    if not spans:
        return flat[:width] + ("…" if len(flat) > width else "")
    anchor = max(spans, key=lambda span: sum(span[0] <= start and end <= span[0] + width for start, end in spans))
    begin = max(0, min(anchor[0] - 8, len(flat) - width))
    stop = min(len(flat), begin + width)
    parts, at = ["…" if begin else ""], begin
    for start, end in spans:
        if start >= at and end <= stop:
            parts += [flat[at:start], "【", flat[start:end], "】"]
            at = end
    return "".join([*parts, flat[at:stop], "…" if stop < len(flat) else ""])


def _spans(folded: str, pieces: Iterable[str]) -> list[tuple[int, int]]:
    """Return the positions of the pieces in order, overlapping ones merged."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(m.span() for piece in pieces for m in re.finditer(re.escape(piece), folded)):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _is_han(token: str) -> bool:
    return re.match(f"[{_HAN}]", token) is not None
