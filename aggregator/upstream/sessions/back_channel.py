"""Who is behind the calls that run on one connection, and whom its server's questions and log lines are for.

Law: a question reaches the host whose call it belongs to, or nobody. Where that cannot be told it is refused.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aggregator.domain.abilities import ELICIT, NOTHING, QUESTIONS, HostCapabilities
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.bounds.token_bucket import TokenBucket
from aggregator.domain.errors import INVALID_REQUEST, METHOD_NOT_FOUND, RpcError
from aggregator.domain.lru import LruCache
from aggregator.redaction.redactor import Redactor
from aggregator.upstream.caller import Caller, RunningCall
from aggregator.upstream.redaction import ServerRedaction
from aggregator.wire.pieces import brief

log = logging.getLogger(__name__)

# Questions of one call, all together and at the same time: more is a flood.
ASKED_AT_MOST: Final = 32
OPEN_AT_MOST: Final = 8
# A page that a person was sent to is remembered so many others long.
_PAGES: Final = 1_000
# Calls that were given up, by their hosts; beyond that any host may be behind a question.
_GONE: Final = 1_000

# What a server says to nobody's call is logged; lines beyond this are left out.
_LINES_A_SECOND: Final = 10.0
_LINES_AT_ONCE: Final = 100.0

_OPENINGS: Final = frozenset({"initialize", "server/discover"})
_COMPLETED: Final = "notifications/elicitation/complete"
_SAID: Final = "notifications/message"


@dataclass(slots=True)
class AskingHabit:
    """How a server behaves: `asks` is set once it has asked something in a way that does not tell for which call."""

    asks: bool = False


class BackChannel:
    """Those of one connection. `hear` gets the notifications that are no caller's, `owner` is who else may be asked:
    the only host there can be behind the connection, if there is one. `discreet` takes secrets out of log lines.
    `manner` is what is known of the server, on all its connections."""

    def __init__(
        self,
        server: str = "",
        hear: Callable[[str, dict[str, Any]], None] | None = None,
        owner: Callable[[], Caller | None] | None = None,
        discreet: ServerRedaction | None = None,
        manner: AskingHabit | None = None,
    ) -> None:
        self.discreet = discreet or ServerRedaction(Redactor(), Redactor())
        self.manner = manner or AskingHabit()
        self.level: int | None = None
        self.owner = owner
        self._server = server
        self._hear = hear
        self._running: dict[RunningCall, None] = {}
        self._gone: LruCache[RunningCall, tuple[Hashable, float]] = LruCache(_GONE)
        self._pages: LruCache[str, Caller] = LruCache(_PAGES)
        self._behind: dict[asyncio.Task[Any], set[RunningCall]] = {}
        self._tasks = Tasks(f"questions of {server}")
        self._anybody = 0.0
        self._lines = TokenBucket(_LINES_A_SECOND, _LINES_AT_ONCE)
        self._warned = False

    def __repr__(self) -> str:
        return f"<Callers of {self._server}, {len(self._running)} running, {len(self._behind)} questions>"

    @property
    def busy(self) -> bool:
        """Whether any call is under way, or anybody is being asked something."""
        return bool(self._running or self._behind)

    @property
    def asking(self) -> bool:
        """Whether the server waits for somebody's answer."""
        return bool(self._behind)

    @property
    def haunted(self) -> bool:
        """Whether a call was given up a short while ago."""
        return bool(self._gone_lately())

    def doubtful(self, caller: Caller) -> bool:
        """Whether a question of a server that asks could belong to another host's call, should this caller's come to
        the rest."""
        if not self.manner.asks or self.owner is not None or caller.abilities == NOTHING:
            return False
        host = caller.identity
        if any(call.caller is None or call.caller.identity != host for call in self._running):
            return True
        return not self._gone_lately() <= {host}

    # -- calls

    def enter(self, running: RunningCall) -> None:
        """A call begins."""
        self._running[running] = None

    async def leave(self, running: RunningCall) -> None:
        """It is over, and so is what was asked for it alone; the host is told before this returns. May be called twice:
        whoever is cancelled in the first does."""
        self._running.pop(running, None)
        over = []
        for question in running.end():
            behind = self._behind.get(question, set())
            behind.discard(running)
            if not behind:
                question.cancel()
                over.append(question)
        if over:
            await asyncio.wait(over)

    def gave_up(self, running: RunningCall, memory: float) -> None:
        """Note that the host of this call no longer waits for it. Whether the server heeds that is not known: until it
        answers the call all the same, or `memory` seconds are over, a question may belong to it."""
        if running.caller is not None and self.owner is None:
            until = asyncio.get_running_loop().time() + memory
            forgotten = self._gone.put(running, (running.caller.identity, until))
            if forgotten is not None:
                self._anybody = max(forgotten[1], self._anybody)

    def note_pages(self, data: Any, caller: Caller) -> None:
        """An error (-32042) sent this host to pages."""
        pages = data.get("elicitations") if isinstance(data, Mapping) else None
        for page in pages if isinstance(pages, list) else ():
            if isinstance(page, Mapping):
                self._note_page(page, caller)

    async def close(self) -> None:
        """The connection is over: nobody is asked any more."""
        await self._tasks.cancel()

    # -- what the server says

    async def asked(self, method: str, params: dict[str, Any], origin: RunningCall | None) -> dict[str, Any]:
        """The answer to a request of the server; `origin` is the call it came on the stream of, where there is one."""
        if method == "ping":
            return {}
        if method in _OPENINGS:
            raise RpcError(METHOD_NOT_FOUND, "what it is sent comes back, so it is no MCP server")
        if method not in QUESTIONS:
            raise RpcError(METHOD_NOT_FOUND, f"The aggregator declares no capability for {method}.")
        self.manner.asks |= origin is None
        caller, behind = self._whose(origin)
        if any(call.asked >= ASKED_AT_MOST or len(call.questions) >= OPEN_AT_MOST for call in behind) or (
            len(self._behind) >= OPEN_AT_MOST * max(1, len(self._running))
        ):
            raise RpcError(INVALID_REQUEST, "Too many questions for one call.")
        params = self.discreet.visible(params, "its questions")
        if method == ELICIT:
            self._note_page(params, caller)
        return await self._put(caller, behind, method, params)

    async def _put(
        self, caller: Caller, behind: set[RunningCall], method: str, params: dict[str, Any]
    ) -> dict[str, Any]:
        question = self._tasks.start(_outcome(caller, self._server, method, params))
        self._behind[question] = behind
        question.add_done_callback(self._answered)
        for call in behind:
            call.asked += 1
            call.hold(question)
        try:
            answer = await question
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise RpcError(INVALID_REQUEST, "The call that this question belongs to has ended.") from None
        if isinstance(answer, RpcError):
            raise answer
        return dict(answer)

    def _answered(self, question: asyncio.Task[Any]) -> None:
        for call in self._behind.pop(question, ()):
            call.go_on(question)

    def told(self, method: str, params: dict[str, Any], origin: RunningCall | None) -> None:
        """A notification of the server; those about requests of ours do not come here."""
        if method == _SAID:
            caller = origin.caller if origin is not None and origin in self._running else self._likely()[0]
            if caller is not None:
                caller.hear_log(self._server, self.discreet.relayed(params))
            elif self._lines.allows(1, asyncio.get_running_loop().time()):
                log.info("%s says: %s", self._server, brief(params.get("data")))
        elif method == _COMPLETED:
            page = params.get("elicitationId")
            caller = self._pages.pop(page) if isinstance(page, str) else None
            if caller is not None and isinstance(page, str):
                running = any(call.caller is caller for call in self._running)
                caller.hear_completed(self._server, page, running=running)
        elif self._hear is not None:
            self._hear(method, params)

    # -- whose it is

    def _whose(self, origin: RunningCall | None) -> tuple[Caller, set[RunningCall]]:
        """Whom to ask, and the calls that wait for it.

        Raises:
            RpcError: nobody, or it cannot be told.
        """
        if origin is not None and origin in self._running:
            if origin.caller is None:
                raise RpcError(METHOD_NOT_FOUND, "No host is behind the request that this question belongs to.")
            return origin.caller, {origin}
        caller, calls = self._likely()
        if caller is not None:
            return caller, calls
        if all(call.caller is None for call in self._running):
            raise RpcError(METHOD_NOT_FOUND, "No host can be asked: no call is running that this could belong to.")
        said = (
            "Several hosts use this connection, or did until a call was given up a moment ago, so it cannot be told "
            "whose question this is. Set `isolation` of "
            f"the server {self._server!r} in the aggregator's configuration to `per_session` or `per_agent`."
        )
        if not self._warned:
            self._warned = True
            log.warning("%s asked something that was refused: %s", self._server, said)
        raise RpcError(INVALID_REQUEST, said)

    def _likely(self) -> tuple[Caller | None, set[RunningCall]]:
        """Whose it is by what runs: nobody's unless it can be only one host's. Of several calls of that one the latest
        is its way back."""
        calls = {call: call.caller for call in self._running if call.caller is not None}
        if self.owner is not None:
            owner = self.owner()
            return (next(reversed(calls.values())) if calls else owner), set(calls)
        hosts = {caller.identity for caller in calls.values()} | self._gone_lately()
        if len(hosts) != 1 or not calls or len(calls) < len(self._running):
            return None, set()
        return next(reversed(calls.values())), set(calls)

    def _gone_lately(self) -> set[Hashable]:
        """Return the hosts of the calls that were given up and may still be worked on; None stands for any host."""
        if not self._gone and not self._anybody:
            return set()
        now = asyncio.get_running_loop().time()
        for call, (_, until) in list(self._gone.items()):
            if call.answered or until < now:
                self._gone.pop(call)
        if self._anybody < now:
            self._anybody = 0.0
        hosts = {host for _, (host, _) in self._gone.items()}
        return hosts | {None} if self._anybody else hosts

    def _note_page(self, params: Mapping[str, Any], caller: Caller) -> None:
        page = params.get("elicitationId")
        if isinstance(page, str):
            self._pages.put(page, caller)


@dataclass(frozen=True, slots=True)
class ClientSide:
    """What a server gets to see of those behind a connection: `declare`, by transport, what they can be asked, and
    `owner` if there is only one."""

    declare: Callable[[str], Awaitable[HostCapabilities]]
    owner: Callable[[], Caller | None] | None = None


async def _outcome(caller: Caller, server: str, method: str, params: dict[str, Any]) -> dict[str, Any] | RpcError:
    """The answer, or the error that is one: an error is no fault of the task."""
    try:
        return await caller.ask(server, method, params)
    except RpcError as error:
        return error
