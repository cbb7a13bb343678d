"""The stream of live updates for open pages: new calls, their counts, waiting calls, states of servers.

Rule 1: the call pipeline does not depend on it. While a page is open, the stream of one of them reads the audit for
all. Rule 2: the queue of a page that does not read is bounded; beyond the bound, the page reads its list again.
"""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from aggregator.domain.errors import AggregatorError
from aggregator.frontends.console.calls.rows import MinuteTable, counted_text, hour_data, listed
from aggregator.frontends.console.calls.running import OpenCallRows
from aggregator.frontends.console.parts import ConsoleParts
from aggregator.storage.audit.query import CallQuery, parse
from aggregator.storage.audit.read import LogPlace
from aggregator.storage.audit.search import SLOW, ArrivedCall

log = logging.getLogger(__name__)

# Seconds between two looks, and between two counts.
EVERY: Final = 0.5
PULSE: Final = 1.0
# Distinct queries that are followed; pages with others read their lists again every so many seconds.
QUERIES: Final = 8
REFRESH: Final = 5.0
# Rows a second from which on only those are sent that are not plainly ok, and rows in one event.
CALM: Final = 4.0
TOGETHER: Final = 4
# Rows read in one go; if there are more, lists are read again.
_BATCH: Final = 2000
_UNREAD_ROWS: Final = 40
_CROWD: Final = 20
# Rows between a page and its stream from which on the page reads its list again.
_MISSED: Final = 20
_KEEP_ALIVE: Final = 15.0
_COUNT_WAITING: Final = 30.0
_AFTER_FAULT: Final = 5.0
_HOUR: Final = 3600.0

# Renders a template with its data as HTML; it is called in a thread.
RenderParts = Callable[[str, Mapping[str, Any]], str]


class OpenPage:
    """An open page that receives updates. `base` is the path of the console in its browser.

    `approves`: the user may see waiting calls. `lists`: it has a list of calls.
    """

    def __init__(self, base: str, *, approves: bool, lists: bool) -> None:
        self.base = base
        self.lists = lists
        self.approves = approves
        self.ready = asyncio.Event()
        self.live: LiveQuery | None = None
        self._rows: list[str] = []
        self._latest: dict[str, bytes] = {}
        self._left_out = 0
        self._gap = False

    def add_rows(self, rows: Iterable[str], left_out: int) -> None:
        """Queue rendered rows, newest last, and a number of others that are not sent."""
        self._rows += rows
        self._left_out += left_out
        if len(self._rows) > _UNREAD_ROWS:
            self.add_gap()
        self.ready.set()

    def set_latest(self, name: str, event: bytes) -> None:
        """Queue an event, in place of the one with this name before."""
        self._latest[name] = event
        self.ready.set()

    def add_gap(self) -> None:
        """Make the page read its list again, in place of its queue."""
        self._rows.clear()
        self._left_out, self._gap = 0, True
        self.ready.set()

    def take(self) -> bytes:
        """Return all that waits, as events."""
        self.ready.clear()
        events = [] if not self._rows else [_event("rows", "".join(reversed(self._rows)))]
        if self._left_out:
            events.append(_event("rest", str(self._left_out)))
        events += self._latest.values()
        if self._gap:
            events.append(_event("gap", "read the list again"))
        self._rows.clear()
        self._latest.clear()
        self._left_out, self._gap = 0, False
        return b"".join(events)


class LiveQuery:
    """The open pages of one query. `counted` is the query of the counts above the list; `values`: search stored values,
    too.
    """

    def __init__(self, text: str, query: CallQuery, counted: CallQuery, table: MinuteTable, *, values: bool) -> None:
        self.text = text
        self.query = query
        self.counted = counted
        self.values = values
        self.table = table
        self.pages: set[OpenPage] = set()
        self.changed = True
        self._recent: list[tuple[float, int]] = []
        # The calls in flight, in the form last sent to each base.
        self.running: dict[str, str] = {}
        # How many of those that are counted above the list wait for a person.
        self.waiting = 0

    def count(self, arrived: Iterable[ArrivedCall]) -> None:
        """Count calls that have come."""
        for one in arrived:
            self.changed = True
            self.table.add(int(one.started // 60), one.status, 1, int(one.duration > SLOW))

    def choose(self, arrived: Sequence[ArrivedCall], now: float) -> tuple[list[int], int]:
        """Return the numbers of those to show, of calls that have come, and how many are not."""
        self._recent.append((now, len(arrived)))
        if not arrived:
            return [], 0
        told = [one.seq for one in arrived if one.status != "ok"] if self.rate(now) > CALM else []
        shown = (told if self.rate(now) > CALM else [one.seq for one in arrived])[-TOGETHER:]
        return shown, len(arrived) - len(shown)

    def rate(self, now: float) -> float:
        """Return how many calls a second came in the last seconds."""
        self._recent = [(at, count) for at, count in self._recent if now - at < 2.0]
        return sum(count for _, count in self._recent) / 2.0


class LiveCalls:
    """The streams of one process. `render` makes HTML of `_row.html` and `_pulse.html`."""

    def __init__(self, parts: ConsoleParts, render: RenderParts, open_calls: OpenCallRows) -> None:
        self._parts = parts
        self._open_calls = open_calls
        self._render = render
        self._pages: set[OpenPage] = set()
        self._queries: dict[tuple[str, bool], LiveQuery] = {}
        self._reading = False
        self._next = 0.0
        self._next_pulse = 0.0
        self._next_refresh = 0.0
        self._next_count = 0.0
        # The place that the log was read up to, while a page is open.
        self._place: LogPlace | None = None
        self._approvals: object = None
        self._waiting = ""
        self._states: dict[str, str] = {}
        self._minute = 0

    def __repr__(self) -> str:
        return f"<LiveCalls {len(self._pages)} pages of {len(self._queries)} queries>"

    async def events(
        self, base: str, text: str | None, *, after: LogPlace | None, values: bool, approves: bool
    ) -> AsyncIterator[bytes]:
        """Yield updates for one page, until it is closed.

        `text` is its query, None without a list of calls; `after` is the place of the log that the page has.
        """
        page = OpenPage(base, approves=approves, lists=text is not None)
        try:
            if not self._pages:
                self._place, self._approvals, self._states = None, None, {}
            self._pages.add(page)
            if approves and self._waiting and self._approvals is not None:
                page.set_latest("waiting", _event("waiting", self._waiting))
            if text is not None:
                await self._join(page, text, after, values)
            # Headers and the first bytes go out at once, so that the page knows that it is live.
            yield b": live\n\n"
            quiet = time.monotonic()
            while True:
                now = time.monotonic()
                if page.ready.is_set():
                    quiet = now
                    yield page.take()
                elif now - quiet > _KEEP_ALIVE:
                    quiet = now
                    yield b": live\n\n"
                await self._turn(page)
        finally:
            self._pages.discard(page)
            self._leave(page)

    async def _join(self, page: OpenPage, text: str, after: LogPlace | None, values: bool) -> None:
        key = text, values
        live = self._queries.get(key)
        if live is None and len(self._queries) < QUERIES:
            now = time.time()
            counted, calls = parse(counted_text(text), now), (await self._parts.opened()).calls
            counts = await calls.count(counted, now - _HOUR, values=values)
            table = MinuteTable(counts.counted, counts.since)
            live = self._queries.setdefault(key, LiveQuery(text, parse(text, now), counted, table, values=values))
        if live is None:
            return
        live.pages.add(page)
        page.live = live
        calls = (await self._parts.opened()).calls
        if self._place is None:
            end = await calls.end()
            self._place = end if self._place is None else self._place
        if after is not None:
            await self._catch_up(page, live, after, self._place)

    async def _catch_up(self, page: OpenPage, live: LiveQuery, after: LogPlace, upto: LogPlace) -> None:
        """Send the rows that came between the page and its stream."""
        calls = (await self._parts.opened()).calls
        missed, _ = await calls.arrived(after, _MISSED, upto=upto)
        if len(missed) >= _MISSED:
            page.add_gap()
        if not missed or len(missed) >= _MISSED:
            return
        (found,) = await calls.matching([(live.query, live.values)], missed[0].seq, missed[-1].seq)
        if found:
            rows = await calls.some(found)
            mine = page.base, page.approves
            made = await asyncio.to_thread(self._made, rows, {mine})
            page.add_rows((made[*mine, row["seq"]] for row in rows), 0)

    def _leave(self, page: OpenPage) -> None:
        live = page.live
        if live is not None:
            live.pages.discard(page)
            if not live.pages and self._queries.get((live.text, live.values)) is live:
                del self._queries[live.text, live.values]
                if not self._queries:
                    self._place = None

    async def _turn(self, page: OpenPage) -> None:
        """Read updates, if it is time and no other page does; else wait for an update, or the time."""
        now = time.monotonic()
        if self._reading or now < self._next:
            try:
                async with asyncio.timeout(max(self._next - now, 0.02) + 0.02 * self._reading):
                    await page.ready.wait()
            except TimeoutError:
                pass
            return
        self._reading = True
        pause, whole = EVERY, False
        try:
            await self._look(now)
            whole = True
        except AggregatorError as error:
            pause = _AFTER_FAULT
            log.warning("live pages cannot be told what is new: %s", error)
        except Exception:
            pause = _AFTER_FAULT
            log.exception("live pages cannot be told what is new")
        finally:
            self._reading = False
            self._next = time.monotonic() + pause
            if not whole:
                # The page that looked may have left in the middle.
                for one in self._pages:
                    one.add_gap()

    async def _look(self, now: float) -> None:
        if any(page.live is not None for page in self._pages):
            await self._new_rows(now)
        if now >= self._next_pulse:
            # The more pages there are, the less often each receives its counts.
            self._next_pulse = now + PULSE * (1 + len(self._pages) // _CROWD)
            await self._pulses(now)
            await self._send_running()
            await self._count_waiting(now)
            self._send_states()
        if now >= self._next_refresh:
            self._next_refresh = now + REFRESH
            for page in self._pages:
                if page.lists and page.live is None:
                    page.add_gap()

    async def _new_rows(self, now: float) -> None:
        calls = (await self._parts.opened()).calls
        if self._place is None:
            return
        arrived, place = await calls.arrived(self._place, _BATCH)
        if not arrived:
            self._place = place
            return
        first, last = arrived[0].seq, arrived[-1].seq
        queries = [live for live in self._queries.values() if live.pages]
        asked = {(query, live.values) for live in queries for query in (live.query, live.counted) if not query.all}
        narrow = list(asked)
        found = dict(zip(narrow, await calls.matching(narrow, first, last), strict=True))

        def those(query: CallQuery, values: bool) -> Sequence[ArrivedCall]:
            numbers = found.get((query, values))
            return arrived if numbers is None else [one for one in arrived if one.seq in numbers]

        chosen: list[tuple[LiveQuery, list[int], int]] = []
        for live in queries:
            live.count(those(live.counted, live.values))
            chosen.append((live, *live.choose(those(live.query, live.values), now)))
        wanted = {seq for _, seqs, _ in chosen for seq in seqs}
        rows = await calls.some(wanted) if wanted else []
        kinds = {(page.base, page.approves) for live, _, _ in chosen for page in live.pages}
        made = await asyncio.to_thread(self._made, rows, kinds)
        self._place = place
        for live, seqs, left_out in chosen:
            for page in live.pages:
                if seqs or left_out:
                    mine = page.base, page.approves
                    page.add_rows((made[*mine, seq] for seq in seqs if (*mine, seq) in made), left_out)
        if len(arrived) >= _BATCH:
            self._place = await calls.end()
            for page in self._pages:
                page.add_gap()

    def _made(
        self, rows: Sequence[Mapping[str, Any]], kinds: Iterable[tuple[str, bool]]
    ) -> dict[tuple[str, bool, int], str]:
        """Return each row as HTML, for each base, and for users with and without access to servers' texts."""
        return {
            (base, values, row["seq"]): self._render(
                "_row.html", {"call": listed(row, values=values), "base": base, "fresh": True}
            )
            for base, values in kinds
            for row in rows
        }

    async def _pulses(self, now: float) -> None:
        """Tell each page the counts of its query, if they have changed."""
        minute = int(time.time() // 60)
        due = [live for live in self._queries.values() if live.changed or minute != self._minute or live.rate(now)]
        self._minute = minute
        for live in due:
            live.changed = False
            for base in {page.base for page in live.pages}:
                data = hour_data(live.table, live.text, time.time(), live.waiting)
                given = {"hour": data, "base": base, "rate": live.rate(now)}
                event = _event("pulse", await asyncio.to_thread(self._render, "_pulse.html", given))
                for page in live.pages:
                    if page.base == base:
                        page.set_latest("pulse", event)

    async def _send_running(self) -> None:
        """Tell each page the calls of its query that have not ended, if they are others than before, or run on."""
        for live in list(self._queries.values()):
            if not live.pages:
                continue
            running, waiting = await self._open_calls.rows(live.query), await self._open_calls.waiting(live.counted)
            if waiting != live.waiting:
                live.waiting, live.changed = waiting, True
            for base in {page.base for page in live.pages}:
                html = await asyncio.to_thread(self._render, "_running.html", {"running": running, "base": base})
                if live.running.get(base, "") != html:
                    live.running[base] = html
                    for page in live.pages:
                        if page.base == base:
                            page.set_latest("running", _event("running", html))

    async def _count_waiting(self, now: float) -> None:
        """Send approvers the number of calls that wait for confirmation, and the newest of them."""
        if not any(page.approves for page in self._pages):
            return
        queue = (await self._parts.opened()).approvals
        version = await queue.version()
        if version == self._approvals and now < self._next_count:
            return
        self._next_count, known = now + _COUNT_WAITING, self._approvals is not None
        self._approvals = version
        count, newest = await queue.waiting(now=time.time()), await queue.list("pending", most=1, now=time.time())
        told: dict[str, Any] = {"count": count}
        if newest:
            told |= {"id": newest[-1].id, "agent": newest[-1].agent_id[:100], "tool": newest[-1].tool[:200]}
        text = json.dumps(told)
        if text == self._waiting and known:
            return
        self._waiting = text
        for page in self._pages:
            if page.approves:
                page.set_latest("waiting", _event("waiting", text))

    def _send_states(self) -> None:
        """Tell every page which servers have another state than before."""
        states = {name: str(one.state) for name, one in self._parts.upstreams.items()}
        changed = {name: state for name, state in states.items() if self._states.get(name) != state}
        gone = self._states.keys() - states.keys()
        known, self._states = bool(self._states), states
        if known and (changed or gone):
            event = _event("server", json.dumps(changed | dict.fromkeys(gone, "removed")))
            for page in self._pages:
                page.set_latest("server", event)


def _event(name: str, data: str) -> bytes:
    """Return one event; text of several lines is one `data` field for each (HTML, section 9.2.6)."""
    lines = "".join(f"data: {line}\n" for line in data.splitlines() or [""])
    return f"event: {name}\n{lines}\n".encode("utf-8", "replace")
