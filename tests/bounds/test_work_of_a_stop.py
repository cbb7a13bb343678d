"""The end of many servers at one time: what follows from it is worked out once, not once for each."""

import asyncio
import json
from pathlib import Path

import pytest

from aggregator.app.build import build_app
from aggregator.app.catalog_updates import CatalogUpdates
from aggregator.catalog.search.index import SearchIndex
from aggregator.config.load import load
from aggregator.domain.principal import Principal
from tests.bounds.answering_upstreams import WORD, answering_upstreams
from tests.end_to_end.server_harness import write_config
from tests.polling import BOUND

SERVERS = 30
# The passes at an end: of the tasks that end in one turn of the loop, and of those that need a turn more.
MOST = 4


async def test_the_end_is_one_pass_over_the_catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rebuilt, removed = 0, 0
    rebuild, without = CatalogUpdates.rebuild, SearchIndex.without

    def counted(updates: CatalogUpdates, *, anew: bool = False) -> None:
        nonlocal rebuilt
        rebuilt += 1
        rebuild(updates, anew=anew)

    def counted_removal(index: SearchIndex, servers: set[str]) -> SearchIndex:
        nonlocal removed
        removed += bool(servers)
        return without(index, servers)

    monkeypatch.setattr(CatalogUpdates, "rebuild", counted)
    monkeypatch.setattr(SearchIndex, "without", counted_removal)
    config = load(write_config(tmp_path, answering_upstreams(monkeypatch, SERVERS, 3)), {}).config
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "main.yaml").write_text(json.dumps({"agents": {"a": {"allow": ["s*.*"]}}}))
    app = build_app(config, policies, f"sqlite+aiosqlite:///{tmp_path / 'aggregator.db'}")
    async with asyncio.timeout(BOUND), app.running():
        await app.supervisor.wait_all_tried()
        found = await app.gateway.tools(Principal("a"), query=WORD, limit=5)
        assert [tool.name for tool in found] == ["s0.t0"]
        assert rebuilt >= SERVERS
        rebuilt = removed = 0
    assert rebuilt <= MOST
    assert removed <= MOST
    assert len(app.gateway.catalog) == 0
    assert {upstream.state for upstream in app.upstreams.values()} == {"stopped"}
