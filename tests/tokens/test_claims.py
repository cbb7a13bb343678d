"""What a token says, of any make: it is accepted for us, in its time, or rejected with words; never anything else."""

import base64
import json
from contextlib import suppress
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from aggregator.config.auth.issuers import IssuerConfig
from aggregator.domain.principal import TokenFacts
from aggregator.identity.tokens.claims import facts_of
from aggregator.identity.tokens.jws import read_token
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
