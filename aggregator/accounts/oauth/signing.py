"""JWTs that the aggregator signs with a private key of the operator's."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

_BY_RSA: Final = ("RS256", "PS256", "RS384", "RS512", "PS384", "PS512")
_BY_CURVE: Final = {"secp256r1": ("ES256",), "secp384r1": ("ES384",), "secp521r1": ("ES512",)}
_RSA_BITS: Final = 2048


class UnusableKey(ValueError):
    """The private key cannot sign. The message does not contain the key."""


def sign(claims: Mapping[str, Any], private_key: str, accepted: Sequence[str] | None) -> str:
    """Return a signed JWT. accepted: the algorithms that its reader takes, if it says so.

    Raises:
        UnusableKey: the key cannot sign by any of them.
    """
    try:
        key = load_pem_private_key(private_key.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise UnusableKey("`auth.private_key` is no private key in PEM without a password") from None
    if isinstance(key, RSAPrivateKey) and key.key_size >= _RSA_BITS:
        able: tuple[str, ...] = _BY_RSA
    elif isinstance(key, EllipticCurvePrivateKey):
        able = _BY_CURVE.get(key.curve.name, ())
    elif isinstance(key, Ed25519PrivateKey):
        able = ("EdDSA",)
    else:
        able = ()
    usable = [algorithm for algorithm in able if accepted is None or algorithm in accepted]
    if not usable:
        wanted = f" with which it can sign by {', '.join(accepted)}" if accepted and able else ""
        raise UnusableKey(f"`auth.private_key` has to be an RSA (2048 bits or more), EC or Ed25519 key{wanted}")
    return jwt.encode(dict(claims), key, algorithm=usable[0])  # type: ignore[arg-type]
