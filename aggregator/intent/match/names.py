"""The names of the tools one agent sees and of their servers, in every spelling, prepared once for a list of tools.

Law: a tool outside the list has no name here, and a server has one only through a tool in the list.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from math import inf
from typing import Final, Literal, NamedTuple

from aggregator.catalog.search.terms.language import rarity
from aggregator.catalog.search.terms.products import products
from aggregator.catalog.search.terms.stem import stem
from aggregator.catalog.search.terms.words import split
from aggregator.domain.records import ToolRecord
from aggregator.intent.match.text import SIGNS, MessageText, folded, squashed
from aggregator.intent.match.words import word_set

# How sure a name is one by its looks: an ordinary word, a word that is hardly anything else, an identifier or a phrase.
Looks = Literal["plain", "clear", "sure"]

# Letters of a name that are read, and words it may be written in.
_LONGEST: Final = 140
_WORDS: Final = 48
# A name of so few signs is a word like any other.
_FEW_SIGNS: Final = 2
# Only the beginning of a description is searched for other names of the tool.
_SAID: Final = 160
# A server's description that is longer than this is no name.
_NAME_WORDS: Final = 3
_NAME_SIGNS: Final = 8
# Letters of a part of a server's name that may stand for it, how rare it must be if it is English too, and how many
# tools begin with the product that stands for their server.
_PART_LETTERS: Final = 4
_RARE: Final = 10.5
_TOOLS_OF_A_PRODUCT: Final = 3

_GAPS: Final = frozenset(("", " ", "_", "__", "-", ".", "/", ":"))
_SIGN: Final = re.compile(rf"[{SIGNS}]")
_MARKED: Final = re.compile(r"[_./:-]")
_NOUN_BEHIND: Final = re.compile(r"-[^\W\d_]{3,30}(?![\w.-])")
_HEADING: Final = re.compile(r"\s*(?:[:：,，.。;；|(（—–]|\s-\s)")
_AROUND: Final = re.compile(
    r"^(?:the|mcp|server)[ _-]+|[ _-]*(?:mcp|server|services?|tools?|plugin|服务器?|工具|接口|插件)$", re.IGNORECASE
)
_ASIDE: Final = re.compile(r"\s*[(（][^()（）]{0,80}[)）]\s*$")


@dataclass(frozen=True, slots=True)
class ServerWords:
    """The words of a server in the configuration: its key as `id`, its prefix, description and trigger keywords."""

    id: str
    prefix: str
    description: str = ""
    trigger_keywords: tuple[str, ...] = ()


class NameHit(NamedTuple):
    """A name found in a message: the words from `first` up to `last`, and its possible meanings.

    `tools` are positions in the list, `servers` ids; `looks` is the certainty that the words are a name.
    """

    first: int
    last: int
    tools: tuple[int, ...]
    servers: tuple[str, ...]
    looks: Looks


@dataclass(slots=True)
class ToolNames:
    """The names of a list of tools and of their servers.

    `tools` is the list; `servers` maps the ids of their servers to the positions of their tools. `of_tools` and
    `of_servers` are look-ups by squashed name, `by_own_name` by own names in lower case that are identifiers; `by_word`
    by the stems of tool names; `sign_texts` has the text in signs of each tool's name and titles and, after a line
    break, of its description; `descriptions` has the servers' descriptions; `reach` the length of the longest name by
    first letter; `nouns` what `nouns_of` found.
    """

    tools: tuple[ToolRecord, ...]
    servers: dict[str, tuple[int, ...]] = field(default_factory=dict)
    of_tools: dict[str, tuple[int, ...]] = field(default_factory=dict)
    of_servers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    by_own_name: dict[str, tuple[int, ...]] = field(default_factory=dict)
    by_word: dict[str, set[int]] = field(default_factory=dict)
    sign_texts: list[str] = field(default_factory=list)
    descriptions: dict[str, str] = field(default_factory=dict)
    reach: dict[str, int] = field(default_factory=dict)
    nouns: dict[str, frozenset[str]] = field(default_factory=dict)

    def nouns_of(self, servers: Iterable[str]) -> frozenset[str]:
        """Return the words of the names of these servers' tools, without the s of a plural."""
        for server in servers:
            if server not in self.nouns:
                words = chain.from_iterable(split(self.tools[at].own_name) for at in self.servers[server])
                self.nouns[server] = frozenset(word.rstrip("s") for word in words)
        return frozenset().union(*(self.nouns[server] for server in servers))

    def longest(
        self, message: MessageText, first: int, within: str | None = None, *, compound: bool = False
    ) -> NameHit | None:
        """Return the longest name that begins with the word at `first`; `within`: only tools of this server.

        A word that goes on, as `github` in `github.com`, is no name; with `compound` it may go on like `Jira-Ticket`.
        """
        words, plain = message.words, message.plain
        reach = self.reach.get(words[first].text[0], 0)
        joined = ""
        found: NameHit | None = None
        for last in range(first, min(len(words), first + _WORDS)):
            word = words[last]
            if last > first and plain[words[last - 1].end : word.start] not in _GAPS:
                break
            joined += word.text
            if len(joined) > reach:
                break
            tools = self.of_tools.get(joined, ())
            servers = self.of_servers.get(joined, ()) if within is None else ()
            if within is not None:
                tools = tuple(at for at in tools if self.tools[at].server == within)
            if (tools or servers) and (_ends_at(plain, word.end) or (compound and _NOUN_BEHIND.match(plain, word.end))):
                found = NameHit(first, last + 1, tools, servers, "plain")
        if found is None:
            return None
        # `n8n_get_workflow` is rather the tool of that very name than `get_workflow` of n8n.
        exact = self.by_own_name.get(plain[words[found.first].start : words[found.last - 1].end], ())
        exact = tuple(at for at in exact if within in (None, self.tools[at].server))
        return found._replace(looks=self._looks(message, found), tools=exact or found.tools)

    def looks_like_code(self, message: MessageText, named: NameHit) -> bool:
        """Tell whether a name is written like an identifier, or is one of several words written as one."""
        start, end = message.words[named.first].start, message.words[named.last - 1].end
        if any(_MARKED.search(part) for part in message.plain[start:end].split()):
            return True
        if named.last - named.first != 1:
            return False
        # Not the title: `find` of find_tools is a word.
        word, owns = message.words[named.first].text, [self.tools[at].own_name for at in named.tools]
        return any(squashed(own) == word and _has_several_words(own) for own in owns)

    def _looks(self, message: MessageText, named: NameHit) -> Looks:
        words = message.words[named.first : named.last]
        signs = sum(_SIGN.match(word.text) is not None for word in words)
        if signs == len(words):
            return "plain" if signs <= _FEW_SIGNS else "clear"
        if len(words) > 1 or self.looks_like_code(message, named):
            return "sure"
        return "plain" if words[0].text in word_set("ordinary") else "clear"


def build_names(tools: Iterable[ToolRecord], servers: Mapping[str, ServerWords]) -> ToolNames:
    """Collect all names that a message may use for these tools and their servers. Takes some 10 microseconds a tool."""
    names = ToolNames(tuple(tools))
    best: dict[str, tuple[int, list[int]]] = {}
    of_server: dict[str, list[int]] = {}
    for at, tool in enumerate(names.tools):
        titles = _titles(tool.definition)
        of_server.setdefault(tool.server, []).append(at)
        listed = tuple(tool.listed.values())
        for rank, key in _keys(tool.server, tool.prefix, tool.own_name, titles, listed):
            known = best.get(key)
            if known is None or rank < known[0]:
                best[key] = (rank, [at])
            elif rank == known[0] and known[1][-1] != at:
                known[1].append(at)
        for word in _stems(tool.server, tool.prefix, tool.own_name, titles):
            names.by_word.setdefault(word, set()).add(at)
        names.sign_texts.append(_sign_text(tool.own_name, titles, tool.definition.get("description")))
    by_own: dict[str, list[int]] = {}
    for at, tool in enumerate(names.tools):
        if _MARKED.search(tool.own_name):
            by_own.setdefault(tool.own_name.lower(), []).append(at)
    names.by_own_name = {key: tuple(places) for key, places in by_own.items()}
    names.of_tools = {key: tuple(places) for key, (_, places) in best.items()}
    names.servers = {server: tuple(places) for server, places in of_server.items()}
    names.descriptions = {
        server: folded(servers[server].description[:_SAID]) for server in names.servers if server in servers
    }
    called: dict[str, dict[str, None]] = {}
    for server, places in names.servers.items():
        known_as = servers.get(server)
        parts = (server, names.tools[places[0]].prefix, leading_name(known_as.description) if known_as else "")
        for key in {variant for part in parts for variant in _variants(part)}:
            called.setdefault(key, {})[server] = None
    for key, server in _partial_names(names).items():
        if key not in called and key not in names.of_tools:
            called[key] = {server: None}
    names.of_servers = {key: tuple(found) for key, found in called.items()}
    for key in chain(names.of_tools, names.of_servers):
        names.reach[key[0]] = max(names.reach.get(key[0], 0), min(len(key), _LONGEST))
    return names


def _partial_names(names: ToolNames) -> dict[str, str]:
    """Map the words that stand for one server alone to its id: `brave` for brave-search, `jira` if tools begin with it.

    A word of a server's id counts if it is not English; the first word, if it is rare and only ordinary words follow.
    """
    claimed: dict[str, set[str]] = {}
    for server, places in names.servers.items():
        words = split(server)
        for at, word in enumerate(words):
            led = at == 0 and len(words) > 1 and word_set("ordinary").issuperset(words[1:])
            if (rarity().get(stem(word), inf) >= _RARE) if led else stem(word) not in rarity():
                claimed.setdefault(word, set()).add(server)
            elif len(words) > 1:
                claimed.setdefault(word, set()).update((server, ""))
        for word, tools in Counter(chain.from_iterable(split(names.tools[at].own_name)[:1] for at in places)).items():
            if tools >= _TOOLS_OF_A_PRODUCT and (word,) in products().get(word, ()):
                claimed.setdefault(word, set()).add(server)
    for server, rest in _without_vendors(names.servers).items():
        claimed.setdefault(rest, set()).add(server)
    return {
        word: servers.pop()
        for word, servers in claimed.items()
        if len(servers) == 1 and len(word) >= _PART_LETTERS and word not in word_set("ordinary")
    }


def _without_vendors(servers: Iterable[str]) -> dict[str, str]:
    """Map servers to the rest of their ids, squashed, without a beginning that another shares: aws-labs-aws-docs.

    The rest has several words; a single one counts by its rarity.
    """
    ids = {server: split(server) for server in servers}
    begins = Counter(tuple(words[:length]) for words in ids.values() for length in range(1, len(words)))
    rests = {}
    for server, words in ids.items():
        shared = max((length for length in range(1, len(words)) if begins[tuple(words[:length])] > 1), default=0)
        if shared and len(words) - shared > 1:
            rests[server] = squashed("".join(words[shared:]))
    return rests


def leading_name(description: str) -> str:
    """Return the name a description begins with; empty if it begins with a sentence.

    The name is all of the description, or the part before its first stop.
    """
    text = _HEADING.split(description.strip()[:_SAID], maxsplit=1)[0].strip()
    short = len(_SIGN.findall(text)) <= _NAME_SIGNS and len(text.split()) <= _NAME_WORDS
    return text if short else ""


def _ends_at(plain: str, end: int) -> bool:
    """Tell whether a name ends here, and is not part of an address, a path or a longer identifier."""
    if end + 1 >= len(plain) or plain[end] not in "_-./\\@":
        return True
    following = plain[end + 1]
    return not (following.isascii() and (following.isalnum() or following == "_"))


@lru_cache(maxsize=16384)
def _keys(
    server: str, prefix: str, own: str, titles: tuple[str, ...], listed: tuple[str, ...]
) -> tuple[tuple[int, str], ...]:
    """Return the squashed names of a tool, each with its rank: 0 the whole name, 1 its own name, 2 a title."""
    keys = {squashed(title): 2 for whole in titles for title in _variants(whole)}
    keys[squashed(own)] = 1
    keys.update((squashed(name), 0) for name in (f"{prefix}.{own}", f"{server}.{own}", *listed))
    keys.pop("", None)
    return tuple((rank, key) for key, rank in keys.items())


@lru_cache(maxsize=16384)
def _has_several_words(own: str) -> bool:
    return len(split(own)) > 1


@lru_cache(maxsize=4096)
def _variants(name: str) -> tuple[str, ...]:
    """Return a name squashed, and without the words that only say that it is a tool or a server."""
    bare = _ASIDE.sub("", name)
    shorter = _AROUND.sub("", _AROUND.sub("", bare))
    return tuple(key for key in dict.fromkeys(squashed(one) for one in (shorter, bare, name)) if key)


@lru_cache(maxsize=16384)
def _stems(server: str, prefix: str, own: str, titles: tuple[str, ...]) -> frozenset[str]:
    return frozenset(stem(word) for name in (server, prefix, own, *titles) for word in split(name))


def _titles(definition: Mapping[str, object]) -> tuple[str, ...]:
    annotations = definition.get("annotations")
    inner = annotations.get("title") if isinstance(annotations, Mapping) else None
    found = (definition.get("title"), inner)
    return tuple(dict.fromkeys(title[:_LONGEST] for title in found if isinstance(title, str) and title))


def _sign_text(own: str, titles: tuple[str, ...], description: object) -> str:
    """Return the text in signs of a name, its titles and the beginning of the description, folded; titles first."""
    begin = description[:_SAID] if isinstance(description, str) else ""
    whole = "\n".join((own, *titles, begin))
    return "" if whole.isascii() else folded(own + " " + " ".join(titles)) + "\n" + folded(begin)
