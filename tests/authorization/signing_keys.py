"""The keys of an authorization server, and JSON Web Tokens made with them."""

import hmac
import json
from base64 import urlsafe_b64encode
from functools import cache
from typing import Any, Final

from joserfc import jws
from joserfc.jwk import ECKey, Key, OctKey, OKPKey, RSAKey

from tests.peers.toolbox import Json

_CURVES: Final = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}


@cache
def rsa_key(number: int) -> RSAKey:
    """An RSA key of this process: they take long to make, so tests share them."""
    return RSAKey.generate_key(2048)


def make_key(algorithm: str, number: int = 0) -> Key:
    """A private key for an algorithm; `number` tells RSA keys apart."""
    if algorithm in _CURVES:
        return ECKey.generate_key(_CURVES[algorithm])
    if algorithm == "EdDSA":
        return OKPKey.generate_key("Ed25519")
    return OctKey.generate_key(256) if algorithm.startswith("HS") else rsa_key(number)


def sign(claims: Json | bytes, key: Key | bytes, header: Json) -> str:
    """A token in compact form, however foolish: nothing of the header, the claims and the key has to fit together."""
    payload = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
    signed = b".".join(map(base64url, (json.dumps(header).encode(), payload)))
    if isinstance(key, bytes):
        signature = hmac.digest(key, signed, "sha256")
    else:
        algorithm = "EdDSA" if isinstance(key, OKPKey) else header["alg"]
        signature = jws.JWSRegistry.algorithms[algorithm].sign(signed, key)
    return f"{signed.decode()}.{base64url(signature).decode()}"


def base64url(data: bytes) -> bytes:
    """Encode as JWS does, without padding."""
    return urlsafe_b64encode(data).rstrip(b"=")


class SigningKeys:
    """The keys by `kid`; `current` signs."""

    def __init__(self) -> None:
        self._made = 0
        self.keys: dict[str, tuple[str, Key]] = {}
        self.current = self.add("ES256")

    def add(self, algorithm: str, kid: str | None = None, key: Key | None = None) -> str:
        """Publish another key; returns its `kid`."""
        self._made += 1
        kid = kid or f"key-{self._made}"
        self.keys[kid] = algorithm, key or make_key(algorithm, self._made)
        return kid

    def rotate(self, algorithm: str = "ES256") -> str:
        """Sign with a new key from now on; the earlier ones are published no longer."""
        self.keys.clear()
        self.current = self.add(algorithm)
        return self.current

    def published(self) -> Json:
        """The JSON Web Key Set (RFC 7517)."""
        named = [(kid, algorithm, key.as_dict(private=False)) for kid, (algorithm, key) in self.keys.items()]
        return {"keys": [{**public, "kid": kid, "alg": algorithm, "use": "sig"} for kid, algorithm, public in named]}

    def sign(self, claims: Json | bytes, kid: str | None = None, **header: Any) -> str:
        """A token signed with the current key, or that one; a header of None is left out."""
        kid = kid or self.current
        algorithm, key = self.keys[kid]
        full = {"alg": algorithm, "kid": kid, **header}
        return sign(claims, key, {name: value for name, value in full.items() if value is not None})
