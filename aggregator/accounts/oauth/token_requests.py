"""Token requests: requests to the endpoints of an authorization server, with the proof of the aggregator's client id.

Every function of a request raises TokenRefused and TokenUnavailable (`token_response.py`). The proof: RFC 6749, 2.3;
RFC 7523, 2.2.
"""

import base64
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from aggregator.accounts.oauth.authorization import LoginAttempt
from aggregator.accounts.oauth.fetch import Fetched, FetchFailed, GuardedFetch
from aggregator.accounts.oauth.metadata import IssuerMetadata
from aggregator.accounts.oauth.registration import Registration
from aggregator.accounts.oauth.token_response import (
    TokenRefused,
    TokenResponse,
    TokenUnavailable,
    credentials_in,
    raise_refusal,
    read_tokens,
    readable,
    seconds_in,
)
from aggregator.domain.text.error_text import error_text

_DEVICE: Final = "urn:ietf:params:oauth:grant-type:device_code"
_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ACCESS_TOKEN: Final = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - the name of a type
ID_TOKEN: Final = "urn:ietf:params:oauth:token-type:id_token"  # noqa: S105 - the name of a type
ID_JAG: Final = "urn:ietf:params:oauth:token-type:id-jag"
# Parameters that are secrets, and are removed from a server's texts.
_SECRETS: Final = frozenset(
    {
        "code",
        "code_verifier",
        "refresh_token",
        "client_secret",
        "client_assertion",
        "subject_token",
        "assertion",
        "device_code",
        "token",
    }
)
_INTERVAL: Final = 5.0
_LONGEST_INTERVAL: Final = 60.0
_DEVICE_LIFE: Final = 600.0
_LONGEST_DEVICE_LIFE: Final = 1800.0
_USER_CODE_AT_MOST: Final = 64
_ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class DeviceAuthorization:
    """The page and the code for a user at another device (RFC 8628, 3.2). interval: seconds between polls."""

    device_code: str = field(repr=False)
    user_code: str
    verification_uri: str
    verification_uri_complete: str | None
    expires_at: float
    interval: float


async def exchange_code(
    fetch: GuardedFetch, issuer: IssuerMetadata, client: Registration, attempt: LoginAttempt, code: str
) -> TokenResponse:
    """Return the tokens for a code that `check_answer` let through."""
    if attempt.issuer != issuer.issuer:
        raise TokenRefused("invalid_issuer", "the code is that of another issuer")
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": attempt.redirect_uri,
        "code_verifier": attempt.verifier,
    }
    return await _tokens(fetch, issuer, client, form, attempt.resource, None, attempt.scopes)


async def refresh(
    fetch: GuardedFetch,
    issuer: IssuerMetadata,
    client: Registration,
    refresh_token: str,
    *,
    resource: str | None,
    scopes: Sequence[str] | None = None,
) -> TokenResponse:
    """Return new tokens; their `refresh` is None if the old refresh token stays valid.

    scopes: the scopes of the grant, which are not requested again.
    """
    form = {"grant_type": "refresh_token", "refresh_token": refresh_token}
    return await _tokens(fetch, issuer, client, form, resource, None, scopes)


async def client_credentials(
    fetch: GuardedFetch,
    issuer: IssuerMetadata,
    client: Registration,
    *,
    resource: str | None,
    scopes: Sequence[str] | None = None,
) -> TokenResponse:
    """Return the tokens of the aggregator's own account."""
    return await _tokens(fetch, issuer, client, {"grant_type": "client_credentials"}, resource, scopes, scopes)


async def exchange_token(
    fetch: GuardedFetch,
    issuer: IssuerMetadata,
    client: Registration,
    subject_token: str,
    *,
    subject_token_type: str = ACCESS_TOKEN,
    requested_token_type: str | None = None,
    meant_for: str | None = None,
    resource: str | None = None,
    scopes: Sequence[str] | None = None,
) -> TokenResponse:
    """Return the token exchanged for another one (RFC 8693); an ID-JAG if requested.

    meant_for: the `audience` of the token.
    """
    form = {"grant_type": _EXCHANGE, "subject_token": subject_token, "subject_token_type": subject_token_type}
    more = {"requested_token_type": requested_token_type, "audience": meant_for}
    form |= {name: value for name, value in more.items() if value is not None}
    response, secrets = await _ask(fetch, _endpoint(issuer), issuer, client, _with(form, resource, scopes))
    tokens = read_tokens(response, scopes, secrets)
    if requested_token_type is not None and response.json().get("issued_token_type") != requested_token_type:
        raise TokenRefused("invalid_response", "the token is not of the type that was asked for")
    return tokens


async def jwt_bearer(
    fetch: GuardedFetch,
    issuer: IssuerMetadata,
    client: Registration,
    assertion: str,
    *,
    resource: str | None,
    scopes: Sequence[str] | None = None,
) -> TokenResponse:
    """Return the tokens for a JWT that another issuer vouches with (RFC 7523, 2.1)."""
    form = {"grant_type": _JWT_BEARER, "assertion": assertion}
    return await _tokens(fetch, issuer, client, form, resource, scopes, scopes)


async def device_authorization(
    fetch: GuardedFetch,
    issuer: IssuerMetadata,
    client: Registration,
    *,
    resource: str | None,
    scopes: Sequence[str] | None = None,
) -> DeviceAuthorization:
    """Return the prompt for a user at another device."""
    endpoint = issuer.device_authorization_endpoint
    if endpoint is None:
        raise TokenRefused("unsupported", f"{issuer.issuer} offers no sign-in at another device")
    response, secrets = await _ask(fetch, endpoint, issuer, client, _with({}, resource, scopes))
    raise_refusal(response, secrets)
    try:
        return _device(fetch, response)
    except FetchFailed as error:
        raise TokenRefused("invalid_response", error.reason) from None


def _device(fetch: GuardedFetch, response: Fetched) -> DeviceAuthorization:
    """Return the device authorization in a response; its pages are for the user's browser.

    Raises:
        FetchFailed: it is none, or its page is at no valid address.
    """
    said = response.json()
    device, user, page = (said.get(name) for name in ("device_code", "user_code", "verification_uri"))
    if not (isinstance(device, str) and isinstance(user, str) and isinstance(page, str) and device):
        raise FetchFailed("the answer has no device code")
    if not 0 < len(user) <= _USER_CODE_AT_MOST or not user.isprintable():
        raise FetchFailed("the answer has no code that a person could enter")
    complete = said.get("verification_uri_complete")
    life = seconds_in(said.get("expires_in")) or _DEVICE_LIFE
    interval = seconds_in(said.get("interval")) or _INTERVAL
    return DeviceAuthorization(
        device,
        user,
        fetch.admit(page),
        fetch.admit(complete) if isinstance(complete, str) else None,
        time.time() + min(life, _LONGEST_DEVICE_LIFE),
        min(max(interval, 1.0), _LONGEST_INTERVAL),
    )


async def device_poll(
    fetch: GuardedFetch,
    issuer: IssuerMetadata,
    client: Registration,
    device: DeviceAuthorization,
    *,
    resource: str | None,
    interval: float | None = None,
    scopes: Sequence[str] | None = None,
) -> TokenResponse | float:
    """Ask once if the user has agreed; return the tokens, or the seconds until the next poll.

    interval: what the last poll returned. TokenRefused has `access_denied` if they declined, and `expired_token` if it
    is too late.
    """
    wait = interval or device.interval
    if time.time() >= device.expires_at:
        raise TokenRefused("expired_token", "the code was not entered in time")
    form = {"grant_type": _DEVICE, "device_code": device.device_code}
    try:
        return await _tokens(fetch, issuer, client, form, resource, None, scopes)
    except TokenRefused as error:
        if error.error == "authorization_pending":
            return wait
        if error.error == "slow_down":
            return min(wait + _INTERVAL, _LONGEST_INTERVAL)
        raise


async def revoke(
    fetch: GuardedFetch,
    issuer: IssuerMetadata,
    client: Registration,
    token: str,
    *,
    hint: str = "refresh_token",
) -> bool:
    """Revoke a token at its issuer (RFC 7009); return False if the issuer has no endpoint for that."""
    endpoint = issuer.revocation_endpoint
    if endpoint is None:
        return False
    response, secrets = await _ask(fetch, endpoint, issuer, client, {"token": token, "token_type_hint": hint})
    raise_refusal(response, secrets)
    return True


async def _tokens(
    fetch: GuardedFetch,
    issuer: IssuerMetadata,
    client: Registration,
    form: Mapping[str, str],
    resource: str | None,
    scopes: Sequence[str] | None,
    counted: Sequence[str] | None,
) -> TokenResponse:
    """Return the tokens that a form requests. counted: the scopes of the grant if the answer names none."""
    response, secrets = await _ask(fetch, _endpoint(issuer), issuer, client, _with(form, resource, scopes))
    return read_tokens(response, counted, secrets)


def _endpoint(issuer: IssuerMetadata) -> str:
    if issuer.token_endpoint is None:
        raise TokenRefused("unsupported", f"{issuer.issuer} has no token endpoint")
    return issuer.token_endpoint


def _with(form: Mapping[str, str], resource: str | None, scopes: Sequence[str] | None) -> dict[str, str]:
    more = {"resource": resource, "scope": " ".join(scopes) if scopes else None}
    return {**form, **{name: value for name, value in more.items() if value is not None}}


async def _ask(
    fetch: GuardedFetch, endpoint: str, issuer: IssuerMetadata, client: Registration, form: Mapping[str, str]
) -> tuple[Fetched, tuple[str, ...]]:
    """Post a form as the client; return the response, and the secrets that were in the request."""
    if client.issuer != issuer.issuer and client.kind != "document":
        raise TokenRefused("invalid_client", f"the client id is that of {client.issuer}, and not of {issuer.issuer}")
    try:
        headers, params = proof(issuer, client)
    except ValueError as error:
        raise TokenRefused("invalid_client", error_text(error)) from None
    sent = {**form, **params}
    named = {name: value for name, value in sent.items() if name in _SECRETS}
    if client.client_secret is not None:
        named["client_secret"] = client.client_secret
    secrets = tuple(named.values())
    await fetch.learn(named)
    try:
        response = await fetch.post_form(endpoint, sent, headers)
        await fetch.learn(credentials_in(response))
        return response, secrets
    except FetchFailed as error:
        reason = readable(error.reason, secrets)
        if error.transient:
            raise TokenUnavailable(reason) from None
        raise TokenRefused("not_asked", reason) from None


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
