"""The programs of `run_code`: their calls take the same pipeline as a host's, and their questions reach the host.

If a host of 2026-07-28 has to answer a question, its program is parked (`ask/parked_calls.py`), and continues at the
same point: no call of it runs twice.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from aggregator.code.sandbox.bounds import CallFailed, ProgramLimits, TooManyPrograms, check_installed
from aggregator.code.sandbox.prelude import BESIDE, FunctionCall
from aggregator.code.sandbox.sandbox import Sandbox
from aggregator.config.model import Config
from aggregator.config.settings import Expose
from aggregator.domain.abilities import NOTHING
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.call import ToolCall
from aggregator.domain.call_record import CallRecord, TraceContext
from aggregator.domain.errors import BadArguments, CallRefused, OperatorError, OverLimit, RpcError, UpstreamLost
from aggregator.domain.principal import Principal
from aggregator.domain.text.cut import quoted
from aggregator.domain.text.tokens import estimate
from aggregator.gateway.ask.input_required import InputRequests
from aggregator.gateway.ask.next_round import CALL, is_complete
from aggregator.gateway.ask.upstream_caller import RequestCaller
from aggregator.gateway.call_log import CallLog
from aggregator.gateway.calls.progress import Progress
from aggregator.gateway.calls.relay import ROUNDS
from aggregator.gateway.hooks import CallHooks
from aggregator.gateway.host import Host
from aggregator.gateway.meta.tool import SOURCE
from aggregator.gateway.views.views import View, Views
from aggregator.policy.limits import Limits
from aggregator.results.gateway.keeper import PageBounds
from aggregator.results.gateway.showing import LargeResults, knows_links
from aggregator.results.read.document import ResultDocument
from aggregator.wire.codec import decode, encode
from aggregator.wire.peer import Channel, NoBackChannel

log = logging.getLogger(__name__)

RUN_CODE: Final = "run_code"
# The functions of a program; `call_tool` has the name of the tool in its arguments.
_SEARCH: Final = "search_tools"
_FUNCTIONS: Final = frozenset({"call_tool", _SEARCH, "describe_tools"})
# The level of detail of a search in a program, unless it says another: names, descriptions and parameters.
_ROWS_LEVEL: Final = 2
MOST_CODE: Final = 256 * 1024
# Tokens of the text for the model if the rest is not stored.
_MOST_TOKENS: Final = 10_000
# Characters that are at least one token in any language.
_LONGEST: Final = 8
# Seconds before an upstream that only wants to be called again is.
_PAUSE: Final = 0.25
_NAME_SHOWN: Final = 80
# Calls that the error of a program names, characters of each, and of all results that are kept for it.
_CALLS_SHOWN: Final = 20
_ASKED_SHOWN: Final = 160
_CHARACTERS_KEPT: Final = 8_000_000


class CallMeta(Protocol):
    """The road of calls through meta tools (`MetaTools.call`)."""

    async def __call__(self, call: ToolCall, view: View, host: Host, channel: Channel, /) -> dict[str, Any]: ...


class ProgramTarget(NamedTuple):
    """The call of `run_code` that a host's answers are for (`AnswerTarget`)."""

    principal: Principal
    arguments: Mapping[str, Any]
    server: str = SOURCE
    method: str = CALL
    what: str = RUN_CODE


class EndedCall(NamedTuple):
    """A call of a program that has ended: how it was asked for, `done` or `failed`, and its result as JSON, if kept."""

    asked: str
    outcome: str
    text: str | None


class ProgramChannel:
    """A `Channel` for the calls of a program: to the request of the host that attends it now, if one does."""

    def __init__(self, caller: RequestCaller) -> None:
        self._caller = caller

    @property
    def request_id(self) -> str | int:
        return self._caller.channel.request_id if self._caller.channel is not None else ""

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        if self._caller.channel is not None:
            self._caller.channel.notify(method, params)

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if self._caller.channel is None:
            raise NoBackChannel("no request of the host is open")
        return await self._caller.channel.ask(method, params)


class RunPrograms:
    """The programs of all agents, which run in `sandbox`."""

    def __init__(
        self,
        config: Config,
        views: Views,
        input_requests: InputRequests,
        call_log: CallLog,
        large_results: LargeResults,
        hooks: CallHooks,
    ) -> None:
        check_code(views, config)
        self.sandbox = Sandbox()
        self._limits = ProgramLimits(config.code.max_calls, config.code.timeout, config.code.memory)
        self._views = views
        self._input_requests = input_requests
        self._call_log = call_log
        self._large_results = large_results
        self._hooks = hooks

    async def answer(
        self,
        call: ToolCall,
        arguments: Mapping[str, Any],
        host: Host,
        channel: Channel,
        record: CallRecord,
        call_meta: CallMeta,
    ) -> dict[str, Any]:
        """Return the outcome of a program, or the question that it waits with.

        Raises:
            BadArguments: it may not be run, or not in this form.
            OverLimit: too many run already.
            StaleState, RpcError: the host came back with an answer that is not valid for it.
        """
        self._refuse(call, arguments)
        caller = RequestCaller(host, call.version, call.params, channel)
        target = ProgramTarget(call.principal, arguments)
        if "requestState" in call.params:
            resumption = await self._input_requests.resumption(target, caller, call.params, confirm=None)
            if resumption is not None and resumption.parked is not None:
                with self._call_log.drain.work(_shut_down, counted=False):
                    return await self._input_requests.resume(target, caller, resumption)
        running = ProgramCalls(self._views, call, caller, record, call_meta, self._input_requests.abandon)
        work = partial(self._run, running, arguments["code"])
        with self._call_log.drain.work(partial(self._unfinished, running), counted=False):
            if not caller.modern or caller.abilities == NOTHING:
                return await work()
            unclaimed = partial(self._call_log.record_unclaimed, record)
            return await self._input_requests.park(target, caller, work, unclaimed, agreed=None)

    def _unfinished(self, running: "ProgramCalls") -> Exception:
        """Return the error of a program that is ended now."""
        return _shut_down() if running.made else self._call_log.drain.unfinished()

    def _refuse(self, call: ToolCall, arguments: Mapping[str, Any]) -> None:
        if call.within is not None:
            raise BadArguments(RUN_CODE, "A program cannot run another program.")
        size = len(arguments["code"].encode("utf-8", "surrogatepass"))
        if size > MOST_CODE:
            raise BadArguments(RUN_CODE, f"The program has {size} bytes; it may have {MOST_CODE}.")

    async def _run(self, running: "ProgramCalls", code: str) -> dict[str, Any]:
        agent = running.agent
        try:
            outcome = await self.sandbox.run(code, running.function, self._limits, agent)
        except TooManyPrograms as error:
            raise OverLimit(RUN_CODE, f"The program was not run: {error}.", retry_after=5, limit="programs") from error
        except OperatorError as error:
            log.error("%s", error)
            raise CallRefused(RUN_CODE, "Programs cannot be run here now: their sandbox is not installed.") from error
        finally:
            running.end()
        result: dict[str, Any] = {"content": [{"type": "text", "text": outcome.text}]}
        if outcome.failure is not None:
            result["isError"] = True
        call = running.call
        links = knows_links(running.frontend, call.version)
        fitted = await self._large_results.fitted(
            result,
            Limits(),
            call.principal,
            None,
            keeps_structured=False,
            links=links,
            labels=self._hooks.labels_now(self._views.rulebook, running.host, running.trace),
        )
        if fitted is not result:
            return fitted
        most = max(self._large_results.keeper.config.max_tokens, _MOST_TOKENS)
        text = await asyncio.to_thread(_shortened, outcome.text, most)
        if outcome.failure is not None and any(call.outcome == "done" for call in running.calls):
            text += f"\n{await self._calls_made(running)}"
        return {**result, "content": [{"type": "text", "text": text}]}

    async def _calls_made(self, running: "ProgramCalls") -> str:
        """Return the calls of a program that failed, with a handle to their results, so that none runs twice."""
        keeper = self._large_results.keeper
        document = await asyncio.to_thread(_document_of, running.calls)
        labels = self._hooks.labels_now(self._views.rulebook, running.host, running.trace)
        bounds = PageBounds(keeper.config.max_tokens or _MOST_TOKENS)
        handle = await keeper.keep(running.call.principal, document, bounds, None, labels)
        lines = [f"[{number}] {call.asked}: {call.outcome}" for number, call in enumerate(running.calls[:_CALLS_SHOWN])]
        if len(running.calls) > _CALLS_SHOWN:
            lines.append(f"and {len(running.calls) - _CALLS_SHOWN} more")
        where = f' Read a result with read_result {{"handle": "{handle}", "path": "[0]"}}.' if handle else ""
        return "\n".join((f"These calls were made: do not repeat those that are done.{where}", *lines))


class ProgramCalls:
    """The calls of one program; `made` counts them, `calls` has the ended calls of tools."""

    def __init__(
        self,
        views: Views,
        call: ToolCall,
        caller: RequestCaller,
        record: CallRecord,
        call_meta: CallMeta,
        abandon: Callable[[Any], None],
    ) -> None:
        self._views = views
        self._abandon = abandon
        self.call = call
        self._caller = caller
        self._call_meta = call_meta
        self._within = record.trace
        self._channel = ProgramChannel(caller)
        self._progress = Progress(caller) if caller.token is not None else None
        self.made = 0
        self.calls: list[EndedCall] = []
        self._kept = 0
        meta = call.params.get("_meta")
        # The token is of the program's own request.
        self._meta = {k: v for k, v in meta.items() if k != "progressToken"} if isinstance(meta, dict) else {}

    @property
    def host(self) -> Host:
        """The host of the program."""
        return self._caller.host

    @property
    def trace(self) -> TraceContext:
        """The place of the program in its trace."""
        return self._within

    @property
    def frontend(self) -> str:
        """The frontend that the program came by."""
        return self._caller.host.frontend

    @property
    def agent(self) -> str:
        """The agent as programs are counted: by tenant and name."""
        tenant, agent = self._caller.agent
        return f"{tenant or ''}/{agent}"

    async def function(self, call: FunctionCall) -> str:
        """Return the answer to a function call of the program, as JSON.

        Raises:
            CallFailed: there is no answer, or the answer is an error.
        """
        if call.function not in _FUNCTIONS:
            raise CallFailed(f"There is no function {quoted(call.function, 80)}.")
        count = self._caller.host.count_call
        if call.function == "call_tool" and count is not None and not await count():
            raise CallFailed("No further call is allowed in this conversation.")
        self._report(call)
        read = _as_json
        if call.function == _SEARCH:
            read = _rows
            if call.arguments.keys().isdisjoint(("level", "detail")):
                call = call._replace(arguments={**call.arguments, "level": _ROWS_LEVEL})
        try:
            result = await self._answered({"name": call.function, "arguments": call.arguments})
            text = await asyncio.to_thread(read, result)
        except RpcError as error:
            self._note(call, None)
            raise CallFailed(error.message) from error
        except CallFailed:
            self._note(call, None)
            raise
        self._note(call, text)
        return text

    def _note(self, call: FunctionCall, text: str | None) -> None:
        """Note that a call of a tool has ended: with a result, as the program gets it, or without."""
        if call.function != "call_tool":
            return
        outcome = "failed" if text is None else "done"
        text = None if text is None else text.partition(BESIDE)[0]
        self._kept += len(text or "")
        if self._kept > _CHARACTERS_KEPT:
            text = None
        asked = encode(call.arguments).decode("utf-8", "replace")
        short = asked if len(asked) <= _ASKED_SHOWN else f"{asked[:_ASKED_SHOWN]}…"
        self.calls.append(EndedCall(short, outcome, text))

    def end(self) -> None:
        """Send the host the unsent progress of the calls."""
        if self._progress is not None:
            self._progress.flush()

    async def _answered(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Make a call, and repeat it with the answers of the host, until it has its result.

        Raises:
            RpcError: it has none.
            CallFailed: it asked too often.
        """
        first = params = {**asked, "_meta": self._meta} if self._meta else asked
        host, call = self._caller.host, self.call
        state: Any = None
        try:
            for _ in range(ROUNDS):
                # The policy may be another one by now.
                view = self._views.of(host.principal)
                inner = ToolCall(
                    host.principal,
                    params,
                    call.version,
                    call.style,
                    call.conversation,
                    via=RUN_CODE,
                    within=self._within,
                )
                result = await self._call_meta(inner, view, host, self._channel)
                if is_complete(result):
                    return result
                state = result.get("requestState")
                more: dict[str, Any] = {"inputResponses": await self._answers(result.get("inputRequests") or {})}
                if not more["inputResponses"]:
                    await asyncio.sleep(_PAUSE)
                if "requestState" in result:
                    more["requestState"] = state
                # A state counts for the next round alone.
                params = {**first, **more}
            raise CallFailed(f"It asked {ROUNDS} times and has not come to an end.")
        except BaseException:
            # The server may still wait for an answer, which this program does not bring it any more.
            self._abandon(state)
            raise

    async def _answers(self, requests: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answers of the host by the keys of the requests; the requests of one call are sent at once."""
        ask = self._caller.parked
        if requests and ask is None:
            raise CallFailed("The host cannot be asked what this call needs to know.")
        async with Tasks("the questions of a program") as tasks:
            waiting = {
                key: tasks.start(ask(request["method"], request.get("params", {})))
                for key, request in requests.items()
                if ask is not None
            }
            return {key: await answer for key, answer in waiting.items()}

    def _report(self, call: FunctionCall) -> None:
        self.made += 1
        if self._progress is not None:
            name = call.arguments.get("name", "") if call.function == "call_tool" else ""
            said = f"{call.function} {name!s:.{_NAME_SHOWN}}".rstrip()
            self._progress({"progress": self.made, "message": f"call {self.made}: {said}"})


def _shut_down() -> UpstreamLost:
    """Return the error of a program that made calls and is ended with the aggregator."""
    return UpstreamLost(
        SOURCE,
        "The program was ended, since the aggregator was shut down. What its calls had done stays; "
        "whether those under way took effect is unknown.",
    )


def check_code(views: Views, config: Config | None = None) -> None:
    """Check that programs can be run if a policy, or the given configuration, exposes them.

    Raises:
        OperatorError: the package that runs them is not installed.
    """
    exposed: set[Expose | None] = set()
    if config is not None:
        exposed |= {config.expose, config.http.expose, config.sse.expose, config.stdio.expose}
    rulebook = views.rulebook
    if rulebook is not None:
        exposed.update(rules.expose for agent in rulebook.agents if (rules := rulebook.for_agent(agent)) is not None)
    if "code" in exposed:
        check_installed()


def _as_json(result: Mapping[str, Any]) -> str:
    """Return a result as a program gets it, and after `BESIDE` the text that stands beside its structured content.

    Raises:
        CallFailed: it says that the call failed.
    """
    blocks = result.get("content")
    blocks = blocks if isinstance(blocks, list) else []
    texts = [block["text"] for block in blocks if isinstance(block, dict) and isinstance(block.get("text"), str)]
    text = "\n".join(texts)
    if result.get("isError") is True:
        raise CallFailed(text or "The tool says that it failed, and not why.")
    structured = result.get("structuredContent")
    if structured is not None:
        if _is_wrapped(structured, blocks):
            return _text_as_json(structured["result"])
        beside = "" if not text or _reads_as(text, structured) else f"{BESIDE}{text}"
        return encode(structured).decode() + beside
    if len(texts) < len(blocks):
        return encode(blocks).decode()
    return _text_as_json(text)


def _text_as_json(value: Any) -> str:
    """Return a value as JSON; a text that is an object or array is one already."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        with suppress(ValueError):
            return encode(decode(value.encode("utf-8", "surrogatepass"))).decode()
    return encode(value).decode()


def _reads_as(text: str, value: Any) -> bool:
    """Return whether a text is a value, as itself or as JSON."""
    if isinstance(value, str):
        return text == value
    try:
        return bool(decode(text.encode("utf-8", "surrogatepass")) == value)
    except ValueError:
        return False


def _is_wrapped(structured: Any, blocks: Sequence[Any]) -> bool:
    """Return whether an SDK put a value that is no object into `{"result": ...}`: the content has it without that."""
    if not isinstance(structured, dict) or structured.keys() != {"result"}:
        return False
    value = structured["result"]
    texts = [block["text"] for block in blocks if isinstance(block, dict) and isinstance(block.get("text"), str)]
    if isinstance(value, dict) or len(texts) < len(blocks):
        return False
    if len(texts) == 1 and _reads_as(texts[0], value):
        return True
    if value is None or (isinstance(value, list) and len(texts) == len(value)):
        return all(_reads_as(text, one) for text, one in zip(texts, value or (), strict=True))
    return False


def _rows(result: Mapping[str, Any]) -> str:
    """Return the tools that a search found as a list of objects, each with a name and a description; none as `[]`.

    Raises:
        CallFailed: the search was refused.
    """
    found = decode(_as_json(result).partition(BESIDE)[0].encode())
    if isinstance(found, dict) and isinstance(found.get("tools"), list):
        return encode(found["tools"]).decode()
    lines = [line.partition(": ") for line in str(found).splitlines()]
    return encode(
        [{"name": name, "description": said} for name, colon, said in lines if colon and " " not in name]
    ).decode()


def _document_of(calls: Sequence[EndedCall]) -> ResultDocument:
    """Return the results of calls as one array, in the order in which the calls ended."""
    texts = ",\n".join(call.text if call.text is not None else "null" for call in calls)
    return ResultDocument.of({"content": [{"type": "text", "text": f"[{texts}]"}]})


def _shortened(text: str, most: int) -> str:
    """Return a text with as much of its beginning as has so many tokens at most: what failed, or cannot be kept."""
    kept = text[: _LONGEST * most]
    while (tokens := estimate(kept)) > most:
        kept = kept[: min(len(kept) - 1, len(kept) * most // tokens)]
    if len(kept) == len(text):
        return text
    left_out = len(text) - len(kept)
    return f"{kept}\n… ({left_out:,} more characters are left out: print less, or only what you need)"
