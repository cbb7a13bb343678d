"""The rules in their order: the first that finds something decides which tools a message points to.

Law: a rule sees the message, the names of the list and the keywords; it knows of no other tool or server.
"""

from collections.abc import Iterable, Iterator
from itertools import chain, islice, zip_longest
from typing import Final, Literal, NamedTuple

from aggregator.intent.match.abroad import find_orders_abroad
from aggregator.intent.match.asks import find_asked_names, find_orders_to_servers, is_told
from aggregator.intent.match.explicit import (
    NamedCall,
    UnknownToolCall,
    find_calls,
    find_handles,
    find_leading_names,
    find_polite_requests,
)
from aggregator.intent.match.keywords import KeywordHit, TriggerKeywords
from aggregator.intent.match.language_row import LanguageRow
from aggregator.intent.match.material import is_material
from aggregator.intent.match.names import ToolNames
from aggregator.intent.match.nearest import nearest, nearest_servers
from aggregator.intent.match.order import RankTools, order_tools
from aggregator.intent.match.phrasing import is_forbidden, is_refused
from aggregator.intent.match.places import find_requests_to_servers
from aggregator.intent.match.sentences import find_sentences
from aggregator.intent.match.signs import find_orders_in_signs
from aggregator.intent.match.text import MessageText, folded

Rule = Literal["handle", "explicit", "name", "ask", "nearest", "keyword"]

# Words of a message that are searched for the server of an ambiguous name.
_WORDS_READ: Final = 200
# Bounds for one message: keywords examined, and unknown names guessed at.
_KEYWORDS_READ: Final = 200
_GUESSES: Final = 5


class RuleHit(NamedTuple):
    """The finding of one rule: the place in the message, the server if it is one, and the tools, by position."""

    rule: Rule
    start: int
    end: int
    server: str | None
    places: tuple[int, ...]


class RuleInput(NamedTuple):
    """A message with all that a rule may look at: its language, names, keywords, and the order of a server's tools."""

    message: MessageText
    language: LanguageRow
    names: ToolNames
    keywords: TriggerKeywords
    rank: RankTools | None


def find_hit(given: RuleInput) -> RuleHit | None:
    """Return the finding of the first rule that has one; None if the message points to nothing in the list."""
    if not given.names.tools or not given.message.words:
        return None
    called = [call for call in find_calls(given.message, given.names) if _is_asked(given, call)]
    return (
        _by_name(given, "handle", find_handles(given.message, given.names))
        or _by_name(given, "explicit", (call for call in called if isinstance(call, NamedCall)))
        or _by_name(given, "name", find_leading_names(given.message, given.names))
        or _by_name(given, "ask", find_polite_requests(given.message, given.names))
        or _by_name(given, "ask", find_requests_to_servers(given.message, given.names))
        or _by_name(given, "ask", find_asked_names(given.message, given.names, given.language))
        or _by_name(given, "ask", find_orders_to_servers(given.message, given.names, given.language))
        or _by_sentence(given)
        or _by_nearest_name(given, [call for call in called if isinstance(call, UnknownToolCall)])
        or _by_keyword(given)
    )


def _by_sentence(given: RuleInput) -> RuleHit | None:
    """Return the finding of the rules that weigh a whole sentence, and so tell reports themselves."""
    message, names, row = given.message, given.names, given.language
    if row.code == "en":
        found = find_sentences(message, names)
    elif row.code == "zh":
        found = find_orders_in_signs(message, names)
    else:
        found = find_orders_abroad(message, names, row)
    own = (call for call in found if _is_own(message, call._replace(start=message.words[call.named.first].start)))
    return _combined(given, "ask", [(call.start, call.end, _tools_meant(given, call)) for call in own])


def _by_name(given: RuleInput, rule: Rule, found: Iterable[NamedCall]) -> RuleHit | None:
    return _combined(
        given,
        rule,
        [(call.start, call.end, _tools_meant(given, call)) for call in found if _is_asked(given, call)],
    )


def _is_asked(given: RuleInput, call: NamedCall | UnknownToolCall) -> bool:
    """Tell whether the message requests a call, outside quotations and texts under discussion."""
    if not _is_own(given.message, call):
        return False
    name = given.message.words[call.named.first].start if isinstance(call, NamedCall) else call.first
    return not is_told(given.message, given.language, name, call.end)


def _is_own(message: MessageText, call: NamedCall | UnknownToolCall) -> bool:
    """Tell whether a call is the user's own words, and not refused."""
    if message.quoted(call.start) or is_material(message, call.start, call.end):
        return False
    return not is_refused(message.before(call.start) + message.plain[call.start : call.end], message.after(call.end))


def _tools_meant(given: RuleInput, call: NamedCall) -> tuple[int, ...]:
    """Return the tool called, or the tools of the server called.

    A name of several tools is narrowed by the servers named. A name of both is the tool's if it is one of that server,
    or said to be one: no server can take another's name.
    """
    message, names, rank = given.message, given.names, given.rank
    places, servers = call.named.tools, call.named.servers
    own = tuple(at for at in places if names.tools[at].server in servers)
    if servers and (call.kind == "server" or not (own or (places and call.kind == "tool"))):
        return _interleaved(order_tools(message, names, server, rank) for server in servers)
    if own:
        return own
    if len({names.tools[at].server for at in places}) > 1:
        named_servers = _servers_named(message, names)
        return tuple(at for at in places if names.tools[at].server in named_servers) or places
    return places


def _servers_named(message: MessageText, names: ToolNames) -> frozenset[str]:
    found = (names.longest(message, first) for first in range(min(len(message.words), _WORDS_READ)))
    return frozenset(server for name in found if name is not None for server in name.servers)


def _by_nearest_name(given: RuleInput, unknown: list[UnknownToolCall]) -> RuleHit | None:
    message, _, names, keywords, rank = given
    groups = []
    first: dict[str, UnknownToolCall] = {}
    for one in unknown:
        first.setdefault(message.text[one.first : one.last], one)
    for text, one in islice(first.items(), _GUESSES):
        places = nearest(names, text, is_identifier=one.is_identifier, announced=one.announced)
        known = [server for server in keywords.of(folded(text)) if server in names.servers]
        if not (known or places):
            known = nearest_servers(names, text)
        if known:
            fit = _interleaved(order_tools(message, names, server, rank) for server in known)
            places = tuple(dict.fromkeys((*(at for at in places if at in fit), *fit)))
        groups.append((one.start, one.end, places))
    return _combined(given, "nearest", groups)


def _by_keyword(given: RuleInput) -> RuleHit | None:
    """Return the finding of the longest keyword, of equally long ones the first; the tools of others follow."""
    message, _, names, keywords, rank = given
    standing = (
        one for one in keywords.found(message.plain, names.servers) if not is_forbidden(message.before(one.start))
    )
    found = _without_overlaps(islice(standing, _KEYWORDS_READ))
    if not found:
        return None
    best = found[0]
    servers = dict.fromkeys(chain(best.servers, *(one.servers for one in found)))
    others = [server for server in servers if server not in best.servers]
    groups = (
        _interleaved(order_tools(message, names, server, rank) for server in group) for group in (best.servers, others)
    )
    return RuleHit(
        "keyword", best.start, best.end, best.servers[0] if len(best.servers) == 1 else None, tuple(chain(*groups))
    )


def _without_overlaps(found: Iterable[KeywordHit]) -> list[KeywordHit]:
    """Return the longest keyword, and of the others, longest first, those that do not overlap with one taken."""
    taken: list[KeywordHit] = []
    covered: set[int] = set()
    for one in sorted(found, key=lambda one: (one.start - one.end, one.start)):
        places = range(one.start, one.end)
        if covered.isdisjoint(places):
            covered.update(places)
            taken.append(one)
    return taken


def _combined(given: RuleInput, rule: Rule, groups: list[tuple[int, int, tuple[int, ...]]]) -> RuleHit | None:
    groups = [group for group in groups if group[2]]
    if not groups:
        return None
    places = _interleaved(group[2] for group in groups)
    servers = {given.names.tools[at].server for at in places}
    start, end, _ = groups[0]
    return RuleHit(rule, start, end, servers.pop() if len(servers) == 1 else None, places)


def _interleaved(groups: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the first of each group, then the second of each, and so on; each position once."""
    rounds: Iterator[int | None] = chain.from_iterable(zip_longest(*groups))
    return tuple(dict.fromkeys(at for at in rounds if at is not None))
