"""The calls in flight, for operators: how many, and the longest running.

Rule: this costs a call nothing; it reads the records that calls keep anyway.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from heapq import nlargest
from time import perf_counter
from typing import Any, Final

from aggregator.domain.call_record import CallRecord
from aggregator.gateway.call_log import CallLog
from aggregator.gateway.calls.direct import DirectCalls

# The most calls to show.
MOST: Final = 100
# Characters of a name that a host made up: who shows it takes out secrets before the next cut.
_NAME: Final = 1_000


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call in flight. `name` is the tool's, or the asked one; `step` the last step done, `seconds` its time so far.
    `id` is that of its span; `approval_id` is set once its question is queued.
    """

    id: str
    agent_id: str
    name: str
    server: str | None
    frontend: str
    trace_id: str
    started: float
    seconds: float
    step: str | None
    tenant: str | None = None
    user_id: str | None = None
    conversation_id: str | None = None
    via: str | None = None
    approval_id: str | None = None

    @property
    def waits(self) -> bool:
        """True while it waits for an approval, by its record."""
        return self.approval_id is not None and self.step != "upstream"

    def as_data(self) -> dict[str, Any]:
        """Return the call as plain values."""
        return asdict(self)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "OpenCall":
        """Return the call that `as_data` gave.

        Raises:
            TypeError: the data are those of another version.
        """
        known = {one.name for one in fields(cls)}
        return cls(**{name: value for name, value in data.items() if name in known})


@dataclass(frozen=True, slots=True)
class RunningCalls:
    """The number of calls in flight, and the oldest of them, oldest first."""

    count: int
    oldest: tuple[OpenCall, ...]


def running_calls(call_log: CallLog, direct: DirectCalls, most: int = MOST) -> RunningCalls:
    """Return the calls in flight, at most `most` of them in detail."""
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
        record.trace.span_id,
        record.caller.agent_id,
        (record.called.tool or record.asked_name)[:_NAME],
        record.called.server,
        record.caller.frontend,
        record.trace.trace_id,
        record.started,
        now - record.began,
        record.steps[-1].name if record.steps else None,
        record.caller.tenant,
        record.caller.user_id,
        record.caller.conversation_id,
        record.caller.via,
        record.decision.approval_id,
    )
