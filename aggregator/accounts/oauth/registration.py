"""Registration: the aggregator's client id at one authorization server (RFC 7591, client id metadata documents)."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal

from aggregator.accounts.oauth.client_document import CLIENT_GRANTS
from aggregator.accounts.oauth.fetch import Fetched, FetchFailed, GuardedFetch
from aggregator.accounts.oauth.metadata import IssuerMetadata
from aggregator.accounts.oauth.targets import BadTarget, read_target
from aggregator.domain.text.cut import cut_between_words, quoted

ClientAuthentication = Literal["client_secret_basic", "client_secret_post", "private_key_jwt", "none"]
RegistrationKind = Literal["configured", "document", "dynamic"]

_DEVICE_GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"
_SECRET_METHODS: Final[tuple[ClientAuthentication, ...]] = ("client_secret_basic", "client_secret_post")
_GOOD: Final = (200, 201)
_SERVER_ERROR: Final = 500
_TOO_MANY: Final = 429
_TEXT_AT_MOST: Final = 4096
_WORDS_AT_MOST: Final = 200


class RegistrationFailed(Exception):
    """The aggregator has no client id at an authorization server, and gets none. reason: one sentence for users.

    transient: trying later may help.
    """

    def __init__(self, reason: str, *, transient: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.transient = transient


@dataclass(frozen=True, slots=True)
class ConfiguredClient:
    """The client id that the operator configured for a server, with a secret, a private key (PEM), or neither."""

    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    private_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Registration:
    """A client id at one issuer, with its authentication.

    expires: the end of the secret, in seconds since the epoch; None for never. redirect_uris: the registered ones;
    empty if unknown.
    """

    issuer: str
    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    method: ClientAuthentication = "none"
    kind: RegistrationKind = "configured"
    expires: float | None = None
    private_key: str | None = field(default=None, repr=False)
    redirect_uris: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the registration as an object, to be kept encrypted."""
        return asdict(self)

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> "Registration":
        """Return the registration of an object that `to_json` made."""
        return cls(**{**kept, "redirect_uris": tuple(kept.get("redirect_uris", ()))})


def configured_client(issuer: IssuerMetadata, client: ConfiguredClient) -> Registration:
    """Return the registration of a client that the operator configured."""
    method: ClientAuthentication = "none"
    if client.private_key is not None:
        method = "private_key_jwt"
    elif client.client_secret is not None:
        method = _secret_method(issuer)
    found = Registration(issuer.issuer, client.client_id, client.client_secret, method, "configured")
    return replace(found, private_key=client.private_key)


def _secret_method(issuer: IssuerMetadata) -> ClientAuthentication:
    """Return the authentication method of a secret: in the header if supported, which is the default (RFC 8414, 2)."""
    supported = issuer.token_endpoint_auth_methods_supported
    if supported is None:
        return "client_secret_basic"
    return next((method for method in _SECRET_METHODS if method in supported), "client_secret_basic")


async def register(
    fetch: GuardedFetch,
    issuer: IssuerMetadata,
    redirect_uri: str,
    *,
    configured: ConfiguredClient | None = None,
    client_id_url: str | None = None,
    scopes: Sequence[str] | None = None,
    client_name: str = "aggregator",
) -> Registration:
    """Return a registration: the configured one, else the metadata document, else a dynamic one.

    client_id_url: the address of the aggregator's own client id metadata document, if it has one.

    Raises:
        RegistrationFailed: there is no way to a client id, or the issuer refused.
    """
    if configured is not None:
        return configured_client(issuer, configured)
    if client_id_url is not None and issuer.client_id_metadata_document_supported:
        return Registration(issuer.issuer, client_id_url, kind="document")
    if issuer.registration_endpoint is None:
        documents = (
            "; it takes client id metadata documents, for which the aggregator needs `auth.client_id_url` or an "
            "https:// `http.public_url`"
            if issuer.client_id_metadata_document_supported
            else ""
        )
        raise RegistrationFailed(
            f"{issuer.issuer} registers no clients by itself{documents}. Register the aggregator there with the "
            f"redirect address {redirect_uri}, and write its client id as `auth.client_id` of the server"
        )
    try:
        document = _dynamic_document(issuer, redirect_uri, scopes, client_name)
        response = await fetch.post_json(issuer.registration_endpoint, document)
        return _registered(issuer, document, response)
    except FetchFailed as error:
        raise RegistrationFailed(error.reason, transient=error.transient) from None


def _dynamic_document(
    issuer: IssuerMetadata, redirect_uri: str, scopes: Sequence[str] | None, client_name: str
) -> dict[str, Any]:
    """Return the document that registers a client (RFC 7591, 2)."""
    supported = issuer.token_endpoint_auth_methods_supported
    wished: tuple[ClientAuthentication, ...] = (*_SECRET_METHODS, "none")
    method = next((m for m in wished if supported is None or m in supported), "client_secret_basic")
    grants = list(CLIENT_GRANTS)
    if issuer.device_authorization_endpoint is not None:
        grants.append(_DEVICE_GRANT)
    document = {
        "client_name": client_name,
        "redirect_uris": [redirect_uri],
        "grant_types": grants,
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
        "application_type": application_type(redirect_uri),
    }
    if scopes:
        document["scope"] = " ".join(scopes)
    return document


def application_type(redirect_uri: str) -> Literal["native", "web"]:
    """Return `native` for a redirect to the user's own machine (MCP 2026-07-28; RFC 8252)."""
    try:
        return "native" if read_target(redirect_uri).is_here else "web"
    except BadTarget:
        return "native"


def _registered(issuer: IssuerMetadata, asked: Mapping[str, Any], response: Fetched) -> Registration:
    """Return the registration in an answer; how the client proves itself is as asked for, unless it says so."""
    if response.status not in _GOOD:
        raise _refusal(issuer, response)
    document = response.json()
    client_id, secret = document.get("client_id"), document.get("client_secret")
    if not isinstance(client_id, str) or not _is_text(client_id) or not (secret is None or _is_text(secret)):
        raise RegistrationFailed(f"{issuer.issuer} answered a registration without a client id")
    method = document.get("token_endpoint_auth_method")
    if method is None:
        method = asked["token_endpoint_auth_method"] if secret is not None else "none"
    if method not in (*_SECRET_METHODS, "none"):
        raise RegistrationFailed(
            f"{issuer.issuer} registered a client that has to prove itself by {quoted(method, 60)}, which the "
            "aggregator does for clients that are configured only (`auth.client_id` of the server)"
        )
    if method != "none" and secret is None:
        raise RegistrationFailed(f"{issuer.issuer} registered a client that needs a secret, and gave none")
    ends = document.get("client_secret_expires_at")
    expires = float(ends) if isinstance(ends, int | float) and not isinstance(ends, bool) and ends > 0 else None
    redirects = tuple(asked["redirect_uris"])
    return Registration(issuer.issuer, client_id, secret, method, "dynamic", expires, redirect_uris=redirects)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _TEXT_AT_MOST and value.isprintable()


def _refusal(issuer: IssuerMetadata, response: Fetched) -> RegistrationFailed:
    """Return the error for a response that registers nothing."""
    try:
        said = response.json()
    except FetchFailed:
        said = {}
    words = ": ".join(str(said[name]) for name in ("error", "error_description") if isinstance(said.get(name), str))
    clean = cut_between_words("".join(char for char in words if char.isprintable()), _WORDS_AT_MOST)
    reason = f"{issuer.issuer} refused to register the aggregator (status {response.status}"
    reason += f", {clean})" if clean else ")"
    transient = response.status >= _SERVER_ERROR or response.status == _TOO_MANY
    if not transient:
        reason += "; register it there yourself, and write its client id as `auth.client_id` of the server"
    return RegistrationFailed(reason, transient=transient)
