"""Resolve local references that are plain JSON pointers, for code that only reads a schema."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

_HOPS: Final = 20


def resolve_reference(schema: Any, root: Any) -> Any:
    """Return the end of a chain of `#/...` references; the last schema met if it leads nowhere."""
    for _ in range(_HOPS):
        reference = schema.get("$ref") if isinstance(schema, Mapping) else None
        if not isinstance(reference, str):
            return schema
        target = at_pointer(root, reference)
        if target is None:
            return schema
        schema = target
    return schema


def at_pointer(root: Any, reference: str) -> Any:
    """Return the target of `#` or `#/...` in `root`; None for anything else, and for a target with an id of its own."""
    if reference == "#":
        return root
    if not reference.startswith("#/"):
        return None
    target = root
    for part in unquote(reference[2:]).split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(target, Mapping):
            if target is not root and "$id" in target:
                return None
            target = target.get(key)
        elif isinstance(target, list) and key.isdecimal() and int(key) < len(target):
            target = target[int(key)]
        else:
            return None
    return target
