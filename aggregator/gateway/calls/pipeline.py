"""The road of a call: one function, top to bottom. Nothing reaches an upstream but through `_forward`.

With a host of 2026-07-28 that has to be asked something, the call starts over from the top when the answer comes:
every step before `_forward` is safe to run twice, and limits are charged there, once for all its requests.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from aggregator.catalog.catalog import Catalog
from aggregator.config.model import Config
from aggregator.domain.bounds.offload import for_each, is_long
from aggregator.domain.call import ResolvedCall, ToolCall
from aggregator.domain.call_record import CallRecord
from aggregator.domain.errors import (
    HEADER_MISMATCH,
    HostError,
    OverLimit,
    StaleState,
    UnknownTool,
    Unverifiable,
    UpstreamError,
    UpstreamHttpStatus,
    UpstreamLost,
    UpstreamRpcError,
    UpstreamUnavailable,
)
from aggregator.domain.records import ToolRecord
from aggregator.domain.uris.links import in_result
from aggregator.gateway.ask.approval import ApprovalStep
from aggregator.gateway.ask.input_required import CallTarget, InputRequests, Resumption
from aggregator.gateway.ask.upstream_caller import RequestCaller
from aggregator.gateway.call_log import CallLog, name_tool, timed
from aggregator.gateway.calls.failover import Failover, goes_on, together
from aggregator.gateway.calls.progress import Progress
from aggregator.gateway.calls.provenance import attributed
from aggregator.gateway.calls.rate_limits import RateLimits
from aggregator.gateway.calls.resolve import Resolver
from aggregator.gateway.calls.result_size import bounded
from aggregator.gateway.calls.validate import Checker
from aggregator.gateway.eras import onward, received
from aggregator.gateway.host import Host
from aggregator.gateway.look_alike_members import refuse_look_alikes
from aggregator.gateway.offers import Offers
from aggregator.gateway.views.views import View
from aggregator.policy.limits import Limits
from aggregator.policy.rulebook import Ruling
from aggregator.upstream.sessions.negotiate import version_of
from aggregator.upstream.upstream import Upstream
from aggregator.wire.headers import mirror
from aggregator.wire.peer import Channel

log = logging.getLogger(__name__)

# What stays behind: our own names and hop, what was asked of our host, and features that are agreed hop by hop.
_NOT_FORWARDED: Final = frozenset({"name", "arguments", "task", "inputResponses", "requestState"})
# Pauses before a call that may be repeated is sent again.
_RETRY_PAUSES: Final = (0.2, 0.6)
_WORTH_A_RETRY: Final = frozenset({429, 502, 503, 504})


class Permitted(NamedTuple):
    """The policy allows it, perhaps once a person has agreed. Only the pipeline makes one."""

    resolved: ResolvedCall
    ruling: Ruling
    record: CallRecord


class Checked(NamedTuple):
    """The arguments fit; they may have been put right. Only this can be forwarded."""

    permitted: Permitted
    arguments: dict[str, Any]


class Pipeline:
    """A call keeps what it resolved, and one ruling, from end to end."""

    def __init__(
        self,
        links: Mapping[str, Upstream],
        resolver: Resolver,
        consent: ApprovalStep,
        journal: CallLog,
        inquiries: InputRequests,
        failover: Failover,
        offers: Offers,
    ) -> None:
        self._offers = offers
        self._links = links
        self._failover = failover
        self._inquiries = inquiries
        self._resolver = resolver
        self._consent = consent
        self._journal = journal
        self.checker = Checker()
        self._ledger = RateLimits()

    def reconfigure(self, config: Config) -> None:
        """The bounds of checks and results may be others by now."""
        self.checker.workers.reconfigure(config.checks)
        self._journal.results.most = config.max_results_bytes

    async def keep_checks_ready(self) -> None:
        """Compile the checks of every new catalog ahead of its calls, for ever."""
        ready: Catalog | None = None
        async with self.checker.workers:
            while True:
                ready = await self._resolver.current.tools_other_than(ready)
                await self.checker.prepare(ready.tools)

    async def call_tool(self, asked: ToolCall, view: View, host: Host, channel: Channel) -> dict[str, Any]:
        """The upstream's result, whole; or a result that says why there is none, or asks what has to be asked.

        Raises:
            HostError: no such tool, or params that are no call.
            UpstreamRpcError: the upstream's own protocol error.
        """
        return await self._journal.follow(asked, host, partial(self.travel, asked, view, host, channel))

    async def travel(
        self, asked: ToolCall, view: View, host: Host, channel: Channel, record: CallRecord
    ) -> dict[str, Any]:
        """From the name to the answer, for whoever follows the call.

        Raises:
            CallRefused, UpstreamError: why there is none.
            HostError, UpstreamRpcError: as `call_tool`.
        """
        with timed(record, "policy"):
            permitted = await self._permit(asked, view, record)
        with timed(record, "check"):
            checked, refusal = await self._check(permitted)
        if refusal is not None:
            return refusal
        tool = permitted.resolved.tool
        confirm = view.confirming.by if permitted.ruling.decision.verdict == "confirm" else None
        if self._failover.others and tool.name in self._failover.others:
            return await self._by_turns(checked, view, host, channel)
        behind = RequestCaller(host, asked.version, asked.params, channel)
        matter = CallTarget(self._links[tool.server], "tools/call", tool.name, asked.principal, checked.arguments)
        back = await self._inquiries.back(matter, behind, asked.params, confirm=confirm)
        if confirm is not None and back is None:
            with timed(record, "confirm"):
                interim = await self._agree(checked, view, host, channel)
            if interim is not None:
                return interim
        result = await self._forward(checked, matter, behind, back)
        if result.get("resultType", "complete") != "complete":
            return result
        with timed(record, "output"):
            return await self._finish(checked, result)

    async def _by_turns(self, checked: Checked, view: View, host: Host, channel: Channel) -> dict[str, Any]:
        """The rest of the road for a tool that others stand in for: one after the other has its turn, until one can."""
        first = checked.permitted
        tool, asked, record = first.resolved.tool, first.resolved.asked, first.record
        confirm = view.confirming.by if first.ruling.decision.verdict == "confirm" else None
        # Of one that a person has to agree to, that person knows nothing.
        others = [other for other in self._failover.of(tool) if view.ruling(other).decision.verdict == "allow"]
        returned = self._inquiries.claims(asked.params)
        turns = ((one, False) for one in (tool, *others)) if returned else self._failover.order((tool, *others))
        failure: HostError | UpstreamError | OverLimit | None = None
        charged = False
        for one, more in turns:
            turn = await self._in_place(checked, view, one, charged=charged)
            if turn is None:
                continue
            behind = RequestCaller(host, asked.version, asked.params, channel)
            matter = CallTarget(self._links[one.server], "tools/call", one.name, asked.principal, turn.arguments)
            record.answered_by = one.server if one is not tool else None
            try:
                back = await self._inquiries.back(matter, behind, asked.params, confirm=confirm)
                if confirm is not None and back is None:
                    with timed(record, "confirm"):
                        interim = await self._agree(checked, view, host, channel)
                    if interim is not None:
                        return interim
                confirm = None
                result = await self._forward(_once(turn) if more else turn, matter, behind, back)
            except (StaleState, UpstreamError, OverLimit) as error:
                foreign = returned and isinstance(error, StaleState)
                repeatable = turn.permitted.ruling.retry is not None
                if not foreign and (returned or not goes_on(error, repeatable=repeatable, first=one is tool)):
                    raise
                if isinstance(error, UpstreamError):
                    charged = True
                    self._failover.gave_way(one.server)
                if failure is None or one is tool:
                    failure = error
                record.answered_by = None
                continue
            if result.get("resultType", "complete") != "complete":
                return result
            with timed(record, "output"):
                return await self._finish(turn, result, checked)
        assert failure is not None, "the first one always has its turn"
        raise failure

    async def _in_place(self, checked: Checked, view: View, other: ToolRecord, *, charged: bool) -> Checked | None:
        """The same call of a tool that stands in, as that is by now; None where it may not have these arguments.

        `charged`: a turn before was counted.
        """
        first = checked.permitted
        if other is first.resolved.tool:
            limits = together(first.ruling.limits, Limits(), charged=charged)
            return Checked(first._replace(ruling=first.ruling._replace(limits=limits)), checked.arguments)
        await self._resolver.awake(other)
        tool = next((one for one in self._failover.of(first.resolved.tool) if one.name == other.name), None)
        if tool is None:
            return None
        ruling = view.ruling(tool)
        if ruling.decision.verdict != "allow":
            # It was another tool before it woke up.
            return None
        try:
            config = self._links[tool.server].config
            agent = first.resolved.asked.principal.agent_id
            arguments, refusal = await self.checker.arguments(config, tool, checked.arguments, ruling.tightening, agent)
        except Unverifiable:
            return None
        if refusal is not None:
            log.info("%s does not stand in for %s: it refuses the arguments", tool.name, first.resolved.tool.name)
            return None
        limits = together(first.ruling.limits, ruling.limits, charged=charged)
        # What was decided, and agreed to, is the call that the agent made.
        ruling = ruling._replace(decision=first.ruling.decision, limits=limits)
        return Checked(Permitted(ResolvedCall(first.resolved.asked, tool), ruling, first.record), arguments)

    async def _permit(self, asked: ToolCall, view: View, record: CallRecord) -> Permitted:
        refuse_look_alikes(asked.params)
        tool = await self._resolver.find(view, asked.name, asked.style)
        name_tool(record, tool)
        if tool.only_for_apps and (asked.via is not None or record.frontend == "v1"):
            # These are ways of models, and that is for a host's own doing (ext-apps, `visibility`).
            raise UnknownTool(asked.name, [], meant=tool)
        return Permitted(ResolvedCall(asked, tool), view.ruling(tool), record)

    async def _check(self, permitted: Permitted) -> tuple[Checked, dict[str, Any] | None]:
        tool, asked, rules = permitted.resolved.tool, permitted.resolved.asked, permitted.ruling.tightening
        server, agent = self._links[tool.server].config, asked.principal.agent_id
        arguments, refusal = await self.checker.arguments(server, tool, asked.arguments, rules, agent)
        permitted.record.arguments = arguments
        if refusal is not None:
            blame = await self.checker.blame(tool, arguments, rules, agent)
            permitted.record.rule, permitted.record.rule_source = blame or (None, None)
        return Checked(permitted, arguments), refusal

    async def _agree(self, checked: Checked, view: View, host: Host, channel: Channel) -> dict[str, Any] | None:
        """None once nobody needs to be asked any more; else the result that carries the question to the host."""
        permitted, resolved = checked.permitted, checked.permitted.resolved
        record, decision = permitted.record, permitted.ruling.decision
        record.rule, record.rule_source = decision.rule, decision.source
        # Nobody is asked about a call that would then be over its limit.
        self._ledger.look(resolved.tool.name, permitted.ruling.limits, resolved.asked.conversation)
        way = view.confirming
        record.approved_by, interim = await self._consent.obtain(resolved, checked.arguments, way, host, channel)
        return interim

    async def _forward(
        self, checked: Checked, matter: CallTarget, behind: RequestCaller, back: Resumption | None
    ) -> dict[str, Any]:
        record = checked.permitted.record
        if back is not None:
            record.approved_by = back.agreed
        await self._journal.sends(record)
        if back is not None and back.parked is not None:
            record.upstream_version = version_of(matter.link.greeting)
            with timed(record, "upstream"):
                return await self._inquiries.resume(matter, behind, back)
        if not self._inquiries.parks(matter, behind):
            return await self._carry(checked, matter, behind, back)
        # What goes on when this request is answered must not write into its record.
        apart = CallRecord(
            record.trace, record.started, record.agent_id, record.asked_name, record.frontend, record.began
        )
        apart.approved_by = record.approved_by
        permitted = Permitted(checked.permitted.resolved, checked.permitted.ruling, apart)
        work = partial(self._carry, Checked(permitted, checked.arguments), matter, behind, back)
        try:
            with timed(record, "upstream"):
                return await self._inquiries.park(
                    matter,
                    behind,
                    work,
                    partial(self._journal.unclaimed, record),
                    agreed=record.approved_by,
                )
        finally:
            record.retries, record.upstream_version = apart.retries, version_of(matter.link.greeting)

    async def _carry(
        self, checked: Checked, matter: CallTarget, behind: RequestCaller, back: Resumption | None
    ) -> dict[str, Any]:
        """All that the call is to its upstream, counted as one."""
        resolved, ruling, record = checked.permitted
        tool, params = resolved.tool, resolved.asked.params
        sent = {key: value for key, value in params.items() if key not in _NOT_FORWARDED}
        sent["name"] = tool.own_name
        if checked.arguments or "arguments" in params:
            sent["arguments"] = checked.arguments
        heard = Progress(behind) if behind.token is not None else None
        once = self._send if ruling.retry is None else self._send_again

        async def send(more: dict[str, Any]) -> dict[str, Any]:
            return await once(checked, {**sent, **more} if more else sent, tool.timeout, behind, heard)

        more = back.more if back is not None else self._inquiries.unasked(matter, behind, params)
        with self._ledger.charged(tool.name, ruling.limits, resolved.asked.conversation, again=back is not None):
            steps = len(record.steps)
            try:
                result = await self._inquiries.carry(matter, behind, send, more, agreed=record.approved_by)
            except BaseException as error:
                if isinstance(error, UpstreamError):
                    # With more than one request it was answered before, with a question.
                    error.settle(harmless=ruling.retry is not None, begun=len(record.steps) - steps > 1)
                if heard is not None:
                    heard.drop()
                raise
        if heard is not None:
            heard.flush()
        return result

    async def _send_again(
        self, checked: Checked, sent: dict[str, Any], limit: float, behind: RequestCaller, heard: Progress | None
    ) -> dict[str, Any]:
        """Send what may be repeated, as often as the time of one call allows."""
        tool = checked.permitted.resolved.tool
        loop = asyncio.get_running_loop()
        deadline = loop.time() + limit
        for pause in _RETRY_PAUSES:
            try:
                return await self._send(checked, sent, deadline - loop.time(), behind, heard)
            except (UpstreamLost, UpstreamUnavailable, UpstreamHttpStatus) as error:
                wait, passing = pause, True
                if isinstance(error, UpstreamHttpStatus):
                    wait = max(pause, error.details.get("retry_after", 0.0))
                    passing = error.details["status"] in _WORTH_A_RETRY
                if not passing or loop.time() + wait >= deadline:
                    raise
                log.info("%s is sent again (%s): %s", tool.name, checked.permitted.ruling.retry, error)
                await asyncio.sleep(wait)
                checked.permitted.record.retries += 1
        return await self._send(checked, sent, deadline - loop.time(), behind, heard)

    async def _send(
        self, checked: Checked, sent: dict[str, Any], limit: float, behind: RequestCaller, heard: Progress | None
    ) -> dict[str, Any]:
        tool, record = checked.permitted.resolved.tool, checked.permitted.record
        link = self._links[tool.server]
        headers = mirror(tool.param_headers, checked.arguments) if tool.param_headers else None
        meta = onward(sent.get("_meta"), trusted=link.config.trusted)
        meta |= self._journal.carried(record, meta)
        if meta or "_meta" in sent:
            sent = {**sent, "_meta": meta}
        try:
            with timed(record, "upstream"):
                try:
                    result = await link.call("tools/call", sent, limit, heard, headers, behind)
                except UpstreamRpcError as error:
                    if error.code != HEADER_MISMATCH:
                        raise
                    # Nothing was run: the tool may have other headers by now (SH, Custom Headers).
                    await link.read_tools_again()
                    now = self._resolver.catalog.of_server(tool.server, tool.own_name) or tool
                    headers = mirror(now.param_headers, checked.arguments)
                    result = await link.call("tools/call", sent, limit, heard, headers, behind)
        finally:
            record.upstream_version = behind.sent_in or version_of(link.greeting)
        linked = partial(in_result, tool.prefix, received(result), self._offers.elsewhere(behind.host, link))
        return await asyncio.to_thread(linked) if is_long(result.get("content")) else linked()

    async def _finish(self, checked: Checked, result: dict[str, Any], asked: Checked | None = None) -> dict[str, Any]:
        """`asked` is the call that was made, if another tool stood in."""
        tool = checked.permitted.resolved.tool
        meant = asked.permitted.resolved.tool if asked is not None else tool
        server = self._links[tool.server].config
        agent = checked.permitted.resolved.asked.principal.agent_id
        fitting = await self.checker.result(self._links[meant.server].config, meant, result, agent)
        limit, content = checked.permitted.ruling.limits.result, fitting.get("content")
        within = fitting if limit is None else await for_each(content, bounded, fitting, limit)
        named = partial(attributed, server, tool, within, time.time(), meant.server)
        return await asyncio.to_thread(named) if is_long(within.get("content")) else named()


def _once(checked: Checked) -> Checked:
    """The same call, not to be sent again: another server is there."""
    permitted = checked.permitted
    return checked._replace(permitted=permitted._replace(ruling=permitted.ruling._replace(retry=None)))
