"""No memory, at each place that a call comes by: its host hears of it at once, and the program goes on.

Nothing is run twice, and nothing of the call is held afterwards.
"""

import asyncio
import importlib
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.direct.direct_harness import HOST_KINDS, DirectHarness, ask, child, direct_harness, text
from tests.direct.scripted_web import ScriptedWeb
from tests.peers.sdk import sse_app
from tests.peers.serving import serving
from tests.peers.toolbox import Json

SOON: Final = 5.0
# The places, as `module:object`; one that a kind of host or a way of answering does not come by is passed over there.
EVERYWHERE: Final = [
    "gateway.calls.direct:DirectCalls.answer_host",
    "gateway.calls.delivery:ResultDelivery.deliver_at_once",
    "gateway.calls.direct:DirectCalls.send_at_once",
    "gateway.calls.pipeline:Pipeline.call_tool",
    "gateway.calls.delivery:ResultDelivery.deliver",
    "gateway.calls.relay:Relay._send",
    "gateway.call_log:CallLog.close",
    "gateway.calls.direct_call:begin_record",
    "gateway.call_log:begin_record",
    "gateway.eras:for_legacy",
    "gateway.eras:for_modern",
    "audit.log:AuditLog.record",
    "upstream.upstream:Upstream.begin",
    "upstream.upstream:Upstream.call",
    "wire.pending_request:PeerRequest.answer",
    "frontends.web.request_cache:encode",
    "frontends.web.request_cache:decode_from_host",
    "frontends.web.request_cache:CachedMcpRequest.begin",
    "frontends.web.request_cache:DirectPost.answered",
    "frontends.web.exchange:encode",
    "frontends.web.streamable_http:decode_from_host",
    "frontends.stdio:decode_from_host",
    "frontends.stdio:StdioAnswer.answered",
    "wire.peer:Peer.take_result",
    "wire.peer:Peer.feed",
    "wire.peer:encode",
    "wire.peer:encode_result",
    "upstream.health.health:Health.answered",
]
OF_STDIO: Final = ["upstream.transports.stdio:decode_received", "upstream.transports.stdio:StdioConnection.take_line"]
OF_WEB: Final = [
    "upstream.transports.http:HttpPendingRequest._result",
    "upstream.transports.http_body:decode_received",
    "upstream.transports.http_clients.plain_response:PlainResponse.whole_json",
    "upstream.transports.http:HttpConnection.begin",
    "upstream.transports.response_reader:ResponseReader.read",
]
OF_SSE: Final = ["upstream.transports.sse:decode_received", "upstream.transports.sse:SseConnection._take"]


@contextmanager
def no_memory_at(place: str) -> Iterator[list[bool]]:
    """Raise once where the place is come by; the list then has an entry."""
    module, _, path = place.partition(":")
    owner: Any = importlib.import_module(f"aggregator.{module}")
    *parts, name = path.split(".")
    for part in parts:
        owner = getattr(owner, part)
    real, raised = getattr(owner, name), list[bool]()

    def place_without_memory(*given: Any, **more: Any) -> Any:
        if not raised:
            raised.append(True)
            raise MemoryError
        return real(*given, **more)

    setattr(owner, name, place_without_memory)
    try:
        yield raised
    finally:
        setattr(owner, name, real)


@asynccontextmanager
async def harness_of(kind: str, folder: Path, patch: pytest.MonkeyPatch) -> AsyncIterator[tuple[DirectHarness, Json]]:
    """Give the aggregator with one server `it` of a kind, and the params of a call."""
    async with AsyncExitStack() as stack:
        params: Json = {"name": "it.any", "arguments": {}}
        if kind == "stdio":
            entry, params = child("legacy"), {"name": "it.any", "arguments": {"lines": [text("x")]}}
        elif kind == "web":
            web = ScriptedWeb(modern=False)
            await web.start()
            stack.push_async_callback(web.stop)
            entry = {"type": "http", "url": web.url}
        else:
            url = await stack.enter_async_context(serving(sse_app()))
            entry, params = {"type": "sse", "url": f"{url}/sse"}, {"name": "it.echo", "arguments": {"text": "x"}}
        database = f"sqlite:///{folder / 'audit.db'}"
        yield await stack.enter_async_context(direct_harness(folder, patch, {"it": entry}, database=database)), params


@pytest.mark.parametrize("frontend", [HOST_KINDS[0], HOST_KINDS[2], HOST_KINDS[3]], ids=["stdio", "session", "modern"])
@pytest.mark.parametrize(
    ("server", "places"),
    [("stdio", EVERYWHERE + OF_STDIO), ("web", OF_WEB), ("sse", OF_SSE)],
    ids=["stdio", "web", "sse"],
)
@pytest.mark.parametrize("on", [True, False], ids=["direct", "pipeline"])
async def test_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str, places: list[str], frontend: tuple[str, str], on: bool
) -> None:
    met = set()
    async with harness_of(server, tmp_path, monkeypatch) as (it, params), it.host(*frontend) as host:
        for place in places:
            it.on = on
            for number in (1, 2):
                await ask(host, params, number)
            with no_memory_at(place) as raised:
                try:
                    async with asyncio.timeout(SOON):
                        answer = (await ask(host, params, 7)).answer
                except TimeoutError:
                    raise AssertionError(f"no answer: {place}") from None
            if raised:
                met.add(place)
            assert answer["id"] in (7, None), place
            assert "result" in answer or "error" in answer, place
            later = (await ask(host, params, 8)).answer
            assert later["id"] == 8, place
            assert "error" not in later, place
            assert not later["result"].get("isError"), place
            try:
                it.nothing_is_left()
            except AssertionError as left:
                raise AssertionError(f"{place}: {left}") from left
    assert met, "no place was come by"
