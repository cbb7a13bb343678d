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

from tests.journeys.hosts import ACCEPT, BOUND, MODERN, NO_TLS, VERSIONS, Host, over_http, over_sse
from tests.journeys.programs import gone, is_alive
from tests.operating.place import Place, server, started_by, until, words
from tests.peers.toolbox import Json

LEGACY: Final = VERSIONS[0]
CLOSING: Final = -32000


async def who(host: Host, tool: str) -> int:
    pid: int = json.loads(words(await host.call(tool).result()))["pid"]
    return pid


async def stopping(place: Place) -> None:
    """The program has taken note of the signal."""

    async def noted() -> bool:
        return (await place.ready()).get("stopping") is True

    await until(noted, "it is stopping")


async def post(place: Place, path: str, message: Json) -> httpx2.Response:
    assert place.served is not None
    async with httpx2.AsyncClient(base_url=place.served.url, verify=NO_TLS) as client:
        return await client.post(path, json=message, headers=ACCEPT)


async def opening(place: Place, path: str) -> int:
    """The status of a stream that is opened."""
    assert place.served is not None
    headers = {"accept": "text/event-stream"}
    async with (
        httpx2.AsyncClient(base_url=place.served.url, verify=NO_TLS) as client,
        client.stream("GET", path, headers=headers) as response,
    ):
        return response.status_code


async def test_sigterm_answers_what_runs_and_refuses_what_comes(place: Place) -> None:
    """Proves: D11. At every door, with a time to come back; streams end as streams do; calls are on record.

    The list of tools is still given: clients of the official SDK ask for it to check a result that they have just got.
    """
    place.put({"box": server()}, shutdown_timeout="1h")
    async with place.serving() as served, over_sse(served.url, LEGACY) as sse, over_http(served.url, MODERN) as modern:
        held = [place.wait(sse, "box.wait", "one"), place.wait(modern, "box.wait", "two")]
        for one in held:
            await one.begun()
        listen = modern.ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        await modern.inbox.named("notifications/subscriptions/acknowledged")
        place.signal(signal.SIGTERM)
        await stopping(place)
        assert (await listen.result())["_meta"]["io.modelcontextprotocol/subscriptionId"] == listen.id
        refused = await sse.call("box.who").error()
        assert refused["code"] == CLOSING
        assert "shutting down" in refused["message"]
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": LEGACY}}
        for path, message in (("/mcp", hello), ("/v1/tool_calls", {"name": "box.who", "arguments": {}})):
            response = await post(place, path, message)
            assert response.status_code == 503
            assert int(response.headers["retry-after"]) > 0
            assert "shutting" in response.text
        for path in ("/mcp", "/sse"):
            # It would be held open until the end, which waits for what runs; a host would not look elsewhere.
            assert await opening(place, path) == 503
        assert (await modern.call("box.who").error())["data"]["code"] == "shutting_down"
        for host in (sse, modern):
            assert "box.wait" in [tool["name"] for tool in (await host.ask("tools/list").result())["tools"]]
        for one in held:
            one.let_go()
        assert [words(await one.call.result()) for one in held] == ["waited", "waited"]
        assert await place.ended() == 0
    assert " ERROR " not in place.log
    told = [row for row in await place.audit() if "status" in row]
    answered = [row["tool_name"] for row in told if row["status"] == "ok"]
    turned_away = [row["error_code"] for row in told if row["status"] == "unavailable"]
    assert (answered, turned_away) == (["box.wait"] * 2, ["shutting_down"] * 2)
    assert len(told) == len(answered) + len(turned_away)


async def test_what_does_not_end_in_time_is_answered_so(place: Place) -> None:
    """Proves: C4. That nobody knows what became of it; the program ends with 0."""
    place.put({"box": server()}, shutdown_timeout="100ms")
    async with place.serving() as served, over_sse(served.url, LEGACY) as sse, over_http(served.url, MODERN) as modern:
        held = [place.wait(sse, "box.wait", "one"), place.wait(modern, "box.wait", "two")]
        for one in held:
            await one.begun()
        pid = await who(sse, "box.who")
        place.signal(signal.SIGTERM)
        for one in held:
            result = await one.call.result()
            assert result["_meta"]["aggregator/error"]["code"] == "outcome_unknown"
        assert await place.ended() == 0
        await gone(pid)


async def test_a_second_signal_hurries_and_leaves_nothing(place: Place) -> None:
    """Proves: C3. It would take an hour, and a server that obeys nothing; the exit is clean all the same."""
    sidecar = place.folder / "sidecar"
    place.put({"box": server("--deaf", "--sidecar", str(sidecar))}, shutdown_timeout="1h")
    async with place.serving() as served, over_sse(served.url, LEGACY) as host:
        held = place.wait(host, "box.wait")
        await held.begun()
        pids = [await who(host, "box.who"), _read(sidecar)]
        place.signal(signal.SIGTERM)
        await stopping(place)
        place.signal(signal.SIGTERM)
        assert (await held.call.result())["_meta"]["aggregator/error"]["code"] == "outcome_unknown"
        assert await place.ended() == 0
        await gone(*pids)


async def test_kill_9_leaves_no_server_behind_whatever_its_manners(place: Place) -> None:
    """Proves: C3. Neither one that ignores its stdin and signals, nor what it started in a session of its own."""
    sidecar = place.folder / "sidecar"
    place.put({"box": server("--deaf", "--sidecar", str(sidecar)), "polite": server()})
    async with place.serving() as served:
        async with over_http(served.url, MODERN) as host:
            pids = [await who(host, "box.who"), await who(host, "polite.who"), _read(sidecar)]
        assert all(map(is_alive, pids))
        place.signal(signal.SIGKILL)
        assert await place.ended() == -signal.SIGKILL
        await gone(*pids)


@pytest.mark.parametrize("end", ["SIGTERM", "eof"])
async def test_the_stdio_door_drains_too(place: Place, end: str) -> None:
    """Proves: C3. The call that runs is answered, and after a signal what comes is refused; then nothing is left."""
    place.put({"box": server()}, shutdown_timeout="1h")
    async with started_by(place.config, LEGACY) as (process, host):
        await host.named("box__who")
        pid = await who(host, "box__who")
        held = place.wait(host, "box__wait")
        await held.begun()
        if end == "eof":
            process.stdin.write_eof()
        else:
            process.send_signal(signal.SIGTERM)

            async def refused() -> bool:
                message = await host.ask("prompts/list").message()
                return bool(message.get("error", {}).get("code") == CLOSING)

            await until(refused, "a refusal")
        held.let_go()
        assert words(await held.call.result()) == "waited"
        async with asyncio.timeout(BOUND):
            assert await process.wait() == 0
        await gone(pid)


async def test_a_host_that_is_gone_and_sends_a_signal_is_not_waited_for(place: Place) -> None:
    """Proves: C3. As the SDKs end their servers: stdin closed, then SIGTERM, and soon SIGKILL."""
    place.put({"box": server()}, shutdown_timeout="1h")
    async with started_by(place.config, LEGACY) as (process, host):
        await host.named("box__who")
        pid = await who(host, "box__who")
        held = place.wait(host, "box__wait")
        await held.begun()
        process.stdin.write_eof()
        process.send_signal(signal.SIGTERM)
        result = await held.call.result()
        assert result["_meta"]["aggregator/error"]["code"] == "outcome_unknown"
        async with asyncio.timeout(BOUND):
            assert await process.wait() == 0
        await gone(pid)


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
