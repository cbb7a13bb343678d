"""Turn validation errors of pydantic into sentences with the expected value, the given one, and the fix."""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from aggregator.config.files.jsonfile import kind
from aggregator.config.files.report import Where, did_you_mean

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

# Fields whose values may be secrets: messages name the type of a value only.
SECRET_FIELDS = frozenset(
    {"args", "chain_key", "env", "headers", "key", "key_password", "proxy", "secret", "storage", "url"}
)
_LONGEST_SHOWN = 40
# Sections that stand where words may stand, too.
_FORMS = frozenset({"AcceptedChanges"})
# The errors of a value that stands in place of an object.
_OBJECTS = frozenset({"model_type", "dict_type", "mapping_type"})

_EXPECTED = {
    "string": "a text in double quotes",
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "finite_number": "a number",
    "tuple": "a list in [ ]",
    "list": "a list in [ ]",
    "dict": "an object in {{ }}",
    "mapping": "an object in {{ }}",
    "model": "an object in {{ }}",
    "missing": "a value",
    "literal": "one of {expected}",
    "greater_than_equal": "a number from {ge} up",
    "less_than_equal": "a number up to {le}",
    "string_too_short": "a text that is not empty",
    "extra_forbidden": "no key of this name",
    "string_unicode": "a text without broken characters",
}
_FIXES = {
    "string": "Put the value in double quotes.",
    "bool": "Write true or false, without quotes.",
    "tuple": 'Write a list, such as ["one", "two"].',
    "dict": 'Write an object, such as {"NAME": "value"}.',
    "mapping": 'Write an object, such as {"NAME": "value"}.',
    "missing": "Add it.",
    "extra_forbidden": "Look for the right one in docs/configuration.md.",
    "short": "Write a longer one, or remove it for the default.",
}
_SHAPES = {
    "target": (
        '"package.module:attribute"',
        'Write the module and the attribute in it, such as "my_servers.weather:server".',
    ),
    "path": ('a path such as "/mcp"', "Begin it with / and leave out spaces, ? and #."),
    "registry": (
        'an address such as "https://registry.example.com"',
        "Begin it with https:// and leave out names, passwords, ? and #.",
    ),
}


class ConfigComplaint(NamedTuple):
    """A problem at one path of the file, with its fix."""

    where: Where
    message: str
    fix: str


def complaints(
    error: ValidationError, written: Mapping[str, object], place: Callable[[Where], Where] = lambda where: where
) -> list[ConfigComplaint]:
    """Return one complaint per field; `written` is the object as the file has it, `place` maps our paths to its own."""
    made: dict[Where, ConfigComplaint] = {}
    for detail in error.errors(include_url=False):
        field = _place(detail["loc"], written, place)
        if field is None:
            continue
        made.setdefault(field, ConfigComplaint(field, *_sentences(detail, field, _lookup(place(field), written))))
    return list(made.values())


def _place(loc: Where, written: Mapping[str, object], place: Callable[[Where], Where]) -> Where | None:
    """Return where an error is in the file; None if it is about a form of a field that was not written there.

    A field of two forms, words or an object, has an error of each, with a step for the form.
    """
    steps: list[str | int] = []
    for step in loc:
        words, model = str(step).startswith("literal["), str(step) in _FORMS
        if not words and not model:
            steps += [step] if step != "[key]" else []
            continue
        came = _lookup(place(tuple(steps)), written)
        is_object = bool(came) and isinstance(came[0], Mapping)
        if is_object != model:
            return None
    return tuple(steps)


def _sentences(detail: "ErrorDetails", field: Where, came: tuple[object, ...]) -> tuple[str, str]:
    expected, fix = _expected(detail, field)
    # A text in place of an object may be a secret, as in `"auth": "Bearer ..."`.
    hidden = detail["type"] in _OBJECTS and bool(came) and isinstance(came[0], str)
    got = f", got {kind(came[0]) if hidden else _shown(came[0], field)}" if came else ""
    return f"Expected {expected}{got}.", _meant(detail, came) or fix


def _expected(detail: "ErrorDetails", field: Where) -> tuple[str, str]:
    context: dict[str, Any] = detail.get("ctx", {})
    known = detail["type"]
    if known == "value_error":  # raised by our own parsers, in our own words
        return str(context["error"]).removeprefix("expected "), "Correct the value, or remove it for the default."
    if known == "string_pattern_mismatch":
        return _SHAPES[str(field[-1])]
    if known == "string_too_short" and context["min_length"] > 1:
        return f"a text of {context['min_length']} characters or more", _FIXES["short"]
    for name in (known, known.rsplit("_", 1)[0], known.split("_", 1)[0]):
        if name in _EXPECTED:
            fix = _FIXES.get(name, "Correct the value, or remove it for the default.")
            return _EXPECTED[name].format(**context).replace("'", '"'), fix
    return "another value", "See the reference of this field in docs/configuration.md."


def _shown(value: object, field: Where) -> str:
    if SECRET_FIELDS.isdisjoint(field) and not isinstance(value, Mapping | list):
        spelled = json.dumps(value, ensure_ascii=False)
        if len(spelled) <= _LONGEST_SHOWN:
            return spelled
    return kind(value)


def _meant(detail: "ErrorDetails", came: tuple[object, ...]) -> str | None:
    """Return the allowed word that was probably meant, as a question; None if none is near."""
    if detail["type"] != "literal_error" or not came or not isinstance(came[0], str):
        return None
    return did_you_mean(came[0], str(detail["ctx"]["expected"]).replace(" or ", ", ").replace("'", "").split(", "))


def _lookup(where: Where, written: object) -> tuple[object, ...]:
    """Return the value at a path as a tuple of one; an empty tuple if there is none."""
    for step in where:
        if isinstance(written, list) and isinstance(step, int):
            written = dict(enumerate(written))
        if not isinstance(written, Mapping) or step not in written:
            return ()
        written = written[step]
    return (written,)
