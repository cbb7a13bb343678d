"""Tokens are renewed once, by one process, and what goes wrong costs no account that works."""

import asyncio
from collections.abc import Callable

import pytest

from aggregator.domain.errors import UpstreamUnavailable
from aggregator.domain.missing import LoginRequired
from tests.authorization.authorization_server import answer_with
from tests.authorization.issued import Refused
from tests.authorization.token_endpoint import used
from tests.grants.harness import Accounts, Events, owner, process
from tests.polling import until

CALLS = 1_000


@pytest.fixture
def expire(monkeypatch: pytest.MonkeyPatch) -> Callable[[Accounts], None]:
    """Let every token that is given from now on have ended when it is stored; later ones live an hour."""

    def set_life(here: Accounts) -> None:
        here.idp.lifetime = 0.0

    return set_life


async def test_a_thousand_calls_at_the_moment_of_expiry_make_one_refresh(
    both: Accounts, expire: Callable[[Accounts], None]
) -> None:
    expire(both)
    assert (await both.connect("alice")).connected
    both.idp.lifetime = 3600.0
    tokens = both.idp.counts["token"]
    credentials = both.credentials("alice")

    async def call() -> str | None:
        await credentials.ready()
        return credentials.header

    headers = await asyncio.gather(*(call() for _ in range(CALLS)))
    assert len(set(headers)) == 1
    assert headers[0] is not None
    assert both.idp.counts["token"] == tokens + 1


async def test_two_processes_make_one_refresh_together(both: Accounts, expire: Callable[[Accounts], None]) -> None:
    expire(both)
    assert (await both.connect("alice")).connected
    both.idp.lifetime = 3600.0
    tokens = both.idp.counts["token"]
    async with process(both.url, both.config, Events(), lease=2.0) as other:
        each = [grants.credentials(both.config, owner("alice")) for grants in (both.grants, other)]

        async def call(number: int) -> str | None:
            await each[number % 2].ready()
            return each[number % 2].header

        headers = await asyncio.gather(*(call(number) for number in range(CALLS)))
    assert len(set(headers)) == 1
    assert both.idp.counts["token"] == tokens + 1


async def test_a_token_that_is_nearly_over_is_renewed_while_it_is_used(here: Accounts) -> None:
    await here.connect("alice")
    await here.age("alice", 3500)
    credentials = here.credentials("alice")
    held = asyncio.Event()
    here.idp.before["token"] = held.wait
    ready = [asyncio.create_task(credentials.ready()) for _ in range(3)]
    held.set()
    await asyncio.gather(*ready)
    first = credentials.header
    assert first is not None
    tokens = here.idp.counts["token"]
    await here.age("alice", 3500)
    credentials.changed()
    held.clear()
    # Another process renews it meanwhile; what there is here is used on.
    async with process(here.url, here.config, Events()) as other:
        renewing = asyncio.create_task(other.credentials(here.config, owner("alice")).ready())
        await until(lambda: here.idp.counts["token"] > tokens)
        await credentials.ready()
        assert credentials.header == first
        held.set()
        await renewing
    assert here.idp.counts["token"] == tokens + 1


async def test_a_refused_token_is_renewed_once_and_no_more(here: Accounts) -> None:
    assert (await here.connect("alice")).connected
    credentials = here.credentials("alice")
    await credentials.ready()
    first = credentials.header
    tokens = here.idp.counts["token"]
    again = await asyncio.gather(*(credentials.refused(first, 401, ["Bearer"]) for _ in range(50)))
    assert all(again)
    assert credentials.header not in (None, first)
    with pytest.raises(LoginRequired, match="does not accept even a new token"):
        await credentials.refused(credentials.header, 401, ["Bearer"])
    assert here.idp.counts["token"] == tokens + 1


async def test_a_grant_that_its_issuer_ended_has_to_be_connected_again(
    here: Accounts, expire: Callable[[Accounts], None]
) -> None:
    expire(here)
    await here.connect("alice")
    await here.connect("bob")
    here.idp.lifetime = 3600.0
    here.idp.revoke_all("alice")
    with pytest.raises(LoginRequired, match=r"agent alice at docs has to be connected again") as raised:
        await here.header("alice")
    # What the issuer wrote is for operators alone.
    assert "invalid_grant" in raised.value.said
    assert "invalid_grant" not in raised.value.message
    asked = here.idp.counts["token"]
    with pytest.raises(LoginRequired):
        await here.header("alice")
    assert here.idp.counts["token"] == asked
    assert await here.header("bob") is not None
    assert [one.state for one in await here.grants.list()] == ["broken", "connected"]
    assert (await here.connect("alice")).connected
    assert await here.header("alice") is not None


@pytest.mark.parametrize("sends_again", [True, False])
async def test_a_grant_is_renewed_again_and_again(here: Accounts, sends_again: bool) -> None:
    """A new refresh token counts from its answer on; an answer without one leaves the one before."""
    assert (await here.connect("alice")).connected
    here.idp.gives_refresh = sends_again
    seen = {await here.header("alice")}
    for _ in range(3):
        await here.age("alice", 3600)
        credentials = here.credentials("alice")
        credentials.changed()
        await credentials.ready()
        assert credentials.header is not None
        seen.add(credentials.header)
        # With its use, the refresh tokens from before it are dead.
        used(here.idp, credentials.header.removeprefix("Bearer "))
    assert len(seen) == 4


@pytest.mark.parametrize("status", [500, 503, 429, 404])
async def test_an_issuer_that_fails_costs_no_grant(
    here: Accounts, expire: Callable[[Accounts], None], status: int
) -> None:
    expire(here)
    await here.connect("alice")
    here.idp.lifetime = 3600.0
    here.idp.instead["token"] = answer_with(status, b"<html>no</html>")
    with pytest.raises(UpstreamUnavailable) as raised:
        await here.header("alice")
    assert raised.value.retryable
    with pytest.raises(UpstreamUnavailable):
        await here.header("alice")
    assert here.idp.counts["token"] <= 3
    del here.idp.instead["token"]
    async with process(here.url, here.config, Events()) as later:
        credentials = later.credentials(here.config, owner("alice"))
        await credentials.ready()
        assert credentials.header is not None


async def test_an_unknown_client_id_is_not_asked_for_ever(here: Accounts, expire: Callable[[Accounts], None]) -> None:
    expire(here)
    await here.connect("alice")

    async def refuse(_: object) -> None:
        raise Refused("invalid_client", "who are you?", 401)

    here.idp.instead["token"] = refuse  # type: ignore[assignment]
    with pytest.raises(LoginRequired) as raised:
        await here.header("alice")
    assert "invalid_client" in raised.value.said


async def test_a_grant_survives_a_restart_with_its_expiry(here: Accounts) -> None:
    await here.connect("alice")
    before = await here.header("alice")
    tokens = here.idp.counts["token"]
    async with process(here.url, here.config, Events()) as later:
        credentials = later.credentials(here.config, owner("alice"))
        await credentials.ready()
        assert credentials.header == before
    assert here.idp.counts["token"] == tokens


async def test_a_refresh_that_was_asked_for_is_stored_before_the_end(
    here: Accounts, expire: Callable[[Accounts], None]
) -> None:
    """An issuer may end the old refresh token with its answer: an answer that is thrown away would cost the account."""
    expire(here)
    await here.connect("alice")
    here.idp.lifetime = 3600.0
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        asked.set()
        await go_on.wait()

    here.idp.before["token"] = hold
    async with process(here.url, here.config, Events()) as ending:
        waiting = asyncio.create_task(ending.credentials(here.config, owner("alice")).ready())
        await asked.wait()
        asyncio.get_running_loop().call_soon(go_on.set)
    await waiting
    del here.idp.before["token"]
    tokens = here.idp.counts["token"]
    assert await here.header("alice") is not None
    assert here.idp.counts["token"] == tokens


async def test_an_issuer_that_is_silent_is_given_up_before_the_claim_ends(
    here: Accounts, expire: Callable[[Accounts], None]
) -> None:
    expire(here)
    await here.connect("alice")
    here.idp.lifetime = 3600.0
    go_on = asyncio.Event()
    here.idp.before["token"] = go_on.wait
    async with process(here.url, here.config, Events(), lease=0.3) as hasty:
        with pytest.raises(UpstreamUnavailable, match="no token can be got") as raised:
            await hasty.credentials(here.config, owner("alice")).ready()
    assert "took too long" in raised.value.said
    go_on.set()
    assert await here.header("alice") is not None


async def test_an_account_that_its_issuer_ended_is_told_at_once(
    here: Accounts, expire: Callable[[Accounts], None]
) -> None:
    await here.connect("alice")
    assert await here.header("alice") is not None
    here.idp.revoke_all("alice")
    here.changes.clear()
    credentials = here.credentials("alice")
    with pytest.raises(LoginRequired):
        await credentials.refused(credentials.header, 401, ["Bearer"])
    assert here.changes == [("docs", owner("alice"), False)]


async def test_another_key_means_to_connect_again_and_no_crash(
    here: Accounts, caplog: pytest.LogCaptureFixture
) -> None:
    await here.connect("alice")
    async with process(here.url, here.config, Events(), key="another key, which is long enough as well") as other:
        with pytest.raises(LoginRequired, match="vault key"):
            await other.credentials(here.config, owner("alice")).ready()
        assert [one.state for one in await other.list()] == ["broken"]
    assert "cannot be decrypted" in caplog.text
    assert await here.header("alice") is not None


async def test_a_revoked_account_ends_in_every_process(both: Accounts) -> None:
    await both.connect("alice")
    told: asyncio.Queue[tuple[str, bool]] = asyncio.Queue()
    async with process(both.url, both.config, Events()) as other:
        other.on_change = lambda server, account, *, connected: told.put_nowait((server, connected))
        credentials = other.credentials(both.config, owner("alice"))
        await credentials.ready()
        assert credentials.header is not None
        sent = credentials.header
        assert await both.grants.revoke("docs", owner("alice"))
        assert await asyncio.wait_for(told.get(), 10) == ("docs", False)
        assert credentials.header is None
        with pytest.raises(LoginRequired):
            await credentials.refused(sent, 401, ["Bearer"])
    assert both.idp.counts["revoke"] == 1
    assert not await both.grants.revoke("docs", owner("alice"))
    assert both.events.kinds.count("revoked") == 1
