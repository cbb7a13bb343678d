"""The references within the schema of a tool: each leads to a schema, and none goes round without end.

An id inside names a resource: what `#` means depends on the place there (2020-12 Core, 8.2).
"""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final
from urllib.parse import unquote

from aggregator.catalog.schema_keywords import NAMED, ONE, SEVERAL, DialectRules, UnusableDefinition, is_sound
from aggregator.domain.subschemas import joined_reference

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
        # By the identity of a schema: the URI that its references count from.
        self._bases: dict[int, str] = {}
        self._resources: dict[str, dict[str, Any]] = {"": schema}
        self._anchors: dict[tuple[str, str], Any] = {}
        self._id = "id" if dialect.flags else "$id"
        self._keywords = ("$ref",) if dialect.dynamic is None else ("$ref", dialect.dynamic)

    def check(self) -> None:
        """Raise if a reference leads to no schema, or round without end.

        Raises:
            UnusableDefinition: one does.
        """
        self._walk(self._root, "", marked=True)
        waiting = list(self._nodes.values())
        while waiting:
            known = len(self._nodes)
            for target, base in [found for node in waiting for found in self._targets(node)]:
                # A place that no keyword expects a schema at has not been mended.
                if target.__class__ is dict and id(target) not in self._nodes:
                    if not is_sound(target, self._dialect):
                        raise UnusableDefinition("a reference leads to a place that has no sound schema")
                    self._walk(target, base, marked=False)
            waiting = list(self._nodes.values())[known:]
        self._check_ends()

    def _walk(self, start: dict[str, Any], base: str, *, marked: bool) -> None:
        """Note all schemas from a place on. base: the URI that holds there.

        marked: a keyword expects a schema there. Only then its ids and anchors can be referred to.
        """
        stack: list[tuple[Any, str]] = [(start, base)]
        while stack:
            node, base = stack.pop()
            if node.__class__ is list:
                stack.extend((part, base) for part in node)
                continue
            if node.__class__ is not dict or id(node) in self._nodes:
                continue
            self._nodes[id(node)] = node
            self._bases[id(node)] = base = self._base(node, base, marked)
            for keyword, value in node.items():
                if keyword in ("$anchor", "$dynamicAnchor"):
                    if marked:
                        self._anchors[base, value] = node
                elif keyword == "$defs" and self._dialect.alone:
                    continue
                elif (keyword in NAMED or keyword == "dependencies") and value.__class__ is dict:
                    stack.extend((part, base) for part in value.values())
                elif keyword in SEVERAL or keyword in ONE:
                    stack.append((value, base))

    def _base(self, node: dict[str, Any], base: str, marked: bool) -> str:
        """Note the id of a schema if it is marked, and return the URI that its references count from."""
        own = node.get(self._id)
        if not isinstance(own, str) or (self._dialect.alone and "$ref" in node):
            return base
        uri, fragment = _joined(base, own)
        anchor = self._dialect.alone and own.startswith("#")
        if marked and anchor:
            self._anchors[base, fragment] = node
        elif marked:
            self._resources.setdefault(uri, node)
        return base if anchor else uri

    def _targets(self, node: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
        """Yield the targets of a schema's references, each with the URI that holds there.

        Raises:
            UnusableDefinition: a reference has none.
        """
        for keyword in self._keywords:
            reference = node.get(keyword)
            if isinstance(reference, str):
                target, base = self._target(self._bases[id(node)], reference)
                if not isinstance(target, dict | bool):
                    raise UnusableDefinition(f"the reference {reference!r:.120} leads to no schema")
                yield target, base

    def _target(self, base: str, reference: str) -> tuple[Any, str]:
        uri, fragment = _joined(base, reference)
        node: Any = self._resources.get(uri)
        if node is None:
            raise UnusableDefinition(f"it refers to {reference!r:.120} outside itself, which is never fetched")
        pointer = unquote(fragment)
        if pointer and not pointer.startswith("/"):
            return self._anchors.get((uri, pointer)), uri
        for part in pointer.split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict) and name in node:
                node = node[name]
            elif isinstance(node, list) and name.isdecimal() and int(name) < len(node):
                node = node[int(name)]
            else:
                return None, uri
            uri = self._bases.get(id(node), uri)
        return node, uri

    def _dynamic_targets(self, target: Any) -> list[dict[str, Any]]:
        """Return the schemas that a dynamic reference to this one may lead to, by the way that a check has come."""
        name = target.get("$dynamicAnchor") if isinstance(target, dict) else None
        if name is not None:
            return [node for node in self._nodes.values() if node.get("$dynamicAnchor") == name]
        if isinstance(target, dict) and target.get("$recursiveAnchor") is True:
            return list(self._resources.values())
        return []

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
        parts: list[Any] = [target for target, _ in self._targets(node)]
        if self._dialect.dynamic in node:
            parts += [other for target in parts for other in self._dynamic_targets(target)]
        if not parts or not self._dialect.alone:
            parts += (node.get(keyword) for keyword in _IN_PLACE_ONE)
            parts += chain.from_iterable(node.get(keyword) or () for keyword in _IN_PLACE_LIST)
            parts += chain.from_iterable((node.get(keyword) or {}).values() for keyword in _IN_PLACE_NAMED)
        return [part for part in parts if isinstance(part, dict)]


def _joined(base: str, reference: str) -> tuple[str, str]:
    try:
        return joined_reference(base, reference)
    except ValueError:
        raise UnusableDefinition(f"{reference!r:.120} is no reference") from None
