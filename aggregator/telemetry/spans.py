"""Calls that are over become spans: the loop only puts the record down, a thread makes and another sends the spans.

Law: nothing here ever waits on the loop, and nothing grows: whatever finds no room is counted and gone.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pkgutil import resolve_name
from threading import Event, Thread
from typing import Any, Final, Protocol

from aggregator.domain.call_record import CallRecord, TraceContext
from aggregator.domain.trace_context import Sample
from aggregator.telemetry.otel_environment import settings
from aggregator.telemetry.sampling import sampler
from aggregator.telemetry.snapshot import SpanCounts
from aggregator.telemetry.span_attributes import Captured, Span, spans_of

log = logging.getLogger(__name__)

EXPORTER: Final = "aggregator.telemetry.otlp:open_exporter"
EXTRAS: Final[Mapping[str, str]] = {"http/protobuf": "otel", "grpc": "otel-grpc"}

# Records that wait for the thread: as many as make it wake at once, and as many as it may fall behind. Their results
# stay in memory meanwhile, which is short unless those have to be read for secrets.
_WAKE: Final = 64
_BEHIND: Final = 2_048
_BEHIND_CAPTURING: Final = 256
# A record is made into spans after so long at the latest.
_PAUSE: Final = 0.2
# What of a captured text goes into a span, in characters.
_CAPTURED: Final = 16_000

Capture = Callable[[CallRecord], Captured]
"""Arguments and result of a call as text, secrets taken out. Called in a thread; must only read the record."""


class Exporter(Protocol):
    """Where spans go. `text_limit` is the length of an attribute, None without a bound."""

    text_limit: int | None

    def make(self, trace: TraceContext, span: Span) -> Any:
        """The span as `send` takes it."""

    def put(self, spans: Sequence[Any]) -> None:
        """Queue spans to be sent, as many as there is room for."""

    def counts(self) -> SpanCounts:
        """Return what became of all that was put."""

    def flush(self, seconds: float) -> bool:
        """Send all there is; return whether that was done within the time."""

    def close(self, seconds: float) -> None:
        """Send all there is, for so long; end what is being sent then, and drop the rest."""


class Spans:
    """A sink for call records. `sample` is what decides for new calls whether they are recorded, `captures` whether
    what was sent and answered is in their spans."""

    def __init__(
        self,
        exporter: Exporter,
        sample: Sample,
        redact: Callable[[str], str],
        capture: Capture | None = None,
    ) -> None:
        self.sample = sample
        self._exporter = exporter
        self._redact, self._capture = redact, capture
        self.captures = capture is not None
        self._limit = min(_CAPTURED, exporter.text_limit or _CAPTURED)
        # An event among the records is set when its turn comes: whatever was put down before it is made by then.
        self._waiting: deque[CallRecord | Event] = deque()
        self._dropped = 0
        self._awake = Event()
        self._closing = self._late = False
        self._thread = Thread(target=self._run, name="aggregator-spans", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"<Spans, {self.counts()}>"

    def __call__(self, record: CallRecord) -> None:
        """Take one call that is over. It may not be changed any more."""
        if not record.trace.sampled:
            return
        waiting = len(self._waiting)
        if waiting >= (_BEHIND_CAPTURING if self.captures else _BEHIND) or self._closing:
            self._dropped += 1 + len(record.steps)
            if not self._late and not self._closing:
                # Told once, until they have been caught up with.
                self._late = True
                log.warning("calls end faster than they can be made into spans: some have none")
            return
        self._waiting.append(record)
        if waiting == _WAKE:
            self._awake.set()

    def counts(self) -> SpanCounts:
        """What became of the spans so far; calls that are not made into spans yet count as one each."""
        sent = self._exporter.counts()
        return SpanCounts(sent.exported, sent.failed, sent.dropped + self._dropped, sent.waiting + len(self._waiting))

    async def flush(self, seconds: float = 5.0) -> bool:
        """Send all there is; whether that was done within the time."""
        return await asyncio.to_thread(self._flush, seconds)

    async def close(self, seconds: float = 5.0) -> None:
        """Send all there is, for so long; what is left then is given up. A second time it does nothing."""
        await asyncio.to_thread(self._close, seconds)

    def _flush(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        turn = Event()
        self._waiting.append(turn)
        self._awake.set()
        return turn.wait(seconds) and self._exporter.flush(max(deadline - time.monotonic(), 0.0))

    def _close(self, seconds: float) -> None:
        if self._closing:
            return
        deadline = time.monotonic() + seconds
        self._closing = True
        self._awake.set()
        self._thread.join(seconds)
        self._exporter.close(max(deadline - time.monotonic(), 0.0))

    def _run(self) -> None:
        last = False
        while not last:
            self._awake.wait(_PAUSE)
            self._awake.clear()
            # Seen before the queue is emptied: nothing comes after it.
            last = self._closing
            while self._waiting:
                item = self._waiting.popleft()
                if isinstance(item, Event):
                    item.set()
                    continue
                self._make(item)
                # The loop may want to run.
                time.sleep(0)
            self._late = False

    def _make(self, record: CallRecord) -> None:
        try:
            captured = self._captured(record)
            spans = spans_of(record, self._redact, captured)
            self._exporter.put([self._exporter.make(record.trace, span) for span in spans])
        except Exception:
            self._dropped += 1 + len(record.steps)
            log.exception("a call could not be made into spans")

    def _captured(self, record: CallRecord) -> Captured:
        if self._capture is None or not self.captures:
            return None, None
        arguments, result = self._capture(record)
        return arguments and arguments[: self._limit], result and result[: self._limit]


def open_spans(
    environ: Mapping[str, str], redact: Callable[[str], str], capture: Capture | None = None
) -> Spans | None:
    """The sink that the standard variables ask for. None if they do not, or if it cannot be had: the log says why."""
    wanted = settings(environ)
    if wanted is None:
        return None
    extra = EXTRAS[wanted.protocol]
    try:
        exporter: Exporter = resolve_name(EXPORTER)(wanted)
    except ImportError as error:
        log.error('tracing is off, %s is missing: pip install "aggregator[%s]"', error.name or "a package", extra)
        return None
    except Exception as error:
        log.error("tracing is off: the OTEL_EXPORTER_OTLP_* variables cannot be used: %s", error)
        return None
    return Spans(exporter, sampler(environ), redact, capture)
