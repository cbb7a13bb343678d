"""The settings of an entry that name tools which its server does not list. This file decides."""

from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from aggregator.config.files.report import nearest
from aggregator.config.server_config import ServerConfig
from aggregator.doctor.finding import CheckFinding, brief, found

# A pattern with one of these may be for tools that are still to come.
_SIGNS: Final = frozenset("*?[")


class UnlistedTool(NamedTuple):
    """A tool that a setting names and its server does not list; `near` is one that it lists and that may be meant."""

    setting: str
    name: str
    near: str | None


def unlisted_tools(server: ServerConfig, listed: Collection[str]) -> list[UnlistedTool]:
    """Return the tools that the settings of a server name and that are not among its listed ones."""
    tools = server.tools
    named = {
        "tools.include": tools.include,
        "tools.exclude": tools.exclude,
        "tools.timeout": tuple(tools.timeout),
        "tools.fallbacks": tuple(tools.fallbacks),
    }
    return [
        UnlistedTool(setting, name, nearest(name, listed))
        for setting, names in named.items()
        for name in names
        if name not in listed and _SIGNS.isdisjoint(name)
    ]


def of_unlisted_tools(server: str, place: str, tools: Collection[UnlistedTool]) -> Iterator[CheckFinding]:
    """Yield the settings of a server that apply to no tool, by the place of its entry."""
    for one in tools:
        meant = f"Did you mean {one.near!r:.80}? " if one.near else ""
        yield found(
            "server_tool_unlisted",
            f"`{one.setting}` of {server} names the tool {brief(one.name, 80)!r}, which {server} does not list.",
            f"{meant}Correct it, or take it out.",
            f"{place}.{one.setting}",
        )
