"""The pages for connecting an account: the subject of a link, the request to the issuer, and its answer.

Rule: viewing a page changes nothing, since programs view links too. Only a form on our own page continues, from the
browser that shows it, and only that browser can bring back a valid answer.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

from aggregator.accounts.connect.browser_cookie import browser_cookie, browser_of, new_browser
from aggregator.accounts.connect.own_base import is_safe, origin_of
from aggregator.accounts.connect.parts import (
    CALLBACK,
    CONNECT_PATH,
    SIGNED_IN,
    ConnectingGrants,
    KeyCheck,
    OutcomeSeen,
    PersonSignIns,
)
from aggregator.accounts.connect.proof import NOT_HERE, Proof, proof_of, refused_key
from aggregator.accounts.connect.rendering import ConnectAnswer, ConnectRenderer
from aggregator.accounts.grants.errors import ConnectFailed
from aggregator.accounts.grants.values import ConnectOutcome, ConnectPage
from aggregator.domain.grant_owner import GrantOwner
from aggregator.frontends.web.host_guard import (
    BodyCut,
    BodyTooLarge,
    Receive,
    Scope,
    Send,
    header,
    read_body,
    source_in,
)
from aggregator.frontends.web.own_address import OwnAddress
from aggregator.identity.sign_in import SignInFailed
from aggregator.storage.errors import StorageError

log = logging.getLogger(__name__)


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
        self._renderer = ConnectRenderer()
        self._turn = asyncio.Semaphore(_AT_ONCE)

    async def serve(self, scope: Scope, receive: Receive, send: Send, prefix: str) -> None:
        """Answer one request. prefix: precedes our paths in the browser."""
        try:
            answer = await self._answer(scope, receive, prefix)
        except (BodyTooLarge, BodyCut):
            answer = self._failed(prefix, 413, f"A form may take {_LARGEST_FORM} bytes.")
        except StorageError as error:
            log.warning("an account cannot be connected: %s", error)
            answer = self._failed(prefix, 503, _NOT_NOW)
        except (ConnectFailed, SignInFailed) as failed:
            if self._seen is not None and not failed.transient:
                self._seen(ConnectOutcome(False, failed.reason))
            answer = self._failed(prefix, 503 if failed.transient else 400, failed.reason)
        except Exception:
            # The path contains a secret.
            log.exception("a page for connecting failed")
            answer = self._failed(prefix, 500, "Internal error in the aggregator; its log says more.")
        await answer.send(send, head=scope["method"] == "HEAD")

    async def _answer(self, scope: Scope, receive: Receive, prefix: str) -> ConnectAnswer:
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        name = scope["path"].removeprefix(CONNECT_PATH).removeprefix("/")
        if method == "GET" and name == self._renderer.style_name:
            return self._renderer.style()
        if method not in ("GET", "POST"):
            return self._failed(prefix, 405, "Pages are asked for with GET, and actions with POST.")
        if scope["path"] in (CALLBACK, SIGNED_IN):
            if scope["method"] != "GET":
                return self._failed(prefix, 405, "The issuer has to send the answer with GET.")
            answer = self._answered if scope["path"] == CALLBACK else self._signed_in
            async with self._turn:
                return await answer(scope, prefix)
        form = await self._form(scope, receive) if method == "POST" else {}
        async with self._turn:
            page = await self._grants.opened(name) if name else None
            if page is None:
                return self._failed(prefix, 404, _ENDED, _AGAIN)
            if method == "GET":
                return self._offer(scope, prefix, name, page)
            return await self._go_on(scope, prefix, name, page, form)

    def _offer(self, scope: Scope, prefix: str, code: str, page: ConnectPage, said: str = "") -> ConnectAnswer:
        """Return the page about the subject of the link; said: the reason why it did not continue."""
        proof, refused = proof_of(page.asked_by, page.owner), self._refused(scope, page)
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
        return self._renderer.page("offer.html", prefix, given, 403 if refused or said else 200)

    def _refused(self, scope: Scope, page: ConnectPage) -> str | None:
        """Return why no one can connect an account in this browser."""
        if not is_safe(origin_of(scope, self._own)):
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

    async def _go_on(
        self, scope: Scope, prefix: str, code: str, page: ConnectPage, form: Mapping[str, str]
    ) -> ConnectAnswer:
        """Return the way to the issuer, once it is proven who asks."""
        origin = origin_of(scope, self._own)
        if not is_own_form(scope, origin):
            return self._offer(scope, prefix, code, page, _ELSEWHERE)
        if self._refused(scope, page) is not None:
            return self._offer(scope, prefix, code, page)
        if proof_of(page.asked_by, page.owner) == "sign_in":
            return await self._send_to_sign_in(scope, prefix, code, page)
        said = self._unproven(scope, page, form)
        if said is not None:
            return self._offer(scope, prefix, code, page, said)
        return await self._leave(scope, prefix, code, page)

    def _unproven(self, scope: Scope, page: ConnectPage, form: Mapping[str, str]) -> str | None:
        """Return why the visitor is not proven to be the principal who asked, or None."""
        proof = proof_of(page.asked_by, page.owner)
        if proof == "here":
            return None
        if proof in ("key", "operator") and self._keys is not None:
            return refused_key(scope, form.get("key", ""), proof, page.asked_by, self._keys)
        return _NO_SIGN_IN

    async def _leave(self, scope: Scope, prefix: str, code: str, page: ConnectPage) -> ConnectAnswer:
        origin = origin_of(scope, self._own)
        secure = origin.startswith("https:")
        browser = browser_of(scope, secure) or new_browser()
        to = await self._grants.start(code, f"{origin}{prefix}{CALLBACK}", browser)
        if not to.startswith(("https://", "http://")):
            raise ValueError("the address of an issuer is no web address")
        given = {"title": f"Connect {page.server}", "to": to, "issuer": page.issuer}
        return self._renderer.page("leave.html", prefix, given, 200, browser_cookie(browser, secure))

    async def _send_to_sign_in(self, scope: Scope, prefix: str, code: str, page: ConnectPage) -> ConnectAnswer:
        """Return the page that leads to the issuer of the user who asked."""
        assert self._sign_ins is not None, "looked at before"
        assert page.asked_by.token is not None, "only with a token does a person sign in"
        origin = origin_of(scope, self._own)
        secure = origin.startswith("https:")
        browser = browser_of(scope, secure) or new_browser()
        attempt = await self._sign_ins.begin(page.asked_by.token.issuer, f"{origin}{prefix}{SIGNED_IN}")
        await self._grants.begin_sign_in(code, attempt, browser)
        given = {"title": "Sign in", "to": attempt.url, "issuer": attempt.issuer}
        return self._renderer.page("leave.html", prefix, given, 200, browser_cookie(browser, secure))

    async def _signed_in(self, scope: Scope, prefix: str) -> ConnectAnswer:
        """Return the redirect to the server's issuer, after the user who asked has signed in."""
        params = _params(scope)
        if params is None or self._sign_ins is None:
            return self._failed(prefix, 400, _TOO_LONG if params is None else _NO_SIGN_IN)
        secure = origin_of(scope, self._own).startswith("https:")
        code, attempt = await self._grants.sign_in_answered(params, browser_of(scope, secure))
        person, tokens = await self._sign_ins.finish(attempt, params)
        page = await self._grants.opened(code)
        wanted = page.asked_by.token if page is not None else None
        if page is None or wanted is None:
            return self._failed(prefix, 404, _ENDED, _AGAIN)
        if (person.issuer, person.subject) != (wanted.issuer, wanted.subject):
            log.warning("a link for %s was opened by another person of %s", page.owner, person.issuer)
            return self._failed(prefix, 403, _OTHER_PERSON)
        await self._grants.signed_in(code, person, tokens)
        if page.signs_in:
            said = f"You are signed in: {page.server} can be used with your account."
            outcome = ConnectOutcome(True, said, page.server, page.owner)
            if self._seen is not None:
                self._seen(outcome)
            return self._outcome(prefix, outcome)
        return await self._leave(scope, prefix, code, page)

    async def _answered(self, scope: Scope, prefix: str) -> ConnectAnswer:
        """Return the outcome, from the parameters that the browser brought from the issuer."""
        secure = origin_of(scope, self._own).startswith("https:")
        params = _params(scope)
        if params is None:
            return self._failed(prefix, 400, _TOO_LONG)
        outcome = await self._grants.answered(params, browser_of(scope, secure))
        if self._seen is not None:
            self._seen(outcome)
        return self._outcome(prefix, outcome)

    def _outcome(self, prefix: str, outcome: ConnectOutcome) -> ConnectAnswer:
        given = {
            "title": "Connected" if outcome.connected else "Not connected",
            "connected": outcome.connected,
            "said": outcome.said,
            "then": _CLOSE if outcome.connected else _AGAIN,
        }
        return self._renderer.page("outcome.html", prefix, given, 200 if outcome.connected else 400)

    def _failed(self, prefix: str, status: int, said: str, then: str = "") -> ConnectAnswer:
        given = {"title": "Not possible", "connected": False, "said": said, "then": then}
        return self._renderer.page("outcome.html", prefix, given, status)

    async def _form(self, scope: Scope, receive: Receive) -> dict[str, str]:
        body = await read_body(scope, receive, _LARGEST_FORM)
        pairs: list[tuple[str, Any]] = parse_qsl(body.decode("utf-8", "replace"), max_num_fields=None)
        return dict(pairs[:_MOST_FIELDS])


def _params(scope: Scope) -> list[tuple[str, str]] | None:
    """Return the fields of an address; None if there are too many, or too long ones."""
    query = scope.get("query_string", b"").decode("latin-1")
    if len(query) > _LONGEST_QUERY or query.count("&") >= _MOST_FIELDS:
        return None
    return parse_qsl(query, keep_blank_values=True)


def is_own_form(scope: Scope, origin: str) -> bool:
    """Return whether a POST comes from a page of ours: by `Sec-Fetch-Site`, and by `Origin` with its port."""
    site, sent = header(scope, b"sec-fetch-site"), header(scope, b"origin")
    if site is not None and site != "same-origin":
        return False
    return site == "same-origin" if sent is None else sent.lower() == origin


def owner_text(owner: GrantOwner) -> str:
    """Return the owner of an account for display."""
    return {"shared": "All agents", "gateway": "The aggregator itself"}.get(owner.kind, str(owner).capitalize())


def _hint(proof: Proof, agent: str) -> str:
    if proof == "here":
        return f"Go on only if you asked for this yourself. It was asked for on this machine, by the agent {agent}."
    return f"Go on only if you asked for this yourself. It was asked for by the agent {agent}."
