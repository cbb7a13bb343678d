"""Upstreams that flood us with what is cheap to send and dear to read; neighbours go on. Counted, not timed."""

import asyncio
import logging
from typing import Any

import pytest

from aggregator.app.build import build_app
from aggregator.config.model import Config
from aggregator.upstream.current_config import CurrentConfig
from aggregator.upstream.lifecycle.state import UpstreamState
from aggregator.upstream.lifecycle.states import StateAndReason
from aggregator.upstream.lists import paging as listing
from aggregator.upstream.sessions.back_channel import BackChannel
from aggregator.upstream.transports import http, sse
from aggregator.upstream.transports import rate_limit as pace
from aggregator.upstream.transports import stdio as stdio_transport
from aggregator.wire.codec import decode_received
from aggregator.wire.message import error_of
from aggregator.wire.sse import Event, EventReader
from tests.polling import until

from .app_harness import AppHarness, raw_stdio, running_app, server_config
from .raw_http import RawHttpServer, RawSseServer, ReceivedRequest, ReplyWriter, never, raw_http

JUNK = {"newlines": b"\n", "comments": b":\n\n", "ids": b"id\n\n", "empty events": b"data\n\n"}


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("kind", JUNK)
@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_lines_of_a_stream_are_read_at_a_pace(kind: str, transport: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """C4, C8: a stream of lines that are no message is left unread past the burst, so that others get their turn."""
    monkeypatch.setattr(pace, "RATE", 1.0)
    lines = [0]

    class Counting(EventReader):
        def feed(self, chunk: bytes) -> list[Event]:
            before = self.lines
            events = super().feed(chunk)
            lines[0] += self.lines - before
            return events

    monkeypatch.setattr(http, "EventReader", Counting)
    monkeypatch.setattr(sse, "EventReader", Counting)
    raw: RawHttpServer = RawSseServer() if transport == "sse" else RawHttpServer()

    async def flood(seen: ReceivedRequest, reply: ReplyWriter) -> None:
        await reply.stream()
        if transport == "sse":
            await reply.event("/messages?session_id=x", "endpoint")
        while True:
            await reply.raw(JUNK[kind] * 30_000)

    raw.on["GET"] = flood
    async with raw_http(raw):
        flooding = server_config("flood", type=transport, url=raw.url, limits={"connect_timeout": 60})
        app = build_app(Config(servers=(flooding, raw_stdio("good")), startup_wait=0.1))
        async with app.running():
            harness = AppHarness(app)
            await until(lambda: app.upstreams["good"].state == "ready", "the neighbour is there")
            await until(lambda: lines[0] >= 4_000, "the flood is read")
            for _ in range(10):
                await harness.check_echo("good.echo")
    # The burst, and one slice more, for each of a few streams.
    assert lines[0] < 400_000


async def test_answers_to_a_flood_of_requests_take_few_connections() -> None:
    """C8: a server that asks without end and takes no answer does not use up our descriptors."""
    async with raw_http() as raw:

        async def ask(seen: ReceivedRequest, reply: ReplyWriter) -> None:
            await reply.stream()
            for number in range(300):
                await reply.event({"jsonrpc": "2.0", "id": f"ping-{number}", "method": "ping"})
            await reply.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
            await asyncio.Event().wait()

        raw.on["GET"], raw.on["POST"] = ask, never
        async with running_app(server_config("web", type="http", url=raw.url)) as harness:
            await until(lambda: raw.count("POST") >= 20 and raw.count("tools/list") >= 2, "all of it was heard")
            await harness.check_echo("web.echo")
            assert raw.open < 100


@pytest.mark.parametrize("line", ["{\n", "{}\n", "[]\n", '{"a":1}\n'])
async def test_lines_too_short_for_a_message_are_not_parsed(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """C4: what cannot be a message is told by its length."""
    parsed = []

    def counted(data: bytes, *rest: Any) -> Any:
        parsed.append(data)
        return decode_received(data, *rest)

    async with running_app(raw_stdio("flood"), raw_stdio("good")) as harness:
        await harness.call("flood.flood", pattern=line, times=20)
        monkeypatch.setattr(stdio_transport, "decode_received", counted)
        for _ in range(10):
            await harness.check_echo("good.echo")
    assert line.strip().encode() not in parsed


@pytest.mark.parametrize("session", ["a\x01b", "sessi\u00f6n"])
async def test_a_session_that_cannot_be_named_is_refused(session: str, caplog: pytest.LogCaptureFixture) -> None:
    """C2: one clear reason, no traceback."""
    async with raw_http() as raw:

        async def opened(seen: ReceivedRequest, reply: ReplyWriter) -> None:
            hello = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "raw"}}
            await reply.result(seen, hello, mcp_session_id=session)

        raw.on["initialize"] = opened
        async with running_app(server_config("web", type="http", url=raw.url), raw_stdio("good")) as harness:
            assert "visible ASCII" in harness.upstream("web").reason
            await harness.check_echo("good.echo")
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_what_a_server_says_to_nobody_is_logged_in_brief(caplog: pytest.LogCaptureFixture) -> None:
    """C4, C5: whatever it is, it costs little, and a thousand lines are not a thousand lines of the log."""
    callers = BackChannel("chatty")

    def said() -> list[logging.LogRecord]:
        # Other threads log too.
        return [record for record in caplog.records if record.getMessage().startswith("chatty says: ")]

    with caplog.at_level(logging.INFO):
        for data in (deep(100_000), list(range(200_000)), {"a": 1}, "x" * 5_000_000):
            callers.on_notification("notifications/message", {"level": "error", "data": data}, None)
        assert [len(record.getMessage()) < 600 for record in said()] == [True] * 4
        assert '{"a":1}' in caplog.text
        for _ in range(1_000):
            callers.on_notification("notifications/message", {"level": "error", "data": "x"}, None)
    assert 50 < len(said()) < 500


def test_an_error_whose_message_is_no_text() -> None:
    """C2: it is an error all the same, however deep it is."""
    assert error_of({"error": {"code": 5, "message": deep(100_000)}}).code == 5
    assert error_of({"error": {"code": 5, "message": {"why": "so"}}}).message == '{"why":"so"}'


async def test_the_reason_of_a_state_is_no_longer_than_can_be_read() -> None:
    """C5: what a server says as it refuses stands in every answer about it."""
    config = CurrentConfig(server_config("s", type="stdio", command="x"))
    state = UpstreamState(config, StateAndReason("starting", "", 0.0), lambda: None, lambda text: text)
    state.move("failed", "x" * 5_000_000)
    assert len(state.current.reason) < 3_000


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_list_of_large_pages_has_an_end(transport: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """C5: cursors are kept until the list is read, and each may be as large as a message."""
    monkeypatch.setattr(listing, "BYTES_LIMIT", 1_000_000)
    raw: RawHttpServer = RawSseServer() if transport == "sse" else RawHttpServer()

    async def page(seen: ReceivedRequest, reply: ReplyWriter) -> None:
        result = {"tools": [], "nextCursor": f"{len(raw.seen)}{'x' * 100_000}"}
        if isinstance(raw, RawSseServer):
            await reply.send(202)
            answer = {"jsonrpc": "2.0", "id": seen.message["id"], "result": result}
            await next(stream for name, stream in raw.streams.items() if name in seen.target).event(answer)
        else:
            await reply.result(seen, result)

    raw.on["tools/list"] = page
    async with raw_http(raw), running_app(server_config("web", type=transport, url=raw.url)) as harness:
        assert harness.upstream("web").state == "ready"
        assert any("does not stop paging" in said for said in harness.upstream("web").faults.for_operators())
        # A start anew would have read the list again.
        assert raw.count("tools/list") <= 12
