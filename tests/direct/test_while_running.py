"""What happens while a call runs that no task works on: it ends as it would in the pipeline, and nothing is left."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from aggregator.domain.call_record import CallRecord
from aggregator.frontends import stdio
from aggregator.gateway.calls import plan
from aggregator.identity.keys import new_key
from tests.bounds.web_harness import RawConnection
from tests.direct.direct_harness import (
    DIRECT,
    HOST_KINDS,
    PIPELINE,
    TAKEN_OVER,
    DirectHarness,
    HttpHost,
    StdioHost,
    ask,
    child,
    direct_harness,
    free,
    request,
    text,
    timeless,
)
from tests.end_to_end.scripted_host import BOUND, MODERN
from tests.peers.toolbox import Json
from tests.polling import until

pytestmark = pytest.mark.usefixtures("through")
WAYS: Final = {False: PIPELINE, True: DIRECT}
HOLD: Final = {"keep": "k", "writes": [text("late")]}
QUESTION: Final = (
    '{"jsonrpc":"2.0","id":"k","method":"elicitation/create","params":'
    '{"message":"Which?","requestedSchema":{"type":"object","properties":{}}}}'
)


@pytest.fixture
def unhurried() -> None:
    """Hand calls that run for a while to tasks, as a gateway does."""


@asynccontextmanager
async def running(it: DirectHarness, kind: tuple[str, str], tool: str, *, on: bool, **more: Any) -> AsyncIterator[Any]:
    """A host, once a call of it has reached its server and not been answered."""
    async with it.host(*kind, **more) as host:
        it.on = on
        for _ in range(2):
            await ask(host, {"name": tool, "arguments": {"n": 1}})
        assert it.way == WAYS[on]
        host.send(request(host, {"name": tool, "arguments": HOLD}))
        server = it.app.upstreams[tool.partition(".")[0]]
        await until(lambda: server.in_flight == 1, "the call is sent")
        assert it.way == WAYS[on]
        yield host
    await until(lambda: server.in_flight == 0, "the call has ended")


async def other(it: DirectHarness, tool: str, **script: Any) -> str:
    """The text that another host gets for a call with this script."""
    async with it.host("http", MODERN) as host:
        return (await ask(host, {"name": tool, "arguments": script})).text


async def ended(it: DirectHarness) -> CallRecord:
    """The record of the call that ran, once nothing runs."""
    gateway = it.app.gateway
    await until(lambda: len(gateway.drain) + gateway.admission.in_use["pending"] == 0, "nothing runs")
    it.nothing_is_left()
    return timeless(it.records[-1])


async def cancel(it: DirectHarness, host: Any) -> None:
    """Cancel the running call as the era and the frontend of its host have it."""
    gone = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
    if isinstance(host, StdioHost):
        host.send(gone)
    elif host.modern:
        host.connection.writer.close()
    else:
        async with RawConnection(it.port) as connection:
            answer = await connection.ask("/mcp", gone, **host.headers)
            assert answer.status == 202


@pytest.mark.parametrize("kind", HOST_KINDS, ids="-".join)
async def test_cancelled_by_its_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: tuple[str, str]) -> None:
    """A8, C3: the server is told, the record says so, and what comes late is dropped."""
    async with direct_harness(tmp_path, monkeypatch) as it:
        for tool in ("old.any", "new.any"):
            found = []
            for on in (False, True):
                async with running(it, kind, tool, on=on) as host:
                    await cancel(it, host)
                    record = await ended(it)
                    assert (record.outcome.status, record.outcome.error_code) == ("cancelled", "cancelled")
                    spoken = record.sending.upstream_version
                    found.append((record.called.tool, record.arguments, record.steps, spoken))
                    heard = json.loads(await other(it, tool, heard=True))
                    assert [message["method"] for message in heard][-1] == "notifications/cancelled"
                    assert await other(it, tool, free="k")
                    if isinstance(host, StdioHost):
                        assert (await ask(host, {"name": tool, "arguments": {"n": 1}}, 8)).answer["id"] == 8
            assert found[0] == found[1]
        it.nothing_is_left()


@pytest.mark.parametrize("kind", HOST_KINDS, ids="-".join)
async def test_cancelled_and_answered_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: tuple[str, str]
) -> None:
    """C3, F1: whichever comes first, there is one record and nothing is left."""
    async with direct_harness(tmp_path, monkeypatch) as it, running(it, kind, "old.any", on=True) as host:
        before = len(it.records)
        session: Any = it.app.upstreams["old"].shared.session
        (call,) = session.back_channel._running
        call.take_over()
        call.take_result({"content": []})
        await cancel(it, host)
        assert (await ended(it)).outcome.status in ("ok", "cancelled")
        assert len(it.records) == before + 1


@pytest.mark.parametrize("kind", HOST_KINDS, ids="-".join)
async def test_its_server_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: tuple[str, str]) -> None:
    """F1: the host is told that it is not known whether the call took effect."""
    async with direct_harness(tmp_path, monkeypatch) as it:
        found = []
        for on in (False, True):
            async with running(it, kind, "old.any", on=on) as host:
                async with it.host("http", MODERN) as killer:
                    killer.send(request(killer, {"name": "old.any", "arguments": {"leave": 3, "writes": []}}))
                    answer = (await host.receive()).answer
                    await killer.receive()
                assert answer["result"]["_meta"]["aggregator/error"]["code"] == "outcome_unknown"
                await ended(it)
                records = [timeless(record) for record in it.records[-2:]]
                found.append((answer, sorted(record.outcome.error_message or "" for record in records)))
                await until(lambda: it.app.upstreams["old"].state == "ready", "the server is back")
        assert found[0] == found[1]


@pytest.mark.parametrize("kind", HOST_KINDS, ids="-".join)
async def test_no_answer_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: tuple[str, str]) -> None:
    """A8: a limit that is over before a task has taken the call over holds all the same."""
    monkeypatch.setattr(plan, "_SHORTEST_LIMIT", 0.0)
    servers = {"old": child("legacy", timeout=0.04, health={"failures": 100})}
    async with direct_harness(tmp_path, monkeypatch, servers) as it:
        for on in (False, True):
            # The server may be slower than that on a busy machine: then the call is made again.
            async with it.host(*kind) as host:
                it.on = on
                while it.way_or_none != WAYS[on] or it.records[-1].outcome.status != "ok":
                    await ask(host, {"name": "old.any", "arguments": {"n": 1}})
                answer = (await ask(host, {"name": "old.any", "arguments": HOLD})).answer
                assert answer["result"]["_meta"]["aggregator/error"]["code"] == "upstream_timeout"
                record = await ended(it)
                assert (record.outcome.status, it.way) == ("timeout", TAKEN_OVER if on else PIPELINE)


@pytest.mark.parametrize("kind", [HOST_KINDS[0], HOST_KINDS[2]], ids="-".join)
async def test_a_question_to_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: tuple[str, str]) -> None:
    """A5: a server of the handshake eras asks while its call runs, and gets the answer."""
    able: Json = {"elicitation": {"form": {}}}
    async with direct_harness(tmp_path, monkeypatch) as it, it.host(*kind, able=able) as host:
        found = []
        for on in (False, True):
            it.on = on
            for _ in range(2):
                await ask(host, {"name": "old.any", "arguments": {"n": 1}})
            host.send(request(host, {"name": "old.any", "arguments": {**HOLD, "first": [QUESTION]}}))
            question = await asked(host)
            said = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {}}}
            if isinstance(host, HttpHost):
                async with RawConnection(it.port) as connection:
                    assert (await connection.ask("/mcp", said, **host.headers)).status == 202
                answer = json.loads(await host.connection.event())
                assert await host.connection.reader.readuntil(b"0\r\n\r\n")
            else:
                host.send(said)
                answer = await host.next()
            found.append((question["params"], answer, await ended(it)))
            assert it.way == (TAKEN_OVER if on else PIPELINE)
        assert found[0][:2] == found[1][:2]
        assert found[0][2].steps == found[1][2].steps


@pytest.mark.parametrize("kind", [HOST_KINDS[0], HOST_KINDS[2]], ids="-".join)
async def test_a_server_that_asks_and_answers_in_one_breath(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: tuple[str, str]
) -> None:
    """A5: nothing waits for the host any more once its call has ended."""
    able: Json = {"elicitation": {"form": {}}}
    async with direct_harness(tmp_path, monkeypatch) as it, it.host(*kind, able=able) as host:
        tasks = asyncio.all_tasks()
        for on in (False, True):
            it.on = on
            for _ in range(2):
                await ask(host, {"name": "old.any", "arguments": {"n": 1}})
            host.send(request(host, {"name": "old.any", "arguments": {"writes": [QUESTION, text("early")]}}))
            if isinstance(host, StdioHost):
                while (answer := await host.next()).get("id") != 7 or "result" not in answer:
                    assert answer["method"] in ("elicitation/create", "notifications/cancelled")
            else:
                found = await host.receive()
                answer = json.loads(found.messages[-1])
            assert answer["result"]["content"][0]["text"] == "early"
            assert it.way == (DIRECT if on else PIPELINE)
            await ended(it)
            await until(lambda: not asyncio.all_tasks() - tasks, "no question waits")


async def asked(host: Any) -> Any:
    """The question that the host gets."""
    if isinstance(host, HttpHost):
        await host.connection.reader.readuntil(b"\r\n\r\n")
        # The first event of a host of 2025-11-25 only has an id.
        return json.loads(await host.connection.event() or await host.connection.event())
    return await host.next()


async def test_a_host_that_can_be_asked_by_a_result_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A5: such a call has to be parked when its server asks, which takes a task from the start."""
    async with direct_harness(tmp_path, monkeypatch) as it:
        for kind in (HOST_KINDS[1], HOST_KINDS[3]):
            async with it.host(*kind, able={"elicitation": {}}) as host:
                for tool, way in (("old.any", PIPELINE), ("new.any", DIRECT)):
                    assert (await it.compare(host, {"name": tool, "arguments": {"n": 1}}))[0] == way


@pytest.mark.parametrize("kind", HOST_KINDS, ids="-".join)
async def test_the_drain_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: tuple[str, str]) -> None:
    """F6: it is answered; the next one is refused, and both are on record."""
    async with direct_harness(tmp_path, monkeypatch) as it:
        async with running(it, kind, "old.any", on=True) as host:
            drain = it.app.gateway.drain
            drain.start(BOUND)
            waiting = asyncio.create_task(drain.wait_idle(BOUND))
            host.send(request(host, {"name": "old.any", "arguments": {"n": 1}}, 8))
            if isinstance(host, StdioHost):
                assert (await host.receive()).answer["id"] == 8
            assert not waiting.done()
            free(it, "old")
            assert (await host.receive()).text == "late"
            if isinstance(host, HttpHost):
                assert any("retry-after" in line for line in (await host.receive()).head)
            assert await waiting
        await ended(it)
        assert sorted(record.outcome.status for record in it.records[-2:]) == ["ok", "unavailable"]


@pytest.mark.parametrize("kind", HOST_KINDS[2:], ids="-".join)
async def test_its_key_is_revoked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: tuple[str, str]) -> None:
    """D4: the call ends, and its host is refused."""
    monkeypatch.setattr("aggregator.gateway.revocation.REVIEW_EVERY", 0.02)
    key = new_key("one", now=0.0)
    async with direct_harness(tmp_path, monkeypatch) as it:
        found = []
        for on in (False, True):
            it.app.access.keyring.use_policy_keys([key.record])
            async with running(it, kind, "old.any", on=on, x_api_key=key.text) as host:
                it.app.access.keyring.use_policy_keys([])
                found.append(((await host.receive()).head, (await ended(it)).outcome.status))
            free(it, "old")
        assert found[0] == found[1]
        assert found[0][1] == "cancelled"


async def test_its_session_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C3: the call is cancelled, and its stream ends without an answer."""
    async with direct_harness(tmp_path, monkeypatch) as it:
        found = []
        for on in (False, True):
            async with running(it, HOST_KINDS[2], "old.any", on=on) as host, RawConnection(it.port) as connection:
                lines = {"mcp-session-id": host.headers["mcp_session_id"], "mcp-protocol-version": "2025-11-25"}
                fields = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
                connection.send(f"DELETE /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\n{fields}\r\n".encode())
                assert (await connection.answer()).status == 204
                found.append((await host.receive(), (await ended(it)).outcome.status))
                host.send(request(host, {"name": "old.any", "arguments": {"n": 1}}))
                assert (await host.receive()).head[0] == "HTTP/1.1 404 Not Found"
            assert await other(it, "old.any", free="k")
        assert found[0] == found[1]
        assert found[0][1] == "cancelled"


@pytest.mark.parametrize("kind", HOST_KINDS, ids="-".join)
async def test_its_host_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: tuple[str, str]) -> None:
    """F1: in the handshake eras over HTTP the call goes on; else it is cancelled. It is on record in any case."""
    async with direct_harness(tmp_path, monkeypatch) as it:
        found = []
        monkeypatch.setattr("aggregator.frontends.stdio.DRAIN", 0.0)
        for on in (False, True):
            before = len(it.records)
            async with running(it, kind, "old.any", on=on) as host:
                if isinstance(host, StdioHost):
                    host.close()
                else:
                    host.connection.writer.transport.abort()
                if kind == HOST_KINDS[2]:
                    assert await other(it, "old.any", free="k")
                record = await ended(it)
            assert len([one for one in it.records[before:] if one.arguments == HOLD]) == 1
            found.append(next(one.outcome.status for one in it.records[before:] if one.arguments == HOLD))
            if kind != HOST_KINDS[2]:
                assert await other(it, "old.any", free="k")
            assert record
        assert found == (["ok"] * 2 if kind == HOST_KINDS[2] else ["cancelled"] * 2)


async def test_a_host_that_reads_no_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """D11, F5: calls that run when its session ends for that are on record, however young they are."""
    monkeypatch.setattr(stdio, "UNREAD_BYTES", 65_536)
    async with direct_harness(tmp_path, monkeypatch) as it:
        async with it.host("stdio", MODERN) as host:
            await ask(host, {"name": "old.any", "arguments": {"n": 1}})
            host.pause()
            # In one piece, so that all are begun before the first answer is written.
            scripts = [HOLD, {"writes": [text("$FILL")], "fill": 60_000}] * 12
            calls = [request(host, {"name": "old.any", "arguments": one}, at) for at, one in enumerate(scripts)]
            host.send(b"\n".join(json.dumps(call).encode() for call in calls))
            await it.stdio_ended()
        await until(lambda: len(it.app.gateway.drain) == 0, "nothing runs")
        it.nothing_is_left()
        assert len(it.records) == len(it.ways)
