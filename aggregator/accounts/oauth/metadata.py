"""Metadata of authorization servers (RFC 8414, OpenID Connect Discovery) and of protected resources (RFC 9728)."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final
from urllib.parse import urlsplit

from aggregator.accounts.oauth.fetch import FetchFailed, GuardedFetch
from aggregator.accounts.oauth.scopes import scopes_in
from aggregator.accounts.oauth.targets import absolute, without_query
from aggregator.domain.text.cut import quoted

_RESOURCE: Final = "/.well-known/oauth-protected-resource"
_OAUTH: Final = "/.well-known/oauth-authorization-server"
_OPENID: Final = "/.well-known/openid-configuration"
_FOUND: Final = 200
_SERVER_ERROR: Final = 500
_TOO_MANY: Final = 429
_LISTED_AT_MOST: Final = 16
_ENDPOINTS: Final = (
    "authorization_endpoint",
    "token_endpoint",
    "registration_endpoint",
    "jwks_uri",
    "introspection_endpoint",
    "revocation_endpoint",
    "device_authorization_endpoint",
)
_LISTS: Final = (
    "code_challenge_methods_supported",
    "scopes_supported",
    "grant_types_supported",
    "token_endpoint_auth_methods_supported",
    "token_endpoint_auth_signing_alg_values_supported",
    "id_token_signing_alg_values_supported",
)


@dataclass(frozen=True, slots=True)
class IssuerMetadata:
    """The metadata of an authorization server; None for missing members.

    assumed: there is no document; the endpoints are those of MCP 2025-03-26 at the server's own root.
    """

    issuer: str
    authorization_endpoint: str | None = None
    token_endpoint: str | None = None
    registration_endpoint: str | None = None
    jwks_uri: str | None = None
    introspection_endpoint: str | None = None
    revocation_endpoint: str | None = None
    device_authorization_endpoint: str | None = None
    code_challenge_methods_supported: tuple[str, ...] | None = None
    scopes_supported: tuple[str, ...] | None = None
    grant_types_supported: tuple[str, ...] | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] | None = None
    token_endpoint_auth_signing_alg_values_supported: tuple[str, ...] | None = None
    id_token_signing_alg_values_supported: tuple[str, ...] | None = None
    authorization_response_iss_parameter_supported: bool = False
    client_id_metadata_document_supported: bool = False
    assumed: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the metadata as an object that can be kept."""
        return {name: value for name, value in asdict(self).items() if value not in (None, False)}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> "IssuerMetadata":
        """Return the metadata of an object that `to_json` made."""
        known = {field.name for field in fields(cls)} & kept.keys()
        values: dict[str, Any] = {name: tuple(kept[name]) if name in _LISTS else kept[name] for name in known}
        return cls(**values)


@dataclass(frozen=True, slots=True)
class ResourceMetadata:
    """The metadata of a protected resource."""

    resource: str
    authorization_servers: tuple[str, ...]
    scopes_supported: tuple[str, ...] | None = None


def resource_metadata_urls(server_url: str) -> tuple[str, ...]:
    """Return the possible addresses of a resource's metadata: for its path, then at the root (RFC 9728, 3.1)."""
    base, path = _split(server_url)
    return (f"{base}{_RESOURCE}{path}", f"{base}{_RESOURCE}") if path else (f"{base}{_RESOURCE}",)


def issuer_metadata_urls(issuer: str) -> tuple[str, ...]:
    """Return the possible addresses of an issuer's metadata, in the order of the MCP specification."""
    base, path = _split(issuer)
    if not path:
        return f"{base}{_OAUTH}", f"{base}{_OPENID}"
    return f"{base}{_OAUTH}{path}", f"{base}{_OPENID}{path}", f"{base}{path}{_OPENID}"


def _split(url: str) -> tuple[str, str]:
    """Return scheme and host, and the path without final slash: empty for the root."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")


def parse_issuer(document: Mapping[str, Any], issuer: str, fetch: GuardedFetch) -> IssuerMetadata:
    """Return the metadata of `issuer` from its document. Relative addresses are resolved against the issuer.

    Raises:
        FetchFailed: the document is for another issuer, or an endpoint in it is not allowed.
    """
    base = f"{issuer.rstrip('/')}/"
    named = document.get("issuer")
    named = absolute(named, base) if isinstance(named, str) and named else named
    if not isinstance(named, str) or not same_issuer(named, issuer):
        raise FetchFailed(
            f"the metadata of {without_query(issuer)} are those of another issuer ({quoted(named)}), and are not used"
        )
    found: dict[str, Any] = {}
    for name in _ENDPOINTS:
        url = document.get(name)
        if url is None:
            continue
        try:
            if not isinstance(url, str):
                raise FetchFailed("it is no text")
            found[name] = fetch.admit(absolute(url, base))
        except FetchFailed as error:
            raise FetchFailed(f"`{name}` of {without_query(issuer)}: {error.reason}") from None
    found |= {name: scopes_in(document.get(name)) for name in _LISTS}
    for name in ("authorization_response_iss_parameter_supported", "client_id_metadata_document_supported"):
        found[name] = document.get(name) is True
    return IssuerMetadata(named, **found)


def same_issuer(one: str, other: str) -> bool:
    """Return True for the same text; at the root of a host, an issuer may be written with a final slash or without."""
    if one == other:
        return True
    shorter, longer = sorted((one, other), key=len)
    return longer == f"{shorter}/" and "/" not in shorter.partition("://")[2]


def parse_resource(document: Mapping[str, Any], server_url: str) -> ResourceMetadata:
    """Return the metadata of a protected resource from its document. Relative addresses stand under the server's.

    Raises:
        FetchFailed: it is none.
    """
    resource, servers = document.get("resource"), document.get("authorization_servers")
    if not isinstance(resource, str) or not resource:
        raise FetchFailed("the metadata of the resource do not name it (`resource`)")
    if not isinstance(servers, list) or not all(isinstance(server, str) for server in servers):
        servers = []
    servers = [absolute(server, server_url) for server in servers[:_LISTED_AT_MOST]]
    scopes = scopes_in(document.get("scopes_supported"))
    return ResourceMetadata(absolute(resource, server_url), tuple(servers), scopes)


async def read_issuer(fetch: GuardedFetch, issuer: str) -> IssuerMetadata:
    """Return the metadata of an issuer.

    Raises:
        FetchFailed: there is none, it cannot be fetched, or it is for another issuer.
    """
    document = await first_document(fetch, issuer_metadata_urls(issuer))
    if document is None:
        raise FetchFailed(f"{without_query(issuer)} has no metadata where RFC 8414 and OpenID Connect have them")
    return parse_issuer(document, issuer, fetch)


async def first_document(
    fetch: GuardedFetch, urls: tuple[str, ...], headers: Mapping[str, str] | None = None
) -> dict[str, Any] | None:
    """Return the first document of some addresses; None if none of them has one.

    Raises:
        FetchFailed: an address is not allowed, or does not answer at the moment.
    """
    for url in urls:
        try:
            response = await fetch.get(url, headers)
        except FetchFailed as error:
            if error.redirect is None or url == urls[-1]:
                raise
            continue
        if response.status == _FOUND:
            return response.json()
        if response.status >= _SERVER_ERROR or response.status == _TOO_MANY:
            raise FetchFailed(f"{without_query(url)} answers with status {response.status}", transient=True)
    return None
