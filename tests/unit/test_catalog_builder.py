"""The catalog builder: a catalog of what is shown now, validated once per change; one bad server costs only itself."""

import asyncio
from typing import Any

import pytest

from aggregator.catalog import validate as vet_module
from aggregator.config.server_config import ServerConfig
from aggregator.domain.bounds.slices import Slices, Steps
from aggregator.domain.records import ToolRecord
from aggregator.gateway.views import catalog_builder as shelf_module
from aggregator.gateway.views.catalog_builder import CatalogBuilder
from aggregator.upstream.lifecycle.states import StateAndReason
from aggregator.upstream.process.reaper_pipe import Reaper
from aggregator.upstream.upstream import Upstream

from .strategies import SilentObserver, server, tool

BOUND = 5


def _upstreams(*names: str) -> dict[str, Upstream]:
    """Return upstreams that were never run, ready with one tool each."""
    upstreams = {name: Upstream(server(name), Reaper(), SilentObserver(), Slices()) for name in names}
    for upstream in upstreams.values():
        upstream.lifecycle.current = StateAndReason("ready")
        upstream.definitions = [tool("t")]
    return upstreams


def _builder(upstreams: dict[str, Upstream]) -> CatalogBuilder:
    return CatalogBuilder(upstreams, upstreams, 47)


async def test_only_what_is_shown_is_listed_in_config_order() -> None:
    """Proves: C17, C4"""
    upstreams = _upstreams("b", "a", "c")
    builder = _builder(upstreams)
    assert [record.name for record in builder.tools().tools] == ["b.t", "a.t", "c.t"]
    upstreams["a"].lifecycle.current = StateAndReason("unavailable")
    upstreams["c"].lifecycle.current = StateAndReason("reconnecting")
    assert [record.name for record in builder.tools().tools] == ["b.t", "c.t"]
    upstreams["a"].lifecycle.known = True
    assert [record.name for record in builder.tools().tools] == ["b.t", "a.t", "c.t"]


async def test_a_list_is_validated_once_per_change(monkeypatch: pytest.MonkeyPatch) -> None:
    vetted: list[str] = []

    def counting(config: ServerConfig, *rest: Any, **more: Any) -> Steps[tuple[tuple[ToolRecord, ...], list[str]]]:
        vetted.append(config.id)
        return vet_module.validate_tools_steps(config, *rest, **more)

    monkeypatch.setattr(shelf_module, "validate_tools_steps", counting)
    upstreams = _upstreams("a", "b")
    builder = _builder(upstreams)
    builder.tools()
    builder.tools()
    upstreams["b"].definitions = [tool("new")]
    assert [record.name for record in builder.tools().tools] == ["a.t", "b.new"]
    assert vetted == ["a", "b", "b"]


async def test_a_name_that_another_server_casts_a_shadow_on_stays_put_when_that_server_leaves() -> None:
    """Proves: F2"""
    upstreams = _upstreams("a", "a_b")
    builder = _builder(upstreams)
    both = {record.listed["canonical"] for record in builder.tools().tools}
    upstreams["a"].lifecycle.current = StateAndReason("unavailable")
    (left,) = builder.tools().tools
    assert left.listed["canonical"] in both
    assert left.listed["canonical"] != "a_b.t"


async def test_a_list_nobody_foresaw_costs_only_its_server() -> None:
    """Proves: E4, C4"""
    upstreams = _upstreams("good", "bad", "fine")
    upstreams["bad"].definitions = [
        tool("x", inputSchema={"type": "object", "properties": {"$id": {"type": "string"}}})
    ]
    names = [record.name for record in _builder(upstreams).tools().tools]
    assert [name for name in names if not name.startswith("bad.")] == ["good.t", "fine.t"]


async def test_a_failure_after_connecting_does_not_end_the_upstream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever goes wrong once a server was ready, the upstream has to try again."""
    upstream = Upstream(server("s"), Reaper(), SilentObserver(), Slices())
    lived = asyncio.Event()

    async def live(stack: Any) -> None:
        upstream._loop.connected()
        lived.set()
        raise RuntimeError("a bug in whatever reads the list")

    monkeypatch.setattr(upstream.shared, "_run", live)
    async with asyncio.timeout(BOUND):
        running = asyncio.ensure_future(upstream.run())
        await lived.wait()
        await asyncio.wait([running], timeout=0.05)
        ended = running.done()
        running.cancel()
        await asyncio.wait([running])
    assert not ended, f"the link is {upstream.state} and will never connect again"


async def test_what_was_said_of_a_list_is_not_said_again(caplog: pytest.LogCaptureFixture) -> None:
    """Proves: E9. Another server that comes or goes has every list validated anew; only what is new is a warning."""
    upstreams = _upstreams("a")
    upstreams["a"].definitions = [tool("t"), {"name": "one"}]
    builder = _builder(upstreams)
    builder.tools()
    said = len(caplog.records)
    assert said
    builder.reconfigure(("a", "b"), 47)
    builder.tools()
    assert len(caplog.records) == said
    upstreams["a"].definitions = [tool("t"), {"name": "two"}]
    builder.tools()
    assert len(caplog.records) > said


async def test_what_was_looked_over_ahead_is_not_again_when_it_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: C5. Neither a list that a server is about to have, nor lists under another configuration."""
    upstreams = _upstreams("a", "b")
    builder = _builder(upstreams)
    builder.tools()
    new = [tool("new")]
    await builder.examine(upstreams["a"], "tool", new)
    other = [upstreams[name].config.model_copy(update={"prefix": f"{name}_x"}) for name in upstreams]
    await builder.prepare(other, 47)
    monkeypatch.setattr(shelf_module, "at_once", _never)
    upstreams["a"].definitions = new
    with pytest.raises(AssertionError, match="at once"):
        builder.tools()  # what was made ready since then is for the other configuration
    upstreams["a"].definitions = old = [tool("old")]
    await builder.examine(upstreams["a"], "tool", old)
    assert [record.name for record in builder.tools().tools] == ["a.old", "b.t"]
    await builder.prepare(other, 47)
    for config in other:
        upstreams[config.id].update(config)
    builder.reconfigure((config.prefix for config in other), 47)
    assert [record.name for record in builder.tools().tools] == ["a_x.old", "b_x.t"]


def _never(steps: object) -> None:
    raise AssertionError("nothing is to be done at once")
