"""Input requests: all questions to a host for one request to an upstream, between all eras.

| upstream | host | the input request |
| --- | --- | --- |
| 2026-07-28 | 2026-07-28 | passes through, the upstream's state sealed inside ours |
| 2026-07-28 | handshake eras | goes to the host while its request waits; the upstream is called again with the answer |
| handshake eras | 2026-07-28 | parks the request (`parked_calls`) |
| handshake eras | handshake eras | goes to the host while its request waits (`upstream_caller`) |

`next_round` decides about the questions in an answer; `gateway/calls/relay.py` has the loop over the rounds.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aggregator.domain.abilities import ELICIT, NOTHING
from aggregator.domain.bounds.offload import going_through
from aggregator.domain.decision import ConfirmBy, may_agree
from aggregator.domain.errors import RpcError, StaleState
from aggregator.domain.principal import Principal
from aggregator.domain.versions import era_of
from aggregator.gateway.ask.confirm import PATIENCE
from aggregator.gateway.ask.confirm import STATE_KIND as CONFIRMATION
from aggregator.gateway.ask.next_round import MAY_ASK, AnswerTarget, CallTarget, Round, not_answered
from aggregator.gateway.ask.parked_calls import ParkableWork, ParkedCall, ParkedCalls, RecordUnclaimed
from aggregator.gateway.ask.questions import answered
from aggregator.gateway.ask.sealed_state import NotKnown, StateSealer
from aggregator.gateway.ask.upstream_caller import RequestCaller
from aggregator.gateway.revocation import RevocableTasks
from aggregator.replicas.group.replication import Replication
from aggregator.storage.digest import argument_digest

log = logging.getLogger(__name__)

# How long a sealed state of an upstream is accepted; the upstream itself may accept it for less.
STATE_LIFETIME: Final = 900.0


@dataclass(slots=True)
class Resumption:
    """A host that came back with answers.

    `parked` is the call that waits for them. If none does, `more` are the params that the upstream gets in addition.
    `agreed` names the confirmer of the call, if confirmation was required. `over` is the isolated connection that the
    question came over.
    """

    agreed: str | None
    more: dict[str, Any] = field(default_factory=dict)
    parked: ParkedCall | None = None
    over: str | None = None
    answers: Mapping[str, Any] = field(default_factory=dict)


class InputRequests:
    """The requests that wait for their host: their sealed states, and in `parking` the parked calls."""

    def __init__(self, revocable: RevocableTasks, group: Replication) -> None:
        self._sealer = StateSealer("request", group)
        self.parking = ParkedCalls(revocable)

    # -- a host that comes back

    def claims(self, params: Mapping[str, Any]) -> bool:
        """Return whether a request carries a state of ours, and so goes on with one that asked something."""
        return self._sealer.claims(params.get("requestState"))

    def parked_at(self, params: Mapping[str, Any]) -> str | None:
        """Return the replica with the parked call that a request continues, or None."""
        state = self._sealer.peek(params.get("requestState"))
        by = state["by"] if state is not None and "parked" in state else None
        return by if isinstance(by, str) else None

    def kept_at(self, params: Mapping[str, Any]) -> str | None:
        """Return the replica with the parked call that a request continues, or with the connection of its question."""
        state = self._sealer.peek(params.get("requestState"))
        kept = state is not None and ("parked" in state or state.get("over") is not None)
        by = state["by"] if state is not None and kept else None
        return by if isinstance(by, str) else None

    def waited(self, params: Mapping[str, Any], version: str | None) -> Mapping[str, Any]:
        """Return the facts that waited with the question which a host of 2026-07-28 answers; none if it answers none.

        It is good for this request only once `resumption` has opened the same state.
        """
        if version is None or era_of(version) != "modern":
            return {}
        return self._sealer.peek(params.get("requestState")) or {}

    def give_up(self, params: Mapping[str, Any], principal: Principal) -> None:
        """End the call that waits for a forbidden answer."""
        state = self._sealer.peek(params.get("requestState"))
        parked = self.parking.get(state["parked"]) if state is not None and "parked" in state else None
        if state is not None and parked is not None and state["who"] == _who(principal):
            parked.end()

    def abandon(self, sealed: Any) -> None:
        """End the call that waits with the question of this state, if one does: no request brings its answer any more.

        For what asked on behalf of a host, and ended; its state was never with the host.
        """
        state = self._sealer.peek(sealed)
        parked = self.parking.get(state["parked"]) if state is not None and "parked" in state else None
        if parked is not None:
            parked.shut_out()

    async def resumption(
        self, target: AnswerTarget, caller: RequestCaller, params: Mapping[str, Any], *, confirm: ConfirmBy | None
    ) -> Resumption | None:
        """Return the answers that a host came back with; None if it did not, or only with the confirmation that
        `confirm` requires.

        Raises:
            StaleState: its state is not good for this request, by this agent, now; nothing is run.
            NotAnswered, RpcError: its user had to visit a page, and did not.
        """
        state = params.get("requestState")
        if state is None or not caller.modern:
            return None
        if not self._sealer.claims(state):
            # No running work waits for this answer: at worst the user gets the question again.
            if confirm is not None or (isinstance(state, str) and state.startswith(f"{CONFIRMATION}.")):
                return None
            raise StaleState("it is none of ours")
        found = await self._opened(target, params)
        if confirm is not None and not may_agree(found.agreed, confirm):
            raise StaleState("a person has to agree to it by now")
        caller.sent_over = found.over
        return found

    async def _opened(self, target: AnswerTarget, params: Mapping[str, Any]) -> Resumption:
        sealed = params.get("requestState")
        away = self.parked_at(params)
        if away not in (None, self._sealer.me):
            raise StaleState("the replica at which the call waited for the answer is gone, or cannot be reached")
        try:
            bond = await going_through(target.arguments, _bond, target)
            state = await self._sealer.open(sealed, bond, at_its_maker=away is not None)
        except ValueError:
            state = None
        except NotKnown:
            raise StaleState("the database cannot say now whether it was used before; try again later") from None
        if state is None:
            raise StaleState("it was used, has expired, or is another request's")
        given = params.get("inputResponses")
        answers = given if isinstance(given, dict) else {}
        if "parked" in state:
            parked = self.parking.get(state["parked"])
            if parked is None:
                raise StaleState("what waited for the answer is gone")
            return Resumption(state["agreed"], parked=parked, answers=answers)
        accepted = _answers(answers, state["keys"])
        if state["pages"]:
            if any(accepted.get(key, {}).get("action") != "accept" for key in state["keys"]):
                raise not_answered(target, "a page had to be visited first, and was not")
            return Resumption(state["agreed"], over=state.get("over"))
        more: dict[str, Any] = {"inputResponses": accepted} if state["keys"] else {}
        if state["state"] is not None:
            more["requestState"] = state["state"]
        return Resumption(state["agreed"], more, over=state.get("over"))

    # -- a request that goes to an upstream

    def parks(self, target: CallTarget, caller: RequestCaller) -> bool:
        """Tell whether the request must be able to continue without its host.

        Only a parked call allows a question by result while its upstream asks by request.
        """
        if not caller.modern or caller.abilities == NOTHING or target.method not in MAY_ASK:
            return False
        negotiated = target.upstream.negotiated
        return negotiated is None or negotiated.era == "legacy"

    async def park(
        self,
        target: AnswerTarget,
        caller: RequestCaller,
        work: ParkableWork,
        unclaimed: RecordUnclaimed,
        *,
        agreed: str | None,
    ) -> dict[str, Any]:
        """Return the result of `work`, or the question that it waits with.

        Raises:
            Exception: as `work` does.
        """
        return await self._wait(target, ParkedCall(self.parking, caller, work, unclaimed), agreed)

    async def resume(self, target: AnswerTarget, caller: RequestCaller, resumption: Resumption) -> dict[str, Any]:
        """Return the result of a parked call, or its next question, to a host that came back to it."""
        assert resumption.parked is not None
        resumption.parked.come_back(caller, resumption.answers)
        return await self._wait(target, resumption.parked, resumption.agreed)

    async def _wait(self, target: AnswerTarget, parked: ParkedCall, agreed: str | None) -> dict[str, Any]:
        result = await parked.wait()
        if result is not None:
            return result
        try:
            bond = await going_through(target.arguments, _bond, target)
        except BaseException:
            parked.end()
            raise
        requests = parked.leave(PATIENCE)
        state = {**bond, **parked.caller.questions.to_wire(), "agreed": agreed, "parked": parked.id}
        sealed = self._sealer.seal(state, PATIENCE)
        return {"resultType": "input_required", "inputRequests": requests, "requestState": sealed}

    async def pass_on(
        self, target: AnswerTarget, caller: RequestCaller, input_round: Round, agreed: str | None
    ) -> dict[str, Any]:
        """Return the result that asks a host of 2026-07-28, with the upstream's state sealed inside ours."""
        state = {
            **await going_through(target.arguments, _bond, target),
            **caller.questions.to_wire(),
            "agreed": agreed,
            "keys": list(input_round.requests),
            "state": input_round.state,
            "pages": input_round.pages,
            "over": caller.sent_over,
        }
        sealed = self._sealer.seal(state, STATE_LIFETIME)
        rest = {key: value for key, value in input_round.result.items() if key != "inputRequests"}
        requests = {"inputRequests": input_round.requests} if input_round.requests else {}
        return {**rest, **requests, "requestState": sealed}


def unasked_answers(target: CallTarget, caller: RequestCaller, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return answers that a host gives without a question: its upstream may use or ignore them."""
    given = params.get("inputResponses")
    if not isinstance(given, dict) or not caller.modern or "requestState" in params:
        return {}
    negotiated = target.upstream.negotiated
    takes = negotiated is not None and negotiated.era == "modern"
    return {"inputResponses": _answers(given, given)} if takes else {}


async def ask_while_waiting(target: CallTarget, caller: RequestCaller, input_round: Round) -> dict[str, Any]:
    """Send the input requests to a host of the handshake eras. Return the params that answer the upstream.

    Raises:
        CallRefused, RpcError: the host did not answer one that is no elicitation.
    """
    more: dict[str, Any] = {}
    if input_round.requests:
        more["inputResponses"] = {
            key: await _answer_of_host(target, caller, request) for key, request in input_round.requests.items()
        }
    if "requestState" in input_round.result:
        more["requestState"] = input_round.state
    return more


async def _answer_of_host(target: CallTarget, caller: RequestCaller, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the host's answer. A host that cannot ask its user has dismissed the question."""
    server, method = target.upstream.config.id, request["method"]
    try:
        return await caller.ask(server, method, request["params"])
    except RpcError as error:
        if method == ELICIT:
            log.info("a question of %s could not be put: %s", server, error)
            return {"action": "cancel"}
        raise not_answered(target, f"{server} asked for {method}, and the host said: {error.message}") from error


def _answers(given: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    """Return the answers under these keys, without hop-local members."""
    return {key: answered(given[key]) for key in keys if isinstance(given.get(key), dict)}


def _bond(target: AnswerTarget) -> dict[str, Any]:
    """Return the facts that a sealed state is good for. A digest stands for the arguments.

    Raises:
        ValueError: they cannot be digested.
    """
    return {
        "who": _who(target.principal),
        "server": target.server,
        "on": target.method,
        "what": target.what,
        "digest": argument_digest(target.arguments),
    }


def _who(principal: Principal) -> list[Any]:
    token = principal.token
    return [principal.tenant, principal.agent_id, principal.key_id, *(token.bearer if token is not None else ())]
