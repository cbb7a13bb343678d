"""A connection beside the first of a server: who waits for it, who may share it, and whether it is over."""

import asyncio
from collections.abc import Hashable

from aggregator.upstream.caller import Caller
from aggregator.upstream.sessions.connect import UpstreamSession


class SideConnection:
    """One connection, from when it is asked for. `lists`: lists are read over it. `refused`: the server would not have
    it; `silent` counts its calls in a row that were not answered."""

    def __init__(self, owner: Caller | None, lists: bool) -> None:
        loop = asyncio.get_running_loop()
        self.owner = owner
        self.lists = lists
        self.began = loop.time()
        self.opened: asyncio.Future[UpstreamSession] = loop.create_future()
        self.closing: asyncio.Future[None] = loop.create_future()
        self.used = loop.time()
        self.awaited_by: list[Hashable] = []
        self.silent = 0
        self.refused = False
        self.renewing = asyncio.Lock()

    @property
    def session(self) -> UpstreamSession | None:
        """Once it is there."""
        opened = self.opened
        return opened.result() if opened.done() and not opened.cancelled() and opened.exception() is None else None

    @property
    def over(self) -> bool:
        """Whether nobody can use it any more."""
        return self.closing.done() or (self.session is not None and self.session.over)

    @property
    def idle(self) -> bool:
        """Whether no call is under way in it, nor about to be."""
        return self.session is not None and not self.awaited_by and not self.session.callers.busy

    @property
    def free(self) -> bool:
        """The same, and nothing is left that an earlier call may have begun."""
        return self.idle and self.session is not None and not self.session.callers.haunted

    def doubtful(self, caller: Caller) -> bool:
        """Whether a question to this caller could not be told from one to another."""
        if self.session is not None:
            return self.session.callers.doubtful(caller)
        return any(of != caller.identity for of in self.awaited_by)

    def close(self) -> None:
        """Let nobody in any more; `run` does the rest."""
        if not self.closing.done():
            self.closing.set_result(None)
