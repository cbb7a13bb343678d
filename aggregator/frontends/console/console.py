"""The console as a Starlette application: a table of routes, the guard before each page, and HTML or JSON behind it."""

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, asynccontextmanager, contextmanager
from functools import partial
from typing import Any, Final
from urllib.parse import quote

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from aggregator.accounts.connect.browser_cookie import set_browser_cookie
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.errors import AggregatorError
from aggregator.domain.text.error_text import error_text
from aggregator.frontends.console.guard import (
    ConsoleGuard,
    IdentifiedRequest,
    cookie_of,
    csrf_token,
    is_csrf_token,
    origins_of,
)
from aggregator.frontends.console.openapi import documented
from aggregator.frontends.console.pages.every_page import all_pages
from aggregator.frontends.console.parts import CONSOLE_PATH, ConsoleParts
from aggregator.frontends.console.rendering import Renderer
from aggregator.frontends.console.sign_in import ENTER, SIGN_IN, SIGN_OUT, SignIn
from aggregator.frontends.console.view import (
    BadInput,
    ChangedMeanwhile,
    ConsoleRequest,
    ConsoleStream,
    FormTooLarge,
    IssuerRedirect,
    NotAllowed,
    NotConnected,
    NotPossible,
    NotThere,
    PageRoute,
    PageView,
    Redirect,
)
from aggregator.frontends.web.credentials import challenged
from aggregator.frontends.web.host_guard import BodyCut, BodyTooLarge, read_body
from aggregator.frontends.web.page_responses import (
    GuardedPages,
    JsonResponse,
    StaticFiles,
    accepts_gzip,
)
from aggregator.frontends.web.request_origin import is_own_page
from aggregator.identity.identify import Refused
from aggregator.storage.errors import NoSuchRow, StorageError

log = logging.getLogger(__name__)

# Nothing is loaded from elsewhere, nothing inline runs, and no other page may show ours (CSP Level 3).
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
# What a form may take, such as a policy file that is tried out; and how many fields it or a query may have.
_LARGEST_FORM: Final = 2 * 2**20
# Bytes of a form before signing in: a key, and where to go.
_LARGEST_KEY: Final = 16 * 1024
_MOST_FIELDS: Final = 500
# Pages rendered at the same time: further ones wait, so that calls go on.
_AT_ONCE: Final = 8
_MOST_WAITING: Final = 256
_MOST_STREAMS: Final = 200
# The share of one user in these, over all browsers: the others keep theirs.
_MOST_OF_ONE: Final = 20
# Seconds between two checks that the user of a stream is still signed in.
_LOOK_EVERY: Final = 5.0
# Status and title of the page for an error; the nearest class counts.
_FAILURES: Final[Mapping[type[BaseException], tuple[int, str]]] = {
    AggregatorError: (400, "Not possible"),
    NotAllowed: (403, "Not allowed"),
    NotThere: (404, "Not found"),
    NotPossible: (409, "Not possible"),
    ChangedMeanwhile: (409, "Changed meanwhile"),
    NoSuchRow: (409, "Changed meanwhile"),
    FormTooLarge: (413, "Too large"),
    NotConnected: (502, "Not connected"),
    StorageError: (503, "Not now"),
    Exception: (500, "Not possible"),
}
_CODES: Final[Mapping[int, str]] = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    413: "bad_request",
    429: "too_many_wrong_keys",
    503: "unavailable",
}

# Answers a request of a page before signing in, with the fields of its form, or of the query of a GET.
SignInPage = Callable[[Request, Mapping[str, str]], Awaitable[Response]]


class ConsoleFrontend:
    """All pages, behind one guard."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts
        self._guard = ConsoleGuard(parts)
        static = StaticFiles("aggregator.frontends.console")
        self._renderer = Renderer(static.version)
        self._sign_in = sign_in = SignIn(parts, self._guard, self._renderer)
        pages = [route for page in all_pages(parts) for route in page.routes()]
        self.documented = documented(pages, CONSOLE_PATH)
        self._turn = asyncio.Semaphore(_AT_ONCE)
        self._waiting = 0
        self._streams: Counter[str] = Counter()
        self._closing = asyncio.Event()
        both = ("GET", "POST")
        routes = [
            static.mount("/static"),
            Route(SIGN_IN, partial(self._before_sign_in, sign_in.show), methods=both),
            Route(SIGN_OUT, partial(self._before_sign_in, sign_in.sign_out), methods=both),
            Route(ENTER, partial(self._before_sign_in, sign_in.enter), methods=both),
            *(Route(page.path, partial(self._page, page), methods=[page.method]) for page in pages),
            *(Route("/overview", partial(self._page, page)) for page in pages if page.path == "/"),
            Route("/{path:path}", partial(self._page, None), methods=both),
        ]
        failures = {Exception: self._failed}
        self._app = GuardedPages(ExceptionMiddleware(Router(routes, redirect_slashes=False), failures), _POLICY)

    def close(self) -> None:
        """End every stream."""
        self._closing.set()

    async def serve(self, scope: Scope, receive: Receive, send: Send, prefix: str) -> None:
        """Serve one request; `prefix` precedes our paths in the browser."""
        base, asked = prefix + CONSOLE_PATH, scope["path"].removeprefix(CONSOLE_PATH) or "/"
        # `.json` behind the path of a page asks for its data; a name that ends so has a slash behind it.
        path = asked.removesuffix(".json").rstrip("/") or "/"
        await self._app({**scope, "root_path": base, "path": base + path, "state": {"asked": asked}}, receive, send)

    async def _before_sign_in(self, page: SignInPage, request: Request) -> Response:
        """Answer at a page for users who are not signed in."""
        query = _fields(_query(request))
        fields = await _form(request, _LARGEST_KEY) if request.method == "POST" else query
        async with self._in_turn():
            return self._sign_in.elsewhere(request) or await page(request, fields)

    async def _page(self, route: PageRoute | None, request: Request) -> Response:
        """Answer at the path of a page, or of none: only a user who is signed in sees that it is missing."""
        query, scope, base = _fields(_query(request)), request.scope, request.scope["root_path"]
        if cookie_of(scope) is not None and _is_read_elsewhere(request):
            return _problem(403, "Another page asked for this. Open it in the browser.")
        async with self._in_turn():
            identified = await self._guard.identified(scope)
        if isinstance(identified, Refused):
            return _problem(identified.status, identified.reason, headers=challenged(scope, identified))
        if identified is None:
            return self._nobody(request)
        person = request.state.person = identified.person
        if route is None:
            raise NotThere(f"There is no page {_path(request)[:200]!r}.")
        form = {}
        if request.method == "POST":
            form = await _form(request, _LARGEST_FORM)
            self._check_origin(request, identified, form)
        if not person.may(route.role):
            if request.method == "POST":
                self._refused(identified, route, _path(request))
            raise NotAllowed(f"This is for the role {route.role}; {person.name} is {person.role}.")
        asked = ConsoleRequest(
            person=person,
            base=base,
            origin=origins_of(scope, self._parts.own.public_url)[0],
            path=request.path_params,
            query=query,
            form=form,
            fragment=_is_from_page(request),
            as_json=_wants_json(request),
            section=route.path.split("/")[1],
        )
        async with self._in_turn():
            # A body may take minutes, and end with a role that is over by then.
            if request.method == "POST" and not await self._guard.still(person):
                return _problem(401, "Sign in again: the session is over.")
            return await self._response(await route.page(asked), asked, identified, accepts_gzip(request))

    @asynccontextmanager
    async def _in_turn(self) -> AsyncIterator[None]:
        """Wait for a turn to work on a page. A body is read before it, so that a slow sender takes none.

        Raises:
            HTTPException: too many wait already.
        """
        if self._waiting >= _MOST_WAITING:
            raise HTTPException(503, "The console is busy. Try again.")
        self._waiting += 1
        try:
            async with self._turn:
                yield
        finally:
            self._waiting -= 1

    def _check_origin(self, request: Request, identified: IdentifiedRequest, form: Mapping[str, str]) -> None:
        """Refuse requests that another page makes the browser send. A request with an API key comes from no browser."""
        if not identified.secret:
            return
        if not is_own_page(request.scope, origins_of(request.scope, self._parts.own.public_url)):
            raise BadInput("origin", "This was sent from another page. Nothing was done.")
        if not is_csrf_token(form.get("csrf", ""), identified.secret):
            raise BadInput("csrf", "This form is too old: load the page again. Nothing was done.")

    def _refused(self, identified: IdentifiedRequest, route: PageRoute, path: str) -> None:
        self._parts.record(
            "console",
            f"{identified.person.name} may not do this at the console: {route.method} {path[:200]}",
            details={"action": "refused", "by": identified.person.name, "role": identified.person.role},
        )

    async def _response(
        self,
        result: PageView | Redirect | IssuerRedirect | ConsoleStream,
        request: ConsoleRequest,
        identified: IdentifiedRequest,
        packed: bool,
    ) -> Response:
        """Return the response that a page decided on."""
        if isinstance(result, ConsoleStream):
            return self._live(result, identified)
        if isinstance(result, IssuerRedirect):
            response = self._renderer.departure(result.to)
            set_browser_cookie(response, result.browser, request.origin.startswith("https:"))
            return response
        if isinstance(result, Redirect):
            to = request.base + result.to
            return JsonResponse({"see": to}) if request.as_json else RedirectResponse(to, 303)
        if request.as_json:
            return await asyncio.to_thread(JsonResponse, result.data, result.status)
        csrf = csrf_token(identified.secret) if identified.secret else ""
        if request.fragment and result.fragment is not None:
            return await self._renderer.fragment(result, request, csrf, packed)
        waiting = await (await self._parts.opened()).approvals.waiting(now=time.time())
        return await self._renderer.page(result, request, csrf, waiting, packed)

    def _nobody(self, request: Request) -> Response:
        """Return the way to the page to sign in. A link from elsewhere comes without the cookie: it is followed once
        more from our own page.
        """
        from_page = _is_from_page(request)
        if _wants_json(request) or request.method == "POST" or from_page:
            expired = cookie_of(request.scope) is not None
            said = "Sign in again: the session is over." if expired else "Sign in first, or send an API key."
            # A page that requested a fragment is reloaded, and so redirected to the sign-in.
            return _problem(401, said, headers={"hx-refresh": "true"} if from_page else {})
        base, path, query = request.scope["root_path"], _path(request), _query(request)
        target = base + quote(path, safe="/%:@!$&'()*+,;=~-._") + (f"?{query}" if query else "")
        if _is_elsewhere(request) and request.headers.get("sec-fetch-mode") == "navigate":
            return self._renderer.bounce(target)
        then = "" if path == "/" else "?then=" + quote(target.removeprefix(base), safe="/")
        return RedirectResponse(base + SIGN_IN + then, 303)

    async def _failed(self, request: Request, error: Exception) -> Response:
        """Return an error as JSON or as a page, with navigation for a signed-in user."""
        status, title = next(_FAILURES[kind] for kind in type(error).__mro__ if kind in _FAILURES)
        said = error_text(error)
        if status == 503:
            log.warning("the console cannot use the database: %s", error_text(error))
            said = f"The database cannot be used now. {error_text(error)}"
        elif status == 500:
            log.exception("the console page %s failed", _path(request))
            said = "Internal error in the aggregator; its log says more."
        if _wants_json(request):
            return _problem(status, said, error.field if isinstance(error, BadInput) else "")
        see = error.see if isinstance(error, NotThere) else {}
        person = getattr(request.state, "person", None)
        return self._renderer.failure(status, said, request.scope["root_path"], person, see, title)

    def _live(self, stream: ConsoleStream, identified: IdentifiedRequest) -> Response:
        person = identified.person.key_id or f"{identified.person.name} by link"
        if self._streams[person] >= _MOST_OF_ONE:
            return _problem(429, f"You have {_MOST_OF_ONE} live pages: close some. This one is not.")
        if self._streams.total() >= _MOST_STREAMS:
            return _problem(503, "Too many pages are live. This one is not.")
        ends = partial(self._signed_out, identified), self._closing.wait
        return _LiveEvents(stream.events, self._counted(person), ends)

    @contextmanager
    def _counted(self, person: str) -> Iterator[None]:
        """Count a live page of a user while it is open."""
        self._streams[person] += 1
        try:
            yield
        finally:
            self._streams[person] -= 1
            if not self._streams[person]:
                del self._streams[person]

    async def _signed_out(self, identified: IdentifiedRequest) -> None:
        while await self._guard.still(identified.person):  # noqa: ASYNC110 - the database is asked
            await asyncio.sleep(_LOOK_EVERY)


class _LiveEvents(StreamingResponse):
    """Events until the browser disconnects, or one of `ends` returns; `counted` is entered meanwhile."""

    media_type = "text/event-stream"

    def __init__(
        self,
        events: AsyncIterator[bytes],
        counted: AbstractContextManager[None],
        ends: Sequence[Callable[[], Coroutine[Any, Any, object]]],
    ) -> None:
        # No proxy keeps events back.
        super().__init__(events, headers={"x-accel-buffering": "no"})
        self._events = events
        self._counted = counted
        self._ends = ends

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._counted:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async with Tasks("a live page") as tasks:
                work = (self._sent(send), self.listen_for_disconnect(receive), *(end() for end in self._ends))
                await asyncio.wait({tasks.start(one) for one in work}, return_when=asyncio.FIRST_COMPLETED)
        await send({"type": "http.response.body", "body": b""})

    async def _sent(self, send: Send) -> None:
        async with aclosing(self._events) as given:  # type: ignore[type-var]
            async for event in given:
                await send({"type": "http.response.body", "body": event, "more_body": True})


def _path(request: Request) -> str:
    """Return the path of a request below the console's, as it was asked for."""
    path: str = request.state.asked
    return path


def _wants_json(request: Request) -> bool:
    return _path(request).endswith(".json")


def _is_from_page(request: Request) -> bool:
    return request.headers.get("hx-request") == "true"


def _is_elsewhere(request: Request) -> bool:
    return request.headers.get("sec-fetch-site") in ("cross-site", "same-site")


def _is_read_elsewhere(request: Request) -> bool:
    """Tell whether a page of another address requests one of ours for its data. It could not read the answer; but from
    another port of this machine the cookie is sent, and the time of a search reveals something about its results.
    """
    navigates = request.headers.get("sec-fetch-mode") == "navigate"
    return _is_elsewhere(request) and request.method != "POST" and not navigates


def _problem(status: int, message: str, field: str = "", headers: Mapping[str, str] | None = None) -> Response:
    """Return a refusal as JSON, in the form that `/v1` has too."""
    error = {"code": _CODES.get(status, "internal_error"), "message": message}
    return JsonResponse({"error": {**error, "field": field} if field else error}, status, headers)


def _query(request: Request) -> str:
    # Not `request.url`, which takes UTF-8 only.
    query: bytes = request.scope["query_string"]
    return query.decode("latin-1")


def _fields(text: str) -> dict[str, str]:
    """Return the fields of a query or a form, the first value of each.

    Raises:
        BadInput: there are too many.
    """
    if text.count("&") >= _MOST_FIELDS:
        raise BadInput("", f"There may be {_MOST_FIELDS} fields.")
    return dict(reversed(QueryParams(text).multi_items()))


async def _form(request: Request, most: int) -> dict[str, str]:
    try:
        body = await read_body(request.scope, request.receive, most)
    except (BodyTooLarge, BodyCut):
        raise FormTooLarge(f"A form may take {most} bytes.") from None
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        try:
            given = json.loads(body)
        except (ValueError, RecursionError):
            raise BadInput("", "The body is not valid JSON.") from None
        if not isinstance(given, dict):
            raise BadInput("", "The body must be a JSON object.")
        return {name: value if isinstance(value, str) else json.dumps(value) for name, value in given.items()}
    if kind != "application/x-www-form-urlencoded":
        raise BadInput("", "Send a form (application/x-www-form-urlencoded) or a JSON object (application/json).")
    return _fields(body.decode("utf-8", "replace"))
