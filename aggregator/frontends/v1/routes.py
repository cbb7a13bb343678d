"""`/v1`: a table of routes. Each takes a request whose sender is known, and makes a status and a body of it."""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import Any, Final

from aggregator.config.servers.names import source_of
from aggregator.config.settings import V1Config
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.principal import Principal
from aggregator.frontends.v1.errors import BadRequest
from aggregator.frontends.v1.execute import CallRunner
from aggregator.frontends.v1.openapi import document
from aggregator.frontends.v1.parse_calls import LONGEST_ID, read_order
from aggregator.frontends.v1.parse_query import read_intent, read_tools_question
from aggregator.frontends.v1.render_results import answer, retry_after
from aggregator.frontends.web.body_limits import BodyLimits, BodyRefused
from aggregator.frontends.web.header_context import headers_of
from aggregator.frontends.web.host_guard import Receive, Scope, Send, header, respond
from aggregator.gateway.admission import TooMany
from aggregator.gateway.dispatcher import Dispatcher
from aggregator.gateway.views.finder import ServerSeen
from aggregator.identity.identify import Refused
from aggregator.wire.codec import decode

log = logging.getLogger(__name__)

V1_PATH: Final = "/v1"
CONVERSATION_HEADER: Final = "x-conversation-id"
# How many tools a message is matched with if nobody says.
_MATCHED: Final = 10


@dataclass(frozen=True, slots=True)
class V1Request:
    """`body` is what was posted, as JSON; None for a GET."""

    principal: Principal
    scope: Scope
    body: Any = None


@dataclass(frozen=True, slots=True)
class V1Response:
    """`body` is written as JSON."""

    status: int
    body: Mapping[str, Any]
    headers: Mapping[bytes, bytes] = field(default_factory=dict)


class V1Frontend:
    """ASGI for the paths in `ROUTES`."""

    def __init__(self, gateway: Dispatcher, config: V1Config, bounds: BodyLimits, public_url: str | None) -> None:
        self._gateway = gateway
        self._bounds = bounds
        self._most_calls = config.max_calls_per_request
        self._caller = CallRunner(gateway, config.max_calls_per_conversation)
        self._document = document(config, public_url)

    async def serve(self, principal: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI, for a request whose sender is known."""
        method, route = ROUTES[scope["path"].rstrip("/")]
        if scope["method"] != method:
            said = f"This is asked with {method}."
            await respond(send, 405, failure("method_not_allowed", said), {b"allow": method.encode()})
            return
        try:
            with self._bounds.room.acquire("pending", principal):
                await self._answer(route, principal, scope, receive, send)
        except TooMany as full:
            refused = failure("too_many_requests", full.message)
            await respond(send, full.code, refused, {b"retry-after": b"%d" % full.retry_after})

    async def _answer(self, route: "Route", principal: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await self._body(scope, receive) if scope["method"] == "POST" else None
        except BadRequest as bad:
            await respond(send, bad.status, failure("bad_request", bad.message, bad.field))
            return
        except BodyRefused as refused:
            await respond(send, refused.status, failure("bad_request", str(refused)))
            return
        async with Tasks("a request of /v1") as tasks:
            work = tasks.start(self._reply(route, V1Request(principal, scope, body)))
            gone = tasks.start(_gone(receive))
            # Nobody waits for the answer any more: leaving cancels the calls.
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                reply: V1Response = await work
                await respond(send, reply.status, reply.body, reply.headers)

    async def _reply(self, route: "Route", request: V1Request) -> V1Response:
        try:
            return await route(self, request)
        except BadRequest as bad:
            return V1Response(bad.status, failure("bad_request", bad.message, bad.field))
        except Exception:
            log.exception("%s failed", request.scope["path"])
            return V1Response(500, failure("internal_error", "Internal error in the aggregator; its log says more."))

    async def _body(self, scope: Scope, receive: Receive) -> Any:
        if not (header(scope, b"content-type") or "").lower().startswith("application/json"):
            raise BadRequest("", "Content-Type must be application/json.", 415)
        try:
            return decode(await self._bounds.read(scope, receive))
        except ValueError as error:
            raise BadRequest("", f"The body is not valid JSON: {error}.") from None

    # -- routes

    async def tools(self, request: V1Request) -> V1Response:
        question = read_tools_question(request.scope["query_string"].decode("latin-1"))
        principal, gateway, match = request.principal, self._gateway, None
        if question.message is not None:
            match = await gateway.match_intent(principal, question.message, question.limit or _MATCHED)
            found = list(match.tools)
        else:
            found = await gateway.tools(principal, query=question.query, server=question.server, limit=question.limit)
            if not found and question.server is not None:
                _check_server(question.server, await gateway.servers(principal))
        write = await _loaded("aggregator.frontends.v1.list_tools:shown")
        style = gateway.views.of(principal).style("canonical")
        return V1Response(200, await write(question, found, style, gateway.source, match))

    async def intent(self, request: V1Request) -> V1Response:
        message, limit = read_intent(request.body)
        match = await self._gateway.match_intent(request.principal, message, limit)
        write = await _loaded("aggregator.frontends.v1.list_tools:intent_answer")
        return V1Response(200, write(match))

    async def tool_calls(self, request: V1Request) -> V1Response:
        headers = headers_of(request.scope)
        order = read_order(request.body, self._most_calls, _conversation(headers))
        outcomes = await self._caller.run(order, request.principal, headers)
        status, body = answer(order, outcomes)
        wait = retry_after(outcomes)
        return V1Response(status, body, {} if wait is None else {b"retry-after": b"%d" % wait})

    async def servers(self, request: V1Request) -> V1Response:
        return V1Response(200, {"servers": [_server(seen) for seen in await self._gateway.servers(request.principal)]})

    async def openapi(self, request: V1Request) -> V1Response:
        return V1Response(200, self._document)


Route = Callable[[V1Frontend, V1Request], Awaitable[V1Response]]

ROUTES: Final[Mapping[str, tuple[str, Route]]] = {
    f"{V1_PATH}/tools": ("GET", V1Frontend.tools),
    f"{V1_PATH}/servers": ("GET", V1Frontend.servers),
    f"{V1_PATH}/intent": ("POST", V1Frontend.intent),
    f"{V1_PATH}/tool_calls": ("POST", V1Frontend.tool_calls),
    f"{V1_PATH}/openapi.json": ("GET", V1Frontend.openapi),
}


_REFUSALS: Final = {400: "bad_request", 401: "unauthorized", 403: "forbidden", 429: "too_many_wrong_keys"}


def refusal(refused: Refused) -> dict[str, Any]:
    """The body for a request whose sender is not let in."""
    return failure(_REFUSALS.get(refused.status, "refused"), refused.reason)


def failure(code: str, message: str, field: str = "") -> dict[str, Any]:
    """The body for a request of which nothing was done."""
    error = {"code": code, "message": message}
    return {"error": {**error, "field": field} if field else error}


def _check_server(name: str, known: list[ServerSeen]) -> None:
    if not any(name in (seen.config.id, seen.config.prefix) for seen in known):
        there = ", ".join(seen.config.id for seen in known) or "none"
        raise BadRequest("server", f"There is no server {name!r:.200}; there are: {there}.")


def _server(seen: ServerSeen) -> dict[str, Any]:
    """A server as an agent may know it."""
    config = seen.config
    return {
        "name": config.prefix or config.id,
        "description": config.description,
        "source": source_of(config.type),
        "state": seen.state,
        "reason": seen.reason or None,
        "tools": seen.tools,
    }


async def _loaded(name: str) -> Any:
    """What writes tools: it takes a moment to load, and the door does not wait for that when it opens."""
    if name.partition(":")[0] in sys.modules:
        return resolve_name(name)
    return await asyncio.to_thread(resolve_name, name)


def _conversation(headers: Mapping[str, Sequence[str]]) -> str | None:
    """What the header says.

    Raises:
        BadRequest: it is there twice, or too long.
    """
    given = headers.get(CONVERSATION_HEADER, ())
    if len(given) > 1:
        raise BadRequest(CONVERSATION_HEADER, f"`{CONVERSATION_HEADER}` is there twice.")
    if given and len(given[0]) > LONGEST_ID:
        raise BadRequest(CONVERSATION_HEADER, f"`{CONVERSATION_HEADER}` may have {LONGEST_ID} characters at most.")
    return given[0] if given else None


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
