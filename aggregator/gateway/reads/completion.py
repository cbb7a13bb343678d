"""`completion/complete`: values for an argument of a prompt or of a resource template, from its server."""

import asyncio
from collections.abc import Hashable, Mapping
from typing import Any, Final

from aggregator.domain.bounds.lru import LruCache
from aggregator.domain.bounds.token_bucket import TokenBucket
from aggregator.domain.errors import INVALID_PARAMS, METHOD_NOT_FOUND, HostError, OverLimit, UpstreamRpcError
from aggregator.domain.missing import ItemRefused
from aggregator.gateway.agent_items import AgentItems
from aggregator.gateway.calls.relay import Relay
from aggregator.gateway.reads.permission import ItemPermission
from aggregator.gateway.reads.prompts import Prompts
from aggregator.gateway.reads.resources import Resources
from aggregator.gateway.request import Request
from aggregator.gateway.resolved_item import ResolvedItem
from aggregator.upstream.sessions.negotiate import Negotiated

# S/server/utilities/completion.
MOST: Final = 100
_BEFORE_THE_CAPABILITY: Final = "2024-11-05"
# A completion may follow every keystroke, and a server must limit them (S, Security Considerations): requests a second,
# and at once, of one agent to one server. The limits of policies count calls of tools only.
RATE: Final = 20.0
BURST: Final = 60.0
# Pairs of agent and server that are remembered; the least recently used is forgotten first.
_PAIRS: Final = 10_000
_NOTHING: Final[Mapping[str, Any]] = {"completion": {"values": [], "hasMore": False}}


class Completion:
    """Completion of arguments. An item that may not be read or got is not completed either."""

    def __init__(
        self, agent_items: AgentItems, resources: Resources, prompts: Prompts, permission: ItemPermission, relay: Relay
    ) -> None:
        self._agent_items = agent_items
        self._resources = resources
        self._prompts = prompts
        self._permission = permission
        self._relay = relay
        self._buckets: LruCache[Hashable, TokenBucket] = LruCache(_PAIRS)
        # Greetings of servers that answered with "method not found".
        self._without_completion: dict[str, Negotiated] = {}

    async def complete(self, request: Request) -> dict[str, Any]:
        """Return the result; it has no values if the server completes nothing.

        Raises:
            HostError: the reference is invalid or leads to nothing this agent may have, or it asks too often.
            UpstreamRpcError, UpstreamError: the error of its server, or the reason why there is no answer.
        """
        ref, argument = request.params.get("ref"), request.params.get("argument")
        if not isinstance(ref, dict) or not isinstance(argument, dict):
            raise HostError(INVALID_PARAMS, "`completion/complete` needs `ref` and `argument` as objects.")
        found, key = await self._find(ref, request)
        request.about(found.upstream.config.id, found.own)
        guards = await self._permission.without_asking(found, self._agent_items.view(request), request)
        negotiated = found.upstream.negotiated
        if negotiated is not None and not self._may_complete(found.upstream.config.id, negotiated):
            return dict(_NOTHING)
        self._charge(found, request)
        params = {**request.params, "ref": {**ref, key: found.own_now}}
        try:
            answer = self._relay.read_item(
                found, "completion/complete", params, request, questions=self._permission.questions(guards, request)
            )
            return _bounded(await self._permission.noted(guards, request, answer))
        except UpstreamRpcError as error:
            if error.code == METHOD_NOT_FOUND:
                if negotiated is not None:
                    self._without_completion[found.upstream.config.id] = negotiated
                return dict(_NOTHING)
            raise

    def _may_complete(self, server: str, negotiated: Negotiated) -> bool:
        """Return whether a server may know completion: it declares it, or speaks 2024-11-05, which has no such
        capability.

        A server that answered with "method not found" is not asked again on that connection.
        """
        if self._without_completion.get(server) is negotiated:
            return False
        return "completions" in negotiated.capabilities or negotiated.version == _BEFORE_THE_CAPABILITY

    def _charge(self, found: ResolvedItem, request: Request) -> None:
        server, principal = found.upstream.config.id, request.host.principal
        pair = principal.tenant, principal.agent_id, server
        bucket = self._buckets.get(pair) or TokenBucket(RATE, BURST)
        self._buckets.put(pair, bucket)
        if not bucket.allows(1.0, asyncio.get_running_loop().time()):
            said = f"{server} is asked for completions {RATE:g} times a second at most."
            over = OverLimit(found.name, said, limit="completions_per_second", most=int(RATE), retry_after=1)
            raise ItemRefused.by(over)

    async def _find(self, ref: Mapping[str, Any], request: Request) -> tuple[ResolvedItem, str]:
        view, name, uri = self._agent_items.view(request), ref.get("name"), ref.get("uri")
        if ref.get("type") == "ref/prompt" and isinstance(name, str) and name:
            return await self._prompts.find(view, name, request), "name"
        if ref.get("type") == "ref/resource" and isinstance(uri, str) and uri:
            return await self._resources.find(view, uri), "uri"
        raise HostError(INVALID_PARAMS, "`ref` must be a `ref/prompt` with a `name`, or a `ref/resource` with a `uri`.")


def _bounded(result: dict[str, Any]) -> dict[str, Any]:
    """Return the result with at most `MOST` values."""
    completion = result.get("completion")
    values = completion.get("values") if isinstance(completion, dict) else None
    if not isinstance(completion, dict) or not isinstance(values, list) or len(values) <= MOST:
        return result
    total = completion.get("total")
    known = total if isinstance(total, int) and total > len(values) else len(values)
    cut = {**completion, "values": values[:MOST], "total": known, "hasMore": True}
    return {**result, "completion": cut}
