"""Upstreams over stdio that write a message over several lines, in UTF-16, or without its id."""

import asyncio
import json
from typing import Any

import pytest

from aggregator.wire.spread_message import SpreadMessage

from .app_harness import code_of, raw_stdio, running_app, text_of

RESULT: dict[str, Any] = {
    "content": [{"type": "text", "text": 'go{od }" ]'}],
    "structuredContent": {"id": 3, "result": 1},
}
ANSWER: dict[str, Any] = {"jsonrpc": "2.0", "id": "$ID", "result": RESULT}
NOTICE = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}
GOOD = '{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"good"}]}}'
UNNAMED = '{"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"whose?"}]}}'
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
    assert len(spread._lines) < 200
    spread.drop()
    for line in (b"}", b"no message", b'{"level": 30,', b"[1,", b'{"id": 1}'):
        assert spread.take(line) is None
        assert not spread.is_open


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
        for spread in (UNNAMED, json.dumps(json.loads(UNNAMED), indent=2)):
            result = await harness.call("s.raw", lines=lines(spread))
            assert code_of(result) == "upstream_bad_answer"
            assert "without an id" in result["content"][0]["text"]
            assert "whose?" not in json.dumps(result)
            await harness.check_echo("s.echo")
        assert "answers without an id" in " ".join(harness.upstream("s").faults.for_agents())


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
