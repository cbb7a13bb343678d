"""The aggregator as an OAuth 2.1 protected resource: metadata documents (RFC 9728) and challenges (RFC 6750, 3).

Rule: each endpoint is a resource of its own, named by the address that the host uses. The documents say what every
challenge says too, so every page of a browser may read them.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from aggregator.accounts.oauth.challenges import bearer_challenge
from aggregator.frontends.web.address_wishes import plain_path
from aggregator.frontends.web.host_guard import (
    RESOURCE_METADATA,
    Receive,
    Scope,
    Send,
    respond,
)
from aggregator.frontends.web.own_address import OwnAddress
from aggregator.frontends.web.request_origin import origin_of
from aggregator.gateway.access import Access
from aggregator.identity.identify import Refused

REALM: Final = "aggregator"
_LACKS: Final = Refused(403, "A token with more scopes is needed for this.", error="insufficient_scope")
_METHODS: Final = ("GET", "HEAD")
_AGENT: Final = re.compile(r"/[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")

# The prefix of our paths as the sender of a request sees them.
PathsBefore = Callable[[Scope], str]


class ProtectedResources:
    """An ASGI application for `/.well-known/oauth-protected-resource` and below, and the challenges that name it."""

    def __init__(
        self, access: Access, own: OwnAddress, prefix: PathsBefore, mcp: str, others: Mapping[str, str]
    ) -> None:
        """Make it. mcp: the path of Streamable HTTP, below which each agent has an endpoint. others: the resource that
        each other path, and what is below it, belongs to.
        """
        self._access = access
        self._own = own
        self._prefix = prefix
        self._mcp = mcp
        self._others = others

    def serves(self, path: str) -> bool:
        """Return whether a path is that of a document; without issuers there is none."""
        return self._access.tokens is not None and f"{path}/".startswith(f"{RESOURCE_METADATA}/")

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for a document."""
        if scope["method"] not in _METHODS:
            await respond(send, 405, {"error": "The metadata are read with GET."}, {b"allow": b"GET, HEAD"})
            return
        prefix, asked = self._prefix(scope), scope["path"][len(RESOURCE_METADATA) :].rstrip("/")
        if prefix and f"{asked}/".startswith(f"{prefix}/"):
            # RFC 9728, 3.1: the well-known part stands before the whole path, prefixes too.
            asked = asked[len(prefix) :]
        # A client may derive the place of the document from the address that it uses.
        asked = plain_path(asked, self._mcp, *self._others)
        resource = self._resource(asked) if asked else ""
        if resource != asked:
            await respond(send, 404, {"error": "There is no such protected resource here."})
            return
        await respond(send, 200, self._document(self._base(scope) + resource), {b"cache-control": b"max-age=300"})

    def challenge(self, scope: Scope, refused: Refused, scopes: Sequence[str] | None = None) -> bytes | None:
        """Return the value of `WWW-Authenticate` for a refusal; None if no other credentials would help.

        scopes: those that a token needs for what was asked; without them, the first that a host should ask for.
        """
        if refused.status != 401 and scopes is None:
            return None
        if self._access.tokens is None:
            return f'Bearer realm="{REALM}"'.encode()
        # After the prefix, since that is all that a proxy in front is sure to pass on.
        place = f"{self._base(scope)}{RESOURCE_METADATA}{self._resource(scope['path'])}"
        wanted = scopes if scopes is not None else self._access.tokens.config.scopes
        described = refused.reason if refused.error is not None else None
        return bearer_challenge(REALM, place, wanted, refused.error, described).encode("latin-1", "replace")

    def ask_for(self, scope: Scope, scopes: Sequence[str]) -> bytes:
        """Return the value of `WWW-Authenticate` for a request whose token lacks some of these scopes."""
        return self.challenge(scope, _LACKS, scopes) or b""

    def _document(self, resource: str) -> Mapping[str, Any]:
        tokens = self._access.tokens
        assert tokens is not None, "documents are served only where issuers are accepted"
        document: dict[str, Any] = {
            "resource": resource,
            "authorization_servers": [issuer.issuer for issuer in tokens.config.issuers],
            "bearer_methods_supported": ["header"],
            "resource_name": "aggregator",
        }
        return {**document, **({"scopes_supported": list(tokens.config.scopes)} if tokens.config.scopes else {})}

    def _resource(self, path: str) -> str:
        """Return the path of the resource that a path belongs to; empty for the whole server."""
        path = path.rstrip("/")
        if path == self._mcp or (path.startswith(f"{self._mcp}/") and _AGENT.fullmatch(path[len(self._mcp) :])):
            return path
        return next((to for one, to in self._others.items() if f"{path}/".startswith(f"{one}/")), "")

    def _base(self, scope: Scope) -> str:
        """Return the address of this server, with its prefix, as the sender of a request uses it."""
        return f"{origin_of(scope, self._own)}{self._prefix(scope)}"
