"""What a server says of itself and of what it has comes without the secrets that it was given: to hosts and on disk."""

import asyncio
import json
import sqlite3
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from aggregator.cli import tools
from tests.end_to_end.scripted_host import LEGACY, MODERN
from tests.end_to_end.server_harness import write_config
from tests.faults.raw_http import RawHttpServer, ReceivedRequest, ReplyWriter, raw_http
from tests.observability.observed_harness import ObservedHarness
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json
from tests.polling import until
from tests.telemetry.receiver import Receiver

KEY: Final = "k3y/of+the=server 42"
SAID: Final = f"use {KEY} or {b64encode(f'me:{KEY}'.encode()).decode()}"
FIELD: Final[Json] = {"type": "string", "description": SAID, "default": KEY, "enum": [KEY, "other"]}
TOOL: Final[Json] = {
    "name": "tell", "title": SAID, "description": SAID, "annotations": {"title": SAID}, "_meta": {"x": [SAID]},
    "inputSchema": {"type": "object", "properties": {"name": FIELD}, "required": ["name"], "examples": [{"name": KEY}]},
}  # fmt: skip
LISTS: Final[dict[str, Json]] = {
    "tools/list": {"tools": [TOOL]},
    "resources/list": {"resources": [{"uri": "demo://a", "name": SAID, "title": SAID, "description": SAID}]},
    "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "t://{a}", "name": "t", "description": SAID}]},
    "prompts/list": {
        "prompts": [{"name": "p", "description": SAID, "arguments": [{"name": "q", "description": SAID}]}]
    },
}
INITIALIZED: Final[Json] = {
    "protocolVersion": LEGACY[-1],
    "capabilities": {"tools": {}, "resources": {}, "prompts": {}, "experimental": {"x": SAID}},
    "serverInfo": {"name": SAID, "version": KEY, "title": SAID},
    "instructions": SAID,
}


class TalkativeServer(RawHttpServer):
    """A server that repeats its key wherever it says something of itself."""

    def __init__(self) -> None:
        super().__init__()
        self.on = {"initialize": self._hello, **dict.fromkeys(LISTS, self._list)}

    async def _hello(self, seen: ReceivedRequest, reply: ReplyWriter) -> None:
        self.sessions.add("one")
        await reply.result(seen, INITIALIZED, mcp_session_id="one")

    async def _list(self, seen: ReceivedRequest, reply: ReplyWriter) -> None:
        await reply.result(seen, LISTS[seen.method])


@pytest.fixture
async def talker() -> AsyncIterator[TalkativeServer]:
    server = TalkativeServer()
    async with raw_http(server):
        yield server


@pytest.mark.parametrize("version", [LEGACY[-1], MODERN])
async def test_nothing_that_a_server_says_of_itself_tells_its_secrets(
    talker: TalkativeServer,
    background: BackgroundLoop,
    receiver: Receiver,
    tmp_path: Path,
    version: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """D1, D9: names and values that are compared stay as they are; all that is there to be read comes without."""
    monkeypatch.setattr("aggregator.app.catalog_sync.COALESCE", 0.01)
    servers = {"raw": {"url": talker.url, "headers": {"X-Api-Key": KEY}}}
    policies = {"agents": {"shop": {"allow": ["*", "resource:*", "prompt:*"]}}}
    harness = await asyncio.to_thread(ObservedHarness, background, tmp_path, receiver, servers, policies, ["shop"])
    async with harness.connect_as(("http", version), "shop") as host:
        said: dict[str, Any] = {method: await host.ask(method).result() for method in LISTS}
        said["about"] = await host.call("list_servers", {"server": "raw"}).result()
        said["described"] = await host.call("describe_tools", {"names": ["raw.tell"]}).result()
        if version == MODERN:
            said["discover"] = await host.ask("server/discover").result()
        (tool,) = [one for one in said["tools/list"]["tools"] if one["name"] == "raw.tell"]
    schema = tool["inputSchema"]
    assert schema["properties"]["name"].pop("enum") == [KEY, "other"]
    assert (schema["required"], schema["properties"]["name"]["default"]) == (["name"], "[redacted]")
    assert tool["description"] == tool["title"] == "use [redacted] or bWU6[redacted]"
    said.pop("described")
    assert "It says of itself" in json.dumps(said["about"])
    assert KEY not in json.dumps(said)
    assert b64encode(KEY.encode()).decode()[4:-4] not in json.dumps(said)

    await until(lambda: bool(stored_texts(harness.database)))
    # Only the values that are compared may hold it.
    on_disk = json.dumps(stored_texts(harness.database))
    assert "use [redacted] or bWU6[redacted]" in on_disk
    assert on_disk.count(KEY) == 1
    assert on_disk.count(f'[\\"{KEY}\\",\\"other\\"]') == 1


def stored_texts(database: Path) -> list[Any]:
    """Return the texts of servers and definitions in the database."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        rows = connection.execute(
            "SELECT server_info, capabilities, instructions, definition FROM mcp_servers, mcp_tool_versions"
        )
        return rows.fetchall()


async def test_nor_does_a_command_that_lists_tools(
    talker: TalkativeServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """D1: it shows them as a model would be shown them."""
    monkeypatch.setenv("ITS_KEY", KEY)
    path = write_config(tmp_path, {"raw": {"url": talker.url, "headers": {"X-Api-Key": "${ITS_KEY}"}}})
    for level, as_json in ((1, False), (2, False), (1, True)):
        assert await asyncio.to_thread(tools.run, path, None, None, level, None, None, as_json) == 0
    said = capsys.readouterr().out
    assert "[redacted]" in said
    assert f"use {KEY}" not in said
