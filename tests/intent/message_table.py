"""The table of messages: what is expected of each, what is found, and how often both agree.

The rules are tuned on all parts but `held` and `final`, which are only measured: what goes wrong there is not shown.
`python -m tests.intent.message_table` prints the figures, and what is not as expected in the other parts.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from aggregator.domain.names import listed_canonical, listed_compatible
from aggregator.domain.records import ToolRecord
from aggregator.intent.match.intent import IntentMatch, IntentMatcher, ServerWords

_DATA: Final = Path(__file__).parent / "data"
TUNED_ON: Final = (
    "tuned",
    "round1",
    "round2",
    "round3",
    "round4",
    "round5",
    "round6",
    "round7",
    "round8",
    "round9",
    "round10",
    "real1",
    "real2",
)
MEASURED: Final = ("held", "final")


@dataclass(frozen=True)
class SampleCatalog:
    """A small catalog with the names of real servers, and the rules for it."""

    intents: IntentMatcher
    tools: tuple[ToolRecord, ...]

    def match(self, message: str, limit: int = 10) -> IntentMatch:
        """Match a message against all tools."""
        return self.intents.match(message, self.tools, limit)


@dataclass(frozen=True)
class Row:
    """A message with the intent that a reader expects. `server` is None where the message names none, or several."""

    catalog: str
    message: str
    intent: str
    part: str
    server: str | None = None
    tool: str | None = None


@dataclass(frozen=True)
class PrecisionRecall:
    """Hits and totals: precision of the found values, recall of the expected ones."""

    precision: float
    recall: float
    found: int
    expected: int

    def __str__(self) -> str:
        return f"precision {self.precision:.3f} of {self.found}, recall {self.recall:.3f} of {self.expected}"


def tool(server: str, prefix: str, own: str, title: str = "", description: str = "") -> ToolRecord:
    """A tool as the catalog has it."""
    definition: dict[str, Any] = {"name": own, "description": description, "inputSchema": {"type": "object"}}
    if title:
        definition["title"] = title
    listed = {"canonical": listed_canonical(prefix, own), "compatible": listed_compatible(prefix, own)}
    return ToolRecord(server, prefix, own, definition, listed, 30.0)  # type: ignore[arg-type]


@cache
def sample_catalogs() -> dict[str, SampleCatalog]:
    """The catalogs by name."""
    made = {}
    for name, servers in json.loads((_DATA / "catalogs.json").read_text(encoding="utf-8")).items():
        words = [
            ServerWords(id, has.get("prefix", id), has["description"], tuple(has["trigger_keywords"]))
            for id, has in servers.items()
        ]
        tools = [
            tool(one.id, one.prefix, own, *said) for one in words for own, said in servers[one.id]["tools"].items()
        ]
        made[name] = SampleCatalog(IntentMatcher(words), tuple(tools))
    return made


@cache
def rows() -> tuple[Row, ...]:
    """All messages."""
    lines = (_DATA / "messages.jsonl").read_text(encoding="utf-8").splitlines()
    return tuple(Row(**json.loads(line)) for line in lines)


def found(row: Row) -> IntentMatch:
    """Return the match of a message of the table."""
    return sample_catalogs()[row.catalog].match(row.message)


def intent_figures(chosen: Iterable[Row]) -> PrecisionRecall:
    """Return precision and recall of the intent."""
    return _figures([(row.intent == "mcp" or None, found(row).intent == "mcp" or None) for row in chosen])


def server_figures(chosen: Iterable[Row]) -> PrecisionRecall:
    """Return precision and recall of the server."""
    return _figures([(row.server, found(row).server) for row in chosen])


def tool_figures(chosen: Iterable[Row]) -> PrecisionRecall:
    """Return precision and recall of the first tool, for messages that ask for one tool or for none."""
    asked = [row for row in chosen if row.tool is not None or row.intent == "none"]
    return _figures([(row.tool, next((one.name for one in found(row).tools), None)) for row in asked])


def wrong(row: Row) -> str:
    """Return the differences from what is expected; empty if there are none."""
    match = found(row)
    first = next((one.name for one in match.tools), None)
    if (match.intent, match.server) == (row.intent, row.server) and row.tool in (None, first):
        return ""
    expected = row.tool or row.server or row.intent
    return (
        f"{row.message!r}: {expected}, not {first or match.intent} of {match.server} by {match.rule} {match.matched!r}"
    )


def _figures(pairs: list[tuple[object, object]]) -> PrecisionRecall:
    given = sum(got is not None for _, got in pairs)
    asked = sum(expected is not None for expected, _ in pairs)
    right = sum(expected is not None and expected == got for expected, got in pairs)
    return PrecisionRecall(right / given if given else 1.0, right / asked if asked else 1.0, given, asked)


FIGURES: Final[dict[str, Callable[[Iterable[Row]], PrecisionRecall]]] = {
    "intent": intent_figures,
    "server": server_figures,
    "tool": tool_figures,
}


def _print() -> None:
    for part in (*TUNED_ON, *MEASURED):
        chosen = [row for row in rows() if row.part == part]
        print(f"{part}: {len(chosen)} messages")
        for name, figures in FIGURES.items():
            print(f"  {name:7} {figures(chosen)}")
    for row in rows():
        if row.part in TUNED_ON and (fault := wrong(row)):
            print(fault)


if __name__ == "__main__":
    _print()
