"""The states of an upstream, as one table. This file decides; it awaits nothing and reads no clock."""

from dataclasses import dataclass
from typing import Final, Literal

from aggregator.config.durations import format_duration
from aggregator.domain.reasons import for_operator

State = Literal["disabled", "starting", "ready", "reconnecting", "unavailable", "stopped"]
Event = Literal["connected", "failed", "lost", "gave_up", "idle", "start", "stop"]

TABLE: Final[dict[tuple[State, Event], State]] = {
    ("starting", "connected"): "ready",
    ("starting", "failed"): "unavailable",
    ("starting", "idle"): "stopped",
    ("starting", "stop"): "stopped",
    ("ready", "lost"): "reconnecting",
    ("ready", "idle"): "stopped",
    ("ready", "stop"): "stopped",
    # A failed attempt within the grace period changes nothing: calls go on waiting.
    ("reconnecting", "failed"): "reconnecting",
    ("reconnecting", "connected"): "ready",
    ("reconnecting", "gave_up"): "unavailable",
    ("reconnecting", "stop"): "stopped",
    ("unavailable", "failed"): "unavailable",
    ("unavailable", "connected"): "ready",
    ("unavailable", "stop"): "stopped",
    ("stopped", "start"): "starting",
    ("stopped", "stop"): "stopped",
    ("disabled", "stop"): "disabled",
}

# Explanations for operators; `scripts/docs/upstream_states.py` puts them beside the table.
STATE_MEANING: Final[dict[State, str]] = {
    "starting": "it is being started or connected; calls wait for it",
    "ready": "it answers",
    "reconnecting": "a working connection was lost less than `limits.grace` ago; calls wait, for at most "
    "`limits.reconnect_wait`",
    "unavailable": "it cannot be reached; calls are answered at once with the reason, and it is tried again with "
    "growing pauses",
    "stopped": "it does not run; it starts with its next call, unless the aggregator itself is ending",
    "disabled": "switched off in the configuration, by an unset variable, or by an operator",
}
EVENT_MEANING: Final[dict[Event, str]] = {
    "connected": "the connection is initialized and the tools are listed",
    "failed": "an attempt to connect failed",
    "lost": "a working connection ended",
    "gave_up": "`limits.grace` is over, or it refused us (401, 403, 404, a missing command)",
    "idle": "it was not used for `limits.idle_timeout`, or `start` says that it is not needed yet",
    "start": "a call, a read or a prompt needs it, or the time of a `lazy` start has come",
    "stop": "the aggregator ends, or the entry was removed from the configuration",
}

# In these states the tools of an upstream are listed.
LISTED: Final[frozenset[State]] = frozenset({"ready", "reconnecting"})
# In these states the lists of an earlier connection count.
LISTED_IF_KNOWN: Final[frozenset[State]] = frozenset({"starting", "stopped", "unavailable"})


@dataclass(frozen=True, slots=True)
class StateAndReason:
    """The state of an upstream at one moment, with its reason.

    reason: in our words, without a full stop at its end; empty if there is nothing to say.
    said: the words of the server about it, for operators alone.
    since, next_try: seconds since 1970; `next_try` is None while no attempt to connect is scheduled.
    """

    state: State
    reason: str = ""
    since: float = 0.0
    next_try: float | None = None
    said: str = ""

    @property
    def operator_text(self) -> str:
        """The reason with the words of the server, for operators."""
        return for_operator(self.reason, self.said)

    def text(self, now: float) -> str:
        """Return the reason and the time until the next attempt; empty if there is neither."""
        return self._with_next_try(self.reason, now)

    def text_for_operator(self, now: float) -> str:
        """Return the same with the words of the server."""
        return self._with_next_try(self.operator_text, now)

    def _with_next_try(self, reason: str, now: float) -> str:
        again = f"next try in {round_duration(self.next_try - now)}" if self.next_try is not None else ""
        return "; ".join(filter(None, (reason, again)))


def next_state(state: State, event: Event) -> State:
    """Return the state that follows when the event happens.

    Raises:
        ValueError: the event cannot happen in this state.
    """
    try:
        return TABLE[state, event]
    except KeyError:
        raise ValueError(f"{event!r} cannot happen to a server that is {state!r}") from None


def event_of_failure(state: State, *, lasting: bool = False) -> Event:
    """Return the one event that the end of a connection, or of an attempt to connect, is in this state.

    lasting: the failure needs an operator, so that the grace period is not waited for.
    """
    match state, lasting:
        case "ready", _:
            return "lost"
        case "reconnecting", True:
            return "gave_up"
        case _:
            return "failed"


def round_duration(seconds: float) -> str:
    """Return a duration for people, at least a second, with one or two units: `12s`, `5m`, `3h20m`."""
    step = 1 if seconds < 100 else 60 if seconds < 86_400 else 3600
    return format_duration(max(1, round(seconds / step) * step))
