"""Upstreams that write a message over several lines, in UTF-16, or without its id."""

import asyncio
import json
import logging
import tracemalloc
from typing import Any

import pytest

from aggregator.domain.errors import RpcError
from aggregator.wire.spread_message import SpreadMessage

from .app_harness import code_of, raw_stdio, running_app, server_config, text_of
from .raw_http import ReceivedRequest, ReplyWriter, raw_http, raw_sse

RESULT: dict[str, Any] = {
    "content": [{"type": "text", "text": 'go{od }" ]'}],
    "structuredContent": {"id": 3, "result": 1},
}
ANSWER: dict[str, Any] = {"jsonrpc": "2.0", "id": "$ID", "result": RESULT}
NOTICE = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}
NOTICE_TEXT = json.dumps(NOTICE)
GOOD = '{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"good"}]}}'
UNNAMED = '{"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"whose?"}]}}'
UNREAD = '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error","data":[1]}}'
PRETTY = json.dumps(ANSWER, indent=2).replace('"$ID"', "$ID")


def lines(text: str) -> list[str]:
    return text.split("\n")


SPREAD = {
    "two spaces": lines(PRETTY),
    "tabs": lines(json.dumps(ANSWER, indent="\t").replace('"$ID"', "$ID")),
    "no indentation": lines(json.dumps(ANSWER, indent=0).replace('"$ID"', "$ID")),
    "line ends of Windows": lines(PRETTY.replace("\n", "\r\n")),
    "a batch": lines(json.dumps([NOTICE, ANSWER], indent=4).replace('"$ID"', "$ID")),
    "data on one line": ["{", '  "jsonrpc": "2.0", "id": $ID,', f'  "result": {json.dumps(RESULT)}', "}"],
    "empty lines": ["", *PRETTY.replace("\n", "\n\n").split("\n")],
    "behind another": [*lines(json.dumps(NOTICE, indent=2)), *lines(PRETTY)],
    "behind one that was cut off": [*lines(PRETTY.replace("$ID", "9999"))[:-3], *lines(PRETTY)],
    "behind broken text": ["{broken [1, 2", "[INFO] {", *lines(PRETTY)],
    "behind a log line over several lines": [*lines(json.dumps({"level": 30, "id": 1}, indent=2)), *lines(PRETTY)],
    "its id last": lines(
        json.dumps({"result": RESULT, "id": "$ID", "jsonrpc": "2.0"}, indent=2).replace('"$ID"', "$ID")
    ),
}


@pytest.mark.parametrize("case", SPREAD)
async def test_a_message_over_several_lines_is_used(case: str) -> None:
    """C3, C8: at once, and the fault is named to operators; the next message is taken as ever."""
    async with running_app(raw_stdio("s", timeout=30)) as harness:
        result = await harness.call("s.raw", lines=SPREAD[case])
        assert text_of(result) == 'go{od }" ]'
        assert "messages over several lines" in " ".join(harness.upstream("s").faults.for_agents())
        await harness.check_echo("s.echo")


async def test_a_message_on_one_line_ends_one_that_was_cut_off() -> None:
    """C8: what was begun is dropped, and answers nothing."""
    async with running_app(raw_stdio("s", timeout=30)) as harness:
        assert text_of(await harness.call("s.raw", lines=[*lines(PRETTY)[:-1], GOOD])) == "good"
        await harness.check_echo("s.echo")


async def test_one_that_cannot_be_read_ends_its_call() -> None:
    """C8, A7: by the id in it, at once."""
    async with running_app(raw_stdio("s", timeout=30)) as harness:
        result = await harness.call("s.raw", lines=lines(PRETTY.replace('"text": "go', '"text": no "go')))
        assert code_of(result) == "upstream_bad_answer"
        await harness.check_echo("s.echo")


def test_what_is_kept_of_it_is_bounded() -> None:
    """A message without an end, and one without a beginning, leave nothing behind."""
    spread = SpreadMessage(1000)
    for line in [b"{", b'"id": 1,', *[b'"a": ['] * 1000]:
        assert spread.take(line) is None
    assert len(spread._text) < 1000
    spread.drop()
    for line in (b"}", b"no message", b'{"level": 30,', b"[1,", b'{"id": 1}'):
        assert spread.take(line) is None
        assert not spread.is_open


def test_short_lines_take_no_more_than_their_size() -> None:
    """C8: a list of them would take many times as much."""
    spread = SpreadMessage(10**6)
    spread.take(b"{")
    spread.take(b'"result": [')
    tracemalloc.start()
    try:
        for number in range(300_000):
            assert spread.take(b"%d," % (number % 10)) is None
        assert tracemalloc.get_traced_memory()[1] < 2 * 10**6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("piece", [b'"\\', b'"', b"{ ", b'\\"'])
def test_a_hostile_line_is_read_in_linear_time(piece: bytes) -> None:
    """C8: strings without an end would be searched from each of their quotes, for hours."""
    spread = SpreadMessage(10**8)
    spread.take(b'{"id": 1, "result": ' + piece * 10**6)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
async def test_output_in_utf_16(encoding: str) -> None:
    """C3: with a mark or without, it is read, and the fault is named."""
    async with running_app(raw_stdio("s", f"encoding={encoding}", timeout=30)) as harness:
        assert harness.upstream("s").state == "ready", harness.upstream("s").reason
        assert "UTF-16" in " ".join(harness.upstream("s").faults.for_agents())
        assert text_of(await harness.call("s.raw", lines=[GOOD.replace("good", "gö😀\u010a")])) == "gö😀\u010a"


async def test_an_answer_without_an_id_ends_the_only_call() -> None:
    """C8, A7: at once and by name; what it holds is given to no call."""
    async with running_app(raw_stdio("s", timeout=30)) as harness:
        empty = UNNAMED.replace("{", '{"id":"",', 1)
        for spread in (UNNAMED, json.dumps(json.loads(UNNAMED), indent=2), empty):
            result = await harness.call("s.raw", lines=lines(spread))
            assert code_of(result) == "upstream_bad_answer"
            assert "without an id" in result["content"][0]["text"]
            assert "whose?" not in json.dumps(result)
            await harness.check_echo("s.echo")
        assert "answers without an id" in " ".join(harness.upstream("s").faults.for_agents())


@pytest.mark.parametrize("no_id", ["null", '""'])
@pytest.mark.parametrize("kind", ["one line", "several lines", "a batch", "an event", "a body"])
async def test_an_error_with_the_id_null_answers_the_only_request(kind: str, no_id: str) -> None:
    """C8, C12: the server could not read the id (JSON-RPC 2.0, section 5); its error is relayed whole, at once."""
    unread = UNREAD.replace("null", no_id)
    async with raw_http() as web, raw_sse() as events:

        async def on_stream(seen: ReceivedRequest, reply: ReplyWriter) -> None:
            await reply.send(202, "Accepted")
            del events.on["tools/call"]
            await next(iter(events.streams.values())).event(unread)

        async def in_body(seen: ReceivedRequest, reply: ReplyWriter) -> None:
            del web.on["tools/call"]
            await reply.send(200, unread, "application/json")

        servers = {
            "an event": server_config("s", type="sse", url=events.url, timeout=30),
            "a body": server_config("s", type="http", url=web.url, timeout=30),
        }
        said = {"several lines": json.dumps(json.loads(unread), indent=2), "a batch": f"[{NOTICE_TEXT},{unread}]"}
        async with running_app(servers.get(kind) or raw_stdio("s", timeout=30)) as harness:
            # It is no answer to the notification that came before the first request.
            await harness.check_echo("s.echo")
            events.on["tools/call"], web.on["tools/call"] = on_stream, in_body
            with pytest.raises(RpcError) as caught:
                await harness.call("s.echo" if kind in servers else "s.raw", lines=lines(said.get(kind, unread)))
            assert caught.value.to_wire() == {"code": -32700, "message": "Parse error", "data": [1]}
            await harness.check_echo("s.echo")


async def test_an_error_with_the_id_null_that_may_be_of_another_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """C8: of two calls under way, neither is ended."""
    with caplog.at_level(logging.INFO):
        async with running_app(raw_stdio("s", timeout=30)) as harness:
            held = asyncio.ensure_future(harness.call("s.hang"))
            await asyncio.sleep(0)
            assert text_of(await harness.call("s.raw", lines=[UNREAD, GOOD])) == "good"
            assert not held.done()
            held.cancel()
    assert "an answer without an id was dropped" in caplog.text
    # Secrets in its words could not be told from them in the log.
    assert "Parse error" not in caplog.text


async def test_an_answer_without_an_id_that_may_be_of_another_ends_none() -> None:
    """C8: of two calls under way, none can be told; nor behind a notification, which some servers answer."""
    async with running_app(raw_stdio("s", timeout=30)) as harness:
        held = asyncio.ensure_future(harness.call("s.hang"))
        await asyncio.sleep(0)
        assert text_of(await harness.call("s.raw", lines=[UNNAMED, GOOD])) == "good"
        assert not held.done()
        connection = harness.upstream("s").shared.session
        assert connection is not None
        await connection.connection.notify("notifications/roots/list_changed")
        held.cancel()
        assert text_of(await harness.call("s.raw", lines=[UNNAMED, GOOD])) == "good"


# What a server answers without an id, and whether it can be used. A slow list comes once it was asked for again.
UNCLEAR = {
    "the list": (["tools/list"], False),
    "the notification": (["notifications/initialized"], True),
    "the notification, and a slow list": (["notifications/initialized"], True),
    "both": (["notifications/initialized", "tools/list"], False),
}


@pytest.mark.parametrize("answer", [UNREAD, UNNAMED], ids=["an error", "a result"])
@pytest.mark.parametrize("transport", ["stdio", "sse"])
@pytest.mark.parametrize("case", UNCLEAR)
async def test_the_first_request_after_a_notification(case: str, transport: str, answer: str) -> None:
    """C8, C3: the list is asked for again, so that neither a refusal costs the time-out nor a list is lost."""
    unnamed, works = UNCLEAR[case]
    async with raw_sse() as events:

        async def odd(seen: ReceivedRequest, reply: ReplyWriter) -> None:
            await reply.send(202, "Accepted")
            await events.stream_of(seen).event(answer)

        held: dict[str, ReceivedRequest] = {}

        async def slow(seen: ReceivedRequest, reply: ReplyWriter) -> None:
            before = held.setdefault(seen.target, seen)
            await reply.send(202, "Accepted")
            if before is not seen:
                for one in (before, seen):
                    await events.answer_on(one, events.stream_of(one))

        events.on.update(dict.fromkeys(unnamed, odd))
        if "slow" in case:
            events.on["tools/list"] = slow
        limits = {"connect_timeout": 600, "reconnect_wait": 600}
        env = {"RAW_UNNAMED": json.dumps({"answer": answer, "methods": unnamed, "slow": "slow" in case})}
        server = (
            raw_stdio("s", "unnamed", env=env, limits=limits)
            if transport == "stdio"
            else server_config("s", type="sse", url=events.url, limits=limits)
        )
        async with running_app(server) as harness:
            upstream = harness.upstream("s")
            if works:
                await harness.check_echo("s.echo")
            else:
                expected = "JSON-RPC error -32700" if answer is UNREAD else "an answer without an id"
                assert expected in upstream.reason
            assert "answers without an id" in " ".join(upstream.faults.for_agents())
