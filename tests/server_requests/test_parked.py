"""A running call of a handshake-era upstream waits for its 2026-07-28 host: never run twice, never somebody else's.

So do the states that a 2026-07-28 upstream hands out: they are good for nobody else, and once.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from aggregator.domain.call_record import CallRecord
from aggregator.gateway.ask import input_required as inquiry
from aggregator.gateway.ask import parked_calls as parked
from tests.access.secured_harness import SecuredHarness, write_policies
from tests.end_to_end.scripted_host import LEGACY, MODERN, ScriptedHost
from tests.end_to_end.server_harness import ServerHarness
from tests.peers.serving import BackgroundLoop, serving
from tests.peers.toolbox import Json
from tests.server_requests.asking_server_web import AskingWebServer
from tests.server_requests.conftest import OpenHarness
from tests.server_requests.entries import ABLE, ANSWERS, FORM, stdio_entry
from tests.server_requests.replies import asked, reply, resume, text_as_json

YES: Final = ANSWERS["form"]
Change = Callable[[ScriptedHost, Json, Json, ScriptedHost], Awaitable[Json]]


every_era = pytest.mark.parametrize("upstream", ["web", "new"])


def asking(key: str, count: int = 1, upstream: str = "web") -> Json:
    return {"name": f"{upstream}.ask", "arguments": {"key": key, "rounds": [[FORM]] * count}}


@pytest.fixture
def asking_server() -> AskingWebServer:
    return AskingWebServer("legacy")


@pytest.fixture
def harness(own_background: BackgroundLoop, asking_server: AskingWebServer, tmp_path: Path) -> SecuredHarness:
    """Two agents with keys; the server is behind HTTP."""
    url = own_background.open(serving(asking_server))
    policies = {"agents": {"one": {"allow": ["server:web"]}, "two": {"allow": ["server:web"]}}}
    return SecuredHarness(
        own_background, tmp_path, {"web": {"type": "http", "url": f"{url}/mcp"}}, policies, ("one", "two")
    )


@pytest.fixture(scope="module")
def asking_servers() -> dict[str, AskingWebServer]:
    return {"web": AskingWebServer("legacy"), "new": AskingWebServer("modern")}


@pytest.fixture(scope="module")
def shared_harness(
    background: BackgroundLoop, asking_servers: dict[str, AskingWebServer], tmp_path_factory: pytest.TempPathFactory
) -> SecuredHarness:
    """A shared harness for tests that change no rules, with a server of either era."""
    servers = {
        name: {"type": "http", "url": f"{background.open(serving(asking_server))}/mcp"}
        for name, asking_server in asking_servers.items()
    }
    policies = {"agents": {agent: {"allow": ["server:web", "server:new"]} for agent in ("one", "two")}}
    return SecuredHarness(background, tmp_path_factory.mktemp("calm"), servers, policies, ("one", "two"))


@asynccontextmanager
async def connected_agents(
    harness: SecuredHarness, frontend: str = "http"
) -> AsyncIterator[tuple[ScriptedHost, ScriptedHost]]:
    async with (
        harness.connect_as((frontend, MODERN), "one", ABLE) as one,
        harness.connect_as((frontend, MODERN), "two", ABLE) as two,
    ):
        yield one, two


async def of_another_agent(host: ScriptedHost, params: Json, interim: Json, other: ScriptedHost) -> Json:
    return await resume(other, "tools/call", params, interim, [YES]).message()


async def with_other_arguments(host: ScriptedHost, params: Json, interim: Json, other: ScriptedHost) -> Json:
    changed = {**params, "arguments": {**params["arguments"], "more": 1}}
    return await resume(host, "tools/call", changed, interim, [YES]).message()


async def for_another_tool(host: ScriptedHost, params: Json, interim: Json, other: ScriptedHost) -> Json:
    other_tool = params["name"].replace(".ask", ".seen")
    return await resume(host, "tools/call", {**params, "name": other_tool}, interim, [YES]).message()


async def for_another_method(host: ScriptedHost, params: Json, interim: Json, other: ScriptedHost) -> Json:
    asked = {"name": params["name"], "arguments": {"key": params["arguments"]["key"]}}
    return await resume(host, "prompts/get", asked, interim, [YES]).message()


async def tampered(host: ScriptedHost, params: Json, interim: Json, other: ScriptedHost) -> Json:
    state = interim["requestState"]
    message: Json = {}
    for at in (9, len(state) // 2, len(state) - 2, len(state) - 1):
        for character in "A_9=":
            changed = state[:at] + character + state[at + 1 :]
            if changed != state:
                message = await resume(
                    host, "tools/call", params, {**interim, "requestState": changed}, [YES]
                ).message()
                assert message["error"]["code"] == -32602, changed
    return message


async def for_another_server(host: ScriptedHost, params: Json, interim: Json, other: ScriptedHost) -> Json:
    name = "new.ask" if params["name"] == "web.ask" else "web.ask"
    return await resume(host, "tools/call", {**params, "name": name}, interim, [YES]).message()


async def of_nobody(host: ScriptedHost, params: Json, interim: Json, other: ScriptedHost) -> Json:
    message: Json = {}
    states: list[Any] = ["request.", "request.AAAA", "x", "", 5, {"a": 1}, [], True, "request." + "A" * 100_000]
    for state in states:
        message = await resume(host, "tools/call", params, {**interim, "requestState": state}, [YES]).message()
        assert message["error"]["code"] == -32602, state
    return message


@pytest.mark.parametrize("state", ["request.AAAA", "x", 5])
async def test_a_state_means_nothing_from_a_host_of_the_handshake_eras(
    shared_harness: SecuredHarness, state: object, key: str
) -> None:
    """Its revision has no such member: the request is answered, and its user is asked, as without it."""
    requests: dict[str, Json] = {
        "tools/call": asking(key),
        "prompts/get": {"name": "web.ask", "arguments": {"key": key, "rounds": json.dumps([[FORM]])}},
        "resources/read": {"uri": "ask://web/one"},
    }
    async with shared_harness.connect_as(("http", LEGACY[-1]), "one", capabilities=ABLE) as host:
        for count, (method, params) in enumerate(requests.items(), 1):
            call = host.ask(method, {**params, "requestState": state, "inputResponses": {"x": YES}})
            await reply(host, await asked(host, count), YES)
            assert "accept" in str(await call.result())


@every_era
@pytest.mark.parametrize(
    "change",
    [
        of_another_agent,
        with_other_arguments,
        for_another_tool,
        for_another_server,
        for_another_method,
        tampered,
        of_nobody,
    ],
)
async def test_a_handle_is_good_for_its_own_call_only(
    shared_harness: SecuredHarness, asking_servers: dict[str, AskingWebServer], change: Change, upstream: str, key: str
) -> None:
    """What is wrong with it is an error, and nothing is run; the call that it was for goes on where it is."""
    async with connected_agents(shared_harness) as (one, two):
        params = asking(key, upstream=upstream)
        interim = await one.ask("tools/call", params).result()
        message = await change(one, params, interim, two)
        assert message["error"]["code"] == -32602
        assert "requestState" in message["error"]["message"]
        assert "Nothing was run" in message["error"]["message"]
        assert [asking_server.server.begun[key] for asking_server in asking_servers.values()] == [
            upstream == "web",
            upstream == "new",
        ]
        # None of this has used it up.
        done = await resume(one, "tools/call", params, interim, [YES]).result()
        assert text_as_json(done) == {"answers": [[YES]], "begun": 1}


@every_era
async def test_a_handle_is_good_once(
    shared_harness: SecuredHarness, asking_servers: dict[str, AskingWebServer], upstream: str, key: str
) -> None:
    """Also while its first use is still under way, and after the end."""
    async with connected_agents(shared_harness) as (one, _):
        params = asking(key, 2, upstream)
        first = await one.ask("tools/call", params).result()
        second = await resume(one, "tools/call", params, first, [YES]).result()
        assert second["requestState"] != first["requestState"]
        twice = await resume(one, "tools/call", params, first, [YES]).error()
        assert twice["code"] == -32602
        done = await resume(one, "tools/call", params, second, [YES]).result()
        assert text_as_json(done) == {"answers": [[YES], [YES]], "begun": 1}
        for interim in (first, second):
            assert (await resume(one, "tools/call", params, interim, [YES]).error())["code"] == -32602
    assert asking_servers[upstream].server.begun[key] == 1


async def test_a_state_grows_old(
    shared_harness: SecuredHarness,
    asking_servers: dict[str, AskingWebServer],
    monkeypatch: pytest.MonkeyPatch,
    key: str,
) -> None:
    """What its server would do with an old one is not tried."""
    monkeypatch.setattr(inquiry, "STATE_LIFETIME", -1.0)
    async with connected_agents(shared_harness) as (one, _):
        params = asking(key, upstream="new")
        interim = await one.ask("tools/call", params).result()
        asking_servers["new"].requests.clear()
        late = await resume(one, "tools/call", params, interim, [YES]).error()
    assert late["code"] == -32602
    assert "Nothing was run" in late["message"]
    assert not asking_servers["new"].requests


@every_era
async def test_what_is_not_answered_is_asked_again(shared_harness: SecuredHarness, upstream: str, key: str) -> None:
    """Unknown and senseless answers are ignored (S/basic/patterns/mrtr)."""
    async with connected_agents(shared_harness) as (one, _):
        params = asking(key, upstream=upstream)
        interim = await one.ask("tools/call", params).result()
        for answers in ({}, {"nobody": YES}, dict.fromkeys(interim["inputRequests"], "yes"), {"": None}):
            following = await resume(one, "tools/call", params, interim, answers).result()
            assert following["inputRequests"] == interim["inputRequests"]
            interim = following
        done = await resume(one, "tools/call", params, interim, [YES]).result()
    assert text_as_json(done) == {"answers": [[YES]], "begun": 1}


async def test_who_does_not_come_back_ends_the_call(
    harness: SecuredHarness, asking_server: AskingWebServer, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """After a while the server is told, the handle is worth nothing, and the end is on record."""
    monkeypatch.setattr(inquiry, "PATIENCE", 0.05)
    records: list[CallRecord] = []
    harness.app.telemetry.observers.sinks += (records.append,)
    async with connected_agents(harness) as (one, _):
        params = asking(key)
        interim = await one.ask("tools/call", params).result()
        await harness.background.elsewhere(asking_server.server.event_log.until(f"cancelled {key}"))
        late = await resume(one, "tools/call", params, interim, [YES]).error()
        assert late["code"] == -32602
    assert asking_server.server.begun == {key: 1}
    ended = [(record.outcome.status, record.outcome.error_code) for record in records]
    assert ended == [("pending", "input_required"), ("cancelled", "unclaimed"), ("invalid", "-32602")]
    first, end = records[0].trace, records[1].trace
    assert (end.trace_id, end.parent_id) == (first.trace_id, first.span_id)
    assert end.span_id != first.span_id


@pytest.mark.parametrize("frontend", ["http", "sse", "stdio"])
async def test_a_key_that_ends_ends_the_call_that_waits(
    harness: SecuredHarness, asking_server: AskingWebServer, frontend: str, key: str
) -> None:
    """Proves: D4. Nobody has to come back for that, and it is on record once. On stdio no key let anybody in."""
    records: list[CallRecord] = []
    harness.app.telemetry.observers.sinks += (records.append,)
    async with harness.connect_as((frontend, MODERN), "one", ABLE) as one:
        params = asking(key)
        interim = await one.ask("tools/call", params).result()
        before = harness.revision
        write_policies(harness.policies, {"agents": {"one": {"keys": []}, "two": {"keys": []}}}, "keys.yaml")
        await harness.wait_for_policies(before)
        if frontend == "stdio":
            harness.app.gateway.revocation.review(harness.app.access.holds)
            assert text_as_json(await resume(one, "tools/call", params, interim, [YES]).result())["begun"] == 1
        else:
            await harness.background.elsewhere(asking_server.server.event_log.until(f"cancelled {key}"))
    ended = [(record.outcome.status, record.outcome.error_code) for record in records]
    last = ("ok", None) if frontend == "stdio" else ("cancelled", "unclaimed")
    assert ended == [("pending", "input_required"), last]


async def test_every_request_is_on_record(harness: SecuredHarness, key: str) -> None:
    """Those that end in a question as `pending`, the last as what it is."""
    records: list[CallRecord] = []
    harness.app.telemetry.observers.sinks += (records.append,)
    async with connected_agents(harness) as (one, _):
        params = asking(key)
        interim = await one.ask("tools/call", params).result()
        await resume(one, "tools/call", params, interim, [YES]).result()
    assert [(record.outcome.status, record.outcome.error_code, record.called.tool) for record in records] == [
        ("pending", "input_required", "web.ask"),
        ("ok", None, "web.ask"),
    ]
    assert {record.sending.upstream_version for record in records} == {"2025-11-25"}
    assert all(record.upstream_seconds > 0 for record in records)


@pytest.mark.parametrize("frontend", ["http", "sse", "stdio"])
async def test_a_host_that_leaves_while_it_waits_ends_the_call(
    harness: SecuredHarness, asking_server: AskingWebServer, frontend: str, key: str
) -> None:
    """The request that came back is cancelled as any other; the server hears of it."""
    async with connected_agents(harness, frontend) as (one, _):
        params = {**asking(key), "name": "web.hold"}
        doomed = one.ask("tools/call", params)
        await harness.background.elsewhere(asking_server.server.event_log.until(f"started {key}"))
        await one.wire.cancel(doomed)
        await harness.background.elsewhere(asking_server.server.event_log.until(f"cancelled {key}"))
        params = asking(f"{key} again", 2)
        interim = await one.ask("tools/call", params).result()
        (name,) = interim["inputRequests"]
        # Answered with nothing it knows, it would be asked again at once: so it answers, and leaves at the next.
        following = await resume(one, "tools/call", params, interim, {name: YES}).result()
        assert following["resultType"] == "input_required"
    if frontend != "http":
        # Its session is over, and with it what waited there.
        await harness.background.elsewhere(asking_server.server.event_log.until(f"cancelled {key} again"))


async def test_one_agent_cannot_take_every_place(
    harness: SecuredHarness, asking_server: AskingWebServer, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """So many calls of one agent wait, then its servers are told that nobody can be asked; others are not hindered."""
    monkeypatch.setattr(parked, "OF_ONE_AGENT", 2)
    async with connected_agents(harness) as (one, two):
        interims = [await one.ask("tools/call", asking(f"{key} {at}")).result() for at in range(3)]
        kinds = [interim["resultType"] for interim in interims]
        assert kinds == ["input_required", "input_required", "complete"]
        assert "error" in text_as_json(interims[2])["answers"][0][0]
        assert (await two.ask("tools/call", asking(key)).result())["resultType"] == "input_required"
        done = await resume(one, "tools/call", asking(f"{key} 0"), interims[0], [YES]).result()
        assert text_as_json(done)["answers"] == [[YES]]
        assert (await one.ask("tools/call", asking(f"{key} 4")).result())["resultType"] == "input_required"


async def test_it_is_one_call_for_the_limits(harness: SecuredHarness, key: str) -> None:
    """Counted when it begins, and running until it ends: not once for every request."""
    before = harness.revision
    limits = {"web.*": {"per_minute": 2, "concurrent": 1}}
    harness.set_policies({"agents": {"one": {"allow": ["web.*"], "limits": limits}, "two": {"allow": ["web.*"]}}})
    await harness.wait_for_policies(before)
    async with connected_agents(harness) as (one, _):
        params = asking(key, 2)
        interim = await one.ask("tools/call", params).result()
        refused = await one.call("web.seen").result()
        assert refused["_meta"]["aggregator/error"]["limit"] == "concurrent"
        interim = await resume(one, "tools/call", params, interim, [YES]).result()
        done = await resume(one, "tools/call", params, interim, [YES]).result()
        assert text_as_json(done)["begun"] == 1
        assert "isError" not in await one.call("web.seen").result()
        refused = await one.call("web.seen").result()
        assert refused["_meta"]["aggregator/error"]["limit"] == "per_minute"


async def test_a_server_that_dies_while_its_host_is_asked(open_harness: OpenHarness, key: str) -> None:
    """The host that comes back is told; nothing is sent to the server's successor."""
    # With `auto`, the call that ends the server would run in another process.
    harness: ServerHarness = open_harness({"web": stdio_entry("legacy", isolation="shared")})
    async with harness.host("http", MODERN, capabilities=ABLE) as host:
        params = asking(key)
        interim = await host.ask("tools/call", params).result()
        assert (await host.call("web.die").result())["_meta"]["aggregator/error"]["code"] == "outcome_unknown"
        done = await resume(host, "tools/call", params, interim, [YES]).result()
        assert done["_meta"]["aggregator/error"]["code"] == "outcome_unknown"
        assert text_as_json(await host.call("web.seen").result())["begun"] == {}


async def test_all_of_it_ends_with_the_program(tmp_path: Path, key: str) -> None:
    """A call that waits holds nobody up."""
    asking_server = AskingWebServer("legacy")
    with BackgroundLoop() as running:
        url = running.open(serving(asking_server))
        policies = {"agents": {"one": {"allow": ["web.*"]}}}
        harness = SecuredHarness(running, tmp_path, {"web": {"type": "http", "url": f"{url}/mcp"}}, policies, ("one",))
        async with harness.connect_as(("http", MODERN), "one", ABLE) as one:
            interim = await one.ask("tools/call", asking(key)).result()
            assert interim["resultType"] == "input_required"
    assert f"cancelled {key}" in asking_server.server.event_log.entries


async def test_a_confirmed_call_is_confirmed_once(
    harness: SecuredHarness, asking_server: AskingWebServer, key: str
) -> None:
    """First the policy's own question, then the server's; the person is not asked for agreement again."""
    before = harness.revision
    harness.set_policies({"agents": {"one": {"allow": ["web.*"], "confirm": ["web.ask"]}, "two": {"allow": ["web.*"]}}})
    await harness.wait_for_policies(before)
    async with connected_agents(harness) as (one, _):
        params = asking(key)
        interim = await one.ask("tools/call", params).result()
        assert list(interim["inputRequests"]) == ["confirm"]
        assert not asking_server.server.begun
        agreed = {"action": "accept", "content": {"allow": True}}
        interim = await resume(one, "tools/call", params, interim, [agreed]).result()
        (question,) = interim["inputRequests"].values()
        assert question["params"]["message"] == "[web] Which one?"
        done = await resume(one, "tools/call", params, interim, [YES]).result()
        assert text_as_json(done) == {"answers": [[YES]], "begun": 1}


async def test_a_rule_that_comes_meanwhile_holds(
    harness: SecuredHarness, asking_server: AskingWebServer, key: str
) -> None:
    """Who may no longer call it gets no answer of it, however far it is."""
    async with connected_agents(harness) as (one, _):
        params = asking(key)
        interim = await one.ask("tools/call", params).result()
        before = harness.revision
        harness.set_policies({"agents": {"one": {"allow": ["web.seen"]}, "two": {}}})
        await harness.wait_for_policies(before)
        refused = await resume(one, "tools/call", params, interim, [YES]).message()
        assert refused["result"]["_meta"]["aggregator/error"]["code"] == "tool_not_allowed"
        await asyncio.sleep(0)
    assert asking_server.server.begun == {key: 1}
