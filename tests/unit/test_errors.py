"""Errors on the wire: each by whose fault it is, and nothing of our insides."""

import json
from typing import Any

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
    HostError,
    OperatorError,
    RpcError,
    UnknownTool,
    UpstreamBadAnswer,
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

from .strategies import json_values

UPSTREAM: dict[type[UpstreamError], tuple[str, bool]] = {
    UpstreamUnavailable: ("upstream_unavailable", True),
    UpstreamTimeout: ("upstream_timeout", True),
    UpstreamLost: ("outcome_unknown", False),
    UpstreamBadAnswer: ("upstream_bad_answer", False),
    UpstreamHttpStatus: ("upstream_http_error", True),
    UpstreamRefused: ("upstream_refused", False),
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


@pytest.mark.parametrize("kind", UPSTREAM)
def test_the_same_failure_outside_a_call_is_an_internal_error_that_names_the_server(kind: type[UpstreamError]) -> None:
    error = kind("github", "github is away.")
    assert to_wire(error) == {"code": INTERNAL_ERROR, "message": "github is away.", "data": error.to_object()}


def test_every_upstream_error_is_in_the_table() -> None:
    assert set(UpstreamError.__subclasses__()) == set(UPSTREAM)
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
