"""The person at the host: says yes to what they asked for, word for word, and no to everything else."""

import re
from collections.abc import Iterable
from typing import Any, Final

from aggregator.gateway.ask.argument_lines import shown_arguments
from benchmarks.flow_corpus.definitions import Json

_QUESTION: Final = re.compile(r"wants to call '(?P<tool>[^']+)' of the server '(?P<server>[^']+)' with")


class Person:
    """One person. `wanted` are the calls that they asked for; `asked` counts questions, `agreed` those with a yes."""

    def __init__(self, wanted: Iterable[tuple[str, Json, Json | None]]) -> None:
        self.questions: list[str] = []
        self.agreed = 0
        self._wanted = [(tool, set(shown_arguments(given, schema))) for tool, given, schema in wanted]

    def answer(self, params: Json) -> Json:
        """Return the answer to an elicitation."""
        message = str(params.get("message", ""))
        self.questions.append(message)
        if not self._is_wanted(message):
            return {"action": "decline"}
        self.agreed += 1
        content: dict[str, Any] = {"allow": True}
        return {"action": "accept", "content": content}

    def _is_wanted(self, message: str) -> bool:
        question = _QUESTION.search(message)
        if question is None:
            return False
        lines = {line[2:] for line in message.splitlines() if line.startswith("- ")}
        name = f"{question['server']}.{question['tool']}"
        return any(name == tool and lines == shown for tool, shown in self._wanted)
