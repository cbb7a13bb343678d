"""A host of the handshake eras whose connection breaks in a call takes the event stream up again (`Last-Event-ID`)."""

import asyncio
import json
from pathlib import Path
from typing import Any, NamedTuple

import mcp_types as types
import pytest
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import ClientMessageMetadata

from aggregator.frontends.web import resumable
from tests.bounds.web_harness import RawConnection, WebHarness, head, web_harness
from tests.end_to_end.test_sdk_hosts import greet
from tests.faults.app_harness import BOUND, Json
from tests.polling import until
from tests.replicas.breakable_relay import BreakableRelay

NEW, OLD = "2025-11-25", "2025-06-18"


class SentEvent(NamedTuple):
    """An event as it came: `message` is None for one that only has an id."""

    id: str | None
    retry: str | None
    message: Json | None


async def event(connection: RawConnection) -> SentEvent | None:
    """Return the next event of a chunked stream; None at its end."""
    fields: dict[str, str] = {}
    async with asyncio.timeout(BOUND):
        while True:
            raw = await connection.reader.readline()
            line = raw.decode().strip()
            if not raw or line == "0":
                return None
            if not line and fields:
                data = fields.get("data", "")
                return SentEvent(fields.get("id"), fields.get("retry"), json.loads(data) if data else None)
            name, _, value = line.partition(":")
            if name in ("id", "retry", "data", "event"):
                fields[name] = value.strip()


async def answer(connection: RawConnection) -> Json:
    """Return the message that answers the request on a stream."""
    while (found := await event(connection)) is not None:
        if found.message is not None and "id" in found.message:
            return found.message
    raise AssertionError("the stream ended without an answer")


class Session:
    """A session of one host."""

    def __init__(self, it: WebHarness, version: str, agent: str | None = None) -> None:
        self.it, self.version, self.agent = it, version, agent
        self.id = ""

    @property
    def headers(self) -> dict[str, str]:
        return {"mcp_session_id": self.id, "mcp_protocol_version": self.version, **self.it.key(self.agent)}

    async def open(self) -> "Session":
        hello = {"protocolVersion": self.version, "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
        asked = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}
        async with self.it.connect() as connection:
            self.id = (await connection.ask("/mcp", asked, **self.it.key(self.agent))).headers["mcp-session-id"]
        return self

    def post_call(self, connection: RawConnection, request_id: Any = 7, **arguments: Any) -> None:
        params = {"name": "up.echo", "arguments": arguments, "_meta": {"progressToken": "t"}}
        asked = {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}
        connection.post("/mcp", asked, **self.headers)

    async def resume(self, connection: RawConnection, last: str | None) -> int:
        """Ask for what comes after an event; return the status."""
        assert last is not None
        connection.send(head("GET", "/mcp", last_event_id=last, **self.headers))
        async with asyncio.timeout(BOUND):
            first = (await connection.reader.readuntil(b"\r\n\r\n")).decode()
        return int(first.split(" ")[1])

    async def broken(self, **arguments: Any) -> str:
        """Begin a call that hangs, and lose its connection; return the id of the last event."""
        hanging = self.it.upstream.hanging
        async with self.it.connect() as connection:
            self.post_call(connection, hang=True, **arguments)
            await until(lambda: self.it.upstream.hanging == hanging + 1, "the call is under way")
            primed = await event(connection)
        assert primed is not None
        assert (primed.message, primed.retry) == (None, str(resumable.RETRY))
        assert primed.id is not None
        return primed.id


def text(message: Json) -> str:
    said: str = message["result"]["content"][0]["text"]
    return said


@pytest.mark.parametrize("known", [False, True], ids=["in the pipeline", "without a task"])
@pytest.mark.parametrize("ends", ["before it is back", "after it is back"])
async def test_a_host_that_comes_back_gets_its_answer(tmp_path: Path, ends: str, known: bool) -> None:
    """Once made, once on record; whoever comes back again with the same id gets it again."""
    async with web_harness(tmp_path) as it:
        session = await Session(it, NEW).open()
        if known:
            async with it.connect() as connection:
                for number in range(2):
                    session.post_call(connection, number, say="quick")
                    assert text((await connection.answer()).json()) == "quick", "quick answers are no streams"
        records: list[Any] = []
        observers = it.app.gateway.call_log.observers
        observers.sinks = (*observers.sinks, records.append)
        last = await session.broken(say="late")
        if ends == "before it is back":
            it.upstream.release.set()
            await until(lambda: records, "the call has ended")
        for _ in range(2):
            async with it.connect() as connection:
                assert await session.resume(connection, last) == 200
                it.upstream.release.set()
                assert text(await answer(connection)) == "late"
                assert await event(connection) is None, "the stream ends with the answer"
        assert it.upstream.hanging == 0
        assert [record.outcome.status for record in records] == ["ok"]


@pytest.mark.parametrize("version", [OLD, NEW])
async def test_only_what_it_has_not_seen_is_sent_again(tmp_path: Path, version: str) -> None:
    """Clients of earlier revisions get ids with the events that there are, and none without data."""
    async with web_harness(tmp_path) as it:
        session = await Session(it, version).open()
        seen: list[SentEvent] = []
        async with it.connect() as connection:
            session.post_call(connection, notes=3, each=5)
            while not seen or "id" not in (seen[-1].message or {}):
                found = await event(connection)
                assert found is not None
                seen.append(found)
        messages = [one for one in seen if one.message is not None]
        assert version == NEW or len(messages) == len(seen), "an empty event is no message for it"
        assert [one.message["params"]["progress"] for one in messages[:-1] if one.message] == [0, 1, 2]
        assert messages[0].retry == str(resumable.RETRY)
        async with it.connect() as connection:
            assert await session.resume(connection, messages[1].id) == 200
            again = [await event(connection), await event(connection), await event(connection)]
        assert again == [messages[2], messages[3], None]


async def test_a_host_that_is_back_before_its_old_connection_ends(tmp_path: Path) -> None:
    """Its new one gets everything from then on, whatever becomes of the old one."""
    async with web_harness(tmp_path) as it:
        session = await Session(it, NEW).open()
        async with it.connect() as back:
            async with it.connect() as connection:
                session.post_call(connection, hang=True, say="late")
                primed = await event(connection)
                assert primed is not None
                assert await session.resume(back, primed.id) == 200
                assert await event(connection) is None, "the old one ends"
            streams = it.app.gateway.admission.in_use
            await until(lambda: streams["streams"] == 1, "the old one is gone")
            it.upstream.release.set()
            assert text(await answer(back)) == "late"


async def test_an_id_is_good_in_its_own_session_only(tmp_path: Path) -> None:
    """Not for another agent that knows the session, nor in another session of the same agent."""
    async with web_harness(tmp_path, agents=["one", "two"]) as it:
        session, other = await Session(it, NEW, "one").open(), await Session(it, NEW, "one").open()
        last = await session.broken(say="secret")
        thief = Session(it, NEW, "two")
        thief.id = session.id
        async with it.connect() as connection:
            assert await thief.resume(connection, last) == 404
        async with it.connect() as connection:
            assert await other.resume(connection, last) == 200
            it.upstream.release.set()
            said = await answer(connection)
            assert "cannot be had" in said["error"]["message"]
            assert said["id"] == 7


@pytest.mark.parametrize("why", ["its time is over", "its session has ended", "too much is kept"])
async def test_what_is_kept_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    """A host that comes too late is told so, as the answer to its request."""
    if why == "its time is over":
        monkeypatch.setattr(resumable, "KEPT_FOR", 0.0)
    if why == "too much is kept":
        monkeypatch.setattr(resumable, "TOGETHER", 100)
    async with web_harness(tmp_path) as it:
        session = await Session(it, NEW).open()
        last = await session.broken(say="x" * 200)
        if why == "its session has ended":
            async with it.connect() as connection:
                connection.send(head("DELETE", "/mcp", **session.headers))
                assert (await connection.answer()).status == 204
            await until(lambda: it.upstream.hanging == 0, "the call has ended with it")
        it.upstream.release.set()
        await until(lambda: len(it.app.gateway.drain) == 0, "the call has ended")
        async with it.connect() as connection:
            status = await session.resume(connection, last)
            if why == "its session has ended":
                assert status == 404
                return
            assert status == 200
            assert "kept no longer" in (await answer(connection))["error"]["message"]


async def test_the_end_of_a_key_ends_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call, too, and the stream that was taken up."""
    monkeypatch.setattr("aggregator.gateway.revocation.REVIEW_EVERY", 0.01)
    async with web_harness(tmp_path, agents=["one"]) as it, it.connect() as connection:
        session = await Session(it, NEW, "one").open()
        last = await session.broken()
        assert await session.resume(connection, last) == 200
        it.app.access.keyring.use_policy_keys([])
        await until(lambda: it.upstream.hanging == 0, "the call has ended")
        assert await event(connection) is None
        async with it.connect() as other:
            assert await session.resume(other, last) == 401


@pytest.mark.parametrize("last", ["a~b~c~d", "nothing", "a~b~1~!!", "a~b~99999999999999999999~"])
async def test_an_id_that_is_none_of_ours_is_not_looked_at(tmp_path: Path, last: str) -> None:
    """The host gets the standing stream of its session, as without it."""
    async with web_harness(tmp_path) as it, it.connect() as connection:
        session = await Session(it, NEW).open()
        assert await session.resume(connection, last) == 200
        async with it.connect() as other:
            assert await session.resume(other, last) == 409, "there is one"


async def test_the_client_of_the_official_sdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes back by itself, and its program sees nothing of it."""
    monkeypatch.setattr(resumable, "RETRY", 10)
    async with web_harness(tmp_path) as it, BreakableRelay(it.port) as relay:
        primed = asyncio.Event()

        async def note(token: str) -> None:
            primed.set()

        async with (
            streamable_http_client(f"http://127.0.0.1:{relay.port}/mcp") as streams,
            ClientSession(*streams) as session,
        ):
            await greet(session, NEW)
            params = types.CallToolRequestParams(name="up.echo", arguments={"hang": True, "say": "late"})
            asked = asyncio.create_task(
                session.send_request(
                    types.CallToolRequest(params=params),
                    types.CallToolResult,
                    metadata=ClientMessageMetadata(on_resumption_token_update=note),
                )
            )
            async with asyncio.timeout(BOUND):
                await primed.wait()
                for _ in range(2):
                    primed.clear()
                    relay.cut()
                it.upstream.release.set()
                result = await asked
    assert isinstance(result.content[0], types.TextContent)
    assert result.content[0].text == "late"
    assert it.upstream.count("tools/call") == 1


async def test_a_call_of_another_host_on_the_same_connection_stays_its_own(tmp_path: Path) -> None:
    """D4: behind a proxy, hosts share connections. A host that comes back ends the response of its call, and the next
    request on that connection is another host's, which must not be taken for the first one afterwards.
    """
    async with web_harness(tmp_path, agents=["one", "two"]) as it, it.connect() as shared, it.connect() as back:
        first, second = await Session(it, NEW, "one").open(), await Session(it, NEW, "two").open()
        first.post_call(shared, hang=True)
        primed = await event(shared)
        assert primed is not None
        assert await first.resume(back, primed.id) == 200
        assert await event(shared) is None
        await shared.reader.readline()
        # Its answer comes while a request of the second host is under way.
        done = asyncio.Event()
        listing, gateway = it.app.gateway.answer, it.app.gateway

        async def answer_late(host: Any, method: str, params: Any, channel: Any) -> Any:
            if method == "tools/list":
                await done.wait()
            return await listing(host, method, params, channel)

        gateway.answer = answer_late  # type: ignore[method-assign]
        shared.post("/mcp", {"jsonrpc": "2.0", "id": 8, "method": "tools/list", "params": {}}, **second.headers)
        it.upstream.release.set()
        assert text(await answer(back)) == "done"
        done.set()
        assert (await shared.answer()).status == 200
        agents: list[str | None] = []
        it.app.telemetry.observers.sinks += (lambda record: agents.append(record.caller.agent_id),)
        for _ in range(2):
            second.post_call(shared)
            assert (await shared.answer()).status == 200
        await until(lambda: len(agents) == 2, "the calls are on record")
        assert agents == ["two", "two"]
