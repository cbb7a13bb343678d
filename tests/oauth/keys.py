"""Keys that are made once for the tests."""

from functools import cache

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


@cache
def private_key(kind: str) -> PrivateKey:
    if kind.startswith("rsa"):
        return rsa.generate_private_key(65537, int(kind.removeprefix("rsa")))
    if kind == "ed25519":
        return ed25519.Ed25519PrivateKey.generate()
    curves: dict[str, ec.EllipticCurve] = {
        "p256": ec.SECP256R1(),
        "p384": ec.SECP384R1(),
        "p521": ec.SECP521R1(),
        "k1": ec.SECP256K1(),
    }
    return ec.generate_private_key(curves[kind])


def pem(key: PrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
