"""W3C Trace Context: the position of a call in its trace, read from incoming and written to outgoing requests.

Law: a malformed header counts as absent, as the standard demands; it never fails a call.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final

from aggregator.domain.call_record import TraceContext

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"

# Decides whether a trace is recorded; `caller` is the caller's flag, None without a caller.
Sample = Callable[[str, bool | None], bool]


# Section 3.2.2: `00` is exactly this long; a later version may go on after a dash, and `ff` is none.
_TRACEPARENT: Final = re.compile(
    r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?"
)
_SAMPLED: Final = 0x01
# Section 3.3.1: a key, perhaps of a tenant, and a value without commas that does not end in a space.
_MEMBER: Final = re.compile(
    r"([a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13})"
    r"=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
)
_MEMBERS: Final = 32
# Section 3.3.1.5: this much is always passed on; of more, the long members go first, then the last ones.
_STATE_LENGTH: Final = 512
_LONG_MEMBER: Final = 128
# More than this is not even looked at.
_READ_AT_MOST: Final = 8_192
# An odd number without a pattern: its multiples keep the ids of one call apart, and no child has its parent's id.
_APART: Final = 0x9E3779B97F4A7C15
_ID_BITS: Final = (1 << 64) - 1
# Ids have to differ, not to be secret: asking the system for each costs more than all else here.
_random: Final = Random()  # noqa: S311
if hasattr(os, "register_at_fork"):
    # Else a process and its fork would continue with the same ids.
    os.register_at_fork(after_in_child=_random.seed)


def as_caller(trace_id: str, caller: bool | None) -> bool:
    """Tell whether a trace is sampled if this process records nothing: the caller's flag, or True without one."""
    return caller is not False


def begin(
    meta: Any = None, headers: Mapping[str, Sequence[str]] | None = None, sample: Sample = as_caller
) -> TraceContext:
    """Return the place of a call that has just come in: below its caller's span, or at the root of a new trace.

    `_meta` counts before the HTTP headers, which speak of the request that brought the message (SEP-414). `headers`
    are all values by name in lower case.
    """
    parent = _parse(meta[TRACEPARENT]) if isinstance(meta, dict) and TRACEPARENT in meta else None
    states: Sequence[Any] = (meta[TRACESTATE],) if parent is not None and TRACESTATE in meta else ()
    if parent is None and headers is not None:
        lines = headers.get(TRACEPARENT, ())
        parent = _parse(lines[0]) if len(lines) == 1 else None
        states = headers.get(TRACESTATE, ())
    if parent is None:
        # A tenth of the time that formatting such a number takes.
        minted = _random.getrandbits(192).to_bytes(24).hex()
        trace_id = minted[:32]
        return TraceContext(trace_id, minted[32:], None, sample(trace_id, None))
    trace_id, parent_id, sampled = parent
    state = parse_tracestate(states) if states else ""
    return TraceContext(trace_id, new_span_id(), parent_id, sample(trace_id, sampled), state)


def below(above: TraceContext) -> TraceContext:
    """Return the trace position of a call within another one."""
    return TraceContext(above.trace_id, new_span_id(), above.span_id, above.sampled, above.tracestate)


def new_span_id() -> str:
    """Return an id that no other span has."""
    return _random.getrandbits(64).to_bytes(8).hex()


def onward(trace: TraceContext, attempt: int = 0, *, recorded: bool) -> dict[str, str]:
    """Return the trace members of the `attempt`-th request to an upstream, for its `_meta` or headers.

    `recorded` says that our own spans are exported. If they are not, our caller's span is the upstream's parent
    (section 4.1), so that no trace has a hole.
    """
    parent_id = upstream_span_id(trace, attempt) if recorded else trace.parent_id or trace.span_id
    carried = {TRACEPARENT: f"00-{trace.trace_id}-{parent_id}-{'01' if trace.sampled else '00'}"}
    if trace.tracestate:
        carried[TRACESTATE] = trace.tracestate
    return carried


def upstream_span_id(trace: TraceContext, attempt: int = 0) -> str:
    """The span id of the `attempt`-th request to an upstream, from 0: it is sent before the span is made."""
    return _child(trace, 2 * attempt + 1)


def step_span_id(trace: TraceContext, index: int) -> str:
    """Return the id of the span of any other step; `index` is its place among the steps."""
    return _child(trace, 2 * index + 2)


def parse_tracestate(lines: Sequence[Any]) -> str:
    """Return the members of all `tracestate` lines as one; empty if any is malformed (section 3.3)."""
    if not all(isinstance(line, str) for line in lines) or sum(map(len, lines)) > _READ_AT_MOST:
        return ""
    members = [member for line in lines for part in line.split(",") if (member := part.strip(" \t"))]
    keys = {member.partition("=")[0] for member in members}
    if len(keys) < len(members) or len(members) > _MEMBERS or not all(map(_MEMBER.fullmatch, members)):
        return ""
    if len(",".join(members)) > _STATE_LENGTH:
        members = _shortened(members)
    return ",".join(members)


def _shortened(members: list[str]) -> list[str]:
    kept = list(members)
    for member in reversed(members):
        if len(",".join(kept)) <= _STATE_LENGTH:
            return kept
        if len(member) > _LONG_MEMBER:
            kept.remove(member)
    while len(",".join(kept)) > _STATE_LENGTH:
        kept.pop()
    return kept


def _parse(text: Any) -> tuple[str, str, bool] | None:
    """Trace id, span id and whether it is sampled."""
    if not isinstance(text, str) or len(text) > _READ_AT_MOST:
        return None
    read = _TRACEPARENT.fullmatch(text)
    if read is None or (read[1] == "00" and read[5] is not None):
        return None
    return read[2], read[3], bool(int(read[4], 16) & _SAMPLED)


def _child(trace: TraceContext, number: int) -> str:
    return f"{(int(trace.span_id, 16) + number * _APART) & _ID_BITS or 1:016x}"
