"""The routes of `/v1`: each takes a request of a known principal and returns a status and a body."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from aggregator.config.servers.names import source_of
from aggregator.config.settings import V1Config
from aggregator.domain.bounds.slices import Slices
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.errors import ShuttingDown
from aggregator.domain.principal import Principal
from aggregator.domain.text.error_text import error_text
from aggregator.frontends.v1.errors import BadRequest
from aggregator.frontends.v1.execute import CallRunner
from aggregator.frontends.v1.openapi import document
from aggregator.frontends.v1.parse_calls import LONGEST_ID, CallBatch, ParsedCall, read_steps
from aggregator.frontends.v1.parse_query import read_intent, read_tools_query
from aggregator.frontends.v1.render_results import CallOutcome, answer, corrections, retry_after, scopes_wanted
from aggregator.frontends.v1.repeated_calls import RepeatedCalls, V1Post
from aggregator.frontends.web.answer import Answer, AskForScopes
from aggregator.frontends.web.body_limits import BodyLimits, BodyRefused
from aggregator.frontends.web.header_context import headers_of
from aggregator.frontends.web.host_guard import Receive, Scope, Send, header, respond, respond_bytes
from aggregator.frontends.web.request_cache import BEGUN
from aggregator.gateway.admission import TooMany
from aggregator.gateway.dispatcher import Dispatcher
from aggregator.gateway.views.server_seen import ServerSeen
from aggregator.identity.identify import Refused
from aggregator.tool_reports.book import REPORT_TOOL
from aggregator.wire.codec import decode_from_host, encode

log = logging.getLogger(__name__)

V1_PATH: Final = "/v1"
V1_CALLS_PATH: Final = f"{V1_PATH}/tool_calls"
CONVERSATION_HEADER: Final = "x-conversation-id"
CORRECTED_HEADER: Final = b"x-corrected-arguments"
# The most tools for a message, unless the request says how many.
_MATCHED: Final = 10


@dataclass(frozen=True, slots=True)
class V1Request:
    """A request of a known principal; `body` is the posted JSON value, None for a GET. `ask_for` makes the challenge
    for a token that lacks scopes.
    """

    principal: Principal
    scope: Scope
    body: Any = None
    ask_for: AskForScopes | None = None


@dataclass(frozen=True, slots=True)
class V1Response:
    """A response; `body` is written as JSON."""

    status: int
    body: Mapping[str, Any]
    headers: Mapping[bytes, bytes] = field(default_factory=dict)


class FurtherPaths(Protocol):
    """Another frontend that speaks JSON."""

    async def documented(self) -> Mapping[str, Any]:
        """Return its paths, as an OpenAPI document has them."""


class V1Frontend:
    """An ASGI application for the paths in `ROUTES`."""

    def __init__(
        self,
        gateway: Dispatcher,
        config: V1Config,
        limits: BodyLimits,
        public_url: str | None,
        further: FurtherPaths | None = None,
    ) -> None:
        """Make it; `further` gives paths of other frontends, which the OpenAPI document describes too."""
        self._gateway = gateway
        self._limits = limits
        self._slices = Slices()
        self._most_calls = config.max_calls_per_request
        self._caller = CallRunner(gateway, config.max_calls_per_conversation)
        self._repeated = RepeatedCalls(gateway, self._caller)
        self._document = document(config, public_url)
        self._further = further
        self._texts_loaded = False

    async def serve(self, principal: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI request of a known principal."""
        if BEGUN in scope:
            post: V1Post = scope[BEGUN]
            try:
                await self._work(self._rest(post, send), receive, send)
            finally:
                post.release()
            return
        method, route = ROUTES[scope["path"].rstrip("/")]
        if scope["method"] != method:
            said = f"This is asked with {method}."
            await respond(send, 405, failure("method_not_allowed", said), {b"allow": method.encode()})
            return
        try:
            with self._limits.admission.acquire("pending", principal):
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
        await self._work(self._reply(route, V1Request(principal, scope, body, _ask_for(send))), receive, send)

    async def _work(self, replying: Coroutine[Any, Any, V1Response], receive: Receive, send: Send) -> None:
        """Answer a request, while its client is there."""
        async with Tasks("a request of /v1") as tasks:
            work = tasks.start(replying)
            gone = tasks.start(_gone(receive))
            # The client has disconnected: leaving the block cancels the calls.
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                reply: V1Response = await work
                body = encode(reply.body)
                whole = isinstance(send, Answer) and not reply.headers and send.write_whole(reply.status, body)
                if not whole:
                    await respond_bytes(send, reply.status, body, reply.headers)

    async def _rest(self, post: V1Post, send: Send) -> V1Response:
        """Return the response to a call that was sent without a task."""
        return _response(
            post.batch, [await self._caller.rest(post.call, post.batch.calls[0], post.count)], _ask_for(send)
        )

    async def _reply(self, route: "Route", request: V1Request) -> V1Response:
        try:
            if route in (V1Frontend.tool_calls, V1Frontend.report):
                # Each of their calls ends by itself.
                return await route(self, request)
            with self._gateway.drain.work():
                return await route(self, request)
        except ShuttingDown as shut:
            return V1Response(shut.status, failure(shut.word, shut.message), {b"retry-after": b"%d" % shut.retry_after})
        except BadRequest as bad:
            return V1Response(bad.status, failure("bad_request", bad.message, bad.field))
        except Exception:
            log.exception("%s failed", request.scope["path"])
            return V1Response(500, failure("internal_error", "Internal error in the aggregator; its log says more."))

    async def _body(self, scope: Scope, receive: Receive) -> Any:
        if not (header(scope, b"content-type") or "").lower().startswith("application/json"):
            raise BadRequest("", "Content-Type must be application/json.", 415)
        try:
            return decode_from_host(await self._limits.read(scope, receive))
        except ValueError as error:
            raise BadRequest("", f"The body is not valid JSON: {error_text(error)}.") from None

    # -- routes

    async def tools(self, request: V1Request) -> V1Response:
        query = read_tools_query(request.scope["query_string"].decode("latin-1"))
        principal, gateway, match, weak = request.principal, self._gateway, None, ""
        if query.message is not None:
            match = await gateway.match_intent(principal, query.message, query.limit or _MATCHED)
            found = list(match.tools)
        else:
            if query.query is not None:
                found, weak = await gateway.search_tools(principal, query.query, server=query.server, limit=query.limit)
            else:
                found = await gateway.tools(principal, server=query.server, limit=query.limit)
            if not found and query.server is not None:
                _check_server(query.server, await gateway.servers(principal))
        await self._load_texts()
        from aggregator.frontends.v1.list_tools import tools_body

        style = gateway.views.of(principal).style("canonical")
        return V1Response(200, await tools_body(query, found, style, gateway.source, match, weak))

    async def intent(self, request: V1Request) -> V1Response:
        message, limit = read_intent(request.body)
        match = await self._gateway.match_intent(request.principal, message, limit)
        await self._load_texts()
        from aggregator.frontends.v1.list_tools import intent_body

        return V1Response(200, intent_body(match))

    async def _load_texts(self) -> None:
        if not self._texts_loaded:
            await asyncio.to_thread(_import_texts)
            self._texts_loaded = True

    async def tool_calls(self, request: V1Request) -> V1Response:
        headers = headers_of(request.scope)
        steps = read_steps(request.body, self._most_calls, _conversation(headers))
        batch = await self._slices.run(steps)
        outcomes = await self._caller.run(batch, request.principal, headers)
        if len(batch.calls) == 1 and not outcomes[0].is_error:
            self._repeated.remember(request.scope, _conversation(headers))
        return _response(batch, outcomes, request.ask_for)

    async def report(self, request: V1Request) -> V1Response:
        if not self._gateway.takes_reports:
            said = "Reports of tools are not taken here; `report_tool` of the configuration would allow them."
            return V1Response(404, failure("not_found", said))
        if not isinstance(request.body, dict):
            raise BadRequest("", "The body must be a JSON object.")
        headers = headers_of(request.scope)
        batch = CallBatch("single", (ParsedCall(REPORT_TOOL, request.body),), _conversation(headers))
        return _response(batch, await self._caller.run(batch, request.principal, headers), None)

    async def servers(self, request: V1Request) -> V1Response:
        return V1Response(200, {"servers": [_server(seen) for seen in await self._gateway.servers(request.principal)]})

    async def openapi(self, request: V1Request) -> V1Response:
        paths = await self._further.documented() if self._further is not None else {}
        return V1Response(200, {**self._document, "paths": {**self._document["paths"], **paths}})


# A method of the frontend that answers one request.
Route = Callable[[V1Frontend, V1Request], Awaitable[V1Response]]


ROUTES: Final[Mapping[str, tuple[str, Route]]] = {
    f"{V1_PATH}/tools": ("GET", V1Frontend.tools),
    f"{V1_PATH}/servers": ("GET", V1Frontend.servers),
    f"{V1_PATH}/intent": ("POST", V1Frontend.intent),
    f"{V1_PATH}/reports": ("POST", V1Frontend.report),
    V1_CALLS_PATH: ("POST", V1Frontend.tool_calls),
    f"{V1_PATH}/openapi.json": ("GET", V1Frontend.openapi),
}


_REFUSALS: Final = {400: "bad_request", 401: "unauthorized", 403: "forbidden", 429: "too_many_wrong_keys"}


def refusal(refused: Refused) -> dict[str, Any]:
    """Return the body for a request that was refused for its credentials."""
    return failure(_REFUSALS.get(refused.status, "refused"), refused.reason)


def failure(code: str, message: str, field: str = "") -> dict[str, Any]:
    """Return the body for a request that was refused before any work."""
    error = {"code": code, "message": message}
    return {"error": {**error, "field": field} if field else error}


def _check_server(name: str, known: list[ServerSeen]) -> None:
    if not any(name in (seen.config.id, seen.config.prefix) for seen in known):
        there = ", ".join(seen.config.id for seen in known) or "none"
        raise BadRequest("server", f"There is no server {name!r:.200}; there are: {there}.")


def _ask_for(send: Send) -> AskForScopes | None:
    return send.ask_for if isinstance(send, Answer) else None


def _response(batch: CallBatch, outcomes: list[CallOutcome], ask_for: AskForScopes | None) -> V1Response:
    """Return the response with the outcomes of all calls."""
    status, body = answer(batch, outcomes)
    wait, scopes = retry_after(outcomes), scopes_wanted(outcomes)
    headers_sent = {} if wait is None else {b"retry-after": b"%d" % wait}
    if scopes is not None and ask_for is not None:
        headers_sent[b"www-authenticate"] = ask_for(scopes)
    if (corrected := corrections(batch, outcomes)) is not None:
        headers_sent[CORRECTED_HEADER] = corrected
    return V1Response(status, body, headers_sent)


def _server(seen: ServerSeen) -> dict[str, Any]:
    """Return a server as its agents may see it."""
    config = seen.config
    return {
        "name": config.prefix or config.id,
        "description": config.description,
        "source": source_of(config.type),
        "state": seen.state,
        "reason": seen.reason or None,
        "tools": seen.tools,
        "notes": list(seen.notes),
    }


def _import_texts() -> None:
    """Import the texts of tools; a thread runs this, since their tables take some 40 ms."""
    from aggregator.frontends.v1 import list_tools

    assert list_tools


def _conversation(headers: Mapping[str, Sequence[str]]) -> str | None:
    """Return the conversation that the header names; None if it is not there, or empty.

    Raises:
        BadRequest: the header is repeated or too long.
    """
    given = headers.get(CONVERSATION_HEADER, ())
    if len(given) > 1:
        raise BadRequest(CONVERSATION_HEADER, f"`{CONVERSATION_HEADER}` is there twice.")
    if given and len(given[0]) > LONGEST_ID:
        raise BadRequest(CONVERSATION_HEADER, f"`{CONVERSATION_HEADER}` may have {LONGEST_ID} characters at most.")
    return (given[0] or None) if given else None


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
