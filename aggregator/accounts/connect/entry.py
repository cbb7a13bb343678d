"""The way into the pages for connecting: the rest is loaded at the first request, since templates import slowly."""

import asyncio
from typing import TYPE_CHECKING, Final

from aggregator.accounts.connect.parts import CALLBACK, ConnectingGrants, KeyCheck, PersonSignIns
from aggregator.accounts.connect.parts import CONNECT_PATH as CONNECT_PATH
from aggregator.accounts.oauth.client_document import client_document
from aggregator.frontends.web.host_guard import Receive, Scope, Send, respond
from aggregator.frontends.web.own_address import OwnAddress

if TYPE_CHECKING:
    from aggregator.accounts.connect.pages import ConnectPages

CLIENT_PATH: Final = "/oauth/client.json"
# Where the listeners of commands are called back (RFC 8252, 7.3: at any port).
_LISTENERS: Final = (f"http://127.0.0.1{CALLBACK}", f"http://localhost{CALLBACK}")


class Connect:
    """An ASGI application for `/connect` and the paths below, and for the client id metadata document.

    client_id_url: the address of the document; it is served here if it is at `public_url`. This is also the
    `ConnectBase` of a process that serves; `listens` is set to the address it listens at.
    """

    def __init__(
        self,
        grants: ConnectingGrants,
        own: OwnAddress,
        keys: KeyCheck,
        client_id_url: str | None,
        sign_ins: PersonSignIns | None = None,
    ) -> None:
        self._sign_ins = sign_ins
        self._grants = grants
        self._own = own
        self._keys = keys
        self._document = client_id_url if client_id_url == own_client_id(own) else None
        self._pages: ConnectPages | None = None
        self._loading = asyncio.Lock()
        self.listens: str | None = None

    async def address(self) -> str | None:
        """See `grants.ports.ConnectBase`."""
        return self._own.public_url or self.listens

    def serves(self, path: str) -> bool:
        """Tell whether a path is one of these pages."""
        return f"{path}/".startswith(f"{CONNECT_PATH}/") or (path == CLIENT_PATH and self._document is not None)

    async def serve(self, scope: Scope, receive: Receive, send: Send, prefix: str) -> None:
        """Serve one request. prefix: precedes our paths in the browser."""
        if scope["path"] == CLIENT_PATH and self._document is not None:
            await self._described(scope, send, self._document)
            return
        async with self._loading:
            if self._pages is None:
                made = await asyncio.to_thread(_loaded_class)
                self._pages = made(self._grants, self._own, self._keys, sign_ins=self._sign_ins)
        await self._pages.serve(scope, receive, send, prefix)

    async def _described(self, scope: Scope, send: Send, client_id: str) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            await respond(send, 405, {"error": "This document is read with GET."}, {b"allow": b"GET, HEAD"})
            return
        redirects = (f"{self._own.public_url}{CALLBACK}", *_LISTENERS)
        await respond(send, 200, client_document(client_id, redirects), {b"cache-control": b"public, max-age=3600"})


def own_client_id(own: OwnAddress) -> str | None:
    """Return the address of the document if it is served here: under an https:// `public_url`."""
    if own.public_url is None or not own.public_url.startswith("https:"):
        return None
    return f"{own.public_url}{CLIENT_PATH}"


def _loaded_class() -> "type[ConnectPages]":
    """Import the pages; a thread runs this."""
    from aggregator.accounts.connect.pages import ConnectPages

    return ConnectPages
