"""A query over the tools that one agent sees, with the values that both ranking and judging need."""

from collections.abc import Iterable, Sequence
from functools import cached_property

from aggregator.catalog.search.fit import scores
from aggregator.catalog.search.name_match import name_matches
from aggregator.catalog.search.needs import QueryNeed, named_products, needs
from aggregator.catalog.search.query import read
from aggregator.catalog.search.visible import VisibleTools
from aggregator.catalog.search.weighted_query import weigh


class AgentQuery:
    """A query, read and weighed by the tools that one agent sees.

    `named`: see `name_match.name_matches`.
    """

    def __init__(self, visible: VisibleTools, text: str) -> None:
        self.text = text
        self.query = read(text)
        self.weighted = weigh(self.query, visible)
        self.named = name_matches(visible, self.query)
        self._scores: dict[int, float] = {}

    @cached_property
    def needs(self) -> list[QueryNeed]:
        """The needs in the query: see `needs.needs`."""
        return needs(self.query.read_as, self.query)

    @cached_property
    def products(self) -> list[str]:
        """The products that the query names: see `needs.named_products`."""
        return named_products(self.text)

    def slots(self, visible: VisibleTools, names: Iterable[str]) -> list[int]:
        """Return the slots of tools by their canonical names, without those that the agent does not see."""
        known = {visible.postings.names[slot]: slot for slot in self._scores}
        found = [known[name] if name in known else visible.slot(name) for name in names]
        return [slot for slot in found if slot is not None]

    def scores(self, visible: VisibleTools, slots: Sequence[int]) -> dict[int, float]:
        """Return the scores of tools beside each other, by slot; do not change them."""
        known = self._scores
        if len(known) != len(slots) or not known.keys() >= {*slots}:
            known = self._scores = scores(self.weighted, {slot: visible.document(slot) for slot in slots})
        return known


def asked(visible: VisibleTools, text: str) -> AgentQuery:
    """Return a query over these tools; the last one is cached, since its answer is judged next."""
    known = visible.last_asked
    if not isinstance(known, AgentQuery) or known.text != text:
        known = visible.last_asked = AgentQuery(visible, text)
    return known
