"""Find the requests around an identifier of a tool, and the orders to a server, in the forms of several languages.

Law: a text counts as a name here only if it is an identifier or a rare name of a server, and so no ordinary word.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from aggregator.catalog.search.terms.words import split
from aggregator.intent.match.explicit import NamedCall
from aggregator.intent.match.languages import LanguageRow, is_order
from aggregator.intent.match.names import NameHit, ToolNames
from aggregator.intent.match.phrasing import is_mention, is_request
from aggregator.intent.match.slots import end_of, has_possessive, name_at
from aggregator.intent.match.text import MessageText

_CLAUSES_READ: Final = 60
# Words that are examined as the beginning of a tool's name; of a clause, as a server's.
_WORDS_READ: Final = 300
_PLACES_READ: Final = 24
# In github, fork the repository.
_NEXT_CLAUSE: Final = re.compile(r", ?(?:(?:please|bitte) )?([^\W\d_]{2,20})(?!\w)")


def find_asked_names(message: MessageText, names: ToolNames, row: LanguageRow) -> Iterator[NamedCall]:
    """Yield the identifiers of tools in a clause that requests or orders something."""
    past = 0
    for at in range(min(len(message.words), _WORDS_READ)):
        named = names.longest(message, at) if at >= past else None
        if named is None or not named.tools or not names.looks_like_code(message, named):
            continue
        past = named.last
        start, end = message.words[at].start, end_of(message, named)
        if not has_possessive(message, named) and _asks_for(row, message.before(start), message.after(end)):
            yield NamedCall(start, end, named, None)


def find_orders_to_servers(message: MessageText, names: ToolNames, row: LanguageRow) -> Iterator[NamedCall]:
    """Yield the orders and requests that name a server as the place or the means.

    `Suche mit tavily nach Neuigkeiten`, `in github, fork the repository`, `tavily で検索して`.
    """
    for clause in islice(message.clauses, _CLAUSES_READ):
        for at in islice(message.words_between(clause, clause + len(message.after(clause))), _PLACES_READ):
            named = _rare_server(message, names, at)
            if named is None:
                continue
            before, after = message.before(message.words[at].start), message.after(end_of(message, named))
            asked = _orders(row, before, after) or _then_orders(message, names, row, named)
            if asked and not _tells_or_refuses(row, before, after):
                yield NamedCall(clause, end_of(message, named), named, "server")
            break


def is_told(row: LanguageRow, before: str, after: str) -> bool:
    """Tell whether the clause around a call refuses it, asks about it or tells of it.

    False for English and Chinese, which `phrasing` reads.
    """
    return row.code not in ("en", "zh") and _tells_or_refuses(row, before, after)


def _asks_for(row: LanguageRow, before: str, after: str) -> bool:
    if row.code in ("en", "zh") and (is_mention(after) or not is_request(before, "please", after)):
        return False
    if _tells_or_refuses(row, before, after):
        return False
    if row.by_means.search(before):
        return True
    if row.part_of.search(before):
        return False
    if row.asking.search(before) or row.asking_behind.search(after) or row.using.match(before):
        return True
    if row.joining.fullmatch(before):
        return True
    order = row.ordering.fullmatch(before)
    return order is not None and is_order(order["order"])


def _orders(row: LanguageRow, before: str, after: str) -> bool:
    """Tell whether the clause is an order or a request with the server as its means or place, or its first object."""
    if row.means_behind.match(after) and row.asking_behind.search(after):
        return True
    if not _goes_on(row, after):
        return False
    used, ordered = row.using.match(before), row.order.match(before)
    if used is not None and used["directly"] is not None:
        return True
    return ordered is not None and row.by_place.search(before, ordered.end()) is not None


def _then_orders(message: MessageText, names: ToolNames, row: LanguageRow, named: NameHit) -> bool:
    """Tell whether an order follows the clause `in github`: one of the language, or a verb of the server's tools."""
    following = _NEXT_CLAUSE.match(message.plain, end_of(message, named))
    if following is None or not row.by_place.fullmatch(message.before(message.words[named.first].start)):
        return False
    verbs = {split(names.tools[at].own_name)[0] for server in named.servers for at in names.servers[server]}
    return following[1] in verbs or following[1] in row.orders.split()


def _tells_or_refuses(row: LanguageRow, before: str, after: str) -> bool:
    return bool(
        row.refusing.search(before)
        or row.refusing_behind.search(after)
        or row.telling.search(row.asking.sub("", before))
        or row.telling_behind.match(after)
    )


def _rare_server(message: MessageText, names: ToolNames, at: int) -> NameHit | None:
    named = name_at(message, names, message.words[at].start)
    if named is None or not named.servers or named.looks == "plain" or has_possessive(message, named):
        return None
    return named


def _goes_on(row: LanguageRow, after: str) -> bool:
    """Tell whether the sentence ends or goes on with a small word after a server's name; a noun would make another
    thing of it: `github account`.
    """
    words = after.split(maxsplit=1)
    return not words or not words[0][0].isalpha() or words[0].rstrip(",.:!?") in row.words
