"""Isolated sessions: connections of a server beside the shared one, for callers that cannot use that.

An isolated session speaks the handshake era if the shared one does not, has other abilities declared, is for one
host alone (`isolation`), for one account (`auth.per`), or for a call whose questions could not be told from those of
another host. Each is opened for the first call that needs it, and closed with the session of its host, or when it was
not used for long.
"""

import asyncio
import logging
from collections.abc import Callable, Hashable
from contextlib import AsyncExitStack
from functools import partial
from itertools import count
from math import inf
from typing import Any, Final

from aggregator.config.server_config import ServerConfig
from aggregator.domain.abilities import EVERYTHING, NOTHING, HostCapabilities
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.errors import (
    RpcError,
    UpstreamBadAnswer,
    UpstreamError,
    UpstreamHttpStatus,
    UpstreamRefused,
    UpstreamUnavailable,
    reason_of,
)
from aggregator.domain.grant_owner import GrantOwner
from aggregator.domain.missing import LoginRequired
from aggregator.domain.reasons import Reason
from aggregator.domain.versions import Era
from aggregator.upstream.caller import Caller
from aggregator.upstream.connection import SessionExpired
from aggregator.upstream.current_config import CurrentConfig
from aggregator.upstream.late_secrets import SecretMissing
from aggregator.upstream.list_kinds import LISTS_CHANGED
from aggregator.upstream.sessions.back_channel import ClientSide
from aggregator.upstream.sessions.clients import DownstreamClients
from aggregator.upstream.sessions.connect import Connector, OnUpstreamNotification
from aggregator.upstream.sessions.negotiate import negotiate
from aggregator.upstream.sessions.session import UpstreamSession
from aggregator.upstream.sessions.side_connection import SideConnection, SideConnections, SideKey
from aggregator.upstream.transports import TRANSPORTS
from aggregator.wire.peer import PeerGone

log = logging.getLogger(__name__)

IDLE_LIMIT: Final = 1800.0
# Seconds that a call waits for a connection of the era of its host, before it uses one of the other era.
OTHER_ERA_WAIT: Final = 10.0
# Seconds that a call waits for a connection of its host's own, before it uses the shared one.
OWN_WAIT: Final = 10.0
# Seconds without an attempt to give hosts connections of their own, after one failed.
OWN_PAUSE: Final = 300.0
# Connections with one account for hosts of one agent alone: it leaves some of those there may be to other agents.
OF_ONE_AGENT: Final = 32
# Seconds without an attempt to connect in the era of the host, after a failure that may pass.
OTHER_ERA_PAUSE: Final = 300.0
# After so many calls in a row without an answer, a process that only some hosts use is replaced.
SILENT_AT_MOST: Final = 3
# Seconds that the first list waits for a session with all abilities declared.
LISTER_WAIT: Final = 5.0
# A session that the server forgot within so many seconds is not opened again.
SHORT_LIVED: Final = 60.0


# The function that has all lists of an upstream read again, in the background.
ReadLists = Callable[[], None]


class IsolatedSessions:
    """The isolated sessions of one server.

    list_changed: the session that was the last to announce a changed list; None if the shared one was.
    """

    def __init__(
        self,
        config: CurrentConfig,
        connector: Connector,
        clients: DownstreamClients,
        on_notification: OnUpstreamNotification,
        read_lists: ReadLists,
    ) -> None:
        self.list_changed: SideConnection | None = None
        self._config = config
        self._on_notification = on_notification
        self._read_lists = read_lists
        self._placed = config.value
        self._connector = connector
        self._clients = clients
        self._sides = SideConnections()
        self._tasks = Tasks(f"isolated sessions of {config.value.id}")
        self._one_session_only = False
        self._one_era_until = 0.0
        self._shared_until = 0.0
        self._next_warning = 0.0

    def __repr__(self) -> str:
        return f"<IsolatedSessions of {self._config.value.id}: {len(self._sides)}>"

    @property
    def own_connections(self) -> int:
        """The number of open connections of single hosts."""
        return sum(side.key.scope is not None for side in self._sides)

    @property
    def separates(self) -> bool:
        """True if hosts at the same time have connections of their own, since the server asks (`isolation: auto`)."""
        habit = self._connector.habit
        return habit.separates and habit.in_calls and not self._clients.single

    def separate(self, caller: Caller, base: UpstreamSession) -> bool:
        """Return True if a caller needs another connection: it has one of its own, or a question of the server could
        not be told from one for another host, or another call without a session, in the shared connection now.
        """
        habit = self._connector.habit
        if not habit.in_calls or not habit.separates or base.negotiated.era != "legacy":
            return False
        if base.cheap if not self._clients.single else base.transport == "http" or caller.era != "modern":
            return False
        if self._shared_until > asyncio.get_running_loop().time():
            return False
        own = SideKey(("session", caller.session), "legacy", caller.abilities) if caller.session is not None else None
        side = self._sides.get(own) if own is not None else None
        return (side is not None and not side.over) or base.back_channel.doubtful(caller)

    @property
    def busy(self) -> bool:
        """True if any isolated session is in use."""
        return any(not side.idle for side in self._sides)

    def begin(self, placed: ServerConfig) -> None:
        """Take the config with its port filled in: the server has been connected."""
        self._placed = placed
        self._one_session_only = False
        self._one_era_until = 0.0
        for side in self._sides:
            if side.lists:
                side.close()

    async def session(self, caller: Caller, base: UpstreamSession, limit: float) -> UpstreamSession:
        """Return the session for a caller, within `limit` seconds; `base` is the shared one.

        Raises:
            UpstreamError: none could be opened.
        """
        own, together = base.negotiated.era, self._clients.single or self._config.value.isolation in ("auto", "shared")
        account = self._account(caller)
        if account is None and self.separate(caller, base):
            return await self._separated(caller, base, min(limit, OWN_WAIT))
        if self._era(caller, base) != own:
            found = await self._of_era("legacy", caller, base, min(limit, OTHER_ERA_WAIT), together=together)
            if found is not None:
                return found
        if account is None and own == "modern" and (together or base.transport == "http"):
            # Every request declares the abilities of its host, and over HTTP there are no sessions to isolate.
            return base
        if account is not None or not together:
            side = self._side(caller, base, own, together=together)
            return await side.wait_open(self._config.value.id, limit, caller.identity)
        if self._one_session_only or base.fits(caller):
            return base
        try:
            side = self._side(caller, base, own, together=together)
        except UpstreamUnavailable as error:
            # There is room again as soon as a call ends.
            log.info("%s: a host shares a connection, and may not be asked: %s", self._config.value.id, error)
            return base
        try:
            return await side.wait_open(self._config.value.id, limit, caller.identity)
        except UpstreamError as error:
            # The server may allow one session only: then none of its hosts gets questions.
            log.info(
                "%s gives hosts that can be asked something no session of their own: %s", self._config.value.id, error
            )
            self._one_session_only = True
            return base

    async def _separated(self, caller: Caller, base: UpstreamSession, limit: float) -> UpstreamSession:
        """Return another connection for a host, its own if it answers questions; the shared one if there is none."""
        server, side, habit = self._config.value.id, None, self._connector.habit
        try:
            # Those that answer no questions share one.
            side = self._side(caller, base, base.negotiated.era, together=caller.abilities == NOTHING)
            session = await side.wait_open(server, limit, caller.identity)
            habit.together = ""
            return session
        except UpstreamError as error:
            now = asyncio.get_running_loop().time()
            if side is None:
                # There is room again as soon as a call ends.
                habit.together = "All connections for single hosts are in use."
            elif side.opened.done():
                # The program may be one that runs only once.
                habit.together = "It could not be started once more."
                self._shared_until = now + OWN_PAUSE
            if now >= self._next_warning:
                self._next_warning = now + OWN_PAUSE
                log.warning("%s: hosts share its connection for a while, and may not be asked: %s", server, error)
            return base

    async def lister(self, base: UpstreamSession) -> UpstreamSession:
        """Return the session to read lists over, which should show the items for hosts with all abilities.

        Over HTTP it is one with all abilities declared, if the server allows one; of the processes of a server that
        speaks both eras it is the one that was the last to announce a changed list.
        """
        if self._clients.single or not base.cheap:
            last = self.list_changed.session if self.list_changed is not None and not self.list_changed.over else None
            return last or base
        if base.negotiated.era == "modern" or self._one_session_only:
            return base
        side: SideConnection | None = None
        try:
            key = SideKey(None, "legacy", EVERYTHING)
            side = self._sides.get(key)
            if side is None or side.over:
                side = self._open(key, base.transport, None, lists=True)
            return await side.wait_open(self._config.value.id, LISTER_WAIT)
        except UpstreamError as error:
            log.info("%s is listed as for hosts that cannot be asked anything: %s", self._config.value.id, error)
            self._one_session_only = True
            return base

    def lose(self, session: UpstreamSession) -> None:
        """Close a session that the server no longer knows, and read the lists again over another one."""
        side = self._sides.of(session)
        if side is not None:
            if not session.over:
                session.lifetime.over("session_expired")
            side.close()
            # A session that is forgotten at once would be opened again and again.
            self._one_session_only |= asyncio.get_running_loop().time() - side.began < SHORT_LIVED
            self._read_lists()

    def _on_side_notification(self, side: SideConnection, alike: bool, method: str, params: dict[str, Any]) -> None:
        """Take a notification of an isolated session; `alike`: all hosts may use it, and it has lists of its own."""
        self._on_notification(method, params)
        if alike and method in LISTS_CHANGED:
            self.list_changed = side

    async def _of_era(
        self, era: Era, caller: Caller, base: UpstreamSession, limit: float, *, together: bool
    ) -> UpstreamSession | None:
        """Return a session for a caller in the era that `base` does not speak; None if none could be opened."""
        side: SideConnection | None = None
        try:
            side = self._side(caller, base, era, together=together)
            return await side.wait_open(self._config.value.id, limit, caller.identity)
        except LoginRequired:
            raise
        except UpstreamError as error:
            if side is None:
                # There is room again as soon as a call ends.
                log.info("%s: a host of the handshake eras is translated: %s", self._config.value.id, error)
            elif side.refused:
                log.info("%s speaks 2026-07-28 only: hosts of the handshake eras are translated", self._config.value.id)
                self._one_era_until = inf
            else:
                log.warning(
                    "%s: hosts of the handshake eras are translated for a while: %s", self._config.value.id, error
                )
                self._one_era_until = asyncio.get_running_loop().time() + OTHER_ERA_PAUSE
            return None

    def _account(self, caller: Caller) -> GrantOwner | None:
        """Return the owner of the account that the call uses; None if the shared connection uses the same account."""
        auth = self._config.value.auth
        if auth is None or auth.per == "shared":
            return None
        return caller.account(auth.per)

    def _era(self, caller: Caller, base: UpstreamSession) -> Era:
        """Return the era for a call: that of its host, if the server speaks both eras and may ask the host."""
        if caller.era == "modern" or base.negotiated.era == "legacy" or self._placed.protocol != "auto":
            return base.negotiated.era
        if caller.abilities == NOTHING:
            return base.negotiated.era
        return "modern" if self._one_era_until > asyncio.get_running_loop().time() else "legacy"

    def _side(self, caller: Caller, base: UpstreamSession, era: Era, *, together: bool) -> SideConnection:
        scope, owner, alone = self._scope(caller, base, era, together=together)
        account = self._account(caller)
        abilities = caller.abilities
        if era == "modern":
            abilities = NOTHING
        elif together and not base.cheap and not self._clients.single:
            abilities = EVERYTHING
        asked = self._that_asked(caller, SideKey(scope, era, abilities, account=account))
        if asked is not None:
            return asked
        for number in count():
            key = SideKey(scope, era, abilities, number, account)
            side = self._sides.get(key)
            if side is not None and alone and era == "legacy" and self._connector.habit.late and side.idle:
                # What the server may still ask for an earlier call would reach the host of this one.
                side.close()
            if side is None or side.over:
                agent = caller.agent if scope is not None else None
                if agent is not None and not self._sides.has_share(agent, account, OF_ONE_AGENT):
                    said = f"{OF_ONE_AGENT} connections for hosts of one agent, all in use."
                    raise UpstreamUnavailable(self._config.value.id, f"{self._config.value.id} has {said}")
                return self._open(key, base.transport, owner, agent)
            if side.free if alone else not (together and self._connector.habit.asks and side.ambiguous(caller)):
                side.used = asyncio.get_running_loop().time()
                return side
        raise AssertionError("unreachable: there is always another number")

    def _that_asked(self, caller: Caller, key: SideKey) -> SideConnection | None:
        """Return the connection whose server asked in this call before, if the call may go there again.

        The server may keep the matter of its question there. One of 2026-07-28 asks by results, which name their call.
        """
        side = self._sides.named(caller.sent_over) if caller.sent_over is not None else None
        if side is None or (side.key.scope, side.key.era, side.key.account) != (key.scope, key.era, key.account):
            return None
        if key.era != "modern" and not side.free:
            return None
        side.used = asyncio.get_running_loop().time()
        return side

    def id_of(self, session: UpstreamSession) -> str | None:
        """Return the id of the connection of a session; None if it is no isolated one."""
        side = self._sides.of(session)
        return side.id if side is not None else None

    def keep_alive(self, id: str, seconds: float) -> None:
        """Keep a connection open for so long without use, while a user answers a question of its server."""
        side = self._sides.named(id)
        if side is not None:
            side.kept_until = max(side.kept_until, asyncio.get_running_loop().time() + seconds)

    def answered(self, session: UpstreamSession) -> None:
        """Take note of an answered call, if its session is isolated."""
        side = self._sides.of(session)
        if side is not None:
            side.unanswered = 0

    def unanswered(self, session: UpstreamSession) -> None:
        """Take note of a call without an answer; close an idle connection with too many in a row."""
        side = self._sides.of(session)
        if side is not None:
            side.unanswered += 1
            if side.unanswered >= SILENT_AT_MOST and side.idle:
                log.warning(
                    "%s: a connection that did not answer %d calls is closed", self._config.value.id, side.unanswered
                )
                session.lost()
                side.close()

    def has(self, session: UpstreamSession) -> bool:
        """Return True if a session is isolated."""
        return self._sides.of(session) is not None

    async def renew(self, session: UpstreamSession) -> UpstreamSession:
        """Return a new session on the connection of an isolated one.

        Raises:
            UpstreamError: another server answers there now.
        """
        side = self._sides.of(session)
        if side is None or side.session is None:
            raise UpstreamUnavailable(self._config.value.id, f"{self._config.value.id} closed that connection.")
        async with side.renewing:
            if side.session is session:
                try:
                    negotiated = await negotiate(self._config.value.id, session.connection, "legacy", session.declare)
                except (RpcError, PeerGone, SessionExpired, UpstreamError) as error:
                    session.lost()
                    side.close()
                    why, server = reason_of(error), self._config.value.id
                    raise UpstreamUnavailable(
                        server, f"{server}: a session could not be renewed: {why}", said=why.said
                    ) from error
                side.opened = asyncio.get_running_loop().create_future()
                side.opened.set_result(session.renewed(negotiated))
            return side.opened.result()

    def host_left(self, host: Hashable) -> None:
        """Close the connections of a host whose session has ended."""
        for side in self._sides:
            if side.key.scope == ("session", host):
                self._sides.remove(side)
                side.close()

    def account_gone(self, account: GrantOwner) -> None:
        """Close the connections of an account that is not connected any more."""
        for side in self._sides:
            if side.key.account == account:
                self._sides.remove(side)
                side.close()

    def of_host(self, host: Hashable) -> list[UpstreamSession]:
        """Return the open sessions that are for this host alone."""
        found = [side.session for side in self._sides if side.owner is not None and side.owner.host == host]
        return [session for session in found if session is not None and not session.over]

    def begin_close(self) -> None:
        """Begin to close all isolated sessions; `close` waits for their end."""
        for side in self._sides:
            side.close()

    async def close(self) -> None:
        """Close all isolated sessions."""
        await self._tasks.cancel()

    def _scope(
        self, caller: Caller, base: UpstreamSession, era: Era, *, together: bool
    ) -> tuple[Hashable, Caller | None, bool]:
        """Return the scope that shares a connection, its only host, and whether it takes one call at a time.

        A host without a session gets a connection of its agent that no other call uses at the same time, and a host of
        2026-07-28 one of its session: a question to it is the result of one call.
        """
        if self._clients.single:
            alone = caller.era == "modern" and base.transport != "http" and self._connector.habit.in_calls
            return None, caller.for_session(), alone
        if era == "modern" and base.transport == "http":
            # As above: only the account tells the callers apart.
            return None, None, False
        if self._config.value.isolation == "per_agent":
            return ("agent", caller.agent), None, False
        if together and base.transport != "sse":
            return None, None, False
        # Over SSE in any case: its sessions take no process, and a question in them names no call.
        if caller.session is not None:
            return ("session", caller.session), caller.for_session(), caller.era == "modern"
        return ("agent", caller.agent), None, True

    def _open(
        self, key: SideKey, transport: str, owner: Caller | None, agent: Hashable = None, *, lists: bool = False
    ) -> SideConnection:
        if not self._sides.has_room(key):
            raise UpstreamUnavailable(
                self._config.value.id,
                f"{self._config.value.id} has {key.at_most} connections for different hosts, all in use.",
            )
        side = SideConnection(key, owner, lists, agent)
        self._sides.add(side)
        self._tasks.start(self._run_side(side, transport))
        return side

    async def _run_side(self, side: SideConnection, transport: str) -> None:
        key, owner, why = side.key, side.owner, Reason("it is being closed")
        missing: LoginRequired | None = None

        async def declare(transport: str) -> HostCapabilities:
            return key.abilities

        clients = ClientSide(declare, (lambda: owner) if owner is not None else None)
        try:
            placed = await self._connector.complete(self._placed)
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self._config.value.limits.connect_timeout):
                    on_notification = partial(
                        self._on_side_notification, side, key.scope is None and not TRANSPORTS[transport].cheap
                    )
                    session = await self._connector.connect_again(
                        stack, placed, transport, key.era, clients, on_notification, key.account
                    )
                self._sides.open(side, session)
                # A connection that came too late for the calls that waited serves the next.
                self._one_era_until = 0.0
                said = "server %s has one more connection (%s, isolation: %s)"
                log.info(said, self._config.value.id, session.negotiated.version, self._config.value.isolation)
                await self._wait_for_end(side, session)
                self._forget(side)
        except LoginRequired as error:
            missing = error
        except (TimeoutError, RpcError, PeerGone, SessionExpired, UpstreamError) as error:
            late = Reason(f"no answer within {self._config.value.limits.connect_timeout:g} s")
            why = late if isinstance(error, TimeoutError) else reason_of(error)
            side.refused = _refuses(error)
        finally:
            self._forget(side)
            if not side.opened.done():
                said = f"{self._config.value.id} cannot be connected once more: {why}".rstrip(".") + "."
                side.opened.set_exception(missing or UpstreamUnavailable(self._config.value.id, said, said=why.said))
                # Marked as retrieved: the calls that waited may have ended.
                side.opened.exception()

    def _forget(self, side: SideConnection) -> None:
        self._sides.remove(side)
        if self.list_changed is side:
            self.list_changed = None
            self._read_lists()

    async def _wait_for_end(self, side: SideConnection, session: UpstreamSession) -> None:
        """Wait until the connection has ended, is to be closed, or was not used for long."""
        loop = asyncio.get_running_loop()
        ends: set[asyncio.Future[Any]] = {session.connection.ended, side.closing}
        while not any(end.done() for end in ends):
            limit = self._config.value.limits.idle_timeout or IDLE_LIMIT
            await asyncio.wait(ends, timeout=limit / 4, return_when=asyncio.FIRST_COMPLETED)
            if side.idle and not side.lists and loop.time() > max(side.used + limit, side.kept_until):
                return


def _refuses(error: Exception) -> bool:
    """Return True if the server refused the connection, rather than being away or slow."""
    if isinstance(error, UpstreamHttpStatus):
        status: int = error.details["status"]
        return 400 <= status < 500 and "retry_after" not in error.details
    return isinstance(error, RpcError | UpstreamRefused | UpstreamBadAnswer) and not isinstance(error, SecretMissing)
