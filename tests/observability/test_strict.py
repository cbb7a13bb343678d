"""In strict mode nobody is answered before the row is in the database, whatever the answer."""

import pytest

from tests.observability.agent_clients import CLIENT_KINDS, agent_client
from tests.observability.cases import CASES, POLICY, Crm, meta_for, servers
from tests.observability.observed_harness import ObservedHarness
from tests.peers.serving import BackgroundLoop
from tests.telemetry.receiver import Receiver


@pytest.fixture(scope="module")
def harness(
    background: BackgroundLoop, receiver: Receiver, tmp_path_factory: pytest.TempPathFactory
) -> ObservedHarness:
    """A harness in strict mode, in which rows without a waiter are written after half a minute."""
    folder = tmp_path_factory.mktemp("scene")
    audit = {"durability": "strict", "flush_interval": "30s"}
    v1 = {"max_calls_per_conversation": None}
    return ObservedHarness(background, folder, receiver, servers(Crm(), folder), POLICY, ["shop"], audit=audit, v1=v1)


@pytest.mark.parametrize("host_kind", CLIENT_KINDS, ids="-".join)
async def test_the_row_is_there_before_the_answer(harness: ObservedHarness, host_kind: tuple[str, str]) -> None:
    """Proves: D9. Results, refusals, failures and errors of the protocol, and the aggregator's own tools."""
    called = [(case.called, dict(case.arguments)) for name, case in CASES.items() if name != "cancelled"]
    called += [("search_tools", {}), ("call_tool", {})]
    async with agent_client(harness, host_kind, "shop") as client:
        for number, (tool, arguments) in enumerate(called):
            conversation = f"{'-'.join(host_kind)}-{number}"
            await client.call(tool, arguments, meta_for(conversation, number))
            assert len(harness.rows(conversation)) == 1, tool
