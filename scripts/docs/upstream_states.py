"""The states of an upstream, for docs/supervision.md: a diagram, the meaning of each state, and every transition."""

from collections.abc import Iterator
from typing import Final

from aggregator.upstream.lifecycle.states import (
    EVENT_MEANING,
    LISTED,
    LISTED_IF_KNOWN,
    STATE_MEANING,
    TABLE,
    Event,
    State,
)
from scripts.docs.marks import between_marks

_LISTED: Final = {True: "yes", False: "no"}


def rendered() -> str:
    """Return the diagram and both tables as Markdown."""
    return "\n".join((*_diagram(), *_states(), *_transitions()))


def inserted(text: str) -> str:
    """Return the document with the states between its marks."""
    return between_marks(text, "states", rendered())


def _diagram() -> Iterator[str]:
    yield from ("```mermaid", "stateDiagram-v2", "    [*] --> starting", "    [*] --> disabled")
    for (before, event), after in TABLE.items():
        # The end is possible in every state, and would only hide the other transitions.
        if event != "stop":
            yield f"    {before} --> {after}: {event.replace('_', ' ')}"
    yield from ("```", "")


def _states() -> Iterator[str]:
    yield from ("| state | meaning | tools listed |", "| --- | --- | --- |")
    for state, meaning in STATE_MEANING.items():
        yield f"| `{state}` | {meaning} | {_listed(state)} |"
    yield ""


def _listed(state: State) -> str:
    return "if known from an earlier connection" if state in LISTED_IF_KNOWN else _LISTED[state in LISTED]


def _transitions() -> Iterator[str]:
    yield from ("| event | meaning | transitions |", "| --- | --- | --- |")
    for event, what in EVENT_MEANING.items():
        yield f"| {event.replace('_', ' ')} | {what} | {', '.join(_leads(event))} |"
    yield ""


def _leads(event: Event) -> Iterator[str]:
    """Yield the transitions of an event, without those that change nothing."""
    for (before, happening), after in TABLE.items():
        if happening == event and before != after:
            yield f"`{before}` to `{after}`"
