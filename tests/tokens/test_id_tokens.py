"""The claims of an ID token: it has to be of this very sign-in, for this program."""

import time
from typing import Any, Final

import pytest

from aggregator.accounts.oauth.authorization import LoginAttempt
from aggregator.config.auth.issuers import AuthConfig, IssuerConfig
from aggregator.identity.sign_in import SignIns
from aggregator.identity.tokens.rejection import TokenRejected

ISSUER: Final = "https://login.example.com"
OURS: Final = "aggregator"


@pytest.mark.parametrize(
    ("sent", "claims", "reason"),
    [
        ("n1", {}, None),
        ("n1", {"nonce": "n2"}, "nonce"),
        ("n1", {"nonce": None}, "nonce"),
        # An attempt without a nonce binds no answer, also to none.
        (None, {"nonce": None}, "nonce"),
        (None, {}, "nonce"),
        ("n1", {"aud": [OURS]}, None),
        ("n1", {"aud": [OURS, "other"]}, "azp"),
        ("n1", {"aud": [OURS, "other"], "azp": OURS}, None),
        ("n1", {"aud": [OURS, "other"], "azp": "other"}, "azp"),
        ("n1", {"azp": OURS}, None),
        ("n1", {"azp": "other"}, "azp"),
        ("n1", {"aud": "other"}, "aud"),
        ("n1", {"iat": None}, "iat"),
    ],
)
def test_an_id_token_counts_for_its_own_sign_in_alone(
    sent: str | None, claims: dict[str, Any], reason: str | None
) -> None:
    """OpenID Connect Core, 3.1.3.7. A claim of None is left out."""
    now = time.time()
    usual = {"iss": ISSUER, "sub": "ada", "aud": OURS, "exp": now + 60, "iat": now, "nonce": "n1"}
    given = {name: value for name, value in (usual | claims).items() if value is not None}
    own = IssuerConfig(issuer=ISSUER, audience=(OURS,))
    attempt = LoginAttempt(ISSUER, OURS, "https://a.example/", None, None, False, "s", "v", "u", sent)
    signing_in = SignIns(AuthConfig(issuers=(own,)))
    if reason is None:
        assert signing_in._facts(given, own, attempt).subject == "ada"
        return
    with pytest.raises(TokenRejected) as rejected:
        signing_in._facts(given, own, attempt)
    assert f"`{reason}`" in str(rejected.value.rejection.reason)
