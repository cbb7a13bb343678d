"""The cookie of a browser in which an account is connected: the answer of an issuer counts in that browser only.

With `https` its name begins with `__Host-`, so that no other address can set it. It is sent with the answer of the
issuer, which is another site: `SameSite=Lax` allows that for pages that are opened, and nothing else.
"""

import re
import secrets
from typing import TYPE_CHECKING, Final

from aggregator.frontends.web.host_guard import Scope
from aggregator.frontends.web.request_origin import only_cookie

if TYPE_CHECKING:
    from starlette.responses import Response

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
    found = only_cookie(scope, _HOST_NAME if secure else _NAME)
    return found if found is not None and _SECRET.fullmatch(found) else None


def set_browser_cookie(response: "Response", browser: str, secure: bool) -> None:
    """Have a response give a browser its secret."""
    name = _HOST_NAME if secure else _NAME
    response.set_cookie(name, browser, _LASTS, path="/", secure=secure, httponly=True, samesite="lax")
