"""Calls of programs that take several rounds, that are counted, and that a shutdown ends."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import pytest

from aggregator.code import programs as programs_module
from aggregator.code.programs import ProgramCalls
from aggregator.code.sandbox.bounds import CallFailed
from aggregator.code.sandbox.prelude import FunctionCall
from aggregator.domain.call import ToolCall
from aggregator.domain.principal import Principal
from aggregator.frontends.v1.execute import CallRunner
from aggregator.frontends.v1.parse_calls import CallBatch, ParsedCall
from aggregator.gateway.ask.upstream_caller import RequestCaller
from aggregator.gateway.calls.relay import ROUNDS
from aggregator.gateway.host import Host
from tests.access.gateway_harness import FORMS, LEGACY, MODERN
from tests.code.test_run_code import CONFIRMED, YES, modern_call
from tests.meta.conftest import OpenHarness
from tests.peers.back_channel import AnsweringBackChannel
from tests.peers.toolbox import Json, text_result
from tests.polling import until

CALL: Final = FunctionCall("call_tool", {"name": "maps.drive"})
DONE: Final = text_result("did")


class _Anything:
    """The views of agents, and the record of a program, as far as its calls ask for them."""

    trace: Any = None

    def of(self, principal: Principal) -> None:
        """Return no view: the answers of these tests need none."""


class Rounds:
    """A program whose calls get these answers, one after the other; the last one again and again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: Json, asks: bool = True) -> None:
        self.answers = [*answers]
        self.sent: list[Mapping[str, Any]] = []
        self.pauses: list[float] = []
        self.abandoned: list[Any] = []
        params: Json = {"_meta": {"progressToken": "mine", "com.example/a": 1}}
        host = Host("http", "canonical", Principal("one", tenant="acme"))
        caller = RequestCaller(host, MODERN, params, AnsweringBackChannel())
        caller.parked = self._answer if asks else None
        anything: Any = _Anything()
        call = ToolCall(host.principal, params, MODERN, "canonical", None)
        self.calls = ProgramCalls(anything, call, caller, anything, self._call, self.abandoned.append)
        monkeypatch.setattr(asyncio, "sleep", self._sleep)

    async def _call(self, call: ToolCall, *_: Any) -> Json:
        self.sent.append(call.params)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    async def _answer(self, method: str, params: Json) -> Json:
        return {"to": method, **params}

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


def asks(state: str, **requests: Json) -> Json:
    """Return an answer that is none yet."""
    return {"resultType": "input_required", "requestState": state, **({"inputRequests": requests} if requests else {})}


async def test_a_call_that_only_has_to_be_repeated_is_repeated_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that asks nothing would be called as fast as the machine can; one that is answered waits already."""
    question: Json = {"method": "elicitation/create", "params": {"n": 1}}
    rounds = Rounds(monkeypatch, asks("a"), asks("b", k=question, l={"method": "roots/list"}), asks("c"), DONE)
    assert await rounds.calls.function(CALL) == '"did"'
    told = [(one.get("requestState"), one.get("inputResponses")) for one in rounds.sent]
    answers = {"k": {"to": "elicitation/create", "n": 1}, "l": {"to": "roots/list"}}
    assert told == [(None, None), ("a", {}), ("b", answers), ("c", {})]
    assert rounds.pauses == [programs_module._PAUSE] * 2
    assert not rounds.abandoned
    assert {tuple(one["_meta"]) for one in rounds.sent} == {("com.example/a",)}, "the token is of the program"


async def test_a_state_counts_for_the_next_round_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round without one is answered without one (2026-07-28, multi round-trip requests)."""
    stateless = {"resultType": "input_required", "inputRequests": {"k": {"method": "roots/list"}}}
    rounds = Rounds(monkeypatch, asks("a"), stateless, DONE)
    assert await rounds.calls.function(CALL) == '"did"'
    told = [(one.get("requestState"), one.get("inputResponses")) for one in rounds.sent]
    assert told == [(None, None), ("a", {}), (None, {"k": {"to": "roots/list"}})]


async def test_a_call_that_comes_to_no_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its server hears of it, by the last state."""
    rounds = Rounds(monkeypatch, *(asks(str(at)) for at in range(ROUNDS + 1)))
    with pytest.raises(CallFailed, match=f"asked {ROUNDS} times"):
        await rounds.calls.function(CALL)
    assert len(rounds.sent) == ROUNDS
    assert rounds.abandoned == [str(ROUNDS - 1)]
    assert [call.outcome for call in rounds.calls.calls] == ["failed"]


async def test_a_call_that_is_cancelled_between_rounds_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the program ends while the host is asked."""
    rounds, asked = Rounds(monkeypatch, asks("a"), asks("b", k={"method": "roots/list"})), asyncio.Event()

    async def never(method: str, params: Json) -> Json:
        asked.set()
        await asyncio.Event().wait()
        return {}

    rounds.calls._caller.parked = never
    running = asyncio.ensure_future(rounds.calls.function(CALL))
    await asked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert rounds.abandoned == ["b"]


async def test_a_question_that_no_host_can_be_asked_fails_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """But not a round without a question."""
    rounds = Rounds(monkeypatch, asks("a"), asks("b", k={"method": "roots/list"}), asks=False)
    with pytest.raises(CallFailed, match="cannot be asked"):
        await rounds.calls.function(CALL)
    assert len(rounds.sent) == 2
    assert rounds.abandoned == ["b"]


async def test_searches_and_unknown_functions_are_no_calls_of_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = Rounds(monkeypatch, DONE)
    for function in ("search_tools", "describe_tools", "call_tool"):
        await rounds.calls.function(FunctionCall(function, {}))
    with pytest.raises(CallFailed, match="no function"):
        await rounds.calls.function(FunctionCall("run_code", {}))
    assert rounds.calls.made == 3
    assert [call.outcome for call in rounds.calls.calls] == ["done"]
    assert rounds.calls.agent == "acme/one", "agents of two tenants may have one name"


@pytest.mark.parametrize(
    ("given", "level"), [({}, 2), ({"level": 1}, 1), ({"level": 3}, 3), ({"detail": "full"}, None)]
)
async def test_a_search_has_the_detail_that_a_program_asks_for(
    monkeypatch: pytest.MonkeyPatch, given: Json, level: int | None
) -> None:
    """Else parameters too, which the program needs for its calls."""
    rounds = Rounds(monkeypatch, DONE)
    await rounds.calls.function(FunctionCall("search_tools", {"query": "a", **given}))
    asked = rounds.sent[0]["arguments"]
    assert (asked["query"], asked.get("level"), asked.get("detail")) == ("a", level, given.get("detail"))


@pytest.mark.parametrize("most", [0, 1, 2])
async def test_v1_counts_no_search_of_a_program(open_harness: OpenHarness, most: int) -> None:
    """As it counts none outside of a program: searches neither use up calls, nor end with them."""
    code = (
        "made = 0\nfor n in range(4):\n    search_tools('weather')\n    describe_tools('maps.drive')\n"
        "    try:\n        call_tool('maps.drive')\n        made += 1\n    except RuntimeError as error:\n"
        "        print(error)\nmade"
    )
    async with open_harness(expose="code", v1={"max_calls_per_conversation": most or 1}) as harness:
        runner = CallRunner(harness.app.gateway, most)
        batch = CallBatch("single", (ParsedCall("run_code", {"code": code}),), "talk")
        (outcome,) = await runner.run(batch, harness.host("local").principal, {})
        assert len(harness.sent) == most
        said = ["No further call is allowed in this conversation."] * (4 - most)
        assert outcome.content.splitlines() == [*said, str(most)]


_STAYS: Final = "What its calls had done stays"


@pytest.mark.parametrize("version", [LEGACY, MODERN])
@pytest.mark.parametrize(
    ("code", "called", "stays"),
    [
        ("import time\ntime.sleep(9)", False, False),
        ("search_tools('weather')\nimport time\ntime.sleep(9)", False, True),
        ("call_tool('maps.drive')", True, True),
    ],
)
async def test_a_program_that_a_shutdown_ends_says_whether_it_made_calls(
    open_harness: OpenHarness, version: str, code: str, called: bool, stays: bool
) -> None:
    """One that made none can be sent again elsewhere; one that made some must not be, without a look."""
    made: list[str] = []
    report = ProgramCalls._report

    def reported(self: ProgramCalls, call: FunctionCall) -> None:
        report(self, call)
        made.append(call.function)

    async def never(params: Json) -> Json:
        await asyncio.Event().wait()
        return {}

    async with open_harness(expose="code") as harness:
        harness.fake_upstreams["maps"].answer = never
        drain = harness.app.gateway.drain
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(ProgramCalls, "_report", reported)
            running = asyncio.ensure_future(
                harness.call(harness.host("local", version, FORMS), "run_code", {"code": code})
            )
            await until(lambda: harness.sent if called else made if stays else drain._works)
            drain.start(60.0)
            drain.end_all()
            answer = await running
        assert (_STAYS in str(answer)) is stays
        assert ("was not begun" in str(answer) or "shutting down" in str(answer)) is not stays, answer


async def test_a_program_that_goes_on_with_an_answer_made_calls(open_harness: OpenHarness) -> None:
    async with open_harness(CONFIRMED) as harness:
        host, code = harness.host("local", MODERN), "call_tool('git.delete_repo')"

        async def never(params: Json) -> Json:
            await asyncio.Event().wait()
            return {}

        harness.fake_upstreams["git"].answer = never
        interim = await modern_call(harness, host, code)
        state: Json = {
            "requestState": interim["requestState"],
            "inputResponses": dict.fromkeys(interim["inputRequests"], YES),
        }
        running = asyncio.ensure_future(harness.call(host, "run_code", {"code": code}, **state))
        await until(lambda: harness.sent)
        harness.app.gateway.drain.start(60.0)
        harness.app.gateway.drain.end_all()
        assert _STAYS in str(await running)
