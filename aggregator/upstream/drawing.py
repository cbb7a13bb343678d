"""The table of states as Markdown: a diagram, what each state means, and every transition.

`python -m aggregator.upstream.drawing docs/supervision.md` puts it between the marks of that file.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aggregator.upstream.lifecycle.states import HAPPENS, MEANING, SHOWN, SHOWN_IF_KNOWN, TABLE, Event, State

BEGIN: Final = "<!-- states: begin -->\n"
END: Final = "<!-- states: end -->\n"
_LISTED: Final = {True: "yes", False: "no"}


def drawn() -> str:
    """All of it."""
    return "\n".join((*_diagram(), *_states(), *_transitions()))


def inserted(text: str) -> str:
    """A document with the drawing between its marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{drawn()}\n{END}{after}"


def _diagram() -> Iterator[str]:
    yield from ("```mermaid", "stateDiagram-v2", "    [*] --> starting", "    [*] --> disabled")
    for (before, event), after in TABLE.items():
        # The end is the same from everywhere, and would only hide the rest.
        if event != "stop":
            yield f"    {before} --> {after}: {event.replace('_', ' ')}"
    yield from ("```", "")


def _states() -> Iterator[str]:
    yield from ("| state | means | tools listed |", "| --- | --- | --- |")
    for state, meaning in MEANING.items():
        yield f"| `{state}` | {meaning} | {_listed(state)} |"
    yield ""


def _listed(state: State) -> str:
    return "where it is known what it had" if state in SHOWN_IF_KNOWN else _LISTED[state in SHOWN]


def _transitions() -> Iterator[str]:
    yield from ("| event | is | leads |", "| --- | --- | --- |")
    for event, what in HAPPENS.items():
        yield f"| {event.replace('_', ' ')} | {what} | {', '.join(_ways(event))} |"
    yield ""


def _ways(event: Event) -> Iterator[str]:
    """Those that change nothing are left out."""
    for (before, happening), after in TABLE.items():
        if happening == event and before != after:
            yield f"`{before}` to `{after}`"


def main(document: Path) -> None:
    """Bring one document up to date."""
    document.write_text(inserted(document.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
