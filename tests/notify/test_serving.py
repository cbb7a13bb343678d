"""Notices of a running `aggregator serve`, and `aggregator notify test`."""

import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
from aiohttp import web

from tests.end_to_end.programs import run
from tests.end_to_end.scripted_host import NO_TLS
from tests.notify.hook_server import SECRET, HookServer, is_ours
from tests.operating.program_harness import ProgramHarness, server
from tests.peers.toolbox import Json
from tests.polling import until

POLICIES: Final = """
agents:
  local:
    allow: ["*"]
    confirm: ["crm.wait"]
    confirm_by: queue
    confirm_wait: 0
    limits: {"crm.who": {per_minute: 1}}
"""
CANARY: Final = "canary-in-an-argument"


@pytest.fixture
def harness(tmp_path: Path) -> ProgramHarness:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "main.yaml").write_text(POLICIES)
    return ProgramHarness(tmp_path)


@pytest.fixture
async def hook() -> AsyncIterator[HookServer]:
    async with HookServer().running() as served:
        yield served


async def call(harness: ProgramHarness, tool: str, **arguments: Any) -> Json:
    """Call a tool over `/v1` and return its result."""
    assert harness.served is not None
    async with httpx2.AsyncClient(base_url=harness.served.url, verify=NO_TLS) as client:
        response = await client.post("/v1/tool_calls", json={"tool_calls": [{"name": tool, "arguments": arguments}]})
    answer: Json = response.json()
    return answer


async def is_failing(harness: ProgramHarness, name: str) -> bool:
    found: bool = (await harness.ready())["notify"][name]["state"] == "failing"
    return found


def kinds(hook: HookServer) -> list[str]:
    return [got.json["type"] for got in hook.received]


async def test_people_are_told_and_no_call_waits_for_it(harness: ProgramHarness, hook: HookServer) -> None:
    """E5, D9: a call is answered while the receiver still hangs; no argument is in what it gets; a change of the file
    counts at once; what is well or not stands in `/readyz` and the metrics."""
    to = {"name": "on-call", "url": f"{hook.url}/key-0123456789abcdef", "secret": SECRET, "grace": "10ms"}
    servers = {"crm": server(), "erp": server(enabled=False)}
    harness.write_config(servers, notify=[to])
    hook.answers = [hook.hang]
    async with harness.serving() as served:
        asked = await call(harness, "crm.wait", file=CANARY)
        assert "approval" in json.dumps(asked)
        await until(lambda: hook.received, "the receiver is told")
        assert not hook.released.is_set()
        limited = [await call(harness, "crm.who") for _ in range(2)]
        assert "limit_reached" in json.dumps(limited[1])
        assert (await harness.ready())["notify"]["on-call"]["waiting"] == 2
        hook.released.set()
        await until(lambda: len(hook.received) == 2)
        waits, reached = hook.received
        assert (waits.json["type"], reached.json["type"]) == ("approval.waiting", "limit.reached")
        assert waits.json["data"]["link"].startswith(f"{served.url}/console/approvals/")
        assert reached.json["data"]["rule_source"].endswith("main.yaml:8")
        assert is_ours(SECRET, waits)
        # A server that dies for good, and one receiver more.
        later = {"name": "later", "url": f"{hook.url}/later", "grace": "10ms", "events": ["server.down", "server.back"]}
        lost = {"name": "lost", "url": "http://127.0.0.1:1/", "grace": "10ms"}
        echo = {"name": "echo", "url": f"{hook.url}/key-fedcba9876543210", "events": ["approval.waiting"]}
        broken = {**servers, "erp": {"command": "no-such-program"}}
        await harness.reload(broken, "in effect: notify", notify=[to, later, lost, echo])
        await until(lambda: kinds(hook).count("server.down") == 2, "both are told")
        await harness.wait_for_log("lost (http://127.0.0.1:1/…) could not be told: nothing listens there")
        status = await run("status", "--url", served.url)
        assert (status.code, "Notices do not reach lost: nothing listens there." in status.out) == (1, True)
        # A receiver that repeats its address, which is a key to write there.
        hook.answers = [web.Response(status=404, text="no route key-fedcba9876543210") for _ in range(2)]
        await call(harness, "crm.wait", file="another")
        await until(lambda: is_failing(harness, "echo"))
        assert "key-fedcba9876543210" not in json.dumps(await harness.ready())
        await harness.reload({**servers, "erp": server()}, "server erp is connected anew", notify=[to, later])
        await until(lambda: kinds(hook).count("server.back") == 2, "both are told")
        async with httpx2.AsyncClient(verify=NO_TLS) as client:
            metrics = (await client.get(f"{served.url}/metrics")).text
        assert 'aggregator_notices_total{receiver="on-call",outcome="sent"} 4' in metrics
        served.process.send_signal(signal.SIGTERM)
        assert await harness.ended() == 0
    everything = b"".join(got.body for got in hook.received).decode() + harness.log
    assert CANARY not in everything
    assert SECRET not in everything
    assert "key-0123456789abcdef" not in harness.log


async def test_a_trial_says_what_came_back(harness: ProgramHarness, hook: HookServer) -> None:
    """F8: `aggregator notify test`, for one receiver and for all."""
    good = {"name": "good", "url": hook.url, "secret": SECRET}
    bad = {"name": "bad", "url": f"{hook.url}/T0/B0/very-secret-part-1", "format": "slack"}
    harness.write_config({"crm": server()}, notify=[good, bad, {"name": "worse"}])
    config = ("--config", str(harness.config))
    ended = await run("notify", "test", "good", *config)
    assert (ended.code, ended.out) == (0, f"good: told, {hook.url}/…: HTTP 204\n")
    assert "notify[2]: Expected either `url` or `command`" in ended.err
    assert is_ours(SECRET, hook.received[0])
    hook.answers = [web.Response(status=404, text="no_service"), web.Response(status=404, text="no_service")]
    ended = await run("notify", "test", "--json", *config)
    assert ended.code == 1
    found = {one["name"]: (one["accepted"], one["said"]) for one in json.loads(ended.out)}
    assert set(found) == {"good", "bad"}
    assert found["bad"] == (False, 'HTTP 404: "no_service"')
    assert "very-secret-part-1" not in ended.out + ended.err
    ended = await run("notify", "test", "nobody", *config)
    assert ended.code == 2
    assert "There is no receiver 'nobody' in `notify`; there are: good, bad." in ended.err
