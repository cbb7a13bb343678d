"""Calls that are sent again: only where somebody said that it does no harm, and only in the time of one call."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import pytest

from aggregator.domain.errors import RpcError, UpstreamHttpStatus
from aggregator.gateway.calls import pipeline
from aggregator.wire.peer import PeerGone
from tests.access.conftest import Configured
from tests.access.desk import Desk, of_kind, tool
from tests.peers.toolbox import Json, said

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
    monkeypatch.setattr(pipeline, "_RETRY_PAUSES", (0.0, 0.0))


def failing(desk: Desk, times: int, fault: Callable[[], Exception]) -> None:
    """The first calls take effect, and fail."""

    async def answer(params: Json) -> Json:
        if len(desk.sent) <= times:
            raise fault()
        return said("done")

    desk.played["crm"].answer = answer


def ruled(**body: Any) -> Json:
    return {"agents": {"one": {"allow": ["crm.*"], **body}}}


@pytest.mark.parametrize("fault", PASSING)
@pytest.mark.parametrize("declared", DECLARED)
async def test_what_is_declared_is_sent_again(config: Configured, declared: str, fault: str) -> None:
    """D8: up to three times, for what may pass."""
    desk = Desk(config("crm"), {"crm": [tool("get")]}, ruled(**DECLARED[declared]))
    failing(desk, 2, PASSING[fault])
    assert "isError" not in (await desk.call(desk.host("one"), "crm.get"))["result"]
    assert len(desk.sent) == 3
    desk.sent.clear()
    failing(desk, 9, PASSING[fault])
    assert (await desk.call(desk.host("one"), "crm.get"))["result"]["isError"] is True
    assert len(desk.sent) == 3


@pytest.mark.parametrize("fault", PASSING)
@pytest.mark.parametrize(
    "body", [{}, {"retry": ["crm.put"]}, {"idempotent": ["other.*"]}, {"read_only": ["crm.getx"]}, {"confirm": []}]
)
async def test_nothing_else_is_ever_sent_again(config: Configured, fault: str, body: Json) -> None:
    """D8: not either on an untrusted server's word."""
    desk = Desk(config("crm"), {"crm": [tool("get", annotations=HINT)]}, ruled(**body))
    failing(desk, 1, PASSING[fault])
    assert (await desk.call(desk.host("one"), "crm.get"))["result"]["isError"] is True
    assert len(desk.sent) == 1


async def test_without_policies_nothing_is_sent_again(config: Configured) -> None:
    """Proves: D8."""
    desk = Desk(config("crm"), {"crm": [tool("get", annotations=HINT)]})
    failing(desk, 1, PASSING["lost"])
    assert of_kind(await desk.call(desk.host("local"), "crm.get"))["code"] == "outcome_unknown"
    assert len(desk.sent) == 1


@pytest.mark.parametrize(
    ("hints", "times"), [(HINT, 2), ({"idempotentHint": True}, 2), ({"idempotentHint": False}, 1), ({}, 1), (None, 1)]
)
async def test_a_trusted_server_is_believed(config: Configured, hints: Json | None, times: int) -> None:
    """D8: its `idempotentHint` and `readOnlyHint` count."""
    definition = tool("get") if hints is None else tool("get", annotations=hints)
    desk = Desk(config("crm", trusted=True), {"crm": [definition]}, ruled())
    failing(desk, 1, PASSING["503"])
    await desk.call(desk.host("one"), "crm.get")
    assert len(desk.sent) == times


@pytest.mark.parametrize("fault", LASTING)
async def test_what_does_not_pass_is_not_tried_again(config: Configured, fault: str) -> None:
    """D8: an answer is an answer, however bad."""
    desk = Desk(config("crm"), {"crm": [tool("get")]}, ruled(retry=["*"]))
    failing(desk, 1, LASTING[fault])
    answer = await desk.call(desk.host("one"), "crm.get")
    assert "error" in answer or answer["result"]["isError"] is True
    assert len(desk.sent) == 1


async def test_an_error_result_is_not_tried_again(config: Configured) -> None:
    """D8: the tool was there, and said no."""
    desk = Desk(config("crm"), {"crm": [tool("get")]}, ruled(retry=["*"]))

    async def answer(params: Json) -> Json:
        return {**said("no"), "isError": True}

    desk.played["crm"].answer = answer
    await desk.call(desk.host("one"), "crm.get")
    assert len(desk.sent) == 1


async def test_a_timeout_is_not_tried_again(config: Configured) -> None:
    """D7, D8: the time of a call is the time of all its attempts."""
    desk = Desk(config("crm", timeout=0.05), {"crm": [tool("get")]}, ruled(retry=["*"]))

    async def answer(params: Json) -> Json:
        await asyncio.Event().wait()
        return {}

    desk.played["crm"].answer = answer
    error = of_kind(await desk.call(desk.host("one"), "crm.get"))
    assert (error["code"], error["retryable"]) == ("upstream_timeout", True)
    assert len(desk.sent) == 1


async def test_no_attempt_begins_after_the_deadline(config: Configured, monkeypatch: pytest.MonkeyPatch) -> None:
    """D8: a pause that would outlast the call is not waited for."""
    monkeypatch.setattr(pipeline, "_RETRY_PAUSES", (0.0, 3600.0))
    desk = Desk(config("crm", timeout=1), {"crm": [tool("get")]}, ruled(retry=["*"]))
    failing(desk, 9, PASSING["lost"])
    assert of_kind(await desk.call(desk.host("one"), "crm.get"))["code"] == "outcome_unknown"
    assert len(desk.sent) == 2


async def test_attempts_are_one_call(config: Configured) -> None:
    """D8, B6: charged once, and running once."""
    desk = Desk(
        config("crm"), {"crm": [tool("get")]}, ruled(retry=["*"], limits={"*": {"per_minute": 2, "concurrent": 1}})
    )
    failing(desk, 2, PASSING["lost"])
    assert "isError" not in (await desk.call(desk.host("one"), "crm.get"))["result"]
    assert "isError" not in (await desk.call(desk.host("one"), "crm.get"))["result"]
    assert of_kind(await desk.call(desk.host("one"), "crm.get"))["code"] == "limit_reached"
