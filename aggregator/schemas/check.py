"""Schemas compiled for checking: the engine if its cost is bounded, else the interpreter.

Rule: on the event loop only `compile_quickly` and `at_once` may run. `workers` makes the checks that these refuse.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from copy import deepcopy
from itertools import islice
from typing import Any, Final

import jsonschema_rs

from aggregator.domain.subschemas import Schema
from aggregator.domain.text.error_text import error_text
from aggregator.schemas.fault import Fault, UnusableSchema
from aggregator.schemas.interpreter import EXPLAINING_STEPS, OutOfSteps, SchemaInterpreter
from aggregator.schemas.structure.cost import Cost
from aggregator.schemas.structure.dialect import Dialect
from aggregator.schemas.structure.index import SchemaIndex, read
from aggregator.schemas.structure.measure import Size, ValueTooLarge, measure
from aggregator.schemas.structure.patterns import HEAVY, OPTIONS, Costly, PatternWeigher, light_weight, weight
from aggregator.schemas.wording import got

# The most time one check may take in the engine, and the time of a step in its worst cases (measured).
_BUDGET_NS: Final = 200_000_000
_STEP_NS: Final = 40
# Both for an immediate check on the event loop, which needs a certain bound.
_AT_ONCE_NS: Final = 5_000_000
_SURE_STEP_NS: Final = 200
_AT_ONCE_VALUES: Final = 10_000
_AT_ONCE_NUMBER: Final = 2**64
# Explaining a misfit costs more than finding it.
_EXPLAINED_VALUES: Final = 500
_EXPLAINED_STEPS: Final = 600
# With `unevaluated...` each member of an object or array may be searched for in everything that applies at the same
# place.
_UNEVALUATED_VALUES: Final = 16
# Recursive schemas are unrolled by the engine as it goes, which costs far more a step.
_RECURSIVE_STEPS: Final = 1_000
# The depth of nearly all arguments; the loads of these levels are computed ahead.
_USUAL_DEPTH: Final = 4
_PATTERNS_LIMIT: Final = 300
_HEAVY_LIMIT: Final = 8
# An object of so many members at most, all of these types, is checked without being measured.
_FEW: Final = 32
_PLAIN: Final = frozenset({str, bool, int, type(None)})

_ENGINES: Final[Mapping[Dialect, Any]] = {
    Dialect.DRAFT_04: jsonschema_rs.Draft4Validator,
    Dialect.DRAFT_06: jsonschema_rs.Draft6Validator,
    Dialect.DRAFT_07: jsonschema_rs.Draft7Validator,
    Dialect.DRAFT_2019_09: jsonschema_rs.Draft201909Validator,
    Dialect.DRAFT_2020_12: jsonschema_rs.Draft202012Validator,
}


class SchemaCheck:
    """A compiled check of one schema and those that tighten it. Immutable and safe in threads.

    `warnings` name the parts of the schema that are not checked, `schemas` are the schemas that were compiled.
    """

    __slots__ = ("__weakref__", "_counts_characters", "_parts", "schemas", "warnings")

    def __init__(self, parts: "tuple[_CompiledSchema, ...]", schemas: tuple[Schema, ...]) -> None:
        self._parts = parts
        self._counts_characters = any(part.weights for part in parts)
        self.schemas = schemas
        self.warnings: tuple[str, ...] = tuple(warning for part in parts for warning in part.warnings)

    def at_once(self, value: Any, limit: int = 10) -> tuple[Fault, ...] | None:
        """Return the result of `faults`, or None unless it is certain to take a few milliseconds at most. Never raises
        for JSON.
        """
        try:
            size = measure(value, characters=self._counts_characters, most=_AT_ONCE_VALUES, number=_AT_ONCE_NUMBER)
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

    def fits_at_once(self, value: Any) -> bool:
        """Return True if the value fits and a few milliseconds are certain to be enough to find out. Never raises for
        JSON.
        """
        if type(value) is dict and len(value) <= _FEW and _are_plain(value.values()):
            # Nearly all arguments: nothing inside the object has to be measured.
            return all([part.fits_if_plain(value) for part in self._parts])
        try:
            size = measure(value, characters=self._counts_characters, most=_AT_ONCE_VALUES, number=_AT_ONCE_NUMBER)
        except ValueTooLarge:
            return False
        return all([part.fits_at_once(value, size) for part in self._parts])

    def faults(self, value: Any, limit: int = 10, *, killable: bool = False) -> tuple[Fault, ...]:
        """Return the problems of the value, `limit` at most; empty if it fits. Never raises for JSON.

        Takes some tenths of a second at most, as far as can be foreseen, and so is for worker processes. `killable`:
        the process is ended if it takes too long, so that no check is refused for its cost.
        """
        try:
            size = measure(value, characters=self._counts_characters)
        except ValueTooLarge as problem:
            return (Fault("", str(problem), "more", "size"),)
        found: dict[Fault, None] = {}
        for part in self._parts:
            if len(found) < limit and (faults := part.faults(value, size, limit - len(found), killable)):
                found.update(dict.fromkeys(faults))
        return tuple(found)


class _CompiledSchema:
    """One schema of a check. Its index is dropped once the schema is compiled, and made again when a value needs it."""

    __slots__ = (
        "_cost",
        "_engine",
        "_index_and_cost",
        "_is_quick_if_plain",
        "_most",
        "_schema",
        "_steps",
        "warnings",
        "weights",
    )

    def __init__(self, schema: Schema, *, strict: bool, weigh: PatternWeigher = weight) -> None:
        index = read(schema)
        self.weights, refused = _weighed(index, weigh)
        self.warnings = tuple(f"the pattern at {where} is not checked: {_NOT_LINEAR}" for where, _ in refused)
        if refused and strict:
            raise UnusableSchema(f"the pattern at {refused[0][0]:.120} cannot be used: {_NOT_LINEAR}")
        if refused:
            schema = _without(index, {pattern for _, pattern in refused})
            index = read(schema)
        self._schema = schema
        cost = Cost(index, self.weights, _UNEVALUATED_VALUES + 1)
        self._engine = _compiled(index)
        # By depth of a value: the most steps that one place in it can take; None if unbounded.
        self._steps = {depth: _most_steps(cost, depth) for depth in range(1, _USUAL_DEPTH + 1)}
        self._most = _UNEVALUATED_VALUES if index.has_unevaluated else _AT_ONCE_VALUES
        self._cost = cost if self.weights else None
        self._index_and_cost: tuple[SchemaIndex, Cost] | None = None
        # None until first computed.
        self._is_quick_if_plain: bool | None = None

    def at_once(self, value: Any, size: Size, limit: int) -> list[Fault] | None:
        """Return the faults of the value, or None if that may take longer than the event loop can wait."""
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

    def fits_if_plain(self, value: dict[str, Any]) -> bool:
        """Return True if an object of plain members (`_are_plain`) fits, and the event loop can wait for that to be
        known.
        """
        if self._is_quick_if_plain is None:
            few = Size([1, _FEW], [])
            self._is_quick_if_plain = self._cost is None and self._is_quick(few)
        if not self._is_quick_if_plain:
            return self.fits_at_once(value, measure(value, characters=bool(self.weights)))
        try:
            return bool(self._engine.is_valid(value))
        except (ValueError, UnicodeError):
            return False

    def fits_at_once(self, value: Any, size: Size) -> bool:
        """Return True if the value fits and the event loop can wait for the answer."""
        try:
            return self._is_quick(size) and bool(self._engine.is_valid(value))
        except (ValueError, UnicodeError):
            return False

    def faults(self, value: Any, size: Size, limit: int, killable: bool) -> list[Fault]:
        """Return the faults of the value; `killable` as in `SchemaCheck.faults`."""
        if not self._bounded(size):
            found = self._interpreted(value, limit)
            if found is not None:
                return found
            if not killable:
                return [Fault("", "a value that can be checked in bounded time", got(value), "time")]
        try:
            if self._engine.is_valid(value):
                return []
        except (ValueError, UnicodeError):
            # A lone surrogate, a key that is no text: nothing JSON on a wire can carry.
            return [Fault("", "plain JSON", got(value), "type")]
        return self._explained_in_part(value, limit)

    def _is_quick(self, size: Size) -> bool:
        """Tell whether the engine is certain to need a few milliseconds at most."""
        count, depth = sum(size.values), len(size.values)
        if count > self._most:
            return False
        if depth not in self._steps:
            cost = self._cost or Cost(self._read()[0], self.weights, _UNEVALUATED_VALUES + 1)
            self._steps[depth] = _most_steps(cost, depth)
        steps = self._steps[depth]
        if steps is None or count * steps * _SURE_STEP_NS > _AT_ONCE_NS:
            return False
        return self._cost is None or _nanoseconds(self._cost, size, _SURE_STEP_NS) <= _AT_ONCE_NS

    def _read(self) -> tuple[SchemaIndex, Cost]:
        known = self._index_and_cost
        if known is None:
            index = read(self._schema)
            known = self._index_and_cost = (index, Cost(index, self.weights))
        return known

    def _bounded(self, size: Size) -> bool:
        """Tell whether the engine is certain to finish in time."""
        cost = self._read()[1]
        steps = _most_steps(cost, len(size.values))
        return steps is not None and _nanoseconds(cost, size, _STEP_NS) <= _BUDGET_NS

    def _interpreted(self, value: Any, limit: int) -> list[Fault] | None:
        """Check with the interpreter if the engine could stall; None if it runs out of steps.

        Dynamic references need the engine.
        """
        index = self._read()[0]
        try:
            if not index.dynamic:
                fits = SchemaInterpreter(index, self.weights).holds(index.root, value)
                return [] if fits else self._explained_in_part(value, limit)
        except (OutOfSteps, RecursionError):
            pass
        return None

    def _explained(self, value: Any, limit: int, steps: int) -> list[Fault] | None:
        """Explain why the value does not fit, in `steps` at most; None if they are too few."""
        index = self._read()[0]
        found: list[Fault] = []
        if not index.dynamic:
            try:
                found.extend(islice(SchemaInterpreter(index, self.weights, steps).faults(value), limit))
            except (OutOfSteps, RecursionError):
                return None
        return found or [_unexplained(value)]

    def _explained_in_part(self, value: Any, limit: int) -> list[Fault]:
        """Explain why the value does not fit, as far as `EXPLAINING_STEPS` go."""
        index = self._read()[0]
        found: list[Fault] = []
        if not index.dynamic:
            interpreter = SchemaInterpreter(index, self.weights, EXPLAINING_STEPS)
            with suppress(OutOfSteps, RecursionError):
                found.extend(islice(interpreter.faults(value), limit))
        return found or [_unexplained(value)]


def _are_plain(values: Collection[Any]) -> bool:
    """Return whether no value holds others, or is a number that has to be measured."""
    types = set(map(type, values))
    if not _PLAIN.issuperset(types):
        return False
    return int not in types or all([type(one) is not int or -_AT_ONCE_NUMBER < one < _AT_ONCE_NUMBER for one in values])


def _unexplained(value: Any) -> Fault:
    return Fault("", "a value that fits the schema", got(value), "schema")


def _most_steps(cost: Cost, depth: int) -> int | None:
    """Return the most steps that one place of a value of that depth can take; None if unbounded."""
    loads = [cost.at(level).steps for level in range(depth)]
    return None if cost.recursive and sum(loads) > _RECURSIVE_STEPS else max(1, *loads)


def _nanoseconds(cost: Cost, size: Size, step_ns: int) -> int:
    """Return the nanoseconds that a value of that size can take."""
    spent = 0
    for level, count in enumerate(size.values):
        load = cost.at(level)
        # A property's name is matched at its object's level and, by `propertyNames`, one below.
        characters = size.characters[level] + (size.characters[level - 1] if level else 0) if size.characters else 0
        spent += count * load.steps * step_ns + characters * load.weight
    return spent


_NOT_LINEAR: Final = "it is no regular expression that can be matched in linear time"


def compile_check(schema: Mapping[str, Any], *extra: Mapping[str, Any]) -> SchemaCheck:
    """Compile a check of `schema`, tightened by `extra`: all must hold, each in its own dialect.

    A pattern of `schema` that linear time cannot match is left out with a warning, since its server checks it too; in
    `extra`, which only the gateway enforces, it is an error.

    Raises:
        UnusableSchema: the schema cannot be compiled; the message says why.
    """
    parts = (_CompiledSchema(schema, strict=False), *(_CompiledSchema(more, strict=True) for more in extra))
    return SchemaCheck(parts, (schema, *extra))


def compile_quickly(schema: Mapping[str, Any], *extra: Mapping[str, Any]) -> SchemaCheck | None:
    """Compile like `compile_check` in milliseconds, or return None if a pattern may take long to compile.

    Raises:
        UnusableSchema: the schema cannot be compiled; the message says why.
    """
    try:
        parts = (
            _CompiledSchema(schema, strict=False, weigh=light_weight),
            *(_CompiledSchema(more, strict=True, weigh=light_weight) for more in extra),
        )
    except Costly:
        return None
    return SchemaCheck(parts, (schema, *extra))


def _compiled(index: SchemaIndex) -> Any:
    schema = index.root
    dialect = {"$schema": schema["$schema"]} if isinstance(schema, Mapping) and "$schema" in schema else {}
    try:
        for target in index.unmarked_targets:
            jsonschema_rs.meta.validate({**target, **dialect})
        return _ENGINES[index.dialect](schema, pattern_options=OPTIONS, validate_formats=False, offline=True)
    except jsonschema_rs.ValidationError as problem:
        where = "".join(f"/{part}" for part in problem.instance_path)
        raise UnusableSchema(f"it is not a JSON Schema: {problem.message:.200} (at {where or 'its root'})") from None
    except (ValueError, jsonschema_rs.ReferencingError) as problem:
        raise UnusableSchema(f"it cannot be compiled: {error_text(problem):.200}") from None


def _weighed(index: SchemaIndex, weigh: PatternWeigher) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Return the weight of each pattern that can be used, and the places of those that cannot."""
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
    """Return the schema without those `pattern` keywords."""
    memo: dict[int, Any] = {}
    copy = deepcopy(index.root, memo)
    for key, node in index.nodes.items():
        if node.get("pattern") in patterns:
            del memo[key]["pattern"]
    return copy
