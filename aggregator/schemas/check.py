"""A schema made ready to check values with: the engine where its work is bounded, the judge where it is not.

Rule: `compile_quickly` and `at_once` are all that may run where others wait. What they do not do is done by `workers`.
"""

from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from itertools import islice
from typing import Any, Final

import jsonschema_rs

from aggregator.schemas.fault import Fault, UnusableSchema
from aggregator.schemas.judge import EXPLAINING_STEPS, OutOfSteps, SchemaJudge
from aggregator.schemas.structure.cost import Cost
from aggregator.schemas.structure.dialect import Dialect, Schema
from aggregator.schemas.structure.index import SchemaIndex, read
from aggregator.schemas.structure.measure import Size, ValueTooLarge, measure
from aggregator.schemas.structure.patterns import HEAVY, OPTIONS, Costly, Weigh, light_weight, weight
from aggregator.schemas.wording import got

# The most one check may take in the engine, by what a step took in its worst cases (measured).
_BUDGET_NS: Final = 200_000_000
_STEP_NS: Final = 40
# The same of one that is made at once, in the process that serves everybody: it has to be beyond doubt.
_AT_ONCE_NS: Final = 5_000_000
_SURE_STEP_NS: Final = 200
_AT_ONCE_VALUES: Final = 10_000
_AT_ONCE_NUMBER: Final = 2**64
# Explaining what does not fit costs more than finding it.
_EXPLAINED_VALUES: Final = 500
_EXPLAINED_STEPS: Final = 600
# With `unevaluated...` each member of an object or array may be looked for in all that applies to the same place.
_LOOKED_BACK_VALUES: Final = 16
# Recursive schemas are unrolled by the engine as it goes, which costs far more a step.
_RECURSIVE_STEPS: Final = 1_000
# Of nearly all arguments; for these the loads are worked out ahead.
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


class SchemaCheck:
    """Immutable and safe in threads. `warnings` say what of the schema is not checked, `schemas` what was compiled."""

    __slots__ = ("__weakref__", "_parts", "_texts", "schemas", "warnings")

    def __init__(self, parts: "tuple[_Part, ...]", schemas: tuple[Schema, ...]) -> None:
        self._parts = parts
        self._texts = any(part.weights for part in parts)
        self.schemas = schemas
        self.warnings: tuple[str, ...] = tuple(warning for part in parts for warning in part.warnings)

    def at_once(self, value: Any, limit: int = 10) -> tuple[Fault, ...] | None:
        """Return what `faults` does, or None unless that surely takes a few milliseconds at most. Never raises for
        JSON."""
        try:
            size = measure(value, characters=self._texts, most=_AT_ONCE_VALUES, number=_AT_ONCE_NUMBER)
        except ValueTooLarge:
            return None
        found: dict[Fault, None] = {}
        for part in self._parts:
            if len(found) < limit:
                faults = part.at_once(value, size, limit - len(found))
                if faults is None:
                    return None
                if faults:
                    found.update(dict.fromkeys(faults))
        return tuple(found)

    def faults(self, value: Any, limit: int = 10, *, killable: bool = False) -> tuple[Fault, ...]:
        """What is wrong with the value, `limit` problems at most; empty where it fits. Never raises for JSON.

        It takes some tenths of a second at most, as far as can be foreseen, and is for where nobody else waits.
        `killable`: somebody ends the process if it takes too long, so that nothing is left undone.
        """
        try:
            size = measure(value, characters=self._texts)
        except ValueTooLarge as problem:
            return (Fault("", str(problem), "more", "size"),)
        found: dict[Fault, None] = {}
        for part in self._parts:
            if len(found) < limit and (faults := part.faults(value, size, limit - len(found), killable)):
                found.update(dict.fromkeys(faults))
        return tuple(found)


class _Part:
    """One schema of a check. What was read of it is dropped once compiled, and read again when a value needs it."""

    __slots__ = ("_cost", "_engine", "_held", "_most", "_schema", "_steps", "warnings", "weights")

    def __init__(self, schema: Schema, *, strict: bool, weigh: Weigh = weight) -> None:
        index = read(schema)
        self.weights, refused = _weighed(index, weigh)
        self.warnings = tuple(f"the pattern at {where} is not checked: {_NOT_LINEAR}" for where, _ in refused)
        if refused and strict:
            raise UnusableSchema(f"the pattern at {refused[0][0]:.120} cannot be used: {_NOT_LINEAR}")
        if refused:
            schema = _without(index, {pattern for _, pattern in refused})
            index = read(schema)
        self._schema = schema
        cost = Cost(index, self.weights, _LOOKED_BACK_VALUES + 1)
        self._engine = _compiled(index)
        # By depth of a value: the most steps that one place in it can take; None where that is not to be told.
        self._steps = {depth: _most_steps(cost, depth) for depth in range(1, _USUAL_DEPTH + 1)}
        self._most = _LOOKED_BACK_VALUES if index.looks_back else _AT_ONCE_VALUES
        self._cost = cost if self.weights else None
        self._held: tuple[SchemaIndex, Cost] | None = None

    def at_once(self, value: Any, size: Size, limit: int) -> list[Fault] | None:
        """None where it may take longer than anybody should have to wait."""
        if not self._is_quick(size):
            return None
        try:
            if self._engine.is_valid(value):
                return []
        except (ValueError, UnicodeError):
            return [Fault("", "plain JSON", got(value), "type")]
        if sum(size.values) > _EXPLAINED_VALUES:
            return None
        return self._explained(value, limit, _EXPLAINED_STEPS)

    def faults(self, value: Any, size: Size, limit: int, killable: bool) -> list[Fault]:
        if not self._bounded(size):
            judged = self._judged(value, limit)
            if judged is not None:
                return judged
            if not killable:
                return [Fault("", "a value that can be checked in bounded time", got(value), "time")]
        try:
            if self._engine.is_valid(value):
                return []
        except (ValueError, UnicodeError):
            # A lone surrogate, a key that is no text: nothing JSON on a wire can carry.
            return [Fault("", "plain JSON", got(value), "type")]
        return self._surely_explained(value, limit)

    def _is_quick(self, size: Size) -> bool:
        """Whether the engine is sure to need a few milliseconds at most."""
        count, depth = sum(size.values), len(size.values)
        if count > self._most:
            return False
        if depth not in self._steps:
            cost = self._cost or Cost(self._read()[0], self.weights, _LOOKED_BACK_VALUES + 1)
            self._steps[depth] = _most_steps(cost, depth)
        steps = self._steps[depth]
        if steps is None or count * steps * _SURE_STEP_NS > _AT_ONCE_NS:
            return False
        return self._cost is None or _spent(self._cost, size, _SURE_STEP_NS) <= _AT_ONCE_NS

    def _read(self) -> tuple[SchemaIndex, Cost]:
        held = self._held
        if held is None:
            index = read(self._schema)
            held = self._held = (index, Cost(index, self.weights))
        return held

    def _bounded(self, size: Size) -> bool:
        """Whether the engine is sure to be done in time."""
        cost = self._read()[1]
        steps = _most_steps(cost, len(size.values))
        return steps is not None and _spent(cost, size, _STEP_NS) <= _BUDGET_NS

    def _judged(self, value: Any, limit: int) -> list[Fault] | None:
        """For what the engine could stall on; None where that does not do. Dynamic references need the engine."""
        index = self._read()[0]
        try:
            if not index.dynamic:
                fits = SchemaJudge(index, self.weights).holds(index.root, value)
                return [] if fits else self._surely_explained(value, limit)
        except (OutOfSteps, RecursionError):
            pass
        return None

    def _explained(self, value: Any, limit: int, steps: int) -> list[Fault] | None:
        """The value does not fit; the judge says why, with `steps` at most. None where they do not do."""
        index = self._read()[0]
        found: list[Fault] = []
        if not index.dynamic:
            try:
                found.extend(islice(SchemaJudge(index, self.weights, steps).faults(value), limit))
            except (OutOfSteps, RecursionError):
                return None
        return found or [_unexplained(value)]

    def _surely_explained(self, value: Any, limit: int) -> list[Fault]:
        """As much as the judge says of it in its time."""
        index = self._read()[0]
        found: list[Fault] = []
        if not index.dynamic:
            judge = SchemaJudge(index, self.weights, EXPLAINING_STEPS)
            with suppress(OutOfSteps, RecursionError):
                found.extend(islice(judge.faults(value), limit))
        return found or [_unexplained(value)]


def _unexplained(value: Any) -> Fault:
    return Fault("", "a value that fits the schema", got(value), "schema")


def _most_steps(cost: Cost, depth: int) -> int | None:
    """The most steps that one place of a value of that depth can take; None where it is not to be told."""
    loads = [cost.at(level).steps for level in range(depth)]
    return None if cost.recursive and sum(loads) > _RECURSIVE_STEPS else max(1, *loads)


def _spent(cost: Cost, size: Size, step_ns: int) -> int:
    """The nanoseconds that a value of that size can take."""
    spent = 0
    for level, count in enumerate(size.values):
        load = cost.at(level)
        # A property's name is matched at its object's level and, by `propertyNames`, one below.
        characters = size.characters[level] + (size.characters[level - 1] if level else 0) if size.characters else 0
        spent += count * load.steps * step_ns + characters * load.weight
    return spent


_NOT_LINEAR: Final = "it is no regular expression that can be matched in linear time"


def compile_check(schema: Mapping[str, Any], *extra: Mapping[str, Any]) -> SchemaCheck:
    """`extra` tighten it: all must hold, each in its own dialect.

    A pattern of `schema` that linear time cannot match is left out with a warning, for its server checks it too; in
    `extra`, which only we enforce, it is an error.

    Raises:
        UnusableSchema: it cannot be checked with, and why.
    """
    parts = (_Part(schema, strict=False), *(_Part(more, strict=True) for more in extra))
    return SchemaCheck(parts, (schema, *extra))


def compile_quickly(schema: Mapping[str, Any], *extra: Mapping[str, Any]) -> SchemaCheck | None:
    """Return what `compile_check` does of schemas that are modest, or None where a pattern may take long to compile.

    Raises:
        UnusableSchema: it cannot be checked with, and why.
    """
    try:
        parts = (
            _Part(schema, strict=False, weigh=light_weight),
            *(_Part(more, strict=True, weigh=light_weight) for more in extra),
        )
    except Costly:
        return None
    return SchemaCheck(parts, (schema, *extra))


def _compiled(index: SchemaIndex) -> Any:
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


def _weighed(index: SchemaIndex, weigh: Weigh) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """The weight of each pattern that can be used, and the places of those that cannot."""
    weights: dict[str, int] = {}
    refused: list[tuple[str, str]] = []
    heavy = 0
    for where, pattern in index.patterns:
        if pattern in weights:
            continue
        cost = weigh(pattern, heavy=heavy < _HEAVY_LIMIT) if len(weights) < _PATTERNS_LIMIT else None
        if cost is None:
            if where.endswith("/patternProperties"):
                raise UnusableSchema(f"{pattern!r:.80} at {where:.120} cannot be used: {_NOT_LINEAR}")
            refused.append((where, pattern))
        else:
            weights[pattern] = cost
            heavy += cost > HEAVY
    return weights, refused


def _without(index: SchemaIndex, patterns: set[str]) -> Schema:
    """The schema without those `pattern` keywords."""
    memo: dict[int, Any] = {}
    copy = deepcopy(index.root, memo)
    for key, node in index.nodes.items():
        if node.get("pattern") in patterns:
            del memo[key]["pattern"]
    return copy
