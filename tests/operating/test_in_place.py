"""What goes with a server that is connected anew, and what needs none: the product in the loop of the test."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from aggregator.app.app import App
from aggregator.app.build import build_app
from aggregator.app.reload.config_reload import ConfigSource
from aggregator.config.difference import difference
from aggregator.config.load import Loaded, load_mapping
from aggregator.config.model import Config
from aggregator.config.server_config import ServerConfig
from aggregator.config.server_parts import LimitsConfig
from aggregator.domain.principal import LOCAL
from aggregator.redaction.redactor import Redactor
from tests.faults.app_harness import AppHarness, server_config
from tests.faults.raw_http import never, raw_http
from tests.passthrough.upstreams import local
from tests.peers.fake_connection import FakeConnection
from tests.peers.library import FILE, Library
from tests.peers.toolbox import Json
from tests.polling import until

BOUND = 10.0


class EditedFiles:
    """The configuration as its files have it. `applied` is set once a changed one is in force."""

    def __init__(self, loaded: Loaded) -> None:
        self.loaded = loaded
        self.applied = asyncio.Event()


class EditableHarness(AppHarness):
    """An application whose configuration a test replaces."""

    def __init__(self, app: App, files: EditedFiles) -> None:
        super().__init__(app)
        self.notified: list[str] = []
        self.host.connection = FakeConnection(lambda method, params: self.notified.append(params.get("uri") or method))
        self._files = files

    async def edit(self, *servers: ServerConfig, **settings: Any) -> None:
        """Replace the configured servers, reload, and wait until they are in force."""
        files = self._files
        config = files.loaded.config.model_copy(update={"servers": servers, **settings})
        files.loaded = replace(files.loaded, config=config)
        files.applied.clear()
        self.app.reload()
        async with asyncio.timeout(BOUND):
            await files.applied.wait()


@asynccontextmanager
async def editable_app(*servers: ServerConfig, **settings: Any) -> AsyncIterator[EditableHarness]:
    config = Config(servers=servers, startup_wait=0.1, **settings)
    files = EditedFiles(Loaded(config, (), None, frozenset()))
    source = ConfigSource(files.loaded, lambda: files.loaded, lambda config: files.applied.set())
    app = build_app(config, redactor=Redactor(), source=source)
    harness = EditableHarness(app, files)
    async with app.running():
        async with asyncio.timeout(BOUND):
            await app.supervisor.wait_all_tried()
        yield harness


async def test_subscriptions_go_on_with_a_server_that_is_connected_anew() -> None:
    """Proves: D11. And end with one that is gone, of which nothing is told any more."""
    library = Library("box")
    toolbox = server_config("box", type="local", **local(library))
    async with editable_app(toolbox) as harness:
        uri = "file://box//notes/a.txt"
        assert await harness.ask("resources/subscribe", {"uri": uri}) == {}
        await harness.edit(toolbox.model_copy(update={"limits": LimitsConfig(max_message_bytes=7_000_000)}))
        await harness.upstream("box").wait_subscribed(FILE, BOUND)
        harness.notified.clear()
        await library.touch(FILE)
        await until(lambda: uri in harness.notified, "the host hears of a change")
        await harness.edit()
        assert await harness.ask("resources/unsubscribe", {"uri": uri}) == {}
        assert harness.tools() == []


async def restart(harness: EditableHarness) -> None:
    harness.app.servers.restart_server("box", "an operator")


async def switch_off_and_on(harness: EditableHarness) -> None:
    assert harness.app.servers.switch_server_off("box", "an operator")
    assert [tool for tool in harness.tools() if tool.startswith("box.")] == []
    await until(lambda: not harness.app.supervisor.upstreams.leaving, "its connection is closed")  # type: ignore[attr-defined]
    assert harness.app.servers.switch_server_on("box", "an operator")


@pytest.mark.parametrize("act", [restart, switch_off_and_on])
async def test_subscriptions_go_on_with_a_server_that_an_operator_starts_anew(
    act: Callable[[EditableHarness], Awaitable[None]],
) -> None:
    library = Library("box")
    async with editable_app(server_config("box", type="local", **local(library))) as harness:
        uri = "file://box//notes/a.txt"
        assert await harness.ask("resources/subscribe", {"uri": uri}) == {}
        await act(harness)
        await until(lambda: harness.upstream("box").state == "ready", "it is connected")
        await harness.upstream("box").wait_subscribed(FILE, BOUND)
        harness.notified.clear()
        await library.touch(FILE)
        await until(lambda: uri in harness.notified, "the host hears of a change")


@pytest.mark.parametrize("act", [restart, switch_off_and_on])
async def test_a_server_that_waits_for_its_first_call_is_started_by_an_operator(
    act: Callable[[EditableHarness], Awaitable[None]],
) -> None:
    """E5: who starts a server wants to see whether it comes up."""
    async with editable_app(server_config("box", type="local", start="on_call", **local(Library("box")))) as harness:
        await until(lambda: harness.upstream("box").state == "stopped", "its tools are listed")
        await act(harness)
        await until(lambda: harness.upstream("box").state == "ready", "it is connected")


async def test_the_last_words_of_a_server_end_with_its_configuration() -> None:
    """D9: another server of that name says nothing of it."""
    box, other = (server_config(name, type="local", **local(Library(name))) for name in ("box", "other"))
    async with editable_app(box, other) as harness:
        for name in ("box", "other"):
            harness.upstream(name).stderr_tail.add("words")
        await harness.edit(other)
        await harness.edit(box, other)
        assert not len(harness.upstream("box").stderr_tail)
        assert len(harness.upstream("other").stderr_tail) == 1


async def test_what_a_server_says_of_its_tools_counts_as_soon_as_it_is_trusted() -> None:
    """Proves: D11. On the same connection."""
    toolbox = server_config("box", type="local", **local(Library("box")))
    async with editable_app(toolbox) as harness:
        gateway, before = harness.app.gateway, harness.upstream("box")
        tool = gateway.catalog.tools[0]
        assert not gateway.views.of(LOCAL).read_only(tool)
        await harness.edit(toolbox.model_copy(update={"trusted": True}))
        assert gateway.views.of(LOCAL).read_only(gateway.catalog.tools[0])
        assert harness.upstream("box") is before


async def test_a_call_that_outlasts_its_server_is_answered_so(caplog: pytest.LogCaptureFixture) -> None:
    """Proves: C4. Nobody knows what became of it; a call of the same name finds nothing any more. The log says it."""
    toolbox = server_config(
        "box", type="local", target="tests.peers.sdk:build", timeout=600, limits={"max_timeout": 600}
    )
    async with editable_app(toolbox, shutdown_timeout=0.1) as harness:
        held = asyncio.create_task(harness.call("box.hold", key="never"))
        await until(lambda: harness.upstream("box").in_flight, "the call runs")
        await harness.edit()
        async with asyncio.timeout(BOUND):
            result: Json = await held
        assert result["_meta"]["aggregator/error"]["code"] == "outcome_unknown"
        assert harness.tools() == []
        assert "server box is stopped with 1 calls under way" in caplog.messages


async def test_editing_again_and_again_leaves_nothing_behind() -> None:
    """Proves: D11. Every call in between has its answer, and of what was replaced nothing is left."""
    toolbox = server_config("box", type="local", **local(Library("box")))
    async with editable_app(toolbox) as harness:
        before = len(asyncio.all_tasks())
        for number in range(1, 21):
            calls = [asyncio.create_task(harness.call("box.watched")) for _ in range(5)]
            await harness.edit(
                toolbox.model_copy(update={"limits": LimitsConfig(max_message_bytes=1_000_000 * number)})
            )
            assert not [result for result in await asyncio.gather(*calls) if result.get("isError")]
        await until(lambda: len(asyncio.all_tasks()) <= before, "the old ones have ended")
        assert harness.app.supervisor.upstreams.keys() == {"box"}


async def test_a_time_that_was_changed_holds_for_lists(caplog: pytest.LogCaptureFixture) -> None:
    """Proves: D11. Whatever part of a connection it is for, it needs no other one."""
    async with (
        raw_http() as raw,
        editable_app(server_config("web", type="http", url=raw.url, limits={"connect_timeout": 3600})) as harness,
    ):
        upstream = harness.upstream("web")
        await harness.edit(server_config("web", type="http", url=raw.url, limits={"connect_timeout": 0.02}))
        raw.on["tools/list"] = never
        async with asyncio.timeout(BOUND):
            await upstream.read_tools_again()
        assert "its tools could not be listed, the old ones stay: no answer within 0.02 s" in caplog.text
        assert (upstream.state, upstream.reconnects) == ("ready", 0)
        assert harness.tools() == ["web.echo", "web.odd"]


def test_a_wrong_entry_that_is_taken_out_or_put_right_is_a_change() -> None:
    """Hosts are told no longer that it is left out, though nothing else differs."""
    wrong, good = {"b": {"command": "x", "auth": "y"}}, {"a": {"command": "x"}}
    old, gone, mended = (
        load_mapping({"mcpServers": {**good, **more}}, {}).config for more in (wrong, {}, {"b": {"command": "x"}})
    )
    taken = difference(old, gone)
    assert taken
    assert taken.config.left_out == ()
    assert list(taken.lines()) == ["other entries are left out than before"]
    assert difference(old, mended).added == ("b",)
    assert not difference(old, old.all_started().model_copy(update={"servers": old.servers}))
