"""Before any door: is this request meant for us at all? Host and Origin against DNS rebinding, and the body limit."""

import ipaddress
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any, Final

from aggregator.domain.errors import OperatorError
from aggregator.wire.codec import encode

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_PREFLIGHT: Final = {
    b"access-control-allow-methods": b"GET, POST, DELETE",
    b"access-control-allow-headers": b"*, authorization",
    b"access-control-max-age": b"600",
}
_LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")


class BodyTooLarge(Exception):
    """The request is larger than a request may be."""


class BodyCut(Exception):
    """The host was gone before the whole request had come."""


class Guard:
    """ASGI: lets through what was sent to a name of ours from a page we know, or from no page."""

    def __init__(self, app: App, host: str, allowed_hosts: Iterable[str], allowed_origins: Iterable[str]) -> None:
        self._app = app
        names = set(_LOOPBACK_NAMES) if is_loopback(host) else set()
        self._hosts = {name.lower() for name in (*names, _bracketed(host), *allowed_hosts)}
        self._origins = {origin.lower().rstrip("/") for origin in allowed_origins}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            host, origin = header(scope, b"host"), header(scope, b"origin")
            if not self._knows(host):
                await respond(send, 421, {"error": f"Host {host!r:.100} is not served here; see http.allowed_hosts."})
                return
            if origin is not None:
                if not self._trusts(origin):
                    refusal = f"Origin {origin!r:.100} is not allowed here; see http.allowed_origins."
                    await respond(send, 403, {"error": refusal})
                    return
                send = _sharing(send, origin)
                if scope["method"] == "OPTIONS":
                    await respond(send, 204, headers=_PREFLIGHT)
                    return
        await self._app(scope, receive, send)

    def _knows(self, host: str | None) -> bool:
        if host is None:
            return False
        host = host.lower()
        return host in self._hosts or _without_port(host) in self._hosts

    def _trusts(self, origin: str) -> bool:
        origin = origin.lower().rstrip("/")
        scheme, separator, rest = origin.partition("://")
        own = bool(separator) and scheme in ("http", "https") and _without_port(rest) in self._hosts
        return origin in self._origins or own


def _sharing(send: Send, origin: str) -> Send:
    """Lets the page at `origin` read the answers (Fetch standard, CORS)."""
    shared = [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", b"mcp-session-id, mcp-protocol-version"),
        (b"vary", b"origin"),
    ]

    async def sharing(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *shared]
        await send(message)

    return sharing


def is_loopback(host: str) -> bool:
    """Whether an address to listen on can only be reached from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def refuse_public(host: str) -> None:
    """While nobody has to say who they are, only this machine may get in.

    Raises:
        OperatorError: the address can be reached from elsewhere.
    """
    if not is_loopback(host):
        raise OperatorError(
            f"Refusing to listen on {host}: nobody who connects would have to say who they are. "
            "Make a key first (`aggregator keys new AGENT`), or listen on 127.0.0.1, the default."
        )


def header(scope: Scope, name: bytes) -> str | None:
    """The first value of a header, or None."""
    for key, value in scope["headers"]:
        if key == name:
            return str(value.decode("latin-1"))
    return None


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """The whole request body.

    Raises:
        BodyTooLarge: it is larger than `limit` bytes, by its own word or in fact.
        BodyCut: there is no more of it.
    """
    declared = header(scope, b"content-length")
    if declared is not None and declared.isdigit() and int(declared) > limit:
        raise BodyTooLarge
    message = await receive()
    body = message.get("body", b"")
    if not message.get("more_body", False) and len(body) <= limit and message["type"] == "http.request":
        return bytes(body)
    parts, size = [body], len(body)
    while message.get("more_body", False):
        if size > limit:
            raise BodyTooLarge
        message = await receive()
        parts.append(message.get("body", b""))
        size += len(parts[-1])
    if size > limit:
        raise BodyTooLarge
    if message["type"] != "http.request":
        raise BodyCut
    return b"".join(parts)


async def respond(send: Send, status: int, value: Any = None, headers: Mapping[bytes, bytes] | None = None) -> None:
    """One whole JSON response; no `value`, no body."""
    body = b"" if value is None else encode(value)
    await respond_bytes(send, status, body, headers)


async def respond_bytes(send: Send, status: int, body: bytes, headers: Mapping[bytes, bytes] | None = None) -> None:
    """One whole response whose body already is JSON."""
    lines = [(b"content-length", b"%d" % len(body)), *(headers or {}).items()]
    if body:
        lines.append((b"content-type", b"application/json"))
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": body})


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() and not name.endswith(":") else host
