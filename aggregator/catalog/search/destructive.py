"""Keep tools that delete or stop something from being the first of an answer that hardly fits the query.

Law: this file decides. It trusts a server that calls a tool destructive, and no server that calls one harmless.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from aggregator.catalog.search.relevance import EXAMINED, ToolLikeness, check_weakness
from aggregator.catalog.search.terms.words import split
from aggregator.catalog.search.visible import VisibleTools
from aggregator.domain.records import ToolRecord

# How many of the found tools are searched for one that is not destructive.
LOOKED_AT: Final = 16
_VERBS: Final = frozenset(
    (
        *("delete", "deletes", "del", "remove", "removes", "rm", "drop", "destroy", "erase", "purge", "wipe"),
        *("stop", "stops", "terminate", "terminates", "kill", "abort", "cancel", "shutdown", "halt", "evict", "drain"),
        *("clear", "reset", "revoke", "uninstall", "unpublish", "deactivate", "disable", "discard", "truncate"),
        *("cleanup", "prune", "reboot", "restart", "revert", "rollback", "unregister", "close", "lock", "block"),
        *("删除", "移除", "清空", "停止", "终止", "取消", "重启"),
    )
)
_READING: Final = frozenset(("get", "list", "read", "show", "search", "find", "describe", "fetch", "check", "query"))


def is_destructive(tool: ToolRecord) -> bool:
    """Tell whether a tool is annotated as destructive, or the verb of its name says so."""
    annotations = tool.definition.get("annotations")
    if isinstance(annotations, Mapping) and annotations.get("destructiveHint") is True:
        return annotations.get("readOnlyHint") is not True
    for word in split(tool.own_name):
        if word in _READING:
            return False
        if word in _VERBS:
            return True
    return False


def harmless_first(
    visible: VisibleTools, query: str, found: Sequence[ToolRecord], likeness: ToolLikeness | None
) -> list[ToolRecord]:
    """Return the tools found for a query, best first; of a weak answer the first harmless tool comes before destructive
    ones.

    `likeness`: see `relevance.check_relevance`.
    """
    ordered = list(found)
    if not ordered or not is_destructive(ordered[0]):
        return ordered
    at = next((place for place, tool in enumerate(ordered[:LOOKED_AT]) if not is_destructive(tool)), 0)
    # The best alone tell whether an answer is weak.
    if at and check_weakness(visible, query, [tool.name for tool in ordered[:EXAMINED]], likeness):
        ordered.insert(0, ordered.pop(at))
    return ordered
