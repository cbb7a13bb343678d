"""Postings of the search index: for each term the tools that have it, and how much it says about each.

Frozen: a change of one server makes new lists, and old snapshots stay unchanged.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from aggregator.catalog.search.document import Document
from aggregator.catalog.search.terms.words import unspaced

# The slots of removed tools are reclaimed once they outnumber the tools and this many.
_FEW: Final = 256
_ENDS: Final = 3
_OFTEN: Final = 16
_ONE: Final = ord("1")

# Lets other threads run for a moment, in the middle of a long computation.
Pause = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Posting:
    """The tools that have one term: `slots` ascending, and the impact in each."""

    slots: "array[int]"
    impacts: bytes

    def __add__(self, other: "Posting") -> "Posting":
        return Posting(self.slots + other.slots, self.impacts + other.impacts)


@dataclass(frozen=True, slots=True)
class Postings:
    """The lists of all terms, over tools in slots.

    `documents` by slot, None for a removed tool; their canonical `names`, empty for a removed tool; `lists` by term;
    `ranges`: the slots of each server; `ends`: terms by their first and last three letters.
    """

    documents: Sequence[Document | None] = ()
    names: Sequence[str] = ()
    lists: Mapping[str, Posting] = field(default_factory=dict)
    ranges: Mapping[str, range] = field(default_factory=dict)
    ends: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    _bits: dict[str, int] = field(default_factory=dict)
    _text: list[tuple[str, list[int]]] = field(default_factory=list)

    def bits(self, term: str) -> int:
        """Return the slots of a known term as a number with a bit for each; cached, since some terms recur often."""
        found = self._bits.get(term)
        if found is None:
            digits = bytearray(b"0") * len(self.documents)
            for slot in self.lists[term].slots:
                digits[-1 - slot] = _ONE
            found = self._bits[term] = int(digits, 2)
        return found

    def names_containing(self, key: str) -> list[int]:
        """Return the slots of the tools whose folded name has `key` in it."""
        if not self._text:
            folded = [document.name if document else "" for document in self.documents]
            self._text.append(("\n".join(folded), list(accumulate((len(name) + 1 for name in folded), initial=0))))
        text, starts = self._text[0]
        found: list[int] = []
        at = text.find(key)
        while at >= 0:
            found.append(bisect_right(starts, at) - 1)
            at = text.find(key, starts[found[-1] + 1])
        return found

    def added(self, servers: Mapping[str, Sequence[Document]], pause: Pause = lambda: None) -> "Postings":
        """Return postings with these tools added; `pause` is called after every few.

        A server that is here already may get more only if its tools are the last ones.
        """
        documents, names = list(self.documents), list(self.names)
        ranges = dict(self.ranges)
        found: dict[str, tuple[list[int], list[int]]] = {}
        for server, own in servers.items():
            before = ranges.get(server)
            first = before.start if before is not None and before.stop == len(documents) else len(documents)
            ranges[server] = range(first, len(documents) + len(own))
            for slot, document in enumerate(own, len(documents)):
                if slot % _OFTEN == 0:
                    pause()
                for term, impact in document.impacts.items():
                    entry = found.get(term)
                    if entry is None:
                        entry = found[term] = ([], [])
                    entry[0].append(slot)
                    entry[1].append(impact)
            documents += own
            names += [document.canonical for document in own]
        lists = dict(self.lists)
        new: list[str] = []
        for term, (slots, impacts) in found.items():
            posting = Posting(array("I", slots), bytes(impacts))
            known = lists.get(term)
            lists[term] = posting if known is None else known + posting
            if known is None:
                new.append(term)
        return Postings(documents, names, lists, ranges, _with_ends(self.ends, new))

    def removed(self, servers: Collection[str]) -> "Postings":
        """Return postings without the tools of these servers, in one pass over their terms."""
        gone = sorted((slots for server, slots in self.ranges.items() if server in servers), key=lambda own: own.start)
        if not gone:
            return self
        if 2 * sum(map(len, gone)) > sum(map(len, self.ranges.values())):
            # Less work than to take out the most of it.
            left = sorted(self.ranges.keys() - set(servers), key=lambda server: self.ranges[server].start)
            return Postings().added({server: self._of(self.ranges[server]) for server in left})
        lists = dict(self.lists)
        lost: list[str] = []
        gone_of: dict[str, list[range]] = {}
        for own in _joined(gone):
            for term in set().union(*(_impacts_of(self.documents[slot]) for slot in own)):
                gone_of.setdefault(term, []).append(own)
        for term, slots in gone_of.items():
            kept = _without(lists[term], slots)
            if kept.slots:
                lists[term] = kept
            else:
                del lists[term]
                lost.append(term)
        documents, names = list(self.documents), list(self.names)
        for own in gone:
            documents[own.start : own.stop] = [None] * len(own)
            names[own.start : own.stop] = [""] * len(own)
        ranges = {name: slots for name, slots in self.ranges.items() if name not in servers}
        return Postings(documents, names, lists, ranges, _without_ends(self.ends, lost))._compact()

    def _of(self, slots: range) -> list[Document]:
        return [document for document in self.documents[slots.start : slots.stop] if document is not None]

    def _compact(self) -> "Postings":
        living = sum(map(len, self.ranges.values()))
        if len(self.documents) - living <= max(living, _FEW):
            return self
        moved: dict[int, int] = {}
        ranges: dict[str, range] = {}
        documents: list[Document | None] = []
        for server, slots in sorted(self.ranges.items(), key=lambda item: item[1].start):
            ranges[server] = range(len(documents), len(documents) + len(slots))
            moved.update(zip(slots, ranges[server], strict=True))
            documents += self.documents[slots.start : slots.stop]
        lists = {
            term: Posting(array("I", map(moved.__getitem__, posting.slots)), posting.impacts)
            for term, posting in self.lists.items()
        }
        names = [document.canonical if document else "" for document in documents]
        return Postings(documents, names, lists, ranges, self.ends)


def _joined(ranges: Iterable[range]) -> list[range]:
    """Return ascending ranges with those that follow each other as one."""
    joined: list[range] = []
    for one in ranges:
        if joined and joined[-1].stop == one.start:
            joined[-1] = range(joined[-1].start, one.stop)
        else:
            joined.append(one)
    return joined


def _impacts_of(document: Document | None) -> Mapping[str, int]:
    return {} if document is None else document.impacts


def _without(posting: Posting, gone: Iterable[range]) -> Posting:
    """Return the posting without these slots, ascending ranges: the slots between them are copied in one piece."""
    slots, impacts, start = array("I"), bytearray(), 0
    for own in gone:
        end = bisect_left(posting.slots, own.start, start)
        slots += posting.slots[start:end]
        impacts += posting.impacts[start:end]
        start = bisect_left(posting.slots, own.stop, end)
    return Posting(slots + posting.slots[start:], bytes(impacts + posting.impacts[start:]))


def end_keys(term: str) -> tuple[str, ...]:
    """Return the keys under which a term is kept for look-ups with other spellings."""
    if len(term) <= _ENDS or not term.isalpha() or unspaced(term):
        return ()
    return f"{term[:_ENDS]}-", f"-{term[-_ENDS:]}"


def _with_ends(before: Mapping[str, tuple[str, ...]], new: list[str]) -> dict[str, tuple[str, ...]]:
    added: dict[str, list[str]] = {}
    for term in new:
        for key in end_keys(term):
            added.setdefault(key, []).append(term)
    return {**before, **{key: (*before.get(key, ()), *terms) for key, terms in added.items()}}


def _without_ends(before: Mapping[str, tuple[str, ...]], lost: list[str]) -> dict[str, tuple[str, ...]]:
    gone = set(lost)
    kept = dict(before)
    for key in {key for term in lost for key in end_keys(term)}:
        kept[key] = tuple(term for term in kept[key] if term not in gone)
        if not kept[key]:
            del kept[key]
    return kept
