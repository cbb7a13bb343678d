"""What is remembered of tokens and of the keys of an issuer, at its bounds: how much, how long, what replaces it."""

import base64
import time
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final
from urllib.parse import unquote_plus

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from jwt.algorithms import ECAlgorithm

from aggregator.config.auth.issuers import AuthConfig, IssuerConfig
from aggregator.domain.principal import TokenFacts
from aggregator.identity.tokens import introspection, verifier
from aggregator.identity.tokens.claims import UNDATED, facts_of
from aggregator.identity.tokens.key_set import read_key_set
from aggregator.identity.tokens.rejection import IssuerUnavailable, Rejection
from aggregator.identity.tokens.verifier import TokenCache, TokenVerifier, VerifiedToken

IDP: Final = "https://idp.example.com"
ISSUER: Final[dict[str, Any]] = {"issuer": IDP, "audience": ["aggregator"], "leeway": 30}
ASKED: Final = {"client_id": "a:b/c", "client_secret": "s&%+" * 4, "cache": 60, "url": f"{IDP}/introspect"}
CLAIMS: Final[dict[str, Any]] = {"active": True, "aud": "aggregator", "sub": "alice"}


def tokens_of(before: TokenVerifier | None = None, **auth: Any) -> TokenVerifier:
    issuer = IssuerConfig.model_validate({**ISSUER, "introspection": ASKED})
    return TokenVerifier(AuthConfig(issuers=(issuer,), **auth), before=before)


def facts(text: str = "", expires: float = 0.0, issuer: str = IDP) -> TokenFacts:
    return TokenFacts(issuer, "alice", "program", expires=expires, text=text)


def test_the_room_of_tokens_is_that_of_those_that_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """D7: what was replaced, removed or forgotten takes none of it."""
    monkeypatch.setattr(verifier, "_CHARACTERS", 100)
    for name in ("put again", "dropped", "cleared", "forgotten"):
        cache = TokenCache(most=3)
        first = "a" * 60
        for _ in range(3):
            cache.put(facts(first), 10.0)
            if name == "dropped":
                cache.drop(first)
            elif name == "cleared":
                cache.clear()
            elif name == "forgotten":
                for number in range(3):
                    cache.put(facts(f"{number}"), 10.0)
        kept = ["b" * (38 if name == "put again" else 90), "c" * 2]
        for text in kept:
            cache.put(facts(text), 10.0)
        assert all(cache.get(text, 0.0) for text in kept)
        assert bool(cache.get(first, 0.0)) is (name == "put again")
        cache.put(facts("d" * 70), 10.0)
        assert not cache.get(kept[0], 0.0), "there is no room for both"


def test_work_goes_on_with_the_newest_token_of_its_owner() -> None:
    """D4: until none of them counts; one that was withdrawn gives way to any."""
    tokens, now = tokens_of(), time.time()
    old, short, long = facts("1", now - 40), facts("2", now + 100), facts("3", now + 200)
    assert tokens.still(old, now) is None
    for one in (short, long, short):
        tokens.note(one)
    assert tokens.still(old, now) == long
    assert tokens.still(old, now + 229) == long
    assert tokens.still(old, now + 230) is None
    tokens._withdrawn.put(sha256(long.text.encode()).digest(), True)
    assert tokens.still(long, now) is None
    tokens.note(short)
    assert tokens.still(long, now) == short
    assert tokens.still(facts("4", now + 1e6, "https://other.example.com"), now) is None


@pytest.mark.parametrize(("now", "asks"), [(99.9, True), (100.0, False), (109.9, False), (110.0, True)])
def test_a_token_that_was_not_active_is_asked_for_again_after_a_while(now: float, asks: bool) -> None:
    """It is also if the clock was set back."""
    tokens = tokens_of()
    tokens._inactive.put(sha256(b"opaque").digest(), 110.0)
    checked = tokens.check("opaque", now)
    assert (checked is None) is asks
    assert asks or isinstance(checked, Rejection)


def answering(tokens: TokenVerifier, claims: Mapping[str, Any] | Exception) -> None:
    """Have the issuer say this of every opaque token."""
    assert tokens._opaque is not None

    async def ask(text: str) -> Mapping[str, Any]:
        if isinstance(claims, Exception):
            raise claims
        return claims

    tokens._opaque.introspection = type("Answering", (), {"ask": staticmethod(ask), "lasts": 1000.0, "problem": None})()


@pytest.mark.parametrize(("lifetime", "until"), [(10.0, 40.0), (5000.0, 1000.0), (None, 1000.0)])
async def test_what_an_issuer_said_counts_for_a_while_and_no_longer_than_the_token(
    lifetime: float | None, until: float
) -> None:
    tokens, now = tokens_of(), time.time()
    answering(tokens, {**CLAIMS, **({"exp": now + lifetime} if lifetime is not None else {})})
    for _ in range(2):
        assert isinstance(await tokens.verify("opaque"), VerifiedToken)
    assert tokens.known("opaque", now + until - 1)
    assert not tokens.known("opaque", now + until + BUSY)


# Seconds that the first verification may take on a busy machine.
BUSY: Final = 50.0


async def test_nothing_is_left_of_a_verification_that_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """D11: else so many tokens, good or bad, and none is verified any more."""
    monkeypatch.setattr(verifier, "_WAITING", 3)
    tokens = tokens_of()
    for claims in (CLAIMS, {**CLAIMS, "aud": "other"}, IssuerUnavailable("it is away")):
        answering(tokens, claims)
        found = [await tokens.verify(f"opaque-{number}-{claims}") for number in range(4)]
        assert {type(one) for one in found} == {type(found[0])}
    assert not tokens._asking


def test_keys_are_taken_over_if_they_would_be_fetched_alike() -> None:
    before = tokens_of()
    for auth, same in (({}, True), ({"scopes": ("mcp",)}, True), ({"private_hosts": ("idp.example.com",)}, False)):
        after = tokens_of(before, **auth)
        assert (after._issuers[IDP] is before._issuers[IDP]) is same


@pytest.mark.parametrize(
    ("stated", "found"),
    [
        ({"scope": "a b", "scp": ["c"]}, {"a", "b"}),
        ({"scp": ["c"]}, {"c"}),
        ({"scope": None, "scp": ["c"]}, {"c"}),
        ({"scope": [], "scp": ["c"]}, set()),
        ({"scope": "", "scp": ["c"]}, set()),
    ],
)
def test_the_first_claim_that_states_scopes_counts_although_it_has_none(stated: Any, found: set[str]) -> None:
    issuer = IssuerConfig.model_validate(ISSUER)
    read = facts_of({**CLAIMS, **stated}, issuer, 100.0, "", signed=False)
    assert read.scopes == found
    assert read.expires == 100.0 + UNDATED == 3_700.0


def _number(value: int) -> str:
    return base64.urlsafe_b64encode(value.to_bytes((value.bit_length() + 7) // 8, "big")).decode().rstrip("=")


@pytest.mark.parametrize(
    ("bits", "accepted"), [(1_024, False), (2_040, False), (2_048, True), (8_192, True), (8_200, False)]
)
def test_the_size_of_a_key_has_bounds(bits: int, accepted: bool) -> None:
    """RFC 7518, 3.3: a short one is weak, and a long one makes each check slow."""
    key = {"kty": "RSA", "n": _number((1 << (bits - 1)) + 1), "e": _number(65_537)}
    assert bool(read_key_set({"keys": [key]}).keys) is accepted


def test_a_token_without_a_name_of_its_key_may_be_signed_with_one_of_a_few() -> None:
    keys = read_key_set(
        {"keys": [ECAlgorithm.to_jwk(generate_private_key(SECP256R1()).public_key(), as_dict=True) for _ in range(5)]}
    )
    assert keys.for_token(None, "ES256") == keys.keys[:4]
    assert keys.for_token(None, "ES384") == ()


class Fetching:
    """The requests to an issuer. `answer` is the JSON of the answer, or its status."""

    def __init__(self) -> None:
        self.answer: Any = CLAIMS
        self.hosts: list[str] = []
        self.pair = ""

    def within(self, url: str) -> "Fetching":
        self.hosts.append(url)
        return self

    async def post_form(self, url: str, form: object, headers: Mapping[str, str]) -> Any:
        self.pair = base64.b64decode(headers["Authorization"].removeprefix("Basic ")).decode()
        status = self.answer if isinstance(self.answer, int) else 200
        return type("Response", (), {"status": status, "json": lambda response: self.answer})()


async def test_an_issuer_that_is_back_has_no_problem_any_more() -> None:
    """E1: the health says so; and both parts of our credentials are encoded (RFC 6749, 2.3.1)."""
    issuer = IssuerConfig.model_validate({**ISSUER, "introspection": ASKED})
    assert issuer.introspection is not None
    fetching: Any = Fetching()
    asking = introspection.Introspection(issuer, issuer.introspection, fetching)
    assert fetching.hosts == [IDP, ASKED["url"]]
    for answer, problem in ((CLAIMS, False), (500, True), (500, True), (CLAIMS, False)):
        fetching.answer = answer
        if problem:
            with pytest.raises(IssuerUnavailable):
                await asking.ask("opaque")
        else:
            assert await asking.ask("opaque") == CLAIMS
        assert (asking.problem is not None) is problem
    name, _, secret = fetching.pair.partition(":")
    assert (unquote_plus(name), unquote_plus(secret)) == (ASKED["client_id"], ASKED["client_secret"])
