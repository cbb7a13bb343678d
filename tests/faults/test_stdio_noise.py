"""Upstreams that write what is no message to their stdout."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aggregator.upstream.transports import stdio
from tests.polling import until

from .app_harness import AppHarness, raw_stdio, running_app, text_of

GOOD = '{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"good"}]}}'
FLOODS = {
    "lines": "garbage that is no JSON at all\n",
    "one endless line": "garbage without any end ",
    "one endless message": '{"jsonrpc":"2.0","id":7,"result":{"text":"aaaaaaaaaaaaaaaaaaaaaaa',
    "braces": "{[{[{[ broken ]}]}]}\n",
    "log lines": '{"level":30,"time":1712345678901,"pid":7,"hostname":"h","msg":"request completed"}\n',
    "empty lines": "\n",
    "zeros": "\0",
    "unknown answers": '{"jsonrpc":"2.0","id":987654321,"result":{}}\n',
    "notifications": '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}\n',
    "arrays": '[{"a":1},{"b":2}]\n',
}


async def test_garbage_before_and_between_messages() -> None:
    """C3, C4: a banner on stdout costs nothing."""
    async with running_app(raw_stdio("noisy", "noisy")) as harness:
        for words in ("one", "two", "three"):
            await harness.check_echo("noisy.echo", words)


@pytest.mark.parametrize(
    "line",
    [
        '{"level":30,"time":1712345678901,"pid":7,"hostname":"h","reqId":$ID,"msg":"incoming request"}',
        '{"level":30,"time":1712345678901,"method":"POST","url":"/","msg":"incoming request"}',
        '{"level":30,"id":$ID,"msg":"request received"}',
        '{"level":30,"id":$ID,"method":"tools/call","msg":"request received"}',
        '{"level":50,"id":$ID,"err":{"type":"Error"},"error":"none","msg":"oops"}',
        '{"level":30,"id":$ID,"result":"ok","msg":"request completed"}',
    ],
)
async def test_log_lines_in_json_are_no_answers(line: str) -> None:
    """C3, C8: pino and its like log objects, ids among them; only JSON-RPC answers a call."""
    async with running_app(raw_stdio("logger")) as harness:
        assert text_of(await harness.call("logger.raw", lines=[line, GOOD, line])) == "good"
        await harness.check_echo("logger.echo")


# How a server writes the answer to a call.
ANSWERS = {
    "as it should be": [GOOD],
    "without a version": [GOOD.replace('"jsonrpc":"2.0",', "")],
    "over several lines": GOOD.replace(",", ",\n  ").split("\n"),
}


@pytest.mark.parametrize("answer", ANSWERS)
async def test_noise_between_answers_is_no_flood(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """C4: only noise without an answer in between makes reading pause."""
    monkeypatch.setattr(stdio, "NOISE_LIMIT", 100)
    async with running_app(raw_stdio("talkative")) as harness:
        session = harness.upstream("talkative").shared.session
        assert session is not None
        pauses: list[float] = []
        monkeypatch.setattr(session.connection.child, "pause", pauses.append)  # type: ignore[attr-defined]
        for _ in range(5):
            said = await harness.call("talkative.raw", lines=["listening to the words of others" * 2, *ANSWERS[answer]])
            assert text_of(said) == "good"
        assert pauses == []
        await harness.call("talkative.raw", lines=["listening to the words of others" * 4, *ANSWERS[answer]])
        assert pauses == [stdio.NOISE_PAUSE]


async def test_a_server_that_reads_may_be_sent_any_amount(monkeypatch: pytest.MonkeyPatch) -> None:
    """C8: the bound is on what it left unread, not on all that it was ever sent."""
    monkeypatch.setattr(stdio, "UNREAD_LIMIT", 2_000)
    async with running_app(raw_stdio("reader")) as harness:
        for _ in range(5):
            await harness.check_echo("reader.echo", "x" * 1_000)


@asynccontextmanager
async def flooded(pattern: str) -> AsyncIterator[AppHarness]:
    """A product behind which one server writes without end, beside one that behaves."""
    async with running_app(raw_stdio("flood", limits={"max_message_bytes": 1_000_000}), raw_stdio("good")) as harness:
        await harness.call("flood.flood", pattern=pattern)
        yield harness


@pytest.mark.parametrize("kind", FLOODS)
async def test_a_flood_leaves_the_neighbour_its_turn(kind: str) -> None:
    """C4, C8: for every share of the flood that is read, the neighbour gets its answer. Counted, not timed."""
    async with flooded(FLOODS[kind]) as harness:
        connection = harness.upstream("flood").shared.session
        assert connection is not None
        chunks = [0]
        child = connection.connection.child  # type: ignore[attr-defined]
        take = child._on_stdout

        def counted(data: bytes) -> None:
            chunks[0] += 1
            take(data)

        child._on_stdout = counted
        answered = 0
        while chunks[0] < 4 or answered < 3:
            before = chunks[0]
            await harness.check_echo("good.echo")
            answered += 1
            # A share is what the loop reads from the flood between two of the neighbour's messages; a busy machine
            # gives the flood longer turns, but never all of them.
            assert chunks[0] - before <= 2_000
            await asyncio.sleep(0)
        assert answered >= 1


async def test_the_flooding_server_itself_can_still_be_called() -> None:
    """C3: whole lines of noise between, and its answers are found."""
    async with flooded(FLOODS["lines"]) as harness:
        for words in ("one", "two", "three"):
            await harness.check_echo("flood.echo", words)


async def test_an_endless_line_keeps_no_memory() -> None:
    """C3: past the limit nothing more of it is kept."""
    async with flooded(FLOODS["one endless message"]) as harness:
        session = harness.upstream("flood").shared.session
        assert session is not None
        connection: Any = session.connection
        await until(lambda: connection._size > 5_000_000, "five times the limit has come")
        kept = sum(len(piece) for piece in connection._partial)
        assert kept <= 1_000_000


async def test_a_server_whose_list_changes_all_the_time_is_not_asked_all_the_time() -> None:
    """C5, C11: a storm of `list_changed` does not keep us listing without a pause."""
    async with running_app(raw_stdio("restless", "restless", log=None), raw_stdio("good")) as harness:
        session = harness.upstream("restless").shared.session
        assert session is not None
        lists = [0]
        request = session.connection.request

        async def counted(method: str, *rest: object, **more: object) -> object:
            lists[0] += method == "tools/list"
            return await request(method, *rest, **more)  # type: ignore[arg-type]

        session.connection.request = counted  # type: ignore[method-assign, assignment]
        for _ in range(300):
            await harness.check_echo("good.echo")
        assert lists[0] <= 30
