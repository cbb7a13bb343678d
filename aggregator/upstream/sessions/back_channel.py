"""The back channel of one connection: requests, progress and log messages of the server to the host that called it.

Law: a request of the server reaches the host whose call it belongs to, or no host. It is refused if that is unclear.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aggregator.domain.abilities import ELICIT, NOTHING, QUESTIONS, ROOTS, HostCapabilities
from aggregator.domain.bounds.lru import LruCache
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.bounds.time_limits import TimeLimits
from aggregator.domain.bounds.token_bucket import TokenBucket
from aggregator.domain.errors import INVALID_REQUEST, METHOD_NOT_FOUND, RpcError
from aggregator.redaction.redactor import Redactor
from aggregator.upstream.caller import Caller, RunningCall
from aggregator.upstream.redaction import ServerRedaction
from aggregator.wire.pieces import brief

log = logging.getLogger(__name__)

# Requests to the host for one call, in all and at one time: more are a flood.
ASKED_AT_MOST: Final = 32
OPEN_AT_MOST: Final = 8
# Pages that a person was sent to (elicitation by URL) that are remembered.
_PAGES: Final = 1_000
# Abandoned calls that are remembered with their hosts; beyond that, a request may belong to any host.
_ABANDONED: Final = 1_000

# Log messages that belong to no call are logged here; those beyond this rate are dropped.
_LINES_A_SECOND: Final = 10.0
_LINES_AT_ONCE: Final = 100.0

_OPENINGS: Final = frozenset({"initialize", "server/discover"})
_COMPLETED: Final = "notifications/elicitation/complete"
_LOG_MESSAGE: Final = "notifications/message"


@dataclass(slots=True)
class AskingHabit:
    """The way a server asks. `asks` is set once it has sent a request to the host that does not tell for which call,
    `in_calls` once it has done so while calls of hosts were running, `late` while none was, for what only a call needs:
    its question may come when another call runs. `separates`: calls that could be mistaken for each
    other then get connections of their own (`isolation: auto`). `together`: why they share one for now nevertheless;
    empty if they do not. `on_change` is called after `in_calls` was set.
    """

    asks: bool = False
    in_calls: bool = False
    late: bool = False
    separates: bool = False
    together: str = ""
    on_change: Callable[[], None] | None = None


# The handler of notifications that belong to no call.
OnOtherNotification = Callable[[str, dict[str, Any]], None]


# The function that returns the only host that uses a connection; None while it is not connected.
OnlyCaller = Callable[[], Caller | None]


# The function that returns the abilities of hosts to declare to a server over a transport.
DeclareAbilities = Callable[[str], Awaitable[HostCapabilities]]


class BackChannel:
    """The running calls of one connection, and the messages of the server for their hosts.

    level: the rank of the log level that the server was told; None before.
    owner: returns the only host that uses the connection; None if several may.
    limits: the time limits of the running calls.
    """

    def __init__(
        self,
        server: str = "",
        on_notification: OnOtherNotification | None = None,
        owner: OnlyCaller | None = None,
        redaction: ServerRedaction | None = None,
        habit: AskingHabit | None = None,
    ) -> None:
        self.redaction = redaction or ServerRedaction(Redactor(), Redactor())
        self._habit = habit or AskingHabit()
        self.level: int | None = None
        self.owner = owner
        self._server = server
        self._on_notification = on_notification
        self._running: dict[RunningCall, None] = {}
        self._abandoned: LruCache[RunningCall, tuple[Hashable, float]] = LruCache(_ABANDONED)
        self._pages: LruCache[str, Caller] = LruCache(_PAGES)
        self._waiting: dict[asyncio.Task[Any], set[RunningCall]] = {}
        self._tasks = Tasks(f"questions of {server}")
        self._any_host_until = 0.0
        self.limits = TimeLimits()
        self._lines = TokenBucket(_LINES_A_SECOND, _LINES_AT_ONCE)
        self._warned = False

    def __repr__(self) -> str:
        return f"<BackChannel of {self._server}, {len(self._running)} running, {len(self._waiting)} questions>"

    @property
    def busy(self) -> bool:
        """True if a call is running, or a host is being asked."""
        return bool(self._running or self._waiting)

    @property
    def asking(self) -> bool:
        """True if the server waits for the answer of a host."""
        return bool(self._waiting)

    @property
    def unsettled(self) -> bool:
        """True if the server may still work on an abandoned call."""
        return bool(self._given_up())

    def ambiguous(self, caller: Caller) -> bool:
        """Return True if a request of the server could belong to another host, once a call of this one runs too."""
        if not self._habit.asks or self.owner is not None or caller.abilities == NOTHING:
            return False
        host = caller.identity
        if any(call.caller is None or call.caller.identity != host for call in self._running):
            return True
        return not self._given_up() <= {host}

    def doubtful(self, caller: Caller) -> bool:
        """Return True if a second running call, of this host, would make it unclear which host a question is for."""
        host, able = caller.identity, caller.abilities != NOTHING
        for call in self._running:
            other = call.caller
            if other is not None and other.identity != host and (able or other.abilities != NOTHING):
                return True
        return able and (self._habit.late or not self._given_up() <= {host})

    # -- calls

    def enter(self, running: RunningCall) -> None:
        """Add a call that begins."""
        self._running[running] = None

    def leave_at_once(self, running: RunningCall) -> bool:
        """Remove a call that has ended; return False, and do nothing, where `leave` has to be awaited."""
        if running.questions:
            return False
        self._running.pop(running, None)
        return True

    async def leave(self, running: RunningCall) -> None:
        """Remove a call that has ended, and cancel the requests to the host that were for it alone.

        The host has got the message when this returns. May be called again after a cancellation.
        """
        self._running.pop(running, None)
        over = []
        for question in running.end():
            calls = self._waiting.get(question, set())
            calls.discard(running)
            if not calls:
                question.cancel()
                over.append(question)
        if over:
            await asyncio.wait(over)

    def gave_up(self, running: RunningCall, memory: float) -> None:
        """Take note that the host of this call no longer waits for it.

        The server may not heed that: until it answers the call, or `memory` seconds are over, a request of it may
        belong to this call.
        """
        if running.caller is not None and (self.owner is None or running.caller.era == "modern"):
            until = asyncio.get_running_loop().time() + memory
            forgotten = self._abandoned.put(running, (running.caller.identity, until))
            if forgotten is not None:
                self._any_host_until = max(forgotten[1], self._any_host_until)

    def note_pages(self, data: Any, caller: Caller) -> None:
        """Remember the pages that an error (-32042) sent this host to."""
        pages = data.get("elicitations") if isinstance(data, Mapping) else None
        for page in pages if isinstance(pages, list) else ():
            if isinstance(page, Mapping):
                self._remember_page(page, caller)

    async def close(self) -> None:
        """Cancel all requests to hosts: the connection has ended."""
        await self._tasks.cancel()

    # -- messages of the server

    async def on_request(self, method: str, params: dict[str, Any], origin: RunningCall | None) -> dict[str, Any]:
        """Answer a request of the server; `origin` is the call on whose stream it came, if any.

        Raises:
            RpcError: the request is refused, or the host answered with an error.
        """
        if method == "ping":
            return {}
        if method in _OPENINGS:
            raise RpcError(METHOD_NOT_FOUND, "what it is sent comes back, so it is no MCP server")
        if method not in QUESTIONS:
            raise RpcError(METHOD_NOT_FOUND, f"The aggregator declares no capability for {method}.")
        self._note_habit(method, origin)
        caller, calls = self._addressee(origin)
        if any(call.request_count >= ASKED_AT_MOST or len(call.questions) >= OPEN_AT_MOST for call in calls) or (
            len(self._waiting) >= OPEN_AT_MOST * max(1, len(self._running))
        ):
            raise RpcError(INVALID_REQUEST, "Too many questions for one call.")
        params = self.redaction.visible(params, "its questions")
        if method == ELICIT:
            self._remember_page(params, caller)
        return await self._ask(caller, calls, method, params)

    def _note_habit(self, method: str, origin: RunningCall | None) -> None:
        """Take note that the server asks; not of what it asks at its start, such as for roots, which is for no call."""
        self._habit.asks |= origin is None
        self._habit.late |= method != ROOTS and origin is None and self.owner is None and not self._running
        if origin is None and not self._habit.in_calls and any(call.caller is not None for call in self._running):
            self._habit.in_calls = True
            if self._habit.on_change is not None:
                self._habit.on_change()
            if self._habit.separates:
                log.info(
                    "%s asks hosts during calls: from now on, hosts at the same time have connections of their own, as "
                    "has each call of a host without a session (isolation: auto)",
                    self._server,
                )

    async def _ask(
        self, caller: Caller, calls: set[RunningCall], method: str, params: dict[str, Any]
    ) -> dict[str, Any]:
        question = self._tasks.start(_outcome(caller, self._server, method, params))
        self._waiting[question] = calls
        question.add_done_callback(self._answered)
        for call in calls:
            call.request_count += 1
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
        for call in self._waiting.pop(question, ()):
            call.go_on(question)

    def on_notification(self, method: str, params: dict[str, Any], origin: RunningCall | None) -> None:
        """Take a notification of the server that is not about a request of ours."""
        if method == _LOG_MESSAGE:
            caller = origin.caller if origin is not None and origin in self._running else self._reader_of_log()
            if caller is not None:
                caller.on_log(self._server, self.redaction.for_host(params))
            elif self._lines.allows(1, asyncio.get_running_loop().time()):
                log.info("%s says: %.500s", self._server, brief(params.get("data")))
        elif method == _COMPLETED:
            page = params.get("elicitationId")
            caller = self._pages.pop(page) if isinstance(page, str) else None
            if caller is not None and isinstance(page, str):
                running = any(call.caller is caller for call in self._running)
                caller.on_elicitation_complete(self._server, page, running=running)
        elif self._on_notification is not None:
            self._on_notification(method, params)

    # -- the host that a message is for

    def _addressee(self, origin: RunningCall | None) -> tuple[Caller, set[RunningCall]]:
        """Return the host that a request of the server is for, and the calls that wait for its answer.

        Raises:
            RpcError: it is for no host, or it is unclear for which.
        """
        if origin is not None and origin in self._running:
            if origin.caller is None:
                raise RpcError(METHOD_NOT_FOUND, "No host is behind the request that this question belongs to.")
            return origin.caller, {origin}
        caller, calls = self._only_host()
        if caller is not None:
            return caller, calls
        if all(call.caller is None for call in self._running):
            raise RpcError(METHOD_NOT_FOUND, "No host can be asked: no call is running that this could belong to.")
        if all(call.caller is None or call.caller.abilities == NOTHING for call in self._running):
            # Another call of them would not help: it has no host that could answer either.
            raise RpcError(METHOD_NOT_FOUND, "No host can be asked: none behind the running calls answers questions.")
        said = (
            f"No host was asked: several calls to the server {self._server!r} were under way, or one had been given up "
            "a moment ago, so it cannot be told which of them this question belongs to. "
        )
        if not self._habit.separates:
            said += "Set `isolation` of this server in the aggregator's configuration to `auto` or `per_session`."
        elif self._habit.together:
            said += f"{self._habit.together} Make the same call again once fewer calls of this server are under way."
        else:
            said += (
                "From now on, calls of this server at the same time have connections of their own, so it works if you "
                "make the same call again."
            )
        if not self._warned:
            self._warned = True
            log.warning("%s asked something that was refused: %s", self._server, said)
        raise RpcError(INVALID_REQUEST, said)

    def _only_host(self) -> tuple[Caller | None, set[RunningCall]]:
        """Return the only host that a question may be for, and its running calls; None if several are possible.

        Of several calls in one session, the messages go to the latest. Calls of 2026-07-28 count as hosts each: a
        question to their host is the result of one of them.
        """
        calls = {call: call.caller for call in self._running if call.caller is not None}
        if not calls:
            return (self.owner() if self.owner is not None else None), set()
        hosts = {caller.identity for caller in calls.values()} | self._given_up()
        if len(hosts) != 1 or (self.owner is None and len(calls) < len(self._running)):
            return None, set()
        return next(reversed(calls.values())), set(calls)

    def _reader_of_log(self) -> Caller | None:
        """Return the host that a log message is for, if that is clear; for which of its calls need not be."""
        if self.owner is None:
            return self._only_host()[0]
        callers = [call.caller for call in self._running if call.caller is not None]
        return callers[-1] if callers else self.owner()

    def _given_up(self) -> set[Hashable]:
        """Return the hosts of the abandoned calls that the server may still work on; None stands for any host."""
        if not self._abandoned and not self._any_host_until:
            return set()
        now = asyncio.get_running_loop().time()
        for call, (_, until) in list(self._abandoned.items()):
            if call.answered or until < now:
                self._abandoned.pop(call)
        if self._any_host_until < now:
            self._any_host_until = 0.0
        hosts = {host for _, (host, _) in self._abandoned.items()}
        return hosts | {None} if self._any_host_until else hosts

    def _remember_page(self, params: Mapping[str, Any], caller: Caller) -> None:
        page = params.get("elicitationId")
        if isinstance(page, str):
            self._pages.put(page, caller)


@dataclass(frozen=True, slots=True)
class ClientSide:
    """The hosts that use a connection, as its server sees them.

    declare: returns the abilities to declare over a transport.
    owner: returns the only host; None if several may use the connection.
    """

    declare: DeclareAbilities
    owner: OnlyCaller | None = None


async def _outcome(caller: Caller, server: str, method: str, params: dict[str, Any]) -> dict[str, Any] | RpcError:
    """Return the answer of the host, or its error; an exception would be logged as a fault of the task."""
    try:
        return await caller.ask(server, method, params)
    except RpcError as error:
        return error
