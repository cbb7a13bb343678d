"""The part of the index that one agent may see. Law: only the tools the agent sees count, in every number here."""

from collections.abc import Callable, Container
from typing import Final

from aggregator.catalog.search.document import Document, name_term
from aggregator.catalog.search.postings import Postings
from aggregator.catalog.search.terms.words import folded
from aggregator.domain.records import ToolRecord

# The canonical names that the agent sees, or a test for each tool.
Allowed = Container[str] | Callable[[ToolRecord], bool]

_DIGITS: Final = bytes.maketrans(bytes((0, 1)), b"01")
# Shorter lists are counted slot by slot.
_SHORT: Final = 64


class VisibleTools:
    """The postings with a mask of the tools that one agent may see.

    `mask` has a byte for each slot, `count` is the number of visible tools, `whole` tells whether all are visible.
    `last_asked` is for `asked.asked`.
    """

    def __init__(self, postings: Postings, allowed: Allowed) -> None:
        self.postings = postings
        self.last_asked: object = None
        documents = postings.documents
        if isinstance(allowed, Container):
            self.mask = bytearray(map(allowed.__contains__, postings.names))
        else:
            self.mask = bytearray([document is not None and allowed(document.tool) for document in documents])
        self.count = sum(self.mask)
        self.whole = self.count == len(self.mask)
        # The mask as a number: a bit for each slot.
        self._bits = int(self.mask[::-1].translate(_DIGITS) or b"0", 2)

    def __repr__(self) -> str:
        return f"<VisibleTools {self.count} of {len(self.mask)} tools>"

    def frequency(self, term: str) -> int:
        """Return how many of the visible tools have the term."""
        posting = self.postings.lists.get(term)
        if posting is None:
            return 0
        if self.whole:
            return len(posting.slots)
        if len(posting.slots) < _SHORT:
            return sum(map(self.mask.__getitem__, posting.slots))
        return (self.postings.bits(term) & self._bits).bit_count()

    def document(self, slot: int) -> Document:
        """Return the tool in a slot of one that is seen."""
        document = self.postings.documents[slot]
        assert document is not None
        return document

    def slot(self, name: str) -> int | None:
        """Return the slot of a tool that is seen, by its canonical name."""
        posting = self.postings.lists.get(name_term(folded(name)))
        slots = posting.slots if posting is not None else ()
        return next((slot for slot in slots if self.mask[slot] and self.postings.names[slot] == name), None)
