"""The nodes of a YAML text with their places, made from the events of the parser.

Law: tags and constructors are not followed, so nothing in a text makes an object. Time is linear in its length.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, MutableSequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NoReturn

import yaml

LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# Values of texts without quotes.
WORDS: Final[dict[str, object]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_QUOTES: Final = frozenset("'\"")
# For scalars, of which there are many.
_NO_PARTS: Final[Any] = ()


@dataclass(slots=True)
class YamlNode:
    """A value in a text, from its first character to behind its last one that is no blank; `line` counts from 1.

    `pairs` are the keys and values of a mapping, `items` those of a sequence; `flow` says that it is in brackets.
    `plain`: a text without quotes.
    """

    kind: Literal["scalar", "mapping", "sequence", "alias"]
    start: int
    end: int
    line: int
    column: int
    flow: bool = False
    text: str = ""
    plain: bool = False
    anchor: str | None = None
    tag: str | None = None
    pairs: MutableSequence[tuple["YamlNode", "YamlNode"]] = _NO_PARTS
    items: MutableSequence["YamlNode"] = _NO_PARTS

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


class YamlReader(ABC):
    """The reader of one text; a subclass says what it refuses, as soon as it meets it.

    `open` are the mappings and sequences that are not closed yet, from the outside in.
    """

    deepest: int

    def __init__(self) -> None:
        self.open: list[YamlNode] = []
        self._keys: list[YamlNode | None] = []
        self._root: YamlNode | None = None

    def read(self, text: str, loader: Any = LOADER) -> YamlNode | None:
        """Return the root; None if the text has no document.

        Raises:
            yaml.YAMLError: the text is not YAML.
        """
        events: Iterator[Any] = yaml.parse(text, Loader=loader)
        for event in events:
            if isinstance(event, yaml.NodeEvent):
                self._begin(_node(event, text))
            elif isinstance(event, yaml.CollectionEndEvent):
                self._close(event)
            elif isinstance(event, yaml.DocumentStartEvent) and self._root is not None:
                mark: Any = event.start_mark
                self.another_document(mark.line + 1)
        return self._root

    def met(self, node: YamlNode, *, is_key: bool) -> None:  # noqa: B027 - not every reader refuses some
        """Look at a node before it is put into the open container."""

    def closed(self, node: YamlNode) -> None:  # noqa: B027 - not every reader counts them
        """Look at a value that is whole; its container is the last open one."""

    @abstractmethod
    def too_deep(self, line: int) -> NoReturn:
        """Raise the error for a container in more than `deepest` others."""

    @abstractmethod
    def another_document(self, line: int) -> NoReturn:
        """Raise the error for a second document."""

    def _begin(self, node: YamlNode) -> None:
        container = self.open[-1] if self.open else None
        is_key = container is not None and container.kind == "mapping" and self._keys[-1] is None
        self.met(node, is_key=is_key)
        if container is None:
            self._root = node
        elif is_key:
            self._keys[-1] = node
        elif container.kind == "mapping":
            key = self._keys[-1]
            assert key is not None, "a value follows its key"
            container.pairs.append((key, node))
            self._keys[-1] = None
        else:
            container.items.append(node)
        if node.kind in ("mapping", "sequence"):
            if len(self.open) >= self.deepest:
                self.too_deep(node.line)
            self.open.append(node)
            self._keys.append(None)
        elif not is_key:
            self.closed(node)

    def _close(self, event: Any) -> None:
        node = self.open.pop()
        self._keys.pop()
        node.end = event.end_mark.index if node.flow else _last(node)
        self.closed(node)


def _node(event: Any, text: str) -> YamlNode:
    mark = event.start_mark
    start, end, line, column = mark.index, event.end_mark.index, mark.line + 1, mark.column
    if isinstance(event, yaml.ScalarEvent):
        # The end of a text without quotes may stand behind blanks and line ends.
        if event.style not in _QUOTES:
            end = start + len(text[start:end].rstrip())
        tag = event.tag
        plain = not event.style and (tag is None or not tag.endswith(":str"))
        return YamlNode("scalar", start, end, line, column, False, event.value, plain, event.anchor, tag)
    if isinstance(event, yaml.AliasEvent):
        return YamlNode("alias", start, end, line, column, text=f"*{event.anchor}", anchor=event.anchor)
    kind: Literal["mapping", "sequence"] = "mapping" if isinstance(event, yaml.MappingStartEvent) else "sequence"
    flow = bool(event.flow_style)
    return YamlNode(kind, start, start, line, column, flow, "", False, event.anchor, event.tag, [], [])


def _last(node: YamlNode) -> int:
    """Return where the last part of a block ends."""
    return node.pairs[-1][1].end if node.pairs else node.items[-1].end if node.items else node.start
