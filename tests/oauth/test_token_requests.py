"""Token requests: what is sent, how the client proves itself, and what each answer means."""

import base64
import json
import time
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote_plus

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.accounts.oauth import token_requests
from aggregator.accounts.oauth.authorization import begin
from aggregator.accounts.oauth.fetch import Fetched, GuardedFetch
from aggregator.accounts.oauth.metadata import IssuerMetadata
from aggregator.accounts.oauth.registration import ClientAuthentication, Registration
from aggregator.accounts.oauth.token_requests import (
    ID_JAG,
    ID_TOKEN,
    DeviceAuthorization,
    client_credentials,
    device_authorization,
    device_poll,
    exchange_code,
    exchange_token,
    jwt_bearer,
    proof,
    refresh,
    revoke,
)
from aggregator.accounts.oauth.token_response import (
    TokenRefused,
    TokenResponse,
    TokenUnavailable,
    credentials_in,
    read_tokens,
)
from tests.oauth.keys import pem, private_key
from tests.oauth.site import Site

RESOURCE = "https://mcp.example/mcp"
GOOD = {"access_token": "at-1", "token_type": "bearer", "expires_in": 60, "refresh_token": "rt-1", "scope": "a b"}


def _issuer(site: Site, **more: Any) -> IssuerMetadata:
    return IssuerMetadata(
        site.url,
        authorization_endpoint=f"{site.url}/authorize",
        token_endpoint=f"{site.url}/token",
        code_challenge_methods_supported=("S256",),
        **more,
    )


def _fetch(site: Site) -> GuardedFetch:
    return GuardedFetch().within(site.url)


def _public(site: Site) -> Registration:
    return Registration(site.url, "client-1")


async def test_a_code_becomes_tokens(site: Site) -> None:
    site.say("/token", GOOD)
    issuer, client = _issuer(site), _public(site)
    attempt = begin(issuer, client, "http://127.0.0.1:1/cb", resource=RESOURCE, scopes=("a",))
    before = time.time()
    tokens = await exchange_code(_fetch(site), issuer, client, attempt, "code-1")
    assert (tokens.access, tokens.refresh, tokens.scopes) == ("at-1", "rt-1", ("a", "b"))
    assert tokens.expires_at is not None
    assert before + 60 <= tokens.expires_at <= time.time() + 60
    assert site.asked[0].form == {
        "grant_type": "authorization_code",
        "code": "code-1",
        "redirect_uri": "http://127.0.0.1:1/cb",
        "code_verifier": attempt.verifier,
        "resource": RESOURCE,
        "client_id": "client-1",
    }
    assert "at-1" not in repr(tokens)
    assert "rt-1" not in repr(tokens)


async def test_a_code_goes_to_its_own_issuer_only(site: Site) -> None:
    client = _public(site)
    attempt = begin(_issuer(site), client, "http://127.0.0.1:1/cb", resource=RESOURCE)
    other = IssuerMetadata("https://other.example", token_endpoint=f"{site.url}/token")
    with pytest.raises(TokenRefused):
        await exchange_code(_fetch(site), other, client, attempt, "code-1")
    with pytest.raises(TokenRefused, match="client id is that of"):
        await refresh(_fetch(site), other, client, "rt-1", resource=RESOURCE)
    assert site.asked == []


async def test_a_refresh_asks_for_no_scopes_and_keeps_those_it_had(site: Site) -> None:
    site.say("/token", {"access_token": "at-2", "expires_in": "3600"})
    tokens = await refresh(_fetch(site), _issuer(site), _public(site), "rt-1", resource=RESOURCE, scopes=("a", "b"))
    assert (tokens.access, tokens.refresh, tokens.scopes) == ("at-2", None, ("a", "b"))
    assert site.asked[0].form == {
        "grant_type": "refresh_token",
        "refresh_token": "rt-1",
        "resource": RESOURCE,
        "client_id": "client-1",
    }


async def test_other_grants_send_what_their_rfc_says(site: Site) -> None:
    fetch, issuer, client = _fetch(site), _issuer(site), _public(site)
    site.say("/token", GOOD)
    await client_credentials(fetch, issuer, client, resource=RESOURCE, scopes=("a",))
    await jwt_bearer(fetch, issuer, client, "jag-1", resource=RESOURCE, scopes=None)
    await exchange_token(fetch, issuer, client, "st-1", resource=RESOURCE)
    site.say("/token", {"access_token": "jag-1", "issued_token_type": ID_JAG, "token_type": "N_A"})
    jag = await exchange_token(
        fetch,
        issuer,
        client,
        "id-1",
        subject_token_type=ID_TOKEN,
        requested_token_type=ID_JAG,
        meant_for="https://as.example",
        resource=RESOURCE,
    )
    assert jag.access == "jag-1"
    forms = [{name: value for name, value in asked.form.items() if name != "client_id"} for asked in site.asked]
    assert forms == [
        {"grant_type": "client_credentials", "resource": RESOURCE, "scope": "a"},
        {
            "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
            "assertion": "jag-1",
            "resource": RESOURCE,
        },
        {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "subject_token": "st-1",
            "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "resource": RESOURCE,
        },
        {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "subject_token": "id-1",
            "subject_token_type": ID_TOKEN,
            "requested_token_type": ID_JAG,
            "audience": "https://as.example",
            "resource": RESOURCE,
        },
    ]
    site.say("/token", GOOD)
    with pytest.raises(TokenRefused, match="type"):
        await exchange_token(fetch, issuer, client, "id-1", requested_token_type=ID_JAG)


@given(st.text(min_size=1), st.text(min_size=1))
def test_a_secret_in_the_header_is_read_back(client_id: str, secret: str) -> None:
    client = Registration("https://as.example", client_id, secret, "client_secret_basic")
    try:
        headers, params = proof(IssuerMetadata("https://as.example"), client)
    except UnicodeEncodeError:
        return
    pair = base64.b64decode(headers["Authorization"].removeprefix("Basic ")).decode("ascii")
    assert [unquote_plus(part) for part in pair.split(":")] == [client_id, secret]
    assert params == {}


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("client_secret_post", {"client_id": "c", "client_secret": "s"}),
        ("none", {"client_id": "c"}),
    ],
)
def test_a_secret_goes_where_it_belongs(method: ClientAuthentication, expected: dict[str, str]) -> None:
    assert proof(IssuerMetadata("https://a"), Registration("https://a", "c", "s", method)) == ({}, expected)


@pytest.mark.parametrize(
    ("kind", "accepted", "algorithm"),
    [
        ("rsa2048", None, "RS256"),
        ("rsa2048", ("PS256", "ES256"), "PS256"),
        *(("rsa2048", ("ES256", one), one) for one in ("RS384", "RS512", "PS384", "PS512")),
        ("p256", None, "ES256"),
        ("p384", ("ES256", "ES384"), "ES384"),
        ("p521", None, "ES512"),
        ("ed25519", None, "EdDSA"),
    ],
)
def test_a_private_key_signs_for_one_issuer_and_one_minute(
    kind: str, accepted: tuple[str, ...] | None, algorithm: str
) -> None:
    key = private_key(kind)
    issuer = IssuerMetadata("https://as.example", token_endpoint_auth_signing_alg_values_supported=accepted)
    client = Registration("https://as.example", "c", method="private_key_jwt", private_key=pem(key))
    headers, params = proof(issuer, client)
    assert headers == {}
    assert jwt.get_unverified_header(params["client_assertion"])["alg"] == algorithm
    claims = jwt.decode(
        params["client_assertion"], key.public_key(), algorithms=[algorithm], audience="https://as.example"
    )
    assert (claims["iss"], claims["sub"]) == ("c", "c")
    assert claims["exp"] - claims["iat"] == 60
    assert proof(issuer, client)[1]["client_assertion"] != params["client_assertion"]


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ("not a key", None),
        (pem(private_key("k1")), None),
        (pem(private_key("rsa1024")), None),
        (pem(private_key("p256")), ("RS256",)),
        (pem(private_key("p256")), ("HS256", "none")),
    ],
)
async def test_a_key_that_cannot_sign_is_told_without_the_key(
    site: Site, text: str, accepted: tuple[str, ...] | None
) -> None:
    issuer = _issuer(site, token_endpoint_auth_signing_alg_values_supported=accepted)
    client = Registration(site.url, "c", method="private_key_jwt", private_key=text)
    with pytest.raises(TokenRefused, match=r"auth\.private_key") as refused:
        await client_credentials(_fetch(site), issuer, client, resource=RESOURCE)
    assert "PRIVATE KEY---" not in str(refused.value)
    assert site.asked == []


@pytest.mark.parametrize(
    ("status", "answer", "error"),
    [
        (400, {"error": "invalid_grant", "error_description": "gone"}, "invalid_grant"),
        (401, {"error": "invalid_client"}, "invalid_client"),
        # GitHub answers errors with 200.
        (200, {"error": "bad_verification_code"}, "bad_verification_code"),
        (400, b"<html>not found</html>", "http_400"),
        (404, {}, "http_404"),
        (200, {}, "invalid_response"),
        (200, b"access_token=x&token_type=bearer", "invalid_response"),
        (200, {"access_token": "a", "token_type": "DPoP"}, "invalid_response"),
        (200, {"access_token": "a", "token_type": 5}, "invalid_response"),
        (200, {"access_token": ""}, "invalid_response"),
        (200, {"access_token": "a\r\nX: y"}, "invalid_response"),
        (200, {"access_token": "x" * 70_000}, "invalid_response"),
        (200, {"access_token": ["a"]}, "invalid_response"),
        (302, {}, "not_asked"),
    ],
)
async def test_a_refusal_keeps_its_code(site: Site, status: int, answer: Any, error: str) -> None:
    site.say("/token", answer, status, {"location": "https://elsewhere.example/?code=x"} if status == 302 else None)
    with pytest.raises(TokenRefused) as refused:
        await refresh(_fetch(site), _issuer(site), _public(site), "rt-1", resource=RESOURCE)
    assert refused.value.error == error
    assert "elsewhere.example/?" not in str(refused.value)


@pytest.mark.parametrize(
    ("status", "answer", "headers", "expected"),
    [
        (500, {"error": "invalid_grant"}, {}, None),
        (503, b"", {"retry-after": "7"}, 7.0),
        (429, {"error": "slow_down"}, {"retry-after": "99999"}, 3600.0),
        (503, b"", {"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
        (503, b"", {"retry-after": "soon"}, None),
        (400, {"error": "temporarily_unavailable"}, {}, None),
    ],
)
async def test_trouble_there_says_nothing_of_the_grant(
    site: Site, status: int, answer: Any, headers: dict[str, str], expected: float | None
) -> None:
    site.say("/token", answer, status, headers)
    with pytest.raises(TokenUnavailable) as failed:
        await refresh(_fetch(site), _issuer(site), _public(site), "rt-1", resource=RESOURCE)
    assert failed.value.retry_after == expected


async def test_what_was_sent_as_a_secret_is_not_told(site: Site) -> None:
    said = "the token canary-refresh-token of canary-client-secret\x1b[31m is unknown"
    site.say("/token", {"error": "invalid_grant", "error_description": said}, 400)
    client = Registration(site.url, "c", "canary-client-secret", "client_secret_basic")
    with pytest.raises(TokenRefused) as refused:
        await refresh(_fetch(site), _issuer(site), client, "canary-refresh-token", resource=RESOURCE)
    assert "canary" not in str(refused.value)
    assert "\x1b" not in str(refused.value)
    assert refused.value.description.startswith("the token *** of ***")


async def test_the_end_of_long_words_is_no_half_of_a_secret(site: Site) -> None:
    """Who shows them takes out secrets that are whole; the ones of others are not known here."""
    site.say("/token", {"error": "invalid_grant", "error_description": f"{'no ' * 65}canary-{'x' * 40}"}, 400)
    with pytest.raises(TokenRefused) as refused:
        await refresh(_fetch(site), _issuer(site), _public(site), "rt-1", resource=RESOURCE)
    assert refused.value.description == "no " * 65 + "…"


def test_every_credential_of_an_answer_is_known_for_what_it_is() -> None:
    """So that no sink has it, whatever repeats it."""
    names = ("access_token", "refresh_token", "id_token", "device_code")
    given = {name: f"canary-{name}" for name in names}
    assert credentials_in(Fetched(200, {}, json.dumps({**given, "scope": "a", "user_code": "b"}).encode())) == given
    odd = {"access_token": 7, "refresh_token": "", "id_token": "a b\n", "device_code": None}
    assert credentials_in(Fetched(200, {}, json.dumps(odd).encode())) == {}
    assert credentials_in(Fetched(200, {}, b"<html>")) == {}


@pytest.mark.parametrize("expires", [None, -1, "x", True, [], 1e400, "nan", {"a": 1}])
def test_a_life_that_is_no_number_is_not_known(expires: Any) -> None:
    body = json.dumps({"access_token": "a", "expires_in": expires}).encode()
    found = read_tokens(Fetched(200, {}, body), None, ())
    assert found.expires_at is None or found.expires_at > time.time()


async def test_a_person_agrees_at_another_device(site: Site) -> None:
    issuer = _issuer(site, device_authorization_endpoint=f"{site.url}/device")
    fetch, client = _fetch(site), _public(site)
    answer = {"device_code": "dc-1234567", "user_code": "AB-CD", "verification_uri": f"{site.url}/enter"}
    site.say("/device", {**answer, "expires_in": 300, "interval": 2})
    device = await device_authorization(fetch, issuer, client, resource=RESOURCE, scopes=("a",))
    assert (device.user_code, device.interval) == ("AB-CD", 2.0)
    assert "dc-1234567" not in repr(device)
    site.say("/token", {"error": "authorization_pending"}, 400)
    assert await device_poll(fetch, issuer, client, device, resource=RESOURCE) == 2.0
    site.say("/token", {"error": "slow_down"}, 400)
    assert await device_poll(fetch, issuer, client, device, resource=RESOURCE, interval=2.0) == 7.0
    site.say("/token", {"error": "access_denied"}, 400)
    with pytest.raises(TokenRefused, match="access_denied"):
        await device_poll(fetch, issuer, client, device, resource=RESOURCE)
    site.say("/token", GOOD)
    tokens = await device_poll(fetch, issuer, client, device, resource=RESOURCE)
    assert isinstance(tokens, TokenResponse)
    late = DeviceAuthorization("dc", "AB", "https://x.example", None, 0.0, 5.0)
    with pytest.raises(TokenRefused, match="expired_token"):
        await device_poll(fetch, issuer, client, late, resource=RESOURCE)


@pytest.mark.parametrize(
    "change",
    [
        {"verification_uri": "javascript:alert(1)"},
        {"verification_uri": "http://10.0.0.1/"},
        {"verification_uri_complete": "file:///etc/passwd"},
        {"user_code": ""},
        {"user_code": "a\nb"},
        {"device_code": 5},
    ],
)
async def test_a_person_is_led_nowhere_strange(site: Site, change: dict[str, Any]) -> None:
    issuer = _issuer(site, device_authorization_endpoint=f"{site.url}/device")
    answer = {"device_code": "dc-1", "user_code": "AB-CD", "verification_uri": f"{site.url}/enter", **change}
    site.say("/device", answer)
    with pytest.raises(TokenRefused, match="invalid_response"):
        await device_authorization(_fetch(site), issuer, _public(site), resource=RESOURCE)


async def test_a_token_is_ended_where_that_is_offered(site: Site) -> None:
    site.say("/revoke", b"")
    issuer = _issuer(site, revocation_endpoint=f"{site.url}/revoke")
    assert await revoke(_fetch(site), issuer, _public(site), "rt-1")
    assert site.asked[0].form == {"token": "rt-1", "token_type_hint": "refresh_token", "client_id": "client-1"}
    assert not await revoke(_fetch(site), _issuer(site), _public(site), "rt-1")
    site.say("/revoke", b"", 503)
    with pytest.raises(TokenUnavailable):
        await revoke(_fetch(site), issuer, _public(site), "rt-1")


async def test_what_an_issuer_does_not_offer_is_told(site: Site) -> None:
    bare = IssuerMetadata(site.url)
    for ask in (
        refresh(_fetch(site), bare, _public(site), "rt-1", resource=None),
        device_authorization(_fetch(site), bare, _public(site), resource=None),
    ):
        with pytest.raises(TokenRefused, match="unsupported"):
            await ask


@pytest.mark.parametrize(
    ("said", "interval", "life"),
    [
        ({}, 5.0, 600.0),
        ({"interval": 0, "expires_in": 0}, 5.0, 600.0),
        ({"interval": 0.2, "expires_in": 60}, 1.0, 60.0),
        ({"interval": 7, "expires_in": 1800}, 7.0, 1800.0),
        ({"interval": 61, "expires_in": 1801}, 60.0, 1800.0),
        ({"interval": "soon", "expires_in": "late"}, 5.0, 600.0),
    ],
)
async def test_a_device_is_asked_about_as_often_and_as_long_as_its_issuer_says(
    site: Site, said: dict[str, Any], interval: float, life: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within bounds; RFC 8628, 3.2 has the defaults."""
    monkeypatch.setattr(token_requests, "time", SimpleNamespace(time=lambda: 1_000.0))
    answer = {"device_code": "dc", "user_code": "AB-CD", "verification_uri": f"{site.url}/device"}
    site.say("/device", {**answer, **said})
    issuer = _issuer(site, device_authorization_endpoint=f"{site.url}/device")
    device = await device_authorization(_fetch(site), issuer, _public(site), resource=RESOURCE)
    assert (device.interval, device.expires_at) == (interval, 1_000.0 + life)
