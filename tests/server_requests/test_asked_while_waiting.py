"""Handshake-era hosts are asked while their call waits: what ends such a question, and who may answer it."""

import asyncio
from typing import Any, Final

import pytest

from tests.end_to_end.scripted_host import BOUND, LEGACY, HttpWire, ScriptedHost
from tests.end_to_end.server_harness import FRONTENDS, ServerHarness
from tests.peers.serving import BackgroundLoop, serving
from tests.peers.toolbox import Json
from tests.server_requests.asking_server_web import AskingWebServer
from tests.server_requests.conftest import OpenHarness
from tests.server_requests.entries import ABLE, ANSWERS, FORM, ROOTS, SAMPLE, SCHEMA, stdio_entry
from tests.server_requests.replies import asked, is_question, refuse, reply, text_as_json

VERSION: Final = LEGACY[-1]
UPSTREAMS: Final = ("stdio_modern", "stdio_legacy", "http_modern", "http_legacy", "sse")
YES: Final = ANSWERS["form"]

everywhere = pytest.mark.parametrize("frontend", FRONTENDS)
every_upstream = pytest.mark.parametrize("upstream", UPSTREAMS)


def asking(upstream: str, key: str, *questions: Json) -> Json:
    return {"name": f"{upstream}.ask", "arguments": {"key": key, "rounds": [list(questions or (FORM,))]}}


async def taken_back(host: ScriptedHost, question: Json) -> None:
    """Wait until the host is told that a question is not asked any more."""
    await host.inbox.until(
        lambda message: (
            message.get("method") == "notifications/cancelled" and message["params"]["requestId"] == question["id"]
        )
    )


@everywhere
@every_upstream
async def test_a_cancelled_call_takes_its_question_back(
    harness: ServerHarness, open_harness: OpenHarness, frontend: str, upstream: str, key: str
) -> None:
    """The host is told before anything else; a late answer changes nothing."""
    if upstream == "stdio_legacy":
        # Whoever uses that one next cannot be asked for a while.
        harness = open_harness({upstream: stdio_entry("legacy")})
    async with harness.host(frontend, VERSION, capabilities=ABLE) as host:
        call = host.ask("tools/call", asking(upstream, key))
        question = await asked(host)
        await host.wire.cancel(call)
        await taken_back(host, question)
        await reply(host, question, YES)
        if not upstream.endswith("_modern"):
            await host.call(f"{upstream}.witness", {"entry": f"cancelled {key}"}).result()
        following = host.ask("tools/call", asking(upstream, f"{key} next"))
        await reply(host, await asked(host, 2), YES)
        assert text_as_json(await following.result()) == {"answers": [[YES]], "begun": 1}
        call.drop()


@everywhere
@every_upstream
async def test_what_a_host_refuses_is_told(harness: ServerHarness, frontend: str, upstream: str, key: str) -> None:
    """An error of the host reaches a server that asked by a request whole; one that asked by a result gets no more."""
    async with harness.host(frontend, VERSION, capabilities=ABLE) as host:
        for at, question in enumerate((FORM, SAMPLE, ROOTS), 1):
            call = host.ask("tools/call", asking(upstream, f"{key} {at}", question))
            await refuse(host, await asked(host, at), -1, "User rejected it")
            result = await call.result()
            if not upstream.endswith("_modern"):
                error = text_as_json(result)["answers"][0][0]["error"]
                assert (error["code"], error["message"]) == (-1, "User rejected it")
            elif question is FORM:
                # There is a word for that.
                assert text_as_json(result)["answers"] == [[{"action": "cancel"}]]
            else:
                assert result["isError"] is True
                assert result["_meta"]["aggregator/error"]["code"] == "not_answered"
                assert "User rejected it" in result["content"][0]["text"]


@everywhere
@pytest.mark.parametrize("upstream", ["stdio_modern", "http_legacy"])
async def test_only_the_host_that_was_asked_can_answer(
    harness: ServerHarness, frontend: str, upstream: str, key: str
) -> None:
    """Ids of another session, and ids nobody gave, move nothing."""
    async with (
        harness.host(frontend, VERSION, capabilities=ABLE) as host,
        harness.host(frontend, VERSION, capabilities=ABLE) as stranger,
    ):
        call = host.ask("tools/call", asking(upstream, key))
        question = await asked(host)
        for number in (*range(5), question["id"], str(question["id"]), None, 2**70, -1, True):
            await reply(stranger, {"id": number}, {"action": "accept", "content": {"answer": "not mine"}})
        await stranger.call(f"{upstream}.seen").result()
        assert not call.done
        await reply(host, {"id": 77_777}, {"action": "accept", "content": {"answer": "stray"}})
        await reply(host, question, YES)
        await reply(host, question, {"action": "decline"})
        assert text_as_json(await call.result())["answers"] == [[YES]]
        assert not [message for message in stranger.inbox.messages if is_question(message)]


@everywhere
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_host_that_goes_away_while_it_is_asked(
    background: BackgroundLoop, open_harness: OpenHarness, frontend: str, era: str, key: str
) -> None:
    """The end of its session ends its call and the question; others are served."""
    asking_server = AskingWebServer(era)
    harness = open_harness({"one": {"type": "http", "url": f"{background.open(serving(asking_server))}/mcp"}})
    async with harness.host(frontend, VERSION, capabilities=ABLE) as host:
        call = host.ask("tools/call", asking("one", key))
        await asked(host)
        if isinstance(host.wire, HttpWire):
            # To close the connection is not enough there.
            call.drop()
    if era == "legacy":
        async with asyncio.timeout(BOUND):
            await background.elsewhere(asking_server.server.event_log.until(f"cancelled {key}"))
    async with harness.host("sse", VERSION, capabilities=ABLE) as other:
        following = other.ask("tools/call", asking("one", f"{key} next"))
        await reply(other, await asked(other), YES)
        assert text_as_json(await following.result())["answers"] == [[YES]]
    assert harness.app.upstreams["one"].in_flight == 0


@everywhere
async def test_a_server_that_dies_while_it_asks(open_harness: OpenHarness, frontend: str, key: str) -> None:
    """The host's question is taken back and its call ends with what is known."""
    harness = open_harness({"one": stdio_entry("legacy")})
    async with harness.host(frontend, VERSION, capabilities=ABLE) as host:
        call = host.ask("tools/call", asking("one", key))
        question = await asked(host)
        dying = host.call("one.die")
        await taken_back(host, question)
        for ended in (call, dying):
            assert (await ended.result())["_meta"]["aggregator/error"]["code"] == "outcome_unknown"


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_server_that_is_restarted_while_it_asks_between_calls(
    background: BackgroundLoop, open_harness: OpenHarness, transport: str, key: str
) -> None:
    """The host's question is taken back, and the server has its answer before the connection is closed."""
    asking_server = AskingWebServer("legacy")
    base = background.open(serving(asking_server))
    entry = {"type": transport, "url": f"{base}/{'sse' if transport == 'sse' else 'mcp'}", "isolation": "per_session"}
    harness = open_harness({"one": entry})
    async with harness.host("sse", VERSION, capabilities=ABLE) as host:
        await host.call("one.after", {"key": key}).result()
        await host.call("one.note", {"entry": f"ask late {key}"}).result()
        question = await asked(host)
        await harness.background.elsewhere(_restart(harness, "one"))
        await taken_back(host, question)
        async with asyncio.timeout(BOUND):
            await background.elsewhere(asking_server.server.event_log.until(f"late {key}: error"))


async def _restart(harness: ServerHarness, server: str) -> None:
    harness.app.servers.restart_server(server, "an operator")


@everywhere
@pytest.mark.parametrize("upstream", ["stdio_legacy", "http_legacy", "sse"])
async def test_a_flood_of_questions_is_bounded(harness: ServerHarness, frontend: str, upstream: str, key: str) -> None:
    """So many at once, and no more; each of the rest is an error at once."""
    async with harness.host(frontend, VERSION, capabilities=ABLE) as host:
        call = host.call(f"{upstream}.flood", {"count": 100, "key": key})
        questions = await host.inbox.until(is_question, 8)
        await host.call(f"{upstream}.witness", {"entry": f"error 92 to {key}"}).result()
        for question in questions:
            await reply(host, question, YES)
        assert text_as_json(await call.result()) == {"answer": 8, "error": 92}
        assert len([message for message in host.inbox.messages if is_question(message)]) == 8


@everywhere
@pytest.mark.parametrize("upstream", ["stdio_modern", "http_modern"])
async def test_a_server_that_only_wants_to_be_asked_again(harness: ServerHarness, frontend: str, upstream: str) -> None:
    """Of a state without questions the host hears nothing; one that never comes to an end does not go on for ever."""
    async with harness.host(frontend, VERSION) as host:
        assert text_as_json(await host.call(f"{upstream}.wait", {"count": 2}).result()) == 2


async def test_a_server_that_never_comes_to_an_end(harness: ServerHarness) -> None:
    """Ten rounds, and that is told."""
    async with harness.host("sse", VERSION) as host:
        error = (await host.call("stdio_modern.wait", {"count": 10}).result())["_meta"]["aggregator/error"]
    assert error["code"] == "upstream_bad_answer"
    assert "10 times" in error["message"]


NO_QUESTIONS: Final[dict[str, Any]] = {
    "of a method nobody has": {"method": "tools/list", "params": {}},
    "without a method": {"params": {}},
    "whose params are none": {"method": "roots/list", "params": [1]},
    "that are no objects": "ask me",
    "that were not offered": {"method": "sampling/createMessage", "params": {"messages": [], "tools": []}},
}


@pytest.mark.parametrize("what", NO_QUESTIONS)
@pytest.mark.parametrize("version", [VERSION, "2026-07-28"])
async def test_questions_that_are_none(harness: ServerHarness, version: str, what: str) -> None:
    """They cost that call, and the host is not asked."""
    async with harness.host("http", version, capabilities={**ABLE, "sampling": {}}) as host:
        result = await host.call("http_modern.unasked", {"request": NO_QUESTIONS[what]}).result()
        assert not [message for message in host.inbox.messages if is_question(message)]
    assert result["_meta"]["aggregator/error"]["code"] == "upstream_bad_answer"


@everywhere
async def test_a_question_on_the_standing_stream(harness: ServerHarness, frontend: str) -> None:
    """Servers that lose track of the request ask there; while one host alone calls, it is its question."""
    form = {"message": "Aside?", "requestedSchema": SCHEMA}
    async with harness.host(frontend, VERSION, capabilities=ABLE) as host:
        call = host.call("calm.aside", {"method": "elicitation/create", "params": form})
        await reply(host, await asked(host), YES)
        assert text_as_json(await call.result()) == YES


async def test_a_person_may_take_longer_than_the_call(open_harness: OpenHarness, key: str) -> None:
    """The time of a call stands still while its host is asked, and only then."""
    harness = open_harness({"one": stdio_entry("legacy", timeout=0.4)})
    async with harness.host("sse", VERSION, capabilities=ABLE) as host:
        call = host.ask("tools/call", asking("one", key))
        question = await asked(host)
        slow = (await host.call("one.hold", {"key": key}).result())["_meta"]["aggregator/error"]
        assert slow["code"] == "upstream_timeout"
        await asyncio.sleep(0)
        assert not call.done
        await reply(host, question, YES)
        assert text_as_json(await call.result())["answers"] == [[YES]]
