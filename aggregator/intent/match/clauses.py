"""The clauses of a message that have the name of a server, each with its text before the name and after it.

Law: only a name that is hardly anything else counts, or an ordinary word with a capital in the middle of a sentence.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

from aggregator.intent.match.names import NameHit, ToolNames
from aggregator.intent.match.slots import end_of, has_possessive, name_at
from aggregator.intent.match.text import MessageText
from aggregator.intent.match.words import any_of, word_set

_WORDS_READ: Final = 300
_SERVERS_READ: Final = 6
# Save this to memory.
_KEPT: Final = re.compile(
    r".*(?<![a-z])(?:store|save|put|add|note|keep|commit|log|record|jot|stick|write|stash|drop) (?:down )?"
    r"(?:this|that|it|these|those|them|all (?:this|that|of (?:this|that|it)))(?: down)? (?:in|to|into) (?:your |the "
    r"|my )?$"
)
_SERVER_BEHIND: Final = re.compile(r" (?:mcp )?server(?![\w-])")
_IN: Final = re.compile(r"(?<![a-z])(?:in|into|from|with|using) $")
_BY_MEANS: Final = re.compile(r"(?<![a-z])(?:via|using|through|thru|have|let|ask|get|tell|check|with|w) $")
_PASSED_ON: Final = re.compile(r"(?<![a-z])(?:ask|tell|get|have|let) $")
_TO: Final = re.compile(r" (?:to )?")
# Could fetch grab this page for me, would fetch be able to get it.
_CAN: Final = re.compile(r"(?<![a-z])(?:can|could|would|will) $")
_DO_FOR_US: Final = re.compile(r" (?:be able to [a-z]{2,}|[a-z]{2,}[^.!?\n]* for (?:me|us)(?![a-z]))")
# I'd like memory to keep this.
_WISHED: Final = re.compile(rf"(?:^|(?<=\s)){any_of('wishing')} $")
_SENTENCE_END: Final = re.compile(r"[。！!？?\n]|\.(?=\s|$)")
# How much of a clause is examined before a name and after it.
NEAR: Final = 160


class NamedClause(NamedTuple):
    """A clause that has the name of a server: its start and end, and its text before and after the name.

    `place` is the start of the name.
    """

    start: int
    end: int
    named: NameHit
    place: int
    before: str
    after: str


def clauses_with_servers(message: MessageText, names: ToolNames, *, abroad: bool = False) -> Iterator[NamedClause]:
    """Yield the first clauses that name a server; `abroad`: not in English, so also as a part of `Jira-Ticket`."""
    past, found = 0, 0
    for at in range(min(len(message.words), _WORDS_READ)):
        named = name_at(message, names, message.words[at].start) if at >= past else None
        if named is None and abroad and at >= past:
            named = names.longest(message, at, compound=True)
        if named is not None and not named.servers:
            named = _server_before_tool(message, names, named)
        if named is None or has_possessive(message, named):
            continue
        past = named.last
        start, end = message.words[at].start, end_of(message, named)
        proper = _is_proper(message, start, end, abroad=abroad) or _is_passed_its_tool(message, names, named)
        if named.looks == "plain" and not proper:
            continue
        found += 1
        if found > _SERVERS_READ:
            return
        begin, stop = clause_around(message, start, end)
        before, after = message.plain[max(begin, start - NEAR) : start], message.plain[end : min(stop, end + NEAR)]
        yield NamedClause(begin, stop, named, start, before, after)


def _server_before_tool(message: MessageText, names: ToolNames, named: NameHit) -> NameHit | None:
    """Return the server in the name of a tool that begins with it: `the nightly dbt run`."""
    servers = names.of_servers.get(message.words[named.first].text, ())
    return NameHit(named.first, named.first + 1, (), servers, named.looks) if servers and not named.servers else None


def clause_around(message: MessageText, start: int, end: int) -> tuple[int, int]:
    """Return where the clause around a place starts and ends."""
    at = bisect_right(message.breaks, start, key=lambda one: one[1])
    begin = message.breaks[at - 1][1] if at else 0
    later = next((one[0] for one in message.breaks[at:] if one[0] >= end), len(message.plain))
    return begin, later


def _is_proper(message: MessageText, start: int, end: int, *, abroad: bool) -> bool:
    """Tell whether an ordinary word stands as the name of a server.

    It does in another language than English, before `server`, with a capital in the middle of a sentence and none
    beside it, and at the end of an order to keep something there; the name of a program also as the means, or as the
    one spoken to.
    """
    word, plain = message.plain[start:end], message.plain
    if _SERVER_BEHIND.match(plain, end):
        return True
    begin, stop = clause_around(message, start, end)
    head = plain[max(begin, start - NEAR) : start]
    if _CAN.search(head) and _DO_FOR_US.match(plain, end, stop):
        return True
    if word in word_set("never-servers"):
        return False
    before, after = message.text[:start].rstrip(), message.text[end:].lstrip()
    if message.text[start].isupper() and before[-1:].islower() and not after[:1].isupper():
        return True
    if abroad or message.chinese:
        return True
    ends = not plain[end:stop].strip(" )\"'")
    if ends and (_KEPT.match(head) or (word in word_set("programs") and _IN.search(head))):
        return True
    if word not in word_set("technical"):
        return False
    wished = _WISHED.search(head) is not None and plain.startswith(" to ", end)
    return wished or _BY_MEANS.search(head) is not None or not head.strip()


def _is_passed_its_tool(message: MessageText, names: ToolNames, named: NameHit) -> bool:
    """Tell whether the server is to do what a tool of it is called: `ask everything to echo this`."""
    to = _TO.match(message.plain, end_of(message, named))
    at = message.at.get(to.end()) if to is not None else None
    if at is None or not _PASSED_ON.search(message.before(message.words[named.first].start)):
        return False
    return any(names.longest(message, at, within=server) is not None for server in named.servers)


def clause_before(message: MessageText, start: int) -> str:
    """Return the clause before the one that starts at a place; empty if that is the first."""
    at = bisect_right(message.breaks, start, key=lambda one: one[1]) - 1
    if at < 0:
        return ""
    begin = message.breaks[at - 1][1] if at else 0
    return message.plain[max(begin, start - NEAR) : message.breaks[at][0]]


def clauses_after(message: MessageText, end: int, most: int) -> Iterator[str]:
    """Yield the clauses that follow a place, at most so many."""
    following = [one for one in message.breaks if one[0] >= end][: most + 1]
    for at, (_, begin) in enumerate(following[:most]):
        stop = following[at + 1][0] if at + 1 < len(following) else len(message.plain)
        yield message.plain[begin : min(stop, begin + NEAR)]


def sentence_after(message: MessageText, end: int) -> str:
    """Return the rest of the sentence behind a place, over its commas."""
    found = _SENTENCE_END.search(message.plain, end, end + NEAR)
    return message.plain[end : found.end() if found is not None else end + NEAR]
