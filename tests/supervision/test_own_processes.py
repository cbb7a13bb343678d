"""A host session with a process of its own: what happens to that process is nobody else's concern."""

import asyncio
from pathlib import Path

import pytest

from aggregator.config.server_parts import HealthConfig
from aggregator.gateway.host import Host
from tests.faults.app_harness import AppHarness, code_of, lines_of, raw_stdio, running_app, text_of
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


@pytest.mark.parametrize("answers", [False, True])
async def test_calls_without_an_answer_close_a_process_of_one_session_only_in_a_row(
    tmp_path: Path, answers: bool
) -> None:
    """Proves: C18. A slow call now and then does not cost a host its process, and the state in it."""
    log = tmp_path / "log"
    maps = raw_stdio("maps", log=log, isolation="per_session", tools={"timeout": {"hang": 0.1}})
    async with running_app(maps) as harness:
        host = second_host(harness, "one")

        async def call(tool: str, say: str = "") -> dict[str, object]:
            params = {"name": tool, "arguments": {"say": say}}
            async with asyncio.timeout(10):
                return dict(await harness.app.gateway.answer(host, "tools/call", params, FakeBackChannel()))

        assert text_of(await call("maps.echo", "open")) == "open"
        silent = [await call("maps.hang"), await call("maps.hang")]
        if answers:
            assert text_of(await call("maps.echo", "still here")) == "still here"
        silent.append(await call("maps.hang"))
        assert [code_of(result) for result in silent] == ["upstream_timeout"] * 3
        assert text_of(await call("maps.echo", "here")) == "here"
        # The first is the shared one.
        assert sum(line.startswith("start ") for line in lines_of(log)) == (2 if answers else 3)
