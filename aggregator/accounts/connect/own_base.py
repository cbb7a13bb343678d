"""The address of these pages as a browser knows it, and whether an account may be connected there."""

from typing import Final

from aggregator.frontends.web.host_guard import Scope, header, source_in, values
from aggregator.frontends.web.own_address import OwnAddress
from aggregator.identity.source import names_this_machine

_SCHEMES: Final = ("http", "https")


def origin_of(scope: Scope, own: OwnAddress) -> str:
    """Return scheme and authority of a request, whose `Host` was checked before."""
    source, host = source_in(scope), (header(scope, b"host") or "").lower()
    public = own.public_origin
    if public is not None and (source.forwarded or public.partition("://")[2] == host):
        return public
    scheme = str(scope.get("scheme", "http"))
    if source.forwarded:
        sent = values(scope, b"x-forwarded-proto") if source.by_trusted else []
        scheme = sent[0].lower() if len(sent) == 1 and sent[0].lower() in _SCHEMES else "https"
    return f"{scheme}://{host}"


def is_safe(origin: str) -> bool:
    """Return whether an issuer's answer to an origin cannot be read on the way (OAuth 2.1, 1.5; RFC 8252, 8.3)."""
    scheme, _, host = origin.partition("://")
    return scheme == "https" or names_this_machine(host)
