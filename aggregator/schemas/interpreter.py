"""An interpreter of JSON Schema that counts its steps: for explanations, and if the engine could stall.

The result for a schema object and a value is cached, so the work grows with the product of the two and never with the
number of paths through the schema; and ends when the steps are used up.
"""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

from aggregator.domain.subschemas import REFERENCES, Schema
from aggregator.schemas.branches import explain_alternatives
from aggregator.schemas.fault import Fault, step
from aggregator.schemas.structure.dialect import Dialect
from aggregator.schemas.structure.equality import first_duplicate, hashable
from aggregator.schemas.structure.index import SchemaIndex
from aggregator.schemas.structure.patterns import matches
from aggregator.schemas.wording import (
    got,
    has_type,
    limit_faults,
    misnamed,
    one_of,
    options_compared,
    outline,
    short,
    types_of,
)

STEPS: Final = 30_000
EXPLAINING_STEPS: Final = 6_000
# The approximate time of one step, by which the matching of patterns is charged.
_STEP_NS: Final = 8_000
# Members visited, and values compared, in one step.
_MEMBERS: Final = 16
_COMPARED: Final = 50
# Steps that describing one schema takes at most.
_OUTLINE: Final = 15
_DIVISION: Final = 8


_NO: Final = Fault("", "", "", "")


class OutOfSteps(Exception):
    """The check would take longer than one check may."""


class SchemaInterpreter:
    """The interpreter, for one value; made anew each time."""

    def __init__(self, index: SchemaIndex, weights: Mapping[str, int], steps: int = STEPS) -> None:
        self._index = index
        self._dialect = index.dialect
        self._weights = weights
        self._left = steps
        self._known: dict[tuple[int, int], bool] = {}
        self._options: dict[int, frozenset[Any]] = {}
        self._frozen_values: dict[int, Any] = {}
        # Above zero while only yes or no is wanted, and no explanation.
        self._terse = 0

    def faults(self, value: Any) -> Iterator[Fault]:
        """Yield the faults of the value, in the order of the schema.

        Raises:
            OutOfSteps: the steps ran out before the last fault.
        """
        return self.problems(self._index.root, value, "")

    def holds(self, schema: Schema, value: Any) -> bool:
        """Tell whether the value fits."""
        if isinstance(schema, bool):
            return schema
        key = (id(schema), id(value))
        known = self._known.get(key)
        if known is None:
            self._terse += 1
            try:
                known = self._known[key] = next(self.problems(schema, value, ""), None) is None
            finally:
                self._terse -= 1
        return known

    def spend(self, steps: int) -> None:
        """Count steps.

        Raises:
            OutOfSteps: none are left.
        """
        self._left -= steps
        if self._left < 0:
            raise OutOfSteps

    def problems(self, schema: Schema, value: Any, at: str) -> Iterator[Fault]:
        """Yield each fault of a value that stands at the pointer `at`, looking only into parts that do not hold."""
        self.spend(1)
        if isinstance(schema, bool):
            if not schema:
                yield Fault(at, "nothing here", got(value), "false")
            return
        for keyword in REFERENCES:
            for target in self._index.targets.get((id(schema), keyword), ())[:1]:
                yield from self._faults_within(target, value, at)
                if self._dialect <= Dialect.DRAFT_07:
                    return
        yield from self._type_faults(schema, value, at)
        if isinstance(value, str):
            yield from self._text_faults(schema, value, at)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            if "multipleOf" in schema:
                self.spend(_DIVISION)
            yield from _number_faults(schema, value, at, self._dialect)
        elif isinstance(value, list):
            yield from self._array_faults(schema, value, at)
        elif isinstance(value, dict):
            yield from self._object_faults(schema, value, at)
        yield from self._branch_faults(schema, value, at)
        if self._index.has_unevaluated and self._dialect >= Dialect.DRAFT_2019_09:
            yield from self._unevaluated_faults(schema, value, at)

    def _faults_within(self, schema: Schema, value: Any, at: str) -> Iterator[Fault]:
        if not self.holds(schema, value):
            yield from self.problems(schema, value, at)

    def _type_faults(self, schema: Mapping[str, Any], value: Any, at: str) -> Iterator[Fault]:
        expected = types_of(schema)
        if expected and not has_type(value, expected, self._dialect):
            yield Fault(at, one_of(expected), got(value), "type")
            return
        options = schema.get("enum")
        if isinstance(options, list) and self._hashable_value(value) not in self._hashable_options(options, options):
            if self._terse:
                yield _NO
            else:
                self.spend(options_compared(options, value))
                yield Fault(at, one_of(options, quoted=True, near=value), got(value), "enum")
        if "const" in schema and self._dialect > Dialect.DRAFT_04:
            expected = schema["const"]
            if self._hashable_value(value) not in self._hashable_options(schema, [expected]):
                yield _NO if self._terse else Fault(at, one_of([expected], quoted=True), got(value), "const")

    def _hashable_options(self, owner: Any, options: list[Any]) -> frozenset[Any]:
        known = self._options.get(id(owner))
        if known is None:
            self.spend(sum(_values_in(option) for option in options) // _COMPARED)
            known = self._options[id(owner)] = frozenset(map(hashable, options))
        return known

    def _hashable_value(self, value: Any) -> Any:
        if not isinstance(value, dict | list):
            return hashable(value)
        if id(value) not in self._frozen_values:
            self.spend(_values_in(value) // _COMPARED)
            self._frozen_values[id(value)] = hashable(value)
        return self._frozen_values[id(value)]

    def _text_faults(self, schema: Mapping[str, Any], value: str, at: str) -> Iterator[Fault]:
        yield from limit_faults(schema, "minLength", "maxLength", len(value), "characters", value, at)
        pattern = schema.get("pattern")
        if isinstance(pattern, str) and pattern in self._weights and not self._match(pattern, value):
            yield Fault(at, f"a text that matches {pattern:.120}", got(value), "pattern")

    def _match(self, pattern: str, text: str) -> bool:
        self.spend(1 + len(text) * self._weights[pattern] // _STEP_NS)
        return matches(pattern, text)

    def _array_faults(self, schema: Mapping[str, Any], value: list[Any], at: str) -> Iterator[Fault]:
        yield from limit_faults(schema, "minItems", "maxItems", len(value), "items", value, at)
        if schema.get("uniqueItems") is True:
            self.spend(_values_in(value) // _COMPARED)
            twice = first_duplicate(value)
            if twice is not None:
                yield Fault(step(at, twice), "an item unlike the others", got(value[twice]), "uniqueItems")
        first, rest = self._items(schema)
        for number, item in enumerate(value):
            self.spend(number % _MEMBERS == 0)
            inside = first[number] if number < len(first) else rest
            if inside is not None:
                yield from self._item(inside, item, at, number)
        if "contains" in schema and self._dialect > Dialect.DRAFT_04:
            yield from self._contains(schema, value, at)

    def _item(self, schema: Schema, item: Any, at: str, number: int) -> Iterator[Fault]:
        if not self.holds(schema, item):
            yield from self.problems(schema, item, step(at, number))

    def _items(self, schema: Mapping[str, Any]) -> tuple[list[Schema], Schema | None]:
        """Return the schemas of the first items, and the one of those after."""
        items = schema.get("items")
        if self._dialect == Dialect.DRAFT_2020_12:
            first = schema.get("prefixItems")
            return (first if isinstance(first, list) else []), items
        if isinstance(items, list):
            return items, schema.get("additionalItems")
        return [], items

    def _contains(self, schema: Mapping[str, Any], value: list[Any], at: str) -> Iterator[Fault]:
        new = self._dialect >= Dialect.DRAFT_2019_09
        least = schema.get("minContains", 1) if new else 1
        most = schema.get("maxContains") if new else None
        self.spend(len(value) // _MEMBERS)
        found = sum(self.holds(schema["contains"], item) for item in value)
        if found < least:
            expected = f"at least {short(least)} items that are {self._outline(schema['contains'])}"
            yield Fault(at, expected, f"{found}", "contains")
        elif most is not None and found > most:
            expected = f"at most {short(most)} items that are {self._outline(schema['contains'])}"
            yield Fault(at, expected, f"{found}", "maxContains")

    def _outline(self, schema: Schema) -> str:
        """Return a schema in a few words, or an empty text if words add nothing."""
        if self._terse:
            return ""
        self.spend(_OUTLINE)
        return outline(schema)

    def _object_faults(self, schema: Mapping[str, Any], value: dict[str, Any], at: str) -> Iterator[Fault]:
        required = schema.get("required")
        if isinstance(required, list):
            self.spend(len(required) // 50)
            yield from (Fault(step(at, n), "required", "nothing", "required") for n in required if n not in value)
        yield from limit_faults(schema, "minProperties", "maxProperties", len(value), "properties", value, at)
        properties, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
        rest = schema.get("additionalProperties", True)
        for number, (name, part) in enumerate(value.items()):
            self.spend(number % _MEMBERS == 0)
            inside = [properties[name]] if name in properties else []
            inside += [patterns[pattern] for pattern in patterns if self._match(pattern, name)]
            if not inside and rest is False:
                yield self._misnamed(schema, name, at, part, "additionalProperties")
            for one in inside or [rest]:
                if one is not True and one is not False:
                    yield from self._faults_within(one, part, step(at, name))
                elif one is False and inside:
                    yield Fault(step(at, name), "no such property", got(part), "false")
            if "propertyNames" in schema and self._dialect > Dialect.DRAFT_04:
                yield from self._name(schema["propertyNames"], name, at)
        yield from self._dependent(schema, value, at)

    def _name(self, schema: Schema, name: str, at: str) -> Iterator[Fault]:
        if not self.holds(schema, name):
            reason = next(self.problems(schema, name, at), None)
            expected = "no property" if reason is None or schema is False else f"a name that is {reason.expected}"
            yield Fault(step(at, name), expected, f"the name {name[:60]!r}", "propertyNames")

    def _dependent(self, schema: Mapping[str, Any], value: dict[str, Any], at: str) -> Iterator[Fault]:
        new = self._dialect >= Dialect.DRAFT_2019_09
        for keyword in ("dependentRequired", "dependentSchemas") if new else ("dependencies",):
            self.spend(len(schema.get(keyword, ())) // _MEMBERS)
            for name, then in schema.get(keyword, {}).items():
                if name not in value:
                    continue
                if isinstance(then, list):
                    self.spend(len(then) // _MEMBERS)
                    missing = [other for other in then if other not in value]
                    expected = f"required where {name!r:.60} is given"
                    yield from (Fault(step(at, other), expected, "nothing", keyword) for other in missing)
                else:
                    yield from self._faults_within(then, value, at)

    def _branch_faults(self, schema: Mapping[str, Any], value: Any, at: str) -> Iterator[Fault]:
        for keyword in ("allOf", "anyOf", "oneOf"):
            self.spend(len(schema.get(keyword, ())) // _MEMBERS)
        for part in schema.get("allOf", ()):
            yield from self._faults_within(part, value, at)
        options = schema.get("anyOf")
        if options and not any(self.holds(option, value) for option in options):
            yield from self._explained(options, value, at, "anyOf")
        options = schema.get("oneOf")
        if options:
            fitting = sum(self.holds(option, value) for option in options)
            if not fitting:
                yield from self._explained(options, value, at, "oneOf")
            elif fitting > 1:
                expected = "what fits exactly one of the alternatives"
                yield Fault(at, expected, f"{got(value)}, which fits {fitting}", "oneOf")
        if "not" in schema and self.holds(schema["not"], value):
            yield Fault(at, f"anything but {self._outline(schema['not'])}", got(value), "not")
        if "if" in schema and self._dialect >= Dialect.DRAFT_07:
            branch = schema.get("then" if self.holds(schema["if"], value) else "else", True)
            yield from self._faults_within(branch, value, at)

    def _explained(self, options: list[Schema], value: Any, at: str, keyword: str) -> Iterator[Fault]:
        if self._terse:
            yield _NO
        else:
            self.spend(len(options) // 4 + sum(map(_named_in, options)) // _MEMBERS)
            yield from explain_alternatives(self, self._index, options, value, at, keyword)

    def _misnamed(self, schema: Mapping[str, Any], name: str, at: str, part: Any, keyword: str) -> Fault:
        if self._terse:
            return _NO
        self.spend(options_compared(list(schema.get("properties", ())), name))
        return misnamed(schema, name, at, got(part), keyword)

    def _unevaluated_faults(self, schema: Mapping[str, Any], value: Any, at: str) -> Iterator[Fault]:
        """Check members that no other keyword here has looked at: `unevaluatedProperties`, `unevaluatedItems`."""
        if isinstance(value, dict) and "unevaluatedProperties" in schema:
            seen = self._evaluated(schema, value, own=False)
            for name, part in value.items():
                if name not in seen and not self.holds(schema["unevaluatedProperties"], part):
                    yield self._misnamed(schema, name, at, part, "unevaluatedProperties")
        if isinstance(value, list) and "unevaluatedItems" in schema:
            numbers = self._evaluated(schema, value, own=False)
            for number, item in enumerate(value):
                if number not in numbers and not self.holds(schema["unevaluatedItems"], item):
                    yield Fault(step(at, number), "no further item", got(item), "unevaluatedItems")

    def _evaluated(self, schema: Schema, value: Any, *, own: bool = True) -> set[str | int]:
        """Return the property names or item numbers that a schema which holds looks at."""
        self.spend(1 + (len(value) // _MEMBERS if isinstance(value, dict | list) else 0))
        if isinstance(schema, bool):
            return set()
        seen: set[str | int] = set(self._evaluated_by(schema, value, own=own))
        for part in self._applied(schema, value):
            if self.holds(part, value):
                seen |= self._evaluated(part, value)
        return seen

    def _evaluated_by(self, schema: Mapping[str, Any], value: Any, *, own: bool) -> Iterator[str | int]:
        if isinstance(value, dict):
            patterns, properties = schema.get("patternProperties", {}), schema.get("properties", {})
            everything = "additionalProperties" in schema or (own and "unevaluatedProperties" in schema)
            for name in value:
                if everything or name in properties or any(self._match(pattern, name) for pattern in patterns):
                    yield name
        elif isinstance(value, list):
            first, rest = self._items(schema)
            everything = rest is not None or (own and "unevaluatedItems" in schema)
            yield from range(len(value) if everything else min(len(first), len(value)))
            if "contains" in schema and self._dialect == Dialect.DRAFT_2020_12:
                yield from (n for n, item in enumerate(value) if self.holds(schema["contains"], item))

    def _applied(self, schema: Mapping[str, Any], value: Any) -> Iterator[Schema]:
        """Yield the other schemas that a schema applies to the value itself."""
        for keyword in REFERENCES:
            yield from self._index.targets.get((id(schema), keyword), ())[:1]
        for keyword in ("allOf", "anyOf", "oneOf"):
            self.spend(len(schema.get(keyword, ())) // _MEMBERS)
            yield from schema.get(keyword, ())
        if "if" in schema:
            held = self.holds(schema["if"], value)
            yield from (schema[keyword] for keyword in ("if", "then" if held else "else") if keyword in schema)
        if isinstance(value, dict):
            yield from (part for name, part in schema.get("dependentSchemas", {}).items() if name in value)


def _values_in(value: Any) -> int:
    """Return how many values there are in `value`, itself included."""
    count, waiting = 0, [value]
    while waiting:
        part = waiting.pop()
        count += 1
        if isinstance(part, dict):
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return count


def _named_in(option: Schema) -> int:
    """Return how many properties a schema names itself."""
    return len(option.get("properties", ())) if isinstance(option, Mapping) else 0


def _number_faults(schema: Mapping[str, Any], value: float, at: str, dialect: Dialect) -> Iterator[Fault]:
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if dialect == Dialect.DRAFT_04:
        above, low = (low, None) if above is True else (None, low)
        below, high = (high, None) if below is True else (None, high)
    if low is not None and value < low:
        yield Fault(at, f"at least {short(low)}", got(value), "minimum")
    if high is not None and value > high:
        yield Fault(at, f"at most {short(high)}", got(value), "maximum")
    if above is not None and value <= above:
        yield Fault(at, f"more than {short(above)}", got(value), "exclusiveMinimum")
    if below is not None and value >= below:
        yield Fault(at, f"less than {short(below)}", got(value), "exclusiveMaximum")
    divisor = schema.get("multipleOf")
    if divisor is not None and not _divides(divisor, value):
        yield Fault(at, f"a multiple of {short(divisor)}", got(value), "multipleOf")


def _divides(divisor: float, value: float) -> bool:
    try:
        return (_exact(value) / _exact(divisor)).denominator == 1
    except (ValueError, ZeroDivisionError):
        return False


def _exact(number: float) -> Fraction:
    return Fraction(number) if isinstance(number, int) else Fraction(str(number))
