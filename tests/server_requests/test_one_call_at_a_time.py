"""Calls without a session: a question belongs to the one call that runs in its process, whatever a host says of itself.

Two hosts of 2026-07-28 with one key, one name and one version cannot be told apart by what they say.
"""

import json
import os
import signal
from contextlib import AsyncExitStack
from typing import Any, Final

import pytest

from aggregator.domain.errors import RpcError
from tests.end_to_end.scripted_host import LEGACY, MODERN, ScriptedHost
from tests.end_to_end.server_harness import ServerHarness, write_config
from tests.peers.toolbox import Json
from tests.polling import until
from tests.server_requests.conftest import OpenHarness
from tests.server_requests.entries import ABLE, FORM, stdio_entry
from tests.server_requests.replies import ask_and_answer, asked, is_question, reply, resume, text_as_json
from tests.server_requests.stdio_harness import StdioHarness

SEPARATE: Final = "aggregator.upstream.sessions.isolation"


def form(who: str) -> Json:
    return {**FORM, "params": {**FORM["params"], "message": f"Who is it? {who}"}}


def accept(who: str) -> Json:
    return {"action": "accept", "content": {"answer": who}}


def asking(who: str, count: int = 1) -> Json:
    return {"name": "one.ask", "arguments": {"key": who, "rounds": [[form(who)]] * count}}


def asked_by(interim: Json) -> list[str]:
    return [question["params"]["message"] for question in interim["inputRequests"].values()]


def refusal(result: Json) -> str:
    """Return what the server got in place of an answer."""
    (answer,) = text_as_json(result)["answers"][0]
    said: str = answer["error"]["message"]
    return said


async def prime(host: ScriptedHost, key: str) -> None:
    """Let the server ask once, so that it is known to ask during calls."""
    await ask_and_answer(host, "tools/call", asking(f"{key} first"), [[accept("first")]])


ROADS: Final = ["tools/call", "call_tool", "prompts/get"]


def request(road: str, who: str, count: int) -> tuple[str, Json]:
    if road == "call_tool":
        asked = asking(who, count)
        return "tools/call", {"name": "call_tool", "arguments": asked}
    if road == "prompts/get":
        given = {"key": who, "rounds": json.dumps([[form(who)]] * count)}
        return "prompts/get", {"name": "one.ask", "arguments": given}
    return "tools/call", asking(who, count)


def answers_in(result: Json) -> Any:
    said = result["messages"][0]["content"]["text"] if "messages" in result else result["content"][0]["text"]
    return json.loads(said)["answers"]


@pytest.mark.parametrize("road", ROADS)
async def test_hosts_that_say_the_same_are_asked_their_own(open_harness: OpenHarness, road: str, key: str) -> None:
    """The later call got both questions, so that a person could answer the question of another."""
    harness = open_harness({"one": stdio_entry("legacy")})
    async with AsyncExitStack() as stack:
        hosts = [await stack.enter_async_context(harness.host("http", MODERN, capabilities=ABLE)) for _ in range(3)]
        await prime(hosts[0], key)
        calls = {host: (f"{key} {at}", *request(road, f"{key} {at}", 2)) for at, host in enumerate(hosts)}
        interims = {host: await host.ask(method, params).result() for host, (_, method, params) in calls.items()}
        for number in range(2):
            for host, (who, method, params) in reversed(calls.items()):
                assert asked_by(interims[host]) == [f"[one] Who is it? {who}"]
                answers = [accept(f"{who} {number}")]
                interims[host] = await resume(host, method, params, interims[host], answers).result()
        for host, (who, _, _) in calls.items():
            assert answers_in(interims[host]) == [[accept(f"{who} 0")], [accept(f"{who} 1")]]
        assert harness.app.upstreams["one"].own_connections == 2
        # The processes serve the calls that follow, one after the other.
        for host in hosts:
            await prime(host, f"{key} again")
        assert harness.app.upstreams["one"].own_connections == 2


@pytest.mark.parametrize("isolation", ["auto", "shared", "per_agent"])
async def test_a_question_that_may_be_of_two_calls_is_refused(
    open_harness: OpenHarness, isolation: str, key: str
) -> None:
    """As long as calls share a process, the words say why nobody was asked and what helps; a guess is never made."""
    harness = open_harness({"one": stdio_entry("legacy", isolation=isolation)})
    async with (
        harness.host("http", MODERN, capabilities=ABLE) as host,
        harness.host("http", MODERN, capabilities=ABLE) as other,
    ):
        held = other.call("one.hold", {"key": key})
        await host.call("one.witness", {"entry": f"started {key}"}).result()
        said = refusal(await host.ask("tools/call", asking(key)).result())
        assert said.startswith("No host was asked: several calls to the server 'one' were under way")
        helps = "it works if you make the same call again" if isolation == "auto" else "to `auto` or `per_session`"
        assert helps in said
        if isolation == "auto":
            await prime(host, f"{key} again")
            await other.wire.cancel(held)
            held.drop()
        else:
            await host.call("one.release", {"key": key}).result()
            assert (await held.result())["content"][0]["text"] == key


async def test_the_only_host_over_stdio_is_asked_for_the_right_call(
    open_harness: OpenHarness, key: str, request: pytest.FixtureRequest
) -> None:
    """A host of 2026-07-28 gets a question as the result of a call: it must not be that of another."""
    path, background = request.getfixturevalue("tmp_path"), request.getfixturevalue("own_background")
    harness: ServerHarness = StdioHarness(background, write_config(path, {"one": stdio_entry("legacy")}))
    async with harness.host("stdio", MODERN, capabilities=ABLE) as host:
        await prime(host, key)
        names = [f"{key} a", f"{key} b", f"{key} c"]
        running = [host.ask("tools/call", asking(who)) for who in names]
        interims = [await call.result() for call in running]
        for who, interim in zip(names, interims, strict=True):
            assert asked_by(interim) == [f"[one] Who is it? {who}"]
        for who, interim in reversed([*zip(names, interims, strict=True)]):
            result = await resume(host, "tools/call", asking(who), interim, [accept(who)]).result()
            assert text_as_json(result)["answers"] == [[accept(who)]]


async def test_calls_beyond_the_bound_are_not_asked(
    open_harness: OpenHarness, key: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """They share a process and go on; the words say why, and once there is room the same call is asked."""
    monkeypatch.setattr(f"{SEPARATE}.OF_ONE_AGENT", 2)
    harness = open_harness({"one": stdio_entry("legacy")})
    async with AsyncExitStack() as stack:
        hosts = [await stack.enter_async_context(harness.host("http", MODERN, capabilities=ABLE)) for _ in range(6)]
        await prime(hosts[0], key)
        names = [f"{key} {at}" for at in range(6)]
        results = [await host.ask("tools/call", asking(who)).result() for host, who in zip(hosts, names, strict=True)]
        for who, result in zip(names[:3], results[:3], strict=True):
            assert asked_by(result) == [f"[one] Who is it? {who}"]
        for result in results[3:]:
            assert refusal(result).endswith(
                "All connections for single hosts are in use. Make the same call again once fewer calls of this "
                "server are under way."
            )
        for host, who, result in [*zip(hosts, names, results, strict=True)][:3]:
            done = await resume(host, "tools/call", asking(who), result, [accept(who)]).result()
            assert text_as_json(done)["answers"] == [[accept(who)]]
        await prime(hosts[5], f"{key} last")
    assert sum("may not be asked" in record.message for record in caplog.records) == 1


async def test_hosts_with_other_abilities_count_for_the_same_agent(
    open_harness: OpenHarness, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent had as many processes for each set of abilities, so one agent could take all of a server."""
    monkeypatch.setattr(f"{SEPARATE}.OF_ONE_AGENT", 2)
    form_only: Json = {"elicitation": {"form": {}}}
    forms_and_roots: Json = {**form_only, "roots": {}}
    harness = open_harness({"one": stdio_entry("legacy")})
    upstream = harness.app.upstreams["one"]
    async with AsyncExitStack() as stack:
        hosts = [
            await stack.enter_async_context(harness.host("http", MODERN, capabilities=abilities))
            for abilities in (ABLE, form_only, forms_and_roots, ABLE)
        ]
        await prime(hosts[0], key)
        calls = [(host, asking(f"{key} {at}")) for at, host in enumerate(hosts)]
        results = [await host.ask("tools/call", params).result() for host, params in calls]
        assert [result["resultType"] for result in results] == ["input_required"] * 3 + ["complete"]
        assert "All connections for single hosts are in use." in refusal(results[3])
        for (host, params), result in [*zip(calls, results, strict=True)][:3]:
            assert text_as_json(await resume(host, "tools/call", params, result, [accept("me")]).result())["begun"] == 1
        # Processes that nothing runs in make room for hosts with other abilities.
        assert upstream.own_connections == 2
        results = [await host.ask("tools/call", asking(f"{key} again {at}")).result() for at, host in enumerate(hosts)]
        assert [result["resultType"] for result in results] == ["input_required"] * 3 + ["complete"]
        assert upstream.own_connections == 2


async def test_hosts_that_never_answer_hold_their_processes_for_a_time(
    open_harness: OpenHarness, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their calls end, and the next host is asked its own question in one of those processes."""
    monkeypatch.setattr(f"{SEPARATE}.OF_ONE_AGENT", 1)
    monkeypatch.setattr("aggregator.upstream.sessions.request.HEEDED_WITHIN", 0.05)
    harness = open_harness({"one": stdio_entry("legacy")})
    upstream = harness.app.upstreams["one"]
    parking = harness.app.gateway.input_requests.parking
    async with AsyncExitStack() as stack:
        silent, mute, host = [
            await stack.enter_async_context(harness.host("http", MODERN, capabilities=ABLE)) for _ in range(3)
        ]
        await prime(host, key)
        monkeypatch.setattr("aggregator.gateway.ask.input_required.PATIENCE", 0.5)
        for number, one in enumerate((silent, mute)):
            assert asked_by(await one.ask("tools/call", asking(f"{key} {number}")).result())
        await until(lambda: not len(parking), "their calls have ended")
        monkeypatch.setattr("aggregator.gateway.ask.input_required.PATIENCE", 50.0)
        sessions = [upstream.shared.session, *(side.session for side in upstream._isolated._sides)]
        channels = [session.back_channel for session in sessions if session is not None]
        assert len(channels) == 2
        await until(lambda: not any(one.busy or one.unsettled for one in channels), "nothing is worked on")
        await prime(host, f"{key} again")
        assert upstream.own_connections == 1


async def test_a_process_that_is_killed_costs_its_own_call(open_harness: OpenHarness, key: str) -> None:
    """Its host hears that the outcome is unknown; the answer of the other goes where it belongs."""
    harness = open_harness({"one": stdio_entry("legacy")})
    upstream = harness.app.upstreams["one"]
    async with (
        harness.host("http", MODERN, capabilities=ABLE) as one,
        harness.host("http", MODERN, capabilities=ABLE) as two,
    ):
        await prime(one, key)
        interims = [await host.ask("tools/call", asking(f"{key} {at}")).result() for at, host in enumerate((one, two))]
        (side,) = upstream._isolated._sides
        session: Any = side.session
        os.kill(session.connection.child.pid, signal.SIGKILL)
        lost = await resume(two, "tools/call", asking(f"{key} 1"), interims[1], [accept("two")]).result()
        assert lost["_meta"]["aggregator/error"]["code"] == "outcome_unknown"
        done = await resume(one, "tools/call", asking(f"{key} 0"), interims[0], [accept("one")]).result()
        assert text_as_json(done)["answers"] == [[accept("one")]]
        await prime(two, f"{key} again")


async def test_a_host_that_went_away_leaves_its_process_to_no_other_question(
    open_harness: OpenHarness, key: str
) -> None:
    """The server goes on with a call that was given up, and asks: the next call of the same owner is not asked that."""
    harness = open_harness({"one": stdio_entry("legacy")})
    async with (
        harness.host("http", MODERN, capabilities=ABLE) as gone,
        harness.host("http", MODERN, capabilities=ABLE) as here,
    ):
        await prime(here, key)
        doomed = gone.call("one.late", {"key": key})
        session = harness.app.upstreams["one"].shared.session
        assert session is not None
        await until(lambda: session.back_channel.busy, "it is under way")
        await gone.wire.cancel(doomed)
        await until(lambda: session.back_channel.unsettled, "it was given up")
        interim = await here.ask("tools/call", asking(f"{key} here")).result()
        assert asked_by(interim) == [f"[one] Who is it? {key} here"]
        assert harness.app.upstreams["one"].own_connections == 1


async def test_a_server_that_asks_late_gets_a_process_for_each_call(open_harness: OpenHarness, key: str) -> None:
    """Once it has asked while no call ran, no call comes where it may still ask for an earlier one."""
    harness = open_harness({"one": stdio_entry("legacy")})
    session = harness.app.upstreams["one"].shared.session
    assert session is not None
    async with (
        harness.host("http", MODERN, capabilities=ABLE) as host,
        harness.host("http", LEGACY[-1], capabilities=ABLE) as lasting,
        harness.host("http", LEGACY[-1]) as silent,
    ):
        await prime(host, key)

        async def pid(of: ScriptedHost) -> int:
            found: int = text_as_json(await of.call("one.seen").result())["pid"]
            return found

        shared = await pid(host)
        assert shared == await pid(lasting) == await pid(silent)
        with pytest.raises(RpcError, match="No host can be asked"):
            await session.back_channel.on_request("elicitation/create", FORM["params"], None)
        pids = [await pid(host) for _ in range(3)]
        assert len({shared, *pids}) == 4
        # A session keeps its process, and hosts that answer no questions share one.
        own = await pid(lasting)
        assert own not in (shared, *pids)
        assert own == await pid(lasting)
        assert shared == await pid(silent)
        await prime(host, f"{key} again")
        await until(lambda: harness.app.upstreams["one"].own_connections == 2, "the others are closed")


async def test_two_calls_in_one_session_are_asked_in_that_session(open_harness: OpenHarness, key: str) -> None:
    """A handshake host keeps its process: each answer goes to the question that it answers, and no other host's."""
    harness = open_harness({"one": stdio_entry("legacy")})
    async with (
        harness.host("http", LEGACY[-1], capabilities=ABLE) as host,
        harness.host("http", LEGACY[-1], capabilities=ABLE) as other,
    ):
        names = [f"{key} a", f"{key} b"]
        calls = {who: host.ask("tools/call", asking(who)) for who in names}
        await asked(host, 2)
        questions = {one["params"]["message"]: one for one in host.inbox.messages if is_question(one)}
        for who in reversed(names):
            await reply(host, questions[f"[one] Who is it? {who}"], accept(who))
        for who, call in calls.items():
            assert text_as_json(await call.result())["answers"] == [[accept(who)]]
        assert harness.app.upstreams["one"].own_connections == 0
        assert not [one for one in other.inbox.messages if is_question(one)]
