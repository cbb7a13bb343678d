"""The answers that a host of 2026-07-28 comes back with, each condition by itself: whose, to what, and how far."""

import asyncio
from types import SimpleNamespace
from typing import Any, Final

import pytest

from aggregator.domain.decision import HOST_AGREED
from aggregator.domain.errors import CallRefused, RpcError, StaleState
from aggregator.domain.principal import Principal, TokenFacts
from aggregator.gateway.ask.input_required import InputRequests, Resumption
from aggregator.gateway.ask.next_round import CALL, Round
from aggregator.gateway.host import Host
from aggregator.gateway.revocation import RevocableTasks
from tests.peers.toolbox import Json
from tests.replicas.alone import group_of_one

ANN: Final = Principal("ann", key_id="k1")
YES: Final[Json] = {"action": "accept", "content": {}}
NO: Final[Json] = {"action": "decline"}
ASKS: Final[Json] = {"q": {"method": "elicitation/create", "params": {}}}


def target(**more: Any) -> Any:
    given = {"server": "shop", "method": CALL, "what": "shop.buy", "principal": ANN, "arguments": {"n": 1}}
    return SimpleNamespace(**given | more)


def caller(**more: Any) -> Any:
    given = {"modern": True, "questions": SimpleNamespace(to_wire=dict), "sent_over": None}
    return SimpleNamespace(**given | more)


class PausedCall:
    """A call whose server asked its host something, and the state that the host has of it."""

    def __init__(self) -> None:
        self.requests = InputRequests(RevocableTasks(), group_of_one())
        self.state: Any = None

    async def put(
        self,
        requests: Json = ASKS,
        state: str | None = "theirs",
        *,
        pages: bool = False,
        over: str | None = None,
        agreed: str | None = None,
    ) -> Json:
        asking = Round(requests, state, {"resultType": "input_required", "inputRequests": requests}, pages)
        interim = await self.requests.pass_on(target(), caller(sent_over=over), asking, agreed)
        self.state = interim["requestState"]
        return interim

    async def back(
        self, answers: Any = None, *, confirm: Any = None, by: Any = None, **other: Any
    ) -> Resumption | None:
        """Come back with answers, by a request that is another one in `other`."""
        params = {"requestState": self.state, "inputResponses": {"q": YES} if answers is None else answers}
        return await self.requests.resumption(target(**other), by or caller(), params, confirm=confirm)


@pytest.mark.parametrize(
    ("answers", "taken"),
    [
        ({"q": YES}, {"q": YES}),
        ({"q": NO, "x": YES}, {"q": NO}),
        ({"x": YES}, {}),
        ({"q": "yes"}, {}),
        ({}, {}),
        ("yes", {}),
        ([YES], {}),
    ],
)
@pytest.mark.parametrize("state", ["theirs", None])
async def test_a_server_gets_the_answers_to_its_questions_alone(answers: Any, taken: Json, state: str | None) -> None:
    """And its own state, if it gave one."""
    paused = PausedCall()
    await paused.put(state=state)
    found = await paused.back(answers)
    assert found is not None
    assert found.more == {"inputResponses": taken, **({"requestState": state} if state is not None else {})}
    assert (found.parked, found.agreed) == (None, None)


async def test_a_server_that_asks_nothing_gets_its_state_alone() -> None:
    paused = PausedCall()
    assert "inputRequests" not in await paused.put({})
    found = await paused.back({})
    assert found is not None
    assert found.more == {"requestState": "theirs"}


@pytest.mark.parametrize("method", [CALL, "prompts/get"])
@pytest.mark.parametrize(
    ("answers", "visited"),
    [
        ({"p1": YES, "p2": YES}, True),
        ({"p1": YES, "p2": NO}, False),
        ({"p1": NO, "p2": YES}, False),
        ({"p1": YES}, False),
        ({}, False),
        ({"p1": YES, "p2": {"action": "cancel"}}, False),
    ],
)
async def test_every_page_has_to_be_visited(answers: Any, visited: bool, method: str) -> None:
    """Then the request is repeated unchanged, over the connection that its question came over."""
    paused = PausedCall()
    asking = Round({"p1": {}, "p2": {}}, None, {"resultType": "input_required"}, pages=True)
    interim = await paused.requests.pass_on(target(method=method), caller(sent_over="own"), asking, "who agreed")
    paused.state, by = interim["requestState"], caller()
    if not visited:
        with pytest.raises(CallRefused if method == CALL else RpcError, match="a page had to be visited"):
            await paused.back(answers, by=by, method=method)
        return
    found = await paused.back(answers, by=by, method=method)
    assert found == Resumption("who agreed", over="own")
    assert by.sent_over == "own"


async def test_an_answer_goes_over_the_connection_of_its_question() -> None:
    for over in ("own", None):
        paused, by = PausedCall(), caller()
        await paused.put(over=over)
        found = await paused.back(by=by)
        assert found is not None
        assert (found.over, by.sent_over) == (over, over)


TOKEN: Final = TokenFacts("https://issuer", "ann")


@pytest.mark.parametrize(
    "other",
    [
        {"principal": Principal("bob", key_id="k1")},
        {"principal": Principal("ann", key_id="k2")},
        {"principal": Principal("ann")},
        {"principal": Principal("ann", "north", key_id="k1")},
        {"principal": Principal("ann", key_id="k1", token=TOKEN)},
        {"server": "other"},
        {"method": "prompts/get"},
        {"what": "shop.sell"},
        {"arguments": {"n": 2}},
        {"arguments": {}},
    ],
    ids=ascii,
)
async def test_a_state_is_good_for_its_own_request_once(other: Any) -> None:
    """One that another brings is not used up by that."""
    paused = PausedCall()
    await paused.put()
    with pytest.raises(StaleState):
        await paused.back(**other)
    assert await paused.back() is not None
    with pytest.raises(StaleState):
        await paused.back()


@pytest.mark.parametrize(
    ("agreed", "confirm", "goes_on"),
    [
        (None, None, True),
        (None, "host", False),
        (None, "queue", False),
        (f"{HOST_AGREED} ann", None, True),
        (f"{HOST_AGREED} ann", "host", True),
        (f"{HOST_AGREED} ann", "queue", False),
        ("an approver", "host", True),
        ("an approver", "queue", True),
    ],
)
async def test_a_call_goes_on_with_the_agreement_that_its_rules_want_now(
    agreed: str | None, confirm: Any, goes_on: bool
) -> None:
    paused = PausedCall()
    await paused.put(agreed=agreed)
    if goes_on:
        found = await paused.back(confirm=confirm)
        assert found is not None
        assert found.agreed == agreed
    else:
        with pytest.raises(StaleState, match="a person has to agree"):
            await paused.back(confirm=confirm)


@pytest.mark.parametrize(("state", "stale"), [(None, False), ("consent.x", False), ("x", True), (5, True)])
async def test_a_state_that_is_none_of_ours(state: Any, stale: bool) -> None:
    """It is refused, unless it may be that of a confirmation, or the call is asked about anyway."""
    paused = PausedCall()
    paused.state = state
    assert await paused.back(confirm="host") is None
    assert await paused.back(by=caller(modern=False)) is None
    if not stale:
        assert await paused.back() is None
        return
    with pytest.raises(StaleState):
        await paused.back()


async def test_a_forbidden_answer_ends_the_call_of_its_own_host_alone() -> None:
    """Whoever has the state: another one's request, or a state that is changed, ends nothing."""
    requests, work = InputRequests(RevocableTasks(), group_of_one()), ParkedWork()
    async with asyncio.timeout(5.0), requests.parking.tasks:
        interim = await requests.park(target(), work.caller, work.run, lambda outcome: None, agreed=None)
        back: Json = {"requestState": interim["requestState"]}
        for principal in (Principal("bob", key_id="k1"), Principal("ann", key_id="k2"), Principal("ann")):
            requests.give_up(back, principal)
        for state in (None, "x", f"{back['requestState']}x"):
            requests.give_up({"requestState": state}, ANN)
        assert len(requests.parking) == 1
        requests.give_up(back, ANN)
        assert len(requests.parking) == 0


class ParkedWork:
    """A call that asks its host, and waits for the answer."""

    def __init__(self) -> None:
        host = Host("http", "canonical", ANN)
        self.caller = caller(host=host, channel=None, token=None, parked=None, agent="ann")

    async def run(self) -> Json:
        answer: Json = await self.caller.parked("elicitation/create", {})
        return answer
