"""The road of a call: one function, top to bottom. Nothing reaches an upstream but through `_forward`.

With a host of 2026-07-28 that has to be asked something, the call starts over from the top when the answer comes:
every step before `_forward` is safe to run twice, and limits are charged there.
"""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from aggregator.catalog.catalog import Catalog
from aggregator.domain.call import Asked, Resolved
from aggregator.domain.errors import (
    CallRefused,
    NotAllowed,
    UnknownTool,
    UpstreamBadAnswer,
    UpstreamError,
    UpstreamHttpStatus,
    UpstreamLost,
    UpstreamUnavailable,
    to_tool_result,
)
from aggregator.domain.names import Style, spellings
from aggregator.domain.records import ToolRecord
from aggregator.gateway.bounds import bounded
from aggregator.gateway.checks import Checker
from aggregator.gateway.consent import Consent
from aggregator.gateway.eras import onward, received
from aggregator.gateway.host import Host
from aggregator.gateway.limits import Ledger
from aggregator.gateway.views import View, Views
from aggregator.policy.rulebook import Ruling
from aggregator.upstream.link import Link
from aggregator.upstream.supervisor import Supervisor
from aggregator.wire.headers import mirror
from aggregator.wire.peer import Channel, OnProgress

log = logging.getLogger(__name__)

# What stays behind: our own names and hop, what was asked of our host, and features that are agreed hop by hop.
_NOT_FORWARDED: Final = frozenset({"name", "arguments", "_meta", "task", "inputResponses", "requestState"})
# Pauses before a call that may be repeated is sent again.
_RETRY_PAUSES: Final = (0.2, 0.6)
_WORTH_A_RETRY: Final = frozenset({502, 503, 504})


@dataclass(frozen=True, slots=True)
class Permitted:
    """The policy allows it, perhaps once a person has agreed. Only the pipeline makes one."""

    resolved: Resolved
    ruling: Ruling


@dataclass(frozen=True, slots=True)
class Checked:
    """The arguments fit; they may have been put right. Only this can be forwarded."""

    permitted: Permitted
    arguments: dict[str, Any]


class Pipeline:
    """`catalog` is swapped whole when it changes; a call keeps what it resolved, and one ruling from end to end."""

    def __init__(self, supervisor: Supervisor, views: Views, consent: Consent, patience: float) -> None:
        self.catalog = Catalog()
        self._supervisor = supervisor
        self._views = views
        self._consent = consent
        self._patience = patience
        self._links = supervisor.links
        self._by_prefix = {link.config.prefix: link for link in supervisor.links.values()}
        self._checker = Checker()
        self._ledger = Ledger()
        self._restocked = asyncio.Event()

    async def keep_checks_ready(self) -> None:
        """Compile the checks of every new catalog ahead of its calls, for ever."""
        ready: Catalog | None = None
        while True:
            self._restocked.clear()
            if self.catalog is not ready:
                ready = self.catalog
                await self._checker.prepare(ready.tools)
            await self._restocked.wait()

    def restock(self, catalog: Catalog) -> None:
        """From now on this is what there is."""
        self.catalog = catalog
        self._restocked.set()

    async def call_tool(self, asked: Asked, host: Host, channel: Channel) -> dict[str, Any]:
        """The upstream's result, whole; or a result that says why there is none, or asks what has to be asked.

        Raises:
            HostError: no such tool, or params that are no call.
            UpstreamRpcError: the upstream's own protocol error.
        """
        view = self._views.of(asked.principal)
        try:
            permitted = await self._permit(asked, view)
            checked, refusal = self._check(permitted)
            if refusal is not None:
                return refusal
            if permitted.ruling.decision.verdict == "confirm":
                interim = await self._agree(checked, view, host, channel)
                if interim is not None:
                    return interim
            return self._finish(checked, await self._forward(checked, channel))
        except CallRefused as refused:
            log.info("%s: %s", asked.principal.agent_id, refused)
            return refused.to_result()
        except UpstreamError as error:
            log.info("call of %s failed: %s", asked.name, error)
            return to_tool_result(error)

    async def find(self, view: View, name: str, style: Style) -> ToolRecord:
        """The tool a name means for this agent; a server that is still starting is waited for.

        Raises:
            UnknownTool: there is none that it may know of, with the nearest names in the host's own style.
            NotAllowed: there is, but this agent may not call it.
            UpstreamUnavailable: its server is away.
        """
        visible = self.called(view, name)
        if visible is not None:
            return visible
        link = self._named(view, name)
        if link is None:
            # A shortened name does not say which server it is of.
            await self._supervisor.all_tried(self._patience)
        else:
            await self._supervisor.tried(link, link.config.timeout)
        visible = self.called(view, name)
        if visible is not None:
            return visible
        readings = list(self._readings(view, name))
        if not readings and link is not None and not link.shown and _might_call(view, link, name):
            raise _away(link)
        for tool in readings:
            denied = view.ruling(tool).decision
            agent = view.principal.agent_id
            log.info("%s may not call %s: %s [%s, %s]", agent, tool.name, denied.reason, denied.rule, denied.source)
            if not denied.hidden:
                raise NotAllowed(tool.name, f"{tool.name} is not allowed for this agent.")
        raise UnknownTool(name, self._views.listing(view, self.catalog).nearest(name, style))

    def called(self, view: View, name: str) -> ToolRecord | None:
        """The tool that is there now and visible under a name, without waiting.

        What is hidden from this agent does not stand in the way of what it sees.
        """
        return next(filter(view.sees, self._readings(view, name)), None)

    def _readings(self, view: View, name: str) -> Iterable[ToolRecord]:
        bound = view.binding(name)
        if bound is None:
            return self.catalog.readings(name)
        tool = self.catalog.of_server(bound, name)
        return [tool] if tool is not None else []

    def _named(self, view: View, name: str) -> Link | None:
        """The server a name speaks of, whether or not it has such a tool."""
        bound = view.binding(name)
        if bound is not None:
            return self._links.get(bound)
        return next((self._by_prefix[prefix] for prefix, _ in spellings(name) if prefix in self._by_prefix), None)

    async def _permit(self, asked: Asked, view: View) -> Permitted:
        tool = await self.find(view, asked.name, asked.style)
        return Permitted(Resolved(asked, tool), view.ruling(tool))

    def _check(self, permitted: Permitted) -> tuple[Checked, dict[str, Any] | None]:
        tool = permitted.resolved.tool
        arguments, refusal = self._checker.arguments(
            self._links[tool.server].config, tool, permitted.resolved.asked.arguments, permitted.ruling.tightening
        )
        return Checked(permitted, arguments), refusal

    async def _agree(self, checked: Checked, view: View, host: Host, channel: Channel) -> dict[str, Any] | None:
        """None once nobody needs to be asked any more; else the result that carries the question to the host."""
        permitted, resolved = checked.permitted, checked.permitted.resolved
        # Nobody is asked about a call that would then be over its limit.
        self._ledger.look(resolved.tool.name, permitted.ruling.limits, resolved.asked.conversation)
        return await self._consent.obtain(resolved, checked.arguments, view.confirm_fallback, host, channel)

    async def _forward(self, checked: Checked, channel: Channel) -> dict[str, Any]:
        resolved, ruling = checked.permitted.resolved, checked.permitted.ruling
        tool, params = resolved.tool, resolved.asked.params
        sent = {key: value for key, value in params.items() if key not in _NOT_FORWARDED}
        sent["name"] = tool.own_name
        if checked.arguments or "arguments" in params:
            sent["arguments"] = checked.arguments
        meta = params.get("_meta")
        kept = onward(meta)
        if kept:
            sent["_meta"] = kept
        with self._ledger.charged(tool.name, ruling.limits, resolved.asked.conversation):
            if ruling.retry is None:
                return await self._send(checked, sent, tool.timeout, _relay(meta, channel))
            return await self._send_again(checked, sent, _relay(meta, channel))

    async def _send_again(self, checked: Checked, sent: dict[str, Any], heard: OnProgress | None) -> dict[str, Any]:
        """Send what may be repeated, as often as the time of one call allows."""
        tool = checked.permitted.resolved.tool
        loop = asyncio.get_running_loop()
        deadline = loop.time() + tool.timeout
        for pause in _RETRY_PAUSES:
            try:
                return await self._send(checked, sent, deadline - loop.time(), heard)
            except (UpstreamLost, UpstreamUnavailable, UpstreamHttpStatus) as error:
                passing = not isinstance(error, UpstreamHttpStatus) or error.details["status"] in _WORTH_A_RETRY
                if not passing or loop.time() + pause >= deadline:
                    raise
                log.info("%s is sent again (%s): %s", tool.name, checked.permitted.ruling.retry, error)
                await asyncio.sleep(pause)
        return await self._send(checked, sent, deadline - loop.time(), heard)

    async def _send(
        self, checked: Checked, sent: dict[str, Any], limit: float, heard: OnProgress | None
    ) -> dict[str, Any]:
        tool = checked.permitted.resolved.tool
        headers = mirror(tool.param_headers, checked.arguments) if tool.param_headers else None
        result = await self._links[tool.server].call("tools/call", sent, limit, heard, headers)
        if result.get("resultType", "complete") != "complete":
            kind = result["resultType"]
            raise UpstreamBadAnswer(tool.server, f"{tool.server} answered with a {kind!r} result nobody asked for.")
        return received(result)

    def _finish(self, checked: Checked, result: dict[str, Any]) -> dict[str, Any]:
        tool = checked.permitted.resolved.tool
        fitting = self._checker.result(self._links[tool.server].config, tool, result)
        return bounded(fitting, checked.permitted.ruling.limits.result)


def _might_call(view: View, link: Link, name: str) -> bool:
    """Whether this agent could call that name if its server were there: else it must not learn of the server."""
    server = link.config
    own_name = next((tool for prefix, tool in spellings(name) if prefix == server.prefix), name)
    return view.sees(ToolRecord(server.id, server.prefix, own_name, {}, {}, server.timeout))


def _away(link: Link) -> UpstreamUnavailable:
    said = f"{link.config.id} is {link.state}" + (f": {link.reason}" if link.reason else "")
    return UpstreamUnavailable(link.config.id, said.rstrip(".") + ".", state=link.state)


def _relay(meta: Any, channel: Channel) -> OnProgress | None:
    """Passes progress on under the host's own token, if it gave one (S/basic/patterns/progress)."""
    token = meta.get("progressToken") if isinstance(meta, dict) else None
    if token is None:
        return None

    def heard(params: dict[str, Any]) -> None:
        channel.notify("notifications/progress", {**params, "progressToken": token})

    return heard
