"""Where a request of a browser comes from, and the address of ours that it uses; and its cookies."""

from typing import Final

from aggregator.frontends.web.host_guard import Scope, header, source_in, values
from aggregator.frontends.web.own_address import OwnAddress

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


def is_own_page(scope: Scope, own_origins: tuple[str, ...]) -> bool:
    """Return whether a POST comes from a page of this address: by `Sec-Fetch-Site`, and by `Origin` with its port."""
    site = header(scope, b"sec-fetch-site")
    origin = header(scope, b"origin")
    if site is not None and site != "same-origin":
        return False
    if origin is None:
        return site == "same-origin"
    return origin.lower() in own_origins


def only_cookie(scope: Scope, wanted: str) -> str | None:
    """Return the value of a cookie; None if there is none, or more than one."""
    # Servers at other ports of this machine send cookies, too, and not all of them as RFC 6265 wants.
    pairs = (pair.partition("=") for sent in values(scope, b"cookie") for pair in sent.split(";"))
    found = [value.strip(" \t") for name, _, value in pairs if name.strip(" \t") == wanted]
    return found[0] if len(found) == 1 else None
