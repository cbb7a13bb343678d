"""Streamable HTTP upstreams that forget, restart, or change."""

import asyncio

import pytest

from aggregator.domain.errors import RpcError
from aggregator.gateway.host import Host
from aggregator.upstream.transports import http as transport
from tests.peers.back_channel import FakeBackChannel
from tests.peers.fake_connection import FakeConnection
from tests.polling import until

from .app_harness import AppHarness, running_app, server_config, text_of
from .raw_http import Handler, RawHttpServer, ReceivedRequest, ReplyWriter, raw_http

# Enough for dozens of attempts at the shortened delays.
PATIENCE = 4.0
# How servers say that they do not know a session: by the letter, as the examples of the TypeScript SDK do, and others.
FORGOTTEN = {
    "404": (404, -32600, "Session not found"),
    "400": (400, -32000, "Bad Request: No valid session ID provided"),
    "404 and a code of the request": (404, -32603, "Session not found"),
    "400 without an id": (400, -32600, "Session expired. Please reinitialize."),
    "410": (410, -32001, "Session has expired"),
    "410 without words": (410, -32000, ""),
    "500": (500, -32603, "Unknown session"),
    "500 in more words": (500, -32603, "Internal error: session expired"),
    "400 before initialize": (400, -32602, "Received request before initialization was complete"),
    "200": (200, -32600, "Session not found"),
    "200 and another code": (200, -32001, "Invalid session ID"),
    "200 as an invalid param": (200, -32602, "Not found: session does not exist"),
    "200 not initialized": (200, -32002, "Server not initialized"),
}
# What sounds alike and is an error of the call: it is not sent again.
OF_THE_CALL = {
    "a session of the tool": (200, -32000, "Session not found: browser 5"),
    "another sentence": (200, -32000, "The database session was closed by an administrator"),
    "a timeout": (200, -32001, "Request timed out"),
    "bad params": (400, -32602, "session_id must be a number"),
    "no words": (200, -32001, ""),
    "server error": (500, -32603, "Failed: session not found in cache for user"),
}


def forgetful(raw: RawHttpServer, number: int, code: int, words: str) -> Handler:
    """Make the server answer unknown sessions with this status and error."""

    async def handler(seen: ReceivedRequest, reply: ReplyWriter) -> None:
        if seen.session in raw.sessions:
            await raw.ordinary(seen, reply)
        else:
            await reply.error(seen, number, code, words)

    return handler


def effects(raw: RawHttpServer) -> int:
    """Return how many calls named a session that the server knew."""
    return sum(seen.method == "tools/call" and seen.session in raw.sessions for seen in raw.seen)


@pytest.mark.parametrize("kind", FORGOTTEN)
async def test_a_forgotten_session_is_renewed(kind: str) -> None:
    """C2, C11: the call goes through on a new session, once; the standing stream is opened again."""
    async with raw_http() as raw:
        raw.on["tools/call"] = raw.on["tools/list"] = forgetful(raw, *FORGOTTEN[kind])
        async with running_app(server_config("web", type="http", url=raw.url)) as harness:
            await harness.check_echo("web.echo", "one")
            before = raw.count("initialize")
            raw.sessions.clear()
            await harness.check_echo("web.echo", "two")
            await harness.check_echo("web.echo", "three")
            assert raw.count("initialize") == before + 1
            assert effects(raw) == 2  # of the session known now


@pytest.mark.parametrize("kind", ["404", "410", "200"])
async def test_a_forgotten_session_on_a_stream_is_renewed(kind: str) -> None:
    """C2: an error that is the first event of a stream; after a message it is one of the call."""
    _, code, words = FORGOTTEN[kind]
    async with raw_http() as raw:
        early = True

        async def streamed(seen: ReceivedRequest, reply: ReplyWriter) -> None:
            if seen.session in raw.sessions:
                await raw.ordinary(seen, reply)
                return
            await reply.stream()
            if not early:
                await reply.event({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "begun"}})
            await reply.event({"jsonrpc": "2.0", "id": seen.message["id"], "error": {"code": code, "message": words}})

        raw.on["tools/call"] = streamed
        async with running_app(server_config("web", type="http", url=raw.url)) as harness:
            raw.sessions.clear()
            await harness.check_echo("web.echo", "renewed")
            raw.sessions.clear()
            early = False
            before = effects(raw)
            with pytest.raises(RpcError):
                await harness.call("web.echo")
            assert effects(raw) == before


@pytest.mark.parametrize("kind", OF_THE_CALL)
async def test_an_error_that_sounds_alike_is_the_answer(kind: str) -> None:
    """D7: the call may have run, and is not sent a second time."""
    number, code, words = OF_THE_CALL[kind]
    async with raw_http() as raw:

        async def refuse(seen: ReceivedRequest, reply: ReplyWriter) -> None:
            await reply.error(seen, number, code, words)

        raw.on["tools/call"] = refuse
        async with running_app(server_config("web", type="http", url=raw.url)) as harness:
            before = raw.count("initialize")
            with pytest.raises(RpcError):
                await harness.call("web.echo")
            assert raw.count("tools/call") == 1
            assert raw.count("initialize") == before


@pytest.mark.parametrize("kind", ["404", "410", "200"])
async def test_a_forgotten_session_of_one_host_is_renewed(kind: str) -> None:
    """C2, C11: that session once, for all calls of the host at the time, and no other host's."""
    async with raw_http() as raw:
        raw.on["tools/call"] = forgetful(raw, *FORGOTTEN[kind])
        web = server_config("web", type="http", url=raw.url, isolation="per_session")
        async with running_app(web) as harness:
            hosts = [Host("test", "canonical", version="2025-11-25", session=name) for name in ("one", "two")]

            async def call(host: Host) -> None:
                params = {"name": "web.echo", "arguments": {"say": str(host.session)}}
                result = await harness.app.gateway.answer(host, "tools/call", params, FakeBackChannel())
                assert text_of(dict(result)) == str(host.session)

            await call(hosts[0])
            forgotten = {seen.session for seen in raw.seen if seen.method == "tools/call"}
            await call(hosts[1])
            before = raw.count("initialize")
            raw.sessions.difference_update(forgotten)
            await asyncio.gather(*(call(host) for host in hosts for _ in range(3)))
            assert raw.count("initialize") == before + 1


async def test_a_call_that_goes_on_over_a_new_connection_has_its_messages_there() -> None:
    """C2, C8: the old session could not be renewed, so that the call belongs to another one."""
    async with raw_http() as raw:

        async def say(seen: ReceivedRequest, reply: ReplyWriter) -> None:
            if seen.session not in raw.sessions:
                await reply.error(seen, *FORGOTTEN["404"])
                return
            await reply.stream()
            said = {"level": "error", "data": "half done"}
            await reply.event({"jsonrpc": "2.0", "method": "notifications/message", "params": said})
            await reply.event({"jsonrpc": "2.0", "id": seen.message["id"], "result": {"content": []}})

        async def refuse_once(seen: ReceivedRequest, reply: ReplyWriter) -> None:
            del raw.on["initialize"]
            await reply.error(seen, 500, -32000, "starting")

        async with running_app(server_config("web", type="http", url=raw.url)) as harness:
            await harness.check_echo("web.echo")
            raw.sessions.clear()
            raw.on |= {"tools/call": say, "initialize": refuse_once}
            channel = FakeBackChannel()
            assert (await harness.call("web.echo", channel))["content"] == []
            assert [params["data"] for _, params in channel.notifications] == ["half done"]


@pytest.mark.parametrize("short", [0.0, 60.0])
async def test_a_forgotten_session_of_lists_is_opened_anew(short: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists are read over another one; where the server forgets each at once, over that of the calls."""
    monkeypatch.setattr("aggregator.upstream.sessions.isolation.SHORT_LIVED", short)
    async with raw_http() as raw:
        raw.on["tools/list"] = forgetful(raw, *FORGOTTEN["404"])
        async with running_app(server_config("web", type="http", url=raw.url)) as harness:
            upstream = harness.upstream("web")
            assert upstream.shared.session is not None
            calls, before = upstream.shared.session.connection, raw.count("initialize")
            forgotten = set(raw.sessions) - {calls._session}  # type: ignore[attr-defined]
            raw.sessions.difference_update(forgotten)
            listed = raw.count("tools/list")
            await upstream.read_tools_again()
            await until(lambda: raw.count("tools/list") >= listed + 2, "it was read again")
            await harness.check_echo("web.echo")
            assert raw.count("initialize") == before + (short == 0.0)
            assert upstream.shared.session.connection is calls


async def test_the_standing_stream_of_a_renewed_session_is_opened() -> None:
    """C11: without it no change would be heard of any more."""
    async with raw_http() as raw, running_app(server_config("web", type="http", url=raw.url)) as harness:
        await until(lambda: raw.count("GET") == 2, "the standing streams were opened, of calls and of lists")
        await raw.stop()
        raw.on["initialize"] = slow = Gate(raw)
        await raw.start()
        await until(lambda: raw.count("GET") >= 4, "the standing streams were tried again, and refused")
        slow.open.set()
        await until(lambda: raw.count("initialize") > 1 or harness.upstream("web").state == "ready", "it goes on")
        await harness.check_echo("web.echo")
        await until(
            lambda: any(seen.verb == "GET" and seen.session in raw.sessions for seen in raw.seen),
            "the standing stream of the new session was opened",
        )


class Gate:
    """An `initialize` handler that waits for `open`."""

    def __init__(self, raw: RawHttpServer) -> None:
        self.open = asyncio.Event()
        self._raw = raw

    async def __call__(self, seen: ReceivedRequest, reply: ReplyWriter) -> None:
        await self.open.wait()
        await self._raw.ordinary(seen, reply)


@pytest.mark.parametrize("kind", FORGOTTEN)
async def test_many_calls_find_the_session_forgotten_at_once(kind: str) -> None:
    """C11, A7: one renewal for all, and every call gets its result; also those that come during the renewal."""
    async with raw_http() as raw, running_app(server_config("web", type="http", url=raw.url)) as harness:
        raw.on["tools/call"] = raw.on["tools/list"] = forgetful(raw, *FORGOTTEN[kind])
        gate, before = Gate(raw), raw.count("initialize")
        raw.on["initialize"] = gate
        raw.sessions.clear()
        first = [asyncio.create_task(harness.check_echo("web.echo", str(number))) for number in range(20)]
        await until(lambda: raw.count("initialize") == before + 1, "a new session is asked for")
        later = [asyncio.create_task(harness.check_echo("web.echo", str(number))) for number in range(20)]
        await until(lambda: harness.upstream("web").in_flight == 40, "all forty run")
        gate.open.set()
        results = await asyncio.gather(*first, *later, return_exceptions=True)
        assert not [result for result in results if result is not None]
        assert raw.count("initialize") == before + 1


async def test_an_error_that_only_speaks_of_sessions_is_an_error() -> None:
    """C12, D8: HTTP 400 with the upstream's own error object is relayed, and the call is not sent again."""
    async with raw_http() as raw:

        async def refuse(seen: ReceivedRequest, reply: ReplyWriter) -> None:
            await reply.error(seen, 400, -32602, "Unknown booking session 'morning'; nothing was booked twice")

        raw.on["tools/call"] = refuse
        async with running_app(server_config("web", type="http", url=raw.url)) as harness:
            with pytest.raises(RpcError) as caught:
                await harness.call("web.echo")
            assert caught.value.code == -32602
            assert raw.count("tools/call") == 1


@pytest.mark.parametrize("code", [-32601, -32602, -32603])
async def test_a_404_that_names_a_fault_of_the_request_is_that_error(code: int) -> None:
    """C12, D8: the session is as good as before; a server that answers so to every call is not greeted for each."""
    async with raw_http() as raw:

        async def refuse(seen: ReceivedRequest, reply: ReplyWriter) -> None:
            await reply.error(seen, 404, code, "no such thing here")

        raw.on["tools/call"] = refuse
        async with running_app(server_config("web", type="http", url=raw.url)) as harness:
            for _ in range(2):
                with pytest.raises(RpcError) as caught:
                    await harness.call("web.echo")
                assert caught.value.code == code
            assert raw.count("tools/call") == 2
            assert raw.count("initialize") == 2  # one for calls, one for lists


SUBSCRIBABLE = {"protocolVersion": "2025-06-18", "serverInfo": {"name": "raw"}}
SUBSCRIBABLE |= {"capabilities": {"tools": {}, "resources": {"subscribe": True}}}


async def test_what_was_subscribed_is_subscribed_in_the_renewed_session() -> None:
    """C11: the new session knows nothing of it, and the host would wait for changes that nobody tells of."""
    async with raw_http() as raw:
        told: list[tuple[str | None, str]] = []

        async def greet(seen: ReceivedRequest, reply: ReplyWriter) -> None:
            session = f"own-{raw.count('initialize')}"
            raw.sessions.add(session)
            await reply.result(seen, SUBSCRIBABLE, mcp_session_id=session)

        async def resources(seen: ReceivedRequest, reply: ReplyWriter) -> None:
            await reply.result(seen, {"resources": [{"uri": "demo://one", "name": "one"}], "resourceTemplates": []})

        async def subscribe(seen: ReceivedRequest, reply: ReplyWriter) -> None:
            told.append((seen.session, seen.message["params"]["uri"]))
            await reply.result(seen, {})

        raw.on |= {"initialize": greet, "resources/subscribe": subscribe}
        raw.on |= {"resources/list": resources, "resources/templates/list": resources}
        raw.on["tools/call"] = forgetful(raw, *FORGOTTEN["404"])
        async with running_app(server_config("web", type="http", url=raw.url)) as harness:
            harness.host.session, harness.host.connection = "the host's", FakeConnection(lambda method, params: None)
            await harness.ask("resources/subscribe", {"uri": "mcp://web/demo://one"})
            assert told == [("own-1", "demo://one")]
            raw.sessions.clear()
            await harness.check_echo("web.echo")
            await until(lambda: len(told) == 2, "it is subscribed again")
            assert told[1] == ("own-3", "demo://one")  # the second is that of lists


async def test_a_server_that_forgets_every_session_at_once_is_bounded() -> None:
    """A7: two tries, then a clear end."""
    async with raw_http() as raw, running_app(server_config("web", type="http", url=raw.url)) as harness:

        async def forget(seen: ReceivedRequest, reply: ReplyWriter) -> None:
            await reply.error(seen, 404, -32000, "Session not found")

        raw.on["tools/call"] = forget
        result = await harness.call("web.echo")
        assert "keeps forgetting" in result["content"][0]["text"]
        assert raw.count("tools/call") == 2


@pytest.mark.parametrize("before", [False, True], ids=["legacy", "modern"])
@pytest.mark.parametrize("after", [False, True], ids=["legacy", "modern"])
async def test_a_server_that_restarts_on_the_same_port(before: bool, after: bool) -> None:
    """C11, D3: found again by itself, also when the new version speaks the other era."""
    async with raw_http() as raw:
        raw.modern = before
        async with running_app(server_config("web", type="http", url=raw.url)) as harness:
            await harness.check_echo("web.echo")
            await raw.stop()
            raw.modern = after
            assert (await harness.call("web.echo"))["isError"] is True
            await raw.start()
            async with asyncio.timeout(PATIENCE):
                while True:
                    if await answers(harness):
                        break
                    await asyncio.sleep(0.01)


async def answers(harness: AppHarness) -> bool:
    """Return whether a call succeeds now."""
    try:
        return not (await harness.call("web.echo")).get("isError")
    except RpcError:
        return False


async def test_a_subscription_that_breaks_off_is_taken_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """C11: proxies cut streams; without a new one no change would be heard of."""
    monkeypatch.setattr(transport, "RETRY_DELAY", 0.01)
    async with raw_http() as raw:
        raw.modern = True

        async def break_off(seen: ReceivedRequest, reply: ReplyWriter) -> None:
            await reply.stream()

        raw.on["subscriptions/listen"] = break_off
        async with running_app(server_config("web", type="http", url=raw.url)) as harness:
            await until(lambda: raw.count("subscriptions/listen") == 1, "changes were subscribed to")
            del raw.on["subscriptions/listen"]
            await until(lambda: raw.count("subscriptions/listen") >= 2, "they were again")
            await harness.check_echo("web.echo")
