"""Ranking: sums of how rare a term is times how much it says about the tool; then names, and who covers the question.

Law: only the tools in sight count, in every number here.
"""

import math
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from functools import partial
from heapq import nlargest, nsmallest
from itertools import compress
from operator import mul
from typing import Final

from aggregator.catalog.search_document import Document
from aggregator.catalog.search_document import named as named_term
from aggregator.catalog.search_meanings import meanings, plain
from aggregator.catalog.search_postings import Postings, ends
from aggregator.catalog.search_query import Query
from aggregator.catalog.search_spelling import compound, distance_allowed, within
from aggregator.domain.records import ToolRecord

# Beside the term itself: a slip of the pen, the beginning or end of a longer word.
SLIP = 0.7
BEGINNING = 0.6
# How much better a tool is that covers the whole question, and one whose server does.
COVERED = 0.2
SERVER_COVERED = 0.1

_MOST_UNKNOWN: Final = 8
_MOST_VARIANTS: Final = 4
# When so many entries have been added up, further terms, which say less, are looked at for the best tools only.
_ENTRIES: Final = 6_000
_BEST: Final = 64
# Longer questions are not names.
_NAME_WORDS: Final = 8
_SCALE: Final = 255
_LONGER: Final = 9

# Canonical names, or a verdict on each tool.
Allowed = Container[str] | Callable[[ToolRecord], bool]


class Sight:
    """The postings with a mask of the tools one agent may see."""

    def __init__(self, postings: Postings, allowed: Allowed) -> None:
        self.postings = postings
        documents = postings.documents
        if isinstance(allowed, Container):
            self.mask = bytearray(document is not None and document.canonical in allowed for document in documents)
        else:
            self.mask = bytearray(document is not None and allowed(document.tool) for document in documents)
        self.count = sum(self.mask)
        self._whole = self.count == len(self.mask)
        self._frequencies: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"<Sight {self.count} of {len(self.mask)} tools>"

    def frequency(self, term: str) -> int:
        """How many tools in sight say the term."""
        posting = self.postings.lists.get(term)
        if posting is None:
            return 0
        if self._whole:
            return len(posting.slots)
        frequency = self._frequencies.get(term)
        if frequency is None:
            frequency = self._frequencies[term] = sum(map(self.mask.__getitem__, posting.slots))
        return frequency

    def hide(self, scores: list[float]) -> list[float]:
        """The scores with 0 for what is not in sight."""
        return scores if self._whole else list(map(mul, scores, self.mask))

    def document(self, slot: int) -> Document:
        """The tool in a slot that is in sight."""
        document = self.postings.documents[slot]
        assert document is not None
        return document


@dataclass(frozen=True, slots=True)
class Part:
    """One term to add up: `gain` for full impact, in `frequency` tools in sight."""

    term: str
    gain: float
    frequency: int
    asked: bool


def ranked(sight: Sight, query: Query, limit: int) -> list[tuple[Document, float]]:
    """The best tools in sight that the query says anything about, best first, with their scores."""
    parts = _parts(sight, query)
    scores = [0.0] * len(sight.mask)
    entries = 0
    late: list[Part] = []
    for part in parts:
        if entries and entries + part.frequency > _ENTRIES:
            late.append(part)
            continue
        entries += part.frequency
        posting = sight.postings.lists[part.term]
        gain = part.gain
        for slot, impact in zip(posting.slots, posting.impacts, strict=True):
            scores[slot] += gain * impact
    scores = sight.hide(scores)
    named = _named(sight, query)
    best = _best(sight, scores, named)
    for slot in best:
        said = sight.document(slot).said
        scores[slot] += sum(part.gain * said[part.term] for part in late if part.term in said)
    _cover(sight, parts, best, scores)
    order = partial(_order, sight, scores, named)
    ordered = sorted(best, key=order)
    if limit > len(ordered):
        chosen = set(best)
        rest = [slot for slot, score in enumerate(scores) if score > 0 and slot not in chosen]
        ordered += sorted(rest, key=order)
    return [(sight.document(slot), scores[slot]) for slot in ordered[:limit]]


def _order(sight: Sight, scores: list[float], named: dict[int, int], slot: int) -> tuple[int, float, str, str]:
    document = sight.document(slot)
    return -named.get(slot, 0), -scores[slot], document.canonical, document.tool.server


def _best(sight: Sight, scores: list[float], named: dict[int, int]) -> list[int]:
    """Those whose name was asked for, and the best; of those that are level the first by name."""
    found = list(compress(range(len(scores)), scores))
    if len(found) <= _BEST:
        return [*found, *(slot for slot in named if not scores[slot])]
    least = nlargest(_BEST, map(scores.__getitem__, found))[-1]
    near = [slot for slot in found if scores[slot] >= least and slot not in named]
    best = [*named, *(slot for slot in near if scores[slot] > least)]
    level = [slot for slot in near if scores[slot] == least]
    return best + nsmallest(max(0, _BEST - len(best)), level, key=partial(_order, sight, scores, named))


def _parts(sight: Sight, query: Query) -> list[Part]:
    """What to add up, what says most first."""
    parts: dict[str, Part] = {}

    def add(term: str, worth: float, asked: bool) -> int:
        frequency = sight.frequency(term)
        if frequency:
            gain = worth / _SCALE * math.log(1 + (sight.count - frequency + 0.5) / (frequency + 0.5))
            if term not in parts or parts[term].gain < gain:
                parts[term] = Part(term, gain, frequency, asked)
        return frequency

    unknown = [term for term, worth in query.words.items() if not add(term, worth, True)]
    for terms in (query.pairs, query.means):
        for term, worth in terms.items():
            add(term, worth, False)
    for term in [term for term in unknown if _may_be_a_slip(term)][:_MOST_UNKNOWN]:
        for variant, likeness in _variants(sight, term):
            add(variant, likeness * query.words[term], True)
    return sorted(parts.values(), key=lambda part: (-part.gain, part.term))


def _may_be_a_slip(term: str) -> bool:
    known = term in meanings().of or term in plain().little or term in plain().unsaid
    return bool(ends(term)) and not known


def _variants(sight: Sight, term: str) -> list[tuple[str, float]]:
    """Terms in sight that may have been meant, with how likely; the nearest only."""
    near: list[tuple[int, int, str]] = []
    for other in _neighbours(sight.postings, term):
        slips = within(term, other, distance_allowed(term))
        longer = slips is None and compound(term, other)
        frequency = sight.frequency(other) if longer or slips is not None else 0
        if frequency:
            near.append((_LONGER if slips is None else slips, -frequency, other))
    near.sort()
    least = near[0][0] if near else 0
    likeness = BEGINNING if least == _LONGER else SLIP / max(least, 1)
    return [(other, likeness) for slips, _, other in near[:_MOST_VARIANTS] if slips == least]


def _neighbours(postings: Postings, term: str) -> set[str]:
    return {other for key in ends(term) for other in postings.ends.get(key, ())}


def _named(sight: Sight, query: Query) -> dict[int, int]:
    """The tools whose name the query is, or begins: 4 the full name, 3 the own name, 2 its first words, 1 its first
    letters, where these are no word of a tool."""
    if not query.key or not query.name or len(query.name) > _NAME_WORDS:
        return {}
    named: dict[int, int] = {}
    for slot, document in _candidates(sight, query):
        if not sight.mask[slot]:
            continue
        if document.name == query.key:
            named[slot] = 4
        elif document.own == query.key:
            named[slot] = 3
        elif document.words[: len(query.name)] == query.name:
            named[slot] = 2
        elif document.own.startswith(query.key) and not sight.frequency(query.name[-1]):
            named[slot] = 1
    return named


def _candidates(sight: Sight, query: Query) -> Iterator[tuple[int, Document]]:
    """The tools that may have such a name."""
    documents, lists = sight.postings.documents, sight.postings.lists
    if len(query.name) == 1 and not sight.frequency(query.name[0]):
        return ((slot, own) for slot, own in enumerate(documents) if own is not None and query.key in own.name)
    # A letter alone and a word that says nothing are in names, but not in the lists.
    listed = [word for word in query.name if len(word) > 1 and word not in plain().unsaid]
    rarest = min(listed, key=sight.frequency, default="")
    slots = {slot for term in (named_term(query.key), rarest) if term in lists for slot in lists[term].slots}
    return ((slot, sight.document(slot)) for slot in slots if sight.mask[slot])


def _cover(sight: Sight, parts: list[Part], best: list[int], scores: list[float]) -> None:
    """Favour those that answer to more of the question, themselves or with the rest of their server."""
    asked = [part for part in parts if part.asked]
    whole = sum(part.gain for part in asked)
    if len(asked) < 2:
        return
    said = {slot: [part for part in asked if part.term in sight.document(slot).said] for slot in best}
    servers: dict[str, set[str]] = {}
    for slot, own in said.items():
        servers.setdefault(sight.document(slot).tool.server, set()).update(part.term for part in own)
    shared = {
        server: sum(part.gain for part in asked if part.term in terms) / whole for server, terms in servers.items()
    }
    for slot, own in said.items():
        covered = sum(part.gain for part in own) / whole
        scores[slot] *= 1 + COVERED * covered + SERVER_COVERED * shared[sight.document(slot).tool.server]
