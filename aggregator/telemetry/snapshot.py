"""The values that metrics read at the moment of a scrape: states of upstreams, sizes of queues."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple


@dataclass(frozen=True, slots=True)
class SpanCounts:
    """Spans since the start: delivered, refused or not taken at the other end, without room here; and those waiting."""

    exported: int
    failed: int
    dropped: int
    waiting: int


@dataclass(frozen=True, slots=True)
class ReceiverCounts:
    """Notices of one receiver since the start: handed over, given up, dropped for want of room; and those waiting."""

    sent: int
    failed: int
    dropped: int
    waiting: int


class RecentCalls(NamedTuple):
    """Calls of the last minutes, the unanswered ones among them, and their seconds by quantile."""

    calls: int
    failed: int
    times: tuple[tuple[str, float], ...]


_NOTHING: Final = RecentCalls(0, 0, ())


@dataclass(frozen=True, slots=True)
class UpstreamSnapshot:
    """One server: its state by name, its tools in the catalog, connections made after the first, calls it works on.

    `refused` are the calls that were one too many for it; `since` is when it came into its state, as Unix time.
    `held` are definitions that wait for an approval. `answers` is False while calls are refused because it does not
    answer.
    """

    state: str
    tools: int = 0
    reconnects: int = 0
    in_flight: int = 0
    refused: int = 0
    since: float = 0.0
    answers: bool = True
    lately: RecentCalls = _NOTHING
    held: int = 0


@dataclass(frozen=True, slots=True)
class ListTokens:
    """The tokens a list costs a model: with every tool the agent may call, and in its listed form."""

    whole: int
    shown: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All values that are scraped.

    `upstreams` by server id, `sessions` by frontend, `lists` by agent. `queues` and `lost` by kind of entry.

    `open` counts what hosts hold open and `refused` their refusals, by limit. Work waits in a queue (`audit`,
    `approvals`); `lost` counts the entries that did not fit. `spans` is None while tracing is off. `receivers` are the
    receivers of notices, by name.
    """

    upstreams: Mapping[str, UpstreamSnapshot] = field(default_factory=dict)
    sessions: Mapping[str, int] = field(default_factory=dict)
    open: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)
    queues: Mapping[str, int] = field(default_factory=dict)
    lost: Mapping[str, int] = field(default_factory=dict)
    lists: Mapping[str, ListTokens] = field(default_factory=dict)
    spans: SpanCounts | None = None
    receivers: Mapping[str, ReceiverCounts] = field(default_factory=dict)


# Measures everything that is scraped.
TakeSnapshot = Callable[[], Snapshot]
