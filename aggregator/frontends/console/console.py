"""The console as an ASGI application: finds the page, lets in who may see it, and writes HTML or JSON."""

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any, Final
from urllib.parse import parse_qsl, quote

from starlette.routing import Match
from starlette.routing import Route as PathRoute

from aggregator.accounts.connect.browser_cookie import browser_cookie
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.errors import AggregatorError
from aggregator.frontends.console.guard import (
    ConsoleGuard,
    IdentifiedRequest,
    cookie_of,
    csrf_token,
    is_csrf_token,
    is_own_page,
    origins_of,
)
from aggregator.frontends.console.openapi import documented
from aggregator.frontends.console.pages.every_page import all_pages
from aggregator.frontends.console.parts import CONSOLE_PATH, ConsoleParts
from aggregator.frontends.console.rendering import Renderer
from aggregator.frontends.console.responses import PageResponse, as_json, problem, redirect, respond_with
from aggregator.frontends.console.sign_in import SignIn
from aggregator.frontends.console.static_files import StaticFiles
from aggregator.frontends.console.view import (
    BadInput,
    ChangedMeanwhile,
    ConsoleRequest,
    ConsoleStream,
    IssuerRedirect,
    NotConnected,
    NotPossible,
    NotThere,
    PageRoute,
    PageView,
    Redirect,
)
from aggregator.frontends.web.credentials import challenged
from aggregator.frontends.web.host_guard import BodyCut, BodyTooLarge, Receive, Scope, Send, header, read_body
from aggregator.identity.identify import Refused
from aggregator.storage.errors import NoSuchRow, StorageError

log = logging.getLogger(__name__)

# What a form may take, such as a policy file that is tried out; and how many fields it or a query may have.
_LARGEST_FORM: Final = 2 * 2**20
# Bytes of a form before signing in: a key, and where to go.
_LARGEST_KEY: Final = 16 * 1024
_MOST_FIELDS: Final = 500
_LONGEST_QUERY: Final = 16 * 1024
# Pages rendered at the same time: further ones wait, so that calls go on.
_AT_ONCE: Final = 8
_MOST_WAITING: Final = 256
_MOST_STREAMS: Final = 200
# The share of one user in these, over all browsers: the others keep theirs.
_MOST_OF_ONE: Final = 20
# Seconds between two checks that the user of a stream is still signed in.
_LOOK_EVERY: Final = 5.0
# The key of the identified user in the scope of a request.
_PERSON: Final = "aggregator.console.person"
# Extra headers of a stream: no proxy keeps events back.
_STREAMED: Final = ((b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no"))


class _Busy(Exception):
    """More requests than may wait for a turn."""


class ConsoleFrontend:
    """All pages, behind one guard."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts
        self._guard = ConsoleGuard(parts)
        self._static = StaticFiles()
        self._renderer = Renderer(self._static.version)
        self._sign_in = SignIn(parts, self._guard, self._renderer)
        routes = [route for page in all_pages(parts) for route in page.routes()]
        self._paths = [(PathRoute(route.path, _unused), route) for route in routes]
        self.documented = documented(routes, CONSOLE_PATH)
        self._turn = asyncio.Semaphore(_AT_ONCE)
        self._waiting = 0
        self._streams: Counter[str] = Counter()
        self._closing = asyncio.Event()

    def close(self) -> None:
        """End every stream."""
        self._closing.set()

    async def serve(self, scope: Scope, receive: Receive, send: Send, prefix: str) -> None:
        """Serve one request; `prefix` precedes our paths in the browser."""
        path = scope["path"].removeprefix(CONSOLE_PATH) or "/"
        if path.startswith("/static/"):
            await respond_with(send, self._static.response(scope, path), head=scope["method"] == "HEAD")
            return
        answer = await self._answer(scope, receive, path, prefix + CONSOLE_PATH)
        if isinstance(answer, PageResponse):
            await respond_with(send, answer, head=scope["method"] == "HEAD")
        else:
            await self._stream(answer[0], answer[1], receive, send)

    async def _answer(
        self, scope: Scope, receive: Receive, path: str, base: str
    ) -> "PageResponse | tuple[ConsoleStream, IdentifiedRequest]":
        """Return the whole response, or a stream and who it is for."""
        try:
            return await self._reply(scope, receive, path, base)
        except BadInput as bad:
            return self._failed(scope, 400, str(bad), base, field=bad.field)
        except NotThere as missing:
            return self._failed(scope, 404, str(missing), base, see=missing.see)
        except NotConnected as away:
            return self._failed(scope, 502, str(away), base, title="Not connected")
        except NotPossible as refused:
            return self._failed(scope, 409, str(refused), base, title="Not possible")
        except (ChangedMeanwhile, NoSuchRow) as conflict:
            return self._failed(scope, 409, str(conflict), base)
        except StorageError as error:
            log.warning("the console cannot use the database: %s", error)
            return self._failed(scope, 503, f"The database cannot be used now. {error}", base)
        except AggregatorError as error:
            return self._failed(scope, 400, str(error), base)
        except (BodyTooLarge, BodyCut):
            most = _LARGEST_KEY if self._sign_in.serves(path) else _LARGEST_FORM
            return self._failed(scope, 413, f"A form may take {most} bytes.", base)
        except _Busy:
            return PageResponse(503, b"The console is busy. Try again.", "text/plain; charset=utf-8")
        except Exception:
            log.exception("the console page %s failed", path)
            return self._failed(scope, 500, "Internal error in the aggregator; its log says more.", base)

    async def _reply(
        self, scope: Scope, receive: Receive, path: str, base: str
    ) -> "PageResponse | tuple[ConsoleStream, IdentifiedRequest]":
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        if method not in ("GET", "POST"):
            return self._failed(scope, 405, "Pages are asked for with GET, and actions with POST.", base)
        query = _fields(scope.get("query_string", b"").decode("latin-1"))
        if self._sign_in.serves(path):
            form = await _form(scope, receive, _LARGEST_KEY) if method == "POST" else {}
            async with self._in_turn():
                return await self._sign_in.reply(scope, method, path, query, form, base)
        if cookie_of(scope) is not None and _is_read_elsewhere(scope):
            return problem(403, "Another page asked for this. Open it in the browser.")
        async with self._in_turn():
            identified = await self._guard.identified(scope)
        if isinstance(identified, Refused):
            return replace(problem(identified.status, identified.reason), headers=challenged(scope, identified))
        wants_json = path.endswith(".json")
        if identified is None:
            return self._nobody(scope, path, base, wants_json, cookie_of(scope) is not None)
        scope[_PERSON] = identified.person
        found = self._find(method, path)
        if found is None:
            raise NotThere(f"There is no page {path[:200]!r}.")
        route, given = found
        form = {}
        if method == "POST":
            form = await _form(scope, receive, _LARGEST_FORM)
            self._check_origin(scope, identified, form)
        if not identified.person.may(route.role):
            if method == "POST":
                self._refused(identified, route, path)
            said = f"This is for the role {route.role}; {identified.person.name} is {identified.person.role}."
            return self._failed(scope, 403, said, base)
        request = ConsoleRequest(
            person=identified.person,
            base=base,
            origin=origins_of(scope, self._parts.own.public_url)[0],
            path=given,
            query=query,
            form=form,
            fragment=header(scope, b"hx-request") == "true",
            as_json=wants_json,
            section=route.path.split("/")[1],
        )
        async with self._in_turn():
            # A body may take minutes, and end with a role that is over by then.
            if method == "POST" and not await self._guard.still(identified.person):
                return problem(401, "Sign in again: the session is over.")
            result = await route.page(request)
            if isinstance(result, ConsoleStream):
                return result, identified
            if isinstance(result, IssuerRedirect):
                cookie = browser_cookie(result.browser, request.origin.startswith("https:"))
                return self._renderer.departure(result.to, cookie)
            if isinstance(result, Redirect):
                return await self._redirected(result, request)
            return await self._rendered(result, request, identified, scope)

    @asynccontextmanager
    async def _in_turn(self) -> AsyncIterator[None]:
        """Wait for a turn to work on a page. A body is read before it, so that a slow sender takes none.

        Raises:
            _Busy: too many wait already.
        """
        if self._waiting >= _MOST_WAITING:
            raise _Busy
        self._waiting += 1
        try:
            async with self._turn:
                yield
        finally:
            self._waiting -= 1

    def _find(self, method: str, path: str) -> tuple[PageRoute, Mapping[str, str]] | None:
        """Return the route of a path, with what its parameters stand for."""
        plain = path.removesuffix(".json") if path.endswith(".json") else path
        plain = "/" if plain == "/overview" else plain.rstrip("/") or "/"
        scope = {"type": "http", "method": "GET", "path": plain, "root_path": ""}
        for pattern, route in self._paths:
            if route.method == method:
                match, child = pattern.matches(scope)
                if match is Match.FULL:
                    return route, child["path_params"]
        return None

    def _check_origin(self, scope: Scope, identified: IdentifiedRequest, form: Mapping[str, str]) -> None:
        """Refuse requests that another page makes the browser send. A request with an API key comes from no browser."""
        if not identified.secret:
            return
        if not is_own_page(scope, origins_of(scope, self._parts.own.public_url)):
            raise BadInput("origin", "This was sent from another page. Nothing was done.")
        if not is_csrf_token(form.get("csrf", ""), identified.secret):
            raise BadInput("csrf", "This form is too old: load the page again. Nothing was done.")

    def _refused(self, identified: IdentifiedRequest, route: PageRoute, path: str) -> None:
        self._parts.record(
            "console",
            f"{identified.person.name} may not do this at the console: {route.method} {path[:200]}",
            details={"action": "refused", "by": identified.person.name, "role": identified.person.role},
        )

    async def _rendered(
        self, view: PageView, request: ConsoleRequest, identified: IdentifiedRequest, scope: Scope
    ) -> PageResponse:
        if request.as_json:
            return await asyncio.to_thread(as_json, view.data, view.status)
        packed = "gzip" in (header(scope, b"accept-encoding") or "")
        if request.fragment and view.fragment is not None:
            return await self._renderer.fragment(view, request, self._form_token(identified), packed)
        return await self._renderer.page(view, request, self._form_token(identified), await self._pending(), packed)

    @staticmethod
    def _form_token(identified: IdentifiedRequest) -> str:
        return csrf_token(identified.secret) if identified.secret else ""

    async def _pending(self) -> int:
        """Return the number of calls that wait for confirmation."""
        return await (await self._parts.opened()).approvals.waiting(now=time.time())

    async def _redirected(self, result: Redirect, request: ConsoleRequest) -> PageResponse:
        if not request.as_json:
            return redirect(request.base + result.to)
        return await asyncio.to_thread(as_json, {"see": request.base + result.to}, 200)

    def _nobody(self, scope: Scope, path: str, base: str, wants_json: bool, expired: bool) -> PageResponse:
        """Return the way to the page to sign in. A link from elsewhere comes without the cookie: it is followed once
        more from our own page.
        """
        from_page = header(scope, b"hx-request") == "true"
        if wants_json or scope["method"] == "POST" or from_page:
            said = "Sign in again: the session is over." if expired else "Sign in first, or send an API key."
            # A page that requested a fragment is reloaded, and so redirected to the sign-in.
            return replace(problem(401, said), headers=((b"hx-refresh", b"true"),) if from_page else ())
        elsewhere = header(scope, b"sec-fetch-site") in ("cross-site", "same-site")
        query = scope.get("query_string", b"").decode("latin-1")
        target = base + quote(path, safe="/%:@!$&'()*+,;=~-._") + (f"?{query}" if query else "")
        if elsewhere and header(scope, b"sec-fetch-mode") == "navigate":
            return self._renderer.bounce(target)
        then = "" if path == "/" else "?then=" + quote(target.removeprefix(base), safe="/")
        return redirect(f"{base}/sign-in{then}")

    def _failed(
        self,
        scope: Scope,
        status: int,
        said: str,
        base: str,
        field: str = "",
        see: Mapping[str, str] | None = None,
        title: str = "",
    ) -> PageResponse:
        """Return an error as JSON or as a page, with navigation for a signed-in user."""
        if scope["path"].endswith(".json"):
            return problem(status, said, field)
        return self._renderer.failure(status, said, base, scope.get(_PERSON), see, title)

    async def _stream(self, stream: ConsoleStream, identified: IdentifiedRequest, receive: Receive, send: Send) -> None:
        """Send events until the browser disconnects, the user signs out, or the program ends."""
        person = identified.person.key_id or f"{identified.person.name} by link"
        if self._streams[person] >= _MOST_OF_ONE:
            await respond_with(send, problem(429, f"You have {_MOST_OF_ONE} live pages: close some. This one is not."))
            return
        if self._streams.total() >= _MOST_STREAMS:
            await respond_with(send, problem(503, "Too many pages are live. This one is not."))
            return
        self._streams[person] += 1
        try:
            await respond_with(send, PageResponse(200, b"", "", _STREAMED), more=True)
            async with Tasks("a live page") as tasks:
                ends = {
                    tasks.start(_sent(stream.events, send)),
                    tasks.start(_gone(receive)),
                    tasks.start(self._signed_out(identified)),
                    tasks.start(self._closing.wait()),
                }
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._streams[person] -= 1
            if not self._streams[person]:
                del self._streams[person]
        await send({"type": "http.response.body", "body": b""})

    async def _signed_out(self, identified: IdentifiedRequest) -> None:
        while await self._guard.still(identified.person):  # noqa: ASYNC110 - the database is asked
            await asyncio.sleep(_LOOK_EVERY)


async def _sent(events: AsyncIterator[bytes], send: Send) -> None:
    async with aclosing(events) as given:  # type: ignore[type-var]
        async for event in given:
            await send({"type": "http.response.body", "body": event, "more_body": True})


def _is_read_elsewhere(scope: Scope) -> bool:
    """Tell whether a page of another address requests one of ours for its data. It could not read the answer; but from
    another port of this machine the cookie is sent, and the time of a search reveals something about its results.
    """
    elsewhere = header(scope, b"sec-fetch-site") in ("cross-site", "same-site")
    return elsewhere and scope["method"] != "POST" and header(scope, b"sec-fetch-mode") != "navigate"


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _unused(_: Any) -> None:
    raise AssertionError("routes are only matched")


def _fields(text: str) -> dict[str, str]:
    """Return the fields of a query or a form, the first value of each.

    Raises:
        BadInput: there are too many, or the query is too long.
    """
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise BadInput("", f"There may be {_MOST_FIELDS} fields.") from None
    found: dict[str, str] = {}
    for name, value in pairs:
        found.setdefault(name, value)
    return found


async def _form(scope: Scope, receive: Receive, most: int) -> dict[str, str]:
    body = await read_body(scope, receive, most)
    kind = (header(scope, b"content-type") or "").partition(";")[0].strip().lower()
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
