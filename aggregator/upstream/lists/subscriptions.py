"""The resources one upstream is to tell changes of: what is wanted is held against what was asked for, and put right.

Law: an upstream is asked once for a resource, however many want it, and again on every new connection.
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
from aggregator.upstream.lists.lists import Current, Lose
from aggregator.upstream.sessions.connect import UpstreamSession
from aggregator.wire.peer import PeerGone

log = logging.getLogger(__name__)

# Requests under way at once, and how long one may take.
_AT_ONCE: Final = 20
_EACH: Final = 10.0
# How long a new subscription may take to be acknowledged before the one it replaces is given up.
_ACKNOWLEDGED_WITHIN: Final = 2.0
_UPDATED: Final = "notifications/resources/updated"
_ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"


class UpstreamSubscriptions:
    """`told` hears of every change: the resources that were asked for, and the URI the upstream gave.

    `want` and `unwant` are counted, `asked` waits until the upstream has agreed.
    """

    def __init__(self, server: str) -> None:
        self.told: Callable[[list[str], str], None] = lambda watched, uri: None
        self._server = server
        self._wanted: dict[str, int] = {}
        self._held: frozenset[str] = frozenset()
        self._refused: dict[str, Exception] = {}
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}
        self._news = asyncio.Event()
        self._acknowledged = asyncio.Event()
        self._by_stream = False
        self._missed = False

    def __repr__(self) -> str:
        return f"<Watch {self._server}: {len(self._held)} of {len(self._wanted)}>"

    @property
    def wanted(self) -> bool:
        """Whether anybody wants to hear of anything."""
        return bool(self._wanted)

    def want(self, uri: str) -> None:
        """Somebody more wants to hear of it."""
        self._wanted[uri] = self._wanted.get(uri, 0) + 1
        self._news.set()

    def unwant(self, uri: str) -> None:
        """Somebody no longer does."""
        left = self._wanted.get(uri, 0) - 1
        if left > 0:
            self._wanted[uri] = left
        else:
            self._wanted.pop(uri, None)
            self._refused.pop(uri, None)
            self._news.set()

    async def agreed(self, uri: str, limit: float) -> None:
        """Wait until the upstream has agreed to tell of a resource that is wanted, at most `limit` seconds.

        Raises:
            UpstreamRpcError: it refuses.
            UpstreamError: it is too slow, or gone.
        """
        if uri in self._held:
            return
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(uri, []).append(answer)
        if self._refused.pop(uri, None) is not None:
            self._news.set()
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

    def forget(self) -> None:
        """The session is another one: nothing has been asked of it, and what changed before nobody told us."""
        self._held = frozenset()
        self._missed = bool(self._wanted)
        self._refused.clear()
        self._news.set()

    def hear(self, method: str, params: dict[str, Any]) -> bool:
        """Whether a notification was about this."""
        if method == _UPDATED:
            uri = params.get("uri")
            if isinstance(uri, str) and (watched := meant(self._wanted, uri, alone=self._by_stream)):
                self.told(watched, uri)
            return True
        if method == _ACKNOWLEDGED:
            agreed = params.get("notifications")
            if isinstance(agreed, dict) and "resourceSubscriptions" in agreed:
                self._acknowledged.set()
            return True
        return False

    async def keep(self, current: Current, lose: Lose) -> None:
        """Ask one connection for what is wanted, until it ends."""
        session = current()
        if session is None:
            return
        self.forget()
        self._by_stream = session.greeting.era == "modern"
        if self._by_stream:
            async with Tasks(f"the resources of {self._server}") as tasks:
                await self._by_listening(tasks, current, lose)
        else:
            await self._by_request(current, lose)

    # -- the handshake eras: one request each

    async def _by_request(self, current: Current, lose: Lose) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            session = current()
            if session is None:
                return
            missed, self._missed = self._missed, False
            missing = [uri for uri in self._wanted if uri not in self._held and uri not in self._refused]
            needless = [uri for uri in self._held if uri not in self._wanted]
            for at in range(0, len(missing), _AT_ONCE):
                await asyncio.gather(*(self._subscribe(session, uri, lose) for uri in missing[at : at + _AT_ONCE]))
            for at in range(0, len(needless), _AT_ONCE):
                await asyncio.gather(*(self._unsubscribe(session, uri) for uri in needless[at : at + _AT_ONCE]))
            if missed:
                self._tell_all(self._held.intersection(missing))

    async def _subscribe(self, session: UpstreamSession, uri: str, lose: Lose) -> None:
        problem: Exception | None = None
        try:
            async with asyncio.timeout(_EACH):
                await session.connection.request("resources/subscribe", {"uri": uri})
        except SessionExpired as error:
            lose(session, "it no longer knows our session")
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

    # -- 2026-07-28: one stream for all, another one when they change

    async def _by_listening(self, tasks: Tasks, current: Current, lose: Lose) -> None:
        failures = 0
        loop = asyncio.get_running_loop()
        began = loop.time()
        stream: asyncio.Task[Exception | None] | None = None
        while (session := current()) is not None:
            self._news.clear()
            wanted = frozenset(uri for uri in self._wanted if uri not in self._refused)
            if wanted != self._held:
                before, began = stream, loop.time()
                stream = tasks.start(self._listen(session, wanted)) if wanted else None
                if stream is not None:
                    await self._acknowledgement(tasks, stream)
                # Only now, so that no change falls between the two.
                if before is not None:
                    before.cancel()
                self._held = wanted
                self._answer(wanted, stream.result() if stream is not None and stream.done() else None)
                if self._missed:
                    self._missed = False
                    self._tell_all(wanted)
            await self._news_or_end(tasks, stream)
            if stream is None or not stream.done():
                continue
            problem, stream = stream.result(), None
            if isinstance(problem, SessionExpired):
                lose(session, "it no longer knows us")
                return
            if isinstance(problem, RpcError):
                # Its answer to these; others may fare better.
                self._refused.update(dict.fromkeys(self._held, problem))
                self._held = frozenset()
                continue
            failures = 1 if loop.time() - began > backoff.STABLE else failures + 1
            await asyncio.sleep(backoff.delay(failures, SystemRandom().random()))
            self.forget()

    async def _acknowledgement(self, tasks: Tasks, stream: asyncio.Task[Any]) -> None:
        self._acknowledged.clear()
        come = tasks.start(self._acknowledged.wait())
        await asyncio.wait({come, stream}, timeout=_ACKNOWLEDGED_WITHIN, return_when=asyncio.FIRST_COMPLETED)
        come.cancel()

    async def _news_or_end(self, tasks: Tasks, stream: asyncio.Task[Any] | None) -> None:
        if stream is None:
            await self._news.wait()
        else:
            news = tasks.start(self._news.wait())
            await asyncio.wait({news, stream}, return_when=asyncio.FIRST_COMPLETED)
            news.cancel()

    async def _listen(self, session: UpstreamSession, wanted: Iterable[str]) -> Exception | None:
        """Why the stream ended, if not as streams do."""
        params = {"notifications": {"resourceSubscriptions": sorted(wanted)}, "_meta": dict(session.envelope)}
        try:
            await session.connection.request("subscriptions/listen", params)
        except (RpcError, SessionExpired, PeerGone, UpstreamError) as error:
            log.info("%s stopped telling of changes of resources: %s", self._server, error)
            return error
        return None

    def _tell_all(self, uris: Iterable[str]) -> None:
        """While the connection was gone they may have changed."""
        for uri in uris:
            self.told([uri], uri)

    def _answer(self, uris: Iterable[str], problem: Exception | None) -> None:
        for uri in uris:
            for answer in self._waiting.pop(uri, ()):
                if answer.done():
                    continue
                if problem is None:
                    answer.set_result(None)
                else:
                    answer.set_exception(problem)


def meant(watched: Iterable[str], uri: str, *, alone: bool) -> list[str]:
    """The watched resources that a change of `uri` is about: itself and those it is a part of.

    A change may name a part of the resource that was asked for (S/server/resources, Subscriptions), and parts need not
    look like it. `alone`: it came by a stream for the watched ones only, so where there is one, it is about that.
    """
    known = list(watched)
    found = [one for one in known if one == uri or _is_part(uri, one)]
    return found or (known if alone and len(known) == 1 else [])


def _is_part(uri: str, of: str) -> bool:
    return uri.startswith(of) and (of.endswith("/") or uri[len(of) : len(of) + 1] in ("/", "?", "#"))
