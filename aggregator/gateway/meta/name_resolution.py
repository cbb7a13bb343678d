"""Name resolution: the tool or server that a model means by a name in another spelling than the list's.

Law: only tools and servers visible to the agent are candidates, and only a single match counts; nothing is guessed
between two.
"""

import re
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import Final, NamedTuple

from aggregator.catalog.describe.levels import shown_name
from aggregator.domain.errors import BadArguments
from aggregator.domain.names import loosened, without_host_prefix
from aggregator.domain.records import ToolRecord
from aggregator.domain.text.caseless import caseless
from aggregator.domain.text.cut import quoted
from aggregator.domain.text.tokens import fit
from aggregator.gateway.calls.resolve import Resolver
from aggregator.gateway.meta.argument_aliases import unfenced
from aggregator.gateway.meta.rendering import rendered
from aggregator.gateway.views.finder import Finder
from aggregator.gateway.views.server_seen import ServerSeen
from aggregator.gateway.views.start_faults import left_out_sentence
from aggregator.gateway.views.views import View
from aggregator.pins.gateway.answers import held_note

# Names shown of those that a name may stand for; lines about a server's tools, and the tokens they may cost.
_SHOWN: Final = 5
_LINES: Final = 40
_TOOLS_BUDGET: Final = 400
_EVERY: Final = frozenset(("all", "any", "*"))
_WORD: Final = re.compile("[a-z]+")
_ALIKE: Final = 0.6
# Characters of a name that are compared with the names of servers.
_LONGEST: Final = 100


class ResolvedTools(NamedTuple):
    """The tools that a name stands for: `tools` are all that it fits, `name` is the canonical name of the only one.

    Where there is not exactly one, `name` is what to look for, which says why there is none.
    """

    name: str
    tools: Sequence[ToolRecord]


class WrittenNames:
    """The reading of names that a model writes, for one agent."""

    def __init__(self, finder: Finder, resolver: Resolver, view: View) -> None:
        self._finder = finder
        self._resolver = resolver
        self._view = view
        self._spellings: dict[str, list[str]] = {}

    async def read(self, name: str) -> ResolvedTools:
        """Return every tool that a name may stand for: the one whose name it is, else all that it fits loosely."""
        written = self.spellings(name)
        for one in written:
            if await self._resolver.is_written(self._view, one):
                return self._as_written(one)
        for one in written:
            tools = await self._finder.tools_spelled(self._view, one)
            if tools:
                return _as_spelled(one, tools)
        return ResolvedTools(name, ())

    def read_now(self, name: str) -> ResolvedTools | None:
        """Return what `read` does, without its waits; None if it has to wait."""
        written = self.spellings(name)
        for one in written:
            is_written = self._resolver.is_written_now(self._view, one)
            if is_written is None:
                return None
            if is_written:
                return self._as_written(one)
        for one in written:
            tools = self._finder.tools_spelled_now(self._view, one)
            if tools is None:
                return None
            if tools:
                return _as_spelled(one, tools)
        return ResolvedTools(name, ())

    def _as_written(self, name: str) -> ResolvedTools:
        tool = self._resolver.called(self._view, name)
        return ResolvedTools(name, ()) if tool is None or tool.only_for_apps else ResolvedTools(tool.name, (tool,))

    def server(self, name: str) -> str | None:
        """Return, for a name that is a server's and no tool's, a text that says so and shows tools of it."""
        finder, view = self._finder, self._view
        seen = finder.server_named(view, name) or finder.server_named(view, _bare(name))
        if seen is None:
            return None
        tools = self._finder.of_server(self._view, seen.config.id)
        if not tools:
            held = f"; {note}" if (note := held_note(seen.held)) else ""
            return f"{seen.name} is a server, not a tool, and has no tools to call now ({seen.state}{held})."
        lines = fit(map(rendered(self._finder, self._view, 1), tools[:_LINES]), _TOOLS_BUDGET, at_least=1).items
        left = len(tools) - len(lines)
        more = [f"+{left} more: search_tools with server {seen.name} lists them all"] if left else []
        return "\n".join([f"{seen.name} is a server, not a tool. Its tools:", *lines, *more])

    def spellings(self, name: str) -> list[str]:
        """Return the written name, without decoration, and without a host's prefix if that is no server of ours."""
        known = self._spellings.get(name)
        if known is None:
            known = self._spellings[name] = self._spelled(name)
        return known

    def _spelled(self, name: str) -> list[str]:
        bare = _bare(name)
        short = without_host_prefix(bare)
        found = [name, bare]
        if short and short != bare:
            words = _WORD.findall(bare[: len(bare) - len(short)].lower())
            named = (self._finder.server_named(self._view, word) for word in words)
            found += [] if any(server is not None for server in named) else [short]
        return list(dict.fromkeys(found))


def _as_spelled(name: str, tools: Sequence[ToolRecord]) -> ResolvedTools:
    return ResolvedTools(tools[0].name if len(tools) == 1 else name, tools)


def _bare(name: str) -> str:
    """Return a name without backticks around it and without `()` after it."""
    return unfenced(name).removesuffix("()").strip() or name


def may_be_written_for(name: str, known: Collection[str]) -> bool:
    """Tell whether a name may be another spelling of a known one: see `WrittenNames.spellings`."""
    bare = _bare(name)
    return any(one in known for one in (name, bare, without_host_prefix(bare)))


def several(asked: str, name: str, tools: Sequence[ToolRecord]) -> BadArguments:
    """Return the refusal of a name that several tools fit."""
    names = [shown_name(tool) for tool in tools[:_SHOWN]]
    more = f" and {len(tools) - _SHOWN} more" if len(tools) > _SHOWN else ""
    return BadArguments(asked, f"{quoted(name)} is no tool's whole name: it may be {', '.join(names)}{more}. Take one.")


def is_every_server(finder: Finder, view: View, name: str) -> bool:
    """Tell whether a word stands for all servers, since none of them has it as a name."""
    return caseless(name) in _EVERY and finder.server_named(view, name) is None


def no_server(finder: Finder, view: View, name: str) -> str:
    """Return the answer to a question about a server that there is not: why its entry is left out, else the nearest
    servers, else all.
    """
    asked, servers = loosened(name[:_LONGEST]), finder.servers(view)
    if wrong := [entry for entry in finder.left_out(view) if loosened(entry.name) == asked]:
        return left_out_sentence(wrong)
    said = f"There is no server {quoted(name)}."
    by_name = {loosened(one): seen.name for seen in servers for one in (seen.config.id, seen.name)}
    near = get_close_matches(asked, by_name, 3, _ALIKE)
    if near:
        return f"{said} Did you mean {' or '.join(dict.fromkeys(by_name[one] for one in near))}?"
    return f"{said} {all_servers(servers)}"


def all_servers(servers: Sequence[ServerSeen]) -> str:
    """Return the names of all servers as a sentence."""
    return f"Servers: {', '.join(seen.name for seen in servers) or 'none'}."
