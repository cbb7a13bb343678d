"""The main parameters of a tool in a few words each: `"city": "string* 城市名"`.

Type or options, `*` required, `=` default, `~` something the whole schema says more about; then the meaning.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from aggregator.catalog.describe.first_sentence import gist, words_of
from aggregator.catalog.describe.markdown import columns, visible

_HOPS: Final = 20
_DEPTH: Final = 4
_PARTS: Final = 300
_OPTIONS: Final = 6
_OPTION_COLUMNS: Final = 24
_OPTIONS_COLUMNS: Final = 60
_INNER_NAMES: Final = 5
_DEFAULT_COLUMNS: Final = 16
_NAME_LENGTH: Final = 64

# Keywords that say nothing about accepted arguments, or are shown in another form.
_HARMLESS: Final = frozenset(
    {
        "type",
        "title",
        "description",
        "default",
        "examples",
        "example",
        "enum",
        "const",
        "anyOf",
        "oneOf",
        "items",
        "format",
    }
    | {
        "properties",
        "required",
        "minimum",
        "maximum",
        "$comment",
        "deprecated",
        "readOnly",
        "$schema",
        "$defs",
        "definitions",
    }
    | {"additionalProperties", "nullable", "$id"}
)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter in a few words: its type, whether that leaves something out, and its meaning."""

    name: str
    kind: str
    lossy: bool
    required: bool
    default: str
    about: str

    @property
    def mark(self) -> str:
        """The type and its marks: `integer*`, `a|b=a`, `object~`."""
        return f"{self.kind}{'~' if self.lossy else ''}{'*' if self.required else ''}{self.default}"


def parameters(schema: Any, about: int) -> Iterator[Parameter]:
    """Yield the parameters that can be shown, the required ones first, then in the schema's order.

    `about` is the space for the meaning of each, in columns.
    """
    whole = schema
    schema = _resolve_reference(schema, whole)
    for name, required in parameter_names(schema):
        part = schema["properties"].get(name, True) if isinstance(schema.get("properties"), Mapping) else True
        if not name.isprintable() or len(name) > _NAME_LENGTH:
            continue
        target = _resolve_reference(part, whole)
        writer = _ParameterText(whole)
        kind = writer.kind(part, 0, required=required)
        text = _text_of(part, "description") or _text_of(target, "description") or _text_of(part, "title")
        meaning = gist(text, about)
        if set(words_of(meaning)) <= {*words_of(name), "the", "a", "an", "of"}:
            meaning = ""
        yield Parameter(name, kind, writer.lossy, required, _default(part, target), meaning)


def parameter_names(schema: Any) -> list[tuple[str, bool]]:
    """Return every parameter with whether it is required, those first."""
    if not isinstance(schema, Mapping):
        return []
    properties, required = schema.get("properties"), schema.get("required")
    known = properties if isinstance(properties, Mapping) else {}
    needed = dict.fromkeys(n for n in required if isinstance(n, str)) if isinstance(required, list) else {}
    first = [*(name for name in known if name in needed), *(name for name in needed if name not in known)]
    return [*((name, True) for name in first), *((name, False) for name in known if name not in needed)]


def has_rules(schema: Any) -> bool:
    """Tell whether the schema says more about the arguments as a whole than its properties do."""
    return isinstance(schema, Mapping) and bool(set(schema) - (_HARMLESS - {"anyOf", "oneOf", "enum", "const"}))


class _ParameterText:
    """The type of one parameter in a few words; `lossy` once something was left out."""

    def __init__(self, whole: Any) -> None:
        self._whole = whole
        self._left = _PARTS
        self.lossy = False

    def kind(self, schema: Any, depth: int, *, required: bool = True) -> str:
        self._left -= 1
        if schema is True or schema == {}:
            return "any"
        schema = _resolve_reference(schema, self._whole)
        if not isinstance(schema, Mapping) or depth > _DEPTH or self._left < 0:
            return self._lost("any")
        self.lossy |= any(key not in _HARMLESS for key in schema)
        if "const" in schema:
            return self._options([schema["const"]], "any")
        if isinstance(schema.get("enum"), list) and schema["enum"]:
            return self._options(schema["enum"], _type_of(schema["enum"][0]))
        for keyword in ("anyOf", "oneOf"):
            if isinstance(schema.get(keyword), list) and schema[keyword]:
                return self._either(schema[keyword], depth, required=required)
        kinds = schema.get("type")
        if isinstance(kinds, list) and kinds:
            parts = [{**schema, "type": kind} for kind in kinds[:_OPTIONS]]
            return self._either(parts, depth, required=required)
        if not isinstance(kinds, str):
            kinds = "object" if "properties" in schema else "array" if "items" in schema else "any"
        return self._single(kinds, schema, depth)

    def _single(self, kind: str, schema: Mapping[str, Any], depth: int) -> str:
        if kind == "array":
            inside = self.kind(schema.get("items", True), depth + 1)
            return f"({inside})[]" if "|" in inside else "array" if inside == "any" else f"{inside}[]"
        if kind == "object":
            return self._object(schema)
        if kind in ("integer", "number"):
            return f"{kind}{_range(schema)}"
        form = schema.get("format")
        if kind == "string" and isinstance(form, str):
            return f"string({visible(form[:24])})"
        return visible(kind[:24]) or self._lost("any")

    def _object(self, schema: Mapping[str, Any]) -> str:
        inner = parameter_names(schema)
        additional = schema.get("additionalProperties")
        self.lossy |= bool(inner) or isinstance(additional, Mapping)
        shown = [f"{visible(name[:30])}{'*' if required else ''}" for name, required in inner[:_INNER_NAMES]]
        if not shown:
            return "object"
        return "{" + ",".join([*shown, "…"] if len(inner) > _INNER_NAMES else shown) + "}"

    def _either(self, parts: list[Any], depth: int, *, required: bool) -> str:
        # An optional parameter that may be null is simply left out.
        if not required and len(parts) > 1:
            parts = [part for part in parts if part != {"type": "null"} and not _is_null(part)] or parts
        self.lossy |= len(parts) > _OPTIONS
        return "|".join(dict.fromkeys(self.kind(part, depth + 1) for part in parts[:_OPTIONS]))

    def _options(self, options: list[Any], kind: str) -> str:
        shown: list[str] = []
        used = 0
        for option in options:
            text = _literal(option)
            used += columns(text) + 1
            if columns(text) > _OPTION_COLUMNS or used > _OPTIONS_COLUMNS or len(shown) == _OPTIONS:
                self.lossy = True
                return "|".join([*shown, "…"]) if shown else kind
            shown.append(text)
        return "|".join(shown)

    def _lost(self, kind: str) -> str:
        self.lossy = True
        return kind


def _resolve_reference(schema: Any, whole: Any) -> Any:
    """Return the end of a chain of `#/...` references; the last schema met if one leads nowhere."""
    for _ in range(_HOPS):
        reference = schema.get("$ref") if isinstance(schema, Mapping) else None
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return schema
        target = whole
        for part in unquote(reference[2:]).split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            target = target.get(key) if isinstance(target, Mapping) else None
        if target is None:
            return schema
        schema = target
    return schema


def _is_null(part: Any) -> bool:
    return isinstance(part, Mapping) and part.get("type") == "null"


def _text_of(schema: Any, key: str) -> str:
    text = schema.get(key) if isinstance(schema, Mapping) else None
    return text if isinstance(text, str) else ""


def _type_of(value: Any) -> str:
    kinds = (
        (bool, "boolean"),
        (str, "string"),
        (int, "integer"),
        (float, "number"),
        (list, "array"),
        (Mapping, "object"),
    )
    return next((kind for known, kind in kinds if isinstance(value, known)), "any")


def _literal(value: Any) -> str:
    """Write a bare word unquoted and everything else as JSON, so that `5` and `"5"` differ."""
    if isinstance(value, str) and value and value.isprintable() and not set(value) & set('|~*="… '):
        return json.dumps(value, ensure_ascii=False) if _reads_as_json(value) else value
    if isinstance(value, int) and abs(value) > 10**30:
        return "integer"
    return json.dumps(value, separators=(",", ":"))


def _reads_as_json(text: str) -> bool:
    return text in ("true", "false", "null") or text[0] in "-0123456789[{"


def _range(schema: Mapping[str, Any]) -> str:
    low, high = (schema.get(key) for key in ("minimum", "maximum"))
    ends = ["" if end is None else _literal(end)[:12] for end in (low, high)]
    return f"({ends[0]}..{ends[1]})" if any(ends) else ""


def _default(*schemas: Any) -> str:
    for schema in schemas:
        value = schema.get("default") if isinstance(schema, Mapping) else None
        if isinstance(value, str | int | float) and value != "":
            text = _literal(value)
            return f"={text}" if columns(text) <= _DEFAULT_COLUMNS else ""
    return ""
