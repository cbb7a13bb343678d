"""Hosts over HTTP and SSE that send what no host should, go away, or do not read."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from aggregator.frontends.web import body_limits
from aggregator.frontends.web import event_stream as stream
from tests.polling import until

from .app_harness import Json, lines_of, modern, raw_stdio
from .asgi_client import AsgiClient, asgi_client, call

PING: Json = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


async def check(hosts: AsgiClient) -> None:
    """Calls go through in both eras."""
    message = {"jsonrpc": "2.0", "id": 9, "method": "tools/call"}
    request = await hosts.post_modern({**message, "params": modern(name="s.echo", arguments={"say": "new"})}).done()
    assert request.answer()["result"]["content"][0]["text"] == "new"
    request = await hosts.post(call("s.echo", say="old"), await hosts.session()).done()
    assert request.answer()["result"]["content"][0]["text"] == "old"


BODIES: dict[str, tuple[bytes, int]] = {
    "nothing": (b"", 400),
    "not json": (b"{oops", 400),
    "not text": (b"\xff\xfe{}", 400),
    "too deep": (b"[" * 1_000_000, 400),
    "too deep, closed": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, 400),
    "a number": (b"7", 400),
    "null": (b"null", 400),
    "an empty batch": (b"[]", 400),
    "a batch": (json.dumps([PING, PING]).encode(), 400),
    "huge": (b" " * 2_000_000, 413),
}


@pytest.mark.parametrize("header", [{}, {"mcp_protocol_version": "2026-07-28"}, {"mcp_protocol_version": "nonsense"}])
@pytest.mark.parametrize("fault", BODIES)
async def test_bodies_that_are_no_message(fault: str, header: dict[str, str]) -> None:
    """F1: a status of 400 or 413, a reason, and the frontend keeps working."""
    body, status = BODIES[fault]
    async with asgi_client(raw_stdio("s"), max_body_bytes=1_500_000) as hosts:
        request = await hosts.post(body, await hosts.session(), **header).done()
        assert request.status == status, request.body
        assert request.json()["error"]
        await check(hosts)


async def test_a_body_that_never_ends_is_cut_off() -> None:
    """F1: counted as it comes, whatever its headers say."""
    async with asgi_client(raw_stdio("s"), max_body_bytes=100_000) as hosts:
        request = hosts.request("POST")
        request._inbox = asyncio.Queue()
        for _ in range(20):
            request.give(b" " * 10_000, more=True)
        await request.done()
        assert request.status == 413
        await check(hosts)


FIELDS: dict[str, Json] = {
    "id null": {"id": None},
    "id true": {"id": True},
    "id a float": {"id": 1.5},
    "id a list": {"id": [1]},
    "method a number": {"method": 7},
    "method a list": {"method": ["ping"]},
    "params a list": {"params": [1]},
    "params a string": {"params": "x"},
    "params a number": {"params": 7},
    "no name": {"params": {"arguments": {}}},
    "name null": {"params": {"name": None}},
    "name a number": {"params": {"name": 7}},
    "name a list": {"params": {"name": ["s.echo"]}},
    "name empty": {"params": {"name": ""}},
    "name unknown": {"params": {"name": "x.y"}},
    "arguments a list": {"params": {"name": "s.echo", "arguments": [1]}},
    "arguments an empty list": {"params": {"name": "s.echo", "arguments": []}},
    "arguments a string": {"params": {"name": "s.echo", "arguments": "x"}},
    "arguments false": {"params": {"name": "s.echo", "arguments": False}},
    "meta a list": {"params": {"name": "s.nothing", "_meta": [1]}},
    "unknown method": {"method": "tools/destroy"},
    "method of another era": {"method": "server/nothing"},
}


@pytest.mark.parametrize("fault", FIELDS)
async def test_wrong_types_have_an_error(fault: str) -> None:
    """C13, F1: JSON-RPC's own error, in both eras; never a 500."""
    message = call("s.echo") | FIELDS[fault]
    async with asgi_client(raw_stdio("s")) as hosts:
        request = await hosts.post(message, await hosts.session()).done()
        assert request.status in (200, 400)
        assert -32700 <= request.answer()["error"]["code"] <= -32600
        params = message["params"]
        if isinstance(params, dict) and "_meta" not in params:
            message["params"] = modern(**params)
        request = await hosts.post_modern(message).done()
        assert request.status in (400, 404)
        assert -32700 <= request.answer()["error"]["code"] <= -32020
        await check(hosts)


NOTES: list[Json] = [
    {"method": "notifications/cancelled", "params": {"requestId": 77}},
    {"method": "notifications/cancelled", "params": {"requestId": [1]}},
    {"method": "notifications/cancelled", "params": {"requestId": {}}},
    {"method": "notifications/cancelled", "params": {"requestId": None}},
    {"method": "notifications/cancelled"},
    {"method": "notifications/whatever", "params": {"x": 1}},
    {"method": "notifications/progress", "params": {"progressToken": [1]}},
    {"method": 7},
    {"id": "9" * 5000, "result": {}},
    {"id": [1], "result": {}},
    {"id": None, "error": {}},
    {},
]


@pytest.mark.parametrize("note", NOTES, ids=lambda note: str(note)[:60])
async def test_notifications_of_any_kind_are_taken(note: Json) -> None:
    """F1: 202 or a clear refusal, on both legacy frontends."""
    async with asgi_client(raw_stdio("s")) as hosts:
        request = await hosts.post({"jsonrpc": "2.0", **note}, await hosts.session()).done()
        assert request.status in (202, 400)
        events = hosts.request("GET", "/sse")
        await until(lambda: b"session_id" in events.body, "the endpoint was named")
        target = bytes(events.body).split(b"data: ")[1].split(b"\r\n")[0].decode()
        for message in ({"jsonrpc": "2.0", **note}, {**PING, "id": "alive"}):
            request = await hosts.request("POST", target, json.dumps(message).encode()).done()
            assert request.status == 202
        await until(lambda: any(event.get("id") == "alive" for event in events.events()), "the stream lives")
        await check(hosts)


async def test_a_modern_host_that_leaves_cancels_its_call() -> None:
    """A8: closing the stream is the cancellation; the upstream's slot is free."""
    async with asgi_client(raw_stdio("s", timeout=60)) as hosts:
        upstream = hosts.harness.upstream("s")
        request = hosts.post_modern({**call("s.hang"), "params": modern(name="s.hang", arguments={})})
        await until(lambda: upstream.in_flight == 1, "the call runs")
        request.leave()
        await until(lambda: upstream.in_flight == 0, "it was cancelled")
        await request.done()
        await check(hosts)


async def test_a_legacy_host_that_leaves_does_not() -> None:
    """A8: a lost connection says nothing before 2026-07-28; `notifications/cancelled` does."""
    async with asgi_client(raw_stdio("s", timeout=60)) as hosts:
        upstream = hosts.harness.upstream("s")
        session = await hosts.session()
        request = hosts.post(call("s.hang", 5), session)
        await until(lambda: upstream.in_flight == 1, "the call runs")
        request.leave()
        await check(hosts)
        await until(lambda: request._inbox.empty(), "the disconnect was noticed")
        await check(hosts)
        assert upstream.in_flight == 1
        await hosts.post(
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}, session
        ).done()
        await until(lambda: upstream.in_flight == 0, "it was cancelled")


async def test_nobody_cancels_the_calls_of_others() -> None:
    """D4, D11: the same request id in another session is another request."""
    async with asgi_client(raw_stdio("s", timeout=60)) as hosts:
        upstream = hosts.harness.upstream("s")
        victim, stranger = await hosts.session(), await hosts.session()
        hosts.post(call("s.hang", 5), victim)
        await until(lambda: upstream.in_flight == 1, "the call runs")
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}
        await hosts.post(cancel, stranger).done()
        await hosts.post(cancel, mcp_protocol_version="2026-07-28").done()
        await check(hosts)
        assert upstream.in_flight == 1
        await hosts.request("DELETE", "/mcp", mcp_session_id=victim).done()
        await until(lambda: upstream.in_flight == 0, "the session's end is the call's")


async def test_an_id_in_use_is_refused() -> None:
    """F1: within one session; another session may use it."""
    async with asgi_client(raw_stdio("s", timeout=60)) as hosts:
        session, other = await hosts.session(), await hosts.session()
        hosts.post(call("s.hang", 5), session)
        await until(lambda: hosts.harness.upstream("s").in_flight == 1, "the call runs")
        request = await hosts.post(call("s.echo", 5), session).done()
        assert request.status == 400
        request = await hosts.post(call("s.echo", 5), other).done()
        assert "result" in request.answer()


async def test_too_many_sessions_are_refused_until_one_ends() -> None:
    """D11: thousands are, the next gets 503, and modern hosts notice nothing."""
    async with asgi_client(raw_stdio("s"), max_sessions=2_000) as hosts:
        sessions = [await hosts.session() for _ in range(2_000)]
        assert len(set(sessions)) == 2_000
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}
        for _ in range(50):
            request = await hosts.post(hello).done()
            assert request.status == 503
        message = {**call("s.echo"), "params": modern(name="s.echo", arguments={"say": "x"})}
        assert (await hosts.post_modern(message).done()).status == 200
        await hosts.request("DELETE", "/mcp", mcp_session_id=sessions[0]).done()
        assert (await hosts.post(hello).done()).status == 200
        assert (await hosts.post(PING, sessions[0]).done()).status == 404


async def test_too_many_event_streams_are_refused() -> None:
    """D11: so it is with streams that stay open."""
    async with asgi_client(raw_stdio("s"), max_streams=20) as hosts:
        streams = [hosts.request("GET", "/sse") for _ in range(20)]
        await until(lambda: all(request.body for request in streams), "twenty are open")
        assert (await hosts.request("GET", "/sse").done()).status == 503
        streams[0].leave()
        await streams[0].done()
        again = hosts.request("GET", "/sse")
        await until(lambda: again.status == 200, "there is room again")
        await check(hosts)


@pytest.mark.parametrize("frontend", ["sse", "http"])
async def test_a_host_that_does_not_read_is_bounded(frontend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A7: answers for it are dropped in the end, not kept; the others are served."""
    limit = 1_000_000
    queued: list[stream.EventStream] = []
    create = stream.EventStream.__init__

    def watched(self: stream.EventStream, unread: stream.UnreadBytes) -> None:
        create(self, unread)
        queued.append(self)

    monkeypatch.setattr(stream.EventStream, "__init__", watched)
    monkeypatch.setattr(body_limits, "UNREAD_BYTES", limit)
    async with asgi_client(raw_stdio("s")) as hosts:
        if frontend == "sse":
            slow = hosts.request("GET", "/sse")
            await until(lambda: b"session_id" in slow.body, "the endpoint was named")
            slow.reading.clear()
            target = bytes(slow.body).split(b"data: ")[1].split(b"\r\n")[0].decode()
            hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2024-11-05"}}
            await hosts.request("POST", target, json.dumps(hello).encode()).done()
            for number in range(40):
                message = json.dumps(call("s.large", number, size=200_000)).encode()
                await hosts.request("POST", target, message).done()
        else:
            note = '{"jsonrpc":"2.0","method":"notifications/progress","params":%s}'
            said = '{"progressToken":$ID,"progress":%d,"m":"%s"}'
            notes = [note % (said % (step, "x" * 90_000)) for step in range(30)]
            good = '{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}'
            params = modern(name="s.raw", arguments={"lines": [*notes, good]})
            params["_meta"]["progressToken"] = 1
            slow = hosts.post_modern({**call("s.raw"), "params": params})
            slow.reading.clear()
        await until(lambda: hosts.harness.upstream("s").in_flight == 0 and queued, "every answer has come")
        await check(hosts)
        held = sum(len(frame) for events in queued for frame in events._queue)
        assert held <= 2 * limit


async def test_standing_streams_are_one_per_session_and_free_again() -> None:
    """F1: a second is refused, a closed one makes room."""
    async with asgi_client(raw_stdio("s")) as hosts:
        session = await hosts.session()
        first = hosts.request("GET", "/mcp", mcp_session_id=session)
        await until(lambda: first.status == 200, "it is open")
        assert (await hosts.request("GET", "/mcp", mcp_session_id=session).done()).status == 409
        first.leave()
        await first.done()
        again = hosts.request("GET", "/mcp", mcp_session_id=session)
        await until(lambda: again.status == 200, "it is open again")


async def test_effects_of_a_call_whose_host_left_happen_once(tmp_path: Path) -> None:
    """A8, D8: nothing is sent again for a host that comes back and asks."""
    log = tmp_path / "log"
    async with asgi_client(raw_stdio("s", log=log, timeout=60)) as hosts:
        for _ in range(5):
            request = hosts.post_modern({**call("s.hang"), "params": modern(name="s.hang", arguments={})})
            await until(lambda: hosts.harness.upstream("s").in_flight == 1, "the call runs")
            request.leave()
            await request.done()
        await check(hosts)
        assert lines_of(log).count("hang") == 5


@pytest.mark.parametrize("token", [0, 1.5, True, "", "\ud800", [1], {"a": [1]}, 10**30])
async def test_progress_tokens_of_strange_types(token: Any) -> None:
    """F1: given back as they came; the call goes through."""
    progress = '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$ID,"progress":1}}'
    good = '{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}'
    async with asgi_client(raw_stdio("s")) as hosts:
        params = modern(name="s.raw", arguments={"lines": [progress, good]})
        params["_meta"]["progressToken"] = token
        request = await hosts.post_modern({**call("s.raw"), "params": params}).done()
        assert "result" in request.answer()
        if request.headers["content-type"].startswith("text/event-stream"):
            notes = [event for event in request.events() if "method" in event]
            assert [note["params"]["progressToken"] for note in notes] == [token] * len(notes)
        await check(hosts)
