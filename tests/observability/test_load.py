"""Hundreds of calls at once, of every kind and through every frontend: what counts them agrees to the last one."""

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest

from aggregator.adapters.inprocess import InProcessHost
from aggregator.domain.principal import Principal
from tests.audit.logs import verdict_on
from tests.end_to_end.scripted_host import BOUND
from tests.observability.agent_clients import CLIENT_KINDS, AgentClient, agent_client
from tests.observability.cases import CASES, POLICY, Crm, meta_for, servers, trace_of
from tests.observability.observed_harness import ObservedHarness, counted_in, counted_on
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json
from tests.telemetry.receiver import Receiver

EACH = 25


@pytest.fixture(scope="module")
def crm() -> Crm:
    return Crm()


@pytest.fixture(scope="module")
def harness(
    background: BackgroundLoop, receiver: Receiver, crm: Crm, tmp_path_factory: pytest.TempPathFactory
) -> ObservedHarness:
    folder = tmp_path_factory.mktemp("scene")
    v1 = {"max_calls_per_conversation": None}
    return ObservedHarness(background, folder, receiver, servers(crm, folder), POLICY, ["shop"], v1=v1)


async def test_every_count_agrees_under_load(harness: ObservedHarness, crm: Crm) -> None:
    """Proves: D9, E13. Rows, spans and metrics hold every call once, given up ones too, and the log is whole."""
    chosen = random.Random(7)  # noqa: S311
    expected: Counter[str] = Counter()
    traces: set[str] = set()

    async def make(client: AgentClient, name: str, key: str, number: int) -> None:
        case, meta = CASES[name], meta_for(f"load {key}", number)
        if name != "cancelled":
            await client.call(case.called, dict(case.arguments), meta)
            return
        started = client.start(case.called, {"key": key}, meta)
        async with asyncio.timeout(BOUND):
            await harness.background.elsewhere(crm.event_log.until(f"started {key}"))
            await started.give_up()
            await harness.background.elsewhere(crm.event_log.until(f"cancelled {key}"))

    async def visit(at: int, host_kind: tuple[str, str]) -> None:
        async with agent_client(harness, host_kind, "shop") as client, asyncio.TaskGroup() as calls:
            for call in range(EACH):
                name, number = chosen.choice(list(CASES)), at * EACH + call + 1
                expected[CASES[name].status] += 1
                if client.carries_identity:
                    traces.add(trace_of(number)[0])
                calls.create_task(make(client, name, f"{at}-{call}", number))

    async with asyncio.TaskGroup() as visits:
        for at, host_kind in enumerate(CLIENT_KINDS):
            visits.create_task(visit(at, host_kind))
    await harness.flush()
    rows, wholes = harness.rows(), harness.call_spans()
    assert len(rows) == len(CLIENT_KINDS) * EACH
    assert Counter(row["status"] for row in rows) == expected
    assert expected.keys() == {case.status for case in CASES.values()}
    assert ids(rows) == sorted((whole.trace_id, whole.span_id) for whole in wholes)
    assert len({row["span_id"] for row in rows}) == len(rows)
    assert traces <= {row["trace_id"] for row in rows}
    assert await harness.call_counts() == counted_in(rows)
    figures = harness.app.telemetry.spans.counts()  # type: ignore[union-attr]
    assert (figures.failed, figures.dropped) == (0, 0)
    verdict = await verdict_on(harness.database)
    assert verdict.faults == ()
    assert verdict.rows >= len(rows)


async def test_every_count_agrees_once_the_end_has_cut_calls_off(receiver: Receiver, tmp_path: Path) -> None:
    """Proves: D9, E13. The program ends while calls run: each is over by then, and counted like every other."""
    crm, own = Crm(), BackgroundLoop()
    own.__enter__()
    try:
        harness = await asyncio.to_thread(
            ObservedHarness, own, tmp_path, receiver, servers(crm, tmp_path), POLICY, ["shop"]
        )

        async def open_inside() -> InProcessHost:
            return InProcessHost(harness.app, Principal("shop"), "canonical")

        inside = await own.elsewhere(open_inside())
        for _ in range(5):
            await inside.call("crm.get", {}, conversation="cut")
        running = [
            asyncio.create_task(inside.call("crm.hold", {"key": f"end {number}"}, conversation="cut"))
            for number in range(20)
        ]
        await own.elsewhere(crm.event_log.until("started end 19"))
    finally:
        await asyncio.to_thread(own.__exit__, None, None, None)
    await asyncio.gather(*running, return_exceptions=True)
    rows, wholes = harness.rows(), harness.call_spans("cut")
    assert Counter(row["status"] == "ok" for row in rows) == {True: 5, False: 20}
    assert ids(rows) == sorted((whole.trace_id, whole.span_id) for whole in wholes)
    assert counted_on(b"".join(harness.metrics.page()).decode()) == counted_in(rows)
    assert (await verdict_on(harness.database)).faults == ()


def ids(rows: list[Json]) -> list[tuple[str, str]]:
    return sorted((row["trace_id"], row["span_id"]) for row in rows)
