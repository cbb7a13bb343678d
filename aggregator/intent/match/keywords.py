"""The trigger keywords of all servers, compiled once, and the search for them in a message.

Law: a keyword that begins or ends with a letter or digit of a spaced script has no such neighbour there.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from aggregator.intent.match.text import folded, joins_words

# Longer keywords are ignored.
_LONGEST: Final = 200


class KeywordHit(NamedTuple):
    """A keyword in folded text, and the servers it points to, in their order."""

    start: int
    end: int
    servers: tuple[str, ...]


class TriggerKeywords:
    """A table of keywords by their first characters, so that each place of a text is compared with few of them."""

    def __init__(self, servers: Iterable[tuple[str, Iterable[str]]]) -> None:
        of: dict[str, dict[str, None]] = {}
        for server, keywords in servers:
            for keyword in map(folded, keywords):
                if keyword and len(keyword) <= _LONGEST:
                    of.setdefault(keyword, {})[server] = None
        self._of = {keyword: tuple(known) for keyword, known in of.items()}
        lengths: dict[str, set[int]] = {}
        for keyword in of:
            lengths.setdefault(keyword[:2], set()).add(len(keyword))
        self._lengths = {begin: tuple(sorted(known, reverse=True)) for begin, known in lengths.items()}

    def __len__(self) -> int:
        return len(self._of)

    def of(self, keyword: str) -> tuple[str, ...]:
        """Return the servers that have exactly this keyword, folded."""
        return self._of.get(keyword, ())

    def found(self, plain: str, servers: Iterable[str]) -> Iterator[KeywordHit]:
        """Yield the keywords of these servers in a folded text, by place, at each place the longest."""
        known = frozenset(servers)
        if not self._of:
            return
        for at in range(len(plain)):
            lengths = self._lengths.get(plain[at : at + 2], ())
            single = self._lengths.get(plain[at], ())
            for length in (*lengths, *single) if lengths or single else ():
                keyword = plain[at : at + length]
                pointed = self._of.get(keyword, ()) if len(keyword) == length else ()
                seen = tuple(server for server in pointed if server in known)
                if seen and _stands_alone(plain, at, at + length):
                    yield KeywordHit(at, at + length, seen)
                    break


def _stands_alone(plain: str, start: int, end: int) -> bool:
    return not (
        (start > 0 and joins_words(plain[start]) and (joins_words(plain[start - 1]) or plain[start - 1] == "@"))
        or (end < len(plain) and joins_words(plain[end - 1]) and joins_words(plain[end]))
    )
