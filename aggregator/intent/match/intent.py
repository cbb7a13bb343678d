"""Recognise by rules and keywords whether a chat message asks for a tool, and for which.

Law 1: an answer names only the tools given, and only servers that have one of them. Law 2: equal messages, tools and
servers give equal answers; nothing else affects them.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from aggregator.catalog.describe.first_sentence import Language
from aggregator.catalog.describe.levels import LABELS, level1
from aggregator.domain.bounds.lru import LruCache
from aggregator.domain.records import ToolRecord
from aggregator.intent.match.keywords import TriggerKeywords
from aggregator.intent.match.languages import language_of
from aggregator.intent.match.names import ServerWords, ToolNames, build_names
from aggregator.intent.match.order import RankTools
from aggregator.intent.match.rules import Rule, RuleInput, find_hit
from aggregator.intent.match.text import read

__all__ = ["IntentMatch", "IntentMatcher", "RankTools", "Rule", "ServerWords", "snippet"]

# Lists of tools that are kept ready, with the names in them.
_KEPT: Final = 32


@dataclass(frozen=True, slots=True)
class IntentMatch:
    """The tools that a message asks for. With the intent `none` there is nothing to inject.

    `rule` is the matching rule: `handle` (@name, /name), `explicit` (用 xxx 工具, use xxx), `name` (an identifier
    that a clause begins with), `ask` (帮我 xxx 一下, please xxx), `nearest` (a call by nearly a name, or by the
    purpose of a tool), `keyword`. `matched` are the words it matched, `server` is the id of the server it is
    tied to, None if there are several. `tools`: the most fitting first. `language` is the language of the
    message.
    """

    intent: Literal["mcp", "none"]
    rule: Rule | None
    matched: str | None
    server: str | None
    tools: tuple[ToolRecord, ...]
    language: Language = "en"


class IntentMatcher:
    """The rules and keywords for the servers of one configuration. Tools given as a tuple are prepared once."""

    def __init__(self, servers: Iterable[ServerWords]) -> None:
        self._servers = {server.id: server for server in servers}
        self._keywords = TriggerKeywords((server.id, server.trigger_keywords) for server in self._servers.values())
        self._names: LruCache[tuple[int, frozenset[str] | None], tuple[Sequence[ToolRecord], ToolNames]] = LruCache(
            _KEPT
        )

    def __repr__(self) -> str:
        return f"<Intents {len(self._servers)} servers, {len(self._keywords)} keywords, {len(self._names)} lists ready>"

    def match(
        self,
        message: str,
        tools: Sequence[ToolRecord],
        limit: int = 10,
        *,
        ready: Collection[str] | None = None,
        rank: RankTools | None = None,
    ) -> IntentMatch:
        """Return the tools that the message asks for, at most `limit` of `tools`, which are all that the agent may see.

        `ready`: ids of the servers whose tools can be called now, all if None. `rank` orders the tools of a server
        requested as a whole; without it, tools that share words with the message come first.
        """
        parsed = read(message)
        names = self._prepared(tools, ready)
        found = find_hit(RuleInput(parsed, language_of(parsed), names, self._keywords, rank))
        language: Language = "zh" if parsed.chinese else "en"
        if found is None:
            return IntentMatch("none", None, None, None, (), language)
        shown = tuple(names.tools[at] for at in found.places[: max(0, limit)])
        return IntentMatch(
            "mcp", found.rule, parsed.text[found.start : found.end].strip(), found.server, shown, language
        )

    def _prepared(self, tools: Sequence[ToolRecord], ready: Collection[str] | None) -> ToolNames:
        """Return the names of the tools, kept by the identity of the tuple.

        The tuple is kept too, so that no other object can get its identity.
        """
        key = (id(tools), None if ready is None else frozenset(ready))
        kept = self._names.get(key)
        if kept is None:
            seen = tools if ready is None else [tool for tool in tools if tool.server in ready]
            kept = (tools, build_names(seen, self._servers))
            if not isinstance(tools, tuple):
                return kept[1]
            self._names.put(key, kept)
        return kept[1]


def snippet(match: IntentMatch, language: Language | None = None) -> str:
    """Return the text to inject for a match, a line for each tool: `[工具] weather.get: 查询天气`; empty for no match.

    `language` is the language of the label, by default the message's. `tokens.estimate` returns the cost.
    """
    chosen = language or match.language
    return "\n".join(level1(tool, label=LABELS[chosen], language=chosen) for tool in match.tools)
