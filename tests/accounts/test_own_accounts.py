"""Accounts of single agents: each call goes with its own, whatever runs beside it, and none is another's."""

import asyncio
import os
from contextlib import AsyncExitStack
from itertools import product
from typing import Final

import pytest

from aggregator.domain.grant_owner import GATEWAY, GrantOwner
from aggregator.domain.principal import Principal, TokenFacts
from aggregator.gateway.ask.upstream_caller import RequestCaller
from aggregator.gateway.host import Host
from tests.accounts.conftest import AGENTS, AccountsHarness, OpenAccounts
from tests.accounts.test_shared_account import KINDS, subject
from tests.end_to_end.scripted_host import LEGACY, MODERN, over_http
from tests.peers.toolbox import Json

# `ACCOUNT_CALLS=10000` runs as many as the claim says.
CALLS: Final = int(os.environ.get("ACCOUNT_CALLS", "200"))
TENANTS: Final = {"one": "north", "two": "north", "three": "south", "four": "south"}


def owner(agent: str) -> GrantOwner:
    return GrantOwner("agent", (TENANTS[agent], agent))


def error(result: Json) -> Json:
    assert result["isError"] is True
    found: Json = result["_meta"]["aggregator/error"]
    return found


async def opened(open_accounts: OpenAccounts, **fields: object) -> AccountsHarness:
    """A server whose lists are read with the account of the aggregator."""
    harness = open_accounts(auth={"per": "agent"}, **fields)
    await harness.connect(GATEWAY, "gateway")
    await harness.ready_to_call()
    return harness


@pytest.mark.parametrize(("transport", "protocol"), KINDS)
async def test_accounts_are_never_swapped(open_accounts: OpenAccounts, transport: str, protocol: str) -> None:
    """Two agents of each of two tenants behind one address, all at a time, some with tokens that expire meanwhile."""
    harness = await opened(open_accounts, type=transport, protocol=protocol)
    accounts = {agent: await harness.connect(owner(agent), f"person {agent}") for agent in AGENTS}
    async with AsyncExitStack() as stack:
        kinds = [("http", MODERN), ("http", LEGACY[-1])]
        hosts = {
            (agent, kind): await stack.enter_async_context(harness.connect_as(kind, agent))
            for agent, kind in product(AGENTS, kinds)
        }
        done = 0
        while done < CALLS:
            if done % 400 == 0:
                harness.protected.refuses.update(account.token for account in list(accounts.values())[::2])
            calls = [(agent, host.call("files.whoami")) for (agent, _), host in hosts.items() for _ in range(5)]
            for agent, call in calls:
                assert subject(await call.result()) == f"person {agent}"
            done += len(calls)
    # Not one was run with the account that reads lists, and none twice.
    assert "gateway" not in harness.ran
    assert len(harness.ran) == done


@pytest.mark.parametrize("version", [MODERN, LEGACY[-1]])
async def test_people_of_one_agent(open_accounts: OpenAccounts, version: str) -> None:
    """`per: user`: two people of each of two tenants, who are one agent there; one subject is in both tenants."""
    harness = open_accounts(auth={"per": "user"})
    await harness.connect(GATEWAY, "gateway")
    await harness.ready_to_call()
    people = [("ada", "north"), ("bob", "north"), ("ada", "south"), ("cem", "south")]
    async with AsyncExitStack() as stack:
        hosts = [
            await stack.enter_async_context(over_http(harness.url, version, harness.person(*person)))
            for person in people
        ]
        for (name, _), host in zip(people, hosts, strict=True):
            result = await host.call("files.whoami").result()
            if "isError" in result:
                url = error(result)["url"]
                assert harness.accounts.links[url][1] == GrantOwner("user", (harness.idp.issuer, name))
                await harness.visit(url, f"{name} at files")
        for _ in range(5):
            calls = [host.call("files.whoami") for host in hosts]
            for (name, _), call in zip(people, calls, strict=True):
                assert subject(await call.result()) == f"{name} at files"
    # A person is the same in both tenants, as their issuer says.
    assert len(harness.accounts.accounts) == 1 + 3


async def test_one_agent_more_is_asked_for_its_account(open_accounts: OpenAccounts) -> None:
    """An agent without an account gets a link of its own, never the account of another."""
    harness = await opened(open_accounts)
    await harness.connect(owner("one"), "person one")
    async with (
        harness.connect_as(("http", MODERN), "one") as one,
        harness.connect_as(("http", MODERN), "three") as three,
    ):
        assert subject(await one.call("files.whoami").result()) == "person one"
        result = await three.call("files.whoami").result()
        missing = error(result)
        assert missing["code"] == "login_required"
        assert harness.accounts.links[missing["url"]][1] == owner("three")
        assert missing["url"] in result["content"][0]["text"]
        assert harness.ran == ["person one"]
        await harness.visit(missing["url"], "person three")
        assert subject(await three.call("files.whoami").result()) == "person three"
        assert subject(await one.call("files.whoami").result()) == "person one"


async def test_an_account_that_is_gone(open_accounts: OpenAccounts) -> None:
    """What another replica revokes ends at once here; the others go on."""
    harness = await opened(open_accounts, protocol="legacy")
    for agent in ("one", "two"):
        await harness.connect(owner(agent), f"person {agent}")
    async with harness.connect_as(("http", MODERN), "one") as one, harness.connect_as(("http", MODERN), "two") as two:
        for host in (one, two):
            await host.call("files.whoami").result()

        async def revoke() -> None:
            del harness.accounts.accounts["files", owner("one")]
            harness.app.supervisor.account_changed("files", owner("one"), connected=False)

        await harness.background.elsewhere(revoke())
        assert error(await one.call("files.whoami").result())["code"] == "login_required"
        assert subject(await two.call("files.whoami").result()) == "person two"
    assert harness.ran == ["person one", "person two", "person two"]


async def test_lists_by_the_account_of_one_who_connected(open_accounts: OpenAccounts) -> None:
    """`lists: connected`: the first account shows the tools to all, and calls nothing for them."""
    harness = open_accounts(auth={"per": "agent", "lists": "connected"})
    assert harness.app.upstreams["files"].state == "unavailable"
    await harness.connect(owner("one"), "person one")
    await harness.ready_to_call()
    async with harness.connect_as(("http", MODERN), "two") as two:
        assert "files.whoami" in [tool["name"] for tool in await two.list()]
        assert error(await two.call("files.whoami").result())["code"] == "login_required"
    assert not harness.ran


async def test_many_calls_at_the_moment_of_expiry(open_accounts: OpenAccounts) -> None:
    """All are answered, with one new token."""
    harness = await opened(open_accounts)
    account = await harness.connect(owner("one"), "person one")
    async with harness.connect_as(("http", MODERN), "one") as host:
        await host.call("files.whoami").result()
        harness.protected.refuses.add(account.token)
        results = await asyncio.gather(*(host.call("files.whoami").result() for _ in range(50)))
    assert {subject(result) for result in results} == {"person one"}
    assert account.refreshes == 1
    assert len(harness.ran) == 51


def test_two_people_of_one_agent_are_two_hosts() -> None:
    """Without a session, a server's question to one is none to the other."""
    one, two = (
        RequestCaller(
            Host("http", None, Principal("one", token=TokenFacts("https://login.example.com", name))), MODERN, {}, None
        )
        for name in ("ann", "ben")
    )
    assert one.identity != two.identity
