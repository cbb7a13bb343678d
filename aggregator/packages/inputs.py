"""Inputs of a server.json (`value`, `variables`, `isRequired`, ...) turned into texts with questions.

A faulty part counts as if it were not there, unless nothing could be started without it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from aggregator.packages.errors import PackageError
from aggregator.packages.plan import AskedValue, PlannedArgument, Text, ValueKind, one_line

_VARIABLE: Final = re.compile(r"\{([^{}]{1,100})\}")
_KINDS: Final[Mapping[str, ValueKind]] = {"number": "number", "boolean": "boolean", "filepath": "filepath"}
# Entries of one list: a longer list is no description of a server.
MOST_INPUTS: Final = 200
# The fields that give a flag a value, which the user may have to supply.
_WITH_VALUE: Final = ("value", "default", "format", "choices", "placeholder", "isRequired", "isSecret", "variables")
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


def objects(value: object) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a list, up to a limit; nothing for anything else."""
    for item in value[:MOST_INPUTS] if isinstance(value, list) else ():
        if isinstance(item, Mapping):
            yield item


def text_of(value: object) -> str:
    """Return a text, or a number or boolean as one; empty for anything else."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value) if isinstance(value, int | float) else ""


def arguments_of(value: object) -> tuple[PlannedArgument, ...]:
    """Return the arguments of a `packageArguments` or `runtimeArguments` list."""
    return tuple(made for at, item in enumerate(objects(value), 1) if (made := _argument(item, at)) is not None)


def variables_of(value: object) -> dict[str, Text]:
    """Return the variables of an `environmentVariables` list. Raises PackageError for a name that none can have."""
    found: dict[str, Text] = {}
    for item in objects(value):
        name = text_of(item.get("name"))
        if not name or "=" in name or not name.isprintable():
            raise PackageError(f"It sets the variable {name!r:.80}, which is no name of one.")
        found[name] = input_text(item, name, f"the variable {name}")
    return found


def headers_of(value: object) -> dict[str, Text]:
    """Return the headers of a `headers` list. Raises PackageError for a name that none can have."""
    found: dict[str, Text] = {}
    for item in objects(value):
        name = text_of(item.get("name"))
        if not _HEADER.fullmatch(name):
            raise PackageError(f"It sends the header {name!r:.80}, which is no name of one.")
        found[name] = input_text(item, name, f"the header {name}")
    return found


def address_of(template: str, variables: object, also: Mapping[str, AskedValue]) -> Text:
    """Return an address with questions for its `{variables}`, or for variables of the same name elsewhere."""
    return _with_variables(template, variables, "the address", also)


def questions_of(texts: Sequence[Text]) -> dict[str, AskedValue]:
    """Return the questions of texts by key."""
    return {part.key: part for text in texts for part in text if isinstance(part, AskedValue)}


def input_text(item: Mapping[str, Any], key: str, place: str, *, repeated: bool = False) -> Text:
    """Return the text of one input: its `value` with questions for the variables, or one question."""
    value = item.get("value")
    if isinstance(value, str):
        return _with_variables(value, item.get("variables"), place, {}, secret=item.get("isSecret") is True)
    return (_question(item, key, place, repeated=repeated),)


def _argument(item: Mapping[str, Any], at: int) -> PlannedArgument | None:
    repeated = item.get("isRepeated", item.get("is_repeated")) is True
    name = text_of(item.get("name"))
    if item.get("type") == "named" or (name and item.get("type") != "positional"):
        if not name:
            return None
        if not any(field in item for field in _WITH_VALUE):
            return PlannedArgument(((name,),))
        value = input_text(item, name.lstrip("-") or f"argument-{at}", f"the argument {name}", repeated=repeated)
        return PlannedArgument(((name,), value))
    key = text_of(item.get("valueHint")) or f"argument-{at}"
    text = input_text(item, key, f"the argument {one_line(key, 60)}", repeated=repeated)
    return PlannedArgument((text,), separate=True)


def _with_variables(
    template: str, variables: object, place: str, also: Mapping[str, AskedValue], *, secret: bool = False
) -> Text:
    known = variables if isinstance(variables, Mapping) else {}
    parts: list[str | AskedValue] = []
    at = 0
    for found in _VARIABLE.finditer(template):
        key, declared = found[1], known.get(found[1])
        question: AskedValue | None = also.get(key) or also.get(key.lstrip("-"))
        if isinstance(declared, Mapping):
            if isinstance(declared.get("value"), str):
                parts += [template[at : found.start()], declared["value"]]
                at = found.end()
                continue
            question = _question(declared, key, f"{{{one_line(key, 60)}}} in {place}", secret=secret)
        if question is not None:
            parts += [template[at : found.start()], question]
            at = found.end()
    return tuple(part for part in (*parts, template[at:]) if part != "")


def _question(
    item: Mapping[str, Any], key: str, place: str, *, secret: bool = False, repeated: bool = False
) -> AskedValue:
    default = text_of(item.get("default"))
    choices = item.get("choices")
    kind = item.get("format")
    return AskedValue(
        key,
        place,
        description=one_line(text_of(item.get("description"))),
        required=item.get("isRequired", item.get("is_required")) is True,
        secret=secret or item.get("isSecret", item.get("is_secret")) is True,
        kind=_KINDS.get(kind, "string") if isinstance(kind, str) else "string",
        default=(default,) if default else None,
        choices=tuple(one for one in choices if isinstance(one, str)) if isinstance(choices, list) else (),
        repeated=repeated,
    )
