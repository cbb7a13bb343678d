"""The cookie of a browser in which an account is connected: the answer of an issuer counts in that browser only.

With `https` its name begins with `__Host-`, so that no other address can set it. It is sent with the answer of the
issuer, which is another site: `SameSite=Lax` allows that for pages that are opened, and nothing else.
"""

import re
import secrets
from typing import Final

from aggregator.frontends.web.host_guard import Scope, values

_NAME: Final = "aggregator_connect"
_HOST_NAME: Final = f"__Host-{_NAME}"
_SECRET: Final = re.compile(r"[A-Za-z0-9_-]{43}")
# Seconds: a little more than a link is good for.
_LASTS: Final = 900


def new_browser() -> str:
    """Return 256 random bits, as they stand in the cookie."""
    return secrets.token_urlsafe(32)


def browser_of(scope: Scope, secure: bool) -> str | None:
    """Return the secret of the cookie; None if there is none, or more than one."""
    wanted = _HOST_NAME if secure else _NAME
    pairs = (pair.partition("=") for sent in values(scope, b"cookie") for pair in sent.split(";"))
    found = [value.strip(" \t") for name, _, value in pairs if name.strip(" \t") == wanted]
    return found[0] if len(found) == 1 and _SECRET.fullmatch(found[0]) else None


def browser_cookie(browser: str, secure: bool) -> tuple[bytes, bytes]:
    """Return the header that gives a browser its secret."""
    name, rules = (_HOST_NAME, "; Path=/; Secure") if secure else (_NAME, "; Path=/")
    return b"set-cookie", f"{name}={browser}{rules}; Max-Age={_LASTS}; HttpOnly; SameSite=Lax".encode()
