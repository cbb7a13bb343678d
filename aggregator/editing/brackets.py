"""Edits of objects and lists in brackets, of any format: which pieces of a text to replace."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

_BLANK: Final = " \t\r\n"
Piece = tuple[int, int, str]


class Member(NamedTuple):
    """One value in brackets, with the offsets of its key (in a list: of itself) and of the comma after it."""

    key: str | int
    start: int
    key_end: int
    value: int
    end: int
    comma: int | None


@dataclass(frozen=True, slots=True)
class Bracketed:
    """An object or a list in a text: from its opening bracket to the character after its closing one."""

    start: int
    end: int
    is_list: bool
    members: tuple[Member, ...]

    def find(self, key: str | int) -> int | None:
        """Return the index of the member that counts, of a repeated key the last."""
        found = (at for at in range(len(self.members) - 1, -1, -1) if self.members[at].key == key)
        return next(found, None)

    def gap(self, at: int) -> int:
        """Return the offset from which only blanks and comments stand before a member."""
        comma = self.members[at - 1].comma if at else self.start
        assert comma is not None, "only the last member may have no comma"
        return comma + 1


class BracketStyle(Protocol):
    """The spacing and the words of a format, as one text has them; `colon` and `comma` come with their blanks.

    `comment` finds a comment where no text in quotes can be, `line_comment` begins one that a line end closes.
    """

    @property
    def unit(self) -> str: ...
    @property
    def newline(self) -> str: ...
    @property
    def colon(self) -> str: ...
    @property
    def comma(self) -> str: ...
    @property
    def several_lines(self) -> bool: ...
    @property
    def comment(self) -> re.Pattern[str]: ...
    @property
    def line_comment(self) -> str: ...

    def key(self, key: str) -> str:
        """Return a key as text."""
        ...

    def written(self, value: object, indent: str, *, one_line: bool) -> str:
        """Return a value as text; `indent` is that of the line it begins in."""
        ...


def spliced(text: str, pieces: Iterable[Piece]) -> str:
    """Return a text with pieces of it replaced."""
    parts: list[str] = []
    at = 0
    for start, end, new in sorted(pieces):
        parts += text[at:start], new
        at = end
    return "".join((*parts, text[at:]))


def indentation(text: str, at: int) -> str:
    """Return the blanks at the start of the line of an offset."""
    line = end = text.rfind("\n", 0, at) + 1
    while end < at and text[end] in " \t":
        end += 1
    return text[line:end]


def insertion(text: str, container: Bracketed, key: str | int, value: object, style: BracketStyle) -> list[Piece]:
    """Return the pieces that add a value after the others of a container."""
    named = style.key(key) + style.colon if isinstance(key, str) else ""
    if not container.members:
        return _first(text, container, named, value, style)
    last = container.members[-1]
    gap = text[container.gap(len(container.members) - 1) : last.start]
    indent = indentation(text, last.start)
    if "\n" not in gap:
        one_line = "\n" not in text[container.start : container.end]
        written = named + style.written(value, indentation(text, container.start), one_line=one_line)
        if last.comma is None:
            return [(last.end, last.end, style.comma + written)]
        return [(last.comma + 1, last.comma + 1, f"{style.comma[1:]}{written},")]
    written = style.newline + indent + named + style.written(value, indent, one_line=False)
    end = last.end if last.comma is None else last.comma + 1
    place = _behind_comments(text, end, container.end - 1, style)
    if last.comma is not None:
        return [(place, place, f"{written},")]
    return [(last.end, last.end, ","), (place, place, written)] if place > last.end else [(end, end, f",{written}")]


def _first(text: str, container: Bracketed, named: str, value: object, style: BracketStyle) -> list[Piece]:
    """Return the piece that adds the first value of a container."""
    inner = container.start + 1, container.end - 1
    base = indentation(text, container.start)
    ends = [found.end() for found in style.comment.finditer(text, *inner)]
    several = "\n" in text[slice(*inner)] or (not container.is_list and style.several_lines)
    if not several and not ends:
        return [(*inner, named + style.written(value, base, one_line=not style.several_lines))]
    indent = base + style.unit
    written = style.newline + indent + named + style.written(value, indent, one_line=False)
    if not ends:
        return [(*inner, written + style.newline + base)]
    closing = "" if "\n" in text[ends[-1] : inner[1]] else style.newline + base
    return [(ends[-1], ends[-1], written + closing)]


def _behind_comments(text: str, start: int, end: int, style: BracketStyle) -> int:
    """Return the offset behind the comments that begin on the same line."""
    place = start
    for found in style.comment.finditer(text, start, end):
        if "\n" in text[place : found.start()]:
            break
        place = found.end()
    return place


def removal(text: str, container: Bracketed, at: int, style: BracketStyle) -> list[Piece]:
    """Return the pieces that take a member out, with the comma that goes with it."""
    member = container.members[at]
    inner = container.start + 1, container.end - 1
    if len(container.members) == 1 and not any(
        style.comment.search(text, *span) for span in ((inner[0], member.start), (member.end, inner[1]))
    ):
        return [(*inner, "")]
    pieces: list[Piece] = []
    start, end = member.start, member.end
    if member.comma is None:
        before = container.members[at - 1].comma if at else None
        if before is not None:
            pieces.append((before, before + 1, ""))
    elif text[end : member.comma].strip(_BLANK):
        pieces.append((member.comma, member.comma + 1, ""))
    else:
        end = member.comma + 1
    pieces.append((*_with_blanks(text, container, at, (start, end), style), ""))
    return pieces


def _with_blanks(
    text: str, container: Bracketed, at: int, cut: tuple[int, int], style: BracketStyle
) -> tuple[int, int]:
    """Return the piece to cut with the blanks that would be left over."""
    (start, end), gap = cut, container.gap(at)
    line = max(text.rfind("\n", 0, start) + 1, gap)
    starts_line = line > gap and not text[line:start].strip(_BLANK)
    rest = end
    while text[rest] in " \t\r":
        rest += 1
    if text[rest] == "\n" and starts_line:
        return line, rest + 1
    if rest == container.end - 1 or (text[rest] == "\n" and not starts_line):
        # Up to the value or comment before it; a comment to the end of its line must keep that end.
        keep = gap
        for found in style.comment.finditer(text, gap, start):
            keep = found.end()
            if found[0].startswith(style.line_comment):
                keep = text.index("\n", keep) + 1
        return min(keep, start), end
    if at == len(container.members) - 1:
        return start - len(text[gap:start]) + len(text[gap:start].rstrip(" \t")), end
    return start, rest
