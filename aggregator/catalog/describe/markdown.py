"""Turn upstream prose into plain text, without its Markdown, tags and invisible characters.

Law: every pattern is linear or bounded; text beyond `READ` characters is not read.
"""

import html
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

READ: Final = 6_000

Kind = Literal["text", "item", "heading"]

_KEPT_SYMBOLS: Final = frozenset("°©®™№℃℉")
# Invisible though their category does not say so: fillers, joiners, variation selectors.
_BLANK: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_ASCII_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")

_COMMENT: Final = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_FENCE: Final = re.compile(r"^[ \t]*(```+|~~~+)[^\n]*\n.*?(?:^[ \t]*\1[^\n]*$|\Z)", re.DOTALL | re.MULTILINE)
_TAG: Final = re.compile(r"<(/?)([A-Za-z][\w:.-]{0,60})((?:\s[^<>]{0,200})?)/?>")
_INLINE_TAGS: Final = frozenset({"a", "b", "i", "u", "s", "em", "strong", "code", "kbd", "span", "sub", "sup", "small"})
_BREAKING_TAGS: Final = frozenset({"br", "p", "hr", "li", "ul", "ol", "div", "td", "tr", "h1", "h2", "h3", "h4", "pre"})
_SHOWN_ELSEWHERE: Final = frozenset({"example", "examples", "schema", "json", "pre", "script", "style"})

_HEADING: Final = re.compile(r"#{1,6}\s+(.*?)[\s#]*$")
_UNDERLINE: Final = re.compile(r"(?:=|-|\*|_|—|─|═){3,}$")
_ITEM: Final = re.compile(r"(?:[-*+•·‣▪–—]|\(?\d{1,3}[.)、]|[(（]\d{1,3}[)）])\s+|[•·‣▪]")
_BOLD_LINE: Final = re.compile(r"(\*\*|__)([^*\n]{1,200}?)[:：]?\1[:：]?$")
_LABEL_LINE: Final = re.compile(r"[^.!?。！？]{1,40}[:：]$")

_IMAGE: Final = re.compile(r"!\[[^\[\]\n]{0,200}\]\([^()\n]{0,500}\)")
_LINK: Final = re.compile(r"\[([^\[\]\n]{0,200})\](?:\([^()\n]{0,500}\)|\[[^\[\]\n]{0,80}\])")
_EMPHASIS: Final = re.compile(r"(?<![\w*])(\*{1,3})(?=[^\s*])([^*\n]{1,300})(?<=[^\s*])\1(?![\w*])")
# `__init__` is a name: only text with a space in it is emphasised with underscores.
_UNDERSCORED: Final = re.compile(r"(?<!\w)(_{1,3})(?=[^\s_])([^_\n]{1,150}\s[^_\n]{1,150})(?<=[^\s_])\1(?!\w)")
_MARKS: Final = re.compile(r"\*{2,}|~~|`+|(?:(?<=\s)|^)#{1,6}(?=\s)")
_CJK: Final = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uff65\U00020000-\U0003ffff"
_CJK_GAP: Final = re.compile(rf"(?<=[{_CJK}])\s+(?=[{_CJK}])")


@dataclass(frozen=True, slots=True)
class Block:
    """One paragraph, list item or heading, in one line."""

    kind: Kind
    text: str


def visible(text: str) -> str:
    """Return one line without control, bidi, zero-width and private characters, lone surrogates and emoji."""
    if not text.isascii():
        text = "".join(map(_visible_character, text))
    elif not text.isprintable():
        text = _ASCII_CONTROL.sub(" ", text)
    return " ".join(text.split())


def columns(text: str) -> int:
    """Return the width in a terminal: wide characters count as two, all others as one."""
    return len(text) if text.isascii() else sum(map(width, text))


@lru_cache(maxsize=4096)
def width(character: str) -> int:
    """Return the columns of one character."""
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def is_cjk(character: str) -> bool:
    """Tell whether a character is of a script whose words are written without spaces."""
    return character >= "\u2e80" and width(character) == 2


def inline(text: str) -> str:
    """Return one line of text without the marks of Markdown."""
    # Most texts have no mark of a kind, and looking for a character takes a tenth of what looking for a pattern does.
    if "[" in text:
        text = _LINK.sub(r"\1", _IMAGE.sub("", text))
    if "_" in text:
        text = _UNDERSCORED.sub(r"\2", text)
    if "*" in text:
        text = _EMPHASIS.sub(r"\2", text)
    if "`" in text or "*" in text or "#" in text or "~" in text:
        text = _MARKS.sub("", text)
    text = visible(text)
    return text if text.isascii() else visible(_CJK_GAP.sub("", text))


def blocks(text: str) -> Iterator[Block]:
    """Yield the blocks of a description that hold words; code, tables, rules and comments are left out."""
    text = html.unescape(text[:READ])
    text = "\n".join(map(visible, text.splitlines()))
    if "<!--" in text:
        text = _COMMENT.sub(" ", text)
    if "```" in text or "~~~" in text:
        text = _FENCE.sub("\n\n", text)
    text = _untagged(text)
    kind: Kind = "text"
    paragraph: list[str] = []
    for line in [*(line.strip() for line in text.split("\n")), ""]:
        line = line.lstrip("> ") if line.startswith(">") else line
        if _UNDERLINE.match(line) and kind == "text" and len(paragraph) == 1:
            yield from _block("heading", paragraph.pop())
            continue
        begins = _begins(line)
        if line and begins is None and not line.startswith("|") and not _UNDERLINE.match(line):
            paragraph.append(line)
            continue
        if paragraph:
            yield from _block(kind, " ".join(paragraph))
        kind, paragraph = "text", []
        if begins is not None and begins[0] == "item":
            # Lines that follow belong to the item.
            kind, paragraph = "item", [begins[1]]
        elif begins is not None:
            yield from _block(*begins)


def _begins(line: str) -> tuple[Kind, str] | None:
    """Return the block that a line is by itself; None for a line of a paragraph."""
    if found := _HEADING.match(line):
        return "heading", found[1]
    if found := _BOLD_LINE.match(line):
        return "heading", found[2]
    if found := _ITEM.match(line):
        return "item", line[found.end() :]
    if _LABEL_LINE.match(line):
        return "heading", line
    return None


def _block(kind: Kind, text: str) -> Iterator[Block]:
    text = inline(text)
    if any(map(str.isalnum, text)):
        yield Block(kind, text)


def _untagged(text: str) -> str:
    """Take the tags out of a text.

    A tag that is closed somewhere ends a block, `<placeholder>` becomes its word; examples in tags are dropped.
    """
    if "<" not in text:
        return text
    closed = {found[2].lower() for found in _TAG.finditer(text) if found[1]}
    parts: list[str] = []
    at = 0
    skipped: str | None = None
    for found in _TAG.finditer(text):
        name = found[2].lower()
        if skipped is None:
            parts.append(text[at : found.start()])
        at = found.end()
        if skipped is not None:
            skipped = None if found[1] and name == skipped else skipped
        elif not found[1] and name in _SHOWN_ELSEWHERE and name in closed:
            skipped = name
        elif name in _INLINE_TAGS and (name in closed or found[3]):
            continue
        elif name in closed or name in _BREAKING_TAGS or found[3]:
            parts.append("\n\n")
        else:
            parts.append(found[2])
    return "".join(parts) + ("" if skipped else text[at:])


@lru_cache(maxsize=8192)
def _visible_character(character: str) -> str:
    if character in _KEPT_SYMBOLS:
        return character
    if character in _BLANK or "\ufe00" <= character <= "\ufe0f" or character >= "\U000e0000":
        return ""
    category = unicodedata.category(character)
    if category in ("Cc", "Zs", "Zl", "Zp"):
        return " "
    if category[0] == "C" or category == "So" or (category == "Sk" and character >= "\U0001f000"):
        return ""
    return character
