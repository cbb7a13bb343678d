"""`expose: auto` does not depend on who is away, and the short list is the same bytes through outages and restarts."""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.app import catalog_sync
from aggregator.app.app import App
from aggregator.app.build import build_app
from aggregator.app.catalog_sync import fingerprint
from aggregator.domain.text.tokens import estimate
from aggregator.frontends.server import WebServer
from aggregator.storage.quick_read import glance
from aggregator.upstream.lifecycle.states import State
from aggregator.wire.codec import encode
from tests.access.gateway_harness import LEGACY, MODERN, GatewayHarness, make_config, tool
from tests.end_to_end.server_harness import ServerHarness, local_entry, write_config
from tests.faults.test_cached_catalog import GatedServer
from tests.meta.conftest import SERVERS, TOOLS, OpenHarness
from tests.meta.test_exposure import ALL, META, names
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json
from tests.polling import until

COST = sum(estimate(encode(one).decode()) for tools in TOOLS.values() for one in tools)


@pytest.mark.parametrize("state", ["unavailable", "reconnecting", "starting", "stopped"])
@pytest.mark.parametrize("away", ["git", "maps"])
async def test_the_tools_of_absent_servers_count(open_harness: OpenHarness, away: str, state: str) -> None:
    """Proves: F5, D3. What is known of a server is listed, and counts for `auto`, in every state of it."""
    for budget, expected in ((COST * 3 // 4, META), (COST * 4, ALL)):
        async with open_harness(down={away: state}, expose="auto", expose_budget=budget, startup_wait=0.01) as harness:
            for version in (LEGACY, MODERN):
                assert names(await harness.listed(harness.host("local", version))) == expected


async def test_one_that_is_switched_off_does_not_count(open_harness: OpenHarness) -> None:
    """Proves: F5. It is not away: it is not to be there."""
    async with open_harness(down={"git": "disabled"}, expose="auto", expose_budget=COST * 3 // 4) as harness:
        assert names(await harness.listed(harness.host("local"))) == ["maps.get_weather", "maps.drive"]


async def test_only_what_the_agent_might_call_counts(open_harness: OpenHarness) -> None:
    """Proves: F5, D9. A server it may not use changes nothing for an agent, be it there or away."""
    policies = {"agents": {"a": {"allow": ["maps.*"]}, "b": {"allow": ["*"]}}}
    for down in ({}, {"git": "unavailable"}):
        async with open_harness(policies, down=down, expose="auto", expose_budget=COST * 3 // 4) as harness:
            assert names(await harness.listed(harness.host("a"))) == ["maps.get_weather", "maps.drive"]
            assert names(await harness.listed(harness.host("b"))) == META


async def test_long_lists_are_worked_out_ahead_for_their_reader(open_harness: OpenHarness) -> None:
    """Proves: F5, E1. What `prepare` has made is what `listing` returns, also where there are no policies."""
    many = {"maps": [tool(f"place_{n}") for n in range(300)]}
    async with open_harness(tools=many, servers={"maps": SERVERS["maps"]}, expose="auto") as harness:
        gateway, host = harness.app.gateway, harness.host("local")
        await gateway._host_lists.prepare(host)
        view, exposure = gateway.views.of(host.principal), gateway._exposure
        whole = gateway.views.listing(view, gateway.catalog)
        assert exposure.is_ready(view, whole, "auto")
        kept = exposure._kept.peek((view.key, "auto"))
        assert kept is not None
        assert exposure.listing(view, whole, "auto") is kept.listed
        assert exposure.costs().keys() == {"local"}


@settings(max_examples=15, deadline=None)
@given(st.permutations(["maps", "git", "shop"]), st.lists(st.sampled_from(["maps", "git", "shop"]), max_size=6))
def test_the_order_of_arrival_is_not_seen(order: Sequence[str], dying: Sequence[str]) -> None:
    """Proves: F5. The order in which servers come up, go and come back does not change a byte of either list."""
    tools = {**TOOLS, "shop": [tool("buy")]}
    servers = {**SERVERS, "shop": {"command": "never"}}

    async def lists(budget: int, order: Sequence[str], dying: Sequence[str]) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            config = make_config(Path(folder), servers, expose="auto", expose_budget=budget)
            harness = GatewayHarness(config, tools, down=dict.fromkeys(servers, "unavailable"))
            states = {name: upstream.lifecycle for name, upstream in harness.app.upstreams.items()}
            for name in (*order, *(one for one in dying for one in (f"-{one}", one))):
                current = states[name.lstrip("-")].current
                state: State = "unavailable" if name.startswith("-") else "ready"
                states[name.lstrip("-")].current = type(current)(state, since=current.since)
                harness.app.updates.rebuild()
                if budget < COST:
                    assert names(await harness.listed(harness.host("local"))) == META
            found = encode(await harness.listed(harness.host("local")))
            await harness.close()
            return found

    for budget in (COST // 2, COST * 4):
        assert asyncio.run(lists(budget, order, dying)) == asyncio.run(lists(budget, ["maps", "git", "shop"], ()))


def entry(gated: GatedServer) -> Json:
    """The gated server as an operator writes it."""
    config = gated.config(limits={"grace": 0.03, "reconnect_wait": 0.01})
    fields = ("command", "args", "protocol", "timeout")
    limits = config.limits.model_dump(exclude_unset=True)
    return {**{field: getattr(config, field) for field in fields}, "env": dict(config.env), "limits": limits}


class KeepingHarness(ServerHarness):
    """A `ServerHarness` that keeps the lists of servers, as `serve` does."""

    def build_app(self) -> tuple[App, WebServer]:
        app = build_app(self.config, self._policies, self._storage, keeps_records=True)
        return app, WebServer(app.gateway, self.config, app.access, app.report)


@pytest.mark.parametrize("expose", ["auto", "all"])
async def test_a_server_that_dies_changes_no_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expose: str) -> None:
    """Proves: F5, D3. Over HTTP: before it dies, while it is away, and after a restart at which it cannot start; a call
    is answered with the reason, and the whole list is the same bytes too.
    """
    monkeypatch.setattr(catalog_sync, "COALESCE", 0.01)
    gated = GatedServer(tmp_path)
    gated.has("echo", "hang", "leave", *({**tool(f"buy_{n}"), "description": f"Buy {n}."} for n in range(60)))
    gated.open()
    settings = {"expose": expose, "expose_budget": 2_000, "pinned": ["here.echo"], "storage": gated.storage}
    path = write_config(tmp_path, {"shop": entry(gated), "here": local_entry()}, **settings)
    seen: list[bytes] = []
    for dying in (True, False):
        with BackgroundLoop() as background:
            running = KeepingHarness(background, path, storage=gated.storage)
            async with running.host("http", MODERN) as host, running.host("sse", LEGACY) as older:
                seen += [encode(await one.list()) for one in (host, older)]
                if dying:
                    mark = fingerprint(running.app.upstreams["shop"].config)
                    await until(lambda: glance(gated.database, [mark]), "its list is kept")  # noqa: B023
                    gated.open("no")
                    await host.call("shop.leave").result()
                shop = running.app.upstreams["shop"]
                await until(lambda: shop.state == "unavailable", "it is away")  # noqa: B023
                assert shop.listed
                seen += [encode(await one.list()) for one in (host, older)]
                refused = await host.call("shop.buy_1").result()
                assert refused["_meta"]["aggregator/error"]["code"] == "upstream_unavailable"
    assert len(set(seen)) == 1
    assert (b'"search_tools"' in seen[0]) == (expose == "auto")
    assert (b"buy_1" in seen[0]) == (expose == "all")


async def test_a_server_that_is_away_counts_after_it_was_configured_anew(open_harness: OpenHarness) -> None:
    """Proves: F5, D3. The upstream that takes its place knows its tools, and shows them."""
    async with (
        open_harness(down={"git": "unavailable"}) as before,
        open_harness(down={"git": "starting"}, tools={}) as after,
    ):
        anew = after.app.upstreams["git"]
        anew.replace(before.app.upstreams["git"])
        assert anew.definitions == TOOLS["git"]
        assert anew.listed
