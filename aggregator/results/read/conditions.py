"""Conditions on rows: `status = open and stars >= 10`, or an object of columns and their values.

`and` binds more than `or`. Operators: `=`, `!=`, `<`, `<=`, `>`, `>=`, `~` (contains) and `!~`, or the words `is`,
`is not`, `contains`, `not contains`, `in (a, b)`. Texts are compared without regard to capitals, and a text that is a
number with a number as one. This file decides; it awaits nothing and reads no clock.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from operator import ge, gt, le, lt
from typing import Any, Final, Literal, get_args

import msgspec

from aggregator.results.read.path import BadRead

WHERE_AT_MOST: Final = 1_000
_CONDITIONS_AT_MOST: Final = 30
# Values in one list, each compared with each row.
_VALUES_AT_MOST: Final = 500
_FORM: Final = "`where` is as `status = open and stars >= 10`: operators = != < <= > >= ~ (contains), `in (a, b)`."

Operator = Literal["=", "!=", "<", "<=", ">", ">=", "~", "!~", "in"]
_WORDS: Final[Mapping[str, Operator]] = {
    "==": "=",
    ":": "=",
    "is": "=",
    "equals": "=",
    "<>": "!=",
    "is not": "!=",
    "not equals": "!=",
    "=~": "~",
    "contains": "~",
    "like": "~",
    "not contains": "!~",
    "not like": "!~",
    "eq": "=",
    "ne": "!=",
    "lt": "<",
    "lte": "<=",
    "gt": ">",
    "gte": ">=",
}
_OPERATORS: Final = frozenset(get_args(Operator))
_COMPARISON: Final = re.compile(
    r"""\s*
    (?:"(?P<quoted>[^"]++)"|`(?P<ticked>[^`]++)`
    |(?P<name>[^\s=!<>~:"'`()]+(?:[ ](?!(?:is|in|not|contains|like|equals)\b)[^\s=!<>~:"'`()]+)*))
    \s*
    (?P<operator>==|!=|<>|<=|>=|=~|!~|[=<>~:]
    |\b(?:is\s+not|is|not\s+equals|equals|not\s+contains|contains|not\s+like|like|in)\b)
    \s*""",
    re.IGNORECASE | re.VERBOSE,
)
_VALUE: Final = re.compile(
    r"""(?:"(?P<double>(?:[^"\\]|\\.)*+)"|'(?P<single>(?:[^'\\]|\\.)*+)'|\((?P<list>[^()]*+)\)|(?P<bare>.*?))"""
    r"""\s*(?:$|\s(?P<joint>and|or)(?:\s|$)|(?P<sign>&&|\|\|))""",
    re.IGNORECASE | re.DOTALL,
)
_ORDERS: Final[Mapping[Operator, Callable[[Any, Any], bool]]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
# A number as it is written in JSON: a code with a zero in front is text.
_NUMBER: Final = re.compile(r"\s*([-+]?(?:0|[1-9]\d{0,300})(\.\d{1,300})?([eE][+-]?\d{1,3})?)\s*")
_NULLS: Final = frozenset({"null", "none", "nil"})
_QUOTES: Final = "\"'`"


@dataclass(frozen=True, slots=True)
class Comparison:
    """One comparison of a column with a value, or with several for `in`."""

    column: str
    operator: Operator
    value: str | None
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Comparisons: one group of `any` has to hold, with each comparison in it."""

    any: tuple[tuple[Comparison, ...], ...]

    def renamed(self, column: Callable[[str], str]) -> "RowFilter":
        """Return the condition with other names of its columns."""
        return RowFilter(tuple(tuple(replace(one, column=column(one.column)) for one in group) for group in self.any))


def row_filter_of(where: str | Mapping[str, Any] | Sequence[Any]) -> RowFilter | None:
    """Return the condition that a model wrote; of several in a list each has to hold. None if it is empty.

    Raises:
        BadRead: it cannot be read.
    """
    found: tuple[tuple[Comparison, ...], ...]
    if not isinstance(where, str):
        _check_count(where)
    if isinstance(where, Mapping):
        group = tuple(one for name, value in where.items() for one in _of_member(name, value))
        found = (group,) if group else ()
    elif isinstance(where, str):
        value = json_of(where)
        if isinstance(value, list | dict):
            return row_filter_of(value)
        found = _parsed(where)
    else:
        found = ((),)
        for one in where:
            inner = row_filter_of(one) if isinstance(one, str | Mapping) else None
            if inner is None:
                raise BadRead(_FORM)
            found = tuple((*before, *group) for before in found for group in inner.any)
            if len(found) > _CONDITIONS_AT_MOST:
                break
    _check_count([one for group in found for one in group])
    _check_count(found)
    return RowFilter(found) if any(found) else None


def holds(condition: RowFilter, value_of: Callable[[str], Any]) -> bool:
    """Return whether a row meets a condition; `value_of` returns its value by the name of a column."""
    return any(all(_compares(one, value_of(one.column)) for one in group) for group in condition.any)


def _parsed(text: str) -> tuple[tuple[Comparison, ...], ...]:
    if len(text) > WHERE_AT_MOST:
        raise BadRead(f"`where` has at most {WHERE_AT_MOST:,} characters.")
    groups: list[list[Comparison]] = [[]]
    at, text = 0, text.strip()
    while at < len(text):
        head = _COMPARISON.match(text, at)
        value = _VALUE.match(text, head.end()) if head is not None else None
        if head is None or value is None:
            raise BadRead(f"`where` cannot be read at `{text[at : at + 40]}`. {_FORM}")
        name = head["quoted"] or head["ticked"] or head["name"]
        groups[-1].append(_comparison(name.strip(), " ".join(head["operator"].lower().split()), value))
        joint = (value["joint"] or value["sign"] or "").lower()
        if joint in ("or", "||"):
            groups.append([])
        at = value.end()
        if joint and at >= len(text):
            raise BadRead(f"`where` ends with `{joint}`. {_FORM}")
    return tuple(map(tuple, groups))


def _comparison(name: str, written: str, value: re.Match[str]) -> Comparison:
    operator: Operator = _WORDS.get(written, written)  # type: ignore[arg-type]
    if value["list"] is not None or operator == "in":
        listed = value["list"] or value["bare"] or value["double"] or value["single"] or ""
        values = tuple(one.strip().strip(_QUOTES) for one in listed.strip("[]").split(",") if one.strip())
        if operator not in ("in", "="):
            raise BadRead(f"`{name} {written}` takes one value. {_FORM}")
        return Comparison(name, "in", None, values)
    quoted = value["double"] if value["double"] is not None else value["single"]
    if quoted is not None:
        return Comparison(name, operator, re.sub(r"\\(.)", r"\1", quoted))
    bare = value["bare"].strip()
    if not bare:
        raise BadRead(f"`{name} {written}` lacks a value. {_FORM}")
    if bare.lower() in _NULLS:
        return Comparison(name, operator, None)
    return Comparison(name, operator, bare.strip("`"))


def _check_count(conditions: Sized) -> None:
    if len(conditions) > _CONDITIONS_AT_MOST:
        raise BadRead(f"`where` has at most {_CONDITIONS_AT_MOST} comparisons.")


def _texts(values: Sequence[Any]) -> tuple[str, ...]:
    if len(values) > _VALUES_AT_MOST:
        raise BadRead(f"A list in `where` has at most {_VALUES_AT_MOST} values.")
    return tuple(map(_text, values))


def json_of(text: str) -> Any:
    """Return the array or object that a text of a model is as JSON, or None."""
    if text.strip()[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _of_member(name: str, value: Any) -> Iterator[Comparison]:
    """Yield the comparisons of a member of an object: a value, a list of values, or values by operators."""
    if isinstance(value, list):
        yield Comparison(name, "in", None, _texts(value))
    elif isinstance(value, Mapping):
        _check_count(value)
        for written, one in value.items():
            word = written.lower().lstrip("$")
            operator = _WORDS.get(word, word)
            if operator not in _OPERATORS or isinstance(one, Mapping) or isinstance(one, list) != (operator == "in"):
                raise BadRead(f"`{name}` in `where` cannot be read at `{written[:40]}`. {_FORM}")
            if isinstance(one, list):
                yield Comparison(name, "in", None, _texts(one))
            else:
                yield Comparison(name, operator, None if one is None else _text(one))
    else:
        yield Comparison(name, "=", None if value is None else _text(value))


def _compares(one: Comparison, found: Any) -> bool:
    if one.operator == "in":
        return any(_is(found, value) for value in one.values)
    if one.operator in ("=", "!="):
        return _is(found, one.value) == (one.operator == "=")
    if one.operator in ("~", "!~"):
        inside = found is not None and (one.value or "").casefold() in _text(found).casefold()
        return inside == (one.operator == "~")
    return _ordered(one.operator, found, one.value)


def _ordered(operator: Operator, found: Any, value: str | None) -> bool:
    if found is None or value is None:
        return False
    mine, other = _number(found), _number(value)
    left: Any
    right: Any
    if mine is not None and other is not None:
        left, right = mine, other
    elif mine is None and other is None:
        left, right = _text(found).casefold(), value.casefold()
    else:
        return False
    return _ORDERS[operator](left, right)


def _is(found: Any, value: str | None) -> bool:
    if value is None:
        return found is None or found == ""
    if found is None:
        return False
    mine, other = _number(found), _number(value)
    if mine is not None and other is not None:
        return mine == other
    return _text(found).strip().casefold() == value.strip().casefold()


def _number(value: Any) -> int | float | None:
    """Return the number that a value is; whole numbers exactly, as identifiers may be long."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        found = _NUMBER.fullmatch(value)
        if found is None:
            return None
        return float(value) if found[2] or found[3] else int(value)
    return value if isinstance(value, int) or (isinstance(value, float) and not math.isnan(value)) else None


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return ""
    return bytes(value).decode("utf-8", "replace") if isinstance(value, msgspec.Raw) else str(value)
