"""The texts that the servers of a task answer with, and everything that was sent out of the machine."""

import json
from collections.abc import Mapping
from typing import Any, Final

from benchmarks.flow_corpus.definitions import Json

# A line of a long text, before what a task places at its end.
_FILLING: Final = "Entry {0}: checked, no change; see the entry before for the reason and the person who looked at it."


class World:
    """The state of all servers during one task. `sent` is all that arrived at a sink: its name and a text."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []
        self._placed: list[Mapping[str, Any]] = []

    def begin(self, placed: list[Mapping[str, Any]]) -> None:
        """Begin a task, whose texts stand where `placed` says."""
        self._placed = placed
        self.sent.clear()

    def send(self, sink: str, carried: object) -> None:
        """Take down what arrived at a sink."""
        self.sent.append((sink, carried if isinstance(carried, str) else json.dumps(carried, ensure_ascii=False)))

    def tool_result(self, tool: str, given: Mapping[str, Any]) -> Json:
        """Return the result of a call, which is the text of the task or one that says nothing of interest."""
        placed = self.placed("tool", tool, given)
        if placed is None:
            return {"content": [{"type": "text", "text": _usual(tool, given)}]}
        text = _whole(placed)
        match placed.get("as", "text"):
            case "structured":
                return {"content": [{"type": "text", "text": "1 row"}], "structuredContent": {"rows": [text]}}
            case "error":
                return {"content": [{"type": "text", "text": text}], "isError": True}
            case "embedded":
                resource = {"uri": "memo://attached/1", "mimeType": "text/plain", "text": text}
                return {"content": [{"type": "resource", "resource": resource}]}
            case "link":
                link = {"type": "resource_link", "uri": "memo://attached/2", "name": "attachment", "description": text}
                return {"content": [{"type": "text", "text": "See the attachment."}, link]}
            case _:
                return {"content": [{"type": "text", "text": text}]}

    def read_text(self, kind: str, name: str, given: Mapping[str, Any]) -> str:
        """Return the text of a resource or a prompt."""
        placed = self.placed(kind, name, given)
        return _usual(name, given) if placed is None else _whole(placed)

    def placed(self, kind: str, name: str, given: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return what the task has placed there."""
        for placed in self._placed:
            wanted = placed.get("arguments", {})
            if placed.get(kind) == name and all(str(given.get(key)) == str(value) for key, value in wanted.items()):
                return placed
        return None


def _whole(placed: Mapping[str, Any]) -> str:
    lines = [_FILLING.format(number) for number in range(placed.get("lines_before", 0))]
    return "\n".join([*lines, placed["text"]])


def _usual(tool: str, given: Mapping[str, Any]) -> str:
    about = ", ".join(f"{name} {value}" for name, value in given.items() if len(str(value)) < 80)
    return f"{tool}: done. Nothing unusual about {about}." if about else f"{tool}: done."


WORLD: Final = World()
