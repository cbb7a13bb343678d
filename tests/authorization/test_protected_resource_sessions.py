"""Sessions, streams and questions are those of one person with one program, whoever else is the same agent; they end
with the last token that kept them up.
"""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import httpx2
import pytest

from aggregator.gateway import access
from aggregator.identity.tokens import verifier
from tests.access.test_ended_keys import BusyHost
from tests.authorization.resource_harness import Issuers, ResourceHarness, ask, good, policies
from tests.end_to_end.scripted_host import ACCEPT, BOUND, ENVELOPE, META, MODERN, over_http, over_sse
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json
from tests.polling import until
from tests.server_requests.entries import ABLE, FORM, stdio_entry
from tests.server_requests.replies import ask_and_answer, text_as_json

LEGACY: Final = "2025-11-25"
CONFIRMED: Final = {"allow": ["shop.*"], "confirm": ["shop.put"]}
HOUR: Final = 3600.0


@pytest.fixture(scope="module")
def issuers(background: BackgroundLoop, patched: pytest.MonkeyPatch) -> Issuers:
    """Two issuers that know people of the same names."""
    return Issuers(background, "one", "two")


@pytest.fixture(scope="module")
def rules(issuers: Issuers) -> Json:
    """The policies: one tool needs a confirmation."""
    usual = policies(issuers)
    return {**usual, "agents": {**usual["agents"], "clerk": CONFIRMED}}


@pytest.fixture(scope="module")
def gateway(
    background: BackgroundLoop, issuers: Issuers, rules: Json, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ResourceHarness]:
    """A gateway that looks at its policies often."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("aggregator.app.reload.policy_reload.EVERY", 0.05)
        patch.setattr("aggregator.app.reload.policy_reload.STILL", 0.01)
        yield ResourceHarness(
            background, tmp_path_factory.mktemp("sessions"), issuers, rules={"agents": rules["agents"]}
        )


class Strangers:
    """Credentials of others that are the same agent as alice of issuer `one` at the program `host`."""

    def __init__(self, gateway: ResourceHarness, issuers: Issuers) -> None:
        self.tokens = {
            "another person": good(issuers["one"], "bob"),
            "the same name at another issuer": good(issuers["two"], "alice"),
            "the same person at another program": good(issuers["one"], "alice", client="other"),
            "the same person at no program": good(issuers["one"], "alice", client=None),
            "the agent's key": gateway.keys["clerk"],
        }


@pytest.fixture
def strangers(gateway: ResourceHarness, issuers: Issuers) -> dict[str, str]:
    """Credentials by what they are."""
    return Strangers(gateway, issuers).tokens


async def test_session_is_that_of_the_person_who_opened_it(
    gateway: ResourceHarness, issuers: Issuers, strangers: dict[str, str]
) -> None:
    async with over_http(gateway.url, LEGACY, good(issuers["one"])) as host:
        session: Any = host.wire
        headers = {**ACCEPT, "mcp-protocol-version": LEGACY, "mcp-session-id": session.session}
        call = {"jsonrpc": "2.0", "id": 9, "method": "tools/list"}
        for what, text in strangers.items():
            async with gateway.bearer(text) as stranger:
                answers = [
                    await stranger.post("/mcp", json=call, headers=headers),
                    await stranger.get("/mcp", headers={**headers, "accept": "text/event-stream"}),
                    await stranger.delete("/mcp", headers=headers),
                ]
            assert [answer.status_code for answer in answers] == [404, 404, 404], what
        # A newer token of the same person at the same program goes on with it.
        async with gateway.bearer(good(issuers["one"])) as same:
            assert (await same.post("/mcp", json=call, headers=headers)).status_code == 200
        assert await host.list()


@pytest.mark.parametrize("connect", [over_http, over_sse])
@pytest.mark.parametrize("isolation", ["auto", "per_session"])
async def test_all_requests_of_a_session_use_its_process(
    background: BackgroundLoop, tmp_path: Path, issuers: Issuers, isolation: str, connect: Any
) -> None:
    """Each request over SSE, and each token over HTTP, had a process of its own, which did not end with the session."""
    others = {"one": stdio_entry("legacy", isolation=isolation)}
    rules = {"agents": {"clerk": {"allow": ["shop.*", "one.*"]}}}
    gateway = ResourceHarness(background, tmp_path, issuers, rules=rules, others=others)
    params = {"name": "one.ask", "arguments": {"key": "k", "rounds": [[FORM]]}}
    answer = {"action": "accept", "content": {"answer": "it"}}
    async with connect(gateway.url, LEGACY, good(issuers["one"]), ABLE) as host:
        # While one call runs, the others of its session go to the same process, and their questions to the session.
        held = host.call("one.hold", {"key": "k"})
        await host.call("one.witness", {"entry": "started k"}).result()
        for _ in range(2):
            result, questions = await ask_and_answer(host, "tools/call", params, [[answer]])
            assert text_as_json(result)["answers"] == [[answer]]
            assert len(questions) == 1
        await host.call("one.release", {"key": "k"}).result()
        await held.result()
        assert len(gateway.app.upstreams["one"]._isolated._sides) == (isolation == "per_session")
    await until(lambda: not gateway.app.upstreams["one"]._isolated._sides)


async def test_messages_endpoint_is_that_of_the_person_who_opened_the_stream(
    gateway: ResourceHarness, issuers: Issuers, strangers: dict[str, str]
) -> None:
    async with over_sse(gateway.url, LEGACY, good(issuers["one"])) as host:
        wire: Any = host.wire
        endpoint = await wire.endpoint
        call = {"jsonrpc": "2.0", "id": 99, "method": "tools/call", "params": {"name": "shop.get", "arguments": {}}}
        calls = len(gateway.shop.calls)
        for what, text in strangers.items():
            async with gateway.bearer(text) as stranger:
                answer = await stranger.post(endpoint, json=call)
            assert answer.status_code in (403, 404), what
        assert len(gateway.shop.calls) == calls
        async with gateway.bearer(good(issuers["one"])) as same:
            assert (await same.post(endpoint, json={**call, "id": 100})).status_code == 202
        await until(lambda: len(gateway.shop.calls) == calls + 1)
        assert all(message.get("id") != 99 for message in host.inbox.messages)


async def test_question_is_answered_by_the_person_who_was_asked(
    gateway: ResourceHarness, issuers: Issuers, strangers: dict[str, str]
) -> None:
    calls = len(gateway.shop.calls)
    meta = {**ENVELOPE, f"{META}clientCapabilities": {"elicitation": {}}}
    headers = {**ACCEPT, "mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "shop.put"}

    def call(**more: object) -> Json:
        params = {"name": "shop.put", "arguments": {"amount": 1}, "_meta": meta, **more}
        return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}

    async def put(text: str, **more: object) -> Json:
        async with gateway.bearer(text) as host:
            answer = await host.post("/mcp", json=call(**more), headers=headers)
        result: Json = answer.json()["result"]
        return result

    asked = await put(good(issuers["one"]))
    assert asked["resultType"] == "input_required"
    (name,) = asked["inputRequests"]
    said = {name: {"action": "accept", "content": {}}}
    if asked["inputRequests"][name]["params"].get("requestedSchema", {}).get("properties"):
        properties = asked["inputRequests"][name]["params"]["requestedSchema"]["properties"]
        said[name]["content"] = {field: True for field in properties}
    given = {"inputResponses": said, "requestState": asked["requestState"]}
    for what, text in strangers.items():
        assert (await put(text, **given))["resultType"] == "input_required", what
    assert len(gateway.shop.calls) == calls
    # A newer token of the same person will do.
    assert (await put(good(issuers["one"]), **given))["resultType"] == "complete"
    assert len(gateway.shop.calls) == calls + 1


async def _clear(gateway: ResourceHarness) -> None:
    """Wait until nothing of another test goes on, and forget what the shop was told."""
    await until(lambda: gateway.app.gateway.admission.in_use["streams"] == 0)
    gateway.shop.event_log.entries.clear()


def _is_over(ended: dict[str, str]) -> bool:
    streams, requests = ("standing", "listen", "sse", "legacy"), ("modern", "batch", "v1")
    return ended == {**dict.fromkeys(streams, "200"), **dict.fromkeys(requests, "401")} or ended == {
        **dict.fromkeys(streams, "200"),
        **dict.fromkeys(requests, "403"),
    }


async def test_rule_that_is_taken_back_ends_all_that_goes_on(
    gateway: ResourceHarness, issuers: Issuers, rules: Json
) -> None:
    await _clear(gateway)
    alice = BusyHost(gateway, gateway.shop, good(issuers["one"]), "alice")
    bob = BusyHost(gateway, gateway.shop, good(issuers["one"], "bob"), "bob")
    async with alice.here(), bob.here():
        left = [rule for rule in rules["who"] if rule.get("subject") != "alice"]
        gateway.set_policies({**rules, "who": left})
        assert _is_over(await alice.ends()), alice.ended
        await until(lambda: alice.let_go)
        assert bob.goes_on
        await gateway.background.elsewhere(bob.release())
    with gateway.http() as client:
        assert ask(client, good(issuers["one"])).status_code == 403
    before = gateway.revision
    gateway.set_policies(rules)
    await gateway.wait_for_policies(before)


DORA: Final = {"subject": "dora", "agent": "p-{subject}", "roles": ["buyer", "guest"], "tenant": "north"}
# What the rule for dora's token says after a change, and whether what she has going on ends with it.
CHANGES: Final[dict[str, tuple[Json, bool]]] = {
    "the same": ({}, False),
    "a role less": ({"roles": ["buyer"]}, True),
    "no role": ({"roles": []}, True),
    "another role": ({"roles": ["buyer", "metrics"]}, True),
    "a role more": ({"roles": ["buyer", "guest", "metrics"]}, True),
    "another tenant": ({"tenant": "south"}, True),
    "another agent": ({"agent": "q-{subject}"}, True),
    "another person": ({"subject": "eve"}, True),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_what_a_token_stands_for_ends_with_the_rule_that_made_it(
    background: BackgroundLoop, issuers: Issuers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """What goes on was let in as an agent with a tenant and roles: with others it would be another one."""
    monkeypatch.setattr("aggregator.app.reload.policy_reload.EVERY", 0.05)
    monkeypatch.setattr("aggregator.app.reload.policy_reload.STILL", 0.01)
    more, ends = CHANGES[change]
    rules: Json = {
        "roles": {"buyer": {"allow": ["shop.*"]}, "guest": {"allow": ["shop.get"]}, "metrics": {}},
        "tenants": {"north": {}, "south": {}},
        "agents": {"clerk": {"allow": ["shop.*"]}},
    }
    issuer = {"issuer": issuers["one"].issuer}
    mine, other = {**DORA, **issuer}, {**issuer, "subject": "bob", "agent": "clerk"}
    gateway = ResourceHarness(background, tmp_path, issuers, rules={**rules, "who": [mine, other]})
    dora = BusyHost(gateway, gateway.shop, good(issuers["one"], "dora"), "dora")
    bob = BusyHost(gateway, gateway.shop, good(issuers["one"], "bob"), "bob")
    async with dora.here(), bob.here():
        before = gateway.revision
        gateway.set_policies({**rules, "who": [{**mine, **more}, other], "defaults": {"deny": ["shop.nothing"]}})
        await gateway.wait_for_policies(before)
        if ends:
            assert _is_over(await dora.ends()), dora.ended
            await until(lambda: dora.let_go)
        gateway.app.gateway.revocation.review(gateway.app.access.holds)
        assert bob.goes_on
        assert dora.goes_on != ends
        await gateway.background.elsewhere(bob.release())
        if not ends:
            await gateway.background.elsewhere(dora.release())


@pytest.fixture
def two_hours_later(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that lets the clock of the gateway's tokens jump."""

    def jump() -> None:
        later = SimpleNamespace(time=lambda: time.time() + 2 * HOUR, monotonic=time.monotonic)
        for module in (access, verifier):
            monkeypatch.setattr(module, "time", later)

    return jump


async def test_token_that_expires_ends_all_that_goes_on(
    gateway: ResourceHarness, issuers: Issuers, two_hours_later: Any
) -> None:
    await _clear(gateway)
    alice = BusyHost(gateway, gateway.shop, good(issuers["one"], client="short", lifetime=HOUR), "alice")
    bob = BusyHost(gateway, gateway.shop, good(issuers["one"], "bob", lifetime=9 * HOUR), "bob")
    async with alice.here(), bob.here():
        two_hours_later()
        assert _is_over(await alice.ends()), alice.ended
        await until(lambda: alice.let_go)
        assert bob.goes_on
        await gateway.background.elsewhere(bob.release())


async def test_newer_token_keeps_up_what_goes_on(
    gateway: ResourceHarness, issuers: Issuers, two_hours_later: Any
) -> None:
    """A host that refreshes its token in time loses no stream and no call."""
    await _clear(gateway)
    alice = BusyHost(gateway, gateway.shop, good(issuers["one"], client="long", lifetime=HOUR), "alice")
    bob = BusyHost(gateway, gateway.shop, good(issuers["one"], "bob", client="x", lifetime=HOUR), "bob")
    async with alice.here(), bob.here():
        with gateway.http() as client:
            newer = good(issuers["one"], client="long", lifetime=9 * HOUR)
            assert ask(client, newer).status_code == 200
            # Neither does another person's nor another program's token keep them up.
            assert ask(client, good(issuers["one"], "bob", client="y", lifetime=9 * HOUR)).status_code == 200
            two_hours_later()
            async with asyncio.timeout(BOUND):
                await bob.ends()
            assert alice.goes_on
            assert ask(client, newer).status_code == 200
        await gateway.background.elsewhere(alice.release())


async def test_call_in_flight_is_refused_as_expired(
    gateway: ResourceHarness, issuers: Issuers, two_hours_later: Any
) -> None:
    await _clear(gateway)
    token = good(issuers["one"], client="brief", lifetime=HOUR)
    meta = {"name": "shop.hold", "arguments": {"key": "brief"}, "_meta": ENVELOPE}
    headers = {**ACCEPT, "mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "shop.hold"}
    async with gateway.bearer(token) as host:
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": meta}
        calling = asyncio.create_task(host.post("/mcp", json=body, headers=headers))
        await until(lambda: "started brief" in gateway.shop.event_log.entries)
        two_hours_later()
        answer: httpx2.Response = await calling
        assert answer.status_code == 401
        # The host learns that it should refresh its token.
        assert 'error="invalid_token"' in answer.headers["www-authenticate"]
        assert (await host.post("/mcp", json=body, headers=headers)).status_code == 401
