"""What one agent may see of the index. Law: only the tools in sight count, in every number here."""

from collections.abc import Callable, Container
from operator import mul

from aggregator.catalog.search_document import Document
from aggregator.catalog.search_postings import Postings
from aggregator.domain.records import ToolRecord

# Canonical names, or a verdict on each tool.
Allowed = Container[str] | Callable[[ToolRecord], bool]


class Sight:
    """The postings with a mask of the tools one agent may see."""

    def __init__(self, postings: Postings, allowed: Allowed) -> None:
        self.postings = postings
        documents = postings.documents
        if isinstance(allowed, Container):
            self.mask = bytearray([document is not None and document.canonical in allowed for document in documents])
        else:
            self.mask = bytearray([document is not None and allowed(document.tool) for document in documents])
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
