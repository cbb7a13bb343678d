"""An aggregator that records, counts and traces every call, with its rows and spans for comparison."""

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import httpx2

from aggregator.app.app import App
from aggregator.app.build import build_app
from aggregator.config.load import load
from aggregator.frontends.server import WebServer
from tests.access.secured_harness import SecuredHarness
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json
from tests.polling import until
from tests.telemetry.receiver import ReceivedSpan, Receiver

# Server, tool, agent and status: what calls are counted by, and what a row says of each.
Counted = Counter[tuple[str, str, str, str]]
_COUNTER: Final = "aggregator_calls_total{"


class ObservedHarness(SecuredHarness):
    """A `SecuredHarness` with audit log, metrics and spans; `receiver` takes the spans and must exist before."""

    def __init__(
        self,
        background: BackgroundLoop,
        folder: Path,
        receiver: Receiver,
        servers: Mapping[str, Json],
        policies: object,
        agents: Iterable[str],
        **settings: Any,
    ) -> None:
        self.receiver = receiver
        self._path = folder / "aggregator.json"
        self.database = folder / "aggregator.db"
        audit = {"flush_interval": "10ms", **settings.pop("audit", {})}
        storage = f"sqlite+aiosqlite:///{self.database}"
        super().__init__(background, folder, servers, policies, agents, storage, audit=audit, **settings)

    def build_app(self) -> tuple[App, WebServer]:
        redactor = load(self._path, dict(os.environ)).redactor
        app = build_app(self.config, self._policies, self._storage, keeps_records=True, redactor=redactor)
        self.metrics = app.telemetry.enable_metrics(app.snapshot)
        return app, WebServer(app.gateway, self.config, app.access, app.report, self.metrics.page)

    async def flush(self) -> None:
        """Return once every row and span of the ended calls is written."""
        audit, spans = self.app.telemetry.audit, self.app.telemetry.spans
        assert audit is not None
        assert spans is not None
        await until(lambda: audit.report()["waiting"] == 0)
        assert await self.background.elsewhere(spans.flush())

    def rows(self, conversation: str | None = None) -> list[Json]:
        """Return the rows of calls in order, of one conversation where it is given."""
        return calls_in(self.database, conversation)

    def call_spans(self, conversation: str | None = None) -> list[ReceivedSpan]:
        """Return the spans of whole calls, not of their steps."""
        return [
            span
            for span in self.receiver.spans
            if span.kind == "server" and conversation in (None, span.attributes.get("gen_ai.conversation.id"))
        ]

    def child_spans(self, whole: ReceivedSpan) -> list[ReceivedSpan]:
        """Return the spans of a call's steps."""
        return [span for span in self.receiver.spans if span.parent_id == whole.span_id]

    async def call_counts(self) -> Counted:
        """Return the call counters of the metrics page."""
        async with httpx2.AsyncClient(base_url=self.url, trust_env=False) as client:
            page = (await client.get("/metrics")).text
        return counted_on(page)


def calls_in(database: Path, conversation: str | None = None) -> list[Json]:
    """The rows of calls in a file, without their empty columns; none as long as it has no tables."""
    where = ("1", ()) if conversation is None else ("conversation_id = ?", (conversation,))
    return _rows(database, "mcp_tool_call_log", *where)


def events_in(database: Path, kind: str) -> list[Json]:
    """The other rows, of one kind; `details` read."""
    rows = _rows(database, "audit_events", "kind = ?", (kind,))
    return [{**row, "details": json.loads(row.get("details", "{}"))} for row in rows]


def _rows(database: Path, table: str, where: str, values: tuple[str, ...]) -> list[Json]:
    if not database.exists():
        return []
    with closing(sqlite3.connect(database)) as connection:
        connection.row_factory = sqlite3.Row
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchall():
            return []
        query = f"SELECT * FROM {table} WHERE {where} ORDER BY seq"  # noqa: S608 - all of it is ours
        found = connection.execute(query, values).fetchall()
    return [{name: row[name] for name in row.keys() if row[name] is not None} for row in found]  # noqa: SIM118


def counted_on(page: str) -> Counted:
    """Return the call counters of a metrics page."""
    found: Counted = Counter()
    for line in page.splitlines():
        if line.startswith(_COUNTER):
            labels, _, value = line.removeprefix(_COUNTER).rpartition("} ")
            known = dict(label.split("=", 1) for label in labels.split(","))
            server, tool, agent, status = (known[name].strip('"') for name in ("server", "tool", "agent", "status"))
            found[server, tool, agent, status] += int(value)
    return found


def counted_in(rows: Iterable[Json]) -> Counted:
    """Return the call counters that the rows imply."""
    return Counter(
        (row.get("server_id", "unknown"), row.get("tool_name", "unknown"), row["agent_id"], row["status"])
        for row in rows
    )
