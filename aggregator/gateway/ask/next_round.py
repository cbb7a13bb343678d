"""The decision on an upstream's answer: the input requests in it, in the form for this host.

Law: this file decides; it awaits nothing, reads no clock and sends nothing.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Protocol

from aggregator.domain.abilities import ELICIT, QUESTIONS, lacking
from aggregator.domain.errors import (
    INVALID_REQUEST,
    MISSING_CAPABILITY,
    URL_REQUIRED,
    AggregatorError,
    HostLacks,
    NotAnswered,
    RpcError,
    UpstreamBadAnswer,
    UpstreamRpcError,
)
from aggregator.domain.principal import Principal
from aggregator.gateway.ask.questions import pages_of, renamed, worded
from aggregator.gateway.ask.upstream_caller import RequestCaller
from aggregator.upstream.upstream import Upstream
from aggregator.wire.pieces import brief

log = logging.getLogger(__name__)

CALL: Final = "tools/call"
# The only requests that may be answered with an input request (S/basic/patterns/mrtr).
MAY_ASK: Final = frozenset({CALL, "prompts/get", "resources/read"})
# Input requests in one result.
AT_ONCE: Final = 32
# Pages that are named in words to a host that cannot show them itself.
_PAGES_NAMED: Final = 5


class CallTarget(NamedTuple):
    """The thing that a request is for, to which answers and sealed states are bound.

    `what` is the exposed name or URI.
    """

    upstream: Upstream
    method: str
    what: str
    principal: Principal
    arguments: Mapping[str, Any]

    @property
    def server(self) -> str:
        """The id of the server."""
        return self.upstream.config.id


class AnswerTarget(Protocol):
    """The request that answers of a host are for: a `CallTarget`, or a call of a meta tool that no upstream answers."""

    @property
    def server(self) -> str: ...

    @property
    def method(self) -> str: ...

    @property
    def what(self) -> str: ...

    @property
    def principal(self) -> Principal: ...

    @property
    def arguments(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Round:
    """One round of input requests: `requests` by key, in the form for the host, and the upstream's own `state`.

    `result` is the upstream's answer. `pages`: the answer was an error that sends the user to pages, so the request is
    repeated unchanged.
    """

    requests: Mapping[str, dict[str, Any]]
    state: str | None
    result: Mapping[str, Any]
    pages: bool = False


def is_complete(result: Mapping[str, Any]) -> bool:
    """Return whether a result is an answer, and asks the host for nothing."""
    return bool(result.get("resultType", "complete") == "complete")


def next_round(target: CallTarget, caller: RequestCaller, result: Mapping[str, Any]) -> Round:
    """Return the input requests of a result that is not complete.

    Raises:
        UpstreamBadAnswer: the result is not allowed here, or it asks for something that the host did not declare.
    """
    server, kind = target.upstream.config.id, result["resultType"]
    requests, state = result.get("inputRequests", {}), result.get("requestState")
    if kind != "input_required" or target.method not in MAY_ASK:
        said = f"resultType: {brief(kind, 80)}"
        raise UpstreamBadAnswer(server, f"{server} answered with a result that was not asked for.", said=said)
    if (
        not isinstance(requests, dict)
        or not isinstance(state, str | None)
        or not (requests or state is not None)
        or len(requests) > AT_ONCE
    ):
        raise UpstreamBadAnswer(server, f"{server} asked in a form that is none.")
    return Round(_checked(target, caller, requests), state, result)


def round_of_error(target: CallTarget, caller: RequestCaller, error: UpstreamRpcError) -> Round:
    """Return the round of an upstream's error that requires the user to visit pages first.

    Raises:
        UpstreamRpcError: it is any other error.
        CallRefused, RpcError: this host cannot do that.
    """
    server = target.upstream.config.id
    if caller.modern and caller.lacked is not None:
        # The host's era has an error for a refusal of the server's question (S/basic/index, Capabilities).
        said = f"{server} had to ask something that this request does not declare: {error.message}"
        raise RpcError(
            MISSING_CAPABILITY, said, {"requiredCapabilities": caller.lacked, "error": error.to_wire()}
        ) from error
    if error.code == MISSING_CAPABILITY and not caller.modern and target.method == CALL:
        needs = error.data.get("requiredCapabilities") if isinstance(error.data, dict) else None
        words = ", ".join(needs) if isinstance(needs, dict) and needs else "something"
        said = f"{server} has to ask this host for {words}, which it cannot do."
        raise HostLacks(target.what, said, server=server, requiredCapabilities=needs) from error
    pages = pages_of(error.data) if error.code == URL_REQUIRED else []
    if not pages:
        raise error
    if not caller.abilities.urls:
        raise _cannot_visit(target, caller, pages) from error
    if not caller.modern:
        raise UpstreamRpcError(server, error.code, error.message, renamed(server, error.data), error.more) from error
    asked = {f"page-{at}": {"method": ELICIT, "params": {"mode": "url", **page}} for at, page in enumerate(pages, 1)}
    return replace(next_round(target, caller, {"resultType": "input_required", "inputRequests": asked}), pages=True)


def not_answered(target: AnswerTarget, why: str) -> AggregatorError:
    """Return the error for a host that did not answer: a refusal for a tool, a protocol error for anything else."""
    if target.method == CALL:
        return NotAnswered(target.what, f"{target.what} was not carried out: {why}.")
    return RpcError(INVALID_REQUEST, f"{target.what} was not answered: {why}.")


def _checked(target: CallTarget, caller: RequestCaller, requests: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return input requests in the form for the host.

    Raises:
        UpstreamBadAnswer: one is invalid, or asks for something that the host did not declare.
    """
    server = target.upstream.config.id
    checked = {}
    for key, request in requests.items():
        method, params = (request.get("method"), request.get("params", {})) if isinstance(request, dict) else (None, {})
        if not isinstance(method, str) or method not in QUESTIONS or not isinstance(params, dict):
            said = f"method: {brief(method, 80)}"
            raise UpstreamBadAnswer(server, f"{server} asked for what no host can be asked for.", said=said)
        missing = lacking(caller.abilities, method, params)
        if missing is not None:
            raise UpstreamBadAnswer(server, f"{server} asked for {', '.join(missing)}, which this host did not offer.")
        # The `RequestCaller` of a handshake-era host words the request.
        params = target.upstream.redaction.visible(params, "its questions")
        worded_params = worded(server, method, params, modern=True) if caller.modern else params
        checked[key] = {**request, "params": worded_params}
    return checked


def _cannot_visit(target: CallTarget, caller: RequestCaller, pages: list[dict[str, Any]]) -> AggregatorError:
    """Return the error for a host that cannot send a user to these pages."""
    server = target.upstream.config.id
    needs: dict[str, Any] = {"elicitation": {"url": {}}}
    named = ", ".join(str(page["url"]) for page in pages[:_PAGES_NAMED])
    said = (
        f"{server} has to send a person to a page first, which this host cannot do: {named:.2000} "
        "Once the person has been there, make the same request again."
    )
    if caller.modern or target.method != CALL:
        return RpcError(MISSING_CAPABILITY, said, {"requiredCapabilities": needs, "pages": pages})
    return HostLacks(target.what, said, server=server, requiredCapabilities=needs, pages=pages)
