"""The words of a record about an attempt that failed: for operators, who read why another tool had to answer."""

import asyncio
from typing import Final

import pytest

from aggregator.domain.errors import UpstreamRpcError, UpstreamUnavailable
from aggregator.gateway.recording.timing import attempted
from tests.audit.logs import make_call

REASONS: Final[dict[str, tuple[BaseException, str]]] = {
    "cancelled": (asyncio.CancelledError(), "The call was cancelled."),
    "an error of ours": (UpstreamUnavailable("crm", "crm is not connected."), "crm is not connected."),
    "an error of the server": (
        UpstreamRpcError("crm", -32000, "no rows"),
        "It answered with the error -32000: no rows",
    ),
    "a bug": (KeyError("secret"), "KeyError"),
}


@pytest.mark.parametrize("kind", REASONS)
def test_an_attempt_that_failed_says_why(kind: str) -> None:
    """Proves: E13. In a sentence; an error of another kind by its class only, since its text may have values."""
    error, said = REASONS[kind]
    record = make_call()
    with pytest.raises(type(error)), attempted(record, "crm"):
        raise error
    (attempt,) = record.sending.attempts
    assert (attempt.server, attempt.failure) == ("crm", said)
    with attempted(record, "crm_b"):
        pass
    assert [one.failure for one in record.sending.attempts] == [said, None]
