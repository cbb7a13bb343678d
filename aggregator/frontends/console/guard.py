"""The guard of the console: cookies, API keys, and cross-site requests.

A session is a cookie of 256 bits (HttpOnly, SameSite=Strict), whose digest is in the database. Every POST with a cookie
carries a token that only a page of this session can know, and comes from a page of this very address, port included
(OWASP Cross-Site Request Forgery Prevention).
"""

import hmac
import secrets
import time
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from aggregator.frontends.console.parts import ConsoleParts
from aggregator.frontends.console.view import SignedIn
from aggregator.frontends.web.credentials import request_facts
from aggregator.frontends.web.host_guard import Scope, header, source_in, values
from aggregator.frontends.web.request_origin import only_cookie
from aggregator.identity.identify import Refused, RequestFacts
from aggregator.storage.records import ConsoleRole

COOKIE: Final = "aggregator_console"
_NONCE: Final = 16


@dataclass(frozen=True, slots=True)
class IdentifiedRequest:
    """A request with the fields that the guard checks. `secret` is the cookie's, empty for an API key."""

    person: SignedIn
    secret: str = ""


class ConsoleGuard:
    """The check of every request to the console."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts

    async def identified(self, scope: Scope) -> IdentifiedRequest | Refused | None:
        """Return who makes a request; None if no one is signed in, and why an API key is refused.

        Raises:
            StorageError: the database cannot say who is signed in.
        """
        if values(scope, b"authorization") or values(scope, b"x-api-key"):
            found = await self.by_key(request_facts(scope, "console"))
            return found if isinstance(found, Refused) else IdentifiedRequest(found)
        secret = cookie_of(scope)
        if secret is None:
            return None
        database, now = await self._parts.opened(), time.time()
        session = await database.console.find(secret, now=now)
        if session is None:
            return None
        role = session.role if session.key_id is None else self._role_of(session.key_id, now)
        if role is None:
            return None
        return IdentifiedRequest(SignedIn(session.person, role, session.key_id, session.id), secret)

    async def by_key(self, facts: RequestFacts) -> SignedIn | Refused:
        """Return the holder of an API key, who goes by its label, else by its agent."""
        principal = await self._parts.access.admit(facts)
        if isinstance(principal, Refused):
            return principal
        if principal.token is not None:
            return Refused(403, "An access token opens no console: use a key with a role, or `aggregator console`.")
        record = self._parts.access.keyring.record(principal.key_id) if principal.key_id is not None else None
        if record is None or record.console_role is None:
            return Refused(403, "This key opens no console: make one with `aggregator keys new AGENT --console ROLE`.")
        return SignedIn(record.label or record.agent_id, record.console_role, record.key_id)

    async def still(self, person: SignedIn) -> bool:
        """Tell whether a user may still view an open stream."""
        now = time.time()
        if person.key_id is not None and self._role_of(person.key_id, now) != person.role:
            return False
        if person.session is None:
            return True
        return await (await self._parts.opened()).console.holds(person.session, now=now)

    def _role_of(self, key_id: str, now: float) -> ConsoleRole | None:
        """Return the role of a key, None once it is revoked, expired or has none any more."""
        record = self._parts.access.keyring.record(key_id)
        if record is None or not self._parts.access.keyring.holds(key_id, record.agent_id, now):
            return None
        return record.console_role


def cookie_of(scope: Scope) -> str | None:
    """Return the secret of the cookie; None if there is none, or more than one."""
    found = only_cookie(scope, COOKIE)
    return found if found is not None and 0 < len(found) <= 128 else None


def csrf_token(secret: str) -> str:
    """Return a token for the forms of one page. It differs each time, so that compression reveals nothing of it."""
    nonce = secrets.token_hex(_NONCE)
    return nonce + _signed(secret, nonce)


def is_csrf_token(token: str, secret: str) -> bool:
    """Tell whether a token belongs to the pages of this session."""
    nonce = token[: 2 * _NONCE]
    return len(nonce) == 2 * _NONCE and hmac.compare_digest(
        token[2 * _NONCE :].encode(), _signed(secret, nonce).encode()
    )


def origins_of(scope: Scope, public_url: str | None) -> tuple[str, ...]:
    """Return the origins that pages of this console may have, the one the browser most likely uses first."""
    host = (header(scope, b"host") or "").lower()
    found = []
    if public_url is not None:
        scheme, _, rest = public_url.lower().partition("://")
        authority = rest.partition("/")[0].removesuffix({"http": ":80", "https": ":443"}.get(scheme, " "))
        if authority == host or source_in(scope).forwarded:
            found.append(f"{scheme}://{authority}")
    if not source_in(scope).forwarded:
        found.append(f"{scope.get('scheme', 'http')}://{host}")
    elif public_url is None:
        # A proxy in front that the configuration does not name: it may speak TLS.
        found += [f"https://{host}", f"http://{host}"]
    return tuple(found)


def _signed(secret: str, nonce: str) -> str:
    return hmac.new(secret.encode(), f"console form {nonce}".encode(), sha256).hexdigest()
