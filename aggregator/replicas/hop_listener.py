"""The peer listener: the socket at which this replica answers hops of the others.

Rule: a body is read only once its head is signed by a replica of the group.
"""

import logging
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from aggregator.domain.uris.addresses import is_loopback
from aggregator.frontends.http_server import Listener
from aggregator.frontends.web.connection_limits import BoundedConnection
from aggregator.frontends.web.host_guard import Receive, Scope, Send, header, respond
from aggregator.replicas.config import split_listen
from aggregator.replicas.group.hops import HEADER, Hop, HopRefused, HopSigner

log = logging.getLogger(__name__)

_ANY_ADDRESS: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104
# Beyond the largest body of a host: what a hop adds to it.
_MORE: Final = 64 * 1024
_LAST_BYTES: Final = 2
# Seconds between two lines of the log about requests that were refused.
_LOG_EVERY: Final = 10.0
# Seconds that a request may take to arrive: nothing that was not signed holds a connection for longer.
_ARRIVING: Final = 30.0

# Answers a hop: gets who asks and the whole body. `receive` then only tells of the end.
ServeHop = Callable[[Hop, Scope, bytes, Receive, Send], Awaitable[None]]


class HopListener:
    """An ASGI application that checks each hop and gives it to the part whose path it has."""

    def __init__(self, signer: HopSigner, max_body_bytes: int, arriving: float = _ARRIVING) -> None:
        self._signer = signer
        self._most = max_body_bytes + _MORE
        self._arriving = arriving
        self._routes: dict[str, ServeHop] = {}
        # When a refused request was last logged, and those that were refused since.
        self._logged = float("-inf")
        self._refused = 0

    def __repr__(self) -> str:
        return f"<HopListener for {', '.join(self._routes)}>"

    def add(self, name: str, serve: ServeHop) -> None:
        """Have `/NAME` and all below it answered by `serve`."""
        self._routes[name] = serve

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        path = scope["path"]
        query = scope["query_string"].decode("latin-1")
        try:
            signed = header(scope, HEADER.encode())
            hop = self._signer.check(signed, scope["method"], f"{path}?{query}" if query else path)
            body = await self._body(receive)
            if not hop.fits(body):
                raise HopRefused("its body is not the one that was signed")
        except HopRefused as refused:
            self._note_refused(refused)
            await respond(send, 403, {"error": f"This is no request of a replica of this group: {refused}."})
            return
        serve = self._routes.get(path.removeprefix("/").partition("/")[0])
        if serve is None:
            await respond(send, 404, {"error": "This replica does not know that path: is it of another version?"})
            return
        await serve(hop, scope, body, receive, send)

    def _note_refused(self, refused: HopRefused) -> None:
        """Log a refused request, at most one each `_LOG_EVERY` seconds: anyone who reaches the port can send them."""
        now = time.monotonic()
        self._refused += 1
        if now - self._logged >= _LOG_EVERY:
            more = f" (and {self._refused - 1} before it)" if self._refused > 1 else ""
            log.warning("a request at the listener for replicas was refused%s: %s", more, refused)
            self._logged, self._refused = now, 0

    async def _body(self, receive: Receive) -> bytes:
        parts, size = [], 0
        while True:
            event = await receive()
            if event["type"] != "http.request":
                raise HopRefused("it ended before its body did")
            parts.append(event.get("body", b""))
            size += len(parts[-1])
            if size > self._most:
                raise HopRefused(f"its body is larger than {self._most} bytes")
            if not event.get("more_body"):
                return b"".join(parts)

    @asynccontextmanager
    async def serving(self, bound: socket.socket) -> AsyncIterator[None]:
        """Answer hops inside."""
        connection = partial(BoundedConnection, self._arriving, Counter(), None)
        async with Listener(self, connection, _LAST_BYTES).serving(bound, "the listener for replicas"):
            yield


def listen_at(listen: str | None, http_host: str, slot: int = 0) -> tuple[str, int]:
    """Return host and port to listen at; of several workers on one machine, each takes the port after the last."""
    found = split_listen(listen) if listen is not None else None
    if found is None:
        return http_host.strip("[]"), 0
    host, port = found
    return host, port + slot if port else 0


def address_of(bound: socket.socket, given: str | None, slot: int = 0) -> str:
    """Return the address by which the others reach a socket; `given` is the one that the configuration names."""
    host, port = bound.getsockname()[:2]
    if given is not None:
        parts = urlsplit(given)
        named = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        return f"{parts.scheme}://{named}:{(parts.port or port) + slot}"
    if host in _ANY_ADDRESS:
        host = socket.gethostbyname(socket.gethostname())
        if is_loopback(host):
            log.warning("other machines cannot reach this replica at %s: set replicas.address", host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
