"""A running gateway with real servers and keys, whose policies have flow rules."""

from pathlib import Path
from typing import Any, Final

from aggregator.flow.storage import FlowRow
from aggregator.storage.database import open_database
from tests.access.gateway_harness import tool
from tests.access.recording_toolbox import RecordingToolbox
from tests.access.secured_harness import SecuredHarness
from tests.end_to_end.server_harness import raw_stdio_entry
from tests.peers.library import Library, http_app
from tests.peers.serving import BackgroundLoop, serving
from tests.peers.toolbox import Json, text_result

AGENTS: Final = ("ada", "bob", "cyd", "dee", "eve", "fay")
POLICIES: Final[Json] = {
    "labels": {
        "untrusted": ["web.*", "proc.echo", "resource:library.*", "prompt:library.*"],
        "private": ["files.*"],
        "outward": ["mail.send"],
    },
    "flow": [
        {"after": "untrusted", "calls": "outward", "then": "confirm"},
        {"after": ["untrusted", "private"], "calls": "outward", "then": "deny"},
    ],
    "agents": {agent: {"allow": ["*", "resource:*", "prompt:*"], "expose": "all"} for agent in AGENTS},
}
SAID: Final[Json] = {**text_result("told"), "_meta": {"annotations": {"sensitiveHint": "high"}}}


class ServedHarness(SecuredHarness):
    """A gateway with an SDK server for each of web, files, mail and library, and one in a process: `proc`."""

    def __init__(
        self, background: BackgroundLoop, folder: Path, policies: object = POLICIES, storage: str | None = None,
        **settings: Any,
    ) -> None:  # fmt: skip
        self.web = RecordingToolbox([tool("fetch"), tool("hold", {"key": {"type": "string"}}), tool("release")])
        self.files = RecordingToolbox([tool("read")])
        self.mail = RecordingToolbox([tool("send"), tool("tell"), tool("list")], {"tell": SAID})
        servers = {
            "web": self.web.config_entry(),
            "files": self.files.config_entry(),
            "mail": self.mail.config_entry(),
            "proc": raw_stdio_entry("--version", "2025-06-18"),
            "library": {"type": "http", "url": f"{background.open(serving(http_app(Library('library'))))}/mcp"},
        }
        super().__init__(background, folder, servers, policies, AGENTS, storage, **settings)


async def kept_labels(storage: str, agent: str | None = None) -> list[FlowRow]:
    """Return the labels in a database, as another process sees them."""
    async with open_database(storage) as database:
        return await database.flow.show(agent, now=0.0)
