"""The road of a call: one function, top to bottom. Nothing reaches an upstream but through `forward`."""

import logging
from collections.abc import Callable, Mapping
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
from aggregator.domain.names import spellings
from aggregator.gateway.eras import onward
from aggregator.policy.open import decide
from aggregator.upstream.link import Link
from aggregator.wire.headers import mirror
from aggregator.wire.peer import Channel, OnProgress

log = logging.getLogger(__name__)

# What stays behind: our own names and hop, and features that are agreed hop by hop.
_NOT_FORWARDED: Final = frozenset({"name", "_meta", "task"})


class Pipeline:
    """`catalog` is swapped whole when it changes; a call keeps what it resolved."""

    def __init__(self, links: Mapping[str, Link], settled: Callable[[], Any]) -> None:
        self.catalog = Catalog()
        self._links = links
        self._settled = settled
        self._by_prefix = {link.config.prefix: link for link in links.values()}

    async def call_tool(self, asked: Asked, channel: Channel) -> dict[str, Any]:
        """The upstream's result, whole; or an `isError` result that says why there is none.

        Raises:
            HostError: no such tool, or params that are no call.
            UpstreamRpcError: the upstream's own protocol error.
        """
        try:
            resolved = await self._resolve(asked)
            permitted = self._permit(resolved)
            return await self._forward(permitted, channel)
        except UpstreamError as error:
            log.info("call of %s failed: %s", asked.name, error)
            return to_tool_result(error)

    async def _resolve(self, asked: Asked) -> Resolved:
        try:
            return Resolved(asked, self.catalog.resolve(asked.name))
        except UnknownTool:
            link = self._named(asked.name)
            if link is None:
                raise
            if link.state == "starting":
                await self._settled()
            if not link.shown:
                raise UpstreamUnavailable(
                    link.config.id,
                    f"{link.config.id} is {link.state}: {link.reason or 'try again soon'}",
                    state=link.state,
                ) from None
            return Resolved(asked, self.catalog.resolve(asked.name))

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
        return result

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
