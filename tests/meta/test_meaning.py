"""`search_tools` by meaning, through the whole gateway: switched on and off, and what the agent sees only."""

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from aggregator.catalog.search.semantic import installed
from aggregator.catalog.search.semantic.models import ENGLISH
from aggregator.gateway.views import model_vectors
from tests.access.gateway_harness import tool
from tests.meta.conftest import OpenHarness
from tests.search.test_semantic import ByHand

TOOLS: Final = {
    "maps": [tool("forecast", description="Predicts rain and sunshine."), tool("drive", description="By automobile.")],
    "shop": [tool("pay", description="Settles an invoice.")],
}
SERVERS: Final = {"maps": {"command": "never"}, "shop": {"command": "never"}}
RAIN_OR_DRIVE: Final = "does it rain where rain is predicted, drive"
POLICIES: Final = {"agents": {"all": {"allow": ["*"]}, "buyer": {"allow": ["shop.*"]}}}


async def test_switched_on_and_off(open_harness: OpenHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: F5, D4. A tool that shares no word with the query is found by who may call it, while it is on."""
    encoder = ByHand()
    monkeypatch.setattr(model_vectors, "_open_encoder", lambda model: encoder)
    monkeypatch.setattr(installed, "installed_models", lambda: [ENGLISH])
    settings = {"search": {"semantic": True}}
    async with open_harness(POLICIES, TOOLS, SERVERS, **settings) as harness:
        finder = harness.app.gateway._finder
        finder.index.begin()
        await finder.meanings.wait_complete()
        assert "maps.forecast" in await harness.text(harness.host("all"), "search_tools", query="zorblex")
        assert "weak matches" not in await harness.text(harness.host("all"), "search_tools", query="zorblex")
        assert "maps.forecast" not in await harness.text(harness.host("buyer"), "search_tools", query="zorblex")
        assert "shop.pay" in await harness.text(harness.host("buyer"), "search_tools", query="quuxit")
        both = await harness.text(harness.host("all"), "search_tools", query=RAIN_OR_DRIVE)
        assert "maps.forecast" in both
        assert "maps.drive" not in both, "the lines end with what fits by all that orders them"
        assert "+1 more that only share a word" in both
        asked = len(encoder.asked)
        config = harness.app.config
        search = config.search.model_copy(update={"semantic": False})
        off = config.model_copy(update={"search": search})
        finder.reconfigure(off)
        finder.index.update()
        await finder.index.wait_indexed()
        assert "maps.forecast" not in await harness.text(harness.host("all"), "search_tools", query="a zorblex")
        words = await harness.text(harness.host("all"), "search_tools", query=RAIN_OR_DRIVE)
        assert "maps.drive" in words
        assert len(encoder.asked) == asked
        finder.reconfigure(harness.app.config)
        finder.index.update()
        await finder.index.wait_indexed()
        await finder.meanings.wait_complete()
        assert "maps.forecast" in await harness.text(harness.host("all"), "search_tools", query="zorblex")


async def test_after_a_change_only_what_is_new_is_encoded(
    open_harness: OpenHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model takes long for thousands of tools: those that stay have their vectors, with no database to keep them."""
    encoder = ByHand()
    monkeypatch.setattr(model_vectors, "_open_encoder", lambda model: encoder)
    monkeypatch.setattr(installed, "installed_models", lambda: [ENGLISH])
    async with open_harness(None, TOOLS, SERVERS, search={"semantic": True}) as harness:
        finder = harness.app.gateway._finder
        finder.index.begin()
        await finder.meanings.wait_complete()
        tools = harness.app.gateway.catalog.tools
        encoder.asked.clear()
        added = replace(tools[0], own_name="added", definition={**tools[0].definition, "description": "Finds a debt."})
        finder.meanings.set_tools((*tools[1:], added))
        await finder.meanings.wait_complete()
        assert len(encoder.asked) == 1
        assert "debt" in encoder.asked[0]
