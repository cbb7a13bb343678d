"""The lists of an agent after a server got another prefix: the rules about its new names count."""

import json
from pathlib import Path

import pytest

from aggregator.config.difference import difference
from tests.pins_running.pins_harness import ChangingServer, PinsHarness, running
from tests.polling import until


async def listed(harness: PinsHarness) -> list[str]:
    answer = await harness.ask("prompts/list", {})
    return [one["name"] for one in json.loads(bytes(answer["prompts"]))]


async def take(harness: PinsHarness, shop: ChangingServer, prefix: str) -> None:
    """Take a configuration in which the server has this prefix, and wait until its prompts have it."""
    config = harness.app.config.model_copy(update={"servers": (shop.config(prefix=prefix),)})
    found = difference(harness.app.config, config)
    await harness.app.servers.prepare(found.config)
    harness.app.servers.apply(found)
    items = harness.app.gateway._current
    await until(lambda: {one.prefix for one in items.resources.items} == {prefix}, "its prompts have it")


@pytest.mark.parametrize(("first", "second"), [(["open.sum"], []), ([], ["other.sum"])], ids=["closed", "opened"])
async def test_rules_about_the_new_prefix_count(tmp_path: Path, first: list[str], second: list[str]) -> None:
    shop = ChangingServer(tmp_path)
    shop.says(prompts=[{"name": "sum"}])
    policies = tmp_path / "policies"
    policies.mkdir()
    allowed = "open" if first else "other"
    (policies / "main.yaml").write_text(json.dumps({"agents": {"local": {"allow": [f"prompt:{allowed}.*"]}}}))
    async with running(shop.config(prefix="open"), storage=shop.storage, policies=policies) as harness:
        assert await listed(harness) == first
        await take(harness, shop, "other")
        assert await listed(harness) == second
