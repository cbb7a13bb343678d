"""What the format of a log line cuts is looked through before it is cut: half a secret is recognised by nobody."""

import logging
from typing import Any

import pytest

from aggregator.cli.runtime.logs import LogFormatter
from aggregator.redaction.log_messages import message_of
from aggregator.redaction.redactor import REDACTED, Redactor

SECRET = "correct-horse-battery-staple"


def record(message: str, *values: Any) -> logging.LogRecord:
    return logging.LogRecord("aggregator.x", logging.INFO, __file__, 1, message, values, None)


@pytest.mark.parametrize("value", [SECRET, SECRET.encode(), {"key": SECRET}, ["of", {"deep": SECRET}]])
@pytest.mark.parametrize("message", ["it says %.20s", "it says %.12r", "%.4s"])
def test_no_half_of_a_secret_is_shown(message: str, value: Any) -> None:
    """Proves: D1, D9."""
    told = message_of(record(message, value), Redactor([SECRET]))
    assert "corr" not in told
    assert LogFormatter([SECRET], as_json=False).format(record(message, value)).endswith(told)


@pytest.mark.parametrize("message", ["it says %.8000s", "it says %.8000r"])
@pytest.mark.parametrize("shift", range(0, len(SECRET), 7))
def test_a_long_value_full_of_secrets_shows_no_half_of_one(message: str, shift: int) -> None:
    """Proves: D1, D9. What is searched of it may end in the middle of a secret."""
    told = message_of(record(message, "." * shift + f"{SECRET} " * 3_000), Redactor([SECRET]))
    assert REDACTED in told
    assert "corr" not in told


def test_what_is_not_cut_is_written_as_ever() -> None:
    """D9: Numbers have a precision too, and what fits stays whole."""
    redact = Redactor([SECRET])
    assert message_of(record("%d of %.2f, %s", 3, 4.125, "x"), redact) == "3 of 4.12, x"
    assert message_of(record("%.100s and %(a)s"), redact) == "%.100s and %(a)s"
    assert message_of(record("%(a).3s", {"a": "abcdef"}), redact) == "abc"
    assert message_of(record("%.200s", f"a {SECRET} b"), redact) == f"a {REDACTED} b"
    with pytest.raises(TypeError):
        message_of(record("%.3s %s", "one"), redact)
