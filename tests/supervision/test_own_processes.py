"""A host session with a process of its own: what happens to that process is nobody else's concern."""

import asyncio

from aggregator.config.server_parts import HealthConfig
from aggregator.gateway.host import Host
from tests.faults.app_harness import AppHarness, code_of, raw_stdio, running_app, text_of
from tests.peers.back_channel import FakeBackChannel


def second_host(harness: AppHarness, name: str) -> Host:
    """Another host session of the same product."""
    return Host("test", "canonical", version="2025-11-25", session=name, capabilities={"elicitation": {}})


async def test_a_silent_process_of_one_session_cuts_off_no_other() -> None:
    """Proves: C18, D11. The circuit is about the server that all share, not about a process that one session has."""
    cut = HealthConfig(enabled=False, failures=1)
    async with running_app(raw_stdio("maps", isolation="per_session", health=cut, timeout=1.0)) as harness:
        one, other = second_host(harness, "one"), second_host(harness, "other")

        async def call(host: Host, tool: str, say: str = "") -> dict[str, object]:
            params = {"name": tool, "arguments": {"say": say}}
            return dict(await harness.app.gateway.answer(host, "tools/call", params, FakeBackChannel()))

        async with asyncio.timeout(10):
            assert code_of(await call(one, "maps.hang")) == "upstream_timeout"
            assert code_of(await call(one, "maps.hang")) == "upstream_timeout"
            assert harness.upstream("maps").health.circuit.position == "closed"
            assert text_of(await call(other, "maps.echo", "here")) == "here"
