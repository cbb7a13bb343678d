"""What a host did not declare: it is told which capability is missing, in the way of its era."""

from typing import Final

import pytest

from tests.end_to_end.scripted_host import ACCEPT, ENVELOPE, LEGACY, MODERN, VERSIONS, http_client
from tests.end_to_end.server_harness import FRONTENDS, ServerHarness
from tests.peers.toolbox import Json
from tests.server_requests.entries import ANSWERS, FORM, PAGE, ROOTS, SAMPLE
from tests.server_requests.replies import asked, is_question, reply, resume

NEEDS: Final[list[tuple[Json, Json]]] = [
    (FORM, {"elicitation": {"form": {}}}),
    (PAGE, {"elicitation": {"url": {}}}),
    (SAMPLE, {"sampling": {}}),
    (ROOTS, {"roots": {}}),
]

everywhere = pytest.mark.parametrize("frontend", FRONTENDS)
by_request = pytest.mark.parametrize("upstream", ["stdio_legacy", "http_legacy", "sse"])


@everywhere
@by_request
async def test_what_a_call_fails_for_want_of_is_named(harness: ServerHarness, frontend: str, upstream: str) -> None:
    """A server of the handshake eras can only be refused; its host of 2026-07-28 hears what it would have to declare.

    What the server itself said of it is kept; nobody is asked.
    """
    async with harness.host(frontend, MODERN, capabilities={"experimental": {}}) as host:
        for question, needs in NEEDS:
            error = await host.call(f"{upstream}.insist", question).error()
            assert error["code"] == -32021
            assert error["data"]["requiredCapabilities"] == needs
            own = error["data"]["error"]
            assert own["code"] == 4711
            assert own["data"]["com.example/said"]["data"]["requiredCapabilities"] == needs
        assert not [message for message in host.inbox.messages if "method" in message]


@everywhere
@by_request
async def test_what_is_declared_by_then_is_asked(harness: ServerHarness, frontend: str, upstream: str) -> None:
    """With the one capability that was missing, and only with that."""
    async with harness.host(frontend, MODERN, capabilities={"roots": {}}) as host:
        error = await host.call(f"{upstream}.insist", FORM).error()
        assert error["data"]["requiredCapabilities"] == {"elicitation": {"form": {}}}
        host.capabilities = {"elicitation": {}}
        params = {"name": f"{upstream}.insist", "arguments": FORM}
        interim = await host.ask("tools/call", params).result()
        done = await resume(host, "tools/call", params, interim, [ANSWERS["form"]]).result()
        assert done["content"][0]["text"] == "done"
        assert (await host.call(f"{upstream}.insist", ROOTS).error())["data"]["requiredCapabilities"] == {"roots": {}}


@everywhere
@pytest.mark.parametrize("version", LEGACY)
@by_request
async def test_older_hosts_get_the_error_as_it_came(
    harness: ServerHarness, frontend: str, version: str, upstream: str
) -> None:
    """Their eras have no word for it; a question that the host refuses is no lack either."""
    async with harness.host(frontend, version, capabilities={"roots": {}}) as host:
        assert (await host.call(f"{upstream}.insist", FORM).error())["code"] == 4711
        assert not [message for message in host.inbox.messages if is_question(message)]
        call = host.call(f"{upstream}.insist", ROOTS)
        await reply(host, await asked(host), ANSWERS["roots"])
        assert (await call.result())["content"][0]["text"] == "done"


@everywhere
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("upstream", ["stdio_modern", "http_modern"])
async def test_a_server_that_says_so_itself(harness: ServerHarness, frontend: str, version: str, upstream: str) -> None:
    """-32021 goes to a host of its era whole; to another it is a result that a model can act on."""
    async with harness.host(frontend, version) as host:
        call = host.call(f"{upstream}.lack")
        if version == MODERN:
            error = await call.error()
            assert (error["code"], error["data"]) == (-32021, {"requiredCapabilities": {"sampling": {}}})
        else:
            result = await call.result()
            assert result["isError"] is True
            told = result["_meta"]["aggregator/error"]
            assert told["code"] == "host_lacks_capability"
            assert told["requiredCapabilities"] == {"sampling": {}}


@pytest.mark.parametrize(("tool", "arguments"), [("http_legacy.insist", FORM), ("http_modern.lack", {})])
async def test_the_status_says_it_too(harness: ServerHarness, tool: str, arguments: Json) -> None:
    """400 with -32021 (SH, Error Codes)."""
    params = {"name": tool, "arguments": arguments, "_meta": ENVELOPE}
    headers = {**ACCEPT, "mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": tool}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    async with http_client(harness.url) as client:
        answer = await client.post("/mcp", json=body, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32021)
