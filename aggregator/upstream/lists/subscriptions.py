"""The resource subscriptions at one upstream: what hosts want is compared with what was requested, and corrected.

Law: a resource is subscribed to once, however many hosts want it, and again on every new connection.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from random import SystemRandom
from typing import Any, Final

from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.errors import RpcError, UpstreamError, UpstreamRpcError, UpstreamTimeout, UpstreamUnavailable
from aggregator.upstream.connection import SessionExpired
from aggregator.upstream.lifecycle import backoff
from aggregator.upstream.sessions.session import SessionHolder, UpstreamSession
from aggregator.wire.peer import PeerGone

log = logging.getLogger(__name__)

# Requests under way at one time, and the seconds that one may take.
_AT_ONCE: Final = 20
_EACH: Final = 10.0
# Seconds that a new stream may take to be acknowledged before the one that it replaces is closed.
_ACKNOWLEDGED_WITHIN: Final = 2.0
_UPDATED: Final = "notifications/resources/updated"
_ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"


# Called with the watched resources that an update is about, and the URI in the notification.
OnResourceUpdated = Callable[[list[str], str], None]


class UpstreamSubscriptions:
    """The resource subscriptions at one upstream. `want` and `unwant` are counted; `agreed` waits for the upstream."""

    def __init__(self, server: str, on_update: OnResourceUpdated) -> None:
        self._on_update = on_update
        self._server = server
        self._wanted: dict[str, int] = {}
        self._held: frozenset[str] = frozenset()
        self._refused: dict[str, Exception] = {}
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}
        self._wanted_changed = asyncio.Event()
        self._acknowledged = asyncio.Event()
        self._by_stream = False
        self._missed = False

    def __repr__(self) -> str:
        return f"<UpstreamSubscriptions of {self._server}: {len(self._held)} of {len(self._wanted)}>"

    @property
    def wanted(self) -> bool:
        """True if any resource is wanted."""
        return bool(self._wanted)

    def want(self, uri: str) -> None:
        """Add one host that wants updates of a resource."""
        self._wanted[uri] = self._wanted.get(uri, 0) + 1
        self._wanted_changed.set()

    def unwant(self, uri: str) -> None:
        """Remove one host that wanted updates of a resource."""
        left = self._wanted.get(uri, 0) - 1
        if left > 0:
            self._wanted[uri] = left
        else:
            self._wanted.pop(uri, None)
            self._refused.pop(uri, None)
            self._wanted_changed.set()

    async def agreed(self, uri: str, limit: float) -> None:
        """Wait until the upstream has agreed to a subscription that is wanted, at most `limit` seconds.

        Raises:
            UpstreamRpcError: the upstream refuses.
            UpstreamError: the upstream is too slow, or its connection has ended.
        """
        if uri in self._held:
            return
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(uri, []).append(answer)
        if self._refused.pop(uri, None) is not None:
            self._wanted_changed.set()
        try:
            async with asyncio.timeout(limit):
                await answer
        except TimeoutError:
            raise UpstreamTimeout(
                self._server, f"{self._server} did not agree to tell of changes within {limit:g} s."
            ) from None
        except RpcError as error:
            raise UpstreamRpcError(self._server, error.code, error.message, error.data, error.more) from error
        except (PeerGone, SessionExpired):
            raise UpstreamUnavailable(self._server, f"The connection to {self._server} ended.") from None
        finally:
            if answer in (waiting := self._waiting.get(uri, [])):
                waiting.remove(answer)
                if not waiting:
                    del self._waiting[uri]

    def reset(self) -> None:
        """Start over with a new session, which knows of no subscription; updates before it may have been missed."""
        self._held = frozenset()
        self._missed = bool(self._wanted)
        self._refused.clear()
        self._wanted_changed.set()

    def on_notification(self, method: str, params: dict[str, Any]) -> bool:
        """Take a notification; return True if it is about a subscription."""
        if method == _UPDATED:
            uri = params.get("uri")
            if isinstance(uri, str) and (watched := affected(self._wanted, uri, alone=self._by_stream)):
                self._on_update(watched, uri)
            return True
        if method == _ACKNOWLEDGED:
            agreed = params.get("notifications")
            if isinstance(agreed, dict) and "resourceSubscriptions" in agreed:
                self._acknowledged.set()
            return True
        return False

    async def keep(self, sessions: SessionHolder) -> None:
        """Subscribe over one connection to the wanted resources, until it ends."""
        session = sessions.session
        if session is None:
            return
        self.reset()
        self._by_stream = session.negotiated.era == "modern"
        if self._by_stream:
            async with Tasks(f"the resources of {self._server}") as tasks:
                await self._by_listening(tasks, sessions)
        else:
            await self._by_request(sessions)

    # -- the handshake eras: one request for each resource

    async def _by_request(self, sessions: SessionHolder) -> None:
        while True:
            await self._wanted_changed.wait()
            self._wanted_changed.clear()
            session = sessions.session
            if session is None:
                return
            missed, self._missed = self._missed, False
            missing = [uri for uri in self._wanted if uri not in self._held and uri not in self._refused]
            needless = [uri for uri in self._held if uri not in self._wanted]
            for at in range(0, len(missing), _AT_ONCE):
                await asyncio.gather(*(self._subscribe(session, uri, sessions) for uri in missing[at : at + _AT_ONCE]))
            for at in range(0, len(needless), _AT_ONCE):
                await asyncio.gather(*(self._unsubscribe(session, uri) for uri in needless[at : at + _AT_ONCE]))
            if missed:
                self._report_all(self._held.intersection(missing))

    async def _subscribe(self, session: UpstreamSession, uri: str, sessions: SessionHolder) -> None:
        problem: Exception | None = None
        try:
            async with asyncio.timeout(_EACH):
                await session.connection.request("resources/subscribe", {"uri": uri})
        except SessionExpired as error:
            sessions.lose(session, "it no longer knows our session")
            problem = error
        except TimeoutError:
            said = f"{self._server} did not answer a subscription within {_EACH:g} s."
            problem = UpstreamTimeout(self._server, said)
        except (RpcError, PeerGone, UpstreamError) as error:
            problem = error
        if problem is None:
            self._held |= {uri}
        else:
            log.info("%s does not tell of changes of %.200r: %s", self._server, uri, problem)
            self._refused[uri] = problem
        self._answer((uri,), problem)

    async def _unsubscribe(self, session: UpstreamSession, uri: str) -> None:
        self._held -= {uri}
        try:
            async with asyncio.timeout(_EACH):
                await session.connection.request("resources/unsubscribe", {"uri": uri})
        except (SessionExpired, TimeoutError, RpcError, PeerGone, UpstreamError) as error:
            log.debug("%s goes on telling of %.200r: %s", self._server, uri, error)

    # -- 2026-07-28: one stream for all resources, replaced when they change

    async def _by_listening(self, tasks: Tasks, sessions: SessionHolder) -> None:
        failures = 0
        loop = asyncio.get_running_loop()
        began = loop.time()
        stream: asyncio.Task[Exception | None] | None = None
        while (session := sessions.session) is not None:
            self._wanted_changed.clear()
            wanted = frozenset(uri for uri in self._wanted if uri not in self._refused)
            if wanted != self._held:
                before, began = stream, loop.time()
                stream = tasks.start(self._listen(session, wanted)) if wanted else None
                if stream is not None:
                    await self._acknowledgement(tasks, stream)
                # After the new stream is acknowledged, so that no update falls between the two.
                if before is not None:
                    before.cancel()
                self._held = wanted
                self._answer(wanted, stream.result() if stream is not None and stream.done() else None)
                if self._missed:
                    self._missed = False
                    self._report_all(wanted)
            await self._change_or_end(tasks, stream)
            if stream is None or not stream.done():
                continue
            problem, stream = stream.result(), None
            if isinstance(problem, SessionExpired):
                sessions.lose(session, "it no longer knows us")
                return
            if isinstance(problem, RpcError):
                # A refusal of these resources; others may be accepted.
                self._refused.update(dict.fromkeys(self._held, problem))
                self._held = frozenset()
                continue
            failures = 1 if loop.time() - began > backoff.STABLE else failures + 1
            await asyncio.sleep(backoff.delay(failures, SystemRandom().random()))
            self.reset()

    async def _acknowledgement(self, tasks: Tasks, stream: asyncio.Task[Any]) -> None:
        self._acknowledged.clear()
        come = tasks.start(self._acknowledged.wait())
        await asyncio.wait({come, stream}, timeout=_ACKNOWLEDGED_WITHIN, return_when=asyncio.FIRST_COMPLETED)
        come.cancel()

    async def _change_or_end(self, tasks: Tasks, stream: asyncio.Task[Any] | None) -> None:
        if stream is None:
            await self._wanted_changed.wait()
        else:
            news = tasks.start(self._wanted_changed.wait())
            await asyncio.wait({news, stream}, return_when=asyncio.FIRST_COMPLETED)
            news.cancel()

    async def _listen(self, session: UpstreamSession, wanted: Iterable[str]) -> Exception | None:
        """Keep a stream open; return the error that ended it, or None."""
        params = {"notifications": {"resourceSubscriptions": sorted(wanted)}, "_meta": dict(session.envelope)}
        try:
            await session.connection.request("subscriptions/listen", params)
        except (RpcError, SessionExpired, PeerGone, UpstreamError) as error:
            log.info("%s stopped telling of changes of resources: %s", self._server, error)
            return error
        return None

    def _report_all(self, uris: Iterable[str]) -> None:
        """Report an update of each: they may have changed while there was no connection."""
        for uri in uris:
            self._on_update([uri], uri)

    def _answer(self, uris: Iterable[str], problem: Exception | None) -> None:
        for uri in uris:
            for answer in self._waiting.pop(uri, ()):
                if answer.done():
                    continue
                if problem is None:
                    answer.set_result(None)
                else:
                    answer.set_exception(problem)


def affected(watched: Iterable[str], uri: str, *, alone: bool) -> list[str]:
    """Return the watched resources that an update of `uri` is about: itself, and those that it is a part of.

    An update may name a part of a subscribed resource (S/server/resources, Subscriptions), whose URI need not resemble
    it. alone: the update came by a stream for the watched resources only, so that a single one of them is meant.
    """
    known = list(watched)
    found = [one for one in known if one == uri or _is_part(uri, one)]
    return found or (known if alone and len(known) == 1 else [])


def _is_part(uri: str, of: str) -> bool:
    return uri.startswith(of) and (of.endswith("/") or uri[len(of) : len(of) + 1] in ("/", "?", "#"))
