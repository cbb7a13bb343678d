"""The end of one process among several: hosts and load balancers are sent elsewhere before anything is refused."""

import asyncio
import signal
from pathlib import Path

import httpx2
import pytest

from tests.deploy.rolling_update import find_nginx, roll
from tests.end_to_end.scripted_host import LEGACY, MODERN, NO_TLS, over_http
from tests.operating.program_harness import ProgramHarness, server, words
from tests.polling import BOUND, until


@pytest.fixture
def harness(tmp_path: Path) -> ProgramHarness:
    return ProgramHarness(tmp_path)


async def leaving(harness: ProgramHarness) -> None:
    """The health page says that the process ends."""

    async def noted() -> bool:
        return (await harness.ready()).get("stopping") is True

    await until(noted, "it is leaving")


async def test_all_is_served_while_the_health_page_says_no(harness: ProgramHarness) -> None:
    """Proves: D11. On connections old and new, which end with their answer; a second signal ends the wait."""
    harness.write_config({"box": server()}, shutdown_delay="1h")
    async with harness.serving() as served:
        async with (
            over_http(served.url, LEGACY[0]) as before,
            over_http(served.url, MODERN) as modern,
            httpx2.AsyncClient(verify=NO_TLS, base_url=served.url) as client,
        ):
            for _ in range(3):
                assert words(await modern.call("box.who").result())
            idle = await client.get("/healthz")
            assert "connection" not in idle.headers
            held = harness.wait(before, "box.wait")
            await held.wait_begun()
            harness.signal(signal.SIGTERM)
            await leaving(harness)
            told = await client.get("/readyz")
            assert (told.status_code, told.json()["ready"], told.headers["connection"]) == (503, False, "close")
            alive = await client.get("/healthz")
            assert (alive.status_code, alive.headers["connection"]) == (200, "close")
            for host in (modern, modern, before):
                assert words(await host.call("box.who").result())
            async with over_http(served.url, LEGACY[0]) as late:
                assert words(await late.call("box.who").result())
            held.release()
            assert words(await held.call.result()) == "waited"
        harness.signal(signal.SIGTERM)
        assert await harness.ended() == 0
    assert " ERROR " not in harness.log
    assert {row["status"] for row in await harness.audit() if "status" in row} == {"ok"}


async def test_no_connection_is_taken_once_the_time_is_over(harness: ProgramHarness) -> None:
    """A proxy that gets none asks another process; a call that runs is still answered."""
    harness.write_config({"box": server()}, shutdown_delay="100ms", shutdown_timeout="1h")
    async with harness.serving() as served, over_http(served.url, MODERN) as host:
        held = harness.wait(host, "box.wait")
        await held.wait_begun()
        harness.signal(signal.SIGTERM)
        port = httpx2.URL(served.url).port

        async def refused() -> bool:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionRefusedError:
                return True
            writer.close()
            return False

        await until(refused, "the port is closed")
        held.release()
        assert words(await held.call.result()) == "waited"
        assert await harness.ended() == 0


@pytest.mark.parametrize(
    "request_",
    [b"GET /healthz HTTP/1.0\r\n\r\n", b"GET /healthz HTTP/1.1\r\nconnection: close\r\n\r\n"],
)
async def test_probes_need_no_host(harness: ProgramHarness, request_: bytes) -> None:
    harness.write_config({})
    async with harness.serving() as served:
        for page, status in ((b"/healthz", b"200"), (b"/readyz", b"200"), (b"/mcp", b"421")):
            reader, writer = await asyncio.open_connection("127.0.0.1", httpx2.URL(served.url).port)
            writer.write(request_.replace(b"/healthz", page))
            async with asyncio.timeout(BOUND):
                answer = await reader.read()
            assert answer.split(b" ")[1] == status, answer
            writer.close()


@pytest.mark.slow
@pytest.mark.skipif(find_nginx() is None, reason="nginx is not installed: no proxy to restart gateways behind")
async def test_no_call_fails_while_gateways_behind_a_proxy_are_restarted(tmp_path: Path) -> None:
    """Proves: D11. nginx as it comes, which asks no health page, passes requests to two of them in turn."""
    outcome = await roll(tmp_path, restarts=4)
    assert not outcome.failures, outcome.said
    assert outcome.restarts == 4
    assert outcome.answered > 100
