"""Discovery: from the address of a server to the authorization server that gives tokens for it."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from aggregator.accounts.oauth.challenges import Challenge
from aggregator.accounts.oauth.fetch import FetchFailed, GuardedFetch
from aggregator.accounts.oauth.metadata import (
    IssuerMetadata,
    ResourceMetadata,
    first_document,
    parse_issuer,
    parse_resource,
    read_issuer,
    resource_metadata_urls,
)
from aggregator.accounts.oauth.targets import BadTarget, FetchTarget, absolute, read_target, without_query

# The first revision whose servers name their authorization server; before, it was at the server's own root.
_NAMES_ITS_ISSUER: Final = "2025-06-18"
_OLD_DOCUMENT: Final = "/.well-known/oauth-authorization-server"
_REVISION_FIELD: Final = "MCP-Protocol-Version"
_OLD_REVISION: Final = "2025-03-26"


class DiscoveryFailed(Exception):
    """The authorization server of a server was not found, or is not to be trusted. reason: one sentence for users.

    transient: trying later may help.
    """

    def __init__(self, reason: str, *, transient: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.transient = transient


@dataclass(frozen=True, slots=True)
class ProtectedServer:
    """A server and its authorization server.

    resource: its identifier, for the parameter `resource` of requests (RFC 8707). scopes: those that the challenge
    asks for, else those that the server's metadata names; None if neither says anything.
    """

    resource: str
    issuer: IssuerMetadata
    scopes: tuple[str, ...] | None = None


async def discover(
    fetch: GuardedFetch,
    server_url: str,
    challenge: Challenge | None = None,
    issuer: str | None = None,
    revision: str | None = None,
) -> ProtectedServer:
    """Return the authorization of a server.

    fetch: fetches of any server; the ones for this server are derived from it. challenge: the server's challenge when
    it refused a request. issuer: the configured one. revision: the server's, if known.

    Raises:
        DiscoveryFailed: the authorization server was not found, or is not to be trusted.
    """
    nearby = fetch.within(server_url)
    asked = challenge.scopes if challenge is not None else None
    try:
        resource = await _read_resource(nearby, server_url, challenge)
        scopes = asked or (resource.scopes_supported if resource is not None else None) or None
        identifier = resource.resource if resource is not None else canonical_resource(server_url)
        if issuer is not None:
            found = await read_issuer(nearby.within(issuer), issuer)
        elif resource is not None:
            found = await _first_issuer(nearby, resource)
        else:
            found = await _own_issuer(nearby, server_url, revision)
    except FetchFailed as error:
        raise DiscoveryFailed(error.reason, transient=error.transient) from None
    return ProtectedServer(identifier, found, scopes)


def canonical_resource(server_url: str) -> str:
    """Return the identifier of a server as a protected resource: its address, without fragment and final slash."""
    parts = urlsplit(server_url)
    host = parts.netloc.rpartition("@")[2].lower()
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme.lower()}://{host}{parts.path.rstrip('/')}{query}"


async def _read_resource(fetch: GuardedFetch, server_url: str, challenge: Challenge | None) -> ResourceMetadata | None:
    """Return the metadata of the server as a protected resource, or None."""
    named = challenge.params.get("resource_metadata") if challenge is not None else None
    urls = ((absolute(named, server_url),) if named else ()) + resource_metadata_urls(server_url)
    document = await first_document(fetch, tuple(dict.fromkeys(urls)))
    if document is None:
        return None
    resource = parse_resource(document, server_url)
    if not covers(resource.resource, server_url):
        raise DiscoveryFailed(
            f"the metadata are those of another resource, {without_query(resource.resource)}, and not of "
            f"{without_query(server_url)}: a token for it would be none for this server"
        )
    return resource


def covers(resource: str, server_url: str) -> bool:
    """Return True if a resource is the server, or a part of its host that the server is in."""
    try:
        named, server = read_target(resource), read_target(server_url)
    except BadTarget:
        return False
    if named.origin != server.origin:
        return False
    above, below = _segments(named), _segments(server)
    return above == below[: len(above)]


def _segments(target: FetchTarget) -> list[str]:
    path = urlsplit(target.url).path.rstrip("/")
    return path.split("/")


async def _first_issuer(fetch: GuardedFetch, resource: ResourceMetadata) -> IssuerMetadata:
    if not resource.authorization_servers:
        raise DiscoveryFailed(
            "the server's metadata name no authorization server; name it as `auth.issuer` of the server"
        )
    return await read_issuer(fetch, resource.authorization_servers[0])


async def _own_issuer(fetch: GuardedFetch, server_url: str, revision: str | None) -> IssuerMetadata:
    """Return the authorization server at the server's own root, as MCP 2025-03-26 had it."""
    if revision is not None and revision >= _NAMES_ITS_ISSUER:
        raise DiscoveryFailed(
            f"{without_query(server_url)} has no metadata that name its authorization server (RFC 9728); name it as "
            "`auth.issuer` of the server"
        )
    parts = urlsplit(server_url)
    root = f"{parts.scheme}://{parts.netloc}"
    document = await first_document(fetch, (f"{root}{_OLD_DOCUMENT}",), {_REVISION_FIELD: _OLD_REVISION})
    if document is not None:
        return parse_issuer(document, root, fetch)
    return IssuerMetadata(
        root,
        authorization_endpoint=f"{root}/authorize",
        token_endpoint=f"{root}/token",
        registration_endpoint=f"{root}/register",
        assumed=True,
    )
