"""Forms made from JSON Schemas: fields to fill in, and the arguments of a filled-in form.

Law: bounded for any schema. An argument without a suitable field is written as JSON; all of them may be.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from aggregator.domain.errors import AggregatorError
from aggregator.domain.text.error_text import error_text
from aggregator.domain.text.invisible import escaped
from aggregator.wire.codec import decode_from_host

# Fields of one form, levels of objects in objects, options of one choice, and characters of one text about a field.
_FIELDS: Final = 60
_DEPTH: Final = 4
_OPTIONS: Final = 100
_ABOUT: Final = 300
_NAME: Final = 200
_HOPS: Final = 8
# Characters of a text from which on its field has several lines.
_LONG: Final = 80
_DIGITS: Final = 300

FieldKind = Literal["text", "long text", "number", "integer", "yes or no", "choice", "list", "object", "json"]


class FormFault(AggregatorError):
    """An invalid field of a form: `name` is the name of the argument."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


@dataclass(frozen=True, slots=True)
class FormField:
    """One field. `key` is its name in the form, chosen here; `name` is the argument's, from the schema.

    `options` are the values of a choice, as JSON. `inner` are the fields of an object. `items` is the kind of the
    elements of a list.
    """

    key: str
    name: str
    kind: FieldKind
    required: bool
    about: str = ""
    options: tuple[str, ...] = ()
    default: str = ""
    items: FieldKind = "text"
    inner: tuple["FormField", ...] = field(default=())

    def as_data(self, given: Mapping[str, str]) -> dict[str, Any]:
        """Return the field as plain values, with the filled-in value."""
        return {
            "key": self.key,
            "name": self.name,
            "kind": self.kind,
            "required": self.required,
            "about": self.about,
            "options": [{"value": one, "label": escaped(_readable(one))} for one in self.options],
            "default": self.default and escaped(_readable(self.default)),
            "items": self.items,
            "value": given.get(self.key, ""),
            "inner": [one.as_data(given) for one in self.inner],
        }


def form_fields(schema: Any) -> tuple[FormField, ...]:
    """Return the fields for the properties of a schema, those that are required first."""
    return tuple(_fields(schema, schema, "f", 0, _FieldCount()))


@dataclass(slots=True)
class _FieldCount:
    made: int = 0


def _fields(schema: Any, whole: Any, key: str, depth: int, count: _FieldCount) -> Iterator[FormField]:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return
    required = schema.get("required")
    needed = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
    ordered = [*(name for name in properties if name in needed), *(name for name in properties if name not in needed)]
    for number, name in enumerate(ordered):
        if count.made >= _FIELDS:
            return
        # A longer name could equal another one that is cut at the same place.
        if isinstance(name, str) and len(name) <= _NAME:
            count.made += 1
            yield _field(name, properties[name], whole, f"{key}.{number}", depth, count, required=name in needed)


def _field(name: str, given: Any, whole: Any, key: str, depth: int, count: _FieldCount, *, required: bool) -> FormField:
    schema = _plain(given, whole)
    about, default = _about(given, schema), _default(schema)
    options = _options(schema)
    if options:
        return FormField(key, name, "choice", required, about, options, default)
    kind = _kind(schema)
    if kind == "object":
        inner = tuple(_fields(schema, whole, key, depth + 1, count)) if depth < _DEPTH else ()
        if not inner:
            return FormField(key, name, "json", required, about, default=default)
        return FormField(key, name, "object", required, about, inner=inner)
    if kind == "list":
        items = _kind(_plain(schema.get("items"), whole))
        if items in ("text", "long text", "number", "integer"):
            return FormField(key, name, "list", required, about, default=default, items=items)
        return FormField(key, name, "json", required, about, default=default)
    return FormField(key, name, kind, required, about, default=default)


def _plain(schema: Any, whole: Any) -> Mapping[str, Any]:
    """Return a schema behind its references in the same document, and behind `or null`."""
    for _ in range(_HOPS):
        if not isinstance(schema, Mapping):
            return {}
        reference = schema.get("$ref")
        if isinstance(reference, str):
            schema = _referred(reference, whole)
            continue
        branches = schema.get("anyOf") or schema.get("oneOf")
        if isinstance(branches, list) and "type" not in schema:
            real = [one for one in branches[:_HOPS] if not (isinstance(one, Mapping) and one.get("type") == "null")]
            if len(real) == 1:
                schema = real[0]
                continue
        return schema
    return {}


def _referred(reference: str, whole: Any) -> Any:
    if not reference.startswith("#/"):
        return None
    found = whole
    for part in reference[2:].split("/")[:_HOPS]:
        found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
    return found


def _kind(schema: Mapping[str, Any]) -> FieldKind:
    said = schema.get("type")
    if isinstance(said, list):
        real = [one for one in said if one != "null"]
        said = real[0] if len(real) == 1 else None
    match said:
        case "string":
            longest = schema.get("maxLength")
            return "long text" if isinstance(longest, int) and longest > _LONG else "text"
        case "integer":
            return "integer"
        case "number":
            return "number"
        case "boolean":
            return "yes or no"
        case "array":
            return "list"
        case "object":
            return "object"
        case _:
            return "json"


def _options(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the options of a choice as JSON; none if there are too many to choose from."""
    listed = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(listed, list) or not listed or len(listed) > _OPTIONS:
        return ()
    if any(isinstance(one, list | dict) or (isinstance(one, str) and len(one) > _NAME) for one in listed):
        return ()
    return tuple(_json(one) for one in listed)


def _about(given: Any, schema: Mapping[str, Any]) -> str:
    for one in (given, schema):
        for word in ("description", "title"):
            said = one.get(word) if isinstance(one, Mapping) else None
            if isinstance(said, str) and said:
                return said[:_ABOUT] + ("…" if len(said) > _ABOUT else "")
    return ""


def _default(schema: Mapping[str, Any]) -> str:
    default = schema.get("default")
    return "" if default is None or isinstance(default, dict | list) else _json(default)[:_NAME]


def _json(value: Any) -> str:
    # In ASCII: the value from the browser is compared with it.
    return json.dumps(value)


def _readable(text: str) -> str:
    try:
        return json.dumps(json.loads(text), ensure_ascii=False)
    except ValueError:
        return text


# -- what was filled in


def read_form(fields: tuple[FormField, ...], given: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of a filled-in form; fields that are empty and optional are omitted.

    Raises:
        FormFault: a field is invalid.
    """
    found = {}
    for one in fields:
        text = given.get(one.key, "")
        if one.kind == "object":
            if one.required or _is_filled_in(one, given):
                found[one.name] = read_form(one.inner, given)
        elif text or (one.required and one.kind in ("text", "long text", "list")):
            found[one.name] = _value(one, text)
    return found


def _is_filled_in(one: FormField, given: Mapping[str, str]) -> bool:
    return bool(given.get(one.key)) or any(_is_filled_in(inner, given) for inner in one.inner)


def _value(one: FormField, text: str) -> Any:
    match one.kind:
        case "choice":
            if text not in one.options:
                raise FormFault(one.name, f"{one.name} must be one of its options.")
            return json.loads(text)
        case "yes or no":
            if text not in ("true", "false"):
                raise FormFault(one.name, f"{one.name} must be yes or no.")
            return text == "true"
        case "integer" | "number":
            return _number(one, one.kind, text)
        case "list":
            lines = [line for line in text.replace("\r\n", "\n").split("\n") if line.strip()]
            return [_number(one, one.items, line) if one.items in ("integer", "number") else line for line in lines]
        case "json":
            return read_json(one.name, text)
        case _:
            return text.replace("\r\n", "\n")


def _number(one: FormField, kind: FieldKind, text: str) -> int | float:
    try:
        if len(text) > _DIGITS:
            raise ValueError
        if kind == "integer":
            return int(text)
        number = float(text)
        if number != number or abs(number) == float("inf"):
            raise ValueError
        return int(text) if text.strip().lstrip("+-").isdecimal() else number
    except ValueError:
        wanted = "a whole number" if kind == "integer" else "a number"
        raise FormFault(one.name, f"{one.name} must be {wanted}, got {text[:40]!r}.") from None


def read_json(name: str, text: str) -> Any:
    """Return the value of a field that is written as JSON.

    Raises:
        FormFault: it is not JSON.
    """
    try:
        return decode_from_host(text.encode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise FormFault(name, f"{name} is not JSON: {error_text(error)[:200]}.") from None


def sample(fields: tuple[FormField, ...]) -> dict[str, Any]:
    """Return arguments that show how a call is written: each required one, with a value of its kind."""
    found: dict[str, Any] = {}
    for one in fields:
        if not one.required:
            continue
        if one.default:
            found[one.name] = json.loads(one.default) if len(one.default) < _NAME else one.default
            continue
        match one.kind:
            case "choice":
                found[one.name] = json.loads(one.options[0])
            case "integer" | "number":
                found[one.name] = 1
            case "yes or no":
                found[one.name] = True
            case "list":
                found[one.name] = [1] if one.items in ("integer", "number") else ["..."]
            case "object":
                found[one.name] = sample(one.inner)
            case "json":
                found[one.name] = {}
            case _:
                found[one.name] = "..."
    return found
