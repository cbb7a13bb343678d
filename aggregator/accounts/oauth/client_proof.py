"""The proof that the aggregator is its client id, for a token endpoint (RFC 6749, 2.3; RFC 7523, 2.2)."""

import base64
import secrets
import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from aggregator.accounts.oauth.metadata import IssuerMetadata
from aggregator.accounts.oauth.registration import Registration

_ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_SECONDS: Final = 60


def proof(issuer: IssuerMetadata, client: Registration) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the headers and the parameters that prove the client.

    Raises:
        UnusableKey: its private key cannot sign.
    """
    secret = client.client_secret
    if client.method == "client_secret_basic" and secret is not None:
        # Both are encoded as in a form first (RFC 6749, 2.3.1), a blank in the way that every decoder reads.
        pair = f"{quote(client.client_id, '')}:{quote(secret, '')}"
        return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}, {}
    if client.method == "client_secret_post" and secret is not None:
        return {}, {"client_id": client.client_id, "client_secret": secret}
    if client.method == "private_key_jwt" and client.private_key is not None:
        signed = assertion(issuer, client.client_id, client.private_key)
        return {}, {"client_id": client.client_id, "client_assertion_type": _ASSERTION, "client_assertion": signed}
    return {}, {"client_id": client.client_id}


def assertion(issuer: IssuerMetadata, client_id: str, private_key: str) -> str:
    """Return a JWT of a minute by which the client proves itself, for this issuer alone.

    Raises:
        UnusableKey: the key cannot sign.
    """
    # Imported here: PyJWT and cryptography take 60 ms, which a start without OAuth must not wait for.
    from aggregator.accounts.oauth.signing import sign

    now = int(time.time())
    claims: dict[str, Any] = {
        "iss": client_id,
        "sub": client_id,
        "aud": issuer.issuer,
        "jti": secrets.token_urlsafe(16),
        "iat": now,
        "exp": now + _SECONDS,
    }
    return sign(claims, private_key, issuer.token_endpoint_auth_signing_alg_values_supported)
