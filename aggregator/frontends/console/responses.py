"""Whole responses of the console, with the headers that keep other pages and foreign text out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aggregator.frontends.web.host_guard import Send
from aggregator.wire.codec import encode

# Nothing is loaded from elsewhere, nothing inline runs, and no other page may show ours (CSP Level 3).
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_GUARDS: Final = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_NOT_KEPT: Final = (b"cache-control", b"no-store")
HTML: Final = "text/html; charset=utf-8"


@dataclass(frozen=True, slots=True)
class PageResponse:
    """A response: its status, body, the media type of that, and further headers."""

    status: int
    body: bytes
    kind: str
    headers: Sequence[tuple[bytes, bytes]] = ()
    kept: bool = False


async def respond_with(send: Send, response: PageResponse, *, head: bool = False, more: bool = False) -> None:
    """Send a response; with `more`, only how it begins. `head`: leave the body out."""
    lines = [*_GUARDS, *response.headers]
    if not response.kept:
        lines.append(_NOT_KEPT)
    if response.kind:
        lines.append((b"content-type", response.kind.encode()))
    if not more:
        lines.append((b"content-length", b"%d" % len(response.body)))
    await send({"type": "http.response.start", "status": response.status, "headers": lines})
    await send({"type": "http.response.body", "body": b"" if head else response.body, "more_body": more})


def as_json(data: Mapping[str, Any], status: int = 200) -> PageResponse:
    """Return data as a JSON response."""
    return PageResponse(status, encode(data), "application/json")


def problem(status: int, message: str, field: str = "") -> PageResponse:
    """Return a refusal as JSON, in the form that `/v1` has too."""
    codes = {400: "bad_request", 401: "unauthorized", 403: "forbidden", 404: "not_found", 405: "method_not_allowed"}
    codes |= {409: "conflict", 413: "bad_request", 429: "too_many_wrong_keys", 503: "unavailable"}
    error = {"code": codes.get(status, "internal_error"), "message": message}
    return as_json({"error": {**error, "field": field} if field else error}, status)


def redirect(to: str, *headers: tuple[bytes, bytes]) -> PageResponse:
    """Return a redirect to another page of ours, which the browser requests with GET."""
    return PageResponse(303, b"", "", ((b"location", to.encode("ascii", "replace")), *headers))
