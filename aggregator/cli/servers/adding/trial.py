"""The trial of a server: one connection through the product's own code, its tools, and their cost."""

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from rich.text import Text

from aggregator.accounts.app.stored import stored_accounts
from aggregator.app.app import App
from aggregator.app.build import build_app
from aggregator.app.keep_catalogs import keep_catalogs
from aggregator.app.policies import read_policies
from aggregator.catalog.pages import render
from aggregator.cli.runtime.ended import ended_cause
from aggregator.cli.runtime.screen import Screen
from aggregator.cli.runtime.tables import one_line
from aggregator.cli.runtime.writer import say
from aggregator.config.load import Loaded
from aggregator.config.server_config import ServerConfig
from aggregator.domain.records import ToolRecord
from aggregator.domain.text.tokens import estimate
from aggregator.gateway.meta.registry import MetaToolSet
from aggregator.policy.live import LivePolicies
from aggregator.schemas.checks import SchemaChecks
from aggregator.upstream.transports.web import OFFERS_LOGIN
from aggregator.upstream.upstream import Upstream

# The reasons of a server that is not ready because an account has to be connected.
_NOT_CONNECTED: Final = ("login required", "needs an account")
_LAST_LINES: Final = 8
_LONGEST_LINE: Final = 300
_TICK: Final = 0.5
# Seconds for the steps after the time limit of the connection: the error and the end of the program.
_AFTER: Final = 10.0
# Seconds in which a server that announces changes may add tools by itself after its first list.
_GROWTH: Final = 1.0
# Agents, and tools of a server, that the policies are evaluated for.
_AGENTS: Final = 50
_TOOLS: Final = 2_000


@dataclass(frozen=True, slots=True)
class ToolCost:
    """One tool, by the name models get, with the estimated tokens of its definition."""

    name: str
    tokens: int


@dataclass(frozen=True, slots=True)
class AgentAccess:
    """The decisions of the policies for one agent: how many tools are allowed, asked about, denied."""

    agent: str
    allow: int
    confirm: int
    deny: int


@dataclass(frozen=True, slots=True)
class TrialReport:
    """The result of a trial. `problem` is None if it connected; all texts are without secrets.

    `login`: the only problem is that an account has to be connected (OAuth). `adds_tools`: the server has added tools
    while it was connected, now or as the same entry before, and they would wait for an approval. `mend`: the cause for
    which its program ended, with the mend, if its words name a known one.
    """

    problem: str | None
    login: bool = False
    last_lines: tuple[str, ...] = ()
    mend: str | None = None
    era: str | None = None
    seconds: float | None = None
    tools: tuple[ToolCost, ...] = ()
    search_tokens: int = 0
    warnings: tuple[str, ...] = ()
    access: tuple[AgentAccess, ...] = ()
    adds_tools: bool = False

    @property
    def tokens(self) -> int:
        """The estimated tokens of all tools in a list."""
        return sum(tool.tokens for tool in self.tools)


async def try_server(loaded: Loaded, server: ServerConfig, seconds: float, *, quiet: bool) -> TrialReport:
    """Connect to one server of a configuration, for so many seconds at most, and return the outcome."""
    live = read_policies(loaded.policies, named=loaded.config.names_policies)
    update = {
        "start": "eager",
        "limits": server.limits.model_copy(update={"idle_timeout": None, "connect_timeout": seconds}),
        "enabled": True,
        "fallbacks": (),
    }
    tried = server.model_copy(update=update)
    config = loaded.config.model_copy(update={"servers": (tried,)})
    with _TrialProgress(server.id, seconds, loaded, quiet=quiet) as progress:
        async with stored_accounts(loaded) as accounts, AsyncExitStack() as stack:
            app = build_app(config, live, redactor=loaded.redactor, accounts=accounts)
            await stack.enter_async_context(app.running())
            upstream = app.upstreams[server.id]
            await _wait(app, upstream, seconds + _AFTER, progress)
            if upstream.state != "ready":
                return _failed(upstream, loaded)
            if _may_add(upstream):
                await app.supervisor.wait_until(lambda: upstream.lists.grows, _GROWTH)
            await keep_catalogs(loaded, app.supervisor)
            return await _connected(app, upstream, live)


async def _wait(app: App, upstream: Upstream, seconds: float, progress: "_TrialProgress") -> None:
    loop = asyncio.get_running_loop()
    start = loop.time()
    while upstream.state == "starting" and (passed := loop.time() - start) < seconds:
        progress.show(passed, upstream)
        await app.supervisor.wait_tried(upstream, _TICK)


def _may_add(upstream: Upstream) -> bool:
    offered = upstream.negotiated.capabilities.get("tools") if upstream.negotiated is not None else None
    return not upstream.config.shows_new and isinstance(offered, dict) and bool(offered.get("listChanged"))


def _failed(upstream: Upstream, loaded: Loaded) -> TrialReport:
    reason = upstream.lifecycle.current.operator_text or "it was not ready in time"
    # A configured header that was refused is a fault of its own, even if a login is offered too.
    offered = OFFERS_LOGIN in reason and not upstream.config.headers
    login = offered if upstream.config.auth is None else any(said in reason for said in _NOT_CONNECTED)
    return TrialReport(
        loaded.redactor(one_line(reason)),
        login,
        _last_lines(upstream, loaded),
        None if login else ended_cause(upstream, loaded.redactor),
    )


def _last_lines(upstream: Upstream, loaded: Loaded) -> tuple[str, ...]:
    spoken = [one_line(line.text) for line in upstream.stderr_tail.lines(loaded.redactor) if line.kind == "stderr"]
    # A program is started more than once to find out its protocol, and says the same each time.
    return tuple(dict.fromkeys(line[:_LONGEST_LINE] for line in spoken if line))[-_LAST_LINES:]


async def _connected(app: App, upstream: Upstream, live: LivePolicies) -> TrialReport:
    server, negotiated = upstream.config, upstream.negotiated
    tools = [tool for tool in app.gateway.catalog.tools if tool.server == server.id]
    meta = MetaToolSet(keeps_results=True, read_tool=app.config.read_tool, report_tool=app.config.report_tool)
    return TrialReport(
        None,
        era=f"{negotiated.era} {negotiated.version}" if negotiated is not None else None,
        seconds=upstream.connect_seconds,
        tools=tuple(ToolCost(tool.name, _tokens(tool)) for tool in tools),
        search_tokens=sum(map(_tokens, meta.records)),
        warnings=tuple(
            map(
                one_line, [*upstream.faults.for_operators(), *_renamed(tools), *await _unchecked(tools), *_broken(live)]
            )
        ),
        access=await _access(app, tools, live),
        adds_tools=upstream.lists.grows and not server.shows_new,
    )


def _tokens(tool: ToolRecord) -> int:
    return estimate(render(tool, "canonical").decode("utf-8", "replace"))


def _renamed(tools: Sequence[ToolRecord]) -> Iterator[str]:
    """Yield a sentence for each tool that hosts without dots or long names get under a name that was changed."""
    for tool in tools:
        plain = f"{tool.prefix}__{tool.own_name}" if tool.prefix else tool.own_name
        if tool.listed["compatible"] != plain:
            yield f"{tool.name}: hosts that take only short, plain names see it as {tool.listed['compatible']}"


async def _unchecked(tools: Sequence[ToolRecord]) -> list[str]:
    notes = await SchemaChecks().prepare(tools[:_TOOLS])
    return [f"{name}: {note}" for name, said in notes.items() for note in said]


def _broken(live: LivePolicies) -> Iterator[str]:
    if live.broken:
        yield "the policy files have errors: `aggregator policy check` has them"


async def _access(app: App, tools: Sequence[ToolRecord], live: LivePolicies) -> tuple[AgentAccess, ...]:
    """Return the policies' decisions for each agent; nothing without policies."""
    if live.rulebook is None:
        return ()
    counts: dict[str, Counter[str]] = {agent: Counter() for agent in app.browser.agents()[:_AGENTS]}
    for tool in tools[:_TOOLS]:
        for one in await app.browser.who_may(tool):
            if one.agent in counts:
                counts[one.agent][one.decision.verdict] += 1
    return tuple(AgentAccess(agent, count["allow"], count["confirm"], count["deny"]) for agent, count in counts.items())


class _TrialProgress:
    """A line on stderr about the current wait: animated on a terminal, plain elsewhere."""

    def __init__(self, server: str, seconds: float, loaded: Loaded, *, quiet: bool) -> None:
        self._loaded = loaded
        self._said = f"connecting to {server}, for {seconds:g} s at most"
        console = Screen(stderr=True, markup=False)
        moving = sys.stderr.isatty() and not quiet
        self._status = console.status(Text(self._said)) if moving else None
        self._quiet = quiet

    def __enter__(self) -> "_TrialProgress":
        if self._status is not None:
            self._status.start()
        elif not self._quiet:
            say(f"aggregator: {self._said}", file=sys.stderr, flush=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def show(self, passed: float, upstream: Upstream) -> None:
        """Show the seconds that have passed, and the last line that the server wrote."""
        if self._status is None:
            return
        last = _last_lines(upstream, self._loaded)
        self._status.update(Text(f"{self._said}: {passed:.0f} s{f', {one_line(last[-1])[:80]}' if last else ''}"))
