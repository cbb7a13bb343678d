"""The consumers of call records: audit rows, spans, metrics. The call log reads them here; they end in order."""

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from aggregator.audit.capture import Capture
from aggregator.audit.log import AuditLog
from aggregator.audit.process_mark import Peers
from aggregator.audit.spill import Spill
from aggregator.audit.writer import OpenRows
from aggregator.config.settings import AuditConfig
from aggregator.domain.bounds.kept_work import KeptWork
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.call_record import AuditEvent, EventKind
from aggregator.gateway.call_log import CallObservers
from aggregator.redaction.redactor import Redactor
from aggregator.telemetry.hops import FindHop, nowhere
from aggregator.telemetry.last_hour import LastHour
from aggregator.telemetry.metrics import Metrics
from aggregator.telemetry.snapshot import TakeSnapshot
from aggregator.telemetry.spans import Spans, open_spans

log = logging.getLogger(__name__)

# Seconds for the last rows and spans when the process ends.
LAST_MOMENT: Final = 5.0
# Bytes kept beside the database while it cannot be written.
_SPILL_BYTES: Final = 256 * 1024 * 1024

# The wait until the start of the program is over, which is more urgent than writing rows.
WaitForStart = Callable[[], Coroutine[Any, Any, None]]


class CallTelemetry:
    """The telemetry of one process, which the call log reports to through `observers`. No audit without `rows`.

    `base` is the path of the database, whether or not it exists; `peers` are the replicas on it; `find_hop` returns the
    hop to a server. `last_hour` exists if calls are counted.
    """

    def __init__(
        self,
        config: AuditConfig,
        redactor: Redactor,
        rows: OpenRows | None,
        base: Path,
        peers: Peers | None = None,
        find_hop: FindHop = nowhere,
    ) -> None:
        self._find_hop = find_hop
        self._capture = Capture(config.capture, redactor.value, config.max_captured_bytes)
        self._spans: Spans | None = None
        self.last_hour: LastHour | None = None
        self.audit: AuditLog | None = None
        if rows is not None and config.enabled:
            self.audit = AuditLog(
                rows,
                Spill(base, _SPILL_BYTES),
                self._capture,
                strict=config.durability == "strict",
                flush_interval=config.flush_interval,
                keep_for=config.keep_for,
                keep_bytes=config.keep_bytes,
                peers=peers,
            )
        strict = self.audit if config.durability == "strict" else None
        self.observers = CallObservers(
            sinks=(self.audit.record,) if self.audit is not None else (),
            wait_for_space=self.audit.wait_for_space if self.audit is not None else None,
            has_space=self.audit.has_space if self.audit is not None else None,
            begun=strict.begun if strict is not None else None,
            written=strict.written if strict is not None else None,
        )

    @asynccontextmanager
    async def running(self, quiet: WaitForStart, kept: KeptWork) -> AsyncIterator[None]:
        """Keep records inside; on the way out, write the last of them. `quiet` returns when the start is over."""
        await self._start_spans()
        async with Tasks("the audit") as tasks:
            if self.audit is not None:
                tasks.start(self.audit.run(quiet, kept))
            if self.last_hour is not None:
                tasks.start(kept.keep("the figures of the last hour", self.last_hour.run))
            try:
                yield
            finally:
                await tasks.cancel()
                if self.audit is not None:
                    await self.audit.close(LAST_MOMENT)
                if self._spans is not None:
                    await self._spans.close(LAST_MOMENT)

    def enable_metrics(self, snapshot: TakeSnapshot) -> Metrics:
        """Count calls from now on, and return the metrics; before the program runs, the last hour is kept, too."""
        metrics = Metrics(snapshot, self._find_hop)
        self.observers.sinks += (metrics,)
        self.observers.request_over = metrics.request_over
        self.observers.host_session_over = metrics.sessions.host_over
        self.observers.upstream_session_over = metrics.sessions.upstream_over
        self.last_hour = LastHour(metrics)
        return metrics

    def reconfigure(self, config: AuditConfig) -> None:
        """Take from a new configuration how much of a call is captured."""
        self._capture.mode, self._capture.at_most = config.capture, config.max_captured_bytes
        if self._spans is not None:
            self._spans.captures = config.capture != "none"

    def record_event(
        self,
        kind: EventKind,
        summary: str,
        *,
        agent: str | None = None,
        server: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        """Record an event besides a call, if there is an audit."""
        if self.audit is not None:
            self.audit.event(AuditEvent(kind, time.time(), summary, agent, server, dict(details or {})))

    def queues(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return the numbers of records that wait to be written, and that were lost."""
        if self.audit is None:
            return {}, {}
        report = self.audit.report()
        return {"audit": report["waiting"]}, {"audit": report["lost"]}

    def report(self) -> dict[str, Any]:
        """Return the problems of the audit for `/readyz`; empty if there are none."""
        if self.audit is None:
            return {}
        problem = self.audit.problem or self.audit.stalled or self.audit.damage
        return {"audit": problem} if problem is not None else {}

    @property
    def spans(self) -> Spans | None:
        """The exporter of spans, while tracing is on."""
        return self._spans

    async def _start_spans(self) -> None:
        capture = self._capture

        def captured(record: Any) -> tuple[str | None, str | None]:
            return capture.arguments(record.arguments), capture.result(record.result)

        self._spans = await asyncio.to_thread(open_spans, os.environ, capture.name, captured, self._find_hop)
        if self._spans is not None:
            self._spans.captures = capture.mode != "none"
            self.observers.sinks += (self._spans,)
            self.observers.start_tracing(self._spans.sample)
