"""Requests that wait until the audit has room for them, while the process begins to end."""

from pathlib import Path

import pytest

from tests.access.gateway_harness import LEGACY, MODERN, GatewayHarness, make_config, tool
from tests.peers.toolbox import Json

READS: dict[str, Json] = {
    "resources/read": {"uri": "file://crm//a"},
    "prompts/get": {"name": "crm.greet"},
    "completion/complete": {"ref": {"type": "ref/prompt", "name": "crm.greet"}, "argument": {"name": "a", "value": ""}},
    "skills/get": {"name": "crm.skill"},
}


@pytest.mark.parametrize("version", [LEGACY, MODERN])
@pytest.mark.parametrize("method", READS)
async def test_a_read_is_refused_if_the_end_came_while_it_waited(tmp_path: Path, method: str, version: str) -> None:
    """D9: with the words of the end, on record, and without a question to its server."""
    config = make_config(tmp_path, {"crm": {"command": "played"}}, startup_wait=0.1)
    harness = GatewayHarness(config, {"crm": [tool("get")]})
    gateway, waited = harness.app.gateway, []

    async def wait_for_space(name: str) -> None:
        waited.append(name)
        gateway.drain.start(5.0)

    gateway.call_log.observers.wait_for_space = wait_for_space
    answer = await harness.ask(harness.host("one", version), method, READS[method])
    assert answer["error"]["data"]["code"] == "shutting_down"
    assert len(waited) == 1
    assert harness.sent == []
