"""Order the tools of a server that a message requests as a whole: the tools it mentions come first.

Law: an order only. Every tool given comes back once, and equal ones stay in their order.
"""

from collections.abc import Callable, Sequence
from itertools import islice, pairwise
from typing import Final

from aggregator.catalog.search.terms.stem import stem
from aggregator.domain.records import ToolRecord
from aggregator.intent.match.names import ToolNames
from aggregator.intent.match.text import MessageText

# Words of the message that are examined.
_READ: Final = 120
_PAIRS: Final = 40
_NAMED: Final = 100

# Orders the tools of one server for a message, best first; a search does.
RankTools = Callable[[str, tuple[ToolRecord, ...]], Sequence[ToolRecord]]


def order_tools(message: MessageText, names: ToolNames, server: str, rank: RankTools | None) -> tuple[int, ...]:
    """Return the positions of the server's tools, those that the message speaks of first.

    First come those named, then the others by `rank`, or else by the words shared with the message.
    """
    places = names.servers[server]
    named = dict.fromkeys(_named(message, names, server))
    if rank is not None:
        known = {id(names.tools[at]): at for at in places}
        found = rank(message.text, tuple(names.tools[at] for at in places))
        return tuple(dict.fromkeys((*named, *(known[id(tool)] for tool in found if id(tool) in known), *places)))
    shared = _shared_words(message, names, places)
    return tuple(sorted(places, key=lambda at: (at not in named, -shared.get(at, 0))))


def _named(message: MessageText, names: ToolNames, server: str) -> list[int]:
    found: list[int] = []
    for first in range(min(len(message.words), _NAMED)):
        name = names.longest(message, first, within=server)
        if name is not None and (name.looks != "plain" or not message.words[first].text.isascii()):
            found += name.tools
    return found


def _shared_words(message: MessageText, names: ToolNames, places: tuple[int, ...]) -> dict[int, int]:
    """Count for each tool the words of the message in its names, or the pairs of signs in its texts."""
    counts = dict.fromkeys(places, 0)
    words = message.words[:_READ]
    for word in {stem(word.text) for word in words}:
        for at in names.by_word.get(word, ()):
            if at in counts:
                counts[at] += 1
    # Of two words that touch, one is a sign.
    pairs = (one.text + two.text for one, two in pairwise(words) if one.end == two.start)
    with_signs = [at for at in places if names.sign_texts[at]]
    for pair in dict.fromkeys(islice(pairs, _PAIRS)):
        for at in with_signs:
            if pair in names.sign_texts[at]:
                counts[at] += 1
    return counts
