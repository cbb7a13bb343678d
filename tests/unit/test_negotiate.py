"""Greeting an upstream in the era it speaks: every branch, with a connection that follows a script."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import pytest

from aggregator.config.server_config import Protocol
from aggregator.domain.errors import (
    METHOD_NOT_FOUND,
    UNSUPPORTED_VERSION,
    RpcError,
    UpstreamBadAnswer,
    UpstreamHttpStatus,
    UpstreamRefused,
    UpstreamUnavailable,
)
from aggregator.domain.versions import (
    LATEST_LEGACY,
    LATEST_MODERN,
    LEGACY_VERSIONS,
    META_CLIENT_CAPABILITIES,
    META_CLIENT_INFO,
    META_SERVER_INFO,
    META_VERSION,
)
from aggregator.upstream.connection import Connection, DeferredRequest, JsonRpcRequest, SessionExpired
from aggregator.upstream.sessions import negotiate as negotiate_module
from aggregator.upstream.sessions.negotiate import CLIENT_INFO, Negotiated, negotiate
from aggregator.wire.peer import PeerGone
from aggregator.wire.pending_request import AnswerReceiver, PendingRequest

BOUND = 5
Answer = dict[str, Any] | Exception | Callable[[], Awaitable[dict[str, Any]]]


async def silence() -> dict[str, Any]:
    """Wait without an end."""
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


class Scripted(Connection):
    """A connection whose answers are written down. It cannot end, and delivers no progress."""

    def __init__(self, *script: tuple[str, Answer]) -> None:
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._script = list(script)
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.notified: list[str] = []
        self.spoken: list[str] = []

    def begin(self, request: JsonRpcRequest, receiver: AnswerReceiver | None = None) -> PendingRequest:
        """Send nothing without a task."""
        return DeferredRequest(partial(self._answer, request.method, request.params))

    async def _answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.asked.append((method, params))
        assert self._script, f"{method} was not expected"
        expected, answer = self._script.pop(0)
        assert method == expected
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, dict) else await answer()

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        self.notified.append(method)

    def use_version(self, version: str) -> None:
        self.spoken.append(version)

    def finished(self) -> bool:
        """Return whether the whole script was used."""
        return not self._script


def discovered(*versions: Any, **more: Any) -> dict[str, Any]:
    return {"supportedVersions": list(versions), "capabilities": {"tools": {}}, **more}


def initialized(version: Any = LATEST_LEGACY, **more: Any) -> dict[str, Any]:
    return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "s"}, **more}


def unsupported(*versions: str) -> RpcError:
    return RpcError(UNSUPPORTED_VERSION, "unsupported", {"supported": list(versions), "requested": LATEST_MODERN})


UNKNOWN = RpcError(METHOD_NOT_FOUND, "Method not found")


async def _greet(connection: Scripted, protocol: Protocol = "auto") -> Negotiated:
    async with asyncio.timeout(BOUND):
        negotiated = await negotiate("srv", connection, protocol)
    assert connection.finished()
    assert connection.spoken[-1] == negotiated.version
    return negotiated


@pytest.mark.parametrize("protocol", ["auto", "modern"])
async def test_a_modern_server(protocol: Protocol) -> None:
    """Proves: C1, E3"""
    answer = discovered(LATEST_MODERN, "3000-01-01", instructions="hi", _meta={META_SERVER_INFO: {"name": "s"}})
    connection = Scripted(("server/discover", answer))
    negotiated = await _greet(connection, protocol)
    assert negotiated == Negotiated(LATEST_MODERN, {"name": "s"}, {"tools": {}}, "hi")
    assert negotiated.era == "modern"
    ((_, params),) = connection.asked
    envelope = {META_VERSION: LATEST_MODERN, META_CLIENT_INFO: CLIENT_INFO, META_CLIENT_CAPABILITIES: {}}
    assert params["_meta"] == envelope == negotiated.envelope()
    assert connection.spoken[0] == LATEST_MODERN, "HTTP needs the version in the headers of the probe itself"
    assert connection.notified == []


@pytest.mark.parametrize("version", LEGACY_VERSIONS)
async def test_a_legacy_server_asked_the_legacy_way(version: str) -> None:
    """Proves: C1, E1"""
    connection = Scripted(("initialize", initialized(version)))
    negotiated = await _greet(connection, "legacy")
    assert negotiated == Negotiated(version, {"name": "s"}, {"tools": {}}, None)
    assert negotiated.era == "legacy"
    assert negotiated.envelope() == {}
    assert connection.asked == [
        ("initialize", {"protocolVersion": LATEST_LEGACY, "capabilities": {}, "clientInfo": CLIENT_INFO})
    ]
    assert connection.notified == ["notifications/initialized"]


NO_EVIDENCE: dict[str, Answer] = {
    "unknown method": UNKNOWN,
    "internal error": RpcError(-32603, "boom"),
    "before initialize": RpcError(-32600, "not initialized"),
    "legacy versions offered": discovered(*LEGACY_VERSIONS),
    "no versions at all": {},
    "versions are no list": {"supportedVersions": LATEST_MODERN},
    "names legacy versions": unsupported("2025-06-18"),
    "error without data": RpcError(UNSUPPORTED_VERSION, "no"),
    "error with odd data": RpcError(UNSUPPORTED_VERSION, "no", ["x"]),
    "error with odd versions": RpcError(UNSUPPORTED_VERSION, "no", {"supported": "x"}),
    "bad request": UpstreamHttpStatus("srv", "srv answered 400", status=400),
    "server error": UpstreamHttpStatus("srv", "srv answered 500", status=500),
    "silence": silence,
}


@pytest.mark.parametrize("case", NO_EVIDENCE)
async def test_anything_but_evidence_of_a_modern_server_leads_to_the_handshake(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proves: C1, E3"""
    monkeypatch.setattr(negotiate_module, "PROBE_TIMEOUT", 0.01 if case == "silence" else BOUND)
    connection = Scripted(("server/discover", NO_EVIDENCE[case]), ("initialize", initialized("2025-06-18")))
    assert (await _greet(connection)).version == "2025-06-18"


@pytest.mark.parametrize(
    "case", [case for case in NO_EVIDENCE if case not in ("silence", "bad request", "server error")]
)
async def test_a_config_that_says_modern_is_not_second_guessed(case: str) -> None:
    connection = Scripted(("server/discover", NO_EVIDENCE[case]))
    with pytest.raises(UpstreamRefused, match="set `protocol` to auto"):
        await _greet(connection, "modern")


async def test_a_config_that_says_modern_gets_the_transports_own_verdict() -> None:
    status = UpstreamHttpStatus("srv", "srv answered 500", status=500)
    with pytest.raises(UpstreamHttpStatus):
        await _greet(Scripted(("server/discover", status)), "modern")


@pytest.mark.parametrize("protocol", ["auto", "modern"])
async def test_a_server_that_names_our_version_is_asked_once_more_in_it(protocol: Protocol) -> None:
    connection = Scripted(
        ("server/discover", unsupported(LATEST_MODERN, "3000-01-01")), ("server/discover", discovered(LATEST_MODERN))
    )
    assert (await _greet(connection, protocol)).version == LATEST_MODERN


async def test_a_slow_modern_server_says_so_at_the_handshake() -> None:
    connection = Scripted(
        ("server/discover", UNKNOWN),
        ("initialize", unsupported(LATEST_MODERN)),
        ("server/discover", discovered(LATEST_MODERN)),
    )
    assert (await _greet(connection)).era == "modern"


async def test_a_server_with_nothing_in_common_is_refused() -> None:
    with pytest.raises(UpstreamRefused, match="speaks only protocols that the aggregator does not") as raised:
        await _greet(Scripted(("server/discover", unsupported("3000-01-01"))))
    assert raised.value.said == "supported: 3000-01-01"


async def test_a_server_that_names_our_version_and_then_refuses_it_is_told_as_that() -> None:
    connection = Scripted(
        ("server/discover", unsupported(LATEST_MODERN)), ("server/discover", unsupported(LATEST_MODERN))
    )
    with pytest.raises(UpstreamRefused, match="then refuses it"):
        await _greet(connection)


async def test_a_circle_of_refusals_ends() -> None:
    connection = Scripted(
        ("server/discover", UNKNOWN),
        ("initialize", unsupported(LATEST_MODERN)),
        ("server/discover", UNKNOWN),
        ("initialize", unsupported(LATEST_MODERN)),
    )
    with pytest.raises(RpcError):
        await _greet(connection)


async def test_an_error_at_the_handshake_is_the_servers_own() -> None:
    error = RpcError(-32000, "licence expired")
    with pytest.raises(RpcError, match="licence expired"):
        await _greet(Scripted(("server/discover", UNKNOWN), ("initialize", error)))


@pytest.mark.parametrize("version", [None, 7, ["2025-06-18"], {}])
async def test_a_handshake_without_a_version_is_no_answer(version: Any) -> None:
    with pytest.raises(UpstreamBadAnswer, match="without a protocolVersion"):
        await _greet(Scripted(("initialize", initialized(version))), "legacy")


@pytest.mark.parametrize("version", ["1999-01-01", "", LATEST_MODERN])
async def test_a_handshake_in_a_revision_we_do_not_speak_is_refused(version: str) -> None:
    with pytest.raises(UpstreamRefused, match="a protocol that the aggregator does not"):
        await _greet(Scripted(("initialize", initialized(version))), "legacy")


@pytest.mark.parametrize("gone", [PeerGone("exit code 1"), SessionExpired(), UpstreamUnavailable("srv", "away")])
async def test_a_connection_that_ends_is_told_as_it_is(gone: Exception) -> None:
    """Proves: E4"""
    with pytest.raises(type(gone)):
        await _greet(Scripted(("server/discover", gone)))


@pytest.mark.parametrize("odd", [None, [], "text", 7])
async def test_odd_details_are_left_out(odd: Any) -> None:
    legacy = initialized(serverInfo=odd, capabilities=odd, instructions={})
    assert await _greet(Scripted(("initialize", legacy)), "legacy") == Negotiated(LATEST_LEGACY)
    modern = discovered(LATEST_MODERN, _meta=odd) | {"capabilities": odd}
    assert await _greet(Scripted(("server/discover", modern))) == Negotiated(LATEST_MODERN)
    modern = discovered(LATEST_MODERN, _meta={META_SERVER_INFO: odd})
    assert (await _greet(Scripted(("server/discover", modern)))).server_info == {}
