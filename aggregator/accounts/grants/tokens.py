"""The tokens of a grant with the data to renew them, and an access token in the form that requests use."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from aggregator.accounts.oauth.metadata import IssuerMetadata
from aggregator.accounts.oauth.registration import Registration
from aggregator.accounts.oauth.token_response import TokenResponse

# A token is renewed when so much of its life is over, and not used in the last part of it.
_RENEWED_AT: Final = 0.8
# Seconds by which time synchronization may set a clock back in normal operation.
_SLEW: Final = 5.0
_MARGIN: Final = 5.0
_MARGIN_PART: Final = 0.1


@dataclass(frozen=True, slots=True)
class GrantTokens:
    """The tokens of one grant.

    issuer, client: the parties that they were issued by and to; a refresh token is valid for no others. resource: the
    requested resource. asked: the requested scopes. since, expires: the times of issue and expiry of the access token.
    """

    access: str = field(repr=False)
    refresh: str | None = field(repr=False)
    id_token: str | None = field(repr=False)
    issuer: IssuerMetadata
    client: Registration
    resource: str | None
    asked: tuple[str, ...] | None
    scopes: tuple[str, ...] | None
    since: float
    expires: float | None

    def renewed(self, response: TokenResponse, now: float) -> "GrantTokens":
        """Return the tokens after a refresh: fields that the answer omits stay unchanged."""
        signed = response.id_token or self.id_token
        return replace(
            self,
            access=response.access,
            refresh=response.refresh or self.refresh,
            id_token=signed,
            scopes=response.scopes if response.scopes is not None else self.scopes,
            since=now,
            expires=response.expires_at,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the tokens as an object, to be sealed."""
        own = ("access", "refresh", "id_token", "resource", "asked", "scopes", "since", "expires")
        kept = {name: getattr(self, name) for name in own}
        return {**kept, "issuer": self.issuer.to_json(), "client": self.client.to_json()}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> "GrantTokens":
        """Return the tokens of an object that `to_json` made."""
        lists = {name: tuple(kept[name]) if kept[name] is not None else None for name in ("asked", "scopes")}
        issuer, client = IssuerMetadata.from_json(kept["issuer"]), Registration.from_json(kept["client"])
        return cls(**{**kept, **lists, "issuer": issuer, "client": client})


@dataclass(frozen=True, slots=True)
class AccessToken:
    """An access token in the form that requests use.

    version: the version of its grant. usable_until, renewed_from: seconds since 1970, infinite if unknown. renewable: a
    newer one can be fetched without a user.
    """

    header: str = field(repr=False)
    version: int
    usable_until: float
    renewed_from: float
    renewable: bool
    asked: tuple[str, ...] = ()
    scopes: tuple[str, ...] | None = None
    # When it was got; the clock shows an earlier time only if it was set back meanwhile.
    since: float = 0.0

    def usable(self, now: float) -> bool:
        """Return True if a request may be sent with it."""
        return now < self.usable_until

    def due(self, now: float) -> bool:
        """Return True if a newer one should be got."""
        return self.renewable and not self.since - _SLEW <= now < self.renewed_from


def access_token(tokens: GrantTokens, version: int, *, renewable: bool) -> AccessToken:
    """Return the access token of a grant."""
    until = due = math.inf
    since = 0.0
    if tokens.expires is not None:
        since = tokens.since
        life = max(tokens.expires - tokens.since, 0.0)
        until = tokens.expires - min(_MARGIN, life * _MARGIN_PART)
        due = tokens.since + life * _RENEWED_AT
    scopes = tokens.asked or tokens.scopes or ()
    return AccessToken(f"Bearer {tokens.access}", version, until, due, renewable, scopes, tokens.scopes, since=since)
