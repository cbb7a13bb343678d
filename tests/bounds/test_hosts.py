"""Hosts that take more than their part, over real sockets: refused at once and in words, and nobody else notices."""

import asyncio
import json
from pathlib import Path

import pytest

from aggregator.frontends.web import body_limits
from tests.bounds.web_harness import MODERN, call, error_of, head, web_harness
from tests.faults.app_harness import BOUND, Json
from tests.polling import until


async def test_a_body_above_the_limit(tmp_path: Path) -> None:
    """Proves: F1. 413 by its own word or in fact, the field named, the rest of it skipped."""
    async with web_harness(tmp_path, max_body_bytes=10_000) as it:
        async with it.connect() as connection:
            connection.send(head("POST", "/mcp", content_length="10001"))
            answer = await connection.answer()
            assert answer.status == 413
            connection.send(b" " * 10_001)
            assert (await connection.ask("/mcp", call(), **MODERN)).status == 200, "the connection can be used on"
            assert "`http.max_body_bytes`" in answer.json()["error"]
        async with it.connect() as connection:
            connection.send(head("POST", "/v1/tool_calls", transfer_encoding="chunked"))
            for _ in range(12):
                connection.send(b"3e8\r\n" + b" " * 1000 + b"\r\n")
            answer = await connection.answer()
            assert (answer.status, answer.json()["error"]["code"]) == (413, "bad_request")
        assert it.refused("body_size") == 2
        assert (await it.call()).status == 200


async def test_what_trickles_is_not_waited_for(tmp_path: Path) -> None:
    """Proves: F1, D11. A head, a body, and a connection that says nothing: each ends in the time it may take."""
    async with web_harness(tmp_path, stall_timeout=0.3) as it:
        async with it.connect() as silent, it.connect() as head_only, it.connect() as body_only:
            head_only.send(b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\nx-a: ")
            body_only.send(head("POST", "/mcp", content_length="100") + b"{")

            async def trickle() -> None:
                while True:
                    head_only.send(b"a")
                    body_only.send(b" ")
                    await asyncio.sleep(0.02)

            trickling = asyncio.create_task(trickle())
            answer = await body_only.answer()
            assert (answer.status, answer.headers["connection"]) == (408, "close")
            assert "`http.stall_timeout`" in answer.json()["error"]
            assert await body_only.ended() == b""
            assert (await silent.ended()).startswith(b"HTTP/1.1 408 ")
            # Who goes on sending to a closed connection may lose what was said last on it.
            assert (await head_only.ended())[:13] in (b"HTTP/1.1 408 ", b"")
            trickling.cancel()
        assert (it.refused("slow_head"), it.refused("slow_body")) == (2, 1)
        assert (await it.call()).status == 200


async def test_a_body_that_comes_after_its_answer_begins_nothing(tmp_path: Path) -> None:
    """Proves: F1, D11. Whoever is slow to stop sending what was refused keeps the connection, and is not counted."""
    async with web_harness(tmp_path, max_body_bytes=10_000, stall_timeout=0.3) as it, it.connect() as connection:
        connection.send(head("POST", "/mcp", content_length="10001"))
        assert (await connection.answer()).status == 413
        connection.send(b" " * 10_001)
        late = asyncio.get_running_loop().time() + 0.4
        await until(lambda: asyncio.get_running_loop().time() > late, "a head would have been late")
        assert (await connection.ask("/mcp", call(), **MODERN)).status == 200
        assert it.refused("slow_head") == 0


async def test_a_head_without_an_end(tmp_path: Path) -> None:
    """Proves: F1. A few kilobytes of it are read, whether one header is long or many are short."""
    for more in (b"a" * 5000, b"x-a: b\r\n" * 700):
        (folder := tmp_path / str(len(more))).mkdir()
        async with web_harness(folder) as it, it.connect() as connection:
            connection.send(b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\nx-a: " + more * 30)
            assert b" 431 " in (await connection.ended())[:20]
            assert it.refused("head_size") == 1


async def test_pending_requests_have_a_bound(tmp_path: Path) -> None:
    """Proves: D7, D11. One more than may be is refused at once, with when to come back; then there is room again."""
    async with web_harness(tmp_path, max_pending=3) as it:
        async with asyncio.TaskGroup() as tasks:
            held = [tasks.create_task(it.call(hang=True)) for _ in range(3)]
            await until(lambda: it.upstream.hanging == 3, "three calls hang")
            refused = await it.call()
            assert (refused.status, refused.headers["retry-after"]) == (503, "1")
            error = error_of(refused)
            assert error["data"] == {"limit": "pending", "most": 3, "field": "http.max_pending", "retryAfter": 1}
            async with it.connect() as connection:
                said = (await connection.ask("/v1/tool_calls", {"name": "up.echo", "arguments": {}})).json()
                assert said["error"]["code"] == "too_many_requests"
            assert it.refused("pending") == 2
            it.upstream.release.set()
        assert all(task.result().status == 200 for task in held)
        assert (await it.call()).status == 200


async def test_what_makes_room_needs_none(tmp_path: Path) -> None:
    """Proves: A8, D11. Where no more requests are taken, a call can still be given up, over both legacy frontends."""
    async with (
        web_harness(tmp_path, max_pending=1) as it,
        it.connect() as connection,
        it.connect() as other,
        it.connect() as events,
    ):
        session = {"mcp_session_id": (await it.initialize(connection)).headers["mcp-session-id"]}
        events.send(head("GET", "/sse"))
        assert (await events.answer()).status == 200
        target = (await events.event()).decode()
        hello = {"protocolVersion": "2024-11-05"}
        await other.ask(target, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
        hang = {"name": "up.echo", "arguments": {"hang": True}}
        for path, more in (("/mcp", session), (target, {})):
            connection.post(path, {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": hang}, **more)
            await until(lambda: it.upstream.hanging == 1, "the call hangs")
            ping = {"jsonrpc": "2.0", "id": 8, "method": "ping"}
            assert (await other.ask("/mcp", ping, **session)).status == 503
            # What answers a question of a server is taken as well: the call that asked may end with it.
            answers: list[Json] = [{"result": {}}, {"error": {"code": -1, "message": "no"}}]
            for said in answers:
                assert (await other.ask(path, {"jsonrpc": "2.0", "id": 99, **said}, **more)).status == 202
            gone = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
            assert (await other.ask(path, gone, **more)).status == 202
            await until(lambda: it.upstream.hanging == 0, "it was given up")
            await until(lambda: it.app.gateway.admission.in_use["pending"] == 0, "there is room")


async def test_one_agent_has_its_part_only(tmp_path: Path) -> None:
    """Proves: D4, D11. 429 for the one that takes too much, answers for the other, at every kind of limit."""
    limits: Json = {"max_pending": 4, "max_sessions": 4, "max_streams": 4}
    async with web_harness(tmp_path, agents=("greedy", "modest"), **limits) as it:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(2):
                tasks.create_task(it.call("greedy", hang=True))
            await until(lambda: it.upstream.hanging == 2, "two calls hang")
            refused = await it.call("greedy")
            assert (refused.status, error_of(refused)["data"]["most"]) == (429, 2)
            assert (await it.call("modest")).status == 200
            it.upstream.release.set()
        async with it.connect() as one, it.connect() as two, it.connect() as other:
            for connection in (one, one, two, other):
                answer = await it.initialize(connection, "modest" if connection is other else "greedy")
                assert answer.status == (429 if connection is two else 200)
                assert connection is not two or error_of(answer)["data"]["field"] == "http.max_sessions"
            for connection, status in ((one, 200), (two, 200), (other, 429)):
                listen = {"jsonrpc": "2.0", "id": 2, "method": "subscriptions/listen", "params": call()["params"]}
                listen["params"]["notifications"] = {"toolsListChanged": True}
                headers = MODERN | {"mcp_method": "subscriptions/listen"}
                connection.post("/mcp", listen, **headers, **it.key("greedy"))
                answer = await connection.answer()
                assert answer.status == status, answer.body
        assert (it.refused("pending_of_agent"), it.refused("sessions_of_agent")) == (1, 1)
        assert it.refused("streams_of_agent") == 1
        await until(lambda: it.app.gateway.admission.in_use["streams"] == 0, "those who left take no room")
        assert it.app.gateway.admission.in_use["pending"] == 0


async def test_every_message_of_a_batch_counts(tmp_path: Path) -> None:
    """Proves: D11. What one post carries is no way round the bound; the rest of the batch is answered."""
    async with web_harness(tmp_path, max_pending=3) as it, it.connect() as connection:
        hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-03-26"}}
        session = (await connection.ask("/mcp", hello)).headers["mcp-session-id"]
        batch = [{"jsonrpc": "2.0", "id": n, "method": "ping"} for n in range(5)]
        hang = {"name": "up.echo", "arguments": {"hang": True}}
        batch += [{"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": hang} for n in range(5, 9)]
        connection.post("/mcp", batch, mcp_session_id=session)
        await until(lambda: it.upstream.hanging == 2, "as many run as may")
        it.upstream.release.set()
        answers = {part["id"]: part for part in (await connection.answer()).json()}
        assert len(answers) == 9
        assert sum("error" in part for part in answers.values()) == 2
        assert all(part["error"]["code"] == 503 for part in answers.values() if "error" in part)


async def test_a_host_that_does_not_read_its_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: D11, A7. Its stream is ended, nothing of it is kept, and others are answered meanwhile."""
    monkeypatch.setattr(body_limits, "UNREAD_BYTES", 200_000)
    async with (
        web_harness(tmp_path, stall_timeout=0.5) as it,
        it.connect(small=True) as deaf,
        it.connect() as poster,
    ):
        deaf.send(head("GET", "/sse"))
        assert (await deaf.answer()).status == 200
        target = (await deaf.event()).decode()
        hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2024-11-05"}}
        await poster.ask(target, hello)
        large = {"name": "up.echo", "arguments": {"size": 1_000_000}}
        for number in range(8):
            message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": large}
            if (await poster.ask(target, message)).status == 404:
                break
        await until(lambda: it.refused("unread") or it.refused("slow_reader"), "it was given up")
        await until(lambda: it.app.gateway.admission.in_use["sessions"] == 0, "its session is over")
        assert it.refused("slow_reader") == 1
        assert (await it.call()).status == 200
        assert (await poster.ask(target, hello)).status == 404


async def test_a_host_that_does_not_read_its_answer(tmp_path: Path) -> None:
    """Proves: D11. A whole answer is not kept for ever either; one that reads slowly gets it."""
    async with web_harness(tmp_path, stall_timeout=0.3) as it, it.connect(small=True) as deaf, it.connect() as slow:
        for connection in (deaf, slow):
            connection.post("/mcp", call(size=6_000_000), **MODERN)
        got = 0
        async with asyncio.timeout(BOUND):
            while got < 6_000_000:
                part = await slow.reader.read(200_000)
                assert part, "it was cut off"
                got += len(part)
                await asyncio.sleep(0.005)
        await until(lambda: it.refused("slow_reader") == 1, "the other was given up")
        assert len(await deaf.ended()) < 6_000_000


async def test_the_refusals_are_on_the_page(tmp_path: Path) -> None:
    """Proves: D9. By limit, for whoever scrapes it."""
    async with web_harness(tmp_path, max_pending=1) as it:
        held = asyncio.create_task(it.call(hang=True))
        await until(lambda: it.upstream.hanging == 1, "one call hangs")
        assert (await it.call()).status == 503
        page = b"".join(it.app.telemetry.enable_metrics(it.app.snapshot).page()).decode()
        assert 'aggregator_refused_total{limit="pending"} 1' in page
        assert 'aggregator_open{limit="pending"} 1' in page
        it.upstream.release.set()
        assert json.loads((await held).body)["result"]["content"][0]["text"] == "done"
