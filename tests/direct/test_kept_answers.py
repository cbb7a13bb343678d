"""Answers of meta tools that are given again without a task: the bytes, the record and the moment of each."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from aggregator.catalog.catalog import Catalog
from aggregator.catalog.resources import ItemCatalog
from aggregator.domain.call_record import CallRecord
from aggregator.domain.principal import Principal
from aggregator.gateway.calls.direct import KeptAnswer
from aggregator.gateway.views.current import HeldItems
from aggregator.identity.keys import new_key
from tests.direct.direct_harness import HOST_KINDS, DirectHarness, HostAnswer, ask, child, direct_harness
from tests.direct.test_between_calls import NO_TRACE, list_again, named, one_more, reload, rules
from tests.end_to_end.scripted_host import MODERN
from tests.peers.toolbox import Json
from tests.policy.build import book

ASKED: Final[dict[str, Json]] = {
    "a query": {"name": "search_tools", "arguments": {"query": "number"}},
    "a query under another name": {"name": "search_tools", "arguments": {"q": "number", "detail": "full"}},
    "one server": {"name": "search_tools", "arguments": {"query": "any", "server": "OLD", "limit": "1"}},
    "all tools": {"name": "search_tools"},
    "a description": {"name": "describe_tools", "arguments": {"names": ["old.number", "new__any"]}},
}
# They are answered anew each time.
ANEW: Final[dict[str, Json]] = {
    "nothing fits": {"name": "search_tools", "arguments": {"query": "zebra"}},
    "an unknown tool": {"name": "describe_tools", "arguments": {"names": ["old.number", "old.none"]}},
    "arguments that do not fit": {"name": "search_tools", "arguments": {"query": 1.5, "level": 9}},
    "an unknown argument": {"name": "search_tools", "arguments": {"query": "number", "colour": "red"}},
    "many arguments": {"name": "search_tools", "arguments": {"query": "number " * 300}},
    "the servers": {"name": "list_servers"},
}


class Tasks(NamedTuple):
    """Counts the calls of meta tools that a task answers."""

    names: list[str]

    @classmethod
    def of(cls, it: DirectHarness, patch: pytest.MonkeyPatch) -> "Tasks":
        meta, tasks = it.app.gateway._meta, cls([])
        call = meta.call

        def calling(*given: Any, **more: Any) -> Any:
            tasks.names.append(given[0].name)
            return call(*given, **more)

        patch.setattr(meta, "call", calling)
        return tasks


async def outcome(it: DirectHarness, host: Any, params: Json) -> tuple[HostAnswer, list[CallRecord]]:
    """Return what comes back for a call, and its record without times and ids."""
    reply, records = await it.outcome(lambda: ask(host, params))
    # An id more is drawn for a call that turns out to be for a task.
    return reply, [replace(record, trace=NO_TRACE) for record in records]


@pytest.mark.parametrize("kind", HOST_KINDS, ids="-".join)
async def test_an_answer_is_given_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: tuple[str, str]) -> None:
    """C8: with the same bytes and the same record as a task leaves, and for other hosts of the agent too."""
    async with direct_harness(tmp_path, monkeypatch) as it, AsyncExitStack() as stack:
        host = await stack.enter_async_context(it.host(*kind))
        session = host.headers.get("mcp_session_id") if kind[0] == "http" else None
        other = await stack.enter_async_context(it.host(*kind, session=session))
        await it.app.gateway._finder.index.wait_indexed()
        tasks = Tasks.of(it, monkeypatch)
        for name, params in ASKED.items():
            expected = await outcome(it, host, params)
            assert tasks.names, name
            # A connection of 2026-07-28 knows the head of a tool that it called.
            await ask(other, params)
            tasks.names.clear()
            for one in (host, other, host):
                assert await outcome(it, one, params) == expected, name
            assert not tasks.names, name
        for name, params in ANEW.items():
            expected = await outcome(it, host, params)
            tasks.names.clear()
            assert await outcome(it, host, params) == expected, name
            assert tasks.names == [params["name"]], name
        it.nothing_is_left()


async def test_each_request_has_its_own_id_and_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C8, D8: of an answer that is given again only the result is the same."""
    async with direct_harness(tmp_path, monkeypatch) as it, it.host("http", MODERN) as host:
        await it.app.gateway._finder.index.wait_indexed()
        tasks = Tasks.of(it, monkeypatch)
        for _ in range(2):
            await ask(host, ASKED["a query"])
        tasks.names.clear()
        for number in (11, "twelve"):
            told = {**ASKED["a query"], "_meta": {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}}
            assert (await ask(host, told, number)).answer["id"] == number
            record = it.records[-1]
            assert (record.request_id, record.caller.agent_id, record.called.tool) == (number, "local", "search_tools")
            assert (record.trace.trace_id, record.trace.parent_id) == ("a" * 32, "b" * 16)
            assert record.outcome.status == "ok"
            assert [step.name for step in record.steps] == ["check"]
            assert record.duration >= record.steps[0].seconds
        assert not tasks.names


class Change(NamedTuple):
    """What changes after an answer, and whether the next one is given again."""

    change: Callable[[DirectHarness], Any]
    again: bool = False


def _observers(it: DirectHarness, **more: Any) -> None:
    for name, value in more.items():
        setattr(it.app.telemetry.observers, name, value)


async def _recorded(record: object) -> None:
    """Have the call on record at once."""


CHANGES: Final = {
    "nothing": Change(lambda it: None, again=True),
    "the tool is denied": Change(lambda it: rules(it, deny=["old.number"])),
    "a rule on arguments": Change(
        lambda it: rules(it, arguments={"old.number": {"properties": {"n": {"maximum": 0}}}})
    ),
    "other names": Change(lambda it: rules(it, names="compatible")),
    "the agent is no longer known": Change(lambda it: setattr(it.app.live, "rulebook", book({"agents": {}}))),
    "the tool is gone": Change(lambda it: list_again(it)),
    "one more tool": Change(lambda it: list_again(it, named("number"), named("number_of_numbers"))),
    "one more server": Change(one_more),
    "the server is called something else": Change(lambda it: reload(it, description="Number of numbers")),
    "the server is switched off": Change(lambda it: reload(it, enabled=False)),
    "the server is trusted": Change(lambda it: reload(it, trusted=True)),
    "calls are recorded first": Change(lambda it: _observers(it, begun=_recorded)),
    "records wait to be written": Change(lambda it: _observers(it, has_space=lambda: False)),
    "the process ends": Change(lambda it: it.app.gateway.drain.start(60.0)),
}


@pytest.mark.parametrize("asked", ["a query", "a description"])
@pytest.mark.parametrize("changed", CHANGES)
async def test_a_change_between_two_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str, asked: str
) -> None:
    """D4: the answer after a change is that of a host that is not known, and leaves the same record."""
    case, params = CHANGES[changed], ASKED[asked]
    async with direct_harness(tmp_path, monkeypatch, policies=tmp_path / "policies") as it, AsyncExitStack() as stack:
        rules(it)
        await it.app.gateway._finder.index.wait_indexed()
        hosts = [await stack.enter_async_context(it.host(*kind)) for kind in HOST_KINDS]
        for host in (*hosts, *hosts):
            await ask(host, params)
        session = hosts[2].headers["mcp_session_id"]
        fresh = [await stack.enter_async_context(it.host(*kind, session=session)) for kind in HOST_KINDS]
        if (waiting := case.change(it)) is not None:
            await waiting
        if not it.app.gateway.drain.started:
            await it.app.gateway._finder.index.wait_indexed()
        tasks = Tasks.of(it, monkeypatch)
        for kind, host, usual in zip(HOST_KINDS, hosts, fresh, strict=True):
            tasks.names.clear()
            found = await outcome(it, host, params)
            if case.again:
                assert not tasks.names
            elif kind == HOST_KINDS[0] and not it.app.gateway.drain.started:
                # The first host after a change has the answer made anew, which the others may then be given.
                assert tasks.names
            assert found == await outcome(it, usual, params)


async def test_answers_are_those_of_the_own_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """D4: agents with other rules, and a key that is revoked, get nothing of what was kept for others."""
    keys = {name: new_key(name, now=0.0) for name in ("a", "b")}
    async with (
        direct_harness(tmp_path, monkeypatch, policies=tmp_path / "policies") as it,
        it.host("http", MODERN, x_api_key=keys["a"].text) as a,
        it.host("http", MODERN, x_api_key=keys["b"].text) as b,
    ):
        assert it.app.live is not None
        it.app.live.rulebook = book({"agents": {"a": {"allow": ["old.*"]}, "b": {"allow": ["new.*"]}}})
        it.app.access.keyring.use_policy_keys([key.record for key in keys.values()])
        await it.app.gateway._finder.index.wait_indexed()
        for _ in range(3):
            for host, server in ((a, "old"), (b, "new")):
                lines = (await ask(host, ASKED["a query"])).text.splitlines()
                assert lines[0].startswith(f"{server}.number")
                assert {line.partition(".")[0] for line in lines} == {server}
        it.app.access.keyring.use_policy_keys([keys["b"].record])
        assert (await ask(a, ASKED["a query"])).head[0] == "HTTP/1.1 401 Unauthorized"
        assert (await ask(b, ASKED["a query"])).text.startswith("new.number")


async def test_a_server_that_is_away_is_said_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C11: what was found while it was there is not given again; nor is the note once it is back."""
    servers = {"old": child("legacy"), "new": child("modern")}
    async with direct_harness(tmp_path, monkeypatch, servers) as it, it.host("http", MODERN) as host:
        await it.app.gateway._finder.index.wait_indexed()
        there = [(await ask(host, ASKED["a query"])).text for _ in range(2)]
        assert "is away" not in there[0]
        lifecycle = it.app.upstreams["old"].lifecycle
        for event in ("lost", "gave_up"):
            lifecycle.move(event)
        for _ in range(2):
            assert "old is away" in (await ask(host, ASKED["a query"])).text
        lifecycle.move("connected")
        assert (await ask(host, ASKED["a query"])).text == there[0] == there[1]


async def test_each_snapshot_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """D4: an answer that was kept, or was begun, before any of the snapshots was replaced is not given after that."""
    async with direct_harness(tmp_path, monkeypatch, policies=tmp_path / "policies") as it:
        gateway, live = it.app.gateway, it.app.live
        finder, views, kept = gateway._finder, gateway.views, gateway._meta._kept_answers
        await finder.index.wait_indexed()
        view = views.of(Principal("local"))
        result = {"content": [{"type": "text", "text": "x"}]}
        answer = KeptAnswer(gateway._meta_tools["search_tools"].record, {}, result)
        replaced: dict[str, tuple[Any, Any]] = {
            "tools": (gateway._current, Catalog()),
            "resources": (gateway._current, ItemCatalog()),
            "held": (gateway._current, HeldItems()),
            "_config": (finder, it.config.model_copy()),
            "searchable": (finder.index, None),
            "unsearchable": (finder.index, {"old": "it cannot be read"}),
            "_changed": (it.app.supervisor, asyncio.Event()),
            "rulebook": (live, book({"agents": {"local": {"allow": ["*"]}}})),
            "trusted": (views, dict(views.trusted)),
        }
        for name, (owner, new) in replaced.items():
            kept.keep(began := kept.moment(), view, {}, answer)
            assert kept.find(view, "search_tools", {}) is answer, name
            with monkeypatch.context() as patch:
                patch.setattr(owner, name, new)
                assert kept.find(view, "search_tools", {}) is None, name
                kept.keep(began, view, {}, answer)
                assert kept.find(view, "search_tools", {}) is None, name
        finder.meanings.tools = ()
        assert kept.moment() is not began
        assert not finder.settled
