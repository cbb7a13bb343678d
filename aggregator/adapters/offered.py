"""The tools of an agent as a list of any framework's tools, updated in place."""

from abc import abstractmethod
from typing import TypeVar

from aggregator.adapters.inprocess import Elicit, InProcessHost, ListedTool

T = TypeVar("T")


class OfferedTools(list[T]):
    """An ordinary list of a framework's tools; the agent's tools are kept up to date, others stay unchanged.

    `inside` is the host in this process, `elicit` shows forms to the user.
    """

    def __init__(self, inside: InProcessHost, elicit: Elicit | None) -> None:
        super().__init__()
        self.inside = inside
        self.elicit = elicit

    @abstractmethod
    def offer_of(self, tool: T) -> ListedTool | None:
        """Return the listed tool behind a framework's tool; None for a tool that the program added itself."""

    @abstractmethod
    def made(self, offer: ListedTool) -> T | None:
        """Return a framework's tool for a listed tool; None if the framework rejects it."""

    async def refresh(self) -> bool:
        """Read the list again, in place; return whether it changed. Unchanged and foreign tools keep their identity."""
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
        """Wait until `refresh` would change the list; return False once the context of `open_tools` is left."""
        return await self.inside.changed()
