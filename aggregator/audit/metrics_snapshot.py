"""What is read at the moment of a scrape: the state of things, as the one who knows them hands it over."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from aggregator.audit.spans_outbox import Figures


@dataclass(frozen=True, slots=True)
class Upstream:
    """One server: its state by name, its tools in the catalog, connections made after the first, calls it works on."""

    state: str
    tools: int = 0
    reconnects: int = 0
    in_flight: int = 0


@dataclass(frozen=True, slots=True)
class ListTokens:
    """What a list costs a model: with every tool the agent may call, and as it is shown to it."""

    whole: int
    shown: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`upstreams` by server id, `sessions` by door, `lists` by agent. `queues` and `lost` by what waits in them.

    A queue is anything work waits in (`audit`, `approvals`); what it had no room for is counted in `lost`. `spans` is
    None while tracing is off.
    """

    upstreams: Mapping[str, Upstream] = field(default_factory=dict)
    sessions: Mapping[str, int] = field(default_factory=dict)
    queues: Mapping[str, int] = field(default_factory=dict)
    lost: Mapping[str, int] = field(default_factory=dict)
    lists: Mapping[str, ListTokens] = field(default_factory=dict)
    spans: Figures | None = None
