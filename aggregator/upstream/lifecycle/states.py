"""The states of an upstream, as one table. This file decides; it awaits nothing and reads no clock."""

from dataclasses import dataclass
from typing import Final, Literal

from aggregator.config.durations import format_duration

State = Literal["disabled", "starting", "ready", "reconnecting", "unavailable", "stopped"]
Event = Literal["connected", "failed", "lost", "gave_up", "rest", "wake", "stop"]

TABLE: Final[dict[tuple[State, Event], State]] = {
    ("starting", "connected"): "ready",
    ("starting", "failed"): "unavailable",
    ("starting", "rest"): "stopped",
    ("starting", "stop"): "stopped",
    ("ready", "lost"): "reconnecting",
    ("ready", "rest"): "stopped",
    ("ready", "stop"): "stopped",
    # A failed attempt within the grace period changes nothing: the cached tools stay.
    ("reconnecting", "failed"): "reconnecting",
    ("reconnecting", "connected"): "ready",
    ("reconnecting", "gave_up"): "unavailable",
    ("reconnecting", "stop"): "stopped",
    ("unavailable", "failed"): "unavailable",
    ("unavailable", "connected"): "ready",
    ("unavailable", "stop"): "stopped",
    ("stopped", "wake"): "starting",
    ("stopped", "stop"): "stopped",
    ("disabled", "stop"): "disabled",
}

# What a state means and what an event is; `drawing` puts them beside the table.
MEANING: Final[dict[State, str]] = {
    "starting": "it is being started or connected; calls wait for it",
    "ready": "it answers",
    "reconnecting": "a working connection was lost less than `grace` ago; calls wait up to `reconnect_wait`",
    "unavailable": "it cannot be reached; it is tried again with growing pauses",
    "stopped": "it does not run; it starts with its next call, unless the aggregator itself is ending",
    "disabled": "switched off in the configuration, or by a variable that is not set",
}
HAPPENS: Final[dict[Event, str]] = {
    "connected": "it was reached, greeted, and has listed its tools",
    "failed": "an attempt to connect failed",
    "lost": "a working connection ended",
    "gave_up": "`grace` is over, or it refused us (401, 403, 404, a missing command)",
    "rest": "nobody used it for `idle_timeout`, or `start` says that nobody needs it yet",
    "wake": "a call, a read or a prompt wants it, or the time of a `lazy` start has come",
    "stop": "the aggregator ends, or the entry was taken out of the configuration",
}

# In these states a server's tools are listed and callable.
SHOWN: Final[frozenset[State]] = frozenset({"ready", "reconnecting"})
# In these they are listed where it is known what it had.
SHOWN_IF_KNOWN: Final[frozenset[State]] = frozenset({"starting", "stopped"})


@dataclass(frozen=True, slots=True)
class StateAndReason:
    """How an upstream is: `reason` without a full stop, `since` and `next_try` in seconds since 1970."""

    state: State
    reason: str = ""
    since: float = 0.0
    next_try: float | None = None

    def told(self, now: float) -> str:
        """Why it is so, and when it is tried again; empty where there is nothing to say."""
        again = f"next try in {about(self.next_try - now)}" if self.next_try is not None else ""
        return "; ".join(filter(None, (self.reason, again)))


def after(state: State, event: Event) -> State:
    """The state that follows.

    Raises:
        ValueError: the event cannot happen there.
    """
    try:
        return TABLE[state, event]
    except KeyError:
        raise ValueError(f"{event!r} cannot happen to a server that is {state!r}") from None


def about(seconds: float) -> str:
    """A length of time as a person would say it: `12s`, `5m`, `3h20m`, never less than a second."""
    step = 1 if seconds < 100 else 60 if seconds < 86_400 else 3600
    return format_duration(max(1, round(seconds / step) * step))
