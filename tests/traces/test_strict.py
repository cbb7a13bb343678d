"""In strict mode nobody is answered before the row is in the database, whatever the answer."""

import pytest

from tests.peers.serving import Background
from tests.telemetry.receiver import Receiver
from tests.traces.cases import CASES, POLICY, Crm, meta_for, servers
from tests.traces.scene import Scene
from tests.traces.ways import WAYS, visiting


@pytest.fixture(scope="module")
def scene(background: Background, receiver: Receiver, tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """Rows that nobody waits for would be written in half a minute."""
    folder = tmp_path_factory.mktemp("scene")
    audit = {"durability": "strict", "flush_interval": "30s"}
    v1 = {"max_calls_per_conversation": None}
    return Scene(background, folder, receiver, servers(Crm(), folder), POLICY, ["shop"], audit=audit, v1=v1)


@pytest.mark.parametrize("way", WAYS, ids="-".join)
async def test_the_row_is_there_before_the_answer(scene: Scene, way: tuple[str, str]) -> None:
    """Proves: D9. Results, refusals, failures and errors of the protocol, and the aggregator's own tools."""
    called = [(case.called, dict(case.arguments)) for name, case in CASES.items() if name != "cancelled"]
    called += [("search_tools", {}), ("call_tool", {})]
    async with visiting(scene, way, "shop") as visitor:
        for number, (tool, arguments) in enumerate(called):
            conversation = f"{'-'.join(way)}-{number}"
            await visitor.call(tool, arguments, meta_for(conversation, number))
            assert len(scene.rows(conversation)) == 1, tool
