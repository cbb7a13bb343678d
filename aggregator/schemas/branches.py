"""Explain a value that fits none of `anyOf` or `oneOf`, by the problems of the closest alternative."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, Protocol

from aggregator.domain.subschemas import Schema
from aggregator.schemas.fault import Fault, step
from aggregator.schemas.structure.index import SchemaIndex
from aggregator.schemas.wording import got, has_type, one_of, outline, types_of

_COMPARED: Final = 3
_BRANCHES_COMPARED: Final = 8
_OUTLINES: Final = 4


class ProblemFinder(Protocol):
    """The part of the interpreter that is needed here."""

    def holds(self, schema: Schema, value: Any) -> bool: ...
    def problems(self, schema: Schema, value: Any, at: str) -> Iterator[Fault]: ...


def explain_alternatives(
    finder: ProblemFinder, index: SchemaIndex, options: Sequence[Schema], value: Any, at: str, keyword: str
) -> Iterator[Fault]:
    """Yield at least one fault of a value that fits none of the options."""
    kinds = [_kinds(option, index) for option in options]
    right = [
        option for option, expected in zip(options, kinds, strict=True) if not expected or has_type(value, expected)
    ]
    if not right:
        union = list(dict.fromkeys(kind for expected in kinds for kind in expected))
        yield Fault(at, one_of(union), got(value), "type")
        return
    marked = _marked(right, index, value)
    if isinstance(marked, Fault):
        yield Fault(at + marked.pointer, marked.expected, marked.got, marked.keyword)
        return
    if len(marked) == 1:
        yield from finder.problems(marked[0], value, at)
        return
    # The nearest option is the one with the fewest problems, if there is only one such.
    tried = [list(islice(finder.problems(option, value, at), _COMPARED)) for option in marked[:_BRANCHES_COMPARED]]
    tried.sort(key=len)
    if len(tried) > 1 and len(tried[0]) < len(tried[1]) and len(marked) <= _BRANCHES_COMPARED:
        yield from tried[0]
        return
    shown = [outline(_resolved(option, index)) for option in marked[:_OUTLINES]]
    more = f" or {len(marked) - _OUTLINES} others" if len(marked) > _OUTLINES else ""
    yield Fault(at, f"one of these: {'; '.join(dict.fromkeys(shown))}{more}", got(value), keyword)


def _marked(options: list[Schema], index: SchemaIndex, value: Any) -> list[Schema] | Fault:
    """Return the options that remain after a property with one fixed value (`kind: "a"`), or a fault if the value fits
    none.
    """
    if not isinstance(value, dict):
        return options
    marks = [_marks(option, index) for option in options]
    shared = set(marks[0]).intersection(*marks[1:]) if marks else set()
    for name in shared:
        if name not in value:
            continue
        left = [option for option, mark in zip(options, marks, strict=True) if value[name] in mark[name]]
        if left:
            return left
        allowed = list(dict.fromkeys(text for mark in marks for text in mark[name]))
        return Fault(step("", name), one_of(allowed, quoted=True, near=value[name]), got(value[name]), "enum")
    return options


def _marks(option: Schema, index: SchemaIndex) -> dict[str, list[str]]:
    schema = _resolved(option, index)
    properties = schema.get("properties", {}) if isinstance(schema, Mapping) else {}
    found: dict[str, list[str]] = {}
    for name, part in properties.items():
        if isinstance(part, Mapping):
            fixed = [part["const"]] if "const" in part else part.get("enum", [])
            if fixed and all(isinstance(text, str) for text in fixed):
                found[name] = fixed
    return found


def _kinds(option: Schema, index: SchemaIndex) -> list[str]:
    schema = _resolved(option, index)
    if schema is False:
        return ["nothing"]
    return types_of(schema) if isinstance(schema, Mapping) else []


def _resolved(option: Schema, index: SchemaIndex) -> Schema:
    for _ in range(20):
        found = index.targets.get((id(option), "$ref"), ())
        if not found:
            break
        option = found[0]
    return option
