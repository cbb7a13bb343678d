"""Layer 1 of intent recognition: whether a message asks for a tool, by rules and keywords, and which.

Law 1: nothing is named that is not among the tools given, nor a server that has none among them.
Law 2: the same message, tools and servers give the same answer; what is not given has no part in it.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from aggregator.catalog.describe.first_sentence import Language
from aggregator.catalog.describe.levels import LABELS, level1
from aggregator.catalog.intent.keywords import TriggerKeywords
from aggregator.catalog.intent.names import ServerWords, ToolNames, names_of
from aggregator.catalog.intent.order import Rank
from aggregator.catalog.intent.rules import Message, Rule, pointing
from aggregator.catalog.intent.text import read
from aggregator.domain.lru import LruCache
from aggregator.domain.records import ToolRecord

__all__ = ["IntentMatcher", "Match", "Rank", "Rule", "ServerWords", "snippet"]

# Lists of tools that are kept ready, with the names in them.
_KEPT: Final = 32


@dataclass(frozen=True, slots=True)
class Match:
    """What a message asks for. With `none` there is nothing to inject.

    `rule` is what fired: `handle` (@name, /name), `explicit` (用 xxx 工具, use xxx), `name` (an identifier that a
    clause begins with), `ask` (帮我 xxx 一下, please xxx), `nearest` (a call by what is nearly a name, or by what the
    tool is for), `keyword`. `matched` are the words that fired it, `server` is the id of the server it is tied to, None
    if there are several. `tools`: the most fitting first. `language` is that of the message.
    """

    intent: Literal["mcp", "none"]
    rule: Rule | None
    matched: str | None
    server: str | None
    tools: tuple[ToolRecord, ...]
    language: Language = "en"


class IntentMatcher:
    """The rules for the servers of one configuration. Lists of tools given as tuples are prepared once."""

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
        rank: Rank | None = None,
    ) -> Match:
        """What `message` asks for among `tools`, which are all that the agent may see; at most `limit` of them.

        `ready`: ids of the servers whose tools can be called now, all if None. `rank` orders the tools of a server that
        is asked for as a whole; without it those that share words with the message come first.
        """
        said = read(message)
        names = self._prepared(tools, ready)
        found = pointing(Message(said, names, self._keywords, rank))
        language: Language = "zh" if said.chinese else "en"
        if found is None:
            return Match("none", None, None, None, (), language)
        shown = tuple(names.tools[at] for at in found.places[: max(0, limit)])
        return Match("mcp", found.rule, said.text[found.start : found.end].strip(), found.server, shown, language)

    def _prepared(self, tools: Sequence[ToolRecord], ready: Collection[str] | None) -> ToolNames:
        """The names of the tools; kept for tuples, by identity, which are held so that it stays theirs."""
        key = (id(tools), None if ready is None else frozenset(ready))
        kept = self._names.get(key)
        if kept is None:
            seen = tools if ready is None else [tool for tool in tools if tool.server in ready]
            kept = (tools, names_of(seen, self._servers))
            if not isinstance(tools, tuple):
                return kept[1]
            self._names.put(key, kept)
        return kept[1]


def snippet(match: Match, language: Language | None = None) -> str:
    """What to inject for a match, a line a tool: `[工具] weather.get: 查询天气`; empty if there is none.

    `language` is that of the label, the message's own by default. `tokens.estimate` tells what it costs.
    """
    chosen = language or match.language
    return "\n".join(level1(tool, label=LABELS[chosen], language=chosen) for tool in match.tools)
