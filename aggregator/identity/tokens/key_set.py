"""The public keys of an issuer: which of them may verify a token. This file decides.

Rule: a key verifies only signatures of its own kind (RFC 8725, 3.1 and 3.2); the token has no influence.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from jwt.exceptions import InvalidKeyError

PublicKey = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey | Ed448PublicKey

# Keys accepted from one issuer, and the sizes of RSA keys: a larger key would make each check slow.
MOST_KEYS: Final = 100
_RSA_BITS: Final = range(2_048, 8_193)
# Keys that are tried for a token without a `kid`.
_TRIED: Final = 4
_CURVES: Final[Mapping[str, str]] = {"ES256": "secp256r1", "ES384": "secp384r1", "ES512": "secp521r1"}
_RSA: Final = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})


@dataclass(frozen=True, slots=True)
class IssuerKey:
    """One public key. kid: its name (RFC 7517, 4.5). algorithm: the only one that it is for, if it says so."""

    kid: str | None
    algorithm: str | None
    key: PublicKey

    def fits(self, algorithm: str) -> bool:
        """Return whether the key may verify signatures of this algorithm."""
        if self.algorithm is not None and self.algorithm != algorithm:
            return False
        if isinstance(self.key, RSAPublicKey):
            return algorithm in _RSA
        if isinstance(self.key, EllipticCurvePublicKey):
            return _CURVES.get(algorithm) == self.key.curve.name
        return algorithm == "EdDSA"


@dataclass(frozen=True, slots=True)
class KeySet:
    """The keys of one issuer at one moment."""

    keys: tuple[IssuerKey, ...] = ()

    def for_token(self, kid: str | None, algorithm: str) -> tuple[IssuerKey, ...]:
        """Return the keys that a token with this header may be signed with, at most a few."""
        fitting = (key for key in self.keys if (kid is None or key.kid == kid) and key.fits(algorithm))
        return tuple(key for key, _ in zip(fitting, range(_TRIED), strict=False))

    def has(self, kid: str | None) -> bool:
        """Tell whether there is a key of that name, for this algorithm or another."""
        return any(key.kid == kid for key in self.keys)


def read_key_set(document: Mapping[str, Any]) -> KeySet:
    """Return the keys of a JWK set that may verify signatures; others are left out (RFC 7517, 5).

    Raises:
        ValueError: the document is no JWK set.
    """
    listed = document.get("keys")
    if not isinstance(listed, list):
        raise ValueError("it has no list `keys`")
    if len(listed) > MOST_KEYS:
        raise ValueError(f"it has more than {MOST_KEYS} keys")
    return KeySet(tuple(key for one in listed if isinstance(one, dict) and (key := _read(one)) is not None))


def _read(jwk: Mapping[str, Any]) -> IssuerKey | None:
    """Return one key; None for one that verifies no signatures, or cannot be used here."""
    kid, algorithm, uses = jwk.get("kid"), jwk.get("alg"), jwk.get("key_ops")
    if jwk.get("use", "sig") != "sig" or (isinstance(uses, list) and "verify" not in uses):
        return None
    if not isinstance(kid, str | None) or not isinstance(algorithm, str | None):
        return None
    readers: Mapping[Any, Any] = {"RSA": RSAAlgorithm, "EC": ECAlgorithm, "OKP": OKPAlgorithm}
    reader = readers.get(jwk.get("kty")) if isinstance(jwk.get("kty"), str) else None
    if reader is None:
        return None
    public = {name: value for name, value in jwk.items() if name in ("kty", "crv", "n", "e", "x", "y")}
    try:
        key = reader.from_jwk(json.dumps(public))
    except (InvalidKeyError, ValueError, TypeError, AttributeError):
        return None
    if isinstance(key, RSAPublicKey):
        return IssuerKey(kid, algorithm, key) if key.key_size in _RSA_BITS else None
    if isinstance(key, EllipticCurvePublicKey | Ed25519PublicKey | Ed448PublicKey):
        return IssuerKey(kid, algorithm, key)
    return None
