"""The road of a call: one function, top to bottom. Nothing reaches an upstream but through `forward`."""

import logging
from typing import Any, Final

from aggregator.catalog.catalog import Catalog
from aggregator.domain.call import Asked, Permitted, Resolved
from aggregator.domain.errors import (
    INVALID_PARAMS,
    HostError,
    UnknownTool,
    UpstreamBadAnswer,
    UpstreamError,
    UpstreamUnavailable,
    to_tool_result,
)
from aggregator.domain.names import Style, spellings
from aggregator.domain.records import ToolRecord
from aggregator.gateway.eras import onward, received
from aggregator.policy.open import decide
from aggregator.upstream.link import Link
from aggregator.upstream.supervisor import Supervisor
from aggregator.wire.headers import mirror
from aggregator.wire.peer import Channel, OnProgress

log = logging.getLogger(__name__)

# What stays behind: our own names and hop, and features that are agreed hop by hop.
_NOT_FORWARDED: Final = frozenset({"name", "_meta", "task"})


class Pipeline:
    """`catalog` is swapped whole when it changes; a call keeps what it resolved."""

    def __init__(self, supervisor: Supervisor, patience: float) -> None:
        links = supervisor.links
        self.catalog = Catalog()
        self._supervisor = supervisor
        self._patience = patience
        self._links = links
        self._by_prefix = {link.config.prefix: link for link in links.values()}

    async def call_tool(self, asked: Asked, channel: Channel) -> dict[str, Any]:
        """The upstream's result, whole; or an `isError` result that says why there is none.

        Raises:
            HostError: no such tool, or params that are no call.
            UpstreamRpcError: the upstream's own protocol error.
        """
        try:
            resolved = Resolved(asked, await self.find(asked.name, asked.style))
            permitted = self._permit(resolved)
            return await self._forward(permitted, channel)
        except UpstreamError as error:
            log.info("call of %s failed: %s", asked.name, error)
            return to_tool_result(error)

    async def find(self, name: str, style: Style) -> ToolRecord:
        """The tool a name means; a server that is still starting is waited for.

        Raises:
            UnknownTool: there is none, with the nearest names in the host's own style.
            UpstreamUnavailable: its server is away.
        """
        try:
            return self.catalog.resolve(name, style)
        except UnknownTool:
            link = self._named(name)
            if link is None:
                # A shortened name does not say which server it is of.
                await self._supervisor.all_tried(self._patience)
                return self.catalog.resolve(name, style)
            await self._supervisor.tried(link, link.config.timeout)
            if not link.shown:
                raise UpstreamUnavailable(
                    link.config.id,
                    f"{link.config.id} is {link.state}{': ' if link.reason else ''}{link.reason}".rstrip(".") + ".",
                    state=link.state,
                ) from None
            return self.catalog.resolve(name, style)

    def _permit(self, resolved: Resolved) -> Permitted:
        return Permitted(resolved, decide(resolved.asked.principal, resolved.tool))

    async def _forward(self, permitted: Permitted, channel: Channel) -> dict[str, Any]:
        tool, params = permitted.resolved.tool, permitted.resolved.asked.params
        arguments = params.get("arguments")
        if arguments is not None and not isinstance(arguments, dict):
            raise HostError(INVALID_PARAMS, "`arguments` of `tools/call` must be an object.")
        sent = {key: value for key, value in params.items() if key not in _NOT_FORWARDED}
        sent["name"] = tool.own_name
        meta = params.get("_meta")
        kept = onward(meta)
        if kept:
            sent["_meta"] = kept
        headers = mirror(tool.param_headers, arguments or {}) if tool.param_headers else None
        result = await self._links[tool.server].call("tools/call", sent, tool.timeout, _relay(meta, channel), headers)
        if result.get("resultType", "complete") != "complete":
            kind = result["resultType"]
            raise UpstreamBadAnswer(tool.server, f"{tool.server} answered with a {kind!r} result nobody asked for.")
        return received(result)

    def _named(self, name: str) -> Link | None:
        """The server a name speaks of, whether or not it has such a tool."""
        return next((self._by_prefix[prefix] for prefix, _ in spellings(name) if prefix in self._by_prefix), None)


def _relay(meta: Any, channel: Channel) -> OnProgress | None:
    """Passes progress on under the host's own token, if it gave one (S/basic/patterns/progress)."""
    token = meta.get("progressToken") if isinstance(meta, dict) else None
    if token is None:
        return None

    def heard(params: dict[str, Any]) -> None:
        channel.notify("notifications/progress", {**params, "progressToken": token})

    return heard
