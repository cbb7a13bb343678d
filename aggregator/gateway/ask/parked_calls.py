"""Calls that continue while their host of 2026-07-28 answers a question of a server of the handshake eras.

Law: a call runs once. A host that comes back finds it, or learns that it is gone.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.errors import INVALID_REQUEST, RpcError
from aggregator.gateway.ask.questions import answered
from aggregator.gateway.ask.upstream_caller import RequestCaller
from aggregator.gateway.host import Host
from aggregator.gateway.revocation import RevocableTask, RevocableTasks

log = logging.getLogger(__name__)

# Calls that wait for their host to come back, all together and of one agent.
AT_MOST: Final = 512
OF_ONE_AGENT: Final = 32
# Seconds to wait for more questions after the first: those that a server asks at once reach the host at once.
TOGETHER: Final = 0.02
# Frontends that authenticate by key, by token or by source address. On stdio, starting the process is the permission;
# over /v1 no server can ask.
_REVIEWED: Final = frozenset({"http", "sse"})
# The rest of a call: all remaining work until its result.
ParkableWork = Callable[[], Awaitable[dict[str, Any]]]
# A function that records a call for which no host came back; `outcome` is None if it was still running.
RecordUnclaimed = Callable[[dict[str, Any] | Exception | None], None]


class ParkedCall:
    """One call, from its first request to its result. Only one request at a time attends it."""

    def __init__(
        self, home: "ParkedCalls", caller: RequestCaller, work: ParkableWork, unclaimed: RecordUnclaimed
    ) -> None:
        self.id = ""
        self.caller = caller
        self._home = home
        self._unclaimed = unclaimed
        self._open: dict[str, tuple[dict[str, Any], asyncio.Future[dict[str, Any]]]] = {}
        self._question_count = 0
        self._outcome: dict[str, Any] | Exception | None = None
        self._changed = asyncio.Event()
        # While no request of the host attends it.
        self._expiry: asyncio.TimerHandle | None = None
        caller.parked = self.ask
        self._task = home.tasks.start(self._run(work))

    def __repr__(self) -> str:
        state = "running" if self._outcome is None else "done"
        return f"<Parked {self.caller.host.principal.agent_id} {state}, {len(self._open)} questions>"

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the host's answer, once it comes back with it.

        Raises:
            RpcError: too many calls wait already.
        """
        if not self._home.has_space(self):
            raise RpcError(INVALID_REQUEST, "Too many calls wait for an answer of their host.")
        self._question_count += 1
        key = f"question-{self._question_count}"
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._open[key] = {"method": method, "params": params}, answer
        self._changed.set()
        try:
            return await answer
        finally:
            self._open.pop(key, None)

    async def wait(self) -> dict[str, Any] | None:
        """Return the result, or None at a question for the host. Cancelling the wait ends the call.

        Raises:
            Exception: the error of the call.
        """
        try:
            while self._outcome is None and not self._open:
                self._changed.clear()
                await self._changed.wait()
                if self._outcome is None:
                    await asyncio.sleep(TOGETHER)
        except asyncio.CancelledError:
            self.end()
            raise
        if self._outcome is None:
            return None
        self._home.forget(self)
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome

    def leave(self, patience: float) -> dict[str, Any]:
        """Return the questions for the host; it is expected back within `patience` seconds."""
        self.id = self.id or secrets.token_urlsafe(16)
        self.caller.channel = self.caller.token = None
        self._home.keep(self)
        self._expiry = asyncio.get_running_loop().call_later(patience, self._expire)
        return {key: request for key, (request, _) in self._open.items()}

    def come_back(self, caller: RequestCaller, answers: Mapping[str, Any]) -> None:
        """Deliver the answers of a host that is back with another request; unanswered questions stay open."""
        self._stop_expiry()
        self.caller.channel, self.caller.token = caller.channel, caller.token
        for key, answer in answers.items():
            if isinstance(answer, Mapping) and key in self._open:
                _, waiting = self._open.pop(key)
                if not waiting.done():
                    waiting.set_result(answered(answer))

    def end(self) -> None:
        """End the call: its result is not wanted any more."""
        self._stop_expiry()
        self._home.forget(self)
        self._task.cancel()

    def shut_out(self) -> None:
        """End the call of a host that has lost its access."""
        away = self._expiry is not None
        self.end()
        if away:
            self._unclaimed(self._outcome)

    def _stop_expiry(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    def _expire(self) -> None:
        log.info("%s did not come back with an answer", self.caller.host.principal.agent_id)
        self.end()
        self._unclaimed(self._outcome)

    async def _run(self, work: ParkableWork) -> None:
        try:
            self._outcome = await work()
        except Exception as error:
            self._outcome = error
        finally:
            self._changed.set()


class ParkedCalls:
    """All parked calls. They run in `tasks`."""

    def __init__(self, revocable: RevocableTasks) -> None:
        self.tasks = Tasks("calls that ask their host")
        self._revocable = revocable
        self._kept: dict[str, tuple[ParkedCall, RevocableTask | None]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, parked: str) -> ParkedCall | None:
        """Return a call that waits for its host; None if it is gone."""
        kept = self._kept.get(parked)
        return kept[0] if kept is not None else None

    def has_space(self, parked: ParkedCall) -> bool:
        """Return whether one more call may wait; one that has waited already may go on."""
        if parked.id:
            return True
        agent = parked.caller.agent
        same = sum(kept.caller.agent == agent for kept, _ in self._kept.values())
        return len(self._kept) < AT_MOST and same < OF_ONE_AGENT

    def keep(self, parked: ParkedCall) -> None:
        if parked.id not in self._kept:
            host = parked.caller.host
            reviewed = host.frontend in _REVIEWED
            going = self._revocable.add(host.principal, parked.shut_out) if reviewed else None
            self._kept[parked.id] = parked, going

    def forget(self, parked: ParkedCall) -> None:
        kept = self._kept.pop(parked.id, None)
        if kept is not None and kept[1] is not None:
            self._revocable.remove(kept[1])

    def left(self, host: Host) -> None:
        """End the calls that wait for a host whose session is over."""
        for parked in [kept for kept, _ in self._kept.values() if kept.caller.host.original is host]:
            parked.end()

    async def close(self) -> None:
        """End all parked calls; those whose host is away are put on record."""
        for parked, _ in list(self._kept.values()):
            parked.shut_out()
        await self.tasks.cancel()
