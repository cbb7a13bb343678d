"""What changes between two calls of a connection holds for the second, as if the first had never been."""

import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from aggregator.config.difference import difference
from aggregator.config.load import load
from aggregator.domain.call_record import TraceContext
from aggregator.domain.trace_context import as_caller
from aggregator.upstream.transports import stdio
from tests.direct.direct_harness import (
    DIRECT,
    HOST_KINDS,
    PIPELINE,
    SPELLED,
    TAKEN_OVER,
    DirectHarness,
    ask,
    child,
    direct_harness,
    free,
    request,
    text,
)
from tests.end_to_end.server_harness import write_config
from tests.peers.toolbox import Json
from tests.policy.build import book
from tests.polling import until

LOCAL: Final[Json] = {"allow": ["*"]}


def rules(it: DirectHarness, **more: Any) -> None:
    """Put other rules for the local agent into force."""
    assert it.app.live is not None
    it.app.live.rulebook = book({"agents": {"local": {**LOCAL, **more}}})


async def reload(it: DirectHarness, **fields: Any) -> None:
    """Put a configuration into force in which the old server has these fields."""
    servers = {"old": child("legacy", **fields), "new": child("modern")}
    path = write_config(it.path.parent, servers if fields else {**servers, "more": child("modern")})
    loaded = load(path, dict(os.environ))
    app = it.app._reconfiguration
    await app.prepare(loaded.config)
    app.apply(difference(app.config, loaded.config))


async def one_more(it: DirectHarness) -> None:
    """Put a configuration with another server into force."""
    await reload(it)
    await it.app.supervisor.wait_all_tried()


async def list_again(it: DirectHarness, *tools: Json, any_tool: str = "old.any") -> None:
    """Have the old server, or the one of another tool, list other tools."""
    before = it.app.gateway.catalog
    it.on = False
    async with it.host("http", "2026-07-28") as other:
        await ask(other, {"name": any_tool, "arguments": {"tools": [ANY, *tools]}})
    await until(lambda: it.app.gateway.catalog is not before, "the catalog is another")


def named(name: str) -> Json:
    """A tool of this name."""
    return {"name": name, "inputSchema": {"type": "object"}}


ANY: Final = {"name": "any", "inputSchema": {"type": "object"}}
NUMBER: Final = {"name": "number", "inputSchema": {"type": "object"}}
NO_TRACE: Final = TraceContext("", "")


class Case(NamedTuple):
    """A change, the arguments of the call after it, and the way in which that is answered; `way_through`: if it comes
    through a meta tool, and that makes a difference.
    """

    change: Callable[[DirectHarness], Any]
    way: str = PIPELINE
    arguments: Any = {"n": 1}  # noqa: RUF012 - never changed
    way_through: str | None = None


def _observers(it: DirectHarness, **more: Any) -> None:
    for name, value in more.items():
        setattr(it.app.telemetry.observers, name, value)


async def _recorded(record: object) -> None:
    """Have the call on record at once."""


CASES: Final = {
    "nothing": Case(lambda it: None, DIRECT),
    "the tool is denied": Case(lambda it: rules(it, deny=["old.number"])),
    "the agent is allowed nothing": Case(lambda it: rules(it, allow=[])),
    "nobody is allowed anything": Case(lambda it: setattr(it.app.live, "rulebook", book({"agents": {"x": LOCAL}}))),
    "a person has to agree": Case(lambda it: rules(it, confirm=["old.number"])),
    "a rule on arguments": Case(lambda it: rules(it, arguments={"old.number": {"properties": {"n": {"maximum": 0}}}})),
    "a rule on arguments that fit": Case(
        lambda it: rules(it, arguments={"old.number": {"properties": {"n": {"maximum": 5}}}}), DIRECT
    ),
    "a look-alike of an argument": Case(
        lambda it: rules(it, arguments={"old.number": {"properties": {"n": {"maximum": 5}}}}),
        arguments={"n": 1, "N": 9},
    ),
    "one at once": Case(lambda it: rules(it, limits={"old.number": {"concurrent": 1}}), DIRECT),
    "a short result": Case(
        lambda it: rules(it, limits={"old.number": {"result_bytes": "1KiB"}}),
        TAKEN_OVER,
        arguments={"n": 1, "writes": [text("x" * 5000)]},
    ),
    "names without dots": Case(lambda it: rules(it, names="compatible"), DIRECT),
    "a tenant": Case(
        lambda it: setattr(
            it.app.live,
            "rulebook",
            book({"tenants": {"t": {"servers": ["new"]}}, "agents": {"local": {**LOCAL, "tenant": "t"}}}),
        ),
        DIRECT,
    ),
    "arguments are not put right": Case(lambda it: reload(it, coerce=False), arguments={"n": "1"}),
    "results must fit": Case(lambda it: reload(it, output_validation="enforce"), DIRECT),
    "results say where they are from": Case(lambda it: reload(it, attribution="visible"), DIRECT),
    "the server is switched off": Case(lambda it: reload(it, enabled=False)),
    "another server is there": Case(one_more, DIRECT),
    "another server stands in": Case(lambda it: reload(it, fallbacks=["new"]), DIRECT),
    "a time limit of its own": Case(lambda it: reload(it, timeout=0.9)),
    "the tool is gone": Case(list_again),
    "the tool takes anything": Case(lambda it: list_again(it, NUMBER), DIRECT, {"n": "x"}),
    "the tool has another schema": Case(
        lambda it: list_again(it, {**NUMBER, "inputSchema": {"type": "object", "required": ["m"]}})
    ),
    "the tool has a schema of results": Case(
        lambda it: list_again(it, {**NUMBER, "outputSchema": {"type": "object", "required": ["m"]}}), TAKEN_OVER
    ),
    "the tool is for programs": Case(
        lambda it: list_again(it, {**NUMBER, "_meta": {"ui": {"visibility": ["app"]}}}), DIRECT, way_through=PIPELINE
    ),
    "calls are traced": Case(lambda it: it.app.telemetry.observers.start_tracing(as_caller), DIRECT),
    "calls are recorded first": Case(lambda it: _observers(it, begun=_recorded)),
    "records wait to be written": Case(lambda it: _observers(it, has_space=lambda: False)),
    "the process ends": Case(lambda it: it.app.gateway.drain.start(60.0)),
    "the server does not answer": Case(lambda it: setattr(it.app.upstreams["old"].health.circuit, "position", "open")),
    "requests wait for the server": Case(lambda it: setattr(it.app.upstreams["old"]._idle, "uses", 10**6)),
}


@pytest.mark.parametrize("through", [None, "call_tool", SPELLED], indirect=True)
@pytest.mark.parametrize("changed", CASES)
async def test_a_change_between_two_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str, through: str | None
) -> None:
    """D4, D8: the call after a change is answered as one of a host that is not known, and leaves the same record."""
    case = CASES[changed]
    way = case.way if through is None else case.way_through or case.way
    async with direct_harness(tmp_path, monkeypatch, policies=tmp_path / "policies") as it, AsyncExitStack() as stack:
        rules(it)
        params = {"name": "old.number", "arguments": {"n": 1}}
        hosts = [await stack.enter_async_context(it.host(*kind)) for kind in HOST_KINDS]
        for host in hosts:
            for _ in range(2):
                await ask(host, params)
            assert it.way == DIRECT
        session = hosts[2].headers["mcp_session_id"]
        fresh = [await stack.enter_async_context(it.host(*kind, session=session)) for kind in HOST_KINDS]
        if (waiting := case.change(it)) is not None:
            await waiting
        for kind, host, usual in zip(HOST_KINDS, hosts, fresh, strict=True):
            it.on = True
            before = len(it.ways)
            found = await it.outcome(lambda host=host: ask(host, {**params, "arguments": case.arguments}))  # type: ignore[misc]
            ways = it.ways[before:]
            it.on = False
            expected = await it.outcome(lambda usual=usual: ask(usual, {**params, "arguments": case.arguments}))  # type: ignore[misc]
            # An id more is drawn for a call that turns out to be for a task.
            for _, records in (found, expected):
                records[:] = [replace(record, trace=NO_TRACE) for record in records]
            assert found == expected
            # With other rules, a request over HTTP is authenticated anew.
            assert ways in ([], [way], [PIPELINE] * (kind[0] == "http"))


@pytest.mark.usefixtures("through")
@pytest.mark.parametrize("kind", HOST_KINDS, ids="-".join)
async def test_limits_count_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: tuple[str, str]) -> None:
    """D8: calls a minute, at one time and in a conversation; a call in the pipeline counts as a direct one does."""
    limits = {"old.number": {"per_minute": 4}, "old.any": {"concurrent": 1}, "new.any": {"per_conversation": 4}}
    meta = {"_meta": {"aggregator/conversation_id": "c"}}
    async with direct_harness(tmp_path, monkeypatch, policies=tmp_path / "policies") as it, it.host(*kind) as host:
        rules(it, limits=limits)
        for tool in ("old.number", "new.any"):
            params = {"name": tool, "arguments": {"n": 1}, **meta}
            for on in (False, True, False, True, True, False):
                it.on = on
                answer = (await ask(host, params)).answer["result"]
                refused = answer.get("isError", False)
                assert it.way == (DIRECT if on and not refused else PIPELINE)
                assert refused == (len(it.ways) % 6 in (5, 0)), it.ways
        it.on = True
        for script in ({}, {"keep": "k", "writes": [text("late")]}):
            host.send(request(host, {"name": "old.any", "arguments": script}))
            if not script:
                await host.receive()
        await until(lambda: it.app.upstreams["old"].in_flight == 1, "a call runs")
        async with it.host("http", "2026-07-28") as other:
            for _ in range(2):
                assert (await ask(other, {"name": "old.any", "arguments": {}})).answer["result"]["isError"]
        free(it, "old")
        assert (await host.receive()).text == "late"
        await ask(host, {"name": "old.any", "arguments": {}})
        assert it.way == DIRECT
        it.nothing_is_left()


@pytest.mark.usefixtures("through")
async def test_places_among_requests_count_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """D11: a direct call takes a place, and one that finds none is counted as refused once."""
    async with direct_harness(tmp_path, monkeypatch, http={"max_pending": 1}) as it:
        async with it.host(*HOST_KINDS[3]) as host, it.host(*HOST_KINDS[3]) as other:
            for one in (host, other, host):
                await ask(one, {"name": "old.any", "arguments": {}})
            assert it.way == DIRECT
            host.send(request(host, {"name": "old.any", "arguments": {"keep": "k", "writes": [text("late")]}}))
            await until(lambda: it.app.upstreams["old"].in_flight == 1, "a call runs")
            assert it.way == DIRECT
            answer = await ask(other, {"name": "old.any", "arguments": {}})
            assert answer.head[0].startswith("HTTP/1.1 503 ")
            assert it.app.gateway.admission.refused == {"pending": 1}
            free(it, "old")
            assert (await host.receive()).text == "late"
            await ask(other, {"name": "old.any", "arguments": {}})
            assert it.way == DIRECT
        it.nothing_is_left()


@pytest.mark.parametrize("kind", HOST_KINDS, ids="-".join)
async def test_a_server_that_reads_no_more_is_left_to_the_pipeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: tuple[str, str]
) -> None:
    """A7: nothing is sent, and the host gets the reason; once the server reads again, calls take no task again."""
    params: Json = {"name": "it.any", "arguments": {"lines": [text("x")]}}
    async with direct_harness(tmp_path, monkeypatch, {"it": child("legacy")}) as it, it.host(*kind) as host:
        for number in (1, 2):
            await ask(host, params, number)
        assert it.way == DIRECT
        with monkeypatch.context() as unread:
            unread.setattr(stdio, "UNREAD_LIMIT", -1)
            refused = (await ask(host, params, 3)).answer["result"]
        assert it.way == PIPELINE
        assert refused["isError"] is True
        assert "does not read what it is sent" in str(refused["content"])
        await ask(host, params, 4)
        assert it.way == DIRECT
        it.nothing_is_left()
