"""The calls that run now, for people who look: how many, and which have run for longest.

Rule: nothing is noted for this that the calls do not note anyway.
"""

from dataclasses import dataclass
from heapq import nlargest
from time import perf_counter
from typing import Final

from aggregator.domain.call_record import CallRecord
from aggregator.gateway.call_log import CallLog
from aggregator.gateway.calls.direct import DirectCalls

# So many are told of at most.
MOST: Final = 100


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call that has not ended. `name` is the tool's, or as it was asked; `step` what was done last, `seconds` so
    long it has run."""

    agent_id: str
    name: str
    server: str | None
    frontend: str
    trace_id: str
    started: float
    seconds: float
    step: str | None


@dataclass(frozen=True, slots=True)
class RunningCalls:
    """The number of all calls that run, and those that began first, oldest first."""

    count: int
    oldest: tuple[OpenCall, ...]


def running_calls(call_log: CallLog, direct: DirectCalls, most: int = MOST) -> RunningCalls:
    """Return the calls that run now, of which at most `most` are told of."""
    waiting = direct.running()
    direct_ones = nlargest(most, waiting, key=lambda call: -call.received)
    records = [entry.record for entry in nlargest(most, call_log.open, key=lambda entry: -entry.record.began)]
    records += [call.record() for call in direct_ones]
    records.sort(key=lambda record: record.began)
    now = perf_counter()
    told = tuple(_described(record, now) for record in records[:most])
    return RunningCalls(len(waiting) + len(call_log.open), told)


def _described(record: CallRecord, now: float) -> OpenCall:
    return OpenCall(
        record.agent_id,
        record.tool or record.asked_name,
        record.server,
        record.frontend,
        record.trace.trace_id,
        record.started,
        now - record.began,
        record.steps[-1].name if record.steps else None,
    )
