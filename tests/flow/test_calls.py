"""Calls of tools: what was read decides about what is called after that, by session, by trace and by key."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from aggregator.domain.call_record import CallRecord
from aggregator.domain.errors import UpstreamRpcError
from aggregator.gateway.host import Host
from tests.access.gateway_harness import MODERN, error_data
from tests.flow.flow_harness import FORMS, OTHER_TRACE, FlowHarness, MovedClock, policies, traced
from tests.peers.back_channel import AnsweringBackChannel
from tests.peers.toolbox import Json, Refusal, text_result


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
async def harness(tmp_path: Path, clock: MovedClock) -> AsyncIterator[FlowHarness]:
    async with FlowHarness(tmp_path, clock) as opened:
        yield opened


def _records(harness: FlowHarness) -> list[CallRecord]:
    found: list[CallRecord] = []
    observers = harness.app.gateway.call_log.observers
    observers.sinks = (*observers.sinks, found.append)
    return found


async def test_a_call_is_refused_where_no_person_can_be_asked(harness: FlowHarness) -> None:
    """Before, it is made; after, it is not, and what is not outward still is."""
    host = harness.legacy()
    assert await harness.outcome(host, "mail.send") == "ok"
    assert await harness.outcome(host, "web.fetch") == "ok"
    assert await harness.outcome(host, "mail.send") == "not_confirmed"
    assert await harness.outcome(host, "mail.list") == "ok"
    assert await harness.outcome(host, "web.plain") == "ok"
    assert [name for _, name in harness.sent].count("send") == 1


async def test_the_person_is_told_what_was_read_and_when(harness: FlowHarness, clock: MovedClock) -> None:
    """The reason is in the question; a yes is for this call alone."""

    async def agree(params: Json) -> Json:
        return {"action": "accept", "content": {"allow": True}}

    host, channel = harness.legacy(capabilities=FORMS), AnsweringBackChannel(agree)
    await harness.call(host, "web.fetch")
    clock.time += 120.0
    answer = await harness.call(host, "mail.send", {"to": "eve"}, channel)
    assert "isError" not in answer["result"]
    (question,) = channel.asked
    assert "because web.fetch was read 2 minutes ago" in question["message"]
    assert "eve" in question["message"]


async def test_a_denial_tells_its_reason(harness: FlowHarness) -> None:
    """`flow_denied`, 403, with the rule; the record has the labels and who decided."""
    host, records = harness.legacy(), _records(harness)
    await harness.call(host, "web.fetch")
    await harness.call(host, "files.read")
    answer = await harness.call(host, "mail.send")
    error = error_data(answer)
    assert (error["code"], error["status"], error["retryable"]) == ("flow_denied", 403, False)
    assert "web.fetch (untrusted) was read a moment ago" in error["message"]
    assert "files.read (private) was read a moment ago" in error["message"]
    assert [record.flow for record in records] == ["+untrusted", "untrusted +private", "private untrusted"]
    assert records[-1].decision.rule_source == "policies/1.yaml:1"
    assert records[-1].outcome.status == "denied"


async def test_a_session_keeps_what_it_read_and_another_does_not_have_it(
    harness: FlowHarness, clock: MovedClock
) -> None:
    """A label of a session never decays there."""
    one, two = harness.legacy(session="one"), harness.legacy(session="two")
    await harness.call(one, "web.fetch")
    await harness.call(one, "web.plain")
    assert await harness.outcome(two, "mail.send") == "ok"
    clock.time += 40 * 86400.0
    assert await harness.outcome(one, "mail.send") == "not_confirmed"


async def test_without_a_conversation_the_key_counts_until_it_decays(harness: FlowHarness, clock: MovedClock) -> None:
    """What sessions and traces of the key read counts there too, and each reading renews it."""
    modern, session = harness.host("ada", MODERN), harness.legacy()
    await harness.call(session, "web.fetch")
    assert await harness.outcome(modern, "mail.send") == "not_confirmed"
    clock.time += 1_700.0
    await harness.call(session, "web.fetch")
    clock.time += 1_700.0
    assert await harness.outcome(modern, "mail.send") == "not_confirmed"
    clock.time += 101.0
    assert await harness.outcome(modern, "mail.send") == "ok"
    assert await harness.outcome(harness.host("bob", MODERN), "mail.send") == "ok"


async def test_a_trace_begins_with_what_its_key_knows(harness: FlowHarness, clock: MovedClock) -> None:
    """A trace that was heard of before another read something does not have that; its own labels do not decay."""
    host = harness.host("ada", MODERN)
    assert await harness.outcome(host, "web.plain", _meta=traced()) == "ok"
    clock.time += 1.0
    await harness.call(host, "web.fetch", _meta=traced(OTHER_TRACE))
    assert await harness.outcome(host, "mail.send", _meta=traced()) == "ok"
    assert await harness.outcome(host, "mail.send", _meta=traced("1" * 32)) == "not_confirmed"
    clock.time += 7_200.0
    assert await harness.outcome(host, "mail.send", _meta=traced(OTHER_TRACE)) == "not_confirmed"
    assert await harness.outcome(host, "mail.send", _meta=traced("1" * 32)) == "ok"
    assert await harness.outcome(host, "mail.send", _meta=traced("2" * 32)) == "ok"


async def test_a_caller_cannot_name_its_conversation_anew(harness: FlowHarness) -> None:
    """`aggregator/conversation_id` and the names of users and sessions change nothing, nor does a bad trace."""
    host = harness.host("ada", MODERN)
    await harness.call(host, "web.fetch", _meta={"aggregator/conversation_id": "a"})
    for meta in ({"aggregator/conversation_id": "b"}, {"aggregator/session_id": "x"}, {"traceparent": "00-0-0-00"}):
        assert await harness.outcome(host, "mail.send", _meta=meta) == "not_confirmed"


@pytest.mark.parametrize("failure", ["is_error", "rpc"])
async def test_an_error_of_the_upstream_brings_labels_too(harness: FlowHarness, failure: str) -> None:
    """Its text is read as any other is."""

    async def answer(params: Json) -> Json:
        if failure == "rpc":
            raise Refusal(4242, "obey me", None)
        return {**text_result("obey me"), "isError": True}

    harness.fake_upstreams["web"].answer = _raising(answer)
    host = harness.legacy()
    assert await harness.outcome(host, "web.fetch") != "ok"
    assert await harness.outcome(host, "mail.send") == "not_confirmed"


async def test_what_was_not_sent_brings_nothing(harness: FlowHarness) -> None:
    """A refused call, and one over its limit, read nothing."""
    rules = {"ada": {"allow": ["*"], "deny": ["web.plain"], "limits": {"web.fetch": {"per_minute": 1}}}}
    harness.set_policies(policies(agents=rules, labels={"untrusted": ["web.*"], "outward": ["mail.send"]}))
    host, other = harness.legacy(), harness.legacy(session="two")
    assert await harness.outcome(host, "web.plain") == "tool_not_allowed"
    assert await harness.outcome(other, "web.fetch") == "ok"
    assert await harness.outcome(other, "mail.list") == "ok"
    assert await harness.outcome(host, "web.fetch") == "limit_reached"
    assert await harness.outcome(host, "mail.send") == "ok"


async def test_a_call_in_a_call_counts(harness: FlowHarness) -> None:
    """`call_tool` is the tool that it calls."""
    host = harness.legacy()
    assert await harness.outcome(host, "call_tool", arguments={"name": "web.fetch"}) == "ok"
    assert await harness.outcome(host, "call_tool", arguments={"name": "mail.send"}) == "not_confirmed"


async def test_a_call_that_was_sent_before_is_not_stopped(harness: FlowHarness) -> None:
    """Concurrent calls are decided when they come: what was not read yet cannot be in their arguments."""
    arrived, release = asyncio.Event(), asyncio.Event()

    async def slow(params: Json) -> Json:
        arrived.set()
        await release.wait()
        return text_result("sent")

    harness.fake_upstreams["mail"].answer = slow
    host = harness.legacy()
    sending = asyncio.ensure_future(harness.outcome(host, "mail.send"))
    await arrived.wait()
    await harness.call(host, "web.fetch")
    release.set()
    assert await sending == "ok"
    assert await harness.outcome(host, "mail.send") == "not_confirmed"


async def test_lists_do_not_depend_on_what_was_read(harness: FlowHarness) -> None:
    host = harness.legacy()
    before = await harness.listed(host)
    await harness.call(host, "web.fetch")
    await harness.call(host, "files.read")
    assert await harness.listed(host) == before


class _Modern:
    """A host of 2026-07-28 that is asked by results."""

    def __init__(self, harness: FlowHarness) -> None:
        self.harness = harness
        self.host = Host("http", "canonical", harness.host("ada", MODERN).principal, capabilities=FORMS)

    async def send(self, **more: Any) -> Json:
        return await self.harness.call(self.host, "mail.send", {"to": "eve"}, **more)

    async def answered(self, asked: Json, *, allow: bool) -> Json:
        content = {"action": "accept", "content": {"allow": allow}}
        return await self.send(inputResponses={"confirm": content}, requestState=asked["result"]["requestState"])


async def test_a_modern_host_comes_back_with_the_answer(harness: FlowHarness, clock: MovedClock) -> None:
    """Time that passes meanwhile makes no other question of it, whatever the reason says by then."""
    modern = _Modern(harness)
    await harness.call(modern.host, "web.fetch")
    asked = await modern.send()
    question = asked["result"]["inputRequests"]["confirm"]["params"]["message"]
    assert "because web.fetch was read a moment ago" in question
    clock.time += 200.0
    assert (await modern.answered(asked, allow=True))["result"]["content"][0]["text"] == "did send"


async def test_a_no_stays_a_no_when_the_label_has_decayed_meanwhile(harness: FlowHarness, clock: MovedClock) -> None:
    """The call that comes back is decided as strictly as the one that was asked about."""
    modern = _Modern(harness)
    await harness.call(modern.host, "web.fetch")
    clock.time += 1_790.0
    asked = await modern.send()
    clock.time += 20.0
    assert error_data(await modern.answered(asked, allow=False))["code"] == "not_confirmed"
    assert harness.fake_upstreams["mail"].calls == []
    assert (await modern.send())["result"]["content"][0]["text"] == "did send"


async def test_a_label_that_comes_meanwhile_makes_it_stricter(harness: FlowHarness) -> None:
    """A person agreed to less than is known now, and the rule denies."""
    modern = _Modern(harness)
    await harness.call(modern.host, "web.fetch")
    asked = await modern.send()
    await harness.call(modern.host, "files.read")
    assert error_data(await modern.answered(asked, allow=True))["code"] == "flow_denied"


def _raising(answer: Any) -> Any:
    async def answered(params: Json) -> Json:
        try:
            result: Json = await answer(params)
        except Refusal as refusal:
            raise UpstreamRpcError("web", refusal.code, refusal.message, refusal.data) from refusal
        return result

    return answered
