"""One request to an upstream with all that has to be asked of its host on the way, whatever eras the two speak.

| upstream | host | the question |
| --- | --- | --- |
| 2026-07-28 | 2026-07-28 | passes through, the upstream's state sealed inside ours |
| 2026-07-28 | handshake eras | is put while the request waits, and the upstream asked again with the answer |
| handshake eras | 2026-07-28 | parks the request (`parked`) |
| handshake eras | handshake eras | is put while the request waits (`behind`) |
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from aggregator.domain.abilities import ELICIT, NOTHING, QUESTIONS, lacking
from aggregator.domain.bounds.offload import going_through
from aggregator.domain.decision import ConfirmBy, may_agree
from aggregator.domain.errors import (
    INVALID_REQUEST,
    MISSING_CAPABILITY,
    URL_REQUIRED,
    AggregatorError,
    HostLacks,
    NotAnswered,
    RpcError,
    StaleState,
    UpstreamBadAnswer,
    UpstreamRpcError,
)
from aggregator.domain.principal import Principal
from aggregator.gateway.ask.confirm import PATIENCE
from aggregator.gateway.ask.confirm import STATE_KIND as CONSENT
from aggregator.gateway.ask.parked_calls import ParkedCall, ParkedCalls, Unclaimed
from aggregator.gateway.ask.questions import answered, pages_of, renamed, worded
from aggregator.gateway.ask.sealed_state import StateSealer
from aggregator.gateway.ask.upstream_caller import RequestCaller
from aggregator.gateway.revocation import RevocableTasks
from aggregator.storage.digest import argument_digest
from aggregator.upstream.upstream import Upstream
from aggregator.wire.pieces import brief

log = logging.getLogger(__name__)

# How often one request may ask a host that answers while it waits.
ROUNDS: Final = 10
# Questions in one result.
AT_ONCE: Final = 32
# How long a state of an upstream is taken back; what it does with an old one is its own affair.
STATE_LIFETIME: Final = 900.0
# Before an upstream that only wants to be asked again is.
_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 5.0

_CALL: Final = "tools/call"
# The only requests that may be answered with a question (S/basic/patterns/mrtr).
_MAY_ASK: Final = frozenset({_CALL, "prompts/get", "resources/read"})

Send = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
"""Sends the request, with these params in addition, and returns the upstream's result."""


class CallTarget(NamedTuple):
    """What is asked for: what answers and states are bound to. `what` is the exposed name or URI."""

    link: Upstream
    method: str
    what: str
    principal: Principal
    arguments: Mapping[str, Any]


@dataclass(slots=True)
class Resumption:
    """A host that came back with answers: `parked` is the call that waits for them, `more` what the upstream is to get
    with the request if none does. `agreed`: who had agreed to the call, if anybody had."""

    agreed: str | None
    more: dict[str, Any] = field(default_factory=dict)
    parked: ParkedCall | None = None
    answers: Mapping[str, Any] = field(default_factory=dict)


class InputRequests:
    """Holds what is sealed, and the calls that are parked."""

    def __init__(self, admitted: RevocableTasks) -> None:
        self._sealer = StateSealer("request")
        self.parking = ParkedCalls(admitted)

    # -- coming back

    def claims(self, params: Mapping[str, Any]) -> bool:
        """Whether a request says of itself that it goes on with one that asked something."""
        return self._sealer.claims(params.get("requestState"))

    async def back(
        self, matter: CallTarget, behind: RequestCaller, params: Mapping[str, Any], *, confirm: ConfirmBy | None
    ) -> Resumption | None:
        """What a host came back with; None if it did not, or only with the agreement that `confirm`, who has to agree,
        calls for.

        Raises:
            StaleState: its state is not good for this, by this agent, now; nothing is run.
            NotAnswered, RpcError: it was to send a person to a page, and that person did not go.
        """
        state = params.get("requestState")
        if state is None or not behind.modern:
            return None
        if not self._sealer.claims(state):
            # Nothing has been run that waits for this one: at worst a person is asked again.
            if confirm is not None or (isinstance(state, str) and state.startswith(f"{CONSENT}.")):
                return None
            raise StaleState("it is none of ours")
        found = await self._opened(matter, params)
        if confirm is not None and not may_agree(found.agreed, confirm):
            raise StaleState("a person has to agree to it by now")
        return found

    async def _opened(self, matter: CallTarget, params: Mapping[str, Any]) -> Resumption:
        now = asyncio.get_running_loop().time()
        try:
            bond = await going_through(matter.arguments, _bond, matter)
            state = self._sealer.open(params.get("requestState"), now, bond)
        except ValueError:
            state = None
        if state is None:
            raise StaleState("it was used, has expired, or is another request's")
        given = params.get("inputResponses")
        answers = given if isinstance(given, dict) else {}
        if "parked" in state:
            parked = self.parking.get(state["parked"])
            if parked is None:
                raise StaleState("what waited for the answer is gone")
            return Resumption(state["agreed"], parked=parked, answers=answers)
        told = _answers(answers, state["keys"])
        if state["pages"]:
            if any(told.get(key, {}).get("action") != "accept" for key in state["keys"]):
                raise _refusal(matter, NotAnswered, "a page had to be visited first, and was not")
            return Resumption(state["agreed"])
        more: dict[str, Any] = {"inputResponses": told} if state["keys"] else {}
        if state["state"] is not None:
            more["requestState"] = state["state"]
        return Resumption(state["agreed"], more)

    def unasked(self, matter: CallTarget, behind: RequestCaller, params: Mapping[str, Any]) -> dict[str, Any]:
        """Answers that a host gives before it is asked: for its server to take or leave."""
        given, greeting = params.get("inputResponses"), matter.link.greeting
        takes = behind.modern and greeting is not None and greeting.era == "modern" and "requestState" not in params
        return {"inputResponses": _answers(given, given)} if takes and isinstance(given, dict) else {}

    # -- going there

    def parks(self, matter: CallTarget, behind: RequestCaller) -> bool:
        """Whether the request must be able to go on without its host: only that can be asked by a result alone while
        the upstream asks by a request."""
        if not behind.modern or behind.abilities == NOTHING or matter.method not in _MAY_ASK:
            return False
        greeting = matter.link.greeting
        return greeting is None or greeting.era == "legacy"

    async def park(
        self,
        matter: CallTarget,
        behind: RequestCaller,
        work: Callable[[], Awaitable[dict[str, Any]]],
        unclaimed: Unclaimed,
        *,
        agreed: str | None,
    ) -> dict[str, Any]:
        """The result of `work`, or the question that it waits with.

        Raises:
            Exception: as `work` does.
        """
        return await self._attend(matter, ParkedCall(self.parking, behind, work, unclaimed), agreed)

    async def resume(self, matter: CallTarget, behind: RequestCaller, back: Resumption) -> dict[str, Any]:
        """The same, for a host that came back to a parked request."""
        assert back.parked is not None
        back.parked.come_back(behind, back.answers)
        return await self._attend(matter, back.parked, back.agreed)

    async def _attend(self, matter: CallTarget, parked: ParkedCall, agreed: str | None) -> dict[str, Any]:
        result = await parked.attend()
        if result is not None:
            return result
        try:
            bond = await going_through(matter.arguments, _bond, matter)
        except BaseException:
            parked.end()
            raise
        asked = parked.leave(PATIENCE)
        expires = asyncio.get_running_loop().time() + PATIENCE
        state = self._sealer.seal({**bond, "agreed": agreed, "parked": parked.id}, expires)
        return {"resultType": "input_required", "inputRequests": asked, "requestState": state}

    async def carry(
        self, matter: CallTarget, behind: RequestCaller, send: Send, more: dict[str, Any], *, agreed: str | None = None
    ) -> dict[str, Any]:
        """The upstream's result; for a host of 2026-07-28 perhaps what it is asked.

        Raises:
            UpstreamError, RpcError: as `send` does, or the upstream asks what it may not.
            CallRefused: a tool asks what this host cannot be asked, or did not answer.
        """
        for number in range(ROUNDS):
            try:
                result = await send(more)
            except UpstreamRpcError as error:
                result = self._misses(matter, behind, error)
            if result.get("resultType", "complete") == "complete":
                return result
            requests = _requests(matter, behind, result)
            matter.link.keep_alive(STATE_LIFETIME)
            if behind.modern:
                return await self._passed_on(matter, result, requests, agreed)
            more = {"inputResponses": {key: await _put(matter, behind, asked) for key, asked in requests.items()}}
            if "requestState" in result:
                more["requestState"] = result["requestState"]
            if not requests:
                del more["inputResponses"]
                await asyncio.sleep(min(_PAUSE * 2**number, _LONGEST_PAUSE))
        server = matter.link.config.id
        raise UpstreamBadAnswer(server, f"{server} asked {ROUNDS} times and has not come to an end.")

    async def _passed_on(
        self, matter: CallTarget, result: dict[str, Any], requests: Mapping[str, Any], agreed: str | None
    ) -> dict[str, Any]:
        state = {
            **await going_through(matter.arguments, _bond, matter),
            "agreed": agreed,
            "keys": list(requests),
            "state": result.get("requestState"),
            "pages": result.get(_PAGES, False),
        }
        sealed = self._sealer.seal(state, asyncio.get_running_loop().time() + STATE_LIFETIME)
        rest = {key: value for key, value in result.items() if key not in (_PAGES, "inputRequests")}
        asked = {"inputRequests": requests} if requests else {}
        return {**rest, **asked, "requestState": sealed}

    def _misses(self, matter: CallTarget, behind: RequestCaller, error: UpstreamRpcError) -> dict[str, Any]:
        """What an error amounts to by which a server says that a capability or a visit is missing.

        Raises:
            UpstreamRpcError: nothing else than this error.
            CallRefused, RpcError: this host cannot do what is missing.
        """
        server = matter.link.config.id
        if behind.modern and behind.lacked is not None:
            # Its era has a word for what the server could only be refused (S/basic/index, Capabilities).
            said = f"{server} had to ask something that this request does not declare: {error.message}"
            raise RpcError(
                MISSING_CAPABILITY, said, {"requiredCapabilities": behind.lacked, "error": error.to_wire()}
            ) from error
        if error.code == MISSING_CAPABILITY and not behind.modern and matter.method == _CALL:
            needs = error.data.get("requiredCapabilities") if isinstance(error.data, dict) else None
            words = ", ".join(needs) if isinstance(needs, dict) and needs else "something"
            said = f"{server} has to ask this host for {words}, which it cannot do."
            raise HostLacks(matter.what, said, server=server, requiredCapabilities=needs) from error
        pages = pages_of(error.data) if error.code == URL_REQUIRED else []
        if not pages:
            raise error
        if not behind.abilities.urls:
            needs = {"elicitation": {"url": {}}}
            named = ", ".join(str(page["url"]) for page in pages[:_PAGES_NAMED])
            said = (
                f"{server} has to send a person to a page first, which this host cannot do: {named:.2000} "
                "Once the person has been there, make the same request again."
            )
            if behind.modern or matter.method != _CALL:
                data = {"requiredCapabilities": needs, "pages": pages}
                raise RpcError(MISSING_CAPABILITY, said, data) from error
            raise HostLacks(matter.what, said, server=server, requiredCapabilities=needs, pages=pages) from error
        if not behind.modern:
            pages_renamed = renamed(server, error.data)
            raise UpstreamRpcError(server, error.code, error.message, pages_renamed, error.more) from error
        asked = {
            f"page-{at}": {"method": ELICIT, "params": {"mode": "url", **page}} for at, page in enumerate(pages, 1)
        }
        return {"resultType": "input_required", "inputRequests": asked, _PAGES: True}


# So many are named in words, where a host cannot show them itself.
_PAGES_NAMED: Final = 5
# Marks what was made of an error: such a request is to be sent again as it was.
_PAGES: Final = "aggregator/pages"


def _answers(given: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    """The answers under these keys, without what belongs to the host's hop."""
    return {key: answered(given[key]) for key in keys if isinstance(given.get(key), dict)}


def _bond(matter: CallTarget) -> dict[str, Any]:
    """What a state is good for. A digest stands for the arguments.

    Raises:
        ValueError: they cannot be digested.
    """
    principal = matter.principal
    return {
        "who": [principal.tenant, principal.agent_id, principal.key_id],
        "server": matter.link.config.id,
        "on": matter.method,
        "what": matter.what,
        "digest": argument_digest(matter.arguments),
    }


def _requests(matter: CallTarget, behind: RequestCaller, result: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The questions of a result, as the host is to get them.

    Raises:
        UpstreamBadAnswer: it is no result that may be given here, or asks what the host did not declare.
    """
    server, kind = matter.link.config.id, result["resultType"]
    requests, state = result.get("inputRequests", {}), result.get("requestState")
    if kind != "input_required" or matter.method not in _MAY_ASK:
        raise UpstreamBadAnswer(server, f"{server} answered with a {brief(kind, 80)!r} result nobody asked for.")
    if (
        not isinstance(requests, dict)
        or not isinstance(state, str | None)
        or not (requests or state is not None)
        or len(requests) > AT_ONCE
    ):
        raise UpstreamBadAnswer(server, f"{server} asked in a form that is none.")
    asked = {}
    for key, request in requests.items():
        method, params = (request.get("method"), request.get("params", {})) if isinstance(request, dict) else (None, {})
        if not isinstance(method, str) or method not in QUESTIONS or not isinstance(params, dict):
            raise UpstreamBadAnswer(server, f"{server} asked for {brief(method, 80)!r}, which nobody can be asked for.")
        missing = lacking(behind.abilities, method, params)
        if missing is not None:
            raise UpstreamBadAnswer(server, f"{server} asked for {', '.join(missing)}, which this host did not offer.")
        # A handshake-era host is asked through `behind`, which words it.
        params = matter.link.redaction.visible(params, "its questions")
        worded_params = worded(server, method, params, modern=True) if behind.modern else params
        asked[key] = {**request, "params": worded_params}
    return asked


async def _put(matter: CallTarget, behind: RequestCaller, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of a handshake-era host. One that cannot ask its person has dismissed the question."""
    server, method = matter.link.config.id, asked["method"]
    try:
        return await behind.ask(server, method, asked["params"])
    except RpcError as error:
        if method == ELICIT:
            log.info("a question of %s could not be put: %s", server, error)
            return {"action": "cancel"}
        raise _refusal(
            matter, NotAnswered, f"{server} asked for {method}, and the host said: {error.message}"
        ) from error


def _refusal(matter: CallTarget, kind: type[NotAnswered], why: str) -> AggregatorError:
    """For a tool a result, for anything else an error."""
    if matter.method == _CALL:
        return kind(matter.what, f"{matter.what} was not carried out: {why}.")
    return RpcError(INVALID_REQUEST, f"{matter.what} was not answered: {why}.")
