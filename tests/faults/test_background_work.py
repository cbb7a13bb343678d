"""Background work that raises, by faults put into it: it goes on, and health page and log say so."""

import asyncio
from pathlib import Path
from typing import Any, Final

import pytest

from aggregator.app.build import build_app
from aggregator.app.catalog_sync import CatalogSync
from aggregator.app.key_sync import KeySync
from aggregator.app.merged_report import ReplicaAnswer, merge_reports
from aggregator.app.reload.policy_reload import PolicyReload
from aggregator.app.retention import Retention
from aggregator.audit.log import AuditLog
from aggregator.audit.writer import Writer
from aggregator.cli.status import _troubles
from aggregator.config.model import Config
from aggregator.domain.bounds import kept_work
from aggregator.domain.bounds.kept_work import KeptWork
from aggregator.domain.call_record import AuditEvent
from aggregator.flow.gateway.states import FlowStates
from aggregator.frontends.console.pages.conditions import problems_of
from aggregator.gateway.access import Access
from aggregator.gateway.calls.pipeline import Pipeline
from aggregator.gateway.views.embeddings import ToolEmbeddings
from aggregator.gateway.views.tool_index import ToolIndex
from aggregator.replicas.group.leases import Leases
from aggregator.replicas.group.membership import Membership
from aggregator.replicas.group.replication import ChangesTail, Replication
from aggregator.replicas.group.shared_usage import SharedUsage
from aggregator.skills.finder import SkillFinder
from aggregator.storage.records import ReplicaRecord
from aggregator.upstream.health.health import Health
from aggregator.upstream.lists.lists import UpstreamLists
from aggregator.upstream.lists.subscriptions import UpstreamSubscriptions
from aggregator.upstream.shared_connection import SharedConnection
from tests.faults.app_harness import raw_stdio, running_app
from tests.polling import until

# The work of a process that is one of several, by the name that operators read.
WORK: Final = {
    "the writer of the audit log": (Writer, "run"),
    "the making of audit rows": (AuditLog, "_make_for_ever"),
    "the putting aside of audit rows": (Writer, "ease_again_and_again"),
    "the look at the audit log": (Writer, "look"),
    "the search index": (ToolIndex, "run"),
    "the search by meaning": (ToolEmbeddings, "run"),
    "the index of skills": (SkillFinder, "run"),
    "the checks ahead of calls": (Pipeline, "keep_checks_ready"),
    "the keys of issuers": (Access, "run"),
    "the flow labels": (FlowStates, "run"),
    "the kept catalogs": (CatalogSync, "_run"),
    "the entry into the group": (Replication, "_keep_entering"),
    "the heartbeat": (Membership, "run"),
    "the look for changes of other replicas": (ChangesTail, "run"),
    "the news of other replicas": (ChangesTail, "run_wakes"),
    "the leases": (Leases, "_renew_and_take"),
    "the watch on leases": (Leases, "_keep_watch"),
    "the news of leases": (Leases, "_announce"),
    "the limits of replicas": (SharedUsage, "_run"),
    "the reading of policy files": (PolicyReload, "run"),
    "the keys of agents": (KeySync, "run"),
    "retention": (Retention, "run"),
}
# That of one connection to a server.
OF_A_CONNECTION: Final = {
    "the list of tools": (UpstreamLists, "keep"),
    "the subscriptions": (UpstreamSubscriptions, "keep"),
    "the health checks": (Health, "keep"),
    "the stop of idle servers": (SharedConnection, "_stop_when_idle"),
}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_work, "FIRST_PAUSE", 0.001)


def fail_first(patch: pytest.MonkeyPatch, owner: type, method: str, runs: list[str], name: str) -> None:
    """Let the first call of a method raise. `runs` gets the name with each later one."""
    real = getattr(owner, method)
    failed: list[bool] = []

    async def run(self: Any, *args: Any) -> None:
        if not failed:
            failed.append(True)
            raise ZeroDivisionError(name)
        runs.append(name)
        await real(self, *args)

    patch.setattr(owner, method, run)


async def test_all_background_work_is_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    runs: list[str] = []
    for name, (owner, method) in WORK.items():
        fail_first(monkeypatch, owner, method, runs, name)
    (tmp_path / "policies").mkdir()
    app = build_app(Config(), tmp_path / "policies", f"sqlite:///{tmp_path / 'kept.db'}", keeps_records=True)
    app.replication.enabled = True
    app.key_sync.wanted = True
    async with app.running():
        await app.replication.start()
        await until(lambda: WORK.keys() <= set(runs), "all work has begun again")
        problem = app.report()[1]["tasks"]
        assert "the search index failed (ZeroDivisionError) and was begun again; the log says more" in problem
        assert "the heartbeat failed" in problem
    told = {one.getMessage().partition(" failed, and begins again in ")[0] for one in caplog.records}
    assert WORK.keys() <= told


async def test_rows_are_written_after_the_making_of_rows_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = AuditLog._make
    failed: list[bool] = []

    async def make(self: AuditLog) -> None:
        if not failed:
            failed.append(True)
            raise ZeroDivisionError
        await real(self)

    monkeypatch.setattr(AuditLog, "_make", make)
    app = build_app(Config(), None, f"sqlite:///{tmp_path / 'kept.db'}", keeps_records=True)
    async with app.running():
        audit = app.telemetry.audit
        assert audit is not None
        audit.event(AuditEvent("log_gap", 1.0, "a row of a test"))
        await until(lambda: failed and audit.report()["waiting"] == 0, "the row is written")


async def test_the_work_of_a_connection_is_begun_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Lists, subscriptions, health checks and the stop of an idle server, each by a fault of ours."""
    runs: list[str] = []
    for name, (owner, method) in OF_A_CONNECTION.items():
        fail_first(monkeypatch, owner, method, runs, name)
    async with running_app(raw_stdio("raw")) as harness:
        await until(lambda: OF_A_CONNECTION.keys() <= set(runs), "all work has begun again")
        problem = harness.app.report()[1]["tasks"]
        for name in OF_A_CONNECTION:
            assert f"{name} (server raw) failed (ZeroDivisionError) and was begun again" in problem
        await harness.check_echo("raw.echo")
        # What belongs to a connection that has ended is no problem any more.
        await harness.app.supervisor.stop()
        assert "tasks" not in harness.app.report()[1]
    assert "the health checks (server raw) failed, and begins again in" in caplog.text


async def test_a_list_whose_reading_failed_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not left as it was until the server says the next time that it changed."""
    listing = tmp_path / "tools.json"
    listing.write_text('{"tools": [{"name": "old", "inputSchema": {"type": "object"}}]}')
    real = UpstreamLists._read
    failed: list[str] = []

    async def read(self: UpstreamLists, session: Any, kind: Any) -> Any:
        if kind == "tool" and len(failed) < 3:
            failed.append(kind)
            raise MemoryError
        return await real(self, session, kind)

    async with running_app(raw_stdio("raw", listing=listing)) as harness:
        assert harness.tools() == ["raw.old"]
        monkeypatch.setattr(UpstreamLists, "_read", read)
        listing.write_text('{"tools": [{"name": "new", "inputSchema": {"type": "object"}}]}')
        harness.upstream("raw").lists.read_kind_again("tool")
        await until(lambda: harness.tools() == ["raw.new"], "the list is read")
        assert len(failed) == 3
        assert (
            "the list of tools (server raw) failed 3 times in a row (MemoryError)" in (harness.app.report()[1]["tasks"])
        )


@pytest.mark.parametrize("during", ["work", "pause"])
async def test_work_that_is_not_wanted_any_more_is_no_problem(during: str) -> None:
    paused, again = asyncio.Event(), asyncio.Event()

    async def pause(seconds: float) -> None:
        paused.set()
        await (asyncio.Event().wait() if during == "pause" else asyncio.sleep(0))

    async def work() -> None:
        if not paused.is_set():
            raise ZeroDivisionError
        again.set()
        await asyncio.Event().wait()

    kept = KeptWork(pause=pause)
    task = asyncio.create_task(kept.keep("the work", work))
    await (paused if during == "pause" else again).wait()
    assert kept.problem is not None
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    assert kept.problem is None


def test_people_read_of_it() -> None:
    text = "the heartbeat failed (KeyError) and was begun again; the log says more"
    report = {"ready": True, "servers": {}, "tasks": text}
    assert f"tasks: {text}" in _troubles(report)
    assert problems_of(report, values=False) == [{"area": "tasks", "text": text}]


@pytest.mark.parametrize("area", ["tasks", "pins"])
def test_a_replica_tells_of_the_others(area: str) -> None:
    row = ReplicaRecord("b" * 16, 1, None, "1", 0.0, 0.0, {})
    merged = merge_reports({"servers": {}}, "a" * 16, [ReplicaAnswer(row, {"servers": {}, area: "it failed"})])
    assert merged[area] == "replica 1: it failed"
