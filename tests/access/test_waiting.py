"""A call whose question is in the queue waits for the answer, whichever process gives it."""

import asyncio
import time
from typing import Any, Final

import pytest

from aggregator.cli.approvals import _answered
from aggregator.domain.call_record import CallRecord
from aggregator.gateway.ask import answer_watch, approval
from aggregator.storage.approvals import ApprovalAnswer, Approvals
from aggregator.storage.database import open_database
from aggregator.storage.records import Approval
from tests.access.conftest import MakeConfig
from tests.access.gateway_harness import FORMS, LEGACY, MODERN, GatewayHarness, error_data, tool
from tests.access.recording_toolbox import RecordingToolbox
from tests.access.secured_harness import HOST_KINDS, OpenHarness
from tests.peers.back_channel import AnsweringBackChannel
from tests.peers.toolbox import Json
from tests.polling import until
from tests.storage.processes import other_process
from tests.v1.api import api_client

PAY: Final = tool("pay", {"amount": {"type": "integer"}})
META: Final = {"progressToken": "t"}


def ruled(**more: Any) -> Json:
    return {"agents": {"one": {"allow": ["*"], "confirm": ["crm.*"], "confirm_by": "queue", **more}}}


async def queue_of(harness: GatewayHarness) -> Approvals:
    approvals = await harness.app.database.approvals()
    assert approvals is not None
    return approvals


async def asked(harness: GatewayHarness, count: int = 1) -> list[Approval]:
    """Wait until so many questions are in the queue, and as many calls wait; return the questions."""
    queue = await queue_of(harness)

    async def there() -> list[Approval]:
        found = await queue.list("pending", now=time.time())
        return found if len(found) >= count <= len(harness.app.answers) else []

    await until(there)
    return await there()


def recorded(harness: GatewayHarness) -> list[CallRecord]:
    records: list[CallRecord] = []
    harness.app.telemetry.observers.sinks += (records.append,)
    return records


@pytest.mark.parametrize("version", [LEGACY, MODERN])
async def test_a_call_goes_on_as_soon_as_a_person_agrees(config: MakeConfig, storage: str, version: str) -> None:
    """B6: it is answered once, with the result; its row and that of the answer name the same approval."""
    harness = GatewayHarness(config("crm"), {"crm": [PAY]}, ruled(), storage)
    records = recorded(harness)
    async with harness.app.database:
        call = asyncio.create_task(harness.call(harness.host("one", version), "crm.pay", {"amount": 7}))
        (question,) = await asked(harness)
        assert question.server == "crm"
        assert (question.rule, question.rule_source) == (
            'agent one wants a person to confirm "crm.*"',
            "policies/1.yaml:1",
        )
        assert harness.sent == []
        await (await queue_of(harness)).approve(question.id, "ada", now=time.time())
        assert "isError" not in (await call)["result"]
        assert harness.sent == [("crm", "pay")]
        await until(lambda: not harness.app.answers._looking)
    (record,) = records
    assert (record.decision.approved_by, record.decision.approval_id) == ("ada", question.id)
    assert question.trace_id == record.trace.trace_id
    assert len(harness.app.answers) == 0
    assert [step.name for step in record.steps].count("confirm") == 1


async def test_a_no_reaches_the_call_that_waits(config: MakeConfig, storage: str) -> None:
    """B6: with the note; the person is not named, and calls that are made again are counted."""
    harness = GatewayHarness(config("crm"), {"crm": [PAY]}, ruled(), storage)
    records = recorded(harness)
    async with harness.app.database:
        queue, host = await queue_of(harness), harness.host("one")
        call = asyncio.create_task(harness.call(host, "crm.pay"))
        (question,) = await asked(harness)
        await queue.deny(question.id, "cli:ada", note="ask the customer first.", now=time.time())
        answer = await call
        assert error_data(answer)["denied"] is True
        told = "crm.pay was not called. A person said no: ask the customer first. Do not repeat this call."
        assert answer["result"]["content"][0]["text"] == told
        assert (await queue.get(question.id, now=time.time())).asked_again == 0
        for _ in range(3):
            assert error_data(await harness.call(host, "crm.pay"))["denied"] is True
        assert (await queue.get(question.id, now=time.time())).asked_again == 3
        assert await queue.list("pending", now=time.time()) == []
    assert harness.sent == []
    assert [record.decision.approval_id for record in records] == [question.id] * 4


async def test_when_nobody_answers_in_time(config: MakeConfig, storage: str) -> None:
    """B6: the call is answered as one that waits, its question stays, and a later yes counts."""
    harness = GatewayHarness(config("crm"), {"crm": [PAY]}, ruled(confirm_wait=0.05), storage)
    records = recorded(harness)
    async with harness.app.database:
        error = error_data(await harness.call(harness.host("one"), "crm.pay"))
        assert error["code"] == "approval_pending"
        assert records[0].decision.approval_id == error["approval"]
        await (await queue_of(harness)).approve(error["approval"], "ada", now=time.time())
        assert "isError" not in (await harness.call(harness.host("one"), "crm.pay"))["result"]
    assert harness.sent == [("crm", "pay")]


async def test_another_process_answers(config: MakeConfig, storage: str) -> None:
    """B6: a yes that another process gives lets the call go on; one task looks for it, however many wait."""
    harness = GatewayHarness(config("crm"), {"crm": [PAY]}, ruled(), storage)
    script = """
        async with open_database(url) as database:
            say("ready")
            for id in hear().split():
                await database.approvals.approve(id, "ada", now=time.time())
                say(id)
    """
    with other_process(storage, script) as process:
        assert await asyncio.to_thread(process.read) == "ready"
        async with harness.app.database:
            tasks = len(asyncio.all_tasks())
            calls = [asyncio.create_task(harness.call(harness.host("one"), "crm.pay", {"amount": n})) for n in range(9)]
            questions = await asked(harness, 9)
            assert len(asyncio.all_tasks()) <= tasks + len(calls) + 1
            process.write(" ".join(question.id for question in questions))
            for answer in await asyncio.gather(*calls):
                assert "isError" not in answer["result"]
        await asyncio.to_thread(process.done)
    assert len(harness.sent) == 9


async def test_one_yes_and_two_calls_that_wait_for_it(config: MakeConfig, storage: str) -> None:
    """B6: exactly one goes on; the other asks anew, and waits on."""
    harness = GatewayHarness(config("crm"), {"crm": [PAY]}, ruled(), storage)
    async with harness.app.database:
        queue, calls = await queue_of(harness), set()
        for _ in range(2):
            calls.add(asyncio.create_task(harness.call(harness.host("one"), "crm.pay")))
        await until(lambda: len(harness.app.answers) == 2)
        (first,) = await asked(harness)
        await queue.approve(first.id, "ada", now=time.time())
        done, left = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        assert len(done) == len(harness.sent) == 1
        (second,) = await asked(harness)
        assert second.id != first.id
        await queue.approve(second.id, "ada", now=time.time())
        assert "isError" not in (await left.pop())["result"]


async def test_a_yes_for_a_time(config: MakeConfig, storage: str) -> None:
    """B6: every such call goes through and is counted, no other one does, until it is taken back."""
    harness = GatewayHarness(config("crm"), {"crm": [PAY]}, ruled(confirm_wait=0), storage)
    async with harness.app.database:
        queue, host = await queue_of(harness), harness.host("one")
        waiting = error_data(await harness.call(host, "crm.pay", {"amount": 1}))["approval"]
        await queue.approve(waiting, "ada", valid_until=time.time() + 3600, now=time.time())
        for _ in range(3):
            assert "isError" not in (await harness.call(host, "crm.pay", {"amount": 1}))["result"]
        assert error_data(await harness.call(host, "crm.pay", {"amount": 2}))["code"] == "approval_pending"
        assert (await queue.get(waiting, now=time.time())).uses == 3
        await queue.deny(waiting, "bob", now=time.time())
        assert error_data(await harness.call(host, "crm.pay", {"amount": 1}))["denied"] is True
    assert harness.sent == [("crm", "pay")] * 3


async def test_a_call_that_is_given_up_leaves_nothing_behind(config: MakeConfig, storage: str) -> None:
    """C9: no place, no task; its question can still be answered, for when it is made again."""
    harness = GatewayHarness(config("crm"), {"crm": [PAY]}, ruled(), storage)
    async with harness.app.database:
        call = asyncio.create_task(harness.call(harness.host("one"), "crm.pay"))
        (question,) = await asked(harness)
        call.cancel()
        await asyncio.wait([call])
        assert len(harness.app.answers) == 0
        await until(lambda: not harness.app.answers._looking)
        await (await queue_of(harness)).approve(question.id, "ada", now=time.time())
        assert "isError" not in (await harness.call(harness.host("one"), "crm.pay"))["result"]


async def test_the_end_of_the_process_waits_for_nobody(config: MakeConfig, storage: str) -> None:
    """B6: a call that waits is answered at once, and so is one that would have waited."""
    harness = GatewayHarness(config("crm"), {"crm": [PAY]}, ruled(), storage)
    async with harness.app.database:
        call = asyncio.create_task(harness.call(harness.host("one"), "crm.pay"))
        await asked(harness)
        await asyncio.wait_for(harness.app.drain(), 5)
        assert error_data(await call)["code"] == "approval_pending"
        await until(lambda: not harness.app.answers._looking)


async def test_many_that_wait_are_bounded(config: MakeConfig, storage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """B6: further calls of the agent are answered at once, and so are those of others when all places are taken."""
    monkeypatch.setattr(answer_watch, "WAITING_OF_ONE", 2)
    monkeypatch.setattr(answer_watch, "WAITING_AT_MOST", 3)
    agents = {name: ruled()["agents"]["one"] for name in ("one", "two", "three")}
    harness = GatewayHarness(config("crm"), {"crm": [PAY]}, {"agents": agents}, storage)
    async with harness.app.database:
        calls = [asyncio.create_task(harness.call(harness.host(one), "crm.pay")) for one in ("one", "one", "two")]
        await until(lambda: len(harness.app.answers) == 3)
        for name in ("one", "two", "three"):
            assert error_data(await harness.call(harness.host(name), "crm.pay"))["code"] == "approval_pending"
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)


async def test_the_host_hears_that_its_call_waits(
    config: MakeConfig, storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B6: under its token, rising, and below what the server reports later."""
    monkeypatch.setattr(approval, "REPORT_EVERY", 0.02)
    harness = GatewayHarness(config("crm"), {"crm": [PAY]}, ruled(), storage)
    channel = AnsweringBackChannel()
    async with harness.app.database:
        call = asyncio.create_task(harness.call(harness.host("one"), "crm.pay", channel=channel, _meta=META))
        (question,) = await asked(harness)
        await until(lambda: len(channel.notifications) > 3)
        await (await queue_of(harness)).approve(question.id, "ada", now=time.time())
        await call
    params = [params for method, params in channel.notifications if method == "notifications/progress"]
    told = [one["progress"] for one in params]
    assert told == sorted(set(told))
    assert 0 < told[0] <= told[-1] < 0.001
    assert {one["progressToken"] for one in params} == {"t"}
    assert question.id in params[0]["message"]


async def test_names_that_no_database_takes(config: MakeConfig, storage: str) -> None:
    """B6: what a host calls its conversation is kept as far as it can be, and the call is asked about."""
    harness = GatewayHarness(config("crm"), {"crm": [PAY]}, ruled(confirm_wait=0), storage)
    async with harness.app.database:
        meta = {"aggregator/conversation_id": "a\0b\ud83d password=hunter2hunter2 " + "x" * 100_000}
        error = error_data(await harness.call(harness.host("one"), "crm.pay", _meta=meta))
        assert error["code"] == "approval_pending"
        kept = (await (await queue_of(harness)).get(error["approval"], now=time.time())).conversation_id
    assert kept is not None
    assert kept.startswith("a\\0b\\ud83d password=")
    assert "hunter2" not in kept
    assert len(kept) < 220


async def test_two_people(config: MakeConfig, storage: str) -> None:
    """B6: neither the host nor one person twice is enough; each says yes to what it is shown."""
    policies = {"agents": {"one": {"allow": ["*"], "confirm_people": {"crm.*": 2}}}}
    harness = GatewayHarness(config("crm"), {"crm": [PAY]}, policies, storage)
    records = recorded(harness)
    channel = AnsweringBackChannel()
    async with harness.app.database:
        queue = await queue_of(harness)
        able = harness.host("one", capabilities=FORMS)
        call = asyncio.create_task(harness.call(able, "crm.pay", {"amount": 1}, channel))
        (question,) = await asked(harness)
        assert question.needed == 2
        assert (await queue.approve(question.id, "ada", now=time.time())).status == "pending"
        assert not call.done()
        assert (await queue.approve(question.id, "bob", now=time.time())).status == "approved"
        assert "isError" not in (await call)["result"]
        # One yes of two, and then a no: that is a no.
        call = asyncio.create_task(harness.call(able, "crm.pay", {"amount": 2}, channel))
        (question,) = await asked(harness)
        await queue.approve(question.id, "ada", now=time.time())
        await queue.deny(question.id, "bob", now=time.time())
        assert error_data(await call)["denied"] is True
    assert channel.asked == []
    assert [record.decision.approved_by for record in records] == ["ada, bob", None]


async def test_one_persons_yes_is_not_enough_for_a_rule_that_wants_two(config: MakeConfig, storage: str) -> None:
    """B6: a yes from before the rule, also one for a time, does not count for it."""
    harness = GatewayHarness(config("crm"), {"crm": [PAY]}, ruled(confirm_wait=0), storage)
    async with harness.app.database:
        queue, host = await queue_of(harness), harness.host("one")
        first = error_data(await harness.call(host, "crm.pay"))["approval"]
        await queue.approve(first, "ada", valid_until=time.time() + 3600, now=time.time())
        harness.set_policies(ruled(confirm_wait=0, confirm_people={"crm.pay": 2}))
        second = error_data(await harness.call(host, "crm.pay"))
        assert (second["code"], second["approval"] != first) == ("approval_pending", True)
        assert "2 people have to agree" in second["message"]
    assert harness.sent == []


@pytest.mark.parametrize("host_kind", HOST_KINDS)
async def test_every_frontend_waits(open_harness: OpenHarness, storage: str, host_kind: tuple[str, str]) -> None:
    """B6: over stdio, SSE and HTTP in each era; answered with the command line's own function."""
    toolbox = RecordingToolbox([PAY])
    harness = open_harness({"crm": toolbox.config_entry()}, ruled(), storage=storage)
    async with harness.connect_as(host_kind, "one") as host:
        call = host.call("crm.pay", {"amount": 7})
        await until(lambda: len(harness.app.answers) == 1)
        async with open_database(storage) as database:
            (question,) = await database.approvals.list("pending", now=time.time())
        await _answered(storage, question.id, ApprovalAnswer("approve", "somebody"))
        assert "isError" not in await call.result()
    assert len(toolbox.calls) == 1


async def test_v1_waits(open_harness: OpenHarness, storage: str) -> None:
    """B6: and what is cancelled by a closed connection, or ended with its key, waits no longer."""
    toolbox = RecordingToolbox([PAY])
    harness = open_harness({"crm": toolbox.config_entry()}, ruled(), ["one"], storage=storage)
    async with api_client(harness, "one") as api:
        call = asyncio.create_task(api.call("crm.pay"))
        await until(lambda: len(harness.app.answers) == 1)
        async with open_database(storage) as database:
            (question,) = await database.approvals.list("pending", now=time.time())
        await _answered(storage, question.id, ApprovalAnswer("deny", "somebody", "no"))
        answer = await call
        assert (answer.status, answer.body["error"]["note"]) == (403, "no")
        call = asyncio.create_task(api.call("crm.pay", {"amount": 2}))
        await until(lambda: len(harness.app.answers) == 1)
        (harness.policies / "keys.yaml").unlink()
        await until(lambda: len(harness.app.answers) == 0)
        assert (await call).status == 401
    assert toolbox.calls == []
