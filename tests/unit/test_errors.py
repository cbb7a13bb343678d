"""Errors on the wire: each by whose fault it is, and nothing of our insides."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import given

from aggregator.domain.errors import (
    ERROR_META_KEY,
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    MISSING_CAPABILITY,
    UNSUPPORTED_VERSION,
    AggregatorError,
    CallRefused,
    CheckCut,
    HostError,
    OperatorError,
    OverLimit,
    ResultsFull,
    RpcError,
    UnknownTool,
    UpstreamBadAnswer,
    UpstreamBusy,
    UpstreamError,
    UpstreamHttpStatus,
    UpstreamLost,
    UpstreamRefused,
    UpstreamRpcError,
    UpstreamTimeout,
    UpstreamUnavailable,
    to_tool_result,
    to_wire,
)
from aggregator.domain.missing import InsufficientScope, LoginRequired, SkillMismatch
from aggregator.schemas.refusal import input_refusal, output_refusal

from .strategies import json_values

UPSTREAM: dict[type[UpstreamError], tuple[str, bool]] = {
    UpstreamUnavailable: ("upstream_unavailable", True),
    UpstreamTimeout: ("upstream_timeout", False),
    UpstreamLost: ("outcome_unknown", False),
    UpstreamBadAnswer: ("upstream_bad_answer", False),
    UpstreamHttpStatus: ("upstream_http_error", False),
    UpstreamRefused: ("upstream_refused", False),
    SkillMismatch: ("skill_mismatch", True),
    LoginRequired: ("login_required", True),
}


@pytest.mark.parametrize("kind", UPSTREAM)
def test_an_upstreams_failure_is_a_result_a_model_can_act_on(kind: type[UpstreamError]) -> None:
    """Proves: A7"""
    code, retryable = UPSTREAM[kind]
    result = to_tool_result(kind("github", "github is away.", state="reconnecting"))
    assert result["isError"] is True
    (block,) = result["content"]
    assert block["type"] == "text"
    assert block["text"].startswith("github is away. ")
    assert ("try again" in block["text"]) == retryable
    assert result["_meta"] == {
        ERROR_META_KEY: {
            "code": code,
            "server": "github",
            "message": "github is away.",
            "retryable": retryable,
            "state": "reconnecting",
        }
    }


def every(kind: type[Any]) -> Iterator[type[Any]]:
    """A class and all that are below it."""
    yield kind
    for below in kind.__subclasses__():
        yield from every(below)


def upstream_errors() -> Iterator[UpstreamError]:
    """Every error of an upstream in every form that it takes."""
    for kind in every(UpstreamError):
        if kind is UpstreamBusy:
            yield kind("s", 5)
            continue
        if kind is ResultsFull:
            yield kind("s")
            continue
        for status in (None, 400, 404, 422, 429, 500, 502, 503, 504):
            if status is not None and kind is not UpstreamHttpStatus:
                continue
            for harmless, begun in ((True, True), (True, False), (False, True), (False, False)):
                made = kind("s", "It failed.", **({} if status is None else {"status": status}))
                made.settle(harmless=harmless, begun=begun)
                yield made
    yield UpstreamUnavailable.for_good("s", "s is gone.")


def refusals() -> Iterator[CallRefused]:
    """Every refusal of a call, with and without a time to wait for."""
    for kind in every(CallRefused):
        if kind is InsufficientScope:
            yield kind("s.t", "It was not called.", ("files:write",))
            continue
        yield kind("s.t", "It was not called.", "it took too long") if kind is CheckCut else kind("s.t", "No.")
    yield OverLimit("s.t", "It was not called. Wait 3 s.", retry_after=3)


# What invites to another call, and what warns of one.
INVITES: Final = re.compile(r"may try again|call again|same call again|Wait \d")
WARNS: Final = re.compile(r"[Dd]o not (simply )?repeat|use another tool|cannot be done")


def test_what_may_be_tried_again_says_so() -> None:
    """D7: the text for the model and the mark for programs say the same, of every error there is."""
    results = [to_tool_result(error) for error in upstream_errors()] + [one.to_result() for one in refusals()]
    results += [input_refusal("s.t", [], {}, {}), output_refusal("s.t", [], {"content": []})]
    codes = set()
    for result in results:
        error, text = result["_meta"][ERROR_META_KEY], result["content"][0]["text"]
        codes.add(error["code"])
        assert isinstance(error["retryable"], bool), error
        assert (INVITES.search(text) is not None) is error["retryable"], (text, error)
        assert not (WARNS.search(text) is not None and error["retryable"]), (text, error)
    assert {"upstream_busy", "approval_pending", "limit_reached", "invalid_output", "outcome_unknown"} <= codes


@pytest.mark.parametrize("kind", UPSTREAM)
def test_the_same_failure_outside_a_call_is_an_internal_error_that_names_the_server(kind: type[UpstreamError]) -> None:
    error = kind("github", "github is away.")
    assert to_wire(error) == {"code": INTERNAL_ERROR, "message": "github is away.", "data": error.to_object()}


def test_every_upstream_error_is_in_the_table() -> None:
    assert set(UpstreamError.__subclasses__()) == {*UPSTREAM, ResultsFull}
    assert issubclass(UpstreamError, AggregatorError)
    assert issubclass(OperatorError, AggregatorError)


@pytest.mark.parametrize(
    "error",
    [
        KeyError("/home/someone/secret"),
        RuntimeError("token=abcdef"),
        OperatorError("/etc/aggregator.json"),
        TimeoutError(),
        AggregatorError("inside"),
        RecursionError("deep"),
    ],
)
def test_a_bug_of_ours_says_nothing_of_its_insides(error: Exception) -> None:
    assert to_wire(error) == {"code": INTERNAL_ERROR, "message": "Internal error in the aggregator; its log says more."}


@given(json_values())
def test_an_upstreams_own_error_is_relayed_whole(data: Any) -> None:
    """Proves: C12"""
    wire = to_wire(UpstreamRpcError("github", -32000, "no such repository", data))
    expected = {"code": -32000, "message": "no such repository"}
    assert wire == (expected if data is None else {**expected, "data": data})


def test_a_missing_capability_is_relayed() -> None:
    """It is the host that could declare it."""
    data: dict[str, Any] = {"requiredCapabilities": {"elicitation": {}}}
    assert to_wire(UpstreamRpcError("github", MISSING_CAPABILITY, "needs a form", data))["code"] == MISSING_CAPABILITY


@pytest.mark.parametrize("code", [HEADER_MISMATCH, UNSUPPORTED_VERSION])
def test_an_error_about_our_hop_is_never_taken_for_the_hosts(code: int) -> None:
    """What we put in headers and which version we spoke is none of the host's doing."""
    wire = to_wire(UpstreamRpcError("github", code, "wrong", {"supported": []}))
    assert wire["code"] == INTERNAL_ERROR
    assert "github" in wire["message"]
    assert wire["data"] == {"server": "github", "error": {"code": code, "message": "wrong", "data": {"supported": []}}}


@pytest.mark.parametrize(
    ("error", "wire"),
    [
        (RpcError(5, "m"), {"code": 5, "message": "m"}),
        (RpcError(5, "m", 0), {"code": 5, "message": "m", "data": 0}),
        (RpcError(5, "m", {}), {"code": 5, "message": "m", "data": {}}),
        (HostError(INVALID_PARAMS, "m", [1]), {"code": INVALID_PARAMS, "message": "m", "data": [1]}),
    ],
)
def test_an_error_object(error: RpcError, wire: dict[str, Any]) -> None:
    assert to_wire(error) == wire
    assert str(error) == wire["message"]


@pytest.mark.parametrize(
    ("nearest", "message"),
    [
        ([], "Unknown tool: 'a.b'."),
        (["a.c"], "Unknown tool: 'a.b'. Did you mean 'a.c'?"),
        (["a.c", "x.b"], "Unknown tool: 'a.b'. Did you mean 'a.c' or 'x.b'?"),
    ],
)
def test_an_unknown_tool(nearest: list[str], message: str) -> None:
    """Proves: F2"""
    wire = to_wire(UnknownTool("a.b", nearest))
    assert wire == {"code": INVALID_PARAMS, "message": message, "data": {"name": "a.b", "nearest": nearest}}
    json.dumps(wire)
