"""The rules in their order: the first that finds something decides what a message points to.

Law: a rule sees the message, the names of the list and the keywords; it knows of no other tool or server.
"""

from collections.abc import Iterable, Iterator
from itertools import chain, islice, zip_longest
from typing import Final, Literal, NamedTuple

from aggregator.catalog.intent.explicit import NamedCall, UnknownToolCall, calls, favours, handles, starts
from aggregator.catalog.intent.keywords import KeywordHit, TriggerKeywords
from aggregator.catalog.intent.names import ToolNames
from aggregator.catalog.intent.nearest import nearest, nearest_servers
from aggregator.catalog.intent.order import Rank, fitting
from aggregator.catalog.intent.phrasing import told_off
from aggregator.catalog.intent.text import MessageText, folded

Rule = Literal["handle", "explicit", "name", "ask", "nearest", "keyword"]

# Words of a message among which the server is looked for that an ambiguous name is of.
_WORDS_READ: Final = 200
# Keywords in a message that are looked at, and names that no tool has.
_KEYWORDS_READ: Final = 200
_GUESSES: Final = 5


class RuleHit(NamedTuple):
    """From where to where the message points, to which server if it is one, and to which tools, by position."""

    rule: Rule
    start: int
    end: int
    server: str | None
    places: tuple[int, ...]


class Message(NamedTuple):
    """A message, and what it may be about."""

    said: MessageText
    names: ToolNames
    keywords: TriggerKeywords
    rank: Rank | None


def pointing(message: Message) -> RuleHit | None:
    """What the message points to; None if to nothing that is in the list."""
    if not message.names.tools or not message.said.words:
        return None
    called = [call for call in calls(message.said, message.names) if not message.said.quoted(call.start)]
    return (
        _named(message, "handle", handles(message.said, message.names))
        or _named(message, "explicit", (call for call in called if isinstance(call, NamedCall)))
        or _named(message, "name", starts(message.said, message.names))
        or _named(message, "ask", favours(message.said, message.names))
        or _nearly_named(message, [call for call in called if isinstance(call, UnknownToolCall)])
        or _keyword(message)
    )


def _named(message: Message, rule: Rule, found: Iterable[NamedCall]) -> RuleHit | None:
    return _joined(
        message,
        rule,
        [(call.start, call.end, _meant(message, call)) for call in found if not message.said.quoted(call.start)],
    )


def _meant(message: Message, call: NamedCall) -> tuple[int, ...]:
    """The tool called, or the tools of the server called; a name of several tools is narrowed by the servers named.

    A name of both is the tool's if it is one of that server, or said to be one: no server can take another's name.
    """
    said, names, _, rank = message
    places, servers = call.named.tools, call.named.servers
    own = tuple(at for at in places if names.tools[at].server in servers)
    if servers and (call.kind == "server" or not (own or (places and call.kind == "tool"))):
        return _turns(fitting(said, names, server, rank) for server in servers)
    if own:
        return own
    if len({names.tools[at].server for at in places}) > 1:
        spoken = _servers_named(said, names)
        return tuple(at for at in places if names.tools[at].server in spoken) or places
    return places


def _servers_named(said: MessageText, names: ToolNames) -> frozenset[str]:
    found = (names.longest(said, first) for first in range(min(len(said.words), _WORDS_READ)))
    return frozenset(server for name in found if name is not None for server in name.servers)


def _nearly_named(message: Message, wanted: list[UnknownToolCall]) -> RuleHit | None:
    said, names, keywords, rank = message
    groups = []
    first: dict[str, UnknownToolCall] = {}
    for one in wanted:
        first.setdefault(said.text[one.first : one.last], one)
    for text, one in islice(first.items(), _GUESSES):
        places = nearest(names, text, spelled=one.spelled, announced=one.announced)
        known = [server for server in keywords.of(folded(text)) if server in names.servers]
        if not (known or places):
            known = nearest_servers(names, text)
        if known:
            fit = _turns(fitting(said, names, server, rank) for server in known)
            places = tuple(dict.fromkeys((*(at for at in places if at in fit), *fit)))
        groups.append((one.start, one.end, places))
    return _joined(message, "nearest", groups)


def _keyword(message: Message) -> RuleHit | None:
    """The longest keyword decides, of equally long ones the first; the tools of others follow."""
    said, names, keywords, rank = message
    standing = (one for one in keywords.found(said.plain, names.servers) if not told_off(said.before(one.start)))
    found = _apart(islice(standing, _KEYWORDS_READ))
    if not found:
        return None
    best = found[0]
    servers = dict.fromkeys(chain(best.servers, *(one.servers for one in found)))
    others = [server for server in servers if server not in best.servers]
    groups = (_turns(fitting(said, names, server, rank) for server in group) for group in (best.servers, others))
    return RuleHit(
        "keyword", best.start, best.end, best.servers[0] if len(best.servers) == 1 else None, tuple(chain(*groups))
    )


def _apart(found: Iterable[KeywordHit]) -> list[KeywordHit]:
    """The longest, and of the others in that order those that do not overlap with one taken."""
    taken: list[KeywordHit] = []
    covered: set[int] = set()
    for one in sorted(found, key=lambda one: (one.start - one.end, one.start)):
        places = range(one.start, one.end)
        if covered.isdisjoint(places):
            covered.update(places)
            taken.append(one)
    return taken


def _joined(message: Message, rule: Rule, groups: list[tuple[int, int, tuple[int, ...]]]) -> RuleHit | None:
    groups = [group for group in groups if group[2]]
    if not groups:
        return None
    places = _turns(group[2] for group in groups)
    servers = {message.names.tools[at].server for at in places}
    start, end, _ = groups[0]
    return RuleHit(rule, start, end, servers.pop() if len(servers) == 1 else None, places)


def _turns(groups: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    """The first of each group, then the second of each, and so on; each position once."""
    rounds: Iterator[int | None] = chain.from_iterable(zip_longest(*groups))
    return tuple(dict.fromkeys(at for at in rounds if at is not None))
