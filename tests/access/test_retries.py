"""Calls that are sent again: only where somebody said that it does no harm, and only in the time of one call."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import pytest

from aggregator.domain.errors import RpcError, UpstreamHttpStatus
from aggregator.gateway.calls import relay
from aggregator.wire.peer import PeerGone
from tests.access.conftest import MakeConfig
from tests.access.gateway_harness import GatewayHarness, error_data, tool
from tests.peers.toolbox import Json, text_result

HINT: Final = {"idempotentHint": True, "readOnlyHint": True}
PASSING: Final[dict[str, Callable[[], Exception]]] = {
    "lost": lambda: PeerGone("the connection broke"),
    "502": lambda: UpstreamHttpStatus("crm", "bad gateway", status=502),
    "503": lambda: UpstreamHttpStatus("crm", "unavailable", status=503),
    "504": lambda: UpstreamHttpStatus("crm", "gateway time-out", status=504),
}
LASTING: Final[dict[str, Callable[[], Exception]]] = {
    "500": lambda: UpstreamHttpStatus("crm", "server error", status=500),
    "400": lambda: UpstreamHttpStatus("crm", "bad request", status=400),
    "rpc": lambda: RpcError(-32000, "no"),
}
DECLARED: Final[dict[str, Json]] = {
    "retry": {"retry": ["crm.get"]},
    "idempotent": {"idempotent": ["crm.*"]},
    "read_only": {"read_only": ["*.get"]},
}


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "_RETRY_PAUSES", (0.0, 0.0))


def failing(harness: GatewayHarness, times: int, fault: Callable[[], Exception]) -> None:
    """The first calls take effect, and fail."""

    async def answer(params: Json) -> Json:
        if len(harness.sent) <= times:
            raise fault()
        return text_result("done")

    harness.fake_upstreams["crm"].answer = answer


def ruled(**body: Any) -> Json:
    return {"agents": {"one": {"allow": ["crm.*"], **body}}}


@pytest.mark.parametrize("fault", PASSING)
@pytest.mark.parametrize("declared", DECLARED)
async def test_what_is_declared_is_sent_again(config: MakeConfig, declared: str, fault: str) -> None:
    """D8: up to three times, for what may pass."""
    harness = GatewayHarness(config("crm"), {"crm": [tool("get")]}, ruled(**DECLARED[declared]))
    failing(harness, 2, PASSING[fault])
    assert "isError" not in (await harness.call(harness.host("one"), "crm.get"))["result"]
    assert len(harness.sent) == 3
    harness.sent.clear()
    failing(harness, 9, PASSING[fault])
    assert (await harness.call(harness.host("one"), "crm.get"))["result"]["isError"] is True
    assert len(harness.sent) == 3


@pytest.mark.parametrize("fault", PASSING)
@pytest.mark.parametrize(
    "body", [{}, {"retry": ["crm.put"]}, {"idempotent": ["other.*"]}, {"read_only": ["crm.getx"]}, {"confirm": []}]
)
async def test_nothing_else_is_ever_sent_again(config: MakeConfig, fault: str, body: Json) -> None:
    """D8: not either on an untrusted server's word."""
    harness = GatewayHarness(config("crm"), {"crm": [tool("get", annotations=HINT)]}, ruled(**body))
    failing(harness, 1, PASSING[fault])
    assert (await harness.call(harness.host("one"), "crm.get"))["result"]["isError"] is True
    assert len(harness.sent) == 1


async def test_without_policies_nothing_is_sent_again(config: MakeConfig) -> None:
    """Proves: D8."""
    harness = GatewayHarness(config("crm"), {"crm": [tool("get", annotations=HINT)]})
    failing(harness, 1, PASSING["lost"])
    assert error_data(await harness.call(harness.host("local"), "crm.get"))["code"] == "outcome_unknown"
    assert len(harness.sent) == 1


@pytest.mark.parametrize(
    ("hints", "times"), [(HINT, 2), ({"idempotentHint": True}, 2), ({"idempotentHint": False}, 1), ({}, 1), (None, 1)]
)
async def test_a_trusted_server_is_believed(config: MakeConfig, hints: Json | None, times: int) -> None:
    """D8: its `idempotentHint` and `readOnlyHint` count."""
    definition = tool("get") if hints is None else tool("get", annotations=hints)
    harness = GatewayHarness(config("crm", trusted=True), {"crm": [definition]}, ruled())
    failing(harness, 1, PASSING["503"])
    await harness.call(harness.host("one"), "crm.get")
    assert len(harness.sent) == times


@pytest.mark.parametrize("fault", LASTING)
async def test_what_does_not_pass_is_not_tried_again(config: MakeConfig, fault: str) -> None:
    """D8: an answer is an answer, however bad."""
    harness = GatewayHarness(config("crm"), {"crm": [tool("get")]}, ruled(retry=["*"]))
    failing(harness, 1, LASTING[fault])
    answer = await harness.call(harness.host("one"), "crm.get")
    assert "error" in answer or answer["result"]["isError"] is True
    assert len(harness.sent) == 1


async def test_an_error_result_is_not_tried_again(config: MakeConfig) -> None:
    """D8: the tool was there, and said no."""
    harness = GatewayHarness(config("crm"), {"crm": [tool("get")]}, ruled(retry=["*"]))

    async def answer(params: Json) -> Json:
        return {**text_result("no"), "isError": True}

    harness.fake_upstreams["crm"].answer = answer
    await harness.call(harness.host("one"), "crm.get")
    assert len(harness.sent) == 1


async def test_a_timeout_is_not_tried_again(config: MakeConfig) -> None:
    """D7, D8: the time of a call is the time of all its attempts."""
    harness = GatewayHarness(config("crm", timeout=0.05), {"crm": [tool("get")]}, ruled(retry=["*"]))

    async def answer(params: Json) -> Json:
        await asyncio.Event().wait()
        return {}

    harness.fake_upstreams["crm"].answer = answer
    error = error_data(await harness.call(harness.host("one"), "crm.get"))
    assert (error["code"], error["retryable"]) == ("upstream_timeout", True)
    assert len(harness.sent) == 1


async def test_no_attempt_begins_after_the_deadline(config: MakeConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """D8: a pause that would outlast the call is not waited for."""
    monkeypatch.setattr(relay, "_RETRY_PAUSES", (0.0, 3600.0))
    harness = GatewayHarness(config("crm", timeout=1), {"crm": [tool("get")]}, ruled(retry=["*"]))
    failing(harness, 9, PASSING["lost"])
    assert error_data(await harness.call(harness.host("one"), "crm.get"))["code"] == "outcome_unknown"
    assert len(harness.sent) == 2


async def test_attempts_are_one_call(config: MakeConfig) -> None:
    """D8, B6: charged once, and running once."""
    harness = GatewayHarness(
        config("crm"), {"crm": [tool("get")]}, ruled(retry=["*"], limits={"*": {"per_minute": 2, "concurrent": 1}})
    )
    failing(harness, 2, PASSING["lost"])
    assert "isError" not in (await harness.call(harness.host("one"), "crm.get"))["result"]
    assert "isError" not in (await harness.call(harness.host("one"), "crm.get"))["result"]
    assert error_data(await harness.call(harness.host("one"), "crm.get"))["code"] == "limit_reached"
