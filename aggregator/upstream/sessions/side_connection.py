"""One isolated connection of an upstream: the calls that wait for it, the hosts that share it, and its end."""

import asyncio
from collections.abc import Hashable

from aggregator.upstream.caller import Caller
from aggregator.upstream.sessions.session import UpstreamSession


class SideConnection:
    """One connection beside the shared one, from the first call that needs it.

    owner: the only host that it is for; None where several may use it.
    lists: lists are read over it.
    opened: done with its session, or with the error that prevented it.
    closing: done when it is to be closed.
    used: the time of the last use, of the event loop.
    waiting: the hosts of the calls that wait for it.
    unanswered: calls in a row without an answer.
    refused: the server refused the connection.
    """

    def __init__(self, owner: Caller | None, lists: bool) -> None:
        loop = asyncio.get_running_loop()
        self.owner = owner
        self.lists = lists
        self.began = loop.time()
        self.opened: asyncio.Future[UpstreamSession] = loop.create_future()
        self.closing: asyncio.Future[None] = loop.create_future()
        self.used = loop.time()
        self.waiting: list[Hashable] = []
        self.unanswered = 0
        self.refused = False
        self.renewing = asyncio.Lock()

    @property
    def session(self) -> UpstreamSession | None:
        """The session; None until the connection is open."""
        opened = self.opened
        return opened.result() if opened.done() and not opened.cancelled() and opened.exception() is None else None

    @property
    def over(self) -> bool:
        """True if the connection can no longer be used."""
        return self.closing.done() or (self.session is not None and self.session.over)

    @property
    def idle(self) -> bool:
        """True if no call is running in it or waits for it."""
        return self.session is not None and not self.waiting and not self.session.back_channel.busy

    @property
    def free(self) -> bool:
        """True if it is idle, and no call that was given up may still be worked on."""
        return self.idle and self.session is not None and not self.session.back_channel.unsettled

    def ambiguous(self, caller: Caller) -> bool:
        """Return True if a question for this caller could not be told from one for another host."""
        if self.session is not None:
            return self.session.back_channel.ambiguous(caller)
        return any(of != caller.identity for of in self.waiting)

    def close(self) -> None:
        """Close the connection: no call gets it from now on."""
        if not self.closing.done():
            self.closing.set_result(None)
