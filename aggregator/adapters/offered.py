"""The tools of an agent as a list that can be brought up to date in place, for any framework."""

from abc import abstractmethod
from typing import TypeVar

from aggregator.adapters.inprocess import Elicit, InProcessHost, ListedTools

T = TypeVar("T")


class OfferedTools(list[T]):
    """An ordinary list of a framework's tools; those that were made of offers follow what the agent may call."""

    def __init__(self, inside: InProcessHost, elicit: Elicit | None) -> None:
        super().__init__()
        self.inside = inside
        self.elicit = elicit

    @abstractmethod
    def offer_of(self, tool: T) -> ListedTools | None:
        """Return the offer behind a tool; None for a tool that the program added itself."""

    @abstractmethod
    def made(self, offer: ListedTools) -> T | None:
        """Return a tool that calls what is offered; None where the framework cannot take it."""

    async def refresh(self) -> bool:
        """Read the list again, in place; True if it is another. What did not change, or is not ours, stays as it is."""
        ours = [(tool, offer) for tool in self if (offer := self.offer_of(tool)) is not None]
        before = {offer.definition["name"]: tool for tool, offer in ours}
        now: list[T] = []
        for offer in await self.inside.offers():
            tool = before.get(offer.definition["name"])
            if tool is None or self.offer_of(tool) != offer:
                tool = self.made(offer)
            if tool is not None:
                now.append(tool)
        now += (tool for tool in self if self.offer_of(tool) is None)
        changed = len(now) != len(self) or any(new is not old for new, old in zip(now, self, strict=True))
        self[:] = now
        return changed

    async def changed(self) -> bool:
        """Wait until `refresh` has something to find; False once the context of `open_tools` is left."""
        return await self.inside.changed()
