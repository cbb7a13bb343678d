"""The kinds of lists that an upstream has, and the request for each (S/server, L/server, SEP-2640)."""

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from aggregator.domain.versions import SKILLS

Kind = Literal["tool", "resource", "template", "prompt", "skill"]


class _ListMethod(NamedTuple):
    """The request for one kind of list: its method, the member of the result with the items, and the capability.

    `named_by` is the member of each item with its name. `extension` is the extension that a server must also declare,
    if any.
    """

    method: str
    field: str
    capability: str
    named_by: str
    extension: str | None = None


LIST_METHODS: Final[Mapping[Kind, _ListMethod]] = {
    "tool": _ListMethod("tools/list", "tools", "tools", "name"),
    "resource": _ListMethod("resources/list", "resources", "resources", "uri"),
    "template": _ListMethod("resources/templates/list", "resourceTemplates", "resources", "uriTemplate"),
    "prompt": _ListMethod("prompts/list", "prompts", "prompts", "name"),
    "skill": _ListMethod("skills/list", "skills", "resources", "uri", SKILLS),
}
# The lists to keep for the next start. Skills are not kept: hosts compare them with files, which do not exist yet.
KEPT: Final[tuple[Kind, ...]] = ("tool", "prompt", "resource", "template")
# The filters of 2026-07-28 for changes of lists, by capability.
LIST_CHANGE_FILTERS: Final[Mapping[str, str]] = {
    "tools": "toolsListChanged",
    "prompts": "promptsListChanged",
    "resources": "resourcesListChanged",
}

TOOLS_CHANGED: Final = "notifications/tools/list_changed"
LISTS_CHANGED: Final = frozenset(f"notifications/{capability}/list_changed" for capability in LIST_CHANGE_FILTERS)


def declared_extension(capabilities: Mapping[str, Any], extension: str) -> Mapping[str, Any] | None:
    """Return the settings of an extension that a server declares; None if it does not declare it."""
    extensions = capabilities.get("extensions")
    found = extensions.get(extension) if isinstance(extensions, Mapping) else None
    return found if isinstance(found, Mapping) else None
