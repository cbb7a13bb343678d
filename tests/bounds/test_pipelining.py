"""Hosts that send requests before the earlier ones are answered (RFC 9112, 9.3.2), on both kinds of event loops."""

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import uvloop

from tests.bounds.web_harness import MODERN, RawConnection, WebHarness, call, head, web_harness
from tests.faults.app_harness import BOUND
from tests.polling import until

LOOPS: Final = [asyncio.new_event_loop, uvloop.new_event_loop]


def whole(**arguments: Any) -> bytes:
    """A call of 2026-07-28."""
    body = json.dumps(call(**arguments)).encode()
    return head("POST", "/mcp", content_length=str(len(body)), **MODERN) + body


# What waits while the first call runs, in the pieces in which it comes.
WAITING: Final = {
    "two": [whole() + whole()],
    "two, one after the other": [whole(), whole()],
    "one larger than is read at once": [whole(pad="x" * 200_000)],
    "more than is read ahead": [whole(pad="x" * 1_500_000)],
    "half a body": [whole()[:-20]],
    "a page": [head("GET", "/healthz")],
}


async def sent(connection: RawConnection, it: WebHarness, pieces: list[bytes]) -> None:
    """The pieces, each once the one before has been read."""
    for piece in pieces:
        connection.send(piece)
        await connection.writer.drain()
        # An answer to somebody else: what came before it has been read by then.
        assert (await it.call()).status == 200


async def _leave(folder: Path, reset: bool) -> None:
    async with web_harness(folder, upstream={"timeout": 60}) as it:
        for waiting, pieces in WAITING.items():
            if waiting == "more than is read ahead":
                continue
            async with it.connect() as connection:
                connection.send(whole(hang=True))
                await until(lambda: it.upstream.hanging == 1, "the first call runs")
                await sent(connection, it, pieces)
                before = it.upstream.count("tools/call")
                if not reset:
                    connection.writer.close()
            await until(lambda: it.upstream.hanging == 0, f"the call before {waiting} was cancelled")
            assert (await it.call()).status == 200
            assert it.upstream.count("tools/call") == before + 1, "what waited was never begun"


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("loop", LOOPS)
def test_a_host_that_leaves_with_requests_waiting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, loop: Callable[[], asyncio.AbstractEventLoop], reset: bool
) -> None:
    """A8, C3: what runs is cancelled, what waits is never begun, and no log tells of an error of ours."""
    with asyncio.Runner(loop_factory=loop) as runner, caplog.at_level(logging.WARNING):
        runner.run(_leave(tmp_path, reset))
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR or record.exc_info]


async def test_all_are_answered_in_their_order(tmp_path: Path) -> None:
    """C6: what is read ahead of an answer waits for it, however large it is."""
    async with web_harness(tmp_path) as it:
        for waiting, pieces in WAITING.items():
            it.upstream.release.clear()
            async with it.connect() as connection:
                connection.send(whole(hang=True, say="first"))
                await until(lambda: it.upstream.hanging == 1, "the first call runs")
                for piece in pieces:
                    connection.send(piece)
                connection.send((whole()[-20:] if waiting == "half a body" else b"") + whole(say="last"))
                it.upstream.release.set()
                assert b'"first"' in (await connection.answer()).body
                async with asyncio.timeout(BOUND):
                    while b'"last"' not in (answer := await connection.answer()).body:
                        assert answer.status == 200


async def test_what_waits_for_its_turn_is_not_slow(tmp_path: Path) -> None:
    """F1, D11: a body may take as long as the call before it; then it has its own time, and no more."""
    async with web_harness(tmp_path, stall_timeout=0.2) as it, it.connect() as connection:
        connection.send(whole(hang=True, say="first") + whole()[:-20])
        for _ in range(3):
            async with it.connect() as silent:
                assert (await silent.ended()).startswith(b"HTTP/1.1 408 "), "as long as anybody may take"
        it.upstream.release.set()
        assert b'"first"' in (await connection.answer()).body
        answer = await connection.answer()
        assert (answer.status, answer.headers["connection"]) == (408, "close")
        assert it.refused("slow_body") == 1
