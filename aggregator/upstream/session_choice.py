"""The choice of a session for a request to one upstream: the shared one, or an isolated one.

Law: if accounts belong to single users or agents (`auth.per`), no call goes over the shared connection.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from aggregator.upstream.caller import Caller
from aggregator.upstream.current_config import CurrentConfig
from aggregator.upstream.lifecycle.state import UpstreamState
from aggregator.upstream.redaction import ServerRedaction
from aggregator.upstream.sessions.isolation import IsolatedSessions
from aggregator.upstream.sessions.session import UpstreamSession
from aggregator.upstream.shared_connection import SharedConnection

# In these states a connection is being opened, or will be in a moment.
_CONNECTING: Final = frozenset({"starting", "reconnecting"})


# Starts the upstream if it is stopped.
StartServer = Callable[[], None]


class SessionChoice:
    """The choice of the session for each request to one upstream."""

    def __init__(
        self,
        config: CurrentConfig,
        lifecycle: UpstreamState,
        connection: SharedConnection,
        isolated: IsolatedSessions,
        start: StartServer,
        redaction: ServerRedaction,
    ) -> None:
        auth = config.value.auth
        self._config = config
        self._lifecycle = lifecycle
        self._connection = connection
        self._isolated = isolated
        self._start = start
        self._redaction = redaction
        self._one_for_all = config.value.isolation in ("auto", "shared") and (auth is None or auth.per == "shared")

    def __repr__(self) -> str:
        return f"<SessionChoice for {self._config.value.id}>"

    def at_once(self, caller: Caller | None) -> UpstreamSession | None:
        """Return the shared session if it is open and right for this caller, without a wait."""
        session = self._connection.session
        if session is None or session.connection.ended.done():
            return None
        if caller is None:
            return session
        fits = session.fits(caller, shared=self._one_for_all) and not self._isolated.separate(caller, session)
        return session if fits else None

    async def of(self, caller: Caller | None, limit: float) -> UpstreamSession:
        """Return the session for a request of this caller, within `limit` seconds.

        Raises:
            UpstreamError: there is none.
        """
        session = self._connection.session
        if session is None or session.over:
            session = await self.shared(limit)
        if caller is not None and (
            not session.fits(caller, shared=self._one_for_all) or self._isolated.separate(caller, session)
        ):
            with self._redaction.redacting_errors():
                session = await self._isolated.session(caller, session, limit)
        return session

    async def shared(self, limit: float) -> UpstreamSession:
        """Wait for the shared session: `limit` seconds for a start, `limits.reconnect_wait` for a reconnection.

        Raises:
            UpstreamUnavailable: it does not come.
        """
        connection, lifecycle = self._connection, self._lifecycle
        session = connection.session
        if session is not None and session.over:
            connection.lose(session, session.connection.ended.result())
        if lifecycle.state == "reconnecting":
            limit = min(limit, self._config.value.limits.reconnect_wait)
        with suppress(TimeoutError):
            async with asyncio.timeout(limit):
                while connection.session is None and (lifecycle.startable or lifecycle.state in _CONNECTING):
                    self._start()
                    await lifecycle.changed()
        if connection.session is None:
            raise lifecycle.unavailable()
        return connection.session

    async def renew(self, session: UpstreamSession, caller: Caller | None, limit: float) -> UpstreamSession:
        """Return another session for the caller in place of one that the server no longer knows.

        Raises:
            UpstreamError: there is none.
        """
        if session.over:
            # Over SSE the connection is the session: the caller gets another one, isolated like the first.
            return await self.of(caller, limit)
        if self._isolated.has(session):
            return await self._isolated.renew(session)
        await self._connection.renew(session)
        renewed = self._connection.session
        return renewed if renewed is not None and not renewed.over else await self.shared(limit)
