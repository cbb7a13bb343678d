"""What cannot move: it goes to the replica that holds it by one hop, or ends with words when that one is gone."""

import asyncio
import json
import logging
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.peers.toolbox import Json
from tests.polling import until
from tests.replicas.sharing import EventReader, TurningHost, modern, sharing, turning_host
from tests.server_requests.entries import ABLE, ANSWERS, FORM, stdio_entry

SERVERS = {"asker": stdio_entry("legacy")}
YES = ANSWERS["form"]
ASK = {"name": "asker.ask", "arguments": {"key": "k", "rounds": [[FORM]]}}


async def asked(host: TurningHost, at: str, params: Json) -> tuple[int, Any]:
    """Send a request of 2026-07-28; return the status and the message of the answer."""
    headers, message = modern("tools/call", params, ABLE)
    answer = await host.client.post(f"{at}/mcp", json=message, headers=headers)
    if answer.headers["content-type"].startswith("text/event-stream"):
        return answer.status_code, await EventReader(answer).next()
    return answer.status_code, answer.json()


def coming_back(interim: Json, answer: Json, params: Json = ASK) -> Json:
    """Return the params of the request that brings the answer to a question."""
    result = interim["result"]
    answers = dict.fromkeys(result["inputRequests"], answer)
    return {**params, "inputResponses": answers, "requestState": result["requestState"]}


async def test_a_parked_call_whose_replica_ended_ends_with_words(tmp_path: Path) -> None:
    async with sharing(tmp_path, SERVERS, 2) as shared, turning_host() as host:
        one, two = shared.running
        _, interim = await asked(host, one.url, ASK)
        await shared.remove(one)
        _, answer = await asked(host, two.url, coming_back(interim, YES))
        assert "is gone" in answer["error"]["message"]
        assert "Nothing was run" in answer["error"]["message"]


async def test_a_state_of_a_parked_call_counts_once_wherever_it_is_brought(tmp_path: Path) -> None:
    async with sharing(tmp_path, SERVERS, 3) as shared, turning_host() as host:
        _, interim = await asked(host, shared.running[0].url, ASK)
        back = coming_back(interim, YES)
        answers = await asyncio.gather(*(asked(host, replica.url, back) for replica in shared.running * 3))
        done = [answer for _, answer in answers if "result" in answer]
        assert len(done) == 1, answers
        assert all("not good" in answer["error"]["message"] for _, answer in answers if "error" in answer)
        # Of requests that were answered nothing stays, wherever they came and went.
        going = [replica.app.gateway.revocation for replica in shared.running]
        await until(lambda: not any(map(len, going)), "no request goes on")


async def test_the_answers_of_hosts_that_say_the_same_come_back_to_their_processes(tmp_path: Path) -> None:
    """Calls at one replica and at several are each alone in a process, wherever their answers are brought."""
    async with sharing(tmp_path, SERVERS, 3) as shared, turning_host() as host:
        first, second, third = (replica.url for replica in shared.running)
        for at in (first, second):
            _, interim = await asked(host, at, ASK)
            await asked(host, third, coming_back(interim, YES))
        calls = []
        for number, at in enumerate((first, first, second, first, second)):
            form = {**FORM, "params": {**FORM["params"], "message": f"Who is it? {number}"}}
            params = {"name": "asker.ask", "arguments": {"key": f"k{number}", "rounds": [[form]]}}
            _, interim = await asked(host, at, params)
            (question,) = interim["result"]["inputRequests"].values()
            assert question["params"]["message"].endswith(f"Who is it? {number}")
            calls.append((params, interim, {"action": "accept", "content": {"answer": f"{number}"}}))
        for params, interim, answer in reversed(calls):
            _, done = await asked(host, third, coming_back(interim, answer, params))
            assert json.loads(done["result"]["content"][0]["text"])["answers"] == [[answer]]
        assert [one.app.upstreams["asker"].own_connections for one in shared.running] == [2, 1, None]


async def test_an_answer_comes_back_to_the_process_of_a_server_of_its_era(tmp_path: Path) -> None:
    """A server of 2026-07-28 may keep the matter of its question; without the replica that asked, another takes it."""
    servers = {"asker": stdio_entry("modern", isolation="per_session")}
    async with sharing(tmp_path, servers, 2) as shared, turning_host() as host:
        one, two = shared.running
        _, interim = await asked(host, one.url, ASK)
        # This one has a process of its own, which knows nothing of that question.
        await asked(host, two.url, {"name": "asker.seen", "arguments": {}})
        _, done = await asked(host, two.url, coming_back(interim, YES))
        assert json.loads(done["result"]["content"][0]["text"])["answers"] == [[YES]]
        _, interim = await asked(host, one.url, ASK)
        await shared.remove(one)
        _, answer = await asked(host, two.url, coming_back(interim, YES))
        assert answer["error"]["message"] == "That is no state of mine."


async def test_messages_of_sse_may_come_to_any_replica(tmp_path: Path) -> None:
    async with sharing(tmp_path, SERVERS, 2, sse={"enabled": True}) as shared, turning_host() as host:
        one, two = shared.running
        async with host.client.stream("GET", f"{one.url}/sse") as stream:
            lines = stream.aiter_lines()
            endpoint = [line async for line in _until_data(lines)][-1].removeprefix("data: ")
            path = f"{urlsplit(endpoint).path}?{urlsplit(endpoint).query}"
            hello = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
            message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
            answer = await host.client.post(f"{two.url}{path}", json=message)
            assert answer.status_code == 202, answer.text
            answered = [line async for line in _until_data(lines)][-1]
            assert '"serverInfo"' in answered
            for odd in ("nonsense", f"nonsense.{one.id}", f"nonsense.{two.id}", f"x.{'0' * 16}"):
                refused = await host.client.post(f"{two.url}/messages?session_id={odd}", json=message)
                assert refused.status_code == 404, odd
            assert (await host.client.post(f"{two.url}{path}", content=b"{")).status_code == 400
        await shared.remove(one)
        gone = await host.client.post(f"{two.url}{path}", json=message)
        assert gone.status_code == 404


async def test_answers_to_questions_that_were_not_asked_are_taken_and_dropped(tmp_path: Path) -> None:
    """A host can answer only its own questions, however it comes to their ids."""
    async with sharing(tmp_path, SERVERS, 2) as shared, turning_host() as host, turning_host() as other:
        one, two = shared.running
        await host.greet(one.url, ABLE)
        await other.greet(two.url, ABLE)
        call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": ASK}
        async with host.streaming(one.url, call) as events:
            question = await events.next()
            odd: Any
            for odd in (0, -1, 10**15, 10**40, 1.5, None, [], "x", "9" * 15, question["id"] + 1):
                answer = await host.post(two.url, {"jsonrpc": "2.0", "id": odd, "result": {"action": "cancel"}})
                assert answer.status == 202, odd
            stolen = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}}
            assert (await other.post(two.url, stolen)).status == 202
            right = {"jsonrpc": "2.0", "id": question["id"], "result": YES}
            assert (await host.post(two.url, right)).status == 202
            assert '"action": "accept"' in str(await events.next())


async def test_an_answer_is_taken_up_at_any_replica(tmp_path: Path) -> None:
    """The one that has the call sends the rest of it, through the one that was asked; once it is gone, words end it."""
    async with sharing(tmp_path, SERVERS, 2) as shared, turning_host() as host:
        one, two = shared.running
        await host.greet(one.url, ABLE)
        call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": ASK}
        async with host.streaming(one.url, call) as events:
            question = await events.next()
        last = events.last_id
        assert one.id in last
        async with host.streaming(two.url, last_id=last) as resumed:
            right = {"jsonrpc": "2.0", "id": question["id"], "result": YES}
            assert (await host.post(two.url, right)).status == 202
            answer = await resumed.next()
            assert answer["id"] == 7
            assert '"action": "accept"' in str(answer)
        async with host.streaming(two.url, last_id=last) as again:
            assert await again.next() == answer
        async with host.streaming(one.url, last_id=last.replace(one.id, two.id)) as wrong:
            assert "cannot be had" in (await wrong.next())["error"]["message"]
        await shared.remove(one)
        async with host.streaming(two.url, last_id=last) as gone:
            lost = await gone.next()
            assert lost["id"] == 7
            assert "not known what became of" in lost["error"]["message"]


async def test_an_answer_that_is_being_taken_up_ends_with_its_replica(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its host hears what happened, at the latest once it comes back; no log has an error."""
    async with sharing(tmp_path, SERVERS, 2) as shared, turning_host() as host:
        one, two = shared.running
        await host.greet(one.url, ABLE)
        call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": ASK}
        async with host.streaming(one.url, call) as events:
            await events.next()
        async with host.streaming(two.url, last_id=events.last_id) as resumed:
            await shared.remove(one)
            lost: Json | None = None
            with suppress(AssertionError):  # the owner may have ended the stream before it was gone
                lost = await _answer(resumed)
        if lost is None:
            async with host.streaming(two.url, last_id=events.last_id) as again:
                lost = await _answer(again)
        assert lost["id"] == 7
        assert "not known what became of" in lost["error"]["message"]
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]


async def _answer(events: EventReader) -> Json:
    """Return the answer of a stream, behind the end of the question that an owner which stops takes back."""
    message = await events.next()
    while message.get("method") == "notifications/cancelled":
        message = await events.next()
    return message


async def _until_data(lines: Any) -> Any:
    """Yield lines up to the first that carries data."""
    async for line in lines:
        yield line
        if line.startswith("data: "):
            return
