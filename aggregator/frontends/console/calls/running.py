"""The calls under way, as rows above the list: those that a query finds, and one of them in full.

Rule: all pages of a process share one look in a second, and a look asks each replica once, for a bounded time.
"""

import asyncio
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from aggregator.frontends.console.fresh import Fresh
from aggregator.frontends.console.parts import ConsoleParts
from aggregator.gateway.calls.running_calls import OpenCall, RunningCalls
from aggregator.storage.audit.query import CallQuery, Term

# Rows above the list.
ROWS: Final = 20
# Characters to show of a name that a host made up.
_NAME: Final = 300
# Seconds that a look is good for.
_FRESH: Final = 1.0
NONE_RUNNING: Final[Mapping[str, Any]] = {"calls": [], "left_out": 0, "silent": []}
_NOT_YET: Final = ("code", "rule")


class OpenCallRows:
    """The calls that run now at all replicas."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._redactor = parts.redactor
        self._looked = Fresh(parts.running, _FRESH)

    async def all(self) -> tuple[RunningCalls, tuple[str, ...]]:
        """Return them, and the names of replicas that did not say."""
        return await self._looked.value()

    async def rows(self, query: CallQuery) -> dict[str, Any]:
        """Return the calls that a query finds, as rows, and how many are left out."""
        running, silent = await self.all()
        found = [call for call in running.oldest if fits(query, call)]
        shown = await asyncio.to_thread(self._shown, found[:ROWS])
        left = len(found) - len(shown) + (running.count - len(running.oldest) if query.all else 0)
        return {"calls": shown, "left_out": max(0, left), "silent": list(silent)}

    async def waiting(self, query: CallQuery) -> int:
        """Return how many of the calls that a query finds wait for a person."""
        running, _ = await self.all()
        return sum(call.waits and fits(query, call) for call in running.oldest)

    async def one(self, id: str) -> dict[str, Any] | None:
        """Return one of them by its id; None if it has ended."""
        running, _ = await self.all()
        found = [call for call in running.oldest if call.id == id]
        return (await asyncio.to_thread(self._shown, found))[0] if found else None

    def _shown(self, calls: Iterable[OpenCall]) -> list[dict[str, Any]]:
        """Return calls without secrets; what hosts wrote in names may hold some."""
        found = []
        for call in calls:
            shown = self._redactor.value(call.as_data())
            found.append({**shown, "name": shown["name"][:_NAME], "id": call.id, "waits": call.waits})
        return found


def fits(query: CallQuery, call: OpenCall) -> bool:
    """Tell whether a query matches a call in flight, as far as the call's known columns decide."""
    if query.since is not None and call.started < query.since:
        return False
    if query.until is not None and call.started >= query.until:
        return False
    return (
        all(_has(term, call) != term.negated for term in query.terms)
        and all((word.text.lower() in f"{call.name} {call.trace_id}".lower()) != word.negated for word in query.words)
        and all(bound.key == "took" and _within(bound.operator, call.seconds, bound.value) for bound in query.bounds)
    )


def _has(term: Term, call: OpenCall) -> bool:
    if term.key in _NOT_YET:
        return False
    if term.key == "status":
        # A running call has no status except waiting for confirmation.
        return call.waits and "pending" in term.values
    known: Mapping[str, str | None] = {
        "agent": call.agent_id,
        "tenant": call.tenant,
        "server": call.server,
        "tool": call.name,
        "frontend": call.frontend,
        "via": call.via,
        "conversation": call.conversation_id,
        "user": call.user_id,
        "trace": call.trace_id,
    }
    value = known[term.key]
    if value is None:
        return False
    if term.key == "trace":
        return value.startswith(term.values)
    return value in term.values or any(fnmatchcase(value, pattern.replace("[", "[[]")) for pattern in term.patterns)


def _within(operator: str, seconds: float, value: float) -> bool:
    # A call that runs can still become longer, so that it is never known to be shorter.
    return operator in (">", ">=") and seconds > value
