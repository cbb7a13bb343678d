"""The issuer behind the tokens: new keys, opaque tokens, and times when it does not answer."""

import asyncio
import json
import logging
import time
from pathlib import Path

import pytest
from pydantic import ValidationError

from aggregator.config.auth.issuers import AuthConfig, IntrospectionConfig, IssuerConfig
from aggregator.config.difference import difference
from aggregator.config.model import Config
from aggregator.identity.tokens import jwks
from aggregator.identity.tokens.rejection import Rejection, Unverified
from aggregator.identity.tokens.verifier import TokenVerifier, VerifiedToken
from tests.authorization.authorization_server import AuthorizationServer, answer_with, authorization_server
from tests.tokens.conftest import AUDIENCE


def verifier(idp: AuthorizationServer, **issuer: object) -> TokenVerifier:
    made = IssuerConfig.model_validate({"issuer": idp.issuer, "audience": [AUDIENCE], **issuer})
    return TokenVerifier(AuthConfig(issuers=(made,)))


async def test_a_new_key_is_found_and_a_withdrawn_one_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async with authorization_server() as idp:
        tokens = verifier(idp)
        old = idp.token("alice", audience=AUDIENCE)
        assert isinstance(await tokens.verify(old), VerifiedToken)
        idp.keys.rotate()
        new = idp.token("alice", audience=AUDIENCE)
        # Not more often than now and then, whatever is sent.
        assert isinstance(tokens.check(new, time.time()), Rejection)
        monkeypatch.setattr(jwks, "ASK_EVERY", 0.0)
        assert tokens.check(new, time.time()) is None
        assert isinstance(await tokens.verify(new), VerifiedToken)
        assert tokens.revision is not None
        assert idp.counts["jwks"] == 2


async def test_many_requests_with_one_new_token_ask_once() -> None:
    async with authorization_server() as idp:
        idp.opaque = True
        idp.add_client("aggregator", secret="s" * 12)
        asked = IntrospectionConfig(client_id="aggregator", client_secret="s" * 12)
        tokens = verifier(idp, introspection=asked.model_dump())
        text = idp.token("alice", audience=AUDIENCE, scopes=["mcp"])
        found = await asyncio.gather(*(tokens.verify(text) for _ in range(20)))
        assert all(isinstance(one, VerifiedToken) for one in found)
        assert idp.counts["introspect"] == 1
        unknown = await asyncio.gather(*(tokens.verify("never-issued") for _ in range(20)))
        assert all(isinstance(one, Rejection) for one in unknown)
        assert idp.counts["introspect"] == 2
        first = found[0]
        assert isinstance(first, VerifiedToken)
        assert first.facts.scopes == {"mcp"}
        # A token that is revoked ends what runs with it once its issuer is asked again.
        idp.revoke(text)
        later = time.time() + 31
        assert tokens.known(text, later) is None
        assert tokens.still(first.facts, time.time()) is not None
        tokens._cache.get(text, time.time()).until = 0.0  # type: ignore[union-attr]
        assert isinstance(await tokens.verify(text), Rejection)
        assert tokens.still(first.facts, time.time()) is None


async def test_what_an_issuer_said_does_not_count_for_longer_after_the_clock_was_set_back() -> None:
    """A token that was revoked since would go on to count for as long as the clock was set back."""
    async with authorization_server() as idp:
        idp.opaque = True
        idp.add_client("aggregator", secret="s" * 12)
        asked = IntrospectionConfig(client_id="aggregator", client_secret="s" * 12)
        tokens = verifier(idp, introspection=asked.model_dump())
        text = idp.token("alice", audience=AUDIENCE)
        assert isinstance(await tokens.verify(text), VerifiedToken)
        now = time.time()
        assert tokens.known(text, now - 1.0) is not None
        for back in (60.0, 3 * 3600.0):
            assert tokens.known(text, now - back) is None
            assert tokens.check(text, now - back) is None, "its issuer is asked again"
        idp.opaque = False
        signed = idp.token("alice", audience=AUDIENCE)
        assert isinstance(await tokens.verify(signed), VerifiedToken)
        assert tokens.known(signed, now - 3 * 3600.0) is not None, "its end is written in it"


async def test_known_keys_count_while_the_issuer_is_away(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with authorization_server() as idp:
        tokens = verifier(idp)
        assert isinstance(await tokens.verify(idp.token("alice", audience=AUDIENCE)), VerifiedToken)
        idp.instead["jwks"] = idp.instead["metadata"] = answer_with(500)
        monkeypatch.setattr(jwks, "ASK_EVERY", 0.0)
        monkeypatch.setattr(jwks, "REFRESH_AFTER", -1.0)
        await tokens.refresh()
        assert isinstance(tokens.check(idp.token("bob", audience=AUDIENCE), time.time()), VerifiedToken)
        again = f"the keys of the issuer {idp.issuer} can be had again"
        assert again not in caplog.messages
        away = dict(idp.instead)
        idp.instead.clear()
        for _ in range(2):
            await tokens.refresh()
        assert caplog.messages.count(again) == 1, "not with each later reading"
        idp.instead.update(away)
        # Of a key that is not known nothing can be said: it may be a new one.
        idp.keys.rotate()
        assert isinstance(await tokens.verify(idp.token("bob", audience=AUDIENCE)), Unverified)


async def test_settings_that_stay_keep_their_keys(tmp_path: Path) -> None:
    async with authorization_server() as idp:
        tokens = verifier(idp)
        assert isinstance(await tokens.verify(idp.token("alice", audience=AUDIENCE)), VerifiedToken)
        other = TokenVerifier(tokens.config.model_copy(update={"scopes": ("mcp",)}), before=tokens)
        assert isinstance(other.check(idp.token("bob", audience=AUDIENCE), time.time()), VerifiedToken)
        assert idp.counts["jwks"] == 1


@pytest.mark.parametrize("changed", [{"audience": ["https://other.example/mcp"]}, {"algorithms": ["EdDSA"]}])
async def test_settings_that_change_count_for_every_token_from_then_on(changed: dict[str, object]) -> None:
    """Also for tokens that were verified before."""
    async with authorization_server() as idp:
        before = verifier(idp)
        text = idp.token("alice", audience=AUDIENCE)
        assert isinstance(await before.verify(text), VerifiedToken)
        after = TokenVerifier(verifier(idp, **changed).config, before=before)
        for one in (text, idp.token("bob", audience=AUDIENCE)):
            assert isinstance(await after.verify(one), Rejection)
        again = TokenVerifier(before.config, before=after)
        assert isinstance(await again.verify(text), VerifiedToken)


def test_issuers_take_effect_at_once() -> None:
    issuer = IssuerConfig(issuer="https://login.example.com", audience=(AUDIENCE,))
    changes = difference(Config(), Config(auth=AuthConfig(issuers=(issuer,), scopes=("mcp",))))
    assert set(changes.applied) == {"auth.issuers", "auth.scopes"}


def test_an_opaque_token_has_one_issuer_to_go_to() -> None:
    """With two, one of them would see tokens of the other."""
    asked = {"client_id": "aggregator", "client_secret": "s" * 12}
    issuers = [
        {"issuer": f"https://{name}.example.com", "audience": [AUDIENCE], "introspection": asked} for name in ("a", "b")
    ]
    with pytest.raises(ValidationError, match="at one issuer at most"):
        AuthConfig.model_validate({"issuers": issuers})


@pytest.mark.parametrize(
    ("answer", "accepted"),
    [
        ({}, True),
        ({"token_type": None}, True),
        ({"token_type": "Bearer"}, True),
        ({"token_type": "bearer"}, True),
        ({"token_type": "DPoP"}, False),
        ({"token_type": ""}, False),
        ({"token_type": ["bearer"]}, False),
        ({"active": False}, False),
        ({"active": "true"}, False),
        ({"active": 1}, False),
        ({"active": None}, False),
    ],
    ids=str,
)
async def test_what_an_issuer_says_of_an_opaque_token(answer: dict[str, object], accepted: bool) -> None:
    """RFC 7662, 2.2: only an active token counts, and only a bearer token can be taken as one."""
    async with authorization_server() as idp:
        idp.opaque = True
        idp.add_client("aggregator", secret="s" * 12)
        asked = IntrospectionConfig(client_id="aggregator", client_secret="s" * 12)
        tokens = verifier(idp, introspection=asked.model_dump())
        text = idp.token("alice", audience=AUDIENCE)
        body = json.dumps({**idp.access[text], **answer}).encode()
        idp.instead["introspect"] = answer_with(200, body, content_type="application/json")
        assert isinstance(await tokens.verify(text), VerifiedToken if accepted else Rejection)
