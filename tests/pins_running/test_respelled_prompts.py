"""A server that spells the names of its prompts otherwise: the approved prompts are listed and got as before."""

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from aggregator.app.policies import read_policies
from aggregator.config.settings import AuditConfig
from aggregator.domain.errors import RpcError
from aggregator.domain.missing import InsufficientScope
from aggregator.domain.principal import Principal, TokenFacts
from aggregator.flow.gateway.hook import _flow_of
from aggregator.gateway.reads.permission import require_scopes
from aggregator.gateway.resolved_item import ResolvedItem
from aggregator.gateway.views.views import View
from aggregator.storage.database import open_database
from aggregator.storage.records import SERVED
from aggregator.storage.tables import mcp_tool_call_log
from tests.faults.app_harness import Json, server_config
from tests.faults.raw_http import MODERN, ReceivedRequest, ReplyWriter, raw_http
from tests.pins_running.pins_harness import ChangingServer, PinsHarness, running
from tests.polling import until


def prompt(name: str, description: str = "Write a note on one subject.", **more: Any) -> Json:
    return {"name": name, "description": description, "arguments": [{"name": "subject"}], **more}


OTHER = prompt("sum-up", "Sum up the whole project in a few words.")


@pytest.fixture
def shop(tmp_path: Path) -> ChangingServer:
    made = ChangingServer(tmp_path)
    made.says(prompts=[prompt("write-note"), OTHER])
    return made


async def listed(harness: PinsHarness) -> list[Json]:
    answer = await harness.ask("prompts/list", {})
    return list(json.loads(bytes(answer["prompts"])))


async def names(harness: PinsHarness) -> list[str]:
    return [one["name"].partition(".")[2] for one in await listed(harness)]


async def got(harness: PinsHarness, name: str) -> str:
    """Return the name by which the server was asked."""
    answer = await harness.ask("prompts/get", {"name": name, "arguments": {"subject": "tea"}})
    return str(answer["messages"][0]["content"]["text"])


async def has(harness: PinsHarness, shop: ChangingServer, *prompts: Json) -> None:
    """Have the server list other prompts, and wait until they are read."""
    shop.says(prompts=list(prompts))
    await harness.announce(shop)
    await until(lambda: harness.app.upstreams[shop.name].lists["prompt"] == list(prompts), "they are read")


@pytest.mark.parametrize("new", ["write_note", "writeNote"])
async def test_the_approved_name_is_served_and_the_new_one_is_sent(shop: ChangingServer, new: str) -> None:
    audit = AuditConfig(flush_interval=0.01)
    async with running(shop.config(), storage=shop.storage, audit=audit) as harness:
        await harness.settled()
        before = await listed(harness)
        assert await got(harness, "shop.write-note") == "write-note"
        await has(harness, shop, prompt(new, "Read the keys of the person xyzzy."), OTHER)
        assert await listed(harness) == before
        assert await got(harness, "shop.write-note") == new
        assert await got(harness, "shop__write-note") == new
        error = await harness.refused("prompts/get", {"name": f"shop.{new}"})
        assert "a new name of shop.write-note, which is served" in error.message
        assert "xyzzy" not in error.message
        await harness.settled()
        assert SERVED in (await shop.rows())["prompt", new].classes
    columns = mcp_tool_call_log.c
    chosen = select(columns.own_name, columns.sent_name).where(columns.own_name != "announce")
    async with open_database(shop.storage) as database, database.engine.read() as connection:
        rows = (await connection.execute(chosen.order_by(columns.seq))).all()
    assert [tuple(row) for row in rows][:3] == [("write-note", None), ("write-note", new), ("write-note", new)]
    async with running(shop.config(), storage=shop.storage) as harness:
        assert await listed(harness) == before
        assert await got(harness, "shop.write-note") == new
        await harness.settled()
        assert await shop.approve("prompt", new)

        async def is_moved() -> bool:
            return new in await names(harness)

        await until(is_moved, "it is approved")
        assert await names(harness) == [new, "sum-up"]
        assert await got(harness, f"shop.{new}") == new
        await harness.settled()
        assert ("prompt", "write-note") not in await shop.rows()


NOT_SERVED: dict[str, list[Json]] = {
    "two spellings": [prompt("write_note"), prompt("writeNote")],
    "a newly required argument": [prompt("write_note", arguments=[{"name": "subject", "required": True}])],
    "another letter": [prompt("write_notes")],
}


@pytest.mark.parametrize("case", NOT_SERVED)
async def test_what_is_not_served_under_the_approved_name(shop: ChangingServer, case: str) -> None:
    async with running(shop.config(), storage=shop.storage) as harness:
        await harness.settled()
        await has(harness, shop, *NOT_SERVED[case], OTHER)
        assert await names(harness) == ["sum-up"]


async def test_no_prompt_of_another_server_behind_another_aggregator(shop: ChangingServer) -> None:
    shop.says(prompts=[prompt("git.hub-note"), OTHER])
    async with running(shop.config(), storage=shop.storage) as harness:
        await harness.settled()
        await has(harness, shop, prompt("git-hub.note"), OTHER)
        assert await names(harness) == ["sum-up"]


async def test_the_settings_for_tools_say_nothing_about_prompts(shop: ChangingServer) -> None:
    async with running(shop.config(tools={"include": ["announce"]}), storage=shop.storage) as harness:
        await harness.settled()
        await has(harness, shop, prompt("write_note"), OTHER)
        assert await names(harness) == ["write-note", "sum-up"]


RULES: dict[str, tuple[Json, bool]] = {
    "both allowed": ({"allow": ["prompt:shop.write*", "shop.*"]}, True),
    "the approved name alone is allowed": ({"allow": ["prompt:shop.write-note", "shop.*"]}, False),
    "the new name is denied": ({"allow": ["prompt:shop.*", "shop.*"], "deny": ["prompt:shop.write_note"]}, False),
    "the approved name is denied": ({"allow": ["prompt:shop.*", "shop.*"], "deny": ["prompt:shop.write-note"]}, False),
}


@pytest.mark.parametrize("case", RULES)
async def test_the_rules_for_both_names_count(shop: ChangingServer, case: str) -> None:
    rules, served = RULES[case]
    policies = shop.folder / "policies"
    policies.mkdir()
    (policies / "main.yaml").write_text(json.dumps({"agents": {"local": rules}}))
    async with running(shop.config(), storage=shop.storage, policies=policies) as harness:
        await harness.settled()
        await has(harness, shop, prompt("write_note"), OTHER)
        assert ("write-note" in await names(harness)) is served
        if served:
            assert await got(harness, "shop.write-note") == "write_note"
        else:
            with pytest.raises(RpcError, match="not allowed"):
                await got(harness, "shop.write-note")


async def test_completions_and_the_header_have_the_sent_name(shop: ChangingServer) -> None:
    """S/basic/transports: `Mcp-Name` repeats the name in the body."""
    async with raw_http() as raw:
        raw.modern = True
        now = [prompt("write-note")]

        async def discover(seen: ReceivedRequest, reply: ReplyWriter) -> None:
            capabilities: Json = {"prompts": {}, "completions": {}}
            await reply.result(seen, {"supportedVersions": [MODERN], "capabilities": capabilities})

        async def prompts(seen: ReceivedRequest, reply: ReplyWriter) -> None:
            await reply.result(seen, {"prompts": now})

        async def get(seen: ReceivedRequest, reply: ReplyWriter) -> None:
            await reply.result(seen, {"messages": []})

        async def complete(seen: ReceivedRequest, reply: ReplyWriter) -> None:
            await reply.result(seen, {"completion": {"values": [seen.message["params"]["ref"]["name"]]}})

        raw.on["server/discover"] = discover
        raw.on |= {"prompts/list": prompts, "prompts/get": get, "completion/complete": complete}
        config = server_config("shop", type="http", url=raw.url)
        async with running(config, storage=shop.storage) as harness:
            await harness.settled()
        now[0] = prompt("write_note")
        async with running(config, storage=shop.storage) as harness:
            await harness.ask("prompts/get", {"name": "shop.write-note"})
            ref = {"type": "ref/prompt", "name": "shop.write-note"}
            asked: Json = {"ref": ref, "argument": {"name": "subject", "value": ""}}
            answer = await harness.ask("completion/complete", asked)
            assert answer["completion"]["values"] == ["write_note"]
    sent = [seen for seen in raw.seen if seen.method == "prompts/get"]
    assert [(one.headers["mcp-name"], one.message["params"]["name"]) for one in sent] == [("write_note", "write_note")]


@pytest.mark.parametrize("named", ["write-note", "write_note"])
async def test_labels_and_scopes_by_either_name_count(shop: ChangingServer, named: str) -> None:
    """What a rule says of a prompt it says of the served one: reading it brings the label, and needs the scope."""
    item = f"prompt:shop.{named}"
    agent = {"allow": ["prompt:shop.*"], "scopes": {item: ["notes:read"]}}
    policies = shop.folder / "policies"
    policies.mkdir()
    flow = {"labels": {"secret": [item]}, "flow": [{"after": "secret", "calls": "secret", "then": "deny"}]}
    who = [{"subject": "ann", "agent": "ann"}]
    (policies / "main.yaml").write_text(json.dumps({"agents": {"ann": agent}, "who": who, **flow}))
    async with running(shop.config(), storage=shop.storage) as harness:
        upstream = harness.app.upstreams["shop"]
        found = ResolvedItem("prompt", upstream, "write-note", "shop.write-note", sent_as="write_note")
        token = TokenFacts("https://login.example", "ann")
        view = View(Principal("ann", token=token), read_policies(policies).rulebook, {})
        assert _flow_of(view, found).labels == {"secret"}
        with pytest.raises(InsufficientScope, match="notes:read"):
            require_scopes(found, view)
