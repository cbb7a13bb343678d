"""Every kind of question x every era of host and upstream x every transport x every frontend."""

import json
from typing import Final

import pytest

from tests.end_to_end.scripted_host import META, MODERN, VERSIONS, ScriptedHost
from tests.end_to_end.server_harness import FRONTENDS, ServerHarness
from tests.peers.toolbox import Json
from tests.server_requests.entries import ABLE, ANSWERS, KINDS
from tests.server_requests.replies import ask_and_answer, resume, text_as_json

UPSTREAMS: Final = ("stdio_modern", "stdio_legacy", "http_modern", "http_legacy", "sse")
# Pages came with 2025-11-25.
CANNOT: Final = {("page", "2025-06-18")}

everywhere = pytest.mark.parametrize("frontend", FRONTENDS)
every_era = pytest.mark.parametrize("version", VERSIONS)
every_upstream = pytest.mark.parametrize("upstream", UPSTREAMS)


@everywhere
@every_era
@every_upstream
async def test_a_question_and_its_answer_pass_through(
    harness: ServerHarness, frontend: str, version: str, upstream: str, key: str
) -> None:
    """The question is the upstream's own but for the name of who asks; the answer is the host's own; one execution."""
    async with harness.host(frontend, version, capabilities=ABLE) as host:
        for kind, one in KINDS.items():
            if (kind, version) in CANNOT:
                continue
            params = {"name": f"{upstream}.ask", "arguments": {"key": f"{key} {kind}", "rounds": [[one]]}}
            result, questions = await ask_and_answer(host, "tools/call", params, [[ANSWERS[kind]]])
            assert text_as_json(result) == {"answers": [[ANSWERS[kind]]], "begun": 1}
            assert [question["method"] for question in questions] == [one["method"]]
            check(questions[0]["params"], one["params"], upstream, modern=version == MODERN)
            assert result.get("resultType") == ("complete" if version == MODERN else None)


@everywhere
@every_upstream
async def test_pages_are_not_for_older_hosts(harness: ServerHarness, frontend: str, upstream: str, key: str) -> None:
    """What a host of that revision cannot be asked, the upstream is told at once."""
    params = {"name": f"{upstream}.ask", "arguments": {"key": key, "rounds": [[KINDS["page"]]]}}
    async with harness.host(frontend, "2025-06-18", capabilities=ABLE) as host:
        result = await host.ask("tools/call", params).result()
    if upstream.endswith("_modern"):
        assert result["_meta"]["aggregator/error"]["code"] == "upstream_bad_answer"
    else:
        assert "error" in text_as_json(result)["answers"][0][0]


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
    harness: ServerHarness, frontend: str, version: str, upstream: str, key: str
) -> None:
    """Every answer comes to its own question, in as many rounds as it takes, and the call is begun once."""
    rounds = [[KINDS["form"], KINDS["roots"]], [KINDS["sample"]], [KINDS["form"]]]
    answers = [[ANSWERS["form"], ANSWERS["roots"]], [ANSWERS["sample"]], [{"action": "decline"}]]
    params = {"name": f"{upstream}.ask", "arguments": {"key": key, "rounds": rounds}}
    async with harness.host(frontend, version, capabilities=ABLE) as host:
        if version == MODERN and not upstream.endswith("_modern"):
            result = await _until_complete(host, params)
        else:
            result, _ = await ask_and_answer(host, "tools/call", params, answers)
    assert text_as_json(result) == {"answers": answers, "begun": 1}


async def _until_complete(host: ScriptedHost, params: Json) -> Json:
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
        result = await resume(host, "tools/call", params, result, answers).result()
    return result


@everywhere
@every_era
@every_upstream
async def test_prompts_and_resources_ask_too(
    harness: ServerHarness, frontend: str, version: str, upstream: str, key: str
) -> None:
    """The same for what is no tool."""
    rounds = json.dumps([[KINDS["form"]]])
    requests: dict[str, Json] = {
        "prompts/get": {"name": f"{upstream}.ask", "arguments": {"key": key, "rounds": rounds}},
        "resources/read": {"uri": f"ask://{upstream}/one"},
    }
    async with harness.host(frontend, version, capabilities=ABLE) as host:
        for method, params in requests.items():
            result, (question,) = await ask_and_answer(host, method, params, [[ANSWERS["form"]]])
            told = result["messages"][0]["content"] if method == "prompts/get" else result["contents"][0]
            assert json.loads(told["text"])["answers"] == [[ANSWERS["form"]]]
            assert question["params"]["message"].startswith(f"[{upstream}] ")


@everywhere
@every_era
@every_upstream
async def test_what_is_declared_is_what_the_host_can(
    harness: ServerHarness, frontend: str, version: str, upstream: str
) -> None:
    """A server is told what the host behind the call declared, as far as it can be told of one host."""
    every: list[Json] = [{}, {"elicitation": {}}, {"sampling": {}, "experimental": {"x": {}}, "tasks": {}}]
    for capabilities in every:
        async with harness.host(frontend, version, capabilities=capabilities) as host:
            seen = text_as_json(await host.call(f"{upstream}.seen").result())
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
async def test_a_host_that_cannot_be_asked(
    harness: ServerHarness, frontend: str, version: str, upstream: str, key: str
) -> None:
    """No question reaches a host that declared nothing; the server is told, and may go on."""
    params = {"name": f"{upstream}.ask", "arguments": {"key": key, "rounds": [[KINDS["form"]]]}}
    async with harness.host(frontend, version) as host:
        result = await host.ask("tools/call", params).result()
        assert not [message for message in host.inbox.messages if "method" in message]
    if upstream.endswith("_modern"):
        assert result["_meta"]["aggregator/error"]["code"] == "upstream_bad_answer"
    else:
        (error,) = text_as_json(result)["answers"][0]
        assert error["error"]["code"] == -32601
