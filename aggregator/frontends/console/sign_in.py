"""Signing in and out: by a link that `aggregator console` makes, or by an API key with a console role."""

import time
from collections.abc import Mapping
from typing import Final

from aggregator.frontends.console.guard import (
    COOKIE,
    ConsoleGuard,
    cookie_of,
    is_csrf_token,
    is_own_page,
    origins_of,
)
from aggregator.frontends.console.parts import ConsoleParts
from aggregator.frontends.console.rendering import Renderer
from aggregator.frontends.console.responses import PageResponse, redirect
from aggregator.frontends.console.view import SignedIn
from aggregator.frontends.web.host_guard import Scope, source_in
from aggregator.identity.identify import Refused, RequestFacts
from aggregator.storage.console_sessions import LASTS_FOR, new_secret

SIGN_IN: Final = "/sign-in"
SIGN_OUT: Final = "/sign-out"
ENTER: Final = "/enter/"
_ELSEWHERE: Final = "This was sent from another page. Nothing was done."


class SignIn:
    """The pages for a user who is not signed in, and the end of a session."""

    def __init__(self, parts: ConsoleParts, guard: ConsoleGuard, renderer: Renderer) -> None:
        self._parts = parts
        self._guard = guard
        self._renderer = renderer

    @staticmethod
    def serves(path: str) -> bool:
        """Tell whether a path is one of these pages."""
        return path in (SIGN_IN, SIGN_OUT) or path.startswith(ENTER)

    async def reply(
        self,
        scope: Scope,
        method: str,
        path: str,
        query: Mapping[str, str],
        form: Mapping[str, str],
        base: str,
    ) -> PageResponse:
        """Return the response to one request.

        Raises:
            StorageError: the database cannot be used.
        """
        if method == "POST" and not is_own_page(scope, origins_of(scope, self._parts.own.public_url)):
            return self._renderer.sign_in("sign_in.html", {"said": _ELSEWHERE, "then": ""}, base, 403)
        if path == SIGN_OUT:
            return await self._sign_out(scope, method, form, base)
        then = _own_path((form if method == "POST" else query).get("then", ""))
        if path.startswith(ENTER):
            token = path.removeprefix(ENTER)
            if method == "GET":
                return self._renderer.sign_in("enter.html", {"token": token}, base)
            return await self._by_link(scope, token, base)
        if method == "GET":
            return self._renderer.sign_in("sign_in.html", {"said": "", "then": then}, base)
        return await self._by_key(scope, form.get("key", ""), then, base)

    async def _by_link(self, scope: Scope, token: str, base: str) -> PageResponse:
        database = await self._parts.opened()
        link = await database.console.take_link(token, now=time.time())
        if link is None:
            self._recorded("A link that is used, too old or none of ours was tried at the console.", "refused")
            said = "This link was used already, or is older than a minute. Run `aggregator console` again."
            return self._renderer.sign_in("sign_in.html", {"said": said, "then": ""}, base, 403)
        return await self._signed_in(scope, SignedIn(link.person, link.role), "", base)

    async def _by_key(self, scope: Scope, key: str, then: str, base: str) -> PageResponse:
        facts = RequestFacts("console", (), (key.strip(),), source=source_in(scope))
        found = await self._guard.by_key(facts)
        if isinstance(found, Refused):
            shown = {"said": found.reason, "then": then}
            return self._renderer.sign_in("sign_in.html", shown, base, found.status)
        return await self._signed_in(scope, found, then, base)

    async def _signed_in(self, scope: Scope, person: SignedIn, then: str, base: str) -> PageResponse:
        secret, database = new_secret(), await self._parts.opened()
        session = await database.console.begin(secret, person.name, person.role, person.key_id, now=time.time())
        said = f"{person.name} signed in at the console as {person.role}."
        how = "key" if person.key_id is not None else "link"
        self._recorded(said, "sign_in", by=person.name, role=person.role, session=session.id, how=how)
        return redirect(base + (then or "/"), (b"set-cookie", self._cookie(scope, secret, base, LASTS_FOR)))

    async def _sign_out(self, scope: Scope, method: str, form: Mapping[str, str], base: str) -> PageResponse:
        secret = cookie_of(scope)
        identified = await self._guard.identified(scope) if secret is not None else None
        if method == "POST" and secret is not None and identified is not None and not isinstance(identified, Refused):
            if not is_csrf_token(form.get("csrf", ""), secret):
                return self._renderer.failure(
                    400, "This form is too old: load the page again.", base, identified.person
                )
            if identified.person.session is not None:
                await (await self._parts.opened()).console.end(identified.person.session)
            self._recorded(
                f"{identified.person.name} signed out of the console.", "sign_out", by=identified.person.name
            )
        elif method == "GET":
            return redirect(f"{base}/")
        return redirect(f"{base}{SIGN_IN}", (b"set-cookie", self._cookie(scope, "", base, 0)))

    def _recorded(self, summary: str, action: str, **details: str | None) -> None:
        self._parts.record("console", summary, details={"action": action, **details})

    def _cookie(self, scope: Scope, secret: str, base: str, lasts: float) -> bytes:
        secure = origins_of(scope, self._parts.own.public_url)[0].startswith("https:")
        rules = f"Path={base}; Max-Age={lasts:.0f}; HttpOnly; SameSite=Strict" + ("; Secure" if secure else "")
        return f"{COOKIE}={secret}; {rules}".encode("latin-1", "replace")


def _own_path(then: str) -> str:
    """Return where to go after signing in: a path below ours, never another address."""
    plain = then.startswith("/") and not then.startswith(("//", "/\\")) and len(then) <= 2_000
    return then if plain and then.isascii() and then.isprintable() and "\\" not in then else ""
