"""What a server says goes to hosts as it is; what it was given to keep is taken out of its failures, and only there."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest

from tests.end_to_end.scripted_host import LEGACY, MODERN
from tests.faults.raw_http import RawHttpServer, ReceivedRequest, ReplyWriter, raw_http
from tests.observability.observed_harness import ObservedHarness
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json
from tests.telemetry.receiver import Receiver

KEY: Final = "k3y/of+the=server 42"
# As servers repeat it: whole, in an address, in a login, in JSON.
SAID: Final = f"no access with {KEY}: GET /x?k={quote(KEY, safe='')} Basic {b64encode(f'me:{KEY}'.encode()).decode()}"
REDACTED: Final = "no access with [redacted]: GET /x?k=[redacted] Basic bWU6[redacted]"
# Looks like a secret, and is none of ours: what servers answer is the host's to see.
THEIRS: Final = {"password": "hunter2-hunter2", "token": "ghp_" + "a1B2" * 9, "deep": [{"at": SAID}, None, 1.5, "é"]}


def without(value: Any) -> Any:
    """Return a value as the host is to get it: without the secrets."""
    if isinstance(value, str):
        return value.replace(SAID, REDACTED)
    if isinstance(value, dict):
        return {name: without(item) for name, item in value.items()}
    return [without(item) for item in value] if isinstance(value, list) else value


class TalkativeServer(RawHttpServer):
    """A server that names its secrets; `how` selects the outcome of a call."""

    def __init__(self) -> None:
        super().__init__()
        self.how: Callable[[ReceivedRequest, ReplyWriter], Any] | None = None
        self.on = {"tools/call": self._call}

    async def _call(self, seen: ReceivedRequest, reply: ReplyWriter) -> None:
        assert self.how is not None
        await self.how(seen, reply)


async def failed(seen: ReceivedRequest, reply: ReplyWriter, code: int, data: Json) -> None:
    error = {"code": code, "message": SAID, "data": data}
    await reply.send(200, {"jsonrpc": "2.0", "id": seen.message["id"], "error": error})


@pytest.fixture
async def talker() -> AsyncIterator[TalkativeServer]:
    server = TalkativeServer()
    async with raw_http(server):
        yield server


@pytest.fixture
async def harness(
    talker: TalkativeServer, background: BackgroundLoop, receiver: Receiver, tmp_path: Path
) -> ObservedHarness:
    servers = {"raw": {"url": talker.url, "headers": {"X-Api-Key": KEY}}}
    policies = {"agents": {"shop": {"allow": ["*"]}}}
    # In a thread: what it connects to lives in this loop.
    return await asyncio.to_thread(ObservedHarness, background, tmp_path, receiver, servers, policies, ["shop"])


async def test_failures_come_without_our_secrets_and_all_else_as_it_was(
    harness: ObservedHarness, talker: TalkativeServer
) -> None:
    """Proves: D1, D9. Results that are failures, errors of the protocol with their data; and good results untouched."""
    result: Json = {"content": [{"type": "text", "text": SAID, "x-vendor": [SAID]}], "structuredContent": dict(THEIRS)}
    failure: Json = {**result, "isError": True}
    async with harness.connect_as(("http", LEGACY[-1]), "shop") as host:

        async def answered(how: Callable[[ReceivedRequest, ReplyWriter], Any]) -> Mapping[str, Any]:
            talker.how = how
            return await host.call("raw.echo", {}).message()

        good = await answered(lambda seen, reply: reply.result(seen, result))
        assert {**good["result"], "_meta": None} == {**result, "_meta": None}, "but for what we say of where it is from"
        bad = await answered(lambda seen, reply: reply.result(seen, failure))
        assert {**bad["result"], "_meta": None} == {**without(failure), "_meta": None}
        refused = await answered(lambda seen, reply: failed(seen, reply, -32000, dict(THEIRS)))
        assert refused["error"] == {"code": -32000, "message": REDACTED, "data": without(THEIRS)}
        # The page that a person is sent to is told by what was configured: it would lead nowhere without.
        page = {"mode": "url", "elicitationId": "1", "url": f"https://e.com/{SAID}", "message": "m"}
        pages = {"elicitations": [page]}
        asks = await answered(lambda seen, reply: failed(seen, reply, -32042, pages))
        assert SAID in str(asks)
    assert KEY not in harness.database.read_bytes().decode("utf-8", "replace")


async def test_what_is_said_on_the_way_comes_without_them_too(
    harness: ObservedHarness, talker: TalkativeServer
) -> None:
    """Proves: D1, D9. Progress, and what the server logs."""

    async def chat(seen: ReceivedRequest, reply: ReplyWriter) -> None:
        token = seen.message["params"]["_meta"]["progressToken"]
        await reply.stream()
        report = {"progressToken": token, "progress": 1, "message": SAID}
        await reply.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": report})
        line = {"level": "error", "logger": "x", "data": dict(THEIRS)}
        await reply.event({"jsonrpc": "2.0", "method": "notifications/message", "params": line})
        await reply.event({"jsonrpc": "2.0", "id": seen.message["id"], "result": {"content": []}})

    talker.how = chat
    async with harness.connect_as(("http", MODERN), "shop") as host:
        meta = {"progressToken": "p", "io.modelcontextprotocol/logLevel": "debug"}
        await host.ask("tools/call", {"name": "raw.echo"}, meta).result()
        (report,) = await host.inbox.named("notifications/progress")
        (line,) = await host.inbox.named("notifications/message")
    assert report["params"]["message"] == REDACTED
    assert line["params"]["data"] == without(THEIRS)


async def test_what_we_say_of_it_comes_without_them_too(harness: ObservedHarness, talker: TalkativeServer) -> None:
    """Proves: D1, D9. An answer of another content type is told in our own words alone."""

    async def nonsense(seen: ReceivedRequest, reply: ReplyWriter) -> None:
        await reply.send(200, "?", f"text/{quote(KEY, safe='')}")

    talker.how = nonsense
    async with harness.connect_as(("http", LEGACY[-1]), "shop") as host:
        told = await host.call("raw.echo", {}).result()
    assert "another content type" in told["content"][0]["text"]
    assert quote(KEY, safe="") not in str(told)
