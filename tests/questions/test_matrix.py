"""Every kind of question x every era of host and upstream x every transport x every door."""

import json
from typing import Final

import pytest

from tests.journeys.hosts import META, MODERN, VERSIONS, Host
from tests.journeys.house import DOORS, House
from tests.peers.toolbox import Json
from tests.questions.entries import ABLE, ANSWERS, KINDS
from tests.questions.people import again, carried, words

UPSTREAMS: Final = ("stdio_modern", "stdio_legacy", "http_modern", "http_legacy", "sse")
# Pages came with 2025-11-25.
CANNOT: Final = {("page", "2025-06-18")}

everywhere = pytest.mark.parametrize("door", DOORS)
every_era = pytest.mark.parametrize("version", VERSIONS)
every_upstream = pytest.mark.parametrize("upstream", UPSTREAMS)


@everywhere
@every_era
@every_upstream
async def test_a_question_and_its_answer_pass_through(
    house: House, door: str, version: str, upstream: str, key: str
) -> None:
    """The question is the upstream's own but for the name of who asks; the answer is the host's own; one execution."""
    async with house.host(door, version, capabilities=ABLE) as host:
        for kind, one in KINDS.items():
            if (kind, version) in CANNOT:
                continue
            params = {"name": f"{upstream}.ask", "arguments": {"key": f"{key} {kind}", "rounds": [[one]]}}
            result, questions = await carried(host, "tools/call", params, [[ANSWERS[kind]]])
            assert words(result) == {"answers": [[ANSWERS[kind]]], "begun": 1}
            assert [question["method"] for question in questions] == [one["method"]]
            check(questions[0]["params"], one["params"], upstream, modern=version == MODERN)
            assert result.get("resultType") == ("complete" if version == MODERN else None)


@everywhere
@every_upstream
async def test_pages_are_not_for_older_hosts(house: House, door: str, upstream: str, key: str) -> None:
    """What a host of that revision cannot be asked, the upstream is told at once."""
    params = {"name": f"{upstream}.ask", "arguments": {"key": key, "rounds": [[KINDS["page"]]]}}
    async with house.host(door, "2025-06-18", capabilities=ABLE) as host:
        result = await host.ask("tools/call", params).result()
    if upstream.endswith("_modern"):
        assert result["_meta"]["aggregator/error"]["code"] == "upstream_bad_answer"
    else:
        assert "error" in words(result)["answers"][0][0]


def check(asked: Json, sent: Json, upstream: str, *, modern: bool) -> None:
    """The params as they came, and what has to be different."""
    expected = {**sent, "_meta": {"aggregator/server": upstream}}
    if "message" in sent:
        expected["message"] = f"[{upstream}] {sent['message']}"
    if "includeContext" in sent:
        expected["includeContext"] = "none"
    if "elicitationId" in sent:
        del expected["elicitationId"]
    shown = dict(asked)
    if sent.get("mode") == "url" and not modern:
        assert shown.pop("elicitationId").startswith(f"{upstream}:")
    assert shown == expected


@everywhere
@every_era
@every_upstream
async def test_several_rounds_of_several_questions(
    house: House, door: str, version: str, upstream: str, key: str
) -> None:
    """Every answer comes to its own question, in as many rounds as it takes, and the call is begun once."""
    rounds = [[KINDS["form"], KINDS["roots"]], [KINDS["sample"]], [KINDS["form"]]]
    answers = [[ANSWERS["form"], ANSWERS["roots"]], [ANSWERS["sample"]], [{"action": "decline"}]]
    params = {"name": f"{upstream}.ask", "arguments": {"key": key, "rounds": rounds}}
    async with house.host(door, version, capabilities=ABLE) as host:
        if version == MODERN and not upstream.endswith("_modern"):
            result = await _until_complete(host, params)
        else:
            result, _ = await carried(host, "tools/call", params, answers)
    assert words(result) == {"answers": answers, "begun": 1}


async def _until_complete(host: Host, params: Json) -> Json:
    """A handshake-era upstream's questions come as they come; each is answered by what it is."""
    by_method = {
        "elicitation/create": [ANSWERS["form"], {"action": "decline"}],
        "sampling/createMessage": [ANSWERS["sample"]],
        "roots/list": [ANSWERS["roots"]],
    }
    result = await host.ask("tools/call", params).result()
    for _ in range(6):
        if result["resultType"] == "complete":
            break
        answers = {name: by_method[one["method"]].pop(0) for name, one in result["inputRequests"].items()}
        result = await again(host, "tools/call", params, result, answers).result()
    return result


@everywhere
@every_era
@every_upstream
async def test_prompts_and_resources_ask_too(house: House, door: str, version: str, upstream: str, key: str) -> None:
    """The same for what is no tool."""
    rounds = json.dumps([[KINDS["form"]]])
    requests: dict[str, Json] = {
        "prompts/get": {"name": f"{upstream}.ask", "arguments": {"key": key, "rounds": rounds}},
        "resources/read": {"uri": f"ask://{upstream}/one"},
    }
    async with house.host(door, version, capabilities=ABLE) as host:
        for method, params in requests.items():
            result, (question,) = await carried(host, method, params, [[ANSWERS["form"]]])
            told = result["messages"][0]["content"] if method == "prompts/get" else result["contents"][0]
            assert json.loads(told["text"])["answers"] == [[ANSWERS["form"]]]
            assert question["params"]["message"].startswith(f"[{upstream}] ")


@everywhere
@every_era
@every_upstream
async def test_what_is_declared_is_what_the_host_can(house: House, door: str, version: str, upstream: str) -> None:
    """A server is told what the host behind the call declared, as far as it can be told of one host."""
    every: list[Json] = [{}, {"elicitation": {}}, {"sampling": {}, "experimental": {"x": {}}, "tasks": {}}]
    for capabilities in every:
        async with house.host(door, version, capabilities=capabilities) as host:
            seen = words(await host.call(f"{upstream}.seen").result())
        expected = {"elicitation": {"form": {}}} if "elicitation" in capabilities else dict(capabilities)
        expected = {name: value for name, value in expected.items() if name in ("elicitation", "sampling")}
        if upstream == "stdio_legacy":
            # One process for many hosts: it is told that questions can be asked.
            expected = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}
        assert seen["declared"] == expected
        if upstream.endswith("_modern"):
            assert f"{META}logLevel" not in seen["meta"]
            assert seen["params"] == ["_meta", "arguments", "name"]


@everywhere
@every_era
@every_upstream
async def test_a_host_that_cannot_be_asked(house: House, door: str, version: str, upstream: str, key: str) -> None:
    """No question reaches a host that declared nothing; the server is told, and may go on."""
    params = {"name": f"{upstream}.ask", "arguments": {"key": key, "rounds": [[KINDS["form"]]]}}
    async with house.host(door, version) as host:
        result = await host.ask("tools/call", params).result()
        assert not [message for message in host.inbox.messages if "method" in message]
    if upstream.endswith("_modern"):
        assert result["_meta"]["aggregator/error"]["code"] == "upstream_bad_answer"
    else:
        (error,) = words(result)["answers"][0]
        assert error["error"]["code"] == -32601
