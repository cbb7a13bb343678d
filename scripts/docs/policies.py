"""The reference of every field of policy files and cases, for docs/policies.md."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from aggregator.config.fields import Bytes
from aggregator.policy.files.cases import PolicyCase
from aggregator.policy.files.documents import (
    AgentPart,
    AnnotationsPart,
    DefaultsPart,
    FlowPart,
    LimitsPart,
    PolicyFile,
    RolePart,
    TenantPart,
    WhoPart,
)
from scripts.docs.marks import between_marks

_INSIDE: Final = {"limits": LimitsPart.model_fields, "annotations": AnnotationsPart.model_fields}
_WORDS: Final[Mapping[str, str]] = {
    "arguments": "JSON Schema per pattern",
    "limits": "Object per pattern",
    "annotations": "Object",
    "bindings": "Server per plain tool name",
    "roles": "List of role names",
    "servers": "List of server names",
    "scopes": "List of scopes per pattern",
    **dict.fromkeys(("who.issuer", "who.subject", "who.client", "who.tenant"), "Text"),
    "labels": "List of patterns per label",
    "flow": "List of objects",
    "decay": "Duration",
    "cases.after": "List of full names and labels",
    **dict.fromkeys(("flow.after", "flow.calls"), "Label, or list of labels"),
    "who.groups": "List of texts",
    "who.scopes": "List of scopes",
    "who.roles": "List of role names",
    "keys": "List of `KEYID:HASH`",
}


def fields() -> dict[str, tuple[FieldInfo, str]]:
    """Return every field by its heading, with the sections it may stand in."""
    found: dict[str, tuple[FieldInfo, str]] = {}
    for name, field in DefaultsPart.model_fields.items():
        found[name] = field, "agents, roles, defaults"
        for inner, inner_field in _INSIDE.get(name, {}).items():
            found[f"{name}.{inner}"] = inner_field, "agents, roles, defaults"
    found["roles"] = RolePart.model_fields["roles"], "agents, roles"
    for name in ("tenant", "keys"):
        found[name] = AgentPart.model_fields[name], "agents"
    found["servers"] = TenantPart.model_fields["servers"], "tenants"
    for name, field in WhoPart.model_fields.items():
        found[f"who.{name}"] = field, "who"
    for name in ("labels", "flow", "decay", "conversation"):
        found[name] = PolicyFile.model_fields[name], "a file, at its top"
    for name, field in FlowPart.model_fields.items():
        found[f"flow.{name}"] = field, "flow"
    for name, field in PolicyCase.model_fields.items():
        found[f"cases.{name}"] = field, "cases"
    return found


def render() -> str:
    """Return the reference: a heading per field."""
    return "\n".join(
        "\n".join((f"### `{name}`\n", *_facts(name, *about))) for name, about in fields().items()
    )  # fmt: skip


def inserted(text: str) -> str:
    """Return the document with the reference between its marks."""
    return between_marks(text, "fields", render())


def _facts(name: str, field: FieldInfo, where: str) -> Iterator[str]:
    required = ", required" if field.is_required() else ""
    yield f"*{_type(name, field)}{required}. In {where}.* {field.description}\n"
    for example in field.examples or ():
        spelled = f"{name.rsplit('.', 1)[-1]}: {_flow(example)}"
        yield f"Example: `{spelled}`\n"


def _type(name: str, field: FieldInfo) -> str:
    if name in _WORDS:
        return _WORDS[name]
    words = [word for kind in _kinds(field.annotation) if get_origin(kind) is Literal for word in get_args(kind)]
    if words:
        return "One of " + ", ".join(f"`{word}`" for word in words)
    if get_origin(field.annotation) is list:
        return "List of patterns"
    if name.endswith("bytes"):
        return "Size"
    if name == "tenant" or any(kind is str for kind in _kinds(field.annotation)):
        return "Text"
    if any(kind is int or kind == Bytes or get_args(kind)[:1] == (int,) for kind in _kinds(field.annotation)):
        return "Whole number"
    return "Object"


def _kinds(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) is Literal:
        return (annotation,)
    return (annotation, *get_args(annotation))


def _flow(value: Any) -> str:
    """Return a value as YAML on one line; texts are quoted only where YAML demands it."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_flow(key)}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, str) and (value[:1] in "*?[" or any(char in value for char in ",{}[]")):
        return json.dumps(value, ensure_ascii=False)
    return value if isinstance(value, str) else json.dumps(value)
