"""One request to an upstream, from the clock that bounds it to what its end means."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aggregator.config.model import ServerConfig
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
from aggregator.upstream.sessions.session import UpstreamSession
from aggregator.wire.codec import TooDeep
from aggregator.wire.peer import OnProgress, PeerGone

log = logging.getLogger(__name__)

# A server that is told that a call is cancelled has stopped working on it after so long. One that did not answer a
# call in time may be at work on it for as long again.
HEEDED_WITHIN: Final = 5.0

_DEFAULT_RANK: Final = LEVELS.index(DEFAULT)


@dataclass(slots=True)
class OutgoingRequest:
    """What is to be sent; `params` carries no hop-local `_meta`. `headers` are for HTTP, `caller` is for whom it is."""

    method: str
    params: dict[str, Any]
    limit: float
    on_progress: OnProgress | None = None
    headers: Mapping[str, str] | None = None
    caller: Caller | None = None


async def run(
    errand: OutgoingRequest,
    server: ServerConfig,
    session: UpstreamSession,
    renew: Callable[[UpstreamSession, float], Awaitable[UpstreamSession]],
    discreet: ServerRedaction,
) -> dict[str, Any]:
    """The result. A session that is unknown to the upstream is renewed once: nothing was run in it.

    A failure, and what is said on the way, is relayed whole but for the secrets that are known here. What asks a
    person for something stays as it is: the page to visit may be told by what was configured.

    Raises:
        UpstreamRpcError: the upstream's own error.
        UpstreamError: it is too slow, gone in the middle, or answered nonsense.
    """
    began, limit, caller = time.monotonic(), errand.limit, errand.caller
    running: RunningCall | None = None
    try:
        async with asyncio.timeout(limit) as clock:
            running, on_progress = RunningCall(caller, clock), errand.on_progress
            session.callers.enter(running)
            if on_progress is not None:
                on_progress = _discreetly(on_progress, discreet)
            if on_progress is not None and server.timeout_resets_on_progress:
                running.latest = asyncio.get_running_loop().time() + server.max_timeout
                on_progress = _extending(running, limit, on_progress)
            try:
                result = await _sent(errand, session, on_progress, running)
            except SessionExpired:
                renewed = await renew(session, limit)
                if renewed.callers is not session.callers:
                    await session.callers.leave(running)
                    renewed.callers.enter(running)
                session = renewed
                result = await _sent(errand, session, on_progress, running)
            return await discreet.relayed_whole(result) if result.get("isError") is True else result
    except asyncio.CancelledError:
        if running is not None:
            session.callers.gave_up(running, min(limit, HEEDED_WITHIN))
        raise
    except TimeoutError:
        if running is not None:
            session.callers.gave_up(running, limit)
        raise UpstreamTimeout(
            server.id,
            f"{server.id} did not answer within its limit of {limit:g} s; the call was cancelled.",
            limit=f"{limit:g} s",
            waited=f"{time.monotonic() - began:.3g} s",
        ) from None
    except RpcError as error:
        if error.code == URL_REQUIRED and caller is not None:
            session.callers.note_pages(error.data, caller)
        refused = UpstreamRpcError(server.id, error.code, error.message, error.data, error.more)
        discreet.hush(refused)
        raise refused from error
    except UpstreamError as error:
        discreet.hush(error)
        raise
    except PeerGone as error:
        raise UpstreamLost(
            server.id,
            f"The connection to {server.id} ended during the call ({discreet(str(error))}); "
            "whether it took effect is unknown.",
        ) from error
    except SessionExpired:
        raise UpstreamUnavailable(server.id, f"{server.id} keeps forgetting its session.") from None
    except TooDeep:
        raise HostError(INVALID_PARAMS, "The arguments are nested too deeply to be passed on.") from None
    finally:
        if running is not None:
            await session.callers.leave(running)


async def _sent(
    errand: OutgoingRequest, session: UpstreamSession, on_progress: OnProgress | None, running: RunningCall
) -> dict[str, Any]:
    caller = errand.caller
    if caller is not None and caller.level is not None:
        await _loud_enough(session, caller.level)
    params = session.addressed(errand.params, caller)
    return await session.connection.request(errand.method, params, on_progress, errand.headers, running)


async def _loud_enough(session: UpstreamSession, level: str) -> None:
    """Have a server of the handshake eras log at least what this caller wants: it knows one level for all of them.

    It is never told to be quieter again than it is by default, nor than anybody wanted: hosts get what they want.
    """
    wanted = min(rank(level) or 0, _DEFAULT_RANK)
    callers = session.callers
    if session.greeting.era == "modern" or "logging" not in session.greeting.capabilities:
        return
    if callers.level is None or wanted < callers.level:
        callers.level = wanted
        try:
            await session.connection.request("logging/setLevel", {"level": LEVELS[wanted]})
        except RpcError as error:
            log.debug("a log level was refused: %s", error)


def _discreetly(on_progress: OnProgress, discreet: ServerRedaction) -> OnProgress:
    return lambda params: on_progress(discreet.relayed(params))


def _extending(running: RunningCall, limit: float, on_progress: OnProgress) -> OnProgress:
    def heard(params: dict[str, Any]) -> None:
        running.extend(limit)
        on_progress(params)

    return heard
