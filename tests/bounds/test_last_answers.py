"""What is still to be answered when the web server ends, and that no drain has waited for: it gets words all the same,
and a host that reads nothing is not waited for.
"""

import logging
from pathlib import Path

import pytest

from tests.bounds.web_harness import HELLO, MODERN, call, head, web_harness
from tests.polling import until


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aggregator.frontends.server.LAST_ANSWERS", 0.1)
    monkeypatch.setattr("aggregator.frontends.server.LAST_BYTES", 0.1)


def no_error(caplog: pytest.LogCaptureFixture) -> bool:
    return not [record for record in caplog.records if record.levelno >= logging.ERROR or record.exc_info]


@pytest.mark.parametrize("path", ["/mcp", "/v1/tool_calls"])
async def test_a_request_that_is_left_is_refused_with_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    asked = call(hang=True) if path == "/mcp" else {"tool_call": {"name": "up.echo", "arguments": {"hang": True}}}
    async with web_harness(tmp_path) as it, it.connect() as connection:
        connection.post(path, asked, **(MODERN if path == "/mcp" else {}))
        await until(lambda: it.upstream.hanging == 1, "the call is under way")
        it.stopping.set()
        answer = await connection.answer()
    assert answer.status == 503
    assert int(answer.headers["retry-after"]) > 0
    error = answer.json()["error"]
    assert "shutting_down" in (error["code"], error.get("data", {}).get("code"))
    assert "shutting down" in error["message"]
    assert no_error(caplog)


async def test_a_stream_that_is_not_read_is_cut(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with (
        web_harness(tmp_path, agents=["one"]) as it,
        it.connect() as other,
        it.connect(small=True) as connection,
    ):
        connection.send(head("GET", "/sse", **it.key("one")))
        await connection.answer()
        path = (await connection.event()).decode()
        for number, (method, params) in enumerate(
            [("initialize", HELLO), ("tools/call", {"name": "up.echo", "arguments": {"size": 8_000_000}})]
        ):
            asking = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            assert (await other.ask(path, asking, **it.key("one"))).status == 202
        await until(lambda: it.upstream.count("tools/call") == 1, "it is called")
        await until(lambda: len(it.app.gateway.drain) == 0, "it is answered, and the answer waits for its host")
        it.stopping.set()
        await until(lambda: it.app.gateway.admission.in_use["streams"] == 0, "its place is free")
    assert no_error(caplog)
