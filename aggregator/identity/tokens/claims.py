"""The claims of a token against the configuration of its issuer. This file decides; it reads no clock.

Rule: a token that was not issued for this aggregator is never accepted (RFC 8707, 2; RFC 9700, 2.3).
"""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, Final

from aggregator.config.auth.issuers import IssuerConfig
from aggregator.domain.principal import TokenFacts
from aggregator.identity.tokens.rejection import TokenRejected

# Bounds on the data read from one token.
LONGEST_TEXT: Final = 1_024
MOST_ENTRIES: Final = 1_000
LONGEST_LIST: Final = 12_288
# Seconds that a token without an expiry keeps its owner's ongoing work alive.
UNDATED: Final = 3_600.0


def facts_of(claims: Mapping[str, Any], issuer: IssuerConfig, now: float, text: str, *, signed: bool) -> TokenFacts:
    """Return the facts of a token of proven origin, at the wall-clock time `now`.

    signed: the claims come from a JWT; otherwise they are the issuer's answer about an opaque token, which may leave
    out `iss` and `exp`.

    Raises:
        TokenRejected: the token is not accepted.
    """
    stated = claims.get("iss")
    if stated != issuer.issuer and (signed or stated is not None):
        raise TokenRejected("This token is of another issuer.")
    _check_audience(claims.get("aud"), issuer.audience)
    expires = _check_times(claims, now, issuer.leeway, signed=signed)
    if "cnf" in claims:
        # RFC 7800; RFC 9449, 7.1: the holder of such a token also has to prove that it is theirs.
        raise TokenRejected("This token is bound to a key (`cnf`), and no proof of such keys is taken here.")
    names = issuer.claims
    subject = _text(_named(claims, names.subject), names.subject)
    if subject is None:
        raise TokenRejected(f"This token does not say whose it is (`{names.subject}`).")
    return TokenFacts(
        issuer=issuer.issuer,
        subject=subject,
        client=next((found for name in names.client if (found := _text(_named(claims, name), name)) is not None), None),
        groups=tuple(_texts(_named(claims, names.groups), names.groups)),
        scopes=frozenset(_scopes(claims, names.scopes)),
        expires=expires,
        text=text,
    )


def _check_audience(stated: Any, accepted: Sequence[str]) -> None:
    found = [stated] if isinstance(stated, str) else stated
    if not isinstance(found, list) or not found or len(found) > MOST_ENTRIES:
        raise TokenRejected("This token does not say whom it is meant for (`aud`).")
    if not any(isinstance(one, str) and one in accepted for one in found):
        raise TokenRejected("This token is meant for another audience (`aud`) than this aggregator.")


def _check_times(claims: Mapping[str, Any], now: float, leeway: float, *, signed: bool) -> float:
    """Return when the token expires, in seconds since 1970."""
    expires, begins, issued = (_time(claims, name) for name in ("exp", "nbf", "iat"))
    if expires is None:
        if signed:
            raise TokenRejected("This token does not say when it expires (`exp`).")
        expires = now + UNDATED
    if now >= expires + leeway:
        raise TokenRejected("This token has expired.")
    if begins is not None and now < begins - leeway:
        raise TokenRejected("This token is not good yet (`nbf`).")
    if issued is not None and now < issued - leeway:
        raise TokenRejected("This token is of the future (`iat`).")
    return expires


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e15 or not isfinite(value):
        raise TokenRejected(f"`{name}` in this token is no time.")
    return float(value)


def _named(claims: Mapping[str, Any], name: str) -> Any:
    """Return a claim; `a.b` is one of that very name, else the claim `b` inside the claim `a`."""
    if name in claims:
        return claims[name]
    value: Any = claims
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _text(value: Any, name: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value or len(value) > LONGEST_TEXT or not value.isprintable():
        raise TokenRejected(f"`{name}` in this token is no text, or too long a one.")
    return value


def _texts(value: Any, name: str) -> list[str]:
    values = value if isinstance(value, list) else [] if value is None else [value]
    if len(values) > MOST_ENTRIES:
        raise TokenRejected(f"`{name}` in this token has more than {MOST_ENTRIES} entries.")
    texts = [text for one in values if (text := _text(one, name)) is not None]
    if sum(map(len, texts)) > LONGEST_LIST:
        raise TokenRejected(f"`{name}` in this token has more than {LONGEST_LIST} characters.")
    return texts


def _scopes(claims: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    for name in names:
        value = _named(claims, name)
        if isinstance(value, str):
            # Cut before it is split: a token is bounded, its number of blanks too.
            return _texts(value.split(), name)
        if value is not None:
            return _texts(value, name)
    return []
