"""One request to an upstream: its time limit, the session it goes in, and the meaning of every way it can end."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from math import inf
from typing import Any, Final, NamedTuple

from aggregator.config.server_config import ServerConfig
from aggregator.domain.errors import (
    INVALID_PARAMS,
    URL_REQUIRED,
    HostError,
    RpcError,
    UpstreamError,
    UpstreamLost,
    UpstreamRpcError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from aggregator.domain.log_levels import DEFAULT, LEVELS, rank
from aggregator.domain.reasons import SAID_AT_MOST, said_in
from aggregator.redaction.beginning import beginning
from aggregator.upstream.caller import Caller, RunningCall
from aggregator.upstream.connection import JsonRpcRequest, SessionExpired
from aggregator.upstream.current_config import CurrentConfig
from aggregator.upstream.redaction import ServerRedaction
from aggregator.upstream.sessions.direct_request import DirectRequest
from aggregator.upstream.sessions.session import UpstreamSession
from aggregator.wire.codec import TooDeep
from aggregator.wire.peer import PeerGone
from aggregator.wire.pending_request import AnswerReceiver, OnProgress, PendingRequest

log = logging.getLogger(__name__)

# Seconds after which a server that was sent a cancellation has stopped its work on the call. One that did not answer
# a call in time may work on it for as long as its limit again.
HEEDED_WITHIN: Final = 5.0

# Seconds by which a timer may be early.
_TICK: Final = 0.05

_DEFAULT_RANK: Final = LEVELS.index(DEFAULT)


# Called when a message of a server has come, which shows that it is alive.
OnMessage = Callable[[], None]


class UpstreamRequest(NamedTuple):
    """One request to an upstream. The server is always asked for progress.

    params: without the `_meta` of a hop.
    limit: seconds for all of it.
    on_progress: takes the progress that a host wants.
    headers: for HTTP.
    caller: the host that the request is for; without one, the server can ask no host.
    name_now: returns the name of the called tool by the server's latest list, or raises why it may not be called now.
    """

    method: str
    params: dict[str, Any]
    limit: float
    on_progress: OnProgress | None = None
    headers: Mapping[str, str] | None = None
    caller: Caller | None = None
    name_now: Callable[[], str] | None = None

    def named_now(self) -> "UpstreamRequest":
        """Return the request with the name that its tool has after a wait for another connection."""
        if self.name_now is None:
            return self
        return self._replace(params={**self.params, "name": self.name_now()})


class RequestSender:
    """The sender of the requests to one upstream. `alive` is called with each report of progress."""

    def __init__(
        self,
        config: CurrentConfig,
        renew: Callable[[UpstreamSession, Caller | None, float], Awaitable[UpstreamSession]],
        redaction: ServerRedaction,
        alive: OnMessage,
    ) -> None:
        self._config = config
        self._renew = renew
        self._redaction = redaction
        self._alive = alive

    def begin(
        self,
        request: UpstreamRequest,
        session: UpstreamSession,
        running: RunningCall,
        extends: float | None,
        receiver: AnswerReceiver | None = None,
    ) -> PendingRequest:
        """Send a request in a session. See `Connection.begin`.

        extends: the seconds of the time limit that progress starts anew; None if it does not.
        """
        method, params, _, on_progress, headers, caller, _ = request
        progress = CallProgress(running, extends, on_progress, self._redaction, self._alive)
        message = JsonRpcRequest(method, session.addressed(params, caller), progress, headers, running)
        return session.connection.begin(message, receiver)

    async def send(
        self, request: UpstreamRequest, session: UpstreamSession, begun: DirectRequest | None
    ) -> dict[str, Any]:
        """Send a request and return its result. A session that the upstream no longer knows is renewed once.

        begun: the request if it was sent already, without a task.

        Failures, and progress on the way, are relayed whole but for the secrets that are known here. What asks a person
        for something stays as it is: the page to visit may be configured with a secret in it.

        Raises:
            UpstreamRpcError: the upstream's own error.
            UpstreamError: it is too slow, gone in the middle, or answered nonsense.
        """
        server, redaction, limit, caller = self._config.value, self._redaction, request.limit, request.caller
        began = time.monotonic()
        running: RunningCall | None = None
        renewed = False
        try:
            with session.back_channel.limits.limit(limit if begun is None else _left(begun)) as clock:
                now: float | None = None
                if begun is None:
                    now = asyncio.get_running_loop().time()
                    running = RunningCall(caller, clock)
                    session.back_channel.enter(running)
                else:
                    running, began = begun, begun.began
                    begun.timed_by(clock)
                extends = extended_limit(running, server, limit, now)
                while True:
                    if begun is None and caller is not None and caller.level is not None:
                        await _raise_log_level(session, caller.level)
                    try:
                        if begun is not None:
                            answer, begun = begun.wait(), None
                        else:
                            answer = self.begin(request, session, running, extends).wait()
                        result = await answer
                        break
                    except SessionExpired:
                        if renewed:
                            raise
                        # Nothing was run in a session that the upstream does not know.
                        renewed, before = True, session
                        session = await self._renew(session, caller, limit)
                        request = request.named_now()
                        if session.back_channel is not before.back_channel:
                            await before.back_channel.leave(running)
                            session.back_channel.enter(running)
                return await redaction.whole_for_host(result) if result.get("isError") is True else result
        except asyncio.CancelledError:
            if running is not None:
                session.back_channel.gave_up(running, min(limit, HEEDED_WITHIN))
            raise
        except TimeoutError:
            if running is not None:
                session.back_channel.gave_up(running, limit)
            raise UpstreamTimeout(
                server.id,
                _too_slow(server, running, limit),
                limit=f"{limit:g} s",
                waited=f"{time.monotonic() - began:.3g} s",
            ) from None
        except RpcError as error:
            if error.code == URL_REQUIRED and caller is not None:
                session.back_channel.note_pages(error.data, caller)
            refused = UpstreamRpcError(server.id, error.code, error.message, error.data, error.more)
            redaction.redact_error(refused)
            raise refused from error
        except UpstreamError as error:
            redaction.redact_error(error)
            raise
        except PeerGone as error:
            raise UpstreamLost(
                server.id,
                f"The connection to {server.id} ended during the call ({redaction(str(error))}); "
                "whether it took effect is unknown.",
                said=beginning(said_in(error.reason), redaction, SAID_AT_MOST),
            ) from error
        except SessionExpired:
            raise UpstreamUnavailable(server.id, f"{server.id} keeps forgetting its session.") from None
        except TooDeep:
            raise HostError(INVALID_PARAMS, "The arguments are nested too deeply to be passed on.") from None
        finally:
            if running is not None:
                if caller is not None:
                    caller.sent_as = running.sent_as
                if not session.back_channel.leave_at_once(running):
                    await session.back_channel.leave(running)
                running.forget_host()


def _too_slow(server: ServerConfig, running: RunningCall | None, limit: float) -> str:
    """Return the sentence about a server that ran out of time, with the limit that it reached."""
    if running is None or not running.extended:
        return f"{server.id} did not answer within its limit of {limit:g} s; the call was cancelled."
    if asyncio.get_running_loop().time() >= running.latest - _TICK:
        longest = f"`limits.max_timeout` of {server.limits.max_timeout:g} s"
        return f"{server.id} reported progress, and did not answer within its {longest}; the call was cancelled."
    return f"{server.id} reported progress, and then nothing for {limit:g} s; the call was cancelled."


def _left(begun: DirectRequest) -> float:
    """Return the seconds that are left of the time limit of a request that was sent already."""
    return inf if begun.deadline is None else begun.deadline - asyncio.get_running_loop().time()


async def _raise_log_level(session: UpstreamSession, level: str) -> None:
    """Have a server of the handshake eras log at least what this caller wants: it knows one level for all hosts.

    Its level is never made less than its default, nor than what another host wanted.
    """
    wanted = min(rank(level) or 0, _DEFAULT_RANK)
    back_channel = session.back_channel
    if session.negotiated.era == "modern" or "logging" not in session.negotiated.capabilities:
        return
    if back_channel.level is None or wanted < back_channel.level:
        back_channel.level = wanted
        try:
            await session.connection.request("logging/setLevel", {"level": LEVELS[wanted]})
        except RpcError as error:
            log.debug("a log level was refused: %s", error)


class CallProgress:
    """The handler of the progress of one call: the server is alive, the time limit may start anew, a host may want it.

    extends: the seconds of the time limit that progress starts anew; None if it does not.
    on_progress: takes what a host asked for, without the secrets that are known here; None if none did.
    """

    __slots__ = ("_alive", "_extends", "_on_progress", "_redaction", "_running")

    def __init__(
        self,
        running: RunningCall,
        extends: float | None,
        on_progress: OnProgress | None,
        redaction: ServerRedaction,
        alive: OnMessage,
    ) -> None:
        self._running = running
        self._extends = extends
        self._on_progress = on_progress
        self._redaction = redaction
        self._alive = alive

    def __call__(self, params: dict[str, Any], /) -> None:
        self._alive()
        if self._extends is not None:
            self._running.extend(self._extends)
        if self._on_progress is not None:
            self._on_progress(self._redaction.for_host(params))


def extended_limit(
    running: RunningCall, server: ServerConfig, limit: float, began: float | None = None
) -> float | None:
    """Return the seconds of the time limit of a call that progress starts anew; None if it does not.

    began: the time of the event loop at which the call begins, which bounds it from now on; None if it is bounded.
    """
    if not server.progress_extends(limit):
        return None
    if began is not None:
        running.latest = began + server.limits.max_timeout
    return limit
