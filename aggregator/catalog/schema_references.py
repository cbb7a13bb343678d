"""The references within the schema of a tool: each leads to a schema, and none goes round without end.

Schemas with ids of their own inside are left alone: what `#` means depends on the place there.
"""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final
from urllib.parse import unquote

from aggregator.catalog.schema_keywords import NAMED, ONE, SEVERAL, DialectRules, UnusableDefinition, is_sound

# Keywords that apply to the same place: a reference that leads round through them alone never ends.
_IN_PLACE_ONE: Final = ("not", "if", "then", "else")
_IN_PLACE_LIST: Final = ("allOf", "anyOf", "oneOf")
_IN_PLACE_NAMED: Final = ("dependentSchemas", "dependencies")


class References:
    """The check of all references of one schema."""

    def __init__(self, schema: dict[str, Any], dialect: DialectRules) -> None:
        self._root = schema
        self._dialect = dialect
        self._nodes: dict[int, dict[str, Any]] = {}
        self._anchors: dict[str, Any] = {}
        own_id = schema.get("$id")
        self._own_id = own_id.removesuffix("#") if isinstance(own_id, str) else ""
        self._keywords = ("$ref",) if dialect.dynamic is None else ("$ref", dialect.dynamic)

    def check(self) -> None:
        """Raise if a reference leads to no schema, or round without end.

        Raises:
            UnusableDefinition: one does.
        """
        if not self._walk(self._root):
            return
        waiting = list(self._nodes.values())
        while waiting:
            known = len(self._nodes)
            for target in [target for node in waiting for target in self._targets(node)]:
                # A place that no keyword expects a schema at has not been mended.
                if target.__class__ is dict and id(target) not in self._nodes:
                    if not is_sound(target, self._dialect):
                        raise UnusableDefinition("a reference leads to a place that has no sound schema")
                    if not self._walk(target):
                        return
            waiting = list(self._nodes.values())[known:]
        self._check_ends()

    def _walk(self, start: dict[str, Any]) -> bool:
        """Note all schemas from a place on, and the anchors; return False if one has an id of its own."""
        stack: list[Any] = [start]
        while stack:
            node = stack.pop()
            if node.__class__ is list:
                stack.extend(node)
                continue
            if node.__class__ is not dict or id(node) in self._nodes:
                continue
            if node is not self._root and _is_schema_id(node):
                return False
            self._nodes[id(node)] = node
            for keyword, value in node.items():
                if keyword in ("$anchor", "$dynamicAnchor"):
                    self._anchors[value] = node
                elif (keyword in NAMED or keyword == "dependencies") and value.__class__ is dict:
                    stack.extend(value.values())
                elif keyword in SEVERAL or keyword in ONE:
                    stack.append(value)
        return True

    def _targets(self, node: Mapping[str, Any]) -> Iterator[Any]:
        """Yield the targets of a schema's references into the whole. Raises UnusableDefinition for one without any."""
        for keyword in self._keywords:
            reference = node.get(keyword)
            if isinstance(reference, str):
                target = self._target(reference.removeprefix(self._own_id) if self._own_id else reference)
                if not isinstance(target, dict | bool):
                    raise UnusableDefinition(f"the reference {reference!r:.120} leads to no schema")
                yield target

    def _target(self, reference: str) -> Any:
        if reference[:1] not in ("#", ""):
            raise UnusableDefinition(f"it refers to {reference!r:.120} outside itself, which is never fetched")
        pointer = unquote(reference[1:])
        if pointer and not pointer.startswith("/"):
            return self._anchors.get(pointer)
        node: Any = self._root
        for part in pointer.split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict) and name in node:
                node = node[name]
            elif isinstance(node, list) and name.isdecimal() and int(name) < len(node):
                node = node[int(name)]
            else:
                return None
        return node

    def _check_ends(self) -> None:
        """Raise UnusableDefinition if a schema applies itself to the same value."""
        left: dict[int, bool] = {}
        for start in self._nodes.values():
            stack = [(start, False)]
            while stack:
                node, leaving = stack.pop()
                if leaving:
                    left[id(node)] = True
                elif id(node) not in left:
                    left[id(node)] = False
                    stack.append((node, True))
                    for part in self._in_place(node):
                        if left.get(id(part)) is False:
                            raise UnusableDefinition("a reference leads back to itself without end")
                        stack.append((part, False))

    def _in_place(self, node: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the schemas that apply to the value that a schema applies to."""
        parts: list[Any] = list(self._targets(node))
        if not parts or not self._dialect.alone:
            parts += (node.get(keyword) for keyword in _IN_PLACE_ONE)
            parts += chain.from_iterable(node.get(keyword) or () for keyword in _IN_PLACE_LIST)
            parts += chain.from_iterable((node.get(keyword) or {}).values() for keyword in _IN_PLACE_NAMED)
        return [part for part in parts if isinstance(part, dict)]


def _is_schema_id(node: Mapping[str, Any]) -> bool:
    return isinstance(node.get("$id"), str) or isinstance(node.get("id"), str)
