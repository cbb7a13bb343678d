"""A trial of all servers in this process, and the tools as the policy lets an agent see them."""

import asyncio
import logging
import os
import shutil
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, get_args
from urllib.parse import urlsplit

from aggregator.accounts.app.stored import stored_accounts
from aggregator.app.app import App
from aggregator.app.build import build_app
from aggregator.app.keep_catalogs import keep_catalogs
from aggregator.app.policies import read_policies
from aggregator.config.load import Loaded
from aggregator.config.model import Config
from aggregator.config.server_config import ServerConfig
from aggregator.dialects.gateway import DialectReport
from aggregator.dialects.names import Schemas
from aggregator.doctor.checks.model_view import ToolsThere
from aggregator.doctor.checks.policies import Denial, PolicyFacts
from aggregator.doctor.checks.servers import ServerFacts
from aggregator.doctor.checks.tool_settings import UnlistedTool, unlisted_tools
from aggregator.domain.principal import Principal
from aggregator.domain.records import ToolRecord
from aggregator.domain.uris.addresses import is_loopback
from aggregator.domain.usual_folders import with_usual_folders
from aggregator.hosts.own import identity, login_of
from aggregator.policy.files.known_names import KnownNames
from aggregator.policy.files.lint import lint
from aggregator.policy.live import LivePolicies
from aggregator.redaction.redactor import Redactor
from aggregator.upstream.faults import LEFT_OUT
from aggregator.upstream.upstream import Upstream

# The logger that tells of a server that prints to its stdout what is not MCP.
_NOISE: Final = "aggregator.upstream.transports.stdio"
# Lines on stderr of which a cause can be read; the first of one fault may stand far above its end.
_WORDS: Final = 60
_NONE: Final[Mapping[tuple[str, str], str]] = {}


@dataclass(frozen=True, slots=True)
class TrialResult:
    """The servers after the trial; the tools there are, and those that the policy denies; names that were shortened.

    `there` is None if no server was tried. `tools` is the number of all tools, denied ones included.
    """

    servers: Sequence[ServerFacts]
    there: ToolsThere | None = None
    denials: Sequence[Denial] = ()
    tools: int = 0
    renamed: Sequence[tuple[str, str]] = ()
    policies: PolicyFacts | None = None


# Shows the servers of an app inside, while they start.
Shown = Callable[[App, Redactor], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def not_shown(app: App, redact: Redactor) -> AsyncIterator[None]:
    """Show nothing."""
    yield


async def try_servers(
    loaded: Loaded,
    agent: str,
    patience: float,
    calls: Mapping[str, int],
    withheld: Mapping[tuple[str, str], str] = _NONE,
    shown: Shown = not_shown,
) -> TrialResult:
    """Connect every server once, in at most `patience` seconds.

    calls: those of the last 30 days by server. withheld: tools that no host gets by their own names until they are
    approved, as server and own name, each with the approved name under which hosts get it, or an empty one.
    """
    live = await asyncio.to_thread(_read_policies, loaded)
    config = _searching(_bounded(loaded.config.all_started(), patience))
    noisy = _NoisyServers()
    logger = logging.getLogger(_NOISE)
    level = logger.level
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    logger.addHandler(noisy)
    try:
        async with stored_accounts(loaded) as accounts, AsyncExitStack() as stack:
            app = build_app(config, live, redactor=loaded.redactor, accounts=accounts)
            await stack.enter_async_context(app.running())
            # Each server has until `patience`; the rest is for reading their lists.
            async with shown(app, loaded.redactor):
                await app.supervisor.wait_all_tried(patience + 1.0)
            await keep_catalogs(loaded, app.supervisor)
            return await _result(app, loaded, live, agent, noisy, calls, withheld)
    finally:
        logger.removeHandler(noisy)
        logger.propagate = True
        logger.setLevel(level)


def untried(loaded: Loaded, calls: Mapping[str, int]) -> TrialResult:
    """Return the facts about the servers that need no connection."""
    live = _read_policies(loaded)
    known = _same(loaded.config.servers)
    servers = [_facts(server, loaded, known, calls, "stopped", tools=1) for server in loaded.config.servers]
    return TrialResult(servers, policies=_policies(loaded, live, None))


async def _result(
    app: App,
    loaded: Loaded,
    live: LivePolicies,
    agent: str,
    noisy: "_NoisyServers",
    calls: Mapping[str, int],
    withheld: Mapping[tuple[str, str], str],
) -> TrialResult:
    known = _same(loaded.config.servers)
    servers = [_tried(app, one, loaded, known, calls, noisy.servers, withheld) for one in app.upstreams.values()]
    view = app.browser.view(Principal(agent))
    every = tuple(app.gateway.catalog.tools)
    denials = []
    for tool in every:
        decision = view.ruling(tool).decision
        if not decision.visible:
            denials.append(Denial(tool.name, decision.reason, decision.source))
    cost = await app.browser.cost(Principal(agent))
    # The trial has no pins; a host does not get these tools.
    may = await app.browser.tools(view)
    named = ((tool, withheld.get((tool.server, tool.own_name))) for tool in may)
    shown = [replace(tool, own_name=name) if name else tool for tool, name in named if name != ""]
    tools = cost.tools - (len(may) - len(shown))
    short = loaded.config.stdio.expose or loaded.config.expose
    listed = view.expose(short)
    many = tools if listed == "all" else min(tools, cost.shown_tools)
    dialects = app.gateway.dialects
    reports: dict[Schemas, DialectReport | None] = {}
    for name in get_args(Schemas):
        if dialects is None:
            break
        reports[name] = await dialects.report(shown, view.dialect(loaded.config.stdio.schemas or name))
    there = ToolsThere(tuple(tool.name for tool in shown), cost.tokens, cost.shown_tokens, many, reports)
    return TrialResult(
        servers,
        there,
        denials,
        len(every),
        _shortened(every, loaded.config.name_limit),
        # Rules may name a tool as it was approved, or as its server calls it.
        _policies(loaded, live, (*every, *(tool for tool in shown if tool.sent_as != tool.own_name))),
    )


def _tried(
    app: App,
    upstream: Upstream,
    loaded: Loaded,
    known: Mapping[str, str],
    calls: Mapping[str, int],
    noisy: frozenset[str],
    withheld: Mapping[tuple[str, str], str],
) -> ServerFacts:
    server = next(one for one in loaded.config.servers if one.id == upstream.config.id)
    tools = sum(tool.server == server.id for tool in app.gateway.catalog.tools)
    faults = upstream.faults.for_operators() if upstream.state == "ready" else []
    faults = [loaded.redactor(said) for said in faults]
    return _facts(
        server,
        loaded,
        known,
        calls,
        upstream.state,
        tools=tools,
        reason=upstream.reason_for_operator,
        words=[line.text for line in upstream.stderr_tail.lines(loaded.redactor) if line.kind == "stderr"][-_WORDS:],
        noise=server.id in noisy,
        seconds=upstream.connect_seconds,
        left_out=tuple(said for said in faults if LEFT_OUT in said),
        faults=tuple(said for said in faults if LEFT_OUT not in said),
        unlisted=_unlisted(server, upstream, withheld),
    )


def _unlisted(
    server: ServerConfig, upstream: Upstream, withheld: Mapping[tuple[str, str], str]
) -> Sequence[UnlistedTool]:
    """Return the tools that the settings of a server name, and that it lists neither so nor as they were approved."""
    listed = {one["name"] for one in upstream.definitions if isinstance(one, dict) and isinstance(one.get("name"), str)}
    approved = {withheld.get((server.id, name), "") for name in listed}
    return unlisted_tools(server, listed | approved) if upstream.state == "ready" and listed else ()


def _facts(
    server: ServerConfig, loaded: Loaded, known: Mapping[str, str], calls: Mapping[str, int], state: str, **more: Any
) -> ServerFacts:
    return ServerFacts(
        server.id,
        server.type,
        f"{loaded.path}: mcpServers.{server.key}",
        state,
        enabled=server.enabled,
        disabled_reason=server.disabled_reason,
        command=server.command,
        elsewhere=_elsewhere(server.command) if state not in ("ready", "stopped") else None,
        proxy_variable=_proxy_variable(server),
        address=loaded.redactor((server.url or "").partition("?")[0]) or None,
        same_as=known.get(server.id),
        calls=calls.get(server.id, 0) if calls else None,
        **more,
    )


def _elsewhere(command: str | None) -> str | None:
    """Return the full path of a program that a shell does not find and `aggregator stdio` does."""
    if command is None or os.path.dirname(command):
        return None
    folders = with_usual_folders("", Path(os.path.expanduser("~")), os.environ)
    return shutil.which(command, path=folders) if folders else None


def _proxy_variable(server: ServerConfig) -> str | None:
    """Return the variable with the proxy that programs of this shell use for the address of a server."""
    if server.url is None or server.proxy is not None:
        return None
    name = "HTTPS_PROXY" if server.url.lower().startswith("https") else "HTTP_PROXY"
    host = urlsplit(server.url).hostname
    found = next((one for one in (name, name.lower()) if os.environ.get(one)), None)
    return found if host is not None and not is_loopback(host) else None


def _same(servers: Sequence[ServerConfig]) -> dict[str, str]:
    """Return by its id the earlier server that an enabled one starts or connects to again."""
    first: dict[tuple[object, ...], str] = {}
    found = {}
    for server in servers:
        if not server.enabled:
            continue
        address: dict[str, Any] = {"url": server.url} if server.url else {"command": server.command or server.target}
        key = (*identity({**address, "args": list(server.args)}), *sorted(server.env.items()), server.cwd)
        key = (*key, *sorted(server.headers.items()), str(server.auth), login_of(address))
        if key in first:
            found[server.id] = first[key]
        else:
            first[key] = server.id
    return found


def _read_policies(loaded: Loaded) -> LivePolicies:
    return read_policies(loaded.policies, named=loaded.config.names_policies)


def _policies(loaded: Loaded, live: LivePolicies, tools: tuple[Any, ...] | None) -> PolicyFacts:
    config = loaded.config
    ids = {server.prefix or server.id: server.id for server in config.servers}
    trusted = {server.id: server.trusted for server in config.servers}
    rulebook = live.rulebook
    issuers = tuple(one.issuer for one in config.auth.issuers)
    known = KnownNames(ids, tools, trusted, issuers)
    warnings = lint(rulebook, known) if rulebook is not None and not live.broken else []
    return PolicyFacts(
        loaded.policies,
        os.path.lexists(loaded.policies),
        config.names_policies,
        live.problems,
        warnings,
        tuple(rulebook.agents) if rulebook is not None and not live.broken else None,
    )


def _bounded(config: Config, patience: float) -> Config:
    """Return the configuration with servers that wait no longer than the trial."""

    def bounded(server: ServerConfig) -> ServerConfig:
        limits = server.limits
        shorter = limits.model_copy(update={"connect_timeout": min(limits.connect_timeout, patience)})
        return server.model_copy(update={"limits": shorter})

    return config.model_copy(update={"servers": tuple(map(bounded, config.servers))})


def _searching(config: Config) -> Config:
    """Return the configuration with short lists at every frontend, to measure their cost."""
    parts = {name: getattr(config, name).model_copy(update={"expose": None}) for name in ("http", "sse", "stdio")}
    return config.model_copy(update={**parts, "expose": "search"})


def _shortened(tools: Sequence[ToolRecord], limit: int) -> list[tuple[str, str]]:
    """Return the canonical and the listed name of the tools whose names are too long for hosts."""
    plain = ((tool, f"{tool.prefix}__{tool.own_name}") for tool in tools)
    return [(tool.name, tool.listed["compatible"]) for tool, name in plain if len(name) > limit]


class _NoisyServers(logging.Handler):
    """A log handler that notes the servers that print anything but MCP to their stdout."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._servers: set[str] = set()

    @property
    def servers(self) -> frozenset[str]:
        return frozenset(self._servers)

    def emit(self, record: logging.LogRecord) -> None:
        """Take one record of the log."""
        arguments = record.args
        if isinstance(arguments, tuple) and arguments and "stdout" in record.msg:
            self._servers.add(str(arguments[0]))
