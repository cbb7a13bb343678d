"""`/metrics`: who may read it, and what it says of itself."""

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

import httpx2
import pytest

from aggregator.app.build import build_app
from aggregator.config.load import load
from aggregator.frontends.server import WebServer
from aggregator.frontends.web.metrics_page import MetricsText
from aggregator.identity.keys import new_key, policy_line
from aggregator.telemetry.metrics import Metrics
from tests.telemetry.call_records import SNAPSHOT, call

HERE, ELSEWHERE = "127.0.0.1", "203.0.113.5"
KEYS: Final = {agent: new_key(agent, now=time.time()) for agent in ("shop", "prometheus")}
POLICIES: Final = {
    "roles": {"metrics": {}},
    "agents": {
        "shop": {"allow": ["*"], "keys": [policy_line(KEYS["shop"].record)]},
        "prometheus": {"roles": ["metrics"], "keys": [policy_line(KEYS["prometheus"].record)]},
    },
}

COUNTED: Final = Metrics(lambda: SNAPSHOT)
COUNTED(call())


async def harness(folder: Path, policies: object = None, page: MetricsText | None = COUNTED.page) -> WebServer:
    """Run the web frontends of an application without servers."""
    config = folder / "aggregator.json"
    config.write_text('{"mcpServers": {}}')
    if policies is not None:
        (folder / "policies").mkdir()
        (folder / "policies" / "all.yaml").write_text(json.dumps(policies))
    app = build_app(load(config, {}).config, folder / "policies")
    await app.load_keys()
    return WebServer(app.gateway, app.config, app.access, app.report, page)


async def ask(
    web: WebServer, peer: str, agent: str | None = None, method: str = "GET", **headers: str
) -> httpx2.Response:
    transport = httpx2.ASGITransport(cast(Any, web.app), client=(peer, 4242))
    if agent is not None:
        headers["authorization"] = f"Bearer {KEYS[agent].text}"
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        return await client.request(method, "/metrics", headers=headers)


async def test_this_machine_reads_without_a_key(tmp_path: Path) -> None:
    """Proves: D9. In the type that Prometheus asks for, and not kept by anyone on the way."""
    response = await ask(await harness(tmp_path), HERE)
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert response.headers["cache-control"] == "no-store"
    line = 'aggregator_calls_total{server="weather",tool="weather.get_forecast",agent="shop",status="ok"} 1\n'
    assert line in response.text


@pytest.mark.parametrize("peer", [HERE, ELSEWHERE])
async def test_this_machine_reads_with_policies_too(tmp_path: Path, peer: str) -> None:
    """Proves: D9, D4. Elsewhere a key is asked for."""
    response = await ask(await harness(tmp_path, POLICIES), peer)
    assert response.status_code == (200 if peer == HERE else 401)


async def test_a_key_with_the_role_reads_from_elsewhere(tmp_path: Path) -> None:
    """Proves: D4. An ordinary agent's key does not: the page names what that agent may not know of."""
    web = await harness(tmp_path, POLICIES)
    assert (await ask(web, ELSEWHERE, "prometheus")).status_code == 200
    refused = await ask(web, ELSEWHERE, "shop")
    assert refused.status_code == 403
    assert "weather" not in refused.text


@pytest.mark.parametrize("name", ["X-Forwarded-For", "Forwarded", "Via", "X-Real-IP"])
async def test_a_proxy_on_this_machine_is_not_this_machine(tmp_path: Path, name: str) -> None:
    """Proves: D4. It speaks for somebody else, who needs a key."""
    web = await harness(tmp_path, POLICIES)
    assert (await ask(web, HERE, **{name: "for=203.0.113.5"})).status_code == 401
    assert (await ask(web, HERE, "prometheus", **{name: "for=203.0.113.5"})).status_code == 200


async def test_without_policies_only_this_machine_reads(tmp_path: Path) -> None:
    web = await harness(tmp_path)
    assert (await ask(web, ELSEWHERE)).status_code == 403
    assert (await ask(web, HERE, Via="1.1 proxy")).status_code == 403


async def test_other_methods(tmp_path: Path) -> None:
    web = await harness(tmp_path)
    assert (await ask(web, HERE, method="POST")).status_code == 405
    head = await ask(web, HERE, method="HEAD")
    assert (head.status_code, head.content) == (200, b"")


async def test_without_metrics_there_is_no_page(tmp_path: Path) -> None:
    assert (await ask(await harness(tmp_path, page=None), HERE)).status_code == 404


async def test_calls_have_their_turn_between_two_pieces(tmp_path: Path) -> None:
    """Proves: D9. A large page does not keep the loop to itself."""
    turns: list[str] = []

    def page() -> Iterator[bytes]:
        for _ in range(3):
            turns.append("piece")
            yield b"# piece\n"

    async def call_after_call() -> None:
        while turns.count("piece") < 3:
            if turns and turns[-1] == "piece":
                turns.append("call")
            await asyncio.sleep(0)

    calls = asyncio.create_task(call_after_call())
    assert (await ask(await harness(tmp_path, page=page), HERE)).text == "# piece\n" * 3
    await calls
    assert turns == ["piece", "call", "piece", "call", "piece"]
