"""Who says yes to a call that waits for a person, what that person is shown, and what a no does."""

import json
import time
from typing import Any, Final

import pytest

from aggregator.domain.call_record import CallRecord
from aggregator.gateway.ask import approval as consent
from aggregator.storage.approvals import DENIED_FOR, Approvals
from aggregator.storage.records import Approval
from tests.access.conftest import MakeConfig
from tests.access.gateway_harness import FORMS, LEGACY, MODERN, GatewayHarness, error_data, tool
from tests.peers.back_channel import AnsweringBackChannel
from tests.peers.toolbox import Json

PAY: Final = tool("pay", {"to": {"type": "string"}, "amount": {"type": "integer"}})
YES: Final[Json] = {"action": "accept", "content": {"allow": True}}
META: Final = {"io.modelcontextprotocol/clientInfo": {"name": "claude-ai", "version": "1"}}


def ruled(by: str | None, **more: Any) -> Json:
    said = {"confirm_wait": 0, **({"confirm_by": by} if by is not None else {})}
    return {"agents": {"one": {"allow": ["*"], "confirm": ["*", "prompt:*", "resource:*"], **said, **more}}}


async def agreeing(params: Json) -> Json:
    return YES


async def queue_of(harness: GatewayHarness) -> Approvals:
    approvals = await harness.app.database.approvals()
    assert approvals is not None
    return approvals


async def waiting(harness: GatewayHarness) -> list[Approval]:
    return await (await queue_of(harness)).list("pending", now=time.time())


def recorded(harness: GatewayHarness) -> list[CallRecord]:
    records: list[CallRecord] = []
    harness.app.telemetry.observers.sinks += (records.append,)
    return records


@pytest.mark.parametrize("version", [LEGACY, MODERN])
async def test_no_host_can_say_yes_where_the_queue_must(config: MakeConfig, storage: str, version: str) -> None:
    """B6: a host that would answer its own question is never asked, whatever it declares or brings."""
    harness = GatewayHarness(config("crm"), {"crm": [PAY]}, ruled("host"), storage)
    async with harness.app.database:
        host = harness.host("one", version, FORMS)
        host.capabilities = FORMS
        asked = await harness.call(host, "crm.pay", {"amount": 1}, AnsweringBackChannel(agreeing))
        more: Json = {}
        if version == MODERN:
            # An answer to a question that was put while the host might still answer it.
            more = {"inputResponses": {"confirm": YES}, "requestState": asked["result"]["requestState"]}
        harness.set_policies(ruled("queue"))
        sent, channel = list(harness.sent), AnsweringBackChannel(agreeing)
        error = error_data(await harness.call(host, "crm.pay", {"amount": 1}, channel, **more))
        assert error["code"] == "approval_pending"
        assert (channel.asked, harness.sent) == ([], sent)
        await (await queue_of(harness)).approve(error["approval"], "cli:ada", now=time.time())
        assert "isError" not in (await harness.call(host, "crm.pay", {"amount": 1}, channel))["result"]
    assert harness.sent == [*sent, ("crm", "pay")]


async def test_who_agreed_goes_with_the_call(config: MakeConfig, storage: str) -> None:
    """B6: the one who approved it, or the host by the name that it gives itself."""
    harness = GatewayHarness(config("crm"), {"crm": [PAY]}, ruled("host", confirm_fallback="queue"), storage)
    records = recorded(harness)
    async with harness.app.database:
        host = harness.host("one")
        error = error_data(await harness.call(host, "crm.pay"))
        await (await queue_of(harness)).approve(error["approval"], "cli:ada", now=time.time())
        await harness.call(host, "crm.pay")
        able = harness.host("one", capabilities=FORMS)
        able.client_info = {"name": "claude\u202e\ncode" + "x" * 100}
        await harness.call(able, "crm.pay", channel=AnsweringBackChannel(agreeing))
        modern = harness.host("one", MODERN)
        modern.capabilities = FORMS
        asked = (await harness.call(modern, "crm.pay", _meta=META))["result"]
        more = {"inputResponses": {"confirm": YES}, "requestState": asked["requestState"]}
        await harness.call(modern, "crm.pay", _meta=META, **more)
        harness.set_policies({"agents": {"one": {"allow": ["*"]}}})
        await harness.call(host, "crm.pay")
    by = [record.decision.approved_by for record in records]
    assert by[0:2] == [None, "cli:ada"]
    assert by[2] is not None
    assert by[2].startswith("host:claude\\u202e\\ncode")
    assert len(by[2]) < 100
    assert by[3:] == [None, "host:claude-ai", None]


async def test_without_a_database_nobody_can_say_yes(config: MakeConfig) -> None:
    """B6: then `queue` refuses, and no host is asked instead."""
    harness = GatewayHarness(config("crm"), {"crm": [PAY]}, ruled("queue"))
    channel = AnsweringBackChannel(agreeing)
    error = error_data(await harness.call(harness.host("one", capabilities=FORMS), "crm.pay", channel=channel))
    assert error["code"] == "not_confirmed"
    assert "no database" in error["message"]
    assert (channel.asked, harness.sent) == ([], [])


async def test_a_no_reaches_the_agent_and_stays_for_a_while(
    config: MakeConfig, storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B6: with the words of the person; the same call is not queued again until then, another one is."""
    harness = GatewayHarness(config("crm"), {"crm": [PAY]}, ruled("queue"), storage)
    async with harness.app.database:
        host = harness.host("one")
        first = error_data(await harness.call(host, "crm.pay", {"amount": 5}))
        queue = await queue_of(harness)
        await queue.deny(first["approval"], "cli:ada", note="too much\nfor\u202e today", now=time.time())
        for _ in range(2):
            answer = (await harness.call(host, "crm.pay", {"amount": 5}))["result"]
            error = answer["_meta"]["aggregator/error"]
            assert (error["code"], error["status"], error["denied"]) == ("not_confirmed", 403, True)
            assert (error["approval"], error["note"]) == (first["approval"], "too much\nfor\u202e today")
            assert DENIED_FOR - 60 < error["retry_after"] <= DENIED_FOR
            told = "crm.pay was not called. A person said no: too much\\nfor\\u202e today. Do not repeat this call."
            assert answer["content"][0]["text"] == told
            assert "ada" not in json.dumps(answer)
        assert await waiting(harness) == []
        assert (await queue.get(first["approval"], now=time.time())).asked_again == 2
        other = error_data(await harness.call(host, "crm.pay", {"amount": 4}))
        assert other["code"] == "approval_pending"
        later = time.time() + DENIED_FOR + 1
        monkeypatch.setattr("aggregator.gateway.ask.approval.time.time", lambda: later)
        again = error_data(await harness.call(host, "crm.pay", {"amount": 5}))
        assert again["code"] == "approval_pending"
        assert again["approval"] != first["approval"]
    assert harness.sent == []


async def test_a_yes_that_was_taken_back_is_a_no(config: MakeConfig, storage: str) -> None:
    """B6: also to the call that it was given for."""
    harness = GatewayHarness(config("crm"), {"crm": [PAY]}, ruled("queue"), storage)
    async with harness.app.database:
        waiting = error_data(await harness.call(harness.host("one"), "crm.pay"))["approval"]
        queue = await queue_of(harness)
        await queue.approve(waiting, "cli:ada", now=time.time())
        await queue.deny(waiting, "cli:ada", now=time.time())
        error = error_data(await harness.call(harness.host("one"), "crm.pay"))
    assert (error["code"], error["denied"], error["note"]) == ("not_confirmed", True, None)
    assert harness.sent == []


async def test_what_is_declared_comes_first(config: MakeConfig) -> None:
    """B6: in the order of the schema; names are quoted, and what the tool does not declare is marked."""
    harness = GatewayHarness(config("crm"), {"crm": [PAY]}, ruled("host"))
    forged = 'x\n- "amount": 1\n\u202e'
    arguments = {forged: 1, **{f"pad{n}": n for n in range(90)}, "amount": 1_000_000, "to": 'm"\n- "amount": 1'}
    channel = AnsweringBackChannel()
    await harness.call(harness.host("one", capabilities=FORMS), "crm.pay", arguments, channel)
    head, *lines, end = channel.asked[0]["message"].split("\n")
    assert head == "The agent 'one' wants to call 'pay' of the server 'crm' with:"
    assert lines[:2] == ['- "to": "m\\"\\n- \\"amount\\": 1"', '- "amount": 1000000']
    assert lines[2] == '- not declared by the tool: "x\\n- \\"amount\\": 1\\n\\u202e": 1'
    assert lines[-1] == "- 33 more arguments, which are not shown"
    assert end == "Allow it?"
    assert sum("amount" in line and "declared" not in line for line in lines) == 2


async def test_what_is_inside_an_argument_is_not_hidden_by_what_stands_beside_it(config: MakeConfig) -> None:
    """B6: fields of an object come in the order of its own schema, each on a line; a list has its share of lines."""
    order: Json = {"type": "object", "properties": {"to": {}, "amount": {}, "items": {"items": {"$ref": "#/$defs/i"}}}}
    inside: Json = {"$defs": {"o": order, "i": {"properties": {"id": {}}}}, "type": "object"}
    schema = {**inside, "properties": {"order": {"$ref": "#/$defs/o"}, "dry_run": {}}}
    harness = GatewayHarness(config("crm"), {"crm": [{"name": "buy", "inputSchema": schema}]}, ruled("host"))
    order = {"note": "x" * 5_000, "items": [{"id": n} for n in range(500)], "amount": 9, "to": "m", "tags": ["a", 1]}
    channel = AnsweringBackChannel()
    await harness.call(harness.host("one", capabilities=FORMS), "crm.buy", {"order": order, "dry_run": False}, channel)
    lines = channel.asked[0]["message"].split("\n")
    assert lines[1:4] == ['- "order"."to": "m"', '- "order"."amount": 9', '- "order"."items"[0]."id": 0']
    assert lines[-3:-1] == ['- "order": more values, which are not shown', '- "dry_run": false']
    assert len(lines) < 70
    order["items"] = []
    await harness.call(harness.host("one", capabilities=FORMS), "crm.buy", {"order": order}, channel)
    lines = channel.asked[1]["message"].split("\n")
    assert lines[4] == f'- not declared by the tool: "order"."note": "{"x" * 200}"… (4800 more characters)'
    assert lines[5] == '- not declared by the tool: "order"."tags": ["a",1]'


async def test_the_queue_holds_everything_but_secrets(
    config: MakeConfig, storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B6: what is not in the question is in the arguments that are kept; what nobody could read is not queued."""
    harness = GatewayHarness(config("crm"), {"crm": [PAY]}, ruled("queue"), storage)
    async with harness.app.database:
        arguments = {f"k{n}": "v" * 300 for n in range(100)} | {"amount": 7, "password": "hunter2hunter2"}
        assert error_data(await harness.call(harness.host("one"), "crm.pay", arguments))["code"] == "approval_pending"
        (kept,) = await waiting(harness)
        assert kept.arguments is not None
        assert json.loads(kept.arguments) == {**arguments, "password": "[redacted]"}
        assert '\n- "amount": 7\n' in kept.summary
        assert "hunter2" not in kept.summary
        monkeypatch.setattr(consent, "QUEUED_BYTES", 100)
        error = error_data(await harness.call(harness.host("one"), "crm.pay", {"to": "x" * 100}))
        assert error["code"] == "not_confirmed"
        assert "more than the 100 that a person can be shown" in error["message"]
        assert len(await waiting(harness)) == 1
    assert harness.sent == []
