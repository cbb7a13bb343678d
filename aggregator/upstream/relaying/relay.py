"""The answers to hops about servers: a request of another replica goes to the server like one of this replica.

Rule: the generation of the lease that the other replica knows has to be the one that this replica holds.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final

from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.errors import INVALID_PARAMS, RpcError, UpstreamError, UpstreamLost, UpstreamUnavailable
from aggregator.replicas.hops import Hop
from aggregator.upstream.list_kinds import LIST_METHODS
from aggregator.upstream.places.messages import CallerFacts, failure_to_wire, rpc_error_to_wire
from aggregator.upstream.relaying.attachment import Attachment
from aggregator.upstream.relaying.remote_caller import OpenQuestions, RemoteCaller
from aggregator.upstream.supervisor import Supervisor
from aggregator.upstream.upstream import Upstream

# Seconds for a subscription.
_SUBSCRIBING: Final = 10.0
_LISTS: Final = {method.method: (kind, method.field) for kind, method in LIST_METHODS.items()}


class NotHere(Exception):
    """A hop about a server that this replica does not run, or not since the generation meant; nothing was sent."""


class ServerRelay:
    """The servers that this replica runs for the others; an `UpstreamWatcher`."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._attached: dict[str, Attachment] = {}
        self._questions = OpenQuestions()
        supervisor.watch(self)

    def __repr__(self) -> str:
        return f"<ServerRelay: {len(self._attached)} attached>"

    # -- what upstreams report

    def upstreams_changed(self) -> None:
        """See `UpstreamWatcher`."""
        for attachment in self._attached.values():
            upstream = attachment.upstream
            if upstream.shared.place is not None and upstream.shared.place.leaving:
                attachment.leave()
            attachment.look()

    def resource_updated(self, upstream: Upstream, watched: list[str], uri: str) -> None:
        """See `UpstreamWatcher`."""
        for attachment in self._attached.values():
            if attachment.upstream is upstream:
                attachment.updated(watched, uri)

    # -- hops

    async def attach(self, hop: Hop, message: Mapping[str, Any]) -> AsyncGenerator[Mapping[str, Any]]:
        """Yield the stream of another replica for one server, until it is closed.

        Raises:
            NotHere: see there.
        """
        upstream = self._supervisor.upstreams.get(str(message["server"]))
        place = upstream.shared.place if upstream is not None else None
        held = place.held if place is not None else None
        if upstream is None or place is None or held is None or held.generation != hop.claims.get("generation"):
            raise NotHere("this replica does not run the server")
        if place.leaving:
            raise NotHere("this replica is about to end")
        attachment = Attachment(hop.origin, upstream, held)
        self._attached[attachment.id] = attachment
        # A lease that is lost ends the stream at once.
        held.lost.add_done_callback(lambda _: attachment.look())
        try:
            async for said in attachment.messages():
                yield said
        finally:
            del self._attached[attachment.id]

    async def request(self, hop: Hop, message: Mapping[str, Any]) -> AsyncGenerator[Mapping[str, Any]]:
        """Yield what one request leads to, its result or error last.

        Raises:
            NotHere: see there.
        """
        attachment = self._attachment(hop, message)
        outgoing: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        async with Tasks("a request of another replica") as tasks:
            answer = tasks.start(self._answer(attachment, message, outgoing))
            while True:
                said = await outgoing.get()
                yield said
                if not said.keys().isdisjoint(("result", "error", "failure")):
                    await answer
                    return

    def answer(self, message: Mapping[str, Any]) -> None:
        """Take the answer of a host to a question.

        Raises:
            NotHere: nothing waits for it any more.
        """
        if not self._questions.answer(message):
            raise NotHere("nothing waits for this answer any more")

    async def take_session_event(self, hop: Hop, message: Mapping[str, Any]) -> None:
        """Take what happened to the session of a host.

        Raises:
            NotHere: see there.
        """
        attachment = self._attachment(hop, message)
        session = (hop.origin, message["session"])
        if message.get("left"):
            attachment.upstream.host_left(session)
        else:
            await attachment.upstream.notify_dedicated(session, str(message["method"]))

    def _attachment(self, hop: Hop, message: Mapping[str, Any]) -> Attachment:
        found = self._attached.get(str(message.get("attachment")))
        if found is None or found.origin != hop.origin or found.ended is not None or found.leaving:
            raise NotHere("this replica does not know the connection any more")
        if not found.held.good or found.held.generation != hop.claims.get("generation"):
            raise NotHere("another replica may run the server by now")
        return found

    async def _answer(
        self, attachment: Attachment, message: Mapping[str, Any], outgoing: "asyncio.Queue[Mapping[str, Any]]"
    ) -> None:
        try:
            outgoing.put_nowait({"result": await self._result(attachment, message, outgoing)})
        except RpcError as error:
            outgoing.put_nowait({"error": rpc_error_to_wire(error)})
        except UpstreamError as error:
            outgoing.put_nowait({"failure": failure_to_wire(error)})
        except Exception as error:
            outgoing.put_nowait({"error": rpc_error_to_wire(RpcError(INVALID_PARAMS, f"{type(error).__name__}"))})
            raise

    async def _result(
        self, attachment: Attachment, message: Mapping[str, Any], outgoing: "asyncio.Queue[Mapping[str, Any]]"
    ) -> dict[str, Any]:
        method, params, upstream = str(message["method"]), dict(message["params"]), attachment.upstream
        if method in _LISTS:
            kind, field = _LISTS[method]
            fresh = upstream.lists.freshness(kind, asyncio.get_running_loop().time())
            return {field: upstream.lists[kind], **(fresh.hints() if fresh is not None else {})}
        if method == "resources/subscribe":
            await attachment.subscribe(str(params["uri"]), _SUBSCRIBING)
            return {}
        if method == "resources/unsubscribe":
            attachment.unsubscribe(str(params["uri"]))
            return {}
        facts = message.get("caller")
        caller = None
        if facts is not None:
            caller = RemoteCaller(
                attachment.origin,
                CallerFacts.from_wire(facts),
                self._questions,
                outgoing.put_nowait,
                attachment.put,
                outside=False,
            )
        on_progress = (lambda said: outgoing.put_nowait({"progress": said})) if message.get("progress") else None
        # The replica of the host bounds the time, and cancels; this is for one that was stopped.
        limit = upstream.config.max_timeout
        task, lost = asyncio.current_task(), attachment.held.lost

        def give_up(_: "asyncio.Future[str]") -> None:
            # From here it must not go to the next owner: the replica of the host sends it there.
            if task is not None:
                task.cancel()

        lost.add_done_callback(give_up)
        try:
            return await upstream.call(method, params, limit, on_progress, message.get("headers"), caller)
        except asyncio.CancelledError:
            if not lost.done() or task is None:
                raise
            task.uncancel()
            server = upstream.config.id
            if caller is not None and caller.sent_in is None:
                raise UpstreamUnavailable(server, f"{server} is being taken over by another replica.") from None
            said = f"{server} was taken over by another replica during the call; whether it took effect is unknown."
            raise UpstreamLost(server, said) from None
        finally:
            lost.remove_done_callback(give_up)
