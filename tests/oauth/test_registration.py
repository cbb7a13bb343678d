"""The client id of the aggregator: configured, a document, registered; or words that say what to do."""

from typing import Any

import pytest
from mcp.shared.auth import OAuthClientMetadata

from aggregator.accounts.oauth.client_document import client_document
from aggregator.accounts.oauth.fetch import GuardedFetch
from aggregator.accounts.oauth.metadata import IssuerMetadata
from aggregator.accounts.oauth.registration import (
    ConfiguredClient,
    Registration,
    RegistrationFailed,
    application_type,
    register,
)
from tests.oauth.site import Site

HERE = "http://127.0.0.1:1234/callback"
DOCUMENT = "https://gateway.example/oauth/client.json"


def _issuer(site: Site, **more: Any) -> IssuerMetadata:
    return IssuerMetadata(site.url, registration_endpoint=f"{site.url}/register", **more)


async def _register(site: Site, issuer: IssuerMetadata, redirect_uri: str = HERE, **more: Any) -> Registration:
    return await register(GuardedFetch().within(site.url), issuer, redirect_uri, **more)


@pytest.mark.parametrize(
    ("client", "methods", "expected"),
    [
        (ConfiguredClient("a", "secret-1"), None, "client_secret_basic"),
        (ConfiguredClient("a", "secret-1"), ("client_secret_post", "client_secret_basic"), "client_secret_basic"),
        (ConfiguredClient("a", "secret-1"), ("client_secret_post",), "client_secret_post"),
        (ConfiguredClient("a", "secret-1"), ("private_key_jwt",), "client_secret_basic"),
        (ConfiguredClient("a", None, "-----"), None, "private_key_jwt"),
        (ConfiguredClient("a"), None, "none"),
    ],
)
async def test_a_configured_client_comes_first(
    site: Site, client: ConfiguredClient, methods: tuple[str, ...] | None, expected: str
) -> None:
    issuer = _issuer(site, token_endpoint_auth_methods_supported=methods, client_id_metadata_document_supported=True)
    found = await _register(site, issuer, configured=client, client_id_url=DOCUMENT)
    assert (found.client_id, found.method, found.kind) == ("a", expected, "configured")
    assert site.asked == []
    assert "secret-1" not in repr(found) + repr(client)


async def test_then_the_document_where_it_is_supported(site: Site) -> None:
    found = await _register(site, _issuer(site, client_id_metadata_document_supported=True), client_id_url=DOCUMENT)
    assert (found.client_id, found.client_secret, found.method, found.kind) == (DOCUMENT, None, "none", "document")
    assert site.asked == []


@pytest.mark.parametrize(
    ("redirect_uri", "kind"), [(HERE, "native"), ("https://gateway.example/connect/callback", "web")]
)
async def test_then_it_is_registered(site: Site, redirect_uri: str, kind: str) -> None:
    site.say("/register", {"client_id": "c1", "client_secret": "s-1234567", "client_secret_expires_at": 4e9}, 201)
    found = await _register(site, _issuer(site), redirect_uri, client_id_url=DOCUMENT, scopes=("a", "b"))
    assert found == Registration(
        site.url, "c1", "s-1234567", "client_secret_basic", "dynamic", 4e9, redirect_uris=(redirect_uri,)
    )
    (asked,) = site.asked
    sent = OAuthClientMetadata.model_validate_json(asked.body)
    assert sent.application_type == kind
    assert sent.grant_types == ["authorization_code", "refresh_token"]
    assert [str(uri) for uri in sent.redirect_uris or ()] == [redirect_uri]
    assert sent.scope == "a b"
    assert Registration.from_json(found.to_json()) == found


@pytest.mark.parametrize(
    ("supported", "answer", "expected"),
    [
        (("none",), {"client_secret": "unasked-for"}, "none"),
        (("none",), {}, "none"),
        (("client_secret_post", "none"), {"client_secret": "s"}, "client_secret_post"),
        (None, {"client_secret": "s", "token_endpoint_auth_method": "client_secret_post"}, "client_secret_post"),
        (None, {"token_endpoint_auth_method": "none"}, "none"),
        (None, {}, "none"),
    ],
)
async def test_the_proof_is_what_both_can(
    site: Site, supported: tuple[str, ...] | None, answer: dict[str, str], expected: str
) -> None:
    site.say("/register", {"client_id": "c1", **answer}, 201)
    found = await _register(site, _issuer(site, token_endpoint_auth_methods_supported=supported))
    assert found.method == expected


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        ({"error": "invalid_redirect_uri", "error_description": "no\nway"}, 400, "invalid_redirect_uri: noway"),
        (b"<html>", 403, "status 403"),
        ({}, 499, r"\(status 499\); register it there yourself"),
        ({}, 500, r"\(status 500\)$"),
        ({"error": "slow_down"}, 503, r"\(status 503, slow_down\)$"),
        ({"error": "slow_down"}, 429, r"\(status 429, slow_down\)$"),
        ({"client_secret": "s"}, 201, "without a client id"),
        ({"client_id": 5}, 201, "without a client id"),
        ({"client_id": "a\nb"}, 201, "without a client id"),
        ({"client_id": ""}, 201, "without a client id"),
        ({"client_id": "a" * 5_000}, 201, "without a client id"),
        *(({"client_id": "a", "client_secret": secret}, 201, "without a client id") for secret in ("", "s\n", 5)),
        ({"client_id": "a", "token_endpoint_auth_method": "tls_client_auth"}, 201, "tls_client_auth"),
        ({"client_id": "a", "token_endpoint_auth_method": "client_secret_post"}, 201, "gave none"),
        (b"[]", 201, "not a JSON object"),
    ],
)
async def test_a_refusal_says_why(site: Site, answer: Any, status: int, words: str) -> None:
    site.say("/register", answer, status)
    with pytest.raises(RegistrationFailed, match=words) as failed:
        await _register(site, _issuer(site))
    assert failed.value.transient == (status in (429, 500, 503))


async def test_the_end_of_long_words_is_no_half_of_a_secret(site: Site) -> None:
    """Who shows them takes out secrets that are whole."""
    site.say("/register", {"error": "invalid", "error_description": f"{'no ' * 60}canary-{'x' * 40} is known"}, 400)
    with pytest.raises(RegistrationFailed, match=r"invalid: no .*no …\)") as failed:
        await _register(site, _issuer(site))
    assert "canary" not in str(failed.value)


async def test_without_any_way_it_is_said_what_to_do(site: Site) -> None:
    bare = IssuerMetadata(site.url)
    with pytest.raises(RegistrationFailed, match=r"write its client id as `auth\.client_id`"):
        await _register(site, bare, client_id_url=DOCUMENT)
    documents = IssuerMetadata(site.url, client_id_metadata_document_supported=True)
    with pytest.raises(RegistrationFailed, match=r"`auth\.client_id_url`"):
        await _register(site, documents)


def test_the_document_names_its_own_address() -> None:
    document = client_document(DOCUMENT, ["https://gateway.example/connect/callback"])
    assert document["client_id"] == DOCUMENT
    assert document["token_endpoint_auth_method"] == "none"
    assert "refresh_token" in document["grant_types"]


@pytest.mark.parametrize("uri", ["http://localhost/x", "http://[::1]:1/x", "http://127.0.0.1:5/", "app:/callback"])
def test_a_redirect_to_the_persons_own_machine_is_native(uri: str) -> None:
    assert application_type(uri) == "native"
