"""The steps of a call in its record: what is noted of attempts, and what is not."""

import pytest

from aggregator.domain.call_record import Attempt, CallRecord, RecordedCaller, TraceContext
from aggregator.domain.errors import UpstreamRpcError, UpstreamUnavailable
from aggregator.gateway.recording.timing import attempted, timed


def record() -> CallRecord:
    return CallRecord(
        TraceContext("a" * 32, "b" * 16),
        1.0,
        RecordedCaller("shop", "http"),
        "crm.get",
        arguments={"to": "Ada Lovelace"},
    )


def test_an_attempt_that_was_answered_at_once_leaves_its_time_alone() -> None:
    call = record()
    with attempted(call, "crm"):
        pass
    assert [step.name for step in call.steps] == ["upstream"]
    assert call.sending.attempts == ()


def test_what_failed_and_what_came_after_it_is_told() -> None:
    """E13: each attempt by its place among the steps, with its server; a failure is one sentence of bounded length."""
    call = record()
    with timed(call, "policy"):
        pass
    with pytest.raises(UpstreamUnavailable), attempted(call, "crm"):
        raise UpstreamUnavailable("crm", "crm is not connected. " + "so it is " * 100 + "x" * 1000)
    with attempted(call, "erp"):
        pass
    first, second = call.sending.attempts
    assert (first.step, first.server, second) == (1, "crm", Attempt(2, "erp", None))
    assert first.failure is not None
    assert first.failure.startswith("crm is not connected. so it is ")
    assert 290 < len(first.failure) <= 300


def test_an_error_of_a_server_is_told_without_the_arguments() -> None:
    """Invariant 5: what a server repeats of the arguments is kept only where `capture` says so."""
    call = record()
    with pytest.raises(UpstreamRpcError), attempted(call, "crm"):
        raise UpstreamRpcError("crm", -32000, "There is no Ada Lovelace here.")
    (only,) = call.sending.attempts
    assert only.failure == "It answered with the error -32000: There is no [argument] here."


def test_a_bug_says_nothing_of_its_insides() -> None:
    call = record()
    with pytest.raises(ValueError, match="secret"), attempted(call, "crm"):
        raise ValueError("secret")
    assert call.sending.attempts[0].failure == "ValueError"
