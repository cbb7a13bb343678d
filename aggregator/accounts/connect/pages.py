"""The pages for connecting an account: the subject of a link, the request to the issuer, and its answer.

Rule 1: viewing a page changes nothing, since programs view links too. Only a form on our own page continues, from the
browser that shows it, and only that browser can bring back a valid answer.
Rule 2: a link for one agent or user is useless to another, so that a forwarded link connects no account for the wrong
one (MCP, URL mode elicitation, "phishing"). Only an operator connects an account shared by all.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.datastructures import QueryParams
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from aggregator.accounts.connect.browser_cookie import browser_of, new_browser, set_browser_cookie
from aggregator.accounts.connect.parts import (
    CALLBACK,
    CONNECT_PATH,
    SIGNED_IN,
    ConnectingGrants,
    KeyCheck,
    OutcomeSeen,
    PersonSignIns,
)
from aggregator.accounts.grants.errors import ConnectFailed
from aggregator.accounts.grants.values import ConnectOutcome, ConnectPage
from aggregator.domain.grant_owner import GrantOwner
from aggregator.domain.principal import Principal
from aggregator.frontends.web.host_guard import BodyCut, BodyTooLarge, read_body, source_in
from aggregator.frontends.web.own_address import OwnAddress
from aggregator.frontends.web.page_responses import GuardedPages, StaticFiles
from aggregator.frontends.web.request_origin import is_own_page, origin_of
from aggregator.identity.identify import Refused, RequestFacts
from aggregator.identity.sign_in import SignInFailed
from aggregator.identity.source import names_this_machine
from aggregator.storage.errors import StorageError

log = logging.getLogger(__name__)

# Nothing is loaded from elsewhere, nothing runs, no other page may show ours (CSP Level 3). A form leads to a page of
# ours, and that one on to the issuer: `form-action` would have to name every address on the way there otherwise.
_POLICY: Final = "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
_LARGEST_FORM: Final = 16 * 1024
_MOST_FIELDS: Final = 50
_LONGEST_QUERY: Final = 16 * 1024
_AT_ONCE: Final = 8
_ENDED: Final = "This link was used already, has expired, or was cut off."
_AGAIN: Final = "Ask for the tool again, or run `aggregator connect`, to get a new one."
_UNSAFE: Final = (
    "Accounts are connected over https:// only, or on the machine of the aggregator. Its operator sets "
    "`http.public_url` to an https:// address."
)
_NO_SIGN_IN: Final = (
    "People cannot sign in here yet: the operator of the aggregator sets `sign_in` of the issuer in `auth.issuers`."
)
_OTHER_PERSON: Final = "This link was made for another person than the one who signed in. Nothing was done."
_TOO_LONG: Final = "The answer of the issuer is too long."
_ELSEWHERE: Final = "This was sent from another page. Nothing was done."
_CLOSE: Final = "You can close this window and go back to where you came from."
_NOT_NOW: Final = "The aggregator cannot use its database now. Try again in a minute."
_NOTES: Final[Mapping[str, str]] = {
    "shared": "Every agent that may use this server works with this account.",
    "gateway": "It reads the lists of tools with this account, and calls none.",
}

# The fields of an issuer's answer.
Params = Sequence[tuple[str, str]]
# Takes the answer of an issuer, with the secret of the browser that brought it.
IssuerAnswer = Callable[[Request, Params, str | None], Awaitable[Response]]

_MOST: Final = 400

# `here`: only from this machine. `key`: an API key of the agent. `operator`: a key of an operator of the console.
# `sign_in`: the user, at their issuer.
Proof = Literal["here", "key", "operator", "sign_in"]

NOT_HERE: Final = "This link is for the machine that the aggregator runs on: open it in a browser there."
_OTHER_KEY: Final = "This key is not one of the agent that the link was made for."
_NO_OPERATOR: Final = "This account is used for all agents, so an operator connects it. This is not an operator's key."


class ConnectRenderer:
    """The templates of the pages; `version` is the version of the static files."""

    def __init__(self, version: str) -> None:
        self._templates = Environment(
            loader=PackageLoader("aggregator.accounts.connect"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters["shown"] = shown
        self._templates.globals["static"] = version

    def page(self, template: str, base: str, given: Mapping[str, Any], status: int = 200) -> Response:
        """Return a page. base: the prefix of our paths in the browser."""
        text = self._templates.get_template(template).render({"base": base, **given})
        return HTMLResponse(text.encode("utf-8", "replace"), status)


def shown(text: str) -> str:
    """Return a text of others without characters that change how what stands around it looks, and bounded."""
    plain = "".join(char if char.isprintable() else " " for char in str(text))
    return plain if len(plain) <= _MOST else f"{plain[:_MOST]}..."


class ConnectPages:
    """An ASGI application for `/connect` and the paths below, behind a `HostGuard`.

    keys: None without keys to prove anything with. seen: called with each outcome. sign_ins: None if users cannot sign
    in.
    """

    def __init__(
        self,
        grants: ConnectingGrants,
        own: OwnAddress,
        keys: KeyCheck | None = None,
        seen: OutcomeSeen | None = None,
        sign_ins: PersonSignIns | None = None,
    ) -> None:
        self._sign_ins = sign_ins
        self._grants = grants
        self._own = own
        self._keys = keys
        self._seen = seen
        static = StaticFiles("aggregator.accounts.connect")
        self._renderer = ConnectRenderer(static.version)
        self._turn = asyncio.Semaphore(_AT_ONCE)
        both = ("GET", "POST")
        routes = [
            static.mount(f"{CONNECT_PATH}/static"),
            Route(CALLBACK, partial(self._answer, self._answered), methods=both),
            Route(SIGNED_IN, partial(self._answer, self._signed_in), methods=both),
            Route(f"{CONNECT_PATH}/{{code:path}}", self._link, methods=both),
            Route(CONNECT_PATH, self._link, methods=both),
        ]
        failures = {Exception: self._error}
        pages = ExceptionMiddleware(Router(routes, redirect_slashes=False), failures)
        self._app = GuardedPages(pages, _POLICY, {"x-robots-tag": "noindex, nofollow"})

    async def serve(self, scope: Scope, receive: Receive, send: Send, prefix: str) -> None:
        """Answer one request. prefix: precedes our paths in the browser."""
        await self._app({**scope, "root_path": prefix, "path": prefix + scope["path"]}, receive, send)

    async def _error(self, request: Request, error: Exception) -> Response:
        if isinstance(error, StorageError):
            log.warning("an account cannot be connected: %s", error)
            return self._failed(request, 503, _NOT_NOW)
        if isinstance(error, ConnectFailed | SignInFailed):
            if self._seen is not None and not error.transient:
                self._seen(ConnectOutcome(False, error.reason))
            return self._failed(request, 503 if error.transient else 400, error.reason)
        # The path contains a secret.
        log.exception("a page for connecting failed")
        return self._failed(request, 500, "Internal error in the aggregator; its log says more.")

    async def _answer(self, page: IssuerAnswer, request: Request) -> Response:
        """Take the answer of an issuer to a browser; HEAD would use it up."""
        if request.method != "GET":
            return self._failed(request, 405, "The issuer has to send the answer with GET.")
        query: bytes = request.scope["query_string"]
        if len(query) > _LONGEST_QUERY or query.count(b"&") >= _MOST_FIELDS:
            return self._failed(request, 400, _TOO_LONG)
        browser = browser_of(request.scope, self._is_secure(request))
        async with self._turn:
            return await page(request, request.query_params.multi_items(), browser)

    async def _link(self, request: Request) -> Response:
        """Show the page of a link, or go on from its form."""
        try:
            form = await _form(request) if request.method == "POST" else {}
        except (BodyTooLarge, BodyCut):
            return self._failed(request, 413, f"A form may take {_LARGEST_FORM} bytes.")
        code = request.path_params.get("code")
        async with self._turn:
            page = await self._grants.opened(code) if code else None
            if page is None or not code:
                return self._failed(request, 404, _ENDED, _AGAIN)
            if request.method != "POST":
                return self._offer(request, code, page)
            return await self._go_on(request, code, page, form)

    def _offer(self, request: Request, code: str, page: ConnectPage, said: str = "") -> Response:
        """Return the page about the subject of the link; said: the reason why it did not continue."""
        proof, refused = proof_of(page.asked_by, page.owner), self._refused(request.scope, page)
        given = {
            "title": f"Connect {page.server}",
            "code": code,
            "server": page.server,
            "resource": page.resource,
            "owner": owner_text(page.owner),
            "owner_note": _NOTES.get(page.owner.kind, ""),
            "issuer": page.issuer,
            "scopes": page.scopes or (),
            "again": page.again,
            "proof": proof,
            "agent": page.asked_by.agent_id,
            "sign_in_at": page.asked_by.token.issuer if page.asked_by.token is not None else "",
            "said": said or refused or "",
            "refused": bool(refused),
            "hint": _hint(proof, page.asked_by.agent_id),
        }
        return self._page(request, "offer.html", given, 403 if refused or said else 200)

    def _refused(self, scope: Scope, page: ConnectPage) -> str | None:
        """Return why no one can connect an account in this browser."""
        if not _is_safe(origin_of(scope, self._own)):
            return _UNSAFE
        proof = proof_of(page.asked_by, page.owner)
        if proof == "here" and not source_in(scope).local:
            return NOT_HERE
        if proof in ("key", "operator") and self._keys is None:
            return "This link is for the aggregator that serves hosts over the network: open it there."
        return _NO_SIGN_IN if proof == "sign_in" and not self._can_sign_in(page) else None

    def _can_sign_in(self, page: ConnectPage) -> bool:
        token = page.asked_by.token
        return self._sign_ins is not None and token is not None and self._sign_ins.offers(token.issuer)

    async def _go_on(self, request: Request, code: str, page: ConnectPage, form: Mapping[str, str]) -> Response:
        """Return the way to the issuer, once it is proven who asks."""
        if not is_own_page(request.scope, (origin_of(request.scope, self._own),)):
            return self._offer(request, code, page, _ELSEWHERE)
        if self._refused(request.scope, page) is not None:
            return self._offer(request, code, page)
        if proof_of(page.asked_by, page.owner) == "sign_in":
            return await self._send_to_sign_in(request, code, page)
        said = self._unproven(request.scope, page, form)
        if said is not None:
            return self._offer(request, code, page, said)
        return await self._leave(request, code, page)

    def _unproven(self, scope: Scope, page: ConnectPage, form: Mapping[str, str]) -> str | None:
        """Return why the visitor is not proven to be the principal who asked, or None."""
        proof = proof_of(page.asked_by, page.owner)
        if proof == "here":
            return None
        if proof in ("key", "operator") and self._keys is not None:
            return refused_key(scope, form.get("key", ""), proof, page.asked_by, self._keys)
        return _NO_SIGN_IN

    async def _leave(self, request: Request, code: str, page: ConnectPage) -> Response:
        browser, callback = self._browser(request), self._address(request, CALLBACK)
        to = await self._grants.start(code, callback, browser)
        if not to.startswith(("https://", "http://")):
            raise ValueError("the address of an issuer is no web address")
        return self._departure(request, browser, {"title": f"Connect {page.server}", "to": to, "issuer": page.issuer})

    async def _send_to_sign_in(self, request: Request, code: str, page: ConnectPage) -> Response:
        """Return the page that leads to the issuer of the user who asked."""
        assert self._sign_ins is not None, "looked at before"
        assert page.asked_by.token is not None, "only with a token does a person sign in"
        browser = self._browser(request)
        attempt = await self._sign_ins.begin(page.asked_by.token.issuer, self._address(request, SIGNED_IN))
        await self._grants.begin_sign_in(code, attempt, browser)
        return self._departure(request, browser, {"title": "Sign in", "to": attempt.url, "issuer": attempt.issuer})

    def _departure(self, request: Request, browser: str, given: Mapping[str, str]) -> Response:
        response = self._page(request, "leave.html", given)
        set_browser_cookie(response, browser, self._is_secure(request))
        return response

    async def _signed_in(self, request: Request, params: Params, browser: str | None) -> Response:
        """Return the redirect to the server's issuer, after the user who asked has signed in."""
        if self._sign_ins is None:
            return self._failed(request, 400, _NO_SIGN_IN)
        code, attempt = await self._grants.sign_in_answered(params, browser)
        person, tokens = await self._sign_ins.finish(attempt, params)
        page = await self._grants.opened(code)
        wanted = page.asked_by.token if page is not None else None
        if page is None or wanted is None:
            return self._failed(request, 404, _ENDED, _AGAIN)
        if (person.issuer, person.subject) != (wanted.issuer, wanted.subject):
            log.warning("a link for %s was opened by another person of %s", page.owner, person.issuer)
            return self._failed(request, 403, _OTHER_PERSON)
        await self._grants.signed_in(code, person, tokens)
        if not page.signs_in:
            return await self._leave(request, code, page)
        said = f"You are signed in: {page.server} can be used with your account."
        return self._outcome(request, ConnectOutcome(True, said, page.server, page.owner))

    async def _answered(self, request: Request, params: Params, browser: str | None) -> Response:
        """Return the outcome, from the parameters that the browser brought from the issuer."""
        return self._outcome(request, await self._grants.answered(params, browser))

    def _outcome(self, request: Request, outcome: ConnectOutcome) -> Response:
        if self._seen is not None:
            self._seen(outcome)
        title, then = ("Connected", _CLOSE) if outcome.connected else ("Not connected", _AGAIN)
        given = {"title": title, "connected": outcome.connected, "said": outcome.said, "then": then}
        return self._page(request, "outcome.html", given, 200 if outcome.connected else 400)

    def _failed(self, request: Request, status: int, said: str, then: str = "") -> Response:
        given = {"title": "Not possible", "connected": False, "said": said, "then": then}
        return self._page(request, "outcome.html", given, status)

    def _page(self, request: Request, template: str, given: Mapping[str, Any], status: int = 200) -> Response:
        return self._renderer.page(template, request.scope["root_path"], given, status)

    def _is_secure(self, request: Request) -> bool:
        return origin_of(request.scope, self._own).startswith("https:")

    def _browser(self, request: Request) -> str:
        return browser_of(request.scope, self._is_secure(request)) or new_browser()

    def _address(self, request: Request, path: str) -> str:
        """Return the address of a path of ours, as the browser knows it."""
        return f"{origin_of(request.scope, self._own)}{request.scope['root_path']}{path}"


async def _form(request: Request) -> dict[str, str]:
    body = await read_body(request.scope, request.receive, _LARGEST_FORM)
    return dict(QueryParams(body.decode("utf-8", "replace")).multi_items()[:_MOST_FIELDS])


def _is_safe(origin: str) -> bool:
    """Return whether an issuer's answer to an origin cannot be read on the way (OAuth 2.1, 1.5; RFC 8252, 8.3)."""
    scheme, _, host = origin.partition("://")
    return scheme == "https" or names_this_machine(host)


def owner_text(owner: GrantOwner) -> str:
    """Return the owner of an account for display."""
    return {"shared": "All agents", "gateway": "The aggregator itself"}.get(owner.kind, str(owner).capitalize())


def _hint(proof: Proof, agent: str) -> str:
    if proof == "here":
        return f"Go on only if you asked for this yourself. It was asked for on this machine, by the agent {agent}."
    return f"Go on only if you asked for this yourself. It was asked for by the agent {agent}."


def proof_of(asked_by: Principal, owner: GrantOwner) -> Proof:
    """Return the proof that is needed of who opens a link."""
    if asked_by.token is None and asked_by.key_id is None:
        return "here"
    if owner.kind in ("shared", "gateway"):
        return "operator"
    return "sign_in" if asked_by.token is not None else "key"


def refused_key(scope: Scope, key: str, proof: Proof, asked_by: Principal, keys: KeyCheck) -> str | None:
    """Return why a key does not prove that its holder may continue, or None."""
    found = keys.authenticate(RequestFacts("console", (), (key.strip(),), source=source_in(scope)))
    if isinstance(found, Refused):
        return found.reason
    if found.key_id is None:
        return _OTHER_KEY
    if proof == "operator":
        record = keys.keyring.record(found.key_id)
        return None if record is not None and record.console_role == "operator" else _NO_OPERATOR
    same = (found.agent_id, found.tenant) == (asked_by.agent_id, asked_by.tenant)
    return None if same else _OTHER_KEY
