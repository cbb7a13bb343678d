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
from aggregator.schemas.index import DEPTH_LIMIT as SCHEMA_DEPTH
from aggregator.schemas.index import Index, read
from aggregator.schemas.judge import Judge, OutOfSteps
from aggregator.schemas.measure import Size, TooLarge, measure
from aggregator.schemas.patterns import OPTIONS, weight
from aggregator.schemas.wording import got

# The most one check may take in the engine, by what a step took in its worst cases (measured).
_BUDGET_NS: Final = 200_000_000
_STEP_NS: Final = 40
# Recursive schemas are unrolled by the engine as it goes, which costs far more a step.
_RECURSIVE_STEPS: Final = 1_000
_PATTERNS_LIMIT: Final = 1_000
_HEAVY: Final = 1_000
_HEAVY_LIMIT: Final = 20

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
            if len(found) < limit:
                found.update(dict.fromkeys(part.faults(value, size, limit - len(found))))
        return tuple(found)


class _Part:
    """One schema of a check."""

    __slots__ = ("_cost", "_engine", "_index", "_surely", "warnings", "weights")

    def __init__(self, schema: Schema, *, strict: bool) -> None:
        index = read(schema)
        self.weights, refused = _weighed(index)
        self.warnings = tuple(f"the pattern at {where} is not checked: {_NOT_LINEAR}" for where, _ in refused)
        if refused and strict:
            raise UnusableSchema(f"the pattern at {refused[0][0]:.120} cannot be used: {_NOT_LINEAR}")
        if refused:
            schema = _without(index, {pattern for _, pattern in refused})
            index = read(schema)
        self._index = index
        self._cost = Cost(index, self.weights)
        self._engine = _compiled(schema, index.dialect)
        self._surely = 0 if self._cost.recursive or self.weights else _surely(self._cost)

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

    def _bounded(self, size: Size) -> bool:
        """Whether the engine is sure to be done in time."""
        if sum(size.values) <= self._surely:
            return True
        spent = steps = 0
        for level, count in enumerate(size.values):
            load = self._cost.at(level)
            steps += load.steps
            spent += count * load.steps * _STEP_NS
            if self.weights:
                # A property's name is matched at its object's level and, by `propertyNames`, one below.
                spent += load.weight * (size.characters[level] + (size.characters[level - 1] if level else 0))
        return spent <= _BUDGET_NS and not (self._cost.recursive and steps > _RECURSIVE_STEPS)

    def _judged(self, value: Any, limit: int) -> list[Fault]:
        if self._index.dynamic:
            return [Fault("", "a value that can be checked in bounded time", got(value), "time")]
        try:
            return list(islice(Judge(self._index, self.weights).faults(value), limit))
        except (OutOfSteps, RecursionError):
            return [Fault("", "a value that can be checked in bounded time", got(value), "time")]

    def _explained(self, value: Any, limit: int) -> list[Fault]:
        """The engine has said no; the judge says why."""
        found: list[Fault] = []
        if not self._index.dynamic:
            with suppress(OutOfSteps, RecursionError):
                found.extend(islice(Judge(self._index, self.weights).faults(value), limit))
        return found or [Fault("", "a value that fits the schema", got(value), "schema")]


_NOT_LINEAR: Final = "it is no regular expression that can be matched in linear time"


def compile_check(schema: Mapping[str, Any], *extra: Mapping[str, Any]) -> Check:
    """`extra` tighten it: all must hold, each in its own dialect.

    A pattern of `schema` that linear time cannot match is left out with a warning, for its server checks it too; in
    `extra`, which only we enforce, it is an error.

    Raises:
        UnusableSchema: it cannot be checked with, and why.
    """
    return Check((_Part(schema, strict=False), *(_Part(more, strict=True) for more in extra)))


def _compiled(schema: Schema, dialect: Dialect) -> Any:
    try:
        # The dialect is known by now; `$schema` may carry a trailing `#` or not.
        return _ENGINES[dialect](schema, pattern_options=OPTIONS, validate_formats=False, offline=True)
    except jsonschema_rs.ValidationError as problem:
        where = "".join(f"/{part}" for part in problem.instance_path)
        raise UnusableSchema(f"it is not a JSON Schema: {problem.message:.200} (at {where or 'its root'})") from None
    except (ValueError, jsonschema_rs.ReferencingError) as problem:
        raise UnusableSchema(f"it cannot be compiled: {problem!s:.200}") from None


def _surely(cost: Cost) -> int:
    """How many values are no question at all; for a schema that ends, and has no patterns."""
    most = level = 0
    while (steps := cost.at(level).steps) and level < SCHEMA_DEPTH:
        most, level = max(most, steps), level + 1
    return _BUDGET_NS // (_STEP_NS * max(1, most))


def _weighed(index: Index) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """The weight of each pattern that can be used, and the places of those that cannot."""
    weights: dict[str, int] = {}
    refused: list[tuple[str, str]] = []
    heavy = 0
    for where, pattern in index.patterns:
        if pattern in weights:
            continue
        cost = weight(pattern) if len(weights) < _PATTERNS_LIMIT else None
        heavy += cost is not None and cost > _HEAVY
        if cost is None or heavy > _HEAVY_LIMIT:
            if where.endswith("/patternProperties"):
                raise UnusableSchema(f"{pattern!r:.80} at {where:.120} cannot be used: {_NOT_LINEAR}")
            refused.append((where, pattern))
        else:
            weights[pattern] = cost
    return weights, refused


def _without(index: Index, patterns: set[str]) -> Schema:
    """The schema without those `pattern` keywords."""
    memo: dict[int, Any] = {}
    copy = deepcopy(index.root, memo)
    for key, node in index.nodes.items():
        if node.get("pattern") in patterns:
            del memo[key]["pattern"]
    return copy
