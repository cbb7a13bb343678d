"""What goes with a server that is connected anew, and what needs none: the product in the loop of the test."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from aggregator.app.app import App
from aggregator.config.load import Loaded
from aggregator.config.model import Config, ServerConfig
from aggregator.domain.principal import LOCAL
from aggregator.redaction.redactor import Redactor
from tests.faults.raw_http import never, raw_http
from tests.faults.stage import Stage, server, until
from tests.passing.shelves import local
from tests.peers.library import FILE, Library
from tests.peers.toolbox import Json

BOUND = 10.0


class Edited(Stage):
    """A stage whose configuration changes when it is told so."""

    def __init__(self, app: App, loaded: Loaded) -> None:
        super().__init__(app)
        self.told: list[str] = []
        self.host.notify = lambda method, params: self.told.append(params.get("uri") or method)
        self._loaded = loaded
        self._applied = asyncio.Event()
        app.follow(loaded, lambda: self._loaded, lambda config: self._applied.set())

    async def edit(self, *servers: ServerConfig, **settings: Any) -> None:
        """From now on these are configured."""
        config = self._loaded.config.model_copy(update={"servers": servers, **settings})
        self._loaded = replace(self._loaded, config=config)
        self._applied.clear()
        self.app.reload()
        async with asyncio.timeout(BOUND):
            await self._applied.wait()


@asynccontextmanager
async def edited(*servers: ServerConfig, **settings: Any) -> AsyncIterator[Edited]:
    config = Config(servers=servers, startup_wait=0.1, **settings)
    app = App(config, redactor=Redactor())
    stage = Edited(app, Loaded(config, (), None, frozenset()))
    async with app.running():
        async with asyncio.timeout(BOUND):
            await app.supervisor.all_tried()
        yield stage


async def test_subscriptions_go_on_with_a_server_that_is_connected_anew() -> None:
    """Proves: D11. And end with one that is gone, of which nothing is told any more."""
    library = Library("box")
    box = server("box", type="local", **local(library))
    async with edited(box) as stage:
        uri = "file://box//notes/a.txt"
        assert await stage.ask("resources/subscribe", {"uri": uri}) == {}
        await stage.edit(box.model_copy(update={"heartbeat": 7.0}))
        await stage.link("box").agrees_to_tell(FILE, BOUND)
        stage.told.clear()
        await library.touch(FILE)
        await until(lambda: uri in stage.told, "the host hears of a change")
        await stage.edit()
        assert await stage.ask("resources/unsubscribe", {"uri": uri}) == {}
        assert stage.tools() == []


async def test_what_a_server_says_of_its_tools_counts_as_soon_as_it_is_trusted() -> None:
    """Proves: D11. On the same connection."""
    box = server("box", type="local", **local(Library("box")))
    async with edited(box) as stage:
        gateway, before = stage.app.gateway, stage.link("box")
        tool = gateway.catalog.tools[0]
        assert not gateway.views.of(LOCAL).read_only(tool)
        await stage.edit(box.model_copy(update={"trusted": True}))
        assert gateway.views.of(LOCAL).read_only(gateway.catalog.tools[0])
        assert stage.link("box") is before


async def test_a_call_that_outlasts_its_server_is_answered_so() -> None:
    """Proves: C4. Nobody knows what became of it; a call of the same name finds nothing any more."""
    box = server("box", type="local", target="tests.peers.sdk:build", timeout=600, max_timeout=600)
    async with edited(box, shutdown_timeout=0.1) as stage:
        held = asyncio.create_task(stage.call("box.hold", key="never"))
        await until(lambda: stage.link("box").in_flight, "the call runs")
        await stage.edit()
        async with asyncio.timeout(BOUND):
            result: Json = await held
        assert result["_meta"]["aggregator/error"]["code"] == "outcome_unknown"
        assert stage.tools() == []


async def test_editing_again_and_again_leaves_nothing_behind() -> None:
    """Proves: D11. Every call in between has its answer, and of what was replaced nothing is left."""
    box = server("box", type="local", **local(Library("box")))
    async with edited(box) as stage:
        before = len(asyncio.all_tasks())
        for number in range(1, 21):
            calls = [asyncio.create_task(stage.call("box.watched")) for _ in range(5)]
            await stage.edit(box.model_copy(update={"heartbeat": float(number)}))
            assert not [result for result in await asyncio.gather(*calls) if result.get("isError")]
        await until(lambda: len(asyncio.all_tasks()) <= before, "the old ones have ended")
        assert stage.app.supervisor.links.keys() == {"box"}


async def test_a_time_that_was_changed_holds_for_lists(caplog: pytest.LogCaptureFixture) -> None:
    """Proves: D11. Whatever part of a connection it is for, it needs no other one."""
    async with raw_http() as raw, edited(server("web", type="http", url=raw.url, connect_timeout=3600)) as stage:
        link = stage.link("web")
        await stage.edit(server("web", type="http", url=raw.url, connect_timeout=0.02))
        raw.on["tools/list"] = never
        async with asyncio.timeout(BOUND):
            await link.list_again()
        assert "its tools could not be listed, the old ones stay: no answer within 0.02 s" in caplog.text
        assert (link.state, link.reconnects) == ("ready", 0)
        assert stage.tools() == ["web.echo", "web.odd"]
