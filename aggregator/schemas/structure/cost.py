"""Bound the work of a schema before doing any of it.

The engine has no budget of its own and holds the interpreter while it works. So this module counts, level by level, the
most schema objects it could apply to one place of a value. `interpreter`, which counts its steps, makes the checks that
could take too long.
"""

from collections.abc import Mapping
from threading import Lock
from typing import Any, Final, NamedTuple

from aggregator.domain.subschemas import (
    IN_PLACE_LIST,
    IN_PLACE_MAP,
    IN_PLACE_ONE,
    KEPT_APART,
    REFERENCES,
    Schema,
    subschemas,
)
from aggregator.schemas.fault import UnusableSchema
from aggregator.schemas.structure.dialect import Dialect
from aggregator.schemas.structure.index import SchemaIndex

_CEILING: Final = 10**12
# Steps that comparing one value took in the engine at the worst (measured): members of an `enum` that are objects
# or arrays, a division by an extreme number, and one of the items of `uniqueItems` with all others.
_COMPARED: Final = 16
_DIVIDED: Final = 10
_DIVIDED_EXACTLY: Final = 2_000
_ORDINARY: Final = (1e-9, 1e15)
_UNIQUE: Final = 16
# Characters that are compared in one step.
_CHARACTERS: Final = 64
_IN_PLACE: Final = frozenset({*IN_PLACE_ONE, *IN_PLACE_LIST, *IN_PLACE_MAP})
_NOT_APPLIED: Final = frozenset({*KEPT_APART, "contentSchema"})


class WorkLoad(NamedTuple):
    """The work at one place of a value: schema objects and members compared, and the weight of the patterns."""

    steps: int
    weight: int


_NOTHING: Final = WorkLoad(0, 0)


class Edges(NamedTuple):
    """The schema objects that one schema object applies: to the same place, and one level down."""

    here: tuple[Mapping[str, Any], ...]
    named: Mapping[str, Mapping[str, Any]]
    any_child: tuple[Mapping[str, Any], ...]


class Cost:
    """The loads of a schema by level of the value; computed as deep as needed.

    `again` is how often `unevaluated...` may run everything at its place once more.
    """

    def __init__(self, index: SchemaIndex, weights: Mapping[str, int], again: int = 1) -> None:
        self._index = index
        self._weights = weights
        self._edges = {key: _edges(node, index) for key, node in index.nodes.items()}
        self._here = {key: [id(part) for part in edges.here] for key, edges in self._edges.items()}
        self._any_child = {key: [id(part) for part in edges.any_child] for key, edges in self._edges.items()}
        self._named = {key: [id(part) for part in edges.named.values()] for key, edges in self._edges.items()}
        self._times = {
            key: 1 + again * (("unevaluatedItems" in node) + ("unevaluatedProperties" in node))
            for key, node in index.nodes.items()
        }
        self._order = self._bottom_up()
        self._levels: list[dict[int, WorkLoad]] = []
        self._lock = Lock()
        self.recursive = self._is_recursive()

    def at(self, level: int) -> WorkLoad:
        """Return the most that can be applied to one place `level` steps below the root."""
        if isinstance(self._index.root, bool):
            return _NOTHING
        with self._lock:
            while len(self._levels) <= level:
                self._levels.append(self._next())
            return self._levels[level][id(self._index.root)]

    def _next(self) -> dict[int, WorkLoad]:
        above = self._levels[-1] if self._levels else None
        loads: dict[int, WorkLoad] = {}
        for key in self._order:
            parts = [loads[part] for part in self._here[key]]
            if above is None:
                parts.append(_own(self._index.nodes[key], self._weights))
            else:
                parts += [above[part] for part in self._any_child[key]]
                if self._index.nodes[key].get("uniqueItems") is True:
                    # Values inside the items are compared too, on every level below.
                    parts.append(WorkLoad(_UNIQUE, 0))
                named = [above[part] for part in self._named[key]]
                if named:
                    parts.append(WorkLoad(max(n.steps for n in named), max(n.weight for n in named)))
            loads[key] = _sum(parts, self._times[key]) if parts else _NOTHING
        return loads

    def _bottom_up(self) -> list[int]:
        """Return every schema object after those it applies to the same place.

        Raises:
            UnusableSchema: one applies itself to the same place, without end.
        """
        order: list[int] = []
        state: dict[int, bool] = {}
        for start in self._edges:
            stack = [(start, False)]
            while stack:
                key, left = stack.pop()
                if left:
                    state[key] = True
                    order.append(key)
                elif key not in state:
                    state[key] = False
                    stack.append((key, True))
                    for part in self._edges[key].here:
                        if state.get(id(part)) is False:
                            raise UnusableSchema("it has a reference that leads back to itself without end")
                        stack.append((id(part), False))
        return order

    def _is_recursive(self) -> bool:
        """Tell whether some schema object can apply to a part of the value that it applies to."""
        state: dict[int, bool] = {}
        for start in self._edges:
            stack = [(start, False)]
            while stack:
                key, left = stack.pop()
                if left:
                    state[key] = True
                elif key not in state:
                    state[key] = False
                    stack.append((key, True))
                    edges = self._edges[key]
                    for part in (*edges.here, *edges.named.values(), *edges.any_child):
                        if state.get(id(part)) is False:
                            return True
                        stack.append((id(part), False))
        return False


def _edges(node: Mapping[str, Any], index: SchemaIndex) -> Edges:
    here = [target for keyword in REFERENCES for target in index.targets.get((id(node), keyword), ())]
    if here and index.dialect <= Dialect.DRAFT_07:
        return Edges(_objects(here), {}, ())
    named: dict[str, Schema] = {}
    children: list[Schema] = []
    for (keyword, *path), part in subschemas(node):
        if keyword in _IN_PLACE:
            here.append(part)
        elif keyword == "properties":
            named[str(path[0])] = part
        elif keyword not in _NOT_APPLIED:
            children.append(part)
    of_name = {name: part for name, part in named.items() if isinstance(part, dict)}
    return Edges(_objects(here), of_name, _objects(children))


def _objects(parts: list[Any]) -> tuple[Mapping[str, Any], ...]:
    return tuple(part for part in parts if isinstance(part, dict))


def _own(node: Mapping[str, Any], weights: Mapping[str, int]) -> WorkLoad:
    steps = 1
    for keyword, value in node.items():
        if keyword == "required":
            steps += len(value) if isinstance(value, list) else 0
        elif keyword in ("enum", "const"):
            steps += _compared(value)
        elif keyword in ("properties", "patternProperties", "dependentSchemas"):
            steps += len(value) if isinstance(value, dict) else 0
        elif keyword in ("dependentRequired", "dependencies"):
            names = value.values() if isinstance(value, dict) else ()
            steps += sum(1 + len(one) if isinstance(one, list) else 1 for one in names)
        elif keyword == "multipleOf":
            ordinary = isinstance(value, int | float) and _ORDINARY[0] <= value <= _ORDINARY[1]
            steps += _DIVIDED if ordinary else _DIVIDED_EXACTLY
    patterns = list(node["patternProperties"]) if isinstance(node.get("patternProperties"), dict) else []
    if isinstance(node.get("pattern"), str):
        patterns.append(node["pattern"])
    return WorkLoad(steps, sum(weights.get(pattern, 0) for pattern in patterns))


def _compared(value: Any) -> int:
    """Return the steps that comparing something with all of `value` takes."""
    steps = 0
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            steps += _COMPARED + sum(len(name) for name in part) // _CHARACTERS
            waiting += part.values()
        elif isinstance(part, list):
            steps += _COMPARED
            waiting += part
        else:
            steps += 1 + (len(part) // _CHARACTERS if isinstance(part, str) else 0)
    return steps


def _sum(loads: list[WorkLoad], times: int) -> WorkLoad:
    steps = weight = 0
    for load in loads:
        steps += load.steps
        weight += load.weight
    return WorkLoad(min(steps * times, _CEILING), min(weight * times, _CEILING)) if steps else _NOTHING
