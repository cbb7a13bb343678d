"""The calls: a list that is searched, filtered and live, and the stream of updates."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aggregator.frontends.console.calls.live import LiveCalls
from aggregator.frontends.console.calls.one_call import OneCall
from aggregator.frontends.console.calls.rows import MinuteTable, counted_text, hour_data, listed
from aggregator.frontends.console.calls.running import NONE_RUNNING, OpenCallRows
from aggregator.frontends.console.parts import ConsoleParts
from aggregator.frontends.console.rendering import Renderer
from aggregator.frontends.console.tool_data import link
from aggregator.frontends.console.view import (
    BadInput,
    ConsoleRequest,
    ConsoleStream,
    NotThere,
    PageRoute,
    PageView,
    Redirect,
)
from aggregator.storage.audit.query import LONGEST, parse
from aggregator.storage.audit.read import LogPlace
from aggregator.storage.audit.search import Counts, place_of, place_text

_HOUR: Final = 3600.0
# Seconds that counts are good for another page, and how many queries' are kept.
_COUNTS_FOR: Final = 2.0
_COUNTS: Final = 32
_DIGITS: Final = 18
_CALLS: Final = {"Calls": "/calls"}
_SEARCH: Final = {
    "q": "the query: agent: tenant: server: tool: status: code: rule: frontend: via: conversation: user: trace: took: "
    "size: since: until: and words",
    "before": "rows below this number, to go on with a search",
}


class CallsPage:
    """The list of calls, one call, and the stream for both."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts
        self._one = OneCall(parts)
        self._open_calls = OpenCallRows(parts)
        self._live = LiveCalls(parts, Renderer("").part, self._open_calls)
        self._counted: dict[tuple[str, bool], tuple[float, Counts]] = {}

    def routes(self) -> Sequence[PageRoute]:
        """Return the ways to it."""
        stream = {"q": "the query of the page, if it has a list", "after": "how far the page has the log"}
        return [
            PageRoute("GET", "/calls", "viewer", self.show, "Calls, newest first, found by a query", fields=_SEARCH),
            PageRoute(
                "GET", "/calls/running/{id}", "viewer", self.running, "One call that has not ended", fields=_SEARCH
            ),
            PageRoute("GET", "/calls/{seq}", "viewer", self.one, "One call, with its way", fields=_SEARCH),
            PageRoute("GET", "/live", "viewer", self.live, "What happens, as events", fields=stream, stream=True),
        ]

    async def show(self, request: ConsoleRequest) -> PageView:
        """Return the list."""
        return PageView("calls.html", "Calls", await self._list(request), fragment="_calls.html")

    async def one(self, request: ConsoleRequest) -> PageView:
        """Return one call, beside the list."""
        text = request.path["seq"]
        if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS):
            raise NotThere(f"There is no call {text[:80]!r}: calls are named by the numbers of their rows.")
        row = await (await self._parts.opened()).calls.one(int(text))
        if row is None:
            raise NotThere(f"There is no call in row {text}: it may have been removed for its age.")
        call = await self._one.data(row, values=request.person.may("approver"))
        if request.as_json:
            return PageView("calls.html", "Call", {"call": call})
        title = f"{call['name'][:80]}, {call['status']}"
        return PageView("calls.html", title, {**await self._list(request), "opened": call})

    async def running(self, request: ConsoleRequest) -> PageView | Redirect:
        """Return one call that has not ended, beside the list; once it has, the calls of its trace.

        Raises:
            NotThere: no such call runs.
        """
        found = await self._open_calls.one(request.path["id"])
        if found is None:
            row = await (await self._parts.opened()).calls.of_span(request.path["id"])
            if row is not None:
                return Redirect(f"/calls/{row}")
            raise NotThere(
                "No such call is under way; if it has just ended, it is among the calls in a moment.", _CALLS
            )
        found["links"] = self._links(found)
        if request.as_json:
            return PageView("calls.html", "Call", {"call": found})
        title = f"{found['name'][:80]}, under way"
        return PageView("calls.html", title, {**await self._list(request), "under_way": found})

    def _links(self, call: Mapping[str, Any]) -> dict[str, str]:
        """Return the pages of the agents, tools and servers of a call, as far as there are any."""
        links = {"trace": f"/calls?q=trace:{call['trace_id']}"}
        if self._parts.browser.principal(call["agent_id"]) is not None:
            links["agent"] = link("agents", call["agent_id"])
        if call["server"] in self._parts.upstreams:
            links["server"] = link("servers", call["server"])
        if call["approval_id"] is not None:
            links["approval"] = link("approvals", call["approval_id"])
        return links

    async def live(self, request: ConsoleRequest) -> ConsoleStream:
        """Return the stream of what happens."""
        approves = request.person.may("approver")
        text = request.query.get("q")
        events = self._live.events(
            request.base,
            text[:LONGEST] if text is not None else None,
            after=_place(request),
            values=approves,
            approves=approves,
        )
        return ConsoleStream(events)

    async def _list(self, request: ConsoleRequest) -> dict[str, Any]:
        """Return the rows of the query, and the counts above them."""
        text, now = request.query.get("q", "")[:LONGEST], time.time()
        query, before, values = parse(text, now), _number(request, "before"), request.person.may("approver")
        calls = (await self._parts.opened()).calls
        # The stream sends the calls after this place.
        place, newest = await calls.end(), await calls.newest()
        found, counts = await asyncio.gather(
            calls.find(query, before=before or newest + 1, values=values),
            self._counts(counted_text(text), now, values),
        )
        waiting = await self._open_calls.waiting(parse(counted_text(text), now))
        return {
            "query": text,
            "problems": list(query.problems),
            "rows": [listed(row, values=values) for row in found.rows],
            "before": found.before,
            "paged": before is not None,
            "full": found.full,
            "looked_to": found.looked_to,
            "narrow": not query.all,
            "hour": hour_data(MinuteTable(counts.counted, counts.since), text, now, waiting),
            "newest": newest,
            "place": place_text(place),
            "opened": None,
            "under_way": None,
            "running": await self._open_calls.rows(query) if before is None else NONE_RUNNING,
            "rate": None,
        }

    async def _counts(self, text: str, now: float, values: bool) -> Counts:
        """Return the counts of a query, which many pages share for a moment."""
        known = self._counted.get((text, values))
        if known is not None and now - known[0] < _COUNTS_FOR:
            return known[1]
        counts = await (await self._parts.opened()).calls.count(parse(text, now), now - _HOUR, values=values)
        if len(self._counted) >= _COUNTS:
            self._counted.clear()
        self._counted[text, values] = now, counts
        return counts


def _place(request: ConsoleRequest) -> LogPlace | None:
    """Return the place of the log that a page has, or None.

    Raises:
        BadInput: it is no place of the log.
    """
    text = request.query.get("after", "")
    place = place_of(text) if text else None
    if text and place is None:
        raise BadInput("after", "`after` is a place of the log, as the page of the list has it.")
    return place


def _number(request: ConsoleRequest, name: str) -> int | None:
    """Return a number of the query, or None.

    Raises:
        BadInput: it is no number.
    """
    text = request.query.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS):
        raise BadInput(name, f"`{name}` is the number of a row.")
    return int(text)
