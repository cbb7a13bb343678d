"""One request to an upstream: its time limit, the session it goes in, and the meaning of every way it can end."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, Final, Protocol

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
from aggregator.domain.reasons import said_in
from aggregator.upstream.caller import Caller, RunningCall
from aggregator.upstream.connection import JsonRpcRequest, SessionExpired
from aggregator.upstream.redaction import ServerRedaction
from aggregator.upstream.sessions.direct_request import DirectRequest
from aggregator.upstream.sessions.session import UpstreamSession
from aggregator.wire.codec import TooDeep
from aggregator.wire.peer import PeerGone
from aggregator.wire.pending_request import OnProgress

log = logging.getLogger(__name__)

# Seconds after which a server that was sent a cancellation has stopped its work on the call. One that did not answer
# a call in time may work on it for as long as its limit again.
HEEDED_WITHIN: Final = 5.0

# Seconds by which a timer may be early.
_TICK: Final = 0.05

_DEFAULT_RANK: Final = LEVELS.index(DEFAULT)


class OnMessage(Protocol):
    """Called when a message of a server has come, which shows that it is alive."""

    def __call__(self) -> None: ...


@dataclass(slots=True)
class OutgoingRequest:
    """One request to an upstream.

    `params` carries no hop-local `_meta`; `limit` is in seconds; `headers` are for HTTP. `caller` is the host behind a
    request, or None. `begun` is the request if it was sent already, without a task. The server is
    always asked for progress: `alive` is called with each report, `on_progress` too if a host wants it.
    """

    method: str
    params: dict[str, Any]
    limit: float
    alive: OnMessage
    on_progress: OnProgress | None = None
    headers: Mapping[str, str] | None = None
    caller: Caller | None = None
    begun: DirectRequest | None = None


async def send(
    request: OutgoingRequest,
    server: ServerConfig,
    session: UpstreamSession,
    renew: Callable[[UpstreamSession, float], Awaitable[UpstreamSession]],
    redaction: ServerRedaction,
) -> dict[str, Any]:
    """Send the request and return its result. A session that the upstream no longer knows is renewed once.

    Failures, and progress on the way, are relayed whole but for the secrets that are known here. What asks a person for
    something stays as it is: the page to visit may be configured with a secret in it.

    Raises:
        UpstreamRpcError: the upstream's own error.
        UpstreamError: it is too slow, gone in the middle, or answered nonsense.
    """
    began, limit, caller, begun = time.monotonic(), request.limit, request.caller, request.begun
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
            # A request that was sent already has a handler, which is given up with it if its session has expired.
            on_progress = call_progress(running, server, limit, request.on_progress, redaction, request.alive, now)
            while True:
                if begun is None and caller is not None and caller.level is not None:
                    await _raise_log_level(session, caller.level)
                params = session.addressed(request.params, caller)
                try:
                    if begun is not None:
                        answer, begun = begun.wait(), None
                    else:
                        message = JsonRpcRequest(request.method, params, on_progress, request.headers, running)
                        answer = session.connection.begin(message).wait()
                    result = await answer
                    break
                except SessionExpired:
                    if renewed:
                        raise
                    # Nothing was run in a session that the upstream does not know.
                    renewed, before = True, session
                    session = await renew(session, limit)
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
            said=redaction(said_in(error.reason)),
        ) from error
    except SessionExpired:
        raise UpstreamUnavailable(server.id, f"{server.id} keeps forgetting its session.") from None
    except TooDeep:
        raise HostError(INVALID_PARAMS, "The arguments are nested too deeply to be passed on.") from None
    finally:
        if running is not None:
            if not session.back_channel.leave_at_once(running):
                await session.back_channel.leave(running)
            running.forget_host()


def _too_slow(server: ServerConfig, running: RunningCall | None, limit: float) -> str:
    """Return the sentence about a server that has used up its time: what it may have done."""
    if running is None or not running.extended:
        return f"{server.id} did not answer within its limit of {limit:g} s; the call was cancelled."
    if asyncio.get_running_loop().time() >= running.latest - _TICK:
        longest = f"`max_timeout` of {server.max_timeout:g} s"
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


def call_progress(
    running: RunningCall,
    server: ServerConfig,
    limit: float,
    on_progress: OnProgress | None,
    redaction: ServerRedaction,
    alive: OnMessage,
    began: float | None = None,
) -> CallProgress:
    """Return the handler of the progress of a call with this time limit.

    began: the time of the event loop at which the call begins; None if it has a handler already.
    """
    extends = server.progress_extends(limit)
    if extends and began is not None:
        running.latest = began + server.max_timeout
    return CallProgress(running, limit if extends else None, on_progress, redaction, alive)
