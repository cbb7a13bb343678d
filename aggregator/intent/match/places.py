"""Find the requests to a server where something is to be done: `notion 里新建一页`, `create a page in notion`.

Law: a clause that begins with the request; what tells, asks or only speaks of the server is none.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from aggregator.intent.match.explicit import NamedCall
from aggregator.intent.match.names import NameHit, ToolNames
from aggregator.intent.match.phrasing import is_mention
from aggregator.intent.match.slots import end_of, has_possessive, name_at
from aggregator.intent.match.text import MessageText
from aggregator.intent.match.words import any_of

_CLAUSES_READ: Final = 60
_PLACES_READ: Final = 8
_BEGINNING: Final = rf"\s*(?:{any_of('greetings')}\s*){{0,4}}"
_IN_ZH: Final = re.compile(rf"{_BEGINNING}(?:帮我们?|给我|替我)?\s*(?:在|去|到|往)?\s*")
# 里, and what is to be done there; 新建的页面 and 写了一页 say what is there or was done.
_DONE_THERE: Final = re.compile(
    rf"\s*(?:里面|里边|里头|上面|里|中|上|内)\s*(?:帮我们?|给我|替我|再|先|直接|也)?\s*"
    rf"{any_of('那里做')}(?![了过的着到完])(?![^,。]{{0,20}}(?:吗|呢|么|怎么|如何|多少|什么|多久))"
)
_ORDER: Final = re.compile(rf"{_BEGINNING}(?:(?:{any_of('polite')}) (?:please )?)?{any_of('imperatives')}(?![a-z])")
_SEARCHED: Final = re.compile(
    rf"{_BEGINNING}(?:(?:{any_of('polite')}) )?(?:search|query|check) (?:the |in |on |through )?"
)
_BY: Final = re.compile(r"(?<![a-z])(?:with|using|via|through|in|on|into|to|from) (?:the |my |our )?")
_GOES_ON: Final = re.compile(r"\s*(?:$|[:,]|(?:for|about|called|named|titled|saying|please|now|that says)(?![a-z]))")
# What a person does for themselves, or asks about.
_NOT_THERE: Final = re.compile(r"(?<![a-z])(?:how|why|account|profile|login|job|career|course|book)s?(?![a-z])")
_SOUGHT: Final = re.compile(r"\s*(?:for|about)(?![a-z])")


def find_requests_to_servers(message: MessageText, names: ToolNames) -> Iterator[NamedCall]:
    """Yield the requests that name a server as the place or the means."""
    for clause in islice(message.clauses, _CLAUSES_READ):
        yield from _in_signs(message, names, clause)
        yield from _in_english(message, names, clause)


def _in_signs(message: MessageText, names: ToolNames, clause: int) -> Iterator[NamedCall]:
    begins = _IN_ZH.match(message.plain, clause)
    named = _server_at(message, names, begins.end()) if begins else None
    if named is None or (named.looks == "plain" and not message.words[named.first].text.isascii()):
        return
    end = end_of(message, named)
    done = _DONE_THERE.match(message.after(end))
    if done and not is_mention(message.after(end)):
        yield NamedCall(clause, end, named, "server")


def _in_english(message: MessageText, names: ToolNames, clause: int) -> Iterator[NamedCall]:
    searched = _SEARCHED.match(message.plain, clause)
    if searched:
        named = _server_at(message, names, searched.end())
        if named is not None and named.looks != "plain" and _SOUGHT.match(message.after(end_of(message, named))):
            yield NamedCall(clause, end_of(message, named), named, "server")
            return
    order = _ORDER.match(message.plain, clause)
    if order is None:
        return
    last = order.end() + len(message.after(order.end()))
    for by in islice(_BY.finditer(message.plain, order.end(), last), _PLACES_READ):
        named = _server_at(message, names, by.end())
        if named is None or named.looks == "plain":
            continue
        if _NOT_THERE.search(message.plain, order.end(), by.start()):
            return
        after = message.after(end_of(message, named))
        if _GOES_ON.match(after) and not is_mention(after):
            yield NamedCall(clause, end_of(message, named), named, "server")
            return


def _server_at(message: MessageText, names: ToolNames, place: int) -> NameHit | None:
    """Return the name of a server that begins at a place."""
    named = name_at(message, names, place)
    return named if named is not None and named.servers and not has_possessive(message, named) else None
