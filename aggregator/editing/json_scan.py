"""Where the values of a JSON text with comments stand, found without making objects of what is not asked for.

Law: the text has been parsed before; time is linear in its length.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

_STRING: Final = r'"(?:[^"\\\n]|\\.)*+"'
_COMMENT: Final = r"//[^\n]*|/\*.*?\*/"
_TOKEN: Final = re.compile(
    rf'(?s)(?P<text>{_STRING})|(?P<comment>{_COMMENT})|(?P<mark>[{{}}\[\],:])|[^\s"/{{}}\[\],:]+'
)
_NESTED: Final = re.compile(rf"(?s){_STRING}|{_COMMENT}|[{{}}\[\]]")
_COMMENTS: Final = re.compile(rf"(?s)(?:{_STRING})|(?P<comment>{_COMMENT})")
# The last choice is what none of the others ends: it stops the search, which is linear for that.
_PLAIN: Final = re.compile(rf'(?s)(?P<text>{_STRING})|(?P<comment>{_COMMENT})|(?P<open>"|/)')
_TRAILING: Final = re.compile(rf"(?s)(?P<text>{_STRING})|(?P<comma>,)(?=\s*[}}\]])")


class JsonMember(NamedTuple):
    """One value of a container, with the offsets of its key (in a list: of itself) and of the comma after it."""

    key: str | int
    start: int
    key_end: int
    value: int
    end: int
    comma: int | None


@dataclass(frozen=True, slots=True)
class JsonContainer:
    """An object or a list in a text: from its opening bracket to behind its closing one."""

    start: int
    end: int
    is_list: bool
    members: tuple[JsonMember, ...]

    def find(self, key: str | int) -> int | None:
        """Return the index of the member that counts, of a repeated key the last."""
        found = (at for at in range(len(self.members) - 1, -1, -1) if self.members[at].key == key)
        return next(found, None)

    def gap(self, at: int) -> tuple[int, int]:
        """Return from where to where blanks and comments stand before a member."""
        before = self.members[at - 1].comma if at else self.start
        assert before is not None, "only the last member may have no comma"
        return before + 1, self.members[at].start


def without_comments(text: str) -> str:
    """Return a text with comments and trailing commas blanked; every other character keeps its line and column."""
    parts, at = [], 0
    for found in _PLAIN.finditer(text):
        if found["open"]:
            break
        if found["comment"]:
            parts += text[at : found.start()], re.sub(r"[^\n]", " ", found["comment"])
            at = found.end()
    plain = "".join((*parts, text[at:]))
    return _TRAILING.sub(lambda found: found["text"] or " ", plain)


def comments(text: str, start: int = 0, end: int | None = None) -> Iterator[tuple[int, int]]:
    """Yield from where to where each comment stands."""
    for found in _COMMENTS.finditer(text, start, len(text) if end is None else end):
        if found["comment"]:
            yield found.span()


def root_start(text: str) -> int | None:
    """Return the offset of the first bracket; None where the text has blanks and comments only."""
    for found in _TOKEN.finditer(text.removeprefix("\ufeff")):
        if found.lastgroup != "comment":
            return found.start() + text.startswith("\ufeff")
    return None


def scan(text: str, start: int) -> JsonContainer:
    """Return the container whose opening bracket stands at an offset."""
    members: list[JsonMember] = []
    is_list, at = text[start] == "[", start + 1
    key: tuple[str | int, int, int] | None = None
    value: tuple[int, int] | None = None
    while True:
        found = _TOKEN.search(text, at)
        assert found is not None, "the text was parsed"
        at, token = found.end(), found[0]
        if found.lastgroup == "comment" or token == ":":
            continue
        if token in (",", "}", "]"):
            if value is not None:
                named = key or (len(members), value[0], value[0])
                members.append(JsonMember(*named, *value, found.start() if token == "," else None))
            key = value = None
            if token != ",":
                return JsonContainer(start, at, is_list, tuple(members))
        elif not is_list and key is None:
            key = (_decoded(token), found.start(), at)
        else:
            at = _closed(text, at) if token in ("{", "[") else at
            value = (found.start(), at)


def _decoded(token: str) -> str:
    decoded: str = json.loads(token)
    return decoded


def _closed(text: str, at: int) -> int:
    """Return the offset behind the bracket that closes the one before an offset."""
    depth = 1
    for found in _NESTED.finditer(text, at):
        token = found[0]
        if token in ("{", "["):
            depth += 1
        elif token in ("}", "]"):
            depth -= 1
            if not depth:
                return found.end()
    raise AssertionError("the text was parsed")
