"""Paths into a JSON value: `items[3].name`, `$.a["b.c"][-1]`, `rows[0:10]`, `rows[*].id`.

A step is a name, a name in brackets and quotes, an index (from the end if negative), a slice, or `*` for every item or
member. After a slice or `*` each step applies to every value so far, and drops the values without it.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from aggregator.domain.errors import AggregatorError
from aggregator.results.read.nesting import PLAIN_NAME
from aggregator.results.read.values import NoValue, opened, text_of_value, text_of_values
from aggregator.wire.codec import Raw

PATH_AT_MOST: Final = 1_000
_STEP: Final = re.compile(
    r"""\.?\[\s*(?P<quoted>"(?:[^"\\]|\\.)*+"|'[^']*+')\s*\]"""
    r"|\.?\[\s*(?P<index>-?\d{1,18})\s*\]"
    r"|\.?\[\s*(?P<slice>-?\d{0,18}\s*:\s*-?\d{0,18})\s*\]"
    r"|\.?(?P<every>\[\s*\*?\s*\]|\*)"
    r"|\.?(?P<name>[^.\[\]*]+)"
)
# Names of an object that an error lists, and characters of each.
_NAMES: Final = 20
_NAME: Final = 60
# What one path may cost, a second or two at the worst: values on its way, and bytes that are gone through for them.
_VALUES_AT_MOST: Final = 500_000
_BYTES_AT_MOST: Final = 600_000_000


class BadRead(AggregatorError):
    """An invalid page request; the message describes the available content and a valid request."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a path: a name or index, a slice, or every item (`None`)."""

    to: str | int | slice | None
    written: str

    @property
    def is_many(self) -> bool:
        return self.to is None or isinstance(self.to, slice)


def parsed(path: str) -> tuple[Step, ...]:
    """Return the steps of a path; none for the whole value.

    Raises:
        BadRead: the text is no path.
    """
    if len(path) > PATH_AT_MOST:
        raise BadRead(f"A path has at most {PATH_AT_MOST:,} characters, as `items[3].name`.")
    at = len(path) - len(path.lstrip())
    text = path.rstrip()
    if text.startswith("$", at) and text[at + 1 : at + 2] in ("", ".", "["):
        at += 1
    steps = []
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            raise BadRead(
                f"`{path}` is no path: it goes wrong at `{text[at : at + 20]}`. A path is as `items[3].name`, "
                '`rows[0:10]`, `rows[*].id` or `["a name with dots"]`.'
            )
        steps.append(Step(_target(found), text[: found.end()].strip()))
        at = found.end()
    return tuple(steps)


def text_at(root: Any, steps: Sequence[Step]) -> str:
    """Return the text at a path; for several values, an array with a line for each.

    Raises:
        BadRead: there is nothing at this path; the message lists the choices.
    """
    values, is_many, space, scanned = [root], False, _VALUES_AT_MOST, 0
    try:
        for number, step in enumerate(steps):
            before = steps[number - 1].written if number else ""
            scanned += sum(len(memoryview(value)) for value in values if isinstance(value, Raw))
            found = list(islice((item for value in values for item in _taken(opened(value), step)), space + 1))
            space -= len(found)
            if space < 0 or scanned > _BYTES_AT_MOST:
                raise BadRead(f"`{step.written}` leads through too much at once. Take less of it, as with `[0:1000]`.")
            if not found and not (values and _may_be_none(opened(values[0]), step)):
                raise BadRead(_missing(values, step, before))
            values, is_many = found, is_many or step.is_many
        return text_of_values(values) if is_many else text_of_value(values[0])
    except NoValue as problem:
        raise BadRead(f"Nothing can be read at a path: {problem}. Read by offset, or with grep.") from None


def _target(found: re.Match[str]) -> str | int | slice | None:
    if found["quoted"]:
        quoted = found["quoted"]
        if quoted[0] == "'":
            return quoted[1:-1]
        try:
            return str(json.loads(quoted))
        except ValueError:
            return quoted[1:-1]
    if found["index"]:
        return int(found["index"])
    if found["slice"]:
        first, _, last = found["slice"].partition(":")
        return slice(*(int(number) if number.strip() else None for number in (first, last)))
    return None if found["every"] else found["name"].strip()


def _taken(value: Any, step: Step) -> Iterator[Any]:
    """Yield what one step leads to in one value. A text that is JSON counts as its value."""
    to = step.to
    if isinstance(value, str) and value[:1] in ("{", "["):
        value = _read(value)
    if isinstance(value, list):
        if to is None:
            yield from value
        elif isinstance(to, slice):
            yield from value[to]
        else:
            index = to if isinstance(to, int) else int(to) if to.isdecimal() and len(to) < 18 else None
            if index is not None and -len(value) <= index < len(value):
                yield value[index]
    elif isinstance(value, dict):
        if to is None:
            yield from value.values()
        elif not isinstance(to, slice) and str(to) in value:
            yield value[str(to)]


def _read(text: str) -> Any:
    """Return the value of a JSON text; of any other, the text itself."""
    try:
        return opened(Raw(text.encode("utf-8", "surrogatepass")))
    except NoValue:
        return text


def _may_be_none(value: Any, step: Step) -> bool:
    """Tell whether a step leads to no values because there are none."""
    return isinstance(value, list) if isinstance(step.to, slice) else step.to is None and isinstance(value, list | dict)


def _missing(values: list[Any], step: Step, before: str) -> str:
    where = f"`{before}`" if before else "The result"
    if len(values) != 1:
        where = f"None of the {len(values):,} values at {where}" if values else f"Nothing at {where}"
        first = f" The first of them: {_described(opened(values[0]))}." if values else ""
        return f"{where} has `{step.written.removeprefix(before)}`.{first}"
    return f"`{step.written}` is not there: {where[0].lower() + where[1:]} is {_described(opened(values[0]))}."


def _described(value: Any) -> str:
    """Describe the readable content of a value: the names of an object, the length of an array."""
    if isinstance(value, list):
        return f"an array of {len(value):,} items, [0] to [{len(value) - 1}]" if value else "an array without items"
    if isinstance(value, dict):
        names = ", ".join(_shown(name) for name in list(value)[:_NAMES])
        more = f" and {len(value) - _NAMES:,} more" if len(value) > _NAMES else ""
        return f"an object with {names}{more}" if value else "an object without members"
    if isinstance(value, str):
        return f"a text of {len(value):,} characters"
    return "null" if value is None else f"`{str(value)[:_NAME]}`"


def _shown(name: str) -> str:
    short = name if len(name) <= _NAME else f"{name[:_NAME]}..."
    return short if PLAIN_NAME.fullmatch(short) else json.dumps(short, ensure_ascii=False)
