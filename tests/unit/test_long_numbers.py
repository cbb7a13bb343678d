"""Numbers that take their reader long count as several values (`wire.values`)."""

import pytest

from aggregator.wire.codec import decode_received
from aggregator.wire.values import VALUES_AT_MOST, TooManyValues

LONG = {
    "whole": b"7" * 4200,
    "with an exponent": b"1.7777777777777777777777e-300",
    "with digits on both sides": b"1234567890123.1234567890123E-300",
}


def listed(number: bytes, times: int) -> bytes:
    return b"[" + b",".join([number] * times) + b"]"


@pytest.mark.parametrize("kind", LONG)
def test_many_of_them_are_refused(kind: str) -> None:
    with pytest.raises(TooManyValues):
        decode_received(listed(LONG[kind], 100_000 if kind != "whole" else 14_000), "s", VALUES_AT_MOST)


@pytest.mark.parametrize("number", [*LONG.values(), b'"' + b"7" * 4200 + b'"'])
def test_a_few_are_not(number: bytes) -> None:
    text = b'{"text":"' + b"x" * 1_000_000 + b'","numbers":' + listed(number, 1_000) + b"}"
    assert len(decode_received(text, "s", VALUES_AT_MOST)["numbers"]) == 1_000


@pytest.mark.parametrize("number", [b"0.1234567890123456", b"1.7777777777777777777777777777", b'"%b"' % (b"7" * 100)])
def test_what_is_read_quickly_is_one_value(number: bytes) -> None:
    assert len(decode_received(listed(number, 200_000), "s", VALUES_AT_MOST)) == 200_000
