"""Find the requests around an identifier of a tool, and the orders to a server, in the forms of several languages.

Law: a text counts as a name here only if it is an identifier or a rare name of a server, and so no ordinary word.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from aggregator.catalog.search.terms.words import split
from aggregator.intent.match.explicit import NamedCall
from aggregator.intent.match.language_row import LanguageRow
from aggregator.intent.match.languages import is_order
from aggregator.intent.match.names import NameHit, ToolNames
from aggregator.intent.match.phrasing import is_mention, is_request
from aggregator.intent.match.places import begins_order, names_a_work
from aggregator.intent.match.slots import end_of, has_possessive, name_at
from aggregator.intent.match.text import MessageText

_CLAUSES_READ: Final = 60
# Words that are examined as the beginning of a tool's name; of a clause, as a server's.
_WORDS_READ: Final = 300
_PLACES_READ: Final = 24
# In Japanese these make a name a part of a sentence, and its end says what for.
_PARTICLE: Final = re.compile(" ?(?:を|で|に|は|が|の|と|も|って|から|へ)")
# In github, fork the repository.
_NEXT_CLAUSE: Final = re.compile(r", ?(?:(?:please|bitte) )?([^\W\d_]{2,20})(?!\w)")


def find_asked_names(message: MessageText, names: ToolNames, row: LanguageRow) -> Iterator[NamedCall]:
    """Yield the identifiers of tools in a clause that requests or orders something."""
    past = 0
    for at in range(min(len(message.words), _WORDS_READ)):
        # Of a server with its tool, `github search_code`, the tool, from the server on.
        named = name_at(message, names, message.words[at].start) if at >= past else None
        if named is None or not named.tools or not names.looks_like_code(message, named):
            continue
        past = named.last
        start, end = message.words[at].start, end_of(message, named)
        if has_possessive(message, named):
            continue
        if _asks_for(row, message.before(start), message.after(end)) or _runs_it(message, row, start, end):
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
            start, end = message.words[at].start, end_of(message, named)
            asked = _orders(message, row, named) or _then_orders(message, names, row, named)
            told = _tells_or_refuses(row, message.before(start), message.after(end))
            if (asked and not told) or _asks_what_it_says(message, row, start, end):
                first = next(iter(message.words_between(clause, end)))
                yield NamedCall(message.words[first].start, end, named, "server")
            break


def is_told(message: MessageText, row: LanguageRow, start: int, end: int) -> bool:
    """Tell whether the clause around a name, from `start` to `end`, refuses a call, asks about it or tells of it.

    False for English and Chinese, which `phrasing` reads.
    """
    if row.code in ("en", "zh") or _asks_what_it_says(message, row, start, end) or _runs_it(message, row, start, end):
        return False
    after = message.after(end)
    if row.code == "ja" and _PARTICLE.match(after) and not row.asking_behind.search(after):
        return True
    return _tells_or_refuses(row, message.before(start), after)


def _asks_for(row: LanguageRow, before: str, after: str) -> bool:
    if row.code in ("en", "zh") and (is_mention(after) or not is_request(before, "please", after)):
        return False
    if _tells_or_refuses(row, before, after):
        return False
    if row.by_means.search(before) or row.opening.search(before):
        return True
    if row.part_of.search(before):
        return False
    if row.asking.search(before) or row.asking_behind.search(after) or row.using.match(before):
        return True
    if row.joining.fullmatch(before):
        return True
    order = row.ordering.fullmatch(before)
    return order is not None and is_order(order["order"])


def _runs_it(message: MessageText, row: LanguageRow, start: int, end: int) -> bool:
    """Tell whether the clause after that of a tool orders to run it: `what does list_issues give? Run it.`"""
    ended = end + len(message.after(end))
    following = next((clause for clause in message.clauses if clause > ended), None)
    if following is None or row.refusing.search(message.before(start)):
        return False
    return row.runs.match(message.plain, following) is not None


def _orders(message: MessageText, row: LanguageRow, named: NameHit) -> bool:
    """Tell whether the clause is an order or a request with the server as its means or place, or its first object."""
    before, after = message.before(message.words[named.first].start), message.after(end_of(message, named))
    if row.means_behind.match(after) and row.asking_behind.search(after):
        return True
    if not _goes_on(message, row, named):
        return False
    used, ordered = row.using.match(before), row.order.match(before)
    if used is not None and used["directly"] is not None:
        return True
    if ordered is None:
        ordered = row.commanding.match(before)
        ordered = ordered if ordered is not None and is_order(ordered["order"]) else None
    if ordered is None or (names_a_work(before) and not row.by_means.search(before)):
        return False
    if row.by_place.search(before, ordered.end()):
        return True
    return row.fetching.match(before) is not None or row.putting.match(before) is not None


def _asks_what_it_says(message: MessageText, row: LanguageRow, start: int, end: int) -> bool:
    """Tell whether the clause wants what a server says: `see what tavily says about x`, `how far, according to x?`."""
    before, after = message.before(start), message.after(end)
    if row.refusing.search(before):
        return False
    if any(pattern.search(before) and behind.match(after) for pattern, behind in row.says):
        return True
    return row.by_source.search(before) is not None and message.plain.startswith("?", end + len(after))


def _then_orders(message: MessageText, names: ToolNames, row: LanguageRow, named: NameHit) -> bool:
    """Tell whether an order follows the clause `in github`: one of the language, or a verb of the server's tools."""
    following = _NEXT_CLAUSE.match(message.plain, end_of(message, named))
    if following is None or not row.by_place.fullmatch(message.before(message.words[named.first].start)):
        return False
    verbs = {split(names.tools[at].own_name)[0] for server in named.servers for at in names.servers[server]}
    if row.code == "en":
        return following[1] in verbs or begins_order(message, following.start(1))
    return following[1] in verbs or following[1] in row.orders.split()


def _tells_or_refuses(row: LanguageRow, before: str, after: str) -> bool:
    if row.refusing.search(before) or row.refusing_behind.search(after):
        return True
    if row.telling.search(row.asking.sub("", before)):
        return True
    wonders = row.order.match(before) is not None and row.wondering.match(after) is not None
    return row.telling_behind.match(after) is not None and not wonders


def _rare_server(message: MessageText, names: ToolNames, at: int) -> NameHit | None:
    named = name_at(message, names, message.words[at].start)
    if named is None or not named.servers or named.looks == "plain" or has_possessive(message, named):
        return None
    return named


def _goes_on(message: MessageText, row: LanguageRow, named: NameHit) -> bool:
    """Tell whether the sentence ends or goes on after a server's name, and no noun makes another thing of the name.

    In English that is any word but a small one, `github account`; in German a word with a capital, `Github Konto`. In
    other languages such a noun stands before the name.
    """
    end = end_of(message, named)
    words = message.after(end).split(maxsplit=1)
    if not words or not words[0][0].isalpha() or words[0].rstrip(",.:!?") in row.words:
        return True
    if row.code == "de":
        return not message.text[end:].lstrip()[:1].isupper()
    return row.code not in ("en", "zh")
