"""New values written as YAML: block style by lines, flow style in brackets, texts in quotes where they need them."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from aggregator.editing.yaml_nodes import YamlNode
from aggregator.editing.yaml_scan import scalar

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
            # YAML 1.1 takes a number with an exponent as one only where it has a point.
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
