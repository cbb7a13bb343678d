"""Policies and checks: what each step costs, whether it grows with agents and tools, and what a call pays in all."""

import asyncio
import gc
import statistics
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

from aggregator.app.build import build_app
from aggregator.domain.decision import Decision
from aggregator.domain.principal import Principal
from aggregator.domain.records import ToolRecord
from aggregator.flow.decide.decide_flow import FlowState, LabelSource, decide_flow
from aggregator.frontends.web.credentials import request_facts
from aggregator.frontends.web.host_guard import SOURCE
from aggregator.gateway.calls.validate import Checker
from aggregator.identity.source import ClientSource
from aggregator.policy.patterns import parse
from aggregator.policy.rulebook import Rulebook, Tightening
from aggregator.policy.rules import OUTWARD, FlowLabel, FlowRule, Place, Rule
from benchmarks.calls import ERAS, compare
from benchmarks.report import Table
from benchmarks.systems import System, aggregator_over_http, echo_server, write_config
from benchmarks.workload import ANSWERS, BREAKS, FITS, LOOSE, WRONG, Workload, make_workload

TOOLS: Final = (10, 1_000, 10_000)
AGENTS: Final = (1, 1_000)
# How many pairs of an agent and a tool are asked about in turn; schemas compiled; lists made.
_PAIRS: Final = 1_000
_COMPILED: Final = 20
_LISTS: Final = 3
# The agent that calls in the whole calls, one of a thousand.
_CALLER: Final = 7

# The flow rules that are decided by, and the state before anything was read.
_AFTER: Final = (("untrusted",), ("untrusted", "private"))
_NOTHING: Final[FlowState] = {}
_HERE: Final = Place("flow.yaml", 1)

_T = TypeVar("_T")
Asked = tuple[ToolRecord, tuple[Tightening, ...]]
Measured = Mapping[str, float]
"""The cost of each step, in microseconds."""


def measure(folder: Path, rounds: int, seconds: float) -> Iterator[Table]:
    """Measure the steps one by one in this process, then whole calls through the HTTP frontend."""
    yield _steps(folder, rounds)
    yield from _calls(folder, rounds, seconds)


# -- the steps


def _steps(folder: Path, rounds: int) -> Table:
    benches = [_Bench(make_workload(folder, tools, agents)) for tools in TOOLS for agents in AGENTS]
    gc.collect()
    gc.freeze()
    taken: list[list[Measured]] = [[] for _ in benches]
    for _ in range(rounds):
        for bench, measured in zip(benches, taken, strict=True):
            measured.append(bench.round())
    gc.unfreeze()
    medians = [{step: statistics.median(one[step] for one in many) for step in many[0]} for many in taken]
    heads = ["step, microseconds", *(f"{tools:,} / {agents:,}" for tools in TOOLS for agents in AGENTS)]
    rows = [
        [step, *(_number(median[step]) for median in medians), f"{medians[-1][step] / medians[0][step]:.1f}"]
        for step in medians[0]
    ]
    return Table(f"Deciding and checking, by tools / agents (median of {rounds})", [*heads, "last of first"], rows)


class _Bench:
    """One world, and the parts of the aggregator that decide and check in it."""

    def __init__(self, workload: Workload) -> None:
        self._world = workload
        self._app = build_app(workload.config, workload.policies)
        assert self._app.live is not None
        assert self._app.live.rulebook is not None, self._app.live.problems
        self._live = self._app.live
        self._documents = self._app.live.rulebook.documents
        asyncio.run(self._app.load_keys())
        agents, tools = workload.agents, workload.catalog.tools
        # Strides that are prime to the sizes: every agent and every tool has its turn.
        self._pairs = [(agents[at * 7 % len(agents)], tools[at * 37 % len(tools)]) for at in range(_PAIRS)]
        self._servers = {server.id: server for server in workload.config.servers}
        self._checker = Checker()

    def round(self) -> Measured:
        """Every step once more; what is remembered of decisions is forgotten first."""
        views, catalog = self._app.gateway.views, self._world.catalog
        few = list(dict.fromkeys(agent for agent, _ in self._pairs))[:_LISTS]
        each = list({(agent.agent_id, tool.name): (agent, tool) for agent, tool in self._pairs}.values())
        measured = {"read the files": self._reload(), "who asks, by key": self._admit()}
        self._forget()
        measured["decision, first"] = _cost(lambda pair: views.of(pair[0]).ruling(pair[1]), each)
        measured["decision, again"] = _cost(lambda pair: views.of(pair[0]).ruling(pair[1]), self._pairs)
        measured |= self._flow()
        self._forget()
        first = _cost(lambda agent: views.listing(views.of(agent), catalog), few)
        measured["list, first, per tool"] = first / len(catalog)
        measured["list, again"] = _cost(lambda agent: views.listing(views.of(agent), catalog), few * 200)
        return {**measured, **self._checks()}

    def _flow(self) -> dict[str, float]:
        """Decide with flow rules: about tools without labels, and about one that two rules speak of."""
        views = self._app.gateway.views
        sent = self._pairs[0][1]
        label = FlowLabel(OUTWARD, _HERE, (Rule("labels", parse(sent.name), "label outward", _HERE, OUTWARD),))
        rules = tuple(FlowRule(frozenset(after), frozenset({OUTWARD}), "confirm", _HERE) for after in _AFTER)
        self._live.rulebook = Rulebook(replace(self._documents, labels={OUTWARD: label}, flow=rules))

        def decide(pair: tuple[Principal, ToolRecord], state: FlowState = _NOTHING) -> Decision:
            ruling = views.of(pair[0]).ruling(pair[1])
            return decide_flow(ruling.decision, ruling.flow, state, 1.0) if ruling.flow.rules else ruling.decision

        ruled = views.of(self._pairs[0][0]).ruling(sent)
        flow, base = ruled.flow, Decision("allow", "", "")
        assert len(flow.rules) == len(_AFTER)
        one = {"private": LabelSource("files.read", 0.0)}
        both = {**one, "untrusted": LabelSource("web.fetch", 0.0)}
        assert decide_flow(base, flow, one, 1.0) is base
        assert decide_flow(base, flow, both, 1.0).verdict == "confirm"
        for pair in self._pairs:
            decide(pair)
        many = [None] * 10 * _PAIRS
        return {
            "decision, again, with flow rules": _cost(decide, self._pairs),
            "flow rules, nothing read": _cost(lambda _: decide_flow(base, flow, _NOTHING, 1.0), many),
            "flow rules, none holds": _cost(lambda _: decide_flow(base, flow, one, 1.0), many),
            "flow rules, one asks": _cost(lambda _: decide_flow(base, flow, both, 1.0), many),
        }

    def _reload(self) -> float:
        return _cost(lambda folder: build_app(self._world.config, folder), [self._world.policies])

    def _forget(self) -> None:
        self._live.rulebook = Rulebook(self._documents)

    def _admit(self) -> float:
        keys = self._world.keys
        common = [(b"host", b"127.0.0.1:8080"), (b"content-type", b"application/json"), (b"content-length", b"150")]
        scopes = [
            {
                "headers": [*common, (b"authorization", f"Bearer {keys[at * 7 % len(keys)]}".encode())],
                SOURCE: ClientSource("127.0.0.1", forwarded=False, named_here=True),
            }
            for at in range(_PAIRS)
        ]
        access, agents = self._app.access, self._world.agents
        known = access.authenticate(request_facts(scopes[0], "http"))
        assert isinstance(known, Principal), known
        assert known.agent_id == agents[0].agent_id
        return _cost(lambda scope: access.authenticate(request_facts(scope, "http")), scopes)

    def _checks(self) -> dict[str, float]:
        plain: list[Asked] = []
        tight: list[Asked] = []
        for agent, tool in self._pairs:
            rules = self._app.gateway.views.of(agent).ruling(tool).tightening
            (tight if rules else plain).append((tool, rules))
        fresh = Checker()
        few = list({tool.name: (tool, rules) for tool, rules in plain}.values())[:_COMPILED]
        return {
            "input check, first": _cost(lambda asked: self._fits(fresh, asked, FITS), few),
            "input check, fits": self._input(plain, FITS, True),
            "input check, refused": self._input(plain, BREAKS, False),
            "tightened, fits": self._input(tight, FITS, True),
            "tightened, refused": self._input(tight, LOOSE, False),
            "output check, fits": self._output(plain, ANSWERS, True),
            "output check, refused": self._output(plain, WRONG, False),
        }

    def _input(self, many: Sequence[Asked], given: Mapping[str, Any], fits: bool) -> float:
        """Checked once before it is timed: that it is what it is called, and compiled."""
        assert many
        assert all(self._fits(self._checker, asked, given) is fits for asked in many)
        return _cost(lambda asked: self._fits(self._checker, asked, given), many)

    def _output(self, many: Sequence[Asked], answered: Mapping[str, Any], fits: bool) -> float:
        assert all(self._passes(asked, answered) is fits for asked in many)
        return _cost(lambda asked: self._passes(asked, answered), many)

    def _fits(self, checker: Checker, asked: Asked, given: Mapping[str, Any]) -> bool:
        tool, rules = asked
        checking = checker.arguments(self._servers[tool.server], tool, dict(given), rules, "agent", by_model=False)
        return _now(checking).refusal is None

    def _passes(self, asked: Asked, answered: Mapping[str, Any]) -> bool:
        tool, _ = asked
        return "isError" not in _now(self._checker.result(self._servers[tool.server], tool, dict(answered), "agent"))


def _now(work: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine that never waits, and return its result."""
    try:
        work.send(None)
    except StopIteration as done:
        result: _T = done.value
        return result
    raise RuntimeError("it waits for something")


def _cost(step: Callable[[Any], object], asked: Sequence[Any]) -> float:
    """Return the processor time of one step, in microseconds."""
    began = time.process_time()
    for one in asked:
        step(one)
    return (time.process_time() - began) / len(asked) * 1e6


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


# -- whole calls


def _calls(folder: Path, rounds: int, seconds: float) -> Iterator[Table]:
    """One aggregator with everything on beside one without, in front of the same upstream."""
    open_folder, strict_folder = folder / "open", folder / "strict"
    open_folder.mkdir()
    strict_folder.mkdir()
    workload = make_workload(strict_folder, TOOLS[0], AGENTS[-1])
    _allow_echo(workload)
    upstream = echo_server("structured")
    without = write_config(open_folder, {"echo": {**upstream, "output_validation": "off"}})
    with_all = write_config(
        strict_folder,
        {"echo": {**upstream, "output_validation": "enforce"}},
        policies=str(workload.policies),
        storage=f"sqlite:///{strict_folder / 'keys.db'}",
    )
    with ExitStack() as stack:
        url, _ = stack.enter_context(aggregator_over_http(without))
        strict_url, _ = stack.enter_context(aggregator_over_http(with_all))
        for era in ERAS:
            systems = [
                System("without", "echo.echo", era=era, url=url),
                System("policies, keys, checks", "echo.echo", era=era, url=strict_url, key=workload.keys[_CALLER]),
            ]
            yield compare(f"Calls with policies, {AGENTS[-1]:,} agents, {era} era", systems, rounds, seconds, "without")


def _allow_echo(workload: Workload) -> None:
    workload.policies.joinpath("echo.yaml").write_text(
        "agents:\n"
        f"  {workload.agents[_CALLER].agent_id}:\n"
        "    allow: [echo.*]\n"
        "    arguments: { echo.echo: { properties: { text: { maxLength: 1000 } }, required: [text] } }\n"
        "    limits: { 'echo.*': { per_minute: 100000000, concurrent: 1000, result_bytes: 64KiB } }\n"
    )
