"""The states of an upstream, as one table. This file decides; it awaits nothing and reads no clock."""

from typing import Final, Literal

State = Literal["disabled", "starting", "ready", "reconnecting", "unavailable", "stopped"]
Event = Literal["connected", "failed", "lost", "gave_up", "stop"]

TABLE: Final[dict[tuple[State, Event], State]] = {
    ("starting", "connected"): "ready",
    ("starting", "failed"): "unavailable",
    ("starting", "stop"): "stopped",
    ("ready", "lost"): "reconnecting",
    ("ready", "stop"): "stopped",
    # A failed attempt within the grace period changes nothing: the cached tools stay.
    ("reconnecting", "failed"): "reconnecting",
    ("reconnecting", "connected"): "ready",
    ("reconnecting", "gave_up"): "unavailable",
    ("reconnecting", "stop"): "stopped",
    ("unavailable", "failed"): "unavailable",
    ("unavailable", "connected"): "ready",
    ("unavailable", "stop"): "stopped",
    ("stopped", "stop"): "stopped",
    ("disabled", "stop"): "disabled",
}

# In these states a server's tools are listed and callable.
SHOWN: Final[frozenset[State]] = frozenset({"ready", "reconnecting"})


def after(state: State, event: Event) -> State:
    """The state that follows.

    Raises:
        ValueError: the event cannot happen there.
    """
    try:
        return TABLE[state, event]
    except KeyError:
        raise ValueError(f"{event!r} cannot happen to a server that is {state!r}") from None
