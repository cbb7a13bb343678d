"""The plan of a call says why the call needs a task; both ways run that plan."""

from datetime import date
from pathlib import Path
from typing import Final

import pytest

from aggregator.catalog.schema_references import References
from aggregator.domain.principal import Principal, TokenFacts
from aggregator.gateway.calls.plan import NeedsTask, PreparedCall
from aggregator.gateway.hooks import CallHooks
from aggregator.gateway.host import Host
from tests.direct.direct_harness import DIRECT, PIPELINE, DirectHarness, ask, child, direct_harness
from tests.direct.test_between_calls import list_again, rules
from tests.features.weekdays import Weekdays
from tests.peers.toolbox import Json

LOCAL: Final = Principal("local")
# No check can be made with it.
BROKEN: Final[Json] = {
    "name": "broken",
    "inputSchema": {"type": "object", "properties": {"x": {"$id": "https://a.example/x", "$ref": "#/no"}}},
}
NUMBER: Final[Json] = {"type": "object", "properties": {"n": {"type": "integer"}}}
OTHERS: Final[list[Json]] = [
    {"name": "number", "inputSchema": NUMBER},
    {"name": "typed", "inputSchema": NUMBER},
    {"name": "app", "inputSchema": NUMBER},
    {"name": "headed", "inputSchema": {**NUMBER, "properties": {"place": {"type": "string", "x-mcp-header": "Place"}}}},
]
SERVERS: Final[Json] = {
    "old": child(),
    "quick": child(timeout=0.9),
    "first": child(fallbacks=["second"]),
    "second": child(),
}
TOKEN: Final = Principal("local", token=TokenFacts("https://idp.example", "ada"))


def plan_of(it: DirectHarness, name: str, principal: Principal = LOCAL) -> PreparedCall:
    """The plan that either way would make now, for the local agent with the token of a principal, if it has one."""
    gateway = it.app.gateway
    view, tool = gateway.views.of(LOCAL), gateway.called(LOCAL, name)
    assert tool is not None, name
    view.principal = principal
    return it.direct._plans.prepare(view, tool, Host("http", None, principal))


async def test_every_reason_keeps_a_call_in_its_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The list leaves such a tool out; a fault that it does not see is found by the check.
    monkeypatch.setattr(References, "check", lambda _: None)
    async with direct_harness(tmp_path, monkeypatch, SERVERS, policies=tmp_path / "policies") as it:
        rules(
            it,
            confirm=["old.typed"],
            limits={"old.any": {"result_bytes": "1KiB"}},
            scopes={"old.app": ["mail"]},
        )
        await list_again(it, BROKEN, *OTHERS)
        it.on = True
        found: dict[str, NeedsTask | None] = {
            name: plan_of(it, name).needs_task
            for name in ("old.number", "old.typed", "old.any", "old.headed", "old.broken", "quick.number", "first.any")
        }
        assert found == {
            "old.number": None,
            "old.typed": NeedsTask.DECISION,
            "old.any": None,
            "old.headed": NeedsTask.HEADERS,
            "old.broken": NeedsTask.SCHEMA,
            "quick.number": NeedsTask.SHORT_LIMIT,
            "first.any": None,
        }
        assert plan_of(it, "old.app").needs_task is None
        assert plan_of(it, "old.app", TOKEN).needs_task is None
        with monkeypatch.context() as patch:
            patch.setattr(it.direct._plans, "_hooks", CallHooks([Weekdays({"old.number"}, date.today)]))
            assert plan_of(it, "old.number").needs_task is NeedsTask.HOOK
        assert {*found.values(), NeedsTask.HOOK, NeedsTask.STANDS_IN} == {None, *NeedsTask}
        for name, reason in found.items():
            async with it.host("http", "2026-07-28") as host:
                await ask(host, {"name": "old.number", "arguments": {"n": 1}})
                it.forget()
                for _ in range(2):
                    await ask(host, {"name": name, "arguments": {"n": 1}})
                assert it.way_or_none == (DIRECT if reason is None else PIPELINE), name
