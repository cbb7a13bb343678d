"""Run the calls of one request concurrently, within the limit of the conversation."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final

from aggregator.code.programs import RUN_CODE
from aggregator.dialects.names import Schemas
from aggregator.domain.bounds.offload import for_each
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.call import CONVERSATION_KEY, ToolCall
from aggregator.domain.call_record import TOOL_CALL, CallRecord
from aggregator.domain.errors import BadArguments, Blame, HostError, OverLimit, RpcError, UnknownTool, UpstreamRpcError
from aggregator.domain.principal import Principal
from aggregator.domain.versions import LATEST_MODERN, META_CLIENT_CAPABILITIES, META_VERSION
from aggregator.frontends.v1.conversations import CallCount, Conversations
from aggregator.frontends.v1.parse_calls import CallBatch, Form, ParsedCall
from aggregator.frontends.v1.render_results import STATUSES, CallOutcome, of_error, of_result
from aggregator.frontends.web.header_context import with_context
from aggregator.frontends.web.sessions.http_session import BatchChannel
from aggregator.gateway.calls.direct_call import DirectCall
from aggregator.gateway.dispatcher import Dispatcher
from aggregator.gateway.host import Host
from aggregator.gateway.meta.call_tool import CALL
from aggregator.gateway.meta.registry import META_TOOLS
from aggregator.tool_reports.book import REPORT_TOOL

log = logging.getLogger(__name__)

# Error codes of calls of which nothing was sent to an upstream.
_NOT_SENT: Final = frozenset({*STATUSES, "schema_unusable", "check_cut", "upstream_unavailable", "upstream_busy"})
# Meta tools that call no tool, or count each that they call.
NOT_COUNTED: Final = frozenset(META_TOOLS) - {CALL} | {RUN_CODE, REPORT_TOOL}

# Raises the refusal of a call, inside the record of that call.
RefuseCall = Callable[[CallRecord], Coroutine[Any, Any, dict[str, Any]]]


_BLAME: Final = Blame("v1.max_calls_per_conversation", None)


class CallRunner:
    """A runner of calls; a conversation may make `most` of them, any number for None."""

    def __init__(self, gateway: Dispatcher, most: int | None) -> None:
        self._gateway = gateway
        self.most = most
        self._conversations = Conversations(gateway.direct.rate_limits.shared)

    async def run(
        self, batch: CallBatch, principal: Principal, headers: Mapping[str, Sequence[str]]
    ) -> list[CallOutcome]:
        """Run the calls of a batch and return their outcomes in order; `headers` may name the trace."""
        count, meta = self.count(batch, principal), meta_of(batch.conversation, headers)
        async with Tasks("the calls of a request") as tasks:
            hosts = [host_of(batch.form, principal) for _ in batch.calls]
            running = [
                tasks.start(self._one(call, host, meta, count)) for call, host in zip(batch.calls, hosts, strict=True)
            ]
            return [await one for one in running]

    def count(self, batch: CallBatch, principal: Principal) -> CallCount:
        """Return the count of calls of the conversation of a batch."""
        return self._conversations.count(principal.agent_id, batch.conversation, asyncio.get_running_loop().time())

    async def rest(self, direct: DirectCall, call: ParsedCall, count: CallCount) -> CallOutcome:
        """Return the outcome of a call that was counted and sent without a task."""
        outcome = await self._outcome(call, self._gateway.direct.take_over(direct, BatchChannel(0)))
        if outcome.code in _NOT_SENT:
            count.give_back()
        return outcome

    async def _one(self, call: ParsedCall, host: Host, meta: Mapping[str, Any], count: CallCount) -> CallOutcome:
        params = {"name": call.name, "arguments": call.arguments, "_meta": dict(meta)}
        host.count_call = partial(count.take, self.most)
        if call.name in NOT_COUNTED:
            return await self._made(call, host, params)
        if not await count.take(self.most):
            return await self._over(call, host, params)
        outcome = await self._made(call, host, params)
        if outcome.code in _NOT_SENT:
            count.give_back()
        return outcome

    async def _made(self, call: ParsedCall, host: Host, params: dict[str, Any]) -> CallOutcome:
        if call.fault is not None:
            refused = self._refused(call, host, params, self._unreadable(call, host))
            return await self._outcome(call, refused)
        return await self._outcome(call, self._gateway.answer(host, TOOL_CALL, params, BatchChannel(0)))

    async def _outcome(self, call: ParsedCall, answering: Coroutine[Any, Any, Mapping[str, Any]]) -> CallOutcome:
        """Return the outcome of a call that is being answered."""
        try:
            result = await answering
            return await for_each(result.get("content"), of_result, call, result)
        except (UnknownTool, UpstreamRpcError) as error:
            return of_error(call, error)
        except HostError as error:
            return of_result(call, BadArguments(call.name, error.message).to_result())
        except RpcError as error:
            return of_error(call, error)
        except Exception as error:
            log.exception("a call of %r failed", call.name)
            return of_error(call, error)

    async def _over(self, call: ParsedCall, host: Host, params: dict[str, Any]) -> CallOutcome:
        """Refuse a call beyond the limit of the conversation."""
        said = (
            f"{call.name} was not called: at most {self.most} calls are allowed in one conversation here. "
            "Answer with what is known."
        )
        over = OverLimit(call.name, said, blame=_BLAME, limit="per_conversation", most=self.most)

        async def refuse(record: CallRecord) -> dict[str, Any]:
            raise over

        return of_result(call, await self._refused(call, host, params, refuse))

    def _unreadable(self, call: ParsedCall, host: Host) -> RefuseCall:
        """Return a step that refuses a call with unreadable arguments, if there is such a tool at all."""

        async def refuse(record: CallRecord) -> dict[str, Any]:
            meant = await self._gateway.find(host.principal, call.name) if call.name not in META_TOOLS else None
            raise BadArguments(call.name, f"{call.name} was not called: {call.fault}.", meant=meant)

        return refuse

    async def _refused(
        self, call: ParsedCall, host: Host, params: dict[str, Any], refuse: RefuseCall
    ) -> dict[str, Any]:
        """Record a call that is refused, like every other call."""
        asked = ToolCall(host.principal, params, LATEST_MODERN, host.style, params["_meta"].get(CONVERSATION_KEY))
        async with self._gateway.call_log.record(asked, host) as entry:
            await entry.wait_for_space()
            entry.answer_with(await refuse(entry.record))
        return entry.result


def meta_of(conversation: str | None, headers: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the `_meta` of a call: of 2026-07-28, without a handshake and with whole results."""
    meta: dict[str, Any] = {META_VERSION: LATEST_MODERN, META_CLIENT_CAPABILITIES: {}}
    if conversation is not None:
        meta[CONVERSATION_KEY] = conversation
    found: dict[str, Any] = with_context({"_meta": meta}, headers)["_meta"]
    return found


def host_of(form: Form, principal: Principal) -> Host:
    """Return the host of one call."""
    # Definitions in the form of a model API are in its dialect, and so are the arguments of their calls.
    schemas: Schemas = form if form != "single" else "original"
    return Host("v1", "canonical" if form == "single" else "compatible", principal, schemas=schemas)
