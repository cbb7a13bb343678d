"""A schema read once: its size, its subschemas, and the targets of its references. Nothing is ever fetched."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

from aggregator.domain.schema_walk import SCHEMA_DEPTH
from aggregator.domain.subschemas import (
    REFERENCES,
    SUBSCHEMAS_LIMIT,
    VALUES_LIMIT,
    Schema,
    is_schema,
    joined_reference,
    subschemas,
)
from aggregator.schemas.fault import UnusableSchema, step
from aggregator.schemas.structure.dialect import Dialect, dialect_of

# The name of a schema without an id of its own.
_HOME: Final = ""


@dataclass(slots=True)
class SchemaIndex:
    """A schema read once.

    `nodes` are its schema objects by identity. `targets` are the targets of their references, by the identity of the
    object and the keyword; more than one if the reference is dynamic and its target depends on the path of evaluation.
    `unmarked_targets` are targets at places that no keyword expects a schema in, so that no metaschema has checked
    them. `patterns` are the regular expressions, each with its place.
    """

    root: Schema
    dialect: Dialect
    nodes: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    targets: dict[tuple[int, str], tuple[Schema, ...]] = field(default_factory=dict)
    patterns: list[tuple[str, str]] = field(default_factory=list)
    unmarked_targets: list[Mapping[str, Any]] = field(default_factory=list)
    has_unevaluated: bool = False

    @property
    def dynamic(self) -> bool:
        """True if a reference's target is not known from the schema alone."""
        return any(len(found) > 1 for found in self.targets.values())


def read(schema: Schema) -> SchemaIndex:
    """Read all of a schema.

    Raises:
        UnusableSchema: too deep, too large, an unknown dialect, or a reference that leads out or nowhere.
    """
    _bound(schema)
    return _Reader(schema).read()


def _bound(schema: Schema) -> None:
    """Bound a schema as a tree: a shared part (YAML allows it) counts at each use.

    Raises:
        UnusableSchema: too deep or too large.
    """
    level: list[Any] = [schema]
    count = depth = 0
    while level:
        count += len(level)
        if depth > SCHEMA_DEPTH:
            raise UnusableSchema(f"it is nested more than {SCHEMA_DEPTH} levels deep")
        if count > VALUES_LIMIT:
            raise UnusableSchema(f"it holds more than {VALUES_LIMIT:,} values")
        depth += 1
        inside: list[Any] = []
        for value in level:
            if isinstance(value, Mapping):
                inside += value.values()
            elif isinstance(value, list | tuple):
                inside += value
        level = inside


class _Reader:
    """The state of reading one schema: its named resources, anchors and base URIs."""

    def __init__(self, schema: Schema) -> None:
        self.index = SchemaIndex(schema, dialect_of(schema))
        self._id = "id" if self.index.dialect == Dialect.DRAFT_04 else "$id"
        self._old = self.index.dialect <= Dialect.DRAFT_07
        self._resources: dict[str, Schema] = {_HOME: schema}
        self._anchors: dict[tuple[str, str], Mapping[str, Any]] = {}
        self._dynamic: dict[str, list[Mapping[str, Any]]] = {}
        self._bases: dict[int, tuple[str, str]] = {}

    def read(self) -> SchemaIndex:
        self._walk([(self.index.root, _HOME, "")])
        waiting = list(self.index.nodes.values())
        while waiting:
            before = len(self.index.nodes)
            for node in waiting:
                self._resolve_references(node)
            # A reference may lead to a place that no keyword expects a schema in; its target may have references too.
            waiting = list(self.index.nodes.values())[before:]
        return self.index

    def _walk(self, start: Iterable[tuple[Schema, str, str]]) -> None:
        stack = list(start)
        while stack:
            node, base, where = stack.pop()
            if isinstance(node, bool) or id(node) in self.index.nodes:
                continue
            self.index.nodes[id(node)] = node
            if len(self.index.nodes) > SUBSCHEMAS_LIMIT:
                raise UnusableSchema(f"it has more than {SUBSCHEMAS_LIMIT:,} subschemas")
            base = self._register(node, base, where)
            self._bases[id(node)] = (base, where)
            self._record(node, where)
            for path, inside in subschemas(node):
                place = where
                for key in path:
                    place = step(place, key)
                stack.append((inside, base, place))

    def _register(self, node: Mapping[str, Any], base: str, where: str) -> str:
        """Record the names a schema object gives itself, and return the base its references count from."""
        own = node.get(self._id)
        if isinstance(own, str) and not (self._old and "$ref" in node):
            uri, fragment = _joined(base, own)
            if self._old and own.startswith("#"):
                self._anchors[base, fragment] = node
            else:
                base = uri
                self._resources.setdefault(uri, node)
        if not self._old:
            for keyword in ("$anchor", "$dynamicAnchor"):
                if isinstance(node.get(keyword), str):
                    self._anchors[base, node[keyword]] = node
            if isinstance(node.get("$dynamicAnchor"), str):
                self._dynamic.setdefault(node["$dynamicAnchor"], []).append(node)
        if where and "$schema" in node and dialect_of(node) != self.index.dialect:
            raise UnusableSchema(f"the part at {where:.120} names another $schema than the whole")
        return base

    def _record(self, node: Mapping[str, Any], where: str) -> None:
        if isinstance(node.get("pattern"), str):
            self.index.patterns.append((f"{where}/pattern", node["pattern"]))
        if isinstance(node.get("patternProperties"), dict):
            self.index.patterns += [(f"{where}/patternProperties", pattern) for pattern in node["patternProperties"]]
        if "unevaluatedItems" in node or "unevaluatedProperties" in node:
            self.index.has_unevaluated = True

    def _resolve_references(self, node: Mapping[str, Any]) -> None:
        base, where = self._bases[id(node)]
        for keyword in REFERENCES:
            reference = node.get(keyword)
            if not isinstance(reference, str) or not _is_reference(keyword, self.index.dialect):
                continue
            target = self._resolve(base, reference, f"{where}/{keyword}")
            found: list[Schema] = [target]
            if isinstance(target, dict):
                found += self._dynamic_targets(keyword, reference, target)
            self.index.targets[id(node), keyword] = tuple(found)

    def _dynamic_targets(self, keyword: str, reference: str, target: Mapping[str, Any]) -> list[Schema]:
        """Return the other targets that a dynamic reference could have."""
        others: list[Schema] = []
        if keyword == "$dynamicRef" and target.get("$dynamicAnchor") == reference.rpartition("#")[2]:
            others += self._dynamic[target["$dynamicAnchor"]]
        if keyword == "$recursiveRef" and target.get("$recursiveAnchor") is True:
            others += self._resources.values()
        return [other for other in others if other is not target]

    def _resolve(self, base: str, reference: str, where: str) -> Schema:
        uri, fragment = _joined(base, reference)
        resource = self._resources.get(uri)
        if resource is None:
            raise UnusableSchema(
                f"the reference at {where:.120} leads out of it, to {reference!r:.120}; nothing is fetched"
            )
        fragment = unquote(fragment)
        if not fragment:
            return resource
        target: Any = self._anchors.get((uri, fragment))
        if target is None and fragment.startswith("/"):
            target, uri = self._pointed(resource, fragment, uri)
        if not is_schema(target):
            raise UnusableSchema(f"the reference at {where:.120} leads nowhere: {reference!r:.120}")
        if isinstance(target, dict) and id(target) not in self.index.nodes:
            self.index.unmarked_targets.append(target)
        self._walk([(target, uri, fragment)])
        found: Schema = target
        return found

    def _pointed(self, resource: Any, pointer: str, base: str) -> tuple[Any, str]:
        """Return the target of a JSON pointer, and the base that holds there."""
        target = resource
        for part in pointer.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(target, Mapping) and key in target:
                target = target[key]
            elif isinstance(target, list) and key.isdecimal() and int(key) < len(target):
                target = target[int(key)]
            else:
                return None, base
            base = self._bases.get(id(target), (base, ""))[0]
        return target, base


def _is_reference(keyword: str, dialect: Dialect) -> bool:
    if keyword == "$dynamicRef":
        return dialect == Dialect.DRAFT_2020_12
    return keyword == "$ref" or dialect == Dialect.DRAFT_2019_09


def _joined(base: str, reference: str) -> tuple[str, str]:
    """Return the document a reference leads to, and the fragment."""
    try:
        return joined_reference(base, reference)
    except ValueError:
        raise UnusableSchema(f"{reference!r:.120} is no reference") from None
