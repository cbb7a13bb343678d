"""The path of `http.public_url`, with a proxy that takes it away and with one that passes it on."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from aggregator.accounts.connect.entry import CLIENT_PATH, CONNECT_PATH
from aggregator.config.settings import HttpConfig
from aggregator.frontends.console.parts import CONSOLE_PATH
from aggregator.frontends.server import HEALTH_PATHS, MESSAGES_PATH, SSE_PATH
from aggregator.frontends.v1.routes import V1_PATH
from aggregator.frontends.web.host_guard import RESOURCE_METADATA
from aggregator.frontends.web.metrics_page import METRICS_PATH
from aggregator.frontends.web.own_address import OWN_PATHS, OwnAddress
from tests.end_to_end.scripted_host import LEGACY, MODERN, NO_TLS, over_http, over_sse
from tests.operating.program_harness import ProgramHarness, server, words


def test_every_path_of_ours_is_known() -> None:
    named = {SSE_PATH, MESSAGES_PATH, V1_PATH, CONSOLE_PATH, METRICS_PATH, *HEALTH_PATHS}
    named |= {CONNECT_PATH, CLIENT_PATH.rpartition("/")[0]}
    assert set(OWN_PATHS) == named | {RESOURCE_METADATA.rpartition("/")[0]}


@pytest.mark.parametrize(
    ("public_url", "path", "passed_on"),
    [
        (None, "/mcp", None),
        ("https://tools.example.com", "/mcp", None),
        ("https://tools.example.com/", "/mcp", None),
        ("https://tools.example.com/ai", "/mcp", "/ai"),
        ("https://tools.example.com/ai/", "/mcp", "/ai"),
        ("https://tools.example.com/a/b", "/mcp", "/a/b"),
        # A path of ours begins with it: nobody could tell which is meant, and what was served stays so.
        ("https://tools.example.com/mcp", "/mcp", None),
        ("https://tools.example.com/ai", "/ai/mcp", None),
        ("https://tools.example.com/console", "/mcp", None),
        ("https://tools.example.com/v1", "/mcp", None),
        ("https://tools.example.com/mc", "/mcp", "/mc"),
    ],
)
def test_it_is_taken_away_unless_it_begins_a_path_of_ours(
    public_url: str | None, path: str, passed_on: str | None
) -> None:
    assert OwnAddress(HttpConfig(public_url=public_url, path=path)).passed_on == passed_on


async def test_hosts_reach_all_frontends_with_it_and_without(tmp_path: Path) -> None:
    harness = ProgramHarness(tmp_path)
    harness.write_config({"box": server()}, http={"public_url": "https://tools.example.com/ai"})
    async with harness.serving() as served:
        for base in (served.url, f"{served.url}/ai"):
            async with over_http(base, MODERN) as modern, over_http(base, LEGACY[0]) as legacy:
                for host in (modern, legacy, modern, legacy):
                    assert words(await host.call("box.who").result())
            async with httpx2.AsyncClient(verify=NO_TLS, base_url=base) as client:
                for page in ("/healthz", "/readyz", "/metrics", "/", "/console/sign-in", "/v1/openapi.json"):
                    assert (await client.get(page)).status_code == 200, (base, page)
                browsed = await client.get("", headers={"accept": "text/html"}, follow_redirects=True)
                assert str(browsed.url).startswith(f"{base}/console/")
                for page in ("/aix/mcp", "/ai/ai/mcp", "/other"):
                    assert (await client.post(page)).status_code == 404, (base, page)
        async with over_sse(served.url, LEGACY[0]) as host:
            assert words(await host.call("box.who").result())
        # The stream names the address for messages as its host has to write it.
        async with (
            httpx2.AsyncClient(verify=NO_TLS) as client,
            client.stream("GET", f"{served.url}/ai/sse", headers={"accept": "text/event-stream"}) as stream,
        ):
            announced = [line async for line in _first_lines(stream, 2)]
        assert any("/ai/messages" in line for line in announced), announced


async def _first_lines(stream: httpx2.Response, count: int) -> AsyncIterator[str]:
    async for line in stream.aiter_lines():
        yield line
        count -= 1
        if not count:
            return
