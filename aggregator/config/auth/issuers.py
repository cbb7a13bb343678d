"""The section `auth`: issuers whose access tokens let agents in, and what the aggregator needs as an OAuth client."""

from ipaddress import ip_network
from typing import Final, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from aggregator.config.fields import ConfigModel, Seconds, Texts

# Asymmetric only (RFC 8725, 3.1 and 3.2): with a secret of both sides, who verifies could also sign.
Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
_USUAL: Final[tuple[Algorithm, ...]] = ("RS256", "PS256", "ES256", "EdDSA")
_HERE: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class IntrospectionConfig(ConfigModel):
    "The introspection endpoint for opaque tokens (RFC 7662), and the aggregator's credentials there."

    url: str | None = Field(
        default=None,
        description="Its address. Default: the one in the issuer's metadata.",
        examples=["https://login.example.com/introspect"],
    )
    client_id: str = Field(min_length=1, description="The aggregator's client id there.", examples=["aggregator"])
    client_secret: str = Field(
        min_length=1,
        repr=False,
        description="Its secret there.",
        examples=["${EXAMPLE_TOKEN}"],
    )
    cache: Seconds = Field(
        default=30.0,
        le=3600,
        description="How long an answer is kept; a revoked token is accepted for at most this long.",
        examples=["10s"],
    )


class ClaimsConfig(ConfigModel):
    """The claims of the issuer's tokens that say who comes in; `a.b` is the claim `b` inside the claim `a`."""

    subject: str = Field(default="sub", min_length=1, description="The user or program.", examples=["oid"])
    client: Texts = Field(
        default=("client_id", "azp"),
        description="The program that the token was issued to: the first of these that a token has.",
        examples=[["appid"]],
    )
    groups: str = Field(
        default="groups",
        min_length=1,
        description="The groups: a list of texts, or one text.",
        examples=["realm_access.roles"],
    )
    scopes: Texts = Field(
        default=("scope", "scp"),
        description="The scopes: a text with spaces between, or a list; the first of these that a token has.",
        examples=[["scp"]],
    )


class SignInConfig(ConfigModel):
    "The aggregator as a client of the issuer, with which users sign in by OpenID Connect in their browser."

    client_id: str = Field(min_length=1, description="The aggregator's client id there.", examples=["aggregator"])
    client_secret: str | None = Field(
        default=None,
        min_length=1,
        repr=False,
        description="Its secret there; none for a public client.",
        examples=["${EXAMPLE_TOKEN}"],
    )
    scopes: Texts = Field(
        default=("openid", "profile"), description="The scopes to ask for.", examples=[["openid", "offline_access"]]
    )


class IssuerConfig(ConfigModel):
    """One issuer whose access tokens are accepted."""

    issuer: str = Field(
        min_length=1,
        description="The identifier of the issuer, exactly as its tokens and its metadata write it.",
        examples=["https://login.example.com"],
    )
    audience: Texts = Field(
        min_length=1,
        description="A token must name one of these (`aud`, RFC 8707): the address of an endpoint here, or the "
        "issuer's name for this aggregator.",
        examples=[["https://gateway.example.com/mcp"]],
    )
    algorithms: tuple[Algorithm, ...] = Field(
        default=_USUAL,
        min_length=1,
        description="The signatures that are accepted.",
        examples=[["RS256"]],
    )
    types: Texts = Field(
        default=("at+jwt", "JWT"),
        description="The accepted values of the header `typ` of a token; a token without one counts as `JWT`. "
        "`at+jwt` alone keeps ID tokens out (RFC 9068, 4).",
        examples=[["at+jwt"]],
    )
    jwks_url: str | None = Field(
        default=None,
        description="The address of its keys. Default: the one in its metadata.",
        examples=["https://login.example.com/keys"],
    )
    introspection: IntrospectionConfig | None = Field(
        default=None,
        description="For tokens that are not JWTs. Without it, these are refused.",
        examples=[{"client_id": "aggregator", "client_secret": "${EXAMPLE_TOKEN}"}],
    )
    claims: ClaimsConfig = Field(
        default=ClaimsConfig.model_construct(),
        description="The claims that identify the caller.",
        examples=[{"groups": "roles"}],
    )
    sign_in: SignInConfig | None = Field(
        default=None,
        description="With it, users sign in here with their browser to connect accounts, and the aggregator asks "
        "the issuer on their behalf (enterprise-managed authorization).",
        examples=[{"client_id": "aggregator"}],
    )
    leeway: Seconds = Field(
        default=30.0,
        le=300,
        description="How far the clocks of the issuer and of this machine may differ.",
        examples=["5s"],
    )

    @field_validator("issuer", "jwks_url")
    @classmethod
    def _address(cls, url: str | None) -> str | None:
        if url is not None:
            check_address(url)
        return url


class AuthConfig(ConfigModel):
    "OAuth: the issuers whose tokens are accepted, and the aggregator's settings as a client of upstream servers."

    issuers: tuple[IssuerConfig, ...] = Field(
        default=(),
        description="Issuers whose access tokens are accepted, beside API keys. Policy files map tokens to agents "
        "(`who`).",
        examples=[[{"issuer": "https://login.example.com", "audience": ["https://gateway.example.com/mcp"]}]],
    )
    scopes: Texts = Field(
        default=(),
        description="The scopes that a host should ask for first; a host without a token gets them in the answer.",
        examples=[["mcp"]],
    )
    client_id_url: str | None = Field(
        default=None,
        description="The aggregator's client id metadata document, its id at the servers' issuers. Default: one that "
        "is served here if `http.public_url` is `https://`.",
        examples=["https://gateway.example.com/oauth/client.json"],
    )
    vault_key: str | None = Field(
        default=None,
        min_length=32,
        repr=False,
        description="A secret of 32 characters or more that encrypts tokens in the database. Default: a generated "
        "one in a file beside an SQLite database; PostgreSQL needs it.",
        examples=["${AGGREGATOR_VAULT_KEY:-a secret of 32 or more characters}"],
    )
    private_hosts: Texts = Field(
        default=(),
        description="Your own names and networks in which issuers may be; other addresses from servers are never "
        "contacted if they lead to a private network.",
        examples=[["login.internal.example.com", "10.20.0.0/16"]],
    )

    @field_validator("private_hosts")
    @classmethod
    def _private_hosts(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        for host in hosts:
            if "/" in host:
                ip_network(host)
            elif not host or not host.isascii() or not host.isprintable() or " " in host:
                raise ValueError("expected names of hosts, addresses, and networks such as 10.20.0.0/16")
        return hosts

    @field_validator("client_id_url")
    @classmethod
    def _client_id_url(cls, url: str | None) -> str | None:
        if url is not None and (urlsplit(url).scheme != "https" or urlsplit(url).path in ("", "/")):
            raise ValueError("expected an https:// address with a path")
        return url

    @model_validator(mode="after")
    def _issuers_once(self) -> "AuthConfig":
        names = [issuer.issuer for issuer in self.issuers]
        if len(set(names)) < len(names):
            raise ValueError("expected each issuer once")
        if sum(issuer.introspection is not None for issuer in self.issuers) > 1:
            # An opaque token does not say whose it is, and another issuer must not see it.
            raise ValueError("expected `introspection` at one issuer at most")
        return self


def check_address(url: str) -> None:
    """Check the address of an issuer: `https://`, or `http://` on this machine, without query and fragment.

    Raises:
        ValueError: it is none.
    """
    wrong = "expected https://HOST/PATH, without query and fragment; http:// only for this machine"
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        raise ValueError(wrong) from None
    allowed = parts.scheme == "https" or (parts.scheme == "http" and host in _HERE)
    if not allowed or not host or parts.username is not None or "?" in url or "#" in url or not url.isprintable():
        raise ValueError(wrong)
