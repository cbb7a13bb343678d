"""Calls over `/v1` that need no task are answered as those in one, and leave the same records."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from aggregator.frontends.v1.conversations import CallCount
from aggregator.frontends.v1.execute import CallRunner
from aggregator.frontends.v1.parse_calls import ParsedCall
from aggregator.identity.keys import new_key
from aggregator.replicas.group.usage import UsageLevel
from tests.bounds.web_harness import RawConnection, head
from tests.direct.direct_harness import (
    DIRECT,
    PIPELINE,
    TAKEN_OVER,
    DirectHarness,
    HostAnswer,
    HttpHost,
    direct_harness,
    free,
    result,
    take_time,
    text,
)
from tests.direct.test_between_calls import NO_TRACE, list_again, rules
from tests.end_to_end.scripted_host import MODERN
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json
from tests.polling import until

ONE: Final[Json] = {"n": 1}
ANY_NUMBER: Final[Json] = {"max_calls_per_conversation": None}
_PARENT: Final = f"00-{'a' * 32}-{'b' * 16}-01"


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no call become a slow one on a busy machine."""
    take_time(monkeypatch)


class V1Client(HttpHost):
    """A client of `/v1` on one connection."""

    def __init__(self, connection: RawConnection) -> None:
        super().__init__(connection, MODERN, {})

    def bytes_of(self, message: Any, **headers: str) -> bytes:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        fields = {"content_type": "application/json", **headers, "content_length": str(len(body))}
        return head("POST", "/v1/tool_calls", **fields) + body


@asynccontextmanager
async def client(it: DirectHarness) -> AsyncIterator[V1Client]:
    """Connect a client."""
    async with RawConnection(it.port) as connection:
        yield V1Client(connection)


def single(name: str = "old.any", arguments: Any = ONE, **more: Any) -> Json:
    return {"tool_call": {"name": name, "arguments": arguments}, **more}


async def ask(host: V1Client, body: Any, **headers: str) -> HostAnswer:
    host.send(body, **headers)
    return await host.receive()


async def made(it: DirectHarness, host: V1Client, body: Any, *, on: bool, **headers: str) -> Any:
    """Make a call; return its answer, its record, and its way."""
    it.on, before = on, len(it.ways)
    answer, records = await it.outcome(lambda: ask(host, body, **headers))
    return answer, [replace(record, trace=NO_TRACE) for record in records], it.ways[before:]


async def nothing_is_left(it: DirectHarness) -> None:
    """Check that nothing is held; a task gives its place back once its answer is written."""
    await until(lambda: it.app.gateway.admission.in_use["pending"] == 0, "no place is taken")
    it.nothing_is_left()


class Case(NamedTuple):
    """A body after a plain call, and the ways of its calls."""

    body: Any
    ways: list[str]


CASES: Final[dict[str, Case]] = {
    "the same": Case(single(), [DIRECT]),
    "another tool": Case(single("new.any"), [DIRECT]),
    "another spelling": Case(single("old__any"), [DIRECT]),
    "no arguments": Case({"tool_call": {"name": "old.any"}}, [DIRECT]),
    "arguments in a text": Case(single(arguments='{"n": 1}'), [DIRECT]),
    "a conversation": Case(single(conversation_id="c"), [DIRECT]),
    "an id": Case({"tool_call": {"id": "one", "name": "old.any", "arguments": ONE}}, [DIRECT]),
    "as OpenAI has it": Case(
        {"tool_calls": [{"id": "one", "type": "function", "function": {"name": "old__any", "arguments": "{}"}}]},
        [DIRECT],
    ),
    "as Anthropic has it": Case(
        {"content": [{"type": "tool_use", "id": "one", "name": "old__any", "input": ONE}]}, [DIRECT]
    ),
    "through a meta tool": Case(single("call_tool", {"name": "old.any", "arguments": ONE}), [DIRECT]),
    "through it, in another spelling": Case(single("call_tool", {"name": "OLD.any", "arguments": ONE}), [DIRECT]),
    "structured content": Case(single(arguments={"writes": [result(content=[], structuredContent=ONE)]}), [DIRECT]),
    "an image": Case(
        single(arguments={"writes": [result(content=[{"type": "image", "mimeType": "image/png", "data": "AA=="}])]}),
        [DIRECT],
    ),
    "a failure": Case(
        single(arguments={"writes": [result(content=[{"type": "text", "text": "no"}], isError=True)]}), [TAKEN_OVER]
    ),
    "an error": Case(
        single(arguments={"writes": ['{"jsonrpc":"2.0","id":$ID,"error":{"code":-32000,"message":"no"}}']}),
        [TAKEN_OVER],
    ),
    "a large result": Case(single(arguments={"writes": [text("$FILL")], "fill": 300_000}), [TAKEN_OVER]),
    "two calls": Case({"tool_calls": [{"id": i, "function": {"name": "old__any"}} for i in "ab"]}, [PIPELINE] * 2),
    "a tool for programs": Case(single("new.app"), [PIPELINE]),
    "a tool of ours": Case(single("list_servers", {}), []),
    "a program": Case(single("run_code", {"code": "1"}), [PIPELINE]),
    "an unknown tool": Case(single("old.none"), [PIPELINE]),
    "arguments that do not fit": Case(single("old.number", {"n": "x"}), [PIPELINE]),
    "arguments that are no object": Case(single(arguments="[1]"), []),
    "two forms": Case({**single(), "tool_calls": []}, []),
    "no JSON": Case(b"{", []),
    "no object": Case([1], []),
}  # fmt: skip


async def test_each_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A3, C8: every body is answered as in a task, with the same bytes, and leaves the same records."""
    async with direct_harness(tmp_path, monkeypatch, v1=ANY_NUMBER) as it, client(it) as usual, client(it) as host:
        for name, case in CASES.items():
            expected, records, _ = await made(it, usual, case.body, on=False)
            await ask(host, single())
            found, found_records, ways = await made(it, host, case.body, on=True)
            assert (found, found_records) == (expected, records), name
            assert ways == case.ways, name
        await nothing_is_left(it)


CHANGES: Final[dict[str, Any]] = {
    "the tool is denied": lambda it: rules(it, deny=["old.number"]),
    "a person has to agree": lambda it: rules(it, confirm=["old.number"]),
    "the agent is gone": lambda it: rules(it, allow=[]),
    "the tool is gone": list_again,
    "the process ends": lambda it: it.app.gateway.drain.start(60.0),
    "the place is taken": lambda it: setattr(it.app.gateway.admission._places["pending"], "most", 0),
}


@pytest.mark.parametrize("limit", [None, 2])
async def test_calls_of_a_conversation_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int | None
) -> None:
    """C9: the limit of a conversation counts calls that take no task, and those of other conversations apart."""
    v1 = {"max_calls_per_conversation": limit}
    async with direct_harness(tmp_path, monkeypatch, v1=v1) as it, client(it) as host:
        for name in ("one", "two"):
            statuses = []
            for _ in range(4):
                answer = await ask(host, single(conversation_id=name))
                statuses.append(answer.head[0].split()[1])
            assert statuses == ["200"] * 4 if limit is None else ["200", "200", "429", "429"], name
        # Each call of the second conversation that was allowed repeats the first one's.
        assert it.ways[1] == DIRECT
        assert [await _status(host, "c", x_conversation_id="c") for _ in range(3)] == (
            ["200"] * 3 if limit is None else ["200", "200", "429"]
        )
        await nothing_is_left(it)


async def _status(host: V1Client, name: str, **headers: str) -> str:
    return (await ask(host, single(), **headers)).head[0].split()[1]


async def test_a_call_that_was_not_sent_after_all_is_not_counted() -> None:
    """C9: a task that takes a call over finds that no server could be asked again."""
    count = CallCount(UsageLevel(), None)

    async def take_over(*_: Any) -> Json:
        code = {"aggregator/error": {"code": "upstream_unavailable"}}
        return {"content": [], "isError": True, "_meta": code}

    direct = SimpleNamespace(take_over=take_over, rate_limits=SimpleNamespace(shared=None))
    runner: Any = CallRunner(SimpleNamespace(direct=direct), 1)  # type: ignore[arg-type]
    count.add(1, 0.0)
    assert count.has_room(1, 0.0) is False
    outcome = await runner.rest(SimpleNamespace(), ParsedCall("old.any"), count)
    assert outcome.code == "upstream_unavailable"
    assert count.has_room(1, 0.0) is True


async def test_its_client_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """D4: the call ends with its client."""
    async with direct_harness(tmp_path, monkeypatch) as it:
        async with client(it) as host:
            await ask(host, single())
            host.send(single(arguments={"keep": "k", "writes": [text("late")]}))
            await until(lambda: len(it.direct) == 1, "it is sent")
        await until(lambda: len(it.records) == 2, "it is on record")
        assert (it.way, it.records[-1].outcome.status) == (TAKEN_OVER, "cancelled")
        await until(lambda: it.app.gateway.admission.in_use["pending"] == 0, "its place is free")
        await nothing_is_left(it)


async def test_its_key_is_revoked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """D4: the call ends, its client is refused, and the next one with that key too."""
    monkeypatch.setattr("aggregator.gateway.revocation.REVIEW_EVERY", 0.02)
    key, found = new_key("one", now=0.0), []
    async with direct_harness(tmp_path, monkeypatch) as it:
        for on in (False, True):
            it.app.access.keyring.use_policy_keys([key.record])
            async with client(it) as host:
                it.on = True
                await ask(host, single(), x_api_key=key.text)
                it.on = on
                before = len(it.ways)
                host.send(single(arguments={"keep": "k", "writes": [text("late")]}), x_api_key=key.text)
                await until(lambda before=before: len(it.ways) > before, "it is sent")  # type: ignore[misc]
                it.app.access.keyring.use_policy_keys([])
                answer = await host.receive()
                await nothing_is_left(it)
                found.append((answer.head, it.records[-1].outcome.status, it.ways[before:]))
            async with client(it) as host:
                assert (await ask(host, single(), x_api_key=key.text)).head[0].split()[1] == "401"
            free(it, "old")
    assert found[0][:2] == found[1][:2]
    assert (found[1][1:]) == ("cancelled", [TAKEN_OVER])


async def test_a_slow_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """D4: a task takes it over, and answers as ever."""
    monkeypatch.setattr("aggregator.gateway.calls.direct.SLOW", 0.05)
    async with direct_harness(tmp_path, monkeypatch) as it, client(it) as host:
        plain = await ask(host, single())
        host.send(single(arguments={"keep": "k", "writes": [text("late")]}))
        await until(lambda: it.ways == [PIPELINE, TAKEN_OVER], "a task takes it over")
        free(it, "old")
        answer = await host.receive()
        assert answer.head[:1] == plain.head[:1]
        assert json.loads(answer.messages[0])["content"] == "late"
        await nothing_is_left(it)


_BODIES: Final = [
    *[case.body for case in CASES.values()],
    single("new.typed", {"writes": [result(content=[], structuredContent=ONE)]}),
    *[single(conversation_id=name) for name in ("", "c", "d", "x" * 300, None)],
    *[single(arguments=given) for given in ({}, None, "", "{}", [1], {"n": True}, {"n": 2**70}, {"a": {"b": [None]}})],
    *[single(name) for name in ("old.any", "new.any", "old.number", "new.typed", "any", "OLD.any", "", "search_tools")],
    *[{"tool_call": None}, {"content": "x"}, {"tool_calls": []}, {"content": [{"type": "text"}]}],
    *[single("call_tool", {"name": name}) for name in ("any", "`new.any`", "mcp__aggregator__old__any", "none")],
]
_HEADERS: Final = [
    *[{}, {}, {}, {}, {"traceparent": _PARENT}, {"traceparent": "x"}, {"x_user_id": "u"}, {"x_conversation_id": "c"}],
    *[{"x_session_id": "s"}, {"baggage": "a=1"}, {"content_type": "text/plain"}, {"x_conversation_id": "x" * 300}],
]  # fmt: skip


def test_any_sequence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A3, C8: what came before on a connection changes nothing."""
    ways: set[str] = set()
    with BackgroundLoop() as background:
        it = background.open(direct_harness(tmp_path, monkeypatch, v1=ANY_NUMBER), leans=True)
        usual, host = (background.open(client(it), leans=True) for _ in range(2))

        @settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
        @given(st.lists(st.tuples(st.sampled_from(_BODIES), st.sampled_from(_HEADERS)), min_size=2, max_size=6))
        # A call by each way, whatever is drawn.
        @example([(CASES[name].body, {}) for name in ("the same", "a failure", "two calls")])
        def check(calls: list[tuple[Any, dict[str, str]]]) -> None:
            for body, headers in [(single(), {}), *calls]:
                expected = background.run(made(it, usual, body, on=False, **headers))
                found = background.run(made(it, host, body, on=True, **headers))
                assert found[:2] == expected[:2], (body, headers)
                ways.update(found[2])

        check()
        background.run(nothing_is_left(it))
    assert {PIPELINE, DIRECT, TAKEN_OVER} <= ways


@pytest.mark.parametrize("changed", CHANGES)
async def test_a_change_between_two_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str) -> None:
    """D4, D8: the call after a change is answered as one of a client that is not known."""
    async with direct_harness(tmp_path, monkeypatch, policies=tmp_path / "policies") as it:
        rules(it)
        async with client(it) as usual, client(it) as host:
            for one in (usual, host):
                for _ in range(2):
                    await ask(one, single("old.number"))
            assert it.way == DIRECT
            if (waiting := CHANGES[changed](it)) is not None:
                await waiting
            found, found_records, ways = await made(it, host, single("old.number"), on=True)
            expected, records, _ = await made(it, usual, single("old.number"), on=False)
            assert (found, found_records) == (expected, records)
            assert DIRECT not in ways
