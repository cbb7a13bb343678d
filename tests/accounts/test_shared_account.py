"""One account for all agents: its token on every request, another one when it has expired, and no call run twice."""

import asyncio

import pytest

from aggregator.domain.grant_owner import SHARED
from tests.accounts.conftest import OpenAccounts
from tests.end_to_end.scripted_host import LEGACY, MODERN
from tests.peers.toolbox import Json

KINDS = [("http", "auto"), ("http", "legacy"), ("sse", "auto")]


def subject(result: Json) -> str:
    assert result.get("isError") is not True, result
    found: str = result["structuredContent"]["sub"]
    return found


async def test_a_server_nobody_has_connected(open_accounts: OpenAccounts) -> None:
    """Its state says what to do, and it is connected at once when that is done."""
    harness = open_accounts(auth={"per": "shared"})
    upstream = harness.app.upstreams["files"]
    assert upstream.state == "unavailable"
    assert "login required: connect an account with `aggregator connect files`" in upstream.reason
    async with harness.connect_as(("http", MODERN), "one") as host:
        assert [one["name"] for one in await host.list()] == ["list_servers"]
        await harness.connect(SHARED, "team")
        await harness.ready_to_call()
        assert subject(await host.call("files.whoami").result()) == "team"
    assert None in harness.protected.seen
    assert not any("team" in str(said) for said in harness.protected.seen)


@pytest.mark.parametrize(("transport", "protocol"), KINDS)
async def test_a_token_that_expires_in_the_middle(open_accounts: OpenAccounts, transport: str, protocol: str) -> None:
    """The refused call is sent once more with the next token; it ran once."""
    harness = open_accounts(auth={"per": "shared"}, type=transport, protocol=protocol)
    account = await harness.connect(SHARED, "team")
    await harness.ready_to_call()
    async with harness.connect_as(("http", LEGACY[-1]), "one") as host:
        for number in range(4):
            assert subject(await host.call("files.whoami").result()) == "team"
            harness.protected.refuses.add(account.token)
            answers = await asyncio.gather(*(host.call("files.whoami").result() for _ in range(5)))
            assert {subject(answer) for answer in answers} == {"team"}
            assert account.refreshes == number + 1
    assert len(harness.ran) == 4 * 6


async def test_a_refusal_goes_to_no_host_as_one(open_accounts: OpenAccounts) -> None:
    """What the server answers with 401 is a result of the call; the host's own credentials are not in doubt."""
    harness = open_accounts(auth={"per": "shared"})
    await harness.connect(SHARED, "team")
    await harness.ready_to_call()
    async with harness.connect_as(("http", MODERN), "one") as host:
        assert subject(await host.call("files.whoami").result()) == "team"
        harness.accounts.accounts.clear()
        harness.idp.access.clear()
        result = await host.call("files.whoami").result()
    assert result["isError"] is True
    assert result["_meta"]["aggregator/error"]["code"] == "login_required"
    # An account of all agents is an operator's to connect.
    assert result["_meta"]["aggregator/error"]["command"] == "aggregator connect files"
    assert not harness.accounts.links


async def test_a_server_that_offers_oauth(open_accounts: OpenAccounts) -> None:
    """Without `auth`, the reason says that it could have one."""
    harness = open_accounts()
    assert 'It offers OAuth: add `"auth"' in harness.app.upstreams["files"].reason
