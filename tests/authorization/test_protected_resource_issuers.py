"""Issuers that change their keys, are away, or misbehave: what becomes of their tokens at the gateway over HTTP."""

import asyncio
import secrets
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from aggregator.identity.tokens import jwks, verifier
from tests.authorization.authorization_server import AuthorizationServer, answer_with
from tests.authorization.resource_harness import (
    LIST,
    MODERN_HEADERS,
    OTHERS,
    Issuers,
    ResourceHarness,
    ask,
    good,
)
from tests.authorization.signing_keys import make_key
from tests.end_to_end.scripted_host import http_client
from tests.peers.serving import BackgroundLoop
from tests.polling import until

SECRET: Final = "introspection-of-the-tests"
# Each test that spoils an issuer has one of its own.
NAMES: Final = (
    "rotating",
    "withdrawing",
    "late",
    "lost",
    "flooded",
    "huge",
    "redirecting",
    "no-json",
    "no-keys",
    "many-keys",
    "failing",
    "private",
    "wrong-issuer",
    "secret-keys",
    "slow",
    "first",
    "opaque",
)


@pytest.fixture(scope="module")
def issuers(background: BackgroundLoop, patched: pytest.MonkeyPatch) -> Issuers:
    """Many issuers, of which each test spoils one."""
    # A token of an unknown key has the keys fetched at once; how seldom that happens is a test of its own.
    patched.setattr(jwks, "ASK_EVERY", 0.0)
    patched.setattr(verifier, "_INACTIVE_FOR", 0.0)
    made = Issuers(background, *NAMES)
    made["opaque"].opaque = True
    made["opaque"].add_client("aggregator", SECRET)
    return made


@pytest.fixture(scope="module")
def gateway(background: BackgroundLoop, issuers: Issuers, tmp_path_factory: pytest.TempPathFactory) -> ResourceHarness:
    """A gateway that accepts tokens of all of them."""
    asked = {"introspection": {"client_id": "aggregator", "client_secret": SECRET, "cache": 0.05}}
    return ResourceHarness(background, tmp_path_factory.mktemp("issuers"), issuers, {"opaque": asked})


@pytest.fixture
def client(gateway: ResourceHarness) -> Iterator[httpx2.Client]:
    """A client of the shared gateway."""
    with gateway.http() as made:
        yield made


def test_new_key_is_fetched_and_the_old_one_ends(issuers: Issuers, client: httpx2.Client) -> None:
    issuer = issuers["rotating"]
    before = good(issuer)
    assert ask(client, before).status_code == 200
    assert ask(client, before).status_code == 200
    assert issuer.counts["jwks"] == 1
    issuer.keys.rotate()
    assert ask(client, good(issuer)).status_code == 200
    assert issuer.counts["jwks"] == 2
    # What was verified with the withdrawn key counts no longer.
    assert ask(client, before).status_code == 401


def test_new_key_beside_the_old_one_ends_nothing(issuers: Issuers, client: httpx2.Client) -> None:
    issuer = issuers["withdrawing"]
    before = good(issuer)
    assert ask(client, before).status_code == 200
    issuer.keys.current = issuer.keys.add("ES256")
    assert ask(client, good(issuer)).status_code == 200
    assert ask(client, before).status_code == 200


def test_issuer_that_is_away_at_first_lets_nobody_in_until_it_is_back(issuers: Issuers, client: httpx2.Client) -> None:
    issuer = issuers["late"]
    issuer.instead["jwks"] = answer_with(503)
    answer = ask(client, good(issuer))
    assert (answer.status_code, "retry-after" in answer.headers) == (503, True)
    assert issuer.address not in answer.text
    del issuer.instead["jwks"]
    assert ask(client, good(issuer)).status_code == 200


def test_known_keys_count_while_the_issuer_is_away(issuers: Issuers, client: httpx2.Client) -> None:
    issuer = issuers["lost"]
    assert ask(client, good(issuer)).status_code == 200
    issuer.instead["jwks"] = issuer.instead["metadata"] = answer_with(500)
    assert ask(client, good(issuer, "rita")).status_code == 200
    kid = issuer.keys.add("ES256")
    assert ask(client, issuer.keys.sign({"iss": issuer.issuer}, kid)).status_code in (401, 503)
    assert ask(client, good(issuer, "bob")).status_code == 200


def test_unknown_keys_cause_few_fetches(
    issuers: Issuers, client: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jwks, "ASK_EVERY", 60.0)
    issuer = issuers["flooded"]
    key = make_key("ES256")
    assert ask(client, good(issuer)).status_code == 200
    for _ in range(100):
        kid = issuer.keys.add("ES256", secrets.token_hex(8), key)
        token = issuer.keys.sign({"iss": issuer.issuer, "sub": "alice"}, kid)
        del issuer.keys.keys[kid]
        assert ask(client, token).status_code == 401
    assert issuer.counts["jwks"] <= 2
    assert ask(client, good(issuer, "bob")).status_code == 200


def test_many_first_requests_cause_one_fetch(gateway: ResourceHarness, issuers: Issuers) -> None:
    issuer = issuers["first"]

    def one(number: int) -> int:
        with gateway.http() as client:
            return ask(client, good(issuer)).status_code

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(one, range(16))) == {200}
    assert issuer.counts["jwks"] == 1


SPOILT: Final[dict[str, dict[str, Any]]] = {
    "huge": {"jwks": answer_with(200, b'{"keys": [' + b" " * 2**21 + b"]}")},
    "redirecting": {"jwks": answer_with(302, location="http://127.0.0.1:1/keys")},
    "no-json": {"jwks": answer_with(200, b"<html>")},
    "no-keys": {"jwks": answer_with(200, b'{"keys": 7}')},
    "many-keys": {"jwks": answer_with(200, b'{"keys": [' + b'{"kty":"EC"},' * 5000 + b'{"kty":"EC"}]}')},
    "failing": {"metadata": answer_with(500)},
}


@pytest.mark.parametrize("name", SPOILT)
def test_issuer_that_misbehaves_lets_nobody_in_and_hurts_no_other(
    name: str, issuers: Issuers, client: httpx2.Client
) -> None:
    issuer = issuers[name]
    issuer.instead = SPOILT[name]
    answer = ask(client, good(issuer))
    assert answer.status_code == 503, answer.text
    assert ask(client, good(issuers["rotating"])).status_code == 200
    issuer.instead = {}
    assert ask(client, good(issuer)).status_code == 200


@pytest.mark.parametrize(
    "address",
    ["http://169.254.169.254/keys", "https://10.0.0.1/keys", "https://[fd00::1]/keys", "http://login.example.com/keys"],
)
def test_keys_are_never_fetched_from_a_private_network(address: str, issuers: Issuers, client: httpx2.Client) -> None:
    issuer = issuers["private"]
    issuer.metadata["jwks_uri"] = address
    assert ask(client, good(issuer)).status_code == 503


def test_metadata_of_another_issuer_are_not_used(issuers: Issuers, client: httpx2.Client) -> None:
    issuer = issuers["wrong-issuer"]
    for other in (f"{issuer.issuer}/other", "https://login.example.com", issuers["rotating"].issuer):
        issuer.metadata["issuer"] = other
        assert ask(client, good(issuer)).status_code == 503
    assert issuer.counts["jwks"] == 0
    del issuer.metadata["issuer"]
    assert ask(client, good(issuer)).status_code == 200


def test_published_secret_verifies_nothing(issuers: Issuers, client: httpx2.Client) -> None:
    """An issuer that lists a symmetric or a weak key by mistake does not let everyone in who can read it."""
    issuer = issuers["secret-keys"]
    for algorithm in ("HS256", "RS256"):
        kid = issuer.keys.add(algorithm)
        listed = {"kty": "oct", "k": "c2VjcmV0", "kid": kid, "alg": algorithm, "use": "sig"}
        assert ask(client, issuer.keys.sign({"iss": issuer.issuer, "sub": "alice"}, kid)).status_code == 401, listed
    assert ask(client, good(issuer)).status_code == 200


def test_slow_issuer_delays_nobody_else(
    background: BackgroundLoop, gateway: ResourceHarness, issuers: Issuers, client: httpx2.Client
) -> None:
    issuer = issuers["slow"]
    asked, go_on = threading.Event(), asyncio.Event()

    async def wait() -> None:
        asked.set()
        await go_on.wait()

    issuer.before["jwks"] = wait
    with ThreadPoolExecutor(1) as threads, gateway.http() as other:
        waiting = threads.submit(ask, other, good(issuer))
        assert asked.wait(20)
        assert ask(client, good(issuers["rotating"])).status_code == 200
        background.run(_set(go_on))
        assert waiting.result().status_code == 200


def test_flood_of_one_sender_leaves_places_for_others(
    background: BackgroundLoop, issuers: Issuers, tmp_path: Path
) -> None:
    """However slowly the issuer says what it thinks of a stranger's tokens."""
    issuer = issuers["opaque"]
    fields = {"introspection": {"client_id": "aggregator", "client_secret": SECRET}}
    http = {"trusted_proxies": ["127.0.0.1"]}
    gateway = ResourceHarness(background, tmp_path, issuers, {"opaque": fields}, http=http)
    go_on = asyncio.Event()
    issuer.before["introspect"] = go_on.wait

    async def flood() -> tuple[list[int], int]:
        def send(client: httpx2.AsyncClient, token: str, sender: str) -> "asyncio.Task[httpx2.Response]":
            headers = {**MODERN_HEADERS, "authorization": f"Bearer {token}", "x-forwarded-for": sender}
            return asyncio.create_task(client.post("/mcp", json=LIST, headers=headers))

        async with http_client(gateway.url) as client:
            sent = [send(client, secrets.token_urlsafe(24), "192.0.2.7") for _ in range(100)]
            await until(lambda: sum(task.done() for task in sent) == 36)
            mine = send(client, good(issuer), "192.0.2.8")
            await background.elsewhere(_set(go_on))
            return [(await task).status_code for task in sent], (await mine).status_code

    answers, mine = asyncio.run(flood())
    assert mine == 200
    assert set(answers) == {401, 429}
    assert answers.count(429) == 36
    issuer.before.clear()


async def _set(event: asyncio.Event) -> None:
    event.set()


class TestOpaqueTokens:
    """Tokens that the issuer is asked about (RFC 7662)."""

    @pytest.fixture
    def issuer(self, issuers: Issuers) -> Iterator[AuthorizationServer]:
        """The one issuer that answers questions about tokens, as it should."""
        yield issuers["opaque"]
        issuers["opaque"].instead.clear()
        issuers["opaque"].before.clear()

    def test_active_token_is_accepted_and_the_answer_counts_for_a_while(
        self, issuer: AuthorizationServer, client: httpx2.Client
    ) -> None:
        assert ask(client, good(issuer)).status_code == 200
        assert ask(client, good(issuer, "rita")).status_code == 200

    @pytest.mark.parametrize(
        "claims",
        [
            {"audience": OTHERS},
            {"audience": None},
            {"iss": "https://login.example.com"},
            {"lifetime": -120},
            {"sub": None},
            {"sub": 7},
            {"token_type": "DPoP"},
            {"token_type": 7},
            {"cnf": {"x5t#S256": "x"}},
            {"exp": "4102444800"},
            {"nbf": 4102444800},
        ],
        ids=str,
    )
    def test_answer_is_checked_as_claims_are(
        self, claims: dict[str, Any], issuer: AuthorizationServer, client: httpx2.Client
    ) -> None:
        assert ask(client, good(issuer, **claims)).status_code == 401

    @pytest.mark.parametrize(
        "answer",
        [
            b'{"active": "true", "sub": "alice", "aud": "aggregator"}',
            b'{"active": 1, "sub": "alice", "aud": "aggregator"}',
            b'{"active": false, "sub": "alice", "aud": "aggregator"}',
            b'{"sub": "alice", "aud": "aggregator"}',
        ],
    )
    def test_only_true_is_active(self, answer: bytes, issuer: AuthorizationServer, client: httpx2.Client) -> None:
        issuer.instead["introspect"] = answer_with(200, answer)
        assert ask(client, secrets.token_urlsafe(24)).status_code == 401

    @pytest.mark.parametrize(
        "answer",
        [
            answer_with(500),
            answer_with(401),
            answer_with(200, b"no"),
            answer_with(200, b"[]"),
            answer_with(302, location="http://127.0.0.1:1/"),
            answer_with(200, b" " * 2**20),
        ],
    )
    def test_issuer_that_cannot_be_asked_lets_nobody_in(
        self, answer: Any, issuer: AuthorizationServer, client: httpx2.Client
    ) -> None:
        issuer.instead["introspect"] = answer
        refused = ask(client, good(issuer))
        assert (refused.status_code, "www-authenticate" in refused.headers) == (503, False)
        del issuer.instead["introspect"]
        assert ask(client, good(issuer)).status_code == 200

    def test_revoked_token_ends(self, issuer: AuthorizationServer, client: httpx2.Client) -> None:
        token = good(issuer)
        assert ask(client, token).status_code == 200
        issuer.revoke(token)
        asked = issuer.counts["introspect"]
        while ask(client, token).status_code != 401:
            assert issuer.counts["introspect"] <= asked, "the issuer said that it is not active"

    def test_unknown_text_is_no_token(self, issuer: AuthorizationServer, client: httpx2.Client) -> None:
        assert ask(client, secrets.token_urlsafe(24)).status_code == 401
        assert ask(client, "x" * 30_000).status_code in (401, 431)

    def test_jwt_of_an_issuer_is_never_asked_about(
        self, issuers: Issuers, issuer: AuthorizationServer, client: httpx2.Client
    ) -> None:
        asked = issuer.counts["introspect"]
        assert ask(client, good(issuers["rotating"], audience=OTHERS)).status_code == 401
        assert issuer.counts["introspect"] == asked

    def test_key_is_never_sent_to_an_issuer(
        self, issuer: AuthorizationServer, gateway: ResourceHarness, client: httpx2.Client
    ) -> None:
        asked = issuer.counts["introspect"]
        assert ask(client, f"{gateway.keys['clerk'][:-3]}abc").status_code == 401
        assert issuer.counts["introspect"] == asked
