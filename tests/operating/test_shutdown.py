"""The end of the program: what runs is answered, what comes is refused, and nothing is left behind."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Final

import httpx2
import pytest

from tests.end_to_end.programs import until_ended
from tests.end_to_end.scripted_host import ACCEPT, BOUND, MODERN, NO_TLS, VERSIONS, ScriptedHost, over_http, over_sse
from tests.operating.program_harness import ProgramHarness, server, stdio_program, words
from tests.peers.processes import is_alive
from tests.peers.toolbox import Json
from tests.polling import until

LEGACY: Final = VERSIONS[0]
CLOSING: Final = -32000


async def process_of(host: ScriptedHost, tool: str) -> int:
    pid: int = json.loads(words(await host.call(tool).result()))["pid"]
    return pid


async def stopping(harness: ProgramHarness) -> None:
    """The program has taken note of the signal."""

    async def noted() -> bool:
        return (await harness.ready()).get("stopping") is True

    await until(noted, "it is stopping")


async def post(harness: ProgramHarness, path: str, message: Json) -> httpx2.Response:
    assert harness.served is not None
    async with httpx2.AsyncClient(base_url=harness.served.url, verify=NO_TLS) as client:
        return await client.post(path, json=message, headers=ACCEPT)


async def opening(harness: ProgramHarness, path: str) -> int:
    """The status of a stream that is opened."""
    assert harness.served is not None
    headers = {"accept": "text/event-stream"}
    async with (
        httpx2.AsyncClient(base_url=harness.served.url, verify=NO_TLS) as client,
        client.stream("GET", path, headers=headers) as response,
    ):
        return response.status_code


async def test_sigterm_answers_what_runs_and_refuses_what_comes(harness: ProgramHarness) -> None:
    """Proves: D11. At every frontend, with a time to come back; streams end as streams do; calls are on record.

    The list of tools is still given: clients of the official SDK ask for it to check a result that they have just got.
    """
    harness.write_config({"box": server()}, shutdown_timeout="1h")
    async with (
        harness.serving() as served,
        over_sse(served.url, LEGACY) as sse,
        over_http(served.url, MODERN) as modern,
    ):
        held = [harness.wait(sse, "box.wait", "one"), harness.wait(modern, "box.wait", "two")]
        for one in held:
            await one.wait_begun()
        listen = modern.ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        await modern.inbox.named("notifications/subscriptions/acknowledged")
        harness.signal(signal.SIGTERM)
        await stopping(harness)
        assert (await listen.result())["_meta"]["io.modelcontextprotocol/subscriptionId"] == listen.id
        refused = await sse.call("box.who").error()
        assert refused["code"] == CLOSING
        assert "shutting down" in refused["message"]
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": LEGACY}}
        call: Json = {"tool_call": {"name": "box.who", "arguments": {}}}
        batch: Json = {
            "content": [{"type": "tool_use", "id": one, "name": "box__who", "input": {}} for one in ("a", "b")]
        }
        for path, message in (("/mcp", hello), ("/v1/tool_calls", call), ("/v1/tool_calls", batch), ("/v1/intent", {})):
            response = await post(harness, path, message)
            assert response.status_code == 503
            assert int(response.headers["retry-after"]) > 0
            assert "shutting" in response.text
        for path in ("/mcp", "/sse"):
            # It would be held open until the end, which waits for what runs; a host would not look elsewhere.
            assert await opening(harness, path) == 503
        assert (await modern.call("box.who").error())["data"]["code"] == "shutting_down"
        for host in (sse, modern):
            assert "box.wait" in [tool["name"] for tool in (await host.ask("tools/list").result())["tools"]]
        for one in held:
            one.release()
        assert [words(await one.call.result()) for one in held] == ["waited", "waited"]
        assert await harness.ended() == 0
    assert " ERROR " not in harness.log
    told = [row for row in await harness.audit() if "status" in row]
    answered = [row["tool_name"] for row in told if row["status"] == "ok"]
    turned_away = [row["error_code"] for row in told if row["status"] == "unavailable"]
    assert (answered, turned_away) == (["box.wait"] * 2, ["shutting_down"] * 5)
    assert len(told) == len(answered) + len(turned_away)


async def test_what_does_not_end_in_time_is_answered_so(harness: ProgramHarness) -> None:
    """Proves: C4. That nobody knows what became of it; the program ends with 0."""
    harness.write_config({"box": server()}, shutdown_timeout="100ms")
    async with (
        harness.serving() as served,
        over_sse(served.url, LEGACY) as sse,
        over_http(served.url, MODERN) as modern,
    ):
        held = [harness.wait(sse, "box.wait", "one"), harness.wait(modern, "box.wait", "two")]
        for one in held:
            await one.wait_begun()
        pid = await process_of(sse, "box.who")
        harness.signal(signal.SIGTERM)
        for one in held:
            result = await one.call.result()
            assert result["_meta"]["aggregator/error"]["code"] == "outcome_unknown"
        assert await harness.ended() == 0
        await until_ended(pid)


async def test_a_second_signal_hurries_and_leaves_nothing(harness: ProgramHarness) -> None:
    """Proves: C3. It would take an hour, and a server that obeys nothing; the exit is clean all the same."""
    sidecar = harness.folder / "sidecar"
    harness.write_config({"box": server("--deaf", "--sidecar", str(sidecar))}, shutdown_timeout="1h")
    async with harness.serving() as served, over_sse(served.url, LEGACY) as host:
        held = harness.wait(host, "box.wait")
        await held.wait_begun()
        pids = [await process_of(host, "box.who"), _read(sidecar)]
        harness.signal(signal.SIGTERM)
        await stopping(harness)
        harness.signal(signal.SIGTERM)
        assert (await held.call.result())["_meta"]["aggregator/error"]["code"] == "outcome_unknown"
        assert await harness.ended() == 0
        await until_ended(*pids)


async def test_kill_9_leaves_no_server_behind_whatever_its_manners(harness: ProgramHarness) -> None:
    """Proves: C3. Neither one that ignores its stdin and signals, nor what it started in a session of its own."""
    sidecar = harness.folder / "sidecar"
    harness.write_config({"box": server("--deaf", "--sidecar", str(sidecar)), "polite": server()})
    async with harness.serving() as served:
        async with over_http(served.url, MODERN) as host:
            pids = [await process_of(host, "box.who"), await process_of(host, "polite.who"), _read(sidecar)]
        assert all(map(is_alive, pids))
        harness.signal(signal.SIGKILL)
        assert await harness.ended() == -signal.SIGKILL
        await until_ended(*pids)


@pytest.mark.parametrize("end", ["SIGTERM", "eof"])
async def test_the_stdio_frontend_drains_too(harness: ProgramHarness, end: str) -> None:
    """Proves: C3. The call that runs is answered, and after a signal what comes is refused; then nothing is left."""
    harness.write_config({"box": server()}, shutdown_timeout="1h")
    async with stdio_program(harness.config, LEGACY) as (process, host):
        await host.named("box__who")
        pid = await process_of(host, "box__who")
        held = harness.wait(host, "box__wait")
        await held.wait_begun()
        if end == "eof":
            process.stdin.write_eof()
        else:
            process.send_signal(signal.SIGTERM)

            async def refused() -> bool:
                message = await host.ask("prompts/list").message()
                return bool(message.get("error", {}).get("code") == CLOSING)

            await until(refused, "a refusal")
        held.release()
        assert words(await held.call.result()) == "waited"
        async with asyncio.timeout(BOUND):
            assert await process.wait() == 0
        await until_ended(pid)


async def test_a_host_that_is_gone_and_sends_a_signal_is_not_waited_for(harness: ProgramHarness) -> None:
    """Proves: C3. As the SDKs end their servers: stdin closed, then SIGTERM, and soon SIGKILL."""
    harness.write_config({"box": server()}, shutdown_timeout="1h")
    async with stdio_program(harness.config, LEGACY) as (process, host):
        await host.named("box__who")
        pid = await process_of(host, "box__who")
        held = harness.wait(host, "box__wait")
        await held.wait_begun()
        process.stdin.write_eof()
        process.send_signal(signal.SIGTERM)
        result = await held.call.result()
        assert result["_meta"]["aggregator/error"]["code"] == "outcome_unknown"
        async with asyncio.timeout(BOUND):
            assert await process.wait() == 0
        await until_ended(pid)


SCRIPT: Final = """
import asyncio
from aggregator.cli.runtime.signals import stop_on_signals

async def main():
    asked = asyncio.Event()
    stopping = stop_on_signals(print, asked.set)
    print("here", flush=True)
    ends = {asyncio.create_task(stopping.wait()): "stopping", asyncio.create_task(asked.wait()): "reading"}
    done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    print(*(ends[one] for one in done), flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize(("closed", "means"), [(True, "stopping"), (False, "reading")])
async def test_sighup_is_to_end_only_when_the_terminal_is_gone(closed: bool, means: str) -> None:
    """Whoever closes the window that the program runs in does not want it to read its configuration."""
    ours, terminal = os.openpty()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SCRIPT, stdin=terminal, stdout=asyncio.subprocess.PIPE, start_new_session=True
    )
    os.close(terminal)
    assert process.stdout is not None
    async with asyncio.timeout(BOUND):
        assert await process.stdout.readline() == b"here\n"
        if closed:
            os.close(ours)
        process.send_signal(signal.SIGHUP)
        assert (await process.stdout.read()).decode() == f"{means}\n"
        await process.wait()
    if not closed:
        os.close(ours)


def _read(path: Path) -> int:
    return int(path.read_text())
