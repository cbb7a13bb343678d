"""The isolated connections of an upstream: the calls that wait for one, the hosts that share it, and its end."""

import asyncio
import secrets
from collections.abc import Hashable, Iterator
from typing import Final, NamedTuple

from aggregator.domain.abilities import HostCapabilities
from aggregator.domain.errors import UpstreamUnavailable
from aggregator.domain.grant_owner import GrantOwner
from aggregator.domain.versions import Era
from aggregator.upstream.caller import Caller
from aggregator.upstream.sessions.back_channel import BackChannel
from aggregator.upstream.sessions.session import UpstreamSession

AT_MOST: Final = 64
# Of a server that is used with the accounts of single people or agents: each has a connection of its own.
ACCOUNTS_AT_MOST: Final = 2_000


class SideKey(NamedTuple):
    """The use of a connection: the hosts that it is for, its era, the declared abilities, a number where there are
    several, and whose account it uses; None if all have one.
    """

    scope: Hashable
    era: Era
    abilities: HostCapabilities
    number: int = 0
    account: GrantOwner | None = None

    @property
    def at_most(self) -> int:
        """The number of connections that there may be beside each other."""
        return ACCOUNTS_AT_MOST if self.account is not None else AT_MOST


class SideConnection:
    """One connection beside the shared one, from the first call that needs it.

    id: the name under which the next request of a call finds it, in no other process the same.
    key: its purpose.
    owner: the only host that it is for; None if several may use it.
    lists: lists are read over it.
    agent: the agent whose hosts alone use it; None if hosts of several may.
    opened: done with its session, or with the error that prevented it.
    closing: done when it is to be closed.
    used: the time of the last use, of the event loop.
    kept_until: the time until which it stays open without use, since a user answers a question of its server.
    waiting: the hosts of the calls that wait for it.
    unanswered: calls in a row without an answer.
    refused: the server refused the connection.
    """

    def __init__(self, key: SideKey, owner: Caller | None, lists: bool, agent: Hashable = None) -> None:
        loop = asyncio.get_running_loop()
        self.id = secrets.token_urlsafe(9)
        self.key = key
        self.owner = owner
        self.lists = lists
        self.agent = agent
        self.began = loop.time()
        self.opened: asyncio.Future[UpstreamSession] = loop.create_future()
        self.closing: asyncio.Future[None] = loop.create_future()
        self.used = loop.time()
        self.kept_until = 0.0
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
        """True if it is idle, and the server works on no abandoned call."""
        return self.idle and self.session is not None and not self.session.back_channel.unsettled

    def ambiguous(self, caller: Caller) -> bool:
        """Return True if it would be unclear whether a question is for this caller or for another host."""
        if self.session is not None:
            return self.session.back_channel.ambiguous(caller)
        return any(of != caller.identity for of in self.waiting)

    async def wait_open(self, server: str, limit: float, of: Hashable = None) -> UpstreamSession:
        """Return the session, within `limit` seconds; `of` is the host of the call that waits.

        Raises:
            UpstreamError: it could not be opened.
        """
        if self.session is not None:
            return self.session
        self.waiting.append(of)
        try:
            async with asyncio.timeout(limit):
                return await asyncio.shield(self.opened)
        except TimeoutError:
            said = f"{server} did not open another connection within {limit:g} s."
            raise UpstreamUnavailable(server, said) from None
        finally:
            self.waiting.remove(of)

    def close(self) -> None:
        """Close the connection: no call gets it from now on."""
        if not self.closing.done():
            self.closing.set_result(None)


class SideConnections:
    """The isolated connections of one server, by their purpose."""

    def __init__(self) -> None:
        self._sides: dict[SideKey, SideConnection] = {}
        # Those that are open, since each call looks for its own.
        self._by_channel: dict[BackChannel, SideConnection] = {}

    def __len__(self) -> int:
        return len(self._sides)

    def __iter__(self) -> Iterator[SideConnection]:
        return iter(list(self._sides.values()))

    def get(self, key: SideKey) -> SideConnection | None:
        """Return the connection for this use; None if there is none."""
        return self._sides.get(key)

    def named(self, id: str) -> SideConnection | None:
        """Return the connection with this id, if calls can use it."""
        return next((side for side in self._sides.values() if side.id == id and not side.over), None)

    def has_room(self, key: SideKey) -> bool:
        """Return True if there may be one more connection; the one that was idle for longest is closed for it."""
        return self._make_room(list(self._sides.values()), key.at_most)

    def has_share(self, agent: Hashable, account: GrantOwner | None, at_most: int) -> bool:
        """Return True if an agent may have one more of `at_most` connections with an account, in the same way."""
        # Many people with accounts of their own may be one agent.
        own = [side for side in self if (side.agent, side.key.account) == (agent, account) and not side.over]
        return self._make_room(own, at_most)

    def _make_room(self, sides: list[SideConnection], at_most: int) -> bool:
        if len(sides) < at_most:
            return True
        idle = [side for side in sides if side.idle and not side.lists]
        if not idle:
            return False
        oldest = min(idle, key=lambda side: max(side.used, side.kept_until))
        self.remove(oldest)
        oldest.close()
        return True

    def add(self, side: SideConnection) -> None:
        """Take a connection that is being opened."""
        self._sides[side.key] = side

    def open(self, side: SideConnection, session: UpstreamSession) -> None:
        """Take note that a connection is open; calls that wait for it get the session."""
        if self._sides.get(side.key) is side:
            self._by_channel[session.back_channel] = side
        side.opened.set_result(session)

    def remove(self, side: SideConnection) -> None:
        """Let go of a connection. May be called twice."""
        if self._sides.get(side.key) is side:
            del self._sides[side.key]
        session = side.session
        if session is not None and self._by_channel.get(session.back_channel) is side:
            del self._by_channel[session.back_channel]

    def of(self, session: UpstreamSession) -> SideConnection | None:
        """Return the connection of a session; None if that is no isolated one."""
        return self._by_channel.get(session.back_channel)
