"""HTTP+SSE upstreams (2024-11-05) with their own ways to fail."""

import asyncio
import json
import logging
from typing import Any

import pytest

from aggregator.domain.errors import RpcError
from aggregator.gateway.host import Host
from aggregator.upstream.transports import sse as transport
from tests.peers.back_channel import FakeBackChannel
from tests.polling import until

from .app_harness import code_of, raw_stdio, running_app, server_config, text_of
from .raw_http import RawSseServer, ReceivedRequest, ReplyWriter, never, raw_http, raw_sse

KEY = "key-in-the-query-5d1e"
TOKEN = "token-in-a-header-77aa"


def sse(raw: RawSseServer, **fields: Any) -> Any:
    secret = {"url": f"{raw.url}?key={KEY}", "headers": {"authorization": f"Bearer {TOKEN}"}}
    return server_config("web", **({"type": "sse", "timeout": 1, "limits": {"connect_timeout": 2}} | secret | fields))


@pytest.mark.parametrize(
    ("endpoint", "words"),
    [
        ("http://127.0.0.1:9/messages", "another origin"),
        ("//127.0.0.1:9/messages", "another origin"),
        ("https://127.0.0.1/messages", "another origin"),
        ("file:///etc/passwd", "another origin"),
        ("http://[broken/", ""),
        ("", ""),
    ],
)
async def test_an_endpoint_elsewhere_is_refused(endpoint: str, words: str, caplog: pytest.LogCaptureFixture) -> None:
    """C2, D1: our headers do not go to a stranger; the reason says so."""
    async with raw_sse() as raw:
        raw.endpoint = endpoint
        with caplog.at_level(logging.DEBUG):
            async with running_app(sse(raw), raw_stdio("good")) as harness:
                upstream = harness.upstream("web")
                assert upstream.state == "unavailable"
                assert words in upstream.reason_for_operator
                await harness.check_echo("good.echo")
    assert KEY not in caplog.text
    assert TOKEN not in caplog.text
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_an_endpoint_on_another_port_gets_no_credentials() -> None:
    """D1: nothing at all is sent there."""
    async with raw_sse() as raw, raw_http() as stranger:
        raw.endpoint = stranger.url
        async with running_app(sse(raw)) as harness:
            assert "another origin" in harness.upstream("web").reason
        assert not stranger.seen


async def test_a_stream_that_names_no_endpoint() -> None:
    """C1, C2: bounded by the connect time-out."""
    async with raw_sse() as raw:

        async def dumb(seen: ReceivedRequest, reply: ReplyWriter) -> None:
            await reply.stream()
            await asyncio.Event().wait()

        raw.on["GET"] = dumb
        async with running_app(sse(raw, limits={"connect_timeout": 0.5}), raw_stdio("good")) as harness:
            assert "did not answer within" in harness.upstream("web").reason
            await harness.check_echo("good.echo")


async def test_a_silent_stream_is_lost_and_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """C2, C11: silent past the heartbeat and no answer to a ping: a new stream."""
    monkeypatch.setattr(transport, "HEARTBEAT", 0.1)
    async with raw_sse() as raw, running_app(sse(raw)) as harness:
        await harness.check_echo("web.echo")
        raw.silent = True
        await until(lambda: harness.upstream("web").state == "reconnecting", "the silence was noticed")
        assert "silent for 0.1 s" in harness.upstream("web").reason
        raw.silent = False
        await until(lambda: harness.upstream("web").state == "ready", "it is back")
        await harness.check_echo("web.echo")
        assert raw.count("ping") >= 1


async def test_a_quiet_stream_that_answers_pings_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """C2: silence alone is no fault."""
    monkeypatch.setattr(transport, "HEARTBEAT", 0.05)
    async with raw_sse() as raw, running_app(sse(raw)) as harness:
        await until(lambda: raw.count("ping") >= 4, "it was asked four times")
        assert harness.upstream("web").state == "ready"
        assert raw.count("GET") == 2  # one for calls, one for lists


@pytest.mark.parametrize("kind", ["end", "event above the limit", "forgotten"])
async def test_a_stream_that_breaks_in_the_middle_of_a_call(kind: str) -> None:
    """A7, C11: one clear end for the call, sent once unless it was refused; then a new stream."""
    async with raw_sse() as raw:

        async def odd(seen: ReceivedRequest, reply: ReplyWriter) -> None:
            if seen.message["params"]["name"] != "odd":
                await raw.ordinary(seen, reply)
            elif kind == "forgotten":
                await reply.send(404, "no such session")
            else:
                await reply.send(202)
                stream = next(iter(raw.streams.values()))
                if kind == "end":
                    stream._writer.transport.abort()
                else:
                    await stream.raw(b"data: " + b"x" * 200_000)

        raw.on["tools/call"] = odd
        async with running_app(
            sse(raw, limits={"connect_timeout": 2, "max_message_bytes": 100_000}), raw_stdio("good")
        ) as harness:
            expected = "upstream_unavailable" if kind == "forgotten" else "outcome_unknown"
            assert code_of(await harness.call("web.odd")) == expected
            await until(lambda: raw.count("GET") >= 2 and harness.upstream("web").state == "ready", "it is back")
            await harness.check_echo("web.echo")
            await harness.check_echo("good.echo")
        # Again in new sessions, if the server says that it knows none.
        sent = sum(s.method == "tools/call" and s.message["params"]["name"] == "odd" for s in raw.seen)
        assert sent == 1 or (kind == "forgotten" and sent <= 4)


# How servers over HTTP+SSE say that they do not know a session: by a status, in words, in the body of an accepted POST.
FORGOTTEN: dict[str, tuple[int, str | dict[str, Any]]] = {
    "404": (404, "Could not find session"),
    "410": (410, "Gone"),
    "400": (400, "No transport found for sessionId"),
    "500": (500, "No transport found for sessionId"),
    "before initialize": (400, {"code": -32602, "message": "Received request before initialization was complete"}),
    "internal": (500, {"code": -32603, "message": "Internal error: session expired"}),
    "accepted": (200, {"code": -32600, "message": "Session not found"}),
}


async def test_a_forgotten_session_of_one_host_is_opened_anew() -> None:
    """C2, C11: on a connection of its own again; no other host's connection is used or ended."""
    async with raw_sse() as raw:
        hosts = [Host("test", "canonical", version="2025-11-25", session=name) for name in ("one", "two")]
        sent_on: list[str] = []

        async def once(seen: ReceivedRequest, reply: ReplyWriter) -> None:
            sent_on.append(seen.target)
            if len(sent_on) == 3:
                await reply.send(404, "Could not find session")
            else:
                await raw.ordinary(seen, reply)

        raw.on["tools/call"] = once
        async with running_app(sse(raw, timeout=10, isolation="per_session")) as harness:
            for host in (*hosts, *hosts):
                params = {"name": "web.echo", "arguments": {"say": str(host.session)}}
                result = await harness.app.gateway.answer(host, "tools/call", params, FakeBackChannel())
                assert text_of(dict(result)) == str(host.session)
        one, two, refused, again, second = sent_on
        assert (refused, second) == (one, two)
        assert len({one, two, again}) == 3


@pytest.mark.parametrize("kind", FORGOTTEN)
async def test_a_forgotten_session_is_opened_anew(kind: str) -> None:
    """C2, C11: nothing was run, so that the call goes through on a new stream, once."""
    status, said = FORGOTTEN[kind]
    async with raw_sse() as raw:

        async def once(seen: ReceivedRequest, reply: ReplyWriter) -> None:
            if raw.count("tools/call") > 1:
                await raw.ordinary(seen, reply)
            elif isinstance(said, str):
                await reply.send(status, said)
            else:
                await reply.send(status, {"jsonrpc": "2.0", "id": seen.message["id"], "error": said})

        raw.on["tools/call"] = once
        async with running_app(sse(raw, timeout=10)) as harness:
            streams = raw.count("GET")
            await harness.check_echo("web.echo", "found")
            assert raw.count("tools/call") == 2
            assert raw.count("GET") > streams


async def test_an_answer_in_the_body_of_its_post() -> None:
    """C8: it is the answer; an error of the call is no word about the session."""
    async with raw_sse() as raw:

        async def answer(seen: ReceivedRequest, reply: ReplyWriter) -> None:
            if seen.message["params"]["name"] == "odd":
                error = {"code": -32000, "message": "Session not found: browser 5"}
                await reply.send(200, {"jsonrpc": "2.0", "id": seen.message["id"], "error": error})
            else:
                result = {"content": [{"type": "text", "text": "here"}]}
                await reply.send(200, {"jsonrpc": "2.0", "id": seen.message["id"], "result": result})

        raw.on["tools/call"] = answer
        async with running_app(sse(raw, timeout=10)) as harness:
            assert text_of(await harness.call("web.echo")) == "here"
            with pytest.raises(RpcError, match="browser 5"):
                await harness.call("web.odd")
            assert raw.count("tools/call") == 2
            assert "in place of an event" in " ".join(harness.upstream("web").faults.for_agents())


@pytest.mark.parametrize("number", [307, 401, 403, 500, 503])
async def test_a_post_that_is_refused_fails_its_call(number: int) -> None:
    """A7: and no other."""
    async with raw_sse() as raw:

        async def odd(seen: ReceivedRequest, reply: ReplyWriter) -> None:
            if seen.message["params"]["name"] == "odd":
                await reply.send(number, "no", location=f"http://127.0.0.1:9/?key={KEY}")
            else:
                await raw.ordinary(seen, reply)

        raw.on["tools/call"] = odd
        async with running_app(sse(raw)) as harness:
            result = await harness.call("web.odd")
            assert code_of(result) in ("upstream_refused", "upstream_http_error")
            assert KEY not in json.dumps(result)
            await harness.check_echo("web.echo")


NONSENSE = [
    "data: hello\n\n",
    "data: [1]\n\n",
    "data: " + "[" * 900 + "]" * 900 + "\n\n",
    "data: " + "[" * 100_000 + "\n\n",
    'data: {"id":"' + "9" * 5000 + '","result":{}}\n\n',
    'data: {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}\n\n',
    "retry: " + "9" * 5000 + "\ndata: {}\n\n",
    "event: endpoint\ndata: /messages?session_id=other\n\n",
    "event: other\ndata: x\n\n",
    "data: \udcff\n\n",
]


@pytest.mark.parametrize("nonsense", NONSENSE, ids=lambda text: text[:60])
async def test_nonsense_on_the_stream_costs_nothing(nonsense: str, caplog: pytest.LogCaptureFixture) -> None:
    """C2, C4: calls go on over the same stream, or over a new one at once; never over one that is dead."""
    async with raw_sse() as raw, running_app(sse(raw, timeout=1)) as harness:
        await harness.check_echo("web.echo")
        for stream in raw.streams.values():
            await stream.raw(nonsense.encode("utf-8", "surrogateescape"))
        await harness.check_echo("web.echo")
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_calls_given_up_leave_no_connection_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """A8: posts that nobody answers do not fill up the server with our sockets."""
    monkeypatch.setattr("aggregator.upstream.transports.sse.NOTICE_TIMEOUT", 0.3)
    async with raw_sse() as raw, running_app(sse(raw, timeout=0.3)) as harness:
        raw.on["tools/call"] = raw.on["notifications/cancelled"] = never
        before = raw.open
        results = await asyncio.gather(*(harness.call("web.odd") for _ in range(50)))
        assert {code_of(result) for result in results} == {"upstream_timeout"}
        await until(lambda: raw.open <= before + 2, "the connections of calls given up are closed")


async def test_two_transports_at_one_address() -> None:
    """C2, E2: an address that refuses POST is tried as an event stream."""
    async with raw_sse() as raw:

        async def refuse(seen: ReceivedRequest, reply: ReplyWriter) -> None:
            await (reply.send(405) if seen.target.startswith("/sse") else raw.ordinary(seen, reply))

        raw.on["server/discover"] = raw.on["initialize"] = refuse
        async with running_app(sse(raw, type="auto")) as harness:
            assert harness.upstream("web").transport == "sse"
            assert text_of(await harness.call("web.echo", say="hello")) == "hello"


async def test_messages_go_to_the_scheme_of_the_stream_only() -> None:
    """D1: a stream over TLS that names a plain address of the same host would have our token read on the way."""
    async with raw_sse() as raw:
        raw.endpoint = f"https://127.0.0.1:{raw.port}/messages?session_id=%s"
        async with running_app(sse(raw, headers={"authorization": KEY})) as harness:
            assert "another origin" in harness.upstream("web").reason
            assert raw.count("initialize") == 0
