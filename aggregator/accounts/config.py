"""The field `auth` of a server: the aggregator gets access tokens for it by OAuth."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import Field, field_validator, model_validator

from aggregator.config.auth.issuers import check_address
from aggregator.config.fields import ConfigModel, Texts

GrantType = Literal["authorization_code", "client_credentials", "token_exchange", "enterprise"]


@dataclass(frozen=True, slots=True)
class GrantFacts:
    """How one grant gets its tokens.

    `by_person`: a person agrees in their browser, and the tokens are kept. `by_itself`: the aggregator is the account.
    `exchanges`: the token of the calling user is exchanged. `signs_in`: the company's issuer vouches for that user, who
    signs in there.
    """

    by_person: bool = False
    by_itself: bool = False
    exchanges: bool = False
    signs_in: bool = False


GRANTS: Final[Mapping[GrantType, GrantFacts]] = {
    "authorization_code": GrantFacts(by_person=True),
    "client_credentials": GrantFacts(by_itself=True),
    "token_exchange": GrantFacts(exchanges=True),
    "enterprise": GrantFacts(exchanges=True, signs_in=True),
}


class ServerAuthConfig(ConfigModel):
    """OAuth towards one server: whose account is used, and how tokens are got."""

    type: Literal["oauth"] = Field(default="oauth", description="OAuth 2.1, as MCP has it.")
    per: Literal["user", "agent", "shared"] = Field(
        description="The account for a call. `user`: the account of the user behind the host's token, or of the "
        "agent if there is no token. `agent`: the account of the agent. `shared`: one account for "
        "all. Calls never use another's account.",
        examples=["user"],
    )
    grant: GrantType = Field(
        default="authorization_code",
        description="`authorization_code`: a user agrees in their browser, once. `client_credentials`: the "
        "aggregator is the account. `token_exchange`: the host's token is exchanged at the server's issuer (RFC "
        "8693). `enterprise`: the company's issuer vouches for the user (enterprise-managed authorization).",
        examples=["client_credentials"],
    )
    issuer: str | None = Field(
        default=None,
        description="The server's authorization server. Default: the first that the server names.",
        examples=["https://login.example.com"],
    )
    client_id: str | None = Field(
        default=None,
        min_length=1,
        description="The aggregator's client id there. Default: its metadata document if the issuer supports that, "
        "else one from dynamic registration.",
        examples=["aggregator"],
    )
    client_secret: str | None = Field(
        default=None, min_length=1, repr=False, description="Its secret there.", examples=["${EXAMPLE_TOKEN}"]
    )
    private_key: str | None = Field(
        default=None,
        min_length=1,
        repr=False,
        description="A private key in PEM, by which the aggregator authenticates there instead of with a secret "
        "(`private_key_jwt`, RFC 7523).",
        examples=["${EXAMPLE_KEY}"],
    )
    scopes: Texts = Field(
        default=(),
        description="The scopes to ask for. Default: those that the server asks for.",
        examples=[["read:issues"]],
    )
    lists: Literal["gateway", "connected"] = Field(
        default="gateway",
        description="If accounts belong to users or agents: the account that reads the server's lists of tools. "
        "`gateway`: the aggregator's own account (`aggregator connect SERVER`). `connected`: any "
        "connected account; then the lists of all accounts must be the same.",
        examples=["connected"],
    )
    idp: str | None = Field(
        default=None,
        description="`enterprise`: the issuer of `auth.issuers` that vouches for users; it needs `sign_in`.",
        examples=["https://login.example.com"],
    )
    subject_token: str | None = Field(
        default=None,
        min_length=1,
        repr=False,
        description="`enterprise`, `token_exchange`: a token of the aggregator's own to exchange, in place of a "
        "user's.",
        examples=["${EXAMPLE_TOKEN}"],
    )

    @property
    def how(self) -> GrantFacts:
        """The facts of the grant."""
        return GRANTS[self.grant]

    @field_validator("issuer", "idp")
    @classmethod
    def _address(cls, url: str | None) -> str | None:
        if url is not None:
            check_address(url)
        return url

    @model_validator(mode="after")
    def _consistent(self) -> "ServerAuthConfig":
        if self.client_id is None and (self.client_secret is not None or self.private_key is not None):
            raise ValueError("expected `client_id` beside `client_secret` or `private_key`")
        if self.client_secret is not None and self.private_key is not None:
            raise ValueError("expected one of `client_secret` and `private_key`")
        if self.how.by_itself and self.client_id is None:
            raise ValueError(f"`{self.grant}` needs `client_id`, with `client_secret` or `private_key`")
        if self.how.by_itself and self.per != "shared":
            raise ValueError(f'`{self.grant}` is one account for all: write "per": "shared"')
        if self.how.signs_in and self.idp is None:
            raise ValueError(f"`{self.grant}` needs `idp`, an issuer of `auth.issuers`")
        return self
