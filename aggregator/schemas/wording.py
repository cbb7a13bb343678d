"""The plain words of faults: what was expected, what came, and a correct value. Always short."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from aggregator.schemas.fault import Fault, step
from aggregator.schemas.signature import outline as outline
from aggregator.schemas.structure.dialect import Dialect

_WORDS: Final[Mapping[str, str]] = {
    "string": "a string",
    "number": "a number",
    "integer": "an integer",
    "boolean": "true or false",
    "null": "null",
    "object": "an object",
    "array": "an array",
}
_TEXT_SHOWN: Final = 40
_OPTIONS_SHOWN: Final = 12
# Options and properties that are compared to find the nearest.
_LIKENED: Final = 2_000
_NAMES_LIKENED: Final = 500


def types_of(schema: Mapping[str, Any]) -> list[str]:
    """Return the `type` keyword of a schema as a list."""
    own = schema.get("type")
    kinds = own if isinstance(own, list) else [own]
    return [kind for kind in kinds if isinstance(kind, str)]


def type_of(value: Any) -> str:
    """Return the JSON type; `integer` by the definition of draft-06 and later."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return "integer"
    kinds: Mapping[type, str] = {float: "number", str: "string", list: "array", dict: "object"}
    return kinds.get(type(value), "something else")


def has_type(value: Any, expected: Iterable[str], dialect: Dialect = Dialect.DRAFT_2020_12) -> bool:
    """Tell whether the value is of one of the types. In draft-04 `1.0` is no integer."""
    own = type_of(value)
    if own == "integer" and dialect == Dialect.DRAFT_04 and isinstance(value, float):
        own = "number"
    return own in expected or (own == "integer" and "number" in expected)


def got(value: Any) -> str:
    """Describe the value that came, in few words for any value."""
    kind = type_of(value)
    if isinstance(value, str):
        return f"a string ({value!r})" if len(value) <= _TEXT_SHOWN else f"a string of {len(value)} characters"
    if kind in ("integer", "number"):
        if isinstance(value, int) and abs(value) >= 10**30:
            return "a number of more than 30 digits"
        return f"a number ({value})"
    if kind == "array":
        return f"an array of {len(value)}" if value else "an empty array"
    if kind == "object":
        return f"an object of {len(value)}" if value else "an empty object"
    return short(value) if kind in ("null", "boolean") else kind


def one_of(options: list[Any], *, quoted: bool = False, near: Any = None) -> str:
    """Return types in words, or the values themselves; of many the nearest ones."""
    if not quoted:
        words = [_WORDS.get(option, str(option)) for option in options]
        return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
    shown = options
    more = ""
    if len(options) > _OPTIONS_SHOWN:
        texts = [option for option in options[:_LIKENED] if isinstance(option, str) and len(option) <= 80]
        close = _close_matches(near, texts, 3) if isinstance(near, str) else []
        shown = close or options[:_OPTIONS_SHOWN]
        more = f" ({len(options)} in all)"
    words = [short(option) for option in shown]
    return f"{words[0] if len(words) == 1 else 'one of ' + ', '.join(words)}{more}" if words else "nothing at all"


def options_compared(options: list[Any], near: Any) -> int:
    """Return how many options `one_of` and `misnamed` compare with the text that came.

    Each comparison takes some microseconds.
    """
    return min(len(options), _LIKENED) if isinstance(near, str) else 0


def misnamed(schema: Mapping[str, Any], name: str, at: str, actual: str, keyword: str) -> Fault:
    """Return the fault of a property that is not allowed, with the likely intended name."""
    known = list(schema.get("properties", {}))[:_NAMES_LIKENED]
    close = _close_matches(name, known, 1)
    hint = f"; did you mean {close[0]!r:.80}?" if close else ""
    return Fault(step(at, name), f"no property of this name{hint}", actual, keyword)


def limit_faults(
    schema: Mapping[str, Any], least: str, most: str, size: int, of: str, value: Any, at: str
) -> Iterator[Fault]:
    """Yield the faults of a pair of size limits."""
    low, high = schema.get(least), schema.get(most)
    actual = got(value) if not isinstance(value, str) else f"a string of {size} characters"
    if low is not None and size < low:
        yield Fault(at, f"at least {short(low)} {of}", actual, least)
    if high is not None and size > high:
        yield Fault(at, f"at most {short(high)} {of}", actual, most)


def short(value: Any) -> str:
    """Return a value as text, of some 50 characters at most."""
    if isinstance(value, str):
        return f"'{value}'" if len(value) <= _TEXT_SHOWN else f"'{value[:_TEXT_SHOWN]}...'"
    if isinstance(value, bool) or value is None:
        return {None: "null", True: "true", False: "false"}[value]
    return str(value) if isinstance(value, float) or (isinstance(value, int) and abs(value) < 10**30) else got(value)


def _close_matches(text: str, known: list[str], most: int) -> list[str]:
    from difflib import get_close_matches  # slow to import, and needed for faults only

    return get_close_matches(text[:80], known, n=most)
