"""Upstreams over stdio that answer, but not as they should."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from aggregator.domain.errors import RpcError
from tests.polling import until

from .app_harness import code_of, lines_of, raw_stdio, running_app, text_of

GOOD = '{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"good"}]}}'


async def test_one_that_never_answers_a_call_times_out_by_name() -> None:
    """A8, B4, D7: the limit is named, and that it may have taken effect; the connection goes on."""
    async with running_app(raw_stdio("slow", tools={"timeout": {"hang": 0.3}})) as harness:
        results = await asyncio.gather(*(harness.call("slow.hang") for _ in range(20)), harness.check_echo("slow.echo"))
        for result in results[:20]:
            assert result is not None
            assert code_of(result) == "upstream_timeout"
            assert result["_meta"]["aggregator/error"]["limit"] == "0.3 s"
            assert result["_meta"]["aggregator/error"]["retryable"] is False
        await harness.check_echo("slow.echo")
        assert harness.upstream("slow").in_flight == 0


@pytest.mark.parametrize(
    "before",
    [
        '{"jsonrpc":"2.0","id":99999,"result":{}}',
        '{"jsonrpc":"2.0","id":"who","result":{}}',
        '{"jsonrpc":"2.0","id":[1],"result":{}}',
        '{"jsonrpc":"2.0","id":{"a":1},"error":{"code":1,"message":"x"}}',
        '{"jsonrpc":"2.0","id":1.5,"result":{}}',
        '{"jsonrpc":"2.0","id":"' + "9" * 5000 + '","result":{}}',
        '{"jsonrpc":"2.0","id":' + "9" * 5000 + ',"result":{}}',
        '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":[1],"progress":1}}',
        '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":{"a":1}}}',
        '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[1]}}',
        '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{"a":1}}}',
        '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":$ID}}',
        '{"jsonrpc":"2.0","method":"notifications/message","params":{"data":{"deep":[[[1]]]},"level":7}}',
        '{"jsonrpc":"2.0","method":7,"params":{}}',
        '{"jsonrpc":"2.0","method":"x","params":[1,2]}',
        '{"jsonrpc":"2.0","id":null,"method":"x"}',
        "[]",
        "[[[[[[1]]]]]]",
        '[{"jsonrpc":"2.0","method":"x"},{"id":7}]',
        "[" * 100_000,
        "[" * 900 + "]" * 900,
        '{"id":' * 100_000,
    ],
    ids=lambda before: before[:70],
)
async def test_nonsense_before_an_answer_costs_nothing(before: str) -> None:
    """C4, C8: an answer nobody waits for, or a message that is none, is dropped; the one that comes next is taken."""
    async with running_app(raw_stdio("odd", timeout=1)) as harness:
        assert text_of(await harness.call("odd.raw", lines=[before, GOOD])) == "good"
        await harness.check_echo("odd.echo")


async def test_an_answer_given_twice_counts_once() -> None:
    """C8: the second is dropped, whoever may be waiting by then."""
    async with running_app(raw_stdio("odd")) as harness:
        assert text_of(await harness.call("odd.raw", lines=[GOOD, GOOD, GOOD])) == "good"
        await harness.check_echo("odd.echo", "once more")


async def test_an_id_that_came_back_as_text_is_recognised() -> None:
    """C8: some servers turn 5 into "5"."""
    async with running_app(raw_stdio("odd")) as harness:
        assert text_of(await harness.call("odd.raw", lines=[GOOD.replace("$ID", '"$ID"')])) == "good"


async def test_an_id_that_is_true_answers_nobody() -> None:
    """C8: to Python, true equals 1; the first request of a connection has that id."""
    async with running_app(raw_stdio("odd", protocol="legacy", timeout=1)) as harness:
        stranger = '{"jsonrpc":"2.0","id":true,"result":{"content":[{"type":"text","text":"not yours"}]}}'
        assert text_of(await harness.call("odd.raw", lines=[stranger, GOOD])) == "good"


@pytest.mark.parametrize(
    "body",
    [
        "",
        ',"result":null',
        ',"result":[1]',
        ',"result":"text"',
        ',"error":"text"',
        ',"error":null',
        ',"error":[]',
        ',"error":{}',
        ',"error":{"code":"x","message":["y"]}',
    ],
)
async def test_an_answer_that_is_neither_result_nor_error(body: str) -> None:
    """C8, A7: a clear end at once, for this call only."""
    async with running_app(raw_stdio("odd")) as harness:
        with pytest.raises(RpcError):
            await harness.call("odd.raw", lines=[f'{{"jsonrpc":"2.0","id":$ID{body}}}'])
        await harness.check_echo("odd.echo")


async def test_an_answer_that_is_both_result_and_error() -> None:
    """C8: one of them is taken; there is exactly one answer."""
    async with running_app(raw_stdio("odd")) as harness:
        both = GOOD.replace('"result"', '"error":{"code":5,"message":"also"},"result"')
        assert text_of(await harness.call("odd.raw", lines=[both])) == "good"
        await harness.check_echo("odd.echo")


async def test_an_error_is_relayed_whole() -> None:
    """C12: code, message and data as the upstream had them."""
    async with running_app(raw_stdio("odd")) as harness:
        line = '{"jsonrpc":"2.0","id":$ID,"error":{"code":-32099,"message":"no","data":{"why":[1,null]}}}'
        with pytest.raises(RpcError) as caught:
            await harness.call("odd.raw", lines=[line])
        assert caught.value.to_wire() == {"code": -32099, "message": "no", "data": {"why": [1, None]}}


async def test_requests_of_its_own_are_answered() -> None:
    """C8: `ping` is, what we declared no capability for is refused, and a repeated id does not confuse us."""
    async with running_app(raw_stdio("odd")) as harness:
        questions: list[dict[str, Any]] = [
            {"id": "a", "method": "ping"},
            {"id": "b", "method": "sampling/createMessage", "params": {"messages": []}},
            {"id": 3, "method": "roots/list"},
            {"id": "d", "method": "elicitation/create", "params": {"message": "your password?"}},
            {"id": "e", "method": "ping", "params": [1]},
        ]
        answers = json.loads(text_of(await harness.call("odd.ask", questions=questions)))
        assert [answer["id"] for answer in answers] == ["a", "b", 3, "d", "e"]
        assert answers[0]["result"] == {}
        assert [answer["error"]["code"] for answer in answers[1:]] == [-32601, -32601, -32601, -32600]


async def test_a_result_of_20_mb_passes_whole() -> None:
    """C8: every byte, and the neighbour is served meanwhile."""
    size = 20_000_000
    async with running_app(raw_stdio("big", timeout=15), raw_stdio("good")) as harness:
        result, _ = await asyncio.gather(harness.call("big.large", size=size), harness.check_echo("good.echo"))
        assert text_of(result) == "x" * size


@pytest.mark.parametrize("limit", [1024, 32_768, 1_000_000])
@pytest.mark.parametrize("kind", ["large", "rows"])
async def test_a_message_above_the_limit_costs_that_call_only(limit: int, kind: str) -> None:
    """C8, A7: a clear error at once, other calls in flight and the connection untouched."""
    patience = {"timeout": {"hang": 2}}
    async with running_app(
        raw_stdio("big", tools=patience, timeout=2, limits={"max_message_bytes": limit + 2048})
    ) as harness:
        others = [asyncio.create_task(harness.call("big.hang")) for _ in range(30)]
        await until(lambda: harness.upstream("big").in_flight == 30, "thirty calls run")
        result = await harness.call(f"big.{kind}", size=limit * 3, count=limit // 20)
        assert code_of(result) == "upstream_bad_answer"
        assert "limits.max_message_bytes" in result["content"][0]["text"]
        assert not any(other.done() for other in others), "an innocent call was failed"
        await harness.check_echo("big.echo")
        for other in others:
            other.cancel()
        await asyncio.gather(*others, return_exceptions=True)


@pytest.mark.parametrize("tool", ["leave", "close_stdout"])
async def test_a_connection_that_ends_in_the_middle_of_a_call(tool: str, tmp_path: Path) -> None:
    """A7, D8: the outcome is unknown, said so, and nothing is sent twice; the next call finds a new process."""
    log = tmp_path / "log"
    async with running_app(raw_stdio("frail", log=log, timeout=2), raw_stdio("good")) as harness:
        result = await harness.call(f"frail.{tool}")
        assert code_of(result) == "outcome_unknown"
        assert result["_meta"]["aggregator/error"]["retryable"] is False
        await harness.check_echo("frail.echo")
        await harness.check_echo("good.echo")
    assert lines_of(log).count(tool) == 1
    assert len([line for line in lines_of(log) if line.startswith("start")]) == 2


@pytest.mark.parametrize("size", [10, 60_000, 300_000])
async def test_the_last_answer_before_the_end_counts(size: int) -> None:
    """C8: what was written before the process left is read, however the news arrive."""
    async with running_app(raw_stdio("frail")) as harness:
        for _ in range(10):
            assert text_of(await harness.call("frail.answer_and_leave", size=size)) == "x" * size
            await until(lambda: harness.upstream("frail").state == "reconnecting", "its end was noticed")


async def test_one_that_does_not_read_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A7, A8: calls time out until too much lies unread, and are then refused at once."""
    monkeypatch.setattr("aggregator.upstream.transports.stdio.UNREAD_LIMIT", 1_000_000)
    async with running_app(raw_stdio("deaf", "stops_reading", timeout=0.5), raw_stdio("good")) as harness:
        calls = [harness.call("deaf.echo", say="x" * 100_000) for _ in range(40)]
        codes = [code_of(result) for result in await asyncio.gather(*calls)]
        assert set(codes) == {"upstream_timeout", "upstream_unavailable"}
        await harness.check_echo("good.echo")


async def test_one_that_asks_and_does_not_read_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A7: our answers to its own requests do not pile up without end, however fast they come."""
    monkeypatch.setattr("aggregator.upstream.transports.stdio.UNREAD_LIMIT", 1_000_000)
    monkeypatch.setattr("aggregator.upstream.transports.rate_limit.BURST", 1e9)
    unread: list[int] = [0]
    log = tmp_path / "log"
    async with running_app(raw_stdio("deaf", "deaf_after_flood", log=log)) as harness:
        upstream = harness.upstream("deaf")
        ping = '{"jsonrpc":"2.0","id":"x","method":"ping"}\n'
        await harness.call("deaf.flood", pattern=ping, times=150)

        def settled() -> bool:
            session = upstream.shared.session
            child = getattr(session.connection, "child", None) if session is not None else None
            unread[0] = max(unread[0], child.unread() if child is not None else 0)
            return upstream.state != "ready" or "poured" in lines_of(log)

        await until(settled, "it has written everything, or was ended")
    assert unread[0] < 2_000_000
