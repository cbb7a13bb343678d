"""The calls of one request: side by side, each ending for itself, none more than the conversation may make."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from aggregator.domain.bounds.offload import for_each
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.call import CONVERSATION_KEY, ToolCall
from aggregator.domain.call_record import CallRecord
from aggregator.domain.errors import BadArguments, Blame, HostError, OverLimit, RpcError, UnknownTool, UpstreamRpcError
from aggregator.domain.names import Style
from aggregator.domain.principal import Principal
from aggregator.domain.versions import LATEST_MODERN, META_CLIENT_CAPABILITIES, META_VERSION
from aggregator.frontends.v1.conversations import CallCount, Conversations
from aggregator.frontends.v1.parse_calls import CallBatch, ParsedCall
from aggregator.frontends.v1.render_results import STATUSES, CallOutcome, of_error, of_result
from aggregator.frontends.web.header_context import with_context
from aggregator.frontends.web.sessions import BatchChannel
from aggregator.gateway.dispatcher import Dispatcher
from aggregator.gateway.host import Host
from aggregator.gateway.meta.call_tool import CALL
from aggregator.gateway.meta.registry import META_TOOLS

log = logging.getLogger(__name__)

# After these nothing was sent to an upstream.
_NOT_SENT: Final = frozenset({*STATUSES, "schema_unusable", "check_cut", "upstream_unavailable", "upstream_busy"})
# Nor is anything for a look at the catalog.
_LOOKS: Final = frozenset(META_TOOLS) - {CALL}

Travel = Callable[[CallRecord], Awaitable[dict[str, Any]]]

_BLAME: Final = Blame("v1.max_calls_per_conversation", None)


class CallRunner:
    """`most` is how many calls a conversation may make; None for any number."""

    def __init__(self, gateway: Dispatcher, most: int | None) -> None:
        self._gateway = gateway
        self._most = most
        self._conversations = Conversations()

    async def run(
        self, order: CallBatch, principal: Principal, headers: Mapping[str, Sequence[str]]
    ) -> list[CallOutcome]:
        """Every call of an order, in order, whatever becomes of it. `headers` say for whom it is, and its trace."""
        count = self._conversations.count(principal.agent_id, order.conversation, asyncio.get_running_loop().time())
        # The modern era: no handshake, and results whole.
        meta: dict[str, Any] = {META_VERSION: LATEST_MODERN, META_CLIENT_CAPABILITIES: {}}
        if order.conversation is not None:
            meta[CONVERSATION_KEY] = order.conversation
        meta = with_context({"_meta": meta}, headers)["_meta"]
        names: Style = "canonical" if order.form == "single" else "compatible"
        async with Tasks("the calls of a request") as tasks:
            running = [
                tasks.start(self._one(wanted, Host("v1", names, principal), meta, count)) for wanted in order.calls
            ]
            return [await one for one in running]

    async def _one(self, wanted: ParsedCall, host: Host, meta: Mapping[str, Any], count: CallCount) -> CallOutcome:
        params = {"name": wanted.name, "arguments": wanted.arguments, "_meta": dict(meta)}
        if wanted.name in _LOOKS:
            return await self._made(wanted, host, params)
        if not count.take(self._most):
            return await self._over(wanted, host, params)
        outcome = await self._made(wanted, host, params)
        if outcome.code in _NOT_SENT:
            count.give_back()
        return outcome

    async def _made(self, wanted: ParsedCall, host: Host, params: dict[str, Any]) -> CallOutcome:
        try:
            if wanted.fault is not None:
                return await self._refused(wanted, host, params, self._unreadable(wanted, host))
            result = await self._gateway.answer(host, "tools/call", params, BatchChannel(0))
            return await for_each(result.get("content"), of_result, wanted, result)
        except (UnknownTool, UpstreamRpcError) as error:
            return of_error(wanted, error)
        except HostError as error:
            return of_result(wanted, BadArguments(wanted.name, error.message).to_result())
        except RpcError as error:
            return of_error(wanted, error)
        except Exception as error:
            log.exception("a call of %r failed", wanted.name)
            return of_error(wanted, error)

    async def _over(self, wanted: ParsedCall, host: Host, params: dict[str, Any]) -> CallOutcome:
        """One call more than a conversation may make."""
        said = (
            f"{wanted.name} was not called: at most {self._most} calls are allowed in one conversation here. "
            "Answer with what is known."
        )
        over = OverLimit(wanted.name, said, blame=_BLAME, limit="per_conversation", most=self._most)

        async def refuse(record: CallRecord) -> dict[str, Any]:
            raise over

        return await self._refused(wanted, host, params, refuse)

    def _unreadable(self, wanted: ParsedCall, host: Host) -> Travel:
        """A call whose arguments nobody can read, if there is such a tool at all."""

        async def refuse(record: CallRecord) -> dict[str, Any]:
            meant = await self._gateway.find(host.principal, wanted.name) if wanted.name not in META_TOOLS else None
            raise BadArguments(wanted.name, f"{wanted.name} was not called: {wanted.fault}.", meant=meant)

        return refuse

    async def _refused(self, wanted: ParsedCall, host: Host, params: dict[str, Any], refuse: Travel) -> CallOutcome:
        """A call that is not made, on record like every other."""
        asked = ToolCall(host.principal, params, LATEST_MODERN, host.style, params["_meta"].get(CONVERSATION_KEY))
        return of_result(wanted, await self._gateway.journal.follow(asked, host, refuse))
