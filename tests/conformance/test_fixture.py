"""The fixture asks in the way of the era that its host speaks; what comes of it is the same in all."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.conformance.accepting_host import ABLE, settle
from tests.conformance.fixture import Fixture
from tests.end_to_end.scripted_host import VERSIONS, ScriptedHost, over_http
from tests.peers.serving import serving
from tests.peers.toolbox import Json


@asynccontextmanager
async def introduced(version: str, capabilities: Json) -> AsyncIterator[ScriptedHost]:
    async with (
        serving(Fixture().streamable_http_app()) as base,
        over_http(base, version, capabilities=capabilities) as host,
    ):
        yield host


async def asked(host: ScriptedHost, method: str, name: str, **arguments: Any) -> Json:
    result: Json = (await settle(host, method, {"name": name, "arguments": arguments}))["result"]
    return result


@pytest.mark.parametrize("version", VERSIONS)
async def test_questions_reach_the_person_in_every_era(version: str) -> None:
    said = {
        "test_sampling": "LLM response: Yes.",
        "test_elicitation": "Elicitation completed: action=accept, content={'username': 'text', 'email': 'text'}",
        "test_input_required_result_elicitation": "Hello, text!",
        "test_input_required_result_list_roots": "Roots: ",
        "test_input_required_result_request_state": "state-ok",
        "test_input_required_result_multiple_inputs": "Yes. text, of 0 roots",
        "test_input_required_result_multi_round": "text likes text",
        "test_input_required_result_capabilities": "Asked for ['model', 'person']",
    }
    async with introduced(version, ABLE) as host:
        for tool, words in said.items():
            result = await asked(host, "tools/call", tool, prompt="p", message="m")
            assert result["content"] == [{"type": "text", "text": words}], tool
        prompt = await asked(host, "prompts/get", "test_input_required_result_prompt")
        assert prompt["messages"][0]["content"]["text"] == "In the context of text"


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_host_is_not_asked_for_what_it_cannot_do(version: str) -> None:
    async with introduced(version, {"elicitation": {}}) as host:
        error = (await settle(host, "tools/call", {"name": "test_sampling", "arguments": {"prompt": "p"}}))["error"]
        assert error["data"] == {"requiredCapabilities": {"sampling": {}}}
        able = await asked(host, "tools/call", "test_input_required_result_capabilities")
        assert able["content"][0]["text"] == "Asked for ['person']"


async def test_a_state_of_somebody_elses_is_refused() -> None:
    async with introduced("2026-07-28", ABLE) as host:
        call = {"name": "test_input_required_result_tampered_state", "arguments": {}}
        first = await host.ask("tools/call", call).result()
        forged = {"requestState": first["requestState"] + "x", "inputResponses": {"confirm": {"action": "accept"}}}
        assert (await host.ask("tools/call", {**call, **forged}).error())["code"] == -32602
