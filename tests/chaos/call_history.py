"""A record of every call of a chaos run and of its answers; every claim of the run is checked against it."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from aggregator.domain.errors import ERROR_META_KEY

Json = dict[str, Any]

# The allowed outcomes of a call besides its result. Any other outcome is a fault of the aggregator.
ENDS: Final = frozenset(
    {"upstream_timeout", "upstream_unavailable", "outcome_unknown", "upstream_bad_answer", "upstream_http_error"}
    | {"upstream_busy", "upstream_refused", "tool_error", "rpc error", "result", "unknown tool", "no answer"}
)
_UNKNOWN: Final = -32602


@dataclass(slots=True)
class RecordedCall:
    """One call: `answers` are the messages that its host received, `given_up` is true after a cancellation."""

    frontend: str
    tool: str
    fault: str | None
    answers: list[Json] = field(default_factory=list)
    given_up: bool = False


class CallHistory:
    """Every call by the name that it carries from end to end."""

    def __init__(self) -> None:
        self.calls: dict[str, RecordedCall] = {}
        self.made = 0
        self.faults: Counter[str] = Counter()
        self.ends: Counter[str] = Counter()
        self.problems: list[str] = []

    def open(self, frontend: str, tool: str, fault: str | None) -> str:
        """The name of a new call."""
        self.made += 1
        name = f"call-{self.made}"
        self.calls[name] = RecordedCall(frontend, tool, fault)
        self.faults[fault or "none"] += 1
        return name

    def close(self) -> dict[str, bool]:
        """Judge the calls since the last time, which are all over; by name, whether there was an answer."""
        for name, called in self.calls.items():
            self._judge(name, called)
        answered = {name: bool(called.answers) for name, called in self.calls.items()}
        self.calls.clear()
        return answered

    def _judge(self, name: str, called: RecordedCall) -> None:
        count = len(called.answers)
        if count > 1 or (count == 0 and not called.given_up):
            self.problems.append(f"{count} answers for {name}: {called}")
        end = end_of(name, called.answers[0], plain=called.fault is None) if called.answers else "no answer"
        self.ends[end] += 1
        if end not in ENDS:
            self.problems.append(f"{end}: {called}")


def end_of(name: str, message: Json, *, plain: bool) -> str:
    """Classify an answer in a word; a result must belong to its own call."""
    error = message.get("error")
    if error is not None:
        data = error.get("data")
        if error["code"] == _UNKNOWN:
            return "unknown tool"
        return "rpc error" if error["code"] != -32603 or isinstance(data, dict) else f"internal error: {error}"
    result = message["result"]
    refusal = (result.get("_meta") or {}).get(ERROR_META_KEY)
    if refusal is not None:
        return str(refusal["code"])
    if result.get("isError"):
        return "tool_error"
    words = result["content"][0]["text"]
    return "result" if words == name or (not plain and set(words) == {"x"}) else f"not its own: {words[:100]}"
