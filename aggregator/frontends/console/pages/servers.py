"""The servers: their states, last messages and configuration, and the operator's actions on them."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from aggregator.config.server_config import ServerConfig
from aggregator.config.server_parts import LaunchConfig, LimitsConfig
from aggregator.frontends.console.foreign_words import event_summary, server_reason
from aggregator.frontends.console.parts import ConsoleParts
from aggregator.frontends.console.tool_data import ROWS, bounded, chosen_page, link, pin_link
from aggregator.frontends.console.view import ConsoleRequest, NotPossible, NotThere, PageRoute, PageView, Redirect
from aggregator.gateway.views.server_seen import ASKS_IN_CALLS
from aggregator.gateway.views.start_faults import left_out_sentence
from aggregator.storage.audit.recent import events_of_server
from aggregator.upstream.server_actions import ActionRefused
from aggregator.upstream.upstream import Upstream

_REASON: Final = 300
_TEXT: Final = 2_000
_NAME: Final = 200
_EVENTS: Final = 20
_HELD: Final = 20
_NAMED: Final = 40
# Settings without secrets, which are shown unchanged if an entry sets them.
_PLAIN: Final = frozenset(
    {"type", "prefix", "start", "timeout", "protocol", "isolation", "trusted", "coerce", "output_validation"}
    | {"invisible_characters", "attribution", "instructions"}
)


class ServersPage:
    """The list of servers, and one of them."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts

    def routes(self) -> Sequence[PageRoute]:
        """Return the ways to it."""
        page = {"q": "part of the name", "page": f"the page, of {ROWS} servers each, from 1"}
        action = "calls under way are finished, for at most `shutdown_timeout`"
        return [
            PageRoute("GET", "/servers", "viewer", self.listed, "The servers and their states", fields=page),
            PageRoute("GET", "/servers/{name}", "viewer", self.show, "One server: state, last words, latency, events"),
            PageRoute("POST", "/servers/{name}/restart", "operator", self.restart, f"Restart a server: {action}"),
            PageRoute(
                "POST",
                "/servers/{name}/disable",
                "operator",
                self.disable,
                f"Switch a server off until the next start of the aggregator: {action}",
            ),
            PageRoute(
                "POST", "/servers/{name}/enable", "operator", self.enable, "Start a server that was switched off"
            ),
        ]

    async def listed(self, request: ConsoleRequest) -> PageView:
        """Return the list; those that need a look come first."""
        query, page = request.query.get("q", "").strip()[:_NAME], chosen_page(request)
        found = [one for one in self._parts.upstreams.values() if query.lower() in one.config.id.lower()]
        found.sort(key=_urgency)
        pages = max(1, -(-len(found) // ROWS))
        page = min(page, pages)
        shown = found[(page - 1) * ROWS : page * ROWS]
        tools = self._tools()
        data = {
            "query": query,
            "page": page,
            "pages": pages,
            "total": len(found),
            "servers": [self._row(one, tools, values=request.person.may("approver")) for one in shown],
            "left_out": left_out_sentence(self._parts.config().left_out),
        }
        return PageView("servers.html", "Servers", data)

    async def show(self, request: ConsoleRequest) -> PageView:
        """Return the page of one server."""
        upstream = self._upstream(request)
        server, negotiated, words = upstream.config.id, upstream.negotiated, upstream.stderr_tail
        info = negotiated.server_info if negotiated is not None else {}
        database = await self._parts.opened()
        off = upstream.switched_off
        held = self._parts.pins.held(server) if self._parts.pins is not None else ()
        may_read, failure = request.person.may("approver"), words.failure(upstream.redaction)
        data = {
            **self._row(upstream, self._tools(), values=may_read),
            "tools_href": "/tools",
            "health": upstream.health.report(),
            "reconnects": upstream.reconnects,
            "calls": upstream.calls,
            "refused": upstream.refused,
            "connect_seconds": upstream.connect_seconds,
            "next_try": upstream.lifecycle.current.next_try,
            "transport": upstream.transport,
            "protocol": negotiated.version if negotiated is not None else None,
            "server_name": _text(info, "name"),
            "server_version": _text(info, "version"),
            "instructions": bounded((negotiated.instructions or "") if negotiated is not None else "", _TEXT),
            "held_items": [
                {
                    "kind": one.kind,
                    "name": bounded(one.name, _NAME),
                    "href": pin_link(server, one.kind, one.name),
                    "why": bounded(one.why, _REASON),
                }
                for one in held[:_HELD]
            ],
            # The names of items are the server's words.
            "faults_said": [bounded(one, _REASON) for one in _faults(upstream, values=may_read)[:_HELD]],
            "own_connections": upstream.own_connections,
            "asks_in_calls": ASKS_IN_CALLS,
            "instructions_held": any(one.kind == "instructions" for one in held),
            "description": bounded(upstream.config.description, _TEXT),
            # What a server wrote may hold values of calls.
            "may_read": may_read,
            "stderr_tail": [one._asdict() for one in words.lines(upstream.redaction)] if may_read else [],
            "failure": failure._asdict() if may_read and failure is not None else None,
            "configuration": _configuration(upstream.config),
            "enabled": upstream.config.enabled,
            "accounts": upstream.config.auth is not None and upstream.config.auth.how.by_person,
            "needs_account": upstream.needs_account,
            "switched_off": {"by": off.by, "at": off.at} if off is not None else None,
            "may_act": request.person.may("operator"),
            "events": [
                {
                    "seq": one.seq,
                    "at": one.at,
                    "kind": one.kind,
                    "summary": event_summary(one.kind, one.summary, values=may_read),
                }
                for one in await events_of_server(database.engine, server, _EVENTS)
            ],
        }
        return PageView("server.html", server, data)

    async def restart(self, request: ConsoleRequest) -> Redirect:
        """Restart a server, and show it."""
        return self._act(request, self._parts.servers.restart_server)

    async def disable(self, request: ConsoleRequest) -> Redirect:
        """Switch a server off, and show it."""
        return self._act(request, self._parts.servers.switch_server_off)

    async def enable(self, request: ConsoleRequest) -> Redirect:
        """Start a server that was switched off, and show it."""
        return self._act(request, self._parts.servers.switch_server_on)

    def _act(self, request: ConsoleRequest, action: Callable[[str, str], object]) -> Redirect:
        """Act on the server of a request, in the name of the user. Raises NotPossible."""
        server = self._upstream(request).config.id
        try:
            action(server, request.person.name)
        except ActionRefused as refused:
            raise NotPossible(f"{refused.message} Nothing was done.") from refused
        return Redirect(link("servers", server))

    def _upstream(self, request: ConsoleRequest) -> Upstream:
        name = request.path["name"]
        upstream = self._parts.upstreams.get(name)
        if upstream is None:
            raise NotThere(f"There is no server {name[:_NAME]!r} in the configuration.")
        return upstream

    def _tools(self) -> Mapping[str, int]:
        return self._parts.gateway.catalog.listed.by_server

    def _row(self, upstream: Upstream, tools: Mapping[str, int], *, values: bool) -> dict[str, Any]:
        figures = dict(upstream.health.latency.figures(time.monotonic()).times)
        current = upstream.lifecycle.current
        well = current.state == "ready"
        return {
            "id": upstream.config.id,
            "prefix": upstream.config.prefix,
            "href": link("servers", upstream.config.id),
            "type": upstream.config.type,
            "state": "silent" if well and not upstream.health.answers else current.state,
            "since": current.since,
            "reason": bounded(server_reason(upstream, values=values), _REASON),
            "tools": tools.get(upstream.config.id, 0),
            "held": self._parts.pins.held_count(upstream.config.id) if self._parts.pins is not None else 0,
            "waits": len(self._parts.pins.waiting(upstream.config.id)) if self._parts.pins is not None else 0,
            "pins_href": link("pins", upstream.config.id),
            "faults": len(upstream.faults.for_operators()),
            "unsearchable": upstream.config.id in self._parts.browser.unsearchable,
            "in_flight": upstream.in_flight,
            "p50": figures.get("p50"),
            "p95": figures.get("p95"),
            "p99": figures.get("p99"),
        }


def _faults(upstream: Upstream, *, values: bool) -> list[str]:
    """Return the faults in the lists and messages of a server, for display."""
    server = upstream.config.id
    said = upstream.faults.for_operators() if values else upstream.faults.for_agents()
    return [one.removeprefix(f"{server}: ").removeprefix(f"{server} ") for one in said]


def _urgency(upstream: Upstream) -> tuple[int, str]:
    order = {"unavailable": 0, "reconnecting": 1, "starting": 2, "disabled": 3, "ready": 3, "stopped": 3}
    return order.get(upstream.state, 3), upstream.config.id


def _text(info: Any, key: str) -> str:
    value = info.get(key) if isinstance(info, Mapping) else None
    return bounded(value, _NAME) if isinstance(value, str) else ""


def _configuration(config: ServerConfig) -> list[dict[str, str]]:
    """Return the settings of an entry: of those that may hold a secret only that they are set, and their names."""
    usual = ServerConfig.model_fields
    found = [
        {"name": name, "value": _word(getattr(config, name))}
        for name in usual
        if name in _PLAIN and (name in ("type", "prefix") or getattr(config, name) != usual[name].default)
    ]
    limits = config.limits
    found += [
        {"name": f"limits.{name}", "value": _word(value)}
        for name, field in LimitsConfig.model_fields.items()
        if (value := getattr(limits, name)) != field.default
    ]
    found += _program("", config)
    if config.url is not None:
        found.append({"name": "url", "value": _origin(config.url)})
    if config.headers:
        found.append({"name": "headers", "value": _names(config.headers)})
    if config.proxy is not None:
        found.append({"name": "proxy", "value": "set"})
    if config.target is not None:
        found.append({"name": "target", "value": bounded(config.target, _NAME)})
    if config.launch is not None:
        found += _program("launch.", config.launch)
    if config.fallbacks:
        found.append({"name": "fallbacks", "value": ", ".join(config.fallbacks[:_NAMED])})
    return found


def _program(before: str, config: ServerConfig | LaunchConfig) -> list[dict[str, str]]:
    if config.command is None:
        return []
    found = [{"name": f"{before}command", "value": bounded(config.command.rpartition("/")[2], _NAME)}]
    if config.args:
        found.append({"name": f"{before}args", "value": f"{len(config.args)}, not shown"})
    if config.env:
        found.append({"name": f"{before}env", "value": _names(config.env)})
    if config.cwd is not None:
        found.append({"name": f"{before}cwd", "value": "set"})
    return found


def _names(values: Mapping[str, Any]) -> str:
    named = ", ".join(f"{name:.80}" for name in list(values)[:_NAMED])
    more = f" and {len(values) - _NAMED} more" if len(values) > _NAMED else ""
    return f"{named}{more}; values not shown"


def _origin(url: str) -> str:
    """Return scheme and host of an address; the rest may hold a secret."""
    try:
        found = urlsplit(url)
        port = f":{found.port}" if found.port is not None else ""
        return bounded(f"{found.scheme}://{found.hostname or ''}{port}", _NAME)
    except ValueError:
        return "set"


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return bounded(f"{value:g}" if isinstance(value, float) else str(value), _NAME)
