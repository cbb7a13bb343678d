"""Servers that ask, and answer, what they must not: that costs themselves, and reaches nobody else."""

import asyncio
from typing import Any, Final

import pytest

from aggregator.gateway.ask.next_round import AT_ONCE
from tests.end_to_end.scripted_host import BOUND, LEGACY, MODERN
from tests.end_to_end.server_harness import FRONTENDS, ServerHarness
from tests.peers.serving import BackgroundLoop, serving
from tests.peers.toolbox import Json
from tests.server_requests.asking_server_web import AskingWebServer
from tests.server_requests.conftest import OpenHarness
from tests.server_requests.entries import ABLE, ANSWERS, FORM
from tests.server_requests.replies import ask_and_answer, asked, is_question, reply, resume, text_as_json

VERSION: Final = LEGACY[-1]
EVERY_ERA: Final = (VERSION, MODERN)
UPSTREAMS: Final = ("stdio_modern", "stdio_legacy", "http_modern", "http_legacy", "sse")
YES: Final = ANSWERS["form"]

everywhere = pytest.mark.parametrize("frontend", FRONTENDS)
every_era = pytest.mark.parametrize("version", EVERY_ERA)
every_upstream = pytest.mark.parametrize("upstream", UPSTREAMS)


@everywhere
@every_era
# Over HTTP a server of 2026-07-28 is given no answers at all.
@pytest.mark.parametrize("upstream", ["stdio_modern", "stdio_legacy", "http_legacy", "sse"])
async def test_requests_that_nobody_answers_a_server(
    harness: ServerHarness, frontend: str, version: str, upstream: str
) -> None:
    """Each is refused at once, a ping is answered, the call comes to its end, and the host hears of nothing."""
    refused = ["tools/list", "tools/call", "resources/read", "initialize", "server/discover", "aggregator/policy", ""]
    requests = [[method, {"name": "stdio_legacy.die"}] for method in refused] + [["ping", {}]]
    async with harness.host(frontend, version, capabilities=ABLE) as host:
        answers = text_as_json(await host.call(f"{upstream}.pester", {"requests": requests}).result())
        assert not [message for message in host.inbox.messages if "method" in message]
    assert [answer["error"]["code"] for answer in answers[:-1]] == [-32601] * len(refused)
    assert answers[-1] == {}


@everywhere
@every_era
@every_upstream
async def test_answers_to_what_nobody_asked(harness: ServerHarness, frontend: str, version: str, upstream: str) -> None:
    """Whatever their id is, they move nothing, also while another call is under way."""
    ids: list[Any] = [2**70, 10**9, -1, 0.5, True, "q1", "x", [], {}]
    strays: list[Json] = [
        *({"id": number, "result": {"content": []}} for number in ids),
        {"id": 10**9, "error": {"code": -1, "message": "no"}},
        {"id": 10**9},
        {"method": "notifications/progress", "params": {"progressToken": 10**9, "progress": 1}},
        {"method": "notifications/cancelled", "params": {"requestId": 10**9}},
        {"method": "notifications/elicitation/complete", "params": {"elicitationId": "nobody's"}},
        {"method": "notifications/resources/updated", "params": {"uri": "ask://nobody"}},
        {"method": "notifications/unheard/of", "params": {}},
    ]
    async with harness.host(frontend, version, capabilities=ABLE) as host:
        params = {"name": f"{upstream}.stray", "arguments": {"messages": strays}}
        result = await host.ask("tools/call", params, {"progressToken": 1}).result()
        assert result["content"][0]["text"] == "still here"
        assert not [message for message in host.inbox.messages if "method" in message]
        assert text_as_json(await host.call(f"{upstream}.seen").result())["params"]


@everywhere
@every_era
@pytest.mark.parametrize("upstream", ["stdio_modern", "http_modern"])
async def test_questions_where_none_may_be(harness: ServerHarness, frontend: str, version: str, upstream: str) -> None:
    """Only calls, prompts and reads may be answered with one (S/basic/patterns/mrtr)."""
    prompt = f"{upstream}.ask"
    async with harness.host(frontend, version, capabilities=ABLE) as host:
        params = {"ref": {"type": "ref/prompt", "name": prompt}, "argument": {"name": "key", "value": "ask"}}
        error = await host.ask("completion/complete", params).error()
        assert error["code"] == -32603
        assert error["data"]["code"] == "upstream_bad_answer"
        params["argument"] = {"name": "key", "value": "b"}
        done = await host.ask("completion/complete", params).result()
    assert done["completion"]["values"] == ["b"]


@every_era
@pytest.mark.parametrize("upstream", ["stdio_modern", "stdio_legacy", "http_legacy"])
async def test_questions_with_what_nobody_sees(harness: ServerHarness, version: str, upstream: str, key: str) -> None:
    """D9: it is taken out on every way that a question takes; what the person answers goes back as it is."""
    form = {
        "method": FORM["method"],
        "params": {**FORM["params"], "message": "a\u202eb\u200b\U000e0041c", "x": ["\u200b"]},
    }
    params = {"name": f"{upstream}.ask", "arguments": {"key": key, "rounds": [[form]]}}
    answer = {"action": "accept", "content": {"answer": "x\u200b"}}
    async with harness.host("http", version, capabilities=ABLE) as host:
        done, (question,) = await ask_and_answer(host, "tools/call", params, [[answer]])
    assert question["params"]["message"] == f"[{upstream}] abc"
    assert question["params"]["x"] == [""]
    assert text_as_json(done)["answers"] == [[answer]]


@every_era
@pytest.mark.parametrize("upstream", ["stdio_modern", "http_modern"])
async def test_a_round_of_too_many_questions(harness: ServerHarness, version: str, upstream: str, key: str) -> None:
    """As many as a round may have are asked; with one more the call fails, and the host is asked none."""
    params: Json = {"name": f"{upstream}.ask", "arguments": {"key": key, "rounds": [[FORM] * AT_ONCE]}}
    async with harness.host("http", version, capabilities=ABLE) as host:
        done, questions = await ask_and_answer(host, "tools/call", params, [[YES] * AT_ONCE])
        assert len(questions) == AT_ONCE
        assert text_as_json(done)["answers"] == [[YES] * AT_ONCE]
        params["arguments"] = {"key": f"{key} more", "rounds": [[FORM] * (AT_ONCE + 1)]}
        result = await host.ask("tools/call", params).result()
        # Handshake hosts have seen the first round as requests; hosts of 2026-07-28 see none.
        assert len([one for one in host.inbox.messages if is_question(one)]) == (0 if host.modern else AT_ONCE)
    assert result["_meta"]["aggregator/error"]["code"] == "upstream_bad_answer"


@pytest.mark.parametrize("upstream", ["stdio_modern", "http_modern"])
async def test_answers_that_a_host_gives_unasked(harness: ServerHarness, upstream: str, key: str) -> None:
    """Others do not travel with those that were asked for; before any question they are for the server to take."""
    params = {"name": f"{upstream}.ask", "arguments": {"key": key, "rounds": [[FORM], [FORM]]}}
    async with harness.host("http", MODERN, capabilities=ABLE) as host:
        early = {**params, "inputResponses": {"0/0 é": YES, "x": YES, "y": 5}}
        first = await host.ask("tools/call", early).result()
        # It knew its own question in them.
        assert list(first["inputRequests"]) == ["1/0 é"]
        interim = await host.ask("tools/call", params).result()
        more = {"0/0 é": YES, "1/0 é": {"action": "decline"}, "x": YES}
        interim = await resume(host, "tools/call", params, interim, more).result()
        done = await resume(
            host, "tools/call", params, interim, {"1/0 é": YES, "0/0 é": {"action": "decline"}}
        ).result()
    assert text_as_json(done)["answers"] == [[YES], [YES]]


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_question_after_the_end_of_its_call(
    background: BackgroundLoop, open_harness: OpenHarness, transport: str, key: str
) -> None:
    """On a connection of many hosts nobody is asked; on one's own that host is, and no other."""
    asking_server = AskingWebServer("legacy")
    base = background.open(serving(asking_server))
    url = f"{base}/mcp" if transport == "http" else f"{base}/sse"
    harness = open_harness({"one": {"type": transport, "url": url}})
    async with (
        harness.host("sse", VERSION, capabilities=ABLE) as caller,
        harness.host("sse", VERSION, capabilities=ABLE) as other,
    ):
        for host in (other, caller):
            await host.call("one.seen").result()
        await caller.call("one.after", {"key": key}).result()
        await background.elsewhere(noted(asking_server, f"ask late {key}"))
        if transport == "sse":
            await reply(caller, await asked(caller), YES)
        outcome = f"late {key}: {'answer' if transport == 'sse' else 'error'}"
        async with asyncio.timeout(BOUND):
            await background.elsewhere(asking_server.server.event_log.until(outcome))
        asked_of = [len([one for one in host.inbox.messages if is_question(one)]) for host in (caller, other)]
    assert asked_of == [transport == "sse", 0]


async def noted(asking_server: AskingWebServer, entry: str) -> None:
    asking_server.server.event_log.note(entry)
