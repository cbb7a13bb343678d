"""Whose grant counts, and for how long: the conditions of links, waits and lists, one at a time."""

import time
from typing import Any

import pytest

from aggregator.accounts.grants.account import Account
from aggregator.accounts.grants.failures import TokenFailed, unusable
from aggregator.accounts.grants.grants import PersonTokens
from aggregator.accounts.grants.tokens import AccessToken
from aggregator.accounts.oauth.challenges import Challenge
from aggregator.accounts.oauth.token_response import TokenResponse
from aggregator.domain.principal import Principal, TokenFacts
from tests.grants.harness import Accounts, Events, owner, process, server_config


@pytest.mark.parametrize("held", [None, AccessToken("Bearer a", 1, 0.0, 0.0, True)])
@pytest.mark.parametrize("passes", [False, True])
async def test_an_account_is_lost_with_its_token_unless_a_later_try_may_help(
    held: AccessToken | None, passes: bool
) -> None:
    class Fails:
        async def token(self, *_: Any, **__: Any) -> AccessToken:
            """Get none."""
            raise TokenFailed(unusable("docs", "no"), passes=passes)

    lost: list[Account] = []
    account = Account(server_config("https://docs.example/mcp"), owner("alice"))
    with pytest.raises(TokenFailed):
        await PersonTokens(Fails(), lost.append).token(account, held, None, forced=False)  # type: ignore[arg-type]
    assert lost == ([account] if held is not None and not passes else [])


async def test_only_a_grant_that_can_be_used_is_one(here: Accounts) -> None:
    """Neither one that its user has to connect again, nor one that the key of another vault sealed."""
    grants, alice = here.grants, owner("alice")
    assert await grants.has_any(here.config) is None
    await here.connect("alice")
    assert await grants.has_any(here.config) == alice
    assert await grants._version(here.config, alice) is not None
    assert await grants.has_any(here.config.model_copy(update={"id": "other"})) is None
    async with process(here.url, here.config, Events(), key="another key of a vault, which is long enough") as other:
        assert await other.has_any(here.config) is None
    stored = await grants._store.find(Account(here.config, alice))
    assert stored is not None
    assert await grants._store.mark(stored.record, "it was ended")
    assert await grants.has_any(here.config) is None
    assert await grants._version(here.config, alice) is None


async def test_who_asks_again_gets_the_same_link_and_nobody_else_does(here: Accounts) -> None:
    def token(subject: str) -> TokenFacts:
        return TokenFacts("https://company.example", subject, expires=time.time() + 600)

    async def link(name: str = "alice", scopes: tuple[str, ...] = (), **of: Any) -> str:
        found = await here.grants.begin(here.config, owner(name), Principal(**{"agent_id": "ada", **of}), scopes=scopes)
        return found.code

    first = await link()
    assert await link() == first
    others = [
        await link("bob"),
        await link(agent_id="bob"),
        await link(key_id="k1"),
        await link(token=token("ada")),
        await link(token=token("bob")),
        await link(scopes=("write",)),
    ]
    assert len({first, *others}) == 7
    assert await link(scopes=("write",)) == others[-1]
    assert await link() == first


async def test_the_own_challenge_comes_first_then_that_of_another_at_the_same_server(here: Accounts) -> None:
    alice, bob = owner("alice"), owner("bob")
    assert here.grants._challenge(here.config, alice) is None
    of_bob, of_alice = Challenge("bearer", {"scope": "b"}), Challenge("bearer", {"scope": "a"})
    here.credentials("bob").challenge = of_bob
    here.credentials("alice")
    assert here.grants._challenge(here.config, alice) is of_bob
    here.credentials("alice").challenge = of_alice
    assert here.grants._challenge(here.config, alice) is of_alice
    assert here.grants._challenge(here.config, bob) is of_bob
    assert here.grants._challenge(here.config.model_copy(update={"id": "other"}), alice) is None


async def test_who_waits_hears_of_a_sign_in_without_a_link(here: Accounts) -> None:
    """A sign-in for the connect pages alone finishes no link, and may be what a call at another server waits for."""
    news, signed_in = here.grants._news, TokenFacts("https://company.example", "ada", expires=time.time() + 600)
    await here.grants.signed_in("no link", signed_in, TokenResponse("access"))
    assert not news.is_set(), "without an ID token nothing is new"
    await here.grants.signed_in("no link", signed_in, TokenResponse("access", id_token="of ada"))
    assert news.is_set()
