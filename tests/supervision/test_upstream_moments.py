"""Moments of upstreams, one condition at a time: a second try, a second retirement, a look at the memory, a refusal."""

import asyncio
from types import SimpleNamespace
from typing import Any, Final

import pytest

from aggregator.config.server_config import ServerConfig
from aggregator.domain.bounds.slices import Slices
from aggregator.domain.errors import INTERNAL_ERROR, INVALID_PARAMS, RpcError, UpstreamUnavailable
from aggregator.upstream import upstream as upstreams_module
from aggregator.upstream.process import memory
from aggregator.upstream.process.reaper_pipe import Reaper
from aggregator.upstream.sessions.request import UpstreamRequest
from aggregator.upstream.supervisor import Supervisor
from aggregator.upstream.transports.http_body import session_unknown
from aggregator.upstream.upstream import Upstream
from aggregator.upstream.upstreams import Upstreams
from tests.faults.app_harness import code_of, running_app, server_config
from tests.faults.raw_http import ReceivedRequest, ReplyWriter, raw_http

BOX: Final = server_config("box", type="local", target="a:b")


class Unobserved:
    """An observer of upstreams that does nothing."""

    def changed(self) -> None: ...

    async def examine(self, *_: Any) -> None: ...

    def resource_updated(self, *_: Any) -> None: ...

    def session_over(self, *_: Any) -> None: ...


@pytest.mark.parametrize(
    ("took", "over", "limits"),
    [
        ([2.0, 0.0], [True, True], [10.0, 8.0]),
        # Twice, and no more often.
        ([2.0, 2.0], [True, True], [10.0, 8.0]),
        ([10.0], [True], [10.0]),
        ([11.0], [True], [10.0]),
        # The connection is there: it was something else.
        ([2.0], [False], [10.0]),
    ],
)
async def test_a_request_that_was_not_sent_is_sent_once_more_in_the_time_that_is_left(
    took: list[float], over: list[bool], limits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream = Upstream(BOX, Reaper(), Unobserved(), Slices())
    now: list[float] = [1_000.0]
    given: list[float] = []
    monkeypatch.setattr(upstreams_module, "time", SimpleNamespace(monotonic=lambda: now[0], time=lambda: now[0]))

    async def of(caller: object, limit: float) -> Any:
        return SimpleNamespace(over=over[len(given)], cheap=True, negotiated=SimpleNamespace(version="2025-11-25"))

    async def send(request: UpstreamRequest, session: object, begun: object) -> Any:
        given.append(request.limit)
        now[0] += took[len(given) - 1]
        raise UpstreamUnavailable("box", "It is gone.")

    monkeypatch.setattr(upstream._sessions, "of", of)
    monkeypatch.setattr(upstream, "_sender", SimpleNamespace(send=send))
    with pytest.raises(UpstreamUnavailable):
        await upstream.call(UpstreamRequest("tools/call", {}, 10.0))
    assert given == limits


async def test_of_two_that_are_leaving_the_last_is_known_until_it_has_gone() -> None:
    """An operator who starts a server anew again and again is told of the newest connection that has not ended."""
    supervisor = Supervisor([BOX], Upstreams(), Unobserved(), Slices())
    first, second = supervisor._build(BOX), supervisor._build(BOX)
    for upstream in (first, second):
        supervisor._running[upstream] = asyncio.create_task(asyncio.sleep(3600.0))
    supervisor._upstreams.leaving["box"] = second
    await supervisor._retire(first, 0.0)
    assert supervisor._upstreams.leaving == {"box": second}
    await supervisor._retire(second, 0.0)
    assert supervisor._upstreams.leaving == {}


@pytest.mark.parametrize("changed", [False, True])
async def test_a_server_that_was_switched_off_starts_with_another_entry(changed: bool) -> None:
    """Also if the change is one that needs no new connection."""
    supervisor = Supervisor([BOX], Upstreams(), Unobserved(), Slices())
    assert supervisor.switch_off("box", "ada", 0.0)
    entry: ServerConfig = BOX.model_copy(update={"timeout": 77.0} if changed else {})
    supervisor.reconfigure([entry], (), 0.0)
    assert supervisor.upstreams["box"].runs is changed
    assert (supervisor.upstreams["box"].switched_off is None) is changed
    await supervisor.stop()


async def test_one_look_at_the_memory_serves_all_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([{1: 100, 2: 5}, {1: 101}, {1: 102}])
    monkeypatch.setattr(memory, "_by_group", lambda: next(looks))
    monkeypatch.setattr(memory, "_GOOD_FOR", 1e9)
    meter = memory.MemoryReader()
    assert [await meter.measure(group) for group in (1, 2, 3)] == [100, 5, 0]
    monkeypatch.setattr(memory, "_GOOD_FOR", -1.0)
    monkeypatch.setattr(memory, "INTERVAL", 0.0)
    meter._at = float("-inf")
    looks = iter([{1: 99}, {1: 100}, {1: 101}])
    assert await meter.wait_exceeded(1, 100) == 101


@pytest.mark.parametrize("session", [None, "s1"])
@pytest.mark.parametrize(
    ("status", "body", "error", "without", "within"),
    [
        # A status by which nothing is there, with a session and without.
        (404, b"", None, False, True),
        (410, b"", None, False, True),
        (400, b"", None, False, False),
        (500, b"", None, False, False),
        # An error about the request shows that the session is known.
        (404, b"", {"code": INVALID_PARAMS, "message": "no"}, False, False),
        (410, b"", {"code": INTERNAL_ERROR, "message": "no"}, False, False),
        # In plain words.
        (404, b"", {"code": -32000, "message": "Session not found"}, True, True),
        (400, b"", {"code": -32000, "message": "Session not found"}, True, True),
        (500, b"", {"code": -32000, "message": "Session not found"}, False, True),
        (401, b"", {"code": -32000, "message": "Session not found"}, False, False),
        (403, b"", {"code": -32000, "message": "Session not found"}, False, False),
    ],
)
def test_which_refusals_say_that_a_session_is_unknown(
    session: str | None, status: int, body: bytes, error: object, without: bool, within: bool
) -> None:
    assert session_unknown(status, session, body, error) is (within if session is not None else without)


@pytest.mark.parametrize(
    ("status", "later", "relayed"),
    [(400, "7", True), (401, "", False), (403, "", False), (429, "7", False), (429, "", True), (503, "7", False)],
)
async def test_the_error_in_a_refusal_is_relayed_unless_the_status_says_more(
    status: int, later: str, relayed: bool
) -> None:
    """Credentials are for the operator, and a time to wait is for the model, whatever stands in the body."""

    async def refuse(seen: ReceivedRequest, reply: ReplyWriter) -> None:
        error = {"jsonrpc": "2.0", "id": seen.message["id"], "error": {"code": -32050, "message": "busy"}}
        await reply.send(status, error, **({"retry_after": later} if later else {}))

    async with raw_http() as raw, running_app(server_config("web", type="http", url=raw.url)) as harness:
        raw.on["tools/call"] = refuse
        if relayed:
            with pytest.raises(RpcError) as refused:
                await harness.call("web.echo")
            assert refused.value.code == -32050
            return
        result = await harness.call("web.echo")
        assert code_of(result).startswith("upstream_")
        assert result["_meta"]["aggregator/error"].get("retry_after") == (int(later) if later else None)
