"""Hosts whose agent has no account yet: each is sent to the page in the way that it declared, then has its result."""

import json
from typing import Final

import pytest

from aggregator.domain.call_record import CallRecord
from aggregator.domain.grant_owner import GATEWAY, GrantOwner
from tests.accounts.conftest import AccountsHarness, OpenAccounts
from tests.accounts.test_own_accounts import error, owner
from tests.accounts.test_shared_account import subject
from tests.end_to_end.scripted_host import LEGACY, MODERN, ScriptedHost
from tests.peers.toolbox import Json

PAGES: Final[Json] = {"elicitation": {"form": {}, "url": {}}}
LEGACY_KINDS: Final = [("http", LEGACY[-1]), ("sse", LEGACY[-1]), ("stdio", LEGACY[-1])]
MODERN_KINDS: Final = [("http", MODERN), ("stdio", MODERN)]


ANY: Final = [*LEGACY_KINDS, *MODERN_KINDS, ("http", LEGACY[0]), ("stdio", LEGACY[0])]
OLDEST: Final[Json] = {"elicitation": {}}


@pytest.fixture
def unconnected(open_accounts: OpenAccounts) -> AccountsHarness:
    return open_accounts(auth={"per": "agent"})


def account_of(kind: tuple[str, str]) -> GrantOwner:
    """Over stdio the agent has no tenant here."""
    return GrantOwner("agent", ("", "one")) if kind[0] == "stdio" else owner("one")


async def start(harness: AccountsHarness) -> None:
    await harness.connect(GATEWAY, "gateway")
    await harness.ready_to_call()


async def asked(host: ScriptedHost) -> Json:
    """The question that a host of the handshake eras gets while its call waits."""
    (question,) = await host.inbox.named("elicitation/create")
    return question


async def answer(host: ScriptedHost, question: Json, action: str) -> None:
    await host.wire.notify({"jsonrpc": "2.0", "id": question["id"], "result": {"action": action}})


@pytest.mark.parametrize("kind", LEGACY_KINDS, ids=lambda kind: "-".join(kind))
@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_a_page_while_the_call_waits(unconnected: AccountsHarness, kind: tuple[str, str], protocol: str) -> None:
    """2025-11-25: the host shows the page; once the account is there, the call goes through."""
    await start(unconnected)
    async with unconnected.connect_as(kind, "one", PAGES) as host:
        call = host.call("files.whoami")
        question = await asked(host)
        params = question["params"]
        assert params["mode"] == "url"
        assert "your account at files" in params["message"]
        assert unconnected.accounts.links[params["url"]][1].names[-1] == "one"
        await answer(host, question, "accept")
        assert not call.done
        await unconnected.visit(params["url"], "person one")
        assert subject(await call.result()) == "person one"
        (done,) = await host.inbox.named("notifications/elicitation/complete")
        assert done["params"]["elicitationId"] == params["elicitationId"]
    assert unconnected.ran == ["person one"]


@pytest.mark.parametrize("kind", LEGACY_KINDS, ids=lambda kind: "-".join(kind))
async def test_a_page_that_is_not_visited(unconnected: AccountsHarness, kind: tuple[str, str]) -> None:
    """The person says no: nothing was run, and the result has the link all the same."""
    await start(unconnected)
    async with unconnected.connect_as(kind, "one", PAGES) as host:
        call = host.call("files.whoami")
        await answer(host, await asked(host), "decline")
        missing = error(await call.result())
    assert (missing["code"], missing["server"]) == ("login_required", "files")
    assert not unconnected.ran


@pytest.mark.parametrize("kind", MODERN_KINDS, ids=lambda kind: "-".join(kind))
@pytest.mark.parametrize("protocol", ["auto", "legacy"])
@pytest.mark.parametrize("first", ["page", "return"])
async def test_a_page_as_an_input_request(
    open_accounts: OpenAccounts, kind: tuple[str, str], protocol: str, first: str
) -> None:
    """2026-07-28: the call ends with the page, and comes again; the account may be there before or after that."""
    harness = open_accounts(auth={"per": "agent"}, protocol=protocol)
    await start(harness)
    async with harness.connect_as(kind, "one", PAGES) as host:
        result = await host.call("files.whoami").result()
        assert result["resultType"] == "input_required"
        ((key, question),) = result["inputRequests"].items()
        page = question["params"]["url"]
        assert harness.accounts.links[page][1] == account_of(kind)
        if first == "page":
            await harness.visit(page, "person one")
        again = host.ask(
            "tools/call",
            {
                "name": "files.whoami",
                "arguments": {},
                "requestState": result["requestState"],
                "inputResponses": {key: {"action": "accept"}},
            },
        )
        if first == "return":
            # A parked call waits for the account since it was begun.
            await harness.background.elsewhere(harness.accounts.waiting.wait())
            await harness.visit(page, "person one")
        assert subject(await again.result()) == "person one"
    assert harness.ran == ["person one"]


@pytest.mark.parametrize("kind", ANY, ids=lambda kind: "-".join(kind))
@pytest.mark.parametrize("capabilities", [{}, OLDEST], ids=["nothing", "forms"])
async def test_a_link_in_words(unconnected: AccountsHarness, kind: tuple[str, str], capabilities: Json) -> None:
    """Any other host: a result with one sentence and the link; the same call is answered once that was followed."""
    await start(unconnected)
    async with unconnected.connect_as(kind, "one", capabilities) as host:
        result = await host.call("files.whoami").result()
        missing = error(result)
        assert (missing["code"], missing["server"]) == ("login_required", "files")
        (block,) = result["content"]
        assert missing["url"] in block["text"]
        assert unconnected.accounts.links[missing["url"]][1] == account_of(kind)
        assert not unconnected.ran
        await unconnected.visit(missing["url"], "person one")
        assert subject(await host.call("files.whoami").result()) == "person one"


@pytest.mark.parametrize("why", ["no pages", "no database"])
async def test_without_a_link_there_is_a_command(unconnected: AccountsHarness, why: str) -> None:
    """A process that has no pages, or cannot make a link now, says what to run, for whose account."""
    unconnected.accounts.pages, unconnected.accounts.away = why != "no pages", why == "no database"
    await start(unconnected)
    async with unconnected.connect_as(("http", MODERN), "one", PAGES) as host:
        result = await host.call("files.whoami").result()
    assert error(result)["command"] == "aggregator connect files --agent one"
    assert "`aggregator connect files --agent one`" in result["content"][0]["text"]


@pytest.mark.parametrize("kind", [("http", LEGACY[-1]), ("http", MODERN)], ids=lambda kind: "-".join(kind))
async def test_more_scopes(unconnected: AccountsHarness, kind: tuple[str, str]) -> None:
    """403 `insufficient_scope`: the link asks for those of before and those that are missing."""
    await start(unconnected)
    unconnected.protected.needs["write"] = "files:write"
    account = await unconnected.connect(account_of(kind), "person one")
    async with unconnected.connect_as(kind, "one") as host:
        assert subject(await host.call("files.whoami").result()) == "person one"
        missing = error(await host.call("files.write").result())
        assert unconnected.accounts.links[missing["url"]][3] == ("mcp", "files:write")
        assert account.scopes == ("mcp",)
        await unconnected.visit(missing["url"], "person one")
        assert subject(await host.call("files.write").result()) == "person one"
    assert unconnected.ran == ["person one", "person one"]


@pytest.mark.parametrize("capabilities", [{}, PAGES], ids=["nothing", "pages"])
@pytest.mark.parametrize("by", ["files.whoami", "call_tool"])
async def test_a_link_is_not_recorded(
    unconnected: AccountsHarness, caplog: pytest.LogCaptureFixture, capabilities: Json, by: str
) -> None:
    """It would let its reader connect an account until it ends: no record has it, and no log."""
    caplog.set_level("DEBUG")
    await start(unconnected)
    records: list[CallRecord] = []
    unconnected.app.telemetry.observers.sinks += (records.append,)
    arguments = {"name": "files.whoami", "arguments": {}} if by == "call_tool" else {}
    async with unconnected.connect_as(("http", MODERN), "one", capabilities) as host:
        told = await host.call(by, arguments).result()
    (link,) = unconnected.accounts.links
    assert link in json.dumps(told)
    assert records
    assert not any(link in repr(record) or link in str(record.result) for record in records)
    assert link not in caplog.text
