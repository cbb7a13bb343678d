"""Calls of `call_tool` and `read_tool`: those in the form of their schema take no task; all mean the same as in one."""

from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from aggregator.domain.call_record import CallRecord
from tests.direct.direct_harness import (
    DIRECT,
    HOST_KINDS,
    PIPELINE,
    DirectHarness,
    HostAnswer,
    ask,
    child,
    direct_harness,
)
from tests.direct.test_between_calls import list_again, named
from tests.peers.toolbox import Json
from tests.policy.build import book

# No server is asked.
OURS: Final = "none"
OURS_ANY: Final = "mcp__aggregator.any"


class Case(NamedTuple):
    """The arguments of `call_tool`, or of another meta tool, and how such a call is answered.

    tool: the tool of its record.
    """

    inner: Any
    way: str
    tool: str | None
    outer: str = "call_tool"


ONE: Final[Json] = {"n": 1}
CASES: Final[dict[str, Case]] = {
    "as listed": Case({"name": "old.any", "arguments": ONE}, DIRECT, "old.any"),
    "in the other style": Case({"name": "old__any", "arguments": ONE}, DIRECT, "old.any"),
    "without arguments": Case({"name": "old.any"}, DIRECT, "old.any"),
    "arguments that are null": Case({"name": "old.any", "arguments": None}, DIRECT, "old.any"),
    "arguments in a text": Case({"name": "old.any", "arguments": '{"n": 1}'}, DIRECT, "old.any"),
    "arguments beside": Case({"name": "old.any", "n": 1}, PIPELINE, "old.any"),
    "a server beside": Case({"name": "any", "server": "old", "arguments": ONE}, DIRECT, "old.any"),
    "in backticks": Case({"name": "`old.any`", "arguments": ONE}, DIRECT, "old.any"),
    "in another case": Case({"name": "OLD.ANY", "arguments": ONE}, DIRECT, "old.any"),
    "no arguments at all": Case(None, OURS, "call_tool"),
    "no name": Case({"arguments": ONE}, OURS, "call_tool"),
    "an empty name": Case({"name": "", "arguments": ONE}, OURS, "call_tool"),
    "a list": Case({"name": "old.any", "arguments": [1]}, OURS, "call_tool"),
    "a tool of ours": Case({"name": "list_servers", "arguments": {}}, OURS, "list_servers"),
    "a tool of ours as a host spells it": Case({"name": "mcp__aggregator__list_servers"}, OURS, "list_servers"),
    "itself": Case({"name": "call_tool", "arguments": {"name": "old.any", "arguments": ONE}}, PIPELINE, "old.any"),
    "to read": Case({"name": "new.reading", "arguments": ONE}, DIRECT, "new.reading", "read_tool"),
    "to read, without trust": Case({"name": "old.reading", "arguments": ONE}, PIPELINE, "old.reading", "read_tool"),
    "to read, a tool that writes": Case({"name": "new.any", "arguments": ONE}, PIPELINE, "new.any", "read_tool"),
    "an unknown tool": Case({"name": "old.none", "arguments": ONE}, PIPELINE, None),
    "a tool for programs": Case({"name": "new.app", "arguments": ONE}, PIPELINE, "new.app"),
    "arguments that do not fit": Case({"name": "old.number", "arguments": {"n": "x"}}, PIPELINE, "old.number"),
}  # fmt: skip


async def both(it: DirectHarness, host: Any, case: Case) -> tuple[str, HostAnswer, list[CallRecord]]:
    """Make a call in the pipeline and again, and check that nothing else differs. Return how it went then."""
    params: Json = {"name": case.outer} | ({"arguments": case.inner} if case.inner is not None else {})
    it.on = False
    expected = await it.outcome(lambda: ask(host, params))
    await ask(host, {"name": case.outer, "arguments": {"name": "new.number", "arguments": ONE}})
    it.on = True
    before = len(it.ways)
    found = await it.outcome(lambda: ask(host, params))
    assert found == expected
    return (it.ways[before:] or [OURS])[0], *found


@pytest.mark.parametrize("kind", HOST_KINDS, ids="-".join)
async def test_each_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: tuple[str, str]) -> None:
    """A3, C8: what a call through a meta tool means does not depend on how it is answered, nor does its record."""
    servers = {"old": child("legacy"), "new": child("modern", trusted=True)}
    async with direct_harness(tmp_path, monkeypatch, servers, read_tool=True) as it, it.host(*kind) as host:
        for name, case in CASES.items():
            way, _, (record,) = await both(it, host, case)
            assert (way, record.called.tool) == (case.way, case.tool), name
            if case.way != OURS:
                assert record.caller.via == case.outer, name
        # The same tool by its own name, on the same connection.
        for _ in range(2):
            await ask(host, {"name": "old.any", "arguments": ONE})
        assert (it.way, it.records[-1].caller.via) == (DIRECT, None)
        it.nothing_is_left()


async def test_names_that_two_things_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A4: a meta tool's name as hosts spell it, a name that a policy binds, and `run_code` mean what they mean in the
    pipeline.
    """
    servers = {
        "old": child("legacy"),
        "new": child("modern"),
        "bound": child("legacy"),
        "ours": child("legacy", prefix="mcp__aggregator"),
        "plain": child("legacy", prefix=""),
    }
    cases = {
        "a prefix that hosts write": Case({"name": OURS_ANY, "arguments": ONE}, DIRECT, OURS_ANY),
        "a meta tool's name behind it": Case({"name": "mcp__aggregator.list_servers"}, OURS, "list_servers"),
        "a bound name": Case({"name": "old.any", "arguments": ONE}, DIRECT, "bound.old.any"),
        "the tool that it hides": Case({"name": "old__any", "arguments": ONE}, PIPELINE, "old.any"),
        "a name that is bound to nothing": Case({"name": "new__any", "arguments": ONE}, PIPELINE, None),
        "programs": Case({"name": "run_code", "arguments": {"code": "1"}}, OURS, "run_code"),
        "without a prefix": Case({"name": "any", "arguments": ONE}, DIRECT, "any"),
    }
    async with direct_harness(tmp_path, monkeypatch, servers, policies=tmp_path / "policies") as it:
        assert it.app.live is not None
        it.app.live.rulebook = book({"agents": {"local": {"allow": ["*"]}}})
        await list_again(it, named("old.any"), any_tool="bound.any")
        await list_again(it, named("list_servers"), any_tool=OURS_ANY)
        await list_again(it, named("run_code"), any_tool="any")
        rules = {"allow": ["*"], "bindings": {"old.any": "bound", "new.any": "new"}, "expose": "code"}
        it.app.live.rulebook = book({"agents": {"local": rules}})
        for kind in HOST_KINDS:
            async with it.host(*kind) as host:
                for name, case in cases.items():
                    way, _, records = await both(it, host, case)
                    assert (way, records[-1].called.tool) == (case.way, case.tool), name
        it.nothing_is_left()
