"""People come in with tokens of their company, and each uses an account of their own at a server behind the gateway.

Only the authorization servers and the protected server are of the tests; the rest is what an operator would run.
"""

import asyncio
import logging
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from aggregator.domain.grant_owner import GrantOwner
from aggregator.domain.principal import Principal, TokenFacts
from tests.authorization.authorization_server import AuthorizationServer, authorization_server
from tests.authorization.protected_mcp_server import ProtectedServer, protected_mcp_server
from tests.authorization.resource_harness import Issuers, ResourceHarness, good, policies
from tests.authorization.sdk_host import browse
from tests.end_to_end.scripted_host import MODERN, over_http
from tests.peers.canary import Canaries, contents
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json
from tests.polling import until

BACK: Final = "http://127.0.0.1:9/connect/callback"
ALLOWED: Final = {"allow": ["shop.*", "files.*"]}
CALLS: Final = 50


@dataclass
class Place:
    """A gateway between a company's people and a server that has issuers of its own."""

    gateway: ResourceHarness
    company: AuthorizationServer
    theirs: AuthorizationServer
    server: ProtectedServer

    def token(self, person: str) -> str:
        """A token with which a person comes in."""
        return good(self.company, person)

    def owner(self, person: str) -> GrantOwner:
        """The owner of a person's account."""
        return GrantOwner("user", (self.company.issuer, person))

    async def connect(self, person: str, account: str) -> None:
        """Connect an account as its owner does with a browser."""
        await self.gateway.background.elsewhere(self._connect(person, account))

    async def _connect(self, person: str, account: str) -> None:
        grants: Any = self.gateway.app.grants
        config = self.gateway.app.upstreams["files"].config
        asked_by = Principal("clerk", token=TokenFacts(self.company.issuer, person, "host", expires=9e9))
        link = await grants.begin(config, self.owner(person), asked_by)
        answer = await browse(await grants.start(link.code, BACK, "a browser"), account)
        params = {"code": answer.code, "state": answer.state, "iss": answer.iss}
        outcome = await grants.answered(params, "a browser")
        assert outcome.connected, outcome
        # What was used once is of no use to another.
        assert not (await grants.answered(params, "a browser")).connected

    async def listed(self) -> None:
        """Wait until the server's tools are known, with an account that was connected."""
        async with over_http(self.gateway.url, MODERN, self.token("alice")) as host:

            async def known() -> bool:
                return "files.whoami" in {tool["name"] for tool in await host.list()}

            await until(known)

    async def whoami(self, person: str, calls: int = 1) -> Counter[str]:
        """The accounts that this person's calls were made with, and what was said instead."""
        found: Counter[str] = Counter()
        async with over_http(self.gateway.url, MODERN, self.token(person)) as host:
            for _ in range(calls):
                result = await host.call("files.whoami").result()
                told = result.get("structuredContent")
                found[told["sub"] if told is not None else result["content"][0]["text"]] += 1
        return found


@pytest.fixture
def place(background: BackgroundLoop, patched: pytest.MonkeyPatch, tmp_path: Path) -> Place:
    """A place of its own for each test."""
    issuers = Issuers(background, "company")
    theirs = background.open(authorization_server("/tenant"))
    server = background.open(protected_mcp_server(theirs))
    agents = {**policies(issuers)["agents"], "clerk": ALLOWED, "reader": ALLOWED}
    entry: Json = {"url": server.url, "auth": {"type": "oauth", "per": "user", "lists": "connected"}}
    gateway = ResourceHarness(
        background,
        tmp_path,
        issuers,
        rules={"agents": agents},
        others={"files": {**entry, "health": {"enabled": False}}},
    )
    return Place(gateway, issuers["company"], theirs, server)


async def test_each_person_uses_their_own_account_and_no_token_passes_through(
    place: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("aggregator", "aiohttp"):
        caplog.set_level(logging.DEBUG, name)
    # alice and bob are one agent, rita is another.
    accounts = {"alice": "alice.there", "bob": "bob.there", "rita": "rita.there"}
    for person, account in accounts.items():
        await place.connect(person, account)
    await place.listed()
    found = await asyncio.gather(*(place.whoami(person, CALLS) for person in accounts))
    assert found == [Counter({account: CALLS}) for account in accounts.values()]
    # The server saw tokens that are meant for it, and none of the company's.
    seen = {header.partition(" ")[2] for header in place.server.seen if header is not None}
    assert seen <= place.theirs.access.keys()
    assert not seen & place.company.access.keys()
    canaries = Canaries(tmp_path)
    secrets = [*seen, *(text for grant in place.theirs.grants for text in grant.refresh), *place.company.access]
    for number, secret in enumerate(secrets):
        canaries.add(f"{number}", secret.partition(".")[2] or secret)
    assert canaries.seen_in(contents(tmp_path / "console.db")) == []
    logged = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("aggregator"))
    assert canaries.seen_in(logged.encode()) == []


async def test_person_without_an_account_gets_none_of_another(place: Place) -> None:
    await place.connect("alice", "alice.there")
    await place.listed()
    calls = len(place.server.callers)
    (said,) = await place.whoami("bob")
    assert "there" not in said.split()
    assert "connect" in said
    assert len(place.server.callers) == calls
    # The same subject at no issuer, by the agent's own key, is not alice either.
    async with over_http(place.gateway.url, MODERN, place.gateway.keys["clerk"]) as host:
        result = await host.call("files.whoami").result()
    assert result["isError"] is True
    assert len(place.server.callers) == calls
    assert await place.whoami("alice") == Counter({"alice.there": 1})


async def test_account_that_was_taken_back_is_asked_for_again(place: Place) -> None:
    await place.connect("alice", "alice.there")
    await place.connect("bob", "bob.there")
    await place.listed()
    assert await place.whoami("alice") == Counter({"alice.there": 1})
    for grant in place.theirs.grants:
        if grant.subject == "alice.there":
            place.theirs.revoke(grant.access[-1])
    (said,) = await place.whoami("alice")
    assert "connect" in said
    assert await place.whoami("bob") == Counter({"bob.there": 1})
    await place.connect("alice", "alice.again")
    assert await place.whoami("alice") == Counter({"alice.again": 1})


async def test_tokens_that_expire_under_many_calls_are_renewed_once_each(place: Place) -> None:
    accounts = {"alice": "alice.there", "bob": "bob.there"}
    for person, account in accounts.items():
        await place.connect(person, account)
    await place.listed()
    for person in accounts:
        await place.whoami(person)
    before = place.theirs.counts["token"]
    # The gateway holds its tokens for good; the server does not.
    place.theirs.clock = lambda: time.time() + 2 * 3600

    async def many(person: str) -> Counter[str]:
        async with over_http(place.gateway.url, MODERN, place.token(person)) as host:
            results = await asyncio.gather(*(host.call("files.whoami").result() for _ in range(CALLS)))
        return Counter(result["structuredContent"]["sub"] for result in results)

    assert await asyncio.gather(*map(many, accounts)) == [Counter({account: CALLS}) for account in accounts.values()]
    assert place.theirs.counts["token"] == before + len(accounts)
