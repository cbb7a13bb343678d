"""The kinds of lists that an upstream has, and how each is asked for (S/server, L/server)."""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

Kind = Literal["tool", "resource", "template", "prompt"]


class _ListMethod(NamedTuple):
    """How a kind is listed: the method, the field of the result, and the capability that offers it."""

    method: str
    field: str
    capability: str


WAYS: Final[Mapping[Kind, _ListMethod]] = {
    "tool": _ListMethod("tools/list", "tools", "tools"),
    "resource": _ListMethod("resources/list", "resources", "resources"),
    "template": _ListMethod("resources/templates/list", "resourceTemplates", "resources"),
    "prompt": _ListMethod("prompts/list", "prompts", "prompts"),
}
# What the news of a change is called, in the handshake eras and as a filter of 2026-07-28.
LIST_CHANGE_FILTERS: Final[Mapping[str, str]] = {
    "tools": "toolsListChanged",
    "prompts": "promptsListChanged",
    "resources": "resourcesListChanged",
}

LISTS_CHANGED: Final = frozenset(f"notifications/{capability}/list_changed" for capability in LIST_CHANGE_FILTERS)
