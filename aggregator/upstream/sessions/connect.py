"""Connecting to one upstream: the transport and era that it answers to are found, and remembered while they work."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pkgutil import resolve_name
from typing import Any, Final

from aggregator.config.server_config import Protocol as EraChoice
from aggregator.config.server_config import ServerConfig
from aggregator.domain.abilities import NOTHING, declared
from aggregator.domain.errors import (
    RpcError,
    UpstreamBadAnswer,
    UpstreamError,
    UpstreamHttpStatus,
    UpstreamRefused,
    UpstreamUnavailable,
    operator_text,
)
from aggregator.domain.grant_owner import GATEWAY, SHARED, GrantOwner
from aggregator.domain.versions import Era
from aggregator.upstream.connection import InboundHandlers, OpenTransport, SessionExpired
from aggregator.upstream.credentials import Credentials, CredentialsSource
from aggregator.upstream.faults import ServerFaults
from aggregator.upstream.hidden_credentials import HiddenCredentials
from aggregator.upstream.late_secrets import LateSecrets
from aggregator.upstream.process.process import ChildProcess
from aggregator.upstream.process.reaper_pipe import Reaper
from aggregator.upstream.redaction import ServerRedaction
from aggregator.upstream.sessions.back_channel import AskingHabit, BackChannel, ClientSide
from aggregator.upstream.sessions.lifetime import SessionLifetime, SessionOver
from aggregator.upstream.sessions.negotiate import negotiate
from aggregator.upstream.sessions.session import UpstreamSession
from aggregator.upstream.transports import TRANSPORTS
from aggregator.wire.peer import PeerGone

log = logging.getLogger(__name__)

_LAUNCH_POLL: Final = 0.1
# Statuses by which a Streamable HTTP endpoint says that it is not one (SH, Backward Compatibility).
_NOT_STREAMABLE: Final = frozenset({400, 404, 405})


# The handler of notifications of a server that belong to no call.
OnUpstreamNotification = Callable[[str, dict[str, Any]], None]


class Connector:
    """The connector of one upstream: tries the combination of transport and era that worked last, until it fails.

    habit: the way the server asks, as seen on all its connections.
    account: whose the latest shared connection is; None if the server has no `auth`.
    on_session_over: handles the end of each session.
    faults: gets the faults of messages that are used all the same.
    """

    def __init__(
        self,
        config: ServerConfig,
        reaper: Reaper,
        on_notification: OnUpstreamNotification,
        redaction: ServerRedaction,
        secrets: LateSecrets | None = None,
        accounts: CredentialsSource | None = None,
        faults: ServerFaults | None = None,
        on_session_over: SessionOver | None = None,
    ) -> None:
        self._on_session_over = on_session_over
        self._config = config
        self._faults = faults or ServerFaults(config.id)
        self.account: GrantOwner | None = None
        self._accounts = accounts
        self._secrets = secrets or LateSecrets()
        self._redaction = redaction
        self._reaper = reaper
        self._on_notification = on_notification
        self.habit = AskingHabit(separates=config.isolation == "auto")
        self._worked: tuple[str, EraChoice] | None = None

    async def complete(self, config: ServerConfig) -> ServerConfig:
        """Return a config of the server with the values that its references have now.

        Raises:
            SecretMissing: one has none.
        """
        return await self._secrets.complete(config, self._redaction)

    async def connect(
        self, stack: AsyncExitStack, placed: ServerConfig, child: ChildProcess | None, clients: ClientSide
    ) -> UpstreamSession:
        """Connect and negotiate, in each combination of transport and era until one works.

        stack: closes what was opened.
        placed: the config with its port filled in.
        child: the program that was launched to serve it, if any.

        Raises:
            RpcError, PeerGone, UpstreamError: no combination works.
        """
        combinations = self._combinations()
        self._faults.forget_messages()
        self.account = await self._lister(placed)
        credentials = self._credentials(placed, self.account)
        for number, (transport, protocol) in enumerate(combinations, 1):
            try:
                session = await self._try(stack, placed, transport, protocol, child, clients, credentials)
            except (PeerGone, RpcError, UpstreamError) as error:
                if number == len(combinations) or not _try_next(error, transport, protocol):
                    # An unavailable server may come back as it was; one that answers differently has changed.
                    if not isinstance(error, UpstreamUnavailable):
                        self._worked = None
                    raise
                if isinstance(error, UpstreamError):
                    self._redaction.redact_error(error)
                log.info("%s: %s; trying %s, %s", self._config.id, operator_text(error), *combinations[number])
            else:
                # A modern server is probed again next time, in case it has been replaced by an older one.
                self._worked = (transport, "legacy" if session.negotiated.era == "legacy" else protocol)
                return session
        raise AssertionError("unreachable: the last combination returns or raises")

    async def connect_again(
        self,
        stack: AsyncExitStack,
        placed: ServerConfig,
        transport: str,
        era: Era,
        clients: ClientSide,
        on_notification: OnUpstreamNotification,
        account: GrantOwner | None = None,
    ) -> UpstreamSession:
        """Open one more connection to a server, over this transport and in this era; `stack` closes it.

        account: its owner, if the server is used with the accounts of single users or agents.

        Raises:
            LoginRequired: the account has to be connected first.
            RpcError, PeerGone, UpstreamError: the server does not allow it.
        """
        credentials = self._credentials(placed, account or await self._lister(placed))
        return await self._try(stack, placed, transport, era, None, clients, credentials, on_notification)

    async def _lister(self, placed: ServerConfig) -> GrantOwner | None:
        """Return the owner of the account that reads the lists; None for a server without OAuth."""
        if placed.auth is None:
            return None
        if self._accounts is None:
            said = f"{placed.id} needs an account, and none is connected: run `aggregator connect {placed.id}`."
            raise UpstreamRefused(placed.id, said)
        if placed.auth.per == "shared":
            return SHARED
        return (await self._accounts.has_any(placed) if placed.auth.lists == "connected" else None) or GATEWAY

    def _credentials(self, placed: ServerConfig, account: GrantOwner | None) -> Credentials | None:
        if account is None or self._accounts is None:
            return None
        return HiddenCredentials(self._accounts.credentials(placed, account), placed.id, account, self._redaction)

    def timed_out(self) -> None:
        """Leave the probe out of the next attempt, in case the server hung on it; the one after that probes again."""
        config = self._config
        if config.protocol != "auto" or self._worked is not None or config.type == "sse":
            self._worked = None
        else:
            self._worked = ("http" if config.type == "auto" else config.type, "legacy")

    def _combinations(self) -> list[tuple[str, EraChoice]]:
        """Return the pairs of transport and protocol, in the order to try them."""
        if self._worked is not None:
            return [self._worked]
        transport, protocol = self._config.type, self._config.protocol
        if transport == "sse":
            # HTTP+SSE is older than the modern era.
            return [("sse", "legacy")]
        first = "http" if transport == "auto" else transport
        combinations: list[tuple[str, EraChoice]] = [(first, protocol)]
        if protocol == "auto":
            # For servers that end when they are probed.
            combinations.append((first, "legacy"))
        if transport == "auto":
            combinations.append(("sse", "legacy"))
        return combinations

    async def _try(
        self,
        stack: AsyncExitStack,
        placed: ServerConfig,
        transport: str,
        protocol: EraChoice,
        child: ChildProcess | None,
        clients: ClientSide,
        credentials: Credentials | None,
        on_notification: OnUpstreamNotification | None = None,
    ) -> UpstreamSession:
        # In a thread, since loading the libraries of a transport takes a while.
        opener: OpenTransport = await asyncio.to_thread(resolve_name, TRANSPORTS[transport].opener)
        abilities = NOTHING

        async def declare() -> Mapping[str, Any]:
            nonlocal abilities
            abilities = await clients.declare(transport)
            return declared(abilities, alone=clients.owner is not None)

        while True:
            handler = on_notification or self._on_notification
            back = BackChannel(placed.id, handler, clients.owner, self._redaction, self.habit)
            async with AsyncExitStack() as attempt:
                try:
                    inbound = InboundHandlers(back.on_request, back.on_notification, self._faults.note_message)
                    connection = await attempt.enter_async_context(opener(placed, inbound, self._reaper, credentials))
                    attempt.push_async_callback(back.close)
                    negotiated = await negotiate(placed.id, connection, protocol, declare)
                    negotiated = negotiated.redacted(self._redaction)
                except UpstreamUnavailable:
                    # The program that was launched may need a moment until it listens.
                    if child is None or child.exited.done():
                        raise
                except SessionExpired:
                    raise UpstreamBadAnswer(placed.id, f"{placed.id} forgot its session at once.") from None
                else:
                    stack.push_async_exit(attempt.pop_all())
                    lifetime = SessionLifetime(negotiated.version, self._on_session_over)
                    session = UpstreamSession(
                        connection, negotiated, transport, negotiated.envelope(), back, abilities, lifetime
                    )
                    # Before the connection is closed, so that it shows whether that has ended by itself.
                    stack.callback(session.closed)
                    return session
            await asyncio.sleep(_LAUNCH_POLL)


def _try_next(error: Exception, transport: str, protocol: EraChoice) -> bool:
    """Return True if another combination may work after this error."""
    if isinstance(error, PeerGone):
        return protocol == "auto"
    return transport == "http" and isinstance(error, UpstreamHttpStatus) and error.details["status"] in _NOT_STREAMABLE
