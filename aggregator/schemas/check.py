"""A schema made ready to check values with: the engine where its work is bounded, the judge where it is not."""

from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from itertools import islice
from typing import Any, Final

import jsonschema_rs

from aggregator.schemas.cost import Cost
from aggregator.schemas.dialect import Dialect, Schema
from aggregator.schemas.fault import Fault, UnusableSchema
from aggregator.schemas.index import Index, read
from aggregator.schemas.judge import EXPLAINING_STEPS, Judge, OutOfSteps
from aggregator.schemas.measure import Size, TooLarge, measure
from aggregator.schemas.patterns import HEAVY, OPTIONS, weight
from aggregator.schemas.wording import got

# The most one check may take in the engine, by what a step took in its worst cases (measured).
_BUDGET_NS: Final = 200_000_000
_STEP_NS: Final = 40
# Recursive schemas are unrolled by the engine as it goes, which costs far more a step.
_RECURSIVE_STEPS: Final = 1_000
# Of nearly all arguments; for these the room is worked out ahead.
_USUAL_DEPTH: Final = 4
_PATTERNS_LIMIT: Final = 300
_HEAVY_LIMIT: Final = 8

_ENGINES: Final[Mapping[Dialect, Any]] = {
    Dialect.DRAFT_04: jsonschema_rs.Draft4Validator,
    Dialect.DRAFT_06: jsonschema_rs.Draft6Validator,
    Dialect.DRAFT_07: jsonschema_rs.Draft7Validator,
    Dialect.DRAFT_2019_09: jsonschema_rs.Draft201909Validator,
    Dialect.DRAFT_2020_12: jsonschema_rs.Draft202012Validator,
}


class Check:
    """Immutable and safe in threads. `warnings` say what of the schema is not checked."""

    __slots__ = ("_parts", "_texts", "warnings")

    def __init__(self, parts: "tuple[_Part, ...]") -> None:
        self._parts = parts
        self._texts = any(part.weights for part in parts)
        self.warnings: tuple[str, ...] = tuple(warning for part in parts for warning in part.warnings)

    def faults(self, value: Any, limit: int = 10) -> tuple[Fault, ...]:
        """What is wrong with the value, `limit` problems at most; empty where it fits. Never raises for JSON."""
        try:
            size = measure(value, characters=self._texts)
        except TooLarge as problem:
            return (Fault("", str(problem), "more", "size"),)
        found: dict[Fault, None] = {}
        for part in self._parts:
            if len(found) < limit and (faults := part.faults(value, size, limit - len(found))):
                found.update(dict.fromkeys(faults))
        return tuple(found)


class _Part:
    """One schema of a check. What was read of it is dropped once compiled, and read again when a value needs it."""

    __slots__ = ("_engine", "_held", "_room", "_schema", "warnings", "weights")

    def __init__(self, schema: Schema, *, strict: bool) -> None:
        index = read(schema)
        self.weights, refused = _weighed(index)
        self.warnings = tuple(f"the pattern at {where} is not checked: {_NOT_LINEAR}" for where, _ in refused)
        if refused and strict:
            raise UnusableSchema(f"the pattern at {refused[0][0]:.120} cannot be used: {_NOT_LINEAR}")
        if refused:
            schema = _without(index, {pattern for _, pattern in refused})
            index = read(schema)
        self._schema = schema
        cost = Cost(index, self.weights)
        self._engine = _compiled(index)
        self._room = {depth: _room(cost, depth) for depth in range(1, _USUAL_DEPTH + 1)}
        self._held = (index, cost) if self.weights else None

    def faults(self, value: Any, size: Size, limit: int) -> list[Fault]:
        if not self._bounded(size):
            return self._judged(value, limit)
        try:
            if self._engine.is_valid(value):
                return []
        except (ValueError, UnicodeError):
            # A lone surrogate, a key that is no text: nothing JSON on a wire can carry.
            return [Fault("", "plain JSON", got(value), "type")]
        return self._explained(value, limit)

    def _read(self) -> tuple[Index, Cost]:
        held = self._held
        if held is None:
            index = read(self._schema)
            held = self._held = (index, Cost(index, self.weights))
        return held

    def _bounded(self, size: Size) -> bool:
        """Whether the engine is sure to be done in time."""
        depth = len(size.values)
        room = self._room.get(depth)
        if room is None:
            room = self._room[depth] = _room(self._read()[1], depth)
        if not room:
            return False
        if not self.weights and sum(size.values) <= room:
            return True
        cost = self._read()[1]
        spent = 0
        for level, count in enumerate(size.values):
            load = cost.at(level)
            # A property's name is matched at its object's level and, by `propertyNames`, one below.
            characters = size.characters[level] + (size.characters[level - 1] if level else 0) if self.weights else 0
            spent += count * load.steps * _STEP_NS + characters * load.weight
        return spent <= _BUDGET_NS

    def _judged(self, value: Any, limit: int) -> list[Fault]:
        """For what the engine could stall on; a dynamic reference only the engine can follow."""
        index = self._read()[0]
        try:
            if not index.dynamic:
                return [] if Judge(index, self.weights).holds(index.root, value) else self._explained(value, limit)
        except (OutOfSteps, RecursionError):
            pass
        return [Fault("", "a value that can be checked in bounded time", got(value), "time")]

    def _explained(self, value: Any, limit: int) -> list[Fault]:
        """The value does not fit; the judge says why."""
        index = self._read()[0]
        found: list[Fault] = []
        if not index.dynamic:
            judge = Judge(index, self.weights, EXPLAINING_STEPS)
            with suppress(OutOfSteps, RecursionError):
                found.extend(islice(judge.faults(value), limit))
        return found or [Fault("", "a value that fits the schema", got(value), "schema")]


def _room(cost: Cost, depth: int) -> int:
    """How many values of that depth the engine surely takes, whatever they are; 0 where none are."""
    loads = [cost.at(level) for level in range(depth)]
    if cost.recursive and sum(load.steps for load in loads) > _RECURSIVE_STEPS:
        return 0
    return _BUDGET_NS // (_STEP_NS * max(1, *(load.steps for load in loads)))


_NOT_LINEAR: Final = "it is no regular expression that can be matched in linear time"


def compile_check(schema: Mapping[str, Any], *extra: Mapping[str, Any]) -> Check:
    """`extra` tighten it: all must hold, each in its own dialect.

    A pattern of `schema` that linear time cannot match is left out with a warning, for its server checks it too; in
    `extra`, which only we enforce, it is an error.

    Raises:
        UnusableSchema: it cannot be checked with, and why.
    """
    return Check((_Part(schema, strict=False), *(_Part(more, strict=True) for more in extra)))


def _compiled(index: Index) -> Any:
    schema = index.root
    said = {"$schema": schema["$schema"]} if isinstance(schema, Mapping) and "$schema" in schema else {}
    try:
        for stray in index.strays:
            jsonschema_rs.meta.validate({**stray, **said})
        return _ENGINES[index.dialect](schema, pattern_options=OPTIONS, validate_formats=False, offline=True)
    except jsonschema_rs.ValidationError as problem:
        where = "".join(f"/{part}" for part in problem.instance_path)
        raise UnusableSchema(f"it is not a JSON Schema: {problem.message:.200} (at {where or 'its root'})") from None
    except (ValueError, jsonschema_rs.ReferencingError) as problem:
        raise UnusableSchema(f"it cannot be compiled: {problem!s:.200}") from None


def _weighed(index: Index) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """The weight of each pattern that can be used, and the places of those that cannot."""
    weights: dict[str, int] = {}
    refused: list[tuple[str, str]] = []
    heavy = 0
    for where, pattern in index.patterns:
        if pattern in weights:
            continue
        cost = weight(pattern, heavy=heavy < _HEAVY_LIMIT) if len(weights) < _PATTERNS_LIMIT else None
        if cost is None:
            if where.endswith("/patternProperties"):
                raise UnusableSchema(f"{pattern!r:.80} at {where:.120} cannot be used: {_NOT_LINEAR}")
            refused.append((where, pattern))
        else:
            weights[pattern] = cost
            heavy += cost > HEAVY
    return weights, refused


def _without(index: Index, patterns: set[str]) -> Schema:
    """The schema without those `pattern` keywords."""
    memo: dict[int, Any] = {}
    copy = deepcopy(index.root, memo)
    for key, node in index.nodes.items():
        if node.get("pattern") in patterns:
            del memo[key]["pattern"]
    return copy
