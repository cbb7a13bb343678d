"""The gathering of reports: one bounded peer request to each replica, all at the same time.

Rule: a replica that does not answer costs only its own part of the report, and is named.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, Final

from aggregator.app.merged_report import ReplicaAnswer, merge_reports, name_of
from aggregator.frontends.web.host_guard import Receive, Scope, Send, respond
from aggregator.gateway.calls.running_calls import MOST, OpenCall, RunningCalls
from aggregator.replicas.group.hop_client import HopFailed
from aggregator.replicas.group.hops import Hop
from aggregator.replicas.group.replication import Replication
from aggregator.replicas.hop_listener import HopListener
from aggregator.storage.records import ReplicaRecord
from aggregator.telemetry.merged_text import counted, merged
from aggregator.wire.codec import decode
from aggregator.workers.table import KeptCounters

log = logging.getLogger(__name__)

# Seconds that a replica has to answer.
PATIENCE: Final = 1.0
_LARGEST: Final = 64 * 2**20

# Returns whether this replica is ready, and the details that say so.
OwnStatus = Callable[[], tuple[bool, Mapping[str, Any]]]
# Returns the number of sessions by frontend.
OwnSessions = Callable[[], Mapping[str, int]]
# Yields the metrics of this replica in pieces.
OwnPage = Callable[[], Iterator[bytes]]
# Returns the calls that run in this replica; at most so many of them in full.
OwnRunning = Callable[[int], RunningCalls]


class Siblings:
    """The workers of one supervisor, of which this is the one with `line`; `group` is their name for each other."""

    def __init__(self, group: str, line: int, kept: KeptCounters) -> None:
        self.group = group
        self.line = line
        self.kept = kept
        # What the workers had counted that had this line before.
        self._before = kept.read(line)
        self._keeping = asyncio.Lock()

    async def keep(self, page: bytes) -> bytes:
        """Return the page of this worker with what those before it counted, once that is kept."""
        async with self._keeping:
            return await asyncio.to_thread(self._keep, page)

    def _keep(self, page: bytes) -> bytes:
        whole = merged((page,), (self._before,))
        if not self.kept.keep(self.line, counted(whole)):
            log.warning("the metrics of this worker are too long to outlive it")
        return whole

    def put_together(self, pages: Mapping[int, bytes]) -> bytes:
        """Return one page of those that answered, by line, and of the counters of all others."""
        gone = [self.kept.read(line) for line in range(self.kept.lines) if line not in pages]
        return merged(pages.values(), gone)


class GroupReports:
    """The reports of all replicas; `siblings` if this one is a worker."""

    def __init__(
        self,
        replication: Replication,
        status: OwnStatus,
        sessions: OwnSessions,
        page: OwnPage,
        running: OwnRunning,
        siblings: Siblings | None = None,
    ) -> None:
        self._running = running
        self._replication = replication
        self._status = status
        self._sessions = sessions
        self._page = page
        self._siblings = siblings

    def __repr__(self) -> str:
        return f"<GroupReports of {self._replication!r}>"

    def answer(self, listener: HopListener) -> None:
        """Answer the other replicas."""
        listener.add("report", self._serve_report)
        listener.add("running", self._serve_running)
        if self._siblings is not None:
            listener.add("metrics", self._serve_page)

    async def report(self) -> Mapping[str, Any]:
        """Return the details for `/readyz` on this machine, for all replicas."""
        me = self._replication.membership
        own = self._own()
        others = me.others()
        found = await asyncio.gather(*(self._asked(one) for one in others))
        told = [ReplicaAnswer(one, own if one.id == me.id else None) for one in me.all() if one.id == me.id]
        told += [self._taken(one, body) for one, body in zip(others, found, strict=True)]
        return merge_reports(self._status()[1], me.id, sorted(told, key=lambda one: one.replica.slot))

    async def running(self) -> tuple[RunningCalls, tuple[str, ...]]:
        """Return the calls that run at all replicas, and the names of replicas that did not say."""
        others = self._replication.membership.others()
        found = await asyncio.gather(*(self._answer(one, "/running") for one in others))
        own = self._running(MOST)
        count, oldest, silent = own.count, list(own.oldest), []
        for one, body in zip(others, found, strict=True):
            try:
                told = decode(body) if isinstance(body, bytes) else {}
                more = [OpenCall.from_data(call) for call in told["oldest"][:MOST]]
                count += int(told["count"])
            except (ValueError, TypeError, KeyError):
                silent.append(name_of(one))
            else:
                oldest += more
        oldest.sort(key=lambda call: call.started)
        return RunningCalls(count, tuple(oldest[:MOST])), tuple(silent)

    async def page(self) -> AsyncIterator[bytes]:
        """Yield the metrics of this replica, or of all workers if it is one."""
        if self._siblings is None:
            for piece in self._page():
                yield piece
                await asyncio.sleep(0)
            return
        yield await self._page_of_all(self._siblings)

    async def keep(self) -> None:
        """Keep the counters of this worker for the time after its end."""
        if self._siblings is not None:
            await self._siblings.keep(await self._own_page())

    async def _page_of_all(self, siblings: Siblings) -> bytes:
        others = [one for one in self._replication.membership.others() if one.facts.get("workers") == siblings.group]
        asked = asyncio.gather(*(self._answer(one, "/metrics") for one in others))
        pages = {siblings.line: await siblings.keep(await self._own_page())}
        for one, body in zip(others, await asked, strict=True):
            if isinstance(body, bytes):
                pages[one.facts["line"]] = body
        return await asyncio.to_thread(siblings.put_together, pages)

    async def _own_page(self) -> bytes:
        pieces = []
        for piece in self._page():
            pieces.append(piece)
            await asyncio.sleep(0)
        return b"".join(pieces)

    def _own(self) -> dict[str, Any]:
        return {**self._status()[1], "sessions": dict(self._sessions())}

    async def _asked(self, replica: ReplicaRecord) -> bytes | str:
        return await self._answer(replica, "/report")

    def _taken(self, replica: ReplicaRecord, body: bytes | str) -> ReplicaAnswer:
        if isinstance(body, str):
            return ReplicaAnswer(replica, None, body)
        try:
            found = decode(body)
        except ValueError:
            found = None
        return (
            ReplicaAnswer(replica, found)
            if isinstance(found, dict)
            else ReplicaAnswer(replica, None, "its answer is no report")
        )

    async def _answer(self, replica: ReplicaRecord, path: str) -> bytes | str:
        """Return the answer of a replica, or the reason why there is none."""
        try:
            async with (
                asyncio.timeout(PATIENCE),
                self._replication.hop_client.request(replica.id, path, method="GET") as response,
            ):
                if response.status != 200:
                    return f"it answered with {response.status}; is it of another version?"
                return await _bounded(response.parts())
        except TimeoutError:
            return f"it did not answer within {PATIENCE:g} seconds"
        except HopFailed as failed:
            return str(failed)

    async def _serve_report(self, hop: Hop, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        await respond(send, 200, self._own())

    async def _serve_running(self, hop: Hop, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        own = self._running(MOST)
        await respond(send, 200, {"count": own.count, "oldest": [call.as_data() for call in own.oldest]})

    async def _serve_page(self, hop: Hop, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        assert self._siblings is not None, "only a worker answers with its metrics"
        whole = await self._siblings.keep(await self._own_page())
        head = [(b"content-length", b"%d" % len(whole)), (b"content-type", b"text/plain")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": whole})


async def _bounded(parts: AsyncIterator[bytes]) -> bytes | str:
    found, size = [], 0
    async for part in parts:
        found.append(part)
        size += len(part)
        if size > _LARGEST:
            return "its answer is too long"
    return b"".join(found)
