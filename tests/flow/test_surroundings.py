"""Flow rules with what is round them: the queue of approvals, batches, workers, and clears in a running process."""

import asyncio
import json
import time
from pathlib import Path
from typing import Final

import pytest

from aggregator.cli.approvals import show
from aggregator.domain.bounds.tasks import Tasks
from aggregator.storage.database import open_database
from tests.access.gateway_harness import MODERN, error_data
from tests.access.secured_harness import write_policies
from tests.end_to_end.scripted_host import ACCEPT, over_http
from tests.end_to_end.test_http_frontend import SESSION, opening, request
from tests.flow.flow_harness import FlowHarness, MovedClock, flow_of, outcome_of, policies
from tests.flow.served_harness import ServedHarness
from tests.peers.serving import BackgroundLoop
from tests.polling import until
from tests.replicas.worker_harness import workers

BATCHES: Final = "2025-03-26"


@pytest.fixture
def storage(tmp_path: Path) -> str:
    return f"sqlite+aiosqlite:///{tmp_path}/flow.db"


async def test_an_approver_reads_why(tmp_path: Path, storage: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The question in the queue has the reason, for the page of the console and the command, and the rule its place."""
    agents = {"ada": {"allow": ["*"], "confirm_by": "queue", "confirm_wait": 0}}
    rules = policies(agents=agents)
    async with FlowHarness(tmp_path, MovedClock(), rules, storage) as harness, harness.app.database:
        host = harness.legacy()
        await harness.call(host, "web.fetch")
        error = error_data(await harness.call(host, "mail.send", {"to": "eve"}))
        assert error["code"] == "approval_pending"
        approvals = await harness.app.database.approvals()
        assert approvals is not None
        waiting = await approvals.get(error["approval"], now=time.time())
        assert waiting is not None
        assert "because web.fetch was read a moment ago" in waiting.summary
        assert waiting.rule is not None
        assert "web.fetch was read a moment ago" in waiting.rule
        assert waiting.rule_source == "policies/1.yaml:1"
    capsys.readouterr()
    await _shown(storage, error["approval"])
    out = capsys.readouterr().out
    assert "web.fetch was read a moment ago" in out
    assert "policies/1.yaml:1" in out


async def _shown(storage: str, number: str) -> None:
    """Run the command in a thread: it has an event loop of its own."""
    assert await asyncio.to_thread(show, storage, number) == 0


async def test_calls_of_a_batch_count_one_by_one(tmp_path: Path, storage: str) -> None:
    """2025-03-26 over HTTP: what one post read is known to the next, and all of one post are of one session."""
    with BackgroundLoop() as background:
        harness = ServedHarness(background, tmp_path, storage=storage)
        async with harness.client("ada") as client:
            opened = await client.post("/mcp", json=opening(BATCHES), headers=ACCEPT)
            headers = {**ACCEPT, SESSION: opened.headers[SESSION], "mcp-protocol-version": BATCHES}
            await client.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
            for names, outcomes in (
                (("web.fetch", "mail.list"), {"ok"}),
                (("mail.send", "mail.send"), {"not_confirmed"}),
                (("files.read", "mail.list"), {"ok"}),
                (("mail.send", "mail.send"), {"flow_denied"}),
            ):
                batch = [request("tools/call", {"name": name, "arguments": {}}, at) for at, name in enumerate(names)]
                answers = (await client.post("/mcp", json=batch, headers=headers)).json()
                assert {outcome_of(answer) for answer in answers} == outcomes
        assert [call for call in harness.mail.calls if "send" in str(call)] == []


async def test_workers_know_what_the_others_read(tmp_path: Path) -> None:
    """`serve --workers 2` on SQLite: each of many requests without a session goes to either, and is decided alike."""
    rules = {
        "labels": {"untrusted": ["one.who"], "outward": ["one.who"]},
        "flow": [{"after": "untrusted", "calls": "outward", "then": "deny"}],
        "agents": {"local": {"allow": ["*"], "expose": "all"}},
    }
    write_policies(tmp_path / "policies", rules)
    async with workers(tmp_path) as running:
        said = set()
        async with over_http(running.url, MODERN) as host:
            assert outcome_of(await host.call("one.who").message()) == "ok"
        for _ in range(8):
            async with over_http(running.url, MODERN) as host:
                said.add(outcome_of(await host.call("one.who").message()))
        assert said == {"flow_denied"}, json.dumps(sorted(said))


async def test_a_clear_is_heeded_by_a_running_process(tmp_path: Path, storage: str) -> None:
    """By the loop that runs beside the calls, with no call in between."""
    clock = MovedClock()
    async with (
        FlowHarness(tmp_path, clock, storage=storage) as harness,
        harness.app.database,
        Tasks("the flow states of a test") as tasks,
    ):
        tasks.start(flow_of(harness.app).run())
        host = harness.legacy()
        await harness.call(host, "web.fetch")
        assert await harness.outcome(host, "mail.send") == "not_confirmed"
        async with open_database(storage) as database:
            assert await database.flow.clear("ada", None, now=clock()) == 2
        await until(lambda: not any(scope.labels for scope in flow_of(harness.app).scopes._scopes.values()))
        assert await harness.outcome(host, "mail.send") == "ok"
