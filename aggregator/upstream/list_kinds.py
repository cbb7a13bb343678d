"""The kinds of lists that an upstream has, and the request for each (S/server, L/server)."""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

Kind = Literal["tool", "resource", "template", "prompt"]


class _ListMethod(NamedTuple):
    """The request for one kind of list: its method, the member of the result with the items, and the capability."""

    method: str
    field: str
    capability: str


LIST_METHODS: Final[Mapping[Kind, _ListMethod]] = {
    "tool": _ListMethod("tools/list", "tools", "tools"),
    "resource": _ListMethod("resources/list", "resources", "resources"),
    "template": _ListMethod("resources/templates/list", "resourceTemplates", "resources"),
    "prompt": _ListMethod("prompts/list", "prompts", "prompts"),
}
# The filters of 2026-07-28 for changes of lists, by capability.
LIST_CHANGE_FILTERS: Final[Mapping[str, str]] = {
    "tools": "toolsListChanged",
    "prompts": "promptsListChanged",
    "resources": "resourcesListChanged",
}

LISTS_CHANGED: Final = frozenset(f"notifications/{capability}/list_changed" for capability in LIST_CHANGE_FILTERS)
