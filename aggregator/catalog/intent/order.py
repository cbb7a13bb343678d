"""The order of a server's tools when the server as a whole is asked for: those the message speaks of come first.

Law: an order only. Every tool given comes back once, and equal ones stay as they were.
"""

from collections.abc import Callable, Sequence
from itertools import islice, pairwise
from typing import Final

from aggregator.catalog.intent.names import ToolNames
from aggregator.catalog.intent.text import MessageText
from aggregator.catalog.search.terms.stem import stem
from aggregator.domain.records import ToolRecord

# The tools of one server, best first, for a message: a search, say.
Rank = Callable[[str, tuple[ToolRecord, ...]], Sequence[ToolRecord]]

# Words of the message that are looked at.
_READ: Final = 120
_PAIRS: Final = 40
_NAMED: Final = 100


def fitting(said: MessageText, names: ToolNames, server: str, rank: Rank | None) -> tuple[int, ...]:
    """Positions of the server's tools: those named, then by `rank`, or else by the words shared with the message."""
    places = names.servers[server]
    named = dict.fromkeys(_named(said, names, server))
    if rank is not None:
        known = {id(names.tools[at]): at for at in places}
        found = rank(said.text, tuple(names.tools[at] for at in places))
        return tuple(dict.fromkeys((*named, *(known[id(tool)] for tool in found if id(tool) in known), *places)))
    shared = _shared(said, names, places)
    return tuple(sorted(places, key=lambda at: (at not in named, -shared.get(at, 0))))


def _named(said: MessageText, names: ToolNames, server: str) -> list[int]:
    found: list[int] = []
    for first in range(min(len(said.words), _NAMED)):
        name = names.longest(said, first, within=server)
        if name is not None and (name.looks != "plain" or not said.words[first].text.isascii()):
            found += name.tools
    return found


def _shared(said: MessageText, names: ToolNames, places: tuple[int, ...]) -> dict[int, int]:
    """How many words of the message each tool has in its names, or pairs of signs in what it says."""
    counts = dict.fromkeys(places, 0)
    words = said.words[:_READ]
    for word in {stem(word.text) for word in words}:
        for at in names.by_word.get(word, ()):
            if at in counts:
                counts[at] += 1
    pairs = (
        one.text + two.text
        for one, two in pairwise(words)
        if one.end == two.start and not (one.text + two.text).isascii()
    )
    spoken = [at for at in places if names.said[at]]
    for pair in dict.fromkeys(islice(pairs, _PAIRS)):
        for at in spoken:
            if pair in names.said[at]:
                counts[at] += 1
    return counts
