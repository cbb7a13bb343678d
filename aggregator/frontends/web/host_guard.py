"""The guard before all web frontends: Host and Origin against DNS rebinding, and the source of each request.

The reading of bodies and the writing of JSON responses are here too.
"""

from collections.abc import Awaitable, Callable, Container, Mapping, MutableMapping, Sequence
from typing import Any, Final

from aggregator.domain.errors import OperatorError
from aggregator.domain.uris.addresses import is_loopback
from aggregator.frontends.web.own_address import OwnAddress
from aggregator.frontends.web.repeated_fields import MEMORY, FieldMemory
from aggregator.identity.source import ClientSource, source_of
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
# What is there for every page of a browser: which issuers' tokens are accepted (RFC 9728).
RESOURCE_METADATA: Final = "/.well-known/oauth-protected-resource"
SOURCE: Final = "aggregator.source"
# The header fields by name, in a scope in which no field is repeated.
FIELDS: Final = "aggregator.fields"
# The `WriteWhole` of the connection, where answers need no headers but their own.
WRITE_WHOLE: Final = "aggregator.write_whole"
# In the scope of a request whose connection showed no client certificate, though one is asked for.
UNCERTIFIED: Final = "aggregator.uncertified"
_HOW_TO_ALLOW: Final = "add it to http.allowed_hosts, or set http.public_url, in the configuration"


class BodyTooLarge(Exception):
    """The body is larger than allowed."""


class BodyCut(Exception):
    """The host was gone before the whole body had come."""


class HostGuard:
    """An ASGI application that lets through requests to one of our names, from an accepted page or from no page.

    It puts the `ClientSource` of each request into the scope (`source_in`), the only authority on where it comes from.
    """

    def __init__(
        self, app: App, own: OwnAddress, open_paths: Container[str] = (), unshared: Sequence[str] = ()
    ) -> None:
        """Wrap `app`. The `open_paths` are served under any name, since they reveal nothing. No other page may
        read what is at the `unshared` paths and below, not even one of an accepted `Origin`.
        """
        self._app = app
        self._own = own
        self._open_paths = open_paths
        self._unshared = unshared

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if self._own.passed_on is not None and f"{scope['path']}/".startswith(f"{self._own.passed_on}/"):
            scope["root_path"], scope["path"] = self._own.passed_on, scope["path"].removeprefix(self._own.passed_on)
        memory: FieldMemory | None = scope.get(MEMORY)
        if memory is not None and memory.is_repeated(scope):
            scope[FIELDS], scope[SOURCE] = memory.fields, memory.source
            await self._app(scope, receive, send)
            return
        fields = dict(scope["headers"])
        if len(fields) == len(scope["headers"]):
            scope[FIELDS] = fields
        for name in (b"host", b"origin"):
            if FIELDS not in scope and len(values(scope, name)) > 1:
                twice = name.decode().capitalize()
                await respond(send, 400, {"error": f"`{twice}` is there more than once."}, {b"connection": b"close"})
                return
        host, origin = fields.get(b"host", b"").decode("latin-1"), fields.get(b"origin")
        server, client = scope.get("server"), scope.get("client")
        anywhere = scope["path"] in self._open_paths
        if not anywhere and not self._own.accepts_host(host, server[0] if server else None):
            await respond(send, 421, {"error": f"Host {host!r:.100} is not served here; {_HOW_TO_ALLOW}."})
            return
        if not anywhere and UNCERTIFIED in scope:
            refusal = "A client certificate is needed here (http.tls.client_ca)."
            await respond(send, 403, {"error": refusal}, {b"connection": b"close"})
            return
        scope[SOURCE] = source_of(
            client[0] if client else None, host, scope.get("http_version", ""), scope["headers"], self._own.trusted
        )
        if origin is not None:
            page = origin.decode("latin-1")
            if f"{scope['path']}/".startswith(f"{RESOURCE_METADATA}/"):
                await self._app_for_all(scope, receive, send)
                return
            if not self._own.accepts_origin(page, host):
                refusal = f"Origin {page!r:.100} is not allowed here; see http.allowed_origins."
                await respond(send, 403, {"error": refusal})
                return
            scope.pop(WRITE_WHOLE, None)
            if any(f"{scope['path']}/".startswith(f"{one}/") for one in self._unshared):
                await self._app(scope, receive, send)
                return
            send = _sharing(send, page)
            if scope["method"] == "OPTIONS":
                await respond(send, 204, headers=_PREFLIGHT)
                return
        elif memory is not None and FIELDS in scope and not anywhere:
            memory.keep(scope, fields, scope[SOURCE])
        await self._app(scope, receive, send)

    async def _app_for_all(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the page of any origin: the answer is the same for all, and names no caller."""
        scope.pop(WRITE_WHOLE, None)
        send = _sharing(send, "*")
        if scope["method"] == "OPTIONS":
            await respond(send, 204, headers={**_PREFLIGHT, b"access-control-allow-methods": b"GET"})
        else:
            await self._app(scope, receive, send)


def source_in(scope: Scope) -> ClientSource:
    """Return the source of a request, as the guard found it."""
    source: ClientSource = scope[SOURCE]
    return source


def _sharing(send: Send, origin: str) -> Send:
    """Return a `send` that lets the page at `origin` read the answers (Fetch standard, CORS)."""
    shared = [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (
            b"access-control-expose-headers",
            b"mcp-session-id, mcp-protocol-version, www-authenticate, x-corrected-arguments",
        ),
        (b"vary", b"origin"),
    ]

    async def sharing(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *shared]
        await send(message)

    return sharing


def refuse_public(host: str) -> None:
    """Refuse to listen on a public address while requests need no key.

    Raises:
        OperatorError: the address can be reached from other machines.
    """
    if not is_loopback(host):
        raise OperatorError(
            f"Refusing to listen on {host}: no host would have to authenticate. "
            "Make a key first (`aggregator keys new AGENT`), or listen on 127.0.0.1, the default."
        )


def header(scope: Scope, name: bytes) -> str | None:
    """Return the first value of a header, or None."""
    if FIELDS in scope:
        value = scope[FIELDS].get(name)
        return str(value.decode("latin-1")) if value is not None else None
    for key, value in scope["headers"]:
        if key == name:
            return str(value.decode("latin-1"))
    return None


def values(scope: Scope, name: bytes) -> list[str]:
    """Return every value of a header, in order."""
    if FIELDS in scope:
        value = scope[FIELDS].get(name)
        return [value.decode("latin-1")] if value is not None else []
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """Return the whole request body.

    Raises:
        BodyTooLarge: it is larger than `limit` bytes, as declared or as received.
        BodyCut: it ended early.
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
    """Send a whole JSON response; without `value`, without a body."""
    body = b"" if value is None else encode(value)
    await respond_bytes(send, status, body, headers)


async def respond_bytes(send: Send, status: int, body: bytes, headers: Mapping[bytes, bytes] | None = None) -> None:
    """Send a whole response whose body is JSON already."""
    lines = [(b"content-length", b"%d" % len(body)), *(headers or {}).items()]
    if body:
        lines.append((b"content-type", b"application/json"))
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": body})
