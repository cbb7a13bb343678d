"""Spans of calls that are over: the event loop queues the record, a thread makes the spans, another sends them.

The event loop hands over a whole record in less than a microsecond. Making the spans of a call takes about 20, and the
SDK's queue more than one for each span.

Law: nothing here ever waits on the loop, and nothing grows: what finds no room is counted and dropped.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from threading import Event, Thread
from typing import TYPE_CHECKING, Final

from aggregator import DISTRIBUTION
from aggregator.domain.call_record import CallRecord
from aggregator.domain.trace_context import Sample
from aggregator.telemetry.hops import FindHop, nowhere
from aggregator.telemetry.otel_environment import sampler, settings
from aggregator.telemetry.snapshot import SpanCounts
from aggregator.telemetry.span_attributes import Captured, TextRedactor, spans_of

if TYPE_CHECKING:
    from aggregator.telemetry.otlp import Otlp

log = logging.getLogger(__name__)

EXTRAS: Final[Mapping[str, str]] = {"http/protobuf": "otel", "grpc": "otel-grpc"}

# Records that wait for the thread: so many start it at once, and no more than so many are queued. Their results
# stay in memory meanwhile, which is short unless those have to be read for secrets.
_WAKE: Final = 64
_QUEUED: Final = 2_048
_QUEUED_CAPTURING: Final = 256
# The longest delay from a record to its spans.
_PAUSE: Final = 0.2
# Records, some 20 microseconds each, after which the event loop gets a turn.
_FEW: Final = 8
# What of a captured text goes into a span, in characters.
_CAPTURED: Final = 16_000

# Returns the arguments and the result of a call as redacted texts. It is called in a thread and must only read the
# record.
CaptureTexts = Callable[[CallRecord], Captured]


class Spans:
    """A sink for call records.

    `sample` decides for new calls whether they are recorded. `captures`: whether spans hold arguments and results.
    """

    def __init__(
        self,
        exporter: "Otlp",
        sample: Sample,
        redact: TextRedactor,
        capture: CaptureTexts | None = None,
        find_hop: FindHop = nowhere,
    ) -> None:
        self._find_hop = find_hop
        self.sample = sample
        self._exporter = exporter
        self._redact, self._capture = redact, capture
        self.captures = capture is not None
        self._limit = min(_CAPTURED, exporter.text_limit or _CAPTURED)
        # An event among the records is set in its turn: the records queued before it are done by then.
        self._waiting: deque[CallRecord | Event] = deque()
        self._dropped = 0
        self._awake = Event()
        self._closing = self._late = False
        self._thread = Thread(target=self._run, name="aggregator-spans", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"<Spans, {self.counts()}>"

    def __call__(self, record: CallRecord) -> None:
        """Take the record of a call that is over. It may not change any more."""
        if not record.trace.sampled:
            return
        waiting = len(self._waiting)
        if waiting >= (_QUEUED_CAPTURING if self.captures else _QUEUED) or self._closing:
            self._dropped += 1 + len(record.steps)
            if not self._late and not self._closing:
                # Logged once, until no record waits.
                self._late = True
                log.warning("calls end faster than they can be made into spans: some have none")
            return
        self._waiting.append(record)
        if waiting == _WAKE:
            self._awake.set()

    def counts(self) -> SpanCounts:
        """Return what became of the spans so far; calls that are not made into spans yet count as one each."""
        sent = self._exporter.counts()
        return SpanCounts(sent.exported, sent.failed, sent.dropped + self._dropped, sent.waiting + len(self._waiting))

    async def flush(self, seconds: float = 5.0) -> bool:
        """Send all queued spans; return whether that finished in time."""
        return await asyncio.to_thread(self._flush, seconds)

    async def close(self, seconds: float = 5.0) -> None:
        """Send the queued spans within the time, then drop the rest. A second call does nothing."""
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
            made = 0
            while self._waiting:
                item = self._waiting.popleft()
                if isinstance(item, Event):
                    item.set()
                    continue
                self._make(item)
                made += 1
                if made % _FEW == 0:
                    # A turn for the event loop.
                    time.sleep(0)
            self._late = False

    def _make(self, record: CallRecord) -> None:
        try:
            captured = self._captured(record)
            spans = spans_of(record, self._redact, captured, self._find_hop)
            self._exporter.put(record.trace, spans)
        except Exception:
            self._dropped += 1 + len(record.steps)
            log.exception("a call could not be made into spans")

    def _captured(self, record: CallRecord) -> Captured:
        if self._capture is None or not self.captures:
            return None, None
        arguments, result = self._capture(record)
        return arguments and arguments[: self._limit], result and result[: self._limit]


def open_spans(
    environ: Mapping[str, str],
    redact: TextRedactor,
    capture: CaptureTexts | None = None,
    find_hop: FindHop = nowhere,
) -> Spans | None:
    """Return the sink that the standard variables ask for; None if they ask for none, or it fails: the log says why."""
    wanted = settings(environ)
    if wanted is None:
        return None
    extra = EXTRAS[wanted.protocol]
    try:
        from aggregator.telemetry.otlp import open_exporter  # the SDK is an extra, and slow to load

        exporter = open_exporter(wanted)
    except ImportError as error:
        missing = error.name or "a package"
        log.error('tracing is off, %s is missing: pip install "%s[%s]"', missing, DISTRIBUTION, extra)
        return None
    except Exception as error:
        log.error("tracing is off: the OTEL_EXPORTER_OTLP_* variables cannot be used: %s", error)
        return None
    return Spans(exporter, sampler(environ), redact, capture, find_hop)
