"""One request to an upstream: its time limit, the session it goes in, and the meaning of every way it can end."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, Final

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
from aggregator.upstream.caller import Caller, RunningCall
from aggregator.upstream.connection import SessionExpired
from aggregator.upstream.redaction import ServerRedaction
from aggregator.upstream.sessions.direct_request import DirectRequest
from aggregator.upstream.sessions.session import UpstreamSession
from aggregator.wire.codec import TooDeep
from aggregator.wire.peer import PeerGone
from aggregator.wire.sent_request import OnProgress

log = logging.getLogger(__name__)

# Seconds after which a server that was sent a cancellation has stopped its work on the call. One that did not answer
# a call in time may work on it for as long as its limit again.
HEEDED_WITHIN: Final = 5.0

_DEFAULT_RANK: Final = LEVELS.index(DEFAULT)


@dataclass(slots=True)
class OutgoingRequest:
    """One request to an upstream.

    `params` carries no hop-local `_meta`; `limit` is in seconds; `headers` are for HTTP. `caller` is the host behind a
    request, None where there is none. `begun` is the request if it was sent already, without a task.
    """

    method: str
    params: dict[str, Any]
    limit: float
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
            on_progress = request.on_progress
            if begun is None:
                running = RunningCall(caller, clock)
                session.back_channel.enter(running)
                if on_progress is not None:
                    on_progress = progress_handler(on_progress, server, running, limit, redaction)
            else:
                running, began = begun, begun.began
                begun.timed_by(clock)
            while True:
                if begun is None and caller is not None and caller.level is not None:
                    await _raise_log_level(session, caller.level)
                params = session.addressed(request.params, caller)
                try:
                    if begun is not None:
                        sent, begun = begun, None
                        result = await sent.wait()
                    else:
                        result = await session.connection.request(
                            request.method, params, on_progress, request.headers, running
                        )
                    break
                except SessionExpired:
                    if renewed:
                        raise
                    # Nothing was run in a session that the upstream does not know.
                    renewed, before = True, session
                    if request.begun is not None and on_progress is not None:
                        # The handler that it was sent with belongs to the request that is given up here.
                        on_progress = progress_handler(on_progress, server, running, limit, redaction)
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
            f"{server.id} did not answer within its limit of {limit:g} s; the call was cancelled.",
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


def progress_handler(
    on_progress: OnProgress, server: ServerConfig, running: RunningCall, limit: float, redaction: ServerRedaction
) -> OnProgress:
    """Return the handler of the progress of a call that begins; `limit` is its time limit in seconds."""
    on_progress = _redacted(on_progress, redaction)
    if not server.timeout_resets_on_progress:
        return on_progress
    running.latest = asyncio.get_running_loop().time() + server.max_timeout
    return _extending(running, limit, on_progress)


def _redacted(on_progress: OnProgress, redaction: ServerRedaction) -> OnProgress:
    """Return a handler that takes known secrets out of progress."""
    return lambda params: on_progress(redaction.for_host(params))


def _extending(running: RunningCall, limit: float, on_progress: OnProgress) -> OnProgress:
    """Return a handler by which progress starts the time limit anew."""

    def extend(params: dict[str, Any]) -> None:
        running.extend(limit)
        on_progress(params)

    return extend
