"""A JWT taken apart, and its signature checked (RFC 7515, RFC 7519, RFC 8725).

Rule: nothing of a token is believed before its signature is checked, but for the name of the issuer and of the key,
which only say with what to check it.
"""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from jwt.algorithms import get_default_algorithms
from jwt.exceptions import PyJWTError

from aggregator.config.auth.issuers import IssuerConfig
from aggregator.identity.tokens.key_set import IssuerKey
from aggregator.identity.tokens.rejection import TokenRejected
from aggregator.wire.codec import decode

# Characters of a token that are examined.
LONGEST_TOKEN: Final = 16_384
_LONGEST_KID: Final = 512
_PARTS: Final = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]*)")
_ALGORITHMS: Final = get_default_algorithms()


@dataclass(frozen=True, slots=True)
class ReadToken:
    """A parsed JWT; nothing in it is proven."""

    algorithm: str
    kid: str | None
    type: str
    claims: Mapping[str, Any] = field(repr=False)
    signed: bytes = field(repr=False)
    signature: bytes = field(repr=False)

    @property
    def issuer(self) -> str | None:
        """The issuer that the token names."""
        stated = self.claims.get("iss")
        return stated if isinstance(stated, str) else None


def is_jwt(text: str) -> bool:
    """Tell whether a token has the form of a signed JWT; any other is opaque."""
    return _PARTS.fullmatch(text) is not None


def read_token(text: str) -> ReadToken:
    """Return the parts of a JWT.

    Raises:
        TokenRejected: it is none.
    """
    parts = _PARTS.fullmatch(text) if len(text) <= LONGEST_TOKEN else None
    if parts is None:
        raise TokenRejected("This is no access token.", guessed=True)
    header, claims = _json(parts[1]), _json(parts[2])
    algorithm, kid, kind = header.get("alg"), header.get("kid"), header.get("typ", "JWT")
    if not isinstance(algorithm, str) or not isinstance(kind, str) or not isinstance(kid, str | None):
        raise TokenRejected("The header of this token cannot be read.", guessed=True)
    if kid is not None and len(kid) > _LONGEST_KID:
        raise TokenRejected("The header of this token is too long.", guessed=True)
    if "crit" in header or "b64" in header:
        # RFC 7515, 4.1.11: this program supports none of the extensions that a header can demand.
        raise TokenRejected("The header of this token demands what is not known here (`crit`).", guessed=True)
    signed = f"{parts[1]}.{parts[2]}".encode()
    return ReadToken(algorithm, kid, kind, claims, signed, _bytes(parts[3]))


def check_header(token: ReadToken, issuer: IssuerConfig) -> None:
    """Check the header of a token against the settings of its issuer.

    Raises:
        TokenRejected: it is not accepted.
    """
    if token.algorithm not in issuer.algorithms:
        raise TokenRejected("This token is not signed as its issuer's tokens are (`alg`).", guessed=True)
    kind = token.type.lower().removeprefix("application/")
    if kind not in {accepted.lower().removeprefix("application/") for accepted in issuer.types}:
        raise TokenRejected("This is not the kind of token that is accepted here (`typ`).", guessed=True)


def is_signed_by(token: ReadToken, keys: Sequence[IssuerKey]) -> bool:
    """Tell whether one of these keys, which fit the algorithm, has signed the token."""
    algorithm = _ALGORITHMS[token.algorithm]
    for key in keys:
        try:
            if algorithm.verify(token.signed, key.key, token.signature):
                return True
        except (PyJWTError, ValueError, TypeError):
            continue
    return False


def _json(part: str) -> dict[str, Any]:
    try:
        value = decode(_bytes(part))
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise TokenRejected("This token cannot be read.", guessed=True)
    return value


def _bytes(part: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except (binascii.Error, ValueError):
        raise TokenRejected("This token cannot be read.", guessed=True) from None
