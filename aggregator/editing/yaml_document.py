"""YAML edited by replacing pieces of its text.

New values are written in block style by lines, in flow style in brackets, and in quotes if they need them.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from aggregator.editing.brackets import Bracketed, Member, Piece, insertion, removal
from aggregator.editing.document import Path
from aggregator.editing.errors import EditError
from aggregator.editing.text_document import TextDocument, nested
from aggregator.editing.yaml_nodes import YamlNode
from aggregator.editing.yaml_scan import EveryYamlValue, YamlValues, parse, scalar

_COMMENT_LINE: Final = re.compile(r"( *)#[^\n]*(?:\n|\Z)")
# Blanks and comments.
_NO_VALUE: Final = re.compile(r"(?:[ \t\r\n]|(?<!\S)#[^\n]*)*")
_PLAIN: Final = re.compile(r"[A-Za-z_/][A-Za-z0-9_./@+-]*(?: [A-Za-z0-9_./@+-]+)*")
# Texts that YAML 1.1 reads as something else.
_OTHER_WORDS: Final = re.compile(r"(?i)y|n|yes|no|on|off|\.?nan|\.?inf")
_UNPRINTABLE: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class YamlStyle:
    """The spacing of YAML: `dash` is the indent of the items of a list below its key."""

    newline: str = "\n"
    unit: str = "  "
    dash: str = "  "
    colon: str = ": "
    comma: str = ", "
    several_lines: bool = False
    comment: re.Pattern[str] = re.compile(r"(?<!\S)#[^\r\n]*")
    line_comment: str = "#"

    def key(self, key: str) -> str:
        """Return a key as text."""
        return self.text(key)

    def text(self, text: str) -> str:
        """Return a text, in quotes unless every reader of YAML takes it as a text without them."""
        if _PLAIN.fullmatch(text) and scalar(text) == text and not _OTHER_WORDS.fullmatch(text):
            return text
        return _UNPRINTABLE.sub(lambda one: f"\\u{ord(one[0]):04x}", json.dumps(text, ensure_ascii=False))

    def written(self, value: object, indent: str = "", *, one_line: bool = True) -> str:
        """Return a value in flow style on one line."""
        if isinstance(value, dict):
            return "{" + ", ".join(f"{self.key(key)}: {self.written(item)}" for key, item in value.items()) + "}"
        if isinstance(value, list):
            return f"[{', '.join(map(self.written, value))}]"
        if isinstance(value, float):
            # YAML 1.1 reads a number with an exponent as a number only if it has a decimal point.
            return re.sub(r"^(-?\d+)e", r"\1.0e", json.dumps(value))
        return self.text(value) if isinstance(value, str) else json.dumps(value)

    def pair(self, key: str, value: object, indent: str) -> str:
        """Return a key and its value as lines, but for the indent of the first."""
        return f"{self.key(key)}:{self.below(value, indent)}"

    def below(self, value: object, indent: str) -> str:
        """Return a value as what follows the colon of its key, whose indent is given."""
        if not isinstance(value, dict | list) or not value:
            return f" {self.written(value)}"
        inner = indent + (self.dash if isinstance(value, list) else self.unit)
        return f"{self.newline}{inner}{self.lines(value, inner)}"

    def lines(self, value: object, indent: str) -> str:
        """Return a value in block style, but for the indent of its first line."""
        if isinstance(value, dict) and value:
            parts = [self.pair(key, item, indent) for key, item in value.items()]
        elif isinstance(value, list) and value:
            parts = [self.item(item, indent) for item in value]
        else:
            return self.written(value)
        return f"{self.newline}{indent}".join(parts)

    def item(self, value: object, indent: str) -> str:
        """Return an item of a list as lines, but for the indent of the first."""
        return f"- {self.lines(value, indent + '  ')}"


def style_of(text: str, root: YamlNode | None) -> YamlStyle:
    """Return the spacing of a text, as its first lines have it."""
    newline = "\r\n" if "\r\n" in text else "\n"
    unit, dash = None, None
    for key, value in _block_pairs(root):
        indent = value.column - key.column
        if value.kind == "mapping" and unit is None and indent > 0:
            unit = " " * indent
        if value.kind == "sequence" and dash is None:
            dash = " " * max(indent, 0)
    return YamlStyle(newline, unit or "  ", "  " if dash is None else dash)


def _block_pairs(node: YamlNode | None) -> Iterator[tuple[YamlNode, YamlNode]]:
    """Yield keys and values that are blocks."""
    for key, value in node.pairs if node else ():
        if value.block:
            yield key, value
        yield from _block_pairs(value)
    for item in node.items if node else ():
        yield from _block_pairs(item)


class YamlDocument(TextDocument):
    """A YAML text that is edited in place; new values are written in block style, except inside brackets."""

    @property
    def every_value(self) -> object:
        root = parse(self._text, self._name)
        return {} if root is None else EveryYamlValue(self._name).value(root)

    def _parsed(self, text: str) -> dict[str, Any]:
        root = parse(text, self._name)
        value = {} if root is None else YamlValues(self._name).value(root)
        if not isinstance(value, dict):
            raise EditError(f"{self._name}: expected keys and values at the root, such as `name: value`.")
        return value

    def _with(self, path: Path, value: Any) -> str:
        root = parse(self._text, self._name)
        style = style_of(self._text, root)
        if root is None:
            return self._begun(nested(path, value), style)
        node, in_brackets = root, False
        for depth, step in enumerate(path):
            at = node.find(step)
            if at is None:
                return self._spliced(self._added(node, step, nested(path[depth + 1 :], value), style, in_brackets))
            inner = node.value(at)
            null = inner.kind == "scalar" and inner.plain and scalar(inner.text) is None
            if depth + 1 == len(path) or null:
                return self._spliced([self._replaced(node, at, nested(path[depth + 1 :], value), style)])
            in_brackets, node = in_brackets or node.flow, inner
        raise AssertionError("a path has an end")

    def _without(self, path: Path) -> str:
        node, at = self._at(path)
        if node.flow:
            style = style_of(self._text, node)
            return self._spliced(removal(self._text, self._bracketed(node), at, style))
        if len(node) == 1:
            return self._spliced(self._emptied(node, path[:-1]))
        return self._spliced([self._cut(node, at)])

    def _renamed(self, path: Path, key: str) -> str:
        node, at = self._at(path)
        old = node.pairs[at][0]
        return self._spliced([(old.start, old.end, YamlStyle().key(key))])

    def _offset(self, path: Path) -> int:
        node = parse(self._text, self._name)
        offset = 0
        for step in path:
            at = node.find(step) if node is not None else None
            if node is None or at is None:
                break
            offset = node.pairs[at][0].start if node.kind == "mapping" else node.items[at].start
            node = node.value(at)
        return offset

    def _at(self, path: Path) -> tuple[YamlNode, int]:
        """Return the container of the value at a path that is there, and the index of the value in it."""
        node = parse(self._text, self._name)
        for step in path[:-1]:
            node = node and node.value(self._index(node, step))
        assert node is not None, "the value is there"
        return node, self._index(node, path[-1])

    def _index(self, node: YamlNode, step: str | int) -> int:
        at = node.find(step)
        if at is None:
            raise EditError(f"{self._name} has this value by an alias. Edit it by hand.")
        return at

    def _begun(self, value: Any, style: YamlStyle) -> str:
        before = self._text if self._text.strip() else ""
        if before and not before.endswith("\n"):
            before += style.newline
        return before + style.lines(value, "") + style.newline

    def _added(self, node: YamlNode, step: str | int, value: Any, style: YamlStyle, in_brackets: bool) -> list[Piece]:
        """Return the pieces that add a value after the others of a mapping or a sequence."""
        if node.flow:
            if in_brackets or len(node) or "#" in self._text[node.start : node.end]:
                return insertion(self._text, self._bracketed(node), step, value, style)
            return self._first_added(node, step, value, style)
        if node.kind not in ("mapping", "sequence"):
            raise EditError(f"{self._name} has an alias on the way. Edit it by hand.")
        indent = " " * self._column(node)
        written = style.pair(step, value, indent) if isinstance(step, str) else style.item(value, indent)
        at = self._text.find("\n", node.end) + 1 or len(self._text)
        at = self._after_comments(at, len(indent))
        if self._text[at - 1] == "\n":
            return [(at, at, indent + written + style.newline)]
        return [(at, at, style.newline + indent + written)]

    def _first_added(self, node: YamlNode, step: str | int, value: Any, style: YamlStyle) -> list[Piece]:
        """Return the pieces that add the first value of a mapping or a sequence, in lines if possible."""
        before = self._line_before(node)
        indent = before[: len(before) - len(before.lstrip(" "))]
        made = {step: value} if isinstance(step, str) else [value]
        if not before.strip():
            return [(node.start, node.end, style.lines(made, indent))]
        if before.rstrip().endswith(":") and not before.lstrip().startswith("- "):
            return [(len(self._text[: node.start].rstrip()), node.end, style.below(made, indent))]
        return insertion(self._text, self._bracketed(node), step, value, style)

    def _line_before(self, node: YamlNode) -> str:
        return self._text[self._text.rfind("\n", 0, node.start) + 1 : node.start]

    def _column(self, node: YamlNode) -> int:
        """Return the column of the keys of a mapping, or of the dashes of a sequence."""
        if node.pairs:
            return node.pairs[0][0].column
        dash = self._dash(node, 0)
        return dash - (self._text.rfind("\n", 0, dash) + 1)

    def _dash(self, node: YamlNode, at: int) -> int:
        """Return the offset of the dash before an item: the first of a sequence begins it, others follow an item."""
        begin = node.items[at - 1].end if at else node.start
        found = _NO_VALUE.match(self._text, begin)
        dash = found.end() if found is not None else begin
        if self._text[dash : dash + 1] != "-":
            raise EditError(f"{self._name} has no dash before an item. Edit it by hand.")
        return dash

    def _after_comments(self, at: int, indent: int) -> int:
        """Return the offset after the comment lines that follow a line and are indented like it, or deeper."""
        end = at
        while (found := _COMMENT_LINE.match(self._text, end)) and len(found[1]) >= indent:
            end = found.end()
        follows = self._text[end : end + 2].strip(" \r")[:1]
        return end if indent or follows in ("", "\n") else at

    def _replaced(self, node: YamlNode, at: int, value: Any, style: YamlStyle) -> Piece:
        """Return the piece that puts a value in the place of another."""
        old = node.value(at)
        lines = isinstance(value, dict | list) and bool(value) and not node.flow and not old.flow
        if old.kind == "alias":
            lines = lines and node.kind == "mapping"
        if node.kind == "sequence" or node.flow:
            indent = " " * old.column
            written = style.lines(value, indent) if lines else style.written(value)
            blank = " " if self._text[old.start - 1] in "-:" else ""
            return old.start, old.end, blank + written
        key = node.pairs[at][0]
        colon = self._text.index(":", key.end) + 1
        if lines or old.block:
            return colon, old.end, style.below(value, " " * key.column)
        if old.empty:
            return colon, colon, f" {style.written(value)}"
        return old.start, old.end, style.written(value)

    def _emptied(self, node: YamlNode, path: Path) -> list[Piece]:
        """Return the pieces that put brackets in the place of a block with its last value; comments beside it stay."""
        text, empty = self._text, "{}" if node.kind == "mapping" else "[]"
        parent, at = self._at(path) if path else (None, 0)
        colon = text.index(":", parent.pairs[at][0].end) + 1 if parent is not None and parent.pairs else node.start
        if "\n" not in text[colon : node.start]:
            return [(node.start, node.end, empty)]
        if not text[colon : node.start].strip():
            return [(colon, node.end, f" {empty}")]
        line, line_end = text.rfind("\n", 0, node.start) + 1, text.find("\n", node.end) + 1 or len(text)
        alone = not text[node.end : line_end].strip()
        return [(colon, colon, f" {empty}"), (line, line_end, "") if alone else (node.start, node.end, "")]

    def _cut(self, node: YamlNode, at: int) -> Piece:
        """Return the piece that takes a pair or an item out of a block, with its lines."""
        text = self._text
        last = node.value(at).end
        start = node.pairs[at][0].start if node.kind == "mapping" else self._dash(node, at)
        line = text.rfind("\n", 0, start) + 1
        line_end = text.find("\n", last) + 1 or len(text)
        comment = text[last:line_end].lstrip(" \t")
        keep = comment.startswith("#") and "\n" not in text[start:last]
        if text[line:start].strip():
            # The first of a block that begins behind a dash: the next takes its place.
            following = node.pairs[at + 1][0].start if node.kind == "mapping" else self._dash(node, at + 1)
            between = text[line_end:following]
            end = line_end + between.index("#") if "#" in between else following
            return start, (line_end - len(comment) if keep else end), ""
        if keep:
            return start, line_end - len(comment), ""
        if line_end == len(text) and not text.endswith("\n"):
            line -= 2 if text[line - 2 : line] == "\r\n" else 1
        return line, line_end, ""

    def _bracketed(self, node: YamlNode) -> Bracketed:
        """Return a mapping or a sequence in brackets."""
        members = [
            Member(key.text, key.start, key.end, value.start, max(value.end, key.end), None)
            for key, value in node.pairs
        ] or [Member(at, one.start, one.start, one.start, one.end, None) for at, one in enumerate(node.items)]
        if not members:
            return Bracketed(node.start, node.end, node.kind == "sequence", ())
        ends = [one.start for one in members[1:]] + [node.end - 1]
        parted = [one._replace(comma=self._comma(one.end, end)) for one, end in zip(members, ends, strict=True)]
        return Bracketed(node.start, node.end, node.kind == "sequence", tuple(parted))

    def _comma(self, start: int, end: int) -> int | None:
        bare = re.sub(r"(?<!\S)#[^\n]*", lambda found: " " * len(found[0]), self._text[start:end])
        found = bare.find(",")
        return start + found if found >= 0 else None
