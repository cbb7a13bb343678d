"""What one caller keeps takes a share of the space: a flood of it removes nothing of another."""

from typing import Any, Final

from tests.kept_results.conftest import CANARY, OpenLarge, handle_of

BOTH: Final[Any] = {"agents": {"one": {"allow": ["*"]}, "two": {"allow": ["*"]}}}


async def test_a_flood_of_one_agent_removes_its_own_alone(open_large: OpenLarge) -> None:
    async with open_large(BOTH, results={"max_bytes": 2**20}) as harness:
        quiet, loud = harness.host("two"), harness.host("one")
        kept = handle_of(await harness.result(quiet, "shop.orders"))
        handles = [handle_of(await harness.result(loud, "shop.orders")) for _ in range(60)]
        assert CANARY in await harness.page(quiet, kept)
        assert CANARY in await harness.page(loud, handles[-1])
        gone = await harness.result(loud, "read_result", {"handle": handles[0]})
        assert gone["isError"] is True
