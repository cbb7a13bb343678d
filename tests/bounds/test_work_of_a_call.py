"""The work of a call on the event loop, in byte codes of the package: no other program on the machine changes them.

Each way to call is counted with few servers, tools, agents, sessions and earlier calls, and with many of all of them.
"""

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from aggregator.identity.keys import new_key, policy_line
from tests.bounds.answering_upstreams import WORD, answering_upstreams
from tests.bounds.work import Work
from tests.direct.direct_harness import HttpHost, ask, direct_harness
from tests.end_to_end.scripted_host import LEGACY, MODERN

# A loop over the many costs ten byte codes for each at least. Longer names and numbers cost less than this share.
GROWTH: Final = 1.03
# Counts of one way, until so many in a row were no better; background work stands in some of them.
MOST: Final = 60
IN_A_ROW: Final = 4
# The same where calls of functions are counted, which takes less time, and has to be exact.
MOST_EXACT: Final = 400
IN_A_ROW_EXACT: Final = 40


class Size(NamedTuple):
    """How much there is of each: `tools` of each server, `calls` that were made before."""

    servers: int
    tools: int
    agents: int
    sessions: int
    calls: int


FEW: Final = Size(2, 2, 2, 2, 2)
MANY: Final = Size(50, 50, 50, 50, 50)
# By number of servers.
SERVERS: Final = {number: Size(number, 10, 1, 1, 1) for number in (1, 10, 100)}
# How much more a call through a meta tool or over `/v1` may do than a call by name; and how much of that a meta tool
# does that gives an answer again.
THROUGH: Final = 1.3
AGAIN: Final = 0.5
# How much more a call may do that flow rules decide: each of their functions is small.
DECIDED: Final = 1.3
ARGUMENTS: Final = {"text": "a line", "limit": 3}
# By way: the tool that the host calls, with its arguments.
CALLS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "direct": ("s0.t0", ARGUMENTS),
    "call_tool": ("call_tool", {"name": "s0.t0", "arguments": ARGUMENTS}),
    "call_tool, a host's prefix": ("call_tool", {"name": "mcp__aggregator__s0__t0", "arguments": ARGUMENTS}),
    "call_tool, another case": ("call_tool", {"name": "S0.T0", "arguments": ARGUMENTS}),
    "call_tool, without its server": ("call_tool", {"name": "t0", "arguments": ARGUMENTS}),
    "call_tool, with its server": ("call_tool", {"name": "t0", "server": "s0", "arguments": ARGUMENTS}),
    "read_tool": ("read_tool", {"name": "s0.t0", "arguments": ARGUMENTS}),
    "describe_tools": ("describe_tools", {"names": ["s0.t0"]}),
    "search_tools": ("search_tools", {"query": WORD}),
    "search_tools of a server": ("search_tools", {"query": WORD, "server": "S0"}),
}
# They name the tool that is called, and nothing that was read forbids the call.
FLOW_RULES: Final = {
    "labels": {"private": ["s1.*"], "outward": ["s0.*"]},
    "flow": [{"after": "private", "calls": "outward", "then": "deny"}],
}
ANSWERED: Final = ("search_tools", "search_tools of a server", "describe_tools")
SPELLED: Final = [way for way in CALLS if way.startswith("call_tool, ")]
READS: Final[dict[str, dict[str, Any]]] = {
    "resources/read": {"uri": "note://s0"},
    "prompts/get": {"name": "s0.ask"},
    "completion/complete": {"ref": {"type": "ref/prompt", "name": "s0.ask"}, "argument": {"name": "of", "value": ""}},
}
WAYS: Final = (
    *((way, MODERN) for way in CALLS),
    *((way, LEGACY[-1]) for way in ("direct", "call_tool")),
    *((way, LEGACY[-1]) for way in READS),
    ("/v1", MODERN),
)


def _act(host: HttpHost, way: str) -> Callable[[], Awaitable[None]]:
    """Return what calls in one way."""

    async def call() -> None:
        name, arguments = CALLS[way]
        answer = (await ask(host, {"name": name, "arguments": arguments})).answer
        assert not answer["result"].get("isError"), answer

    async def read() -> None:
        host.send({"jsonrpc": "2.0", "id": 7, "method": way, "params": READS[way]})
        answer = (await host.receive()).answer
        assert "result" in answer, answer

    async def post() -> None:
        body = {"tool_call": {"name": "s0.t0", "arguments": ARGUMENTS}}
        answer = await host.connection.ask("/v1/tool_calls", body, authorization=host.headers["authorization"])
        assert answer.status == 200, answer.body

    return call if way in CALLS else read if way in READS else post


async def _least(act: Callable[[], Awaitable[None]], *, calls: bool = False) -> Work:
    """Return the least work of an act, once it has been done before and nothing runs in the background. `calls`: count
    calls of functions, not byte codes.
    """
    least: Work | None = None
    worse = 0
    for _ in range(MOST_EXACT if calls else MOST):
        work = Work()
        with work.called() if calls else work.counted():
            await act()
        if not work.is_whole:
            continue
        if least is None or work.total < least.total:
            least, worse = work, 0
            continue
        worse += 1
        if worse == (IN_A_ROW_EXACT if calls else IN_A_ROW):
            return least
    raise AssertionError("the work of a call does not settle")


@asynccontextmanager
async def _hosts(
    folder: Path, patch: pytest.MonkeyPatch, size: Size, **rules_of_all: Any
) -> AsyncIterator[dict[str, HttpHost]]:
    """Run a gateway of this size; yield a host of each era. `rules_of_all`: more of the policies."""
    policies = folder / "policies"
    policies.mkdir(parents=True)
    keys = {f"a{at}": new_key(f"a{at}", now=time.time()) for at in range(size.agents)}
    limits = {"*": {"per_minute": 100_000}}
    rules = {
        agent: {"keys": [policy_line(key.record)], "allow": ["s*.*", "resource:**", "prompt:**"], "limits": limits}
        for agent, key in keys.items()
    }
    (policies / "main.yaml").write_text(json.dumps({"agents": rules, **rules_of_all}))
    servers, authorization = answering_upstreams(patch, size.servers, size.tools), f"Bearer {keys['a0'].text}"
    database = f"sqlite+aiosqlite:///{folder / 'aggregator.db'}"
    running = direct_harness(folder, patch, servers, policies=policies, database=database, read_tool=True)
    async with running as it:
        for _ in range(size.sessions):
            await it.open_session(LEGACY[-1], authorization=authorization)
        old = it.host("http", LEGACY[-1], authorization=authorization)
        new = it.host("http", MODERN, authorization=authorization)
        async with old as legacy, new as modern:
            await it.app.gateway._finder.index.wait_indexed()
            for _ in range(size.calls):
                await _act(modern, "direct")()
            yield {LEGACY[-1]: legacy, MODERN: modern}


async def test_no_call_pays_for_how_many_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers, tools, agents, sessions, and rows of earlier calls: no way to call does more work if there are many."""
    counted = []
    for size in (FEW, MANY):
        async with _hosts(tmp_path / f"{size.servers}", monkeypatch, size) as hosts:
            counted.append({(way, era): await _least(_act(hosts[era], way)) for way, era in WAYS})
    for way, few in counted[0].items():
        many = counted[1][way]
        assert many.total <= few.total * GROWTH, f"{way}: {many.more_than(few)}"


async def test_calls_through_meta_tools_cost_what_direct_ones_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 1, 10 and 100 servers, the same Python calls: by name, by a meta tool, over `/v1`, for an answer again."""
    ways = [(way, era) for way in ("direct", "call_tool", "read_tool") for era in (LEGACY[-1], MODERN)]
    ways += [(way, MODERN) for way in (*SPELLED, "/v1")]
    counted: dict[tuple[str, str], list[Work]] = {}
    for number, size in SERVERS.items():
        async with _hosts(tmp_path / f"{number}", monkeypatch, size) as hosts:
            for way, era in (*ways, *((way, MODERN) for way in ANSWERED)):
                work = await _least(_act(hosts[era], way), calls=True)
                counted.setdefault((way, era), []).append(work)
    for way, era in ways:
        found = counted[way, era]
        assert len({work.total for work in found}) == 1, (way, era, found[-1].more_than(found[0]))
        assert found[0].total <= counted["direct", era][0].total * THROUGH, (way, era)
    for way in ANSWERED:
        found = counted[way, MODERN]
        assert len({work.total for work in found}) == 1, (way, found[-1].more_than(found[0]))
        assert found[0].total <= counted["direct", MODERN][0].total * AGAIN, (way, found[0].by_function)


async def test_a_call_that_a_flow_rule_names_costs_what_others_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a session and outside of any: what was read is known, and no database is asked."""
    counted: list[dict[str, Work]] = []
    for at, rules in enumerate(({}, FLOW_RULES)):
        async with _hosts(tmp_path / f"{at}", monkeypatch, FEW, **rules) as hosts:
            counted.append({era: await _least(_act(host, "direct"), calls=True) for era, host in hosts.items()})
    without, flow = counted
    for era, work in flow.items():
        assert work.total <= without[era].total * DECIDED, (era, sorted(work.more_than(without[era]).items()))
