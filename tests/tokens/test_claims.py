"""What a token says, of any make: it is accepted for us, in its time, or rejected with words; never anything else."""

import base64
import json
from contextlib import suppress
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from hypothesis import given
from hypothesis import strategies as st
from jwt.algorithms import RSAAlgorithm

from aggregator.config.auth.issuers import IssuerConfig
from aggregator.domain.principal import TokenFacts
from aggregator.identity.tokens.claims import facts_of
from aggregator.identity.tokens.jws import check_header, read_token
from aggregator.identity.tokens.key_set import read_key_set
from aggregator.identity.tokens.rejection import TokenRejected
from tests.tokens.conftest import AUDIENCE

NOW: Final = 1_800_000_000.0
ISSUER: Final = IssuerConfig(issuer="https://login.example.com", audience=(AUDIENCE, "aggregator"))
VALUES: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)
TIMES: Final = st.sampled_from([NOW + shift for shift in (-31, -30, -29, 0, 29, 30, 31)]) | VALUES
CLAIMS: Final = st.fixed_dictionaries(
    {},
    optional={
        "iss": st.sampled_from([ISSUER.issuer, f"{ISSUER.issuer}/", "https://other.example.com"]) | VALUES,
        "aud": st.sampled_from([AUDIENCE, [AUDIENCE], ["x", "aggregator"], f"{AUDIENCE}/", [[AUDIENCE]], ""]) | VALUES,
        "sub": st.just("alice") | VALUES,
        "exp": TIMES,
        "nbf": TIMES,
        "iat": TIMES,
        **dict.fromkeys(("client_id", "azp", "groups", "scope", "scp"), VALUES),
    },
)


def decided(claims: dict[str, Any], *, signed: bool) -> TokenFacts | None:
    try:
        return facts_of(claims, ISSUER, NOW, "text", signed=signed)
    except TokenRejected:
        return None


@given(claims=CLAIMS, signed=st.booleans())
def test_only_tokens_for_us_and_in_their_time_are_accepted(claims: dict[str, Any], signed: bool) -> None:
    facts = decided(claims, signed=signed)
    if facts is None:
        return
    meant = claims["aud"] if isinstance(claims["aud"], list) else [claims["aud"]]
    assert {AUDIENCE, "aggregator"} & {one for one in meant if isinstance(one, str)}
    assert claims.get("iss", ISSUER.issuer) == ISSUER.issuer or (not signed and claims["iss"] is None)
    assert facts.expires > NOW - 30
    assert facts.subject == claims["sub"]
    assert not isinstance(claims.get("nbf"), float) or claims["nbf"] <= NOW + 30
    assert TokenFacts.from_json(facts.to_json()) == facts
    if signed:
        assert claims["iss"] == ISSUER.issuer
        assert facts.expires == claims["exp"]


WHOLE: Final[dict[str, Any]] = {"iss": ISSUER.issuer, "aud": AUDIENCE, "sub": "alice", "exp": NOW + 60}


@pytest.mark.parametrize(
    ("more", "signed", "accepted"),
    [
        ({}, True, True),
        *(({"exp": NOW + shift}, True, shift > -30) for shift in (-31, -30, -29, 0)),
        *(({"nbf": NOW + shift}, True, shift <= 30) for shift in (0, 29, 30, 31)),
        *(({"iat": NOW + shift}, True, shift <= 30) for shift in (0, 29, 30, 31)),
        *(({"exp": None}, signed, not signed) for signed in (True, False)),
        *(({"iss": None}, signed, not signed) for signed in (True, False)),
        *(({"iss": "https://other.example.com"}, signed, False) for signed in (True, False)),
        ({"aud": ["x", "aggregator"]}, True, True),
        ({"aud": ["x"]}, True, False),
        ({"aud": []}, True, False),
        ({"cnf": {"jkt": "x"}}, True, False),
        ({"cnf": None}, True, False),
        ({"sub": ""}, True, False),
        ({"sub": None}, True, False),
    ],
)
def test_each_claim_decides_by_itself(more: dict[str, Any], signed: bool, accepted: bool) -> None:
    """RFC 7519, 4.1: at the bound, and one second past it, beside claims that are all right."""
    assert (decided({**WHOLE, **more}, signed=signed) is not None) is accepted


def test_a_claim_within_another_is_named_with_a_dot_unless_one_has_that_very_name() -> None:
    names = ISSUER.claims.model_copy(update={"groups": "realm.roles", "client": ("app.id", "azp")})
    issuer = ISSUER.model_copy(update={"claims": names})
    for more, groups, client in (
        ({"realm": {"roles": ["a"]}, "app": {"id": "c"}, "azp": "d"}, ("a",), "c"),
        ({"realm": {"roles": ["a"]}, "realm.roles": ["b"], "azp": "d"}, ("b",), "d"),
        ({"realm": ["roles"]}, (), None),
    ):
        facts = facts_of({**WHOLE, **more}, issuer, NOW, "text", signed=True)
        assert (facts.groups, facts.client) == (groups, client)


@given(text=st.text(max_size=40) | st.lists(st.binary(max_size=20), min_size=3, max_size=3).map(lambda p: joined(*p)))
def test_any_text_is_read_or_rejected(text: str) -> None:
    with suppress(TokenRejected):
        assert read_token(text).claims is not None


@given(header=CLAIMS | VALUES, algorithm=VALUES, kid=VALUES, kind=VALUES)
def test_any_header_is_read_or_rejected(header: Any, algorithm: Any, kid: Any, kind: Any) -> None:
    named = {"alg": algorithm, "kid": kid, "typ": kind}
    whole = json.dumps({**header, **named} if isinstance(header, dict) else header).encode()
    try:
        token = read_token(joined(whole, b"{}", b"x"))
    except TokenRejected:
        return
    assert isinstance(token.algorithm, str)
    assert isinstance(token.kid, str | None)


def joined(header: bytes, claims: bytes, signature: bytes) -> str:
    """Return a token of these parts."""
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (header, claims, signature))


RSA: Final = json.loads(RSAAlgorithm.to_jwk(generate_private_key(65537, 2048).public_key()))
EVERY: Final = ("RS256", "RS512", "PS512", "ES256", "EdDSA")


@pytest.mark.parametrize(
    ("given_with_it", "algorithms"),
    [
        ({}, ("RS256", "RS512", "PS512")),
        ({"alg": "RS512"}, ("RS512",)),
        ({"alg": "ES256"}, ()),
        ({"use": "sig"}, ("RS256", "RS512", "PS512")),
        ({"use": "enc"}, ()),
        ({"key_ops": ["verify"]}, ("RS256", "RS512", "PS512")),
        ({"key_ops": ["encrypt"]}, ()),
        ({"kty": "oct", "k": "c2VjcmV0"}, ()),
        ({"kid": 7}, ()),
    ],
)
def test_a_key_verifies_what_it_is_for(given_with_it: dict[str, Any], algorithms: tuple[str, ...]) -> None:
    """RFC 8725, 3.1: the token has no say in it."""
    keys = read_key_set({"keys": [{name: value for name, value in RSA.items() if name != "key_ops"} | given_with_it]})
    assert tuple(one for one in EVERY if keys.for_token(None, one)) == algorithms


@pytest.mark.parametrize(
    ("types", "accepted"),
    [
        (("at+jwt",), {"at+jwt", "AT+JWT", "application/at+jwt"}),
        (("application/at+jwt",), {"at+jwt", "AT+JWT", "application/at+jwt"}),
        (("jwt",), {"JWT", None}),
    ],
)
def test_the_type_of_a_token_is_one_that_is_accepted(types: tuple[str, ...], accepted: set[str | None]) -> None:
    issuer = ISSUER.model_copy(update={"types": types})
    found = set[str | None]()
    for kind in ("at+jwt", "AT+JWT", "application/at+jwt", "JWT", "id+jwt", None):
        header = json.dumps({"alg": "RS256", **({} if kind is None else {"typ": kind})}).encode()
        with suppress(TokenRejected):
            check_header(read_token(joined(header, b"{}", b"x")), issuer)
            found.add(kind)
    assert found == accepted


@pytest.mark.parametrize("name", ["crit", "b64"])
def test_a_header_that_demands_more_is_rejected(name: str) -> None:
    """RFC 7515, 4.1.11; RFC 7797."""
    with pytest.raises(TokenRejected, match="demands"):
        read_token(joined(json.dumps({"alg": "RS256", name: False}).encode(), b"{}", b"x"))
