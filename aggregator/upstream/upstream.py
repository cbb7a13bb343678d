"""One upstream: its parts, its requests, and the session of each request."""

import asyncio
import logging
import time
from collections.abc import Hashable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol

from aggregator.config.server_config import ServerConfig
from aggregator.domain.bounds.kept_work import KeptWork
from aggregator.domain.bounds.slices import Slices
from aggregator.domain.errors import UpstreamBusy, UpstreamError, UpstreamUnavailable
from aggregator.domain.grant_owner import GrantOwner
from aggregator.redaction.redactor import Redactor
from aggregator.upstream.credentials import CredentialsSource
from aggregator.upstream.current_config import CurrentConfig
from aggregator.upstream.faults import ServerFaults
from aggregator.upstream.health.health import Health
from aggregator.upstream.health.in_flight import InFlight
from aggregator.upstream.late_secrets import LateSecrets
from aggregator.upstream.lifecycle.failures import LOGIN_REQUIRED
from aggregator.upstream.lifecycle.idle import IdleStop
from aggregator.upstream.lifecycle.reconnect_loop import ReconnectLoop
from aggregator.upstream.lifecycle.state import UpstreamState
from aggregator.upstream.lifecycle.states import State, StateAndReason
from aggregator.upstream.list_kinds import LIST_METHODS, LISTS_CHANGED, TOOLS_CHANGED, Kind
from aggregator.upstream.lists.lists import UpstreamLists
from aggregator.upstream.lists.subscriptions import UpstreamSubscriptions
from aggregator.upstream.process.reaper_pipe import Reaper
from aggregator.upstream.redaction import server_redaction
from aggregator.upstream.server_actions import SwitchedOff, reason_not_to_run
from aggregator.upstream.session_choice import SessionChoice
from aggregator.upstream.sessions.clients import DownstreamClients
from aggregator.upstream.sessions.connect import Connector
from aggregator.upstream.sessions.direct_request import DirectRequest
from aggregator.upstream.sessions.isolation import IsolatedSessions
from aggregator.upstream.sessions.negotiate import Negotiated
from aggregator.upstream.sessions.request import RequestSender, UpstreamRequest
from aggregator.upstream.shared_connection import SharedConnection
from aggregator.wire.peer import PeerGone

log = logging.getLogger(__name__)

# Seconds that a result waits for tools that its server announced, and until another one does.
NEWS_WAIT: Final = 1.0
# Seconds between two looks for a tool that is not in the list.
LOOKS_APART: Final = 5.0


class UpstreamObserver(Protocol):
    """The receiver of reports of upstreams. All but `examine` must return at once."""

    def changed(self) -> None:
        """Handle a change of the state, the lists or the health of an upstream."""

    async def examine(self, upstream: "Upstream", kind: Kind, items: list[Any], /) -> None:
        """Work through a list before it takes effect, in slices."""

    def resource_updated(self, upstream: "Upstream", watched: list[str], uri: str, /) -> None:
        """Handle an update. `uri` is the server's own, `watched` are the matching subscribed URIs."""

    def session_over(self, server: str, version: str, seconds: float, failure: str | None, /) -> None:
        """Handle the end of a session. `failure` is one of few words for the error that ended it; None without one."""


class Upstream:
    """One supervised server. `run` owns its tasks; `call` sends a request to it.

    config: the current one; `update` replaces it.
    lifecycle: its state; only the reconnect loop moves it.
    shared: the connection that its callers share.
    lists, subscriptions, health: facts about it while it is connected.
    faults: the faults of its lists and messages, which are used nevertheless.
    redaction: removes secrets from texts about it.
    switched_off: set if an operator switched it off until the next start.
    stderr_tail: its last lines on stderr, and the failures of its connections.
    news: what the next result of a call says beside the server's answer; empty if the server announced other tools in
        the course of a call and they are not read yet, or may always have, None for nothing.
    calls, in_flight, refused: numbers of requests sent, in flight, and over `limits.max_pending`.
    """

    def __init__(
        self,
        config: ServerConfig,
        reaper: Reaper,
        observer: UpstreamObserver,
        slices: Slices,
        clients: DownstreamClients | None = None,
        redact: Redactor | None = None,
        switched_off: SwitchedOff | None = None,
        secrets: LateSecrets | None = None,
        accounts: CredentialsSource | None = None,
        kept: KeptWork | None = None,
    ) -> None:
        clients = clients or DownstreamClients()
        self.config = config
        current = self._current = CurrentConfig(config)
        self.switched_off = switched_off
        redaction = self.redaction = server_redaction(config, redact)
        state: State = "starting" if self.runs else "disabled"
        first = StateAndReason(state, reason_not_to_run(config, switched_off), time.time())
        self._observer = observer
        self.faults = ServerFaults(config.id)
        self.lists = UpstreamLists(current, observer.changed, redaction, slices, self._examine, self.faults)
        self.subscriptions = UpstreamSubscriptions(config.id, partial(observer.resource_updated, self))
        self.health = Health(current, observer.changed)
        self.lifecycle = UpstreamState(current, first, observer.changed, redaction)
        self._idle = IdleStop(current)
        self.stderr_tail = reaper.words.of(config.id)
        self._loop = ReconnectLoop(current, self.lifecycle, self._idle, self.stderr_tail)
        connector = self._connector = Connector(
            config,
            reaper,
            self._on_notification,
            redaction,
            secrets,
            accounts,
            self.faults,
            partial(observer.session_over, config.id),
        )
        connector.habit.on_change = observer.changed
        self._isolated = IsolatedSessions(current, connector, clients, self._on_notification, self.lists.read_again)
        self.calls = self.in_flight = self.refused = 0
        self.news: str | None = None
        self._next_news = self._next_look = 0.0
        self.shared = SharedConnection(
            current,
            self._loop,
            self,
            reaper=reaper,
            clients=clients,
            connector=connector,
            isolated=self._isolated,
            lists=self.lists,
            subscriptions=self.subscriptions,
            health=self.health,
            idle=self._idle,
            kept=kept,
        )
        self._sessions = SessionChoice(current, self.lifecycle, self.shared, self._isolated, self.start, redaction)
        self._at_once = self._sessions.at_once
        self._sender = RequestSender(current, self._sessions.renew, redaction, self.health.on_message)

    def __repr__(self) -> str:
        why = f" ({self.reason})" if self.reason else ""
        return f"<Upstream {self.config.id} {self.state}{why}, {self.in_flight} in flight>"

    @property
    def asks_in_calls(self) -> bool:
        """True if the server has asked hosts in the course of calls, in this process or in an earlier one."""
        return self._connector.habit.in_calls

    def recall_asking(self) -> None:
        """Take note that the server asked hosts in the course of calls of an earlier process."""
        self._connector.habit.asks = self._connector.habit.in_calls = True

    @property
    def own_connections(self) -> int | None:
        """The number of connections of single hosts, since the server asks during calls; None if it does not."""
        return self._isolated.own_connections if self._isolated.separates else None

    # -- its state

    @property
    def runs(self) -> bool:
        """True unless it is disabled in the configuration, or switched off."""
        return self.config.enabled and self.switched_off is None

    @property
    def state(self) -> State:
        """The state of the table in `lifecycle.states`."""
        return self.lifecycle.state

    @property
    def reason(self) -> str:
        """The reason for the state in our words, and the time of the next attempt; empty without either."""
        return self.lifecycle.current.text(self.lifecycle.now())

    @property
    def reason_for_operator(self) -> str:
        """The reason with the words of the server, which no host gets."""
        return self.lifecycle.current.text_for_operator(self.lifecycle.now())

    @property
    def since(self) -> float:
        """The time of the last transition, in seconds since 1970."""
        return self.lifecycle.current.since

    @property
    def listed(self) -> bool:
        """True if its tools are listed, even if remembered from an earlier connection."""
        return self.lifecycle.listed

    @property
    def away(self) -> bool:
        """True if it cannot be reached now, or its state is unknown."""
        return self.state == "unavailable" or not self.listed

    @property
    def starting(self) -> bool:
        """True until it connects or fails after a start."""
        return self.state == "starting"

    def holds_first(self, kind: Kind | None) -> bool:
        """Return True if a first list of this kind should wait: the upstream connects for the first time, and that list
        is unknown. Without a kind: no known list contains the wanted item.
        """
        known = kind is not None and self.listed and self.lists.is_known(kind)
        return self.starting and not known and not self.lifecycle.tried

    @property
    def negotiated(self) -> Negotiated | None:
        """The server's description of itself from the latest connection; None before the first."""
        return self.shared.negotiated

    @property
    def transport(self) -> str | None:
        """The transport of the latest connection; None before the first."""
        return self.shared.transport

    @property
    def connect_seconds(self) -> float | None:
        """The seconds that the latest connection took; None before the first."""
        return self.shared.connect_seconds

    @property
    def reconnects(self) -> int:
        """The number of connections after the first."""
        return self._loop.reconnects

    @property
    def definitions(self) -> list[Any]:
        """The server's definitions of its tools."""
        return self.lists["tool"]

    @definitions.setter
    def definitions(self, definitions: list[Any]) -> None:
        self.lists.put("tool", definitions)

    @property
    def needs_account(self) -> bool:
        """True if it is away, since its lists need an account that is not connected."""
        reason = self.lifecycle.current.reason
        return self.config.auth is not None and self.state == "unavailable" and reason.startswith(LOGIN_REQUIRED)

    def unavailable(self) -> UpstreamUnavailable:
        """Return the error for a request that cannot be sent now."""
        return self.lifecycle.unavailable()

    # -- life cycle

    async def run(self) -> None:
        """Connect, and connect again, until cancelled."""
        await self._loop.run(self.shared)

    def start(self) -> None:
        """Start the upstream if it is stopped."""
        self._idle.need()
        self._loop.start()

    def keep_alive(self, seconds: float, connection: str | None) -> None:
        """Keep the upstream running for so long without use, while a user answers its question.

        connection: the isolated connection that it came over (`Caller.sent_over`).
        """
        self._idle.keep_alive(seconds)
        if connection is not None:
            self._isolated.keep_alive(connection, seconds)

    async def wait_unused(self, limit: float) -> bool:
        """Wait until no request is running, at most `limit` seconds; return True if none is."""
        return await self._idle.wait_unused(limit)

    def restore(self, lists: Mapping[Kind, list[Any]]) -> None:
        """Show the tools and other items of an earlier connection, until the upstream has listed its own."""
        if self.shared.session is None and self.state in ("starting", "unavailable") and not self.lifecycle.known:
            self._put(lists)
            self.lifecycle.known = True

    def _put(self, lists: Mapping[Kind, list[Any]]) -> None:
        for kind, items in lists.items():
            self.lists.put(kind, items)

    def restored(self) -> None:
        """Note that the stored lists, if any, have been restored."""
        self._idle.restored()

    def update(self, config: ServerConfig) -> None:
        """Replace the configuration by one that needs no new connection."""
        self.config = self._current.value = config
        self._idle.reconfigured()

    def replace(self, other: "Upstream") -> None:
        """Show the lists of the upstream that this one replaces, until it has listed its own.

        One that is switched off shows nothing, but has the tools for which others stand in, and for its next start.
        """
        if not other.lists.is_known("tool"):
            return
        lists = {kind: other.lists[kind] for kind in LIST_METHODS if other.lists.is_known(kind)}
        if self.switched_off is None:
            self.restore(lists)
        else:
            self._put(lists)

    # -- messages of the server

    def _on_notification(self, method: str, params: dict[str, Any]) -> None:
        self.health.on_message()
        if method in LISTS_CHANGED:
            self._isolated.list_changed = None
        announces = method == TOOLS_CHANGED and self.in_flight > 0 and self.news is None
        if announces and time.monotonic() >= self._next_news:
            self.news = ""
        if not (self.lists.on_notification(method) or self.subscriptions.on_notification(method, params)):
            log.debug("%s sent %.100s, which means nothing here", self.config.id, method)

    async def _examine(self, kind: Kind, items: list[Any]) -> None:
        await self._observer.examine(self, kind, items)
        if kind == "tool" and self.lists.grows_silently and self.news is None:
            self.news = ""

    # -- requests

    # `begin` does not serve `call`: it takes what needs no wait, which is the shared session while that is open and
    # healthy, and the clock of a direct call. Both send with `RequestSender.begin`.

    async def call(self, request: UpstreamRequest, begun: DirectRequest | None = None) -> dict[str, Any]:
        """Send one request and return its result.

        begun: the running request, if `begin` has sent it already.

        Raises:
            UpstreamRpcError: the error of the server, to be relayed whole.
            UpstreamError: the server is away, too slow, lost during the request, or answered nonsense.
        """
        config, caller, limit = self.config, request.caller, request.limit
        if begun is None and self._idle.uses >= config.limits.max_pending:
            self.refused += 1
            raise UpstreamBusy(config.id, config.limits.max_pending)
        began, again = begun.began if begun is not None else time.monotonic(), False
        with self._idle.use():
            if begun is not None:
                self._idle.end_use()
            while True:
                if begun is not None:
                    session = begun.session
                elif (found := self._at_once(caller)) is not None:
                    session = found
                else:
                    session = await self._sessions.of(caller, request.limit)
                    # The server that comes back may be another version.
                    request = request.named_now()
                if caller is not None:
                    caller.sent_in = session.negotiated.version
                    caller.sent_over = self._isolated.id_of(session) if session is not self.shared.session else None
                alone = session is not self.shared.session and not session.cheap
                try:
                    with InFlight(self, self.health, self._isolated, session, alone=alone, begun=begun):
                        return await self._sender.send(request, session, begun)
                except UpstreamUnavailable:
                    left, begun = limit - (time.monotonic() - began), None
                    if again or not session.over or left <= 0:
                        raise
                    # Nothing was sent: the connection turned out to be gone only now.
                    again, request = True, request._replace(limit=left)

    def begin(self, request: UpstreamRequest, running: DirectRequest, extends: float | None) -> bool:
        """Send a request over the shared session at once; return False, and send nothing, if it has to wait.

        It ends with `answered`, or once `call` takes it over. `running` gets the answer.
        `extends` is its time limit if progress starts that anew (`ServerConfig.progress_extends`).
        """
        idle, config, caller = self._idle, self.config, request.caller
        assert caller is not None, "a direct call is a host's"
        if idle.uses >= config.limits.max_pending or caller.level is not None or not self.health.answers:
            return False
        session = self._at_once(caller)
        if session is None:
            return False
        if extends is not None:
            assert running.deadline is not None, "nothing has suspended its time limit yet"
            running.latest = running.deadline - extends + config.limits.max_timeout
        try:
            sent = self._sender.begin(request, session, running, extends, running)
        except (PeerGone, UpstreamError, ValueError):
            # `call` says what is wrong with it.
            return False
        if not sent.is_sent:
            return False
        running.session, running.sent, running.began = session, sent, time.monotonic()
        idle.begin_use()
        session.back_channel.enter(running)
        self.calls += 1
        self.in_flight += 1
        return True

    def answered(self, request: DirectRequest) -> None:
        """End a request of `begin` that got a result."""
        try:
            request.session.back_channel.leave_at_once(request)
        finally:
            self.in_flight -= 1
            self._idle.end_use()
        self.health.answered(request.began)

    async def wait_subscribed(self, uri: str, limit: float) -> None:
        """Wait until the server has accepted a wanted resource subscription.

        Raises:
            UpstreamRpcError: the server refuses.
            UpstreamError: the server is away, or too slow.
        """
        with self._idle.use():
            if self.shared.session is None or self.shared.session.over:
                await self._sessions.shared(limit)
            with self.redaction.redacting_errors():
                await self.subscriptions.agreed(uri, limit)

    async def read_tools_again(self) -> None:
        """Read its tools now, after a call has shown that they differ from the list."""
        await self._read_again("tool")

    async def take_news(self) -> str:
        """Return what the result of a call says beside the server's answer, once; empty for nothing.

        Tools that the server announced in the course of the call are read before, if that takes a moment; so are those
        of a server that has added tools without a word before.
        """
        now = time.monotonic()
        if not self.news and (not self.lists.grows_silently or now >= self._next_news):
            self._next_news = now + NEWS_WAIT
            if self.lists.grows_silently:
                self.lists.read_kind_again("tool")
            await self._read_announced_tools()
        news, self.news = self.news, "" if self.lists.grows_silently else None
        return news or ""

    async def look_again(self) -> bool:
        """Read its tools now if it may have others without a word, at most every `LOOKS_APART` seconds; return True if
        it was tried. Takes a moment at most.
        """
        now = time.monotonic()
        if now < self._next_look or self.shared.session is None or not self.lists.may_differ("tool"):
            return False
        self._next_look = now + LOOKS_APART
        self.lists.read_kind_again("tool")
        await self._read_announced_tools()
        return True

    async def _read_announced_tools(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(NEWS_WAIT):
                if (session := await self.shared.for_lists()) is not None:
                    await self.lists.read_if_announced("tool", session, self.shared)

    async def read_skills_again(self) -> None:
        """Read its skills now, after one has turned out to differ from the list."""
        await self._read_again("skill")

    async def _read_again(self, kind: Kind) -> None:
        if (session := await self.shared.for_lists()) is not None:
            await self.lists.refresh(session, kind, self.shared)

    # -- hosts

    async def completed(self) -> ServerConfig:
        """Return its configuration with the current values of its references.

        Raises:
            UpstreamRefused: a reference has no value.
        """
        return await self._connector.complete(self.config)

    def account_changed(self, account: GrantOwner, *, connected: bool) -> None:
        """Handle an account that was connected or disconnected."""
        self.shared.account_changed(account, connected=connected)

    def host_left(self, host: Hashable) -> None:
        """Close the connections of a host whose session has ended."""
        self.shared.host_left(host)

    async def notify_dedicated(self, host: Hashable, method: str) -> None:
        """Send a notification of a host over the connections for this host alone."""
        await self.shared.notify_dedicated(host, method)
