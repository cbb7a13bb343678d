"""The size of a schema for readers that replace every reference by its target, as LangChain does."""

from collections.abc import Mapping
from typing import Any

from aggregator.schemas.structure.local import at_pointer


def grows_beyond(schema: Mapping[str, Any], limit: int) -> bool:
    """Return whether the schema has more than `limit` values once every reference is replaced by its target.

    Loops end if a reference meets itself. A few definitions that name each other twice are enough for 2^n values.
    """
    stack: list[tuple[Any, frozenset[str]]] = [(schema, frozenset())]
    sizes: dict[str, int] = {}
    seen = 0
    while stack:
        node, inside = stack.pop()
        seen += 1
        if isinstance(node, list):
            stack.extend((part, inside) for part in node)
        elif isinstance(node, Mapping):
            stack.extend((part, inside) for part in node.values())
            reference = node.get("$ref")
            if isinstance(reference, str) and reference not in inside:
                target = at_pointer(schema, reference)
                if reference not in sizes:
                    sizes[reference] = _size(target, limit)
                seen += sizes[reference]
                stack.append((target, inside | {reference}))
        if seen + len(stack) > limit:
            return True
    return False


def _size(value: Any, limit: int) -> int:
    stack, size = [value], 0
    while stack and size <= limit:
        node = stack.pop()
        size += 1
        if isinstance(node, Mapping):
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)
    return size
