"""Callers and failures as replicas tell them each other. Results and params are passed on whole."""

from collections.abc import AsyncIterator, Mapping
from math import inf
from typing import Any, Final, NamedTuple

from aggregator.domain.abilities import HostCapabilities
from aggregator.domain.bounds.result_memory import hold
from aggregator.domain.errors import (
    RpcError,
    UpstreamBadAnswer,
    UpstreamError,
    UpstreamHttpStatus,
    UpstreamLost,
    UpstreamRefused,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from aggregator.domain.missing import LoginRequired
from aggregator.domain.versions import Era
from aggregator.wire.codec import decode, encode

# The paths of hops about servers.
ATTACH: Final = "/servers/attach"
REQUEST: Final = "/servers/request"
ANSWER: Final = "/servers/answer"
TELL: Final = "/servers/tell"

# What another replica answers where it does not run the server, or is not the one that is meant.
NOT_HERE: Final = 409
# Seconds between two signs of life on a stream.
BEAT: Final = 1.0

_FAILURES: Final[tuple[type[UpstreamError], ...]] = (
    UpstreamUnavailable,
    UpstreamTimeout,
    UpstreamLost,
    UpstreamBadAnswer,
    UpstreamRefused,
    UpstreamHttpStatus,
    LoginRequired,
)


class CallerFacts(NamedTuple):
    """The facts of a caller that an upstream has to know: `session` and `identity` name its host for as long as it is
    there; `outside`: it can be reached while it has no call; `person`, `of_agent`: the keys of the owners of accounts
    that its calls are made with (`GrantOwner`)."""

    agent: Any
    session: str | None
    identity: str
    era: Era
    abilities: HostCapabilities
    level: str | None
    outside: bool
    person: str
    of_agent: str

    def to_wire(self) -> dict[str, Any]:
        return {**self._asdict(), "abilities": list(self.abilities)}

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> "CallerFacts":
        era: Era = "modern" if data["era"] == "modern" else "legacy"
        agent = data["agent"]
        return cls(
            tuple(agent) if isinstance(agent, list) else agent,
            data["session"],
            data["identity"],
            era,
            HostCapabilities(*data["abilities"]),
            data["level"],
            data["outside"],
            data["person"],
            data["of_agent"],
        )


def failure_to_wire(error: UpstreamError) -> dict[str, Any]:
    """Return a failure as another replica needs it to fail in the same way."""
    kind = next((one.code for one in _FAILURES if isinstance(error, one)), UpstreamError.code)
    return {
        "kind": kind,
        "code": error.code,
        "message": error.message,
        "said": error.said,
        "scopes": list(error.scopes) if isinstance(error, LoginRequired) else [],
        "details": error.details,
        "retryable": error.retryable,
        "in_doubt": error.in_doubt,
        "advice": error.advice,
    }


def failure_from_wire(server: str, data: Mapping[str, Any]) -> UpstreamError:
    """Return the failure that another replica told of."""
    make = next((one for one in _FAILURES if one.code == data["kind"]), UpstreamError)
    error = make(server, str(data["message"]), said=str(data.get("said", "")), **data["details"])
    if isinstance(error, LoginRequired):
        error.scopes = tuple(map(str, data.get("scopes", ())))
    error.code, error.advice = str(data["code"]), str(data["advice"])
    error.retryable, error.in_doubt = bool(data["retryable"]), bool(data["in_doubt"])
    return error


def rpc_error_to_wire(error: RpcError) -> dict[str, Any]:
    """Return the whole of an error; `RpcError.to_wire` may word some for hosts."""
    return {"code": error.code, "message": error.message, "data": error.data, "more": dict(error.more)}


def rpc_error_from_wire(data: Mapping[str, Any]) -> RpcError:
    """Return the error that another replica told of."""
    return RpcError(data["code"], data["message"], data["data"], data["more"])


async def lines(parts: AsyncIterator[bytes]) -> AsyncIterator[dict[str, Any]]:
    """Yield the messages of a stream that has one on each line.

    Raises:
        ResultsFull: there is no room for one.
        ValueError: one is not JSON.
    """
    rest = bytearray()
    async for part in parts:
        rest += part
        *whole, last = rest.split(b"\n") if b"\n" in part else (rest,)
        rest = bytearray(last)
        for one in whole:
            hold(len(one))
            yield decode(bytes(one), inf)


def line(message: Mapping[str, Any]) -> bytes:
    """Return a message as a line of a stream.

    Raises:
        TooDeep: it cannot be written.
    """
    return encode(message) + b"\n"
