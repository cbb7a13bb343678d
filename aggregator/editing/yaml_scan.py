"""The nodes of a YAML text with their offsets, and their values as YAML 1.2 reads them.

Hosts read YAML 1.2, where `yes` is a text and `12:30` too. Law: time is linear in the length of the text.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import yaml

from aggregator.editing.errors import EditError

_LARGEST: Final = 2**20
_DEEPEST: Final = 100
# Aliases repeat what they name: so many values at most.
_MOST_VALUES: Final = 1_000_000
_WHOLE: Final = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_NUMBER: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)")
_WORDS: Final[dict[str, object]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(slots=True)
class YamlNode:
    """A value in a text, from its first character to behind its last one that is no blank.

    `pairs` are the keys and values of a mapping, `items` those of a sequence; `flow` says that it is in brackets.
    """

    kind: Literal["scalar", "mapping", "sequence", "alias"]
    start: int
    end: int
    column: int
    flow: bool = False
    text: str = ""
    plain: bool = False
    anchor: str | None = None
    pairs: list[tuple["YamlNode", "YamlNode"]] = field(default_factory=list)
    items: list["YamlNode"] = field(default_factory=list)

    @property
    def block(self) -> bool:
        """Return whether this is a mapping or a sequence of lines."""
        return self.kind in ("mapping", "sequence") and not self.flow

    @property
    def empty(self) -> bool:
        """Return whether no character stands for this value."""
        return self.start == self.end

    def find(self, step: str | int) -> int | None:
        """Return the index of a value in this one, of a repeated key the last."""
        if self.kind == "mapping":
            found = (at for at in range(len(self.pairs) - 1, -1, -1) if self.pairs[at][0].text == step)
            return next(found, None) if isinstance(step, str) else None
        return step if isinstance(step, int) and 0 <= step < len(self.items) else None

    def value(self, at: int) -> "YamlNode":
        """Return the value at an index."""
        return self.pairs[at][1] if self.kind == "mapping" else self.items[at]

    def __len__(self) -> int:
        return len(self.pairs) + len(self.items)


def parse(text: str, name: str) -> YamlNode | None:
    """Return the root of a text without a byte order mark; None where it has no values.

    Raises:
        EditError: the text is not YAML, larger than 1 MiB, nested too deeply, or more than one document.
    """
    if len(text) > _LARGEST:
        raise EditError(f"{name} is larger than 1 MiB, which no file of settings in YAML is.")
    try:
        root = _tree(yaml.parse(text, Loader=_LOADER), text, name)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        why = getattr(error, "problem", None) or "it cannot be read"
        raise EditError(f"{name}{where}: this is not YAML ({why}). Correct it there.") from None
    return None if root is None or (root.empty and root.kind == "scalar") else root


def _tree(events: Iterator[Any], text: str, name: str) -> YamlNode | None:
    root: YamlNode | None = None
    open_nodes: list[YamlNode] = []
    keys: list[YamlNode | None] = []
    documents = 0
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise EditError(f"{name} holds more than one document. Edit it by hand.")
        if isinstance(event, yaml.CollectionEndEvent):
            node = open_nodes.pop()
            keys.pop()
            end: Any = event.end_mark
            node.end = end.index if node.flow else _last(node)
        elif isinstance(event, yaml.NodeEvent):
            node = _node(event, text)
            if not open_nodes:
                root = node
            elif open_nodes[-1].kind == "sequence":
                open_nodes[-1].items.append(node)
            elif keys[-1] is None:
                keys[-1] = node
            else:
                open_nodes[-1].pairs.append((keys[-1], node))
                keys[-1] = None
            if node.kind in ("mapping", "sequence"):
                open_nodes.append(node)
                keys.append(None)
                if len(open_nodes) > _DEEPEST:
                    raise EditError(f"{name} is nested too deeply to be edited.")
    return root


def _node(event: Any, text: str) -> YamlNode:
    start, end, column = event.start_mark.index, event.end_mark.index, event.start_mark.column
    if isinstance(event, yaml.ScalarEvent):
        end = start + len(text[start:end].rstrip())
        tagged = event.tag is not None and event.tag.endswith(":str")
        plain = not event.style and not tagged
        return YamlNode("scalar", start, end, column, text=event.value, plain=plain, anchor=event.anchor)
    if isinstance(event, yaml.AliasEvent):
        return YamlNode("alias", start, end, column, text=f"*{event.anchor}", anchor=event.anchor)
    kind: Literal["mapping", "sequence"] = "mapping" if isinstance(event, yaml.MappingStartEvent) else "sequence"
    return YamlNode(kind, start, start, column, flow=bool(event.flow_style), anchor=event.anchor)


def _last(node: YamlNode) -> int:
    """Return where the last part of a block ends."""
    return node.pairs[-1][1].end if node.pairs else node.items[-1].end if node.items else node.start


class YamlValues:
    """The values of the nodes of one text as plain objects."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._anchors: dict[str, tuple[object, int]] = {}
        self._count = 0

    def value(self, node: YamlNode) -> Any:
        """Return the value of a node. Raises EditError where aliases make it too large, or name nothing."""
        before = self._count
        self._count += 1
        if node.kind == "alias":
            if node.anchor not in self._anchors:
                raise EditError(f"{self._name}: the alias {node.text} names nothing that stands before it.")
            made, size = self._anchors[node.anchor]
            self._count += size
            if self._count > _MOST_VALUES:
                raise EditError(f"{self._name} repeats so much with aliases that it cannot be edited.")
            return made
        if node.kind == "mapping":
            made = self._mapping(node)
        elif node.kind == "sequence":
            made = [self.value(item) for item in node.items]
        else:
            made = scalar(node.text) if node.plain else node.text
        if node.anchor is not None:
            self._anchors[node.anchor] = made, self._count - before
        return made

    def _mapping(self, node: YamlNode) -> dict[str, object]:
        made: dict[str, object] = {}
        merged: list[dict[str, object]] = []
        for key, inner in node.pairs:
            value = self.value(inner)
            if key.plain and key.text == "<<":
                merged += [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, dict)]
            elif key.kind == "scalar":
                made[key.text] = value
            else:
                raise EditError(f"{self._name} has a key that is no text. Edit it by hand.")
        for one in merged:
            made = {**one, **made}
        return made


def scalar(text: str) -> object:
    """Return the value of a text without quotes."""
    if text in _WORDS:
        return _WORDS[text]
    if _WHOLE.fullmatch(text):
        try:
            return int(text, 0 if text[:2] in ("0o", "0x") else 10)
        except ValueError:
            return float(text)
    if _NUMBER.fullmatch(text):
        return float(text.replace(".inf", "inf").replace(".Inf", "inf").replace(".INF", "inf"))
    return text
