"""The relay: the one place that sends requests of hosts to upstreams: calls, reads, gets and completions.

Law: a call of a tool is sent for a `Checked` only, and is charged to its limits here, once for all its requests. No
other module of the gateway calls `Upstream.call`; only `gateway/calls/direct.py` calls `Upstream.begin`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from aggregator.accounts.ask import MissingAccounts
from aggregator.domain.call_record import CallRecord
from aggregator.domain.decision import ConfirmBy
from aggregator.domain.errors import (
    HEADER_MISMATCH,
    UpstreamBadAnswer,
    UpstreamError,
    UpstreamHttpStatus,
    UpstreamLost,
    UpstreamRpcError,
    UpstreamUnavailable,
)
from aggregator.domain.missing import LoginRequired
from aggregator.domain.records import ToolRecord
from aggregator.gateway.ask.input_required import (
    STATE_LIFETIME,
    InputRequests,
    Resumption,
    ask_while_waiting,
    unasked_answers,
)
from aggregator.gateway.ask.next_round import CallTarget, is_complete, next_round, round_of_error
from aggregator.gateway.ask.upstream_caller import RequestCaller
from aggregator.gateway.call_log import CallLog
from aggregator.gateway.calls.direct_call import DirectCall
from aggregator.gateway.calls.progress import Progress
from aggregator.gateway.calls.rate_limits import FREE, RateLimits
from aggregator.gateway.calls.resolve import Resolver
from aggregator.gateway.calls.stages import Checked
from aggregator.gateway.eras import received
from aggregator.gateway.hooks import NO_QUESTIONS, Questions
from aggregator.gateway.recording.timing import attempted
from aggregator.gateway.request import Request
from aggregator.gateway.resolved_item import ResolvedItem
from aggregator.policy.limits import Limits
from aggregator.upstream.sessions.negotiate import version_of
from aggregator.upstream.sessions.request import UpstreamRequest
from aggregator.wire.headers import mirror

log = logging.getLogger(__name__)

# How many questions one request may put to a host that answers while the request waits.
ROUNDS: Final = 10
# Seconds before a retry that an upstream asks for; the pause doubles, up to the longest.
_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 5.0
# Seconds before a call that may be repeated is sent again.
_RETRY_PAUSES: Final = (0.2, 0.6)
_WORTH_A_RETRY: Final = frozenset({429, 502, 503, 504})

_PROMPT: Final = "prompts/get"
# Params of the host's hop alone: answers to our own questions, and `task`, a feature negotiated hop by hop.
_NOT_FORWARDED: Final = frozenset({"task", "inputResponses", "requestState"})
# A call is sent under the upstream's own name, with validated arguments.
_NOT_FORWARDED_OF_CALL: Final = _NOT_FORWARDED | {"name", "arguments"}
_UNLIMITED: Final = Limits()


@dataclass(slots=True)
class _Outgoing:
    """One request of a host on its way to an upstream: the facts that its rounds and retries share.

    `params` go to the upstream except for `_meta`, `given` are the host's. `tool` is the called tool, None for an item.
    `harmless`: a repetition changes nothing. `retry`: why it may be sent again if it gets no answer.
    `direct`: the call, if it was sent already and charged to its limits. `name_to_send` returns the name that the
    server gives the tool now, or raises why it may not be called.
    """

    target: CallTarget
    caller: RequestCaller
    record: CallRecord
    params: dict[str, Any]
    given: Mapping[str, Any]
    limit: float
    progress: Progress | None
    tool: ToolRecord | None = None
    headers: Mapping[str, str] | None = None
    limits: Limits = _UNLIMITED
    conversation: str | None = None
    harmless: bool = False
    retry: str | None = None
    direct: DirectCall | None = None
    name_to_send: Callable[[], str] | None = None

    def __post_init__(self) -> None:
        self.record.sending = self.record.sending._replace(harmless=self.harmless)

    def name_now(self) -> str:
        """Return the name that the server gives the tool now, for this request and those after it.

        Raises:
            ToolHeld, NotAllowed: as of `Resolver.name_to_send`.
        """
        assert self.name_to_send is not None, "only calls of tools are renamed"
        name = self.name_to_send()
        self.params = {**self.params, "name": name}
        return name

    def sent_name(self) -> str | None:
        """Return the name of the tool or prompt in the request, if its server spells the approved one otherwise."""
        if self.tool is not None:
            own = self.tool.own_name
        elif self.target.method == _PROMPT:
            own = self.target.what
        else:
            return None
        return self.params["name"] if self.params["name"] != own else None


class Relay:
    """The sender of requests to upstreams, in as many rounds as an upstream has questions to the host."""

    def __init__(
        self,
        call_log: CallLog,
        input_requests: InputRequests,
        rate_limits: RateLimits,
        resolver: Resolver,
        accounts: MissingAccounts | None = None,
    ) -> None:
        self._accounts = accounts or MissingAccounts()
        self._call_log = call_log
        self._input_requests = input_requests
        self._rate_limits = rate_limits
        self._resolver = resolver

    def call_tool(
        self,
        checked: Checked,
        target: CallTarget,
        caller: RequestCaller,
        resumption: Resumption | None,
        direct: DirectCall | None = None,
        *,
        sent_as: str,
        name_to_send: Callable[[], str],
    ) -> Awaitable[dict[str, Any]]:
        """Send a call of a tool. Return the upstream's result, or a question to the host (`is_complete`).

        `direct` is the call, if it was sent already. `sent_as` is the name that the server gives the tool, and
        `name_to_send` returns it after a wait for the server, or raises why the tool may not be called then.

        Raises:
            OverLimit: a limit of the policy is reached; nothing is sent.
            NotRecorded: the audit log must record the call before it is sent, and cannot.
            HostError, UpstreamRpcError, UpstreamError: as of `Upstream.call`, or the host's answers are bad.
        """
        call, plan, ruling, record, _ = checked.permitted
        tool = plan.tool
        params = {key: value for key, value in call.params.items() if key not in _NOT_FORWARDED_OF_CALL}
        params["name"] = sent_as
        if checked.arguments or "arguments" in call.params:
            params["arguments"] = checked.arguments
        progress = direct.progress if direct is not None else None
        if progress is None and caller.token is not None:
            progress = Progress(caller)
        if direct is not None:
            direct.progress = progress
        outgoing = _Outgoing(
            target,
            caller,
            record,
            params,
            call.params,
            tool.timeout,
            progress,
            tool,
            mirror(tool.param_headers, checked.arguments) if tool.param_headers else None,
            ruling.limits,
            call.conversation,
            ruling.retry is not None,
            ruling.retry,
            direct,
            name_to_send,
        )
        # The steps before a call were done before this one was sent.
        return self._relay(outgoing, resumption) if direct is None else self._rounds(outgoing, None)

    async def read_item(
        self,
        item: ResolvedItem,
        method: str,
        params: Mapping[str, Any],
        request: Request,
        *,
        confirm: ConfirmBy | None = None,
        questions: Questions = NO_QUESTIONS,
    ) -> dict[str, Any]:
        """Send a read, a get or a completion; `params` have the upstream's name of the item.

        Return the upstream's result, without the members of its own hop, or a question to the host (`is_complete`).
        `confirm`: the approver, if the read needed an approval. `questions`: the decisions about its questions.

        Raises:
            HostError: the host came back with a bad answer for this request.
            UpstreamRpcError: the upstream's own error.
            UpstreamError: it is away, too slow, gone in the middle, or answered nonsense.
            NotRecorded: the audit log must record the request before it is sent, and cannot.
        """
        assert request.entry is not None, "every request that reaches an upstream is on record"
        upstream = item.upstream
        caller = RequestCaller(request.host, request.version, params, request.channel)
        caller.questions = questions
        target = CallTarget(upstream, method, item.own, request.host.principal, request.arguments())
        sent = {key: value for key, value in params.items() if key not in _NOT_FORWARDED}
        progress = Progress(caller) if caller.token is not None else None
        resumption = await self._input_requests.resumption(target, caller, params, confirm=confirm)
        # None of these methods changes anything.
        outgoing = _Outgoing(
            target, caller, request.entry.record, sent, params, upstream.config.timeout, progress, harmless=True
        )
        return await self._relay(outgoing, resumption)

    async def _relay(self, outgoing: _Outgoing, resumption: Resumption | None) -> dict[str, Any]:
        """Send the request: at once, as a parked call, or by resuming a parked call."""
        target, caller, record = outgoing.target, outgoing.caller, outgoing.record
        if resumption is not None:
            record.decision = record.decision._replace(approved_by=resumption.agreed)
        if self._call_log.observers.begun is not None:
            await self._call_log.wait_until_begun(record)
        if resumption is not None and resumption.parked is not None:
            spoken = version_of(target.upstream.negotiated)
            record.sending = record.sending._replace(sent=True, upstream_version=spoken)
            with attempted(record, target.upstream.config.id):
                return await self._input_requests.resume(target, caller, resumption)
        if not self._input_requests.parks(target, caller):
            return await self._rounds(outgoing, resumption)
        # What still runs when this request is answered must not write into its record.
        parked = outgoing.record = replace(record, steps=[])
        work = partial(self._rounds, outgoing, resumption)
        unclaimed = partial(self._call_log.record_unclaimed, record)
        try:
            with attempted(record, target.upstream.config.id):
                return await self._input_requests.park(
                    target, caller, work, unclaimed, agreed=record.decision.approved_by
                )
        finally:
            record.sending = record.sending._replace(
                sent=caller.sent_in is not None,
                upstream_version=caller.sent_in or version_of(target.upstream.negotiated),
                upstream_request_id=parked.sending.upstream_request_id,
                sent_name=parked.sending.sent_name,
                retries=parked.sending.retries,
            )

    async def _rounds(self, outgoing: _Outgoing, resumption: Resumption | None) -> dict[str, Any]:
        """Send the request, and send it again with the host's answers, until the upstream has no more questions."""
        target, caller, record, progress = outgoing.target, outgoing.caller, outgoing.record, outgoing.progress
        more = unasked_answers(target, caller, outgoing.given) if resumption is None else resumption.more
        again, before = resumption is not None, len(record.steps)
        asked_to_connect = resumption is not None and not more
        if target.upstream.config.auth is not None:
            self._accounts.note(target)
        if outgoing.direct is not None:
            charge = outgoing.direct.charge
        elif outgoing.limits.counted:
            charge = await self._rate_limits.charge(target.what, outgoing.limits, outgoing.conversation, again=again)
        else:
            charge = FREE
        with charge:
            try:
                for number in range(ROUNDS):
                    try:
                        result = await self._send(outgoing, {**outgoing.params, **more} if more else outgoing.params)
                    except UpstreamRpcError as error:
                        # First of all: any error that follows contains text of the upstream.
                        await caller.questions.ask()
                        asked = round_of_error(target, caller, error)
                    except LoginRequired as error:
                        wanted = await self._accounts.obtain(target, caller, error, resumed=asked_to_connect)
                        asked_to_connect = True
                        if wanted is None:
                            continue
                        asked = wanted
                    else:
                        if is_complete(result):
                            break
                        await caller.questions.ask()
                        asked = next_round(target, caller, result)
                    target.upstream.keep_alive(STATE_LIFETIME, caller.sent_over)
                    if caller.modern:
                        result = await self._input_requests.pass_on(target, caller, asked, record.decision.approved_by)
                        break
                    more = await ask_while_waiting(target, caller, asked)
                    refuse_unanswered(caller)
                    if not asked.requests:
                        await asyncio.sleep(min(_PAUSE * 2**number, _LONGEST_PAUSE))
                else:
                    server = target.upstream.config.id
                    raise UpstreamBadAnswer(server, f"{server} asked {ROUNDS} times and has not come to an end.")
            except BaseException as error:
                if isinstance(error, UpstreamError) and not isinstance(error, LoginRequired):
                    # In a second round, the upstream has answered before, with a question.
                    error.settle(harmless=outgoing.harmless, begun=len(record.steps) - before > 1)
                if progress is not None:
                    progress.drop()
                caller.questions.end()
                if isinstance(error, Exception):
                    refuse_unanswered(caller)
                raise
        refuse_unanswered(caller)
        if progress is not None:
            progress.flush()
        try:
            await caller.questions.settle()
        finally:
            caller.questions.end()
        return result

    async def _send(self, outgoing: _Outgoing, params: dict[str, Any]) -> dict[str, Any]:
        """Send the request of one round, and retry it, if it may be repeated, within the time of one call."""
        record, upstream, method = outgoing.record, outgoing.target.upstream, outgoing.target.method
        limit, attempt = outgoing.limit, 0
        deadline = asyncio.get_running_loop().time() + limit if outgoing.retry is not None else 0.0
        headers = outgoing.headers
        direct, outgoing.direct = outgoing.direct, None
        name_now = outgoing.name_now if outgoing.name_to_send is not None else None
        while True:
            attempts = sum(step.name == "upstream" for step in record.steps)
            trusted = upstream.config.trusted
            meta = self._call_log.meta_onward(params.get("_meta"), record.trace, attempts, trusted=trusted)
            sent = {**params, "_meta": meta} if meta or "_meta" in params else params
            request = UpstreamRequest(method, sent, limit, outgoing.progress, headers, outgoing.caller, name_now)
            try:
                with attempted(record, upstream.config.id, direct.sent_at if direct is not None else None):
                    try:
                        result = await upstream.call(request, direct)
                    except UpstreamRpcError as error:
                        if error.code != HEADER_MISMATCH or outgoing.tool is None:
                            raise
                        headers = await self._current_headers(outgoing, outgoing.tool)
                        result = await upstream.call(request._replace(headers=headers).named_now())
                    finally:
                        sent_as, outgoing.caller.sent_as = outgoing.caller.sent_as, None
                        record.sending = record.sending._replace(
                            upstream_request_id=sent_as,
                            sent_name=outgoing.sent_name() if sent_as is not None else None,
                        )
                return received(result)
            except (UpstreamLost, UpstreamUnavailable, UpstreamHttpStatus) as error:
                pause = _pause_before_retry(error, attempt, deadline) if outgoing.retry is not None else None
                if pause is None:
                    raise
                log.info("%s is sent again (%s): %s", outgoing.target.what, outgoing.retry, error)
                await asyncio.sleep(pause)
                if name_now is not None:
                    params = {**params, "name": name_now()}
            finally:
                sent_in = outgoing.caller.sent_in
                record.sending = record.sending._replace(
                    sent=record.sending.sent or sent_in is not None,
                    upstream_version=sent_in or version_of(upstream.negotiated),
                )
            direct = None
            record.sending = record.sending._replace(retries=record.sending.retries + 1)
            attempt, limit = attempt + 1, deadline - asyncio.get_running_loop().time()

    async def _current_headers(self, outgoing: _Outgoing, tool: ToolRecord) -> dict[str, str]:
        """Return the headers that the tool wants now: no call ran with others (SH, Custom Headers)."""
        await outgoing.target.upstream.read_tools_again()
        current = self._resolver.catalog.of_server(tool.server, tool.own_name) or tool
        return mirror(current.param_headers, outgoing.target.arguments)


def _pause_before_retry(error: UpstreamError, attempt: int, deadline: float) -> float | None:
    """Return the seconds before a retry; None without one."""
    if attempt >= len(_RETRY_PAUSES):
        return None
    pause = _RETRY_PAUSES[attempt]
    if isinstance(error, UpstreamHttpStatus):
        if error.details["status"] not in _WORTH_A_RETRY:
            return None
        pause = max(pause, error.details.get("retry_after", 0.0))
    return pause if asyncio.get_running_loop().time() + pause < deadline else None


def refuse_unanswered(caller: RequestCaller) -> None:
    """End a call if flow rules kept the host's answer from its upstream.

    Raises:
        CallRefused: they did.
    """
    if caller.questions.refused is not None:
        raise caller.questions.refused
