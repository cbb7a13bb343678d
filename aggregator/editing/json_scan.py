"""The offsets of values in a JSON text with comments, without objects for what is not asked for.

Law: the text has been parsed before; time is linear in its length.
"""

import json
import re
from typing import Final

from aggregator.editing.brackets import Bracketed, Member

_STRING: Final = r'"(?:[^"\\\n]|\\.)*+"'
_COMMENT: Final = r"//[^\r\n]*|/\*.*?\*/"
_TOKEN: Final = re.compile(
    rf'(?s)(?P<text>{_STRING})|(?P<comment>{_COMMENT})|(?P<mark>[{{}}\[\],:])|[^\s"/{{}}\[\],:]+'
)
_NESTED: Final = re.compile(rf"(?s){_STRING}|{_COMMENT}|[{{}}\[\]]")
# Only where no text in quotes is.
COMMENT: Final = re.compile(rf"(?s){_COMMENT}")
# The last choice is what none of the others ends: it stops the search, which is linear for that.
_PLAIN: Final = re.compile(rf'(?s)(?P<text>{_STRING})|(?P<comment>{_COMMENT})|(?P<open>"|/)')
# A text that is not closed is matched to the end of its line: else each quote in it would be tried.
_TRAILING: Final = re.compile(rf"(?s)(?P<text>{_STRING}?)|(?P<comma>,)(?=\s*+[}}\]])")


def without_comments(text: str) -> str:
    """Return a text with comments and trailing commas blanked; every other character keeps its line and column."""
    parts: list[str] = []
    at = 0
    for found in _PLAIN.finditer(text):
        if found["open"]:
            break
        if found["comment"]:
            parts += text[at : found.start()], re.sub(r"[^\n]", " ", found["comment"])
            at = found.end()
    plain = "".join((*parts, text[at:]))
    return _TRAILING.sub(lambda found: found["text"] or " ", plain)


def root_start(text: str) -> int | None:
    """Return the offset of the first bracket; None if the text has blanks and comments only."""
    for found in _TOKEN.finditer(text):
        if found.lastgroup != "comment":
            return found.start()
    return None


def scan(text: str, start: int) -> Bracketed:
    """Return the container whose opening bracket stands at an offset."""
    members: list[Member] = []
    is_list, at = text[start] == "[", start + 1
    key: tuple[str | int, int, int] | None = None
    value: tuple[int, int] | None = None
    while True:
        found = _TOKEN.search(text, at)
        assert found is not None, "the text was parsed"
        at, piece = found.end(), found[0]
        if found.lastgroup == "comment" or piece == ":":
            continue
        if piece in (",", "}", "]"):
            if value is not None:
                named = key or (len(members), value[0], value[0])
                members.append(Member(*named, *value, found.start() if piece == "," else None))
            key = value = None
            if piece != ",":
                return Bracketed(start, at, is_list, tuple(members))
        elif not is_list and key is None:
            key = (_decoded(piece), found.start(), at)
        else:
            at = _closed(text, at) if piece in ("{", "[") else at
            value = (found.start(), at)


def _decoded(piece: str) -> str:
    decoded: str = json.loads(piece)
    return decoded


def _closed(text: str, at: int) -> int:
    """Return the offset behind the bracket that closes the one before an offset."""
    depth = 1
    for found in _NESTED.finditer(text, at):
        piece = found[0]
        if piece in ("{", "["):
            depth += 1
        elif piece in ("}", "]"):
            depth -= 1
            if not depth:
                return found.end()
    raise AssertionError("the text was parsed")
