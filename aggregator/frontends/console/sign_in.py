"""Signing in and out: by a link that `aggregator console` makes, or by an API key with a console role."""

import time
from collections.abc import Mapping
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from aggregator.frontends.console.guard import (
    COOKIE,
    ConsoleGuard,
    cookie_of,
    is_csrf_token,
    origins_of,
)
from aggregator.frontends.console.parts import ConsoleParts
from aggregator.frontends.console.rendering import Renderer
from aggregator.frontends.console.view import SignedIn
from aggregator.frontends.web.host_guard import source_in
from aggregator.frontends.web.request_origin import is_own_page
from aggregator.identity.identify import Refused, RequestFacts
from aggregator.storage.console_sessions import LASTS_FOR, new_secret

SIGN_IN: Final = "/sign-in"
SIGN_OUT: Final = "/sign-out"
ENTER: Final = "/enter/{token:path}"
_ELSEWHERE: Final = "This was sent from another page. Nothing was done."


class SignIn:
    """The pages for a user who is not signed in, and the end of a session."""

    def __init__(self, parts: ConsoleParts, guard: ConsoleGuard, renderer: Renderer) -> None:
        self._parts = parts
        self._guard = guard
        self._renderer = renderer

    async def show(self, request: Request, fields: Mapping[str, str]) -> Response:
        """Answer at the page to sign in with a key."""
        base, then = request.scope["root_path"], _own_path(fields.get("then", ""))
        if request.method != "POST":
            return self._renderer.sign_in("sign_in.html", {"said": "", "then": then}, base)
        facts = RequestFacts("console", (), (fields.get("key", "").strip(),), source=source_in(request.scope))
        found = await self._guard.by_key(facts)
        if isinstance(found, Refused):
            return self._renderer.sign_in("sign_in.html", {"said": found.reason, "then": then}, base, found.status)
        return await self._signed_in(request, found, then)

    async def enter(self, request: Request, _: Mapping[str, str]) -> Response:
        """Answer at a link that `aggregator console` made.

        Raises:
            StorageError: the database cannot be used.
        """
        token, base = request.path_params["token"], request.scope["root_path"]
        if request.method != "POST":
            return self._renderer.sign_in("enter.html", {"token": token}, base)
        database = await self._parts.opened()
        link = await database.console.take_link(token, now=time.time())
        if link is None:
            self._recorded("A link that is used, too old or none of ours was tried at the console.", "refused")
            said = "This link was used already, or is older than a minute. Run `aggregator console` again."
            return self._renderer.sign_in("sign_in.html", {"said": said, "then": ""}, base, 403)
        return await self._signed_in(request, SignedIn(link.person, link.role), "")

    async def sign_out(self, request: Request, fields: Mapping[str, str]) -> Response:
        """End a session, if the form is one of its pages."""
        base, secret = request.scope["root_path"], cookie_of(request.scope)
        if request.method != "POST":
            return RedirectResponse(f"{base}/", 303)
        identified = await self._guard.identified(request.scope) if secret is not None else None
        if secret is not None and identified is not None and not isinstance(identified, Refused):
            if not is_csrf_token(fields.get("csrf", ""), secret):
                said = "This form is too old: load the page again."
                return self._renderer.failure(400, said, base, identified.person)
            if identified.person.session is not None:
                await (await self._parts.opened()).console.end(identified.person.session)
            self._recorded(
                f"{identified.person.name} signed out of the console.", "sign_out", by=identified.person.name
            )
        response = RedirectResponse(base + SIGN_IN, 303)
        self._set_cookie(request, response, "", 0)
        return response

    def elsewhere(self, request: Request) -> Response | None:
        """Return the refusal of a form that another page sent, or None."""
        if request.method != "POST" or is_own_page(request.scope, self._origins(request)):
            return None
        return self._renderer.sign_in("sign_in.html", {"said": _ELSEWHERE, "then": ""}, request.scope["root_path"], 403)

    async def _signed_in(self, request: Request, person: SignedIn, then: str) -> Response:
        secret, database = new_secret(), await self._parts.opened()
        session = await database.console.begin(secret, person.name, person.role, person.key_id, now=time.time())
        said = f"{person.name} signed in at the console as {person.role}."
        how = "key" if person.key_id is not None else "link"
        self._recorded(said, "sign_in", by=person.name, role=person.role, session=session.id, how=how)
        response = RedirectResponse(request.scope["root_path"] + (then or "/"), 303)
        self._set_cookie(request, response, secret, int(LASTS_FOR))
        return response

    def _recorded(self, summary: str, action: str, **details: str | None) -> None:
        self._parts.record("console", summary, details={"action": action, **details})

    def _set_cookie(self, request: Request, response: Response, secret: str, lasts: int) -> None:
        path, secure = request.scope["root_path"], self._origins(request)[0].startswith("https:")
        response.set_cookie(COOKIE, secret, lasts, path=path, httponly=True, samesite="strict", secure=secure)

    def _origins(self, request: Request) -> tuple[str, ...]:
        return origins_of(request.scope, self._parts.own.public_url)


def _own_path(then: str) -> str:
    """Return where to go after signing in: a path below ours, never another address."""
    plain = then.startswith("/") and not then.startswith(("//", "/\\")) and len(then) <= 2_000
    return then if plain and then.isascii() and then.isprintable() and "\\" not in then else ""
