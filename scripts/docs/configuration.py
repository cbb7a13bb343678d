"""The reference of every field of the configuration, for docs/configuration.md."""

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, BeforeValidator
from pydantic.fields import FieldInfo

from aggregator.config.auth.issuers import ClaimsConfig, IntrospectionConfig, IssuerConfig, SignInConfig
from aggregator.config.durations import format_duration, parse_duration, parse_size
from aggregator.config.model import Config
from aggregator.config.server_config import GROUPS, ServerConfig
from aggregator.config.servers.foreign import WORKED_OUT
from aggregator.config.settings import TlsConfig
from aggregator.notify.config import ReceiverConfig
from scripts.docs.marks import between_marks

# The parts of `auth.issuers`, by their paths in `auth`.
ISSUER_PARTS: dict[str, type[BaseModel]] = {
    "issuers[]": IssuerConfig,
    "issuers[].introspection": IntrospectionConfig,
    "issuers[].claims": ClaimsConfig,
    "issuers[].sign_in": SignInConfig,
}
# Fields whose default is told in the description.
_WRITTEN_DEFAULTS = ("prefix", "type", "description", "limits.max_timeout")


def rendered() -> str:
    """Return the reference: a heading per field, by section."""
    parts = [
        "## Fields of a server\n",
        _section(ServerConfig, "", WORKED_OUT | GROUPS.keys()),
    ]
    for group, model in GROUPS.items():
        parts += [_heading(group, ServerConfig.model_fields[group]), _section(model, f"{group}.", frozenset())]
    parts += ["## Fields at the root\n"]
    for name, field in Config.model_fields.items():
        if name == "servers":
            continue
        parts.append(_heading(name, field))
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            parts.append(_section(field.annotation, f"{name}.", frozenset()))
            if name == "http":
                parts.append(_section(TlsConfig, "http.tls.", frozenset()))
        if name == "auth":
            parts += [_section(model, f"auth.{part}.", frozenset()) for part, model in ISSUER_PARTS.items()]
        if name == "notify":
            parts.append(_section(ReceiverConfig, f"{name}[].", frozenset()))
    return "\n".join(parts)


def inserted(text: str) -> str:
    """Return the document with the reference between its marks."""
    return between_marks(text, "fields", rendered())


def _section(model: type[BaseModel], prefix: str, without: frozenset[str]) -> str:
    fields = model.model_fields
    return "\n".join(_heading(f"{prefix}{name}", fields[name]) for name in fields if name not in without)


def _heading(name: str, field: FieldInfo) -> str:
    return "\n".join((f"### `{name}`\n", *_facts(name, field)))


def _facts(name: str, field: FieldInfo) -> Iterator[str]:
    line = _type(field)
    if field.is_required() and name not in _WRITTEN_DEFAULTS:
        line += ", required"
    elif name not in _WRITTEN_DEFAULTS and not isinstance(field.default, BaseModel):
        line += f", default {_default(field)}"
    yield f"*{line}.* {field.description}\n"
    for example in field.examples or ():
        spelled = json.dumps({name.rsplit(".", 1)[-1]: example}, ensure_ascii=False)
        yield f"Example: `{spelled[1:-1]}`\n"


def _held(field: FieldInfo) -> tuple[Any, list[Any]]:
    """Return the type of a field without None, and the functions that parse a value before it is validated."""
    annotation: Any = field.annotation
    metadata = list(field.metadata)
    kinds = [kind for kind in get_args(annotation) if kind is not type(None)]
    if type(None) in get_args(annotation) and len(kinds) == 1:
        annotation = kinds[0]
        if get_origin(annotation) is Annotated:
            annotation, *beside = get_args(annotation)
            metadata += beside
    return annotation, [item.func for item in metadata if isinstance(item, BeforeValidator)]


def _type(field: FieldInfo) -> str:
    annotation, validators = _held(field)
    if parse_duration in validators:
        return "Duration"
    if parse_size in validators:
        return "Size"
    kinds = get_args(annotation)
    if get_origin(annotation) is Literal:
        return "One of " + ", ".join(f'`"{word}"`' for word in kinds)
    if get_origin(annotation) is tuple:
        return "List of objects" if {ReceiverConfig, IssuerConfig} & {*kinds} else "List of texts"
    if isinstance(get_origin(annotation), type) and issubclass(get_origin(annotation), Mapping):
        if get_origin(kinds[1]) is tuple:
            return "Object of lists of texts"
        return "Object of durations" if "float" in str(kinds[1]) else "Object of texts"
    return {str: "Text", bool: "true or false", int: "Whole number", float: "Number"}.get(annotation, "Object")


def _default(field: FieldInfo) -> str:
    value, (_, validators) = field.default, _held(field)
    if value in (None, (), {}):
        return "none"
    if parse_duration in validators:
        return f'`"{format_duration(value)}"`'
    if parse_size in validators:
        return f'`"{_size(value)}"`'
    return f"`{json.dumps(value)}`"


def _size(value: int) -> str:
    for unit, step in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value % step == 0:
            return f"{value // step}{unit}"
    return str(value)
