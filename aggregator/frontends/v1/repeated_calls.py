"""Calls over `/v1` that are like earlier ones of their connection: they need no task (`gateway/calls/direct.py`).

Law: a call has the same outcome as in a task. A task takes every request with several calls, and every result that
is not plain.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from aggregator.domain.bounds.lru import LruCache
from aggregator.domain.bounds.slices import at_once
from aggregator.domain.principal import Principal
from aggregator.frontends.v1.conversations import CallCount
from aggregator.frontends.v1.errors import BadRequest
from aggregator.frontends.v1.execute import NOT_COUNTED, CallRunner, host_of, meta_of
from aggregator.frontends.v1.parse_calls import CallBatch, Form, read_steps
from aggregator.frontends.v1.render_results import answer, of_error, of_result
from aggregator.frontends.web.host_guard import Scope
from aggregator.frontends.web.repeated_fields import memory_of
from aggregator.frontends.web.request_cache import AnsweringConnection, DirectPost, RequestCache
from aggregator.gateway.access import Authentication
from aggregator.gateway.calls.known_host import KnownHost
from aggregator.gateway.calls.plan import PreparedCall, WrittenTool
from aggregator.gateway.dispatcher import Dispatcher
from aggregator.wire.codec import decode_from_host, encode

log = logging.getLogger(__name__)

# Conversations, each with a form of calls, whose facts are kept for one head.
_KEPT: Final = 64


class CachedV1Request:
    """The facts from the head of an answered call over `/v1`.

    conversation: the one in the head. hosts: the host of each form and conversation, with the `_meta` of its calls.
    plans: the plans of each form.
    """

    __slots__ = ("_repeated", "authentication", "conversation", "headers", "hosts", "plans")

    def __init__(
        self,
        repeated: "RepeatedCalls",
        authentication: Authentication,
        headers: Mapping[str, list[str]],
        conversation: str | None,
    ) -> None:
        self._repeated = repeated
        self.authentication = authentication
        self.headers = headers
        self.conversation = conversation
        self.hosts: LruCache[tuple[Form, str | None], tuple[KnownHost, dict[str, Any]]] = LruCache(_KEPT)
        self.plans: dict[Form, dict[str | None, dict[WrittenTool, PreparedCall]]] = {}

    def begin(
        self, posts: RequestCache, principal: Principal, body: bytes, connection: AnsweringConnection
    ) -> "V1Post | None":
        """See `CachedRequest`."""
        return self._repeated.begin(self, posts, principal, body, connection)

    def refused(self, error: Exception) -> tuple[int, bytes]:
        """See `CachedRequest`."""
        return _refused(error)


class RepeatedCalls:
    """The calls over `/v1` of all connections that need no task."""

    def __init__(self, gateway: Dispatcher, runner: CallRunner) -> None:
        self._gateway = gateway
        self._runner = runner

    def remember(self, scope: Scope, conversation: str | None) -> None:
        """Have the connection remember an answered call, for later ones like it."""
        memory = memory_of(scope)
        if memory is not None and memory.authentication is not None and memory.headers is not None:
            memory.note_post(CachedV1Request(self, memory.authentication, memory.headers, conversation))

    def begin(
        self,
        known: CachedV1Request,
        posts: RequestCache,
        principal: Principal,
        body: bytes,
        connection: AnsweringConnection,
    ) -> "V1Post | None":
        """Begin the call of a message: see `CachedRequest`.

        Raises:
            PostFailed: it cannot be begun, by an error of ours.
        """
        try:
            batch = at_once(read_steps(decode_from_host(body), 1, known.conversation))
        except (ValueError, MemoryError, BadRequest):
            return None
        call = batch.calls[0]
        if call.fault is not None or call.name in NOT_COUNTED:
            return None
        most, now = self._runner.most, asyncio.get_running_loop().time()
        count = self._runner.count(batch, principal)
        found = self._host(known, batch) if count.has_room(most, now) else None
        if found is None:
            return None
        host, meta = found
        post = V1Post(connection, principal, self._gateway, batch, count)
        if not posts.send(post, host, {"name": call.name, "arguments": call.arguments, "_meta": meta}):
            return None
        count.add(most, now)
        return post

    def _host(self, known: CachedV1Request, batch: CallBatch) -> tuple[KnownHost, dict[str, Any]] | None:
        """Return the host of a call and its `_meta`."""
        key = batch.form, batch.conversation
        found = known.hosts.get(key)
        if found is None:
            meta = meta_of(batch.conversation, known.headers)
            host = self._gateway.direct.known(host_of(batch.form, known.authentication.principal), {"_meta": meta})
            if host is None:
                return None
            host.plans = known.plans.setdefault(batch.form, {})
            found = host, meta
            known.hosts.put(key, found)
        return found


class V1Post(DirectPost):
    """One call over `/v1` without a task."""

    __slots__ = ("batch", "count")

    def __init__(
        self,
        connection: AnsweringConnection,
        principal: Principal,
        gateway: Dispatcher,
        batch: CallBatch,
        count: CallCount,
    ) -> None:
        super().__init__(connection, 0, principal, None, gateway)
        self.batch = batch
        self.count = count

    def answered(self, result: Mapping[str, Any], /) -> None:
        """See `DirectAnswer`."""
        status = 200
        try:
            body = encode(answer(self.batch, [of_result(self.batch.calls[0], result)])[1])
        except Exception as error:  # of any kind: a value that cannot be written
            status, body = self.refused(error, self.call.known.modern)
        self._end(status, body)

    def refused(self, error: Exception, modern: bool) -> tuple[int, bytes]:
        """See `DirectPost`."""
        log.error("a call of %r failed", self.batch.calls[0].name, exc_info=error)
        status, body = answer(self.batch, [of_error(self.batch.calls[0], error)])
        return status, encode(body)


def _refused(error: Exception) -> tuple[int, bytes]:
    log.error("a call over /v1 failed", exc_info=error)
    body = {"code": "internal_error", "message": "Internal error in the aggregator; its log says more."}
    return 500, encode({"error": body})
